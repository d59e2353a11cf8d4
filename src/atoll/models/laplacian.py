"""Laplacian support vector machine and least squares: the rivals of paper 002.

prior: none; the norm of the graph-warped kernel's space. loss: hinge, or squares.

    min over f of  (1/l) Σ_L V(y_n, f(x_n)) + γ_A ‖f‖²_K + γ_I f_Dᵀ L^p f_D

which is a machine on K̃ with M = (γ_I/γ_A) L^p (Sindhwani, Niyogi & Belkin 2005). Parameters are
chosen by cross-validation over the labelled rows that hides labels and keeps their rows in the
graph: by the likelihood of the hidden labels, or by the count of them that are wrong, as in the
paper, in five folds, or one label at a time where there are ten or fewer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.svm import SVC

from atoll.core.linalg import cholesky_solve, jittered_cholesky
from atoll.core.memory import in_chunks
from atoll.kernels.graph_warped import GraphWarpedKernel
from atoll.models.calibration import Evidence, held_out_scores, weigh

Array = NDArray[np.float64]
Codes = NDArray[np.intp]
# (gram of the training rows, their codes, γ_A) -> (gram of others with them -> codes)
Machine = Callable[[Array, Codes, float], Callable[[Array], Codes]]
# (gram of the training rows, their codes, γ_A) -> (gram of others with them -> decisions)
Decider = Callable[[Array, Codes, float], Callable[[Array], Array]]

N_FOLDS = 5
MOST_LEFT_ONE_OUT = 10  # section 4


class SupportVectors(NamedTuple):
    """A support vector machine on K̃.

    kernel : K̃
    inputs : (l, d) labelled rows
    machine : fitted on their Gram matrix
    """

    kernel: GraphWarpedKernel
    inputs: Array
    machine: SVC

    def decide(self, X: Array) -> Array:
        """Return how far rows are on the side of the second class (m,), or of each (m, K)."""
        cross = _cross_grams(self.kernel, X, self.inputs)
        return np.concatenate([self.machine.decision_function(k) for k in cross])


class LeastSquares(NamedTuple):
    """Least squares on K̃, one function per class.

    kernel : K̃
    inputs : (l, d) labelled rows
    coefficients : (l, K) α, f_k(x) = Σ_n α_nk K̃(x, x_n)
    """

    kernel: GraphWarpedKernel
    inputs: Array
    coefficients: Array

    def decide(self, X: Array) -> Array:
        """Return how far rows are on the side of the second class (m,), or of each (m, K)."""
        cross = _cross_grams(self.kernel, X, self.inputs)
        return np.concatenate([_decisions(k @ self.coefficients) for k in cross])


def _decisions(values: Array) -> Array:
    """Return the function of the second of two classes, else all of them; (m, K)."""
    return values[:, 1] if values.shape[1] == 2 else values


def _cross_grams(kernel: GraphWarpedKernel, X: Array, inputs: Array) -> Iterator[Array]:
    """Yield K̃ of some rows of X at a time with the labelled rows."""
    for part in in_chunks(len(X), len(kernel.geometry.rows)):
        yield kernel(X[part], inputs)


def fit_svc(gram: Array, codes: Codes, ambient_weight: float) -> SVC:
    """Fit the hinge loss, C = 1/(2 l γ_A); gram (l, l), codes (l,)."""
    C = 1.0 / (2.0 * len(codes) * ambient_weight)
    # The seed changes nothing here; without one, scikit-learn draws it from NumPy's global state.
    return SVC(kernel="precomputed", C=C, random_state=0).fit(gram, codes)


def fit_least_squares(gram: Array, codes: Codes, ambient_weight: float, n_classes: int) -> Array:
    """Return α of one function per class, with targets ±1: (K̃ + γ_A l I) α = Y; (l, K)."""
    targets = np.where(codes[:, None] == np.arange(n_classes), 1.0, -1.0)
    ridge = ambient_weight * len(codes) * np.eye(len(codes))
    return cholesky_solve(jittered_cholesky(gram + ridge).lower, targets)


def svc_machine(gram: Array, codes: Codes, ambient_weight: float) -> Callable[[Array], Codes]:
    """Return the predictions of `fit_svc`; of the one class there is, where there is one."""
    if np.all(codes == codes[0]):
        return lambda cross: np.full(len(cross), codes[0])
    return fit_svc(gram, codes, ambient_weight).predict


def least_squares_machine(
    gram: Array, codes: Codes, ambient_weight: float
) -> Callable[[Array], Codes]:
    """Return the predictions of `fit_least_squares`."""
    classes, inverse = np.unique(codes, return_inverse=True)
    alpha = fit_least_squares(gram, inverse, ambient_weight, len(classes))
    return lambda cross: classes[np.argmax(cross @ alpha, axis=1)]


def svc_decider(gram: Array, codes: Codes, ambient_weight: float) -> Callable[[Array], Array]:
    """Return the decisions of `fit_svc`."""
    return fit_svc(gram, codes, ambient_weight).decision_function


def least_squares_decider(
    gram: Array, codes: Codes, ambient_weight: float
) -> Callable[[Array], Array]:
    """Return the decisions of `fit_least_squares`; the codes are 0 to K − 1, all of them."""
    alpha = fit_least_squares(gram, codes, ambient_weight, codes.max() + 1)
    return lambda cross: _decisions(cross @ alpha)


def measure(
    gram: Array, codes: Codes, fold: Codes, ambient_weight: float, decider: Decider
) -> Evidence:
    """Return what hidden labels say of a setting.

    Parameters
    ----------
    gram : (l, l) K̃ of the labelled rows
    codes : (l,) in 0 to K − 1, each of them there
    fold : (R, l) from `calibration.partitions`
    """

    def decide(train: Codes, test: Codes) -> Array:
        decisions = decider(gram[np.ix_(train, train)], codes[train], ambient_weight)
        return decisions(gram[np.ix_(test, train)])

    return weigh(held_out_scores(decide, fold, codes.max() + 1), codes, fold)


def folds(rng: np.random.Generator, codes: Codes) -> NDArray[np.intp]:
    """Return the fold of each label, (l,).

    One label per fold where there are ten or fewer, else five folds, each with its share of every
    class.
    """
    if len(codes) <= MOST_LEFT_ONE_OUT:
        return np.arange(len(codes))
    # By class, in random order: neighbours in the list go to different folds.
    order = np.lexsort([rng.random(len(codes)), codes])
    fold = np.empty(len(codes), dtype=np.intp)
    fold[order] = np.arange(len(codes)) % N_FOLDS
    return fold


def cross_validate(
    gram: Array, codes: Codes, fold: NDArray[np.intp], ambient_weight: float, machine: Machine
) -> float:
    """Return the share of the labels that are wrong when their fold is hidden; gram (l, l)."""
    wrong = 0
    for held_out in np.unique(fold):
        test = fold == held_out
        train = ~test
        predict = machine(gram[np.ix_(train, train)], codes[train], ambient_weight)
        wrong += int(np.sum(predict(gram[np.ix_(test, train)]) != codes[test]))
    return wrong / len(codes)
