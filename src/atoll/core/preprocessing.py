"""The columns of a table, and the arrays that models are fitted on.

Numbers are standardised, categories become indicators, texts weighted words, and blank cells are
filled in; `Preprocessing` remembers how, so that new rows are treated alike.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from atoll.core.blank_fill import FEW_VALUES, donors_of, fill_blank, units
from atoll.core.category_words import BLANK, known_words_of, with_truths, words_of
from atoll.core.column_scales import holds_numbers_alone, unlike_scales
from atoll.core.extras import import_extra
from atoll.core.fillings import Fillings, carrying
from atoll.core.labels import read_target
from atoll.core.number_texts import as_numbers, with_numbers
from atoll.core.remarks import warn_user
from atoll.core.table_fixes import SHELL, Fixes
from atoll.core.table_refusals import (
    as_floats,
    columns_in_words,
    is_numeric,
    is_or_are,
    listed,
    refuse_blank,
    refuse_empty,
    refuse_infinite,
    refuse_shared_features,
    require_columns,
    require_known_columns,
)
from atoll.core.tables import N_CELLS
from atoll.core.texts import Words, beginnings, is_text, learn_words, word_rows
from atoll.core.unusable import DATES, fault_of_categories, fault_of_cells, first_words, refuse
from atoll.core.value_spans import Spans, spans_of

if TYPE_CHECKING:
    import pandas as pd

OFTEN_BLANK = 0.05
"""If at least this share of a column's cells is blank, being blank is a feature of its own."""

NEARLY_ALL = 0.9
"""A column of words with at least this share of different cells is remarked on: it groups no rows.
"""

FEWEST_CELLS = 10
"""Cells below which values may well all be different by chance."""

ROWS_A_VALUE = 5
"""Rows that a value must have on average for values to count as few: fewer rows may be chance."""

_ROUNDING = 1e-9


class Preprocessing(NamedTuple):
    """How the columns of a table become the p features of a model: (x - mean) / scale.

    columns : the columns read, in order
    categories : for each encoded column its values, in the order of their indicator features; all
        indicators of a cell with another value are zero
    features : (p,) names of the features other than words of texts: the column, "column=value" for
        an indicator, and "column is blank" for that of blank cells
    mean, scale : (p,) float; 0 and 1 where a feature is left as it is
    standardised : whether the numeric columns are standardised
    fill : medians of numeric columns, for blank cells where there are no donors
    flagged : numeric columns with an indicator of blank cells
    lenient : whether blank cells and unknown categories are accepted; if not, they are refused
    texts : for each column of texts its words, whose features come after all others
    donors : (r, p) features of complete rows, before they are standardised; the blank cells of a
        row are filled in from the donors most like it
    spans : where the values of the numeric columns lie; None in older files
    """

    columns: tuple[str, ...]
    categories: dict[str, tuple[str, ...]]
    features: tuple[str, ...]
    mean: NDArray[np.float64]
    scale: NDArray[np.float64]
    standardised: bool
    fill: dict[str, float] = {}  # noqa: RUF012 - never changed
    flagged: tuple[str, ...] = ()
    lenient: bool = False
    texts: dict[str, Words] = {}  # noqa: RUF012 - never changed
    donors: NDArray[np.float64] = np.empty((0, 0))
    spans: Spans | None = None

    @property
    def names(self) -> list[str]:
        """Names of all features, (p,); a word of a text is "column: word"."""
        words = [f"{name}: {term}" for name, of in self.texts.items() for term in of.names]
        return [*self.features, *words]

    @property
    def numeric(self) -> list[str]:
        """The columns of numbers."""
        return [n for n in self.columns if n not in self.categories and n not in self.texts]


class PreparedTable(NamedTuple):
    """What a classifier is fitted on.

    X : (n, p) float; a sparse array where a column holds texts
    y : (n,) labels, with None where the target's cell is blank; None if there is no target
    preprocessing : how X was made
    """

    X: Any
    y: NDArray[Any] | None
    preprocessing: Preprocessing


