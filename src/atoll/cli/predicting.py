"""Class probabilities of many rows, a batch at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

BATCH = 5000  # rows predicted at once: each batch holds a kernel matrix against the training rows


def predicted_proba(estimator: Any, X: Any, bar: Any) -> NDArray[np.float64]:
    """Return the class probabilities of rows, dense or sparse; (m, p) -> (m, K).

    Parameters
    ----------
    bar : a progress bar, which counts rows
    """
    import numpy as np

    from atoll.cli.opening import as_fitted
    from atoll.core.fillings import part_of

    parts = []
    for start in range(0, X.shape[0], BATCH):
        rows = as_fitted(estimator, part_of(X, slice(start, start + BATCH)))
        parts.append(estimator.predict_proba(rows))
        bar.update(len(parts[-1]))
    return np.concatenate(parts)
