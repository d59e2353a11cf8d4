"""Archipelago: a classifier, and with one class a density."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from numbers import Integral
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, DensityMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import Kernel
from sklearn.utils.validation import check_is_fitted

from atoll.core.densities import (
    Density,
    NormalInverseWishart,
    WithConstants,
    fit_gaussian,
    fit_student_t,
    niw_prior,
)
from atoll.core.labels import PartialLabels, parse_labels, require_classes
from atoll.core.memory import check_memory
from atoll.diagnostics import stacking_weights, summarise, verdict
from atoll.estimators.sampled import SampledClassifier, named_scalars, pool
from atoll.estimators.validation import generator, read_rows, validate_rows
from atoll.inference.chains import Record, Sampler, check_counts, run_chains
from atoll.kernels.hyperparameters import KernelPrior, kernel_at, kernel_prior
from atoll.models import archipelago, archipelago_paper
from atoll.models.archipelago import UNLABELLED, ArchipelagoPosterior, Setting
from atoll.models.dp_mixture import fit_density

Array = NDArray[np.float64]
BaseDensity = Density | NormalInverseWishart

BASE_DENSITIES = ("auto", "gaussian", "sampled-gaussian", "student-t", "mixture")
SWEEPS: dict[str, Any] = {
    "default": archipelago.sweep,
    "paper": archipelago_paper.sweep,
    "paper-whitened": archipelago_paper.whitened_sweep,
}

# A mixture so much nearer to rows left out, in nats a row, replaces the Gaussian: rejections would
# outnumber them e² times over.
MIXTURE_GAIN = 2.0
ROWS_OF_A_MIXTURE = 5  # a column
MOST_COMPONENTS = 10
COMPONENT_WIDTHS = (0.01, 0.1, 1.0, 3.0)  # that rows left out choose from: scales of the prior
N_FOLDS = 5
LONGER, LARGER = np.log(4.0), 2.0  # what "ard" adds to log length-scales and log variance
WATCHED_ROWS = 40
CHAINS_DISAGREE = 1.1  # R-hat of a row's class probability
LOW_ACCEPTANCE = 0.05


class ArchipelagoClassifier(SampledClassifier):
    """Classes as islands of data in a sea where there is none (Adams & Ghahramani 2009).

    A generative model of rows and labels: one function a class, g_k ~ GP(0, C(θ)). A base density π
    proposes rows; a proposal is kept as class k with probability exp g_k / (1 + Σ_j exp g_j), and
    rejected otherwise. Unlabelled rows say where the islands are, and islands share a label. The
    posterior includes the rejected proposals, and is sampled without approximation.

    A sweep costs O((n + M)³) time and about 8·10·(n + M)² bytes for n rows and M rejections; M is
    about n(1 − Z)/Z, where Z is the share of π that the islands take.

    Parameters
    ----------
    kernel : "isotropic", "ard" or a scikit-learn kernel
        As in SoftmaxGPClassifier. A kernel on rows that are not vectors (strings, graphs) needs a
        base density of its own, and X as a sequence of such objects.
    base_density : "auto", "gaussian", "sampled-gaussian", "student-t", "mixture" or an object
        π. "gaussian" has the rows' mean and covariance; "auto" takes it unless a mixture is so much
        nearer, to rows left out of its fit, that rejections would be too many. "sampled-gaussian"
        has a conjugate prior (section 3.4); in many dimensions it can widen without end. An
        object has `sample(rng, n)` and `log_density(X)`.
    classes : sequence, optional
        All classes, also such as have no labelled row.
    extra_classes : int
        How many classes to allow beyond those that have labels.
    own_kernels : bool
        Log-parameters for each class's function; by default one kernel serves all.
    dependent : bool
        Functions that mix K independent ones, with weights sampled (Teh, Seeger & Jordan 2005).
    moves : "default", "paper" or "paper-whitened"
        The sweep: ours, the paper's, or the paper's with the whitened functions held while the
        kernel's parameters move.
    n_chains, n_warmup, n_samples, thin : int
        Chains; sweeps dropped, then draws kept in each, one every `thin` sweeps. In the first
        third of the warm-up each chain holds labels of its own for all rows, drawn from a graph.
    checkpoint, unlabelled, random_state, n_jobs, verbose
        As in SoftmaxGPClassifier.

    Attributes
    ----------
    classes_ : (K,) the labels, sorted or as given; then those of extra classes
    base_density_ : π, or the prior it is sampled from
    base_density_reason_ : why it was taken
    chain_weights_ : (chains,) of the predictions; equal where chains agree, else by stacking
    label_distributions_ : (n, K) class probabilities of the training rows; given labels are certain
    transduction_ : (n,) the most probable class of each training row
    posterior_ : ArchipelagoPosterior, what prediction needs
    draws_ : dict of (chain, draw) arrays: log-likelihood, log-parameters, rejections, class shares
    diagnostics_ : dict with R-hat, effective sample sizes, acceptance, jitter and a verdict
    kernel_ : the kernel at the posterior mean of its log-parameters, or a list, one a class

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
    >>> X, y = make_pinwheel(n_samples=30, n_classes=3, random_state=0)
    >>> y = hide_labels(y, per_class=3, random_state=0)
    >>> model = ArchipelagoClassifier(n_chains=2, n_warmup=30, n_samples=50, random_state=0)
    >>> model.fit(X, y).predict_proba(X[:2]).shape
    (2, 3)
    >>> model.novelty([[0.0, 0.0], [9.0, 9.0]]).shape
    (2,)
    """

    paper = "Adams & Ghahramani 2009"
    summary = "two or more classes and unlabelled rows, generative"
    dense_copies = 40  # ten of n rows and about as many rejections, four times n² each

    def __init__(
        self,
        *,
        kernel: str | Kernel = "isotropic",
        base_density: str | BaseDensity = "auto",
        classes: Sequence[Any] | None = None,
        extra_classes: int = 0,
        own_kernels: bool = False,
        dependent: bool = False,
        moves: str = "default",
        n_chains: int = 4,
        n_warmup: int = 300,
        n_samples: int = 600,
        thin: int = 2,
        checkpoint: str | None = None,
        unlabelled: Any = "auto",
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: bool = False,
    ):
        super().__init__(
            kernel=kernel,
            n_chains=n_chains,
            n_warmup=n_warmup,
            n_samples=n_samples,
            thin=thin,
            checkpoint=checkpoint,
            unlabelled=unlabelled,
            random_state=random_state,
            n_jobs=n_jobs,
            verbose=verbose,
        )
        self.base_density = base_density
        self.classes = classes
        self.extra_classes = extra_classes
        self.own_kernels = own_kernels
        self.dependent = dependent
        self.moves = moves

    # Beyond classes -------------------------------------------------------------------------------

    def novelty(self, X: Any) -> Array:
        """Probability that a proposal at x is rejected: how far from every island; (m,)."""
        check_is_fitted(self)
        return archipelago.predict(self.posterior_, self._read_rows(X)).novelty

    def score_samples(self, X: Any) -> Array:
        """Log-density of each row, equation 2 averaged over the posterior; (m,)."""
        check_is_fitted(self)
        rows = self._read_rows(X)
        return archipelago.predict(self.posterior_, rows, density=True).log_density

    def sample(
        self, n_samples: int = 1, *, label: Any = None, random_state: Any = None
    ) -> tuple[Array, NDArray[Any]]:
        """Fantasies: rows and labels from the predictive distribution, of one class if asked for.

        Parameters
        ----------
        n_samples : int
        label : one of `classes_`, or None for all
        random_state : None, int or numpy Generator

        Returns
        -------
        X (n_samples, d), y (n_samples,)
        """
        check_is_fitted(self)
        check_counts(n_samples=n_samples)
        code = None
        if label is not None:
            known = self.classes_.tolist()
            if label not in known:
                raise ValueError(f"label={label!r} is none of the classes {known!r}.")
            code = known.index(label)
        rows, codes = archipelago.sample_rows(
            generator(random_state), self.posterior_, int(n_samples), code
        )
        return rows, self.classes_[codes]

    # What the model says of itself ----------------------------------------------------------------

    def _kernel_prior(self, X: Any) -> KernelPrior:
        return prior_of_islands(self.kernel, X)

    def _class_order(self, y: Any) -> Sequence[Any] | None:
        extra = self.extra_classes
        if isinstance(extra, bool) or not isinstance(extra, Integral) or extra < 0:
            raise ValueError(f"extra_classes={extra!r} must be a whole number, at least 0.")
        if self.classes is None and extra == 0:
            return None
        named = self.classes
        if named is None:
            named = parse_labels(y, unlabelled=self.unlabelled).classes.tolist()
        named = list(named)
        if named and all(isinstance(c, Integral) and not isinstance(c, bool) for c in named):
            return named + [max(named) + 1 + j for j in range(extra)]
        return named + [f"extra {j + 1}" for j in range(extra)]

    def _read_training(self, X: Any, y: Any) -> tuple[Any, PartialLabels]:
        if takes_vectors(self.kernel):
            return super()._read_training(X, y)
        rows = object_rows(X)
        labels = parse_labels(y, unlabelled=self.unlabelled, classes=self._class_order(y))
        if len(labels.codes) != len(rows):
            raise ValueError(f"y has {len(labels.codes)} labels and X has {len(rows)} rows.")
        require_classes(labels)
        if self.checkpoint is not None:
            raise ValueError("checkpoint= needs rows of numbers; leave it out for other rows.")
        return rows, labels

    def _read_rows(self, X: Any) -> Any:
        return validate_rows(self, X) if takes_vectors(self.kernel) else object_rows(X)

    def _check_labels(self, labels: PartialLabels) -> None:
        if self.moves not in SWEEPS:
            raise ValueError(f"moves={self.moves!r} is none of {', '.join(map(repr, SWEEPS))}.")
        K, n = len(labels.classes), len(labels.codes)
        if n < K:
            raise ValueError(
                f"{K} classes are more than the {n} rows; lower extra_classes or name fewer."
            )

    def _rows_used(self, labels: PartialLabels) -> NDArray[np.bool_]:
        return np.ones(len(labels.codes), dtype=bool)

    def _sampler(self, X: Any, labels: PartialLabels, prior: KernelPrior) -> Sampler:
        self.base_density_, self.base_density_reason_ = choose_base(self.base_density, X)
        self._is_labelled = labels.is_labelled
        codes = np.where(labels.is_labelled, labels.codes, UNLABELLED)
        setting = Setting(
            X, codes, len(labels.classes), prior, self.base_density_,
            bool(self.own_kernels), bool(self.dependent),
        )  # fmt: skip
        return archipelago.sampler(
            setting, sweep=SWEEPS[self.moves], n_clamped=int(self.n_warmup) // 3
        )

    def _parameter_names(self, prior: KernelPrior) -> tuple[str, ...]:
        if not self.own_kernels:
            return prior.names
        return tuple(
            f"{name}_of_class_{k + 1}" for k in range(len(self.classes_)) for name in prior.names
        )

    def _fitted_kernel(self, prior: KernelPrior, log_parameters: Array) -> Any:
        if not self.own_kernels:
            return kernel_at(prior, log_parameters)
        return [kernel_at(prior, theta) for theta in log_parameters.reshape(-1, len(prior.mean))]

    def _extra_quantities(self, labels: PartialLabels, draws: Record) -> Record:
        unknown = ~labels.is_labelled
        if not unknown.any():
            return {}
        shares = draws["row_probabilities"][:, :, unknown].mean(axis=2)
        return {f"share_of_class_{k + 1}": shares[:, :, k] for k in range(shares.shape[2])}

    def _watched(self, draws: Record) -> Record:
        """Class probabilities of single rows: where chains differ over an island, they show it."""
        probabilities = draws["row_probabilities"]
        rows = np.unique(np.linspace(0, probabilities.shape[2] - 1, WATCHED_ROWS).astype(int))
        return {"row_probabilities": probabilities[:, :, rows, 1:]}

    def _infer(self, X: Any, labels: PartialLabels, prior: KernelPrior, digest: str) -> Record:
        draws = super()._infer(X, labels, prior, digest)
        found, n_chains = self.diagnostics_, self.diagnostics_["n_chains"]
        self.chain_weights_ = np.full(n_chains, 1.0 / n_chains)
        if n_chains > 1 and not found["r_hat"]["row_probabilities"] < CHAINS_DISAGREE:
            known = np.flatnonzero(labels.is_labelled)
            p = draws["row_probabilities"][:, :, known, labels.codes[known]]
            self.chain_weights_ = stacking_weights(np.log(np.maximum(p, 1e-300)))
            shown = ", ".join(f"{weight:.2f}" for weight in self.chain_weights_)
            found["verdict"] += (
                " Chains give some rows different labels: predictions weight the chains by how "
                f"well each predicts labels left out ({shown})."
            )
        self.posterior_ = self.posterior_.weighted(self.chain_weights_)
        found["verdict"] += acceptance_remark(draws, len(X))
        return draws

    def _make_posterior(self, X: Any, prior: KernelPrior, draws: Record) -> ArchipelagoPosterior:
        return make_posterior(X, prior, self.base_density_, draws, len(self.classes_))

    # Prediction -----------------------------------------------------------------------------------

    def _unlabelled_distributions(self, X: Any, draws: Record) -> Array:
        weights = self.chain_weights_ / draws["row_probabilities"].shape[1]
        by_row = np.einsum("c,cdnk->nk", weights, draws["row_probabilities"])
        return by_row[~self._is_labelled]

    def _log_proba(self, X: Any) -> Array:
        return archipelago.predict(self.posterior_, X).log_proba

    def _latent(self, X: Any) -> tuple[Array, Array]:
        return archipelago.predict_latent(self.posterior_, X)


class ArchipelagoDensity(DensityMixin, BaseEstimator):
    """A Gaussian process density: Archipelago with one class and no labels.

    The density is π(x) σ(g(x)) / Z with g ~ GP(0, C(θ)), sampled without approximation (Adams,
    Murray & MacKay 2009). Time and memory are as in ArchipelagoClassifier.

    Parameters
    ----------
    kernel, base_density, moves, n_chains, n_warmup, n_samples, thin, random_state, n_jobs, verbose
        As in ArchipelagoClassifier.

    Attributes
    ----------
    base_density_, base_density_reason_, posterior_, draws_, diagnostics_, kernel_
        As in ArchipelagoClassifier.

    Examples
    --------
    >>> import numpy as np
    >>> from atoll.estimators import ArchipelagoDensity
    >>> import warnings
    >>> warnings.simplefilter("ignore")  # short chains say that they are short
    >>> X = np.random.default_rng(0).normal(size=(30, 1))
    >>> model = ArchipelagoDensity(n_chains=2, n_warmup=50, n_samples=50, random_state=0).fit(X)
    >>> bool(model.score_samples([[0.0]])[0] > model.score_samples([[5.0]])[0])
    True
    """

    def __init__(
        self,
        *,
        kernel: str | Kernel = "isotropic",
        base_density: str | BaseDensity = "auto",
        moves: str = "default",
        n_chains: int = 4,
        n_warmup: int = 300,
        n_samples: int = 600,
        thin: int = 2,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: bool = False,
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

    def fit(self, X: Any, y: Any = None) -> Self:
        """Sample the posterior given rows, (n, d); labels are not for this model."""
        if y is not None:
            raise ValueError(
                "ArchipelagoDensity has one class and takes no labels; leave y out, or use "
                "ArchipelagoClassifier."
            )
        if self.moves not in SWEEPS:
            raise ValueError(f"moves={self.moves!r} is none of {', '.join(map(repr, SWEEPS))}.")
        rows = self._read(X, reset=True)
        prior = prior_of_islands(self.kernel, rows)
        self.base_density_, self.base_density_reason_ = choose_base(self.base_density, rows)
        check_memory(
            8 * 50 * len(rows) ** 2,
            what=f"ArchipelagoDensity with {len(rows)} rows in its kernel matrix",
            instead="Fit on fewer rows.",
        )
        setting = Setting(rows, np.full(len(rows), UNLABELLED), 1, prior, self.base_density_)
        result = run_chains(
            archipelago.sampler(setting, sweep=SWEEPS[self.moves]),
            n_chains=self.n_chains,
            n_warmup=self.n_warmup,
            n_samples=self.n_samples,
            thin=self.thin,
            rng=generator(self.random_state),
            n_jobs=self.n_jobs,
            progress=bool(self.verbose),
        )
        self.posterior_ = make_posterior(rows, prior, self.base_density_, pool(result.draws), 1)
        self.draws_ = named_scalars(result.draws, prior.names)
        self.kernel_ = kernel_at(prior, result.draws["log_parameters"].mean(axis=(0, 1)))
        summary = summarise(self.draws_)
        mixed, sentence = verdict(summary, n_chains=self.n_chains)
        if not mixed:
            warnings.warn(f"ArchipelagoDensity: {sentence}", ConvergenceWarning, stacklevel=2)
        sentence += acceptance_remark(result.draws, len(rows))
        self.diagnostics_ = {
            **summary, "mixed": mixed, "verdict": sentence, "interrupted": result.interrupted,
            "jitter": float(result.draws["jitter"].max()),
        }  # fmt: skip
        return self

    def score_samples(self, X: Any) -> Array:
        """Log-density of each row; (m,)."""
        check_is_fitted(self)
        rows = self._read(X, reset=False)
        return archipelago.predict(self.posterior_, rows, density=True).log_density

    def score(self, X: Any, y: Any = None) -> float:
        """Total log-density of the rows."""
        return float(self.score_samples(X).sum())

    def novelty(self, X: Any) -> Array:
        """Probability that a proposal at x is rejected; (m,)."""
        check_is_fitted(self)
        return archipelago.predict(self.posterior_, self._read(X, reset=False)).novelty

    def sample(self, n_samples: int = 1, random_state: Any = None) -> Array:
        """Rows from the predictive density, (n_samples, d)."""
        check_is_fitted(self)
        check_counts(n_samples=n_samples)
        rows, _ = archipelago.sample_rows(generator(random_state), self.posterior_, int(n_samples))
        return rows

    def _read(self, X: Any, *, reset: bool) -> Any:
        return read_rows(self, X, reset=reset) if takes_vectors(self.kernel) else object_rows(X)


# What both share ----------------------------------------------------------------------------------


def prior_of_islands(kernel: str | Kernel, X: Any) -> KernelPrior:
    """`kernel_prior`, and for "ard" longer and larger functions.

    A density has to hold together in all features at once, and from sea to land is farther where
    there is more room.
    """
    prior = kernel_prior(kernel, X)
    if not (isinstance(kernel, str) and kernel == "ard"):
        return prior
    shift = np.full(len(prior.mean), LONGER)
    shift[0] = LARGER
    return prior._replace(mean=prior.mean + shift)


def choose_base(base_density: str | BaseDensity, X: Any) -> tuple[BaseDensity, str]:
    """The base density that a parameter asks for, and why; refuses one that misses a row."""
    if isinstance(base_density, str):
        if base_density not in BASE_DENSITIES:
            raise ValueError(
                f"base_density={base_density!r} is none of "
                f"{', '.join(map(repr, BASE_DENSITIES))}, nor an object with sample and "
                "log_density."
            )
        if X.ndim != 2:
            raise ValueError(
                f"base_density={base_density!r} is for rows of numbers; give an object with "
                "sample(rng, n) and log_density(X) that proposes rows such as these."
            )
        return _named_base(base_density, X)
    if isinstance(base_density, NormalInverseWishart):
        return base_density, "as given, sampled"
    if not isinstance(base_density, Density):
        raise ValueError(
            f"base_density={base_density!r} has no sample(rng, n) and log_density(X); give both."
        )
    reached = np.asarray(base_density.log_density(X))
    missed = np.flatnonzero(~(reached > -np.inf))
    if len(missed) > 0:
        raise ValueError(
            f"base_density has log-density {reached[missed[0]]} at row {missed[0]}: it can never "
            "propose that row. Give one that reaches every row."
        )
    return base_density, "as given"


def _named_base(name: str, X: Array) -> tuple[BaseDensity, str]:
    varies = np.ptp(X, axis=0) > 0
    if name == "sampled-gaussian":
        return niw_prior(X), "as asked for"
    if not varies.all() and varies.any():  # π has nothing to say of the others
        density, reason = _named_base(name, X[:, varies])
        return WithConstants(density, varies, X[0]), reason
    if name == "student-t":
        return fit_student_t(X), "as asked for"
    if name == "gaussian":
        return fit_gaussian(X), "as asked for"
    if name == "mixture":
        return _mixture(X, _best_width(X)[0]), "as asked for"
    gaussian = fit_gaussian(X)
    if len(X) < ROWS_OF_A_MIXTURE * X.shape[1]:
        return gaussian, "one Gaussian: rows are too few for more"
    mixtures = {width: _mixture(X, width) for width in COMPONENT_WIDTHS}
    near = max(_gain(mixture, gaussian, X).mean() for mixture in mixtures.values())
    if near > MIXTURE_GAIN:  # on its own rows a mixture is always near
        width, gain = _best_width(X)
        if gain > MIXTURE_GAIN:
            return mixtures[width], (
                f"a mixture of Gaussians: it is {gain:.1f} nats a row nearer to rows left out than "
                "one, which would need too many rejections"
            )
    return gaussian, "one Gaussian: near enough to the data"


def _mixture(X: Array, width: float) -> Density:
    return fit_density(X, n_components=MOST_COMPONENTS, covariance_scale=width, random_state=0)


def _best_width(X: Array) -> tuple[float, float]:
    """Of a mixture's components, and how much nearer it is to rows left out than a Gaussian."""
    fold = np.random.default_rng(0).permutation(len(X)) % N_FOLDS
    splits = [
        (X[fold != j], fit_gaussian(X[fold != j]), X[fold == j])
        for j in range(min(N_FOLDS, len(X)))
    ]
    gains = {
        width: np.concatenate(
            [_gain(_mixture(rest, width), gaussian, left) for rest, gaussian, left in splits]
        ).mean()
        for width in COMPONENT_WIDTHS
    }
    best = max(gains, key=gains.__getitem__)
    return best, float(gains[best])