def prepare(
    frame: pd.DataFrame,
    target: str | None = None,
    *,
    standardise: bool | str = True,
    encode: bool = True,
    impute: bool = True,
    drop: Sequence[str] = (),
    texts: Sequence[str] = (),
    fixes: Fixes = SHELL,
) -> PreparedTable:
    """Turn a table into features and labels.

    Numeric columns (booleans among them) become one feature each, standardised to mean 0 and
    standard deviation 1; a constant column becomes 0. One of few values, such as a year or a grade,
    is shrunk further, so that two rows are as far apart in it as they would be by indicators:
    otherwise its values would lie so far apart that near rows always share them. Any other column
    becomes one indicator per value, left as 0 and 1. Numbers written as text count as numbers,
    except for a few whole ones, which may be codes of categories.

    A column of long and different texts becomes one feature per word, weighted by how few texts
    have it (TF-IDF), in rows of length one; X is then sparse.

    A blank cell of a numeric column takes the mean of the ten rows most like its own, and of all
    that are as like (the median, if fewer than twenty rows are complete); one of another column has
    zeros for all indicators.
    If at least a twentieth of a column's cells are blank, an indicator says which.

    Parameters
    ----------
    frame : DataFrame, (n, q)
    target : str or None, default=None
        The column of labels; its blank cells mark unlabelled rows.
    standardise : bool or "auto", default=True
        Whether to standardise numeric columns. "auto": if the table holds nothing but numbers, and
        no blank cell, do as `AtollClassifier` does, and standardise all columns alike, but only if
        their ranges are unlike; treat any other table as with True.
    encode : bool, default=True
        Whether to encode other columns as indicators; if not, they are refused.
    impute : bool, default=True
        Whether to fill blank cells in; if not, they are refused.
    drop : sequence of str, default=()
        Columns to leave out.
    texts : sequence of str, default=()
        Columns of texts, besides those that `atoll.core.texts.is_text` recognises.
    fixes : Fixes, default=SHELL
        How errors say what to do.

    Returns
    -------
    PreparedTable

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame(
    ...     {"x": [1, 2, 3], "hue": ["red", "blue", "red"], "kind": ["a", None, "b"]}
    ... )
    >>> X, y, preprocessing = prepare(frame, "kind")
    >>> preprocessing.features
    ('x', 'hue=blue', 'hue=red')
    >>> X.round(2).tolist(), y.tolist()
    ([[-1.22, 0.0, 1.0], [0.0, 1.0, 0.0], [1.22, 0.0, 1.0]], ['a', None, 'b'])
    """
    columns = _columns(frame, target, drop)
    frame = with_numbers(frame, [n for n in columns if n not in texts], known=False)
    found = _usable_texts(frame, columns, texts, encode, fixes)
    categorical = [n for n in columns if n not in found and not is_numeric(frame[n])]
    if categorical and not encode:
        raise ValueError(
            f"{columns_in_words(categorical)} {is_or_are(categorical)} not numeric; encode such "
            f"columns as indicators ({fixes.encode}), or leave them out "
            f"({fixes.drop(categorical)})."
        )
    if not impute:
        refuse_blank(frame, columns, fixes)
    refuse_infinite(frame, columns, fixes)
    refuse_empty(frame, columns, fixes)

    categories = {name: _categories(frame[name], fixes) for name in categorical}
    numeric = [name for name in columns if name not in categories and name not in found]
    fill = {n: float(np.nanmedian(as_floats(frame[n]))) for n in numeric} if impute else {}
    flagged = tuple(n for n in numeric if _often_blank(frame[n]))
    parts = {n: _parts(n, categories, flagged) for n in columns if n not in found}
    refuse_shared_features(parts)
    features = tuple(part for of_column in parts.values() for part in of_column)
    untouched = Preprocessing(
        columns,
        categories,
        features,
        np.zeros(len(features)),
        np.ones(len(features)),
        bool(standardise),
        fill,
        flagged,
        impute,
        {name: learn_words(words_of(frame[name]), name, fixes) for name in found},
    )
    raw = _to_features(untouched, frame)
    untouched = untouched._replace(spans=spans_of(raw[:, [features.index(n) for n in numeric]]))
    if impute:
        untouched = untouched._replace(donors=donors_of(raw))
    X = _without_blanks(untouched, raw)
    as_one = standardise == "auto" and not found and holds_numbers_alone(frame, [target, *drop])
    if as_one:
        standardise = unlike_scales(X)
    if standardise:
        mean, scale = _mean_and_scale(X)
        if not as_one:
            scale /= np.array([_share_of_a_category(x) for x in X.T])
        is_indicator = np.isin(features, columns, invert=True)
        mean[is_indicator], scale[is_indicator] = 0.0, 1.0
    else:
        mean, scale = untouched.mean, untouched.scale
    preprocessing = untouched._replace(mean=mean, scale=scale, standardised=bool(standardise))
    y = None if target is None else read_target(frame[target])
    return PreparedTable(_with_words(preprocessing, frame, (X - mean) / scale), y, preprocessing)


