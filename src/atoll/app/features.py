"""What the model learns from: numbers for each row, made simply and without a download.

Tables give their columns of numbers and categories, texts the leading directions of their weighted
words, pictures small grey pixels, sounds the loudness in bands of pitch; or the user brings an
embedding.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from atoll.app.items import Rows
from atoll.core.blank_rows import known_rows, mostly_blank
from atoll.core.column_scales import holds_numbers_alone
from atoll.core.extras import import_extra
from atoll.core.labels import parse_labels
from atoll.core.near_names import no_file
from atoll.core.preprocessing import counts_as_category, prepare
from atoll.core.progress import progress_bar
from atoll.core.table_refusals import column_hint
from atoll.core.tables import read_table
from atoll.core.unusable import MAX_CATEGORIES, index_columns
from atoll.estimators.category_weight import weigh_features

TEXT_DIRECTIONS = 100
PICTURE_SIDE = 16
SOUND_BANDS = 32
_MOST_WORDS = 50_000
_FLAT = 0.6  # share of the spread from which on two directions are a fair picture


class Features(NamedTuple):
    """Numbers for the rows that have some.

    X : (m, p) float
    rows : (m,) the rows that they belong to, in order
    how : in words, how they were made
    lost : row -> why it has no features
    categories : (p,) which features count as categories; None: none does
    later : places, among the m rows, of those that are mostly blank, to be asked for last
    """

    X: NDArray[np.float64]
    rows: NDArray[np.intp]
    how: str
    lost: dict[int, str]
    categories: NDArray[np.bool_] | None = None
    later: NDArray[np.intp] = np.empty(0, np.intp)

    def weighed(self, labels: NDArray[Any]) -> NDArray[np.float64]:
        """Return the features with categories weighted by the labels, as in `atoll fit`.

        Parameters
        ----------
        labels : (m,) of the rows; None where unknown
        """
        if self.categories is None or len({label for label in labels if label is not None}) < 2:
            return self.X
        found = weigh_features(self.X, self.categories, parse_labels(labels, unlabelled=None))
        return self.X * np.where(self.categories, found.weight, 1.0)


def make_features(
    rows: Rows,
    *,
    file: str | os.PathLike[str] | None = None,
    encode: bool = True,
    drop: Sequence[str] = (),
    random_state: int = 0,
) -> Features:
    """Return features of every row that can be shown.

    Parameters
    ----------
    rows : Rows
    file : str, path or None, default=None
        Embedding of the rows, one line each: .npy, .parquet or .csv.
    encode : bool, default=True
        Whether to learn from a table's columns of categories too, as indicators.
    drop : sequence of str, default=()
        Columns of a table to leave out.
    random_state : int, default=0

    Returns
    -------
    Features
    """
    seen = np.array([r for r in range(len(rows.frame)) if r not in rows.unseen], dtype=np.intp)
    if len(seen) < 2:
        raise ValueError(f"{str(rows.path)!r} has one row that can be shown; labelling needs two.")
    if file is not None:
        X = read_embedding(file, len(rows.frame))
        return Features(X[seen], seen, f"{X.shape[1]} columns of {Path(file).name}", {})
    if rows.view.kind == "text":
        X = text_features([rows.frame[rows.view.column].iat[r] for r in seen], random_state)
        return Features(X, seen, f"{X.shape[1]} directions of the words (TF-IDF, SVD)", {})
    if rows.view.kind == "image":
        how = f"{PICTURE_SIDE} × {PICTURE_SIDE} grey pixels"
        return _of_files(rows, seen, picture_features, how)
    numeric = _numeric_columns(rows, drop)
    if rows.view.kind == "audio" and not numeric:
        return _of_files(rows, seen, sound_features, f"loudness of {SOUND_BANDS} bands of pitch")
    return _of_table(rows, seen, numeric, encode, drop)


def read_embedding(file: str | os.PathLike[str], n_rows: int) -> NDArray[np.float64]:
    """Read features (n_rows, p) that the user made: .npy, .parquet or .csv, all numbers."""
    path = Path(file)
    if path.suffix.lower() == ".npy":
        if not path.is_file():
            raise ValueError(f"--features {path}: {no_file(path)}")
        try:
            X = np.load(path, allow_pickle=False)
        except (ValueError, EOFError, OSError) as error:
            raise ValueError(
                f"{str(path)!r} cannot be read as .npy ({error}); write it again with numpy.save."
            ) from None
        if X.ndim != 2 or X.dtype.kind not in "fiub" or X.shape[1] == 0:
            raise ValueError(
                f"{str(path)!r} has shape {X.shape} and type {X.dtype}; --features needs numbers "
                "with one line per row and at least one column."
            )
        X = X.astype(np.float64)
    else:
        X = prepare(read_table(path), standardise=False, encode=False, impute=False).X
    if len(X) != n_rows:
        raise ValueError(
            f"{str(path)!r} has {len(X)} lines and the data have {n_rows} rows; --features needs "
            "one line per row, in the same order."
        )
    if not np.isfinite(X).all():
        place = int(np.flatnonzero(~np.isfinite(X).all(axis=1))[0])
        raise ValueError(
            f"{str(path)!r} has a missing or infinite value in line {place + 1}; --features needs "
            "finite numbers."
        )
    return X


def text_features(texts: Sequence[str], random_state: int = 0) -> NDArray[np.float64]:
    """Return the leading directions (n, p) of texts' weighted words, as rows of length one.

    If no text has a word of two letters, as in scripts without spaces, runs of two to four
    characters take the place of words.
    """
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.preprocessing import normalize

    common: dict[str, Any] = {
        "sublinear_tf": True,
        "strip_accents": "unicode",
        "max_features": _MOST_WORDS,
        "min_df": 2 if len(texts) >= 100 else 1,
    }
    for units in ({}, {"analyzer": "char_wb", "ngram_range": (2, 4)}):
        with suppress(ValueError):  # no word at all
            weights = TfidfVectorizer(**common, **units).fit_transform(texts)
            break
    else:
        raise ValueError(
            "the text column holds no words to learn from; name another by --text, or bring an "
            "embedding by --features."
        )
    n_directions = min(TEXT_DIRECTIONS, weights.shape[0] - 1, weights.shape[1] - 1)
    if n_directions < 2:
        return np.asarray(weights.toarray(), dtype=np.float64)
    X = TruncatedSVD(n_directions, random_state=random_state).fit_transform(weights)
    return np.asarray(normalize(X), dtype=np.float64)


def picture_features(file: Path) -> NDArray[np.float64]:
    """Return a picture's pixels, few and grey, from 0 to 1; a ValueError if it does not decode."""
    Image = import_extra("PIL.Image")
    ImageOps = import_extra("PIL.ImageOps")
    size = (PICTURE_SIDE, PICTURE_SIDE)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # such as that of a decompression bomb
            with Image.open(file) as picture:
                picture.draft("L", (4 * PICTURE_SIDE, 4 * PICTURE_SIDE))
                grey = ImageOps.exif_transpose(picture).convert("L").resize(size, Image.BOX)
    except (
        *(OSError, ValueError, SyntaxError, EOFError, Warning),
        Image.DecompressionBombError,
    ) as error:
        raise ValueError(f"{file.name!r} does not decode as a picture ({error})") from None
    return np.asarray(grey, dtype=np.float64).ravel() / 255


