"""Would the tests notice? Makes small mistakes in the code and counts those that no test sees.

    python tests/mutation/mutate.py --processes 2 --sample 1000 --out build/mutants

The tests are collected once. Which lines each test runs is found first, test file by test file.
Then, for each mutant, a copy of this process (a fork) gets the mutant's code and runs the tests
that run its statement, until one fails: the mutant is killed, as is one that runs on past its time.
What was found is kept in the folder `--out`, so that a run that was cut short goes on.
"""

from __future__ import annotations

import argparse
import builtins
import csv
import gc
import hashlib
import importlib
import json
import os
import pkgutil
import resource
import signal
import sys
import time
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from _pytest.runner import runtestprotocol
from _pytest.warnings import catch_warnings_for_item

sys.path.insert(0, str(Path(__file__).parent))
from mutants import (
    Mutant,
    loaded_functions,
    mutants_of,
    put_in_place,
    put_tree_in_place,
    with_marks,
)

PACKAGES = ("core", "likelihoods", "inference", "models")
TESTS = (
    *(f"src/atoll/{package}" for package in PACKAGES),
    "tests/core",
    "tests/kernels",
    "tests/likelihoods",
    "tests/inference",
    "tests/models",
    "tests/equivalence",
    "tests/estimators",
    "tests/diagnostics",
    "tests/active",
    "tests/test_battery.py",
)
SECONDS = 20.0  # of tests for one mutant, by what they take without it
LONGEST_TEST = 6.0
LONGEST_ALONE = 30.0
LATE = "ran past its time"
ROUNDS = 5
MOST_VARIANTS = 12  # of one test with many parameters
MEMORY = 8 * 2**30
MARKS = "__lines_that_ran__"


def package_root() -> Path:
    import atoll

    return Path(atoll.__file__).parent


def every_mutant() -> list[Mutant]:
    """Return the mutants of the four packages, file by file."""
    root = package_root()
    files = sorted(file for package in PACKAGES for file in (root / package).rglob("*.py"))
    return [
        mutant
        for file in files
        for mutant in mutants_of(file.read_text(), str(file.relative_to(root)))
    ]


def load_everything() -> None:
    """Import every module of the four packages, so that all of their functions can be changed."""
    for package in PACKAGES:
        found = pkgutil.walk_packages([str(package_root() / package)], f"atoll.{package}.")
        for module in found:
            importlib.import_module(module.name)


def sampled(n: int, seed: int) -> list[Mutant]:
    """Return n of all mutants, by lot: in the order of digests of their names."""
    return sorted(every_mutant(), key=lambda mutant: short_name(f"{seed} {mutant.name}"))[:n]


# Which lines a test runs --------------------------------------------------------------------------


class Lines:
    """Hears which lines of our files are run: statements of loaded functions set a mark each."""

    def __init__(self, root: Path):
        functions = loaded_functions(root)
        self.places: list[tuple[str, tuple[int, int]]] = []
        for file in sorted({file for file, _ in functions}):
            if file.split("/")[0] in PACKAGES:
                source = (root / file).read_text()
                tree, places = with_marks(source, len(self.places), MARKS)
                put_tree_in_place(root, file, tree, functions)
                self.places += [(file, place) for place in places]
        self.marks = bytearray(len(self.places))
        setattr(builtins, MARKS, self.marks)

    def start(self) -> None:
        self.marks[:] = bytes(len(self.marks))

    def seen(self) -> bytes:
        """Return one byte for each statement, 1 if it has run since the start."""
        return bytes(self.marks)

    def by_file(self, seen: bytes) -> dict[str, list[int]]:
        """Return the lines of statements that have run, by file."""
        lines: dict[str, set[int]] = defaultdict(set)
        for (file, (first, last)), mark in zip(self.places, seen):
            if mark:
                lines[file].update(range(first, last + 1))
        return {file: sorted(found) for file, found in lines.items()}


def map_file(items: list[Any], out: Path) -> None:
    """Run the tests of one file; write the lines, the time and the outcome of each."""
    lines = Lines(package_root())
    shared: dict[int, dict[str, list[int]]] = {}  # what fixtures of many tests run
    found = {}
    for item, following in zip(items, [*items[1:], None]):
        before = set(shared)
        lines.start()
        began = time.process_time()
        passed, reports = _run(item, following, shared, lines)
        own = lines.by_file(lines.seen())
        took = time.process_time() - began
        for definitions in item._fixtureinfo.name2fixturedefs.values() if passed else ():
            for key in {id(d) for d in definitions} & before:
                for file, numbers in shared[key].items():
                    own[file] = sorted({*own.get(file, []), *numbers})
        skipped = any(report.skipped for report in reports)
        found[item.nodeid] = {"passed": passed and not skipped, "seconds": took, "lines": own}
    write(out, found)


