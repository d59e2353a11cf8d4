"""Gaussian processes told of the graph of all rows, as published: classification, regression."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import RegressorMixin
from sklearn.gaussian_process.kernels import ConstantKernel, Kernel
from sklearn.utils import column_or_1d
from sklearn.utils.validation import check_is_fitted

from atoll.core.labels import PartialLabels, unmasked
from atoll.core.linalg import solve_lower
from atoll.core.markers import is_null
from atoll.diagnostics import summarise, verdict
from atoll.estimators.belief import with_doubt
from atoll.estimators.graph_warped import WARPED, dense_need, problem_of
from atoll.estimators.parameters import (
    CHECKPOINT,
    COMMON,
    RANDOM,
    WATCHED,
    Nothing,
    Number,
    OneOf,
    Rule,
    Whole,
    inference,
)
from atoll.estimators.progress import Progress
from atoll.estimators.sampling import (
    PREDICTIVE_DRAWS,
    Patience,
    draw_on,
    drawing_on,
    patience_of,
    run_fingerprint,
    run_length,
)
from atoll.estimators.shell import Classifier, Estimator, Fit, Need
from atoll.estimators.validation import LARGEST, generator, remark_on_order, weights_of_score
from atoll.inference.chains import ChainsResult
from atoll.models import ssgp
from atoll.models.belief import weigh_left_out
from atoll.models.ssgp import Component, Labels, Problem, SSGPPosterior

Array = NDArray[np.float64]

EVIDENCES = OneOf("partial", "full")


class SSGPClassifier(Classifier):
    """Semi-supervised Gaussian process classifier as published: a kernel bent by the data's graph.

    f ~ GP(0, K̃/γ_A), with K̃ the base kernel after it was told that f varies little along the
    graph of all rows, labelled or not; y is the sign of f + ε, ε ~ N(0, σ_n²), or for more classes
    the largest of one such sum per class, all classes at once. The posterior over the labelled rows
    is found by expectation propagation (two classes) or by Markov chains whose moves are never
    rejected (any number); length-scale, γ_A and γ_I/γ_A by the evidence. New rows need no new
    graph.

    Dense: O(n³) time for each of some forty values of the parameters, and 64 n² bytes, for n rows
    in all; a few thousand. `GraphGPClassifier` is the default for every purpose but the paper's.

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
    noise : float, default=1e-4
        σ_n.
    selection : {"evidence", "grid", "average"} or None, default="evidence"
        L-BFGS on the evidence; the best of the paper's grid; all of that grid, each weighted by its
        evidence; or nothing is searched.
    evidence : {"partial", "full"}, default="partial"
        P(Y | 𝒢), which the paper uses, or P(Y, 𝒢), with −½ log det(I + MK) beside it.
    ratio : float, default=100.0
        γ_I/γ_A where `selection` is None. A ratio of 0 is the supervised process.
    ambient_weight : float, default=1.0
        γ_A where `selection` is None.
    inference : {"auto", "ep", "mcmc"}, default="auto"
        Expectation propagation takes two classes. "auto" is "ep" for two, "mcmc" for more.
    n_warmup : int, default=60
        Draws dropped at the start of each of the four chains of "mcmc".
    n_samples : int or "auto", default="auto"
        Draws kept of each of them. "auto" is 250, and then up to 4000 while the chains have not
        mixed and that many could be enough.
    checkpoint : path of a folder, default=None
        Where "mcmc" keeps its chains, every half a minute and at Ctrl-C; the same fit then goes on
        from there, to the same draws.
    unlabelled : "auto", None or a value, default="auto"
        What in y means unlabelled besides nulls; "auto": -1 among numbers, unless fewer than two
        classes would remain.
    random_state : None, int or numpy Generator, default=None
        Seed of "mcmc".
    n_jobs : int, default=None
        Chains of "mcmc" run at once, by joblib.
    verbose : bool or "auto", default="auto"
        Whether progress is shown on standard error; "auto": of a fit that takes longer than ten
        seconds, at a terminal or in a notebook, or than a minute elsewhere.

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
    holds_labels_out = True
    compares_columns = True
    summary = "two or more classes, learns from unlabelled rows: smooth along their graph"
    patience = drawing_on(250, longer=16)
    keeps_rows = True
    parameters: ClassVar[Mapping[str, Rule]] = {
        **COMMON,
        **RANDOM,
        **WARPED,
        **WATCHED,
        "noise": Number(above=0),
        "selection": OneOf("evidence", "grid", "average") | Nothing("as given"),
        "evidence": EVIDENCES,
        "ratio": Number(least=0),
        "ambient_weight": Number(above=0),
        "inference": inference("auto", "ep", "mcmc"),
        "n_warmup": Whole(0),
        "n_samples": OneOf("auto") | Whole(1),
        "checkpoint": CHECKPOINT,
    }

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
        n_samples: int | str = "auto",
        checkpoint: str | None = None,
        unlabelled: Any = "auto",
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: bool | str = "auto",
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
        self.checkpoint = checkpoint
        self.unlabelled = unlabelled
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _check_labels(self, labels: PartialLabels) -> None:
        n_classes = len(labels.classes)
        if self.inference == "ep" and n_classes > 2:
            raise ValueError(
                f'inference="ep" takes two classes, and y has {n_classes}; use "mcmc" or "auto".'
            )
        for name, default in (("ratio", 100.0), ("ambient_weight", 1.0)):
            if self.selection is not None and getattr(self, name) != default:
                raise ValueError(
                    f"{name} is searched with selection={self.selection!r} and must be {default} "
                    f"there, got {getattr(self, name)!r}; use selection=None to give it."
                )

    def _memory(self, X: Array, labels: PartialLabels) -> Need:
        return dense_need(self, len(X), labels.n_labelled * (len(labels.classes) - 1))

    def _fit(self, X: Array, labels: PartialLabels) -> Fit:
        n_classes = len(labels.classes)
        problem = problem_of(self, X)
        known = np.flatnonzero(labels.is_labelled)
        given = Labels(known, labels.codes[known], n_classes, float(self.noise))
        selected = self._select(problem, given)
        chosen = self.inference
        if chosen == "auto":
            chosen = "ep" if n_classes == 2 else "mcmc"
        traces: dict[str, Array] = {}
        summary: dict[str, Any] = {}
        found = f"with an estimate of {selected.log_evidence:.2f} for the log evidence."
        if chosen == "ep":
            components = [
                ssgp.propagated_component(problem, fit, given, float(log_weight))
                for fit, log_weight in zip(selected.fits, selected.log_weights)
            ]
            sentence = f"Expectation propagation converged, {found}"
        else:
            mark = run_fingerprint(self, X, labels)
            components, traces, summary = self._sample(problem, given, selected, mark)
            sentence = f"{summary['verdict']}\nParameters were found {found}"
        if not selected.converged:
            sentence = (
                "Expectation propagation, or the search for the parameters, had not converged, "
                f'{found} Standardise the features, or use selection="grid".'
            )
        ambient_weight, ratio = np.exp(selected.best.log_parameters[-2:]).tolist()
        warped = problem.warped_kernel_at(selected.best.log_parameters)
        fit = Fit(
            SSGPPosterior(X[known], tuple(components), given.noise),
            {
                **summary,
                "log_evidence": selected.log_evidence,
                "n_iterations": len(selected.objectives),
                "n_components": len(components),
                "converged": selected.converged,
                "verdict": sentence,
            },
            traces=traces,
            objectives=selected.objectives,
            attributes={
                "inference_": chosen,
                "log_evidence_": selected.log_evidence,
                "ambient_weight_": ambient_weight,
                "ratio_": ratio,
                "kernel_": ConstantKernel(1.0 / ambient_weight, "fixed") * warped,
            },
        )
        return with_doubt(fit, weigh_left_out(ssgp.left_out(selected.best, given), given.codes))

    def _select(self, problem: Problem, labels: Labels) -> ssgp.Selection:
        full = self.evidence == "full"
        name = type(self).__name__
        with Progress(self.verbose, name, "points", value="log evidence") as bar:
            if self.selection == "evidence":
                return ssgp.select_best(problem, labels, full=full, report=bar.report)
            if self.selection is None:
                with np.errstate(divide="ignore"):
                    chosen = np.log([float(self.ambient_weight), float(self.ratio)])
                x = np.concatenate([problem.base.theta, chosen])
                return ssgp.select_from([ssgp.fit_at(problem, labels, x, full=full)])
            fits = list(ssgp.fit_grid(problem, labels, full=full, report=bar.report))
        return ssgp.select_from(fits, average=self.selection == "average")

    def _sample(
        self, problem: Problem, labels: Labels, selected: ssgp.Selection, mark: str
    ) -> tuple[list[Component], dict[str, Array], dict[str, Any]]:
        """Return components of draws, as many of each as its weight deserves.

        With them come the traces of the heaviest and what they say of its chains, which alone draw
        on until they have mixed. Chains that Ctrl-C has cut short are the last component, whatever
        its weight. `mark` is what a checkpoint knows the problem by.
        """
        components: list[tuple[int, Component]] = []
        traces: dict[str, Array] = {}
        summary: dict[str, Any] = {}
        patience = patience_of(self)
        streams = generator(self.random_state).spawn(len(selected.fits))
        # The heaviest first: if a run is stopped, the others matter less.
        for number in np.argsort(-selected.log_weights, kind="stable").tolist():
            fit, log_weight = selected.fits[number], float(selected.log_weights[number])
            folder = None if self.checkpoint is None else Path(self.checkpoint) / f"fit-{number}"
            draws, lower, found = self._draw(streams[number], fit, labels, patience, folder, mark)
            if not components:
                traces, summary = _watched(draws, lower), found
                patience = Patience(patience.counts[:1])
            interrupted = summary["interrupted"] = found["interrupted"]
            pooled = draws.reshape(-1, *draws.shape[2:])
            size = max(4, math.ceil(PREDICTIVE_DRAWS * math.exp(log_weight)))
            kept = np.linspace(0, len(pooled) - 1, min(size, len(pooled))).round().astype(int)
            components.append(
                (number, ssgp.sampled_component(problem, fit, pooled[kept], lower, log_weight))
            )
            if interrupted:
                break
        return (
            [component for _, component in sorted(components, key=lambda pair: pair[0])],
            traces,
            summary,
        )

    def _draw(
        self,
        rng: np.random.Generator,
        fit: ssgp.Fit,
        labels: Labels,
        patience: Patience,
        checkpoint: Path | None,
        mark: str,
    ) -> tuple[Array, Array, dict[str, Any]]:
        """Return draws of z (chain, draw, l, F), the factor of V (l, l), and how chains went."""
        lower = np.zeros((0, 0))

        def run(n_samples: int, folder: Any) -> ChainsResult:
            nonlocal lower
            z, lower, interrupted = ssgp.sample_auxiliary(
                rng,
                fit,
                labels,
                ssgp.Lengths(self.n_warmup, n_samples),
                n_jobs=self.n_jobs,
                shown_after=self._until_shown(),
                checkpoint=folder,
                fingerprint=mark,
            )
            return ChainsResult({"z": z}, interrupted)

        def judge(result: ChainsResult, is_last: bool) -> dict[str, Any]:
            traces = _watched(result.draws["z"], lower)
            found, (n_chains, n_draws) = summarise(traces), traces["log_prior"].shape
            length = run_length(self, n_draws, interrupted=result.interrupted)
            mixed, said = verdict(found, n_chains=n_chains, length=length)
            return {
                **found,
                "n_chains": n_chains,
                "n_draws": n_draws,
                "interrupted": result.interrupted,
                "mixed": mixed,
                "verdict": said,
            }

        result, found = draw_on(patience, checkpoint, run, judge)
        return result.draws["z"], lower, found


