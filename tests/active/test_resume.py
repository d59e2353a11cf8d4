from __future__ import annotations

from time import process_time

import numpy as np
import pytest

from atoll.active import ActiveLearner
from atoll.active.history import Audit, Event, replay
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


def test_events_at_once_and_one_by_one_give_the_same_history():
    rng, start = np.random.default_rng(0), {0: "a", 3: "b"}
    events = []
    for _ in range(60):
        rows = tuple(rng.choice(12, size=int(rng.integers(1, 4)), replace=False).tolist())
        labels = tuple(rng.choice(["a", "b"], size=len(rows)).tolist())
        audits = tuple(Audit(row, "a", 0.1) for row in rows if rng.random() < 0.2)
        events.append(Event(rows, None) if rng.random() < 0.4 else Event(rows, labels, audits))
    one_by_one = replay(start, ())
    labels, skipped, since = dict(start), [], 0  # as the words of `History` say
    for event in events:
        before = one_by_one
        one_by_one = before.after(event)
        assert one_by_one.before_last() == before
        skipped = [row for row in skipped if row not in event.rows]
        if event.labels is None:
            skipped += [row for row in event.rows if row not in labels]
        else:
            labels |= dict(zip(event.rows, event.labels))
            for row in event.rows:
                since = 0 if row in {audit.row for audit in event.audits} else since + 1
        assert one_by_one.labels == labels
        assert list(one_by_one.skipped) == skipped
        assert one_by_one.since_audit == since
    assert replay(start, events) == one_by_one
    assert start == {0: "a", 3: "b"}


def test_a_long_history_is_replayed_in_no_time():
    began = process_time()
    replay({}, [Event((row,), (1,)) for row in range(20_000)]).before_last()
    assert process_time() - began < 1.5
