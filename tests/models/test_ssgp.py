"""SSGP: its evidence, its gradient and its posterior, against other ways to find them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
from scipy.optimize import rosen, rosen_der
from scipy.special import log_ndtr, logsumexp, ndtri_exp
from scipy.stats import multivariate_normal, multivariate_t
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, WhiteKernel

from atoll.datasets import make_pinwheel
from atoll.inference.ep import no_sites, propagate
from atoll.kernels.graph_warped import Geometry, GraphWarpedKernel
from atoll.likelihoods import multinomial_probit, probit
from atoll.models import ssgp
from atoll.models.posterior import FunctionPosterior
from atoll.models.ssgp import Labels, Lengths, Problem, SSGPPosterior, fit_at, regression_at, search

CASES = pytest.mark.parametrize(
    ("n_classes", "base"),
    [(2, RBF(0.8)), (3, RBF(0.8)), (3, RBF([0.5, 0.9])), (2, 2.0 * Matern(1.0, nu=1.5))],
    ids=str,
)


def problem(n_classes, base, *, n=40, n_labels=8, seed=0, noise=ssgp.NOISE, power=2):
    rng = np.random.default_rng(seed)
    X, y = make_pinwheel(n, n_classes, random_state=rng)
    firsts = [np.flatnonzero(y == k)[0] for k in range(n_classes)]
    others = np.setdiff1d(np.arange(n), firsts)
    rows = np.concatenate([firsts, rng.choice(others, n_labels - n_classes, replace=False)])
    made = Problem(base, Geometry.from_rows(X, n_neighbors=5, power=power))
    return made, Labels(rows, y[rows], n_classes, noise), X


def parameters(base, ambient=0.5, ratio=20.0):
    return np.concatenate([base.theta + 0.1, np.log([ambient, ratio])])


def finite_differences(function, x, step=1e-4):
    steps = step * np.eye(len(x))
    return np.array([(function(x + s) - function(x - s)) / (2 * step) for s in steps])


# The kernel at the labelled rows ------------------------------------------------------------------


@CASES
@pytest.mark.parametrize("ratio", [0.0, 20.0])
def test_the_labelled_block_and_its_pull_are_the_kernel_s(n_classes, base, ratio):
    made, labels, X = problem(n_classes, base, power=3)
    grams = made.base_gram(base.theta)
    w = ssgp.warp(grams, made.geometry, ratio, labels.rows)
    kernel = GraphWarpedKernel(base, made.geometry, ratio)
    L = X[labels.rows]
    np.testing.assert_allclose(w.gram, kernel(L), rtol=0, atol=1e-12)
    np.testing.assert_allclose(base(L, X) - w.pull.T @ base(X), kernel(L, X), rtol=0, atol=1e-11)
    M = ratio * made.geometry.matrix()
    _, log_det = np.linalg.slogdet(np.eye(len(X)) + M @ base(X))
    np.testing.assert_allclose(w.log_det, log_det, rtol=0, atol=1e-9)


# The evidence -------------------------------------------------------------------------------------


@CASES
@pytest.mark.parametrize("noise", [1e-4, 0.3])
@pytest.mark.parametrize("full", [False, True])
def test_the_gradient_of_the_evidence_is_that_of_finite_differences(n_classes, base, noise, full):
    made, labels, _ = problem(n_classes, base, noise=noise)
    x = parameters(base)
    found = fit_at(made, labels, x, full=full, gradient=True)
    assert found.propagation.converged
    numeric = finite_differences(lambda x: fit_at(made, labels, x, full=full).log_evidence, x)
    np.testing.assert_allclose(found.slope, numeric, rtol=0, atol=1e-5)


def test_where_the_noise_is_too_small_to_be_seen_the_gradient_is_still_right():
    made, labels, _ = problem(2, RBF(0.8), noise=1e-7)
    x = parameters(made.base, ambient=1e-4)
    found = fit_at(made, labels, x, gradient=True)
    assert np.diagonal(found.gram).mean() == pytest.approx(ssgp.LARGEST_SIGNAL)
    numeric = finite_differences(lambda x: fit_at(made, labels, x).log_evidence, x)
    np.testing.assert_allclose(found.slope, numeric, rtol=0, atol=1e-5)


def importance_sampling(log_target, mean, covariance, rng, n=200_000):
    """log ∫ exp(log_target) and its standard error, with a wide t in place of the posterior."""
    d = len(mean)
    lower = np.linalg.cholesky(covariance)
    df = 5.0
    t = rng.standard_normal((n, d)) / np.sqrt(rng.chisquare(df, (n, 1)) / df)
    f = mean + 1.2 * t @ lower.T
    log_q = multivariate_t(mean, 1.44 * covariance, df=df).logpdf(f)
    weights = log_target(f) - log_q
    total = logsumexp(weights) - np.log(n)
    share = np.exp(weights - total)
    return total, share.std() / np.sqrt(n)


@pytest.mark.parametrize("seed", range(4))
def test_the_evidence_of_four_labels_is_that_of_importance_sampling(seed):
    made, labels, _ = problem(2, RBF(0.8), n_labels=4, seed=seed, noise=3.0)
    found = fit_at(made, labels, parameters(made.base))
    C = found.gram
    V = C + np.diag(1.0 / found.propagation.sites.precision)
    covariance = C - C @ np.linalg.solve(V, C) + 1e-9 * np.trace(C) * np.eye(4)
    sign = np.where(labels.codes == 1, 1.0, -1.0)
    prior = multivariate_normal(np.zeros(4), C, allow_singular=True)
    exact, error = importance_sampling(
        lambda f: log_ndtr(sign * f).sum(axis=1) + prior.logpdf(f),
        C @ found.propagation.weights,
        covariance,
        np.random.default_rng(seed),
    )
    assert error < 0.003
    assert abs(found.log_evidence - exact) < 6.0 * error


def orthant_by_cholesky(covariance, rng, n=100_000):
    """log P(u > 0) and its standard error, by sequential conditioning (Genz 1992)."""
    lower = np.linalg.cholesky(covariance)
    d = len(covariance)
    z, log_p = np.zeros((n, d)), np.zeros(n)
    for i in range(d):
        bound = -(z[:, :i] @ lower[i, :i]) / lower[i, i]
        log_tail = log_ndtr(-bound)
        log_p += log_tail
        z[:, i] = -ndtri_exp(np.log(rng.uniform(size=n)) + log_tail)
    total = logsumexp(log_p) - np.log(n)
    return total, np.exp(log_p - total).std() / np.sqrt(n)


def signed_correlation(seed, n_labels):
    """Of s f + noise without noise to speak of; the labels hold where all of these are positive."""
    made, labels, _ = problem(2, RBF(0.8), n_labels=n_labels, seed=seed)
    found = fit_at(made, labels, parameters(made.base))
    sign = np.where(labels.codes == 1, 1.0, -1.0)
    V = sign[:, None] * found.gram * sign + np.eye(n_labels)
    scale = np.sqrt(np.diagonal(V))
    return found.log_evidence, V / scale[:, None] / scale


def orthant(correlation):
    """log P(u > 0), in closed form for two and by quadrature for more (Genz, in SciPy)."""
    n = len(correlation)
    if n == 2:
        return np.log(0.25 + np.arcsin(correlation[0, 1]) / (2.0 * np.pi))
    zeros = np.zeros(n)
    return np.log(multivariate_normal.cdf(zeros, zeros, correlation, abseps=1e-6, releps=1e-6))


@pytest.mark.parametrize("n_labels", [2, 4])
@pytest.mark.parametrize("seed", range(4))
def test_sequential_conditioning_finds_the_mass_of_an_orthant(seed, n_labels):
    _, correlation = signed_correlation(seed, n_labels)
    found, error = orthant_by_cholesky(correlation, np.random.default_rng(seed), n=50_000)
    assert abs(found - orthant(correlation)) < 6.0 * error + 1e-4


@pytest.mark.parametrize("seed", range(4))
def test_the_evidence_of_two_labels_is_exact_and_of_four_too_small_without_noise(seed):
    # Expectation propagation's own error, since its sites have settled: with two labels it grows as
    # the cube of their correlation (0.0095 of it over sixty problems), with four it is up to 0.18.
    evidence, correlation = signed_correlation(seed, 2)
    assert abs(evidence - orthant(correlation)) < 0.02 * abs(correlation[0, 1]) ** 3 + 5e-6
    evidence, correlation = signed_correlation(seed, 4)
    assert -0.4 < evidence - orthant(correlation) < 0.0


@pytest.mark.parametrize("noise", [1e-4, 1.0])
@pytest.mark.parametrize(("n_classes", "n_labels"), [(2, 4), (3, 5), (4, 6)])
def test_the_evidence_falls_short_of_the_mass_of_the_cone_by_little(n_classes, n_labels, noise):
    # Expectation propagation's own error: labels that say the same are counted more than once, the
    # more so the less noise there is. Over eight problems at most 0.11, 0.28 and 0.25 nats at the
    # paper's noise, and 0.003, 0.02 and 0.03 where noise and function are of a size.
    rng = np.random.default_rng(0)
    made, labels, _ = problem(n_classes, RBF(0.8), n_labels=n_labels, noise=noise)
    found = fit_at(made, labels, parameters(made.base))
    V = found.gram
    if n_classes == 2:
        sign = np.where(labels.codes == 1, 1.0, -1.0)
        V = sign[:, None] * V * sign
    else:
        V = ssgp.difference_gram(V, labels)
    exact, error = orthant_by_cholesky(V + np.eye(len(V)), rng, n=50_000)
    assert error < 0.01
    allowed = 0.5 if noise < 1.0 else 0.05
    assert -allowed < found.log_evidence - exact < 6.0 * error


def test_the_differences_of_classes_have_the_covariance_of_the_multinomial_probit():
    rng = np.random.default_rng(0)
    made, labels, _ = problem(3, RBF(0.8), n_labels=5)
    C = fit_at(made, labels, parameters(made.base)).gram
    C /= C.mean()
    z = np.linalg.cholesky(C + np.eye(5)) @ rng.standard_normal((5, 3 * 40_000))
    z = z.reshape(5, 3, -1)
    rest = [np.delete(np.arange(3), c) for c in labels.codes]
    u = np.concatenate([z[n, y] - z[n, rest[n]] for n, y in enumerate(labels.codes)])
    expected = ssgp.difference_gram(C, labels) + np.eye(10)
    scale = np.sqrt(np.diag(expected))
    # An entry of a correlation of 40 000 draws is off by 1/200 or less.
    np.testing.assert_allclose(np.cov(u) / np.outer(scale, scale),
                               expected / np.outer(scale, scale), atol=6 / 200)  # fmt: skip


def test_two_classes_are_the_probit_process_on_the_warped_kernel():
    made, labels, X = problem(2, RBF(0.8), noise=0.5)
    x = parameters(made.base)
    kernel = GraphWarpedKernel(made.kernel_at(x), made.geometry, 20.0)
    C = kernel(X[labels.rows]) / (0.5 * 0.5**2)
    expected = propagate(C, probit.regions(labels.codes), no_sites(8), tolerance=1e-9)
    found = fit_at(made, labels, x)
    np.testing.assert_allclose(found.log_evidence, expected.log_evidences[-1], rtol=0, atol=1e-7)


def test_a_ratio_of_zero_is_the_supervised_process():
    made, labels, X = problem(2, RBF(0.8), noise=0.1)
    with np.errstate(divide="ignore"):
        x = np.append(made.base.theta, np.log([1.0, 0.0]))
    C = made.base(X[labels.rows]) / 0.1**2
    expected = propagate(C, probit.regions(labels.codes), no_sites(8), tolerance=1e-9)
    found = fit_at(made, labels, x)
    np.testing.assert_allclose(found.log_evidence, expected.log_evidences[-1], rtol=0, atol=1e-7)
    component = ssgp.propagated_component(made, found, labels)
    posterior = SSGPPosterior(X[labels.rows], (component,), 0.1)
    mean, variance = posterior.latent(X)
    cross = made.base(X[labels.rows], X) / 0.1**2
    np.testing.assert_allclose(mean[:, 0] / 0.1, cross.T @ expected.weights, atol=1e-4)
    explained = np.einsum("ij,ij->j", cross, expected.site_inverse @ cross)
    np.testing.assert_allclose(variance[:, 0] / 0.1**2, 1 / 0.1**2 - explained, atol=1e-4)


# Model selection ----------------------------------------------------------------------------------


def test_the_search_ends_near_the_best_point_of_the_grid_within_its_bounds():
    made, labels, _ = problem(2, RBF(0.8))
    best, trace, converged = ssgp.maximise_evidence(made, labels)
    assert converged
    assert np.all(np.diff(trace) >= 0)
    grid = ssgp.fit_grid(made, labels, ratios=(1.0, 10.0, 100.0, 1000.0))
    # L-BFGS climbs the peak on which the best of fifteen starts is: of 25 problems it ended on no
    # lower one.
    assert best.log_evidence > max(fit.log_evidence for fit in grid) - 0.05


@pytest.mark.parametrize(("seed", "factor"), [(16, 0.25), (5, 4.0)])
def test_a_peak_at_an_end_of_the_grid_is_found(seed, factor):
    made, labels, _ = problem(2, RBF(0.8), seed=seed)
    best, _, _ = ssgp.maximise_evidence(made, labels)
    grid = ssgp.fit_grid(made, labels, factors=(factor,), ratios=(1.0, 10.0, 100.0, 1000.0))
    assert best.log_evidence > max(fit.log_evidence for fit in grid) - 0.01


def test_the_grid_is_the_paper_s():
    made, labels, _ = problem(2, RBF(0.8))
    fits = list(ssgp.fit_grid(made, labels))
    assert len(fits) == 125
    x = np.exp([fit.log_parameters for fit in fits])
    np.testing.assert_allclose(np.unique(x[:, 0].round(12)), 0.8 * np.array([0.25, 0.5, 1, 2, 4]))
    assert sorted(set(x[:, 1].round(8))) == [1e-6, 1e-4, 1e-2, 1.0, 100.0]
    assert sorted(set(x[:, 2].round(8))) == [0.0, 1.0, 10.0, 100.0, 1000.0]
    some = fits[60]
    again = fit_at(made, labels, some.log_parameters)
    np.testing.assert_allclose(some.log_evidence, again.log_evidence, rtol=0, atol=1e-9)


def test_weights_of_the_grid_are_its_evidences():
    np.testing.assert_allclose(ssgp.evidence_weights(np.log([1e-300, 3e-300])), [0.25, 0.75])


def test_points_that_the_noise_cannot_tell_apart_are_one_in_the_average():
    made, labels, _ = problem(2, RBF(0.8))
    fits = list(ssgp.fit_grid(made, labels))
    kept, log_weights = ssgp.weigh(fits)
    assert 25 <= len(kept) < 80
    np.testing.assert_allclose(np.exp(log_weights).sum(), 1.0)
    # The supervised points: of γ_A = 1e-6, 1e-4, 1e-2 and 1 the first three are at the cap.
    shares = ssgp.evidence_weights(np.array([fit.log_evidence for fit in fits]))
    ratio_zero = [np.isneginf(fit.log_parameters[-1]) for fit in fits]
    ours = sum(
        np.exp(w) for fit, w in zip(kept, log_weights) if np.isneginf(fit.log_parameters[-1])
    )
    np.testing.assert_allclose(ours, shares[ratio_zero].sum(), rtol=0.01)


# The posterior ------------------------------------------------------------------------------------


def test_chains_agree_with_expectation_propagation_on_two_classes():
    made, labels, X = problem(2, RBF(0.8), noise=0.3)
    fit = fit_at(made, labels, parameters(made.base))
    rng = np.random.default_rng(0)
    draws, lower, _ = ssgp.sample_auxiliary(rng, fit, labels, Lengths(n_samples=1000))
    pooled = draws.reshape(-1, *draws.shape[2:])
    sampled = ssgp.sampled_component(made, fit, pooled, lower)
    propagated = ssgp.propagated_component(made, fit, labels)
    ours, theirs = (
        np.exp(SSGPPosterior(X[labels.rows], (c,), 0.3).log_proba(X)) for c in (sampled, propagated)
    )
    # 4000 draws leave a hundredth; expectation propagation is nearer than that for a probit.
    np.testing.assert_allclose(ours, theirs, atol=0.03)


def test_more_classes_meet_brute_force_on_two_labels():
    # P(y* = k | two labels) by drawing z at three rows and keeping what agrees with the labels.
    rng = np.random.default_rng(0)
    made, labels, X = problem(3, RBF(0.8), n_labels=3, noise=0.3)
    fit = fit_at(made, labels, parameters(made.base))
    target = X[[5]]
    draws, lower, _ = ssgp.sample_auxiliary(rng, fit, labels, Lengths(n_samples=1000))
    component = ssgp.sampled_component(made, fit, draws.reshape(-1, 3, 3), lower)
    posterior = SSGPPosterior(X[labels.rows], (component,), 0.3)
    ours = np.exp(posterior.log_proba(target))[0]
    kernel = GraphWarpedKernel(made.kernel_at(fit.log_parameters), made.geometry, 20.0)
    V = fit.scale * kernel(np.concatenate([X[labels.rows], target])) + np.eye(4)
    z = np.linalg.cholesky(V) @ rng.standard_normal((300_000, 4, 3))
    agrees = np.all(np.argmax(z[:, :3], axis=2) == labels.codes, axis=1)
    n = int(agrees.sum())
    assert n > 2500
    counts = np.bincount(np.argmax(z[agrees, 3], axis=1), minlength=3) / n
    # The chain's 4000 draws are worth some 1000; both errors together, six times over.
    assert np.all(np.abs(ours - counts) < 6 * np.sqrt(0.25 / n + 0.25 / 1000))
    assert multinomial_probit.regions(labels.codes, 3).n_free == 2


def posterior_of(kind, n_classes=2):
    """Of expectation propagation, of chains, or of an average of two components."""
    made, labels, X = problem(n_classes, RBF(0.8), n_labels=5, noise=0.5)
    fits = [fit_at(made, labels, parameters(made.base, ratio=ratio)) for ratio in (20.0, 2.0)]
    if kind == "ep":
        components = [ssgp.propagated_component(made, fits[0], labels)]
    elif kind == "average":
        components = [
            ssgp.propagated_component(made, fit, labels, np.log(share))
            for fit, share in zip(fits, (0.7, 0.3))
        ]
    else:
        rng = np.random.default_rng(3)
        draws, lower, _ = ssgp.sample_auxiliary(rng, fits[0], labels, Lengths(n_samples=10))
        pooled = draws.reshape(-1, *draws.shape[2:])
        components = [ssgp.sampled_component(made, fits[0], pooled, lower)]
    return SSGPPosterior(X[labels.rows], tuple(components), 0.5), X


KINDS = pytest.mark.parametrize(
    ("kind", "n_classes"), [("ep", 2), ("average", 2), ("mcmc", 2), ("mcmc", 3)]
)


@KINDS
def test_the_mean_of_many_joint_draws_is_the_prediction(kind, n_classes):
    posterior, X = posterior_of(kind, n_classes)
    assert isinstance(posterior, FunctionPosterior)
    n = 4000
    draws = posterior.draws(X[:12], n, np.random.default_rng(0))
    assert draws.shape == (n, 12, n_classes)
    np.testing.assert_allclose(draws.sum(axis=2), 1.0, rtol=1e-12)
    apart = draws.mean(axis=0) - np.exp(posterior.log_proba(X[:12]))
    assert (np.abs(apart) < 6 * draws.std(axis=0) / np.sqrt(n) + 40 / n / 6).all()


@KINDS
@pytest.mark.parametrize("n", [3, 100])
def test_equal_rows_are_equal_in_every_draw_and_a_seed_repeats_them(kind, n_classes, n):
    posterior, X = posterior_of(kind, n_classes)
    rows = np.concatenate([X[:6], X[:3]])
    draws, again = (posterior.draws(rows, n, np.random.default_rng(0)) for _ in "ab")
    np.testing.assert_array_equal(draws[:, :3], draws[:, 6:])
    np.testing.assert_array_equal(draws, again)


def test_functions_drawn_jointly_vary_together_as_the_warped_process_does():
    made, labels, X = problem(2, RBF(0.8), n_labels=5, noise=0.5)
    fit = fit_at(made, labels, parameters(made.base))
    component = ssgp.propagated_component(made, fit, labels)
    kernel = made.warped_kernel_at(fit.log_parameters)
    rows, known = X[:8], X[labels.rows]
    sites = np.diag(1.0 / fit.propagation.sites.precision)
    cross = fit.scale * kernel(known, rows)
    exact = fit.scale * kernel(rows) - cross.T @ np.linalg.solve(fit.gram + sites, cross)
    n = 20_000
    f = component.sample(np.random.default_rng(0), known, rows, np.zeros(n, dtype=int))[..., 0]
    sd = np.sqrt(np.diagonal(exact))
    # An entry of a correlation of n draws is off by 1/√n or less, a variance by √(2/n).
    np.testing.assert_allclose(
        np.cov(f.T) / np.outer(sd, sd), exact / np.outer(sd, sd), atol=6 * np.sqrt(2 / n)
    )
    np.testing.assert_allclose(
        f.mean(axis=0), cross.T @ fit.propagation.weights, atol=6 * sd.max() / np.sqrt(n)
    )
    together = exact[0, 1:] / (sd[0] * sd[1:])
    assert together.max() > 0.3


# Regression ---------------------------------------------------------------------------------------


@CASES
@pytest.mark.parametrize("full", [False, True])
def test_the_gradient_of_the_regression_s_evidence_is_that_of_finite_differences(
    n_classes, base, full
):
    made, labels, _ = problem(n_classes, base)
    targets = np.random.default_rng(0).normal(size=8)
    x = np.append(parameters(base), np.log(0.2))
    found = regression_at(made, labels.rows, targets, x, full=full)
    numeric = finite_differences(
        lambda x: regression_at(made, labels.rows, targets, x, full=full).log_evidence, x
    )
    np.testing.assert_allclose(found.slope, numeric, rtol=0, atol=1e-6)


def test_regression_is_scikit_learn_s_on_the_warped_kernel():
    made, labels, X = problem(2, RBF(0.8))
    targets = np.random.default_rng(0).normal(size=8)
    x = np.append(parameters(made.base), np.log(0.2))
    found = regression_at(made, labels.rows, targets, x)
    warped = GraphWarpedKernel(made.kernel_at(x), made.geometry, 20.0)
    kernel = ConstantKernel(2.0) * warped + WhiteKernel(0.2)
    theirs = GaussianProcessRegressor(kernel, optimizer=None, alpha=0.0)
    theirs.fit(X[labels.rows], targets)
    np.testing.assert_allclose(found.log_evidence, theirs.log_marginal_likelihood_value_)
    posterior = ssgp.regression_posterior(made, found, X[labels.rows], targets)
    mean, variance = posterior.latent(X)
    expected, deviation = theirs.predict(X, return_std=True)
    np.testing.assert_allclose(mean[:, 0], expected, atol=1e-9)
    np.testing.assert_allclose(variance[:, 0] + 0.2, deviation**2, atol=1e-9)
    _, joint = theirs.predict(X[:6], return_cov=True)
    n = 20_000
    rows = np.concatenate([X[:6], X[:2]])
    f = posterior.draws(rows, n, np.random.default_rng(0))
    np.testing.assert_array_equal(f[:, :2], f[:, 6:])
    sd = np.sqrt(variance[:6, 0])
    found = np.cov(f[:, :6].T) / np.outer(sd, sd)
    joint[np.diag_indices(6)] -= 0.2  # of f, not of y
    np.testing.assert_allclose(found, joint / np.outer(sd, sd), atol=6 * np.sqrt(2 / n))
    np.testing.assert_allclose(f[:, :6].mean(axis=0), mean[:6, 0], atol=6 * sd.max() / np.sqrt(n))


def test_a_regression_s_posterior_is_told_in_the_units_of_its_targets():
    made, labels, X = problem(2, RBF(0.8))
    targets = np.random.default_rng(0).normal(size=8)
    found = regression_at(made, labels.rows, targets, np.append(parameters(made.base), -1.0))
    plain, moved = (
        ssgp.regression_posterior(made, found, X[labels.rows], targets, *units)
        for units in ((0.0, 1.0), (7.0, 10.0))
    )
    np.testing.assert_allclose(moved.latent(X)[0], 7.0 + 10.0 * plain.latent(X)[0])
    np.testing.assert_allclose(moved.latent(X)[1], 100.0 * plain.latent(X)[1])
    assert moved.noise_variance == pytest.approx(100.0 * np.exp(-1.0))
    first, second = (p.draws(X, 5, np.random.default_rng(0)) for p in (plain, moved))
    np.testing.assert_allclose(second, 7.0 + 10.0 * first)


# The search, on evidences that are known ----------------------------------------------------------


class Hill(NamedTuple):
    log_parameters: np.ndarray
    log_evidence: float
    slope: np.ndarray


def test_the_search_ends_on_the_peak_and_keeps_the_evidence_of_every_iteration():
    def evaluate(x, best):
        return Hill(x, -0.5 * float(np.sum((x - 1.0) ** 2)), 1.0 - x)

    told = []
    starts = [evaluate(np.full(3, s), None) for s in (-4.0, -1.0, 5.0)]
    found, values, stopped = search.ascend(
        evaluate, starts, np.array([[-5.0, 5.0]] * 3), told.append
    )
    np.testing.assert_allclose(found.log_parameters, 1.0, atol=1e-4)
    assert stopped
    assert values[0] == starts[1].log_evidence
    assert values[1:].tolist() == told
    assert np.all(np.diff(values) >= 0)


def test_a_search_that_runs_out_of_iterations_says_so():
    def evaluate(x, best):
        return Hill(x, -rosen(x), -rosen_der(x))

    start = evaluate(np.tile([-1.2, 1.0], 10), None)
    _, values, stopped = search.ascend(evaluate, [start], np.array([[-5.0, 5.0]] * 20))
    assert not stopped
    assert len(values) == 61


def test_the_search_reaches_as_far_below_the_base_kernel_as_above():
    reach = np.log(max(search.LENGTH_FACTORS))
    bounds = search.search_bounds(RBF(3.0), [(0.5, 2.0)])
    np.testing.assert_allclose(bounds[0], np.log(3.0) + np.array([-reach, reach]))
    np.testing.assert_allclose(bounds[1], np.log([0.5, 2.0]))
    narrow = search.search_bounds(RBF(3.0, (2.9, 3.1)), [(0.5, 2.0)])
    np.testing.assert_allclose(narrow[0], np.log([2.9, 3.1]))
