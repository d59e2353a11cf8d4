"""What Archipelago's chains say of single rows: shares, mixing, and weights of the chains."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from atoll.core.labels import PartialLabels
from atoll.diagnostics import stacking_weights
from atoll.inference.chains import Record
from atoll.models import class_shares
from atoll.models.belief import PRIOR_OF_CHAINS, HeldOut, weigh, without_label
from atoll.models.calibration import can_be_held_out

Array = NDArray[np.float64]

WATCHED_ROWS = 40  # rows whose class probabilities are watched for mixing
CHAINS_DISAGREE = 1.1  # R-hat of a row's class probability above which chains are stacked


def shares(draws: Record, unknown: NDArray[np.bool_]) -> Record:
    """Return the share of each class among the unlabelled rows, (chain, draw) each."""
    if not unknown.any():
        return {}
    found = draws["row_probabilities"][:, :, unknown].mean(axis=2)
    return {f"share_of_class_{k}": found[:, :, k] for k in range(found.shape[2])}


def watched(draws: Record) -> Record:
    """Return class probabilities of single rows, which show where chains differ over an island."""
    probabilities = draws["row_probabilities"]
    rows = np.unique(np.linspace(0, probabilities.shape[2] - 1, WATCHED_ROWS).astype(int))
    return {"row_probabilities": probabilities[:, :, rows, 1:]}


def chain_weights(draws: Record, found: dict[str, Any], labels: PartialLabels) -> Array:
    """Return the chains' weights in predictions, and say in the verdict where they differ."""
    n_chains = found["n_chains"]
    if n_chains == 1 or found["r_hat"]["row_probabilities"] < CHAINS_DISAGREE:
        return np.full(n_chains, 1.0 / n_chains)
    known = np.flatnonzero(labels.is_labelled)
    p = draws["row_probabilities"][:, :, known, labels.codes[known]]
    weights = stacking_weights(np.log(np.maximum(p, 1e-300)))
    found["verdict"] += (
        "\nChains give some rows different labels: predictions weight the chains by how well each "
        f"predicts labels left out ({', '.join(f'{weight:.2f}' for weight in weights)})."
    )
    return weights


def left_out(
    n_folds: int, draws: Record, chain_weights: Array, labels: PartialLabels
) -> HeldOut | None:
    """Return what labels say that are left out of the chains one by one, by importance weights.

    A draw stands for the posterior without a label with weight 1 / P(label | draw), among the draws
    of all chains. None where n_folds is below two, as in an ascent, and where no label can be held
    out.
    """
    known = np.flatnonzero(labels.is_labelled)
    rows = known[can_be_held_out(labels.codes[known])]
    if n_folds < 2 or not len(rows):
        return None
    codes = labels.codes[rows]
    p = draws["row_probabilities"][:, :, rows]  # (chains, draws, t, K)
    of_draws = np.repeat(chain_weights, p.shape[1])
    log_proba = without_label(np.concatenate(p), codes, of_draws)
    counts = np.bincount(labels.codes[known], minlength=len(labels.classes))
    return weigh(log_proba, codes, class_shares.given(counts), PRIOR_OF_CHAINS)
