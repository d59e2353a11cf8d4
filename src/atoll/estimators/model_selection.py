"""Cross-validation when only some rows are labelled."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterator
from copy import copy
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import connected_components
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.metrics import check_scoring
from sklearn.model_selection import BaseCrossValidator

from atoll.core.chunks import require_in_memory
from atoll.core.labels import PartialLabels, parse_labels, with_gaps
from atoll.core.markers import is_auto
from atoll.core.repeated_rows import repeated_labels
from atoll.core.selection import some_rows
from atoll.diagnostics import entropy
from atoll.estimators.knowledge import read_groups
from atoll.estimators.parameters import Whole, check_value
from atoll.estimators.validation import remark_on_order

Index = NDArray[np.intp]

NO_CLASSES = (
    "y is an array of objects with numbers and nulls, in which scikit-learn's scorers see no "
    'classes: scores by name, such as "accuracy", will be nan. Mark unlabelled rows by -1, make '
    "the labels strings, or use atoll.cross_val_score."
)


class SemiSupervisedKFold(BaseCrossValidator):
    """Folds of the labelled rows; every unlabelled row is in every training set.

    A test set holds labelled rows alone, since only they can be scored, and each labelled row
    is tested once. The sizes of two folds differ by at most one. With `stratify=True` so do the
    numbers of rows of each class in them, however small the class; a class with a single
    labelled row is absent from the training set of the fold that tests it.

    Labelled rows that belong together are tested together, and dealt as one: those of a group, and
    a row that stands in the table several times with the same label, whose copies would tell what
    is held out. (Rows of few values, equal by coincidence, are dealt one by one.)

    Parameters
    ----------
    n_splits : int, default=5
        Number of folds, at least 2 and at most the number of labelled rows.
    shuffle : bool, default=True
        Deal the labelled rows to the folds in random order instead of theirs.
    stratify : bool, default=True
        Share out each class evenly.
    unlabelled : default="auto"
        What marks an unlabelled row besides a null, as in the estimators: "auto", None or a
        value.
    random_state : int, numpy Generator or None, default=None
        An integer gives the same folds at every call of `split`.

    Examples
    --------
    >>> import numpy as np
    >>> X, y = np.zeros((7, 1)), np.array(["a", None, "b", "a", None, None, "b"], dtype=object)
    >>> for train, test in SemiSupervisedKFold(2, random_state=0).split(X, y):
    ...     print(set(range(7)) - set(train.tolist()) == set(test.tolist()), sorted(y[test]))
    True ['a', 'b']
    True ['a', 'b']
    """

    def __init__(
        self,
        n_splits: int = 5,
        *,
        shuffle: bool = True,
        stratify: bool = True,
        unlabelled: Any = "auto",
        random_state: int | np.random.Generator | None = None,
    ) -> None:
        check_value("n_splits", n_splits, Whole(2))
        if not shuffle and random_state is not None:
            raise ValueError(
                "random_state must be None with shuffle=False, where nothing is random, got "
                f"{random_state!r}."
            )
        self.n_splits = n_splits
        self.shuffle = shuffle
        self.stratify = stratify
        self.unlabelled = unlabelled
        self.random_state = random_state

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """Return the number of folds; the arguments are there for scikit-learn's sake."""
        return self.n_splits

    def split(
        self, X: Any, y: Any = None, groups: Any = None
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield the rows of each training and test set, as sorted indices.

        Parameters
        ----------
        X : array-like of shape (n, n_features)
            Its rows are looked at for copies of labelled ones, if it is a table of any kind.
        y : array-like of shape (n,)
            Labels, with nulls or the `unlabelled` value where a row has none.
        groups : (n,) names, default=None
            Which rows belong together, such as those of one patient; null where a row is alone.

        Yields
        ------
        train : ndarray of int
            Every unlabelled row and the labelled rows of the other folds.
        test : ndarray of int
            Labelled rows.
        """
        require_in_memory(X, "cross-validation")
        labels = parse_labels(y, unlabelled=self.unlabelled)
        remark_on_order(X, y)
        remark_on_order(X, groups, "groups")
        is_odd = isinstance(y, np.ndarray) and y.dtype.kind == "O"
        if is_odd and labels.classes.dtype.kind in "iufb" and _asked_by_scikit_learn():
            warnings.warn(NO_CLASSES, UserWarning, stacklevel=2)
        n_rows = X.shape[0] if hasattr(X, "shape") else len(X)
        if n_rows != len(labels.codes):
            raise ValueError(
                f"X has {n_rows} rows and y has {len(labels.codes)}; give one label, or a null, "
                "for each row of X."
            )
        if labels.n_labelled < self.n_splits:
            raise ValueError(
                f"n_splits={self.n_splits} is more than the {labels.n_labelled} labelled row(s) "
                f"among {n_rows}; pass fewer folds or label more rows."
            )
        together = _together(X, labels, groups)
        sets = np.unique(together[labels.is_labelled])
        if len(sets) < self.n_splits:
            raise ValueError(
                f"n_splits={self.n_splits} is more than the {len(sets)} sets of labelled rows "
                "that belong together or are copies; pass fewer folds or label more rows."
            )
        fold_of_set = np.full(n_rows, -1)
        fold_of_set[self._dealing_order(labels, together)] = np.arange(len(sets)) % self.n_splits
        fold_of_row = np.where(labels.is_labelled, fold_of_set[together], -1)
        for fold in range(self.n_splits):
            yield np.flatnonzero(fold_of_row != fold), np.flatnonzero(fold_of_row == fold)

    def _dealing_order(self, labels: PartialLabels, together: Index) -> Index:
        """Sets of labelled rows in the order in which they are dealt to the folds in turn."""
        order = np.flatnonzero(labels.is_labelled)
        if self.shuffle:
            order = np.random.default_rng(self.random_state).permutation(order)
        order = order[np.sort(np.unique(together[order], return_index=True)[1])]  # one of each set
        sizes = np.bincount(together[labels.is_labelled], minlength=len(together))
        order = order[np.argsort(-sizes[together[order]], kind="stable")]
        if self.stratify:
            # Rows of a class follow each other, so dealing in turn spreads them evenly.
            order = order[np.argsort(labels.codes[order], kind="stable")]
        return together[order]


def _together(X: Any, labels: PartialLabels, groups: Any) -> Index:
    """Return which rows belong together, (n,): those with the same number, below n.

    Rows of a group do, and so do copies of a labelled row.
    """
    n = len(labels.codes)
    named = [] if groups is None else [read_groups(groups, n)[1]]
    same = repeated_labels(X, np.where(labels.is_labelled, labels.codes, -1))
    named += [] if same is None else [same]
    if not named:
        return np.arange(n)
    # Rows and the names that they have are nodes of a graph; a piece of it belongs together.
    edges = []
    for i, names in enumerate(named, 1):
        some = np.flatnonzero(names >= 0)
        edges.append(np.stack([some, n * i + names[some]]))
    ends, n_nodes = np.concatenate(edges, axis=1), n * (len(named) + 1)
    graph = sparse.coo_array((np.ones(ends.shape[1]), tuple(ends)), shape=(n_nodes, n_nodes))
    pieces = connected_components(graph, directed=False)[1][:n]
    return np.unique(pieces, return_inverse=True)[1].reshape(-1)


def _folds(cv: Any) -> Any:
    if isinstance(cv, Integral):
        return SemiSupervisedKFold(int(cv), random_state=0)
    if isinstance(cv, str) or not hasattr(cv, "split"):
        raise ValueError(
            f"cv must be a number of folds or a splitter such as SemiSupervisedKFold, got {cv!r}."
        )
    return cv


def _read_labels(estimator: Any, y: Any, folds: Any) -> PartialLabels:
    """Read labels as folds do that say what marks an unlabelled row, or else as the model does."""
    params = estimator.get_params(deep=True)
    markers = [name for name in params if name.rpartition("__")[2] == "unlabelled"]
    of_model = markers[0].removesuffix("unlabelled") if markers else ""
    classes = params.get(f"{of_model}classes") if markers else None
    unlabelled = getattr(folds, "unlabelled", "auto")
    if is_auto(unlabelled) and markers:
        unlabelled = params[markers[0]]
    return parse_labels(y, unlabelled=unlabelled, classes=classes)


def _splits(folds: Any, X: Any, y: Any, targets: Any, groups: Any) -> Iterator[tuple[Index, Index]]:
    """Yield the rows of training and test sets, given labels as they are and with nulls alone."""
    remark_on_order(X, y)
    if isinstance(folds, SemiSupervisedKFold):
        folds, y = copy(folds), targets
        folds.unlabelled = None
    yield from folds.split(X, y, groups)


def clone_for_fold(
    estimator: Any,
    train: Index,
    unlabelled: Any = None,
    *,
    random_state: int | None = None,
    is_silent: bool = False,
) -> Any:
    """Return a clone to fit to the rows `train`, which does not resume from a fit's checkpoint.

    Parameters
    ----------
    estimator : classifier
        Parameters of it that have a value for each row are cut to `train`.
    train : (m,) rows
    unlabelled : what marks an unlabelled row besides a null, for an estimator left to find out
    random_state : seed, for an estimator that has none
    is_silent : whether it writes no progress
    """
    fresh = clone(estimator)
    changes: dict[str, Any] = {}
    for name, value in fresh.get_params(deep=True).items():
        parameter = name.rpartition("__")[2]
        if parameter == "checkpoint":
            changes[name] = None
        elif parameter == "verbose" and is_silent:
            changes[name] = False
        elif parameter == "random_state" and value is None:
            changes[name] = random_state
        elif parameter == "unlabelled" and is_auto(value):
            changes[name] = unlabelled
        elif parameter == "labels_chosen" and not isinstance(value, bool | np.bool_):
            changes[name] = np.asarray(value)[train]
    return fresh.set_params(**changes)


def _asked_by_scikit_learn() -> bool:
    """Return whether the folds are made for a function of scikit-learn's."""
    frame: Any = inspect.currentframe()
    caller = frame.f_back.f_back  # beyond `split`
    return caller is not None and caller.f_globals.get("__name__", "").startswith("sklearn.")


def with_nulls(labels: PartialLabels) -> NDArray[Any]:
    """Return labels as an array of objects, (n,), None where a row has none."""
    return with_gaps(labels.classes, labels.codes, labels.is_labelled)


def cross_val_score(
    estimator: Any, X: Any, y: Any, *, cv: Any = 5, scoring: Any = None, groups: Any = None
) -> NDArray[np.float64]:
    """Score a model on labels that it has not seen, fold by fold.

    Like scikit-learn's function of the same name, but for any `y` in which labels are missing:
    scikit-learn's cannot score integers with None among them, an array of objects, and returns nan.

    Parameters
    ----------
    estimator : classifier
        One of this library's, or a pipeline that ends in one; cloned for each fold.
    X : array-like or DataFrame of shape (n, d)
    y : array-like of shape (n,)
        Labels, with unlabelled rows marked as in `fit`.
    cv : int or splitter, default=5
        Number of folds of a `SemiSupervisedKFold`, or such a splitter. What marks an unlabelled
        row, and which classes there are, the estimator says unless the splitter does.
    scoring : str, callable or None, default=None
        One of scikit-learn's scorers, such as "accuracy", "neg_log_loss" or "balanced_accuracy", or
        a function of model, rows and labels. None: the accuracy.
    groups : (n,) names, default=None
        Which rows are tested together: see `SemiSupervisedKFold`.

    Returns
    -------
    (n_splits,) scores, one a fold

    Examples
    --------
    >>> from atoll import AtollClassifier, SemiSupervisedKFold, cross_val_score
    >>> from atoll.datasets import hide_labels, make_crescents
    >>> X, truth = make_crescents(100, random_state=0)
    >>> y = hide_labels(truth, per_class=6, marker=None, random_state=0)
    >>> folds = SemiSupervisedKFold(3, random_state=0)
    >>> cross_val_score(AtollClassifier(random_state=0), X, y, cv=folds, scoring="accuracy")
    array([1., 1., 1.])
    """
    folds = _folds(cv)
    scorer = _scorer(estimator, "accuracy" if scoring is None else scoring)
    labels = _read_labels(estimator, y, folds)
    targets, scores = with_nulls(labels), []
    for train, test in _splits(folds, X, y, targets, groups):
        test = test[labels.is_labelled[test]]
        model = clone_for_fold(estimator, train).fit(some_rows(X, train), targets[train])
        # In their own dtype: scikit-learn takes integers among objects for no classes.
        scores.append(scorer(model, some_rows(X, test), labels.classes[labels.codes[test]]))
    return np.array(scores, dtype=np.float64)


def _scorer(estimator: Any, scoring: Any) -> Any:
    """Return a function of model, rows and labels; scikit-learn's by name see sorted classes."""
    if isinstance(scoring, str) and scoring in OF_EVERY_CLASS:
        return OF_EVERY_CLASS[scoring]
    found = check_scoring(estimator, scoring=scoring)
    return found if not isinstance(scoring, str) else lambda m, X, y: found(_InOrder(m), X, y)


def _minus_log_loss(model: Any, X: Any, y: NDArray[Any]) -> float:
    """Return minus the log-loss of labels, which need not have every class of the model."""
    p, places = _predicted(model, X, y)
    right = p[np.arange(len(p)), places]
    return float(np.log(np.clip(right, np.finfo(np.float64).eps, 1.0)).mean())


def _minus_brier(model: Any, X: Any, y: NDArray[Any]) -> float:
    """Return minus the Brier score of labels, as above; with two classes half of it."""
    p, places = _predicted(model, X, y)
    p[np.arange(len(p)), places] -= 1.0
    total = float((p**2).sum(axis=1).mean())
    return -0.5 * total if p.shape[1] == 2 else -total


# Scorers of scikit-learn that refuse folds without some class.
OF_EVERY_CLASS = {"neg_log_loss": _minus_log_loss, "neg_brier_score": _minus_brier}


def _predicted(model: Any, X: Any, y: NDArray[Any]) -> tuple[NDArray[np.float64], list[int]]:
    """Return class probabilities (m, K), and which column is that of each label."""
    places = {name: j for j, name in enumerate(model.classes_.tolist())}
    unknown = [name for name in dict.fromkeys(y.tolist()) if name not in places]
    if unknown:
        raise ValueError(
            f"a fold tests all labels of the class {unknown[0]!r}, which its fit then does not "
            "know, and has no probability for; label more rows of the class, leave its label out "
            'of y, or take another scoring, such as "accuracy".'
        )
    p = np.array(model.predict_proba(X), dtype=np.float64)
    return p, [places[name] for name in y.tolist()]


class _InOrder(ClassifierMixin, BaseEstimator):
    """A fitted classifier with its classes sorted, as scikit-learn's scorers take them to be.

    Models that are told their classes have these in the order that they were told.
    """

    def __init__(self, model: Any):
        self.model = model
        self.order = np.argsort(model.classes_, kind="stable")
        self.classes_ = model.classes_[self.order]

    def predict(self, X: Any) -> NDArray[Any]:
        return np.asarray(self.model.predict(X))

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        return np.asarray(self.model.predict_proba(X)[:, self.order])


METHODS = ("predict", "predict_proba", "predict_entropy")


def cross_val_predict(
    estimator: Any, X: Any, y: Any, *, cv: Any = 5, method: str = "predict", groups: Any = None
) -> NDArray[Any]:
    """Predict every row by a model that has not seen its label.

    Like scikit-learn's function of the same name, but for a `y` in which labels are missing:
    scikit-learn's takes no folds that leave unlabelled rows untested, and renumbers the classes, so
    that unlabelled rows become a class. Here an unlabelled row, which no fold holds out, gets the
    mean of what the models of all folds predict for it.

    Parameters
    ----------
    estimator : classifier
        One of this library's, or a pipeline that ends in one; cloned for each fold.
    X : array-like or DataFrame of shape (n, d)
    y : array-like of shape (n,)
        Labels, with unlabelled rows marked as in `fit`.
    cv : int or splitter, default=5
        Number of folds of a `SemiSupervisedKFold`, or such a splitter. What marks an unlabelled
        row, and which classes there are, the estimator says unless the splitter does.
    method : {"predict", "predict_proba", "predict_entropy"}, default="predict"
    groups : (n,) names, default=None
        Which rows are tested together: see `SemiSupervisedKFold`.

    Returns
    -------
    (n,) classes or entropies, or (n, K) class probabilities in the order of the classes
        A class that a fold has not seen has probability zero in it.

    Examples
    --------
    >>> from atoll import AtollClassifier, SemiSupervisedKFold, cross_val_predict
    >>> from atoll.datasets import hide_labels, make_crescents
    >>> X, truth = make_crescents(100, random_state=0)
    >>> y = hide_labels(truth, per_class=6, random_state=0)
    >>> folds = SemiSupervisedKFold(3, random_state=0)
    >>> model = AtollClassifier(random_state=0)
    >>> cross_val_predict(model, X, y, cv=folds, method="predict_proba").shape
    (100, 2)
    """
    if method not in METHODS:
        raise ValueError(f"method must be one of {', '.join(METHODS)}, got {method!r}.")
    folds = _folds(cv)
    labels = _read_labels(estimator, y, folds)
    classes, n = labels.classes, len(labels.codes)
    free, n_times = np.flatnonzero(~labels.is_labelled), np.zeros(n)
    targets = with_nulls(labels)
    p = np.zeros((n, 0))
    for train, test in _splits(folds, X, y, targets, groups):
        model = clone_for_fold(estimator, train).fit(some_rows(X, train), targets[train])
        if not p.size:  # an order, or classes without a label, are what the model says
            declared = set(model.classes_.tolist()) >= set(classes.tolist())
            classes = model.classes_ if declared else classes
            p = np.zeros((n, len(classes)))
        asked = np.union1d(test, free)
        columns = [classes.tolist().index(c) for c in model.classes_.tolist()]
        p[np.ix_(asked, columns)] += model.predict_proba(some_rows(X, asked))
        n_times[asked] += 1
    if not n_times.all():
        raise ValueError(
            f"{int((n_times == 0).sum())} labelled rows are in no test set of cv; use folds that "
            "test each labelled row, such as SemiSupervisedKFold."
        )
    p /= n_times[:, None]
    if method == "predict_proba":
        return p
    return entropy(p) if method == "predict_entropy" else classes[p.argmax(axis=1)]
