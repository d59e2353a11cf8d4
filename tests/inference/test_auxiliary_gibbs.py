from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
from scipy import stats
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from atoll.core.linalg import jittered_cholesky
from atoll.core.regions import Intervals, PreparedRegions, fixed_regions, log_region_probability
from atoll.diagnostics import geweke_test
from atoll.inference import auxiliary_gibbs as gibbs
from atoll.kernels.hyperparameters import gram_function, kernel_prior
from atoll.likelihoods import multinomial_probit, null_category, ordinal, probit
from atoll.models import probit_gp

X = np.array([[0.0, 0.0], [0.7, 0.2], [2.0, -1.0]])
NOTHING = np.zeros(0)
PRIORS = {
    "isotropic": kernel_prior("isotropic", X),
    "no free variance": kernel_prior(RBF(1.0) + WhiteKernel(0.2, noise_level_bounds="fixed"), X),
    "all fixed": kernel_prior(ConstantKernel(3.0, "fixed") * RBF(1.0, "fixed"), X),
}


# Geweke's joint test, of every sweep --------------------------------------------------------------


class Case(NamedTuple):
    """A model of the family, from which parameters and data can be drawn exactly.

    family : codes, which are seen -> RegionFamily
    classify : z, φ -> codes, −1 for a row in the null region
    rates : φ -> (K,) chance that a class's label is missing
    """

    n_classes: int
    n_functions: int
    family: object
    classify: object
    rates: object


def interval_of(cut_points, width):
    def classify(z, phi):
        b = cut_points(phi)
        rank = np.searchsorted(b, z)
        near = np.abs(z[:, None] - b).min(axis=1) < width(phi) / 2
        return np.where(near, -1, rank)

    return classify


def winner_of(margin):
    def classify(z, phi):
        second, first = np.sort(z, axis=1)[:, -2:].T
        return np.where(first > second + margin(phi), np.argmax(z, axis=1), -1)

    return classify


def zero(phi):
    return 0.0


def never_missing(n_classes):
    return lambda phi: np.zeros(n_classes)


def sampled_rates(phi):
    return 1 / (1 + np.exp(-phi[1:]))


def case_of(name):
    if name == "probit":
        return Case(
            2, 1, lambda codes, seen: fixed_regions(probit.regions(codes)),
            interval_of(lambda phi: np.zeros(1), zero), never_missing(2),
        )  # fmt: skip
    if name == "multinomial probit":
        return Case(
            3, 3, lambda codes, seen: fixed_regions(multinomial_probit.regions(codes, 3)),
            winner_of(zero), never_missing(3),
        )  # fmt: skip
    if name == "ordinal":
        return Case(
            3, 1, lambda codes, seen: ordinal.family(codes, seen, 3, 0.0, 2.0),
            interval_of(ordinal.cut_points_at, zero), never_missing(3),
        )  # fmt: skip
    if name == "ordinal with a null width":
        return Case(
            4, 1, lambda codes, seen: ordinal.family(codes, seen, 4, 0.6, 2.0),
            interval_of(lambda phi: ordinal.cut_points_at(phi, 0.6), lambda phi: 0.6),
            lambda phi: np.full(4, 0.6),
        )  # fmt: skip
    if name == "null category":
        return Case(
            2, 1, lambda codes, seen: null_category.family(codes, seen, 2, 1.0, (0.6, 0.3)),
            interval_of(lambda phi: np.zeros(1), lambda phi: 1.0), lambda phi: np.array([0.6, 0.3]),
        )  # fmt: skip
    if name == "null category, all sampled":
        return Case(
            2, 1,
            lambda codes, seen: null_category.family(
                codes, seen, 2, None, sample_missing_rates=True
            ),
            interval_of(lambda phi: np.zeros(1), lambda phi: np.exp(phi[0])), sampled_rates,
        )  # fmt: skip
    if name == "three classes with a null width, all seen":
        return Case(
            3, 3, lambda codes, seen: null_category.family(codes, seen, 3, None),
            winner_of(lambda phi: np.exp(phi[0]) / np.sqrt(2)), never_missing(3),
        )  # fmt: skip
    if name == "null category, three classes":
        return Case(
            3, 3, lambda codes, seen: null_category.family(codes, seen, 3, 0.7, (0.6, 0.3, 0.5)),
            winner_of(lambda phi: 0.7 / np.sqrt(2)), lambda phi: np.array([0.6, 0.3, 0.5]),
        )  # fmt: skip
    if name == "null category, four classes":
        rates = np.array([0.6, 0.3, 0.5, 0.8])
        return Case(
            4, 4, lambda codes, seen: null_category.family(codes, seen, 4, 0.7, rates),
            winner_of(lambda phi: 0.7 / np.sqrt(2)), lambda phi: rates,
        )  # fmt: skip
    return Case(
        3, 3,
        lambda codes, seen: null_category.family(codes, seen, 3, None, sample_missing_rates=True),
        winner_of(lambda phi: np.exp(phi[0]) / np.sqrt(2)), sampled_rates,
    )  # fmt: skip


