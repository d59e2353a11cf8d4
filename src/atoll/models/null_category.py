"""The null category noise model (papers 001 and 004) by auxiliary-variable Gibbs, two classes.

prior: a kernel C(θ), log θ normal. likelihood: null category. inference: auxiliary Gibbs.

    f ~ N(0, C(θ))      z_n ~ N(f_n, 1)      class 1: z_n > a, class 0: z_n < −a

A row without a label lies in one of the two regions, never in the null region between them.
With a = 0 and no unlabelled row this is the probit Gaussian process, draw for draw.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import NDArray

from atoll.core.linalg import jittered_cholesky
from atoll.core.regions import sample_regions
from atoll.inference import auxiliary_gibbs
from atoll.inference.auxiliary_gibbs import AuxiliaryState
from atoll.inference.chains import Sampler
from atoll.kernels.hyperparameters import KernelPrior, gram_function
from atoll.likelihoods import null_category
from atoll.models.probit_gp import LatentPosterior, predict_log_proba, regions_sampler

Array = NDArray[np.float64]

N_START_SWEEPS = 50


# The generative process ---------------------------------------------------------------------------


def sample_prior(
    rng: np.random.Generator,
    inputs: Array,
    prior: KernelPrior,
    null_width: float,
    missing_rates: tuple[float, float] = (0.5, 0.5),
) -> tuple[Array, Array, NDArray[np.intp], NDArray[np.bool_]]:
    """θ, f, y and which labels are seen, given that no row fell into the null region.

    The condition ties all rows together, so whole data sets are drawn until one meets it: for
    a handful of rows, as in tests. inputs (n, d).
    """
    n, a = len(inputs), 0.5 * null_width
    covariance = gram_function(prior, inputs)
    while True:
        log_parameters = prior.mean + prior.sd * rng.standard_normal(len(prior.mean))
        lower = jittered_cholesky(covariance(log_parameters)).lower
        f = lower @ rng.standard_normal(n)
        z = f + rng.standard_normal(n)
        if np.all(np.abs(z) > a):
            codes = (z > 0).astype(np.intp)
            is_labelled = rng.random(n) > np.asarray(missing_rates)[codes]
            return log_parameters, f, codes, is_labelled


# Inference ----------------------------------------------------------------------------------------


def sampler(
    inputs: Array,
    codes: NDArray[np.intp],
    is_labelled: NDArray[np.bool_],
    prior: KernelPrior,
    null_width: float,
) -> Sampler:
    """The chain for labelled and unlabelled rows; inputs (n, d), codes (n,) in {0, 1}."""
    regions = null_category.regions(codes, is_labelled, null_width)

    def start(rng: np.random.Generator, log_parameters: Array) -> Array:
        """Unlabelled rows start around the function that a draw of the labelled z implies."""
        n = len(inputs)
        if is_labelled.all():
            return sample_regions(rng, regions, np.zeros(n), 1.0)
        C = gram_function(prior, inputs)(log_parameters)
        labelled = np.flatnonzero(is_labelled)
        of_labelled = type(regions)(*(part[labelled] for part in regions))
        C_ll = C[np.ix_(labelled, labelled)]
        state = auxiliary_gibbs.init(
            sample_regions(rng, of_labelled, np.zeros(len(labelled)), 1.0),
            log_parameters,
            lambda _: C_ll.copy(),
        )
        for _ in range(N_START_SWEEPS):
            z = auxiliary_gibbs.sample_auxiliary(rng, state.auxiliary, state.precision, of_labelled)
            state = state._replace(auxiliary=z)
        f = C[:, labelled] @ (state.precision @ state.auxiliary)
        return sample_regions(rng, regions, f, 1.0)

    def class_probabilities(state: AuxiliaryState) -> dict[str, Array]:
        """P(class | z of the other rows) of the unlabelled rows."""
        log_p = auxiliary_gibbs.log_interval_probabilities(state, regions)
        return {"unlabelled_probabilities": np.exp(log_p[~is_labelled])}

    return regions_sampler(inputs, regions, prior, start, class_probabilities)


# Prediction ---------------------------------------------------------------------------------------


def predict_log_proba_without_null(
    posterior: LatentPosterior, X: Array, null_width: float
) -> Array:
    """log P(y = k | x, data, x not in the null region), paper 001, eq. 2; X (m, d) -> (m, 2)."""
    return predict_log_proba(
        posterior, X, partial(null_category.log_class_probabilities, null_width=null_width)
    )
