"""Model files of plain data: without skops they are what they are with it."""

from __future__ import annotations

import io
import json
import zipfile
from collections import OrderedDict

import numpy as np
import pytest
import skops.io
from scipy import sparse
from sklearn.gaussian_process.kernels import RBF
from sklearn.linear_model import LogisticRegression

from atoll.core.graphs import Modes
from atoll.datasets import make_crescents
from atoll.estimators import AtollClassifier, GraphGPClassifier, load_model, save_model
from atoll.estimators.saved_plain import NotPlain, is_plain, plain_model, plain_parts
from atoll.estimators.saved_records import from_records, to_records
from atoll.estimators.saved_types import present_layout

pytestmark = pytest.mark.usefixtures("hurried")  # the classifiers are not on trial

VALUES = np.array([0.5, np.nan, -np.inf])


def words(*entries):
    found = np.empty(len(entries), dtype=object)
    found[:] = entries
    return found


PLAIN = {
    "scalars": [None, True, 3, 2**80, 0.1, float("nan"), float("-inf"), "", 'é\n"\ud800'],
    "containers": ([1, [2.0, ()]], {"a": {}, "__loader__": {"__id__": "atoll"}}),
    "arrays": [
        *(VALUES, np.asfortranarray(np.arange(6.0).reshape(2, 3)), np.zeros((0, 2), np.int32)),
        *(np.array(["a", "bc"]), np.array(7), np.arange(3).astype("M8[D]"), np.eye(2) > 0),
    ],
    "numbers of NumPy": [np.float64(0.1), np.int32(-3), np.bool_(True), np.str_("ö")],
    "arrays of objects": [words("a", None, 1.5, ("b", 2)), words(), words([1, 2], [3, 4])],
    "sparse": [sparse.csr_array(np.eye(3)), sparse.csr_matrix(np.eye(2, 3))],
    "shared": [VALUES, (VALUES, VALUES), {"again": VALUES}],
    "tuples of ours": {"modes": Modes(np.arange(2.0), np.eye(2))},
    "not fitted": AtollClassifier(classes=["b", "a"]),
}


def written_by_skops(value):
    """Schema with records, and the other members of the archive."""
    with zipfile.ZipFile(io.BytesIO(skops.io.dumps(value))) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    return to_records(json.loads(parts.pop("schema.json")), present_layout), parts


def read_by_skops(schema, parts):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
        archive.writestr("schema.json", json.dumps(from_records(schema)))
    trusted = ["atoll.estimators.saved_types.rebuilt", *(
        f"scipy.sparse._csr.{name}" for name in ("csr_array", "csr_matrix"))]  # fmt: skip
    return skops.io.loads(out.getvalue(), trusted=trusted)


def renamed(schema, parts):
    """The same with identities and files numbered as they come, and without versions of skops."""
    order: dict[str, str] = {}

    def number(name):
        stem, dot, ending = str(name).partition(".")
        return f"{order.setdefault(stem, str(len(order)))}{dot}{ending}"

    def change(node):
        if isinstance(node, list):
            return [change(item) for item in node]
        if not isinstance(node, dict) or not isinstance(node.get("__loader__"), str):
            return {k: change(v) for k, v in node.items()} if isinstance(node, dict) else node
        left_out = {"protocol", "_skops_version"}
        if node["__loader__"] == "DictNode":  # the list of types is made for the occasion
            kinds = node["key_types"]["content"]
            node = node | {"key_types": [kind["__class__"] for kind in kinds]}
        return {
            key: number(part) if key in ("__id__", "file") else change(part)
            for key, part in sorted(node.items())
            if key not in left_out
        }

    changed = change(schema)
    return changed, {number(name): content for name, content in parts.items()}


def same(one, other):
    """Whether two values are alike in type, shape, order and every bit, NaN among them."""
    if type(one) is not type(other):
        return False
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return list(one) == list(other) and all(map(same, one.values(), other.values()))
    if isinstance(one, np.ndarray) and one.dtype == object:
        return one.shape == other.shape and same(one.tolist(), other.tolist())
    if isinstance(one, np.ndarray):
        if (one.dtype, one.shape, one.flags.fnc) != (other.dtype, other.shape, other.flags.fnc):
            return False
        return one.tobytes() == other.tobytes()
    if sparse.issparse(one):
        return same([one.data, one.indices, one.shape], [other.data, other.indices, other.shape])
    if hasattr(one, "get_params"):
        return same(vars(one), vars(other))
    return one == other or (one != one and other != other)


