from __future__ import annotations

import hashlib
import io
import json
import os
import struct
import tracemalloc
import zipfile
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.datasets import make_moons
from sklearn.ensemble import VotingClassifier
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, WhiteKernel
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

import atoll
import atoll.active
from atoll.comparison import BlendClassifier
from atoll.core.densities import StudentT
from atoll.core.graphs import Modes
from atoll.core.preprocessing import Preprocessing, prepare
from atoll.datasets import make_crescents
from atoll.estimators.persistence import (
    FORMAT,
    TRUSTED_TYPES,
    ModelBundle,
    load_model,
    save_model,
)
from atoll.estimators.saved_arrays import pack_words
from atoll.estimators.saved_types import TYPES, SavedType

pytestmark = pytest.mark.usefixtures("hurried")  # the classifiers are not on trial


class Draws(NamedTuple):
    values: np.ndarray
    rng: np.random.Generator
    note: Any = None


class OwnKernel(RBF):
    """A kernel that atoll does not know."""


class OwnClassifier(atoll.LaplacianSVC):
    """A classifier of ours, extended elsewhere."""


@pytest.fixture(scope="module")
def fitted():
    X, y = make_moons(40, noise=0.1, random_state=0)
    kernel = ConstantKernel(2.0) * RBF([1.0, 2.0]) + WhiteKernel(1e-3)
    return GaussianProcessRegressor(kernel, optimizer=None).fit(X, y), X


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.atoll"


def with_header(archive: bytes, *, file_format: int = FORMAT, version: str = "0.1.0") -> bytes:
    digest = hashlib.sha256(archive).hexdigest()
    header = f"atoll model, format {file_format}, atoll {version}, sha256 {digest}\n"
    return header.encode() + archive


def archive_of(path) -> bytes:
    return path.read_bytes().split(b"\n", 1)[1]


