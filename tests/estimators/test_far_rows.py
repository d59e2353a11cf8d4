"""Rows on disk and on a cluster: the same answers as in memory, and no more of them in memory."""

from __future__ import annotations

import os
import pickle
import signal
import threading
import time

import dask.array as arrays
import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from atoll import (
    AtollClassifier,
    GraphGPClassifier,
    ProbitGPClassifier,
    RowChunks,
    load_model,
    save_model,
)
from atoll.core.chunks import DaskRows, let_go
from atoll.core.far_rows import MappedRows, SourceRows, survey
from atoll.core.labels import parse_labels
from atoll.estimators import far_rows
from atoll.estimators.graph_rows import choose_rows

N, D = 900, 4


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    truth = rng.integers(2, size=N)
    X = (rng.standard_normal((N, D)) + 3.0 * truth[:, None]).astype(np.float32)
    y = np.full(N, None, dtype=object)
    known = rng.choice(N, 30, replace=False)
    y[known] = np.array(["no", "yes"])[truth[known]]
    return X, y


def classifier(kind=AtollClassifier, **options):
    return kind(max_graph_rows=120, n_draws=20, random_state=3, **options)


@pytest.fixture(scope="module", params=[AtollClassifier, GraphGPClassifier])
def in_memory(request, data):
    X, y = data
    model = classifier(request.param).fit(X, y)
    assert model.keeps_single
    return model, model.predict_proba(X)


def sources(data, folder):
    """Name -> arguments of fit, and what predict takes, all of the same rows."""
    import dask.dataframe as frames
    import pandas as pd

    X, y = data
    np.save(folder / "X.npy", X)
    coded = np.where(y == "yes", 2, np.where(y == "no", 1, -1))
    np.save(folder / "y.npy", coded)
    frame = pd.DataFrame(X, columns=list("abcd"))
    (folder / "parts").mkdir()
    for i, start in enumerate(range(0, N, 400)):
        part = frame[start : start + 400].assign(kind=y[start : start + 400])
        part.to_parquet(folder / "parts" / f"part{i}.parquet")
    split = frames.from_pandas(frame, npartitions=3)
    return {
        "npy": ((str(folder / "X.npy"), y), folder / "X.npy"),
        "chunks": ((RowChunks.from_arrays(X, y, chunk_rows=130),), RowChunks.from_arrays(X)),
        "parquet": (
            (RowChunks.from_parquet(folder / "parts", "kind", chunk_rows=150),),
            frame,
        ),
        "dask array": ((arrays.from_array(X, chunks=(250, 2)), y), arrays.from_array(X, 123)),
        "dask frame": ((split, y), split),
        "coded npy": ((folder / "X.npy", folder / "y.npy"), folder / "X.npy"),
    }


def test_rows_elsewhere_give_the_answer_of_rows_in_memory(in_memory, data, tmp_path):
    model, expected = in_memory
    every = sources(data, tmp_path)
    if isinstance(model, GraphGPClassifier):  # it reads rows by the same code
        every = {name: every[name] for name in ("npy", "dask frame")}
    for name, (arguments, rows) in every.items():
        far = classifier(type(model)).fit(*arguments)
        assert far.n_features_in_ == D
        assert not hasattr(far, "transduction_")
        found = far.predict_proba(rows)
        np.testing.assert_allclose(np.asarray(found), expected, rtol=0, atol=1e-8, err_msg=name)
        labels = np.asarray(far.predict(rows))
        chosen = far.classes_[expected.argmax(axis=1)]
        assert (labels == chosen).all()


