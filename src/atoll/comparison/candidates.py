"""The models that are compared, with settings that are quick enough for many fits."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import clone
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.semi_supervised import LabelSpreading

from atoll.comparison.supervised import (
    OfClassifiers,
    OnStandardisedColumns,
    PartlyLabelled,
    class_probabilities,
    fit_clone,
)
from atoll.core.labels import parse_labels
from atoll.estimators import MODELS
from atoll.estimators.category_weight import weigh_features

Array = NDArray[np.float64]
Codes = NDArray[np.intp]


class Candidate(NamedTuple):
    """A model of the comparison.

    name : as in `atoll models`, or that of a peer
    model : a classifier that is not fitted
    is_peer : whether it is not a model of atoll, but a simple one to compare with
    note : in what way its settings are not the usual ones
    left_out : why it is compared only if asked for by name; "" if it always is
    most_classes : with more classes it is left out because it is slow; None: never
    categories : (d,) features that count as categories, whose weight is chosen by the labels of
        every fit; None: all features are taken as they are
    shares : name -> share of each model in a blend; None if this is no blend
    scales : whether it scales columns itself, or is indifferent to their scale
    """

    name: str
    model: Any
    is_peer: bool = False
    note: str = ""
    left_out: str = ""
    most_classes: int | None = None
    categories: NDArray[np.bool_] | None = None
    shares: Mapping[str, float] | None = None
    scales: bool = False

    def on_standardised_columns(self) -> Candidate:
        """Return it with columns standardised before its fits, unless it scales them itself."""
        return self if self.scales else self._replace(model=OnStandardisedColumns(self.model))

    def by_metric(self, metric: str | None) -> Candidate:
        """Return it with this metric; unchanged if that is None, or the model has no metric."""
        if metric is None or "metric" not in self.model.get_params(deep=False):
            return self
        return self._replace(model=clone(self.model).set_params(metric=metric))

    def why_not(self, n_classes: int) -> str:
        """Return why it is compared only if asked for by name; "" if it always is."""
        if self.most_classes is not None and n_classes > self.most_classes:
            return f"slow with more than {self.most_classes} classes"
        return self.left_out

    def classifier(self) -> Any:
        """Return it as a classifier to be fitted to labelled and unlabelled rows."""
        is_ours = isinstance(self.model, OfClassifiers) or not self.is_peer
        if not is_ours or "unlabelled" not in self.model.get_params(deep=False):
            return PartlyLabelled(self.model)
        return clone(self.model)

    def predict(self, X: Any, codes: Codes, new: Any, seed: int) -> Array:
        """Return the class probabilities of new rows after a fit; (m, K).

        Parameters
        ----------
        X : (n, d)
        codes : (n,) classes, -1 where unlabelled; every class has a label
        new : (m, d)
        seed : of the fit
        """
        if self.categories is not None:
            labels = parse_labels(codes, unlabelled=-1)
            found = weigh_features(X, self.categories, labels)
            weights = np.where(self.categories, found.weight, 1.0)
            X, new = X * weights, new * weights
        fitted = fit_clone(self.model, X, codes, seed)
        return class_probabilities(fitted, new, int(codes.max()) + 1)


class Spreading(LabelSpreading):
    """Scikit-learn's LabelSpreading, with equal probabilities where no label reaches a row."""

    def __init__(self, unlabelled: int = -1, max_iter: int = 1000):
        super().__init__("knn", max_iter=max_iter)
        self.unlabelled = unlabelled

    def predict_proba(self, X: Any) -> Array:
        """Return class probabilities; X (m, d) -> (m, K)."""
        with np.errstate(invalid="ignore", divide="ignore"):
            found = np.nan_to_num(super().predict_proba(X))
        empty = found.sum(axis=1, keepdims=True) <= 0
        return np.where(empty, 1.0 / found.shape[1], found)


class DenseScaler(StandardScaler):
    """Scikit-learn's StandardScaler, which leaves sparse rows as they are."""

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn means and deviations of columns; X (n, d)."""
        return self if sparse.issparse(X) else super().fit(X, y, sample_weight)

    def transform(self, X: Any, copy: bool | None = None) -> Any:
        """Return standardised rows; X (m, d) -> (m, d)."""
        return X if sparse.issparse(X) else super().transform(X, copy)


def _quick(name: str, note: str = "", **settings: Any) -> Candidate:
    return Candidate(name, MODELS[name](**settings), note=note)


_SAMPLER = "slow chains"
_SVC = "slow, and much like laplacian-rls"
_TRANSDUCTIVE = "as slow as all others together"
_ORDINAL = "for classes that have an order"
_EVERY = (
    _quick("atoll")._replace(scales=True),
    _quick("graph-gp"),
    _quick("dp-mixture", "from one start instead of four", n_starts=1)._replace(scales=True),
    _quick("informative-vector"),
    _quick("laplacian-rls"),
    _quick("probit-gp", 'by inference="vb" instead of chains', inference="vb"),
    _quick("ssgp")._replace(most_classes=2),
    _quick("transductive-svc")._replace(left_out=_TRANSDUCTIVE),
    _quick("laplacian-svc")._replace(left_out=_SVC),
    _quick("null-category")._replace(left_out=_SAMPLER),
    _quick("softmax-gp")._replace(left_out=_SAMPLER),
    _quick("archipelago")._replace(left_out=_SAMPLER),
    _quick("ordinal-gp")._replace(left_out=_ORDINAL),
    Candidate(
        "shares",
        DummyClassifier(strategy="prior"),
        True,
        "the labels' own shares of the classes",
        scales=True,
    ),
    Candidate(
        "logistic",
        make_pipeline(DenseScaler(), LogisticRegression(max_iter=2000)),
        True,
        "scikit-learn's LogisticRegression, on standardised columns",
        scales=True,
    ),
    Candidate("label-spreading", Spreading(), True, "scikit-learn's LabelSpreading"),
)
CANDIDATES: Mapping[str, Candidate] = MappingProxyType({one.name: one for one in _EVERY})
"""Every model that can be compared by its name."""
