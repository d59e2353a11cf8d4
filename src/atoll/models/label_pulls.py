"""How far each label pulls the prediction of a row: the terms of a sum.

A function f(x) = v(x)ᵀ a with a normal prior of a, and labels at rows x_i, has a posterior mean in
the span of their features (the representer theorem, Kimeldorf & Wahba 1971):

    E f(x) = Σ_i v(x)ᵀ v(x_i) β_i,

one term for each label: what it adds to the function at x. A label raises the function of its own
class and lowers the others, which gives every β_i its sign; labels whose features are alike share
what they do. Only where labels are regressed on may a function overshoot a label, which then draws
it back. The pull of a label is what it adds to the function of one class beyond the mean of
the others. Where v(x)ᵀ v(x_i) is negative, at rows on opposite sides of a line or in clusters that
a feature tells apart, a label of another class pulls towards the class: what is not so there is so
here.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from atoll.core.graphs import nearest
from atoll.core.rows import clipped, rescaled, row_squares
from atoll.models.average.average import FARTHEST, AveragePosterior
from atoll.models.average.heads import ProbitHead
from atoll.models.average.label_regression import RegressionHead
from atoll.models.average.near_votes import NearVotes
from atoll.models.average.views import GraphView, Place, View
from atoll.models.graph_posterior import (
    ConePosterior,
    GraphPosterior,
    NormalPosterior,
    PooledPosterior,
    SoftmaxPosterior,
)

Array = NDArray[np.float64]

SMALL = 1e-4  # of the features' mean square: what decides between labels that are alike
TOLERANCE = 1e-9  # of the search for β
SAME = 1e-9  # of a row's length: rows nearer than that are the same


def terms(
    mean: Array, at: Array, labelled: Array, codes: NDArray[np.intp], has_signs: bool = True
) -> Array:
    """Return what each label adds to the functions at a row, (l, F).

    Parameters
    ----------
    mean : (p, F) of the coefficients; F is one for two classes
    at : (p,) features of the row
    labelled : (l, p) features of the labelled rows
    codes : (l,) their classes
    has_signs : whether every label raises the function of its class and lowers the others

    Examples
    --------
    >>> labelled = np.array([[1.0, 0.0], [0.0, 1.0]])
    >>> found = terms(np.array([[2.0], [-1.0]]), np.array([1.0, 0.5]), labelled, np.array([1, 0]))
    >>> found.ravel().round(3).tolist()
    [2.0, -0.5]
    """
    from sklearn.linear_model import Ridge  # imported late: it is slow to import

    n_functions = mean.shape[1]
    owners = [1] if n_functions == 1 else range(n_functions)
    ridge = SMALL * float(np.einsum("ij,ij->", labelled, labelled)) / len(labelled)
    added = np.zeros((len(labelled), n_functions))
    alpha = max(ridge, np.finfo(float).tiny)
    solver = Ridge(alpha=alpha, positive=has_signs, fit_intercept=False, tol=TOLERANCE)
    for j, owner in enumerate(owners):
        signs = np.where(codes == owner, 1.0, -1.0)
        scale = float(np.abs(mean[:, j]).max()) or 1.0
        solver.fit(labelled.T * signs, mean[:, j] / scale)
        added[:, j] = (labelled @ at) * signs * solver.coef_ * scale
    return added


def towards(added: Array, code: int) -> Array:
    """Return the pull towards one class of terms (l, F), (l,); F is one for two classes."""
    if added.shape[1] == 1:
        return added[:, 0] if code == 1 else -added[:, 0]
    others = np.delete(added, code, axis=1)
    return added[:, code] - others.mean(axis=1)


def mean_coefficients(head: Any) -> Array | None:
    """Return the posterior mean of a head's coefficients, (p, F); None of an unknown kind."""
    if isinstance(head, ProbitHead | RegressionHead):
        return np.einsum("a,apf->pf", head.shares, head.means)
    if isinstance(head, ConePosterior | SoftmaxPosterior):
        return np.einsum("s,spf->pf", head.weights, head.coefficients)
    if isinstance(head, NormalPosterior):
        return head.mean
    if isinstance(head, NearVotes):
        return mean_coefficients(head.functions)
    if isinstance(head, PooledPosterior):
        votes, soft = mean_coefficients(head.votes), mean_coefficients(head.soft)
        assert votes is not None
        assert soft is not None
        return (1.0 - head.share) * votes + head.share * soft
    return None


def label_pulls(
    posterior: Any, x: Any, rows: Any, codes: NDArray[np.intp], code: int
) -> Array | None:
    """Return the share of each label in what pulls a row to a class, or from it, (l,).

    Shares are positive for labels that pull towards the class and negative for the others; without
    their signs they sum to one. Those of several assumptions are averaged by their weights.

    Parameters
    ----------
    posterior : of `AtollClassifier` or `GraphGPClassifier`; of any other the answer is None
    x : (1, d) the row
    rows : (l, d) rows with a label
    codes : (l,) their classes
    code : the class
    """
    if isinstance(posterior, AveragePosterior):
        return _of_average(posterior, x, rows, codes, code)
    if isinstance(posterior, GraphPosterior) and posterior.metric == "euclidean":
        d = posterior.rows.shape[1]
        view = GraphView(
            np.zeros(d),
            np.zeros((d, 0)),
            posterior.rows,
            posterior.features,
            posterior.n_nearest,
            posterior.n_jobs,
        )
        found = _shares(posterior.coefficients, view, x, rows, codes, code)
        return None if found is None else _normalised(found)
    return None


def _of_average(
    posterior: AveragePosterior, x: Any, rows: Any, codes: NDArray[np.intp], code: int
) -> Array:
    x, rows = (
        clipped(rescaled(part, posterior.shift, posterior.scale, posterior.metric), FARTHEST)
        for part in (x, rows)
    )
    total = np.zeros(rows.shape[0])
    for part in posterior.components:
        view = posterior.views[part.view]
        found = _shares(part.head, view, x, rows, codes, code)
        if found is not None:
            total += part.weight * float(view.reach(view.features(x))[0]) * found
    return _normalised(total)


def _normalised(shares: Array) -> Array:
    size = np.abs(shares).sum()
    return shares / size if size > 0 else shares


def _shares(
    head: Any, view: View, x: Any, rows: Any, codes: NDArray[np.intp], code: int
) -> Array | None:
    mean = mean_coefficients(head)
    if mean is None:
        return None
    is_regression = isinstance(head, RegressionHead)
    if is_regression:  # its functions sum to zero: that of the class says all
        mean, codes, code = mean[:, [code]], (codes == code).astype(np.intp), 1
    at, labelled = view.features(x)[0], _features_at(view, rows)
    added = terms(mean, at, labelled, codes, has_signs=not is_regression)
    return _normalised(towards(added, code))


def _features_at(view: View, rows: Any) -> Array:
    """Return the features of rows: their own where they are on the graph."""
    features = view.features(rows)
    if isinstance(view, GraphView):
        places = Place(view.centre, view.directions, view.span, view.unit)(rows)
        closest = nearest(view.rows, places, 1)[:, 0]
        apart = np.sqrt(row_squares(view.rows[closest] - places))
        same = apart <= SAME * (1.0 + np.sqrt(row_squares(places)))
        features[same] = view.values[closest[same]]
    return features
