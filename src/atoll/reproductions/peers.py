"""What a user would pick instead: classifiers of other packages, and how all are measured.

Each peer is a function of a problem and a seed that returns class probabilities of every row.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax
from sklearn.calibration import CalibratedClassifierCV
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier, NearestNeighbors
from sklearn.semi_supervised import LabelSpreading, SelfTrainingClassifier
from sklearn.svm import SVC

from atoll.diagnostics import expected_calibration_error

Array = NDArray[np.float64]
Codes = NDArray[np.int64]

FLOOR = 1e-6  # a smaller probability counts as this in log-losses
N_BINS = 20  # of a reliability curve
FEWEST_TO_TUNE = 4  # labels of the rarest class from which on settings are chosen in folds
N_NEIGHBORS = 10  # as in graphlearning's tutorials


class Problem(NamedTuple):
    """Rows (n, d), their classes as codes 0 to K − 1 (n,), and the same with −1 where hidden."""

    X: Array
    y: Codes
    partial: Codes

    @property
    def hidden(self) -> NDArray[np.bool_]:
        """Which rows have no label, (n,)."""
        return self.partial < 0

    @property
    def labelled(self) -> tuple[Array, Codes]:
        """Rows with a label, and their classes."""
        known = ~self.hidden
        return self.X[known], self.partial[known]

    @property
    def fewest(self) -> int:
        """How many labels the rarest class has."""
        return int(np.bincount(self.labelled[1]).min())


# --- peers ----------------------------------------------------------------------------------------


def logistic(problem: Problem, seed: int) -> Array:
    """Logistic regression on the labelled rows, as it comes."""
    model = LogisticRegression(max_iter=2000).fit(*problem.labelled)
    return model.predict_proba(problem.X)


def logistic_cv(problem: Problem, seed: int) -> Array:
    """Logistic regression with its penalty chosen by log-loss in folds.

    With fewer than four labels in a class it is taken as it comes.
    """
    if problem.fewest < FEWEST_TO_TUNE:
        return logistic(problem, seed)
    folds = min(5, problem.fewest)
    model = LogisticRegressionCV(Cs=10, cv=folds, scoring="neg_log_loss", max_iter=2000)
    return model.fit(*problem.labelled).predict_proba(problem.X)


def svc(problem: Problem, seed: int) -> Array:
    """Support vector machine with an RBF kernel; probabilities by sigmoids fitted in folds.

    Width and C are chosen in folds from four labels in every class on. With a single label in a
    class nothing can be held out, and probabilities are the softmax of the decision values.
    """
    X, y = problem.labelled
    gamma = 1.0 / max(X.shape[1] * X.var(), 1e-12)
    model = SVC(gamma=gamma)
    folds = min(5, problem.fewest)
    if problem.fewest >= FEWEST_TO_TUNE:
        grid = {"C": [0.1, 1.0, 10.0, 100.0], "gamma": [gamma / 10, gamma, 10 * gamma]}
        model = GridSearchCV(model, grid, cv=folds).fit(X, y).best_estimator_
    if problem.fewest >= 2:
        model = CalibratedClassifierCV(model, cv=folds, ensemble=False)
        return model.fit(X, y).predict_proba(problem.X)
    scores = model.fit(X, y).decision_function(problem.X)
    scores = np.column_stack([-scores, scores]) / 2 if scores.ndim == 1 else scores
    return softmax(scores, axis=1)


def spreading(problem: Problem, seed: int) -> Array:
    """LabelSpreading over nearest neighbours, the rest as it comes."""
    model = LabelSpreading("knn", max_iter=1000).fit(problem.X, problem.partial)
    return model.label_distributions_


def self_training(problem: Problem, seed: int) -> Array:
    """Logistic regression that labels the rows it is sure of and is fitted again, as it comes."""
    model = SelfTrainingClassifier(LogisticRegression(max_iter=2000))
    return model.fit(problem.X, problem.partial).predict_proba(problem.X)


def nearest(problem: Problem, seed: int) -> Array:
    """The class of the nearest labelled row."""
    return KNeighborsClassifier(1).fit(*problem.labelled).predict_proba(problem.X)


def import_graphlearning() -> Any:
    """Import graphlearning; a FileNotFoundError, which skips a cell, says that it is missing."""
    if importlib.util.find_spec("graphlearning") is None:
        raise FileNotFoundError("graphlearning is not installed: run `pip install graphlearning`.")
    return importlib.import_module("graphlearning")


def graph_scores(kind: str, problem: Problem, **options: Any) -> Array:
    """Return graphlearning's scores of every row, (n, K), on its graph of ten exact neighbours."""
    gl = import_graphlearning()
    rows = np.flatnonzero(~problem.hidden)
    k = min(N_NEIGHBORS, len(problem.X) - 1)
    # It counts each row as its own first neighbour; its own search is approximate.
    distances, ids = NearestNeighbors(n_neighbors=k + 1).fit(problem.X).kneighbors(problem.X)
    W = gl.weightmatrix.knn(problem.X, k, knn_data=(ids, distances))
    scores = getattr(gl.ssl, kind)(W, **options).fit(rows, problem.partial[rows])
    # not numbers where a class's labels touch no unlabelled row
    return np.nan_to_num(np.asarray(scores, dtype=float))


def laplace(problem: Problem, seed: int) -> Array:
    """Laplace learning; scores are clipped at zero and normalised."""
    return np.clip(graph_scores("laplace", problem), 0.0, None)


