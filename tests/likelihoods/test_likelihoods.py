"""Every likelihood of the registry against brute force, and tests that none is forgotten.

A likelihood's entry in `ORACLES` is all that a new one needs here: the tests below walk it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import mpmath as mp
import numpy as np
import pytest
from scipy.special import expit, log_ndtr, log_softmax
from scipy.stats import chisquare, norm

from atoll.core.regions import log_region_probability
from atoll.diagnostics import quadrature_posterior
from atoll.likelihoods import (
    GRADIENTS,
    LIKELIHOODS,
    REGIONS,
    argmax,
    multinomial_probit,
    null_category,
    ordinal,
    probit,
    softmax,
    softmax_rejection,
)

MEANS, VARIANCES = [-3.0, 0.4, 2.0], [1e-3, 4.0, 30.0]
GRID = [(m, v) for m in MEANS for v in VARIANCES]
CUT_POINTS = np.array([-1.3, 0.2, 0.9, 4.0])
WIDTH = 0.6  # less than each gap between the cut points
OTHERS = np.array([0.3, -0.5])  # means of the other functions

SEEN, UNSEEN = np.array([True]), np.array([False])
NOTHING = np.zeros(0)


# What the tests ask of a likelihood ---------------------------------------------------------------


class Oracle(NamedTuple):
    """A likelihood with its free numbers given.

    n_classes : K
    n_functions : F; None for one function whose values have no axis of their own
    log_prob : (m,) or (m, F) latent values, (m,) codes -> (m,)
    sample : rng, latent values -> codes, −1 where a row is null
    of_moments : mean (..., F), variance (...,) -> (..., K) log class probabilities
    likelihood, region_parameters : what a posterior carries, and φ, where it has regions
    regions : (m,) codes -> the regions of z, where it has regions
    gradient : latent values, codes -> gradient of the sum of log_prob
    class_probabilities : latent values -> (m, K)
    tolerance : that the docstring of `of_moments` promises
    """

    n_classes: int
    n_functions: int | None
    log_prob: Callable[..., np.ndarray]
    sample: Callable[..., np.ndarray]
    of_moments: Callable[..., np.ndarray] | None = None
    likelihood: Any = None
    region_parameters: np.ndarray = NOTHING
    regions: Callable[..., Any] | None = None
    gradient: Callable[..., np.ndarray] | None = None
    class_probabilities: Callable[..., np.ndarray] | None = None
    tolerance: float = 1e-9

    def probabilities(self, latent):
        """(m, K) from the log-probability of each label."""
        codes = np.arange(self.n_classes)
        return np.exp([self.log_prob(latent, np.full(len(latent), k)) for k in codes]).T

    def latent(self, rng, n, scale=1.0):
        shape = (n,) if self.n_functions is None else (n, self.n_functions)
        return scale * rng.standard_normal(shape)


def labelled(log_prob, *parameters):
    """f, codes -> log_prob, for likelihoods that also take a mask of what is labelled."""
    return lambda f, codes: log_prob(f, codes, np.ones(len(f), dtype=bool), *parameters)


def labelled_regions(regions, *parameters):
    return lambda codes: regions(codes, np.ones(len(codes), dtype=bool), *parameters)


def of_ranks(width):
    return Oracle(
        n_classes=5,
        n_functions=None,
        log_prob=labelled(ordinal.log_prob, CUT_POINTS, width),
        sample=partial(ordinal.sample, cut_points=CUT_POINTS, null_width=width),
        of_moments=partial(
            ordinal.log_class_probabilities, cut_points=CUT_POINTS, null_width=width
        ),
        likelihood=ordinal.Ordinal(width),
        regions=labelled_regions(ordinal.regions, CUT_POINTS, width),
        region_parameters=np.append(CUT_POINTS[:1], np.log(np.diff(CUT_POINTS) - width)),
    )


def of_null_category(n_functions, width=1.4, free=False):
    K = n_functions or 2
    of_moments = (
        null_category.log_class_probabilities
        if n_functions is None
        else null_category.log_margin_class_probabilities
    )
    return Oracle(
        n_classes=K,
        n_functions=n_functions,
        log_prob=labelled(null_category.log_prob, width),
        sample=partial(null_category.sample, null_width=width),
        of_moments=partial(of_moments, null_width=width),
        # Two functions are two classes, too, but not those of this model.
        likelihood=None
        if n_functions == 2
        else null_category.NullCategory(None if free else width, K),
        regions=labelled_regions(null_category.regions, width)
        if n_functions is None
        else labelled_regions(null_category.margin_regions, n_functions, width),
        region_parameters=np.array([np.log(width)]) if free else NOTHING,
    )


def of_multinomial_probit(n_classes):
    return Oracle(
        n_classes,
        n_classes,
        multinomial_probit.log_prob,
        multinomial_probit.sample,
        multinomial_probit.log_class_probabilities,
        multinomial_probit.MultinomialProbit(),
        regions=partial(multinomial_probit.regions, n_classes=n_classes),
    )


def of_softmax(n_classes, tolerance):
    def of_moments(mean, variance):  # of one variance for all, as those of the others have
        variances = np.broadcast_to(np.asarray(variance)[..., None], np.shape(mean))
        return softmax.log_class_probabilities(mean, variances)

    return Oracle(
        n_classes,
        n_classes,
        softmax.log_prob,
        softmax.sample,
        of_moments,
        gradient=softmax.gradient,
        class_probabilities=softmax.class_probabilities,
        tolerance=tolerance,
    )


# Those of the name of a likelihood, or of that and more words.
ORACLES = {
    "probit": Oracle(
        2,
        None,
        probit.log_prob,
        probit.sample,
        probit.log_class_probabilities,
        probit.Probit(),
        regions=probit.regions,
    ),
    "multinomial_probit": of_multinomial_probit(3),
    "multinomial_probit of two": of_multinomial_probit(2),
    "ordinal": of_ranks(0.0),
    "ordinal with null regions": of_ranks(WIDTH),
    "null_category": of_null_category(None),
    "null_category of a free width": of_null_category(None, free=True),
    "null_category of width zero": of_null_category(None, 0.0),
    "null_category of two functions": of_null_category(2),
    "null_category of three": of_null_category(3),
    "null_category of three, width zero": of_null_category(3, 0.0),
    "softmax": of_softmax(3, 0.01),
    "softmax of two": of_softmax(2, 1e-7),
    "argmax": Oracle(
        3,
        3,
        argmax.log_prob,
        argmax.sample,
        gradient=argmax.gradient,
        class_probabilities=argmax.class_probabilities,
    ),
    "softmax_rejection": Oracle(
        3,
        3,
        softmax_rejection.log_prob,
        softmax_rejection.sample,
        gradient=softmax_rejection.gradient,
        class_probabilities=softmax_rejection.class_probabilities,
    ),
    "argmax of one function": Oracle(
        2,
        1,
        argmax.log_prob,
        argmax.sample,
        gradient=argmax.gradient,
        class_probabilities=argmax.class_probabilities,
    ),
}


def names_of(having):
    """Oracles that have a part, to walk over."""
    found = [name for name, oracle in ORACLES.items() if getattr(oracle, having) is not None]
    return pytest.mark.parametrize("name", found)


def likelihoods_with(having):
    return {name.split(" ")[0] for name, one in ORACLES.items() if getattr(one, having) is not None}


EVERY = pytest.mark.parametrize("name", ORACLES)


def test_every_likelihood_has_an_oracle():
    missing = LIKELIHOODS.keys() - {name.split(" ")[0] for name in ORACLES}
    assert not missing, f"add these to ORACLES: {sorted(missing)}"


def test_a_likelihood_of_regions_has_quadrature_and_an_object_to_travel_with_a_posterior():
    assert REGIONS.keys() <= likelihoods_with("of_moments")
    assert REGIONS.keys() == likelihoods_with("likelihood")
    assert REGIONS.keys() == likelihoods_with("regions")
    for module in REGIONS.values():
        for name in ("regions", "log_prob", "log_class_probabilities", "sample"):
            assert callable(getattr(module, name))


def test_a_likelihood_with_a_gradient_has_finite_differences_and_class_probabilities():
    assert GRADIENTS.keys() == likelihoods_with("gradient")
    assert GRADIENTS.keys() == likelihoods_with("class_probabilities")
    for module in GRADIENTS.values():
        for name in ("log_prob", "gradient", "class_probabilities", "sample"):
            assert callable(getattr(module, name))


# Class probabilities by brute force ---------------------------------------------------------------


def average(function, mean, covariance):
    """E function(f), f ~ N(mean, covariance), by brute force; function: (m, d) -> (m, K)."""
    n_nodes = {1: 400, 2: 130, 3: 80}[len(covariance)]  # errors below 1e-10 in what follows
    prior = quadrature_posterior(
        lambda f: np.zeros(len(f)), covariance, n_nodes=n_nodes, half_width=7.0
    )
    return prior.expectation(lambda f: function(f + mean))


def exact_probabilities(oracle, mean, variance):
    """Of functions with these moments; of several, over contrasts with the first, which alone
    matter."""
    if oracle.n_functions is None:
        return average(lambda f: oracle.probabilities(f[:, 0]), mean, [[variance]])
    K = oracle.n_functions
    return average(
        lambda d: oracle.probabilities(np.column_stack([np.zeros(len(d)), d])),
        mean[1:] - mean[0],
        variance * (np.eye(K - 1) + 1.0),
    )


@names_of("of_moments")
@pytest.mark.parametrize(("mean", "variance"), GRID)
def test_class_probabilities_are_averages_of_the_likelihood(name, mean, variance):
    oracle = ORACLES[name]
    if oracle.n_functions is not None:
        mean = np.append(mean, OTHERS)[: oracle.n_functions]
    if name == "softmax":  # whose quasi-random errors, of .01 each at the widest, average out
        variances = np.full(len(mean), variance)
        each = [softmax.log_class_probabilities(mean, variances, scramble=s) for s in range(32)]
        ours = np.exp(each).mean(axis=0)
    else:
        ours = np.exp(oracle.of_moments(np.array(mean), np.array(variance)))
    exact = exact_probabilities(oracle, mean, variance)
    np.testing.assert_allclose(ours, exact, atol=oracle.tolerance)


@names_of("likelihood")
def test_what_a_posterior_carries_has_the_likelihoods_class_probabilities(name):
    """Of one row of latent values and of draws of several rows alike."""
    oracle, rng = ORACLES[name], np.random.default_rng(0)
    mean, variance = oracle.latent(rng, 12, 2.0), rng.gamma(2.0, size=12)
    found = oracle.likelihood.log_class_probabilities(mean, variance, oracle.region_parameters)
    np.testing.assert_allclose(found, oracle.of_moments(mean, variance), rtol=1e-12, atol=1e-14)
    draws = oracle.likelihood.log_class_probabilities(
        mean.reshape(3, 4, *mean.shape[1:]), variance.reshape(3, 4), oracle.region_parameters
    )
    np.testing.assert_allclose(draws, found.reshape(3, 4, -1), rtol=1e-12, atol=1e-14)
    assert isinstance(oracle.likelihood, tuple)  # immutable, of plain values


def test_three_problems_against_the_rest_are_conditioned_on_one_yes():
    """Paper 001's likelihood for each of three functions, by brute force over all of z."""
    widths, rates, noise = np.array([0.4, 1.0, 0.0]), np.array([0.3, 0.6]), 0.5
    likelihood = null_category.OneAgainstTheRest(widths, np.log(np.tile(rates, (3, 1))), noise)
    mean, variance = np.array([0.7, -0.4, 0.1]), np.array([0.2, 1.5, 0.6])
    z = np.linspace(-12.0, 12.0, 20_001)
    yes, no = [], []
    for m, v, w in zip(mean, variance, widths):
        density = norm.pdf(z, m, np.sqrt(v + noise)) * (z[1] - z[0])
        yes.append(rates[1] * density[z > w / 2].sum())
        no.append(rates[0] * density[z < -w / 2].sum())
    p = np.array([yes[k] * np.prod(np.delete(no, k)) for k in range(3)])
    ours = np.exp(likelihood.log_class_probabilities(mean, variance, NOTHING))
    np.testing.assert_allclose(ours, p / p.sum(), atol=1e-3)  # of the rule at its ends
    one = null_category.OneAgainstTheRest(widths[:1], np.log(rates)[None], noise)
    of_two = np.exp(one.log_class_probabilities(mean[:1], variance[:1], NOTHING))
    np.testing.assert_allclose(of_two, np.array([no[0], yes[0]]) / (no[0] + yes[0]), atol=1e-3)


