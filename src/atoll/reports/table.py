"""The user's rows, as the report shows them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from atoll.reports.words import cell, short

N_LARGEST = 5  # features of a sparse row that are shown


class RowTable(NamedTuple):
    """Rows in the user's own columns and units.

    frame : (n, q) data frame
    ids : (n,) names of the rows, or None
    id_name : what the names are
    first : number of the first row: 1 as in a file, 0 as in an array
    numbers : (n,) of the rows, where they are not in order from `first` on
    """

    frame: Any
    ids: NDArray[Any] | None = None
    id_name: str = ""
    first: int = 1
    numbers: NDArray[Any] | None = None

    @property
    def columns(self) -> list[str]:
        """Names of the columns."""
        return [str(name) for name in self.frame.columns]

    def row(self, place: int, columns: list[int]) -> dict[str, Any]:
        """Return number, name and cells of one row."""
        cells = [_shown(self.frame.iat[place, j]) for j in columns]
        return _shown_row(self, place, cells)

    def blank_shares(self) -> NDArray[np.float64]:
        """Return the share of every row's cells that are blank, (n,)."""
        return np.asarray(self.frame.isna().mean(axis=1), dtype=np.float64)

    def number(self, place: int) -> int:
        """Return the number of a row."""
        return place + self.first if self.numbers is None else int(self.numbers[place])


class ArrayTable(NamedTuple):
    """Rows of an array, for which pandas is not needed; as `RowTable`."""

    values: NDArray[Any]
    columns: list[str]
    ids: Any = None
    id_name: str = ""
    first: int = 0

    def row(self, place: int, columns: list[int]) -> dict[str, Any]:
        """Return number, name and cells of one row."""
        cells = [_shown(self.values[place, j]) for j in columns]
        return _shown_row(self, place, cells)

    def blank_shares(self) -> NDArray[np.float64]:
        """Return the share of every row's cells that are blank, (n,)."""
        is_blank = [[value is None or value != value for value in row] for row in self.values]
        return np.array(is_blank, dtype=bool).reshape(len(self.values), -1).mean(axis=1)

    def number(self, place: int) -> int:
        """Return the number of a row."""
        return place + self.first


class SparseTable(NamedTuple):
    """Sparse rows, shown by their texts or by the features with the largest numbers; as `RowTable`.

    values : (n, d) compressed rows
    features : (d,) names
    blank : names of the blank columns of a row of the table, by its place from 0
    n_columns : of that table; 0 where there is none
    texts : (n,) how the texts begin that the rows are made of; None where that is not known
    text_name : the column of the texts
    n_features : features that are no words of these texts, and come first
    """

    values: Any
    features: list[str]
    ids: NDArray[Any] | None = None
    id_name: str = ""
    first: int = 0
    blank: Mapping[int, tuple[str, ...]] = MappingProxyType({})
    n_columns: int = 0
    numbers: NDArray[Any] | None = None
    texts: NDArray[Any] | None = None
    text_name: str = ""
    n_features: int = 0

    @property
    def columns(self) -> list[str]:
        """What is shown of a row."""
        if self.texts is None:
            return ["Largest features"]
        return [self.text_name, *(["Largest other features"] if self.n_features else [])]

    def row(self, place: int, columns: list[int]) -> dict[str, Any]:
        """Return number, name and largest features of one row."""
        start, stop = self.values.indptr[place : place + 2]
        numbers, which = self.values.data[start:stop], self.values.indices[start:stop]
        if self.texts is not None:
            numbers = np.where(which < self.n_features, numbers, 0.0)
        largest = np.argsort(-np.abs(numbers), kind="stable")[:N_LARGEST]
        found = [self.features[which[i]] for i in largest if numbers[i]]
        names = [short(name, 40, str) for name in found if name not in self.blank.get(place, ())]
        shown = [", ".join(names)]
        if self.texts is not None:
            shown = [self.texts[place], *(shown if self.n_features else [])]
        cells = [{"text": one or "–", "word": True} for one in shown]
        return _shown_row(self, place, cells)

    def blank_shares(self) -> NDArray[np.float64]:
        """Return the share of the table's cells that are blank in every row, (n,)."""
        found = np.zeros(self.values.shape[0])
        for place, names in self.blank.items():
            found[place] = len(names) / max(self.n_columns, 1)
        return found

    def number(self, place: int) -> int:
        """Return the number of a row."""
        return place + self.first if self.numbers is None else int(self.numbers[place])


def _shown_row(
    table: RowTable | ArrayTable | SparseTable, place: int, cells: list[dict[str, Any]]
) -> dict[str, Any]:
    name = "" if table.ids is None else short(table.ids[place], 24, str)
    return {"row": f"{table.number(place):,}", "id": name, "cells": cells}


def _shown(value: Any) -> dict[str, Any]:
    return {"text": cell(value), "word": isinstance(value, str)}


def table_of(X: Any, features: list[str]) -> RowTable | ArrayTable | SparseTable:
    """Return the rows that a caller gave; an index that does more than count names them."""
    if sparse.issparse(X):
        return SparseTable(X, features)
    if not hasattr(X, "iloc"):
        return ArrayTable(np.asarray(X), features)
    index = X.index
    if index.equals(type(index)(range(len(X)))):
        return RowTable(X, first=0)
    name = "Row" if index.name is None else str(index.name)
    return RowTable(X, np.asarray(index, dtype=object), name, first=0)
