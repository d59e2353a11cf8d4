"""The transductive support vector machine on scikit-learn's SVC."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.svm import SVC

from atoll.core.labels import PartialLabels
from atoll.estimators.parameters import COMMON, A, Nothing, Number, OneOf, Rule, Whole
from atoll.estimators.progress import Progress
from atoll.estimators.shell import Fit, MarginClassifier
from atoll.models.transductive_svm import Assignment, Machines, assign

Array = NDArray[np.float64]

MOST_ROWS_WITH_GRAM = 4000  # 128 MB
# Of SVC's kernels, what each is a function of.
OF_KERNELS = {
    "linear": (),
    "rbf": ("gamma",),
    "poly": ("gamma", "degree", "coef0"),
    "sigmoid": ("gamma", "coef0"),
}


class TransductiveSVC(MarginClassifier):
    """Support vector machine that labels the unlabelled rows for the widest margin.

    Self-labelling with scikit-learn's SVC under a balance constraint, annealed: the unlabelled rows
    take part at a cost that grows from a thousandth to `unlabelled_cost` of a labelled row's, and
    at every cost a given share of them, those with the highest decision values, is positive. Of
    more than two classes each has a machine, which tells it from the rest. There are no
    probabilities.

    Parameters
    ----------
    C : float, default=1.0
        Cost of a labelled row inside the margin.
    kernel : {"linear", "rbf", "poly", "sigmoid"} or callable, default="rbf"
        Kernel of the machines; a callable takes two arrays of rows and returns their kernel matrix.
    gamma : {"scale", "auto"} or float, default="scale"
        Coefficient of "rbf", "poly" and "sigmoid"; "scale" is one over the number of features
        times the variance of X, "auto" one over the number of features.
    degree : int, default=3
        Degree of "poly".
    coef0 : float, default=0.0
        Constant term of "poly" and "sigmoid".
    unlabelled_cost : float, default=1.0
        Cost of an unlabelled row at the end, relative to C.
    positive_share : float or None, default=None
        With two classes, the share of the second among the unlabelled rows. None: its share among
        the labelled rows, as for every class where there are more than two.
    unlabelled : "auto", None or a value, default="auto"
        What in y means unlabelled beside nulls; "auto": -1 in an integer y, unless fewer than two
        classes would remain.
    verbose : bool, default=False
        Whether to show progress on standard error.

    Attributes
    ----------
    classes_ : (K,) the labels, sorted
    unlabelled_ : what meant unlabelled beside nulls
    transduction_ : (n,) the class of each training row; given labels stay as given
    posterior_ : Machines, the trained SVC: one for two classes, else one per class
    diagnostics_ : dict with whether the labels came to rest, and a verdict in words
    n_trained_ : machines trained in all

    References
    ----------
    V. N. Vapnik, "Statistical learning theory" (1998). T. Joachims, "Transductive inference for
    text classification using support vector machines" (1999).

    Examples
    --------
    >>> from atoll import TransductiveSVC
    >>> from atoll.datasets import hide_labels, make_crescents
    >>> X, truth = make_crescents(n_samples=80, random_state=0)
    >>> y = hide_labels(truth, per_class=3, marker=None, random_state=0)
    >>> TransductiveSVC().fit(X, y).transduction_.shape
    (80,)
    """

    paper: ClassVar[str] = "Vapnik 1998; Joachims 1999"
    summary: ClassVar[str] = "widest margin over labelled and unlabelled rows; no probabilities"

    parameters: ClassVar[Mapping[str, Rule]] = COMMON | {
        "C": Number(above=0),
        "kernel": OneOf(*OF_KERNELS) | A("a function of two arrays of rows", Callable),  # type: ignore[arg-type]
        "gamma": OneOf("scale", "auto") | Number(least=0),
        "degree": Whole(0),
        "coef0": Number(),
        "unlabelled_cost": Number(above=0),
        "positive_share": Nothing("as among the labels") | Number(above=0, below=1),
    }

    def __init__(
        self,
        *,
        C: float = 1.0,
        kernel: Any = "rbf",
        gamma: float | str = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        unlabelled_cost: float = 1.0,
        positive_share: float | None = None,
        unlabelled: Any = "auto",
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
        self.verbose = verbose

    def _check_labels(self, labels: PartialLabels) -> None:
        if self.positive_share is not None and len(labels.classes) > 2:
            raise ValueError(
                f"positive_share must be None for {len(labels.classes)} classes, got "
                f"{self.positive_share!r}."
            )

    def _fit(self, X: Array, labels: PartialLabels) -> Fit:
        K = len(labels.classes)
        # Dozens of machines see the same rows: their kernel is found once, where it fits.
        gram = self._gram(X)
        with Progress(self.verbose, type(self).__name__, "machines") as bar:
            found = [
                self._fit_one(X, gram, labels, k, bar.report) for k in ([1] if K == 2 else range(K))
            ]
        assigned, machines = zip(*found)
        n_trained = sum(one.n_trained for one in assigned)
        settled = all(one.settled for one in assigned)
        verdict = (
            f"Labels came to rest at every cost; {n_trained} machines were trained."
            if settled
            else "Labels went back and forth at some cost; lower C or unlabelled_cost."
        )
        return Fit(
            Machines(machines),
            {"converged": settled, "verdict": verdict},
            transduction=assigned[0].codes[~labels.is_labelled] if K == 2 else None,
            attributes={"n_trained_": n_trained},
        )

    def _fit_one(
        self,
        X: Array,
        gram: Array | None,
        labels: PartialLabels,
        target: int,
        report: Callable[[], None],
    ) -> tuple[Assignment, SVC]:
        """Train the machine that tells one class from the rest."""
        seen = labels.is_labelled
        codes = (labels.codes == target).astype(np.intp)
        share = float(codes[seen].mean()) if self.positive_share is None else self.positive_share
        machine = SVC(
            C=self.C,
            kernel=self.kernel,
            gamma=self._gamma(X),
            degree=self.degree,
            coef0=self.coef0,
        )
        of_gram = SVC(C=self.C, kernel="precomputed")

        def train(signs: NDArray[np.intp], weights: Array) -> Array:
            report()
            used = np.flatnonzero(weights > 0)
            if gram is None:
                machine.fit(X[used], signs[used], sample_weight=weights[used])
                return machine.decision_function(X)
            of_gram.fit(gram[np.ix_(used, used)], signs[used], sample_weight=weights[used])
            return of_gram.decision_function(gram[:, used])

        found = assign(train, codes, seen, share, unlabelled_cost=float(self.unlabelled_cost))
        used = found.weights > 0
        machine.fit(X[used], found.codes[used], sample_weight=found.weights[used])
        return found, machine

    def _gamma(self, X: Array) -> float:
        """Return gamma as a number, of all rows, whichever of them a machine sees."""
        if self.gamma == "scale":
            spread = X.var()
            return 1.0 / (X.shape[1] * spread) if spread > 0 else 1.0
        return 1.0 / X.shape[1] if self.gamma == "auto" else self.gamma  # type: ignore[return-value]

    def _gram(self, X: Array) -> Array | None:
        """Return the kernel matrix of all rows, where it is one of SVC's own and fits."""
        if len(X) > MOST_ROWS_WITH_GRAM or not isinstance(self.kernel, str):
            return None
        given = {"gamma": self._gamma(X), "degree": self.degree, "coef0": self.coef0}
        own = {name: given[name] for name in OF_KERNELS[self.kernel]}
        return pairwise_kernels(X, metric=self.kernel, **own)