def rewrite(path, change) -> None:
    """Apply `change` to a model file's schema, and make its checksums good again."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(archive_of(path))) as old, zipfile.ZipFile(out, "w") as new:
        for name in old.namelist():
            content = old.read(name)
            if name == "schema.json":
                schema = json.loads(content)
                content = json.dumps(change(schema)).encode()
            new.writestr(name, content)
    path.write_bytes(with_header(out.getvalue(), version="9.8.7"))


def test_a_loaded_model_predicts_the_same_to_the_bit(fitted, path):
    model, X = fitted
    save_model(model, path)
    loaded = load_model(path)
    for ours, theirs in zip(loaded.predict(X + 0.1, True), model.predict(X + 0.1, True)):
        np.testing.assert_array_equal(ours, theirs)
    assert loaded.kernel_ == model.kernel_
    assert [p.name for p in path.parent.iterdir()] == ["model.atoll"]


def test_a_bundle_survives_with_its_preprocessing_and_blank_labels(fitted, path):
    model, X = fitted
    preprocessing = Preprocessing(
        ("a", "hue"), {"hue": ("red",)}, ("a", "hue=red"), np.array([0.1, 0]), np.ones(2), True
    )
    y = np.array(["cat", None, "dog"] + [None] * 37, dtype=object)
    bundle = ModelBundle(model, preprocessing, X, y, "kind", atoll.__version__, "2001-01-01")
    save_model(bundle, path)
    loaded = load_model(path)
    assert isinstance(loaded, ModelBundle)
    assert isinstance(loaded.preprocessing, Preprocessing)
    assert loaded.preprocessing.categories == {"hue": ("red",)}
    np.testing.assert_array_equal(loaded.preprocessing.mean, [0.1, 0])
    np.testing.assert_array_equal(loaded.X, X)
    assert loaded.y.tolist() == y.tolist()
    assert loaded.target == "kind"


def test_a_bundle_has_what_its_classifier_found_and_says_what_a_large_fit_left_out():
    X, truth = make_crescents(60, random_state=0)
    y = np.full(60, None, dtype=object)
    y[:20] = truth[:20]
    model = atoll.GraphGPClassifier(n_draws=20, random_state=0).fit(X, y)
    table = pd.DataFrame(X, columns=["a", "b"])
    read = prepare(table, standardise=False).preprocessing
    bundle = ModelBundle(model, read, X, y, "kind", atoll.__version__, "2001-01-01")
    assert {"transduction_", "classes_", "diagnostics_", "predict_entropy", "X"} <= {*dir(bundle)}
    assert "fit" not in dir(bundle)  # which would change the classifier alone
    np.testing.assert_array_equal(bundle.transduction_, model.transduction_)
    np.testing.assert_array_equal(bundle.predict_entropy(table), model.predict_entropy(X))
    del model.transduction_  # as after a fit that reads its rows in chunks
    with pytest.raises(AttributeError, match=r"60, were too many .* model\.estimator\.predict\("):
        bundle.transduction_  # noqa: B018
    assert len(bundle.estimator.predict(bundle.X)) == 60  # what it says to call


def test_named_tuples_generators_and_special_floats_survive(path):
    rng = np.random.default_rng(3)
    rng.normal(size=5)
    draws = Draws(
        np.array([[np.nan, -0.0], [np.inf, 1e-320]]),
        rng,
        {"r_hat": {"f": np.float64(1.01), "g": float("nan")}, "mixed": np.bool_(1), "seed": 2**80},
    )
    save_model(draws, path)
    loaded = load_model(path, trusted=[Draws])
    assert loaded.values.tobytes() == draws.values.tobytes()
    assert loaded.rng.bit_generator.state == rng.bit_generator.state
    assert loaded.rng.normal() == rng.normal()
    assert loaded.note["r_hat"]["f"] == 1.01
    assert np.isnan(loaded.note["r_hat"]["g"])
    assert loaded.note["seed"] == 2**80
    assert bool(loaded.note["mixed"])


@pytest.mark.parametrize("order", ["C", "F"])
def test_arrays_keep_their_memory_order(path, order):
    matrix = np.asarray(np.random.default_rng(0).normal(size=(3, 4)), order=order)
    save_model({"matrix": matrix}, path)
    assert load_model(path)["matrix"].flags[f"{order}_CONTIGUOUS"]


def test_a_kernel_of_the_users_own_loads_only_when_trusted(path):
    save_model(GaussianProcessRegressor(OwnKernel(2.0)), path)
    name = f"{OwnKernel.__module__}.OwnKernel"
    with pytest.raises(ValueError, match=r"OwnKernel.*trusted"):
        load_model(path)
    for trusted in ([OwnKernel], [name]):
        assert load_model(path, trusted=trusted).kernel.length_scale == 2.0


def test_a_model_of_ours_with_a_kernel_of_the_users_own_loads_only_when_trusted(path):
    X, truth = make_moons(20, noise=0.1, random_state=0)
    y = np.where(np.arange(20) < 12, truth, None)
    model = atoll.SSGPClassifier(kernel=OwnKernel(1.0, "fixed"), selection=None).fit(X, y)
    save_model(model, path)
    with pytest.raises(ValueError, match=r"from a file: [\w.]*OwnKernel\. If they are yours"):
        load_model(path)
    loaded = load_model(path, trusted=[OwnKernel])
    assert type(loaded.kernel) is OwnKernel
    np.testing.assert_array_equal(loaded.predict_proba(X + 0.1), model.predict_proba(X + 0.1))


def test_a_class_of_the_users_own_that_extends_ours_loads_only_when_trusted(path):
    X, y = make_moons(40, noise=0.1, random_state=0)
    save_model(OwnClassifier(n_neighbors=7).fit(X, y), path)
    with pytest.raises(ValueError, match=r"OwnClassifier.*trusted"):
        load_model(path)
    assert load_model(path, trusted=[OwnClassifier]).n_neighbors == 7


@pytest.mark.parametrize("kernel", [RBF([1.0, 2.0]), Matern(nu=1.5), RBF() ** 2, RBF() + Matern()])
def test_scikit_learns_kernels_need_no_trust(path, kernel):
    save_model(GaussianProcessRegressor(kernel), path)
    assert load_model(path).kernel == kernel


def test_every_trusted_type_exists():
    import importlib

    for name in TRUSTED_TYPES:
        module, _, attribute = name.rpartition(".")
        assert callable(getattr(importlib.import_module(module), attribute)), name


@pytest.mark.parametrize("column", [np.array, pd.Index, pd.Series])
def test_a_model_whose_markers_are_a_column_is_saved(column, path):
    X, y = make_crescents(40, random_state=0)
    words = np.array(["no", "yes"], dtype=object)[y]
    words[20:36] = "todo"
    model = atoll.GraphGPClassifier(unlabelled=column(["todo"]), n_draws=20, random_state=0)
    save_model(model.fit(X, words), path)
    loaded = load_model(path)
    assert list(loaded.unlabelled) == loaded.unlabelled_ == ["todo"]
    assert loaded.score(X, words) == model.score(X, words)


def test_arguments_in_the_wrong_order_are_answered_with_the_right_one(fitted, path):
    """The error was of `os.fspath`, and named a type alone."""
    model, _ = fitted
    with pytest.raises(TypeError, match=r"they are swapped: save_model\(model, 'x.atoll'\)"):
        save_model("x.atoll", model)
    with pytest.raises(TypeError, match=r"path=5 is not the name of a file"):
        save_model(model, 5)
    with pytest.raises(TypeError, match=r"model='x.atoll' is a name"):
        save_model("x.atoll", "y.atoll")
    assert not path.exists()


@pytest.mark.parametrize("within", [lambda m: m, lambda m: make_pipeline(StandardScaler(), m)])
def test_a_model_that_is_not_fitted_is_not_saved(path, within):
    with pytest.raises(NotFittedError, match=r"AtollClassifier is not fitted.*call fit\(X, y\)"):
        save_model(within(atoll.AtollClassifier()), path)
    assert not path.exists()


def test_a_file_cut_anywhere_is_refused(fitted, path):
    save_model(fitted[0], path)
    content = path.read_bytes()
    for length in [0, 1, 5, 30, 100, 130, len(content) // 2, len(content) - 1]:
        path.write_bytes(content[:length])
        with pytest.raises(ValueError, match="damaged"):
            load_model(path)


def test_a_byte_changed_anywhere_is_refused(fitted, path):
    save_model(fitted[0], path)
    content = path.read_bytes()
    header_length = content.index(b"\n")
    # In the header, the version that wrote the file is the one thing that may differ unnoticed.
    version = content.index(b", sha256 ")
    places = [*range(content.index(b"atoll ", 15)), *range(version, header_length + 1)]
    rng = np.random.default_rng(1)
    places += rng.integers(header_length + 1, len(content), size=60).tolist()
    for place in places:
        broken = bytearray(content)
        broken[place] ^= 0x10
        path.write_bytes(broken)
        with pytest.raises(ValueError, match=r"damaged|not an atoll model|format"):
            load_model(path)


@pytest.mark.parametrize(
    "content", [b"\x80\x04\x95pickle", b"x,y\n1,2\n", b"PK\x03\x04 a zip", b"\x00" * 500]
)
def test_a_foreign_file_is_refused(path, content):
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"model\.atoll' is not an atoll model"):
        load_model(path)


def test_a_file_in_a_newer_format_asks_for_an_upgrade(fitted, path):
    save_model(fitted[0], path)
    path.write_bytes(with_header(archive_of(path), file_format=FORMAT + 1, version="9.0"))
    with pytest.raises(ValueError, match=r"atoll 9\.0.*upgrade"):
        load_model(path)


def test_missing_files_and_folders_are_named(tmp_path):
    with pytest.raises(ValueError, match=r"no model file '.*absent\.atoll'"):
        load_model(tmp_path / "absent.atoll")
    with pytest.raises(ValueError, match="is a folder"):
        load_model(tmp_path)


def test_a_file_that_asks_to_run_code_is_refused_and_runs_none(path, tmp_path):
    save_model(GaussianProcessRegressor(RBF()), path)
    witness = tmp_path / "ran"
    content = [
        {"__class__": "str", "__module__": "builtins", "__loader__": "JsonNode", "content": c}
        for c in (json.dumps(f"touch {witness}"),)
    ]
    call = {
        "__class__": "system",
        "__module__": "os",
        "__loader__": "ConstructorFromReduceNode",
        "content": {
            "__class__": "tuple",
            "__module__": "builtins",
            "__loader__": "TupleNode",
            "content": content,
        },
    }

    def plant(schema):
        schema["content"]["content"]["kernel"] = call
        return schema

    rewrite(path, plant)
    with pytest.raises(ValueError, match=r"os\.system"):
        load_model(path)
    assert not witness.exists()


@pytest.mark.parametrize(
    "change",
    [
        lambda schema: {k: v for k, v in schema.items() if k != "__loader__"},
        lambda schema: schema | {"__loader__": "NoSuchNode"},
        lambda schema: schema | {"protocol": "two"},
        lambda schema: schema | {"protocol": 10**6},
        lambda schema: schema | {"__class__": "NoSuchClassifier"},
        lambda schema: schema | {"content": []},
        lambda schema: [],
    ],
)
def test_a_rewritten_archive_with_a_good_checksum_is_refused(path, change):
    save_model(GaussianProcessRegressor(RBF()), path)
    rewrite(path, change)
    with pytest.raises(ValueError, match=r"cannot be rebuilt|does not rebuild") as refusal:
        load_model(path)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("archive", [b"", b"PK", b"not a zip at all"])
def test_an_archive_that_is_no_zip_is_refused(path, archive):
    path.write_bytes(with_header(archive))
    with pytest.raises(ValueError, match="damaged: it holds no archive"):
        load_model(path)


def test_an_array_missing_from_the_archive_is_refused(fitted, path):
    save_model(fitted[0], path)
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(archive_of(path))) as old, zipfile.ZipFile(out, "w") as new:
        new.writestr("schema.json", old.read("schema.json"))
    path.write_bytes(with_header(out.getvalue()))
    with pytest.raises(ValueError, match="cannot be rebuilt"):
        load_model(path)


def test_an_unwritable_place_is_refused_and_nothing_is_left(fitted, tmp_path):
    with pytest.raises(ValueError, match="does not exist"):
        save_model(fitted[0], tmp_path / "absent" / "model.atoll")
    with pytest.raises(ValueError, match="folder"):
        save_model(fitted[0], tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_saved_as_data_is_refused_and_nothing_is_left(path):
    with pytest.raises(ValueError, match="cannot be saved as data"):
        save_model({"generator": (i for i in range(3))}, path)
    assert list(path.parent.iterdir()) == []


# --- versions ------------------------------------------------------------------------------------

MODES = Modes(np.array([0.5]), np.array([[1.0], [2.0]]))


def doubled(fields):
    return fields | {"values": 2 * fields["values"]}


def test_older_versions_are_upgraded_step_by_step(path, monkeypatch):
    save_model({"modes": MODES}, path)
    for upgrades in [(doubled,), (doubled, doubled)]:
        monkeypatch.setitem(TYPES, "graph-modes", SavedType("atoll.core.graphs.Modes", upgrades))
        assert load_model(path)["modes"].values == 0.5 * 2 ** len(upgrades)
    save_model({"modes": MODES}, path)
    assert load_model(path)["modes"].values == 0.5


def test_a_newer_version_of_a_type_says_who_wrote_it_and_asks_for_an_upgrade(path, monkeypatch):
    with monkeypatch.context() as later:
        later.setitem(TYPES, "graph-modes", SavedType("atoll.core.graphs.Modes", (doubled,)))
        save_model(MODES, path)
    with pytest.raises(ValueError, match=r"version 2 of 'graph-modes'.*written by atoll .*upgrade"):
        load_model(path)


def test_a_name_that_is_not_known_says_who_wrote_it(path):
    save_model(MODES, path)
    rewrite(path, lambda schema: schema | {"name": "wavelets"})
    with pytest.raises(ValueError, match=r"kind 'wavelets'.*written by atoll 9\.8\.7.*upgrade"):
        load_model(path)


def test_fields_that_are_new_take_their_defaults(path):
    save_model({"parameters": atoll.LaplacianSVC(n_neighbors=3), "density": MODES}, path)

    def without(schema):
        del schema["content"]["parameters"]["fields"]["power"]
        return schema

    rewrite(path, without)
    loaded = load_model(path)["parameters"]
    assert loaded.get_params() == atoll.LaplacianSVC(n_neighbors=3).get_params()


def test_a_field_that_is_missing_or_strange_is_refused(path):
    density = StudentT(np.zeros(1), np.eye(1), 3.0)
    save_model(density, path)
    for change in (
        lambda fields: {k: v for k, v in fields.items() if k != "df"},
        lambda fields: fields | {"shape": fields["df"]},
        lambda fields: [],
        lambda fields: None,
    ):
        save_model(density, path)
        rewrite(path, lambda schema, c=change: schema | {"fields": c(schema["fields"])})
        with pytest.raises(ValueError, match=r"cannot be rebuilt.*atoll 9\.8\.7"):
            load_model(path)


@pytest.mark.parametrize("version", [0, -1, True, "1", None, [1], 10**30])
def test_a_version_that_is_none_is_refused(path, version):
    save_model(MODES, path)
    rewrite(path, lambda schema: schema | {"version": version})
    with pytest.raises(ValueError, match="graph-modes"):
        load_model(path)


# --- sizes ---------------------------------------------------------------------------------------


def zipped(content: bytes, *, declared: int | None = None) -> bytes:
    """An archive with one deflated member, which says that it unpacks to `declared` bytes."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("schema.json", content)
    found = bytearray(out.getvalue())
    if declared is not None:
        local, central = found.index(b"PK\x03\x04"), found.index(b"PK\x01\x02")
        for place in (local + 22, central + 24):
            found[place : place + 4] = struct.pack("<I", declared)
    return bytes(found)


