"""Saved files outlive the code that wrote them: stable names, versions, upgrades, old files."""

from __future__ import annotations

import inspect
import io
import json
import runpy
import tarfile
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF

import atoll
from atoll.core.graphs import Modes
from atoll.estimators import MODELS, saved_format_1
from atoll.estimators.persistence import load_model, save_model
from atoll.estimators.saved_types import TYPES, _declared
from atoll.estimators.shell import NOT_SAVED
from atoll.estimators.tables import TablePreprocessor
from atoll.kernels.graph_warped import Geometry, GraphWarpedKernel

HERE = Path(__file__).parent
NAMES = json.loads((HERE / "saved" / "names.json").read_text())
BATTERY = runpy.run_path(str(HERE.parent / "test_battery.py"))
# Of the machine that recorded what the files of version 0.1 predict.
ARITHMETIC_OF_OLD_FILES = "10083f7521e47354a57acd4822334f3b8b533b7767fdb65c3b2f059357617022"


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.atoll"


def schema_of(path):
    """The text of a model file's schema."""
    archive = path.read_bytes().split(b"\n", 1)[1]
    return zipfile.ZipFile(io.BytesIO(archive)).read("schema.json").decode()


# --- names ---------------------------------------------------------------------------------------


def declared_fields(kind):
    """Names and defaults of the fields of a tuple, or of the parameters of an estimator."""
    if hasattr(kind, "_fields"):
        return dict.fromkeys(kind._fields, inspect.Parameter.empty) | kind._field_defaults
    if hasattr(kind, "get_params") or hasattr(kind, "__dataclass_fields__"):
        return {name: p.default for name, p in inspect.signature(kind).parameters.items()}
    return {}


def test_a_stable_name_is_for_ever_and_its_version_never_falls():
    gone = NAMES.keys() - TYPES.keys()
    assert not gone, f"files name these types: {gone}; put them back into TYPES"
    fallen = {name for name in NAMES if TYPES[name].version < NAMES[name]["version"]}
    assert not fallen, f"files hold later versions of {fallen}; put their upgrades back"


@pytest.mark.parametrize("name", TYPES)
def test_what_a_type_holds_changes_with_its_version_alone(name):
    fields = declared_fields(TYPES[name].load())
    now = {"version": TYPES[name].version, "fields": list(fields)}
    record = f"record in saved/names.json: {json.dumps({name: now})}"
    assert NAMES.get(name, {}).get("version") == now["version"], record
    known = NAMES[name]["fields"]
    lost = [field for field in known if field not in fields]
    needed = [f for f in fields if f not in known and fields[f] is inspect.Parameter.empty]
    unless = f"unless no release has written this version; then {record}"
    assert not lost, f"files have {lost} in {name!r}: append an upgrade in saved_types, {unless}"
    assert not needed, f"files have no {needed} in {name!r}: give defaults or an upgrade, {unless}"


def test_a_type_is_named_where_it_is_defined_and_once():
    paths = [saved.path for saved in TYPES.values()]
    assert len(set(paths)) == len(paths)
    for saved in TYPES.values():
        kind = saved.load()
        assert f"{kind.__module__}.{kind.__qualname__}" == saved.path


def test_every_estimator_has_a_stable_name_and_so_has_what_it_saves():
    paths = {saved.path for _, saved in [*TYPES.items(), *_declared()]}
    public = [getattr(atoll, name) for name in atoll.__all__]
    kinds = [kind for kind in public if hasattr(kind, "saves")]
    assert len(kinds) > len(MODELS)
    for saved in {*kinds, *(saved for kind in kinds for saved in kind.saves)}:
        assert f"{saved.__module__}.{saved.__qualname__}" in paths


def test_no_two_types_have_one_name():
    path_of = {name: saved.path for name, saved in TYPES.items()}
    for name, saved in _declared():
        assert path_of.setdefault(name, saved.path) == saved.path, f"{name}: rename the class"


def test_every_type_of_format_1_has_a_stable_name():
    assert {name for name, _ in saved_format_1.TYPES.values()} <= TYPES.keys()


def test_our_objects_inside_those_of_others_are_named_too_and_stay_shared(path):
    X = np.random.default_rng(0).normal(size=(8, 2))
    shape = Geometry.from_rows(X, n_neighbors=3)
    kernel = 2.0 * GraphWarpedKernel(RBF(1.0), shape) + GraphWarpedKernel(RBF(2.0), shape)
    model = GaussianProcessRegressor(kernel, optimizer=None).fit(X, X[:, 0])
    save_model(model, path)
    assert '"atoll.' not in schema_of(path)
    loaded = load_model(path)
    np.testing.assert_array_equal(loaded.predict(X + 0.1), model.predict(X + 0.1))
    assert loaded.kernel_.k1.k2.geometry is loaded.kernel_.k2.geometry


def test_a_dictionary_with_the_keys_of_a_record_stays_a_dictionary(path):
    record = {"__loader__": "atoll", "name": "gaussian", "version": 1, "fields": {"mean": 0.0}}
    save_model(record, path)
    assert load_model(path) == record


