"""Predictions: classes, rejection, density, joint draws and fantasies."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from scipy.special import expit, logsumexp
from sklearn.gaussian_process.kernels import ConstantKernel, Hyperparameter, Kernel

from atoll.core.densities import Gaussian, NormalInverseWishart
from atoll.diagnostics import mcse_mean
from atoll.kernels.hyperparameters import kernel_prior
from atoll.likelihoods.softmax import class_probabilities
from atoll.models.archipelago import (
    UNLABELLED,
    Setting,
    TooManyRejections,
    paper_sweep,
    prediction,
    process,
    sample_prior,
    sampler,
    sweep,
)
from atoll.models.archipelago.functions import mixing_matrix
from atoll.models.archipelago.state import make_state
from atoll.models.posterior import DensityPosterior, FunctionPosterior

LINE = Gaussian(np.zeros(1), np.eye(1))
SOME_GAUSSIANS = NormalInverseWishart(np.zeros(1), 3.0, 4.0 * np.eye(1), 6.0)
PRIOR = kernel_prior("isotropic", np.array([[-1.0], [1.0]]))._replace(
    mean=np.array([0.4, -0.3]), sd=np.array([0.4, 0.4])
)
NOTHING = np.zeros(0)
OWN, DEPENDENT, NIW = {"own_kernels": True}, {"dependent": True}, {"base": SOME_GAUSSIANS}
THREE = np.array([[-1.2], [0.3], [0.6]])
THREE_CODES = np.array([0, 1, UNLABELLED])


def pooled(chains):
    return [state for chain in chains for state in chain]


EVERYWHERE = np.linspace(-12.0, 12.0, 241)[:, None]
OPTIONS = {
    "one class": (1, {}),
    "two classes": (2, {}),
    "three classes, own kernels, dependent": (3, OWN | DEPENDENT),
    "two classes, sampled base density": (2, NIW),
}


@pytest.mark.parametrize("name", OPTIONS)
def test_predicted_probabilities_sum_to_one_and_rejection_is_one(name, two_heaps, posterior_of):
    n_classes, options = OPTIONS[name]
    setting, chains = two_heaps(n_classes, n_samples=10, **options)
    posterior = posterior_of(setting, pooled(chains))
    assert isinstance(posterior, FunctionPosterior)
    assert isinstance(posterior, DensityPosterior)
    proba, rejection = np.exp(posterior.log_proba(EVERYWHERE)), posterior.rejection(EVERYWHERE)
    assert proba.shape == (241, n_classes)
    np.testing.assert_allclose(proba.sum(axis=1), 1.0, atol=1e-12)
    assert np.all(rejection >= 0.0)
    assert np.all(rejection <= 1.0)
    assert np.isfinite(posterior.log_density(EVERYWHERE)).all()


def test_far_away_the_prior_returns(two_heaps, posterior_of):
    setting, chains = two_heaps(2, n_samples=20)
    states = pooled(chains)
    posterior, far = posterior_of(setting, states), np.array([[200.0], [-300.0]])
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    both = np.outer(weights, weights) / weights.sum() ** 2
    sds = [np.exp(0.5 * s.log_parameters[0, 0]) for s in states]
    rejected = [expit(-np.logaddexp.outer(sd * nodes, sd * nodes)) for sd in sds]
    expected = np.mean([np.sum(both * p) for p in rejected])
    np.testing.assert_allclose(posterior.rejection(far), expected, atol=0.01)
    np.testing.assert_allclose(np.exp(posterior.log_proba(far)), 0.5, atol=0.01)
    mean, variance = posterior.latent(far)
    np.testing.assert_allclose(mean, 0.0, atol=1e-9)
    np.testing.assert_allclose(variance, np.mean(np.square(sds)), rtol=1e-6)


def known_state(setting, rejections, u, mixing=NOTHING, variance=4.0, length_scale=1.0):
    theta = np.log([[variance, length_scale]])
    return make_state(setting, rejections, u, theta, mixing)


def test_a_known_row_is_predicted_from_its_functions(posterior_of):
    """One state, no conditional variance but the nugget's: softmax of g, equation 1."""
    rng = np.random.default_rng(17)
    rows, u = np.linspace(-6.0, 6.0, 5)[:, None], rng.normal(size=(7, 3))
    setting = Setting(rows, np.full(5, UNLABELLED), 3, PRIOR, LINE)
    mixing = np.array([0.5, -1.0, 0.3])
    state = known_state(setting, np.array([[-10.0], [10.0]]), u, mixing)
    g = u[:5] @ mixing_matrix(mixing, 3).T
    posterior = posterior_of(setting, [state])
    np.testing.assert_allclose(np.exp(posterior.log_proba(rows)), class_probabilities(g), atol=1e-3)
    np.testing.assert_allclose(
        posterior.rejection(rows), 1.0 / (1.0 + np.exp(g).sum(axis=1)), atol=1e-3
    )
    mean, variance = posterior.latent(rows)
    np.testing.assert_allclose(mean, g, atol=1e-3)
    assert variance.max() < 1e-4


