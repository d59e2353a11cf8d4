"""Class probabilities that held-out labels temper: the grid written out, limits, and honesty."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import log_softmax, softmax
from scipy.stats import invgamma, norm

from atoll.core.labels import label_folds
from atoll.models.dp_mixture import (
    Mixture,
    Search,
    Tempering,
    climb,
    default_prior,
    e_step,
    expect,
    held_out,
    m_step,
    posterior,
    start_state,
    weigh,
)
from atoll.models.dp_mixture import tempering as module


def written_out(joint, codes, counts, rows):
    """Weights of every (β, ε), and P(c | x) of new rows, one number after the other."""
    shares = (counts + 1) / (counts + 1).sum()

    def probability(row, power, noise):
        with np.errstate(divide="ignore"):
            p = softmax(power * row + (1 - power) * np.log(shares))
        return (1 - noise) * p + noise * shares

    weights, answers = [], []
    for power, of_power in zip(module.POWERS, module.POWER_WEIGHTS):
        for noise, of_noise in zip(module.NOISES, module.NOISE_WEIGHTS):
            likelihood = [probability(row, power, noise)[c] for row, c in zip(joint, codes)]
            weights.append(of_power * of_noise * np.prod(likelihood))
            answers.append([probability(row, power, noise) for row in rows])
    weights = np.array(weights) / np.sum(weights)
    return weights, np.einsum("g,gmc->mc", weights, np.array(answers))


@pytest.mark.parametrize("n_held", [0, 1, 7])
def test_the_average_over_power_and_noise_is_the_sum_written_out(n_held):
    rng = np.random.default_rng(n_held)
    joint, codes = 8 * rng.normal(size=(n_held, 3)), rng.integers(3, size=n_held)
    counts, rows = np.array([4, 1, 2]), 20 * rng.normal(size=(5, 3))
    found = weigh(joint, codes, counts)
    weights, expected = written_out(joint, codes, counts, rows)
    np.testing.assert_allclose(np.exp(found.log_proba(rows)), expected, rtol=1e-12)
    grid = weights.reshape(len(module.POWERS), -1)
    assert found.power == pytest.approx(grid.sum(axis=1) @ module.POWERS, rel=1e-12)
    assert found.noise == pytest.approx(grid.sum(axis=0) @ module.NOISES, rel=1e-12)
    assert found.n_held_out == n_held


def test_probabilities_sum_to_one_however_far_and_without_density():
    found = weigh(np.zeros((0, 2)), np.zeros(0, dtype=int), np.ones(2))
    joint = np.array([[-1e200, -1e199], [-1e15 - 3, -1e15], [0.0, -np.inf], [-5.0, -5.0]])
    p = np.exp(found.log_proba(joint))
    np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=0, atol=1e-12)


def test_the_power_one_alone_is_the_mixture_itself():
    alone = Tempering(np.log([0.3, 0.7]), np.ones(1), np.zeros(1), -np.inf, 1.0, 0.0, 0)
    joint = np.random.default_rng(0).normal(size=(4, 6, 2))
    np.testing.assert_allclose(alone.log_proba(joint), log_softmax(joint, axis=-1), rtol=1e-12)


def test_calibrated_labels_leave_the_mixture_as_it_is():
    rng = np.random.default_rng(1)
    joint = 2 * rng.normal(size=(4000, 2))
    codes = (rng.random(4000) < softmax(joint, axis=1)[:, 1]).astype(int)
    found = weigh(joint, codes, np.array([2000, 2000]))
    assert found.power > 0.95
    assert found.noise < 0.03
    # Odds that are twenty times too large are found out.
    assert weigh(20 * joint, codes, np.array([2000, 2000])).power < 0.12


def test_near_certainties_that_labels_do_not_bear_out_cost_no_more_than_their_shares():
    # Permuted labels, log-odds in the hundreds, 200 draws of 20 labels: the log-loss of new rows.
    rng, excess = np.random.default_rng(2), []
    for _ in range(200):
        codes = rng.permutation(np.repeat([0, 1], 10))
        found = weigh(200 * rng.normal(size=(20, 2)), codes, np.array([10, 10]))
        log_p = found.log_proba(200 * rng.normal(size=(400, 2)))
        excess.append(-log_p[np.arange(400), rng.integers(2, size=400)].mean() - np.log(2))
    assert np.mean(excess) - 5 * np.std(excess) / np.sqrt(200) < 0.03


def test_every_class_keeps_a_label_in_every_fold():
    rng = np.random.default_rng(3)
    for _ in range(200):
        codes = rng.integers(-1, rng.integers(2, 6), size=rng.integers(1, 30))
        folds = label_folds(codes, int(rng.integers(2, 8)), rng)
        held = np.concatenate([*folds, np.zeros(0, dtype=int)])
        assert len(set(held.tolist())) == len(held)
        counts = np.bincount(codes[codes >= 0], minlength=6)
        assert sorted(held) == [i for i, c in enumerate(codes) if c >= 0 and counts[c] > 1]
        for fold in folds:
            assert len(fold) > 0
            left = np.delete(codes, fold)
            assert set(left[left >= 0]) == set(codes[codes >= 0])


def test_held_out_labels_are_those_of_fits_that_did_not_see_them():
    rng = np.random.default_rng(4)
    X = np.concatenate([rng.normal(-2, 1, (15, 2)), rng.normal(2, 1, (15, 2))])
    codes = np.full(30, -1)
    codes[[0, 1, 2, 15, 16]] = [0, 0, 0, 1, 1]
    model = Mixture(2, 3, "full", 1, default_prior(2), 2.0, np.ones(2), "vb")
    search = Search(2, 40, 1e-6, None, 5)

    def stream():
        return np.random.default_rng(7)

    found = held_out(model, X, codes, 1, stream(), search)
    joint, labels = [], []
    for i in np.flatnonzero(codes >= 0):  # as many folds as labels: one at a time
        others = codes.copy()
        others[i] = -1
        fit = climb(model, X, others, stream(), 1, max_iter=40, tol=1e-6)
        fitted = posterior(model, fit.state, np.zeros(2), np.ones(2))
        joint.append(fitted.log_class_joint(X[i : i + 1])[0])
        labels.append(codes[i])
    expected = weigh(np.array(joint), np.array(labels), np.array([3, 2]))
    np.testing.assert_allclose(found.log_weights, expected.log_weights, rtol=1e-10)
    assert found.power == pytest.approx(expected.power, rel=1e-10)


@pytest.mark.parametrize("covariance", ["full", "diagonal"])
def test_the_predictive_density_integrates_mean_and_variance_out(covariance):
    # One component of one feature: ∫∫ N(x; m, v) q(m, v) on a fine grid.
    rng = np.random.default_rng(5)
    X = rng.normal(0.7, 1.3, size=(6, 1))
    model = Mixture(1, 1, covariance, 1, default_prior(1, degrees=2.5), 2.0, np.ones(1), "vb")
    codes = np.zeros(6, dtype=int)
    state = start_state(model, X, codes, rng, 0)
    statistics = expect(e_step(model, state, np.zeros(1), np.ones(1)), X, codes)
    q = m_step(model, statistics, state)
    fitted = posterior(model, q, np.zeros(1), np.ones(1))
    of = q.components
    scale = of.scales.ravel()[0] ** (2 if covariance == "full" else 1)
    variance = invgamma(of.degrees[0] / 2, scale=scale / 2)

    v = np.exp(np.linspace(*np.log(variance.ppf([1e-9, 1 - 1e-7])), 600))[:, None]
    m = np.linspace(-25, 25, 4001)
    of_mean = norm(of.means[0, 0], np.sqrt(v / of.mean_precisions[0])).pdf(m)
    for x in (-3.0, 0.4, 5.0):
        inner = np.trapezoid(norm(m, np.sqrt(v)).pdf(x) * of_mean, m, axis=1)
        exact = np.trapezoid(inner * variance.pdf(v[:, 0]), v[:, 0])
        assert np.exp(fitted.log_density([[x]])[0]) == pytest.approx(exact, rel=1e-4)
