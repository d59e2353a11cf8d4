"""The softmax Gaussian process classifier."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from atoll.core.labels import PartialLabels
from atoll.estimators.sampled import SampledClassifier
from atoll.inference.chains import Record, Sampler
from atoll.kernels.hyperparameters import KernelPrior
from atoll.models import softmax_gp
from atoll.models.softmax_gp import SoftmaxPosterior

Array = NDArray[np.float64]


class SoftmaxGPClassifier(SampledClassifier):
    """Softmax Gaussian process classifier for two or more classes, from labelled rows.

    One function a class, g_k ~ GP(0, C(θ)); P(y = k | x) ∝ exp g_k(x). Functions are sampled by
    Hamiltonian Monte Carlo in whitened coordinates, the kernel's log-parameters by elliptical
    slice sampling. Unlabelled rows set the scale of the prior alone: this is the supervised
    baseline that a semi-supervised model has to beat.

    An exact sweep costs O(n³) time and 8·5·n² bytes for n labelled rows.

    Parameters
    ----------
    kernel : "isotropic", "ard" or a scikit-learn kernel
        The first two put a prior on amplitude and length-scales that follows the units of X. A
        kernel's own free parameters are sampled around the values given; fixed ones stay.
    n_chains, n_warmup, n_samples, thin : int
        Chains; sweeps dropped, then draws kept in each, one every `thin` sweeps.
    checkpoint : path of a folder, optional
        Where chains are saved as they run; the same call goes on from there, to the same draws.
    unlabelled : "auto", None or a value
        What in y means unlabelled beside nulls; "auto": -1 in an integer y, unless fewer than two
        classes would remain.
    random_state : None, int or numpy Generator
    n_jobs : int, optional
        Chains run at once, by joblib.
    verbose : bool
        Progress bars on standard error.

    Attributes
    ----------
    classes_ : (K,) the labels, sorted
    label_distributions_ : (n, K) class probabilities of the training rows; given labels are certain
    transduction_ : (n,) the most probable class of each training row
    posterior_ : SoftmaxPosterior, what prediction needs
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
    >>> X, y = make_pinwheel(n_samples=30, n_classes=3, random_state=0)
    >>> model = SoftmaxGPClassifier(n_chains=2, random_state=0)
    >>> model.fit(X, y).predict_proba(X[:2]).shape
    (2, 3)
    """

    paper = "Williams & Barber 1998; baseline of Adams & Ghahramani 2009"
    summary = "two or more classes, labelled rows only"
    dense_copies = 5

    def _check_labels(self, labels: PartialLabels) -> None:
        """Any number of classes will do."""

    def _rows_used(self, labels: PartialLabels) -> NDArray[np.bool_]:
        return labels.is_labelled

    def _sampler(self, X: Array, labels: PartialLabels, prior: KernelPrior) -> Sampler:
        return softmax_gp.sampler(X, labels.codes, prior, len(labels.classes))

    def _make_posterior(self, X: Array, prior: KernelPrior, draws: Record) -> SoftmaxPosterior:
        return SoftmaxPosterior(prior, X, draws["log_parameters"], draws["weights"])

    def _log_proba(self, X: Array) -> Array:
        return self.posterior_.log_proba(X)

    def _latent(self, X: Array) -> tuple[Array, Array]:
        return self.posterior_.latent(X)