def test_the_multinomial_probit_is_the_chance_that_one_latent_value_exceeds_the_others():
    """By integration of the density of z over all of z, a million points."""
    f = np.array([0.7, -0.4, 0.1])
    nodes, weights = np.polynomial.legendre.leggauss(100)
    # Winner from −8 to 8 about its mean, losers from far below up to the winner.
    for winner in range(3):
        first, second = (i for i in range(3) if i != winner)
        z = f[winner] + 8.0 * nodes
        below = [
            [0.5 * (top + 9.0) * weights @ norm.pdf(-9.0 + 0.5 * (top + 9.0) * (1 + nodes), f[i])
             for top in z]
            for i in (first, second)
        ]  # fmt: skip
        exact = 8.0 * weights @ (norm.pdf(8.0 * nodes) * below[0] * below[1])
        ours = multinomial_probit.log_prob(f[None], np.array([winner]))[0]
        assert np.exp(ours) == pytest.approx(exact, abs=1e-12)


def test_three_class_softmax_is_within_its_quasi_monte_carlo_error():
    means, variances = np.array([0.5, -1.0, 1.0]), np.array([2.0, 1.0, 3.0])
    exact = average(lambda f: np.exp(log_softmax(f, axis=1)), means, np.diag(variances))
    # Scrambled anew for each posterior draw, the error averages out.
    hundred = [
        np.exp(softmax.log_class_probabilities(means, variances, scramble=draw))
        for draw in range(100)
    ]
    spread = np.std(hundred, axis=0)
    assert (spread < 0.01).all()
    assert (np.abs(np.mean(hundred, axis=0) - exact) < 6.0 * spread / 10.0 + 1e-6).all()


