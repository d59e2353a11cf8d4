"""What is said of the time of a fit before it begins, and what would be quicker."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from atoll.estimators.timing import (
    LONG,
    SMALL_GRAPH,
    expected_seconds,
    graph_rows,
    in_words,
    is_by_engine,
    measured_cost,
    seconds_by_classes,
    sweeps_of,
)

MUCH = 0.5  # share of the time below which something else is called quicker


def before_the_fit(estimator: Any, model: str, X: Any, y: NDArray[Any]) -> list[str]:
    """Return what to say before a long fit; parameters as in `quicker_options`."""
    seconds = expected_seconds(estimator, X, y)
    if seconds <= LONG:
        return []
    quicker = quicker_options(estimator, model, X, y, seconds)
    has_chains = not is_by_engine(estimator, X, y)
    said = announcement(estimator, model, seconds, quicker, has_chains=has_chains)
    return [] if said is None else [said]


def announcement(
    estimator: Any,
    model: str,
    seconds: float,
    quicker: tuple[str, ...] = (),
    *,
    has_chains: bool = True,
) -> str | None:
    """Return what to say before a long fit; None before a short one.

    Parameters
    ----------
    model : its name
    seconds : that the fit will take
    quicker : what would take much less, as options; see `quicker_options`
    has_chains : whether there will be chains, for a model that can do without them
    """
    if seconds <= LONG:
        return None
    longer = _if_chains_go_on(estimator, seconds) if has_chains else ""
    said = (
        f"This will take about {in_words(seconds)}{longer}, on a machine with nothing else to do."
    )
    if model != "atoll" and sweeps_of(estimator) and _may_be_variational(estimator):
        quicker = (*quicker, "--set inference=vb")
    return f"{said} Quicker: {', or '.join(quicker)}." if quicker else said


def quicker_options(
    estimator: Any, model: str, X: Any, y: NDArray[Any], seconds: float
) -> tuple[str, ...]:
    """Return options with which the fit would take less than half of the time, each with its time.

    Parameters
    ----------
    estimator, model : not fitted, and its name
    X, y : as in `expected_seconds`
    seconds : that it will take as it is
    """
    from atoll.estimators import MODELS

    if seconds <= LONG:
        return ()
    n, found = X.shape[0], []
    others = [name for name in ("atoll", "graph-gp") if name != model]
    for name in others[:1]:
        other = MODELS[name](unlabelled=None, random_state=0)
        try:
            found.append((f"--model {name}", expected_seconds(other, X, y)))
        except ValueError:  # a model for other rows or classes than these
            continue
    most = graph_rows(estimator)
    if most is not None and min(n, most) > SMALL_GRAPH:
        smaller = seconds_by_classes(estimator, n, y, SMALL_GRAPH)
        if smaller is None:
            smaller = measured_cost(estimator, X, y).of(n, SMALL_GRAPH)
        found.append((f"--set max_graph_rows={SMALL_GRAPH}", smaller))
    return tuple(f"{o}, {in_words(s)}" for o, s in found if s < MUCH * seconds)


def _may_be_variational(estimator: Any) -> bool:
    rule = getattr(type(estimator), "parameters", {}).get("inference")
    return rule is not None and "vb" in str(rule)


def _if_chains_go_on(estimator: Any, seconds: float) -> str:
    """Return how long chains may take that draw on until they have mixed, if they do so."""
    longest = sweeps_of(estimator, most=True) / max(sweeps_of(estimator), 1)
    if longest <= 1.0 or in_words(longest * seconds) == in_words(seconds):
        return ""
    return f", or up to {in_words(longest * seconds)} where the chains have not mixed by then"
