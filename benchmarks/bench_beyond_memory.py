"""Rows that do not fit in memory: seconds and resident memory of the default classifier.

Rows are two bent clouds in the first columns and noise in the others, written to disk in chunks;
one row in ten thousand has a label. Every measured step has a process of its own, whose largest
resident memory the system tells; one thread unless OMP_NUM_THREADS says otherwise.

1. `disk`: fit from a .npy file and predict every row of it.
2. `same`: the same fit from disk and from an array in memory, on a smaller file; largest difference
   of the class probabilities of all its rows.
3. `killed`: two Dask workers, of which one is killed in the fit and one in the prediction, once so
   many blocks of rows were read; largest difference from the answer in memory.
4. `csv`: a model fitted by `atoll fit` to a small table, and `atoll predict` on a large one.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import json
import multiprocessing
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

BLOCK = 200_000  # rows that are made at a time
LABELLED = 10_000  # one row in so many


# --- rows -----------------------------------------------------------------------------------------


def some_rows(start, n, n_columns):
    """Rows start … start + n and their classes, whatever the blocks they are made in."""
    rng = np.random.default_rng([start, n_columns])
    y = rng.integers(2, size=n)
    angle = np.pi * rng.random(n)
    X = rng.standard_normal((n, n_columns), dtype=np.float32)
    X *= 0.3
    X[:, 0] += np.where(y, 1.0 - np.cos(angle), np.cos(angle))
    X[:, 1] += np.where(y, 0.5 - np.sin(angle), np.sin(angle))
    X[:, 2] += 1.5 * y
    return X, y


def make_rows(folder, n, n_columns):
    """Write X.npy, float32, y.npy with -1 where unlabelled and truth.npy; return the seconds."""
    began = time.perf_counter()
    path = folder / "X.npy"
    if path.exists() and np.load(path, mmap_mode="r").shape == (n, n_columns):
        return 0.0  # made already
    X = np.lib.format.open_memmap(folder / "X.npy", "w+", np.float32, (n, n_columns))
    truth = np.empty(n, np.int8)
    for start in range(0, n, BLOCK):
        stop = min(start + BLOCK, n)
        X[start:stop], truth[start:stop] = some_rows(start, stop - start, n_columns)
    X.flush()
    del X
    y = np.full(n, -1, np.int8)
    known = np.random.default_rng(1).choice(n, max(n // LABELLED, 40), replace=False)
    y[known] = truth[known]
    np.save(folder / "y.npy", y)
    np.save(folder / "truth.npy", truth)
    return time.perf_counter() - began


# --- processes of their own -----------------------------------------------------------------------


def resident():
    """The largest resident memory of this process so far, in MB (10^6 bytes).

    As Linux tells it of the process alone: what `resource` tells includes the one that began it.
    """
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return float(status.partition("VmHWM:")[2].split()[0]) * 1024 / 1e6


def in_a_process(function, *arguments):
    """What a function returns, run in a fresh process."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(function, arguments)


def classifier(**options):
    from atoll import AtollClassifier

    return AtollClassifier(unlabelled=-1, random_state=0, **options)


def watch(path):
    """Write the resident memory of this process to a file every five seconds, in MB."""

    def write():
        began = time.perf_counter()
        while True:
            pages = int(Path("/proc/self/statm").read_text().split()[1])
            with open(path, "a", encoding="utf-8") as file:
                megabytes = pages * os.sysconf("SC_PAGE_SIZE") / 1e6
                file.write(f"{time.perf_counter() - began:.0f} s, {megabytes:.0f} MB\n")
            time.sleep(5)

    threading.Thread(target=write, daemon=True).start()


def fit_and_predict(folder, verbose, most, log):
    from atoll import AtollClassifier, RowChunks  # noqa: F401 - what it takes itself is known

    if log:
        watch(log)
    found = {"imported_mb": resident()}
    began, spent = time.perf_counter(), time.process_time()
    model = classifier(verbose=verbose).fit(folder / "X.npy", folder / "y.npy")
    found |= {"fit_s": time.perf_counter() - began, "fit_cpu_s": time.process_time() - spent}
    found["fit_mb"] = resident()
    began, spent = time.perf_counter(), time.process_time()
    rows = folder / "X.npy"
    if most:
        rows = RowChunks.from_arrays(np.load(rows, mmap_mode="r")[:most], chunk_rows=20_000)
    p = model.predict_proba(rows)
    found |= {"predicted": len(p)}
    found |= {"predict_s": time.perf_counter() - began}
    found |= {"predict_cpu_s": time.process_time() - spent, "predict_mb": resident()}
    truth = np.load(folder / "truth.npy", mmap_mode="r")
    part = np.load(folder / "X.npy", mmap_mode="r")[:20_000].astype(float)
    found["difference_on_a_part"] = float(np.abs(model.predict_proba(part) - p[:20_000]).max())
    found["error"] = float(np.mean(p.argmax(axis=1) != truth[: len(p)]))
    return found


def fit_both_ways(folder):
    X, y = np.load(folder / "X.npy"), np.load(folder / "y.npy")
    model = classifier().fit(X, y)
    inside = model.predict_proba(X)
    far = classifier().fit(folder / "X.npy", folder / "y.npy")
    outside = far.predict_proba(folder / "X.npy")
    return {"difference": float(np.abs(inside - outside).max()), "memory_mb": resident()}


# --- workers that are killed ----------------------------------------------------------------------


def kill_after(client, marks, n_blocks, which):
    """Kill a worker of a cluster once so many blocks were read, in the background.

    Returns the thread, and a list that will hold how many blocks had been read by then.
    """
    killed, before = [], len(os.listdir(marks))

    def kill():
        pids = sorted(client.run(os.getpid).values())
        while len(os.listdir(marks)) < before + n_blocks:
            time.sleep(0.02)
        os.kill(pids[which], signal.SIGKILL)
        killed.append(len(os.listdir(marks)) - before)

    thread = threading.Thread(target=kill, daemon=True)
    thread.start()
    return killed, thread


