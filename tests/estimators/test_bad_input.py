"""What every model does with what it should not be given: an error that helps, or a right answer.

Walks `MODELS`, so that a new model cannot be forgotten.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern
from sklearn.utils import get_tags

from atoll.core import memory
from atoll.estimators import (
    CLASSIFIERS,
    MODELS,
    ArchipelagoClassifier,
    ArchipelagoDensity,
    NullCategoryClassifier,
    OrdinalGPClassifier,
    SSGPRegressor,
    sampling,
)
from atoll.estimators.shell import MarginClassifier
from walking import KERNELS, SAMPLED, over, over_kinds, parameters_of
from walking import short as as_short

pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore:.*in the order of the alphabet:UserWarning"),
]

MODEL = over(MODELS)
KIND = over_kinds(MODELS)
CLASSIFIER = over(CLASSIFIERS)
SAMPLED_MODEL = over(SAMPLED)
KERNEL_MODEL = over(KERNELS)
# Every model with the variants that data might upset: kernels, or covariances.
VARIANTS = [
    pytest.param(model, {option: value}, id=f"{name}-{value}")
    for name, model in MODELS.items()
    for option, values in {
        "kernel": ("isotropic", "ard"),
        "covariance": ("full", "diagonal", "tied", "factor"),
    }.items()
    if option in parameters_of(model) and (option != "kernel" or name in KERNELS)
    for value in values
] + [
    pytest.param(model, {}, id=name)
    for name, model in MODELS.items()
    if name not in KERNELS and "covariance" not in parameters_of(model)
]
VARIANT = pytest.mark.parametrize(("model", "variant"), VARIANTS)

X = np.random.default_rng(0).normal(size=(8, 2))
Y = np.array(["a", "b", None, "a", "b", None, "a", "b"], dtype=object)


def short(model, **options):
    """One chain, of three draws."""
    few = {"n_chains": 1, "n_warmup": 2, "n_samples": 3} if model in SAMPLED.values() else {}
    return as_short(model, **few | options)


def assert_probabilities(p, shape):
    assert p.shape == shape
    assert np.isfinite(p).all()
    assert np.all((p >= 0) & (p <= 1))
    np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=0, atol=1e-12)


# Labels -------------------------------------------------------------------------------------------


@MODEL
@pytest.mark.parametrize(
    "y",
    [
        [None] * 8,
        np.full(8, np.nan),
        np.full(8, -1),
        pd.Series([pd.NA] * 8, dtype="Int64"),
        pd.Series([None] * 8, dtype="string"),
    ],
    ids=["None", "NaN", "-1", "NA integers", "NA strings"],
)
def test_no_label_is_refused(model, y):
    with pytest.raises(ValueError, match=r"no labelled row among 8; .*Label at least one row of"):
        short(model).fit(X, y)


@MODEL
def test_one_class_is_refused_by_name(model):
    with pytest.raises(
        ValueError, match=r"one class \('a'\) among 3 labelled rows; .*at least two"
    ):
        short(model).fit(X, ["a", "a", "a", *[None] * 5])
    with pytest.raises(ValueError, match=r"one class \(0\.0\) among 3 labelled rows"):
        short(model).fit(X, [0.0, 0.0, 0.0, *[np.nan] * 5])


@MODEL
@pytest.mark.parametrize("n_labels", [7, 9])
def test_labels_of_another_length_than_the_rows_are_refused_with_both_lengths(model, n_labels):
    y = np.resize(Y, n_labels)
    with pytest.raises(ValueError, match=rf"y has {n_labels} labels and X has 8 rows"):
        short(model).fit(X, y)


@MODEL
def test_labels_must_be_given(model):
    with pytest.raises(ValueError, match=r"y is None.*one label per row"):
        short(model).fit(X, None)


@MODEL
@pytest.mark.parametrize(
    ("y", "problem"),
    [
        ([0.5, 1.2, *[0.1] * 6], "continuous numbers such as 0.5"),
        ([0.0, 1.0, np.inf, *[1.0] * 5], "y contains infinity"),
        (["a", 1, *["a"] * 6], r"y mixes labels of several types \(number, string\)"),
        ([0, 1, *["?"] * 6], r"if '\?' means unlabelled, put None or NaN in its place"),
        (np.zeros((8, 2)), r"1d array of labels, got an array of shape \(8, 2\)"),
    ],
    ids=["continuous", "infinity", "mixed", "placeholder", "two columns"],
)
def test_labels_that_are_no_classes_are_refused(model, y, problem):
    with pytest.raises(ValueError, match=problem):
        short(model).fit(X, y)


@MODEL
def test_more_than_two_classes_fit(model):
    y = ["a", "b", "c", "a", "b", "c", None, None]
    assert_probabilities(short(model).fit(X, y).predict_proba(X), (8, 3))


# Every way to write labels, the classes read, and the rows that are unlabelled.
LABELS = {
    "strings": (["no", "yes"] * 4, ["no", "yes"], []),
    "None": (["no", "yes", None, "no", "yes", None, "no", "yes"], ["no", "yes"], [2, 5]),
    "None in an object array": (Y, ["a", "b"], [2, 5]),
    "NaN": (np.array([0, 1, np.nan, 0, 1, np.nan, 0, 1]), [0.0, 1.0], [2, 5]),
    "NaN beside strings": (["no", "yes", np.nan, "no", "yes", None, "no", "yes"],
                           ["no", "yes"], [2, 5]),
    "pandas NA": (pd.Series([3, 4, pd.NA, 3, 4, pd.NA, 3, 4], dtype="Int64"), [3, 4], [2, 5]),
    "pandas NA strings": (pd.Series(["no", "yes", pd.NA, "no", "yes", pd.NA, "no", "yes"],
                                    dtype="string"), ["no", "yes"], [2, 5]),
    "pandas categories": (pd.Series(["no", "yes", None, "no", "yes", None, "no", "yes"],
                                    dtype="category"), ["no", "yes"], [2, 5]),
    "-1": (np.array([1, 2, -1, 1, 2, -1, 1, 2]), [1, 2], [2, 5]),
    "{-1, +1}": (np.array([-1, 1] * 4), [-1, 1], []),
    "{-1, +1} and None": ([-1, 1, None, -1, 1, None, -1, 1], [-1, 1], [2, 5]),
    "{-1.0, +1.0}": (np.array([-1.0, 1.0] * 4), [-1.0, 1.0], []),
    "booleans": (np.array([False, True] * 4), [False, True], []),
    "booleans and None": ([False, True, None, False, True, None, False, True],
                          [False, True], [2, 5]),
}  # fmt: skip


@KIND
@pytest.mark.parametrize(("y", "classes", "unlabelled"), LABELS.values(), ids=LABELS)
def test_labels_of_any_kind_are_read(model, y, classes, unlabelled):
    fitted = short(model).fit(X, y)
    assert fitted.classes_.tolist() == classes
    is_certain = np.max(fitted.label_distributions_, axis=1) == 1.0
    assert np.flatnonzero(~is_certain).tolist() == unlabelled
    given = [label for row, label in enumerate(list(y)) if row not in unlabelled]
    assert np.delete(fitted.transduction_, unlabelled).tolist() == given
    assert set(fitted.predict(X).tolist()) <= set(classes)
    assert fitted.predict(X).dtype == fitted.transduction_.dtype == fitted.classes_.dtype


@KIND
def test_minus_one_beside_zeros_and_ones_is_unlabelled_and_unlabelled_settles_it(model):
    signs = np.array([-1, 1, 0, -1, 1, 0, -1, 1])
    assert short(model).fit(X, signs).classes_.tolist() == [0, 1]
    assert short(model, unlabelled=-1).fit(X, signs).classes_.tolist() == [0, 1]
    assert short(model, unlabelled=0).fit(X, signs).classes_.tolist() == [-1, 1]
    assert short(model, unlabelled="?").fit(X, ["a", "b", "?", *"abaab"]).classes_.tolist() == [
        "a",
        "b",
    ]


# Rows ---------------------------------------------------------------------------------------------


def with_holes(value):
    holed = X.copy()
    holed[2, 1] = holed[5, 0] = value
    return holed


@KIND
@pytest.mark.parametrize(
    ("value", "what", "fix"),
    [
        (np.nan, "NaN", "Drop those rows, or let blank cells be filled in: make_pipeline"),
        (np.inf, r"infinity \(inf\)", "Correct those cells, or drop those rows.$"),
        (-np.inf, r"infinity \(inf\)", "Correct those cells, or drop those rows.$"),
    ],
)
def test_a_number_that_is_not_finite_is_refused_with_its_rows_and_columns(model, value, what, fix):
    cells = r"2 rows: 2, 5; columns: 1, 0; first in row 2, column 1\."
    where = rf"^X contains {what} in {cells} {fix}"
    with pytest.raises(ValueError, match=where):
        short(model).fit(with_holes(value), Y)
    fitted = short(model).fit(X, Y)
    for method in (fitted.predict, fitted.predict_proba):
        with pytest.raises(ValueError, match=where):
            method(with_holes(value))


@KIND
def test_a_hole_in_a_data_frame_is_refused_with_the_names_of_its_columns(model):
    frame = pd.DataFrame(X, columns=["height", "width"])
    holed = pd.DataFrame(with_holes(np.nan), columns=frame.columns)
    where = r"in 2 rows: 2, 5; columns: 'width', 'height'; first in row 2, column 'width'\."
    with pytest.raises(ValueError, match=where):
        short(model).fit(holed, Y)
    with pytest.raises(ValueError, match=where):
        short(model).fit(frame, Y).predict(holed)
    nullable = frame.astype("Float64")
    nullable.loc[3, "width"] = pd.NA
    with pytest.raises(ValueError, match=r"in 1 row: 3; column: 'width'\. Drop"):
        short(model).fit(nullable, Y)


def test_infinity_beside_blanks_is_told_apart_from_them():
    holed = with_holes(np.nan)
    holed[6, 1] = np.inf
    said = r"infinity \(inf\) in 1 row: 6; column: 1\. Correct.* X contains NaN in 2 rows: 2, 5;"
    with pytest.raises(ValueError, match=said):
        ArchipelagoClassifier().fit(holed, Y)


@MODEL
def test_many_rows_with_holes_are_counted_not_listed(model):
    holed = np.full((8, 7), np.nan)
    with pytest.raises(ValueError, match=r"8 rows: 0, 1, 2, 3, 4, … \(8 in all\); .*\(7 in all\)"):
        short(model).fit(holed, Y)


@KIND
def test_another_number_of_columns_at_prediction_is_refused(model):
    fitted = short(model).fit(X, Y)
    for method in (fitted.predict, fitted.predict_proba):
        with pytest.raises(ValueError, match=r"3 features.*expecting 2 features"):
            method(np.zeros((1, 3)))
    frame = pd.DataFrame(X, columns=["height", "width"])
    with pytest.raises(ValueError, match=r"feature names should match.*(?s:.*)depth"):
        short(model).fit(frame, Y).predict(frame.rename(columns={"width": "depth"}))


@MODEL
def test_a_prediction_before_the_fit_is_refused(model):
    for method in ("predict", "predict_proba"):
        with pytest.raises(NotFittedError, match="not fitted yet"):
            getattr(model(), method)(X)


# Data that are odd, not wrong ---------------------------------------------------------------------


@VARIANT
def test_duplicate_rows_fit_even_where_their_labels_disagree(model, variant):
    twice, y = np.repeat(X[:4], 3, axis=0), ["a", "b", None] * 4
    fitted = short(model, **variant).fit(twice, y)
    assert_probabilities(fitted.predict_proba(twice), (12, 2))
    assert_probabilities(fitted.label_distributions_, (12, 2))
    # The same row has the same probabilities, whatever its label.
    p = fitted.predict_proba(twice).reshape(4, 3, 2)
    np.testing.assert_allclose(p, np.broadcast_to(p[:, :1], p.shape), atol=1e-12)


@VARIANT
def test_rows_that_are_all_the_same_fit(model, variant):
    with pytest.warns(UserWarning, match="all 8 rows are equal"):
        fitted = short(model, **variant).fit(np.full((8, 2), 3.0), Y)
    assert fitted.diagnostics_["trust"] == "no"
    assert_probabilities(fitted.predict_proba(X), (8, 2))


@VARIANT
def test_a_constant_column_fits(model, variant):
    fitted = short(model, **variant).fit(np.column_stack([X, np.full(8, 7.0)]), Y)
    assert_probabilities(fitted.predict_proba(np.column_stack([X, np.full(8, 7.0)])), (8, 2))
    assert_probabilities(fitted.predict_proba(np.column_stack([X, np.full(8, 9.0)])), (8, 2))


@KERNEL_MODEL
def test_a_constant_column_says_nothing_to_the_isotropic_kernel(model):
    constant = np.column_stack([X, np.full(8, 7.0)])
    with_it = short(model).fit(constant, Y).predict_proba(constant)
    np.testing.assert_allclose(with_it, short(model).fit(X, Y).predict_proba(X), atol=1e-12)


@VARIANT
def test_one_feature_fits(model, variant):
    fitted = short(model, **variant).fit(X[:, :1], Y)
    assert_probabilities(fitted.predict_proba(X[:, :1]), (8, 2))


@VARIANT
def test_two_rows_fit(model, variant):
    fitted = short(model, **variant).fit([[0.0, 1.0], [2.0, 0.0]], ["a", "b"])
    assert fitted.transduction_.tolist() == ["a", "b"]
    assert_probabilities(fitted.predict_proba(X), (8, 2))


@MODEL
def test_features_in_the_thousands_fit(model):
    wide = np.random.default_rng(1).normal(size=(12, 3000))
    y = ["a", "b", None] * 4
    sweeps = {"n_warmup": 20, "n_samples": 20} if model in SAMPLED.values() else {}
    fitted = short(model, **sweeps).fit(wide, y)
    assert_probabilities(fitted.predict_proba(wide), (12, 2))
    assert fitted.predict(wide)[:2].tolist() == ["a", "b"]


@KERNEL_MODEL
@pytest.mark.parametrize(
    ("kernel", "distance"),
    [*((k, d) for k in ("isotropic", "ard") for d in (1e4, 1e100, 1e300)), (Matern(nu=1.5), 1e4)],
    ids=str,
)
def test_far_from_all_data_the_probabilities_are_the_priors(model, kernel, distance):
    classes = ["a", "b", "c"] if get_tags(model()).classifier_tags.multi_class else ["a", "b"]
    y = [*np.resize(classes, 7), None]
    fitted = short(model, kernel=kernel).fit(X, y)
    far = distance * np.array([[1.0, 0.0], [-1.0, 1.0], [0.0, -1.0]])
    p = fitted.predict_proba(far)
    if model is OrdinalGPClassifier or issubclass(model, MarginClassifier):
        # Cut points are learned, and a machine's bias: the same for all, never NaN.
        assert_probabilities(p, (3, 3))
        np.testing.assert_allclose(p, p[[0, 0, 0]], rtol=0, atol=1e-12)
    else:
        # What the belief in the functions leaves has the shares of the classes.
        doubt = np.broadcast_to(getattr(fitted.posterior_, "doubt", 0.0), len(classes))
        prior = (1.0 - doubt.sum()) / len(classes) + doubt
        np.testing.assert_allclose(p, np.tile(prior, (3, 1)), rtol=0, atol=1e-12)
    assert set(fitted.predict(far)) <= set(classes)


@MODEL
@pytest.mark.parametrize("distance", [1e4, 1e100, 1e300])
def test_far_from_all_data_the_probabilities_are_probabilities(model, distance):
    fitted = short(model).fit(X, Y)
    assert_probabilities(
        fitted.predict_proba(distance * np.array([[1.0, 0.0], [-1.0, 1.0]])), (2, 2)
    )


@SAMPLED_MODEL
def test_far_from_all_data_the_functions_are_the_priors(model):
    fitted = short(model).fit(X, Y)
    mean, variance = fitted.predict_latent([[1e6, -1e6]])
    assert np.all(mean == 0.0)
    of_prior = np.exp(fitted.posterior_.log_parameters[:, 0]).mean()
    np.testing.assert_allclose(variance, of_prior, rtol=1e-12)


# Parameters ---------------------------------------------------------------------------------------


@SAMPLED_MODEL
@pytest.mark.parametrize(
    ("name", "value"),
    [("n_chains", 0), ("n_chains", -2), ("n_samples", 0), ("n_warmup", -1), ("thin", 0)],
)
def test_a_count_out_of_range_is_named_with_its_value(model, name, value):
    said = f'{name} must be ("auto" or )?a whole number, at least [01], got {value}'
    with pytest.raises(ValueError, match=said):
        short(model, **{name: value}).fit(X, Y)


@SAMPLED_MODEL
@pytest.mark.parametrize("name", ["n_chains", "n_warmup", "n_samples", "thin"])
@pytest.mark.parametrize("value", [2.5, np.nan, "4", None], ids=str)
def test_a_count_that_is_no_integer_is_named_with_its_value(model, name, value):
    said = f'{name} must be ("auto" or )?a whole number.*, got {value!r}'
    with pytest.raises(ValueError, match=said):
        short(model, **{name: value}).fit(X, Y)


@KERNEL_MODEL
@pytest.mark.parametrize("kernel", ["rbf", None, 3, RBF], ids=str)
def test_what_is_no_kernel_is_named_and_refused(model, kernel):
    with pytest.raises(
        ValueError, match=r'kernel must be "isotropic", "ard" or a scikit-learn kernel, got'
    ):
        short(model, kernel=kernel).fit(X, Y)


@pytest.mark.parametrize("kernel", ["rbf", lambda a, b: 1.0], ids=["word", "function"])
def test_for_what_is_no_kernel_the_guide_to_one_is_named(kernel):
    with pytest.raises(ValueError, match=r"such as RBF\(\) of sklearn.*own-kernel\.md"):
        short(MODELS["probit-gp"], kernel=kernel).fit(X, Y)


@pytest.mark.parametrize(
    ("model", "y"),
    [(m, Y) for m in MODELS.values() if "kernel" in m.parameters]
    + [(ArchipelagoDensity, None), (SSGPRegressor, X[:, 0])],
)
def test_a_kernels_class_in_the_place_of_a_kernel_is_refused_with_the_call_that_makes_one(model, y):
    with pytest.raises(ValueError, match=r"^kernel must be .*, got the class RBF.* kernel=RBF\(\)"):
        short(model, kernel=RBF).fit(X, y)
    with pytest.raises(ValueError, match=r"^kernel must be .*, got <class 'int'>\.$"):
        short(model, kernel=int).fit(X, y)


@SAMPLED_MODEL
@pytest.mark.parametrize("kernel", [RBF([1.0] * 3), ConstantKernel() * RBF([1.0] * 3)], ids=str)
@pytest.mark.parametrize("n_features", [1, 2])
def test_a_kernel_for_another_number_of_features_is_refused_before_sampling(
    model, kernel, n_features, monkeypatch
):
    monkeypatch.setattr(sampling, "run_chains", must_not_run)
    with pytest.raises(ValueError, match=rf"3\D+{n_features}"):
        short(model, kernel=kernel).fit(X[:, :n_features], Y)


@pytest.mark.parametrize("null_width", [-1, -1e-9, np.nan, np.inf])
def test_a_null_width_out_of_range_is_named_with_its_value(null_width):
    with pytest.raises(ValueError, match=rf"null_width must be .*, got {null_width}"):
        short(NullCategoryClassifier, null_width=null_width).fit(X, Y)


@pytest.mark.parametrize("null_width", ["wide", None, [1.0, 2.0]], ids=str)
def test_a_null_width_that_is_no_number_is_named_with_its_value(null_width):
    with pytest.raises(ValueError, match=r"null_width must be .*, got "):
        short(NullCategoryClassifier, null_width=null_width).fit(X, Y)


# Memory -------------------------------------------------------------------------------------------


def must_not_run(*args, **options):
    raise AssertionError("sampling was begun")


@SAMPLED_MODEL
def test_more_memory_than_the_machine_has_is_refused_with_the_estimate(model, monkeypatch):
    monkeypatch.setattr(memory, "physical_memory", lambda: 1000)
    monkeypatch.setattr(sampling, "run_chains", must_not_run)
    with pytest.raises(
        ValueError,
        match=rf"{model.__name__} with \d rows .* needs about .* GiB of memory and this machine "
        r"has 0\.0 GiB\. Fit on fewer rows",
    ):
        short(model).fit(X, Y)


@SAMPLED_MODEL
def test_a_million_labelled_rows_are_refused_on_any_machine_there_is(model, monkeypatch):
    monkeypatch.setattr(sampling, "run_chains", must_not_run)
    n = 1_000_000
    exact = {"inference": "mcmc"} if model is ArchipelagoClassifier else {}
    with pytest.raises(ValueError, match=r"1000000 rows .* needs about \d+\.\d GiB"):
        short(model, **exact).fit(np.zeros((n, 1)), np.arange(n) % 2)


@SAMPLED_MODEL
def test_a_machine_that_does_not_tell_its_memory_is_trusted(model, monkeypatch):
    monkeypatch.setattr(memory, "physical_memory", lambda: None)
    assert_probabilities(short(model).fit(X, Y).predict_proba(X), (8, 2))


# Checkpoints --------------------------------------------------------------------------------------


@SAMPLED_MODEL
def test_a_checkpoint_of_other_data_or_parameters_is_refused(model, tmp_path):
    short(model, checkpoint=tmp_path).fit(X, Y)
    other_labels = ["b", "a", None, "a", "b", None, "a", "b"]
    fewer_labels = ["a", "b", None, "a", "b", None, "a", None]
    for X_other, y_other in [(X + 1e-9, Y), (X, other_labels), (X, fewer_labels)]:
        with pytest.raises(ValueError, match=r"chain-0\.npz' belongs to another run"):
            short(model, checkpoint=tmp_path).fit(X_other, y_other)
    for options in ({"kernel": "ard"}, {"random_state": 1}, {"thin": 3}, {"n_warmup": 6}):
        with pytest.raises(ValueError, match=r"chain-0\.npz' belongs to another run"):
            short(model, checkpoint=tmp_path, **options).fit(X, Y)


@SAMPLED_MODEL
def test_a_checkpoint_of_another_model_is_refused(model, tmp_path):
    short(model, checkpoint=tmp_path).fit(X, Y)
    for other in set(SAMPLED.values()) - {model}:
        with pytest.raises(ValueError, match="belongs to another run"):
            short(other, checkpoint=tmp_path).fit(X, Y)


@SAMPLED_MODEL
def test_a_checkpoint_of_a_kernel_that_differs_in_the_last_digit_is_refused(model, tmp_path):
    short(model, checkpoint=tmp_path, kernel=RBF(1.0)).fit(X, Y)
    with pytest.raises(ValueError, match="belongs to another run"):
        short(model, checkpoint=tmp_path, kernel=RBF(1.0 + 1e-12)).fit(X, Y)


@SAMPLED_MODEL
@pytest.mark.parametrize("below", [".", "below"])
def test_a_checkpoint_where_a_file_stands_is_refused_and_the_file_is_left(model, below, tmp_path):
    file = tmp_path / "notes.txt"
    file.write_text("precious")
    with pytest.raises(ValueError, match=r"checkpoint.*notes\.txt.*another"):
        short(model, checkpoint=file / below).fit(X, Y)
    assert file.read_text() == "precious"


@SAMPLED_MODEL
def test_a_truncated_checkpoint_is_refused_by_name(model, tmp_path):
    short(model, checkpoint=tmp_path).fit(X, Y)
    file = tmp_path / "chain-0.npz"
    file.write_bytes(file.read_bytes()[:300])
    with pytest.raises(ValueError, match=r"chain-0\.npz' cannot be read .*delete it"):
        short(model, checkpoint=tmp_path).fit(X, Y)
