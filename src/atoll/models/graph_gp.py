"""A Gaussian process on the smoothest functions of the data's graph.

prior: a spectral graph kernel with a constant. likelihood: y is the class whose function is
largest, without noise; with many labels, a softmax whose noise they tell (`graph_softmax.py`);
between few and many, an average of the two.
inference: chains of flights inside the cone that the labels leave; Hamiltonian Monte Carlo for the
softmax, of as many of the smoothest functions as it has room for.

    f_c(x) = v(x)ᵀ a_c,   a_c ~ N(0, I),   v(x) = (embedding of x, √ρ)       one f per class
    y_n = argmax_c f_c(x_n)                                                  labelled rows

Two classes need only the difference of their functions, which is f again up to its scale, and the
scale does not matter. The prior's two scales of s(λ) = (λ + κ)^−3 come from the spectrum: κ a
tenth of the K-th eigenvalue, so that K clusters can be told apart, and, with a weight of 3% that
grows to 30% from 100 labels to 1000, a tenth of the l-th, so that l labels can all be obeyed. ρ
lets one class be the rule and others exceptions.

Labellings of all rows are not equally likely to begin with. A draw of the functions labels every
row of the graph, and has the weight

    Π_c π_c^{3 K l_c / l} · exp(−0.3 · cut / d̄)

with π_c the share of class c among all rows, l_c / l its share among the labels, cut the total
weight of edges between classes and d̄ the mean degree. The weights are tempered until they are
worth at least a twentieth of the draws. These numbers, and all others, are a `Recipe`'s.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import brentq
from sklearn.gaussian_process.kernels import ConstantKernel, DotProduct

from atoll.core.graphs import Modes
from atoll.core.linalg import cholesky_inverse, cholesky_solve, jittered_cholesky
from atoll.core.memory import in_chunks
from atoll.inference import cone_sampling, hmc_chains
from atoll.inference.cone_sampling import Coloured, coloured
from atoll.inference.type_two import Report
from atoll.kernels.graph_spectral import (
    Extension,
    embedding,
    extend_to_own_rows,
    spectral_weights,
)
from atoll.kernels.hyperparameters import KernelPrior
from atoll.likelihoods import argmax
from atoll.models import graph_softmax, probit_gp
from atoll.models.graph_posterior import (
    MANY_CLASSES,
    ConePosterior,
    FeaturePosterior,
    NormalPosterior,
    PooledPosterior,
    SoftmaxPosterior,
    Votes,
    winners,
)
from atoll.models.graph_recipe import (
    RECIPE,
    ArgmaxRecipe,
    LabellingRecipe,
    PriorRecipe,
    ProbitRecipe,
    Recipe,
)
from atoll.models.label_cone import label_cone

Array = NDArray[np.float64]
Codes = NDArray[np.intp]
State = TypeVar("State")  # of all chains

LABELS_AT_ONCE = 2**23  # bytes of labellings
EDGES_AT_ONCE = 2**18  # ends of edges, each in every labelling

Watch = Callable[[int, int | None], None]
"""Told how many steps are made, and of how many; None: that is not known."""


class GraphLabels(NamedTuple):
    """What is known of the rows of a graph.

    features : (n, p) v of all rows
    rows : (l,) which of them have a label
    codes : (l,) their classes, in 0..K−1
    n_classes : K
    graph : (n, n) weights of the edges; None leaves all draws the same weight
    copies : (n,) how many rows of the data each row stands for; None is one
    random_counts : (K,) labels of each class that were drawn at random; None: all of them were
    weights : (l,) by which the labels' log-likelihoods are multiplied; None: one each
    class_shares : (K,) shares of the classes among all rows, where they are known
    """

    features: Array
    rows: Codes
    codes: Codes
    n_classes: int
    graph: sparse.csr_array | None = None
    copies: Array | None = None
    random_counts: Codes | None = None
    weights: Array | None = None
    class_shares: Array | None = None

    @property
    def n_labels(self) -> float:
        """What the labels count together."""
        return len(self.codes) if self.weights is None else float(self.weights.sum())

    @property
    def is_doubted(self) -> bool:
        """Whether a label counts less than one."""
        return self.weights is not None and bool(np.any(self.weights < 1.0))


# The prior ----------------------------------------------------------------------------------------


def row_features(
    modes: Modes, n_classes: int, n_labels: int, recipe: PriorRecipe = RECIPE.prior
) -> Array:
    """Return v of every row of the graph, (n, p): f_c = v a_c, its last column a constant."""
    V = embedding(modes, mode_weights(modes.values, n_classes, n_labels, recipe))
    return _with_constant(V, recipe)


def features_as_new(
    modes: Modes,
    graph: sparse.csr_array,
    nearest: Extension,
    n_classes: int,
    n_labels: int,
    recipe: PriorRecipe = RECIPE.prior,
) -> Array:
    """Return v of every row of the graph as if it were new, (n, p); nearest: its nearest others."""
    weights = mode_weights(modes.values, n_classes, n_labels, recipe)
    return _with_constant(extend_to_own_rows(modes, weights, graph, nearest), recipe)


def _with_constant(V: Array, recipe: PriorRecipe) -> Array:
    return np.column_stack([V, np.full(len(V), np.sqrt(recipe.constant_variance))])


def mode_weights(values: Array, n_classes: int, n_labels: int, recipe: PriorRecipe) -> Array:
    """Return what each mode counts in the prior, by their eigenvalues, (m,) -> (m,)."""

    def part(index: int) -> Array:
        # An eigenvalue is zero to rounding, and no scale, on every part of the graph.
        scale = recipe.scale_share * max(float(values[min(index, len(values)) - 1]), 1e-12)
        s = spectral_weights(values, "matern", scale, recipe.smoothness)
        return s / s.sum()

    if not len(values):
        return values  # no mode was found
    growth = max(1.0, n_labels / recipe.fine_labels)
    fine = min(recipe.most_fine_weight, recipe.fine_weight * growth)
    return part(n_classes) + fine * part(max(2 * n_classes, n_labels))


def sample_prior(
    rng: np.random.Generator, features: Array, n_classes: int, n_draws: int = 1
) -> tuple[Array, Codes]:
    """Draw coefficients (S, p, F) and the labels that they give to each row (S, n)."""
    a = prior_coefficients(rng, features.shape[1], n_classes, n_draws)
    return a, argmax.classes_of(features @ a)


def prior_coefficients(
    rng: np.random.Generator, n_features: int, n_classes: int, n_draws: int
) -> Array:
    """Draw coefficients before any label, (S, p, F)."""
    return rng.standard_normal((n_draws, n_features, 1 if n_classes == 2 else n_classes))


# Draws at the labelled rows -----------------------------------------------------------------------


def one_hot(codes: Codes, n_classes: int) -> Array:
    """Return functions that are one at their own class's rows, (l, F): well inside the cone."""
    if n_classes == 2:
        return np.where(codes == 1, 1.0, -1.0)[:, None]
    return np.eye(n_classes)[codes] - 1.0 / n_classes


