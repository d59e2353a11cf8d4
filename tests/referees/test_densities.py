"""NumPyro's log densities are ours, before anything is sampled: priors, likelihoods, Jacobians."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

from atoll.core.linalg import jittered_cholesky
from atoll.kernels.hyperparameters import gram_function
from atoll.likelihoods import null_category, softmax
from atoll.models import ordinal_gp, probit_gp
from referees import compare

N = 30


class Written(Exception):
    """What NUTS would have sampled."""


def their_model(monkeypatch, nuts, write):
    """The NumPyro model that a referee has written."""

    def run(model, **lengths):
        raise Written(model)

    monkeypatch.setattr(nuts, "run", run)
    with pytest.raises(Written) as found:
        write()
    return found.value.args[0]


def of_family(family):
    return lambda f, phi: family.at(phi).total(f[:, 0]), family.mean, family.sd


def sides(name, nuts):
    """X, a function that writes their model, and ours: (f, φ) -> log-likelihood, prior of φ."""
    K = 2 if name in ("probit", "null category") else 3
    X, codes, new_rows = compare.make_rows(N, K, 0)
    given, everything = (X, codes), np.ones(N, dtype=bool)
    prior = compare.prior_at(X)
    if name == "probit":
        ours = of_family(probit_gp.family(codes, 2))
        return X, lambda: nuts.probit(*given, new_rows, compare.PRIOR), ours
    if name == "ordinal":
        family = ordinal_gp.family(*given, everything, prior, 3, 0.0)
        cuts = compare.cut_prior()
        return X, lambda: nuts.ordinal(*given, new_rows, compare.PRIOR, cuts), of_family(family)
    if name == "null category":
        seen = np.arange(N) % 3 == 0
        # The rates at which labels are seen are the same number for every function.
        rates = np.array([0.7, 0.5])
        missed = np.log1p(-rates)[codes[seen]].sum()
        total, mean, sd = of_family(null_category.family(codes, seen, 2, 0.4, rates))
        ours = (lambda f, phi: total(f, phi) - missed, mean, sd)
        return (
            X,
            lambda: nuts.null_category(*given, seen, new_rows, compare.PRIOR, 0.4, rates),
            ours,
        )
    ours = (lambda f, phi: softmax.log_prob(f, codes).sum(), np.zeros(0), np.zeros(0))
    return X, lambda: nuts.softmax(*given, new_rows, compare.PRIOR, 3), ours


@pytest.mark.parametrize("name", ["probit", "ordinal", "null category", "softmax"])
def test_log_densities_are_those_of_numpyro(name, monkeypatch):
    pytest.importorskip(
        "numpyro", reason="NumPyro is not installed: make proof-referees installs it"
    )
    from numpyro.infer.util import log_density

    from referees import nuts

    X, write, (log_likelihood, mean, sd) = sides(name, nuts)
    model = their_model(monkeypatch, nuts, write)
    prior, rng = compare.prior_at(X), np.random.default_rng(3)
    gram = gram_function(prior, X)
    for _ in range(40):
        theta = prior.mean + prior.sd * rng.standard_normal(2)
        phi = mean + sd * rng.standard_normal(len(mean))
        white = rng.standard_normal((N, 3 if name == "softmax" else 1))
        f = jittered_cholesky(gram(theta)).lower @ white
        ours = log_likelihood(f, phi) + norm.logpdf(white).sum()
        ours += norm.logpdf(theta, prior.mean, prior.sd).sum() + norm.logpdf(phi, mean, sd).sum()
        theirs, _ = log_density(model, (), {}, {"theta": theta, "nu": white, "cuts": phi})
        assert ours == pytest.approx(float(theirs), abs=1e-6)
