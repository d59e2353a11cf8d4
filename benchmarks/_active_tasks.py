"""What bench_active.py runs: pools, rules of other packages, and one run of the loop."""

from __future__ import annotations

import time
import warnings
from functools import lru_cache

import numpy as np
from _default_tasks import Table, standardised, stream, table
from scipy.linalg import eigh
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine, make_moons

from atoll import AtollClassifier, GraphGPClassifier
from atoll.active import ActiveLearner
from atoll.active.uncertainty import margin
from atoll.core.graphs import neighbour_graph, self_tuning_weights
from atoll.datasets import load_ssl_book, make_crescents, make_pinwheel

MOST_ROWS = 500  # of a pool; another draw of them for every seed
MODES = 50  # of the graph, as graphlearning's examples have it
NOISE = 0.1**2  # gamma2 of graphlearning

# Settings of the error's estimate, and the default estimator, were chosen on the first list.
DEVELOPMENT = ("crescents", "pinwheel", "rare blobs", "digits 4, 9", "digit 1", "iris", "heart",
               "segment", "vehicle", "wisconsin", "g241c")  # fmt: skip
REPORTED = ("moons", "rare moons", "cancer", "digit 8", "digits 3, 5", "ten digits", "wine",
            "Digit1", "USPS", "COIL", "g241d", "BCI")  # fmt: skip
SSL_BOOK = ("Digit1", "USPS", "COIL", "g241c", "g241d", "BCI")
ESTIMATORS = {"graph-gp": GraphGPClassifier, "atoll": AtollClassifier}


# --- pools ----------------------------------------------------------------------------------------


def pool(name, seed, data=None):
    """Rows and class codes of a task, at most MOST_ROWS of them, drawn anew for every seed."""
    rng = stream("pool", name, seed)
    if name == "moons":
        return Table(*make_moons(400, noise=0.15, random_state=int(rng.integers(2**31))))
    if name == "rare moons":
        X, y = make_moons(1600, noise=0.15, random_state=int(rng.integers(2**31)))
        rows = np.concatenate([np.flatnonzero(y == 0)[:380], np.flatnonzero(y == 1)[:20]])
        return Table(X[rows], y[rows])
    if name == "rare blobs":
        y = (np.arange(400) < 20).astype(int)
        return Table(rng.standard_normal((400, 2)) + 3.0 * y[:, None], y)
    if name == "crescents":
        return Table(*make_crescents(300, noise=1.5, random_state=rng))
    if name == "pinwheel":
        return Table(*make_pinwheel(300, 5, tangential_spread=0.25, random_state=rng))
    X, y = whole_set(name, data)
    if len(X) > MOST_ROWS:
        rows = rng.choice(len(X), MOST_ROWS, replace=False)
        X, y = X[rows], y[rows]
    return Table(X, np.unique(y, return_inverse=True)[1])


@lru_cache
def whole_set(name, data):
    if name in SSL_BOOK:
        book = load_ssl_book(name, data)
        return Table(np.asarray(book.data), np.unique(book.target, return_inverse=True)[1])
    if name in ("cancer", "wine", "iris"):
        loaders = {"cancer": load_breast_cancer, "wine": load_wine, "iris": load_iris}
        X, y = loaders[name](return_X_y=True)
        return Table(standardised(X), y)
    if "digit" in name:
        X, y = load_digits(return_X_y=True)
        if name == "ten digits":
            return Table(X, y)
        which = [int(word.strip(",")) for word in name.split()[1:]]
        if len(which) == 2:
            kept = np.isin(y, which)
            return Table(X[kept], (y[kept] == which[1]).astype(int))
        return Table(X, (y == which[0]).astype(int))
    return table(name, data)


# --- rules of other packages ----------------------------------------------------------------------
# Each takes the learner, the number of rows and a generator, and gives rows of the pool.


class GraphVariance:
    """VOpt, SigmaOpt and MCVOpt by their published formulas, on the graph's smoothest modes.

    The Gaussian field has covariance V C Vᵀ, C = diag(1/λ) of the normalised Laplacian; a label
    takes C v vᵀ C / (γ² + vᵀ C v) off it. VOpt (Ji & Han 2012) takes the row that lowers the trace
    most, SigmaOpt (Ma, Garnett & Schneider 2013) the sum of all entries, and MCVOpt (Miller &
    Bertozzi 2021) the trace times the uncertainty of the row, one less its margin.
    """

    def __init__(self, X, kind):
        W = self_tuning_weights(neighbour_graph(X, min(15, len(X) - 1))).toarray()
        degree = np.maximum(W.sum(axis=1), 1e-12)
        L = np.eye(len(X)) - W / np.sqrt(degree[:, None] * degree)
        values, self.V = eigh(L, subset_by_index=[0, min(MODES, len(X)) - 1])
        self.C = np.diag(1.0 / (np.maximum(values, 0.0) + 1e-11))
        self.kind = kind
        self.seen = set()

    def learn(self, rows):
        for row in rows:
            if row not in self.seen:
                self.seen.add(row)
                Cv = self.C @ self.V[row]
                self.C -= np.outer(Cv, Cv) / (NOISE + self.V[row] @ Cv)

    def __call__(self, learner, n, rng):
        self.learn(np.flatnonzero(learner.labels_ != None))  # noqa: E711
        unsure = 1.0 + margin(learner.proba_)
        chosen = []
        for _ in range(n):
            free = np.setdiff1d(np.arange(len(self.V)), list(self.seen))
            CV = self.C @ self.V[free].T
            below = NOISE + np.einsum("if,fi->f", CV, self.V[free])
            if self.kind == "sigmaopt":
                score = (self.V.sum(axis=0) @ CV) ** 2 / below
            else:
                score = np.sum(CV**2, axis=0) / below
            if self.kind == "mcvopt":
                score = score * unsure[free]
            best = free[int(np.argmax(score))]
            chosen.append(best)
            self.learn([best])
        return np.array(chosen)


