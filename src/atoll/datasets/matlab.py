"""MATLAB's files, read alike by every SciPy."""

from __future__ import annotations

import os
from inspect import signature
from typing import Any


def read_matlab(path: str | os.PathLike[str], **options: Any) -> dict[str, Any]:
    """Return what a .mat file holds by name, sparse matrices as sparse arrays where SciPy can.

    Parameters
    ----------
    path : of the file
    options : of `scipy.io.loadmat`
    """
    from scipy.io import loadmat

    if "spmatrix" in signature(loadmat).parameters:  # an older SciPy has matrices alone
        options["spmatrix"] = False
    return dict(loadmat(path, **options))
