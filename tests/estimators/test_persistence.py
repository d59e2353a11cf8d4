from __future__ import annotations

import hashlib
import io
import json
import warnings
import zipfile
from typing import Any, NamedTuple

import numpy as np
import pytest
from sklearn.datasets import make_moons
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, WhiteKernel

import atoll
from atoll.core.tables import Preprocessing
from atoll.estimators import MODELS
from atoll.estimators.persistence import (
    FORMAT,
    TRUSTED_TYPES,
    ModelBundle,
    load_model,
    save_model,
)


class Draws(NamedTuple):
    values: np.ndarray
    rng: np.random.Generator
    note: Any = None


class OwnKernel(RBF):
    """A kernel that atoll does not know."""


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


def rewritten(archive: bytes, change) -> bytes:
    """The archive with `change` applied to its schema, its checksums made good again."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(archive)) as old, zipfile.ZipFile(out, "w") as new:
        for name in old.namelist():
            content = old.read(name)
            if name == "schema.json":
                schema = json.loads(content)
                content = json.dumps(change(schema)).encode()
            new.writestr(name, content)
    return out.getvalue()


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


@pytest.mark.parametrize("kernel", [RBF([1.0, 2.0]), Matern(nu=1.5), RBF() ** 2, RBF() + Matern()])
def test_scikit_learns_kernels_need_no_trust(path, kernel):
    save_model(GaussianProcessRegressor(kernel), path)
    assert load_model(path).kernel == kernel


def test_every_trusted_type_exists():
    import importlib

    for name in TRUSTED_TYPES:
        module, _, attribute = name.rpartition(".")
        assert isinstance(getattr(importlib.import_module(module), attribute), type), name


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

    path.write_bytes(with_header(rewritten(archive_of(path), plant)))
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
    path.write_bytes(with_header(rewritten(archive_of(path), change)))
    with pytest.raises(ValueError, match=r"cannot be rebuilt|does not rebuild") as refusal:
        load_model(path)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("archive", [b"", b"PK", b"not a zip at all"])
def test_an_archive_that_is_no_zip_is_refused(path, archive):
    path.write_bytes(with_header(archive))
    with pytest.raises(ValueError, match="cannot be rebuilt"):
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


KERNELS = [{"kernel": k} for k in ("isotropic", "ard", RBF([1.0, 2.0]) + Matern())]
SAMPLING = {"n_chains": 2, "n_warmup": 3, "n_samples": 5}
MIXTURES = [
    {"covariance": "full"},
    {"covariance": "tied"},
    {"covariance": "factor", "n_factors": 1},
    {"covariance": "diagonal", "inference": "vb"},
]
SETTINGS = [
    pytest.param(name, options, id=f"{name}-{'-'.join(map(str, options.values()))}")
    for name, model in sorted(MODELS.items())
    for options in (
        [k | (SAMPLING if "n_chains" in model().get_params() else {}) for k in KERNELS]
        if "kernel" in model().get_params()
        else MIXTURES
        if "covariance" in model().get_params()
        else [{"n_neighbors": 5}]
    )
]


@pytest.mark.parametrize(("name", "options"), SETTINGS)
def test_every_model_round_trips_to_the_bit(path, name, options):
    X, truth = make_moons(20, noise=0.1, random_state=0)
    y = np.where(np.arange(20) < 12, truth, None)
    # A generator, so that one is saved too.
    model = MODELS[name](**options, random_state=np.random.default_rng(0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, y)
    save_model(model, path)
    loaded = load_model(path)
    far = X + 0.3
    np.testing.assert_array_equal(loaded.predict_proba(far), model.predict_proba(far))
    if "kernel" in options:
        for ours, theirs in zip(loaded.predict_latent(far), model.predict_latent(far)):
            np.testing.assert_array_equal(ours, theirs)
        assert loaded.kernel_ == model.kernel_
    assert loaded.diagnostics_.keys() == model.diagnostics_.keys()
    assert loaded.diagnostics_["verdict"] == model.diagnostics_["verdict"]
    assert loaded.transduction_.tolist() == model.transduction_.tolist()
    assert loaded.draws_.keys() == model.draws_.keys()
    assert all((loaded.draws_[k] == model.draws_[k]).all() for k in model.draws_)
    assert loaded.get_params().keys() == model.get_params().keys()