def poisson(problem: Problem, seed: int) -> Array:
    """Poisson learning by gradient descent; its scores have no scale, so read the error alone."""
    scores = graph_scores("poisson", problem, solver="gradient_descent")
    return softmax(scores / max(np.abs(scores).max(), 1e-300), axis=1)


def shares(problem: Problem, seed: int) -> Array:
    """Not knowing: (n_c + 1/2)/(l + K/2) for n_c of l labels in class c."""
    counts = np.bincount(problem.labelled[1])
    p = (counts + 0.5) / (counts.sum() + len(counts) / 2)
    return np.tile(p, (len(problem.X), 1))


PEERS: dict[str, Callable[[Problem, int], Array]] = {
    "LogisticRegression": logistic,
    "LogisticRegressionCV": logistic_cv,
    "SVC": svc,
    "LabelSpreading": spreading,
    "self-training": self_training,
    "1-NN": nearest,
    "Laplace": laplace,
    "Poisson": poisson,
    "shares": shares,
}
# Their scores are not probabilities, and only the error is measured.
WITHOUT_PROBABILITIES = ("1-NN", "Poisson")
NEED_GRAPHLEARNING = ("Laplace", "Poisson")


# --- measuring ------------------------------------------------------------------------------------


def normalised(scores: Array) -> tuple[Array, int]:
    """Return rows that sum to one; rows without scores get equal shares and are counted.

    Examples
    --------
    >>> normalised(np.array([[1.0, 3.0], [0.0, 0.0]]))
    (array([[0.25, 0.75], [0.5 , 0.5 ]]), 1)
    """
    p = np.where(np.isfinite(scores), scores, 0.0)
    total = p.sum(axis=1, keepdims=True)
    p = np.where(total > 0, p / np.where(total > 0, total, 1.0), 1 / p.shape[1])
    return p, int(np.sum(total <= 0))


def measure(p: Array, y: Codes) -> dict[str, float]:
    """Return error, log-loss, expected calibration error (ten bins) and mean confidence.

    Parameters
    ----------
    p : (n, K)
        Probabilities, which sum to one in each row.
    y : (n,)
        Codes of the true classes.

    Examples
    --------
    >>> found = measure(np.array([[0.9, 0.1], [0.4, 0.6]]), np.array([0, 0]))
    >>> {name: round(value, 3) for name, value in found.items()}
    {'error': 0.5, 'log_loss': 0.511, 'ece': 0.35, 'confidence': 0.75}
    """
    truth = p[np.arange(len(y)), y]
    return {
        "error": float(np.mean(p.argmax(axis=1) != y)),
        "log_loss": float(-np.mean(np.log(np.maximum(truth, FLOOR)))),
        "ece": float(expected_calibration_error(p, y)),
        "confidence": float(p.max(axis=1).mean()),
    }


def reliability_counts(p: Array, y: Codes) -> Array:
    """Return what a reliability curve of the predicted class is made of, so that it can be pooled.

    Returns
    -------
    (4, N_BINS)
        For each bin of the predicted class's probability: rows, sum of that probability p, rows
        predicted right, and sum of p (1 − p), the variance of the rows right if p is true.
    """
    top = p.max(axis=1)
    place = np.minimum((top * N_BINS).astype(int), N_BINS - 1)
    weights = [np.ones(len(y)), top, p.argmax(axis=1) == y, top * (1 - top)]
    return np.array([np.bincount(place, w, minlength=N_BINS) for w in weights])


class Reliability(NamedTuple):
    """A reliability curve of the predicted class, pooled over cells; one entry per occupied bin.

    confidence, accuracy, rows : (b,)
    low, high : (b,) where accuracy − confidence of a calibrated model lies in 95 of 100 repetitions
        of all cells: rows of a cell share its labels, so whole cells are drawn again. The band is
        never narrower than for independent rows.
    alone : (b,) half the width of the band for independent rows
    """

    confidence: Array
    accuracy: Array
    rows: Array
    low: Array
    high: Array
    alone: Array

    @property
    def within(self) -> NDArray[np.bool_]:
        """Which bins lie within the band around the diagonal, (b,)."""
        gap = self.accuracy - self.confidence
        return (gap >= self.low) & (gap <= self.high)


def pooled_reliability(
    counts: Array, rng: np.random.Generator, n_resamples: int = 2000
) -> Reliability:
    """Pool the counts of cells, and resample cells to see how far chance moves the curve.

    Parameters
    ----------
    counts : (cells, 4, N_BINS)
        One `reliability_counts` a cell.
    rng : Generator
    n_resamples : int, default=2000

    Returns
    -------
    Reliability
    """
    total = counts.sum(axis=0)
    used = total[0] > 0
    rows, claimed, right, variance = total[:, used]
    gap = (right - claimed) / rows
    n_cells = len(counts)
    times = rng.multinomial(n_cells, np.full(n_cells, 1 / n_cells), size=n_resamples)
    again = np.einsum("rc,ckb->rkb", times, counts[:, :, used])
    with np.errstate(invalid="ignore"):  # a bin without rows in a resample
        moved = (again[:, 2] - again[:, 1]) / again[:, 0] - gap
    low, high = np.nanquantile(moved, [0.025, 0.975], axis=0)
    alone = 1.96 * np.sqrt(variance) / rows
    return Reliability(
        claimed / rows, right / rows, rows, np.minimum(low, -alone), np.maximum(high, alone), alone
    )
