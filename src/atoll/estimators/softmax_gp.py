"""The softmax Gaussian process classifier."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.gaussian_process.kernels import Kernel

from atoll.core.labels import PartialLabels
from atoll.estimators import sampling
from atoll.estimators.belief import with_word
from atoll.estimators.parameters import CHAINS, COMMON, KERNEL, WATCHED
from atoll.estimators.shell import Classifier, Fit, Need
from atoll.inference.chains import Record
from atoll.kernels.hyperparameters import kernel_at, kernel_prior
from atoll.models import softmax_gp
from atoll.models.belief import weigh_left_out
from atoll.models.softmax_gp import SoftmaxPosterior

Array = NDArray[np.float64]

DENSE_COPIES = 5  # n × n matrices alive at once in a chain


class SoftmaxGPClassifier(Classifier):
    """Softmax Gaussian process classifier for two or more classes, from labelled rows.

    One function per class, g_k ~ GP(0, C(θ)); P(y = k | x) ∝ exp g_k(x). Functions are sampled by
    Hamiltonian Monte Carlo in whitened coordinates, the kernel's log-parameters by elliptical
    slice sampling. Unlabelled rows set the scale of the prior alone: this is the supervised
    baseline that a semi-supervised model has to beat.

    An exact sweep costs O(n³) time and 8·5·n² bytes for n labelled rows.

    Parameters
    ----------
    kernel : "isotropic", "ard" or a scikit-learn kernel, default="isotropic"
        The first two put a prior on amplitude and length-scales that follows the units of X. A
        kernel's own free parameters are sampled around the values given; fixed ones stay. One
        kernel serves all classes.
    n_chains : int, default=4
        Markov chains.
    n_warmup : int, default=200
        Sweeps per chain that are dropped.
    n_samples : int or "auto", default="auto"
        Draws kept per chain. "auto" is 300, and then up to 2400 while the chains have not mixed
        and that many could be enough.
    thin : int, default=1
        Sweeps per draw kept.
    checkpoint : path of a folder, default=None
        Where chains are saved as they run; the same call goes on from there, to the same draws.
    unlabelled : "auto", None or a value, default="auto"
        What in y means unlabelled besides nulls. "auto": -1 among numbers, unless fewer than two
        classes would remain. None: nothing.
    random_state : None, int or numpy Generator, default=None
        Seed of the chains.
    n_jobs : int, default=None
        Chains run at once, by joblib.
    verbose : bool or "auto", default="auto"
        Whether progress is shown on standard error; "auto": of a fit that takes longer than ten
        seconds, at a terminal or in a notebook, or than a minute elsewhere.

    Attributes
    ----------
    classes_ : (K,) the labels, sorted
    unlabelled_ : what meant unlabelled besides nulls
    label_distributions_ : (n, K) class probabilities of the training rows; given labels are certain
    transduction_ : (n,) the most probable class of each training row
    posterior_ : what prediction needs
    draws_ : dict of (chain, draw) arrays: log-likelihood and log-parameters
    diagnostics_ : dict with R-hat, effective sample sizes, acceptance, jitter and a verdict
    kernel_ : the kernel at the posterior mean of its log-parameters

    References
    ----------
    C. K. I. Williams and D. Barber, "Bayesian classification with Gaussian processes" (1998).
    R. P. Adams and Z. Ghahramani, "Archipelago: nonparametric Bayesian semi-supervised learning"
    (2009), whose baseline this is.

    Examples
    --------
    >>> from atoll.datasets import make_pinwheel
    >>> from atoll.estimators import SoftmaxGPClassifier
    >>> import warnings
    >>> warnings.simplefilter("ignore")  # short chains say that they are short
    >>> X, y = make_pinwheel(n_samples=30, n_classes=3, random_state=0)
    >>> model = SoftmaxGPClassifier(n_chains=2, n_warmup=30, n_samples=50, random_state=0)
    >>> model.fit(X, y).predict_proba(X[:2]).shape
    (2, 3)
    """

    holds_labels_out = True
    compares_columns = True
    paper = "Williams & Barber 1998; baseline of Adams & Ghahramani 2009"
    summary = "two or more classes, labelled rows only"
    parameters = {"kernel": KERNEL} | CHAINS | COMMON | WATCHED

    def __init__(
        self,
        *,
        kernel: str | Kernel = "isotropic",
        n_chains: int = 4,
        n_warmup: int = 200,
        n_samples: int | str = "auto",
        thin: int = 1,
        checkpoint: str | None = None,
        unlabelled: Any = "auto",
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: bool | str = "auto",
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

    def _memory(self, X: Array, labels: PartialLabels) -> Need:
        return sampling.dense_need(self, labels.n_labelled, len(labels.classes), DENSE_COPIES)

    def _fit(self, X: Array, labels: PartialLabels) -> Fit:
        prior, known = kernel_prior(self.kernel, X), labels.is_labelled
        sampler = softmax_gp.sampler(X[known], labels.codes[known], prior, len(labels.classes))

        def traces_of(draws: Record) -> Record:
            return sampling.named_scalars(draws, prior.names)

        result, found = sampling.sample_until_mixed(self, sampler, (X, labels), traces_of)
        pooled = sampling.pool(result.draws)
        mean = sampling.mean_log_parameters(result.draws)
        posterior = SoftmaxPosterior(prior, X[known], pooled["log_parameters"], pooled["weights"])
        fit = Fit(
            posterior,
            found,
            traces=traces_of(result.draws),
            attributes={"kernel_": kernel_at(prior, mean)},
        )
        codes = labels.codes[known]
        return with_word(fit, weigh_left_out(softmax_gp.left_out(posterior, codes), codes))
