"""Geweke's joint test at larger n, of every move of every sweep by itself.

Parameters are functions and log-parameters, and data are drawn from the models' equations
(`simulators.py`): after every sweep the labels are renewed, so that rows change classes. A move of
auxiliary variables z is preceded by a draw of z given f and the labels, and followed by f given z.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from functools import lru_cache, partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.special import expit, logsumexp

from atoll.diagnostics import GewekeResult, geweke_test
from atoll.inference import auxiliary_gibbs as gibbs
from atoll.inference import hmc, hmc_chains
from atoll.inference.cone_sampling import sample_cone
from atoll.kernels.hyperparameters import gram_function
from atoll.likelihoods import null_category, ordinal
from atoll.models import graph_gp, graph_softmax, probit_gp, softmax_gp
from atoll.models.label_cone import label_cone
from proof import simulators as sim
from proof.calibration import (
    DEFAULT,
    NOTHING,
    cut_prior,
    cuts_of,
    prior_of,
)
from proof.calibration_graphs import graph_features

LENGTHS = {"n_chains": 120, "n_steps": 10, "n_marginal": 2500}


class Move(NamedTuple):
    """run : rng -> GewekeResult; n rows."""

    run: Callable[[np.random.Generator], GewekeResult]
    n: int


def of_function(f, own):
    """Statistics of functions (n, F), and of them with the labels; own (n,) log P(label)."""
    return {
        "f": f[0, 0], "f²": f[0, 0] ** 2, "f f'": f[0, 0] * f[1, 0], "mean f²": np.mean(f**2),
        "largest |f|": np.abs(f).max(), "mean f": f.mean(), "log P(labels)": own.sum(),
        "log P(label 0)": own[0], "f of the surest": f[np.argmax(own), 0],
        "f of the least sure": f[np.argmin(own), 0],
    }  # fmt: skip


def of_parameters(theta, f, own):
    found = {}
    for j, value in enumerate(theta):
        found |= {f"θ{j}": value, f"θ{j}²": value**2, f"θ{j} f²": value * np.mean(f**2)}
        found[f"θ{j} log P"] = value * own.sum()
    return found


# Auxiliary variables ------------------------------------------------------------------------------


class Model(NamedTuple):
    """A likelihood of z = f + ε: by hand, and as the package's regions."""

    n_classes: int
    n_functions: int
    phi_prior: tuple
    log_classes: Callable  # f (n,) or (n, K), φ -> (n, K)
    rates: Callable  # φ -> (K,)
    family: Callable  # codes, seen -> RegionFamily


def never(n_classes, phi):
    return np.zeros(n_classes)


def latent_models():
    def margins(width, f, phi):
        return sim.log_margin_classes(f, width(phi) / np.sqrt(2))

    def halves(width, f, phi):
        return sim.log_interval_classes(f, np.zeros(1), width(phi))

    def ranks(width, f, phi):
        return sim.log_interval_classes(f, cuts_of(phi, width), width)

    def fixed(value):
        return lambda phi: value

    def free(phi):
        return np.exp(phi[0])

    none, scale = (NOTHING, NOTHING), float(np.sqrt(1.0 + np.exp(2.0)))
    width_prior = (np.zeros(1), np.full(1, 0.5))
    all_free = (np.zeros(3), np.array([0.5, 1.8, 1.8]))
    return {
        "probit": Model(
            2, 1, none, partial(halves, fixed(0.0)), partial(never, 2),
            lambda codes, seen: probit_gp.family(codes, 2),
        ),
        "multinomial probit": Model(
            3, 3, none, partial(margins, fixed(0.0)), partial(never, 3),
            lambda codes, seen: probit_gp.family(codes, 3),
        ),
        "ordinal": Model(
            3, 1, cut_prior(3, 0.0), partial(ranks, 0.0), partial(never, 3),
            lambda codes, seen: ordinal.family(codes, seen, 3, 0.0, scale),
        ),
        "ordinal with a null width": Model(
            3, 1, cut_prior(3, 0.2), partial(ranks, 0.2), lambda phi: np.full(3, 0.5),
            lambda codes, seen: ordinal.family(codes, seen, 3, 0.2, scale),
        ),
        "null category": Model(
            2, 1, none, partial(halves, fixed(0.3)), lambda phi: np.array([0.6, 0.3]),
            lambda codes, seen: null_category.family(codes, seen, 2, 0.3, (0.6, 0.3)),
        ),
        "null category, all free": Model(
            2, 1, all_free, partial(halves, free), lambda phi: expit(phi[1:]),
            lambda codes, seen: null_category.family(
                codes, seen, 2, None, sample_missing_rates=True
            ),
        ),
        "null category, three classes": Model(
            3, 3, none, partial(margins, fixed(0.2)), lambda phi: np.array([0.6, 0.3, 0.5]),
            lambda codes, seen: null_category.family(codes, seen, 3, 0.2, (0.6, 0.3, 0.5)),
        ),
        "three classes with a free null width, all seen": Model(
            3, 3, width_prior, partial(margins, free), partial(never, 3),
            lambda codes, seen: null_category.family(codes, seen, 3, None),
        ),
    }  # fmt: skip


