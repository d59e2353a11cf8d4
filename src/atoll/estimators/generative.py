"""Estimators that have a density of rows: classifiers with one, and densities alone."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import DensityMixin
from sklearn.utils.validation import check_is_fitted

from atoll.estimators.novelty import reference_log_densities, tail_ranks
from atoll.estimators.parameters import RANDOM_STATE, Whole, check_value
from atoll.estimators.shell import Classifier, Estimator, Fit, Need
from atoll.estimators.validation import generator

Array = NDArray[np.float64]


class GenerativeClassifier(Classifier):
    """A classifier that is also a density of rows."""

    def score_samples(self, X: Any) -> Array:
        """Return the log-density of each row, in the units of X; X (m, d) -> (m,)."""
        check_is_fitted(self)
        return self.posterior_.log_density(self._read_rows(X))

    def tail_rank(self, X: Any) -> Array:
        """Return the share of rows like those of the fit that are stranger; X (m, d) -> (m,).

        That is the share whose density is lower; zero is unlike all of them. In a mixture of up to
        5000 rows these are the rows of the fit, each with its density by a fit without it, and one
        new row of the same kind in a hundred has a rank below a hundredth. Elsewhere they are the
        rows of the fit with their densities there, or draws from the model where rows are fewer
        than a hundred: new rows may then have lower ranks, with many columns above all. For a
        threshold that means what it says compare `score_samples` with that of rows held out.
        """
        reference = getattr(self, "reference_log_densities_", None)
        if reference is None:
            check_is_fitted(self)
            reference = reference_log_densities(self.posterior_, generator(0))
        return tail_ranks(reference, self.score_samples(X))

    def novelty(self, X: Any) -> Array:
        """Return how strange each row is, one minus its tail rank; X (m, d) -> (m,).

        Near 1 is novel.
        """
        return 1.0 - self.tail_rank(X)

    def sample(
        self, n_samples: int = 1, *, label: Any = None, random_state: Any = None
    ) -> tuple[Any, NDArray[Any]]:
        """Draw rows and their classes from the predictive distribution.

        Parameters
        ----------
        n_samples : int, default=1
        label : one of `classes_` for all rows, or (n_samples,) of them, default=None
            None: classes are drawn as well.
        random_state : None, int or numpy Generator, default=None

        Returns
        -------
        X : (n_samples, d) rows
        y : (n_samples,) their classes
        """
        check_is_fitted(self)
        check_value("n_samples", n_samples, Whole(1))
        check_value("random_state", random_state, RANDOM_STATE)
        codes = None if label is None else self._wanted_codes(label, int(n_samples))
        rows, codes = self.posterior_.sample(generator(random_state), int(n_samples), codes)
        return rows, self.classes_[codes]

    def _wanted_codes(self, label: Any, n: int) -> NDArray[np.intp]:
        known = self.classes_.tolist()
        wanted = np.asarray(label, dtype=object)
        if wanted.shape not in ((), (n,)):
            raise ValueError(
                f"label must be one class, or one per row ({n}), got {wanted.size} of them."
            )
        strangers = [value for value in wanted.ravel().tolist() if value not in known]
        if strangers:
            raise ValueError(
                f"label={strangers[0]!r} is none of the classes {known!r}; give one of these."
            )
        codes = np.array([known.index(value) for value in wanted.ravel().tolist()], dtype=np.intp)
        return np.broadcast_to(codes, (n,)) if wanted.shape == () else codes


class DensityEstimator(DensityMixin, Estimator):
    """A density of rows without labels."""

    @abstractmethod
    def _fit(self, X: Any) -> Fit:
        """Find the posterior."""

    def _memory(self, X: Any) -> Need | None:
        """Return the memory that the fit will take, if it might be too much."""
        return None

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn from rows, (n, d); labels are not for this model."""
        if y is not None:
            raise ValueError(
                f"{type(self).__name__} takes no labels; leave y out, or use a classifier."
            )
        self._begin()
        rows = self._read_rows(X, reset=True)
        need = self._memory(rows)
        if need is not None:
            need.check()
        self._keep(self._fit(rows))
        return self

    def score_samples(self, X: Any) -> Array:
        """Return the log-density of each row, in the units of X; X (m, d) -> (m,)."""
        check_is_fitted(self)
        return self.posterior_.log_density(self._read_rows(X))

    def score(self, X: Any, y: Any = None) -> float:
        """Return the total log-density of the rows."""
        return float(self.score_samples(X).sum())

    def sample(self, n_samples: int = 1, *, random_state: Any = None) -> Any:
        """Draw rows from the predictive density, (n_samples, d)."""
        check_is_fitted(self)
        check_value("n_samples", n_samples, Whole(1))
        check_value("random_state", random_state, RANDOM_STATE)
        return self.posterior_.sample(generator(random_state), int(n_samples))[0]
