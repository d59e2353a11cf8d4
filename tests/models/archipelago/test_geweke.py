"""Geweke's joint test of every move of both sweeps, and of the natural mistake."""

from __future__ import annotations

import numpy as np
import pytest

from atoll.core.densities import Gaussian, NormalInverseWishart
from atoll.diagnostics import geweke_test
from atoll.inference import hmc
from atoll.kernels.hyperparameters import kernel_prior
from atoll.models.archipelago import (
    UNLABELLED,
    Setting,
    latent_at,
    outcomes_at,
    paper_sweep,
    sample_prior,
    steps,
    sweep,
)
from atoll.models.archipelago.functions import unwhiten
from atoll.models.archipelago.process import Run, run_forward
from atoll.models.archipelago.state import current_base, known_functions, make_state

RATE = 0.3  # of candidates
LINE = Gaussian(np.zeros(1), np.eye(1))
SOME_GAUSSIANS = NormalInverseWishart(np.zeros(1), 3.0, 4.0 * np.eye(1), 6.0)
# log variance and log length-scale of a variance × RBF kernel on the line
PRIOR = kernel_prior("isotropic", np.array([[-1.0], [1.0]]))._replace(
    mean=np.array([0.4, -0.3]), sd=np.array([0.4, 0.4])
)


def seen(labels):
    """The first two of the labels."""
    return np.where(np.arange(len(labels)) < 2, labels, UNLABELLED)


def run_geweke(
    move, *, base=LINE, own_kernels=False, dependent=False, prior=PRIOR, n=5,
    usual=1.5, n_chains=100, n_steps=8, n_marginal=2000, seed=1,
):  # fmt: skip
    """Parameters are the setting, the state and, of a fresh prior draw, its own data.

    The usual number of proposals, for each row of the data, is given as warm-up would have found
    it: moves are chosen by it, and a choice by the state itself would not keep the distribution.

    Data given a state: the process is run forward from all that is known of the functions, and
    the rows it accepts are the new data, with the functions there.
    """

    def draw_prior(rng):
        rows, labels, state = sample_prior(
            rng, prior, base, n, 2, own_kernels=own_kernels, dependent=dependent
        )
        setting = Setting(rows, seen(labels), 2, prior, base, own_kernels, dependent)
        u = unwhiten(state.factors, state.whitened)[:n]
        return setting, state, (rows, labels, u)

    def sample_data(rng, parameters):
        setting, state, fresh = parameters
        if fresh is not None:
            return fresh
        density = current_base(setting, state)
        history = run_forward(rng, setting, known_functions(setting, state), density, Run(n))
        accepted = history.outcomes >= 0
        return history.rows[accepted], history.outcomes[accepted], history.u[accepted]

    def one_sweep(rng, parameters, data):
        setting, state, _ = parameters
        rows, labels, u = data
        u_known = unwhiten(state.factors, state.whitened)
        u_rejected = u_known[n : n + len(state.rejections)]
        setting = setting._replace(inputs=rows, codes=seen(labels))
        u = np.concatenate([u, u_rejected])
        state = make_state(
            setting, state.rejections, u, state.log_parameters, state.mixing, state.base
        )
        state = state._replace(
            step_size=hmc.init_step_size(0.5), parameter_step_size=hmc.init_step_size(0.3),
            usual_proposals=usual * n,
        )  # fmt: skip
        return setting, move(rng, setting, state), None

    def statistics(parameters, data):
        setting, state, _ = parameters
        rows, labels, _ = data
        g, M = latent_at(setting, state), len(state.rejections)
        of_label = g[[0, 1], labels[:2]]
        named = {
            "M": M, "|M - 4|": abs(M - 4), "g": g[:n].mean(), "g²": (g[:n] ** 2).mean(),
            "g of the label": of_label.mean(), "g0 g2": g[0, 0] * g[2, 0],
            "contrast": (g[3, 0] - g[3, 1]) ** 2, "log Λ": np.logaddexp(*g[2]),
            "log-likelihood": outcomes_at(setting, state).total(g),
            "x² g": rows[3, 0] ** 2 * g[3, 0],
            "rejected x²": np.mean(state.rejections**2) if M else 1.0,
            "rejected g": g[n:].mean() if M else 0.0,
            "rejected g²": np.mean(g[n:] ** 2) if M else 1.0,
            "rejected x times x": state.rejections.mean() * rows.mean() if M else 0.0,
        }  # fmt: skip
        deviation = (state.log_parameters - prior.mean) / prior.sd
        for f, j in np.ndindex(deviation.shape):
            value = deviation[f, j]
            named |= {f"θ{f}{j}": value, f"θ{f}{j}²": value**2}
            named[f"θ{f}{j} g²"] = value * np.mean(g[:n, f] ** 2)
        if len(state.mixing) > 0:
            w = state.mixing[0]
            named |= {"w": w, "w²": w**2, "w g g": w * np.mean(g[:n, 0] * g[:n, 1])}
        if isinstance(base, NormalInverseWishart):
            mean, sd = state.base.mean[0], state.base.lower[0, 0]
            named |= {"mean": mean, "mean²": mean**2, "sd": sd, "sd²": (sd - 1.0) ** 2}
            named |= {"mean x": mean * rows.mean(), "sd x²": sd * np.mean(rows**2)}
            if M > 0:
                far = np.mean((state.rejections - mean) ** 2) / sd**2
                named |= {"rejected x": (state.rejections.mean() - mean) / sd, "far": far}
            else:
                named |= {"rejected x": 0.0, "far": 1.0}
        return named

    return geweke_test(
        np.random.default_rng(seed), draw_prior, sample_data, one_sweep, statistics,
        n_chains=n_chains, n_steps=n_steps, n_marginal=n_marginal,
    )  # fmt: skip


