"""Our objects in the schema of a skops archive: records, which name no place in our code.

skops describes an object by a node of JSON with the place of its type, such as
"atoll.models.ssgp.Component". In our files such a node is a record instead,

    {"__loader__": "atoll", "name": "ssgp-component", "version": 1, "fields": {"kernel": ...}}

and before skops reads a file, every record becomes a node that asks skops to call `rebuilt`.
Nodes of other libraries' types stay as skops wrote them.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from atoll.estimators import saved_types
from atoll.estimators.saved_types import Layout, readable_type

Node = dict[str, Any]

REBUILDING = f"{saved_types.__name__}.{saved_types.rebuilt.__name__}"
"""The one name of ours that skops has to trust."""

RECORD = "atoll"
"""What a record has in place of the loader of a skops node."""


def to_records(schema: Any, layout: Callable[[str], Layout | None]) -> Any:
    """Return skops's schema with records in place of the nodes of our types.

    Parameters
    ----------
    schema : the content of `schema.json`
    layout : function
        From "package.module.Type" to how its objects are saved, or None for a type to leave alone.

    Raises
    ------
    TypeError
        If the schema holds one of our types in a way that has no record, such as the type itself.
    """

    def change(node: Node) -> Node:
        path = f"{node.get('__module__')}.{node.get('__class__')}"
        found = layout(path)
        if found is None:
            return node
        record = {"name": found.name, "version": found.version, "fields": _fields(node, found)}
        return _about(node) | {"__loader__": RECORD} | record

    return _changed(schema, change)


def from_records(schema: Any) -> Any:
    """Return a schema that skops reads: records become calls of `rebuilt`.

    Raises
    ------
    UnreadableRecord
        If a record is of a type, or of a version of a type, that this atoll does not know.
    """

    def change(node: Node) -> Node:
        if node["__loader__"] != RECORD:
            return node
        readable_type(node["name"], node["version"])
        header = {k: node[k] for k in ("name", "version")} | {"fields": list(node["fields"])}
        told = skops_node("JsonNode", "builtins.str", json.dumps(header))
        arguments = skops_node("TupleNode", "builtins.tuple", [told, *node["fields"].values()])
        return _about(node) | skops_node("ConstructorFromReduceNode", REBUILDING, arguments)

    return _changed(schema, change)


def _changed(schema: Any, change: Callable[[Node], Node]) -> Any:
    """The schema with `change` applied to every node, inner ones first."""
    if isinstance(schema, list):
        return [_changed(part, change) for part in schema]
    if not isinstance(schema, dict):
        return schema
    changed = {key: _changed(part, change) for key, part in schema.items()}
    # A user's dictionary may have a key of this name too; what stands there is then a node.
    return change(changed) if isinstance(changed.get("__loader__"), str) else changed


def _fields(node: Node, layout: Layout) -> dict[str, Any]:
    """Return the fields of an object that skops has saved by its items or by its attributes."""
    match node:
        case {"__loader__": "TupleNode", "content": items}:
            return dict(zip(layout.fields, items, strict=True))
        case {"__loader__": "ObjectNode", "content": {"__loader__": "DictNode", "content": state}}:
            return dict(state)
        case {"__loader__": "ObjectNode", "content": {"__loader__": "JsonNode", "content": "null"}}:
            return {}
    raise TypeError(f"a {layout.name!r} that is neither a tuple nor an object with attributes")


def _about(node: Node) -> Node:
    """Return what a node holds besides type and content: its id and, at the root, the protocol."""
    told = ("__class__", "__module__", "__loader__", "content", "name", "version", "fields")
    return {key: value for key, value in node.items() if key not in told}


def skops_node(loader: str, path: str, content: Any = None) -> Node:
    """Return a node of skops's, of the type at "package.module.Type"."""
    module, _, name = path.rpartition(".")
    node = {"__class__": name, "__module__": module, "__loader__": loader}
    return node if content is None else node | {"content": content}
