"""Which labels are wrong: each is held against all the others, any of which may be wrong too.

A label is that of its row but for a share ε of labels, which say any other class instead:

    P(y | f) = (1 − ε) P(class y | f) + ε / (K − 1) · P(another class | f),

with P(class | f) a probit of functions f on the features of a view, as in `heads`. Expectation
propagation finds what all other labels say of a row, and the evidence of each view, amplitude and
ε; these are averaged by it. Then

    P(label i is wrong | all labels) = Σ_k w_k · ε_k / (K − 1) · (1 − p_ki) / P_ki,

with p_ki the probability of label i's class given the others under k = (view, amplitude, ε), P_ki
that of the label, and w_k the weight of k given all labels. ε is learnt with the rest.

With a dozen classes or more propagation takes as long as several fits. There labels were regressed
on (`label_regression`), and what was foretold of each from the others is known. Then k is ε and a
power by which that may be surer, weighed by how probable the two make the labels.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from atoll.core.progress import progress_bar
from atoll.models.average import average, heads

Array = NDArray[np.float64]
Codes = NDArray[np.intp]

WRONG_SHARES = (0.01, 0.05, 0.12, 0.25)  # ε, each as likely as the others before the labels
EXTREMES = (WRONG_SHARES[0], WRONG_SHARES[-1])  # of these; they tell which views matter
QUICKLY_DOUBTED = 1000  # labels times classes squared: up to this, all doubts take a second or two
POWERS = (1.0, 1.4, 2.0, 2.8, 4.0)  # by which what foretold labels may be surer than it said
PART_AT_WORK = 0.4  # of all posteriors, or of their steps, that doubts take
LEAST_WEIGHT = 1e-2  # of a view at an amplitude, relative to the weightiest, to be looked at


class LabelRecord(NamedTuple):
    """Labels as assumptions see them: what is needed to doubt them.

    rows : (l,) training rows that have them
    codes : (l,) classes
    n_classes : K
    part : (s,) which labels are compared with each other; the others are compared with these
    features : for each view (s, p), or (l, p) where nothing was held out yet; empty where labels
        were regressed on
    amplitudes : for each view (A,)
    log_priors : for each view (A,), of the view at each amplitude, up to one constant for all
    log_prior_of_nothing : of labels that rows tell nothing of
    nugget : variance of each label's own part, relative to the amplitude
    weights : (l,) of the labels; None: one each
    is_random : (l,) whether a label was drawn at random; None: all were
    held_out : (l, K) class probabilities of the rows, each without its own label; None: not found
    regressed : (l, K) the same by regressions alone, by which labels are doubted; None: by
        propagation where there are features, else by what was held out
    """

    rows: Codes
    codes: Codes
    n_classes: int
    part: Codes
    features: tuple[Array, ...]
    amplitudes: tuple[Array, ...]
    log_priors: tuple[Array, ...]
    log_prior_of_nothing: float
    nugget: float
    weights: Array | None = None
    is_random: NDArray[np.bool_] | None = None
    held_out: Array | None = None
    regressed: Array | None = None

    @property
    def is_quickly_doubted(self) -> bool:
        """Whether all labels can be doubted in a second or two."""
        return not self.features or len(self.codes) * self.n_classes**2 <= QUICKLY_DOUBTED

    def by_regression(self, held_out: Array, regressed: Array | None = None) -> LabelRecord:
        """Return the record of labels that regressions doubt: of all of them, without features."""
        return self._replace(
            part=np.arange(len(self.codes)),
            features=(),
            amplitudes=(),
            log_priors=(),
            held_out=held_out,
            regressed=regressed,
        )

    @property
    def of_part(self) -> Codes:
        """Classes of the labels of the part, (s,)."""
        return self.codes[self.part]

    @property
    def weights_of_part(self) -> Array | None:
        """Weights of the labels of the part, (s,)."""
        return None if self.weights is None else self.weights[self.part]

    def features_of_part(self) -> list[Array]:
        """Return each view's features of the part, (s, p)."""
        if self.held_out is not None:
            return list(self.features)
        return [one[self.part] for one in self.features]

    def infer(self, wrong: float = 0.0) -> heads.Problems:
        """Find the posteriors of the part's labels, of which a share may be wrong.

        Where that is so, posteriors that cannot matter are rough.
        """
        return heads.infer(
            self.features_of_part(),
            list(self.amplitudes),
            self.of_part,
            self.n_classes,
            self.nugget,
            self.weights_of_part,
            wrong,
            None if wrong == 0.0 else list(self.log_priors),
        )


