"""Generators of small problems of known shape; each returns rows and their true classes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from numbers import Real
from typing import Any

import numpy as np

# What `np.random.default_rng` takes: a seed, a generator, or None for fresh randomness.
RandomState = int | np.random.Generator | None
Sample = tuple[np.ndarray, np.ndarray]


def make_pinwheel(
    n_samples: int = 250,
    n_classes: int = 5,
    *,
    radial_spread: float = 0.3,
    tangential_spread: float = 0.1,
    rate: float = 0.25,
    random_state: RandomState = None,
) -> Sample:
    """Draw a pinwheel in the plane, with one bent arm per class.

    A point of class k is drawn from N((1, 0), diag(radial_spread², tangential_spread²)) and then
    turned about the origin by 2πk/K + rate · exp(r), where r is its distance from the origin. The
    turn preserves r and areas, so the density of each class is known: the normal density of the
    point turned back.

    Parameters
    ----------
    n_samples : int, default=250
        Number of rows in all; class sizes differ by at most one.
    n_classes : int, default=5
        K, at least 2.
    radial_spread : float, default=0.3
        Standard deviation along an arm, not negative.
    tangential_spread : float, default=0.1
        Standard deviation across an arm, not negative.
    rate : float, default=0.25
        How strongly the arms bend; 0 gives straight spokes.
    random_state : int, numpy Generator or None, default=None
        Seed or source of the random numbers.

    Returns
    -------
    X : ndarray of shape (n_samples, 2)
    y : ndarray of shape (n_samples,)
        Classes 0 to K − 1; the rows are in random order.

    References
    ----------
    R. P. Adams and Z. Ghahramani, Archipelago: nonparametric Bayesian semi-supervised learning,
    ICML 2009, section 4.1, for the use of noisy pinwheels.

    Examples
    --------
    >>> X, y = make_pinwheel(50, 3, random_state=0)
    >>> X.shape, [int((y == k).sum()) for k in range(3)]
    ((50, 2), [17, 17, 16])
    """
    if not _is_integer(n_classes) or n_classes < 2:
        raise ValueError(f"n_classes={n_classes!r}; a pinwheel needs an integer of at least 2.")
    _check_number("radial_spread", radial_spread, minimum=0)
    _check_number("tangential_spread", tangential_spread, minimum=0)
    _check_number("rate", rate)
    rng = np.random.default_rng(random_state)
    y = _balanced_classes(n_samples, n_classes, rng)
    X = rng.normal(size=(n_samples, 2)) * [radial_spread, tangential_spread] + [1.0, 0.0]
    angle = 2 * np.pi * y / n_classes + rate * np.exp(np.hypot(X[:, 0], X[:, 1]))
    cosine, sine = np.cos(angle), np.sin(angle)
    x1, x2 = X.T
    return np.column_stack([cosine * x1 - sine * x2, sine * x1 + cosine * x2]), y


def make_crescents(
    n_samples: int = 400, *, noise: float = 1.1, random_state: RandomState = None
) -> Sample:
    """Draw two interlocking crescents in the plane that open towards each other.

    Class 0 arches over the point (2, 0): its points lie at angle θ, θ/π ~ Beta(2.5, 2.5), and
    radius 5 + noise · ε, ε ~ N(0, 1). Class 1 is class 0 turned by half a circle about the
    origin, so that one tip of each lies in the hollow of the other. Centres, radius, angles and
    the default noise were read off the toy data of the reference, which
    `atoll.datasets.load_crescent` loads.

    Parameters
    ----------
    n_samples : int, default=400
        Number of rows in all; class sizes differ by at most one.
    noise : float, default=1.1
        Standard deviation across a crescent, not negative; 0 puts every point on its arc.
    random_state : int, numpy Generator or None, default=None
        Seed or source of the random numbers.

    Returns
    -------
    X : ndarray of shape (n_samples, 2)
        Within about [-10, 10].
    y : ndarray of shape (n_samples,)
        Classes 0 (upper) and 1 (lower); the rows are in random order.

    References
    ----------
    N. D. Lawrence and M. I. Jordan, Semi-supervised learning via Gaussian processes, NIPS 17,
    2005, section 5, figure 4.

    Examples
    --------
    >>> X, y = make_crescents(100, random_state=0)
    >>> X.shape, bool(X[y == 0, 1].mean() > X[y == 1, 1].mean())
    ((100, 2), True)
    """
    _check_number("noise", noise, minimum=0)
    rng = np.random.default_rng(random_state)
    y = _balanced_classes(n_samples, 2, rng)
    angle = np.pi * rng.beta(2.5, 2.5, size=n_samples)
    radius = 5.0 + noise * rng.normal(size=n_samples)
    upper = np.column_stack([2.0 + radius * np.cos(angle), radius * np.sin(angle)])
    return np.where(y == 0, 1.0, -1.0)[:, None] * upper, y


def make_rings(
    n_samples: int = 1000,
    *,
    radii: Sequence[float] = (2.0, 4.0),
    width: float = 1.0,
    random_state: RandomState = None,
) -> Sample:
    """Draw rings about the origin of the plane, one per class.

    y = ((a + r) cos s, (a + r) sin s), r ~ U(−width/2, width/2), s ~ U(0, 2π), where a is the
    radius of the class. The default values give equations 32 to 34 of the reference.

    Parameters
    ----------
    n_samples : int, default=1000
        Number of rows in all; class sizes differ by at most one.
    radii : sequence of float, default=(2.0, 4.0)
        Radius a of each class; at least two classes.
    width : float, default=1.0
        Thickness of a ring, not negative and at most twice the smallest radius.
    random_state : int, numpy Generator or None, default=None
        Seed or source of the random numbers.

    Returns
    -------
    X : ndarray of shape (n_samples, 2)
    y : ndarray of shape (n_samples,)
        Classes 0, 1, ... in the order of `radii`; the rows are in random order.

    References
    ----------
    T. Kimura, Y. Nakada, A. Doucet and T. Matsumoto, Semi-supervised learning scheme using
    Dirichlet process EM-algorithm, equations 32 to 34.

    Examples
    --------
    >>> X, y = make_rings(100, random_state=0)
    >>> radius = (X**2).sum(axis=1) ** 0.5
    >>> bool((radius[y == 0] < 2.5).all()), bool((radius[y == 1] > 3.5).all())
    (True, True)
    """
    if len(radii) < 2:
        raise ValueError(f"radii={radii!r} has {len(radii)} ring(s); give at least two.")
    for radius in radii:
        _check_number("radii", radius, minimum=0)
    _check_number("width", width, minimum=0)
    if width > 2 * min(radii):
        raise ValueError(
            f"width={width!r} is more than twice the smallest of radii={tuple(radii)!r}; "
            "make the rings thinner or larger."
        )
    rng = np.random.default_rng(random_state)
    y = _balanced_classes(n_samples, len(radii), rng)
    a = np.asarray(radii, dtype=np.float64)[y]  # eq. 34
    r = rng.uniform(-width / 2, width / 2, size=n_samples)  # eq. 33
    s = rng.uniform(0, 2 * np.pi, size=n_samples)
    return np.column_stack([(a + r) * np.cos(s), (a + r) * np.sin(s)]), y  # eq. 32


def make_spirals(
    n_samples: int = 1000, *, noise: float = 1.0, random_state: RandomState = None
) -> Sample:
    """Draw two shrinking spirals in three dimensions, half a turn apart.

    y = u + noise · ν, ν ~ N(0, I), with u = (±r cos s, ∓r sin s, 8πs), s ~ U(0, 2π) and
    r = 13 − s. The default noise gives equations 35 to 37 of the reference. The third coordinate
    runs to 16π² ≈ 158, far beyond the other two; scale the columns if that matters.

    Parameters
    ----------
    n_samples : int, default=1000
        Number of rows in all; class sizes differ by at most one.
    noise : float, default=1.0
        Standard deviation about the spiral in each coordinate, not negative.
    random_state : int, numpy Generator or None, default=None
        Seed or source of the random numbers.

    Returns
    -------
    X : ndarray of shape (n_samples, 3)
    y : ndarray of shape (n_samples,)
        Classes 0 and 1; the rows are in random order.

    References
    ----------
    T. Kimura, Y. Nakada, A. Doucet and T. Matsumoto, Semi-supervised learning scheme using
    Dirichlet process EM-algorithm, equations 35 to 37.

    Examples
    --------
    >>> X, y = make_spirals(100, random_state=0)
    >>> X.shape, int(y.sum())
    ((100, 3), 50)
    """
    _check_number("noise", noise, minimum=0)
    rng = np.random.default_rng(random_state)
    y = _balanced_classes(n_samples, 2, rng)
    s = rng.uniform(0, 2 * np.pi, size=n_samples)  # eq. 37
    r = 13.0 - s
    sign = np.where(y == 0, 1.0, -1.0)
    u = np.column_stack([sign * r * np.cos(s), -sign * r * np.sin(s), 8 * np.pi * s])  # eq. 36
    return u + noise * rng.normal(size=(n_samples, 3)), y  # eq. 35


#: The generators by short name; each takes `n_samples`, `random_state` and parameters of its shape.
DATASETS: dict[str, Callable[..., Sample]] = {
    "pinwheel": make_pinwheel,
    "crescents": make_crescents,
    "rings": make_rings,
    "spirals": make_spirals,
}


def _balanced_classes(n_samples: int, n_classes: int, rng: np.random.Generator) -> np.ndarray:
    """Return classes (n_samples,) in random order, with sizes as equal as possible."""
    if not _is_integer(n_samples) or n_samples < n_classes:
        raise ValueError(
            f"n_samples={n_samples!r}; {n_classes} classes need an integer of at least {n_classes}."
        )
    return rng.permutation(np.arange(n_samples) % n_classes)


def _is_integer(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def _check_number(name: str, value: Any, minimum: float = -np.inf) -> None:
    is_number = isinstance(value, Real)
    if not is_number or not (np.isfinite(value) and value >= minimum):
        wanted = "a finite number" if minimum == -np.inf else f"a finite number >= {minimum:g}"
        raise ValueError(f"{name}={value!r}; give {wanted}.")
