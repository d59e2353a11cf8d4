"""About how long each experiment takes, on one core of a server with nothing else to do."""

from __future__ import annotations

from typing import NamedTuple


class Time(NamedTuple):
    """Processor seconds of an experiment, roughly: quick ones measured, full ones by their cells.

    quick, full : the smaller version, and all of it
    """

    quick: float
    full: float


TIMES: dict[str, Time] = {
    "archipelago-fig1": Time(2, 35),
    "archipelago-fig3": Time(10, 2400),
    "archipelago-table1": Time(16, 13_000),
    "archipelago-fig4": Time(5, 400),
    "ncnm-fig1": Time(1, 1),
    "ncnm-fig3": Time(1, 5),
    "ncnm-fig4": Time(7, 50),
    "ncnm-fig5": Time(15, 600),
    "dpem-rings": Time(4, 35),
    "dpem-spirals": Time(4, 35),
    "dpem-unlabelled": Time(11, 400),
    "rogers-fig15": Time(50, 570),
    "rogers-fig16": Time(8, 300),
    "rogers-fig20": Time(7, 700),
    "rogers-fig21": Time(16, 3600),
    "rogers-fig22": Time(1, 10),
    "ssgp-fig1": Time(4, 300),
    "ssgp-fig2": Time(4, 3_600),
    "ssgp-fig3": Time(4, 3_600),
    "ssgp-fig4": Time(4, 3_600),
    "ssgp-fig5": Time(4, 3_600),
    "ssgp-fig6": Time(1, 3_600),
    "ssl-book": Time(20, 36_000),
}


def in_words(seconds: float) -> str:
    """Return a rough time as a person would say it.

    Examples
    --------
    >>> in_words(2), in_words(70), in_words(400), in_words(14_400)
    ('2 s', '1 min', '7 min', '4 h')
    """
    if seconds < 60:
        return f"{max(1, round(seconds))} s"
    if seconds < 5400:
        return f"{round(seconds / 60)} min"
    return f"{round(seconds / 3600)} h"
