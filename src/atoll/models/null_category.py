"""The null category noise model (papers 001 and 004; K classes: Rogers & Girolami 2007).

prior: a kernel C(θ), log θ normal. likelihood: null category. inference: auxiliary-variable Gibbs,
or variational Bayes; by moment matching in `informative_vector.py`.

    two classes     f ~ N(0, C(θ))      z_n ~ N(f_n, 1)         1: z_n > w/2, 0: z_n < −w/2
    K classes       f_k ~ N(0, C(θ))    z_nk ~ N(f_nk, 1)       k: z_nk > z_ni + w/√2, all i ≠ k

A row without a label lies in one of the classes' regions, never in the null region between them.
With w = 0 and no unlabelled row this is the probit Gaussian process, draw for draw.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from atoll.core.labels import PartialLabels
from atoll.core.linalg import cholesky_inverse
from atoll.core.regions import (
    PreparedRegions,
    RegionFamily,
    Regions,
    log_region_shares,
    regions_of_rows,
)
from atoll.inference import auxiliary_gibbs, ep, vb
from atoll.inference.auxiliary_gibbs import AuxiliaryState
from atoll.inference.chains import Sampler
from atoll.inference.type_two import Approximation, Report
from atoll.kernels.hyperparameters import KernelPrior, gram_function
from atoll.likelihoods import null_category
from atoll.likelihoods.null_category import NullCategory
from atoll.models.belief import HeldOut, weigh_hidden
from atoll.models.informative_vector import LENGTH_SCALE_STARTS, share_limits
from atoll.models.probit_gp import (
    LatentPosterior,
    approximate,
    approximate_posterior,
    regions_sampler,
    sample_function,
)

Array = NDArray[np.float64]
FamilyOf = Callable[[NDArray[np.intp], NDArray[np.bool_]], RegionFamily]

N_FOLDS = 5  # in which labels are hidden, to see whether a fit predicts them
N_START_SWEEPS = 50
NOTHING_KNOWN = 1e10  # variance of z given f where a row is to say nothing
OF_STATES = ("log_parameters", "weights", "region_parameters", "auxiliary_variance",
             "noise_variance")  # fmt: skip
# Gains of the bound at which an ascent ends. Masses of four classes or more are sums over nodes: an
# iteration is dear then, and gains may be below the second for hundreds of them.
LEAST_GAIN, LEAST_GAIN_OF_SEVERAL = 1e-8, 1e-4
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
    unlabelled_regions: RegionFamily | None = None,
) -> Sampler:
    """Return the chain for labelled and unlabelled rows; inputs (n, d), codes (n,).

    Parameters
    ----------
    regions : `likelihoods.null_category.family` of the same rows
    unlabelled_regions : the same as if no row had a label; then what all other z say of each
        labelled row is recorded, too
    """
    labelled, unlabelled = np.flatnonzero(is_labelled), np.flatnonzero(~is_labelled)

    def start(rng: np.random.Generator, log_parameters: Array, region_parameters: Array) -> Array:
        """Draw z, of unlabelled rows around the function that a draw of the labelled z implies."""
        at_phi = regions.at(region_parameters).regions
        if is_labelled.all():
            return at_phi.sample(rng, at_phi.zeros(), 1.0)
        C = gram_function(prior, inputs)(log_parameters)
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
        """Return P(class | z of the other rows)."""
        mean, sd = auxiliary_gibbs.leave_one_out(state)

        def of_rows(family: RegionFamily, rows: NDArray[np.intp]) -> Regions:
            return regions_of_rows(family.at(state.region_parameters).regions, rows)

        missing = of_rows(regions, unlabelled)
        record = {"unlabelled_probabilities": missing.shares(mean[unlabelled], sd[unlabelled])}
        if unlabelled_regions is not None:
            # In log space: a draw counts by one over what it gives the label, however little.
            log_p = log_region_shares(
                of_rows(unlabelled_regions, labelled), mean[labelled], sd[labelled]
            )
            record["labelled_probabilities"] = np.exp(log_p)
        return record

    return regions_sampler(inputs, regions, prior, start, class_probabilities)


class Variational(NamedTuple):
    """The posterior by variational Bayes, and what became of the unlabelled rows.

    approximation : of the rows that entered
    rows : (r,) which these are; None for all
    bias : b, added to the function
    doubt : why unlabelled rows were left out: "shares", "labels"; or "" where they were not
    held_out : what hidden labels say of it; None where none can be hidden, or all rows are labelled
    beside : of labelled rows alone, to be believed as much, where no label can be hidden: nothing
        then tells whether the unlabelled rows went where their classes are
    """

    approximation: Approximation
    rows: NDArray[np.intp] | None = None
    bias: float = 0.0
    doubt: str = ""
    held_out: HeldOut | None = None
    beside: Variational | None = None


def variational(
    inputs: Array,
    labels: PartialLabels,
    prior: KernelPrior,
    family_of: FamilyOf,
    likelihood: NullCategory,
    report: Report | None = None,
    *,
    at_random: bool = True,
    n_folds: int = N_FOLDS,
) -> Variational:
    """Return the posterior by variational Bayes.

    Rows in one of several regions are free to go where their neighbours go, and q(z) = Π q(z_n)
    pays for every tie between them: its bound is highest where a short length-scale leaves none,
    ten nats above the length-scales that the labels speak for. With unlabelled rows θ and φ are
    therefore where the evidence by expectation propagation is highest. The bound has several
    maxima, too: its search starts at the function that the propagation found.

    The highest of all may have every unlabelled row on one side. A fit is believed as in moment
    matching: where the rows fall to the classes as the labels do (`share_limits`), begun at longer
    and longer length-scales; and where labels that are hidden from it are no less probable than by
    their classes' shares. If it is not, unlabelled rows are left out, and what they say is how many
    there are on each side of the boundary: see `_share_bias`. Hidden labels also say how far the
    word of the fit that is left can be believed: see `belief`. Where no label can be hidden, half
    of the belief is in the labelled rows alone: see `two_beliefs`.

    Parameters
    ----------
    family_of : rows (r,), which of them are labelled (r,) -> what their labels say
    likelihood : what class probabilities follow
    at_random : whether labels are missing as often in every class, so that shares can be compared
    n_folds : in which labels are hidden; 0: none is, and the fit is believed
    """
    seen, every = labels.is_labelled, np.arange(len(inputs))
    regions = family_of(every, seen)
    if seen.all():
        return Variational(approximate(vb.maximise, inputs, regions, prior, report))

    def carried_on(chosen: Approximation, C: Array) -> Approximation:
        theta, phi = chosen.log_parameters, chosen.region_parameters
        found = ascend(C, regions, theta, phi, C @ chosen.weights)
        return found._replace(converged=chosen.converged)

    def believed(found: Approximation) -> bool:
        if not at_random:
            return True
        posterior = approximate_posterior(found, inputs, prior, likelihood)
        return shares_agree(np.exp(posterior.log_proba(inputs[~seen])), labels)

    def labelled_alone() -> Variational:
        return _of_labelled_rows(inputs, labels, prior, family_of, report)

    ascend = partial(vb.at, tolerance=_least_gain(labels), report=report)
    gram_at, doubt = gram_function(prior, inputs), "shares"
    for begin in _starts(prior):
        if begin is not None:  # worth a search only where it is believed before
            C = gram_at(begin)
            first = _labelled_start(C, family_of, seen, begin, regions.mean)
            if not believed(ascend(C, regions, begin, regions.mean, first)):
                continue
        chosen = approximate(
            ep.maximise,
            inputs,
            regions,
            prior,
            report,
            tolerance=CLOSE_ENOUGH,
            begin=None if begin is None else (begin, regions.mean),
        )
        C = gram_at(chosen.log_parameters)
        found = carried_on(chosen, C)
        if believed(found):
            held_out = _hidden_labels(
                found, C, inputs, labels, prior, family_of, likelihood, n_folds, ascend
            )
            if held_out is None:
                unsure = at_random and n_folds > 0
                return Variational(found, beside=labelled_alone() if unsure else None)
            if not held_out.is_worse:
                return Variational(found, held_out=held_out)
            doubt = "labels"
            break
    alone = labelled_alone()
    C = gram_at(alone.approximation.log_parameters)
    held_out = _hidden_labels(
        alone.approximation,
        C,
        inputs,
        labels,
        prior,
        family_of,
        likelihood,
        n_folds,
        ascend,
        with_others=False,
    )
    alone = alone._replace(doubt=doubt, held_out=held_out)
    if len(labels.classes) > 2 or not at_random:
        return alone
    return alone._replace(bias=_share_bias(alone, inputs, labels, prior, likelihood))


def two_beliefs(
    found: Variational, inputs: Array, prior: KernelPrior, likelihood: NullCategory
) -> LatentPosterior:
    """Return the posterior of a fit and that of the labelled rows `beside` it, of one weight.

    In the second, rows without a label are known through z of so large a noise that they say
    nothing.
    """
    beside = found.beside
    assert beside is not None
    rows, alone = beside.rows, beside.approximation

    def at_all_rows(values: Any, elsewhere: float) -> Array:
        spread = np.full((len(inputs), *np.shape(values)[1:]), elsewhere)
        spread[rows] = values
        return spread

    alone = alone._replace(
        weights=at_all_rows(alone.weights, 0.0),
        auxiliary_variance=at_all_rows(alone.auxiliary_variance, 0.0),
        noise_variance=at_all_rows(np.ones(len(alone.weights)), NOTHING_KNOWN),
    )
    both = [
        approximate_posterior(part, inputs, prior, likelihood)
        for part in (found.approximation._replace(noise_variance=np.ones(len(inputs))), alone)
    ]
    joined: dict[str, Any] = {
        name: np.concatenate([getattr(part, name) for part in both]) for name in OF_STATES
    }
    return both[0]._replace(**joined)


def shares_agree(probabilities: Array, labels: PartialLabels) -> bool:
    """Return whether unlabelled rows (u, K) fall to the classes as the labels do."""
    counts = np.bincount(labels.codes[labels.is_labelled], minlength=len(labels.classes))
    limits = np.array([share_limits(k, counts.sum()) for k in counts])
    shares = probabilities.mean(axis=0)
    return bool(np.all((limits[:, 0] <= shares) & (shares <= limits[:, 1])))


def _starts(prior: KernelPrior) -> Iterator[Array | None]:
    """Yield where searches begin: the prior's centre, then longer length-scales."""
    yield None
    of_length = np.array([name.startswith("log_") and "length_scale" in name
                          for name in prior.names])  # fmt: skip
    if of_length.any():
        for longer in LENGTH_SCALE_STARTS[1:]:
            yield prior.mean + np.log(longer) * of_length


