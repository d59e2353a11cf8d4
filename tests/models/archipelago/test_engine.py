"""The engine's model: its bound, its gradients, its posterior, against exact answers."""

from __future__ import annotations

import itertools
from functools import lru_cache, partial
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import logsumexp
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern

from atoll.core.densities import Blurred, Gaussian, GaussianMixture, StudentT, WithConstants
from atoll.core.passes import Reservoir
from atoll.diagnostics import geweke_test
from atoll.inference.natural_gradient import (
    InducingGaussians,
    covariance_factors,
    inverse_of_lower,
)
from atoll.kernels.detailed import DetailedRBF
from atoll.likelihoods.softmax import symmetric_points
from atoll.models.archipelago.engine import (
    ascent,
    classes,
    fitting,
    hmc,
    objective,
    problem,
    schedule,
    sparse,
    start,
)
from atoll.models.archipelago.engine import posterior as posterior_module
from atoll.models.archipelago.engine.objective import Batch, Pace
from atoll.models.archipelago.engine.posterior import (
    JITTER,
    EnginePosterior,
    Scaling,
    stacked_factors,
)
from atoll.models.archipelago.engine.problem import problem_of_sample, why_not
from atoll.models.archipelago.engine.schedule import make_schedule, n_whole_steps
from atoll.models.archipelago.engine.start import base_points
from atoll.models.archipelago.likelihood import class_probabilities

K = 2
THETA = np.array([0.8, 0.1])
PLACES = np.array([[-0.9], [0.1], [1.2]])  # inducing inputs, rows and all of π
SITES = sparse.Sites(PLACES, 0.2)
RELEASED = Pace(*np.array([0.5, 1.0, 0.0, 0.0, 0.0]))


@pytest.fixture
def x64():
    with jax.enable_x64(True):
        yield


def three_rows(places=PLACES):
    """One labelled row and two without a label, at three places, which are π's only ones."""
    return Batch(
        labelled=places[:1],
        labels=np.array([[0.0, 1.0]]),
        label_weights=np.ones(1),
        rows=places[1:],
        log_start=np.zeros((2, K)),
        row_weights=np.ones(2),
        base=places,
    )


def some_q(seed, m=3):
    rng = np.random.default_rng(seed)
    half = 0.5 * rng.normal(size=(K, m, m))
    return InducingGaussians(
        jnp.asarray(rng.normal(size=(K, m))),
        jnp.asarray(half @ np.swapaxes(half, 1, 2) + 2 * np.eye(m)),
    )


def correlation(first, second):
    e = np.exp(-0.5 * (first - second.T) ** 2 / np.exp(2 * THETA[1]))
    return (1.0 - SITES.detail) * e + SITES.detail * e**4


