"""Class probabilities of many rows, a batch at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

PREDICTION_BATCH = 5000


def predicted_proba(
    estimator: Any, X: NDArray[np.float64], *, progress: bool
) -> NDArray[np.float64]:
    """Return the class probabilities of rows; (m, p) -> (m, K)."""
    import numpy as np

    from atoll.cli.opening import as_fitted
    from atoll.core.progress import progress_bar

    # In batches: each holds a kernel matrix of its rows against the training rows.
    starts = range(0, len(X), PREDICTION_BATCH)
    bar = progress_bar(starts, desc="predicting", unit="batch", disable=not progress)
    parts = (as_fitted(estimator, X[i : i + PREDICTION_BATCH]) for i in bar)
    return np.concatenate([estimator.predict_proba(part) for part in parts])