def apply(preprocessing: Preprocessing, frame: pd.DataFrame, fixes: Fixes = SHELL) -> Any:
    """Return features (n, p) of new rows, made as those that the model was fitted on.

    Columns are found by name; any others are ignored (`extra_columns` names them). A row that
    cannot be read raises; `unreadable` says why, row by row. Rows with blank numbers know their
    other fillings: see `with_fillings`.

    Examples
    --------
    >>> import pandas as pd
    >>> _, _, preprocessing = prepare(pd.DataFrame({"x": [1.0, 3.0]}))
    >>> apply(preprocessing, pd.DataFrame({"x": [2.0, 5.0], "note": ["new", "rows"]})).tolist()
    [[0.0], [3.0]]
    """
    require_known_columns(preprocessing.columns, frame)
    frame = with_numbers(frame, preprocessing.numeric, known=True)
    words = [name for name in preprocessing.numeric if not is_numeric(frame[name])]
    truths = {name: _with_truths(preprocessing, frame[name]) for name in words}
    frame = with_numbers(frame.assign(**truths), words, known=True) if words else frame
    not_numeric = [name for name in words if not is_numeric(frame[name])]
    if not_numeric:
        raise ValueError(
            f"{columns_in_words(not_numeric)} {is_or_are(not_numeric)} not numeric, but the model "
            f"was fitted on numbers there{first_words(frame, not_numeric, fixes)}; correct "
            "the cells that are not numbers, or blank them."
        )
    if not preprocessing.lenient:
        refuse_blank(frame, preprocessing.columns, fixes)
        for name, values in unseen(preprocessing, frame).items():
            raise ValueError(
                f"column {name!r} holds {listed(list(values))}, which the model has not seen; it "
                f"knows {listed(preprocessing.categories[name])}. Fit again on rows that have it, "
                "or leave those rows out."
            )
    refuse_infinite(frame, preprocessing.columns, fixes)
    refuse_empty(frame, preprocessing.columns, fixes)
    X = _without_blanks(preprocessing, _to_features(preprocessing, frame))
    X = _with_words(preprocessing, frame, (X - preprocessing.mean) / preprocessing.scale)
    return with_fillings(preprocessing, X, blank_cells(preprocessing, frame))


def with_fillings(preprocessing: Preprocessing, X: Any, blank: NDArray[Any]) -> Any:
    """Return features (n, p) that know what else blank numbers might have been.

    Classifiers average their probabilities over it: see `atoll.core.fillings`. Without donors,
    nothing but the medians is known.

    Parameters
    ----------
    X : (n, p) features, filled in
    blank : (k, 2) rows and columns of blank cells, as `blank_cells` finds them

    Examples
    --------
    >>> import pandas as pd
    >>> from atoll.core.fillings import fillings_of
    >>> frame = pd.DataFrame({"x": np.arange(30.0), "hue": ["red", "blue"] * 15})
    >>> frame.loc[3, "x"] = None
    >>> table = prepare(frame)
    >>> X = with_fillings(table.preprocessing, table.X, blank_cells(table.preprocessing, frame))
    >>> fillings_of(X).rows.tolist()
    [3]
    """
    donors, features = preprocessing.donors, preprocessing.features
    places = [features.index(n) if n in preprocessing.fill else -1 for n in preprocessing.columns]
    columns = np.array(places)[blank[:, 1]]
    rows, of = np.unique(blank[columns >= 0, 0], return_inverse=True)
    if not len(rows) or not len(donors):
        return X
    is_blank = np.zeros((len(rows), len(features)), bool)
    is_blank[of, columns[columns >= 0]] = True
    order = np.random.default_rng(0).permutation(len(donors))
    mean, scale = preprocessing.mean, preprocessing.scale
    fillings = Fillings(rows, is_blank, ((donors - mean) / scale)[order], scale / units(donors))
    return carrying(X, fillings)


