"""Polynomials of log Φ and φ/Φ at shifted nodes, against SciPy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import log_ndtr, ndtr

from atoll.core.gaussian import (
    _product_slopes,
    _trapezium,
    expected_product_of_ndtr_slopes,
    log_expected_product_of_ndtr,
)
from atoll.core.node_tables import NodeTables, mass_tables_for


def test_tables_are_right_between_their_points_and_at_their_limits():
    nodes = np.linspace(-8.0, 8.0, 33)
    tables = NodeTables(nodes, -25, 17)
    offsets = np.concatenate([np.random.default_rng(0).uniform(-25, 17, 500), [-25.0, 17.0, 0.0]])
    x = nodes + offsets[:, None]
    log_below, hazard = tables.at(offsets)
    np.testing.assert_allclose(log_below, log_ndtr(x), rtol=1e-10, atol=1e-11)
    expected = np.exp(-0.5 * x**2 - 0.5 * np.log(2 * np.pi) - log_ndtr(x))
    np.testing.assert_allclose(hazard, expected, rtol=1e-9, atol=2e-11)


def test_tables_of_masses_are_right_to_fourteen_decimals():
    offsets = np.random.default_rng(1).uniform(-17, 17, 500)
    (below,) = mass_tables_for(-8.0, 0.5, 33, -17, 17).at(offsets)
    exact = ndtr(np.linspace(-8.0, 8.0, 33) + offsets[:, None])
    np.testing.assert_allclose(below, exact, rtol=0, atol=1e-14)


def test_beyond_the_limits_an_offset_is_the_limit():
    tables = NodeTables(np.array([0.0]), -3, 3)
    here, there = tables.at(np.array([-3.0, 3.0])), tables.at(np.array([-9.0, 1e300]))
    np.testing.assert_array_equal(here, there)


@pytest.mark.parametrize("n_factors", [3, 9, 24])
@pytest.mark.parametrize("spread", [0.0, 0.3, 2.0, 8.0])
def test_slopes_are_those_of_the_finest_rule(n_factors, spread):
    rng = np.random.default_rng(n_factors)
    t = spread * rng.standard_normal((40, n_factors)) + rng.uniform(-2, 4, (40, 1))
    value = log_expected_product_of_ndtr(t)
    found = expected_product_of_ndtr_slopes(t)
    np.testing.assert_allclose(found.value, value, rtol=1e-9, atol=1e-9)
    nudge = 1e-5
    for i in (0, n_factors - 1):
        up, down = t.copy(), t.copy()
        up[:, i] += nudge
        down[:, i] -= nudge
        slope = (log_expected_product_of_ndtr(up) - log_expected_product_of_ndtr(down)) / 2e-5
        np.testing.assert_allclose(found.gradient[:, i], slope, rtol=1e-5, atol=1e-8)


def test_the_trace_of_the_hessian_is_that_of_the_finest_rule():
    t = np.random.default_rng(1).normal(1.0, 1.5, (60, 9))
    nodes, weights = _trapezium(9)
    x = nodes + t[:, :, None]
    below = np.exp(log_ndtr(x))
    terms = [
        np.prod(np.delete(below, i, axis=1), axis=1)
        * np.exp(-0.5 * x[:, i] ** 2)
        / np.sqrt(2 * np.pi)
        for i in range(9)
    ]
    product = below.prod(axis=1)
    expected = product @ (weights * (nodes**2 - 1.0))
    expected -= sum((term * x[:, i]) @ weights for i, term in enumerate(terms))
    mass, _, second = _product_slopes(t)
    np.testing.assert_allclose(mass, product @ weights, atol=1e-12)
    np.testing.assert_allclose(second, expected, atol=1e-10)


@pytest.mark.parametrize("n_factors", [3, 9, 24])
@pytest.mark.parametrize("spread", [0.0, 0.3, 2.0, 8.0])
def test_rough_slopes_have_five_digits(n_factors, spread):
    rng = np.random.default_rng(n_factors)
    t = spread * rng.standard_normal((100, n_factors)) + rng.uniform(-2, 6, (100, 1))
    fine = expected_product_of_ndtr_slopes(t)
    rough = expected_product_of_ndtr_slopes(t, rough=True)
    np.testing.assert_allclose(rough.value, fine.value, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(rough.gradient, fine.gradient, rtol=1e-5, atol=1e-5)
    scale = np.sum(fine.gradient**2, axis=1) + np.sum(fine.gradient, axis=1) ** 2 + 1.0
    np.testing.assert_allclose(rough.curvature / scale, fine.curvature / scale, atol=5e-5)
