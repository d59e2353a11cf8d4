"""The engine, on toy experiments. Functions that cells run are nested: so they travel by value."""

from __future__ import annotations

import csv
import dataclasses
import io
import os
from pathlib import Path

import joblib
import numpy as np
import pytest

import atoll
from atoll.reproductions import engine
from atoll.reproductions.cache import cell_identity, cell_path
from atoll.reproductions.engine import Experiment, check_cells, csv_text


def toy_experiment(folder: Path, *, fail_at=None, **changes) -> Experiment:
    """Six cells; each run of one leaves a file in `folder`. `fail_at` is a dict index -> error."""
    failures = dict(fail_at or {})

    def run_cell(cell, data_home):
        import time

        import numpy as np

        (folder / f"ran-{cell['index']}-{os.getpid()}-{time.perf_counter_ns()}").touch()
        if cell["index"] in failures:
            raise failures[cell["index"]]
        rng = np.random.default_rng([cell["seed"], cell["index"]])
        gram = (lambda a: a @ a.T)(rng.normal(size=(200, 300)))
        return {"mean": rng.normal(), "determinant": np.linalg.slogdet(gram)[1], "path": gram[0]}

    def draw(results, path):
        path.write_bytes(b"drawn from %d" % len(results))

    defaults = {
        "name": "toy",
        "title": "A toy",
        "paper": "Nobody (1900), *Nothing*.",
        "claim": "Nothing at all.",
        "cells": lambda quick, seed: [
            {"index": i, "seed": seed, "tags": ["a", "b"]} for i in range(2 if quick else 6)
        ],
        "run_cell": run_cell,
        "draw": draw,
        "comparison": lambda results: f"{len(results)} beside none.",
    }
    return Experiment(**(defaults | changes))


def runs(folder: Path) -> list[int]:
    """The cells that were run, once for each time."""
    return sorted(int(path.name.split("-")[1]) for path in folder.glob("ran-*"))


def cache_paths(cache: Path) -> list[Path]:
    """Where each of the toy's six cells is kept."""
    toy = toy_experiment(cache)
    identities = [cell_identity(toy.name, toy.version, cell) for cell in toy.cells(False, 0)]
    return [cell_path(cache, toy.name, identity) for identity in identities]


@pytest.fixture
def counter(tmp_path):
    folder = tmp_path / "counter"
    folder.mkdir()
    return folder


def run(experiment, out, **options):
    return engine.run(experiment, out=out, progress=False, **options)


def test_a_second_run_repeats_no_cell_and_gives_the_same_report(tmp_path, counter):
    toy = toy_experiment(counter)
    first = run(toy, tmp_path / "out")
    written = [first.csv.read_bytes(), first.page.read_bytes(), first.figure.read_bytes()]
    second = run(toy, tmp_path / "out")
    assert runs(counter) == [0, 1, 2, 3, 4, 5]
    assert written == [
        second.csv.read_bytes(),
        second.page.read_bytes(),
        second.figure.read_bytes(),
    ]
    for a, b in zip(first.results, second.results):
        assert a.cell == b.cell
        assert list(a.values) == list(b.values) == ["mean", "determinant", "path"]
        assert a.values["mean"] == b.values["mean"]
        np.testing.assert_array_equal(a.values["path"], b.values["path"])


def test_the_full_run_reuses_the_quick_cells_that_it_shares(tmp_path, counter):
    toy = toy_experiment(counter)
    quick = run(toy, tmp_path / "out", quick=True)
    assert len(quick.results) == 2
    assert "the full one has 6 cells" in quick.page.read_text()
    run(toy, tmp_path / "out")
    assert runs(counter) == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("changes", [{"version": 2}, {"name": "toy-two"}])
def test_another_version_or_name_is_another_result(tmp_path, counter, changes):
    toy = toy_experiment(counter)
    run(toy, tmp_path / "out", quick=True)
    run(dataclasses.replace(toy, **changes), tmp_path / "out", quick=True)
    assert runs(counter) == [0, 0, 1, 1]


def test_another_seed_is_another_result(tmp_path, counter):
    toy = toy_experiment(counter)
    first = run(toy, tmp_path / "out", quick=True, seed=0)
    zero = first.csv.read_bytes()
    assert run(toy, tmp_path / "out", quick=True, seed=1).csv.read_bytes() != zero
    assert runs(counter) == [0, 0, 1, 1]


