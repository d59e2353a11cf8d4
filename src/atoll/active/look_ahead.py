"""What a label would do to what is known of all other rows.

The model gives draws s of the class probabilities p_s(c|x) of all rows jointly, with weights w_s.
A label c of row x turns the weights into w_s p_s(c|x) / p̄(c|x), with p̄ the mean over draws: the
draws that predicted it count more. Its effect on the other rows thus follows for every x and c
without another fit.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from atoll.core.memory import in_chunks

Array = NDArray[np.float64]
Index = NDArray[np.intp]

RIDGE = 1e-12  # on a covariance of labels, which has no inverse where a class never happens


def brier_gain(draws: Array, weights: Array, candidates: Index | None = None) -> Array:
    """Return how far each row's label is expected to lower the Brier score of all rows.

    With a_xc[s] = √w_s (p_s(c|x) − p̄(c|x)) and M = Σ_{x*, c*} a_{x*c*} a_{x*c*}ᵀ,

        gain(x) = Σ_c a_xcᵀ M a_xc / p̄(c|x),

    which is the expected fall of Σ_{x*} Σ_c* p̄(1 − p̄), exactly, in one product of matrices.

    Parameters
    ----------
    draws : (S, m, K) joint draws of the class probabilities
    weights : (S,) that sum to one
    candidates : (c,) rows to score; None is all m

    Returns
    -------
    (c,) gains, zero or more

    Examples
    --------
    >>> agree = np.array([[[0.9, 0.1], [0.9, 0.1]], [[0.1, 0.9], [0.1, 0.9]]])
    >>> brier_gain(agree, np.array([0.5, 0.5])).round(4).tolist()
    [0.4096, 0.4096]
    """
    apart, mean = _apart(draws, weights)
    asked = apart if candidates is None else apart[candidates]
    p = mean if candidates is None else mean[candidates]
    flat = asked.reshape(-1, len(weights))
    each = np.einsum("is,is->i", flat, flat @ _spread_of_all(apart)).reshape(p.shape)
    return np.divide(each, p, out=np.zeros_like(each), where=p > 0).sum(axis=1)


def brier_batch(draws: Array, weights: Array, candidates: Index, n: int) -> tuple[Index, Array]:
    """Return n rows that lower the expected Brier score most together, chosen one after another.

    What the labels of the rows chosen so far will tell is removed by the best linear predictor,
    R = I − A G⁻¹ Aᵀ with A the columns a_xc of those rows and G the covariance of their labels. A
    row's further gain is tr(G_x⁻¹ A_xᵀ R M R A_x), with G_x = A_xᵀ R A_x + E[diag p − p pᵀ]: that
    of `brier_gain` for the first row, and less for the others, by what is known already.

    Parameters
    ----------
    draws : (S, m, K) joint draws of the class probabilities
    weights : (S,) that sum to one
    candidates : (c,) rows that may be chosen
    n : how many

    Returns
    -------
    chosen : (n,) of the rows 0..m−1, all of them candidates, the best first
    gains : (n,) of each, given those before
    """
    apart, mean = _apart(draws, weights)
    A, noise = _without_a_class(apart[candidates], mean[candidates])
    c, _, S = A.shape
    RA = A.copy()
    MRA = (RA.reshape(-1, S) @ _spread_of_all(apart)).reshape(A.shape)
    left = np.ones(c, bool)
    chosen, gains = [], []
    for _ in range(min(n, c)):
        G = A @ RA.mT + noise
        scores = np.trace(np.linalg.solve(G, RA @ MRA.mT), axis1=1, axis2=2)
        scores = np.where(left, scores, -np.inf)
        best = int(np.argmax(scores))
        chosen.append(best)
        gains.append(max(float(scores[best]), 0.0))
        left[best] = False
        # R ← R − R A_x G_x⁻¹ A_xᵀ R, applied to the columns of all candidates.
        share = np.linalg.solve(G[best], A[best] @ RA.reshape(-1, S).T).T
        RA, MRA = (
            RA - (share @ RA[best]).reshape(A.shape),
            MRA - (share @ MRA[best]).reshape(A.shape),
        )
    return candidates[chosen], np.array(gains)


def expected_error_reduction(
    draws: Array, weights: Array, candidates: Index, targets: Index
) -> Array:
    """Return how far each row's label is expected to lower the share of wrong rows.

    The error of row x* is 1 − max_c p̄(c|x*), before and after the draws are weighted anew
    (N. Roy and A. McCallum, "Toward optimal active learning through sampling estimation of error
    reduction", 2001).

    Parameters
    ----------
    draws : (S, m, K) joint draws of the class probabilities
    weights : (S,) that sum to one
    candidates : (c,) rows to score
    targets : (t,) rows whose error counts

    Returns
    -------
    (c,) falls of the error, zero or more
    """
    now = np.einsum("s,stk->tk", weights, draws[:, targets]).max(axis=1).mean()
    out = np.empty(len(candidates))
    for piece, joint in _joints(draws, weights, candidates, targets):
        out[piece] = joint.max(axis=3).sum(axis=1).mean(axis=1) - now
    return out


def epig(draws: Array, weights: Array, candidates: Index, targets: Index) -> Array:
    """Return what each row's label is expected to tell of the labels of the others, in nats.

    The mean over targets of the mutual information of the two labels, the expected predictive
    information gain (F. Bickford Smith et al., "Prediction-oriented Bayesian active learning",
    2023).

    Parameters
    ----------
    draws : (S, m, K) joint draws of the class probabilities
    weights : (S,) that sum to one
    candidates : (c,) rows to score
    targets : (t,) rows whose labels are to be predicted

    Returns
    -------
    (c,) informations in nats, zero or more
    """
    target_mean = np.einsum("s,stk->tk", weights, draws[:, targets])
    out = np.empty(len(candidates))
    for piece, joint in _joints(draws, weights, candidates, targets):
        own = joint[:, :, 0].sum(axis=2)  # (c, K) p̄ of the candidates
        apart = own[:, :, None, None] * target_mean
        ratio = np.divide(joint, apart, out=np.ones_like(joint), where=apart > 0)
        logs = np.log(ratio, out=np.zeros_like(ratio), where=ratio > 0)
        out[piece] = np.einsum("ckti,ckti->c", joint, logs) / len(targets)
    return out


def _apart(draws: Array, weights: Array) -> tuple[Array, Array]:
    """Return a (m, K, S), how far each draw is from the mean, and that mean (m, K)."""
    by_row = np.ascontiguousarray(draws.transpose(1, 2, 0))
    mean = by_row @ weights
    return np.sqrt(weights) * (by_row - mean[..., None]), mean


def _spread_of_all(apart: Array) -> Array:
    """Return M (S, S), the sum of a aᵀ over all rows and classes."""
    flat = apart.reshape(-1, apart.shape[2])
    return flat.T @ flat


def _without_a_class(apart: Array, mean: Array) -> tuple[Array, Array]:
    """Return Aᵀ (c, K−1, S) and E[diag p − p pᵀ] (c, K−1, K−1), without each row's likeliest class.

    A row's classes sum to one, so that one of them tells nothing that the others do not.
    """
    K = mean.shape[1]
    kept = np.argsort(-mean, axis=1, kind="stable")[:, 1:]
    A = np.take_along_axis(apart, kept[..., None], axis=1)
    p = np.take_along_axis(mean, kept, axis=1)
    # diag p̄ − p̄ p̄ᵀ is the covariance of a label: that of p over draws, and what is left.
    noise = -p[:, :, None] * p[:, None, :] - A @ A.mT
    noise[:, np.arange(K - 1), np.arange(K - 1)] += p + RIDGE
    return A, noise


def _joints(
    draws: Array, weights: Array, candidates: Index, targets: Index
) -> Iterator[tuple[slice, Array]]:
    """Yield a piece of the candidates and P(y = k, y* = i), (piece, K, t, K)."""
    S, _, K = draws.shape
    flat = draws[:, targets].reshape(S, -1)
    asked = weights[:, None, None] * draws[:, candidates]
    for piece in in_chunks(len(candidates), K * K * len(targets)):
        part = asked[:, piece].reshape(S, -1)
        yield piece, (part.T @ flat).reshape(-1, K, len(targets), K)
