"""Everyone: atoll's classifiers and what a user would pick instead, behind one function each.

A model is a function of a `Task` and a seed that returns class probabilities of `task.asked`. Peers
learn from labelled rows alone unless their docstring says otherwise. Settings are their defaults
unless it says so; no setting is chosen by an error on rows without labels.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr, softmax
from sklearn.calibration import CalibratedClassifierCV
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import RandomForestClassifier
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier, NearestNeighbors
from sklearn.semi_supervised import LabelPropagation, LabelSpreading, SelfTrainingClassifier
from sklearn.svm import SVC

from atoll.estimators import CLASSIFIERS
from atoll.reproductions.peers import FEWEST_TO_TUNE, Problem, graph_scores, logistic_cv, shares


class Task(NamedTuple):
    """Rows (n, d) with class codes, −1 where hidden (n,); and the rows asked for.

    new : (m, d) rows that the fit does not see; None where the hidden rows themselves are asked for
    """

    X: np.ndarray
    partial: np.ndarray
    new: np.ndarray | None = None

    @property
    def asked(self):
        return self.X[self.partial < 0] if self.new is None else self.new

    @property
    def labelled(self):
        known = self.partial >= 0
        return self.X[known], self.partial[known]

    @property
    def fewest(self):
        return int(np.bincount(self.labelled[1]).min())


# --- atoll ----------------------------------------------------------------------------------------


def ours(name, task, seed, **given):
    kind = CLASSIFIERS[name]
    settings = {"unlabelled": -1, "random_state": seed, **given}
    known = kind().get_params()
    model = kind(**{key: value for key, value in settings.items() if key in known})
    model.fit(task.X, task.partial)
    if task.new is None and hasattr(model, "label_distributions_"):
        return model.label_distributions_[task.partial < 0]
    return model.predict_proba(task.asked)


# --- scikit-learn: labelled rows alone ------------------------------------------------------------


def supervised(make, task, seed):
    return make(seed).fit(*task.labelled).predict_proba(task.asked)


def tuned_logistic(task, seed):
    """Penalty by log-loss in folds from four labels in every class on; below, as it comes."""
    everything = Task(np.concatenate([task.labelled[0], task.asked]), _then_hidden(task))
    problem = Problem(everything.X, everything.partial, everything.partial)
    return logistic_cv(problem, seed)[everything.partial < 0]


def _then_hidden(task):
    y = task.labelled[1]
    return np.concatenate([y, np.full(len(task.asked), -1)])


def support_vectors(task, seed):
    """Width and C in folds from four labels in every class on; probabilities by sigmoids in folds.

    With a single label in a class, the softmax of the decision values.
    """
    X, y = task.labelled
    gamma = 1.0 / max(X.shape[1] * X.var(), 1e-12)
    model, folds = SVC(gamma=gamma), min(5, task.fewest)
    if task.fewest >= FEWEST_TO_TUNE:
        grid = {"C": [0.1, 1.0, 10.0, 100.0], "gamma": [gamma / 10, gamma, 10 * gamma]}
        model = GridSearchCV(model, grid, cv=folds).fit(X, y).best_estimator_
    if task.fewest >= 2:
        model = CalibratedClassifierCV(model, cv=folds, ensemble=False)
        return model.fit(X, y).predict_proba(task.asked)
    scores = model.fit(X, y).decision_function(task.asked)
    scores = np.column_stack([-scores, scores]) / 2 if scores.ndim == 1 else scores
    return softmax(scores, axis=1)


def gaussian_process(task, seed):
    """Laplace's approximation; amplitude and length-scale by evidence, from the rows' spread."""
    X, y = task.labelled
    start = max(np.sqrt(X.shape[1] * X.var()), 1e-6)
    kernel = ConstantKernel(1.0) * RBF(start, (start / 100, start * 100))
    model = GaussianProcessClassifier(kernel, random_state=seed)
    return model.fit(X, y).predict_proba(task.asked)


def knows_nothing(task, seed):
    """The labels' own shares."""
    known = task.partial >= 0
    problem = Problem(task.X, task.partial, task.partial)
    return np.tile(shares(problem, seed)[np.flatnonzero(known)[0]], (len(task.asked), 1))


# --- rows without labels too ----------------------------------------------------------------------


