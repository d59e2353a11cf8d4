"""Posteriors of the labels on the features of one view.

    f_c(x) = v(x)ᵀ a_c,   a_c ~ N(0, A I),   y = the largest of f_c(x) + ε_c,   ε_c ~ N(0, 1)

(two classes: one function, y = 1 where f + ε > 0), at several amplitudes A. Expectation propagation
finds each posterior and its evidence. Given the sites, coefficients are normal with a covariance
A (I − U diag(g) Uᵀ): what the labels do not touch stays as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from atoll.core.memory import in_chunks
from atoll.core.regions import Intervals, Margins, Regions
from atoll.inference import stacked_ep
from atoll.inference.stacked_ep import StackedSites
from atoll.likelihoods import multinomial_probit, probit
from atoll.likelihoods.multinomial_probit import three_class_probabilities
from atoll.models.graph_posterior import probit_proba
from atoll.models.posterior import chosen_states

Array = NDArray[np.float64]
Codes = NDArray[np.intp]

CONVERGED = 1.0  # the disagreement of moments beyond which a posterior is not used
LEAST_GAIN = 1e-12  # of a direction that is kept


class ProbitHead(NamedTuple):
    """A mixture over amplitudes of normal coefficients; F is one for two classes, else K.

    amplitudes : (A,)
    shares : (A,) that sum to one
    means : (A, p, F) of the coefficients
    directions : (A, p, r) orthonormal U
    gains : (A, r) g, in [0, 1]
    """

    amplitudes: Array
    shares: Array
    means: Array
    directions: Array
    gains: Array

    def proba(self, features: Array) -> Array:
        """Return the class probabilities; (m, p) -> (m, K)."""
        K = max(self.means.shape[2], 2)
        of_one = three_class_probabilities if K == 3 else probit_proba
        out = np.zeros((len(features), K))
        for share, mean, variance in self._moments(features):
            out += share * of_one(mean, variance)
        return out

    def draws(self, features: Array, n: int, rng: np.random.Generator) -> Array:
        """Return n joint draws of the class probabilities; (m, p) -> (n, m, K)."""
        chosen = chosen_states(rng, n, self.shares)
        K = max(self.means.shape[2], 2)
        out = np.empty((n, len(features), K))
        a = np.stack([self._coefficients(rng, which) for which in chosen])
        for piece in in_chunks(n, out[0].size):
            latent = (features @ a[piece]).reshape(-1, a.shape[2])
            out[piece] = probit_proba(latent, np.zeros(len(latent))).reshape(out[piece].shape)
        return out

    def _coefficients(self, rng: np.random.Generator, which: int) -> Array:
        """Draw coefficients at one of the amplitudes, (p, F)."""
        mean, A = self.means[which], float(self.amplitudes[which])
        return mean + deviations(rng, A, self.directions[which], self.gains[which], mean.shape[1])

    def _moments(self, features: Array) -> list[tuple[float, Array, Array]]:
        length = np.einsum("ij,ij->i", features, features)
        found = []
        for A, share, mean, U, g in zip(*self):
            known = (features @ U) ** 2 @ g
            found.append((float(share), features @ mean, np.maximum(A * (length - known), 0.0)))
        return found


def deviations(
    rng: np.random.Generator, amplitude: float, directions: Array, gains: Array, n_functions: int
) -> Array:
    """Draw coefficients of covariance A (I − U diag(g) Uᵀ), less their means, (p, F).

    Parameters
    ----------
    directions : (p, r) orthonormal U
    gains : (r,) g, in [0, 1]
    """
    free = rng.standard_normal((len(directions), n_functions))
    held = (1.0 - np.sqrt(1.0 - gains))[:, None] * (directions.T @ free)
    return np.asarray(np.sqrt(amplitude) * (free - directions @ held))


class Problems(NamedTuple):
    """The same labels on several views, each at several amplitudes.

    features : for each view (l, p) at the labelled rows
    amplitudes : for each view (A,)
    sites : the posteriors of all of them, view by view
    first : (views + 1,) where each view's problems begin
    """

    features: list[Array]
    amplitudes: list[Array]
    sites: StackedSites
    first: NDArray[np.intp]

    def log_evidence(self, view: int) -> Array:
        """Return that of each amplitude, (A,); −∞ where the moments did not come to agree."""
        part = slice(self.first[view], self.first[view + 1])
        agreed = self.sites.disagreement[part] < CONVERGED
        return np.where(agreed, self.sites.log_evidence[part], -np.inf)

    def classes(self, view: int, shares: Array, features: Array) -> Codes:
        """Return the most probable classes of rows at the amplitude of the largest share.

        Classes have the same variance at a row, so that the largest mean decides.

        Parameters
        ----------
        shares : (A,) of the view's amplitudes
        features : (m, p)
        """
        most = int(np.argmax(shares))
        mean = features @ (self.features[view].T @ self.sites.weights[self.first[view] + most])
        if mean.shape[1] == 1:
            return (mean[:, 0] > 0).astype(np.intp)
        return np.asarray(mean.argmax(axis=1), np.intp)

    def held_out(self, view: int, which: Codes | None = None) -> Array:
        """Return the class probabilities of every label's row given all other labels, (a, l, K).

        Parameters
        ----------
        which : (a,) of the view's amplitudes; None: all of them
        """
        part = np.arange(self.first[view], self.first[view + 1])
        part = part if which is None else part[which]
        mean, variance = self.sites.held_out_mean[part], self.sites.held_out_variance[part]
        p = probit_proba(mean.reshape(-1, mean.shape[2]), np.maximum(variance, 0.0).ravel())
        return p.reshape(*variance.shape, -1)

    def head(self, view: int, shares: Array, least_share: float = 1e-3) -> ProbitHead:
        """Return the posterior on one view, of the amplitudes that have a share worth keeping."""
        kept = np.flatnonzero(shares >= least_share * shares.max())
        V, A = self.features[view], self.amplitudes[view][kept]
        index = self.first[view] + kept
        means = [a * V.T @ b for a, b in zip(A, self.sites.weights[index])]
        known = [_known(np.sqrt(a) * V, S) for a, S in zip(A, self.sites.site_inverse[index])]
        directions, gains = zip(*known)
        share = shares[kept] / shares[kept].sum()
        return ProbitHead(A, share, np.stack(means), np.stack(directions), np.stack(gains))


def infer(
    features: list[Array],
    amplitudes: list[Array],
    codes: Codes,
    n_classes: int,
    nugget: float,
    label_weights: Array | None = None,
    wrong: float = 0.0,
    log_priors: list[Array] | None = None,
) -> Problems:
    """Find the posteriors of labels on every view at every amplitude.

    Parameters
    ----------
    features : for each view (l, p) at the labelled rows
    amplitudes : for each view (A,)
    codes : (l,) in 0..K−1
    nugget : variance of each label's own part, relative to the amplitude
    label_weights : (l,) by which log-likelihoods are multiplied; None: one each
    wrong : share of labels that say any other class, in place of the one that they should
    log_priors : for each view (A,); where they are given, posteriors that cannot matter are rough
    """
    n = len(codes)
    grams = []
    for V, A in zip(features, amplitudes):
        gram = V @ V.T
        gram[np.diag_indices(n)] += nugget
        grams.append(A[:, None, None] * gram)
    stack = np.concatenate(grams)
    first = np.concatenate([[0], np.cumsum([len(A) for A in amplitudes])])
    priors = None if log_priors is None else np.concatenate(log_priors)
    parts, best = [], -np.inf
    for piece in in_chunks(len(stack), 4 * n * n + 40 * n * n_classes):
        found = stacked_ep.propagate(
            stack[piece],
            _regions(codes, n_classes, wrong),
            1 if n_classes == 2 else n_classes,
            label_weights=label_weights,
            log_priors=None if priors is None else priors[piece],
            others=best,
        )
        parts.append(found)
        if priors is not None:
            best = max(best, float(np.max(priors[piece] + found.log_evidence)))
    return Problems(features, amplitudes, stacked_ep.joined(parts, np.concatenate), first)


def merged(parts: Sequence[Problems]) -> Problems:
    """Put several posteriors of the same labels side by side, as if at more amplitudes."""
    n_views = len(parts[0].features)
    offsets = np.cumsum([0, *(part.first[-1] for part in parts)])
    order, first = [], [0]
    for i in range(n_views):
        for part, offset in zip(parts, offsets):
            order.append(offset + np.arange(part.first[i], part.first[i + 1]))
        first.append(first[-1] + sum(len(part.amplitudes[i]) for part in parts))
    sites = stacked_ep.joined([part.sites for part in parts], np.concatenate)
    place = np.concatenate(order)
    arrays = [field[place] for field in sites[:-1]]
    return Problems(
        parts[0].features,
        [np.concatenate([part.amplitudes[i] for part in parts]) for i in range(n_views)],
        StackedSites._make([*arrays, sites.n_iterations]),
        np.array(first),
    )


def _regions(codes: Codes, n_classes: int, wrong: float = 0.0) -> Callable[[int], Regions]:
    """Return what gives the regions of the labels, repeated for so many problems."""

    def repeated(n_problems: int) -> Regions:
        tiled = np.tile(codes, n_problems)
        found: Intervals | Margins
        if n_classes == 2:
            found = probit.regions(tiled)
        else:
            found = multinomial_probit.regions(tiled, n_classes)._replace(is_rough=True)
        return found if wrong == 0.0 else _that_may_be_wrong(found, tiled, wrong, n_classes)

    return repeated


def _that_may_be_wrong(
    regions: Intervals | Margins, codes: Codes, wrong: float, n_classes: int
) -> Regions:
    """Return regions with the classes beside the label's, each with its part of `wrong`."""
    log_weight = np.full((len(codes), n_classes), np.log(wrong / (n_classes - 1)))
    if isinstance(regions, Intervals):
        log_weight[:, 0] = np.log1p(-wrong)  # the label's own half-line, and the other one
        lower = np.column_stack([regions.lower, np.where(codes == 1, -np.inf, 0.0)])
        upper = np.column_stack([regions.upper, np.where(codes == 1, 0.0, np.inf)])
        return Intervals(lower, upper, log_weight)
    log_weight[np.arange(len(codes)), codes] = np.log1p(-wrong)
    return regions._replace(log_weight=log_weight)


def _known(V: Array, site_inverse: Array) -> tuple[Array, Array]:
    """Return U (p, r) and g (r,) with U diag(g) Uᵀ = Vᵀ S V, for V (l, p) and S (l, l)."""
    gram = V @ V.T
    values, vectors = np.linalg.eigh(site_inverse)
    half = vectors * np.sqrt(np.maximum(values, 0.0))  # S = half halfᵀ
    gains, inner = np.linalg.eigh(half.T @ gram @ half)
    rank = min(V.shape)
    gains, inner = np.clip(gains[-rank:], LEAST_GAIN, 1.0), inner[:, -rank:]
    directions = V.T @ (half @ inner) / np.sqrt(gains)
    return directions, gains
