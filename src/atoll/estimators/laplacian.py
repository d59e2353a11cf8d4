"""Laplacian support vector machine and least squares: the graph-warped kernel without a posterior.

They have decisions and no probabilities. One abstract class; each estimator is final.
"""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.gaussian_process.kernels import Kernel
from sklearn.utils.validation import check_is_fitted

from atoll.estimators.ssgp import (
    base_kernel,
    check_dense,
    check_positive,
    check_ratio,
    graph_of,
    progress,
)
from atoll.estimators.validation import (
    generator,
    labelled_accuracy,
    validate_rows,
    validate_training,
)
from atoll.kernels.conditioning import CHUNK_ENTRIES
from atoll.kernels.graph_warped import GraphWarpedKernel
from atoll.models import laplacian, ssgp
from atoll.models.ssgp import Problem, warp

Array = NDArray[np.float64]
Codes = NDArray[np.intp]


class LaplacianClassifier(ClassifierMixin, BaseEstimator, metaclass=ABCMeta):
    """A machine on the graph-warped kernel, its parameters by cross-validation."""

    def __init__(
        self,
        *,
        kernel: str | Kernel = "isotropic",
        n_neighbors: int = 10,
        weights: str = "gaussian",
        normalised: bool = True,
        power: int = 2,
        selection: str | None = "cv",
        ratio: float = 100.0,
        ambient_weight: float = 1e-2,
        unlabelled: Any = "auto",
        random_state: Any = None,
        verbose: bool = False,
    ):
        self.kernel = kernel
        self.n_neighbors = n_neighbors
        self.weights = weights
        self.normalised = normalised
        self.power = power
        self.selection = selection
        self.ratio = ratio
        self.ambient_weight = ambient_weight
        self.unlabelled = unlabelled
        self.random_state = random_state
        self.verbose = verbose

    @property
    @abstractmethod
    def _machine(self) -> laplacian.Machine:
        """What cross-validation tries."""

    @abstractmethod
    def _fit_machine(self, gram: Array, codes: Codes) -> None:
        """Fit at the parameters chosen; gram (l, l)."""

    @abstractmethod
    def _decide(self, cross: Array) -> Array:
        """Decisions from K̃(x, labelled rows), (m, l) -> (m,) for two classes, else (m, K)."""

    def fit(self, X: Any, y: Any) -> Self:
        """Find the decision function given labelled and unlabelled rows.

        Parameters
        ----------
        X : (n, d) array or data frame of finite numbers
        y : (n,) labels; None, NaN or NA where unknown, or -1 in an integer y

        Returns
        -------
        self
        """
        X, labels = validate_training(self, X, y, unlabelled=self.unlabelled)
        check_positive(self, "ambient_weight")
        check_ratio(self)
        if self.selection not in ("cv", None):
            raise ValueError(f"selection={self.selection!r} is neither 'cv' nor None.")
        check_dense(self, len(X), labels.n_labelled)
        self.classes_ = labels.classes
        problem = Problem(base_kernel(self.kernel, X), graph_of(self, X))
        known = np.flatnonzero(labels.is_labelled)
        codes = labels.codes[known]
        theta = self._select(problem, known, codes)
        base = problem.kernel_at(theta)
        self.kernel_ = GraphWarpedKernel(base, problem.geometry, self.ratio_, "fixed")
        self.inputs_ = X[known]
        self._fit_machine(self.kernel_(self.inputs_), codes)
        self.transduction_ = labels.classes[labels.codes]
        unknown = ~labels.is_labelled
        if unknown.any():
            self.transduction_[unknown] = self._predict(X[unknown])
        return self

    def _select(self, problem: Problem, known: NDArray[np.intp], codes: Codes) -> Array:
        """The base kernel's log-parameters; sets `ratio_`, `ambient_weight_` and the errors."""
        self.ratio_, self.ambient_weight_ = float(self.ratio), float(self.ambient_weight)
        self.cv_errors_ = np.zeros(0)
        if self.selection is None:
            return problem.base.theta
        rng = generator(self.random_state)
        fold = laplacian.folds(rng, codes)
        points, errors = [], []
        with progress(self.verbose, type(self).__name__, "error") as report:
            for theta in ssgp.base_grid(problem.base, ssgp.LENGTH_FACTORS):
                base = problem.base_gram(theta)
                for ratio in ssgp.RATIOS:
                    gram = warp(base, problem.geometry, ratio, known).gram
                    for ambient in ssgp.AMBIENT_WEIGHTS:
                        error = laplacian.cross_validate(gram, codes, fold, ambient, self._machine)
                        points.append((theta, ratio, ambient))
                        errors.append(error)
                        report(error)
        self.cv_errors_ = np.array(errors)
        # Counts of few labels leave many ties, and nothing says which of them is best.
        chosen = int(rng.choice(np.flatnonzero(self.cv_errors_ == self.cv_errors_.min())))
        theta, self.ratio_, self.ambient_weight_ = points[chosen]
        return theta

    def _scores(self, X: Array) -> Array:
        rows = max(1, CHUNK_ENTRIES // len(self.kernel_.geometry.rows))
        parts = [X[i : i + rows] for i in range(0, len(X), rows)]
        return np.concatenate([self._decide(self.kernel_(part, self.inputs_)) for part in parts])

    def _predict(self, X: Array) -> NDArray[Any]:
        scores = self._scores(X)
        codes = (scores > 0).astype(np.intp) if scores.ndim == 1 else np.argmax(scores, axis=1)
        return self.classes_[codes]

    def decision_function(self, X: Any) -> Array:
        """How far on the side of the second class (m,), or of each of several (m, K)."""
        check_is_fitted(self)
        return self._scores(validate_rows(self, X))

    def predict(self, X: Any) -> NDArray[Any]:
        """The class of each row; X (m, d) -> (m,)."""
        check_is_fitted(self)
        return self._predict(validate_rows(self, X))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy over the labelled rows; unlabelled ones are left out."""
        return labelled_accuracy(self, self.predict(X), y, sample_weight)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = False
        return tags


class LaplacianSVC(LaplacianClassifier):
    """Laplacian support vector machine: scikit-learn's SVC on the graph-warped kernel.

    min (1/l) Σ hinge(y f) + γ_A ‖f‖² + γ_I f_Dᵀ L^p f_D over labelled rows and the graph of all.
    No probabilities: use `SSGPClassifier` on the same kernel, or `GraphGPClassifier`.

    Parameters
    ----------
    kernel, n_neighbors, weights, normalised, power, unlabelled, verbose
        As in SSGPClassifier.
    selection : "cv" or None
        Cross-validation over SSGP's grid, five folds or, up to ten labels, one at a time; labels
        are hidden, their rows stay in the graph. Ties are broken at random. None: the next two.
    ratio, ambient_weight : float
        γ_I/γ_A and γ_A where `selection` is None.
    random_state : None, int or numpy Generator
        For folds and ties.

    Attributes
    ----------
    classes_ : (K,) the labels, sorted
    transduction_ : (n,) labels as given, and the predicted class of the other training rows
    cv_errors_ : (t,) at every point of the grid
    ratio_, ambient_weight_ : chosen
    kernel_ : K̃
    machine_ : the fitted SVC

    References
    ----------
    V. Sindhwani, P. Niyogi and M. Belkin, "Beyond the point cloud: from transductive to
    semi-supervised learning" (2005).

    Examples
    --------
    >>> from atoll.datasets import hide_labels, make_crescents
    >>> from atoll.estimators import LaplacianSVC
    >>> X, truth = make_crescents(n_samples=80, random_state=0)
    >>> y = hide_labels(truth, per_class=3, marker=None, random_state=0)
    >>> bool(LaplacianSVC(random_state=0).fit(X, y).score(X, truth) > 0.8)
    True
    """

    paper = "Sindhwani, Niyogi & Belkin 2005"
    summary = "a support vector machine, smooth along the graph of all rows; no probabilities"

    @property
    def _machine(self) -> laplacian.Machine:
        return laplacian.svc_machine

    def _fit_machine(self, gram: Array, codes: Codes) -> None:
        self.machine_ = laplacian.fit_svc(gram, codes, self.ambient_weight_)

    def _decide(self, cross: Array) -> Array:
        return self.machine_.decision_function(cross)


class LaplacianRLSClassifier(LaplacianClassifier):
    """Laplacian regularised least squares: ridge regression of ±1 on the graph-warped kernel.

    min (1/l) Σ (y − f)² + γ_A ‖f‖² + γ_I f_Dᵀ L^p f_D, one function a class.

    Parameters
    ----------
    kernel, n_neighbors, weights, normalised, power, unlabelled, verbose
        As in SSGPClassifier.
    selection, ratio, ambient_weight, random_state
        As in LaplacianSVC.

    Attributes
    ----------
    classes_ : (K,) the labels, sorted
    transduction_ : (n,) labels as given, and the predicted class of the other training rows
    cv_errors_ : (t,) at every point of the grid
    ratio_, ambient_weight_ : chosen
    kernel_ : K̃
    coefficients_ : (l, K) α, f_k(x) = Σ_n α_nk K̃(x, x_n)

    References
    ----------
    V. Sindhwani, P. Niyogi and M. Belkin, "Beyond the point cloud: from transductive to
    semi-supervised learning" (2005).

    Examples
    --------
    >>> from atoll.datasets import hide_labels, make_crescents
    >>> from atoll.estimators import LaplacianRLSClassifier
    >>> X, truth = make_crescents(n_samples=80, random_state=0)
    >>> y = hide_labels(truth, per_class=3, marker=None, random_state=0)
    >>> bool(LaplacianRLSClassifier(random_state=0).fit(X, y).score(X, truth) > 0.8)
    True
    """

    paper = "Sindhwani, Niyogi & Belkin 2005"
    summary = "least squares, smooth along the graph of all rows; no probabilities"

    @property
    def _machine(self) -> laplacian.Machine:
        return laplacian.least_squares_machine

    def _fit_machine(self, gram: Array, codes: Codes) -> None:
        self.coefficients_ = laplacian.fit_least_squares(
            gram, codes, self.ambient_weight_, len(self.classes_)
        )

    def _decide(self, cross: Array) -> Array:
        scores = cross @ self.coefficients_
        return scores[:, 1] if scores.shape[1] == 2 else scores