IN_THE_FAST_SUITE = [
    ("probit", "isotropic"), ("probit", "all fixed"), ("multinomial probit", "isotropic"),
    ("ordinal", "isotropic"),
    ("null category", "isotropic"), ("null category, three classes", "isotropic"),
]  # fmt: skip
CASES = [
    *IN_THE_FAST_SUITE, ("null category, all sampled", "isotropic"),
    ("ordinal with a null width", "isotropic"),
    ("probit", "no free variance"), ("multinomial probit", "all fixed"),
    ("multinomial probit", "no free variance"),
    ("three classes with a null width, all seen", "isotropic"), ("ordinal", "no free variance"),
    ("null category", "no free variance"), ("null category", "all fixed"),
    ("null category, all sampled", "all fixed"),
    ("null category, three classes, all sampled", "isotropic"),
    ("null category, four classes", "isotropic"),
]  # fmt: skip


def run_geweke(case, prior, family_of=None, seed=1, n_chains=120, n_sweeps=8):
    family_of = family_of or case.family
    gram = gram_function(prior, X)
    shape = (len(X),) if case.n_functions == 1 else (len(X), case.n_functions)
    everything = np.ones(len(X), dtype=bool)
    of_phi = case.family(np.zeros(len(X), dtype=np.intp), everything)

    def sample_prior(rng):
        while True:  # given that no row is in the null region
            theta = prior.mean + prior.sd * rng.standard_normal(len(prior.mean))
            phi = of_phi.mean + of_phi.sd * rng.standard_normal(len(of_phi.mean))
            f = jittered_cholesky(gram(theta)).lower @ rng.standard_normal(shape)
            z = f + rng.standard_normal(shape)
            if np.all(case.classify(z, phi) >= 0):
                return z, theta, phi, f

    def sample_data(rng, parameters):
        z, _, phi, _ = parameters
        codes = np.maximum(case.classify(z, phi), 0)  # a right sweep leaves no row in between
        return codes, rng.random(len(X)) >= case.rates(phi)[codes]

    def sweep(rng, parameters, data):
        z, theta, phi, _ = parameters
        state = gibbs.init(z, theta, phi, gram)
        state = gibbs.sweep(rng, state, family_of(*data), gram, prior)
        return state.auxiliary, state.log_parameters, state.region_parameters, state.latent

    def statistics(parameters, data):
        z, theta, phi, f = parameters
        codes, seen = data
        y = np.where(seen, codes + 1.0, 0.0)  # what is not seen is no part of the data
        first, of_f = (z, f) if z.ndim == 1 else (z[:, 0], f[:, 0])
        named = {
            "z0": first[0], "z0²": first[0] ** 2, "|z1|": abs(first[1]),
            "z0 z1": first[0] * first[1], "z2⁴": first[2] ** 4,
            "z0 y0": first[0] * y[0], "z1 y0": first[1] * y[0],
            "z0² seen": first[0] ** 2 * seen[0], "seen": seen.sum(),
            "f0": of_f[0], "f0²": of_f[0] ** 2, "f0 z1": of_f[0] * first[1],
            "f0 y0": of_f[0] * y[0],
        }  # fmt: skip
        if z.ndim == 2:
            named |= {"contrast": z[0, 1] - z[0, 2], "max": z[0].max(), "mean": z[0].mean()}
            named |= {"mean²": z[0].mean() ** 2, "contrast y": (z[0, 1] - z[0, 0]) * y[0]}
        for j, value in enumerate(theta):
            named |= {f"θ{j}": value, f"θ{j}²": value**2, f"θ{j} |z0|": value * abs(first[0])}
        for j, value in enumerate(phi):
            named |= {f"φ{j}": value, f"φ{j}²": value**2, f"φ{j} z0": value * first[0]}
            named[f"φ{j} y0"] = value * y[0]
        return named

    return geweke_test(
        np.random.default_rng(seed),
        sample_prior=sample_prior,
        sample_data=sample_data,
        sweep=sweep,
        statistics=statistics,
        n_chains=n_chains,
        n_steps=n_sweeps if len(of_phi.mean) < 3 else n_sweeps // 2,
        n_marginal=2000,
    )