class Compared(NamedTuple):
    """The part's labels under every view, amplitude and share of wrong ones, k = 1..B.

    log_weights : (B,) given all labels, up to a constant
    proba : (B, s, K) class probabilities of each row given all other labels
    wrong : (B,) share of labels that are wrong
    """

    log_weights: Array
    proba: Array
    wrong: Array

    def of_labels(self, codes: Codes) -> Array:
        """Return the probabilities of the labels that were given, (B, s)."""
        own = self.proba[:, np.arange(len(codes)), codes]
        e, K = self.wrong[:, None], self.proba.shape[2]
        return np.maximum((1.0 - e) * own + e / (K - 1) * (1.0 - own), 1e-300)

    def held_out(self, codes: Codes, weights: Array | None = None) -> Array:
        """Return class probabilities of each row, without its own label, (s, K).

        Parameters
        ----------
        weights : (s,) of the labels, which are in the evidence as often; None: one each
        """
        times = 1.0 if weights is None else weights
        log_w = self.log_weights[:, None] - times * np.log(self.of_labels(codes))
        w = np.exp(log_w - np.logaddexp.reduce(log_w, axis=0))
        return np.einsum("bs,bsk->sk", w, self.proba)

    @property
    def weights(self) -> Array:
        """(B,) of each k given all labels; they sum to one."""
        return np.exp(self.log_weights - np.logaddexp.reduce(self.log_weights))

    def suspicion(self, codes: Codes) -> Array:
        """Return the probability that each label is wrong, given all of them and k, (B, s)."""
        own = self.proba[:, np.arange(len(codes)), codes]
        e, K = self.wrong[:, None], self.proba.shape[2]
        return np.asarray(e / (K - 1) * (1.0 - own) / self.of_labels(codes))


def compare(record: LabelRecord, problems: heads.Problems, wrong: float = 0.0) -> Compared:
    """Gather what a fit says of the part's labels."""
    K, codes = record.n_classes, record.of_part
    weights = record.weights_of_part
    log_w = [problems.log_evidence(i) + prior for i, prior in enumerate(record.log_priors)]
    nothing = average.evidence_of_shares(codes, K, weights) + record.log_prior_of_nothing
    shares = average.shares_of_others(codes, K, weights)
    proba = [problems.held_out(i) for i in range(len(record.log_priors))]
    log_weights = np.concatenate([*log_w, [nothing]])
    log_weights = np.where(np.isnan(log_weights), -np.inf, log_weights)
    return Compared(
        log_weights, np.concatenate([*proba, shares[None]]), np.full(len(log_weights), wrong)
    )


def held_out(record: LabelRecord) -> Array:
    """Return class probabilities of the labelled rows, each without its own label, (l, K)."""
    if record.held_out is not None:
        return record.held_out
    problems = record.infer()
    out = np.empty((len(record.codes), record.n_classes))
    found = compare(record, problems)
    out[record.part] = found.held_out(record.of_part, record.weights_of_part)
    others = np.setdiff1d(np.arange(len(record.codes)), record.part)
    if len(others):
        out[others] = outside_part(
            problems, found, [one[others] for one in record.features], len(others)
        )
    return out


def predicted(record: LabelRecord, features: list[Array]) -> Array:
    """Return class probabilities of other rows, given the part's labels, (m, K).

    Parameters
    ----------
    features : for each view (m, p)
    """
    problems = record.infer()
    return outside_part(problems, compare(record, problems), features, len(features[0]))


def outside_part(problems: heads.Problems, found: Compared, features: list[Array], n: int) -> Array:
    """Return class probabilities of n rows beside the part, given its labels, (n, K).

    Parameters
    ----------
    features : for each view (n, p)
    """
    w = found.weights
    out = np.tile(w[-1] * found.proba[-1].mean(axis=0), (n, 1))
    for i, values in enumerate(features):
        own = w[problems.first[i] : problems.first[i + 1]]
        if own.sum() > 0:
            out += own.sum() * problems.head(i, own / own.sum()).proba(values)
    return out / out.sum(axis=1, keepdims=True)


class Doubts(NamedTuple):
    """Which labels may be wrong, and how many.

    probabilities : (l,) that each label is wrong, given all of them
    chances : (l + 1,) probability of each number of wrong labels
    proba : (l, K) class probabilities of each row, without its own label
    """

    probabilities: Array
    chances: Array
    proba: Array


def doubts(record: LabelRecord, shown: float | None = None) -> Doubts:
    """Return how probable it is that each label is wrong, and of how many it is true.

    Labels stand or fall together: where many rows are hard, none of their labels is wrong. So the
    number of wrong ones is averaged over k like everything else, and is far less sure than if each
    label were wrong or right by itself.

    Parameters
    ----------
    shown : in how many seconds progress is shown; None: never
    """
    if not record.features:
        return _summary(record, [_as_foretold(record, wrong) for wrong in WRONG_SHARES])
    total = len(WRONG_SHARES)
    settings = {"unit": " fits", "disable": shown is None, "delay": shown or 0.0}
    with progress_bar(total=total, desc="checking labels", **settings) as bar:
        known = {wrong: _compared_under(record, wrong, bar) for wrong in EXTREMES}
        record, known = _with_what_matters(record, known)
        parts = [
            known[wrong] if wrong in known else _compared_under(record, wrong, bar)
            for wrong in WRONG_SHARES
        ]
    return _summary(record, parts)


