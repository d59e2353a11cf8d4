"""Weights by which the average foretells labels.

Bayes' rule takes one assumption to be true. With many labels it gives nearly all of the weight to
one of them, however little the next is behind. None is quite true, and an average of several
foretells classes better (stacking: Wolpert 1992, Yao et al. 2018). So weights w are where

    Σ_i c_i log Σ_k w_k p_ki + a Σ_k π_k log w_k

is largest: p_ki is the probability of label i given all other labels under assumption k, c_i what
the label counts, π the weights by Bayes' rule and a what they are worth, in labels. The graph
without label noise cannot hold a label out, and keeps its weight: the first sum is over all k, and
in the second π and w are shares of what it leaves.

Columns that labels may follow alone are one assumption here, which does not know the column. Of a
hundred that tell nothing the best seems to foretell each label, since it was chosen by all of them.
So label i is foretold by

    Σ_j v_ji p_ji(y),  v_ji ∝ π_j Z_j / p_ji(y_i),

where each column j counts what the other labels leave it, and those that were not kept tell as
little as the shares of the classes.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from atoll.core.mixture_weights import mixture_weights
from atoll.models.average import average
from atoll.models.average.average import Weighed
from atoll.models.average.heads import Problems
from atoll.models.average.recipe import column_of

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


def by_foretelling(
    assumptions: list[Weighed],
    told: Array,
    codes: Codes,
    counts: Array,
    n_columns: int,
    worth: float,
) -> tuple[Array, Array]:
    """Return the weights of assumptions, (k,), and what they say of labels left out, (l, K).

    Parameters
    ----------
    told : (k, l, K) what each assumption says of every labelled row without its own label
    codes, counts : (l,) the labels, and what each counts
    n_columns : of the rows
    worth : a
    """
    weights = average.weights(assumptions)
    fixed = np.array([one.name == CLUSTERS for one in assumptions])
    fixed |= ~np.isfinite([one.log_odds + one.log_evidence for one in assumptions])
    column = OneColumn.of(assumptions, told, codes, counts, n_columns)
    if column is not None:
        told = column.joined(told, column.told)
        fixed = column.joined(fixed, np.False_)
        own = weights[column.columns].sum() / (1.0 - column.shares[-1])  # with those not kept
        weights = column.joined(weights, own)
        weights /= weights.sum()
    of_labels = told[:, np.arange(len(codes)), codes]
    weights = stacked(weights, of_labels, counts, worth, fixed)
    foretold = np.tensordot(weights, told, 1)
    if column is not None:
        weights = column.parted(weights, len(assumptions))
    return weights, foretold


class OneColumn(NamedTuple):
    """All columns alone as one assumption, which does not know the column.

    columns : (c,) places of the columns among k assumptions
    others : (k − c,) places of the others
    nothing : place of the assumption that rows tell nothing
    shares : (c + 1,) of the columns, and of all that were not kept, given the labels
    told : (l, K) what it says of each labelled row without its own label
    """

    columns: Codes
    others: Codes
    nothing: int
    shares: Array
    told: Array

    @classmethod
    def of(
        cls,
        assumptions: list[Weighed],
        told: Array,
        codes: Codes,
        counts: Array,
        n_columns: int,
    ) -> Self | None:
        """Return the columns among some assumptions as one; None if there are none.

        Parameters
        ----------
        told : (k, l, K) what each assumption says of every labelled row without its own label
        codes : (l,) the labels
        counts : (l,) what each counts in the evidence
        n_columns : of which the columns were chosen
        """
        names = [one.name for one in assumptions]
        total = np.array([one.log_odds + one.log_evidence for one in assumptions])
        is_column = np.array([column_of(name) is not None for name in names])
        kept = np.flatnonzero(is_column & np.isfinite(total))
        if not len(kept):
            return None
        nothing = names.index(NOTHING)
        n_rest = max(n_columns - int(is_column.sum()), 0)
        rest = assumptions[kept[0]].log_odds + assumptions[nothing].log_evidence
        rest = rest + np.log(n_rest) if n_rest else -np.inf
        parts = np.concatenate([told[kept], told[nothing][None]])
        own = np.maximum(parts[:, np.arange(len(codes)), codes], LEAST_PROBABILITY)
        joint = np.append(total[kept], rest)
        without = softmax(joint[:, None] - counts * np.log(own), axis=0)  # (c + 1, l)
        of_all = np.einsum("cl,clk->lk", without, parts)
        others = np.flatnonzero(~is_column)
        return cls(kept, others, nothing, softmax(joint), of_all)

    def joined(self, values: NDArray[Any], own: Any) -> NDArray[Any]:
        """Return the values of the other assumptions, and that of the columns as one, last."""
        return np.concatenate([values[self.others], [own]])

    def parted(self, weights: Array, n: int) -> Array:
        """Return the weights of n assumptions by those of the others and of the columns as one.

        What the columns that were not kept have is that of nothing.
        """
        out = np.zeros(n)
        out[self.others] = weights[:-1]
        out[self.columns] = weights[-1] * self.shares[:-1]
        out[self.nothing] += weights[-1] * self.shares[-1]
        return out
