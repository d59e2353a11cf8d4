"""Groups against the exact joint of tiny problems."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import sparse

from atoll.models.average import pooling
from atoll.models.groups import UNKNOWN, correlation_within, group_proba


def some_draws(rng, n_draws, n_rows, n_classes):
    return rng.dirichlet(np.ones(n_classes), size=(n_draws, n_rows))


@pytest.mark.parametrize("n_classes", [2, 3])
def test_groups_have_the_exact_joint_given_that_their_rows_agree(n_classes):
    """Every labelling of all rows is listed; those in which a group's rows differ are left out."""
    rng = np.random.default_rng(n_classes)
    groups = np.array([0, 1, 0, -1, 1, 0])
    p = some_draws(rng, 256, len(groups), n_classes)
    shares = np.full(n_classes, 1 / n_classes)
    found = group_proba(groups, 2, lambda rows, n: p[:, rows], shares, correlation=0.0)
    for group in (0, 1):
        rows = np.flatnonzero(groups == group)
        exact = np.zeros(n_classes)
        for labels in itertools.product(range(n_classes), repeat=len(rows)):
            if len(set(labels)) == 1:
                exact[labels[0]] += p[:, rows, labels].prod(axis=1).mean()
        np.testing.assert_allclose(found[group], exact / exact.sum(), rtol=1e-9)


def test_rows_that_tell_nothing_leave_a_group_the_shares():
    shares = np.array([0.9, 0.1])
    draws = np.tile(shares, (256, 8, 1))
    found = group_proba(np.zeros(8, int), 1, lambda rows, n: draws[:, rows], shares)
    np.testing.assert_allclose(found[0], shares, rtol=1e-9)


def test_near_rows_under_one_function_count_once():
    """Ten rows that every draw classifies alike say no more than one of them."""
    p = np.repeat(np.where(np.arange(256) < 192, 0.999, 0.001)[:, None], 10, axis=1)
    draws = np.stack([p, 1.0 - p], axis=2)
    found = group_proba(np.zeros(10, int), 1, lambda rows, n: draws[:, rows], np.full(2, 0.5))
    assert found[0, 0] == pytest.approx(0.75, abs=0.01)


def test_rows_that_are_correlated_count_less():
    draws = np.tile([0.7, 0.3], (256, 5, 1))
    each = [
        group_proba(
            np.zeros(5, int), 1, lambda rows, n: draws[:, rows], np.full(2, 0.5), correlation=rho
        )[0, 0]
        for rho in (0.0, 0.25, 1.0)
    ]
    odds = 7 / 3
    counts = [5, 2.5, 1]
    np.testing.assert_allclose(each, [odds**m / (1 + odds**m) for m in counts], rtol=1e-9)


def test_what_was_known_of_a_group_goes_on():
    draws = np.full((256, 2, 2), 0.5)
    prior = np.array([[0.2, 0.8]])
    found = group_proba(np.zeros(2, int), 1, lambda rows, n: draws[:, rows], np.full(2, 0.5), prior)
    np.testing.assert_allclose(found, prior, rtol=1e-9)


def test_many_groups_are_asked_in_pieces_with_whole_groups(monkeypatch):
    monkeypatch.setattr("atoll.models.groups.NUMBERS_AT_ONCE", 256 * 2 * 5)
    rng = np.random.default_rng(0)
    groups = rng.integers(0, 7, 40)
    p, asked = some_draws(rng, 256, 40, 2), []

    def draws(rows, n):
        asked.append(groups[rows])
        return p[:, rows]

    found = group_proba(groups, 7, draws, np.full(2, 0.5))
    assert len(asked) > 1
    assert all(set(a).isdisjoint(b) for a, b in itertools.combinations(asked, 2))
    monkeypatch.undo()
    whole = group_proba(groups, 7, lambda rows, n: p[:, rows], np.full(2, 0.5))
    np.testing.assert_allclose(found, whole, rtol=1e-12)


# Shares -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("rare", [0.3, 0.02])
def test_intercepts_give_the_shares_asked_for(n_classes, rare):
    rng = np.random.default_rng(n_classes)
    p = rng.dirichlet(np.full(n_classes, 0.5), size=500)
    shares = np.full(n_classes, (1.0 - rare) / (n_classes - 1))
    shares[0] = rare
    b = pooling.intercepts_for(p, shares)
    np.testing.assert_allclose(pooling.shifted(p, b).mean(axis=0), shares, atol=1e-8)
    assert b.sum() == pytest.approx(0.0, abs=1e-9)


