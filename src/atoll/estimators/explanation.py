"""What the default classifier found to hold, in words."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from atoll.core.shown import readable
from atoll.models.average.recipe import column_of

WORDS = {
    "clusters": "clusters of near rows, without exceptions",
    "neighbours": "near rows, with exceptions",
    "signal": "near rows, once the noise of the columns is left out",
    "line": "a line through the columns",
    "whitened": "a line through the main directions of the columns",
    "smooth": "a smooth function of distance",
    "detail": "a function of distance with more detail",
    "columns": "a sum over the columns, each by its ranks",
    "nothing": "nothing in the rows",
}
NUMBERED = re.compile(r"\bcolumn (\d+) alone\b")  # as `in_words` says it
LEAST_SHOWN = 0.005
MOST_ODDS = 1e6
CLEAR, AGREES = 5.0, 0.6  # clarity and agreement from which they are called so
UNSURE = 0.4  # log odds against chance below which labels are said to follow nothing
# Log odds of the best assumption against none that labels should give: a constant, more for each
# label, and at most the last, which chance hardly reaches however many labels there are.
TELLING, TELLING_PER_LABEL, MOST_TELLING = 1.0, 0.15, 5.0
SAME = np.log(1.005)  # log odds closer to zero than this are said to be even
TELLS = 3.0  # times likelier, from which on labels tell one assumption from another
TWICE = 2.0  # times the weight of the second that the first needs to be named alone
DOMINANT = 0.9  # weight from which on an assumption is followed, whatever the labels tell
ENOUGH_LABELS = 8  # labels from which on it is said that they follow nothing


class Assumption(NamedTuple):
    """One assumption and what the labels say of it.

    name : as in `weights_`
    weight : in the average
    log_odds : log of how many times more probable it makes the labels than the labels' shares do
    by_rule : its weight by Bayes' rule; None: that is its weight
    log_before : log of its odds before the labels; None: they follow from that weight
    """

    name: str
    weight: float
    log_odds: float
    by_rule: float | None = None
    log_before: float | None = None


@readable
class Explanation(NamedTuple):
    """Every assumption, the weightiest first when printed.

    assumptions : all of them
    n_labels : labels by which they are weighed
    compared : whether they were compared: not if labels of many classes cannot be left out
    clarity : of the graph's clusters: the error of a guess over the error that they state
    agreement : of the clusters with the assumption that agrees most, beyond chance: 0 to 1
    one_column : how well a single column of few values predicts the clusters: 0 to 1
    n_wrong : labels that are more likely wrong than right
    columns : names of the columns, if they are known
    n_columns : columns that are not constant: any of them might be the one that classes follow
    """

    assumptions: tuple[Assumption, ...]
    n_labels: int
    compared: bool = True
    clarity: float = 1.0
    agreement: float = 0.0
    one_column: float = 0.0
    n_wrong: int = 0
    columns: tuple[str, ...] = ()
    n_columns: int = 1

    @property
    def log_odds_of_any(self) -> float:
        """Log of how many times more probable the best assumption makes the labels than none.

        Of many columns one tells some labels by chance: a column alone counts as one picked out of
        all of them, each as likely before the labels.
        """
        one_of_many = np.log(max(self.n_columns, 1))
        return max(
            a.log_odds - (0.0 if column_of(a.name) is None else one_of_many)
            for a in self.assumptions
        )

    @property
    def before(self) -> dict[str, float]:
        """Name -> weight of each assumption before the labels; the sum is one.

        By Bayes' rule the weights are these, times how likely the labels are under each.
        """
        log_before = np.array([_log_before(a) for a in self.assumptions])
        shares = np.exp(log_before - log_before.max())
        names = (a.name for a in self.assumptions)
        return dict(zip(names, (shares / shares.sum()).tolist()))

    @property
    def tells_little(self) -> bool:
        """Whether labels, though enough of them, follow nothing clearly more than by chance."""
        wanted = min(TELLING + TELLING_PER_LABEL * self.n_labels, MOST_TELLING)
        enough = self.compared and self.n_labels >= ENOUGH_LABELS
        return enough and self.log_odds_of_any < wanted

    @property
    def follows_nothing(self) -> bool:
        """Whether the labels, however few, show no assumption to hold."""
        return self.compared and (self._by_chance() or self.tells_little)

    def _words(self, a: Assumption) -> str:
        return in_words(a.name, self.columns)

    def _by_chance(self) -> bool:
        return self._ranked()[0].name == "nothing" or self.log_odds_of_any < UNSURE

    def headline(self) -> str:
        """Return which assumption the labels follow, in a sentence."""
        return self._headline(self._ranked())

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Return header and rows of a table of the assumptions that count, as text."""
        ranked, before = self._ranked(), self.before
        first = ranked[0].log_odds
        rows = []
        for a in (a for a in ranked if a.weight >= LEAST_SHOWN):
            said = _odds(a.log_odds, None if a is ranked[0] else first) if self.compared else ""
            was = [f"{before[a.name]:.1%}"] * self.compared
            rows.append([f"{a.weight:.1%}", *was, self._words(a), said])
        rest = [a for a in ranked if a.weight < LEAST_SHOWN]
        if rest and self.compared:
            now, was_before = sum(a.weight for a in rest), sum(before[a.name] for a in rest)
            name = self._words(rest[0]) if len(rest) == 1 else f"{len(rest)} others"
            said = _odds(rest[0].log_odds, first) if len(rest) == 1 else ""
            rows.append([f"{now:.1%}", f"{was_before:.1%}", name, said])
        return ["now", *(["before"] * self.compared), "the labels follow", "which makes them"], rows

    def summary(self) -> str:
        """Return how many labels look wrong, what the table's numbers are, and more of clusters."""
        said = [self._clusters()] if self.compared else []
        if self.n_wrong:
            said.insert(0, likely_wrong_in_words(self.n_wrong, "suspect_labels()"))
        return " ".join(said)

    def _ranked(self) -> list[Assumption]:
        return sorted(self.assumptions, key=lambda a: -a.weight)

    def _parts(self) -> list[Any]:
        return [self.headline(), self.table(), self.summary()]

    def __str__(self) -> str:
        header, rows = self.table()
        lines = [self.headline(), "  ".join(f"{name:>6}" for name in header[:-1])]
        for *shares, name, said in rows:
            numbers = [f"{share:>6}" for share in shares]
            lines.append("  ".join([*numbers, f"{name} (labels {said})" if said else name]))
        return "\n".join([*lines, self.summary()]).rstrip()

    def _clusters(self) -> str:
        """Say what the percentages are, and how far clusters are believed before the labels."""
        said = (
            "A percentage is the weight of an assumption in the probabilities, now and before the "
            f"labels. {self._rule()}"
        )
        if all(a.name != "clusters" for a in self.assumptions):
            return said
        clear = "clear" if self.clarity >= CLEAR else "not clear"
        draws = "draws" if self.agreement >= AGREES else "hardly draws"
        said += (
            " Before the labels, clusters weigh more the clearer they are, and the more another "
            f"assumption agrees with them. Here clusters of near rows are {clear}: they expect "
            f"{_wrong(self.clarity)}. Another assumption {draws} the same classes: the two agree "
            f"by {self.agreement:.2f}, where 0 is chance and 1 is always."
        )
        if self.one_column >= AGREES:
            said += (
                " But clusters are little more than the values of a single column "
                f"({self.one_column:.2f} of them beyond chance), which would be clear of each "
                "other whatever the classes."
            )
        return said

    @property
    def _is_moved(self) -> bool:
        """Whether weights are not those of Bayes' rule alone."""
        return any(a.by_rule is not None and a.by_rule != a.weight for a in self.assumptions)

    def _rule(self) -> str:
        """Say what the weights now follow from."""
        if not self._is_moved:
            return (
                "The weight now is the weight before, times how likely the labels are if the "
                "assumption holds; all weights are then scaled to add up to 100%."
            )
        return (
            "The weight now follows from how likely the labels are if the assumption holds, and, "
            "the more labels there are, from how well the assumptions together predict each label "
            "from the others."
        )

    def _headline(self, ranked: list[Assumption]) -> str:
        if not self.compared:
            return (
                "Labels cannot tell which assumption holds: with so many classes they do so by "
                "being left out, and every label is the only one of its class. Assumptions count "
                "as they did before the labels."
            )
        first, second = ranked[:2]
        if self.follows_nothing:
            clearly = "clearly " if self.tells_little and not self._by_chance() else ""
            return (
                f"I cannot tell: {self.n_labels} labels follow nothing in the rows {clearly}more "
                "than chance would have it."
            )
        one, other = f'"{self._words(first)}"', f'"{self._words(second)}"'
        apart = first.log_odds - second.log_odds
        ratio = np.exp(np.clip(apart, -20, np.log(MOST_ODDS)))
        if ratio >= TELLS and first.weight >= TWICE * second.weight:
            return (
                f"The labels follow {one}, rather than {other}: that makes them "
                f"{_times(apart)} likelier."
            )
        if ratio >= TELLS or (self._is_moved and ratio <= 1.0 / TELLS):
            return (
                f"The labels may follow {one} or {other}: these count {first.weight:.0%} and "
                f"{second.weight:.0%}."
            )
        if first.weight >= DOMINANT:
            counts = "over 99%" if first.weight >= 0.995 else f"{first.weight:.0%}"
            return (
                f"The labels are taken to follow {one}, which counts {counts}: the rows "
                f"speak for it, but {self.n_labels} labels alone cannot tell it from {other}."
            )
        return (
            f"The labels seem to follow {one}, but {self.n_labels} labels cannot tell it from "
            f"{other}."
        )


