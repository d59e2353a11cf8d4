"""The informative vector machine: a Gaussian process classifier on its most telling rows."""

from __future__ import annotations

import warnings
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import Kernel
from sklearn.utils.validation import check_is_fitted

from atoll.core.labels import PartialLabels
from atoll.core.memory import check_memory
from atoll.diagnostics import entropy
from atoll.estimators.auxiliary_gp import check_moment_matching, search_of, variance_prior
from atoll.estimators.validation import labelled_accuracy, validate_rows, validate_training
from atoll.inference.ivm import REFINEMENTS
from atoll.kernels.hyperparameters import kernel_at, kernel_prior
from atoll.models import informative_vector
from atoll.models.informative_vector import NoiseModel

Array = NDArray[np.float64]


class InformativeVectorClassifier(ClassifierMixin, BaseEstimator):
    """Probit Gaussian process on an active set of the labelled rows: thousands of them, quickly.

    f ~ GP(0, C(θ)), z_n ~ N(f(x_n) + b, 1), y_n is the second class where z_n > 0. Rows join the
    posterior one by one by moment matching, the one that tells most about f first, until the active
    set is full; then the kernel's parameters are set to the highest evidence on it, and so on.
    Unlabelled rows set the scale of the prior alone. More than two classes are as many functions,
    each class against the rest, conditioned on one of them being true.

    O(n d²) time a round and O(n d) memory for n labelled rows and d active ones.

    Parameters
    ----------
    kernel : "isotropic", "ard" or a scikit-learn kernel
        The first two put a prior on amplitude and length-scales that follows the units of X. A
        kernel's own free parameters have a log-normal prior about the values given.
    n_active : int or None
        d, of every function. None: all labelled rows.
    inference : "adf" or "ep"
        What the kernel's parameters are learned by: the sites as the pass left them, as in the
        paper, or expectation propagation on the active set.
    n_rounds : int
        At most so many selections; fewer where the parameters come to rest.
    bias : float, "share" or "learn"
        b; "share" gives each class its share of the labels where f is zero.
    noise_variance : float
        Of z given f.
    variance_rate : float, optional
        Of an exponential prior on the kernel's variances, in place of the log-normal one.
    negative : "zero" or "allow"
        What becomes of a site of negative precision; the probit has none.
    unlabelled : "auto", None or a value
        What in y means unlabelled beside nulls; "auto": -1 in an integer y, unless fewer than two
        classes would remain.
    random_state, n_jobs
        Not used: nothing is random, and it runs on one core. For the other models' sake.
    verbose : bool
        A progress bar on standard error.

    Attributes
    ----------
    classes_ : (K,) the labels, sorted
    active_ : rows of the training data that are active, an array for every function
    label_distributions_ : (n, K) class probabilities of the training rows; given labels are certain
    transduction_ : (n,) the most probable class of each training row
    posterior_ : SitesPosterior, what prediction needs
    log_evidence_ : of the active set, estimated
    bias_ : b of every function
    kernel_ : the kernel at its learned parameters
    diagnostics_ : dict with the log evidence, rounds, active rows, jitter and a verdict in words
    draws_ : empty: nothing is sampled

    References
    ----------
    N. D. Lawrence, M. Seeger and R. Herbrich, "Fast sparse Gaussian process methods: the
    informative vector machine" (2003). N. D. Lawrence and M. I. Jordan, "Semi-supervised learning
    via Gaussian processes" (2005).

    Examples
    --------
    >>> from atoll.datasets import make_crescents
    >>> from atoll.estimators import InformativeVectorClassifier
    >>> X, y = make_crescents(n_samples=200, random_state=0)
    >>> model = InformativeVectorClassifier(n_active=20).fit(X, y)
    >>> len(model.active_[0]), model.score(X, y) > 0.95
    (20, True)
    """

    paper: ClassVar[str] = "Lawrence, Seeger & Herbrich 2003; Lawrence & Jordan 2005"
    summary: ClassVar[str] = "two or more classes, labelled rows only; fast on thousands of rows"

    def __init__(
        self,
        *,
        kernel: str | Kernel = "isotropic",
        n_active: int | None = 100,
        inference: str = "adf",
        n_rounds: int = 15,
        bias: float | str = 0.0,
        noise_variance: float = 1.0,
        variance_rate: float | None = None,
        negative: str = "zero",
        unlabelled: Any = "auto",
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: bool = False,
    ):
        self.kernel = kernel
        self.n_active = n_active
        self.inference = inference
        self.n_rounds = n_rounds
        self.bias = bias
        self.noise_variance = noise_variance
        self.variance_rate = variance_rate
        self.negative = negative
        self.unlabelled = unlabelled
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def fit(self, X: Any, y: Any) -> Self:
        """Select active rows and learn the kernel on them.

        Parameters
        ----------
        X : (n, d) array or data frame of finite numbers
        y : (n,) labels; None, NaN or NA where unknown, or -1 in an integer y
        """
        X, labels = validate_training(self, X, y, unlabelled=self.unlabelled)
        check_moment_matching(self)
        if self.inference not in REFINEMENTS:
            raise ValueError(
                f"inference={self.inference!r} is none of {', '.join(map(repr, REFINEMENTS))}."
            )
        self.classes_ = labels.classes
        labelled = np.flatnonzero(labels.is_labelled)
        self._check_memory(len(labelled))
        self._fit_rows(X, labels, labelled)
        self.label_distributions_ = np.eye(len(labels.classes))[labels.codes]
        unknown = ~labels.is_labelled
        if unknown.any():
            self.label_distributions_[unknown] = self._proba(X[unknown])
        self.transduction_ = labels.classes[np.argmax(self.label_distributions_, axis=1)]
        return self

    def predict_proba(self, X: Any) -> Array:
        """Class probabilities; X (m, d) -> (m, K)."""
        check_is_fitted(self)
        return self._proba(validate_rows(self, X))

    def predict(self, X: Any) -> NDArray[Any]:
        """The most probable class of each row; X (m, d) -> (m,)."""
        probabilities = self.predict_proba(X)  # first: it says so where nothing is fitted
        return self.classes_[np.argmax(probabilities, axis=1)]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy over the labelled rows; unlabelled ones are left out."""
        return labelled_accuracy(self, self.predict(X), y, sample_weight)

    def predict_entropy(self, X: Any) -> Array:
        """Entropy of the class probabilities in nats: how unsure; X (m, d) -> (m,)."""
        return entropy(self.predict_proba(X))

    def predict_latent(self, X: Any) -> tuple[Array, Array]:
        """Mean and variance of the latent functions; X (m, d) -> (m, n_functions) each."""
        check_is_fitted(self)
        return self.posterior_.latent(validate_rows(self, X))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = False
        return tags

    # Parts of fit ---------------------------------------------------------------------------------

    def _fit_rows(self, X: Array, labels: PartialLabels, labelled: NDArray[np.intp]) -> None:
        from tqdm import tqdm

        prior = kernel_prior(self.kernel, X)
        of_rows = PartialLabels(
            labels.codes[labelled], np.ones(len(labelled), dtype=bool), labels.classes
        )
        problems = informative_vector.against_the_rest(of_rows)
        noise = NoiseModel(null_width=0.0, learn_bias=self.bias == "learn")
        biases = [
            informative_vector.share_bias(codes, of_rows.is_labelled)
            if isinstance(self.bias, str)
            else float(self.bias)
            for codes in problems
        ]
        families = [
            informative_vector.family(codes, of_rows.is_labelled, noise, bias)
            for codes, bias in zip(problems, biases)
        ]
        with tqdm(disable=not self.verbose, desc="Informative vectors", unit=" rounds") as bar:
            result = informative_vector.fit(
                X[labelled],
                families,
                prior,
                refine=self.inference,
                n_active=self.n_active,
                n_rounds=int(self.n_rounds),
                log_prior=variance_prior(prior, self.variance_rate),
                negative=self.negative,
                noise_variance=float(self.noise_variance),
                report=lambda *_: bar.update(),
            )
        self.posterior_ = informative_vector.posterior(
            result, X[labelled], prior, noise, biases, float(self.noise_variance)
        )
        self.active_ = [labelled[one.rows] for one in result.problems]
        self.bias_ = self.posterior_.bias
        self.kernel_ = kernel_at(prior, result.log_parameters)
        self.draws_: dict[str, Any] = {}
        found = search_of(result)
        self.log_evidence_ = found.log_evidence
        steps = f"{found.n_steps} {found.step}{'s' * (found.n_steps != 1)}"
        sentence = (
            f"The active set and its kernel came to rest in {steps}, with an estimate of "
            f"{found.log_evidence:.2f} for the log evidence of the active rows."
            if found.converged
            else f"The kernel was still moving after {steps}; standardise the features, or raise "
            "n_active."
        )
        if not found.converged:
            warnings.warn(f"{type(self).__name__}: {sentence}", ConvergenceWarning, stacklevel=3)
        self.diagnostics_ = {
            "log_evidence": found.log_evidence,
            "n_iterations": found.n_steps,
            "n_active": found.more["n_active"],
            "n_negative": found.more["n_negative"],
            "jitter": found.jitter,
            "interrupted": False,
            "mixed": found.converged,
            "verdict": sentence,
        }

    def _proba(self, X: Array) -> Array:
        return np.exp(self.posterior_.log_proba(X))

    def _check_memory(self, n: int) -> None:
        d = n if self.n_active is None else min(int(self.n_active), n)
        check_memory(
            8 * (2 * d * n + 8 * d * d),
            what=f"{type(self).__name__} with {d} active rows of {n}",
            instead="Lower n_active.",
        )
