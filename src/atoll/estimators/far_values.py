"""Warnings of numbers in the place of blanks, and far outside those of the fit."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from atoll.core.blank_markers import about_blank_markers
from atoll.core.fillings import remarks_of
from atoll.core.remarks import warn_user
from atoll.core.rows import COSINE
from atoll.core.table_fixes import FRAME
from atoll.core.value_spans import FarValues, counting, spans_of
from atoll.estimators.validation import LARGEST

SPANS = "_spans_of_fit_"  # where an estimator keeps where its columns lie


class WatchesValues:
    """What makes an estimator warn of markers of blanks, and of numbers far outside its fit's.

    Not where rows are sparse or compared by directions, nor where the step that made them from a
    table has warned already.
    """

    def _read_rows(self, X: Any, *, reset: bool = False) -> Any:
        rows = super()._read_rows(X, reset=reset)  # type: ignore[misc]
        if sparse.issparse(rows):
            return rows
        spans = getattr(self, SPANS, None)
        if reset:
            setattr(self, SPANS, spans_of(rows))
            if not remarks_of(X):
                for said in about_blank_markers(rows, _columns(self, rows.shape[1]), FRAME):
                    warn_user(said, UserWarning)
        elif spans is not None and getattr(self, "metric_", "") != COSINE and not remarks_of(X):
            counted = counting()
            found = (
                FarValues(spans)
                if counted is None
                else counted.setdefault(id(self), FarValues(spans))
            )
            found.add(_as_given(rows, X))
            if counted is None:
                remark_on_far_values(self, found)
        return rows


def _as_given(rows: NDArray[np.float64], X: Any) -> NDArray[np.float64]:
    """Return rows that were read from X, with the numbers that were cut for their size."""
    if max(float(rows.max(initial=0.0)), -float(rows.min(initial=0.0))) < LARGEST:
        return rows
    given = np.asarray(X, dtype=np.float64)
    is_same = np.array_equal(np.clip(given, -LARGEST, LARGEST), rows)
    return given if is_same else rows


def remark_on_far_values(model: Any, found: FarValues | None) -> None:
    """Warn of what was found in rows that a model predicted."""
    if found is None:
        return
    said = found.remark(_columns(model, len(found.spans.low)))
    if said is not None:
        warn_user(said, UserWarning)


def _columns(model: Any, n: int) -> list[str]:
    """Return what remarks call the n columns of a fit."""
    names = getattr(model, "feature_names_in_", None)
    return [f"column {j}" for j in range(n)] if names is None else [str(name) for name in names]


def forget_values(model: Any) -> None:
    """Let a model warn no more: what reads its tables does, in their own units."""
    if hasattr(model, SPANS):
        delattr(model, SPANS)