def _run(item: Any, following: Any, shared: Any = None, lines: Any = None) -> tuple[bool, Any]:
    if shared is not None:
        item.config.pluginmanager.register(_Fixtures(shared, lines), "mutation fixtures")
    try:
        # As pytest itself does around a test: else marks that let warnings pass would not count.
        with catch_warnings_for_item(item.config, item.ihook, when="runtest", item=item):
            reports = runtestprotocol(item, nextitem=following, log=False)
    finally:
        if shared is not None:
            item.config.pluginmanager.unregister(name="mutation fixtures")
    return not any(report.failed for report in reports), reports


class _Fixtures:
    """Keeps the lines that a fixture of a whole module or session runs: all its users run them."""

    def __init__(self, shared: dict[int, Any], lines: Lines):
        self.shared, self.lines = shared, lines

    @pytest.hookimpl(hookwrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any) -> Iterator[None]:
        before = self.lines.seen()
        yield
        if fixturedef.scope != "function":
            after = self.lines.seen()
            new = bytes(now and not earlier for now, earlier in zip(after, before))
            self.shared[id(fixturedef)] = self.lines.by_file(new)


# One mutant ---------------------------------------------------------------------------------------


def tests_for(mutant: Mutant, tests: dict[str, Any], seconds: float) -> list[str]:
    """Return the tests that run the mutant's statement, the likeliest to notice and quick first.

    Those of the file that mirrors the source come first, then file by file; together they take at
    most `seconds` without the mutant.
    """
    wanted = range(mutant.first, mutant.last + 1)
    by_file: dict[str, list[str]] = defaultdict(list)
    for name, test in tests.items():
        lines = test["lines"].get(mutant.file, ())
        if test["passed"] and test["seconds"] < LONGEST_TEST and any(i in lines for i in wanted):
            by_file[name.split("::")[0]].append(name)
    stem = Path(mutant.file).stem
    package = Path(mutant.file).parent.name

    def distance(file: str) -> tuple[int, float]:
        test_stem = Path(file).stem.removeprefix("test_")
        near = (
            0 if test_stem == stem else 1 if package in (Path(file).parent.name, test_stem) else 2
        )
        return near, sum(tests[name]["seconds"] for name in by_file[file])

    chosen: list[str] = []
    left = seconds
    for file in sorted(by_file, key=distance):
        share = left if distance(file)[0] == 0 else max(left / 4, 1.0)
        variants: Counter[str] = Counter()
        for name in sorted(by_file[file], key=lambda name: tests[name]["seconds"]):
            cost = tests[name]["seconds"] + 0.003
            variants[name.split("[")[0]] += 1
            if cost <= min(share, left) and variants[name.split("[")[0]] <= MOST_VARIANTS:
                chosen.append(name)
                share -= cost
                left -= cost
    return chosen


def most_seconds(usual: float) -> float:
    """Return the CPU seconds that a test may take with a mutant, if it takes `usual` without."""
    return 3.0 + 4.0 * usual


def running_test(out: Path) -> Path:
    return out.with_suffix(".now")


def time_alone(item: Any, out: Path) -> None:
    """Run a test in a process of its own, without a mutant; write the CPU seconds that it took.

    In a file's run, a test before it may have paid for what both use: a fixture, a compilation.
    """
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_PROF, LONGEST_ALONE)
    began = time.process_time()
    _run(item, None)
    write(out, {"test": item.nodeid, "seconds": time.process_time() - began})


def try_mutant(
    mutant: Mutant, items: list[Any], seconds: list[float], out: Path, functions: Any
) -> None:
    """Run the tests with the mutant in place; write which noticed.

    A test that takes far longer than its `seconds` ends the process by a signal; a file beside
    `out` says which.
    """
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    n_functions = put_in_place(package_root(), mutant, functions)
    verdict: dict[str, Any] = {"mutant": mutant._asdict(), "name": mutant.name}
    verdict |= {"n_tests": len(items), "killed_by": None, "loaded": n_functions > 0}
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    for item, following, usual in zip(items, [*items[1:], None], seconds):
        running_test(out).write_text(item.nodeid)
        signal.setitimer(signal.ITIMER_PROF, most_seconds(usual))
        passed, _ = _run(item, following)
        if not passed:
            verdict["killed_by"] = item.nodeid
            break
    signal.setitimer(signal.ITIMER_PROF, 0.0)
    write(out, verdict)


