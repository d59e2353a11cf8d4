"""Probabilities of labelled rows from models that did not see their labels, and their scores."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from atoll.core.binning import bin_predictions, mean_gap
from atoll.core.labels import PartialLabels, parse_labels
from atoll.core.progress import progress_bar
from atoll.core.repeated_rows import about_repeats, without_repeats
from atoll.core.selection import some_rows
from atoll.diagnostics import brier_score, expected_calibration_error
from atoll.plotting.palette import class_names
from atoll.plotting.rows import unlabelled_marker

MOST_ROWS = 50_000  # of a refit: all labelled ones, and others at random
N_BINS = 10  # of probabilities, as in `expected_calibration_error`
LEAST = 1e-6  # share that a class missing in the other folds counts as, as in `compare_models`
LABELS_DRAWN = 400  # sets of labels from which the calibration error by chance is found


class HeldOut(NamedTuple):
    """What cross-validation found, or why it was not done.

    probabilities : (m, K), one row per labelled row; empty if cross-validation was not done
    codes : (m,) column of each row's true class
    n_splits : number of folds used; 0 if it was not done
    note : why it was not done, why there were fewer folds than asked for, or that refits used a
        part of the rows; '' otherwise
    warnings : the refits' warnings, without repetition
    shares : (m, K) shares of the classes among the labels of the other folds; None if not known
    """

    probabilities: NDArray[np.float64]
    codes: NDArray[np.int64]
    n_splits: int
    note: str
    warnings: tuple[str, ...]
    shares: NDArray[np.float64] | None = None


class Scores(NamedTuple):
    """Scores of held-out rows; log-loss is in nats, Brier is summed over classes, so in [0, 2].

    accuracy_low, accuracy_high : 95% Wilson interval of the accuracy
    chance_log_loss : log-loss of predicting each class by its share of the other folds' labels, or
        of these rows where there are no folds
    """

    n_rows: int
    accuracy: float
    accuracy_low: float
    accuracy_high: float
    log_loss: float
    chance_log_loss: float
    brier: float
    calibration_error: float


def held_out_probabilities(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    unlabelled: Any = "auto",
    n_splits: int = 5,
    random_state: int | None = 0,
    progress: bool = False,
) -> HeldOut:
    """Refit clones of `estimator` on folds of the labelled rows and predict the rows left out.

    Unlabelled rows are in every training set, up to 50,000 rows in all, unless the classifier takes
    labelled rows alone, as most of scikit-learn's do. A row that stands in the
    table several times with the same label has it once: a copy would tell what is held out. There
    are no more folds than the rarest class has labelled rows; if it has fewer than two, nothing is
    refitted and the note says why.

    Parameters
    ----------
    estimator : classifier
        Cloned, never changed. The clones do not use its checkpoint file, if it has one.
    X : array-like or DataFrame of shape (n, d)
    y : array-like of shape (n,)
        Labels, with unlabelled rows marked as in ``fit``.
    unlabelled : object, default='auto'
        Which value of `y` means no label, as in ``fit``.
    n_splits : int, default=5
        Number of folds wanted, at least 2.
    random_state : int or None, default=0
        Seed of the folds, and of the refits if the estimator has none.
    progress : bool, default=False
        Whether to show a progress bar.

    Returns
    -------
    HeldOut

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.naive_bayes import GaussianNB
    >>> X = np.arange(12.0)[:, None]
    >>> y = np.repeat([0, 1], 6)
    >>> found = held_out_probabilities(GaussianNB(), X, y, n_splits=3)
    >>> found.probabilities.shape, found.n_splits
    ((12, 2), 3)
    """
    from atoll.estimators.graph_rows import choose_rows
    from atoll.estimators.model_selection import SemiSupervisedKFold, clone_for_fold, with_nulls
    from atoll.estimators.validation import ROW_NUMBERS

    if n_splits < 2:
        raise ValueError(f"n_splits is {n_splits}; cross-validation needs at least 2.")
    classes = getattr(estimator, "classes_", None)
    if classes is not None:
        unlabelled = unlabelled_marker(unlabelled, classes)
    labels = parse_labels(y, unlabelled=unlabelled, classes=classes)
    X = X if hasattr(X, "iloc") or sparse.issparse(X) else np.asanyarray(X)
    # Converted as objects, since NumPy would turn the list ["a", nan] into two strings.
    y = y if hasattr(y, "dtype") else np.asarray(y, dtype=object)
    n_labelled, labels = labels.n_labelled, without_repeats(X, labels)
    n_repeated = n_labelled - labels.n_labelled
    y = with_nulls(labels) if n_repeated else y
    rarest = int(labels.counts.argmin())
    n_rarest = int(labels.counts[rarest])
    name = class_names(labels.classes)[rarest]
    n_usable = min(n_splits, n_rarest)
    if n_usable < 2:
        rows = "1 labelled row" if n_rarest == 1 else "no labelled row"
        return _not_done(
            labels,
            f"Class {name!r} has {rows}: held out, it would leave nothing to learn the class "
            "from. Label at least two rows of every class.",
        )
    needs_labels = _needs_labels(estimator)
    notes = []
    if n_usable < n_splits:
        few = f"{n_usable} folds, not {n_splits}: class {name!r} has {n_rarest} labelled rows."
        notes.append(few)
    if len(labels.codes) > MOST_ROWS and not needs_labels:
        notes.append(f"Refits have {MOST_ROWS:,} of the {len(labels.codes):,} rows.")
    if needs_labels and n_labelled < len(labels.codes):
        notes.append("Refits have labelled rows alone, which are all that the model takes.")
    note = " ".join([*notes, about_repeats(n_repeated)]).strip()
    given = labels.classes[labels.codes] if needs_labels else y
    more = {"random_state": random_state, "unlabelled": unlabelled}
    folds = SemiSupervisedKFold(n_usable, shuffle=True, **more)
    p = np.zeros((len(labels.codes), len(labels.classes)))
    shares, tested = np.zeros_like(p), np.zeros(len(labels.codes), dtype=bool)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warnings.filterwarnings("ignore", ROW_NUMBERS)  # the fit to all rows can tell better
        for train, test in progress_bar(
            folds.split(X, y), total=n_usable, desc="cross-validation", disable=not progress
        ):
            known = np.flatnonzero(labels.is_labelled[train])
            shares[test] = labels.of(train).counts / len(known)
            if needs_labels:
                train = train[known]
            else:
                train = train[choose_rows(np.random.default_rng(0), len(train), known, MOST_ROWS)]
            refitted = clone_for_fold(
                estimator, train, unlabelled, random_state=random_state, is_silent=True
            )
            try:
                refitted.fit(some_rows(X, train), some_rows(given, train))
                found = refitted.predict_proba(some_rows(X, test))
            except ValueError as error:
                return _not_done(labels, f"A refit on part of the labels failed: {error}")
            # A class that the refit has not seen keeps probability zero in this fold.
            columns = [labels.classes.tolist().index(c) for c in refitted.classes_.tolist()]
            p[np.ix_(test, columns)] = found
            tested[test] = True
    messages = tuple(sorted({str(warning.message) for warning in caught}))
    codes = labels.codes[tested].astype(np.int64)
    return HeldOut(p[tested], codes, n_usable, note, messages, shares[tested])


def score(
    probabilities: ArrayLike, codes: ArrayLike, shares: NDArray[np.float64] | None = None
) -> Scores:
    """Score held-out class probabilities.

    Parameters
    ----------
    probabilities : array-like of shape (m, K)
    codes : array-like of int, shape (m,)
        Column of each row's true class.
    shares : array of shape (m, K), default=None
        Class shares to compare with; None takes those of `codes`.

    Returns
    -------
    Scores

    References
    ----------
    Gneiting, T. and Raftery, A. E. (2007). Strictly proper scoring rules, prediction, and
    estimation. JASA 102.

    Examples
    --------
    >>> found = score([[0.8, 0.2], [0.4, 0.6]], [0, 0])
    >>> found.accuracy, round(found.log_loss, 4), round(found.brier, 4)
    (0.5, 0.5697, 0.4)
    """
    from scipy.stats import binomtest

    p = np.asarray(probabilities, dtype=float)
    k = np.asarray(codes)
    n = len(k)
    n_right = int((p.argmax(axis=1) == k).sum())
    interval = binomtest(n_right, n).proportion_ci(method="wilson")
    if shares is None:
        shares = np.tile(np.bincount(k, minlength=p.shape[1]) / n, (n, 1))
    with np.errstate(divide="ignore"):  # a certain but wrong prediction costs infinity
        log_loss = -np.log(p[np.arange(n), k]).mean()
    return Scores(
        n_rows=n,
        accuracy=n_right / n,
        accuracy_low=float(interval.low),
        accuracy_high=float(interval.high),
        log_loss=float(log_loss),
        chance_log_loss=float(-np.log(np.maximum(shares[np.arange(n), k], LEAST)).mean()),
        brier=brier_score(p, k),
        calibration_error=expected_calibration_error(p, k),
    )


def calibration_error_by_chance(probabilities: ArrayLike, rng: np.random.Generator) -> float:
    """Return the 95th percentile of the calibration error that right probabilities would show.

    Labels are drawn from the probabilities themselves. With few rows even a perfect model shows an
    error, so only an error beyond this percentile is evidence of a fault.

    Parameters
    ----------
    probabilities : array-like of shape (m, K)
    rng : numpy Generator

    Returns
    -------
    float

    Examples
    --------
    >>> import numpy as np
    >>> calibration_error_by_chance([[1.0, 0.0]] * 5, np.random.default_rng(0))
    0.0
    """
    p = np.asarray(probabilities, dtype=float)
    cumulative, best, rows = p.cumsum(axis=1), p.argmax(axis=1), np.arange(len(p))
    # A draw is of the best class where it falls between these two; no other class counts.
    low, high = np.where(best > 0, cumulative[rows, best - 1], 0.0), cumulative[rows, best]
    errors = []
    for _ in range(LABELS_DRAWN):
        # Scaled by the row's sum, so that rounding cannot put a draw past the last class.
        u = rng.random(len(p)) * cumulative[:, -1]
        binned = bin_predictions(p[rows, best], (low <= u) & (u < high), N_BINS)
        errors.append(mean_gap(*binned))
    return float(np.quantile(errors, 0.95))


def _needs_labels(estimator: Any) -> bool:
    """Return whether a classifier of scikit-learn's would take a missing label for a class."""
    from sklearn.pipeline import Pipeline

    model = estimator[-1] if isinstance(estimator, Pipeline) else estimator
    package, *inside = type(model).__module__.split(".")
    return package == "sklearn" and inside[:1] != ["semi_supervised"]


def _not_done(labels: PartialLabels, note: str) -> HeldOut:
    return HeldOut(np.empty((0, len(labels.classes))), np.empty(0, dtype=np.int64), 0, note, ())
