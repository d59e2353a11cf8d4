"""What the default classifier says of its own fit: a verdict, and troubles each with its fix."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from typing import Any, NamedTuple

import numpy as np

from atoll.core.repeated_rows import about_repeats
from atoll.estimators.explanation import Explanation
from atoll.models.graph_posterior import ENOUGH_DRAWS

MANY_COPIES = 0.2  # share of rows that are copies, above which they are mentioned
UNREACHED, MOST_UNREACHED = 0.05, 0.5  # share of rows on pieces without a label: named, warned of
HEAVY = 0.5  # weight of an assumption above which its troubles are mentioned
SEEN = 0.1  # weight of the labels' shares above which it is mentioned
STRONG = 0.05  # weight from which on the chains have to mix
SEEN_BY_SEED = 0.01  # mean difference of probabilities between seeds from which on it is mentioned
MOST_BY_SEED = 0.05  # the same difference, above which it is a trouble


class Facts(NamedTuple):
    """What a fit knows of its rows.

    n_rows : of the data
    n_kept, n_distinct : of the graph, with copies and without
    unreached : share of rows on pieces of the graph without a label
    left_unlike : whether columns of unlike scales were left so
    standardised : whether columns were standardised
    least_share : of effective draws, that weights by cuts and shares may leave
    n_draws : that were asked for
    spread : standard deviation of a row's class given its probabilities, mean over rows
    wrong_share : of the labels that are wrong, given or learnt; None where they are believed
    wrong_is_learnt : whether it is learnt
    n_contradicted : labelled rows that are copies of one with another label
    by_direction : whether rows are copies that have the same direction
    n_repeated : labels that are copies together with their rows, and were left out
    are_alike : whether all rows are equal, of which every model warns
    """

    n_rows: int
    n_kept: int
    n_distinct: int
    unreached: float
    left_unlike: bool
    standardised: bool
    least_share: float
    n_draws: int
    spread: float = 0.5
    wrong_share: float | None = None
    wrong_is_learnt: bool = False
    n_contradicted: int = 0
    by_direction: bool = False
    n_repeated: int = 0
    are_alike: bool = False


def diagnose(
    facts: Facts, explanation: Explanation, chains: Mapping[str, Any], shares: str
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return `diagnostics_`, and the troubles to warn of; "troubled" is whether there are any.

    The verdict has a line for each thing, and what is wrong comes first.

    Parameters
    ----------
    chains : diagnostics of the graph without label noise
    shares : of the classes, in words
    """
    weights = {one.name: one.weight for one in explanation.assumptions}
    warned, noted = troubles(facts, explanation, chains, weights)
    hardly_counts = weights.get("clusters", 0.0) < STRONG
    amiss = [f"Beware: {said}" for said in warned + noted]
    of_chains = [chains["verdict"]]
    if hardly_counts and not chains.get("mixed", True):
        of_chains = [
            "Sampling of the clusters of near rows had not settled, but they count only "
            f"{weights['clusters']:.1%} here."
        ]
    elif not chains.get("mixed", True):
        amiss, of_chains = [*of_chains, *amiss], []
    by_seed = difference_of_seeds(facts, chains, weights)
    is_rough = bool(chains.get("mixed", True) and by_seed > MOST_BY_SEED)
    if is_rough:
        amiss, of_chains = [_about_seeds(by_seed, chains), *amiss], []
    elif chains.get("few_draws", False):
        more = "" if by_seed < SEEN_BY_SEED else f" {_about_seeds(by_seed, chains)}"
        of_chains = [f"Sampling settled.{more}"]
    told = [*amiss, *_headline(explanation), *_about_rows(facts, weights, of_chains)]
    found = {
        **chains,
        "weights": weights,
        "n_distinct": facts.n_distinct,
        "unreached": facts.unreached,
        "log_odds_of_any": explanation.log_odds_of_any,
        "clarity": explanation.clarity,
        "agreement": explanation.agreement,
        "one_column": explanation.one_column,
        "troubled": bool(warned or noted),
        "few_draws": is_rough,
        "difference_of_seeds": by_seed,
        "tells_little": explanation.follows_nothing,
        "verdict": "\n".join([*told, *_about_wrong_labels(facts), shares, _about_graph(facts)]),
    }
    if facts.wrong_share is not None:
        found["wrong_share"] = facts.wrong_share
    for name in ("mixed", "converged"):
        if name in found:
            found[name] = bool(found[name] or hardly_counts)
    return found, tuple(warned)


def difference_of_seeds(
    facts: Facts, chains: Mapping[str, Any], weights: Mapping[str, float]
) -> float:
    """Return how far another seed would move a probability, on average over rows.

    A mean of E independent draws of a class has a standard deviation of √(p (1 − p) / E), two such
    means differ by 2/√π of it on average, and they have the weight of the clusters.
    """
    effective = float(chains.get("effective_draws", np.inf))
    deviation = weights.get("clusters", 0.0) * facts.spread / np.sqrt(effective)
    return float(2.0 / np.sqrt(np.pi) * deviation)


