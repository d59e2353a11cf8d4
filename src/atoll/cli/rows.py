"""How rows are compared, and what the command says of texts."""

from __future__ import annotations

from typing import Any

from atoll.cli.settings import set_where_known

COSINE = "cosine"


def with_metric(settings: list[str], metric: str | None) -> list[str]:
    """Return the settings, KEY=VALUE each, with that of --metric among them."""
    return settings if metric is None else [*settings, f"metric={metric}"]


def compares_directions(estimator: Any) -> bool:
    """Return whether only the directions of rows count, so that no column is standardised."""
    return bool(estimator.get_params(deep=False).get("metric") == COSINE)


def compare_texts_by_direction(estimator: Any, preprocessing: Any, settings: list[str]) -> None:
    """Choose the metric of a table of nothing but texts, where the user did not."""
    only_texts = preprocessing.texts and not preprocessing.features
    if only_texts and not any(setting.startswith("metric=") for setting in settings):
        set_where_known(estimator, metric=COSINE)


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
