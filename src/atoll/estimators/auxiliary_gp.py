"""Gaussian process classifiers of the auxiliary-variable family: probit and null category."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Mapping
from numbers import Integral, Real
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import Kernel
from sklearn.utils.validation import check_is_fitted

from atoll.core.labels import PartialLabels
from atoll.core.memory import check_memory
from atoll.core.regions import RegionFamily
from atoll.estimators.sampled import SampledClassifier
from atoll.inference.chains import Record, Sampler
from atoll.inference.ep import NEGATIVE
from atoll.inference.ivm import IVMResult
from atoll.inference.type_two import Approximation, LogPrior, Report
from atoll.kernels.hyperparameters import KernelPrior, kernel_at
from atoll.likelihoods import RegionLikelihood
from atoll.likelihoods import null_category as null_likelihood
from atoll.models import informative_vector, null_category, probit_gp
from atoll.models.informative_vector import NoiseModel
from atoll.models.probit_gp import LatentPosterior

Array = NDArray[np.float64]

# Up to so many rows in the kernel matrix "auto" samples: a few minutes on one core.
GIBBS_ROWS = 300
NAMES = {
    "vb": "Variational Bayes",
    "ep": "Expectation propagation",
    "adf": "Assumed-density filtering",
}


class Search(NamedTuple):
    """How a maximum was found.

    log_evidences : after every step, or a bound on it
    step : what a step is
    more : diagnostics besides
    remark : to add to the verdict
    """

    log_parameters: Array
    log_evidences: Array
    converged: bool
    jitter: float
    step: str = "iteration"
    more: Mapping[str, Any] = MappingProxyType({})
    remark: str = ""

    @property
    def n_steps(self) -> int:
        return max(len(self.log_evidences) - (self.step == "iteration"), 0)

    @property
    def log_evidence(self) -> float:
        return float(self.log_evidences[-1]) if len(self.log_evidences) else float("nan")


class AuxiliaryClassifier(SampledClassifier):
    """Functions known through z = f + ε: what probit, ordinal and null category share."""

    dense_copies = 8
    inferences: ClassVar[tuple[str, ...]] = ("auto", "mcmc", "vb")

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
    def _likelihood(self, n_classes: int) -> RegionLikelihood:
        """What class probabilities follow from the functions and φ."""

    def _variational(
        self, X: Array, labels: PartialLabels, prior: KernelPrior, report: Report
    ) -> Approximation:
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
        automatic = "mcmc" if few else self._inference_of_many(labels)
        self.inference_ = automatic if self.inference == "auto" else self.inference

    def _inference_of_many(self, labels: PartialLabels) -> str:
        """What "auto" takes where sampling would be slow."""
        return "vb"

    def _sampler(self, X: Array, labels: PartialLabels, prior: KernelPrior) -> Sampler:
        return probit_gp.regions_sampler(X, self._family(X, labels, prior), prior)

    def _infer(self, X: Array, labels: PartialLabels, prior: KernelPrior, digest: str) -> Record:
        if self.inference_ == "mcmc":
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

            if self.inference_ == "vb":
                result = self._variational(X, labels, prior, report)
                likelihood = self._likelihood(len(labels.classes))
                self.posterior_ = probit_gp.approximate_posterior(result, X, prior, likelihood)
                self.objectives_ = result.log_evidences
                found = Search(result.log_parameters, result.log_evidences, result.converged,
                               result.jitter)  # fmt: skip
                self._describe_regions(result.region_parameters[None])
            else:
                found = self._propagation(X, labels, prior, report)
                self.log_evidence_ = found.log_evidence
        self.draws_: Record = {}
        self.kernel_ = kernel_at(prior, found.log_parameters)
        self.diagnostics_ = self._diagnose_search(name, found)
        return {}

    def _propagation(
        self, X: Array, labels: PartialLabels, prior: KernelPrior, report: Report
    ) -> Search:
        """Sets `posterior_`, and what the model says of its regions."""
        result = probit_gp.regions_propagation(X, self._family(X, labels, prior), prior, report)
        likelihood = self._likelihood(len(labels.classes))
        self.posterior_: Any = probit_gp.approximate_posterior(result, X, prior, likelihood)
        self._describe_regions(result.region_parameters[None])
        return Search(result.log_parameters, result.log_evidences, result.converged, result.jitter)

    def _diagnose_search(self, name: str, found: Search) -> dict[str, Any]:
        what = "a lower bound" if self.inference_ == "vb" else "an estimate"
        steps = f"{found.n_steps} {found.step}{'s' * (found.n_steps != 1)}"
        sentence = (
            f"{name} converged in {steps}, with {what} of {found.log_evidence:.2f} for the "
            "log evidence."
            if found.converged
            else f"{name} had not converged after {steps}; standardise the "
            'features, or use inference="mcmc".'
        ) + found.remark
        if not found.converged:
            warnings.warn(f"{type(self).__name__}: {sentence}", ConvergenceWarning, stacklevel=5)
        return {
            "log_evidence": found.log_evidence,
            "n_iterations": found.n_steps,
            "jitter": found.jitter,
            **found.more,
            "interrupted": False,
            "mixed": found.converged,
            "verdict": sentence,
        }

    def _make_posterior(self, X: Array, prior: KernelPrior, draws: Record) -> LatentPosterior:
        return LatentPosterior(
            prior,
            X,
            draws["log_parameters"],
            draws["weights"],
            draws["region_parameters"],
            self._likelihood(len(self.classes_)),
        )

    # Prediction -----------------------------------------------------------------------------------

    def _log_proba(self, X: Array) -> Array:
        return self.posterior_.log_proba(X)

    def _latent(self, X: Array) -> tuple[Array, Array]:
        return self.posterior_.latent(X)


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
    inference : "auto", "mcmc", "vb" or "ep"
        Gibbs sampling, or variational Bayes: minutes of sampling in a second, with θ at its best
        value and a narrower posterior. "auto" samples up to 300 rows in the model. "ep" is
        expectation propagation, which for more than two classes sets each against the rest.
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
    inference_ : "mcmc", "vb" or "ep", what was used
    label_distributions_ : (n, K) class probabilities of the training rows; given labels are certain
    transduction_ : (n,) the most probable class of each training row
    posterior_ : LatentPosterior, what prediction needs
    draws_ : dict of (chain, draw) arrays: log-likelihood and log-parameters; empty after "vb"
    objectives_ : (t,) bound on the log evidence after every iteration, after "vb"
    log_evidence_ : its estimate, after "ep"
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
    inferences = ("auto", "mcmc", "vb", "ep")

    def _rows_used(self, labels: PartialLabels) -> NDArray[np.bool_]:
        return labels.is_labelled

    def _family(self, X: Array, labels: PartialLabels, prior: KernelPrior) -> RegionFamily:
        return probit_gp.family(labels.codes, len(labels.classes))

    def _propagation(
        self, X: Array, labels: PartialLabels, prior: KernelPrior, report: Report
    ) -> Search:
        problems, noise = informative_vector.against_the_rest(labels), NoiseModel(null_width=0.0)
        biases = [0.0] * len(problems)
        families = [
            informative_vector.family(codes, labels.is_labelled, noise, 0.0) for codes in problems
        ]
        result = informative_vector.fit(X, families, prior, report=report)
        self.posterior_ = informative_vector.posterior(result, X, prior, noise, biases)
        return search_of(result)

    def _likelihood(self, n_classes: int) -> RegionLikelihood:
        return probit_gp.likelihood(n_classes)


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
        label does not speak for any class. "sample" learns them; "share" sets all to the share of
        unlabelled rows, which changes the evidence alone.
    inference : "auto", "mcmc", "vb", "ep" or "adf"
        As in ProbitGPClassifier; "ep", expectation propagation, and "adf", one pass of
        assumed-density filtering, match moments as the paper does.
    n_active : int or None
        Of "ep" and "adf": keep to so many rows, the most telling ones (the informative vector
        machine), in O(n n_active²) time. None: all rows.
    n_rounds : int
        Of "ep" and "adf": at most so many rounds of selecting rows and learning the kernel.
    bias : float, "share" or "learn"
        Of "ep" and "adf": added to f. "share" gives each class its share of the labels where f is
        zero.
    noise_variance : float
        Of "ep" and "adf": of z given f; the paper's likelihood is a step, nearly one at 1e-6, and
        its noise a WhiteKernel.
    variance_rate : float, optional
        Of "ep" and "adf": rate of an exponential prior on the kernel's variances, in place of the
        log-normal one.
    negative : "zero" or "allow"
        Of "ep" and "adf": what becomes of a site of negative precision.
    kernel, n_chains, n_warmup, n_samples, thin, checkpoint, unlabelled, random_state, \
n_jobs, verbose
        As in ProbitGPClassifier.

    Attributes
    ----------
    classes_ : (K,) the labels, sorted
    inference_ : what was used
    bias_ : of every function, after "ep" and "adf"
    log_evidence_ : its estimate, after "ep" and "adf", of the active rows where there are such
    null_width_ : w as given, or its posterior mean
    missing_rates_ : (K,) as given, or their posterior means; None where they are the same for all
    label_distributions_ : (n, K) class probabilities of the training rows; given labels are certain
    transduction_ : (n,) the most probable class of each training row
    posterior_ : LatentPosterior, what prediction needs
    draws_ : dict of (chain, draw) arrays: log-likelihood, log-parameters, whatever else is sampled,
        and the expected share of every class but the first among the unlabelled rows; empty
        after "vb"
    objectives_ : (t,) bound on the log evidence after every iteration, after "vb"
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
    >>> model = NullCategoryClassifier(n_chains=2, n_samples=600, random_state=0)
    >>> model.fit(X, y).transduction_.shape
    (40,)
    """

    missing_rates_: Any
    inferences = ("auto", "mcmc", "vb", "ep", "adf")
    paper = "Lawrence & Jordan 2005; Rogers & Girolami 2007; Rogers 2014 (lecture)"
    summary = "two or more classes, learns from unlabelled rows: the boundary avoids the data"

    def __init__(
        self,
        *,
        null_width: float | str = 1.0,
        missing_rates: Any = None,
        kernel: str | Kernel = "isotropic",
        inference: str = "auto",
        n_active: int | None = None,
        n_rounds: int = 15,
        bias: float | str = 0.0,
        noise_variance: float = 1.0,
        variance_rate: float | None = None,
        negative: str = "zero",
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
        self.n_active = n_active
        self.n_rounds = n_rounds
        self.bias = bias
        self.noise_variance = noise_variance
        self.variance_rate = variance_rate
        self.negative = negative

    def predict_proba(self, X: Any, transductive: bool = False) -> Array:
        """Class probabilities, averaged over the posterior; X (m, d) -> (m, K).

        Far from all data they are those of the prior, never NaN.

        Parameters
        ----------
        X : (m, d)
        transductive : bool
            Whether the rows of X, which are in no null region either, update the functions first,
            all together (paper, section 4.1), after "ep" or "adf". O(m³) time.
        """
        if not transductive:
            return super().predict_proba(X)
        check_is_fitted(self)
        if not hasattr(self.posterior_, "transductive_log_proba"):
            raise ValueError(
                f"transductive=True takes a model fitted by expectation propagation, and this one "
                f'was by {self.inference_!r}; fit it with inference="ep" or "adf".'
            )
        rows = self._read_rows(X)
        check_memory(
            8 * 6 * len(rows) ** 2,
            what=f"a transductive prediction of {len(rows)} rows",
            instead="Predict fewer rows at a time.",
        )
        return np.exp(self.posterior_.transductive_log_proba(rows, self.negative))

    def _check_labels(self, labels: PartialLabels) -> None:
        super()._check_labels(labels)
        check_null_width(self.null_width, may_sample=True)
        self._check_missing_rates(labels)
        check_moment_matching(self)
        if self.inference_ in ("ep", "adf"):
            return
        for name, default in (("n_active", None), ("bias", 0.0), ("noise_variance", 1.0),
                              ("variance_rate", None)):  # fmt: skip
            if getattr(self, name) != default:
                raise ValueError(
                    f"{name}={getattr(self, name)!r} is of moment matching, and the inference here "
                    f'is {self.inference_!r}; use inference="ep" or "adf", or {name}={default!r}.'
                )

    def _check_missing_rates(self, labels: PartialLabels) -> None:
        rates = self.missing_rates
        if rates is None or (isinstance(rates, str) and rates in ("sample", "share")):
            return
        K = len(labels.classes)
        try:
            values = np.asarray(rates, dtype=float)
        except (TypeError, ValueError):
            values = np.zeros(0)
        # A class whose labels are never missing has no unlabelled rows; one of always, no label.
        if values.shape != (K,) or not np.all((values >= 0) & (values < 1)):
            raise ValueError(
                f"missing_rates={rates!r} must be None, 'sample', 'share' or {K} numbers in "
                f"[0, 1), one a class in the order {labels.classes.tolist()!r}."
            )
        if not labels.is_labelled.all() and not values.any():
            raise ValueError(
                f"missing_rates={rates!r} says that no label is ever missing, and "
                f"{int((~labels.is_labelled).sum())} are; give a positive rate, or None."
            )

    def _rows_used(self, labels: PartialLabels) -> NDArray[np.bool_]:
        return np.ones(len(labels.codes), dtype=bool)

    def _family(self, X: Array, labels: PartialLabels, prior: KernelPrior) -> RegionFamily:
        return null_likelihood.family(
            labels.codes,
            labels.is_labelled,
            len(labels.classes),
            self._fixed_width,
            self._given_rates(labels, len(labels.classes)),
            sample_missing_rates=self._free_rates,
        )

    def _given_rates(self, labels: PartialLabels, n_classes: int) -> Any:
        """γ as given, or the unlabelled share, the best of rates that are the same for all."""
        if self._free_rates or self.missing_rates is None:
            return None
        if isinstance(self.missing_rates, str):
            missing = (~labels.is_labelled).mean()
            self.missing_rates_ = np.full(n_classes, missing)
            return None if missing == 0 else self.missing_rates_
        return self.missing_rates

    def _propagation(
        self, X: Array, labels: PartialLabels, prior: KernelPrior, report: Report
    ) -> Search:
        noise_variance = float(self.noise_variance)
        problems, seen = informative_vector.against_the_rest(labels), labels.is_labelled
        rates = self._given_rates(labels, 2)
        if rates is not None and len(problems) > 2 and not isinstance(self.missing_rates, str):
            raise ValueError(
                f"missing_rates={self.missing_rates!r} with {len(problems)} classes takes "
                'inference="mcmc" or "vb": moment matching sets one class against all others.'
            )
        noise = NoiseModel(self._fixed_width, rates, self._free_rates, self.bias == "learn")
        biases = [self._bias_of(codes, seen) for codes in problems]
        options: dict[str, Any] = {
            "refine": self.inference_,
            "n_active": self.n_active,
            "n_rounds": int(self.n_rounds),
            "log_prior": variance_prior(prior, self.variance_rate),
            "negative": self.negative,
            "noise_variance": noise_variance,
            "report": report,
        }
        families = [
            informative_vector.family(codes, seen, noise, bias)
            for codes, bias in zip(problems, biases)
        ]
        if seen.all():
            result = informative_vector.fit(X, families, prior, **options)
        else:
            check = informative_vector.share_check(problems, seen, noise, biases, noise_variance)
            few = self.n_active is None or 4 * seen.sum() <= self.n_active
            options["first"] = seen if few else None  # rows without labels are to have a place
            result = informative_vector.fit_with_restarts(
                X, families, prior, check, seen, **options
            )
        p = informative_vector.posterior(result, X, prior, noise, biases, noise_variance)
        self.posterior_ = p
        self.null_width_, self.bias_ = float(p.likelihood.null_width.mean()), p.bias
        if self._free_rates:
            rates = np.exp(p.likelihood.log_rates)
            self.missing_rates_ = rates if len(problems) > 1 else rates[0]
        elif not isinstance(self.missing_rates, str):
            self.missing_rates_ = self.missing_rates
        return search_of(result)

    def _bias_of(self, codes: NDArray[np.intp], seen: NDArray[np.bool_]) -> float:
        if isinstance(self.bias, str):
            return informative_vector.share_bias(codes, seen)
        return float(self.bias)

    def _sampler(self, X: Array, labels: PartialLabels, prior: KernelPrior) -> Sampler:
        regions = self._family(X, labels, prior)
        return null_category.sampler(X, labels.codes, labels.is_labelled, prior, regions)

    def _variational(
        self, X: Array, labels: PartialLabels, prior: KernelPrior, report: Report
    ) -> Approximation:
        regions = self._family(X, labels, prior)
        return null_category.variational(X, labels.is_labelled, prior, regions, report)

    def _likelihood(self, n_classes: int) -> RegionLikelihood:
        return null_likelihood.NullCategory(self._fixed_width, n_classes)

    def _describe_regions(self, region_parameters: Array) -> None:
        phi, width = region_parameters, self._fixed_width
        self.null_width_ = float(np.exp(phi[:, 0]).mean()) if width is None else width
        if self._free_rates:
            rates = null_likelihood.missing_rates_at(phi, len(self.classes_))
            self.missing_rates_ = rates.mean(axis=0)
        elif not isinstance(self.missing_rates, str):
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
        return isinstance(self.missing_rates, str) and self.missing_rates == "sample"

    def _check_memory(self, n: int, n_classes: int) -> None:
        if self.inference_ in ("ep", "adf") and self.n_active is not None:
            d = min(int(self.n_active), n)
            check_memory(
                8 * (d * n * 2 + 8 * d * d),
                what=f"{type(self).__name__} with {d} active rows of {n}",
                instead="Lower n_active.",
            )
        else:
            super()._check_memory(n, n_classes)


def search_of(result: IVMResult) -> Search:
    """What to say of active sets and their hyper-parameters."""
    n_negative = sum(one.n_negative for one in result.problems)
    n_active = max(len(one.rows) for one in result.problems)
    more = {"n_active": n_active, "n_negative": n_negative, "unlabelled_used": result.believed}
    remark = (
        ""
        if result.believed
        else " Whatever the length-scale, the unlabelled rows did not fall to the classes as the "
        "labels do, and were left out; more labels would bring them in."
    )
    return Search(
        result.log_parameters,
        result.log_evidences,
        result.converged,
        result.jitter,
        "iteration" if result.whole else "round",
        more,
        remark,
    )


def variance_prior(prior: KernelPrior, rate: float | None) -> LogPrior | None:
    """What `variance_rate` asks for; None for the kernel's own prior."""
    if rate is None:
        return None
    return informative_vector.exponential_prior(prior, float(rate))


def check_moment_matching(estimator: Any) -> None:
    """Raise a ValueError for a parameter of moment matching that is none."""
    d, rounds, rate = estimator.n_active, estimator.n_rounds, estimator.variance_rate
    if d is not None and not (_is_whole(d) and d >= 2):
        raise ValueError(f"n_active={d!r} must be None, for all rows, or an integer from 2 upward.")
    if not (_is_whole(rounds) and rounds >= 1):
        raise ValueError(f"n_rounds={rounds!r} must be an integer from 1 upward.")
    b = estimator.bias
    if b not in ("share", "learn") if isinstance(b, str) else not _is_number(b):
        raise ValueError(f'bias={b!r} must be a number, "share" or "learn".')
    if not (_is_number(estimator.noise_variance) and estimator.noise_variance > 0):
        raise ValueError(
            f"noise_variance={estimator.noise_variance!r} must be a positive number; a step is "
            "nearly one at 1e-6."
        )
    if rate is not None and not (_is_number(rate) and rate > 0):
        raise ValueError(f"variance_rate={rate!r} must be None or a positive number.")
    if estimator.negative not in NEGATIVE:
        raise ValueError(
            f"negative={estimator.negative!r} is none of {', '.join(map(repr, NEGATIVE))}."
        )


def _is_whole(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool) and np.isfinite(float(value))


def check_null_width(null_width: Any, *, may_sample: bool) -> None:
    """Raise a ValueError unless it is zero, a positive number or, if allowed, "sample"."""
    w = null_width
    if may_sample and isinstance(w, str) and w == "sample":
        return
    if isinstance(w, bool) or not (isinstance(w, Real) and 0 <= float(w) < np.inf):
        also = ', or "sample"' if may_sample else ""
        raise ValueError(f"null_width={w!r} must be zero or a positive number{also}.")
