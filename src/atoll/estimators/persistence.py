"""Models in files that hold data alone: loading one runs no code from it.

A model file is one header line, which names the format, the version of atoll that wrote it and the
checksum of what follows, and then a skops archive: arrays, and a schema in JSON. In the schema our
own objects go by stable names, `atoll.estimators.saved_types.TYPES`; those of scikit-learn and of
users by the module and name of their type, and skops rebuilds only types that are trusted by name.
If there are none of these, skops is not imported.
"""

from __future__ import annotations

import hashlib
import inspect
import io
import json
import os
import re
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

from numpy.typing import NDArray
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from atoll import __version__
from atoll.core.files import atomic_path
from atoll.core.memory import check_memory
from atoll.core.near_names import no_file
from atoll.core.overwriting import LEARNER, MODEL, check_output
from atoll.core.preprocessing import Preprocessing, with_fillings
from atoll.estimators import saved_format_1
from atoll.estimators.far_rows import OfEveryRow
from atoll.estimators.saved_arrays import packed
from atoll.estimators.saved_plain import NotPlain, is_plain, plain_model, plain_parts
from atoll.estimators.saved_records import REBUILDING, from_records, to_records
from atoll.estimators.saved_types import UnreadableRecord, present_layout
from atoll.estimators.shell import Estimator

FORMAT = 2
"""Goes up by one when the format changes so that an older atoll cannot read it."""

MAX_BYTES = 8 * 2**30
"""Most bytes that a model file may unpack to, unless the reader of the file allows more."""

TRUSTED_TYPES: tuple[str, ...] = (
    REBUILDING,
    "datetime.date",
    "decimal.Decimal",
    "numpy.dtype",  # told by an empty array
    "pandas.Interval",  # a class of pandas.cut
    "scipy.sparse._csr.csr_array",  # told by its arrays
    "scipy.sparse._csr.csr_matrix",
    "sklearn.compose._column_transformer.make_column_selector",
    "sklearn.gaussian_process.kernels.ConstantKernel",
    "sklearn.gaussian_process.kernels.DotProduct",
    "sklearn.gaussian_process.kernels.Exponentiation",
    "sklearn.gaussian_process.kernels.ExpSineSquared",
    "sklearn.gaussian_process.kernels.Matern",
    "sklearn.gaussian_process.kernels.PairwiseKernel",
    "sklearn.gaussian_process.kernels.Product",
    "sklearn.gaussian_process.kernels.RBF",
    "sklearn.gaussian_process.kernels.RationalQuadratic",
    "sklearn.gaussian_process.kernels.Sum",
    "sklearn.gaussian_process.kernels.WhiteKernel",
    "sklearn.metrics._scorer._PassthroughScorer",
    "sklearn.model_selection._split.GroupKFold",
    "sklearn.model_selection._split.KFold",
    "sklearn.model_selection._split.StratifiedKFold",
    "sklearn.utils._bunch.Bunch",
)
"""What skops may rebuild beyond plain data, NumPy arrays and scikit-learn's estimators."""

_MAGIC = b"atoll model, "
_HEADER = re.compile(
    rb"atoll model, format (\d{1,6}), atoll ([\w.+-]{1,40}), sha256 ([0-9a-f]{64})\n"
)
_LONGEST_HEADER = 160
_SCHEMA = "schema.json"
_LARGE = 2**20  # larger arrays are compressed less, in a quarter of the time

# What skops, zipfile and the rebuilding of objects may raise on a damaged file.
_REBUILDING_ERRORS = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    LookupError,
    TypeError,
    AttributeError,
    ValueError,
    ArithmeticError,
    ImportError,
    RuntimeError,
    MemoryError,
    SyntaxError,  # NumPy reads the header of an array as an expression
    tokenize.TokenError,
)


_CHANGING = ("fit", "partial_fit", "set_params")  # methods that would change the classifier alone


