"""Gaussian process classifiers of the auxiliary-variable family: probit and null category."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import Kernel

from atoll.core.labels import PartialLabels
from atoll.core.regions import RegionFamily
from atoll.estimators.sampled import SampledClassifier
from atoll.inference.chains import Record, Sampler
from atoll.inference.ep import EPResult
from atoll.inference.type_two import Report
from atoll.inference.vb import VariationalResult
from atoll.kernels.hyperparameters import KernelPrior, kernel_at
from atoll.likelihoods import null_category as null_likelihood
from atoll.models import null_category, probit_gp
from atoll.models.probit_gp import LatentPosterior

Array = NDArray[np.float64]

# Up to so many rows in the kernel matrix "auto" samples: a few minutes on one core.
GIBBS_ROWS = 300
NAMES = {"vb": "Variational Bayes", "ep": "Expectation propagation"}


class AuxiliaryClassifier(SampledClassifier):
    """Functions known through z = f + ε: what probit, ordinal and null category share."""

    dense_copies = 8
    inferences: ClassVar[tuple[str, ...]] = ("auto", "gibbs", "vb")

    def __init__(
        self,
        *,
        kernel: str | Kernel = "isotropic",
        inference: str = "auto",
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
        self.inference = inference

    # What a model says of itself ------------------------------------------------------------------

    @abstractmethod
    def _family(self, X: Array, labels: PartialLabels, prior: KernelPrior) -> RegionFamily:
        """What the labels say of z."""

    @abstractmethod
    def _log_class_probabilities(self, mean: Array, variance: Array, phi: Array) -> Array:
        """(m, K) log class probabilities of latent moments, at one draw of φ."""

    def _variational(
        self, X: Array, labels: PartialLabels, prior: KernelPrior, report: Report
    ) -> VariationalResult:
        regions = self._family(X, labels, prior)
        return probit_gp.regions_variational(X, regions, prior, report=report)

    def _describe_regions(self, region_parameters: Array) -> None:
        """Set fitted attributes from draws of φ, (S, q)."""

    # Inference ------------------------------------------------------------------------------------

    def _check_labels(self, labels: PartialLabels) -> None:
        if self.inference not in self.inferences:
            raise ValueError(
                f"inference={self.inference!r} is none of {', '.join(map(repr, self.inferences))}."
            )
        few = int(self._rows_used(labels).sum()) <= GIBBS_ROWS
        automatic = "gibbs" if few else self._inference_of_many(labels)
        self.inference_ = automatic if self.inference == "auto" else self.inference

    def _inference_of_many(self, labels: PartialLabels) -> str:
        """What "auto" takes where sampling would be slow."""
        return "vb"

    def _sampler(self, X: Array, labels: PartialLabels, prior: KernelPrior) -> Sampler:
        return probit_gp.regions_sampler(X, self._family(X, labels, prior), prior)

    def _infer(self, X: Array, labels: PartialLabels, prior: KernelPrior, digest: str) -> Record:
        if self.inference_ == "gibbs":
            draws = super()._infer(X, labels, prior, digest)
            phi = draws["region_parameters"]
            self._describe_regions(phi.reshape(phi.shape[0] * phi.shape[1], phi.shape[2]))
            return draws
        from tqdm import tqdm

        name = NAMES[self.inference_]
        with tqdm(disable=not self.verbose, desc=name, unit=" iterations") as bar:

            def report(iteration: int, value: float) -> None:
                bar.update()
                bar.set_postfix(log_evidence=f"{value:.3f}")

            result: VariationalResult | EPResult
            if self.inference_ == "vb":
                result = self._variational(X, labels, prior, report)
                self.posterior_ = probit_gp.variational_posterior(result, X, prior)
                evidences = self.lower_bounds_ = result.lower_bounds
            else:
                regions = self._family(X, labels, prior)
                result = probit_gp.regions_propagation(X, regions, prior, report)
                self.posterior_ = probit_gp.propagated_posterior(result, X, prior)
                evidences = result.log_evidences
                self.log_evidence_ = float(evidences[-1])
        self.draws_: Record = {}
        self.kernel_ = kernel_at(prior, result.log_parameters)
        self._describe_regions(result.region_parameters[None])
        self.diagnostics_ = self._diagnose_search(name, evidences, result.converged, result.jitter)
        return {}

    def _diagnose_search(
        self, name: str, evidences: Array, converged: bool, jitter: float
    ) -> dict[str, Any]:
        n_iterations, value = len(evidences) - 1, float(evidences[-1])
        what = "a lower bound" if self.inference_ == "vb" else "an estimate"
        sentence = (
            f"{name} converged in {n_iterations} iterations, with {what} of {value:.2f} for the "
            "log evidence."
            if converged
            else f"{name} had not converged after {n_iterations} iterations; standardise the "
            'features, or use inference="gibbs".'
        )
        if not converged:
            warnings.warn(f"{type(self).__name__}: {sentence}", ConvergenceWarning, stacklevel=5)
        return {
            "log_evidence": value,
            "n_iterations": n_iterations,
            "jitter": jitter,
            "interrupted": False,
            "mixed": converged,
            "verdict": sentence,
        }

    def _make_posterior(self, X: Array, prior: KernelPrior, draws: Record) -> LatentPosterior:
        return LatentPosterior(
            prior, X, draws["log_parameters"], draws["weights"], draws["region_parameters"]
        )

    # Prediction -----------------------------------------------------------------------------------

    def _log_proba(self, X: Array) -> Array:
        return probit_gp.predict_log_proba(self.posterior_, X, self._log_class_probabilities)

    def _latent(self, X: Array) -> tuple[Array, Array]:
        return probit_gp.predict_latent(self.posterior_, X)


class ProbitGPClassifier(AuxiliaryClassifier):
    """Probit Gaussian process classifier; unlabelled rows set the scale of its prior alone.

    Two classes: f ~ GP(0, C(θ)), z_n ~ N(f(x_n), 1), y_n is the second class where z_n > 0. More:
    one f and one z a class, and y_n is the class with the largest z. The posterior of z and θ is
    sampled by Gibbs with f integrated out, or found by variational Bayes; predictions average the
    probit over it in closed form (two classes) or by a quadrature exact to rounding (more).

    An exact sweep costs O(n³) time and 8·8·n² bytes for n labelled rows.

    Parameters
    ----------
    kernel : "isotropic", "ard" or a scikit-learn kernel
        The first two put a prior on amplitude and length-scales that follows the units of X. A
        kernel's own free parameters are sampled around the values given; fixed ones stay. One
        kernel serves all classes.
    inference : "auto", "gibbs" or "vb"
        Gibbs sampling, or variational Bayes: minutes of sampling in a second, with θ at its best
        value and a narrower posterior. "auto" samples up to 300 rows in the model.
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
    inference_ : "gibbs" or "vb", what was used
    label_distributions_ : (n, K) class probabilities of the training rows; given labels are certain
    transduction_ : (n,) the most probable class of each training row
    posterior_ : LatentPosterior, what prediction needs
    draws_ : dict of (chain, draw) arrays: log-likelihood and log-parameters; empty after "vb"
    lower_bounds_ : (t,) bound on the log evidence after every iteration, after "vb"
    diagnostics_ : dict with R-hat, effective sample sizes, jitter and a verdict in words
    kernel_ : the kernel at the posterior mean of its log-parameters, or where the bound is highest

    References
    ----------
    S. Rogers, lecture "GPs for classification and ordinal regression via the auxiliary variable
    trick" (2014). C. Holmes and L. Held, "Bayesian auxiliary variable models for binary and
    multinomial regression" (2006). M. Girolami and S. Rogers, "Variational Bayesian multinomial
    probit regression with Gaussian process priors" (2006).

    Examples
    --------
    >>> from atoll.datasets import make_pinwheel
    >>> from atoll.estimators import ProbitGPClassifier
    >>> X, y = make_pinwheel(n_samples=60, n_classes=3, random_state=0)
    >>> model = ProbitGPClassifier(inference="vb")
    >>> model.fit(X, y).predict_proba(X[:1]).shape
    (1, 3)
    """

    paper = "Rogers 2014 (lecture); Girolami & Rogers 2006"
    summary = "two or more classes, labelled rows only; the supervised twin of null-category"

    def _rows_used(self, labels: PartialLabels) -> NDArray[np.bool_]:
        return labels.is_labelled

    def _family(self, X: Array, labels: PartialLabels, prior: KernelPrior) -> RegionFamily:
        return probit_gp.family(labels.codes, len(labels.classes))

    def _log_class_probabilities(self, mean: Array, variance: Array, phi: Array) -> Array:
        return probit_gp.log_class_probabilities(mean, variance, phi)


class NullCategoryClassifier(AuxiliaryClassifier):
    """Gaussian process classifier that learns from unlabelled rows: the null category.

    As the probit Gaussian process, but between the classes lies a null region, and no row,
    labelled or not, is in it: the boundary between the classes moves to where there are no rows.
    Two classes: |z| < w/2 is null. More: class k is z_k > z_i + w/√2 for every other i. With
    `null_width=0` and every row labelled it is ProbitGPClassifier, draw for draw.

    An exact sweep costs O(n³) time and 8·8·n² bytes for n rows, labelled or not: to about 2000.

    Parameters
    ----------
    null_width : float or "sample"
        w, in units of the noise of z, which has variance one. 0 switches the null region off.
        "sample" learns it, under a log-normal prior centred on one.
    missing_rates : None, "sample" or (K,) numbers
        The chance that a row of each class has no label. None: the same for all, so that a missing
        label does not speak for any class. "sample" learns them.
    kernel, inference, n_chains, n_warmup, n_samples, thin, checkpoint, unlabelled, random_state, \