@pytest.mark.parametrize("sd", [1.0, 9.9, 10.1, 30.0, 1e3])
@pytest.mark.parametrize("difference", [-20.0, 0.0, 1.0, 50.0])
def test_two_class_softmax_is_exact_for_any_variance(difference, sd):
    mean, variance = np.array([0.0, difference]), np.array([0.3 * sd**2, 0.7 * sd**2])
    ours = np.exp(softmax.log_class_probabilities(mean, variance))[1]
    d = np.linspace(-10 * sd, 10 * sd, 400_001)  # steps far below 1 and sd: a rule of brute force
    exact = np.trapezoid(norm.pdf(d, scale=sd) * expit(d + difference), d)
    assert ours == pytest.approx(exact, abs=1e-7)


# Sums to one --------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_classes", [2, 3, 7])
def test_softmax_probabilities_are_equal_where_the_classes_are(n_classes):
    p = np.exp(softmax.log_class_probabilities(np.zeros(n_classes), np.full(n_classes, 50.0)))
    np.testing.assert_allclose(p, 1 / n_classes, atol=1e-12)


SUM_TO_ONE = [
    name for name, oracle in ORACLES.items()
    if oracle.of_moments is not None
    and (not name.startswith("null_category") or "width zero" in name)
    and "null regions" not in name
]  # fmt: skip


