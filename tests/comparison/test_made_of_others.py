"""Classifiers made of others: scikit-learn's rules for estimators, and the labels they take."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.utils.estimator_checks import parametrize_with_checks

from atoll.comparison import BlendClassifier, OnStandardisedColumns, PartlyLabelled

ROWS = np.array([[0.0, 1.0], [0.5, 0.0], [1.0, 1.0], [5.0, 0.5], [6.0, 0.0]])
LABELS = ["a", "a", None, "b", "b"]


@parametrize_with_checks(
    [
        BlendClassifier([GaussianNB(), LogisticRegression()], [2, 1]),
        PartlyLabelled(LogisticRegression()),
        OnStandardisedColumns(LogisticRegression()),
    ]
)
def test_scikit_learn_estimator_checks(estimator, check):
    check(estimator)


def test_sparse_rows_are_taken_where_every_classifier_takes_them():
    thin = sparse.csr_array(ROWS)
    both = BlendClassifier([LogisticRegression(), LogisticRegression(C=0.1)], [1, 1])
    found = both.fit(thin, LABELS).predict_proba(thin)
    np.testing.assert_allclose(found, both.fit(ROWS, LABELS).predict_proba(ROWS), atol=1e-4)
    one_not = BlendClassifier([LogisticRegression(), GaussianNB()], [1, 1])
    with pytest.raises(TypeError, match=r"[Ss]parse"):
        one_not.fit(thin, LABELS)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (None, "requires y to be passed.*one label for each row"),
        (LABELS[:4], "y has 4 labels and X has 5 rows; pass one label"),
        (["a", "a", None, "a", None], "one class"),
    ],
)
def test_labels_that_cannot_be_learnt_from_are_refused_with_the_fix(y, message):
    with pytest.raises(ValueError, match=message):
        PartlyLabelled(GaussianNB()).fit(ROWS, y)
