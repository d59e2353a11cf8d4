"""Work in progress on disk, so that a stopped fit goes on and ends with the same numbers.

A file holds arrays and the fingerprint of its problem, and is written whole or not at all. No code
in it is ever run; a file that is damaged, or belongs to another problem, is refused with a message.
"""

from __future__ import annotations

import io
import json
import math
import os
import tokenize
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from atoll.core.files import atomic_path
from atoll.core.memory import check_memory
from atoll.core.remarks import warn_user

Array = NDArray[Any]

SECONDS = 30.0  # between two writes of the same work

# What reading a damaged file may raise.
DAMAGE = (
    OSError,
    ValueError,
    KeyError,
    TypeError,
    EOFError,
    RuntimeError,
    NotImplementedError,
    SyntaxError,  # NumPy reads the header of an array as an expression
    MemoryError,
    OverflowError,
    AttributeError,
    tokenize.TokenError,
    zipfile.BadZipFile,
    zlib.error,
)


class CheckpointNotWritten(UserWarning):
    """A checkpoint could not be written; the work went on without it."""


class Checkpoint(NamedTuple):
    """A folder with the work of one fit.

    folder : where its files are
    fingerprint : of the problem; files of another problem are refused
    """

    folder: Path
    fingerprint: str

    def save(self, name: str, parts: Mapping[str, Array]) -> None:
        """Keep arrays under a name; any that were kept there before are replaced."""
        write_arrays(
            self.folder / f"{name}.npz", {"fingerprint": np.array(self.fingerprint), **parts}
        )

    def load(self, name: str) -> dict[str, Array] | None:
        """Return the arrays kept under a name, or None."""
        path = self.folder / f"{name}.npz"
        if not path.exists():
            return None
        held = read_arrays(path)
        if str(held.pop("fingerprint", "")) != self.fingerprint:
            raise ValueError(
                f"checkpoint {str(path)!r} belongs to another run: its data or parameters differ. "
                "Choose another folder, or delete it to start anew."
            )
        return held

    def generator(self, fresh: np.random.Generator) -> np.random.Generator:
        """Return the random stream that the work began with; `fresh` if it begins now."""
        seeds = cast(np.random.SeedSequence, fresh.bit_generator.seed_seq)
        held = self.load("seed")
        if held is None:
            told = {
                "state": fresh.bit_generator.state,
                "entropy": np.ravel(cast(Any, seeds.entropy)).tolist(),
                "spawn_key": list(seeds.spawn_key),
                "n_children": seeds.n_children_spawned,
            }
            if not isinstance(fresh.bit_generator, np.random.PCG64):
                raise ValueError(
                    "checkpoint= needs a random_state that is None, a number or a generator of "
                    "numpy.random.default_rng."
                )
            self.save("seed", {"stream": np.array(json.dumps(told))})
            return fresh
        try:
            told = json.loads(str(held["stream"]))
            entropy = told["entropy"]
            seeds = np.random.SeedSequence(
                entropy[0] if len(entropy) == 1 else entropy,
                spawn_key=told["spawn_key"],
                n_children_spawned=told["n_children"],
            )
            stream = np.random.PCG64(seeds)
            stream.state = told["state"]
        except DAMAGE as error:
            raise ValueError(_unreadable(self.folder / "seed.npz", error)) from error
        return np.random.Generator(stream)


def checkpoint_in(folder: str | os.PathLike[str] | None, fingerprint: str) -> Checkpoint | None:
    """Return the checkpoint in a folder, which is made if need be; None if no folder is given.

    Examples
    --------
    >>> import tempfile
    >>> kept = checkpoint_in(tempfile.mkdtemp(), "my problem")
    >>> kept.save("sums", {"total": np.ones(2)})
    >>> kept.load("sums")["total"]
    array([1., 1.])
    """
    if folder is None:
        return None
    make_folder(folder)
    return Checkpoint(Path(folder), fingerprint)


def write_arrays(path: Path, arrays: Mapping[str, Array]) -> None:
    """Write a file of arrays, whole or not at all.

    If it cannot be written, say because the disk is full, there is a warning: the work itself goes
    on, and what was written last is still there.
    """
    try:
        with atomic_path(path) as temporary, open(temporary, "wb") as file:
            np.savez(file, allow_pickle=False, **dict(arrays))
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        warn_user(
            f"checkpoint {str(path)!r} could not be written ({why}); the run goes on, and what was "
            "written before is kept.",
            CheckpointNotWritten,
            is_passing=True,
        )


