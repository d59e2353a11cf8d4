"""The cone of labels: differences of functions, there and back."""

from __future__ import annotations

import numpy as np
import pytest

from atoll.likelihoods import argmax
from atoll.models.label_cone import label_cone


def cone_of(n_classes, codes=None, precision=np.float64):
    half = np.random.default_rng(n_classes).standard_normal((5, 7))
    lower = np.linalg.cholesky(half @ half.T / 7)
    codes = np.arange(5) % n_classes if codes is None else np.array(codes)
    return label_cone(lower, codes, n_classes, precision)


CONES = [(2, None), (2, [1, 1, 1, 1, 1]), (3, None), (4, None), (4, [0, 0, 2, 2, 2])]


@pytest.mark.parametrize(("n_classes", "codes"), CONES)
def test_differences_are_positive_where_functions_give_the_labels(n_classes, codes):
    cone = cone_of(n_classes, codes)
    rng = np.random.default_rng(0)
    f = rng.standard_normal((4000, 1 if n_classes == 2 else n_classes, 5))
    right = (argmax.classes_of(f.transpose(0, 2, 1)) == cone.codes).all(axis=1)
    assert right.any()
    np.testing.assert_array_equal((cone.differences(f) > 0).all(axis=1), right)


@pytest.mark.parametrize(("n_classes", "codes"), CONES)
def test_mirrors_are_rows_of_the_covariance_of_differences(n_classes, codes):
    cone = cone_of(n_classes, codes)
    F = 1 if n_classes == 2 else n_classes
    of_units = cone.differences(np.eye(F * 5).reshape(-1, F, 5)).T  # differences as a matrix
    covariance = of_units @ np.kron(np.eye(F), cone.lower @ cone.lower.T) @ of_units.T
    expected = 2.0 * covariance / np.diagonal(covariance)[:, None]
    np.testing.assert_allclose(cone.mirrors, expected, atol=1e-12)


@pytest.mark.parametrize(("n_classes", "codes"), CONES)
def test_functions_have_their_differences_and_the_prior_s_mean(n_classes, codes):
    cone = cone_of(n_classes, codes)
    F = 1 if n_classes == 2 else n_classes
    rng = np.random.default_rng(1)
    prior = cone.lower @ rng.standard_normal((60_000, F, 5, 1))
    differences = cone.differences(prior[..., 0])
    f = cone.functions(rng, differences)
    assert f.shape == (60_000, 5, F)
    np.testing.assert_allclose(cone.differences(f.transpose(0, 2, 1)), differences, atol=1e-12)
    # Without labels they are the prior's, and independent from class to class.
    flat = f.reshape(len(f), -1)
    V = np.kron(cone.lower @ cone.lower.T, np.eye(F))
    error = np.sqrt((V**2 + np.outer(np.diagonal(V), np.diagonal(V))) / len(f))
    assert (np.abs(flat.T @ flat / len(f) - V) < 6.0 * error).all()


@pytest.mark.parametrize("precision", [np.float32, np.float64])
@pytest.mark.parametrize(("n_classes", "codes"), CONES)
def test_every_move_stays_inside_and_in_its_precision(n_classes, codes, precision):
    cone, rng = cone_of(n_classes, codes, precision), np.random.default_rng(2)
    here = cone.start(30)
    for _ in range(3):
        here = cone.move(rng, here)
        assert (here > 0).all()
    f = cone.functions(rng, here)
    assert here.dtype == f.dtype == cone.leads(here).dtype == precision
    assert (argmax.classes_of(f) == cone.codes).all()
    assert cone.leads(here).shape == (30, 1 if n_classes == 2 else len(np.unique(cone.codes)))