def graph_of_scikit_learn(kind, task, seed):
    """Nearest neighbours' kernel; learns from unlabelled rows."""
    model = kind("knn", max_iter=1000).fit(task.X, task.partial)
    if task.new is None:
        return model.label_distributions_[task.partial < 0]
    return model.predict_proba(task.new)


def self_training(base, task, seed):
    """Labels the rows it is sure of and is fitted again; learns from unlabelled rows."""
    return SelfTrainingClassifier(base).fit(task.X, task.partial).predict_proba(task.asked)


def graph_of_graphlearning(kind, task, seed):
    """graphlearning on ten neighbours; a new row takes the mean of its ten nearest rows' scores.

    Laplace's scores are clipped at zero; Poisson's have no scale, and only its error is read.
    """
    options = {"solver": "gradient_descent"} if kind == "poisson" else {}
    scores = graph_scores(kind, Problem(task.X, task.partial, task.partial), **options)
    if task.new is None:
        found = scores[task.partial < 0]
    else:
        search = NearestNeighbors(n_neighbors=min(10, len(task.X))).fit(task.X)
        distances, nearest = search.kneighbors(task.new)
        weights = np.exp(-4 * distances**2 / np.maximum(distances[:, -1:] ** 2, 1e-300))
        weights /= weights.sum(axis=1, keepdims=True)
        found = np.einsum("mk,mkc->mc", weights, scores[nearest])
    if kind == "poisson":
        return softmax(found / max(np.abs(scores).max(), 1e-300), axis=1)
    return np.clip(found, 0.0, None)


# --- other Gaussian processes: labelled rows alone ------------------------------------------------


def gpy(task, seed):
    """GPy's GPClassification by EP; for more than two classes one model each against the rest."""
    import GPy

    X, y = task.labelled
    start = max(np.sqrt(X.shape[1] * X.var()), 1e-6)

    def fit(target):
        kernel = GPy.kern.RBF(X.shape[1], lengthscale=start)
        model = GPy.models.GPClassification(X, target[:, None].astype(float), kernel=kernel)
        model.optimize(max_iters=50)
        return model.predict(task.asked)[0][:, 0]

    n_classes = y.max() + 1
    if n_classes == 2:
        p = fit(y == 1)
        return np.column_stack([1 - p, p])
    return np.column_stack([fit(y == k) for k in range(n_classes)])


def gpflow(task, seed):
    """GPflow's VGP, Bernoulli for two classes and its robust maximum for more, by L-BFGS."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import gpflow as gpf
    import tensorflow as tf

    tf.random.set_seed(seed)
    X, y = (np.asarray(part, dtype=float) for part in task.labelled)
    n_classes = int(y.max()) + 1
    start = max(np.sqrt(X.shape[1] * X.var()), 1e-6)
    two = n_classes == 2
    likelihood = gpf.likelihoods.Bernoulli() if two else gpf.likelihoods.MultiClass(n_classes)
    model = gpf.models.VGP(
        (X, y[:, None]),
        kernel=gpf.kernels.SquaredExponential(lengthscales=start),
        likelihood=likelihood,
        num_latent_gps=1 if two else n_classes,
    )
    gpf.optimizers.Scipy().minimize(
        model.training_loss, model.trainable_variables, options={"maxiter": 100}
    )
    if two:
        mean, variance = (part.numpy()[:, 0] for part in model.predict_f(task.asked))
        p = ndtr(mean / np.sqrt(1 + variance))  # the closed form: its own is squashed
        return np.column_stack([1 - p, p])
    return np.concatenate(
        [
            model.predict_y(task.asked[i : i + 200])[0].numpy()
            for i in range(0, len(task.asked), 200)
        ]
    )


def numpyro_nuts(task, seed):
    """A softmax Gaussian process sampled by NumPyro's NUTS, with priors on amplitude and length."""
    import jax
    import jax.numpy as jnp
    import numpyro
    import numpyro.distributions as dist
    from numpyro.infer import MCMC, NUTS
    from scipy.spatial.distance import cdist

    jax.config.update("jax_enable_x64", True)
    X, y = task.labelled
    n_classes = int(y.max()) + 1
    spread = max(np.sqrt(X.shape[1] * X.var()), 1e-6)
    inner = cdist(X, X, "sqeuclidean") / spread**2
    outer = cdist(task.asked, X, "sqeuclidean") / spread**2

    def model():
        amplitude = numpyro.sample("amplitude", dist.LogNormal(jnp.log(2.0), 0.75))
        length = numpyro.sample("length", dist.LogNormal(0.0, 0.75))
        gram = amplitude**2 * jnp.exp(-0.5 * inner / length**2) + 1e-6 * jnp.eye(len(X))
        white = numpyro.sample("white", dist.Normal().expand([len(X), n_classes]).to_event(2))
        f = jnp.linalg.cholesky(gram) @ white
        numpyro.sample("y", dist.Categorical(logits=f).to_event(1), obs=jnp.asarray(y))

    sampler = MCMC(
        NUTS(model), num_warmup=500, num_samples=500, num_chains=2, progress_bar=False,
        chain_method="sequential",
    )  # fmt: skip
    sampler.run(jax.random.PRNGKey(seed))
    draws = {name: np.asarray(value) for name, value in sampler.get_samples().items()}
    rng, p = np.random.default_rng(seed), 0.0
    for amplitude, length, white in list(
        zip(*(draws[k] for k in ("amplitude", "length", "white")))
    )[::5]:
        gram = amplitude**2 * np.exp(-0.5 * inner / length**2) + 1e-6 * np.eye(len(X))
        cross = amplitude**2 * np.exp(-0.5 * outer / length**2)
        lower = np.linalg.cholesky(gram)
        half = np.linalg.solve(lower, cross.T)
        variance = np.maximum(amplitude**2 - np.sum(half**2, axis=0), 0.0)
        noise = rng.standard_normal((20, *((half.T @ white).shape)))
        p = p + softmax(half.T @ white + np.sqrt(variance)[:, None] * noise, axis=2).mean(axis=0)
    return p