def test_a_file_that_would_unpack_to_too_much_is_refused_before_it_is_unpacked(path):
    path.write_bytes(with_header(zipped(b"{}", declared=2**32 - 2)))
    with pytest.raises(ValueError, match=r"unpacks to 4 GiB, more than max_bytes=1 GiB.*raise"):
        load_model(path, max_bytes=2**30)
    path.write_bytes(with_header(bytes(3000)))
    with pytest.raises(ValueError, match="unpacks to"):
        load_model(path, max_bytes=2000)


def test_the_usual_limit_lets_models_pass_and_stops_bombs(path, monkeypatch):
    path.write_bytes(with_header(zipped(b"{}", declared=2**32 - 2)))
    monkeypatch.setattr("atoll.core.memory.physical_memory", lambda: 2**33)
    with pytest.raises(ValueError, match=r"needs about 12.0 GiB of memory and this machine has 8"):
        load_model(path)
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in "abc":
            archive.writestr(name, b"")
    bomb = bytearray(out.getvalue())
    place = 0
    while (place := bomb.find(b"PK\x01\x02", place + 1)) > 0:
        bomb[place + 24 : place + 28] = struct.pack("<I", 2**32 - 2)
    path.write_bytes(with_header(bytes(bomb)))
    with pytest.raises(ValueError, match=r"unpacks to 12 GiB, more than max_bytes=8 GiB"):
        load_model(path)


