"""Archipelago: its likelihood, its process, every move, small posteriors and predictions."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from scipy import stats
from scipy.special import expit, logsumexp
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    Hyperparameter,
    Kernel,
)

from atoll.core.densities import Gaussian, NormalInverseWishart
from atoll.core.linalg import jittered_cholesky
from atoll.diagnostics import ess_bulk, geweke_test, mcse_mean, normal_grid
from atoll.inference import hmc
from atoll.inference.chains import stack_ragged
from atoll.kernels.hyperparameters import gram_function, kernel_prior
from atoll.models import archipelago, archipelago_paper
from atoll.models.archipelago import (
    OPEN,
    REJECTED,
    UNLABELLED,
    ArchipelagoPosterior,
    Setting,
)

RATE = 0.3  # of candidates
LINE = Gaussian(np.zeros(1), np.eye(1))
SOME_GAUSSIANS = NormalInverseWishart(np.zeros(1), 3.0, 4.0 * np.eye(1), 6.0)
# log variance and log length-scale of a variance × RBF kernel on the line
PRIOR = kernel_prior("isotropic", np.array([[-1.0], [1.0]]))._replace(
    mean=np.array([0.4, -0.3]), sd=np.array([0.4, 0.4])
)
NOTHING = np.zeros(0)


def finite_differences(function, at, step=1e-5):
    slope = np.empty_like(at)
    for index in np.ndindex(at.shape):
        shift = np.zeros_like(at)
        shift[index] = step
        slope[index] = (function(at + shift) - function(at - shift)) / (2.0 * step)
    return slope


# The likelihood -----------------------------------------------------------------------------------


def outcomes_of_one_row(latent):
    """log_terms of every outcome of each row; (T, K) -> (K + 2, T): classes, any, rejected."""
    K = latent.shape[1]
    return np.stack(
        [
            archipelago.log_terms(latent, np.full(len(latent), code))
            for code in [*range(K), UNLABELLED, REJECTED]
        ]
    )


@pytest.mark.parametrize("n_classes", [1, 2, 5])
@pytest.mark.parametrize("size", [1.0, 30.0, 1e4])
def test_probabilities_of_classes_and_rejection_sum_to_one(n_classes, size):
    latent = size * np.random.default_rng(0).normal(size=(50, n_classes))
    log_p = outcomes_of_one_row(latent)
    np.testing.assert_allclose(logsumexp(np.delete(log_p, -2, axis=0), axis=0), 0.0, atol=1e-12)


@pytest.mark.parametrize("n_classes", [1, 2, 5])
@pytest.mark.parametrize("size", [1.0, 30.0, 1e4])
def test_an_unlabelled_row_has_the_probability_of_all_its_classes(n_classes, size):
    latent = size * np.random.default_rng(1).normal(size=(50, n_classes))
    log_p = outcomes_of_one_row(latent)
    np.testing.assert_allclose(log_p[-2], logsumexp(log_p[:n_classes], axis=0), atol=1e-9)


@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_huge_functions_leave_no_nan(sign):
    latent = sign * np.array([[1e4, 1e4], [1e4, -1e4], [0.0, 1e4], [1e4, 0.0]])
    assert np.isfinite(outcomes_of_one_row(latent)).all()
    for codes in ([0, 1, UNLABELLED, REJECTED], [REJECTED, UNLABELLED, 1, 0], 4 * [OPEN]):
        outcomes = archipelago.outcomes_of(np.array(codes), 2, RATE)
        assert np.isfinite(outcomes.slope(latent)).all()
        assert np.isfinite(outcomes.total(latent))
    assert np.isfinite(archipelago.class_shares(latent)).all()


CODES = np.array([0, 2, UNLABELLED, REJECTED, 1, OPEN, UNLABELLED, REJECTED, OPEN])


def test_an_open_row_is_a_candidate_or_a_rejection():
    latent = 3.0 * np.random.default_rng(1).normal(size=(50, 2))
    rejected = 1.0 / (1.0 + np.exp(latent).sum(axis=1))
    terms = archipelago.log_terms(latent, np.full(50, OPEN), RATE)
    np.testing.assert_allclose(np.exp(terms), RATE + rejected)


@pytest.mark.parametrize("codes", [CODES[:4], np.array([OPEN, UNLABELLED, REJECTED, 1])])
def test_huge_functions_have_the_total_and_slope_of_moderate_ones(codes):
    """One huge row takes all through the careful formulas; the others are as they were."""
    moderate = np.random.default_rng(3).normal(size=(4, 3))
    huge = np.concatenate([moderate, [[1e3, 0.0, 0.0]]])
    ours = archipelago.outcomes_of(codes, 3, RATE)
    careful = archipelago.outcomes_of(np.append(codes, UNLABELLED), 3, RATE)
    assert careful.total(huge) == pytest.approx(ours.total(moderate), rel=1e-12)
    np.testing.assert_allclose(careful.slope(huge)[:4], ours.slope(moderate), atol=1e-12)


def test_the_total_is_the_sum_of_the_rows_terms():
    latent = 3.0 * np.random.default_rng(2).normal(size=(9, 3))
    outcomes = archipelago.outcomes_of(CODES, 3, RATE)
    expected = archipelago.log_terms(latent, CODES, RATE).sum()
    assert outcomes.total(latent) == pytest.approx(expected, rel=1e-12)


def test_the_slope_of_the_total_is_that_of_finite_differences():
    latent = 2.0 * np.random.default_rng(3).normal(size=(9, 3))
    outcomes = archipelago.outcomes_of(CODES, 3, RATE)
    np.testing.assert_allclose(
        outcomes.slope(latent),
        finite_differences(outcomes.total, latent),
        atol=1e-6,
    )


@pytest.mark.parametrize("n_kernels", [1, 3])
@pytest.mark.parametrize("mixing", [NOTHING, np.array([0.8, -0.4, 1.5])])
def test_the_slope_of_the_joint_is_that_of_finite_differences(n_kernels, mixing):
    rng = np.random.default_rng(4)
    rows, whitened = rng.normal(size=(9, 1)), rng.normal(size=(9, 3))
    gram_at = gram_function(PRIOR, rows)
    factors = np.stack(
        [jittered_cholesky(gram_at(np.array([1.0, 0.4 * f]))).lower for f in range(n_kernels)]
    )
    joint = partial(
        archipelago_paper.log_joint,
        factors=factors,
        mixing=archipelago.mixing_matrix(mixing, 3),
        outcomes=archipelago.outcomes_of(CODES, 3, RATE),
    )
    np.testing.assert_allclose(
        joint(whitened)[1], finite_differences(lambda w: joint(w)[0], whitened), atol=1e-6
    )


def test_the_joint_is_the_likelihood_of_the_functions_and_the_density_of_white_noise():
    rng = np.random.default_rng(5)
    whitened, lower = rng.normal(size=(9, 3)), np.tril(rng.normal(size=(9, 9)))
    value, _ = archipelago_paper.log_joint(
        whitened, lower[None], np.eye(3), archipelago.outcomes_of(CODES, 3, RATE)
    )
    expected = archipelago.log_terms(lower @ whitened, CODES, RATE).sum() - 0.5 * np.sum(
        whitened**2
    )
    assert value == pytest.approx(expected, rel=1e-12)


def test_mixing_keeps_the_variance_of_every_function():
    A = archipelago.mixing_matrix(np.array([0.8, -0.4, 1.5]), 3)
    np.testing.assert_allclose(np.sum(A**2, axis=1), 1.0)
    np.testing.assert_array_equal(archipelago.mixing_matrix(NOTHING, 3), np.eye(3))


def test_outcomes_are_drawn_with_the_probabilities_of_their_terms():
    latent = np.array([0.7, -1.0])
    drawn = archipelago.sample_outcomes(np.random.default_rng(6), np.tile(latent, (20_000, 1)))
    odds = np.append(np.exp(latent), 1.0)
    counts = [np.sum(drawn == code) for code in (0, 1, REJECTED)]
    assert stats.chisquare(counts, 20_000 * odds / odds.sum()).pvalue > 1e-6


# The process --------------------------------------------------------------------------------------


FLAT = PRIOR._replace(mean=np.array([-25.0, 0.0]), sd=np.array([0.1, 0.1]))


@pytest.mark.parametrize("n_classes", [1, 2, 5])
def test_functions_near_zero_accept_k_in_k_plus_one_and_all_classes_alike(n_classes):
    n = 400
    _, labels, state = archipelago.sample_prior(np.random.default_rng(7), FLAT, LINE, n, n_classes)
    # Negative binomial: n acceptances of probability K/(K + 1) each.
    rate = n_classes / (n_classes + 1.0)
    error = np.sqrt(n * (1.0 - rate)) / rate
    assert abs(len(state.rejections) - n * (1.0 - rate) / rate) < 5.5 * error
    counts = np.bincount(labels, minlength=n_classes)
    assert n_classes == 1 or stats.chisquare(counts).pvalue > 1e-6


def test_the_prior_s_state_holds_its_rows():
    rows, labels, state = archipelago.sample_prior(np.random.default_rng(8), PRIOR, LINE, 6, 3)
    setting = Setting(rows, labels, 3, PRIOR, LINE)
    T = 6 + len(state.rejections)
    assert rows.shape == (6, 1)
    assert labels.shape == (6,)
    assert set(labels) <= {0, 1, 2}
    assert state.whitened.shape == (T, 3)
    assert state.factors.shape == (1, T, T)
    gram_at = gram_function(PRIOR, np.concatenate([rows, state.rejections]))
    np.testing.assert_allclose(
        state.factors[0] @ state.factors[0].T, gram_at(state.log_parameters[0]), atol=1e-10
    )
    assert np.isfinite(archipelago.latent_at(setting, state)).all()


class OnePlace:
    """A density that proposes the same row for ever, and writes down how many at a time."""

    def __init__(self, row):
        self.row, self.asked = row, []

    def sample(self, rng, n):
        self.asked.append(n)
        return np.tile(self.row, (n, 1))

    def log_density(self, X):
        return np.zeros(len(X))


def known_functions(rows, u, log_parameters):
    """What `run_forward` is told of functions u (T, K) at the rows (T, 1)."""
    factors, _ = archipelago.factors_at(setting_of(rows, u), rows, log_parameters)
    return archipelago.whiten(factors, u), factors


def setting_of(rows, u):
    return Setting(rows, np.full(len(rows), UNLABELLED), u.shape[1], PRIOR, LINE)


def test_a_place_has_one_value_in_every_batch():
    """The function at one place is known from the first batch on, whatever its size."""
    theta = np.array([[np.log(4.0), 0.0]])
    for seed in range(20):
        place = OnePlace(np.array([0.3]))
        u = np.array([[-2.5, -2.5]])  # nearby, so that several batches are needed
        rows = np.array([[0.9]])
        whitened, factors = known_functions(rows, u, theta)
        history = archipelago.run_forward(
            np.random.default_rng(seed), setting_of(rows, u), place, theta, NOTHING,
            rows, whitened, factors, 5,
        )  # fmt: skip
        if len(place.asked) > 1:
            break
    assert len(place.asked) > 1
    nugget_sd = 2.0 * np.sqrt(1e-6)  # the only thing that differs between two of the rows
    assert np.ptp(history.latent, axis=0).max() < 15.0 * nugget_sd


def test_a_known_row_proposed_again_keeps_its_functions():
    theta, u = np.array([[0.0, 0.0]]), np.array([[3.0, -1.0], [0.0, 1.0]])
    rows = np.array([[0.0], [2.0]])
    whitened, factors = known_functions(rows, u, theta)
    history = archipelago.run_forward(
        np.random.default_rng(9), setting_of(rows, u), OnePlace(rows[0]), theta, NOTHING,
        rows, whitened, factors, 8,
    )  # fmt: skip
    np.testing.assert_allclose(history.latent, np.tile(u[0], (len(history.latent), 1)), atol=0.02)


def test_the_order_in_which_rows_became_known_does_not_matter():
    rng = np.random.default_rng(10)
    theta, rows, u = np.array([[0.5, -0.5]]), rng.normal(size=(6, 1)), rng.normal(size=(6, 2))
    histories = []
    for order in (np.arange(6), np.array([3, 5, 0, 2, 1, 4])):
        whitened, factors = known_functions(rows[order], u[order], theta)
        histories.append(
            archipelago.run_forward(
                np.random.default_rng(11), setting_of(rows, u), LINE, theta, NOTHING,
                rows[order], whitened, factors, 10,
            )
        )  # fmt: skip
    one, other = histories
    np.testing.assert_array_equal(one.outcomes, other.outcomes)
    np.testing.assert_allclose(one.rows, other.rows)
    np.testing.assert_allclose(one.latent, other.latent, atol=1e-6)


def process_in_pieces(rng, pieces, n_classes=2):
    """Run the process from nothing for each number of acceptances in turn; statistics of it."""
    theta = np.array([[1.0, 0.0]])
    setting = Setting(np.zeros((1, 1)), np.zeros(1, int), n_classes, PRIOR, LINE)
    rows, u, outcomes = np.zeros((0, 1)), np.zeros((0, n_classes)), np.zeros(0, int)
    for n_accepted in pieces:
        factors, _ = archipelago.factors_at(setting, rows, theta)
        history = archipelago.run_forward(
            rng, setting, LINE, theta, NOTHING, rows, archipelago.whiten(factors, u), factors,
            n_accepted,
        )  # fmt: skip
        rows = np.concatenate([rows, history.rows])
        u = np.concatenate([u, history.latent])
        outcomes = np.concatenate([outcomes, history.outcomes])
    first, *_, last = np.flatnonzero(outcomes >= 0)
    return (
        np.sum(outcomes == REJECTED),
        u[first, 0] * u[last, 0],
        u[last, 0] * (outcomes[first] == 0),
        rows[last, 0] * u[last, 1] * rows[first, 0],
    )


def test_the_process_in_one_piece_is_the_process_in_several():
    rng = np.random.default_rng(12)
    whole = np.array([process_in_pieces(rng, [6]) for _ in range(1500)])
    pieces = np.array([process_in_pieces(rng, [2, 1, 3]) for _ in range(1500)])
    for one, other in zip(whole.T, pieces.T):
        assert stats.mannwhitneyu(one, other).pvalue > 1e-6
        assert stats.mannwhitneyu(np.abs(one), np.abs(other)).pvalue > 1e-6


def test_functions_that_are_not_drawn_change_no_rejection():
    """Land with a shore, known well: most rows are accepted beyond doubt, and not drawn."""
    rows = np.linspace(-3.0, 3.0, 25)[:, None]
    u = np.where(np.abs(rows) < 1.5, 4.0, -1.0) + np.zeros((25, 2))
    theta = np.array([[np.log(16.0), -0.5]])
    whitened, factors = known_functions(rows, u, theta)
    found = {}
    for classes in (True, False):
        runs = [
            archipelago.run_forward(
                np.random.default_rng([seed, classes]), setting_of(rows, u), LINE, theta, NOTHING,
                rows, whitened, factors, 20, classes=classes,
            )
            for seed in range(800)
        ]  # fmt: skip
        rejected = [run.outcomes == REJECTED for run in runs]
        found[classes] = np.array(
            [
                (np.sum(no), np.sum(np.abs(run.rows[no])), run.latent[no].sum())
                for run, no in zip(runs, rejected, strict=True)
            ]
        )
        if not classes:
            accepted = np.concatenate([run.latent[run.outcomes >= 0, 0] for run in runs])
            assert np.isnan(accepted).mean() > 0.3
    for one, other in zip(found[True].T, found[False].T):
        assert stats.mannwhitneyu(one, other).pvalue > 1e-6


@pytest.mark.parametrize("own_kernels", [False, True], ids=["shared", "own"])
@pytest.mark.parametrize("kernel", ["isotropic", "ard"])
def test_the_slope_in_the_kernel_s_parameters_is_that_of_finite_differences(kernel, own_kernels):
    """By differences for one length-scale, through the factors for more."""
    rng = np.random.default_rng(14)
    n_features = 4 if kernel == "ard" else 2
    rows, weights = rng.normal(size=(9, n_features)), rng.normal(size=(9, 3))
    prior = kernel_prior(kernel, rows)
    assert (len(prior.mean) - 1 <= archipelago.FEW_PARAMETERS) == (kernel == "isotropic")
    gram_at = gram_function(prior, rows, reference=rows)
    theta = prior.mean + 0.2 * rng.normal(size=(3 if own_kernels else 1, len(prior.mean)))
    whitened = rng.normal(size=(9, 3))

    def value(theta):
        return float(
            np.sum(
                weights
                * archipelago.functions(archipelago.factors_from(gram_at, theta)[0], whitened)
            )
        )

    kernels = archipelago.kernels_at(gram_at, theta)
    slope = archipelago.parameter_slope(prior, rows, gram_at)(
        kernels, whitened, archipelago.functions(kernels.factors, whitened), weights
    )
    np.testing.assert_allclose(slope, finite_differences(value, theta), rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("n", [3, 40])
def test_a_sea_without_land_ends_with_the_acceptance_rate(n):
    """The functions are −50 wherever the base density proposes."""
    theta, rows, u = np.array([[0.0, 5.0]]), np.zeros((1, 1)), np.full((1, 2), -50.0)
    whitened, factors = known_functions(rows, u, theta)
    with pytest.raises(archipelago.TooManyRejections, match="accepted 0, a rate of 0") as raised:
        archipelago.run_forward(
            np.random.default_rng(13), setting_of(rows, u), LINE, theta, NOTHING,
            rows, whitened, factors, n,
        )  # fmt: skip
    assert "base_density" in str(raised.value)
    n_proposed = int(str(raised.value).split()[1])
    assert n_proposed == archipelago.most_proposals(n)


# Geweke's joint test, of every move ---------------------------------------------------------------


def seen(labels):
    """The first two of the labels."""
    return np.where(np.arange(len(labels)) < 2, labels, UNLABELLED)


def run_geweke(
    move, *, base=LINE, own_kernels=False, dependent=False, prior=PRIOR, n=5,
    n_chains=150, n_steps=10, n_marginal=3000, seed=1,
):  # fmt: skip
    """Parameters are the setting, the state and, of a fresh prior draw, its own data.

    Data given a state: the process is run forward from all that is known of the functions, and
    the rows it accepts are the new data, with the functions there.
    """

    def sample_prior(rng):
        rows, labels, state = archipelago.sample_prior(
            rng, prior, base, n, 2, own_kernels=own_kernels, dependent=dependent
        )
        setting = Setting(rows, seen(labels), 2, prior, base, own_kernels, dependent)
        u = archipelago.functions(state.factors, state.whitened)[:n]
        return setting, state, (rows, labels, u)

    def sample_data(rng, parameters):
        setting, state, fresh = parameters
        if fresh is not None:
            return fresh
        history = archipelago.run_forward(
            rng, setting, archipelago.current_base(setting, state), state.log_parameters,
            state.mixing, archipelago.known_rows(setting, state), state.whitened, state.factors, n,
        )  # fmt: skip
        accepted = history.outcomes >= 0
        return history.rows[accepted], history.outcomes[accepted], history.latent[accepted]

    def sweep(rng, parameters, data):
        setting, state, _ = parameters
        rows, labels, u = data
        u_known = archipelago.functions(state.factors, state.whitened)
        u_rejected = u_known[n : n + len(state.rejections)]
        setting = setting._replace(inputs=rows, codes=seen(labels))
        u = np.concatenate([u, u_rejected])
        state = archipelago.make_state(
            setting, state.rejections, u, state.log_parameters, state.mixing, state.base
        )
        state = state._replace(
            step_size=hmc.init_step_size(0.5), parameter_step_size=hmc.init_step_size(0.3)
        )
        return setting, move(rng, setting, state), None

    def statistics(parameters, data):
        setting, state, _ = parameters
        rows, labels, _ = data
        g, M = archipelago.latent_at(setting, state), len(state.rejections)
        of_label = g[[0, 1], labels[:2]]
        named = {
            "M": M, "|M - 4|": abs(M - 4), "g": g[:n].mean(), "g²": (g[:n] ** 2).mean(),
            "g of the label": of_label.mean(), "g0 g2": g[0, 0] * g[2, 0],
            "contrast": (g[3, 0] - g[3, 1]) ** 2, "log Λ": np.logaddexp(*g[2]),
            "log-likelihood": archipelago.outcomes_at(setting, state).total(g),
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
        np.random.default_rng(seed), sample_prior, sample_data, sweep, statistics,
        n_chains=n_chains, n_steps=n_steps, n_marginal=n_marginal,
    )  # fmt: skip


def our_sweep(rng, setting, state):
    return archipelago.sweep(rng, setting, state, False)


def our_functions(rng, setting, state):
    return archipelago.sample_functions(rng, setting, state, False)


def with_candidates(move):
    """Rejections and candidates; a move, while it is open which is which; and which they are."""

    def moves(rng, setting, state):
        for _ in range(2):
            state = archipelago.refresh_rejections(rng, setting, state, candidate_rate=RATE)
            state = archipelago.settle_rejections(rng, setting, move(rng, setting, state))
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
    return archipelago_paper.sample_function(rng, setting, state, int(rng.integers(2)), False)


def paper_parameters(rng, setting, state):
    return archipelago_paper.sample_log_parameters_given_functions(rng, setting, state, False)


def paper_sweep(rng, setting, state):
    return archipelago_paper.sweep(rng, setting, state, False)


def whitened_paper_sweep(rng, setting, state):
    return archipelago_paper.whitened_sweep(rng, setting, state, False)


def forgetful_refresh(rng, setting, state):
    """The natural mistake: the old rejections are forgotten before the new ones are drawn."""
    n = len(setting.inputs)
    forgotten = state._replace(
        rejections=state.rejections[:0],
        whitened=state.whitened[:n],
        factors=state.factors[:, :n, :n],
    )
    return archipelago.refresh_rejections(rng, setting, forgotten)


OWN, DEPENDENT, NIW = {"own_kernels": True}, {"dependent": True}, {"base": SOME_GAUSSIANS}
# Functions so small that M varies little by them: an error in its own move stands out.
QUIET = PRIOR._replace(mean=np.array([-2.0, -0.3]))
GEWEKE = {
    "rejections": (archipelago.refresh_rejections, {}),
    "rejections, own kernels": (archipelago.refresh_rejections, OWN | DEPENDENT),
    "rejections, with candidates": (with_candidates(nothing_else), {}),
    "functions": (our_functions, {}),
    "functions, with candidates": (with_candidates(our_functions), {}),
    "functions, own kernels and dependent": (our_functions, OWN | DEPENDENT),
    "log-parameters with functions": (archipelago.sample_log_parameters, {}),
    "log-parameters with functions, own kernels and dependent": (
        archipelago.sample_log_parameters,
        OWN | DEPENDENT,
    ),
    "base density": (
        archipelago.sample_base,
        {"base": SOME_GAUSSIANS._replace(strength=1.0), "n_chains": 400, "n_steps": 5},
    ),
    "mixing": (archipelago.sample_mixing, DEPENDENT),
    # The first sweep of two has no candidates yet.
    "sweep": (repeated(our_sweep, 2), {}),
    "sweep, sampled base density": (repeated(our_sweep, 2), NIW),
    "sweep, own kernels": (repeated(our_sweep, 2), OWN),
    "sweep, dependent": (repeated(our_sweep, 2), DEPENDENT),
    "paper's births and deaths": (
        repeated(archipelago_paper.add_or_remove, 10),
        {"prior": QUIET, "n_chains": 300, "n_marginal": 5000},
    ),
    "paper's relocation": (repeated(archipelago_paper.relocate, 3), {}),
    "paper's function": (paper_function, {}),
    "paper's log-parameters": (paper_parameters, {}),
    "paper's log-parameters, whitened": (
        archipelago_paper.sample_log_parameters_whitened,
        OWN | DEPENDENT,
    ),
    "paper's sweep": (paper_sweep, {}),
    "paper's sweep, all options": (paper_sweep, OWN | DEPENDENT | NIW),
    "paper's sweep, whitened log-parameters": (whitened_paper_sweep, {}),
}
IN_THE_FAST_SUITE = (
    "rejections, with candidates", "functions", "log-parameters with functions", "base density",
    "mixing", "sweep", "paper's births and deaths", "paper's relocation",
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


@pytest.mark.parametrize(
    ("refresh", "is_right"), [(archipelago.refresh_rejections, True), (forgetful_refresh, False)]
)
def test_geweke_catches_old_rejections_that_are_forgotten_before_drawing(refresh, is_right):
    """Functions large and short: much of what makes a rejection is known from rejections alone."""

    def move(rng, setting, state):
        for _ in range(2):
            state = our_functions(rng, setting, refresh(rng, setting, state))
        return state

    short = PRIOR._replace(mean=np.array([2.0, -2.0]), sd=np.array([0.3, 0.3]))
    result = run_geweke(move, prior=short, n=20, n_marginal=4000)
    assert (result.smallest_adjusted_p_value > 1e-6) == is_right, str(result)


def test_candidates_are_so_many_for_each_proposal_and_come_from_the_density():
    """Given n + M proposals they are negative binomial, with mean κ (n + M)."""
    rng = np.random.default_rng(15)
    rows, u, theta = np.zeros((1, 1)), np.zeros((1, 2)), np.array([[0.0, 0.0]])
    whitened, factors = known_functions(rows, u, theta)
    excess, places = [], []
    for _ in range(2000):
        history = archipelago.run_forward(
            rng, setting_of(rows, u), LINE, theta, NOTHING, rows, whitened, factors, 5,
            candidate_rate=RATE, classes=False,
        )  # fmt: skip
        is_candidate = history.outcomes == OPEN
        n_proposals = np.sum(~is_candidate)
        deviation = np.sqrt(RATE * (1.0 + RATE) * n_proposals)
        excess.append((is_candidate.sum() - RATE * n_proposals) / deviation)
        places.append(history.rows[is_candidate, 0])
        assert np.isfinite(history.latent[is_candidate]).all()
        assert history.outcomes[-1] >= 0
    assert abs(np.mean(excess)) < 5.0 / np.sqrt(2000)
    assert np.var(excess) == pytest.approx(1.0, abs=0.2)
    assert stats.kstest(np.concatenate(places), "norm").pvalue > 1e-6


def test_rejections_that_could_pass_the_most_proposals_have_no_candidates(monkeypatch):
    """Then the most, which is a part of the model, holds whichever of them are rejections."""
    rng = np.random.default_rng(16)
    rows, labels, state = archipelago.sample_prior(rng, PRIOR, LINE, 8, 2)
    setting = Setting(rows, labels, 2, PRIOR, LINE)
    monkeypatch.setattr(archipelago, "most_proposals", lambda n: n + 3)
    renewed = [
        archipelago.refresh_rejections(rng, setting, state, candidate_rate=RATE) for _ in range(200)
    ]
    done = [after for after in renewed if after.n_refused == 0]
    assert {after.candidate_rate for after in done} == {0.0, RATE}
    for after in done:
        assert len(after.rejections) + len(after.candidates) <= 3
        assert len(after.candidates) == 0 or after.candidate_rate == RATE


def test_candidates_that_are_settled_leave_the_functions_as_they_were():
    rng = np.random.default_rng(17)
    rows, labels, state = archipelago.sample_prior(rng, PRIOR, LINE, 8, 2)
    setting = Setting(rows, labels, 2, PRIOR, LINE)
    for _ in range(20):
        opened = archipelago.refresh_rejections(rng, setting, state, candidate_rate=1.0)
        settled = archipelago.settle_rejections(rng, setting, opened)
        known = archipelago.known_rows(setting, opened)[:, 0].tolist()
        kept = [known.index(x) for x in archipelago.known_rows(setting, settled)[:, 0]]
        assert settled.candidate_rate == len(settled.candidates) == 0
        u = archipelago.functions(opened.factors, opened.whitened)
        np.testing.assert_allclose(
            archipelago.functions(settled.factors, settled.whitened), u[kept], atol=1e-9
        )


def test_a_renewal_that_is_refused_settles_which_are_the_rejections(monkeypatch):
    rng = np.random.default_rng(18)
    rows, labels, state = archipelago.sample_prior(rng, PRIOR, LINE, 8, 2)
    setting = Setting(rows, labels, 2, PRIOR, LINE)
    opened = archipelago.refresh_rejections(rng, setting, state, candidate_rate=1.0)
    monkeypatch.setattr(archipelago, "most_proposals", lambda n: 3)
    refused = archipelago.refresh_rejections(rng, setting, opened, candidate_rate=1.0)
    assert refused.n_refused == 1
    assert refused.candidate_rate == len(refused.candidates) == 0
    assert len(refused.whitened) == 8 + len(refused.rejections)


# Posteriors of three rows, against importance sampling --------------------------------------------


THREE = np.array([[-1.2], [0.3], [0.6]])
THREE_CODES = np.array([0, 1, UNLABELLED])
FIXED = kernel_prior(ConstantKernel(1.5, "fixed") * RBF(1.0, "fixed"), THREE)
FREE_LENGTH = kernel_prior(ConstantKernel(1.5, "fixed") * RBF(1.0), THREE)._replace(
    sd=np.array([0.4])
)


def exact_means(prior):
    """Means of the posterior and one standard error of each: M, P(class 0) of row 2, g, θ, θ².

    The functions are drawn from their prior at the rows and on a grid, on which Z is a sum; a
    draw weighs Z^{-n} times the rows' terms, and M has the mean n(1 − Z)/Z.
    """
    n, K, n_repeats = 3, 2, 12
    grid = np.linspace(-5.0, 5.0, 61)
    mass = np.exp(-0.5 * grid**2)
    mass /= mass.sum()
    rows = np.concatenate([THREE, grid[:, None]])
    nodes, log_node = np.zeros((1, 0)), np.zeros(1)
    if len(prior.mean) > 0:
        nodes, log_node = normal_grid(prior.mean, prior.sd, 15)
    lowers = [jittered_cholesky(gram_function(prior, rows)(theta)).lower for theta in nodes]
    n_draws = 24_000 // len(nodes)
    rng = np.random.default_rng(14)
    estimates = []
    for _ in range(n_repeats):
        log_weights, values = [], []
        for lower, theta, log_prior in zip(lowers, nodes, log_node):
            g = np.einsum("ij,jkm->mik", lower, rng.normal(size=(len(rows), K, n_draws)))
            log_total = np.logaddexp(g[..., 0], g[..., 1])
            accepted = expit(log_total)
            Z = accepted[:, n:] @ mass
            of_rows = g[:, 0, 0] + g[:, 1, 1] + log_total[:, 2]
            of_rows -= np.logaddexp(0.0, log_total[:, :n]).sum(axis=1)
            log_weights.append(log_prior + of_rows - n * np.log(Z))
            constant = np.broadcast_to(np.append(theta, theta**2), (n_draws, 2 * len(theta)))
            share = expit(g[:, 2, 0] - g[:, 2, 1])
            at_rows = g[:, :n].reshape(n_draws, -1)
            values.append(np.column_stack([n * (1.0 - Z) / Z, share, at_rows, constant]))
        weights = np.exp(np.concatenate(log_weights))
        estimates.append(weights @ np.concatenate(values) / weights.sum())
    return np.mean(estimates, axis=0), np.std(estimates, axis=0, ddof=1) / np.sqrt(n_repeats)


def run(setting, seed, *, n_chains=4, n_warmup=100, n_samples, sweep=archipelago.sweep, thin=1):
    """States of the chains after warm-up, one list a chain."""
    sampler = archipelago.sampler(setting, sweep=sweep)
    chains = []
    for rng in np.random.default_rng(seed).spawn(n_chains):
        state = sampler.init(rng)
        for _ in range(n_warmup):
            state = sampler.sweep(rng, state, True)
        states = []
        for i in range(n_samples * thin):
            state = sampler.sweep(rng, state, False)
            if (i + 1) % thin == 0:
                states.append(state)
        chains.append(states)
    return chains


def quantities_of_three(setting, state):
    """As in `exact_means`."""
    g, theta = archipelago.latent_at(setting, state)[:3], state.log_parameters.ravel()
    share = expit(g[2, 0] - g[2, 1])
    return np.concatenate([[len(state.rejections), share], g.ravel(), theta, theta**2])


def assert_posterior_of_three_rows(prior, sweep, n_samples):
    setting = Setting(THREE, THREE_CODES, 2, prior, LINE)
    exact, own_error = exact_means(prior)
    # Where one mean lies too far away, again with a longer chain: chance does not err twice.
    for attempt in (1, 4):
        chains = run(setting, 15 + attempt, n_samples=attempt * n_samples, sweep=sweep)
        values = np.array([[quantities_of_three(setting, s) for s in chain] for chain in chains])
        assert np.min(ess_bulk(values)) > 400
        z = (values.mean(axis=(0, 1)) - exact) / np.hypot(mcse_mean(values), own_error)
        if np.abs(z).max() < 4.0:
            return
    raise AssertionError(f"{z.round(1)} standard errors apart, twice")


@pytest.mark.parametrize("prior", [FIXED, FREE_LENGTH], ids=["fixed", "free length-scale"])
def test_the_posterior_of_three_rows_is_that_of_importance_sampling(prior):
    assert_posterior_of_three_rows(prior, archipelago.sweep, 1800)


@pytest.mark.slow
@pytest.mark.parametrize("prior", [FIXED, FREE_LENGTH], ids=["fixed", "free length-scale"])
def test_the_paper_s_posterior_of_three_rows_is_that_of_importance_sampling(prior):
    assert_posterior_of_three_rows(prior, archipelago_paper.sweep, 1500)


# Prediction ---------------------------------------------------------------------------------------


def posterior_of(setting, states, log_weights=None, chains=None):
    """The states as the arrays that predictions read."""
    S = len(states)
    return ArchipelagoPosterior(
        inputs=setting.inputs,
        prior=setting.prior,
        base=setting.base,
        n_classes=setting.n_classes,
        chains=np.zeros(S, dtype=int) if chains is None else chains,
        n_rejections=np.array([len(s.rejections) for s in states]),
        rejections=stack_ragged([s.rejections for s in states]),
        whitened=stack_ragged(
            [s.whitened[: len(setting.inputs) + len(s.rejections)] for s in states]
        ),
        log_parameters=np.array([s.log_parameters.ravel() for s in states]),
        mixing=np.array([s.mixing for s in states]),
        base_means=np.array([s.base.mean for s in states]),
        base_lowers=np.array([s.base.lower for s in states]),
        log_weights=np.full(S, -np.log(S)) if log_weights is None else log_weights,
    )


def pooled(chains):
    return [state for chain in chains for state in chain]


def fitted(n_classes, seed=16, n_samples=100, base=None, **options):
    """Two heaps of ten rows, the first of each labelled; states of two chains."""
    rng = np.random.default_rng(seed)
    heap = np.repeat([0, 1], 10)
    X = (np.array([-1.4, 1.2])[heap] + 0.4 * rng.normal(size=20))[:, None]
    codes = np.where(np.arange(20) % 10 == 0, heap, UNLABELLED)
    if n_classes == 1:
        codes = np.full(20, UNLABELLED)
    base = base or Gaussian(X.mean(axis=0), np.sqrt(1.2) * X.std(axis=0)[None])
    setting = Setting(X, codes, n_classes, kernel_prior("isotropic", X), base, **options)
    chains = run(setting, seed, n_chains=2, n_warmup=60, n_samples=n_samples, thin=2)
    return setting, chains


EVERYWHERE = np.linspace(-12.0, 12.0, 241)[:, None]
OPTIONS = {
    "one class": (1, {}),
    "two classes": (2, {}),
    "three classes, own kernels, dependent": (3, OWN | DEPENDENT),
    "two classes, sampled base density": (2, NIW),
}


@pytest.mark.parametrize("name", OPTIONS)
def test_predicted_probabilities_sum_to_one_and_novelty_is_a_probability(name):
    n_classes, options = OPTIONS[name]
    setting, chains = fitted(n_classes, n_samples=10, **options)
    predictions = archipelago.predict(
        posterior_of(setting, pooled(chains)), EVERYWHERE, density=True
    )
    proba = np.exp(predictions.log_proba)
    assert proba.shape == (241, n_classes)
    np.testing.assert_allclose(proba.sum(axis=1), 1.0, atol=1e-12)
    assert np.all(predictions.novelty >= 0.0)
    assert np.all(predictions.novelty <= 1.0)
    assert np.isfinite(predictions.log_density).all()


def test_far_away_the_prior_returns():
    setting, chains = fitted(2, n_samples=20)
    states = pooled(chains)
    posterior, far = posterior_of(setting, states), np.array([[200.0], [-300.0]])
    predictions = archipelago.predict(posterior, far)
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    both = np.outer(weights, weights) / weights.sum() ** 2
    sds = [np.exp(0.5 * s.log_parameters[0, 0]) for s in states]
    rejected = [expit(-np.logaddexp.outer(sd * nodes, sd * nodes)) for sd in sds]
    expected = np.mean([np.sum(both * p) for p in rejected])
    np.testing.assert_allclose(predictions.novelty, expected, atol=0.01)
    np.testing.assert_allclose(np.exp(predictions.log_proba), 0.5, atol=0.01)
    mean, variance = archipelago.predict_latent(posterior, far)
    np.testing.assert_allclose(mean, 0.0, atol=1e-9)
    np.testing.assert_allclose(variance, np.mean(np.square(sds)), rtol=1e-6)


def known_state(setting, rejections, u, mixing=NOTHING, variance=4.0, length_scale=1.0):
    theta = np.log([[variance, length_scale]])
    return archipelago.make_state(setting, rejections, u, theta, mixing)


def test_a_known_row_is_predicted_from_its_functions():
    """One state, no conditional variance but the nugget's: softmax of g, equation 1."""
    rng = np.random.default_rng(17)
    rows, u = np.linspace(-6.0, 6.0, 5)[:, None], rng.normal(size=(7, 3))
    setting = Setting(rows, np.full(5, UNLABELLED), 3, PRIOR, LINE)
    mixing = np.array([0.5, -1.0, 0.3])
    state = known_state(setting, np.array([[-10.0], [10.0]]), u, mixing)
    g = u[:5] @ archipelago.mixing_matrix(mixing, 3).T
    posterior = posterior_of(setting, [state])
    predictions = archipelago.predict(posterior, rows)
    np.testing.assert_allclose(
        np.exp(predictions.log_proba), archipelago.class_shares(g), atol=1e-3
    )
    np.testing.assert_allclose(predictions.novelty, 1.0 / (1.0 + np.exp(g).sum(axis=1)), atol=1e-3)
    mean, variance = archipelago.predict_latent(posterior, rows)
    np.testing.assert_allclose(mean, g, atol=1e-3)
    assert variance.max() < 1e-4