def in_words(name: str, columns: Sequence[str] = ()) -> str:
    """Return what classes follow under an assumption.

    Parameters
    ----------
    columns : their names, if they are known

    Examples
    --------
    >>> in_words("column 1"), in_words("column 1", ["length", "width"])
    ('column 1 alone', 'width alone')
    """
    j = column_of(name)
    if j is None:
        return WORDS[name]
    return f"{columns[j] if columns else name} alone"


def with_names(said: str, columns: Sequence[str]) -> str:
    """Return what was said, with columns that classes may follow alone under their names.

    Examples
    --------
    >>> with_names('The labels follow "column 1 alone".', ["length", "width"])
    'The labels follow "width alone".'
    """
    if not len(columns):
        return said
    return NUMBERED.sub(lambda found: f"{columns[int(found[1])]} alone", said)


def call_columns(model: Any, columns: Sequence[str]) -> None:
    """Let a fitted model call its columns by their names, if these are known and it names any."""
    if len(columns) and hasattr(model, "explanation_"):
        model.explanation_ = model.explanation_._replace(columns=tuple(map(str, columns)))
        verdict = with_names(model.diagnostics_["verdict"], columns)
        model.diagnostics_ = model.diagnostics_ | {"verdict": verdict}


def _log_before(a: Assumption) -> float:
    """Return the log of an assumption's odds before the labels, up to a constant for all."""
    if a.log_before is not None:
        return a.log_before
    by_rule = a.weight if a.by_rule is None else a.by_rule
    # No weight: none before the labels either.
    return float(np.log(by_rule)) - a.log_odds if by_rule > 0 else -np.inf


