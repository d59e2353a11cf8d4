from __future__ import annotations

import io
import os
import pty
import re
import signal
import subprocess
import sys
import termios
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow
import pyarrow.parquet as parquet
import pytest
from sklearn.pipeline import make_pipeline

import atoll
from atoll import GraphGPClassifier, make_preprocessor
from atoll.cli import opening, predict_tables, reporting
from atoll.core.tables import read_table
from atoll.estimators import MODELS, persistence
from atoll.estimators.persistence import load_model, save_model
from atoll.reproductions import list_experiments
from atoll.reproductions.times import TIMES
from program import fail, run, succeed

# A handful of sweeps cannot mix, and the estimators say so.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def settings(*pairs):
    return [word for pair in pairs for word in ("--set", pair)]


TINY = [*settings("n_chains=2", "n_warmup=3", "n_samples=4"), "--quiet"]


def command(*arguments, stderr=subprocess.PIPE, **settings):
    program = [sys.executable, "-c", "from atoll.cli import main; main()", *map(str, arguments)]
    return subprocess.Popen(program, stdout=subprocess.PIPE, stderr=stderr, text=True, **settings)


@pytest.fixture
def data(tmp_path):
    """Two clouds; 12 of 30 rows labelled, by words."""
    rng = np.random.default_rng(0)
    kind = np.repeat(["cat", "dog"], 15)
    frame = pd.DataFrame(
        {
            "row": [f"r{i}" for i in range(30)],
            "height": rng.normal(size=30) + 3 * (kind == "dog"),
            "weight": 100 + 10 * rng.normal(size=30),
            "kind": np.where(np.arange(30) % 15 < 6, kind, None),
        }
    )
    frame.to_csv(tmp_path / "data.csv", index=False)
    return tmp_path / "data.csv"


@pytest.fixture
def model(data, tmp_path):
    path = tmp_path / "model.atoll"
    succeed(*fit_arguments(data, path))
    return path


def fit_arguments(data, out, *more, model="null-category"):
    fixed = ["--target", "kind", "--model", model, "--out", out, "--drop", "row"]
    options = MODELS[model]().get_params()
    starts = ["--set", "n_starts=1"] if "n_starts" in options else []
    tiny = TINY if "n_chains" in options else [*starts, "--quiet"]
    if model == "null-category" and not any("inference=" in str(word) for word in more):
        tiny = [*tiny, "--set", "inference=mcmc"]  # "auto" samples where every row has a label
    return ["fit", data, *fixed, *tiny, *more]


# --- what the commands do ------------------------------------------------------------------------


def test_the_version_is_the_packages():
    assert succeed("--version") == f"atoll {atoll.__version__}\n"