def test_states_count_by_their_weights():
    rng = np.random.default_rng(18)
    rows = np.linspace(-6.0, 6.0, 5)[:, None]
    setting = Setting(rows, np.full(5, UNLABELLED), 2, PRIOR, LINE)
    us = rng.normal(size=(2, 5, 2))
    states = [known_state(setting, rows[:0], u) for u in us]
    posterior = posterior_of(setting, states, np.log([0.2, 0.8]))
    predictions = archipelago.predict(posterior, rows)
    shares, kept = archipelago.class_shares(us), expit(logsumexp(us, axis=2))
    np.testing.assert_allclose(
        np.exp(predictions.log_proba), 0.2 * shares[0] + 0.8 * shares[1], atol=1e-3
    )
    np.testing.assert_allclose(1.0 - predictions.novelty, [0.2, 0.8] @ kept, atol=1e-3)
    mean, _ = archipelago.predict_latent(posterior, rows)
    np.testing.assert_allclose(mean, 0.2 * us[0] + 0.8 * us[1], atol=1e-3)


def test_a_chain_s_weight_is_shared_by_its_states():
    setting = Setting(THREE, THREE_CODES, 2, PRIOR, LINE)
    states = [known_state(setting, THREE[:0], np.zeros((3, 2)))] * 4
    posterior = posterior_of(setting, states, chains=np.array([0, 0, 0, 1]))
    weights = np.exp(posterior.weighted(np.array([0.6, 0.4])).log_weights)
    np.testing.assert_allclose(weights, [0.2, 0.2, 0.2, 0.4])