# --- the lists ------------------------------------------------------------------------------------

# Ranks are for classes with an order: bench_ordinal.py has that model and its peers.
OURS: dict[str, Callable] = {
    name: partial(ours, name) for name in CLASSIFIERS if name != "ordinal-gp"
}
# As it comes it samples, for a minute and more; moment matching is its paper's own inference.
OURS["null-category, adf"] = partial(ours, "null-category", inference="adf")
# As it comes it samples up to 100 rows, and beyond them is its engine: here it is both on all.
OURS["archipelago"] = partial(ours, "archipelago", inference="mcmc")
OURS["archipelago, engine"] = partial(ours, "archipelago", inference="vi")
SCIKIT_LEARN: dict[str, Callable] = {
    "LogisticRegression": partial(supervised, lambda seed: LogisticRegression(max_iter=2000)),
    "LogisticRegressionCV": tuned_logistic,
    "LinearDiscriminantAnalysis": partial(
        supervised, lambda seed: LinearDiscriminantAnalysis("lsqr", shrinkage="auto")
    ),
    "SVC": support_vectors,
    "GaussianProcessClassifier": gaussian_process,
    "RandomForest": partial(supervised, lambda seed: RandomForestClassifier(random_state=seed)),
    "1-NN": partial(supervised, lambda seed: KNeighborsClassifier(1)),
    "LabelSpreading": partial(graph_of_scikit_learn, LabelSpreading),
    "LabelPropagation": partial(graph_of_scikit_learn, LabelPropagation),
    "self-training": partial(self_training, LogisticRegression(max_iter=2000)),
}
ELSEWHERE: dict[str, Callable] = {
    "Laplace": partial(graph_of_graphlearning, "laplace"),
    "Poisson": partial(graph_of_graphlearning, "poisson"),
    "GPy": gpy,
    "GPflow": gpflow,
    "NumPyro": numpyro_nuts,
}
NEEDS = {"Laplace": "graphlearning", "Poisson": "graphlearning", "GPy": "GPy", "GPflow": "gpflow",
         "NumPyro": "numpyro"}  # fmt: skip
MODELS = OURS | SCIKIT_LEARN | ELSEWHERE | {"shares": knows_nothing}
WITHOUT_PROBABILITIES = ("1-NN", "Poisson")


def installed(name):
    return name not in NEEDS or importlib.util.find_spec(NEEDS[name]) is not None