def _gain(density: Density, other: Density, X: Array) -> Array:
    """Log-density above another's, row by row."""
    return density.log_density(X) - other.log_density(X)


def make_posterior(
    X: Any, prior: KernelPrior, base: BaseDensity, draws: Record, n_classes: int
) -> ArchipelagoPosterior:
    """Of pooled draws, (S, ...)."""
    n_draws = len(draws["n_rejections"])
    return ArchipelagoPosterior(
        inputs=X,
        prior=prior,
        base=base,
        n_classes=n_classes,
        chains=draws["chain"],
        n_rejections=draws["n_rejections"],
        rejections=draws["rejections"],
        whitened=draws["whitened"],
        log_parameters=draws["log_parameters"],
        mixing=draws["mixing"],
        base_means=draws["base_mean"],
        base_lowers=draws["base_lower"],
        log_weights=np.full(n_draws, -np.log(n_draws)),
    )


def acceptance_remark(draws: Record, n: int) -> str:
    """A sentence where the base density proposes much that is rejected, else nothing."""
    rate = n / (n + float(np.mean(draws["n_rejections"])))
    if rate > LOW_ACCEPTANCE:
        return ""
    return (
        f" The base density is far from the data: one proposal in {1 / rate:.0f} is kept, and "
        'sweeps are slow. Try base_density="mixture".'
    )


def takes_vectors(kernel: str | Kernel) -> bool:
    """Whether the kernel is one on rows of numbers."""
    return not isinstance(kernel, Kernel) or bool(kernel.requires_vector_input)


def object_rows(X: Any) -> NDArray[Any]:
    """Rows that are not vectors, as an array of objects, (n,)."""
    rows = np.empty(len(X), dtype=object)
    rows[:] = list(X)
    return rows