def with_killed_workers(folder, chunk_rows, fit_after, predict_after):
    import dask.array as arrays
    import distributed

    X, y = np.load(folder / "X.npy", mmap_mode="r"), np.load(folder / "y.npy")
    expected = classifier().fit(np.array(X), y).predict_proba(np.array(X))
    marks = Path(tempfile.mkdtemp(dir=folder))
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, memory_limit=0, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        rows = arrays.map_blocks(
            slow_block,
            arrays.arange(len(X), chunks=chunk_rows)[:, None],
            path=str(folder / "X.npy"),
            marks=str(marks),
            dtype=np.float32,
            chunks=(arrays.core.normalize_chunks(chunk_rows, (len(X),))[0], (X.shape[1],)),
        )
        found = {"blocks": rows.numblocks[0]}
        first, watch = kill_after(client, marks, fit_after, 0)
        began = time.perf_counter()
        model = classifier().fit(rows, y)
        found["fit_s"] = time.perf_counter() - began
        watch.join()
        found |= {"killed_in_fit_after": first[0], "read_in_fit": len(os.listdir(marks))}
        second, watch = kill_after(client, marks, predict_after, 1)
        began = time.perf_counter()
        p = model.predict_proba(rows).compute()
        found["predict_s"] = time.perf_counter() - began
        watch.join()
    found |= {
        "killed_in_predict_after": second[0],
        "read_in_predict": len(os.listdir(marks)) - found["read_in_fit"],
        "difference": float(np.abs(p - expected).max()),
    }
    shutil.rmtree(marks)
    return found


def slow_block(numbers, path, marks):
    """Rows by their numbers, slowly, so that there is time to kill who reads them; leave a mark."""
    time.sleep(0.3)
    if len(numbers) > 1:  # dask tries the function on an empty block
        tempfile.mkstemp(dir=marks)
    return np.load(path, mmap_mode="r")[numbers.ravel()]


# --- a large text file ----------------------------------------------------------------------------


def make_csv(folder, n, n_columns):
    """Write a table for the fit and a large one without labels; return the size in bytes."""
    import pandas as pd

    names = [f"x{j}" for j in range(n_columns)]
    X, y = some_rows(0, 2000, n_columns)
    label = np.where(np.arange(2000) < 40, np.where(y, "yes", "no"), "")
    pd.DataFrame(X, columns=names).assign(kind=label).to_csv(folder / "small.csv", index=False)
    X, _ = some_rows(BLOCK, 20_000, n_columns)
    block = pd.DataFrame(X, columns=names).to_csv(index=False, header=False).encode()
    with open(folder / "large.csv", "wb") as file:
        file.write((",".join(names) + "\n").encode())
        for _ in range(-(-n // 20_000)):
            file.write(block)
    return os.path.getsize(folder / "large.csv")


def run_program(*arguments):
    """Seconds and largest resident memory of the command line, in MB."""
    program = [sys.executable, "-c", "from atoll.cli import main; main()", *map(str, arguments)]
    began = time.perf_counter()
    child = subprocess.Popen(program)
    _, status, usage = os.wait4(child.pid, 0)
    if status:
        raise SystemExit(f"{' '.join(map(str, arguments))} failed")
    return time.perf_counter() - began, usage.ru_maxrss * 1024 / 1e6


def predict_csv(folder, n, n_columns):
    n_bytes = make_csv(folder, n, n_columns)
    model, out = folder / "model.atoll", folder / "predictions.csv"
    run_program("fit", folder / "small.csv", "--target", "kind", "--out", model)
    _, small = run_program("predict", model, folder / "small.csv", "--out", out)
    seconds, large = run_program("predict", model, folder / "large.csv", "--out", out)
    with open(out, encoding="utf-8") as file:
        n_lines = sum(1 for _ in file)
    return {"csv_gb": n_bytes / 1e9, "rows": -(-n // 20_000) * 20_000, "lines": n_lines,
            "predict_s": seconds, "resident_mb": large, "resident_small_mb": small}  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=("disk", "same", "killed", "csv"))
    parser.add_argument("--folder", default="/tmp/beyond-memory", help="for the rows; kept")
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--columns", type=int, default=50)
    parser.add_argument("--out", help="file to which the numbers are added, a line of JSON each")
    parser.add_argument("--most", type=int, help="predict only so many rows of the file")
    parser.add_argument("--log", help="file for the resident memory, every five seconds")
    parser.add_argument("--after", type=int, nargs=2, default=(6, 6),
                        help="blocks, of 24, that are read before a worker is killed")  # fmt: skip
    options = parser.parse_args()
    folder = Path(options.folder)
    folder.mkdir(parents=True, exist_ok=True)
    found = {"part": options.part, "rows": options.rows, "columns": options.columns}
    if options.part == "csv":
        found |= predict_csv(folder, options.rows, options.columns)
    else:
        found["make_s"] = make_rows(folder, options.rows, options.columns)
        if options.part == "disk":
            found["threads"] = int(os.environ["OMP_NUM_THREADS"])
            found |= in_a_process(fit_and_predict, folder, True, options.most, options.log)
        elif options.part == "same":
            found |= in_a_process(fit_both_ways, folder)
        else:
            chunk = max(1, options.rows // 24)
            found |= with_killed_workers(folder, chunk, *options.after)
    print(json.dumps(found, indent=1))
    if options.out:
        with open(options.out, "a", encoding="utf-8") as file:
            file.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
