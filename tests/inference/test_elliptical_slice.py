from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from atoll.diagnostics import geweke_test
from atoll.inference import elliptical_slice

PRIOR_MEAN = np.array([1.0, -2.0])
PRIOR_CHOLESKY = np.array([[1.0, 0.0], [0.8, 0.6]])


def prior_draw(rng):
    return PRIOR_CHOLESKY @ rng.standard_normal(2)


def test_flat_likelihood_leaves_the_prior_invariant():
    """Catches a sampler that is handed the joint, or counts the prior twice."""
    rng = np.random.default_rng(0)
    n = 5000
    ends = np.empty((n, 2))
    for i in range(n):  # independent short runs, each from an exact draw
        x, value = PRIOR_MEAN + prior_draw(rng), 0.0
        for _ in range(3):
            x, value, _ = elliptical_slice.step(
                rng, x, value, lambda x: 0.0, prior_draw(rng), PRIOR_MEAN
            )
        ends[i] = x
    white = np.linalg.solve(PRIOR_CHOLESKY, (ends - PRIOR_MEAN).T)
    assert stats.kstest(white[0], "norm").pvalue > 1e-6
    assert stats.kstest(white[1], "norm").pvalue > 1e-6
    assert abs(np.mean(white[0] * white[1])) < 6 / np.sqrt(n)


@pytest.mark.parametrize("width", [2 * np.pi, 0.8])
def test_geweke_joint_test_with_a_likelihood_that_is_not_gaussian(width):
    """y_i ~ Poisson(exp x_i): prior draws and successive draws agree, whatever the first arc."""

    def sweep(rng, x, y):
        def log_likelihood(x):
            return float(stats.poisson.logpmf(y, np.exp(x)).sum())

        return elliptical_slice.step(
            rng, x, log_likelihood(x), log_likelihood, prior_draw(rng), PRIOR_MEAN, width
        )[0]

    result = geweke_test(
        np.random.default_rng(1),
        sample_prior=lambda rng: PRIOR_MEAN + prior_draw(rng),
        sample_data=lambda rng, x: rng.poisson(np.exp(x)),
        sweep=sweep,
        statistics=lambda x, y: {
            "x0": x[0], "x1": x[1], "x0²": x[0] ** 2, "x0 x1": x[0] * x[1],
            "x0 y0": x[0] * np.log1p(y[0]), "fit": (np.log1p(y[0]) - x[0]) ** 2,
        },
        n_chains=150,
    )  # fmt: skip
    assert result.smallest_adjusted_p_value > 1e-6, str(result)


def test_a_likelihood_left_unfinished_where_it_is_less_than_needed_leaves_the_draws():
    def chain(function, **options):
        rng, x, value = np.random.default_rng(4), np.zeros(3), 0.0
        for _ in range(50):
            x, value, _ = elliptical_slice.step(
                rng, x, value, function, rng.standard_normal(3), **options
            )
        return x

    def exact(x):
        return -8.0 * float(x @ x)

    def unfinished(x, least):
        return exact(x) if exact(x) >= least else -np.inf

    np.testing.assert_array_equal(chain(exact), chain(unfinished, takes_least=True))


def test_a_nan_likelihood_is_never_accepted():
    rng = np.random.default_rng(2)
    x, value = np.zeros(2), 0.0
    for _ in range(200):
        x, value, info = elliptical_slice.step(
            rng, x, value, lambda x: 0.0 if x[0] < 0.5 else np.nan, rng.standard_normal(2)
        )
        assert x[0] < 0.5
        assert info.n_evaluations >= 1


def test_an_adapted_arc_is_accepted_at_once_about_as_often_as_wanted():
    rng = np.random.default_rng(3)

    def log_likelihood(x):  # narrow beside the prior: most of the ellipse is out of reach
        return -0.5 * float(np.sum((x / 0.02) ** 2))

    x, value, width = np.zeros(2), 0.0, elliptical_slice.init_width()
    whole, adapted = [], []
    for i in range(4000):  # an arc that is still moving has another share
        arc = float(np.exp(width.log_width))
        x, value, info = elliptical_slice.step(
            rng, x, value, log_likelihood, rng.standard_normal(2), width=arc
        )
        if i < 3000:
            width = elliptical_slice.adapt_width(width, info)
        else:
            adapted.append(info.n_evaluations)
            _, _, info = elliptical_slice.step(
                rng, x, value, log_likelihood, rng.standard_normal(2)
            )
            whole.append(info.n_evaluations)
    assert 0.25 < np.mean(np.array(adapted) == 1) < 0.55
    assert np.mean(adapted) < 0.5 * np.mean(whole)


def test_where_nothing_else_is_allowed_the_state_stays():
    x = np.array([0.3, -1.0])
    found, value, info = elliptical_slice.step(
        np.random.default_rng(0), x, -2.0, lambda _: -np.inf, np.ones(2), PRIOR_MEAN
    )
    assert found is x
    assert value == -2.0
    assert info.n_evaluations > 20


def test_an_arc_is_at_most_the_whole_ellipse_and_adapts_for_ever():
    at_once = elliptical_slice.EllipticalSliceInfo(1)
    later = elliptical_slice.EllipticalSliceInfo(2)
    width = elliptical_slice.init_width()
    assert elliptical_slice.adapt_width(width, at_once).log_width == np.log(2.0 * np.pi)
    for _ in range(3000):
        width = elliptical_slice.adapt_width(width, later)
    assert np.exp(width.log_width) == pytest.approx(1e-4)
    assert width.n_adapted == 3000
    # Steps up and down balance where 40 in a hundred are accepted; they stay of this length.
    up = elliptical_slice.adapt_width(width, at_once).log_width - width.log_width
    assert up == pytest.approx(0.06)
    longer = width._replace(log_width=0.0)
    down = elliptical_slice.adapt_width(longer, later).log_width
    assert 0.4 * up + 0.6 * down == pytest.approx(0.0, abs=1e-12)
