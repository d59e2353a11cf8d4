"""Gaussian processes told of the graph of all rows, as published: classification, regression."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Kernel
from sklearn.utils import column_or_1d
from sklearn.utils.validation import check_is_fitted

from atoll.core.labels import PartialLabels
from atoll.core.linalg import solve_lower
from atoll.core.memory import check_memory
from atoll.diagnostics import entropy, summarise, verdict
from atoll.estimators.validation import (
    generator,
    labelled_accuracy,
    read_rows,
    validate_rows,
    validate_training,
)
from atoll.inference.chains import check_counts
from atoll.kernels.graph_warped import Geometry
from atoll.kernels.hyperparameters import kernel_prior
from atoll.models import ssgp
from atoll.models.ssgp import Component, Fit, Labels, Problem, SSGPPosterior

Array = NDArray[np.float64]

SELECTIONS = ("evidence", "grid", "average", None)
DENSE_COPIES = 8  # n × n matrices alive at once
PREDICTIVE_DRAWS = 100


class SSGPClassifier(ClassifierMixin, BaseEstimator):
    """Semi-supervised Gaussian process classifier as published: a kernel bent by the data's graph.

    f ~ GP(0, K̃/γ_A), with K̃ the base kernel after it was told that f varies little along the
    graph of all rows, labelled or not; y is the sign of f + ε, ε ~ N(0, σ_n²), or for more classes
    the largest of one such sum a class, all classes at once. The posterior over the labelled rows
    is found by expectation propagation (two classes) or sampled exactly (any number); length-scale,
    γ_A and γ_I/γ_A by the evidence. New rows need no new graph.

    Dense: O(n³) time for each of some forty values of the parameters, and 64 n² bytes, for n rows
    in all; a few thousand. `GraphGPClassifier` is the default for every purpose but the paper's.

    Parameters
    ----------
    kernel : "isotropic", "ard" or a scikit-learn kernel
        K. Free length-scales are searched within a factor of four of the root-mean-square length
        of the centred rows, or of the values given.
    n_neighbors : int
        Of each row in the graph.
    weights : "gaussian", "self-tuning" or "binary"
        Of its edges; the width of "gaussian" is their mean length.
    normalised : bool
        Whether the Laplacian is I − D^{-1/2} W D^{-1/2} or D − W.
    power : int
        p of L^p; the paper has 2 for images and 5 for text.
    noise : float
        σ_n.
    selection : "evidence", "grid", "average" or None
        L-BFGS on the evidence; the best of the paper's grid; all of that grid, each with its
        evidence for a weight; or nothing is searched.
    evidence : "partial" or "full"
        P(Y | 𝒢), which the paper uses, or P(Y, 𝒢), with −½ log det(I + MK) beside it.
    ratio, ambient_weight : float
        γ_I/γ_A and γ_A where `selection` is None. A ratio of 0 is the supervised process.
    inference : "auto", "ep" or "mcmc"
        Expectation propagation takes two classes. "auto" is "ep" for two, "mcmc" for more.
    n_warmup, n_samples : int
        Of "mcmc": draws dropped, then kept, in each of four chains.
    unlabelled : "auto", None or a value
        What in y means unlabelled beside nulls; "auto": -1 in an integer y, unless fewer than two
        classes would remain.
    random_state : None, int or numpy Generator
        For "mcmc" alone.
    n_jobs : int, optional
        Chains of "mcmc" run at once, by joblib.
    verbose : bool
        Progress on standard error.

    Attributes
    ----------
    classes_ : (K,) the labels, sorted
    inference_ : "ep" or "mcmc", what was used
    label_distributions_ : (n, K) class probabilities of the training rows; given labels are certain
    transduction_ : (n,) the most probable class of each training row
    log_evidence_ : float, at the parameters chosen; the average's where they are averaged over
    objectives_ : (t,) after every iteration, or at every point of the grid
    ratio_, ambient_weight_ : γ_I/γ_A and γ_A chosen
    kernel_ : K̃/γ_A there
    posterior_ : SSGPPosterior, what prediction needs
    draws_ : dict of (chain, draw) arrays; empty after "ep"
    diagnostics_ : dict with a verdict in words

    References
    ----------
    V. Sindhwani, W. Chu and S. S. Keerthi, "Semi-supervised Gaussian process classifiers" (2007).
    J. Cunningham, P. Hennig and S. Lacoste-Julien, "Gaussian probabilities and expectation
    propagation" (2011), for the evidence of more than two classes.

    Examples
    --------
    >>> from atoll.datasets import hide_labels, make_crescents
    >>> from atoll.estimators import SSGPClassifier
    >>> X, truth = make_crescents(n_samples=80, random_state=0)
    >>> y = hide_labels(truth, per_class=2, marker=None, random_state=0)
    >>> model = SSGPClassifier().fit(X, y)
    >>> bool(model.score(X, truth) > 0.9)
    True
    """

    paper = "Sindhwani, Chu & Keerthi 2007"
    summary = "two or more classes, learns from unlabelled rows: smooth along their graph"

    def __init__(
        self,
        *,
        kernel: str | Kernel = "isotropic",
        n_neighbors: int = 10,
        weights: str = "gaussian",
        normalised: bool = True,
        power: int = 2,
        noise: float = ssgp.NOISE,
        selection: str | None = "evidence",
        evidence: str = "partial",
        ratio: float = 100.0,
        ambient_weight: float = 1.0,
        inference: str = "auto",
        n_warmup: int = 60,
        n_samples: int = 250,
        unlabelled: Any = "auto",
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: bool = False,
    ):
        self.kernel = kernel
        self.n_neighbors = n_neighbors
        self.weights = weights
        self.normalised = normalised
        self.power = power
        self.noise = noise
        self.selection = selection
        self.evidence = evidence
        self.ratio = ratio
        self.ambient_weight = ambient_weight
        self.inference = inference
        self.n_warmup = n_warmup
        self.n_samples = n_samples
        self.unlabelled = unlabelled
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    # Fitting --------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any) -> Self:
        """Find the posterior given labelled and unlabelled rows.

        Parameters
        ----------
        X : (n, d) array or data frame of finite numbers
        y : (n,) labels; None, NaN or NA where unknown, or -1 in an integer y

        Returns
        -------
        self
        """
        X, labels = validate_training(self, X, y, unlabelled=self.unlabelled)
        self._check_parameters(len(labels.classes))
        check_dense(self, len(X), labels.n_labelled * (len(labels.classes) - 1))
        self.classes_ = labels.classes
        problem = Problem(base_kernel(self.kernel, X), graph_of(self, X))
        known = np.flatnonzero(labels.is_labelled)
        given = Labels(known, labels.codes[known], len(labels.classes), float(self.noise))

        fits, log_weights, converged = self._select(problem, given)
        best = max(fits, key=lambda fit: fit.log_evidence)
        self.ambient_weight_, self.ratio_ = np.exp(best.log_parameters[-2:]).tolist()
        self.kernel_ = ConstantKernel(1.0 / self.ambient_weight_, "fixed") * (
            problem.warped_kernel_at(best.log_parameters)
        )
        self._condition(problem, given, X[known], fits, log_weights, converged)
        self._transduce(X, labels)
        return self

    def _select(self, problem: Problem, labels: Labels) -> tuple[list[Fit], Array, bool]:
        """Fits to be averaged, their log weights, and whether the search ended by itself."""
        full = self.evidence == "full"
        with progress(self.verbose, type(self).__name__) as report:
            if self.selection == "evidence":
                best, trace, converged = ssgp.maximise_evidence(
                    problem, labels, full=full, report=report
                )
                self.objectives_, self.log_evidence_ = trace, best.log_evidence
                return [best], np.zeros(1), converged
            if self.selection is None:
                with np.errstate(divide="ignore"):
                    chosen = np.log([float(self.ambient_weight), float(self.ratio)])
                x = np.concatenate([problem.base.theta, chosen])
                fits = [ssgp.fit_at(problem, labels, x, full=full)]
            else:
                fits = list(ssgp.fit_grid(problem, labels, full=full, report=report))
        values = self.objectives_ = np.array([fit.log_evidence for fit in fits])
        if self.selection == "average":
            self.log_evidence_ = float(np.logaddexp.reduce(values) - np.log(len(values)))
            kept, log_weights = ssgp.average(fits)
        else:
            self.log_evidence_ = float(values.max())
            kept, log_weights = [fits[int(np.argmax(values))]], np.zeros(1)
        return kept, log_weights, all(fit.propagation.converged for fit in kept)

    def _condition(
        self,
        problem: Problem,
        labels: Labels,
        inputs: Array,
        fits: list[Fit],
        log_weights: Array,
        converged: bool,
    ) -> None:
        """Sets the posterior, and says how it was found."""
        estimate = f"with an estimate of {self.log_evidence_:.2f} for the log evidence."
        summary: dict[str, Any] = {}
        self.draws_: dict[str, Array] = {}
        if self.inference_ == "ep":
            components = [
                ssgp.propagated_component(problem, fit, labels, float(log_weight))
                for fit, log_weight in zip(fits, log_weights)
            ]
            mixed, sentence = converged, f"Expectation propagation converged, {estimate}"
        else:
            components = self._sample(problem, labels, fits, log_weights)
            summary = summarise(self.draws_)
            mixed, said = verdict(summary, n_chains=ssgp.N_CHAINS)
            mixed, sentence = mixed and converged, f"{said} Parameters were found {estimate}"
        if not converged:
            sentence = (
                "Expectation propagation, or the search for the parameters, had not converged, "
                f"{estimate} Standardise the features, or use selection='grid'."
            )
        self.posterior_ = SSGPPosterior(inputs, tuple(components), labels.noise)
        self.diagnostics_ = {
            **summary,
            "log_evidence": self.log_evidence_,
            "n_iterations": len(self.objectives_),
            "n_components": len(components),
            "interrupted": False,
            "mixed": mixed,
            "verdict": sentence,
        }
        if not mixed:
            warnings.warn(f"{type(self).__name__}: {sentence}", ConvergenceWarning, stacklevel=3)

    def _sample(
        self, problem: Problem, labels: Labels, fits: list[Fit], log_weights: Array
    ) -> list[Component]:
        """Components of exact draws, as many of each as its weight deserves."""
        components = []
        streams = generator(self.random_state).spawn(len(fits))
        for stream, fit, log_weight in zip(streams, fits, log_weights):
            draws, lower = ssgp.sample_auxiliary(
                stream,
                fit,
                labels,
                n_warmup=self.n_warmup,
                n_samples=self.n_samples,
                n_jobs=self.n_jobs,
            )
            if log_weight == log_weights.max():
                self.draws_ = _watched(draws, lower)
            pooled = draws.reshape(-1, *draws.shape[2:])
            size = max(4, math.ceil(PREDICTIVE_DRAWS * math.exp(log_weight)))
            kept = np.linspace(0, len(pooled) - 1, min(size, len(pooled))).round().astype(int)
            components.append(
                ssgp.sampled_component(problem, fit, pooled[kept], lower, float(log_weight))
            )
        return components

    def _transduce(self, X: Array, labels: PartialLabels) -> None:
        self.label_distributions_ = np.eye(len(labels.classes))[labels.codes]
        unknown = ~labels.is_labelled
        if unknown.any():
            log_p = ssgp.predict_log_proba(self.posterior_, X[unknown])
            self.label_distributions_[unknown] = np.exp(log_p)
        self.transduction_ = labels.classes[np.argmax(self.label_distributions_, axis=1)]

    # Prediction -----------------------------------------------------------------------------------

    def predict_proba(self, X: Any) -> Array:
        """Class probabilities; X (m, d) -> (m, K). Far from all data they are equal."""
        check_is_fitted(self)
        return np.exp(ssgp.predict_log_proba(self.posterior_, validate_rows(self, X)))

    def predict(self, X: Any) -> NDArray[Any]:
        """The most probable class of each row; X (m, d) -> (m,)."""
        probabilities = self.predict_proba(X)  # first: it says so where nothing is fitted
        return self.classes_[np.argmax(probabilities, axis=1)]

    def predict_entropy(self, X: Any) -> Array:
        """Entropy of the class probabilities in nats: how unsure; X (m, d) -> (m,)."""
        return entropy(self.predict_proba(X))

    def predict_latent(self, X: Any) -> tuple[Array, Array]:
        """Mean and variance of the functions; X (m, d) -> (m, 1) or (m, K) each."""
        check_is_fitted(self)
        return ssgp.predict_latent(self.posterior_, validate_rows(self, X))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy over the labelled rows; unlabelled ones are left out."""
        return labelled_accuracy(self, self.predict(X), y, sample_weight)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = False
        return tags

    # Parameters -----------------------------------------------------------------------------------

    def _check_parameters(self, n_classes: int) -> None:
        check_positive(self, "noise", "ambient_weight")
        check_ratio(self)
        check_counts(n_chains=1, n_warmup=self.n_warmup, n_samples=self.n_samples, thin=1)
        if self.selection not in SELECTIONS:
            raise ValueError(
                f"selection={self.selection!r} is none of {', '.join(map(repr, SELECTIONS))}."
            )
        check_evidence(self)
        if self.inference not in ("auto", "ep", "mcmc"):
            raise ValueError(f"inference={self.inference!r} is none of 'auto', 'ep', 'mcmc'.")
        if self.inference == "ep" and n_classes > 2:
            raise ValueError(
                f"inference='ep' takes two classes, and y has {n_classes}; use 'mcmc' or 'auto'."
            )
        automatic = "ep" if n_classes == 2 else "mcmc"
        self.inference_ = automatic if self.inference == "auto" else self.inference


