"""Simulation-based calibration of the posteriors on graphs, and of the sparse engine."""

from __future__ import annotations

from dataclasses import replace
from functools import cache, partial

import numpy as np
from scipy.special import expit, logsumexp
from sklearn.gaussian_process.kernels import RBF

from atoll.core.graphs import neighbour_graph, self_tuning_weights
from atoll.kernels.detailed import DETAIL, with_detail
from atoll.kernels.graph_spectral import graph_modes
from atoll.kernels.graph_warped import Geometry
from atoll.models import graph_gp, graph_softmax, ssgp
from atoll.models.graph_recipe import RECIPE
from proof import simulators as sim
from proof.calibration import N_DRAWS, Case, Simulation, chain, named, size

N_GRAPH_ROWS, N_MODES, N_CHAINS = 80, 16, 60
# As used, chains stop when they remember less than 0.3 of where they were half-way.
PATIENT = replace(
    RECIPE.argmax, first_flights=8, first_sweeps=64, most_sweeps=2048, memory_limit=0.1
)
PATIENT_SOFTMAX = replace(RECIPE.softmax, first_steps=60, most_steps=960, memory_limit=0.1)


@cache
def graph_features(seed, n_classes):
    X = np.random.default_rng([7, seed]).standard_normal((N_GRAPH_ROWS, 2))
    W = self_tuning_weights(neighbour_graph(X, 6))
    return graph_gp.row_features(graph_modes(W, N_MODES), n_classes, 10)


def labelled_rows(rng):
    """Features of a graph, which rows have a label, and two rows that have none."""
    n, chosen = size(rng), rng.permutation(N_GRAPH_ROWS)
    return int(rng.integers(8)), chosen[:n], chosen[-2:]


def shares(f):
    """The share of the rows whose largest function is the first; of two classes, is below zero."""
    first = f[..., 0] < 0 if f.shape[-1] == 1 else f.argmax(axis=-1) == 0
    return first.mean(axis=-1)


def of_argmax(n_classes, recipe, rng):
    """f = v a + nugget, y the class of the largest function, two classes by the sign of one."""
    F = 1 if n_classes == 2 else n_classes
    seed, rows, others = labelled_rows(rng)
    features = graph_features(seed, n_classes)
    a = rng.standard_normal((features.shape[1], F))
    f = features[rows] @ a + np.sqrt(recipe.nugget) * rng.standard_normal((len(rows), F))
    codes = (f[:, 0] > 0).astype(int) if F == 1 else f.argmax(axis=1)
    known = graph_gp.GraphLabels(features, rows, codes, n_classes)
    found = graph_gp.draw(rng, known, N_CHAINS, replace(RECIPE, argmax=recipe))
    drawn = found.coefficients[rng.permutation(N_CHAINS)[:N_DRAWS]]
    return coefficients(features, rows, others, a, drawn)


def coefficients(features, rows, others, a, drawn, log_likelihood=None):
    """Quantities of coefficients (p, F), and of draws of them (L, p, F)."""
    f, f_drawn = features @ a, features @ drawn
    truth, draws = {}, {}
    for found, c, g in ((truth, a, f), (draws, drawn, f_drawn)):
        found["first coefficient"] = c[..., 0, 0]
        found["last coefficient"] = c[..., -1, -1]
        found["energy"] = (c**2).sum(axis=(-1, -2))
        found["f of a labelled row"] = g[..., rows[0], 0]
        found["f of a row without a label"] = g[..., others[0], 0]
        found["lead of the first class there"] = (
            -g[..., others[1], 0]
            if g.shape[-1] == 1
            else g[..., others[1], 0] - g[..., others[1], 1:].max(axis=-1)
        )
        found["share of the first class"] = shares(g)
        if log_likelihood is not None:
            found["log-likelihood"] = log_likelihood(g[..., rows, :])
    return Simulation(len(rows), truth, draws)


def of_graph_softmax(n_classes, amplitudes, recipe, rng):
    """amplitudes "known": u is given to the chains; "found": on the grid, by Laplace's evidence."""
    F = 1 if n_classes == 2 else n_classes
    seed, rows, others = labelled_rows(rng)
    features = graph_features(seed, n_classes)
    grid = np.array(recipe.amplitudes)
    weights = np.exp(-0.5 * ((grid - recipe.amplitude_centre) / recipe.amplitude_spread) ** 2)
    u = float(rng.choice(grid, p=weights / weights.sum()))
    if amplitudes == "known":
        recipe = replace(recipe, amplitudes=(u,))
    scale = np.exp(0.5 * u) * (np.sqrt(2.0) if F == 1 else 1.0)
    a = scale * rng.standard_normal((features.shape[1], F))

    def log_classes(f):
        return sim.log_softmax(np.concatenate([np.zeros_like(f), f], axis=-1) if F == 1 else f)

    p = np.exp(log_classes(features[rows] @ a))
    codes = (rng.random((len(rows), 1)) > np.cumsum(p, axis=1)[:, :-1]).sum(axis=1)
    found = graph_softmax.sample(rng, features[rows], codes, n_classes, N_CHAINS, recipe)
    chosen = rng.permutation(N_CHAINS)[:N_DRAWS]

    def log_likelihood(f):
        return log_classes(f)[..., np.arange(len(rows)), codes].sum(axis=-1)

    drawn = found.coefficients[chosen]
    made = coefficients(features, rows, others, a, drawn, log_likelihood)
    if amplitudes == "found":
        made.truth["log amplitude"] = u
        made.draws["log amplitude"] = found.log_amplitudes[chosen]
    return made


