"""The transductive support vector machine on scikit-learn's SVC."""

from __future__ import annotations

import warnings
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.svm import SVC
from sklearn.utils.validation import check_is_fitted

from atoll.core.labels import PartialLabels
from atoll.estimators.validation import labelled_accuracy, validate_rows, validate_training
from atoll.models.transductive_svm import Assignment, assign

Array = NDArray[np.float64]

MOST_ROWS_WITH_GRAM = 4000  # 128 MB
# Of SVC's kernels, what each is a function of.
PARAMETERS = {
    "linear": (),
    "rbf": ("gamma",),
    "poly": ("gamma", "degree", "coef0"),
    "sigmoid": ("gamma", "coef0"),
}


class TransductiveSVC(ClassifierMixin, BaseEstimator):
    """Support vector machine that labels the unlabelled rows for the widest margin.

    Self-labelling with scikit-learn's SVC under a balance constraint, annealed: the unlabelled rows
    take part at a cost that grows from a thousandth to `unlabelled_cost` of a labelled row's, and
    at every cost a given share of them, those with the highest decision values, is positive. More
    than two classes are as many machines, each class against the rest. It has no probabilities.

    Parameters
    ----------
    C : float
        Cost of a labelled row inside the margin.
    kernel, gamma, degree, coef0
        As in scikit-learn's SVC.
    unlabelled_cost : float
        Of an unlabelled row at the end, relative to C.
    positive_share : float or None
        With two classes, the share of the second among the unlabelled rows. None: that among the
        labelled ones, as of every class where there are more.
    unlabelled : "auto", None or a value
        What in y means unlabelled beside nulls; "auto": -1 in an integer y, unless fewer than two
        classes would remain.

    Attributes
    ----------
    classes_ : (K,) the labels, sorted
    machines_ : the trained SVC, one for two classes, else one a class
    transduction_ : (n,) the class of each training row; given labels stay as given
    n_trained_ : machines trained in all

    References
    ----------
    V. N. Vapnik, "Statistical learning theory" (1998). T. Joachims, "Transductive inference for
    text classification using support vector machines" (1999).

    Examples
    --------
    >>> from atoll import TransductiveSVC
    >>> from atoll.datasets import hide_labels, make_crescents
    >>> X, truth = make_crescents(n_samples=80, random_state=0)
    >>> y = hide_labels(truth, per_class=3, marker=None, random_state=0)
    >>> TransductiveSVC().fit(X, y).transduction_.shape
    (80,)
    """

    paper: ClassVar[str] = "Vapnik 1998; Joachims 1999"
    summary: ClassVar[str] = "widest margin over labelled and unlabelled rows; no probabilities"

    def __init__(
        self,
        *,
        C: float = 1.0,
        kernel: Any = "rbf",
        gamma: float | str = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        unlabelled_cost: float = 1.0,
        positive_share: float | None = None,
        unlabelled: Any = "auto",
    ):
        self.C = C
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.unlabelled_cost = unlabelled_cost
        self.positive_share = positive_share
        self.unlabelled = unlabelled

    def fit(self, X: Any, y: Any) -> Self:
        """Train on labelled and unlabelled rows.

        Parameters
        ----------
        X : (n, d) array or data frame of finite numbers
        y : (n,) labels; None, NaN or NA where unknown, or -1 in an integer y
        """
        X, labels = validate_training(self, X, y, unlabelled=self.unlabelled)
        K = len(labels.classes)
        self._check_parameters(K)
        self.classes_ = labels.classes
        targets = [1] if K == 2 else range(K)
        self.machines_: list[SVC] = []
        found = [self._fit_one(X, labels, k) for k in targets]
        self.n_trained_ = sum(one.n_trained for one in found)
        if not all(one.settled for one in found):
            warnings.warn(
                "TransductiveSVC: labels went back and forth at some cost; lower C or "
                "unlabelled_cost.",
                ConvergenceWarning,
                stacklevel=2,
            )
        best = self._best(self._values(X)) if K > 2 else found[0].codes
        self.transduction_ = labels.classes[np.where(labels.is_labelled, labels.codes, best)]
        return self

    def decision_function(self, X: Any) -> Array:
        """Signed distance to the boundary in units of the margin; X (m, d) -> (m,) or (m, K)."""
        check_is_fitted(self)
        values = self._values(validate_rows(self, X))
        return values[:, 0] if len(self.machines_) == 1 else values

    def predict(self, X: Any) -> NDArray[Any]:
        """The class of each row; X (m, d) -> (m,)."""
        check_is_fitted(self)
        return self.classes_[self._best(self._values(validate_rows(self, X)))]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy over the labelled rows; unlabelled ones are left out."""
        return labelled_accuracy(self, self.predict(X), y, sample_weight)

    def _fit_one(self, X: Array, labels: PartialLabels, target: int) -> Assignment:
        """One class against the rest; its machine joins `machines_`."""
        seen = labels.is_labelled
        codes = (labels.codes == target).astype(np.intp)
        share = float(codes[seen].mean()) if self.positive_share is None else self.positive_share
        gamma = self._gamma(X)
        machine = SVC(
            C=self.C, kernel=self.kernel, gamma=gamma, degree=self.degree, coef0=self.coef0
        )
        # Dozens of machines see the same rows: their kernel is found once, where it fits.
        gram = self._gram(X, gamma)
        of_gram = SVC(C=self.C, kernel="precomputed")

        def train(signs: NDArray[np.intp], weights: Array) -> Array:
            used = np.flatnonzero(weights > 0)
            if gram is None:
                machine.fit(X[used], signs[used], sample_weight=weights[used])
                return machine.decision_function(X)
            of_gram.fit(gram[np.ix_(used, used)], signs[used], sample_weight=weights[used])
            return of_gram.decision_function(gram[:, used])

        found = assign(train, codes, seen, share, unlabelled_cost=float(self.unlabelled_cost))
        used = found.weights > 0
        machine.fit(X[used], found.codes[used], sample_weight=found.weights[used])
        self.machines_.append(machine)
        return found

    def _gamma(self, X: Array) -> float:
        """Of all rows, whichever a machine sees."""
        if self.gamma == "scale":
            spread = X.var()
            return 1.0 / (X.shape[1] * spread) if spread > 0 else 1.0
        return 1.0 / X.shape[1] if self.gamma == "auto" else self.gamma  # type: ignore[return-value]

    def _gram(self, X: Array, gamma: float) -> Array | None:
        if len(X) > MOST_ROWS_WITH_GRAM or not (
            isinstance(self.kernel, str) and self.kernel in PARAMETERS
        ):
            return None
        given = {"gamma": gamma, "degree": self.degree, "coef0": self.coef0}
        own = {name: given[name] for name in PARAMETERS[self.kernel]}
        return pairwise_kernels(X, metric=self.kernel, **own)

    def _values(self, X: Array) -> Array:
        return np.column_stack([machine.decision_function(X) for machine in self.machines_])

    def _best(self, values: Array) -> NDArray[np.intp]:
        if values.shape[1] == 1:
            return (values[:, 0] > 0).astype(np.intp)
        return np.argmax(values, axis=1)

    def _check_parameters(self, n_classes: int) -> None:
        for name in ("C", "unlabelled_cost"):
            value = getattr(self, name)
            if isinstance(value, bool) or not (
                isinstance(value, Real) and 0 < float(value) < np.inf
            ):
                raise ValueError(f"{name}={value!r} must be a positive number.")
        share = self.positive_share
        if share is None:
            return
        if isinstance(share, bool) or not (isinstance(share, Real) and 0 < float(share) < 1):
            raise ValueError(f"positive_share={share!r} must be None or between 0 and 1.")
        if n_classes > 2:
            raise ValueError(
                f"positive_share={share!r} is for two classes, and y has {n_classes}; leave it "
                "None."
            )
