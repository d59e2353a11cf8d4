"""What every classifier that samples its posterior shares: chains, diagnostics, predictions.

One abstract class; each model's estimator is final and says only what is its own.
"""

from __future__ import annotations

import warnings
from abc import ABCMeta, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import Kernel
from sklearn.utils.validation import check_is_fitted

from atoll import __version__
from atoll.core.labels import PartialLabels
from atoll.core.memory import check_memory
from atoll.diagnostics import entropy, summarise, verdict
from atoll.diagnostics import to_arviz as draws_to_arviz
from atoll.estimators.validation import (
    fingerprint,
    generator,
    labelled_accuracy,
    validate_rows,
    validate_training,
)
from atoll.inference.chains import Record, Sampler, check_counts, run_chains
from atoll.kernels.hyperparameters import KernelPrior, kernel_at, kernel_prior

Array = NDArray[np.float64]

PREDICTIVE_DRAWS = 100
_NOT_WATCHED = ("jitter", "acceptance")  # for mixing: they are not the model's


class SampledClassifier(ClassifierMixin, BaseEstimator, metaclass=ABCMeta):
    """A Bayesian classifier whose posterior is sampled by several Markov chains."""

    paper: ClassVar[str]
    summary: ClassVar[str]
    dense_copies: ClassVar[int]  # n × n matrices alive at once in a chain

    def __init__(
        self,
        *,
        kernel: str | Kernel = "isotropic",
        n_chains: int = 4,
        n_warmup: int = 200,
        n_samples: int = 300,
        thin: int = 1,
        checkpoint: str | None = None,
        unlabelled: Any = "auto",
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: bool = False,
    ):
        self.kernel = kernel
        self.n_chains = n_chains
        self.n_warmup = n_warmup
        self.n_samples = n_samples
        self.thin = thin
        self.checkpoint = checkpoint
        self.unlabelled = unlabelled
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    # What a model says of itself ------------------------------------------------------------------

    @abstractmethod
    def _check_labels(self, labels: PartialLabels) -> None:
        """Raise a ValueError for labels or parameters that this model cannot take."""

    @abstractmethod
    def _rows_used(self, labels: PartialLabels) -> NDArray[np.bool_]:
        """(n,) the rows that enter the model."""

    @abstractmethod
    def _sampler(self, X: Array, labels: PartialLabels, prior: KernelPrior) -> Sampler:
        """The chain on the rows used."""

    @abstractmethod
    def _make_posterior(self, X: Array, prior: KernelPrior, draws: Record) -> Any:
        """What prediction needs, of draws already pooled over chains: (S, ...)."""

    @abstractmethod
    def _log_proba(self, X: Array) -> Array:
        """(m, K) log class probabilities."""

    @abstractmethod
    def _latent(self, X: Array) -> tuple[Array, Array]:
        """Mean and variance of the functions, (m, n_functions) each."""

    def _kernel_prior(self, X: Array) -> KernelPrior:
        """The kernel, and the prior of its log-parameters."""
        return kernel_prior(self.kernel, X)

    def _class_order(self, y: Any) -> Sequence[Any] | None:
        """The classes in their order, where it is not that of sorting."""
        return None

    def _unlabelled_distributions(self, X: Array, draws: Record) -> Array:
        """(u, K) class probabilities of the unlabelled training rows."""
        return np.exp(self._log_proba(X))

    def _read_training(self, X: Any, y: Any) -> tuple[Array, PartialLabels]:
        """What `fit` was given, checked."""
        return validate_training(
            self, X, y, unlabelled=self.unlabelled, classes=self._class_order(y)
        )

    def _read_rows(self, X: Any) -> Array:
        """What a prediction was given, checked."""
        return validate_rows(self, X)

    def _parameter_names(self, prior: KernelPrior) -> tuple[str, ...]:
        """Of the recorded log-parameters."""
        return prior.names

    def _fitted_kernel(self, prior: KernelPrior, log_parameters: Array) -> Any:
        """The kernel at the posterior mean of the recorded log-parameters."""
        return kernel_at(prior, log_parameters)

    def _watched(self, draws: Record) -> Record:
        """More arrays, (chain, draw, ...), whose worst entry is watched for mixing."""
        return {}

    def _extra_quantities(self, labels: PartialLabels, draws: Record) -> Record:
        """More named scalars, (chain, draw), to watch for mixing."""
        return {}

    # scikit-learn's surface -----------------------------------------------------------------------

    def fit(self, X: Any, y: Any) -> Self:
        """Sample the posterior given labelled and unlabelled rows.

        Parameters
        ----------
        X : (n, d) array or data frame of finite numbers
        y : (n,) labels; None, NaN or NA where unknown, or -1 in an integer y

        Returns
        -------
        self
        """
        X, labels = self._read_training(X, y)
        self._check_labels(labels)
        check_counts(
            n_chains=self.n_chains,
            n_warmup=self.n_warmup,
            n_samples=self.n_samples,
            thin=self.thin,
        )
        used = self._rows_used(labels)
        self._check_memory(int(used.sum()), len(labels.classes))
        self.classes_ = labels.classes

        prior = self._kernel_prior(X)
        of_used = PartialLabels(labels.codes[used], labels.is_labelled[used], labels.classes)
        digest = self._fingerprint(X, labels) if self.checkpoint is not None else ""
        draws = self._infer(X[used], of_used, prior, digest)
        self._transduce(X, labels, draws)
        return self

    def predict_proba(self, X: Any) -> Array:
        """Class probabilities, averaged over the posterior; X (m, d) -> (m, K).

        Far from all data they are those of the prior, never NaN.
        """
        check_is_fitted(self)
        return np.exp(self._log_proba(self._read_rows(X)))

    def predict(self, X: Any) -> NDArray[Any]:
        """The most probable class of each row; X (m, d) -> (m,)."""
        probabilities = self.predict_proba(X)  # first: it says so where nothing is fitted
        return self.classes_[np.argmax(probabilities, axis=1)]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy over the labelled rows; unlabelled ones are left out.

        Parameters
        ----------
        X : (m, d)
        y : (m,) labels, with the same markers for unlabelled rows as in `fit`
        sample_weight : (m,), optional
        """
        return labelled_accuracy(self, self.predict(X), y, sample_weight)

    def predict_entropy(self, X: Any) -> Array:
        """Entropy of the class probabilities in nats: how unsure; X (m, d) -> (m,)."""
        return entropy(self.predict_proba(X))

    def predict_latent(self, X: Any) -> tuple[Array, Array]:
        """Mean and variance of the latent functions; X (m, d) -> (m, n_functions) each."""
        check_is_fitted(self)
        return self._latent(self._read_rows(X))

    def to_arviz(self) -> Any:
        """The recorded draws as ArviZ's data structure, for its plots and summaries."""
        check_is_fitted(self)
        if not self.draws_:
            raise ValueError(
                f"{type(self).__name__} was fitted without sampling and has no draws to export; "
                'fit it with inference="mcmc".'
            )
        return draws_to_arviz(self.draws_, attrs={"model": type(self).__name__})

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = False
        return tags

    # Parts of fit ---------------------------------------------------------------------------------

    def _infer(self, X: Array, labels: PartialLabels, prior: KernelPrior, digest: str) -> Record:
        """Sample the posterior of the rows used, and say how that went; the draws, by chain."""
        result = run_chains(
            self._sampler(X, labels, prior),
            n_chains=self.n_chains,
            n_warmup=self.n_warmup,
            n_samples=self.n_samples,
            thin=self.thin,
            rng=generator(self.random_state),
            n_jobs=self.n_jobs,
            progress=bool(self.verbose),
            checkpoint=self.checkpoint,
            fingerprint=digest,
        )
        self.posterior_ = self._make_posterior(X, prior, pool(result.draws))
        names = self._parameter_names(prior)
        self.draws_ = named_scalars(result.draws, names) | self._extra_quantities(
            labels, result.draws
        )
        self.kernel_ = self._fitted_kernel(prior, result.draws["log_parameters"].mean(axis=(0, 1)))
        self.diagnostics_ = self._diagnose(result.draws, result.interrupted)
        return result.draws

    def _check_memory(self, n: int, n_classes: int) -> None:
        copies = self.dense_copies * min(self.n_chains, effective_n_jobs(self.n_jobs))
        # Of a row in a draw: its functions, weights and probabilities, once more while stacked.
        drawn = self.n_chains * self.n_samples * n * 6 * n_classes
        check_memory(
            8 * (copies * n * n + drawn),
            what=f"{type(self).__name__} with {n} rows in its kernel matrix",
            instead="Fit on fewer rows (a random part of the unlabelled ones), or lower n_jobs, "
            "n_chains or n_samples.",
        )

    def _fingerprint(self, X: Array, labels: PartialLabels) -> str:
        """Deep parameters: a kernel's own text shows three digits of each of its numbers.

        A seed that is an object has no lasting text; the chains' streams are in the checkpoint.
        """
        settings = [
            part
            for name, value in sorted(self.get_params().items())
            if name not in ("checkpoint", "n_jobs", "verbose", "n_samples", "n_chains")
            and not (name == "random_state" and not isinstance(value, int | np.integer | None))
            for part in (name, value)
        ]
        return fingerprint(
            __version__, X, labels.codes, labels.is_labelled, type(self).__name__, *settings
        )

    def _diagnose(self, draws: Record, interrupted: bool) -> dict[str, Any]:
        n_chains, n_draws = draws["log_likelihood"].shape
        summary = summarise(self.draws_ | self._watched(draws))
        mixed, sentence = verdict(summary, n_chains=n_chains)
        if not mixed:
            warnings.warn(f"{type(self).__name__}: {sentence}", ConvergenceWarning, stacklevel=5)
        acceptance = {"hmc": float(draws["acceptance"].mean())} if "acceptance" in draws else {}
        return {
            **summary,
            "acceptance": acceptance,
            "jitter": float(draws["jitter"].max()),
            "n_chains": n_chains,
            "n_draws": n_draws,
            "interrupted": interrupted,
            "mixed": mixed,
            "verdict": sentence,
        }

    def _transduce(self, X: Array, labels: PartialLabels, draws: Record) -> None:
        """Sets `label_distributions_` and `transduction_`; given labels stay as given."""
        self.label_distributions_ = np.eye(len(labels.classes))[labels.codes]
        unknown = ~labels.is_labelled
        if unknown.any():
            self.label_distributions_[unknown] = self._unlabelled_distributions(X[unknown], draws)
        self.transduction_ = labels.classes[np.argmax(self.label_distributions_, axis=1)]


def pool(draws: Record) -> Record:
    """(chain, draw, ...) -> (S, ...), at most PREDICTIVE_DRAWS of them, evenly spread.

    "chain" says which each came from.
    """
    n_chains, n_draws = draws["log_likelihood"].shape
    total = n_chains * n_draws
    kept = np.unique(np.linspace(0, total - 1, min(total, PREDICTIVE_DRAWS)).round().astype(int))
    pooled = {name: v.reshape(total, *v.shape[2:])[kept] for name, v in draws.items()}
    return pooled | {"chain": kept // n_draws}


def named_scalars(draws: Record, names: Sequence[str]) -> Record:
    """The log-likelihood, the kernel's log-parameters and whatever else is one number a draw."""
    scalars = {"log_likelihood": draws["log_likelihood"]}
    for j, name in enumerate(names):
        scalars[name] = draws["log_parameters"][:, :, j]
    others = {name: v for name, v in draws.items() if v.ndim == 2 and name not in _NOT_WATCHED}
    return scalars | others
