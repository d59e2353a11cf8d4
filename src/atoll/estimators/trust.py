"""Whether a fit can be trusted, in the first line of its verdict."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

YES, CARE, NO = "yes", "with care", "no"
FIRST_LINES = {
    YES: "No trouble was found: this fit can be trusted, as far as it can tell by itself.",
    CARE: "Trust this fit with care: see what to beware of below.",
    NO: "Do not trust this fit yet: the next line says why.",
}
SAYS_LITTLE = "Do not rely on this fit yet: its labels tell little of the classes."
INTERRUPTED = (
    "Beware: the fit was interrupted, and what it had until then was kept. Fix: fit again to the "
    "end."
)


def how_far(found: Mapping[str, Any], has_remarks: bool = False) -> str | None:
    """Return `YES`, `CARE` or `NO`; None where nothing of it is known.

    Parameters
    ----------
    found : `diagnostics_`: "mixed" or "converged", and where they are known "tells_little",
        "troubled", "few_draws" and "interrupted"
    has_remarks : whether the fit warns of something besides
    """
    outcomes = [bool(found[name]) for name in ("mixed", "converged") if name in found]
    if not outcomes:
        return None
    if not all(outcomes) or found.get("tells_little", False):
        return NO
    careful = any(found.get(name, False) for name in ("troubled", "few_draws", "interrupted"))
    return CARE if careful or has_remarks else YES


def lines_of_trust(found: Mapping[str, Any]) -> list[str]:
    """Return what stands first in a verdict, where "trust" is among the diagnostics."""
    level = found.get("trust")
    if level is None:
        return []
    went_well = all(found.get(name, True) for name in ("mixed", "converged"))
    first = SAYS_LITTLE if level == NO and went_well else FIRST_LINES[level]
    return [first, INTERRUPTED] if found.get("interrupted", False) else [first]
