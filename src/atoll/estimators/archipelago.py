"""Archipelago: a classifier, and with one class a density."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.gaussian_process.kernels import Kernel
from sklearn.utils.validation import check_is_fitted

from atoll.core.chunks import RowSource
from atoll.core.densities import Density, NormalInverseWishart
from atoll.core.labels import PartialLabels, object_array, parse_labels, with_extra_classes
from atoll.estimators import sampling
from atoll.estimators.archipelago_bases import choose_by_labels
from atoll.estimators.archipelago_chains import chain_weights, left_out, shares, watched
from atoll.estimators.archipelago_engine import (
    begin,
    begin_online,
    choose_inference,
    continue_online,
    engine_need,
    fit_by_chains,
    fit_by_engine,
    rows_of_arrays,
    rows_of_chunks,
    with_classes,
)
from atoll.estimators.belief import with_doubt
from atoll.estimators.generative import DensityEstimator, GenerativeClassifier
from atoll.estimators.novelty import LEAST_ROWS
from atoll.estimators.parameters import (
    CHAINS,
    COMMON,
    KERNEL,
    WATCHED,
    A,
    Flag,
    Listed,
    Nothing,
    OneOf,
    Rule,
    Whole,
    check_folds,
    inference,
)
from atoll.estimators.shell import Fit, Need
from atoll.estimators.validation import read_labels
from atoll.inference.chains import Record
from atoll.kernels.hyperparameters import kernel_at
from atoll.models.archipelago import (
    BASE_DENSITIES,
    SWEEPS,
    UNLABELLED,
    Setting,
    acceptance_remark,
    choose_base,
    make_posterior,
    prior_of_islands,
    sampler,
)

Array = NDArray[np.float64]

DENSE_COPIES = 40  # ten of n rows and about as many rejections, four times n² each

BASE_DENSITY = OneOf(*BASE_DENSITIES) | A(
    "an object with sample(rng, n) and log_density(X)", Density, NormalInverseWishart
)
OF_ISLANDS: dict[str, Rule] = {
    "kernel": OneOf("auto") | KERNEL,
    "base_density": BASE_DENSITY,
    "moves": OneOf(*SWEEPS),
}


class ArchipelagoClassifier(GenerativeClassifier):
    """Classes as islands of data in a sea where there is none (Adams & Ghahramani 2009).

    A generative model of rows and labels, with one function per class, g_k ~ GP(0, C(θ)). A base
    density π proposes rows; a proposal is kept as class k with probability exp g_k / (1 + Σ_j exp
    g_j), and rejected otherwise. Unlabelled rows say where the islands are, and all rows of an
    island tend to share a label. The posterior includes the rejected proposals, and Markov chains
    sample it without approximation.

    A sweep costs O((n + M)³) time and about 8·10·(n + M)² bytes for n rows and M rejections; M is
    about n(1 − Z)/Z, where Z is the share of π that the islands take. For more rows, up to
    millions, there is an engine (extra `scale`) that knows the functions through inducing values
    and finds their posterior approximately, in seconds; `fit` then takes `RowChunks`, Dask arrays
    and data frames as well.

    Parameters
    ----------
    inference : {"auto", "mcmc", "vi", "vi+hmc"}, default="auto"
        "mcmc" is exact. "vi" is the engine's variational inference; "vi+hmc" goes on from there by
        Hamiltonian Monte Carlo over the inducing values and the kernel's parameters, up to 5000
        rows. "auto" is exact up to 100 rows, and "vi" beyond them, where it can be; it says so.
    kernel : "auto", "isotropic", "ard" or a scikit-learn kernel, default="auto"
        "isotropic" has one length-scale, and "ard" one per feature; both have a prior on amplitude
        and length-scales that follows the units of X. "auto" is "ard" for 3 to 30 features, if
        there are at least as many rows, and otherwise "isotropic"; for the engine it is always one
        length-scale, with a little detail at half of it (`atoll.kernels.detailed.DetailedRBF`). A
        kernel's own free parameters are sampled around the values given; fixed ones stay. A kernel
        on rows that are not vectors (strings, graphs) needs a base density of its own, and X as a
        sequence of such objects.
    base_density : "auto", "gaussian", "blurred", "student-t", "mixture", "sampled-gaussian", \
