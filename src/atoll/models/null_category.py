"""The null category noise model (papers 001 and 004; K classes: Rogers & Girolami 2007).

prior: a kernel C(θ), log θ normal. likelihood: null category. inference: auxiliary-variable Gibbs,
or variational Bayes; by moment matching in `informative_vector.py`.

    two classes     f ~ N(0, C(θ))      z_n ~ N(f_n, 1)         1: z_n > w/2, 0: z_n < −w/2
    K classes       f_k ~ N(0, C(θ))    z_nk ~ N(f_nk, 1)       k: z_nk > z_ni + w/√2, all i ≠ k

A row without a label lies in one of the classes' regions, never in the null region between them.
With w = 0 and no unlabelled row this is the probit Gaussian process, draw for draw.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from atoll.core.linalg import cholesky_inverse
from atoll.core.regions import PreparedRegions, RegionFamily, regions_of_rows
from atoll.inference import auxiliary_gibbs, ep, vb
from atoll.inference.auxiliary_gibbs import AuxiliaryState
from atoll.inference.chains import Sampler
from atoll.inference.type_two import Approximation, Report
from atoll.kernels.hyperparameters import KernelPrior, gram_function
from atoll.likelihoods import null_category
from atoll.models.probit_gp import approximate, regions_sampler, sample_function

Array = NDArray[np.float64]

N_START_SWEEPS = 50
CLOSE_ENOUGH = 0.01  # moments, in deviations, for the evidence to choose θ and φ by


# The generative process ---------------------------------------------------------------------------


def sample_prior(
    rng: np.random.Generator,
    inputs: Array,
    prior: KernelPrior,
    null_width: float,
    missing_rates: ArrayLike = (0.5, 0.5),
    n_classes: int = 2,
) -> tuple[Array, Array, NDArray[np.intp], NDArray[np.bool_]]:
    """Draw θ, f, y and which labels are seen, given that no row fell into the null region.

    The condition ties all rows together, so whole data sets are drawn until one meets it: for
    a handful of rows, as in tests. inputs (n, d), missing_rates (K,).
    """
    while True:
        log_parameters, f = sample_function(rng, inputs, prior, n_classes)
        codes = null_category.sample(rng, f, null_width)
        if np.all(codes >= 0):
            is_labelled = rng.random(len(codes)) > np.asarray(missing_rates)[codes]
            return log_parameters, f, codes, is_labelled


# Inference ----------------------------------------------------------------------------------------


def sampler(
    inputs: Array,
    codes: NDArray[np.intp],
    is_labelled: NDArray[np.bool_],
    prior: KernelPrior,
    regions: RegionFamily,
) -> Sampler:
    """Return the chain for labelled and unlabelled rows; inputs (n, d), codes (n,).

    `regions` is `likelihoods.null_category.family` of the same rows.
    """

    def start(rng: np.random.Generator, log_parameters: Array, region_parameters: Array) -> Array:
        """Draw z, of unlabelled rows around the function that a draw of the labelled z implies."""
        at_phi = regions.at(region_parameters).regions
        if is_labelled.all():
            return at_phi.sample(rng, at_phi.zeros(), 1.0)
        C = gram_function(prior, inputs)(log_parameters)
        labelled = np.flatnonzero(is_labelled)
        of_labelled = PreparedRegions(regions_of_rows(at_phi, labelled))
        C_ll = C[np.ix_(labelled, labelled)]
        state = auxiliary_gibbs.init(
            of_labelled.regions.sample(rng, of_labelled.regions.zeros(), 1.0),
            log_parameters,
            region_parameters,
            lambda _: C_ll.copy(),
        )
        z, precision = state.auxiliary, cholesky_inverse(state.noisy_factor)
        for _ in range(N_START_SWEEPS):
            z = auxiliary_gibbs.sample_auxiliary(rng, z, precision, of_labelled)
        f = C[:, labelled] @ (precision @ z)
        return at_phi.sample(rng, f, 1.0)

    def class_probabilities(state: AuxiliaryState) -> dict[str, Any]:
        """Return P(class | z of the other rows) of the unlabelled rows."""
        at_phi = regions.at(state.region_parameters).regions
        log_p = auxiliary_gibbs.log_class_shares(state, at_phi)
        return {"unlabelled_probabilities": np.exp(log_p[~is_labelled])}

    return regions_sampler(inputs, regions, prior, start, class_probabilities)


def variational(
    inputs: Array,
    is_labelled: NDArray[np.bool_],
    prior: KernelPrior,
    regions: RegionFamily,
    report: Report | None = None,
) -> Approximation:
    """Return the posterior by variational Bayes.

    Rows in one of several regions are free to go where their neighbours go, and q(z) = Π q(z_n)
    pays for every tie between them: its bound is highest where a short length-scale leaves none,
    ten nats above the length-scales that the labels speak for. With unlabelled rows θ and φ are
    therefore where the evidence by expectation propagation is highest. The bound has several
    maxima, too: its search starts at the function that the propagation found.
    """
    if is_labelled.all():
        return approximate(vb.maximise, inputs, regions, prior, report)
    chosen = approximate(ep.maximise, inputs, regions, prior, report, tolerance=CLOSE_ENOUGH)
    C = gram_function(prior, inputs)(chosen.log_parameters)
    found = vb.at(C, regions, chosen.log_parameters, chosen.region_parameters, C @ chosen.weights)
    return found._replace(converged=chosen.converged)
