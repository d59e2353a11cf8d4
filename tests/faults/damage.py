"""Model files and checkpoints that are damaged, by chance or on purpose: are they refused in words?

    python tests/faults/damage.py --files 10000 --out benchmarks/results/damage.csv

Bytes are changed, cut, added and moved; or, with the checksum made right again as an attacker
would, the parts of the archive and the schema inside it. A file may be read, if what was changed
does not matter, or refused by a ValueError; nothing else may be raised, nothing may be run, and no
more memory may be asked for than a small file deserves.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import io
import json
import resource
import sys
import tempfile
import warnings
import zipfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from atoll.estimators import MODELS, load_model, save_model  # noqa: E402
from atoll.inference.chains import Sampler, run_chains  # noqa: E402
from walking import short  # noqa: E402

MEMORY = 3 * 2**30  # beyond what the process has when it begins
KINDS = ("laplacian-rls", "probit-gp", "dp-mixture", "graph-gp", "ssgp", "softmax-gp")


class Whole(NamedTuple):
    """A file that is whole: its bytes, and how it is read."""

    kind: str
    content: bytes
    read: Callable[[Path], Any]


class Walk(NamedTuple):
    x: float
    path: Any


def _walk() -> Sampler:
    return Sampler(
        init=lambda rng: Walk(0.0, np.zeros(3)),
        sweep=lambda rng, s, adapt: Walk(0.9 * s.x + rng.standard_normal(), s.path + s.x),
        record=lambda rng, s: {"x": s.x, "path": s.path},
    )


def _go_on(path: Path) -> Any:
    """Run chains in the folder of their one checkpoint."""
    rng = np.random.default_rng(0)
    return run_chains(_walk(), n_chains=1, n_warmup=2, n_samples=6, rng=rng, checkpoint=path.parent)


def whole_files(folder: Path, kinds: tuple[str, ...] = KINDS) -> list[Whole]:
    """Return saved models of some kinds, and checkpoints of chains and of EM."""
    X = np.random.default_rng(0).normal(size=(10, 2))
    y = ["a", "b", None, "a", "b"] * 2
    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for kind in kinds:
            save_model(short(MODELS[kind]).fit(X, y), folder / "model")
            found.append(Whole(kind, (folder / "model").read_bytes(), load_model))
        kept = folder / "checkpoint"
        kept.mkdir()
        run_chains(
            _walk(),
            n_chains=1,
            n_warmup=2,
            n_samples=3,
            rng=np.random.default_rng(0),
            checkpoint=kept,
        )
        found.append(Whole("chains", (kept / "chain-0.npz").read_bytes(), _go_on))

        def mixture(at: Path) -> Any:
            return short(MODELS["dp-mixture"], checkpoint=at).fit(X, y)

        mixture(folder / "em")
        of_em = (folder / "em" / "em.npz").read_bytes()
        found.append(Whole("EM", of_em, lambda path: mixture(path.parent)))
    return found


# Damage -------------------------------------------------------------------------------------------


def by_chance(rng: np.random.Generator, content: bytes) -> bytes:
    """Change, cut, add or move some bytes."""
    data = bytearray(content)
    place = int(rng.integers(len(data)))
    length = int(rng.integers(1, 200))
    match int(rng.integers(6)):
        case 0:
            for _ in range(int(rng.integers(1, 20))):
                data[int(rng.integers(len(data)))] = int(rng.integers(256))
        case 1:
            del data[place:]
        case 2:
            del data[place : place + length]
        case 3:
            data[place:place] = rng.bytes(length)
        case 4:
            data[place : place + length] = bytes(min(length, len(data) - place))
        case _:
            part = data[place : place + length]
            del data[place : place + length]
            at = int(rng.integers(len(data) + 1))
            data[at:at] = part
    return bytes(data)


_EVIL = [
    "os.system", "builtins.eval", "subprocess.Popen", "pickle", "../../x", "", None, -1, 10**30,
    1e308, [], {}, True, "NaN", "numpy.ndarray", "OperatorFuncNode", "MethodNode", "FunctionNode",
]  # fmt: skip


def _changed_json(rng: np.random.Generator, node: Any) -> Any:
    """Return the tree with one leaf or branch replaced, left out or repeated."""
    if isinstance(node, dict) and node and rng.random() < 0.9:
        key = list(node)[int(rng.integers(len(node)))]
        changed = dict(node)
        if rng.random() < 0.06:
            del changed[key]
        else:
            changed[key] = _changed_json(rng, node[key])
        return changed
    if isinstance(node, list) and node and rng.random() < 0.9:
        place = int(rng.integers(len(node)))
        return [*node[:place], _changed_json(rng, node[place]), *node[place + 1 :]]
    return _EVIL[int(rng.integers(len(_EVIL)))]


def _changed_array(rng: np.random.Generator, content: bytes) -> bytes:
    """Return a .npy file whose header tells of another shape or type."""
    data = content
    for old, new in (
        (b"'shape': (", b"'shape': (9999999999, "),
        (b"'<f8'", b"'|O8'"),
        (b"'<f8'", b"'<c8'"),
        (b"'<i8'", b"'|O'"),
        (b"False", b"True "),
        (b"{", b"__import__('os').system('true') or {"),
    ):
        if old in data and rng.random() < 0.4:
            data = data.replace(old, new, 1)
    return data if data != content else by_chance(rng, content)


def on_purpose(rng: np.random.Generator, content: bytes) -> bytes:
    """Change a part of the archive, and make every checksum right again."""
    start = content.index(b"PK\x03\x04")
    header, archive = content[:start], content[start:]
    changed = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(archive)) as old, zipfile.ZipFile(changed, "w") as new:
        names = old.namelist()
        chosen = names[int(rng.integers(len(names)))]
        if "schema.json" in names and rng.random() < 0.6:
            chosen = "schema.json"
        for name in names:
            part = old.read(name)
            if name == chosen:
                if name == "schema.json":
                    part = json.dumps(_changed_json(rng, json.loads(part))).encode()
                elif name.endswith(".npy"):
                    part = _changed_array(rng, part)
                else:
                    part = by_chance(rng, part)
                if rng.random() < 0.03:
                    continue
            new.writestr(name, part)
            if name == chosen and rng.random() < 0.02:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    new.writestr(name, part)
        if rng.random() < 0.03:
            new.writestr("bomb.npy", bytes(10**7), zipfile.ZIP_DEFLATED)
    archive = changed.getvalue()
    if header:
        digest = hashlib.sha256(archive).hexdigest().encode()
        header = header[: header.index(b"sha256 ") + 7] + digest + b"\n"
    return header + archive


# Judgement ----------------------------------------------------------------------------------------


class Ran(BaseException):
    """Something in a file was run."""


_WATCHED = ("os.system", "os.exec", "os.posix_spawn", "subprocess.Popen", "pickle.find_class")


def _watch(event: str, arguments: Any) -> None:
    if _watching and event in _WATCHED:
        raise Ran(event)


_watching = False


def judge(whole: Whole, damaged: bytes, folder: Path) -> str:
    """Read a damaged file; return "read" or "refused", or raise what was raised."""
    global _watching
    path = folder / ("chain-0.npz" if whole.kind == "chains" else "em.npz")
    path.write_bytes(damaged)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            _watching = True
            whole.read(path)
    except ValueError as error:
        said = str(error)
        if len(said) < 30:
            raise AssertionError(f"too few words: {said}") from error
        return "refused"
    finally:
        _watching = False
        for left in folder.iterdir():
            left.unlink()
    return "read"


def many(n: int, seed: int, kinds: tuple[str, ...] = KINDS) -> Counter[tuple[str, str, str]]:
    """Judge n damaged files; count the outcomes by kind of file, of damage, and outcome."""
    sys.addaudithook(_watch)
    rng = np.random.default_rng(seed)
    found: Counter[tuple[str, str, str]] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        files = whole_files(Path(folder), kinds)
        place = Path(folder) / "damaged"
        place.mkdir()
        limited = _limited()
        try:
            for number in range(n):
                whole = files[number % len(files)]
                how, damage = (
                    ("by chance", by_chance) if rng.random() < 0.5 else ("on purpose", on_purpose)
                )
                damaged = damage(rng, whole.content)
                try:
                    outcome = judge(whole, damaged, place)
                except BaseException as error:
                    if isinstance(error, KeyboardInterrupt):
                        raise
                    outcome = f"{type(error).__name__}: {error}"[:200]
                found[whole.kind, how, outcome] += 1
        finally:
            resource.setrlimit(resource.RLIMIT_AS, limited)
    return found


def _limited() -> tuple[int, int]:
    """Limit this process's memory; return the limit that it had."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text().split()[0]) if Path("/proc").exists() else 0
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + MEMORY, before[1]))
    return before


def faults(found: Counter[tuple[str, str, str]]) -> dict[tuple[str, str, str], int]:
    """Return the outcomes that are neither of the two that are allowed."""
    return {key: count for key, count in found.items() if key[2] not in ("read", "refused")}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", help="a CSV file for what was found")
    options = parser.parse_args()
    found = many(options.files, options.seed)
    for key, count in sorted(found.items()):
        print(f"{count:6}  {', '.join(key)}")
    if options.out:
        with open(options.out, "w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["file", "damage", "outcome", "count"])
            writer.writerows([*key, count] for key, count in sorted(found.items()))
    sys.exit(1 if faults(found) else 0)


if __name__ == "__main__":
    main()