@pytest.mark.parametrize(("name", "prior"), IN_THE_FAST_SUITE)
def test_geweke_joint_test_of_the_sweep(name, prior):
    result = run_geweke(case_of(name), PRIORS[prior], n_chains=70, n_sweeps=6)
    assert result.smallest_adjusted_p_value > 1e-6, str(result)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "prior"), CASES)
def test_geweke_joint_test_of_the_sweep_with_more_chains(name, prior):
    result = run_geweke(case_of(name), PRIORS[prior], seed=2)
    assert result.smallest_adjusted_p_value > 1e-6, str(result)


@pytest.mark.slow
def test_geweke_catches_a_null_region_that_is_forgotten():
    """The test of the tests: a sweep under the wrong null width must fail."""
    result = run_geweke(
        case_of("null category"), PRIORS["isotropic"],
        lambda codes, seen: null_category.family(codes, seen, 2, 0.0, (0.6, 0.3)), seed=3,
    )  # fmt: skip
    assert result.smallest_adjusted_p_value < 1e-6


@pytest.mark.slow
def test_geweke_catches_cut_points_whose_volume_factor_is_forgotten():
    def without_volume(codes, seen):
        family = ordinal.family(codes, seen, 3, 0.0, 2.0)
        moves = [lambda phi, c, move=move: (move(phi, c)[0], 0.0) for move in family.moves]
        return family._replace(moves=tuple(moves))

    result = run_geweke(case_of("ordinal"), PRIORS["all fixed"], without_volume, seed=4)
    assert result.smallest_adjusted_p_value < 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("n_classes", [2, 3])
def test_geweke_joint_test_of_the_lectures_own_sweep(n_classes):
    prior = PRIORS["no free variance"]
    gram = gram_function(prior, X)

    def sweep(rng, parameters, codes):
        f, theta = parameters
        regions = probit_gp.family(codes, n_classes).at(NOTHING).regions
        return gibbs.slide_sweep(rng, f, theta, regions, gram, prior)

    def sample_data(rng, parameters):
        f = parameters[0]
        return probit.sample(rng, f) if n_classes == 2 else multinomial_probit.sample(rng, f)

    def statistics(parameters, codes):
        f, theta = np.reshape(parameters[0], (len(X), -1))[:, 0], parameters[1]
        return {
            "f0": f[0], "f0²": f[0] ** 2, "f0 f1": f[0] * f[1], "f0 y0": f[0] * codes[0],
            "θ": theta[0], "θ²": theta[0] ** 2, "θ |f2|": theta[0] * abs(f[2]),
        }  # fmt: skip

    result = geweke_test(
        np.random.default_rng(4),
        lambda rng: probit_gp.sample_prior(rng, X, prior, n_classes)[1::-1],
        sample_data=sample_data,
        sweep=sweep,
        statistics=statistics,
    )
    assert result.smallest_adjusted_p_value > 1e-6, str(result)


# Parts of a sweep ---------------------------------------------------------------------------------


def test_z_given_the_rest_is_the_truncated_conditional_normal():
    """Independent single sweeps of one row, against the closed form of its conditional."""
    rng = np.random.default_rng(5)
    covariance = np.array([[5.0, 3.0], [3.0, 4.0]])
    z = np.array([0.3, 2.0])
    line = Intervals(np.array([[0.0], [-np.inf]]), np.array([[np.inf], [np.inf]]), np.zeros((2, 1)))
    prepared, Q = PreparedRegions(line), np.linalg.inv(covariance)
    draws = np.array([gibbs.sample_auxiliary(rng, z, Q, prepared)[0] for _ in range(5000)])
    mean, sd = 3.0 / 4.0 * 2.0, np.sqrt(5.0 - 9.0 / 4.0)
    exact = stats.truncnorm((0.0 - mean) / sd, np.inf, loc=mean, scale=sd)
    assert stats.kstest(draws, exact.cdf).pvalue > 1e-6


