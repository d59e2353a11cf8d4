"""How sure differences between models are, and which model to use.

Row by row a model's log-loss is compared with that of the default on the same held-out label. The
training sets of k folds overlap, so that l rows are worth fewer. If the mean difference over rows
is δ̄ and their standard deviation s, the true mean difference has the posterior

    δ ~ Student-t(l − 1 degrees, centre δ̄, scale² (s²/l)(1 + k/(k − 1)))

of the correlated t-test, with 1/k as the correlation of two rows' scores (Nadeau and Bengio, 2003;
Corani and Benavoli, 2015), taken over rows instead of folds.

Few labels say little, so the recommendation starts from how the models did on other tables
(`prior`): with differences Δ ~ N(μ, T) of all models and δ̄ | Δ ~ N(Δ, V), V the covariance of the
rows' differences over l, inflated as above, it is the model with the least

    E(Δ | δ̄) = μ + T (T + V)⁻¹ (δ̄ − μ),

and the default has Δ = 0. A blend of the models (`blending`) is judged as one of them. The chance
that it is near the best comes out too low, since models are more alike than the prior assumes;
`promised` corrects it by how often a blend was near the best on other tables.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit
from scipy.stats import t as student

from atoll.comparison.blending import BLEND
from atoll.comparison.prior import PRIOR, Prior

Array = NDArray[np.float64]

NO_DIFFERENCE = 0.0005  # smaller differences of log-loss are shown as zero
NEAR = 0.02  # nats; models whose log-loss differs by less are equally good
FEWEST = 8  # with fewer labels of the rarest class, no model is recommended over the default
TELLING = 0.8  # chance of being near the best from which on a recommendation is firm
N_DRAWS = 4000
LABELS_TRIED = (16, 512)  # fewest and most labels on which blends were tried


class Paired(NamedTuple):
    """A difference of two models over the same rows, and its uncertainty.

    mean : over rows
    low, high : of its central 95% interval
    probability_below : that it is below zero
    """

    mean: float
    low: float
    high: float
    probability_below: float


class Judgement(NamedTuple):
    """What is believed of every model, given the held-out labels.

    expected : (models,) difference of log-loss from the reference's
    near_best : (models,) probability of being within `NEAR` of the best
    best : which model has the least expected log-loss
    """

    expected: Array
    near_best: Array
    best: int


def paired_difference(differences: Array, n_splits: int, most: float = np.inf) -> Paired:
    """Return the mean of differences (l,) of rows from k folds, with its uncertainty.

    No interval goes beyond the largest difference that there can be, `most`.

    Examples
    --------
    >>> found = paired_difference(np.array([0.1, 0.3, 0.2, 0.4]), 2)
    >>> round(found.mean, 3), round(found.low, 2), round(found.high, 2)
    (0.25, -0.11, 0.61)
    """
    n, mean = len(differences), float(differences.mean())
    scale = float(np.sqrt(differences.var(ddof=1) / n * inflation(n_splits)))
    if scale == 0.0:
        return Paired(mean, mean, mean, float(np.heaviside(-mean, 0.5)))
    low, high = np.clip(student.interval(0.95, n - 1, mean, scale), -most, most)
    return Paired(mean, float(low), float(high), float(student.cdf(0.0, n - 1, mean, scale)))


def signed(difference: float) -> str:
    """Return a difference with three decimals and its sign; what is shown as zero has none.

    Examples
    --------
    >>> signed(0.0114), signed(-0.2), signed(-0.0004)
    ('+0.011', '-0.200', '0.000')
    """
    text = f"{difference:+.3f}"
    return text if float(text) else text[1:]


def inflation(n_splits: int) -> float:
    """Return the factor by which overlapping training sets raise the variance of a mean over rows.

    Examples
    --------
    >>> inflation(5)
    2.25
    """
    return 1.0 + n_splits / (n_splits - 1)


def judge(
    names: Sequence[str],
    log_losses: Array,
    reference: str,
    n_splits: int,
    seed: int,
    prior: Prior = PRIOR,
) -> Judgement:
    """Combine what the labels say about models with what other tables have said.

    Parameters
    ----------
    names : of the models
    log_losses : (models, l) of the rows
    reference : one of the names
    n_splits : folds
    seed : of the draws behind `near_best`
    prior : what is believed before the labels
    """
    at = list(names).index(reference)
    others = [i for i in range(len(names)) if i != at]
    expected, near = np.zeros(len(names)), np.ones(len(names))
    if not others:
        return Judgement(expected, near, at)
    differences = log_losses[others] - log_losses[at]
    mean, covariance = prior_of([names[i] for i in others], prior)
    noise = noise_of(differences, n_splits, prior)
    gain = np.linalg.solve(covariance + noise, covariance).T
    centre = mean + gain @ (differences.mean(axis=1) - mean)
    spread = covariance - gain @ covariance
    expected[others] = centre
    rng = np.random.default_rng(seed)
    values, vectors = np.linalg.eigh(0.5 * (spread + spread.T))
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    drawn = np.zeros((N_DRAWS, len(names)))
    drawn[:, others] = centre + rng.standard_normal((N_DRAWS, len(others))) @ root.T
    near = (drawn <= drawn.min(axis=1, keepdims=True) + NEAR).mean(axis=0)
    if BLEND in names:
        blend = list(names).index(BLEND)
        near[blend] = promised(float(near[blend]), log_losses.shape[1], prior)
    return Judgement(expected, near, int(np.argmin(expected)))


def promised(near: float, n_labels: int, prior: Prior = PRIOR) -> float:
    """Return the chance that a blend is near the best, by how often it was on other tables.

    Parameters
    ----------
    near : that chance by the draws
    n_labels : held out; of few, all may mislead
    """
    odds = prior.offset + prior.slope * logit(np.clip(near, 0.01, 0.99))
    return float(expit(odds + prior.by_labels * doublings(n_labels)))


def doublings(n_labels: int) -> float:
    """Return how many times the fewest labels tried were doubled."""
    return float(np.log2(np.clip(n_labels, *LABELS_TRIED) / LABELS_TRIED[0]))


def prior_of(names: Sequence[str], prior: Prior = PRIOR) -> tuple[Array, Array]:
    """Return mean and covariance of the models' differences before any label, (m,), (m, m)."""
    beliefs = [prior.beliefs.get(name, prior.stranger) for name in names]
    deviations = np.array([belief.deviation for belief in beliefs])
    correlation = prior.shared + (1.0 - prior.shared) * np.eye(len(names))
    return np.array([belief.mean for belief in beliefs]), correlation * np.outer(
        deviations, deviations
    )


def noise_of(differences: Array, n_splits: int, prior: Prior = PRIOR) -> Array:
    """Return the covariance of mean differences over rows; (m, l) -> (m, m)."""
    m, n = differences.shape
    centred = differences - differences.mean(axis=1, keepdims=True)
    total = centred @ centred.T + prior.pseudo_rows * prior.least_variance * np.eye(m)
    return inflation(n_splits) * total / (n - 1 + prior.pseudo_rows) / n
