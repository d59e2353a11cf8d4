from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    Kernel,
    Matern,
    RationalQuadratic,
    WhiteKernel,
)

from atoll.kernels.hyperparameters import (
    NUGGET,
    cross_gram_function,
    gram,
    gram_diagonal,
    gram_function,
    gram_gradient_function,
    kernel_at,
    kernel_prior,
)

X = np.random.default_rng(0).normal(size=(9, 3)) * [1.0, 5.0, 0.2]

# What may be asked for, with the names of the free log-parameters.
KERNELS = {
    "isotropic": ("isotropic", ["log_variance", "log_length_scale"]),
    "ard": ("ard", ["log_variance", *(f"log_length_scale_{j}" for j in range(3))]),
    "variance × RBF": (
        ConstantKernel(2.0) * RBF(1.5),
        ["log_k1__constant_value", "log_k2__length_scale"],
    ),
    "variance × ARD": (
        ConstantKernel(2.0) * RBF([1.0, 2.0, 0.5]),
        ["log_k1__constant_value", *(f"log_k2__length_scale_{j}" for j in range(3))],
    ),
    "RBF": (RBF(1.5), ["log_length_scale"]),
    "RBF × variance": (
        RBF(1.5) * ConstantKernel(2.0),
        ["log_k1__length_scale", "log_k2__constant_value"],
    ),
    "variance fixed": (ConstantKernel(2.0, "fixed") * RBF(1.5), ["log_k2__length_scale"]),
    "length-scale fixed": (ConstantKernel(2.0) * RBF(1.5, "fixed"), ["log_k1__constant_value"]),
    "all fixed": (RBF(1.5, "fixed"), []),
    "Matern": (ConstantKernel(2.0) * Matern([1.0, 2.0, 0.5], nu=1.5), None),
    "sum": (
        ConstantKernel(2.0) * RBF(1.5) + WhiteKernel(0.1),
        ["log_k1__k1__constant_value", "log_k1__k2__length_scale", "log_k2__noise_level"],
    ),
    "rational quadratic": (RationalQuadratic(2.0, 0.7), None),
    "dot product": (DotProduct(1.3), ["log_sigma_0"]),
}
KERNEL = pytest.mark.parametrize(("kernel", "names"), KERNELS.values(), ids=KERNELS)


def some_log_parameters(prior, seed):
    rng = np.random.default_rng(seed)
    return prior.mean + 0.5 * rng.standard_normal(len(prior.mean))


# The prior ----------------------------------------------------------------------------------------


@KERNEL
def test_a_prior_has_one_name_mean_and_spread_a_free_log_parameter(kernel, names):
    prior = kernel_prior(kernel, X)
    assert prior.mean.shape == prior.sd.shape == (len(prior.names),) == prior.kernel.theta.shape
    assert len(set(prior.names)) == len(prior.names)
    assert np.all(prior.sd > 0)
    if names is not None:
        assert list(prior.names) == names


def test_the_isotropic_length_scale_is_centred_on_half_the_rms_distance_of_two_rows():
    prior = kernel_prior("isotropic", X)
    rms_distance = np.sqrt(np.mean(cdist(X, X, "sqeuclidean")))
    np.testing.assert_allclose(prior.mean, [2.0, np.log(0.5 * rms_distance)], rtol=1e-12)


def test_ard_length_scales_are_centred_on_what_isotropic_would_be_were_all_features_alike():
    prior = kernel_prior("ard", X)
    for j in range(3):
        alike = np.repeat(X[:, j : j + 1], 3, axis=1)
        isotropic = kernel_prior("isotropic", alike).mean[1]
        assert prior.mean[1 + j] == pytest.approx(isotropic, abs=1e-12)


@pytest.mark.parametrize("kernel", ["isotropic", "ard"])
@pytest.mark.parametrize("unit", [1e-3, 1e3, 1e100])
def test_length_scales_follow_the_units_of_the_features_and_the_variance_does_not(kernel, unit):
    before, after = kernel_prior(kernel, X), kernel_prior(kernel, unit * X)
    assert after.mean[0] == before.mean[0]
    np.testing.assert_allclose(after.mean[1:], before.mean[1:] + np.log(unit), atol=1e-12)
    np.testing.assert_array_equal(after.sd, before.sd)


