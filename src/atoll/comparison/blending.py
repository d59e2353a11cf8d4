"""Blends of models: each counts by how well it predicted held-out labels.

A blend gives a row the class probabilities Σ w_m p_m(x). The weights w follow from held-out labels
y_i: they are the mode of

    Π_i Σ_m w_m p_m(y_i)  ·  Dirichlet(w | 1 + τ π),

found by expectation–maximisation. The prior is worth τ labels and gives the default most of the
weight, and any other model at most a twentieth. Few labels say little about which model is best; a
blend need not decide.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from atoll.comparison.candidates import Candidate
from atoll.comparison.folds import HeldOutLosses, row_losses
from atoll.comparison.supervised import OfClassifiers, class_probabilities, fit_clone
from atoll.core.mixture_weights import mixture_weights

Array = NDArray[np.float64]
Codes = NDArray[np.intp]

BLEND = "blend"  # its name among the models
OWN_SHARE = 0.8  # of the default, before any label
MOST_SHARE = 0.05  # of any other model, before any label: few others leave the default more
PRIOR_LABELS = 16.0  # labels that the prior is worth
LEAST_SHARE = 0.03  # share below which a model is left out of the blend
ALONE_SHARE = 0.9  # share from which a model stands alone: as good, quicker, and it has explain()


class Blend(NamedTuple):
    """Shares of models in a blend, and what it says of held-out labels.

    shares : by name, the largest first; they sum to one
    proba : (l, K) class probabilities of the labelled rows, each from shares that others determined
    """

    shares: Mapping[str, float]
    proba: Array


def blend_shares(right: Array, prior: Array) -> Array:
    """Return how much each model counts, (m,).

    Parameters
    ----------
    right : (l, m) probability that each model gave to the true class of a row
    prior : (m,) how many labels the prior belief in each model is worth

    Examples
    --------
    >>> right = np.array([[0.9, 0.5], [0.8, 0.5], [0.9, 0.5]])
    >>> blend_shares(right, np.array([1.0, 1.0])).round(2)
    array([0.66, 0.34])
    """
    return mixture_weights(right.T, prior)


def blend_of(
    names: Sequence[str], default: str, proba: Mapping[str, Array], codes: Codes, n_splits: int
) -> Blend:
    """Return the blend of models by what they say of held-out labels.

    Parameters
    ----------
    names : of the models that may be in it, the default among them
    default : name of the default
    proba : name -> (l, K) class probabilities of the labelled rows, from fits without their labels
    codes : (l,) their classes
    n_splits : parts of the labels; the shares for a part are found from the others
    """
    n_others = len(names) - 1
    of_others = min((1.0 - OWN_SHARE) / max(1, n_others), MOST_SHARE)
    own = 1.0 - n_others * of_others
    prior = PRIOR_LABELS * np.array([own if n == default else of_others for n in names])
    stacked = np.stack([proba[name] for name in names])  # (m, l, K)
    losses = np.stack([row_losses(p, codes)[0] for p in stacked], axis=1)
    right = np.exp(-losses)
    part = np.arange(len(codes)) % n_splits
    held_out = np.empty(stacked.shape[1:])
    for k in range(n_splits):
        shares = _enough(blend_shares(right[part != k], prior))
        held_out[part == k] = np.tensordot(shares, stacked[:, part == k], 1)
    shares = _enough(blend_shares(right, prior))
    order = [i for i in np.argsort(-shares, kind="stable") if shares[i] > 0]
    return Blend({names[i]: float(shares[i]) for i in order}, held_out)


def _enough(shares: Array) -> Array:
    """Return shares without those that are too small to be worth a fit; the largest stays."""
    most = float(shares.max())
    least = ALONE_SHARE if most >= ALONE_SHARE else min(LEAST_SHARE, most)
    kept = np.where(shares >= least, shares, 0.0)
    return np.asarray(kept / kept.sum())


def with_blend(
    found: HeldOutLosses,
    candidates: Sequence[Candidate],
    default: str,
    codes: Codes,
    n_splits: int,
) -> tuple[HeldOutLosses, Candidate | None]:
    """Add the blend of all models but the peers to the scores; None if it would be of one model.

    Parameters
    ----------
    codes : (l,) classes of the rows that were scored
    """
    of = {one.name: one for one in candidates}
    names = [name for name in found.names if not of[name].is_peer]
    if len(names) < 2:
        return found, None
    blend = blend_of(names, default, found.proba, codes, n_splits)
    log_losses, errors = row_losses(blend.proba, codes)
    seconds = sum(found.seconds[found.names.index(name)] for name in blend.shares)
    model = BlendClassifier([of[name].model for name in blend.shares], tuple(blend.shares.values()))
    said = ", ".join(f"{name} {100 * share:.0f}%" for name, share in blend.shares.items())
    grown = found._replace(
        names=(*found.names, BLEND),
        log_losses=np.vstack([found.log_losses, log_losses]),
        errors=np.vstack([found.errors, errors]),
        seconds=np.append(found.seconds, seconds),
        proba={**found.proba, BLEND: blend.proba},
    )
    return grown, Candidate(BLEND, model, note=said, shares=blend.shares)


class BlendClassifier(OfClassifiers):
    """A weighted mean of the class probabilities of several classifiers.

    Parameters
    ----------
    models : list of classifiers with `predict_proba`
        One without a parameter `unlabelled`, such as those of scikit-learn, is fitted to the
        labelled rows alone.
    weights : sequence of numbers
        One for each model, zero or more; they are divided by their sum.
    unlabelled : "auto", None or a value, default="auto"
        What in y means unlabelled besides nulls.
    random_state : None or int, default=None
        Seed of the classifiers that take one.

    Attributes
    ----------
    classes_ : (K,) the classes, sorted
    models_ : the fitted classifiers, whose classes are their places in `classes_`

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.naive_bayes import GaussianNB
    >>> X, y = np.array([[0.0], [0.5], [1.0], [5.0], [6.0]]), ["a", "a", None, "b", "b"]
    >>> model = BlendClassifier([GaussianNB(), LogisticRegression()], [3, 1]).fit(X, y)
    >>> model.predict(X).tolist()
    ['a', 'a', 'a', 'b', 'b']
    """

    def __init__(
        self,
        models: list[Any],
        weights: Sequence[float],
        *,
        unlabelled: Any = "auto",
        random_state: int | None = None,
    ):
        self.models = models
        self.weights = weights
        self.unlabelled = unlabelled
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Fit the classifiers to labelled and unlabelled rows, (n, d) and (n,)."""
        weights = np.asarray(self.weights, dtype=np.float64)
        if weights.shape != (len(self.models),) or not (weights >= 0).all() or not weights.sum():
            raise ValueError(
                f"weights must be one number for each of the {len(self.models)} models, zero or "
                f"more and not all zero; got {self.weights!r}."
            )
        rows, codes = self._read(X, y)
        with warnings.catch_warnings():
            # The weights come from models with the same troubles, if there are any.
            warnings.simplefilter("ignore", ConvergenceWarning)
            self.models_ = [fit_clone(one, rows, codes, self.random_state) for one in self.models]
        return self

    def predict_proba(self, X: Any) -> Array:
        """Return class probabilities; X (m, d) -> (m, K)."""
        check_is_fitted(self)
        rows, weights = self._read_rows(X), np.asarray(self.weights, dtype=np.float64)
        parts = [class_probabilities(one, rows, len(self.classes_)) for one in self.models_]
        return np.asarray(np.tensordot(weights / weights.sum(), np.stack(parts), 1))

    def _parts(self) -> Sequence[Any]:
        return self.models
