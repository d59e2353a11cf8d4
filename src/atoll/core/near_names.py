"""Which name may be meant by one that is not there."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def near_name(name: str, names: Iterable[str], alike: float = 0.6) -> str | None:
    """Return the name that is most like one that is not there; None where none is like it.

    Parameters
    ----------
    names : those that are there
    alike : from 0 to 1, how much so a name has to be; capitals, hyphens and underscores do not
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
    """Return a question after the near name, to go before a sentence; nothing where none is near.

    Examples
    --------
    >>> did_you_mean("GraphGP", ["atoll", "graph-gp"])
    "did you mean 'graph-gp'? "
    """
    near = near_name(name, names, alike)
    return "" if near is None else f"did you mean {near!r}? "


def _letters(name: str) -> str:
    return str(name).casefold().strip().replace("-", "").replace("_", "")
