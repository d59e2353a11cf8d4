"""Archipelago's fit at scale: which inference takes which data, and what the engine's fit says."""

from __future__ import annotations

import importlib.util
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from atoll.core.labels import PartialLabels
from atoll.core.passes import Rows, row_keys, rows_in_memory, rows_of_source, signed_codes
from atoll.estimators import sampling
from atoll.estimators.archipelago_chains import chain_weights, left_out, shares, watched
from atoll.estimators.belief import with_doubt
from atoll.estimators.novelty import reference_log_densities
from atoll.estimators.progress import Progress
from atoll.estimators.shell import Fit, Need
from atoll.estimators.validation import generator
from atoll.inference.chains import Record
from atoll.kernels.hyperparameters import kernel_at
from atoll.models.archipelago.engine.checkpoint import Checkpoint, checkpoint_in
from atoll.models.archipelago.engine.device import check_device, running_on
from atoll.models.archipelago.engine.online import Online
from atoll.models.archipelago.engine.problem import (
    CountOf,
    Problem,
    make_problem,
    reservoir_sizes,
    why_not,
)
from atoll.models.archipelago.engine.schedule import STEPS_PER_ROUND, n_whole_steps

Array = NDArray[np.float64]

EXACT_ROWS = 100  # up to this many, "auto" is exact: a fit of a minute or so
CHAIN_ROWS = 5000  # most rows that HMC takes
CHAIN_DRAWS = 400  # draws of all chains that predict: a hundred leave a noise of .03
REFUSED_SHARE = 0.05  # share of refused steps above which the verdict warns


class Choice(NamedTuple):
    """Which inference a fit takes.

    method : "mcmc", "vi" or "vi+hmc"
    remark : why, where "auto" chose it; to be said
    """

    method: str
    remark: str = ""


def choose_inference(model: Any, n: int, labels: PartialLabels | None) -> Choice:
    """Return the inference for n rows; raise a ValueError where it cannot take what was asked for.

    Parameters
    ----------
    model : an ArchipelagoClassifier
    labels : None where rows come in chunks, which the engine alone takes
    """
    obstacle = _obstacle(model, labels)
    if model.inference == "mcmc" and labels is None:
        raise ValueError(
            'inference="mcmc" takes rows in memory; leave inference at "auto" or "vi" for chunks.'
        )
    if model.inference in ("vi", "vi+hmc") or labels is None:
        if obstacle:
            raise ValueError(
                f"inference={model.inference!r} does not take {obstacle}; "
                + ('use inference="mcmc".' if labels is not None else "leave that out.")
            )
        return Choice("vi" if model.inference == "auto" else model.inference)
    if model.inference == "mcmc" or n <= EXACT_ROWS:
        return Choice("mcmc")
    if obstacle:
        return Choice("mcmc", f"Chains are exact but slow at {n} rows: the engine does not take "
                      f"{obstacle}.")  # fmt: skip
    if importlib.util.find_spec("jax") is None:
        return Choice("mcmc", f"Chains are exact but slow at {n} rows; the engine takes seconds, "
                      'and needs JAX: pip install "atoll[scale]".')  # fmt: skip
    return Choice(
        "vi",
        f"{n} rows are more than exact inference takes quickly ({EXACT_ROWS}): the posterior is "
        'approximate; inference="mcmc" would be exact.',
    )


def _obstacle(model: Any, labels: PartialLabels | None) -> str:
    """Return what the engine cannot take, as the end of a sentence; empty where it can."""
    if model.own_kernels:
        return "own_kernels=True"
    if model.dependent:
        return "dependent=True"
    if model.moves != "default":
        return f"moves={model.moves!r}"
    if labels is not None:
        K = len(labels.classes)
        seen = np.bincount(labels.codes[labels.is_labelled], minlength=K)
        if (seen == 0).any():
            return f"a class without a label ({labels.classes[int(np.argmin(seen))]!r})"
    elif np.size(model.extra_classes) != 1 or model.extra_classes != 0 or model.classes is not None:
        return "classes= or extra_classes= with rows in chunks"
    elif isinstance(model.base_density, str) and model.base_density == "labels":
        return 'base_density="labels" with rows in chunks'
    return why_not(model.kernel, model.base_density)


