"""Variational Bayes: its bound against brute force, and that no iteration ever lowers it."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np
import pytest
from scipy.special import roots_hermitenorm
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from atoll.core.linalg import cholesky_log_det, jittered_cholesky
from atoll.core.regions import RegionFamily, fixed_regions, log_region_probability
from atoll.diagnostics import quadrature_posterior
from atoll.inference import vb
from atoll.kernels.hyperparameters import (
    KernelPrior,
    gram_function,
    gram_gradient_function,
    kernel_prior,
)
from atoll.likelihoods import multinomial_probit, null_category, ordinal, probit

tight = partial(vb.ascend, tolerance=1e-13, max_iterations=5000)


class Problem(NamedTuple):
    """Rows, a kernel with its prior, regions; and θ and φ anywhere."""

    inputs: np.ndarray
    prior: KernelPrior
    family: RegionFamily
    theta: np.ndarray
    phi: np.ndarray

    def gram(self):
        return gram_function(self.prior, self.inputs)(self.theta)

    def factor(self):
        return factor_of(self.gram())

    def regions(self):
        return self.family.at(self.phi).regions

    def maximise(self, **options):
        gradient = gram_gradient_function(self.prior, self.inputs)
        gram = gram_function(self.prior, self.inputs)
        return vb.maximise(gram, gradient, self.prior, self.family, **options)


def factor_of(C):
    return jittered_cholesky(C + np.eye(len(C))).lower


def some_rates(rng, n_classes):
    return tuple(rng.uniform(0.05, 0.95, n_classes)) if rng.random() < 0.5 else None


# What is said of n rows, codes in {0, 1, 2}, some of them seen.
KINDS = {
    "probit": lambda rng, codes, seen: fixed_regions(probit.regions(codes % 2)),
    "multinomial probit": lambda rng, codes, seen: fixed_regions(
        multinomial_probit.regions(codes, 3)
    ),
    "ordinal": lambda rng, codes, seen: ordinal.family(codes, np.ones_like(seen), 3, 0.0, 3.0),
    "ordinal with null regions": lambda rng, codes, seen: ordinal.family(
        codes, seen, 3, rng.uniform(0, 2), 3.0
    ),
    "null category": lambda rng, codes, seen: null_category.family(
        codes % 2, seen, 2, rng.uniform(0, 3), some_rates(rng, 2)
    ),
    "null category of three": lambda rng, codes, seen: null_category.family(
        codes, seen, 3, rng.uniform(0, 3), some_rates(rng, 3)
    ),
    "null category, width and rates free": lambda rng, codes, seen: null_category.family(
        codes % 2, seen, 2, None, sample_missing_rates=True
    ),
    "null category of three, width free": lambda rng, codes, seen: null_category.family(
        codes, seen, 3, None, sample_missing_rates=bool(rng.random() < 0.5)
    ),
}
EVERY_KIND = pytest.mark.parametrize("kind", KINDS)
ONE_FUNCTION = pytest.mark.parametrize(
    "kind", [kind for kind in KINDS if "three" not in kind and "multinomial" not in kind]
)
LABELLED = pytest.mark.parametrize("kind", ["probit", "multinomial probit", "ordinal"])


def problem(kind, seed, *, n=None, n_max=25, log_variance=(-4.0, 12.0)):
    """n from 2 to 25 and an amplitude from e^{−2} to e^6, unless told."""
    rng = np.random.default_rng([seed, list(KINDS).index(kind)])
    n = int(rng.integers(2, n_max + 1)) if n is None else n
    inputs = rng.standard_normal((n, 2))
    prior = kernel_prior("isotropic" if rng.random() < 0.5 else "ard", inputs)
    theta = prior.mean + prior.sd * rng.standard_normal(len(prior.mean))
    theta[0] = rng.uniform(*log_variance)
    codes, seen = rng.integers(3, size=n), rng.random(n) < rng.uniform(0.1, 1.0)
    family = KINDS[kind](rng, codes, seen)
    phi = family.mean + family.sd * rng.standard_normal(len(family.mean))
    return Problem(inputs, prior, family, theta, phi), rng


# The bound never falls ----------------------------------------------------------------------------


@EVERY_KIND
@pytest.mark.parametrize("seeds", [range(start, start + 5) for start in range(0, 25, 5)], ids=str)
def test_no_iteration_of_coordinate_ascent_lowers_the_bound(kind, seeds):
    """Two hundred problems in all, from starts near and far."""
    for seed in seeds:
        given, rng = problem(kind, seed)
        start = rng.choice([0.0, 1.0, 30.0]) * rng.standard_normal(given.regions().zeros().shape)
        bounds = vb.ascend(
            given.factor(), given.regions(), start, max_iterations=150
        ).lower_bounds
        assert len(bounds) > 1
        assert np.isfinite(bounds).all()
        assert np.diff(bounds).min() > -1e-9, f"seed {seed}"


@EVERY_KIND
def test_coordinate_ascent_ends_by_itself_under_the_prior_of_the_variance(kind):
    for seed in range(6):
        given, _ = problem(kind, seed, log_variance=(-1.0, 5.0))  # three deviations each way
        q = vb.ascend(given.factor(), given.regions(), given.regions().zeros(), max_iterations=400)
        assert len(q.lower_bounds) < 402, f"seed {seed}"


@EVERY_KIND
def test_no_iteration_of_the_maximisation_lowers_the_bound(kind):
    for seed in range(8):
        given, _ = problem(kind, 100 + seed, n_max=12)
        reported = []
        result = given.maximise(report=lambda i, b, to=reported: to.append((i, b)))
        assert np.isfinite(result.lower_bounds).all()
        assert np.diff(result.lower_bounds).min(initial=0.0) > -1e-9, f"seed {seed}"
        assert reported == list(enumerate(result.lower_bounds))[1:]


@EVERY_KIND
@pytest.mark.parametrize("seed", range(2))
def test_the_result_is_what_its_parameters_say(kind, seed):
    """Its last bound is that of θ, φ and m, prior included, and m is C w."""
    given, _ = problem(kind, 200 + seed, n_max=12)
    result = given.maximise()
    there = given._replace(theta=result.log_parameters, phi=result.region_parameters)
    np.testing.assert_allclose(
        there.gram() @ result.weights, result.mean, atol=1e-6 * np.abs(result.mean).max()
    )
    bound = bound_at(there.factor(), there.regions(), result.mean, result.weights)
    assert bound + log_prior(there) == pytest.approx(result.lower_bounds[-1], abs=1e-7)
    deviations = np.concatenate(standardised(there))
    assert np.abs(deviations).max() <= vb.PRIOR_REACH + 1e-9


def bound_at(factor, regions, m, w):
    total = log_region_probability(regions, m, 1.0).sum()
    return total - 0.5 * np.sum(w * m) - 0.5 * regions.n_free * cholesky_log_det(factor)


def standardised(given):
    return (
        (given.theta - given.prior.mean) / given.prior.sd,
        (given.phi - given.family.mean) / given.family.sd,
    )


def log_prior(given):
    return -0.5 * sum(float(deviations @ deviations) for deviations in standardised(given))


# It is a bound, and which -------------------------------------------------------------------------


@ONE_FUNCTION
@pytest.mark.parametrize("n", [1, 2])
@pytest.mark.parametrize("seed", range(3))
def test_it_is_below_the_exact_log_evidence_of_one_function(kind, n, seed):
    given, _ = problem(kind, 300 + seed, n=n, log_variance=(-3.0, 4.0))
    regions = given.regions()
    q = vb.ascend(given.factor(), regions, regions.zeros())
    exact = quadrature_posterior(
        lambda f: sum(log_region_probability(_row(regions, i, len(f)), f[:, i], 1.0)
                      for i in range(n)),
        given.gram(),
    )  # fmt: skip
    assert exact.log_evidence_error < 1e-3
    assert q.lower_bounds.max() < exact.log_evidence + exact.log_evidence_error + 1e-9
    assert q.lower_bounds[-1] > exact.log_evidence - 5.0 * n  # and not by far


def _row(regions, i, n):
    """One row's regions, n times."""
    return type(regions)(*(np.repeat(part[i : i + 1], n, 0) if np.ndim(part) else part
                           for part in regions))  # fmt: skip


