"""Classes that may be slips for others."""

from __future__ import annotations

import numpy as np
import pytest

from atoll import AtollClassifier
from atoll.active import ActiveLearner
from atoll.core import class_slips as slips_of
from atoll.core.class_slips import FEW, LEAST_SAME, class_slips


@pytest.mark.parametrize(
    "slip",
    ["adelie", "Adelie.", "Adele", "ADELIE", " Adelie", "Adélie", "Aedlie", "Adelia", "Adeliee"],
)
def test_a_name_that_is_one_slip_away_is_found(slip):
    (found,) = class_slips([slip, "Adelie", "Gentoo"], [1, 12, 9])
    assert (found.name, found.meant) == (slip, "Adelie")
    assert f"{slip!r} has a single label" in found.said()
    assert f"y.replace({slip!r}, 'Adelie')" in found.said()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("class1", "class2"),
        ("class 11", "class 1"),
        ("A1", "A2"),
        ("1", "2"),
        ("grade 1", "grade 2"),
        ("grade A", "grade B"),
        ("classA", "classB"),
        ("class_a", "class_b"),
        ("stage II", "stage III"),
        ("A", "a"),
        ("AA", "Aa"),
        ("HIV+", "HIV-"),
        ("HIV", "HIV+"),
        ("normal", "abnormal"),
        ("typical", "atypical"),
        ("male", "female"),
        ("house", "mouse"),
        ("horse", "house"),
        ("cat", "car"),
        ("hypotension", "hypertension"),
        ("setosa", "virginica"),
        (1, 2),
    ],
)
def test_names_that_tell_classes_apart_are_no_slips(one, other):
    assert class_slips([one, other], [1, 20]) == []
    assert class_slips([one, other], [20, 1]) == []


@pytest.mark.parametrize("counts", [(3, 20), (2, 2), (1, 1), (0, 20)])
def test_classes_of_several_labels_or_as_many_are_no_slips(counts):
    assert class_slips(["Adele", "Adelie"], counts) == []


@pytest.mark.parametrize("counts", [(5, 5), (3, 20), (20, 3)])
def test_names_that_differ_by_capitals_and_blanks_are_slips_of_however_many_labels(counts):
    names = ["Adelie", "adelie "]
    (found,) = class_slips(names, counts)
    assert [found.name, found.meant] == (names if counts == (3, 20) else names[::-1])
    assert found.said().endswith(f"y.replace({found.name!r}, {found.meant!r}).")


def slips_of_all_pairs(names, counts):
    """Slips as the documentation has them: every class beside every other."""
    known = [(n, name) for name, n in zip(names, counts) if n]
    found = []
    for i, (n, name) in enumerate(known):
        meant = []
        for j, (m, other) in enumerate(known):
            plain = name.strip().casefold()
            is_same = plain == other.strip().casefold() and len(plain) >= LEAST_SAME
            is_near = n <= FEW and slips_of._are_near(slips_of._words(name), slips_of._words(other))
            if (m > n and (is_same or is_near)) or (m == n and j < i and is_same):
                meant.append((m, other))
        if meant:
            found.append((name, n, *max(meant)[::-1]))
    return found


def misspelt(rng, name):
    """A name with a few letters inserted, left out, swapped or replaced, or in other capitals."""
    for _ in range(rng.integers(3)):
        i, how = int(rng.integers(len(name) + 1)), rng.integers(5)
        letter = "abdeAB é.1+"[rng.integers(11)]
        parts = (letter + name[i:], name[i + 1 :], name[i : i + 2][::-1] + name[i + 2 :])
        parts = (*parts, letter + name[i + 1 :])
        name = name[:i] + parts[how] if how < 4 else f" {name.upper()}"
    return name or "x"


def test_slips_are_those_of_all_pairs():
    rng, n_found = np.random.default_rng(0), 0
    some = [
        "Adelie",
        "Gentoo",
        "class A",
        "hypertension",
        "normal value",
        "HIV+",
        "Straße",
        "abcde",
    ]
    for _ in range(150):
        names = [misspelt(rng, some[i]) for i in rng.integers(len(some), size=rng.integers(2, 16))]
        counts = rng.choice([0, 1, 1, 2, 2, 3, 9, 20], size=len(names)).tolist()
        wanted = slips_of_all_pairs(names, counts)
        assert [tuple(slip) for slip in class_slips(names, counts)] == wanted
        n_found += len(wanted)
    assert n_found > 100


def test_thousands_of_classes_are_not_compared_one_by_one(monkeypatch):
    compared = []
    monkeypatch.setattr(slips_of, "_are_near", lambda *words: compared.append(words))
    names = [f"species number {i}" for i in range(3000)]
    assert class_slips(names, [1, 2] * 1500) == []
    assert len(compared) < 10


@pytest.fixture
def penguins():
    """Two classes of ten labels each, one of which is written otherwise."""
    truth = np.repeat(["Adelie", "Gentoo"], 30)
    X = np.random.default_rng(0).normal(size=(60, 2)) + 5.0 * (truth == "Gentoo")[:, None]
    y = np.where(np.arange(60) % 3 == 0, truth, None)
    y[0] = "Adele"
    return X, y


def test_a_fit_remarks_on_a_slip_and_is_to_be_trusted_with_care(penguins):
    X, y = penguins
    quick = {"n_draws": 40, "random_state": 0}
    with pytest.warns(UserWarning, match=r"^y: the class 'Adele' has a single label.*'Adelie'"):
        found = AtollClassifier(**quick).fit(X, y).diagnostics_
    assert found["trust"] == "with care"
    assert "Beware: y: the class 'Adele' has a single label" in found["verdict"]
    names = ["Adele", "Adelie", "Gentoo"]
    found = AtollClassifier(classes=names, **quick).fit(X, y).diagnostics_  # no warning now
    assert "nearly called" not in found["verdict"]


def test_a_pool_that_begins_with_a_slip_remarks_on_it(penguins):
    X, y = penguins
    with pytest.warns(UserWarning, match="the class 'Adele' has a single label"):
        ActiveLearner(random_state=0).fit(X, y)