def test_an_ard_length_scale_follows_the_unit_of_its_own_feature_alone():
    shift = kernel_prior("ard", X * [1.0, 1000.0, 1.0]).mean - kernel_prior("ard", X).mean
    np.testing.assert_allclose(shift, [0.0, 0.0, np.log(1000.0), 0.0], atol=1e-12)


@pytest.mark.parametrize("kernel", ["isotropic", "ard"])
def test_the_origin_of_the_features_is_of_no_account(kernel):
    moved = kernel_prior(kernel, X + np.array([10.0, -300.0, 7.0]))
    np.testing.assert_allclose(moved.mean, kernel_prior(kernel, X).mean, atol=1e-12)


@pytest.mark.parametrize("kernel", ["isotropic", "ard"])
def test_rows_that_are_all_the_same_have_length_scale_one(kernel):
    assert kernel_prior(kernel, np.full((4, 2), 3.0)).mean[1:].tolist() == pytest.approx(
        [0.0] * (1 if kernel == "isotropic" else 2)
    )


def test_a_constant_feature_has_the_typical_length_scale_under_ard():
    with_constant = np.column_stack([X, np.full(len(X), 4.0)])
    typical = kernel_prior("isotropic", with_constant).mean[1]
    assert kernel_prior("ard", with_constant).mean[-1] == pytest.approx(typical, abs=1e-12)


def test_ard_of_one_feature_is_isotropic():
    ard, isotropic = (kernel_prior(kernel, X[:, :1]) for kernel in ("ard", "isotropic"))
    assert ard.names == isotropic.names
    np.testing.assert_allclose(ard.mean, isotropic.mean, atol=1e-12)
    theta = np.array([0.3, -0.2])
    np.testing.assert_array_equal(gram(ard, theta, X[:, :1]), gram(isotropic, theta, X[:, :1]))


def test_a_given_kernel_is_centred_on_the_values_it_holds():
    prior = kernel_prior(ConstantKernel(2.0) * RBF([1.0, 2.0, 0.5]) + WhiteKernel(0.1), X)
    np.testing.assert_allclose(np.exp(prior.mean), [2.0, 1.0, 2.0, 0.5, 0.1])


def test_fixed_parameters_stay_fixed():
    prior = kernel_prior(ConstantKernel(2.0, "fixed") * RBF(1.5), X)
    moved = kernel_at(prior, prior.mean + 1.0)
    assert moved.k1.constant_value == 2.0
    assert moved.k2.length_scale == pytest.approx(1.5 * np.e)


OBJECTS = {label: kernel for label, (kernel, _) in KERNELS.items() if isinstance(kernel, Kernel)}


@pytest.mark.parametrize("kernel", OBJECTS.values(), ids=OBJECTS)
def test_a_kernel_given_is_never_changed(kernel):
    before = kernel.theta.copy()
    prior = kernel_prior(kernel, X)
    theta = prior.mean + 1.0
    gram(prior, theta, X)
    gram(prior, theta, X, X[:2])
    gram_diagonal(prior, theta, X)
    gram_function(prior, X)(theta)
    kernel_at(prior, theta)
    np.testing.assert_array_equal(kernel.theta, before)


@pytest.mark.parametrize("kernel", ["rbf", None, 3, RBF, "ISOTROPIC"])
def test_what_is_no_kernel_is_named_and_refused(kernel):
    with pytest.raises(ValueError, match=r"kernel=.* is not a kernel; use 'isotropic', 'ard' or"):
        kernel_prior(kernel, X)


# Kernel matrices ----------------------------------------------------------------------------------


@KERNEL
def test_the_kernel_matrix_is_scikit_learns_at_those_parameters(kernel, names):
    prior = kernel_prior(kernel, X)
    theta = some_log_parameters(prior, 1)
    theirs = prior.kernel.clone_with_theta(theta)
    np.testing.assert_array_equal(gram(prior, theta, X), theirs(X))
    np.testing.assert_array_equal(gram(prior, theta, X, X[:4] + 1.0), theirs(X, X[:4] + 1.0))
    np.testing.assert_array_equal(gram_diagonal(prior, theta, X), theirs.diag(X))