class SSGPRegressor(RegressorMixin, BaseEstimator):
    """Gaussian process regression told of the graph of all rows, with a target or without.

    f ~ GP(0, K̃/γ_A), with K̃ the base kernel after it was told that f varies little along the
    graph of the rows; y = f(x) + ε, ε ~ N(0, σ²). Length-scale, γ_A, γ_I/γ_A and σ² by the
    evidence, which is in closed form. Rows whose y is NaN have no target and shape the graph.

    Dense: O(n³) time for each of some forty values of the parameters, and 64 n² bytes, for n rows
    in all; a few thousand.

    Parameters
    ----------
    kernel, n_neighbors, weights, normalised, power, evidence, verbose
        As in SSGPClassifier.

    Attributes
    ----------
    transduction_ : (n,) targets as given, and the mean of f where there was none
    log_evidence_ : float
    objectives_ : (t,) after every iteration, of targets scaled to unit variance
    ratio_, ambient_weight_, noise_variance_ : γ_I/γ_A, γ_A (of scaled targets) and σ²
    kernel_ : K̃/γ_A of scaled targets
    posterior_ : SSGPPosterior, what prediction needs
    diagnostics_ : dict with a verdict in words

    References
    ----------
    V. Sindhwani, W. Chu and S. S. Keerthi, "Semi-supervised Gaussian process classifiers" (2007),
    which name regression and leave it out.

    Examples
    --------
    >>> from atoll.estimators import SSGPRegressor
    >>> angle = np.linspace(0, 6, 60)
    >>> X = np.column_stack([np.cos(angle), np.sin(angle)])
    >>> y = np.where(np.arange(60) % 12 == 0, angle, np.nan)   # five targets on an arc
    >>> mean, deviation = SSGPRegressor(n_neighbors=4).fit(X, y).predict(X, return_std=True)
    >>> bool(np.abs(mean[:49] - angle[:49]).max() < 0.5)
    True
    """

    paper = "Sindhwani, Chu & Keerthi 2007"
    summary = "regression that learns from rows without a target: smooth along their graph"

    def __init__(
        self,
        *,
        kernel: str | Kernel = "isotropic",
        n_neighbors: int = 10,
        weights: str = "gaussian",
        normalised: bool = True,
        power: int = 2,
        evidence: str = "partial",
        verbose: bool = False,
    ):
        self.kernel = kernel
        self.n_neighbors = n_neighbors
        self.weights = weights
        self.normalised = normalised
        self.power = power
        self.evidence = evidence
        self.verbose = verbose

    def fit(self, X: Any, y: Any) -> Self:
        """Find the posterior given rows with and without targets.

        Parameters
        ----------
        X : (n, d) array or data frame of finite numbers
        y : (n,) targets; NaN or None where unknown

        Returns
        -------
        self
        """
        check_evidence(self)
        if y is None:
            raise ValueError(
                "SSGPRegressor requires y to be passed, but the target y is None. Pass one "
                "number a row, NaN where it is unknown."
            )
        X = read_rows(self, X, reset=True)
        y = _targets(y, len(X))
        known = np.flatnonzero(~np.isnan(y))
        if len(known) == 0:
            raise ValueError(f"y has no target among {len(y)} rows; give at least one.")
        check_dense(self, len(X), len(known))
        self.shift_ = float(y[known].mean())
        self.scale_ = float(y[known].std()) or 1.0
        scaled = (y[known] - self.shift_) / self.scale_
        problem = Problem(base_kernel(self.kernel, X), graph_of(self, X))
        with progress(self.verbose, type(self).__name__) as report:
            fit, trace, converged = ssgp.maximise_regression(
                problem, known, scaled, full=self.evidence == "full", report=report
            )
        self.objectives_ = trace
        self.log_evidence_ = fit.log_evidence - len(known) * math.log(self.scale_)
        self.ambient_weight_, self.ratio_, noise = np.exp(fit.log_parameters[-3:]).tolist()
        self.noise_variance_ = noise * self.scale_**2
        self.kernel_ = ConstantKernel(1.0 / self.ambient_weight_, "fixed") * (
            problem.warped_kernel_at(fit.log_parameters[:-1])
        )
        self.posterior_ = ssgp.regression_posterior(problem, fit, X[known], scaled)
        what = "converged" if converged else "had not converged; scale the features"
        sentence = f"The search {what}, with {self.log_evidence_:.2f} for the log evidence."
        self.diagnostics_ = {
            "log_evidence": self.log_evidence_,
            "n_iterations": len(trace),
            "interrupted": False,
            "mixed": converged,
            "verdict": sentence,
        }
        if not converged:
            warnings.warn(f"SSGPRegressor: {sentence}", ConvergenceWarning, stacklevel=2)
        self.transduction_ = y.copy()
        unknown = np.isnan(y)
        if unknown.any():
            self.transduction_[unknown] = self._moments(X[unknown])[0]
        return self

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Mean of f; with `return_std` also the standard deviation of a new y; X (m, d) -> (m,)."""
        check_is_fitted(self)
        mean, variance = self._moments(validate_rows(self, X))
        return (mean, np.sqrt(variance + self.noise_variance_)) if return_std else mean

    def predict_latent(self, X: Any) -> tuple[Array, Array]:
        """Mean and variance of f; X (m, d) -> (m, 1) each."""
        check_is_fitted(self)
        mean, variance = self._moments(validate_rows(self, X))
        return mean[:, None], variance[:, None]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """R² over the rows that have a target."""
        predicted = self.predict(X)
        y = _targets(y, len(predicted))
        known = ~np.isnan(y)
        if not known.any():
            raise ValueError(f"y has no target among {len(y)} rows; there is nothing to score.")
        from sklearn.metrics import r2_score

        chosen = None if sample_weight is None else np.asarray(sample_weight)[known]
        return float(r2_score(y[known], predicted[known], sample_weight=chosen))

    def _moments(self, X: Array) -> tuple[Array, Array]:
        mean, variance = ssgp.predict_latent(self.posterior_, X)
        return self.shift_ + self.scale_ * mean[:, 0], self.scale_**2 * variance[:, 0]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = False
        return tags


# --- what the estimators on a graph share ---------------------------------------------------------


def base_kernel(kernel: Any, X: Array) -> Kernel:
    """K of the parameter `kernel`; its length-scale the paper's σ_0, of centred rows."""
    given = kernel_prior(kernel, X).kernel
    if isinstance(kernel, Kernel):
        return given
    length = np.sqrt(2.0) * given.k2.length_scale
    return RBF(length, (1e-3 * np.min(length), 1e3 * np.max(length)))


