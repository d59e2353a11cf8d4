"""The average over assumptions: what each says of a row, weighed by how it foretold the labels.

Assumptions k have odds π_k before the labels and evidence Z_k = P(labels | k), and the weight

    w_k ∝ π_k Z_k^s

with a sharpness s: labels of one data set tell assumptions apart better than their evidence,
which is that of models with few settings, would have it.

The graph without label noise weighs its labellings by their cuts and shares. Its evidence is that
of the same graph with noise, times what the weights add to it,

    (mean weight given the labels / mean weight before them),   cuts alone, shares being given:

labels that follow clusters leave labellings with fewer cut edges than labels that do not.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, logsumexp

from atoll.core.memory import in_chunks
from atoll.models import graph_gp
from atoll.models.average.recipe import AverageRecipe, Belief
from atoll.models.average.views import View
from atoll.models.graph_gp import GraphLabels
from atoll.models.graph_recipe import LabellingRecipe
from atoll.models.posterior import chosen_states

Array = NDArray[np.float64]
Codes = NDArray[np.intp]

GAINS = (-15.0, 6.0)  # no more is believed of a mean over draws
WIDTH = 1000  # numbers that a row takes while it is predicted, about
SHARE_COUNT = 0.5  # of each class, before any label (Jeffreys)


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
    """

    shift: Array
    scale: Array
    views: tuple[View, ...]
    components: tuple[Component, ...]
    shares: Array
    share_weight: float

    def log_proba(self, X: Any) -> Array:
        """Return log P(y = k | x, data); X (m, d) -> (m, K)."""
        return np.log(self.proba(X))

    def proba(self, X: Any) -> Array:
        """Return P(y = k | x, data); X (m, d) -> (m, K)."""
        out = np.empty((X.shape[0], len(self.shares)))
        for piece in in_chunks(X.shape[0], WIDTH + X.shape[1]):
            out[piece] = self._proba(self._scaled(X[piece]))
        return out / out.sum(axis=1, keepdims=True)

    def _proba(self, Z: Array) -> Array:
        out = np.tile(self.share_weight * self.shares, (len(Z), 1))
        for i, view in enumerate(self.views):
            heads = [component for component in self.components if component.view == i]
            if heads:
                features = view.features(Z)
                for component in heads:
                    out += component.weight * component.head.proba(features)
        return out

    def draws(self, X: Any, n: int, rng: np.random.Generator) -> Array:
        """Return n joint draws of the class probabilities, each under one assumption.

        X (m, d) -> (n, m, K).
        """
        weights = [component.weight for component in self.components] + [self.share_weight]
        counts = np.bincount(chosen_states(rng, n, np.array(weights)), minlength=len(weights))
        Z = self._scaled(np.asarray(X))
        parts = [np.tile(self.shares, (counts[-1], len(Z), 1))]
        for component, count in zip(self.components, counts):
            if count:
                features = self.views[component.view].features(Z)
                parts.append(component.head.draws(features, int(count), rng))
        return np.concatenate(parts)

    def _scaled(self, X: Array) -> Array:
        return (X - self.shift) / self.scale


# Evidence -----------------------------------------------------------------------------------------


def amplitude_prior(belief: Belief, amplitudes: Array) -> Array:
    """Return the log prior of each amplitude, (A,); its exponentials sum to one."""
    log_p = -0.5 * ((np.log(amplitudes) - belief.log_amplitude) / belief.spread) ** 2
    return log_p - logsumexp(log_p)


def evidence_of_shares(codes: Codes, n_classes: int) -> float:
    """Return the log probability of labels that rows say nothing of, their shares unknown."""
    counts = np.bincount(codes, minlength=n_classes)
    prior = np.full(n_classes, SHARE_COUNT)
    return float(
        gammaln(prior.sum())
        - gammaln(prior.sum() + counts.sum())
        + np.sum(gammaln(prior + counts) - gammaln(prior))
    )


def smoothed_shares(codes: Codes, n_classes: int) -> Array:
    """Return the shares of the classes given their labels alone, (K,)."""
    counts = np.bincount(codes, minlength=n_classes) + SHARE_COUNT
    return counts / counts.sum()


def gain_of_cuts(
    rng: np.random.Generator,
    known: GraphLabels,
    coefficients: Array,
    n_prior: int,
    recipe: LabellingRecipe,
) -> float:
    """Return what the weights by cuts add to the log evidence of labels, shares being given.

    Parameters
    ----------
    coefficients : (S, p, F) draws given the labels, not weighted
    n_prior : draws before the labels that they are compared with
    """
    assert known.graph is not None
    before, _ = graph_gp.sample_prior(rng, known.features, known.n_classes, n_prior)
    gain = 0.0
    for a, sign in ((coefficients, 1.0), (before, -1.0)):
        balance, cut = graph_gp.labelling_terms(known, known.graph, a, recipe)
        gain += sign * float(logsumexp(balance + cut) - logsumexp(balance))
    return float(np.clip(gain, *GAINS))


class Weighed(NamedTuple):
    """An assumption, before it is given a view.

    name : of the assumption
    log_odds : before the labels
    log_evidence : of the labels, averaged over amplitudes
    shares : (A,) of the amplitudes, given the labels; empty where there are none
    gain : beyond the evidence of its own labels, such as that of cuts
    """

    name: str
    log_odds: float
    log_evidence: float
    shares: Array
    gain: float = 0.0


def weigh(
    name: str, log_odds: float, belief: Belief, amplitudes: Array, log_evidence: Array, power: float
) -> Weighed:
    """Average an assumption over its amplitudes; log_evidence (A,)."""
    prior = amplitude_prior(belief, amplitudes)
    total = prior + power * log_evidence
    average = float(logsumexp(total))
    shares = np.exp(total - average) if np.isfinite(average) else np.exp(prior)
    return Weighed(name, log_odds, average / power, shares)


def weights(assumptions: list[Weighed], power: float) -> Array:
    """Return the weights of assumptions given the labels, (k,); they sum to one."""
    log_w = np.array([a.log_odds + power * a.log_evidence + a.gain for a in assumptions])
    log_w = np.where(np.isnan(log_w), -np.inf, log_w)
    return np.exp(log_w - logsumexp(log_w))


def power_of(recipe: AverageRecipe, n_classes: int) -> float:
    """Return the sharpness for that many classes."""
    return recipe.sharpness if n_classes == 2 else recipe.sharpness_of_many