def test_states_count_by_their_weights(posterior_of):
    rng = np.random.default_rng(18)
    rows = np.linspace(-6.0, 6.0, 5)[:, None]
    setting = Setting(rows, np.full(5, UNLABELLED), 2, PRIOR, LINE)
    us = rng.normal(size=(2, 5, 2))
    states = [known_state(setting, rows[:0], u) for u in us]
    posterior = posterior_of(setting, states, np.log([0.2, 0.8]))
    shares, kept = class_probabilities(us), expit(logsumexp(us, axis=2))
    np.testing.assert_allclose(
        np.exp(posterior.log_proba(rows)), 0.2 * shares[0] + 0.8 * shares[1], atol=1e-3
    )
    np.testing.assert_allclose(1.0 - posterior.rejection(rows), [0.2, 0.8] @ kept, atol=1e-3)
    mean, _ = posterior.latent(rows)
    np.testing.assert_allclose(mean, 0.2 * us[0] + 0.8 * us[1], atol=1e-3)


def test_a_chain_s_weight_is_shared_by_its_states(posterior_of):
    setting = Setting(THREE, THREE_CODES, 2, PRIOR, LINE)
    states = [known_state(setting, THREE[:0], np.zeros((3, 2)))] * 4
    posterior = posterior_of(setting, states, chains=np.array([0, 0, 0, 1]))
    weights = np.exp(posterior.weighted(np.array([0.6, 0.4])).log_weights)
    np.testing.assert_allclose(weights, [0.2, 0.2, 0.2, 0.4])


# Joint draws --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["two classes", "three classes, own kernels, dependent"])
def test_the_mean_of_joint_draws_is_the_predicted_probability(name, two_heaps, posterior_of):
    n_classes, options = OPTIONS[name]
    setting, chains = two_heaps(n_classes, n_samples=10, **options)
    rows = np.array([[-1.4], [-0.2], [1.2], [1.6], [30.0]])
    posterior = posterior_of(setting, pooled(chains))
    posterior = posterior.weighted(np.array([1.0]))
    draws = posterior.draws(rows, 4000, np.random.default_rng(0))
    assert draws.shape == (4000, 5, n_classes)
    np.testing.assert_allclose(draws.sum(axis=2), 1.0, atol=1e-12)
    error = draws.std(axis=0) / np.sqrt(4000)
    # Predictions are averages over quasi-random points, good to some thousandths themselves.
    gap = np.abs(draws.mean(axis=0) - np.exp(posterior.log_proba(rows)))
    assert np.all(gap < 5.5 * error + 0.005)


def test_equal_rows_are_equal_in_every_joint_draw(two_heaps, posterior_of):
    setting, chains = two_heaps(3, n_samples=3, **OWN, **DEPENDENT)
    rows = np.array([[0.1], [5.0], [0.1]])
    draws = posterior_of(setting, pooled(chains)).draws(rows, 40, np.random.default_rng(1))
    np.testing.assert_allclose(draws[:, 0], draws[:, 2], atol=1e-3)
    assert np.abs(draws[:, 0] - draws[:, 1]).max() > 0.01


