"""What is known of the models before they have seen a table: how they did on others.

`benchmarks/bench_compare.py choose` found these numbers on sixteen tables, which
`benchmarks/results/compare.md` lists: the difference of a model's log-loss on rows without a label
from the default's, as its mean over tables and its standard deviation from table to table.
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


class Prior(NamedTuple):
    """What is believed of all models.

    beliefs : name -> belief about that model
    stranger : belief about any other model
    shared : correlation of two models' differences
    least_variance : prior variance of a row's difference, since few rows may look alike by chance
    pseudo_rows : how many rows that prior is worth
    offset, slope : of the log-odds that a blend is near the best, as a function of those by draws
    by_labels : what a doubling of the labels adds to these
    """

    beliefs: Mapping[str, Belief]
    stranger: Belief
    shared: float
    least_variance: float
    pseudo_rows: float
    offset: float = 0.0
    slope: float = 1.0
    by_labels: float = 0.0


PRIOR = Prior(
    beliefs=MappingProxyType(
        {
            "graph-gp": Belief(0.077, 0.108),
            "dp-mixture": Belief(0.141, 0.129),
            "informative-vector": Belief(0.058, 0.09),
            "laplacian-rls": Belief(0.057, 0.09),
            "probit-gp": Belief(0.085, 0.105),
            "ssgp": Belief(0.102, 0.133),
            "transductive-svc": Belief(0.043, 0.053),
            "shares": Belief(0.589, 0.514),
            "logistic": Belief(0.137, 0.127),
            "label-spreading": Belief(0.174, 0.244),
            "blend": Belief(-0.001, 0.008),
        }
    ),
    stranger=Belief(0.05, 0.15),
    shared=0.3,
    least_variance=0.5,
    pseudo_rows=16.0,
    offset=1.04,
    slope=0.59,
    by_labels=0.36,
)