def counts_as_category(table: PreparedTable) -> NDArray[np.bool_]:
    """Return which features are indicators, or numbers of few values, (p,).

    In a table with texts none does: words, and everything beside them, count as they are.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"x": np.arange(12.0), "year": [2020, 2021] * 6, "site": ["a"] * 12})
    >>> counts_as_category(prepare(frame)).tolist()
    [False, True, True]
    """
    columns, features = table.preprocessing.columns, table.preprocessing.features
    if sparse.issparse(table.X):
        return np.zeros(len(features), bool)
    found = np.isin(features, columns, invert=True)
    for j in np.flatnonzero(~found):
        found[j] = _is_few_valued(table.X[:, j])
    return found


def with_category_weight(table: PreparedTable, weight: float) -> PreparedTable:
    """Return the table with features that count as categories multiplied by a weight.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"x": np.arange(12.0), "site": ["a", "b"] * 6})
    >>> with_category_weight(prepare(frame), 0.5).X[0].round(2).tolist()
    [-1.59, 0.5, 0.0]
    """
    weights = np.where(counts_as_category(table), weight, 1.0)
    scale = table.preprocessing.scale / weights
    return table._replace(
        X=table.X * weights, preprocessing=table.preprocessing._replace(scale=scale)
    )


def category_weight(table: PreparedTable) -> float:
    """Return what the features that count as categories were multiplied by; 1 if there are none.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"x": np.arange(12.0), "year": [2020, 2021] * 6})
    >>> category_weight(with_category_weight(prepare(frame), 0.5))
    0.5
    """
    read = table.preprocessing
    counted = np.flatnonzero(counts_as_category(table)).tolist() if read.standardised else []
    for j in counted:
        if read.features[j] not in read.columns:  # an indicator
            return float(1.0 / read.scale[j])
    for j in counted:
        x = table.X[:, j]
        if abs(x.std() - 1.0) > _ROUNDING:  # otherwise standardised like every other number
            return round(float(x.std() / _share_of_a_category(x)), 6)
    return 1.0


def in_own_units(preprocessing: Preprocessing, X: NDArray[np.float64]) -> pd.DataFrame:
    """Return the table that features were made from, in its own units.

    Categories are words again. A blank cell is blank again if it is a category, or if a feature
    says that it was blank; other numbers keep what they were filled in with.

    Parameters
    ----------
    X : (n, p) features

    Examples
    --------
    >>> import pandas as pd
    >>> table = pd.DataFrame({"mass": [3.0, 5.0, None], "site": ["a", None, "b"]})
    >>> X, _, preprocessing = prepare(table)
    >>> in_own_units(preprocessing, X).to_dict("list")
    {'mass': [3.0, 5.0, nan], 'site': ['a', nan, 'b']}
    """
    pd = import_extra("pandas")
    values = np.asarray(X) * preprocessing.scale + preprocessing.mean
    place = {feature: j for j, feature in enumerate(preprocessing.features)}
    columns: dict[str, Any] = {}
    for name in preprocessing.columns:
        if name not in preprocessing.categories:
            numbers = values[:, place[name]].copy()
            if name in preprocessing.flagged:
                numbers[values[:, place[f"{name} is blank"]] > 0.5] = np.nan
            columns[name] = numbers
            continue
        words = np.full(len(values), np.nan, dtype=object)
        for value, part in zip(
            preprocessing.categories[name], _parts(name, preprocessing.categories, ())
        ):
            if value != BLANK:
                words[values[:, place[part]] > 0.5] = value
        columns[name] = words
    return pd.DataFrame(columns)