def test_help_imports_nothing_heavy():
    script = (
        "import sys; from atoll.cli.commands import app; from typer.testing import CliRunner\n"
        "assert CliRunner().invoke(app, ['fit', '--help']).exit_code == 0\n"
        "heavy = {'pandas', 'sklearn', 'scipy', 'matplotlib', 'arviz', 'skops'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_every_model_is_listed_with_its_class_paper_and_purpose():
    lines = succeed("models").splitlines()
    assert len(lines) == 1 + len(MODELS)
    for line, (name, kind) in zip(lines[1:], MODELS.items()):
        assert line.split()[:2] == [name, kind.__name__]
        assert kind.paper in line
        assert kind.summary in line


@pytest.mark.parametrize("name", sorted(MODELS))
def test_the_parameters_of_a_model_are_listed_with_defaults_and_what_they_may_be(name):
    lines = succeed("models", name).splitlines()
    parameters = {line.split()[0]: line for line in lines[1:]}
    of_the_command = {*("random_state", "n_jobs", "checkpoint", "unlabelled", "verbose"),
                      "class_prior"}  # fmt: skip
    assert parameters.keys() == MODELS[name]().get_params(deep=False).keys() - of_the_command
    for parameter, line in parameters.items():
        assert MODELS[name].parameters[parameter].in_shell() in line
        assert not re.search(r"\b(None|True or|False)\b", line), "words of Python"


LONG_FITS = ("archipelago", "laplacian-svc", "transductive-svc")


@pytest.mark.parametrize(
    ("name", "suffix"),
    [
        *(
            pytest.param(name, ".csv", marks=[pytest.mark.slow] if name in LONG_FITS else [])
            for name in sorted(MODELS)
        ),
        ("graph-gp", ".parquet"),
    ],
)
def test_fit_then_predict_gives_what_the_estimator_gives(data, tmp_path, name, suffix):
    saved, out = tmp_path / "model.atoll", tmp_path / f"predictions{suffix}"
    succeed(*fit_arguments(data, saved, model=name))
    succeed("predict", saved, data, "--out", out, "--id", "row", "--quiet")
    table = read_table(out)
    assert table.columns.tolist() == ["row", "class", "p_cat", "p_dog", "entropy"]
    assert table["row"].tolist() == [f"r{i}" for i in range(30)]

    bundle = load_model(saved)
    assert bundle.preprocessing.columns == ("height", "weight")
    if name == "atoll":  # scales columns itself
        np.testing.assert_array_equal(bundle.X, read_table(data)[["height", "weight"]])
    else:
        np.testing.assert_allclose(bundle.X.std(axis=0), 1)
    assert [label is None for label in bundle.y] == read_table(data)["kind"].isna().tolist()
    estimator = bundle.estimator
    np.testing.assert_allclose(
        table[["p_cat", "p_dog"]], estimator.predict_proba(bundle.X), rtol=1e-14
    )
    np.testing.assert_allclose(table["entropy"], estimator.predict_entropy(bundle.X), rtol=1e-12)
    assert table["class"].tolist() == estimator.predict(bundle.X).tolist()


def test_moment_matching_takes_an_active_set(data, tmp_path):
    saved = tmp_path / "model.atoll"
    succeed(*fit_arguments(data, saved, *settings("inference=adf", "n_active=8")))
    model = load_model(saved).estimator
    assert (model.inference_, model.diagnostics_["n_active"]) == ("adf", 8)


def test_the_mixture_takes_its_own_options_and_no_kernel(data, tmp_path):
    out = tmp_path / "m.atoll"
    options = settings("n_components=3", "covariance=diagonal", "inference=vb")
    succeed(*fit_arguments(data, out, *options, model="dp-mixture"))
    bundle = load_model(out)
    chosen = bundle.estimator.get_params()
    assert (chosen["n_components"], chosen["covariance"]) == (3, "diagonal")
    assert (chosen["inference"], chosen["n_starts"]) == ("vb", 1)
    succeed("report", out, "--quiet", "--no-cross-validation")
    page = out.with_suffix(".html").read_text(encoding="utf-8")
    assert "Did the fit converge?" in page
    assert "Components used" in page
    assert "Lower bound on the log evidence" in page
    said = fail(*fit_arguments(data, out, "--set", "kernel=ard", model="dp-mixture"))
    assert "dp-mixture has no parameter kernel" in said
    assert "n_components" in said


def test_the_same_seed_gives_the_same_predictions_and_another_seed_others(data, tmp_path):
    tables = []
    for i, seed in enumerate([1, 1, 2]):
        succeed(*fit_arguments(data, tmp_path / "m.atoll", "--seed", seed))
        succeed("predict", tmp_path / "m.atoll", data, "--out", tmp_path / f"{i}.csv")
        tables.append((tmp_path / f"{i}.csv").read_bytes())
    assert tables[0] == tables[1] != tables[2]


def test_fit_says_what_it_does(data, tmp_path):
    arguments = [a for a in fit_arguments(data, tmp_path / "m.atoll") if a != "--quiet"]
    said = succeed(*arguments)
    assert "30 rows, 12 labelled" in said
    assert "Classes: cat (6), dog (6)" in said
    assert "Numeric columns, standardised: height, weight" in said
    verdict = load_model(tmp_path / "m.atoll").estimator.diagnostics_["verdict"]
    advice = r" Try n_warmup=\d+ \(\d+ now\), then n_samples=\d+ \(\d+ now\)\.$"
    assert re.search(advice, verdict, re.MULTILINE)
    assert verdict.replace("n_warmup", "--set n_warmup").replace("n_sam", "--set n_sam") in said
    assert "\nDo not trust this fit yet: the next line says why.\n- The chains have" in said
    assert f"Model saved in {tmp_path / 'm.atoll'}" in said
    assert f"`atoll next {tmp_path / 'm.atoll'} {data}` lists rows to label." in said


def test_quiet_commands_say_nothing(data, model, tmp_path):
    for arguments in (
        fit_arguments(data, tmp_path / "m.atoll"),
        ["predict", model, data, "--out", tmp_path / "p.csv", "--quiet"],
        ["report", model, "--no-cross-validation", "--quiet"],
        ["datasets", "make", "rings", "--out", tmp_path / "rings.csv", "--quiet"],
    ):
        result = run(*arguments)
        assert (result.exit_code, result.output) == (0, "")


def test_settings_reach_the_estimator(data, tmp_path):
    out = tmp_path / "m.atoll"
    more = [*settings("kernel=ard", "null-width=0.5"), "--seed", "7", "--no-standardise"]
    succeed(*fit_arguments(data, out, *more))
    bundle = load_model(out)
    found = bundle.estimator.get_params(deep=False)
    assert (found["kernel"], found["null_width"], found["random_state"]) == ("ard", 0.5, 7)
    assert (found["n_chains"], found["n_warmup"], found["n_samples"]) == (2, 3, 4)
    np.testing.assert_array_equal(bundle.X[:, 1], read_table(data)["weight"])


def test_a_fit_resumes_from_its_checkpoint(data, tmp_path):
    folder = tmp_path / "chains"
    for i in range(2):
        out = tmp_path / f"{i}.atoll"
        succeed(*fit_arguments(data, out, "--checkpoint", folder))
    assert len(list(folder.iterdir())) == 2
    first, second = (load_model(tmp_path / f"{i}.atoll") for i in range(2))
    np.testing.assert_array_equal(
        first.estimator.predict_proba(first.X), second.estimator.predict_proba(second.X)
    )


def test_encoded_columns_are_said_and_used(data, tmp_path):
    frame = read_table(data).assign(hue=["red", "blue", "green"] * 10).drop(columns="row")
    frame.to_parquet(tmp_path / "hues.parquet")
    out = tmp_path / "m.atoll"
    fixed = ["--target", "kind", "--model", "softmax-gp", "--out", out, "--encode", *TINY[:-1]]
    said = succeed("fit", tmp_path / "hues.parquet", *fixed)
    assert "encoded as indicators: hue" in said
    assert load_model(out).preprocessing.features[-3:] == ("hue=blue", "hue=green", "hue=red")
    frame["hue"] = "mauve"
    frame.to_parquet(tmp_path / "new.parquet")
    said = succeed("predict", out, tmp_path / "new.parquet", "--out", tmp_path / "p.csv")
    assert "hue: the model has not seen mauve (30 rows); taken as blank." in said


def test_blank_cells_are_filled_and_said(data, tmp_path):
    frame = read_table(data).drop(columns="row")
    frame.loc[[1, 2], "height"] = np.nan
    frame.to_csv(tmp_path / "blank.csv", index=False, sep=";", decimal=",")
    out = tmp_path / "m.atoll"
    fixed = ["--target", "kind", "--model", "graph-gp", "--out", out]
    assert "Blank cells: height (2)." in succeed("fit", tmp_path / "blank.csv", *fixed)
    assert load_model(out).preprocessing.flagged == ("height",)
    assert "row 2 of 'height'" in fail("fit", tmp_path / "blank.csv", *fixed, "--no-impute")


def test_rows_that_cannot_be_read_have_blank_answers_and_a_reason(data, model, tmp_path):
    frame = read_table(data).astype({"height": object})
    frame.loc[3, "height"] = "tall"
    frame.to_csv(tmp_path / "words.csv", index=False)
    out = tmp_path / "p.tsv"
    said = succeed("predict", model, tmp_path / "words.csv", "--out", out, "--keep")
    assert "1 of 30 rows cannot be read" in said
    assert "29 predictions" in said
    answers = read_table(out)
    assert answers.columns[: len(frame.columns)].tolist() == frame.columns.tolist()
    assert answers["reason"].notna().to_numpy().nonzero()[0].tolist() == [3]
    assert answers.loc[3, "reason"] == "height is 'tall', not a number"
    assert answers["class"].isna().to_numpy().nonzero()[0].tolist() == [3]
    plain = tmp_path / "plain.csv"
    succeed("predict", model, data, "--out", plain)
    others = [row for row in range(30) if row != 3]
    pd.testing.assert_series_equal(read_table(plain)["entropy"][others], answers["entropy"][others])
    frame["height"] = "tall"
    frame.to_csv(tmp_path / "words.csv", index=False)
    message = fail("predict", model, tmp_path / "words.csv", "--out", out)
    assert "no row of" in message
    assert "'tall', not a number" in message


def test_batches_change_no_prediction(data, model, tmp_path, monkeypatch):
    for size in (5000, 7):
        monkeypatch.setattr("atoll.cli.opening.BATCH", size)
        succeed("predict", model, data, "--out", tmp_path / f"{size}.csv", "--id", "row")
    whole, parts = (read_table(tmp_path / f"{size}.csv") for size in (5000, 7))
    pd.testing.assert_frame_equal(whole, parts, rtol=1e-10)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_table_larger_than_a_chunk_is_predicted_as_a_whole_one(
    data, model, tmp_path, monkeypatch, suffix
):
    frame = read_table(data).astype({"height": object})
    frame.loc[29, "height"] = "tall"  # seen in the last chunk alone
    frame.astype({"height": str}).to_parquet(tmp_path / "rows.parquet")
    frame.to_csv(tmp_path / "rows.csv", index=False)
    for cells in (10**6, 12):
        monkeypatch.setattr("atoll.cli.predict_tables.CHUNK_CELLS", cells)
        out = tmp_path / f"{cells}{suffix}"
        said = succeed("predict", model, tmp_path / f"rows{suffix}", "--out", out, "--keep")
        assert "1 of 30 rows cannot be read" in said
    whole, parts = (read_table(tmp_path / f"{cells}{suffix}") for cells in (10**6, 12))
    pd.testing.assert_frame_equal(whole, parts, rtol=1e-10)
    assert parts["reason"].notna().to_numpy().nonzero()[0].tolist() == [29]


@pytest.mark.parametrize("by", ["file", "standard input"])
@pytest.mark.parametrize("cells", [60, 10**6])
def test_cells_that_are_carried_over_stay_as_they_are_written(
    data, model, tmp_path, monkeypatch, by, cells
):
    frame = pd.read_csv(data, dtype=str, keep_default_na=False)
    frame["row"] = [f"{i:03d}" for i in range(len(frame))]
    frame["note"] = ["NA", "", "200", "1e3", "00", " x", '"a, b"', "None", "TRUE", "1.50"] * 3
    frame.to_csv(data, index=False)
    monkeypatch.setattr(predict_tables, "CHUNK_CELLS", cells)
    out = tmp_path / "kept.csv"
    if by == "file":
        succeed("predict", model, data, "--out", out, "--keep", "--quiet")
    else:
        result = run("predict", model, "-", "--out", out, "--keep", input=data.read_bytes())
        assert result.exit_code == 0
    kept = pd.read_csv(out, dtype=str, keep_default_na=False)
    pd.testing.assert_frame_equal(kept[frame.columns], frame)
    assert (kept["p_cat"] != "").all()


def test_parquet_columns_that_are_carried_over_keep_their_types(data, model, tmp_path):
    frame = pd.read_csv(data)
    frame["count"] = pd.array([200, None, 3] * 10, dtype="Int64")
    frame["day"] = pd.date_range("2020-01-01", periods=30)
    written = pyarrow.Table.from_pandas(frame, preserve_index=False)
    # As other programs write it, without a word on pandas' own types.
    parquet.write_table(written.replace_schema_metadata(None), tmp_path / "rows.parquet")
    out = tmp_path / "kept.parquet"
    succeed("predict", model, tmp_path / "rows.parquet", "--out", out, "--keep", "--quiet")
    types, own = parquet.read_schema(out), parquet.read_schema(tmp_path / "rows.parquet")
    assert [types.field(name).type for name in own.names] == own.types
    assert pd.read_parquet(out)["count"].isna().sum() == 10


def test_an_id_is_kept_as_it_is_written(data, tmp_path):
    frame = pd.read_csv(data)
    frame["row"] = [f"{i:03d}" for i in range(len(frame))]
    frame.to_csv(data, index=False)
    out = ["--model", "graph-gp", "--out", tmp_path / "m.atoll"]
    succeed("fit", data, "--target", "kind", *out, "--id", "row", "--quiet")
    assert load_model(tmp_path / "m.atoll").ids[7] == "007"


def test_rows_that_share_their_id_are_counted(data, tmp_path):
    frame = pd.read_csv(data)
    out = ["--model", "graph-gp", "--out", tmp_path / "m.atoll"]
    assert "share their" not in succeed("fit", data, "--target", "kind", *out, "--id", "row")
    frame["row"] = [None, None, *frame["row"][2:-3], *["last"] * 3]  # blanks name nothing
    frame.to_csv(data, index=False)
    said = succeed("fit", data, "--target", "kind", *out, "--id", "row")
    assert "3 of 30 rows share their row with another row" in said
    assert "--groups row" in said


def test_a_table_goes_to_standard_output_and_messages_to_standard_error(data, model):
    result = run("predict", model, data, "--out", "-", "--id", "row")
    table = pd.read_csv(io.StringIO(result.stdout))
    assert table["row"].tolist() == [f"r{i}" for i in range(30)]
    assert "30 predictions written to standard output." in result.stderr


def test_long_predictions_are_announced(data, model, tmp_path, monkeypatch):
    monkeypatch.setattr(predict_tables, "TRIAL_ROWS", 10)
    monkeypatch.setattr(predict_tables, "seconds_of", lambda call: 100.0)
    said = succeed("predict", model, data, "--out", tmp_path / "p.csv")
    assert "Predicting 30 rows will take about 5 minutes, on a machine with nothing" in said


def test_columns_that_the_model_does_not_know_are_ignored_and_named(data, model, tmp_path):
    said = succeed("predict", model, data, "--out", tmp_path / "p.csv")
    assert "not fitted on: row." in said
    assert "30 predictions" in said


@pytest.mark.filterwarnings("default:these labels cannot tell")
def test_compare_says_which_model_to_use_and_writes_a_page(data, tmp_path):
    page = tmp_path / "compare.html"
    fixed = ["--target", "kind", "--id", "row", "--model", "logistic"]
    result = run("compare", data, *fixed, "--n-splits", "2", "--html", page)
    assert result.exit_code == 0
    assert "these labels cannot tell which model is best" in result.stderr
    said = result.stdout
    assert "logistic*" in said
    assert "atoll, the default" in said
    assert page.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert "--model forest: the models" in fail("compare", data, *fixed, "--model", "forest")


def test_minus_one_means_what_the_option_says(data, tmp_path):
    frame = read_table(data).drop(columns="row")
    frame["kind"] = frame["kind"].map({"cat": 1, "dog": 2}).fillna(-1).astype(int)
    frame.to_csv(data, index=False)
    fixed = ["--target", "kind", "--out", tmp_path / "m.atoll", *TINY]
    for model, option, classes in (
        ("null-category", [], [1, 2]),
        ("softmax-gp", ["--unlabelled", "none"], [-1, 1, 2]),
        ("null-category", ["--unlabelled", "2"], [-1, 1]),
    ):
        succeed("fit", data, *fixed, "--model", model, *option)
        assert load_model(tmp_path / "m.atoll").estimator.classes_.tolist() == classes
    assert "whole number" in fail("fit", data, *fixed, "--model", model, "--unlabelled", "two")


def test_classes_may_be_named_before_they_have_a_label(tmp_path):
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.standard_normal((40, 2)), columns=["x", "y"])
    table["kind"] = -1
    table.loc[0, "kind"] = 1
    table.to_csv(tmp_path / "one.csv", index=False)
    arguments = ["fit", tmp_path / "one.csv", "--target", "kind", "--out", tmp_path / "m.atoll"]
    fewer = settings("n_draws=20")
    assert "labels [1]" in fail(*arguments, *fewer, *settings("classes=0,2"))
    succeed(*arguments, *fewer, *settings("classes=2,0,1"))
    assert load_model(tmp_path / "m.atoll").estimator.classes_.tolist() == [0, 1, 2]


