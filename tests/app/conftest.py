"""A learner that needs no model, small data, and a session over them."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from atoll.active.history import replay
from atoll.app import LabelLog, Session, make_features, read_rows


class NearestLearner:
    """Stands in for ActiveLearner: asks in the order of the rows, predicts by the nearest label."""

    def __init__(self, audit_every=5):
        self.audit_every = audit_every
        self.fits = 0
        self.gate = threading.Event()  # a test closes it to hold a fit up
        self.gate.set()
        self.fault = None

    def fit(self, X, y=None):
        start = {} if y is None else {i: v for i, v in enumerate(y) if v is not None}
        self.X, self.history = np.asarray(X), replay(start, ())
        return self

    def resume(self, events):
        self.history = replay(self.history.start, events)
        return self

    def refit(self):
        self.gate.wait()
        if self.fault is not None:
            raise self.fault
        self.fits += 1
        return self

    def query(self, n=1, later=None):
        closed = {*self.history.labels, *self.history.skipped}
        rows = [r for r in range(len(self.X)) if r not in closed][:n]
        is_audit = [
            (len(self.history.labels) + i) % self.audit_every == 4 for i in range(len(rows))
        ]
        return SimpleNamespace(rows=np.array(rows, int), scores=rows, is_audit=is_audit)

    @property
    def classes_(self):
        return sorted(set(self.history.labels.values()))

    @property
    def n_labels_(self):
        return len(self.history.labels)

    @property
    def predictions_(self):
        if not self.history.labels:
            return np.full(len(self.X), None, dtype=object)
        known = list(self.history.labels)
        distance = ((self.X[:, None] - self.X[known]) ** 2).sum(axis=2)
        names = np.array([self.history.labels[r] for r in known], dtype=object)
        return names[distance.argmin(axis=1)]

    @property
    def proba_(self):
        classes = self.classes_
        p = np.full((len(self.X), max(len(classes), 1)), 0.1)
        for row, name in enumerate(self.predictions_):
            if name is not None:
                p[row, classes.index(name)] = 0.9
        return p / p.sum(axis=1, keepdims=True)

    def estimate_error(self):
        wrong = self.history.outcomes()
        return SimpleNamespace(
            error=float("nan") if not self.history.labels else 0.1,
            upper=0.2,
            errors_left=1.0,
            n_audits=len(wrong),
            n_wrong=sum(wrong),
            confidence=0.95,
        )

    def should_stop(self):
        return SimpleNamespace(stop=False, probability=float("nan"), reason="Label more rows.")


def make_table(folder):
    """Thirty rows in two clouds; two of them labelled, one cell that is code."""
    rng = np.random.default_rng(0)
    kind = np.repeat(["cat", "dog"], 15)
    frame = pd.DataFrame(
        {
            "height": (rng.normal(size=30) + 6 * (kind == "dog")).round(3),
            "weight": rng.normal(size=30).round(3),
            "note": ["<img src=x onerror=alert(1)>", *["plain"] * 29],
            "kind": ["cat", *[None] * 28, "dog"],
        }
    )
    frame.to_csv(folder / "pets.csv", index=False)
    return folder / "pets.csv"


@pytest.fixture
def table(tmp_path):
    return make_table(tmp_path)


def wait_for(condition, seconds=60.0):
    """Wait until something holds; fail if it never does."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.005)


def up_to_date(session):
    snapshot = session.snapshot
    return snapshot.number > 0 and snapshot.n_events == session.log.answers.n_events


def make_session(path, target="kind", learner=None, classes=()):
    """A session that has fitted once."""
    rows = read_rows(path, target, classes=classes)
    log = LabelLog(path.parent / f"{path.name}.labels.jsonl", rows.subject())
    session = Session(rows, make_features(rows), learner or NearestLearner(), log)
    session.start()
    wait_for(lambda: up_to_date(session))
    return session


@pytest.fixture
def open_session():
    """Make sessions over a table, and end them after the test."""
    made = []

    def make(*details, **more):
        made.append(make_session(*details, **more))
        return made[-1]

    yield make
    for session in made:
        session.close()