@lru_cache
def log_evidence_by_quadrature(n_nodes=8):
    """log p(data) over the functions at the three places; they are six normal numbers."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(n_nodes)
    index = np.array(list(itertools.product(range(n_nodes), repeat=3 * K)))
    log_w = np.log(weights / weights.sum())[index].sum(axis=1)
    # As in the sparse model: values seen with jitter, then functions given them.
    C = correlation(PLACES, PLACES)
    known = C @ np.linalg.inv(C + JITTER * np.eye(3)) @ C
    root = np.linalg.cholesky(known + 1e-12 * np.eye(3))
    g = np.exp(0.5 * THETA[0]) * np.einsum("ij,nkj->nik", root, nodes[index].reshape(-1, K, 3))
    log_total = logsumexp(g, axis=2)
    log_kept = -np.logaddexp(0.0, -log_total)
    log_norm = logsumexp(log_kept, axis=1) - np.log(3)
    of_label = g[:, 0, 1] - np.logaddexp(0.0, log_total[:, 0])
    return logsumexp(log_w + of_label + log_kept[:, 1:].sum(axis=1) - 3 * log_norm)


def carry(theta, q):
    return objective.Carried(theta, sparse.factor(theta, SITES), q.mean, covariance_factors(q))


@partial(jax.jit, static_argnames="n_draws")
def bound_of_three_rows(theta, q, norm, key, n_draws=500):
    carried = carry(theta, q)
    prior = (theta, jnp.ones(2))
    noise = (key, n_draws)
    return objective.bound(theta, carried, SITES, three_rows(), RELEASED, norm, prior, noise)


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_bound_is_below_the_log_evidence_of_three_rows(seed):
    q, norm = some_q(seed), 0.3 + 0.2 * seed
    draws = [float(bound_of_three_rows(THETA, q, norm, jax.random.key(i))) for i in range(8)]
    error = np.std(draws) / np.sqrt(len(draws))
    exact = log_evidence_by_quadrature()
    assert error < 0.05
    assert np.mean(draws) < exact + 5 * error


@pytest.mark.usefixtures("x64")
def test_the_bound_is_nearly_tight_where_the_posterior_is_nearly_normal():
    """A small amplitude leaves the prior as it is, and q can be the prior."""
    eye = jnp.broadcast_to(jnp.eye(3), (K, 3, 3))
    q = InducingGaussians(jnp.zeros((K, 3)), eye)
    value = bound_of_three_rows(np.array([-8.0, 0.1]), q, 2 / 3, jax.random.key(0))
    # All functions are zero: the label has 1/3, an unlabelled row 2/3, and Z is 2/3.
    exact = np.log(1 / 3) + 2 * np.log(2 / 3) - 3 * np.log(2 / 3)
    assert float(value) == pytest.approx(exact, abs=1e-2)


@pytest.mark.usefixtures("x64")
def test_the_gradient_of_the_bound_in_log_parameters_meets_differences():
    q, batch = some_q(1), three_rows(PLACES + 0.3)
    pace = RELEASED._replace(graph_weight=np.float64(0.4), row_weight=np.float64(0.7))

    @jax.jit
    @jax.value_and_grad
    def value_and_slope(theta):
        carried = jax.lax.stop_gradient(carry(THETA, q))
        prior, noise = (jnp.zeros(2), jnp.ones(2)), (jax.random.key(3), 20)
        return objective.bound(theta, carried, SITES, batch, pace, 0.4, prior, noise)

    at = THETA + np.array([0.2, -0.1])
    slope = value_and_slope(at)[1]
    for j, step in enumerate(1e-5 * np.eye(2)):
        difference = (value_and_slope(at + step)[0] - value_and_slope(at - step)[0]) / 2e-5
        assert float(slope[j]) == pytest.approx(float(difference), rel=1e-5, abs=1e-6)


@pytest.mark.usefixtures("x64")
def test_scores_are_the_gradient_of_the_expected_log_likelihood():
    rng = np.random.default_rng(0)
    batch = three_rows()._replace(log_start=np.log(rng.dirichlet(np.ones(K), 2)))
    latent, pace = (
        rng.normal(size=(6, 6, K)),
        RELEASED._replace(graph_weight=np.float64(0.3), row_weight=np.float64(0.6)),
    )

    def expected(shift, z):
        labelled, rows, base = batch.split(latent + shift)
        total = ((batch.labels * labelled).sum(-1) - one_plus(labelled)).mean(0).sum()
        start = jax.nn.logsumexp(rows + 0.3 * batch.log_start, axis=-1)
        total += 0.6 * (start - one_plus(rows)).mean(0).sum()
        kept = jax.nn.sigmoid(jax.nn.logsumexp(base, axis=-1)).mean()
        return total - (1 + 0.6 * 2) * kept / z

    def one_plus(g):
        return jnp.logaddexp(0.0, jax.nn.logsumexp(g, axis=-1))

    @jax.jit
    def both(norm):
        scores, curvatures, z = objective.scores_and_curvatures(latent, batch, pace, norm)
        return scores, curvatures, jax.grad(expected)(jnp.zeros((6, K)), z)

    scores, curvatures, slope = both(0.4)
    np.testing.assert_allclose(scores, slope, atol=1e-12)
    assert float(curvatures.min()) >= 0.0


def test_factors_that_go_from_step_to_step_are_those_of_the_state():
    steps = 4
    batches = jax.tree.map(
        lambda v: np.broadcast_to(np.asarray(v, np.float32), (steps, *np.shape(v))).copy(),
        three_rows(PLACES + 0.3),
    )
    paces = Pace(*(np.full(steps, v, np.float32) for v in (0.5, 1.0, 0.4, 0.5, 0.0)))
    prior = np.array([0.0, 0.0], np.float32), np.array([1.0, 0.5], np.float32)
    fixed = ascent.Fixed(jax.tree.map(np.float32, SITES), *prior)
    begin = state = ascent.init(fixed, K)
    factors = ascent.factors_of(state, fixed)
    take_a_round = jax.jit(ascent.take_round)
    for number, broken in enumerate((False, True, False)):
        batches.row_weights[2] = np.nan if broken else 1.0  # the third of its steps is refused
        given = ascent.Round(np.array([0, number], np.uint32), batches, paces, np.float32(0.1))
        (state, factors), _ = take_a_round((state, factors), given, fixed)
        expected = ascent.factors_of(state, fixed)
        np.testing.assert_allclose(factors.lower, expected.lower, atol=1e-5)
        np.testing.assert_allclose(factors.covariances, expected.covariances, atol=1e-4)
    assert int(state.n_refused) == 1
    assert np.abs(state.q.mean).max() > 0.1
    assert np.abs(state.log_parameters - begin.log_parameters).min() > 0.05


@pytest.mark.parametrize(("own_scales", "low"), [(False, 0.0), (True, 0.0), (False, 1e4)])
def test_the_chains_density_has_its_gradient(own_scales, low):
    """By values, amplitude and length-scales, one for both features or one each.

    Where all functions are low, what is kept is less than the least number.
    """
    rng = np.random.default_rng(0)
    data = sparse_data(rng, noise=rng.normal(size=(2, 6, K)))
    p = 3 if own_scales else 2
    data = data._replace(
        **{name: np.c_[getattr(data, name), rng.normal(size=len(getattr(data, name)))]
           for name in ("labelled", "rows", "base", "inducing")},
        prior_mean=np.zeros(p), prior_sd=np.array([1.0, 0.5, 0.7])[:p],
    )  # fmt: skip
    v, theta = rng.normal(size=(K, 3)) - low, np.append(THETA, -0.2)[:p]
    known = hmc.features_at(theta, data)
    by_v, by_theta = hmc.log_density(v, theta, known, data, True)[1:]
    assert (np.exp(hmc.terms_at(v, theta, known, data).log_norm) == 0.0) == (low > 0.0)

    def value(v, theta):
        return hmc.log_density(v, theta, hmc.features_at(theta, data), data, False)[0]

    for j, step in enumerate(1e-5 * np.eye(v.size).reshape(-1, *v.shape)):
        difference = (value(v + step, theta) - value(v - step, theta)) / 2e-5
        assert by_v.ravel()[j] == pytest.approx(difference, rel=1e-5, abs=1e-6)
    for j, step in enumerate(1e-5 * np.eye(p)):
        difference = (value(v, theta + step) - value(v, theta - step)) / 2e-5
        assert by_theta[j] == pytest.approx(difference, rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("with_all", [False, True])
def test_a_move_of_the_chains_has_the_gradient_of_its_coordinates(with_all):
    rng = np.random.default_rng(1)
    data = sparse_data(rng, noise=rng.normal(size=(2, 6, K)))
    state = hmc.make_state(rng.normal(size=(K, 3)), THETA)
    target = hmc._Around(data, state, None if with_all else hmc.features_at(THETA, data)).density
    at = 0.5 * rng.normal(size=K * 3 + (2 if with_all else 1))
    slope = target(at)[1]
    for j, step in enumerate(1e-5 * np.eye(len(at))):
        difference = (target(at + step)[0] - target(at - step)[0]) / 2e-5
        assert slope[j] == pytest.approx(difference, rel=1e-5, abs=1e-6)
    assert target(np.append(np.zeros(len(at) - 1), 1e3))[0] == -np.inf  # a trajectory gone astray


def test_chains_stay_in_single_precision():
    rng = np.random.default_rng(1)
    data = sparse_data(rng, noise=rng.normal(size=(2, 6, K)))
    data = hmc.SparseData(*(np.asarray(part, np.float32) for part in data))
    state = hmc._init(data, rng)
    for _ in range(2 * hmc.THETA_EVERY):
        state = hmc.sweep(data, rng, state, True)
        known = hmc.features_at(state.theta, data)
        terms = hmc.terms_at(state.values, state.theta, known, data)
        for part in (state.values, state.theta, known.A, known.noise, terms.slope, terms.shares):
            assert part.dtype == np.float32


def sparse_data(rng, noise, places=PLACES):
    C = np.linalg.cholesky(np.linalg.inv(np.asarray(some_q(1).precision)))
    return hmc.SparseData(
        labelled=places[:1], labels=np.array([[0.0, 1.0]]), rows=places[1:], base=places,
        inducing=PLACES, detail=np.array(SITES.detail), noise=noise, centre=rng.normal(size=(K, 3)),
        factors=np.swapaxes(C, 1, 2), theta_centre=THETA, prior_mean=np.zeros(2),
        prior_sd=np.array([1.0, 0.5]),
    )  # fmt: skip


# What it predicts with ----------------------------------------------------------------------------


def make_posterior(seed=0, n_states=2, base=None):
    rng = np.random.default_rng(seed)
    factors = [stacked_factors(np.asarray(some_q(s).precision)) for s in range(n_states)]
    weights = np.array([0.3, 0.7])[:n_states]
    return EnginePosterior(
        Scaling(np.array([0.5]), np.array([2.0])),
        PLACES,
        Gaussian(np.zeros(1), 2.0 * np.eye(1)) if base is None else base,
        THETA + 0.2 * rng.normal(size=(n_states, 2)),
        rng.normal(size=(n_states, K, 3)),
        np.stack(factors),
        np.zeros(n_states),
        np.log(weights / weights.sum()),
        detail=SITES.detail,
    )


def with_norms(posterior):
    """The posterior with Z of every state, by a grid."""
    grid = np.linspace(-12, 12, 1201)[:, None]
    norms = []
    for s in range(len(posterior.log_weights)):
        alone = posterior._replace(
            log_weights=np.where(np.arange(len(posterior.log_weights)) == s, 0.0, -np.inf)
        )
        density = np.exp(posterior.base.log_density(grid)) * (1 - alone.rejection(grid))
        norms.append(density.sum() * 0.02)
    return posterior._replace(log_norms=np.log(norms))


def test_moments_are_those_of_the_model_in_jax():
    posterior, X = make_posterior(n_states=1), np.linspace(-4, 4, 7)[:, None]
    mean, variance = posterior.latent(X)
    q = InducingGaussians(posterior.means[0], some_q(0).precision)
    numbers = (posterior.log_parameters[0], *q, SITES, posterior.scaling(X))

    @jax.jit
    def moments(theta, mean, precision, sites, rows):
        inverse = inverse_of_lower(sparse.factor(theta, sites))
        factors = covariance_factors(InducingGaussians(mean, precision))
        return sparse.moments(theta, *sparse.features(theta, inverse, sites, rows), mean, factors)

    m, sd = moments(*jax.tree.map(jnp.float32, numbers))
    np.testing.assert_allclose(mean, m, atol=1e-3)
    np.testing.assert_allclose(variance, np.square(sd), atol=1e-3)


@pytest.mark.parametrize("n", [1, 50, 150])
def test_class_probabilities_by_jax_are_those_of_the_posterior(monkeypatch, n):
    monkeypatch.setattr(classes, "CHUNK", 64)
    posterior = make_posterior()
    X = np.random.default_rng(3).uniform(-4, 4, size=(n, 1))
    found = classes.class_probabilities_of(posterior, X)
    np.testing.assert_allclose(found.sum(axis=1), 1.0, rtol=1e-12)
    np.testing.assert_allclose(found, np.exp(posterior.log_proba(X)), atol=1e-5)


def test_joint_draws_have_the_mean_and_covariance_of_the_functions():
    posterior, X = make_posterior(), np.array([[0.0], [0.4], [0.0], [3.0]])
    draws = posterior.draws(X, 4000, np.random.default_rng(0))
    np.testing.assert_allclose(draws.sum(axis=2), 1.0, atol=1e-12)
    np.testing.assert_array_equal(draws[:, 0], draws[:, 2])  # equal rows, equal functions
    error = draws.std(axis=0) / np.sqrt(len(draws))
    assert (np.abs(draws.mean(axis=0) - np.exp(posterior.log_proba(X))) < 5 * error + 2e-3).all()


def test_states_that_are_draws_predict_as_states_without_spread():
    posterior = make_posterior()
    drawn = posterior._replace(factors=posterior.factors[:, :, :0])
    still = posterior._replace(factors=np.zeros_like(posterior.factors))
    X = np.linspace(-3, 3, 5)[:, None]
    np.testing.assert_allclose(drawn.log_proba(X), still.log_proba(X), atol=1e-12)
    assert drawn.draws(X, 4, np.random.default_rng(0)).shape == (4, 5, K)


def test_far_from_all_data_every_class_has_its_prior_probability():
    posterior = make_posterior()
    np.testing.assert_allclose(np.exp(posterior.log_proba(np.array([[1e300]]))), 0.5, atol=1e-9)


def test_the_density_is_normalised_and_fantasies_follow_it():
    posterior = with_norms(make_posterior())
    grid = np.linspace(-12, 12, 1201)[:, None]
    density = np.exp(posterior.log_density(grid))
    assert density.sum() * 0.02 == pytest.approx(1.0, abs=1e-3)
    rows, codes = posterior.sample(np.random.default_rng(1), 4000)
    places = np.interp(rows[:, 0], grid[:, 0], np.cumsum(density) * 0.02)
    gap = np.abs(np.sort(places) - (np.arange(4000) + 0.5) / 4000).max()
    assert gap < 0.045  # Kolmogorov's distance is larger one time in 1e6
    asked = np.array([1, 0, 0, 1])
    some, same = posterior.sample(np.random.default_rng(2), 4, asked)
    assert some.shape == (4, 1)
    np.testing.assert_array_equal(same, asked)
    assert set(codes.tolist()) == {0, 1}


# Starts and schedule ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "base",
    [
        Gaussian(np.array([1.0, -2.0]), np.array([[1.0, 0.0], [0.5, 0.7]])),
        StudentT(np.zeros(2), np.eye(2), 6.0),
        GaussianMixture(
            np.array([0.3, 0.7]), np.array([[0.0, 0.0], [3.0, 1.0]]), np.stack([np.eye(2)] * 2)
        ),
        WithConstants(
            Gaussian(np.zeros(1), np.eye(1)), np.array([True, False]), np.array([9.0, 4.0])
        ),
    ],
)  # fmt: skip
def test_quasi_random_points_of_a_density_have_its_moments(base):
    rng = np.random.default_rng(0)
    points, drawn = base_points(rng, base, 4096), base.sample(rng, 40_000)
    error = drawn.std(axis=0) / np.sqrt(len(drawn))
    assert (np.abs(points.mean(axis=0) - drawn.mean(axis=0)) < 5 * error + 0.01).all()
    np.testing.assert_allclose(np.cov(points.T), np.cov(drawn.T), atol=0.15)


def test_an_unknown_density_is_sampled():
    class Square:
        def sample(self, rng, n):
            return rng.uniform(-1, 1, size=(n, 2))

        def log_density(self, X):
            return np.full(len(X), -np.log(4.0))

    assert base_points(np.random.default_rng(0), Square(), 10).shape == (10, 2)


def test_the_schedule_ends_at_the_model_itself():
    plan = make_schedule(n_whole_steps(90), 10_000)
    assert len(plan.rate) == 100
    last = slice(-14, None)
    np.testing.assert_array_equal(plan.row_weight[last], 1.0)
    np.testing.assert_array_equal(plan.graph_weight[last], 0.0)
    np.testing.assert_array_equal(plan.averaged[last], 1.0)
    np.testing.assert_array_equal(plan.learning_rate[-3:], 0.0)  # what is averaged has one θ
    last_moves = plan.learning_rate[plan.learning_rate > 0]
    assert last_moves[-1] < 0.1 * last_moves[0]  # single batches leave no trace in it
    rounds = np.flatnonzero(plan.learning_rate) * schedule.STEPS_PER_ROUND + 3  # their last steps
    np.testing.assert_array_equal(plan.row_weight[rounds], 1.0)  # learned from all rows
    assert (np.diff(plan.rate) <= 0).all()


def test_a_gaussian_prior_is_found_again_at_the_inducing_inputs():
    """With q the prior, g has the kernel's variance everywhere, up to the jitter."""
    eye = np.eye(3)[None].repeat(K, axis=0)
    posterior = make_posterior(n_states=1)._replace(
        means=np.zeros((1, K, 3)), factors=eye[None], log_parameters=THETA[None]
    )
    _, variance = posterior.latent(np.linspace(-5, 5, 9)[:, None])
    np.testing.assert_allclose(variance, np.exp(THETA[0]), rtol=1e-6)  # by float32


