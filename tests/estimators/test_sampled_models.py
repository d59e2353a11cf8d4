"""What holds of every model that samples its posterior by Markov chains."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest
from joblib import parallel_config
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, WhiteKernel
from sklearn.model_selection import GridSearchCV

from atoll.estimators import (
    ArchipelagoClassifier,
    NullCategoryClassifier,
    OrdinalGPClassifier,
    ProbitGPClassifier,
    SemiSupervisedKFold,
    SoftmaxGPClassifier,
    sampling,
)
from atoll.inference.chains import run_chains
from walking import SAMPLED, fit_of, over, problem, queries, short

pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore:.*in the order of the alphabet:UserWarning"),
]
MODEL = over(SAMPLED)


@pytest.fixture(scope="module", params=SAMPLED.values(), ids=SAMPLED)
def fitted(request):
    """Model, X and y; not to be changed by a test."""
    return fit_of(request.param)


def assert_same_draws(left, right):
    assert left.draws_.keys() == right.draws_.keys()
    for name in left.draws_:
        np.testing.assert_array_equal(left.draws_[name], right.draws_[name])


def assert_same_fit(left, right, X):
    assert_same_draws(left, right)
    np.testing.assert_array_equal(left.label_distributions_, right.label_distributions_)
    np.testing.assert_array_equal(left.predict_proba(X), right.predict_proba(X))


def test_chains_that_are_too_short_are_told_how_long_to_be(fitted):
    model, _, _ = fitted
    verdict = model.diagnostics_["verdict"]
    assert f"n_samples=100 ({model.n_samples} now)." in verdict


def test_latent_moments_far_away_are_the_priors(fitted):
    model, _, _ = fitted
    mean, variance = model.predict_latent([[1e6, 1e6]])
    assert np.all(mean == 0)
    of_draws = np.exp(model.posterior_.log_parameters[:, 0])
    weights = np.exp(getattr(model.posterior_, "log_weights", np.zeros(len(of_draws))))
    np.testing.assert_allclose(variance, np.average(of_draws, weights=weights), rtol=1e-12)


# Threads ------------------------------------------------------------------------------------------


class Dawdling(Matern):
    """A kernel that lets other threads go first, between its parameters and its matrix."""

    def __call__(self, X, Y=None, eval_gradient=False):
        time.sleep(1e-4)
        return super().__call__(X, Y, eval_gradient)


@MODEL
def test_chains_in_threads_give_the_draws_of_chains_in_turn(model):
    X, y = problem()
    estimator = short(model, kernel=Dawdling(2.0, nu=1.5))
    in_turn = clone(estimator).fit(X, y)
    with parallel_config(backend="threading", n_jobs=2):
        assert_same_draws(in_turn, clone(estimator).fit(X, y))


@MODEL
def test_predictions_in_threads_are_those_of_predictions_in_turn(model):
    X, y = problem()
    estimator = short(model, kernel=Dawdling(2.0, nu=1.5)).fit(X, y)
    in_turn = estimator.predict_proba(X)
    with ThreadPoolExecutor(4) as pool:
        for p in pool.map(lambda _: estimator.predict_proba(X), range(8)):
            np.testing.assert_array_equal(p, in_turn)


# Units --------------------------------------------------------------------------------------------


@MODEL
@pytest.mark.parametrize("kernel", ["isotropic", "ard"])
def test_the_units_of_the_features_are_of_no_account(model, kernel):
    X, y = problem()
    metres = short(model, kernel=kernel).fit(X, y)
    millimetres = short(model, kernel=kernel).fit(1000 * X, y)
    for method in ("predict_proba", "predict_entropy"):
        np.testing.assert_allclose(
            getattr(millimetres, method)(1000 * queries(X)),
            getattr(metres, method)(queries(X)),
            atol=1e-8,
        )
    for ours, theirs in zip(
        millimetres.predict_latent(1000 * queries(X)), metres.predict_latent(queries(X))
    ):
        np.testing.assert_allclose(ours, theirs, atol=1e-8)
    for name in metres.draws_:
        shift = np.log(1000) if name.startswith("log_length_scale") else 0.0
        np.testing.assert_allclose(millimetres.draws_[name], metres.draws_[name] + shift, atol=1e-8)


def two_groups():
    """Two groups far apart, 6 labelled rows and 6 unlabelled ones in each."""
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(-4, 0.5, (12, 2)), rng.normal(4, 0.5, (12, 2))])
    y = np.repeat(np.array(["left", "right"], dtype=object), 12)
    y[::2] = None
    return X, y


def test_grid_search_chooses_among_null_widths_and_refits():
    X, y = two_groups()
    search = GridSearchCV(
        short(NullCategoryClassifier, n_chains=1),
        {"null_width": [0.0, 1.0], "kernel": ["isotropic", RBF(2.0)]},
        cv=SemiSupervisedKFold(2, random_state=0),
    ).fit(X, y)
    assert search.best_score_ == 1.0
    assert len(search.cv_results_["params"]) == 4
    labelled = pd.notna(y)
    assert search.predict(X[labelled]).tolist() == y[labelled].tolist()


# Draws, checkpoints, diagnostics ------------------------------------------------------------------


def test_draws_have_one_row_per_chain_and_the_names_of_the_kernel(fitted):
    model, _, _ = fitted
    expected = {"log_likelihood", "log_variance", "log_length_scale"}
    if isinstance(model, NullCategoryClassifier):
        expected |= {"share_of_class_1", "share_of_class_2"}
    if isinstance(model, OrdinalGPClassifier):
        expected |= {"first_cut_point", "log_gap_1"}
    if isinstance(model, ArchipelagoClassifier):
        expected |= {"n_rejections", *(f"share_of_class_{k}" for k in range(3))}
    assert set(model.draws_) == expected
    assert {values.shape for values in model.draws_.values()} == {(2, 4)}
    assert all(np.isfinite(values).all() for values in model.draws_.values())


def test_diagnostics_name_every_quantity_drawn(fitted):
    model, _, _ = fitted
    report = model.diagnostics_
    for key in ("r_hat", "ess_bulk", "ess_tail"):
        of_rows = {"row_probabilities"} if isinstance(model, ArchipelagoClassifier) else set()
        assert set(report[key]) == set(model.draws_) | of_rows
    assert (report["n_chains"], report["n_draws"], report["interrupted"]) == (2, 4, False)
    assert isinstance(report["mixed"], bool)
    assert report["verdict"].endswith(".")
    assert 0 <= report["jitter"] < 1e-2
    assert all(0 <= rate <= 1 for rate in report["acceptance"].values())


def test_to_arviz_holds_the_draws(fitted):
    model, _, _ = fitted
    data = model.to_arviz()
    assert set(data.posterior.data_vars) == set(model.draws_)
    for name, values in model.draws_.items():
        np.testing.assert_array_equal(data.posterior[name].values, values)
    assert data.posterior.attrs["model"] == type(model).__name__


@MODEL
def test_a_finished_checkpoint_is_read_and_no_sweep_is_made(model, tmp_path, monkeypatch):
    uncut, X, y = fit_of(model)
    first = short(model, checkpoint=tmp_path / "new" / "folder").fit(X, y)
    assert_same_fit(first, uncut, X)

    def refuse(rng, state, adapt):
        raise AssertionError("a sweep was made")

    def run_without_sweeps(sampler, **options):
        return run_chains(sampler._replace(sweep=refuse), **options)

    monkeypatch.setattr(sampling, "run_chains", run_without_sweeps)
    again = short(model, checkpoint=str(tmp_path / "new" / "folder")).fit(X, y)
    assert_same_fit(again, uncut, X)


@MODEL
def test_a_checkpoint_is_extended_to_the_draws_of_a_longer_run(model, tmp_path):
    uncut, X, y = fit_of(model)
    short(model, n_chains=1, n_samples=3, checkpoint=tmp_path).fit(X, y)
    extended = short(model, checkpoint=tmp_path).fit(X, y)
    assert_same_fit(extended, uncut, X)


@MODEL
@pytest.mark.parametrize("seed", [None, "generator"])
def test_a_checkpoint_is_read_whatever_kind_of_seed_began_it(model, seed, tmp_path):
    X, y = problem()

    def fit():
        random_state = np.random.default_rng(0) if seed == "generator" else seed
        return short(model, random_state=random_state, checkpoint=tmp_path).fit(X, y)

    assert_same_fit(fit(), fit(), X)


@MODEL
@pytest.mark.filterwarnings("error::sklearn.exceptions.ConvergenceWarning")
def test_chains_too_short_to_judge_warn_with_the_model_and_the_fix(model):
    X, y = problem()
    for n_samples, fix in ((2, "Raise n_"), (15, "(Raise|Try) n_")):
        with pytest.warns(ConvergenceWarning, match=rf"{model.__name__}: .* {fix}"):
            estimator = short(model, n_samples=n_samples).fit(X, y)
        assert not estimator.diagnostics_["mixed"]


@over(SAMPLED, slow=("ordinal-gp", "softmax-gp"))
@pytest.mark.filterwarnings("error::sklearn.exceptions.ConvergenceWarning")
def test_chains_long_enough_for_an_easy_problem_do_not_warn(model):
    X = np.arange(4.0)[:, None]
    lengths = {"n_chains": 4, "n_warmup": 30, "n_samples": 200, "thin": 2}
    estimator = short(model, kernel=RBF(2.0, "fixed"), **lengths).fit(X, ["a", "a", "b", "b"])
    assert estimator.diagnostics_["mixed"]
    first, second = estimator.diagnostics_["verdict"].split("\n")[:2]
    assert first.startswith("No trouble was found: this fit can be trusted")
    assert second.startswith("- The chains have mixed")


# Kernels ------------------------------------------------------------------------------------------

OF_ANY_KERNEL = {
    "log_likelihood",
    "share_of_class_0",
    "share_of_class_1",
    "share_of_class_2",
    "first_cut_point",
    "log_gap_1",
    "n_rejections",
}
USER_KERNELS = {
    "Matern": (Matern(2.0, nu=1.5), ["log_length_scale"]),
    "sum": (
        ConstantKernel(2.0) * RBF(2.0) + WhiteKernel(0.1),
        ["log_k1__k1__constant_value", "log_k1__k2__length_scale", "log_k2__noise_level"],
    ),
    "variance × ARD": (
        ConstantKernel(2.0) * RBF([1.0, 2.0]),
        ["log_k1__constant_value", "log_k2__length_scale_0", "log_k2__length_scale_1"],
    ),
    "part fixed": (ConstantKernel(2.0) * RBF(2.0, "fixed"), ["log_k1__constant_value"]),
    "fixed": (RBF(2.0, "fixed"), []),
}


@MODEL
@pytest.mark.parametrize(("kernel", "names"), USER_KERNELS.values(), ids=USER_KERNELS)
def test_a_users_kernel_has_its_free_parameters_sampled_and_is_not_changed(model, kernel, names):
    X, y = problem()
    before = kernel.theta.copy()
    estimator = short(model, kernel=kernel).fit(X, y)
    assert [name for name in estimator.draws_ if name not in OF_ANY_KERNEL] == names
    assert estimator.posterior_.log_parameters.shape == (8, len(names))
    of_draws = [estimator.draws_[name].mean() for name in names]
    np.testing.assert_allclose(estimator.kernel_.theta, of_draws, atol=1e-12)
    assert type(estimator.kernel_) is type(kernel)
    p = estimator.predict_proba(queries(X))
    np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=0, atol=1e-12)
    assert estimator.kernel is kernel
    np.testing.assert_array_equal(kernel.theta, before)


def test_the_kernel_at_the_posterior_mean_is_one_of_its_own(fitted):
    model, X, _ = fitted
    names = ("log_variance", "log_length_scale")
    mean = [model.draws_[name].mean() for name in names]
    np.testing.assert_allclose(model.kernel_.theta, mean, atol=1e-12)
    model.predict(X)  # sets the log-parameters of the posterior's own kernel
    np.testing.assert_allclose(model.kernel_.theta, mean, atol=1e-12)


@MODEL
def test_ard_has_a_length_scale_per_feature(model):
    estimator = short(model, kernel="ard").fit(*problem())
    assert {"log_length_scale_0", "log_length_scale_1"} <= set(estimator.draws_)
    assert len(estimator.kernel_.theta) == 3


@pytest.mark.parametrize("model", [ProbitGPClassifier, SoftmaxGPClassifier])
def test_a_supervised_model_is_the_same_without_the_unlabelled_rows(model):
    X, y = two_groups()
    labelled = pd.notna(y)
    # A kernel by name would not do: its prior looks at all rows.
    with_all = short(model, kernel=RBF(3.0)).fit(X, y)
    alone = short(model, kernel=RBF(3.0)).fit(X[labelled], y[labelled])
    assert_same_draws(with_all, alone)
    np.testing.assert_array_equal(with_all.predict_proba(X), alone.predict_proba(X))


def test_the_null_category_learns_from_the_unlabelled_rows():
    X, y = two_groups()
    labelled = pd.notna(y)
    with_all = short(NullCategoryClassifier, kernel=RBF(3.0)).fit(X, y)
    alone = short(NullCategoryClassifier, kernel=RBF(3.0)).fit(X[labelled], y[labelled])
    assert len(with_all.posterior_.inputs) == len(X)
    assert not np.allclose(with_all.predict_proba(X), alone.predict_proba(X))
