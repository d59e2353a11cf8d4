"""Archipelago's sweep against the paper's own moves; islands; and what rows cost.

a. Effective samples per CPU second on a pinwheel with five arms and one label a class: ours, the
   paper's moves (paper 000, equations 9 to 12) with the whitened functions held while the kernel's
   parameters move, and the paper's moves as published. The three take turns, and share all code
   below the moves.
b. A pinwheel with three arms, which has some 200 rejections: four chains on two processes, until
   they agree on the number of rejections and on every row's class.
c. A sweep in units of LAPACK's Cholesky factorisation of the same size, the memory that it takes,
   and its cost against the number of rows, as a picture in benchmarks/output/.

One thread in each process. `--part a` runs one of them.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import time
import tracemalloc
from pathlib import Path

import numpy as np
from joblib import Parallel, delayed
from scipy.linalg.lapack import dpotrf

from atoll.core.densities import Gaussian, GaussianMixture
from atoll.core.files import atomic_path
from atoll.core.linalg import solve_lower
from atoll.datasets import hide_labels, make_pinwheel
from atoll.diagnostics import ess_bulk, rank_r_hat
from atoll.kernels.hyperparameters import cross_gram_function, kernel_prior
from atoll.likelihoods.softmax import class_probabilities
from atoll.models import archipelago
from atoll.models.archipelago import paper_sweep, sweep
from atoll.models.archipelago.functions import unwhiten
from atoll.models.archipelago.state import known_rows, make_state

OUTPUT = Path(__file__).parent / "output"

# name -> sweep, warm-up sweeps, sweeps; the slower ones have more, for an effective size over 100
RACE = {
    "ours": (sweep.sweep, 400, 9000),
    "whitened": (paper_sweep.whitened_sweep, 500, 9000),
    "paper": (paper_sweep.sweep, 500, 16_000),
}
N_RACE_CHAINS, N_TURNS = 2, 10
WANTED = {("M", "whitened"): 20, ("log-likelihood", "whitened"): 8, ("M", "paper"): 40}

N_ISLAND_CHAINS, N_PROCESSES, CHECK_EVERY, LONGEST, AGREED = 4, 2, 20.0, 300.0, 1.05
N_CLAMPED = 100  # sweeps, as in a fit with the default warm-up

# rows -> sweeps to settle, sweeps that are timed
LADDER = {
    50: (60, 60), 100: (40, 40), 200: (20, 20), 350: (10, 20), 700: (6, 10), 1400: (2, 3),
    2000: (1, 1),
}  # fmt: skip
# One Gaussian for each arm, so wide that there are half as many rejections as rows. Under one for
# all arms M grows with n for hundreds of sweeps, and these few would show how far it has come.
LADDER_INFLATION = 2.0
WANTED_FACTORISATIONS, WANTED_BYTES = 15, 1e9


def pinwheel_setting(n_classes, n=50, inflation=1.5, seed=0, n_drawn=None, one_for_each=False):
    """A pinwheel with one label a class under a base density wider than its rows.

    It is a Gaussian, or a mixture with one for each arm.
    """
    X, y = make_pinwheel(
        n_drawn or n, n_classes, radial_spread=0.3, tangential_spread=0.1, rate=0.25,
        random_state=seed,
    )  # fmt: skip
    X, y = X[:n], y[:n]
    codes = hide_labels(y, per_class=1, random_state=seed + 1000)
    base = wide_gaussian(X, inflation)
    if one_for_each:
        arms = [wide_gaussian(X[y == k], inflation) for k in range(n_classes)]
        means, lowers = map(np.array, zip(*arms, strict=True))
        base = GaussianMixture(np.bincount(y, minlength=n_classes) / n, means, lowers)
    return archipelago.Setting(X, codes, n_classes, kernel_prior("isotropic", X), base)


def wide_gaussian(X, inflation):
    """The rows' moments, not shrunk as `fit_gaussian` does, with the covariance inflated."""
    return Gaussian(X.mean(axis=0), np.linalg.cholesky(inflation * np.cov(X.T)))


