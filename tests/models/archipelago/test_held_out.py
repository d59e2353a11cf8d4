"""Labels that the engine was not shown: how far its classes can be believed."""

from __future__ import annotations

import numpy as np
import pytest

from atoll.estimators.belief import LEAST_BELIEF
from atoll.models.archipelago.engine import held_out
from atoll.models.archipelago.engine.fitting import Options
from atoll.models.archipelago.engine.problem import Problem
from atoll.models.belief import (
    BELIEFS,
    PRIOR_OF_CHAINS,
    PRIOR_OF_ENGINE,
    PRIOR_OF_VARIATION,
    weigh,
)
from atoll.models.calibration import NEVER, folds


@pytest.mark.parametrize("n_folds", [2, 3, 5])
def test_a_class_keeps_a_label_in_every_fold_and_its_only_one_in_all(n_folds):
    codes = np.array([0] * 7 + [1] * 2 + [2] + [3] * 4)
    fold = folds(np.random.default_rng(0), codes, n_folds)
    assert fold[codes == 2].tolist() == [NEVER]
    for k in (0, 1, 3):
        assert len(np.unique(fold[codes == k])) == min(n_folds, np.sum(codes == k))
        assert (fold[codes == k] != NEVER).all()


@pytest.mark.parametrize("codes", [[0, 1, 2], [0, 0, 0, 1]])
def test_no_label_is_held_out_where_that_would_tell_nothing(codes):
    assert (folds(np.random.default_rng(0), np.array(codes), 3) == NEVER).all()


@pytest.mark.parametrize(("codes", "n_folds"), [([0, 1], 3), ([0, 0, 1, 1], 0), ([0, 0, 1, 1], 1)])
def test_nothing_is_fitted_where_no_label_is_held_out(codes, n_folds, monkeypatch):
    monkeypatch.delattr(held_out.fitting, "fit")
    assert held_out.hold_out(5, some_problem(np.array(codes)), Options(), n_folds) is None


@pytest.mark.parametrize("prior", [PRIOR_OF_ENGINE, PRIOR_OF_CHAINS, PRIOR_OF_VARIATION])
def test_belief_is_the_posterior_mean_over_its_grid(prior):
    rng = np.random.default_rng(3)
    p, codes = rng.dirichlet(np.ones(3), size=9), rng.integers(3, size=9)
    shares = np.array([0.5, 0.3, 0.2])
    joint = [
        before * np.prod([b * p[i, c] + (1 - b) * shares[c] for i, c in enumerate(codes)])
        for b, before in zip(BELIEFS, prior, strict=True)
    ]
    assert prior.sum() == pytest.approx(1.0)
    found = weigh(np.log(p), codes, shares, prior)
    assert found.belief == pytest.approx(np.dot(joint, BELIEFS) / np.sum(joint))
    assert found.log_loss == pytest.approx(-np.mean(np.log(p[np.arange(9), codes])))
    assert found.log_loss_of_shares == pytest.approx(-np.mean(np.log(shares[codes])))
    np.testing.assert_allclose(found.doubt.sum(), 1.0 - found.belief)


def test_an_impossible_label_leaves_the_belief_finite():
    with np.errstate(divide="ignore"):
        found = weigh(np.log([[1.0, 0.0]]), np.array([1]), np.array([0.5, 0.5]), PRIOR_OF_ENGINE)
    assert np.isfinite([found.belief, found.log_loss]).all()
    assert found.belief < LEAST_BELIEF


def test_an_ascent_does_not_see_the_labels_that_it_is_to_predict(monkeypatch):
    """Held-out labels that are wrong change nothing of what is said of them."""
    seen = []

    def fit(seed, problem, options, heard):
        shown = problem.label_weights > 0
        seen.append((shown, problem.codes[shown].tolist(), options.n_starts, len(problem.rows)))
        heard(0, 20, 0.0, 0.0, None)
        return _Found(problem.n_classes)

    class _Found:
        def __init__(self, n_classes):
            self.n_classes, self.posterior = n_classes, self

        def log_proba(self, rows):
            return np.log(np.full((len(rows), self.n_classes), 1.0 / self.n_classes))

    monkeypatch.setattr(held_out.fitting, "fit", fit)
    heard = []
    problem = some_problem(np.array([0, 0, 0, 1, 1, 1]))
    found = held_out.hold_out(
        5, problem, Options(n_starts=4), 3, lambda *numbers: heard.append(numbers)
    )
    assert found.n_labels == 6
    assert heard == [(0, 20), (1, 20), (2, 20)]
    assert sum(~shown for shown, *_ in seen).tolist() == [1] * 6  # each is held out once
    assert all(codes == [0, 0, 1, 1] for _, codes, *_ in seen)
    assert {(n_starts, n_rows) for *_, n_starts, n_rows in seen} == {(1, held_out.MOST_ROWS)}


def some_problem(codes):
    rng = np.random.default_rng(0)
    return Problem(
        rng.normal(size=(len(codes), 2)), codes, np.ones(len(codes)),
        rng.normal(size=(held_out.MOST_ROWS + 5, 2)), 10_000, 2, None, None,
    )  # fmt: skip