def test_shifted_probabilities_are_near_those_given_the_number_of_rows_of_a_class():
    """Rows independent given what is known: conditioned on their number by listing all labels."""
    p = np.array([0.9, 0.7, 0.6, 0.5, 0.5, 0.4, 0.4, 0.3, 0.2, 0.2, 0.1, 0.1, 0.05, 0.6])
    n, number = len(p), 3
    labels = np.array(list(itertools.combinations(range(n), number)))
    chosen = np.zeros((len(labels), n))
    np.put_along_axis(chosen, labels, 1.0, axis=1)
    mass = np.prod(np.where(chosen == 1, p, 1.0 - p), axis=1)
    exact = mass @ chosen / mass.sum()
    both = np.column_stack([1.0 - p, p])
    found = pooling.shifted(both, pooling.intercepts_for(both, np.array([n - number, number]) / n))
    np.testing.assert_allclose(found[:, 1], exact, atol=0.05)  # less with more rows
    wrong = np.abs(p - exact).max()
    assert wrong > 0.2  # without the shares


def test_shares_that_are_met_already_need_no_intercept():
    p = np.random.default_rng(0).dirichlet([1.0, 2.0, 3.0], size=50)
    np.testing.assert_allclose(pooling.intercepts_for(p, p.mean(axis=0)), 0.0, atol=1e-7)


# How alike the rows of a group are ----------------------------------------------------------------


def clustered(seed, between, n_groups=60, size=8, d=4):
    """Rows of groups of two classes, with their groups and classes; variance one within groups."""
    rng = np.random.default_rng(seed)
    groups = np.repeat(np.arange(n_groups), size)
    class_of = rng.integers(0, 2, n_groups)
    centres = between * rng.standard_normal((n_groups, d)) + 3.0 * class_of[:, None]
    return centres[groups] + rng.standard_normal((len(groups), d)), groups, class_of[groups]


@pytest.mark.parametrize("between", [0.0, 0.5, 1.0, 4.0])
def test_the_correlation_of_groups_is_the_share_of_variance_between_them(between):
    found = [correlation_within(*clustered(seed, between)) for seed in range(10)]
    assert np.mean(found) == pytest.approx(between**2 / (1.0 + between**2), abs=0.03)


def test_the_correlation_of_one_column_is_that_of_analysis_of_variance():
    rng = np.random.default_rng(0)
    sizes, class_of = np.array([3, 1, 4, 2, 5]), np.array([0, 0, 1, 1, 1])
    groups = np.repeat(np.arange(5), sizes)
    x, codes = rng.standard_normal(15) + groups, class_of[groups]
    groups_of = [x[groups == g] for g in range(5)]
    classes_of = [x[codes == k] for k in range(2)]
    within = sum(((part - part.mean()) ** 2).sum() for part in groups_of) / (15 - 5)
    between = sum(
        len(part) * (part.mean() - x[codes == k].mean()) ** 2
        for part, k in zip(groups_of, class_of)
    ) / (5 - 2)
    size = (15 - (9 + 1) / len(classes_of[0]) - (16 + 4 + 25) / len(classes_of[1])) / (5 - 2)
    expected = (between - within) / (between + (size - 1) * within)
    assert 0 < expected < 1
    assert correlation_within(x[:, None], groups, codes) == pytest.approx(expected)
    order = rng.permutation(15)
    again = correlation_within(5.0 - 3.0 * x[order, None], groups[order], codes[order])
    assert again == pytest.approx(expected)


def test_the_correlation_of_sparse_rows_is_that_of_dense_ones_of_like_scale():
    X, groups, codes = clustered(0, 1.0)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    expected = correlation_within(X, groups, codes)
    assert correlation_within(sparse.csr_array(X), groups, codes) == pytest.approx(expected)


def test_a_group_a_class_cannot_tell_how_alike_its_rows_are():
    two = np.repeat([0, 1], 9)
    rows = np.random.default_rng(1).random((18, 2)) + two[:, None]
    assert correlation_within(rows, two, two) == UNKNOWN
    assert correlation_within(rows, np.arange(18), two) == UNKNOWN  # no group has two rows


def test_equal_rows_are_wholly_alike():
    groups = np.repeat(np.arange(6), 3)
    rows = np.random.default_rng(0).standard_normal((6, 2))[groups]
    assert correlation_within(rows, groups, groups % 2) == 1.0
    assert correlation_within(np.ones((18, 2)), groups, groups % 2) == 1.0
