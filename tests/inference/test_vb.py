"""Variational Bayes: its bound against brute force, and that no iteration ever lowers it."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from atoll.core.regions import Margins, RegionFamily, fixed_regions, log_region_probability
from atoll.diagnostics import quadrature_posterior
from atoll.inference import type_two, vb
from atoll.kernels.hyperparameters import (
    KernelPrior,
    gram_function,
    gram_gradient_function,
    kernel_prior,
)
from atoll.likelihoods import multinomial_probit, null_category, ordinal, probit

ascend = vb.ascend
tight = partial(ascend, tolerance=1e-13, max_iterations=5000)


class Problem(NamedTuple):
    """Rows, a kernel with its prior, regions; and θ and φ anywhere."""

    inputs: np.ndarray
    prior: KernelPrior
    family: RegionFamily
    theta: np.ndarray
    phi: np.ndarray

    def gram(self):
        return gram_function(self.prior, self.inputs)(self.theta)

    def gaussian(self):
        return precision_and_log_det(self.gram())

    def regions(self):
        return self.family.at(self.phi).regions

    def ascend(self, start=None, ascend=vb.ascend, **options):
        regions = self.regions()
        return ascend(
            *self.gaussian(), regions, regions.zeros() if start is None else start, **options
        )

    def maximise(self, **options):
        gradient = gram_gradient_function(self.prior, self.inputs)
        gram = gram_function(self.prior, self.inputs)
        return vb.maximise(gram, gradient, self.prior, self.family, **options)


def precision_and_log_det(C):
    V = C + np.eye(len(C))
    return np.linalg.inv(V), np.linalg.slogdet(V)[1]


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
@pytest.mark.parametrize(
    "seeds", [range(10), pytest.param(range(10, 25), marks=pytest.mark.slow)], ids=str
)
def test_no_iteration_of_the_ascent_lowers_the_bound(kind, seeds):
    """Two hundred problems in all with the slow ones, from starts near and far."""
    for seed in seeds:
        given, rng = problem(kind, seed)
        shape = given.regions().zeros().shape
        start = rng.choice([0.0, 1.0, 30.0]) * rng.standard_normal(shape)
        q = given.ascend(start, max_iterations=250)
        assert np.isfinite(q.lower_bounds).all()
        assert np.diff(q.lower_bounds).min(initial=0.0) > -1e-9, f"seed {seed}"
        exact = bound_at(*given.gaussian(), given.regions(), q.location)
        assert q.lower_bounds[-1] == pytest.approx(exact, abs=1e-7, rel=1e-9), f"seed {seed}"


def bound_at(Q, log_det, regions, location):
    """E_q log N(z; 0, V) plus the entropy of q, from the masses and means of its parts alone.

    log q(z_n) = log N(z_n; a_n, 1/d_n) + log weight − log mass; the squares of z and of z − a that
    both have cancel, but for what the means say.
    """
    d = np.diagonal(Q)
    d = d if location.ndim == 1 else d[:, None]
    slopes = regions.gradients(location, 1.0 / np.sqrt(np.diagonal(Q)))
    mean = location + slopes.mean / d
    off_diagonal = Q - np.diag(np.diagonal(Q))
    expected = -0.5 * np.sum(mean * (off_diagonal @ mean))  # z_n and z_m are independent under q
    of_own = np.sum(d * (0.5 * location**2 - location * mean))  # −½ d z² + ½ d (z − a)²
    log_dets = 0.5 * regions.n_free * (np.log(np.diagonal(Q)).sum() + log_det)
    return expected + of_own + slopes.log_probability.sum() - log_dets


@EVERY_KIND
def test_the_ascent_ends_by_itself_under_the_prior_of_the_variance(kind):
    for seed in range(6):
        given, _ = problem(kind, seed, log_variance=(-1.0, 5.0))  # three deviations each way
        q = given.ascend(max_iterations=1000)
        assert len(q.lower_bounds) < 1000, f"seed {seed}"


@EVERY_KIND
def test_no_iteration_of_the_maximisation_lowers_the_bound(kind):
    for seed in range(8):
        given, _ = problem(kind, 100 + seed, n_max=15)
        reported = []
        result = given.maximise(report=lambda i, b, to=reported: to.append((i, b)))
        assert np.isfinite(result.log_evidences).all()
        assert np.diff(result.log_evidences).min(initial=0.0) > -1e-9, f"seed {seed}"
        assert reported == list(enumerate(result.log_evidences))[1:]


@EVERY_KIND
@pytest.mark.parametrize("seed", range(2))
def test_the_result_is_what_its_parameters_say(kind, seed):
    """Its last bound is that of θ, φ and w = Q z̄, prior included."""
    given, _ = problem(kind, 200 + seed, n_max=12)
    result = given.maximise()
    there = given._replace(theta=result.log_parameters, phi=result.region_parameters)
    Q, log_det = there.gaussian()
    mean = result.weights + there.gram() @ result.weights
    location = mean - (result.weights.T / np.diagonal(Q)).T
    bound = bound_at(Q, log_det, there.regions(), location)
    assert bound + log_prior(there) == pytest.approx(result.log_evidences[-1], abs=1e-6)
    assert np.abs(np.concatenate(standardised(there))).max() <= type_two.PRIOR_REACH + 1e-9
    again = there.ascend(location)
    np.testing.assert_allclose(again.variance, result.auxiliary_variance, atol=1e-3)


def standardised(given):
    return (
        (given.theta - given.prior.mean) / given.prior.sd,
        (given.phi - given.family.mean) / given.family.sd,
    )


def log_prior(given):
    """Relative to its peak."""
    return -0.5 * sum(float(deviations @ deviations) for deviations in standardised(given))


# It is a bound, and which -------------------------------------------------------------------------


def exact_evidence_of_rows(given):
    """log P(z in its regions) of each row by itself, z ~ N(0, C_nn + 1)."""
    regions, sd = given.regions(), np.sqrt(1.0 + np.diagonal(given.gram()))
    return log_region_probability(regions, regions.zeros(), sd)


@EVERY_KIND
@pytest.mark.parametrize("seed", range(3))
def test_it_is_the_exact_log_evidence_of_one_row(kind, seed):
    given, _ = problem(kind, 300 + seed, n=1)
    exact = exact_evidence_of_rows(given)[0]
    assert given.ascend().lower_bounds[-1] == pytest.approx(exact, abs=1e-9)


@EVERY_KIND
def test_it_is_the_exact_log_evidence_of_rows_that_are_independent(kind):
    given, _ = problem(kind, 305, n=6)
    given = given._replace(inputs=1e3 * given.inputs)
    exact = exact_evidence_of_rows(given).sum()
    assert given.ascend().lower_bounds[-1] == pytest.approx(exact, abs=1e-8)


@ONE_FUNCTION
@pytest.mark.parametrize("n", [2, 3])
@pytest.mark.parametrize("seed", range(3))
def test_it_is_below_the_exact_log_evidence_of_several_rows(kind, n, seed):
    given, _ = problem(kind, 310 + seed, n=n, log_variance=(-3.0, 4.0 if n == 2 else 1.5))
    given = given._replace(phi=given.family.mean)  # cut points where f is
    regions = given.regions()
    q = given.ascend()
    exact = quadrature_posterior(
        lambda f: sum(
            log_region_probability(_row(regions, i, len(f)), f[:, i], 1.0) for i in range(n)
        ),
        given.gram(),
        n_nodes={2: 120, 3: 45}[n],
    )
    assert exact.log_evidence_error < 0.01
    assert q.lower_bounds.max() < exact.log_evidence + exact.log_evidence_error + 1e-9
    assert q.lower_bounds[-1] > exact.log_evidence - 1.5 * n  # and not by far


def _row(regions, i, n):
    """One row's regions, n times."""
    parts = (np.repeat(part[i : i + 1], n, axis=0) if np.ndim(part) else part for part in regions)
    return type(regions)(*parts)