def sound_features(file: Path) -> NDArray[np.float64]:
    """Return mean and spread over time of a .wav file's loudness in bands of pitch."""
    from scipy import signal
    from scipy.io import wavfile

    if file.suffix.lower() != ".wav":
        raise ValueError(f"{file.name!r} is no .wav file")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", wavfile.WavFileWarning)  # of chunks it does not know
            rate, sound = wavfile.read(file)
    except (ValueError, OSError, EOFError, ArithmeticError) as error:
        raise ValueError(f"{file.name!r} does not decode as .wav ({error})") from None
    sound = np.asarray(sound, dtype=np.float64)
    sound = sound.mean(axis=1) if sound.ndim == 2 else sound
    if len(sound) < 32:
        raise ValueError(f"{file.name!r} is too short to learn from")
    sound = sound / max(np.abs(sound).max(), 1e-12)
    pitch, _, power = signal.spectrogram(sound, rate, nperseg=min(512, len(sound)))
    edges = np.geomspace(50, max(rate / 2, 100), SOUND_BANDS + 1)
    band = np.digitize(pitch, edges[1:-1])
    loud = np.array([power[band == b].sum(axis=0) for b in range(SOUND_BANDS)])
    decibel = 10 * np.log10(loud + 1e-12)
    return np.concatenate([decibel.mean(axis=1), decibel.std(axis=1)]) / 10


def plane_of(X: NDArray[np.float64], random_state: int = 0, most: int = 4000) -> NDArray[Any]:
    """Return a place (n, 2) in the unit square for every row, for the picture of all rows.

    Two columns are used as they are. More are drawn in the plane of their two leading directions,
    if it holds most of their spread or the graph of neighbours falls into parts; otherwise by the
    two leading modes of that graph. If there are more than `most` rows, all this is found for so
    many random ones, and every row is put amid its nearest of them.
    """
    from atoll.core.graphs import nearest

    if X.shape[1] == 1:
        rng = np.random.default_rng(random_state)
        return _unit(np.column_stack([X[:, 0], rng.uniform(size=len(X))]))
    if X.shape[1] == 2:
        return _unit(X)
    if len(X) <= most:
        return _unit(_two_leading(X))
    rng = np.random.default_rng(random_state)
    kept = np.sort(rng.choice(len(X), most, replace=False))
    places = _unit(_two_leading(X[kept]))
    return _unit(places[nearest(X[kept], X, 3)].mean(axis=1))


