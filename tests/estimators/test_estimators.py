"""What holds of every fitted model, whatever its paper."""

from __future__ import annotations

import copy
import pickle
import time
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest
from joblib import parallel_config
from scipy.stats import mannwhitneyu
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, WhiteKernel
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import get_tags

from atoll.datasets import make_crescents
from atoll.estimators import (
    MODELS,
    ArchipelagoClassifier,
    NullCategoryClassifier,
    OrdinalGPClassifier,
    ProbitGPClassifier,
    SemiSupervisedKFold,
    SoftmaxGPClassifier,
    sampled,
)
from atoll.estimators.sampled import SampledClassifier
from atoll.inference.chains import run_chains

pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore:.*in the order of the alphabet:UserWarning"),
]

SAMPLED = {name: m for name, m in MODELS.items() if issubclass(m, SampledClassifier)}
MODEL = pytest.mark.parametrize("model", SAMPLED.values(), ids=SAMPLED)


def short(model, **options):
    return model(**{"n_chains": 2, "n_warmup": 5, "n_samples": 10, "random_state": 0, **options})


def classes_for(model):
    """As many classes as the model takes, three at most."""
    return ["a", "b", "c"] if get_tags(model()).classifier_tags.multi_class else ["a", "b"]


def problem(model, n_unlabelled=4):
    """X (10, 2), distinct rows well apart, and y with all classes and some rows unlabelled."""
    rng = np.random.default_rng(5)
    grid = np.array([[i, j] for i in range(5) for j in range(2)], dtype=float)
    X = 2.0 * grid + rng.uniform(-0.5, 0.5, size=grid.shape)
    y = np.array([*np.resize(classes_for(model), 10 - n_unlabelled), *[None] * n_unlabelled])
    return X, y


def queries(X):
    return np.concatenate([X[:3] + 0.3, [[1e6, 0.0]], X[-2:]])


@pytest.fixture(scope="module", params=SAMPLED.values(), ids=SAMPLED)
def fitted(request):
    """Model, X and y; not to be changed by a test."""
    X, y = problem(request.param)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return short(request.param).fit(X, y), X, y


def assert_same_draws(left, right):
    assert left.draws_.keys() == right.draws_.keys()
    for name in left.draws_:
        np.testing.assert_array_equal(left.draws_[name], right.draws_[name])


def assert_same_fit(left, right, X):
    assert_same_draws(left, right)
    np.testing.assert_array_equal(left.label_distributions_, right.label_distributions_)
    np.testing.assert_array_equal(left.predict_proba(X), right.predict_proba(X))


# Predictions --------------------------------------------------------------------------------------


def test_given_labels_stay(fitted):
    model, _, y = fitted
    labelled = pd.notna(y)
    assert model.transduction_[labelled].tolist() == y[labelled].tolist()
    one_hot = y[labelled, None] == model.classes_
    np.testing.assert_array_equal(model.label_distributions_[labelled], one_hot.astype(float))


def test_label_distributions_are_distributions_and_transduction_their_largest(fitted):
    model, X, y = fitted
    p = model.label_distributions_
    assert p.shape == (len(X), len(model.classes_))
    assert np.all((p >= 0) & (p <= 1))
    np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=0, atol=1e-12)
    assert model.transduction_.tolist() == model.classes_[p.argmax(axis=1)].tolist()
    assert np.all(p[pd.isna(y)] > 0), "an unlabelled row is never certain"


def test_probabilities_sum_to_one_and_predict_takes_the_largest(fitted):
    model, X, _ = fitted
    p = model.predict_proba(queries(X))
    np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=0, atol=1e-12)
    assert np.all(p > 0)
    assert model.predict(queries(X)).tolist() == model.classes_[p.argmax(axis=1)].tolist()


def test_entropy_is_that_of_the_probabilities(fitted):
    model, X, _ = fitted
    p = model.predict_proba(queries(X))
    np.testing.assert_allclose(
        model.predict_entropy(queries(X)), -np.sum(p * np.log(p), axis=1), rtol=1e-10
    )
    if not isinstance(model, OrdinalGPClassifier):  # whose cut points are learned
        far = model.predict_entropy([[1e6, 1e6]])
        assert far == pytest.approx(np.log(len(model.classes_)), abs=1e-12)


def test_predictions_do_not_depend_on_the_rows_beside_them(fitted):
    model, X, _ = fitted
    together = model.predict_proba(queries(X))
    alone = np.concatenate([model.predict_proba(row[None]) for row in queries(X)])
    np.testing.assert_allclose(alone, together, rtol=1e-10, atol=1e-14)