def test_a_type_of_ours_without_a_stable_name_is_not_saved(path, monkeypatch):
    monkeypatch.setattr("atoll.core.graphs.Modes.__module__", "atoll.core.elsewhere")
    with pytest.raises(ValueError, match=r"elsewhere\.Modes has no stable name"):
        save_model(Modes(np.zeros(1), np.zeros((2, 1))), path)
    assert not path.exists()


# --- files of atoll 0.1 --------------------------------------------------------------------------

OLD = tarfile.open(HERE / "saved" / "format1.tar.xz")  # noqa: SIM115
MAKING = runpy.run_path(str(HERE / "saved" / "make_format1.py"))
OLD_NAMES = sorted(n.removesuffix(".atoll") for n in OLD.getnames() if n.endswith(".atoll"))


@pytest.fixture(scope="module")
def old_files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("format1")
    OLD.extraction_filter = getattr(tarfile, "data_filter", None)  # from Python 3.11.4 on
    OLD.extractall(folder)
    return folder


def predicted(model, what, rows):
    """What was recorded under this name; see saved/make_format1.py."""
    if what.startswith("latent"):
        return model.predict_latent(rows)[what == "latent_variance"]
    if what == "transduction":
        return np.asarray(model.transduction_).astype(str)
    if what in ("mean", "deviation"):
        return model.predict(rows, return_std=True)[what == "deviation"]
    if what == "decision_function":  # a machine's own, which log-odds have replaced
        return model.posterior_.decide(rows)
    return getattr(model, what)(rows)


@pytest.mark.parametrize("name", OLD_NAMES)
def test_files_of_atoll_0_1_predict_what_they_predicted_then(old_files, name):
    recorded = np.load(old_files / "predictions.npz")
    wanted = {k.split("/")[1]: recorded[k] for k in recorded if k.startswith(f"{name}/")}
    model = load_model(old_files / f"{name}.atoll")
    if name == "bundle":
        np.testing.assert_array_equal(model.X[:3], wanted["rows"])
        assert (model.target, model.atoll_version) == ("kind", "0.1.0")
        assert model.preprocessing.categories == {"hue": ("blue", "green", "red")}
        model = model.estimator
    rows = wanted.pop("rows")
    tolerance = 1e-12 if BATTERY["arithmetic"]() == ARITHMETIC_OF_OLD_FILES else 1e-6
    for what, values in wanted.items():
        found = predicted(model, what, rows)
        if what == "transduction":
            assert found.tolist() == values.tolist()
        else:
            np.testing.assert_allclose(found, values, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", sorted(MAKING["CASES"]))
def test_a_model_of_atoll_0_1_has_the_attributes_of_a_fit_of_now(old_files, name):
    model = load_model(old_files / f"{name}.atoll")
    X, y = MAKING["rows_of"](MAKING["CASES"][name][2])
    fresh = clone(model)
    if "selection" in fresh.get_params():
        fresh.set_params(selection=None)  # no search
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if name == "mixture-online":
            fresh.partial_fit(X, y, classes=[0, 1])
        else:
            fresh.fit(
                X, {"ssgp-regressor": y.astype(float), "archipelago-density": None}.get(name, y)
            )
    beside = {*NOT_SAVED, "_counts_of_fit", "foretold_"}  # atoll 0.1 kept neither
    assert vars(model).keys() == vars(fresh).keys() - beside
    if name != "probit-ep-3":  # one class against the rest then, the joint model now
        assert type(model.posterior_) is type(fresh.posterior_)
    if name != "graph-normal":  # which takes more rows now
        verdicts = {"mixed", "converged"} & model.diagnostics_.keys()
        assert verdicts <= fresh.diagnostics_.keys()


def test_the_shares_of_archipelago_in_atoll_0_1_are_named_by_the_codes_of_now(old_files):
    model = load_model(old_files / "archipelago-mixture.atoll")
    shares = [f"share_of_class_{code}" for code in range(3)]
    assert [name for name in model.draws_ if name.startswith("share")] == shares
    assert [name for name in model.diagnostics_["r_hat"] if name.startswith("share")] == shares
    np.testing.assert_allclose(sum(model.draws_[name] for name in shares), 1.0)


def test_files_of_atoll_0_1_hold_every_estimator(old_files):
    kinds = {type(load_model(old_files / f"{name}.atoll")) for name in OLD_NAMES}
    estimators = {s.load() for s in TYPES.values() if s.path.startswith("atoll.estimators.")}
    fitted = {kind for kind in estimators if hasattr(kind, "fit")}
    assert fitted - {TablePreprocessor} <= kinds  # which is younger


def test_files_of_atoll_0_1_are_saved_again_in_the_present_format(old_files, path):
    for name in OLD_NAMES:
        model = load_model(old_files / f"{name}.atoll")
        save_model(model, path)
        assert '"atoll.' not in schema_of(path)
        again = load_model(path)
        assert type(again) is type(model)
