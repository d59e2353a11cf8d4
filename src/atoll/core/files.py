"""Files that are written whole or not at all."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Numbers of the errors that say that there is no room for a file."""


@contextmanager
def atomic_path(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path beside `path`; rename it onto `path` when the block succeeds.

    If the block raises, the temporary file is deleted and whatever stood at `path` before is
    still there. An OSError for want of room names `path`.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> with atomic_path(folder / "numbers.txt") as temporary:
    ...     _ = temporary.write_text("1 2 3")
    >>> (folder / "numbers.txt").read_text(), len(list(folder.iterdir()))
    ('1 2 3', 1)
    """
    target = Path(path)
    check_writable(target)
    # The suffix is kept because writers such as numpy.savez and pandas choose a format by it.
    try:
        handle, name = tempfile.mkstemp(
            dir=target.parent, prefix=f".{target.stem}-", suffix=target.suffix
        )
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(target)) from error
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, target)
    except OSError as error:
        if error.errno not in NO_ROOM:
            raise
        raise OSError(error.errno, os.strerror(error.errno), str(target)) from error
    finally:
        temporary.unlink(missing_ok=True)


def check_writable(path: str | os.PathLike[str]) -> None:
    """Raise a ValueError unless a file can be created at `path`; call it before long work."""
    target = Path(path)
    if target.is_dir():
        raise ValueError(f"cannot write {str(target)!r}: it is a folder; name a file inside it.")
    if target.exists() and not target.is_file():
        # A file would take the place of the device, for everybody on the machine.
        raise ValueError(
            f"cannot write {str(target)!r}: it is a device or a pipe, not a plain file; name "
            "another file."
        )
    if not target.parent.is_dir():
        raise ValueError(
            f"cannot write {str(target)!r}: the folder {str(target.parent)!r} does not exist; "
            "create it or choose another path."
        )
    if not os.access(target.parent, os.W_OK):
        raise ValueError(
            f"cannot write {str(target)!r}: the folder {str(target.parent)!r} is not writable; "
            "choose another path."
        )


def _umask() -> int:
    # The mask can only be read by setting it.
    mask = os.umask(0)
    os.umask(mask)
    return mask