def test_latent_moments_have_one_column_a_function_and_positive_variances(fitted):
    model, X, _ = fitted
    mean, variance = model.predict_latent(queries(X))
    n_functions = 1 if isinstance(model, OrdinalGPClassifier) else 3
    assert mean.shape == variance.shape == (len(queries(X)), n_functions)
    assert np.all(variance >= 0)


def test_latent_moments_far_away_are_the_priors(fitted):
    model, _, _ = fitted
    mean, variance = model.predict_latent([[1e6, 1e6]])
    assert np.all(mean == 0)
    of_draws = np.exp(model.posterior_.log_parameters[:, 0])
    weights = np.exp(getattr(model.posterior_, "log_weights", np.zeros(len(of_draws))))
    np.testing.assert_allclose(variance, np.average(of_draws, weights=weights), rtol=1e-12)


def test_score_is_the_accuracy(fitted):
    model, X, y = fitted
    labelled = pd.notna(y)
    right = model.predict(X[labelled]) == y[labelled]
    assert model.score(X[labelled], y[labelled]) == pytest.approx(right.mean())


# Randomness, processes and progress ---------------------------------------------------------------


@MODEL
def test_a_seed_gives_the_same_fit_and_another_seed_another(model):
    X, y = problem(model)
    first = short(model).fit(X, y)
    assert_same_fit(first, short(model).fit(X, y), X)
    other = short(model, random_state=1).fit(X, y)
    assert not np.array_equal(first.draws_["log_likelihood"], other.draws_["log_likelihood"])


@MODEL
def test_a_generator_or_a_random_state_may_be_the_seed(model):
    X, y = problem(model)
    from_seed = short(model, random_state=3).fit(X, y)
    assert_same_fit(from_seed, short(model, random_state=np.random.default_rng(3)).fit(X, y), X)
    legacy = [short(model, random_state=np.random.RandomState(3)).fit(X, y) for _ in range(2)]
    assert_same_fit(*legacy, X)


@MODEL
def test_a_generator_moves_on_from_fit_to_fit(model):
    X, y = problem(model)
    estimator = short(model, random_state=np.random.default_rng(3))
    first = estimator.fit(X, y).draws_["log_likelihood"]
    assert not np.array_equal(first, estimator.fit(X, y).draws_["log_likelihood"])


@MODEL
def test_processes_and_progress_change_nothing(model, capfd):
    X, y = problem(model)
    plain = short(model).fit(X, y)
    assert capfd.readouterr().err == ""
    assert_same_fit(plain, short(model, n_jobs=2).fit(X, y), X)
    assert_same_fit(plain, short(model, verbose=True).fit(X, y), X)
    assert "chain 2" in capfd.readouterr().err


class Dawdling(Matern):
    """A kernel that lets other threads go first, between its parameters and its matrix."""

    def __call__(self, X, Y=None, eval_gradient=False):
        time.sleep(1e-4)
        return super().__call__(X, Y, eval_gradient)


@MODEL
def test_chains_in_threads_give_the_draws_of_chains_in_turn(model):
    X, y = problem(model)
    estimator = short(model, kernel=Dawdling(2.0, nu=1.5))
    in_turn = clone(estimator).fit(X, y)
    with parallel_config(backend="threading", n_jobs=2):
        assert_same_draws(in_turn, clone(estimator).fit(X, y))


@MODEL
def test_predictions_in_threads_are_those_of_predictions_in_turn(model):
    X, y = problem(model)
    estimator = short(model, kernel=Dawdling(2.0, nu=1.5)).fit(X, y)
    in_turn = estimator.predict_proba(X)
    with ThreadPoolExecutor(4) as pool:
        for p in pool.map(lambda _: estimator.predict_proba(X), range(8)):
            np.testing.assert_array_equal(p, in_turn)


# Symmetries ---------------------------------------------------------------------------------------


@MODEL
@pytest.mark.parametrize("kernel", ["isotropic", "ard"])
def test_the_units_of_the_features_are_of_no_account(model, kernel):
    X, y = problem(model)
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


@pytest.mark.parametrize(
    "model",
    [m for m in SAMPLED.values() if m is not OrdinalGPClassifier],  # its names have an order
)
def test_the_names_of_the_classes_are_of_no_account(model):
    # A class renamed is sorted elsewhere: its probabilities move along, in distribution. Fits
    # are independent, so the rank test is exact, however short the chains.
    X, y = problem(model)
    classes = classes_for(model)
    renamed = dict(zip(classes, [*classes[1:], classes[0]]))
    position = [classes.index(renamed[name]) for name in classes]
    y_renamed = np.array([renamed.get(label) for label in y])

    def probabilities(labels, seed):
        one = short(model, n_chains=1, n_warmup=15, n_samples=8, random_state=seed)
        return one.fit(X, labels).predict_proba(X[:3])

    plain = np.array([probabilities(y, seed) for seed in range(20)])
    moved = np.array([probabilities(y_renamed, 100 + seed) for seed in range(20)])
    p_values = mannwhitneyu(plain, moved[:, :, position], axis=0, method="exact").pvalue
    assert p_values.min() > 1e-7