@pytest.mark.parametrize(
    ("name", "call"),
    [("transduction_", "predict(X)"), ("label_distributions_", "predict_proba(X)")],
)
def test_what_a_fit_from_a_file_lacks_is_named_with_the_call_that_gives_it(
    data, tmp_path, name, call
):
    X, y = data
    np.save(tmp_path / "X.npy", X)
    model = classifier()
    with pytest.raises(AttributeError, match=f"has no {name} yet; call fit first"):
        getattr(model, name)
    model.fit(tmp_path / "X.npy", y)
    save_model(model, tmp_path / "far.atoll")
    for far in (model, pickle.loads(pickle.dumps(model)), load_model(tmp_path / "far.atoll")):
        assert not hasattr(far, name)
        assert not hasattr(type(far), name)
        check_is_fitted(far)
        with pytest.raises(AttributeError) as raised:
            getattr(far, name)
        assert f"no {name}: its rows came from a file" in str(raised.value)
        assert f"Ask for the rows you want: {call}," in str(raised.value)
    assert not hasattr(clone(model), name)
    with pytest.raises(ValueError, match=r"read them from a file.* Give them: explain_row\("):
        model.explain_row(0)
    assert len(getattr(model.fit(X, y), name)) == N


def test_a_memory_map_is_fitted_and_transduced_as_an_array(in_memory, data, tmp_path):
    model, expected = in_memory
    X, y = data
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    far = classifier(type(model)).fit(mapped, y)
    np.testing.assert_array_equal(far.label_distributions_, model.label_distributions_)
    np.testing.assert_array_equal(far.predict_proba(mapped), expected)


def test_a_dask_answer_is_not_computed_until_it_is_asked_for(in_memory, data):
    model, expected = in_memory
    rows = arrays.from_array(data[0], chunks=(300, D))
    found = model.predict_proba(rows)
    assert isinstance(found, arrays.Array)
    assert found.shape == (N, 2)
    np.testing.assert_allclose(found[250:350].compute(), expected[250:350], rtol=0, atol=1e-12)
    assert model.predict_entropy(rows).shape == (N,)


def test_parts_without_rows_have_no_answers(in_memory, data):
    model, expected = in_memory
    X, _ = data
    parts = [X[:0], X[:300], X[300:300], X[300:]]
    found = model.predict_proba(RowChunks(lambda: iter([(part, None) for part in parts])))
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-8)
    rows = arrays.from_array(X, chunks=(300, D))
    first = rows[:, 0].compute()
    few = rows[rows[:, 0] > np.sort(first)[-3]]  # by which a part may well be empty
    np.testing.assert_array_equal(
        model.predict(few).compute(), model.predict(X[first > np.sort(first)[-3]])
    )
    with pytest.raises(ValueError, match="X holds no rows"):
        model.predict(RowChunks(lambda: iter([(X[:0], None)])))


@pytest.mark.parametrize("n_rows", [N - 1, N + 1])
def test_answers_for_a_wrong_number_of_rows_are_refused(in_memory, data, n_rows):
    chunks = RowChunks(lambda: iter([(data[0], None)]), n_rows=n_rows)
    with pytest.raises(ValueError, match=f"n_rows={n_rows}, and the chunks hold {N} rows"):
        in_memory[0].predict_proba(chunks)


def test_sparse_rows_and_lists_are_predicted_in_chunks(in_memory, data):
    model, expected = in_memory
    for rows in (sparse.csc_array(data[0]), data[0].tolist()):
        found = model.predict_proba(RowChunks.from_arrays(rows, chunk_rows=400))
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-8)


def test_rows_by_number_are_those_of_the_array_in_any_order(data):
    X, y = data
    source = RowChunks.from_arrays(X, y, chunk_rows=77)
    rows = SourceRows(source, source.total(survey).lengths, D)
    asked = np.array([5, 899, 5, 0, 76, 77, 400])
    np.testing.assert_array_equal(rows[asked], X[asked].astype(float))
    assert rows[np.array([], int)].shape == (0, D)
    assert (len(rows), rows.shape) == (N, (N, D))
    np.testing.assert_array_equal(MappedRows(X)[10:12], X[10:12].astype(float))


