from __future__ import annotations

import warnings

import numpy as np
import pytest

from atoll import GraphGPClassifier
from atoll.core.labels import parse_labels
from atoll.core.measured_labels import about_measurement
from atoll.estimators import timing


@pytest.mark.parametrize(
    "codes",
    [
        np.arange(10),
        np.arange(100),
        np.arange(1, 41),
        np.arange(2000, 2020),
        np.repeat(np.arange(1900, 1960), 3),
        np.arange(2700, 6300, 50).astype(str),
    ],
)
def test_codes_of_classes_are_no_measurement(codes):
    assert about_measurement(parse_labels(codes)) is None


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_an_estimator_warns_of_a_measurement_and_fits_it():
    X = np.random.default_rng(0).standard_normal((30, 2))
    model = GraphGPClassifier(n_draws=20, random_state=0)
    with pytest.warns(UserWarning, match="y has 30 different numbers from 100 to 390"):
        model.fit(X, 100 + 10 * np.arange(30))
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="y has")
        model.fit(X, np.arange(30) % 3)


def test_no_part_of_the_rows_of_many_classes_is_fitted_to_tell_the_time(monkeypatch):
    monkeypatch.setattr(timing, "_trial", lambda *given: pytest.fail("a trial"))
    y = np.array([f"c{i % 30}" for i in range(400)], dtype=object)
    assert timing.expected_seconds(GraphGPClassifier(), np.zeros((400, 2)), y) == 0.0
