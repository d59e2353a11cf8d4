"""A squared exponential with a little of itself at half the length-scale.

    k(x, x') = (1 − w) e + w e⁴,    e = exp(−|x − x'|²/(2ℓ²)).

One length-scale is a compromise: short enough for the sharpest place, and then too short to carry
a function on from where rows are many to where they are few. A small share w of shorter waves sees
to the sharp places, and leaves ℓ free to be long.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.gaussian_process.kernels import RBF

Array = NDArray[np.float64]

DETAIL = 0.05  # w


def with_detail(e: Any, detail: Any) -> Any:
    """Return (1 − w) e + w e⁴, of arrays of NumPy or JAX."""
    return e * (1.0 - detail + detail * (e * e * e))  # a power would take NumPy twice as long


def slope_with_detail(e: Any, detail: Any) -> Any:
    """Return the slope of `with_detail` by e."""
    return 1.0 - detail + 4.0 * detail * (e * e * e)


class DetailedRBF(RBF):
    """A squared exponential with a little of itself at half the length-scale.

    Parameters
    ----------
    length_scale : float or (d,) array, default=1.0
        ℓ, one for all features or one each.
    length_scale_bounds : pair of floats or "fixed", default=(1e-5, 1e5)
        As in scikit-learn.
    detail : float in [0, 1], default=0.05
        w, the share of the variance that the shorter waves have. It is not learned.

    Examples
    --------
    >>> import numpy as np
    >>> DetailedRBF(2.0, detail=0.1)(np.array([[0.0], [2.0]])).round(3).tolist()
    [[1.0, 0.559], [0.559, 1.0]]
    """

    def __init__(
        self,
        length_scale: float | Array = 1.0,
        length_scale_bounds: str | tuple[float, float] = (1e-5, 1e5),
        detail: float = DETAIL,
    ) -> None:
        super().__init__(length_scale, length_scale_bounds)
        self.detail = detail

    def __call__(self, X: Any, Y: Any = None, eval_gradient: bool = False) -> Any:
        """Return the kernel between rows, and with `eval_gradient` its slopes by log ℓ."""
        if not 0.0 <= self.detail <= 1.0:
            raise ValueError(f"detail={self.detail!r} is not a share; give a number from 0 to 1.")
        if not eval_gradient:
            return with_detail(super().__call__(X, Y), self.detail)
        e, slopes = super().__call__(X, Y, eval_gradient=True)
        by_e = slope_with_detail(e, self.detail)
        return with_detail(e, self.detail), by_e[:, :, None] * slopes

    def __repr__(self) -> str:
        return f"{super().__repr__()[:-1]}, detail={self.detail:.3g})"