@pytest.mark.parametrize(
    "y",
    [
        np.array([0, 1, -1, 2, -1, -1, 1]),
        np.array([1, -1, 1, -1, -1, 1, 1]),
        np.array([0.0, np.nan, 1.0, np.nan, 2.0, np.nan, 2.0]),
        np.array(["b", None, "a", None, None, "a", "c"], dtype=object),
        np.array([True, False, None, None, True, True, None], dtype=object),
    ],
)
@pytest.mark.parametrize("chunk_rows", [1, 3, 100])
def test_labels_read_in_chunks_are_those_read_at_once(y, chunk_rows):
    found = RowChunks.from_arrays(np.zeros((7, 1)), y, chunk_rows=chunk_rows).total(survey)
    labels, whole = found.read("auto"), parse_labels(y)
    assert labels.classes.tolist() == whole.classes.tolist()
    np.testing.assert_array_equal(labels.is_labelled, whole.is_labelled)
    np.testing.assert_array_equal(labels.codes[labels.is_labelled], whole.codes[whole.is_labelled])


def test_rows_of_the_graph_are_chosen_without_listing_all_rows():
    labelled = np.array([0, 7, 8, 10**12 - 1])
    kept = choose_rows(np.random.default_rng(0), 10**12, labelled, 1000)
    assert len(np.unique(kept)) == 1000
    assert np.isin(labelled, kept).all()
    every = choose_rows(np.random.default_rng(0), 12, np.array([0, 7]), 11)
    assert len(np.unique(every)) == 11
    assert every.max() < 12
    assert {0, 7} <= set(every.tolist())


def test_dask_ticks_for_every_row_and_sums_the_same(data):
    X, y = data
    rows = DaskRows(arrays.from_array(X, chunks=(200, D)), y)
    heard = []
    total = rows.total(lambda number, X, y: X.sum(dtype=float), heard.append)
    assert sum(heard) == N
    assert len(heard) == 5
    assert np.isclose(total, X.sum(dtype=float))
    assert rows.total(lambda number, X, y: len(X)) == N


def test_progress_is_shown_and_changes_nothing(data, at_a_terminal):
    X, y = data
    capsys = at_a_terminal
    quiet = classifier().fit(RowChunks.from_arrays(X, y, chunk_rows=300))
    assert capsys.readouterr().err == ""
    loud = classifier(verbose=True).fit(RowChunks.from_arrays(X, y, chunk_rows=300))
    found = loud.predict_proba(RowChunks.from_arrays(X, chunk_rows=300))
    shown = capsys.readouterr().err
    assert "reading" in shown
    assert "predicting" in shown
    np.testing.assert_array_equal(found, quiet.predict_proba(X.astype(np.float64)))


def test_long_work_is_shown_to_who_watches_without_being_asked(data, at_a_terminal, monkeypatch):
    X, y = data
    capsys = at_a_terminal
    model = classifier(GraphGPClassifier).fit(X, y)
    assert model.verbose == "auto"
    monkeypatch.setattr(far_rows, "PREDICTED_ROWS", 400)
    quick = model.predict_proba(X)
    assert capsys.readouterr().err == ""  # ten seconds have not gone by
    monkeypatch.setattr("atoll.core.progress.QUICK", 0.0)
    again = classifier(GraphGPClassifier).fit(X, y)
    said = capsys.readouterr().err
    assert "GraphGPClassifier: graph of 120 rows" in said
    assert "all rows" in said
    assert "fitted in" in said
    np.testing.assert_array_equal(again.predict_proba(X), quick)
    assert "predicting" in capsys.readouterr().err
    np.testing.assert_array_equal(again.set_params(verbose=False).predict_proba(X), quick)
    assert capsys.readouterr().err == ""


def test_who_does_not_watch_hears_nothing_of_long_work(data, capfd, monkeypatch):
    X, y = data
    monkeypatch.setattr("atoll.core.progress.QUICK", 0.0)
    monkeypatch.setattr(far_rows, "PREDICTED_ROWS", 400)
    classifier(GraphGPClassifier).fit(X, y).predict_proba(X)
    assert capfd.readouterr().err == ""