class ModelBundle(NamedTuple):
    """A fitted classifier with the table it was fitted on: what `atoll fit` saves.

    It has the classifier's methods and attributes besides its own; methods that take rows take
    tables with the columns of the fit.

    estimator : a fitted classifier
    preprocessing : how a table becomes features
    X : (n, p) features, prepared; sparse where a column holds texts
    y : (n,) labels, None where unlabelled
    target : name of the column of labels
    atoll_version, created : what wrote it and when (ISO 8601, UTC)
    source, source_date : name of the table's file, and when that was last changed (ISO 8601, UTC)
    id_column, ids : column that names the rows, and its cells (n,); "" and None if there is none
    blank : (k, 2) rows, and columns in the order of `preprocessing.columns`, of cells that were
        blank; None where that is not known, as in older files
    rows : (n,) numbers of the rows in the table, from 1 on; None where the fit left none out
    texts : (n,) how the texts of each row begin, for reports; None where no column holds texts, and
        in older files
    options : of the command that fitted it, each with its value, such as ["--drop", "name"],
        without those for files, the column of labels and what is shown. None if they are not known,
        as in older files
    unlabelled : labels besides blank cells that meant unlabelled in the fit; None if they are not
        known, as in older files
    """

    estimator: Any
    preprocessing: Preprocessing
    X: Any
    y: NDArray[Any]
    target: str
    atoll_version: str
    created: str
    source: str = ""
    source_date: str = ""
    id_column: str = ""
    ids: NDArray[Any] | None = None
    blank: NDArray[Any] | None = None
    rows: NDArray[Any] | None = None
    texts: NDArray[Any] | None = None
    options: list[list[str]] | None = None
    unlabelled: list[Any] | None = None

    def __repr__(self) -> str:
        """Return what the classifier says of itself, and which table it was fitted on."""
        return f"{self.estimator!r}\n{self._about()}"

    def _repr_html_(self) -> str:
        """Return the same for a notebook."""
        said = getattr(self.estimator, "_repr_html_", lambda: escape(repr(self.estimator)))()
        return f"{said}<div>{escape(self._about())}</div>"

    def _about(self) -> str:
        table = f" of {self.source}" if self.source else ""
        return (
            f"The model file of a fit{table}: predicts {self.target!r} of tables with the columns "
            f"{', '.join(self.preprocessing.columns)}; .estimator is the classifier alone."
        )

    def row_number(self, place: int) -> int:
        """Return the number of a row of X in its table, whose first row is row 1."""
        return place + 1 if self.rows is None else int(self.rows[place])

    @property
    def filled_rows(self) -> Any:
        """The rows X, which know what else their blank numbers might have been."""
        if self.blank is None:
            return self.X
        return with_fillings(self.preprocessing, self.X, self.blank)

    def predict(self, X: Any, **options: Any) -> Any:
        """Return the classes of the rows of a table, (m,), as the classifier does.

        Parameters
        ----------
        X : (m, q) data frame with the columns of the fit
        options : of the classifier's method
        """
        return self.estimator.predict(self._features(X), **options)

    def predict_proba(self, X: Any, **options: Any) -> Any:
        """Return the class probabilities of the rows of a table, (m, K), as the classifier does.

        Parameters
        ----------
        X : (m, q) data frame with the columns of the fit
        options : of the classifier's method
        """
        return self.estimator.predict_proba(self._features(X), **options)

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the classifier; methods that take rows take tables here."""
        if name.startswith("_"):
            raise AttributeError(name)
        of_rows = inspect.getattr_static(self.estimator, name, None)
        if isinstance(of_rows, OfEveryRow):
            call = of_rows.instead.replace("(X)", "(model.X)")
            raise AttributeError(
                f"this model file has no {name!r}: its rows, {len(self.y)}, were too many for the "
                f"fit to predict them all. With model = load_model(...), model.estimator.{call} "
                "does; a part such as model.X[:1000] takes less time."
            )
        if name in _CHANGING or not hasattr(self.estimator, name):
            raise AttributeError(
                f"a model file of `atoll fit` has no {name!r} here; the classifier in it, a "
                f"{type(self.estimator).__name__}, is `.estimator`, and takes rows as in `.X`."
            )
        found = getattr(self.estimator, name)
        if (
            not inspect.ismethod(found)
            or next(iter(inspect.signature(found).parameters), "") != "X"
        ):
            return found

        @wraps(found)
        def of_table(X: Any, *arguments: Any, **options: Any) -> Any:
            return found(self._features(X), *arguments, **options)

        return of_table

    def __dir__(self) -> list[str]:
        """Return the names of what there is, the classifier's among them."""
        names = [name for name in dir(self.estimator) if not name.startswith("_")]
        return sorted({*object.__dir__(self), *names} - {*_CHANGING})

    def _features(self, X: Any) -> Any:
        """Return the features of a table's rows, (m, p)."""
        from atoll.estimators.tables import of_preprocessing

        return of_preprocessing(self.preprocessing).transform(X)


