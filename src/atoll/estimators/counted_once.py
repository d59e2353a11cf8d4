"""Fits in which a label counts once that stands in the table several times with its row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from atoll.core.labels import PartialLabels
from atoll.core.repeated_rows import about_repeats, without_repeats
from atoll.estimators.far_rows import is_far

if TYPE_CHECKING:
    from atoll.estimators.shell import Fit, SemiSupervisedClassifier


def fit_counting_once(model: SemiSupervisedClassifier, X: Any, labels: PartialLabels) -> Fit:
    """Fit a model; if it holds labels out, to labels without copies, of which the verdict tells.

    A label that is held out must not be known from a copy of its row. Rows outside memory are not
    looked at.
    """
    apart = model.holds_labels_out and not is_far(X)
    counted = without_repeats(X, labels) if apart else labels
    fit = model._fit(X, counted)
    said = about_repeats(labels.n_labelled - counted.n_labelled)
    if not said:
        return fit
    found = fit.transduction
    if found is not None:  # of rows whose label was not counted as well
        found = found[~labels.is_labelled[~counted.is_labelled]]
    diagnostics = {**fit.diagnostics, "verdict": f"{fit.diagnostics['verdict']}\n{said}"}
    return fit._replace(transduction=found, diagnostics=diagnostics)
