"""Chains for an estimator: run them, pool what they drew, and say how it went."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import NDArray

from atoll import __version__
from atoll.core.labels import PartialLabels
from atoll.diagnostics import summarise, verdict
from atoll.estimators.shell import Need
from atoll.estimators.validation import fingerprint, generator
from atoll.inference.chains import ChainsResult, Record, Sampler, run_chains

Array = NDArray[np.float64]

PREDICTIVE_DRAWS = 100
_NOT_WATCHED = ("jitter", "acceptance")  # for mixing: they are not the model's
# Not of the problem, but of how long it is worked on.
_OF_THE_RUN = ("checkpoint", "n_jobs", "verbose", "n_samples", "n_chains", "max_iter")


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
    return run_chains(
        sampler,
        n_chains=estimator.n_chains,
        n_warmup=estimator.n_warmup,
        n_samples=estimator.n_samples,
        thin=estimator.thin,
        rng=generator(estimator.random_state),
        n_jobs=estimator.n_jobs,
        progress=bool(estimator.verbose),
        checkpoint=checkpoint,
        fingerprint="" if checkpoint is None else run_fingerprint(estimator, X, labels),
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


def pool(draws: Record) -> Record:
    """Return draws of all chains, at most PREDICTIVE_DRAWS, evenly spread; (S, …) each.

    "chain" says which each came from.
    """
    n_chains, n_draws = draws["log_likelihood"].shape
    total = n_chains * n_draws
    kept = np.unique(np.linspace(0, total - 1, min(total, PREDICTIVE_DRAWS)).round().astype(int))
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
    result: ChainsResult, traces: Record, watched: Mapping[str, Array] | None = None
) -> dict[str, Any]:
    """Return the diagnostics of chains: R-hat, effective sample sizes, acceptance and a verdict.

    Parameters
    ----------
    traces : (chain, draw) scalars
    watched : more arrays, (chain, draw, …), of which the worst entry counts
    """
    draws = result.draws
    n_chains, n_draws = draws["log_likelihood"].shape
    summary = summarise({**traces, **(watched or {})})
    mixed, sentence = verdict(summary, n_chains=n_chains)
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


def dense_need(estimator: Any, n: int, n_classes: int, n_copies: int) -> Need:
    """Return the memory of chains over n rows in a kernel matrix.

    Parameters
    ----------
    n_copies : n × n matrices alive at once in a chain
    """
    at_work = min(estimator.n_chains, effective_n_jobs(estimator.n_jobs))
    copies = n_copies * at_work + (estimator.n_chains - at_work)  # others wait with a factor each
    # Of a row in a draw: its functions, weights and probabilities, once more while stacked.
    drawn = estimator.n_chains * estimator.n_samples * n * 6 * n_classes
    return Need(
        8 * (copies * n * n + drawn),
        f"{type(estimator).__name__} with {n} rows in its kernel matrix",
        "Fit on fewer rows (a random part of the unlabelled ones), or lower n_jobs, n_chains or "
        "n_samples.",
    )
