"""How many labels are wrong, by the probability that each is."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def how_many_are_wrong(p_wrong: Sequence[float]) -> str:
    """Return how many labels are wrong, with limits, and how many of the first to look at.

    The limits take the labels' doubts for independent: each is a Bernoulli draw. They know nothing
    of how far the doubts themselves are off, which are rather too small.

    Parameters
    ----------
    p_wrong : (l,) probability that each label is wrong, the most suspect first

    Examples
    --------
    >>> how_many_are_wrong([0.6, 0.3, 0.1, 0.0])[:75]
    'By these probabilities about 1.0 of 4 labels are wrong, 0 to 2 if each is d'
    """
    p = np.asarray(p_wrong, dtype=float)
    counts = np.ones(1)  # probability of each number of wrong labels
    for one in p:
        counts = np.convolve(counts, [1.0 - one, one])
    below = np.cumsum(counts)
    low, high = int(np.searchsorted(below, 0.05)), int(np.searchsorted(below, 0.95))
    n_likely, expected = int((p > 0.5).sum()), float(p.sum())
    is_one = "1 label is" if n_likely == 1 else f"{n_likely or 'no'} labels are"
    if expected < 0.05:
        return f"None of {len(p)} labels is expected to be wrong."
    first = int(np.searchsorted(np.cumsum(p), 0.9 * expected)) + 1
    look = f"the first {first}" if first > 1 else "the first"
    return (
        f"By these probabilities about {expected:.1f} of {len(p)} labels are wrong, {low} to "
        f"{high} if each is doubted by itself; there may well be more where slips have a pattern. "
        f"{is_one[0].upper()}{is_one[1:]} more likely wrong than right. Look at {look}, and go on "
        "while you find some."
    )
