"""How a search for the best parameters went: what its diagnostics and its verdict say."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from atoll.inference.ivm import IVMResult
from atoll.inference.registry import METHODS
from atoll.inference.type_two import Approximation

Array = NDArray[np.float64]

LEFT_OUT = {  # by what did not fit: the unlabelled rows' shares of the classes, or hidden labels
    "shares": "Whatever the length-scale, the unlabelled rows did not fall to the classes as the "
    "labels do, and were left out{}; more labels would bring them in.",
    "labels": "With the unlabelled rows, hidden labels were less probable than by their classes' "
    "shares alone: the null category does not hold here. The unlabelled rows were left out{}; a "
    "model of another kind, such as GraphGPClassifier, may use them.",
}


class Search(NamedTuple):
    """What is to be said of a search.

    log_evidences : (t,) after every step, or bounds on them
    converged : whether it stopped by itself
    jitter : that was added to factor matrices
    unit : what a step is
    more : further diagnostics
    remark : to add to the verdict
    """

    log_evidences: Array
    converged: bool
    jitter: float
    unit: str = "iteration"
    more: Mapping[str, Any] = MappingProxyType({})
    remark: str = ""

    @property
    def n_steps(self) -> int:
        """Steps taken; a search by iterations has an evidence before its first."""
        return max(len(self.log_evidences) - (self.unit == "iteration"), 0)

    @property
    def log_evidence(self) -> float:
        """The last log evidence; NaN if there is none."""
        return float(self.log_evidences[-1]) if len(self.log_evidences) else float("nan")

    @property
    def steps(self) -> str:
        """Their number with its noun."""
        return f"{self.n_steps} {self.unit}{'s' * (self.n_steps != 1)}"

    def verdict(self, method: str) -> str:
        """Return how it went, in words; `method` is a name of the registry."""
        title, objective, _ = METHODS[method]
        sentence = (
            f"{title} converged in {self.steps}; its {objective} is {self.log_evidence:.2f}."
            if self.converged
            else f"{title} had not converged after {self.steps}; standardise the features, or use "
            'inference="mcmc".'
        )
        return sentence + self.remark

    def diagnostics(self, verdict: str) -> dict[str, Any]:
        """Return the fitted attribute `diagnostics_`."""
        return {
            "log_evidence": self.log_evidence,
            "n_iterations": self.n_steps,
            "jitter": self.jitter,
            **self.more,
            "converged": self.converged,
            "verdict": verdict,
        }


def search_of_approximation(result: Approximation) -> Search:
    """Return what is to be said of a search over θ and φ."""
    return Search(
        result.log_evidences,
        result.converged,
        result.jitter,
        more={"n_negative": result.n_negative},
    )


def search_of_active_sets(result: IVMResult, doubt: str = "") -> Search:
    """Return what is to be said of active sets and their hyper-parameters.

    Parameters
    ----------
    doubt : why unlabelled rows were left out, of `LEFT_OUT`; "" where they were not
    """
    remark = f"\n{LEFT_OUT[doubt].format('')}" if doubt else ""
    return Search(
        result.log_evidences,
        result.converged,
        result.jitter,
        "iteration" if result.whole else "round",
        {
            "n_active": max(len(one.rows) for one in result.problems),
            "n_negative": sum(one.n_negative for one in result.problems),
            "unlabelled_used": result.believed,
        },
        remark,
    )
