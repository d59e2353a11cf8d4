"""What was tuned of the average over assumptions, in one frozen object.

The numbers were chosen on label draws of their own: of tasks whose classes follow the graph, of 43
ordinary tables, of half of the SSL book's splits, and of permuted labels.
`benchmarks/results/default.md` measures them on others.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from atoll.models.graph_recipe import RECIPE as GRAPH_RECIPE
from atoll.models.graph_recipe import Recipe as GraphRecipe


@dataclass(frozen=True)
class Belief:
    """What is believed of an assumption before it is held against the labels.

    Attributes
    ----------
    odds, slope : float
        Odds of the assumption relative to the others: the first at one label per class, times
        labels per class to the power of the second.
    log_amplitude, spread : float
        Mean and standard deviation of the log variance of its functions, in units of the noise.
    """

    odds: float
    slope: float = 0.0
    log_amplitude: float = 3.0
    spread: float = 2.5

    def log_odds(self, labels_per_class: float) -> float:
        """Return the log odds with so many labels per class.

        Examples
        --------
        >>> round(float(np.exp(Belief(2.0, 1.0).log_odds(3.0))), 6)
        6.0
        """
        return float(np.log(self.odds) + self.slope * np.log(max(labels_per_class, 1.0)))

    def times(self, factor: float) -> Belief:
        """Return the belief with odds that many times as large."""
        return replace(self, odds=factor * self.odds)


COLUMN = "column"


def of_column(j: int) -> str:
    """Return the name of the assumption that classes follow one column alone.

    Examples
    --------
    >>> column_of(of_column(4)), column_of("columns")
    (4, None)
    """
    return f"{COLUMN} {j}"


def column_of(name: str) -> int | None:
    """Return the column that classes follow alone; None under any other assumption."""
    first, _, last = name.partition(" ")
    return int(last) if first == COLUMN and last else None


@dataclass(frozen=True)
class Rising:
    """A share that rises with the labels per class.

    Attributes
    ----------
    share : float
        At most.
    none_at, full_at : float
        Labels per class up to which it is zero, and from which on it is what it is at most.
    """

    share: float
    none_at: float
    full_at: float

    def at(self, labels_per_class: float) -> float:
        """Return the share with so many labels per class.

        Examples
        --------
        >>> Rising(0.5, 2.0, 4.0).at(3.0)
        0.25
        """
        part = (labels_per_class - self.none_at) / (self.full_at - self.none_at)
        return self.share * min(max(part, 0.0), 1.0)


@dataclass(frozen=True)
class RegressionRecipe:
    """Every tuned number of the regression on labels, which stands alone where classes are many.

    Attributes
    ----------
    of_two, of_more : Rising
        Its share of all that has label noise, where propagation stands beside it: with two
        classes, and with more.
    amplitudes : tuple of float
        Variances of the functions, in units of the regression's noise.
    log_sureness, log_sureness_slope, sureness_spread : float
        Mean of log β at an amplitude of one, by how much it falls with the amplitude's logarithm,
        and its standard deviation, before the labels.
    sureness_step : float
        By which log β is moved in search of the best.
    least_share : float
        Of an amplitude, relative to the largest; below, it is left out.
    odds : tuple of (name, odds)
        Of the assumptions.
    nothing_beside : float
        Odds that rows tell nothing, where propagation stands beside it.
    worth : float
        What the weights by these odds are worth, in labels.
    least_weight : float
        Of an assumption; below, it is left out of predictions.
    most_landmarks : int
        Rows by which functions of distance and sums over columns are represented, at most.
    finer_labels_a_class : int
        Labels a class from which on a graph of fewer neighbours is tried.
    doubting_classes : int
        Classes from which on it tells which labels may be wrong, in place of propagation.
    """

    of_two: Rising = Rising(0.35, 6.0, 16.0)
    of_more: Rising = Rising(0.5, 0.0, 4.0)
    amplitudes: tuple[float, ...] = (0.25, 1.0, 4.0, 16.0, 64.0)
    log_sureness: float = 1.5
    log_sureness_slope: float = 0.15
    sureness_spread: float = 0.4
    sureness_step: float = 0.4
    least_share: float = 5e-2
    odds: tuple[tuple[str, float], ...] = (
        ("neighbours", 8.0),
        ("signal", 1.5),
        ("line", 1.0),
        ("whitened", 0.7),
        ("smooth", 3.0),
        ("detail", 2.0),
        ("columns", 2.0),
        (COLUMN, 1.0),
        ("nothing", 1.0),
    )
    nothing_beside: float = 6.0
    worth: float = 5.0
    least_weight: float = 1e-2
    most_landmarks: int = 1000
    finer_labels_a_class: int = 4
    doubting_classes: int = 12

    def odds_of(self, name: str, n_columns: int) -> float:
        """Return the odds of an assumption; those of one column alone are shared by all columns.

        Examples
        --------
        >>> recipe = RegressionRecipe()
        >>> recipe.odds_of("column 3", 4) == recipe.odds_of("column", 1) / 4
        True
        """
        odds = dict(self.odds)
        return odds[name] if column_of(name) is None else odds[COLUMN] / max(n_columns, 1)

    def beside(self) -> RegressionRecipe:
        """Return the recipe of a regression beside propagation."""
        odds = dict(self.odds) | {"nothing": self.nothing_beside}
        return replace(self, odds=tuple(odds.items()))


@dataclass(frozen=True)
class AverageRecipe:
    """Every tuned number of the average.

    Attributes
    ----------
    clusters : Belief
        In the graph without label noise, whose classes avoid crowds of rows.
    neighbours, signal, line, whitened, smooth, detail, columns : Belief
        In the graph of all features, in the graph of the signal, in a line, in a line through the
        whitened signal, in functions that are smooth in distance, in such functions that vary over
        half the distance, and in sums over columns, each read by its ranks; all with label noise.
    column : Belief
        In one column alone, read by its ranks: the odds are those of any column, and each has its
        share of them.
    nothing : Belief
        That the rows tell nothing, and classes come in the shares that they have.
    corroboration : float
        How much clear clusters raise the odds of the first where another assumption agrees: see
        `corroboration`.
    n_witnesses : int
        Rows without labels, at most, on which they are compared.
    pooled_sharpness, sharpness_spread : float
        Power by which the average is made surer, with more than two classes: see `pooling`. It is
        that of the graph without label noise. For the other assumptions it is the square before
        the labels, with a standard deviation of its logarithm, and learnt by them.
    amplitudes, graph_amplitudes : tuple of float
        Variances of the functions that are averaged over, in units of the noise.
    constant_variance : float
        Of the constant in each function, relative to the rest.
    nugget : float
        Variance of each label's own part, relative to the rest: keeps matrices invertible.
    most_labels : int
        Labels that all assumptions but the first take; beyond, a random part of them.
    most_classes : int
        Classes up to which propagation finds posteriors; its cost grows as their square. Beyond,
        labels are regressed on alone: see `label_regression`.
    share_of_nothing : float
        Odds that rows tell nothing, where labels are doubted by a graph alone.
    regression : RegressionRecipe
        Of the regression.
    least_weight : float
        Of an assumption; below, it is left out of predictions.
    n_landmarks, most_landmarks : int
        Rows by which functions of distance and sums over columns are represented: the first, or
        as many as there are labels, up to the second.
    many_labels : int
        Labels from which on `detail` is tried, and weights are moved by how labels are foretold.
    detail_columns : int
        Columns up to which it is tried; in more, hardly any row has another near it.
    lone_columns : int
        Columns that are tried alone, at most: those that foretell labels best.
    evidence_worth : float
        What weights by evidence are worth then, in labels, times the number of labels: see
        `stacking`.
    finer_share, finer_odds : float
        Share of the neighbours asked for that a finer graph has, and its odds before the labels.
    finer_labels : int
        Labels from which it is tried; fewer cannot tell.
    finer_unreached : float
        Share of rows, at most, that labels may fail to reach on it.
    many_columns : tuple of (name, columns)
        Columns beyond which an assumption is less likely, in proportion: where they are many, all
        distances are alike, and so are sums over columns.
    direction_odds : tuple of (name, factor)
        By which odds are multiplied where rows are compared by their directions, as texts are.
    graph : GraphRecipe
        Of the graph without label noise.
    """

    clusters: Belief = Belief(3.0, -2.0)
    neighbours: Belief = Belief(0.25)
    signal: Belief = Belief(1.5)
    line: Belief = Belief(1.5)
    whitened: Belief = Belief(1.5)
    smooth: Belief = Belief(2.0)
    detail: Belief = Belief(1.0)
    columns: Belief = Belief(2.5)
    column: Belief = Belief(0.5, 0.5, 5.0, 2.0)
    nothing: Belief = Belief(7.0)
    corroboration: float = 2.2
    n_witnesses: int = 300
    pooled_sharpness: float = 1.2
    sharpness_spread: float = 0.3
    amplitudes: tuple[float, ...] = (0.15, 0.6, 2.4, 9.6, 38.0, 150.0)
    graph_amplitudes: tuple[float, ...] = (0.15, 0.6, 2.4, 9.6, 38.0, 150.0, 1300.0)
    constant_variance: float = 0.3
    nugget: float = 1e-3
    most_labels: int = 300
    most_classes: int = 25
    share_of_nothing: float = 0.02
    regression: RegressionRecipe = field(default_factory=RegressionRecipe)
    least_weight: float = 1e-3
    n_landmarks: int = 100
    most_landmarks: int = 200
    many_labels: int = 16
    detail_columns: int = 50
    lone_columns: int = 3
    evidence_worth: float = 300.0
    finer_share: float = 0.25
    finer_odds: float = 0.05
    finer_labels: int = 32
    finer_unreached: float = 0.2
    many_columns: tuple[tuple[str, int], ...] = (("smooth", 30), ("detail", 30), ("columns", 50))
    direction_odds: tuple[tuple[str, float], ...] = (
        ("clusters", 2.0),
        ("neighbours", 4.0),
        ("signal", 3.0),
        ("line", 0.1),
        ("whitened", 0.2),
        ("smooth", 0.1),
    )
    graph: GraphRecipe = field(
        default_factory=lambda: replace(
            GRAPH_RECIPE, labellings=replace(GRAPH_RECIPE.labellings, least_effective_share=0.2)
        )
    )

    def belief(self, name: str) -> Belief:
        """Return what is believed of an assumption.

        Examples
        --------
        >>> AVERAGE_RECIPE.belief("column 3") is AVERAGE_RECIPE.column
        True
        """
        found: Belief = getattr(self, name if column_of(name) is None else COLUMN)
        return found

    def fewer_neighbours(self, n_neighbors: int) -> int:
        """Return the neighbours of a finer graph.

        Examples
        --------
        >>> AVERAGE_RECIPE.fewer_neighbours(15)
        4
        """
        return max(1, round(self.finer_share * n_neighbors))

    def for_rows(self, n_columns: int, by_direction: bool) -> AverageRecipe:
        """Return the recipe with the odds that assumptions have for rows of a kind.

        Parameters
        ----------
        by_direction : whether rows are compared by their directions

        Examples
        --------
        >>> AVERAGE_RECIPE.for_rows(240, False).smooth.odds / AVERAGE_RECIPE.smooth.odds
        0.125
        """
        factors = {name: min(1.0, many / max(n_columns, 1)) for name, many in self.many_columns}
        if by_direction:
            factors = dict(self.direction_odds)
        factors[COLUMN] = 1.0 / max(n_columns, 1)
        beliefs: dict[str, Belief] = {
            name: getattr(self, name).times(factor) for name, factor in factors.items()
        }
        return replace(self, **beliefs)  # type: ignore[arg-type]


AVERAGE_RECIPE = AverageRecipe()
"""The tuned one."""