@pytest.mark.parametrize("name", SUM_TO_ONE)
def test_probabilities_sum_to_one_at_random_means_and_variances(name):
    rng, oracle = np.random.default_rng(0), ORACLES[name]
    n = 5000 if name.startswith("softmax") else 30_000  # which normalises, and is slow
    scale = 10 ** rng.uniform(-2, 4, n)  # from all alike to one that is certain
    mean = (scale * oracle.latent(rng, n).T).T
    p = np.exp(oracle.of_moments(mean, 10 ** rng.uniform(-6, 6, n)))
    assert np.abs(p.sum(axis=1) - 1).max() < 1e-12


def test_four_classes_of_the_multinomial_probit_sum_to_one():
    """Which take another rule than three."""
    rng = np.random.default_rng(0)
    mean = (10 ** rng.uniform(-2, 4, 10_000) * rng.standard_normal((4, 10_000))).T
    p = np.exp(multinomial_probit.log_class_probabilities(mean, 10 ** rng.uniform(-6, 6, 10_000)))
    assert np.abs(p.sum(axis=1) - 1).max() < 1e-12


@EVERY
def test_the_probabilities_of_all_labels_and_of_none_sum_to_one(name):
    """What inference asks, by other routes than predictions take; none: the null region."""
    oracle = ORACLES[name]
    latent = oracle.latent(np.random.default_rng(1), 3000, 100.0)
    total = oracle.probabilities(latent).sum(axis=1)
    assert np.all(total < 1 + 1e-12)
    if name == "softmax_rejection":  # whose other outcome is the rejection
        rejected = np.full(len(total), softmax_rejection.REJECTED)
        total = total + np.exp(oracle.log_prob(latent, rejected))
    if name in SUM_TO_ONE or oracle.gradient is not None:
        np.testing.assert_allclose(total, 1.0, atol=1e-12)


@names_of("class_probabilities")
def test_class_probabilities_given_the_functions_are_those_of_the_labels(name):
    oracle = ORACLES[name]
    latent = oracle.latent(np.random.default_rng(2), 200, 3.0)
    p = oracle.probabilities(latent)
    expected = p / p.sum(axis=1, keepdims=True)  # given that the row has a class
    np.testing.assert_allclose(oracle.class_probabilities(latent), expected, rtol=1e-11, atol=1e-15)


# Far out ------------------------------------------------------------------------------------------

FAR = [-1e4, -37.0, 0.0, 37.0, 1e4]
FAR_ROWS = np.array(list(itertools.product(FAR, repeat=3)))


