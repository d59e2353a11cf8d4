"""Laplacian support vector machine and least squares: the graph-warped kernel without a posterior.

Their probabilities are calibrated on labels held out. One abstract class; each estimator is final.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.gaussian_process.kernels import Kernel

from atoll.core.labels import PartialLabels, part_of_labels
from atoll.estimators.belief import with_calibration
from atoll.estimators.graph_warped import WARPED, dense_need, problem_of
from atoll.estimators.parameters import COMMON, RANDOM_STATE, Nothing, Number, OneOf, Rule
from atoll.estimators.progress import Progress
from atoll.estimators.shell import Fit, MarginClassifier, Need
from atoll.estimators.validation import generator
from atoll.kernels.graph_warped import GraphWarpedKernel
from atoll.models import class_shares, laplacian, ssgp
from atoll.models.calibration import (
    MOST_MEASURED,
    CalibratedMachine,
    Evidence,
    calibrate,
    choose,
    partitions,
)
from atoll.models.laplacian import LeastSquares, SupportVectors
from atoll.models.ssgp import Problem

Array = NDArray[np.float64]
Codes = NDArray[np.intp]

# Log-prior of the settings that "auto" tries, up to a constant: what is taken while labels are too
# few to tell. The graph is worth a try, a little of it is seldom best.
LOG_PRIOR_OF_RATIO = {0.0: 0.5, 1.0: -0.5, 10.0: 0.0, 100.0: 1.0, 1000.0: 1.0}


class Choice(NamedTuple):
    """Parameters, and what held-out labels say of all that were tried.

    points : (log-parameters of the base kernel, γ_I/γ_A, γ_A) of every setting
    best : the one that is taken
    tried : what held-out labels say of each
    log_prior : (t,) of the settings
    cv_errors : (t,) by which they were chosen; none where nothing was searched
    """

    points: list[tuple[Array, float, float]]
    best: int
    tried: list[Evidence]
    log_prior: Array
    cv_errors: Array


class LaplacianClassifier(MarginClassifier):
    """A machine on the graph-warped kernel, its parameters by cross-validation."""

    holds_labels_out = True
    compares_columns = True
    ambient_weights: ClassVar[Mapping[float, float]]
    """γ_A that "auto" tries, and their log-prior up to a constant."""

    keeps_rows = True
    parameters: ClassVar[Mapping[str, Rule]] = {
        **COMMON,
        **WARPED,
        "selection": OneOf("auto", "cv") | Nothing("as given"),
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
        selection: str | None = "auto",
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
        """What the paper's cross-validation tries."""

    @property
    @abstractmethod
    def _decider(self) -> laplacian.Decider:
        """What is measured on held-out labels."""

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
        theta, ratio, ambient = chosen.points[chosen.best]
        kernel = GraphWarpedKernel(problem.kernel_at(theta), problem.geometry, ratio, "fixed")
        machine, attributes = self._solve(kernel, X[known], codes, ambient)
        shares = np.log(class_shares.given(np.bincount(codes, minlength=len(labels.classes))))
        calibration = calibrate(chosen.tried, chosen.log_prior, chosen.best, shares)
        fit = Fit(
            CalibratedMachine(machine, calibration),
            {"converged": True, "verdict": _verdict(self.selection, chosen)},
            attributes={
                **attributes,
                "ratio_": ratio,
                "ambient_weight_": ambient,
                "cv_errors_": chosen.cv_errors,
                "kernel_": kernel,
            },
        )
        return with_calibration(fit, calibration, chosen.tried[chosen.best])

    def _select(self, problem: Problem, known: NDArray[np.intp], codes: Codes) -> Choice:
        rng = generator(self.random_state)
        searches = self.verbose and self.selection is not None
        counted = laplacian.folds(rng, codes) if self.selection == "cv" else None
        some = part_of_labels(rng, codes, MOST_MEASURED)
        fold = partitions(rng, codes[some])
        points, tried, errors = [], [], []
        with Progress(searches, type(self).__name__, "points", value="error") as bar:
            for theta, ratio, gram in self._grams(problem, known):
                for ambient in self._ambient_weights():
                    part = gram[np.ix_(some, some)]
                    one = laplacian.measure(part, codes[some], fold, ambient, self._decider)
                    points.append((theta, ratio, ambient))
                    tried.append(one)
                    errors.append(one.error)
                    if counted is not None:
                        errors[-1] = laplacian.cross_validate(
                            gram, codes, counted, ambient, self._machine
                        )
                    bar.report(errors[-1])
        found = np.array(errors)
        log_prior = np.zeros(len(tried))
        if self.selection is None:
            return Choice(points, 0, tried, log_prior, np.zeros(0))
        if self.selection == "auto":
            log_prior = np.array(
                [LOG_PRIOR_OF_RATIO[ratio] + self.ambient_weights[g] for _, ratio, g in points]
            )
            return Choice(points, choose(tried, log_prior), tried, log_prior, found)
        # Counts of few labels leave many ties, and nothing says which of them is best.
        best = int(rng.choice(np.flatnonzero(found == found.min())))
        return Choice(points, best, tried, log_prior, found)

    def _grams(
        self, problem: Problem, known: NDArray[np.intp]
    ) -> Iterator[tuple[Array, float, Array]]:
        """Yield the base kernel's log-parameters, the ratio and K̃ of the labelled rows."""
        if self.selection is not None:
            yield from ssgp.warped_grams(problem, known)
            return
        theta, ratio = np.array(problem.base.theta, dtype=float), float(self.ratio)
        kernel = GraphWarpedKernel(problem.kernel_at(theta), problem.geometry, ratio, "fixed")
        yield theta, ratio, kernel(problem.geometry.rows[known])

    def _ambient_weights(self) -> Sequence[float]:
        if self.selection is None:
            return (float(self.ambient_weight),)
        return tuple(self.ambient_weights) if self.selection == "auto" else ssgp.AMBIENT_WEIGHTS


