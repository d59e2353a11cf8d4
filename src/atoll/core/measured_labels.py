"""Labels that look like a measurement: a task for regression, given to a classifier."""

from __future__ import annotations

from atoll.core.labels import PartialLabels

MOST_CLASSES = 20  # up to this many different numbers may well be classes
FEW_ROWS = 2  # a measurement seldom repeats a number in more rows than this
SHARE = 0.2  # share of numbers in so few rows from which on they look like a measurement


def about_measurement(labels: PartialLabels) -> str | None:
    """Say in words how labels look like a measurement; None if they do not.

    They do if there are more than twenty different numbers, a fifth or more of them in only one or
    two rows each, which do not count up from 0 or 1 as codes of classes do.

    Examples
    --------
    >>> from atoll.core.labels import parse_labels
    >>> about_measurement(parse_labels(range(2700, 6300, 50)))
    '72 different numbers from 2700 to 6250, 72 of them in one or two rows each'
    >>> print(about_measurement(parse_labels(range(40))))
    None
    """
    if labels.classes.dtype.kind not in "iuf" or len(labels.classes) <= MOST_CLASSES:
        return None
    counts = labels.counts[labels.counts > 0]
    numbers = labels.classes[labels.counts > 0]
    n_few, n_different = int((counts <= FEW_ROWS).sum()), len(numbers)
    if n_different <= MOST_CLASSES or n_few < SHARE * n_different:
        return None
    least, most = numbers.min().item(), numbers.max().item()
    if least in (0, 1) and most - least < 2 * n_different:
        return None
    return (
        f"{n_different} different numbers from {least:.0f} to {most:.0f}, {n_few} of them in one "
        "or two rows each"
    )
