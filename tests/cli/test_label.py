"""`atoll label`: what it says before the page opens, and what it refuses in one line."""

from __future__ import annotations

import re
import socket

import numpy as np
import pandas as pd
import pytest
from PIL import Image

import atoll.active
import atoll.app.server
import program
from atoll import AtollClassifier, GraphGPClassifier


def run(*arguments):
    return program.run("label", *arguments)


def fail(*arguments):
    return program.fail("label", *arguments)


@pytest.fixture
def data(tmp_path):
    frame = pd.DataFrame({"x": range(12), "z": [0.5] * 12, "kind": ["a", "b", *[None] * 10]})
    frame.to_csv(tmp_path / "data.csv", index=False)
    return tmp_path / "data.csv"


@pytest.fixture
def served(monkeypatch):
    """Addresses that were listened at; the server itself ends at once."""
    addresses = []

    def serve(app, listener, started):
        addresses.append(listener.getsockname())
        started()

    monkeypatch.setattr(atoll.app.server, "serve", serve)
    return addresses


def test_the_page_is_announced_with_what_was_read(data, served):
    before = data.read_bytes()
    result = run(data, "--target", "kind", "--no-browser")
    assert result.exit_code == 0, result.output
    assert "12 rows, 2 labelled in the file." in result.stdout
    assert "the model learns from 2 columns of numbers" in result.stdout
    (host, port), *_ = served
    assert host == "127.0.0.1"
    assert re.search(
        rf"^Open http://127\.0\.0\.1:{port}/\?token=[\w-]{{30,}}$", result.stdout, re.M
    )
    assert "0 labels are kept in" in result.stdout
    assert data.read_bytes() == before
    assert (data.parent / "data.csv.labels.jsonl").exists()


def test_rows_are_picked_by_the_model_that_fit_and_next_take(data, served, tmp_path, monkeypatch):
    learners = []

    class Watched(atoll.active.ActiveLearner):
        def fit(self, X, y=None, **more):
            learners.append((self, X))
            return super().fit(X, y, **more)

    monkeypatch.setattr(atoll.active, "ActiveLearner", Watched)
    fitted = tmp_path / "m.atoll"
    program.succeed("fit", data, "--target", "kind", "--out", fitted, "--quiet")
    program.succeed("next", fitted, data, "--quiet")
    assert run(data, "--target", "kind", "--no-browser").exit_code == 0
    assert run(data, "--target", "kind", "--no-browser", "--model", "graph-gp").exit_code == 0
    (by_next, X), (by_page, same), (quicker, _) = learners
    assert type(by_next.estimator) is type(by_page.estimator) is AtollClassifier
    assert type(quicker.estimator) is GraphGPClassifier
    np.testing.assert_array_equal(X, same)


def test_rows_of_nothing_but_blanks_are_left_out(data, served):
    table = pd.read_csv(data)
    table.loc[[4, 7], ["x", "z"]] = None
    table.to_csv(data, index=False)
    result = run(data, "--target", "kind", "--no-browser")
    assert result.exit_code == 0, result.output
    assert "2 of 12 rows are left out; the first: row 5 has no cell to learn from" in result.stdout


def test_a_word_for_unlabelled_rows_can_be_said_as_the_refusal_says(tmp_path):
    (tmp_path / "data.csv").write_text("x,z,kind\n1,2,cat\n2,3,?\n3,4,?\n")
    base = (tmp_path / "data.csv", "--target", "kind", "--export", tmp_path / "out.csv")
    assert "say so with --unlabelled '?', or with --unlabelled none" in fail(*base)
    assert "3 rows with 0 labels given here" in run(*base, "--unlabelled", "?").stdout
    assert (tmp_path / "out.csv").read_text() == (tmp_path / "data.csv").read_text()


def test_labels_given_so_far_are_exported_without_a_page(data, tmp_path):
    assert run(data, "--target", "kind", "--export", tmp_path / "out.csv").exit_code == 0
    log = data.parent / "data.csv.labels.jsonl"
    log.write_bytes(log.read_bytes() + b'{"kind": "label", "row": 5, "label": "b"}\n')
    result = run(data, "--target", "kind", "--export", tmp_path / "out.parquet")
    assert "12 rows with 1 labels given here" in result.stdout
    assert pd.read_parquet(tmp_path / "out.parquet")["kind"].tolist()[5] == "b"
    assert "is the data itself" in fail(data, "--target", "kind", "--export", data)