class SSGPRegressor(RegressorMixin, Estimator):
    """Gaussian process regression told of the graph of all rows, with a target or without.

    f ~ GP(0, K̃/γ_A), with K̃ the base kernel after it was told that f varies little along the
    graph of the rows; y = f(x) + ε, ε ~ N(0, σ²). Length-scale, γ_A, γ_I/γ_A and σ² by the
    evidence, which is in closed form. Rows whose y is NaN have no target and shape the graph.

    Dense: O(n³) time for each of some forty values of the parameters, and 64 n² bytes, for n rows
    in all; a few thousand.

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
    evidence : {"partial", "full"}, default="partial"
        P(y | 𝒢), or P(y, 𝒢), with −½ log det(I + MK) beside it.
    verbose : bool, default=False
        Whether progress is written to standard error.

    Attributes
    ----------
    transduction_ : (n,) targets as given, and the mean of f where there was none
    log_evidence_ : float
    objectives_ : (t,) after every iteration, of targets scaled to unit variance
    ratio_, ambient_weight_, noise_variance_ : γ_I/γ_A, γ_A (of scaled targets) and σ²
    kernel_ : K̃/γ_A of scaled targets
    posterior_ : RegressionPosterior, what prediction needs
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
    keeps_rows = True
    parameters: ClassVar[Mapping[str, Rule]] = {**WARPED, "evidence": EVIDENCES}

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
        self._begin()
        if y is None:
            raise ValueError(
                "SSGPRegressor requires y to be passed, but the target y is None. Pass one number "
                "per row, NaN where it is unknown."
            )
        X = self._read_rows(X, reset=True)
        y = _targets(y, len(X))
        known = np.flatnonzero(~np.isnan(y))
        if len(known) == 0:
            raise ValueError(f"y has no target among {len(y)} rows; give at least one.")
        dense_need(self, len(X), len(known)).check()
        self._keep(self._fit(X, known, y[known]))
        self.transduction_ = y.copy()
        unknown = np.isnan(y)
        if unknown.any():
            self.transduction_[unknown] = self.posterior_.latent(X[unknown])[0][:, 0]
        return self

    def _fit(self, X: Array, known: NDArray[np.intp], targets: Array) -> Fit:
        # The deviation of equal targets may be a rounding error instead of zero.
        shift, scale = float(targets.mean()), float(targets.std()) if np.ptp(targets) > 0 else 1.0
        scaled = (targets - shift) / scale
        problem = problem_of(self, X)
        name = type(self).__name__
        with Progress(self.verbose, name, "iterations", value="log evidence") as bar:
            fit, trace, converged = ssgp.maximise_regression(
                problem, known, scaled, full=self.evidence == "full", report=bar.report
            )
        log_evidence = fit.log_evidence - len(known) * math.log(scale)
        posterior = ssgp.regression_posterior(problem, fit, X[known], scaled, shift, scale)
        ambient_weight, ratio = np.exp(fit.log_parameters[-3:-1]).tolist()
        warped = problem.warped_kernel_at(fit.log_parameters[:-1])
        what = "converged" if converged else "had not converged; scale the features"
        return Fit(
            posterior,
            {
                "log_evidence": log_evidence,
                "n_iterations": len(trace),
                "converged": converged,
                "verdict": f"The search {what}, with {log_evidence:.2f} for the log evidence.",
            },
            objectives=trace,
            attributes={
                "log_evidence_": log_evidence,
                "ambient_weight_": ambient_weight,
                "ratio_": ratio,
                "noise_variance_": posterior.noise_variance,
                "kernel_": ConstantKernel(1.0 / ambient_weight, "fixed") * warped,
            },
        )

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Return the mean of f, and with `return_std` the standard deviation of a new y.

        Parameters
        ----------
        X : (m, d)
        return_std : bool, default=False

        Returns
        -------
        mean : (m,)
        deviation : (m,), with `return_std`
        """
        mean, variance = self.predict_latent(X)
        if not return_std:
            return mean[:, 0]
        return mean[:, 0], np.sqrt(variance[:, 0] + self.noise_variance_)

    def predict_latent(self, X: Any) -> tuple[Array, Array]:
        """Return mean and variance of f; X (m, d) -> (m, 1) each."""
        check_is_fitted(self)
        return self.posterior_.latent(self._read_rows(X))

    def sample_latent(self, X: Any, n_samples: int = 100, *, random_state: Any = None) -> Array:
        """Draw f from its posterior, at all rows jointly.

        Parameters
        ----------
        X : (m, d)
        n_samples : int, default=100
        random_state : None, int or numpy Generator, default=None

        Returns
        -------
        (n_samples, m) array
        """
        return self._joint_draws(X, n_samples, random_state, 1)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return R² over the rows that have a target."""
        predicted = self.predict(X)
        remark_on_order(X, y)
        remark_on_order(X, sample_weight, "sample_weight")
        y = _targets(y, len(predicted))
        known = ~np.isnan(y)
        weights = weights_of_score(known, len(predicted), sample_weight)
        from sklearn.metrics import r2_score

        return float(r2_score(y[known], predicted[known], sample_weight=weights[known]))


def _targets(y: Any, n: int) -> Array:
    cells = unmasked(y) if isinstance(y, np.ma.MaskedArray) else np.asarray(y, dtype=object)
    values = [np.nan if is_null(cell) else cell for cell in column_or_1d(cells, warn=True)]
    try:
        y = np.array(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"y holds what is no number ({error}); give a number per row, NaN where it is unknown."
        ) from None
    if np.isinf(y).any():
        raise ValueError("Input y contains infinity; use NaN for a row without a target.")
    known = y[~np.isnan(y)]
    low, high = known.min(initial=np.inf), known.max(initial=-np.inf)
    if max(-low, high) > LARGEST or 0 < high - low < 1.0 / LARGEST:
        raise ValueError(
            f"y holds targets from {low:.3g} to {high:.3g}, whose squares overflow or underflow; "
            "divide them by a number that brings them near one."
        )
    if len(y) != n:
        raise ValueError(
            f"y has {len(y)} targets and X has {n} rows; pass one per row, NaN where it is unknown."
        )
    return y


def _watched(draws: Array, lower: Array) -> dict[str, Array]:
    """Return (chain, draw) scalars of draws (chain, draw, l, F) of z, to see if chains mixed."""
    n_chains, n_draws, n, F = draws.shape
    flat = draws.transpose(2, 0, 1, 3).reshape(n, -1)
    norm = np.square(solve_lower(lower, flat)).sum(axis=0).reshape(n_chains, n_draws, F)
    means = draws.mean(axis=2)
    if F > 1:  # a number added to all functions changes nothing
        means = means - means.mean(axis=2, keepdims=True)
    found = {"log_prior": -0.5 * norm.sum(axis=2)}
    return found | {f"mean_of_function_{k}": means[..., k] for k in range(F)}
