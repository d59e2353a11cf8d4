"""Every classifier that can take the data, on the user's own labels."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.preprocessing import StandardScaler

from atoll.comparison.blending import BLEND, with_blend
from atoll.comparison.candidates import CANDIDATES, Candidate
from atoll.comparison.folds import HeldOutLosses, held_out_codes, held_out_losses
from atoll.comparison.judging import FEWEST, NO_DIFFERENCE, Judgement, judge, paired_difference
from atoll.comparison.recommending import (
    Lead,
    about_ahead,
    about_interruption,
    about_peers,
    about_single_labels,
    ahead_of_blend,
    better_here,
    main_model,
    recommend,
    sentence,
    to_keep,
    too_few,
)
from atoll.comparison.result import Difference, ModelComparison, ModelRow
from atoll.comparison.timing import Forecast, seconds_of_models
from atoll.core.chunks import require_in_memory
from atoll.core.class_slips import remark_on_slips
from atoll.core.column_scales import unlike_scales
from atoll.core.labels import PartialLabels, parse_labels, require_classes
from atoll.core.near_names import did_you_mean
from atoll.core.preprocessing import PreparedTable, counts_as_category
from atoll.core.progress import progress_bar
from atoll.core.remarks import warn_user
from atoll.core.repeated_rows import without_repeats
from atoll.core.rows import COSINE, EUCLIDEAN
from atoll.core.table_fixes import FRAME
from atoll.estimators.graph_rows import choose_rows
from atoll.estimators.parameters import Nothing, OneOf, Whole, check_value
from atoll.estimators.tables import TablePreprocessor, make_preprocessor
from atoll.estimators.validation import remark_on_order

DEFAULT = "atoll"
_METRICS = OneOf(EUCLIDEAN, COSINE)
MOST_ROWS = 2000  # rows that models are fitted to: some take the cube of their number

# Without the time left: quick models come first, and would make it look too short.
_BAR = "{desc}: fit {n_fmt} of {total_fmt} [{elapsed}{postfix}]"


def compare_models(
    X: Any,
    y: Any,
    *,
    models: Sequence[str | Mapping[str, Any]] | Mapping[str, Any] | None = None,
    without: Sequence[str] = (),
    n_splits: int = 5,
    max_rows: int = MOST_ROWS,
    metric: str | None = None,
    unlabelled: Any = "auto",
    random_state: int = 0,
    progress: bool = True,
) -> ModelComparison:
    """Compare classifiers on held-out labels, and say which to use.

    Labelled rows are held out fold by fold (`SemiSupervisedKFold`); unlabelled rows are in every
    fit. Differences from the default are paired by row; their intervals are those of a correlated
    t-test. Few labels say little about which model is best, so a blend of the models is
    recommended, in which each counts by how well it predicted held-out labels, and the default has
    most of the weight to begin with. If the blend includes a classifier of your own, and a single
    model did better than the blend beyond doubt, that model is recommended instead. If the chance
    that a single model is clearly better than the blend is above one fifth, the recommendation says
    that it cannot tell. With fewer than eight labels in a class the default is kept, and a warning
    says so before the first fit. The only label of a class is in every fit and is not scored; if
    every class has only one, nothing is compared. A row that stands in the table several times
    with the same label has it once: its copies would tell every model the label that is held out.

    Models are compared on the same columns: if the default standardises them, because their ranges
    are unlike, they are standardised for the others as well; otherwise every model takes them as
    they are. Classifiers of your own always take them as they are, and logistic regression always
    standardises them. `classifier()` treats columns in the same way. If the fits will take more
    than half a minute, this is said before them, after trials on parts of the rows, or after the
    first fit of the default.

    An interruption (Ctrl-C, or "stop" in a notebook) keeps the models that are done, and says which
    are missing.

    Parameters
    ----------
    X : (n, d) array or data frame, or PreparedTable
        Words and blank cells are prepared as `make_preprocessor()` does; numbers without blanks are
        scaled as above. In a table that was prepared, here or by
        `atoll.core.preprocessing.prepare`, the labels of every fold choose the weight of categories
        for the default, as all labels do in `atoll fit`.
    y : (n,) labels; None, NaN or NA where unknown, or -1 among numbers
    models : names, or names with classifiers, default=None
        Which models to compare, of `atoll models` and of the peers "shares", "logistic" and
        "label-spreading"; or a mapping of names to classifiers of your own, which may stand among
        names as well: ["logistic", {"forest": forest}]. None: all that are quick, and the peers.
        The default classifier, "atoll", is always compared.
    without : names, default=()
        Models to leave out, such as "dp-mixture", which is slow on many columns.
    n_splits : int, default=5
        Folds; no more than the rarest class has labels, of those with two or more.
    max_rows : int, default=2000
        Rows that models are fitted to: all labelled ones, and unlabelled ones drawn at random.
    metric : {None, "euclidean", "cosine"}, default=None
        How rows are compared, by the models with such a setting: "cosine" for embeddings and texts,
        whose columns are then taken as they are. None: as each model does by default.
    unlabelled : "auto", None or a value, default="auto"
        What in y means unlabelled besides nulls, as in the classifiers.
    random_state : int, default=0
        Seed of folds, fits and the choice of rows.
    progress : bool, default=True
        Whether to show a progress bar, with the model that is being fitted (a line every ten
        seconds if standard error is a file), and to say how long a long comparison will take.

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
    >>> y = hide_labels(truth, per_class=8, marker=None, random_state=0)
    >>> found = compare_models(X, y, models=["shares", "logistic"], n_splits=2)
    >>> found.best, found.can_tell
    ('atoll', True)
    """
    # Many parameters because each is a choice of its own.
    check_value("n_splits", n_splits, Whole(2))
    check_value("max_rows", max_rows, Whole(2))
    check_value("random_state", random_state, Whole(0))
    check_value("metric", metric, Nothing("as each model does") | _METRICS)
    rows, every, step, categories = _read(X, y, unlabelled)
    labels = without_repeats(rows, every)
    more: Any = {"step": step, "n_repeated": every.n_labelled - labels.n_labelled}
    candidates, left_out = _chosen(models, len(labels.classes))
    not_wanted = _left_out(candidates, without)
    left_out += tuple((one.name, "as asked") for one in candidates if one.name in not_wanted)
    candidates = [
        one._replace(categories=categories) if one.name == DEFAULT else one
        for one in candidates
        if one.name not in not_wanted
    ]
    n_rarest = int(labels.counts.min())
    if labels.counts.max() < 2:
        return replace(_nothing_to_compare(labels, candidates), **more)
    if n_rarest < FEWEST:
        warn_user(
            f"these labels cannot tell which model is best, whatever the comparison finds: "
            f"{too_few(n_rarest)}. It shows how the models do on them, and keeps the default, "
            f"{DEFAULT}.",
            UserWarning,
        )
    n_asked, n_splits = n_splits, min(n_splits, int(labels.counts[labels.counts > 1].min()))
    rng = np.random.default_rng(random_state)
    used = choose_rows(rng, len(labels.codes), np.flatnonzero(labels.is_labelled), max_rows)
    rows, codes = rows[used], np.where(labels.is_labelled, labels.codes, -1)[used]
    unlike = None
    if categories is None and not sparse.issparse(rows) and metric != COSINE:
        unlike = unlike_scales(rows.astype(np.float64, copy=False))
    # The user's own models come last, and may have the name of one of ours.
    ours = [one.by_metric(metric) for one in candidates if _is_ours(one)]
    candidates = [*ours, *candidates[len(ours) :]]
    total = len(candidates) * n_splits
    with progress_bar(total=total, desc="comparing", disable=not progress, bar_format=_BAR) as bar:
        forecast: Forecast | None = None

        def tell(name: str) -> None:
            if forecast is not None:
                forecast.before_fit(name)
            bar.set_postfix_str(name)
            bar.update()

        if progress:
            seen = StandardScaler().fit_transform(rows) if unlike else rows
            forecast = _forecast(ours, seen, codes, n_splits, bar)
        if unlike:
            scaled = [one.on_standardised_columns() for one in ours]
            candidates = [*scaled, *candidates[len(ours) :]]
        found = held_out_losses(candidates, rows, codes, n_splits, random_state, tell)
    if DEFAULT in found.interrupted:
        raise KeyboardInterrupt(_stopped_too_soon(found))
    if DEFAULT not in found.names:
        raise ValueError(f"the default classifier cannot take the data: {found.failed[DEFAULT]}")
    left_out += tuple(found.failed.items())
    scored = held_out_codes(codes)
    found, blend = with_blend(found, candidates, DEFAULT, scored[scored >= 0], n_splits)
    candidates = [*candidates, blend] if blend is not None else candidates
    judgement = judge(found.names, found.log_losses, DEFAULT, n_splits, random_state)
    left_out += tuple((name, "the comparison was stopped") for name in found.interrupted)
    result = _result(candidates, found, judgement, labels, used, n_splits, left_out)
    words = _is_words(X, rows)
    return replace(result, unlike=unlike, n_asked=n_asked, only_words=words, **more)


def _forecast(
    candidates: Sequence[Candidate], rows: Any, codes: NDArray[np.intp], n_splits: int, bar: Any
) -> Forecast:
    """Try the models, and say how long all fits will take, if that is more than half a minute."""
    seconds = seconds_of_models(
        candidates, rows, codes, n_splits, lambda name: bar.set_postfix_str(f"trying {name}")
    )
    return Forecast(
        candidates, seconds, n_splits, DEFAULT, lambda said: bar.write(said, file=sys.stderr)
    )


def _is_words(X: Any, rows: Any) -> bool:
    """Return whether rows are sparse, and not from a table with other columns than texts."""
    return sparse.issparse(rows) and not (
        isinstance(X, PreparedTable) and len(X.preprocessing.features) > 0
    )


def _is_ours(one: Candidate) -> bool:
    """Return whether a candidate is one of `CANDIDATES`, apart from its `categories`."""
    return one.name in CANDIDATES and one.model is CANDIDATES[one.name].model


def _left_out(candidates: Sequence[Candidate], without: Sequence[str]) -> list[str]:
    """Return the names of the models that are to be left out, checked."""
    names = [without] if isinstance(without, str) else list(without)
    if DEFAULT in names:
        raise ValueError(
            f"without={DEFAULT!r}: the default is what models are compared with, and stays; leave "
            "others out."
        )
    known = list(dict.fromkeys([*CANDIDATES, *(one.name for one in candidates)]))
    for name in names:
        if name not in known:
            raise ValueError(
                f"without={name!r} is none of the models that can be compared"
                f"{_meant(name, known)}: {', '.join(known)}."
            )
    return names


def _stopped_too_soon(found: HeldOutLosses) -> str:
    """Say how the models did that were done before the default was."""
    if not found.names:
        return "interrupted before a model was done; there is nothing to compare."
    done = zip(found.names, found.log_losses.mean(axis=1), found.errors.mean(axis=1))
    each = "; ".join(f"{name} {loss:.3f} ({error:.3f})" for name, loss, error in done)
    return (
        f"interrupted before the default was done; there is nothing to compare with. Log-loss (and "
        f"error) on held-out labels of what was done: {each}."
    )


def _asked(models: Any) -> tuple[list[str] | None, dict[str, Any]]:
    """Return the names of models that were asked for, and the user's own classifiers by name.

    The names are None if none were asked for.
    """
    asked: list[Any] = [] if models is None else [models]
    if models is not None and not isinstance(models, str | Mapping):
        asked = list(models)
    own: dict[str, Any] = {}
    for one in asked:
        if isinstance(one, Mapping):
            own |= {str(name): model for name, model in one.items()}
    for name, model in own.items():
        _refuse_no_classifier(name, model)
    names = [one for one in asked if not isinstance(one, Mapping)]
    for name in names:
        if not isinstance(name, str) or name not in CANDIDATES:
            raise ValueError(
                f"models={name!r} is none of those that can be compared{_meant(name)}: "
                f"{', '.join(CANDIDATES)}; to compare a classifier of your own pass "
                "{name: classifier}."
            )
        if name in own:
            raise ValueError(
                f"models names {name!r} twice, once with a classifier of your own; call that "
                "something else."
            )
    return (None if models is None else names), own


def _meant(name: Any, names: Iterable[str] = CANDIDATES) -> str:
    """Return the model that may be meant, in brackets; nothing if no name is near."""
    meant = did_you_mean(name, names).strip() if isinstance(name, str) else ""
    return meant and f" ({meant})"


def _refuse_no_classifier(name: str, model: Any) -> None:
    """Raise a ValueError if a classifier of the user's own cannot be fitted, before any fit."""
    if isinstance(model, type):
        raise ValueError(
            f"models names {name!r} with the class {model.__name__}, not with a classifier; add "
            f"brackets: {{{name!r}: {model.__name__}()}}."
        )
    if not hasattr(model, "fit"):
        raise ValueError(
            f"models names {name!r} with {model!r}, which has no fit(X, y); give a classifier, "
            "such as sklearn.ensemble.RandomForestClassifier()."
        )
    if not hasattr(model, "predict_proba"):
        raise ValueError(
            f"models names {name!r} with {model!r}, which has no predict_proba(X), and models are "
            "compared by their probabilities; wrap it in sklearn.calibration's "
            "CalibratedClassifierCV, or give an SVC probability=True."
        )


