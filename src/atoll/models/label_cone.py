"""The cone that labels without noise leave to the functions at their rows.

A label says that the function of its class exceeds each of the others: K − 1 differences a row are
positive (of two classes one, the only function itself, up to its sign). The labels say nothing of
the sum of all functions, which is independent of their differences.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from atoll.core.linalg import lower_times
from atoll.inference.cone_flights import fly, mirrors_of

Array = NDArray[np.float64]
Codes = NDArray[np.intp]


class LabelCone(NamedTuple):
    """What moves differences of functions (S, m) inside the cone; m = l (K − 1), row by row.

    lower : (l, l) factor of the covariance of every function
    codes : (l,) in 0..K−1
    n_classes : K
    others : (l, K−1) the classes that are not the row's
    mirrors : (m, m) the reflections at the walls of the cone
    """

    lower: Array
    codes: Codes
    n_classes: int
    others: Codes
    mirrors: Array

    def start(self, n_chains: int) -> Array:
        """Return differences well inside the cone: one everywhere, (S, m)."""
        return np.ones((n_chains, len(self.mirrors)), self.mirrors.dtype)

    def move(self, rng: np.random.Generator, differences: Array) -> Array:
        """Return differences (S, m) after one flight of all functions at once."""
        n_functions = 1 if self.n_classes == 2 else self.n_classes
        f = self._unlabelled(rng, n_functions * len(differences))
        f = f.reshape(len(differences), n_functions, -1)
        return fly(differences, self.differences(f), self.mirrors)

    def differences(self, f: Array) -> Array:
        """Return the differences (S, m) of functions (S, F, l)."""
        if self.n_classes == 2:
            return np.asarray(f[:, 0] * np.where(self.codes == 1, 1.0, -1.0).astype(f.dtype))
        n_labels = len(self.codes)
        flat, row = f.reshape(len(f), -1), np.arange(n_labels)
        own = np.repeat(self.codes * n_labels + row, self.n_classes - 1)
        other = (self.others * n_labels + row[:, None]).ravel()
        out = flat.take(own, axis=1)
        out -= flat.take(other, axis=1)
        return out

    def functions(self, rng: np.random.Generator, differences: Array) -> Array:
        """Return functions (S, l, F) with these differences, their mean drawn from its prior."""
        K, n_labels = self.n_classes, len(self.codes)
        if K == 2:
            side = np.where(self.codes == 1, 1.0, -1.0).astype(differences.dtype)
            return np.ascontiguousarray((side * differences)[:, :, None])
        below = np.zeros((len(differences), n_labels, K), differences.dtype)
        row = np.arange(n_labels)[:, None]
        below[:, row, self.others] = differences.reshape(-1, n_labels, K - 1)
        mean = self._unlabelled(rng, len(differences)) / differences.dtype.type(np.sqrt(K))
        own = mean + below.sum(axis=2) / K
        return np.asarray(own[:, :, None] - below)

    def leads(self, differences: Array) -> Array:
        """Return by how much each class that has labels leads at its own rows, (S, classes).

        That is its function less the mean of all, summed over these rows, in units of the length
        of the differences: a cone looks the same from near and far, and length is drawn anew by
        every flight.
        """
        length = np.sqrt(np.einsum("sm,sm->s", differences, differences))[:, None]
        if self.n_classes == 2:
            return np.asarray(differences.sum(axis=1, keepdims=True) / length)
        own = self.codes[:, None] == np.unique(self.codes)
        by_row = differences.reshape(len(differences), len(self.codes), -1).sum(axis=2)
        return np.asarray(by_row @ own.astype(differences.dtype) / length)

    def _unlabelled(self, rng: np.random.Generator, n: int) -> Array:
        """Draw functions as they are before any label, (n, l)."""
        white = rng.standard_normal((len(self.codes), n), self.lower.dtype)
        return np.ascontiguousarray(lower_times(self.lower, white).T)


def label_cone(
    lower: Array, codes: Codes, n_classes: int, precision: type = np.float64
) -> LabelCone:
    """Return the cone of labels.

    Parameters
    ----------
    lower : (l, l) factor of the covariance of every function at the labelled rows
    codes : (l,) in 0..K−1
    precision : of the differences, single or double
    """
    covariance = lower @ lower.T
    others = np.nonzero(np.arange(n_classes) != codes[:, None])[1].reshape(len(codes), -1)
    row = np.repeat(np.arange(len(codes)), n_classes - 1)
    own, other = codes[row], others.ravel()
    if n_classes == 2:  # a label is the sign of the only function
        common = np.where(own[:, None] == own, 1, -1).astype(np.int8)
    else:
        common = (own[:, None] == own).astype(np.int8)
        common += other[:, None] == other
        common -= own[:, None] == other
        common -= other[:, None] == own
    mirrors = covariance[np.ix_(row, row)]
    mirrors *= common
    mirrors = mirrors_of(mirrors).astype(precision, copy=False)
    return LabelCone(lower.astype(precision), codes, n_classes, others, mirrors)