def _verdict(selection: str | None, chosen: Choice) -> str:
    if selection is None:
        return "The machine was fitted; its parameters were as given."
    error = chosen.cv_errors[chosen.best]
    if np.isnan(error):
        return (
            "The machine was fitted at the parameters thought best beforehand: no label is held "
            "out unless two classes have two labels. Its probabilities are those of its prior."
        )
    return (
        "The machine was fitted; its parameters were chosen by cross-validation, with an error of "
        f"{error:.3f}."
    )


class LaplacianSVC(LaplacianClassifier):
    """Laplacian support vector machine: scikit-learn's SVC on the graph-warped kernel.

    min (1/l) Σ hinge(y f) + γ_A ‖f‖² + γ_I f_Dᵀ L^p f_D over labelled rows and the graph of all.
    Probabilities are calibrated on labels held out; `SSGPClassifier` has a posterior on the same
    kernel.

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
    selection : {"auto", "cv"} or None, default="auto"
        How length-scale, ratio and ambient weight are chosen. "auto": the largest likelihood of
        labels held out, averaged over slopes of their logit, times a prior that decides while
        labels are few; five folds, several times with few labels; labels are hidden, their rows
        stay in the graph. "cv": the paper's, the fewest wrong over SSGP's grid, with five folds
        or, up to ten labels, one label at a time; ties are broken at random. None: the next two
        parameters are taken as they are.
    ratio : float, default=100.0
        γ_I/γ_A where `selection` is None.
    ambient_weight : float, default=1e-2
        γ_A where `selection` is None.
    unlabelled : "auto", None or a value, default="auto"
        What in y means unlabelled besides nulls; "auto": -1 among numbers, unless fewer than two
        classes would remain.
    random_state : None, int or numpy Generator, default=None
        Seed of folds and ties.
    verbose : bool, default=False
        Whether progress is written to standard error.

    Attributes
    ----------
    classes_ : (K,) the labels, sorted
    transduction_ : (n,) labels as given, and the predicted class of the other training rows
    label_distributions_ : (n, K) their class probabilities
    cv_errors_ : (t,) share of held-out labels that are wrong, at every point of the grid
    ratio_, ambient_weight_ : chosen
    kernel_ : K̃
    posterior_ : the machine and its calibration; `posterior_.decide(X)` are its own decisions
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
    >>> X, truth = make_crescents(n_samples=40, random_state=0)
    >>> y = hide_labels(truth, per_class=3, marker=None, random_state=0)
    >>> bool(LaplacianSVC(selection=None, random_state=0).fit(X, y).score(X, truth) > 0.8)
    True
    """

    paper = "Sindhwani, Niyogi & Belkin 2005"
    summary = "a support vector machine, smooth along the graph of all rows"
    ambient_weights: ClassVar[Mapping[float, float]] = {1e-6: 1.0, 1e-4: 1.0, 1e-2: 0.0, 1.0: -2.0}

    @property
    def _machine(self) -> laplacian.Machine:
        return laplacian.svc_machine

    @property
    def _decider(self) -> laplacian.Decider:
        return laplacian.svc_decider

    def _solve(
        self, kernel: GraphWarpedKernel, inputs: Array, codes: Codes, ambient_weight: float
    ) -> tuple[SupportVectors, dict[str, Any]]:
        machine = laplacian.fit_svc(kernel(inputs), codes, ambient_weight)
        return SupportVectors(kernel, inputs, machine), {"machine_": machine}


