"""The models that are compared, each by a setting that is quick enough to be fitted many times."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from atoll.estimators import MODELS

Array = NDArray[np.float64]
Codes = NDArray[np.intp]

NOTHING: Mapping[str, Any] = MappingProxyType({})
SHARE_COUNT = 0.5  # of each class, before any label (Jeffreys)


class Candidate(NamedTuple):
    """A model of the comparison.

    name : as in `atoll models`, or that of a peer
    fit : rows (n, d), codes (n,) with -1 where unlabelled, number of classes and seed -> a function
        of new rows (m, d) that returns their class probabilities (m, K)
    is_peer : whether it is no model of atoll, but something simple to measure by
    note : what is not as the model comes, in words
    left_out : why it is compared only where it is asked for by name; nothing where it always is
    """

    name: str
    fit: Callable[[Any, Codes, int, int], Callable[[Any], Array]]
    is_peer: bool = False
    note: str = ""
    left_out: str = ""


# Peers --------------------------------------------------------------------------------------------


def _shares(X: Any, codes: Codes, n_classes: int, seed: int) -> Callable[[Any], Array]:
    counts = np.bincount(codes[codes >= 0], minlength=n_classes) + SHARE_COUNT
    return lambda new: np.tile(counts / counts.sum(), (new.shape[0], 1))


def _logistic(X: Any, codes: Codes, n_classes: int, seed: int) -> Callable[[Any], Array]:
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    known = codes >= 0
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000))
    predict: Callable[[Any], Array] = model.fit(X[known], codes[known]).predict_proba
    return predict


def _spreading(X: Any, codes: Codes, n_classes: int, seed: int) -> Callable[[Any], Array]:
    from sklearn.semi_supervised import LabelSpreading

    model = LabelSpreading("knn", max_iter=1000).fit(X, codes)

    def predict(new: Any) -> Array:
        found = np.nan_to_num(model.predict_proba(new))
        empty = found.sum(axis=1, keepdims=True) <= 0  # no label reaches the row
        return np.where(empty, 1.0 / n_classes, found)

    return predict


# Models of atoll ----------------------------------------------------------------------------------


def of_estimator(
    name: str, estimator: Any, note: str = "", left_out: str = "", *, is_peer: bool = False
) -> Candidate:
    """Return a candidate that fits clones of an estimator.

    Parameters
    ----------
    name : of the candidate
    estimator : classifier with `predict_proba`; one without a parameter `unlabelled` is fitted on
        the labelled rows alone
    note, left_out, is_peer : as in `Candidate`
    """

    def fit(X: Any, codes: Codes, n_classes: int, seed: int) -> Callable[[Any], Array]:
        model = clone(estimator)
        known = model.get_params(deep=False)
        wanted = {"random_state": seed, "unlabelled": -1, "verbose": False}
        model.set_params(**{key: value for key, value in wanted.items() if key in known})
        if "unlabelled" in known:
            model.fit(X, codes)
        else:
            model.fit(X[codes >= 0], codes[codes >= 0])
        predict: Callable[[Any], Array] = model.predict_proba
        return predict

    return Candidate(name, fit, is_peer, note, left_out)


def _quick(
    name: str, note: str = "", left_out: str = "", settings: Mapping[str, Any] = NOTHING
) -> Candidate:
    return of_estimator(name, MODELS[name](**settings), note, left_out)


_SAMPLER = "its chains take long"
_EVERY = (
    _quick("atoll"),
    _quick("graph-gp"),
    _quick("dp-mixture"),
    _quick("informative-vector"),
    _quick("laplacian-rls"),
    _quick("laplacian-svc"),
    _quick("probit-gp", 'by inference="vb" instead of chains', "", {"inference": "vb"}),
    _quick("ssgp"),
    _quick("transductive-svc"),
    _quick("null-category", left_out=_SAMPLER),
    _quick("softmax-gp", left_out=_SAMPLER),
    _quick("archipelago", left_out=_SAMPLER),
    _quick("ordinal-gp", left_out="it is for classes that have an order"),
    Candidate("shares", _shares, True, "the labels' own shares of the classes"),
    Candidate("logistic", _logistic, True, "scikit-learn's LogisticRegression"),
    Candidate("label-spreading", _spreading, True, "scikit-learn's LabelSpreading"),
)
CANDIDATES: Mapping[str, Candidate] = MappingProxyType({one.name: one for one in _EVERY})
"""Every model that can be compared by its name."""