@names_of("regions")
def test_regions_carry_the_likelihood(name):
    oracle, rng = ORACLES[name], np.random.default_rng(3)
    latent = oracle.latent(rng, 60, 5.0)
    for k in range(oracle.n_classes):
        codes = np.full(60, k)
        found = log_region_probability(oracle.regions(codes), latent, 1.0)
        np.testing.assert_allclose(found, oracle.log_prob(latent, codes), rtol=1e-11, atol=1e-14)


@EVERY
def test_no_log_probability_nor_gradient_is_nan_far_out(name):
    oracle = ORACLES[name]
    F = oracle.n_functions
    latent = np.array(FAR) if F is None else np.array(list(itertools.product(FAR, repeat=F)))
    for k in range(oracle.n_classes):
        codes = np.full(len(latent), k)
        assert_no_nan(oracle.log_prob(latent, codes))
        if oracle.gradient is not None:
            assert np.isfinite(oracle.gradient(latent, codes)).all()
        if oracle.regions is not None:
            assert np.isfinite(oracle.log_prob(latent, codes)).all()
            assert np.isfinite(oracle.regions(codes).gradients(latent, 1.0).mean).all()
        for variance in (0.0, 1.0, 1e6) if oracle.of_moments is not None else ():
            assert_no_nan(oracle.of_moments(latent, np.full(len(latent), variance)))


def assert_no_nan(*arrays):
    for array in arrays:
        assert not np.isnan(array).any()


def all_regions():
    """Regions of every kind for as many rows as FAR and FAR_ROWS have, each label in turn."""
    n, m = len(FAR), len(FAR_ROWS)
    one, many = np.array(FAR), FAR_ROWS
    rates = (0.2, 0.7, 0.4)
    for k in range(3):
        yield one, probit.regions(np.full(n, k % 2))
        yield many, multinomial_probit.regions(np.full(m, k), 3)
        yield many[:, :2], multinomial_probit.regions(np.full(m, k % 2), 2)
        for seen, width in itertools.product((False, True), (0.0, 1e-3, WIDTH)):
            yield one, ordinal.regions(np.full(n, k), np.full(n, seen), CUT_POINTS, width)
            yield one, null_category.regions(np.full(n, k % 2), np.full(n, seen), width, rates[:2])
            yield (
                many,
                null_category.margin_regions(np.full(m, k), np.full(m, seen), 3, width, rates),
            )


@pytest.mark.parametrize("variance", [0.0, 1.0, 1e6])
def test_no_class_probability_is_nan_far_out(variance):
    f, v, w = np.array(FAR), np.full(len(FAR), variance), np.full(len(FAR_ROWS), variance)
    logs = [
        probit.log_class_probabilities(f, v),
        multinomial_probit.log_class_probabilities(FAR_ROWS, w),
        ordinal.log_class_probabilities(f, v, CUT_POINTS),
        ordinal.log_class_probabilities(f, v, CUT_POINTS, WIDTH),
        null_category.log_class_probabilities(f, v, 1.0),
        null_category.log_margin_class_probabilities(FAR_ROWS, w, 1.0),
        softmax.log_class_probabilities(FAR_ROWS[:, :2], np.column_stack([w, w])),
    ]
    for log_p in logs:
        assert np.isfinite(log_p).all()
    # An average over points: what is zero at all of them is zero.
    assert_no_nan(softmax.log_class_probabilities(FAR_ROWS, np.column_stack([w, w, w])))


def test_no_log_probability_is_nan_or_infinite_far_out():
    f, codes = np.array(FAR), np.arange(5)
    every = np.arange(len(FAR_ROWS)) % 3
    assert np.isfinite(probit.log_prob(f, codes % 2)).all()
    assert np.isfinite(multinomial_probit.log_prob(FAR_ROWS, every)).all()
    assert np.isfinite(softmax.log_prob(FAR_ROWS, every)).all()
    assert np.isfinite(softmax.gradient(FAR_ROWS, every)).all()
    for mask in (True, False):
        seen, seen_rows = np.full(5, mask), np.full(len(FAR_ROWS), mask)
        for width in (0.0, 1.0):
            assert np.isfinite(null_category.log_prob(f, codes % 2, seen, width)).all()
            assert np.isfinite(null_category.log_prob(FAR_ROWS, every, seen_rows, width)).all()
        for k in range(5):
            ranks = np.full(5, k)
            assert np.isfinite(ordinal.log_prob(f, ranks, seen, CUT_POINTS, WIDTH)).all()


