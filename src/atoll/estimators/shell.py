"""The shell of every estimator: whatever is the same for all of them.

A subclass says only how data become a `Fit`. The shell checks parameters, rows, labels and memory,
decides what is unlabelled, and makes predictions, the transduction, scores, entropy, the verdict
and its warning.
"""

from __future__ import annotations

import sys
import time
from abc import ABCMeta, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sklearn import get_config
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import estimator_html_repr
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from atoll.core.chunks import RowSource, is_source, source_of
from atoll.core.fillings import Fillings, averaged, carrying, fillings_of, part_of, remarks_of
from atoll.core.labels import (
    PartialLabels,
    parse_labels,
    refuse_other_kind,
    require_classes,
    sorted_classes,
    unlabelled_marker,
    with_gaps,
)
from atoll.core.memory import check_memory
from atoll.core.progress import SECONDS_BETWEEN_LINES, is_watched, seconds_until_shown
from atoll.core.remarks import hearing, warn_user
from atoll.core.row_names import row_names
from atoll.core.threads import one_thread
from atoll.diagnostics import entropy
from atoll.diagnostics import to_arviz as draws_to_arviz
from atoll.diagnostics.wrong_rows import KeptError, kept_error
from atoll.estimators import display
from atoll.estimators.column_explanation import columns_of_array, with_columns
from atoll.estimators.counted_once import fit_counting_once
from atoll.estimators.far_rows import OfEveryRow, by_chunks, is_far, map_for, read_source
from atoll.estimators.parameters import (
    PROBABILITY,
    RANDOM_STATE,
    Number,
    OneOf,
    Rule,
    Whole,
    check_parameters,
    check_value,
)
from atoll.estimators.progress import Progress
from atoll.estimators.row_explanation import explain_row
from atoll.estimators.row_memory import RowMemory, digest_of
from atoll.estimators.trust import about_single_labels, how_far, verdict_of
from atoll.estimators.unlike_columns import remark_on_scales
from atoll.estimators.validation import (
    generator,
    read_chosen,
    read_labels,
    read_rows,
    remark_on_equal_rows,
    remark_on_order,
    remark_on_table,
    weights_of_score,
)
from atoll.models.foretold import audits_of

Array = NDArray[np.float64]
Knowledge = Callable[[PartialLabels], PartialLabels]
NOTHING: Mapping[str, Any] = MappingProxyType({})
KEPT = "_kept_of_rows"  # where an estimator keeps its `RowMemory`
TRAINING = "_training_rows"  # where a classifier keeps what `plot` shows
BEGAN_AT = "_began_at"  # when a fit began
SAID_AT = "_said_at"  # when it wrote its last line
NOT_SAVED = (KEPT, TRAINING, BEGAN_AT, SAID_AT)  # and not copied either


class Fit(NamedTuple):
    """What a subclass makes of the data; the shell turns it into fitted attributes.

    posterior : what prediction needs, `posterior_`
    diagnostics : `diagnostics_`: "verdict", lines on how inference went, which become points below
        one that says whether to trust the fit; "mixed" for chains, "converged" for everything else,
        with a warning if it is False; and more
    transduction : (u, K) class probabilities of the unlabelled rows; None: ask the posterior
    traces : `draws_`, name -> (chain, draw) array
    objectives : `objectives_`, (t,) what was maximised or bounded, after every iteration
    attributes : further fitted attributes, by their names
    remarks : further warnings
    trouble : text of the warning if "mixed" or "converged" is False, with a fix; None: the verdict
    beware : what else the verdict is to name, of which the user has already been warned
    """

    posterior: Any
    diagnostics: Mapping[str, Any]
    transduction: Array | None = None
    traces: Mapping[str, Array] = NOTHING
    objectives: Array | None = None
    attributes: Mapping[str, Any] = NOTHING
    remarks: tuple[str, ...] = ()
    trouble: str | None = None
    beware: tuple[str, ...] = ()