def _about_seeds(by_seed: float, chains: Mapping[str, Any]) -> str:
    """Return what another seed would change, and why."""
    fix = " Fix: a larger n_draws, or more labels." if by_seed > MOST_BY_SEED else ""
    n_draws, effective = chains["n_draws"], chains["effective_draws"]
    return (
        f"Another seed would move probabilities by {by_seed:.2f} on average: {n_draws} draws are "
        f"worth {effective:.0f} independent ones.{fix}"
    )


def _headline(explanation: Explanation) -> list[str]:
    """Say which assumption the labels follow, unless a trouble says that they follow none."""
    if explanation.tells_little:
        return []
    fix = " Fix: label more rows." if explanation.follows_nothing else ""
    return [f"{explanation.headline()}{fix}"]


def _about_rows(facts: Facts, weights: Mapping[str, float], of_chains: list[str]) -> list[str]:
    """Return lines about what was done with the rows, and those about the chains."""
    untold = weights["nothing"]
    drawn = f"Probabilities are drawn {untold:.0%} of the way to the labels' shares."
    return [
        *([drawn] if untold > SEEN else []),
        *([about_repeats(facts.n_repeated)] if facts.n_repeated else []),
        *of_chains,
        *(["Columns were standardised."] if facts.standardised else []),
    ]


def _about_wrong_labels(facts: Facts) -> list[str]:
    """Say what share of the labels is wrong, and what corrects them."""
    share = facts.wrong_share
    if share is None:
        return []
    said = f"{share:.0%} of the labels are taken to be wrong, as label_noise says"
    if facts.wrong_is_learnt:
        said = f"About {share:.0%} of the labels are wrong, by what was learnt"
    return [
        f"{said}: predict corrects them, transduction_ keeps them as given, and suspect_labels() "
        "lists them."
    ]


def _about_graph(facts: Facts) -> str:
    """Say how many rows the graph has, and if there are copies, that these count as one."""
    if facts.n_distinct == facts.n_rows:
        return f"The graph has all {facts.n_rows:,} rows."
    copies = " (copies of a row count as one)" if facts.n_distinct < facts.n_kept else ""
    return f"The graph has {facts.n_distinct:,} of {facts.n_rows:,} rows{copies}."


def troubles(
    facts: Facts,
    explanation: Explanation,
    chains: Mapping[str, Any],
    weights: Mapping[str, float],
) -> tuple[list[str], list[str]]:
    """Return what to warn of, and what the verdict is to name without a warning."""
    warned: list[str] = []
    noted: list[str] = []
    if facts.left_unlike:
        warned.append(
            "the columns have unlike scales, and those of large numbers decide which rows are "
            'near. Fix: leave scale="auto", or put all columns in like units.'
        )
    n_copies = facts.n_kept - facts.n_distinct
    if n_copies > MANY_COPIES * facts.n_kept and not facts.are_alike:
        warned.append(
            f"{n_copies:,} of {facts.n_kept:,} rows are copies of others: they were merged and "
            "counted, and the graph has few rows to learn from. Fix: add columns that tell them "
            "apart, if there are any."
        )
    if facts.n_contradicted and not facts.are_alike:
        alike = "have the direction of" if facts.by_direction else "are the same in every column as"
        noted.append(
            f"{facts.n_contradicted:,} labelled rows {alike} one with another label, and "
            "probabilities there lie between the labels. Fix: look again at these labels, which "
            "suspect_labels() lists, or add a column that tells such rows apart."
        )
    by_clusters = weights.get("clusters", 0.0)
    by_graph = by_clusters + weights.get("neighbours", 0.0)
    if facts.unreached > UNREACHED and by_graph > HEAVY:
        (warned if facts.unreached > MOST_UNREACHED else noted).append(
            f"{facts.unreached:.0%} of the rows are on pieces of the graph without a label, where "
            "neighbours tell nothing. Fix: label a row on each piece, or raise n_neighbors."
        )
    if explanation.tells_little:
        warned.append(
            "the labels follow no assumption clearly more than chance would have it: "
            f"{explanation.n_labels} labels may be too few to show it, or the rows tell little of "
            "their classes. Fix: label more rows; check that labels and rows belong together; add "
            "columns that tell the classes apart."
        )
    effective = chains.get("effective_draws", float("inf"))
    fewest = facts.least_share * chains.get("n_draws", 0)
    is_flattened = effective <= 1.01 * fewest and by_clusters > HEAVY
    if is_flattened and effective < ENOUGH_DRAWS:
        more = facts.n_draws * ceil(ENOUGH_DRAWS / effective)
        warned.append(
            f"probabilities rest on few draws, worth {effective:.0f} independent ones, and "
            "clusters and shares of the classes count less in them than they should. Fix: "
            f"n_draws={more}, or label more rows."
        )
    return warned, noted
