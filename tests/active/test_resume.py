from __future__ import annotations

import pytest

from atoll.active import ActiveLearner
from atoll.active.history import Audit, Event
from atoll.datasets import make_crescents


def learner(X):
    return ActiveLearner(classes=[0, 1], random_state=0, n_draws=16).fit(X)


def test_a_learner_that_is_told_what_was_said_goes_on_as_the_first_would():
    X, truth = make_crescents(n_samples=60, random_state=0)
    first = learner(X)
    said = []
    for _ in range(11):
        query = first.query()
        row = int(query.rows[0])
        audits = ()
        if query.is_audit[0]:
            p = first.proba_[row]
            audits = (Audit(row, first.classes_[int(p.argmax())], float(1 - p.max())),)
        said.append(Event((row,), (int(truth[row]),), audits))
        first.update([row], [int(truth[row])])
    first.skip([59])
    said.append(Event((59,), None))
    second = learner(X).resume(said)
    assert second.estimate_error() == first.estimate_error()
    assert second.estimate_error().n_audits > 0
    assert second.query(4).rows.tolist() == first.query(4).rows.tolist()
    assert second.undo().undo().n_labels_ == 10


def test_there_is_nothing_to_resume_before_fit():
    with pytest.raises(ValueError, match="no pool yet"):
        ActiveLearner().resume([])
