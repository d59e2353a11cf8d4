"""Run the proofs that take hours, in parallel, and go on where the last run ended.

    python tests/proof/run.py sbc --workers 2 --seconds 3600
    python tests/proof/run.py geweke --workers 2
    python tests/proof/run.py referees --workers 2
    python tests/proof/run.py page

Every simulation and every test has a seed of its own and is one line of a journal, in --state; what
is there already is not done again. `page` writes tables and pictures from the journals.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import zlib
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from pathlib import Path

if __name__ == "__main__":  # before NumPy is imported; workers inherit it
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")
    one_thread = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
    os.environ.setdefault("XLA_FLAGS", one_thread)
    # What one process has compiled, the others need not.
    os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", "build/proof/compiled")
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np

SEED = 20_26
AT_ONCE = 5  # simulations of a task


def seeded(kind, name, number):
    """A stream for one simulation, whatever the order in which they are run."""
    return np.random.default_rng([SEED, zlib.crc32(f"{kind}/{name}".encode()), number])


def cases():
    from proof.calibration import CASES
    from proof.calibration_graphs import GRAPH_CASES

    return CASES | GRAPH_CASES


def simulate(name, numbers):
    """Lines of the journal for some simulations of a case."""
    from proof.calibration import N_DRAWS
    from proof.ranks import rank

    lines = []
    for number in numbers:
        rng = seeded("sbc", name, number)
        rng_ties = rng.spawn(1)[0]
        started = time.process_time()
        n, truth, draws = cases()[name].simulate(rng)
        ranks = {what: rank(rng_ties, truth[what], draws[what]) for what in truth}
        seconds = round(time.process_time() - started, 3)
        line = {"case": name, "number": number, "n": n, "draws": N_DRAWS, "seconds": seconds}
        lines.append(line | {"ranks": ranks})
    return lines


def test_move(name, number):
    """One line of the journal for a Geweke test of a move."""
    from proof.joint_tests import MOVES

    started = time.process_time()
    result = MOVES[name].run(seeded("geweke", name, number))
    return [
        {
            "case": name,
            "number": number,
            "n": MOVES[name].n,
            "seconds": round(time.process_time() - started, 3),
            "names": list(result.names),
            "t": [round(float(t), 3) for t in result.t_scores],
            "p": [float(f"{p:.3g}") for p in result.p_values],
            "failures": list(result.failures),
        }
    ]


def referee(number):
    """One line of the journal for a data set under a model, by us and by NUTS."""
    from referees import compare

    started = time.process_time()
    found = compare.run_case(*compare.CASES[number])
    return [referee_line(number, found, time.process_time() - started)]


def referee_line(number, found, seconds):
    from referees import compare

    name, n, _ = compare.CASES[number]
    columns = {"ours": found.ours, "theirs": found.theirs, "error": found.error}
    return {
        "case": name,
        "number": number,
        "n": n,
        "seconds": round(seconds, 3),
        "names": list(found.names),
        "bound": round(found.bound, 3),
        "ess": [[round(float(x), 1) for x in side] for side in found.ess],
        **{what: [float(f"{x:.6g}") for x in values] for what, values in columns.items()},
    }


def parts_of(number, folder):
    """(side, part, file) of all chains of a data set that is sampled in parts."""
    from referees import compare

    name, n, _ = compare.CASES[number]
    return [
        (side, part, folder / f"{number}-{side}-{part}.npz")
        for side in compare.Sides._fields
        for part in range(compare.lengths(name, n).parts)
    ]


def referee_part(number, side, part, file):
    """Some chains of one side of a data set, into a file; no line of the journal."""
    from atoll.core.files import atomic_path
    from referees import compare

    name, n, seed = compare.CASES[number]
    started = time.process_time()
    sides = compare.MODELS[name](n, seed)
    parameters, classes = getattr(sides, side)(compare.lengths(name, n), part)
    file.parent.mkdir(parents=True, exist_ok=True)
    with atomic_path(file) as temporary, open(temporary, "wb") as out:
        np.savez_compressed(
            out,
            names=list(parameters),
            parameters=np.stack(list(parameters.values())),
            classes=np.asarray(classes, dtype=np.float32),
            seconds=time.process_time() - started,
        )
    return []


def join_parts(number, folder):
    """One line of the journal for a data set of which all parts have been run, else none."""
    from referees import compare

    found = {side: [] for side in compare.Sides._fields}
    seconds = 0.0
    for side, _, file in parts_of(number, folder):
        if not file.exists():
            return []
        with np.load(file) as read:
            found[side].append((dict(zip(read["names"], read["parameters"])), read["classes"]))
            seconds += float(read["seconds"])
    ours, theirs = map(compare.joined, found.values())
    return [referee_line(number, compare.compare(ours, theirs), seconds)]


def read_journal(file):
    """Lines that are whole; a run that was killed may have left half of one at the end."""
    lines = []
    if file.exists():
        for line in file.read_text(encoding="utf-8").splitlines():
            try:
                lines.append(json.loads(line))
            except json.JSONDecodeError:
                continue
    return lines


def work(file, tasks, workers, seconds, executor=ProcessPoolExecutor):
    """Run tasks (function, arguments), in processes, and append what they return to the journal."""
    ends, waiting, failed = time.monotonic() + seconds, list(reversed(tasks)), 0
    file.parent.mkdir(parents=True, exist_ok=True)
    if file.exists() and not file.read_bytes().endswith(b"\n"):
        with file.open("a", encoding="utf-8") as stream:
            stream.write("\n")  # closes half a line
    with executor(workers) as pool, file.open("a", encoding="utf-8") as stream:
        running = set()
        while (waiting and time.monotonic() < ends) or running:
            while waiting and len(running) < workers + 2 and time.monotonic() < ends:
                function, arguments = waiting.pop()
                running.add(pool.submit(function, *arguments))
            done, running = wait(running, return_when=FIRST_COMPLETED)
            for one in done:
                if one.exception() is not None:
                    failed += 1
                    print(f"failed: {one.exception()!r}", file=sys.stderr, flush=True)
                    continue
                for line in one.result():
                    stream.write(json.dumps(line, ensure_ascii=False) + "\n")
                stream.flush()
    left = len(waiting)
    print(f"{file.name}: {left} tasks left, {failed} failed", flush=True)
    return left, failed


def sbc_tasks(only, n_simulations, journal):
    done = {(line["case"], line["number"]) for line in journal}
    tasks = []
    for name in only or cases():
        for first in range(0, n_simulations, AT_ONCE):
            last = min(first + AT_ONCE, n_simulations)
            left = [i for i in range(first, last) if (name, i) not in done]
            if left:
                tasks.append((first, (simulate, (name, left))))
    tasks.sort(key=lambda task: task[0])  # all cases go on together
    return [task for _, task in tasks]


def geweke_tasks(only, n_repeats, journal):
    from proof.joint_tests import MOVES

    done = {(line["case"], line["number"]) for line in journal}
    return [
        (test_move, (name, i))
        for i in range(n_repeats)
        for name in only or MOVES
        if (name, i) not in done
    ]


def referee_tasks(only, journal, folder):
    """What is left to be run: data sets, or parts of those that take long."""
    from referees.compare import CASES, LONG

    done = {line["number"] for line in journal}
    tasks = []
    for i, (name, n, _) in enumerate(CASES):
        if i in done or (only and name not in only):
            continue
        if (name, n) in LONG:
            parts = parts_of(i, folder)
            tasks += [(referee_part, (i, *part)) for part in parts if not part[-1].exists()]
        else:
            tasks.append((referee, (i,)))
    return tasks


def join_tasks(only, journal, folder):
    """Data sets whose parts are to be joined."""
    from referees.compare import CASES, LONG

    done = {line["number"] for line in journal}
    return [
        (join_parts, (i, folder))
        for i, (name, n, _) in enumerate(CASES)
        if i not in done and (name, n) in LONG and (not only or name in only)
    ]


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["sbc", "geweke", "referees", "page"])
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--seconds", type=float, default=np.inf, help="begin nothing after these")
    parser.add_argument("--simulations", type=int, default=1000)
    parser.add_argument("--repeats", type=int, default=1, help="of every Geweke test")
    parser.add_argument("--only", nargs="*", default=None, help="cases, by name")
    parser.add_argument("--state", type=Path, default=Path("build/proof"))
    parser.add_argument("--out", type=Path, default=Path("docs/proof"))
    options = parser.parse_args(arguments)
    if options.what == "page":
        from proof import page

        page.write(options.state, options.out)
        return 0
    from proof.page import read_lines, read_ranks

    file = options.state / f"{options.what}.jsonl"
    journal = read_journal(file)
    # What the documentation has is done, too.
    if options.what == "sbc":
        journal += read_ranks(options.out / "ranks.csv")
    else:
        journal += read_lines(options.out / f"{options.what}.jsonl")
    if options.what == "sbc":
        tasks = sbc_tasks(options.only, options.simulations, journal)
    elif options.what == "referees":
        tasks = referee_tasks(options.only, journal, options.state / "parts")
    else:
        tasks = geweke_tasks(options.only, options.repeats, journal)
    _, failed = work(file, tasks, options.workers, options.seconds)
    if options.what == "referees":
        joining = join_tasks(options.only, journal, options.state / "parts")
        failed += work(file, joining, 1, np.inf)[1]
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