# The chains' sampler ------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_chains_leave_the_sparse_model_invariant():
    result = run_geweke()
    assert result.smallest_adjusted_p_value > 1e-6, str(result)


@pytest.mark.slow
def test_chains_that_forget_the_norm_are_caught(monkeypatch):
    right = hmc.terms_at

    def without_norm(v, theta, known, data):
        terms = right(v, theta, known, data)
        n = len(data.labelled) + len(data.rows)
        slope = terms.slope.copy()
        slope[:, :, n:] = 0.0
        likelihood = terms.log_likelihood + n * terms.log_norm
        return terms._replace(log_likelihood=likelihood, slope=slope)

    monkeypatch.setattr(hmc, "terms_at", without_norm)
    assert run_geweke().smallest_adjusted_p_value < 1e-6


def run_geweke():
    """π is three places, so that rows are drawn from them by what is kept there."""
    n, rng = 4, np.random.default_rng(3)
    data = sparse_data(rng, noise=np.zeros((1, n + 3, K)))
    data = data._replace(
        labelled=np.zeros((2, 1)), labels=np.zeros((2, K)), rows=np.zeros((n - 2, 1))
    )
    data = hmc.SparseData(*(np.asarray(part, np.float32) for part in data))
    at_places = data._replace(
        labelled=data.labelled[:0], rows=data.rows[:0], noise=data.noise[:, n:]
    )

    def sample_prior(rng):
        v = rng.standard_normal((K, 3))
        theta = data.prior_mean + data.prior_sd * rng.standard_normal(2)
        return np.float32(v), np.float32(theta)

    def sample_data(rng, position):
        v, theta = position
        A = hmc.features_at(theta, at_places).A
        g = np.exp(0.5 * float(theta[0])) * np.asarray(A, float).T @ np.asarray(v, float).T
        odds = np.exp(g) / (1 + np.exp(g).sum(axis=1, keepdims=True))  # (place, class)
        chosen = rng.choice(3 * K, size=n, p=(odds / odds.sum()).ravel())
        return chosen // K, chosen % K

    def sweep(rng, position, seen):
        places, classes = seen
        now = data._replace(
            labelled=data.base[places[:2]],
            labels=np.eye(K, dtype=np.float32)[classes[:2]],
            rows=data.base[places[2:]],
        )
        state = hmc.make_state(*position)._replace(n_sweeps=int(rng.integers(hmc.THETA_EVERY)))
        state = hmc.sweep(now, rng, state, False)
        return state.values, state.theta

    def statistics(position, seen):
        v, theta = (np.asarray(part, float) for part in position)
        places, classes = seen
        first = v[classes[0], places[0]]
        found = {"theta": theta, "theta^2": theta**2, "v": v.ravel(), "v^2": v.ravel() ** 2}
        scalars = {f"{k} {i}": x for k, values in found.items() for i, x in enumerate(values)}
        return scalars | {"own": first, "own^2": first**2, "same": float(places[0] == places[2])}

    return geweke_test(
        np.random.default_rng(1), sample_prior, sample_data, sweep, statistics,
        n_chains=100, n_steps=12, n_marginal=3000,
    )  # fmt: skip