def test_a_report_is_one_html_file_beside_the_model(model):
    said = succeed("report", model, "--no-cross-validation")
    page = model.with_suffix(".html")
    assert str(page) in said
    text = page.read_text(encoding="utf-8")
    assert text.startswith("<!DOCTYPE html>")
    assert "height" in text


def test_a_report_cross_validates_unless_told_not_to(model, tmp_path):
    succeed("report", model, "--out", tmp_path / "page.html", "--quiet")
    assert (tmp_path / "page.html").exists()


@pytest.mark.parametrize("name", ["pinwheel", "crescents", "rings", "spirals"])
@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_made_data_set_keeps_its_rows_when_labels_are_hidden(tmp_path, name, suffix):
    full, few = tmp_path / f"full{suffix}", tmp_path / f"few{suffix}"
    for out, more in ((full, []), (few, ["--labels-per-class", "3"])):
        succeed("datasets", "make", name, "--out", out, "--n-samples", 40, "--seed", 5, *more)
    truth, hidden = read_table(full), read_table(few)
    pd.testing.assert_frame_equal(truth.drop(columns="label"), hidden.drop(columns="label"))
    kept = hidden["label"].notna()
    assert (hidden["label"][kept] == truth["label"][kept]).all()
    assert set(hidden["label"][kept].value_counts()) == {3}
    assert f"{name} " in succeed("datasets", "list")


