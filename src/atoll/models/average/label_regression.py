"""Labels regressed on: beside propagation, and in its place where classes are many.

With K classes propagation works on K functions at once, and its cost grows as the square of K. A
regression on the labels has a closed form, which all classes share:

    1[y_i = c] − 1/K = v(x_i)ᵀ a_c + ε_ic,   a_c ~ N(0, A I),   ε_ic ~ N(0, 1/w_i)

for every view v, w_i the weight of a label (Rasmussen & Williams 2006, section 6.5). The singular
values of the labelled rows' features give the posterior mean m_c(x) at every amplitude A, and what
it would be at each labelled row without its own label (Wahba 1990; Rifkin & Klautau 2004). The
mean is no probability. It is turned into one by a probit,

    P(y = c | x) = P(β m_c(x) + e_c is the largest),   e_c ~ N(0, 1),

whose sureness β is learnt from the labels left out, as are the shares of the amplitudes and the
weights of the views. So all that is uncertain, the functions and the labels, is in e. Joint draws
say how rows go together: the share s² / (1 + s²) of e's variance is a draw of the posterior of the
functions, of variance s²(x), and the rest is the row's own. Their mean is P(y = c | x) exactly.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from atoll.core.labels import part_of_labels
from atoll.core.mixture_weights import mixture_weights
from atoll.likelihoods.multinomial_probit import class_probabilities
from atoll.models.average import average
from atoll.models.average.average import Weighed
from atoll.models.average.heads import deviations
from atoll.models.average.recipe import RegressionRecipe
from atoll.models.average.stacking import NOTHING, OneColumn
from atoll.models.posterior import chosen_states

Array = NDArray[np.float64]
Codes = NDArray[np.intp]

LEAST_SINGULAR = 1e-6  # relative to the largest; smaller ones are rounding
LEAST_PROBABILITY = 1e-12  # of a label
NEGLIGIBLE = 10.0  # nats below the best amplitude from which on larger ones are not looked at
MOST_LEFT_OUT = 1000  # labels by which sureness and weights are found


class RegressionHead(NamedTuple):
    """What a view says of the classes: the posterior means at several amplitudes, as a probit.

    amplitudes : (A,)
    shares : (A,) that sum to one
    means : (A, p, K) of the coefficients, times β
    directions : (p, r) orthonormal U: the coefficients' covariance is A (I − U diag(g) Uᵀ)
    gains : (A, r) g, in [0, 1]
    """

    amplitudes: Array
    shares: Array
    means: Array
    directions: Array
    gains: Array

    def proba(self, features: Array) -> Array:
        """Return the class probabilities; (m, p) -> (m, K)."""
        out = np.zeros((len(features), self.means.shape[2]))
        for share, mean in zip(self.shares, self.means):
            out += share * _probit(features @ mean)
        return out

    def draws(self, features: Array, n: int, rng: np.random.Generator) -> Array:
        """Return n joint draws of the class probabilities; (m, p) -> (n, m, K)."""
        chosen = chosen_states(rng, n, self.shares)
        length = np.einsum("ij,ij->i", features, features)
        along = (features @ self.directions) ** 2
        variance = self.amplitudes * np.maximum(length[:, None] - along @ self.gains.T, 0.0)
        wider = np.sqrt(1.0 + variance)  # (m, A)
        out = np.empty((n, len(features), self.means.shape[2]))
        for i, which in enumerate(chosen):
            mean, A = self.means[which], float(self.amplitudes[which])
            moved = deviations(rng, A, self.directions, self.gains[which], mean.shape[1])
            out[i] = _probit(wider[:, which, None] * (features @ mean) + features @ moved)
        return out


class Regression(NamedTuple):
    """The labels regressed on one view.

    head : its posterior
    held_out : (l, K) class probabilities of every labelled row, given all other labels
    sureness : (A,) β at the head's amplitudes
    """

    head: RegressionHead
    held_out: Array
    sureness: Array


def regress(
    features: Array,
    codes: Codes,
    n_classes: int,
    counts: Array,
    recipe: RegressionRecipe,
    label_weights: Array | None = None,
    like: Regression | None = None,
) -> Regression:
    """Regress labels on the features of one view.

    Parameters
    ----------
    features : (l, p) at the labelled rows
    codes : (l,) in 0..K−1
    counts : (l,) what each label counts where it is left out; none if it is the only one of its
        class, or if labels cannot be left out
    label_weights : (l,) of the labels; None: one each
    like : a regression on part of the labels whose shares and sureness are taken
    """
    amplitudes = np.array(recipe.amplitudes) if like is None else like.head.amplitudes
    given = _Given.of(features, codes, n_classes, label_weights)
    s, directions, along = given.s, given.directions, given.along
    means, without, sureness, step = [], [], [], 0
    likelihood: list[float] = []
    for i, a in enumerate(amplitudes):  # they rise
        left = 1.0 / (1.0 + a * s**2)  # one less the gain
        others = given.means_left_out(a)
        if like is None:
            sure, log_p, step = _sureness(others, codes, counts, a, step, recipe)
        else:
            sure, log_p = float(like.sureness[i]), float(np.log(like.head.shares[i]))
        if likelihood and log_p < max(likelihood) - NEGLIGIBLE:
            break  # it falls from here on
        likelihood.append(log_p)
        sureness.append(sure)
        without.append(sure * others)
        means.append(sure * directions @ ((a * s * left)[:, None] * along))
    shares = np.exp(np.array(likelihood) - max(likelihood))
    used = np.flatnonzero(shares >= recipe.least_share)
    shares = shares[used] / shares[used].sum()
    gains = np.stack([a * s**2 / (1.0 + a * s**2) for a in amplitudes[used]])
    head = RegressionHead(
        amplitudes[used], shares, np.stack([means[i] for i in used]), directions, gains
    )
    held_out = sum(share * _probit(without[i]) for share, i in zip(shares, used))
    return Regression(head, np.asarray(held_out), np.array(sureness)[used])


class _Given(NamedTuple):
    """The labels, and the singular values of their rows' features.

    root : (l,) square roots of the labels' weights
    target : (l, K) what is regressed on
    U, s, directions : (l, r), (r,) and (p, r) with root V = U diag(s) Rᵀ
    along : (r, K) Uᵀ root target
    outside : (l, K) what no function of the features follows
    room : (l,) one less the squared length of each row of U
    """

    root: Array
    target: Array
    U: Array
    s: Array
    directions: Array
    along: Array
    outside: Array
    room: Array

    @classmethod
    def of(
        cls, features: Array, codes: Codes, n_classes: int, label_weights: Array | None
    ) -> _Given:
        root = np.ones(len(codes)) if label_weights is None else np.sqrt(label_weights)
        U, s, directions = _thin_svd(root[:, None] * features)
        target = np.eye(n_classes)[codes] - 1.0 / n_classes
        along = U.T @ (root[:, None] * target)
        outside = root[:, None] * target - U @ along
        room = np.maximum(1.0 - np.sum(U**2, axis=1), 0.0)
        return cls(root, target, U, s, directions, along, outside, room)

    def means_left_out(self, amplitude: float) -> Array:
        """Return the mean at each labelled row without its own label, (l, K)."""
        left = 1.0 / (1.0 + amplitude * self.s**2)
        residual = self.outside + self.U @ (left[:, None] * self.along)
        residual /= (self.room + self.U**2 @ left)[:, None]
        return np.asarray(self.target - residual / self.root[:, None])


def told_by_others(
    features: Array,
    codes: Codes,
    n_classes: int,
    amplitude: float,
    sureness: float,
    label_weights: Array | None = None,
) -> Array:
    """Return class probabilities of every labelled row by the other labels, (l, K).

    They are regressed on at one amplitude, and the means are as sure as is said.

    Examples
    --------
    >>> ends = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    >>> told_by_others(ends, np.array([0, 0, 1, 1]), 2, 4.0, 3.0)[:, 0].round(2)
    array([0.96, 0.96, 0.04, 0.04])
    """
    given = _Given.of(features, codes, n_classes, label_weights)
    return _probit(sureness * given.means_left_out(amplitude))


def _sureness(
    without: Array,
    codes: Codes,
    counts: Array,
    amplitude: float,
    start: int,
    recipe: RegressionRecipe,
) -> tuple[float, float, int]:
    """Return β, and the log probability of the labels left out under it with its prior.

    Steps of a fixed length are made for as long as they go up; a parabola through the best and its
    neighbours tells where between them the top is.

    Parameters
    ----------
    without : (l, K) the mean at each labelled row without its own label
    start : steps from the prior's centre at which the search begins; the last returned is where it
        ends
    """
    some = np.flatnonzero(counts)
    centre = recipe.log_sureness - recipe.log_sureness_slope * np.log(amplitude)

    @cache
    def at(step: float) -> float:
        deviation = step * recipe.sureness_step
        told = _probit(np.exp(centre + deviation) * without[some])
        log_p = log_probability(told, codes[some], counts[some])
        return log_p - 0.5 * (deviation / recipe.sureness_spread) ** 2

    best = start
    direction = 1 if at(best + 1) > at(best) else -1
    while at(best + direction) > at(best):
        best += direction
    below, top, above = at(best - 1), at(best), at(best + 1)
    bend = 2.0 * top - below - above
    place = 0.5 * (above - below) / bend if bend > 0 else 0.0
    sure = float(np.exp(centre + (best + place) * recipe.sureness_step))
    return sure, at(best + place), best


def log_probability(told: Array, codes: Codes, counts: Array) -> float:
    """Return that of labels by probabilities of their rows (l, K), each as often as it counts."""
    own = np.maximum(told[np.arange(len(codes)), codes], LEAST_PROBABILITY)
    return float(counts @ np.log(own))


def _thin_svd(V: Array) -> tuple[Array, Array, Array]:
    """Return U (l, r), s (r,) and R (p, r) with V = U diag(s) Rᵀ, of its rank r."""
    U, s, R = np.linalg.svd(V, full_matrices=False)
    kept = s > LEAST_SINGULAR * max(float(s.max(initial=0.0)), 1e-300)
    return U[:, kept], s[kept], R[kept].T


def _probit(mean: Array) -> Array:
    """Return P(mean_c + e_c is the largest); (m, K) -> (m, K)."""
    return class_probabilities(mean, np.zeros(len(mean)))


# The views together -------------------------------------------------------------------------------


class Regressions(NamedTuple):
    """The labels regressed on every view, and what the views count.

    heads : of the views, in their order
    assumptions : those of the views, in their order, and nothing
    foretold : (l, K) what is said of the labelled rows, each without its own label
    weights : (k,) of the assumptions
    is_compared : whether any label could be left out
    """

    heads: tuple[RegressionHead, ...]
    assumptions: list[Weighed]
    foretold: Array
    weights: Array
    is_compared: bool

    def head(self, view: int, shares: Array) -> RegressionHead:
        """Return the posterior on one view; its amplitudes have shares already."""
        return self.heads[view]


def weigh(
    names: list[str],
    parts: list[Regression],
    codes: Codes,
    n_classes: int,
    counts: Array,
    recipe: RegressionRecipe,
    label_weights: Array | None = None,
    n_columns: int = 1,
) -> Regressions:
    """Weigh the views by how they foretell labels together.

    Parameters
    ----------
    names : of the views' assumptions
    counts : (l,) what each label counts where it is left out
    n_columns : columns of the rows that are not constant
    """
    shares = _shares(codes, n_classes, counts, label_weights)
    told = np.stack([*(part.held_out for part in parts), shares])
    prior = np.array([recipe.odds_of(name, n_columns) for name in (*names, NOTHING)])
    assumptions = [
        Weighed(name, float(np.log(one)), log_probability(each, codes, counts), np.empty(0))
        for name, one, each in zip((*names, NOTHING), prior, told)
    ]
    column = OneColumn.of(assumptions, told, codes, counts, n_columns)
    prior *= recipe.worth / prior.sum()
    if column is not None:
        told = column.joined(told, column.told)
        prior = column.joined(prior, prior[column.columns].sum())
    of_labels = np.maximum(told[:, np.arange(len(codes)), codes], LEAST_PROBABILITY)
    weights = mixture_weights(of_labels, prior, counts=counts)
    foretold = np.tensordot(weights, told, 1)
    if column is not None:
        weights = column.parted(weights, len(assumptions))
    heads = tuple(part.head for part in parts)
    return Regressions(heads, assumptions, foretold, weights, bool(counts.any()))


def _shares(codes: Codes, n_classes: int, counts: Array, label_weights: Array | None) -> Array:
    """Return what shares of the classes say of each label without it, (l, K).

    Of few labels a class, those of its class are always the fewer for the one that is left out:
    where equal shares foretell labels better, these are taken.
    """
    found = average.shares_of_others(codes, n_classes, label_weights)
    equal = -np.log(n_classes) * counts.sum()
    if log_probability(found, codes, counts) >= equal:
        return found
    return np.full(found.shape, 1.0 / n_classes)


def counts_left_out(codes: Codes, counts: Array) -> Array:
    """Return what labels count where they are left out: the only one of its class does not.

    Of very many labels a random part counts.

    Examples
    --------
    >>> counts_left_out(np.array([0, 0, 1]), np.ones(3))
    array([1., 1., 0.])
    """
    part = part_of_labels(np.random.default_rng(0), codes, MOST_LEFT_OUT)
    return counts * (np.bincount(codes)[codes] > 1) * np.isin(np.arange(len(codes)), part)
