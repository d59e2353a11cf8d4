"""Base densities (section 3.4, section 5.1): what π is, where a name or an object says it.

The number of rejections grows with the mismatch between π and the density of the data.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from atoll.core.densities import (
    Density,
    NormalInverseWishart,
    WithConstants,
    fit_blurred,
    fit_gaussian,
    fit_student_t,
    niw_prior,
)
from atoll.models.archipelago import process
from atoll.models.dp_mixture import fit_density

Array = NDArray[np.float64]
BaseDensity = Density | NormalInverseWishart

BASE_DENSITIES = ("auto", "gaussian", "sampled-gaussian", "student-t", "mixture", "blurred")

# A mixture that is so much nearer to rows left out, in nats per row, replaces the Gaussian, under
# which rejections would outnumber the rows some five times over, and at times a hundred times.
MIXTURE_GAIN = 1.5
# Width of "blurred", with few features and with more: 1 is one Gaussian, 0 the rows.
BLUR, BLUR_OF_MANY = 0.7, 0.8
FEW_FEATURES = 2
ROWS_OF_A_MIXTURE = 5  # per column
MOST_COMPONENTS = 10
COMPONENT_WIDTHS = (0.01, 0.1, 1.0, 3.0)  # that rows left out choose from: scales of the prior
N_STARTS = 4  # of a mixture
MISSED_BY_ONE_START = 0.5  # nats per row that a mixture from one start may be short of the best
N_FOLDS = 5
WHY_A_T = "a t: dense between the islands, where rejections tell them apart"
LOW_ACCEPTANCE = 0.05
NEAR_THE_MOST = 0.9  # of the most proposals, from which on draws are remarked on


def choose_base(
    base_density: str | BaseDensity, X: Any, *, usual: str = "gaussian"
) -> tuple[BaseDensity, str]:
    """Return the base density that a parameter asks for, and why; refuse one that misses a row.

    Parameters
    ----------
    usual : what "auto" takes unless a mixture is much nearer: "gaussian", or "by features", which
        is the rows, blurred, with one or two features, and a t with more
    """
    if isinstance(base_density, str):
        if base_density not in BASE_DENSITIES:
            raise ValueError(
                f"base_density={base_density!r} is none of "
                f"{', '.join(map(repr, BASE_DENSITIES))}, nor an object with sample and "
                "log_density."
            )
        if X.ndim != 2:
            raise ValueError(
                f"base_density={base_density!r} is for rows of numbers; give an object with "
                "sample(rng, n) and log_density(X) that proposes rows such as these."
            )
        return _named_base(base_density, X, usual)
    if isinstance(base_density, NormalInverseWishart):
        return base_density, "as given, sampled"
    if not isinstance(base_density, Density):
        raise ValueError(
            f"base_density={base_density!r} has no sample(rng, n) and log_density(X); give both."
        )
    reached = np.asarray(base_density.log_density(X))
    missed = np.flatnonzero(~(reached > -np.inf))
    if len(missed) > 0:
        raise ValueError(
            f"base_density has log-density {reached[missed[0]]} at row {missed[0]}: it can never "
            "propose that row. Give one that reaches every row."
        )
    return base_density, "as given"


def _named_base(name: str, X: Array, usual: str) -> tuple[BaseDensity, str]:
    """Return the density of that name, fitted to the rows, and why it was taken; X (n, d)."""
    varies = np.ptp(X, axis=0) > 0
    if name == "sampled-gaussian":
        return niw_prior(X), "as asked for"
    if not varies.all() and varies.any():  # π has nothing to say of the others
        density, reason = _named_base(name, X[:, varies], usual)
        return WithConstants(density, varies, X[0]), reason
    if name == "student-t":
        return fit_student_t(X), "as asked for"
    if name == "gaussian":
        return fit_gaussian(X), "as asked for"
    if name == "blurred":
        return blurred(X), "as asked for"
    if name == "mixture":
        return mixture_of_width(X, _best_width(X)[0]), "as asked for"
    gaussian = fit_gaussian(X)
    if len(X) < ROWS_OF_A_MIXTURE * X.shape[1]:
        return gaussian, "one Gaussian: rows are too few for more"
    if _may_be_near(X, gaussian):
        width, left_out = _best_width(X)
        if left_out > MIXTURE_GAIN:
            return mixture_of_width(X, width), (
                f"a mixture of Gaussians: it is {left_out:.1f} nats per row nearer to rows left "
                "out than one, which would need too many rejections"
            )
    if usual == "by features" and X.shape[1] > FEW_FEATURES:
        return fit_student_t(X), WHY_A_T
    if usual == "by features":
        return blurred(X), "the rows, blurred: near enough to them, and far enough"
    return gaussian, "one Gaussian: near enough to the data"


def blurred(X: Array) -> Density:
    """Return the rows, drawn towards their mean and blurred by a Gaussian; X (n, d)."""
    return fit_blurred(X, BLUR if X.shape[1] <= FEW_FEATURES else BLUR_OF_MANY)


def mixture_of_width(X: Array, width: float, n_starts: int = N_STARTS) -> Density:
    """Return a mixture of Gaussians, fitted to the rows; width scales the components' prior."""
    return fit_density(
        X,
        n_components=MOST_COMPONENTS,
        covariance_scale=width,
        n_starts=n_starts,
        random_state=0,
    )


def _may_be_near(X: Array, gaussian: Density) -> bool:
    """Return whether a mixture could be nearer by enough, which costs less to ask than to find out.

    On its own rows a mixture is always near. One start may miss what the best of several finds, so
    that those which come close have several.
    """

    def near(width: float, n_starts: int) -> float:
        return float(gain(mixture_of_width(X, width, n_starts), gaussian, X).mean())

    quick = {width: near(width, 1) for width in COMPONENT_WIDTHS}
    if max(quick.values()) > MIXTURE_GAIN:
        return True
    close = [w for w, found in quick.items() if found > MIXTURE_GAIN - MISSED_BY_ONE_START]
    return any(near(width, N_STARTS) > MIXTURE_GAIN for width in close)


def _best_width(X: Array) -> tuple[float, float]:
    """Return the width of the mixture nearest to rows left out, and its gain there per row."""
    fold = np.random.default_rng(0).permutation(len(X)) % N_FOLDS
    splits = [
        (X[fold != j], fit_gaussian(X[fold != j]), X[fold == j])
        for j in range(min(N_FOLDS, len(X)))
    ]
    gains = {
        width: np.concatenate(
            [gain(mixture_of_width(rest, width), gaussian, left) for rest, gaussian, left in splits]
        ).mean()
        for width in COMPONENT_WIDTHS
    }
    best = max(gains, key=gains.__getitem__)
    return best, float(gains[best])


def gain(density: Density, other: Density, X: Array) -> Array:
    """Return the log-density of each row above that of another density; X (m, d) -> (m,)."""
    return density.log_density(X) - other.log_density(X)


def acceptance_remark(n_rejections: NDArray[np.integer], n: int) -> str:
    """Return lines where the base density proposes much that is rejected, else nothing."""
    rate, most = n / (n + float(np.mean(n_rejections))), process.most_proposals(n)
    found = ""
    if rate <= LOW_ACCEPTANCE:
        found += (
            f"\nThe base density is far from the data: one proposal in {1 / rate:.0f} is kept, and "
            'sweeps are slow. Try base_density="mixture".'
        )
    share = float(np.mean(n + n_rejections > NEAR_THE_MOST * most))
    if share > 0:
        found += (
            f"\n{share:.0%} of the draws have nearly as many rejections as the model allows "
            f"({most - n}): islands could be smaller still than it can say."
        )
    return found