def likely_wrong_in_words(n: int, suspects: str = "") -> str:
    """Say that n labels look wrong, as the beginning of a sentence, or a whole one.

    Parameters
    ----------
    suspects : what lists them; the sentence then ends with it

    Examples
    --------
    >>> likely_wrong_in_words(1)
    '1 label is more likely wrong than right'
    >>> likely_wrong_in_words(1, "suspect_labels()")
    '1 label is more likely wrong than right: suspect_labels() lists it first.'
    """
    said = f"{'1 label is' if n == 1 else f'{n} labels are'} more likely wrong than right"
    if not suspects:
        return said
    return f"{said}: {suspects} lists {'it' if n == 1 else 'them'} first."


def weights_in_words(assumptions: Sequence[Any], weights: Iterable[float]) -> str:
    """Return the assumptions that count, in words, the weightiest first.

    Parameters
    ----------
    assumptions : each with a `name`
    weights : of each
    """
    named = sorted(zip(weights, (one.name for one in assumptions)), reverse=True)
    return ", ".join(
        f"{in_words(name).replace(', ', ' ')} {weight:.1%}"
        for weight, name in named
        if weight >= LEAST_SHOWN
    )


def _wrong(clarity: float) -> str:
    """Say how many wrong rows the clusters expect, compared with a guess of the same rows."""
    times = f"{clarity:.0f}"
    if times == "1":
        return "as many wrong rows as a guess of the same rows would have"
    return f"1 wrong row for every {times} that a guess of the same rows would have"


def _odds(log_odds: float, first: float | None = None) -> str:
    """Say how much likelier the labels are under an assumption than by chance.

    Beyond a million, they are compared with the first assumption instead, of log odds `first`.
    """
    if log_odds >= np.log(MOST_ODDS):
        if first is None:
            return "more than a million times likelier than by chance"
        apart = abs(first - log_odds)
        if apart < SAME:
            return "as likely as by the first"
        word = "less likely" if first > log_odds else "likelier"
        return f"{_times(apart)} {word} than by the first"
    if abs(log_odds) < SAME:
        return "as likely as by chance"
    word = "likelier" if log_odds > 0 else "less likely"
    return f"{_times(abs(log_odds))} {word} than by chance"


def _times(log_ratio: float) -> str:
    """Say how many times, by its log; beyond a million no more is said than that.

    Examples
    --------
    >>> _times(np.log(333_333)), _times(30.0)
    ('333,000 times', 'more than a million times')
    """
    if log_ratio >= np.log(MOST_ODDS):
        return "more than a million times"
    return f"{_plain(float(np.exp(log_ratio)))} times"


def _plain(number: float) -> str:
    """Return a number of three digits, without an exponent."""
    rounded = float(f"{number:.3g}")
    return f"{rounded:,.0f}" if rounded >= 100 else f"{rounded:g}"