def test_what_the_engine_cannot_take_is_said():
    assert "RBF" in why_not(Matern(), "auto")
    assert "sampled" in why_not("isotropic", "sampled-gaussian")
    assert why_not(ConstantKernel() * RBF(), "auto") == ""
    assert why_not(ConstantKernel() * DetailedRBF(), "auto") == ""


def test_mixtures_and_blurred_rows_are_had_from_even_points():
    centres = np.zeros((4, 3))
    assert start._dimension(Blurred(centres, np.eye(3))) == 3
    mixture = GaussianMixture(np.ones(1), np.zeros((1, 3)), np.eye(3)[None])
    assert start._dimension(mixture) == 3


def test_learning_goes_on_more_and_more_slowly_and_then_ends():
    rate = schedule.onward_schedule(50).learning_rate
    assert 0.8 < rate[0] / schedule.ONWARD_RATE < 1.0
    assert (np.diff(rate) <= 0).all()
    assert rate[-1] == 0.0


# Its parts, written anew --------------------------------------------------------------------------


def test_the_divergence_is_that_of_normals():
    """In closed form, by the trace, the mean and the determinant of covariances."""
    mean, precision = (np.asarray(v) for v in some_q(4))
    covariance = np.linalg.inv(precision)
    exact = sum(
        0.5 * (np.trace(S) + m @ m - 3.0 - np.log(np.linalg.det(S)))
        for m, S in zip(mean, covariance)
    )
    assert fitting.divergence(SimpleNamespace(average=(mean, precision))) == pytest.approx(exact)
    prior = np.zeros((K, 3)), np.eye(3)[None].repeat(K, axis=0)
    assert fitting.divergence(SimpleNamespace(average=prior)) == pytest.approx(0.0)


