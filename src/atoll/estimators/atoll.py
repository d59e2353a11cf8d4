"""The default classifier: an average over assumptions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from atoll.core.labels import PartialLabels, part_of_labels
from atoll.estimators.atoll_verdict import Facts, diagnose
from atoll.estimators.explanation import Assumption, Explanation
from atoll.estimators.graph_rows import (
    RowGraph,
    choose_rows,
    labelled_modes,
    near_labels,
    places_of,
    some_labels,
    with_rows_apart,
)
from atoll.estimators.parameters import (
    COMMON,
    LABELLING,
    RANDOM,
    A,
    Flag,
    Nothing,
    OneOf,
    Rule,
    Whole,
)
from atoll.estimators.row_memory import RowMemory
from atoll.estimators.shell import Classifier, Fit, Need
from atoll.estimators.validation import generator
from atoll.kernels.conditioning import distinct_rows
from atoll.models import graph_gp
from atoll.models.average import average, heads, views
from atoll.models.average.average import AveragePosterior, Component, Weighed
from atoll.models.average.corroboration import NOTHING_SEEN, Corroboration, corroboration
from atoll.models.average.heads import ProbitHead
from atoll.models.average.recipe import AVERAGE_RECIPE, AverageRecipe, Belief
from atoll.models.average.views import ColumnsView, DistanceView, GraphView, LinearView, View
from atoll.models.graph_gp import GraphLabels
from atoll.models.graph_posterior import ConePosterior, FeaturePosterior

Array = NDArray[np.float64]
Index = NDArray[np.intp]

UNLIKE_SCALES = 10.0  # ratio of the columns' ranges, the ninth tenth to the first
MOSTLY_ZERO = 0.5  # share of zeros from which columns are counts, and left as they are
HUGE = 1e50  # numbers from which columns are divided by a common unit
PLANE = 3  # columns of which none is noise: no graph of their signal, and no sum over them


class Scaled(NamedTuple):
    """Rows of the graph, scaled, as far as they depend on rows alone.

    shift, scale : (d,) of the columns
    unlike : whether columns were in unlike units
    rows : (n, d) that differ
    copies : (n,) how many each stands for
    place : (kept,) which of them each row of the graph is
    """

    shift: Array
    scale: Array
    unlike: bool
    rows: Array
    copies: Array
    place: Index


class Rows(NamedTuple):
    """Rows of the graph and the labels on them.

    rows : (n, d) that differ, scaled
    copies : (n,) how many each stands for
    labelled : (l,) which of them have a label; one may have several; n, n + 1, … are `outside`
    outside : (e, d) labelled rows that are not on the graph, scaled
    labels : (l,) the labels
    """

    rows: Array
    copies: Array
    labelled: Index
    outside: Array
    labels: PartialLabels

    @property
    def codes(self) -> Index:
        """(l,) classes of the labels."""
        return self.labels.codes

    @property
    def every(self) -> Array:
        """(n + e, d) the rows, and those outside."""
        return np.concatenate([self.rows, self.outside]) if len(self.outside) else self.rows

    @property
    def random_codes(self) -> Index:
        """Classes of the labels that were drawn at random."""
        chosen = self.labels.is_chosen
        return self.codes if chosen is None else self.codes[~chosen]


class AtollClassifier(Classifier):
    """The classifier to try first: it averages over what unlabelled rows may mean.

    Classes may follow the graph of nearest rows, the graph of the rows' signal, a line, clusters in
    principal directions, a smooth function of distance, a sum over columns, or nothing at all. Each
    assumption is a Gaussian process of its own; each counts as much as it foretold the labels, by
    its evidence.
    Where few labels cannot tell, the graph without label noise leads if its clusters are clear and
    another assumption draws the same classes from the labels. `explain()` says in words which
    assumption holds.

    Columns of unlike scales are standardised, rows that are copies are merged and counted.
    A fit of 200 rows takes some 50 ms; time and memory grow as n log n up to `max_graph_rows` rows
    and as n beyond.

    Parameters
    ----------
    n_neighbors : int, default=15
        Neighbours of each row in the graphs.
    scale : "auto" or bool, default="auto"
        Whether columns are standardised; "auto": where their ranges are unlike, by a factor of ten,
        and they are not mostly zero, as counts of words are.
    max_graph_rows : int, default=10000
        Rows of the graphs, at most.
    n_draws : int, default=256
        Draws of the graph without label noise, each from a chain of its own.
    recipe : AverageRecipe, default=None
        Every tuned number, as `atoll.models.average.recipe` documents them; None is the tuned one.
    classes : sequence, default=None
        All classes, of which some may have no label yet; one label is enough for a fit. None: those
        of y.
    labels_chosen : bool or (n,) bool array, default=False
        Whether labels were picked, as by active learning or so many of each class, and not drawn at
        random: their numbers are then not read as shares of the classes. An array says it of each
        row, so that labels drawn at random among them still tell the shares.
    warm_start : bool, default=False
        Whether a fit on the same rows as the last reuses what depends on rows alone: scaling,
        merged copies, graphs, their modes and principal directions. It then finds the same as a fit
        from the start; but beyond `max_graph_rows` rows the graphs stay those of the first fit, and
        rows that are labelled later are attached to them as new rows are.
    unlabelled : "auto", None or a value, default="auto"
        What in y means unlabelled beside nulls; "auto": -1 in an integer y, unless fewer than two
        classes would remain.
    random_state : None, int or numpy Generator, default=None
        Seed of the chains, and of the choice of rows where not all are on the graph.
    n_jobs : int, default=None
        Processors for the search of neighbours of new rows.
    verbose : bool, default=False
        Whether progress is written to standard error.

    Attributes
    ----------
    classes_ : (K,) the classes, sorted
    weights_ : dict, the weight of each assumption
    scaled_ : bool, whether columns were standardised
    label_distributions_ : (n, K) class probabilities of the training rows; given labels are certain
    transduction_ : (n,) the most probable class of each training row
    posterior_ : AveragePosterior, what prediction needs
    draws_ : empty dict: one draw of each chain is kept, and nothing is traced
    n_graph_rows_ : int, rows of the graph
    diagnostics_ : dict with weights, evidence, effective draws and a verdict in words

    References
    ----------
    J. A. Hoeting, D. Madigan, A. E. Raftery and C. T. Volinsky, "Bayesian model averaging: a
    tutorial" (1999). V. Sindhwani, W. Chu and S. S. Keerthi, "Semi-supervised Gaussian process
    classifiers" (2007). J. L. Horn, "A rationale and test for the number of factors in factor
    analysis" (1965). T. P. Minka, "Expectation propagation for approximate Bayesian inference"
    (2001). J. Cohen, "A coefficient of agreement for nominal scales" (1960). R. Ranjan and
    T. Gneiting, "Combining probability forecasts" (2010).

    Examples
    --------
    >>> from atoll.datasets import hide_labels, make_crescents
    >>> from atoll.estimators import AtollClassifier
    >>> X, truth = make_crescents(n_samples=200, random_state=0)
    >>> y = hide_labels(truth, per_class=4, marker=None, random_state=0)
    >>> model = AtollClassifier(random_state=0).fit(X, y)
    >>> bool(model.score(X, truth) > 0.95)
    True
    """

    paper = "an average over models; after Sindhwani, Chu & Keerthi 2007 and others"
    summary = "the one to try first: averages over what unlabelled rows may mean, to millions"
    has_functions = False
    fits_unseen_classes = True
    saves = (
        AveragePosterior,
        Component,
        ProbitHead,
        GraphView,
        LinearView,
        DistanceView,
        ColumnsView,
        Assumption,
        Explanation,
        AverageRecipe,
        Belief,
    )
    parameters: ClassVar[Mapping[str, Rule]] = (
        COMMON
        | RANDOM
        | LABELLING
        | {
            "n_neighbors": Whole(1),
            "scale": OneOf("auto") | Flag(),
            "max_graph_rows": Whole(100),
            "n_draws": Whole(20),
            "recipe": Nothing("the tuned one") | A("an AverageRecipe", AverageRecipe),
        }
    )

    def __init__(
        self,
        *,
        n_neighbors: int = 15,
        scale: Any = "auto",
        max_graph_rows: int = 10_000,
        n_draws: int = 256,
        recipe: AverageRecipe | None = None,
        classes: Sequence[Any] | None = None,
        labels_chosen: Any = False,
        warm_start: bool = False,
        unlabelled: Any = "auto",
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: bool = False,
    ):
        self.n_neighbors = n_neighbors
        self.scale = scale
        self.max_graph_rows = max_graph_rows
        self.n_draws = n_draws
        self.recipe = recipe
        self.classes = classes
        self.labels_chosen = labels_chosen
        self.warm_start = warm_start
        self.unlabelled = unlabelled
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def explain(self) -> Explanation:
        """Return what the classifier found to hold, as a table that prints in words."""
        check_is_fitted(self)
        return self.explanation_

    # Fitting --------------------------------------------------------------------------------------

    def _recipe(self) -> AverageRecipe:
        return AVERAGE_RECIPE if self.recipe is None else self.recipe

    def _memory(self, X: Any, labels: PartialLabels) -> Need:
        n = min(X.shape[0], self.max_graph_rows)
        n_modes = self._recipe().graph.prior.n_modes(len(labels.classes))
        numbers = 16 * n * n_modes + 4 * n * X.shape[1] + 6 * min(X.shape[1], n) ** 2
        return Need(8 * numbers, f"{n_modes} modes of {n} rows", "Choose a smaller max_graph_rows.")

    def _fit(self, X: Any, labels: PartialLabels) -> Fit:
        recipe, rng = self._recipe(), generator(self.random_state)
        memory, K, n, most = self._remembered(X), len(labels.classes), len(X), self.max_graph_rows
        labelled = some_labels(rng, labels, recipe.graph.choice.most_labels)
        kept = memory.get("kept", most, lambda: choose_rows(rng, n, labelled, most))
        scaled = memory.get("rows", (most, self.scale), lambda: self._scaled(X[kept]))
        data = _with_labels(scaled, X, kept, labels.of(labelled), labelled)
        self._say(f"graph of {len(data.rows)} rows")
        d = data.rows.shape[1]
        first, graph = self._graph_view(memory, "neighbours", data, np.zeros(d), np.zeros((d, 0)))
        seen: dict[str, View] = {"neighbours": first}
        known = _known(first, data, graph)
        self._say("graph without label noise")
        bold = self._bold(rng, known)
        if recipe.most_classes >= K:
            seen |= self._other_views(memory, data)
            self._say(f"{len(seen)} assumptions given {len(labelled)} labels")
            some = part_of_labels(rng, data.codes, recipe.most_labels)
            problems = _infer(seen, data, some, recipe)
            assumptions = self._weigh(problems, list(seen), data.codes, some)
            seconded = _corroboration(seen, data, problems, assumptions, bold, recipe.n_witnesses)
            assumptions.append(self._clusters(problems, data.codes, seconded))
            if len(some) < len(data.codes) and not isinstance(bold, ConePosterior):
                # Then both have label noise, and the second takes all of the labels.
                assumptions = average.merged(assumptions, "neighbours", "clusters")
        else:
            problems, seconded = None, NOTHING_SEEN
            assumptions = _uncompared(recipe)
        weights = average.weights(assumptions)
        shares = average.smoothed_shares(data.random_codes, K)
        posterior = _posterior(scaled, seen, problems, assumptions, weights, bold, shares, recipe)
        self._say("all rows")
        explanation = _explanation(
            assumptions, weights, len(data.codes), problems is not None, seconded
        )
        standardised = bool(np.any(scaled.scale != 1.0))
        facts = Facts(
            n_rows=n,
            n_kept=int(data.copies.sum()),
            n_distinct=len(data.rows),
            n_labels=len(data.codes),
            unreached=_unreached(graph, data),
            left_unlike=scaled.unlike and not standardised,
            standardised=standardised,
            least_share=recipe.graph.labellings.least_effective_share,
        )
        diagnostics, remarks = diagnose(facts, explanation, bold.diagnostics(recipe.graph))
        proba = posterior.training_proba(X, kept, data.rows, scaled.place)
        return Fit(
            posterior.without_votes(),
            diagnostics,
            transduction=proba[~labels.is_labelled],
            attributes={
                "weights_": {a.name: float(w) for a, w in zip(assumptions, weights)},
                "explanation_": explanation,
                "scaled_": standardised,
                "n_graph_rows_": len(data.rows),
            },
            remarks=remarks,
        )

    def _scaled(self, X: Array) -> Scaled:
        """Scale the columns of the graph's rows, and merge rows that are copies."""
        d, unlike, unit = X.shape[1], _unlike_scales(X), _unit(X)
        shift, scale, rows = np.zeros(d), np.full(d, unit), X / unit
        if unlike if self.scale == "auto" else self.scale:
            mean, deviation = rows.mean(axis=0), rows.std(axis=0)
            shift, scale = unit * mean, unit * np.where(deviation > 0, deviation, 1.0)
            rows = (X - shift) / scale
        distinct, place = distinct_rows(rows)
        if len(distinct) == len(rows):
            return Scaled(shift, scale, unlike, rows, np.ones(len(rows)), np.arange(len(rows)))
        if len(distinct) == 1:  # a graph needs two rows
            distinct, place = rows[:2], np.zeros(len(rows), np.intp)
        copies = np.bincount(place, minlength=len(distinct)).astype(float)
        return Scaled(shift, scale, unlike, distinct, np.maximum(copies, 1.0), place)

    def _other_views(self, memory: RowMemory, data: Rows) -> dict[str, View]:
        """Return the views beside the graph of all features, by the names of their assumptions."""
        recipe, settings = self._recipe(), (self.max_graph_rows, self.scale)
        found = memory.get("principal", settings, lambda: views.principal(data.rows))
        constant = float(np.sqrt(recipe.constant_variance))
        seen: dict[str, View] = {}
        if data.rows.shape[1] > PLANE and found.n_signal < len(found.variances):
            directions = found.directions[:, : found.n_signal]
            seen["signal"], _ = self._graph_view(memory, "signal", data, found.centre, directions)
        if len(found.variances):
            seen["line"] = views.line(found, constant)
            seen["whitened"] = views.whitened(found, constant)
            seen["smooth"] = views.smooth(data.every, data.labelled, recipe.n_landmarks, constant)
        if PLANE < data.rows.shape[1] <= views.MOST_COLUMNS:
            seen["columns"] = views.columns(
                data.every, data.copies, data.labelled, recipe.n_landmarks, constant
            )
        return seen

    def _graph_view(
        self, memory: RowMemory, name: str, data: Rows, centre: Array, directions: Array
    ) -> tuple[GraphView, RowGraph]:
        prior, K = self._recipe().graph.prior, len(self.classes_)

        def coordinates(rows: Array) -> Array:
            return (rows - centre) @ directions if directions.shape[1] else rows

        settings = (name, self.max_graph_rows, self.scale, self.n_neighbors)
        graph = memory.get(
            f"graph of {name}",
            settings,
            lambda: RowGraph.of_neighbours(coordinates(data.rows), self.n_neighbors),
        )
        near = near_labels(graph, data.labelled, coordinates(data.outside))
        modes = labelled_modes(memory, settings, graph, prior.n_modes(K), near)
        values = graph_gp.row_features(modes, K, len(data.codes), prior)
        nearest = prior.new_row_neighbours
        return GraphView(centre, directions, graph.rows, values, nearest, self.n_jobs), graph

    def _weigh(
        self, problems: heads.Problems, names: list[str], codes: Index, some: Index
    ) -> list[Weighed]:
        """Weigh every assumption with label noise, and nothing, by some of the labels."""
        recipe, K = self._recipe(), len(self.classes_)
        per_class = average.labels_per_class(codes, K)
        out = []
        for i, name in enumerate(names):
            belief: Belief = getattr(recipe, name)
            amplitudes, evidence = problems.amplitudes[i], problems.log_evidence(i)
            odds = belief.log_odds(per_class)
            out.append(average.weigh(name, odds, belief, amplitudes, evidence))
        nothing = average.evidence_of_shares(codes[some], K)
        odds = recipe.nothing.log_odds(per_class)
        return [*out, Weighed("nothing", odds, nothing, np.empty(0))]

    def _clusters(self, problems: heads.Problems, codes: Index, seconded: Corroboration) -> Weighed:
        """Weigh the graph without label noise."""
        recipe = self._recipe()
        per_class = average.labels_per_class(codes, len(self.classes_))
        odds = recipe.clusters.log_odds(per_class) + seconded.log_odds(recipe.corroboration)
        return Weighed("clusters", odds, _flat_evidence(problems.log_evidence(0)), np.empty(0))

    def _bold(self, rng: np.random.Generator, known: GraphLabels) -> FeaturePosterior:
        """Find the graph's posterior without label noise; with it, where chains are slow."""
        recipe = self._recipe().graph
        contradicted = len(np.unique(np.column_stack([known.rows, known.codes]), axis=0)) > len(
            np.unique(known.rows)
        )
        likelihood = "softmax" if contradicted else "auto"
        found = graph_gp.infer(rng, known, self.n_draws, likelihood, recipe)
        if isinstance(found, ConePosterior) and not found.diagnostics(recipe)["mixed"]:
            found = graph_gp.infer(rng, known, self.n_draws, "softmax", recipe)
        return found


