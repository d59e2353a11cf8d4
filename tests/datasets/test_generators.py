from __future__ import annotations

import inspect

import numpy as np
import pytest
from scipy import stats

from atoll import datasets
from atoll.datasets import DATASETS, make_crescents, make_pinwheel, make_rings, make_spirals

N_CLASSES = {"pinwheel": 5, "crescents": 2, "rings": 2, "spirals": 2}
N_FEATURES = {"pinwheel": 2, "crescents": 2, "rings": 2, "spirals": 3}


def assert_distributed(sample, distribution):
    """Kolmogorov–Smirnov, with a false-alarm probability of 1e-8 whatever the seed."""
    assert stats.kstest(sample, distribution.cdf).pvalue > 1e-8


def assert_standard_normal_pairs(first, second):
    """Both standard normal, and uncorrelated, with a false-alarm probability below 1e-6."""
    assert_distributed(first, stats.norm())
    assert_distributed(second, stats.norm())
    assert stats.pearsonr(first, second).pvalue > 1e-8


def test_registry_holds_every_generator_by_its_short_name():
    made = {name.removeprefix("make_") for name in datasets.__all__ if name.startswith("make_")}
    assert set(DATASETS) == made == set(N_CLASSES)
    for name, generator in DATASETS.items():
        assert generator is getattr(datasets, f"make_{name}")
        assert {"n_samples", "random_state"} <= set(inspect.signature(generator).parameters)


@pytest.mark.parametrize("name", DATASETS)
@pytest.mark.parametrize("n_samples", [5, 101, 250])
def test_shape_and_balance_of_classes(name, n_samples):
    X, y = DATASETS[name](n_samples, random_state=0)
    assert X.shape == (n_samples, N_FEATURES[name])
    assert X.dtype == np.float64
    assert np.isfinite(X).all()
    assert y.shape == (n_samples,)
    assert y.dtype.kind == "i"
    counts = np.bincount(y)
    assert len(counts) == N_CLASSES[name]
    assert counts.max() - counts.min() <= 1


@pytest.mark.parametrize("name", DATASETS)
def test_default_call_works(name):
    X, y = DATASETS[name]()
    assert len(X) == len(y) == inspect.signature(DATASETS[name]).parameters["n_samples"].default


@pytest.mark.parametrize("name", DATASETS)
def test_same_seed_same_data_and_another_seed_other_data(name):
    first, again = DATASETS[name](60, random_state=3), DATASETS[name](60, random_state=3)
    assert np.array_equal(first[0], again[0])
    assert np.array_equal(first[1], again[1])
    given = DATASETS[name](60, random_state=np.random.default_rng(3))
    assert np.array_equal(first[0], given[0])
    assert not np.array_equal(first[0], DATASETS[name](60, random_state=4)[0])


@pytest.mark.parametrize("name", DATASETS)
def test_a_generator_given_twice_moves_on(name):
    rng = np.random.default_rng(0)
    assert not np.array_equal(
        DATASETS[name](60, random_state=rng)[0], DATASETS[name](60, random_state=rng)[0]
    )


@pytest.mark.parametrize("name", DATASETS)
def test_rows_are_shuffled(name):
    y = DATASETS[name](1000, random_state=5)[1]
    # In random order, two rows that follow each other share a class about one time in K.
    K = N_CLASSES[name]
    share = np.mean(y[1:] == y[:-1])
    assert abs(share - 1 / K) < 6 * np.sqrt((1 / K) * (1 - 1 / K) / 999)


@pytest.mark.parametrize("n_classes", [2, 5, 7])
def test_pinwheel_turned_back_is_normal(n_classes):
    X, y = make_pinwheel(
        4000, n_classes, radial_spread=0.2, tangential_spread=0.15, rate=0.4, random_state=6
    )
    point = X[:, 0] + 1j * X[:, 1]
    turn = 2 * np.pi * y / n_classes + 0.4 * np.exp(np.abs(point))
    straight = point * np.exp(-1j * turn)
    assert_standard_normal_pairs((straight.real - 1) / 0.2, straight.imag / 0.15)


def test_pinwheel_without_tangential_spread_lies_on_its_curves():
    X, y = make_pinwheel(300, 3, radial_spread=0.1, tangential_spread=0.0, random_state=7)
    point = X[:, 0] + 1j * X[:, 1]
    curve = np.abs(point) * np.exp(1j * (2 * np.pi * y / 3 + 0.25 * np.exp(np.abs(point))))
    np.testing.assert_allclose(point, curve, atol=1e-12)


