"""Models of nothing but plain data and our own objects, written and read without skops.

The archive is the same, node by node, as skops and `saved_records` would make, so that either can
read what the other wrote. Importing skops imports all of scikit-learn, which takes longer than most
predictions; the default classifier and what `atoll fit` saves with it do not need it. Anything that
is not handled here is left to skops.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy import sparse

from atoll.estimators.saved_records import RECORD, skops_node
from atoll.estimators.saved_types import present_layout, rebuilt

Node = dict[str, Any]

PROTOCOLS = range(3)
"""Protocols of skops whose nodes are as they are here."""

_SCALARS = (type(None), bool, int, float, str)
_SPARSE = {
    f"{kind.__module__}.{kind.__name__}": kind for kind in (sparse.csr_array, sparse.csr_matrix)
}


class NotPlain(Exception):
    """Something that only skops can write."""


# Writing ------------------------------------------------------------------------------------------


def plain_parts(model: Any) -> tuple[Node, dict[str, bytes]]:
    """Return the schema of a model, and its arrays by their names in the archive.

    Raises
    ------
    NotPlain
        If the model holds anything that only skops can write.
    TypeError
        If it holds an object of ours that has no stable name.
    """
    writer = _Writer()
    schema = writer.node(model) | {"protocol": PROTOCOLS[0]}
    return schema, writer.parts


class _Writer:
    def __init__(self) -> None:
        self.parts: dict[str, bytes] = {}
        self._told: dict[int, Any] = {}  # keeps objects alive, so that no other gets the same id

    def node(self, value: Any) -> Node:
        self._told[id(value)] = value
        return self._node(value) | {"__id__": id(value)}

    def _node(self, value: Any) -> Node:
        kind = type(value)
        if kind in _SCALARS:
            return skops_node("JsonNode", "builtins.str", json.dumps(value)) | {"is_json": True}
        if kind is list:
            return skops_node("ListNode", "builtins.list", self._each(value))
        if kind is tuple:
            return skops_node("TupleNode", "builtins.tuple", self._each(value))
        if kind is dict:
            word = skops_node("TypeNode", "builtins.str") | {"__id__": id(str)}
            kinds = skops_node("ListNode", "builtins.list", [word] * len(value))
            content = skops_node("DictNode", "builtins.dict", self._by_name(value))
            return content | {"key_types": kinds}
        if kind is np.ndarray or isinstance(value, np.generic):
            return self._array(value)
        if kind in _SPARSE.values():
            npz = io.BytesIO()
            sparse.save_npz(npz, value)
            path = f"{kind.__module__}.{kind.__name__}"
            return skops_node("SparseMatrixNode", path) | self._file("scipy", value, "npz", npz)
        return self._record(value)

    def _each(self, values: Any) -> list[Node]:
        return [self.node(value) for value in values]

    def _by_name(self, values: dict[Any, Any]) -> Node:
        if not all(type(name) is str for name in values):
            raise NotPlain("a dictionary with keys that are no words")
        return {name: self.node(value) for name, value in values.items()}

    def _array(self, value: Any) -> Node:
        node = skops_node("NdArrayNode", f"numpy.{type(value).__name__}")
        if value.dtype.hasobject:
            if value.dtype != object or value.ndim != 1:
                raise NotPlain("an array of objects that is no list")
            items = {"content": self._each(value.tolist()), "type": "json"}
            return node | items | {"shape": self.node(value.shape)}
        npy = io.BytesIO()
        np.save(npy, value, allow_pickle=False)
        return node | self._file("numpy", value, "npy", npy)

    def _file(self, of: str, value: Any, ending: str, content: io.BytesIO) -> Node:
        name = f"{id(value)}.{ending}"
        self.parts[name] = content.getvalue()
        return {"type": of, "file": name}

    def _record(self, value: Any) -> Node:
        kind = type(value)
        layout = present_layout(f"{kind.__module__}.{kind.__name__}")
        if layout is None:
            raise NotPlain(f"a {kind.__name__}")
        if isinstance(value, tuple):
            fields = dict(zip(layout.fields, self._each(value), strict=True))
        elif kind.__new__ is object.__new__ and kind.__reduce__ is object.__reduce__:
            state = value.__getstate__()
            if state is not None and type(state) is not dict:
                raise NotPlain(f"a {kind.__name__} with slots")
            fields = self._by_name(state or {})
        else:
            raise NotPlain(f"a {kind.__name__}")
        told = {"name": layout.name, "version": layout.version, "fields": fields}
        return {"__loader__": RECORD} | told


# Reading ------------------------------------------------------------------------------------------


def is_plain(schema: Any) -> bool:
    """Return whether every node of a schema with records is one that is read here."""
    if not isinstance(schema, dict) or type(schema.get("protocol")) is not int:
        return False
    return schema["protocol"] in PROTOCOLS and _is_plain(schema)


def _is_plain(node: Any) -> bool:
    match node:
        case {"__loader__": "JsonNode", "content": str()}:
            return True
        case {"__loader__": "atoll", "fields": dict(fields)}:
            return all(map(_is_plain, fields.values()))
        case {"__loader__": "ListNode" | "TupleNode" as loader, "content": list(items)}:
            is_own = _path(node) == f"builtins.{loader.removesuffix('Node').lower()}"
            return is_own and all(map(_is_plain, items))
        case {"__loader__": "DictNode", "content": dict(items), "key_types": kinds}:
            is_own = _path(node) == "builtins.dict" and _are_words(kinds, len(items))
            return is_own and all(map(_is_plain, items.values()))
        case {"__loader__": "NdArrayNode", "type": "numpy", "file": str()}:
            return _path(node) == "numpy.ndarray" or _scalar_kind(node) is not None
        case {"__loader__": "NdArrayNode", "type": "json", "content": list(items), "shape": shape}:
            is_own = _path(node) == "numpy.ndarray" and _has_one_item(shape)
            return is_own and all(map(_is_plain, items))
        case {"__loader__": "SparseMatrixNode", "type": "scipy", "file": str()}:
            return _path(node) in _SPARSE
    return False


def _path(node: Node) -> str:
    return f"{node.get('__module__')}.{node.get('__class__')}"


def _are_words(kinds: Any, n: int) -> bool:
    """Return whether a node gives the types of n keys, all of them str."""
    match kinds:
        case {"__loader__": "ListNode", "content": list(each)} if len(each) == n:
            of_word = ("TypeNode", "builtins.str")
            return all(isinstance(k, dict) and (k.get("__loader__"), _path(k)) == of_word
                       for k in each)  # fmt: skip
    return False


def _scalar_kind(node: Node) -> type[np.generic] | None:
    """Return the type of a NumPy scalar; None if a node is something else."""
    found = getattr(np, str(node.get("__class__")), None)
    is_scalar = isinstance(found, type) and issubclass(found, np.generic)
    return found if is_scalar and node.get("__module__") == "numpy" else None


def _has_one_item(shape: Any) -> bool:
    match shape:
        case {"__loader__": "TupleNode", "content": [{"__loader__": "JsonNode"}]}:
            return True
    return False


def plain_model(schema: Node, parts: Mapping[str, bytes]) -> Any:
    """Return the object that a schema describes, all of whose nodes are plain.

    Parameters
    ----------
    parts : members of the archive, by their names
    """
    return _Reader(parts).value(schema)


class _Reader:
    def __init__(self, parts: Mapping[str, bytes]):
        self.parts = parts
        self._made: dict[Any, Any] = {}

    def value(self, node: Node) -> Any:
        """Return the object that a node describes; nodes with the same id give the same object."""
        identity = node.get("__id__")
        if not identity:
            return self._value(node)
        if identity not in self._made:
            self._made[identity] = self._value(node)
        return self._made[identity]

    def _value(self, node: Node) -> Any:
        match node["__loader__"]:
            case "JsonNode":
                return json.loads(node["content"])
            case "ListNode":
                return [self.value(item) for item in node["content"]]
            case "TupleNode":
                return tuple(self.value(item) for item in node["content"])
            case "DictNode":
                return {name: self.value(item) for name, item in node["content"].items()}
            case "NdArrayNode":
                return self._array(node)
            case "SparseMatrixNode":
                return sparse.load_npz(io.BytesIO(self.parts[node["file"]]))
        names, values = list(node["fields"]), map(self.value, node["fields"].values())
        return rebuilt({"name": node["name"], "version": node["version"], "fields": names}, *values)

    def _array(self, node: Node) -> Any:
        if node["type"] == "json":
            found = np.empty(len(node["content"]), dtype=object)
            for i, item in enumerate(node["content"]):
                found[i] = self.value(item)
            return found
        content = np.load(io.BytesIO(self.parts[node["file"]]), allow_pickle=False)
        kind = _scalar_kind(node)
        return content if kind is None else kind(content)