def test_another_release_is_another_result(tmp_path, counter, monkeypatch):
    toy = toy_experiment(counter)
    run(toy, tmp_path / "out", quick=True)
    monkeypatch.setattr(atoll, "__version__", "999.0")
    run(toy, tmp_path / "out", quick=True)
    assert runs(counter) == [0, 0, 1, 1]


def test_the_same_csv_whatever_the_number_of_jobs(tmp_path, counter):
    toy = toy_experiment(counter)
    alone = run(toy, tmp_path / "one", n_jobs=1)
    pair = run(toy, tmp_path / "two", n_jobs=2)
    assert runs(counter) == sorted([0, 1, 2, 3, 4, 5] * 2)
    assert alone.csv.read_bytes() == pair.csv.read_bytes()


def test_cells_run_in_other_processes_under_two_jobs(tmp_path, counter):
    run(toy_experiment(counter), tmp_path / "out", n_jobs=2)
    assert str(os.getpid()) not in {path.name.split("-")[2] for path in counter.glob("ran-*")}


def test_joblib_s_context_sets_the_number_of_jobs(tmp_path, counter):
    with joblib.parallel_config(n_jobs=2):
        run(toy_experiment(counter), tmp_path / "out")
    assert str(os.getpid()) not in {path.name.split("-")[2] for path in counter.glob("ran-*")}


