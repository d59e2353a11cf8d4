"""Ordinal regression by a Gaussian process, with cut points learned."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.gaussian_process.kernels import Kernel

from atoll.core.labels import PartialLabels
from atoll.core.regions import RegionFamily
from atoll.estimators.auxiliary_gp import AuxiliaryClassifier, check_null_width
from atoll.kernels.hyperparameters import KernelPrior
from atoll.likelihoods import RegionLikelihood, ordinal
from atoll.models import ordinal_gp

Array = NDArray[np.float64]


class OrdinalGPClassifier(AuxiliaryClassifier):
    """Gaussian process classifier for classes that have an order, such as grades or stages.

    f ~ GP(0, C(θ)), z_n ~ N(f(x_n), 1), and y_n is the class between whose cut points z_n falls:
    b_k < z_n < b_{k+1}. The cut points are learned with f. With a null width w > 0 the classes keep
    a distance, b_k + w/2 < z_n < b_{k+1} − w/2, and rows without a label take part: they lie in one
    of these intervals, never between them. With w = 0 they say nothing and are left out.

    An exact sweep costs O(n³) time and 8·8·n² bytes for n rows in the model.

    Parameters
    ----------
    classes : sequence, optional
        All classes, lowest first; one without a labelled row is allowed. By default those of y,
        sorted, or the order of an ordered pandas Categorical.
    null_width : float
        w, in units of the noise of z, which has variance one. 0: unlabelled rows are left out.
    inference : "auto", "mcmc", "vb" or "ep"
        As in ProbitGPClassifier, and expectation propagation, for labelled rows, which "auto"
        takes beyond 300 of them.
    kernel, n_chains, n_warmup, n_samples, thin, checkpoint, unlabelled, random_state, n_jobs, \
