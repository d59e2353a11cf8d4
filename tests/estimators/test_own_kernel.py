"""Kernels that users write: with or without parameters to learn, and without a gradient."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.gaussian_process.kernels import (
    RBF,
    Hyperparameter,
    Kernel,
    Matern,
    NormalizedKernelMixin,
    StationaryKernelMixin,
)

from atoll import (
    ArchipelagoClassifier,
    InformativeVectorClassifier,
    NullCategoryClassifier,
    OrdinalGPClassifier,
    ProbitGPClassifier,
    SoftmaxGPClassifier,
    SSGPClassifier,
)
from atoll.estimators import sampling
from atoll.kernels.hyperparameters import slopes_of

SHORT = {"n_warmup": 5, "n_samples": 5, "n_chains": 1}
MODELS = [
    ProbitGPClassifier(inference="vb"),
    ProbitGPClassifier(**SHORT),
    SoftmaxGPClassifier(**SHORT),
    OrdinalGPClassifier(**SHORT),
    NullCategoryClassifier(inference="adf"),
    InformativeVectorClassifier(),
    SSGPClassifier(),
    ArchipelagoClassifier(inference="mcmc", base_density="gaussian", **SHORT),
]


class Plain(StationaryKernelMixin, NormalizedKernelMixin, Kernel):
    """1/(1 + |x − x′|²/a), with a as it is given."""

    def __init__(self, a=1.0):
        self.a = a

    def __call__(self, X, Y=None):
        return 1.0 / (1.0 + cdist(X, X if Y is None else Y, "sqeuclidean") / self.a)


class Learnt(Plain):
    """The same, with a learnt."""

    def __init__(self, a=1.0, a_bounds=(1e-3, 1e3)):
        super().__init__(a)
        self.a_bounds = a_bounds

    @property
    def hyperparameter_a(self):
        return Hyperparameter("a", "numeric", self.a_bounds)


@pytest.mark.filterwarnings("ignore")  # chains as short as these have not mixed
@pytest.mark.parametrize("kernel", [Plain(0.5), Learnt(0.5)], ids=["plain", "learnt"])
@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_every_model_with_a_kernel_takes_one_without_a_gradient(model, kernel):
    rng = np.random.default_rng(0)
    X = np.vstack([rng.normal(-1, 0.3, (8, 2)), rng.normal(1, 0.3, (8, 2))])
    y = np.repeat([0, 1], 8)
    y[[2, 3, 10, 11]] = -1
    fitted = clone(model).set_params(kernel=kernel).fit(X, y)
    p = fitted.predict_proba(X)
    assert np.isfinite(p).all()
    said = fitted.diagnostics_["verdict"]
    is_told = "The kernel has no free parameter: nothing of it was learnt" in said
    assert is_told == (type(kernel) is Plain)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)


def test_differences_are_the_gradient_that_a_kernel_has():
    class Silent(RBF):
        def __call__(self, X, Y=None):
            return super().__call__(X, Y)

    X = np.random.default_rng(0).normal(size=(5, 2))
    np.testing.assert_allclose(
        slopes_of(Silent([0.7, 1.3]), X), RBF([0.7, 1.3])(X, eval_gradient=True)[1], atol=1e-7
    )
    assert slopes_of(Plain(), X).shape == (5, 5, 0)


class Steep(Learnt):
    """The same, with a gradient: right times `times`, or of the wrong shape."""

    def __init__(self, a=1.0, a_bounds=(1e-3, 1e3), times=1.0, flat=False):
        super().__init__(a, a_bounds)
        self.times = times
        self.flat = flat

    def __call__(self, X, Y=None, eval_gradient=False):
        K = super().__call__(X, Y)
        if not eval_gradient:
            return K
        slope = self.times * K * (1.0 - K)
        return K, slope if self.flat else slope[:, :, None]


@pytest.mark.parametrize("model", [MODELS[0], MODELS[5], MODELS[6]], ids=lambda m: type(m).__name__)
def test_a_gradient_of_the_wrong_shape_or_sign_is_refused_in_words(model):
    rng = np.random.default_rng(0)
    X = np.vstack([rng.normal(-1, 0.3, (8, 2)), rng.normal(1, 0.3, (8, 2))])
    y = np.repeat([0, 1], 8)
    y[[2, 3, 10, 11]] = -1
    clone(model).set_params(kernel=RBF() * Steep()).fit(X, y)
    shape = r"gradient of the kernel Steep has shape \(3, 3\) at 3 rows; .* here \(3, 3, 1\)"
    with pytest.raises(ValueError, match=shape):
        clone(model).set_params(kernel=RBF() * Steep(flat=True)).fit(X, y)
    sign = "gradient of the kernel Steep by its hyperparameter 1 of 1 is .* mislead the fit"
    with pytest.raises(ValueError, match=sign):
        clone(model).set_params(kernel=RBF() * Steep(times=-1.0)).fit(X, y)


class OfOneSet(Learnt):
    """The same, but for the second set of rows, which it forgets."""

    def __call__(self, X, Y=None, eval_gradient=False):
        return super().__call__(X, None)


class OfTheWrongRows(Learnt):
    """The same, but that a single row is taken for all others."""

    def __call__(self, X, Y=None, eval_gradient=False):
        return super().__call__(X, None if Y is None else np.repeat(Y[:1], len(Y), axis=0))


class Stubborn(Learnt):
    """With a gradient of what is fixed."""

    def __call__(self, X, Y=None, eval_gradient=False):
        K = super().__call__(X, Y)
        return (K, (K * (1.0 - K))[:, :, None]) if eval_gradient else K


@pytest.mark.parametrize(
    ("kernel", "said"),
    [
        (OfOneSet(), r"of 1 row and 3 others has shape \(1, 1\) instead of \(1, 3\)"),
        (OfTheWrongRows(), "between rows and others is not what it is among all of them"),
        (Stubborn(1.0, "fixed"), r"has shape \(3, 3, 1\) at 3 rows; .* here \(3, 3, 0\)"),
    ],
)
def test_a_kernel_that_contradicts_itself_is_refused_in_words(kernel, said):
    rng = np.random.default_rng(0)
    X = np.vstack([rng.normal(-1, 0.3, (8, 2)), rng.normal(1, 0.3, (8, 2))])
    with pytest.raises(ValueError, match=said):
        ProbitGPClassifier(kernel=RBF() * kernel, inference="vb").fit(X, np.repeat([0, 1], 8))


class Begun(Exception):
    """The chains have begun."""


@pytest.mark.parametrize(
    ("model", "n", "said"),
    [
        (ArchipelagoClassifier, 110, "slow at 110 rows: the engine does not take a kernel"),
        (ProbitGPClassifier, 60, "4 chains of exact inference will take about"),
    ],
)
def test_chains_that_take_minutes_are_announced_before_they_begin(monkeypatch, model, n, said):
    """It was said with the finished fit, or not at all."""

    def begin(*arguments):
        raise Begun

    rows = np.random.default_rng(0).normal(size=(n, 2))
    y = np.where(np.arange(n) < 8, np.arange(n) % 2, -1)
    estimator = model(kernel=2.0 * Matern(1.0, nu=1.5), random_state=0)
    monkeypatch.setattr(sampling, "_run", begin)
    monkeypatch.setattr(sampling, "seconds_of", lambda trial: 3.0 if trial() is None else 0.0)
    with pytest.warns(UserWarning, match=said) as warned, pytest.raises(Begun):
        estimator.fit(rows, y)
    (message,) = [str(one.message) for one in warned]
    assert "will take about" in message
    assert "verbose=True shows how far" in message


def test_chains_of_seconds_and_chains_with_bars_begin_without_a_word(monkeypatch):
    rows = np.random.default_rng(0).normal(size=(20, 2))
    y = np.where(np.arange(20) < 8, np.arange(20) % 2, -1)
    sampler = NullCategoryClassifier(
        inference="mcmc", n_warmup=60, n_samples=50, n_chains=1, random_state=0
    )
    monkeypatch.setattr(sampling, "_run", lambda *arguments: 1 / 0)
    for verbose, seconds in ((False, 0.1), (True, 9.0)):
        monkeypatch.setattr(sampling, "seconds_of", lambda trial, seconds=seconds: seconds)
        with pytest.raises(ZeroDivisionError):
            clone(sampler).set_params(verbose=verbose).fit(rows, y)