@pytest.mark.parametrize("n_jobs", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_an_interrupted_run_resumes_without_repeating_a_finished_cell(tmp_path, counter, n_jobs):
    whole = run(toy_experiment(counter), tmp_path / "whole").csv.read_bytes()
    for mark in counter.iterdir():
        mark.unlink()

    out = tmp_path / "out"
    with pytest.raises(KeyboardInterrupt, match=r"interrupted; .* of 6 cells are finished"):
        run(toy_experiment(counter, fail_at={3: KeyboardInterrupt()}), out, n_jobs=n_jobs)
    kept = [i for i, path in enumerate(cache_paths(out / "cache")) if path.exists()]
    assert kept
    assert 3 not in kept
    assert not (out / "toy" / "cells.csv").exists()
    for mark in counter.iterdir():
        mark.unlink()

    resumed = run(toy_experiment(counter), out, n_jobs=n_jobs)
    # Not "all others": a stopped process may finish its cell after it was looked for above.
    assert not set(kept).intersection(runs(counter))
    assert 3 in runs(counter)
    assert resumed.csv.read_bytes() == whole


@pytest.mark.parametrize("n_jobs", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_cell_whose_chains_were_cut_short_stops_the_run_and_is_not_kept(tmp_path, n_jobs):
    def run_cell(cell, data_home):
        import warnings

        from atoll.inference.chains import SamplingInterrupted

        warnings.warn("3 of 100 draws were kept", SamplingInterrupted, stacklevel=1)
        return {"mean": 0.0}

    with pytest.raises(KeyboardInterrupt, match="0 of 6 cells are finished"):
        run(toy_experiment(tmp_path, run_cell=run_cell), tmp_path / "out", n_jobs=n_jobs)
    assert not list((tmp_path / "out" / "cache").iterdir())


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_failing_cell_is_named_after_the_others_have_finished(tmp_path, counter, n_jobs):
    toy = toy_experiment(counter, fail_at={2: ZeroDivisionError("nothing by nothing")})
    with pytest.raises(RuntimeError, match=r"1 of 6 cells failed") as failure:
        run(toy, tmp_path / "out", n_jobs=n_jobs)
    assert "index=2, seed=0" in str(failure.value)
    assert "ZeroDivisionError: nothing by nothing" in str(failure.value)
    assert runs(counter) == [0, 1, 2, 3, 4, 5]
    assert not (tmp_path / "out" / "toy" / "cells.csv").exists()

    run(toy_experiment(counter), tmp_path / "out", n_jobs=n_jobs)
    assert runs(counter) == [0, 1, 2, 2, 3, 4, 5]


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_missing_data_are_named_and_the_rest_runs(tmp_path, counter, n_jobs):
    absent = FileNotFoundError("usps/train.csv was looked for in 'nowhere/usps'")
    toy = toy_experiment(counter, fail_at={1: absent, 4: absent}, needs=("usps/train.csv",))
    report = run(toy, tmp_path / "out", n_jobs=n_jobs)
    assert [result.cell["index"] for result in report.results] == [0, 2, 3, 5]
    assert [skipped.cell["index"] for skipped in report.skipped] == [1, 4]
    assert all("nowhere/usps" in skipped.reason for skipped in report.skipped)
    rows = list(csv.DictReader(io.StringIO(report.csv.read_text())))
    assert [row["status"] for row in rows] == [
        "missing data" if i in (1, 4) else "done" for i in range(6)
    ]
    assert rows[1]["mean"] == ""
    page = report.page.read_text()
    assert page.count("looked for in 'nowhere/usps'") == 1
    for skipped in report.skipped:
        assert f"- {engine.describe(skipped.cell)}\n" in page
    assert "4 beside none." in page
    assert "4 of 6 cells ran" in page
    assert "`usps/train.csv`" in page
    assert report.figure.read_bytes() == b"drawn from 4"


def test_missing_data_are_named_on_the_terminal(tmp_path, counter, capsys):
    absent = FileNotFoundError("no file 'nowhere/usps.csv'.")
    toy = toy_experiment(counter, fail_at={1: absent, 4: absent})
    report = engine.run(toy, out=tmp_path / "out", progress=True)
    shown = capsys.readouterr().err
    first = engine.describe(report.skipped[0].cell)
    named = f"2 cells are left out (the first: {first}). no file 'nowhere/usps.csv'.\n"
    assert shown.count(named) == 1
    assert shown.count("nowhere/usps.csv") == 1


def test_data_that_arrive_later_are_used_and_nothing_else_is_repeated(tmp_path, counter):
    absent = {1: FileNotFoundError("no file 'a'")}
    run(toy_experiment(counter, fail_at=absent), tmp_path / "out")
    report = run(toy_experiment(counter), tmp_path / "out")
    assert runs(counter) == [0, 1, 1, 2, 3, 4, 5]
    assert not report.skipped
    assert "Left out" not in report.page.read_text()


def test_a_run_without_any_data_says_so_and_keeps_no_older_picture(tmp_path, counter):
    run(toy_experiment(counter, version=1), tmp_path / "out")
    absent = dict.fromkeys(range(6), FileNotFoundError("no file 'a'"))
    report = run(toy_experiment(counter, version=2, fail_at=absent), tmp_path / "out")
    assert report.figure is None
    assert not list((tmp_path / "out" / "toy").glob("*.png"))
    page = report.page.read_text()
    assert "No cell could run" in page
    assert "](" not in page
    assert page.count("- index=") == 6


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: b"",
        lambda content: content[: len(content) // 2],
        lambda content: content[:-30],
        lambda content: b"not an archive",
        lambda content: content[:400] + bytes(200) + content[600:],
    ],
    ids=["empty", "cut in half", "tail cut", "not an archive", "overwritten"],
)
def test_a_damaged_cache_entry_is_run_again(tmp_path, counter, damage):
    toy = toy_experiment(counter)
    whole = run(toy, tmp_path / "out").csv.read_bytes()
    entry = sorted((tmp_path / "out" / "cache").glob("*.npz"))[0]
    original = entry.read_bytes()
    entry.write_bytes(damage(original))
    assert run(toy, tmp_path / "out").csv.read_bytes() == whole
    assert len(runs(counter)) == 7
    run(toy, tmp_path / "out")
    assert len(runs(counter)) == 7, "the entry was mended"


def test_an_entry_under_another_cell_s_name_is_not_believed(tmp_path, counter):
    toy = toy_experiment(counter)
    whole = run(toy, tmp_path / "out").csv.read_bytes()
    first, second = sorted((tmp_path / "out" / "cache").glob("*.npz"))[:2]
    first.write_bytes(second.read_bytes())
    assert run(toy, tmp_path / "out").csv.read_bytes() == whole
    assert len(runs(counter)) == 7


def test_the_cache_may_live_elsewhere(tmp_path, counter):
    toy = toy_experiment(counter)
    run(toy, tmp_path / "a", cache=tmp_path / "shared")
    run(toy, tmp_path / "b", cache=tmp_path / "shared")
    assert runs(counter) == [0, 1, 2, 3, 4, 5]
    assert not (tmp_path / "a" / "cache").exists()


def test_the_csv_gives_every_float_back_exactly(tmp_path, counter):
    report = run(toy_experiment(counter), tmp_path / "out")
    rows = list(csv.DictReader(io.StringIO(report.csv.read_text())))
    assert [float(row["mean"]) for row in rows] == [r.values["mean"] for r in report.results]
    assert [int(row["index"]) for row in rows] == [0, 1, 2, 3, 4, 5]
    assert list(rows[0]) == ["index", "seed", "tags", "status", "mean", "determinant"]
    assert rows[0]["tags"] == '["a", "b"]'


def test_the_page_shows_the_claim_the_picture_and_the_comparison(tmp_path, counter):
    page = run(toy_experiment(counter), tmp_path / "out", seed=3).page.read_text()
    for part in ["# A toy", "Nobody (1900)", "Nothing at all.", "](toy.png)", "6 beside none."]:
        assert part in page
    assert "`atoll reproduce toy --seed 3`" in page
    assert str(tmp_path) not in page


def test_progress_counts_cached_cells_as_done_and_changes_nothing(tmp_path, counter, at_a_terminal):
    toy = toy_experiment(counter)
    quiet = run(toy, tmp_path / "quiet").csv.read_bytes()
    assert at_a_terminal.readouterr() == ("", "")
    run(toy, tmp_path / "loud", quick=True)
    loud = engine.run(toy, out=tmp_path / "loud", progress=True).csv.read_bytes()
    shown = at_a_terminal.readouterr().err
    assert "2/6" in shown.split("\r")[1], "the two quick cells are done before any is run"
    assert "6/6" in shown
    assert loud == quiet


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ([], "cells is empty"),
        ([{"seed": 0}, {"seed": 0}], "declared twice"),
        ([{"seed": (0, 1)}], "changes when written as JSON"),
        ([{"seed": np.float64("nan")}], "changes when written as JSON"),
        ([{"seed": np.arange(2)}], "changes when written as JSON"),
        ([{0: "seed"}], "changes when written as JSON"),
    ],
)
def test_cells_that_cannot_be_told_apart_are_refused(tmp_path, cells, message):
    toy = toy_experiment(tmp_path, cells=lambda quick, seed: cells)
    with pytest.raises(ValueError, match=message):
        check_cells(toy, cells)
    with pytest.raises(ValueError, match=message):
        run(toy, tmp_path / "out")


