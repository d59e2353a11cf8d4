"""What labels that were not shown say of Archipelago's class probabilities."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from atoll.core.labels import PartialLabels
from atoll.diagnostics.stacking import left_out_weights
from atoll.estimators.shell import Fit
from atoll.inference.chains import Record
from atoll.models.archipelago.belief import (
    CHAINS_BELIEVED,
    HeldOut,
    class_shares,
    doubted,
    weigh,
)
from atoll.models.calibration import can_be_held_out

Array = NDArray[np.float64]

LEAST_BELIEF = 0.5  # belief in the islands' class probabilities below which the verdict warns
FULL_BELIEF = 0.995  # from this belief on, they are said to count in full


def left_out(
    n_folds: int, draws: Record, chain_weights: Array, labels: PartialLabels
) -> HeldOut | None:
    """Return what labels say that are left out of the chains one by one, by importance weights.

    None where n_folds is below two, as in an ascent, and where no label can be held out.
    """
    known = np.flatnonzero(labels.is_labelled)
    rows = known[can_be_held_out(labels.codes[known])]
    if n_folds < 2 or not len(rows):
        return None
    codes = labels.codes[rows]
    p = draws["row_probabilities"][:, :, rows]  # (chains, draws, t, K)
    of_labels = p[:, :, np.arange(len(rows)), codes]
    weights = np.exp(left_out_weights(np.log(np.maximum(of_labels, 1e-300))))
    found = np.einsum("c,cdt,cdtk->tk", chain_weights, weights, p)
    log_proba = np.log(np.maximum(found, 1e-300))
    counts = np.bincount(labels.codes[known], minlength=len(labels.classes))
    return weigh(log_proba, codes, class_shares(counts), CHAINS_BELIEVED)


def with_doubt(fit: Fit, held_out: HeldOut | None) -> Fit:
    """Return the fit with the doubt that labels held out cast on its classes, and told of it."""
    if held_out is None:
        return fit
    b, wrong = held_out.belief, round(held_out.error * held_out.n_labels)
    said = (
        f"Of {held_out.n_labels} labels held out in turn the islands had {wrong} wrong, at a "
        f"log-loss of {held_out.log_loss:.2f} (the classes' shares alone: "
        f"{held_out.log_loss_of_shares:.2f}): their word counts "
        + ("in full." if b >= FULL_BELIEF else f"{b:.0%}, the shares the rest.")
    )
    if b < LEAST_BELIEF:
        said += (
            " These classes are not islands: use AtollClassifier, which weighs other assumptions "
            "as well."
        )
    rows = fit.transduction
    return fit._replace(
        posterior=fit.posterior._replace(doubt=held_out.doubt),
        transduction=None if rows is None else doubted(rows, held_out.doubt),
        diagnostics={
            **fit.diagnostics,
            "held_out": held_out._asdict() | {"shares": held_out.shares.tolist()},
            "verdict": f"{fit.diagnostics['verdict']}\n{said}",
        },
        remarks=fit.remarks + ((said,) if b < LEAST_BELIEF else ()),
    )