@pytest.mark.parametrize("kind", ["multinomial probit", "null category of three"])
@pytest.mark.parametrize("n", [1, 2])
def test_it_is_below_the_exact_log_evidence_of_three_functions(kind, n):
    """By integration over the two contrasts of each row, which alone matter."""
    given, _ = problem(kind, 310, n=n, log_variance=(-3.0, 1.0))
    regions = given.regions()
    q = vb.ascend(given.factor(), regions, regions.zeros())

    def log_likelihood(contrasts):
        by_row = contrasts.reshape(len(contrasts), n, 2)
        f = np.concatenate([np.zeros((len(contrasts), n, 1)), by_row], axis=2)
        return sum(
            log_region_probability(_row(regions, i, len(f)), f[:, i], 1.0) for i in range(n)
        )

    covariance = np.kron(given.gram(), np.eye(2) + 1.0)
    exact = quadrature_posterior(
        log_likelihood, covariance, n_nodes=60 if n == 1 else 21, half_width=6.5
    )
    assert exact.log_evidence_error < 0.01
    assert q.lower_bounds.max() < exact.log_evidence + exact.log_evidence_error
    assert q.lower_bounds[-1] > exact.log_evidence - 5.0 * n


@EVERY_KIND
def test_it_is_the_exact_log_evidence_where_the_function_is_known(kind):
    given, _ = problem(kind, 320, n=6, log_variance=(-20.0, -19.0))
    regions = given.regions()
    q = vb.ascend(given.factor(), regions, regions.zeros())
    exact = log_region_probability(regions, regions.zeros(), 1.0).sum()
    assert q.lower_bounds[-1] == pytest.approx(exact, abs=1e-6)