@EVERY_KIND
@pytest.mark.parametrize("seed", range(3))
def test_it_is_above_that_of_a_function_parted_from_z(kind, seed):
    """q(f) q(z) with q(f) = N(m, C Q): Girolami and Rogers's bound, at whatever m they reach."""
    given, _ = problem(kind, 320 + seed, log_variance=(-3.0, 5.0))
    regions, (Q, log_det) = given.regions(), given.gaussian()
    z = regions.zeros()
    for _ in range(50):
        w = Q @ z
        m = z - w
        z = m + regions.gradients(m, 1.0).mean
    total = log_region_probability(regions, m, 1.0).sum()
    theirs = total - 0.5 * np.sum(w * m) - 0.5 * regions.n_free * log_det
    # From where they are: with unlabelled rows there may be several maxima.
    ours = given.ascend(z - ((Q @ z).T / np.diagonal(Q)).T).lower_bounds[-1]
    assert ours > theirs - 1e-9


@ONE_FUNCTION
@pytest.mark.parametrize("seed", range(3))
def test_it_is_the_expectation_under_q_of_the_log_joint_over_q(kind, seed):
    """For two rows, on a grid of z, by the definition of the bound; at its maximum or not."""
    given, rng = problem(kind, 330 + seed, n=2, log_variance=(-2.0, 4.0))
    regions, (Q, log_det) = given.regions(), given.gaussian()
    for max_iterations in (0, 3):
        q = given.ascend(rng.standard_normal(2), max_iterations=max_iterations)
        sd = 1.0 / np.sqrt(np.diagonal(Q))
        first, second = (grid_of_z(_row(regions, i, 1), q.location[i], sd[i]) for i in range(2))
        z = np.stack(np.meshgrid(first.z, second.z, indexing="ij"), axis=-1)
        log_joint = first.log_weight[:, None] + second.log_weight - np.log(2 * np.pi)
        log_joint -= 0.5 * np.einsum("...i,ij,...j->...", z, Q, z) + 0.5 * log_det
        log_ratio = log_joint - (first.log_density[:, None] + second.log_density)
        exact = first.mass @ log_ratio @ second.mass
        assert q.lower_bounds[-1] == pytest.approx(exact, abs=1e-8)
        for i, grid in enumerate((first, second)):
            mean = grid.mass @ grid.z
            assert q.mean[i] == pytest.approx(mean, abs=1e-8)
            assert q.variance[i] == pytest.approx(grid.mass @ (grid.z - mean) ** 2, abs=1e-8)