def graph_of(estimator: Any, X: Array) -> Geometry:
    """The graph that an estimator's parameters ask for."""
    return Geometry.from_rows(
        X,
        n_neighbors=estimator.n_neighbors,
        weights=estimator.weights,
        normalised=estimator.normalised,
        power=estimator.power,
    )


def check_dense(estimator: Any, n: int, m: int) -> None:
    """Refuse matrices of n rows, and of m sites or targets, that memory does not hold."""
    check_memory(
        8 * DENSE_COPIES * (n * n + m * m),
        what=f"{type(estimator).__name__} with {n} rows in its graph",
        instead="Use GraphGPClassifier, which holds no dense matrix of all rows, or fit on fewer "
        "rows (a random part of the unlabelled ones).",
    )


def check_positive(estimator: Any, *names: str) -> None:
    """Raise a ValueError unless these parameters are positive numbers."""
    for name in names:
        value = getattr(estimator, name)
        if not _is_number(value) or value <= 0:
            raise ValueError(f"{name}={value!r} must be a positive number.")


def check_ratio(estimator: Any) -> None:
    """Raise a ValueError unless the ratio is a number that is not negative."""
    if not _is_number(estimator.ratio) or estimator.ratio < 0:
        raise ValueError(f"ratio={estimator.ratio!r} must be zero or a positive number.")