def test_the_number_of_classes_of_a_data_set_is_an_option(tmp_path):
    out = tmp_path / "arms.csv"
    assert "3 classes" in succeed("datasets", "make", "pinwheel", "--out", out, "--n-classes", 3)
    said = fail("datasets", "make", "rings", "--out", out, "--n-classes", 3)
    assert "--n-classes 3: rings has no such setting" in said


def test_settings_of_a_data_set_are_given_by_name(tmp_path):
    out = tmp_path / "rings.csv"
    succeed("datasets", "make", "rings", "--out", out, "--set", "radii=[1,5,9]", "--set", "width=0")
    frame = read_table(out)
    radius = np.hypot(frame["x0"], frame["x1"])
    np.testing.assert_allclose(radius, np.array([1, 5, 9])[frame["label"]])


def test_the_experiments_are_listed():
    said = succeed("reproduce", "--list")
    line = r"^rogers-fig15 +\d+ (s|min) +\d+ (s|min|h) +- +Rogers"
    assert re.search(line, said, re.MULTILINE)
    assert {e.name for e in list_experiments()} == set(TIMES)
    assert all(0 < time.quick <= time.full for time in TIMES.values())
    assert sum(time.quick for time in TIMES.values()) < 20 * 60


# --- bad input -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([None] * 30, "no labelled row"),
        (["cat"] * 30, "one class"),
        (np.arange(30) / 7, "continuous"),
    ],
)
def test_labels_that_cannot_be_learnt_from_are_refused(data, tmp_path, labels, message):
    frame = read_table(data).assign(kind=labels)
    frame.to_csv(data, index=False)
    assert re.search(message, fail(*fit_arguments(data, tmp_path / "m.atoll")))
    assert not (tmp_path / "m.atoll").exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"height": np.nan}, "'height' is blank in every row.*--drop height"),
        ({"height": np.inf}, "row 1 of 'height'"),
    ],
)
def test_features_that_are_no_numbers_are_named(data, tmp_path, change, message):
    read_table(data).assign(**change).to_csv(data, index=False)
    assert re.search(message, fail(*fit_arguments(data, tmp_path / "m.atoll")))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (["--target", "kinds"], "did you mean 'kind'"),
        (["--drop", "colour"], "the --drop column 'colour' is not in '"),
        (["--model", "random-forest"], "null-category, ordinal-gp, probit-gp, softmax-gp"),
        (
            ["--model", "probit-gp", "--set", "null_width=1"],
            "probit-gp has no parameter null_width",
        ),
        (["--set", "null_width=-1"], "--set null_width=-1: give a number at least 0"),
        (["--set", "null_width=wide"], "--set null_width=wide: give a number at least 0"),
        (["--set", "nul_width=1"], "did you mean 'null_width'"),
        (["--set", "null_width"], "write it as KEY=VALUE"),
        (
            ["--set", "missing_rates=0.5,often"],
            "=0.5,often: give none .*, sample, share or",
        ),
        (["--set", "missing_rates=0.5"], "--set missing_rates=0.5: .*2 numbers"),
        (["--set", "classes=a,b"], "null-category has no parameter classes"),
        (["--set", "inference=map"], "--set inference=map: give auto, mcmc"),
        (["--set", "random_state=1"], "use --seed"),
        (["--out", "absent/model.atoll"], "does not exist"),
    ],
)
def test_options_that_cannot_be_are_refused(data, tmp_path, change, message):
    before = sorted(tmp_path.iterdir())
    assert re.search(message, fail(*fit_arguments(data, tmp_path / "m.atoll", *change)))
    assert sorted(tmp_path.iterdir()) == before


