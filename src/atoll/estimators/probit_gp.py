"""The probit Gaussian process classifier."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.gaussian_process.kernels import Kernel

from atoll.core.labels import PartialLabels
from atoll.estimators.auxiliary_gp import (
    RULES,
    RegionModel,
    chosen_inference,
    fit_by_chains,
    fit_by_search,
    memory,
    told_by_left_out,
)
from atoll.estimators.moment_matching import fit_by_matching
from atoll.estimators.shell import Classifier, Fit, Need
from atoll.inference.ivm import ON_ALL_ROWS
from atoll.kernels.hyperparameters import kernel_prior
from atoll.models import probit_gp
from atoll.models.informative_vector import NoiseModel

Array = NDArray[np.float64]


class ProbitGPClassifier(Classifier):
    """Probit Gaussian process classifier; unlabelled rows set the scale of its prior alone.

    Two classes: f ~ GP(0, C(θ)), z_n ~ N(f(x_n), 1), and y_n is the second class where z_n > 0.
    More: one f and one z per class, and y_n is the class with the largest z. The posterior of z and
    θ is sampled with f integrated out, or approximated; predictions average the probit over it in
    closed form (two classes) or by a quadrature exact to rounding (more). The verdict says how
    labels are foretold that are left out; an approximation is believed as far as these bear it out.

    An exact sweep costs O(n³) time and 8·8·n² bytes for n labelled rows.

    Parameters
    ----------
    kernel : "isotropic", "ard" or a scikit-learn kernel, default="isotropic"
        The first two put a prior on amplitude and length-scales that follows the units of X. A
        kernel's own free parameters are sampled around the values given; fixed ones stay. One
        kernel serves all classes.
    inference : "auto", "mcmc", "vb" or "ep", default="auto"
        "mcmc" is Gibbs sampling. "vb", variational Bayes, takes a second where sampling takes
        minutes, with θ at its best value and a narrower posterior. "ep" is expectation propagation,
        with θ at its best value, too. "auto" samples up to 300 labelled rows and takes variational
        Bayes beyond.
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
    inference_ : "mcmc", "vb" or "ep", what was used
    unlabelled_ : what meant unlabelled besides nulls
    label_distributions_ : (n, K) class probabilities of the training rows; given labels are certain
    transduction_ : (n,) the most probable class of each training row
    posterior_ : what prediction needs
    draws_ : dict of (chain, draw) arrays: log-likelihood and log-parameters; empty but for "mcmc"
    objectives_ : (t,) log evidence after every iteration: a lower bound on it ("vb") or an estimate
        of it ("ep")
    log_evidence_ : the last of these
    diagnostics_ : dict with R-hat, effective sample sizes, jitter and a verdict in words
    kernel_ : the kernel at the posterior mean of its log-parameters, or at their best values

    References
    ----------
    S. Rogers, lecture "GPs for classification and ordinal regression via the auxiliary variable
    trick" (2014). C. Holmes and L. Held, "Bayesian auxiliary variable models for binary and
    multinomial regression" (2006). M. Girolami and S. Rogers, "Variational Bayesian multinomial
    probit regression with Gaussian process priors" (2006). T. Minka, "Expectation propagation for
    approximate Bayesian inference" (2001).

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
    holds_labels_out = True
    compares_columns = True
    summary = "two or more classes, labelled rows only; the supervised twin of null-category"
    parameters = RULES

    def __init__(
        self,
        *,
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

    def _memory(self, X: Array, labels: PartialLabels) -> Need:
        return memory(self, labels.n_labelled, len(labels.classes))

    def _fit(self, X: Array, labels: PartialLabels) -> Fit:
        rows, of_rows = X[labels.is_labelled], labels.of(labels.is_labelled)
        K, prior = len(labels.classes), kernel_prior(self.kernel, X)
        method = chosen_inference(self, len(rows))
        if method == "ep" and K == 2:  # the informative vector machine with every row active
            return fit_by_matching(self, ON_ALL_ROWS, rows, of_rows, prior, NoiseModel())
        regions = probit_gp.family(of_rows.codes, K)
        model = RegionModel(rows, prior, regions, probit_gp.likelihood(K))
        if method == "mcmc":
            fit = fit_by_chains(self, model, X, labels)
        else:
            fit = fit_by_search(self, method, model)
        return told_by_left_out(fit, model, of_rows)