@MODEL
def test_the_type_of_the_labels_is_of_no_account(model):
    X, y = problem(model)
    codes = {name: code for code, name in enumerate(classes_for(model), start=1)}
    of_strings = short(model).fit(X, y)
    of_integers = short(model).fit(X, np.array([codes.get(label, -1) for label in y]))
    assert of_strings.classes_.tolist() == classes_for(model)
    assert of_integers.classes_.tolist() == list(codes.values())
    assert_same_fit(of_strings, of_integers, X)
    assert [codes[name] for name in of_strings.predict(X)] == of_integers.predict(X).tolist()


# scikit-learn's company ---------------------------------------------------------------------------


@MODEL
def test_a_data_frame_gives_its_names_and_the_same_fit_as_its_values(model):
    X, y = problem(model)
    frame = pd.DataFrame(X, columns=["height", "width"])
    of_frame = short(model).fit(frame, pd.Series(y))
    assert of_frame.feature_names_in_.tolist() == ["height", "width"]
    assert of_frame.n_features_in_ == 2
    of_values = short(model).fit(X, y)
    assert not hasattr(of_values, "feature_names_in_")
    assert_same_draws(of_frame, of_values)
    np.testing.assert_array_equal(of_frame.predict_proba(frame), of_values.predict_proba(X))


@MODEL
def test_a_clone_has_the_parameters_and_no_fit(model):
    estimator = short(model, kernel=Matern(nu=2.5), thin=3).fit(*problem(model))
    copied = clone(estimator)
    assert not hasattr(copied, "classes_")
    assert repr(copied.get_params()) == repr(estimator.get_params())
    assert copied.kernel is not estimator.kernel
    assert copied.set_params(thin=2, kernel__nu=0.5).kernel.nu == 0.5
    assert estimator.kernel.nu == 2.5


def test_a_pickled_model_predicts_the_same(fitted):
    model, X, _ = fitted
    loaded = pickle.loads(pickle.dumps(model))
    assert_same_fit(model, loaded, queries(X))
    assert loaded.diagnostics_ == model.diagnostics_
    for ours, theirs in zip(loaded.predict_latent(X), model.predict_latent(X)):
        np.testing.assert_array_equal(ours, theirs)


def test_predicting_changes_no_prediction(fitted):
    model, X, _ = fitted
    before = copy.deepcopy(model).predict_proba(X)
    model.predict_latent(queries(X))
    model.predict(queries(X))
    np.testing.assert_array_equal(model.predict_proba(X), before)


@MODEL
def test_a_model_serves_in_a_pipeline(model):
    X, y = problem(model)
    units = np.array([1e-3, 1e6])
    pipeline = make_pipeline(StandardScaler(), short(model)).fit(X * units, y)
    scaler = StandardScaler().fit(X * units)
    alone = short(model).fit(scaler.transform(X * units), y)
    np.testing.assert_array_equal(
        pipeline.predict_proba(X * units), alone.predict_proba(scaler.transform(X * units))
    )


def two_groups():
    """Two groups far apart, 6 labelled rows and 6 unlabelled ones in each."""
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(-4, 0.5, (12, 2)), rng.normal(4, 0.5, (12, 2))])
    y = np.repeat(np.array(["left", "right"], dtype=object), 12)
    y[::2] = None
    return X, y


@pytest.mark.parametrize("marker", [None, -1])
def test_cross_validation_trains_on_unlabelled_rows_and_scores_labelled_ones(marker):
    X, y = two_groups()
    if marker == -1:
        y = np.array([{"left": 1, "right": 2}.get(label, -1) for label in y])
    model = short(NullCategoryClassifier, n_chains=1)
    scores = cross_val_score(model, X, y, cv=SemiSupervisedKFold(3, random_state=0))
    assert scores.tolist() == [1.0, 1.0, 1.0]


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


def test_draws_have_one_row_a_chain_and_the_names_of_the_kernel(fitted):
    model, _, _ = fitted
    expected = {"log_likelihood", "log_variance", "log_length_scale"}
    if isinstance(model, NullCategoryClassifier):
        expected |= {"share_of_class_1", "share_of_class_2"}
    if isinstance(model, OrdinalGPClassifier):
        expected |= {"first_cut_point", "log_gap_1"}
    if isinstance(model, ArchipelagoClassifier):
        expected |= {"n_rejections", *(f"share_of_class_{k + 1}" for k in range(3))}
    assert set(model.draws_) == expected
    assert {values.shape for values in model.draws_.values()} == {(2, 10)}
    assert all(np.isfinite(values).all() for values in model.draws_.values())


