"""What a comparison of models found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from sklearn.base import clone
from sklearn.pipeline import make_pipeline

from atoll.comparison.candidates import Candidate
from atoll.comparison.judging import Paired
from atoll.core.extras import import_extra
from atoll.core.shown import readable


class ModelRow(NamedTuple):
    """One model of the table.

    model : its name
    is_peer : whether it is not a model of atoll
    log_loss, error : means over the labelled rows, each from a fit without its label
    expected : expected difference of log-loss from the reference's, other tables considered
    near_best : probability that its log-loss is within .02 of the best model's, or below
    seconds : of one fit and its predictions, on average over the folds
    note : in what way its settings are not the usual ones
    """

    model: str
    is_peer: bool
    log_loss: float
    error: float
    expected: float
    near_best: float
    seconds: float
    note: str


class Difference(NamedTuple):
    """A model less the reference, over the same labelled rows.

    model : its name
    log_loss, error : differences, with their uncertainty; below zero the model is better
    """

    model: str
    log_loss: Paired
    error: Paired


class Alone(NamedTuple):
    """The main model of a recommended blend, for a user who can only fit single models.

    model : its name
    is_ahead : whether the blend did worse than it on these labels, beyond doubt
    before : what goes before its name: that labels cannot tell, if they cannot
    blend : what the blend is made of, and how sure it is to be near the best, in words
    more : what else there is to say of it, in sentences
    """

    model: str
    is_ahead: bool
    before: str
    blend: str
    more: str


@readable
@dataclass(frozen=True, repr=False)
class ModelComparison:
    """Models compared on a user's own labels.

    table : a row for each model, the lowest log-loss first
    differences : of each model from the reference
    best : name of the model to use
    recommendation : that in a sentence
    can_tell : whether the labels are enough to speak firmly
    reference : name of the model that others are compared with
    n_rows, n_labels, n_classes : of the data
    n_used_rows : rows that the models were fitted to
    n_rarest : labels of the rarest class
    n_splits : folds; 0 if no label could be held out
    left_out : name of each model that was not compared, and why
    candidate : the best model itself
    step : what prepares a table of words and blanks for it; None if rows are taken as they are
    single : classes with a single label, which was in every fit and is not scored
    unlike : whether columns had unlike ranges, and were standardised for every model; None where
        the table was prepared before, or is sparse
    n_asked : folds that were asked for; there are at most as many as the rarest class has labels
    alone : the main model of the recommended blend; None if a single model is recommended
    only_words : whether rows are sparse, as those of texts are, with no other columns
    n_repeated : labels left out, since they are copies of others together with their rows
    """

    table: tuple[ModelRow, ...]
    differences: tuple[Difference, ...]
    best: str
    recommendation: str
    can_tell: bool
    reference: str
    n_rows: int
    n_labels: int
    n_classes: int
    n_used_rows: int
    n_rarest: int
    n_splits: int
    left_out: tuple[tuple[str, str], ...]
    candidate: Candidate
    step: Any = None
    single: tuple[Any, ...] = ()
    unlike: bool | None = None
    n_asked: int = 0
    alone: Alone | None = None
    only_words: bool = False
    n_repeated: int = 0

    def classifier(self) -> Any:
        """Return the best model, to be fitted to all rows and labels: `classifier().fit(X, y)`."""
        if self.step is None:
            return self.candidate.classifier()
        return make_pipeline(clone(self.step), self.candidate.classifier())

    def to_frame(self) -> Any:
        """Return the table with the differences as a pandas data frame, indexed by model."""
        pd = import_extra("pandas")
        rows = pd.DataFrame(self.table, columns=list(ModelRow._fields)).set_index("model")
        for name in ("log_loss", "error"):
            found = {one.model: getattr(one, name) for one in self.differences}
            for part in ("mean", "low", "high"):
                rows[f"{name}_difference_{part}"] = [getattr(found[m], part) for m in rows.index]
        return rows

    def _parts(self) -> list[Any]:
        from atoll.comparison.page import notebook_parts

        return notebook_parts(self)

    def __str__(self) -> str:
        from atoll.comparison.page import terminal_lines

        return "\n".join(terminal_lines(self))