# Parts of a fit -----------------------------------------------------------------------------------


def _unit(X: Array) -> float:
    """Return one, or for huge numbers a power of two in which their squares are numbers."""
    largest = float(max(X.max(), -X.min()))
    return 1.0 if largest < HUGE else float(2.0 ** np.floor(np.log2(largest)))


def _unlike_scales(X: Array) -> bool:
    """Return whether columns are in unlike units."""
    ranges = np.ptp(X, axis=0)
    ranges = ranges[ranges > 0]
    if len(ranges) < 2 or np.mean(X == 0) > MOSTLY_ZERO:
        return False
    low, high = np.quantile(ranges, [0.1, 0.9])
    return bool(high > UNLIKE_SCALES * low)


def _with_labels(
    scaled: Scaled, X: Array, kept: Index, labels: PartialLabels, labelled: Index
) -> Rows:
    """Put labels (l,) of rows `labelled` of X on the rows of the graph."""
    on_graph, is_outside = places_of(labelled, kept)
    n = len(scaled.rows)
    place = on_graph - len(kept) + n  # of rows outside
    place[~is_outside] = scaled.place[on_graph[~is_outside]]
    outside = (X[labelled[is_outside]] - scaled.shift) / scaled.scale
    return Rows(scaled.rows, scaled.copies, place, outside, labels)