class Need(NamedTuple):
    """Memory that a fit will take.

    n_bytes : at its peak
    what : what needs them, such as "a kernel matrix of 100000 rows"
    instead : what to do if there is less
    """

    n_bytes: int
    what: str
    instead: str

    def check(self) -> None:
        """Raise a ValueError if the machine has less."""
        check_memory(self.n_bytes, what=self.what, instead=self.instead)


class Estimator(BaseEstimator, metaclass=ABCMeta):
    """What classifiers, regressors and densities share."""

    paper: ClassVar[str]
    summary: ClassVar[str]
    parameters: ClassVar[Mapping[str, Rule]]
    saves: ClassVar[tuple[type, ...]] = ()
    """Types of the estimator's own file that a saved model holds, such as its posterior."""
    takes_sparse: ClassVar[bool] = False
    """Whether rows may be sparse; `_read_rows` then returns them as a `csr_array`."""
    keeps_single: ClassVar[bool] = False
    """Whether rows of single precision stay in it."""
    keeps_rows: ClassVar[bool] = False
    """Whether a fit holds all rows as they were read: a copy, which is the user's no more."""
    in_one_thread: ClassVar[bool] = False
    """Whether linear algebra comes in pieces so small that more threads would slow it down."""

    def _threads(self) -> AbstractContextManager[None]:
        """Return what fits and predictions run in."""
        return one_thread() if self.in_one_thread else nullcontext()

    def _read_rows(self, X: Any, *, reset: bool = False) -> Any:
        """Return rows as the model takes them; `reset` sets the estimator's columns by them."""
        rows = read_rows(self, X, reset=reset)
        return rows.copy() if reset and self.keeps_rows else rows

    def _keep_columns(self, found: Any) -> None:
        """Set number and names of the columns of rows in chunks, which `found` has."""
        self.n_features_in_ = found.n_features
        if found.names is not None:
            self.feature_names_in_ = np.array(found.names, dtype=object)

    def _begin(self) -> None:
        """Check the parameters, and delete the attributes of an earlier fit."""
        check_parameters(self)
        for name in [name for name in vars(self) if name.endswith("_") or name == TRAINING]:
            delattr(self, name)
        for name in (BEGAN_AT, SAID_AT):
            setattr(self, name, time.monotonic())

    def _keep(self, fit: Fit) -> None:
        """Set the fitted attributes, and warn if something went wrong."""
        for name, value in fit.attributes.items():
            setattr(self, name, value)
        self.posterior_ = fit.posterior
        self.draws_ = dict(fit.traces)
        if fit.objectives is not None:
            self.objectives_ = fit.objectives
        found = self.diagnostics_ = {"interrupted": False, **fit.diagnostics}
        if getattr(getattr(self, "kernel", None), "n_dims", None) == 0:
            found["verdict"] += "\nThe kernel has no free parameter: nothing of it was learnt."
        outcomes: dict[str, Any] = {
            name: bool(found[name]) for name in ("mixed", "converged") if name in found
        }
        found |= outcomes
        went_wrong = not all(outcomes.values())
        trouble = " ".join(str(fit.trouble or found["verdict"]).split("\n"))
        trust = how_far(found, bool(fit.remarks or fit.beware))
        found |= {} if trust is None else {"trust": trust}
        found["verdict"] = verdict_of(found, fit.beware)
        for remark in ((trouble,) if went_wrong else ()) + fit.remarks:
            warn_user(f"{type(self).__name__}: {remark}", ConvergenceWarning)
        if self._until_shown() == 0.0:
            seconds = time.monotonic() - getattr(self, BEGAN_AT, time.monotonic())
            print(f"{type(self).__name__}: fitted in {seconds:.1f} s", file=sys.stderr)

    def _until_shown(self) -> float | None:
        """Return in how many seconds progress of the fit is to be shown; None means never."""
        return seconds_until_shown(getattr(self, "verbose", False), getattr(self, BEGAN_AT, None))

    def _say(self, what: str) -> None:
        """Write a line of progress to standard error, where `verbose` asks for it.

        In a file or pipe it is written only if the last line, or the start, was ten seconds ago.
        """
        now = time.monotonic()
        long_ago = now - getattr(self, SAID_AT, now) >= SECONDS_BETWEEN_LINES
        if self._until_shown() == 0.0 and (long_ago or is_watched()):
            setattr(self, SAID_AT, now)
            print(f"{type(self).__name__}: {what}", file=sys.stderr)

    def _progress(self, what: str, unit: str) -> Progress:
        """Return a bar for part of the fit, shown once the fit as a whole has taken long."""
        title, began = f"{type(self).__name__}: {what}", getattr(self, BEGAN_AT, None)
        return Progress(getattr(self, "verbose", False), title, unit, began=began)

    def _joint_draws(self, X: Any, n: int, random_state: Any, n_numbers: int) -> Array:
        """Return n joint draws of the posterior at all rows, with `n_numbers` numbers a row."""
        check_is_fitted(self)
        check_value("n_samples", n, Whole(1))
        check_value("random_state", random_state, RANDOM_STATE)
        rows = self._read_rows(X)
        m = rows.shape[0]
        check_memory(
            8 * (2 * n * m * n_numbers + 4 * m * m),
            what=f"{n} joint draws at {m} rows",
            instead="Ask for fewer rows or draws at a time.",
        )
        with self._threads():
            return self.posterior_.draws(rows, int(n), generator(random_state))

    def _remembered(self, X: Any) -> RowMemory:
        """Return what earlier fits computed from the same rows, if `warm_start` kept it."""
        if not getattr(self, "warm_start", False) or is_far(X):
            if hasattr(self, KEPT):
                delattr(self, KEPT)
            return RowMemory()
        kept: RowMemory | None = getattr(self, KEPT, None)
        digest = digest_of(X)
        if kept is None or kept.digest != digest:
            kept = RowMemory(digest)
            setattr(self, KEPT, kept)
        return kept

    def __getstate__(self) -> dict[str, Any]:
        """Return what a copy, a pickle or a saved model holds: not the rows of the fit."""
        state = super().__getstate__().items()
        return {name: value for name, value in state if name not in NOT_SAVED}

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        """Return the call that makes the estimator, and if it is fitted, what it found."""
        call = display.wrapped(super().__repr__(N_CHAR_MAX))
        return display.as_text(call, self) if self.__sklearn_is_fitted__() else call

    def _repr_html_(self) -> str:
        """Return what a notebook shows: a box on the fit, and scikit-learn's own."""
        own = display.as_html(self) if self.__sklearn_is_fitted__() else ""
        return own + estimator_html_repr(self)

    def _repr_mimebundle_(self, **wishes: Any) -> dict[str, str]:
        shown = {"text/plain": repr(self)}
        if get_config()["display"] == "diagram":
            shown["text/html"] = self._repr_html_()
        return shown

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "diagnostics_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = False
        tags.input_tags.sparse = self.takes_sparse
        return tags


