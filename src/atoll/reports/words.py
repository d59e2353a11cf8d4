"""Numbers and names as a reader would write them."""

from __future__ import annotations

from typing import Any

import numpy as np

from atoll.core.texts import BEGINNING, WORDY

_SHORT_WORDS = 200  # characters of a value that are shown


def number(value: float) -> str:
    """Return a number with three decimals."""
    if np.isinf(value):
        return "∞" if value > 0 else "−∞"
    return "undefined" if np.isnan(value) else f"{round(value, 3) + 0.0:.3f}"  # no -0.000


def percent(share: float) -> str:
    """Return a share in percent."""
    # Rounding must not turn 99.6% into all, or 0.4% into none.
    text = f"{100 * share:.0f}%"
    if (text == "100%" and share < 1) or (text == "0%" and share > 0):
        text = f"{100 * share:.2f}%"
        return {"100.00%": ">99.99%", "0.00%": "<0.01%"}.get(text, text)
    return text


def percents(low: float, high: float) -> tuple[str, str]:
    """Return two shares in percent, with as many digits as each other.

    Examples
    --------
    >>> percents(0.8, 0.95), percents(0.911, 0.9971)
    (('80%', '95%'), ('91.1%', '99.7%'))
    """
    for digits in (0, 1):
        texts = tuple(f"{100 * share:.{digits}f}" for share in (low, high))
        ends = [float(text) in (0.0, 100.0) for text in texts]
        if not any(end and 0.0 < share < 1.0 for end, share in zip(ends, (low, high))):
            break
    else:
        texts = (f"{100 * low:.2f}", f"{100 * high:.2f}")
    return f"{texts[0]}%", f"{texts[1]}%"


def probability(p: float) -> str:
    """Return a probability with two decimals; only 0 is shown as 0.00, and only 1 as 1.00.

    Examples
    --------
    >>> probability(0.5), probability(0.9962), probability(0.0038), probability(1.0)
    ('0.50', '>0.99', '<0.01', '1.00')
    """
    if 0.995 <= p < 1.0:
        return ">0.99"
    return "<0.01" if 0.0 < p < 0.005 else f"{p:.2f}"


def cell(value: Any) -> str:
    """Return a cell of the user's table; a blank one is a dash."""
    if value is None or value != value:
        return "–"
    if isinstance(value, float | np.floating):
        return f"{value:.4g}"
    text = str(value)
    return short(text, BEGINNING if len(text.split()) >= WORDY else 24, str)


def short(value: object, longest: int = _SHORT_WORDS, write: Any = repr) -> str:
    """Return a value on one line, cut where it is long."""
    text = " ".join(write(value).split())
    return text if len(text) <= longest else text[: longest - 1] + "…"


def listed(names: list[str], most: int = 12) -> str:
    """Return names with commas between, the first dozen."""
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def count(n: int, thing: str) -> str:
    """Return a number of things in words, such as "3 rows"."""
    return f"{n:,} {thing}" if n == 1 else f"{n:,} {thing}s"
