"""The data as the engine takes them: labelled rows, a random part of the others, and the prior."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Kernel

from atoll.core.densities import Density, NormalInverseWishart
from atoll.core.passes import Reservoir, Rows
from atoll.kernels.detailed import DetailedRBF
from atoll.kernels.hyperparameters import KernelPrior, is_scaled_rbf
from atoll.models.archipelago.base import FEW_FEATURES, WHY_A_T, choose_base
from atoll.models.archipelago.functions import prior_of_islands

Array = NDArray[np.float64]
Codes = NDArray[np.intp]

UNLABELLED_ROWS = 32_768  # that the ascent draws its batches from
LABELLED_ROWS = 4096  # of each class
ROWS_OF_THE_BASE = 1000  # by which π is chosen
LONGER_IN_THE_PLANE = np.log(2.0)  # added to the prior mean of the log length-scale


class Problem(NamedTuple):
    """The data as the engine takes them, in their own units.

    labelled : (l, d) rows with a label: all of them, or a random part of each class
    codes : (l,) their classes, in 0..K−1
    label_weights : (l,) labelled rows of the data that each stands for
    rows : (u, d) rows without one: all of them, or a random part; in random order
    n_unlabelled : number of such rows that the data hold
    n_classes : K
    prior : of the kernel's log-parameters
    base : π
    """

    labelled: Array
    codes: Codes
    label_weights: Array
    rows: Array
    n_unlabelled: int
    n_classes: int
    prior: KernelPrior
    base: Density

    @property
    def n(self) -> float:
        """Number of rows of the data."""
        return float(self.label_weights.sum()) + self.n_unlabelled

    @property
    def detail(self) -> float:
        """The share of the kernel's shorter waves, w of `DetailedRBF`; zero for an RBF."""
        return float(getattr(self.prior.kernel.k2, "detail", 0.0))


def reservoir_sizes(n_classes: int) -> tuple[int, ...]:
    """Return how many rows are kept: those without a label, then those of each class."""
    return (UNLABELLED_ROWS, *[LABELLED_ROWS] * n_classes)


def why_not(kernel: str | Kernel, base_density: Any) -> str:
    """Return what the engine cannot take, as the end of a sentence; empty where it can."""
    if isinstance(kernel, Kernel) and not is_scaled_rbf(kernel, (RBF, DetailedRBF)):
        return (
            "a kernel other than a constant times an RBF or a DetailedRBF, both with free "
            "parameters"
        )
    if isinstance(base_density, NormalInverseWishart) or (
        isinstance(base_density, str) and base_density == "sampled-gaussian"
    ):
        return "a base density that is sampled"
    return ""


def make_problem(
    rows: Rows, kernel: str | Kernel, base_density: Any, n_classes: int
) -> tuple[Problem, str]:
    """Return the problem of some data, and why π was chosen.

    Parameters
    ----------
    rows : of the data, with a sample of sizes `reservoir_sizes`
    """
    of_all = rows.sample.uniform_rows
    if isinstance(base_density, str) and base_density == "auto":
        base, reason = _usual_base(of_all)
    else:
        base, reason = choose_base(base_density, of_all[:ROWS_OF_THE_BASE])
    assert not isinstance(base, NormalInverseWishart)  # `why_not` has refused it
    prior = _usual_prior(of_all) if kernel == "auto" else prior_of_islands(kernel, of_all)
    counts = rows.total(CountOf(n_classes))
    return problem_of_sample(rows.sample, counts, prior, base), reason


def _usual_base(X: Array) -> tuple[Any, str]:
    """Return what "auto" means here, and why; X (n, d).

    Exact chains take a mixture where rejections would be too many. Here they cost nothing, and a
    base that holds the rows alone leaves the functions nothing to tell islands apart by.
    """
    if np.sum(np.ptp(X, axis=0) > 0) > FEW_FEATURES:
        return choose_base("student-t", X[:ROWS_OF_THE_BASE])[0], WHY_A_T
    return choose_base("gaussian", X)[0], "one Gaussian: wider than the islands"


def _usual_prior(X: Array) -> KernelPrior:
    """Return what "auto" means here: one length-scale, and some detail; X (n, d).

    In the plane the length-scale is expected to be twice that of a kernel without detail.
    """
    prior = prior_of_islands("isotropic", X)
    longer = LONGER_IN_THE_PLANE if X.shape[1] <= FEW_FEATURES else 0.0
    mean = prior.mean + np.array([0.0, longer])
    variance, length_scale = np.exp(mean)
    return prior._replace(kernel=ConstantKernel(variance) * DetailedRBF(length_scale), mean=mean)


def problem_of_sample(
    sample: Reservoir, counts: NDArray[np.intp], prior: KernelPrior, base: Density
) -> Problem:
    """Return the problem of a sample of the data.

    Parameters
    ----------
    counts : (K + 1,) rows of the data without a label, then those of each class
    """
    labelled = sample.codes >= 0
    kept = np.bincount(sample.codes + 1, minlength=len(counts))
    codes = sample.codes[labelled].astype(np.intp)
    return Problem(
        sample.rows[labelled],
        codes,
        (counts / np.maximum(kept, 1))[codes + 1],
        sample.rows[~labelled],
        int(counts[0]),
        len(counts) - 1,
        prior,
        base,
    )


class CountOf(NamedTuple):
    """Counts rows without a label, then those of each class, (K + 1,)."""

    n_classes: int

    def __call__(self, X: Any, codes: Any) -> NDArray[np.intp]:
        return np.bincount(np.asarray(codes, dtype=np.intp) + 1, minlength=self.n_classes + 1)