def _chosen(models: Any, n_classes: int) -> tuple[list[Candidate], tuple[tuple[str, str], ...]]:
    """Return the models to compare, the default among them, and why others are left out."""
    names, own = _asked(models)
    if DEFAULT in own:
        raise ValueError(
            f"models names a classifier {DEFAULT!r}, which is the default's name; call it "
            "something else."
        )
    if BLEND in own:
        raise ValueError(
            f"models names a classifier {BLEND!r}, which is what the blend of all is called; "
            "call it something else."
        )
    if names is not None:
        named = [CANDIDATES[name] for name in dict.fromkeys([DEFAULT, *names])]
        return [*named, *(Candidate(name, model) for name, model in own.items())], ()
    every = list(CANDIDATES.values())
    reasons = {one.name: one.why_not(n_classes) for one in every}
    left_out = tuple((name, f"{why}; compared if named") for name, why in reasons.items() if why)
    return [one for one in every if not reasons[one.name]], left_out


def _read(
    X: Any, y: Any, unlabelled: Any
) -> tuple[Any, PartialLabels, TablePreprocessor | None, NDArray[np.bool_] | None]:
    """Read rows and labels.

    Returns
    -------
    rows, labels
    step : what prepares a table of words or blanks for a model; None if X is numbers
    categories : (d,) which columns count as categories; None if that is not known
    """
    require_in_memory(X, "compare_models")
    remark_on_order(X, y)
    labels = parse_labels(y, unlabelled=unlabelled)
    remark_on_slips(labels.classes.tolist(), labels.counts.tolist())
    given = X.X if isinstance(X, PreparedTable) else X
    rows = given.tocsr() if sparse.issparse(given) else np.asarray(given)
    if rows.ndim != 2:
        raise ValueError(f"X has shape {rows.shape}; give rows (n, d).")
    if len(labels.codes) != rows.shape[0]:
        raise ValueError(
            f"X has {rows.shape[0]} rows and y has {len(labels.codes)}; give one label, or a null, "
            "for each row of X."
        )
    require_classes(labels)
    step = None
    if not sparse.issparse(rows) and not _is_finite(rows):
        step = make_preprocessor()
        kind = _StepOfFrame if _has_named_columns(X) else TablePreprocessor
        plain = kind(category_weight=1.0).fit(X)
        rows = plain.transform(X)
        rows = rows.tocsr() if sparse.issparse(rows) else rows
        X = PreparedTable(rows, None, plain.preprocessing_)
    if isinstance(X, PreparedTable) and X.preprocessing.standardised and not sparse.issparse(rows):
        return rows, labels, step, counts_as_category(X)
    return rows, labels, step, None