@KERNEL
@pytest.mark.parametrize("seed", range(3))
def test_gram_function_gives_the_numbers_of_gram_with_a_nugget(kernel, names, seed):
    prior = kernel_prior(kernel, X)
    at = gram_function(prior, X)
    theta = some_log_parameters(prior, seed)
    K = gram(prior, theta, X)
    K += NUGGET * np.trace(K) / len(X) * np.eye(len(X))
    np.testing.assert_allclose(at(theta), K, rtol=1e-12, atol=1e-12 * np.abs(K).max())


@pytest.mark.parametrize("far", [0.0, 1e3], ids=["near", "far"])
def test_many_features_give_the_numbers_of_scikit_learn_wherever_rows_are(far):
    """Distances are then found by a product, which of rows far off would not be accurate."""
    rng = np.random.default_rng(0)
    rows, others = rng.standard_normal((20, 13)), rng.standard_normal((9, 13))
    prior = kernel_prior("ard", rows)
    theta = prior.mean + 0.3 * rng.standard_normal(len(prior.mean))
    rows, others = rows + far, others + far
    exact, between = gram(prior, theta, rows), gram(prior, theta, rows, others)
    found = gram_function(prior, rows)(theta)
    np.fill_diagonal(exact, exact.diagonal() * (1.0 + NUGGET))
    np.testing.assert_allclose(found, exact, rtol=1e-11)
    found = cross_gram_function(prior)(theta, rows, others)
    np.testing.assert_allclose(found, between, rtol=1e-8)
    outlier = cross_gram_function(prior)(theta, rows, others + 1e180)
    np.testing.assert_array_equal(outlier, np.zeros((20, 9)))


@KERNEL
def test_gram_function_gives_a_fresh_array_at_each_call(kernel, names):
    prior = kernel_prior(kernel, X)
    at = gram_function(prior, X)
    first = at(prior.mean)
    kept = first.copy()
    first[:] = np.nan  # samplers overwrite what they are given
    np.testing.assert_array_equal(at(prior.mean), kept)


@KERNEL
def test_gram_function_does_not_depend_on_the_calls_before(kernel, names):
    prior = kernel_prior(kernel, X)
    at, theta = gram_function(prior, X), some_log_parameters(prior, 2)
    before = at(theta)
    at(prior.mean + 1.0)
    gram(prior, prior.mean - 1.0, X)
    np.testing.assert_array_equal(at(theta), before)


@KERNEL
def test_the_variance_parameter_scales_the_whole_kernel_matrix(kernel, names):
    prior = kernel_prior(kernel, X)
    v = prior.variance_index
    claimed = kernel in ("isotropic", "ard") or getattr(kernel, "k1", None) == ConstantKernel(2.0)
    assert (v is not None) == claimed
    if v is not None:
        theta = some_log_parameters(prior, 3)
        more = theta + 0.8 * (np.arange(len(theta)) == v)
        K = gram(prior, theta, X)
        np.testing.assert_allclose(gram(prior, more, X), np.exp(0.8) * K, rtol=1e-12)


@KERNEL
def test_kernel_at_gives_a_kernel_of_its_own(kernel, names):
    prior = kernel_prior(kernel, X)
    theta = some_log_parameters(prior, 4)
    ours = kernel_at(prior, theta)
    gram(prior, prior.mean + 1.0, X)
    np.testing.assert_allclose(ours.theta, theta, atol=1e-12)
    np.testing.assert_allclose(ours(X), gram(prior, theta, X), rtol=1e-12)


def test_far_rows_have_no_covariance_and_no_warning():
    prior = kernel_prior("isotropic", X)
    far = np.full((1, 3), 1e200)
    assert gram(prior, prior.mean, X, far).tolist() == [[0.0]] * len(X)
    assert gram_function(prior, np.concatenate([X, far]))(prior.mean)[-1, :-1].max() == 0.0


def test_a_constant_column_has_the_typical_length_scale_whatever_its_value():
    """The deviation of a column of 0.1 is not zero but rounding."""
    varying = np.random.default_rng(0).normal(size=(10, 1))
    for value in (0.0, 0.1, 1.0, 1e6):
        prior = kernel_prior("ard", np.column_stack([varying, np.full(10, value)]))
        assert prior.mean[2] == pytest.approx(np.log(varying.std() * np.sqrt(0.5)))


def test_a_free_parameter_without_a_logarithm_is_named():
    with pytest.raises(ValueError, match="sigma_0 is zero or infinite"):
        kernel_prior(DotProduct(sigma_0=0.0), X)


