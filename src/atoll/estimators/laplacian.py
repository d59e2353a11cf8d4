"""Laplacian support vector machine and least squares: the graph-warped kernel without a posterior.

They have decisions and no probabilities. One abstract class; each estimator is final.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.gaussian_process.kernels import Kernel

from atoll.core.labels import PartialLabels
from atoll.estimators.graph_warped import WARPED, dense_need, problem_of
from atoll.estimators.parameters import COMMON, RANDOM_STATE, Nothing, Number, OneOf, Rule
from atoll.estimators.progress import Progress
from atoll.estimators.shell import Fit, MarginClassifier, Need
from atoll.estimators.validation import generator
from atoll.kernels.graph_warped import GraphWarpedKernel
from atoll.models import laplacian, ssgp
from atoll.models.laplacian import LeastSquares, SupportVectors
from atoll.models.ssgp import Problem

Array = NDArray[np.float64]
Codes = NDArray[np.intp]


class Choice(NamedTuple):
    """Parameters, and the errors of cross-validation that chose them.

    log_parameters : (p,) the base kernel's
    ratio, ambient_weight : γ_I/γ_A and γ_A
    cv_errors : (t,) at every point of the grid; none where nothing was searched
    """

    log_parameters: Array
    ratio: float
    ambient_weight: float
    cv_errors: Array


class LaplacianClassifier(MarginClassifier):
    """A machine on the graph-warped kernel, its parameters by cross-validation."""

    parameters: ClassVar[Mapping[str, Rule]] = {
        **COMMON,
        **WARPED,
        "selection": OneOf("cv") | Nothing("as given"),
        "ratio": Number(least=0),
        "ambient_weight": Number(above=0),
        "random_state": RANDOM_STATE,
    }

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
    def _solve(
        self, kernel: GraphWarpedKernel, inputs: Array, codes: Codes, ambient_weight: float
    ) -> tuple[Any, dict[str, Any]]:
        """Return what decisions need, fitted at the parameters chosen, and its attributes."""

    def _memory(self, X: Array, labels: PartialLabels) -> Need:
        return dense_need(self, len(X), labels.n_labelled)

    def _fit(self, X: Array, labels: PartialLabels) -> Fit:
        problem = problem_of(self, X)
        known = np.flatnonzero(labels.is_labelled)
        codes = labels.codes[known]
        chosen = self._select(problem, known, codes)
        base = problem.kernel_at(chosen.log_parameters)
        kernel = GraphWarpedKernel(base, problem.geometry, chosen.ratio, "fixed")
        machine, attributes = self._solve(kernel, X[known], codes, chosen.ambient_weight)
        how = "as given"
        if len(chosen.cv_errors):
            how = f"chosen by cross-validation, with an error of {chosen.cv_errors.min():.3f}"
        return Fit(
            machine,
            {"converged": True, "verdict": f"The machine was fitted; its parameters were {how}."},
            attributes={
                **attributes,
                "ratio_": chosen.ratio,
                "ambient_weight_": chosen.ambient_weight,
                "cv_errors_": chosen.cv_errors,
                "kernel_": kernel,
            },
        )

    def _select(self, problem: Problem, known: NDArray[np.intp], codes: Codes) -> Choice:
        searches = self.verbose and self.selection is not None
        with Progress(searches, type(self).__name__, "points", value="error") as bar:
            if self.selection is None:
                theta = problem.base.theta
                return Choice(theta, float(self.ratio), float(self.ambient_weight), np.zeros(0))
            rng = generator(self.random_state)
            fold = laplacian.folds(rng, codes)
            points, errors = [], []
            for theta, ratio, gram in ssgp.warped_grams(problem, known):
                for ambient in ssgp.AMBIENT_WEIGHTS:
                    error = laplacian.cross_validate(gram, codes, fold, ambient, self._machine)
                    points.append((theta, ratio, ambient))
                    errors.append(error)
                    bar.report(error)
        found = np.array(errors)
        # Counts of few labels leave many ties, and nothing says which of them is best.
        best = int(rng.choice(np.flatnonzero(found == found.min())))
        return Choice(*points[best], found)


class LaplacianSVC(LaplacianClassifier):
    """Laplacian support vector machine: scikit-learn's SVC on the graph-warped kernel.

    min (1/l) Σ hinge(y f) + γ_A ‖f‖² + γ_I f_Dᵀ L^p f_D over labelled rows and the graph of all.
    No probabilities: use `SSGPClassifier` on the same kernel, or `GraphGPClassifier`.

    Parameters
    ----------
    kernel : {"isotropic", "ard"} or a scikit-learn kernel, default="isotropic"
        K. Free length-scales are searched within a factor of four of the root-mean-square length
        of the centred rows, or of the values given.
    n_neighbors : int, default=10
        Neighbours of each row in the graph.
    weights : {"gaussian", "self-tuning", "binary"}, default="gaussian"
        Weights of the graph's edges; the width of "gaussian" is their mean length.
    normalised : bool, default=True
        Whether the Laplacian is I − D^{-1/2} W D^{-1/2} or D − W.
    power : int, default=2
        p of L^p; the paper has 2 for images and 5 for text.
    selection : "cv" or None, default="cv"
        Cross-validation over SSGP's grid, with five folds or, up to ten labels, one label at a
        time; labels are hidden, their rows stay in the graph. Ties are broken at random. None:
        the next two parameters are taken as they are.
    ratio : float, default=100.0
        γ_I/γ_A where `selection` is None.
    ambient_weight : float, default=1e-2
        γ_A where `selection` is None.
    unlabelled : "auto", None or a value, default="auto"
        What in y means unlabelled beside nulls; "auto": -1 in an integer y, unless fewer than two
        classes would remain.
    random_state : None, int or numpy Generator, default=None
        Seed of folds and ties.
    verbose : bool, default=False
        Whether progress is written to standard error.

    Attributes
    ----------
    classes_ : (K,) the labels, sorted
    transduction_ : (n,) labels as given, and the predicted class of the other training rows
    cv_errors_ : (t,) at every point of the grid
    ratio_, ambient_weight_ : chosen
    kernel_ : K̃
    posterior_ : what decisions need
    diagnostics_ : dict with a verdict in words
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

    def _solve(
        self, kernel: GraphWarpedKernel, inputs: Array, codes: Codes, ambient_weight: float
    ) -> tuple[SupportVectors, dict[str, Any]]:
        machine = laplacian.fit_svc(kernel(inputs), codes, ambient_weight)
        return SupportVectors(kernel, inputs, machine), {"machine_": machine}


