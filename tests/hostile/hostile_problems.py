"""Problems that nobody would pose on purpose, each made from its number alone, and what is judged.

A model given one of them either answers, with class probabilities that are finite and sum to one
over exactly the classes that were labelled, or refuses by a ValueError in words of our own (or of
scikit-learn's checks of input). All else is a fault: another error, an error from inside NumPy or
SciPy, a warning about an overflow, an answer that is no probability, a fit that never ends.
"""

from __future__ import annotations

import signal
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy import sparse

from atoll.estimators import MODELS
from walking import parameters_of, short

SECONDS = 30  # a problem that takes longer hangs
SEED = 23

Rows = np.ndarray[Any, Any]


class Problem(NamedTuple):
    """A model with its settings, rows with labels, and rows to predict; `told` says which kinds."""

    model: str
    settings: dict[str, Any]
    X: Any
    y: Any
    queries: Any
    told: str


class Fault(Exception):
    """A model did neither of the two things that it may do."""


# Models -------------------------------------------------------------------------------------------

_FEW = {"n_chains": 1, "n_warmup": 1, "n_samples": 2, "n_steps": 3, "n_draws": 20, "max_iter": 5}
_VARIANTS: dict[str, list[Any]] = {
    "kernel": ["isotropic", "isotropic", "ard"],
    "covariance": ["auto", "full", "diagonal", "tied", "factor"],
    "n_neighbors": [1, 3, 10],
    "weights": ["gaussian", "self-tuning", "binary"],
    "normalised": [True, False],
    "scale_features": [True, True, False],
    "n_folds": [0, 2],
    "null_width": [0.0, 1.0],
    "extra_classes": [0, 0, 0, 1],
    "n_active": [2, 30],
}
_INFERENCES = {
    "archipelago": ["mcmc"],
    "dp-mixture": ["map", "vb"],
    "informative-vector": None,
    "null-category": ["mcmc", "vb", "ep", "adf"],
    "ordinal-gp": ["mcmc", "vb", "ep"],
    "probit-gp": ["mcmc", "vb", "ep"],
    "ssgp": ["auto", "mcmc"],
}


def _settings(rng: np.random.Generator, name: str) -> dict[str, Any]:
    known = parameters_of(MODELS[name])
    chosen = {key: value for key, value in _FEW.items() if key in known}
    for key, values in _VARIANTS.items():
        if key in known and not (key == "kernel" and name == "transductive-svc"):
            value = values[rng.integers(len(values))]
            if key == "null_width" and name not in ("null-category", "ordinal-gp"):
                continue
            chosen[key] = value
    inferences = _INFERENCES.get(name)
    if inferences:
        chosen["inference"] = inferences[rng.integers(len(inferences))]
    if chosen.get("inference") == "vb" and chosen.get("covariance") in ("tied", "factor"):
        chosen["covariance"] = "auto"
    if name == "null-category" and chosen["inference"] not in ("ep", "adf"):
        del chosen["n_active"]
    return chosen


# Rows ---------------------------------------------------------------------------------------------


def _mixed_scales(rng: np.random.Generator, X: Rows) -> Rows:
    return X * 10.0 ** rng.integers(-150, 151, X.shape[1])


def _one_far_row(rng: np.random.Generator, X: Rows) -> Rows:
    out = X.copy()
    out[rng.integers(len(X))] *= 10.0 ** rng.integers(3, 200)
    return out


def _holes(rng: np.random.Generator, X: Rows) -> Rows:
    out = X.copy()
    out.flat[rng.integers(out.size)] = rng.choice([np.nan, np.inf, -np.inf])
    return out


def _some_constant(rng: np.random.Generator, X: Rows) -> Rows:
    out = X.copy()
    out[:, rng.random(X.shape[1]) < 0.6] = rng.choice([0.0, 7.0, 1e150])
    return out