def test_scaled_rows_are_centred_and_stay_finite_on_both_sides():
    scaled = Scaling(np.array([3.0, -1.0]), np.array([2.0, 0.5]))
    np.testing.assert_array_equal(scaled([[3.0, -1.0], [5.0, -2.0]]), [[0.0, 0.0], [1.0, -2.0]])
    np.testing.assert_array_equal(scaled([[1e300, -1e300]]), [[1e6, -1e6]])


@pytest.mark.parametrize(("n_parameters", "scales"), [(2, [2.0]), (3, [2.0, 5.0])])
def test_length_scales_of_scaled_rows_are_taken_to_the_units_of_the_rows(n_parameters, scales):
    problem = SimpleNamespace(prior=SimpleNamespace(mean=np.zeros(n_parameters)))
    scaled = Scaling(np.zeros(2), np.array([2.0, 5.0]))
    np.testing.assert_allclose(fitting.own_units(problem, scaled), [0.0, *np.log(scales)])


def test_a_sample_counts_for_all_the_rows_that_it_stands_for():
    codes = np.array([-1, 1, 0, -1, 1])
    rows = np.arange(5.0)[:, None]
    sample = Reservoir(np.arange(5, dtype=np.uint64), rows, codes, (2, 1, 2))
    problem = problem_of_sample(sample, np.array([40, 3, 10]), None, None)
    np.testing.assert_array_equal(problem.rows, [[0.0], [3.0]])
    np.testing.assert_array_equal(problem.labelled, [[1.0], [2.0], [4.0]])
    np.testing.assert_array_equal(problem.codes, [1, 0, 1])
    np.testing.assert_array_equal(problem.label_weights, [5.0, 3.0, 5.0])
    assert (problem.n_unlabelled, problem.n_classes) == (40, 2)