def test_a_file_of_answers_damaged_in_its_last_line_is_told_and_the_rest_kept(data, served):
    run(data, "--target", "kind", "--no-browser")
    log = data.parent / "data.csv.labels.jsonl"
    log.write_bytes(log.read_bytes() + b'{"kind": "label", "row": 5, "label": "b"}\n{"kind": "lab')
    result = run(data, "--target", "kind", "--no-browser")
    assert result.exit_code == 0
    assert re.fullmatch(r"atoll: warning: the last line of .* was damaged .*\n", result.stderr)
    assert "1 are there already" in result.stdout
    assert "1 labels are kept in" in result.stdout


def test_pictures_that_do_not_decode_are_named(tmp_path, served):
    folder = tmp_path / "birds"
    folder.mkdir()
    for k in range(3):
        Image.new("L", (8, 8), 80 * k).save(folder / f"{k}.png")
    (folder / "bad.png").write_bytes(b"no picture")
    result = run(folder, "--target", "bird", "--classes", "owl,wren", "--no-browser")
    assert result.exit_code == 0, result.output
    assert "1 of 4 rows are left out" in result.stdout
    assert "'bad.png' does not decode as a picture" in result.stdout
    for k in range(3):
        (folder / f"{k}.png").write_bytes(b"no picture")
    assert "none of the 4 files can be learnt from" in fail(folder, "--target", "bird")


@pytest.mark.parametrize(
    ("content", "options", "says"),
    [
        ("x,kind\n1,a\n2,b\n", (), "'kind' has no blank cell"),
        ("x,kind\n", (), "has no rows"),
        ("x,kind\n1,\n", (), "labelling needs two"),
        ("", (), "is empty"),
        (f"x,kind\n1,{'y' * 10_000}\n2,\n", (), "10000 characters"),
        ("x,kind\n1,a\n2,\n", ("--classes", "z" * 10_000), "10000 characters"),
        ("x,kind\n1,a\n2,\n", ("--classes", "a,a"), "names a class twice"),
        ("x,kind\n1,1\n2,\n", ("--classes", "one"), "whole numbers, and 'one' is none"),
        ("t,kind\nred,a\nblue,\n", ("--no-encode",), "no column of numbers or categories"),
        ("x,kind\n,a\n,\n,\n", (), "no column of numbers or categories"),
        ("x,kind\n1,a\ninf,\n2,\n", (), "infinite values in the features: row 2 of 'x'"),
        ("x,kind\n1,a\n2,\n", ("--text", "words"), "no such column"),
        ("x,kind\n1,a\n2,\n", ("--text", "x", "--image", "x"), "cannot go together"),
        ("x,kind\n1,a\n2,\n", ("--features", "gone.npy"), "there is no file"),
        ("x,kind\n1,a\n2,\n", ("--model", "oracle"), "there is no model 'oracle'"),
        ("x,kind\n1,a\n2,\n", ("--host", "0.0.0.0"), "listen everywhere"),
        ("x,kind\n1,a\n2,\n", ("--host", "10.0.0.1"), "--allow-network"),
        ("x,kind\n1,a\n2,\n", ("--host", "10.0.0.1", "--allow-network"), "ATOLL_PASSWORD"),
        ("p,kind\nbirds.png,a\nowls.png,\n", (), "none of the 2 rows can be shown"),
    ],
)
def test_bad_input_is_one_line_and_nothing_is_lost(
    tmp_path, monkeypatch, served, content, options, says
):
    monkeypatch.delenv("ATOLL_PASSWORD", raising=False)
    path = tmp_path / "data.csv"
    path.write_text(content)
    line = fail(path, "--target", "kind", "--no-browser", *options)
    assert says in line
    assert len(line) < 600
    assert path.read_text() == content
    assert list(tmp_path.iterdir()) == [path]
    assert served == []


def test_a_missing_file_and_a_taken_port_are_told(data, tmp_path, served):
    assert "there is no file" in fail(tmp_path / "gone.csv", "--target", "kind")
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        assert "cannot listen" in fail(data, "--target", "kind", "--port", port, "--no-browser")
