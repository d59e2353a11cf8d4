"""Columns in unlike units, where a model compares rows by all of them at once."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import pdist, squareform
from scipy.stats import binomtest

from atoll.core.column_scales import unlike_scales
from atoll.core.labels import PartialLabels, part_of_labels
from atoll.core.remarks import warn_user
from atoll.core.rows import mean_and_deviation

Array = NDArray[np.float64]

MOST_COMPARED = 500  # labels
HARDLY_CHANCE = 0.01  # that standardised columns are better for as many labels, if they are not
OWN_SCALES = "ard"  # the kernel that has a length-scale for each column


def remark_on_scales(model: Any, X: Any, labels: PartialLabels) -> None:
    """Warn where columns are in unlike units, and labels follow standardised ones clearly better.

    Ranges alone do not tell: those of principal scores are unlike on purpose. The nearest other
    label does, before standardising and after.

    Parameters
    ----------
    model : about to be fitted
    X : (n, d) rows; nothing is said of sparse ones, of distances and of rows outside memory
    """
    kernel, metric = getattr(model, "kernel", "isotropic"), getattr(model, "metric", "euclidean")
    if not model.compares_columns or kernel == OWN_SCALES or metric != "euclidean":
        return
    if not (isinstance(kernel, str) and isinstance(X, np.ndarray)) or not unlike_scales(X):
        return
    known = np.flatnonzero(labels.is_labelled)
    known = known[part_of_labels(np.random.default_rng(0), labels.codes[known], MOST_COMPARED)]
    codes, (mean, deviation) = labels.codes[known], mean_and_deviation(X)
    scale = np.where(deviation > 0, deviation, 1.0)
    as_they_are, standardised = X[known], (X[known] - mean) / scale
    wrong = _by_nearest(as_they_are, codes) != codes
    then_wrong = _by_nearest(standardised, codes) != codes
    mended, spoilt = int(np.sum(wrong & ~then_wrong)), int(np.sum(then_wrong & ~wrong))
    if mended <= spoilt:
        return
    if binomtest(mended, mended + spoilt, alternative="greater").pvalue < HARDLY_CHANCE:
        warn_user(
            f"{type(model).__name__}: the columns have unlike units, and those of large numbers "
            f"decide which rows are near: the nearest other label is wrong for {wrong.sum()} of "
            f"{len(known)} labels, and for {then_wrong.sum()} with columns standardised. Put "
            "StandardScaler() before it in a pipeline.",
            UserWarning,
        )


def _by_nearest(rows: Array, codes: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return the class of the nearest other row, (l,)."""
    apart = squareform(pdist(rows, "sqeuclidean"))  # by differences: large means lose no digits
    np.fill_diagonal(apart, np.inf)
    return codes[apart.argmin(axis=1)]
