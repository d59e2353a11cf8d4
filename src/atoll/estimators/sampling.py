"""Chains for an estimator: run them, pool what they drew, and say how it went."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from atoll import __version__
from atoll.core.labels import PartialLabels
from atoll.core.memory import physical_memory
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
_NOT_WATCHED = ("jitter", "acceptance")  # for mixing: they do not belong to the model
PARTS, ROUNDED = 7, 25  # times that chains may be extended, and what numbers of draws round to
OF_OBJECTS = 300  # draws of chains over rows that are not numbers, which cannot be extended
FORMS = 4  # copies of draws at once: in a file's arrays, one by one, stacked, and in the results
TIMED_SWEEPS, LEAST_TIMED = 3, 100  # sweeps that are timed, and fewest of a fit worth timing
LEAST_TO_DESPAIR = 250  # draws from which on chains stop if the most draws would not be enough
# Parameters that say how long to work on the problem, and do not define it.
_OF_THE_RUN = ("checkpoint", "n_jobs", "verbose", "n_samples", "n_chains", "max_iter")


class Patience(NamedTuple):
    """How many draws chains make, and how long they go on where they have not mixed.

    counts : numbers of draws of each chain at which it is decided whether more are needed
    hope : chains end early if not even this many times the most draws would be enough
    """

    counts: tuple[int, ...]
    hope: float = 1.0

    def goes_on(self, found: Mapping[str, Any]) -> bool:
        """Return whether chains have not mixed but still may; `found` is from `diagnose`.

        Errors fall with the root of the number of draws, and effective sizes grow in proportion to
        it. With fewer than LEAST_TO_DESPAIR draws there is always hope: they say little.
        """
        sizes = [*found["ess_bulk"].values(), *found["ess_tail"].values()]
        r_hat, smallest = np.max([*found["r_hat"].values()]), np.min(sizes)
        # A chain by itself is never said to have mixed; more draws of it would not change that.
        if found["mixed"] or (r_hat <= R_HAT_LIMIT and smallest >= ESS_LIMIT):
            return False
        if found["n_draws"] < LEAST_TO_DESPAIR:
            return True
        growth = self.hope * self.counts[-1] / found["n_draws"]
        is_near = (r_hat - 1.0) / growth <= R_HAT_LIMIT - 1.0 and smallest * growth >= ESS_LIMIT
        return bool(is_near)


# For Archipelago, whose sweeps are slow.
OF_ISLANDS = Patience(
    (100, 125, 150, 175, 200, 225, 250, 275, 300, 350, 400, 450, 525, 600, 675, 750)
)


def drawing_on(first: int, longer: int = 8) -> Patience:
    """Return the patience of chains that make `first` draws, or up to `longer` times as many.

    Effective sizes of a few hundred draws may be wrong by a factor of two, hence a hope of two.

    Examples
    --------
    >>> drawing_on(300).counts
    (300, 400, 550, 725, 975, 1325, 1775, 2400)
    """
    grown = first * longer ** (np.arange(PARTS + 1) / PARTS)
    return Patience(tuple(int(ROUNDED * np.round(n / ROUNDED)) for n in grown), hope=2.0)


USUAL = drawing_on(300)


def patience_of(estimator: Any) -> Patience:
    """Return how many draws a chain may make: n_samples, or if that is "auto", as the class says.

    A class has a `patience` if the usual one does not suit it.
    """
    n_samples = estimator.get_params(deep=False)["n_samples"]
    if isinstance(n_samples, str):
        return getattr(estimator, "patience", USUAL)
    return Patience((int(n_samples),))


def say_before(estimator: Any, sampler: Sampler, remark: str = "") -> None:
    """Warn, before they begin, of slow chains that nobody asked for explicitly.

    A few sweeps are timed, with random numbers of their own. Under verbose=True nothing is timed:
    the progress bar shows the time.

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