def check_evidence(estimator: Any) -> None:
    """Raise a ValueError unless `evidence` is one of two words."""
    if estimator.evidence not in ("partial", "full"):
        raise ValueError(f"evidence={estimator.evidence!r} is neither 'partial' nor 'full'.")


def _is_number(value: Any) -> bool:
    return (
        isinstance(value, Real | Integral)
        and not isinstance(value, bool)
        and bool(np.isfinite(float(value)))
    )


def _targets(y: Any, n: int) -> Array:
    values = column_or_1d(np.asarray(y, dtype=object), warn=True)
    y = np.array([np.nan if value is None else value for value in values], dtype=np.float64)
    if np.isinf(y).any():
        raise ValueError("Input y contains infinity; use NaN for a row without a target.")
    if len(y) != n:
        raise ValueError(
            f"y has {len(y)} targets and X has {n} rows; pass one a row, NaN where it is unknown."
        )
    return y


def _watched(draws: Array, lower: Array) -> dict[str, Array]:
    """(chain, draw) scalars of draws (chain, draw, l, F) of z, to see whether chains mixed."""
    n_chains, n_draws, n, F = draws.shape
    flat = draws.transpose(2, 0, 1, 3).reshape(n, -1)
    norm = np.square(solve_lower(lower, flat)).sum(axis=0).reshape(n_chains, n_draws, F)
    means = draws.mean(axis=2)
    if F > 1:  # a number added to all functions changes nothing
        means = means - means.mean(axis=2, keepdims=True)
    found = {"log_prior": -0.5 * norm.sum(axis=2)}
    return found | {f"mean_of_function_{k}": means[..., k] for k in range(F)}


class progress:
    """Points tried, and the value at the last one, on standard error; nothing unless asked."""

    def __init__(self, verbose: bool, name: str, what: str = "log evidence"):
        self.verbose, self.name, self.what = verbose, name, what

    def __enter__(self) -> Callable[[float], None]:
        """The function to be called with each value."""
        from tqdm import tqdm

        self.bar = tqdm(disable=not self.verbose, desc=self.name, unit=" points")

        def report(value: float) -> None:
            self.bar.update()
            self.bar.set_postfix({self.what: f"{value:.3f}"})

        return report

    def __exit__(self, *error: object) -> None:
        self.bar.close()
