"""What a fit of the default is made of: its features, its posteriors, and what is said of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from atoll.core.labels import PartialLabels, part_of_labels
from atoll.core.rows import COSINE
from atoll.estimators.atoll_rows import Rows, Scaled
from atoll.estimators.atoll_verdict import Facts
from atoll.estimators.explanation import Assumption, Explanation
from atoll.estimators.graph_rows import (
    RowGraph,
    near_labels,
    with_rows_apart,
)
from atoll.estimators.label_records import label_counts, told_of
from atoll.models.average import average, heads, label_regression, stacking, views
from atoll.models.average.average import AveragePosterior, Component, Head, Weighed
from atoll.models.average.corroboration import Corroboration, corroboration
from atoll.models.average.label_doubts import LabelRecord
from atoll.models.average.label_regression import Regression, Regressions, counts_left_out, regress
from atoll.models.average.lone_columns import most_telling
from atoll.models.average.recipe import AverageRecipe, RegressionRecipe, column_of, of_column
from atoll.models.average.views import GraphView, View
from atoll.models.graph_gp import GraphLabels
from atoll.models.graph_posterior import FeaturePosterior

Array = NDArray[np.float64]
Index = NDArray[np.intp]

PLANE = 3  # up to this many columns, none is noise: no graph of their signal, and no sum over them
MOST_VOTES = 300  # labels by which columns are chosen
BY_REGRESSION: dict[str, Any] = {
    "likelihood": "probit",
    "inference": "regression on the labels",
    "converged": True,  # there is nothing to search for
    "verdict": "Classes are many: labels were regressed on, and nothing was sampled.",
}
"""Diagnostics of a fit without chains."""


class Weighing(NamedTuple):
    """What a fit has found once the assumptions are weighed.

    kept, labelled : rows of the graphs, and labelled ones, among all
    scaled, data : the rows of the graphs, and what is known of them
    graph, n_neighbors : of all features, and how many neighbours a row has in it
    seen : views of the rows, by the names of their assumptions
    bold : posterior of the graph without label noise; None where classes are many
    problems : posteriors of some labels under each assumption; of many classes the regressions
    assumptions : all of them, weighed
    weights : of the assumptions under these posteriors
    seconded : what rows without labels say of the graph without label noise
    some : labels by which assumptions were weighed
    foretold : (l, K) what the average says of the labelled rows, each without its own label; None
        where labels cannot be held out
    beside : labels regressed on beside these posteriors; None where they are not
    share_beside : what that counts in the average
    """

    kept: Index
    labelled: Index
    scaled: Scaled
    data: Rows
    graph: RowGraph
    n_neighbors: int
    seen: dict[str, View]
    bold: FeaturePosterior | None
    problems: heads.Problems | Regressions
    assumptions: list[Weighed]
    weights: Array
    seconded: Corroboration
    some: Index
    foretold: Array | None
    beside: Regressions | None = None
    share_beside: float = 0.0

    def all_weights(self) -> Array:
        """Return the weights of the assumptions in the average, however they were found."""
        if self.beside is None:
            return self.weights
        share, found = self.share_beside, self.beside
        of_beside = {a.name: w for a, w in zip(found.assumptions, found.weights)}
        more = np.array([of_beside.get(a.name, 0.0) for a in self.assumptions])
        return (1.0 - share) * self.weights + share * more

    def held_out(self) -> Array | None:
        """Return what regressions alone say of labelled rows without their labels, (l, K).

        Of a group one row is asked. None where there is more than regressions.
        """
        return self.foretold if isinstance(self.problems, Regressions) else None

    def with_beside(self, record: LabelRecord, recipe: RegressionRecipe) -> LabelRecord:
        """Return the record, in which what is said of labels left out is that of the average.

        Where propagation would take long to doubt labels, regressions alone do.
        """
        if self.beside is None or record.held_out is None:
            return record
        share, foretold = self.share_beside, self.beside.foretold
        held_out = (1.0 - share) * record.held_out + share * foretold
        if record.n_classes < recipe.doubting_classes:
            return record._replace(held_out=held_out)
        return record.by_regression(held_out, foretold)

    def explanation(self) -> Explanation:
        """Return the weights with the evidence that they follow from."""
        compared = not isinstance(self.problems, Regressions) or self.problems.is_compared
        n_labels, weights = len(told_of(self.data.labels)), self.all_weights()
        found = explanation_of(self.assumptions, weights, n_labels, compared, self.seconded)
        return found._replace(n_columns=self.data.n_telling)


def graph_features(view: GraphView, data: Rows) -> Array:
    """Return the features of the rows that may have a label: the graph's, and those outside."""
    if not data.outside.shape[0]:
        return view.values
    return np.concatenate([view.values, view.features(data.outside)])


