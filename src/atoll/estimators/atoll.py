"""The default classifier: an average over assumptions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from atoll.core import rows as rows_of
from atoll.core.far_rows import SourceRows
from atoll.core.fillings import column_names_of
from atoll.core.labels import PartialLabels, part_of_labels
from atoll.core.remarks import hearing
from atoll.estimators import atoll_parts as parts
from atoll.estimators.atoll_rows import Rows, metric_of, put_labels, scale_rows
from atoll.estimators.atoll_verdict import Facts, diagnose
from atoll.estimators.explanation import (
    Assumption,
    Explanation,
    call_columns,
    weights_in_words,
)
from atoll.estimators.far_values import WatchesValues
from atoll.estimators.graph_rows import (
    RowGraph,
    choose_rows,
    labelled_modes,
    near_labels,
    nearest_found,
    some_labels,
    usable_labels,
    usable_rows,
)
from atoll.estimators.informed import InformedClassifier, likely_wrong
from atoll.estimators.knowledge import counted_by_groups
from atoll.estimators.label_records import label_counts, record_of_assumptions, told_of
from atoll.estimators.near_labels import (
    judged,
    takes_near_labels,
    with_near_labels,
    with_votes,
)
from atoll.estimators.parameters import (
    COMMON,
    LABELLING,
    RANDOM,
    WATCHED,
    A,
    Flag,
    Nothing,
    Number,
    OneOf,
    Rule,
    Whole,
)
from atoll.estimators.row_memory import RowMemory
from atoll.estimators.shell import Fit, Knowledge, Need
from atoll.estimators.validation import are_alike, generator
from atoll.models import graph_gp
from atoll.models.average import average, heads, pooling, spans, stacking, sureness, views
from atoll.models.average.average import AveragePosterior, Component, Weighed
from atoll.models.average.corroboration import NOTHING_SEEN, Corroboration
from atoll.models.average.heads import ProbitHead
from atoll.models.average.label_doubts import WRONG_SHARES
from atoll.models.average.label_regression import RegressionHead
from atoll.models.average.near_votes import NearVotes
from atoll.models.average.recipe import (
    AVERAGE_RECIPE,
    AverageRecipe,
    Belief,
    RegressionRecipe,
    Rising,
)
from atoll.models.average.spans import SpanView
from atoll.models.average.views import (
    ColumnsView,
    DirectionView,
    DistanceView,
    GraphView,
    LinearView,
    Place,
    SignalView,
    View,
)
from atoll.models.graph_gp import GraphLabels
from atoll.models.graph_posterior import ConePosterior, FeaturePosterior
from atoll.models.graph_recipe import Recipe

Array = NDArray[np.float64]
Index = NDArray[np.intp]

DETAIL = 0.5  # of the distance over which smooth functions vary: those of more detail


class AtollClassifier(WatchesValues, InformedClassifier):
    """The classifier to try first: it averages over what unlabelled rows may mean.

    Classes may follow the graph of nearest rows, the graph of the rows' signal, a line, a smooth
    function of distance, a sum over columns, one column alone, or nothing at all. Each assumption
    is a Gaussian process of its own, and counts according to how well it predicted the labels: its
    evidence, and from 16 labels on what it adds to the predictions of the others. From a few labels
    a class on this is done in two ways, by propagation and by regressions on the labels, and both
    are averaged. If there are too few labels to tell, the graph without label noise leads, provided
    that its clusters are clear and another assumption draws the same classes from the labels.
    `explain()` says in words which assumption holds.

    Columns of unlike scales are standardised, and copies of a row are merged and counted. X may be
    sparse, such as words of texts (TF-IDF), and is never made dense; rows of single precision stay
    in it. A fit of 200 rows takes some 50 ms with two classes and 200 ms with five; time and
    memory grow as n log n up to `max_graph_rows` rows and as n beyond. Rows that do not fit in
    memory may be `RowChunks`, a Dask array or data frame, a memory map or the path of a .npy file:
    a fit reads them in chunks and uses a part of them.

    Parameters
    ----------
    n_neighbors : int, default=15
        Neighbours of each row in the graphs. From 32 labels on a graph with a quarter as many is
        tried as well, and taken where the labels speak for it.
    metric : {"auto", "euclidean", "cosine"}, default="auto"
        How rows are compared: by their distances, or by their directions, as texts and embeddings
        are. Under "cosine" rows are divided by their lengths, and columns are never standardised.
        "auto": by their directions where all rows in memory have length one, as `TfidfVectorizer`
        makes them, else by their distances.
    scale : "auto" or bool, default="auto"
        Whether columns are standardised; "auto": where their ranges are unlike, by a factor of ten,
        and they are not mostly zero, as counts of words are; the command line does the same to
        tables of numbers. Columns of a sparse X never are.
    max_graph_rows : int, default=10000
        Rows of the graphs, at most.
    n_draws : int, default=256
        Draws of the graph without label noise, each from a chain of its own; a quarter as many
        if there are so many labels that a softmax takes its place.
    recipe : AverageRecipe, default=None
        Every tuned number, as `atoll.models.average.recipe` documents them; None is the tuned one.
    classes : sequence, default=None
        All classes, of which some may have no label yet; one label is enough for a fit. None: those
        of y.
    class_prior : mapping from class to share, or (K,) array, default=None
        Shares of the classes among all rows, if they are known: by name, where one class may be
        left out and gets the rest, or in the order of `classes_`. The numbers of labels are then
        not taken for shares. None: the shares are estimated from labels and rows.
    label_noise : None, "learn" or float, default=None
        Share of the labels that are wrong: a number below one half; "learn" averages over shares up
        to a quarter by their evidence, and the verdict says what share it found. `predict` and
        `predict_proba` then give the right class even of rows with a label, and no assumption
        follows labels without exceptions. None: labels are believed, except for the noise that
        every assumption but clusters has. With noise a fit takes some three times as long.
        With more than 25 classes it hardly matters: how noisy labels are is learnt in any case.
    labels_chosen : bool or (n,) bool array, default=False
        Whether labels were picked, as by active learning or a fixed number for each class, and not
        drawn at random: their numbers are then not taken for shares of the classes. An array says
        so for each row, so that labels drawn at random among them still tell the shares.
    warm_start : bool, default=False
        Whether a fit on the same rows as the last reuses what depends on rows alone: scaling,
        merged copies, graphs, their modes and principal directions. It then finds the same as a fit
        from the start; but beyond `max_graph_rows` rows the graphs stay those of the first fit, and
        rows that are labelled later are attached to them as new rows are.
    unlabelled : "auto", None or a value, default="auto"
        What in y means unlabelled besides nulls; "auto": -1 among numbers, unless fewer than two
        classes would remain.
    random_state : None, int or numpy Generator, default=None
        Seed of the chains, and of the choice of rows where not all are on the graph.
    n_jobs : int, default=None
        Processors for the search of neighbours of new rows.
    verbose : bool or "auto", default="auto"
        Whether progress is written to standard error; "auto": of a fit or a prediction that takes
        longer than ten seconds, at a terminal or in a notebook, or than a minute elsewhere.

    Attributes
    ----------
    classes_ : (K,) the classes, sorted
    weights_ : dict, the weight of each assumption; of column j alone it is under "column j"
    scaled_ : bool, whether columns were standardised
    label_distributions_ : (n, K) class probabilities of the training rows; given labels are certain
        here, also with `label_noise`: `predict_proba` doubts them
    transduction_ : (n,) the label of each training row, or its most probable class where it has
        none; with `label_noise` it is `predict` that corrects labels
    posterior_ : AveragePosterior, what prediction needs
    draws_ : empty dict: one draw of each chain is kept, and nothing is traced
    n_graph_rows_ : int, rows of the graph
    n_neighbors_ : int, neighbours of each row in the graphs
    metric_ : "euclidean" or "cosine", how rows were compared
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
    takes_sparse = True
    keeps_single = True
    takes_far_rows = True
    saves = (
        AveragePosterior,
        Component,
        ProbitHead,
        RegressionHead,
        GraphView,
        LinearView,
        SpanView,
        DirectionView,
        SignalView,
        Place,
        DistanceView,
        ColumnsView,
        NearVotes,
        Assumption,
        Explanation,
        AverageRecipe,
        RegressionRecipe,
        Rising,
        Belief,
        *InformedClassifier.saves,
    )
    parameters: ClassVar[Mapping[str, Rule]] = (
        COMMON
        | RANDOM
        | LABELLING
        | WATCHED
        | {
            "n_neighbors": Whole(1),
            "metric": OneOf("auto", "euclidean", "cosine"),
            "scale": OneOf("auto") | Flag(),
            "max_graph_rows": Whole(100),
            "n_draws": Whole(20),
            "label_noise": Nothing("labels are believed")
            | OneOf("learn")
            | Number(above=0, below=0.5),
            "recipe": Nothing("the tuned one") | A("an AverageRecipe", AverageRecipe),
        }
    )

    def __init__(
        self,
        *,
        n_neighbors: int = 15,
        metric: str = "auto",
        scale: Any = "auto",
        max_graph_rows: int = 10_000,
        n_draws: int = 256,
        recipe: AverageRecipe | None = None,
        classes: Sequence[Any] | None = None,
        class_prior: Any = None,
        label_noise: Any = None,
        labels_chosen: Any = False,
        warm_start: bool = False,
        unlabelled: Any = "auto",
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: bool | str = "auto",
    ):
        self.n_neighbors = n_neighbors
        self.metric = metric
        self.scale = scale
        self.max_graph_rows = max_graph_rows
        self.n_draws = n_draws
        self.recipe = recipe
        self.classes = classes
        self.class_prior = class_prior
        self.label_noise = label_noise
        self.labels_chosen = labels_chosen
        self.warm_start = warm_start
        self.unlabelled = unlabelled
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def explain(self) -> Explanation:
        """Return what the classifier found to hold, as a table that prints in words."""
        check_is_fitted(self)
        return self.explanation_._replace(n_wrong=likely_wrong(self))

    # Fitting --------------------------------------------------------------------------------------

    def _recipe(self) -> AverageRecipe:
        return AVERAGE_RECIPE if self.recipe is None else self.recipe

    def _recipe_of_draws(self, n_classes: int) -> Recipe | None:
        """Return how the graph's functions are drawn if labels are believed; None otherwise."""
        drawn = self.label_noise is None and not self._regresses(n_classes)
        return self._recipe().graph if drawn else None

    def _regresses(self, n_classes: int) -> bool:
        """Return whether labels of so many classes are regressed on."""
        return n_classes > self._recipe().most_classes

    def _wrong_shares(self) -> tuple[float, ...]:
        """Return the shares of wrong labels that are averaged over."""
        if self.label_noise is None:
            return (0.0,)
        return WRONG_SHARES if self.label_noise == "learn" else (float(self.label_noise),)

    def _memory(self, X: Any, labels: PartialLabels) -> Need:
        n = min(X.shape[0], self.max_graph_rows)
        n_modes = self._recipe().graph.prior.n_modes(len(labels.classes))
        d = X.shape[1]
        wide = min(d, n, spans.MOST_ROWS) if sparse.issparse(X) else min(d, n)
        numbers = 16 * n * n_modes + 4 * n * rows_of.width(X) + 6 * wide**2
        return Need(8 * numbers, f"{n_modes} modes of {n} rows", "Choose a smaller max_graph_rows.")

    def _log_evidence(self, X: Any, y: Any) -> float:
        """Return the log of how many times more probable the rows make the labels than shares do.

        That is by Bayes' rule, without the rest of a fit, and whatever the weights are in a fit.
        """
        self._begin()
        with hearing():  # a fit that follows says the same
            X, labels = self._read_training(X, y)
        self._memory(X, labels).check()
        self._keep_labels(labels)
        with self._threads():
            return average.log_evidence_beyond(
                stacking.NOTHING, self._weighing(X, labels).assumptions
            )

    def _weighing(self, X: Any, labels: PartialLabels) -> parts.Weighing:
        """Put the rows on graphs, and weigh the assumptions by the labels."""
        recipe, rng = self._recipe(), generator(self.random_state)
        memory, n, most = self._remembered(X), X.shape[0], self.max_graph_rows
        metric, labels = metric_of(X, self.metric), counted_by_groups(X, labels)
        usable = usable_rows(X, metric)
        labelled = usable_labels(some_labels(rng, labels, recipe.graph.choice.most_labels), usable)
        kept = memory.get(
            "kept", (most, metric), lambda: choose_rows(rng, n, labelled, most, usable)
        )
        scaled = memory.get(
            "rows", self._row_settings(metric), lambda: scale_rows(X[kept], self.scale, metric)
        )
        data = put_labels(scaled, X, kept, labels.of(labelled), labelled, metric)
        if labels.n_labelled <= recipe.graph.choice.most_labels:
            counted = data.counted_once()
            labelled, data = labelled[counted], data.of_labels(counted)
        self._say(f"graph of {data.rows.shape[0]} rows")
        whole = views.place_of_rows(data.rows.shape[1])
        first, graph, n_neighbors = self._first_graph(memory, data, whole)
        if takes_near_labels(first, labels, recipe.graph.choice):
            first, data = with_near_labels(first, X, labels, data, scaled, labelled, metric)
        seen: dict[str, View] = {"neighbours": first}
        if not self._propagates():
            seen |= self._other_views(memory, data, n_neighbors)
            self._say(f"{len(seen)} assumptions given {len(data.codes)} labels")
            found = parts.regressions(seen, data, recipe.regression)
            return parts.Weighing(
                kept, labelled, scaled, data, graph, n_neighbors, seen, None, found,
                found.assumptions, found.weights, NOTHING_SEEN, told_of(data.labels),
                found.foretold,
            )  # fmt: skip
        known = parts.known_labels(first, data, graph, self._known_shares(labels))
        self._say("graph without label noise")
        bold = with_votes(self._bold(rng, known), first, data)
        seen |= self._other_views(memory, data, n_neighbors)
        problems, assumptions, seconded, some = self._compared(rng, seen, data, bold)
        foretold, weights = None, average.weights(assumptions)
        if self.label_noise is None:
            foretold, weights = parts.foretold(problems, assumptions, data, some, self._recipe())
        return parts.Weighing(
            kept, labelled, scaled, data, graph, n_neighbors, seen, bold,
            problems, assumptions, weights, seconded, some, foretold,
        )  # fmt: skip

    def _with_regressions(self, found: parts.Weighing) -> parts.Weighing:
        """Return what was found, with the labels regressed on beside propagation, if there is any.

        They share what the graph without label noise leaves. Labels that may be wrong, that were
        picked because they are hard, and very many ones are left to propagation.
        """
        if not self._propagates():
            return found
        recipe, data, K = self._recipe(), found.data, len(self.classes_)
        rising = recipe.regression.of_two if K == 2 else recipe.regression.of_more
        share = rising.at(average.labels_per_class(data.codes, K, data.labels.weights))
        names = [one.name for one in found.assumptions]
        share *= 1.0 - float(found.weights[names.index(stacking.CLUSTERS)])
        picked = data.labels.is_chosen
        can_tell = self.label_noise is None and data.judges is None
        can_tell = can_tell and (picked is None or not picked.any())
        if share < recipe.regression.least_weight or not can_tell:
            return found
        beside = parts.regressions(found.seen, data, recipe.regression.beside())
        foretold = found.foretold
        if foretold is not None:
            foretold = (1.0 - share) * foretold + share * beside.foretold[found.some]
        return found._replace(beside=beside, share_beside=share, foretold=foretold)

    def _learn(self, X: Any, y: Any, know: Knowledge | None = None) -> Self:
        super()._learn(X, y, know)
        call_columns(self, column_names_of(X) or getattr(self, "feature_names_in_", ()))
        return self

    def _fit(self, X: Any, labels: PartialLabels) -> Fit:
        recipe, known_shares = self._recipe(), self._known_shares(labels)
        weighing = self._with_regressions(self._weighing(X, labels))
        kept, scaled, data, bold = weighing.kept, weighing.scaled, weighing.data, weighing.bold
        problems, assumptions = weighing.problems, weighing.assumptions
        weights, some = weighing.all_weights(), weighing.some
        self._say(f"weights: {weights_in_words(assumptions, weights)}")
        shares = data.smoothed_shares if known_shares is None else known_shares
        posterior = parts.average_of(weighing, shares, recipe)
        sharpness = self._sharpness(weighing, data.smoothed_shares)
        posterior = posterior._replace(sharpness=sharpness, metric=data.metric)
        believed = None
        if self.label_noise is None and isinstance(problems, heads.Problems):
            believed = problems
        record = record_of_assumptions(
            {name: parts.at_labels(view, data) for name, view in weighing.seen.items()},
            data.labels, weighing.labelled, believed, some,
            assumptions, recipe, weighing.held_out(),
        )  # fmt: skip
        record = weighing.with_beside(record, recipe.regression)
        self._say("all rows")
        explanation = weighing.explanation()
        if isinstance(X, SourceRows):
            own = scaled.rows[scaled.place]  # the rows of the graph stand for all
            proba = posterior.training_proba(own, np.arange(len(kept)), data.rows, scaled.place)
        else:
            shown, nearest = self._until_shown(), nearest_found(self._remembered(X))
            on_graph = kept, data.rows, scaled.place
            proba = posterior.training_proba(X, *on_graph, shown=shown, found=nearest)

        def as_new() -> Array:  # a mean of nearest rows is less sure than a row of the graph
            found = proba.copy()
            own = posterior.proba_as_new(data.rows)[scaled.place]
            found[slice(None) if isinstance(X, SourceRows) else kept] = own
            return found

        posterior, found, unlabelled = self._informed(X, kept, labels, posterior, proba, as_new)
        facts = parts.facts_of(
            scaled, data, weighing.graph, recipe, proba, (X.shape[0], self.n_draws)
        )
        facts = self._with_noise(facts, assumptions, weights)._replace(are_alike=are_alike(X))
        chains = parts.BY_REGRESSION if bold is None else bold.diagnostics(recipe.graph)
        said = self._about_shares(labels, found)
        diagnostics, remarks = diagnose(facts, explanation, chains, said)
        return Fit(
            posterior.without_votes(),
            diagnostics,
            transduction=unlabelled,
            attributes={
                "weights_": {a.name: float(w) for a, w in zip(assumptions, weights)},
                "explanation_": explanation,
                "scaled_": facts.standardised,
                "n_graph_rows_": data.rows.shape[0],
                "n_neighbors_": weighing.n_neighbors,
                "metric_": data.metric,
                "class_shares_": found,
                "label_record_": record,
            },
            remarks=remarks,
            trouble=chains["verdict"],
        )

    def _with_noise(self, facts: Facts, assumptions: list[Weighed], weights: Array) -> Facts:
        """Return the facts with the share of wrong labels, where labels are not believed."""
        return facts._replace(
            wrong_share=parts.wrong_share(assumptions, weights, self._wrong_shares()),
            wrong_is_learnt=self.label_noise == "learn",
        )

    def _propagates(self) -> bool:
        """Return whether propagation compares assumptions: not where classes are many."""
        return not self._regresses(len(self.classes_))

    def _compared(
        self,
        rng: np.random.Generator,
        seen: Mapping[str, View],
        data: Rows,
        bold: FeaturePosterior,
    ) -> tuple[heads.Problems, list[Weighed], Corroboration, Index]:
        """Weigh the assumptions.

        Returns
        -------
        problems : posteriors of some labels under each
        assumptions : all of them, weighed
        seconded : what rows without labels say of the graph without label noise
        some : labels by which they were weighed
        """
        recipe = self._recipe_for(data)
        self._say(f"{len(seen)} assumptions given {len(data.codes)} labels")
        some = part_of_labels(rng, data.codes, recipe.most_labels)
        problems = parts.infer(seen, data, some, recipe, self._wrong_shares())
        assumptions = self._weigh(problems, list(seen), data, some)
        seconded = parts.corroborate(seen, data, problems, assumptions, bold, recipe.n_witnesses)
        assumptions.append(self._clusters(problems, data, seconded))
        if data.judges is not None:
            assumptions = judged(assumptions, seen, problems, bold, data)
        if len(some) < len(data.codes) and not isinstance(bold, ConePosterior):
            # Then both have label noise, and the second takes all of the labels.
            assumptions = average.merged(assumptions, "neighbours", "clusters")
        return problems, assumptions, seconded, some

    def _sharpness(self, weighing: parts.Weighing, shares: Array) -> float:
        """Return the power by which the average is made surer.

        Labels tell it where each can be held out: not where groups share them or they may be
        wrong, and not of the graph without label noise. One of r labels of a class counts
        1 − 1/r: without it the class is known less well. They come in shares of their own, also
        where those of all rows are known.
        """
        recipe, K, foretold = self._recipe(), len(shares), weighing.foretold
        if K == 2:
            return 1.0
        if foretold is None:
            return recipe.pooled_sharpness
        labels = weighing.data.labels.of(weighing.some)
        codes, names = labels.codes, [one.name for one in weighing.assumptions]
        has_clusters = stacking.CLUSTERS in names
        weights = weighing.all_weights()
        of_clusters = weights[names.index(stacking.CLUSTERS)] if has_clusters else 0.0
        counts = label_counts(labels) * (1.0 - of_clusters)
        counts = counts * (1.0 - 1.0 / np.bincount(codes, minlength=K)[codes])
        log_power = (2.0 - of_clusters) * float(np.log(recipe.pooled_sharpness))
        return sureness.power(foretold, codes, counts, shares, log_power, recipe.sharpness_spread)

    def _held_out_labels(self) -> tuple[Array, Index, Array]:
        found, codes, counts = super()._held_out_labels()
        fitted = self.posterior_
        return pooling.sharpened(found, fitted.shares, fitted.sharpness), codes, counts

    def _row_settings(self, metric: str) -> tuple[Any, ...]:
        """Return what the rows of the graphs depend on, besides the data."""
        return self.max_graph_rows, self.scale, metric

    def _recipe_for(self, data: Rows) -> AverageRecipe:
        """Return the recipe with the odds of assumptions about rows of this kind."""
        return self._recipe().for_rows(data.n_telling, data.metric == rows_of.COSINE)

    def _other_views(self, memory: RowMemory, data: Rows, n_neighbors: int) -> dict[str, View]:
        """Return the views besides the graph of all features, by the names of their assumptions."""
        recipe, settings = self._recipe(), self._row_settings(data.metric)
        found = memory.get("principal", settings, lambda: views.principal(data.rows))
        constant = float(np.sqrt(recipe.constant_variance))
        most = recipe.most_landmarks
        most = most if self._propagates() else recipe.regression.most_landmarks
        n_landmarks = max(recipe.n_landmarks, min(len(data.codes), most))
        seen: dict[str, View] = {}
        place = views.place_of_signal(found, data.metric)
        # Along a single direction, rows with nothing else in common may be near.
        if data.rows.shape[1] > parts.PLANE and 1 < found.n_signal < len(found.variances):
            seen["signal"], _ = self._graph_view(memory, "signal", data, place, n_neighbors)
        if len(found.variances):
            if data.metric == rows_of.COSINE:  # stretching small directions is no help here
                most = recipe.most_labels
                seen["line"] = views.directions(data.every, data.labelled, most, constant)
                seen["whitened"] = SignalView(place, constant)
            else:
                seen["line"] = views.line(found, constant)
                seen["whitened"] = views.whitened(found, constant)
            smooth = views.smooth(data.every, data.labelled, n_landmarks, constant)
            seen["smooth"] = smooth
            if self._sees_detail(data):
                seen["detail"] = smooth.over(DETAIL)
        n_lone = recipe.lone_columns if self._propagates() else 0
        return seen | parts.column_views(data, n_landmarks, constant, n_lone)

    def _sees_detail(self, data: Rows) -> bool:
        """Return whether functions of distance with more detail are tried."""
        recipe = self._recipe()
        few_columns = data.metric != rows_of.COSINE and data.rows.shape[1] <= recipe.detail_columns
        return few_columns and len(data.codes) >= recipe.many_labels

    def _first_graph(
        self, memory: RowMemory, data: Rows, place: Place
    ) -> tuple[GraphView, RowGraph, int]:
        """Return the graph of all features, its rows' features, and the neighbours of a row.

        Many labels tell whether rows should have as many neighbours as asked for, or fewer.
        """
        name, recipe = "neighbours", self._recipe()
        usual = self._graph_view(memory, name, data, place, self.n_neighbors)
        fewer = recipe.fewer_neighbours(self.n_neighbors)
        enough = recipe.finer_labels
        if not self._propagates():
            enough = recipe.regression.finer_labels_a_class * len(self.classes_)
        if fewer == self.n_neighbors or len(data.codes) < enough:
            return *usual, self.n_neighbors
        finer = self._graph_view(memory, f"fewer {name}", data, place, fewer, usual[1])
        if parts.unreached_share(finer[1], data) > recipe.finer_unreached:
            return *usual, self.n_neighbors
        with_fewer, with_usual = (
            parts.log_left_out(view, data, recipe.regression) for view, _ in (finer, usual)
        )
        if with_fewer + np.log(recipe.finer_odds) <= with_usual:
            return *usual, self.n_neighbors
        return *finer, fewer

    def _graph_view(
        self,
        memory: RowMemory,
        name: str,
        data: Rows,
        place: Place,
        n_neighbors: int,
        within: RowGraph | None = None,
    ) -> tuple[GraphView, RowGraph]:
        """Return the graph of rows by their places, and their features on it.

        Parameters
        ----------
        within : a graph of the same places with more neighbours, if there is one
        """
        prior, K = self._recipe().graph.prior, len(self.classes_)
        settings = (name, *self._row_settings(data.metric), n_neighbors)

        def join() -> RowGraph:
            if within is not None:
                return within.with_fewer_neighbours(n_neighbors)
            return RowGraph.of_neighbours(place(data.rows), n_neighbors)

        graph = memory.get(f"graph of {name}", settings, join)
        near = near_labels(graph, data.labelled, place(data.outside))
        modes = labelled_modes(memory, settings, graph, prior.n_modes(K), near)
        values = graph_gp.row_features(modes, K, len(data.codes), prior)
        nearest = prior.new_row_neighbours
        found = GraphView(
            place.centre, place.directions, graph.rows, values, nearest, self.n_jobs
        )._replace(span=place.span, unit=place.unit)
        return found, graph

    def _weigh(
        self, problems: heads.Problems, names: list[str], data: Rows, some: Index
    ) -> list[Weighed]:
        """Weigh every assumption with label noise, and nothing, by some of the labels."""
        recipe, K = self._recipe_for(data), len(self.classes_)
        codes, label_weights = data.codes, data.labels.weights
        per_class = average.labels_per_class(codes, K, label_weights)
        out = []
        for i, name in enumerate(names):
            belief = recipe.belief(name)
            amplitudes, evidence = problems.amplitudes[i], problems.log_evidence(i)
            odds = belief.log_odds(per_class)
            out.append(average.weigh(name, odds, belief, amplitudes, evidence))
        of_some = None if label_weights is None else label_weights[some]
        nothing = average.evidence_of_shares(codes[some], K, of_some)
        odds = recipe.nothing.log_odds(per_class) - average.equal_shares_ahead(K)
        return [*out, Weighed("nothing", odds, nothing, np.empty(0))]

    def _clusters(self, problems: heads.Problems, data: Rows, seconded: Corroboration) -> Weighed:
        """Weigh the graph without label noise."""
        recipe = self._recipe_for(data)
        per_class = average.labels_per_class(data.codes, len(self.classes_), data.labels.weights)
        odds = recipe.clusters.log_odds(per_class) + seconded.log_odds(recipe.corroboration)
        return Weighed("clusters", odds, parts.flat_evidence(problems.log_evidence(0)), np.empty(0))

    def _bold(self, rng: np.random.Generator, known: GraphLabels) -> FeaturePosterior:
        """Find the graph's posterior without label noise; with it, where chains are slow."""
        recipe = self._recipe().graph
        contradicted = len(np.unique(np.column_stack([known.rows, known.codes]), axis=0)) > len(
            np.unique(known.rows)
        )
        doubted = contradicted or self.label_noise is not None
        likelihood = "softmax" if doubted else "auto"
        with self._progress("graph without label noise", "steps") as bar:
            found = graph_gp.infer(rng, known, self.n_draws, likelihood, recipe, bar.reach)
            if isinstance(found, ConePosterior) and not found.diagnostics(recipe)["mixed"]:
                found = graph_gp.infer(rng, known, self.n_draws, "softmax", recipe, bar.reach)
        return found
