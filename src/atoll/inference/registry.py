"""The names that `inference=` knows: one list for all estimators, so that a name means one thing.

To add a method that approximates a posterior over regions, write its file with a `maximise` of the
form of `vb.maximise`, and add its line here: every estimator of the auxiliary-variable family then
takes it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from atoll.inference import ep, vb
from atoll.inference.type_two import Approximation


class Method(NamedTuple):
    """A way to find a posterior.

    title : its name in words, to begin a sentence with
    objective : what it climbs, in words; empty for a sampler
    maximise : kernel matrix and its gradient, prior, regions -> Approximation; None where the
        method is not one over regions
    """

    title: str
    objective: str = ""
    maximise: Callable[..., Approximation] | None = None


METHODS: dict[str, Method] = {
    "mcmc": Method("Markov chain Monte Carlo"),
    "vb": Method("Variational Bayes", "lower bound on the log evidence", vb.maximise),
    "ep": Method("Expectation propagation", "estimate of the log evidence", ep.maximise),
    "adf": Method("Assumed-density filtering", "estimate of the log evidence"),
    "map": Method("EM", "log-posterior"),
}

OVER_REGIONS = tuple(name for name, method in METHODS.items() if method.maximise is not None)
"""Methods that approximate the posterior under any regions."""