def label_covariance(v: Array, nugget: float = RECIPE.argmax.nugget) -> Array:
    """Return the covariance of f at labelled rows, each with a nugget; (l, p) -> (l, l)."""
    covariance = v @ v.T
    covariance[np.diag_indices_from(covariance)] += nugget
    return covariance


def at_functions(lower: Array, f: Array) -> Coloured:
    """Return f (S, l, F) for `sweep`: classes first, then chains, and rows last.

    In memory the functions have chains last: all that classes say of a row then lies together.
    """
    here = coloured(lower, np.ascontiguousarray(f.transpose(2, 0, 1)))
    by_row = np.ascontiguousarray(f.transpose(2, 1, 0))
    return here._replace(z=by_row.transpose(0, 2, 1))


def functions_at(here: Coloured) -> Array:
    """Return the functions (S, l, F) of a state of `sweep`."""
    return np.ascontiguousarray(here.z.transpose(1, 2, 0))


def sweep(rng: np.random.Generator, here: Coloured, lower: Array, codes: Codes) -> Coloured:
    """Turn the function of each class on an ellipse of its own, given those of the others.

    All functions at once would have K − 1 times the constraints, and arcs as much shorter.

    Parameters
    ----------
    here : of z (F, S, l), one chain each of S, right at the labelled rows
    lower : (l, l) factor of the covariance there
    codes : (l,) in 0..K−1
    """
    f, white = here.z.copy(order="K"), here.white.copy(order="K")
    if len(f) == 1:
        side = np.where(codes == 1, 1.0, -1.0)
        alone = Coloured(f[0], white[0])
        f[0], white[0] = cone_sampling.turn_beside(rng, lower, alone, side, np.zeros(1))
        return Coloured(f, white)
    by_row = f.transpose(0, 2, 1)  # (F, l, S)
    # (S, l), the function of each row's own class; where it is this one, the best of the others
    limits = np.ascontiguousarray(by_row[codes, np.arange(len(codes))].T)
    for c in rng.permutation(len(f)):
        own = np.flatnonzero(codes == c)
        side = np.full(len(codes), -1.0, f.dtype)
        rivals = by_row.take(own, axis=1)
        rivals[c] = -np.inf
        limits[:, own], side[own] = rivals.max(axis=0).T, 1.0
        turned = cone_sampling.turn_beside(rng, lower, Coloured(f[c], white[c]), side, limits)
        f[c], white[c] = turned
        limits[:, own] = turned.z[:, own]
    return Coloured(f, white)


