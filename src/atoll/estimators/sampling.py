"""Chains for an estimator: run them, pool what they drew, and say how it went."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from atoll import __version__
from atoll.core.labels import PartialLabels
from atoll.core.remarks import warn_user
from atoll.core.threads import one_thread
from atoll.diagnostics import summarise, verdict
from atoll.diagnostics.convergence import ESS_LIMIT, R_HAT_LIMIT, RunLength
from atoll.estimators.shell import Need
from atoll.estimators.timing import LONG, in_words, seconds_of, sweeps_of
from atoll.estimators.validation import fingerprint, generator
from atoll.inference.chains import ChainsResult, Record, Sampler, run_chains

Array = NDArray[np.float64]

PREDICTIVE_DRAWS = 100
_NOT_WATCHED = ("jitter", "acceptance")  # for mixing: they are not the model's
# Draws of each chain where n_samples is "auto": after each of these it is seen whether more are
# needed, and whether the last would be enough.
DRAWS = (100, 125, 150, 175, 200, 225, 250, 275, 300, 350, 400, 450, 525, 600, 675, 750)
TIMED_SWEEPS, LEAST_TIMED = 3, 100  # sweeps by which time is told, and from which on it is asked
LEAST_TO_DESPAIR = 250  # draws, from which on chains stop where the most would not be enough
# Not of the problem, but of how long it is worked on.
_OF_THE_RUN = ("checkpoint", "n_jobs", "verbose", "n_samples", "n_chains", "max_iter")


def say_before(estimator: Any, sampler: Sampler, remark: str = "") -> None:
    """Warn, before they begin, of chains that nobody asked for by name and that take long.

    A few sweeps are tried, with random numbers of their own. Progress bars have the time as well.

    Parameters
    ----------
    remark : why there are chains; it is said however long they take
    """
    n_sweeps, said = sweeps_of(estimator), [remark] if remark else []
    seconds = 0.0
    if n_sweeps > LEAST_TIMED and estimator.verbose is not True:
        rng = np.random.default_rng(0)
        state = sampler.init(rng)

        def trial() -> None:
            nonlocal state
            for _ in range(TIMED_SWEEPS):
                state = sampler.sweep(rng, state, True)

        with one_thread():
            seconds = seconds_of(trial) * n_sweeps / TIMED_SWEEPS
    if seconds > LONG:
        said.append(
            f"{estimator.n_chains} chains of exact inference will take about {in_words(seconds)} "
            "or more; verbose=True shows how far they are."
        )
    if said:
        warn_user(
            f"{type(estimator).__name__}: {' '.join(said)}",
            ConvergenceWarning if remark else UserWarning,
            is_passing=True,
        )


def sample(
    estimator: Any,
    sampler: Sampler | Sequence[Sampler],
    X: Any = None,
    labels: PartialLabels | None = None,
) -> ChainsResult:
    """Run the chains that an estimator's parameters ask for.

    Parameters
    ----------
    estimator : has n_chains, n_warmup, n_samples, thin, random_state, n_jobs, verbose, and may
        have checkpoint
    X, labels : all rows of the fit, by which a checkpoint knows its problem
    """
    checkpoint = getattr(estimator, "checkpoint", None)
    return _run(
        estimator, sampler, (X, labels), numbers_of_draws(estimator.n_samples)[0], checkpoint
    )


def sample_until_mixed(
    estimator: Any,
    sampler: Sampler | Sequence[Sampler],
    X: Any,
    labels: PartialLabels,
    traces_of: Callable[[Record], Record],
    watched: Callable[[Record], Record],
) -> tuple[ChainsResult, dict[str, Any]]:
    """Run chains as `sample` does, and longer where n_samples is "auto" and they have not mixed.

    They stop where even the most draws would hardly be enough: errors fall with the root of their
    number, and effective sizes grow in proportion to it. That is asked from LEAST_TO_DESPAIR draws
    on: fewer say little of it.

    Parameters
    ----------
    traces_of, watched : draws -> traces and watched arrays, as `diagnose` takes them. The latter
        cost more, and are looked at where the traces alone would let the chains end

    Returns
    -------
    result, `diagnose` of it
    """
    counts, own = numbers_of_draws(estimator.n_samples), getattr(estimator, "checkpoint", None)
    is_lent = own is None and len(counts) > 1
    with TemporaryDirectory(prefix="atoll-") if is_lent else nullcontext(own) as folder:
        for n_samples in counts:
            result = _run(estimator, sampler, (X, labels), n_samples, folder)
            is_last = result.interrupted or n_samples == counts[-1]
            traces = traces_of(result.draws)
            if not is_last and _goes_on(diagnose(estimator, result, traces), counts[-1]):
                continue
            found = diagnose(estimator, result, traces, watched(result.draws))
            if is_last or not _goes_on(found, counts[-1]):
                break
    return result, found


def numbers_of_draws(n_samples: int | str) -> tuple[int, ...]:
    """Return how many draws a chain may make: what n_samples says, or DRAWS for "auto"."""
    return DRAWS if isinstance(n_samples, str) else (int(n_samples),)


def _goes_on(found: Mapping[str, Any], most: int) -> bool:
    """Return whether chains have not mixed, but may have done so after the most draws."""
    if found["mixed"]:
        return False
    if found["n_draws"] < LEAST_TO_DESPAIR:
        return True
    growth = most / found["n_draws"]
    sizes = [*found["ess_bulk"].values(), *found["ess_tail"].values()]
    excess = (max(found["r_hat"].values()) - 1.0) / growth
    return excess <= R_HAT_LIMIT - 1.0 and min(sizes) * growth >= ESS_LIMIT


def _run(
    estimator: Any,
    sampler: Sampler | Sequence[Sampler],
    data: tuple[Any, PartialLabels | None],
    n_samples: int,
    checkpoint: Any,
) -> ChainsResult:
    """Run the chains that an estimator's parameters ask for, with so many draws each."""
    return run_chains(
        sampler,
        n_chains=estimator.n_chains,
        n_warmup=estimator.n_warmup,
        n_samples=n_samples,
        thin=estimator.thin,
        rng=generator(estimator.random_state),
        n_jobs=estimator.n_jobs,
        shown_after=estimator._until_shown(),
        checkpoint=checkpoint,
        fingerprint="" if checkpoint is None else run_fingerprint(estimator, *data),
    )