def at_labels(view: View, data: Rows) -> Array:
    """Return the features of the labelled rows, (l, p)."""
    if isinstance(view, GraphView):
        return graph_features(view, data)[data.labelled]
    return view.features(data.every[data.labelled])


def known_labels(
    first: GraphView, data: Rows, graph: RowGraph, class_shares: Array | None
) -> GraphLabels:
    """Return what is known of the rows of the first graph, and of those outside it."""
    n_more, labels = data.outside.shape[0], data.labels
    return GraphLabels(
        graph_features(first, data),
        data.labelled,
        data.codes,
        len(labels.classes),
        with_rows_apart(graph.weights, n_more),
        np.concatenate([data.copies, np.ones(n_more)]),
        None if labels.is_chosen is None else labels.random_counts,
        labels.weights,
        class_shares,
    )


def infer(
    seen: Mapping[str, View],
    data: Rows,
    some: Index,
    recipe: AverageRecipe,
    wrong_shares: tuple[float, ...],
) -> heads.Problems:
    """Find the posteriors of some of the labels under every assumption with label noise."""
    codes, K = data.codes[some], len(data.labels.classes)
    per_class = average.labels_per_class(data.codes, K, data.labels.weights)
    features, amplitudes, priors = [], [], []
    for name, view in seen.items():
        on_graph = isinstance(view, GraphView)
        belief = recipe.belief(name)
        features.append(at_labels(view, data)[some])
        amplitudes.append(np.array(recipe.graph_amplitudes if on_graph else recipe.amplitudes))
        prior = average.amplitude_prior(belief, amplitudes[-1])
        priors.append(prior + belief.log_odds(per_class))
    weights, nugget = data.labels.of(some).weights, recipe.nugget
    parts = [
        heads.infer(features, amplitudes, codes, K, nugget, weights, wrong, priors)
        for wrong in wrong_shares
    ]
    return parts[0] if len(parts) == 1 else heads.merged(parts)


def column_views(data: Rows, n_landmarks: int, constant: float, n_lone: int) -> dict[str, View]:
    """Return the sum over columns, and those columns that labels may follow alone.

    Parameters
    ----------
    constant : the last feature
    n_lone : columns alone, at most
    """
    n_columns, seen = data.rows.shape[1], dict[str, View]()
    if not (1 < n_columns <= views.MOST_COLUMNS and data.has_plain_columns):
        return {}
    ranked = views.ranked(data.every, data.copies, data.labelled, n_landmarks)
    if n_columns > PLANE:
        seen["columns"] = ranked.sum_over(constant)
    if not n_lone:
        return seen
    told = told_of(data.labels)
    some = told[part_of_labels(np.random.default_rng(0), data.codes[told], MOST_VOTES)]
    labels, K = data.labels.of(some).as_given(), len(data.labels.classes)
    found = most_telling(ranked.labelled[some], labels.codes, K, n_lone, labels.weights)
    return seen | {of_column(int(j)): ranked.sum_over(constant, np.array([j])) for j in found}


def telling(view: View, data: Rows, recipe: RegressionRecipe) -> Regression:
    """Regress the labels that can be left out on one view."""
    some = told_of(data.labels)
    given = data.labels.of(some).as_given()
    features, counts = at_labels(view, data)[some], counts_of_left_out(given)
    K = len(given.classes)
    return regress(features, given.codes, K, counts, recipe, given.weights)