class SemiSupervisedClassifier(ClassifierMixin, Estimator):
    """A classifier that is given labels for some rows."""

    fits_unseen_classes: ClassVar[bool] = False
    """Whether all but one of the classes that `classes` names may lack a label."""
    takes_far_rows: ClassVar[bool] = False
    """Whether `_fit` needs nothing of its rows but their shape, and some of them by number."""
    holds_labels_out: ClassVar[bool] = False  # to judge itself: copies of a label count once then
    compares_columns: ClassVar[bool] = False  # all of them at once: they should be in like units
    transduction_: Any = OfEveryRow("predict(X)")
    label_distributions_: Any = OfEveryRow("predict_proba(X)")

    # What a subclass says -------------------------------------------------------------------------

    @abstractmethod
    def _fit(self, X: Any, labels: PartialLabels) -> Fit:
        """Find the posterior; `classes_` is set already."""

    def _class_order(self, y: Any) -> Sequence[Any] | None:
        """Return all classes in their order; None: those that have a label, sorted."""
        declared = getattr(self, "classes", None)
        return None if declared is None else sorted_classes(declared)

    def _check_labels(self, labels: PartialLabels) -> None:
        """Raise a ValueError for labels that these parameters cannot take."""

    def _memory(self, X: Any, labels: PartialLabels) -> Need | None:
        """Return the memory that the fit will take, if it might be too much."""
        return None

    # What all of them do --------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn from labelled and unlabelled rows.

        Parameters
        ----------
        X : (n, d) array or data frame of finite numbers, or a sparse array if the model takes it;
            if the model can read rows that do not fit in memory, also `RowChunks`, which bring
            their labels, a Dask array or data frame, or the path of a .npy file
        y : (n,) labels; None, NaN or NA where unknown, or -1 among numbers

        Returns
        -------
        self
        """
        return self._learn(X, y)

    def _learn(self, X: Any, y: Any, know: Knowledge | None = None) -> Self:
        """Fit to rows and labels; `know` adds to the labels what else is known."""
        if is_source(X):
            return self._fit_source(source_of(X, y))
        self._begin()
        began, given = time.perf_counter(), X
        with hearing() as heard:
            X, labels = self._read_training(X, y, know)
            fit = self._fit_read(X, labels)
        with self._threads():
            self._keep(fit._replace(beware=self._beware(remarks_of(given), heard)))
            self._transduce(X, labels, fit.transduction, fillings_of(given))
        if display.worth_keeping(given):
            seconds = time.perf_counter() - began
            setattr(self, TRAINING, display.TrainingRows(given, y, seconds))
        return self

    def _fit_source(self, source: RowSource) -> Self:
        """Fit rows that stay where they are; they have no transduction."""
        if not self.takes_far_rows:
            raise ValueError(
                f"{type(self).__name__} takes rows in memory, an array or a data frame; for rows "
                "in chunks or on a cluster use AtollClassifier, GraphGPClassifier, "
                "DPMixtureClassifier or ArchipelagoClassifier."
            )
        self._begin()
        with hearing() as heard:
            fit = self._fit_read(*read_source(self, source))
        self._keep(fit._replace(beware=self._beware(heard)))
        return self

    def _fit_read(self, X: Any, labels: PartialLabels) -> Fit:
        """Fit to what was read, if there is memory for it."""
        need = self._memory(X, labels)
        if need is not None:
            need.check()
        self._keep_labels(labels)
        with self._threads():
            fit = fit_counting_once(self, X, labels)
        if remark_on_equal_rows(self, X):
            fit = fit._replace(diagnostics={**fit.diagnostics, "rows_alike": True})
        return fit

    def _beware(self, *heard: Sequence[str]) -> tuple[str, ...]:
        """Return what the verdict is to name: the warnings, and classes with a single label."""
        said = [one.removeprefix(f"{type(self).__name__}: ") for some in heard for one in some]
        counts = self._counts_of_fit[1]
        return *dict.fromkeys(said), *about_single_labels(self.classes_, counts)

    @by_chunks
    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most probable class of each row; X (m, d) -> (m,).

        Rows in chunks, in a memory map or of a .npy path are read chunk by chunk; a Dask X gives a
        Dask array.
        """
        check_is_fitted(self)
        return self.classes_[self._codes(self._read_rows(X), fillings_of(X))]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the accuracy over the labelled rows; unlabelled ones are left out.

        Parameters
        ----------
        X : (m, d)
        y : (m,) labels, with the same markers for unlabelled rows as in `fit`
        sample_weight : (m,), default=None
        """
        predicted = self.predict(X)
        labels = parse_labels(y, unlabelled=self.unlabelled_)
        remark_on_order(X, y)
        remark_on_order(X, sample_weight, "sample_weight")
        weights = weights_of_score(labels.is_labelled, len(predicted), sample_weight)
        refuse_other_kind(labels, self.classes_)
        known = weights > 0
        right = predicted[known] == labels.classes[labels.codes[known]]
        return float(np.average(right, weights=weights[known]))

    @abstractmethod
    def _codes(self, X: Any, fillings: Fillings | None) -> NDArray[np.intp]:
        """Return the most probable class of rows that were read already, as codes (m,)."""

    @abstractmethod
    def _transduce(
        self, X: Any, labels: PartialLabels, found: Array | None, fillings: Fillings | None
    ) -> None:
        """Set the classes of the training rows; given labels stay as given."""

    def _read_training(
        self, X: Any, y: Any, know: Knowledge | None = None
    ) -> tuple[Any, PartialLabels]:
        """Return rows and labels, checked."""
        if y is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None. Pass "
                "one label per row, with None, NaN or -1 where it is unknown."
            )
        remark_on_table(X, y)
        mapped = map_for(self, X)
        rows = self._read_rows(X, reset=True) if mapped is None else mapped
        unlabelled, classes = getattr(self, "unlabelled", "auto"), self._class_order(y)
        at_least = 1 if self.fits_unseen_classes and classes is not None else 2
        labels = read_labels(y, rows.shape[0], unlabelled, classes, at_least=at_least)
        chosen = read_chosen(getattr(self, "labels_chosen", False), rows.shape[0])
        labels = labels._replace(is_chosen=chosen)
        if know is not None:
            labels = know(labels)
            require_classes(labels, at_least=at_least)
        self._check_labels(labels)
        remark_on_scales(self, rows, labels)
        return rows, labels

    def _keep_labels(self, labels: PartialLabels) -> None:
        self.classes_ = labels.classes
        self._counts_of_fit = (len(labels.codes), labels.counts)
        self.unlabelled_ = unlabelled_marker(labels, getattr(self, "unlabelled", "auto"))


class Classifier(SemiSupervisedClassifier):
    """A classifier with class probabilities, from a posterior that answers the protocol."""

    has_functions: ClassVar[bool] = True
    """Whether the posterior has `latent(X)`, and so the classifier `predict_latent`."""

    @by_chunks
    def predict_proba(self, X: Any) -> Array:
        """Return class probabilities, averaged over the posterior; X (m, d) -> (m, K).

        Those of a row whose blank numbers `make_preprocessor()` filled in are averaged over eight
        fillings as well.

        Rows in chunks, in a memory map or of a .npy path are read chunk by chunk; a Dask X gives a
        Dask array.
        """
        check_is_fitted(self)
        return self._proba(self._read_rows(X), fillings_of(X))

    def _proba(self, X: Any, fillings: Fillings | None) -> Array:
        """Return class probabilities of rows that were read already; X (m, d) -> (m, K)."""
        with self._threads():
            return averaged(lambda rows: np.exp(self.posterior_.log_proba(rows)), X, fillings)

    @by_chunks
    def predict(self, X: Any, *, reject_below: float | None = None) -> NDArray[Any]:
        """Return the most probable class of each row, or nothing where it is not probable enough.

        Parameters
        ----------
        X : (m, d)
        reject_below : float, default=None
            Rows whose most probable class has a lower probability get None, in an array of objects:
            pandas takes it as missing, and `fit` as unlabelled. `estimate_error` says how many of
            the other rows are wrong. None: every row has a class.

        Returns
        -------
        (m,)
        """
        if reject_below is None:
            return super().predict(X)
        check_value("reject_below", reject_below, PROBABILITY)
        return self._with_gaps(self.predict_proba(X), reject_below)

    def _with_gaps(self, proba: Array, reject_below: float) -> NDArray[Any]:
        """Return classes as objects, None where no probability (m, K) reaches a limit."""
        return with_gaps(self.classes_, proba.argmax(axis=1), proba.max(axis=1) >= reject_below)

    def estimate_error(
        self, X: Any, *, reject_below: float = 0.0, confidence: float = 0.9
    ) -> KeptError:
        """Return the error to expect on the rows of X that `predict` does not leave out.

        The model's own doubts are compared with the labels that it was given, each predicted from
        the others, if the model can do that; a model that cannot is trusted less.

        Parameters
        ----------
        X : (m, d)
        reject_below : float, default=0.0
            As in `predict`; 0 keeps every row.
        confidence : float, default=0.9
            Probability with which the error is to lie between the limits.
        """
        check_value("reject_below", reject_below, PROBABILITY)
        check_value("confidence", confidence, Number(above=0, below=1))
        proba = self.predict_proba(X)
        held_out, codes, counts = self._held_out_labels()
        doubts = self._doubts(X, proba)
        return kept_error(proba, held_out, codes, reject_below, confidence, doubts, counts)

    def _doubts(self, X: Any, proba: Array) -> Array | None:
        """Return doubts of the predicted classes that are comparable to held-out labels, (m,).

        None: those of the probabilities (m, K).
        """
        return None

    def _held_out_labels(self) -> tuple[Array, NDArray[np.intp], Array]:
        """Return rows predicted without their labels (a, K), these (a,), and what each counts."""
        return audits_of(self)

    @by_chunks
    def predict_entropy(self, X: Any) -> Array:
        """Return the entropy of the class probabilities in nats: how unsure; X (m, d) -> (m,)."""
        return entropy(self.predict_proba(X))

    def sample_proba(self, X: Any, n_samples: int = 100, *, random_state: Any = None) -> Array:
        """Draw class probabilities from the posterior, of all rows jointly.

        Rows of one draw belong together: they come from the same functions, or from the same
        mixture. The spread over draws is what the model does not know. Their mean is
        `predict_proba`, except where that weighs each draw by how well it explains the row itself,
        as under a null category, for densities of rows whose parameters are uncertain, and for rows
        whose blank numbers were filled in: draws have one filling, by the mean of like rows.

        Parameters
        ----------
        X : (m, d)
        n_samples : int, default=100
        random_state : None, int or numpy Generator, default=None

        Returns
        -------
        (n_samples, m, K) array
        """
        return self._joint_draws(X, n_samples, random_state, len(self.classes_))

    @available_if(lambda self: type(self).has_functions)
    def predict_latent(self, X: Any) -> tuple[Array, Array]:
        """Return mean and variance of the latent functions; X (m, d) -> (m, F) each."""
        check_is_fitted(self)
        return self.posterior_.latent(self._read_rows(X))

    def plot(self, X: Any = None, y: Any = None, *, n_splits: int | str = "auto") -> Any:
        """Draw what the model found: classes, where it is unsure, and how reliable it is.

        Three pictures on a figure of pyplot's, which a notebook shows: a map of the most probable
        classes, a map of their entropy (of more than two columns a plane through them, on which
        every row has the colour of its own), and the reliability of probabilities of labels that
        were held out, for which the model is fitted again to each fold.

        Parameters
        ----------
        X : (n, d) array or data frame, default=None
            The rows of the fit; None: those that it was given, if they are still known.
        y : (n,) labels, default=None
        n_splits : int or "auto", default="auto"
            Folds of the labels; 0 leaves the reliability out. "auto": five, if the refits will take
            less than ten seconds; otherwise a line below the maps says how long they would take.

        Returns
        -------
        (2,) or (3,) array of matplotlib Axes
        """
        check_is_fitted(self)
        check_value("n_splits", n_splits, OneOf("auto") | Whole(0))
        kept: display.TrainingRows | None = getattr(self, TRAINING, None)
        X, y = display.rows_of_fit(getattr(self, TRAINING, None), X, y, "plot(X, y)")
        why_none = ""
        if n_splits == "auto":
            n_splits, why_none = display.folds_in_time(None if kept is None else kept.seconds)
        return display.plot_model(
            self, X, y, unlabelled=self.unlabelled_, n_splits=int(n_splits), why_none=why_none
        )

    def explain_row(
        self,
        row: Any,
        X: Any = None,
        y: Any = None,
        *,
        n_labels: int = 5,
        refit: bool | None = None,
    ) -> Any:
        """Say which labels the prediction of one row rests on, and what each contributes.

        The labels are those with the largest pulls, of either sign, and for every three of them the
        nearest along the graph of neighbours; only the nearest if the model cannot tell pulls. A
        pull is a label's share in all that labels do to the row. For any model, a fit without a
        label says what the probabilities would be.

        Parameters
        ----------
        row : int, str or (d,) array
            Which row of the fit, from 0, its name in the index of a data frame, or a row of its
            own.
        X : (n, d) array or data frame, default=None
            The rows of the fit; None: those that it was given, if they are still known.
        y : (n,) labels, default=None
        n_labels : int, default=5
        refit : bool or None, default=None
            Whether to fit the model again without each of the labels; None: if it cannot tell their
            pulls.

        Returns
        -------
        RowExplanation, which prints in words
        """
        check_is_fitted(self)
        check_value("n_labels", n_labels, Whole(1))
        if X is not None and (np.ndim(X) == 0 and not hasattr(X, "shape")):
            raise ValueError(
                f"X must be the rows of the fit, or None, got {X!r}; the number of labels to list "
                f"is given by name: explain_row({row!r}, n_labels={X!r})."
            )
        if X is not None and y is None:
            raise ValueError(
                "y must be the labels of the rows X, one for each or a null, got None; give both, "
                "or neither where the model still knows its rows: explain_row(row)."
            )
        call = "explain_row(row, X, y)"
        X, y = display.rows_of_fit(getattr(self, TRAINING, None), X, y, call)
        rows = self._read_rows(X)
        if isinstance(row, str):
            row = display.place_of(row, X)
        if isinstance(row, int | np.integer):
            if not 0 <= row < rows.shape[0]:
                raise ValueError(f"row must be from 0 to {rows.shape[0] - 1}, got {row}.")
            x = part_of(carrying(rows, fillings_of(X)), slice(row, row + 1))
        else:
            x = display.row_of_numbers(row, rows.shape[1])
        found = explain_row(self, x, rows, y, n_labels=int(n_labels), refit=refit)
        columns = columns_of_array(getattr(self, "feature_names_in_", None), rows.shape[1])
        return with_columns(found, self, x, rows, columns).named(row_names(X))

    def to_arviz(self) -> Any:
        """Return the recorded draws as ArviZ's data structure, for its plots and summaries."""
        check_is_fitted(self)
        if not self.draws_:
            raise ValueError(
                f"this {type(self).__name__} was fitted without Markov chains and has no draws to "
                'export; where it has inference="mcmc", fit it with that.'
            )
        return draws_to_arviz(self.draws_, attrs={"model": type(self).__name__})

    def _codes(self, X: Any, fillings: Fillings | None) -> NDArray[np.intp]:
        if fillings is not None:
            return np.argmax(self._proba(X, fillings), axis=1)
        with self._threads():
            return np.argmax(self.posterior_.log_proba(X), axis=1)

    def _transduce(
        self, X: Any, labels: PartialLabels, found: Array | None, fillings: Fillings | None
    ) -> None:
        self.label_distributions_ = np.eye(len(self.classes_))[labels.codes]
        unknown = ~labels.is_labelled
        if found is None and unknown.any():
            found = np.exp(self.posterior_.log_proba(X[unknown]))
        if found is not None:
            self.label_distributions_[unknown] = found
        if fillings is not None and unknown[fillings.rows].any():  # as if they were new rows
            rows = fillings.rows[unknown[fillings.rows]]
            part = fillings.of(rows, len(unknown))
            self.label_distributions_[rows] = self._proba(X[rows], part)
        self.transduction_ = self.classes_[np.argmax(self.label_distributions_, axis=1)]


class MarginClassifier(Classifier):
    """A machine with decisions, whose probabilities are calibrated on labels held out.

    Its posterior has a `decide(X)`, the machine's own decisions, besides the protocol.
    """

    has_functions = False

    def decision_function(self, X: Any) -> Array:
        """Return log-odds of the second class (m,), or log-probabilities of each class (m, K).

        Of two classes they grow with the machine's own decisions, `posterior_.decide(X)`.
        """
        check_is_fitted(self)
        found = self.posterior_.log_proba(self._read_rows(X))
        return found[:, 1] - found[:, 0] if found.shape[1] == 2 else found