class Grid(NamedTuple):
    """Points of all of a row's intervals, q's mass and log density there, log weights."""

    z: np.ndarray
    mass: np.ndarray
    log_density: np.ndarray
    log_weight: np.ndarray


def grid_of_z(regions, location, sd):
    nodes, weights = np.polynomial.legendre.leggauss(80)
    log_mass = log_region_probability(regions, np.array([location]), sd)[0]
    parts = []
    for lower, upper, log_weight in zip(*(part[0] for part in regions)):
        # As far as there is mass: from the end that is nearest to the location.
        nearest = np.clip(location, lower, upper)
        low, high = (np.clip(end, nearest - 10 * sd, nearest + 10 * sd) for end in (lower, upper))
        if log_weight == -np.inf:
            continue
        half = 0.5 * (high - low)
        z = low + half * (1 + nodes)
        log_normal = -0.5 * ((z - location) / sd) ** 2 - np.log(sd * np.sqrt(2 * np.pi))
        log_density = log_weight + log_normal - log_mass
        parts.append((z, half * weights * np.exp(log_density), log_density, log_weight + 0 * z))
    grid = Grid(*map(np.concatenate, zip(*parts)))
    assert grid.mass.sum() == pytest.approx(1.0, abs=1e-9)
    return grid


# Where it is largest ------------------------------------------------------------------------------


@EVERY_KIND
@pytest.mark.parametrize("seed", range(3))
def test_each_row_stands_where_the_means_of_the_others_put_it(kind, seed):
    """a_n = −Σ_{m≠n} Q_nm z̄_m / Q_nn: what the Gibbs sampler has, with means for draws."""
    given, _ = problem(kind, 400 + seed, log_variance=(-3.0, 3.0))
    q = given.ascend(ascend=tight)
    Q, _ = given.gaussian()
    d = np.diagonal(Q)
    others = Q - np.diag(d)
    np.testing.assert_allclose(q.location, -((others @ q.mean).T / d).T, atol=1e-4)
    slopes = given.regions().gradients(q.location, 1.0 / np.sqrt(d))
    np.testing.assert_array_equal(slopes.mean, q.gradients.mean)
    np.testing.assert_allclose(q.mean, q.location + (slopes.mean.T / d).T, rtol=1e-12, atol=1e-12)


@EVERY_KIND
def test_no_location_nearby_has_a_higher_bound(kind):
    given, rng = problem(kind, 410, log_variance=(-3.0, 3.0))
    # Not from zero, where unlabelled rows between the classes may balance on a ridge.
    q = given.ascend(rng.standard_normal(given.regions().zeros().shape), ascend=tight)
    gaussian, regions = given.gaussian(), given.regions()
    best = bound_at(*gaussian, regions, q.location)
    for size in (1e-2, 1e-1, 1.0):
        away = size * rng.standard_normal(q.location.shape)
        assert bound_at(*gaussian, regions, q.location + away) < best + 1e-10


