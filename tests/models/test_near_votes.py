"""The nearest labels beside a posterior: their shares, and what is said together."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import softmax

from atoll.models.average.near_votes import NearVotes, mixing_shares, weighed_votes


class Constant(NamedTuple):
    """Says the same of every row."""

    said: np.ndarray

    def proba(self, features):
        return np.tile(self.said, (len(features), 1))

    def latent(self, features):
        return np.zeros((len(features), 1)), np.ones((len(features), 1))

    def draws(self, features, n, rng):
        return np.tile(self.proba(features), (n, 1, 1))

    def diagnostics(self, recipe: Any = None):
        return {"mixed": True}


def test_shares_are_the_most_probable_ones():
    p = np.random.default_rng(0).uniform(size=(2, 60))

    def loss(w):
        prior = np.log(w) + np.log1p(-w)  # Dirichlet(2, 2)
        return -np.log(w * p[0] + (1 - w) * p[1]).sum() - prior

    best = minimize_scalar(loss, bounds=(1e-6, 1 - 1e-6), method="bounded").x
    assert mixing_shares(p)[0] == pytest.approx(best, abs=1e-4)


@pytest.mark.parametrize("n_classes", [2, 4])
def test_what_is_said_is_the_mean_of_all_by_their_shares(n_classes):
    rng = np.random.default_rng(n_classes)
    width = 1 if n_classes == 2 else n_classes
    features = rng.standard_normal((9, 2 * width + 3))
    said = rng.dirichlet(np.ones(n_classes))
    votes = NearVotes(Constant(said), np.array([0.5, 0.3, 0.2]), n_classes, 0.5)
    logs = [features[:, i * width : (i + 1) * width] / 0.5 for i in range(2)]
    if n_classes == 2:
        logs = [np.column_stack([np.zeros(9), part]) for part in logs]
    first, second = (softmax(part, axis=1) for part in logs)
    expected = 0.5 * said + 0.3 * first + 0.2 * second
    np.testing.assert_allclose(votes.proba(features), expected, atol=1e-12)
    drawn = votes.draws(features, 10, rng)
    assert drawn.shape == (10, 9, n_classes)
    np.testing.assert_allclose(drawn.mean(axis=0), expected, atol=1e-12)  # 5, 3 and 2 of them
    assert votes.diagnostics()["share_of_near_labels"] == pytest.approx(0.5)


def test_who_foretells_labels_that_nobody_has_seen_has_the_larger_share():
    codes = np.arange(200) % 2
    right = np.where(codes == 1, 3.0, -3.0)
    features = np.column_stack([right, -right, np.zeros(200)])
    found = weighed_votes(Constant(np.array([0.5, 0.5])), 2, 2, 1.0, features, codes)
    assert found.shares[1] > 0.8
    assert found.shares[2] < 0.05
    assert found.shares.sum() == pytest.approx(1.0)
