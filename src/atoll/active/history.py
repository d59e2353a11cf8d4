"""What happened to a pool: labels and skips in order, from which everything else follows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple


class Audit(NamedTuple):
    """A row that was drawn at random and predicted before its label was learnt.

    row : of the pool
    predicted : the class that was predicted
    doubt : the probability that the model gave to all other classes
    """

    row: int
    predicted: Any
    doubt: float


class Event(NamedTuple):
    """Labels that came together, or rows skipped together.

    rows : of the pool
    labels : their classes; None where they were skipped
    audits : those of the rows that were audits
    """

    rows: tuple[int, ...]
    labels: tuple[Any, ...] | None
    audits: tuple[Audit, ...] = ()


class History(NamedTuple):
    """Everything that was said of a pool.

    start : labels that were there from the beginning, by row
    events : in their order
    labels : all labels as they stand, by row
    skipped : rows that were skipped and have no label, the last skipped last
    audits : in their order
    since_audit : labels since the last audit
    """

    start: dict[int, Any]
    events: tuple[Event, ...]
    labels: dict[int, Any]
    skipped: tuple[int, ...]
    audits: tuple[Audit, ...]
    since_audit: int

    def after(self, event: Event) -> History:
        """Return the history with one more event; this one stays as it is."""
        return _played(self, (event,))

    def before_last(self) -> History:
        """Return the history without its last event."""
        return replay(self.start, self.events[:-1])

    def without(self, rows: Iterable[int]) -> History:
        """Return the history as if nobody had ever labelled these rows."""
        gone = set(rows)
        kept = []
        for event in self.events:
            if event.labels is not None:
                pairs = [(r, label) for r, label in zip(event.rows, event.labels) if r not in gone]
                audits = tuple(audit for audit in event.audits if audit.row not in gone)
                places, labels = tuple(r for r, _ in pairs), tuple(label for _, label in pairs)
                event = Event(places, labels, audits)
            if event.rows:
                kept.append(event)
        return replay({r: label for r, label in self.start.items() if r not in gone}, kept)

    def outcomes(self) -> list[bool]:
        """Return whether each audit's prediction was wrong, by the labels as they stand."""
        return [self.labels[a.row] != a.predicted for a in self.audits if a.row in self.labels]


def replay(start: dict[int, Any], events: Iterable[Event]) -> History:
    """Return the history of these events.

    Examples
    --------
    >>> found = replay({0: "cat"}, [Event((3,), ("dog",)), Event((5, 6), None)])
    >>> found.labels, found.skipped, found.before_last().skipped
    ({0: 'cat', 3: 'dog'}, (5, 6), ())
    """
    return _played(History(start, (), start, (), (), 0), events)


def _played(begun: History, events: Iterable[Event]) -> History:
    """Return a history with more events, in time that grows with their rows and its labels."""
    more = tuple(events)
    labels, skipped = dict(begun.labels), dict.fromkeys(begun.skipped)
    audits, since = list(begun.audits), begun.since_audit
    for event in more:
        for row in event.rows:
            skipped.pop(row, None)
        if event.labels is None:
            skipped |= dict.fromkeys(row for row in event.rows if row not in labels)
            continue
        labels.update(zip(event.rows, event.labels))
        audits += event.audits
        audited = {audit.row for audit in event.audits}
        for row in event.rows:
            since = 0 if row in audited else since + 1
    every = (*begun.events, *more)
    return History(dict(begun.start), every, labels, tuple(skipped), tuple(audits), since)