# Semi-supervised Gaussian processes ---------------------------------------------------------------

LENGTH, RATIO, AMBIENT, NOISE = 1.0, 2.0, 0.2, 1.0


def warped_covariance(X, geometry, at):
    """K̃ = K − k (I + M K)^{-1} M kᵀ by its definition, between rows `at`."""
    theta = (0.0, np.log(LENGTH))
    K, k = sim.rbf(X, X, theta), sim.rbf(at, X, theta)
    M = RATIO * geometry.matrix()
    return sim.rbf(at, at, theta) - k @ np.linalg.solve(np.eye(len(X)) + M @ K, M @ k.T)


def ssgp_problem(rng, F):
    n = size(rng)
    X = rng.standard_normal((80, 2))
    geometry = Geometry.from_rows(X, n_neighbors=6)
    new_rows = rng.standard_normal((2, 2))
    at = np.concatenate([X[:n], new_rows])
    C = warped_covariance(X, geometry, at) / AMBIENT
    lower = np.linalg.cholesky(C + 1e-9 * np.eye(len(C)))
    f = lower @ rng.standard_normal((len(at), F))
    problem = ssgp.Problem(RBF(LENGTH), geometry)
    return X, new_rows, problem, f[:n], f[n:]


def of_ssgp(n_classes, rng):
    F = 1 if n_classes == 2 else n_classes
    X, new_rows, problem, f, f_new = ssgp_problem(rng, F)
    n = len(f)
    z = f + NOISE * rng.standard_normal(f.shape)
    codes = (z[:, 0] > 0).astype(int) if F == 1 else z.argmax(axis=1)
    labels = ssgp.Labels(np.arange(n), codes, n_classes, NOISE)
    at = np.array([np.log(LENGTH), np.log(AMBIENT), np.log(RATIO)])
    fit = ssgp.fit_at(problem, labels, at)
    thin = 20 + 6 * n * (n_classes - 1)  # an arc is the shorter, the more constraints there are
    lengths = ssgp.Lengths(n_warmup=8, n_samples=N_DRAWS, n_chains=1, thin=thin)
    drawn, lower, _ = ssgp.sample_auxiliary(rng, fit, labels, lengths)
    component = ssgp.sampled_component(problem, fit, drawn[0], lower)
    f_drawn = component.sample(rng, X[:n], new_rows, np.arange(N_DRAWS))
    truth, draws = {}, {}
    for found, of_z, of_new in ((truth, z, f_new), (draws, drawn[0], f_drawn)):
        found["z of row 0"] = of_z[..., 0, 0]
        found["mean z²"] = (of_z**2).mean(axis=(-1, -2))
        found["largest z of the last row"] = of_z[..., -1, :].max(axis=-1)
        found["f of a new row"] = of_new[..., 0, 0]
        found["last f of another"] = of_new[..., 1, -1]
    return Simulation(n, truth, draws)


def of_ssgp_regression(rng):
    X, new_rows, problem, f, f_new = ssgp_problem(rng, 1)
    n = len(f)
    y = f[:, 0] + 0.5 * rng.standard_normal(n)
    at = np.array([np.log(LENGTH), np.log(AMBIENT), np.log(RATIO), np.log(0.25)])
    fit = ssgp.regression_at(problem, np.arange(n), y, at)
    posterior = ssgp.regression_posterior(problem, fit, X[:n], y)
    drawn = posterior.draws(np.concatenate([X[:1], new_rows]), N_DRAWS, rng)
    names = ("f of row 0", "f of a new row", "f of another")
    truth = dict(zip(names, (f[0, 0], f_new[0, 0], f_new[1, 0])))
    return Simulation(n, truth, dict(zip(names, drawn.T)))


# The sparse engine --------------------------------------------------------------------------------

SPARSE_SIZES, N_BASE, N_INDUCING, N_NOISE = (3, 10, 25, 60), 60, 8, 2
DETAILS = (0.0, DETAIL, 0.5)  # of the kernel; the engine's own is the second


