"""Whatever takes a table with labels says where both have the same names in different orders."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline

from atoll import (
    GraphGPClassifier,
    SemiSupervisedKFold,
    SSGPRegressor,
    cross_val_predict,
    cross_val_score,
    explain_row,
    make_preprocessor,
)
from atoll.comparison import compare_models
from atoll.datasets import hide_labels, make_crescents
from atoll.reports import write_report

X, TRUTH = make_crescents(60, random_state=0)
TABLE = pd.DataFrame(X, columns=["u", "v"], index=[f"P{i:02d}" for i in range(60)])
Y = pd.Series(hide_labels(TRUTH, per_class=10, marker=None, random_state=0), index=TABLE.index)
MODEL = GraphGPClassifier(random_state=0)
FOLDS = SemiSupervisedKFold(2, random_state=0)

pytestmark = pytest.mark.filterwarnings("ignore:.*(labels held out in turn|cannot tell which)")


def pipeline():
    return make_pipeline(make_preprocessor(), MODEL).fit(TABLE, Y)


def report(y, folder):
    write_report(MODEL.fit(TABLE, Y), TABLE, y, folder / "page.html", cross_validate=False)


@pytest.mark.parametrize(
    "ask",
    [
        lambda y, _: MODEL.fit(TABLE, Y).score(TABLE, y),
        lambda y, _: SSGPRegressor().fit(X, X[:, 0]).score(TABLE.rename_axis(None), y),
        lambda y, _: MODEL.fit(TABLE, Y).explain_row(3, TABLE, y),
        lambda y, _: explain_row(pipeline(), TABLE, 3, y=y),
        lambda y, _: cross_val_score(MODEL, TABLE, y, cv=FOLDS),
        lambda y, _: cross_val_predict(MODEL, TABLE, y, cv=FOLDS),
        lambda y, _: list(FOLDS.split(TABLE, y)),
        lambda y, _: compare_models(TABLE, y, models=["shares"], n_splits=2, progress=False),
        report,
    ],
    ids=[
        "score",
        "score of a regressor",
        "explain_row",
        "explain_row of a pipeline",
        "cross_val_score",
        "cross_val_predict",
        "split",
        "compare_models",
        "write_report",
    ],
)
def test_labels_in_another_order_than_the_rows_are_remarked_on_once(ask, tmp_path):
    for labels, times in [(Y, 0), (Y[::-1], 1)]:
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            ask(labels, tmp_path)
        found = [str(one.message) for one in said if "another order" in str(one.message)]
        assert len(found) == times
        assert all("y.loc[X.index]" in line for line in found)


def test_weights_and_groups_in_another_order_are_remarked_on_where_they_are_used():
    model = MODEL.fit(TABLE, Y)
    entries = pd.Series(np.arange(1.0, 61.0), index=TABLE.index)[::-1]
    with pytest.warns(UserWarning, match=r"index of sample_weight.*sample_weight\.loc\[X\.index\]"):
        model.score(TABLE, Y, sample_weight=entries)
    with pytest.warns(UserWarning, match=r"index of groups.*groups\.loc\[X\.index\]"):
        model.predict_proba(TABLE, groups=entries)
    with pytest.warns(UserWarning, match=r"index of groups.*groups\.loc\[X\.index\]"):
        list(FOLDS.split(TABLE, Y, groups=entries))