def read_arrays(path: Path) -> dict[str, Array]:
    """Return the arrays of a file, or raise a ValueError that says that it cannot be read."""
    try:
        with open(path, "rb") as stream, zipfile.ZipFile(stream) as archive:
            members = archive.infolist()
            n_bytes = sum(member.file_size for member in members)
            check_memory(2 * n_bytes, what="its content", instead="It is not ours.")
            return {
                member.filename.removesuffix(".npy"): _read_array(archive.read(member))
                for member in members
            }
    except DAMAGE as error:
        raise ValueError(_unreadable(path, error)) from error


def _read_array(content: bytes) -> Array:
    """Return an array from the bytes of a .npy file, whose size is what its header declares."""
    stream = io.BytesIO(content)
    version = np.lib.format.read_magic(stream)
    read_header = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }[version]
    shape, _, dtype = read_header(stream)
    if dtype.hasobject or math.prod(shape) * dtype.itemsize != len(content) - stream.tell():
        raise ValueError("an array is not of the size that it declares")
    stream.seek(0)
    return np.lib.format.read_array(stream, allow_pickle=False)


def _unreadable(path: Path, error: BaseException) -> str:
    why = " ".join(str(error).split())[:200]
    return f"checkpoint {str(path)!r} cannot be read ({why}); delete it to start anew."


def make_folder(checkpoint: str | os.PathLike[str]) -> None:
    """Make the folder of a checkpoint; raise a ValueError if that is not possible."""
    try:
        Path(checkpoint).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(
            f"checkpoint={os.fspath(checkpoint)!r} cannot be made a folder ({error.strerror}); "
            "choose another path."
        ) from error
    if not os.access(checkpoint, os.W_OK):
        raise ValueError(
            f"checkpoint={os.fspath(checkpoint)!r} is not writable; choose another path."
        )


# States -------------------------------------------------------------------------------------------


def flatten(state: Any, prefix: str = "") -> Iterator[tuple[str, Array]]:
    """Yield the arrays of nested NamedTuples, by their names joined with dots.

    Examples
    --------
    >>> class Walk(NamedTuple):
    ...     x: float
    >>> dict(flatten(Walk(0.5)))
    {'x': array(0.5)}
    """
    for name, value in zip(state._fields, state):
        if hasattr(value, "_fields"):
            yield from flatten(value, f"{prefix}{name}.")
        else:
            yield prefix + name, np.asarray(value)


def as_read_again(state: Any) -> Any:
    """Return nested NamedTuples whose arrays lie in memory as a file would give them back.

    A file knows rows first and columns first. Arrays that lie otherwise are copied: their order
    decides on the last bits of products, and what goes on from a file must not differ.

    Examples
    --------
    >>> class Walk(NamedTuple):
    ...     x: Array
    >>> as_read_again(Walk(np.zeros((4, 4))[:, ::2])).x.flags.c_contiguous
    True
    """
    values = [
        as_read_again(value)
        if hasattr(value, "_fields")
        else np.ascontiguousarray(value)
        if isinstance(value, np.ndarray) and not value.flags.forc
        else value
        for value in state
    ]
    return type(state)(*values)


def unflatten(template: Any, arrays: Mapping[str, Array], prefix: str = "") -> Any:
    """Return the nested NamedTuples that `flatten` took apart, of the types of `template`.

    Raise a ValueError if an array is missing or of another type.
    """
    values: list[Any] = []
    for name, value in zip(template._fields, template):
        if hasattr(value, "_fields"):
            values.append(unflatten(value, arrays, f"{prefix}{name}."))
            continue
        held, wanted = arrays.get(prefix + name), np.asarray(value)
        if held is None or held.dtype.kind != wanted.dtype.kind or held.ndim != wanted.ndim:
            raise ValueError(f"{prefix + name} is missing, or not what it was")
        values.append(held if isinstance(value, np.ndarray) else type(value)(held.item()))
    return type(template)(*values)
