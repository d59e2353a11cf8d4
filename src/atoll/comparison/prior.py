"""What is known of the models before they have seen a table: how they did on others.

`benchmarks/bench_compare.py choose` found these numbers on seventeen tables, as
`benchmarks/results/compare.md` lists them: the difference of a model's log-loss on held-out rows
from the default's, its mean over tables and draws, and its standard deviation.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple


class Belief(NamedTuple):
    """What is believed of a model's log-loss, less the default's.

    mean : in nats
    deviation : from table to table
    """

    mean: float
    deviation: float


STRANGER = Belief(0.1, 0.15)
"""What is believed of a model that was not among those compared."""

BELIEFS: Mapping[str, Belief] = MappingProxyType({})

SHARED = 0.5
"""Correlation of two models' differences: most of what they share is the default itself."""
