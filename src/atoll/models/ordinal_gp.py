"""Ordinal regression by a Gaussian process (paper 004, Rogers 2014; Chu & Ghahramani 2005).

prior: a kernel C(θ), log θ normal; cut points. likelihood: ordinal. inference: auxiliary-variable
Gibbs, variational Bayes, or expectation propagation.

    f ~ N(0, C(θ))      z_n ~ N(f_n, 1)      y_n = k where b_k + w/2 < z_n < b_{k+1} − w/2

With a null width w > 0 rows without a label are in one of these intervals, never between them; with
w = 0 they say nothing and are left out.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from atoll.core.regions import RegionFamily
from atoll.kernels.hyperparameters import KernelPrior, mean_variance
from atoll.likelihoods import ordinal
from atoll.models.probit_gp import sample_function

Array = NDArray[np.float64]


def widened(prior: KernelPrior) -> KernelPrior:
    """Return the prior with three times its spread.

    Ranks may follow from the features without noise, as grades by a formula do: the function is
    then hundreds of units of noise high, and smooth, which the default prior does not allow.
    """
    return prior._replace(sd=3.0 * prior.sd)


def family(
    inputs: Array,
    codes: NDArray[np.intp],
    is_labelled: NDArray[np.bool_],
    prior: KernelPrior,
    n_classes: int,
    null_width: float,
) -> RegionFamily:
    """Return what the ranks say of z, with cut points on the scale of z under the prior."""
    variance = mean_variance(prior, prior.mean, inputs)
    return ordinal.family(
        codes, is_labelled, n_classes, null_width, scale=float(np.sqrt(1.0 + variance))
    )


def sample_prior(
    rng: np.random.Generator,
    inputs: Array,
    prior: KernelPrior,
    n_classes: int,
    null_width: float = 0.0,
    missing_rate: float = 0.0,
) -> tuple[Array, Array, Array, NDArray[np.intp], NDArray[np.bool_]]:
    """Draw θ, f, φ, y and which ranks are seen, given that no row fell between two ranks.

    With a null width whole data sets are drawn until one meets that condition: for a handful of
    rows, as in tests. inputs (n, d).
    """
    n = len(inputs)
    nothing = np.zeros(n, dtype=np.intp)
    of_cuts = family(inputs, nothing, np.ones(n, bool), prior, n_classes, null_width)
    while True:
        log_parameters, f = sample_function(rng, inputs, prior)
        phi = of_cuts.mean + of_cuts.sd * rng.standard_normal(len(of_cuts.mean))
        codes = ordinal.sample(rng, f, ordinal.cut_points_at(phi, null_width), null_width)
        if np.all(codes >= 0):
            return log_parameters, f, phi, codes, rng.random(n) >= missing_rate
