"""Means and their standard errors, and the Markdown tables that show them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from atoll.reproductions.engine import Result


class Estimate(NamedTuple):
    """A mean over `n_cells` cells and its standard error (NaN for a single cell).

    Examples
    --------
    >>> loss = Estimate(mean=0.4123, standard_error=0.0098, n_cells=5)
    >>> f"{loss}, {loss:.2f}, {loss:+}"
    '0.412 ± 0.010, 0.41 ± 0.01, +0.412 ± 0.010'
    """

    mean: float
    standard_error: float
    n_cells: int

    def __format__(self, spec: str) -> str:
        """Write both numbers to the same number of digits, by default three.

        A single cell has no standard error to show.
        """
        spec = spec if "." in spec else f"{spec}.3f"
        if self.n_cells < 2:
            return format(self.mean, spec)
        return f"{self.mean:{spec}} ± {self.standard_error:{spec.lstrip('+')}}"

    def __str__(self) -> str:
        return format(self)


def estimate(values: Iterable[float]) -> Estimate:
    """Return the mean and standard error of independent values.

    Examples
    --------
    >>> print(estimate([0.2, 0.4, 0.3]))
    0.300 ± 0.058
    """
    v = np.asarray(list(values), dtype=float)
    if v.size == 0:
        raise ValueError("values is empty; an estimate needs at least one cell.")
    error = v.std(ddof=1) / np.sqrt(v.size) if v.size > 1 else np.nan
    return Estimate(float(v.mean()), float(error), v.size)


def group(results: Iterable[Result], *keys: str) -> dict[Any, list[Result]]:
    """Group results by a key of their cells (or by a tuple of several keys), in declared order.

    Examples
    --------
    >>> from atoll.reproductions.engine import Result
    >>> results = [Result({"labels": n, "seed": s}, {"error": 0.1 * s / n})
    ...            for n in (1, 2) for s in range(3)]
    >>> for labels, part in group(results, "labels").items():
    ...     print(labels, estimate_value(part, "error"))
    1 0.100 ± 0.058
    2 0.050 ± 0.029
    """
    groups: dict[Any, list[Result]] = {}
    for result in results:
        place = tuple(result.cell[key] for key in keys)
        groups.setdefault(place[0] if len(keys) == 1 else place, []).append(result)
    return groups


def estimate_value(results: Iterable[Result], value: str) -> Estimate:
    """Return the mean and standard error of a measured value over cells."""
    return estimate(result.values[value] for result in results)


def paired_difference(
    first: Iterable[Result], second: Iterable[Result], value: str, *, pair_by: Sequence[str]
) -> Estimate:
    """Return the mean of first - second over pairs of cells that agree in the keys `pair_by`.

    Cells on the same data vary together, so the standard error of their difference is smaller
    than those of the two means suggest.

    Examples
    --------
    >>> from atoll.reproductions.engine import Result
    >>> ours = [Result({"seed": s}, {"error": 0.1 * s}) for s in range(4)]
    >>> theirs = [Result({"seed": s}, {"error": 0.1 * s + 0.2}) for s in range(4)]
    >>> print(paired_difference(ours, theirs, "error", pair_by=["seed"]))
    -0.200 ± 0.000
    """
    others = group(second, *pair_by)
    return estimate(
        estimate_value(part, value).mean - estimate_value(others[place], value).mean
        for place, part in group(first, *pair_by).items()
        if place in others
    )


def markdown_table(header: Sequence[object], rows: Iterable[Sequence[object]]) -> str:
    """Lay out a Markdown table.

    Examples
    --------
    >>> print(markdown_table(["labels", "error"], [[1, "0.10 ± 0.06"]]))
    | labels | error |
    | --- | --- |
    | 1 | 0.10 ± 0.06 |
    """
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(_cell_text(c) for c in line) + " |" for line in lines)


def _cell_text(content: object) -> str:
    # An unescaped bar or a line break would end the table's cell.
    return str(content).replace("|", "\\|").replace("\n", " ")
