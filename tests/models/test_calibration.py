"""Probabilities of machines, by labels that they were not shown."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit, logsumexp

from atoll import LaplacianRLSClassifier, LaplacianSVC, TransductiveSVC
from atoll.core.labels import part_of_labels
from atoll.models import class_shares
from atoll.models.calibration import (
    LOG_PRIOR,
    NEVER,
    POWERS,
    SLOPES,
    CalibratedMachine,
    Calibration,
    calibrate,
    choose,
    class_scores,
    held_out_scores,
    partitions,
    weigh,
)

SEEDS = pytest.mark.parametrize("seed", range(4))


class Given:
    """A machine whose decisions are the first column, or the columns."""

    def decide(self, X):
        return X[:, 0] if X.shape[1] == 1 else X


# The grid -----------------------------------------------------------------------------------------


def test_the_prior_is_one_of_a_grid_with_one_point_without_a_machine():
    assert logsumexp(LOG_PRIOR) == pytest.approx(0.0)
    assert SLOPES[0] == 0
    assert POWERS[0] == 1
    assert np.all(SLOPES[1:] > 0)


def test_two_classes_are_the_logistic_function_of_the_decision():
    weights = np.full(len(SLOPES), -np.inf)
    weights[5] = 0.0
    found = Calibration(weights, 2.0, np.log([0.3, 0.7]))
    f = np.array([-3.0, 0.0, 1.5])
    logit = SLOPES[5] * f / 2.0 + POWERS[5] * np.log(0.7 / 0.3)
    np.testing.assert_allclose(np.exp(found.log_proba(f))[:, 1], expit(logit), rtol=1e-12)


@SEEDS
def test_the_posterior_of_the_grid_is_bayes_rule_by_brute_force(seed):
    rng = np.random.default_rng(seed)
    codes = np.array([0, 1, 2, 0, 1, 2, 1])
    decisions = rng.normal(size=(7, 3))
    one = weigh(class_scores(decisions)[None], codes, np.zeros((1, 7), dtype=int))
    shares = np.log(class_shares.given(np.bincount(codes)))
    found = calibrate([one], np.zeros(1), 0, shares)
    centred = decisions - decisions.mean(axis=1, keepdims=True)
    scale = np.sqrt(np.mean((1.5 * centred.max(axis=1)) ** 2))
    joint = []
    for a, c, log_prior in zip(SLOPES, POWERS, LOG_PRIOR):
        p = np.exp(a * centred / scale) * np.exp(shares) ** c
        p /= p.sum(axis=1, keepdims=True)
        joint.append(np.exp(log_prior) * np.prod(p[np.arange(7), codes]))
    np.testing.assert_allclose(np.exp(found.log_weights), joint / np.sum(joint), rtol=1e-8)
    assert found.scale == pytest.approx(scale)


@SEEDS
def test_probabilities_are_the_average_of_their_draws_and_sum_to_one(seed):
    rng = np.random.default_rng(seed)
    weights = rng.normal(size=len(SLOPES))
    calibration = Calibration(weights - logsumexp(weights), 1.3, np.log([0.2, 0.5, 0.3]))
    posterior = CalibratedMachine(Given(), calibration)
    X = 3.0 * rng.normal(size=(5, 3))
    proba = np.exp(posterior.log_proba(X))
    np.testing.assert_allclose(proba.sum(axis=1), 1.0, rtol=0, atol=1e-12)
    # Systematic draws: each state is there as often as its weight asks, but for one draw.
    draws = posterior.draws(X, 20_000, rng)
    assert np.abs(draws.mean(axis=0) - proba).max() <= len(SLOPES) / 20_000


def test_of_two_classes_the_log_odds_grow_with_the_decision_however_large():
    codes = np.array([0, 1, 0, 1])
    one = weigh(class_scores(np.array([-1.0, 1.0, 0.2, 0.3]))[None], codes, np.zeros((1, 4), int))
    found = calibrate([one], np.zeros(1), 0, np.log([0.5, 0.5]))
    f = np.concatenate([-np.geomspace(1e300, 1e-3, 50), np.geomspace(1e-3, 1e300, 50)])
    log_proba = found.log_proba(f)
    assert not np.isnan(log_proba).any()
    odds = log_proba[25:75, 1] - log_proba[25:75, 0]
    assert np.all(np.diff(odds) >= 0)


def test_scaling_the_decisions_changes_nothing():
    rng = np.random.default_rng(0)
    codes, values = np.arange(12) % 3, rng.normal(size=(12, 3))
    fold = (np.arange(12) % 5)[None]
    small, large = (weigh(class_scores(s * values)[None], codes, fold) for s in (1e-6, 1e6))
    np.testing.assert_allclose(small.log_likelihoods, large.log_likelihoods, rtol=1e-9)
    assert large.scale == pytest.approx(1e12 * small.scale)


# Held-out labels ----------------------------------------------------------------------------------


@SEEDS
def test_a_class_is_never_hidden_whole_and_folds_have_its_share(seed):
    rng = np.random.default_rng(seed)
    codes = rng.permutation(np.repeat([0, 1, 2, 3], [1, 2, 5, 12]))
    fold = partitions(rng, codes)
    assert fold.shape == (2, 20)
    assert np.all(fold[:, codes == 0] == NEVER)
    for partition in fold:
        for one in range(5):
            assert set(codes[partition != one]) == {0, 1, 2, 3}
        assert np.ptp(np.bincount(partition[codes == 3], minlength=5)) <= 1


def test_labels_of_one_class_alone_are_not_held_out():
    codes = np.array([0, 0, 0, 1, 2])
    assert np.all(partitions(np.random.default_rng(0), codes) == NEVER)


def test_decisions_beyond_all_numbers_have_probabilities():
    found = Calibration(LOG_PRIOR, 1e-3, np.log([0.5, 0.5]))
    proba = np.exp(found.log_proba(np.array([np.inf, -np.inf, np.nan, 1e308])))
    np.testing.assert_allclose(proba.sum(axis=1), 1.0, rtol=0, atol=1e-12)
    assert proba[0, 1] == proba[1, 0] == proba[3, 1] > 0.8
    assert proba[2, 1] == 0.5


def test_every_label_gets_a_decision_from_a_machine_without_it():
    fold = partitions(np.random.default_rng(0), np.arange(20) % 2)
    shown = []

    def decide(train, test):
        assert not set(train) & set(test)
        assert len(train) + len(test) == 20
        shown.extend(test.tolist())
        return np.where(test % 2 == 1, 1.0, -1.0)

    scores = held_out_scores(decide, fold, 2)
    assert sorted(shown) == sorted(list(range(20)) * len(fold))
    assert np.all(scores[:, 1::2, 1] == 0.5)


def test_of_many_labels_some_are_measured_and_every_class_is_among_them():
    rng = np.random.default_rng(0)
    codes = np.array([*[0] * 700, *[1] * 300, 2])
    some = part_of_labels(rng, codes, 50)
    assert len(np.unique(some)) == 50
    assert set(codes[some]) == {0, 1, 2}
    assert part_of_labels(rng, codes[:40], 50).tolist() == list(range(40))


def test_one_label_a_class_leaves_the_prior():
    codes = np.array([0, 1])
    fold = partitions(np.random.default_rng(0), codes)
    one = weigh(np.zeros((*fold.shape, 2)), codes, fold)
    assert np.isnan(one.error)
    found = calibrate([one], np.zeros(1), 0, np.log(class_shares.given(np.bincount(codes))))
    np.testing.assert_allclose(found.log_weights, LOG_PRIOR, atol=1e-12)


def test_a_lucky_setting_among_many_bears_the_machine_out_less_than_one_alone():
    rng = np.random.default_rng(0)
    codes, fold = np.arange(10) % 2, (np.arange(10) % 5)[None]
    lucky = weigh(class_scores(2.0 * codes - 1.0)[None], codes, fold)
    others = [weigh(class_scores(rng.normal(size=10))[None], codes, fold) for _ in range(99)]
    shares = np.log([0.5, 0.5])
    alone = calibrate([lucky], np.zeros(1), 0, shares)
    among = calibrate([lucky, *others], np.zeros(100), 0, shares)
    assert choose([lucky, *others], np.zeros(100)) == 0
    assert among.log_weights[0] > alone.log_weights[0]
    sure = [np.exp(one.log_proba(np.array([1.0])))[0, 1] for one in (alone, among)]
    assert sure[0] > sure[1] > 0.5


# Humility -----------------------------------------------------------------------------------------


def _excess(machine, seed, n_labels, share):
    """The log-loss of unlabelled rows, less that of the labels' own shares, for random labels."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(160, 3))
    truth = rng.permutation((np.arange(160) < share * 160).astype(int))
    known = np.concatenate(
        [rng.permutation(np.flatnonzero(truth == k))[: round(n_labels * p)]
         for k, p in enumerate((1 - share, share))]
    )  # fmt: skip
    y = np.full(160, -1)
    y[known] = truth[known]
    proba = machine(unlabelled=-1, random_state=seed).fit(X, y).predict_proba(X)[y < 0]
    shares = np.bincount(truth[known]) / len(known)
    hidden = truth[y < 0]
    return -np.log(proba[np.arange(len(hidden)), hidden]).mean() + np.log(shares[hidden]).mean()


@pytest.mark.parametrize(
    "machine",
    [
        LaplacianRLSClassifier,
        TransductiveSVC,
        pytest.param(LaplacianSVC, marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("share", [0.5, 0.2])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_labels_at_random_are_predicted_no_worse_than_by_their_shares(machine, share):
    excess = np.array([_excess(machine, seed, 40, share) for seed in range(4)])
    assert excess.mean() <= 0.15  # single draws: mean .01, standard deviation .05