def one_by_one(rng, state, family, gram, prior):
    precision = np.linalg.inv(state.noisy_factor @ state.noisy_factor.T)
    prepared = family.at(state.region_parameters)
    z = gibbs.sample_auxiliary(rng, state.auxiliary, precision, prepared)
    return state._replace(auxiliary=z)


def shift(rng, state, family, gram, prior):
    return gibbs.shift(rng, state, family, family.shift_index)


def given_z(rng, state, family, gram, prior):
    """Of several functions the mean of z is integrated out, and drawn anew here."""
    n_free = family.at(state.region_parameters).regions.n_free
    state = gibbs.step_given_auxiliary(rng, state, n_free, gram, prior)
    z = state.auxiliary
    if z.ndim == 1:
        return state
    mean = state.noisy_factor @ rng.standard_normal(len(z)) / np.sqrt(z.shape[1])
    return state._replace(auxiliary=z + (mean - z.mean(axis=1))[:, None])


def without_z(rng, state, family, gram, prior):
    return gibbs.step_given_whitened(rng, state, family, gram, prior)


def whole(rng, state, family, gram, prior):
    return gibbs.sweep(rng, state, family, gram, prior)


def run_auxiliary(model, move, n, rng):
    rng_rows, rng = rng.spawn(2)
    X, prior = rng_rows.standard_normal((n, 2)), prior_of(DEFAULT)
    gram = gram_function(prior, X)
    shape = (n,) if model.n_functions == 1 else (n, model.n_functions)

    def sample_prior(rng):
        """Given that no row is null: a draw is kept with the chance of that."""
        while True:
            theta = prior.mean + prior.sd * rng.standard_normal(2)
            phi = model.phi_prior[0] + model.phi_prior[1] * rng.standard_normal(
                len(model.phi_prior[0])
            )
            f = sim.factor(X, theta) @ rng.standard_normal(shape)
            if np.log(rng.random()) < logsumexp(model.log_classes(f, phi), axis=1).sum():
                return f, theta, phi

    def sample_data(rng, parameters):
        f, _, phi = parameters
        p = sim.normalised(model.log_classes(f, phi))
        codes = (rng.random((n, 1)) > np.cumsum(p, axis=1)[:, :-1]).sum(axis=1)
        return codes, rng.random(n) >= np.asarray(model.rates(phi))[codes]

    def sweep(rng, parameters, data):
        f, theta, phi = parameters
        family = model.family(*data)
        z = family.at(phi).regions.sample(rng, f, 1.0)
        state = gibbs.init(z, theta, phi, gram)
        state = state._replace(step_size=hmc.init_step_size(0.2))
        state = move(rng, state, family, gram, prior)
        f = gibbs.sample_latent(rng, state, gram)
        return f, state.log_parameters, state.region_parameters

    def statistics(parameters, data):
        f, theta, phi = parameters
        codes, seen = data
        log_p = model.log_classes(f, phi)
        own = np.where(seen, log_p[np.arange(n), codes], logsumexp(log_p, axis=1))
        columns = f.reshape(n, -1)
        found = of_function(columns, own) | of_parameters(theta, columns, own)
        for j, value in enumerate(phi):
            found |= {f"φ{j}": value, f"φ{j}²": value**2, f"φ{j} log P": value * own.sum()}
        if columns.shape[1] > 1:
            lead = columns[:, 0] - columns[:, 1]
            found |= {"lead²": np.mean(lead**2), "lead of class 0": np.mean(lead * (codes == 0))}
        return found | {"f² of the unseen": np.mean(columns[:, 0] ** 2 * ~seen)}

    return geweke_test(rng, sample_prior, sample_data, sweep, statistics, **LENGTHS)


# Softmax ------------------------------------------------------------------------------------------


