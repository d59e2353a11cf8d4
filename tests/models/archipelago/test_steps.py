"""Hamiltonian steps: the coordinates of the functions, and θ given noisy copies of them."""

from __future__ import annotations

import numpy as np
import pytest

from atoll.core.densities import Gaussian
from atoll.kernels.hyperparameters import gram_gradient_function, kernel_prior
from atoll.models.archipelago import UNLABELLED, Setting, sample_prior, steps, sweep
from atoll.models.archipelago.functions import gram_at_rows, kernels_at, unwhiten
from atoll.models.archipelago.joint import open_row_factors
from atoll.models.archipelago.state import known_rows

PLANE = Gaussian(np.zeros(2), np.eye(2))


def prior_state(seed, kernel="ard", **options):
    """Nine rows with two labels, and the state that made them, with rejections and candidates."""
    rng = np.random.default_rng(seed)
    prior = kernel_prior(kernel, PLANE.sample(rng, 50))
    prior = prior._replace(mean=prior.mean - np.eye(len(prior.mean))[0])
    rows, labels, state = sample_prior(rng, prior, PLANE, 9, 2, **options)
    codes = np.where(np.arange(9) < 2, labels, UNLABELLED)
    setting = Setting(rows, codes, 2, prior, PLANE, **options)
    state = sweep.refresh_rejections(rng, setting, state, candidate_rate=0.3)
    return rng, setting, state._replace(usual_proposals=100.0)  # many, for nine rows


def copies_of(rng, setting, state):
    """Copies of a state's functions, with kernels at its log-parameters."""
    places = known_rows(setting, state)
    kernels = kernels_at(gram_at_rows(setting, places), state.log_parameters)
    variances = 1.0 / state.tuning.precisions(len(setting.inputs), len(places))[:, None]
    u = unwhiten(state.factors, state.whitened)
    return u, kernels, steps.make_copies(rng, kernels, u, variances)


@pytest.mark.parametrize("own_kernels", [False, True], ids=["shared", "own"])
def test_where_θ_stays_the_functions_stay(own_kernels):
    u, kernels, given = copies_of(*prior_state(1, own_kernels=own_kernels))
    np.testing.assert_allclose(steps.follow(kernels, given).u, u, atol=1e-8)


def test_the_noise_that_is_held_is_white_whatever_the_functions():
    """ν and e, drawn given u and z, have their prior where u has its own."""
    rng, setting, state = prior_state(2, "isotropic")
    places = known_rows(setting, state)
    kernels = kernels_at(gram_at_rows(setting, places), state.log_parameters)
    variances = np.linspace(0.5, 3.0, len(places))[:, None]
    squares, products = [], []
    for _ in range(3000):
        u = unwhiten(kernels.factors, rng.standard_normal(state.whitened.shape))
        given = steps.make_copies(rng, kernels, u, variances)
        noise = given.noise / np.sqrt(variances)
        squares.append([np.mean(given.whitened**2), np.mean(noise**2)])
        products.append([np.mean(given.whitened * noise), np.mean(given.copies * noise)])
    for values, exact in ((np.array(squares), 1.0), (np.array(products), 0.0)):
        error = values.std(axis=0) / np.sqrt(len(values))
        assert np.all(np.abs(values.mean(axis=0) - exact) < 5.5 * error)


@pytest.mark.parametrize("own_kernels", [False, True], ids=["shared", "own"])
@pytest.mark.parametrize("kernel", ["isotropic", "ard"])
def test_the_slope_given_copies_is_that_of_finite_differences(kernel, own_kernels):
    rng, setting, state = prior_state(3, kernel, own_kernels=own_kernels)
    _, kernels, given = copies_of(rng, setting, state)
    rows, places = open_row_factors(setting, state), known_rows(setting, state)
    gram_at = gram_at_rows(setting, places)

    def value(theta):
        at = steps.follow(kernels_at(gram_at, theta), given)
        return steps.log_density_given_copies(rows, given, at)

    theta = kernels.theta + 0.1 * rng.standard_normal(kernels.theta.shape)
    at = steps.follow(kernels_at(gram_at, theta), given)
    slope = steps.slope_given_copies(rows, given, at, gram_gradient_function(setting.prior, places))
    for index in np.ndindex(theta.shape):
        shift = np.zeros_like(theta)
        shift[index] = 1e-5
        difference = (value(theta + shift) - value(theta - shift)) / 2e-5
        assert slope[index] == pytest.approx(difference, rel=1e-4, abs=1e-4)


def test_the_functions_coordinates_do_not_depend_on_what_moves():
    """Else a step back would not be the step forth."""
    rng, setting, state = prior_state(4)
    moved = steps.sample_functions(rng, setting, state)
    while np.array_equal(moved.whitened, state.whitened):
        moved = steps.sample_functions(rng, setting, state)
    assert moved.log_parameters[0, 0] != state.log_parameters[0, 0]
    for before, after in zip(
        steps._preconditioner(setting, state), steps._preconditioner(setting, moved), strict=True
    ):
        np.testing.assert_allclose(after, before, rtol=1e-8, atol=1e-10)


def test_without_many_rejections_the_coordinates_are_white_noise_itself():
    _, setting, state = prior_state(6)
    assert steps._preconditioner(setting, state._replace(usual_proposals=18.0)) == []
    np.testing.assert_array_equal(steps._whitened_by([], state.whitened), state.whitened)


def test_coordinates_and_whitened_functions_are_each_other_s_inverse():
    _, setting, state = prior_state(5, own_kernels=True)
    roots = steps._preconditioner(setting, state)
    back = steps._whitened_by(roots, steps._coordinates_by(roots, state.whitened))
    np.testing.assert_allclose(back, state.whitened, atol=1e-10)
