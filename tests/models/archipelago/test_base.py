"""Base densities: which is taken, and when a mixture is not."""

from __future__ import annotations

import numpy as np
import pytest

from atoll.core.densities import (
    Blurred,
    Gaussian,
    NormalInverseWishart,
    StudentT,
    WithConstants,
    fit_gaussian,
)
from atoll.models.archipelago import acceptance_remark, base, choose_base
from atoll.models.archipelago.base import MIXTURE_GAIN, gain, mixture_of_width

HEAPS = np.repeat([[0.0, 0.0], [40.0, 0.0], [0.0, 40.0]], 14, axis=0)
HEAPS = HEAPS + np.random.default_rng(0).normal(size=HEAPS.shape)


@pytest.mark.parametrize(
    ("name", "kind"),
    [("gaussian", Gaussian), ("student-t", StudentT), ("sampled-gaussian", NormalInverseWishart)],
)
def test_a_name_is_a_density(name, kind):
    density, reason = choose_base(name, HEAPS)
    assert isinstance(density, kind)
    assert reason == "as asked for"


@pytest.mark.slow
def test_a_gaussian_is_taken_where_it_is_near_enough_and_a_mixture_where_it_is_not():
    density, reason = choose_base("auto", HEAPS)
    assert not isinstance(density, Gaussian)
    assert reason.startswith("a mixture of Gaussians")
    density, reason = choose_base("auto", HEAPS[:14])
    assert isinstance(density, Gaussian)


def test_a_mixture_that_holds_its_own_rows_alone_is_not_taken():
    """Rows of one Gaussian in many columns: components that shrink onto single rows."""
    wide = np.random.default_rng(0).standard_t(4, size=(65, 13))
    on_its_own_rows = gain(mixture_of_width(wide, 1.0), fit_gaussian(wide), wide).mean()
    assert on_its_own_rows > MIXTURE_GAIN
    density, reason = choose_base("auto", wide)
    assert isinstance(density, Gaussian)
    assert reason.startswith("one Gaussian")


@pytest.mark.parametrize(("n_features", "kind"), [(1, Blurred), (2, Blurred), (3, StudentT)])
def test_chains_take_the_blurred_rows_with_few_features_and_a_t_with_more(n_features, kind):
    X = np.random.default_rng(2).normal(size=(40, n_features))
    density, reason = choose_base("auto", X, usual="by features")
    assert isinstance(density, kind)
    assert reason.startswith("a t" if kind is StudentT else "the rows, blurred")
    assert isinstance(choose_base("auto", X)[0], Gaussian)


def test_a_constant_column_stays_constant():
    X = np.column_stack([HEAPS, np.full(len(HEAPS), 3.0)])
    density, _ = choose_base("gaussian", X)
    assert isinstance(density, WithConstants)
    assert np.all(density.sample(np.random.default_rng(1), 5)[:, 2] == 3.0)


def test_a_base_density_far_from_the_data_is_remarked_on():
    assert acceptance_remark(np.full(10, 5), n=20) == ""
    assert "one proposal in 31 is kept" in acceptance_remark(np.full(10, 600), n=20)
    near = acceptance_remark(np.repeat([5, 970], [9, 1]), n=20)  # 1000 proposals at most
    assert "10% of the draws have nearly as many rejections as the model allows (980)" in near


def test_a_density_does_not_depend_on_the_unit_of_a_column():
    X = np.random.default_rng(2).normal(size=(40, 2))
    units = np.array([1.0, 2.0**-10])
    for name in ("gaussian", "student-t"):
        plain, small = choose_base(name, X)[0], choose_base(name, units * X)[0]
        np.testing.assert_allclose(
            small.log_density(units * X[:5]) - 10 * np.log(2.0), plain.log_density(X[:5]), 1e-5
        )


def test_widths_are_compared_on_rows_that_were_left_out(monkeypatch):
    fitted, judged = [], []

    def keep_rows(rest, width):
        fitted.append(rest)
        return width

    def keep_left(width, gaussian, left):
        judged.append(left)
        np.testing.assert_allclose(gaussian.mean, fitted[-1].mean(axis=0))
        return np.full(len(left), -width)

    monkeypatch.setattr(base, "mixture_of_width", keep_rows)
    monkeypatch.setattr(base, "gain", keep_left)
    best, mean_gain = base._best_width(HEAPS)
    assert best == -mean_gain == min(base.COMPONENT_WIDTHS)
    order = np.lexsort(HEAPS.T)
    for rest, left in zip(fitted, judged):
        both = np.concatenate([rest, left])
        assert len(left) < len(rest)
        np.testing.assert_array_equal(both[np.lexsort(both.T)], HEAPS[order])
