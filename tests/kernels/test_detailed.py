"""The squared exponential with detail: its form, its slope, its limits."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from atoll import ArchipelagoClassifier
from atoll.kernels.detailed import DetailedRBF, slope_with_detail, with_detail
from atoll.kernels.hyperparameters import slopes_of
from atoll.kernels.own_gradients import check_own_gradients

X = np.random.default_rng(0).normal(size=(6, 2))


def test_it_is_a_mixture_of_two_squared_exponentials():
    for scale in (0.7, np.array([0.7, 1.9])):
        expected = 0.9 * RBF(scale)(X) + 0.1 * RBF(0.5 * scale)(X)
        np.testing.assert_allclose(DetailedRBF(scale, detail=0.1)(X), expected, atol=1e-14)
        np.testing.assert_allclose(DetailedRBF(scale, detail=0.1)(X, X[:2]), expected[:, :2])


def test_without_detail_it_is_the_squared_exponential():
    np.testing.assert_array_equal(DetailedRBF(0.7, detail=0.0)(X), RBF(0.7)(X))


@pytest.mark.parametrize("scale", [0.7, [0.7, 1.9]])
def test_its_slopes_meet_differences(scale):
    kernel = ConstantKernel(2.0) * DetailedRBF(scale, detail=0.3)
    check_own_gradients(kernel, X)
    found = slopes_of(kernel, X)
    for j, step in enumerate(1e-5 * np.eye(len(kernel.theta))):
        up, down = (kernel.clone_with_theta(kernel.theta + s * step)(X) for s in (1, -1))
        np.testing.assert_allclose(found[:, :, j], (up - down) / 2e-5, atol=1e-8)


def test_the_slope_by_the_squared_exponential_meets_differences():
    e = np.linspace(0.0, 1.0, 7)
    up, down = (with_detail(e + s * 1e-5, 0.3) for s in (1, -1))
    np.testing.assert_allclose(slope_with_detail(e, 0.3), (up - down) / 2e-5, atol=1e-9)


@pytest.mark.parametrize("detail", [-0.1, 5, np.nan])
def test_a_detail_that_is_not_a_share_is_refused(detail):
    with pytest.raises(ValueError, match=r"detail=.* is not a share; give a number from 0 to 1"):
        DetailedRBF(detail=detail)(X)


def test_it_is_cloned_and_shown_with_its_detail():
    kernel = DetailedRBF(2.0, detail=0.25)
    assert clone(kernel) == kernel != DetailedRBF(2.0, detail=0.2)
    assert repr(kernel) == "DetailedRBF(length_scale=2, detail=0.25)"
    assert kernel.clone_with_theta(np.array([0.0])).detail == 0.25


def test_exact_chains_take_it():
    rows = np.r_[X - 3.0, X + 3.0]
    labels = np.full(12, -1)
    labels[[0, 6]] = 0, 1
    model = ArchipelagoClassifier(
        kernel=ConstantKernel(7.0) * DetailedRBF(1.5), base_density="gaussian",
        n_chains=1, n_warmup=30, n_samples=30, random_state=0,
    )  # fmt: skip
    with pytest.warns(UserWarning, match="mixed"):  # so short a chain has not
        model.fit(rows, labels)
    assert isinstance(model.kernel_.k2, DetailedRBF)
    assert (model.predict(rows) == np.repeat([0, 1], 6)).all()
