from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from atoll.active.learner import Query
from atoll.active.stopping import StopAdvice
from atoll.comparison.result import ModelComparison
from atoll.core.shown import aligned
from atoll.diagnostics.wrong_rows import AuditsAlone, ErrorEstimate, KeptError
from atoll.estimators.explanation import Assumption, Explanation
from atoll.estimators.informed import Suspects
from atoll.estimators.row_explanation import NearLabel, RowExplanation
from atoll.reproductions.engine import Report

RESULTS = [
    Query(
        np.array([7, 3]),
        np.array([1.5, np.nan]),
        np.array([False, True]),
        np.array(["ant (52%) or bee (48%)?", "random row, to check the model"], dtype=object),
        np.array([4, 9]),
    ),
    StopAdvice(False, 0.4, "Label <more> rows."),
    KeptError(0.1, 0.0, 0.2, 9, 10, 0.9),
    ErrorEstimate(0.1, 0.2, 3.0, 30, 5, 1, 0.95, AuditsAlone(0.2, 0.5)),
    Suspects(np.array([4]), np.array([0.75]), np.array([0.25, 0.75])),
    RowExplanation(
        np.array(["<a>", "b"]),
        np.array([0.9, 0.1]),
        (NearLabel(3, "<a>", 1, 0.5, 0.8, None),),
        None,
    ),
    Explanation((Assumption("clusters", 0.9, 3.0), Assumption("nothing", 0.1, 0.0)), 8),
    Report([], [], Path("t.csv"), Path("p.md"), None),
]


@pytest.mark.parametrize("result", RESULTS, ids=lambda result: type(result).__name__)
def test_a_result_as_the_last_line_of_a_cell_reads_as_it_prints(result):
    assert repr(result) == str(result)
    assert f"{type(result).__name__}(" not in repr(result)
    html = result._repr_html_()
    assert html.startswith("<div")
    assert not any(strange in html for strange in ("<a>", "<more>", "array("))


def test_one_wrong_row_is_spoken_of_as_one():
    found = ErrorEstimate(0.01, 0.2, 1.2, 126, 5, 1, 0.95, AuditsAlone(0.2, 0.5), 0.02)
    assert str(found).startswith("About 1 of 126 unlabelled rows is wrong (1.0%)")
    assert str(found._replace(errors_left=2.0)).startswith("About 2 of 126 unlabelled rows are")


def test_a_query_says_which_rows_and_why():
    assert str(RESULTS[0]).splitlines() == [
        "2 rows to label, in this order; then update(rows, labels).",
        "  row 7: ant (52%) or bee (48%)?",
        "  row 3: random row, to check the model",
        "Rows 4 and 9 are left to the end: more than half of their cells are blank.",
    ]
    nothing = Query(np.empty(0, int), np.empty(0), np.empty(0, bool))
    assert repr(nothing) == "No row is left to label."
    assert "<td>7</td>" in RESULTS[0]._repr_html_()


def test_a_comparison_is_readable_too():
    assert ModelComparison.__repr__ is Query.__repr__


def test_columns_stand_below_one_another_in_every_script():
    assert aligned(["row", "n"], [["日本", "1"], ["two\nlines", "2"]]) == [
        "row        n",
        "日本       1",
        "two lines  2",
    ]
