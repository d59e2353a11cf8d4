"""Kernels that users write: their blocks and gradients, checked before a fit on a few rows."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from sklearn.gaussian_process.kernels import Kernel

Array = NDArray[np.float64]

STEP = 1e-4  # in a log-parameter
WRONG = 0.1  # error relative to the largest slope, beyond what steps and kinks explain
BLOCK = 1e-6  # relative error of a kernel between rows, beyond rounding
NOTHING = 1e-6  # smaller slopes, relative to the kernel, count as zero
MOST_ROWS = 200  # among which rows to compare are looked for


def check_own_gradients(kernel: Kernel, X: Array) -> None:
    """Raise a ValueError where a kernel that is not scikit-learn's contradicts itself.

    Between two sets of rows it must be what it is among all of them, and its gradient must meet
    small steps.

    Parameters
    ----------
    kernel : maybe made of others, each of which is looked at
    X : (n, d) rows of the fit
    """
    rows = None
    for one in _parts(kernel):
        if type(one).__module__.startswith("sklearn."):
            continue
        rows = _a_few(X) if rows is None else rows
        _check_blocks(one, rows)
        try:
            answer = one(X[:1], eval_gradient=True)
        except (TypeError, NotImplementedError):  # it has none, and is differentiated by steps
            continue
        if isinstance(answer, tuple):
            _check(one, rows)


def _parts(kernel: Kernel) -> Iterator[Kernel]:
    """Yield the kernels that a kernel is made of, or the kernel itself."""
    inner = [value for value in kernel.get_params(deep=False).values() if isinstance(value, Kernel)]
    if not inner:
        yield kernel
    for one in inner:
        yield from _parts(one)


def _a_few(X: Array) -> Array:
    """Return the first row, the one nearest to it, and one of middling distance, (3, d).

    Of rows that are no numbers, such as words, the first three.
    """
    if np.asarray(X).dtype.kind not in "biuf":
        return X[:3]
    apart = np.linalg.norm(X[:MOST_ROWS] - X[0], axis=1)
    order = np.argsort(apart, kind="stable")
    others = order[apart[order] > 0]
    if not len(others):
        return X[:1]
    return X[[0, others[0], others[len(others) // 2]]]


def _check_blocks(kernel: Kernel, rows: Array) -> None:
    name, n = type(kernel).__name__, len(rows)
    block = np.asarray(kernel(rows[:1], rows))
    if block.shape != (1, n):
        raise ValueError(
            f"the kernel {name} of 1 row and {n} others has shape {block.shape} instead of "
            f"{(1, n)}; __call__(X, Y) must return the kernel between the rows of X and of Y."
        )
    # White noise is on the diagonal alone: a row against itself is left out.
    among = np.asarray(kernel(rows))[:1]
    if not np.allclose(block[:, 1:], among[:, 1:], rtol=BLOCK, atol=BLOCK * np.abs(among).max()):
        raise ValueError(
            f"the kernel {name} between rows and others is not what it is among all of them; "
            "__call__(X, Y) must return the kernel between the rows of X and of Y."
        )


def _check(kernel: Kernel, rows: Array) -> None:
    name, n, p = type(kernel).__name__, len(rows), len(kernel.theta)
    slopes = np.asarray(kernel(rows, eval_gradient=True)[1])
    if slopes.shape != (n, n, p):
        raise ValueError(
            f"the gradient of the kernel {name} has shape {slopes.shape} at {n} rows; with "
            f"eval_gradient=True it must return the kernel matrix and an array of shape (n, n, "
            f"number of hyperparameters that are not fixed), here {(n, n, p)}."
        )
    for j, move in enumerate(STEP * np.eye(p)):
        up, down = (kernel.clone_with_theta(kernel.theta + s * move)(rows) for s in (1, -1))
        found, expected = slopes[:, :, j], (up - down) / (2.0 * STEP)
        largest = max(np.abs(found).max(), np.abs(expected).max())
        wrong = np.abs(found - expected)
        if wrong.max() > max(WRONG * largest, NOTHING * np.abs(up).max()):
            at = np.unravel_index(int(wrong.argmax()), wrong.shape)
            raise ValueError(
                f"the gradient of the kernel {name} by its hyperparameter {j + 1} of {p} is "
                f"{found[at]:.3g} where small steps find {expected[at]:.3g}, so that it would "
                "mislead the fit; return the derivative of the kernel matrix by the logarithm of "
                "each hyperparameter, or leave eval_gradient out of its __call__."
            )
