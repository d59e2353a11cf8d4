"""Cross-validation when only some rows are labelled."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.model_selection import BaseCrossValidator

from atoll.core.labels import PartialLabels, parse_labels
from atoll.estimators.parameters import Whole, check_value


class SemiSupervisedKFold(BaseCrossValidator):
    """Folds of the labelled rows; every unlabelled row is in every training set.

    A test set holds labelled rows alone, since only they can be scored, and each labelled row
    is tested once. The sizes of two folds differ by at most one. With `stratify=True` so do the
    numbers of rows of each class in them, however small the class; a class with a single
    labelled row is absent from the training set of the fold that tests it.

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
            Only its number of rows is used.
        y : array-like of shape (n,)
            Labels, with nulls or the `unlabelled` value where a row has none.
        groups : ignored

        Yields
        ------
        train : ndarray of int
            Every unlabelled row and the labelled rows of the other folds.
        test : ndarray of int
            Labelled rows.
        """
        labels = parse_labels(y, unlabelled=self.unlabelled)
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
        order = self._dealing_order(labels)
        for fold in range(self.n_splits):
            is_test = np.zeros(n_rows, dtype=bool)
            is_test[order[fold :: self.n_splits]] = True
            yield np.flatnonzero(~is_test), np.flatnonzero(is_test)

    def _dealing_order(self, labels: PartialLabels) -> np.ndarray:
        """Labelled rows in the order in which they are dealt to the folds in turn."""
        order = np.flatnonzero(labels.is_labelled)
        if self.shuffle:
            order = np.random.default_rng(self.random_state).permutation(order)
        if self.stratify:
            # Rows of a class follow each other, so dealing in turn spreads them evenly.
            order = order[np.argsort(labels.codes[order], kind="stable")]
        return order
