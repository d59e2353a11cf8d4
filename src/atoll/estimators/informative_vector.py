"""The informative vector machine: a Gaussian process classifier on its most telling rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.gaussian_process.kernels import Kernel

from atoll.core.labels import PartialLabels
from atoll.estimators import moment_matching
from atoll.estimators.belief import with_doubt
from atoll.estimators.moment_matching import active_memory, match_moments, plan_of
from atoll.estimators.parameters import COMMON, KERNEL, inference
from atoll.estimators.progress import Progress
from atoll.estimators.searches import search_of_active_sets
from atoll.estimators.shell import Classifier, Fit, Need
from atoll.kernels.hyperparameters import kernel_at, kernel_prior
from atoll.models.informative_vector import NoiseModel

Array = NDArray[np.float64]


class InformativeVectorClassifier(Classifier):
    """Probit Gaussian process on an active set of the labelled rows: thousands of them, quickly.

    f ~ GP(0, C(θ)), z_n ~ N(f(x_n) + b, 1), y_n is the second class where z_n > 0. Rows join the
    posterior one by one by moment matching, the one that tells most about f first, until the active
    set is full; then the kernel's parameters are set to the highest evidence on it, and so on.
    Unlabelled rows set the scale of the prior alone. More than two classes are as many functions,
    each class against the rest, conditioned on one of them being true. Labels left out one by one
    say how far the functions are believed; the shares of the classes count the rest.

    O(n d²) time per round and O(n d) memory for n labelled rows and d active ones. Nothing is
    random.

    Parameters
    ----------
    kernel : "isotropic", "ard" or a scikit-learn kernel, default="isotropic"
        The first two put a prior on amplitude and length-scales that follows the units of X. A
        kernel's own free parameters have a log-normal prior about the values given.
    n_active : int or None, default=100
        d, of every function. None: all labelled rows.
    inference : "adf" or "ep", default="adf"
        What the kernel's parameters are learned by: the sites as the pass left them, as in the
        paper, or expectation propagation on the active set.
    n_rounds : int, default=15
        Most selections; there are fewer if the parameters come to rest.
    bias : float, "share" or "learn", default=0.0
        b; "share" gives each class its share of the labels where f is zero, "learn" learns it
        around that.
    noise_variance : float, default=1.0
        Of z given f.
    variance_rate : float, default=None
        Of an exponential prior on the kernel's variances, in place of the log-normal one.
    negative : "zero" or "allow", default="zero"
        What becomes of a site of negative precision; the probit has none.
    unlabelled : "auto", None or a value, default="auto"
        What in y means unlabelled besides nulls. "auto": -1 among numbers, unless fewer than two
        classes would remain. None: nothing.
    verbose : bool, default=False
        Whether to show a progress bar on standard error.

    Attributes
    ----------
    classes_ : (K,) the labels, sorted
    unlabelled_ : what meant unlabelled besides nulls
    active_ : rows of the training data that are active, one array per function
    label_distributions_ : (n, K) class probabilities of the training rows; given labels are certain
    transduction_ : (n,) the most probable class of each training row
    posterior_ : what prediction needs
    objectives_ : (t,) estimated log evidence of the active rows after every round
    log_evidence_ : the last of these
    bias_ : (number of functions,) b
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

    paper = "Lawrence, Seeger & Herbrich 2003; Lawrence & Jordan 2005"
    holds_labels_out = True
    compares_columns = True
    summary = "two or more classes, labelled rows only; fast on thousands of rows"
    parameters = (
        {"kernel": KERNEL, "inference": inference("adf", "ep")} | moment_matching.RULES | COMMON
    )

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
        self.verbose = verbose

    def _memory(self, X: Array, labels: PartialLabels) -> Need:
        return active_memory(self, labels.n_labelled)

    def _fit(self, X: Array, labels: PartialLabels) -> Fit:
        prior, labelled = kernel_prior(self.kernel, X), np.flatnonzero(labels.is_labelled)
        rows, of_rows = X[labelled], labels.of(labelled)
        with Progress(self.verbose, "Informative vectors", "rounds", value="log evidence") as bar:
            result, posterior, held_out, _ = match_moments(
                plan_of(self, prior),
                rows,
                of_rows,
                prior,
                NoiseModel(learn_bias=self.bias == "learn"),
                self.bias,
                bar.report,
            )
        found = search_of_active_sets(result)
        verdict = (
            f"The active set and its kernel came to rest in {found.steps}, with an estimate of "
            f"{found.log_evidence:.2f} for the log evidence of the active rows."
            if found.converged
            else f"The kernel was still moving after {found.steps}; standardise the features, or "
            "raise n_active."
        )
        fit = Fit(
            posterior,
            found.diagnostics(verdict),
            objectives=result.log_evidences,
            attributes={
                "active_": [labelled[one.rows] for one in result.problems],
                "bias_": posterior.bias,
                "kernel_": kernel_at(prior, result.log_parameters),
                "log_evidence_": found.log_evidence,
            },
        )
        return with_doubt(fit, held_out)