def log_left_out(view: View, data: Rows, recipe: RegressionRecipe) -> float:
    """Return the log probability of the labels, each regressed on the others, on one view."""
    given = data.labels.of(told_of(data.labels)).as_given()
    told = telling(view, data, recipe).held_out
    return label_regression.log_probability(told, given.codes, counts_of_left_out(given))


def regressions(seen: Mapping[str, View], data: Rows, recipe: RegressionRecipe) -> Regressions:
    """Regress the labels on every view, those of groups as well, and weigh the views."""
    labels, given = data.labels, data.labels.of(told_of(data.labels)).as_given()
    K, counts = len(labels.classes), counts_of_left_out(given)
    parts = [telling(view, data, recipe) for view in seen.values()]
    found = label_regression.weigh(
        list(seen), parts, given.codes, K, counts, recipe, given.weights, data.n_telling
    )
    if labels.is_spread is None:
        return found
    none, weights = np.zeros(len(labels.codes)), labels.weights
    whole = [
        regress(at_labels(view, data), data.codes, K, none, recipe, weights, part)
        for view, part in zip(seen.values(), parts)
    ]
    return found._replace(heads=tuple(one.head for one in whole))


def foretold(
    problems: heads.Problems,
    assumptions: list[Weighed],
    data: Rows,
    some: Index,
    recipe: AverageRecipe,
) -> tuple[Array | None, Array]:
    """Return what is said of labelled rows without their labels, and assumptions' weights.

    Few labels leave the weights to Bayes' rule, and so do very many, which judge assumptions
    themselves. Where groups share labels none can be held out.
    """
    labels, K, weights = (
        data.labels.of(some),
        len(data.labels.classes),
        average.weights(assumptions),
    )
    many = len(some) >= recipe.many_labels and data.judges is None
    if labels.is_spread is not None or not (many or K > 2):
        return None, weights
    told = stacking.held_out(problems, assumptions, labels.codes, K, labels.weights)
    if not many:
        return np.tensordot(weights, told, 1), weights
    counts, worth = label_counts(labels), recipe.evidence_worth / len(some)
    weights, found = stacking.by_foretelling(
        assumptions, told, labels.codes, counts, data.n_telling, worth
    )
    return found, weights


def counts_of_left_out(labels: PartialLabels) -> Array:
    """Return what each label counts where it is left out; picked ones as others, as in evidence."""
    counts = np.ones(len(labels.codes)) if labels.weights is None else labels.weights
    return counts_left_out(labels.codes, counts)


def wrong_share(
    assumptions: Sequence[Weighed], weights: Array, wrong_shares: tuple[float, ...]
) -> float | None:
    """Return the share of wrong labels that was learnt; None if labels are believed.

    Parameters
    ----------
    weights : of the assumptions
    wrong_shares : those that `infer` averaged over, in the order of the shares of amplitudes
    """
    if wrong_shares == (0.0,):
        return None
    told = [
        (w, a.shares.reshape(len(wrong_shares), -1).sum(axis=1))
        for a, w in zip(assumptions, weights)
        if len(a.shares)
    ]
    total = sum(w for w, _ in told)
    if not total > 0:
        return None
    return float(sum(w * (shares @ wrong_shares) for w, shares in told) / total)


def flat_evidence(log_evidence: Array) -> float:
    """Return the log evidence averaged over amplitudes, each as likely as the others."""
    return float(np.logaddexp.reduce(log_evidence) - np.log(len(log_evidence)))


def corroborate(
    seen: Mapping[str, View],
    data: Rows,
    problems: heads.Problems,
    assumptions: list[Weighed],
    bold: FeaturePosterior,
    most: int,
) -> Corroboration:
    """Compare the graph without label noise with other views, on some rows that labels reach.

    Parameters
    ----------
    assumptions : those with label noise, in the order of `seen`, and whatever else
    most : rows
    """
    graph = seen["neighbours"]
    assert isinstance(graph, GraphView)
    without = ~np.isin(np.arange(data.rows.shape[0]), data.labelled)
    rows = np.flatnonzero(without & (graph.reach(graph.values) > 0.5))
    rows = np.random.default_rng(0).permutation(rows)[:most]  # whatever the order of rows
    guesses = []
    for i, (name, view) in enumerate(seen.items()):
        # Clusters that are the values of one column agree with it by themselves.
        if view is not graph and column_of(name) is None:
            values = view.values[rows] if isinstance(view, GraphView) else None
            features = view.features(data.rows[rows]) if values is None else values
            guesses.append(problems.classes(i, assumptions[i].shares, features))
    seen_rows = data.rows[rows] if data.has_plain_columns else np.empty((len(rows), 0))
    return corroboration(bold.proba(graph.values[rows]), guesses, seen_rows)