def _features(view: GraphView, data: Rows) -> Array:
    """Return the features of the rows that may have a label: the graph's, and those outside."""
    if not len(data.outside):
        return view.values
    return np.concatenate([view.values, view.features(data.outside)])


def _known(first: GraphView, data: Rows, graph: RowGraph) -> GraphLabels:
    n_more, labels = len(data.outside), data.labels
    return GraphLabels(
        _features(first, data),
        data.labelled,
        data.codes,
        len(labels.classes),
        with_rows_apart(graph.weights, n_more),
        np.concatenate([data.copies, np.ones(n_more)]),
        None if labels.is_chosen is None else labels.random_counts,
    )


def _infer(
    seen: Mapping[str, View], data: Rows, some: Index, recipe: AverageRecipe
) -> heads.Problems:
    """Find the posteriors of some of the labels under every assumption with label noise."""
    labelled, codes = data.labelled[some], data.codes[some]
    features, amplitudes = [], []
    for view in seen.values():
        if isinstance(view, GraphView):
            features.append(_features(view, data)[labelled])
            amplitudes.append(np.array(recipe.graph_amplitudes))
        else:
            features.append(view.features(data.every[labelled]))
            amplitudes.append(np.array(recipe.amplitudes))
    return heads.infer(features, amplitudes, codes, len(data.labels.classes), recipe.nugget)