def test_the_graph_is_followed_first_and_then_let_go():
    plan, t = make_schedule(1000, 10_000), np.arange(1000) / 1000
    np.testing.assert_array_equal(plan.graph_weight[t <= schedule.CLAMPED], 1.0)
    np.testing.assert_array_equal(plan.graph_weight[t >= schedule.RELEASED], 0.0)
    between = (t > schedule.CLAMPED) & (t < schedule.RELEASED)
    assert (np.diff(plan.graph_weight[between]) < 0).all()
    np.testing.assert_array_equal(plan.caution[t <= schedule.RELEASED], 1.0)
    np.testing.assert_array_equal(plan.caution[t >= schedule.BOLD], 0.0)
    assert schedule.onward_schedule(1000).learning_rate.max() < schedule.LEARNING_RATE


def test_a_start_is_the_average_of_graphs_in_the_log_with_some_doubt(monkeypatch):
    rng = np.random.default_rng(0)
    problem = SimpleNamespace(
        rows=rng.normal(size=(20, 2)), labelled=rng.normal(size=(3, 2)),
        codes=np.array([0, 1, 2]), n_classes=3, label_weights=np.ones(3),
    )  # fmt: skip
    given = rng.dirichlet(np.ones(3), size=(2, 20))
    sizes = []

    def of_a_graph(rng, on_graph, codes, n_classes, X):
        sizes.append(len(on_graph))
        np.testing.assert_array_equal(on_graph[: len(codes)], problem.labelled)
        return given[len(sizes) - 1]

    def expected(parts):
        mixed = np.log((1.0 - start.DOUBT) * parts + start.DOUBT / 3).mean(axis=0)
        return mixed - logsumexp(mixed, axis=1, keepdims=True)

    monkeypatch.setattr(start, "graph_probabilities", of_a_graph)
    np.testing.assert_allclose(start.log_start(rng, problem), expected(given[:1]), atol=1e-6)
    sizes.clear()
    monkeypatch.setattr(start, "GRAPH_ROWS", 12)
    np.testing.assert_allclose(start.log_start(rng, problem), expected(given), atol=1e-6)
    assert sizes == [12, 12]


