"""Model files on the command line: those of `atoll fit`, and those of `save_model` in Python."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from atoll.core.extras import import_extra
from atoll.core.shown import shortened

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray

    from atoll.estimators.persistence import ModelBundle


BATCH = 5000  # rows predicted at once: each batch holds a kernel matrix against the training rows
NEAR = 0.8  # how similar two names are if one is a slip for the other
_WHOLE = re.compile(r"(0|-?[1-9]\d*)(\.0)?")  # a number, and no code such as 007


def open_model(
    path: Path, frame: pd.DataFrame | None = None, target: str | None = None
) -> ModelBundle:
    """Return the model of a file, together with how a table becomes its features.

    Parameters
    ----------
    path : of a file that `atoll fit` or `save_model` wrote
    frame : a table for the model; for a model saved from Python it says which columns to take, and
        is required
    target : column of labels; None: that of the fit
    """
    from sklearn.utils.validation import check_is_fitted

    from atoll.estimators.persistence import ModelBundle, load_model

    found = load_model(path)
    if isinstance(found, ModelBundle):
        if target is not None and target in found.preprocessing.columns:
            raise ValueError(
                f"--target {shlex.quote(target)}: the model learns from this column; name that of "
                "the labels."
            )
        return found if target is None else found._replace(target=target)
    if not hasattr(found, "predict_proba"):
        raise ValueError(
            f"{str(path)!r} holds a model of type {type(found).__name__}, which predicts no "
            "classes; use it from Python, with atoll.load_model."
        )
    check_is_fitted(found)
    if frame is None:
        raise ValueError(
            f"{str(path)!r} holds {type(found).__name__} saved from Python, without the rows it "
            "was fitted on; name a table of them and its column of labels: --data FILE --target "
            "COLUMN."
        )
    return _of_python(found, path, frame, target)


def check_labels(bundle: ModelBundle, frame: pd.DataFrame) -> None:
    """Raise a ValueError unless the table has the column of labels."""
    if bundle.target not in frame.columns:
        refuse_near_target(bundle, frame)
        raise ValueError(
            f"the table has no column {bundle.target!r} of labels; name it with --target."
        )


def refuse_near_target(bundle: ModelBundle, frame: pd.DataFrame) -> None:
    """Raise a ValueError if the column of labels is missing and another has nearly its name.

    Columns that the model learns from do not count: they are not labels.
    """
    from atoll.core.near_names import near_name

    if bundle.target in frame.columns:
        return
    others = [name for name in frame.columns if name not in bundle.preprocessing.columns]
    meant = near_name(bundle.target, others, NEAR)
    if meant is not None:
        raise ValueError(
            f"the table has no column {bundle.target!r} of labels; did you mean {meant!r}? Name it "
            f"with --target {shlex.quote(meant)}."
        )


def rows_and_labels(bundle: ModelBundle, frame: pd.DataFrame) -> ModelBundle:
    """Return the bundle with the rows and the labels of a table in place of those of the fit."""
    from atoll.core.blank_rows import known_rows
    from atoll.core.preprocessing import apply, blank_cells, text_beginnings
    from atoll.core.table_refusals import require_known_columns

    require_known_columns(bundle.preprocessing.columns, frame)
    check_labels(bundle, frame)
    known = known_rows(frame, bundle.preprocessing.columns)
    frame = known.frame
    X, y = apply(bundle.preprocessing, frame), labels_of(bundle, frame)
    assert y is not None
    blank = blank_cells(bundle.preprocessing, frame)
    if bundle.ids is not None and len(bundle.ids) != len(frame):  # of other rows
        bundle = bundle._replace(ids=None, id_column="")
    texts = text_beginnings(bundle.preprocessing, frame)
    return bundle._replace(X=X, y=y, blank=blank, rows=known.numbers, texts=texts)


def known_words(
    bundle: ModelBundle, frame: pd.DataFrame, source: Path | bytes, more: Sequence[str] = ()
) -> tuple[pd.DataFrame, list[str]]:
    """Return the table with words such as NA as labels where they are classes of the model.

    The second item is what to say of other such words, which are read as blank cells.

    Parameters
    ----------
    source : what the table was read from
    more : other classes that it may have
    """
    from atoll.core.null_words import about_words, with_words

    names = [name for name in bundle.estimator.classes_.tolist() if isinstance(name, str)]
    found = with_words(frame, source, bundle.target, [*names, *more])
    return found.frame, about_words(found, bundle.target, "fit with --unlabelled none")


def labels_of(bundle: ModelBundle, frame: pd.DataFrame) -> NDArray[Any] | None:
    """Return the labels of a table in the type of the model's classes, None where blank.

    None where the table has no such column.
    """
    import numpy as np

    from atoll.core.labels import read_target

    if bundle.target not in frame.columns:
        return None
    classes = bundle.estimator.classes_
    markers = markers_of_model(bundle)
    found = read_target(frame[bundle.target])
    out = np.full(len(frame), None, dtype=object)
    for i, label in enumerate(found.tolist()):
        label = None if label is None else in_type_of(classes, label)
        out[i] = None if label in markers else label
    return out


def markers_of_model(bundle: ModelBundle) -> list[Any]:
    """Return the labels besides blank cells that mean unlabelled, in the type of the classes."""
    from atoll.core.markers import markers_of

    found = bundle.unlabelled
    if found is None:  # a model saved from Python, or an older file
        found = list(markers_of(getattr(bundle.estimator, "unlabelled_", None)))
    classes = bundle.estimator.classes_
    typed = [in_type_of(classes, one) for one in found if one is not None]
    return [one for one in typed if one not in classes.tolist()]


def refuse_words(bundle: ModelBundle, labels: NDArray[Any]) -> None:
    """Raise a ValueError where a label is a word, and the model's classes are none."""
    if isinstance(bundle.estimator.classes_[0], str):
        return
    for label in labels:
        if isinstance(label, str):
            word = shlex.quote(label)
            raise ValueError(
                f"the column {bundle.target!r} has the word {label!r}, and the classes are "
                f"{shortened([str(name) for name in bundle.estimator.classes_])}: leave such cells "
                f"blank, or fit with --unlabelled {word} if that means unlabelled."
            )


