"""Labels left out of Archipelago's chains: how far its classes can be believed."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from atoll import ArchipelagoClassifier
from atoll.core.labels import parse_labels
from atoll.datasets import hide_labels, make_pinwheel
from atoll.estimators.archipelago_chains import left_out
from atoll.estimators.belief import LEAST_BELIEF, with_doubt
from atoll.estimators.shell import Fit
from atoll.models import class_shares
from atoll.models.belief import PRIOR_OF_CHAINS, HeldOut, weigh

SHORT = {"inference": "mcmc", "base_density": "gaussian", "n_chains": 2, "random_state": 0}
SHORT |= {"n_warmup": 20, "n_samples": 20}


@pytest.fixture
def quietly():
    with pytest.warns(ConvergenceWarning):  # short chains say that they are short
        yield


def test_importance_weights_find_what_draws_without_the_label_would_say():
    """Fifty states stand for the functions, so that every posterior is a sum."""
    rng = np.random.default_rng(0)
    y = np.array([0, 1, 0, 1, 1, -1])
    codes, n = y[:5], len(y)
    states = rng.dirichlet(2.0 * np.ones(2), size=(50, n))  # p_s(row, class)
    log_p = np.log(states[:, np.arange(5), codes])
    exact = np.empty((5, 2))
    for i in range(5):
        others = np.delete(log_p, i, axis=1).sum(axis=1)
        weights = np.exp(others - others.max())
        exact[i] = weights @ states[:, i] / weights.sum()
    posterior = np.exp(log_p.sum(axis=1) - log_p.sum(axis=1).max())
    drawn = rng.choice(50, size=(2, 20_000), p=posterior / posterior.sum())
    chain_weights = np.array([0.3, 0.7])
    found = left_out(
        3, {"row_probabilities": states[drawn]}, chain_weights, parse_labels(y, unlabelled=-1)
    )
    wanted = weigh(np.log(exact), codes, class_shares.given(np.array([2, 3])), PRIOR_OF_CHAINS)
    assert found.log_loss == pytest.approx(wanted.log_loss, abs=0.01)
    assert found.belief == pytest.approx(wanted.belief, abs=0.005)
    assert (found.n_labels, found.error) == (5, wanted.error)
    np.testing.assert_allclose(found.shares, [153 / 322, 169 / 322])


def test_a_chain_that_hardly_allows_a_label_speaks_for_its_absence():
    """The label's probability without it is the harmonic mean of those with it, over all chains."""
    sure, unsure = np.full((10, 4), 0.9), np.full((10, 4), 0.1)
    p = np.stack([sure, unsure])  # (chains, draws, rows), of each row's label
    codes = np.array([0, 0, 1, 1])
    both = np.where(codes[:, None] == [0, 1], p[..., None], 1 - p[..., None])
    found = left_out(3, {"row_probabilities": both}, np.full(2, 0.5), parse_labels(codes))
    assert found.log_loss == pytest.approx(np.log(0.5 / 0.9 + 0.5 / 0.1))
    assert found.error == 1.0


@pytest.mark.parametrize(
    ("y", "n_folds"), [([0, 1, -1], 3), ([0, 0, 1, -1], 3), ([0, 0, 1, 1], 0), ([0, 0, 1, 1], 1)]
)
def test_nothing_is_said_where_no_label_can_be_left_out(y, n_folds):
    labels = parse_labels(y, unlabelled=-1)
    draws = {"row_probabilities": np.full((1, 4, len(y), 2), 0.5)}
    assert left_out(n_folds, draws, np.ones(1), labels) is None


def test_a_label_that_counts_twice_is_as_two():
    rng = np.random.default_rng(0)
    log_p = np.log(rng.dirichlet(np.ones(3), size=8))
    codes, shares = rng.integers(3, size=8), np.array([0.5, 0.3, 0.2])
    counts = rng.integers(1, 4, size=8)
    once = weigh(log_p, codes, shares, PRIOR_OF_CHAINS, counts.astype(float))
    many = weigh(np.repeat(log_p, counts, 0), np.repeat(codes, counts), shares, PRIOR_OF_CHAINS)
    for name in ("belief", "error", "log_loss", "log_loss_of_shares"):
        assert getattr(once, name) == pytest.approx(getattr(many, name))


def test_the_only_label_of_a_class_is_not_left_out():
    labels = parse_labels([0, 0, 1, 1, 2], unlabelled=-1)
    draws = {"row_probabilities": np.full((1, 4, 5, 3), 1 / 3)}
    assert left_out(3, draws, np.ones(1), labels).n_labels == 4


@pytest.mark.usefixtures("quietly")
def test_class_probabilities_are_the_model_s_own_with_some_doubt():
    X, truth = make_pinwheel(18, 3, random_state=1)
    y = hide_labels(truth, per_class=2, random_state=1)
    new = make_pinwheel(8, 3, random_state=2)[0]
    own = ArchipelagoClassifier(n_folds=0, **SHORT).fit(X, y)
    model = ArchipelagoClassifier(**SHORT).fit(X, y)
    doubt = model.posterior_.doubt
    held = model.diagnostics_["held_out"]
    assert 0 < doubt.sum() == pytest.approx(1 - held["belief"])
    assert "held_out" not in own.diagnostics_
    np.testing.assert_allclose(
        model.predict_proba(new), (1 - doubt.sum()) * own.predict_proba(new) + doubt
    )
    unknown = y == -1
    np.testing.assert_allclose(
        model.label_distributions_[unknown],
        (1 - doubt.sum()) * own.label_distributions_[unknown] + doubt,
    )
    drawn, plain = (m.posterior_.draws(new, 5, np.random.default_rng(0)) for m in (model, own))
    np.testing.assert_allclose(drawn, (1 - doubt.sum()) * plain + doubt)
    assert "labels held out in turn" in model.diagnostics_["verdict"]


@pytest.mark.usefixtures("quietly")
def test_one_label_per_class_leaves_class_probabilities_alone():
    X, truth = make_pinwheel(20, 2, random_state=1)
    y = hide_labels(truth, per_class=1, random_state=1)
    model = ArchipelagoClassifier(**SHORT).fit(X, y)
    assert np.sum(model.posterior_.doubt) == 0
    assert "held_out" not in model.diagnostics_


@pytest.mark.parametrize(("belief", "warns"), [(LEAST_BELIEF - 0.01, True), (0.9, False)])
def test_the_verdict_warns_where_most_of_the_word_is_doubted(belief, warns):
    class Posterior:
        def _replace(self, doubt):
            self.doubt = doubt
            return self

    held = HeldOut(belief, np.array([0.5, 0.5]), 4, 0.5, 1.2, 0.7)
    fit = with_doubt(Fit(Posterior(), {"verdict": "It went well."}), held)
    assert ("AtollClassifier" in fit.diagnostics["verdict"]) == warns
    assert len(fit.remarks) == warns
    assert fit.transduction is None
    np.testing.assert_allclose(fit.posterior.doubt, (1 - belief) * held.shares)


@pytest.mark.parametrize("inference", ["mcmc", "vi"])
def test_one_fold_is_refused_since_it_would_leave_no_label_to_learn_from(inference):
    X, y = np.arange(8.0).reshape(4, 2), [0, 0, 1, 1]
    with pytest.raises(ValueError, match="n_folds must be 0, for none, or at least 2, got 1"):
        ArchipelagoClassifier(n_folds=1, inference=inference).fit(X, y)