def test_diagnostics_name_every_quantity_drawn(fitted):
    model, _, _ = fitted
    report = model.diagnostics_
    for key in ("r_hat", "ess_bulk", "ess_tail"):
        of_rows = {"row_probabilities"} if isinstance(model, ArchipelagoClassifier) else set()
        assert set(report[key]) == set(model.draws_) | of_rows
    assert (report["n_chains"], report["n_draws"], report["interrupted"]) == (2, 10, False)
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
    X, y = problem(model)
    uncut = short(model).fit(X, y)
    first = short(model, checkpoint=tmp_path / "new" / "folder").fit(X, y)
    assert_same_fit(first, uncut, X)

    def refuse(rng, state, adapt):
        raise AssertionError("a sweep was made")

    def run_without_sweeps(sampler, **options):
        return run_chains(sampler._replace(sweep=refuse), **options)

    monkeypatch.setattr(sampled, "run_chains", run_without_sweeps)
    again = short(model, checkpoint=str(tmp_path / "new" / "folder")).fit(X, y)
    assert_same_fit(again, uncut, X)


@MODEL
def test_a_checkpoint_is_extended_to_the_draws_of_a_longer_run(model, tmp_path):
    X, y = problem(model)
    short(model, n_chains=1, n_samples=4, checkpoint=tmp_path).fit(X, y)
    extended = short(model, checkpoint=tmp_path).fit(X, y)
    assert_same_fit(extended, short(model).fit(X, y), X)


@MODEL
@pytest.mark.parametrize("seed", [None, "generator"])
def test_a_checkpoint_is_read_whatever_kind_of_seed_began_it(model, seed, tmp_path):
    X, y = problem(model)

    def fit():
        random_state = np.random.default_rng(0) if seed == "generator" else seed
        return short(model, random_state=random_state, checkpoint=tmp_path).fit(X, y)

    assert_same_fit(fit(), fit(), X)


@MODEL
@pytest.mark.filterwarnings("error::sklearn.exceptions.ConvergenceWarning")
def test_chains_too_short_to_judge_warn_with_the_model_and_the_fix(model):
    X, y = problem(model)
    for n_samples in (2, 20):
        with pytest.warns(ConvergenceWarning, match=rf"{model.__name__}: .* Raise n_"):
            estimator = short(model, n_samples=n_samples).fit(X, y)
        assert not estimator.diagnostics_["mixed"]


@MODEL
@pytest.mark.filterwarnings("error::sklearn.exceptions.ConvergenceWarning")
def test_chains_long_enough_for_an_easy_problem_do_not_warn(model):
    X = np.arange(4.0)[:, None]
    estimator = short(model, kernel=RBF(2.0, "fixed"), n_chains=4, n_warmup=100, n_samples=600).fit(
        X, ["a", "a", "b", "b"]
    )
    assert estimator.diagnostics_["mixed"]
    assert estimator.diagnostics_["verdict"].startswith("The chains have mixed")


# Kernels ------------------------------------------------------------------------------------------

OF_ANY_KERNEL = {
    "log_likelihood",
    "share_of_class_1",
    "share_of_class_2",
    "share_of_class_3",
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
    X, y = problem(model)
    before = kernel.theta.copy()
    estimator = short(model, kernel=kernel).fit(X, y)
    assert [name for name in estimator.draws_ if name not in OF_ANY_KERNEL] == names
    assert estimator.posterior_.log_parameters.shape == (20, len(names))
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
def test_ard_has_a_length_scale_a_feature(model):
    estimator = short(model, kernel="ard").fit(*problem(model))
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


@MODEL
def test_score_is_the_accuracy_over_labelled_rows_however_they_are_marked(model):
    X, truth = make_crescents(n_samples=24, random_state=5)
    fitted = short(model).fit(X, truth)
    accuracy = np.mean(fitted.predict(X[:16]) == truth[:16])
    as_objects = np.array([*truth[:16], *[None] * 8], dtype=object)
    as_integers = np.array([*truth[:16], *[-1] * 8])
    as_floats = np.array([*truth[:16], *[np.nan] * 8])
    for y in (as_objects, as_integers, as_floats, as_objects.tolist()):
        assert fitted.score(X, y) == pytest.approx(accuracy)
    weights = np.arange(24.0)
    expected = np.average(fitted.predict(X[:16]) == truth[:16], weights=weights[:16])
    assert fitted.score(X, as_objects, sample_weight=weights) == pytest.approx(expected)