def in_type_of(classes: NDArray[Any], label: Any) -> Any:
    """Return a label that was read from a table in the type of the model's classes.

    One word in a column of numbers or of truth values makes text of all of it.

    Examples
    --------
    >>> import numpy as np
    >>> [in_type_of(np.array([0, 1]), label) for label in ("1", "1.0", "?", "01")]
    [1, 1, '?', '01']
    >>> in_type_of(np.array([False, True]), "TRUE"), in_type_of(np.array(["1", "2"]), 1)
    (True, '1')
    """
    if isinstance(classes[0], str):
        return str(label)
    if not isinstance(label, str):
        return label
    if classes.dtype.kind == "b":
        return {"true": True, "false": False}.get(label.lower(), label)
    if classes.dtype.kind not in "iuf":  # dates, which older model files may have
        return next((name for name in classes.tolist() if str(name) == label), label)
    number = _WHOLE.fullmatch(label)
    return label if number is None else int(number[1])


def as_fitted(estimator: Any, X: NDArray[np.float64]) -> Any:
    """Return rows with names of columns, if the model was fitted with names."""
    names = getattr(estimator, "feature_names_in_", None)
    return X if names is None else import_extra("pandas").DataFrame(X, columns=names)


def predicted_proba(estimator: Any, X: Any, bar: Any) -> NDArray[np.float64]:
    """Return the class probabilities of rows, dense or sparse; (m, p) -> (m, K).

    Parameters
    ----------
    bar : a progress bar, which counts rows
    """
    import numpy as np

    from atoll.core.fillings import part_of

    parts = []
    for start in range(0, X.shape[0], BATCH):
        rows = as_fitted(estimator, part_of(X, slice(start, start + BATCH)))
        parts.append(estimator.predict_proba(rows))
        bar.update(len(parts[-1]))
    return np.concatenate(parts)


def _of_python(found: Any, path: Path, frame: pd.DataFrame, target: str | None) -> ModelBundle:
    import numpy as np
    from sklearn.pipeline import Pipeline

    from atoll.core.preprocessing import Preprocessing
    from atoll.estimators.persistence import ModelBundle
    from atoll.estimators.tables import TablePreprocessor

    estimator = found
    if isinstance(found, Pipeline) and isinstance(found[0], TablePreprocessor):
        estimator = found[1:] if len(found.steps) > 2 else found[-1]
        preprocessing = found[0].preprocessing_
    else:
        columns = _columns(found, path, frame, target)
        p = len(columns)
        preprocessing = Preprocessing(columns, {}, columns, np.zeros(p), np.ones(p), False)
    none = np.empty((0, len(preprocessing.features)))
    return ModelBundle(
        estimator, preprocessing, none, np.empty(0, object), target or "label", "", ""
    )


def _columns(found: Any, path: Path, frame: pd.DataFrame, target: str | None) -> tuple[str, ...]:
    """Return the columns of a table that a model saved from Python takes."""
    types = import_extra("pandas.api.types")
    names = getattr(found, "feature_names_in_", None)
    if names is not None:
        return tuple(str(name) for name in names)
    usable = [
        name
        for name in frame.columns
        if name != target and types.is_numeric_dtype(frame[name].dtype)
    ]
    n = found.n_features_in_
    if len(usable) != n and target is None and "label" in usable:
        usable.remove("label")
    if len(usable) != n:
        raise ValueError(
            f"{str(path)!r} was fitted on {n} columns without names, and the table has "
            f"{len(usable)} columns of numbers: {', '.join(map(repr, usable))}. Leave the same "
            f"{n} in the table, in their order, or fit the model on a data frame."
        )
    return tuple(usable)


def refuse_fitted_table(bundle: ModelBundle, out: Path | None) -> None:
    """Raise a ValueError if a table to write is, by its name, the one that the model was fitted on.

    A model file knows the name of that table, but not the folder it was in.
    """
    if out is not None and bundle.source and out.name == bundle.source and out.exists():
        raise ValueError(
            f"{str(out)!r} would be overwritten, and has the name of the table that the model was "
            "fitted on; name another file with --out."
        )