def test_an_option_that_a_model_has_no_parameter_for_is_refused(data, tmp_path):
    arguments = fit_arguments(data, tmp_path / "m.atoll", "--n-jobs", 2, model="informative-vector")
    assert "--n-jobs does not apply to the model 'informative-vector'" in fail(*arguments)


@pytest.mark.parametrize("name", ["absent.csv", "data.txt", "empty.csv"])
def test_a_table_that_cannot_be_read_is_named(tmp_path, name):
    if name != "absent.csv":
        (tmp_path / name).touch()
    assert name in fail(*fit_arguments(tmp_path / name, tmp_path / "m.atoll"))


def test_outputs_are_checked_before_the_work(data, model, tmp_path, monkeypatch):
    def too_late(*args, **kwargs):
        raise AssertionError("the work began")

    for kind in MODELS.values():
        monkeypatch.setattr(kind, "fit", too_late)
        monkeypatch.setattr(kind, "predict_proba", too_late)
    absent = tmp_path / "absent"
    fail(*fit_arguments(data, absent / "m.atoll"))
    fail(*fit_arguments(data, tmp_path))
    fail(*fit_arguments(data, tmp_path / "m.atoll", "--checkpoint", data))
    fail("predict", model, data, "--out", absent / "p.csv")
    fail("predict", model, data, "--out", tmp_path / "p.txt")
    fail("report", model, "--out", absent / "page.html")
    fail("datasets", "make", "rings", "--out", absent / "rings.csv")
    fail("demo", "--out", data)
    assert not absent.exists()