@LABELLED
def test_labels_alone_leave_one_maximum_whatever_the_start(kind):
    given, rng = problem(kind, 420, log_variance=(-3.0, 3.0))
    shape = given.regions().zeros().shape
    ends = [
        given.ascend(scale * rng.standard_normal(shape), ascend=tight) for scale in (0, 1.0, 30.0)
    ]
    for end in ends[1:]:
        assert end.lower_bounds[-1] == pytest.approx(ends[0].lower_bounds[-1], abs=1e-7)
        np.testing.assert_allclose(end.mean, ends[0].mean, atol=1e-3)


@EVERY_KIND
def test_mean_and_variance_are_those_of_draws_from_q(kind):
    """Of several functions, the variance is the mean over the contrasts that labels constrain."""
    given, rng = problem(kind, 425, n=3, log_variance=(-1.0, 4.0))
    q = given.ascend()
    sd, n = 1.0 / np.sqrt(np.diagonal(given.gaussian()[0])), 20_000
    for i in range(3):
        rows = _row(given.regions(), i, n)
        z = rows.sample(rng, np.repeat(q.location[i : i + 1], n, axis=0), sd[i])
        if isinstance(rows, Margins):  # K − 1 contrasts, and the mean over classes, which is free
            z = z - z.mean(axis=1, keepdims=True)
            squares = np.sum((z - q.mean[i]) ** 2, axis=1) / rows.n_free
        else:
            squares = (z - q.mean[i]) ** 2
        assert np.all(np.abs(z.mean(axis=0) - q.mean[i]) < 6 * z.std(axis=0) / np.sqrt(n))
        assert abs(squares.mean() - q.variance[i]) < 6 * squares.std() / np.sqrt(n)


@pytest.mark.parametrize("kind", ["multinomial probit", "null category of three"])
def test_what_all_functions_have_in_common_stays_at_zero(kind):
    given, rng = problem(kind, 430, n=12, log_variance=(0.0, 4.0))
    q = given.ascend(rng.standard_normal((12, 3)))
    np.testing.assert_allclose(q.mean.sum(axis=1), 0.0, atol=1e-9)
    assert np.abs(q.mean).max() > 0.1


@EVERY_KIND
@pytest.mark.parametrize("seed", range(2))
def test_the_gradient_by_kernel_and_region_parameters_matches_finite_differences(
    monkeypatch, kind, seed
):
    """What the optimiser is handed: the value and its derivative at random points."""
    given, rng = problem(kind, 500 + seed, n=8)
    tightly = {"tolerance": 1e-13, "max_iterations": 5000}
    monkeypatch.setattr(vb, "ascend", lambda *a, **given: ascend(*a, **given | tightly))
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

    monkeypatch.setattr(type_two, "minimize", inspect)
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
            bound = near.ascend().lower_bounds[-1]
            assert bound + log_prior(near) < result.log_evidences[-1]


def test_a_search_cut_short_says_that_it_has_not_converged():
    given, _ = problem("ordinal", 520, n=20)
    assert given.maximise().converged
    short = given.maximise(max_iterations=1)
    assert not short.converged
    assert len(short.log_evidences) == 2


def test_with_no_free_parameter_there_is_one_bound():
    given, _ = problem("probit", 530, n=10)
    prior = kernel_prior(ConstantKernel(3.0, "fixed") * RBF(1.0, "fixed"), given.inputs)
    result = given._replace(prior=prior).maximise()
    C = gram_function(prior, given.inputs)(np.zeros(0))
    Q, log_det = precision_and_log_det(C)
    expected = vb.ascend(Q, log_det, given.regions(), np.zeros(10))
    assert result.log_evidences == pytest.approx([expected.lower_bounds[-1]], abs=1e-9)
    assert result.converged
    assert result.log_parameters.shape == result.region_parameters.shape == (0,)
    np.testing.assert_allclose(result.weights, Q @ expected.mean, atol=1e-6)
    np.testing.assert_allclose(result.auxiliary_variance, expected.variance, atol=1e-6)


# One model as a case of another -------------------------------------------------------------------


