"""Effective samples per second of the probit GP: our sweep against the lecture's, in one run.

The lecture's sweep (paper 004, slide for slide: z | f, f | z) with θ | f by the same elliptical
slice step that ours uses, on the crescent's 37 labelled points where ATOLL_DATA has them, else on
37 made ones. One thread; the two take turns, so that both see the same machine.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import time

import numpy as np

from atoll.core.regions import total_log_probability
from atoll.datasets import load_crescent, make_crescents
from atoll.diagnostics import ess_bulk, rank_r_hat
from atoll.inference import auxiliary_gibbs
from atoll.kernels.hyperparameters import gram_function, kernel_prior
from atoll.likelihoods import probit

N_CHAINS, N_WARMUP = 4, 500
N_OURS, N_LECTURE = 2500, 10_000  # each long enough for its own effective sample size
TARGET = 5.0


def labelled_crescent():
    if os.environ.get("ATOLL_DATA"):
        crescent = load_crescent()
        is_labelled = np.array([label is not None for label in crescent.target])
        return crescent.data[is_labelled], (crescent.target[is_labelled] == 1).astype(int)
    print("ATOLL_DATA is not set: 37 made points stand in for the crescent's.")
    return make_crescents(37, random_state=0)


def chain_of_ours(rng, X, regions, gram, prior, log_likelihood):
    theta = prior.mean + prior.sd * rng.standard_normal(2)
    state = auxiliary_gibbs.init(np.where(regions.lower[:, 0] == 0, 1.0, -1.0), theta, gram)
    while True:
        state = auxiliary_gibbs.sweep(rng, state, regions, gram, prior)
        f, _ = auxiliary_gibbs.sample_latent(rng, state, gram)
        yield log_likelihood(f), *state.log_parameters


def chain_of_the_lecture(rng, X, regions, gram, prior, log_likelihood):
    theta, f = prior.mean + prior.sd * rng.standard_normal(2), np.zeros(len(X))
    while True:
        f, theta = auxiliary_gibbs.slide_sweep(rng, f, theta, regions, gram, prior)
        yield log_likelihood(f), *theta


def main():
    X, codes = labelled_crescent()
    regions, prior = probit.regions(codes), kernel_prior("isotropic", X)
    problem = (X, regions, gram_function(prior, X), prior, total_log_probability(regions))
    samplers = {"ours": (chain_of_ours, N_OURS), "lecture": (chain_of_the_lecture, N_LECTURE)}
    draws = {name: [] for name in samplers}
    seconds = dict.fromkeys(samplers, 0.0)
    for seed in range(N_CHAINS):  # interleaved
        for name, (make, n_draws) in samplers.items():
            chain = make(np.random.default_rng(seed), *problem)
            for _ in range(N_WARMUP):
                next(chain)
            began = time.process_time()
            draws[name].append([next(chain) for _ in range(n_draws)])
            seconds[name] += time.process_time() - began

    print(f"Probit GP, {len(X)} labelled points, {N_CHAINS} chains, one thread")
    header = f"{'':22}" + "".join(f"{name:>14}" for name in samplers) + f"{'ratio':>10}"
    sweep_ms = {
        name: 1e3 * seconds[name] / (N_CHAINS * n_draws) for name, (_, n_draws) in samplers.items()
    }
    print(header)
    print(f"{'ms a sweep':22}" + "".join(f"{ms:14.2f}" for ms in sweep_ms.values()))
    for j, quantity in enumerate(("log-likelihood", "log variance", "log length-scale")):
        rates, r_hats = {}, {}
        for name in samplers:
            values = np.array(draws[name])[:, :, j]
            rates[name] = float(ess_bulk(values)) / seconds[name]
            r_hats[name] = float(rank_r_hat(values))
        ratio = rates["ours"] / rates["lecture"]
        print(
            f"{quantity + ', ESS/s':22}"
            + "".join(f"{rate:14.1f}" for rate in rates.values())
            + f"{ratio:10.1f}"
        )
        print(f"{'  R-hat':22}" + "".join(f"{r:14.3f}" for r in r_hats.values()))
    print(f"Wanted: a ratio of at least {TARGET:g} for log-likelihood and log length-scale.")


if __name__ == "__main__":
    main()