ROWS: dict[str, Callable[[np.random.Generator, Rows], Rows]] = {
    "plain": lambda rng, X: X,
    "constant columns": _some_constant,
    "all the same": lambda rng, X: np.full_like(X, rng.choice([0.0, 3.0, -1e100])),
    "copies": lambda rng, X: X[rng.integers(max(1, len(X) // 3), size=len(X))],
    "huge": lambda rng, X: X * 10.0 ** rng.choice([20, 100, 150, 200, 300]),
    "tiny": lambda rng, X: X * 10.0 ** -rng.choice([20.0, 100.0, 150.0, 200.0, 300.0]),
    "scales from 1e-150 to 1e150": _mixed_scales,
    "far from the origin": lambda rng, X: X + 10.0 ** rng.choice([8, 15, 100]),
    "one row far out": _one_far_row,
    "integers": lambda rng, X: rng.integers(-3, 4, X.shape),
    "large integers": lambda rng, X: rng.integers(-(2**62), 2**62, X.shape),
    "booleans": lambda rng, X: X > 0,
    "mostly zero": lambda rng, X: X * (rng.random(X.shape) < 0.1),
    "holes": _holes,
    "a line": lambda rng, X: np.outer(np.arange(len(X)), np.ones(X.shape[1])),
}


def _frame(X: Rows) -> pd.DataFrame:
    return pd.DataFrame(X, columns=[f"column {j}" for j in range(X.shape[1])])


CONTAINERS: dict[str, Callable[[Rows], Any]] = {
    "array": lambda X: X,
    "Fortran array": np.asfortranarray,
    "list": lambda X: X.tolist(),
    "float32": lambda X: X.astype(np.float32),
    "objects": lambda X: X.astype(object),
    "frame": _frame,
    "nullable frame": lambda X: _frame(X).convert_dtypes(),
    "frame of text": lambda X: _frame(X).astype(str),
    "text": lambda X: X.astype(str),
    "sparse": lambda X: sparse.csr_array(X.astype(float)),
    "one column, flat": lambda X: X[:, 0],
    "three dimensions": lambda X: X[None],
    "complex": lambda X: X + 1j,
    "no rows": lambda X: X[:0],
    "no columns": lambda X: X[:, :0],
    "None": lambda X: None,
}
_USUAL = {"array": 60, "frame": 10, "Fortran array": 3, "list": 3, "float32": 4}
_ROWS_USUAL = {"plain": 4}


# Labels -------------------------------------------------------------------------------------------

NULLS = (None, np.nan, pd.NA, pd.NaT)


def _names(codes: Rows) -> list[Any]:
    return [f"class {c}" for c in codes.tolist()]


def _dates(codes: Rows) -> list[Any]:
    return [np.datetime64("2001-01-01") + np.timedelta64(int(c), "D") for c in codes]


LABELS: dict[str, Callable[[Rows], list[Any]]] = {
    "strings": _names,
    "integers": lambda codes: codes.tolist(),
    "from one": lambda codes: (codes + 1).tolist(),
    "signs": lambda codes: np.where(codes % 2, 1, -1).tolist(),
    "booleans": lambda codes: (codes % 2 == 1).tolist(),
    "whole floats": lambda codes: codes.astype(float).tolist(),
    "large integers": lambda codes: [2**62 + int(c) for c in codes],
    "beyond 64 bits": lambda codes: [2**70 + int(c) for c in codes],
    "unsigned": lambda codes: list(codes.astype(np.uint8)),
    "continuous": lambda codes: (codes + 0.37).tolist(),
    "bytes": lambda codes: [str(c).encode() for c in codes],
    "dates": _dates,
    "tuples": lambda codes: [(int(c), 1) for c in codes],
    "mixed": lambda codes: [c if c % 2 else str(c) for c in codes.tolist()],
    "infinity": lambda codes: [np.inf if i == 0 else float(c) for i, c in enumerate(codes)],
    "empty strings": lambda codes: ["" if c == 0 else f" {c} " for c in codes.tolist()],
}
_LABELS_USUAL = {"strings": 20, "integers": 16, "from one": 4, "booleans": 2, "signs": 2}

LABEL_CONTAINERS: dict[str, Callable[[list[Any]], Any]] = {
    "list": lambda y: y,
    "object array": lambda y: _objects(y),
    "array": np.asarray,
    "series": pd.Series,
    "nullable series": lambda y: pd.Series(y).convert_dtypes(),
    "categories": lambda y: pd.Series(y, dtype="category"),
    "column": lambda y: _objects(y)[:, None],
    "one-column frame": lambda y: pd.DataFrame({"y": y}),
    "too short": lambda y: y[:-1],
    "iterator": iter,
}
_LABEL_CONTAINERS_USUAL = {"list": 16, "object array": 8, "array": 4, "series": 4}


def _objects(values: list[Any]) -> Rows:
    out = np.empty(len(values), dtype=object)
    out[:] = values
    return out


def _labels(rng: np.random.Generator, n: int) -> tuple[Any, str]:
    n_classes = int(rng.choice([1, 2, 3, 5, 40], p=[0.03, 0.57, 0.28, 0.08, 0.04]))
    codes = rng.integers(n_classes, size=n)
    if n >= n_classes:  # every class is there, as a rule
        codes[rng.permutation(n)[:n_classes]] = np.arange(n_classes)
    kind = _chosen(rng, LABELS, _LABELS_USUAL)
    values = LABELS[kind](codes)
    hidden = rng.random(n) < rng.choice([0.0, 0.3, 0.7, 1.0], p=[0.35, 0.45, 0.18, 0.02])
    null = NULLS[rng.choice(len(NULLS), p=[0.6, 0.2, 0.1, 0.1])]
    if kind in ("integers", "from one") and rng.random() < 0.3:
        null = -1
    values = [null if hide else value for value, hide in zip(values, hidden)]
    container = _chosen(rng, LABEL_CONTAINERS, _LABEL_CONTAINERS_USUAL)
    told = f"{n_classes} classes as {kind}, {int(hidden.sum())} hidden as {null!r}, {container}"
    try:
        return LABEL_CONTAINERS[container](values), told
    except (ValueError, TypeError, OverflowError):  # no such container of such values
        return values, told


def _chosen(rng: np.random.Generator, kinds: Any, usual: dict[str, int]) -> str:
    names = list(kinds)
    p = np.array([usual.get(name, 1) for name in names], dtype=float)
    return str(rng.choice(names, p=p / p.sum()))


def problem(number: int) -> Problem:
    """Return the problem of this number; always the same."""
    rng = np.random.default_rng([SEED, number])
    name = list(MODELS)[number % len(MODELS)]
    n = int(rng.choice([2, 3, 5, 8, 12, 30, 60], p=[0.1, 0.15, 0.2, 0.25, 0.2, 0.08, 0.02]))
    d = int(rng.choice([1, 2, 3, 10, 60, 5000], p=[0.2, 0.4, 0.24, 0.1, 0.055, 0.005]))
    kind = _chosen(rng, ROWS, _ROWS_USUAL)
    with np.errstate(all="ignore"):
        X = ROWS[kind](rng, rng.standard_normal((n, d)))
    y, told = _labels(rng, n)
    far = 10.0 ** int(rng.choice([0, 1, 6, 100, 200]))
    with np.errstate(all="ignore"):
        queries = np.concatenate([X[:2] * 1.0, X[:1] * far, far * rng.standard_normal((2, d))])
    queries = np.clip(queries, -1e300, 1e300)
    container = _chosen(rng, CONTAINERS, _USUAL)
    with np.errstate(all="ignore"):
        given = CONTAINERS[container](X)
    asked = _frame(queries) if "frame" in container else queries
    told = f"{n} x {d} {kind} in {container}; {told}; asked {far:g} away"
    settings = _settings(rng, name)
    if d > 1000 and "covariance" in settings:
        settings["covariance"] = "auto"  # others are slow there, by their nature
    return Problem(name, settings, given, y, asked, told)


# What is judged -----------------------------------------------------------------------------------

_OURS = ("/atoll/", "/sklearn/utils/", "/sklearn/base.py")


def judge(posed: Problem) -> str:
    """Fit and predict; return "answered" or "refused", or raise a `Fault`."""
    model = short(MODELS[posed.model], **posed.settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", RuntimeWarning)
        try:
            with _limit(SECONDS):
                model.fit(posed.X, posed.y)
                p = model.predict_proba(posed.queries)
                predicted = model.predict(posed.queries)
        except ValueError as error:
            _check_refusal(error)
            return "refused"
        except Fault:
            raise
        except BaseException as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            place = f"{'/'.join(where.filename.split('/')[-2:])}:{where.lineno}"
            raise Fault(f"{type(error).__name__} at {place}: {error}"[:400]) from error
    _check_answer(model, posed, p, predicted)
    return "answered"


def _check_refusal(error: ValueError) -> None:
    frames = traceback.extract_tb(error.__traceback__)
    where = frames[-1]
    if not any(ours in where.filename for ours in _OURS) and type(error).__module__ != "sklearn":
        inner = next(f for f in reversed(frames) if "/atoll/" in f.filename)
        place = f"{'/'.join(inner.filename.split('/')[-2:])}:{inner.lineno}"
        raise Fault(f"a ValueError that is not ours, at {place}: {error}"[:400]) from error
    if len(str(error)) < 20:
        raise Fault(f"a ValueError that says too little: {error}") from error


def _check_answer(model: Any, posed: Problem, p: Any, predicted: Any) -> None:
    for name, q, rows in (
        ("predict_proba", p, len(posed.queries)),
        ("label_distributions_", model.label_distributions_, None),
    ):
        if rows is not None and q.shape != (rows, len(model.classes_)):
            raise Fault(f"{name} has shape {q.shape}")
        if not np.isfinite(q).all():
            raise Fault(f"{name} is not finite")
        worst = float(np.abs(q.sum(axis=1) - 1.0).max(initial=0.0))
        if worst > 1e-9 or (q < 0).any():
            raise Fault(f"{name} is no probability: sums are off by {worst:.3g}")
    classes = model.classes_.tolist()
    if not set(predicted.tolist()) <= set(classes):
        raise Fault("predict names a class that is none")
    given = _given_classes(posed)
    named = set(map(str, classes[: len(classes) - posed.settings.get("extra_classes", 0)]))
    if given is not None and named != given:
        raise Fault(f"classes {sorted(named)[:5]} where {sorted(given)[:5]} were labelled")


def _given_classes(posed: Problem) -> set[str] | None:
    """Return the classes of a plain list of labels, as text; None where reading them is a task."""
    if not isinstance(posed.y, list) or -1 in [v for v in posed.y if isinstance(v, int)]:
        return None
    known = [v for v in posed.y if not (v is None or v is pd.NA or v is pd.NaT or v != v)]
    if not all(isinstance(v, str) for v in known):
        return None
    return set(known)


@contextmanager
def _limit(seconds: int) -> Iterator[None]:
    """Raise after so many seconds of CPU, or ten times as many by the clock."""

    def ring(signum: int, frame: Any) -> None:
        raise Fault(f"ran for more than {seconds} seconds")

    previous = [signal.signal(number, ring) for number in (signal.SIGPROF, signal.SIGALRM)]
    signal.setitimer(signal.ITIMER_PROF, seconds)
    signal.alarm(10 * seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.alarm(0)
        for number, handler in zip((signal.SIGPROF, signal.SIGALRM), previous):
            signal.signal(number, handler)
