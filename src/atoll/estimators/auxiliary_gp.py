"""Gaussian process classifiers of the auxiliary-variable family: probit and null category."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.gaussian_process.kernels import Kernel

from atoll.core.labels import PartialLabels
from atoll.estimators.sampled import SampledClassifier
from atoll.estimators.validation import require_two_classes
from atoll.inference.chains import Record, Sampler
from atoll.kernels.hyperparameters import KernelPrior
from atoll.models import null_category, probit_gp
from atoll.models.probit_gp import LatentPosterior

Array = NDArray[np.float64]


class AuxiliaryClassifier(SampledClassifier):
    """Two classes, one function known through z = f + ε: what probit and null category share."""

    dense_copies = 8

    def _check_labels(self, labels: PartialLabels) -> None:
        require_two_classes(self, labels)

    def _make_posterior(self, X: Array, prior: KernelPrior, draws: Record) -> LatentPosterior:
        return LatentPosterior(prior, X, draws["log_parameters"], draws["weights"])

    def _latent(self, X: Array) -> tuple[Array, Array]:
        mean, variance = probit_gp.predict_latent(self.posterior_, X)
        return mean[:, None], variance[:, None]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags


class ProbitGPClassifier(AuxiliaryClassifier):
    """Binary probit Gaussian process classifier; unlabelled rows set the scale of its prior alone.

    f ~ GP(0, C(θ)), z_n ~ N(f(x_n), 1), y_n is the second class where z_n > 0. The posterior of z
    and θ is sampled by Gibbs with f integrated out; predictions average Φ over the draws in
    closed form.

    An exact sweep costs O(n³) time and 8·8·n² bytes for n labelled rows.

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
    classes_ : (2,) the labels, sorted
    label_distributions_ : (n, 2) class probabilities of the training rows; given labels are certain
    transduction_ : (n,) the most probable class of each training row
    posterior_ : LatentPosterior, what prediction needs
    draws_ : dict of (chain, draw) arrays: log-likelihood and log-parameters
    diagnostics_ : dict with R-hat, effective sample sizes, jitter and a verdict in words
    kernel_ : the kernel at the posterior mean of its log-parameters

    References
    ----------
    S. Rogers, lecture "GPs for classification and ordinal regression via the auxiliary variable
    trick" (2014). C. Holmes and L. Held, "Bayesian auxiliary variable models for binary and
    multinomial regression" (2006).

    Examples
    --------
    >>> from atoll.datasets import make_crescents
    >>> from atoll.estimators import ProbitGPClassifier
    >>> X, y = make_crescents(n_samples=40, random_state=0)
    >>> model = ProbitGPClassifier(n_chains=2, random_state=0)
    >>> model.fit(X, y).predict_proba(X[:1]).shape
    (1, 2)
    """

    paper = "Rogers 2014 (lecture)"
    summary = "two classes, labelled rows only; the supervised twin of null-category"

    def _rows_used(self, labels: PartialLabels) -> NDArray[np.bool_]:
        return labels.is_labelled

    def _sampler(self, X: Array, labels: PartialLabels, prior: KernelPrior) -> Sampler:
        return probit_gp.sampler(X, labels.codes, prior)

    def _log_proba(self, X: Array) -> Array:
        return probit_gp.predict_log_proba(self.posterior_, X)


class NullCategoryClassifier(AuxiliaryClassifier):
    """Binary Gaussian process classifier that learns from unlabelled rows: the null category.

    As the probit Gaussian process, z_n ~ N(f(x_n), 1), but between the classes lies a null region
    |z| < w/2, and no row, labelled or not, is in it: the boundary between the classes moves to
    where there are no rows. With `null_width=0` and every row labelled it is ProbitGPClassifier,
    draw for draw.

    An exact sweep costs O(n³) time and 8·8·n² bytes for n rows, labelled or not: to about 2000.

    Parameters
    ----------
    null_width : float
        w, in units of the noise of z, which has variance one. 0 switches the null region off.
    kernel, n_chains, n_warmup, n_samples, thin, checkpoint, unlabelled, random_state, n_jobs, \
verbose
        As in ProbitGPClassifier.

    Attributes
    ----------
    classes_ : (2,) the labels, sorted
    label_distributions_ : (n, 2) class probabilities of the training rows; given labels are certain
    transduction_ : (n,) the most probable class of each training row
    posterior_ : LatentPosterior, what prediction needs
    draws_ : dict of (chain, draw) arrays: log-likelihood, log-parameters and `second_class_share`,
        the expected share of the second class among the unlabelled rows
    diagnostics_ : dict with R-hat, effective sample sizes, jitter and a verdict in words
    kernel_ : the kernel at the posterior mean of its log-parameters

    References
    ----------
    N. D. Lawrence and M. I. Jordan, "Semi-supervised learning via Gaussian processes" (2005).
    S. Rogers, lecture "GPs for classification and ordinal regression via the auxiliary variable
    trick" (2014).

    Examples
    --------
    >>> from atoll.datasets import hide_labels, make_crescents
    >>> from atoll.estimators import NullCategoryClassifier
    >>> X, truth = make_crescents(n_samples=40, random_state=0)
    >>> y = hide_labels(truth, per_class=4, marker=None, random_state=0)
    >>> model = NullCategoryClassifier(n_chains=2, random_state=0)
    >>> model.fit(X, y).transduction_.shape
    (40,)
    """

    paper = "Lawrence & Jordan 2005; Rogers 2014 (lecture)"
    summary = "two classes, learns from unlabelled rows: the boundary avoids the data"

    def __init__(
        self,
        *,
        null_width: float = 1.0,
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
        self.null_width = null_width

    def _check_labels(self, labels: PartialLabels) -> None:
        super()._check_labels(labels)
        w = self.null_width
        if not (isinstance(w, Real) and np.isfinite(w) and w >= 0):
            raise ValueError(f"null_width={w!r} must be zero or a positive number.")

    def _rows_used(self, labels: PartialLabels) -> NDArray[np.bool_]:
        return np.ones(len(labels.codes), dtype=bool)

    def _sampler(self, X: Array, labels: PartialLabels, prior: KernelPrior) -> Sampler:
        return null_category.sampler(
            X, labels.codes, labels.is_labelled, prior, float(self.null_width)
        )

    def _log_proba(self, X: Array) -> Array:
        return null_category.predict_log_proba_without_null(
            self.posterior_, X, float(self.null_width)
        )

    def _unlabelled_distributions(self, X: Array, draws: Record) -> Array:
        return draws["unlabelled_probabilities"].mean(axis=(0, 1))

    def _extra_quantities(self, labels: PartialLabels, draws: Record) -> Record:
        if labels.is_labelled.all():
            return {}
        return {"second_class_share": draws["unlabelled_probabilities"][..., 1].mean(axis=2)}
