"""The Dirichlet process mixture classifier: in memory, from disk and on a cluster."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from atoll.core.checkpoints import Checkpoint, checkpoint_in
from atoll.core.chunks import RowSource
from atoll.core.labels import PartialLabels, with_extra_classes
from atoll.core.passes import Rows, rows_in_memory, rows_of_source, signed_codes
from atoll.estimators.generative import GenerativeClassifier
from atoll.estimators.novelty import reference_log_densities
from atoll.estimators.parameters import (
    CHECKPOINT,
    COMMON,
    RANDOM,
    Flag,
    Listed,
    Nothing,
    Number,
    OneOf,
    Rule,
    Whole,
    check_folds,
    check_value,
    inference,
)
from atoll.estimators.progress import Progress
from atoll.estimators.sampling import run_fingerprint
from atoll.estimators.shell import Fit, Need
from atoll.estimators.validation import fingerprint, generator, read_labels
from atoll.inference.registry import METHODS
from atoll.models import dp_mixture
from atoll.models.dp_mixture import (
    Ascent,
    Keeping,
    Mixture,
    MixturePosterior,
    Online,
    Search,
    Statistics,
    Tempering,
    reservoir_sizes,
)
from atoll.models.gaussian_components import NormalPrior

Array = NDArray[np.float64]

N_FACTORS = 5  # unless another number is asked for
FULL_FEATURES = 50  # up to this many features, "auto" takes full covariances
POWER_TO_MENTION = 0.2  # the verdict speaks of a mean power below it
LARGEST = 1e100  # deviation of features that are not scaled: beyond it squares would overflow


class DPMixtureClassifier(GenerativeClassifier):
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
    n_components : int, default=20
        K, the most components that a class may use; a warning says when it uses them all.
    covariance : {"auto", "full", "diagonal", "tied", "factor"}, default="auto"
        Of the components; "tied" is one for all, "factor" is W Wᵀ plus a diagonal. "auto" is
        "full" up to 50 features, and beyond them "factor", or "diagonal" with `inference="vb"`.
    n_factors : int, default=5
        Columns of W, where `covariance` is "factor"; with other covariances it is refused.
    inference : {"map", "vb"}, default="map"
        The maximum of the posterior by EM, or variational Bayes (with "full" and "diagonal"
        covariances), which keeps the uncertainty of weights, means and covariances and is better
        calibrated from few rows.
    concentration : float, default=2.0
        α; at least 1 under "map", whose density is unbounded otherwise.
    class_concentration : float, default=1.0
        γ of the Dirichlet prior of the class weights; at least 1 under "map".
    mean_precision : float, default=0.5
        λ of the components' prior, m ~ N(μ, Σ / λ).
    prior_mean : float or (d,) array, default=0.0
        μ of the components' prior, for scaled features.
    degrees : float or None, default=None
        Degrees of freedom n_0 of the components' prior, Σ ~ IW(n_0, R_0); above d − 1. None: the
        number of features d.
    covariance_scale : float, (d,) or (d, d) array, default=1.0
        R_0 of the components' prior, for scaled features: a multiple of the identity, a diagonal
        or a matrix.
    scale_features : bool, default=True
        Whether features are centred and scaled to unit variance first.
    extra_classes : int or sequence of names, default=0
        Classes without a label, to which unlabelled rows alone may belong. Given a number, they
        are numbered on from the largest label, or called "extra 1", "extra 2", ...
    n_starts : int, default=4
        Starts, of which the best goes on with all rows.
    max_iter : int, default=300
        Iterations at most, after those of the start, of which there are as many or 60 at most.
    tol : float, default=1e-5
        The gain in log-posterior, per number of the data, at which EM ends; at least 0.
    n_folds : int, default=5
        Folds of the labels, each held out of a fit of at most 5000 rows and predicted from it.
        Class probabilities are then tempered to what these labels bear out: to a power between the
        mixture's own and the labels' shares, with noise, both averaged by evidence. In many
        dimensions those of the mixture alone are near-certainties, right or wrong. 0: they are left
        as the mixture has them. The only label of a class is never held out. Densities do not
        change.
    step_decay : float, default=0.6
        κ in (0.5, 1] of the steps (t + 1)^−κ of `partial_fit`.
    checkpoint : path of a folder, default=None
        Where `fit` keeps what EM has come to, every half a minute and at Ctrl-C; the same fit
        then goes on from there, to the same numbers. A larger `max_iter` goes on as well.
    unlabelled : "auto", None or a value, default="auto"
        What in y means unlabelled besides nulls; "auto": -1 among numbers, unless fewer than two
        classes would remain.
    random_state : None, int or numpy Generator, default=None
    n_jobs : int or None, default=None
        How many starts joblib runs at once.
    verbose : bool, default=False
        Whether to show progress on standard error.

    Attributes
    ----------
    classes_ : (C,) the labels, sorted, then the extra classes
    unlabelled_ : what meant unlabelled besides nulls
    n_components_ : (C,) components that hold at least one row each
    class_weights_ : (C,)
    weights_ : (C, K) within each class
    means_ : (C, K, d)
    label_distributions_ : (n, C) class probabilities of the training rows; given labels are
        certain. Not set by fits from chunks, Dask or `partial_fit`, whose rows may be too many.
    transduction_ : (n,) the most probable class of each training row, as above
    objectives_ : (t,) log-posterior, up to a constant, at every iteration; under "vb" the
        bound on the log evidence. Of scaled features.
    class_weight_deviations_, weight_deviations_ : posterior standard deviations, under "vb"
    class_power_, label_noise_ : power and noise by which class probabilities are tempered, on
        average: 1 and 0 are the mixture's own
    posterior_ : MixturePosterior, what prediction needs
    diagnostics_ : dict with the last objective, iterations, whether they converged, and a verdict
        in words
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
    summary = "two or more classes, learns from unlabelled rows, millions of them; also a density"
    holds_labels_out = True
    parameters: ClassVar[Mapping[str, Rule]] = (
        COMMON
        | RANDOM
        | {
            "n_components": Whole(1),
            "covariance": OneOf("auto", "full", "diagonal", "tied", "factor"),
            "n_factors": Whole(1),
            "inference": inference("map", "vb"),
            "concentration": Number(above=0),
            "class_concentration": Number(above=0),
            "mean_precision": Number(above=0),
            "prior_mean": Number() | Listed("one number per feature", Number()),
            "degrees": Nothing("the number of features") | Number(above=0),
            "covariance_scale": (
                Number(above=0)
                | Listed("one positive number per feature", Number(above=0))
                | Listed("a positive definite matrix", Listed("a row of it", Number()))
            ),
            "scale_features": Flag(),
            "extra_classes": Whole(0) | Listed("a sequence of names"),
            "n_starts": Whole(1),
            "max_iter": Whole(1),
            "tol": Number(least=0),
            "n_folds": Whole(0),
            "step_decay": Number(above=0.5, most=1),
            "checkpoint": CHECKPOINT,
        }
    )
    has_functions = False
    online_: Online

    def __init__(
        self,
        *,
        n_components: int = 20,
        covariance: str = "auto",
        n_factors: int = N_FACTORS,
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
        n_folds: int = 5,
        step_decay: float = 0.6,
        checkpoint: str | None = None,
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
        self.n_folds = n_folds
        self.step_decay = step_decay
        self.checkpoint = checkpoint
        self.unlabelled = unlabelled
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    # Fitting --------------------------------------------------------------------------------------

    def _fit(self, X: Array, labels: PartialLabels) -> Fit:
        rng, settings = self._stream()
        rows = rows_in_memory(X, labels, _seed(rng), reservoir_sizes)
        return self._fit_rows(rows, rng, settings)[0]

    def _fit_source(self, source: RowSource) -> Self:
        """Fit rows in chunks, which stay where they are; they have no transduction."""
        self._begin()
        rng, settings = self._stream()
        rows, labels = rows_of_source(
            source, _seed(rng), reservoir_sizes, unlabelled=self.unlabelled
        )
        self._keep_columns(rows.summary)
        self._keep_labels(labels)
        self._need(self.n_features_in_, len(self.classes_)).check()
        with Progress(self.verbose, "pass", "rows", total=rows.summary.n_rows) as bar:
            heard = rows._replace(total=partial(rows.total, tick=bar.advance))
            fit, _ = self._fit_rows(heard, rng, settings)
        self._keep(fit._replace(beware=self._beware()))
        return self

    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> Self:
        """Take in some more rows: one step of online EM.

        The first call starts from its own rows, by `fit`'s way, and fixes shift and scale of the
        features, and how far class probabilities are believed (`n_folds`); give it a few hundred
        rows at least. Later calls move the statistics of an average row by a step (t + 1)^−κ
        towards those of the rows given.

        Parameters
        ----------
        X : (b, d) rows
        y : (b,) labels, unlabelled rows marked as in `fit`
        classes : all classes; needed in the first call where y does not hold them all

        Returns
        -------
        self
        """
        if not hasattr(self, "online_"):
            return self._begin_online(X, y, classes)
        rows = self._read_rows(X)
        known = self.classes_.tolist()
        if classes is not None and list(classes) != known[: len(classes)]:
            raise ValueError(
                f"classes={list(classes)!r} differ from {known!r} of the first call to "
                "partial_fit; leave them out, or begin anew with fit."
            )
        labels = read_labels(y, len(rows), self.unlabelled_, known, at_least=0)
        shift, scale = self.posterior_.shift, self.posterior_.scale
        online = dp_mixture.online_step(
            self.online_, rows, signed_codes(labels), shift, scale, decay=self.step_decay
        )
        tempering = self.posterior_.tempering  # as the first call found it
        posterior = dp_mixture.posterior(online.model, online.state, shift, scale, tempering)
        found = self._described(posterior, online.statistics, generator(self.random_state))
        self._keep_online(online, Fit(posterior, {}, attributes=found))
        return self

    def _begin_online(self, X: Any, y: Any, classes: Any) -> Self:
        self._begin()
        rows = self._read_rows(X, reset=True)
        labels = read_labels(y, len(rows), self.unlabelled, classes, at_least=0)
        if len(labels.classes) < 2:
            raise ValueError("classes must be given in the first call to partial_fit.")
        self._memory(rows, labels).check()
        self._keep_labels(labels)
        rng = generator(self.random_state)
        fit, online = self._fit_rows(rows_in_memory(rows, labels, _seed(rng), reservoir_sizes), rng)
        self._keep_online(online, fit)
        return self

    def _keep_online(self, online: Online, fit: Fit) -> None:
        """Set the fitted attributes; nothing is amiss yet, for more rows are to come."""
        verdict = f"Online EM has taken {online.n_steps} steps, over {online.n_seen:.0f} rows."
        diagnostics = {"n_iterations": online.n_steps, "verdict": verdict}
        attributes = {**fit.attributes, "online_": online}
        self._keep(fit._replace(diagnostics=diagnostics, attributes=attributes, remarks=()))

    def _keep_labels(self, labels: PartialLabels) -> None:
        super()._keep_labels(labels)
        self.classes_ = with_extra_classes(labels.classes, self.extra_classes)

    def _stream(self) -> tuple[np.random.Generator, Checkpoint | None]:
        """Return the random stream of a fit, and where its settings are kept.

        A fit that goes on has the stream that it began with.
        """
        rng = generator(self.random_state)
        kept = checkpoint_in(self.checkpoint, run_fingerprint(self, None, None))
        return rng if kept is None else kept.generator(rng), kept

    def _fit_rows(
        self, rows: Rows, rng: np.random.Generator, settings: Checkpoint | None = None
    ) -> tuple[Fit, Online]:
        """Starts on the sample, then EM on all rows; it goes on where `settings` are kept."""
        self._check_size(rows)
        shift = rows.summary.mean.copy()
        scale = rows.summary.deviation if self.scale_features else np.ones(len(shift))
        model = self._model(len(shift), np.zeros(len(shift)) if self.scale_features else shift)
        search = Search(self.n_starts, self.max_iter, self.tol, self.n_jobs, self.n_folds)
        value = METHODS[self.inference].objective
        with Progress(
            self.verbose, f"{rows.summary.n_rows} rows", "iterations", value=value
        ) as bar:
            keeping = None if settings is None else Keeping(_of_rows(settings, rows))
            ascent = dp_mixture.fit_mixture(
                model, rows, shift, scale, rng, search, bar.report, keeping
            )
        posterior = dp_mixture.posterior(model, ascent.state, shift, scale, ascent.tempering)
        sample = rows.sample.uniform_rows
        attributes = self._described(posterior, ascent.statistics, rng, sample, ascent.left_out)
        attributes["n_iter_"] = max(1, len(ascent.objectives) - 1)
        diagnostics, remarks = self._diagnose(ascent, attributes["n_components_"])
        fit = Fit(
            posterior,
            diagnostics,
            objectives=ascent.objectives,
            attributes=attributes,
            remarks=remarks,
        )
        return fit, dp_mixture.begin_online(model, ascent)

    def _check_size(self, rows: Rows) -> None:
        """Raise a ValueError for features whose squares overflow."""
        s = rows.summary
        with np.errstate(invalid="ignore", over="ignore"):
            finite = np.isfinite(s.mean) & np.isfinite(s.squares)
            fits = finite & (self.scale_features | (s.deviation <= LARGEST))
        if fits.all():
            return
        bad = np.flatnonzero(~fits).tolist()
        names = [repr(s.names[j]) if s.names is not None else str(j) for j in bad[:5]]
        raise ValueError(
            f"X holds numbers whose squares overflow, in {len(bad)} column{'s' * (len(bad) != 1)}: "
            f"{', '.join(names)}{', …' * (len(bad) > 5)}. Divide by a large number, or take "
            "logarithms."
        )

    def _described(
        self,
        posterior: MixturePosterior,
        statistics: Statistics,
        rng: np.random.Generator,
        rows: Array | None = None,
        left_out: Array | None = None,
    ) -> dict[str, Any]:
        """Return the fitted attributes that speak of the mixture.

        Parameters
        ----------
        rows : a sample of them
        left_out : log densities of all rows, each by a fit without it
        """
        p = posterior
        reference = reference_log_densities(p, rng, rows) if left_out is None else np.sort(left_out)
        found = {
            "n_components_": (statistics.counts(len(self.classes_)) >= 1.0).sum(axis=1),
            "class_weights_": np.exp(p.log_class_weights),
            "weights_": np.exp(p.log_weights),
            "means_": (p.means * p.scale + p.shift).reshape(*p.log_weights.shape, -1),
            "reference_log_densities_": reference,
        }
        held = p.tempering
        found["foretold_"] = None if held is None else held.foretold
        found["class_power_"] = 1.0 if held is None else held.power
        found["label_noise_"] = 0.0 if held is None else held.noise
        if self.inference == "vb":
            of_classes, of_components = p.weight_deviations()
            found |= {"class_weight_deviations_": of_classes, "weight_deviations_": of_components}
        return found

    def _diagnose(
        self, ascent: Ascent, n_used: NDArray[np.intp]
    ) -> tuple[dict[str, Any], tuple[str, ...]]:
        """Return the diagnostics, and what to warn of."""
        method = METHODS[self.inference]
        value, n = float(ascent.objectives[-1]), len(ascent.objectives) - 1
        reached = f"{n} iterations, at a {method.objective} of {value:.2f}."
        if ascent.converged:
            verdict = f"{method.title} converged in {reached}"
        elif ascent.interrupted:
            verdict = f"{method.title} was interrupted after {reached}"
        else:
            verdict = (
                f"{method.title} had not converged {self.max_iter} iterations after its start; "
                f"raise max_iter ({self.max_iter}) or tol ({self.tol:g})."
            )
        remarks = []
        full = np.flatnonzero(n_used == self.n_components)
        if self.n_components > 1 and full.size:
            names = ", ".join(repr(c) for c in self.classes_[full].tolist())
            remarks.append(
                f"The truncation binds: every one of the {self.n_components} sticks of class "
                f"{names} carries weight. Raise n_components."
            )
        held = ascent.tempering
        of_labels = [] if held is None or held.power > POWER_TO_MENTION else [_said(held)]
        return {
            "objective": value,
            "n_iterations": n,
            "interrupted": ascent.interrupted,
            "converged": ascent.converged,
            "n_held_out": 0 if held is None else held.n_held_out,
            "verdict": "\n".join([verdict, *of_labels, *remarks]),
        }, tuple(remarks if ascent.converged else ())

    # What else it answers -------------------------------------------------------------------------

    def predict_component(self, X: Any) -> NDArray[np.intp]:
        """Return the most probable component of each row, class code × K + place, (m,)."""
        check_is_fitted(self)
        return self.posterior_.component(self._read_rows(X))

    # The model and its parameters -----------------------------------------------------------------

    def _model(self, d: int, shift: Array) -> Mixture:
        """Return the model of d features; the prior's mean is given for rows minus `shift`."""
        C, covariance = len(self.classes_), self._covariance(d)
        if covariance != "factor" and self.n_factors != N_FACTORS:
            raise ValueError(
                f'n_factors is of covariance="factor": with {covariance!r} covariances it must be '
                f'{N_FACTORS}, the default, got {self.n_factors!r}; use covariance="factor".'
            )
        return Mixture(
            C,
            int(self.n_components),
            covariance,
            min(int(self.n_factors), d),
            self._prior(d, shift),
            float(self.concentration),
            np.full(C, float(self.class_concentration)),
            self.inference,
        )

    def _covariance(self, d: int) -> str:
        if self.covariance != "auto":
            return self.covariance
        return "full" if d <= FULL_FEATURES else "diagonal" if self.inference == "vb" else "factor"

    def _prior(self, d: int, shift: Array) -> NormalPrior:
        for name, shapes in {
            "prior_mean": ((), (d,)),
            "covariance_scale": ((), (d,), (d, d)),
        }.items():
            value = getattr(self, name)
            if np.shape(value) not in shapes:
                words = " or ".join(map(str, shapes))
                raise ValueError(
                    f"{name} must have the shape {words} for {d} features, got {value!r} of shape "
                    f"{np.shape(value)}."
                )
        prior = dp_mixture.default_prior(
            d,
            mean=self.prior_mean,
            mean_precision=self.mean_precision,
            degrees=self.degrees,
            covariance_scale=self.covariance_scale,
        )
        check_value("degrees", prior.degrees, Number(above=d - 1))
        return prior._replace(mean=prior.mean - shift)

    def _memory(self, X: Array, labels: PartialLabels) -> Need:
        return self._need(X.shape[1], len(with_extra_classes(labels.classes, self.extra_classes)))

    def _need(self, d: int, n_classes: int) -> Need:
        covariance, J = self._covariance(d), n_classes * self.n_components
        numbers = {"full": 6 * J * d * d, "tied": 6 * d * d + 4 * J * d}
        return Need(
            8 * numbers.get(covariance, 8 * J * d * (1 + self.n_factors)),
            f"{type(self).__name__} with {J} {covariance} covariances of {d} features",
            'Use covariance="factor" or "diagonal", or fewer components.',
        )

    def _begin(self) -> None:
        super()._begin()
        if self.inference == "vb" and self.covariance in ("tied", "factor"):
            raise ValueError(
                'covariance must be "auto", "full" or "diagonal" with inference="vb", got '
                f"{self.covariance!r}."
            )
        if self.inference == "map":
            for name in ("concentration", "class_concentration"):
                if getattr(self, name) < 1:
                    raise ValueError(
                        f'{name} must be at least 1 with inference="map", whose density has no '
                        f'maximum below it ("vb" takes any positive one), got '
                        f"{getattr(self, name)!r}."
                    )
        check_folds(self.n_folds)
        if not _is_positive(np.asarray(self.covariance_scale, dtype=np.float64)):
            rule = self.parameters["covariance_scale"]
            raise ValueError(f"covariance_scale must be {rule}, got {self.covariance_scale!r}.")


