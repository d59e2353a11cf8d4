"""What labels alone say of the classes' shares.

Beforehand all classes are equally frequent, or any shares are as probable, at even odds. So a few
labels more of one class, which chance gives, hardly speak for it, and many do.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, gammaln

Array = NDArray[np.float64]


def given(counts: NDArray[np.number]) -> Array:
    """Return the shares expected of numbers of labels; (K,) -> (K,).

    Examples
    --------
    >>> given(np.array([4, 6])).round(2), given(np.array([30, 70])).round(2)
    (array([0.47, 0.53]), array([0.3, 0.7]))
    """
    n, K = counts.sum(), len(counts)
    log_same = -n * np.log(K)
    log_any = gammaln(K) + gammaln(counts + 1.0).sum() - gammaln(n + K)
    same = expit(log_same - log_any)
    return np.asarray(same / K + (1.0 - same) * (counts + 1.0) / (n + K))