def _uncompared(recipe: AverageRecipe) -> list[Weighed]:
    """Return the graph without label noise, and a share of nothing."""
    none = np.empty(0)
    odds = np.log([recipe.share_of_nothing, 1.0 - recipe.share_of_nothing])
    return [
        Weighed("nothing", float(odds[0]), 0.0, none),
        Weighed("clusters", float(odds[1]), 0.0, none),
    ]


def _flat_evidence(log_evidence: Array) -> float:
    """Return the log evidence averaged over amplitudes, each as likely as the others."""
    return float(np.logaddexp.reduce(log_evidence) - np.log(len(log_evidence)))


def _corroboration(
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
    without = ~np.isin(np.arange(len(data.rows)), data.labelled)
    rows = np.flatnonzero(without & (graph.reach(graph.values) > 0.5))
    rows = np.random.default_rng(0).permutation(rows)[:most]  # whatever the order of rows
    guesses = []
    for i, view in enumerate(seen.values()):
        if view is not graph:
            values = view.values[rows] if isinstance(view, GraphView) else None
            features = view.features(data.rows[rows]) if values is None else values
            guesses.append(problems.classes(i, assumptions[i].shares, features))
    return corroboration(bold.proba(graph.values[rows]), guesses, data.rows[rows])


def _posterior(
    scaled: Scaled,
    seen: Mapping[str, View],
    problems: heads.Problems | None,
    assumptions: list[Weighed],
    weights: Array,
    bold: FeaturePosterior,
    shares: Array,
    recipe: AverageRecipe,
) -> AveragePosterior:
    """Gather the assumptions that have a weight, and what they need."""
    names = list(seen)
    # Where labels do not reach every row of a graph, the others speak for the rest of the rows.
    graphs = [view for view in seen.values() if isinstance(view, GraphView)]
    reached = all(view.reach(view.values).all() for view in graphs)
    least = recipe.least_weight if reached else recipe.least_weight**2
    kept = {a.name: w for a, w in zip(assumptions, weights) if w >= least}
    total = sum(kept.values())
    used = [n for n in names if n in kept or (n == "neighbours" and "clusters" in kept)]
    components = []
    for a in assumptions:
        if problems is not None and a.name in kept and a.name in names:
            head = problems.head(names.index(a.name), a.shares)
            components.append(Component(used.index(a.name), head, kept[a.name] / total))
    if "clusters" in kept:
        components.append(Component(used.index("neighbours"), bold, kept["clusters"] / total))
    return AveragePosterior(
        scaled.shift,
        scaled.scale,
        tuple(seen[name] for name in used),
        tuple(components),
        shares,
        kept.get("nothing", 0.0) / total,
        recipe.pooled_sharpness if len(shares) > 2 and problems is not None else 1.0,
    )


def _unreached(graph: RowGraph, data: Rows) -> float:
    """Return the share of rows on pieces of the graph without a label."""
    reached = graph.reached(near_labels(graph, data.labelled, data.outside))
    return float(data.copies[~reached].sum() / data.copies.sum())


def _explanation(
    assumptions: list[Weighed],
    weights: Array,
    n_labels: int,
    compared: bool,
    seconded: Corroboration,
) -> Explanation:
    nothing = next(a for a in assumptions if a.name == "nothing")
    return Explanation(
        tuple(
            Assumption(a.name, float(w), a.log_evidence - nothing.log_evidence)
            for a, w in zip(assumptions, weights)
        ),
        n_labels,
        compared,
        seconded.clarity,
        seconded.agreement,
        seconded.one_column,
    )