def test_a_member_larger_than_it_says_takes_no_more_memory_than_it_says(path):
    path.write_bytes(with_header(zipped(bytes(10**8), declared=1000)))
    tracemalloc.start()
    with pytest.raises(ValueError, match=r"cannot be rebuilt \(BadZipFile"):
        load_model(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 10**7


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_compression_of_another_kind_is_refused(path, method):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        archive.writestr("schema.json", b"{}")
    path.write_bytes(with_header(out.getvalue()))
    with pytest.raises(ValueError, match="compressed in a way that is not ours"):
        load_model(path)


@pytest.mark.parametrize("shape", ["(4,)", "(9999999999,)", "(4", "-4", "(2, (3,"])
def test_an_array_that_is_not_as_large_as_it_says_is_refused(path, shape):
    save_model({"rows": np.zeros(3)}, path)
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(archive_of(path))) as old, zipfile.ZipFile(out, "w") as new:
        for name in old.namelist():
            changed = old.read(name).replace(b"(3,), }         ", f"{shape}, }}".ljust(16).encode())
            new.writestr(name, changed)
    path.write_bytes(with_header(out.getvalue()))
    with pytest.raises(ValueError, match="cannot be rebuilt"):
        load_model(path)


def test_two_members_of_one_name_are_refused(path):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("schema.json", b"{}")
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("schema.json", b"{}")
    path.write_bytes(with_header(out.getvalue()))
    with pytest.raises(ValueError, match="the same name"):
        load_model(path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes on this system")
def test_what_is_no_file_is_not_read(path):
    os.mkfifo(path)
    with pytest.raises(ValueError, match="not a regular file"):
        load_model(path)


def test_long_arrays_of_words_are_saved_each_word_once_and_come_back_as_they_were(tmp_path):
    X = np.concatenate([np.zeros((700, 1)), np.ones((700, 1))]) + np.arange(1400)[:, None] * 1e-3
    y = np.full(1400, None, dtype=object)
    y[[0, 1, 1398, 1399]] = ["ä cat", "ä cat", "dog", "dog"]
    model = atoll.GraphGPClassifier(n_draws=20, random_state=0).fit(X, y)
    save_model(model, tmp_path / "m.atoll")
    with zipfile.ZipFile(io.BytesIO((tmp_path / "m.atoll").read_bytes())) as archive:
        schema = archive.read("schema.json")
    assert schema.count(b'"__loader__"') < 500  # 1400 of the transduced classes alone before
    again = load_model(tmp_path / "m.atoll")
    assert again.transduction_.dtype == object
    assert again.transduction_.tolist() == model.transduction_.tolist()
    assert model.transduction_.dtype == object  # what is saved is a copy


@pytest.mark.parametrize("values", [[3, None, -5], [True, False, None], [7, 8, 9]])
def test_long_arrays_of_numbers_and_blanks_are_packed_too(values):
    entries = values * 500
    packed = pack_words(np.array(entries, dtype=object))
    assert len(packed.words) <= 3
    again = packed.unpacked().tolist()
    assert again == entries
    assert [type(entry) for entry in again] == [type(entry) for entry in entries]


@pytest.mark.parametrize("strange", [1.5, 2**70, True])
def test_arrays_that_hold_other_numbers_are_left_as_they_are(strange):
    values = np.array([3, None, strange] * 500, dtype=object)
    assert pack_words(values) is values


@pytest.mark.parametrize("strange", [3, "zero\0", b"bytes"])
def test_arrays_that_hold_more_than_words_are_left_as_they_are(strange):
    values = np.array(["a", None, strange] * 500, dtype=object)
    assert pack_words(values) is values


def test_a_lambda_is_refused_when_it_is_saved_and_not_when_it_is_needed(tmp_path):
    X, y = make_moons(20, random_state=0)
    model = make_pipeline(FunctionTransformer(lambda x: x), StandardScaler()).fit(X, y)
    with pytest.raises(ValueError, match=r"the Pipeline holds .*: a lambda, .*; write it with"):
        save_model(model, tmp_path / "m.atoll")
    assert not list(tmp_path.iterdir())
    save_model(make_pipeline(FunctionTransformer(np.log1p)).fit(X), tmp_path / "m.atoll")
    assert load_model(tmp_path / "m.atoll")[0].func is np.log1p


def searched(X, y):
    folds = atoll.SemiSupervisedKFold(2, random_state=0)
    model = make_pipeline(SimpleImputer(), atoll.AtollClassifier(random_state=0))
    return GridSearchCV(model, {"simpleimputer__strategy": ["mean"]}, cv=folds).fit(X, y)


MADE_OF_OTHERS = {
    "columns chosen": lambda X, y: make_pipeline(
        make_column_transformer((StandardScaler(), make_column_selector(dtype_include="number"))),
        atoll.AtollClassifier(random_state=0),
    ).fit(X, y),
    "searched": searched,
    "votes": lambda X, y: VotingClassifier(
        [("atoll", atoll.AtollClassifier(random_state=0)), ("line", LogisticRegression())],
        voting="soft",
    ).fit(X, y),
    "blend": lambda X, y: BlendClassifier(
        [atoll.AtollClassifier(random_state=0), LogisticRegression()], [2, 1], random_state=0
    ).fit(X, y),
}


@pytest.mark.parametrize("made", MADE_OF_OTHERS.values(), ids=MADE_OF_OTHERS)
def test_what_scikit_learn_and_blends_make_of_models_is_loaded_without_trust(made, path):
    X, truth = make_moons(24, noise=0.1, random_state=0)
    X = pd.DataFrame(X + 3.0 * truth[:, None], columns=["a", "b"])
    model = made(X, np.array(["left", "right"])[truth])
    save_model(model, path)
    np.testing.assert_array_equal(load_model(path).predict_proba(X), model.predict_proba(X))


def test_classes_that_pandas_cut_makes_are_loaded_without_trust(path):
    X, _ = make_moons(24, noise=0.1, random_state=0)
    y = pd.cut(X[:, 0], [-2.0, 0.5, 3.0])
    save_model(atoll.LaplacianRLSClassifier().fit(X, y), path)
    assert load_model(path).classes_.tolist() == y.categories.tolist()


def test_what_could_not_be_read_again_is_refused_when_it_is_saved(path):
    with pytest.raises(ValueError, match=r"Timestamp, which could not be read again"):
        save_model({"time": pd.Timestamp("2020-01-01")}, path)
    assert not path.exists()


def test_a_loop_of_labels_is_neither_saved_nor_loaded_as_a_model(tmp_path):
    X, _ = make_moons(20, random_state=0)
    learner = atoll.active.ActiveLearner(random_state=0).fit(X)
    with pytest.raises(ValueError, match=r"save it by its own save\(path\).*ActiveLearner\.load"):
        save_model(learner, tmp_path / "m.atoll")
    learner.save(tmp_path / "m.atoll")
    with pytest.raises(ValueError, match=r"holds a loop of labels .*ActiveLearner\.load\(path\)"):
        load_model(tmp_path / "m.atoll")
    assert atoll.active.ActiveLearner.load(tmp_path / "m.atoll").n_labels_ == 0
