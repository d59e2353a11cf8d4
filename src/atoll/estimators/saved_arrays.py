"""Long arrays of labels in model files: each label once, and a number for every row.

skops writes a node for each entry of an array of objects: a minute for a million labels.
"""

from __future__ import annotations

import copy
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline

from atoll.core.markers import markers_of

LONG = 1000
"""An array with fewer entries is not packed."""


class PackedWords(NamedTuple):
    """An array of words, or of whole numbers or booleans, possibly with None among them.

    codes : (n,) place of each entry among the words; k stands for None
    words : (k,) the different words
    """

    codes: NDArray[np.integer]
    words: NDArray[Any]

    def unpacked(self) -> NDArray[Any]:
        """Return the array, (n,) of objects."""
        values = np.array([*self.words.tolist(), None], dtype=object)
        return np.asarray(values[self.codes], dtype=object)


def pack_words(values: Any) -> Any:
    """Return a long array of words, whole numbers or booleans as `PackedWords`; others as they are.

    Examples
    --------
    >>> packed = pack_words(np.array(["ant", None, "bee"] * 500, dtype=object))
    >>> packed.words.tolist(), packed.codes[:3].tolist(), packed.unpacked()[:3].tolist()
    (['ant', 'bee'], [0, 2, 1], ['ant', None, 'bee'])
    """
    if not isinstance(values, np.ndarray) or values.dtype != object or values.ndim != 1:
        return values
    entries = values.tolist()
    kinds = {type(entry) for entry in entries} - {type(None)}
    if len(entries) < LONG or len(kinds) > 1 or not kinds <= {str, int, bool}:
        return values
    distinct = [word for word in dict.fromkeys(entries) if word is not None]
    words = np.array(distinct, dtype=None if distinct else np.str_)
    # NumPy drops zeros at the end of a word, and has no room for every whole number.
    if words.dtype.kind not in "Uib" or words.tolist() != distinct:
        return values
    place = {word: i for i, word in enumerate(distinct)} | {None: len(distinct)}
    codes = np.array([place[entry] for entry in entries], dtype=np.int32)
    return PackedWords(codes, words)


def packed(model: Any) -> Any:
    """Return a model, a pipeline or a tuple with their own long arrays of words packed.

    The model itself is not changed.
    """
    if isinstance(model, Pipeline):
        found = copy.copy(model)
        found.steps = [(name, packed(step)) for name, step in model.steps]
        return found
    if isinstance(model, tuple) and hasattr(model, "_asdict") and hasattr(model, "_replace"):
        return model._replace(**{name: packed(part) for name, part in model._asdict().items()})
    if isinstance(model, np.ndarray):
        return pack_words(model)
    if not hasattr(model, "saves"):  # not one of our estimators
        return model
    words = {name: pack_words(value) for name, value in vars(model).items()}
    changed: dict[str, Any] = {
        name: value for name, value in words.items() if isinstance(value, PackedWords)
    }
    markers = vars(model).get("unlabelled")
    if hasattr(markers, "__array__") and not isinstance(markers, np.ndarray | np.generic):
        changed["unlabelled"] = list(markers_of(markers))  # a column of pandas is not plain data
    if not changed:
        return model
    found = copy.copy(model)
    vars(found).update(changed)
    return found