def run_fingerprint(estimator: Any, X: Any, labels: PartialLabels | None) -> str:
    """Return what tells one problem from another: data and parameters.

    Deep parameters: a kernel's own text shows three digits of each of its numbers.

    A seed that is an object has no lasting text; the chains' streams are in the checkpoint.
    """
    settings = [
        part
        for name, value in sorted(estimator.get_params().items())
        if name not in _OF_THE_RUN
        and not (name == "random_state" and not isinstance(value, int | np.integer | None))
        for part in (name, value)
    ]
    of_labels = () if labels is None else (labels.codes, labels.is_labelled)
    return fingerprint(__version__, X, *of_labels, type(estimator).__name__, *settings)


def pool(draws: Record, most: int = PREDICTIVE_DRAWS) -> Record:
    """Return draws of all chains, at most so many, evenly spread; (S, …) each.

    "chain" says which each came from.
    """
    n_chains, n_draws = draws["log_likelihood"].shape
    total = n_chains * n_draws
    kept = np.unique(np.linspace(0, total - 1, min(total, most)).round().astype(int))
    pooled = {name: v.reshape(total, *v.shape[2:])[kept] for name, v in draws.items()}
    return pooled | {"chain": kept // n_draws}


def named_scalars(draws: Record, names: Sequence[str]) -> Record:
    """Return the log-likelihood, the log-parameters by name and all else that is one number."""
    scalars = {"log_likelihood": draws["log_likelihood"]}
    for j, name in enumerate(names):
        scalars[name] = draws["log_parameters"][:, :, j]
    others = {name: v for name, v in draws.items() if v.ndim == 2 and name not in _NOT_WATCHED}
    return scalars | others


def mean_log_parameters(draws: Record) -> Array:
    """Return the posterior mean of the recorded log-parameters."""
    return draws["log_parameters"].mean(axis=(0, 1))


def diagnose(
    estimator: Any,
    result: ChainsResult,
    traces: Record,
    watched: Mapping[str, Array] | None = None,
) -> dict[str, Any]:
    """Return the diagnostics of chains: R-hat, effective sample sizes, acceptance and a verdict.

    Parameters
    ----------
    estimator : whose parameters the chains were run by
    traces : (chain, draw) scalars
    watched : more arrays, (chain, draw, …), of which the worst entry counts
    """
    draws = result.draws
    n_chains, n_draws = draws["log_likelihood"].shape
    summary = summarise({**traces, **(watched or {})})
    length = run_length(estimator, n_draws, interrupted=result.interrupted)
    mixed, sentence = verdict(summary, n_chains=n_chains, length=length)
    acceptance = {"hmc": float(draws["acceptance"].mean())} if "acceptance" in draws else {}
    return {
        **summary,
        "acceptance": acceptance,
        "jitter": float(draws["jitter"].max()),
        "n_chains": n_chains,
        "n_draws": n_draws,
        "interrupted": result.interrupted,
        "mixed": mixed,
        "verdict": sentence,
    }


def run_length(estimator: Any, n_draws: int, *, interrupted: bool) -> RunLength | None:
    """Return how long an estimator's chains were; None where that was not its parameters' doing."""
    if interrupted:
        return None
    most = numbers_of_draws(estimator.n_samples)[-1]
    is_auto = isinstance(estimator.n_samples, str)
    return RunLength(int(estimator.n_warmup), most, n_draws, is_auto)


def dense_need(estimator: Any, n: int, n_classes: int, n_copies: int) -> Need:
    """Return the memory of chains over n rows in a kernel matrix.

    Parameters
    ----------
    n_copies : n × n matrices alive at once in a chain
    """
    at_work = min(estimator.n_chains, effective_n_jobs(estimator.n_jobs))
    copies = n_copies * at_work + (estimator.n_chains - at_work)  # others wait with a factor each
    # Of a row in a draw: its functions, weights and probabilities, once more while stacked.
    most_draws = numbers_of_draws(estimator.n_samples)[-1]
    drawn = estimator.n_chains * most_draws * n * 6 * n_classes
    return Need(
        8 * (copies * n * n + drawn),
        f"{type(estimator).__name__} with {n} rows in its kernel matrix",
        "Fit on fewer rows (a random part of the unlabelled ones), or lower n_jobs, n_chains or "
        "n_samples.",
    )