def _as_foretold(record: LabelRecord, wrong: float) -> Compared:
    """Return what is said of labels that were regressed on, if a share of them is wrong.

    What foretold labels took wrong ones for noise, and may be surer than it says by a power.
    """
    foretold = record.held_out if record.regressed is None else record.regressed
    assert foretold is not None
    told = foretold[record.part]
    proba = np.stack([told**power / (told**power).sum(axis=1, keepdims=True) for power in POWERS])
    found = Compared(np.zeros(len(POWERS)), proba, np.full(len(POWERS), wrong))
    counts = np.ones(len(told)) if record.weights is None else record.weights_of_part
    return found._replace(log_weights=np.log(found.of_labels(record.of_part)) @ counts)


def _summary(record: LabelRecord, parts: list[Compared]) -> Doubts:
    """Return the doubts that follow from what is said of the labels under every k.

    Parameters
    ----------
    parts : for each share of wrong labels
    """
    found = Compared(*(np.concatenate(field) for field in zip(*parts)))
    given_k = np.empty((len(found.wrong), len(record.codes)))
    given_k[:, record.part] = found.suspicion(record.of_part)
    proba = np.empty((len(record.codes), record.n_classes))
    proba[record.part] = found.held_out(record.of_part, record.weights_of_part)
    others = np.setdiff1d(np.arange(len(record.codes)), record.part)
    if len(others):
        e, K = found.wrong[:, None], record.n_classes
        proba[others] = held_out(record)[others]
        own = proba[others, record.codes[others]]
        other = e / (K - 1) * (1.0 - own)
        given_k[:, others] = other / np.maximum((1.0 - e) * own + other, 1e-300)
    weights = found.weights
    kept = np.flatnonzero(weights >= LEAST_WEIGHT * weights.max())
    chances = weights[kept] @ [number_chances(given_k[k]) for k in kept]
    return Doubts(weights @ given_k, chances / chances.sum(), proba)


def one_of_many(record: LabelRecord) -> float:
    """Find a single posterior, to see how long it takes, and return of how many `doubts` is worth.

    Many are left early, since they cannot matter.
    """
    view = len(record.features) // 2
    middle = slice(len(record.amplitudes[view]) // 2, None)
    record._replace(
        features=(record.features[view],),
        amplitudes=(record.amplitudes[view][middle][:1],),
        log_priors=(record.log_priors[view][middle][:1],),
    ).infer(WRONG_SHARES[1])
    return PART_AT_WORK * len(WRONG_SHARES) * sum(len(a) for a in record.amplitudes)


def number_chances(p: Array) -> Array:
    """Return the probability of each number of events that have probabilities p; (l,) -> (l + 1,).

    Examples
    --------
    >>> number_chances(np.array([0.5, 0.5])).round(9).tolist()
    [0.25, 0.5, 0.25]
    """
    likely = p.sum() + 12.0 * np.sqrt(p @ (1.0 - p)) + 25.0  # what is beyond does not matter
    n = min(len(p), int(likely)) + 1
    turns = np.exp(2j * np.pi * np.arange(n) / n)
    spectrum = np.ones(n, complex)
    for one in p:
        spectrum *= 1.0 + one * (turns - 1.0)
    out = np.zeros(len(p) + 1)
    out[:n] = np.maximum(np.fft.fft(spectrum).real / n, 0.0)
    return out


def _compared_under(record: LabelRecord, wrong: float, bar: Any) -> Compared:
    """Return what a fit says of the labels if a share of them is wrong; the bar counts it."""
    found = compare(record, record.infer(wrong), wrong)
    bar.update()
    return found


def _with_what_matters(
    record: LabelRecord, known: Mapping[float, Compared]
) -> tuple[LabelRecord, dict[float, Compared]]:
    """Return the record with the views and amplitudes that some share of wrong labels bears out.

    Parameters
    ----------
    known : what a fit says of the labels, by shares; of this too only what matters is returned
    """
    of_shares = [found.log_weights[:-1] for found in known.values()]
    best = np.max([log_w - log_w.max() for log_w in of_shares], axis=0)
    matters = best >= np.log(LEAST_WEIGHT)
    kept = np.split(matters, np.cumsum([len(a) for a in record.amplitudes])[:-1])
    used = [i for i, mask in enumerate(kept) if mask.any()]
    if not used:
        return record, dict(known)
    places = np.flatnonzero(np.append(matters, True))  # and that rows tell nothing
    less = {wrong: Compared(*(part[places] for part in found)) for wrong, found in known.items()}
    return record._replace(
        features=tuple(record.features[i] for i in used),
        amplitudes=tuple(record.amplitudes[i][kept[i]] for i in used),
        log_priors=tuple(record.log_priors[i][kept[i]] for i in used),
    ), less
