"""What the engine keeps between calls of `partial_fit`: a sample of all rows, and the ascent."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from atoll.core.densities import Density
from atoll.core.passes import Reservoir, choose, keep_smallest
from atoll.kernels.hyperparameters import KernelPrior
from atoll.models.archipelago.engine.posterior import Scaling
from atoll.models.archipelago.engine.problem import Problem, problem_of_sample, reservoir_sizes

Array = NDArray[np.float64]


class Online(NamedTuple):
    """Rows so far, and how far the ascent has come.

    seed : of everything random
    n_calls : of `partial_fit`
    counts : (K + 1,) rows so far without a label, then those of each class
    keys, rows, codes : a random sample of them, as in `Reservoir`
    prior, base, scaling, inducing : as the first rows gave them
    ends : of every start, the leaves of the ascent's last state
    """

    seed: int
    n_calls: int
    counts: NDArray[np.intp]
    keys: NDArray[np.uint64]
    rows: Array
    codes: NDArray[np.integer]
    prior: KernelPrior
    base: Density
    scaling: Scaling
    inducing: Array
    ends: tuple[tuple[Array, ...], ...]

    @property
    def sample(self) -> Reservoir:
        """The sample of the rows so far."""
        sizes = reservoir_sizes(len(self.counts) - 1)
        return keep_smallest(self.keys, self.rows, self.codes, sizes)

    def with_rows(self, X: Any, codes: NDArray[np.integer]) -> Online:
        """Return the sample and the counts with more rows; X (b, d), codes (b,), −1 unlabelled."""
        n_seen = int(self.counts.sum())
        sample = self.sample
        both = sample + choose(n_seen, X, codes, self.seed, sample.sizes)
        counts = self.counts + np.bincount(codes.astype(np.intp) + 1, minlength=len(self.counts))
        return self._replace(
            counts=counts,
            keys=both.keys,
            rows=both.rows,
            codes=both.codes,
            n_calls=self.n_calls + 1,
        )

    @property
    def problem(self) -> Problem:
        """The rows so far, as the engine takes them."""
        return problem_of_sample(self.sample, self.counts, self.prior, self.base)