def our_sweep(rng, setting, state):
    return sweep.sweep(rng, setting, state, False)


def our_functions(rng, setting, state):
    return sweep.sample_functions(rng, setting, state, False)


def parameters_together(rng, setting, state):
    """As where rejections are few."""
    return steps._with_functions(rng, setting, state, False)


def parameters_by_slices(rng, setting, state):
    """As where rejections are many."""
    target = steps.conditional_on_copies(rng, setting, state)
    return steps._slice_by_slice(rng, target, state)


def parameters_at_once(rng, setting, state):
    """Few log-parameters by the step of many."""
    target = steps.conditional_on_copies(rng, setting, state)
    return steps._all_at_once(rng, target, state, False)


def with_candidates(move):
    """Rejections and candidates; a move, while it is open which is which; and which they are."""

    def moves(rng, setting, state):
        for _ in range(2):
            state = sweep.refresh_rejections(rng, setting, state, candidate_rate=RATE)
            state = sweep.settle_rejections(rng, setting, move(rng, setting, state))
        return state

    return moves


def nothing_else(rng, setting, state):
    return state


def repeated(move, times):
    """A small move several times over: an error grows before the data are renewed."""

    def moves(rng, setting, state):
        for _ in range(times):
            state = move(rng, setting, state)
        return state

    return moves


def paper_function(rng, setting, state):
    return paper_sweep.sample_function(rng, setting, state, int(rng.integers(2)), False)


def paper_parameters(rng, setting, state):
    return paper_sweep.sample_log_parameters(rng, setting, state, False)


def papers_sweep(rng, setting, state):
    return paper_sweep.sweep(rng, setting, state, False)


def whitened_paper_sweep(rng, setting, state):
    return paper_sweep.whitened_sweep(rng, setting, state, False)


def forgetful_refresh(rng, setting, state):
    """The natural mistake: the old rejections are forgotten before the new ones are drawn."""
    n = len(setting.inputs)
    forgotten = state._replace(
        rejections=state.rejections[:0],
        whitened=state.whitened[:n],
        factors=state.factors[:, :n, :n],
    )
    return sweep.refresh_rejections(rng, setting, forgotten)


