"""Weights by which the average foretells labels.

Bayes' rule takes one assumption to be true. With many labels it gives nearly all of the weight to
one of them, however little the next is behind. None is quite true, and an average of several
foretells classes better (stacking: Wolpert 1992, Yao et al. 2018). So weights w are where

    Σ_i c_i log Σ_k w_k p_ki + a Σ_k π_k log w_k

is largest: p_ki is the probability of label i given all other labels under assumption k, c_i what
the label counts, π the weights by Bayes' rule and a what they are worth, in labels. The graph
without label noise cannot hold a label out, and keeps its weight: the first sum is over all k, and
in the second π and w are shares of what it leaves.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from atoll.core.mixture_weights import mixture_weights
from atoll.models.average import average
from atoll.models.average.average import Weighed
from atoll.models.average.heads import Problems

Array = NDArray[np.float64]
Codes = NDArray[np.intp]

CLUSTERS, NOTHING = "clusters", "nothing"
LEAST_SHARE = 1e-4  # of an amplitude; below, it is left out
LEAST_PROBABILITY = 1e-12  # of a label
SETTLED = 1e-6  # change of a weight that does not matter


def held_out(
    problems: Problems,
    assumptions: list[Weighed],
    codes: Codes,
    n_classes: int,
    label_weights: Array | None = None,
) -> Array:
    """Return what each assumption says of every labelled row without its own label, (k, l, K).

    The same graph where noise is least stands for the graph without label noise.

    Parameters
    ----------
    problems : posteriors of the labels on every view; the first is the graph of neighbours
    assumptions : those of the views, in their order, and the others
    codes : (l,) the labels
    label_weights : (l,) of the labels; None: one each
    """
    out = np.empty((len(assumptions), len(codes), n_classes))
    for i, one in enumerate(assumptions):
        if one.name == NOTHING:
            out[i] = average.shares_of_others(codes, n_classes, label_weights)
        elif one.name == CLUSTERS:
            out[i] = problems.held_out(0, np.array([-1]))[0]
        else:
            used = np.flatnonzero(one.shares > LEAST_SHARE)
            out[i] = np.tensordot(one.shares[used], problems.held_out(i, used), 1)
    out = np.where(np.isfinite(out), out, 1.0 / n_classes)  # where propagation has failed
    return np.asarray(out / out.sum(axis=2, keepdims=True))


def stacked(
    bayes: Array, of_labels: Array, counts: Array, worth: float, fixed: NDArray[np.bool_]
) -> Array:
    """Return the weights of assumptions, moved by how they foretell labels, (k,).

    Parameters
    ----------
    bayes : (k,) weights by Bayes' rule, π; they sum to one
    of_labels : (k, l) probability of each label given the others
    counts : (l,) what each label counts
    worth : a
    fixed : (k,) whether a weight stays as it is

    Examples
    --------
    >>> told = np.array([[0.8] * 6 + [0.4] * 4, [0.4] * 6 + [0.8] * 4])
    >>> bayes, counts, fixed = np.array([1.0, 0.0]), np.ones(10), np.zeros(2, bool)
    >>> stacked(bayes, told, counts, 0.1, fixed).round(2)  # the second foretells four of ten
    array([0.83, 0.17])
    >>> stacked(bayes, told, counts, 1e4, fixed).round(2)  # Bayes' rule is worth far more
    array([1., 0.])
    """
    free = np.flatnonzero(~fixed)
    total = float(bayes[free].sum())
    if not (total > 0 and len(free) > 1):
        return bayes
    p = np.maximum(of_labels, LEAST_PROBABILITY)
    out = bayes.copy()
    out[free] = total * mixture_weights(
        total * p[free],
        worth * bayes[free] / total,
        counts=counts,
        beside=bayes[fixed] @ p[fixed],
        settled=SETTLED,
    )
    return out
