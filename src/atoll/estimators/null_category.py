"""The null category classifier: a Gaussian process whose class boundary avoids the data."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.gaussian_process.kernels import Kernel
from sklearn.utils.validation import check_is_fitted

from atoll.core.labels import PartialLabels
from atoll.core.memory import check_memory
from atoll.core.regions import RegionFamily
from atoll.estimators import auxiliary_gp, moment_matching
from atoll.estimators.auxiliary_gp import (
    RegionModel,
    chosen_inference,
    fit_by_chains,
    fit_by_search,
    told_by_left_out,
)
from atoll.estimators.belief import doubting_itself, with_doubt, with_remark
from atoll.estimators.moment_matching import fit_by_matching, plan_of
from atoll.estimators.parameters import (
    Listed,
    Nothing,
    Number,
    OneOf,
    Whole,
    check_folds,
    inference,
)
from atoll.estimators.searches import LEFT_OUT
from atoll.estimators.shell import Classifier, Fit, Need
from atoll.inference.chains import Record
from atoll.inference.registry import OVER_REGIONS
from atoll.inference.type_two import Approximation, Report
from atoll.kernels.hyperparameters import KernelPrior, kernel_prior
from atoll.likelihoods import null_category as null_likelihood
from atoll.models import class_shares, null_category
from atoll.models.belief import (
    BELIEFS,
    PRIOR_OF_VARIATION,
    doubted,
    weigh_left_out,
    without_label,
)
from atoll.models.informative_vector import NoiseModel
from atoll.models.probit_gp import approximate_posterior

Array = NDArray[np.float64]

BY_MATCHING = ("ep", "adf")
UNTESTED = (
    "With one label per class none can be hidden to test whether the null category holds: class "
    "probabilities are halfway to those of the labelled rows alone. A second label of each class "
    "would tell."
)
ONE_EACH = (
    "With one label per class none can be hidden to test whether the null category holds: its word "
    "counts {:.0%}, the shares the rest. A second label of each class would tell."
)
WIDEST = 1000.0  # null region: of wider ones nothing is left in double precision
NOT_HIDDEN = (
    "No label was hidden from the fit to test whether the null category holds here, and class "
    "probabilities are its own; n_folds=5 tests it."
)


class NullCategoryClassifier(Classifier):
    """Gaussian process classifier that learns from unlabelled rows: the null category.

    As in the probit Gaussian process, a label confines z_n ~ N(f(x_n), 1); but between the classes
    lies a null region, and no row, labelled or not, is in it: the boundary between the classes
    moves to where there are no rows. Two classes: |z| < w/2 is null. More: class k is
    z_k > z_i + w/√2 for every other i. With `null_width=0` and every row labelled it is
    ProbitGPClassifier, draw for draw.

    An exact sweep costs O(n³) time and 8·8·n² bytes for n rows, labelled or not: to about 2000.

    Parameters
    ----------
    null_width : float or "sample", default=1.0
        w, in units of the noise of z, which has variance one; at most 1000. 0 switches the null
        region off.
        "sample" learns it, under a log-normal prior centred on one.
    missing_rates : None, "sample", "share" or (K,) numbers, default=None
        The chance that a row of each class has no label. None: the same for all, so that a missing
        label does not speak for any class. "sample" learns them. "share" sets all to the share of
        unlabelled rows, which changes the evidence alone.
    kernel : "isotropic", "ard" or a scikit-learn kernel, default="isotropic"
        The first two put a prior on amplitude and length-scales that follows the units of X. A
        kernel's own free parameters are sampled around the values given; fixed ones stay. One
        kernel serves all classes.
    inference : "auto", "mcmc", "vb", "ep" or "adf", default="auto"
        "mcmc" is Gibbs sampling. "vb", variational Bayes, takes seconds where sampling takes
        minutes (with six classes or more it may take minutes, too), with θ at its best value and
        a narrower posterior; unlabelled rows are left out where they do not fall to the classes as
        the labels do, or where labels hidden from the fit are not predicted; and as far as these
        are still not predicted, class probabilities are drawn towards the classes' shares.
        `diagnostics_` say so. "auto" is "vb"; where every row has a label, it samples up to 300.
        "ep", expectation propagation, and "adf", one pass of assumed-density filtering, match
        moments as the paper does, and set each of three or more classes against the rest; hidden
        labels test them as they test "vb".
    n_active : int or None, default=None
        Of "ep" and "adf": number of rows to use, the most telling ones (the informative vector
        machine), in O(n n_active²) time. None: all rows.
    n_rounds : int, default=15
        Of "ep" and "adf": most rounds of selecting rows and learning the kernel.
    n_folds : int, default=5
        In which labels are hidden from "vb", "ep" and "adf", to test whether the null category
        holds; "mcmc" leaves each out by weighting draws. 0, as in the paper, tests nothing.
    bias : float, "share" or "learn", default=0.0
        Of "ep" and "adf": added to f. "share" gives each class its share of the labels where f is
        zero; "learn" learns it around that.
    noise_variance : float, default=1.0
        Of "ep" and "adf": of z given f. The paper's likelihood is a step, nearly one at 1e-6, and
        its noise a WhiteKernel.
    variance_rate : float, default=None
        Of "ep" and "adf": rate of an exponential prior on the kernel's variances, in place of the
        log-normal one.
    negative : "zero" or "allow", default="zero"
        Of "ep" and "adf": what becomes of a site of negative precision.
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
    inference_ : "mcmc", "vb", "ep" or "adf", what was used
    unlabelled_ : what meant unlabelled besides nulls
    null_width_ : w as given, or its posterior mean
    missing_rates_ : (K,) as given, or their posterior means; None where they are the same for all.
        Learned by "ep" or "adf" with three or more classes: (K, 2), of the rest and of the class
    bias_ : (number of functions,) b, after "ep" and "adf", and after "vb" where it left the
        unlabelled rows out
    label_distributions_ : (n, K) class probabilities of the training rows; given labels are certain
    transduction_ : (n,) the most probable class of each training row
    posterior_ : what prediction needs
    draws_ : dict of (chain, draw) arrays: log-likelihood, log-parameters, whatever else is sampled,
        and the expected share of every class but the first among the unlabelled rows; empty but
        for "mcmc"
    objectives_ : (t,) log evidence after every step: a lower bound on it ("vb") or an estimate of
        it ("ep" and "adf", of the active rows where there are such)
    log_evidence_ : the last of these
    diagnostics_ : dict with R-hat, effective sample sizes, jitter and a verdict in words
    kernel_ : the kernel at the posterior mean of its log-parameters, or at their best values

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
    >>> model = NullCategoryClassifier(inference="vb")
    >>> model.fit(X, y).transduction_.shape
    (40,)
    """

    paper = "Lawrence & Jordan 2005; Rogers & Girolami 2007; Rogers 2014 (lecture)"
    summary = "two or more classes, learns from unlabelled rows: the boundary avoids the data"
    holds_labels_out = True
    compares_columns = True
    keeps_rows = True
    parameters = (
        {
            "null_width": Number(least=0, most=WIDEST) | OneOf("sample"),
            "missing_rates": Nothing("the same for all classes")
            | OneOf("sample", "share")
            | Listed("one number in [0, 1) per class", Number(least=0, below=1)),
        }
        | auxiliary_gp.RULES
        | {"inference": inference("auto", "mcmc", *OVER_REGIONS, "adf")}
        | moment_matching.RULES
        | {"n_folds": Whole(0)}
    )

    def __init__(
        self,
        *,
        null_width: float | str = 1.0,
        missing_rates: Any = None,
        kernel: str | Kernel = "isotropic",
        inference: str = "auto",
        n_active: int | None = None,
        n_rounds: int = 15,
        n_folds: int = 5,
        bias: float | str = 0.0,
        noise_variance: float = 1.0,
        variance_rate: float | None = None,
        negative: str = "zero",
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
        self.null_width = null_width
        self.missing_rates = missing_rates
        self.kernel = kernel
        self.inference = inference
        self.n_active = n_active
        self.n_rounds = n_rounds
        self.n_folds = n_folds
        self.bias = bias
        self.noise_variance = noise_variance
        self.variance_rate = variance_rate
        self.negative = negative
        self.n_chains = n_chains
        self.n_warmup = n_warmup
        self.n_samples = n_samples
        self.thin = thin
        self.checkpoint = checkpoint
        self.unlabelled = unlabelled
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def predict_proba(self, X: Any, transductive: bool = False) -> Array:
        """Return class probabilities, averaged over the posterior; X (m, d) -> (m, K).

        Far from all data they are those of the prior, never NaN.

        Parameters
        ----------
        X : (m, d)
        transductive : bool, default=False
            Whether the rows of X, which are in no null region either, update the functions first,
            all together (paper, section 4.1), after "ep" or "adf". O(m³) time.
        """
        if not transductive:
            return super().predict_proba(X)
        check_is_fitted(self)
        if not hasattr(self.posterior_, "transductive_log_proba"):
            raise ValueError(
                "transductive=True takes a model fitted by expectation propagation, and this one "
                f'was by {self.inference_!r}; fit it with inference="ep" or "adf".'
            )
        rows = self._read_rows(X)
        check_memory(
            8 * 6 * len(rows) ** 2,
            what=f"a transductive prediction of {len(rows)} rows",
            instead="Predict fewer rows at a time.",
        )
        return np.exp(self.posterior_.transductive_log_proba(rows, self.negative))

    # Parts of fit ---------------------------------------------------------------------------------

    def _check_labels(self, labels: PartialLabels) -> None:
        self._check_missing_rates(labels)
        check_folds(self.n_folds)
        if self.inference in BY_MATCHING:
            return
        for name, default in (("n_active", None), ("n_rounds", 15), ("bias", 0.0),
                              ("noise_variance", 1.0), ("variance_rate", None),
                              ("negative", "zero")):  # fmt: skip
            if getattr(self, name) != default:
                raise ValueError(
                    f"{name} is of moment matching: with inference={self.inference!r} it must be "
                    f'{default!r}, got {getattr(self, name)!r}; use inference="ep" or "adf".'
                )

    def _check_missing_rates(self, labels: PartialLabels) -> None:
        rates, K = self.missing_rates, len(labels.classes)
        if rates is None or isinstance(rates, str):
            return
        if len(rates) != K:
            raise ValueError(
                f"missing_rates must be {K} numbers in [0, 1), one per class in the order "
                f"{labels.classes.tolist()!r}, got {rates!r}."
            )
        if not labels.is_labelled.all() and not np.any(rates):
            raise ValueError(
                f"missing_rates={rates!r} says that no label is ever missing, and "
                f"{int((~labels.is_labelled).sum())} are; give a positive rate, or None."
            )
        if K > 2 and self.inference in BY_MATCHING:
            raise ValueError(
                f'missing_rates={rates!r} with {K} classes takes inference="mcmc" or "vb": moment '
                "matching sets one class against all others."
            )

    def _memory(self, X: Array, labels: PartialLabels) -> Need:
        if self.inference in BY_MATCHING and self.n_active is not None:
            return moment_matching.active_memory(self, len(X))
        return auxiliary_gp.memory(self, len(X), len(labels.classes))

    def _fit(self, X: Array, labels: PartialLabels) -> Fit:
        K, prior, seen = len(labels.classes), kernel_prior(self.kernel, X), labels.is_labelled
        method = self.inference
        if method == "auto":  # rows of any class make chains slow, and no better
            method = chosen_inference(self, len(X)) if seen.all() else "vb"
        if method in BY_MATCHING:
            return self._by_rates(self._fit_by_matching(X, labels, prior), X, labels)

        def family_of(rows: NDArray[np.intp], is_labelled: NDArray[np.bool_]) -> RegionFamily:
            return null_likelihood.family(
                labels.codes[rows],
                is_labelled,
                K,
                self._fixed_width,
                self._given_rates(labels, K),
                sample_missing_rates=self._free_rates,
            )

        def describe(phi: Array) -> dict[str, Any]:
            width = self._fixed_width
            rates = null_likelihood.missing_rates_at(phi, K).mean(axis=0)
            return {
                "null_width_": float(np.exp(phi[:, 0]).mean()) if width is None else width,
                "missing_rates_": rates if self._free_rates else self._said_rates(labels),
            }

        likelihood = null_likelihood.NullCategory(self._fixed_width, K)
        regions = family_of(np.arange(len(X)), seen)
        model = RegionModel(X, prior, regions, likelihood, describe)
        if method == "mcmc":
            hides = bool(self.n_folds) and not seen.all()
            none_seen = family_of(np.arange(len(X)), np.zeros_like(seen)) if hides else None
            sampler = null_category.sampler(X, labels.codes, seen, prior, regions, none_seen)
            judge = partial(self._judged, model, labels)
            return fit_by_chains(self, model, X, labels, sampler, judge)
        if method == "vb":
            return self._by_rates(self._fit_by_variation(model, labels, family_of), X, labels)
        return fit_by_search(self, method, model)

    def _by_rates(self, fit: Fit, X: Array, labels: PartialLabels) -> Fit:
        """Return an approximation with the unlabelled rows' classes as given rates leave them.

        A fit that these rows entered knows the rates, but for their last word: no such row is of a
        class whose labels are never missing.
        """
        rates = self._given_rates(labels, len(labels.classes))
        if rates is None or labels.is_labelled.all():
            return fit
        weights = np.asarray(rates) > 0 if fit.diagnostics["unlabelled_used"] else rates
        rows = np.exp(fit.posterior.log_proba(X[~labels.is_labelled]))
        weighed = np.maximum(rows, np.finfo(float).tiny) * weights
        return fit._replace(transduction=weighed / weighed.sum(axis=1, keepdims=True))

    def _judged(self, model: RegionModel, labels: PartialLabels, fit: Fit, draws: Record) -> Fit:
        """Return a fit by chains with what labels left out say of it."""
        if labels.is_labelled.all():
            return told_by_left_out(fit, model, labels)
        if not self.n_folds:
            return with_remark(fit, NOT_HIDDEN)
        codes = labels.codes[labels.is_labelled]
        log_proba = without_label(np.concatenate(draws["labelled_probabilities"]), codes)
        held_out = weigh_left_out(log_proba, codes, PRIOR_OF_VARIATION)
        judged = with_doubt(fit, held_out) if held_out is not None else hedged(fit, labels)
        rates = self._given_rates(labels, len(labels.classes))
        if rates is None or fit.transduction is None:
            return judged
        of_missing = class_shares.given(labels.counts) * rates  # among rows without a label
        doubt = np.sum(judged.posterior.doubt) * of_missing / of_missing.sum()
        return judged._replace(transduction=doubted(fit.transduction, doubt))

    def _fit_by_variation(
        self, model: RegionModel, labels: PartialLabels, family_of: null_category.FamilyOf
    ) -> Fit:
        X = model.inputs
        likelihood = null_likelihood.NullCategory(self._fixed_width, len(labels.classes))
        kept: list[null_category.Variational] = []

        def search(report: Report) -> Approximation:
            given = self.missing_rates is not None and not isinstance(self.missing_rates, str)
            kept.append(
                null_category.variational(
                    X,
                    labels,
                    model.prior,
                    family_of,
                    likelihood,
                    report,
                    at_random=not given,
                    n_folds=int(self.n_folds),
                )
            )
            return kept[0].approximation

        fit = fit_by_search(self, "vb", model, search)
        found = kept[0]
        fit = fit._replace(diagnostics={**fit.diagnostics, "unlabelled_used": found.rows is None})
        if found.beside is not None:
            both = null_category.two_beliefs(found, X, model.prior, likelihood)
            return with_remark(fit._replace(posterior=both), UNTESTED)
        if labels.is_labelled.all():  # nothing is missing: the probit but for the null region
            return told_by_left_out(fit, model, labels)
        if found.rows is None:
            fit = fit if self.n_folds else with_remark(fit, NOT_HIDDEN)
            return with_doubt(fit, found.held_out)
        fit = with_remark(fit, LEFT_OUT[found.doubt].format(" but for their shares"))
        fit = fit._replace(
            posterior=approximate_posterior(
                found.approximation,
                X[found.rows],
                model.prior,
                likelihood._replace(bias=found.bias),
            ),
            attributes={**fit.attributes, "bias_": np.array([found.bias])},
        )
        return with_doubt(fit, found.held_out)

    def _fit_by_matching(self, X: Array, labels: PartialLabels, prior: KernelPrior) -> Fit:
        noise = NoiseModel(
            self._fixed_width,
            self._given_rates(labels, 2),
            self._free_rates,
            self.bias == "learn",
        )
        plan, n_folds = plan_of(self, prior), int(self.n_folds)
        fit = fit_by_matching(self, plan, X, labels, prior, noise, self.bias, n_folds)
        if fit.diagnostics["unlabelled_used"] and not labels.is_labelled.all():
            fit = hedged(fit, labels) if n_folds else with_remark(fit, NOT_HIDDEN)
        widths, log_rates, _ = fit.posterior.likelihood
        rates = np.exp(log_rates if len(widths) > 1 else log_rates[0])
        return fit._replace(
            attributes={
                **fit.attributes,
                "null_width_": float(widths.mean()),
                "bias_": fit.posterior.bias,
                "missing_rates_": rates if self._free_rates else self._said_rates(labels),
            }
        )

    def _given_rates(self, labels: PartialLabels, n_classes: int) -> Any:
        """Return γ of `n_classes` classes; None if they are free, or the same for all."""
        if self._free_rates or self.missing_rates is None:
            return None
        if isinstance(self.missing_rates, str):
            missing = (~labels.is_labelled).mean()
            return None if missing == 0 else np.full(n_classes, missing)
        return self.missing_rates

    def _said_rates(self, labels: PartialLabels) -> Any:
        """Return γ as given, or the share of unlabelled rows, the best rate if all are equal."""
        if isinstance(self.missing_rates, str):
            return np.full(len(labels.classes), (~labels.is_labelled).mean())
        return self.missing_rates

    @property
    def _fixed_width(self) -> float | None:
        return None if isinstance(self.null_width, str) else float(self.null_width)

    @property
    def _free_rates(self) -> bool:
        return isinstance(self.missing_rates, str) and self.missing_rates == "sample"


def hedged(fit: Fit, labels: PartialLabels) -> Fit:
    """Return a fit that no label could test with the doubt that there is beforehand, and say so."""
    if "held_out" in fit.diagnostics:
        return fit
    belief = float(PRIOR_OF_VARIATION @ BELIEFS)
    doubt = (1.0 - belief) * class_shares.given(labels.counts)
    return with_remark(doubting_itself(fit, doubt), ONE_EACH.format(belief))
