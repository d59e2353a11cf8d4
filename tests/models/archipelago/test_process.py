"""The generative process, algorithm 1: its rates, its batches, and what it is conditioned on."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from atoll.core.densities import Gaussian
from atoll.kernels.hyperparameters import gram_function, kernel_prior
from atoll.models.archipelago import REJECTED, UNLABELLED, Setting, latent_at, sample_prior
from atoll.models.archipelago.functions import (
    KnownFunctions,
    gram_at_rows,
    kernels_at,
    unknown_functions,
    whiten,
)
from atoll.models.archipelago.process import (
    CANDIDATE,
    Run,
    TooManyRejections,
    most_proposals,
    run_forward,
)

RATE = 0.3  # of candidates
LINE = Gaussian(np.zeros(1), np.eye(1))
# log variance and log length-scale of a variance × RBF kernel on the line
PRIOR = kernel_prior("isotropic", np.array([[-1.0], [1.0]]))._replace(
    mean=np.array([0.4, -0.3]), sd=np.array([0.4, 0.4])
)
NOTHING = np.zeros(0)
FLAT = PRIOR._replace(mean=np.array([-25.0, 0.0]), sd=np.array([0.1, 0.1]))


@pytest.mark.parametrize("n_classes", [1, 2, 5])
def test_functions_near_zero_accept_k_in_k_plus_one_and_all_classes_alike(n_classes):
    n = 400
    _, labels, state = sample_prior(np.random.default_rng(7), FLAT, LINE, n, n_classes)
    # Negative binomial: n acceptances of probability K/(K + 1) each.
    rate = n_classes / (n_classes + 1.0)
    error = np.sqrt(n * (1.0 - rate)) / rate
    assert abs(len(state.rejections) - n * (1.0 - rate) / rate) < 5.5 * error
    counts = np.bincount(labels, minlength=n_classes)
    assert n_classes == 1 or stats.chisquare(counts).pvalue > 1e-6


def test_the_prior_s_state_holds_its_rows():
    rows, labels, state = sample_prior(np.random.default_rng(8), PRIOR, LINE, 6, 3)
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
    assert np.isfinite(latent_at(setting, state)).all()


class OnePlace:
    """A density that proposes the same row for ever, and writes down how many at a time."""

    def __init__(self, row):
        self.row, self.asked = row, []

    def sample(self, rng, n):
        self.asked.append(n)
        return np.tile(self.row, (n, 1))

    def log_density(self, X):
        return np.zeros(len(X))


def known_at(rows, u, log_parameters):
    """Functions u (T, K) known at the rows (T, 1)."""
    factors = kernels_at(gram_at_rows(setting_of(rows, u), rows), log_parameters).factors
    return KnownFunctions(rows, whiten(factors, u), factors, log_parameters, NOTHING)


def setting_of(rows, u):
    return Setting(rows, np.full(len(rows), UNLABELLED), u.shape[1], PRIOR, LINE)


def test_a_place_has_one_value_in_every_batch():
    """The function at one place is known from the first batch on, whatever its size."""
    theta = np.array([[np.log(4.0), 0.0]])
    for seed in range(20):
        place = OnePlace(np.array([0.3]))
        u = np.array([[-2.5, -2.5]])  # nearby, so that several batches are needed
        rows = np.array([[0.9]])
        known = known_at(rows, u, theta)
        rng = np.random.default_rng(seed)
        history = run_forward(rng, setting_of(rows, u), known, place, Run(5))
        if len(place.asked) > 1:
            break
    assert len(place.asked) > 1
    nugget_sd = 2.0 * np.sqrt(1e-6)  # the only thing that differs between two of the rows
    assert np.ptp(history.u, axis=0).max() < 15.0 * nugget_sd


def test_a_known_row_proposed_again_keeps_its_functions():
    theta, u = np.array([[0.0, 0.0]]), np.array([[3.0, -1.0], [0.0, 1.0]])
    rows = np.array([[0.0], [2.0]])
    known = known_at(rows, u, theta)
    history = run_forward(
        np.random.default_rng(9), setting_of(rows, u), known, OnePlace(rows[0]), Run(8)
    )
    np.testing.assert_allclose(history.u, np.tile(u[0], (len(history.u), 1)), atol=0.02)


def test_the_order_in_which_rows_became_known_does_not_matter():
    rng = np.random.default_rng(10)
    theta, rows, u = np.array([[0.5, -0.5]]), rng.normal(size=(6, 1)), rng.normal(size=(6, 2))
    histories = []
    for order in (np.arange(6), np.array([3, 5, 0, 2, 1, 4])):
        known = known_at(rows[order], u[order], theta)
        histories.append(
            run_forward(np.random.default_rng(11), setting_of(rows, u), known, LINE, Run(10))
        )
    one, other = histories
    np.testing.assert_array_equal(one.outcomes, other.outcomes)
    np.testing.assert_allclose(one.rows, other.rows)
    np.testing.assert_allclose(one.u, other.u, atol=1e-6)


def process_in_pieces(rng, pieces, n_classes=2):
    """Run the process from nothing for each number of acceptances in turn; statistics of it."""
    theta = np.array([[1.0, 0.0]])
    setting = Setting(np.zeros((1, 1)), np.zeros(1, int), n_classes, PRIOR, LINE)
    rows, u, outcomes = np.zeros((0, 1)), np.zeros((0, n_classes)), np.zeros(0, int)
    for n_accepted in pieces:
        known = unknown_functions(rows, theta, NOTHING, n_classes)
        if len(rows) > 0:
            known = known_at(rows, u, theta)
        history = run_forward(rng, setting, known, LINE, Run(n_accepted))
        rows = np.concatenate([rows, history.rows])
        u = np.concatenate([u, history.u])
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
    known = known_at(rows, u, theta)
    found = {}
    for classes in (True, False):
        runs = [
            run_forward(
                np.random.default_rng([seed, classes]), setting_of(rows, u), known, LINE,
                Run(20, classes=classes),
            )
            for seed in range(800)
        ]  # fmt: skip
        rejected = [run.outcomes == REJECTED for run in runs]
        found[classes] = np.array(
            [
                (np.sum(no), np.sum(np.abs(run.rows[no])), run.u[no].sum())
                for run, no in zip(runs, rejected, strict=True)
            ]
        )
        if not classes:
            accepted = np.concatenate([run.u[run.outcomes >= 0, 0] for run in runs])
            assert np.isnan(accepted).mean() > 0.3
    for one, other in zip(found[True].T, found[False].T):
        assert stats.mannwhitneyu(one, other).pvalue > 1e-6


@pytest.mark.parametrize("n", [3, 40])
def test_a_sea_without_land_ends_with_the_acceptance_rate(n):
    """The functions are −50 wherever the base density proposes."""
    theta, rows, u = np.array([[0.0, 5.0]]), np.zeros((1, 1)), np.full((1, 2), -50.0)
    known = known_at(rows, u, theta)
    with pytest.raises(TooManyRejections, match="accepted 0, a rate of 0") as raised:
        run_forward(np.random.default_rng(13), setting_of(rows, u), known, LINE, Run(n))
    assert "base_density" in str(raised.value)
    n_proposed = int(str(raised.value).split()[1])
    assert n_proposed == most_proposals(n)


def test_candidates_are_so_many_for_each_proposal_and_come_from_the_density():
    """Given n + M proposals they are negative binomial, with mean κ (n + M)."""
    rng = np.random.default_rng(15)
    rows, u, theta = np.zeros((1, 1)), np.zeros((1, 2)), np.array([[0.0, 0.0]])
    known = known_at(rows, u, theta)
    excess, places = [], []
    for _ in range(2000):
        run = Run(5, classes=False, candidate_rate=RATE)
        history = run_forward(rng, setting_of(rows, u), known, LINE, run)
        is_candidate = history.outcomes == CANDIDATE
        n_proposals = np.sum(~is_candidate)
        deviation = np.sqrt(RATE * (1.0 + RATE) * n_proposals)
        excess.append((is_candidate.sum() - RATE * n_proposals) / deviation)
        places.append(history.rows[is_candidate, 0])
        assert np.isfinite(history.u[is_candidate]).all()
        assert history.outcomes[-1] >= 0
    assert abs(np.mean(excess)) < 5.0 / np.sqrt(2000)
    assert np.var(excess) == pytest.approx(1.0, abs=0.2)
    assert stats.kstest(np.concatenate(places), "norm").pvalue > 1e-6
