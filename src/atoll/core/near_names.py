"""Which name was probably meant by one that does not exist."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path


def near_name(name: str, names: Iterable[str], alike: float = 0.6) -> str | None:
    """Return the name that is most like a given one; None if no name is like it.

    Parameters
    ----------
    names : to choose from
    alike : how similar a name has to be, from 0 to 1; capitals, hyphens and underscores do not
        count

    Examples
    --------
    >>> near_name("SPECIES", ["island", "species"])
    'species'
    """
    by_letters = {_letters(other): other for other in names}
    close = get_close_matches(_letters(name), list(by_letters), n=1, cutoff=alike)
    return by_letters[close[0]] if close else None


def did_you_mean(name: str, names: Iterable[str], alike: float = 0.6) -> str:
    """Ask whether the nearest name was meant, as the beginning of a sentence; "" if none is near.

    Examples
    --------
    >>> did_you_mean("GraphGP", ["atoll", "graph-gp"])
    "did you mean 'graph-gp'? "
    """
    near = near_name(name, names, alike)
    return "" if near is None else f"did you mean {near!r}? "


def no_file(path: Path, what: str = "file") -> str:
    """Say that there is no such file, and which file of the folder may be meant.

    Parameters
    ----------
    what : the kind of file, such as "model file"
    """
    spaced = _file_with_blanks(path)
    if spaced is not None:
        return (
            f"there is no {what} {str(path)!r}; if you mean {str(spaced)!r}, put it in quotation "
            "marks, for it holds a blank."
        )
    near = _near_file(path)
    hint = "check the path." if near is None else f"did you mean {str(near)!r}?"
    return f"there is no {what} {str(path)!r}; {hint}"


def _file_with_blanks(path: Path) -> Path | None:
    """Return the file of the same folder that begins with the name and a blank, if there is one."""
    found = [name for name in _files_beside(path) if name.startswith(f"{path.name} ")]
    return path.with_name(found[0]) if found and path.name else None


def _near_file(path: Path) -> Path | None:
    """Return the file of the same folder with the most similar name, if one is similar enough.

    A common ending does not make names similar.
    """
    others, ending = _files_beside(path), path.suffix.lower()
    alike = {Path(name).stem: name for name in others if Path(name).suffix.lower() == ending}
    stem = near_name(path.stem, alike)
    without = [name for name in others if not ending and Path(name).stem == path.name]
    found = alike[stem] if stem is not None else next(iter(without), None)
    found = found or near_name(path.name, [n for n in others if n not in alike.values()], 0.8)
    return None if found is None else path.with_name(found)


def _files_beside(path: Path) -> list[str]:
    """Return the names of the files in the folder of a path, sorted; none if it cannot be read."""
    try:
        return sorted(other.name for other in path.parent.iterdir() if other.is_file())
    except OSError:
        return []


def _letters(name: str) -> str:
    return str(name).casefold().strip().replace("-", "").replace("_", "")
