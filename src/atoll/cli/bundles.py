"""Models that `atoll fit` saved, for the commands that read them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from atoll.estimators.persistence import ModelBundle


def load_bundle(path: Path) -> ModelBundle:
    """Return a saved model with the table that it was fitted on."""
    from atoll.estimators.persistence import ModelBundle, load_model

    bundle = load_model(path)
    if not isinstance(bundle, ModelBundle):
        raise ValueError(
            f"{str(path)!r} holds a {type(bundle).__name__} saved from Python, without the table "
            "it was fitted on; use it from Python, with atoll.load_model."
        )
    return bundle