def _two_leading(X: NDArray[np.float64]) -> NDArray[np.float64]:
    from sklearn.decomposition import PCA

    from atoll.core import graphs

    n = len(X)
    if n < 3:
        return X[:, :2]
    plane = PCA(2, random_state=0)
    flat = plane.fit_transform(X)
    if n <= 10 or np.nansum(plane.explained_variance_ratio_) >= _FLAT:
        return flat
    weights = graphs.self_tuning_weights(graphs.neighbour_graph(X, min(15, n - 1)))
    if graphs.connected_components(weights)[0] > 1:
        return flat
    modes = graphs.smoothest_modes(weights, 2).vectors
    places = modes / np.sqrt(graphs.degrees(weights))[:, None]
    # Modes crowd most rows into a corner; halfway to equal spacing, the picture fills its frame.
    return _unit(places) + rankdata(places, axis=0) / n


def _unit(places: NDArray[np.float64]) -> NDArray[np.float64]:
    low, high = places.min(axis=0), places.max(axis=0)
    width = np.where(high > low, high - low, 1.0)
    return np.where(high > low, (places - low) / width, 0.5)


def _numeric_columns(rows: Rows, drop: Sequence[str]) -> list[str]:
    types = import_extra("pandas.api.types")
    frame = rows.frame
    return [c for c in _others(rows, drop) if types.is_numeric_dtype(frame[c].dtype)]


def _others(rows: Rows, drop: Sequence[str]) -> list[str]:
    """Return the columns other than the target, the one that is shown, and those to drop."""
    left_out = {rows.target, rows.view.column, *drop}
    return [column for column in rows.frame if column not in left_out]


def _is_grouping(column: Any) -> bool:
    """Return whether a column of words groups rows, rather than name or date each of them."""
    values = column.dropna()
    if not all(isinstance(value, str) for value in values[:100]):
        return False
    n_different = len(set(values.map(str)))
    return 0 < n_different <= min(MAX_CATEGORIES, max(2, len(column) // 3))


def _of_table(
    rows: Rows, seen: NDArray[np.intp], numeric: list[str], encode: bool, drop: Sequence[str]
) -> Features:
    for name in drop:
        if name not in rows.frame.columns:
            raise ValueError(
                f"--drop {name}: the table has no such column; {column_hint(name, rows.frame)}"
            )
    numeric = [column for column in numeric if rows.frame[column].notna().any()]
    others = [column for column in _others(rows, drop) if column not in numeric]
    groups = [column for column in others if encode and _is_grouping(rows.frame[column])]
    columns = [column for column in rows.frame if column in {*numeric, *groups}]
    counters = index_columns(rows.frame, columns)
    if len(counters) < len(columns):  # as in `atoll fit`
        numeric = [column for column in numeric if column not in counters]
        columns = [column for column in columns if column not in counters]
    if not columns:
        raise ValueError(
            "the table has no column of numbers or categories to learn from; name its text by "
            "--text, or bring an embedding by --features."
        )
    known = known_rows(rows.frame[columns], columns)
    lost = {number - 1: f"row {number} has no cell to learn from" for number in known.left_out}
    seen = np.array([row for row in seen.tolist() if row not in lost], dtype=np.intp)
    prepared = prepare(known.frame, standardise="auto")
    X = prepared.X
    if known.numbers is not None:  # back in the rows of the file, those left out as blank
        X = np.full((len(rows.frame), X.shape[1]), np.nan)
        X[known.numbers - 1] = prepared.X
    unused = [column for column in _others(rows, drop) if column not in columns]
    how = f"{len(numeric)} columns of numbers and {len(groups)} of categories"
    if unused:
        how += f" (shown but not learnt from: {', '.join(unused[:5])}{'…' * (len(unused) > 5)})"
    blank = rows.frame[columns].isna().mean(axis=1).to_numpy()[seen]
    later = np.flatnonzero(mostly_blank(blank))
    categories = None if holds_numbers_alone(known.frame) else counts_as_category(prepared)
    return Features(X[seen], seen, how, lost, categories, later)


def _of_files(
    rows: Rows, seen: NDArray[np.intp], read: Callable[[Path], NDArray[np.float64]], how: str
) -> Features:
    found, kept, lost = [], [], {}
    bar = progress_bar(seen.tolist(), desc="reading files", unit="file")
    for row in bar:
        media = rows.media(row)
        assert media is not None
        try:
            found.append(read(media[0]))
            kept.append(row)
        except ValueError as error:
            lost[row] = f"row {row + 1}: {error}"
    if not found:
        raise ValueError(
            f"none of the {len(seen)} files can be learnt from; the first: "
            f"{next(iter(lost.values()))}. Bring an embedding by --features."
        )
    return Features(np.array(found), np.array(kept, dtype=np.intp), how, lost)