@pytest.mark.parametrize("mixing", [NOTHING, np.array([0.9, -0.5, 1.2])], ids=["u", "A u"])
def test_joint_draws_have_the_joint_covariance_of_the_functions(mixing, posterior_of):
    """Contrasts of the functions, the logarithms of ratios, against the conditional Gaussian."""
    rng = np.random.default_rng(2)
    known, rejections = np.array([[-2.0], [0.0], [1.5]]), np.array([[3.0]])
    setting = Setting(known, np.full(3, UNLABELLED), 3, PRIOR, LINE, dependent=len(mixing) > 0)
    u, rows = rng.normal(size=(4, 3)), np.array([[0.4], [0.7], [2.4]])
    posterior = posterior_of(setting, [known_state(setting, rejections, u, mixing)])
    log_p = np.log(posterior.draws(rows, 20_000, rng))
    contrast = log_p[:, :, 0] - log_p[:, :, 1]  # g_0 − g_1 at the three rows
    C = 4.0 * np.exp(-0.5 * (np.vstack([known, rejections, rows]) - np.vstack(
        [known, rejections, rows]).T) ** 2)  # fmt: skip
    C[:4, :4] += 4e-6 * np.eye(4)
    solved = np.linalg.solve(C[:4, :4], C[:4, 4:]).T
    weights = mixing_matrix(mixing, 3)[0] - mixing_matrix(mixing, 3)[1]
    mean, covariance = solved @ u @ weights, C[4:, 4:] - solved @ C[:4, 4:]
    covariance *= weights @ weights
    n_draws, variance = len(contrast), np.diagonal(covariance)
    assert np.all(np.abs(contrast.mean(axis=0) - mean) < 5.5 * np.sqrt(variance / n_draws))
    found = np.cov(contrast.T)
    error = np.sqrt((np.outer(variance, variance) + covariance**2) / n_draws)
    assert np.all(np.abs(found - covariance) < 5.5 * error)


def test_states_serve_joint_draws_by_their_weights(posterior_of):
    """Rows known to the last digit: a draw is one of the two states' probabilities."""
    rows = np.linspace(-6.0, 6.0, 5)[:, None]
    setting = Setting(rows, np.full(5, UNLABELLED), 2, PRIOR, LINE)
    us = np.random.default_rng(3).normal(size=(2, 5, 2))
    states = [known_state(setting, rows[:0], u) for u in us]
    posterior = posterior_of(setting, states, np.log([0.25, 0.75]))
    draws = posterior.draws(rows, 8, np.random.default_rng(4))
    shares = class_probabilities(us)
    np.testing.assert_allclose(draws[:2], np.stack([shares[0]] * 2), atol=5e-3)
    np.testing.assert_allclose(draws[2:], np.stack([shares[1]] * 6), atol=5e-3)


@pytest.mark.parametrize("n", [1, 3, 50])
def test_joint_draws_are_as_many_as_asked_for_and_the_same_from_the_same_seed(
    n, two_heaps, posterior_of
):
    setting, chains = two_heaps(2, n_samples=4)
    posterior = posterior_of(setting, pooled(chains))  # of eight states
    one, other = (posterior.draws(EVERYWHERE[:3], n, np.random.default_rng(5)) for _ in range(2))
    assert one.shape == (n, 3, 2)
    np.testing.assert_array_equal(one, other)


# Density and fantasies ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["one class", "two classes", "two classes, sampled base density"])
def test_the_predicted_density_integrates_to_one(name, two_heaps, posterior_of):
    n_classes, options = OPTIONS[name]
    setting, chains = two_heaps(n_classes, n_samples=50, **options)
    step = EVERYWHERE[1, 0] - EVERYWHERE[0, 0]
    of_states = np.array(
        [[integral(posterior_of(setting, [s]), step) for s in chain] for chain in chains]
    )
    total = integral(posterior_of(setting, pooled(chains)), step)
    # One state's integral is (n + M)/n times its Z: one on average only.
    assert of_states.std() > 0.05
    assert abs(total - of_states.mean()) < 0.01
    assert abs(of_states.mean() - 1.0) < 5.0 * mcse_mean(of_states) + 0.005