def engine_need(n: int, d: int, n_classes: int) -> Need:
    """Return the memory of a fit by the engine: a sample of the rows, and every row's classes."""
    sample = sum(reservoir_sizes(n_classes))
    return Need(
        8 * (2 * min(n, sample) * (d + n_classes) + n * (d + 3 * n_classes)) + 300 * 2**20,
        f"a fit of {n} rows",
        "Pass the rows in chunks (RowChunks), which leaves them where they are.",
    )


# The fit ------------------------------------------------------------------------------------------


class Start(NamedTuple):
    """What a fit begins with.

    seed : of everything random
    checkpoint : where it is kept, or None
    """

    seed: int
    checkpoint: Checkpoint | None


def begin(model: Any, X: Any = None, labels: PartialLabels | None = None) -> Start:
    """Return the seed of a fit: that of the checkpoint where there is one."""
    fresh = int(generator(model.random_state).integers(2**62))
    mark = ""
    if model.checkpoint is not None:
        mark = sampling.run_fingerprint(model, X, labels)
    kept = checkpoint_in(model.checkpoint, mark)
    return Start(fresh if kept is None else kept.seed(fresh), kept)


def rows_of_arrays(start: Start, X: Array, labels: PartialLabels) -> Rows:
    """Return rows in memory, with the sample that the engine works on."""
    return rows_in_memory(X, labels, start.seed, reservoir_sizes)


def rows_of_chunks(model: Any, start: Start, source: Any) -> tuple[Rows, PartialLabels]:
    """Return rows in chunks, with the sample that the engine works on, and the classes."""
    return rows_of_source(source, start.seed, reservoir_sizes, unlabelled=model.unlabelled)


class Ascended(NamedTuple):
    """What the ascent found, and of what.

    found : atoll.models.archipelago.engine.fitting.Found
    problem : the data as the engine takes them
    reason : why π was taken
    """

    found: Any
    problem: Problem
    reason: str


def fit_by_engine(model: Any, rows: Rows, n_classes: int, start: Start, choice: Choice) -> Fit:
    """Find the posterior by variational inference."""
    problem, reason = make_problem(rows, model.kernel, model.base_density, n_classes)
    done = _ascend(model, problem, reason, start)
    fit = _as_fit(done, choice, rows.sample.uniform_rows, start.seed)
    return with_doubt(fit, _hold_out(model, problem, start))


def with_classes(fit: Fit, X: Array, device: str) -> Fit:
    """Return the fit with class probabilities of unlabelled rows X (u, d), if a GPU has made it.

    There they take a moment; without one the posterior is asked, which does the same in NumPy.
    """
    if fit.diagnostics["device"] == "cpu":
        return fit
    from atoll.models.archipelago.engine.classes import class_probabilities_of  # imports JAX

    with running_on(device):
        return fit._replace(transduction=class_probabilities_of(fit.posterior, X))


def begin_online(model: Any, X: Array, labels: PartialLabels) -> Fit:
    """Find the posterior of the first rows of several calls; its attributes hold `online_`."""
    choice, K = _choose_online(model, labels), len(labels.classes)
    start = Start(int(generator(model.random_state).integers(2**62)), None)
    rows = rows_of_arrays(start, X, labels)
    problem, reason = make_problem(rows, model.kernel, model.base_density, K)
    done = _ascend(model, problem, reason, start)
    posterior = done.found.posterior
    online = Online(
        start.seed, 1, rows.total(CountOf(K)), rows.sample.keys, rows.sample.rows,
        rows.sample.codes, problem.prior, problem.base, posterior.scaling, posterior.inducing,
        done.found.leaves,
    )  # fmt: skip
    return _with_online(_as_fit(done, choice, rows.sample.uniform_rows, start.seed), online)