def test_no_gradient_nor_total_of_any_regions_is_nan_or_infinite_far_out():
    for f, regions in all_regions():
        slopes = regions.gradients(f, 1.0)
        parts = (slopes.log_probability, slopes.mean, slopes.curvature, slopes.log_weight)
        for part in (*parts, *slopes.ends):
            assert np.isfinite(part).all()
        assert np.isfinite(regions.total()(f))


def test_draws_far_out_are_finite_and_lie_in_their_regions():
    rng = np.random.default_rng(2)
    for f, regions in all_regions():
        z = regions.sample(rng, f, 1.0)
        update = regions.row_update()
        uniforms = (1.0 - rng.random((len(f), regions.n_uniforms))).tolist()
        again = np.array(
            [update(n, z[n].tolist(), f[n].tolist(), 1.0, uniforms[n]) for n in range(len(f))]
        )
        for draw in (z, again):
            assert np.isfinite(draw).all()
            assert inside(regions, draw).all()


def inside(regions, z):
    """(n,) whether z lies in one of its row's regions; on the edge, rounding decides."""
    allowed = np.isfinite(regions.log_weight)
    if z.ndim == 1:
        hit = (regions.lower <= z[:, None]) & (z[:, None] <= regions.upper)
        return (hit & allowed).any(axis=1)
    first, second = -np.sort(-z, axis=1)[:, :2].T
    clear = first - second >= regions.margin - 1e-11 * np.abs(first)
    return allowed[np.arange(len(z)), np.argmax(z, axis=1)] & clear


def test_labels_sampled_far_out_are_the_certain_ones():
    rng = np.random.default_rng(3)
    f = np.array([-1e4, 1e4])
    rows = np.array([[1e4, -1e4, 0.0], [0.0, -1e4, 1e4]])
    assert probit.sample(rng, f).tolist() == [0, 1]
    assert ordinal.sample(rng, f, CUT_POINTS, WIDTH).tolist() == [0, 4]
    assert null_category.sample(rng, f, WIDTH).tolist() == [0, 1]
    for likelihood in (multinomial_probit, softmax):
        assert likelihood.sample(rng, rows).tolist() == [0, 2]
    assert null_category.sample(rng, rows, WIDTH).tolist() == [0, 2]


@pytest.mark.parametrize("mean", [-1e4, -300.0, -30.0, -3.0, 2.5, 25.0, 200.0, 1e4])
@pytest.mark.parametrize("variance", [0.0, 3.0, 1e6])
@pytest.mark.parametrize("null_width", [0.0, WIDTH])
def test_probabilities_of_ranks_far_out_match_fifty_digit_arithmetic(mean, variance, null_width):
    ours = ordinal.log_class_probabilities(
        np.array(mean), np.array(variance), CUT_POINTS, null_width
    )
    with mp.workdps(50):
        half = mp.mpf(null_width) / 2
        cuts, scale = [mp.mpf(b) for b in CUT_POINTS], mp.sqrt(2 * (1 + mp.mpf(variance)))

        def beyond(end):
            """P(z > end), and P(z < end), each without cancellation."""
            x = (end - mp.mpf(mean)) / scale
            return mp.erfc(x) / 2, mp.erfc(-x) / 2

        gaps = itertools.pairwise(cuts)
        ends = [(-mp.inf, cuts[0] - half), *((a + half, b - half) for a, b in gaps)]
        for k, (lower, upper) in enumerate([*ends, (cuts[-1] + half, mp.inf)]):
            (above_lower, below_lower), (above_upper, below_upper) = beyond(lower), beyond(upper)
            in_right_tail = lower > mean
            p = above_lower - above_upper if in_right_tail else below_upper - below_lower
            assert ours[k] == pytest.approx(float(mp.log(p)), rel=1e-12, abs=1e-12)


# Gradients ----------------------------------------------------------------------------------------


@names_of("gradient")
def test_gradients_match_finite_differences(name):
    oracle, rng = ORACLES[name], np.random.default_rng(1)
    f, codes = oracle.latent(rng, 6), rng.integers(oracle.n_classes, size=6)
    impossible = np.isneginf(oracle.log_prob(f, codes))
    codes = np.where(impossible, np.argmax(oracle.probabilities(f), axis=1), codes)
    slope, step = oracle.gradient(f, codes), 1e-6
    for index in np.ndindex(f.shape):
        up, down = f.copy(), f.copy()
        up[index] += step
        down[index] -= step
        finite = (oracle.log_prob(up, codes).sum() - oracle.log_prob(down, codes).sum()) / 2e-6
        assert slope[index] == pytest.approx(finite, rel=1e-6, abs=1e-8)


# Sampling -----------------------------------------------------------------------------------------