@pytest.fixture(scope="module")
def fitted():
    X, y = make_crescents(60, random_state=0)
    names = np.array(["lower", "upper"], dtype=object)[y]
    names[3:-3] = None
    return AtollClassifier(random_state=0).fit(X, names), X


@pytest.mark.parametrize("name", PLAIN)
def test_plain_values_are_written_as_skops_writes_them_and_read_as_skops_reads_them(name):
    value = PLAIN[name]
    schema, parts = plain_parts(value)
    by_skops = written_by_skops(value)
    ours, theirs = renamed(schema, parts), renamed(*by_skops)
    assert ours[0] == theirs[0]
    assert ours[1].keys() == theirs[1].keys()
    assert all(ours[1][n] == theirs[1][n] for n in ours[1] if not n.endswith(".npz"))
    schema = json.loads(json.dumps(schema))
    assert is_plain(schema)
    assert is_plain(by_skops[0])
    for found in (plain_model(schema, parts), plain_model(*by_skops), read_by_skops(schema, parts)):
        assert same(found, value)


def test_a_fit_of_the_default_classifier_is_written_as_skops_writes_it(fitted):
    model, X = fitted
    schema, parts = plain_parts(model)
    assert renamed(schema, parts) == renamed(*written_by_skops(model))
    found = plain_model(json.loads(json.dumps(schema)), parts)
    np.testing.assert_array_equal(found.predict_proba(X), model.predict_proba(X))
    assert found.explain() == model.explain()


def test_shared_objects_stay_shared():
    schema, parts = plain_parts(PLAIN["shared"])
    first, (second, third), named = plain_model(json.loads(json.dumps(schema)), parts)
    assert first is second is third is named["again"]
    assert len(parts) == 1


@pytest.mark.parametrize(
    "value",
    [
        {1: "a"},
        {"a": OrderedDict()},
        np.empty((1, 1), dtype=object),
        np.zeros(2, dtype=[("a", object)]),
        np.ma.masked_array([1.0], [True]),
        np.random.default_rng(0),
        [RBF()],
        LogisticRegression(),
        {1.0},
        str,
    ],
    ids=str,
)
def test_all_else_is_left_to_skops(value):
    with pytest.raises(NotPlain):
        plain_parts(value)


def test_a_model_with_a_part_that_only_skops_tells_is_saved_and_loaded(tmp_path):
    model = GraphGPClassifier(random_state=np.random.RandomState(5))
    with pytest.raises(NotPlain):
        plain_parts(model)
    path = tmp_path / "model.atoll"
    save_model([model, VALUES], path)
    found, values = load_model(path)
    assert found.random_state.uniform() == model.random_state.uniform()
    np.testing.assert_array_equal(values, VALUES)


LIST = {"__class__": "list", "__module__": "builtins", "__loader__": "ListNode", "content": []}
ROOT = {"protocol": 2}


@pytest.mark.parametrize(
    "node",
    [
        LIST,  # without a protocol
        LIST | {"protocol": True},
        LIST | {"protocol": 3},
        LIST | ROOT | {"__class__": "set"},
        LIST | ROOT | {"__module__": "os"},
        LIST | ROOT | {"content": ["system"]},
        LIST | ROOT | {"content": [LIST | {"__loader__": "ObjectNode"}]},
        LIST | ROOT | {"content": {}},
        LIST | ROOT | {"__loader__": ["ListNode"]},
        ROOT | {"__loader__": "atoll", "fields": {"x": {"__loader__": "FunctionNode"}}},
        ROOT | {"__loader__": "atoll", "fields": []},
        ROOT | {"__loader__": "DictNode", "__module__": "builtins", "__class__": "dict",
                "content": {"1": LIST}, "key_types": LIST},
        ROOT | {"__loader__": "DictNode", "__module__": "builtins", "__class__": "dict",
                "content": {"1": LIST}, "key_types": LIST | {"content": [
                    {"__loader__": "TypeNode", "__module__": "builtins", "__class__": "eval"}]}},
        *(ROOT | {"__loader__": "NdArrayNode", "type": "numpy", "file": "1.npy",
                  "__module__": module, "__class__": name}
          for module, name in [("numpy", "load"), ("numpy", "memmap"), ("os", "float64")]),
        ROOT | {"__loader__": "SparseMatrixNode", "type": "scipy", "file": "1.npz",
                "__module__": "scipy.sparse._csr", "__class__": "system"},
        [], None, "JsonNode",
    ],
    ids=str,
)  # fmt: skip
def test_a_schema_with_any_other_node_is_not_plain(node):
    assert not is_plain(node)