def average_of(found: Weighing, shares: Array, recipe: AverageRecipe) -> AveragePosterior:
    """Gather the assumptions that have a weight, and what they need."""
    names = list(found.seen)
    # If labels do not reach every row of a graph, the other views speak for the rest of the rows.
    graphs = [view for view in found.seen.values() if isinstance(view, GraphView)]
    reached = all(view.reach(view.values).all() for view in graphs)
    ways = [(1.0 - found.share_beside, found.problems, found.assumptions, found.weights)]
    if found.beside is not None:
        more = found.beside
        ways.append((found.share_beside, more, more.assumptions, more.weights))
    kept: list[tuple[str, float, Head]] = []
    share_weight = 0.0
    for share, problems, assumptions, weights in ways:
        by_regression = isinstance(problems, Regressions)
        least = recipe.regression.least_weight if by_regression else recipe.least_weight
        least = least if reached else least**2
        for a, weight in zip(assumptions, weights):
            if weight < least:
                continue
            if a.name in names:
                head = problems.head(names.index(a.name), a.shares)
                kept.append((a.name, share * weight, head))
            elif a.name == stacking.NOTHING:
                share_weight += share * weight
            elif found.bold is not None:
                kept.append(("neighbours", share * weight, found.bold))
    total = share_weight + sum(weight for _, weight, _ in kept)
    used = [name for name in names if any(name == one for one, _, _ in kept)]
    return AveragePosterior(
        found.scaled.shift,
        found.scaled.scale,
        tuple(found.seen[name] for name in used),
        tuple(Component(used.index(name), head, weight / total) for name, weight, head in kept),
        shares,
        share_weight / total,
    )


def facts_of(
    scaled: Scaled,
    data: Rows,
    graph: RowGraph,
    recipe: AverageRecipe,
    proba: Array,
    asked: tuple[int, int],
) -> Facts:
    """Return what the verdict is made from.

    Parameters
    ----------
    proba : (n, K) of the rows
    asked : rows of the data, and draws
    """
    standardised = bool(np.any(scaled.scale != 1.0))
    top = proba.max(axis=1)
    return Facts(
        n_rows=asked[0],
        n_kept=int(data.copies.sum()),
        n_distinct=data.rows.shape[0],
        unreached=unreached_share(graph, data),
        left_unlike=scaled.unlike and not standardised,
        standardised=standardised,
        least_share=recipe.graph.labellings.least_effective_share,
        n_draws=asked[1],
        spread=float(np.sqrt(top * (1.0 - top)).mean()),
        n_contradicted=data.n_contradicted,
        by_direction=data.metric == COSINE,
        n_repeated=data.n_repeated,
    )


def unreached_share(graph: RowGraph, data: Rows) -> float:
    """Return the share of rows on pieces of the graph without a label."""
    reached = graph.reached(near_labels(graph, data.labelled, data.outside))
    return float(data.copies[~reached].sum() / data.copies.sum())


def explanation_of(
    assumptions: list[Weighed],
    weights: Array,
    n_labels: int,
    compared: bool,
    seconded: Corroboration,
) -> Explanation:
    """Return the weight of each assumption, with its evidence beside that of nothing."""
    nothing = next(a for a in assumptions if a.name == "nothing")
    by_rule = average.weights(assumptions)
    return Explanation(
        tuple(
            Assumption(
                a.name, float(w), a.log_evidence - nothing.log_evidence, float(rule), a.log_odds
            )
            for a, w, rule in zip(assumptions, weights, by_rule)
        ),
        n_labels,
        compared,
        seconded.clarity,
        seconded.agreement,
        seconded.one_column,
    )