def _said(held: Tempering) -> str:
    """Return in words that labels do not bear out the mixture's class probabilities."""
    if not held.n_held_out:
        return (
            "With one label a class none could be held out to check the class probabilities, which "
            "are tempered on the prior's word."
        )
    return (
        f"{held.n_held_out} held-out labels do not bear out the mixture's class probabilities: "
        f"they are tempered, on average to the power {held.power:.2g}, towards the labels' shares."
    )


def _is_positive(R: Array) -> bool:
    """Return whether numbers are positive, and a matrix positive definite."""
    if R.ndim != 2:
        return bool((R > 0).all())
    symmetric = R.shape[0] == R.shape[1] and np.isfinite(R).all() and np.allclose(R, R.T)
    return bool(symmetric and np.linalg.eigvalsh(R).min() > 0)


def _of_rows(settings: Checkpoint, rows: Rows) -> Checkpoint:
    """Return the checkpoint of these rows; sums over a cluster differ in their last digits."""
    s, sample = rows.summary, rows.sample
    told = [f"{number:.6g}" for number in (*s.mean, *s.deviation)]
    mark = fingerprint(settings.fingerprint, s.n_rows, told, sample.rows, sample.codes)
    return settings._replace(fingerprint=mark)


def _seed(rng: np.random.Generator) -> int:
    return int(rng.integers(2**62))