def integral(posterior, step):
    return float(np.exp(posterior.log_density(EVERYWHERE)).sum() * step)


KNOWN = np.linspace(-4.5, 4.5, 91)[:, None]


def two_functions(posterior_of, depth):
    """A state that knows its functions, how often a proposal is kept as either class, and where."""
    x = KNOWN[:, 0]
    u = np.column_stack([2.0 * np.sin(1.5 * x), 1.0 - 0.8 * x]) - depth
    setting = Setting(KNOWN, np.full(len(KNOWN), UNLABELLED), 2, PRIOR, LINE)
    state = known_state(setting, KNOWN[:0], u, length_scale=0.8)
    weight = np.exp(-0.5 * x**2)[:, None] * np.exp(u) / (1.0 + np.exp(u).sum(axis=1))[:, None]
    return posterior_of(setting, [state]), x, weight


@pytest.fixture
def known_everywhere(posterior_of):
    return two_functions(posterior_of, 0.0)


@pytest.fixture
def deep_sea(posterior_of, monkeypatch):
    """So few proposals are kept that no run of the process can be held."""
    monkeypatch.setattr(process, "FEWEST_PROPOSALS", 60)  # it is soon seen
    monkeypatch.setattr(process, "MOST_PROPOSALS", 60)
    return two_functions(posterior_of, 6.0)


@pytest.mark.parametrize("label", [0, 1])
def test_fantasies_of_a_class_have_the_density_of_that_class(label, known_everywhere):
    posterior, x, weight = known_everywhere
    rows, labels = posterior.sample(np.random.default_rng(19), 1000, np.full(1000, label))
    assert rows.shape == (1000, 1)
    assert np.all(labels == label)
    for power in (1, 2):
        values = rows[:, 0] ** power
        expected = x**power @ weight[:, label] / weight[:, label].sum()
        assert abs(values.mean() - expected) < 5.5 * values.std() / np.sqrt(1000)


def test_fantasies_of_any_class_have_the_shares_of_the_classes(known_everywhere):
    posterior, x, weight = known_everywhere
    rows, labels = posterior.sample(np.random.default_rng(20), 1000)
    expected = 1000 * weight.sum(axis=0) / weight.sum()
    assert stats.chisquare(np.bincount(labels, minlength=2), expected).pvalue > 1e-6
    mean = x @ weight.sum(axis=1) / weight.sum()
    assert abs(rows.mean() - mean) < 5.5 * rows.std() / np.sqrt(1000)


@pytest.mark.parametrize("label", [None, 1])
def test_fantasies_come_one_by_one_where_nearly_all_proposals_are_rejected(label, deep_sea):
    posterior, x, weight = deep_sea
    codes = None if label is None else np.full(1000, label)
    rows, labels = posterior.sample(np.random.default_rng(22), 1000, codes)
    assert rows.shape == (1000, 1)
    if label is None:
        expected = 1000 * weight.sum(axis=0) / weight.sum()
        assert stats.chisquare(np.bincount(labels, minlength=2), expected).pvalue > 1e-6
    of_class = weight.sum(axis=1) if label is None else weight[:, label]
    for power in (1, 2):
        values = rows[:, 0] ** power
        expected = x**power @ of_class / of_class.sum()
        assert abs(values.mean() - expected) < 5.5 * values.std() / np.sqrt(1000)


def test_fantasies_that_would_take_too_long_are_refused_with_the_fix(deep_sea, monkeypatch):
    monkeypatch.setattr(prediction, "MOST_PROPOSED", 4096)
    with pytest.raises(TooManyRejections, match=r"of 4096 rows .* Use one nearer to them"):
        deep_sea[0].sample(np.random.default_rng(23), 1000)


def test_fantasies_have_the_classes_asked_for_row_by_row(known_everywhere):
    posterior, x, weight = known_everywhere
    codes = np.tile([1, 0, 0], 300)
    rows, labels = posterior.sample(np.random.default_rng(21), 900, codes)
    np.testing.assert_array_equal(labels, codes)
    for k in (0, 1):
        values = rows[codes == k, 0]
        expected = x @ weight[:, k] / weight[:, k].sum()
        assert abs(values.mean() - expected) < 5.5 * values.std() / np.sqrt(len(values))