# Many processes -----------------------------------------------------------------------------------


def write(path: Path, content: Any) -> None:
    temporary = path.with_suffix(f".{os.getpid()}")
    temporary.write_text(json.dumps(content))
    temporary.replace(path)


Task = tuple[Callable[[], None], float, Callable[[str], None]]
"""What to do in a copy of this process, its limit in seconds, and what to do if it ends badly."""


def in_copies(tasks: Iterable[Task], n_processes: int, until: float) -> None:
    """Do each task in a fork of this process, `n_processes` at a time; begin none past `until`."""
    running: dict[int, tuple[float, Callable[[str], None]]] = {}
    waiting = iter(tasks)
    exhausted = False
    while running or not exhausted:
        while not exhausted and len(running) < n_processes:
            task = next(waiting, None) if time.time() < until else None
            if task is None:
                exhausted = True
                break
            work, limit, failed = task
            with warnings.catch_warnings():  # of threads, which no test has begun here
                warnings.simplefilter("ignore")
                pid = os.fork()
            if pid == 0:
                _work_and_leave(work)
            running[pid] = (time.time() + limit, failed)
        for pid, (deadline, failed) in list(running.items()):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                del running[pid]
                if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGPROF:
                    failed(LATE)
                elif status != 0:
                    failed("crashed")
            elif time.time() > deadline:
                os.killpg(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                del running[pid]
                failed(LATE)
        time.sleep(0.005)


def _work_and_leave(work: Callable[[], None]) -> None:
    status = 1
    try:
        os.setpgrp()
        nowhere = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(nowhere, stream)
        work()
        status = 0
    finally:
        os._exit(status)


# The whole ----------------------------------------------------------------------------------------


class Mutation:
    """Takes the tests that pytest collected and, in place of running them, tries mutants."""

    def __init__(self, options: argparse.Namespace):
        self.options = options
        self.out = Path(options.out)
        self.tried: set[str] = set()

    def pytest_runtestloop(self, session: Any) -> bool:
        (self.out / "map").mkdir(parents=True, exist_ok=True)
        (self.out / "tried").mkdir(exist_ok=True)
        (self.out / "alone").mkdir(exist_ok=True)
        until = time.time() + self.options.minutes * 60
        load_everything()
        if self.options.longest:
            left_out = set(Path(self.options.longest).read_text().splitlines())
            session.items[:] = [item for item in session.items if item.nodeid not in left_out]
        self.map_tests(session.items, until)
        tests = self.tests()
        if time.time() < until:
            self.try_mutants({item.nodeid: item for item in session.items}, tests, until)
        return True

    def map_tests(self, items: list[Any], until: float) -> None:
        by_file: dict[str, list[Any]] = defaultdict(list)
        for item in items:
            by_file[item.nodeid.split("::")[0]].append(item)
        waiting = {file: self.out / "map" / f"{short_name(file)}.json" for file in by_file}
        waiting = {file: path for file, path in waiting.items() if not path.exists()}
        if waiting:
            print(f"which lines do tests run? {len(waiting)} test files", flush=True)
        # The long ones first, so that no process waits long at the end.
        order = sorted(waiting, key=lambda file: -len(by_file[file]))
        tasks = (
            (
                lambda file=file: map_file(by_file[file], waiting[file]),
                600.0,
                lambda why, file=file: print(f"{file} {why}", flush=True),
            )
            for file in order
        )
        in_copies(tasks, self.options.processes, until)

    def tests(self) -> dict[str, Any]:
        tests: dict[str, Any] = {}
        for path in (self.out / "map").glob("*.json"):
            tests |= json.loads(path.read_text())
        for test in tests.values():
            test["lines"] = {file: set(lines) for file, lines in test["lines"].items()}
        failed = [name for name, test in tests.items() if not test["passed"]]
        print(f"{len(tests)} tests; {len(failed)} fail or are skipped without a mutant", flush=True)
        return tests

    def try_mutants(self, items: dict[str, Any], tests: dict[str, Any], until: float) -> None:
        """Try the sample; then those again whose test is as slow alone, without the mutant."""
        tests = {name: test for name, test in tests.items() if name in items}
        functions = loaded_functions(package_root())
        gc.collect()
        gc.freeze()  # else every copy would go through, and so copy, all that is loaded here
        mutants = self.mutants()
        for _ in range(ROUNDS):
            self.take_alone(tests)
            waiting = [mutant for mutant in mutants if self.is_waiting(mutant, tests)]
            if not waiting or time.time() > until:
                break
            print(f"{len(waiting)} mutants", flush=True)
            tasks = (self.task(mutant, items, tests, functions) for mutant in waiting)
            in_copies((task for task in tasks if task), self.options.processes, until)
            self.time_slow_tests(items, until)

    def mutants(self) -> list[Mutant]:
        if self.options.kept:
            every = {mutant.name: mutant for mutant in every_mutant()}
            known = sorted(tried_mutants(self.out), key=lambda one: one["n_tests"])
            chosen = tuple(self.options.only.split(","))
            mine = [one for one in known if one["mutant"]["file"].startswith(chosen)]
            return [every[one["name"]] for one in mine]
        return sampled(self.options.sample, self.options.seed)[self.options.begin :]

    def task(
        self, mutant: Mutant, items: dict[str, Any], tests: dict[str, Any], functions: Any
    ) -> Task | None:
        self.tried.add(mutant.name)
        path = self.verdict(mutant)
        names = tests_for(mutant, tests, self.options.seconds)
        usual = [tests[name]["seconds"] for name in names]
        chosen = [items[name] for name in names]
        record = {"mutant": mutant._asdict(), "name": mutant.name, "n_tests": len(names)}
        if not names:  # what an earlier run tried still counts
            if not path.exists():
                write(path, record | {"killed_by": None, "loaded": True})
            return None

        def failed(why: str) -> None:
            test = running_test(path).read_text() if running_test(path).exists() else ""
            took = tests[test]["seconds"] if test else 0.0
            found = {"killed_by": why, "loaded": True, "test": test, "usual": took}
            write(path, record | found)

        work = partial(try_mutant, mutant, chosen, usual, path, functions)
        return work, 60.0 + 8.0 * sum(usual), failed

    def verdict(self, mutant: Mutant) -> Path:
        return self.out / "tried" / f"{short_name(mutant.name)}.json"

    def is_waiting(self, mutant: Mutant, tests: dict[str, Any]) -> bool:
        """Whether a mutant is to be tried: the first time, or with other tests than the last."""
        path = self.verdict(mutant)
        if not path.exists():
            return True
        found = json.loads(path.read_text())
        if found["killed_by"] is None:
            return bool(self.options.survivors) and mutant.name not in self.tried
        if found["killed_by"] != LATE:
            return False
        test = found.get("test")
        return test is None or tests.get(test, {"seconds": 0.0})["seconds"] > 2 * found["usual"] + 1

    def take_alone(self, tests: dict[str, Any]) -> None:
        """Let tests count what they take alone, where that is known."""
        for path in (self.out / "alone").glob("*.json"):
            found = json.loads(path.read_text())
            if found["test"] in tests:
                tests[found["test"]]["seconds"] = found["seconds"]

    def time_slow_tests(self, items: dict[str, Any], until: float) -> None:
        """Find what tests take alone under which a mutant ran past its time."""
        late = set()
        for path in (self.out / "tried").glob("*.json"):
            found = json.loads(path.read_text())
            if found["killed_by"] == LATE and found.get("test") in items:
                late.add(found["test"])

        def task(name: str, out: Path) -> Task:
            known = {"test": name, "seconds": LONGEST_ALONE}
            return partial(time_alone, items[name], out), 120.0, lambda _: write(out, known)

        paths = {name: self.out / "alone" / f"{short_name(name)}.json" for name in sorted(late)}
        tasks = [task(name, path) for name, path in paths.items() if not path.exists()]
        in_copies(tasks, self.options.processes, until)


def short_name(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()[:16]


REASONS = Path(__file__).with_name("survivors.csv")
"""What is to be said of mutants that no test notices: file, function, code, kind, why."""


def key_of(mutant: dict[str, Any]) -> tuple[str, str, str, str]:
    """Return what names a mutant as long as its line stays the same, wherever the line is."""
    return mutant["file"], mutant["function"], mutant["code"], mutant["kind"]


def reasons() -> dict[tuple[str, ...], str]:
    if not REASONS.exists():
        return {}
    with REASONS.open(newline="") as file:
        return {tuple(line[:4]): line[4] for line in list(csv.reader(file))[1:]}


def tried_mutants(out: Path) -> list[dict[str, Any]]:
    """Return what was found of the mutants that were tried, those that this code still has."""
    known = {mutant.name for mutant in every_mutant()}
    found = [json.loads(path.read_text()) for path in sorted((out / "tried").glob("*.json"))]
    return [one for one in found if one["name"] in known]


def report(tried: list[dict[str, Any]]) -> list[str]:
    """Return the lines of a table: how many mutants were killed, package by package."""
    why = reasons()
    lines = [
        "| package | mutants | killed | equivalent | survived | killed, per cent |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for package in (*PACKAGES, "all"):
        here = [t for t in tried if package in ("all", t["mutant"]["file"].split("/")[0])]
        killed = sum(t["killed_by"] is not None for t in here)
        left = [t for t in here if t["killed_by"] is None]
        equal = sum(why.get(key_of(t["mutant"]), "").startswith("equivalent") for t in left)
        share = f"{100 * killed / max(len(here), 1):.1f}"
        lines.append(
            f"| {package} | {len(here)} | {killed} | {equal} | {len(left) - equal} | {share} |"
        )
    return lines


def survivors(tried: list[dict[str, Any]]) -> list[str]:
    """Return the lines of a table of the mutants that no test noticed, and what is said of them."""
    why = reasons()
    lines = ["| file and function | code | mistake | |", "| --- | --- | --- | --- |"]
    for one in sorted(tried, key=lambda t: (t["mutant"]["file"], t["mutant"]["line"])):
        if one["killed_by"] is None:
            file, function, code, kind = key_of(one["mutant"])
            unseen = "" if one["n_tests"] else "no test that was tried runs it"
            said = why.get((file, function, code, kind), unseen)
            shown = code.replace("|", "\\|")
            lines.append(f"| {file}, `{function}` | `{shown}` | {kind} | {said} |")
    return lines


HEAD = """# Would the tests notice? Small mistakes made in the code on purpose

By `make mutants`: mutants drawn at random from all that can be made in the bodies of functions of
`core/`, `likelihoods/`, `inference/` and `models/`. A mutant is killed when a test fails that
passes without it, or runs past its time. Of the tests of `make test` that run the mutant's
statement those that take up to {seconds:g} seconds in all were tried, so that more may be killed
than are counted.
"""


def write_page(path: Path, tried: list[dict[str, Any]], seconds: float) -> None:
    parts = [
        HEAD.format(seconds=seconds),
        "## Killed\n\n<!-- part: killed -->",
        *report(tried),
        "<!-- end of part -->\n\n## Survivors\n\n<!-- part: survivors -->",
        *survivors(tried),
        "<!-- end of part -->",
    ]
    path.write_text("\n".join(parts) + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--sample", type=int, default=1000, help="number of mutants")
    parser.add_argument("--seed", type=int, default=0, help="of the sample")
    parser.add_argument("--begin", type=int, default=0, help="place in the sample to begin at")
    parser.add_argument("--kept", action="store_true", help="those in the folder, no other sample")
    parser.add_argument("--only", default="", help="with --kept: files, as core/,models/graph")
    parser.add_argument("--longest", help="names of tests to leave out, one in a line")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of tests for one mutant")
    parser.add_argument("--minutes", type=float, default=600.0, help="to begin work in")
    parser.add_argument("--survivors", action="store_true", help="try survivors once more")
    parser.add_argument("--report", action="store_true", help="of what was found; tries nothing")
    parser.add_argument("--write", help="a page for what was found")
    parser.add_argument("--out", default="build/mutants")
    parser.add_argument("tests", nargs="*", default=TESTS, help="files and folders of tests")
    options = parser.parse_args()
    if not options.report:
        quiet = ["-s", "-p", "no:cacheprovider", "-p", "no:terminal"]
        pytest.main([*quiet, *options.tests], plugins=[Mutation(options)])
    tried = tried_mutants(Path(options.out))
    print(*report(tried), "", *survivors(tried), sep="\n")
    if options.write:
        write_page(Path(options.write), tried, options.seconds)


if __name__ == "__main__":
    main()