def run_softmax(move, n_classes, n, rng):
    rng_rows, rng = rng.spawn(2)
    X, prior = rng_rows.standard_normal((n, 2)), prior_of(DEFAULT)
    gram = gram_function(prior, X)

    def functions(parameters):
        whitened, theta = parameters
        return sim.factor(X, theta) @ whitened

    def sample_prior(rng):
        return rng.standard_normal((n, n_classes)), prior.mean + prior.sd * rng.standard_normal(2)

    def sample_data(rng, parameters):
        p = sim.normalised(functions(parameters))
        return (rng.random((n, 1)) > np.cumsum(p, axis=1)[:, :-1]).sum(axis=1)

    def sweep(rng, parameters, codes):
        state = softmax_gp.SoftmaxState(*parameters, hmc.init_step_size(0.25), 1.0)
        lower = sim.factor(X, state.log_parameters)
        if move in ("functions", "sweep"):
            state = softmax_gp.sweep_functions(rng, state, codes, lower, adapt=False)
        if move in ("log variance", "sweep"):
            state = softmax_gp.sweep_log_variance(rng, state, codes, prior, lower)
        if move in ("log-parameters", "sweep"):
            state = softmax_gp.sweep_log_parameters(rng, state, codes, prior, gram)
        return state.whitened, state.log_parameters

    def statistics(parameters, codes):
        g = functions(parameters)
        own = sim.log_softmax(g)[np.arange(n), codes]
        return of_function(g, own) | of_parameters(parameters[1], g, own)

    return geweke_test(rng, sample_prior, sample_data, sweep, statistics, **LENGTHS)


# Archipelago, with the driver of its own tests ----------------------------------------------------