@pytest.mark.parametrize("far", [0.0, 8.0, 200.0])
def test_a_union_of_intervals_is_chosen_by_mass(far):
    """One row, prior variance so small that z ~ N(0, 1): three intervals with weights."""
    rng = np.random.default_rng(6)
    lower, upper = np.array([[far, far + 1, far + 3]]), np.array([[far + 0.5, far + 2, np.inf]])
    regions = Intervals(lower, upper, np.log([[1.0, 3.0, 2.0]]))
    prepared, precision = PreparedRegions(regions), np.array([[1.0 / (1.0 + 1e-12)]])
    z = np.array(
        [gibbs.sample_auxiliary(rng, np.zeros(1), precision, prepared)[0] for _ in range(4000)]
    )
    inside = (z[:, None] >= lower) & (z[:, None] <= upper)
    assert inside.any(axis=1).all()
    log_masses = regions.log_masses(np.zeros(1), 1.0)[0]
    exact = np.exp(log_masses - log_region_probability(regions, np.zeros(1), 1.0))
    counts = inside.sum(axis=0)
    assert np.all(np.abs(counts - 4000 * exact) < 6 * np.sqrt(4000 * exact * (1 - exact)) + 1)


def test_z_of_three_classes_one_by_one_stays_with_its_exact_distribution():
    """Exact draws by rejection, of rows that hold each other, before and after some updates."""
    rng, n, n_rows = np.random.default_rng(12), 1500, 4
    V = 30.0 * np.exp(-0.02 * np.subtract.outer(range(n_rows), range(n_rows)) ** 2) + np.eye(n_rows)
    seen = np.arange(n_rows) == 0  # the first row is of class 0, the others of any
    family = null_category.family(np.zeros(n_rows, np.intp), seen, 3, 1.0, (0.5, 0.5, 0.5))
    regions = family.at(family.mean).regions
    lower, Q = np.linalg.cholesky(V), np.linalg.inv(V)
    exact = []
    while len(exact) < n:
        z = lower @ rng.standard_normal((n_rows, 3))
        second, first = np.sort(z, axis=1)[:, -2:].T
        if np.argmax(z[0]) == 0 and np.all(first > second + regions.margin):
            exact.append(z)

    def statistics(z):
        contrasts = z - z.mean(axis=1, keepdims=True)
        quadratic = np.einsum("ik,ij,jk->", contrasts, Q, contrasts)
        return [quadratic, contrasts[1, 0] * contrasts[2, 0], z[1, 0], (z[3].argmax() == 0)]

    def updated(z):
        for _ in range(4):
            z = gibbs.sample_auxiliary(rng, z, Q, PreparedRegions(regions))
        return z

    before = np.array([statistics(z) for z in exact])
    after = np.array([statistics(updated(z)) for z in exact])
    difference = after - before
    assert np.all(np.abs(difference.mean(axis=0)) < 6 * difference.std(axis=0) / np.sqrt(n))


def test_latent_draws_given_z_have_the_textbook_mean_and_covariance():
    """f | z ~ N(Σ_f z, Σ_f), Σ_f = C − C (I + C)^{-1} C; the slide's Σ_f^{-1} z is a slip."""
    rng = np.random.default_rng(7)
    prior = PRIORS["all fixed"]
    gram = gram_function(prior, X)
    z = np.array([1.0, -0.5, 2.0])
    state = gibbs.init(z, NOTHING, NOTHING, gram)
    C = gram(NOTHING)
    covariance = C - C @ np.linalg.solve(np.eye(3) + C, C)
    n = 6000
    draws = np.array([gibbs.sample_latent(rng, state, gram) for _ in range(n)])
    white = np.linalg.solve(np.linalg.cholesky(covariance), (draws - covariance @ z).T)
    assert np.all(np.abs(white.mean(axis=1)) < 6 / np.sqrt(n))
    assert np.all(np.abs(white @ white.T / n - np.eye(3)) < 6 * np.sqrt(2 / n))


@pytest.mark.parametrize("variance", [1.0, 1e4, 1e8])
def test_latent_draws_of_duplicated_rows_are_right_at_any_amplitude(variance):
    """The factor of C and the inverse of V = C + I must belong to one kernel, jitter and all."""
    rng = np.random.default_rng(9)
    twins = np.repeat(X[:2], 3, axis=0)
    prior = kernel_prior(ConstantKernel(variance, "fixed") * RBF(1.0, "fixed"), twins)
    gram = gram_function(prior, twins)
    z = np.array([1.0, 2.0, 0.5, -1.0, -2.0, -1.5])
    state = gibbs.init(z, NOTHING, NOTHING, gram)
    C = gram(NOTHING)
    mean = z - np.linalg.solve(C + np.eye(6), z)
    covariance = np.eye(6) - np.linalg.inv(C + np.eye(6))
    n = 4000
    draws = np.array([gibbs.sample_latent(rng, state, gram) for _ in range(n)])
    sd = np.sqrt(np.diag(covariance))
    assert np.all(np.abs(draws.mean(axis=0) - mean) < 6 * sd / np.sqrt(n) + 1e-6)
    assert np.all(np.abs(draws.var(axis=0) / sd**2 - 1) < 6 * np.sqrt(2 / n))


