"""Families of regions: what they say for many parameters and one function."""

from __future__ import annotations

import numpy as np
import pytest

from atoll.core.regions import fixed_regions
from atoll.likelihoods import multinomial_probit, null_category, ordinal, probit


def families(rng, n, n_classes, is_labelled):
    """Every kind of family, with the number of its functions."""
    codes = rng.integers(0, n_classes, n)
    rates = tuple(rng.uniform(0.1, 0.9, n_classes))
    for width in (0.0, 0.3):
        yield 1, ordinal.family(codes, is_labelled, n_classes, width, 2.0)
    for width in (None, 0.3):
        for given, free in ((None, False), (rates, False), (None, True)):
            yield (
                (1 if n_classes == 2 else n_classes),
                null_category.family(
                    codes, is_labelled, n_classes, width, given, sample_missing_rates=free
                ),
            )
    if n_classes == 2:
        yield 1, fixed_regions(probit.regions(codes))


@pytest.mark.parametrize("n_classes", [2, 3, 4])
@pytest.mark.parametrize("spread", [1.0, 30.0])  # far out there is next to no mass
def test_totals_given_a_function_are_those_of_the_regions(n_classes, spread):
    rng = np.random.default_rng([5, n_classes])
    for labelled in (0.0, 0.5, 1.0):
        for F, family in families(rng, 12, n_classes, rng.random(12) < labelled):
            f = spread * rng.standard_normal(12 if F == 1 else (12, F))
            total = family.given(f)
            q = len(family.mean)
            start = family.mean + family.sd * rng.standard_normal(q)
            # One entry at a time, as a sampler moves, so that what is kept is used; and back.
            for j in [*range(q), 0] if q else []:
                moved = start.copy()
                moved[j] += rng.standard_normal()
                for phi in (moved, start):
                    expected = family.at(phi).total(f)
                    assert total(phi) == pytest.approx(expected, rel=1e-11, abs=1e-11)
            assert total(start) == pytest.approx(family.at(start).total(f), rel=1e-11, abs=1e-11)


def test_rates_of_missing_labels_are_a_priori_as_likely_above_a_half_as_below():
    codes, seen = np.array([0, 1, 2]), np.ones(3, bool)
    for width in (None, 1.0):
        family = null_category.family(codes, seen, 3, width, sample_missing_rates=True)
        rates = null_category.missing_rates_at(family.mean, 3)
        np.testing.assert_array_equal(rates, [0.5, 0.5, 0.5])


def test_three_classes_in_closed_form_are_those_of_the_grid():
    rng = np.random.default_rng(0)
    mean = 3.0 * rng.standard_normal((500, 3))
    ties = [[0, 0, 0], [1, 1, 0], [0, 1, 0], [0, 0, -50], [1e9, 1e9, 0], [1e-300, 0, 0]]
    mean = np.concatenate([mean, np.array(ties, dtype=float)])
    variance = 4.0 * rng.random(len(mean))
    found = multinomial_probit.three_class_probabilities(mean, variance)
    exact = np.exp(multinomial_probit.log_class_probabilities(mean, variance))
    np.testing.assert_allclose(found, exact, atol=2e-15)
    np.testing.assert_allclose(found.sum(axis=1), 1.0, atol=1e-15)
    np.testing.assert_allclose(
        found, multinomial_probit.class_probabilities(mean, variance), atol=1e-11
    )