@pytest.mark.parametrize("name", ["one class", "two classes", "two classes, sampled base density"])
def test_the_predicted_density_integrates_to_one(name):
    n_classes, options = OPTIONS[name]
    setting, chains = fitted(n_classes, n_samples=100, **options)
    step = EVERYWHERE[1, 0] - EVERYWHERE[0, 0]
    of_states = np.array(
        [[integral(setting, [state], step) for state in chain] for chain in chains]
    )
    total = integral(setting, pooled(chains), step)
    # One state's integral is (n + M)/n times its Z: one on average only.
    assert of_states.std() > 0.05
    assert abs(total - of_states.mean()) < 0.01
    assert abs(of_states.mean() - 1.0) < 5.0 * mcse_mean(of_states) + 0.005


def integral(setting, states, step):
    posterior = posterior_of(setting, states)
    p = np.exp(archipelago.predict(posterior, EVERYWHERE, density=True).log_density)
    return float(p.sum() * step)


KNOWN = np.linspace(-4.5, 4.5, 91)[:, None]


def functions_known_everywhere():
    x = KNOWN[:, 0]
    u = np.column_stack([2.0 * np.sin(1.5 * x), 1.0 - 0.8 * x])
    setting = Setting(KNOWN, np.full(len(KNOWN), UNLABELLED), 2, PRIOR, LINE)
    state = known_state(setting, KNOWN[:0], u, length_scale=0.8)
    weight = np.exp(-0.5 * x**2)[:, None] * np.exp(u) / (1.0 + np.exp(u).sum(axis=1))[:, None]
    return posterior_of(setting, [state]), x, weight


