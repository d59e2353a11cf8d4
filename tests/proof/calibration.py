"""Simulation-based calibration of every sampled posterior: one simulation of each case.

A case draws parameters and data by a simulator of its own (`simulators.py`), lets the package draw
from the posterior, and returns the true value of each quantity with the posterior's draws of it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple
from unittest.mock import patch

import numpy as np
from scipy.special import expit

from atoll.core.densities import Gaussian, NormalInverseWishart
from atoll.inference import auxiliary_gibbs
from atoll.inference.chains import run_chains
from atoll.kernels.hyperparameters import kernel_prior
from atoll.likelihoods import null_category as null_likelihood
from atoll.likelihoods.ordinal import Ordinal
from atoll.models import archipelago, null_category, ordinal_gp, probit_gp, softmax_gp
from atoll.models.archipelago import paper_sweep, sweep
from atoll.models.archipelago.prediction import make_posterior
from proof import simulators as sim

N_DRAWS = 15  # behind each rank, which is in 0 … 15
SMALLEST, LARGEST = 3, 60  # rows
NOTHING = np.zeros(0)
DEFAULT = (np.array([2.0, 0.0]), np.array([1.0, 0.5]))  # of log variance and log length-scale
ISLANDS = (np.array([1.0, 0.0]), np.array([0.5, 0.5]))
SPREAD_ISLANDS = (np.array([1.0, -0.3]), np.array([0.5, 0.4]))


class Simulation(NamedTuple):
    """n rows, the true values of the quantities, and N_DRAWS posterior draws of each."""

    n: int
    truth: dict[str, float]
    draws: dict[str, np.ndarray]


class Case(NamedTuple):
    """A posterior under test.

    simulate : rng -> Simulation
    about : what it is, in words
    exact : whether it is meant to be exact, or an approximation whose ranks are only looked at
    """

    simulate: Callable[[np.random.Generator], Simulation]
    about: str
    exact: bool = True


def size(rng, largest=LARGEST):
    """A number of rows, log-uniform from the smallest to the largest."""
    return int(np.exp(rng.uniform(np.log(SMALLEST), np.log(largest + 1))))


def prior_of(numbers):
    rows = np.array([[-1.0, 0.0], [1.0, 0.0]])
    return kernel_prior("isotropic", rows)._replace(mean=numbers[0], sd=numbers[1])


def chain(sampler, rng, n, slowness=1.0):
    """One chain's draws, name -> (N_DRAWS, …).

    Draws must be nearly independent: the length-scale's memory grows with the number of rows.
    """
    thin = int(slowness * (4 + n / 4))
    n_warmup = int(40 * min(1.0, slowness)) + 3 * thin
    found = run_chains(
        sampler, n_chains=1, n_warmup=n_warmup, n_samples=N_DRAWS, thin=thin, rng=rng
    ).draws
    return {name: values[0] for name, values in found.items()}


def named(prefix, values):
    """Columns of (…, q) by name."""
    return {f"{prefix} {j}": values[..., j] for j in range(values.shape[-1])}


# The auxiliary-variable family, and the softmax ---------------------------------------------------


class Regions(NamedTuple):
    """A model of z = f + ε, by its equations (the truth) and as the package has it.

    draw : rng, n -> Draw; log_classes : f, φ -> (…, K) by hand; log_rates : φ -> (2, K) or None
    sampler : Draw -> Sampler; likelihood : of the package's posterior
    """

    draw: Callable
    log_classes: Callable
    log_rates: Callable
    sampler: Callable
    likelihood: object
    largest: int = LARGEST
    slowness: float = 1.0


# Of the whole function in a sweep, where rows may change region. In use it has ten, and all but the
# length-scale has forgotten where it was after one sweep; time is better spent on more sweeps.
N_SLICES = 2


def of_regions(model, rng):
    rng_data, rng_chain, rng_new = rng.spawn(3)
    d = model.draw(rng_data, size(rng_data, model.largest))
    with patch.object(auxiliary_gibbs, "N_SLICES_UNIONS", N_SLICES):
        found = chain(model.sampler(d), rng_chain, len(d.rows), model.slowness)
    posterior = probit_gp.sampled_posterior(found, d.rows, prior_of(DEFAULT), model.likelihood)
    p_new = posterior.draws(d.new_rows, N_DRAWS, rng_new)
    likelihood = sim.total(model.log_classes(d.f, d.phi), d.codes, d.seen, model.log_rates(d.phi))
    p_true = sim.normalised(model.log_classes(d.f_new, d.phi))
    first = found["latent"].reshape(N_DRAWS, len(d.rows), -1)
    truth = named("log-parameter", d.theta) | named("region parameter", d.phi)
    draws = named("log-parameter", found["log_parameters"])
    draws |= named("region parameter", found["region_parameters"])
    truth |= {"f of row 0": d.f.reshape(len(d.rows), -1)[0, 0], "log-likelihood": likelihood}
    draws |= {"f of row 0": first[:, 0, 0], "log-likelihood": found["log_likelihood"]}
    truth |= {"mean f²": np.mean(d.f**2), "P(class 0) at a new row": p_true[0, 0]}
    draws |= {"mean f²": (first**2).mean(axis=(1, 2)), "P(class 0) at a new row": p_new[:, 0, 0]}
    truth["P(last class) at another"] = p_true[1, -1]
    draws["P(last class) at another"] = p_new[:, 1, -1]
    return Simulation(len(d.rows), truth, draws)


def no_rates(phi):
    return None


def always_seen(n_classes, phi):
    return np.zeros(n_classes)


def probit_case(n_classes):
    margins = n_classes > 2

    def draw(rng, n):
        return sim.draw_latent(
            rng, n, prior=DEFAULT, n_functions=n_classes if margins else 1,
            phi_prior=(NOTHING, NOTHING), rates=partial(always_seen, n_classes),
            classify=lambda z, phi: (
                sim.largest_by(z, 0.0) if margins else sim.rank_among(z, np.zeros(1), 0.0)
            ),
        )  # fmt: skip

    return Regions(
        draw,
        lambda f, phi: sim.log_margin_classes(f, 0.0) if margins else sim.log_probit_classes(f),
        no_rates,
        lambda d: probit_gp.sampler(d.rows, d.codes, prior_of(DEFAULT), n_classes),
        probit_gp.likelihood(n_classes),
    )


CUT_SCALE = float(np.sqrt(1.0 + np.exp(DEFAULT[0][0])))


def cut_prior(n_classes, width):
    """Ranks equally probable under N(0, scale²): the first cut, then log gaps beyond the width."""
    from scipy.stats import norm

    centre = CUT_SCALE * norm.ppf(np.arange(1, n_classes) / n_classes)
    gaps = np.diff(centre)
    mean = np.append(centre[:1], np.log(np.maximum(gaps - width, gaps / 2)))
    return mean, np.append(CUT_SCALE, np.ones(n_classes - 2))


def cuts_of(phi, width):
    return phi[0] + np.append(0.0, np.cumsum(width + np.exp(phi[1:])))


def ordinal_case(n_classes, width=0.0, missing=0.0, largest=LARGEST):
    def draw(rng, n):
        return sim.draw_latent(
            rng, n, prior=DEFAULT, n_functions=1, phi_prior=cut_prior(n_classes, width),
            rates=lambda phi: np.full(n_classes, missing),
            classify=lambda z, phi: sim.rank_among(z, cuts_of(phi, width), width),
        )  # fmt: skip

    def sampler(d):
        prior = prior_of(DEFAULT)
        family = ordinal_gp.family(d.rows, d.codes, d.seen, prior, n_classes, width)
        return probit_gp.regions_sampler(d.rows, family, prior)

    return Regions(
        draw,
        lambda f, phi: sim.log_interval_classes(f, cuts_of(phi, width), width),
        no_rates,
        sampler,
        Ordinal(width),
        largest=largest,
    )


def null_case(n_classes, width, rates=None, largest=LARGEST):
    """width None: free, and the rates with it, where they are None."""
    free, margins = width is None, n_classes > 2
    free_rates = free and rates is None
    q = int(free) + (n_classes if free_rates else 0)
    phi_prior = (np.zeros(q), np.append([0.5] * free, [1.8] * (q - free)))

    def width_at(phi):
        return np.exp(phi[0]) if free else width

    def rates_at(phi):
        return expit(phi[-n_classes:]) if free_rates else np.asarray(rates)

    def classify(z, phi):
        if margins:
            return sim.largest_by(z, width_at(phi) / np.sqrt(2))
        return sim.rank_among(z, np.zeros(1), width_at(phi))

    def draw(rng, n):
        return sim.draw_latent(
            rng, n, prior=DEFAULT, n_functions=n_classes if margins else 1,
            phi_prior=phi_prior, rates=rates_at, classify=classify,
        )  # fmt: skip

    def log_classes(f, phi):
        if margins:
            return sim.log_margin_classes(f, width_at(phi) / np.sqrt(2))
        return sim.log_interval_classes(f, np.zeros(1), width_at(phi))

    def sampler(d):
        family = null_likelihood.family(
            d.codes, d.seen, n_classes, width, rates, sample_missing_rates=free_rates
        )
        return null_category.sampler(d.rows, d.codes, d.seen, prior_of(DEFAULT), family)

    return Regions(
        draw,
        log_classes,
        lambda phi: np.log([1 - rates_at(phi), rates_at(phi)]),
        sampler,
        null_likelihood.NullCategory(width, n_classes),
        largest=largest,
        slowness=0.7 if margins and not free else 1.0,
    )


def of_softmax(n_classes, rng):
    rng_data, rng_chain, rng_new = rng.spawn(3)
    n = size(rng_data)

    X = rng_data.standard_normal((n + 2, 2))
    theta = DEFAULT[0] + DEFAULT[1] * rng_data.standard_normal(2)
    g = sim.factor(X, theta) @ rng_data.standard_normal((n + 2, n_classes))
    p = sim.normalised(g)
    codes = (rng_data.random((n, 1)) > np.cumsum(p[:n], axis=1)[:, :-1]).sum(axis=1)
    prior = prior_of(DEFAULT)
    found = chain(softmax_gp.sampler(X[:n], codes, prior, n_classes), rng_chain, n)
    posterior = softmax_gp.SoftmaxPosterior(prior, X[:n], found["log_parameters"], found["weights"])
    p_new = posterior.draws(X[n:], N_DRAWS, rng_new)
    likelihood = sim.log_softmax(g[:n])[np.arange(n), codes].sum()
    truth = named("log-parameter", theta) | {
        "g of row 0": g[0, 0], "log-likelihood": likelihood, "mean g²": np.mean(g[:n] ** 2),
        "P(class 0) at a new row": p[n, 0], "P(last class) at another": p[n + 1, -1],
    }  # fmt: skip
    draws = named("log-parameter", found["log_parameters"]) | {
        "g of row 0": found["latent"][:, 0, 0], "log-likelihood": found["log_likelihood"],
        "mean g²": (found["latent"] ** 2).mean(axis=(1, 2)),
        "P(class 0) at a new row": p_new[:, 0, 0], "P(last class) at another": p_new[:, 1, -1],
    }  # fmt: skip
    return Simulation(n, truth, draws)


# Archipelago --------------------------------------------------------------------------------------

SOME_GAUSSIANS = (0.0, 3.0, 4.0, 6.0)  # centre, strength, scale, df


def of_islands(n_classes, rng, *, options=None, moves=sweep.sweep, largest=LARGEST, slowness=1.5):
    options = options or {}
    rng_data, rng_chain, rng_new = rng.spawn(3)
    n = size(rng_data, largest)
    prior = SPREAD_ISLANDS if options else ISLANDS
    # The package gives up after so many proposals, and is conditioned on no more.
    limit = max(1000, int(n / 0.02))
    d = sim.draw_islands(rng_data, n, n_classes, prior, limit=limit, **options)
    seen = rng_data.random(n) < 0.4
    codes = np.where(seen, d.codes, archipelago.UNLABELLED)
    dimension = len(d.mean)
    base = Gaussian(np.zeros(dimension), np.eye(dimension))
    if "base" in options:
        centre, strength, scale, df = options["base"]
        base = NormalInverseWishart(np.full(1, centre), strength, np.full((1, 1), scale), df)
    setting = archipelago.Setting(
        d.rows, codes, n_classes, prior_of(prior), base,
        options.get("own_kernels", False), options.get("dependent", False),
    )  # fmt: skip
    with patch.object(sweep, "parameter_share", lambda *given: 1.0):  # θ is the slowest
        found = chain(archipelago.sampler(setting, sweep=moves), rng_chain, n, slowness)
    found["chain"] = np.zeros(N_DRAWS, dtype=np.intp)
    p_new = make_posterior(setting, found).draws(d.new_rows, N_DRAWS, rng_new)
    p_true, p_rows = sim.normalised(d.g_new), sim.normalised(d.g)
    likelihood = sim.islands_log_likelihood(d.g, d.codes, seen, d.g_rejected)
    truth = named("log-parameter", d.theta.ravel()) | {
        "rejections": len(d.rejections), "log-likelihood": likelihood,
        "P(class 0) of row 0": p_rows[0, 0], "mean log odds": np.mean(np.log(p_rows[:, 0])),
        "P(class 0) at a new row": p_true[0, 0], "P(last class) at another": p_true[1, -1],
    }  # fmt: skip
    of_rows = found["row_probabilities"]
    draws = named("log-parameter", found["log_parameters"]) | {
        "rejections": found["n_rejections"], "log-likelihood": found["log_likelihood"],
        "P(class 0) of row 0": of_rows[:, 0, 0],
        "mean log odds": np.log(of_rows[:, :, 0]).mean(axis=1),
        "P(class 0) at a new row": p_new[:, 0, 0], "P(last class) at another": p_new[:, 1, -1],
    }  # fmt: skip
    truth |= named("mixing weight", d.mixing)
    draws |= named("mixing weight", found["mixing"])
    if "base" in options:
        truth |= {"base mean": d.mean[0], "base deviation": d.sd[0]}
        draws["base mean"] = found["base_mean"][:, 0]
        draws["base deviation"] = found["base_lower"][:, 0, 0]
    return Simulation(n, truth, draws)


ALL_OPTIONS = {"own_kernels": True, "dependent": True, "base": SOME_GAUSSIANS}
CASES: dict[str, Case] = {
    "probit-2": Case(partial(of_regions, probit_case(2)), "probit, two classes"),
    "probit-3": Case(partial(of_regions, probit_case(3)), "multinomial probit, three classes"),
    "ordinal-2": Case(partial(of_regions, ordinal_case(2)), "ordinal, two ranks"),
    "ordinal-3": Case(partial(of_regions, ordinal_case(3)), "ordinal, three ranks"),
    "ordinal-null-3": Case(
        partial(of_regions, ordinal_case(3, 0.4, 0.5, largest=16)),
        "ordinal with a null width of 0.4",
    ),
    "null-2": Case(
        partial(of_regions, null_case(2, 0.3, (0.6, 0.3))), "null category, two classes"
    ),
    "null-3": Case(
        partial(of_regions, null_case(3, 0.2, (0.6, 0.3, 0.5))),
        "null category, three classes",
    ),
    "null-free-2": Case(
        partial(of_regions, null_case(2, None, largest=20)),
        "null category, two classes, width and missing rates free",
    ),
    "null-free-3": Case(
        partial(of_regions, null_case(3, None, largest=12)),
        "null category, three classes, width and missing rates free",
    ),
    "softmax-2": Case(partial(of_softmax, 2), "softmax, two classes"),
    "softmax-3": Case(partial(of_softmax, 3), "softmax, three classes"),
    "archipelago-2": Case(partial(of_islands, 2), "Archipelago, two classes"),
    "archipelago-3": Case(partial(of_islands, 3), "Archipelago, three classes"),
    "archipelago-options-2": Case(
        partial(of_islands, 2, options=ALL_OPTIONS, largest=40),
        "Archipelago, own kernels, dependent functions and a sampled base density",
    ),
    "archipelago-paper-2": Case(
        partial(of_islands, 2, moves=paper_sweep.whitened_sweep, largest=10, slowness=5.0),
        "Archipelago by the paper's own moves, log-parameters with whitened functions",
    ),
}