@ONE_FUNCTION
@pytest.mark.parametrize("seed", range(3))
def test_it_is_the_expectation_under_q_of_the_log_joint_over_q(kind, seed):
    """For one row, on a grid of f and z, by the definition of the bound; at its maximum or not."""
    given, rng = problem(kind, 330 + seed, n=1, log_variance=(-3.0, 4.0))
    regions, C = given.regions(), given.gram()[0, 0]
    for max_iterations in (0, 3):
        q = vb.ascend(
            given.factor(), regions, 2 * rng.standard_normal(1), max_iterations=max_iterations
        )
        m, variance = q.mean[0], C / (C + 1.0)
        x, weights = roots_hermitenorm(40)
        f, of_f = m + np.sqrt(variance) * x, weights / weights.sum()
        z, of_z, log_weight = grid_of_z(regions, m)
        log_q_f = -0.5 * (f - m) ** 2 / variance - 0.5 * np.log(variance)
        log_p_f = -0.5 * f**2 / C - 0.5 * np.log(C)
        mass = log_region_probability(regions, q.mean, 1.0)[0]
        log_q_z = log_weight - 0.5 * (z - m) ** 2 - mass
        log_p_z = log_weight - 0.5 * (z - f[:, None]) ** 2  # and the label, given f
        integrand = (log_p_f - log_q_f)[:, None] + log_p_z - log_q_z
        assert of_z.sum() == pytest.approx(1.0, abs=1e-9)
        assert of_f @ integrand @ of_z == pytest.approx(q.lower_bounds[-1], abs=1e-8)


def grid_of_z(regions, m):
    """Points of all of a row's intervals, what q(z) weighs each with, and log weights."""
    nodes, weights = np.polynomial.legendre.leggauss(80)
    z, mass, log_weight = [], [], []
    for lower, upper, own in zip(*(part[0] for part in regions)):
        # From the end that is nearest to m, as far as there is mass.
        low, high = (np.clip(end, m - 10, m + 10) for end in (lower, upper))
        if own == -np.inf or low == high:
            continue
        half = 0.5 * (high - low)
        z.append(low + half * (1 + nodes))
        mass.append(half * weights * np.exp(own - 0.5 * (z[-1] - m) ** 2))
        log_weight.append(np.full(len(nodes), own))
    mass = np.concatenate(mass)
    return np.concatenate(z), mass / mass.sum(), np.concatenate(log_weight)


# Where it is largest ------------------------------------------------------------------------------


@EVERY_KIND
@pytest.mark.parametrize("seed", range(3))
def test_the_mean_solves_the_equation_of_the_posterior_mode(kind, seed):
    """m = C × gradient of the log-likelihood at m, and w is that gradient."""
    given, _ = problem(kind, 400 + seed, log_variance=(-3.0, 3.0))
    q = tight(given.factor(), given.regions(), given.regions().zeros())
    np.testing.assert_allclose(q.weights, q.gradients.mean, atol=1e-5)
    np.testing.assert_allclose(q.mean, given.gram() @ q.gradients.mean, atol=1e-4)
    again = given.regions().gradients(q.mean, 1.0)
    np.testing.assert_array_equal(again.mean, q.gradients.mean)


