"""Whether labelling may stop, and why."""

from __future__ import annotations

from typing import NamedTuple

from atoll.core.shown import readable
from atoll.diagnostics.wrong_rows import ErrorBelief, ErrorEstimate

LEAST_AUDITS = 5
AUDIT = "An audit is a row drawn at random, whose label checks what was predicted."


@readable
class StopAdvice(NamedTuple):
    """Whether labelling may stop.

    stop : whether the target is reached
    probability : that the error is at most the target; nan without a target or a model
    reason : in words
    """

    stop: bool
    probability: float
    reason: str

    def __str__(self) -> str:
        return self.reason


def advise(
    estimate: ErrorEstimate, belief: ErrorBelief | None, target_error: float | None
) -> StopAdvice:
    """Return whether labelling may stop.

    Parameters
    ----------
    estimate : of the error
    belief : about it; None where there is no model
    target_error : share of wrong rows to reach; None where there is no such wish
    """
    if estimate.n_unlabelled == 0:
        return StopAdvice(True, 1.0, "Every row has a label.")
    if belief is None:
        return StopAdvice(False, float("nan"), "There is no model yet; label more rows.")
    if target_error is None:
        return StopAdvice(False, float("nan"), "No target_error is set; the error is estimated.")
    probability = belief.at_most(target_error)
    sure = f"at most {100 * target_error:.3g}% of the unlabelled rows are wrong"
    chance = f"with probability {probability:.1%}"
    missing = LEAST_AUDITS - estimate.n_audits
    if missing > 0:
        more = f"{missing} more audit{'s' * (missing > 1)}"
        said = f"{chance.capitalize()} {sure}; {more} must confirm it. {AUDIT}"
        return StopAdvice(False, probability, said)
    if probability >= estimate.confidence:
        how = f"{estimate.n_wrong} of {estimate.n_audits} audits were wrong"
        return StopAdvice(True, probability, f"You may stop: {chance} {sure}; {how}.")
    wanted = f"{estimate.confidence:.0%} is wanted; label more rows"
    return StopAdvice(False, probability, f"{chance.capitalize()} {sure}: {wanted}.")
