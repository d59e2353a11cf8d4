"""How inference went, as far as the model can say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from atoll.core.points import points_of
from atoll.diagnostics.convergence import ESS_LIMIT, R_HAT_LIMIT
from atoll.estimators.explanation import with_names
from atoll.estimators.trust import CARE, NO, YES, how_far
from atoll.inference.registry import METHODS
from atoll.reports.figures import ascent_figure, png_address, trace_figures
from atoll.reports.words import count, percent

_TONES = {YES: "good", CARE: "", NO: "bad", None: ""}
_DIAGNOSTICS_SHOWN = 30  # quantities in the table of chain diagnostics


def _objective(model: Any, diagnostics: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the name and last value of what a search maximised, if it is known."""
    value = diagnostics.get("log_evidence", diagnostics.get("objective"))
    if value is None:
        return []
    method = METHODS.get(getattr(model, "inference_", getattr(model, "inference", "")))
    name = method.objective if method is not None and method.objective else "log evidence"
    return [(name[0].upper() + name[1:], f"{value:.2f}")]


def _outcome(diagnostics: Mapping[str, Any]) -> tuple[str, str]:
    """Return how inference went, in a word or two, and whether that is good or bad."""
    if not diagnostics.get("converged", True):
        return "not converged", "bad"
    if "mixed" not in diagnostics:
        return ("converged", "good") if "converged" in diagnostics else ("", "")
    if diagnostics["mixed"]:
        return "mixed", "good"
    disagree = any(value > R_HAT_LIMIT for value in diagnostics.get("r_hat", {}).values())
    return ("not mixed" if disagree else "not settled"), "bad"


def inference_section(model: Any, columns: Sequence[str] = ()) -> dict[str, Any]:
    """Return what the page says of chains or searches; "kind" is "" where the model has neither.

    Parameters
    ----------
    columns : names of the model's columns, if they are known
    """
    diagnostics = getattr(model, "diagnostics_", None)
    if getattr(getattr(model, "explanation_", None), "columns", ()):
        columns = ()  # the fit has named them
    section: dict[str, Any] = {
        "status": "", "tone": "", "trust": "", "size": "", "verdict": "", "rows": [], "left_out": 0,
        "facts": [], "pictures": [], "ascent": None,
        "r_hat_limit": R_HAT_LIMIT, "ess_limit": f"{ESS_LIMIT:g}",
    }  # fmt: skip
    section["searched"] = "n_iterations" in (diagnostics or {})
    section["kernel"] = hasattr(model, "kernel_")
    section["tells_little"] = bool((diagnostics or {}).get("tells_little", False))
    section["kind"], section["assumptions"] = "", _assumptions(model, columns)
    if not diagnostics:
        return section
    section["kind"] = "chains" if _has_chains(diagnostics) else "fit"
    if section["searched"]:
        section["kind"] = "search"
    section["status"], section["tone"] = _outcome(diagnostics)
    if section["kind"] == "fit" and section["status"] == "mixed":
        section["status"] = "settled"  # its chains are many and short, and not shown
        section["size"] = "the draws agree: more below"
        if diagnostics.get("few_draws", False):
            section["status"], section["tone"] = "rough", ""
            section["size"] = "few independent draws: more below"
    section["verdict"] = with_names(str(diagnostics.get("verdict", "")), columns)
    section["points"] = points_of(section["verdict"])
    section["trust"] = _TONES[diagnostics.get("trust", how_far(diagnostics))]
    if section["tone"] == "good":
        # Sampling went well, but the verdict may name troubles.
        section["tone"] = "good" if section["trust"] == "good" else ""
    section["interrupted"] = bool(diagnostics.get("interrupted", False))
    if "n_chains" in diagnostics and "n_draws" in diagnostics:
        n_chains, n_draws = diagnostics["n_chains"], diagnostics["n_draws"]
        section["size"] = f"{count(n_chains, 'chain')} of {count(n_draws, 'draw')}"
    section.update(_diagnostics_table(diagnostics))
    acceptance = diagnostics.get("acceptance") or {}
    section["facts"] = [(f"Acceptance, {name}", percent(rate)) for name, rate in acceptance.items()]
    if section["searched"]:
        section["size"] = count(diagnostics["n_iterations"], "iteration")
        section["facts"].append(("Iterations", f"{diagnostics['n_iterations']:,}"))
        section["facts"] += _objective(model, diagnostics)
    if "jitter" in diagnostics:
        section["facts"].append(("Largest jitter used", f"{diagnostics['jitter']:.1e}"))
    traces = trace_figures(getattr(model, "draws_", None) or {})
    if hasattr(model, "objectives_"):
        section["ascent"] = png_address(ascent_figure(model.objectives_))
    section["pictures"] = [
        {"address": png_address(figure), "names": names} for figure, names in traces.columns
    ]
    section["traces_left_out"] = traces.n_left_out
    return section


def _diagnostics_table(diagnostics: Mapping[str, Any]) -> dict[str, Any]:
    """Return one row per quantity, the worst R-hat first, marking numbers that miss their limit."""
    r_hat, bulk, tail = (diagnostics.get(key) or {} for key in ("r_hat", "ess_bulk", "ess_tail"))
    names = sorted(
        dict.fromkeys([*r_hat, *bulk, *tail]),
        # NaN means that a chain never moved, which is worst of all.
        key=lambda name: -np.nan_to_num(r_hat.get(name, 0.0), nan=np.inf),
    )
    rows = [
        {
            "name": name,
            "cells": [
                _judged(r_hat.get(name), lambda value: value <= R_HAT_LIMIT, "{:.3f}"),
                _judged(bulk.get(name), lambda value: value >= ESS_LIMIT, "{:,.0f}"),
                _judged(tail.get(name), lambda value: value >= ESS_LIMIT, "{:,.0f}"),
            ],
        }
        for name in names[:_DIAGNOSTICS_SHOWN]
    ]
    return {
        "rows": rows,
        "left_out": max(0, len(names) - _DIAGNOSTICS_SHOWN),
        "any_missed": any(cell["missed"] for row in rows for cell in row["cells"]),
    }


def _judged(value: float | None, is_good: Any, layout: str) -> dict[str, Any]:
    if value is None:
        return {"text": "–", "missed": False}
    if np.isnan(value):
        return {"text": "undefined", "missed": True}
    return {"text": layout.format(value), "missed": not is_good(value)}


def _has_chains(diagnostics: Mapping[str, Any]) -> bool:
    """Return whether chains were compared with one another: only then have they an R-hat."""
    return bool(diagnostics.get("r_hat") or diagnostics.get("ess_bulk"))


def _assumptions(model: Any, columns: Sequence[str]) -> dict[str, Any] | None:
    """Return which assumption the labels follow: a sentence, a table, and what its numbers are."""
    if not hasattr(model, "explanation_"):
        return None
    found = model.explanation_  # without wrong labels, which the advice above is about
    found = found._replace(columns=found.columns or tuple(columns))
    header, rows = found.table()
    return {
        "headline": found.headline(),
        "header": header,
        "rows": rows,
        "summary": found.summary(),
    }