@pytest.mark.parametrize("rates", [None, (0.3, 0.8)])
@pytest.mark.parametrize("null_width", [0.0, 1.1])
def test_two_functions_have_the_bound_and_the_contrast_of_one(null_width, rates):
    given, rng = problem("probit", 600, n=14, log_variance=(0.0, 4.0))
    codes, seen, gaussian = rng.integers(2, size=14), rng.random(14) < 0.6, given.gaussian()
    start = rng.standard_normal(14)
    of_one = null_category.regions(codes, seen, null_width, rates)
    of_two = null_category.margin_regions(codes, seen, 2, null_width, rates)
    one = tight(*gaussian, of_one, start)
    two = tight(*gaussian, of_two, np.column_stack([-start, start]) / np.sqrt(2))
    assert two.lower_bounds[-1] == pytest.approx(one.lower_bounds[-1], abs=1e-8)
    contrast = (two.mean[:, 1] - two.mean[:, 0]) / np.sqrt(2)
    np.testing.assert_allclose(contrast, one.mean, atol=1e-4)
    np.testing.assert_allclose(two.variance, one.variance, atol=1e-4)


def test_two_functions_have_the_maximum_of_one():
    """Kernel and all: the search goes the same way."""
    _, rng = problem("null category", 610)
    inputs, codes = rng.standard_normal((15, 2)), rng.integers(2, size=15)
    prior = kernel_prior("isotropic", inputs)
    one = Problem(inputs, prior, fixed_regions(probit.regions(codes)), prior.mean, np.zeros(0))
    two = one._replace(family=fixed_regions(multinomial_probit.regions(codes, 2)))
    of_one, of_two = one.maximise(), two.maximise()
    assert of_two.log_evidences[-1] == pytest.approx(of_one.log_evidences[-1], abs=1e-6)
    np.testing.assert_allclose(of_two.log_parameters, of_one.log_parameters, atol=1e-2)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_unlabelled_rows_follow_the_labelled_ones_where_there_is_no_null_region(n_classes):
    """They have no weight of their own, and their variance is what the other rows leave."""
    given, rng = problem("probit", 620, n=16, log_variance=(0.0, 4.0))
    codes, seen = rng.integers(n_classes, size=16), np.arange(16) < 9
    regions = null_category.family(codes, seen, n_classes, 0.0).at(np.zeros(0)).regions
    Q, log_det = given.gaussian()
    q = tight(Q, log_det, regions, regions.zeros())
    np.testing.assert_allclose((Q @ q.mean)[9:], 0.0, atol=1e-5)
    np.testing.assert_allclose(q.variance[9:], 1.0 / np.diagonal(Q)[9:], rtol=1e-6)
    V = given.gram() + np.eye(16)
    conditional = V[9:, :9] @ np.linalg.solve(V[:9, :9], q.mean[:9])
    np.testing.assert_allclose(q.mean[9:], conditional, atol=1e-4)


def test_a_null_region_moves_unlabelled_rows_out_of_it():
    """Against the same model without one, |f| of an unlabelled row between the labels grows."""
    inputs = np.array([[-1.0], [0.3], [1.0]])
    prior = kernel_prior("isotropic", inputs)
    C = gram_function(prior, inputs)(prior.mean)
    Q, log_det = precision_and_log_det(C)
    codes, seen = np.array([0, 0, 1]), np.array([True, False, True])
    without, within = (
        C @ Q @ vb.ascend(Q, log_det, null_category.regions(codes, seen, width), np.zeros(3)).mean
        for width in (0.0, 2.0)
    )
    assert within[1] > without[1] > 0


def test_at_given_parameters_it_is_the_ascent_there():
    rng = np.random.default_rng(8)
    X = rng.normal(size=(20, 2))
    prior = kernel_prior("isotropic", X)
    family = fixed_regions(probit.regions((X[:, 0] > 0).astype(int)))
    gradient = gram_gradient_function(prior, X)
    best = vb.maximise(gram_function(prior, X), gradient, prior, family)
    C = gram_function(prior, X)(best.log_parameters)
    found = vb.at(C, family, best.log_parameters, best.region_parameters, np.zeros(20))
    assert np.all(np.diff(found.log_evidences) >= 0)
    np.testing.assert_allclose(found.weights, best.weights, atol=1e-4)
    np.testing.assert_allclose(found.auxiliary_variance, best.auxiliary_variance, atol=1e-4)
    soon = vb.at(
        C, family, best.log_parameters, best.region_parameters, np.zeros(20), tolerance=1e-2
    )
    assert len(soon.log_evidences) < len(found.log_evidences)
    assert np.all(np.diff(soon.log_evidences)[:-1] >= 1e-2)
