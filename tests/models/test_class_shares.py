"""Tests of what labels alone say of the classes' shares."""

import numpy as np
import pytest

from atoll.models import class_shares


def test_equal_counts_are_equal_shares_and_many_labels_their_own():
    np.testing.assert_allclose(class_shares.given(np.array([4, 4, 4])), 1 / 3)
    np.testing.assert_allclose(class_shares.given(np.array([0, 0])), 1 / 2)
    found = class_shares.given(np.array([2000, 8000]))
    np.testing.assert_allclose(found, [0.2, 0.8], atol=1e-3)
    np.testing.assert_allclose(
        class_shares.given(np.array([10**7, 10**6])), [10 / 11, 1 / 11], 1e-5
    )


@pytest.mark.parametrize("counts", [[2, 3], [5, 0, 1]])
def test_shares_are_the_mean_of_two_beliefs(counts):
    """Either all are the same, or any are as probable: by draws of them."""
    rng, K = np.random.default_rng(0), len(counts)
    drawn = rng.dirichlet(np.ones(K), size=400_000)
    likelihood = np.prod(drawn**counts, axis=1)
    same = (1.0 / K) ** np.sum(counts)
    mean = likelihood @ drawn / len(drawn)
    wanted = (same / K + mean) / (same + likelihood.mean())
    np.testing.assert_allclose(class_shares.given(np.array(counts)), wanted, atol=2e-3)