FEW, MANY = {"usual": 1.1}, {"usual": 2.5}  # rejections
OWN, DEPENDENT, NIW = {"own_kernels": True}, {"dependent": True}, {"base": SOME_GAUSSIANS}
# Functions so small that M varies little by them: an error in its own move stands out.
QUIET = PRIOR._replace(mean=np.array([-2.0, -0.3]))
GEWEKE = {
    "rejections": (sweep.refresh_rejections, {}),
    "rejections, own kernels": (sweep.refresh_rejections, OWN | DEPENDENT),
    "rejections, with candidates": (with_candidates(nothing_else), {}),
    "functions": (our_functions, FEW),
    "functions, in white coordinates": (our_functions, {}),
    "functions, in white coordinates, own kernels and dependent": (our_functions, OWN | DEPENDENT),
    "functions, with candidates": (with_candidates(our_functions), FEW),
    "functions, own kernels and dependent": (our_functions, OWN | DEPENDENT | FEW),
    "log-parameters": (sweep.sample_log_parameters, {}),
    "log-parameters, together with functions": (parameters_together, {}),
    "log-parameters, together with functions, own kernels and dependent": (
        parameters_together,
        OWN | DEPENDENT,
    ),
    "log-parameters, by slices": (parameters_by_slices, {}),
    "log-parameters, by slices, own kernels and dependent": (
        parameters_by_slices,
        OWN | DEPENDENT,
    ),
    "log-parameters, at once": (parameters_at_once, {}),
    "log-parameters, at once, own kernels and dependent": (parameters_at_once, OWN | DEPENDENT),
    "base density": (
        sweep.sample_base,
        {"base": SOME_GAUSSIANS._replace(strength=1.0), "n_chains": 250, "n_steps": 5},
    ),
    "mixing": (sweep.sample_mixing, DEPENDENT),
    # The first sweep of two has no candidates yet.
    "sweep": (repeated(our_sweep, 2), {}),
    "sweep, few rejections": (repeated(our_sweep, 2), FEW),
    "sweep, many rejections": (repeated(our_sweep, 2), MANY),
    "sweep, sampled base density": (repeated(our_sweep, 2), NIW),
    "sweep, own kernels": (repeated(our_sweep, 2), OWN),
    "sweep, dependent": (repeated(our_sweep, 2), DEPENDENT),
    "paper's births and deaths": (
        repeated(paper_sweep.add_or_remove, 10),
        {"prior": QUIET, "n_chains": 150, "n_marginal": 3000},
    ),
    "paper's relocation": (repeated(paper_sweep.relocate, 3), {}),
    "paper's function": (paper_function, {}),
    "paper's log-parameters": (paper_parameters, {}),
    "paper's log-parameters, whitened": (
        paper_sweep.sample_whitened_log_parameters,
        OWN | DEPENDENT,
    ),
    "paper's sweep": (papers_sweep, {}),
    "paper's sweep, all options": (papers_sweep, OWN | DEPENDENT | NIW),
    "paper's sweep, whitened log-parameters": (whitened_paper_sweep, {}),
}
IN_THE_FAST_SUITE = (
    "rejections, with candidates", "functions, in white coordinates",
    "log-parameters, together with functions", "log-parameters, by slices",
    "log-parameters, at once", "mixing", "sweep",
)  # fmt: skip


@pytest.mark.parametrize("name", IN_THE_FAST_SUITE)
def test_geweke_joint_test_of(name):
    move, options = GEWEKE[name]
    result = run_geweke(move, **options)
    assert result.smallest_adjusted_p_value > 1e-6, str(result)


@pytest.mark.slow
@pytest.mark.parametrize("name", GEWEKE)
def test_geweke_joint_test_with_long_chains_of(name):
    move, options = GEWEKE[name]
    longer = {"n_chains": 200, "n_steps": 25, "n_marginal": 6000, "seed": 2}
    result = run_geweke(move, **(options | longer))
    assert result.smallest_adjusted_p_value > 1e-6, str(result)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("refresh", "is_right"), [(sweep.refresh_rejections, True), (forgetful_refresh, False)]
)
def test_geweke_catches_old_rejections_that_are_forgotten_before_drawing(refresh, is_right):
    """Functions large and short: much of what makes a rejection is known from rejections alone."""

    def move(rng, setting, state):
        for _ in range(2):
            state = our_functions(rng, setting, refresh(rng, setting, state))
        return state

    short = PRIOR._replace(mean=np.array([2.0, -2.0]), sd=np.array([0.3, 0.3]))
    result = run_geweke(move, prior=short, n=14, n_chains=120, n_steps=10)
    assert (result.smallest_adjusted_p_value > 1e-6) == is_right, str(result)
