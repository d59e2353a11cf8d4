"""Our sweep: renewals, candidates, and the Hamiltonian steps of functions and θ."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from sklearn.gaussian_process.kernels import RBF

from atoll.core.densities import Gaussian, NormalInverseWishart
from atoll.inference import hmc
from atoll.kernels.hyperparameters import kernel_prior
from atoll.models.archipelago import (
    UNLABELLED,
    Setting,
    latent_at,
    paper_sweep,
    process,
    sample_prior,
    steps,
    sweep,
    together,
)
from atoll.models.archipelago.functions import gram_at_rows, kernels_at, unwhiten
from atoll.models.archipelago.state import known_rows, make_state

RATE = 0.3  # of candidates
LINE = Gaussian(np.zeros(1), np.eye(1))
SOME_GAUSSIANS = NormalInverseWishart(np.zeros(1), 3.0, 4.0 * np.eye(1), 6.0)
PRIOR = kernel_prior("isotropic", np.array([[-1.0], [1.0]]))._replace(
    mean=np.array([0.4, -0.3]), sd=np.array([0.4, 0.4])
)
OWN, DEPENDENT = {"own_kernels": True}, {"dependent": True}
THREE = np.array([[-1.2], [0.3], [0.6]])


def finite_differences(function, at, step=1e-5):
    slope = np.empty_like(at)
    for index in np.ndindex(at.shape):
        shift = np.zeros_like(at)
        shift[index] = step
        slope[index] = (function(at + shift) - function(at - shift)) / (2.0 * step)
    return slope


def seen(labels):
    """The first two of the labels."""
    return np.where(np.arange(len(labels)) < 2, labels, UNLABELLED)


# Rejections and candidates ------------------------------------------------------------------------


def test_rejections_that_could_pass_the_most_proposals_have_no_candidates(monkeypatch):
    """Then the most, which is a part of the model, holds whichever of them are rejections."""
    rng = np.random.default_rng(16)
    rows, labels, state = sample_prior(rng, PRIOR, LINE, 8, 2)
    setting = Setting(rows, labels, 2, PRIOR, LINE)
    monkeypatch.setattr(process, "most_proposals", lambda n: n + 3)
    renewed = [
        sweep.refresh_rejections(rng, setting, state, candidate_rate=RATE) for _ in range(200)
    ]
    done = [after for after in renewed if after.n_refused == 0]
    assert {after.candidate_rate for after in done} == {0.0, RATE}
    for after in done:
        assert len(after.rejections) + len(after.candidates) <= 3
        assert len(after.candidates) == 0 or after.candidate_rate == RATE


def test_candidates_that_are_settled_leave_the_functions_as_they_were():
    rng = np.random.default_rng(17)
    rows, labels, state = sample_prior(rng, PRIOR, LINE, 8, 2)
    setting = Setting(rows, labels, 2, PRIOR, LINE)
    for _ in range(20):
        opened = sweep.refresh_rejections(rng, setting, state, candidate_rate=1.0)
        settled = sweep.settle_rejections(rng, setting, opened)
        known = known_rows(setting, opened)[:, 0].tolist()
        kept = [known.index(x) for x in known_rows(setting, settled)[:, 0]]
        assert settled.candidate_rate == len(settled.candidates) == 0
        u = unwhiten(opened.factors, opened.whitened)
        np.testing.assert_allclose(unwhiten(settled.factors, settled.whitened), u[kept], atol=1e-9)


def test_a_renewal_that_is_refused_settles_which_are_the_rejections(monkeypatch):
    rng = np.random.default_rng(18)
    rows, labels, state = sample_prior(rng, PRIOR, LINE, 8, 2)
    setting = Setting(rows, labels, 2, PRIOR, LINE)
    opened = sweep.refresh_rejections(rng, setting, state, candidate_rate=1.0)
    monkeypatch.setattr(process, "most_proposals", lambda n: 3)
    refused = sweep.refresh_rejections(rng, setting, opened, candidate_rate=1.0)
    assert refused.n_refused == 1
    assert refused.candidate_rate == len(refused.candidates) == 0
    assert len(refused.whitened) == 8 + len(refused.rejections)


def test_renewals_given_the_time_leave_the_process_as_it_is():
    """States from the prior are of the process still after them."""
    rng = np.random.default_rng(19)
    found = {False: [], True: []}
    for i in range(600):
        rows, labels, state = sample_prior(rng, PRIOR, LINE, 4, 2)
        if i % 2:
            setting = Setting(rows, labels, 2, PRIOR, LINE)
            for _ in range(3):
                state = sweep.renew_given_time(rng, setting, state)
        u = unwhiten(state.factors, state.whitened)[4:]
        M = len(state.rejections)
        found[bool(i % 2)].append((M, np.abs(state.rejections).sum(), u.sum()))
        assert u.shape == (M, 2)
    for one, other in zip(np.transpose(found[False]), np.transpose(found[True]), strict=True):
        assert stats.mannwhitneyu(one, other).pvalue > 1e-6


def test_renewals_given_the_time_find_the_number_of_rejections():
    """Functions are zero: a proposal in three is rejected, and M is n/2 on average.

    It is negative binomial, with autocorrelation 1/3.
    """
    rng, n, n_renewals = np.random.default_rng(20), 8, 600
    theta = np.array([[np.log(1e-8), 0.0]])
    setting = Setting(LINE.sample(rng, n), np.zeros(n, dtype=np.intp), 2, PRIOR, LINE)
    state = make_state(setting, LINE.sample(rng, 300), np.zeros((n + 300, 2)), theta, np.zeros(0))
    counts = []
    for _ in range(20 + n_renewals):
        before, state = state.rejections, sweep.renew_given_time(rng, setting, state)
        assert not np.isin(state.rejections, before).any()
        counts.append(len(state.rejections))
    error = np.sqrt(n * (1 / 3) / (2 / 3) ** 2 * (1 + 1 / 3) / (1 - 1 / 3) / n_renewals)
    assert abs(np.mean(counts[20:]) - n / 2) < 5.5 * error


def test_a_sea_too_deep_to_reach_the_last_acceptance_ends_no_chain(monkeypatch):
    """Refused runs were an error from some number on; rejections then still change."""
    rng, n = np.random.default_rng(21), 8
    rows, rejections = LINE.sample(rng, n), LINE.sample(rng, 4)
    setting = Setting(rows, np.zeros(n, dtype=np.intp), 2, PRIOR, LINE)
    u, theta = np.full((n + 4, 2), -7.0), np.array([[0.0, 5.0]])
    state = make_state(setting, rejections, u, theta, np.zeros(0))
    monkeypatch.setattr(process, "most_proposals", lambda n: n + 6)
    monkeypatch.setattr(sweep, "MOST_REFUSED", 3 * (n + 6))
    for i in range(60):
        state = sweep.refresh_rejections(rng, setting, state, candidate_rate=RATE)
        assert state.n_refused == min(i + 1, 3)
        assert len(state.rejections) <= 6
        assert state.candidate_rate == len(state.candidates) == 0
        if i < 3:
            assert np.array_equal(state.rejections, rejections)
    assert not np.isin(state.rejections, rejections).any()
    sweep.sweep(rng, setting, state, True)


def test_a_refresh_leaves_the_functions_at_the_data():
    rng = np.random.default_rng(22)
    rows, labels, state = sample_prior(rng, PRIOR, LINE, 8, 2)
    setting = Setting(rows, labels, 2, PRIOR, LINE)
    after = sweep.refresh_rejections(rng, setting, state)
    np.testing.assert_allclose(latent_at(setting, after)[:8], latent_at(setting, state)[:8])


# Functions, and θ with them -----------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, OWN | DEPENDENT], ids=["shared", "own and dependent"])
@pytest.mark.parametrize("prior", ["isotropic", RBF(1.0)], ids=["scaled", "not scaled"])
def test_small_steps_of_functions_and_of_θ_are_all_accepted(options, prior):
    """So the gradients are those of the densities."""
    rng = np.random.default_rng(27)
    prior = PRIOR if prior == "isotropic" else kernel_prior(prior, THREE)
    rows, labels, state = sample_prior(rng, prior, LINE, 6, 2, **options)
    setting = Setting(rows, seen(labels), 2, prior, LINE, **options)
    state = state._replace(
        step_size=hmc.init_step_size(1e-3), parameter_step_size=hmc.init_step_size(1e-3)
    )
    for move in (sweep.sample_functions, sweep.sample_log_parameters):
        for _ in range(10):
            moved = move(rng, setting, state, False)
            assert moved.acceptance > 0.999
            assert not np.array_equal(moved.whitened, state.whitened)


@pytest.mark.parametrize("options", [{}, OWN | DEPENDENT], ids=["shared", "own and dependent"])
@pytest.mark.parametrize("prior", ["isotropic", RBF(1.0)], ids=["scaled", "not scaled"])
def test_slopes_of_θ_together_with_functions_meet_finite_differences(options, prior):
    rng = np.random.default_rng(29)
    prior = PRIOR if prior == "isotropic" else kernel_prior(prior, THREE)
    rows, labels, state = sample_prior(rng, prior, LINE, 6, 2, **options)
    setting = Setting(rows, seen(labels), 2, prior, LINE, **options)
    target, whitened = together.target_of(setting, state), state.whitened.T.copy()
    position = (state.log_parameters - prior.mean) / (together.UNIT * prior.sd)
    by_theta, by_whitened = target.slopes(target.kernels(position), whitened)

    def of_theta(at):
        return target.log_density(target.kernels(at), whitened)

    def of_whitened(at):
        return target.log_density(target.kernels(position), at)

    np.testing.assert_allclose(by_theta, finite_differences(of_theta, position), atol=2e-3)
    np.testing.assert_allclose(by_whitened, finite_differences(of_whitened, whitened), atol=1e-6)
    np.testing.assert_array_equal(
        by_whitened, target.by_whitened(target.kernels(position), whitened)
    )


def test_no_step_of_the_functions_takes_the_amplitude_where_theta_s_step_cannot_start(monkeypatch):
    monkeypatch.setattr(steps, "FARTHEST", 1.0)
    rng = np.random.default_rng(28)
    rows, labels, state = sample_prior(rng, PRIOR, LINE, 6, 2)
    setting = Setting(rows, seen(labels), 2, PRIOR, LINE)
    start = np.array([[PRIOR.mean[0] + 0.9 * PRIOR.sd[0], PRIOR.mean[1]]])
    state = state._replace(log_parameters=start, step_size=hmc.init_step_size(0.5))
    deviations = []
    for _ in range(80):
        moved = sweep.sample_functions(rng, setting, state, False)
        deviations.append((moved.log_parameters[0, 0] - PRIOR.mean[0]) / PRIOR.sd[0])
        sweep.sample_log_parameters(rng, setting, moved, False)
    assert np.max(np.abs(deviations)) <= 1.0
    assert len(np.unique(deviations)) > 20


@pytest.mark.parametrize("moves", [sweep.sweep, paper_sweep.sweep])
def test_a_state_stays_whole_through_sweeps(moves):
    """Its factors and functions are those that its rows and log-parameters give afresh."""
    rng = np.random.default_rng(21)
    rows, labels, state = sample_prior(
        rng, PRIOR, SOME_GAUSSIANS, 6, 2, own_kernels=True, dependent=True
    )
    setting = Setting(rows, labels, 2, PRIOR, SOME_GAUSSIANS, True, True)
    for _ in range(20):
        state = moves(rng, setting, state, True)
        every = known_rows(setting, state)
        assert state.whitened.shape == (len(every), 2)
        fresh = kernels_at(gram_at_rows(setting, every), state.log_parameters).factors
        np.testing.assert_allclose(
            state.factors @ state.factors.swapaxes(1, 2), fresh @ fresh.swapaxes(1, 2), atol=1e-8
        )


@pytest.mark.parametrize("kernel", ["isotropic", RBF(1.0)], ids=["two", "one"])
@pytest.mark.parametrize("options", [{}, OWN | DEPENDENT], ids=["shared", "own and dependent"])
@pytest.mark.parametrize("moves", [sweep.sweep, paper_sweep.sweep, paper_sweep.whitened_sweep])
def test_sweeps_move_all_that_is_unknown(moves, options, kernel, monkeypatch):
    """That the right distribution stays as it is would not tell of what never moves."""
    if moves is not sweep.sweep and options:
        options = OWN  # the paper has no move of the mixing
    monkeypatch.setattr(sweep, "parameter_share", lambda *given: 1.0)
    rng = np.random.default_rng(30)
    prior = PRIOR if kernel == "isotropic" else kernel_prior(kernel, THREE)
    rows, labels, start = sample_prior(rng, prior, SOME_GAUSSIANS, 6, 2, **options)
    setting = Setting(rows, seen(labels), 2, prior, SOME_GAUSSIANS, **options)
    state, n_rejections = start, {len(start.rejections)}
    for _ in range(8):
        state = moves(rng, setting, state, False)
        n_rejections.add(len(state.rejections))
    assert np.all(state.log_parameters != start.log_parameters)
    assert len(state.mixing) == len(start.mixing)
    assert np.all(state.mixing != start.mixing)
    assert np.all(state.whitened[:6] != start.whitened[:6])
    assert np.all(state.base.mean != start.base.mean)
    assert len(n_rejections) > 1


def test_a_slice_moves_its_own_log_parameter_alone():
    rng = np.random.default_rng(31)
    rows, labels, state = sample_prior(rng, PRIOR, LINE, 6, 2, **OWN)
    setting = Setting(rows, seen(labels), 2, PRIOR, LINE, **OWN)
    target = steps.conditional_on_copies(rng, setting, state)
    here = target.at(state.log_parameters)
    for index in np.ndindex(state.log_parameters.shape):
        moved = steps._sliced(rng, target, here, index).kernels.theta != here.kernels.theta
        assert np.argwhere(moved).tolist() == [list(index)]
