"""The names that `inference=` accepts: one list for all estimators, so that a name means one thing.

To add a method that approximates the posterior under any regions, write a file with a function
`maximise` that has the signature of `vb.maximise`, and add a line for it here: every estimator of
the auxiliary-variable family then accepts it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from atoll.inference import ep, vb
from atoll.inference.type_two import Approximation


class Method(NamedTuple):
    """A way to find a posterior.

    title : the method's name in words, fit to begin a sentence
    objective : what the method maximises, in words; empty for a sampler
    maximise : (kernel matrix, its gradient, prior, regions) -> Approximation; None for a method
        that does not work on regions in general
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
    "vi": Method("Variational inference", "lower bound on the log evidence"),
    "vi+hmc": Method("Variational inference, then Markov chain Monte Carlo"),
}

OVER_REGIONS = tuple(name for name, method in METHODS.items() if method.maximise is not None)
"""Names of the methods that approximate the posterior under any regions."""
