"""A kernel bent by the shape of the data: functions that vary little along a graph of the rows.

From a kernel K and a symmetric positive semi-definite matrix M on the rows D of the data,

    K̃(x, z) = K(x, z) − k_xᵀ (I + M K)^{-1} M k_z,      k_x = K(D, x), K = K(D, D)

(Sindhwani, Chu & Keerthi 2007, eqs 1 and 5). It is the covariance of a Gaussian process with
covariance K after it was told exp(−½ f_Dᵀ M f_D), that f is smooth on the graph. M = r Σ_p β_p L^p
with L a Laplacian; r is the paper's γ_I/γ_A. With M = r RᵀR,

    K̃(x, z) = K(x, z) − t_xᵀ t_z,       t_x = B^{-1/2} √r R k_x,     B = I + r R K Rᵀ,

which is symmetric whatever the rounding, and B has no eigenvalue below one.
"""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.gaussian_process.kernels import Hyperparameter, Kernel

from atoll.core.graphs import (
    gaussian_weights,
    neighbour_graph,
    normalised_laplacian,
    self_tuning_weights,
    unnormalised_laplacian,
)
from atoll.core.linalg import jittered_cholesky, solve_lower
from atoll.kernels.hyperparameters import slopes_of

Array = NDArray[np.float64]

WEIGHTS = ("gaussian", "self-tuning", "binary")


