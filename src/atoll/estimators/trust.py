"""Whether a fit can be trusted, in the first line of its verdict."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from atoll.core.points import in_points
from atoll.plotting.palette import class_names

YES, CARE, NO = "yes", "with care", "no"
FIRST_LINES = {
    YES: "No trouble was found: this fit can be trusted, as far as it can tell by itself.",
    CARE: "Trust this fit with care: see what to beware of below.",
    NO: "Do not trust this fit yet: the next line says why.",
}
SAYS_LITTLE = "Do not rely on this fit yet: its labels tell little of the classes."
ROWS_ALIKE = "Do not rely on this fit: no column varies, and so no row can be told from another."
MOST_NAMED = 5  # classes of a single label
INTERRUPTED = (
    "Beware: the fit was interrupted, and what it had until then was kept. Fix: fit again to the "
    "end."
)


def how_far(found: Mapping[str, Any], has_remarks: bool = False) -> str | None:
    """Return `YES`, `CARE` or `NO`: how far to trust a fit; None if that is not known.

    Parameters
    ----------
    found : `diagnostics_`: "mixed" or "converged", and if they are known "tells_little",
        "rows_alike", "troubled", "few_draws" and "interrupted"
    has_remarks : whether the fit warns of anything else
    """
    outcomes = [bool(found[name]) for name in ("mixed", "converged") if name in found]
    if not outcomes:
        return None
    if not all(outcomes) or any(found.get(name, False) for name in ("tells_little", "rows_alike")):
        return NO
    careful = any(found.get(name, False) for name in ("troubled", "few_draws", "interrupted"))
    return CARE if careful or has_remarks else YES


def verdict_of(found: Mapping[str, Any], beware: Sequence[str] = ()) -> str:
    """Return a verdict in points: the line on trust, what to beware of, and the rest.

    Parameters
    ----------
    found : `diagnostics_`, with "trust" if that is known
    beware : what the fit itself does not know, such as warnings about its data
    """
    first, lines = lines_of_trust(found), str(found["verdict"]).split("\n")
    others = [f"Beware: {said}" for said in beware]
    says_why = found.get("trust") == NO and not found.get("rows_alike", False)
    at = 1 if says_why or not first else 0
    return in_points([*first, *lines[:at], *others, *lines[at:]])


def about_single_labels(classes: Iterable[Any], counts: Iterable[int]) -> tuple[str, ...]:
    """Say what to beware of if classes have a single label.

    Examples
    --------
    >>> about_single_labels(["noise", "signal"], [4, 1])[0].partition(":")[0]
    "class 'signal' has one label"
    >>> about_single_labels(["noise", "signal"], [1, 1])
    ('every class has one label, and all rests on those. Fix: label more rows.',)
    """
    labels = [(name, int(n)) for name, n in zip(classes, counts) if n > 0]
    single = [name for name, n in labels if n == 1]
    if not single:
        return ()
    if len(single) == len(labels):
        return ("every class has one label, and all rests on those. Fix: label more rows.",)
    names = [
        repr(shown) if isinstance(name, str) else shown
        for name, shown in zip(single, class_names(single))
    ]
    if len(names) == 1:
        return (
            f"class {names[0]} has one label: what is said of it rests on that one row. Fix: label "
            "more rows of it.",
        )
    if len(names) > MOST_NAMED:
        names[MOST_NAMED:] = [f"{len(names) - MOST_NAMED} more"]
    return (
        f"classes {', '.join(names[:-1])} and {names[-1]} have one label each: what is said of "
        "each rests on that one row. Fix: label more rows of them.",
    )


def lines_of_trust(found: Mapping[str, Any]) -> list[str]:
    """Return the first lines of a verdict, if "trust" is among the diagnostics."""
    level = found.get("trust")
    if level is None:
        return []
    went_well = all(found.get(name, True) for name in ("mixed", "converged"))
    first = SAYS_LITTLE if level == NO and went_well else FIRST_LINES[level]
    first = ROWS_ALIKE if found.get("rows_alike", False) else first
    return [first, INTERRUPTED] if found.get("interrupted", False) else [first]
