"""Effective samples per second of the probit GP: our sweep against the lecture's, in one run.

The lecture's sweep (paper 004, slide for slide: z | f, f | z) with θ | f by the same elliptical
slice step that ours uses. Two problems: the crescent's 37 labelled points where ATOLL_DATA has
them, else 37 made ones; and 500 rows of a pinwheel with three arms. One thread; the two sweeps take
turns, so that both see the same machine.
"""

from __future__ import annotations

import itertools
import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import time
from typing import NamedTuple

import numpy as np

from atoll.datasets import load_crescent, make_crescents, make_pinwheel
from atoll.diagnostics import ess_bulk, rank_r_hat
from atoll.inference import auxiliary_gibbs
from atoll.kernels.hyperparameters import gram_function, kernel_prior
from atoll.models import probit_gp

TARGET = 5.0
QUANTITIES = ("log-likelihood", "log variance", "log length-scale", "one latent value")


class Problem(NamedTuple):
    """Rows and codes, and how many sweeps each sampler needs for an effective sample size."""

    title: str
    X: np.ndarray
    codes: np.ndarray
    n_classes: int
    n_chains: int
    n_warmup: dict
    n_sweeps: dict


def labelled_crescent():
    if os.environ.get("ATOLL_DATA"):
        crescent = load_crescent()
        is_labelled = np.array([label is not None for label in crescent.target])
        return crescent.data[is_labelled], (crescent.target[is_labelled] == 1).astype(int)
    print("ATOLL_DATA is not set: 37 made points stand in for the crescent's.")
    return make_crescents(37, random_state=0)


def problems():
    X, codes = labelled_crescent()
    yield Problem(
        "Probit GP, two classes", X, codes, 2, 4,
        {"ours": 500, "lecture": 500}, {"ours": 2500, "lecture": 10_000},
    )  # fmt: skip
    X, codes = make_pinwheel(500, n_classes=3, random_state=0)
    yield Problem(
        "Probit GP, three classes", X, codes, 3, 2,
        {"ours": 150, "lecture": 300}, {"ours": 1500, "lecture": 2000},
    )  # fmt: skip


def chain_of_ours(rng, family, gram, prior, n_warmup):
    theta = prior.mean + prior.sd * rng.standard_normal(2)
    prepared = family.at(family.mean)
    z = prepared.regions.sample(rng, prepared.regions.zeros(), 1.0)
    state = auxiliary_gibbs.init(z, theta, family.mean, gram)
    for done in itertools.count():
        state = auxiliary_gibbs.sweep(rng, state, family, gram, prior, done < n_warmup)
        yield prepared.total(state.latent), *state.log_parameters, state.latent.flat[0]


def chain_of_the_lecture(rng, family, gram, prior, n_warmup):
    theta, prepared = prior.mean + prior.sd * rng.standard_normal(2), family.at(family.mean)
    f = prepared.regions.zeros()
    while True:
        f, theta = auxiliary_gibbs.slide_sweep(rng, f, theta, prepared.regions, gram, prior)
        yield prepared.total(f), *theta, f.flat[0]


def compare(problem):
    prior = kernel_prior("isotropic", problem.X)
    family = probit_gp.family(problem.codes, problem.n_classes)
    gram = gram_function(prior, problem.X)
    samplers = {"ours": chain_of_ours, "lecture": chain_of_the_lecture}
    draws, seconds = {name: [] for name in samplers}, dict.fromkeys(samplers, 0.0)
    for seed in range(problem.n_chains):  # interleaved
        for name, make in samplers.items():
            chain = make(np.random.default_rng(seed), family, gram, prior, problem.n_warmup[name])
            for _ in range(problem.n_warmup[name]):
                next(chain)
            began = time.process_time()
            draws[name].append([next(chain) for _ in range(problem.n_sweeps[name])])
            seconds[name] += time.process_time() - began

    print(f"{problem.title}, {len(problem.X)} rows, {problem.n_chains} chains, one thread")
    print(f"{'':26}" + "".join(f"{name:>14}" for name in samplers) + f"{'ratio':>10}")
    sweep_ms = [
        1e3 * seconds[name] / (problem.n_chains * problem.n_sweeps[name]) for name in samplers
    ]
    print(f"{'ms a sweep':26}" + "".join(f"{ms:14.2f}" for ms in sweep_ms))
    ratios = []
    for j, quantity in enumerate(QUANTITIES):
        values = {name: np.array(draws[name])[:, :, j] for name in samplers}
        rates = {name: float(ess_bulk(v)) / seconds[name] for name, v in values.items()}
        ratios.append(rates["ours"] / rates["lecture"])
        print(
            f"{quantity + ', ESS/s':26}"
            + "".join(f"{rate:14.2f}" for rate in rates.values())
            + f"{ratios[-1]:10.1f}"
        )
        r_hats = (float(rank_r_hat(v)) for v in values.values())
        print(f"{'  R-hat':26}" + "".join(f"{r:14.3f}" for r in r_hats))
    print(f"Worst ratio {min(ratios):.1f}; wanted: at least {TARGET:g}.\n")


if __name__ == "__main__":
    for one in problems():
        compare(one)