@EVERY_KIND
def test_no_mean_nearby_has_a_higher_bound(kind):
    given, rng = problem(kind, 410, log_variance=(-3.0, 3.0))
    factor, regions, C = given.factor(), given.regions(), given.gram()
    # Not from zero, where unlabelled rows between the classes may balance on a ridge.
    q = tight(factor, regions, rng.standard_normal(regions.zeros().shape))
    best = bound_at(factor, regions, q.mean, q.weights)
    assert q.lower_bounds[-1] == pytest.approx(best, abs=1e-9)
    for size in (1e-3, 1e-2, 1e-1):
        w = q.weights + size * rng.standard_normal(q.weights.shape)
        assert bound_at(factor, regions, C @ w, w) < best


@LABELLED
def test_labels_alone_leave_one_maximum_whatever_the_start(kind):
    given, rng = problem(kind, 420, log_variance=(-3.0, 3.0))
    regions = given.regions()
    starts = [scale * rng.standard_normal(regions.zeros().shape) for scale in (0.0, 1.0, 30.0)]
    if regions.zeros().ndim == 2:  # what all functions have in common is not constrained
        starts = [start - start.mean(axis=1, keepdims=True) for start in starts]
    ends = [tight(given.factor(), regions, start) for start in starts]
    for end in ends[1:]:
        assert end.lower_bounds[-1] == pytest.approx(ends[0].lower_bounds[-1], abs=1e-7)
        np.testing.assert_allclose(end.mean, ends[0].mean, atol=1e-3)


@pytest.mark.parametrize("kind", ["multinomial probit", "null category of three"])
def test_what_all_functions_have_in_common_stays_at_zero(kind):
    given, _ = problem(kind, 430, n=12, log_variance=(0.0, 4.0))
    q = vb.ascend(given.factor(), given.regions(), given.regions().zeros())
    np.testing.assert_allclose(q.mean.sum(axis=1), 0.0, atol=1e-9)
    assert np.abs(q.mean).max() > 0.1


@EVERY_KIND
@pytest.mark.parametrize("seed", range(2))
def test_the_gradient_by_kernel_and_region_parameters_matches_finite_differences(
    monkeypatch, kind, seed
):
    """What the optimiser is handed: the value and its derivative at random points."""
    given, rng = problem(kind, 500 + seed, n=8)
    monkeypatch.setattr(vb, "ascend", tight)
    points = []

    def inspect(function, start, **_):
        x, step = start + 0.4 * rng.standard_normal(len(start)), 1e-4
        function(x)  # the nearest start for the rest
        value, slope = function(x)
        finite = [
            (function(x + step * e)[0] - function(x - step * e)[0]) / (2 * step)
            for e in np.eye(len(x))
        ]
        points.append((value, slope, finite))
        return NamedTuple("Outcome", [("status", int)])(0)

    monkeypatch.setattr(vb, "minimize", inspect)
    given.maximise()
    ((value, slope, finite),) = points
    assert np.isfinite(value)
    assert len(slope) == len(given.theta) + len(given.phi)
    np.testing.assert_allclose(slope, finite, rtol=1e-4, atol=2e-4)


@LABELLED
def test_no_parameters_nearby_have_a_higher_bound(kind):
    given, _ = problem(kind, 510, n=15)
    result = given.maximise()
    assert result.converged
    there = given._replace(theta=result.log_parameters, phi=result.region_parameters)
    p = len(there.theta)
    spread = np.concatenate([given.prior.sd, given.family.sd])
    at = np.concatenate([there.theta, there.phi])
    for direction in np.eye(len(at)):
        for step in (-0.2, 0.2):
            moved = at + step * spread * direction
            near = there._replace(theta=moved[:p], phi=moved[p:])
            bound = vb.ascend(near.factor(), near.regions(), result.mean).lower_bounds[-1]
            assert bound + log_prior(near) < result.lower_bounds[-1]


