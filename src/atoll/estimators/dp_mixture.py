"""The Dirichlet process mixture classifier: in memory, from disk and on a cluster."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from functools import partial
from numbers import Integral, Real
from typing import Any, NamedTuple, Self

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from atoll.core.chunks import DaskRows, RowSource, is_dask
from atoll.core.labels import (
    PartialLabels,
    parse_labels,
    require_classes,
    unlabelled_marker,
    with_extra_classes,
)
from atoll.core.memory import check_memory
from atoll.core.passes import Reservoir, Summary, as_rows, choose, summarise
from atoll.diagnostics import entropy
from atoll.estimators.validation import (
    generator,
    labelled_accuracy,
    validate_rows,
    validate_training,
)
from atoll.models import dp_mixture
from atoll.models.dp_mixture import (
    START_ROWS,
    UNLABELLED,
    Ascent,
    Codes,
    Mixture,
    State,
    Statistics,
    Total,
    VariationalState,
)
from atoll.models.gaussian_components import NormalPrior

Array = NDArray[np.float64]

COVARIANCES = ("auto", "full", "diagonal", "tied", "factor")
FULL_FEATURES = 50  # up to so many "auto" takes full covariances
REFERENCE_DRAWS = 2000  # of the model itself, against which novelty is measured


class Rows(NamedTuple):
    """The rows of a fit, wherever they are: how to sum over them, their scale, some of them."""

    total: Total
    summary: Summary
    sample: Reservoir


class Online(NamedTuple):
    """What `partial_fit` carries on: statistics of an average row, and how many were seen."""

    model: Mixture
    state: State
    average: Statistics
    n_seen: float
    n_steps: int


class DPMixtureClassifier(ClassifierMixin, BaseEstimator):
    """Dirichlet process mixture of Gaussians in every class, learned from all rows.

    A row has class c with probability ρ_c and, given it, comes from one of K Gaussians with
    stick-breaking weights, v ~ Be(1, α), and normal–inverse-Wishart parameters. Labelled rows
    belong to their class, unlabelled ones to any. Parameters are those of largest posterior
    density, by EM from several starts, or have variational distributions. It is also a density
    (`score_samples`), a sampler (`sample`) and a detector of novelty (`novelty`).

    An iteration costs O(n J d²) time for J components in all, and its memory does not grow with
    n: `fit` takes arrays, memory maps, `RowChunks` read from disk, Dask arrays and data frames.

    Parameters
    ----------
    n_components : int
        K, the most components a class may use; a warning says when it uses them all.
    covariance : "auto", "full", "diagonal", "tied" or "factor"
        Of the components; "tied" is one for all, "factor" is W Wᵀ plus a diagonal. "auto" is
        "full" up to 50 features and "factor" beyond.
    n_factors : int
        Columns of W.
    inference : "map" or "vb"
        The maximum of the posterior, or variational Bayes ("full" and "diagonal" only), which
        keeps the uncertainty of weights, means and covariances and is better calibrated from few
        rows.
    concentration : float
        α; at least 1 under "map", whose density is not bounded below it.
    class_concentration : float
        γ of the Dirichlet prior of class weights; at least 1 under "map".
    mean_precision, prior_mean, degrees, covariance_scale : float or array
        λ, μ, n_0 (None: number of features) and R_0 (a number, a diagonal or a matrix) of the
        components' prior, for scaled features. The defaults are the paper's.
    scale_features : bool
        Whether features are centred and scaled to unit variance first.
    extra_classes : int or sequence of names
        Classes without a label, which only unlabelled rows feed.
    n_starts, max_iter, tol : int, int, float
        Starts, of which the best goes on; iterations at most; the gain in log-posterior, for each
        number of the data, below which EM ends.
    step_decay : float
        κ in (0.5, 1] of the steps (t + 1)^−κ of `partial_fit`.
    unlabelled : "auto", None or a value
        What in y means unlabelled beside nulls; "auto": -1 in an integer y, unless fewer than two
        classes would remain.
    random_state : None, int or numpy Generator
    n_jobs : int, optional
        Starts run at once, by joblib.
    verbose : bool
        Progress on standard error.

    Attributes
    ----------
    classes_ : (C,) the labels, sorted, then the extra classes
    n_components_ : (C,) components that hold at least one row each
    class_weights_ : (C,)
    weights_ : (C, K) within each class
    means_ : (C, K, d)
    label_distributions_ : (n, C) class probabilities of the training rows; given labels are
        certain. Not set by fits from chunks, Dask or `partial_fit`, whose rows may be too many.
    transduction_ : (n,) the most probable class of each training row, as above
    objectives_ : (t,) log-posterior, up to a constant, at every iteration; under "vb" the
        bound on the log evidence. Of scaled features.
    weight_deviations_, class_weight_deviations_ : posterior standard deviations, under "vb"
    posterior_ : MixturePosterior, what prediction needs
    diagnostics_ : dict with iterations and a verdict in words
    n_iter_ : int

    References
    ----------
    T. Kimura, Y. Nakada, A. Doucet and T. Matsumoto, "Semi-supervised learning scheme using
    Dirichlet process EM-algorithm" (2009). D. Blei and M. Jordan, "Variational inference for
    Dirichlet process mixtures" (2006). O. Cappé and E. Moulines, "On-line expectation–maximization
    algorithm for latent data models" (2009).

    Examples
    --------
    >>> from atoll.datasets import hide_labels, make_rings
    >>> from atoll.estimators import DPMixtureClassifier
    >>> X, truth = make_rings(n_samples=300, random_state=0)
    >>> y = hide_labels(truth, per_class=10, marker=None, random_state=0)
    >>> model = DPMixtureClassifier(random_state=0).fit(X, y)
    >>> bool(model.score(X, truth) > 0.9)
    True
    """

    paper = "Kimura, Nakada, Doucet & Matsumoto 2009"
    online_: Online

    summary = "two or more classes, learns from unlabelled rows, millions of them; also a density"

    def __init__(
        self,
        *,
        n_components: int = 20,
        covariance: str = "auto",
        n_factors: int = 5,
        inference: str = "map",
        concentration: float = 2.0,
        class_concentration: float = 1.0,
        mean_precision: float = 0.5,
        prior_mean: Any = 0.0,
        degrees: float | None = None,
        covariance_scale: Any = 1.0,
        scale_features: bool = True,
        extra_classes: Any = 0,
        n_starts: int = 4,
        max_iter: int = 300,
        tol: float = 1e-5,
        step_decay: float = 0.6,
        unlabelled: Any = "auto",
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: bool = False,
    ):
        self.n_components = n_components
        self.covariance = covariance
        self.n_factors = n_factors
        self.inference = inference
        self.concentration = concentration
        self.class_concentration = class_concentration
        self.mean_precision = mean_precision
        self.prior_mean = prior_mean
        self.degrees = degrees
        self.covariance_scale = covariance_scale
        self.scale_features = scale_features
        self.extra_classes = extra_classes
        self.n_starts = n_starts
        self.max_iter = max_iter
        self.tol = tol
        self.step_decay = step_decay
        self.unlabelled = unlabelled
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    # Fitting --------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None) -> Self:
        """Find the mixture given labelled and unlabelled rows.

        Parameters
        ----------
        X : (n, d) array or data frame of finite numbers; or `RowChunks`, which bring their
            labels; or a Dask array or data frame
        y : (n,) labels; None, NaN or NA where unknown, or -1 in an integer y

        Returns
        -------
        self
        """
        self._check_parameters()
        self.__dict__.pop("online_", None)
        if is_dask(X):
            if y is None:
                raise ValueError("y is None; pass the labels of a Dask X as a Dask array or array.")
            return self._fit_source(DaskRows(X, y))
        if hasattr(X, "total"):
            if y is not None:
                raise ValueError(
                    "y is given twice: chunks of rows bring their labels; leave y out."
                )
            return self._fit_source(X)
        X, labels = validate_training(self, X, y, unlabelled=self.unlabelled)
        rng = generator(self.random_state)
        rows = self._rows_in_memory(X, labels, _seed(rng))
        self._fit_rows(rows, labels.classes, rng)
        self.label_distributions_ = np.eye(len(self.classes_))[labels.codes]
        unknown = ~labels.is_labelled
        if unknown.any():
            self.label_distributions_[unknown] = self._proba(X[unknown])
        self.transduction_ = self.classes_[np.argmax(self.label_distributions_, axis=1)]
        return self

    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> Self:
        """Take in some more rows: one step of online EM.

        The first call starts from its own rows, by `fit`'s way, and fixes shift and scale of the
        features; give it a few hundred rows at least. Later calls move the statistics of an
        average row by a step (t + 1)^−κ towards those of the rows given.

        Parameters
        ----------
        X : (b, d) rows
        y : (b,) labels, unlabelled rows marked as in `fit`
        classes : all classes; needed in the first call where y does not hold them all
        """
        if not hasattr(self, "online_"):
            return self._begin_online(X, y, classes)
        X = validate_rows(self, X)
        if classes is not None and list(classes) != self.classes_[: len(classes)].tolist():
            raise ValueError(
                f"classes={list(classes)!r} differ from {self.classes_.tolist()!r} of the first "
                "call to partial_fit; leave them out, or begin anew with fit."
            )
        marker = self.unlabelled
        if isinstance(marker, str) and marker == "auto":
            marker = None if -1 in self.classes_.tolist() else -1
        labels = parse_labels(y, unlabelled=marker, classes=self.classes_.tolist())
        if len(labels.codes) != len(X):
            raise ValueError(f"y has {len(labels.codes)} labels and X has {len(X)} rows.")
        model, state, average, n_seen, n_steps = self.online_
        step = dp_mixture.e_step(model, state, self.posterior_.shift, self.posterior_.scale)
        found = dp_mixture.expect(step, X, _codes(labels))
        size = (n_steps + 1.0) ** -self.step_decay
        average = average.scaled(1 - size) + found.scaled(size / found.n_rows)
        n_seen += found.n_rows
        whole = average.scaled(n_seen)
        state = dp_mixture.m_step(model, whole, state)
        self.online_ = Online(model, state, average, n_seen, n_steps + 1)
        shift, scale = self.posterior_.shift, self.posterior_.scale
        self._describe(model, state, whole, shift, scale, generator(self.random_state))
        return self

    def _begin_online(self, X: Any, y: Any, classes: Any) -> Self:
        self._check_parameters()
        X, labels = validate_training(
            self, X, y, unlabelled=self.unlabelled, classes=classes, at_least=0
        )
        if len(labels.classes) < 2:
            raise ValueError("classes must be given in the first call to partial_fit.")
        rng = generator(self.random_state)
        rows = self._rows_in_memory(X, labels, _seed(rng))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # more rows are to come
            ascent, model = self._fit_rows(rows, labels.classes, rng)
        n = ascent.statistics.n_rows
        self.online_ = Online(model, ascent.state, ascent.statistics.scaled(1 / n), n, 1)
        return self

    def _fit_source(self, source: RowSource) -> Self:
        rng = generator(self.random_state)
        seed = _seed(rng)
        summary = source.total(summarise)
        self.n_features_in_ = len(summary.mean)
        if summary.names is not None:
            self.feature_names_in_ = np.array(summary.names, dtype=object)
        labels = parse_labels(_as_labels(summary.labels), unlabelled=self.unlabelled)
        require_classes(labels)
        marker = unlabelled_marker(labels, self.unlabelled)
        read = partial(_read_codes, labels.classes.tolist(), marker)
        starts = np.concatenate([[0], np.cumsum(summary.lengths)]).tolist()
        sizes = _reservoir_sizes(len(labels.classes))
        sample = source.total(partial(_choose_chunk, read, starts, seed, sizes))
        with _ticker(self.verbose, summary.n_rows) as tick:
            rows = Rows(lambda f: source.total(partial(_on_codes, read, f), tick), summary, sample)
            self._fit_rows(rows, labels.classes, rng)
        for name in ("label_distributions_", "transduction_"):  # of an earlier fit
            self.__dict__.pop(name, None)
        return self

    def _rows_in_memory(self, X: Array, labels: PartialLabels, seed: int) -> Rows:
        codes = _codes(labels)
        summary = summarise(0, X, np.zeros(len(X)))
        sample = choose(0, X, codes, seed, _reservoir_sizes(len(labels.classes)))
        return Rows(lambda f: f(X, codes), summary, sample)

    def _fit_rows(
        self, rows: Rows, classes: NDArray[Any], rng: np.random.Generator
    ) -> tuple[Ascent, Mixture]:
        """Starts on the sample, then EM on all rows; sets everything but the transduction."""
        d, n = len(rows.summary.mean), rows.summary.n_rows
        self.classes_ = with_extra_classes(classes, self.extra_classes)
        C = len(self.classes_)
        covariance = self._covariance(d)
        shift = rows.summary.mean.copy()
        scale = rows.summary.deviation if self.scale_features else np.ones(d)
        prior = self._prior(d, np.zeros(d) if self.scale_features else shift)
        self._check_memory(covariance, d, C)
        model = Mixture(
            C,
            int(self.n_components),
            covariance,
            min(int(self.n_factors), d),
            prior,
            float(self.concentration),
            np.full(C, float(self.class_concentration)),
            self.inference,
        )
        sample, codes = _start_rows(rows.sample, C)
        scaled = (sample - shift) / scale
        options: dict[str, Any] = {"max_iter": self.max_iter, "tol": self.tol}
        starts = Parallel(n_jobs=self.n_jobs)(
            delayed(dp_mixture.climb)(model, scaled, codes, stream, number, **options)
            for number, stream in enumerate(rng.spawn(self.n_starts))
        )
        best = max(starts, key=lambda start: start.objectives[-1])
        with _bar(self.verbose, n) as report:
            ascent = dp_mixture.ascend(
                model, rows.total, best.state, shift, scale, report=report, **options
            )
        if len(sample) == n:  # the start saw all rows: one climb
            trace = np.concatenate([best.objectives[:-1], ascent.objectives])
            ascent = ascent._replace(objectives=trace)
        self._describe(model, ascent.state, ascent.statistics, shift, scale, rng)
        self.objectives_ = ascent.objectives
        self.n_iter_ = max(1, len(ascent.objectives) - 1)
        self.draws_: dict[str, Array] = {}
        self.diagnostics_ = self._diagnose(ascent)
        return ascent, model

    def _describe(
        self,
        model: Mixture,
        state: State,
        statistics: Statistics,
        shift: Array,
        scale: Array,
        rng: np.random.Generator,
    ) -> None:
        """Set the attributes that speak of the mixture."""
        p = self.posterior_ = dp_mixture.posterior(model, state, shift, scale)
        counts = statistics.counts(model.n_classes)
        self.n_components_ = (counts >= 1.0).sum(axis=1)
        self.class_weights_ = np.exp(p.log_class_weights)
        self.weights_ = np.exp(p.log_weights)
        self.means_ = (p.means * p.scale + p.shift).reshape(*p.log_weights.shape, -1)
        draws, _ = p.sample(rng, REFERENCE_DRAWS)
        self.reference_log_densities_ = np.sort(p.log_density(draws))
        if isinstance(state, VariationalState):
            of_classes, of_components = dp_mixture.weight_deviations(state)
            self.class_weight_deviations_, self.weight_deviations_ = of_classes, of_components

    def _diagnose(self, ascent: Ascent) -> dict[str, Any]:
        name = "EM" if self.inference == "map" else "Variational Bayes"
        what = "log-posterior" if self.inference == "map" else "bound on the log evidence"
        value = float(ascent.objectives[-1])
        n = len(ascent.objectives) - 1
        if ascent.converged:
            sentence = f"{name} converged in {n} iterations, at a {what} of {value:.2f}."
        elif ascent.interrupted:
            sentence = f"{name} was interrupted after {n} iterations, at a {what} of {value:.2f}."
        else:
            sentence = (
                f"{name} had not converged after {n} iterations; raise max_iter "
                f"({self.max_iter}) or tol ({self.tol:g})."
            )
        if not ascent.converged:
            warnings.warn(f"{type(self).__name__}: {sentence}", ConvergenceWarning, stacklevel=4)
        full = np.flatnonzero(self.n_components_ == self.n_components)
        if self.n_components > 1 and full.size:
            names = ", ".join(repr(c) for c in self.classes_[full].tolist())
            cut = (
                f"the truncation binds: every one of the {self.n_components} sticks of class "
                f"{names} carries weight. Raise n_components."
            )
            warnings.warn(f"{type(self).__name__}: {cut}", ConvergenceWarning, stacklevel=4)
            sentence += f" But {cut}"
        return {
            what.replace("-", "_").replace(" ", "_"): value,
            "n_iterations": n,
            "interrupted": ascent.interrupted,
            "mixed": ascent.converged,
            "verdict": sentence,
        }

    # Prediction -----------------------------------------------------------------------------------

    def predict_proba(self, X: Any) -> Array:
        """Class probabilities; X (m, d) -> (m, C)."""
        check_is_fitted(self)
        return self._proba(validate_rows(self, X))

    def _proba(self, X: Array) -> Array:
        return np.exp(self.posterior_.log_class_probabilities(X))

    def predict(self, X: Any) -> NDArray[Any]:
        """The most probable class of each row; X (m, d) -> (m,)."""
        probabilities = self.predict_proba(X)
        return self.classes_[np.argmax(probabilities, axis=1)]

    def predict_entropy(self, X: Any) -> Array:
        """Entropy of the class probabilities in nats: how unsure; X (m, d) -> (m,)."""
        return entropy(self.predict_proba(X))

    def predict_component(self, X: Any) -> NDArray[np.intp]:
        """The most probable component of each row, class code × K + place; X (m, d) -> (m,)."""
        check_is_fitted(self)
        return self.posterior_.component(validate_rows(self, X))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy over the labelled rows; unlabelled ones are left out."""
        return labelled_accuracy(self, self.predict(X), y, sample_weight)

    def score_samples(self, X: Any) -> Array:
        """log p(x), in the units of X; X (m, d) -> (m,)."""
        check_is_fitted(self)
        return self.posterior_.log_density(validate_rows(self, X))

    def novelty(self, X: Any) -> Array:
        """How strange a row is: the share of the model's own draws that are more probable.

        Near 1 is novel; rows of the training data's kind are spread over [0, 1]. X (m, d) -> (m,).
        """
        density = self.score_samples(X)
        reference = self.reference_log_densities_
        return 1.0 - np.searchsorted(reference, density, side="left") / len(reference)

    def sample(
        self, n_samples: int = 1, *, classes: Any = None, random_state: Any = None
    ) -> tuple[Array, NDArray[Any]]:
        """Draw rows (n, d) and their classes (n,).

        Parameters
        ----------
        n_samples : int
        classes : (n,) class of each row wanted, or one for all; left out, they are drawn
        random_state : None, int or numpy Generator
        """
        check_is_fitted(self)
        codes: Any = None
        if classes is not None:
            wanted = np.broadcast_to(np.asarray(classes, dtype=object), (n_samples,))
            known = parse_labels(wanted.tolist(), unlabelled=None, classes=self.classes_.tolist())
            codes = known.codes
        X, codes = self.posterior_.sample(generator(random_state), n_samples, codes)
        return X, self.classes_[codes]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = False
        return tags

    # Parameters -----------------------------------------------------------------------------------

    def _covariance(self, d: int) -> str:
        if self.covariance != "auto":
            return self.covariance
        return "full" if d <= FULL_FEATURES else "diagonal" if self.inference == "vb" else "factor"

    def _prior(self, d: int, shift: Array) -> NormalPrior:
        for name, shapes in {
            "prior_mean": ((), (d,)),
            "covariance_scale": ((), (d,), (d, d)),
        }.items():
            if np.shape(getattr(self, name)) not in shapes:
                raise ValueError(
                    f"{name}={getattr(self, name)!r} has shape {np.shape(getattr(self, name))}; "
                    f"with {d} features give one of {', '.join(map(str, shapes))}."
                )
        prior = dp_mixture.default_prior(
            d,
            mean=self.prior_mean,
            mean_precision=self.mean_precision,
            degrees=self.degrees,
            covariance_scale=self.covariance_scale,
        )
        if prior.degrees <= d - 1:
            raise ValueError(
                f"degrees={self.degrees!r} must be above {d - 1}, one less than the features."
            )
        return prior._replace(mean=prior.mean - shift)

    def _check_memory(self, covariance: str, d: int, n_classes: int) -> None:
        J = n_classes * self.n_components
        numbers = {"full": 6 * J * d * d, "tied": 6 * d * d + 4 * J * d}
        check_memory(
            8 * numbers.get(covariance, 8 * J * d * (1 + self.n_factors)),
            what=f"{type(self).__name__} with {J} {covariance} covariances of {d} features",
            instead='Use covariance="factor" or "diagonal", or fewer components.',
        )

    def _check_parameters(self) -> None:
        for name, least in {
            "n_components": 1,
            "n_factors": 1,
            "n_starts": 1,
            "max_iter": 1,
        }.items():
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
                raise ValueError(f"{name}={value!r} must be a whole number, at least {least}.")
        if self.covariance not in COVARIANCES:
            raise ValueError(
                f"covariance={self.covariance!r} is none of {', '.join(map(repr, COVARIANCES))}."
            )
        if self.inference not in ("map", "vb"):
            raise ValueError(f"inference={self.inference!r} is neither 'map' nor 'vb'.")
        if self.inference == "vb" and self.covariance in ("tied", "factor"):
            raise ValueError(
                f"covariance={self.covariance!r} is fitted by inference='map' only; use 'full' or "
                "'diagonal' with 'vb'."
            )
        lowest = 1.0 if self.inference == "map" else 0.0
        for name in ("concentration", "class_concentration"):
            value = getattr(self, name)
            if not _is_number(value) or value < lowest or value <= 0:
                below = (
                    " (below 1 the density has no maximum; inference='vb' takes any positive one)"
                    if lowest
                    else ""
                )
                raise ValueError(
                    f"{name}={value!r} must be a number, {'at least 1' if lowest else 'positive'}"
                    f"{below}."
                )
        if not _is_number(self.mean_precision) or self.mean_precision <= 0:
            raise ValueError(f"mean_precision={self.mean_precision!r} must be a positive number.")
        if not _is_number(self.tol):
            raise ValueError(f"tol={self.tol!r} must be a number.")
        if not _is_number(self.step_decay) or not 0.5 < self.step_decay <= 1:
            raise ValueError(f"step_decay={self.step_decay!r} must be above 0.5, and at most 1.")
        R = np.asarray(self.covariance_scale, dtype=np.float64)
        positive = np.linalg.eigvalsh(R).min() > 0 if R.ndim == 2 else (R > 0).all()
        if not np.isfinite(R).all() or not positive:
            raise ValueError(
                f"covariance_scale={self.covariance_scale!r} must be positive: a number, a "
                "diagonal or a positive definite matrix."
            )


