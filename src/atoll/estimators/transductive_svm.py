"""The transductive support vector machine on scikit-learn's SVC, its settings by the labels."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import groupby
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.svm import SVC

from atoll.core.labels import PartialLabels, part_of_labels
from atoll.estimators.belief import with_calibration
from atoll.estimators.parameters import COMMON, RANDOM_STATE, A, Nothing, Number, OneOf, Rule, Whole
from atoll.estimators.progress import Progress
from atoll.estimators.shell import Fit, MarginClassifier
from atoll.estimators.validation import generator
from atoll.models import class_shares
from atoll.models.calibration import (
    MOST_MEASURED,
    CalibratedMachine,
    Evidence,
    calibrate,
    choose,
    partitions,
)
from atoll.models.transductive_svm import (
    Assignment,
    Machines,
    assign,
    measure_costs,
    targets,
    trainer,
)

Array = NDArray[np.float64]
Codes = NDArray[np.intp]

MOST_ROWS_WITH_GRAM = 4000  # 128 MB
# Of SVC's kernels, what each is a function of.
OF_KERNELS = {
    "linear": (),
    "rbf": ("gamma",),
    "poly": ("gamma", "degree", "coef0"),
    "sigmoid": ("gamma", "coef0"),
}
# Tried for a free width, in root-mean-square lengths of the centred rows, and for a free C, with
# their log-prior up to a constant: what is taken while labels are too few to tell.
LENGTH_FACTORS = {0.25: -0.5, 0.5: 0.0, 1.0: 0.5, 2.0: 0.5, 4.0: 0.0}
PENALTIES = {0.1: -1.0, 1.0: 0.0, 10.0: 0.5, 100.0: 0.5, 1000.0: 0.0}
COSTS = (1e-3, 1e-2, 0.1, 1.0)  # of an unlabelled row, besides 0
MOST_UNLABELLED_MEASURED = 400  # rows, while a cost is chosen


class Setting(NamedTuple):
    """Width and penalty of the machines, and what is thought of them before any label."""

    C: float
    gamma: float
    log_prior: float


class Search(NamedTuple):
    """What was chosen.

    setting : of the machines
    cost : of an unlabelled row, relative to C
    best : its place among those tried
    tried, log_prior : what held-out labels say of all that was tried, and its prior (t,)
    """

    setting: Setting
    cost: float
    best: int
    tried: list[Evidence]
    log_prior: Array


class TransductiveSVC(MarginClassifier):
    """Support vector machine that labels the unlabelled rows for the widest margin.

    Self-labelling with scikit-learn's SVC under a balance constraint, annealed: the unlabelled rows
    take part at a cost that grows from a thousandth to `unlabelled_cost` of a labelled row's, and
    at every cost a given share of them, those with the highest decision values, is positive. Of
    more than two classes each has a machine, which tells it from the rest.

    Width, C and the cost of unlabelled rows are chosen by labels held out, and so is what a
    decision says of the probabilities. A cost of zero, which leaves the support vector machine of
    the labelled rows, is among those tried.

    Parameters
    ----------
    C : "auto" or float, default="auto"
        Cost of a labelled row inside the margin. "auto": of 0.1 to 1000 in powers of ten, with the
        width, by the likelihood of labels held out from machines of the labelled rows, times a
        prior that decides while labels are few.
    kernel : {"linear", "rbf", "poly", "sigmoid"} or callable, default="rbf"
        Kernel of the machines; a callable takes two arrays of rows and returns their kernel matrix.
    gamma : {"auto", "scale"} or float, default="auto"
        Coefficient of "rbf", "poly" and "sigmoid". "auto": of "rbf", 1/(2ℓ²) with ℓ of a quarter
        to four times the root-mean-square length of the centred rows, chosen with C; else "scale",
        one over the number of features times the variance of X.
    degree : int, default=3
        Degree of "poly".
    coef0 : float, default=0.0
        Constant term of "poly" and "sigmoid".
    unlabelled_cost : "auto" or float, default="auto"
        Cost of an unlabelled row at the end, relative to C; 0 leaves them out. "auto": of 0 and
        0.001 to 1 in powers of ten, by labels held out whose rows take part as unlabelled ones.
    positive_share : float or None, default=None
        With two classes, the share of the second among the unlabelled rows. None: its share among
        the labelled rows, as for every class where there are more than two.
    unlabelled : "auto", None or a value, default="auto"
        What in y means unlabelled besides nulls; "auto": -1 among numbers, unless fewer than two
        classes would remain.
    random_state : None, int or numpy Generator, default=None
        Seed of the folds and of the unlabelled rows that take part in the choice of a cost.
    verbose : bool, default=False
        Whether to show progress on standard error.

    Attributes
    ----------
    classes_ : (K,) the labels, sorted
    unlabelled_ : what meant unlabelled besides nulls
    transduction_ : (n,) the most probable class of each training row; given labels stay as given
    label_distributions_ : (n, K) their class probabilities
    posterior_ : the trained machines, one for two classes, else one per class, and their
        calibration; `posterior_.decide(X)` are their own decisions
    diagnostics_ : dict with whether the labels came to rest, and a verdict in words
    C_, gamma_, unlabelled_cost_ : as given or chosen
    assigned_ : (n,) of two classes, the labels that the machine was trained with at the end
    n_trained_ : machines trained in all on the way to these labels

    References
    ----------
    V. N. Vapnik, "Statistical learning theory" (1998). T. Joachims, "Transductive inference for
    text classification using support vector machines" (1999).

    Examples
    --------
    >>> from atoll import TransductiveSVC
    >>> from atoll.datasets import hide_labels, make_crescents
    >>> X, truth = make_crescents(n_samples=40, random_state=0)
    >>> y = hide_labels(truth, per_class=3, marker=None, random_state=0)
    >>> TransductiveSVC().fit(X, y).transduction_.shape
    (40,)
    """

    paper: ClassVar[str] = "Vapnik 1998; Joachims 1999"
    summary: ClassVar[str] = "widest margin over labelled and unlabelled rows"
    holds_labels_out = True
    compares_columns = True

    parameters: ClassVar[Mapping[str, Rule]] = COMMON | {
        "C": OneOf("auto") | Number(above=0),
        "kernel": OneOf(*OF_KERNELS) | A("a function of two arrays of rows", Callable),  # type: ignore[arg-type]
        "gamma": OneOf("auto", "scale") | Number(least=0),
        "degree": Whole(0),
        "coef0": Number(),
        "unlabelled_cost": OneOf("auto") | Number(least=0),
        "positive_share": Nothing("as among the labels") | Number(above=0, below=1),
        "random_state": RANDOM_STATE,
    }

    def __init__(
        self,
        *,
        C: float | str = "auto",
        kernel: Any = "rbf",
        gamma: float | str = "auto",
        degree: int = 3,
        coef0: float = 0.0,
        unlabelled_cost: float | str = "auto",
        positive_share: float | None = None,
        unlabelled: Any = "auto",
        random_state: Any = None,
        verbose: bool = False,
    ):
        self.C = C
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.unlabelled_cost = unlabelled_cost
        self.positive_share = positive_share
        self.unlabelled = unlabelled
        self.random_state = random_state
        self.verbose = verbose

    def _check_labels(self, labels: PartialLabels) -> None:
        if self.positive_share is not None and len(labels.classes) > 2:
            raise ValueError(
                f"positive_share must be None for {len(labels.classes)} classes, got "
                f"{self.positive_share!r}."
            )

    def _fit(self, X: Array, labels: PartialLabels) -> Fit:
        rng = generator(self.random_state)
        K, seen = len(labels.classes), labels.is_labelled
        with Progress(self.verbose, type(self).__name__, "machines") as bar:
            search = self._search(rng, X, labels, bar.report)
            chosen = search.setting
            # Dozens of machines see the same rows: their kernel is found once, where it fits.
            gram = self._gram(X, chosen.gamma) if self._fits(X) else None
            found = [self._fit_one(X, gram, labels, k, search, bar.report) for k in targets(K)]
        assigned, machines = zip(*found)
        n_trained = sum(one.n_trained for one in assigned)
        settled = all(one.settled for one in assigned)
        verdict = (
            f"Labels came to rest at every cost; {n_trained} machines were trained."
            if settled
            else "Labels went back and forth at some cost; lower C or unlabelled_cost."
        )
        shares = class_shares.given(np.bincount(labels.codes[seen], minlength=K))
        calibration = calibrate(search.tried, search.log_prior, search.best, np.log(shares))
        attributes = {
            "n_trained_": n_trained,
            "C_": chosen.C,
            "gamma_": chosen.gamma,
            "unlabelled_cost_": search.cost,
        }
        if K == 2:
            attributes["assigned_"] = labels.classes[assigned[0].codes]
        fit = Fit(
            CalibratedMachine(Machines(machines), calibration),
            {"converged": settled, "verdict": verdict},
            attributes=attributes,
        )
        return with_calibration(fit, calibration, search.tried[search.best])

    def _fit_one(
        self,
        X: Array,
        gram: Array | None,
        labels: PartialLabels,
        target: int,
        search: Search,
        report: Callable[[], None],
    ) -> tuple[Assignment, SVC]:
        """Train the machine that tells one class from the rest."""
        seen = labels.is_labelled
        codes = (labels.codes == target).astype(np.intp)
        machine = self._machine(search.setting)

        def of_rows(signs: Codes, weights: Array) -> Array:
            used = np.flatnonzero(weights > 0)
            _train(machine, X[used], signs[used], weights[used])
            return machine.decision_function(X)

        plain = of_rows if gram is None else trainer(gram, search.setting.C)

        def train(signs: Codes, weights: Array) -> Array:
            report()
            return plain(signs, weights)

        share = float(codes[seen].mean()) if self.positive_share is None else self.positive_share
        found = assign(train, codes, seen, share, unlabelled_cost=search.cost)
        used = found.weights > 0
        _train(machine, X[used], found.codes[used], found.weights[used])
        return found, machine

    # The choice of settings -----------------------------------------------------------------------

    def _search(
        self, rng: np.random.Generator, X: Array, labels: PartialLabels, report: Callable[[], None]
    ) -> Search:
        """Choose kernel width and C by the labelled rows alone, then the cost with all rows."""
        known, unknown = np.flatnonzero(labels.is_labelled), np.flatnonzero(~labels.is_labelled)
        known = known[part_of_labels(rng, labels.codes[known], MOST_MEASURED)]
        codes = labels.codes[known]
        fold = partitions(rng, codes)
        settings = self._settings(X)
        prior = np.array([one.log_prior for one in settings])
        tried: list[Evidence] = []
        for gamma, group in groupby(settings, key=lambda one: one.gamma):
            gram = self._gram(X[known], gamma)
            for one in group:
                report()
                tried += measure_costs(gram, codes, fold, one.C)
        best = choose(tried, prior)
        setting = settings[best]
        given = self.unlabelled_cost
        costs = COSTS if isinstance(given, str) else (float(given),)
        if len(unknown) == 0 or costs == (0.0,):
            return Search(setting, 0.0, best, tried, prior)
        some = rng.permutation(unknown)[:MOST_UNLABELLED_MEASURED]
        gram = self._gram(X[np.concatenate([known, some])], setting.gamma)
        # Fewer rows stand for all of them: each counts for several.
        measured_at = [cost * len(unknown) / len(some) for cost in costs]
        report()
        measured = measure_costs(gram, codes, fold, setting.C, measured_at, self.positive_share)
        at = (0.0, *costs) if isinstance(given, str) else costs
        measured = measured[-len(at) :]
        place = choose(measured, np.zeros(len(at)))
        # The prior of the setting is shared out among its costs.
        others = [one for one in range(len(tried)) if one != best]
        log_prior = np.concatenate([np.full(len(at), prior[best] - np.log(len(at))), prior[others]])
        return Search(
            setting, at[place], place, [*measured, *[tried[one] for one in others]], log_prior
        )

    def _settings(self, X: Array) -> list[Setting]:
        """Return widths and C to be tried; the same widths beside each other."""
        widths: list[tuple[float, float]]
        if self.gamma == "auto" and self.kernel == "rbf":
            length = float(np.sqrt(X.var(axis=0).sum())) or 1.0
            widths = [(0.5 / (f * length) ** 2, bonus) for f, bonus in LENGTH_FACTORS.items()]
        elif isinstance(self.gamma, str):
            spread = float(X.var())
            widths = [(1.0 / (X.shape[1] * spread) if spread > 0 else 1.0, 0.0)]
        else:
            widths = [(float(self.gamma), 0.0)]
        costs = PENALTIES if isinstance(self.C, str) else {float(self.C): 0.0}
        return [
            Setting(C, gamma, of_width + of_C)
            for gamma, of_width in widths
            for C, of_C in costs.items()
        ]

    def _fits(self, X: Array) -> bool:
        return len(X) <= MOST_ROWS_WITH_GRAM and isinstance(self.kernel, str)

    def _machine(self, setting: Setting) -> SVC:
        return SVC(
            C=setting.C,
            kernel=self.kernel,
            gamma=setting.gamma,
            degree=self.degree,
            coef0=self.coef0,
            random_state=0,  # see `fit_svc` of `atoll.models.laplacian`
        )

    def _gram(self, X: Array, gamma: float) -> Array:
        """Return the kernel matrix of some rows."""
        if not isinstance(self.kernel, str):
            return np.asarray(self.kernel(X, X), dtype=float)
        given = {"gamma": gamma, "degree": self.degree, "coef0": self.coef0}
        own = {name: given[name] for name in OF_KERNELS[self.kernel]}
        return pairwise_kernels(X, metric=self.kernel, **own)


def _train(machine: SVC, X: Array, codes: Codes, weights: Array) -> None:
    """Fit a machine; raise a ValueError in our words where its numbers run out of digits."""
    try:
        machine.fit(X, codes, sample_weight=weights)
    except ValueError as error:
        if "not finite" not in str(error):
            raise
        raise ValueError(
            "X holds numbers so large that the support vector machine has no digits left for "
            "their differences. Standardise the features, for example with "
            "sklearn.preprocessing.StandardScaler."
        ) from error