def sample_labelled(
    rng: np.random.Generator,
    lower: Array,
    codes: Codes,
    n_classes: int,
    n_draws: int,
    recipe: ArgmaxRecipe = RECIPE.argmax,
    watch: Watch | None = None,
) -> tuple[Array, int, float]:
    """Draw f at the labelled rows given their labels, once from each of many chains.

    All chains start at one point well inside the cone, and run until they have forgotten where they
    were half-way: until over the chains the values of a class's function at its own rows, then and
    now, are hardly correlated. A sweep is a flight of all functions at once, or where labels and
    classes are many a turn of each class's.

    Parameters
    ----------
    lower : (l, l) factor of the covariance C there
    codes : (l,) in 0..K−1
    n_draws : S, the number of chains
    watch : told of every sweep, and how many there are to be until the next look

    Returns
    -------
    f : (S, l, F)
    n_sweeps : of each chain
    memory : that correlation at the end, the mean over classes
    """
    if not recipe.flies(len(codes), n_classes):
        return _sample_by_sweeps(rng, lower, codes, n_classes, n_draws, recipe, watch)
    precision = np.float32 if n_classes >= MANY_CLASSES else np.float64
    cone = label_cone(lower, codes, n_classes, precision)
    move, start = partial(cone.move, rng), cone.start(n_draws)
    found, n_sweeps, memory = _until_forgotten(
        start, move, cone.leads, recipe.first_flights, recipe, watch
    )
    return cone.functions(rng, found), n_sweeps, memory


def _sample_by_sweeps(
    rng: np.random.Generator,
    lower: Array,
    codes: Codes,
    n_classes: int,
    n_draws: int,
    recipe: ArgmaxRecipe,
    watch: Watch | None,
) -> tuple[Array, int, float]:
    """Draw f as `sample_labelled` does, by turns of the classes.

    A cone looks the same from near and far, so that the energy fᵀ C^{-1} f does not depend on the
    labels, or on the direction of f: it is χ² with l F degrees of freedom, and drawn anew after
    every sweep.
    """
    start = one_hot(codes, n_classes)
    here = at_functions(lower, np.repeat(start[None], n_draws, axis=0))
    if n_classes >= MANY_CLASSES:  # then products of matrices are the cost
        lower = lower.astype(np.float32)
        here = Coloured(here.z.astype(np.float32), here.white.astype(np.float32))
    own = (start > 0 if n_classes > 2 else np.ones((len(codes), 1), bool)).T.astype(here.z.dtype)

    def length(here: Coloured) -> Array:
        return np.sqrt(np.einsum("fsl,fsl->s", here.white, here.white))

    def rescaled(here: Coloured) -> Coloured:
        scale = np.sqrt(rng.chisquare(here.z[:, 0].size, n_draws)) / length(here)
        for values in here:
            values *= scale[:, None].astype(values.dtype)
        return here

    def direction(here: Coloured) -> Array:
        return np.einsum("fsl,fl->sf", here.z, own) / length(here)[:, None]

    def move(here: Coloured) -> Coloured:
        return rescaled(sweep(rng, here, lower, codes))

    here, n_sweeps, memory = _until_forgotten(
        rescaled(here), move, direction, recipe.first_sweeps, recipe, watch
    )
    return functions_at(here), n_sweeps, memory