"labels" or object, default="auto"
        π, from which islands rise. "gaussian" has the rows' mean and covariance, and so has
        "blurred", which is nearer to the rows: it is the rows themselves, drawn towards their mean
        and blurred by a Gaussian. "mixture" is a mixture of Gaussians fitted to the rows. "auto"
        takes "student-t" with three features or more, and "blurred" (the engine "gaussian") with
        fewer; chains, for which rejections have to be drawn, take a mixture instead where it is so
        much nearer to rows left out of its fit that these would be too many. "labels" fits under
        each of the Gaussian, the t, the blurred rows and the mixture, up to five times, and takes
        the one under which labels left out are most probable. "sampled-gaussian" has a conjugate
        prior (section 3.4); in many dimensions it can widen without end. An object has
        `sample(rng, n)` and `log_density(X)`.
    classes : sequence or None, default=None
        All classes, including any that have no labelled row. None: those of y, sorted.
    extra_classes : int or sequence of names, default=0
        Classes to allow beyond those that have labels.
    own_kernels : bool, default=False
        Whether each class's function has kernel parameters of its own; otherwise one kernel serves
        all.
    dependent : bool, default=False
        Whether the functions are mixtures of K independent ones, with sampled weights (Teh, Seeger
        & Jordan 2005).
    moves : "default", "paper" or "paper-whitened", default="default"
        The sweep: ours, the paper's, or the paper's with the whitened functions held while the
        kernel's parameters move.
    n_chains : int, default=4
        Number of Markov chains.
    n_warmup : int, default=150
        Sweeps dropped at the start of each chain. During the first third of them each chain holds
        labels of its own for all rows, drawn from a graph.
    n_samples : int or "auto", default="auto"
        Draws kept per chain. "auto" is 100, and then up to 750 while the chains have not mixed and
        that many could be enough.
    thin : int, default=2
        Sweeps per draw.
    n_inducing : int, default=120
        Inducing inputs of the engine.
    n_steps : int, default=120
        Steps of the engine's ascent.
    n_starts : int, default=1
        Starts of the engine; their answers are weighted by the bounds that they reach.
    n_folds : int, default=3
        Groups of labels that ascents of their own are not shown (by "vi", where classes have two
        labels or more): the worse these are predicted, the nearer class probabilities are to the
        classes' shares. Chains leave out one label at a time, by the weights of their draws, which
        takes no time. 0: neither, and class probabilities are the model's own.
    device : {"auto", "cpu", "gpu"}, default="auto"
        Where the engine runs; "auto" is a GPU where JAX has one.
    checkpoint : path of a folder or None, default=None
        Where chains, or the engine's ascent, are saved as they run; the same call goes on from
        there, to the same draws.
    unlabelled : "auto", None or a value, default="auto"
        What in y means unlabelled besides nulls; "auto": -1 among numbers, unless fewer than two
        classes would remain.
    random_state : None, int or numpy Generator, default=None
        Seed of the chains.
    n_jobs : int or None, default=None
        Number of chains that run at once, by joblib.
    verbose : bool or "auto", default="auto"
        Whether progress is shown on standard error; "auto": of a fit that takes longer than ten
        seconds, at a terminal or in a notebook, or than a minute elsewhere.

    Attributes
    ----------
    classes_ : (K,) the labels, sorted or as given, then the extra classes
    inference_ : "mcmc", "vi" or "vi+hmc", what was used
    base_density_ : π, or the prior it is sampled from
    base_density_reason_ : why it was taken
    base_density_scores_ : (4,) mean log-probabilities of labels left out under the Gaussian, the t,
        the blurred rows and the mixture, where labels chose
    chain_weights_ : (chains,) of the predictions; equal where chains agree, else by stacking
        (by chains)
    label_distributions_ : (n, K) class probabilities of the training rows; given labels are
        certain. Not set by fits from chunks or Dask, whose rows may be too many.
    transduction_ : (n,) the most probable class of each training row, as above
    posterior_ : ArchipelagoPosterior or EnginePosterior, what prediction needs
    draws_ : dict of (chain, draw) arrays: log-likelihood, log-parameters, rejections, class shares
    online_ : what `partial_fit` goes on from
    objectives_ : (t,) estimates of the engine's bound, of whatever counts at the time
    diagnostics_ : dict with R-hat, effective sample sizes, acceptance, jitter and a verdict; of the
        engine the bounds, Z, the steps that were refused, a trace, and what labels held out said
    kernel_ : the kernel at the posterior mean of its log-parameters; with `own_kernels` a list of
        them, one per class
    unlabelled_ : what marked an unlabelled row in y, besides nulls

    References
    ----------
    R. P. Adams and Z. Ghahramani, "Archipelago: nonparametric Bayesian semi-supervised learning"
    (2009). V. Rao, L. Lin and D. Dunson, "Data augmentation for models based on rejection sampling"
    (2016). Y. Yao, A. Vehtari and A. Gelman, "Stacking for non-mixing Bayesian computations"
    (2022).

    Examples
    --------
    >>> from atoll.datasets import hide_labels, make_pinwheel
    >>> from atoll.estimators import ArchipelagoClassifier
    >>> import warnings
    >>> warnings.simplefilter("ignore")  # short chains say that they are short
    >>> X, y = make_pinwheel(n_samples=18, n_classes=3, random_state=0)
    >>> y = hide_labels(y, per_class=3, random_state=0)
    >>> model = ArchipelagoClassifier(n_chains=2, n_warmup=5, n_samples=10, random_state=0)
    >>> model.fit(X, y).predict_proba(X[:2]).shape
    (2, 3)
    >>> model.predict_rejection([[0.0, 0.0], [9.0, 9.0]]).shape
    (2,)
    """

    paper = "Adams & Ghahramani 2009"
    summary = "two or more classes and unlabelled rows, generative"
    holds_labels_out = True
    patience = sampling.OF_ISLANDS
    keeps_rows = True
    parameters = (
        OF_ISLANDS
        | {
            "base_density": OneOf("labels") | BASE_DENSITY,
            "inference": inference("auto", "mcmc", "vi", "vi+hmc"),
            "n_inducing": Whole(2),
            "n_steps": Whole(1),
            "n_starts": Whole(1),
            "n_folds": Whole(0),
            "device": OneOf("auto", "cpu", "gpu"),
            "classes": Nothing() | Listed("a sequence of classes"),
            "extra_classes": Whole(0) | Listed("a sequence of names"),
            "own_kernels": Flag(),
            "dependent": Flag(),
        }
        | CHAINS
        | COMMON
        | WATCHED
    )

    def __init__(
        self,
        *,
        inference: str = "auto",
        kernel: str | Kernel = "auto",
        base_density: str | Density | NormalInverseWishart = "auto",
        classes: Sequence[Any] | None = None,
        extra_classes: int | Sequence[Any] = 0,
        own_kernels: bool = False,
        dependent: bool = False,
        moves: str = "default",
        n_chains: int = 4,
        n_warmup: int = 150,
        n_samples: int | str = "auto",
        thin: int = 2,
        n_inducing: int = 120,
        n_steps: int = 120,
        n_starts: int = 1,
        n_folds: int = 3,
        device: str = "auto",
        checkpoint: str | None = None,
        unlabelled: Any = "auto",
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: bool | str = "auto",
    ):
        self.inference = inference
        self.kernel = kernel
        self.base_density = base_density
        self.classes = classes
        self.extra_classes = extra_classes
        self.own_kernels = own_kernels
        self.dependent = dependent
        self.moves = moves
        self.n_chains = n_chains
        self.n_warmup = n_warmup
        self.n_samples = n_samples
        self.thin = thin
        self.n_inducing = n_inducing
        self.n_steps = n_steps
        self.n_starts = n_starts
        self.n_folds = n_folds
        self.device = device
        self.checkpoint = checkpoint
        self.unlabelled = unlabelled
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def predict_rejection(self, X: Any) -> Array:
        """Return the probability that a proposal at x is rejected; X (m, d) -> (m,)."""
        check_is_fitted(self)
        return self.posterior_.rejection(self._read_rows(X))

    # Fitting --------------------------------------------------------------------------------------

    def _read_rows(self, X: Any, *, reset: bool = False) -> Any:
        is_plain = takes_vectors(self.kernel)
        return super()._read_rows(X, reset=reset) if is_plain else object_array(list(X))

    def _class_order(self, y: Any) -> Sequence[Any] | None:
        if self.classes is None and np.size(self.extra_classes) == 1 and self.extra_classes == 0:
            return None
        named: Any = self.classes
        if named is None:
            named = parse_labels(y, unlabelled=self.unlabelled).classes
        return with_extra_classes(named, self.extra_classes).tolist()

    def _check_labels(self, labels: PartialLabels) -> None:
        K, n = len(labels.classes), len(labels.codes)
        check_folds(self.n_folds)
        if n < K:
            raise ValueError(
                f"{K} classes are more than the {n} rows; lower extra_classes or name fewer."
            )
        if self.checkpoint is not None and not takes_vectors(self.kernel):
            raise ValueError("checkpoint= needs rows of numbers; leave it out for other rows.")

    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> Self:
        """Take in some more rows, by the engine.

        The first call climbs from a graph of its own rows, and fixes base density, inducing inputs
        and the prior of the kernel; give it some hundred rows at least, and a label of every class.
        Later calls go on from there with a random sample of all rows so far. Rows have no
        `transduction_`.

        Parameters
        ----------
        X : (b, d) rows
        y : (b,) labels, unlabelled rows marked as in `fit`
        classes : all classes, where they are not to be in the order of sorting

        Returns
        -------
        self
        """
        online = getattr(self, "online_", None)
        if online is None:
            self._begin()
            rows = self._read_rows(X, reset=True)
            order = self._class_order(y) if classes is None else classes
            labels = read_labels(y, len(rows), self.unlabelled, order)
            self._keep_labels(labels)
            self._keep(begin_online(self, rows, labels))
            return self
        rows = self._read_rows(X)
        labels = read_labels(y, len(rows), self.unlabelled_, self.classes_.tolist(), at_least=0)
        self._keep(continue_online(self, online, rows, labels))
        return self

    def _is_by_engine(self, n: int, y: Any) -> bool:
        """Return whether a fit of n rows with labels y, None where unknown, is approximate."""
        return choose_inference(self, n, parse_labels(y, unlabelled=None)).method != "mcmc"

    def _memory(self, X: Any, labels: PartialLabels) -> Need:
        n, K = len(X), len(labels.classes)
        if choose_inference(self, n, labels).method == "mcmc":
            return sampling.dense_need(self, n, K, DENSE_COPIES)
        return engine_need(n, X.shape[1], K)

    def _fit(self, X: Any, labels: PartialLabels) -> Fit:
        if isinstance(self.base_density, str) and self.base_density == "labels":
            return self._fit_best_base(X, labels)
        choice = choose_inference(self, len(X), labels)
        if choice.method == "mcmc":
            return self._fit_chains(X, labels, choice.remark)
        start = begin(self, X, labels)
        if choice.method == "vi+hmc":
            return fit_by_chains(self, X, labels, start, choice)
        rows = rows_of_arrays(start, X, labels)
        fit = fit_by_engine(self, rows, len(labels.classes), start, choice)
        return with_classes(fit, X[~labels.is_labelled], self.device)

    def _fit_best_base(self, X: Any, labels: PartialLabels) -> Fit:
        """Fit under the base density that labels left out choose."""
        name, reason, scores = choose_by_labels(self, X, labels)
        chosen = clone(self).set_params(base_density=name)
        chosen.classes_ = self.classes_
        fit = chosen._fit(X, labels)
        more = {"base_density_reason_": f"{name}: {reason}", "base_density_scores_": scores}
        return fit._replace(attributes=fit.attributes | more)

    def _fit_source(self, source: RowSource) -> Self:
        """Fit rows in chunks, which stay where they are; they have no transduction."""
        self._begin()
        choice, start = choose_inference(self, 0, None), begin(self)
        rows, labels = rows_of_chunks(self, start, source)
        self._keep_columns(rows.summary)
        self._keep_labels(labels)
        self._keep(fit_by_engine(self, rows, len(labels.classes), start, choice))
        return self

    def _fit_chains(self, X: Any, labels: PartialLabels, remark: str) -> Fit:
        prior = prior_of_islands(self.kernel, X)
        base, reason = choose_base(self.base_density, X, usual="by features")
        codes = np.where(labels.is_labelled, labels.codes, UNLABELLED)
        setting = Setting(
            X, codes, len(labels.classes), prior, base, bool(self.own_kernels), bool(self.dependent)
        )
        chain = sampler(setting, sweep=SWEEPS[self.moves], n_clamped=int(self.n_warmup) // 3)
        names, unknown = self._parameter_names(prior.names), ~labels.is_labelled
        if self.inference == "auto":
            sampling.say_before(self, chain, remark)

        def traces_of(draws: Record) -> Record:
            return sampling.named_scalars(draws, names) | shares(draws, unknown)

        result, found = sampling.sample_until_mixed(self, chain, (X, labels), traces_of, watched)
        draws, traces = result.draws, traces_of(result.draws)
        weights = chain_weights(draws, found, labels)
        found["verdict"] += acceptance_remark(draws["n_rejections"], len(X))
        found["verdict"] += f"\n{remark}" if remark else ""
        by_row = np.einsum(
            "c,cdnk->nk", weights / found["n_draws"], draws["row_probabilities"][:, :, unknown]
        )
        posterior = make_posterior(setting, sampling.pool(draws)).weighted(weights)
        known = {}
        if len(X) >= LEAST_ROWS:
            known["reference_log_densities_"] = np.sort(posterior.log_density(X))
        n_kernels = len(labels.classes) if self.own_kernels else 1
        thetas = sampling.mean_log_parameters(draws).reshape(n_kernels, -1)
        kernels = [kernel_at(prior, theta) for theta in thetas]
        fit = Fit(
            posterior,
            found,
            transduction=by_row,
            traces=traces,
            attributes={
                "inference_": "mcmc",
                "base_density_": base,
                "base_density_reason_": reason,
                "chain_weights_": weights,
                "kernel_": kernels if self.own_kernels else kernels[0],
                **known,
            },
        )
        return with_doubt(fit, left_out(self.n_folds, draws, weights, labels))

    def _parameter_names(self, names: tuple[str, ...]) -> tuple[str, ...]:
        if not self.own_kernels:
            return names
        K = len(self.classes_)
        return tuple(f"{name}_of_class_{k}" for k in range(K) for name in names)


class ArchipelagoDensity(DensityEstimator):
    """A Gaussian process density: Archipelago with one class and no labels.

    The density is π(x) σ(g(x)) / Z with g ~ GP(0, C(θ)), sampled without approximation (Adams,
    Murray & MacKay 2009). A sweep costs O((n + M)³) time and about 8·10·(n + M)² bytes for n rows
    and M rejections.

    Parameters
    ----------
    kernel : "auto", "isotropic", "ard" or a scikit-learn kernel, default="auto"
        "isotropic" has one length-scale, and "ard" one per feature; both have a prior on amplitude
        and length-scales that follows the units of X. "auto" is "ard" for 3 to 30 features, if
        there are at least as many rows, and otherwise "isotropic". A kernel's own free parameters
        are sampled around the values given; fixed ones stay.
    base_density : "auto", "gaussian", "blurred", "student-t", "mixture", "sampled-gaussian" or \