def continue_online(model: Any, online: Online, X: Array, labels: PartialLabels) -> Fit:
    """Go on with more rows from where the last call ended."""
    from atoll.models.archipelago.engine.fitting import Onward  # imports JAX

    grown = online.with_rows(X, signed_codes(labels))
    start = Start(grown.seed + grown.n_calls, None)
    onward = Onward(grown.scaling, grown.inducing, grown.ends)
    done = _ascend(model, grown.problem, model.base_density_reason_, start, onward)
    fit = _as_fit(done, Choice("vi"), grown.sample.uniform_rows, start.seed)
    return _with_online(fit, grown._replace(ends=done.found.leaves))


def _choose_online(model: Any, labels: PartialLabels) -> Choice:
    if model.inference not in ("auto", "vi"):
        raise ValueError(
            f'partial_fit is of the engine and inference={model.inference!r}; use "auto" or "vi".'
        )
    obstacle = _obstacle(model, labels)
    if obstacle:
        raise ValueError(f"partial_fit does not take {obstacle}; leave that out, or use fit.")
    return Choice("vi")


def _with_online(fit: Fit, online: Online) -> Fit:
    said = (
        f"{fit.diagnostics['verdict']}\n{online.counts.sum()} rows have come in {online.n_calls} "
        "calls."
    )
    return fit._replace(
        diagnostics={**fit.diagnostics, "verdict": said},
        attributes={**fit.attributes, "online_": online},
    )


def _as_fit(done: Ascended, choice: Choice, some_rows: Array, seed: int) -> Fit:
    """Return what an ascent found as a fit; some_rows (s, d) are a random sample of all."""
    found = done.found
    best = int(np.argmax(found.bounds))
    theta = found.trace["log_parameters"][best, -1]
    weights = np.exp(found.posterior.log_weights)
    n_steps = found.trace["bound"].size * STEPS_PER_ROUND
    converged = bool(np.isfinite(found.bounds).all())
    converged &= found.n_refused <= REFUSED_SHARE * n_steps
    return Fit(
        found.posterior,
        {
            "objective": float(found.bounds[best]),
            "bounds": found.bounds,
            "start_weights": weights,
            "norm": float(weights @ found.norms),
            "n_steps": n_steps,
            "n_refused": found.n_refused,
            "device": found.device,
            "trace": found.trace,
            "converged": converged,
            "verdict": _verdict(found, choice, converged, done.problem.n),
        },
        objectives=found.trace["bound"][best],
        attributes={
            **_attributes("vi", done, theta),
            "reference_log_densities_": reference_log_densities(
                found.posterior, np.random.default_rng(seed), some_rows
            ),
        },
    )


def fit_by_chains(model: Any, X: Array, labels: PartialLabels, start: Start, choice: Choice) -> Fit:
    """Find the posterior by variational inference, and go on from there by HMC."""
    n, K = len(X), len(labels.classes)
    if n > CHAIN_ROWS:
        raise ValueError(
            f'inference="vi+hmc" takes at most {CHAIN_ROWS} rows and X has {n}; use '
            'inference="vi", or fewer rows.'
        )
    from atoll.models.archipelago.engine import fitting  # imports JAX

    rows = rows_of_arrays(start, X, labels)
    done = _ascend(model, *make_problem(rows, model.kernel, model.base_density, K), start)
    rng, unknown = np.random.default_rng([start.seed, 1]), ~labels.is_labelled

    def traces_of(draws: Record) -> Record:
        return sampling.named_scalars(draws, done.problem.prior.names) | shares(draws, unknown)

    with running_on(model.device):
        order = _places(X, labels, start.seed)
        made = fitting.chains_of(rng, done.problem, done.found, order)
        samplers = [made[i % len(made)] for i in range(model.n_chains)]
        result, diagnosis = sampling.sample_until_mixed(
            model, samplers, (X, labels), traces_of, watched
        )
    draws, traces = result.draws, traces_of(result.draws)
    weights = chain_weights(draws, diagnosis, labels)
    diagnosis |= {"bounds": done.found.bounds, "device": done.found.device}
    diagnosis["verdict"] += f"\n{choice.remark}" if choice.remark else ""
    pooled = sampling.pool(draws, CHAIN_DRAWS)
    posterior = fitting.posterior_of_draws(done.found, done.problem, pooled, weights)
    by_row = np.einsum(
        "c,cdnk->nk", weights / diagnosis["n_draws"], draws["row_probabilities"][:, :, unknown]
    )
    fit = Fit(
        posterior,
        diagnosis,
        transduction=by_row,
        traces=traces,
        attributes={
            **_attributes("vi+hmc", done, sampling.mean_log_parameters(draws)),
            "chain_weights_": weights,
            "reference_log_densities_": reference_log_densities(posterior, rng, X),
        },
    )
    return with_doubt(fit, left_out(model.n_folds, draws, weights, labels))