def unreadable(
    preprocessing: Preprocessing, frame: pd.DataFrame
) -> tuple[pd.DataFrame, NDArray[Any]]:
    """Find the rows that `apply` would refuse, and those with more cells than the header.

    A column `atoll.core.tables.N_CELLS` counts the cells of the latter; it is dropped.

    Returns
    -------
    frame : DataFrame, (n, q)
        The table, with words in numeric columns as blank cells; rows without a reason can be given
        to `apply`.
    reasons : (n,) of str, or None where the row can be read

    Examples
    --------
    >>> import pandas as pd
    >>> _, _, preprocessing = prepare(pd.DataFrame({"x": [1.0, 3.0]}))
    >>> unreadable(preprocessing, pd.DataFrame({"x": ["2", "tall"]}))[1].tolist()
    [None, "x is 'tall', not a number"]
    """
    pd = import_extra("pandas")
    n_cells = frame[N_CELLS] if N_CELLS in frame.columns else pd.Series(index=frame.index)
    frame = frame.drop(columns=N_CELLS, errors="ignore")
    require_known_columns(preprocessing.columns, frame)
    read, reasons = frame.copy(), np.full(len(frame), None, dtype=object)
    blank_cells = np.ones(len(frame), bool)

    def refuse(rows: Any, reason: Any) -> None:
        for row in np.flatnonzero(rows):
            reasons[row] = reason(row) if reasons[row] is None else f"{reasons[row]}; {reason(row)}"

    long = f"cells, and the header {frame.shape[1]}"
    for name in preprocessing.columns:
        is_blank = frame[name].isna().to_numpy()
        if name in preprocessing.texts:
            pass  # any cell is a text
        elif name not in preprocessing.categories:
            if not is_numeric(frame[name]):
                read[name] = as_numbers(_with_truths(preprocessing, frame[name]))
            numbers = as_floats(read[name])
            is_word = np.isnan(numbers) & ~is_blank
            if is_word.any():
                cells = frame[name].to_numpy(dtype=object)
                refuse(is_word, lambda row, n=name, c=cells: f"{n} is {c[row]!r}, not a number")
            refuse(np.isinf(numbers), lambda _, n=name: f"{n} is infinite")
        elif not preprocessing.lenient:
            known = preprocessing.categories[name]
            values = np.array(known_words_of(frame[name], known), dtype=object)
            strange = ~np.isin(values, known) & ~is_blank
            refuse(strange, lambda row, n=name, v=values: f"{n} is {v[row]!r}, not seen before")
        if not preprocessing.lenient:
            refuse(is_blank, lambda _, n=name: f"{n} is blank")
        blank_cells &= is_blank
    # These reasons replace all others.
    reasons[blank_cells] = "every cell that the model reads is blank"
    reasons[n_cells.notna().to_numpy()] = None
    refuse(n_cells.notna(), lambda row: f"it has {n_cells.iloc[row]} {long}")
    return read, reasons


def _with_truths(preprocessing: Preprocessing, column: pd.Series) -> pd.Series:
    """Return a column of numbers in which words are truth values, if the fit had 0 and 1 there."""
    spans, place = preprocessing.spans, preprocessing.numeric.index(str(column.name))
    if spans is None or not {float(spans.low[place]), float(spans.high[place])} <= {0.0, 1.0}:
        return column
    return with_truths(column)


def unseen(preprocessing: Preprocessing, frame: pd.DataFrame) -> dict[str, dict[str, int]]:
    """Return how many rows have each value that the model has not seen, by categorical column."""
    out = {}
    for name, known in preprocessing.categories.items():
        counts = Counter(known_words_of(frame[name], known))
        values = sorted(counts.keys() - {*known, BLANK})
        if values:
            out[name] = {value: counts[value] for value in values}
    return out