def test_a_model_that_cannot_be_written_leaves_nothing_behind(data, tmp_path, monkeypatch):
    def disk_full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", disk_full)
    before = sorted(tmp_path.iterdir())
    assert "m.atoll': no space left" in fail(*fit_arguments(data, tmp_path / "m.atoll"))
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("what", ["predict", "report"])
@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda content: content[: len(content) // 2], "damaged"),
        (lambda content: content[:-9] + bytes([content[-9] ^ 1]) + content[-8:], "damaged"),
        (lambda content: b"x,y\n1,2\n", "not an atoll model"),
        (lambda content: content.replace(b"format 2", b"format 9", 1), "upgrade"),
    ],
)
def test_a_model_file_that_is_not_as_written_is_refused(
    data, model, tmp_path, what, damage, message
):
    model.write_bytes(damage(model.read_bytes()))
    out = tmp_path / ("out.csv" if what == "predict" else "out.html")
    assert message in fail(what, model, *([data] if what == "predict" else []), "--out", out)
    assert not out.exists()


def test_a_model_that_was_never_fitted_is_refused(data, tmp_path, monkeypatch):
    """Older versions saved such models."""
    monkeypatch.setattr(persistence, "_check_model_and_path", lambda model, path: None)
    save_model(MODELS["softmax-gp"](), tmp_path / "bare.atoll")
    message = fail("predict", tmp_path / "bare.atoll", data, "--out", tmp_path / "p.csv")
    assert "SoftmaxGPClassifier instance is not fitted" in message


def test_new_rows_without_a_column_of_the_model_are_refused(data, model, tmp_path):
    read_table(data).drop(columns="weight").to_csv(data, index=False)
    assert "lacks column 'weight'" in fail("predict", model, data, "--out", tmp_path / "p.csv")


def test_an_id_column_must_be_there_and_may_be_called_as_a_prediction(data, model, tmp_path):
    read_table(data).rename(columns={"row": "class"}).to_csv(data, index=False)
    out = tmp_path / "p.csv"
    assert "not in" in fail("predict", model, data, "--out", out, "--id", "absent")
    assert not out.exists()
    said = succeed("predict", model, data, "--out", out, "--id", "class")
    assert "Columns of the predictions: predicted_class beside the data's own class." in said


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["moons"], "crescents"),
        (["rings", "--set", "width"], "KEY=VALUE"),
        (["rings", "--set", "depth=1"], "radii, width"),
        (["rings", "--set", "width=wide"], "not a number"),
        (["rings", "--set", "width=-1"], "width=-1"),
        (["rings", "--labels-per-class", "900"], "--labels-per-class 900, but class 0 has"),
    ],
)
def test_data_sets_that_cannot_be_made_are_refused(tmp_path, arguments, message):
    assert message in fail("datasets", "make", *arguments, "--out", tmp_path / "t.csv")
    assert list(tmp_path.iterdir()) == []


