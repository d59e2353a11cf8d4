"""Classifiers that take what users know besides labels: weights, groups, shares of the classes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtr
from sklearn.utils.validation import check_is_fitted

from atoll.core.chunks import is_source
from atoll.core.extras import import_extra
from atoll.core.far_rows import SourceRows
from atoll.core.fillings import Fillings, fillings_of
from atoll.core.labels import PartialLabels, object_array
from atoll.core.progress import QUICK, seconds_until_shown
from atoll.core.row_names import index_in_fit, names_in_fit
from atoll.core.shown import aligned, in_line, percent, readable
from atoll.estimators import knowledge
from atoll.estimators.far_rows import by_chunks
from atoll.estimators.knowledge import ALONE, read_class_prior, read_groups
from atoll.estimators.parameters import PROBABILITY, check_value
from atoll.estimators.row_memory import digests_of_rows
from atoll.estimators.shell import Classifier
from atoll.estimators.timing import LONG, in_words, seconds_of
from atoll.estimators.validation import remark_on_order
from atoll.models.average import label_doubts, pooling
from atoll.models.average.label_doubts import LabelRecord
from atoll.models.foretold import FEWEST_OTHERS
from atoll.models.groups import group_proba

Array = NDArray[np.float64]
Index = NDArray[np.intp]

SHARE_ROWS, SHARE_DRAWS = 300, 64  # from which the limits of the shares are found
HARDLY_CHANCE = 0.01  # if labels of all classes are this unlikely to be so even, they look picked
LEAST_EXPECTED = 0.05  # expected number of wrong labels below which none is said to be wrong
PROVISO = (
    "This holds if wrong labels come at random. If one class is often taken for another, more may "
    "be wrong than this says."
)
SHARE_LIMITS = (0.05, 0.95)
SHOWN = 10  # suspect labels that are printed
WORTH_A_LOOK = 0.05  # probability of being wrong
NO_NAMES: NDArray[Any] = np.empty(0, dtype=object)


@readable
@dataclass(frozen=True)
class Suspects:
    """Labels that may be wrong, the most suspect first; unpacks into rows and probabilities.

    rows : (l,) places of the labelled rows in the data of the fit
    probabilities : (l,) that the label of each is wrong, given all labels
    chances : (l + 1,) probability of each number of wrong labels
    labels : (l,) as they were given
    instead : (l,) the most probable other class of each row, by all labels but its own
    names : (l,) of the rows, where the data of the fit have an index of names; else none
    in_index : (l,) of the rows, where that index is neither 0, 1, 2 ... nor names; else none
    """

    rows: Index
    probabilities: Array
    chances: Array
    labels: NDArray[Any] = field(default_factory=lambda: np.empty(0, dtype=object))
    instead: NDArray[Any] = field(default_factory=lambda: np.empty(0, dtype=object))
    names: NDArray[Any] = field(default_factory=lambda: np.empty(0, dtype=object))
    in_index: NDArray[Any] = field(default_factory=lambda: np.empty(0, dtype=object))

    def __iter__(self) -> Iterator[Any]:
        return iter((self.rows, self.probabilities))

    def limits(self, probability: float = 0.9) -> tuple[int, int]:
        """Return the least and the largest number of wrong labels, leaving out the tails.

        Examples
        --------
        >>> chances = np.array([0.02, 0.1, 0.8, 0.05, 0.03])
        >>> Suspects(np.arange(4), np.full(4, 0.5), chances).limits()
        (1, 3)
        """
        below = np.cumsum(self.chances)
        tail = (1.0 - probability) / 2.0
        low, high = np.searchsorted(below, [tail, 1.0 - tail])
        return int(low), int(min(high, len(self.rows)))

    def said(self) -> str:
        """Say how many labels are wrong, with limits, and how many of the first to look at.

        Examples
        --------
        >>> p = np.array([0.6, 0.3, 0.1, 0.0])
        >>> Suspects(np.arange(4), p, np.array([0.3, 0.5, 0.15, 0.05, 0.0])).said()[:63]
        'About 1 of 4 labels is wrong, 0 to 2 with probability 90%. 1 la'
        """
        p = self.probabilities
        expected, (low, high) = float(p.sum()), self.limits()
        if expected < LEAST_EXPECTED:
            return f"None of {len(p)} labels is expected to be wrong."
        n_likely = int((p > 0.5).sum())
        is_one = f"{n_likely} labels are" if n_likely > 1 else f"{n_likely or 'No'} label is"
        first = int(np.searchsorted(np.cumsum(p), 0.9 * expected)) + 1
        first = min(first, int((p >= WORTH_A_LOOK).sum()))
        look = "Look at " + (f"the first {first}" if first > 1 else "the first one")
        look = f"{look}, and go on while you find wrong ones." if first else "None stands out."
        likely = f"{is_one} more likely wrong than right. {look}"
        if not n_likely and not first:
            likely = "No label stands out."
        n = max(1, round(expected))
        about = f"About {n} of {len(p)} labels {'is' if n == 1 else 'are'} wrong"
        if expected < 0.5:
            about = f"Hardly any of {len(p)} labels is wrong"
        return f"{about}, {low} to {high} with probability 90%. {likely}"

    def provisos(self) -> list[str]:
        """Say under what condition the number of wrong labels holds, if some are expected."""
        return [PROVISO] if float(self.probabilities.sum()) >= LEAST_EXPECTED else []

    def __str__(self) -> str:
        lines = [f"  {line}" for line in aligned(*self._table())]
        return "\n".join([self.said(), *lines, *self._about_others(), *self.provisos()])

    def _parts(self) -> list[Any]:
        return [self.said(), self._table(), *self._about_others(), *self.provisos()]

    def _table(self) -> tuple[list[str], list[list[str]]]:
        """Return header and rows of the most suspect labels, as text."""
        columns = {
            "row": self.names if len(self.names) else self.rows,
            "index": self.in_index,
            "label": self.labels,
            "wrong": np.array([percent(p) for p in self.probabilities.tolist()]),
            "instead": self.instead,
        }
        told = {name: cells[:SHOWN].tolist() for name, cells in columns.items() if len(cells)}
        return [*told], [[str(cell) for cell in cells] for cells in zip(*told.values())]

    def _about_others(self) -> list[str]:
        n = len(self.rows) - SHOWN
        return [f"  and {n} more, in to_frame()"] if n > 0 else []

    def to_frame(self) -> Any:
        """Return all labels as a data frame, the most suspect first.

        Its columns are row, from 0, name where rows have names, or index where theirs is not 0, 1,
        2 ..., label, p_wrong and instead, as of `atoll suspects`.
        """
        columns = {
            "row": self.rows,
            "name": self.names,
            "index": self.in_index,
            "label": self.labels,
        }
        columns |= {"p_wrong": self.probabilities, "instead": self.instead}
        given = {name: cells for name, cells in columns.items() if len(cells) == len(self.rows)}
        return import_extra("pandas").DataFrame(given)


class Shares(NamedTuple):
    """Shares of the classes among all rows of a fit.

    estimate : (K,)
    lower, upper : (K,) limits of 90%
    """

    estimate: Array
    lower: Array
    upper: Array

    def said(self, classes: NDArray[Any], most: int = 6) -> str:
        """Return the shares in words."""
        each = [
            f"{_class_in_words(name)} {p:.1%} ({a:.1%} to {b:.1%})"
            for name, p, a, b in zip(classes.tolist(), *(part.tolist() for part in self))
        ]
        more = f" and {len(each) - most} more" if len(each) > most else ""
        if np.array_equal(self.lower, self.upper):
            known = zip(classes.tolist(), self.estimate.tolist())
            each = [f"{_class_in_words(name)} {p:.1%}" for name, p in known]
            return f"Shares of the classes, as they are known: {', '.join(each[:most])}{more}."
        return f"Shares of the classes, with limits of 90%: {', '.join(each[:most])}{more}."


def _class_in_words(name: Any) -> str:
    """Return a class as it stands before a number, which another number would run into."""
    if isinstance(name, str):
        return f"{name}:" if name[-1:].isdigit() and name.isprintable() else in_line(name)
    return f"class {name}:"


def looks_picked(labels: PartialLabels, shares: Shares) -> bool:
    """Return whether labels seem to be picked by class without the model having been told.

    It is hardly chance if all classes have the same number of labels, two or more, or numbers so
    nearly the same that a random sample would seldom have them, even if classes had equal shares.
    """
    if labels.is_chosen is not None or np.array_equal(shares.lower, shares.upper):
        return False
    counts, mean = labels.counts, labels.counts.mean()
    spread = float(np.sum((counts - mean) ** 2)) / mean
    return bool(counts.min() >= 2 and chdtr(len(counts) - 1, spread) < HARDLY_CHANCE)


class InformedClassifier(Classifier):
    """A classifier whose fit takes weights of labels, groups of rows and shares of classes."""

    saves: ClassVar[tuple[type, ...]] = (LabelRecord, Shares)
    in_one_thread: ClassVar[bool] = True
    class_prior: Any

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, groups: Any = None) -> Self:
        """Learn from labelled and unlabelled rows.

        Parameters
        ----------
        X : (n, d) array or data frame of finite numbers
        y : (n,) labels; None, NaN or NA where unknown, or -1 among numbers
        sample_weight : (n,) numbers from 0 to a million, default=None
            How much each label counts: its log-likelihood is multiplied by it. Two is the label
            given twice, a half is a label that is half believed, zero leaves the row unlabelled.
            Weights of unlabelled rows do not matter. None: one each.
        groups : (n,) of words or numbers, default=None
            Rows of the same group share a class, like those of one patient or document: one label
            in a group is that of all its rows, and unlabelled groups are classified together. The
            more alike its rows are, the less each of its labels counts. None, NaN or NA: the row is
            in no group.

        Returns
        -------
        self
        """
        names: list[Any] = []
        if is_source(X) and not (sample_weight is None and groups is None):
            name = "sample_weight" if groups is None else "groups"
            raise ValueError(
                f"{name} is for rows in memory, and X is read in chunks. Fit on an array of a part "
                "of the rows instead."
            )

        remark_on_order(X, sample_weight, "sample_weight")
        remark_on_order(X, groups, "groups")

        def know(labels: PartialLabels) -> PartialLabels:
            labels = knowledge.with_weights(labels, sample_weight)
            if groups is None:
                return labels
            found, codes = read_groups(groups, len(labels.codes))
            names.extend(found)
            return knowledge.with_groups(labels, found, codes)

        self._learn(X, y, know)
        known = None if is_source(X) else names_in_fit(X, y)
        if known is not None:
            self.label_names_ = np.array(known, dtype=object)[self._record().rows]
        index = None if is_source(X) else index_in_fit(X, y)
        if index is not None:
            self.label_index_ = index[self._record().rows]
        if groups is not None:
            self.group_names_ = object_array(names)
        return self

    def _check_labels(self, labels: PartialLabels) -> None:
        if self.class_prior is not None:
            read_class_prior(self.class_prior, labels.classes)

    # What a subclass asks -------------------------------------------------------------------------

    def _known_shares(self, labels: PartialLabels) -> Array | None:
        """Return the shares that the user knows, (K,)."""
        prior = self.class_prior
        return None if prior is None else read_class_prior(prior, labels.classes)

    def _informed(
        self,
        X: Any,
        kept: Index,
        labels: PartialLabels,
        posterior: Any,
        proba: Array,
        as_new: Callable[[], Array],
    ) -> tuple[Any, Shares, Array | None]:
        """Return the posterior given known shares, the shares of the classes, and a transduction.

        Parameters
        ----------
        X : (n, d) of the fit; if the rows are outside memory, those of the graph stand for all, and
            there is no transduction
        kept : (g,) rows of the graph
        proba : (n, K) of all rows of the fit, or (g, K) of those of the graph
        as_new : returns the probabilities that these rows would have if they were new
        """
        is_far, known = isinstance(X, SourceRows), self._known_shares(labels)
        unknown = ~(labels.is_labelled[kept] if is_far else labels.is_labelled)
        if known is not None:
            left = known if is_far else _left_over(labels, proba, known)
            posterior = posterior._replace(intercepts=_for_new(as_new(), unknown, left, known))
        if not is_far:
            unlabelled, every = self._unlabelled(labels, proba), proba.copy()
            every[unknown] = unlabelled
            return posterior, self._shares(labels, every, posterior, X), unlabelled
        found = proba[unknown]
        if known is not None:
            found = pooling.shifted(found, pooling.intercepts_for(found, known))
        return posterior, self._shares(labels, found, posterior, X, kept[unknown]), None

    def _unlabelled(self, labels: PartialLabels, proba: Array) -> Array:
        """Return the class probabilities of the unlabelled rows of a fit, (u, K).

        Known shares are those of all rows, so unlabelled rows get what the labels leave over.

        Parameters
        ----------
        proba : (n, K) of all rows of the fit
        """
        shares, found = self._known_shares(labels), proba[~labels.is_labelled]
        if shares is None or not len(found):
            return found
        left = _left_over(labels, proba, shares)
        return pooling.shifted(found, pooling.intercepts_for(found, left))

    def _shares(
        self,
        labels: PartialLabels,
        proba: Array,
        posterior: Any,
        X: Any,
        asked: Index | None = None,
    ) -> Shares:
        """Return the shares of the classes, estimated from all rows.

        Parameters
        ----------
        proba : (n, K) of all rows, or (u, K) of those that are asked
        asked : (u,) unlabelled rows that stand for all; None: all are asked
        """
        unsure, n = 1.0 - _sureness(labels), len(labels.codes)
        counts = np.bincount(labels.codes, 1.0 - unsure, minlength=len(labels.classes))
        unknown, n_unknown = np.flatnonzero(unsure), float(unsure.sum())
        proba = proba if asked is not None else proba[unknown]
        unknown = unknown if asked is None else asked
        if not len(unknown):
            return Shares(counts / n, counts / n, counts / n)
        mean = np.average(proba, axis=0, weights=unsure[unknown])
        estimate = (counts + n_unknown * mean) / n
        if self.class_prior is not None:
            return Shares(estimate, estimate, estimate)
        rng = np.random.default_rng(0)  # of its own: predictions do not depend on it
        some = np.sort(rng.permutation(unknown)[:SHARE_ROWS])
        drawn = posterior.draws(X[some], SHARE_DRAWS, rng)
        # Besides the functions, chance decides which rows have which class, and which rows stand
        # for all. All classes are drawn together: what one gains, others lose.
        rate = np.average(drawn, axis=1, weights=unsure[some])
        rate += _chance_of_classes(rng, drawn) / np.sqrt(n_unknown)
        if asked is not None:
            part = np.sqrt(1.0 / len(asked) - 1.0 / n_unknown)
            rate += part * _chance_of_rows(rng, proba)
        rate += mean - rate.mean(axis=0)
        shares = (counts + n_unknown * np.clip(rate, 0.0, 1.0)) / n
        lower, upper = np.quantile(shares, SHARE_LIMITS, axis=0)
        return Shares(estimate, np.minimum(lower, estimate), np.maximum(upper, estimate))

    def _about_shares(self, labels: PartialLabels, shares: Shares) -> str:
        """Return the shares in words, and if labels look picked, what their limits assume."""
        said = shares.said(labels.classes)
        if not looks_picked(labels, shares):
            return said
        least, most = labels.counts.min(), labels.counts.max()
        each = f"{least} labels" if least == most else f"{least} to {most} labels"
        return (
            f"{said}\nThe limits hold if the labelled rows are a random sample of all rows. But "
            f"every class has {each}. If you picked the rows by class, set "
            "labels_chosen=True. If you know the shares, give them as class_prior."
        )

    # Groups ---------------------------------------------------------------------------------------

    def _transduce(
        self, X: Any, labels: PartialLabels, found: Array | None, fillings: Fillings | None
    ) -> None:
        super()._transduce(X, labels, found, fillings)
        if labels.groups is None:
            return
        groups, n_groups = labels.groups, int(labels.groups.max(initial=ALONE)) + 1
        p = self.label_distributions_
        self.group_distributions_ = np.zeros((n_groups, p.shape[1]))
        asked = np.where(labels.is_labelled, ALONE, groups)
        sizes = np.bincount(asked[asked != ALONE], minlength=n_groups + 1)
        asked = np.where(sizes[asked] > 1, asked, ALONE)
        pooled = self._pooled(X, asked, n_groups)
        rows = asked != ALONE
        p[rows] = pooled[asked[rows]]
        p[~labels.is_labelled] = self._unlabelled(labels, p)
        known = groups != ALONE
        self.group_distributions_[groups[known]] = p[known]
        self.group_rows_ = digests_of_rows(X[known], groups[known])
        self.transduction_ = self.classes_[np.argmax(p, axis=1)]

    def _pooled(self, X: Any, groups: Index, n_groups: int, prior: Array | None = None) -> Array:
        """Return the class probabilities of groups of rows that were read already, (G, K)."""
        rng = np.random.default_rng(0)

        def draws(rows: Index, n: int) -> Array:
            return self.posterior_.draws(X[rows], n, rng)

        shares = self.class_shares_.estimate
        with self._threads():
            return group_proba(groups, n_groups, draws, shares, prior)

    def _were_in_fit(self, X: Any, groups: Index, in_fit: Index) -> NDArray[np.bool_]:
        """Return which rows (m, d) the fit had in the same group, (m,): it has heard them already.

        Parameters
        ----------
        groups : (m,) which group each row is of
        in_fit : (G,) which of the fit's groups each is
        """
        out = np.zeros(len(groups), bool)
        some = np.flatnonzero((groups != ALONE) & (in_fit[groups] != ALONE))
        if len(some) and hasattr(self, "group_rows_"):  # a model of an earlier atoll has none
            digests = digests_of_rows(X[some], in_fit[groups[some]])
            out[some] = np.isin(digests, self.group_rows_)
        return out

    @by_chunks
    def predict_proba(self, X: Any, *, groups: Any = None) -> Array:
        """Return class probabilities, averaged over the posterior.

        Those of a row whose blank numbers `make_preprocessor()` filled in are averaged over eight
        fillings as well.

        Parameters
        ----------
        X : (m, d)
        groups : (m,) of words or numbers, default=None
            Rows of the same group share a class, with each other and with the rows of that group in
            the fit, which are not counted again. None, NaN or NA: the row is in no group.

        Returns
        -------
        (m, K)
        """
        check_is_fitted(self)
        rows = self._read_rows(X)
        p = self._proba(rows, fillings_of(X))
        if groups is None:
            return p
        remark_on_order(X, groups, "groups")
        names, codes = read_groups(groups, len(p))
        if not names:
            return p
        prior = np.tile(self.class_shares_.estimate, (len(names), 1))
        seen = getattr(self, "group_names_", np.empty(0, dtype=object)).tolist()
        place = {name: i for i, name in enumerate(seen)}
        in_fit = np.array([place.get(name, ALONE) for name in names])
        is_known = in_fit != ALONE
        if is_known.any():
            prior[is_known] = self.group_distributions_[in_fit[is_known]]
        sizes = np.bincount(codes[codes != ALONE], minlength=len(names))
        alone = (codes != ALONE) & (sizes[codes] == 1) & ~is_known[codes]
        codes = np.where(alone, ALONE, codes)
        fresh = np.where(self._were_in_fit(rows, codes, in_fit), ALONE, codes)
        pooled = self._pooled(rows, fresh, len(names), prior)
        p[codes != ALONE] = pooled[codes[codes != ALONE]]
        return p

    @by_chunks
    def predict(
        self, X: Any, *, reject_below: float | None = None, groups: Any = None
    ) -> NDArray[Any]:
        """Return the most probable class of each row, or nothing where it is not probable enough.

        Parameters
        ----------
        X : (m, d)
        reject_below : float, default=None
            Rows whose most probable class has a lower probability get None, in an array of objects:
            pandas takes it as missing, and `fit` as unlabelled. `estimate_error` says how many of
            the other rows are wrong. None: every row has a class.
        groups : (m,) of words or numbers, default=None
            As in `predict_proba`.

        Returns
        -------
        (m,)
        """
        if groups is None:
            return super().predict(X, reject_below=reject_below)
        p = self.predict_proba(X, groups=groups)
        if reject_below is None:
            return self.classes_[p.argmax(axis=1)]
        check_value("reject_below", reject_below, PROBABILITY)
        return self._with_gaps(p, reject_below)

    # Labels that may be wrong ---------------------------------------------------------------------

    def suspect_labels(self, *given: Any, verbose: bool | None = None) -> Suspects:
        """Return the labels with the probability that each is wrong, the most suspect first.

        Each label is compared with all the others, any of which may be wrong as well; how many are
        is learnt at the same time. Of the labels of a group one is listed, for all of them.

        Rows are shown by name if the data of the fit have an index of names: that of a data frame
        X, or of a series y if an earlier step of a pipeline has turned X into an array. If the
        index has other numbers than 0, 1, 2 ..., both are shown.

        Parameters
        ----------
        verbose : bool, default=None
            Whether to show progress, since it may take longer than the fit, and to say so first if
            it will take more than ten seconds. None: as in the fit.
        """
        if given:
            n = given[0] if isinstance(given[0], int) else "n"
            raise TypeError(
                f"suspect_labels({given[0]!r}): it takes verbose= alone and lists every label, the "
                f"most suspect first; suspect_labels().rows[:{n}] has the first of them."
            )
        check_is_fitted(self)
        shown = getattr(self, "verbose", False) if verbose is None else verbose
        with self._threads():
            if shown:
                self._announce_doubts()
            found = label_doubts.doubts(self._record(), seconds_until_shown(shown))
        order = np.argsort(-found.probabilities, kind="stable")
        codes, others = self._record().codes, found.proba.copy()
        others[np.arange(len(codes)), codes] = -1.0
        return Suspects(
            self._record().rows[order],
            found.probabilities[order],
            found.chances,
            self.classes_[codes[order]],
            self.classes_[others.argmax(axis=1)[order]],
            self.label_names_[order] if hasattr(self, "label_names_") else NO_NAMES,
            self.label_index_[order] if hasattr(self, "label_index_") else NO_NAMES,
        )

    def _announce_doubts(self) -> None:
        """Say how long it takes to doubt all labels, if that is long."""
        record = self._record()
        if record.is_quickly_doubted:
            return
        worth: list[float] = []
        took = seconds_of(lambda: worth.append(label_doubts.one_of_many(record)))
        seconds = took * worth[0]
        if seconds > QUICK:
            words = in_words(seconds) if seconds >= LONG else f"{10 * round(seconds / 10)} seconds"
            print(
                f"{type(self).__name__}: to doubt {len(record.codes)} labels will take about "
                f"{words} on a machine with nothing else to do.",
                file=sys.stderr,
            )

    def _record(self) -> LabelRecord:
        found: LabelRecord | None = getattr(self, "label_record_", None)
        if found is None:
            raise ValueError(
                f"this {type(self).__name__} was saved by an atoll that kept no labels; fit it "
                "again."
            )
        return found

    def _held_out_labels(self) -> tuple[Array, Index, Array]:
        record: LabelRecord | None = getattr(self, "label_record_", None)
        if record is None:
            return super()._held_out_labels()
        kept = np.ones(len(record.codes), bool) if record.is_random is None else record.is_random
        # If its class has few other labels, a row is not predicted fairly without its own.
        others = np.bincount(record.codes, minlength=record.n_classes) - 1
        kept = kept & (others[record.codes] >= FEWEST_OTHERS)
        # A label that is half believed is half an audit; one that counts twice is still one row.
        counts = np.ones(len(kept)) if record.weights is None else np.minimum(record.weights, 1.0)
        with self._threads():
            return label_doubts.held_out(record)[kept], record.codes[kept], counts[kept]


def likely_wrong(model: Any) -> int:
    """Return how many labels are more likely wrong than right.

    0 if it would be slow to find out, or if the model does not doubt labels.
    """
    record: LabelRecord | None = getattr(model, "label_record_", None)
    if record is None or not hasattr(model, "suspect_labels"):
        return 0
    if not record.is_quickly_doubted:
        return 0
    found = model.suspect_labels(verbose=False)
    return int((found.probabilities > 0.5).sum())


def _for_new(as_new: Array, unknown: NDArray[np.bool_], left: Array, known: Array) -> Array:
    """Return the intercepts under which new rows have the shares that are known, (K,).

    They are found from rows without a label, treated as new: of labelled rows the model knows too
    much. These rows have the shares that labels leave over; by Bayes' rule, other shares change the
    odds by the same factor.

    Parameters
    ----------
    as_new : (n, K) class probabilities of rows as if they were new
    unknown : (n,) which of them have no label
    left, known : (K,) shares of the classes among these, and among all rows
    """
    if not unknown.any():
        return pooling.intercepts_for(as_new, known)
    return pooling.intercepts_for(as_new[unknown], left) + np.log(known) - np.log(left)


def _chance_of_classes(rng: np.random.Generator, drawn: Array) -> Array:
    """Return how far drawn classes are from their probabilities; (S, m, K) -> (S, K).

    The variance is that of a single row, to be divided by the number of rows of a mean.
    """
    below = np.cumsum(drawn, axis=2)
    place = rng.random(drawn.shape[:2]) * below[..., -1]
    codes, counts = np.zeros(place.shape, np.intp), np.empty((len(drawn), drawn.shape[2]))
    for k in range(drawn.shape[2]):
        codes += place > below[..., k]
    for k in range(drawn.shape[2]):
        counts[:, k] = np.count_nonzero(codes == k, axis=1)
    return np.asarray((counts - drawn.sum(axis=1)) / np.sqrt(drawn.shape[1]))


def _chance_of_rows(rng: np.random.Generator, proba: Array) -> Array:
    """Return differences as between single rows drawn at random; (u, K) -> (SHARE_DRAWS, K)."""
    apart = proba - proba.mean(axis=0)
    return np.asarray(rng.standard_normal((SHARE_DRAWS, len(apart))) @ apart / np.sqrt(len(apart)))


def _sureness(labels: PartialLabels) -> Array:
    """Return how sure the class of each row is by its label alone, (n,): its weight, at most 1."""
    if labels.weights is None:
        return labels.is_labelled.astype(float)
    return np.where(labels.is_labelled, np.minimum(labels.weights, 1.0), 0.0)


def _left_over(labels: PartialLabels, proba: Array, shares: Array) -> Array:
    """Return the shares of the classes among unlabelled rows, given those among all, (K,).

    Parameters
    ----------
    proba : (n, K) of all rows; those of labelled rows count as far as their labels do not
    """
    wanted, sure = len(labels.codes) * shares, _sureness(labels)
    known = np.bincount(labels.codes, sure, minlength=len(shares))
    taken = known + (labels.is_labelled - sure) @ proba
    left = np.maximum(wanted - taken, 0.5 * np.minimum(1.0, wanted))
    return left / left.sum()