def is_filled(preprocessing: Preprocessing, frame: pd.DataFrame) -> NDArray[np.bool_]:
    """Return which cells are blank, or hold a category not seen before, (n, columns)."""
    require_known_columns(preprocessing.columns, frame)
    found = frame[list(preprocessing.columns)].isna().to_numpy(copy=True)
    for j, name in enumerate(preprocessing.columns):
        if name in preprocessing.categories:
            known = [*preprocessing.categories[name], BLANK]
            values = np.array(known_words_of(frame[name], known), dtype=object)
            found[:, j] |= ~np.isin(values, known)
    return found


def filled_cells(preprocessing: Preprocessing, frame: pd.DataFrame) -> list[tuple[str, ...]]:
    """Return the columns that are blank in each row, or hold a category not seen before, (n,).

    `apply` fills such cells in.

    Examples
    --------
    >>> import pandas as pd
    >>> _, _, preprocessing = prepare(pd.DataFrame({"x": [1.0, 3.0], "site": ["a", "b"]}))
    >>> filled_cells(preprocessing, pd.DataFrame({"x": [None, 2.0], "site": ["c", "b"]}))
    [('x', 'site'), ()]
    """
    columns = preprocessing.columns
    return [
        tuple(columns[j] for j in np.flatnonzero(row).tolist())
        for row in is_filled(preprocessing, frame)
    ]


def text_beginnings(preprocessing: Preprocessing, frame: pd.DataFrame) -> NDArray[Any] | None:
    """Return how the texts of every row begin, (n,); None where no column holds texts."""
    return beginnings(frame, tuple(preprocessing.texts)) if preprocessing.texts else None


def blank_cells(preprocessing: Preprocessing, frame: pd.DataFrame) -> NDArray[np.intp]:
    """Return the rows and columns of blank cells, (k, 2), of the columns that a model takes.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"x": [1.0, None, 3.0], "site": ["a", "b", None]})
    >>> blank_cells(prepare(frame).preprocessing, frame).tolist()
    [[1, 0], [2, 1]]
    """
    return np.argwhere(frame[list(preprocessing.columns)].isna().to_numpy())


def extra_columns(preprocessing: Preprocessing, frame: pd.DataFrame) -> list[str]:
    """Return the columns of `frame` that `apply` ignores."""
    return [name for name in frame.columns if name not in preprocessing.columns]


# Columns ------------------------------------------------------------------------------------------


def _columns(frame: pd.DataFrame, target: str | None, drop: Sequence[str]) -> tuple[str, ...]:
    """Return the columns to learn from."""
    repeated = sorted(set(frame.columns[frame.columns.duplicated()]))
    if repeated:
        raise ValueError(f"the table has {columns_in_words(repeated)} more than once; rename them.")
    if target is not None:
        require_columns(frame, [target], "the target column")
        if target in drop:
            raise ValueError(
                f"column {target!r} is the target and cannot be dropped as well; drop others."
            )
    require_columns(frame, drop, "the column to drop")
    columns = tuple(name for name in frame.columns if name != target and name not in drop)
    if not columns:
        raise ValueError("no column is left to learn from; keep at least one feature column.")
    return columns


def _usable_texts(
    frame: pd.DataFrame, columns: Sequence[str], named: Sequence[str], encode: bool, fixes: Fixes
) -> list[str]:
    """Return the columns of texts; raise where columns are neither texts, numbers nor categories.

    Parameters
    ----------
    named : columns that are said to hold texts
    encode : whether texts are looked for, and categories taken
    """
    faults = {n: fault for n in columns if (fault := fault_of_cells(frame[n])) is not None}
    found = _text_columns(frame, [n for n in columns if n not in faults], named, encode)
    for name in columns if encode else ():
        if name in faults or name in named or is_numeric(frame[name]):
            continue
        values = sorted(set(words_of(frame[name])) - {BLANK})
        declared = str(frame[name].dtype) == "category"
        fault = fault_of_categories(name, values, fixes, declared=declared)
        if fault is not None and (name not in found or fault is DATES):
            faults[name] = fault
    refuse({name: faults[name] for name in columns if name in faults}, fixes)
    return found