object, default="auto"
        π. "gaussian" has the rows' mean and covariance. "auto" takes it unless a mixture is so much
        nearer to rows left out of its fit that the Gaussian would need too many rejections. An
        object has `sample(rng, n)` and `log_density(X)`.
    moves : "default", "paper" or "paper-whitened", default="default"
        The sweep: ours, the paper's, or the paper's with the whitened functions held while the
        kernel's parameters move.
    n_chains : int, default=4
        Number of Markov chains.
    n_warmup : int, default=300
        Sweeps dropped at the start of each chain.
    n_samples : int or "auto", default="auto"
        Draws kept per chain. "auto" is 600, and then up to 2400 while the chains have not mixed
        and that many could be enough.
    thin : int, default=2
        Sweeps per draw.
    random_state : None, int or numpy Generator, default=None
        Seed of the chains.
    n_jobs : int or None, default=None
        Number of chains that run at once, by joblib.
    verbose : bool or "auto", default="auto"
        Whether progress is shown on standard error; "auto": of a fit that takes longer than ten
        seconds, at a terminal or in a notebook, or than a minute elsewhere.

    Attributes
    ----------
    base_density_ : π, or the prior it is sampled from
    base_density_reason_ : why it was taken
    posterior_ : ArchipelagoPosterior, what prediction needs
    draws_ : dict of (chain, draw) arrays: log-likelihood, log-parameters and rejections
    diagnostics_ : dict with R-hat, effective sample sizes, acceptance, jitter and a verdict
    kernel_ : the kernel at the posterior mean of its log-parameters

    References
    ----------
    R. P. Adams, I. Murray and D. J. C. MacKay, "The Gaussian process density sampler" (2009).

    Examples
    --------
    >>> import numpy as np
    >>> from atoll.estimators import ArchipelagoDensity
    >>> import warnings
    >>> warnings.simplefilter("ignore")  # short chains say that they are short
    >>> X = np.random.default_rng(0).normal(size=(30, 1))
    >>> model = ArchipelagoDensity(n_chains=2, n_warmup=20, n_samples=20, random_state=0).fit(X)
    >>> bool(model.score_samples([[0.0]])[0] > model.score_samples([[5.0]])[0])
    True
    """

    paper = "Adams, Murray & MacKay 2009; Adams & Ghahramani 2009"
    summary = "a density of rows without labels"
    patience = sampling.drawing_on(600, longer=4)
    keeps_rows = True
    parameters = OF_ISLANDS | {
        name: rule
        for name, rule in (CHAINS | COMMON | WATCHED).items()
        if name not in ("checkpoint", "unlabelled")
    }

    def __init__(
        self,
        *,
        kernel: str | Kernel = "auto",
        base_density: str | Density | NormalInverseWishart = "auto",
        moves: str = "default",
        n_chains: int = 4,
        n_warmup: int = 300,
        n_samples: int | str = "auto",
        thin: int = 2,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: bool | str = "auto",
    ):
        self.kernel = kernel
        self.base_density = base_density
        self.moves = moves
        self.n_chains = n_chains
        self.n_warmup = n_warmup
        self.n_samples = n_samples
        self.thin = thin
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def predict_rejection(self, X: Any) -> Array:
        """Return the probability that a proposal at x is rejected; X (m, d) -> (m,)."""
        check_is_fitted(self)
        return self.posterior_.rejection(self._read_rows(X))

    def _read_rows(self, X: Any, *, reset: bool = False) -> Any:
        is_plain = takes_vectors(self.kernel)
        return super()._read_rows(X, reset=reset) if is_plain else object_array(list(X))

    def _memory(self, X: Any) -> Need:
        return sampling.dense_need(self, len(X), 1, DENSE_COPIES)

    def _fit(self, X: Any) -> Fit:
        prior = prior_of_islands(self.kernel, X)
        base, reason = choose_base(self.base_density, X)
        setting = Setting(X, np.full(len(X), UNLABELLED), 1, prior, base)
        chain = sampler(setting, sweep=SWEEPS[self.moves])

        def traces_of(draws: Record) -> Record:
            return sampling.named_scalars(draws, prior.names)

        result, found = sampling.sample_until_mixed(self, chain, (X, None), traces_of)
        found["verdict"] += acceptance_remark(result.draws["n_rejections"], len(X))
        return Fit(
            make_posterior(setting, sampling.pool(result.draws)),
            found,
            traces=traces_of(result.draws),
            attributes={
                "base_density_": base,
                "base_density_reason_": reason,
                "kernel_": kernel_at(prior, sampling.mean_log_parameters(result.draws)),
            },
        )


# Rows of any kind ---------------------------------------------------------------------------------


def takes_vectors(kernel: str | Kernel) -> bool:
    """Return whether the kernel is one on rows of numbers."""
    return not isinstance(kernel, Kernel) or bool(kernel.requires_vector_input)
