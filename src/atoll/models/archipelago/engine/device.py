"""Where the engine runs, and where it keeps what it has compiled."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from atoll.core.extras import import_extra

DEVICES = ("auto", "cpu", "gpu")
CACHE_SECONDS = 0.0  # of compilation, from which on a program is kept: they are few


@contextmanager
def running_on(device: str) -> Iterator[Any]:
    """Run JAX on a device, in full float32, with programs kept from one process to the next.

    Programs are kept where JAX is told to keep them (JAX_COMPILATION_CACHE_DIR), else in the user's
    folder of caches (XDG_CACHE_HOME or ~/.cache), under atoll. All settings are undone afterwards.

    Parameters
    ----------
    device : "auto", "cpu" or "gpu"; "auto" is a GPU where JAX has one

    Yields
    ------
    the device, as JAX knows it
    """
    jax = import_extra("jax")
    chosen = _device(jax, device)
    with ExitStack() as stack:
        stack.enter_context(jax.default_device(chosen))
        # Distances and 1 − |A|² need every digit of float32: no TF32.
        stack.enter_context(jax.default_matmul_precision("highest"))
        stack.enter_context(_kept_programs(jax))
        yield chosen


def check_device(device: str) -> None:
    """Raise a ValueError where JAX has no such device; call it before long work."""
    _device(import_extra("jax"), device)


def _device(jax: Any, device: str) -> Any:
    if device == "auto":
        return jax.devices()[0]
    try:
        return jax.devices(device)[0]
    except RuntimeError:
        have = ", ".join(sorted({d.platform for d in jax.devices()}))
        raise ValueError(
            f"device={device!r}: JAX has none here, but {have}; leave device at 'auto', or install "
            "JAX for that device."
        ) from None


@contextmanager
def _kept_programs(jax: Any) -> Iterator[None]:
    names = ("jax_compilation_cache_dir", "jax_persistent_cache_min_compile_time_secs")
    before = {name: getattr(jax.config, name) for name in names}
    if before[names[0]] is not None:  # the user's own choice
        yield
        return
    caches = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    jax.config.update(names[0], str(Path(caches) / "atoll" / "jax"))
    jax.config.update(names[1], CACHE_SECONDS)
    try:
        yield
    finally:
        for name, value in before.items():
            jax.config.update(name, value)
