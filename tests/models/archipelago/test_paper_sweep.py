"""The paper's moves: their acceptance ratios are those of the joint, and the paper's formulas."""

from __future__ import annotations

import numpy as np
import pytest

from atoll.core.densities import Gaussian
from atoll.kernels.hyperparameters import kernel_prior
from atoll.models.archipelago import UNLABELLED, Setting, joint, paper_sweep, sample_prior
from atoll.models.archipelago.functions import mixing_matrix, unwhiten
from atoll.models.archipelago.state import make_state

LINE = Gaussian(np.zeros(1), np.eye(1))
PRIOR = kernel_prior("isotropic", np.array([[-1.0], [1.0]]))._replace(
    mean=np.array([0.4, -0.3]), sd=np.array([0.4, 0.6])
)
ALWAYS = 1.0 - 1e-12  # a variate with which any proposal is accepted
OPTIONS = {"own_kernels": True, "dependent": True}


class Certain:
    """A generator whose uniform variates are given, and whose other draws are a seed's."""

    def __init__(self, *uniforms, seed=0, chosen=0):
        self.uniforms, self.rng, self.chosen = list(uniforms), np.random.default_rng(seed), chosen

    def random(self):
        return self.uniforms.pop(0)

    def integers(self, n):
        return self.chosen

    def standard_normal(self, size=None):
        return self.rng.standard_normal(size)


@pytest.fixture(scope="module")
def drawn():
    """A setting, and a state that made its rows: the first with a rejection that may well stay."""
    for seed in range(100):
        rng = np.random.default_rng(seed)
        rows, labels, state = sample_prior(rng, PRIOR, LINE, 5, 2, **OPTIONS)
        M = len(state.rejections)
        if M > 1 and ratio_of_removal(state, 1) < 0.95:
            break
    codes = np.where(np.arange(5) < 2, labels, UNLABELLED)
    return Setting(rows, codes, 2, PRIOR, LINE, **OPTIONS), state


def ratio_of_removal(state, index):
    """Equation 10 with b = 1/2, five rows."""
    M = len(state.rejections)
    return M * (1.0 + total_at(state, 5 + index)) / (M + 4)


def log_conditional(setting, state, index):
    """log density of π and of the functions at one rejection given all else, as proposed."""
    rows = np.delete(state.rejections, index, axis=0)
    place = len(setting.inputs) + index
    u = unwhiten(state.factors, state.whitened)
    less = make_state(
        setting, rows, np.delete(u, place, axis=0), state.log_parameters, state.mixing
    )
    functions = [
        sum(joint.log_functions(L, w[:, None]) for L, w in zip(s.factors, s.whitened.T))
        - s.whitened.size * joint.HALF_LOG_2PI
        for s in (state, less)
    ]
    row = state.rejections[index : index + 1]
    return functions[0] - functions[1] + float(LINE.log_density(row)[0]), less


def total_at(state, place):
    """Λ at one of the rows."""
    g = mixing_matrix(state.mixing, 2) @ unwhiten(state.factors, state.whitened)[place]
    return np.exp(g).sum()


def test_removals_have_the_ratio_of_equation_10_and_of_the_joint(drawn):
    setting, state = drawn
    M = len(state.rejections)
    proposal, less = log_conditional(setting, state, 1)
    ratio = np.exp(joint.log_joint(setting, less) - joint.log_joint(setting, state) + proposal)
    assert ratio == pytest.approx(ratio_of_removal(state, 1), rel=1e-5)
    assert ratio < 1.0
    for factor, is_removed in ((0.999, True), (1.001, False)):
        rng = Certain(1.0 - ratio * factor, 0.9, chosen=1)
        moved = paper_sweep.add_or_remove(rng, setting, state)
        assert (len(moved.rejections) == M - 1) == is_removed


def test_additions_have_the_ratio_of_equation_9_and_of_the_joint(drawn):
    setting, state = drawn
    M = len(state.rejections)
    for seed in range(100):
        grown = paper_sweep.add_or_remove(Certain(ALWAYS, 0.1, seed=seed), setting, state)
        assert len(grown.rejections) == M + 1
        equation_9 = (M + 5) / (M + 1) / (1.0 + total_at(grown, 5 + M))
        if equation_9 < 0.95:
            break
    proposal, _ = log_conditional(setting, grown, M)
    ratio = np.exp(joint.log_joint(setting, grown) - joint.log_joint(setting, state) - proposal)
    assert ratio == pytest.approx(equation_9, rel=1e-5)
    assert ratio < 1.0
    for factor, is_added in ((0.999, True), (1.001, False)):
        rng = Certain(1.0 - ratio * factor, 0.1, seed=seed)
        moved = paper_sweep.add_or_remove(rng, setting, state)
        assert (len(moved.rejections) == M + 1) == is_added


def test_relocations_have_the_ratio_of_equation_11(drawn):
    """One rejection alone: it moves just below the ratio, and stays just above."""
    setting, state = drawn
    u = unwhiten(state.factors, state.whitened)[[0, 1, 2, 3, 4, 6]]
    one = make_state(setting, state.rejections[1:2], u, state.log_parameters, state.mixing)
    for seed in range(100):
        moved = paper_sweep.relocate(Certain(ALWAYS, seed=seed), setting, one)
        ratio = (1.0 + total_at(one, 5)) / (1.0 + total_at(moved, 5))
        if ratio < 0.95:
            break
    assert ratio < 1.0
    for factor, is_moved in ((0.999, True), (1.001, False)):
        rng = Certain(1.0 - ratio * factor, seed=seed)
        after = paper_sweep.relocate(rng, setting, one)
        assert (after.rejections[0, 0] == moved.rejections[0, 0]) == is_moved


def test_a_state_without_rejections_has_none_to_remove(drawn):
    setting, state = drawn
    u = unwhiten(state.factors, state.whitened)[:5]
    empty = make_state(setting, state.rejections[:0], u, state.log_parameters, state.mixing)
    assert paper_sweep.add_or_remove(Certain(0.5, 0.9), setting, empty) is empty