def test_an_experiment_that_is_not_there_is_named():
    assert "rogers-fig15" in fail("reproduce", "rogers-fig51")
    assert "--list" in fail("reproduce")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--only", "data"], "--only data: give KEY=VALUE"),
        (["--only", "data=iris"], "no cell has data='iris'; its values are: g241c"),
        (["--only", "data=BCI", "--only", "colour=red"], "no key 'colour'"),
        (["--limit", "0"], "--limit 0 is not a time"),
    ],
)
def test_a_part_of_an_experiment_that_is_not_there_is_refused(tmp_path, options, message):
    assert message in fail("reproduce", "ssl-book", *options, "--out", tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_bugs_keep_their_traceback(data, tmp_path, monkeypatch):
    def bug(*args):
        raise KeyError("a bug")

    monkeypatch.setattr(MODELS["softmax-gp"], "fit", bug)
    result = run(*fit_arguments(data, tmp_path / "m.atoll", model="softmax-gp"))
    assert isinstance(result.exception, KeyError)


def test_bad_input_keeps_its_traceback_on_request(tmp_path, monkeypatch):
    monkeypatch.setenv("ATOLL_TRACEBACK", "1")
    result = run(*fit_arguments(tmp_path / "absent.csv", tmp_path / "m.atoll"))
    assert isinstance(result.exception, ValueError)


# --- as a program --------------------------------------------------------------------------------


def test_the_program_complains_and_warns_in_one_line_each(data, tmp_path):
    process = command(*fit_arguments(tmp_path / "gone.csv", tmp_path / "m.atoll"))
    out, err = process.communicate()
    assert (process.returncode, out) == (2, "")
    assert re.fullmatch(r"atoll: there is no [^\n]+gone.csv[^\n]+\n", err)

    process = command(*fit_arguments(data, tmp_path / "m.atoll"))
    out, err = process.communicate()
    assert (process.returncode, out) == (0, "")
    assert re.fullmatch(r"(atoll: warning: [^\n]+\n)+", err)


def test_ctrl_c_keeps_what_was_drawn_and_saves_it(data, tmp_path):
    out = tmp_path / "m.atoll"
    fixed = ["--target", "kind", "--model", "probit-gp", "--out", out, "--drop", "row"]
    sampling = settings("n_chains=1", "n_warmup=0", "n_samples=1000000")
    terminal, its_end = pty.openpty()  # bars are for terminals, and as wide as they are
    termios.tcsetwinsize(its_end, (24, 100))
    process = command("fit", data, *fixed, *sampling, stderr=its_end)
    os.close(its_end)
    err = read_terminal(terminal, until=r"[1-9]\d*/1000000")
    process.send_signal(signal.SIGINT)
    err += read_terminal(terminal)
    said, _ = process.communicate()
    assert process.returncode == 0, err
    assert "Finishing this step; the draws made so far are kept." in err
    assert re.search(r"atoll: warning: sampling was interrupted: \d+ of 1000000 draws", err)
    assert "Model saved" in said
    diagnostics = load_model(out).estimator.diagnostics_
    assert diagnostics["interrupted"]
    assert 1 <= diagnostics["n_draws"] < 1_000_000


def read_terminal(terminal, until=None):
    """What was written, to a pattern (a draw has been counted, say) or to the end."""
    seen = ""
    while until is None or not re.search(until, seen):
        try:
            some = os.read(terminal, 4096).decode(errors="replace")
        except OSError:  # the other end was closed
            break
        if not some:
            break
        seen += some
    return seen


def test_no_bars_are_drawn_into_a_file(data, tmp_path):
    arguments = [a for a in fit_arguments(data, tmp_path / "m.atoll") if a != "--quiet"]
    result = run(*arguments)
    assert result.exit_code == 0
    assert "Model saved" in result.stdout
    assert "chain 1" not in result.stderr


def test_the_entry_point_is_installed():
    from importlib.metadata import entry_points

    (script,) = entry_points(group="console_scripts", name="atoll")
    assert script.load() is __import__("atoll.cli", fromlist=["main"]).main
    assert Path(atoll.__file__).name == "__init__.py"


# --- rows as users have them ----------------------------------------------------------------------


def test_a_column_of_texts_is_fitted_saved_and_predicted_by_one_command_each(tmp_path):
    rng = np.random.default_rng(0)
    words = [
        ["storm", "harbour", "boat", "rope", "sail"],
        ["bread", "flour", "salt", "oven", "dough"],
    ]
    kind = np.arange(40) % 2
    texts = [" ".join(["we", "wrote", "about", *rng.choice(words[k], 8)]) for k in kind]
    table = pd.DataFrame({"note": texts, "topic": np.array(["sea", "kitchen"])[kind]})
    table.assign(topic=table["topic"].where(np.arange(40) < 8)).to_csv(
        tmp_path / "notes.csv", index=False
    )
    said = succeed(
        *("fit", tmp_path / "notes.csv", "--target", "topic", "--out", tmp_path / "notes.atoll")
    )
    assert (
        "Column of texts, as 13 words weighted by how few texts have them (TF-IDF): note." in said
    )
    assert "Rows are compared by their directions (cosine)" in said
    succeed(
        "predict", tmp_path / "notes.atoll", tmp_path / "notes.csv", "--out", tmp_path / "p.csv"
    )
    found = read_table(tmp_path / "p.csv")
    assert (found["class"] == table["topic"]).mean() > 0.95
    succeed("report", tmp_path / "notes.atoll", "--no-cross-validation")
    page = (tmp_path / "notes.html").read_text(encoding="utf-8")
    assert "13 sparse features" in page
    asked = re.findall(r"<td[^>]*>(we wrote about [^<]*)</td>", page)  # not words of most weight
    assert len(asked) == 10
    assert set(asked) <= {text if len(text) <= 80 else f"{text[:79]}…" for text in texts}
    assert "Columns of texts" in page
    told = succeed("explain", tmp_path / "notes.atoll", tmp_path / "notes.csv", "--row", "20")
    assert "Pulls are shares of all that labels do to this row" in told
    other = ["--model", "probit-gp", "--out", tmp_path / "no.atoll"]
    refusal = fail("fit", tmp_path / "notes.csv", "--target", "topic", *other)
    assert "--model probit-gp: it takes no texts" in refusal
    assert "use --model atoll or graph-gp" in refusal


def test_embeddings_are_compared_by_direction_and_their_columns_left(tmp_path):
    rng = np.random.default_rng(1)
    kind = np.arange(60) % 2
    X = rng.normal(size=(2, 40))[kind] + 0.5 * rng.normal(size=(60, 40))
    X *= rng.uniform(0.1, 10.0, size=(60, 1))
    table = pd.DataFrame(X, columns=[f"e{j}" for j in range(40)])
    table["topic"] = np.where(np.arange(60) < 8, np.array(["a", "b"])[kind], None)
    table.to_parquet(tmp_path / "vectors.parquet")
    fixed = [
        "fit",
        tmp_path / "vectors.parquet",
        "--target",
        "topic",
        "--out",
        tmp_path / "v.atoll",
    ]
    said = succeed(*fixed, "--metric", "cosine")
    assert "Numeric columns, as they are" in said
    bundle = load_model(tmp_path / "v.atoll")
    assert bundle.estimator.metric == "cosine"
    np.testing.assert_allclose(bundle.X, X, rtol=1e-12)
    assert np.mean(bundle.estimator.transduction_ == np.array(["a", "b"])[kind]) > 0.95
    refusal = fail(*fixed, "--metric", "manhattan")
    assert "--metric manhattan: give auto, euclidean or cosine." in refusal
    refusal = fail(*fixed, "--metric", "cosine", "--model", "probit-gp")
    assert "--metric does not apply to the model 'probit-gp'" in refusal


def test_rows_with_blanks_have_the_probabilities_that_python_gives_them(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    kind = np.where(np.arange(160) % 2 == 1, "dog", "cat")
    frame = pd.DataFrame(
        {
            "height": rng.normal(size=160) + 5 * (kind == "dog"),
            "weight": 100 + 10 * rng.normal(size=160) + 15 * (kind == "dog"),
            "site": rng.choice(["north", "south"], 160),
        }
    )
    frame.loc[rng.random(160) < 0.3, "height"] = np.nan
    given = frame.assign(kind=np.where(np.arange(160) < 16, kind, None))
    given.to_csv(tmp_path / "data.csv", index=False)
    fixed = ["--target", "kind", "--model", "graph-gp", "--out", tmp_path / "model.atoll"]
    succeed("fit", tmp_path / "data.csv", *fixed)
    monkeypatch.setattr(predict_tables, "CHUNK_CELLS", 160)
    monkeypatch.setattr(opening, "BATCH", 17)
    succeed("predict", tmp_path / "model.atoll", tmp_path / "data.csv", "--out", tmp_path / "p.csv")
    answers = pd.read_csv(tmp_path / "p.csv")
    p = answers[["p_cat", "p_dog"]].to_numpy()

    bundle = load_model(tmp_path / "model.atoll")
    read = read_table(tmp_path / "data.csv")
    np.testing.assert_allclose(bundle.predict_proba(read), p, atol=1e-12)
    np.testing.assert_allclose(bundle.estimator.predict_proba(bundle.filled_rows), p, atol=1e-12)
    free = (np.arange(160) >= 16) & frame["height"].isna()
    np.testing.assert_allclose(bundle.estimator.label_distributions_[free], p[free], atol=1e-12)
    assert np.abs(bundle.estimator.predict_proba(bundle.X) - p).max() > 0.05

    estimator, X, _ = reporting._in_own_units(bundle)  # as `atoll report` has it
    found = estimator.predict_proba(X)
    np.testing.assert_allclose(found[free], p[free], atol=1e-9)

    model = make_pipeline(make_preprocessor(category_weight=1.0), GraphGPClassifier(random_state=0))
    table = read.drop(columns="kind")
    model.fit(table, [None if pd.isna(label) else label for label in read["kind"]])
    np.testing.assert_allclose(model.predict_proba(table), p, atol=1e-9)
