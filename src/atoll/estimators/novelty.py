"""How strange a row is: the rank of its density among rows of the fit's own kind.

One definition for every density of rows. The tail rank of x is the share of rows like those of the
fit whose density is below that of x; it is zero far away. Novelty is one minus it. Rows that a fit
of few rows leaves out in turn stand for their kind (the mixture); otherwise rows of the fit do if
there are enough, which are a little denser there than new ones; otherwise draws from the model.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

REFERENCE_DRAWS = 2000  # of the model, where rows of the fit are few
LEAST_ROWS = 100  # of the fit that stand for their kind
MOST_ROWS = 5000


def reference_log_densities(posterior: Any, rng: np.random.Generator, rows: Any = None) -> Array:
    """Return sorted log densities of rows of the fit's kind.

    Parameters
    ----------
    posterior : a density of rows
    rows : (n, d) a random sample of the rows of the fit; None if they are not available
    """
    if rows is None or len(rows) < LEAST_ROWS:
        rows, _ = posterior.sample(rng, REFERENCE_DRAWS)
    return np.sort(posterior.log_density(rows[:MOST_ROWS]))


def tail_ranks(reference: Array, log_densities: Array) -> Array:
    """Return the share of the reference below each log density; (r,), (m,) -> (m,).

    Examples
    --------
    >>> tail_ranks(np.array([0.0, 1.0, 2.0, 3.0]), np.array([-9.0, 1.5, 9.0])).tolist()
    [0.0, 0.5, 1.0]
    """
    return np.searchsorted(reference, log_densities, side="left") / len(reference)