class Geometry:
    """The rows of the data and a matrix M₀ = RᵀR that measures roughness on their graph.

    It never changes, so that copies and clones share it; equal contents are equal. The last
    factor that a kernel needed is kept beside it and not saved.

    Parameters
    ----------
    rows : (n, d), or whatever n things the base kernel takes
    root : (m, n) R, dense or sparse

    Examples
    --------
    >>> shape = Geometry.from_rows(np.array([[0.0], [1.0], [3.0]]), n_neighbors=1, power=2)
    >>> shape.matrix().round(2)
    array([[ 1.66, -1.63,  0.47],
           [-1.63,  2.  , -1.16],
           [ 0.47, -1.16,  1.34]])
    """

    def __init__(self, rows: Any, root: Any):
        self.rows = rows
        self.root = root
        self._last: tuple[Any, Array] | None = None

    @classmethod
    def from_rows(
        cls,
        X: Any,
        *,
        n_neighbors: int = 10,
        weights: str = "gaussian",
        normalised: bool = True,
        power: int = 2,
        coefficients: Sequence[float] | None = None,
    ) -> Geometry:
        """Join every row of X to its nearest ones.

        Parameters
        ----------
        X : (n, d) array or sparse matrix
        n_neighbors : at most n − 1 are taken
        weights : "gaussian", whose width is the mean length of an edge, as the paper has it;
            "self-tuning", each row with its own width; or "binary", every edge one
        normalised : I − D^{-1/2} W D^{-1/2}, or D − W
        power, coefficients : as in `from_laplacian`
        """
        if weights not in WEIGHTS:
            raise ValueError(
                f"weights={weights!r} is unknown; give one of {', '.join(map(repr, WEIGHTS))}."
            )
        n = X.shape[0]
        if n < 2:
            raise ValueError(f"X has {n} row(s) (n_samples = {n}); a graph needs at least 2.")
        if isinstance(n_neighbors, int | np.integer) and not isinstance(n_neighbors, bool):
            n_neighbors = min(n_neighbors, n - 1)
        graph = neighbour_graph(X, n_neighbors)
        if weights == "self-tuning":
            W = self_tuning_weights(graph)
        elif weights == "binary":
            W = gaussian_weights(graph, np.finfo(float).max)
        else:
            mean = float(graph.distances.data.mean())
            W = gaussian_weights(graph, mean if mean > 0 else None)
        laplacian = normalised_laplacian(W) if normalised else unnormalised_laplacian(W)
        rows = X.toarray() if hasattr(X, "toarray") else X
        return cls.from_laplacian(rows, laplacian, power=power, coefficients=coefficients)

    @classmethod
    def from_laplacian(
        cls,
        rows: Any,
        laplacian: Any,
        *,
        power: int = 2,
        coefficients: Sequence[float] | None = None,
    ) -> Geometry:
        """Take M₀ = L^power, or Σ_p coefficients[p] L^p with p from 0.

        An even power costs nothing, since L^(p/2) is a root; any other needs the
        eigenvectors of L, O(n³), once.
        """
        L = sparse.csr_array(laplacian, dtype=np.float64)
        if L.shape != (len(rows), len(rows)):
            raise ValueError(
                f"laplacian has shape {L.shape} and there are {len(rows)} rows; give a square "
                "matrix with one row for each."
            )
        if coefficients is None:
            if isinstance(power, bool) or not isinstance(power, int | np.integer) or power < 1:
                raise ValueError(f"power={power!r} must be a whole number, at least 1.")
            if power % 2 == 0:
                root = sparse.eye_array(len(rows), format="csr")
                for _ in range(int(power) // 2):
                    root = sparse.csr_array(root @ L)
                return cls(rows, root)
            beta = np.zeros(int(power) + 1)
            beta[-1] = 1.0
        else:
            beta = np.asarray(coefficients, dtype=float)
            if beta.ndim != 1 or not len(beta) or not np.all((beta >= 0) & np.isfinite(beta)):
                raise ValueError(
                    f"coefficients={coefficients!r} must be numbers that are not negative, one "
                    "for each power of the Laplacian from 0 upward."
                )
        values, vectors = np.linalg.eigh(L.toarray())
        penalty = np.polynomial.polynomial.polyval(np.maximum(values, 0.0), beta)
        return cls(rows, (vectors * np.sqrt(penalty)).T)

    def matrix(self) -> Array:
        """Return M₀, (n, n) dense."""
        product: Any = self.root.T @ self.root
        return product.toarray() if hasattr(product, "toarray") else product

    def project(self, columns: Array) -> Array:
        """Return R columns; (n, k) -> (m, k)."""
        return np.asarray(self.root @ columns)

    def spread(self, columns: Array) -> Array:
        """Return Rᵀ columns; (m, k) -> (n, k)."""
        return np.asarray(self.root.T @ columns)

    def factor(self, base: Kernel, ratio: float) -> Array:
        """Return the lower Cholesky factor of B, (m, m); the last one is kept for the next call."""
        key = (pickle.dumps(base), float(ratio))
        last = self._last  # read once: another thread may replace it
        if last is not None and last[0] == key:
            return last[1]
        lower = penalty_factor(self.project(self.project(base(self.rows)).T), ratio)
        self._last = (key, lower)
        return lower

    # What never changes is shared, not copied: kernels are cloned at every change of a parameter.

    def __deepcopy__(self, memo: dict[int, Any]) -> Geometry:
        return self

    def __getstate__(self) -> dict[str, Any]:
        # Plain arrays: a file of a model then names no type of SciPy's.
        return {"rows": self.rows, "shape": self.root.shape, "parts": self._root_parts()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        parts = state["parts"]
        root = parts[0] if len(parts) == 1 else sparse.csr_array(parts, shape=state["shape"])
        self.rows, self.root, self._last = state["rows"], root, None

    def _root_parts(self) -> tuple[NDArray[Any], ...]:
        root = self.root
        return (root.data, root.indices, root.indptr) if hasattr(root, "indptr") else (root,)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Geometry):
            return NotImplemented
        return self is other or self.digest() == other.digest()

    __hash__ = None  # type: ignore[assignment]

    def digest(self) -> str:
        """Return a short name of the contents."""
        found = hashlib.sha256()
        for part in (np.asarray(self.rows), *self._root_parts()):
            found.update(part.tobytes())
        return found.hexdigest()[:16]

    def __repr__(self) -> str:
        return f"Geometry(of {len(self.rows)} rows, {self.digest()})"


def penalty_factor(projected: Array, ratio: float) -> Array:
    """Return the lower Cholesky factor of B = I + ratio · projected, projected = R K Rᵀ (m, m)."""
    B = ratio * projected
    B[np.diag_indices_from(B)] += 1.0
    return jittered_cholesky(B).lower


class GraphWarpedKernel(Kernel):
    """K̃, the base kernel bent by a geometry; takes new rows like any other kernel.

    Its log-parameters are those of the base kernel, then the logarithm of the ratio, and it has
    gradients by all of them. Each value of them costs one O(n³) factor for n rows in the geometry,
    kept until another is asked for: with everything but a constant in front held fixed, a sampler
    pays for it once. A ratio of 0 gives the base kernel.

    For an amplitude write `ConstantKernel() * GraphWarpedKernel(...)`, the paper's (1/γ_A) K̃.

    Parameters
    ----------
    base : scikit-learn kernel
    geometry : Geometry
    ratio : float
        r = γ_I/γ_A, not negative.
    ratio_bounds : pair of floats, or "fixed"

    References
    ----------
    V. Sindhwani, P. Niyogi and M. Belkin, "Beyond the point cloud: from transductive to
    semi-supervised learning" (2005). V. Sindhwani, W. Chu and S. S. Keerthi, "Semi-supervised
    Gaussian process classifiers" (2007), equations 1 and 5.

    Examples
    --------
    Three rows in a chain and one apart: along the chain the correlation grows.

    >>> from sklearn.gaussian_process.kernels import RBF
    >>> X = np.array([[0.0], [1.0], [2.0], [5.0]])
    >>> shape = Geometry.from_rows(X, n_neighbors=1, power=2)
    >>> K = GraphWarpedKernel(RBF(1.0), shape, ratio=100.0)(X)
    >>> bool(K[0, 2] / np.sqrt(K[0, 0] * K[2, 2]) > RBF(1.0)(X)[0, 2])
    True
    """

    def __init__(
        self,
        base: Kernel,
        geometry: Geometry,
        ratio: float = 1.0,
        ratio_bounds: Any = (1e-5, 1e5),
    ):
        self.base = base
        self.geometry = geometry
        self.ratio = ratio
        self.ratio_bounds = ratio_bounds

    # scikit-learn's language of parameters --------------------------------------------------------

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters; with `deep`, those of the base kernel as base__name."""
        params = {
            "base": self.base,
            "geometry": self.geometry,
            "ratio": self.ratio,
            "ratio_bounds": self.ratio_bounds,
        }
        if deep:
            params |= {f"base__{name}": v for name, v in self.base.get_params().items()}
        return params

    @property
    def hyperparameter_ratio(self) -> Hyperparameter:
        """The ratio, free unless its bounds are "fixed"."""
        return Hyperparameter("ratio", "numeric", self.ratio_bounds)

    @property
    def hyperparameters(self) -> list[Hyperparameter]:
        """Those of the base kernel, then the ratio."""
        of_base = [
            Hyperparameter(f"base__{h.name}", h.value_type, h.bounds, h.n_elements, h.fixed)
            for h in self.base.hyperparameters
        ]
        return [*of_base, self.hyperparameter_ratio]

    @property
    def theta(self) -> Array:
        """The free log-parameters."""
        if self.hyperparameter_ratio.fixed:
            return self.base.theta
        with np.errstate(divide="ignore"):  # whoever needs it finite says so
            return np.append(self.base.theta, np.log(self.ratio))

    @theta.setter
    def theta(self, theta: Array) -> None:
        if self.hyperparameter_ratio.fixed:
            self.base.theta = theta
        else:
            self.base.theta = theta[:-1]
            self.ratio = float(np.exp(theta[-1]))

    @property
    def bounds(self) -> Array:
        """Bounds of the free log-parameters, (p, 2)."""
        if self.hyperparameter_ratio.fixed:
            return self.base.bounds
        of_ratio = np.log(self.hyperparameter_ratio.bounds)
        return np.vstack([self.base.bounds, of_ratio]) if self.base.n_dims else of_ratio

    # The covariance -------------------------------------------------------------------------------

    def explained(self, X: Any) -> Array:
        """Return t_x of every row; X (k, d) -> (m, k): K̃ = K − tᵀt."""
        if not self.ratio >= 0 or not np.isfinite(self.ratio):
            raise ValueError(f"ratio={self.ratio!r} must be a number that is not negative.")
        cross = self.geometry.project(self.base(self.geometry.rows, X))
        if self.ratio == 0:
            return np.zeros_like(cross)
        lower = self.geometry.factor(self.base, self.ratio)
        return solve_lower(lower, np.sqrt(self.ratio) * cross)

    def __call__(self, X: Any, Y: Any = None, eval_gradient: bool = False) -> Any:
        """Return K̃(X, Y), (k, l); with `eval_gradient` and no Y also its (k, k, p) derivatives."""
        if eval_gradient:
            if Y is not None:
                raise ValueError("Gradient can only be evaluated when Y is None.")
            return self._with_gradient(X)
        t = self.explained(X)
        if Y is None:
            return self.base(X) - t.T @ t
        return self.base(X, Y) - t.T @ self.explained(Y)

    def diag(self, X: Any) -> Array:
        """Return K̃(x, x) of every row; X (k, d) -> (k,)."""
        explained = np.einsum("ij,ij->j", *[self.explained(X)] * 2)
        return np.maximum(self.base.diag(X) - explained, 0.0)  # rounding may fall below zero

    def is_stationary(self) -> bool:
        """Return False: the rows of the data are where they are."""
        return False

    @property
    def requires_vector_input(self) -> bool:
        """Whether the base kernel takes rows of numbers alone."""
        return self.base.requires_vector_input

    def _with_gradient(self, X: Any) -> tuple[Array, Array]:
        # With P = (I + MK)^{-1} M and a = P k_x: dP = −P dK P, and dP/dlog r = P − P K P.
        rows = self.geometry.rows
        dK = slopes_of(self.base, np.concatenate([rows, np.asarray(X)]))
        t = self.explained(X)
        a = np.zeros((len(rows), t.shape[1]))
        if self.ratio > 0:
            lower = self.geometry.factor(self.base, self.ratio)
            a = np.sqrt(self.ratio) * self.geometry.spread(solve_lower(lower, t, transposed=True))
        ends = np.vstack([a, -np.eye(a.shape[1])])  # dK̃ = (a, −1)ᵀ dK (a, −1) over D and X
        slopes = [ends.T @ dK[..., j] @ ends for j in range(dK.shape[2])]
        if not self.hyperparameter_ratio.fixed:
            slopes.append(a.T @ self.base(rows) @ a - t.T @ t)
        warped = self.base(X) - t.T @ t
        return warped, np.stack(slopes, axis=-1) if slopes else np.zeros((*warped.shape, 0))

    def __repr__(self) -> str:
        return f"GraphWarpedKernel({self.base!r}, {self.geometry!r}, ratio={self.ratio:.3g})"