def test_the_graph_of_a_start_has_labels_at_its_first_rows_alone(monkeypatch):
    masks = []

    def stop(weights, n_modes, is_labelled):
        masks.append(is_labelled)
        raise InterruptedError

    monkeypatch.setattr(start, "graph_modes", stop)
    rng = np.random.default_rng(1)
    with pytest.raises(InterruptedError):
        start.graph_probabilities(
            rng, rng.normal(size=(9, 2)), np.array([0, 1]), 2, np.zeros((1, 2))
        )
    assert masks[0].tolist() == [True] * 2 + [False] * 7


def test_a_column_that_is_constant_on_the_graph_of_a_start_keeps_its_unit():
    rows = np.random.default_rng(1).normal(size=(9, 2))
    found = []
    for value in (0.25, 0.1):  # of which the second leaves a deviation that rounding makes
        on_graph = np.column_stack([rows, np.full(9, value)])
        X = np.column_stack([rows[2:5], np.full(3, value + 0.05)])
        rng = np.random.default_rng(2)
        found.append(start.graph_probabilities(rng, on_graph, np.array([0, 1]), 2, X))
    assert on_graph.std(axis=0)[2] != 0.0
    np.testing.assert_allclose(*found, atol=1e-6)


def test_where_a_net_has_too_few_dimensions_points_are_drawn(monkeypatch):
    base = Gaussian(np.zeros(3), np.eye(3))
    for most, drawn in ((4, False), (3, True)):
        monkeypatch.setattr(start, "MOST_SOBOL", most)
        points = base_points(np.random.default_rng(5), base, 8)
        same = np.array_equal(points, base.sample(np.random.default_rng(5), 8))
        assert same == drawn


def test_rows_in_doubt_get_many_points():
    posterior, X = make_posterior(n_states=1), np.linspace(-3, 3, 9)[:, None]
    (found,) = posterior_module._averages(posterior, X, class_probabilities)
    ((_, mean, deviation),) = posterior_module.state_moments(posterior, 0, X)
    points = symmetric_points(K, 0, posterior_module.MANY_POINTS)
    exact = posterior_module._average(mean, deviation, points, class_probabilities)
    assert np.all(exact.max(axis=1) < 1.0 - posterior_module.DOUBT)
    np.testing.assert_array_equal(found, exact)