n_jobs, verbose
        As in ProbitGPClassifier.

    Attributes
    ----------
    classes_ : (K,) the labels, sorted
    inference_ : "gibbs" or "vb", what was used
    null_width_ : w as given, or its posterior mean
    missing_rates_ : (K,) as given, or their posterior means; None where they are the same for all
    label_distributions_ : (n, K) class probabilities of the training rows; given labels are certain
    transduction_ : (n,) the most probable class of each training row
    posterior_ : LatentPosterior, what prediction needs
    draws_ : dict of (chain, draw) arrays: log-likelihood, log-parameters, whatever else is sampled,
        and the expected share of every class but the first among the unlabelled rows; empty
        after "vb"
    lower_bounds_ : (t,) bound on the log evidence after every iteration, after "vb"
    diagnostics_ : dict with R-hat, effective sample sizes, jitter and a verdict in words
    kernel_ : the kernel at the posterior mean of its log-parameters, or where the bound is highest

    References
    ----------
    N. D. Lawrence and M. I. Jordan, "Semi-supervised learning via Gaussian processes" (2005).
    S. Rogers and M. Girolami, "Multi-class semi-supervised learning with the ε-truncated
    multinomial probit Gaussian process" (2007). S. Rogers, lecture "GPs for classification and
    ordinal regression via the auxiliary variable trick" (2014).

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

    paper = "Lawrence & Jordan 2005; Rogers & Girolami 2007; Rogers 2014 (lecture)"
    summary = "two or more classes, learns from unlabelled rows: the boundary avoids the data"

    def __init__(
        self,
        *,
        null_width: float | str = 1.0,
        missing_rates: Any = None,
        kernel: str | Kernel = "isotropic",
        inference: str = "auto",
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
            inference=inference,
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
        self.missing_rates = missing_rates

    def _check_labels(self, labels: PartialLabels) -> None:
        super()._check_labels(labels)
        check_null_width(self.null_width, may_sample=True)
        self._check_missing_rates(labels)

    def _check_missing_rates(self, labels: PartialLabels) -> None:
        rates = self.missing_rates
        if rates is None or (isinstance(rates, str) and rates == "sample"):
            return
        K = len(labels.classes)
        try:
            values = np.asarray(rates, dtype=float)
        except (TypeError, ValueError):
            values = np.zeros(0)
        # A class whose labels are never missing has no unlabelled rows; one of always, no label.
        if values.shape != (K,) or not np.all((values >= 0) & (values < 1)):
            raise ValueError(
                f"missing_rates={rates!r} must be None, 'sample' or {K} numbers in [0, 1), one a "
                f"class in the order {labels.classes.tolist()!r}."
            )
        if not labels.is_labelled.all() and not values.any():
            raise ValueError(
                f"missing_rates={rates!r} says that no label is ever missing, and "
                f"{int((~labels.is_labelled).sum())} are; give a positive rate, or None."
            )

    def _rows_used(self, labels: PartialLabels) -> NDArray[np.bool_]:
        return np.ones(len(labels.codes), dtype=bool)

    def _family(self, X: Array, labels: PartialLabels, prior: KernelPrior) -> RegionFamily:
        free_rates = self._free_rates
        return null_likelihood.family(
            labels.codes,
            labels.is_labelled,
            len(labels.classes),
            self._fixed_width,
            None if free_rates else self.missing_rates,
            sample_missing_rates=free_rates,
        )

    def _sampler(self, X: Array, labels: PartialLabels, prior: KernelPrior) -> Sampler:
        regions = self._family(X, labels, prior)
        return null_category.sampler(X, labels.codes, labels.is_labelled, prior, regions)

    def _variational(
        self, X: Array, labels: PartialLabels, prior: KernelPrior, report: Report
    ) -> VariationalResult:
        regions = self._family(X, labels, prior)
        return null_category.variational(X, labels.is_labelled, prior, regions, report)

    def _log_class_probabilities(self, mean: Array, variance: Array, phi: Array) -> Array:
        width = float(np.exp(phi[0])) if self._fixed_width is None else self._fixed_width
        if mean.ndim == 1:
            return null_likelihood.log_class_probabilities(mean, variance, width)
        return null_likelihood.log_margin_class_probabilities(mean, variance, width)

    def _describe_regions(self, region_parameters: Array) -> None:
        phi, width = region_parameters, self._fixed_width
        self.null_width_ = float(np.exp(phi[:, 0]).mean()) if width is None else width
        if self._free_rates:
            rates = null_likelihood.missing_rates_at(phi, len(self.classes_))
            self.missing_rates_: Any = rates.mean(axis=0)
        else:
            self.missing_rates_ = self.missing_rates

    def _unlabelled_distributions(self, X: Array, draws: Record) -> Array:
        if not draws:
            return super()._unlabelled_distributions(X, draws)
        return draws["unlabelled_probabilities"].mean(axis=(0, 1))

    def _extra_quantities(self, labels: PartialLabels, draws: Record) -> Record:
        if labels.is_labelled.all():
            return {}
        shares = draws["unlabelled_probabilities"].mean(axis=2)
        return {f"share_of_class_{k}": shares[..., k] for k in range(1, shares.shape[2])}

    @property
    def _fixed_width(self) -> float | None:
        return None if isinstance(self.null_width, str) else float(self.null_width)

    @property
    def _free_rates(self) -> bool:
        return isinstance(self.missing_rates, str)


def check_null_width(null_width: Any, *, may_sample: bool) -> None:
    """Raise a ValueError unless it is zero, a positive number or, if allowed, "sample"."""
    w = null_width
    if may_sample and isinstance(w, str) and w == "sample":
        return
    if isinstance(w, bool) or not (isinstance(w, Real) and 0 <= float(w) < np.inf):
        also = ', or "sample"' if may_sample else ""
        raise ValueError(f"null_width={w!r} must be zero or a positive number{also}.")