def test_no_rows_have_empty_predictions(known_everywhere):
    posterior, nothing = known_everywhere[0], np.zeros((0, 1))
    assert posterior.log_proba(nothing).shape == (0, 2)
    assert posterior.rejection(nothing).shape == posterior.log_density(nothing).shape == (0,)


# A domain that is not a vector space --------------------------------------------------------------


class Hamming(Kernel):
    """exp(−(places where two strings of one length differ) / length_scale)."""

    def __init__(self, length_scale=1.0, length_scale_bounds=(1e-3, 1e3)):
        self.length_scale = length_scale
        self.length_scale_bounds = length_scale_bounds

    @property
    def hyperparameter_length_scale(self):
        return Hyperparameter("length_scale", "numeric", self.length_scale_bounds)

    @property
    def requires_vector_input(self):
        return False

    def __call__(self, X, Y=None, eval_gradient=False):
        Y = X if Y is None else Y
        differ = np.zeros((len(X), len(Y)))
        for i, one in enumerate(X):
            for j, other in enumerate(Y):
                differ[i, j] = sum(a != b for a, b in zip(one, other))
        K = np.exp(-differ / self.length_scale)
        if not eval_gradient:
            return K
        return K, (K * differ / self.length_scale)[:, :, None]

    def diag(self, X):
        return np.ones(len(X))

    def is_stationary(self):
        return False


class RandomStrings:
    """Each of five letters is a, b or c alike."""

    def sample(self, rng, n):
        letters = rng.choice(list("abc"), size=(n, 5))
        return np.array(["".join(word) for word in letters] + [""], dtype=object)[:n]

    def log_density(self, X):
        return np.full(len(X), -5.0 * np.log(3.0))


WORDS = np.array(
    ["aaaaa", "aaaab", "abaaa", "aacaa", "baaaa", "bbbbb", "bbbba", "babbb", "bbcbb", "cbbbb"],
    dtype=object,
)
WORD_CODES = np.array([0, *[UNLABELLED] * 3, 0, 1, *[UNLABELLED] * 3, 1])


def test_strings_come_from_the_prior():
    prior = kernel_prior(ConstantKernel(4.0) * Hamming(2.0), WORDS)
    rows, labels, state = sample_prior(np.random.default_rng(25), prior, RandomStrings(), 8, 2)
    assert rows.shape == (8,)
    assert rows.dtype == object
    assert all(len(word) == 5 and set(word) <= set("abc") for word in rows)
    assert set(labels) <= {0, 1}
    assert state.whitened.shape == (8 + len(state.rejections), 2)


@pytest.mark.parametrize("moves", [sweep.sweep, paper_sweep.sweep])
def test_strings_are_classified_by_a_kernel_of_their_own(moves, posterior_of):
    prior = kernel_prior(ConstantKernel(9.0) * Hamming(2.0), WORDS)._replace(
        sd=np.array([0.3, 0.3])
    )
    setting = Setting(WORDS, WORD_CODES, 2, prior, RandomStrings())
    chain = sampler(setting, sweep=moves, n_clamped=5)
    rng, states = np.random.default_rng(26), []
    state = chain.init(rng)
    for i in range(60):
        state = chain.sweep(rng, state, i < 30)
        states += [state] if i >= 30 else []
    posterior = posterior_of(setting, states)
    proba = np.exp(posterior.log_proba(WORDS))
    labelled = WORD_CODES >= 0
    assert np.all(proba[labelled, WORD_CODES[labelled]] > 0.5)
    assert np.isfinite(posterior.log_density(WORDS)).all()
    # A word of no island is sooner rejected than the words of either.
    new = np.array(["ccccc"], dtype=object)
    assert posterior.rejection(new)[0] > posterior.rejection(WORDS).max() - 0.2
    rows, labels = posterior.sample(rng, 5, np.full(5, 1))
    assert rows.shape == (5,)
    assert np.all(labels == 1)