# Gradients ----------------------------------------------------------------------------------------

WITH_GRADIENTS = {
    **{label: kernel for label, (kernel, _) in KERNELS.items()},
    "Matern + white": Matern([1.0, 2.0, 0.5], nu=2.5) + WhiteKernel(0.3),
    "Matern + fixed white": ConstantKernel(2.0) * Matern(1.3, nu=1.5) + WhiteKernel(0.3, "fixed"),
    "fixed × Matern + white": ConstantKernel(0.7, "fixed") * Matern(1.3) + WhiteKernel(0.3),
}


@pytest.mark.parametrize("kernel", WITH_GRADIENTS.values(), ids=WITH_GRADIENTS)
@pytest.mark.parametrize("seed", range(3))
def test_the_gradient_through_the_kernel_matrix_matches_finite_differences(kernel, seed):
    """Of Σ M_ij C_ij(θ), M any symmetric matrix."""
    prior = kernel_prior(kernel, X)
    at, theta = gram_function(prior, X), some_log_parameters(prior, seed)
    M = np.random.default_rng(seed).standard_normal((len(X), len(X)))
    M += M.T
    ours = gram_gradient_function(prior, X)(theta, at(theta), M)
    step = 1e-5
    finite = [
        np.sum(M * (at(theta + step * e) - at(theta - step * e))) / (2 * step)
        for e in np.eye(len(theta))
    ]
    assert ours.shape == theta.shape
    np.testing.assert_allclose(ours, finite, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("kernel", ["isotropic", "ard", ConstantKernel(2.0) * Matern(1.5)])
def test_the_gradient_by_the_variance_counts_the_nugget(kernel):
    """∂C/∂log variance is C, nugget included: with M = 1e6 I it cannot hide."""
    prior = kernel_prior(kernel, X)
    C = gram_function(prior, X)(prior.mean)
    ours = gram_gradient_function(prior, X)(prior.mean, C, 1e6 * np.eye(len(X)))
    assert ours[0] == pytest.approx(1e6 * np.trace(C), rel=1e-10)


@pytest.mark.parametrize("kernel", ["isotropic", "ard"])
def test_the_gradient_keeps_its_digits_far_from_the_origin(kernel):
    """Features such as years: differences alone count."""
    prior = kernel_prior(kernel, X)
    C = gram_function(prior, X)(prior.mean)
    M = np.ones((len(X), len(X)))
    here = gram_gradient_function(prior, X)(prior.mean, C, M)
    far = gram_gradient_function(prior, X + 2000.0)(prior.mean, C, M)
    np.testing.assert_allclose(far, here, rtol=1e-8)


@KERNEL
def test_taking_a_gradient_changes_neither_the_matrix_nor_the_kernel(kernel, names):
    prior = kernel_prior(kernel, X)
    C, before = gram_function(prior, X)(prior.mean), prior.kernel.theta.copy()
    M = np.ones((len(X), len(X)))
    gram_gradient_function(prior, X)(prior.mean + 1.0, C, M)
    np.testing.assert_array_equal(C, gram_function(prior, X)(prior.mean))
    np.testing.assert_array_equal(M, 1.0)
    np.testing.assert_array_equal(prior.kernel.theta, before)


class WithoutGradient(RBF):
    """Answers with the matrix alone, whatever it is asked for."""

    def __call__(self, X, Y=None, eval_gradient=False):
        return super().__call__(X, Y)


class ThatRefuses(RBF):
    """Has never heard of gradients."""

    def __call__(self, X, Y=None):
        return super().__call__(X, Y)


@pytest.mark.parametrize("kind", [WithoutGradient, ThatRefuses])
def test_a_kernel_without_a_gradient_has_one_by_differences(kind):
    M = np.random.default_rng(3).normal(size=(9, 9))
    found = []
    for kernel in (RBF([0.5, 1.0, 2.0]), kind([0.5, 1.0, 2.0])):
        prior = kernel_prior(kernel, X)
        C = gram_function(prior, X)(prior.mean)
        found.append(gram_gradient_function(prior, X)(prior.mean, C, M + M.T))
    np.testing.assert_allclose(found[1], found[0], rtol=1e-6, atol=1e-9)