class FromScikitActiveml:
    """A rule of scikit-activeml, given our model's probabilities where it asks for any."""

    def __init__(self, X, kind):
        self.X, self.kind = X, kind.removeprefix("skactiveml ")
        self.strategy = None

    def __call__(self, learner, n, rng):
        from skactiveml import pool as theirs

        if self.strategy is None:
            seed = int(rng.integers(2**31))
            self.strategy = getattr(theirs, self.kind)(random_state=seed, missing_label=-1)
        codes = np.array([-1 if label is None else label for label in learner.labels_], dtype=int)
        more = {}
        if self.kind == "Falcun":
            more = {"clf": _given(self.X, learner.proba_), "fit_clf": False}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return np.asarray(self.strategy.query(self.X, codes, batch_size=n, **more), dtype=int)


def _given(X, proba):
    """A classifier of scikit-activeml that looks probabilities of the pool's rows up."""
    from skactiveml.base import SkactivemlClassifier

    place = {row.tobytes(): i for i, row in enumerate(np.ascontiguousarray(X))}

    class Given(SkactivemlClassifier):
        def fit(self, X, y, sample_weight=None):
            return self

        def predict_proba(self, X):
            return proba[[place[row.tobytes()] for row in np.ascontiguousarray(X)]]

    return Given(classes=list(range(proba.shape[1])), missing_label=-1)


def our_query(learner, n, rng):
    return learner.query(n).rows


def top_margin(learner, n, rng):
    """The n rows of smallest margin, neighbours or not: what no strategy of ours does."""
    score = np.where(learner.labels_ == None, margin(learner.proba_), -np.inf)  # noqa: E711
    return np.argsort(-score)[:n]


THEIRS = {
    **dict.fromkeys(("vopt", "sigmaopt", "mcvopt"), GraphVariance),
    **{f"skactiveml {kind}": FromScikitActiveml
       for kind in ("ProbCover", "TypiClust", "Falcun")},
    "top margin": lambda X, kind: top_margin,
}  # fmt: skip


# --- one run --------------------------------------------------------------------------------------


def first_labels(y, start, rng):
    """Labels that a run begins with: of no row, of one, or of one a class."""
    partial = np.full(len(y), None, dtype=object)
    if start == "one":
        rows = [int(rng.integers(len(y)))]
    elif start == "each":
        rows = [int(rng.choice(np.flatnonzero(y == k))) for k in np.unique(y)]
    else:
        rows = []
    partial[rows] = y[rows]
    return partial


def doubts_of(learner):
    """Doubts of the unlabelled rows in steps of a tenth of log-odds: [[log-odds, rows], …]."""
    free = learner.labels_ == None  # noqa: E711
    q = np.clip(1.0 - learner.proba_[free].max(axis=1), 1e-4, 1 - 1e-4)
    steps, counts = np.unique(np.round(10 * np.log(q / (1 - q))).astype(int), return_counts=True)
    return [steps.tolist(), counts.tolist()]


def checkpoint(learner, error):
    """What the learner says of its error, and what it is."""
    said, history = learner.estimate_error(), learner._history
    return {
        "labels": learner.n_labels_, "error": error, "upper": said.upper, "expected": said.error,
        "alone": said.audits_alone.upper, "n": said.n_unlabelled,
        "audits": [[round(a.doubt, 5), int(w)] for a, w in zip(history.audits, history.outcomes())],
        "doubts": doubts_of(learner),
    }  # fmt: skip


def run(task, data=None):
    """One loop from the first labels on: the error after every batch, and seconds.

    Parameters
    ----------
    task : dict of set, seed, strategy, start, batch, labels (in the end), and perhaps estimator,
        checks (every so many labels, or after every batch) and audit_every
    """
    X, y = pool(task["set"], task["seed"], data)
    rng = stream("start", task["set"], task["seed"])
    strategy, theirs = task["strategy"], task["strategy"] in THEIRS
    estimator = ESTIMATORS[task["estimator"]]()
    learner = ActiveLearner(
        estimator,
        classes=np.unique(y).tolist(),
        strategy="margin" if theirs else strategy,
        audit_every=None if theirs else task.get("audit_every", 5),
        random_state=task["seed"],
    ).fit(X, first_labels(y, task["start"], rng))
    pick = THEIRS[strategy](X, strategy) if theirs else our_query
    counts, errors, checks, seconds = [], [], [], time.process_time()
    while True:
        if learner.n_labels_:
            wrong = learner.predictions_ != y
            free = learner.labels_ == None  # noqa: E711
            counts.append(learner.n_labels_)
            errors.append(round(float(wrong[free].mean()), 5))
            in_turn = task["batch"] > 1 or learner.n_labels_ % task.get("checks", 1) == 0
            if task.get("checks") and in_turn:
                checks.append(checkpoint(learner, errors[-1]))
        if learner.n_labels_ >= task["labels"]:
            break
        rows = pick(learner, min(task["batch"], task["labels"] - learner.n_labels_), rng)
        learner.update(rows, y[rows])
    seconds = round(time.process_time() - seconds, 2)
    return {"counts": counts, "errors": errors, "seconds": seconds} | (
        {"checks": checks} if checks else {}
    )