# --- rows and labels ------------------------------------------------------------------------------


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)


def _seed(rng: np.random.Generator) -> int:
    return int(rng.integers(2**62))


def _codes(labels: PartialLabels) -> Codes:
    """(n,) codes, UNLABELLED where there is no label; one byte each where that will do."""
    small = np.int8 if len(labels.classes) < 128 else np.int32
    return np.where(labels.is_labelled, labels.codes, UNLABELLED).astype(small)


def _as_labels(distinct: frozenset[Any]) -> Any:
    """The distinct labels as a y: whole numbers as integers, whatever a chunk read them as."""
    values = list(distinct)
    if values and all(isinstance(v, float) and v.is_integer() for v in values):
        return np.array(values).astype(np.int64)
    if values and all(isinstance(v, int | float) and not isinstance(v, bool) for v in values):
        return np.array([int(v) for v in values])
    return np.array(values, dtype=object)


def _read_codes(classes: list[Any], marker: Any, y: Any) -> Codes:
    return _codes(parse_labels(y, unlabelled=marker, classes=classes))


def _on_codes(
    read: Callable[[Any], Codes], function: Callable[[Any, Codes], Any], number: int, X: Any, y: Any
) -> Any:
    return function(as_rows(X), read(y))


def _choose_chunk(
    read: Callable[[Any], Codes],
    starts: list[int],
    seed: int,
    sizes: tuple[int, ...],
    number: int,
    X: Any,
    y: Any,
) -> Reservoir:
    return choose(starts[number], X, read(y), seed, sizes)


