"""Ordinal regression by a Gaussian process, with cut points learned."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.gaussian_process.kernels import Kernel

from atoll.core.labels import PartialLabels
from atoll.core.remarks import warn_user
from atoll.estimators.auxiliary_gp import (
    RULES,
    RegionModel,
    chosen_inference,
    fit_by_chains,
    fit_by_search,
    memory,
    told_by_left_out,
)
from atoll.estimators.parameters import Listed, Nothing, Number, check_value
from atoll.estimators.shell import Classifier, Fit, Knowledge, Need
from atoll.kernels.hyperparameters import kernel_prior
from atoll.likelihoods import ordinal
from atoll.models import ordinal_gp

Array = NDArray[np.float64]


class OrdinalGPClassifier(Classifier):
    """Gaussian process classifier for classes that have an order, such as grades or stages.

    f ~ GP(0, C(θ)), z_n ~ N(f(x_n), 1), and y_n is the class between whose cut points z_n falls:
    b_k < z_n < b_{k+1}. The cut points are learned with f. With a null width w > 0 the classes keep
    a distance, b_k + w/2 < z_n < b_{k+1} − w/2, and rows without a label take part: they lie in one
    of these intervals, never between them. With w = 0 they say nothing and are left out.

    An exact sweep costs O(n³) time and 8·8·n² bytes for n rows in the model.

    Parameters
    ----------
    classes : sequence, default=None
        All classes, lowest first; one without a labelled row is allowed. None: those of y, sorted,
        or the order of an ordered pandas Categorical.
    null_width : float, default=0.0
        w, in units of the noise of z, which has variance one. 0: unlabelled rows are left out.
    kernel : "isotropic", "ard" or a scikit-learn kernel, default="isotropic"
        The first two put a wide prior on amplitude and length-scales that follows the units of X. A
        kernel's own free parameters are sampled around the values given; fixed ones stay.
    inference : "auto", "mcmc", "vb" or "ep", default="auto"
        "mcmc" is Gibbs sampling. "vb", variational Bayes, and "ep", expectation propagation, take
        seconds where sampling takes minutes, with θ and the cut points at their best values; "ep"
        is for labelled rows alone. "auto" samples up to 300 rows in the model; beyond, it takes
        "ep", or "vb" where unlabelled rows take part.
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
    classes_ : (K,) lowest first
    cut_points_ : (K−1,) posterior mean of b, or its best value
    inference_ : "mcmc", "vb" or "ep", what was used
    unlabelled_ : what meant unlabelled besides nulls
    label_distributions_ : (n, K) class probabilities of the training rows; given labels are certain
    transduction_ : (n,) the most probable class of each training row
    posterior_ : what prediction needs
    draws_ : dict of (chain, draw) arrays: log-likelihood, log-parameters, the first cut point and
        the logarithms of the gaps; empty but for "mcmc"
    objectives_ : (t,) log evidence after every iteration: a lower bound on it ("vb") or an estimate
        of it ("ep")
    log_evidence_ : the last of these
    diagnostics_ : dict with R-hat, effective sample sizes, jitter and a verdict in words
    kernel_ : the kernel at the posterior mean of its log-parameters, or at their best values

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
    holds_labels_out = True
    compares_columns = True
    summary = "classes with an order; cut points learned; unlabelled rows with a null width"
    parameters = {
        "classes": Nothing("those of y") | Listed("all classes, lowest first"),
        "null_width": Number(least=0),
    } | RULES

    def __init__(
        self,
        *,
        classes: Sequence[Any] | None = None,
        null_width: float = 0.0,
        kernel: str | Kernel = "isotropic",
        inference: str = "auto",
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
        self.classes = classes
        self.null_width = null_width
        self.kernel = kernel
        self.inference = inference
        self.n_chains = n_chains
        self.n_warmup = n_warmup
        self.n_samples = n_samples
        self.thin = thin
        self.checkpoint = checkpoint
        self.unlabelled = unlabelled
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def predict_rank(self, X: Any) -> Array:
        """Return the expected rank, 0 for the lowest class to K − 1; X (m, d) -> (m,)."""
        return self.predict_proba(X) @ np.arange(len(self.classes_), dtype=float)

    def predict_median(self, X: Any) -> NDArray[Any]:
        """Return the median class: the one of least expected error in rank; X (m, d) -> (m,)."""
        probabilities = self.predict_proba(X)
        return self.classes_[_lowest_reaching(probabilities, 0.5)]

    def predict_interval(self, X: Any, coverage: float = 0.9) -> NDArray[Any]:
        """Return lowest and highest class of the central interval; X (m, d) -> (m, 2).

        Classes are discrete, so that the interval holds at least `coverage` of the probability.

        Parameters
        ----------
        X : (m, d)
        coverage : float, default=0.9
        """
        check_value("coverage", coverage, Number(above=0, below=1))
        tail = 0.5 * (1.0 - float(coverage))
        p = self.predict_proba(X)
        ends = [_lowest_reaching(p, tail), _lowest_reaching(p, 1.0 - tail)]
        return self.classes_[np.stack(ends, axis=1)]

    # Parts of fit ---------------------------------------------------------------------------------

    def _class_order(self, y: Any) -> Sequence[Any] | None:
        if self.classes is not None:
            return list(self.classes)
        dtype: Any = getattr(y, "dtype", None)
        if getattr(dtype, "ordered", False):  # a pandas Categorical that knows its order
            return list(dtype.categories)
        return None

    def _read_training(
        self, X: Any, y: Any, know: Knowledge | None = None
    ) -> tuple[Any, PartialLabels]:
        rows, labels = super()._read_training(X, y, know)
        names = labels.classes.tolist()
        if labels.classes.dtype.kind in "OU" and len(names) > 2 and self._class_order(y) is None:
            warn_user(
                f"{type(self).__name__}: the classes are words, taken in the order of the "
                f"alphabet: {', '.join(map(str, names))}. Pass classes=[lowest, …, highest].",
                UserWarning,
            )
        return rows, labels

    def _check_labels(self, labels: PartialLabels) -> None:
        if self.inference == "ep" and self._has_unlabelled(labels):
            raise ValueError(
                f'inference="ep" takes labelled rows alone, and null_width={self.null_width!r} '
                'brings in unlabelled ones; use "mcmc" or "vb", or null_width=0.'
            )

    def _memory(self, X: Array, labels: PartialLabels) -> Need:
        return memory(self, int(self._rows_used(labels).sum()), len(labels.classes))

    def _fit(self, X: Array, labels: PartialLabels) -> Fit:
        used, width = self._rows_used(labels), float(self.null_width)
        prior = kernel_prior(self.kernel, X)
        if isinstance(self.kernel, str):
            prior = ordinal_gp.widened(prior)
        rows, of_rows = X[used], labels.of(used)
        regions = ordinal_gp.family(
            rows, of_rows.codes, of_rows.is_labelled, prior, len(labels.classes), width
        )
        model = RegionModel(
            rows,
            prior,
            regions,
            ordinal.Ordinal(width),
            lambda phi: {"cut_points_": ordinal.cut_points_at(phi, width).mean(axis=0)},
        )
        of_many = "vb" if self._has_unlabelled(labels) else "ep"
        method = chosen_inference(self, len(rows), of_many=of_many)
        if method == "mcmc":
            fit = fit_by_chains(self, model, X, labels)
        else:
            fit = fit_by_search(self, method, model)
        return told_by_left_out(fit, model, of_rows) if of_rows.is_labelled.all() else fit

    def _has_unlabelled(self, labels: PartialLabels) -> bool:
        """Whether a row without a label takes part."""
        return bool((self._rows_used(labels) & ~labels.is_labelled).any())

    def _rows_used(self, labels: PartialLabels) -> NDArray[np.bool_]:
        """(n,) the rows that enter the model."""
        if self.null_width > 0:
            return np.ones(len(labels.codes), dtype=bool)
        return labels.is_labelled


def _lowest_reaching(probabilities: Array, level: float) -> NDArray[np.intp]:
    """Return the lowest rank whose cumulative probability reaches the level; (m, K) -> (m,)."""
    below = np.cumsum(probabilities, axis=1)
    # The last sum is one up to rounding, and reaches any level.
    return np.argmax(below >= level - 1e-12, axis=1)