def test_a_search_cut_short_says_that_it_has_not_converged():
    given, _ = problem("ordinal", 520, n=20)
    assert given.maximise().converged
    short = given.maximise(max_iterations=1)
    assert not short.converged
    assert len(short.lower_bounds) == 2


def test_with_no_free_parameter_there_is_one_bound():
    given, _ = problem("probit", 530, n=10)
    prior = kernel_prior(ConstantKernel(3.0, "fixed") * RBF(1.0, "fixed"), given.inputs)
    result = given._replace(prior=prior).maximise()
    factor = factor_of(gram_function(prior, given.inputs)(np.zeros(0)))
    expected = vb.ascend(factor, given.regions(), np.zeros(10))
    assert result.lower_bounds.tolist() == [expected.lower_bounds[-1]]
    assert result.converged
    assert result.log_parameters.shape == result.region_parameters.shape == (0,)
    np.testing.assert_array_equal(result.mean, expected.mean)


# One model as a case of another -------------------------------------------------------------------


@pytest.mark.parametrize("rates", [None, (0.3, 0.8)])
@pytest.mark.parametrize("null_width", [0.0, 1.1])
def test_two_functions_have_the_bound_and_the_contrast_of_one(null_width, rates):
    given, rng = problem("probit", 600, n=14, log_variance=(0.0, 4.0))
    codes, seen = rng.integers(2, size=14), rng.random(14) < 0.6
    one = tight(
        given.factor(), null_category.regions(codes, seen, null_width, rates), np.zeros(14)
    )
    two = tight(
        given.factor(),
        null_category.margin_regions(codes, seen, 2, null_width, rates),
        np.zeros((14, 2)),
    )
    assert two.lower_bounds[-1] == pytest.approx(one.lower_bounds[-1], abs=1e-8)
    contrast = (two.mean[:, 1] - two.mean[:, 0]) / np.sqrt(2)
    np.testing.assert_allclose(contrast, one.mean, atol=1e-4)


def test_two_functions_have_the_maximum_of_one():
    """Kernel, width and all: the search goes the same way."""
    _, rng = problem("null category", 610)
    inputs, codes = rng.standard_normal((15, 2)), rng.integers(2, size=15)
    prior = kernel_prior("isotropic", inputs)
    one = Problem(inputs, prior, fixed_regions(probit.regions(codes)), prior.mean, np.zeros(0))
    two = one._replace(family=fixed_regions(multinomial_probit.regions(codes, 2)))
    of_one, of_two = one.maximise(), two.maximise()
    assert of_two.lower_bounds[-1] == pytest.approx(of_one.lower_bounds[-1], abs=1e-6)
    np.testing.assert_allclose(of_two.log_parameters, of_one.log_parameters, atol=1e-2)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_unlabelled_rows_say_nothing_where_there_is_no_null_region(n_classes):
    given, rng = problem("probit", 620, n=16, log_variance=(0.0, 4.0))
    codes, seen = rng.integers(n_classes, size=16), np.arange(16) < 9
    family = null_category.family(codes, seen, n_classes, 0.0)
    regions = family.at(np.zeros(0)).regions
    every = tight(given.factor(), regions, regions.zeros())
    few = given._replace(inputs=given.inputs[:9])
    of_labelled = null_category.family(codes[:9], seen[:9], n_classes, 0.0).at(np.zeros(0)).regions
    alone = tight(few.factor(), of_labelled, of_labelled.zeros())
    np.testing.assert_allclose(every.mean[:9], alone.mean, atol=1e-4)
    np.testing.assert_allclose(every.weights[9:], 0.0, atol=1e-6)
    # Each unlabelled row widens log det V, not the likelihood: the bound alone pays for it.
    assert every.lower_bounds[-1] < alone.lower_bounds[-1]


def test_a_null_region_moves_unlabelled_rows_out_of_it():
    """Against the same model without one, |f| of an unlabelled row between the labels grows."""
    inputs = np.array([[-1.0], [0.3], [1.0]])
    prior = kernel_prior("isotropic", inputs)
    factor = factor_of(gram_function(prior, inputs)(prior.mean))
    codes, seen = np.array([0, 0, 1]), np.array([True, False, True])
    without, within = (
        vb.ascend(factor, null_category.regions(codes, seen, width), np.zeros(3)).mean
        for width in (0.0, 2.0)
    )
    assert within[1] > without[1] > 0
