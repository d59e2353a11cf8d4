"""A learner in a file: rows, labels and what happened, but no code.

The file is a model file (`atoll.save_model`) that holds plain data: the rows as an array, the
estimator that is not fitted, and the history as JSON. The model is fitted again after reading.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from atoll.active.history import Audit, Event, History, replay
from atoll.core.extras import import_extra
from atoll.core.fillings import Fillings, carrying, fillings_of
from atoll.core.overwriting import LEARNER
from atoll.estimators.persistence import read_saved, save_model

TABLE, TEXTS = "table", "text"  # keys: of a table's record, and of the only column of a list


class SavedLearner(NamedTuple):
    """What a file holds.

    estimator : not fitted; None is the default one
    parameters : of the learner, by name
    X : (n, d) rows, a data frame, or (n,) texts
    seed : of all its random numbers
    history : what happened
    open_audits : rows asked as audits that have no answer yet
    notes : plain values of whoever runs the loop; none in older files
    picked : whether the rows labelled from the beginning were picked, and not drawn at random
    names : (n,) of the rows; None where they have none
    in_index : (n,) numbers or texts of the rows' index; None if it is 0, 1, 2 ... or holds names
    target : what the labels are called; "" where nobody said, and in older files
    """

    estimator: Any
    parameters: dict[str, Any]
    X: Any
    seed: int
    history: History
    open_audits: frozenset[int]
    notes: dict[str, Any]
    picked: bool = True
    names: tuple[str, ...] | None = None
    in_index: tuple[Any, ...] | None = None
    target: str = ""


def write(saved: SavedLearner, path: str | os.PathLike[str]) -> None:
    """Write a learner to a file, whole or not at all."""
    if not isinstance(saved.parameters["strategy"], str):
        raise ValueError(
            "a strategy of your own cannot be saved; save a learner whose strategy has a name."
        )
    told = {
        "parameters": saved.parameters,
        "seed": saved.seed,
        "start": list(saved.history.start.items()),
        "events": saved.history.events,
        "open": sorted(saved.open_audits),
        "picked": saved.picked,
        "names": saved.names,
        "index": saved.in_index,
        "target": saved.target,
        "notes": saved.notes,
    }
    try:
        text = json.dumps(told, default=_plain)
    except TypeError as error:
        raise ValueError(
            f"the learner holds what cannot be saved as data ({error}); labels and classes should "
            "be strings, numbers or booleans."
        ) from None
    known = fillings_of(saved.X)
    rows = {"X": _rows(saved.X), "fillings": None if known is None else known._asdict()}
    save_model({"kind": LEARNER, "told": text, "estimator": saved.estimator, **rows}, path)


def read(path: str | os.PathLike[str]) -> SavedLearner:
    """Read what `write` wrote; raise a ValueError if the file holds anything else."""
    found = read_saved(path)
    if not isinstance(found, dict) or found.get("kind") != LEARNER:
        raise ValueError(f"{str(path)!r} holds no active learner; name a file made by its save.")
    told = json.loads(found["told"])
    events = tuple(
        Event(
            tuple(rows),
            None if labels is None else tuple(labels),
            tuple(Audit(*audit) for audit in audits),
        )
        for rows, labels, audits in told["events"]
    )
    start = {int(row): label for row, label in told["start"]}
    known = found.get("fillings")  # older files have none
    X = found["X"]
    if isinstance(X, dict):
        X = _table(X, told.get("names") or told.get("index"))
    return SavedLearner(
        found["estimator"],
        told["parameters"],
        carrying(X, None if known is None else Fillings(**known)),
        told["seed"],
        replay(start, events),
        frozenset(told["open"]),
        told.get("notes", {}),
        told.get("picked", True),
        None if told.get("names") is None else tuple(told["names"]),
        None if told.get("index") is None else tuple(told["index"]),
        told.get("target", ""),
    )


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} {value!r}")


def _rows(X: Any) -> Any:
    """Return rows as plain data: an array of numbers, a sparse one, or a record of a table."""
    if sparse.issparse(X):
        return X
    X = X.to_pandas() if hasattr(X, "to_pandas") else X
    if hasattr(X, "columns") and hasattr(X, "iloc"):
        columns = [X.iloc[:, j] for j in range(X.shape[1])]
        names = list(X.columns)
    elif len(np.shape(X)) == 1:
        columns, names = [X], [TEXTS]
    else:
        try:
            return np.asarray(X, dtype=np.float64)
        except (TypeError, ValueError):
            raise ValueError(
                "X is an array of something else than numbers, which cannot be saved; give a data "
                "frame, or turn it into numbers before fit."
            ) from None
    return {
        TABLE: json.dumps([[name, *_column(column)] for name, column in zip(names, columns)]),
        "is_frame": names != [TEXTS],
    }


def _column(column: Any) -> tuple[str, list[Any]]:
    """Return the type and the values of a column, as JSON has them."""
    kind = str(getattr(column, "dtype", object))
    values = np.asarray(column, dtype=object).tolist()
    plain = [None if v is None or v != v else _plain_cell(v) for v in values]  # NaN is not itself
    return kind, plain


def _plain_cell(value: Any) -> Any:
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, str | bool | int | float):
        return value
    raise ValueError(
        f"a table with {value!r} in a cell, of the type {type(value).__name__}, cannot be saved; "
        "cells should be words, numbers or booleans."
    )


def _table(found: dict[str, Any], names: Sequence[str] | None) -> Any:
    """Return the table, or the texts, of a record that `_rows` made."""
    told = json.loads(found[TABLE])
    if not found["is_frame"]:
        return told[0][2]
    pd = import_extra("pandas")
    index = None if names is None else list(names)
    columns = [pd.Series(values, dtype=kind, index=index) for _, kind, values in told]
    out = pd.concat(columns, axis=1) if columns else pd.DataFrame(index=index)
    out.columns = [name for name, _, _ in told]
    return out