class _StepOfFrame(TablePreprocessor):
    """The step for a user who gave none, and so can only change the data frame."""

    fixes = FRAME


def _has_named_columns(X: Any) -> bool:
    """Return whether X is a pandas data frame whose columns have names, which errors can use."""
    return hasattr(X, "iloc") and all(isinstance(name, str) for name in X.columns)


def _is_finite(rows: NDArray[Any]) -> bool:
    """Return whether the rows hold numbers, and no blanks among them."""
    return rows.dtype.kind in "biuf" and not bool(np.isnan(rows).any())


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
    shares = of[BLEND].shares if BLEND in of else None
    order = np.argsort(found.log_losses.mean(axis=1), kind="stable").tolist()
    if shares is not None and len(shares) == 1:  # its only model has a row already
        order.remove(found.names.index(BLEND))
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
            paired_difference(found.errors[i] - found.errors[at], n_splits, most=1.0),
        )
        for i in order
    )
    n_rarest = int(labels.counts.min())
    simple = [one.name for one in candidates if one.is_peer]
    ahead = ahead_of_blend(found.names, found.log_losses, simple, n_splits, shares)
    advice = recommend(judgement, found.names, DEFAULT, n_rarest, shares, ahead)
    best, can_tell = advice.best, advice.can_tell
    near_best = dict(zip(found.names, judgement.near_best.tolist()))
    said = sentence(advice, DEFAULT, n_rarest, near_best, shares)
    single = _single(labels)
    leads = _leads(found, best, n_splits, of)
    peers = [one.model for one in leads]
    said += about_single_labels(single) + about_ahead(ahead, best)
    said += better_here(differences, best, DEFAULT, peers) + about_peers(leads, best)
    said += about_interruption(found.interrupted)
    alone = None
    if best == BLEND and shares is not None:
        main = max(shares, key=lambda name: shares[name])
        more = about_single_labels(single) + about_peers(_leads(found, main, n_splits, of), main)
        more += about_interruption(found.interrupted)
        losses = dict(zip(found.names, found.log_losses))
        alone = main_model(advice, near_best, shares, losses, n_splits, more)
    return ModelComparison(
        table,
        differences,
        best,
        said,
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
        single=single,
        alone=alone,
    )