def test_pages_of_a_map_that_was_read_are_let_go(tmp_path):
    np.save(tmp_path / "X.npy", np.arange(4.0))
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    let_go(mapped)
    assert mapped.sum() == 6.0
    changed = np.load(tmp_path / "X.npy", mmap_mode="c")
    changed[0] = 5.0
    let_go(changed)  # a private copy of a page would be lost
    assert changed[0] == 5.0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (lambda X, y, f: (f / "absent.npy", y), "there is no file"),
        (lambda X, y, f: (f / "X.npy",), "y is None; pass the labels"),
        (lambda X, y, f: (f / "X.npy", y[:-1]), "899 labels and X has 900 rows"),
        (
            lambda X, y, f: (f / "words.npy", y),
            "an array of numbers with numpy.save",
        ),
        (lambda X, y, f: (RowChunks.from_arrays(X), None), "have no labels; name their column"),
        (lambda X, y, f: (RowChunks.from_arrays(X, y), y), "y is given twice"),
        (lambda X, y, f: (RowChunks.from_arrays(X * np.nan, y),), "in row 0 of chunk 0"),
        (lambda X, y, f: (RowChunks.from_arrays(sparse.csc_array(X), y),), "hold sparse rows"),
        (lambda X, y, f: (arrays.from_array(X[:, 0], chunks=90), y), "Dask collection of 1 dim"),
    ],
)
def test_bad_rows_elsewhere_are_refused_with_the_fix(arguments, message, data, tmp_path):
    X, y = data
    np.save(tmp_path / "X.npy", X)
    (tmp_path / "words.npy").write_text("not an array")
    with pytest.raises(ValueError, match=message):
        classifier().fit(*arguments(X, y, tmp_path))


def test_a_cell_of_a_map_that_is_not_finite_is_named_by_its_row_of_all(data, tmp_path, monkeypatch):
    X, y = data
    monkeypatch.setattr(far_rows, "CHUNK_ROWS", 100)
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r+")
    mapped[731, 1] = np.inf
    with pytest.raises(ValueError, match=r"infinity \(inf\) in row 731, column 1; correct or drop"):
        classifier(GraphGPClassifier).fit(mapped, y)


def test_models_that_need_every_row_at_once_say_so(data):
    X, y = data
    with pytest.raises(ValueError, match="takes rows in memory"):
        ProbitGPClassifier().fit(RowChunks.from_arrays(X, y))
    with pytest.raises(ValueError, match="needs rows in memory"):
        classifier(GraphGPClassifier, metric="precomputed").fit(RowChunks.from_arrays(X, y))


def test_a_folder_without_parquet_files_is_refused(tmp_path):
    with pytest.raises(ValueError, match="has no \\.parquet file"):
        RowChunks.from_parquet(tmp_path, "kind")
    (tmp_path / "bad.parquet").write_bytes(b"nothing")
    with pytest.raises(ValueError, match="cannot be read as Parquet"):
        RowChunks.from_parquet(tmp_path, "kind")


def _slow_block(numbers, path):
    time.sleep(0.2)  # time to kill who reads it
    return np.load(path, mmap_mode="r")[numbers.ravel()]


def _kill_one_when(client, seconds, place):
    """Kill a worker some seconds from now; join the thread to know that it was."""

    def kill():
        time.sleep(seconds)
        os.kill(sorted(client.run(os.getpid).values())[place], signal.SIGKILL)

    thread = threading.Thread(target=kill)
    thread.start()
    return thread


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_killed_workers_lose_nothing(data, tmp_path):
    arrays, distributed = pytest.importorskip("dask.array"), pytest.importorskip("distributed")
    X, y = data
    np.save(tmp_path / "X.npy", X)
    expected = classifier().fit(X, y).predict_proba(X)
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, memory_limit=0, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        rows = arrays.map_blocks(
            _slow_block,
            arrays.arange(N, chunks=45)[:, None],
            path=str(tmp_path / "X.npy"),
            dtype=X.dtype,
            chunks=((45,) * 20, (D,)),
        )
        killing = _kill_one_when(client, 0.8, 0)
        model = classifier().fit(rows, y)
        killing.join()
        killing = _kill_one_when(client, 0.8, 1)
        found = model.predict_proba(rows).compute()
        killing.join()
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-8)
