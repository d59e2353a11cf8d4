"""What labels that were not shown to a fit say of its class probabilities."""

from __future__ import annotations

from typing import Any

from atoll.estimators.shell import Fit
from atoll.models.belief import HeldOut, doubted

LEAST_BELIEF = 0.7  # belief in a fit's class probabilities below which the verdict warns
FULL_BELIEF = 0.995  # from this belief on, they are said to count in full


def as_plain(held_out: HeldOut) -> dict[str, Any]:
    """Return what labels held out say as `diagnostics_` holds it."""
    return held_out._asdict() | {"shares": held_out.shares.tolist()}


def in_words(held_out: HeldOut, who: str = "the model") -> str:
    """Say how labels held out were foretold, and how far the word of who foretold them counts."""
    b, wrong = held_out.belief, round(held_out.error * held_out.n_labels)
    said = (
        f"Of {held_out.n_labels} labels held out in turn {who} had {wrong} wrong, at a "
        f"log-loss of {held_out.log_loss:.2f} (the classes' shares alone: "
        f"{held_out.log_loss_of_shares:.2f}): its word counts "
        + ("in full." if b >= FULL_BELIEF else f"{b:.0%}, the shares the rest.")
    )
    if b < LEAST_BELIEF:
        said += (
            " Labels do not bear out what it assumes: label more rows, check whether the labels "
            "follow these features, or use AtollClassifier, which weighs other assumptions as well."
        )
    return said


def with_doubt(fit: Fit, held_out: HeldOut | None) -> Fit:
    """Return the fit with the doubt that labels held out cast on its classes, and told of it."""
    if held_out is None:
        return fit
    b, said = held_out.belief, in_words(held_out)
    rows = fit.transduction
    return fit._replace(
        posterior=fit.posterior._replace(doubt=held_out.doubt),
        transduction=None if rows is None else doubted(rows, held_out.doubt),
        diagnostics={
            **fit.diagnostics,
            "held_out": as_plain(held_out),
            "verdict": f"{fit.diagnostics['verdict']}\n{said}",
        },
        remarks=fit.remarks + ((said,) if b < LEAST_BELIEF else ()),
    )