def recorded(setting, state):
    """M, the log-likelihood, and every row's class probabilities."""
    g, n = archipelago.latent_at(setting, state), len(setting.inputs)
    total = archipelago.outcomes_at(setting, state).total(g)
    return np.concatenate([[len(state.rejections), total], class_probabilities(g[:n]).ravel()])


# --- a: effective samples per second ---------------------------------------------------------


def race():
    setting = pinwheel_setting(5)
    draws, seconds = {name: [] for name in RACE}, dict.fromkeys(RACE, 0.0)
    for seed in range(N_RACE_CHAINS):
        chains = {name: warmed_chain(setting, *RACE[name][:2], seed) for name in RACE}
        parts = {name: [] for name in RACE}
        for _ in range(N_TURNS):  # interleaved
            for name, chain in chains.items():
                for _ in range(RACE[name][2] // N_TURNS):
                    spent, draw = next(chain)
                    seconds[name] += spent
                    parts[name].append(draw)
        for name, part in parts.items():
            draws[name].append(part)
    report_race({name: np.array(d) for name, d in draws.items()}, seconds)


def warmed_chain(setting, moves, n_warmup, seed):
    """After warm-up: CPU seconds of a sweep, and what it gave."""
    sampler, rng = archipelago.sampler(setting, sweep=moves), np.random.default_rng(seed)
    state = sampler.init(rng)
    for _ in range(n_warmup):
        state = sampler.sweep(rng, state, True)
    while True:
        began = time.process_time()
        state = sampler.sweep(rng, state, False)
        yield time.process_time() - began, recorded(setting, state)


def report_race(draws, seconds):
    print(
        "a. Pinwheel with five arms, 50 rows, one label a class, "
        f"{N_RACE_CHAINS} chains, one thread.\n"
        "   whitened: the paper's moves, θ given whitened functions; paper: as published\n"
    )
    line("", draws)
    line("sweeps a chain", [str(d.shape[1]) for d in draws.values()])
    n_sweeps = {name: d.shape[0] * d.shape[1] for name, d in draws.items()}
    line("ms a sweep", [f"{1e3 * seconds[name] / n_sweeps[name]:.2f}" for name in draws])
    line("mean M", [f"{d[:, :, 0].mean():.1f}" for d in draws.values()])
    ratios = {}
    for quantity, part in (
        ("M", slice(0, 1)),
        ("log-likelihood", slice(1, 2)),
        ("worst class probability", slice(2, None)),
    ):
        sizes = {name: float(np.min(ess_bulk(d[:, :, part]))) for name, d in draws.items()}
        r_hats = [float(np.max(rank_r_hat(d[:, :, part]))) for d in draws.values()]
        rates = {name: size / seconds[name] for name, size in sizes.items()}
        line(f"{quantity}, ESS", [f"{size:.0f}" for size in sizes.values()])
        line("  per CPU second", [f"{rate:.2f}" for rate in rates.values()])
        line("  R-hat", [f"{r:.3f}" for r in r_hats])
        ratios |= {(quantity, other): rates["ours"] / rates[other] for other in rates}
    print("\nours against each, in effective samples per CPU second")
    others = list(draws)[1:]
    line("", others)
    for quantity in dict.fromkeys(quantity for quantity, _ in ratios):
        texts = []
        for other in others:
            wanted = WANTED.get((quantity, other))
            note = f" (wanted {wanted})" if wanted else ""
            texts.append(f"{ratios[quantity, other]:.1f}{note}")
        line(quantity, texts)


def line(title, texts):
    print(f"{title:30}" + "".join(f"{text:>18}" for text in texts), flush=True)


# --- b: islands ------------------------------------------------------------------------------


def islands():
    setting = pinwheel_setting(3)
    print(
        f"\nb. Pinwheel with three arms, 50 rows, one label a class, {N_ISLAND_CHAINS} chains on "
        f"{N_PROCESSES} processes;\n   until R-hat < {AGREED} on M and on every row's class "
        f"probabilities, looked at every {CHECK_EVERY:.0f} s\n"
    )
    line("", ["sweeps a chain", "CPU s a chain", "mean M", "R-hat of M", "worst R-hat of p"])
    chains = [(None, np.random.default_rng(seed)) for seed in range(N_ISLAND_CHAINS)]
    draws, seconds = [[] for _ in chains], 0.0
    began, budget = time.perf_counter(), CHECK_EVERY * N_PROCESSES / N_ISLAND_CHAINS
    with Parallel(n_jobs=N_PROCESSES) as parallel:
        elapsed = 0.0
        while elapsed < LONGEST:
            adapt = elapsed == 0.0  # the first look is the warm-up
            ended = parallel(delayed(advance)(setting, *c, budget, adapt) for c in chains)
            chains = [(state, rng) for state, rng, _, _ in ended]
            seconds += sum(spent for _, _, _, spent in ended) / len(chains)
            elapsed = time.perf_counter() - began
            if adapt:
                continue
            for kept, (_, _, new, _) in zip(draws, ended, strict=True):
                kept += new
            shortest = min(map(len, draws))
            stacked = np.array([kept[-shortest:] for kept in draws])
            of_m = float(rank_r_hat(stacked[:, :, 0]))
            of_p = float(np.max(rank_r_hat(stacked[:, :, 2:])))
            means = [
                f"{seconds:.0f}",
                f"{stacked[:, :, 0].mean():.0f}",
                f"{of_m:.3f}",
                f"{of_p:.3f}",
            ]
            line(f"after {elapsed:.0f} s", [str(shortest), *means])
            if max(of_m, of_p) < AGREED:
                print(f"Agreed after {elapsed:.0f} s; wanted: at most {LONGEST:.0f} s.")
                return
    print(f"Not agreed after {elapsed:.0f} s; wanted: R-hat < {AGREED} by {LONGEST:.0f} s.")


def advance(setting, state, rng, seconds, adapt):
    """One chain for so long, from its start where there is no state yet; and its CPU seconds."""
    sampler = archipelago.sampler(setting, n_clamped=N_CLAMPED)
    state = sampler.init(rng) if state is None else state
    draws, began, until = [], time.process_time(), time.perf_counter() + seconds
    while time.perf_counter() < until:
        state = sampler.sweep(rng, state, adapt)
        draws.append(recorded(setting, state))
    return state, rng, draws, time.process_time() - began


# --- c: what rows cost -----------------------------------------------------------------------


def cost_of_rows():
    print(
        "\nc. Pinwheel with five arms, one label a class, a Gaussian for each arm with its "
        f"covariance times {LADDER_INFLATION};\n   one thread, sweep and factorisation in turn\n"
    )
    line("rows", ["mean n + M", "s a sweep", "s a Cholesky", "ratio", "peak MB"])
    costs, setting, state = [], None, None
    rng = np.random.default_rng(0)
    for n, (n_settle, n_timed) in LADDER.items():
        larger = pinwheel_setting(5, n, LADDER_INFLATION, n_drawn=max(LADDER), one_for_each=True)
        sampler = archipelago.sampler(larger)
        state = sampler.init(rng) if state is None else with_more_rows(setting, state, larger)
        setting = larger
        for _ in range(n_settle):
            state = sampler.sweep(rng, state, True)
        sizes, swept, factored = [], 0.0, 0.0
        for _ in range(n_timed):
            size = n + len(state.rejections)
            # Sweeps in which θ moves are dear and rare: that step is timed, and weighted.
            for move in (sweep.sample_functions, sweep.sample_log_parameters):
                began = time.process_time()
                if move is sweep.sample_functions:
                    state = renewed(rng, setting, state)
                state = move(rng, setting, state)
                spent = time.process_time() - began
                moves_parameters = move is sweep.sample_log_parameters
                swept += spent * (sweep.parameter_share(setting, state) if moves_parameters else 1)
            sizes += [size, n + len(state.rejections)]
            factored += 0.5 * (seconds_of_cholesky(size) + seconds_of_cholesky(sizes[-1]))
        peak = peak_of_a_sweep(setting, rng, state)
        costs.append((n, np.mean(sizes), swept / n_timed, factored / n_timed, peak))
        texts = [f"{np.mean(sizes):.0f}", f"{costs[-1][2]:.4f}", f"{costs[-1][3]:.4f}"]
        line(str(n), [*texts, f"{swept / factored:.1f}", f"{peak / 1e6:.0f}"])
    size, seconds, unit = min((c[1:4] for c in costs), key=lambda c: abs(c[0] - 1000))
    print(
        f"\nAt n + M = {size:.0f} a sweep costs {seconds / unit:.1f} factorisations; wanted: at "
        f"most {WANTED_FACTORISATIONS} at 1000."
    )
    size, peak = min(((c[1], c[4]) for c in costs), key=lambda c: abs(c[0] - 2000))
    print(
        f"At n + M = {size:.0f} it takes {peak / 1e9:.2f} GB at most; wanted: under "
        f"{WANTED_BYTES / 1e9:.0f} GB at 2000."
    )
    draw(np.array(costs))


def renewed(rng, setting, state):
    """Rejections and candidates anew, as a sweep has them."""
    rate = sweep.rate_of_candidates(setting, state)
    return sweep.refresh_rejections(rng, setting, state, candidate_rate=rate)


def with_more_rows(setting, state, larger):
    """A start for more rows: the functions' mean at the new ones, given all that is known."""
    n, theta = len(setting.inputs), state.log_parameters
    known = known_rows(setting, state)
    covariances = cross_gram_function(setting.prior)(theta[0], known, larger.inputs[n:])
    u = unwhiten(state.factors, state.whitened)
    at_new = solve_lower(state.factors[0], covariances).T @ state.whitened
    latent = np.concatenate([u[:n], at_new, u[n : n + len(state.rejections)]])
    start = make_state(larger, state.rejections, latent, theta, state.mixing)
    return start._replace(step_size=state.step_size, parameter_step_size=state.parameter_step_size)


def seconds_of_cholesky(size):
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((size, 4))
    matrix = np.asfortranarray(rows @ rows.T + size * np.eye(size))
    began = time.process_time()
    dpotrf(matrix, lower=1, overwrite_a=1)
    return time.process_time() - began


def peak_of_a_sweep(setting, rng, state):
    """Bytes: the state's own, and all that a sweep in which θ moves allocates."""
    own = sum(part.nbytes for part in state if isinstance(part, np.ndarray))
    tracemalloc.start()
    state = renewed(rng, setting, state)
    sweep.sample_log_parameters(rng, setting, state)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return own + peak


def draw(costs):
    from matplotlib.figure import Figure

    from atoll.plotting.palette import GRID, class_colours, tidy

    n, size, swept, factored, peak = costs.T
    colours = class_colours(2)
    figure = Figure(figsize=(9, 3.8), layout="constrained")
    of_time, of_memory = figure.subplots(1, 2)
    of_time.loglog(n, swept, marker="o", color=colours[0], label="a sweep")
    of_time.loglog(
        n, factored, marker="s", color=colours[1], label="one Cholesky factor of n + M rows"
    )
    for x, y, total in zip(n, swept, size, strict=True):
        of_time.annotate(
            f"{total:.0f}", (x, y), (0, 7), textcoords="offset points", ha="center", fontsize=8
        )
    of_time.set(ylabel="CPU seconds, one thread", title="Time; the numbers are n + M")
    of_time.legend(fontsize="small", loc="lower right")
    of_memory.loglog(n, peak / 1e6, marker="o", color=colours[0])
    of_memory.set(ylabel="MB", title="Peak memory of a sweep")
    for axis in (of_time, of_memory):
        axis.set_xlabel("rows n")
        axis.set_xticks(n, [f"{v:.0f}" for v in n], fontsize="small")
        axis.minorticks_off()
        axis.margins(y=0.12)
        axis.grid(color=GRID, linewidth=0.5)
        tidy(axis)
    OUTPUT.mkdir(exist_ok=True)
    with atomic_path(OUTPUT / "archipelago_cost.png") as path:
        figure.savefig(path, dpi=120)
    print(f"Picture in {OUTPUT.name}/archipelago_cost.png")


PARTS = {"a": race, "b": islands, "c": cost_of_rows}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--part", choices=list(PARTS), help="one of them; all by default")
    chosen = parser.parse_args().part
    for name, run in PARTS.items():
        if chosen in (None, name):
            run()