def test_crescents_have_beta_angles_and_normal_radii():
    X, y = make_crescents(4000, noise=0.5, random_state=8)
    upper = np.where(y == 0, 1, -1)[:, None] * X - [2.0, 0.0]
    radius = np.hypot(*upper.T)
    assert_distributed((radius - 5) / 0.5, stats.norm())
    assert_distributed(np.arctan2(upper[:, 1], upper[:, 0]) / np.pi, stats.beta(2.5, 2.5))


def test_crescents_without_noise_lie_on_two_half_circles():
    X, y = make_crescents(200, noise=0.0, random_state=9)
    centre = np.where(y == 0, 2.0, -2.0)
    np.testing.assert_allclose(np.hypot(X[:, 0] - centre, X[:, 1]), 5.0, rtol=1e-12)
    assert (X[y == 0, 1] >= 0).all()
    assert (X[y == 1, 1] <= 0).all()


def test_each_crescent_reaches_into_the_circle_of_the_other():
    X, y = make_crescents(400, noise=0.0, random_state=10)
    assert (np.hypot(X[y == 1, 0] - 2.0, X[y == 1, 1]) < 5).any()
    assert (np.hypot(X[y == 0, 0] + 2.0, X[y == 0, 1]) < 5).any()


@pytest.mark.parametrize("radii", [(2.0, 4.0), (1.0, 3.0, 5.0)])
def test_rings_keep_their_bounds_and_are_uniform_in_radius_and_angle(radii):
    X, y = make_rings(3000, radii=radii, width=0.8, random_state=11)
    excess = np.hypot(*X.T) - np.array(radii)[y]
    assert np.abs(excess).max() <= 0.4 + 1e-12
    assert_distributed(excess, stats.uniform(-0.4, 0.8))
    assert_distributed(np.arctan2(X[:, 1], X[:, 0]), stats.uniform(-np.pi, 2 * np.pi))


def test_default_rings_are_those_of_equations_32_to_34():
    X, y = make_rings(random_state=12)
    radius = np.hypot(*X.T)
    assert len(X) == 1000
    assert 1.5 <= radius[y == 0].min() < radius[y == 0].max() <= 2.5
    assert 3.5 <= radius[y == 1].min() < radius[y == 1].max() <= 4.5


def test_spirals_without_noise_satisfy_equation_36():
    X, y = make_spirals(2000, noise=0.0, random_state=13)
    s = X[:, 2] / (8 * np.pi)
    assert_distributed(s, stats.uniform(0, 2 * np.pi))
    sign = np.where(y == 0, 1, -1)
    np.testing.assert_allclose(X[:, 0], sign * (13 - s) * np.cos(s), atol=1e-9)
    np.testing.assert_allclose(X[:, 1], -sign * (13 - s) * np.sin(s), atol=1e-9)


def test_residuals_of_the_spirals_are_standard_normal():
    # The same seed draws the same s, so the spiral without noise is the mean.
    X, y = make_spirals(3000, random_state=14)
    mean, same = make_spirals(3000, noise=0.0, random_state=14)
    assert np.array_equal(y, same)
    residual = X - mean
    for column in range(3):
        assert_standard_normal_pairs(residual[:, column], residual[:, (column + 1) % 3])


@pytest.mark.parametrize("name", DATASETS)
@pytest.mark.parametrize("n_samples", [1, 0, -3, 10.0, True, None])
def test_n_samples_that_cannot_be_shared_out_is_named(name, n_samples):
    with pytest.raises(ValueError, match=r"n_samples=.*at least \d"):
        DATASETS[name](n_samples)


@pytest.mark.parametrize("n_classes", [1, 0, 2.5, True])
def test_n_classes_below_two_is_named(n_classes):
    with pytest.raises(ValueError, match=r"n_classes=.*at least 2"):
        make_pinwheel(10, n_classes)


@pytest.mark.parametrize(
    ("generator", "arguments", "message"),
    [
        (make_pinwheel, {"radial_spread": -0.1}, "radial_spread=-0.1; give a finite number >= 0"),
        (make_pinwheel, {"tangential_spread": np.nan}, "tangential_spread=nan"),
        (make_pinwheel, {"rate": np.inf}, "rate=inf; give a finite number"),
        (make_crescents, {"noise": -1.0}, "noise=-1.0"),
        (make_spirals, {"noise": np.nan}, "noise=nan"),
        (make_rings, {"width": -1.0}, "width=-1.0"),
        (make_rings, {"width": 5.0}, "width=5.0 is more than twice the smallest"),
        (make_rings, {"radii": (2.0,)}, r"radii=\(2.0,\) has 1 ring"),
        (make_rings, {"radii": (2.0, -1.0)}, "radii=-1.0"),
    ],
)
def test_a_shape_that_cannot_be_drawn_is_named(generator, arguments, message):
    with pytest.raises(ValueError, match=message):
        generator(20, **arguments)