@lru_cache(maxsize=1)
def islands():
    file = Path(__file__).parents[1] / "models" / "archipelago" / "test_geweke.py"
    spec = importlib.util.spec_from_file_location("islands_geweke", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run_islands(name, n, rng):
    move, options = islands().GEWEKE[name]
    lengths = {"n_chains": 100, "n_steps": 8, "n_marginal": 2000}
    seed = int(rng.integers(2**31))
    return islands().run_geweke(move, **(options | lengths | {"n": n, "seed": seed}))


ISLAND_MOVES = (
    "rejections", "rejections, own kernels", "rejections, with candidates", "functions",
    "functions, with candidates", "functions, own kernels and dependent",
    "functions, in white coordinates", "functions, in white coordinates, own kernels and dependent",
    "log-parameters", "log-parameters, together with functions",
    "log-parameters, together with functions, own kernels and dependent",
    "log-parameters, by slices", "log-parameters, by slices, own kernels and dependent",
    "log-parameters, at once", "log-parameters, at once, own kernels and dependent",
    "base density", "mixing", "sweep", "sweep, few rejections", "sweep, many rejections",
    "sweep, sampled base density", "sweep, own kernels", "sweep, dependent",
    "paper's births and deaths", "paper's relocation", "paper's function",
    "paper's log-parameters", "paper's log-parameters, whitened", "paper's sweep",
    "paper's sweep, all options", "paper's sweep, whitened log-parameters",
)  # fmt: skip


# Graphs -------------------------------------------------------------------------------------------


def run_argmax(n_classes, by_flights, nugget, n, rng):
    features = graph_features(0, n_classes)
    rows, F = np.arange(n), 1 if n_classes == 2 else n_classes
    v = features[rows]
    lower = np.linalg.cholesky(v @ v.T + nugget * np.eye(n))

    def sample_prior(rng):
        return rng.standard_normal((v.shape[1], F))

    def sample_data(rng, a):
        f = v @ a + np.sqrt(nugget) * rng.standard_normal((n, F))
        return f, (f[:, 0] > 0).astype(int) if F == 1 else f.argmax(axis=1)

    def sweep(rng, a, data):
        f, codes = data
        if by_flights:
            cone = label_cone(lower, codes, n_classes)
            f = cone.functions(rng, cone.move(rng, cone.differences(f.T[None])))
            return graph_gp.sample_coefficients(rng, v, lower, f, nugget)[0]
        here = graph_gp.at_functions(lower, f[None])
        for _ in range(3):
            here = graph_gp.sweep(rng, here, lower, codes)
        f = graph_gp.functions_at(here)
        return graph_gp.sample_coefficients(rng, v, lower, f, nugget)[0]

    def statistics(a, data):
        f, codes = v @ a, data[1]
        own = -f[:, 0] * (1 - 2 * codes) if F == 1 else f[np.arange(n), codes] - f.mean(axis=1)
        found = of_function(f, own)
        found |= {f"a{j}²": np.mean(a[j] ** 2) for j in range(3)}
        return found | {"|a|²": np.sum(a**2), "a0": a[0, 0], "own²": np.mean(own**2)}

    return geweke_test(rng, sample_prior, sample_data, sweep, statistics, **LENGTHS)


def run_graph_softmax(n_classes, with_sum, n, rng):
    F, amplitude = 1 if n_classes == 2 else n_classes, np.exp(1.0)
    v = graph_features(0, n_classes)[:n] * (np.sqrt(2.0) if F == 1 else 1.0)
    p = v.shape[1]
    where = graph_softmax.Whitened.of(v, np.tile(2.5 * np.eye(p) + 0.1, (F, 1, 1)))

    def sample_prior(rng):
        return rng.standard_normal((F, 1, p))

    def latent(x):
        f = amplitude * v @ x[:, 0].T
        return np.concatenate([np.zeros_like(f), f], axis=1) if F == 1 else f

    def sample_data(rng, x):
        chances = sim.normalised(latent(x))
        return (rng.random((n, 1)) > np.cumsum(chances, axis=1)[:, :-1]).sum(axis=1)

    def sweep(rng, x, codes):
        def log_density(q):
            return graph_softmax.log_posterior(q, np.array([amplitude]), where, codes)

        chains = hmc_chains.init(where.coordinates(x), log_density)
        for _ in range(2):
            chains, _ = hmc_chains.step(rng, chains, log_density, 0.5, 5)
            if with_sum:
                chains = graph_softmax.with_another_sum(rng, chains, where)
        return where.coefficients(chains.position)

    def statistics(x, codes):
        f = latent(x)
        own = sim.log_softmax(f)[np.arange(n), codes]
        found = of_function(f[:, -F:], own)
        return found | {"|a|²": np.sum(x**2), "a0": x[0, 0, 0], "sum²": np.sum(x) ** 2}

    return geweke_test(rng, sample_prior, sample_data, sweep, statistics, **LENGTHS)


def run_cone(n_classes, n, rng):
    """z of SSGP inside the cone of the labels, then f given z."""
    from atoll.models.ssgp.evidence import Labels
    from atoll.models.ssgp.posterior import constraints

    rng_rows, rng = rng.spawn(2)
    F, X = 1 if n_classes == 2 else n_classes, rng_rows.standard_normal((n, 2))
    C = sim.rbf(X, X, (1.5, 0.0)) + 1e-6 * np.eye(n)
    lower, noisy = np.linalg.cholesky(C), np.linalg.cholesky(C + np.eye(n))
    gain = C @ np.linalg.inv(C + np.eye(n))
    left = np.linalg.cholesky(C - gain @ C + 1e-9 * np.eye(n))

    def sample_prior(rng):
        return lower @ rng.standard_normal((n, F))

    def sample_data(rng, f):
        z = f + rng.standard_normal(f.shape)
        return z, (z[:, 0] > 0).astype(int) if F == 1 else z.argmax(axis=1)

    def sweep(rng, f, data):
        z, codes = data
        says = constraints(Labels(np.arange(n), codes, n_classes))
        z = sample_cone(rng, noisy, says, z, n_warmup=0, n_samples=1, thin=10)[0]
        return gain @ z + left @ rng.standard_normal(z.shape)

    def statistics(f, data):
        codes = data[1]
        own = -f[:, 0] * (1 - 2 * codes) if F == 1 else f[np.arange(n), codes] - f.mean(axis=1)
        return of_function(f, own) | {"own²": np.mean(own**2)}

    return geweke_test(rng, sample_prior, sample_data, sweep, statistics, **LENGTHS)


AUXILIARY_MOVES = {
    "z one by one": one_by_one,
    "θ given z": given_z,
    "f, φ and θ without z": without_z,
    "sweep": whole,
}


def moves():
    found = {}
    for name, model in latent_models().items():
        n = 12 if "free" in name else 30
        if name == "ordinal with a null width":
            n = 16
        for what, move in AUXILIARY_MOVES.items():
            found[f"{name}: {what}"] = Move(partial(run_auxiliary, model, move, n), n)
    for name in ("ordinal", "ordinal with a null width"):
        n = 30 if name == "ordinal" else 16
        shifting = partial(run_auxiliary, latent_models()[name], shift, n)
        found[f"{name}: shift of z and cut points"] = Move(shifting, n)
    for K in (2, 3):
        for what in ("functions", "log variance", "log-parameters", "sweep"):
            name = f"softmax, {K} classes: {what}"
            found[name] = Move(partial(run_softmax, what, K, 30), 30)
    for name in ISLAND_MOVES:
        found[f"Archipelago: {name}"] = Move(partial(run_islands, name, 20), 20)
    for K in (2, 3, 4):
        for by_flights, name in ((False, ""), (True, ", flights")):
            found[f"graph argmax, {K} classes{name}"] = Move(
                partial(run_argmax, K, by_flights, 0.3, 25), 25
            )
    for K in (2, 3):
        found[f"graph softmax, {K} classes: functions"] = Move(
            partial(run_graph_softmax, K, False, 40), 40
        )
        found[f"SSGP, {K} classes: z in its cone"] = Move(partial(run_cone, K, 30), 30)
    found["graph softmax, 3 classes: functions and their sum"] = Move(
        partial(run_graph_softmax, 3, True, 40), 40
    )
    return found


MOVES: dict[str, Move] = moves()
