"""The search for hyper-parameters, on evidences that are known."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

from atoll.inference.type_two import Evaluation, maximise


class Normal(NamedTuple):
    """A normal prior, of θ or of φ."""

    mean: np.ndarray
    sd: np.ndarray


PRIOR = Normal(np.array([1.0, -2.0]), np.array([0.5, 2.0]))
FAMILY = Normal(np.array([0.5]), np.array([1.5]))
PEAK = np.array([2.0, 1.0, -1.0])


def search(**options):
    """Maximise the evidence −½ |(θ, φ) − PEAK|²; return what was found and where it looked."""
    looked = []

    def evaluate(theta, phi, start):
        x = np.concatenate([theta, phi])
        looked.append(x)
        return Evaluation(-0.5 * float((x - PEAK) @ (x - PEAK)), PEAK - x, None, None)

    return maximise(evaluate, PRIOR, FAMILY, None, **options), looked


def test_the_maximum_of_a_quadratic_evidence_is_that_of_normal_posteriors():
    found, looked = search()
    mean, precision = np.append(PRIOR.mean, FAMILY.mean), np.append(PRIOR.sd, FAMILY.sd) ** -2
    exact = (PEAK + precision * mean) / (1.0 + precision)
    np.testing.assert_allclose(looked[0], mean)
    np.testing.assert_allclose([*found.log_parameters, *found.region_parameters], exact, atol=1e-4)
    assert found.converged


def test_a_search_begins_where_it_is_told_and_ends_at_the_same_place():
    begin = np.array([1.7, 3.0]), np.array([-0.4])
    found, looked = search(begin=begin)
    np.testing.assert_allclose(looked[0], np.concatenate(begin))
    np.testing.assert_allclose(found.log_parameters, search()[0].log_parameters, atol=1e-3)


def test_a_search_that_runs_out_of_iterations_says_so_and_reports_each():
    told = []
    found, _ = search(max_iterations=1, report=lambda number, value: told.append((number, value)))
    assert not found.converged
    assert told == [(1, found.log_evidences[1])]
    assert found.log_evidences[1] >= found.log_evidences[0]
    assert found.log_evidences[1] == pytest.approx(told[-1][1])