def sample_until_mixed(
    estimator: Any,
    sampler: Sampler | Sequence[Sampler],
    data: tuple[Any, PartialLabels | None],
    traces_of: Callable[[Record], Record],
    watched: Callable[[Record], Record] | None = None,
) -> tuple[ChainsResult, dict[str, Any]]:
    """Run the chains that an estimator's parameters ask for, and longer as `draw_on` does.

    Parameters
    ----------
    estimator : has n_chains, n_warmup, n_samples, thin, random_state, n_jobs, verbose, and may
        have checkpoint
    data : all rows of the fit and their labels, by which a checkpoint recognises its problem
    traces_of, watched : draws -> traces and watched arrays, as `diagnose` takes them. The latter
        cost more, and are computed only if the traces alone would let the chains end

    Returns
    -------
    result, `diagnose` of it
    """
    patience = patience_of(estimator)
    if len(patience.counts) > 1 and np.asarray(data[0]).dtype.kind == "O":
        patience = Patience((max(patience.counts[0], OF_OBJECTS),))  # no checkpoint holds such rows

    def run(n_samples: int, folder: Any) -> ChainsResult:
        return _run(estimator, sampler, data, n_samples, folder)

    def judge(result: ChainsResult, is_last: bool) -> dict[str, Any]:
        traces = traces_of(result.draws)
        if watched is None:
            return diagnose(estimator, result, traces)
        if not is_last:
            found = diagnose(estimator, result, traces)
            if patience.goes_on(found):
                return found
        return diagnose(estimator, result, traces, watched(result.draws))

    return draw_on(patience, getattr(estimator, "checkpoint", None), run, judge)


def draw_on(
    patience: Patience,
    checkpoint: Any,
    run: Callable[[int, Any], ChainsResult],
    judge: Callable[[ChainsResult, bool], dict[str, Any]],
) -> tuple[ChainsResult, dict[str, Any]]:
    """Run chains to the first number of draws, and to further ones while they have not mixed.

    They stop when `patience` ends, or when memory would not hold more draws.

    Parameters
    ----------
    patience : from `patience_of`
    checkpoint : the user's folder of checkpoints; if it is None, chains that may be extended get a
        temporary one
    run : (number of draws, folder of checkpoints) -> result; goes on from the folder
    judge : (result, whether it is the last) -> r_hat, ess_bulk, ess_tail, n_draws and mixed, as in
        `diagnose`

    Returns
    -------
    result, what `judge` says of it
    """
    counts = patience.counts
    is_lent = checkpoint is None and len(counts) > 1
    with TemporaryDirectory(prefix="atoll-") if is_lent else nullcontext(checkpoint) as folder:
        for n_samples, following in zip(counts, [*counts[1:], 0]):
            result = run(n_samples, folder)
            is_last = result.interrupted or not following
            is_last = is_last or not _are_held(result.draws, following / n_samples)
            # On a full disk there is nothing to go on from.
            is_last = is_last or (is_lent and not any(Path(str(folder)).iterdir()))
            found = judge(result, is_last)
            if is_last or not patience.goes_on(found):
                break
    return result, found


def _are_held(draws: Record, growth: float) -> bool:
    """Return whether memory holds `growth` times these draws, in all forms that they take."""
    limit = physical_memory()
    return limit is None or FORMS * growth * sum(v.nbytes for v in draws.values()) < limit


def _run(
    estimator: Any,
    sampler: Sampler | Sequence[Sampler],
    data: tuple[Any, PartialLabels | None],
    n_samples: int,
    checkpoint: Any,
) -> ChainsResult:
    """Run the chains that an estimator's parameters ask for, with `n_samples` draws each."""
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
    """Return a digest that tells one problem from another: of data and parameters.

    Parameters are deep ones, since the text of a kernel shows only three digits of its numbers. A
    seed that is an object is left out: its text changes, and the checkpoint holds the streams.
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
    """Return at most `most` draws, evenly spread over all chains; (S, …) each.

    "chain" says which chain each draw came from.
    """
    n_chains, n_draws = draws["log_likelihood"].shape
    total = n_chains * n_draws
    kept = np.unique(np.linspace(0, total - 1, min(total, most)).round().astype(int))
    pooled = {name: v.reshape(total, *v.shape[2:])[kept] for name, v in draws.items()}
    return pooled | {"chain": kept // n_draws}


def named_scalars(draws: Record, names: Sequence[str]) -> Record:
    """Return the log-likelihood, the log-parameters by name, and all other scalars."""
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
    """Return how long an estimator's chains were; None if they were interrupted."""
    if interrupted:
        return None
    most = patience_of(estimator).counts[-1]
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
    # For each row of a draw: its functions, weights and probabilities, and a copy while stacking.
    # Chains that are extended stop when memory runs out.
    drawn = estimator.n_chains * patience_of(estimator).counts[0] * n * 6 * n_classes
    return Need(
        8 * (copies * n * n + drawn),
        f"{type(estimator).__name__} with {n} rows in its kernel matrix",
        "Fit on fewer rows (a random part of the unlabelled ones), or lower n_jobs, n_chains or "
        "n_samples.",
    )
