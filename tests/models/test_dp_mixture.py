"""The Dirichlet process mixture: its log-posterior, its EM, and where it is a textbook model."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from scipy.integrate import dblquad, quad
from scipy.optimize import minimize
from scipy.special import multigammaln, softmax
from scipy.stats import (
    beta,
    dirichlet,
    invgamma,
    invwishart,
    ks_2samp,
    kstest,
    multivariate_normal,
    norm,
)

from atoll.models import dp_mixture
from atoll.models.dp_mixture import (
    MapState,
    Mixture,
    ascend,
    climb,
    default_prior,
    e_step,
    expect,
    fit_density,
    log_prior,
    m_step,
    posterior,
    start_state,
)
from atoll.models.dp_mixture.starts import left_out_log_densities
from atoll.models.gaussian_components import Components, NormalPrior, family, scores
from atoll.models.posterior import DensityPosterior, Posterior

FAMILIES = ["full", "diagonal", "tied", "factor"]
SETTINGS = [*((f, "map") for f in FAMILIES), ("full", "vb"), ("diagonal", "vb")]
FALL = 1e-9


def mixture(d, C, K, covariance="full", inference="map", *, prior=None, alpha=2.0, gamma=1.0):
    prior = default_prior(d) if prior is None else prior
    return Mixture(C, K, covariance, min(2, d), prior, alpha, np.full(C, gamma), inference)


def random_problem(seed):
    """A mixture, rows and codes of any kind: few, equal, on a line, far off, unscaled."""
    rng = np.random.default_rng([7, seed])
    d, C, K = rng.integers(1, 11), rng.integers(1, 5), rng.integers(1, 8)
    n = rng.choice([1, 2, 3, 5, 10, 40, 120])
    X = rng.normal(size=(n, d)) * np.exp(rng.normal(size=d))
    X += 3 * rng.normal(size=(4, d))[rng.integers(4, size=n)]
    kind = rng.choice(["plain", "duplicates", "constant", "line"], p=[0.55, 0.25, 0.1, 0.1])
    if kind == "duplicates":
        X = X[rng.integers(n, size=n)]
    elif kind == "constant":
        X[:] = X[0]
    elif kind == "line":
        X = np.outer(X[:, 0], np.ones(d))
    codes = rng.integers(C, size=n)
    codes[rng.random(n) < rng.choice([0.0, 0.3, 0.5, 0.9, 1.0])] = -1
    prior = default_prior(
        d,
        mean=rng.normal(size=d),
        mean_precision=rng.choice([0.01, 0.5, 5.0]),
        degrees=d + rng.choice([-0.5, 0.0, 3.0]),
        covariance_scale=rng.choice([0.01, 1.0, 10.0]),
    )
    covariance, inference = SETTINGS[rng.integers(len(SETTINGS))]
    model = mixture(
        d, C, K, covariance, inference,
        prior=prior, alpha=rng.choice([1.0, 2.0, 5.0]), gamma=rng.choice([1.0, 2.0]),
    )  # fmt: skip
    return model, X, codes, rng


def largest_fall(objectives):
    """Relative to the objective, or to one nat where that is smaller."""
    falls = np.maximum(objectives[:-1] - objectives[1:], 0.0)
    return np.max(falls / np.maximum(np.abs(objectives[:-1]), 1.0), initial=0.0)


def check_ascent(seed):
    model, X, codes, rng = random_problem(seed)
    ascent = climb(model, X, codes, rng, int(rng.integers(4)), max_iter=50, tol=-np.inf)
    assert len(ascent.objectives) == 51
    assert np.isfinite(ascent.objectives).all()
    assert all(np.isfinite(part).all() for part in ascent.state.components)
    fitted = posterior(model, ascent.state, np.zeros(X.shape[1]), np.ones(X.shape[1]))
    p = np.exp(fitted.log_proba(X))
    np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=0, atol=1e-12)
    return largest_fall(ascent.objectives)


def test_the_log_posterior_never_falls():
    assert max(check_ascent(seed) for seed in range(15)) < FALL


@pytest.mark.parametrize(("covariance", "inference"), SETTINGS)
def test_densities_without_a_row_are_those_of_a_fit_without_it(covariance, inference):
    """One component a class, and every row of one class: there is one maximum, soon met."""
    rng = np.random.default_rng(0)
    X, codes = rng.standard_normal((20, 2)) * [1.0, 5.0], np.arange(20) % 2
    model, origin, unit = mixture(2, 2, 1, covariance, inference), np.zeros(2), np.ones(2)
    state = climb(model, X, codes, rng, 0, max_iter=200, tol=1e-12).state
    found = left_out_log_densities(model, X, codes, state)
    own = posterior(model, state, origin, unit).log_density(X)
    assert found.mean() < own.mean()
    for i in range(0, 20, 7):
        fold = np.random.default_rng(0).permutation(20) % 5
        others = fold != fold[i]
        without = climb(model, X[others], codes[others], rng, 0, max_iter=200, tol=1e-12).state
        exact = posterior(model, without, origin, unit).log_density(X[i : i + 1])
        # Ascents of factors are slow.
        rtol = 0.02 if covariance == "factor" else 1e-9
        np.testing.assert_allclose(found[i], exact[0], rtol=rtol)


@pytest.mark.slow
def test_the_log_posterior_never_falls_in_500_problems():
    falls = [check_ascent(seed) for seed in range(500)]
    print(f"largest relative fall in 500 problems: {max(falls):.1e}")
    assert max(falls) < FALL


# The log-posterior --------------------------------------------------------------------------------


def random_state(model, rng):
    X = rng.normal(size=(30, len(model.prior.mean)))
    codes = rng.integers(model.n_classes, size=30)
    state = start_state(model, X, codes, rng, 0)
    return m_step(model, expect_in_memory(model, state, X, codes), state), X, codes


def expect_in_memory(model, state, X, codes):
    d = X.shape[1]
    return expect(e_step(model, state, np.zeros(d), np.ones(d)), X, codes)


@pytest.mark.parametrize("covariance", FAMILIES)
def test_the_log_posterior_is_the_sum_over_rows_written_out(covariance):
    rng = np.random.default_rng(3)
    model = mixture(3, 2, 4, covariance, alpha=3.0, gamma=2.0, prior=default_prior(3, mean=1.0))
    state, X, codes = random_state(model, rng)
    codes[::2] = -1
    covariances = posterior(model, state, np.zeros(3), np.ones(3)).covariances()
    means = state.components.means.reshape(2, 4, 3)
    v = state.sticks
    weights = v * np.cumprod(np.column_stack([np.ones(2), 1 - v[:, :-1]]), axis=1)  # eq. 8
    joint = np.zeros((30, 2))
    for c in range(2):
        for k in range(4):
            density = multivariate_normal(means[c, k], covariances[c, k]).pdf(X)
            joint[:, c] += state.class_weights[c] * weights[c, k] * density
    rows = np.where(codes >= 0, joint[np.arange(30), codes], joint.sum(axis=1))  # eqs 1 to 3
    found = expect_in_memory(model, state, X, codes).log_likelihood
    assert found == pytest.approx(np.log(rows).sum(), rel=1e-11)

    prior = dirichlet([2.0, 2.0]).logpdf(state.class_weights) + beta(1, 3.0).logpdf(v[:, :-1]).sum()
    of_components = model.family.log_prior(state.components, model.prior)
    assert log_prior(model, state) == pytest.approx(prior + of_components, rel=1e-12)


def test_the_prior_of_full_components_is_normal_inverse_wishart():
    rng = np.random.default_rng(0)
    R = np.cov(rng.normal(size=(3, 9)))
    prior = NormalPrior(rng.normal(size=3), 0.7, 4.5, R)
    state, _, _ = random_state(mixture(3, 1, 3, prior=prior), rng)
    m, lower, _ = state.components
    expected = sum(
        multivariate_normal(prior.mean, L @ L.T / 0.7).logpdf(one)
        + invwishart(4.5, R).logpdf(L @ L.T)
        for one, L in zip(m, lower)
    )
    assert family("full", 0).log_prior(state.components, prior) == pytest.approx(
        expected, rel=1e-12
    )
    tied = Components(m, lower[:1], np.empty((3, 3, 0)))
    expected = invwishart(4.5, R).logpdf(lower[0] @ lower[0].T) + sum(
        multivariate_normal(prior.mean, lower[0] @ lower[0].T / 0.7).logpdf(one) for one in m
    )
    assert family("tied", 0).log_prior(tied, prior) == pytest.approx(expected, rel=1e-12)


def test_the_prior_of_diagonal_and_factor_components_is_normal_inverse_gamma():
    rng = np.random.default_rng(1)
    prior = default_prior(3, mean=0.3, degrees=4.5, covariance_scale=[1.0, 2.0, 3.0])
    m, noise = rng.normal(size=(2, 3)), rng.uniform(0.5, 2, size=(2, 3))
    W = rng.normal(size=(2, 3, 2))
    # A variance of an inverse Wishart matrix: inverse gamma, shape (n_0 − d + 1)/2, scale R/2.
    expected = norm(0.3, np.sqrt(noise / 0.5)).logpdf(m).sum()
    expected += invgamma(2.5 / 2, scale=prior.covariance_scale / 2).logpdf(noise).sum()
    diagonal = Components(m, noise, np.empty((2, 3, 0)))
    assert family("diagonal", 0).log_prior(diagonal, prior) == pytest.approx(expected, rel=1e-12)
    expected += norm(0, np.sqrt(noise)[:, :, None]).logpdf(W).sum()
    assert family("factor", 2).log_prior(Components(m, noise, W), prior) == pytest.approx(
        expected, rel=1e-12
    )


@pytest.mark.parametrize("covariance", ["full", "diagonal"])
def test_one_component_under_variational_bayes_has_its_exact_evidence(covariance):
    rng = np.random.default_rng(2)
    d, n = 2, 7
    X = rng.normal(size=(n, d)) + 1
    prior = default_prior(d, mean=0.2, mean_precision=0.6, degrees=3.5, covariance_scale=1.5)
    model = mixture(d, 1, 1, covariance, "vb", prior=prior)
    ascent = climb(model, X, np.full(n, -1), rng, 0, max_iter=3, tol=0.0)

    def evidence(Y, n0):
        """Marginal likelihood of a normal with its conjugate prior, in closed form."""
        d = Y.shape[1]
        lam, m = 0.6 + n, (Y.sum(axis=0) + 0.6 * 0.2) / (0.6 + n)
        S = 1.5 * np.eye(d) + Y.T @ Y + 0.6 * 0.04 * np.ones((d, d)) - lam * np.outer(m, m)
        return (
            multigammaln((n0 + n) / 2, d) - multigammaln(n0 / 2, d) - 0.5 * n * d * np.log(np.pi)
            + 0.5 * n0 * d * np.log(1.5) - 0.5 * (n0 + n) * np.linalg.slogdet(S)[1]
            + 0.5 * d * np.log(0.6 / lam)
        )  # fmt: skip

    expected = (
        evidence(X, 3.5)
        if covariance == "full"
        else sum(evidence(X[:, [j]], 2.5) for j in range(d))
    )
    assert ascent.objectives[-1] == pytest.approx(expected, rel=1e-12)


# The M-step ---------------------------------------------------------------------------------------


def maximise_numerically(function, start):
    """Newton-free ascent to a stationary point, with central differences of a smooth function."""

    def gradient(x, h=1e-5):
        return np.array(
            [(function(x + h * e) - function(x - h * e)) / (2 * h) for e in np.eye(len(x))]
        )

    found = minimize(
        lambda x: -function(x), start, jac=lambda x: -gradient(x), method="BFGS",
        options={"gtol": 1e-8, "maxiter": 2000},
    )  # fmt: skip
    # Where rounding of Q stops the search, the gradient must already be that of a maximum.
    assert np.abs(gradient(found.x)).max() < 1e-4
    return found.x


@pytest.fixture
def weighted_rows():
    """Rows and joint responsibilities of two classes of two components."""
    rng = np.random.default_rng(5)
    X = rng.normal([0.5, -1.0], 1.0, size=(12, 2))
    R = rng.dirichlet(np.ones(4), size=12)
    return X, R, rng


def moments_of(kind, X, R, density=None):
    from atoll.models.gaussian_components import add_moments

    features = np.empty((kind.n_features(X.shape[1]), len(X)))
    kind.write_features(np.ascontiguousarray(X.T), features)
    moments = kind.empty_moments(R.shape[1], X.shape[1])
    raw = np.empty((R.shape[1], 0, len(X)))
    if density is not None:
        _, raw = scores(density, np.ascontiguousarray(X.T), features)
    add_moments(moments, np.ascontiguousarray(X.T), features, np.ascontiguousarray(R.T), raw)
    return moments


def test_weights_of_the_m_step_maximise_q(weighted_rows):
    X, R, _ = weighted_rows
    N = R.sum(axis=0).reshape(2, 2)
    model = mixture(2, 2, 2, alpha=2.5, gamma=1.5)
    state = m_step(model, dp_mixture.Statistics(12.0, 0.0, moments_of(model.family, X, R)), None)

    def q(u):
        rho, v = softmax(np.r_[0.0, u[:1]]), 1 / (1 + np.exp(-u[1:]))
        value = dirichlet([1.5, 1.5]).logpdf(rho) + beta(1, 2.5).logpdf(v).sum()
        return (
            value + (N.sum(axis=1) * np.log(rho)).sum()
            + (N[:, 0] * np.log(v) + N[:, 1] * np.log1p(-v)).sum()
        )  # fmt: skip

    u = maximise_numerically(q, np.zeros(3))
    np.testing.assert_allclose(state.class_weights, softmax(np.r_[0.0, u[:1]]), atol=1e-6)
    np.testing.assert_allclose(state.sticks[:, 0], 1 / (1 + np.exp(-u[1:])), atol=1e-6)
    assert np.all(state.sticks[:, 1] == 1.0)


def unpack(kind, u, d=2, q=1):
    """Means and covariance parameters of one component from unconstrained numbers."""
    mean, rest = u[:d], u[d:]
    if kind in ("full", "tied"):
        lower = np.zeros((d, d))
        lower[np.tril_indices(d)] = rest
        lower[np.diag_indices(d)] = np.exp(np.diag(lower))
        return mean, lower
    if kind == "diagonal":
        return mean, np.exp(rest)
    return mean, np.exp(rest[:d]), rest[d:].reshape(d, q)


@pytest.mark.parametrize("covariance", ["full", "diagonal"])
def test_components_of_the_m_step_maximise_q(weighted_rows, covariance):
    X, R, _ = weighted_rows
    kind = family(covariance, 0)
    prior = default_prior(2, mean=[0.4, 0.1], covariance_scale=[0.8, 1.7])
    found = kind.maximise(moments_of(kind, X, R), prior, None)
    for j in range(4):

        def q(u, j=j):
            mean, spread = unpack(covariance, u)
            one = Components(mean[None], spread[None], np.empty((1, 2, 0)))
            S = spread @ spread.T if covariance == "full" else np.diag(spread)
            rows = multivariate_normal(mean, S).logpdf(X)
            return (R[:, j] * rows).sum() + kind.log_prior(one, prior)

        start = np.zeros(5 if covariance == "full" else 4)
        mean, spread = unpack(covariance, maximise_numerically(q, start))
        np.testing.assert_allclose(found.means[j], mean, atol=1e-6)
        np.testing.assert_allclose(found.spread[j], spread, atol=1e-6)


def test_tied_components_of_the_m_step_maximise_q(weighted_rows):
    X, R, _ = weighted_rows
    kind, prior = family("tied", 0), default_prior(2, mean=[0.4, 0.1])
    found = kind.maximise(moments_of(kind, X, R), prior, None)

    def q(u):
        means = u[:8].reshape(4, 2)
        _, lower = unpack("tied", np.r_[0.0, 0.0, u[8:]])
        components = Components(means, lower[None], np.empty((4, 2, 0)))
        rows = [multivariate_normal(m, lower @ lower.T).logpdf(X) for m in means]
        return (R * np.column_stack(rows)).sum() + kind.log_prior(components, prior)

    u = maximise_numerically(q, np.zeros(11))
    np.testing.assert_allclose(found.means, u[:8].reshape(4, 2), atol=1e-6)
    np.testing.assert_allclose(found.spread[0], unpack("tied", np.r_[0, 0, u[8:]])[1], atol=1e-6)


def test_factor_components_of_the_m_step_maximise_q(weighted_rows):
    X, R, rng = weighted_rows
    kind = family("factor", 1)
    prior = default_prior(2, mean=[0.4, 0.1], covariance_scale=[0.8, 1.7])
    old = Components(
        rng.normal(size=(4, 2)), rng.uniform(0.5, 2, size=(4, 2)), rng.normal(size=(4, 2, 1))
    )
    found = kind.maximise(moments_of(kind, X, R, kind.density(old)), prior, old)
    for j in range(4):
        W, psi = old.loadings[j], old.spread[j]
        precision = np.linalg.inv(W @ W.T + np.diag(psi))
        f = (X - old.means[j]) @ precision @ W  # E[f | x]
        variance = np.eye(1) - W.T @ precision @ W

        def q(u, j=j, f=f, variance=variance):
            mean, noise, loadings = unpack("factor", u)
            one = Components(mean[None], noise[None], loadings[None])
            residual = X - mean - f @ loadings.T
            expected = residual**2 + np.diag(loadings @ variance @ loadings.T)
            rows = -0.5 * (np.log(2 * np.pi * noise) + expected / noise).sum(axis=1)
            return (R[:, j] * rows).sum() + kind.log_prior(one, prior)

        mean, noise, loadings = unpack("factor", maximise_numerically(q, np.zeros(6)))
        np.testing.assert_allclose(found.means[j], mean, atol=1e-6)
        np.testing.assert_allclose(found.spread[j], noise, atol=1e-6)
        np.testing.assert_allclose(found.loadings[j], loadings, atol=1e-6)


def test_every_label_and_one_component_is_quadratic_discriminant_analysis():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3)) * [1, 2, 3]
    codes = np.arange(40) % 3
    prior = default_prior(3, mean=0.5, mean_precision=0.7, degrees=4.0, covariance_scale=1.3)
    model = mixture(3, 3, 1, prior=prior, gamma=2.0)
    ascent = climb(model, X, codes, rng, 0, max_iter=20, tol=0.0)
    assert len(ascent.objectives) == 2, "the first M-step is the last"
    log_joint = np.empty((40, 3))
    for c in range(3):
        Y = X[codes == c]
        N = len(Y)
        m = (Y.sum(axis=0) + 0.7 * 0.5) / (N + 0.7)  # eq. 28
        S = (Y - m).T @ (Y - m) + 1.3 * np.eye(3) + 0.7 * np.outer(m - 0.5, m - 0.5)  # eq. 31
        S /= N + 4.0 + 3 + 2  # eq. 29
        rho = (N + 2.0 - 1) / (40 + 3 * 2.0 - 3)
        log_joint[:, c] = np.log(rho) + multivariate_normal(m, S).logpdf(X)
    fitted = posterior(model, ascent.state, np.zeros(3), np.ones(3))
    np.testing.assert_allclose(fitted.log_class_joint(X), log_joint, rtol=1e-11)


def test_the_last_stick_holds_what_the_others_leave():
    model = mixture(1, 1, 3, alpha=2.0)
    X = np.array([[0.0], [1.0], [5.0]])
    R = np.eye(3)[[0, 0, 1]]
    state = m_step(model, dp_mixture.Statistics(3.0, 0.0, moments_of(model.family, X, R)), None)
    # v = 2/(3 + 1), 1/(1 + 1), 1: the weights are counts, with α − 1 rows more in the last.
    np.testing.assert_allclose(
        np.exp(dp_mixture.log_stick_weights(state.sticks)), [[0.5, 0.25, 0.25]]
    )


def test_a_component_without_weight_stays_without_and_costs_nothing():
    model = mixture(2, 1, 4)
    rng = np.random.default_rng(0)
    X, codes = rng.normal(size=(20, 2)), np.full(20, -1)
    state = start_state(model, X, codes, rng, 4)  # one cell
    step = e_step(model, state, np.zeros(2), np.ones(2))
    assert step.active.tolist() == [0, 3]
    statistics = expect(step, X, codes)
    assert np.all(statistics.moments.features[[1, 2]] == 0)


# Statistics ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("covariance", "inference"), SETTINGS)
def test_statistics_add_over_any_cut_of_the_rows(covariance, inference):
    rng = np.random.default_rng(4)
    X = rng.normal(size=(3000, 3)) * [1, 10, 0.1] + [100, 0, 0]
    codes = rng.integers(-1, 2, size=3000)
    shift, scale = X.mean(axis=0), X.std(axis=0)
    model = mixture(3, 2, 3, covariance, inference)
    state = start_state(model, (X - shift) / scale, codes, rng, 0)
    step = e_step(model, state, shift, scale)
    whole = expect(step, X, codes)
    cuts = np.r_[0, np.sort(rng.integers(3000, size=6)), 3000]
    parts = [expect(step, X[a:b], codes[a:b]) for a, b in pairwise(cuts) if b > a]
    added = sum(parts[1:], parts[0])
    assert added.n_rows == whole.n_rows == 3000
    assert added.log_likelihood == pytest.approx(whole.log_likelihood, rel=1e-12)
    for a, b in zip(added.moments, whole.moments):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-9)
    assert whole.counts(2).sum() == pytest.approx(3000, rel=1e-12)
    labelled = [(codes == c).sum() for c in (0, 1)]
    assert np.all(whole.counts(2).sum(axis=1) >= np.array(labelled) - 1e-9)


def test_a_far_offset_of_the_rows_changes_no_climb():
    rng = np.random.default_rng(6)
    X, codes = rng.normal(size=(200, 2)), rng.integers(-1, 2, size=200)
    model = mixture(2, 2, 3)
    state = start_state(model, X, codes, rng, 0)
    options = {"max_iter": 30, "tol": -np.inf}
    near = ascend(model, lambda f: f(X, codes), state, np.zeros(2), np.ones(2), **options)
    far = ascend(model, lambda f: f(X + 1e5, codes), state, np.full(2, 1e5), np.ones(2), **options)
    np.testing.assert_allclose(far.objectives, near.objectives, rtol=1e-7)


def test_ctrl_c_keeps_the_last_whole_iteration():
    rng = np.random.default_rng(0)
    X, codes = rng.normal(size=(50, 2)), np.full(50, -1)
    model = mixture(2, 1, 3)
    state = start_state(model, X, codes, rng, 0)
    calls = []

    def total(function):
        calls.append(1)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return function(X, codes)

    ascent = ascend(model, total, state, np.zeros(2), np.ones(2), max_iter=50, tol=0.0)
    assert ascent.interrupted
    assert not ascent.converged
    assert len(ascent.objectives) == 3
    calls[:] = [1, 1, 1]
    with pytest.raises(KeyboardInterrupt):
        ascend(model, total, state, np.zeros(2), np.ones(2), max_iter=50, tol=0.0)


def test_ctrl_c_before_the_first_objective_is_known_keeps_nothing(monkeypatch):
    rng = np.random.default_rng(0)
    X, codes = rng.normal(size=(50, 2)), np.full(50, -1)
    model = mixture(2, 1, 3)
    state = start_state(model, X, codes, rng, 0)

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("atoll.models.dp_mixture.em.objective", interrupted)
    with pytest.raises(KeyboardInterrupt):
        ascend(model, lambda f: f(X, codes), state, np.zeros(2), np.ones(2), max_iter=5, tol=0.0)


# Draws --------------------------------------------------------------------------------------------


def fitted_posterior(covariance, inference, *, C=2, K=3, n=24, seed=0):
    """A posterior of few rows in units of their own, and rows to ask it about."""
    rng = np.random.default_rng([11, seed])
    codes = np.arange(n) % C
    X = rng.normal(size=(n, 2)) + 2 * codes[:, None]
    codes[::3] = -1
    model = mixture(2, C, K, covariance, inference)
    state = climb(model, X, codes, rng, 0, max_iter=30, tol=1e-8).state
    shift, scale = np.array([5.0, -1.0]), np.array([2.0, 0.5])
    return posterior(model, state, shift, scale), X[:5] * scale + shift


VARIATIONAL = ["full", "diagonal"]


@pytest.mark.parametrize(("covariance", "inference"), SETTINGS)
def test_the_posterior_answers_the_protocol(covariance, inference):
    fitted, X = fitted_posterior(covariance, inference)
    assert isinstance(fitted, Posterior)
    assert isinstance(fitted, DensityPosterior)
    for n in (1, 7):
        p = fitted.draws(X, n, np.random.default_rng(3))
        assert p.shape == (n, 5, 2)
        np.testing.assert_allclose(p.sum(axis=2), 1.0, rtol=0, atol=1e-12)
        np.testing.assert_array_equal(p, fitted.draws(X, n, np.random.default_rng(3)))


@pytest.mark.parametrize("covariance", FAMILIES)
def test_the_maximum_of_the_posterior_is_one_point_and_every_draw_is_it(covariance):
    fitted, X = fitted_posterior(covariance, "map")
    p = fitted.draws(X, 3, np.random.default_rng(0))
    np.testing.assert_allclose(p, np.exp(fitted.log_proba(X))[None].repeat(3, 0), atol=1e-15)


@pytest.mark.parametrize("covariance", VARIATIONAL)
def test_draws_of_the_joint_density_have_the_predictive_one_as_their_mean(covariance):
    fitted, X = fitted_posterior(covariance, "vb")
    drawn = np.exp(fitted.log_class_joint_draws(X, 20_000, np.random.default_rng(1)))
    error = drawn.std(axis=0) / np.sqrt(len(drawn))
    assert np.all(np.abs(drawn.mean(axis=0) - np.exp(fitted.log_class_joint(X))) < 6 * error)
    # Draws of class probabilities, weighted by their densities of the row, have those of x.
    density = drawn.sum(axis=2, keepdims=True)
    p = fitted.draws(X, 20_000, np.random.default_rng(1))
    gap = density * (p - np.exp(fitted.log_proba(X)))
    assert np.all(np.abs(gap.mean(axis=0)) < 6 * gap.std(axis=0) / np.sqrt(len(gap)))
    assert drawn.std(axis=0).min() > 0


@pytest.mark.parametrize("covariance", VARIATIONAL)
def test_equal_rows_are_equal_in_every_draw_whatever_else_is_asked(covariance):
    fitted, X = fitted_posterior(covariance, "vb")
    both = fitted.draws(np.concatenate([X, X[::-1]]), 50, np.random.default_rng(2))
    np.testing.assert_allclose(both[:, :5], both[:, :4:-1], rtol=0, atol=1e-13)
    alone = fitted.draws(X[1:2], 50, np.random.default_rng(2))
    np.testing.assert_allclose(both[:, 1:2], alone, rtol=0, atol=1e-13)


@pytest.mark.parametrize("covariance", VARIATIONAL)
def test_draws_of_one_component_have_their_closed_form(covariance):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(6, 2)) @ [[1.0, 0.8], [0.0, 0.5]]
    model = mixture(2, 1, 1, covariance, "vb")
    q = climb(model, X, np.full(6, -1), rng, 0, max_iter=3, tol=0.0).state
    fitted = posterior(model, q, np.zeros(2), np.ones(2))
    drawn = fitted.log_class_joint_draws(X, 8000, rng)[:, :, 0]
    # E_q log N(x; m, Σ) of the E-step.
    features = np.empty((model.family.n_features(2), 6))
    model.family.write_features(np.ascontiguousarray(X.T), features)
    expected = scores(model.family.expected_density(q.components), X.T, features)[0][0]
    error = drawn.std(axis=0) / np.sqrt(len(drawn))
    assert np.all(np.abs(drawn.mean(axis=0) - expected) < 6 * error)
    # What two rows have in common: their ratio of densities, from other random numbers.
    means, precisions, degrees, scales = q.components
    n = 5000
    if covariance == "full":
        S = invwishart(degrees[0], scales[0] @ scales[0].T).rvs(size=n, random_state=rng)
    else:
        variances = invgamma(degrees[0] / 2, scale=scales[0] / 2).rvs(size=(n, 2), random_state=rng)
        S = variances[:, :, None] * np.eye(2)
    noise = np.linalg.cholesky(S / precisions[0]) @ rng.standard_normal((n, 2, 1))
    centred = X[:2].T - means[0][:, None] - noise  # (n, 2, 2): a row is a column
    squares = (centred * np.linalg.solve(S, centred)).sum(axis=1)
    ratios = 0.5 * (squares[:, 1] - squares[:, 0])
    assert ks_2samp(drawn[:, 0] - drawn[:, 1], ratios).pvalue > 1e-6


def test_drawn_weights_are_dirichlet_and_their_sticks_beta():
    fitted, _ = fitted_posterior("full", "vb", C=2, K=3)
    # Components that are known exactly and far from each other: a row at a mean tells its weight.
    means = 100.0 * np.arange(12).reshape(6, 2)
    known = fitted._replace(
        means=means, spread=np.tile(np.eye(2), (6, 1, 1)),
        degrees=np.full(6, 1e12), mean_precisions=np.full(6, 1e12),
    )  # fmt: skip
    n, at_mean = 4000, -np.log(2 * np.pi) - np.log(fitted.scale).sum()
    rows = means * fitted.scale + fitted.shift
    drawn = known.log_class_joint_draws(rows, n, np.random.default_rng(0))
    for c in (0, 1):
        weights = np.exp(drawn[:, 3 * c : 3 * c + 3, c] - at_mean)  # ρ_c π_ck
        rho = weights.sum(axis=1)
        a = fitted.class_counts
        assert kstest(rho, beta(a[c], a.sum() - a[c]).cdf).pvalue > 1e-6
        left = rho
        for k in (0, 1):
            of_stick = beta(*fitted.sticks[:, c, k])
            assert kstest(weights[:, k] / left, of_stick.cdf).pvalue > 1e-6
            left = left - weights[:, k]


def test_a_mixture_without_what_draws_need_says_so():
    fitted, X = fitted_posterior("full", "vb")
    with pytest.raises(ValueError, match="fit it again"):
        fitted._replace(sticks=np.empty(0)).draws(X, 3, np.random.default_rng(0))


@pytest.mark.parametrize(("covariance", "inference"), SETTINGS)
def test_far_from_all_data_class_probabilities_still_sum_to_one(covariance, inference):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    X[:, 1] = 2.0  # a column that says nothing
    model = mixture(3, 2, 3, covariance, inference)
    shift = X.mean(axis=0)
    state = climb(model, X - shift, np.arange(60) % 2, rng, 0, max_iter=20, tol=1e-6).state
    fitted = posterior(model, state, shift, np.ones(3))
    directions = np.array([[1.0, 1.0, 1.0], [0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [-1.0, 2.0, 0.5]])
    for distance in (1e3, 1e6, 1e8, 1e10, 1e90, 1e200):
        p = np.exp(fitted.log_proba(distance * directions))
        np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=0, atol=1e-12)
        drawn = fitted.draws(distance * directions, 3, rng)
        np.testing.assert_allclose(drawn.sum(axis=2), 1.0, rtol=0, atol=1e-12)


# Densities ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("inference", ["map", "vb"])
def test_the_density_integrates_to_one(inference):
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(-3, 1, 30), rng.normal(4, 0.5, 30)])[:, None]
    model = mixture(1, 1, 4, inference=inference)
    ascent = climb(model, X / 3, np.full(60, -1), rng, 0, max_iter=50, tol=1e-6)
    fitted = posterior(model, ascent.state, np.zeros(1), np.full(1, 3.0))
    ends = [-np.inf, -8.0, 0.0, 8.0, np.inf]  # Student's tails are long
    mass = sum(
        quad(lambda x: float(np.exp(fitted.log_density([[x]]))[0]), a, b, limit=200)[0]
        for a, b in pairwise(ends)
    )
    assert mass == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize(("covariance", "inference"), SETTINGS)
def test_draws_have_the_density(covariance, inference):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2)) @ [[1.0, 0.8], [0.0, 0.5]] + [2, 0]
    model = mixture(2, 1, 2, covariance, inference)
    state = climb(model, X, np.full(60, -1), rng, 0, max_iter=20, tol=1e-6).state
    fitted = posterior(model, state, np.array([5.0, -1.0]), np.array([2.0, 0.5]))
    rows, _ = fitted.sample(rng, 4000)
    # The distribution function of a slanted projection, by integration of the density itself.
    direction = np.array([1.0, 2.0])
    grid = np.linspace(-40, 50, 1800)
    across = np.array([2.0, -1.0]) / 5
    line = np.linspace(-40, 40, 1600)
    points = grid[:, None, None] * direction / 5 + line[None, :, None] * across
    flat = fitted.log_density(points[::4].reshape(-1, 2)).reshape(-1, len(line))
    pdf = np.exp(flat).sum(axis=1)
    cdf = np.cumsum(pdf) / pdf.sum()
    p = kstest(rows @ direction, lambda t: np.interp(t, grid[::4], cdf)).pvalue
    assert p > 1e-6


def test_a_density_without_labels_covers_its_rows():
    rng = np.random.default_rng(1)
    X = np.concatenate([rng.normal(0, 1, size=(150, 2)), rng.normal(8, 1, size=(150, 2))])
    density = fit_density(X, n_components=5, random_state=0)
    truth = np.log(
        0.5 * multivariate_normal([0, 0]).pdf(X) + 0.5 * multivariate_normal([8, 8]).pdf(X)
    )
    assert density.log_density(X).mean() > truth.mean() - 0.1
    rows = density.sample(rng, 500)
    assert 0.3 < np.mean(rows.sum(axis=1) > 8) < 0.7


def test_a_density_of_a_constant_column_has_its_unit_whatever_rounding_leaves_of_its_deviation():
    rows = np.random.default_rng(1).normal(size=(50, 1))
    found = [
        fit_density(np.column_stack([rows, np.full(50, value)]), n_components=2, random_state=0)
        for value in (0.0, 0.1)
    ]
    assert np.std(np.full(50, 0.1)) != 0.0
    at = [np.column_stack([rows, np.full(50, value)]) for value in (0.0, 0.1)]
    first, second = (one.log_density(X) for one, X in zip(found, at, strict=True))
    np.testing.assert_allclose(first, second, rtol=1e-10)


def test_a_map_state_is_what_map_returns():
    model = mixture(1, 1, 1)
    rng = np.random.default_rng(0)
    assert isinstance(start_state(model, rng.normal(size=(5, 1)), np.full(5, -1), rng, 0), MapState)


def test_the_prior_of_one_component_integrates_to_one():
    prior = default_prior(1, mean=0.3, degrees=2.0)
    kind = family("full", 0)

    def density(m, log_sd):
        sd = np.exp(log_sd)
        one = Components(np.array([[m]]), np.array([[[sd]]]), np.empty((1, 1, 0)))
        return np.exp(kind.log_prior(one, prior)) * 2 * sd**2  # dσ² = 2 σ² d log σ

    mass = dblquad(
        density, -2.5, 6, lambda s: 0.3 - 12 * np.exp(s), lambda s: 0.3 + 12 * np.exp(s),
        epsabs=1e-4, epsrel=1e-4,
    )[0]  # fmt: skip
    assert mass == pytest.approx(1.0, abs=1e-3)