def test_the_likelihood_of_the_chains_is_that_of_the_model():
    """One draw of noise, functions by the formula, and the model's own density."""
    rng = np.random.default_rng(2)
    noise = rng.normal(size=(1, 6, K))
    data = sparse_data(rng, noise)
    v, theta = rng.normal(size=(K, 3)), THETA + 0.1
    known = hmc.features_at(theta, data)
    found = hmc.terms_at(v, theta, known, data)
    left = np.maximum(1.0 - (known.A**2).sum(axis=0), 0.0)
    g = np.exp(0.5 * theta[0]) * (known.A.T @ v.T + np.sqrt(left)[:, None] * noise[0])
    log_kept = -np.logaddexp(0.0, -logsumexp(g, axis=1))
    log_norm = logsumexp(log_kept[3:]) - np.log(3)
    of_label = g[0, 1] - np.logaddexp(0.0, logsumexp(g[0]))
    exact = of_label + log_kept[1:3].sum() - 3 * log_norm
    assert found.log_norm == pytest.approx(log_norm, abs=1e-6)
    assert found.log_likelihood == pytest.approx(exact, abs=1e-5)
    shares = np.exp(g[:3] - logsumexp(g[:3], axis=1, keepdims=True))
    np.testing.assert_allclose(found.shares[0, :, :3].T, shares, atol=1e-5)
    order = np.array([2, 0, 1])
    drawn = hmc._record(data, np.array([0.5, 0.0]), order, rng, hmc.make_state(v, theta))
    np.testing.assert_allclose(drawn["row_probabilities"], shares[order], atol=1e-5)
    np.testing.assert_allclose(drawn["log_parameters"], theta + np.array([0.5, 0.0]))


@pytest.mark.parametrize("caution", [0.0, 0.5, 1.0])
def test_curvatures_are_those_that_the_formulas_say(caution):
    rng = np.random.default_rng(3)
    batch = three_rows()._replace(row_weights=np.array([2.0, 5.0]))
    g = rng.normal(size=(1, 6, K))
    pace = Pace(*np.array([0.5, 0.7, 0.0, caution, 0.0]))
    norm = 0.4
    scores_and_curvatures = jax.jit(objective.scores_and_curvatures)
    _, w, z = scores_and_curvatures(g, batch, pace, norm)
    total = np.exp(g[0]).sum(axis=1, keepdims=True)
    p, p_0, s = np.exp(g[0]) / (1.0 + total), 1.0 / (1.0 + total), np.exp(g[0]) / total
    kept = (1.0 - p_0[3:]).mean()
    assert float(z) == pytest.approx(norm + 0.5 * (kept - norm), rel=1e-5)
    by_base = (1.0 + 0.7 * 7.0) / (3 * float(z))
    of_rows = (0.5 + 0.5 * caution) * (s * p_0) ** 2
    of_base = caution * p_0 * p * (1.0 - p) + (1.0 - caution) * 0.5 * p * s * p_0**2
    exact = np.concatenate([
        (p * (1.0 - p))[:1], 0.7 * batch.row_weights[:, None] * of_rows[1:3], by_base * of_base[3:],
    ])  # fmt: skip
    np.testing.assert_allclose(w, exact, rtol=1e-4)
    # What the graph says as well makes every curvature of π larger, and no other.
    _, more, _ = scores_and_curvatures(g, batch, pace._replace(graph_weight=0.3), norm)
    np.testing.assert_allclose(more[:3], w[:3], rtol=1e-5)
    np.testing.assert_allclose(
        more[3:], exact[3:] + by_base * 0.3 * ((1.0 - p_0) * p * (1.0 - p))[3:], rtol=1e-4
    )


# Inducing inputs ----------------------------------------------------------------------------------


def test_covering_rows_are_where_those_before_leave_a_function_most_open():
    X = np.random.default_rng(4).normal(size=(40, 2))
    found = start.covering_rows(X, 12, THETA, SITES.detail)
    e = np.exp(-0.5 * ((X[:, None] - X) ** 2).sum(axis=2) / np.exp(2 * THETA[1]))
    C = (1.0 - SITES.detail) * e + SITES.detail * e**4
    for j, i in enumerate(found):
        known, across = C[np.ix_(found[:j], found[:j])], C[found[:j]]
        left = 1.0 - np.einsum("ij,ij->j", across, np.linalg.solve(known, across))
        assert left[i] == pytest.approx(left.max(), abs=1e-9)


def test_no_row_covers_twice_however_near_rows_are():
    X = np.array([[0.0], [1e-9], [2e-9], [1.0], [2.0]])
    assert len(np.unique(start.covering_rows(X, 5, THETA, 0.0))) == 5


@pytest.mark.parametrize("d", [1, 2, 3])
def test_the_usual_kernel_has_detail_and_is_longer_in_the_plane(d):
    X = np.random.default_rng(5).normal(size=(200, d))
    prior = problem._usual_prior(X)
    plain = problem.prior_of_islands("isotropic", X)
    assert isinstance(prior.kernel.k2, DetailedRBF)
    longer = np.log(2.0) if d <= 2 else 0.0
    np.testing.assert_allclose(prior.mean - plain.mean, [0.0, longer])
    np.testing.assert_allclose(prior.kernel.theta, prior.mean)
