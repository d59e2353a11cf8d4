"""The loop of labels: what to label next, how wrong the model is, whether to stop."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from atoll.active import remarks, saving
from atoll.active.coverage import comparable
from atoll.active.history import Audit, Event, History, replay
from atoll.active.labelling import (
    class_list,
    label_values,
    plain_label,
    read_places,
    read_pool_labels,
)
from atoll.active.pool import (
    FittedPool,
    Known,
    blank_shares,
    can_fit,
    check_rows,
    default_classifier,
    fit_pool,
    has_draws,
    last_step,
    n_rows,
    prepared,
    same_rows,
)
from atoll.active.query import NO_NAMES, Query, reasons_for
from atoll.active.situation import Choice, Situation
from atoll.active.stopping import StopAdvice, advise
from atoll.active.strategies import STRATEGIES, Strategy, find_strategy
from atoll.core.blank_rows import mostly_blank
from atoll.core.labels import object_array
from atoll.core.remarks import warn_user
from atoll.core.row_names import index_values, row_index, row_names
from atoll.core.selection import some_rows
from atoll.diagnostics.wrong_rows import ErrorBelief, ErrorEstimate, audits_alone, error_belief
from atoll.estimators.parameters import (
    COMMON,
    RANDOM_STATE,
    Anything,
    Flag,
    Listed,
    Nothing,
    Number,
    Rule,
    Whole,
    check_value,
)
from atoll.estimators.validation import generator, remark_on_order

Array = NDArray[np.float64]
Index = NDArray[np.intp]

AUDIT_STREAM, QUERY_STREAM = 1, 2  # of the learner's random numbers


class Refit(NamedTuple):
    """A model, and what it has learnt.

    labels : that it was fitted to, by row
    fitted : None where they are too few for a model
    known : the same labels, as it takes them
    """

    labels: Mapping[int, Any]
    fitted: FittedPool | None
    known: Known


class ActiveLearner:
    """A pool of rows that is labelled bit by bit, the most telling rows first.

    It starts from no label at all. Every fifth row is an audit: drawn at random and predicted
    before its label is learnt, so that the error can be estimated with a limit that holds, whatever
    the strategy picks and whatever the model believes of itself.

    `update`, `skip` and `undo` are quick. The model is fitted again by `refit`, which `query`,
    `estimate_error` and the fitted attributes call where labels have come since; it may run in
    another thread.

    Parameters
    ----------
    estimator : classifier, default=None
        Any classifier of this library, or any with `predict_proba`, perhaps at the end of a
        scikit-learn pipeline; None is `GraphGPClassifier()`, after a `StandardScaler()` where
        columns are in unlike units. A copy is fitted. Strategies that look ahead need the joint
        draws (`sample_proba`) that the library's classifiers have; with others rows are picked by
        margin.
    classes : sequence, default=None
        Classes that are known before any label; others may turn up later.
    strategy : str or function, default="brier"
        How rows are picked, a name in `STRATEGIES`: "brier", "error-reduction", "epig", "bald",
        "margin", "entropy", "typiclust" or "random"; or a function that takes a `Situation` and
        returns one number for each candidate, larger for better.
    audit_every : int, default=5
        Every `audit_every`-th row is an audit; None: no row is. With strategy="random" all rows
        are.
    target_error : float, default=None
        Share of wrong rows among the unlabelled ones at which labelling may stop.
    confidence : float, default=0.95
        Of the upper limit of the error, and of the advice to stop.
    unlabelled : "auto", None or a value, default="auto"
        What in y means unlabelled besides nulls; "auto": -1 among numbers, unless `classes` names
        it.
    random_state : None, int or numpy Generator, default=None
        Seed of everything; the same seed and the same answers give the same queries.
    n_draws : int, default=256
        Joint draws that the strategies look ahead with.
    max_candidates : int, default=2000
        Unlabelled rows that are considered for a query; if there are more, a random part of them.
    verbose : bool, default=False
        Whether fits show their progress.

    Attributes
    ----------
    classes_ : list, the classes declared and those seen since
    labels_ : (n,) labels as they stand, None where there is none
    n_labels_ : int, number of labels
    proba_ : (n, K) class probabilities; given labels are certain, and without a model all classes
        are equally probable
    predictions_ : (n,) labels, and the most probable class of the other rows; None without a model
    estimator_ : the fitted classifier; None while labels are too few for it
    audits_ : list of Audit, rows drawn at random, with what was predicted of them before
    strategy_ : str, how rows are picked, in words
    is_current_ : bool, whether the model has learnt every label
    target_ : str, what the labels are called, as `save` was told; "" where nobody said
    notes_ : dict of plain values that `save` keeps for whoever runs the loop

    Examples
    --------
    >>> from atoll.active import ActiveLearner
    >>> from atoll.datasets import make_crescents
    >>> X, truth = make_crescents(n_samples=120, random_state=0)
    >>> learner = ActiveLearner(random_state=0).fit(X)
    >>> for _ in range(10):
    ...     rows = learner.query().rows
    ...     _ = learner.update(rows, truth[rows])  # here a person would be asked
    >>> bool((learner.predictions_ == truth).mean() > 0.9)
    True
    """

    parameters: ClassVar[Mapping[str, Rule]] = {
        "classes": Nothing("those of the labels") | Listed("a sequence of classes"),
        "audit_every": Nothing("no audits") | Whole(1),
        "target_error": Nothing("no target") | Number(above=0, below=1),
        "confidence": Number(above=0.5, below=1),
        "unlabelled": COMMON["unlabelled"],
        "random_state": RANDOM_STATE,
        "n_draws": Whole(2),
        "max_candidates": Whole(10),
        "strategy": Anything("a name or a function"),
        "verbose": Flag(),
    }

    def __init__(
        self,
        estimator: Any = None,
        *,
        classes: Any = None,
        strategy: Any = "brier",
        audit_every: int | None = 5,
        target_error: float | None = None,
        confidence: float = 0.95,
        unlabelled: Any = "auto",
        random_state: Any = None,
        n_draws: int = 256,
        max_candidates: int = 2000,
        verbose: bool = False,
    ):
        self.estimator = estimator
        self.classes = classes
        self.strategy = strategy
        self.audit_every = audit_every
        self.target_error = target_error
        self.confidence = confidence
        self.unlabelled = unlabelled
        self.random_state = random_state
        self.n_draws = n_draws
        self.max_candidates = max_candidates
        self.verbose = verbose
        self.target_ = ""
        self.notes_: dict[str, Any] = {}

    # The pool -------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None, *, picked: bool = True) -> Self:
        """Begin with a pool of rows and the labels that are there; forget any earlier pool.

        Parameters
        ----------
        X : (n, d) all rows, as the estimator takes them
            Rows of a data frame with more than half of their cells blank are asked for last.
        y : (n,) labels, default=None
            None, NaN or NA where unknown, or -1 among integers; None: no row has a label.
        picked : bool, default=True
            Whether the rows with a label may have been picked; False: they are a random part of all
            rows, as `fit` of a classifier assumes, and tell how frequent the classes are.
        """
        check_value("picked", picked, Flag())
        labels = read_pool_labels(y, n_rows(X), self.unlabelled, self.classes)
        remark_on_order(X, y)
        seed = int(generator(self.random_state).integers(2**62))
        self._begin(X, replay(labels, ()), seed, picked)
        if self.strategy_.startswith("margin, "):
            warn_user(f"ActiveLearner picks rows by {self.strategy_}.", UserWarning)
        return self

    def _begin(self, X: Any, history: History, seed: int, picked: bool) -> Self:
        for name, rule in self.parameters.items():
            check_value(name, getattr(self, name), rule)
        if n_rows(X) < 2:
            raise ValueError(f"X has {n_rows(X)} row(s); a pool needs at least 2.")
        name, strategy = find_strategy(self.strategy)
        estimator = default_classifier(X) if self.estimator is None else self.estimator
        self.strategy_ = name
        if strategy.needs == "draws" and not has_draws(estimator):
            kind = type(last_step(estimator)).__name__
            self.strategy_ = f"margin, since {kind} has no joint draws for {name}"
            strategy = STRATEGIES["margin"]
        check_rows(estimator, X)
        self._strategy: Strategy = strategy
        self._random = strategy is STRATEGIES["random"]
        self._X = X
        self._n = n_rows(X)
        self._names, self._index = row_names(X), row_index(X)
        self._seed = seed
        self._classifier = prepared(estimator, seed % 2**31)
        self._history, self._picked = history, picked
        self._later = np.flatnonzero(mostly_blank(blank_shares(X)))
        self._refit: Refit | None = None
        self._open: frozenset[int] = frozenset()
        self._undone: dict[int, Audit] = {}
        self._audit_order = self._stream(AUDIT_STREAM).permutation(self._n)
        class_list(self.classes, history.labels.values())  # refuses classes of several types
        return self

    def _stream(self, *words: int) -> np.random.Generator:
        """Return a generator that depends on the seed and these words alone."""
        return np.random.default_rng([self._seed, *words])

    def has_rows(self, X: Any) -> bool:
        """Return whether these are the rows of the pool; X (n, d)."""
        self._pool_size()
        return n_rows(X) == self._n and same_rows(X, self._X)

    # What the user says ---------------------------------------------------------------------------

    def update(self, rows: Any, labels: Any) -> Self:
        """Take labels in; the model learns them at its next refit.

        A row that has a label already gets the new one, with a warning. An audit's prediction is
        kept as the model had it before.

        Parameters
        ----------
        rows : int, str or (k,) of the pool
            By their numbers, from 0, or their names in the index of a data frame.
        labels : one or (k,) their classes, which may be new
            Of a series, the order counts, not the index.
        """
        places = read_places(rows, self._pool_size(), self._names)
        values = label_values(rows, labels)
        if not places:
            return self
        plain = tuple(plain_label(value, self.unlabelled, self.classes) for value in values)
        class_list(self.classes, [*self._history.labels.values(), *plain])
        self._remark_on(places, plain, labels)
        audits = tuple(audit for row in places if (audit := self._audit_of(row)) is not None)
        self._history = self._history.after(Event(places, plain, audits))
        self._open -= set(places)
        return self

    def _remark_on(self, rows: tuple[int, ...], labels: tuple[Any, ...], given: Any) -> None:
        """Warn of labels that may be mistakes; `given` is what they were read from."""
        before = self._history.labels
        known = {*(self.classes or ()), *before.values()}
        few = self.classes is None and len(set(self._history.start.values())) < 2
        remarks.on_new_classes(labels, known, self.classes, few)
        remarks.on_changes(rows, labels, before, {row: self._called(row) for row in rows})
        if hasattr(getattr(self._X, "index", None), "get_indexer_for"):
            remarks.on_index(given, index_values(self._X.index[list(rows)]))

    def _called(self, row: int) -> str:
        """Return what a row is called in print."""
        if self._names is not None:
            return self._names[row]
        return str(row) if self._index is None else f"{row}, index {self._index[row]}"

    def skip(self, rows: Any) -> Self:
        """Put rows off: they come back when no other is left.

        Parameters
        ----------
        rows : int, str or (k,) of the pool, as in `update`
        """
        places = read_places(rows, self._pool_size(), self._names)
        if places:
            self._history = self._history.after(Event(places, None))
            self._open -= set(places)
        return self

    def undo(self) -> Self:
        """Take the last `update` or `skip` back."""
        self._pool_size()
        if not self._history.events:
            raise ValueError("there is nothing to undo: no row was labelled or skipped since fit.")
        last = self._history.events[-1]
        self._history = self._history.before_last()
        self._open |= {audit.row for audit in last.audits}
        self._undone |= {audit.row: audit for audit in last.audits}
        return self

    def withdraw(self, rows: Any) -> Self:
        """Take back the labels of rows, however long ago they were given.

        Parameters
        ----------
        rows : int, str or (k,) of the pool, as in `update`
            Each must have a label; there is a warning if it was given in `fit`.
        """
        places = read_places(rows, self._pool_size(), self._names)
        called = {row: self._called(row) for row in places}
        remarks.on_withdrawal(places, self._history.labels, self._history.start, called)
        self._history = self._history.without(places)
        return self

    def resume(self, events: Iterable[Event]) -> Self:
        """Restore what was said on an earlier day since `fit`, with the audits as they were then.

        Parameters
        ----------
        events : of `atoll.active.history`, in their order
            They replace what was said of this pool so far.
        """
        self._pool_size()
        history = replay(self._history.start, events)
        class_list(self.classes, history.labels.values())
        self._history, self._open, self._undone = history, frozenset(), {}
        return self

    def _audit_of(self, row: int) -> Audit | None:
        """Return the audit that labelling this row would be, by the model as it is now, or None."""
        model = self._refit
        if row not in self._open or row in self._history.labels:
            return None
        if model is None or model.fitted is None or row in model.labels:
            return self._undone.get(row)  # the model has learnt the label that was taken back
        p = model.fitted.proba[row]
        best = int(np.argmax(p))
        return Audit(row, model.known.classes[best], float(1.0 - p[best]))

    # What the model says --------------------------------------------------------------------------

    def refit(self) -> Self:
        """Fit the model to the labels as they stand; do nothing where it has learnt them."""
        self._pool_size()
        history = self._history
        if self._refit is not None and self._has_learnt(history):
            return self
        known = self._known(history)
        fitted = None
        if can_fit(self._classifier, known):
            last = self._refit.fitted if self._refit is not None else None
            begin = self._classifier if last is None else last.estimator
            fitted = fit_pool(begin, self._X, known, bool(self.verbose))
        self._refit = Refit(history.labels, fitted, known)
        return self

    def _has_learnt(self, history: History) -> bool:
        return self._refit is not None and self._refit.labels == history.labels

    @property
    def is_current_(self) -> bool:
        self._pool_size()
        return self._has_learnt(self._history)

    def _known(self, history: History) -> Known:
        classes = class_list(self.classes, history.labels.values())
        code = {value: k for k, value in enumerate(classes)}
        rows = sorted(history.labels)
        drawn = {audit.row for audit in history.audits}
        if not self._picked:
            drawn |= set(history.start)
        if self._random:
            drawn = set(rows)
        return Known(
            np.array(rows, dtype=np.intp),
            np.array([code[history.labels[row]] for row in rows], dtype=np.intp),
            tuple(classes),
            np.array([row in drawn for row in rows], dtype=bool),
        )

    @property
    def classes_(self) -> list[Any]:
        self._pool_size()
        return class_list(self.classes, self._history.labels.values())

    @property
    def labels_(self) -> NDArray[Any]:
        out = np.full(self._pool_size(), None, dtype=object)
        for row, label in self._history.labels.items():
            out[row] = label
        return out

    @property
    def n_labels_(self) -> int:
        self._pool_size()
        return len(self._history.labels)

    @property
    def audits_(self) -> list[Audit]:
        self._pool_size()
        return list(self._history.audits)

    @property
    def estimator_(self) -> Any:
        fitted = self._current().fitted
        return None if fitted is None else fitted.estimator

    @property
    def proba_(self) -> Array:
        now = self._current()
        K = len(now.known.classes)
        if now.fitted is None:
            p = np.full((self._n, K), 1.0 / max(K, 1))
        else:
            p = now.fitted.proba.copy()
        p[now.known.rows] = np.eye(K)[now.known.codes]
        return p

    @property
    def predictions_(self) -> NDArray[Any]:
        now = self._current()
        out = np.full(self._n, None, dtype=object)
        if now.fitted is not None:
            out = object_array(now.known.classes)[np.argmax(now.fitted.proba, axis=1)]
        for row, label in now.labels.items():
            out[row] = label
        return out

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most probable class of new rows; X (m, d) -> (m,)."""
        p = self.predict_proba(X)
        return object_array(self._current().known.classes)[np.argmax(p, axis=1)]

    def predict_proba(self, X: Any) -> Array:
        """Return probabilities of `classes_` for new rows; X (m, d) -> (m, K)."""
        fitted = self._current().fitted
        if fitted is None:
            raise ValueError("there is no model yet; label rows of two classes, then predict.")
        return fitted.predict_proba(X)

    def _current(self) -> Refit:
        self.refit()
        assert self._refit is not None
        return self._refit

    # What to label next ---------------------------------------------------------------------------

    def query(self, n: int = 1, *, later: Any = None) -> Query:
        """Return rows to label next: the same ones until the next `update` or `skip`.

        Parameters
        ----------
        n : int, default=1
            How many; fewer are returned if fewer have no label. A batch is chosen as a whole, so
            that its rows do not repeat each other.
        later : (k,) rows of the pool, default=None
            Rows to ask for only when no other is left, say because nobody could tell their class.
            None: the rows of a data frame with more than half of their cells blank.
        """
        check_value("n", n, Whole(1))
        model = self._current()
        history = self._history
        last = self._later
        if later is not None:
            last = np.array(read_places(later, self._n, self._names), np.intp)
        skipped = np.array(history.skipped, dtype=np.intp)
        is_free = self._is_unlabelled(history)
        is_free[skipped] = False
        last = last[is_free[last]]
        if len(last) < is_free.sum():  # otherwise no other row is left
            is_free[last] = False
        n_free = min(n, int(is_free.sum()))
        is_audit = self._audit_places(n_free, history, model)
        audits = self._next_audits(int(is_audit.sum()), is_free)
        rows, scores = np.empty(n_free, np.intp), np.full(n_free, np.nan)
        rows[is_audit] = audits
        if n_free > len(audits):
            rng = self._stream(QUERY_STREAM, len(history.labels), len(history.skipped))
            rows[~is_audit], scores[~is_audit] = self._choose(
                model, is_free, audits, n_free - len(audits), rng
            )
        again = np.concatenate([last[~is_free[last]], skipped])[: n - n_free]
        self._open = frozenset(audits.tolist())
        rows = np.concatenate([rows, again])
        scores = np.concatenate([scores, np.full(len(again), np.nan)])
        is_audit = np.concatenate([is_audit, np.zeros(len(again), bool)])
        p = None if model.fitted is None else model.fitted.proba[rows]
        why = reasons_for(p, model.known.classes, scores, is_audit)
        left = np.setdiff1d(last, rows)
        names = _part(self._names, rows), _part(self._names, left)
        index = _part(self._index, rows), _part(self._index, left)
        return Query(rows, scores, is_audit, why, left, *names, n, *index)

    def _is_unlabelled(self, history: History) -> NDArray[np.bool_]:
        out = np.ones(self._n, bool)
        out[list(history.labels)] = False
        return out

    def _audit_places(self, n: int, history: History, model: Refit) -> NDArray[np.bool_]:
        """Return which of the next n rows are audits: none before there is a model."""
        every = 1 if self._random and self.audit_every else self.audit_every
        out = np.zeros(n, bool)
        if every is None or model.fitted is None:
            return out
        since = history.since_audit
        for place in range(n):
            out[place] = since >= every - 1
            since = 0 if out[place] else since + 1
        return out

    def _next_audits(self, n: int, is_free: NDArray[np.bool_]) -> Index:
        """Return the first n free rows in an order drawn once, which no picks can change."""
        if n == 0:
            return np.empty(0, np.intp)
        return self._audit_order[is_free[self._audit_order]][:n]

    def _choose(
        self,
        model: Refit,
        is_free: NDArray[np.bool_],
        audits: Index,
        n: int,
        rng: np.random.Generator,
    ) -> tuple[Index, Array]:
        """Return n free rows other than audits, and their scores, by the strategy."""
        rows = np.flatnonzero(is_free)
        most = max(self.max_candidates, n + len(audits))
        if len(rows) > most:
            rows = np.sort(rng.choice(rows, most, replace=False))
        candidates = np.flatnonzero(~np.isin(rows, audits))
        if len(candidates) < n:  # the random part holds too many of the audits
            rows = np.flatnonzero(is_free)
            candidates = np.flatnonzero(~np.isin(rows, audits))
        strategy = self._strategy
        if model.fitted is None and strategy.needs != "nothing":
            strategy = STRATEGIES["typiclust"]
        situation = self._situation(model, strategy, rows, candidates, n, rng)
        chosen: Choice = strategy.choose(situation, n, rng)
        return rows[chosen.places], chosen.scores

    def _situation(
        self,
        model: Refit,
        strategy: Strategy,
        rows: Index,
        candidates: Index,
        n: int,
        rng: np.random.Generator,
    ) -> Situation:
        K = max(len(model.known.classes), 1)
        proba, draws = np.full((len(rows), K), 1.0 / K), None
        features = labelled = None
        if model.fitted is not None:
            proba = model.fitted.proba[rows]
            wants = strategy.needs in ("draws", "anything") or (strategy.needs == "proba" and n > 1)
            if wants and has_draws(self._classifier):
                seed = int(rng.integers(2**31))
                draws = model.fitted.draws(some_rows(self._X, rows), self.n_draws, seed)
        if strategy.needs == "features" or (draws is None and strategy.needs != "nothing"):
            both = comparable(some_rows(self._X, np.concatenate([rows, model.known.rows])))
            if both is not None:
                features, labelled = both[: len(rows)], both[len(rows) :]
        return Situation(proba, draws, features, candidates, labelled)

    # How wrong, and whether to stop ---------------------------------------------------------------

    def estimate_error(self) -> ErrorEstimate:
        """Return how many of the unlabelled rows are predicted wrongly, with an upper limit."""
        return self._estimate(self._belief())

    def should_stop(self) -> StopAdvice:
        """Return whether the error is at most `target_error`, by the confidence asked for."""
        check_value("target_error", self.target_error, self.parameters["target_error"])
        belief = self._belief()
        return advise(self._estimate(belief), belief, self.target_error)

    def _estimate(self, belief: ErrorBelief | None) -> ErrorEstimate:
        outcomes = self._history.outcomes()
        n_audits, n_wrong = len(outcomes), sum(outcomes)
        n = self._n - len(self._history.labels)
        error, upper, own = float("nan"), 1.0, float("nan")
        if n == 0:
            error = upper = own = 0.0
        elif belief is not None:
            error, upper = belief.expected(), belief.upper(self.confidence)
            own = float(self._doubts().mean())
        return ErrorEstimate(
            error=error,
            upper=upper,
            errors_left=error * n,
            n_unlabelled=n,
            n_audits=n_audits,
            n_wrong=n_wrong,
            confidence=self.confidence,
            audits_alone=audits_alone(n_wrong, n_audits, self.confidence),
            by_model=own,
        )

    def _doubts(self) -> Array:
        """Return, for unlabelled rows, the probability of all classes but the predicted one."""
        fitted, unknown = self._current().fitted, self._is_unlabelled(self._history)
        return np.empty(0) if fitted is None else 1.0 - fitted.proba[unknown].max(axis=1)

    def _belief(self) -> ErrorBelief | None:
        """Return what is believed of the error; None without a model or unlabelled rows."""
        doubts, history = self._doubts(), self._history
        if not len(doubts):
            return None
        audits = [audit.doubt for audit in history.audits]
        return error_belief(doubts, audits, history.outcomes())

    # Files ----------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str], *, target: str | None = None) -> None:
        """Write rows, labels and all that happened to a file, whole or not at all.

        Parameters
        ----------
        path : path
            Any name; it usually ends in `.atoll`.
        target : str, default=None
            What the labels are called, which `load` gives back as `target_`; None: as it was.
        """
        self._pool_size()
        kept = [name for name in self.parameters if name not in ("random_state", "verbose")]
        saved = saving.SavedLearner(
            self.estimator,
            {name: getattr(self, name) for name in kept},
            self._X,
            self._seed,
            self._history,
            self._open,
            self.notes_,
            self._picked,
            self._names,
            None if self._index is None else tuple(self._index.tolist()),
            self.target_ if target is None else target,
        )
        saving.write(saved, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, estimator: Any = None) -> ActiveLearner:
        """Read what `save` wrote; run no code from the file.

        Parameters
        ----------
        path : path
        estimator : classifier, default=None
            To go on with; None: the one saved.

        Returns
        -------
        ActiveLearner whose next query, by the same classifier, is that of the one saved
        """
        saved = saving.read(path)
        learner = cls(saved.estimator if estimator is None else estimator, **saved.parameters)
        learner._begin(saved.X, saved.history, saved.seed, saved.picked)
        learner._names = saved.names
        learner._index = None if saved.in_index is None else object_array(saved.in_index)
        learner._open = saved.open_audits
        learner.target_, learner.notes_ = saved.target, saved.notes
        return learner

    def _pool_size(self) -> int:
        """Return the number of rows; ValueError before `fit`."""
        if not hasattr(self, "_history"):
            raise ValueError("this ActiveLearner has no pool yet; call fit(X) first.")
        return self._n

    def __repr__(self) -> str:
        if not hasattr(self, "_history"):
            return f"ActiveLearner({self.estimator!r}, strategy={self.strategy!r})"
        return f"ActiveLearner({self._n} rows, {len(self._history.labels)} labels)"


def _part(values: Any, rows: Index) -> NDArray[Any]:
    """Return the values of some rows, (k,); none if `values` is None."""
    return NO_NAMES if values is None else np.array(values, dtype=object)[rows]