class LaplacianRLSClassifier(LaplacianClassifier):
    """Laplacian regularised least squares: ridge regression of ±1 on the graph-warped kernel.

    min (1/l) Σ (y − f)² + γ_A ‖f‖² + γ_I f_Dᵀ L^p f_D, one function per class. Probabilities are
    calibrated on labels held out.

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
    selection : {"auto", "cv"} or None, default="auto"
        How length-scale, ratio and ambient weight are chosen. "auto": the largest likelihood of
        labels held out, averaged over slopes of their logit, times a prior that decides while
        labels are few; five folds, several times with few labels; labels are hidden, their rows
        stay in the graph. "cv": the paper's, the fewest wrong over SSGP's grid, with five folds
        or, up to ten labels, one label at a time; ties are broken at random. None: the next two
        parameters are taken as they are.
    ratio : float, default=100.0
        γ_I/γ_A where `selection` is None.
    ambient_weight : float, default=1e-2
        γ_A where `selection` is None.
    unlabelled : "auto", None or a value, default="auto"
        What in y means unlabelled besides nulls; "auto": -1 among numbers, unless fewer than two
        classes would remain.
    random_state : None, int or numpy Generator, default=None
        Seed of folds and ties.
    verbose : bool, default=False
        Whether progress is written to standard error.

    Attributes
    ----------
    classes_ : (K,) the labels, sorted
    transduction_ : (n,) labels as given, and the predicted class of the other training rows
    label_distributions_ : (n, K) their class probabilities
    cv_errors_ : (t,) share of held-out labels that are wrong, at every point of the grid
    ratio_, ambient_weight_ : chosen
    kernel_ : K̃
    posterior_ : the machine and its calibration; `posterior_.decide(X)` are its own decisions
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
    summary = "least squares, smooth along the graph of all rows"
    ambient_weights: ClassVar[Mapping[float, float]] = {1e-6: 0.5, 1e-4: 0.5, 1e-2: 0.5, 1.0: 0.0}

    @property
    def _machine(self) -> laplacian.Machine:
        return laplacian.least_squares_machine

    @property
    def _decider(self) -> laplacian.Decider:
        return laplacian.least_squares_decider

    def _solve(
        self, kernel: GraphWarpedKernel, inputs: Array, codes: Codes, ambient_weight: float
    ) -> tuple[LeastSquares, dict[str, Any]]:
        K = len(self.classes_)
        alpha = laplacian.fit_least_squares(kernel(inputs), codes, ambient_weight, K)
        return LeastSquares(kernel, inputs, alpha), {"coefficients_": alpha}