verbose
        As in ProbitGPClassifier.

    Attributes
    ----------
    classes_ : (K,) lowest first
    cut_points_ : (K−1,) posterior mean of b
    inference_ : "mcmc", "vb" or "ep", what was used
    label_distributions_ : (n, K) class probabilities of the training rows; given labels are certain
    transduction_ : (n,) the most probable class of each training row
    posterior_ : LatentPosterior, what prediction needs
    draws_ : dict of (chain, draw) arrays: log-likelihood, log-parameters, the first cut point and
        the logarithms of the gaps; empty after "vb" and "ep"
    objectives_ : (t,) bound on the log evidence after every iteration, after "vb"
    log_evidence_ : its estimate, after "ep"
    diagnostics_ : dict with R-hat, effective sample sizes, jitter and a verdict in words
    kernel_ : the kernel at the posterior mean of its log-parameters, or where the bound is highest

    References
    ----------
    S. Rogers, lecture "GPs for classification and ordinal regression via the auxiliary variable
    trick" (2014). W. Chu and Z. Ghahramani, "Gaussian processes for ordinal regression" (2005).

    Examples
    --------
    >>> import numpy as np
    >>> from atoll.estimators import OrdinalGPClassifier
    >>> X = np.linspace(0, 1, 30)[:, None]
    >>> y = np.repeat(["low", "medium", "high"], 10)
    >>> model = OrdinalGPClassifier(classes=["low", "medium", "high"], inference="vb").fit(X, y)
    >>> model.predict([[0.0], [0.5], [1.0]]).tolist()
    ['low', 'medium', 'high']
    >>> model.predict_rank([[0.0], [1.0]]).round().tolist()
    [0.0, 2.0]
    """

    paper = "Rogers 2014 (lecture); Chu & Ghahramani 2005"
    summary = "classes with an order; cut points learned; unlabelled rows with a null width"
    inferences = ("auto", "mcmc", "vb", "ep")

    def __init__(
        self,
        *,
        classes: Sequence[Any] | None = None,
        null_width: float = 0.0,
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
        self.classes = classes
        self.null_width = null_width

    def predict_rank(self, X: Any) -> Array:
        """Expected rank, 0 for the lowest class to K − 1; X (m, d) -> (m,)."""
        return self.predict_proba(X) @ np.arange(len(self.classes_), dtype=float)

    def predict_median(self, X: Any) -> NDArray[Any]:
        """The median class: of all, that with the least expected error in rank; (m, d) -> (m,)."""
        return self.classes_[_lowest_reaching(self.predict_proba(X), 0.5)]

    def predict_interval(self, X: Any, coverage: float = 0.9) -> NDArray[Any]:
        """Lowest and highest class of the central interval; X (m, d) -> (m, 2).

        Classes are discrete, so that the interval holds at least `coverage` of the probability.
        """
        if not (isinstance(coverage, Real) and 0.0 < float(coverage) < 1.0):
            raise ValueError(f"coverage={coverage!r} must be a number between 0 and 1.")
        tail = 0.5 * (1.0 - float(coverage))
        p = self.predict_proba(X)
        ends = [_lowest_reaching(p, tail), _lowest_reaching(p, 1.0 - tail)]
        return self.classes_[np.stack(ends, axis=1)]

    def _class_order(self, y: Any) -> Sequence[Any] | None:
        if self.classes is not None:
            return list(self.classes)
        dtype: Any = getattr(y, "dtype", None)
        if getattr(dtype, "ordered", False):  # a pandas Categorical that knows its order
            return list(dtype.categories)
        return None

    def _check_labels(self, labels: PartialLabels) -> None:
        check_null_width(self.null_width, may_sample=False)
        super()._check_labels(labels)
        if self.inference == "ep" and self._has_unlabelled(labels):
            raise ValueError(
                f'inference="ep" takes labelled rows alone, and null_width={self.null_width!r} '
                'brings in unlabelled ones; use "mcmc" or "vb", or null_width=0.'
            )
        if labels.classes.dtype.kind in "OU" and self.classes is None:
            names = labels.classes.tolist()
            if len(names) > 2 and names == sorted(names):
                warnings.warn(
                    f"{type(self).__name__}: the classes are words, taken in the order of the "
                    f"alphabet: {', '.join(map(str, names))}. Pass classes=[lowest, …, highest].",
                    UserWarning,
                    stacklevel=3,
                )

    def _has_unlabelled(self, labels: PartialLabels) -> bool:
        """Whether a row without a label takes part."""
        return bool((self._rows_used(labels) & ~labels.is_labelled).any())

    def _rows_used(self, labels: PartialLabels) -> NDArray[np.bool_]:
        if self.null_width > 0:
            return np.ones(len(labels.codes), dtype=bool)
        return labels.is_labelled

    def _inference_of_many(self, labels: PartialLabels) -> str:
        return "vb" if self._has_unlabelled(labels) else "ep"

    def _kernel_prior(self, X: Array) -> KernelPrior:
        prior = super()._kernel_prior(X)
        return ordinal_gp.widened(prior) if isinstance(self.kernel, str) else prior

    def _family(self, X: Array, labels: PartialLabels, prior: KernelPrior) -> RegionFamily:
        return ordinal_gp.family(
            X, labels.codes, labels.is_labelled, prior, len(labels.classes), float(self.null_width)
        )

    def _likelihood(self, n_classes: int) -> RegionLikelihood:
        return ordinal.Ordinal(float(self.null_width))

    def _describe_regions(self, region_parameters: Array) -> None:
        cut_points = ordinal.cut_points_at(region_parameters, float(self.null_width))
        self.cut_points_ = cut_points.mean(axis=0)


def _lowest_reaching(probabilities: Array, level: float) -> NDArray[np.intp]:
    """The lowest rank at which the cumulative probability reaches the level; (m, K) -> (m,)."""
    below = np.cumsum(probabilities, axis=1)
    # The last sum is one up to rounding, and reaches any level.
    return np.argmax(below >= level - 1e-12, axis=1)
