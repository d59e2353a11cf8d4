"""Why a row has the class probabilities that it has: the labels that are near, and what each does.

Near means a short way along the graph of neighbours, from row to near row, as labels spread in
models of the graph. What a label contributes is found in two ways: for models that can say so, by
its share in what pulls the row to its class (`atoll.models.label_pulls`); and for any model, by a
fit without it.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import dijkstra
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from atoll.core.fillings import Fillings, fillings_of
from atoll.core.graphs import neighbour_graph
from atoll.core.labels import as_objects, parse_labels, with_gaps
from atoll.core.progress import progress_bar
from atoll.core.rows import COSINE, rescaled, row_squares, stacked, unit_rows
from atoll.core.shown import aligned, in_line, readable
from atoll.estimators.knowledge import read_class_prior
from atoll.models.label_pulls import label_pulls
from atoll.plotting.palette import class_names

Array = NDArray[np.float64]

N_NEIGHBOURS = 10  # of the graph along which ways are measured
MOST_ROWS = 5000  # of that graph; if there are more, a random part besides the labelled ones
MOST_LABELS = 1000  # on that graph, those nearest as the crow flies
A_NEAREST_FOR = 3  # one in this many of the labels listed is the nearest, whatever its pull
LEAST_PULL = 0.005  # a smaller pull is shown as 0%
MUCH_FARTHER, MUCH_STRONGER = 1.5, 1.5  # ratios above which a strong pull from afar is remarked on
MOST_COLUMNS_SAID, LEAST_EFFECT = 3, 0.05  # columns named at most, and their least effect
SAME_PLACE = 1e-100  # a shorter way leads to a row that is the same


class NearLabel(NamedTuple):
    """A labelled row near the one that is explained.

    row : which of the training rows, from 0
    label : its class
    n_steps : from row to near row, along the graph; 0 for the row itself or one just like it, and
        -1 if no path leads there
    length : of that path; as the crow flies if there is none
    pull : share of all labels' pull on the row, positive towards its most probable class; None if
        the model cannot say
    without : (K,) class probabilities of the row without this label; None if no fit was made
        without it, or none can be, since its class has no other label
    """

    row: int
    label: Any
    n_steps: int
    length: float
    pull: float | None
    without: Array | None


class ColumnEffect(NamedTuple):
    """A column, and the mean probability of the row's class with other rows' cells in it."""

    name: str
    otherwise: float


class OtherLabels(NamedTuple):
    """The labels that are not listed: how many, and their pulls towards the class and away."""

    n: int = 0
    towards: float = 0.0
    away: float = 0.0


@readable
class RowExplanation(NamedTuple):
    """What is predicted of a row, and the labels that it rests on, the strongest or nearest first.

    classes : (K,)
    proba : (K,) class probabilities of the row
    near : labels by the size of their pulls; if there are no pulls, by the way to them
    without_all : (K,) the probabilities without any of these labels; None if too few are left
    own_label : the row's own label in the fit, or None
    filled : columns of the row that were blank, and filled in before the model saw it
    n_columns : of the table; 0 where it is not known
    words : of a text, those of most weight
    shared : words of most weight that the text shares with each of `near`; () where it is no text
    others : pulls of the labels that are not in `near`: the sizes of all pulls sum to one
    before : probability of the most probable class before any label; None if it is not known
    names : of the rows in `near`, if the table has an index of names
    columns : the effect of each column, the largest first; () if it was not asked for
    """

    classes: NDArray[Any]
    proba: Array
    near: tuple[NearLabel, ...]
    without_all: Array | None
    own_label: Any = None
    filled: tuple[str, ...] = ()
    n_columns: int = 0
    words: tuple[str, ...] = ()
    shared: tuple[tuple[str, ...], ...] = ()
    others: OtherLabels = OtherLabels()
    before: float | None = None
    names: tuple[str, ...] = ()
    columns: tuple[ColumnEffect, ...] = ()

    def named(self, names: Sequence[str] | None) -> RowExplanation:
        """Return it with names of rows; `names` has one for each row of the fit."""
        if names is None:
            return self
        return self._replace(names=tuple(names[label.row] for label in self.near))

    @property
    def code(self) -> int:
        """Position of the most probable class."""
        return int(np.argmax(self.proba))

    def headline(self) -> str:
        """Return what is predicted, in a sentence."""
        names, order = _names(self.classes), np.argsort(-self.proba, kind="stable")
        first, second = order[:2]
        if self.classes.dtype.kind in "biuf":  # a number alone does not read as a class
            names = [f"class {name}" for name in names]
        said = f"{names[first]} with probability {_short_of_certain(self.proba[first])}"
        said += f", then {names[second]} with {_short_of_certain(self.proba[second])}."
        if self.own_label is not None:
            own = _names([self.own_label])[0]
            said += f" It, or a row just like it, was labelled {own} in the fit."
        if self.words:
            said += f" Its words of most weight: {', '.join(self.words)}."
        return said + self._about_columns() + self._about_filled()

    def _about_columns(self) -> str:
        """Say which columns the class rests on most; columns that were filled in do not count."""
        known = [column for column in self.columns if column.name not in self.filled]
        if not known:
            return ""
        p = self.proba[self.code]
        most = [c for c in known[:MOST_COLUMNS_SAID] if p - c.otherwise >= LEAST_EFFECT]
        if not most and known[0].otherwise >= p:
            return (
                " No single column carries it: with other rows' cells in any one of them the "
                "probability would not be lower."
            )
        if not most:
            least = _short_of_certain(known[0].otherwise)
            least += "" if least.startswith("more") else " or more"
            return (
                " No single column matters much: with other rows' cells in any one of them the "
                f"probability would be {least}."
            )
        first, *others = most
        then = " and ".join(f"{c.name} ({_short_of_certain(c.otherwise)})" for c in others)
        return (
            f" It rests most on {first.name}: with other rows' cells there the probability would "
            f"be {_short_of_certain(first.otherwise)}{'; then on ' * bool(then)}{then}."
        )

    def _about_filled(self) -> str:
        """Say which cells were filled in, and what that means if they are many."""
        if not self.filled:
            return ""
        said = f" Blank in this row, and filled in: {', '.join(self.filled)}"
        if 2 * len(self.filled) < self.n_columns:
            return f"{said}."
        n, known = len(self.filled), self.n_columns - len(self.filled)
        return (
            f"{said}. These are {n} of {self.n_columns} columns: the class rests on the other "
            f"{known}, with cells of like rows in the place of the rest, and may be less sure than "
            "its probability says."
        )

    def table(self, first: int = 0) -> tuple[list[str], list[list[str]]]:
        """Return header and rows of a table of the labels, as text.

        Parameters
        ----------
        first : int, default=0
            Number of the first row: 0 as in an array, 1 as in a file.
        """
        name = _names(self.classes)[self.code]
        has_pulls = any(label.pull is not None for label in self.near)
        has_fits = any(label.without is not None for label in self.near)
        header = ["row", "label", "steps", "distance"]
        header += ["pull"] * has_pulls + [f"p({name}) without it"] * has_fits
        header += ["shared words"] * bool(self.shared)
        shared = self.shared or ((),) * len(self.near)
        called = self.names or [str(label.row + first) for label in self.near]
        rows = [
            [
                name,
                _names([label.label])[0],
                "no path" if label.n_steps < 0 else str(label.n_steps),
                _distance(label),
                *(["-" if label.pull is None else _pull(label.pull)] * has_pulls),
                *([self._without(label)] * has_fits),
                *([", ".join(words) or "-"] * bool(self.shared)),
            ]
            for name, label, words in zip(called, self.near, shared)
        ]
        n, towards, away = self.others
        if has_pulls and n:
            others = ["", f"{n:,} other{'s' * (n > 1)}", "", "", f"{_pull(towards)} {_pull(-away)}"]
            rows.append(others + [""] * (len(header) - len(others)))
        return header, rows

    def summary(self) -> str:
        """Return what the labels listed contribute together, in a sentence or two."""
        n, name = len(self.near), _names(self.classes)[self.code]
        these = f"these {n} labels" if n > 1 else "this label"
        said = [self._about_ways()]
        pulls = [label.pull for label in self.near if label.pull is not None]
        if pulls:
            said += [*self._about_pulls(pulls), *self._from_afar(), *self._crosswise()]
        if self.without_all is not None:
            p, q = self.proba[self.code], self.without_all[self.code]
            said.append(
                f"Without {these} the probability of {name} would be {q:.2f} rather than {p:.2f}."
            )
        return " ".join(said)

    def _parts(self) -> list[Any]:
        return [self.headline(), self.table(), self.summary()]

    def _about_ways(self) -> str:
        """Say what steps and distances are."""
        said = (
            "Steps go from row to near row up to the label, and distance is the length of that way"
        )
        if any(label.n_steps < 0 for label in self.near):
            said += "; in brackets it is as the crow flies, where no such way leads there"
        return f"{said}."

    def _about_pulls(self, pulls: list[float]) -> list[str]:
        """Say what pulls add up to, and how they relate to the probability."""
        name = _names(self.classes)[self.code]
        towards = sum(pull for pull in pulls if pull > 0) + self.others.towards
        away = -sum(pull for pull in pulls if pull < 0) + self.others.away
        then = "" if self.before is None else f"was {self.before:.2f} before any label and "
        return [
            "Pulls are shares of all that labels do to this row: without their signs they add up "
            f"to 100%, {towards:.0%} towards {name} (+) and {away:.0%} away from it (-).",
            f"They are not parts of the probability, which {then}is "
            f"{_short_of_certain(self.proba[self.code])} by all of them: how sure they make the "
            "model counts as well.",
        ]

    def _from_afar(self) -> list[str]:
        """Say why the strongest pull is that of a label far away, if it is."""
        strongest = max(self.near, key=lambda label: abs(label.pull or 0.0))
        nearest = min(self.near, key=lambda label: label.length)
        is_far = strongest.n_steps < 0 or strongest.length > MUCH_FARTHER * nearest.length
        is_strong = abs(strongest.pull or 0.0) > MUCH_STRONGER * abs(nearest.pull or 0.0)
        if not (is_far and is_strong):
            return []
        return [
            "The strongest pull is not that of a near label: labels pull through the whole graph, "
            "and one that speaks for many rows, such as one of the few of its class, pulls them "
            "all, near or not."
        ]

    def _crosswise(self) -> list[str]:
        """Say why labels of other classes pull towards the class, or its own away, if any do."""
        name, own = _names(self.classes)[self.code], as_objects(self.classes)[self.code]
        shown = [label for label in self.near if abs(label.pull or 0.0) >= LEAST_PULL]
        for_it = [label for label in shown if label.label != own and (label.pull or 0.0) > 0]
        against = [label for label in shown if label.label == own and (label.pull or 0.0) < 0]
        said = []
        if for_it:
            said.append(
                f"Labels of other classes with a + lie where rows are unlike this one: that it is "
                f"not {name} there speaks for {name} here."
            )
        if against:
            said.append(
                f"Labels of {name} with a - lie where rows are unlike this one: that it is {name} "
                f"there speaks against {name} here."
            )
        return said

    def __str__(self) -> str:
        return "\n".join([self.headline(), *aligned(*self.table()), self.summary()])

    def _without(self, label: NearLabel) -> str:
        if label.without is None:
            return "(the only label of its class)"
        return f"{label.without[self.code]:.2f}"


def explain_row(
    model: Any,
    x: Any,
    X: Any,
    y: Any,
    *,
    n_labels: int = 5,
    refit: bool | None = None,
    progress: bool = False,
) -> RowExplanation:
    """Say which labels the prediction of a row rests on, and what each of them contributes.

    Parameters
    ----------
    model : fitted classifier, one of this library's
    x : (1, d) the row, as the model takes rows
    X, y : (n, d) and (n,) rows and labels that the model was fitted on
    n_labels : int, default=5
        Labels to list: those with the largest pulls, of either sign, and for every three of them
        the nearest along the graph; the nearest alone where the model cannot tell pulls.
    refit : bool or None, default=None
        Whether to fit clones of the model without each of these labels, and without all of them.
        None: where the model cannot tell their pulls.
    progress : bool, default=False
        Whether to show a progress bar of the refits.

    Returns
    -------
    RowExplanation
    """
    labels = parse_labels(y, unlabelled=model.unlabelled_, classes=list(model.classes_))
    fillings = fillings_of(x)
    X, x = _rows(X), _rows(x)
    proba = model._proba(x, fillings)[0]
    values, place = _in_units_of(model, X), _in_units_of(model, x)
    known = np.flatnonzero(labels.is_labelled)
    ways = _ways(values, place, known)
    targets = with_gaps(labels.classes, labels.codes, labels.is_labelled)
    pulls = label_pulls(model.posterior_, x, X[known], labels.codes[known], int(np.argmax(proba)))
    pull_of = {} if pulls is None else dict(zip(known.tolist(), pulls.tolist()))
    ways = _worth_listing(ways, pull_of, n_labels)
    again = _Refit(model, X, targets, fillings)
    refit = pulls is None if refit is None else refit
    near = [
        NearLabel(
            row,
            targets[row],
            n_steps,
            length,
            pull_of.get(row),
            again.proba(x, [row]) if refit else None,
        )
        for row, n_steps, length in progress_bar(
            ways, desc="refits", disable=not (progress and refit)
        )
    ]
    same = known[_distances(values[known], place) == 0.0]
    listed = {label.row for label in near}
    rest = np.array([pull for row, pull in pull_of.items() if row not in listed])
    others = OtherLabels(len(rest), float(rest[rest > 0].sum()), float(-rest[rest < 0].sum()))
    return RowExplanation(
        model.classes_,
        proba,
        tuple(near),
        again.proba(x, [label.row for label in near]) if refit else None,
        targets[same[0]] if len(same) else None,
        others=others,
        before=_before(model, int(np.argmax(proba))),
    )


def _names(classes: Any) -> list[str]:
    """Return classes as they stand in a sentence."""
    return [in_line(name) for name in class_names(classes)]


def _before(model: Any, code: int) -> float:
    """Return the probability of a class before any label: its known share, or the same for all."""
    prior = getattr(model, "class_prior", None)
    if prior is None:
        return 1.0 / len(model.classes_)
    return float(read_class_prior(prior, model.classes_)[code])


def _worth_listing(
    ways: list[tuple[int, int, float]], pull_of: dict[int, float], n_labels: int
) -> list[tuple[int, int, float]]:
    """Return the ways to the nearest labels, and to those that pull hardest, the hardest first.

    Half of the latter pull towards the class, if there are that many: the row owes it to them.
    """
    if not pull_of:
        return ways[:n_labels]
    by_pull = sorted(ways, key=lambda way: -abs(pull_of[way[0]]))
    nearest = ways[: n_labels // A_NEAREST_FOR]
    others, n_left = [way for way in by_pull if way not in nearest], n_labels - len(nearest)
    towards = [way for way in others if pull_of[way[0]] > 0][: n_left // 2]
    strongest = [way for way in others if way not in towards][: n_left - len(towards)]
    listed = {way[0] for way in nearest + towards + strongest}
    return [way for way in by_pull if way[0] in listed]


class _Refit(NamedTuple):
    """A model, its rows and its labels, to be fitted again with fewer of them.

    fillings : of the row that is explained
    """

    model: Any
    X: Any
    targets: NDArray[Any]
    fillings: Fillings | None

    def proba(self, x: Any, left_out: list[int]) -> Array | None:
        """Return the class probabilities of x without some labels, (K,), or None."""
        y = self.targets.copy()
        y[left_out] = None
        left = {label for label in y.tolist() if label is not None}
        classes = self.model.classes_.tolist()
        takes_missing = self.model.fits_unseen_classes
        if len(left) < (1 if takes_missing else len(classes)):
            return None
        fresh = clone(self.model)
        wanted: dict[str, Any] = {"unlabelled": None, "verbose": False, "checkpoint": None}
        if takes_missing:
            wanted["classes"] = classes
        has = fresh.get_params(deep=False)
        if has.get("random_state", 0) is None:
            wanted["random_state"] = 0
        fresh.set_params(**{name: value for name, value in wanted.items() if name in has})
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            fresh.fit(self.X, y)
        found: Array = fresh._proba(x, self.fillings)
        return found[0]


def _rows(X: Any) -> Any:
    """Return rows (n, d), one row as (1, d), sparse ones as compressed rows."""
    if sparse.issparse(X):
        return sparse.csr_array(X, dtype=np.float64)
    return np.atleast_2d(np.asarray(X, dtype=np.float64))


def _distances(values: Any, place: Any) -> Array:
    """Return the distance of rows (n, d) from a place (1, d), (n,)."""
    return np.sqrt(row_squares(values - place[np.zeros(values.shape[0], np.intp)]))


def _in_units_of(model: Any, values: Any) -> Any:
    """Return rows in the units in which the model measures distances."""
    posterior = model.posterior_
    if getattr(posterior, "metric", "euclidean") == COSINE:
        return unit_rows(values)
    if hasattr(posterior, "shift") and hasattr(posterior, "scale"):
        return rescaled(values, posterior.shift, posterior.scale)
    return values


def _ways(values: Any, place: Any, known: NDArray[np.intp]) -> list[tuple[int, int, float]]:
    """Return labelled rows, steps and length of the way to each, the shortest first."""
    straight = _distances(values, place)
    known = known[np.argsort(straight[known], kind="stable")[:MOST_LABELS]]
    others = np.setdiff1d(np.arange(len(straight)), known)
    others = others[straight[others] > 0.0]  # the row itself is there already
    others = np.random.default_rng(0).permutation(others)[: MOST_ROWS - len(known)]
    rows = np.concatenate([known, others])
    graph = neighbour_graph(stacked(place, values[rows]), min(N_NEIGHBOURS, len(rows)))
    # Zero would mean that there is no edge; copies are a step of almost no length.
    lengths = graph.distances.copy()
    lengths.data = np.maximum(lengths.data, np.finfo(float).tiny)
    length, before = dijkstra(lengths, directed=False, indices=0, return_predecessors=True)
    found = []
    for i, row in enumerate(known, start=1):
        if np.isfinite(length[i]):
            found.append((int(row), _n_steps(before, length, i), float(length[i])))
        else:
            found.append((int(row), -1, float(straight[row])))
    return sorted(found, key=lambda way: (way[1] < 0, way[2]))


def _n_steps(before: NDArray[Any], length: Array, place: int) -> int:
    """Return the number of steps to a place; going from a row to one just like it is not a step."""
    n = 0
    while place != 0:
        earlier = int(before[place])
        n += bool(length[place] - length[earlier] > SAME_PLACE)
        place = earlier
    return n


def _short_of_certain(p: float) -> str:
    """Return a probability with two decimals; only 0 is shown as 0.00, and only 1 as 1.00."""
    if 0.995 <= p < 1.0:
        return "more than 0.99"
    return "less than 0.01" if 0.0 < p < 0.005 else f"{p:.2f}"


def _distance(label: NearLabel) -> str:
    """Return the length of the way to a label, in brackets where it is as the crow flies."""
    length = f"{0.0 if label.length < SAME_PLACE else label.length:.3g}"
    return f"({length})" if label.n_steps < 0 else length


def _pull(share: float) -> str:
    """Return a pull in percent; one that rounds to 0 has no sign.

    Examples
    --------
    >>> _pull(0.123), _pull(-0.002)
    ('+12%', '0%')
    """
    return f"{share:+.0%}" if abs(share) >= LEAST_PULL else "0%"
