"""The first line of a verdict: whether to trust the fit."""

from __future__ import annotations

import pytest

from atoll.core.points import points_of
from atoll.estimators.trust import CARE, NO, YES, how_far, lines_of_trust


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