def test_the_state_holds_the_factor_of_v():
    gram = gram_function(PRIORS["isotropic"], X)
    theta = np.array([1.0, 0.3])
    state = gibbs.init(np.zeros(3), theta, NOTHING, gram)
    V = gram(theta) + np.eye(3)
    np.testing.assert_allclose(state.noisy_factor @ state.noisy_factor.T, V, rtol=1e-12)
    assert gibbs.gaussian_log_marginal(jittered_cholesky(V).lower, np.ones(3)) == pytest.approx(
        stats.multivariate_normal(np.zeros(3), V).logpdf(np.ones(3)) + 1.5 * np.log(2 * np.pi)
    )


def test_leaving_one_row_out_is_conditioning_on_the_others():
    gram = gram_function(PRIORS["all fixed"], X)
    z = np.array([[1.0, 0.0], [-0.5, 2.0], [2.0, 1.0]])
    mean, sd = gibbs.leave_one_out(gibbs.init(z, NOTHING, NOTHING, gram))
    V = gram(NOTHING) + np.eye(3)
    weights = np.linalg.solve(V[1:, 1:], V[1:, 0])
    np.testing.assert_allclose(mean[0], weights @ z[1:])
    assert sd[0] ** 2 == pytest.approx(V[0, 0] - weights @ V[1:, 0])


# Single steps, whose parts must agree -------------------------------------------------------------


class Fixed(NamedTuple):
    """A stream whose normal numbers are all the same."""

    value: float

    def standard_normal(self):
        return self.value


@pytest.mark.parametrize("sd", [0.3, 2.0])
def test_the_distance_of_a_shift_is_drawn_from_its_normal_conditional(sd):
    gram = gram_function(PRIORS["all fixed"], X)
    codes = np.array([0, 1, 2])
    family = ordinal.family(codes, np.ones(3, bool), 3, 0.0, sd)
    phi, z = family.mean + np.array([0.7, 0.1]), np.array([-1.0, 0.4, 3.0])
    V = gram(NOTHING) + np.eye(3)
    state = gibbs.init(z, NOTHING, phi, gram)

    def log_density(c):
        of_phi = stats.norm.logpdf(phi[0] + c, family.mean[0], family.sd[0])
        return stats.multivariate_normal.logpdf(z + c, np.zeros(3), V) + of_phi

    curvature = -(log_density(1.0) - 2.0 * log_density(0.0) + log_density(-1.0))
    centre = 0.5 * (log_density(1.0) - log_density(-1.0)) / curvature
    for value in (0.0, 1.0, -2.0):
        moved = gibbs.shift(Fixed(value), state, family, 0)
        c = centre + value / np.sqrt(curvature)
        np.testing.assert_allclose(moved.auxiliary, z + c, rtol=1e-9)
        np.testing.assert_allclose(moved.region_parameters, phi + np.array([c, 0.0]), rtol=1e-9)


@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize(
    "name", ["probit", "multinomial probit", "ordinal", "three classes with a null width, all seen"]
)
def test_steps_without_z_return_the_function_of_the_parameters_they_return(name, prior):
    """f = L(θ) ν, whichever of f, ν and the variance in θ a step has moved."""
    case, prior, rng = case_of(name), PRIORS[prior], np.random.default_rng(12)
    gram, v = gram_function(prior, X), prior.variance_index
    codes = np.arange(3) % case.n_classes
    family = case.family(codes, np.ones(3, bool))
    theta = prior.mean + 0.1
    lower = jittered_cholesky(gram(theta)).lower
    shape = (3,) if case.n_functions == 1 else (3, case.n_functions)
    state = gibbs.init(np.zeros(shape), theta, family.mean, gram)
    seen = []
    for _ in range(5):
        nu, f, new, phi, _ = gibbs._step_function_and_scales(
            rng, state, rng.standard_normal(shape), lower, family, prior, False
        )
        longer = 1.0 if v is None else np.exp(0.5 * (new[v] - theta[v]))
        np.testing.assert_allclose(f, longer * (lower @ nu), rtol=1e-9, atol=1e-12)
        seen.append((phi, new))
    if len(family.mean) > 0:  # what can move does
        assert np.all(np.ptp([phi for phi, _ in seen], axis=0) > 0)
    if v is not None:
        assert np.ptp([new[v] for _, new in seen]) > 0