def test_a_value_that_cannot_be_kept_is_refused_by_name(tmp_path):
    toy = toy_experiment(tmp_path, run_cell=lambda cell, data_home: {"model": object()})
    with pytest.raises(RuntimeError, match="value 'model' is of type object"):
        run(toy, tmp_path / "out")


def test_a_value_named_like_a_column_is_refused():
    with pytest.raises(ValueError, match=r"\['seed'\]"):
        csv_text([{"seed": 0}], [{"seed": 1.0}])


def test_an_output_folder_that_cannot_be_made_is_refused_before_any_cell_runs(tmp_path, counter):
    (tmp_path / "file").touch()
    with pytest.raises(ValueError, match=r"out: the folder .*file.* cannot be made"):
        run(toy_experiment(counter), tmp_path / "file")
    with pytest.raises(ValueError, match=r"cache: the folder .*file.* cannot be made"):
        run(toy_experiment(counter), tmp_path / "out", cache=tmp_path / "file" / "cache")
    (tmp_path / "out" / "toy" / "toy.png").mkdir(parents=True)
    with pytest.raises(ValueError, match=r"toy\.png"):
        run(toy_experiment(counter), tmp_path / "out")
    assert runs(counter) == []


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_folders_are_those_of_the_caller_even_when_the_workers_are_older(
    tmp_path, monkeypatch, n_jobs
):
    toy = toy_experiment(tmp_path, run_cell=lambda cell, data_home: {"home": str(data_home)})
    monkeypatch.delenv("ATOLL_DATA", raising=False)
    before = run(toy, tmp_path / "a", n_jobs=n_jobs)
    monkeypatch.chdir(tmp_path)
    given = run(toy, "b", data_home="data", n_jobs=n_jobs)
    monkeypatch.setenv("ATOLL_DATA", str(tmp_path / "other"))
    from_variable = run(toy, "c", n_jobs=n_jobs)
    homes = [
        {result.values["home"] for result in report.results}
        for report in (before, given, from_variable)
    ]
    assert homes == [{"None"}, {str(tmp_path / "data")}, {str(tmp_path / "other")}]
    assert (tmp_path / "b" / "toy" / "cells.csv").exists()


