"""The loop behind the page: which row comes next, what was answered, how wrong the model still is.

One thread owns the learner: it takes the answers that have come in, fits again and publishes a
`Snapshot`. Everything the page asks for is read from the last snapshot and the file of answers, so
nobody waits for a fit.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from atoll.active import history
from atoll.app.features import Features, plane_of
from atoll.app.items import Rows, check_label_kind
from atoll.app.store import ANSWERS, Event, LabelLog, check_class_name, now

AHEAD = 24  # rows that are chosen ahead
SENT = 8  # rows of these that a page is given at a time
RESERVE = 100  # random rows for someone who labels faster than the model learns
HISTORY = 12  # answers that the page lists
MOST_DRAWN = 10_000  # rows in the picture of all rows
_HELD = 60.0  # seconds for which a row that one tab shows is not given to another
_FAULTS = (ValueError, ArithmeticError, MemoryError, RuntimeError)


class Learner(Protocol):
    """What the session asks of `atoll.active.ActiveLearner`."""

    predictions_: Any
    proba_: Any
    classes_: Any
    n_labels_: int

    def fit(self, X: Any, y: Any = None) -> Any: ...
    def query(self, n: int = 1, *, later: Any = None) -> Any: ...
    def resume(self, events: Any) -> Any: ...
    def refit(self) -> Any: ...
    def estimate_error(self) -> Any: ...
    def should_stop(self) -> Any: ...


class StaleError(Exception):
    """An answer to something that has changed since; the message says what."""


class Ask(NamedTuple):
    """A row to ask about, and whether it was drawn at random to measure the error."""

    row: int
    is_audit: bool


class Snapshot(NamedTuple):
    """What the model says, after it has learnt the first `n_events` answers.

    number : of the fit; 0 before the first
    queue : rows to ask about, best first
    reserve : other rows, at random, for when the queue is used up before the next fit
    classes : names, in the order of the codes
    codes : (n,) most probable class of each row; -1 where nothing is known
    sureness : (n,) its probability
    numbers : what the page shows beside it, as plain values for JSON
    problem : why the last fit failed, in words; None if it did not
    """

    number: int
    n_events: int
    queue: tuple[Ask, ...]
    reserve: tuple[Ask, ...]
    classes: tuple[str, ...]
    codes: NDArray[np.intp]
    sureness: NDArray[np.float64]
    numbers: dict[str, Any]
    problem: str | None = None


class Session:
    """Labelling of some rows by one model.

    Parameters
    ----------
    rows : Rows
    features : Features
    learner : Learner
    log : LabelLog
    target_error : float
        Share of wrong rows at which labelling may stop.
    audit_every : int, default=5
        Every `audit_every`-th row of the reserve is an audit, as among those the learner picks.
    random_state : int, default=0
    """

    def __init__(
        self,
        rows: Rows,
        features: Features,
        learner: Learner,
        log: LabelLog,
        *,
        target_error: float = 0.05,
        audit_every: int = 5,
        random_state: int = 0,
    ):
        self.rows, self.features, self.log = rows, features, log
        self.target_error, self._seed = target_error, random_state
        self._audit_every = audit_every
        self._learner = learner
        self._weighed_by: tuple[tuple[int, str], ...] | None = None
        self._place = {int(row): place for place, row in enumerate(features.rows)}
        self._in_file = {r: v for r, v in enumerate(rows.given.labels) if v is not None}
        self._file_counts = Counter(v for r, v in self._in_file.items() if r in self._place)
        n = len(rows.frame)
        nothing = np.full(n, -1, dtype=np.intp), np.zeros(n)
        self.snapshot = Snapshot(0, 0, (), (), (), *nothing, {})
        self._drawn: dict[str, list[Any]] | None = None
        self._places: NDArray[np.float64] | None = None
        self._held: dict[int, tuple[str, float]] = {}
        self._audits: set[int] = set()  # rows that a page was given as audits
        self._first_said: dict[int, tuple[str | None, float | None]] = {}
        self._changed = threading.Condition()
        self._is_closing = False
        self._thread = threading.Thread(target=self._work, name="atoll-refit", daemon=True)

    def start(self) -> Session:
        """Begin to fit in the background."""
        self._thread.start()
        return self

    def close(self, timeout: float = 5.0) -> None:
        """End the thread, if its present fit ends in time, and close the file of answers."""
        with self._changed:
            self._is_closing = True
            self._changed.notify_all()
        if self._thread.is_alive():
            self._thread.join(timeout)
        self.log.close()

    # --- what the page asks for ------------------------------------------------------------------

    @property
    def classes(self) -> list[str]:
        """The names of the classes, in the order of their keys."""
        return list(dict.fromkeys([*self.rows.given.classes, *self.log.answers.classes]))

    def state(self, tab: str, have: Sequence[int] = ()) -> dict[str, Any]:
        """Return what a page shows, except for the items that it already has."""
        with self._changed:
            asks = self._asks_for(tab)
            snapshot, answers = self.snapshot, self.log.answers
            queue = [self._ask_record(ask) for ask in asks]
            done = not asks and self._is_up_to_date() and self._is_answered()
            asked = {ask.row for ask in asks}
            return {
                "data": self.rows.path.name,
                "target": self.rows.target,
                "queue": queue,
                "gone": [row for row in have if row in answers.given and row not in asked],
                "items": {a.row: self.rows.item(a.row) for a in asks if a.row not in set(have)},
                "classes": self.classes,
                "counts": self._counts(),
                "n_rows": len(self.features.rows),
                "last": answers.last,
                "next_redo": answers.next_redo,
                "n_events": answers.n_events,
                "history": [_history_record(*one) for one in answers.history(HISTORY)],
                "snapshot": snapshot.number,
                "learnt": snapshot.n_events,
                "numbers": snapshot.numbers,
                "target_error": self.target_error,
                "problem": self._problem(),
                "done": done,
            }

    def answer(
        self,
        kind: str,
        row: int,
        seen: int,
        *,
        label: str | None = None,
        is_audit: bool = False,
    ) -> None:
        """Keep an answer; it is on the disk when this returns.

        Parameters
        ----------
        kind : {"label", "skip", "unsure"}
        row : int
        seen : int
            The row's version that the answer was given to.
        label : str or None, default=None
            The class, for "label". One that is new is added.
        is_audit : bool, default=False
            Whether the page showed the row as an audit. A row that was drawn at random but shown
            because it was picked is not one: only rows shown because they were drawn measure the
            error.

        Raises
        ------
        StaleError
            If the row was answered meanwhile, by another tab: nothing is overwritten.
        """
        if kind not in ANSWERS or (kind == "label") != (label is not None):
            raise ValueError(f"there is no answer {kind!r} of this form.")
        if row not in self._place:
            raise ValueError(f"there is no row {row} to answer.")
        if row in self._in_file:
            raise ValueError(
                f"row {row + 1} has the label {self._in_file[row]!r} in the data, which are never "
                "written; correct it there."
            )
        name = None if label is None else self._checked(label)
        with self._changed:
            answers = self.log.answers
            if answers.versions.get(row, 0) != seen:
                raise StaleError(self._what_happened(row))
            if name is not None and name not in self.classes:
                self._keep(Event("class", label=name, at=now()))
            is_audit = is_audit and row in self._audits
            said = self._first_said.get(row) or self._said_of(row)
            if kind == "label":  # kept, since the model will soon know this label
                self._first_said[row] = said
            self._keep(Event(kind, row, name, is_audit, *said, at=now()))

    def undo(self, number: int) -> int:
        """Take back the last answer, which must have this number; return its row."""
        return self._go("undo", number, self.log.answers.last)

    def redo(self, number: int) -> int:
        """Restore the answer taken back last, which must have this number; return its row."""
        return self._go("redo", number, self.log.answers.next_redo)

    def add_class(self, name: str) -> str:
        """Add a class without a label yet; return its name."""
        name = self._checked(name)
        with self._changed:
            if name not in self.classes:
                self._keep(Event("class", label=name, at=now()))
        return name

    def shown_again(self, row: int, tab: str) -> dict[str, Any]:
        """Return the record of a row that a page shows once more, with its item."""
        with self._changed:
            self._held[row] = (tab, time.monotonic())
            record = self._ask_record(Ask(row, row in self._audits))
        return {**record, "item": self.rows.item(row)}

    def picture(self) -> dict[str, Any]:
        """Return the place of every row that is drawn; empty until it has been found."""
        with self._changed:
            return dict(self._drawn or {})

    def colours(self) -> dict[str, Any]:
        """Return class and sureness in per cent of the rows drawn, as the model has them now."""
        with self._changed:
            snapshot, plane = self.snapshot, self._drawn
            given = {r: e.label for r, e in self.log.answers.given.items() if e.label is not None}
        if plane is None:
            return {}
        names = self.classes
        place = {name: code for code, name in enumerate(names)}
        codes = np.array([*(place.get(name, -1) for name in snapshot.classes), -1], dtype=np.intp)
        found, sureness = codes[snapshot.codes], snapshot.sureness.copy()
        known = self._in_file | given
        for row, name in known.items():  # also those that the model is yet to learn
            found[row], sureness[row] = place[name], 1.0
        drawn = np.array(plane["rows"], dtype=np.intp)
        return {
            "snapshot": snapshot.number,
            "classes": names,
            "codes": found[drawn].tolist(),
            "sureness": np.rint(100 * sureness[drawn]).astype(int).tolist(),
            "labelled": [row for row in plane["rows"] if row in known],
        }

    # --- inside ----------------------------------------------------------------------------------

    def _checked(self, name: Any) -> str:
        name = check_class_name(name)
        check_label_kind(name, self.rows.given.kind)
        return name

    def _go(self, kind: str, number: int, expected: int) -> int:
        with self._changed:
            if expected == 0:
                raise StaleError(f"there is nothing to {kind}.")
            if number != expected:
                raise StaleError(
                    f"another tab has answered since; press {kind} once more to {kind} its answer."
                )
            event = self._keep(Event(kind, at=now()))
            assert event is not None
            assert event.row is not None
            return event.row

    def _keep(self, event: Event) -> Event | None:
        """Write an event to the file, and wake the thread that owns the learner."""
        target = self.log.append(event)
        self._changed.notify_all()
        return target

    def _asks_for(self, tab: str) -> list[Ask]:
        """Return rows for a tab that nobody has answered and no other tab shows."""
        given, late = self.log.answers.given, time.monotonic() - _HELD
        ranked = [*self.snapshot.queue, *self.snapshot.reserve]
        open_asks = [ask for ask in ranked if ask.row not in given]
        if not open_asks and self._is_up_to_date():
            # Rows that were skipped come back when nothing else is left.
            skipped = [row for row, event in given.items() if event.kind == "skip"]
            open_asks = [Ask(row, False) for row in skipped]
        free = [a for a in open_asks if not self._is_elsewhere(a.row, tab, late)]
        chosen = (free or open_asks)[:SENT]
        for ask in chosen:
            self._held[ask.row] = (tab, time.monotonic())
            if ask.is_audit:
                self._audits.add(ask.row)
        return chosen

    def _is_elsewhere(self, row: int, tab: str, late: float) -> bool:
        holder, since = self._held.get(row, (tab, 0.0))
        return holder != tab and since > late

    def _is_answered(self) -> bool:
        """Return whether no row is left; of a model that failed, the queue may end before."""
        return self._place.keys() <= self.log.answers.given.keys() | self._in_file.keys()

    def _is_up_to_date(self) -> bool:
        return self.snapshot.n_events == self.log.answers.n_events

    def _ask_record(self, ask: Ask) -> dict[str, Any]:
        seen = self.log.answers.versions.get(ask.row, 0)
        record: dict[str, Any] = {"row": ask.row, "audit": ask.is_audit, "seen": seen}
        if self._places is not None:
            record["at"] = self._places[self._place[ask.row]].tolist()
        predicted, probability = self._said_of(ask.row)
        if predicted is not None and not ask.is_audit:  # an audit is answered without a hint
            record["guess"], record["sure"] = predicted, probability
        return record

    def _said_of(self, row: int) -> tuple[str | None, float | None]:
        code = int(self.snapshot.codes[row])
        if code < 0:
            return None, None
        return self.snapshot.classes[code], round(float(self.snapshot.sureness[row]), 4)

    def _what_happened(self, row: int) -> str:
        event = self.log.answers.given.get(row)
        if event is None:
            return f"row {row + 1} was changed in another tab; your answer to it was not kept."
        what = {"skip": "skipped", "unsure": "marked as unsure"}.get(
            event.kind, f"labelled {event.label!r}"
        )
        return f"row {row + 1} was {what} in another tab; your answer to it was not kept."

    def _counts(self) -> dict[str, Any]:
        given = self.log.answers.given.values()
        by_class = dict.fromkeys(self.classes, 0) | self._file_counts
        for event in given:
            if event.label is not None:
                by_class[event.label] += 1
        return {
            "labels": sum(by_class.values()),
            "here": sum(e.kind == "label" for e in given),
            "skipped": sum(e.kind == "skip" for e in given),
            "unsure": sum(e.kind == "unsure" for e in given),
            "by_class": by_class,
        }

    def _problem(self) -> str | None:
        if self._thread.is_alive() or self._is_closing or not self._thread.ident:
            return self.snapshot.problem
        return "the model has stopped; answers are still kept. Start the command again."

    # --- the thread that owns the learner --------------------------------------------------------

    def _work(self) -> None:
        while True:
            with self._changed:
                n_events = self.log.answers.n_events
                past = [event for _, event in reversed(self.log.answers.history(n_events))]
            try:
                found = self._learn(past)
            except _FAULTS as fault:  # the page says so, and answers are still kept
                what = " ".join(str(fault).split()) or type(fault).__name__
                found = self.snapshot._replace(problem=f"The model could not be fitted: {what}")
            with self._changed:
                self.snapshot = found._replace(n_events=n_events)
            self._draw()
            with self._changed:
                while self.log.answers.n_events == n_events and not self._is_closing:
                    self._changed.wait()
                if self._is_closing:
                    return

    def _weigh(self, past: list[Event]) -> None:
        """Give the learner the rows again if the weight of categories may have changed.

        The weight is found anew each time the number of labels has doubled, from the labels at that
        point, so that it does not depend on when fits happened.
        """
        labels = np.array(self.rows.given.labels[self.features.rows], dtype=object)
        has_labels = any(label is not None for label in labels)
        answers = {self._place[event.row]: event.label for event in past
                   if event.row is not None and event.label is not None}  # fmt: skip
        n_given = sum(label is not None for label in labels)
        n_asked = 2 ** int(np.log2(max(n_given + len(answers), 1)))
        used = tuple(answers.items())[: max(n_asked - n_given, 0)]
        used = () if self.features.categories is None else used
        if used == self._weighed_by:
            return
        asked = labels.copy()
        for place, label in used:
            asked[place] = label
        self._learner.fit(self.features.weighed(asked), labels if has_labels else None)
        self._weighed_by = used

    def _learn(self, past: list[Event]) -> Snapshot:
        """Fit to the answers as they stand, in their order, and return what the model says.

        The learner is told all of them each time, so that it makes no difference whether answers
        came today or earlier, or whether some were taken back in between.
        """
        self._weigh(past)
        self._learner.resume([self._said(event) for event in past])
        self._learner.refit()
        return self._look()

    def _said(self, event: Event) -> history.Event:
        assert event.row is not None
        place = self._place[event.row]
        if event.label is None:
            return history.Event((place,), None)
        audits: tuple[history.Audit, ...] = ()
        if event.is_audit and event.predicted is not None and event.probability is not None:
            audits = (history.Audit(place, event.predicted, 1.0 - event.probability),)
        return history.Event((place,), (event.label,), audits)

    def _look(self) -> Snapshot:
        learner, n = self._learner, len(self.rows.frame)
        with self._changed:
            given = set(self.log.answers.given)
        closed = given | self._in_file.keys()
        is_open = [row for row in self._place if row not in closed]
        queue: tuple[Ask, ...] = ()
        reserve: tuple[Ask, ...] = ()
        if is_open:
            late = self.features.later
            query = learner.query(min(AHEAD, len(is_open)), later=late)
            rows = self.features.rows[np.asarray(query.rows, dtype=np.intp)].tolist()
            queue = tuple(Ask(r, bool(a)) for r, a in zip(rows, query.is_audit, strict=True))
            rng = np.random.default_rng([self._seed, len(given)])
            others = rng.permutation(np.setdiff1d(is_open, rows))
            is_late = np.isin(others, self.features.rows[late])
            others = np.concatenate([others[~is_late], others[is_late]])[:RESERVE].tolist()
            # They are drawn at random from all that is open, and so may be audits too.
            every, has_model = self._audit_every, learner.predictions_[0] is not None
            reserve = tuple(
                Ask(row, has_model and place % every == every - 1)
                for place, row in enumerate(others)
            )
        classes = tuple(str(c) for c in learner.classes_)
        codes, sureness = np.full(n, -1, dtype=np.intp), np.zeros(n)
        p = np.asarray(learner.proba_)
        is_known = np.array([label is not None for label in learner.predictions_])
        if is_known.any():
            codes[self.features.rows] = np.where(is_known, p.argmax(axis=1), -1)
            sureness[self.features.rows] = np.where(is_known, p.max(axis=1), 0.0)
        number = self.snapshot.number + 1
        return Snapshot(number, 0, queue, reserve, classes, codes, sureness, self._numbers())

    def _numbers(self) -> dict[str, Any]:
        estimate, advice = self._learner.estimate_error(), self._learner.should_stop()
        return {
            "error": _plain(estimate.error),
            "upper": _plain(estimate.upper),
            "errors_left": _plain(estimate.errors_left),
            "n_unlabelled": len(self.features.rows) - int(self._learner.n_labels_),
            "n_audits": int(estimate.n_audits),
            "n_wrong": int(estimate.n_wrong),
            "confidence": _plain(estimate.confidence),
            "stop": bool(advice.stop),
            "probability": _plain(advice.probability),
            "reason": str(advice.reason),
        }

    def _draw(self) -> None:
        if self._places is not None:
            return
        places = np.round(plane_of(self.features.X, self._seed), 4)
        rng, m = np.random.default_rng(self._seed), len(places)
        drawn = np.arange(m)
        if m > MOST_DRAWN:
            drawn = np.sort(rng.choice(m, MOST_DRAWN, replace=False))
        found = {
            "rows": self.features.rows[drawn].tolist(),
            "x": places[drawn, 0].tolist(),
            "y": places[drawn, 1].tolist(),
        }
        with self._changed:
            self._drawn, self._places = found, places


def _history_record(number: int, event: Event) -> dict[str, Any]:
    record = {"number": number, "kind": event.kind, "row": event.row, "label": event.label}
    return {**record, "guess": event.predicted, "sure": event.probability, "audit": event.is_audit}


def _plain(value: Any) -> float | None:
    return float(value) if value is not None and np.isfinite(value) else None
