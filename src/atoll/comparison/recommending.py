"""Which model to use, in sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from atoll.comparison.blending import BLEND
from atoll.comparison.candidates import CANDIDATES
from atoll.comparison.judging import (
    FEWEST,
    NEAR,
    NO_DIFFERENCE,
    TELLING,
    Judgement,
    Paired,
    paired_difference,
    signed,
)
from atoll.comparison.result import Alone, Difference, ModelComparison
from atoll.estimators import MODELS

MOST_NAMED = 4  # models that a sentence names
KNOWN = "with what is known from other tables"
IN_PYTHON = (
    " In Python, the result's own classifier().fit(X, y) fits it; a blend has no explain(), which "
    "single models have."
)


class Ahead(NamedTuple):
    """A single model with a lower log-loss on held-out labels than the blend, beyond doubt.

    model : its name
    lead : log-loss of the blend less its own, with its uncertainty; all of it above zero
    is_known : whether all models of the blend are the library's, whose blends were measured on
        other tables: there such leads did not last
    """

    model: str
    lead: Paired
    is_known: bool


def ahead_of_blend(
    names: Sequence[str],
    log_losses: NDArray[np.float64],
    peers: Sequence[str],
    n_splits: int,
    shares: Mapping[str, float] | None,
) -> Ahead | None:
    """Return the best single model if it did better than the blend beyond doubt.

    Parameters
    ----------
    names : of the models, the blend among them perhaps
    log_losses : (models, l) of held-out labels
    peers : names that are never blended
    n_splits : folds
    shares : of models in the blend, by name; None where there is none

    Examples
    --------
    >>> losses = np.array([[0.1, 0.2, 0.1, 0.2], [0.3, 0.5, 0.4, 0.5], [0.2, 0.3, 0.2, 0.31]])
    >>> ahead_of_blend(["atoll", "mine", "blend"], losses, [], 2, {"atoll": 0.9, "mine": 0.1}).model
    'atoll'
    """
    if shares is None or len(shares) < 2:
        return None
    of = dict(zip(names, log_losses))
    single = [name for name in names if name != BLEND and name not in peers]
    best = min(single, key=lambda name: float(of[name].mean()))
    lead = paired_difference(of[BLEND] - of[best], n_splits)
    if not _is_sure(lead):
        return None
    return Ahead(best, lead, all(name in MODELS for name in single))


def _is_sure(lead: Paired) -> bool:
    """Return whether a lead is one beyond doubt, and not shown as zero."""
    return lead.low > 0 and lead.mean >= NO_DIFFERENCE


class Recommendation(NamedTuple):
    """What is recommended, before it is put in words.

    best : name of the model to use
    can_tell : whether the labels are enough to speak firmly
    chance : that no single model is better by more than `NEAR`
    """

    best: str
    can_tell: bool
    chance: float


def recommend(
    judgement: Judgement,
    names: Sequence[str],
    default: str,
    n_rarest: int,
    shares: Mapping[str, float] | None,
    ahead: Ahead | None = None,
) -> Recommendation:
    """Return which model to use, and how sure that is.

    Parameters
    ----------
    judgement : of the models
    names : theirs, in its order
    default : name of the default
    n_rarest : labels of the rarest class
    shares : of models in the blend, by name; None where there is none
    ahead : the single model that did better than the blend beyond doubt; None where none did
    """
    if n_rarest < FEWEST:
        return Recommendation(default, False, float(judgement.near_best[names.index(default)]))
    if shares is None:
        chance = float(judgement.near_best[judgement.best])
        can_tell = chance >= TELLING
        return Recommendation(names[judgement.best] if can_tell else default, can_tell, chance)
    if ahead is not None and not ahead.is_known:
        chance = float(judgement.near_best[names.index(ahead.model)])
        return Recommendation(ahead.model, chance >= TELLING, chance)
    chance = float(judgement.near_best[names.index(BLEND)])
    best = BLEND if len(shares) > 1 else next(iter(shares))
    is_far = ahead is not None and ahead.lead.mean > NEAR
    return Recommendation(best, chance >= TELLING and not is_far, chance)


def sentence(
    found: Recommendation,
    default: str,
    n_rarest: int,
    near_best: Mapping[str, float],
    shares: Mapping[str, float] | None = None,
) -> str:
    """Return the recommendation in words.

    Parameters
    ----------
    found : what is recommended
    default : name of the default
    n_rarest : labels of the rarest class
    near_best : by name, the chance that no other model is better by more than `NEAR`
    shares : of models in the blend, by name; None where there is none

    Examples
    --------
    >>> chances = {"atoll": 0.1, "ssgp": 0.95}
    >>> said = sentence(Recommendation("ssgp", True, 0.95), "atoll", 40, chances)
    >>> said.split(":")[0]
    'Use ssgp'
    """
    if len(near_best) == 1:
        return f"Nothing was compared with {default}, the default: name another model."
    if n_rarest < FEWEST:
        return to_keep(default, too_few(n_rarest))
    what = f"{default}, the default" if found.best == default else found.best
    how = ""
    if found.best == BLEND and shares is not None:
        what, how = _blend_in_words(shares), IN_PYTHON
    if found.can_tell:
        return f"Use {what}: {KNOWN}, {_chance_in_words(found)}.{how}"
    before = _cannot_tell(_contenders(near_best))
    return f"{before}{what} is a fair choice: {_chance_in_words(found)}.{how}"


def main_model(
    found: Recommendation,
    near_best: Mapping[str, float],
    shares: Mapping[str, float],
    log_losses: Mapping[str, NDArray[np.float64]],
    n_splits: int,
    more: str,
) -> Alone:
    """Return the main model of a blend that is recommended, with what is said of it.

    Parameters
    ----------
    found, near_best, shares : as in `sentence`
    log_losses : (l,) of held-out labels, by name
    n_splits : folds
    more : what else there is to say of it, in sentences
    """
    main = max(shares, key=lambda name: shares[name])
    before = "" if found.can_tell else _cannot_tell(_contenders(near_best))
    blend = f"{_blend_in_words(shares)}: {KNOWN}, {_chance_in_words(found)}"
    lead = paired_difference(log_losses[BLEND] - log_losses[main], n_splits)
    return Alone(main, _is_sure(lead), before, blend, more)


def _blend_in_words(shares: Mapping[str, float]) -> str:
    return f"a blend of {_listed([f'{n} ({100 * w:.0f}%)' for n, w in shares.items()])}"


def _chance_in_words(found: Recommendation) -> str:
    return (
        f"the chance that no single model is better by more than {NEAR:g} nats a row is about "
        f"{100 * found.chance:.0f}%"
    )


def _cannot_tell(why: str) -> str:
    """Return the beginning of a sentence that goes on with a model to use meanwhile."""
    return f"These labels cannot tell which model is best: {why}. Until more labels decide, "


def in_shell(found: ModelComparison, fit: str) -> str:
    """Return the recommendation for the shell, which fits single models: first a model to fit.

    Parameters
    ----------
    found : what was found
    fit : the command that fits the default
    """
    name = found.best if found.alone is None else found.alone.model
    if name not in MODELS:  # a peer, which is no model of the shell
        return found.recommendation
    command = f"{fit}{_of_model(name, found)}"
    if found.alone is None:
        return f"{found.recommendation} `{command}` fits {name}."
    use = "use" if found.alone.before else "Use"
    what = f"{name}, the default" if name == found.reference else name
    said = f"{found.alone.before}{use} {what}: `{command}` fits it."
    if found.alone.is_ahead:
        said += (
            f" In Python, `compare_models(X, y)` advises {found.alone.blend}. On these labels it "
            f"did worse than {name}, but over many tables such leads did not last."
        )
    else:
        said += (
            f" In Python you may fit {found.alone.blend}; `compare_models(X, y).classifier()` is "
            "the blend."
        )
    return said + found.alone.more


def _of_model(name: str, found: ModelComparison) -> str:
    """Return the options with which `atoll fit` fits a model as it was compared."""
    if name == found.reference:
        return ""
    model = CANDIDATES[name].model
    usual = MODELS[name]().get_params(deep=False)
    changed = [f" --set {k}={v}" for k, v in model.get_params(deep=False).items() if v != usual[k]]
    units = " --no-standardise" if found.unlike is False else ""
    return f" --model {name}{''.join(changed)}{units}"


def to_keep(default: str, why: str) -> str:
    """Say that the default is kept, and why labels cannot tell which model is best.

    Examples
    --------
    >>> to_keep("atoll", "there are two").partition(".")[0]
    'These labels cannot tell which model is best: there are two'
    """
    return (
        f"{_cannot_tell(why)}{default}, the default, is a fair choice: on other tables its "
        "log-loss was the lowest on average."
    )


def about_single_labels(classes: Sequence[Any]) -> str:
    """Say what follows from classes with a single label; nothing if there are none.

    Examples
    --------
    >>> about_single_labels(["dog", "fox"]).partition(":")[0]
    " 'dog' and 'fox' have a single label each, which was in every fit"
    """
    if not classes:
        return ""
    names = _listed([repr(name) for name in classes[:MOST_NAMED]])
    if len(classes) > MOST_NAMED:
        names = f"{len(classes)} classes"
    has, which = (
        ("has a single label", "this class")
        if len(classes) == 1
        else ("have a single label each", "these classes")
    )
    return (
        f" {names} {has}, which was in every fit: how well a model knows {which} is not measured."
    )


def too_few(n_rarest: int) -> str:
    """Say why labels cannot tell which model is best if the rarest class has too few.

    Examples
    --------
    >>> too_few(5)
    'the rarest class has 5, and 8 in every class are needed'
    """
    return f"the rarest class has {n_rarest}, and {FEWEST} in every class are needed"


def _contenders(near_best: Mapping[str, float]) -> str:
    """Return the single models that may well be the best, by name, the likeliest first."""
    single = [name for name in near_best if name != BLEND]
    order = sorted(single, key=lambda name: -near_best[name])
    names = [name for name in order if near_best[name] > 1.0 - TELLING]
    if len(names) < 2:
        return "what they say of the models may be chance"
    if len(names) > MOST_NAMED:
        return f"{len(names)} of {len(order)} may be"
    each = [f"{name} ({100 * near_best[name]:.0f}%)" for name in names]
    return f"it may be {_listed(each, 'or')}, by these labels and what is known from other tables"


def _listed(words: Sequence[str], last: str = "and") -> str:
    """Return words with commas between them, and another word before the last."""
    return f"{', '.join(words[:-1])} {last} {words[-1]}" if len(words) > 1 else words[0]


def better_here(
    differences: Sequence[Difference], best: str, default: str, peers: Sequence[str] = ()
) -> str:
    """Say which models did better here than the recommended one, beyond doubt.

    Parameters
    ----------
    differences : of models from the default
    best, default : names of what is recommended, and of the default
    peers : names of those that `about_peers` speaks of
    """
    seen = [one for one in differences if one.log_loss.mean <= -NO_DIFFERENCE]
    better = [one.model for one in seen if one.log_loss.high < 0 and one.model not in peers]
    if best != default or not better:
        return ""
    its = "its 95% interval is" if len(better) == 1 else "their 95% intervals are"
    among = f"; of {len(differences) - 1} intervals, one in twenty misses by chance"
    than = f" On these labels {', '.join(better)} did better than {default}: "
    return f"{than}{its} below zero{among}."


def about_ahead(ahead: Ahead | None, best: str) -> str:
    """Say by how much a single model did better than the blend, and what to make of it.

    Parameters
    ----------
    ahead : that model; None if there is none
    best : name of what is recommended

    Examples
    --------
    >>> about_ahead(Ahead("atoll", Paired(0.008, 0.002, 0.015, 0.01), True), "blend")[:64]
    ' On these labels the blend did worse than atoll alone, by 0.008 '
    """
    if ahead is None or best not in (BLEND, ahead.model):
        return ""
    lead = ahead.lead
    said = (
        f" On these labels the blend did worse than {ahead.model} alone, by {lead.mean:.3f} nats a "
        f"row (95% interval {signed(lead.low)} to {signed(lead.high)})"
    )
    if best != BLEND:
        return f"{said}, and is not advised."
    return (
        f"{said}. It is advised all the same, because over many tables such leads did not last: on "
        "rows whose labels nobody had seen, the blend was within "
        f"{NEAR:g} nats of the best model more often than the model that led it."
    )


class Lead(NamedTuple):
    """A peer with a lower log-loss on these labels than what is recommended.

    model : its name
    log_loss, of_best : its own, and that of what is recommended
    difference : of the two over the same rows, with its uncertainty
    """

    model: str
    log_loss: float
    of_best: float
    difference: Paired


def about_peers(leads: Sequence[Lead], best: str) -> str:
    """Say which peers did better here than the recommended model, and what to make of it.

    Examples
    --------
    >>> about_peers([Lead("logistic", 0.08, 0.1, Paired(-0.02, -0.05, 0.01, 0.9))], "blend")[:61]
    ' On these labels logistic has a lower log-loss than the blend'
    """
    what = f"the {BLEND}" if best == BLEND else best
    said = ""
    for sure in (True, False):
        some = [one for one in leads if (one.difference.high < 0) is sure]
        if not some:
            continue
        each = _listed([f"{one.log_loss:.3f}" for one in some])
        have, it, its = ("has", "it", "its") if len(some) == 1 else ("have", "they", "their")
        interval = f"the 95% interval{'s' * (len(some) > 1)} of {its} difference"
        said += (
            f" On these labels {_listed([one.model for one in some])} {have} a lower log-loss than "
            f"{what}: {each} against {some[0].of_best:.3f}. "
        )
        if sure:
            are = "is" if len(some) == 1 else "are"
            said += (
                f"That is hardly chance: {interval} {are} below zero. {it.capitalize()} may "
                f"well serve you better on this table; {what} stays recommended for what it did on "
                "others. More labels, and another comparison, will settle it."
            )
        else:
            hold = "holds" if len(some) == 1 else "hold"
            said += (
                f"That may be chance: {interval} {hold} zero. On other tables {it} did worse on "
                f"average, so that this is no reason to leave {what}."
            )
    return said


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
