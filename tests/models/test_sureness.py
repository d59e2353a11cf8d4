"""How sure the average should be, by labels that it has not seen."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from atoll import AtollClassifier
from atoll.models.average import pooling, sureness
from atoll.models.average.recipe import AVERAGE_RECIPE


def foretold(seed, n=12, K=3):
    """Probabilities of rows, labels that are drawn from them, counts and shares."""
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.ones(K), n)
    codes = np.array([rng.choice(K, p=row) for row in p])
    return p, codes, rng.random(n), rng.dirichlet(np.full(K, 5.0))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("log_power", "spread"), [(0.0, 0.3), (np.log(1.44), 0.5)])
def test_the_power_is_the_mean_given_the_labels(seed, log_power, spread):
    p, codes, counts, shares = foretold(seed)

    def density(x):
        own = pooling.sharpened(p, shares, np.exp(x))[np.arange(len(codes)), codes]
        return norm.pdf(x, log_power, spread) * np.exp(counts @ np.log(own))

    ends = log_power - 8 * spread, log_power + 8 * spread
    total = quad(density, *ends, epsabs=0, epsrel=1e-11)[0]
    mean = quad(lambda x: x * density(x), *ends, epsabs=1e-14 * total, epsrel=1e-11)[0] / total
    found = sureness.power(p, codes, counts, shares, log_power, spread)
    assert np.log(found) == pytest.approx(mean, abs=1e-6)


def test_labels_that_do_not_count_leave_the_power_as_it_was():
    p, codes, counts, shares = foretold(0)
    found = sureness.power(p, codes, 0.0 * counts, shares, np.log(1.3), 0.4)
    assert found == pytest.approx(1.3)


def separated(seed=None):
    """Three classes by lines through one cloud, or that mean nothing; 36 labels."""
    X = np.random.default_rng(0).standard_normal((250, 4))
    first, second = np.sort(X[:, :3], axis=1)[:, :0:-1].T
    X = X[first > second + 0.5][:100]
    truth = X[:, :3].argmax(axis=1)
    if seed is not None:
        truth = np.random.default_rng(seed).permutation(truth)
    return X, np.where(np.arange(100) < 36, truth, -1)


def before_labels(model):
    return (2.0 - model.weights_["clusters"]) * np.log(AVERAGE_RECIPE.pooled_sharpness)


@pytest.mark.filterwarnings("ignore:AtollClassifier. the labels follow no assumption")
def test_labels_that_are_foretold_make_the_average_surer_and_others_do_not():
    def learnt(seed):
        model = AtollClassifier(random_state=0).fit(*separated(seed))
        return np.log(model.posterior_.sharpness) - before_labels(model)

    assert learnt(None) > 0.0
    assert np.mean([learnt(seed) for seed in range(2)]) < -0.1


def test_the_power_is_learnt_only_where_labels_can_tell():
    X, y = separated()
    plain = AtollClassifier(random_state=0).fit(X, y).posterior_.sharpness
    assert (
        AtollClassifier(random_state=0, labels_chosen=True).fit(X, y).posterior_.sharpness != plain
    )
    noisy = AtollClassifier(random_state=0, label_noise=0.1).fit(X, y)
    assert noisy.posterior_.sharpness == AVERAGE_RECIPE.pooled_sharpness
    two = AtollClassifier(random_state=0).fit(X, np.where(y == 2, -1, y))
    assert two.posterior_.sharpness == 1.0
