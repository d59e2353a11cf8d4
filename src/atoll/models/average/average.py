"""The average over assumptions: what each says of a row, weighed by how it foretold the labels.

Assumptions k have odds π_k before the labels and evidence Z_k = P(labels | k), and by Bayes' rule
the weight

    w_k ∝ π_k Z_k.

The graph without label noise shares the evidence of the same graph with noise. Its odds are raised
by what rows without labels say of it: see `corroboration`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import gammaln

from atoll.core import rows as rows_of
from atoll.core.memory import in_chunks
from atoll.core.progress import in_shown_chunks
from atoll.kernels.graph_spectral import NearestFound
from atoll.models.average import pooling
from atoll.models.average.recipe import Belief
from atoll.models.average.views import GraphView, View
from atoll.models.graph_posterior import proba_on_graph, without_votes

Array = NDArray[np.float64]
Codes = NDArray[np.intp]

FARTHEST = 1e60  # of a scaled column: squares of it are numbers
WIDTH = 1000  # numbers that a row takes while it is predicted, about
LEAST_SHARE_WEIGHT = 1e-9  # so that a row that no assumption reaches has the shares
SHARE_COUNT = 1.0  # of each class, before any label: all shares are equally likely (Laplace)
EQUAL_SHARES = 0.1  # probability that labels were picked class by class, with equal shares


class Head(Protocol):
    """A posterior on the features of a view."""

    def proba(self, features: Array) -> Array:
        """Return the class probabilities; (m, p) -> (m, K)."""

    def draws(self, features: Array, n: int, rng: np.random.Generator) -> Array:
        """Return n joint draws of the class probabilities; (m, p) -> (n, m, K)."""


class Component(NamedTuple):
    """An assumption that is left in the average.

    view : index of its view
    head : its posterior
    weight : in the average
    """

    view: int
    head: Head
    weight: float


class AveragePosterior(NamedTuple):
    """The weighted average of what the assumptions say.

    shift, scale : (d,) of the columns, before all else
    views : rows as assumptions see them
    components : the assumptions; weights sum to one with that of the shares
    shares : (K,) of the classes, what is said where rows tell nothing
    share_weight : the weight of that
    sharpness : the power by which the average is made surer
    metric : "euclidean", or "cosine" for rows by their directions
    intercepts : (K,) added to the log probabilities at the end, so that the classes come in the
        shares that they are known to have; None adds nothing
    """

    shift: Array
    scale: Array
    views: tuple[View, ...]
    components: tuple[Component, ...]
    shares: Array
    share_weight: float
    sharpness: float = 1.0
    metric: str = "euclidean"
    intercepts: Array | None = None

    def log_proba(self, X: Any) -> Array:
        """Return log P(y = k | x, data); X (m, d) -> (m, K)."""
        return np.log(self.proba(X))

    def proba(self, X: Any) -> Array:
        """Return P(y = k | x, data); X (m, d) -> (m, K)."""
        out = np.empty((X.shape[0], len(self.shares)))
        for piece in in_chunks(X.shape[0], WIDTH + rows_of.width(X)):
            out[piece] = self._average(self._scaled(X[piece]))
        return out / out.sum(axis=1, keepdims=True)

    def training_proba(
        self,
        X: Any,
        kept: Codes,
        rows: Any,
        place: Codes,
        *,
        shown: float | None = None,
        found: NearestFound | None = None,
    ) -> Array:
        """Return P(y = k | x, data) of the training rows, (n, K).

        Parameters
        ----------
        X : (n, d)
        kept : (g,) those that are on the graphs
        rows : (r, d) rows of the graphs, scaled and without copies
        place : (g,) which of them each is
        shown : in how many seconds progress is shown; None: never
        found : where the nearest rows of the others are kept for the next fit to the same rows
        """
        n, n_rows = X.shape[0], rows.shape[0]
        own = np.empty((n_rows, len(self.shares)))
        for piece in in_chunks(n_rows, WIDTH + rows_of.width(rows)):
            own[piece] = self._average(rows_of.clipped(rows[piece], FARTHEST), piece)
        out = np.empty((n, len(self.shares)))
        out[kept] = (own / own.sum(axis=1, keepdims=True))[place]
        others = np.setdiff1d(np.arange(n), kept, assume_unique=True)
        for piece in in_shown_chunks(len(others), WIDTH + rows_of.width(X), "all rows", shown):
            some = others[piece]
            Z = self._scaled(X[some])
            by = kept, self.shift, self.scale
            given = None
            if found is not None:
                again = partial(GraphView.features_again, X=Z, found=found, by=by)
                given = {i: again(view, piece=(i, piece.start)) for i, view in self._graphs()}
            told = self._average(Z, given=given)
            out[some] = told / told.sum(axis=1, keepdims=True)
        return out

    def _graphs(self) -> list[tuple[int, GraphView]]:
        """Return the views that are graphs on which an assumption rests, with their places."""
        used = {part.view for part in self.components}
        return [(i, v) for i, v in enumerate(self.views) if i in used and isinstance(v, GraphView)]

    def proba_as_new(self, rows: Any) -> Array:
        """Return P(y = k | x, data) of the graphs' rows as if they were new ones, (r, K).

        On graphs each is the mean of its nearest others.

        Parameters
        ----------
        rows : (r, d) of the graphs, scaled and without copies
        """
        as_new = {i: view.features_as_new() for i, view in self._graphs()}
        out = np.empty((rows.shape[0], len(self.shares)))
        for piece in in_chunks(rows.shape[0], WIDTH + rows_of.width(rows)):
            given = {i: features[piece] for i, features in as_new.items()}
            out[piece] = self._average(rows_of.clipped(rows[piece], FARTHEST), given=given)
        return out

    def without_votes(self) -> AveragePosterior:
        """Return the posterior without what only its fit needed."""
        parts = (part._replace(head=without_votes(part.head)) for part in self.components)
        return self._replace(components=tuple(parts))

    def _average(
        self, Z: Any, own: slice | None = None, given: Mapping[int, Array] | None = None
    ) -> Array:
        """Return the average, made surer.

        Parameters
        ----------
        Z : (m, d) scaled rows
        own : which rows of the graphs they are; None: they are new
        given : (m, p) features of some views, where they are known
        """
        nothing = max(self.share_weight, LEAST_SHARE_WEIGHT) * self.shares
        out = np.tile(nothing, (Z.shape[0], 1))
        told = self._tell(Z)
        for i, view in enumerate(self.views):
            parts = [component for component in self.components if component.view == i]
            if parts:
                if given is not None and i in given:
                    features = given[i]
                elif own is not None and isinstance(view, GraphView):
                    features = view.values[own]
                else:
                    features = view.features(Z)
                reach = (view.reach(features) * told)[:, None]
                for part in parts:
                    of_part = (
                        part.head.proba(features)
                        if own is None
                        else proba_on_graph(part.head, features, own)
                    )
                    out += part.weight * reach * of_part
        surer = pooling.sharpened(out, self.shares, self.sharpness)
        if self.intercepts is None:
            return surer
        moved = pooling.shifted(surer, self.intercepts)
        unreached = np.all(out == nothing, axis=1, keepdims=True)  # they have the known shares
        return np.where(unreached, surer, moved)

    def draws(self, X: Any, n: int, rng: np.random.Generator) -> Array:
        """Return n joint draws of the class probabilities; X (m, d) -> (n, m, K).

        Each is under one assumption; at rows that it does not reach, under another that does, and
        at those that it reaches in part, under it in so many of the draws. What makes the average
        surer moves all of them.
        """
        X = X if sparse.issparse(X) else np.asarray(X)
        Z, m = self._scaled(X), X.shape[0]
        used = sorted({part.view for part in self.components})
        features = {i: self.views[i].features(Z) for i in used}
        told = self._tell(Z)
        reach = {i: told * self.views[i].reach(one) for i, one in features.items()}
        reached = np.array([reach[part.view] for part in self.components])
        reached = reached.reshape(len(self.components), m)
        kinds, kind = np.unique(reached, axis=1, return_inverse=True)
        kind = kind.reshape(-1)
        # Rows that assumptions reach alike share the choice of one, and all rows its place.
        places = rng.permutation((rng.random() + np.arange(n)) / n)
        own = np.array([part.weight for part in self.components])
        shares = max(self.share_weight, LEAST_SHARE_WEIGHT)
        chosen = np.empty((kinds.shape[1], n), np.intp)
        for j, share in enumerate(kinds.T):
            ends = np.cumsum(np.append(own * share, shares))
            chosen[j] = np.searchsorted(ends / ends[-1], places)
        out = np.empty((n, m, len(self.shares)))
        out[(chosen == len(self.components)).any(axis=0)] = self.shares
        for i, part in enumerate(self.components):
            asked = np.flatnonzero((chosen == i).any(axis=0))
            if len(asked):
                drawn = part.head.draws(features[part.view], len(asked), rng)
                here = np.equal(chosen[:, asked].T, i)  # (draws, kinds of rows)
                if here.all():
                    out[asked] = drawn
                else:
                    out[asked] = np.where(here[:, kind][..., None], drawn, out[asked])
        if self.sharpness == 1.0 and self.intercepts is None:
            return out
        after = self._average(Z, given=features)
        after /= after.sum(axis=1, keepdims=True)
        back = None if self.intercepts is None else -self.intercepts
        before = pooling.sharpened(pooling.shifted(after, back), self.shares, 1.0 / self.sharpness)
        before = np.where(np.any(reached, axis=0)[:, None], before, after)
        return pooling.carried(out, before, after)

    def _scaled(self, X: Any) -> Any:
        found = rows_of.rescaled(X, self.shift, self.scale, self.metric)
        return rows_of.clipped(found, FARTHEST)

    def _tell(self, Z: Any) -> Array:
        """Return one, (m,); zero for rows of zeros where directions are compared."""
        if self.metric != rows_of.COSINE:
            return np.ones(Z.shape[0])
        return rows_of.has_direction(Z).astype(float)


# Evidence -----------------------------------------------------------------------------------------


def amplitude_prior(belief: Belief, amplitudes: Array) -> Array:
    """Return the log prior of each amplitude, (A,); its exponentials sum to one."""
    log_p = -0.5 * ((np.log(amplitudes) - belief.log_amplitude) / belief.spread) ** 2
    return log_p - np.logaddexp.reduce(log_p)


def evidence_of_shares(codes: Codes, n_classes: int, label_weights: Array | None = None) -> float:
    """Return the log probability of labels that rows say nothing of.

    The shares of the classes are unknown or, as where labels are picked class by class, all the
    same.
    """
    counts = np.bincount(codes, label_weights, minlength=n_classes)
    prior = np.full(n_classes, SHARE_COUNT)
    unknown = (
        gammaln(prior.sum())
        - gammaln(prior.sum() + counts.sum())
        + np.sum(gammaln(prior + counts) - gammaln(prior))
    )
    equal = -counts.sum() * np.log(n_classes)
    return float(np.logaddexp(np.log1p(-EQUAL_SHARES) + unknown, np.log(EQUAL_SHARES) + equal))


def equal_shares_ahead(n_classes: int) -> float:
    """Return by how much equal shares raise the log probability of one label of each class.

    One label a class is what a user begins with, and says nothing of shares: odds before the labels
    are less this, so that there they count as if shares were unknown.

    Examples
    --------
    >>> round(equal_shares_ahead(2), 3), round(equal_shares_ahead(10), 3)
    (0.049, 1.447)
    """
    unknown = float(gammaln(n_classes) - gammaln(2 * n_classes))
    return evidence_of_shares(np.arange(n_classes), n_classes) - unknown


def smoothed_shares(codes: Codes, n_classes: int, label_weights: Array | None = None) -> Array:
    """Return the shares of the classes given their labels alone, (K,)."""
    counts = np.bincount(codes, label_weights, minlength=n_classes) + SHARE_COUNT
    return counts / counts.sum()


def shares_of_others(codes: Codes, n_classes: int, label_weights: Array | None = None) -> Array:
    """Return the shares of the classes as each label would see them by the others, (l, K)."""
    counts = np.bincount(codes, label_weights, minlength=n_classes) + SHARE_COUNT
    own = np.ones(len(codes)) if label_weights is None else label_weights
    others = counts - own[:, None] * np.eye(n_classes)[codes]
    return np.asarray(others / others.sum(axis=1, keepdims=True))


def labels_per_class(codes: Codes, n_classes: int, label_weights: Array | None = None) -> float:
    """Return the harmonic mean of the classes' labels: a rare class says how much is known.

    Examples
    --------
    >>> labels_per_class(np.array([0, 0, 0, 0, 0, 0, 1, 1]), 2)
    3.0
    """
    counts = np.bincount(codes, label_weights, minlength=n_classes)
    return float(n_classes / np.sum(1.0 / np.maximum(counts, 1)))


class Weighed(NamedTuple):
    """An assumption, before it is given a view.

    name : of the assumption
    log_odds : before the labels
    log_evidence : of the labels, averaged over amplitudes
    shares : (A,) of the amplitudes, given the labels; empty where there are none
    """

    name: str
    log_odds: float
    log_evidence: float
    shares: Array


def weigh(
    name: str, log_odds: float, belief: Belief, amplitudes: Array, log_evidence: Array
) -> Weighed:
    """Average an assumption over its amplitudes; log_evidence (A,)."""
    prior = amplitude_prior(belief, amplitudes)
    total = prior + log_evidence
    average = float(np.logaddexp.reduce(total))
    shares = np.exp(total - average) if np.isfinite(average) else np.exp(prior)
    return Weighed(name, log_odds, average, shares)


def merged(assumptions: list[Weighed], part: str, whole: str) -> list[Weighed]:
    """Give the weight of one assumption to another.

    Examples
    --------
    >>> one, two = (Weighed(name, 0.0, -1.0, np.empty(0)) for name in ("one", "two"))
    >>> weights(merged([one, two], "one", "two"))
    array([0., 1.])
    """
    log_w = {a.name: a.log_odds + a.log_evidence for a in assumptions}
    both = float(np.logaddexp(log_w[part], log_w[whole]))
    odds = {a.name: a.log_odds for a in assumptions} | {part: -np.inf}
    odds |= {a.name: both - a.log_evidence for a in assumptions if a.name == whole}
    return [a._replace(log_odds=odds[a.name]) for a in assumptions]


def weights(assumptions: list[Weighed]) -> Array:
    """Return the weights of assumptions given the labels, (k,); they sum to one."""
    log_w = _log_weights(assumptions)
    return np.exp(log_w - np.logaddexp.reduce(log_w))


def log_evidence_beyond(name: str, assumptions: list[Weighed]) -> float:
    """Return the log of how many times likelier labels are by all assumptions than by one."""
    log_w = _log_weights(assumptions)
    return float(np.logaddexp.reduce(log_w) - log_w[[a.name for a in assumptions].index(name)])


def _log_weights(assumptions: list[Weighed]) -> Array:
    log_w = np.array([a.log_odds + a.log_evidence for a in assumptions])
    return np.where(np.isnan(log_w), -np.inf, log_w)
