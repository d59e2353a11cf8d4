"""What Archipelago's chains say of single rows: shares, mixing, and weights of the chains."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from atoll.core.labels import PartialLabels
from atoll.diagnostics import stacking_weights
from atoll.inference.chains import Record

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