def _leads(
    found: HeldOutLosses, best: str, n_splits: int, of: Mapping[str, Candidate]
) -> list[Lead]:
    """Return the peers that have a lower log-loss than what is recommended, the lowest first."""
    losses = dict(zip(found.names, found.log_losses))
    leads = [
        Lead(
            name,
            float(losses[name].mean()),
            float(losses[best].mean()),
            paired_difference(losses[name] - losses[best], n_splits),
        )
        for name in found.names
        if of[name].is_peer and name != best
    ]
    ahead = [one for one in leads if one.difference.mean < -NO_DIFFERENCE]
    return sorted(ahead, key=lambda one: one.log_loss)


def _single(labels: PartialLabels) -> tuple[Any, ...]:
    """Return the classes that have a single label."""
    return tuple(labels.classes[labels.counts == 1].tolist())


def _nothing_to_compare(labels: PartialLabels, candidates: Sequence[Candidate]) -> ModelComparison:
    """Return a comparison without scores, for labels of which every class has only one."""
    default = next(one for one in candidates if one.name == DEFAULT)
    return ModelComparison(
        (),
        (),
        DEFAULT,
        to_keep(DEFAULT, "every class has a single label, so that none can be held out"),
        False,
        DEFAULT,
        len(labels.codes),
        labels.n_labelled,
        len(labels.classes),
        0,
        1,
        0,
        (),
        default,
        single=_single(labels),
    )