@pytest.mark.parametrize("seed", [-1, 0.5, None, True])
def test_a_seed_that_is_none_is_refused(tmp_path, seed):
    with pytest.raises(ValueError, match=f"seed={seed}"):
        run(toy_experiment(tmp_path), tmp_path / "out", seed=seed)


# --- parts of an experiment, and time limits -----------------------------------------------------


def test_only_the_chosen_cells_run_and_are_named_in_the_command(tmp_path, counter):
    report = run(toy_experiment(counter), tmp_path / "out", only={"index": ["4", "1"]})
    assert runs(counter) == [1, 4]
    assert [result.cell["index"] for result in report.results] == [1, 4]
    page = report.page.read_text()
    assert "atoll reproduce toy --seed 0 --only index=4,1`" in page
    assert "the full one has 6 cells" in page
    run(toy_experiment(counter), tmp_path / "out")
    assert runs(counter) == list(range(6))  # the cache serves both


@pytest.mark.parametrize(
    ("only", "message"),
    [
        ({"colour": ["red"]}, "no key 'colour'; their keys are: index, seed, tags"),
        ({"index": ["1", "9"]}, "no cell has index='9'; its values are: 0, 1, 2, 3, 4, 5"),
    ],
)
def test_a_choice_that_no_cell_meets_is_refused(tmp_path, counter, only, message):
    with pytest.raises(ValueError, match=message):
        run(toy_experiment(counter), tmp_path / "out", only=only)
    assert not (tmp_path / "out").exists()


def slow_at(folder, index):
    """A toy whose cell of that index never ends."""

    def run_cell(cell, data_home):
        import time

        (folder / f"ran-{cell['index']}-{time.perf_counter_ns()}").touch()
        while cell["index"] == index:
            pass
        return {"mean": 1.0}

    return toy_experiment(folder, run_cell=run_cell)


needs_timer = pytest.mark.skipif(
    not hasattr(__import__("signal"), "setitimer"), reason="there is no timer on Windows"
)


@needs_timer
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_cell_over_its_limit_is_stopped_and_reported_and_the_rest_runs(tmp_path, counter, n_jobs):
    report = run(slow_at(counter, 2), tmp_path / "out", limit=0.2, n_jobs=n_jobs)
    assert len(report.results) == 5
    ((cell, reason),) = report.skipped
    assert cell["index"] == 2
    assert reason == "Stopped after 0.2 processor seconds, its limit."
    assert reason in report.page.read_text()
    rows = list(csv.DictReader(report.csv.read_text().splitlines()))
    assert [row["status"] for row in rows] == ["done"] * 2 + ["stopped"] + ["done"] * 3


@needs_timer
def test_a_stopped_cell_is_tried_again_only_with_a_longer_limit(tmp_path, counter):
    for limit, n_runs in ((0.2, 1), (0.1, 1), (0.2, 1), (0.3, 2)):
        report = run(slow_at(counter, 2), tmp_path / "out", limit=limit)
        assert runs(counter).count(2) == n_runs
        assert len(report.results) == 5
    report = run(toy_experiment(counter), tmp_path / "out", limit=60)
    assert len(report.results) == 6


@pytest.mark.parametrize("limit", [0, -1.0, float("nan"), float("inf")])
def test_a_limit_that_is_no_time_is_refused(tmp_path, counter, limit):
    with pytest.raises(ValueError, match="limit="):
        run(toy_experiment(counter), tmp_path / "out", limit=limit)


def test_further_files_are_written_beside_the_table(tmp_path, counter):
    toy = toy_experiment(counter, more_files=lambda results: {"n.txt": f"{len(results)}\n"})
    report = run(toy, tmp_path / "out")
    assert (report.csv.parent / "n.txt").read_text() == "6\n"