@pytest.mark.parametrize("label", [0, 1])
def test_fantasies_of_a_class_have_the_density_of_that_class(label):
    posterior, x, weight = functions_known_everywhere()
    rows, labels = archipelago.sample_rows(np.random.default_rng(19), posterior, 1000, label)
    assert rows.shape == (1000, 1)
    assert np.all(labels == label)
    for power in (1, 2):
        values = rows[:, 0] ** power
        expected = x**power @ weight[:, label] / weight[:, label].sum()
        assert abs(values.mean() - expected) < 5.5 * values.std() / np.sqrt(1000)


def test_fantasies_of_any_class_have_the_shares_of_the_classes():
    posterior, x, weight = functions_known_everywhere()
    rows, labels = archipelago.sample_rows(np.random.default_rng(20), posterior, 1000)
    expected = 1000 * weight.sum(axis=0) / weight.sum()
    assert stats.chisquare(np.bincount(labels, minlength=2), expected).pvalue > 1e-6
    mean = x @ weight.sum(axis=1) / weight.sum()
    assert abs(rows.mean() - mean) < 5.5 * rows.std() / np.sqrt(1000)


# The chain ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("sweep", [archipelago.sweep, archipelago_paper.sweep])
def test_a_state_stays_whole_through_sweeps(sweep):
    """Its factors and functions are those that its rows and log-parameters give afresh."""
    rng = np.random.default_rng(21)
    rows, labels, state = archipelago.sample_prior(
        rng, PRIOR, SOME_GAUSSIANS, 6, 2, own_kernels=True, dependent=True
    )
    setting = Setting(rows, labels, 2, PRIOR, SOME_GAUSSIANS, True, True)
    for _ in range(20):
        state = sweep(rng, setting, state, True)
        every = archipelago.known_rows(setting, state)
        assert state.whitened.shape == (len(every), 2)
        fresh, _ = archipelago.factors_at(setting, every, state.log_parameters)
        np.testing.assert_allclose(
            state.factors @ state.factors.swapaxes(1, 2), fresh @ fresh.swapaxes(1, 2), atol=1e-8
        )


