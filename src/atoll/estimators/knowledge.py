"""What users know besides labels: weights of labels, groups of rows, shares of the classes.

Each is read and checked here; every error is one line with the fix.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from atoll.core.labels import PartialLabels
from atoll.core.near_names import did_you_mean
from atoll.core.remarks import warn_user
from atoll.models.groups import correlation_within

Array = NDArray[np.float64]
Index = NDArray[np.intp]

SUM_OF_SHARES = 1e-6  # by which the sum of shares may differ from one, through rounding
MOST_WEIGHT = 1e6  # of a label: beyond, numbers lose their digits
LITTLE = 0.1  # if all weights are smaller than this, they were probably meant otherwise
ALONE = -1  # the group of a row that shares its class with no other


class Wording(NamedTuple):
    """What errors call the arguments of a user, and the rows.

    shares, weights : names of the arguments or options
    numbers : (n,) number of each row; None: from 0
    counting : how rows are counted
    """

    shares: str = "class_prior"
    weights: str = "sample_weight"
    numbers: Index | None = None
    counting: str = "counted from 0"

    def row(self, place: int) -> int:
        """Return what the row at a place is called."""
        return place if self.numbers is None else int(self.numbers[place])


IN_PYTHON = Wording()


# Weights ------------------------------------------------------------------------------------------


def with_weights(labels: PartialLabels, sample_weight: Any) -> PartialLabels:
    """Return labels that count by given weights, (n,); a weight of zero leaves a row unlabelled."""
    if sample_weight is None:
        return labels
    weights = read_weights(sample_weight, labels.is_labelled)
    is_labelled = labels.is_labelled & (weights > 0)
    if labels.is_labelled.any() and not is_labelled.any():
        raise ValueError(
            "sample_weight is zero for every labelled row; give labels that count a weight above 0."
        )
    used = weights[is_labelled]
    if len(used) and used.max() < LITTLE:
        warn_user(
            f"sample_weight is at most {used.max():.2g} for a label, so that labels count next to "
            "nothing; a label that is believed has a weight of 1.",
            UserWarning,
        )
    if np.all(used == 1.0):
        return labels._replace(is_labelled=is_labelled)
    return labels._replace(is_labelled=is_labelled, weights=np.where(is_labelled, weights, 0.0))


def read_weights(
    sample_weight: Any, is_labelled: NDArray[np.bool_], wording: Wording = IN_PYTHON
) -> Array:
    """Return weights of n rows, (n,), those of labels zero or more; others are not looked at.

    Examples
    --------
    >>> read_weights([1, 0.5, None], np.array([True, True, False]))
    array([1. , 0.5, nan])
    """
    n_rows = len(is_labelled)
    try:
        weights = np.asarray(sample_weight, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError("sample_weight must hold numbers, one for each row of X.") from None
    if weights.ndim == 0:
        weights = np.full(n_rows, float(weights))
    if weights.shape != (n_rows,):
        raise ValueError(
            f"sample_weight has shape {weights.shape} and X has {n_rows} rows; pass one weight for "
            "each row, (n,)."
        )
    bad = np.flatnonzero(is_labelled & ~((weights >= 0) & (weights <= MOST_WEIGHT)))
    if len(bad):
        row = int(bad[0])
        if weights[row] > MOST_WEIGHT:
            raise ValueError(
                f"{wording.weights} is {weights[row]:g} in row {wording.row(row)}, "
                f"{wording.counting}, and at most {MOST_WEIGHT:,.0f} is taken; it says how many "
                "times a label counts: divide all of them by the largest."
            )
        what = "negative" if weights[row] < 0 else "not a number"
        raise ValueError(
            f"{wording.weights} is {what} in row {wording.row(row)}, {wording.counting} "
            f"({weights[row]:g}); give 0 to a label that is not to count, and more to one that is."
        )
    return weights


# Groups -------------------------------------------------------------------------------------------


def with_groups(
    labels: PartialLabels, names: list[Any], codes: Index, wording: Wording = IN_PYTHON
) -> PartialLabels:
    """Return labels in which one label of a group is that of all its rows.

    Parameters
    ----------
    names, codes : as `read_groups` returns them
    """
    known = labels.is_labelled & (codes != ALONE)
    of_group = np.full(len(names) + 1, -1, dtype=np.intp)  # the last for rows alone
    of_group[codes[known]] = labels.codes[known]
    differs = np.flatnonzero(known)[of_group[codes[known]] != labels.codes[known]]
    if len(differs):
        row = int(differs[0])
        rows = np.flatnonzero(known & (codes == codes[row]))
        other = int(rows[labels.codes[rows] != labels.codes[row]][0])
        first, second = sorted((row, other))
        said = labels.classes[labels.codes[[first, second]]].tolist()
        group = names[codes[row]]
        if isinstance(group, float) and group.is_integer():
            group = int(group)  # blank cells make floats of whole numbers
        raise ValueError(
            f"the group {group!r} has two labels, {said[0]!r} in row "
            f"{wording.row(first)} and {said[1]!r} in row {wording.row(second)}, "
            f"{wording.counting}; correct one, or give the rows groups of their own."
        )
    spread = (of_group[codes] >= 0) & ~labels.is_labelled
    return _spread(labels._replace(groups=codes), spread, of_group)


def _spread(labels: PartialLabels, rows: NDArray[np.bool_], of_group: Index) -> PartialLabels:
    """Give unlabelled rows the label of their group, with the mean weight of its labels."""
    groups = labels.groups
    assert groups is not None
    codes = np.where(rows, of_group[groups], labels.codes)
    weights, is_chosen = labels.weights, labels.is_chosen
    known = labels.is_labelled & (groups != ALONE)
    n_labels = np.bincount(groups[known], minlength=len(of_group))
    first = np.zeros(len(known), bool)
    first[np.flatnonzero(known)[np.unique(groups[known], return_index=True)[1]]] = True
    is_spread = rows | (known & ~first)  # of several labels of a group one speaks for the others
    if weights is not None:
        total = np.bincount(groups[known], weights[known], minlength=len(of_group))
        mean = total / np.maximum(n_labels, 1)
        weights = np.where(rows, mean[groups], weights)
    if is_chosen is not None:
        chosen = np.bincount(groups[known], is_chosen[known], minlength=len(of_group))
        is_chosen = np.where(rows, chosen[groups] > 0, is_chosen)
    return labels._replace(
        codes=codes,
        is_labelled=labels.is_labelled | rows,
        weights=weights,
        is_chosen=is_chosen,
        is_spread=is_spread if is_spread.any() else None,
    )


def counted_by_groups(
    X: Any, labels: PartialLabels, correlation: float | None = None
) -> PartialLabels:
    """Return labels of which those of a group count less, the more alike its rows are.

    All rows of a patient have the patient's class, and where they hardly differ they tell no more
    of other patients than one of them: m labels count as m / (1 + ρ² (m − 1)). Where columns are
    correlated by ρ within groups, and so is what they leave unexplained, this is what a coefficient
    loses (Moulton, "Random group effects and the precision of regression estimates", 1986).

    Parameters
    ----------
    X : (n, d) rows
    correlation : ρ; None: that of the labelled rows
    """
    if labels.is_spread is None:
        return labels
    assert labels.groups is not None
    known = np.flatnonzero(labels.is_labelled)
    own = labels.groups[known]
    own = np.where(own == ALONE, own.max() + 1 + np.arange(len(own)), own)
    own = np.unique(own, return_inverse=True)[1]
    if correlation is None:
        correlation = correlation_within(X[known], own, labels.codes[known])
    shared = np.ones(len(labels.codes))
    shared[known] = 1.0 / (1.0 + correlation**2 * (np.bincount(own)[own] - 1))
    weights = labels.is_labelled.astype(float) if labels.weights is None else labels.weights
    return labels._replace(weights=weights * shared, shared=shared)


def read_groups(groups: Any, n_rows: int) -> tuple[list[Any], Index]:
    """Return the names of groups (G,) and the group of each row as its place among them (n,).

    A null (None, NaN, NA) is a row alone: `ALONE`.

    Examples
    --------
    >>> read_groups(["ann", "bob", None, "ann"], 4)
    (['ann', 'bob'], array([ 0,  1, -1,  0]))
    """
    values = groups.tolist() if hasattr(groups, "tolist") else list(groups)
    if len(values) != n_rows:
        raise ValueError(
            f"groups has {len(values)} entries and X has {n_rows} rows; pass one for each row, "
            "None where a row is alone."
        )
    places: dict[Any, int] = {}
    codes = np.full(n_rows, ALONE, dtype=np.intp)
    for row, value in enumerate(values):
        if value is None or value != value or type(value).__name__ in ("NAType", "NaTType"):
            continue
        try:
            codes[row] = places.setdefault(value, len(places))
        except TypeError:
            raise ValueError(
                f"groups holds {value!r} in row {row}, which cannot name a group; use words or "
                "numbers."
            ) from None
    return list(places), codes


# Shares -------------------------------------------------------------------------------------------


def read_class_prior(
    class_prior: Any, classes: NDArray[Any], wording: Wording = IN_PYTHON
) -> Array:
    """Return the shares of the classes, (K,) in their order, which sum to one.

    Parameters
    ----------
    class_prior : mapping from class to share, or pandas Series indexed by class, of which one may
        be left out; or (K,) shares in the order of `classes`
    classes : (K,)

    Examples
    --------
    >>> read_class_prior({"yes": 0.02}, np.array(["no", "yes"])).round(2)
    array([0.98, 0.02])
    """
    names, said = classes.tolist(), wording.shares
    if _is_series(class_prior):
        class_prior = _by_name(class_prior, said)
    if isinstance(class_prior, Mapping):
        strangers = [name for name in class_prior if name not in names]
        if strangers:
            words = [name for name in names if isinstance(name, str)]
            meant = did_you_mean(str(strangers[0]), words)
            raise ValueError(
                f"{said} names {strangers[0]!r}, which is none of the classes {names!r}; "
                f"{f'{meant}If not, ' if meant else ''}leave it out, or name it in classes= as "
                "well."
            )
        shares = _numbers([class_prior.get(name, np.nan) for name in names])
        unknown = np.isnan(shares)
        if unknown.sum() > 1:
            missing = ", ".join(repr(name) for name, is_open in zip(names, unknown) if is_open)
            raise ValueError(
                f"{said} has no share for {missing}; give one for each class, or for all "
                "but one, which has the rest."
            )
        if unknown.any():
            given = float(np.nansum(shares))
            if not given < 1.0:
                left = names[int(np.flatnonzero(unknown)[0])]
                raise ValueError(
                    f"{said} sums to {given:g}, which leaves nothing for {left!r}; give "
                    "shares of all rows that sum to less than 1, or one for each class."
                )
            shares[unknown] = 1.0 - given
    else:
        shares = _numbers(class_prior)
        if shares.shape != (len(names),):
            raise ValueError(
                f"{said} has {shares.size} shares and there are {len(names)} classes "
                f"({names!r}); give one share for each, in this order, or a mapping."
            )
    total = float(shares.sum())
    if not abs(total - 1.0) <= SUM_OF_SHARES:
        raise ValueError(
            f"{said} sums to {total:g} and not to 1; give shares of all rows, here "
            f"{_shown(names, shares / total) if total > 0 else 'numbers above 0'}."
        )
    for name, share in zip(names, shares.tolist()):
        if not share > 0:
            raise ValueError(
                f"{said} gives {name!r} the share {share:g}; each class needs one above 0: "
                "leave out the labels of a class that does not occur."
            )
    return shares / total


def _is_series(values: Any) -> bool:
    """Return whether values have names, as those of `value_counts()` in pandas."""
    return np.ndim(values) == 1 and hasattr(values, "index") and hasattr(values, "items")


def _by_name(values: Any, said: str) -> dict[Any, Any]:
    """Return the values of a series by their names, none of them twice."""
    if not values.index.is_unique:
        twice = values.index[values.index.duplicated()][0]
        raise ValueError(f"{said} names {twice!r} twice; give each class one share.")
    return dict(values.items())


def _numbers(values: Any) -> Array:
    try:
        return np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(
            f"class_prior must be a mapping from class to share, or one number for each class, got "
            f"{values!r}."
        ) from None


def _shown(names: list[Any], shares: Array) -> str:
    return ", ".join(f"{name!r}: {share:.4g}" for name, share in zip(names, shares.tolist()))
