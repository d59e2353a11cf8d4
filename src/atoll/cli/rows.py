"""How rows are compared, and what the command says of texts."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from atoll.cli.settings import pairs, set_where_known

if TYPE_CHECKING:
    import pandas as pd

AUTO, COSINE = "auto", "cosine"


def with_metric(settings: list[str], metric: str | None) -> list[str]:
    """Return the settings, KEY=VALUE each, with --metric as one of them."""
    return settings if metric is None else [*settings, f"metric={metric}"]


def compares_directions(estimator: Any) -> bool:
    """Return whether only the directions of rows count, so that no column is standardised."""
    asked = estimator.get_params(deep=False).get("metric")
    return bool(getattr(estimator, "metric_", asked) == COSINE)


def scaling_of(
    estimator: Any,
    frame: pd.DataFrame,
    not_learnt: Sequence[str],
    texts: Sequence[str],
    as_they_come: bool,
) -> bool:
    """Return whether numeric columns are standardised before the fit.

    The default model scales a table of nothing but numbers itself, as in Python, so that both find
    the same.

    Parameters
    ----------
    not_learnt : columns that are not learnt from
    texts : columns that are said to hold texts
    as_they_come : whether --no-standardise was given
    """
    from atoll.core.column_scales import holds_numbers_alone
    from atoll.estimators import AtollClassifier

    if as_they_come or compares_directions(estimator):
        return False
    scales_itself = isinstance(estimator, AtollClassifier)
    return not (scales_itself and not texts and holds_numbers_alone(frame, not_learnt))


def leave_units(estimator: Any, settings: list[str]) -> None:
    """Keep a model from scaling columns itself, unless the user has set `scale`."""
    if "scale" not in dict(pairs(settings)):
        set_where_known(estimator, scale=False)


def how_scaled(estimator: Any, preprocessing: Any) -> str:
    """Say what happens to numeric columns before rows are compared."""
    if preprocessing.standardised:
        return "standardised"
    has = estimator.get_params(deep=False)
    own = False if compares_directions(estimator) or preprocessing.texts else has.get("scale")
    if own == "auto":
        if not hasattr(estimator, "scaled_"):  # before the fit
            return "standardised if their ranges are unlike"
        unlike = "standardised, since their ranges are unlike"
        return unlike if estimator.scaled_ else "as they are, since their ranges are alike"
    return "standardised" if own else "as they are"


def compare_texts_by_direction(estimator: Any, preprocessing: Any, settings: list[str]) -> None:
    """Choose the metric of a table of nothing but texts, if the user did not."""
    only_texts = preprocessing.texts and not preprocessing.features
    if only_texts and not any(setting.startswith("metric=") for setting in settings):
        set_where_known(estimator, metric=COSINE)


def refuse_texts(kind: Any, model: str, preprocessing: Any) -> None:
    """Raise a ValueError if the table has texts and the model takes none.

    Parameters
    ----------
    kind, model : class of the model, and its name
    """
    if preprocessing.texts and not getattr(kind, "takes_sparse", False):
        names = list(preprocessing.texts)
        drop = " ".join(f"--drop {shlex.quote(name)}" for name in names)
        raise ValueError(
            f"--model {model}: it takes no texts, and {', '.join(map(repr, names))} "
            f"{'are' if len(names) > 1 else 'is'} read as such; use --model atoll or graph-gp, or "
            f"leave out texts ({drop})."
        )


def lines_about(estimator: Any, preprocessing: Any) -> list[str]:
    """Return what is said of columns of texts, and of how rows are compared."""
    lines = [
        f"Column of texts, as {len(of.names)} "
        f"{'words' if of.analyzer == 'word' else 'runs of characters'} weighted by how few texts "
        f"have them (TF-IDF): {name}."
        for name, of in preprocessing.texts.items()
    ]
    if compares_directions(estimator):
        lines.append("Rows are compared by their directions (cosine), whatever their lengths.")
    return lines