def save_model(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted model to `path`, whole or not at all.

    A model that is there already is overwritten, and any other file is refused.

    Parameters
    ----------
    model : estimator or ModelBundle
    path : path
        Any name; it usually ends in `.atoll`.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from sklearn.linear_model import LogisticRegression
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "flowers.atoll"
    >>> save_model(LogisticRegression(C=2.0), path)
    >>> load_model(path).C
    2.0
    """
    _check_model_and_path(model, path)
    check_output(path, MODEL)
    try:
        archive = _zipped(*_schema_and_parts(packed(model)), zipfile.ZIP_DEFLATED)
    except (TypeError, RecursionError) as error:  # an object that skops or we have no form for
        raise ValueError(
            f"the {type(model).__name__} holds an object that cannot be saved as data: "
            f"{str(error).rstrip('.')}."
        ) from error
    digest = hashlib.sha256(archive).hexdigest()
    header = f"atoll model, format {FORMAT}, atoll {__version__}, sha256 {digest}\n"
    with atomic_path(path) as temporary:
        temporary.write_bytes(header.encode("ascii") + archive)


def _schema_and_parts(model: Any) -> tuple[Any, dict[str, bytes]]:
    """Return a model's schema, with records, and the other members of its archive."""
    try:
        return plain_parts(model)
    except NotPlain:
        import skops.io

        schema, parts = _unzipped(skops.io.dumps(model))
        if _has_lambda(schema):
            raise TypeError(
                "a lambda, which has no name to be found by when the file is read; write it with "
                "def in a module of yours, and name it in load_model(path, trusted=[...])"
            ) from None
        schema = to_records(schema, present_layout)
        _check_readable(schema, parts)
        return schema, parts


def _check_readable(schema: Any, parts: dict[str, bytes]) -> None:
    """Raise a TypeError if what skops wrote cannot be read again, whatever types are trusted."""
    import skops.io

    archive = _zipped(from_records(schema), parts)
    strangers = set(skops.io.get_untrusted_types(data=archive)) - {*TRUSTED_TYPES}
    try:
        _by_skops(archive, {*TRUSTED_TYPES, *strangers})
    except _REBUILDING_ERRORS as error:
        what = f"{', '.join(sorted(strangers))}, which" if strangers else "what"
        raise TypeError(f"{what} could not be read again ({error})") from error


def _has_lambda(schema: Any) -> bool:
    """Return whether a node of skops's schema is a function without a name."""
    if isinstance(schema, list):
        return any(map(_has_lambda, schema))
    if not isinstance(schema, dict):
        return False
    if schema.get("__loader__") == "FunctionNode" and schema.get("__class__") == "<lambda>":
        return True
    return any(map(_has_lambda, schema.values()))


def _check_model_and_path(model: Any, path: Any) -> None:
    """Refuse arguments in the wrong order, and a model of the library's that is not fitted."""
    if not isinstance(path, str | os.PathLike):
        swapped = isinstance(model, str | os.PathLike)
        why = "they are swapped" if swapped else f"path={path!r} is not the name of a file"
        raise TypeError(
            f"save_model(model, path) takes the model first and then the name of the file; {why}: "
            + (f"save_model(model, {str(model)!r})." if swapped else 'give one such as "my.atoll".')
        )
    if isinstance(model, str | os.PathLike):
        raise TypeError(f"save_model(model, path): model={model!r} is a name; give a fitted model.")
    if hasattr(model, "query") and hasattr(model, "save"):
        raise ValueError(
            f"{type(model).__name__} has answers to keep, too: save it by its own save(path), and "
            f"take it up with {type(model).__name__}.load(path). Its classifier is estimator_."
        )
    head = model.estimator if isinstance(model, ModelBundle) else model
    head = head.steps[-1][1] if hasattr(head, "steps") else head
    try:
        if isinstance(head, Estimator):
            check_is_fitted(head)
    except NotFittedError:
        raise NotFittedError(
            f"this {type(head).__name__} is not fitted, and a file of it would hold no more than "
            "its parameters; call fit(X, y) before save_model."
        ) from None


def load_model(
    path: str | os.PathLike[str],
    *,
    trusted: Sequence[str | type] = (),
    max_bytes: int = MAX_BYTES,
) -> Any:
    """Read what `save_model` wrote, in this version or an earlier one; run no code from the file.

    Parameters
    ----------
    path : path
    trusted : sequence of str ("package.module.Type") or type, default=()
        Types of your own (a kernel, say) that may be rebuilt, besides ours and scikit-learn's.
    max_bytes : int, default=8 GiB
        A file that would unpack to more is refused before any of it is unpacked.

    Returns
    -------
    estimator or ModelBundle, with predictions identical to the bit on the same machine

    Raises
    ------
    ValueError
        If the file is missing, truncated, changed since it was written, written by a newer
        format, larger than `max_bytes`, no model at all, or holds a type that is not trusted.
    """
    found = read_saved(path, trusted, max_bytes)
    if isinstance(found, dict) and found.get("kind") == LEARNER:
        raise ValueError(
            f"{str(path)!r} holds a loop of labels with its answers, not a model; it goes on with "
            "`atoll next` of its model, or in Python with ActiveLearner.load(path)."
        )
    return found


def read_saved(
    path: str | os.PathLike[str], trusted: Sequence[str | type] = (), max_bytes: int = MAX_BYTES
) -> Any:
    """Return what is in a file of `save_model`, as `load_model` does, be it no model."""
    _check_trusted(trusted)
    name = repr(str(path))
    file_format, writer, archive = _read_archive(Path(path), max_bytes)
    trusted_names = {*TRUSTED_TYPES, *map(_type_name, trusted)}
    try:
        schema, parts = _unzipped(archive)
        schema = _WITH_RECORDS[file_format](schema)
        if is_plain(schema):
            return plain_model(schema, parts)
        archive = _zipped(from_records(schema), parts)
        del parts  # which may be large
        return _by_skops(archive, trusted_names)
    except _Strangers as strangers:
        raise ValueError(
            f"{name} holds objects that atoll does not rebuild from a file: {strangers}. If they "
            "are yours, open it in Python and name their types: load_model(path, trusted=[...]); "
            "if not, do not load the file."
        ) from None
    except UnreadableRecord as error:
        raise ValueError(
            f"{name} holds {error}. It was written by atoll {writer}, and this is atoll "
            f"{__version__}; upgrade atoll to read it."
        ) from None
    except _REBUILDING_ERRORS as error:
        why = " ".join(f"{type(error).__name__}: {error}".split())
        raise ValueError(
            f"{name} cannot be rebuilt ({why}); it says that atoll {writer} wrote it, and this is "
            f"atoll {__version__}. Fit and save the model again."
        ) from error


_NAME_A_MODEL = "name a file made by atoll.save_model or `atoll fit`"
_SAVE_AGAIN = "Copy it again from its source, or fit and save the model again."

_WITH_RECORDS: dict[int, Callable[[Any], Any]] = {
    1: lambda schema: to_records(schema, saved_format_1.layout),
    2: lambda schema: schema,
}


class DamagedFile(ValueError):
    """A file was cut short or changed; `what` says so without the remedy."""

    def __init__(self, what: str):
        super().__init__(f"{what} {_SAVE_AGAIN}")
        self.what = what


class _Strangers(Exception):
    """Types that are not trusted, by name."""


def _by_skops(archive: bytes, trusted: set[str]) -> Any:
    """Return what an archive of skops holds, if all of its types are trusted."""
    import skops.io
    from skops.io.exceptions import UntrustedTypesFoundException

    try:
        return skops.io.loads(archive, trusted=sorted(trusted))
    except UntrustedTypesFoundException:
        found = sorted(set(skops.io.get_untrusted_types(data=archive)) - trusted)
        raise _Strangers(", ".join(found)) from None


def _read_archive(path: Path, max_bytes: int) -> tuple[int, str, bytes]:
    """Format of the file, version of the atoll that wrote it, and the archive.

    The archive agrees with its checksum and unpacks to at most `max_bytes`.
    """
    name = repr(str(path))
    if not path.exists():
        raise ValueError(no_file(path, "model file"))
    if path.is_dir():
        raise ValueError(f"{name} is a folder; name a model file inside it.")
    if not path.is_file():
        raise ValueError(f"{name} is not a regular file; {_NAME_A_MODEL}.")
    with path.open("rb") as file:
        line = file.readline(_LONGEST_HEADER)
        file_format, writer, digest = _read_header(name, line)
        _check_size(name, path.stat().st_size - len(line), max_bytes)
        archive = file.read()
    if hashlib.sha256(archive).hexdigest() != digest:
        raise DamagedFile(f"{name} is damaged: it was cut short or changed after it was written.")
    try:
        with zipfile.ZipFile(io.BytesIO(archive)) as opened:
            members = opened.infolist()
    except zipfile.BadZipFile as error:
        raise DamagedFile(f"{name} is damaged: it holds no archive.") from error
    _check_size(name, sum(member.file_size for member in members), max_bytes)
    return file_format, writer, archive


def _read_header(name: str, line: bytes) -> tuple[int, str, str]:
    """Format, version of the atoll that wrote the file, and checksum."""
    header = _HEADER.fullmatch(line)
    if header is None:
        if _MAGIC.startswith(line[: len(_MAGIC)]) or line.startswith(_MAGIC):
            raise DamagedFile(f"{name} is damaged: its first line is incomplete.")
        raise ValueError(f"{name} is not an atoll model; {_NAME_A_MODEL}.")
    file_format, writer, digest = int(header[1]), header[2].decode(), header[3].decode()
    if file_format not in _WITH_RECORDS:
        raise ValueError(
            f"{name} was written in format {file_format} by atoll {writer}, and this is atoll "
            f"{__version__}, which reads formats up to {FORMAT}; upgrade atoll to read it."
        )
    return file_format, writer, digest


def _check_size(name: str, n_bytes: int, max_bytes: int) -> None:
    if n_bytes > max_bytes:
        raise ValueError(
            f"{name} unpacks to {n_bytes / 2**30:.3g} GiB, more than max_bytes="
            f"{max_bytes / 2**30:.3g} GiB. If you trust where it comes from, raise max_bytes."
        )
    check_memory(
        3 * n_bytes, what=f"the model in {name}", instead="Load it on a machine with more memory."
    )


def _unzipped(archive: bytes) -> tuple[Any, dict[str, bytes]]:
    """Return the schema in an archive, and its other members by their names.

    A member never takes more memory than its declared size.
    """
    parts: dict[str, bytes] = {}
    with zipfile.ZipFile(io.BytesIO(archive)) as opened:
        for member in opened.infolist():
            if member.filename in parts:
                raise ValueError("two parts of the archive have the same name")
            if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise ValueError(f"{member.filename!r} is compressed in a way that is not ours")
            with opened.open(member) as part:
                parts[member.filename] = part.read(member.file_size)
    return json.loads(parts.pop(_SCHEMA)), parts


def _zipped(schema: Any, parts: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> bytes:
    """Return an archive of a schema and its other members."""
    archive = io.BytesIO()
    told = json.dumps(schema, separators=(",", ":")).encode()
    with zipfile.ZipFile(archive, "w", compression) as opened:
        for name, content in (parts | {_SCHEMA: told}).items():
            # Random draws hardly shrink further, however hard one tries.
            quick = 1 if len(content) > _LARGE else None
            opened.writestr(name, content, compresslevel=quick)
    return archive.getvalue()


def _check_trusted(trusted: Any) -> None:
    """Raise a ValueError unless this is a sequence of types."""
    is_one = isinstance(trusted, str | type)
    if not is_one and isinstance(trusted, Iterable):
        return
    shown = trusted.__name__ if isinstance(trusted, type) else repr(trusted)
    fix = f"put it in a list: trusted=[{shown}]" if is_one else "name them: trusted=[MyKernel]"
    raise ValueError(
        f"trusted must be a list of types of your own, or of their names, got {shown}; {fix}."
    )


def _type_name(trusted: str | type) -> str:
    return trusted if isinstance(trusted, str) else f"{trusted.__module__}.{trusted.__qualname__}"