def _text_columns(
    frame: pd.DataFrame, columns: Sequence[str], named: Sequence[str], notice: bool
) -> list[str]:
    """Return the columns of texts: those named, and where wanted those that are seen to be."""
    require_columns(frame, named, "the column of texts")
    found = []
    for name in columns:
        if name in named:
            found.append(name)
        elif notice and not is_numeric(frame[name]):
            cells = frame[name][frame[name].notna()].tolist()
            if is_text(cells):
                found.append(name)
    return found


def _often_blank(column: pd.Series) -> bool:
    return bool(column.isna().mean() >= OFTEN_BLANK)


def _categories(column: pd.Series, fixes: Fixes) -> tuple[str, ...]:
    name, values = str(column.name), tuple(sorted(set(words_of(column)) - {BLANK}))
    n_cells = int(column.notna().sum())
    if n_cells >= FEWEST_CELLS and len(values) >= NEARLY_ALL * n_cells:
        warn_user(
            f"column {name!r} is encoded as categories, but {len(values)} of its {n_cells} cells "
            f"are different, so that it groups no rows. If it holds texts, say so "
            f"({fixes.text(name)}); if it names rows, leave it out ({fixes.drop([name])}).",
            UserWarning,
        )
    return (*values, BLANK) if _often_blank(column) else values


def _parts(name: str, categories: dict[str, tuple[str, ...]], flagged: Sequence[str]) -> list[str]:
    """Return the names of the features that one column becomes."""
    blank = f"{name} is blank"
    if name in categories:
        return [blank if value == BLANK else f"{name}={value}" for value in categories[name]]
    return [name, blank] if name in flagged else [name]


def _to_features(preprocessing: Preprocessing, frame: pd.DataFrame) -> NDArray[np.float64]:
    """Return the features before they are standardised, (n, p), without the words of texts.

    Blank numbers are NaN.
    """
    blocks: list[NDArray[Any]] = []
    for name in preprocessing.columns:
        if name in preprocessing.texts:
            continue
        if name in preprocessing.categories:
            known = preprocessing.categories[name]
            values = np.array(known_words_of(frame[name], known), dtype=object)
            blocks += [values == value for value in known]
        else:
            numbers = as_floats(frame[name])
            blocks.append(numbers)
            if name in preprocessing.flagged:
                blocks.append(np.isnan(numbers))
    if not blocks:
        return np.empty((len(frame), 0))
    return np.column_stack(blocks).astype(np.float64)


def _without_blanks(preprocessing: Preprocessing, X: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return features (n, p) with blank numbers filled in."""
    medians = np.array([preprocessing.fill.get(name, np.nan) for name in preprocessing.features])
    return fill_blank(X, preprocessing.donors, medians)


def _with_words(preprocessing: Preprocessing, frame: pd.DataFrame, X: NDArray[np.float64]) -> Any:
    """Return features (n, p), and beside them the words of texts; dense if there is no text."""
    if not preprocessing.texts:
        return X
    words = [word_rows(of, words_of(frame[n])) for n, of in preprocessing.texts.items()]
    blocks = [sparse.csr_array(X), *words] if X.shape[1] else words
    return sparse.csr_array(sparse.hstack(blocks)) if len(blocks) > 1 else blocks[0]


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


def _share_of_a_category(x: NDArray[np.float64]) -> float:
    """Return what to multiply a standardised column by, so that few values count as a category.

    Two random rows are √2 apart in a standardised column, and √2 times the root of the probability
    that they differ in indicators. For a column of many values the factor is one.
    """
    if not _is_few_valued(x):
        return 1.0
    _, counts = np.unique(x, return_counts=True)
    return float(np.sqrt(1.0 - np.sum((counts / len(x)) ** 2)))


def _is_few_valued(x: NDArray[np.float64]) -> bool:
    return 1 < len(np.unique(x)) <= min(FEW_VALUES, len(x) / ROWS_A_VALUE)