@pytest.mark.parametrize("options", [{}, OWN | DEPENDENT], ids=["shared", "own and dependent"])
@pytest.mark.parametrize("prior", ["isotropic", RBF(1.0)], ids=["scaled", "not scaled"])
def test_small_steps_of_functions_and_of_θ_are_all_accepted(options, prior):
    """So the gradients are those of the densities."""
    rng = np.random.default_rng(27)
    prior = PRIOR if prior == "isotropic" else kernel_prior(prior, THREE)
    rows, labels, state = archipelago.sample_prior(rng, prior, LINE, 6, 2, **options)
    setting = Setting(rows, seen(labels), 2, prior, LINE, **options)
    state = state._replace(
        step_size=hmc.init_step_size(1e-3), parameter_step_size=hmc.init_step_size(1e-3)
    )
    for move in (archipelago.sample_functions, archipelago.sample_log_parameters):
        for _ in range(10):
            moved = move(rng, setting, state, False)
            assert moved.acceptance > 0.999
            assert not np.array_equal(moved.whitened, state.whitened)


def test_no_step_of_the_functions_takes_the_amplitude_where_theta_s_step_cannot_start(monkeypatch):
    monkeypatch.setattr(archipelago, "FARTHEST", 1.0)
    rng = np.random.default_rng(28)
    rows, labels, state = archipelago.sample_prior(rng, PRIOR, LINE, 6, 2)
    setting = Setting(rows, seen(labels), 2, PRIOR, LINE)
    start = np.array([[PRIOR.mean[0] + 0.9 * PRIOR.sd[0], PRIOR.mean[1]]])
    state = state._replace(log_parameters=start, step_size=hmc.init_step_size(0.5))
    deviations = []
    for _ in range(200):
        moved = archipelago.sample_functions(rng, setting, state, False)
        deviations.append((moved.log_parameters[0, 0] - PRIOR.mean[0]) / PRIOR.sd[0])
        archipelago.sample_log_parameters(rng, setting, moved, False)
    assert np.max(np.abs(deviations)) <= 1.0
    assert len(np.unique(deviations)) > 20