@pytest.mark.parametrize("prior", ["isotropic", "no free variance"])
def test_a_hamiltonian_step_is_given_the_density_and_its_gradient(prior, monkeypatch):
    prior, rng = PRIORS[prior], np.random.default_rng(13)
    gram, v = gram_function(prior, X), prior.variance_index
    regions = multinomial_probit.regions(np.array([0, 1, 2]), 3)
    theta = prior.mean + 0.3
    lower = jittered_cholesky(gram(theta)).lower
    nu = rng.standard_normal((3, 3))
    given = []

    def keep(rng, position, log_density, tuned, n_leapfrog, adapt):
        given.append((position, log_density))
        return position, None, tuned

    monkeypatch.setattr(gibbs.hmc, "tuned_step", keep)
    gibbs._hamiltonian_step(rng, nu, theta, lower, regions, prior, None, False)
    ((start, log_density),) = given
    np.testing.assert_array_equal(start[:-1], nu.ravel())
    if v is not None:
        assert prior.mean[v] + prior.sd[v] * start[-1] == pytest.approx(theta[v])

    def joint(position):
        """The density of the prior and of the labels, written anew."""
        moved = 0.0 if v is None else prior.mean[v] + prior.sd[v] * position[-1] - theta[v]
        f = np.exp(0.5 * moved) * (lower @ position[:-1].reshape(3, 3))
        labels = log_region_probability(regions, f, 1.0).sum()
        return labels + stats.norm.logpdf(position).sum()

    position = start + 0.2 * rng.standard_normal(10)
    value, slope = log_density(position)
    assert value - log_density(start)[0] == pytest.approx(joint(position) - joint(start), abs=1e-6)
    steps = 1e-5 * np.eye(10)
    finite = [(log_density(position + e)[0] - log_density(position - e)[0]) / 2e-5 for e in steps]
    np.testing.assert_allclose(slope, finite, rtol=1e-4, atol=1e-5)
    far = np.append(nu.ravel(), 2.0 * gibbs.FARTHEST)
    assert log_density(far)[0] == -np.inf


def test_the_prior_of_region_parameters_is_normal_about_its_mean():
    family = null_category.family(np.array([0, 1]), np.ones(2, bool), 2, None)
    family = family._replace(mean=np.array([1.3]))
    phi = family.mean + np.array([0.4])
    ours = gibbs._log_prior(phi, family) - gibbs._log_prior(family.mean, family)
    normal = stats.norm(family.mean, family.sd)
    assert ours == pytest.approx(float(np.sum(normal.logpdf(phi) - normal.logpdf(family.mean))))


def test_where_no_log_parameters_are_accepted_the_state_stays(monkeypatch):
    prior = PRIORS["isotropic"]
    gram = gram_function(prior, X)
    state = gibbs.init(np.ones(3), prior.mean, NOTHING, gram)

    def refuse(rng, position, log_likelihood, *_):
        return position, log_likelihood, gibbs.elliptical_slice.EllipticalSliceInfo(40)

    monkeypatch.setattr(gibbs.elliptical_slice, "step", refuse)
    rng = np.random.default_rng(0)
    assert gibbs.step_given_auxiliary(rng, state, 1, gram, prior) is state
    adapted = gibbs.step_given_auxiliary(rng, state, 1, gram, prior, adapt=True)
    assert adapted.arc_given_z.log_width < state.arc_given_z.log_width
    assert adapted.log_parameters is state.log_parameters


def test_the_lectures_sweep_moves_both_the_function_and_the_log_parameters():
    prior, rng = PRIORS["isotropic"], np.random.default_rng(3)
    regions = probit.regions(np.array([0, 1, 1]))
    start = np.zeros(3), prior.mean
    f, theta = gibbs.slide_sweep(rng, *start, regions, gram_function(prior, X), prior)
    assert np.all(f != 0.0)
    assert np.all(theta != prior.mean)
    fixed = PRIORS["all fixed"]
    f, theta = gibbs.slide_sweep(rng, np.zeros(3), NOTHING, regions, gram_function(fixed, X), fixed)
    assert np.all(f != 0.0)
    assert len(theta) == 0
