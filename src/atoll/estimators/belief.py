"""What labels that were not shown to a fit say of its class probabilities."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from atoll.estimators.shell import Fit
from atoll.models.belief import HeldOut, doubted
from atoll.models.calibration import Calibration, Evidence
from atoll.models.foretold import Foretold

LEAST_BELIEF = 0.7  # belief in a fit's class probabilities below which the verdict warns
FULL_BELIEF = 0.995  # from this belief on, they are said to count in full
LEAST_HELD_OUT = 8  # labels held out; a machine trained on half of fewer is often wrong by chance
NOT_BORNE_OUT = (
    "Labels do not bear out what it assumes: label more rows, check whether the labels follow "
    "these features, or use AtollClassifier, which weighs other assumptions as well."
)


def as_plain(held_out: HeldOut) -> dict[str, Any]:
    """Return what labels held out say as `diagnostics_` holds it."""
    told = held_out._asdict() | {"shares": held_out.shares.tolist()}
    return {name: value for name, value in told.items() if name != "foretold"}


def in_words(held_out: HeldOut, who: str = "the model", *, counts: bool = True) -> str:
    """Say how labels held out were foretold, and how far the word of who foretold them counts.

    Parameters
    ----------
    counts : whether class probabilities are believed as far as `held_out` says, and no further
    """
    b, wrong = held_out.belief, round(held_out.error * held_out.n_labels)
    said = (
        f"Of {held_out.n_labels} labels held out in turn {who} had {wrong} wrong, at a "
        f"log-loss of {held_out.log_loss:.2f} (the classes' shares alone: "
        f"{held_out.log_loss_of_shares:.2f})"
    )
    if counts:
        said += ": its word counts "
        said += "in full" if b >= FULL_BELIEF else f"{b:.0%}, the shares the rest"
    return f"{said}. {NOT_BORNE_OUT}" if b < LEAST_BELIEF else f"{said}."


def with_doubt(fit: Fit, held_out: HeldOut | None) -> Fit:
    """Return the fit with the doubt that labels held out cast on its classes, and told of it."""
    if held_out is None:
        return fit
    foretold = held_out.foretold
    if foretold is not None:
        foretold = foretold._replace(proba=doubted(foretold.proba, held_out.doubt))
    doubting = doubting_itself(fit, held_out.doubt)
    return _telling(
        doubting, as_plain(held_out), in_words(held_out), held_out.belief < LEAST_BELIEF, foretold
    )


def doubting_itself(fit: Fit, doubt: NDArray[np.float64]) -> Fit:
    """Return the fit with a doubt (K,) in its classes."""
    rows = fit.transduction
    return fit._replace(
        posterior=fit.posterior._replace(doubt=doubt),
        transduction=None if rows is None else doubted(rows, doubt),
    )


def with_remark(fit: Fit, said: str) -> Fit:
    """Return the fit with a sentence more in its verdict."""
    verdict = f"{fit.diagnostics['verdict']}\n{said}"
    return fit._replace(diagnostics={**fit.diagnostics, "verdict": verdict})


def with_word(fit: Fit, held_out: HeldOut | None) -> Fit:
    """Return the fit, its classes as they are, told of what labels held out say of it."""
    if held_out is None:
        return fit
    said = in_words(held_out, counts=False)
    return _telling(
        fit, as_plain(held_out), said, held_out.belief < LEAST_BELIEF, held_out.foretold
    )


def with_calibration(fit: Fit, calibration: Calibration, machine: Evidence) -> Fit:
    """Return the fit of a machine, told how far labels held out bear its decisions out."""
    if machine.n_labels == 0:
        return fit
    b, wrong = calibration.belief, round(machine.error * machine.n_labels)
    said = (
        f"Of {machine.n_labels} labels held out in turn the machine had {wrong} wrong: with "
        f"probability {b:.0%} its decisions say something of the classes."
    )
    doubts = b < LEAST_BELIEF and machine.n_labels >= LEAST_HELD_OUT
    said = f"{said} {NOT_BORNE_OUT}" if doubts else said
    found = {"belief": b, "n_labels": machine.n_labels, "error": machine.error}
    # They chose the machine's settings, which flatters it: as audits they would promise too much.
    return _telling(fit, found, said, doubts, None)


def _telling(
    fit: Fit, found: dict[str, Any], said: str, warns: bool, foretold: Foretold | None
) -> Fit:
    """Return the fit with what was found on labels held out in its diagnostics and its verdict."""
    told = with_remark(fit, said)
    return told._replace(
        diagnostics={**told.diagnostics, "held_out": found},
        attributes={**fit.attributes, "foretold_": foretold},
        remarks=fit.remarks + ((said,) if warns else ()),
    )
