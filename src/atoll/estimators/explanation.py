"""What the default classifier found to hold, in words."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from atoll.core.shown import readable

WORDS = {
    "clusters": "clusters of near rows, without exceptions",
    "neighbours": "near rows, with exceptions",
    "signal": "near rows, once the noise of the columns is left out",
    "line": "a line through the columns",
    "whitened": "a line through the main directions of the columns",
    "smooth": "a smooth function of distance",
    "columns": "a sum over the columns, each by its ranks",
    "nothing": "nothing in the rows",
}
LEAST_SHOWN = 0.005
MOST_ODDS = 1e6
CLEAR, AGREES = 5.0, 0.6  # clarity and agreement from which they are called so
UNSURE = 0.4  # log odds against chance below which nothing is told


class Assumption(NamedTuple):
    """One assumption and what the labels say of it.

    name : as in `weights_`
    weight : in the average
    log_odds : log of how many times more probable it makes the labels than the labels' shares do
    """

    name: str
    weight: float
    log_odds: float


@readable
class Explanation(NamedTuple):
    """Every assumption, the weightiest first when printed.

    assumptions : all of them
    n_labels : that they are weighed by
    compared : whether they are; with very many classes the graph stands alone
    clarity : of the graph's clusters: the error of a guess over the error that they state
    agreement : of the clusters with the assumption that agrees most, beyond chance: 0 to 1
    one_column : how far a single column of few values foretells the clusters: 0 to 1
    """

    assumptions: tuple[Assumption, ...]
    n_labels: int
    compared: bool = True
    clarity: float = 1.0
    agreement: float = 0.0
    one_column: float = 0.0

    @property
    def log_odds_of_any(self) -> float:
        """Log of how many times more probable the best assumption makes the labels than none."""
        return max(a.log_odds for a in self.assumptions)

    def __str__(self) -> str:
        ranked = sorted(self.assumptions, key=lambda a: -a.weight)
        lines = [self._headline(ranked)]
        for a in ranked:
            if a.weight >= LEAST_SHOWN:
                lines.append(f"  {a.weight:5.1%}  {WORDS[a.name]} ({_odds(a.log_odds)})")
        if self.compared:
            lines.append(self._clusters())
        return "\n".join(lines)

    def _clusters(self) -> str:
        """Say why clusters are believed before the labels, or not."""
        clear = "clear" if self.clarity >= CLEAR else "not clear"
        draws = "draws" if self.agreement >= AGREES else "hardly draws"
        said = (
            "A percentage is what the assumption counts in the probabilities. It rests on the "
            "labels, and on what the rows show without them. Clusters of near rows are "
            f"{clear}: they expect 1 wrong row where a guess has {self.clarity:.0f}. Another "
            f"assumption {draws} the same classes: they agree by {self.agreement:.2f}, where 0 is "
            "chance and 1 is always."
        )
        if self.one_column >= AGREES:
            said += (
                " But they are little more than the values of a single column "
                f"({self.one_column:.2f} of them beyond chance), which would be clear of each "
                "other whatever the classes."
            )
        return said

    def _headline(self, ranked: list[Assumption]) -> str:
        if not self.compared:
            return "With so many classes assumptions are not compared: the graph stands alone."
        first, second = ranked[:2]
        if first.name == "nothing" or self.log_odds_of_any < UNSURE:
            return (
                f"I cannot tell: {self.n_labels} labels follow nothing in the rows more than "
                "chance would have it."
            )
        ratio = np.exp(np.clip(first.log_odds - second.log_odds, -20, np.log(MOST_ODDS)))
        if ratio >= 3.0:
            return (
                f"The labels follow {WORDS[first.name]}, rather than {WORDS[second.name]}: that "
                f"makes them {_plain(float(ratio))} times likelier."
            )
        return (
            f"The labels seem to follow {WORDS[first.name]}; {self.n_labels} labels do not tell "
            f"it from {WORDS[second.name]}."
        )


def _odds(log_odds: float) -> str:
    """Say how much likelier the labels are under an assumption than by chance."""
    if log_odds >= np.log(MOST_ODDS):
        return "labels more than a million times likelier than by chance"
    times = np.exp(abs(log_odds))
    if float(f"{times:.3g}") == 1.0:
        return "labels as likely as by chance"
    word = "likelier" if log_odds > 0 else "less likely"
    return f"labels {_plain(min(float(times), MOST_ODDS))} times {word} than by chance"


def _plain(number: float) -> str:
    """Return a number of three digits, without an exponent."""
    rounded = float(f"{number:.3g}")
    return f"{rounded:,.0f}" if rounded >= 100 else f"{rounded:g}"
