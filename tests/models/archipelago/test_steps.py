"""Hamiltonian steps: the coordinates of the functions, and θ given noisy copies of them."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF

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
    variances = 1.0 / state.tuning.mean_precisions(len(places))[:, None]
    u = unwhiten(state.factors, state.whitened)
    return u, kernels, *steps.make_copies(rng, kernels, u, variances)


@pytest.mark.parametrize("own_kernels", [False, True], ids=["shared", "own"])
def test_where_θ_stays_the_functions_stay(own_kernels):
    u, kernels, given, here = copies_of(*prior_state(1, own_kernels=own_kernels))
    found = steps.follow(kernels, given)
    np.testing.assert_allclose(found.u, u, atol=1e-8)
    for known, again in zip(here[1:], found[1:], strict=True):
        np.testing.assert_allclose(known, again, atol=1e-8)


def test_the_noise_that_is_held_is_white_whatever_the_functions():
    """ν and e, drawn given u and z, have their prior where u has its own."""
    rng, setting, state = prior_state(2, "isotropic")
    places = known_rows(setting, state)
    kernels = kernels_at(gram_at_rows(setting, places), state.log_parameters)
    variances = np.linspace(0.5, 3.0, len(places))[:, None]
    squares, products = [], []
    for _ in range(3000):
        u = unwhiten(kernels.factors, rng.standard_normal(state.whitened.shape))
        given, _ = steps.make_copies(rng, kernels, u, variances)
        noise = given.noise / np.sqrt(variances)
        squares.append([np.mean(given.whitened**2), np.mean(noise**2)])
        products.append([np.mean(given.whitened * noise), np.mean(given.copies * noise)])
    for values, exact in ((np.array(squares), 1.0), (np.array(products), 0.0)):
        error = values.std(axis=0) / np.sqrt(len(values))
        assert np.all(np.abs(values.mean(axis=0) - exact) < 5.5 * error)


@pytest.mark.parametrize("own_kernels", [False, True], ids=["shared", "own"])
@pytest.mark.parametrize("kernel", ["isotropic", "ard"])
def test_the_slopes_given_copies_are_those_of_finite_differences(kernel, own_kernels):
    rng, setting, state = prior_state(3, kernel, own_kernels=own_kernels)
    _, kernels, given, _ = copies_of(rng, setting, state)
    rows, places = open_row_factors(setting, state), known_rows(setting, state)
    gram_at = gram_at_rows(setting, places)

    def value(theta, whitened, noise):
        moved = given._replace(whitened=whitened, noise=noise)
        at = steps.follow(kernels_at(gram_at, theta), moved)
        return steps.log_density_given_copies(rows, moved, at)

    theta = kernels.theta + 0.1 * rng.standard_normal(kernels.theta.shape)
    here = (theta, given.whitened, given.noise)
    at = steps.follow(kernels_at(gram_at, theta), given)
    gram_slope = gram_gradient_function(setting.prior, places)
    rounded = steps.rounded(at)
    slopes = steps.slopes_given_copies(rows, given, rounded)
    by_theta = steps.slopes_in_theta(given, at.kernels, rounded, slopes, gram_slope)
    for which, slope in enumerate((by_theta, slopes.by_whitened, slopes.by_noise)):
        for index in np.ndindex(theta.shape if which == 0 else (2, slope.shape[1])):
            shift = [np.zeros_like(part) for part in here]
            shift[which][index] = 1e-5
            ahead = value(*(part + by for part, by in zip(here, shift, strict=True)))
            behind = value(*(part - by for part, by in zip(here, shift, strict=True)))
            assert slope[index] == pytest.approx((ahead - behind) / 2e-5, rel=1e-4, abs=1e-4)


def test_the_functions_coordinates_do_not_depend_on_what_moves():
    """Else a step back would not be the step forth."""
    rng, setting, state = prior_state(4)
    moved = steps.sample_functions(rng, setting, state)
    while np.array_equal(moved.whitened, state.whitened):
        moved = steps.sample_functions(rng, setting, state)
    assert moved.log_parameters[0, 0] != state.log_parameters[0, 0]
    before, after = steps.coordinates_of(setting, state), steps.coordinates_of(setting, moved)
    for one, other in zip(before.roots, after.roots, strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-8, atol=1e-10)


def test_without_many_rejections_the_coordinates_are_white_noise_itself():
    _, setting, state = prior_state(6)
    white = steps.coordinates_of(setting, state._replace(usual_proposals=11.0))
    np.testing.assert_array_equal(white.of_whitened(state.whitened), state.whitened.T)
    np.testing.assert_array_equal(white.whitened(state.whitened.T), state.whitened)


@pytest.mark.parametrize("own_kernels", [False, True], ids=["shared", "own"])
@pytest.mark.parametrize("usual", [11.0, 100.0], ids=["few", "many"])
def test_functions_and_their_prior_are_the_same_in_any_coordinates(usual, own_kernels):
    rng, setting, state = prior_state(5, own_kernels=own_kernels)
    state = state._replace(usual_proposals=usual)
    tuning = state.tuning
    tuning = tuning._replace(of_data=rng.uniform(0.0, 0.2, tuning.of_data.shape))
    state = state._replace(tuning=tuning)
    white, whitened = steps.coordinates_of(setting, state), state.whitened
    coordinates = white.of_whitened(whitened)
    np.testing.assert_allclose(white.whitened(coordinates), whitened, atol=1e-10)
    scales = np.exp(white.amplitudes - 0.5 * state.log_parameters[:, 0])
    exact = unwhiten(state.factors, whitened).T * scales[:, None]
    u = white.functions(coordinates)
    np.testing.assert_allclose(u, exact, atol=1e-10 if usual == 11.0 else 1e-5)
    # The gradient of the prior and of a linear function of u, along a direction.
    linear, along = rng.standard_normal((2, *u.shape))

    def value(shift):
        moved = white.whitened(coordinates + shift * along)
        at = unwhiten(state.factors, moved).T * scales[:, None]
        return -0.5 * np.sum(moved**2) + np.sum(linear * at)

    slope = np.empty_like(u)
    white.slope(coordinates, u, linear, out=slope)
    expected = (value(1e-5) - value(-1e-5)) / 2e-5
    assert float(np.sum(slope * along)) == pytest.approx(expected, rel=1e-5, abs=1e-5)


def functions_density(rng, setting, state):
    """What `sample_functions` moves by, and where it starts."""
    white, prior = steps.coordinates_of(setting, state), setting.prior
    tuned = state.tuning._replace(of_data=rng.uniform(0.0, 0.2, state.tuning.of_data.shape))
    state = state._replace(tuning=tuned)
    v = prior.variance_index
    own = state.log_parameters[:, v] if v is not None else np.zeros(0)
    centre, spread = (prior.mean[v], prior.sd[v]) if v is not None else (0.0, 1.0)
    start = np.concatenate([(own - centre) / spread, white.of_whitened(state.whitened).ravel()])
    rows = open_row_factors(setting, state)
    return steps.FunctionDensity(rows, white, own, centre, spread, start, state.whitened)


@pytest.mark.parametrize(
    "options",
    [{}, {"own_kernels": True}, {"own_kernels": True, "dependent": True}, {"dependent": True}],
    ids=["shared", "own", "own and mixed", "mixed"],
)
@pytest.mark.parametrize("kernel", ["isotropic", RBF(1.0)], ids=["amplitude", "no amplitude"])
@pytest.mark.parametrize("usual", [11.0, 100.0], ids=["few", "many"])
def test_the_slope_of_functions_and_amplitude_is_that_of_their_density(usual, kernel, options):
    rng, setting, state = prior_state(7, kernel, **options)
    state = state._replace(
        usual_proposals=usual, log_parameters=state.log_parameters + 0.3, mixing=state.mixing + 0.5
    )
    target = functions_density(rng, setting, state)
    here = target.start + 0.1 * rng.standard_normal(len(target.start))
    slope, along = target.slopes()(here), rng.standard_normal((6, len(here)))
    for direction in (*along, *np.eye(len(here))[:3]):
        ahead, _ = target.at(here + 1e-5 * direction)
        behind, _ = target.at(here - 1e-5 * direction)
        assert slope @ direction == pytest.approx((ahead - behind) / 2e-5, rel=2e-4, abs=2e-4)


def test_the_density_of_functions_is_the_same_where_the_start_is_found_anew():
    target = functions_density(*prior_state(8))
    known, found = target.at(target.start), target.at(target.start.copy())
    assert found[0] == pytest.approx(known[0], abs=1e-9)
    np.testing.assert_allclose(found[1], known[1], atol=1e-10)


def test_coordinates_are_found_where_single_precision_has_no_factor():
    """One row has nearly all of the variance: I is lost beside Lᵀ W L."""
    _, setting, state = prior_state(9)
    lower = 1e-3 * np.tril(np.ones(state.factors.shape[1:]))
    lower[-1] = 1e6
    weights = np.sqrt(state.tuning.precisions(len(lower))[:, 0])
    square = (weights[:, None] * lower).astype(np.float32)
    with pytest.raises(np.linalg.LinAlgError):
        np.linalg.cholesky(np.eye(len(square), dtype=np.float32) + square.T @ square)
    white = steps.coordinates_of(setting, state._replace(factors=lower[None]))
    coordinates = white.of_whitened(state.whitened)
    np.testing.assert_allclose(white.whitened(coordinates), state.whitened, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("own_kernels", [False, True], ids=["shared", "own"])
def test_many_log_parameters_move_at_once_but_for_the_log_variance(own_kernels):
    """That moves with the functions."""
    rng, setting, state = prior_state(3, own_kernels=own_kernels)
    moved, u = state, unwhiten(state.factors, state.whitened)
    for _ in range(20):
        target = steps.conditional_on_copies(rng, setting, moved)
        moved = steps._all_at_once(rng, target, moved, False)
    apart = np.abs(moved.log_parameters - state.log_parameters)
    np.testing.assert_array_equal(apart[:, 0], np.zeros(len(apart)))
    assert apart[:, 1:].min() > 1e-3
    assert np.abs(unwhiten(moved.factors, moved.whitened) - u).max() > 1e-3
    again = kernels_at(gram_at_rows(setting, known_rows(setting, moved)), moved.log_parameters)
    np.testing.assert_allclose(moved.factors, again.factors, atol=1e-8)


def test_theta_may_go_ten_standard_deviations_and_no_further():
    rng, setting, state = prior_state(5)
    prior = setting.prior._replace(sd=np.array([0.5, 1.0, 4.0]))
    target = steps.conditional_on_copies(rng, setting, state)._replace(
        setting=setting._replace(prior=prior)
    )
    for j, sd in enumerate(prior.sd):
        step = np.zeros_like(state.log_parameters)
        step[0, j] = steps.FARTHEST * sd
        assert target.at(prior.mean + 1.01 * step) is None
        assert target.at(prior.mean + 0.2 * step) is not None


def test_warm_up_finds_the_variances_of_theta_within_limits():
    rng, setting, state = prior_state(6)
    sd = setting.prior.sd
    for share, expected in ((0.8, 0.8), (0.1, steps.LEAST_SPREAD), (3.0, 1.0)):
        seen = []
        for i in range(400):
            theta = setting.prior.mean + share * sd * rng.choice([-1.0, 1.0], size=(1, 3))
            state = steps.tuned(setting, state._replace(log_parameters=theta))
            if i >= 200:
                seen.append(np.sqrt(state.tuning.variances) / sd)
        # Of a sign by lot the variance is the square; fifty states or so count at a time.
        assert np.mean(seen, axis=0) == pytest.approx(np.full((1, 3), expected), rel=0.1)