def test_a_refresh_leaves_the_functions_at_the_data():
    rng = np.random.default_rng(22)
    rows, labels, state = archipelago.sample_prior(rng, PRIOR, LINE, 8, 2)
    setting = Setting(rows, labels, 2, PRIOR, LINE)
    after = archipelago.refresh_rejections(rng, setting, state)
    np.testing.assert_allclose(
        archipelago.latent_at(setting, after)[:8], archipelago.latent_at(setting, state)[:8]
    )


def test_start_labels_are_kept_until_the_clamped_sweeps_are_over():
    setting = fitted(2, n_samples=1)[0]
    sampler = archipelago.sampler(setting, n_clamped=2)
    rng = np.random.default_rng(23)
    state = sampler.init(rng)
    known = setting.codes >= 0
    np.testing.assert_array_equal(state.start_codes[known], setting.codes[known])
    assert set(state.start_codes) <= {0, 1}
    assert archipelago.outcomes_at(setting, state).labels.sum() == 20
    for left in (1, 0, 0):
        state = sampler.sweep(rng, state, True)
        assert state.n_clamped == left
    assert archipelago.outcomes_at(setting, state).labels.sum() == known.sum()


def test_records_hold_what_the_state_says():
    setting, chains = fitted(2, n_samples=3)
    sampler, state = archipelago.sampler(setting), chains[0][-1]
    record = sampler.record(np.random.default_rng(24), state)
    g = archipelago.latent_at(setting, state)
    codes = np.append(setting.codes, np.full(len(state.rejections), REJECTED))
    assert record["n_rejections"] == len(state.rejections)
    assert record["log_likelihood"] == pytest.approx(archipelago.log_terms(g, codes).sum())
    np.testing.assert_allclose(record["row_probabilities"], archipelago.class_shares(g[:20]))


