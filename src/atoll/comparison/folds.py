"""How models predict labelled rows whose labels they have not seen, fold by fold."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from atoll.comparison.candidates import Candidate
from atoll.estimators.model_selection import SemiSupervisedKFold

Array = NDArray[np.float64]
Codes = NDArray[np.intp]

LEAST = 1e-6  # smaller probabilities count as this, so that no single row decides everything


class HeldOutLosses(NamedTuple):
    """Scores of labels that were held out, each from a fit without it; models in the same order.

    names : of the models that could be fitted
    log_losses : (models, l) in nats
    errors : (models, l) one where the most probable class is wrong
    seconds : (models,) of one fit and its predictions, on average over folds
    failed : name -> why a model could not be fitted
    interrupted : names of models that an interruption left without scores
    proba : name -> (l, K) class probabilities behind the scores
    """

    names: tuple[str, ...]
    log_losses: Array
    errors: Array
    seconds: Array
    failed: dict[str, str]
    interrupted: tuple[str, ...]
    proba: dict[str, Array]


def row_losses(p: Array, codes: Codes) -> tuple[Array, Array]:
    """Return the log-loss and the error of each row; p (m, K), codes (m,) -> (m,), (m,).

    Examples
    --------
    >>> losses, errors = row_losses(np.array([[0.5, 0.5], [0.9, 0.1]]), np.array([0, 1]))
    >>> losses.round(3).tolist(), errors.tolist()
    ([0.693, 2.303], [0.0, 1.0])
    """
    p = p / p.sum(axis=1, keepdims=True)
    right = p[np.arange(len(p)), codes]
    return -np.log(np.maximum(right, LEAST)), (p.argmax(axis=1) != codes).astype(float)


def held_out_codes(codes: Codes) -> Codes:
    """Return the classes of labels that can be held out, (n,); -1 for all other rows.

    The only label of a class cannot: without it no fit would know the class.

    Examples
    --------
    >>> held_out_codes(np.array([0, 1, -1, 0])).tolist()
    [0, -1, -1, 0]
    """
    counts = np.bincount(codes[codes >= 0])
    return np.where((codes >= 0) & (counts[codes] > 1), codes, -1)


def held_out_losses(
    candidates: Sequence[Candidate],
    X: Any,
    codes: Codes,
    n_splits: int,
    seed: int,
    tell: Callable[[str], None],
) -> HeldOutLosses:
    """Fit every model to the same folds, and score it on the labels left out.

    Parameters
    ----------
    X : (n, d)
    codes : (n,) classes, -1 where unlabelled; every class has at least `n_splits` labels, or a
        single one, which is in every fit and is not scored
    tell : called with the name of a model before each of its fits
    """
    held_out = held_out_codes(codes)
    folds = SemiSupervisedKFold(n_splits, unlabelled=-1, random_state=seed)
    splits = list(folds.split(X, held_out))
    proba: dict[str, Array] = {}
    seconds: dict[str, float] = {}
    failed: dict[str, str] = {}
    for one in sorted(candidates, key=lambda one: not one.is_peer):  # the quick ones first
        began = time.perf_counter()
        try:
            proba[one.name] = _held_out_proba(one, X, codes, splits, seed, tell)
        except Exception as error:  # of one model, which may be the user's: others are compared
            failed[one.name] = _why(error)
            continue
        except KeyboardInterrupt:  # what is done is kept
            break
        seconds[one.name] = (time.perf_counter() - began) / len(splits)
    proba = {one.name: proba[one.name] for one in candidates if one.name in proba}
    scores = [row_losses(p, held_out[held_out >= 0]) for p in proba.values()]
    return HeldOutLosses(
        tuple(proba),
        np.array([losses for losses, _ in scores]),
        np.array([errors for _, errors in scores]),
        np.array([seconds[name] for name in proba]),
        failed,
        tuple(one.name for one in candidates if one.name not in {*proba, *failed}),
        proba,
    )


def _why(error: Exception) -> str:
    """Say in a line why a model could not be fitted, by its refusal or by an error within it."""
    said = " ".join(str(error).split()).partition(". ")[0].rstrip(".")
    is_refusal = isinstance(error, TypeError | ValueError) and said
    return said if is_refusal else f"{type(error).__name__}: {said}".removesuffix(": ")


def _held_out_proba(
    one: Candidate,
    X: Any,
    codes: Codes,
    splits: Sequence[tuple[Any, Any]],
    seed: int,
    tell: Callable[[str], None],
) -> Array:
    """Return class probabilities (l, K) of rows whose labels are held out, each from such a fit."""
    place = np.cumsum(held_out_codes(codes) >= 0) - 1
    out = np.empty((int(place[-1]) + 1, int(codes.max()) + 1))
    for train, test in splits:
        tell(one.name)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            out[place[test]] = one.predict(X[train], codes[train], X[test], seed)
    return out