def _least_gain(labels: PartialLabels) -> float:
    return LEAST_GAIN if len(labels.classes) <= 3 else LEAST_GAIN_OF_SEVERAL


def _labelled_start(
    C: Array, family_of: FamilyOf, seen: NDArray[np.bool_], theta: Array, phi: Array
) -> Array:
    """Return the function at all rows that labelled ones imply at θ and φ, (n,) or (n, K)."""
    rows = np.flatnonzero(seen)
    family = family_of(rows, seen[rows])
    zeros = family.at(phi).regions.zeros()
    found = vb.at(C[np.ix_(rows, rows)], family, theta, phi, zeros)
    return np.asarray(C[:, rows] @ found.weights)


def _hidden_labels(
    found: Approximation,
    C: Array,
    inputs: Array,
    labels: PartialLabels,
    prior: KernelPrior,
    family_of: FamilyOf,
    likelihood: NullCategory,
    n_folds: int,
    ascend: Callable[..., Approximation],
    *,
    with_others: bool = True,
) -> HeldOut | None:
    """Return what labels say that are hidden in turns, at the θ and φ found.

    C is that of all rows, of which unlabelled and hidden ones enter only `with_others`. `ascend` is
    `vb.at`.
    """
    # Many parameters because a fit and all that it was made from are needed anew.
    every = np.arange(len(inputs))
    theta, phi = found.log_parameters, found.region_parameters

    def foretell(left: NDArray[np.bool_], hidden: NDArray[np.intp]) -> Array:
        entered = every if with_others else np.flatnonzero(left)
        start = _labelled_start(C, family_of, left, theta, phi)[entered]
        family = family_of(entered, left[entered])
        C_entered = C[np.ix_(entered, entered)]
        of_others = ascend(C_entered, family, theta, phi, start)
        posterior = approximate_posterior(of_others, inputs[entered], prior, likelihood)
        return posterior.log_proba(inputs[hidden])

    return weigh_hidden(labels, n_folds, foretell)


def _of_labelled_rows(
    inputs: Array,
    labels: PartialLabels,
    prior: KernelPrior,
    family_of: FamilyOf,
    report: Report | None,
) -> Variational:
    """Return the posterior of labelled rows alone."""
    rows = np.flatnonzero(labels.is_labelled)
    family = family_of(rows, labels.is_labelled[rows])
    return Variational(approximate(vb.maximise, inputs[rows], family, prior, report), rows)


def _share_bias(
    found: Variational,
    inputs: Array,
    labels: PartialLabels,
    prior: KernelPrior,
    likelihood: NullCategory,
) -> float:
    """Return the bias at which the boundary leaves each of two classes its share of the rows.

    With few labels the function leans to the class that has one more of them wherever it knows
    little. The unlabelled rows tell by how much: the first class is expected to have a share of
    (k + 1) / (m + 2) of them, with k of m labels.
    """
    seen = labels.is_labelled
    posterior = approximate_posterior(found.approximation, inputs[seen], prior, likelihood)
    share = (1 + np.sum(labels.codes[seen] == 0)) / (2 + np.sum(seen))
    return -float(np.quantile(posterior.latent(inputs[~seen])[0][:, 0], share))
