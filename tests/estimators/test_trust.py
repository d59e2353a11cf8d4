"""The first line of a verdict: whether to trust the fit."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline

from atoll.core.points import points_of
from atoll.estimators import (
    AtollClassifier,
    DPMixtureClassifier,
    GraphGPClassifier,
    InformativeVectorClassifier,
    LaplacianRLSClassifier,
    OrdinalGPClassifier,
    ProbitGPClassifier,
    SSGPClassifier,
    make_preprocessor,
)
from atoll.estimators.trust import (
    CARE,
    FIRST_LINES,
    NO,
    ROWS_ALIKE,
    YES,
    about_single_labels,
    how_far,
    lines_of_trust,
    verdict_of,
)


@pytest.mark.parametrize(
    ("found", "level"),
    [
        ({}, None),
        ({"mixed": True}, YES),
        ({"converged": True, "troubled": False, "tells_little": False}, YES),
        ({"mixed": True, "converged": False}, NO),
        ({"mixed": False, "troubled": True}, NO),
        ({"mixed": True, "tells_little": True}, NO),
        ({"mixed": True, "few_draws": True}, CARE),
        ({"mixed": True, "troubled": True}, CARE),
        ({"mixed": True, "interrupted": True}, CARE),
    ],
)
def test_trust_is_as_far_as_the_worst_of_what_was_found(found, level):
    assert how_far(found) == level
    assert how_far(found, has_remarks=True) == (CARE if level == YES else level)
    assert bool(lines_of_trust({**found, "trust": level})) is (level is not None)


def test_the_first_line_fits_the_level():
    firsts = {
        level: lines_of_trust({"mixed": level != NO, "trust": level})[0]
        for level in (YES, CARE, NO)
    }
    assert "can be trusted" in firsts[YES]
    assert "with care" in firsts[CARE]
    assert firsts[NO].startswith("Do not trust this fit yet")
    little, more = lines_of_trust({"mixed": True, "trust": NO, "interrupted": True})
    assert "labels tell little" in little
    assert more.startswith("Beware: the fit was interrupted")


def test_a_text_of_one_paragraph_is_one_point():
    """As the verdicts of models are that were saved by atoll 0.1."""
    assert points_of("It went well. All rows.") == ["It went well. All rows."]


def cares(model, said):
    """Return whether a verdict is with care, and has a point, which begins with "Beware"."""
    first, *points = points_of(model.diagnostics_["verdict"])
    assert model.diagnostics_["trust"] == CARE
    assert first == FIRST_LINES[CARE]
    return any(point.startswith("Beware: ") and said in point for point in points)


def clouds(n_labels):
    """Return 40 rows of two clouds, of which some have a label, by class."""
    truth = np.array(["noise", "signal"] * 20)
    X = np.random.default_rng(0).normal(size=(40, 2)) + 6.0 * (truth == "signal")[:, None]
    y = np.full(40, None, dtype=object)
    for name, n in n_labels.items():
        y[np.flatnonzero(truth == name)[:n]] = name
    return X, y


def test_what_a_fit_warns_of_is_in_its_verdict():
    X, y = clouds({"noise": 5, "signal": 5})
    frame = pd.DataFrame(X, columns=["a", "b"]).assign(kind=["noise", "signal"] * 20)
    model = make_pipeline(make_preprocessor(), GraphGPClassifier(random_state=0))
    with pytest.warns(UserWarning, match="'kind' is the same as y"):
        model.fit(frame, y)
    assert cares(model[-1], "'kind' is the same as y in all 10 labelled rows")
    numbered = pd.DataFrame(X, columns=["a", "b"]).assign(id=np.arange(40))
    with pytest.warns(UserWarning, match="id"):
        plain = GraphGPClassifier(random_state=0).fit(numbered, y)
    assert cares(plain, "'id'")
    model.fit(frame[["a", "b"]], y)
    assert model[-1].diagnostics_["trust"] == YES


def test_a_class_with_a_single_label_is_no_clean_bill_and_no_warning():
    X, y = clouds({"noise": 5, "signal": 1})
    model = GraphGPClassifier(random_state=0).fit(X, y)
    assert cares(model, "class 'signal' has one label: what is said of it rests on that one row")
    X, y = clouds({"noise": 1, "signal": 1})
    model = GraphGPClassifier(random_state=0).fit(X, y)
    assert cares(model, "every class has one label")
    assert model.diagnostics_["verdict"].count("one label") == 1


def test_what_to_beware_of_does_not_come_before_why_a_fit_is_not_to_be_trusted():
    found = {"mixed": False, "trust": NO, "verdict": "Chains have not mixed.\nAll 9 rows."}
    said = points_of(verdict_of(found, ["class 'a' has one label."]))
    assert said[1:] == ["Chains have not mixed.", "Beware: class 'a' has one label.", "All 9 rows."]


def test_very_many_classes_of_a_single_label_are_not_all_named():
    said = about_single_labels([*"abcdefgh"], [1] * 7 + [2])[0]
    assert "'e' and 2 more have one label each" in said
    assert about_single_labels([3, 4], [2, 2]) == ()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "model",
    [
        AtollClassifier(random_state=0),
        DPMixtureClassifier(n_starts=1, random_state=0),
        InformativeVectorClassifier(),
        OrdinalGPClassifier(classes=["a", "b"], inference="vb"),
        ProbitGPClassifier(inference="vb"),
        SSGPClassifier(random_state=0),
        make_pipeline(make_preprocessor(), GraphGPClassifier(random_state=0)),
    ],
    ids=lambda model: type(model).__name__,
)
def test_rows_that_are_all_equal_are_warned_of_once_and_not_relied_on(model):
    X = pd.DataFrame(np.ones((30, 3)), columns=["x", "y", "z"])
    with pytest.warns(UserWarning, match="no column of X varies: all 30 rows are equal") as said:
        model.fit(X, ["a", "b"] * 4 + [None] * 22)
    found = (model[-1] if hasattr(model, "steps") else model).diagnostics_
    assert found["trust"] == NO
    assert found["verdict"].startswith(ROWS_ALIKE)
    assert points_of(found["verdict"])[1].startswith("Beware: no column of X varies")
    told = [str(one.message) for one in said]
    assert sum("varies" in one or "copies of others" in one for one in told) == 1


def test_a_single_column_that_varies_tells_rows_apart():
    X = np.column_stack([np.ones(30), np.arange(30.0) % 2])
    model = LaplacianRLSClassifier().fit(X, [0, 1] * 4 + [None] * 22)
    assert not model.diagnostics_.get("rows_alike", False)


@pytest.mark.parametrize(
    ("classes", "shown"),
    [
        (np.array(["hen", "owl"]), "'owl'"),
        (np.array([1.0, 2.0]), "2"),
        (np.array(["2021-01-01", "2022-01-01"], "datetime64[D]"), "2022-01-01"),
        (np.array(["2021-01-01", "2022-01-01"], "datetime64[ns]"), "2022-01-01T00:00:00.000000000"),
    ],
)
def test_a_class_of_one_label_is_called_as_in_other_messages(classes, shown):
    assert about_single_labels(classes, [3, 1])[0].startswith(f"class {shown} has one label:")
