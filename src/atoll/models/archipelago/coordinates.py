"""Coordinates in which functions move: white noise itself, or such that rows leave them white.

Where rejections are many each function moves in coordinates in which its posterior would be white
if the rows were observations of precision W: ν = Q^{-T} ε with Q Qᵀ = I + Lᵀ W L, so that few and
long steps suffice; a row on one class's island tells nothing of the other functions, and leaves
them their prior. Where rejections are few the functions move in ν itself.

All coordinates are class by class, (K, T): so every product takes vectors that lie in one piece.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import blas, lapack

from atoll.core.linalg import jittered_cholesky, lower_times, solve_lower
from atoll.models.archipelago.functions import (
    Setting,
    unwhiten_by_class,
    unwhiten_by_class_transposed,
)
from atoll.models.archipelago.state import ArchipelagoState

Array = NDArray[np.float64]
Array32 = NDArray[np.float32]

FEW_REJECTIONS = 1.3  # proposals per row, up to which functions move in white noise itself


class Coordinates(NamedTuple):
    """In which the functions move: ν itself, or ε with ν = Q^{-T} ε, in which they are whiter.

    Any Q will do: it is found in float32, and then taken as it is. Slopes are found in float32 as
    well, since any slope leaves the density invariant. As Q Qᵀ = I + Lᵀ W L, |ν|² is |ε|² − Σ W u²
    with u = L ν: so slopes need no ν on the way. u and L are of the amplitude that is usual here,
    which does not move.

    factors : (F, T, T) L, for ν
    roots : Q of every function; none for ν
    maps : (K, T, T) Q^{-1} Lᵀ, the transpose of what takes ε to u; of no functions for ν
    weights : (K, T) W; of no functions for ν
    amplitudes : (F,) half the log variance that L has
    """

    factors: Array
    roots: list[Array]
    maps: Array32
    weights: Array
    amplitudes: Array

    def functions(self, coordinates: Array) -> Array:
        """Return u, as exactly as slopes need it, (K, T) -> (K, T)."""
        if self.roots:
            return np.matmul(coordinates.astype(np.float32)[:, None, :], self.maps)[:, 0].astype(
                float
            )
        return unwhiten_by_class(self.factors, coordinates)

    def slope(self, coordinates: Array, u: Array, slope: Array, *, out: Array) -> None:
        """Find the gradient of −|ν|²/2 and of what has this gradient in u, (K, T) all."""
        if self.roots:
            by_u = self.weights * u
            by_u += slope
            found = np.matmul(self.maps, by_u.astype(np.float32)[:, :, None])[:, :, 0]
        else:
            found = unwhiten_by_class_transposed(self.factors, slope)
        np.subtract(found, coordinates, out=out)

    def of_whitened(self, whitened: Array) -> Array:
        """Return ν in these coordinates, (T, K) -> (K, T)."""
        if not self.roots:
            return np.ascontiguousarray(whitened.T)
        columns = whitened.T[:, :, None]
        parts = [
            lower_times(Q, part, transposed=True)[:, 0]
            for Q, part in zip(self.roots, columns, strict=True)
        ]
        return np.stack(parts)

    def whitened(self, coordinates: Array) -> Array:
        """Return ν, (K, T) -> (T, K)."""
        if not self.roots:
            return np.ascontiguousarray(coordinates.T)
        pairs = zip(self.roots, coordinates, strict=True)
        return np.stack([solve_lower(Q, part, transposed=True) for Q, part in pairs], axis=1)


def many_rejections(setting: Setting, state: ArchipelagoState) -> bool:
    """Return whether rejections are usually so many that they hold the functions."""
    return state.usual_proposals > FEW_REJECTIONS * len(setting.inputs)


def coordinates_of(setting: Setting, state: ArchipelagoState) -> Coordinates:
    """Return the coordinates in which functions move.

    They may not depend on what moves: so L has the amplitude that warm-up found, not its own. Where
    rejections are few they are ν itself, which is white enough, and costs less.
    """
    v, factors, T = setting.prior.variance_index, state.factors, state.factors.shape[1]
    own = 0.5 * state.log_parameters[:, v] if v is not None else np.zeros(len(factors))
    if not many_rejections(setting, state):
        none = np.zeros((0, T, T), dtype=np.float32)
        return Coordinates(factors, [], none, np.zeros((0, T)), own)
    usual = 0.5 * state.tuning.log_parameters[:, v] if v is not None else own
    # Transposed where it lies by rows: LAPACK has matrices by columns.
    lowers = [
        np.asfortranarray(scale * lower, dtype=np.float32)
        for scale, lower in zip(np.exp(usual - own), factors, strict=True)
    ]
    W = np.ascontiguousarray(state.tuning.precisions(T).T)
    roots, maps = [], np.empty((len(W), T, T), dtype=np.float32)
    for k, spread in enumerate(np.sqrt(W).astype(np.float32)):
        lower = lowers[k] if len(lowers) > 1 else lowers[0]
        root = _root(spread[:, None] * lower)
        roots.append(root.astype(float))
        maps[k] = blas.strsm(1.0, root, lower, side=1, lower=1, trans_a=1).T
    return Coordinates(factors, roots, maps, W, usual)


def _root(scaled: Array32) -> Array32:
    """Return Q, lower, with Q Qᵀ = I + Gᵀ G; scaled (T, T) G, lower, by columns."""
    square, _ = lapack.slauum(scaled, lower=1)
    np.einsum("ii->i", square)[:] += 1.0
    root, info = lapack.spotrf(square, lower=1, clean=1)
    if info == 0 and np.isfinite(np.einsum("ii->", root)):
        return root
    exact = scaled.astype(float)
    return np.asfortranarray(
        jittered_cholesky(np.eye(len(exact)) + exact.T @ exact).lower, dtype=np.float32
    )
