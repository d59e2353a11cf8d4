from __future__ import annotations

import re
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline

from atoll import explain_row
from atoll.cli import timing
from atoll.cli.terminal import table_lines
from atoll.core.tables import read_table
from atoll.estimators import (
    ArchipelagoClassifier,
    AtollClassifier,
    GraphGPClassifier,
    ProbitGPClassifier,
    load_model,
    make_preprocessor,
    save_model,
)
from atoll.estimators import timing as estimator_timing
from atoll.estimators.timing import Cost
from program import fail, run, succeed


def make_table(n=60, seed=0):
    rng = np.random.default_rng(seed)
    kind = rng.permutation(np.repeat(["cat", "dog"], n // 2))
    return pd.DataFrame(
        {
            "tag": [f"T{i:02d}" for i in range(n)],
            "height": rng.normal(size=n) + 5 * (kind == "dog"),
            "weight": 100 + 10 * rng.normal(size=n),
            "coat": np.where(rng.random(n) < 0.5, "long", "short"),
            "kind": kind,
        }
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a table of few labels, another with all of them, and a model."""
    folder = tmp_path_factory.mktemp("animals")
    table = make_table()
    few = table.copy()
    few.loc[np.setdiff1d(np.arange(60), few.groupby("kind").head(5).index), "kind"] = None
    few.to_csv(folder / "few.csv", index=False)
    make_table(seed=1).to_csv(folder / "new.csv", index=False)
    fit = ["fit", folder / "few.csv", "--target", "kind", "--id", "tag"]
    succeed(*fit, "--out", folder / "m.atoll", "--quiet")
    return folder


def test_a_column_that_classes_follow_alone_is_called_by_its_name(tmp_path):
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(200, 8)), columns=[f"gauge {c}" for c in "ABCDEFGH"])
    table["town"] = rng.choice(["Ayr", "Bath", "Cork"], 200)
    kind = np.where(table["gauge F"] > 0.3, "on", "off").astype(object)
    kind[20:] = None
    table.assign(kind=kind).to_csv(tmp_path / "t.csv", index=False)
    model = tmp_path / "m.atoll"
    said = succeed("fit", tmp_path / "t.csv", "--target", "kind", "--out", model)
    assert 'The labels follow "gauge F alone"' in said
    said = succeed("explain", model, tmp_path / "t.csv", "--row", 50)
    assert 'The labels follow "gauge F alone"' in said


def test_scores_are_those_of_the_labelled_rows(folder):
    model, new = load_model(folder / "m.atoll"), read_table(folder / "new.csv")
    said = succeed("score", folder / "m.atoll", folder / "new.csv")
    succeed("predict", folder / "m.atoll", folder / "new.csv", "--out", folder / "p.csv")
    predicted = read_table(folder / "p.csv")
    accuracy = (predicted["class"] == new["kind"]).mean()
    truth = predicted[[f"p_{c}" for c in model.estimator.classes_]].to_numpy()
    codes = (new["kind"] == "dog").astype(int)
    assert f"accuracy           {accuracy:.4f}" in said
    assert f"log-loss           {-np.log(truth[np.arange(60), codes]).mean():.4f}" in said
    assert "of 60 rows" in said
    cats = (predicted["class"][new["kind"] == "cat"] == "cat").sum()
    assert re.search(rf"^cat +{cats} +{30 - cats}$", said, re.MULTILINE)


def test_scores_leave_out_what_has_no_answer_and_say_so(folder, tmp_path):
    said = succeed("score", folder / "m.atoll", folder / "few.csv")
    assert "50 rows without a label are left out." in said
    assert "All these rows are copies of rows that were labelled in the fit" in said
    assert "of 10 rows" in said
    table = read_table(folder / "new.csv")
    table.loc[:2, "kind"] = "fox"
    table.astype({"height": object}).replace({"height": {table["height"][9]: "tall"}}).to_csv(
        tmp_path / "odd.csv", index=False
    )
    said = succeed("score", folder / "m.atoll", tmp_path / "odd.csv")
    assert "3 other rows are of classes that the model does not know (fox)" in said
    assert "1 row that cannot be read is left out" in said
    assert "of 56 rows" in said
    table.drop(columns="kind").to_csv(tmp_path / "none.csv", index=False)
    assert "has no column 'kind'" in fail("score", folder / "m.atoll", tmp_path / "none.csv")


SAYINGS = {
    "sea": ["the {} boat left the harbour before a {} storm", "a {} tide carried {} nets ashore"],
    "farm": ["the {} tractor ploughed a {} field", "cows in the {} barn eat {} hay at dawn"],
}
ADJECTIVES = [
    "old",
    "new",
    "red",
    "small",
    "huge",
    "wet",
    "dry",
    "cold",
    "warm",
    "late",
    "early",
    "quiet",
    "loud",
    "green",
    "plain",
]


def make_sayings(n, seed):
    rng = np.random.default_rng(seed)
    topics = rng.permutation(np.repeat(["sea", "farm"], n // 2))
    texts = [
        SAYINGS[topic][rng.integers(2)].format(*rng.choice(ADJECTIVES, 2, replace=False))
        for topic in topics
    ]
    likes = rng.normal(size=n) + 3 * (topics == "sea")
    return pd.DataFrame({"text": texts, "likes": likes, "topic": topics})


@pytest.mark.parametrize("columns", [["text"], ["text", "likes"], ["likes"]])
def test_copies_of_labelled_rows_are_counted_and_not_scored(tmp_path, columns):
    table = make_sayings(120, seed=0)
    table = table[~table["text"].map(lambda text: "".join(sorted(text))).duplicated()]
    few, new = table.iloc[:40].copy(), table.iloc[40:].copy()
    known = few.groupby("topic").head(6)
    few.loc[few.index.difference(known.index), "topic"] = None
    copies = known.copy()
    if columns == ["text", "likes"]:  # the text alone gives the row away
        copies["likes"] += 1.0
    else:
        copies["likes"] += 1e-15  # an error of rounding
    few[[*columns, "topic"]].to_csv(tmp_path / "few.csv", index=False)
    new.to_csv(tmp_path / "new.csv", index=False)
    pd.concat([new, copies]).to_csv(tmp_path / "both.csv", index=False)
    model = tmp_path / "m.atoll"
    succeed("fit", tmp_path / "few.csv", "--target", "topic", "--out", model, "--quiet")
    alone = succeed("score", model, tmp_path / "new.csv")
    both = succeed("score", model, tmp_path / "both.csv")
    assert "labelled in the fit" not in alone
    assert f"12 of these {len(new) + 12} rows are copies of rows that were labelled" in both
    assert f"of {len(new)} new rows" in both
    assert f"of all {len(new) + 12} rows" in both
    for name in ("accuracy", "log-loss", "Brier score", "calibration error"):
        values = [re.search(rf"^{name} +([\d.]+)", said, re.M).group(1) for said in (alone, both)]
        assert values[0] == values[1]
    assert alone.split("truth")[1] == both.split("truth")[1]


def test_scores_of_a_model_without_its_rows_say_that_copies_are_not_known(folder, tmp_path):
    few = read_table(folder / "few.csv")
    model = AtollClassifier(random_state=0).fit(few[["height", "weight"]], few["kind"])
    save_model(model, tmp_path / "python.atoll")
    said = succeed("score", tmp_path / "python.atoll", folder / "new.csv", "--target", "kind")
    assert "saved from Python, without the rows of the fit" in said


def test_a_row_is_explained_by_near_labels_and_their_pulls(folder):
    said = succeed("explain", folder / "m.atoll", folder / "few.csv", "--row", "17", "-n", "4")
    few = read_table(folder / "few.csv")
    assert re.search(r"^Row 17: (cat|dog) with probability [01]\.\d\d", said, re.MULTILINE)
    rows = re.findall(r"^(\d+) +(T\d\d) +(cat|dog) +(\d+) +([\d.]+) +([+-]\d+)%$", said, re.M)
    assert len(rows) == 4
    for number, tag, label, *_ in rows:
        assert few["tag"][int(number) - 1] == tag  # counted as in the file
        assert few["kind"][int(number) - 1] == label
    pulls = [abs(int(row[5])) for row in rows]
    assert pulls == sorted(pulls, reverse=True)
    again = succeed("explain", folder / "m.atoll", folder / "few.csv", "--row", "17", "--refit")
    assert "without it" in again
    assert "Without these 5 labels" in again


def test_a_row_that_is_not_there_is_refused(folder):
    explain = ["explain", folder / "m.atoll", folder / "few.csv", "--row"]
    assert "has rows 1 to 60" in fail(*explain, "61")


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_row_is_found_by_its_name_where_another_has_none(folder, tmp_path, ending):
    """Whole numbers beside a blank cell are read as 103.0."""
    data, model = tmp_path / f"few.{ending}", tmp_path / "m.atoll"
    few = pd.read_csv(folder / "few.csv")
    few["tag"] = pd.array(range(160, 100, -1), dtype="Int64")
    few.loc[30, "tag"] = None
    few.to_csv(data, index=False) if ending == "csv" else few.to_parquet(data)
    fit = ("--model", "graph-gp", "--set", "n_draws=40", "--out", model)
    said = succeed("fit", data, "--target", "kind", "--id", "tag", *fit)
    assert "share their tag" not in said
    explain = ("explain", model, data, "--row")
    by_name, by_number = (succeed(*explain, row).partition(": ")[2] for row in ("103", "58"))
    assert by_name == by_number
    assert by_name != succeed(*explain, "104").partition(": ")[2]
    assert "has rows 1 to 60, and the names of its column 'tag'" in fail(*explain, "91")


def test_names_that_begin_with_a_zero_are_no_row_numbers(tmp_path):
    frame = make_table().assign(tag=[f"{i:03d}" for i in range(60, 0, -1)])
    frame.to_csv(tmp_path / "t.csv", index=False)
    fit = ("--model", "graph-gp", "--set", "n_draws=40", "--quiet", "--out", tmp_path / "m.atoll")
    succeed("fit", tmp_path / "t.csv", "--target", "kind", "--id", "tag", *fit)
    explain = ("explain", tmp_path / "m.atoll", tmp_path / "t.csv", "--row")
    said = succeed(*explain, "003")
    assert said.partition(": ")[2] == succeed(*explain, "3").partition(": ")[2]
    assert said.partition(": ")[2] != succeed(*explain, "058").partition(": ")[2]


@pytest.mark.parametrize("kind", ["table", "frame", "array"])
def test_models_saved_from_python_open_in_predict_and_report(folder, tmp_path, kind):
    few = read_table(folder / "few.csv")
    numbers = few[["height", "weight"]]
    model = AtollClassifier(random_state=0)
    if kind == "table":
        model = make_pipeline(make_preprocessor(), model)
        rows = few[["height", "weight", "coat"]]
        fitted = model.fit(rows, few["kind"])
        expected = fitted.predict_proba(rows)
    else:
        rows = numbers if kind == "frame" else numbers.to_numpy()
        fitted = model.fit(rows, few["kind"])
        expected = fitted.predict_proba(rows)
    save_model(fitted, tmp_path / "m.atoll")
    data, page = folder / "few.csv", tmp_path / "r.html"
    succeed("predict", tmp_path / "m.atoll", data, "--out", tmp_path / "p.csv", "--quiet")
    found = read_table(tmp_path / "p.csv")[["p_cat", "p_dog"]].to_numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    assert "--data FILE --target COLUMN" in fail("report", tmp_path / "m.atoll", "--out", page)
    succeed(
        *("report", tmp_path / "m.atoll", "--data", data, "--target", "kind", "--out", page),
        "--no-cross-validation",
    )
    text = page.read_text(encoding="utf-8")
    assert "few.csv, last changed " in text
    assert "60, of which 10 labelled" in text


def test_a_report_reads_its_table_from_standard_input(folder):
    table, page = (folder / "few.csv").read_bytes(), folder / "piped.html"
    options = ("--data", "-", "--out", page, "--no-cross-validation")
    done = run("report", folder / "m.atoll", *options, input=table)
    assert done.exit_code == 0, done.output
    text = page.read_text(encoding="utf-8")
    assert "standard input" in text
    assert "60, of which 10 labelled" in text


def test_a_report_of_rows_that_a_fit_has_not_seen_is_refused(folder):
    """It would call them those of the fit."""
    report = ("report", folder / "m.atoll", "--out", folder / "other.html", "--data")
    said = fail(*report, folder / "new.csv")
    assert "was fitted on other rows, and a report is on those of the fit" in said
    assert "`atoll score " in said
    make_table().to_csv(folder / "every.csv", index=False)
    assert "was fitted on other labels" in fail(*report, folder / "every.csv")
    assert not (folder / "other.html").exists()
    succeed(*report, folder / "few.csv", "--no-cross-validation")


def test_a_table_with_other_columns_than_a_nameless_model_is_refused(folder, tmp_path):
    few = read_table(folder / "few.csv")
    save_model(AtollClassifier().fit(few[["height"]].to_numpy(), few["kind"]), tmp_path / "m.atoll")
    message = fail("predict", tmp_path / "m.atoll", folder / "few.csv", "--out", tmp_path / "p.csv")
    assert "1 columns without names, and the table has 2 columns of numbers" in message


def test_the_report_has_the_file_the_ids_and_the_users_own_units(folder):
    succeed("report", folder / "m.atoll", "--no-cross-validation", "--quiet")
    text = (folder / "m.html").read_text(encoding="utf-8")
    assert "few.csv, last changed " in text
    section = text[text.index('id="uncertain"') :]
    rows = re.findall(r'class="n">(\d+)</th>\s*<td[^>]*>(T\d\d)</td>', section)
    few = read_table(folder / "few.csv")
    assert len(rows) == len(set(rows)) == 10
    for number, tag in rows:
        assert few["tag"][int(number) - 1] == tag
        assert f"{few['weight'][int(number) - 1]:.4g}" in section


def test_the_maps_of_a_report_are_in_the_users_own_units(folder, monkeypatch):
    given = []
    monkeypatch.setattr("atoll.reports.write_report", lambda *rows, **settings: given.append(rows))
    succeed("report", folder / "m.atoll", "--no-cross-validation", "--quiet")
    [(model, X, *_)] = given
    bundle = load_model(folder / "m.atoll")
    column = list(bundle.preprocessing.features).index("weight")
    np.testing.assert_allclose(X[:, column], read_table(folder / "few.csv")["weight"])
    np.testing.assert_allclose(model[0].transform(X), bundle.X, atol=1e-9)  # as it was fitted


# What is said -------------------------------------------------------------------------------------


def test_tables_fit_the_width_of_the_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    for command in (["models"], ["models", "atoll"], ["datasets", "list"]):
        assert max(map(len, succeed(*command).splitlines())) <= 60
    monkeypatch.setenv("COLUMNS", "75")
    assert {"archipelago", "informative-vector"} <= set(succeed("models").split())
    monkeypatch.delenv("COLUMNS")
    assert max(map(len, succeed("models").splitlines())) > 100  # a file has no edge


def test_narrowing_a_table_loses_no_word():
    rows = [["alpha", "one two three four five six seven"], ["b", "eight nine ten"]]
    lines = table_lines(["name", "what it is"], rows, width=24)
    assert max(map(len, lines)) <= 24
    assert max(map(len, table_lines(["a"], [["x" * 50]], width=24))) == 24
    assert set(" ".join(lines).split()) == {
        word for row in (*rows, ["name", "what it is"]) for cell in row for word in cell.split()
    }


def test_a_wrong_path_is_answered_before_anything_slow_is_imported():
    commands = [
        "fit gone.csv --target x --out m.atoll",
        "predict gone.atoll gone.csv --out p.csv",
        "report gone.atoll",
        "score gone.atoll gone.csv",
        "explain gone.atoll gone.csv --row 1",
    ]
    program = (
        "import sys; from typer.testing import CliRunner; from atoll.cli.commands import app\n"
        f"for command in {commands!r}:\n"
        "    result = CliRunner().invoke(app, command.split())\n"
        "    assert result.exit_code == 2 and 'there is no' in result.output, result.output\n"
        "    slow = {'numpy', 'pandas', 'scipy', 'sklearn', 'matplotlib'} & set(sys.modules)\n"
        "    assert not slow, (command, slow)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


# How long it will take ----------------------------------------------------------------------------


class Slow:
    """A model whose fit of n rows takes n squared units of a clock, and chains their sweeps."""

    clock = 0.0

    def __init__(self, **parameters):
        self.parameters = parameters

    def get_params(self, deep=True):
        return dict(self.parameters)

    def set_params(self, **parameters):
        self.parameters |= parameters
        return self

    def __sklearn_clone__(self):
        return Slow(**self.parameters)

    def fit(self, X, y):
        has = self.parameters
        sweeps = has["n_chains"] * (has["n_warmup"] + has["n_samples"]) if has else 1
        Slow.clock += 1e-6 * sweeps * len(X) ** 2
        self.diagnostics_ = {"n_chains": 1} if has else {}
        return self


@pytest.mark.parametrize(
    "parameters", [{}, {"n_chains": 4, "n_warmup": 100, "n_samples": 200, "n_jobs": None}]
)
@pytest.mark.parametrize("n", [3000, 20_000])
def test_the_time_of_a_fit_is_found_from_part_of_it(monkeypatch, parameters, n):
    for clock in ("perf_counter", "process_time"):
        monkeypatch.setattr(time, clock, lambda: Slow.clock)
    y = np.array(["a", "b"] + [None] * (n - 2), dtype=object)
    Slow.clock = 0.0
    expected = timing.expected_seconds(Slow(**parameters), np.zeros((n, 1)), y)
    spent = Slow.clock
    Slow(**parameters).fit(np.zeros((n, 1)), y)
    whole = Slow.clock - spent
    if whole > timing.LONG:
        assert expected == pytest.approx(whole, rel=0.05)
        assert spent < 0.2 * whole
    else:
        assert expected <= timing.LONG


def test_a_trial_that_takes_long_is_not_taken_to_grow_as_the_cube(monkeypatch):
    class Linear(Slow):
        def __sklearn_clone__(self):
            return Linear()

        def fit(self, X, y):
            Slow.clock += 0.05 * len(X)
            return self

    for clock in ("perf_counter", "process_time"):
        monkeypatch.setattr(time, clock, lambda: Slow.clock)
    y = np.array(["a", "b"] + [None] * 1998, dtype=object)
    expected = timing.expected_seconds(Linear(), np.zeros((2000, 1)), y)
    assert expected == pytest.approx(100.0, rel=0.05)


def test_a_long_fit_is_announced_with_what_is_quicker(folder, monkeypatch):
    model = ProbitGPClassifier(n_samples=300)
    said = timing.announcement(model, "probit-gp", 600.0, ("--model atoll, 2 minutes",))
    assert said == (
        "This will take about 10 minutes, on a machine with nothing else to do. Quicker: --model "
        "atoll, 2 minutes, or --set inference=vb."
    )
    assert timing.announcement(model, "probit-gp", 59.0) is None
    going_on = ProbitGPClassifier(n_warmup=200)  # draws 300 times, or up to 2400
    assert timing.announcement(going_on, "probit-gp", 600.0) == (
        "This will take about 10 minutes, or up to 52 minutes where the chains have not mixed by "
        "then, on a machine with nothing else to do. Quicker: --set inference=vb."
    )
    going_on = ArchipelagoClassifier(n_warmup=150, thin=2)  # draws 100 times, or up to 750
    assert timing.announcement(going_on, "archipelago", 650.0) == (
        "This will take about 11 minutes, or up to 51 minutes where the chains have not mixed by "
        "then, on a machine with nothing else to do."
    )
    monkeypatch.setattr(timing, "expected_seconds", lambda *given: 7200.0)
    arguments = ["fit", folder / "few.csv", "--target", "kind", "--drop", "tag"]
    result = run(*arguments, "--out", folder / "again.atoll")
    assert "This will take about 2 hours, on a machine" in result.stdout
    assert "Quicker" not in result.stdout  # graph-gp would take as long


class Graph(Slow):
    """A model of a graph: as long a time as its rows, and a little for every row beyond it."""

    def __init__(self, max_graph_rows=10_000):
        super().__init__(max_graph_rows=max_graph_rows)

    def __sklearn_clone__(self):
        return Graph(**self.parameters)

    def fit(self, X, y):
        most = min(len(X), self.parameters["max_graph_rows"])
        Slow.clock += 5e-3 * most + 1e-4 * (len(X) - most)
        return self

    def predict_proba(self, X):
        Slow.clock += 1e-4 * len(X)


@pytest.mark.parametrize("n", [20_000, 200_000])
def test_rows_beyond_the_graph_cost_what_their_predictions_do(monkeypatch, n):
    for clock in ("perf_counter", "process_time"):
        monkeypatch.setattr(time, clock, lambda: Slow.clock)
    X, y = np.zeros((n, 1)), np.full(n, None, dtype=object)
    y[:2] = "a", "b"
    Slow.clock = 0.0
    expected = timing.expected_seconds(Graph(), X, y)
    before = Slow.clock
    Graph().fit(X, y)
    assert 1 / 3 < expected / (Slow.clock - before) < 3


def test_what_does_not_help_is_not_suggested(monkeypatch):
    n = 20_000
    monkeypatch.setattr(timing, "expected_seconds", lambda *given: 500.0)
    mostly_graph = Cost([1000], [60.0], 0.0, (1.0, 1.0))
    mostly_rows = Cost([1000], [0.1], 0.03, (1.0, 1.0))
    X, y = np.zeros((n, 1)), np.full(n, None, dtype=object)
    for cost, hint in (
        (mostly_graph, ("--set max_graph_rows=2000, 2 minutes",)),
        (mostly_rows, ()),
    ):
        monkeypatch.setattr(timing, "measured_cost", lambda *given, cost=cost: cost)
        assert timing.quicker_options(Graph(), "atoll", X, y, 600.0) == hint


@pytest.mark.parametrize("seconds", [61.0, 3600.0, 5400.0, 8000.0, 9.8e5, 1e7, 1e12])
def test_times_are_said_as_a_person_would(seconds):
    said = timing.in_words(seconds)
    assert re.fullmatch(r"(1\.5|[2-9](\.5)?|\d{2,3}) (minutes|hours|days)|more than a year", said)


def test_no_trial_is_made_before_a_fit_of_seconds():
    y = np.full(2000, None, dtype=object)
    y[:100] = ["a", "b"] * 50
    Slow.clock = 0.0
    assert timing.expected_seconds(Graph(), np.zeros((2000, 1)), y) == 0.0
    assert Slow.clock == 0.0


def labels_of(n_classes, n_rows=3000, per_class=3):
    y = np.full(n_rows, None, dtype=object)
    y[: n_classes * per_class] = [f"class {i}" for i in range(n_classes)] * per_class
    return y


def test_the_time_of_very_many_classes_is_told_without_a_trial(monkeypatch):
    def no_trial(*given):
        raise AssertionError("a trial takes as long as the fit")

    monkeypatch.setattr(estimator_timing, "_trial", no_trial)
    monkeypatch.setattr("atoll.estimators.class_timing._best", lambda call: 1e-6)
    X = np.zeros((3000, 20))
    some, more = (timing.expected_seconds(AtollClassifier(), X, labels_of(K)) for K in (40, 160))
    assert 0.0 < 4.0 * some < more
    for model in (AtollClassifier(), GraphGPClassifier()):
        smaller = timing.seconds_by_classes(model, 30_000, labels_of(160, 30_000), 2000)
        larger = timing.seconds_by_classes(model, 30_000, labels_of(160, 30_000), 10_000)
        assert smaller < larger
    assert timing.seconds_by_classes(AtollClassifier(), 3000, labels_of(3), 2000) is None
    noisy = AtollClassifier(label_noise="learn")  # which draws nothing inside a cone
    assert timing.seconds_by_classes(noisy, 3000, labels_of(24), 2000) is None


def test_the_words_of_a_text_and_those_it_shares_with_labelled_ones_are_shown(tmp_path):
    rng = np.random.default_rng(0)
    topics = {
        "sea": ["reef", "lagoon", "coral", "tide", "anchor", "shell", "squid", "kelp", "crab"],
        "sky": ["cloud", "rain", "storm", "wind", "hail", "thunder", "fog", "comet", "moon"],
    }
    kinds = ["sea", "sky"] * 15
    notes = [" ".join(rng.choice(topics[kind], 4, replace=False)) for kind in kinds]
    shown = [kind if i < 6 else None for i, kind in enumerate(kinds)]
    frame = pd.DataFrame({"note": notes, "kind": shown})
    frame.to_csv(tmp_path / "notes.csv", index=False)
    succeed("fit", tmp_path / "notes.csv", "--target", "kind", "--out", tmp_path / "m.atoll",
            "--text", "note", "--quiet")  # fmt: skip
    said = succeed("explain", tmp_path / "m.atoll", tmp_path / "notes.csv", "--row", 9)
    (own,) = re.findall(r"Its words of most weight: ([\w, ]+)\.", " ".join(said.split()))
    assert set(own.split(", ")) == set(notes[8].split())
    assert "shared words" in said
    model = make_pipeline(make_preprocessor(texts=["note"]), AtollClassifier(random_state=0))
    found = explain_row(model.fit(frame[["note"]], frame["kind"]), frame[["note"]], 8)
    assert set(found.words) == set(notes[8].split())
    for label, words in zip(found.near, found.shared):
        assert set(words) <= set(notes[8].split()) & set(notes[label.row].split())
        assert bool(words) == (label.label == "sea")
