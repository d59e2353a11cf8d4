"""Every classifier that can take the data, on the user's own labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from atoll.comparison.candidates import CANDIDATES, Candidate
from atoll.comparison.folds import HeldOutLosses, held_out_losses
from atoll.comparison.judging import FEWEST, NEAR, TELLING, Judgement, judge, paired_difference
from atoll.comparison.result import Difference, ModelComparison, ModelRow
from atoll.core.labels import PartialLabels, parse_labels, require_classes
from atoll.core.preprocessing import PreparedTable, counts_as_category
from atoll.core.progress import progress_bar
from atoll.estimators.parameters import Whole, check_value

DEFAULT = "atoll"
MOST_ROWS = 2000  # rows that models are fitted to: some take the cube of their number


def compare_models(
    X: Any,
    y: Any,
    *,
    models: Sequence[str] | Mapping[str, Any] | None = None,
    n_splits: int = 5,
    max_rows: int = MOST_ROWS,
    unlabelled: Any = "auto",
    random_state: int = 0,
    progress: bool = True,
) -> ModelComparison:
    """Compare classifiers on held-out labels, and say which to use.

    Labelled rows are held out fold by fold (`SemiSupervisedKFold`); unlabelled rows are in every
    fit. Differences from the default are paired by row; their intervals are those of a correlated
    t-test. The recommendation weighs them with what the models did on other tables, since few
    labels say little: with fewer than eight in a class, and where the chance of being near the best
    is below nine tenths, it says that it cannot tell, and keeps the default.

    Parameters
    ----------
    X : (n, d) array or data frame of finite numbers, or PreparedTable
        Of a table as `atoll.core.preprocessing.prepare` returns it, standardised, the default
        weighs the categories by the labels of every fold, as `atoll fit` does by all labels.
    y : (n,) labels; None, NaN or NA where unknown, or -1 among numbers
    models : names, or names with classifiers, default=None
        Which models to compare, of `atoll models` and of the peers "shares", "logistic" and
        "label-spreading"; or a mapping of names to classifiers of your own. None: all that are
        quick, and the peers. The default classifier, "atoll", is always compared.
    n_splits : int, default=5
        Folds; no more than the rarest class has labels.
    max_rows : int, default=2000
        Rows that models are fitted to: all labelled ones, and unlabelled ones drawn at random.
    unlabelled : "auto", None or a value, default="auto"
        What in y means unlabelled beside nulls, as in the classifiers.
    random_state : int, default=0
        Seed of folds, fits and the choice of rows.
    progress : bool, default=True
        Whether a bar is shown: in a notebook, at a terminal, and where standard error goes to a
        file a line every ten seconds.

    Returns
    -------
    ModelComparison
        Its `recommendation` is a sentence, `best` the name of a model; printed it is a table.

    References
    ----------
    C. Nadeau and Y. Bengio, "Inference for the generalization error" (2003). G. Corani and
    A. Benavoli, "A Bayesian approach for comparing cross-validated algorithms" (2015).

    Examples
    --------
    >>> from atoll.datasets import hide_labels, make_crescents
    >>> X, truth = make_crescents(n_samples=120, random_state=0)
    >>> y = hide_labels(truth, per_class=4, marker=None, random_state=0)
    >>> found = compare_models(X, y, models=["shares", "logistic"], n_splits=2)
    >>> found.best, found.can_tell
    ('atoll', False)
    """
    check_value("n_splits", n_splits, Whole(2))
    check_value("max_rows", max_rows, Whole(2))
    check_value("random_state", random_state, Whole(0))
    categories = None
    if isinstance(X, PreparedTable):
        if X.preprocessing.standardised and not sparse.issparse(X.X):
            categories = counts_as_category(X)
        X = X.X
    rows, labels = _read(X, y, unlabelled)
    candidates, left_out = _chosen(models, len(labels.classes))
    candidates = [
        one._replace(categories=categories) if one.name == DEFAULT else one for one in candidates
    ]
    n_rarest = int(labels.counts.min())
    if n_rarest < 2:
        rarest = labels.classes.tolist()[int(labels.counts.argmin())]
        raise ValueError(
            f"class {rarest!r} has {n_rarest} labelled row; to hold labels out, label at least two "
            "rows of every class."
        )
    n_splits = min(n_splits, n_rarest)
    rng = np.random.default_rng(random_state)
    used = _rows_to_use(labels, max_rows, rng)
    codes = np.where(labels.is_labelled, labels.codes, -1)[used]
    total = len(candidates) * n_splits
    with progress_bar(total=total, desc="comparing", disable=not progress) as bar:

        def tell(name: str) -> None:
            bar.set_postfix_str(name)
            bar.update()

        found = held_out_losses(candidates, rows[used], codes, n_splits, random_state, tell)
    if DEFAULT not in found.names:
        raise ValueError(f"the default classifier cannot take the data: {found.failed[DEFAULT]}")
    judgement = judge(found.names, found.log_losses, DEFAULT, n_splits, random_state)
    return _result(
        candidates, found, judgement, labels, used, n_splits, left_out + tuple(found.failed.items())
    )


def _chosen(
    models: Sequence[str] | Mapping[str, Any] | None, n_classes: int
) -> tuple[list[Candidate], tuple[tuple[str, str], ...]]:
    """Return the models to compare, the default among them, and why others are left out."""
    default = CANDIDATES[DEFAULT]
    if isinstance(models, Mapping):
        own = [Candidate(str(name), model) for name, model in models.items()]
        if any(one.name == DEFAULT for one in own):
            raise ValueError(
                f"models names a classifier {DEFAULT!r}, which is the default's name; call it "
                "something else."
            )
        return [default, *own], ()
    if models is not None:
        asked = [models] if isinstance(models, str) else list(models)
        for name in asked:
            if name not in CANDIDATES:
                raise ValueError(
                    f"models={name!r} is none of those that can be compared: "
                    f"{', '.join(CANDIDATES)}; to compare a classifier of your own pass "
                    "{name: classifier}."
                )
        names = dict.fromkeys([DEFAULT, *asked])
        return [CANDIDATES[name] for name in names], ()
    every = list(CANDIDATES.values())
    reasons = {one.name: one.why_not(n_classes) for one in every}
    left_out = tuple((name, f"{why}; ask for it by name") for name, why in reasons.items() if why)
    return [one for one in every if not reasons[one.name]], left_out


def _read(X: Any, y: Any, unlabelled: Any) -> tuple[Any, PartialLabels]:
    rows = X.tocsr() if sparse.issparse(X) else np.asarray(X)
    if rows.ndim != 2:
        raise ValueError(f"X has shape {rows.shape}; give rows (n, d).")
    labels = parse_labels(y, unlabelled=unlabelled)
    if len(labels.codes) != rows.shape[0]:
        raise ValueError(
            f"X has {rows.shape[0]} rows and y has {len(labels.codes)}; give one label, or a null, "
            "for each row of X."
        )
    require_classes(labels)
    return rows, labels


def _rows_to_use(labels: PartialLabels, most: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """Return labelled rows and a random part of the others, in order."""
    n = len(labels.codes)
    others = np.flatnonzero(~labels.is_labelled)
    n_others = max(0, most - labels.n_labelled)
    if len(others) <= n_others:
        return np.arange(n)
    some = rng.choice(others, n_others, replace=False)
    return np.sort(np.concatenate([np.flatnonzero(labels.is_labelled), some]))


def _result(
    candidates: Sequence[Candidate],
    found: HeldOutLosses,
    judgement: Judgement,
    labels: PartialLabels,
    used: NDArray[np.intp],
    n_splits: int,
    left_out: tuple[tuple[str, str], ...],
) -> ModelComparison:
    at = found.names.index(DEFAULT)
    of = {one.name: one for one in candidates}
    order = np.argsort(found.log_losses.mean(axis=1), kind="stable")
    table = tuple(
        ModelRow(
            found.names[i],
            of[found.names[i]].is_peer,
            float(found.log_losses[i].mean()),
            float(found.errors[i].mean()),
            float(judgement.expected[i]),
            float(judgement.near_best[i]),
            float(found.seconds[i]),
            of[found.names[i]].note,
        )
        for i in order
    )
    differences = tuple(
        Difference(
            found.names[i],
            paired_difference(found.log_losses[i] - found.log_losses[at], n_splits),
            paired_difference(found.errors[i] - found.errors[at], n_splits),
        )
        for i in order
    )
    n_rarest = int(labels.counts.min())
    can_tell = bool(n_rarest >= FEWEST and judgement.near_best[judgement.best] >= TELLING)
    best = found.names[judgement.best] if can_tell else DEFAULT
    place = found.names.index(best)
    of_best = next(one.log_loss for one in differences if one.model == best)
    sentence = _sentence(best, can_tell, n_rarest, float(judgement.near_best[place]), of_best.mean)
    sentence += better_here(differences, best)
    return ModelComparison(
        table,
        differences,
        best,
        sentence,
        can_tell,
        DEFAULT,
        len(labels.codes),
        labels.n_labelled,
        len(labels.classes),
        len(used),
        n_rarest,
        n_splits,
        left_out,
        of[best],
    )


def better_here(differences: tuple[Difference, ...], best: str) -> str:
    """Return which models did better than the default beyond doubt, where that is recommended."""
    better = [one.model for one in differences if one.log_loss.high < 0]
    if best != DEFAULT or not better:
        return ""
    its = "its 95% interval is" if len(better) == 1 else "their 95% intervals are"
    among = f"; of {len(differences) - 1} intervals, one in twenty misses by chance"
    return f" On these labels {', '.join(better)} did better than it: {its} below zero{among}."


def _sentence(best: str, can_tell: bool, n_rarest: int, near_best: float, difference: float) -> str:
    """Return the recommendation."""
    chance = (
        f"the chance that no other model is better by more than {NEAR:g} nats a row is about "
        f"{100 * near_best:.0f}%"
    )
    if not can_tell:
        few = f"the rarest class has {n_rarest}, and {FEWEST} in every class are needed"
        reason = few if n_rarest < FEWEST else f"of the default, {chance}"
        return (
            f"These labels cannot tell which model is best: {reason}. Use {DEFAULT}, the default, "
            "which has done best on other tables."
        )
    if best == DEFAULT:
        return f"Use {DEFAULT}, the default: {chance}."
    word = "lower" if difference < 0 else "higher"
    return (
        f"Use {best}: on held-out labels its log-loss is {abs(difference):.3f} nats a row {word} "
        f"than the default's, and with what is known from other tables {chance}."
    )
