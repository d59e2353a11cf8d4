"""One progress bar for every search and pass over rows; chains have their own."""

from __future__ import annotations

from typing import Any, Self

from atoll.core.progress import progress_bar, seconds_until_shown


class Progress:
    """A progress bar on standard error, shown only if asked for.

    Parameters
    ----------
    verbose : whether to show it; "auto": only of slow work, and sooner to a person
    title : what is under way
    unit : what is counted, in the plural
    value : name of the number shown beside the count
    total : how many there will be, if that is known
    began : when the work that this is a part of began, by `time.monotonic`; such a bar disappears
        at its end. None: now

    Examples
    --------
    >>> with Progress(False, "EM", "iterations", value="log-posterior") as bar:
    ...     bar.report(1, -12.5)
    """

    def __init__(
        self,
        verbose: Any,
        title: str,
        unit: str,
        *,
        value: str = "",
        total: int | None = None,
        began: float | None = None,
    ):
        self.verbose, self.title, self.unit = verbose, title, unit
        self.value, self.total, self.began = value, total, began

    def __enter__(self) -> Self:
        shown = seconds_until_shown(self.verbose, self.began)
        self.bar: Any = progress_bar(
            total=self.total,
            disable=shown is None,
            delay=shown or 0.0,
            desc=self.title,
            unit=f" {self.unit}",
            unit_scale=self.total is not None,
            leave=self.began is None,
        )
        return self

    def __exit__(self, *error: object) -> None:
        self.bar.close()

    def report(self, *numbers: float) -> None:
        """Count one more; the last number given is shown beside the count."""
        self.bar.update()
        if numbers and self.value:
            self.bar.set_postfix({self.value: f"{numbers[-1]:.3f}"})

    def advance(self, n: int) -> None:
        """Count n more of a known total, and start again once it has been reached."""
        if self.bar.n >= (self.total or 0):
            self.bar.reset()
        self.bar.update(n)

    def count(self, n: int) -> None:
        """Count n more."""
        self.bar.update(n)

    def tell(self, n: int, **numbers: float) -> None:
        """Count up to n of a known total, and show numbers beside it."""
        self.bar.set_postfix({name: f"{number:.3g}" for name, number in numbers.items()})
        self.bar.update(n - self.bar.n)

    def reach(self, n: int, total: int | None) -> None:
        """Count up to n, of a total that may have grown; if n is less than before, start again."""
        if n < self.bar.n:
            self.bar.reset()
        self.bar.total = total
        self.bar.update(n - self.bar.n)