def _reservoir_sizes(n_classes: int) -> tuple[int, ...]:
    """Most rows kept: of the unlabelled, then of each class."""
    return (START_ROWS, *[max(START_ROWS // n_classes, 20)] * n_classes)


def _start_rows(sample: Reservoir, n_classes: int) -> tuple[Array, Codes]:
    """The rows that starts are found on; half of them labelled, where there are so many."""
    unlabelled = sample.codes < 0
    n_labelled = int((~unlabelled).sum())
    room = max(START_ROWS - n_labelled, START_ROWS // 2)
    kept = ~unlabelled | (np.cumsum(unlabelled) <= room)
    return sample.rows[kept], sample.codes[kept].astype(np.intp)


# --- progress -------------------------------------------------------------------------------------


class _bar:
    """Iterations and the log-posterior on standard error; nothing unless asked."""

    def __init__(self, verbose: bool, n_rows: int):
        self.verbose, self.n_rows = verbose, n_rows

    def __enter__(self) -> Callable[[int, float], None]:
        from tqdm import tqdm

        self.bar = tqdm(disable=not self.verbose, desc=f"{self.n_rows} rows", unit=" iterations")

        def report(iteration: int, value: float) -> None:
            self.bar.update()
            self.bar.set_postfix(log_posterior=f"{value:.3f}")

        return report

    def __exit__(self, *error: object) -> None:
        self.bar.close()


class _ticker:
    """Rows read in the current pass, for fits that read many chunks."""

    def __init__(self, verbose: bool, n_rows: int):
        self.verbose, self.n_rows = verbose, n_rows

    def __enter__(self) -> Callable[[int], None]:
        from tqdm import tqdm

        self.bar = tqdm(
            total=self.n_rows, disable=not self.verbose, desc="pass", unit=" rows", unit_scale=True
        )

        def tick(n: int) -> None:
            if self.bar.n >= self.n_rows:
                self.bar.reset()
            self.bar.update(n)

        return tick

    def __exit__(self, *error: object) -> None:
        self.bar.close()