@EVERY
def test_sampled_labels_have_the_frequencies_that_log_prob_says(name):
    oracle, rng, n = ORACLES[name], np.random.default_rng(4), 20_000
    latent = oracle.latent(rng, 3)
    for row, p in zip(latent, oracle.probabilities(latent)):
        labels = oracle.sample(rng, np.repeat(row[None], n, axis=0))
        counts = np.bincount(np.maximum(labels, -1) + 1, minlength=len(p) + 1)  # none first
        expected = n * np.append(max(1.0 - p.sum(), 0.0), p)  # −1 is for null regions alone
        possible = expected > 1e-6
        assert counts[~possible].sum() == 0
        if possible.sum() > 1:
            wanted = expected[possible] / expected[possible].sum() * n
            assert chisquare(counts[possible], wanted).pvalue > 1e-6


# One likelihood as a case of another --------------------------------------------------------------


def test_probit_regions_carry_the_probit_likelihood():
    f, codes = np.linspace(-4, 4, 9), np.arange(9) % 2
    np.testing.assert_allclose(
        log_region_probability(probit.regions(codes), f, 1.0), probit.log_prob(f, codes)
    )


def test_null_width_zero_and_all_labelled_is_the_probit_likelihood():
    f, codes = np.linspace(-4, 4, 9), np.arange(9) % 2
    ours = null_category.log_prob(f, codes, np.ones(9, dtype=bool), 0.0, (0.0, 0.0))
    np.testing.assert_allclose(ours, probit.log_prob(f, codes), rtol=1e-12)


def test_null_width_zero_and_all_labelled_is_the_multinomial_probit_likelihood():
    rng = np.random.default_rng(5)
    f, codes = 5 * rng.standard_normal((60, 4)), rng.integers(4, size=60)
    ours = null_category.log_prob(f, codes, np.ones(60, dtype=bool), 0.0)
    np.testing.assert_allclose(ours, multinomial_probit.log_prob(f, codes), rtol=1e-12)


@pytest.mark.parametrize("null_width", [0.0, 0.7])
def test_two_ranks_about_zero_are_the_null_category(null_width):
    rng = np.random.default_rng(6)
    f, codes, seen = 3 * rng.standard_normal(40), rng.integers(2, size=40), rng.random(40) < 0.5
    np.testing.assert_allclose(
        ordinal.log_prob(f, codes, seen, np.zeros(1), null_width),
        null_category.log_prob(f, codes, seen, null_width),
        rtol=1e-12,
        atol=1e-15,
    )


@pytest.mark.parametrize("null_width", [0.0, 1.0, 3.0])
def test_two_functions_are_one_function_under_the_null_category(null_width):
    """f_k ~ N(m_k, v) each: the contrast (f_1 − f_0)/√2 has mean (m_1 − m_0)/√2, variance v."""
    rng = np.random.default_rng(7)
    n = 500
    means, variance = 10 * rng.standard_normal((n, 2)), 10 ** rng.uniform(-3, 3, n)
    contrast = (means[:, 1] - means[:, 0]) / np.sqrt(2)
    np.testing.assert_allclose(
        null_category.log_margin_class_probabilities(means, variance, null_width),
        null_category.log_class_probabilities(contrast, variance, null_width),
        rtol=1e-11,
        atol=1e-14,
    )


@pytest.mark.parametrize("rates", [None, (0.3, 0.9)])
def test_two_functions_have_the_likelihood_of_their_contrast(rates):
    """f = (−g, g)/√2 has the contrast g; and so has f plus any number."""
    rng = np.random.default_rng(8)
    n, width = 300, 1.3
    g, codes, seen = 6 * rng.standard_normal(n), rng.integers(2, size=n), rng.random(n) < 0.5
    f = np.column_stack([-g, g]) / np.sqrt(2)
    one = null_category.log_prob(g, codes, seen, width, rates)
    two = null_category.log_prob(f, codes, seen, width, rates)
    np.testing.assert_allclose(two, one, rtol=1e-11, atol=1e-14)
    moved = null_category.log_prob(f + rng.standard_normal((n, 1)), codes, seen, width, rates)
    np.testing.assert_allclose(moved, one, rtol=1e-11, atol=1e-14)
    probit_of_two = multinomial_probit.log_prob(f, codes)
    np.testing.assert_allclose(probit_of_two, probit.log_prob(g, codes), rtol=1e-11, atol=1e-14)


