"""Classes that may be slips for others: few labels, and nearly the name of a class with more."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from typing import Any, NamedTuple

from atoll.core.remarks import warn_user

FEW = 2  # labels of a class that may be a slip
LEAST_SAME = 3  # letters of names that differ in capitals, blanks or full stops alone
LEAST_LONGER, LEAST_OTHER = 5, 6  # of words where a letter is missing or moved, or is another one
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

    They have one or two labels, the other has more, and the names differ in capitals, blanks and
    full stops alone, or by one letter of a long word. Digits, signs and single letters tell classes
    apart. Names that differ in capitals and blanks around them alone are slips of however many
    labels; of as many, the second is one.

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
    found = []
    for i, (n, name) in enumerate(known):
        meant = [(m, o) for m, o in known if n <= FEW and m > n and _are_near(name, o)]
        meant += [(m, o) for m, o in known if m > n and _is_same(name, o)]
        meant += [(m, o) for m, o in known[:i] if m == n and _is_same(name, o)]
        if meant:
            n_meant, other = max(meant)
            found.append(Slip(name, n, other, n_meant))
    return found


def remark_on_slips(classes: Iterable[Any], counts: Iterable[int]) -> None:
    """Warn of classes that may be slips for others; of blanks around them `parse_labels` does."""
    for slip in class_slips(classes, counts):
        if slip.name.strip() != slip.meant.strip():
            warn_user(f"y: {slip.said()}", UserWarning)


def _is_same(one: str, other: str) -> bool:
    """Return whether names differ by capitals and blanks around them alone."""
    name = one.strip().casefold()
    return len(name) >= LEAST_SAME and name == other.strip().casefold()


def _are_near(one: str, other: str) -> bool:
    words, others = _words(one), _words(other)
    if "".join(words) == "".join(others):
        return len("".join(words)) >= LEAST_SAME
    if len(words) != len(others):
        return False
    unlike = [pair for pair in zip(words, others) if pair[0] != pair[1]]
    return len(unlike) == 1 and _is_one_slip(*unlike[0])


def _words(name: str) -> list[str]:
    """Return letters, digits and signs of a name that stand together, without capitals.

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
    """Return whether a letter is missing, another, or two are swapped, but for the first."""
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