# A domain that is not a vector space --------------------------------------------------------------


class Hamming(Kernel):
    """exp(−(places where two strings of one length differ) / length_scale)."""

    def __init__(self, length_scale=1.0, length_scale_bounds=(1e-3, 1e3)):
        self.length_scale = length_scale
        self.length_scale_bounds = length_scale_bounds

    @property
    def hyperparameter_length_scale(self):
        return Hyperparameter("length_scale", "numeric", self.length_scale_bounds)

    @property
    def requires_vector_input(self):
        return False

    def __call__(self, X, Y=None, eval_gradient=False):
        Y = X if Y is None else Y
        differ = np.zeros((len(X), len(Y)))
        for i, one in enumerate(X):
            for j, other in enumerate(Y):
                differ[i, j] = sum(a != b for a, b in zip(one, other))
        K = np.exp(-differ / self.length_scale)
        if not eval_gradient:
            return K
        return K, (K * differ / self.length_scale)[:, :, None]

    def diag(self, X):
        return np.ones(len(X))

    def is_stationary(self):
        return False


class RandomStrings:
    """Each of five letters is a, b or c alike."""

    def sample(self, rng, n):
        letters = rng.choice(list("abc"), size=(n, 5))
        return np.array(["".join(word) for word in letters] + [""], dtype=object)[:n]

    def log_density(self, X):
        return np.full(len(X), -5.0 * np.log(3.0))


