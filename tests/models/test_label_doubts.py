"""Suspicion of labels against quadrature."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats
from scipy.special import ndtr

from atoll.models.average import label_doubts
from atoll.models.average.label_doubts import (
    LabelRecord,
    compare,
    doubts,
    held_out,
    number_chances,
    predicted,
)

V = np.array([[1.0, 0.3], [0.9, 0.4], [1.1, 0.2], [0.9, -0.3], [-0.7, 0.5]])
CODES = np.array([1, 1, 1, 0, 0])


def record(amplitudes=(4.0, 40.0), **more):
    A = np.array(amplitudes)
    return LabelRecord(
        np.arange(5), CODES, 2, np.arange(5), (V,), (A,), (np.zeros(len(A)),), -np.inf, 1e-9
    )._replace(**more)


def suspicion(found):
    return doubts(found).probabilities


def on_grid(amplitude, V=V, codes=CODES, n_nodes=120):
    """Class probabilities of every row at points of a, and their masses."""
    nodes, masses = np.polynomial.hermite_e.hermegauss(n_nodes)
    first, second = np.meshgrid(nodes, nodes, indexing="ij")
    a = np.sqrt(amplitude) * np.stack([first.ravel(), second.ravel()])
    one = ndtr(V @ a)
    return np.where(codes[:, None] == 1, one, 1.0 - one), np.outer(masses, masses).ravel()


def test_suspicion_is_that_of_quadrature_over_functions_amplitudes_and_noise():
    wrong_and, total = np.zeros(5), 0.0
    for amplitude in (4.0, 40.0):
        right, mass = on_grid(amplitude)
        for e in label_doubts.WRONG_SHARES:
            each = (1 - e) * right + e * (1 - right)
            joint = mass * each.prod(axis=0)
            total += joint.sum()
            wrong_and += (joint * e * (1 - right) / each).sum(axis=1)
    exact = wrong_and / total
    found = suspicion(record())
    np.testing.assert_allclose(found, exact, atol=0.03)
    assert np.argmax(found) == np.argmax(exact) == 3


def exact_chances(features, codes):
    """Probability of each number of wrong labels, by quadrature over functions."""
    n = len(codes)
    exact = np.zeros(n + 1)
    for amplitude in (4.0, 40.0):
        right, mass = on_grid(amplitude, features, codes, n_nodes=60)
        for e in label_doubts.WRONG_SHARES:
            terms = np.zeros((n + 1, len(mass)))
            terms[0] = mass
            for own in right:  # joint with the labels so far and so many wrong ones
                terms[1:] = terms[1:] * (1 - e) * own + terms[:-1] * e * (1 - own)
                terms[0] *= (1 - e) * own
            exact += terms.sum(axis=1)
    return exact / exact.sum()


@pytest.mark.parametrize("seed", range(2))
def test_the_number_of_wrong_labels_has_the_limits_of_quadrature(seed):
    rng = np.random.default_rng(seed)
    features = rng.standard_normal((40, 2))
    codes = (features @ [1.0, 1.0] > 0).astype(int)
    codes[:5] = 1 - codes[:5]
    made = record(rows=np.arange(40), codes=codes, part=np.arange(40), features=(features,))
    found = doubts(made)
    exact = exact_chances(features, codes)
    assert np.abs(np.cumsum(found.chances - exact)).max() < 0.1
    assert found.chances @ np.arange(41) == pytest.approx(exact @ np.arange(41), abs=0.4)
    # As if each label were wrong or right by itself, the limits would be too narrow.
    alone = number_chances(found.probabilities)
    assert deviation(found.chances) == pytest.approx(deviation(exact), rel=0.15)
    assert deviation(alone) < deviation(exact)


def deviation(chances):
    numbers = np.arange(len(chances))
    return np.sqrt(chances @ numbers**2 - (chances @ numbers) ** 2)


def test_numbers_of_events_are_binomial_where_all_are_as_likely():
    for n, p in ((50, 0.2), (400, 0.01), (3, 1.0), (5, 0.0)):
        found = number_chances(np.full(n, p))
        np.testing.assert_allclose(found, stats.binom.pmf(np.arange(n + 1), n, p), atol=1e-12)


def test_held_out_probabilities_are_those_without_the_label():
    exact = np.zeros(5)
    for i in range(5):
        given, both = 0.0, 0.0
        for amplitude in (4.0, 40.0):
            right, mass = on_grid(amplitude)
            others = mass * np.delete(right, i, axis=0).prod(axis=0)
            given += others.sum()
            both += (others * right[i]).sum()
        exact[i] = both / given
    found = held_out(record())[np.arange(5), CODES]
    # The sites of the others know of the label that is left out: EP's own error.
    np.testing.assert_allclose(found, exact, atol=0.06)


def without(made, i):
    """The class probabilities of a row by the record that never had its label."""
    kept = np.delete(np.arange(len(made.codes)), i)
    less = made._replace(
        rows=made.rows[kept],
        codes=made.codes[kept],
        part=np.arange(len(kept)),
        features=tuple(values[kept] for values in made.features),
        weights=None if made.weights is None else made.weights[kept],
    )
    return predicted(less, [values[[i]] for values in made.features])[0]


@pytest.mark.parametrize("weight", [0.3, 3.0, 10.0])
def test_a_label_that_is_held_out_is_so_with_all_its_weight(weight):
    apart = np.zeros(2)
    for seed in range(2):
        rng = np.random.default_rng(seed)
        views = tuple(rng.normal(size=(14, 2)) for _ in range(4))  # the first tells
        codes = (views[0][:, 0] + 0.8 * rng.normal(size=14) > 0).astype(int)
        made = LabelRecord(
            np.arange(14), codes, 2, np.arange(14), views, (np.array([0.3, 3.0, 30.0]),) * 4,
            (np.zeros(3),) * 4, 0.0, 1e-9, np.full(14, weight),
        )  # fmt: skip
        truly = np.array([without(made, i) for i in range(14)])
        as_if_once = compare(made, made.infer()).held_out(codes)
        apart += [np.abs(found - truly).mean() for found in (held_out(made), as_if_once)]
    assert apart[0] < 0.5 * apart[1]


def test_held_out_labels_of_weight_one_are_those_without_weights():
    made = record(log_prior_of_nothing=0.0)
    np.testing.assert_array_equal(held_out(made), held_out(made._replace(weights=np.ones(5))))


def test_labels_beside_the_part_are_held_against_it():
    found = record(part=np.array([0, 2, 4]))
    beside = held_out(found)[1]
    assert beside[1] > 0.7
    p = suspicion(found)
    assert p[3] > 3 * p[1]


def test_a_doubted_label_counts_less_against_others():
    plain = suspicion(record())
    weights = np.array([0.05, 0.05, 0.05, 1.0, 1.0])
    assert suspicion(record(weights=weights))[3] < 0.8 * plain[3]


@pytest.mark.parametrize("n_classes", [3])
def test_with_several_classes_wrong_labels_come_first(n_classes):
    rng = np.random.default_rng(0)
    codes = np.repeat(np.arange(n_classes), 6)
    features = 1.5 * np.eye(n_classes)[codes] + 0.1 * rng.standard_normal((len(codes), n_classes))
    codes[[2, 9]] = [1, 2]
    A = np.array([10.0])
    n = len(codes)
    made = LabelRecord(
        np.arange(n), codes, n_classes, np.arange(n), (features,), (A,), (np.zeros(1),), -5.0, 1e-6
    )
    assert set(np.argsort(-suspicion(made))[:2]) == {2, 9}


def test_labels_beside_the_part_are_doubted_by_bayes_rule(monkeypatch):
    e = 0.12
    monkeypatch.setattr(label_doubts, "WRONG_SHARES", (e,))
    part = np.array([0, 1, 3, 4])
    found = record(part=part, features=(V,))
    own = held_out(found)[2, CODES[2]]
    expected = e * (1 - own) / ((1 - e) * own + e * (1 - own))
    assert suspicion(found)[2] == pytest.approx(expected, rel=1e-9)


def test_what_every_assumption_says_of_a_label_sums_to_one():
    found = record(log_prior_of_nothing=0.0)
    proba = label_doubts.compare(found, found.infer(0.0)).proba
    assert len(proba) == 3  # two amplitudes, and nothing
    np.testing.assert_allclose(proba.sum(axis=2), 1.0, rtol=1e-9)


@pytest.mark.parametrize("shift", [0.0, -2000.0, 2000.0])
def test_rows_beside_the_part_are_averaged_over_views_and_chance(shift):
    """The last of the weights is that of chance, with the part's mean; others are of views."""
    log_weights = np.log([0.2, 0.1, 0.4, 0.3])
    proba = np.random.default_rng(0).dirichlet(np.ones(3), size=(4, 6))
    found = label_doubts.Compared(log_weights + shift, proba, np.zeros(4))

    class Views:
        first = (0, 2, 3)

        def head(self, i, shares):
            at = [[0.7, 0.2, 0.1], [0.1, 0.1, 0.8]][i]
            expected = [[2 / 3, 1 / 3], [1.0]][i]
            np.testing.assert_allclose(shares, expected)
            return SimpleNamespace(proba=lambda values: np.tile(at, (len(values), 1)))

    ours = label_doubts.outside_part(Views(), found, [np.zeros((2, 1))] * 2, 2)
    views = 0.3 * np.array([0.7, 0.2, 0.1]) + 0.4 * np.array([0.1, 0.1, 0.8])
    np.testing.assert_allclose(ours, [views + 0.3 * proba[3].mean(axis=0)] * 2)
