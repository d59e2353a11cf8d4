"""Tables in files, and the arrays that models are fitted on.

A table is read from CSV or Parquet, its numeric columns are standardised and, on request, its
categorical ones are encoded; `Preprocessing` remembers how, so that new rows are treated alike.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from atoll.core.extras import import_extra
from atoll.core.files import atomic_path

if TYPE_CHECKING:
    import pandas as pd

MAX_CATEGORIES = 100
"""A column with more distinct values than this is not encoded: it names rows, not groups."""

_PACKAGES = {".csv": ("pandas",), ".parquet": ("pandas", "pyarrow")}


class Preprocessing(NamedTuple):
    """How the columns of a table become the p features of a model: (x - mean) / scale.

    columns : the columns read, in order
    categories : for each encoded column its values, in the order of their indicator features
    features : (p,) names of the features: the column, or "column=value" for an indicator
    mean, scale : (p,) float; 0 and 1 where a feature is left as it is
    standardised : whether the numeric columns are standardised
    """

    columns: tuple[str, ...]
    categories: dict[str, tuple[str, ...]]
    features: tuple[str, ...]
    mean: NDArray[np.float64]
    scale: NDArray[np.float64]
    standardised: bool


class PreparedTable(NamedTuple):
    """What a classifier is fitted on.

    X : (n, p) float
    y : (n,) labels, with None where the target's cell is blank; None if there is no target
    preprocessing : how X was made
    """

    X: NDArray[np.float64]
    y: NDArray[Any] | None
    preprocessing: Preprocessing


def read_table(path: str | os.PathLike[str]) -> pd.DataFrame:
    r"""Read a table from a `.csv` (commas, one header line) or a `.parquet` file.

    Blank cells, and pandas' usual marks such as NA and NaN, are missing values.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "flowers.csv"
    >>> _ = path.write_text("petal,kind\n1.4,setosa\n4.7,\n")
    >>> read_table(path).shape
    (2, 2)
    """
    source = Path(path)
    _table_format(source)
    if not source.exists():
        raise ValueError(f"there is no file {str(source)!r}; check the path.")
    if source.is_dir():
        raise ValueError(f"{str(source)!r} is a folder; name a CSV or Parquet file inside it.")
    frame = _read_csv(source) if _table_format(source) == "csv" else _read_parquet(source)
    frame.columns = frame.columns.map(str)
    if len(frame) == 0:
        raise ValueError(f"{str(source)!r} has no rows; it needs a header and at least one row.")
    return frame


def write_table(frame: pd.DataFrame, path: str | os.PathLike[str]) -> None:
    """Write a table, whole or not at all, in the format of the path's suffix (.csv or .parquet).

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import pandas as pd
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "numbers.parquet"
    >>> write_table(pd.DataFrame({"x": [0.1, 0.2]}), path)
    >>> read_table(path)["x"].tolist()
    [0.1, 0.2]
    """
    target = Path(path)
    kind = _table_format(target)
    with atomic_path(target) as temporary:
        if kind == "csv":
            frame.to_csv(temporary, index=False)
        else:
            frame.to_parquet(temporary, index=False)


def check_table_path(path: str | os.PathLike[str]) -> None:
    """Raise unless the suffix of `path` is one that `write_table` can write here and now."""
    _table_format(Path(path))


def prepare(
    frame: pd.DataFrame,
    target: str | None = None,
    *,
    standardise: bool = True,
    encode: bool = False,
    drop: Sequence[str] = (),
) -> PreparedTable:
    """Turn a table into features and labels.

    Numeric columns (booleans among them) become one feature each, standardised to mean 0 and
    standard deviation 1; a constant column becomes 0. With `encode`, any other column becomes one
    indicator per value, left as 0 and 1; without it, such a column is refused.

    Parameters
    ----------
    frame : DataFrame, (n, q)
    target : str or None, default=None
        The column of labels; its blank cells mark unlabelled rows.
    standardise : bool, default=True
        Whether to standardise numeric columns.
    encode : bool, default=False
        Whether to encode other columns as indicators.
    drop : sequence of str, default=()
        Columns to leave out.

    Returns
    -------
    PreparedTable

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame(
    ...     {"x": [1, 2, 3], "hue": ["red", "blue", "red"], "kind": ["a", None, "b"]}
    ... )
    >>> X, y, preprocessing = prepare(frame, "kind", encode=True)
    >>> preprocessing.features
    ('x', 'hue=blue', 'hue=red')
    >>> X.round(2).tolist(), y.tolist()
    ([[-1.22, 0.0, 1.0], [0.0, 1.0, 0.0], [1.22, 0.0, 1.0]], ['a', None, 'b'])
    """
    repeated = sorted(set(frame.columns[frame.columns.duplicated()]))
    if repeated:
        raise ValueError(f"the table has {_named(repeated)} more than once; rename them.")
    if target is not None:
        _require_columns(frame, [target], "the target column")
        if target in drop:
            raise ValueError(f"column {target!r} is the target and cannot be dropped as well.")
    _require_columns(frame, drop, "the column to drop")
    columns = tuple(name for name in frame.columns if name != target and name not in drop)
    if not columns:
        raise ValueError("no column is left to learn from; keep at least one feature column.")
    categorical = [name for name in columns if not _is_numeric(frame[name])]
    if categorical and not encode:
        raise ValueError(
            f"{_named(categorical)} {_are(categorical)} not numeric; encode such columns as "
            f"indicators (--encode), or leave them out ({_drop_options(categorical)})."
        )
    _refuse_missing(frame, columns)

    categories = {name: _categories(frame[name]) for name in categorical}
    features = _feature_names(columns, categories)
    untouched = Preprocessing(
        columns, categories, features, np.zeros(len(features)), np.ones(len(features)), standardise
    )
    X = _to_features(untouched, frame)
    if standardise:
        mean, scale = _mean_and_scale(X)
        is_indicator = np.isin(features, columns, invert=True)
        mean[is_indicator], scale[is_indicator] = 0.0, 1.0
    else:
        mean, scale = untouched.mean, untouched.scale
    preprocessing = untouched._replace(mean=mean, scale=scale)
    y = None if target is None else read_target(frame[target])
    return PreparedTable((X - mean) / scale, y, preprocessing)


def apply(preprocessing: Preprocessing, frame: pd.DataFrame) -> NDArray[np.float64]:
    """Return features (n, p) of new rows, made as those that the model was fitted on.

    Columns are found by name; any others are ignored (`extra_columns` names them).

    Examples
    --------
    >>> import pandas as pd
    >>> _, _, preprocessing = prepare(pd.DataFrame({"x": [1.0, 3.0]}))
    >>> apply(preprocessing, pd.DataFrame({"x": [2.0, 5.0], "note": ["new", "rows"]})).tolist()
    [[0.0], [3.0]]
    """
    missing = [name for name in preprocessing.columns if name not in frame.columns]
    if missing:
        raise ValueError(
            f"the table lacks {_named(missing)}, which the model was fitted on; "
            f"it has {_named(list(frame.columns))}."
        )
    not_numeric = [
        name
        for name in preprocessing.columns
        if name not in preprocessing.categories and not _is_numeric(frame[name])
    ]
    if not_numeric:
        raise ValueError(
            f"{_named(not_numeric)} {_are(not_numeric)} not numeric, but the model was fitted on "
            "numbers there; correct the cells that are not numbers."
        )
    _refuse_missing(frame, preprocessing.columns)
    for name, known in preprocessing.categories.items():
        unseen = sorted(set(_as_strings(frame[name])) - set(known))
        if unseen:
            raise ValueError(
                f"column {name!r} holds {_listed(unseen)}, which the model has not seen; it knows "
                f"{_listed(known)}. Fit again on rows that have it, or leave those rows out."
            )
    return (_to_features(preprocessing, frame) - preprocessing.mean) / preprocessing.scale


def extra_columns(preprocessing: Preprocessing, frame: pd.DataFrame) -> list[str]:
    """Return the columns of `frame` that `apply` ignores."""
    return [name for name in frame.columns if name not in preprocessing.columns]


def read_target(column: pd.Series) -> NDArray[Any]:
    """Return the labels (n,) of a target column; blank cells become None.

    A blank cell makes pandas read whole numbers as floats; they become integers again, as in the
    file.

    Examples
    --------
    >>> import pandas as pd
    >>> read_target(pd.Series([1.0, None, 2.0])).tolist()
    [1, None, 2]
    """
    pd = import_extra("pandas")
    values = np.array(column.astype(object), dtype=object)
    values[column.isna().to_numpy()] = None
    if pd.api.types.is_float_dtype(column.dtype):
        known = [v for v in values if v is not None]
        if all(np.isfinite(v) and v == int(v) for v in known):
            values = np.array([None if v is None else int(v) for v in values], dtype=object)
    elif not pd.api.types.is_numeric_dtype(column.dtype):
        values = np.array([_label(v) for v in values], dtype=object)
    if any(v is None for v in values):
        return values
    return np.array(values.tolist()) if pd.api.types.is_numeric_dtype(column.dtype) else values


def _table_format(path: Path) -> str:
    suffix = path.suffix.lower()
    if suffix not in _PACKAGES:
        raise ValueError(
            f"{str(path)!r} does not end in .csv or .parquet; tables are read and written in "
            "these two formats."
        )
    for package in _PACKAGES[suffix]:
        import_extra(package)
    return suffix[1:]


def _read_csv(source: Path) -> pd.DataFrame:
    pd = import_extra("pandas")
    try:
        with warnings.catch_warnings():
            # Otherwise rows longer than the header would lose cells with only a warning.
            warnings.simplefilter("error", pd.errors.ParserWarning)
            frame = pd.read_csv(source, index_col=False, low_memory=False)
    except pd.errors.EmptyDataError:
        raise ValueError(f"{str(source)!r} is empty; it needs a header and rows.") from None
    except pd.errors.ParserWarning:
        raise ValueError(f"{str(source)!r} has rows with more cells than its header.") from None
    except (pd.errors.ParserError, UnicodeError) as error:
        raise ValueError(f"{str(source)!r} cannot be read as CSV: {error}") from None
    if len(frame.columns) == 1 and any(mark in frame.columns[0] for mark in ";\t|"):
        raise ValueError(
            f"{str(source)!r} has one column, {frame.columns[0]!r}; separate the columns by commas."
        )
    return frame


def _read_parquet(source: Path) -> pd.DataFrame:
    pd, pyarrow = import_extra("pandas"), import_extra("pyarrow")
    try:
        return pd.read_parquet(source)
    except (pyarrow.ArrowException, OSError) as error:
        raise ValueError(f"{str(source)!r} cannot be read as Parquet: {error}") from None


def _label(value: Any) -> Any:
    if isinstance(value, str):
        value = value.strip()
        return value if value else None
    return value


def _is_numeric(column: pd.Series) -> bool:
    types = import_extra("pandas.api.types")
    return bool(types.is_numeric_dtype(column.dtype)) and not types.is_complex_dtype(column.dtype)


def _as_floats(column: pd.Series) -> NDArray[np.float64]:
    return np.asarray(column.to_numpy(dtype=np.float64, na_value=np.nan), dtype=np.float64)


def _as_strings(column: pd.Series) -> list[str]:
    return [str(value) for value in column]


def _categories(column: pd.Series) -> tuple[str, ...]:
    values = tuple(sorted(set(_as_strings(column))))
    if len(values) > MAX_CATEGORIES:
        raise ValueError(
            f"column {column.name!r} has {len(values)} different values, too many to encode (at "
            f"most {MAX_CATEGORIES}); leave it out (--drop {column.name})."
        )
    return values


def _parts(name: str, categories: dict[str, tuple[str, ...]]) -> tuple[str, ...]:
    """Return the names of the features that one column becomes."""
    if name in categories:
        return tuple(f"{name}={value}" for value in categories[name])
    return (name,)


def _feature_names(
    columns: Sequence[str], categories: dict[str, tuple[str, ...]]
) -> tuple[str, ...]:
    return tuple(part for name in columns for part in _parts(name, categories))


def _to_features(preprocessing: Preprocessing, frame: pd.DataFrame) -> NDArray[np.float64]:
    """Return the features before they are standardised, (n, p)."""
    blocks = []
    for name in preprocessing.columns:
        if name in preprocessing.categories:
            values = np.array(_as_strings(frame[name]), dtype=object)
            blocks += [values == known for known in preprocessing.categories[name]]
        else:
            blocks.append(_as_floats(frame[name]))
    return np.column_stack(blocks).astype(np.float64)


def _mean_and_scale(X: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    constant = X.max(axis=0) == X.min(axis=0)
    # Work in units of the largest entry, so that no square overflows.
    unit = np.abs(X).max(axis=0)
    unit[unit == 0] = 1.0
    mean = np.where(constant, X[0], unit * (X / unit).mean(axis=0))
    scale = np.where(constant, 1.0, unit * (X / unit).std(axis=0))
    # The spread may be lost to rounding next to a huge mean.
    scale[scale == 0] = 1.0
    return mean, scale


def _refuse_missing(frame: pd.DataFrame, columns: Iterable[str]) -> None:
    cells = []
    for name in columns:
        column = frame[name]
        unusable = ~np.isfinite(_as_floats(column)) if _is_numeric(column) else column.isna()
        cells += [(int(row) + 1, name) for row in np.flatnonzero(unusable)]
    if not cells:
        return
    cells.sort(key=lambda cell: cell[0])
    shown = ", ".join(f"row {row} of {name!r}" for row, name in cells[:5])
    more = f" and {len(cells) - 5} more" if len(cells) > 5 else ""
    raise ValueError(
        f"missing or infinite values in the features: {shown}{more} (the first row under the "
        "header is row 1). Fill them in, or leave out the rows or the columns."
    )


def _require_columns(frame: pd.DataFrame, names: Sequence[str], role: str) -> None:
    for name in names:
        if name not in frame.columns:
            close = get_close_matches(name, list(frame.columns), n=1)
            hint = f"did you mean {close[0]!r}?" if close else "its columns are "
            if not close:
                hint += _listed(list(frame.columns)) + "."
            raise ValueError(f"{role} {name!r} is not in the table; {hint}")


def _named(columns: Sequence[str]) -> str:
    return f"column{'s' if len(columns) > 1 else ''} {_listed(columns)}"


def _are(columns: Sequence[str]) -> str:
    return "are" if len(columns) > 1 else "is"


def _listed(values: Sequence[str], most: int = 8) -> str:
    shown = ", ".join(repr(value) for value in values[:most])
    return shown + (f" and {len(values) - most} more" if len(values) > most else "")


def _drop_options(columns: Sequence[str], most: int = 3) -> str:
    shown = " ".join(f"--drop {name}" for name in columns[:most])
    return shown + (" ..." if len(columns) > most else "")