WORDS = np.array(
    ["aaaaa", "aaaab", "abaaa", "aacaa", "baaaa", "bbbbb", "bbbba", "babbb", "bbcbb", "cbbbb"],
    dtype=object,
)
WORD_CODES = np.array([0, *[UNLABELLED] * 3, 0, 1, *[UNLABELLED] * 3, 1])


def test_strings_come_from_the_prior():
    prior = kernel_prior(ConstantKernel(4.0) * Hamming(2.0), WORDS)
    rows, labels, state = archipelago.sample_prior(
        np.random.default_rng(25), prior, RandomStrings(), 8, 2
    )
    assert rows.shape == (8,)
    assert rows.dtype == object
    assert all(len(word) == 5 and set(word) <= set("abc") for word in rows)
    assert set(labels) <= {0, 1}
    assert state.whitened.shape == (8 + len(state.rejections), 2)


@pytest.mark.parametrize("sweep", [archipelago.sweep, archipelago_paper.sweep])
def test_strings_are_classified_by_a_kernel_of_their_own(sweep):
    prior = kernel_prior(ConstantKernel(9.0) * Hamming(2.0), WORDS)._replace(
        sd=np.array([0.3, 0.3])
    )
    setting = Setting(WORDS, WORD_CODES, 2, prior, RandomStrings())
    sampler = archipelago.sampler(setting, sweep=sweep, n_clamped=5)
    rng, states = np.random.default_rng(26), []
    state = sampler.init(rng)
    for i in range(60):
        state = sampler.sweep(rng, state, i < 30)
        states += [state] if i >= 30 else []
    posterior = posterior_of(setting, states)
    predictions = archipelago.predict(posterior, WORDS, density=True)
    proba = np.exp(predictions.log_proba)
    labelled = WORD_CODES >= 0
    assert np.all(proba[labelled, WORD_CODES[labelled]] > 0.5)
    assert np.isfinite(predictions.log_density).all()
    # The word of no island is newer than the words of either.
    new = np.array(["ccccc"], dtype=object)
    assert archipelago.predict(posterior, new).novelty[0] > predictions.novelty.max() - 0.2
    rows, labels = archipelago.sample_rows(rng, posterior, 5, label=1)
    assert rows.shape == (5,)
    assert np.all(labels == 1)