def test_labels_their_absence_and_the_null_region_exhaust_all_mass():
    """Σ over what may be seen of one row, and the null region, is one (paper 001, eq. 3)."""
    f, width, rates = np.array([0.3]), 1.2, (0.3, 0.8)
    seen = [null_category.log_prob(f, np.array([k]), SEEN, width, rates) for k in (0, 1)]
    unseen = null_category.log_prob(f, np.array([0]), UNSEEN, width, rates)
    null = np.exp(log_ndtr(0.6 - 0.3)) - np.exp(log_ndtr(-0.6 - 0.3))
    assert float(np.exp([*seen, unseen]).sum() + null) == pytest.approx(1.0, abs=1e-12)


def test_a_missing_rate_is_the_chance_of_no_label_given_the_class():
    """Of three classes: p(no label) = Σ γ_k P_k, p(label k) = (1 − γ_k) P_k."""
    f, width, rates = np.array([[0.3, -0.5, 1.0]]), 1.2, np.array([0.3, 0.8, 0.0])
    classes = [np.array([k]) for k in range(3)]
    p = np.exp([null_category.log_prob(f, k, SEEN, width)[0] for k in classes])
    seen = np.exp([null_category.log_prob(f, k, SEEN, width, rates)[0] for k in classes])
    unseen = np.exp(null_category.log_prob(f, classes[0], UNSEEN, width, rates)[0])
    np.testing.assert_allclose(seen, (1 - rates) * p, rtol=1e-12)
    assert unseen == pytest.approx(rates @ p, rel=1e-12)


def test_a_row_without_a_rank_is_in_any_rank_but_between_none():
    f, none = np.array([0.4]), np.array([0])
    ranks = [ordinal.log_prob(f, np.array([k]), SEEN, CUT_POINTS, WIDTH) for k in range(5)]
    unseen = ordinal.log_prob(f, none, UNSEEN, CUT_POINTS, WIDTH)
    assert np.exp(unseen[0]) == pytest.approx(np.exp(ranks).sum(), rel=1e-12)
    null = sum(norm.cdf(b + WIDTH / 2, 0.4) - norm.cdf(b - WIDTH / 2, 0.4) for b in CUT_POINTS)
    assert np.exp(unseen[0]) + null == pytest.approx(1.0, abs=1e-12)
    assert ordinal.log_prob(f, none, UNSEEN, CUT_POINTS)[0] == pytest.approx(0.0, abs=1e-12)


# Free parameters ----------------------------------------------------------------------------------


@pytest.mark.parametrize("n_classes", [2, 3, 8])
@pytest.mark.parametrize("scale", [1.0, 7.0])
def test_ranks_are_equally_probable_at_the_prior_mean_of_the_cut_points(n_classes, scale):
    family = ordinal.family(np.arange(n_classes), np.full(n_classes, True), n_classes, 0.0, scale)
    regions = family.at(family.mean).regions
    masses = np.exp(regions.log_masses(np.zeros(n_classes), scale))
    np.testing.assert_allclose(masses, 1 / n_classes, atol=1e-12)


@pytest.mark.parametrize("null_width", [0.0, 2.5])
def test_any_parameters_give_cut_points_further_apart_than_the_null_width(null_width):
    parameters = 5 * np.random.default_rng(9).standard_normal((200, 4))
    b = ordinal.cut_points_at(parameters, null_width)
    assert np.all(np.diff(b, axis=1) > null_width)
    np.testing.assert_array_equal(b[:, 0], parameters[:, 0])


def test_missing_rates_are_read_from_the_last_parameters():
    parameters = np.array([[0.3, -1.0, 0.0, 2.0]])  # a log width and the log odds of three classes
    rates = null_category.missing_rates_at(parameters, 3)
    np.testing.assert_allclose(rates, expit([[-1.0, 0.0, 2.0]]), rtol=1e-15)
    codes = np.arange(3)
    family = null_category.family(codes, codes < 2, 3, None, sample_missing_rates=True)
    expected = null_category.margin_regions(codes, codes < 2, 3, np.exp(0.3), rates[0])
    ours = family.at(parameters[0]).regions
    np.testing.assert_allclose(ours.log_weight, expected.log_weight, rtol=1e-15)
    assert ours.margin == expected.margin


def test_class_probabilities_on_one_grid_are_those_of_the_quadrature():
    rng = np.random.default_rng(0)
    for K in (3, 5, 12):
        mean = rng.standard_normal((200, K)) * 10.0 ** rng.uniform(-2, 3, size=(200, 1))
        variance = 10.0 ** rng.uniform(-3, 4, size=200)
        found = multinomial_probit.class_probabilities(mean, variance)
        exact = np.exp(multinomial_probit.log_class_probabilities(mean, variance))
        np.testing.assert_allclose(found, exact, atol=1e-9)
        np.testing.assert_allclose(found.sum(axis=1), 1.0, rtol=1e-12)
