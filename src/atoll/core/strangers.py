"""Words of a column that a model has not seen: what to say of them, and what may be meant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from atoll.core.shown import shortened


def about_strangers(column: str, strange: Mapping[str, int], known: Sequence[str]) -> str:
    """Return which values of a column the model has not seen, and what may be meant by them.

    Parameters
    ----------
    strange : value -> number of rows with it
    known : values that the model has seen

    Examples
    --------
    >>> about_strangers("sex", {"Male": 12}, ["female", "male"])
    "sex: the model has not seen Male (12 rows); taken as blank. Did you mean 'male'?"
    >>> about_strangers("site", {"N ": 1}, ["N", "S"])
    "site: the model has not seen 'N ' (1 row); taken as blank. Did you mean 'N'?"
    """
    names = sorted(strange)
    rows = [
        f"{name if name == name.strip() else repr(name)} "
        f"({strange[name]} row{'' if strange[name] == 1 else 's'})"
        for name in names
    ]
    said = f"{column}: the model has not seen {shortened(rows)}; taken as blank."
    by_letters = {_letters(value): value for value in known}
    meant = [repr(by_letters[_letters(name)]) for name in names if _letters(name) in by_letters]
    return f"{said} Did you mean {shortened(list(dict.fromkeys(meant)))}?" if meant else said


def _letters(value: str) -> str:
    """Return a value without capitals and blanks, in which slips are common."""
    return "".join(value.casefold().split())