def of_sparse(n_classes, rng):
    """π is its points, so that rows are drawn from them by what is kept there.

    What inducing values leave open is the same at a row and at the point of π that it is.
    """
    from atoll.models.archipelago.engine import hmc

    K, n, detail = n_classes, int(rng.choice(SPARSE_SIZES)), rng.choice(DETAILS)
    base = rng.standard_normal((N_BASE, 2))
    inducing, eps = base[:N_INDUCING], rng.standard_normal((N_NOISE, N_BASE, K))
    mean, sd = np.array([1.0, 0.0]), np.array([0.7, 0.4])
    v, theta = rng.standard_normal((K, N_INDUCING)), mean + sd * rng.standard_normal(2)

    def functions(v, theta):
        unit = np.append(0.0, theta[1:])
        C = with_detail(sim.rbf(inducing, inducing, unit), detail) + 1e-4 * np.eye(N_INDUCING)
        across = with_detail(sim.rbf(inducing, base, unit), detail)
        A = np.linalg.solve(np.linalg.cholesky(C), across)
        left = np.sqrt(np.maximum(1.0 - (A**2).sum(axis=0), 0.0) + 1e-12)
        return np.exp(0.5 * theta[0]) * (A.T @ v.T + left[:, None] * eps)

    g = functions(v, theta)  # (N_NOISE, N_BASE, K)
    kept = np.exp(g - np.logaddexp(0.0, logsumexp(g, axis=-1))[..., None]).mean(axis=0)
    flat = rng.choice(N_BASE * K, size=n, p=kept.ravel() / kept.sum())
    places, classes = flat // K, flat % K
    n_labelled = max(1, n // 3)
    data = hmc.SparseData(
        labelled=base[places[:n_labelled]], labels=np.eye(K)[classes[:n_labelled]],
        rows=base[places[n_labelled:]], base=base, inducing=inducing, detail=detail,
        noise=np.concatenate([eps[:, places], eps], axis=1),
        centre=np.zeros((K, N_INDUCING)), factors=np.tile(np.eye(N_INDUCING), (K, 1, 1)),
        theta_centre=mean, prior_mean=mean, prior_sd=sd,
    )  # fmt: skip
    data = hmc.SparseData(*(np.asarray(part, np.float32) for part in data))
    found = chain(hmc.sampler(data, np.zeros(2), np.arange(n)), rng, n)
    truth = named("log-parameter", theta) | {
        "first inducing value": v[0, 0], "mean square of values": np.mean(v**2),
        "log Z": np.log(kept.sum() / N_BASE),
        "P(class 0) of row 0": sim.normalised(g[:, places[0]]).mean(axis=0)[0],
        "P(class 0) of the last row": sim.normalised(g[:, places[-1]]).mean(axis=0)[0],
        "log-likelihood": log_sparse(g, kept, places, classes, n_labelled),
    }  # fmt: skip
    draws = named("log-parameter", found["log_parameters"]) | {
        "first inducing value": found["values"][:, 0, 0],
        "mean square of values": (found["values"] ** 2).mean(axis=(1, 2)),
        "log Z": found["log_norm"],
        "P(class 0) of row 0": found["row_probabilities"][:, 0, 0],
        "P(class 0) of the last row": found["row_probabilities"][:, -1, 0],
        "log-likelihood": found["log_likelihood"],
    }  # fmt: skip
    return Simulation(n, truth, draws)


def log_sparse(g, kept, places, classes, n_labelled):
    any_class = expit(logsumexp(g, axis=-1)).mean(axis=0)
    of_labels = np.log(kept[places[:n_labelled], classes[:n_labelled]]).sum()
    of_rows = np.log(any_class[places[n_labelled:]]).sum()
    return of_labels + of_rows - len(places) * np.log(kept.sum() / N_BASE)


GRAPH_CASES: dict[str, Case] = {
    "graph-argmax-2": Case(partial(of_argmax, 2, PATIENT), "graph argmax, two classes"),
    "graph-argmax-3": Case(partial(of_argmax, 3, PATIENT), "graph argmax, three classes"),
    "graph-argmax-3-as-used": Case(
        partial(of_argmax, 3, RECIPE.argmax),
        "graph argmax, three classes, with chains as short as in use",
        exact=False,
    ),
    "graph-softmax-2": Case(
        partial(of_graph_softmax, 2, "known", PATIENT_SOFTMAX),
        "graph softmax given its amplitude, two classes",
    ),
    "graph-softmax-3": Case(
        partial(of_graph_softmax, 3, "known", PATIENT_SOFTMAX),
        "graph softmax given its amplitude, three classes",
    ),
    "graph-softmax-3-as-used": Case(
        partial(of_graph_softmax, 3, "found", RECIPE.softmax),
        "graph softmax, three classes, amplitude by Laplace's evidence and chains as in use",
        exact=False,
    ),
    "ssgp-2": Case(partial(of_ssgp, 2), "SSGP by chains, two classes"),
    "ssgp-3": Case(partial(of_ssgp, 3), "SSGP by chains, three classes"),
    "ssgp-regression": Case(of_ssgp_regression, "SSGP regression"),
    "sparse-2": Case(partial(of_sparse, 2), "sparse Archipelago by chains, two classes"),
    "sparse-3": Case(partial(of_sparse, 3), "sparse Archipelago by chains, three classes"),
}