def _until_forgotten(
    here: State,
    move: Callable[[State], State],
    direction: Callable[[State], Array],
    first: int,
    recipe: ArgmaxRecipe,
    watch: Watch | None,
) -> tuple[State, int, float]:
    """Move chains until they have forgotten where they were half-way.

    Parameters
    ----------
    direction : what is remembered of each chain, (S, q)
    first : moves until the first look, from which on they are doubled

    Returns
    -------
    here, n_moves, memory : the last of them as `hmc_chains.memory` says
    """
    n_moves = 0
    while True:
        before, wanted = direction(here), n_moves + max(first, n_moves)
        while n_moves < wanted:
            here = move(here)
            n_moves += 1
            if watch is not None:
                watch(n_moves, wanted)
        memory = hmc_chains.memory(before, direction(here))
        if recipe.is_enough(memory, n_moves) and n_moves > first:
            return here, n_moves, memory


# The posterior ------------------------------------------------------------------------------------


def infer(
    rng: np.random.Generator,
    known: GraphLabels,
    n_draws: int,
    likelihood: str = "auto",
    recipe: Recipe = RECIPE,
    watch: Watch | None = None,
) -> FeaturePosterior:
    """Find the posterior of the coefficients.

    Parameters
    ----------
    n_draws : of the argmax; a quarter as many of the softmax
    likelihood : "argmax", "softmax", or "auto" for that which the labels ask for
    watch : told of steps that take long where classes are many
    """
    # Without label noise a label counts as much as any other, whatever its weight.
    shares = {"argmax": 0.0, "softmax": 1.0} | ({"auto": 1.0} if known.is_doubted else {})
    share = shares.get(likelihood, recipe.choice.softmax_share(known.n_labels, known.n_classes))
    if share == 0.0:
        return draw(rng, known, n_draws, recipe, watch)
    if not recipe.choice.has_room(known.features.shape[1], known.n_classes):
        if known.weights is not None:
            raise ValueError(
                f"sample_weight is not for so many labels of {known.n_classes} classes; leave it "
                'out, or use GraphGPClassifier(likelihood="argmax") and leave doubtful labels out.'
            )
        if likelihood == "auto":
            return draw(rng, known, n_draws, recipe, watch)
        v = known.features[known.rows]
        report = None if watch is None else lambda n, _: watch(n, None)
        return approximate(v, known.codes, known.n_classes, report, recipe.probit)
    has_many_classes = known.features.shape[1] > recipe.choice.most_features(known.n_classes)
    if share == 1.0 or has_many_classes:  # then draws of the argmax are slow
        return draw_softmax(rng, known, max(1, n_draws // recipe.softmax.votes_per_draw), recipe)
    return draw_both(rng, known, n_draws, share, recipe)


def draw(
    rng: np.random.Generator,
    known: GraphLabels,
    n_draws: int,
    recipe: Recipe = RECIPE,
    watch: Watch | None = None,
) -> ConePosterior:
    """Draw the functions given the labels, and find the weights of their labellings.

    Functions at labelled rows come from a chain each, or where those are dear a few draws share
    them; elsewhere, given these, every draw is one of its own.
    """
    v = known.features[known.rows]
    lower = jittered_cholesky(label_covariance(v, recipe.argmax.nugget)).lower
    n_chains = recipe.argmax.n_chains(n_draws, len(v) * known.n_classes)
    f, n_sweeps, memory = sample_labelled(
        rng, lower, known.codes, known.n_classes, n_chains, recipe.argmax, watch
    )
    f = f[np.arange(n_draws) % n_chains]
    a = sample_coefficients(rng, v, lower, f, recipe.argmax.nugget)
    few = known.graph is not None and len(known.features) * n_draws <= LABELS_AT_ONCE
    votes = winners(a, known.features) if few else None
    weights = labelling_weights(known, a, recipe.labellings, votes)
    return ConePosterior(a, weights, n_sweeps, memory, votes=votes)


def draw_softmax(
    rng: np.random.Generator, known: GraphLabels, n_draws: int, recipe: Recipe = RECIPE
) -> SoftmaxPosterior:
    """Draw the functions under a softmax whose noise the labels tell, as `draw` does.

    With many classes it has the smoothest modes and the constant alone; others count nothing.
    """
    p = known.features.shape[1]
    used = np.append(np.arange(min(p, recipe.choice.most_features(known.n_classes)) - 1), p - 1)
    found = graph_softmax.sample(
        rng, known.features[np.ix_(known.rows, used)], known.codes, known.n_classes, n_draws,
        recipe.softmax, known.weights,
    )  # fmt: skip
    a = np.zeros((len(found.coefficients), p, found.coefficients.shape[2]))
    a[:, used] = found.coefficients
    weights = labelling_weights(known, a, recipe.labellings)
    return SoftmaxPosterior(a, weights, found.log_amplitudes, found.n_steps, found.memory)


def draw_both(
    rng: np.random.Generator,
    known: GraphLabels,
    n_draws: int,
    share: float,
    recipe: Recipe = RECIPE,
) -> PooledPosterior:
    """Draw the functions under both likelihoods, with chains in proportion to their shares.

    The scale of functions does not matter to the argmax, which takes that of the softmax here.

    Parameters
    ----------
    share : of the softmax, between 0 and 1
    """
    least = recipe.choice.least_chains
    votes = draw(rng, known, max(least, round((1.0 - share) * n_draws)), recipe)
    n_softmax = round(share * n_draws / recipe.softmax.votes_per_draw)
    soft = draw_softmax(rng, known, max(least, n_softmax), recipe)
    scale = np.exp(0.5 * float(soft.weights @ soft.log_amplitudes))
    scale *= np.sqrt(2.0) if known.n_classes == 2 else 1.0
    # The one more vote is one among n_draws, however many of them are the argmax's.
    one_more = len(votes.weights) / n_draws
    votes = votes._replace(coefficients=scale * votes.coefficients, one_more=one_more)
    return PooledPosterior(votes, soft, share)


def sample_coefficients(
    rng: np.random.Generator, v: Array, lower: Array, f: Array, nugget: float = RECIPE.argmax.nugget
) -> Array:
    """Draw a given f at the labelled rows, (S, p, F), by Matheron's rule.

    A draw of the prior is moved by what it misses; v (l, p), f (S, l, F), lower (l, l) the factor
    of f's covariance. All is done in the precision of f.
    """
    precision = f.dtype
    follow = cholesky_solve(lower, v).T.astype(precision)  # how a goes with f
    a = rng.standard_normal((len(f), v.shape[1], f.shape[2]), precision)
    own = precision.type(np.sqrt(nugget)) * rng.standard_normal(f.shape, precision)
    a += follow @ (f - v.astype(precision) @ a - own)
    return a.astype(np.float64, copy=False)


def labelling_weights(
    known: GraphLabels,
    a: Array,
    recipe: LabellingRecipe = RECIPE.labellings,
    votes: Votes | None = None,
) -> Array:
    """Return the weights of draws a (S, p, F), which sum to one; all the same without a graph.

    Parameters
    ----------
    votes : (n, S) the classes that draws name at the rows, where they are known already
    """
    if known.graph is None:
        return np.full(len(a), 1.0 / len(a))
    balance, cut = labelling_terms(known, known.graph, a, recipe, votes)
    return tempered(balance + cut, recipe.least_effective_share)


def labelling_terms(
    known: GraphLabels,
    graph: sparse.csr_array,
    a: Array,
    recipe: LabellingRecipe = RECIPE.labellings,
    votes: Votes | None = None,
) -> tuple[Array, Array]:
    """Return the log weights of the labellings that draws a (S, p, F) give to all rows.

    Parameters
    ----------
    votes : (n, S) these labellings but for the labels that are known, where they are at hand

    Returns
    -------
    balance : (S,) by the shares of the classes
    cut : (S,) by the edges between them
    """
    n, n_draws, K = len(known.features), len(a), known.n_classes
    rng = np.random.default_rng(0)  # of its own: a fit without weights draws what it did
    mean_degree = max(float(graph.sum()) / n, 1e-300)
    wanted = strength_of_shares(known, recipe)
    mass = np.full(n, 1.0 / n) if known.copies is None else known.copies / known.copies.sum()
    balance, cut = np.empty(n_draws), np.empty(n_draws)
    for piece in in_chunks(n_draws, n, most=LABELS_AT_ONCE):
        labels = winners(a[piece], known.features) if votes is None else votes[:, piece].copy()
        labels[known.rows] = given_labels(rng, known, labels[known.rows])
        shares = _shares(labels, mass, K)
        floor = np.log(np.maximum(shares, 0.5 * mass.min()))
        balance[piece] = floor @ wanted
        cut[piece] = -recipe.cut_strength * weight_of_cuts(graph, labels) / mean_degree
    return balance, cut


def given_labels(rng: np.random.Generator, known: GraphLabels, drawn: Votes) -> Votes:
    """Return the classes of labelled rows in each labelling (l, S): those of the labels.

    A label of weight w < 1 is taken as given in a share w of the labellings alone; the others keep
    the class that was drawn.
    """
    given = known.codes[:, None].astype(drawn.dtype)
    if known.weights is None or not known.is_doubted:
        return np.broadcast_to(given, drawn.shape)
    return np.where(rng.random(drawn.shape) < known.weights[:, None], given, drawn)


def _shares(labels: Votes, mass: Array, n_classes: int) -> Array:
    """Return the shares of classes in labellings (n, S) of rows with mass (n,), (S, K)."""
    n_draws = labels.shape[1]
    total = np.zeros(n_draws * n_classes)
    first = n_classes * np.arange(n_draws)
    for rows in in_chunks(len(labels), n_draws):
        each = (labels[rows] + first).ravel()
        total += np.bincount(each, np.repeat(mass[rows], n_draws), minlength=len(total))
    return total.reshape(n_draws, n_classes)


def strength_of_shares(known: GraphLabels, recipe: LabellingRecipe = RECIPE.labellings) -> Array:
    """Return the power of each class's share in the weight of a draw, (K,).

    Shares that are known have that of so many rows drawn at random and labelled.
    """
    if known.class_shares is not None:
        return recipe.known_strength * known.class_shares
    return recipe.balance_strength * known.n_classes * wanted_shares(known, recipe)


def wanted_shares(known: GraphLabels, recipe: LabellingRecipe = RECIPE.labellings) -> Array:
    """Return the shares that the classes are to have, (K,), as far as labels tell.

    They sum to one where every class has labels that were drawn at random. Of labels that were
    chosen, and of a class without a label, they say less: they are drawn together, and sum to the
    less the fewer labels there are.
    """
    counts = np.bincount(known.codes, known.weights, minlength=known.n_classes)
    drawn = counts if known.random_counts is None else known.random_counts
    total, added = drawn.sum(), recipe.unseen_count
    if total == counts.sum() and counts.all():
        return counts / total
    trust = total / (total + recipe.few_random_labels)
    return trust * (drawn + added) / (total + added * known.n_classes)


def weight_of_cuts(graph: sparse.csr_array, labels: Votes) -> Array:
    """Return the total weight of edges whose ends differ, for labellings (n, S) -> (S,)."""
    edges = graph.tocoo()
    upper = edges.row < edges.col
    row, column, weight = edges.row[upper], edges.col[upper], edges.data[upper]
    total = np.zeros(labels.shape[1])
    for piece in in_chunks(len(weight), labels.shape[1], most=EDGES_AT_ONCE):
        total += weight[piece] @ (labels[row[piece]] != labels[column[piece]])
    return total


def tempered(
    log_weights: Array, least_share: float = RECIPE.labellings.least_effective_share
) -> Array:
    """Return weights that sum to one, flattened until they are worth that share of the draws."""
    least = least_share * len(log_weights)
    relative = log_weights - log_weights.max()

    def weights(power: float) -> Array:
        w = np.exp(power * relative)
        return w / w.sum()

    def surplus(power: float) -> float:
        return float(1.0 / np.sum(weights(power) ** 2) - least)

    return weights(1.0 if surplus(1.0) >= 0 else brentq(surplus, 0.0, 1.0, xtol=1e-6))


def approximate(
    features: Array,
    codes: Codes,
    n_classes: int,
    report: Report | None = None,
    recipe: ProbitRecipe = RECIPE.probit,
) -> NormalPosterior:
    """Find the probit's posterior for many labels, its amplitude where the bound is highest.

    Parameters
    ----------
    features : (l, p) v of the labelled rows
    """
    constant = DotProduct(0.0, sigma_0_bounds="fixed")  # the features hold the constant
    prior = KernelPrior(
        ConstantKernel(np.exp(recipe.log_variance_centre)) * constant,
        ("log_variance",),
        np.array([recipe.log_variance_centre]),
        np.array([recipe.log_variance_spread]),
        variance_index=0,
    )
    found = probit_gp.variational(features, codes, prior, n_classes, report)
    variance = float(np.exp(found.log_parameters[0]))
    weights = found.weights.reshape(len(features), -1)
    p = features.shape[1]
    precision = np.eye(p) + variance * features.T @ features
    covariance = variance * cholesky_inverse(jittered_cholesky(precision).lower)
    mean = variance * features.T @ weights
    follow = covariance @ features.T  # how a goes with z, which is not known either
    assert found.auxiliary_variance is not None  # variational Bayes leaves z one
    covariance += follow * found.auxiliary_variance @ follow.T
    return NormalPosterior(mean, covariance, found.log_evidences, found.converged)
