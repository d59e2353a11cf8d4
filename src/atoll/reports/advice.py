"""What to do next, step by step."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from atoll.core.points import points_of
from atoll.estimators.explanation import likely_wrong_in_words
from atoll.reports.words import count, percent, percents

ENOUGH = 0.95  # share of unlabelled rows with a clear class from which on more labels add little
SURE = 0.9  # probability from which on a row's class counts as clear
FEW_ROWS = 50  # with fewer held-out rows, the report cautions that scores are rough
WIDE = 0.2  # width of the accuracy's interval from which on the accuracy is called rough


class State(NamedTuple):
    """What the advice is based on.

    went_well : whether chains mixed and searches converged
    verdict : how inference went
    scores : of held-out labels; None where they were not scored
    by_chance : calibration error that a right model would show
    counts : (K,) labels of each class
    names : (K,) the classes
    probabilities : (u, K) of the unlabelled rows
    n_suggested : rows that the report lists to be labelled
    n_wrong : labels that are more likely wrong than right
    tells_little : whether the labels follow nothing in the rows more than chance would have it
    """

    went_well: bool
    verdict: str
    scores: Any
    by_chance: float
    counts: NDArray[np.intp]
    names: list[str]
    probabilities: NDArray[np.float64]
    n_suggested: int
    n_wrong: int = 0
    tells_little: bool = False


def what_to_do_next(state: State) -> list[str]:
    """Return a few steps: what to see to first, what to label, and when to stop."""
    said = [*_inference(state), *_wrong_labels(state), *_scarce_classes(state)]
    return [*said, *_calibration(state), *_labels(state)]


def _inference(state: State) -> list[str]:
    if state.went_well and state.tells_little:
        return [
            "Do not rely on this fit yet: its labels follow nothing in the rows more than chance "
            "would have it. Look whether the columns can tell the classes, and label more rows."
        ]
    if state.went_well:
        return []
    why = " ".join(points_of(state.verdict)[:2][-1:])  # below the line that says not to trust it
    return [
        "First see to the fit itself: it did not settle, so that every number on this page is "
        f"provisional. {why}"
    ]


def _wrong_labels(state: State) -> list[str]:
    if not state.n_wrong:
        return []
    return [
        f"Look at the labels given: {likely_wrong_in_words(state.n_wrong)}, and "
        "`atoll suspects MODEL` (in Python `suspect_labels()`) lists "
        f"{'it' if state.n_wrong == 1 else 'them'}."
    ]


def _scarce_classes(state: State) -> list[str]:
    scarce = [name for name, n in zip(state.names, state.counts) if n < 2]
    if not scarce:
        return []
    named = ", ".join(scarce[:5]) + (" and others" if len(scarce) > 5 else "")
    return [
        f"Label at least two rows of every class ({named}: fewer so far), so that probabilities "
        "can be tested on labels held out."
    ]


def _calibration(state: State) -> list[str]:
    scores = state.scores
    if scores is None:
        return []
    if scores.calibration_error > state.by_chance:
        return [
            "Do not take the probabilities at face value yet: on held-out labels they were not "
            "calibrated. Try another model (`atoll models` lists them) or check the labels given."
        ]
    low, high = percents(scores.accuracy_low, scores.accuracy_high)
    if scores.accuracy_high - scores.accuracy_low > WIDE:
        return [
            f"So far {count(scores.n_rows, 'held-out label')} put the accuracy anywhere from "
            f"{low} to {high}: too few to rely on."
        ]
    found = "the probabilities may be taken as they are."
    if scores.n_rows < FEW_ROWS:
        found = (
            "nothing speaks against the probabilities, but so few labels would show no more than "
            "a large fault of theirs."
        )
    labels = count(scores.n_rows, "held-out label")
    return [f"{labels} put the accuracy between {low} and {high}, and {found}"]


def _labels(state: State) -> list[str]:
    if not len(state.probabilities):
        return [
            "Every row is labelled: look again at the rows below whose label differs from the "
            "class predicted, and predict new rows."
        ]
    clear = float((state.probabilities.max(axis=1) >= SURE).mean())
    rough = state.scores is None or state.scores.accuracy_high - state.scores.accuracy_low > WIDE
    if clear >= ENOUGH and not rough and state.went_well and not state.tells_little:
        return [
            f"{percent(clear)} of the unlabelled rows have a clear class, so that more labels "
            "would add little: predict, and send rows below a probability you choose to a person."
        ]
    rows = f"the {count(state.n_suggested, 'row')} listed" if state.n_suggested > 1 else "the row"
    return [
        f"Label {rows} under “What to label next”, and fit again; {percent(clear)} of the "
        "unlabelled rows have a clear class now. `atoll next` and `atoll label` go through such "
        "rows one by one and say when to stop."
    ]
