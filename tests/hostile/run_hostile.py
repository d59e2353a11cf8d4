"""Pose many hostile problems to every model, in several processes; what was found is kept.

    python tests/hostile/run_hostile.py --problems 100000 --processes 2 --out build/hostile

Problem 1234 alone, with its traceback: `python tests/hostile/run_hostile.py --only 1234`.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
import time
from collections import Counter
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
from hostile_problems import Fault, judge, problem  # noqa: E402

BLOCK = 260  # problems of one file of results


def do_block(first: int, out: Path, until: float) -> None:
    """Judge a block of problems; write it when it is whole."""
    path = out / f"{first:07d}.json"
    if path.exists() or time.time() > until:
        return
    faults, outcomes = [], Counter()
    seconds: Counter[str] = Counter()
    for number in range(first, first + BLOCK):
        began = time.perf_counter()
        posed = problem(number)
        try:
            outcome = judge(posed)
        except Fault as fault:
            outcome = "fault"
            faults.append(
                {
                    "number": number,
                    "model": posed.model,
                    "told": posed.told,
                    "settings": {k: str(v) for k, v in posed.settings.items()},
                    "what": str(fault),
                }
            )
        outcomes[f"{posed.model} {outcome}"] += 1
        seconds[posed.model] += time.perf_counter() - began
        if time.time() > until + 60:
            return
    temporary = path.with_suffix(".part")
    temporary.write_text(
        json.dumps({"faults": faults, "outcomes": outcomes, "seconds": seconds}, default=str)
    )
    temporary.replace(path)


def pose_faults_again(out: Path) -> None:
    """Pose anew what was a fault, to the code as it is now; write what it is."""
    for path in sorted(out.glob("*.json")):
        block = json.loads(path.read_text())
        left = []
        for fault in block["faults"]:
            try:
                outcome = judge(problem(fault["number"]))
            except Fault as again:
                left.append(fault | {"what": str(again)})
                continue
            block["outcomes"][f"{fault['model']} fault"] -= 1
            key = f"{fault['model']} {outcome}"
            block["outcomes"][key] = block["outcomes"].get(key, 0) + 1
        if len(left) < len(block["faults"]):
            path.write_text(json.dumps(block | {"faults": left}))


def report(out: Path) -> int:
    outcomes: Counter[str] = Counter()
    seconds: Counter[str] = Counter()
    faults = []
    for path in sorted(out.glob("*.json")):
        block = json.loads(path.read_text())
        outcomes.update(block["outcomes"])
        seconds.update(block["seconds"])
        faults += block["faults"]
    total = sum(outcomes.values())
    by_outcome: Counter[str] = Counter()
    for key, count in outcomes.items():
        by_outcome[key.split()[1]] += count
    print(f"{total} problems: {dict(by_outcome)}; {sum(seconds.values()):.0f} seconds")
    for model, spent in seconds.most_common():
        answered, refused = outcomes[f"{model} answered"], outcomes[f"{model} refused"]
        n = answered + refused + outcomes[f"{model} fault"]
        print(
            f"  {model:20} {n:6} problems, {answered:6} answered, {refused:6} refused, "
            f"{1000 * spent / n:7.1f} ms each"
        )
    kinds = Counter((f["model"], f["what"][:110]) for f in faults)
    examples = {(f["model"], f["what"][:110]): f["number"] for f in reversed(faults)}
    for kind, count in kinds.most_common():
        print(f"{count:5} x {kind[0]}: {kind[1]}  (such as {examples[kind]})")
    return len(faults)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--problems", type=int, default=100_000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--minutes", type=float, default=600.0, help="to begin work in")
    parser.add_argument("--only", type=int, help="the number of one problem")
    parser.add_argument("--again", action="store_true", help="pose what was a fault anew")
    parser.add_argument("--report", action="store_true", help="of what was found; poses nothing")
    parser.add_argument("--out", default="build/hostile")
    options = parser.parse_args()
    if options.only is not None:
        posed = problem(options.only)
        print(posed.model, posed.settings, posed.told, posed.y, sep="\n")
        print(judge(posed))
        return
    out = Path(options.out)
    out.mkdir(parents=True, exist_ok=True)
    if options.again:
        pose_faults_again(out)
    elif not options.report:
        until = time.time() + 60 * options.minutes
        firsts = range(options.first, options.first + options.problems, BLOCK)
        tasks = [(first, out, until) for first in firsts]
        with multiprocessing.Pool(options.processes, maxtasksperchild=4) as pool:
            pool.starmap(do_block, tasks, chunksize=1)
    sys.exit(1 if report(out) else 0)


if __name__ == "__main__":
    main()