def _ascend(
    model: Any, problem: Problem, reason: str, start: Start, onward: Any = None
) -> Ascended:
    """Climb from every start, with a bar where that is asked for."""
    from atoll.models.archipelago.engine import fitting  # imports JAX

    check_device(model.device)
    options = _options(model)
    n_steps, names = n_whole_steps(options.n_steps), problem.prior.names
    total = options.n_starts * n_steps
    with Progress(model.verbose, f"{problem.n:.0f} rows", "steps", total=total) as bar:

        def report(number: int, n_done: int, bound: float, norm: float, theta: Array) -> None:
            shown = {"bound": bound, "Z": norm, **dict(zip(names[:3], theta.tolist()))}
            bar.tell(number * n_steps + n_done, **shown)

        found = fitting.fit(start.seed, problem, options, report, start.checkpoint, onward)
    return Ascended(found, problem, reason)


def _options(model: Any) -> Any:
    """Return how to climb (`fitting.Options`)."""
    from atoll.models.archipelago.engine import fitting  # imports JAX

    return fitting.Options(
        int(model.n_inducing), int(model.n_steps), int(model.n_starts), model.device
    )


def _hold_out(model: Any, problem: Problem, start: Start) -> Any:
    """Return what labels held out say (`held_out.HeldOut`), or None; a bar where that is asked."""
    from atoll.models.archipelago.engine.held_out import hold_out  # imports JAX

    options, n_folds = _options(model), int(model.n_folds)
    n_steps = n_whole_steps(options.n_steps)
    title, total = "labels held out", n_folds * n_steps
    with Progress(model.verbose, title, "steps", total=total) as bar:

        def report(fold: int, n_done: int) -> None:
            bar.tell(fold * n_steps + n_done)

        return hold_out(start.seed, problem, options, n_folds, report)


def _attributes(method: str, done: Ascended, theta: Array) -> dict[str, Any]:
    return {
        "inference_": method,
        "base_density_": done.problem.base,
        "base_density_reason_": done.reason,
        "kernel_": kernel_at(done.problem.prior, theta),
    }


def _places(X: Array, labels: PartialLabels, seed: int) -> NDArray[np.intp]:
    """Return where each row is among the sample's labelled rows, then those without a label."""
    drawn = np.argsort(row_keys(0, len(X), seed), kind="stable")
    known = labels.is_labelled[drawn]
    return np.argsort(np.concatenate([drawn[known], drawn[~known]]))


def _verdict(found: Any, choice: Choice, converged: bool, n: float) -> str:
    """Return how the ascent went, in words."""
    n_starts, best = len(found.bounds), int(np.argmax(found.bounds))
    starts = "" if n_starts == 1 else f" from {n_starts} starts"
    total = found.trace["bound"].shape[1] * STEPS_PER_ROUND
    sentence = (
        f"Variational inference took {total} steps{starts} on the {found.device}, to a lower bound "
        f"on the log evidence of {found.bounds[best] / n:.3f} per row; the islands take "
        f"{found.norms[best]:.2f} of the base density."
    )
    if not converged:
        sentence += (
            f" {found.n_refused} steps were refused because they were not finite: scale the "
            "features, or give fewer inducing inputs (n_inducing)."
        )
    return "\n".join(filter(None, [sentence, choice.remark]))
