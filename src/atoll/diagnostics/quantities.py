"""Named scalars, given as a dictionary or as a plain vector."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray


def named_values(values: Any) -> tuple[tuple[str, ...], NDArray[np.float64]]:
    """Split named scalars into names and a vector.

    Parameters
    ----------
    values : {name: float}, a 1-d array (named "0", "1", …) or a single number

    Examples
    --------
    >>> named_values({"mean": 1.5, "scale": 2.0})
    (('mean', 'scale'), array([1.5, 2. ]))
    >>> named_values([3.0])
    (('0',), array([3.]))
    """
    if isinstance(values, Mapping):
        names = tuple(str(name) for name in values)
        vector = np.array([float(value) for value in values.values()])
    else:
        vector = np.atleast_1d(np.asarray(values, dtype=float))
        names = tuple(str(position) for position in range(len(vector)))
    if vector.ndim != 1 or vector.size == 0:
        raise ValueError(
            f"expected a dictionary of numbers or a vector, got an array of shape {vector.shape}; "
            "return at least one number, and flatten arrays."
        )
    return names, vector


def names_where(names: tuple[str, ...], mask: ArrayLike) -> tuple[str, ...]:
    """Return the names that a boolean mask (q,) selects."""
    return tuple(names[position] for position in np.flatnonzero(mask))
