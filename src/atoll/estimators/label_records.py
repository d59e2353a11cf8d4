"""What fits keep of their labels, so that wrong ones can be found later."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from atoll.core.labels import PartialLabels, part_of_labels
from atoll.models import belief, class_shares
from atoll.models.average import average, heads, label_doubts
from atoll.models.average.average import Weighed
from atoll.models.average.label_doubts import LabelRecord
from atoll.models.average.label_regression import (
    LEAST_PROBABILITY,
    counts_left_out,
    told_by_others,
)
from atoll.models.average.recipe import AVERAGE_RECIPE, AverageRecipe
from atoll.models.belief import HeldOut
from atoll.models.graph_gp import GraphLabels
from atoll.models.graph_recipe import LeftOutRecipe

Array = NDArray[np.float64]
Index = NDArray[np.intp]

NEIGHBOURS = "neighbours"


def record_of_assumptions(
    features: Mapping[str, Array],
    labels: PartialLabels,
    labelled: Index,
    problems: heads.Problems | None,
    some: Index,
    assumptions: list[Weighed],
    recipe: AverageRecipe,
    held_out: Array | None = None,
) -> LabelRecord:
    """Return the labels as the average's assumptions see them.

    Parameters
    ----------
    features : for each view (l, p), at all labelled rows
    labels : (l,) of these rows
    labelled : (l,) which rows of the data they are
    problems : of some of the labels; None where assumptions are not compared
    some : (s,) which labels these are
    assumptions : with their log odds before the labels
    held_out : (l, K) class probabilities of the rows, each without its own label, if labels were
        regressed on; of a group one row
    """
    odds = {one.name: one.log_odds for one in assumptions}
    amplitudes, priors = [], []
    for name in features:
        belief = recipe.belief(name)
        on_graph = name in (NEIGHBOURS, "signal")
        A = np.array(recipe.graph_amplitudes if on_graph else recipe.amplitudes)
        prior = average.amplitude_prior(belief, A) + odds.get(name, 0.0)
        if name == NEIGHBOURS:  # the graph without label noise cannot doubt a label
            prior = np.logaddexp(prior, odds.get("clusters", -np.inf) - np.log(len(A)))
        amplitudes.append(A)
        priors.append(prior)
    record = LabelRecord(
        labelled,
        labels.codes,
        len(labels.classes),
        some,
        tuple(features.values()),
        tuple(amplitudes),
        tuple(priors),
        odds["nothing"],
        recipe.nugget,
        labels.weights,
        None if labels.is_chosen is None else ~labels.is_chosen,
    )
    if held_out is not None:
        given = record if labels.is_spread is None else _of_given_labels(record, labels)
        return given.by_regression(held_out)
    if problems is None or labels.is_spread is not None:
        return _of_given_labels(record, labels)
    compared = label_doubts.compare(record, problems)
    held_out = np.empty((len(labelled), record.n_classes))
    held_out[some] = compared.held_out(labels.codes[some], record.weights_of_part)
    others = np.setdiff1d(np.arange(len(labelled)), some)
    if len(others):
        beside = [values[others] for values in features.values()]
        held_out[others] = label_doubts.outside_part(problems, compared, beside, len(others))
    part = tuple(values[some] for values in features.values())
    return record._replace(features=part, held_out=held_out)


def record_of_graph(known: GraphLabels, labels: PartialLabels, labelled: Index) -> LabelRecord:
    """Return the labels as the graph sees them; (l,) labels of rows `labelled` of the data."""
    recipe = AVERAGE_RECIPE
    A = np.array(recipe.graph_amplitudes)
    prior = average.amplitude_prior(recipe.neighbours, A)
    record = LabelRecord(
        labelled,
        labels.codes,
        known.n_classes,
        np.arange(len(labelled)),
        (known.features[known.rows],),
        (A,),
        (prior,),
        float(np.log(recipe.share_of_nothing)),
        recipe.nugget,
        labels.weights,
        None if labels.is_chosen is None else ~labels.is_chosen,
    )
    return _of_given_labels(record, labels)


def _of_given_labels(record: LabelRecord, labels: PartialLabels) -> LabelRecord:
    """Return the record of those labels that were given for their own row, not for their group.

    None of them is held out; a part of them, drawn with a fixed seed, is compared.
    """
    given = told_of(labels)
    codes, weights = record.codes[given], labels.of(given).as_given().weights
    return record._replace(
        rows=record.rows[given],
        codes=codes,
        part=part_of_labels(np.random.default_rng(0), codes, AVERAGE_RECIPE.most_labels),
        features=tuple(values[given] for values in record.features),
        weights=weights,
        is_random=None if record.is_random is None else record.is_random[given],
    )


# Labels left out ----------------------------------------------------------------------------------


def told_of(labels: PartialLabels) -> Index:
    """Return the labels that can be left out, to tell of views: not those shared by a group."""
    every = np.arange(len(labels.codes))
    return every if labels.is_spread is None else np.flatnonzero(~labels.is_spread)


def label_counts(labels: PartialLabels) -> Array:
    """Return what each label counts when it is held out, (l,).

    Labels that were picked because they are hard do not count.
    """
    counts = np.ones(len(labels.codes)) if labels.weights is None else labels.weights
    return counts if labels.is_chosen is None else counts * ~labels.is_chosen


def foretold_by_graph(
    known: GraphLabels, labels: PartialLabels, recipe: LeftOutRecipe
) -> HeldOut | None:
    """Return how well labels (l,) are foretold by the others along the graph.

    None where they cannot tell: where fewer than two classes have two labels that were neither
    picked nor given by a group.
    """
    told = told_of(labels)
    given = labels.of(told).as_given()
    counts = counts_left_out(given.codes, label_counts(given))
    some = np.flatnonzero(counts)
    if len(np.unique(given.codes[some])) < 2:
        return None
    proba = told_by_others(
        known.features[known.rows[told]],
        given.codes,
        known.n_classes,
        recipe.amplitude,
        recipe.sureness,
        given.weights,
    )[some]
    shares = known.class_shares
    shares = class_shares.given(given.random_counts) if shares is None else shares
    prior, log_proba = belief.PRIOR_OF_GRAPH, np.log(np.maximum(proba, LEAST_PROBABILITY))
    found = belief.weigh(log_proba, given.codes[some], shares, prior, counts[some])
    return found._replace(belief=1.0) if found.belief >= recipe.full else found
