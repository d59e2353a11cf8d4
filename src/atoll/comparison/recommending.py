"""Which model to use, in sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from atoll.comparison.judging import FEWEST, NEAR, TELLING, Paired
from atoll.comparison.result import Difference

MOST_NAMED = 4  # models that a sentence names


def sentence(
    best: str,
    default: str,
    can_tell: bool,
    n_rarest: int,
    near_best: Mapping[str, float],
    difference: Paired,
) -> str:
    """Return the recommendation.

    Parameters
    ----------
    best : name of the model to use
    default : name of the default
    can_tell : whether the labels are enough to tell models apart
    n_rarest : labels of the rarest class
    near_best : by name, the chance that no other model is better by more than `NEAR`
    difference : of the best model's log-loss from the default's

    Examples
    --------
    >>> some = Paired(0.0, 0.0, 0.0, 0.5)
    >>> said = sentence("atoll", "atoll", False, 9, {"atoll": 0.8, "ssgp": 0.3}, some)
    >>> said.split(". ")[0]
    'These labels cannot tell which model is best: it may be atoll or ssgp'
    """
    if not can_tell:
        reason = too_few(n_rarest) if n_rarest < FEWEST else _contenders(near_best)
        return (
            f"These labels cannot tell which model is best: {reason}. Until more labels "
            f"decide, {default}, the default, is a fair choice: on other tables its log-loss was "
            "the lowest on average."
        )
    chance = (
        f"the chance that no other model is better by more than {NEAR:g} nats a row is about "
        f"{100 * near_best[best]:.0f}%"
    )
    if best == default:
        return f"Use {default}, the default: {chance}."
    word = "lower" if difference.mean < 0 else "higher"
    return (
        f"Use {best}: on held-out labels its log-loss is {abs(difference.mean):.3f} nats a row "
        f"{word} than the default's, and with what is known from other tables {chance}."
    )


def too_few(n_rarest: int) -> str:
    """Return why labels cannot tell models apart, where the rarest class has fewer than needed.

    Examples
    --------
    >>> too_few(5)
    'the rarest class has 5, and 8 in every class are needed'
    """
    return f"the rarest class has {n_rarest}, and {FEWEST} in every class are needed"


def _contenders(near_best: Mapping[str, float]) -> str:
    """Return the models that may well be the best, by name, the likeliest first."""
    order = sorted(near_best, key=lambda name: -near_best[name])
    names = [name for name in order if near_best[name] > 1.0 - TELLING]
    if len(names) < 2:
        return "none is ahead of all others beyond doubt"
    if len(names) > MOST_NAMED:
        return f"{len(names)} of {len(order)} may be"
    return f"it may be {', '.join(names[:-1])} or {names[-1]}"


def better_here(differences: Sequence[Difference], best: str, default: str) -> str:
    """Return which models did better than the default beyond doubt, where that is recommended."""
    better = [one.model for one in differences if one.log_loss.high < 0]
    if best != default or not better:
        return ""
    its = "its 95% interval is" if len(better) == 1 else "their 95% intervals are"
    among = f"; of {len(differences) - 1} intervals, one in twenty misses by chance"
    than = f" On these labels {', '.join(better)} did better than {default}: "
    return f"{than}{its} below zero{among}."


def about_interruption(missing: Sequence[str]) -> str:
    """Return which models are missing because the comparison was stopped; nothing if none is.

    Examples
    --------
    >>> about_interruption(["ssgp", "shares"])
    ' The comparison was stopped before these were done: ssgp, shares.'
    """
    if not missing:
        return ""
    this = "this was" if len(missing) == 1 else "these were"
    return f" The comparison was stopped before {this} done: {', '.join(missing)}."