class LaplacianRLSClassifier(LaplacianClassifier):
    """Laplacian regularised least squares: ridge regression of ±1 on the graph-warped kernel.

    min (1/l) Σ (y − f)² + γ_A ‖f‖² + γ_I f_Dᵀ L^p f_D, one function per class.

    Parameters
    ----------
    kernel : {"isotropic", "ard"} or a scikit-learn kernel, default="isotropic"
        K. Free length-scales are searched within a factor of four of the root-mean-square length
        of the centred rows, or of the values given.
    n_neighbors : int, default=10
        Neighbours of each row in the graph.
    weights : {"gaussian", "self-tuning", "binary"}, default="gaussian"
        Weights of the graph's edges; the width of "gaussian" is their mean length.
    normalised : bool, default=True
        Whether the Laplacian is I − D^{-1/2} W D^{-1/2} or D − W.
    power : int, default=2
        p of L^p; the paper has 2 for images and 5 for text.
    selection : "cv" or None, default="cv"
        Cross-validation over SSGP's grid, with five folds or, up to ten labels, one label at a
        time; labels are hidden, their rows stay in the graph. Ties are broken at random. None:
        the next two parameters are taken as they are.
    ratio : float, default=100.0
        γ_I/γ_A where `selection` is None.
    ambient_weight : float, default=1e-2
        γ_A where `selection` is None.
    unlabelled : "auto", None or a value, default="auto"
        What in y means unlabelled beside nulls; "auto": -1 in an integer y, unless fewer than two
        classes would remain.
    random_state : None, int or numpy Generator, default=None
        Seed of folds and ties.
    verbose : bool, default=False
        Whether progress is written to standard error.

    Attributes
    ----------
    classes_ : (K,) the labels, sorted
    transduction_ : (n,) labels as given, and the predicted class of the other training rows
    cv_errors_ : (t,) at every point of the grid
    ratio_, ambient_weight_ : chosen
    kernel_ : K̃
    posterior_ : what decisions need
    diagnostics_ : dict with a verdict in words
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

    def _solve(
        self, kernel: GraphWarpedKernel, inputs: Array, codes: Codes, ambient_weight: float
    ) -> tuple[LeastSquares, dict[str, Any]]:
        K = len(self.classes_)
        alpha = laplacian.fit_least_squares(kernel(inputs), codes, ambient_weight, K)
        return LeastSquares(kernel, inputs, alpha), {"coefficients_": alpha}
