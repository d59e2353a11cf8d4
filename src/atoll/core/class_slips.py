"""Classes that may be misspelt: few labels, and nearly the name of a class with more labels."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from atoll.core.remarks import warn_user

FEW = 2  # labels at most, of a class that may be a slip
LEAST_SAME = 3  # letters at least, of names that differ only in capitals, blanks or full stops
LEAST_LONGER, LEAST_OTHER = 5, 6  # letters at least: one missing or two swapped; one wrong
OF_NO_MEANING = "._,;:'\"`"  # signs in a name; + and - may be all that tells two classes apart


class Slip(NamedTuple):
    """A class that may be a slip for another.

    name, n_labels : the class, and its labels
    meant, n_meant : the other one
    """

    name: str
    n_labels: int
    meant: str
    n_meant: int

    def said(self) -> str:
        """Return what looks like a slip, and what to do."""
        labels = "a single label" if self.n_labels == 1 else f"{self.n_labels} labels"
        more = "; else label more rows of it" if self.n_labels <= FEW else ""
        return (
            f"the class {self.name!r} has {labels} and is nearly called {self.meant!r}, which has "
            f"{self.n_meant}. Fix: if it is a slip, correct it, for example with "
            f"y.replace({self.name!r}, {self.meant!r}){more}."
        )


def class_slips(classes: Iterable[Any], counts: Iterable[int]) -> list[Slip]:
    """Return the classes that may be slips for others.

    A slip has one or two labels, the class meant has more, and the names differ only in capitals,
    blanks and full stops, or by one letter of a long word. Names that differ in a digit, a sign or
    a single letter are of different classes.
    Names that differ only in capitals and in blanks around them are slips however many labels they
    have; of two with as many, the second is the slip.

    Parameters
    ----------
    classes : (K,)
    counts : (K,) their labels

    Examples
    --------
    >>> [slip.meant for slip in class_slips(["Adele", "Adelie", "Gentoo"], [1, 9, 8])]
    ['Adelie']
    >>> class_slips(["class1", "class2", "grade A", "grade B"], [1, 9, 1, 9])
    []
    >>> [slip.name for slip in class_slips(["Gentoo", "gentoo"], [9, 9])]
    ['gentoo']
    """
    known = [(n, name) for name, n in zip(classes, counts) if isinstance(name, str) and n]
    words = {name: _words(name) for _, name in known}
    alike = _of_most_labels(known, {name: _plain(name) for name in words})
    joined = _of_most_labels(known, {name: "".join(found) for name, found in words.items()})
    near = _by_spelling(known, words) if any(n <= FEW for n, _ in known) else {}
    earlier: dict[tuple[str, int], str] = {}  # the last by alphabet of those seen
    slips = []
    for n, name in known:
        plain = _plain(name)
        meant = [alike.get(plain, (n, name))]
        if n <= FEW:
            meant.append(joined.get("".join(words[name]), (n, name)))
            others = {one for key in _spellings(words[name]) for one in near[key]}
            meant += [one for one in others if one[0] > n and _are_near(words[name], words[one[1]])]
        meant = [one for one in meant if one[0] > n]
        if len(plain) >= LEAST_SAME:
            meant += [(n, earlier[plain, n])] if (plain, n) in earlier else []
            earlier[plain, n] = max(name, earlier.get((plain, n), name))
        if meant:
            n_meant, other = max(meant)
            slips.append(Slip(name, n, other, n_meant))
    return slips


def _of_most_labels(
    known: Iterable[tuple[int, str]], writing: Mapping[str, str]
) -> dict[str, tuple[int, str]]:
    """Return the labels and the name of the class with most labels among those written alike."""
    out: dict[str, tuple[int, str]] = {}
    for one in known:
        key = writing[one[1]]
        if len(key) >= LEAST_SAME:
            out[key] = max(one, out.get(key, one))
    return out


def _by_spelling(
    known: Iterable[tuple[int, str]], words: Mapping[str, list[str]]
) -> dict[int, list[tuple[int, str]]]:
    """Return labels and names of classes by their `_spellings`."""
    out: dict[int, list[tuple[int, str]]] = {}
    for one in known:
        for key in _spellings(words[one[1]]):
            out.setdefault(key, []).append(one)
    return out


def _spellings(words: list[str]) -> set[int]:
    """Return numbers of which names that are one letter apart have one in common.

    They stand for the name with one of its letters left out, or with none: a letter that is wrong,
    and one of two that are swapped, can be left out of both names.
    """
    out = set()
    for place, word in enumerate(words):
        if len(word) >= LEAST_LONGER and word.isalpha():
            rest = hash((*words[:place], None, *words[place + 1 :]))
            out |= {hash((rest, word[:i] + word[i + 1 :])) for i in range(1, len(word) + 1)}
    return out


def remark_on_slips(classes: Iterable[Any], counts: Iterable[int]) -> None:
    """Warn of classes that may be slips; `parse_labels` warns of blanks around names."""
    for slip in class_slips(classes, counts):
        if slip.name.strip() != slip.meant.strip():
            warn_user(f"y: {slip.said()}", UserWarning)


def _plain(name: str) -> str:
    """Return a name without what capitals and blanks around it tell."""
    return name.strip().casefold()


def _are_near(words: list[str], others: list[str]) -> bool:
    if "".join(words) == "".join(others):
        return len("".join(words)) >= LEAST_SAME
    if len(words) != len(others):
        return False
    unlike = [pair for pair in zip(words, others) if pair[0] != pair[1]]
    return len(unlike) == 1 and _is_one_slip(*unlike[0])


def _words(name: str) -> list[str]:
    """Split a name into runs of letters, of digits and of signs, in lower case.

    A capital after a small letter begins a word: the B of "classB" is one.
    """
    plain = [c for c in unicodedata.normalize("NFKD", name) if not unicodedata.combining(c)]
    out, kind = [""], ""
    for letter in plain:
        sort = "letter" if letter.isalpha() else "digit" if letter.isalnum() else "sign"
        blank = letter.isspace() or letter in OF_NO_MEANING
        if blank or sort != kind or (letter.isupper() and out[-1][-1:].islower()):
            out.append("")
        out[-1] += "" if blank else letter
        kind = "" if blank else sort
    return [word.casefold() for word in out if word]


def _is_one_slip(one: str, other: str) -> bool:
    """Return whether one letter, not the first, is missing or wrong, or two are swapped."""
    if not (one.isalpha() and other.isalpha() and one[0] == other[0]):
        return False
    short, long = sorted((one, other), key=len)
    same = next((i for i, (a, b) in enumerate(zip(short, long)) if a != b), len(short))
    if len(long) == len(short) + 1:
        return len(short) >= LEAST_LONGER and short[same:] == long[same + 1 :]
    if len(long) > len(short):
        return False
    rest, rest_of_other = short[same:], long[same:]
    if rest[1:] == rest_of_other[1:]:
        return len(short) >= LEAST_OTHER
    swapped = rest[:2] == rest_of_other[:2][::-1] and rest[2:] == rest_of_other[2:]
    return len(short) >= LEAST_LONGER and swapped
