"""A stack of problems is solved as each of them alone, and meets quadrature."""

import numpy as np
import pytest
from scipy.stats import norm

from atoll.inference import ep, stacked_ep
from atoll.likelihoods import multinomial_probit, probit


def problem(rng, n_rows, n_classes, n_problems):
    rows = rng.standard_normal((n_rows, 2))
    gram = np.exp(-0.5 * np.sum((rows[:, None] - rows) ** 2, axis=2)) + 1e-6 * np.eye(n_rows)
    stack = np.geomspace(0.3, 30.0, n_problems)[:, None, None] * gram
    codes = np.arange(n_rows) % n_classes
    return stack, rng.permutation(codes)


def regions(codes, n_classes):
    def repeated(n):
        tiled = np.tile(codes, n)
        if n_classes == 2:
            return probit.regions(tiled)
        return multinomial_probit.regions(tiled, n_classes)

    return repeated, 1 if n_classes == 2 else n_classes


@pytest.mark.parametrize("n_classes", [2, 3, 5])
@pytest.mark.parametrize("n_rows", [10, 60])  # inverted together, and one by one
def test_each_problem_is_solved_as_it_is_alone(n_classes, n_rows):
    stack, codes = problem(np.random.default_rng(n_classes), n_rows, n_classes, 3)
    repeated, n_functions = regions(codes, n_classes)
    found = stacked_ep.propagate(stack, repeated, n_functions, tolerance=1e-8, max_iterations=3000)
    for i, gram in enumerate(stack):
        alone = ep.propagate(
            gram,
            repeated(1),
            ep.no_sites(n_rows, n_functions),
            tolerance=1e-8,
            max_iterations=3000,
        )
        assert found.log_evidence[i] == pytest.approx(alone.log_evidences[-1], abs=1e-6)
        np.testing.assert_allclose(
            found.weights[i].reshape(alone.weights.shape), alone.weights, atol=1e-6
        )
        np.testing.assert_allclose(found.site_inverse[i], alone.site_inverse, atol=1e-6)


def test_where_updates_lead_is_where_they_end_and_nearer(monkeypatch):
    rows, cuts = np.random.default_rng([4, 0]).standard_normal((24, 1)), [0.25, 0.5, 0.75]
    stack = 100.0 * (np.exp(-0.5 * (rows - rows.T) ** 2) + 1e-3 * np.eye(24))[None]
    repeated, n_functions = regions(np.searchsorted(np.quantile(rows, cuts), rows[:, 0]), 4)
    led = stacked_ep.propagate(stack, repeated, n_functions, tolerance=1e-3)
    monkeypatch.setattr(stacked_ep, "NEAR", 0.0)
    alone = stacked_ep.propagate(stack, repeated, n_functions, tolerance=1e-3)
    assert led.n_iterations < 0.6 * alone.n_iterations < 60
    assert led.log_evidence[0] == pytest.approx(alone.log_evidence[0], abs=1e-3)


def test_evidence_of_two_rows_meets_quadrature():
    gram = np.array([[[2.0, 1.2], [1.2, 1.5]]])
    codes = np.array([1, 0])
    found = stacked_ep.propagate(gram, regions(codes, 2)[0], 1, tolerance=1e-10)
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    lower = np.linalg.cholesky(gram[0])
    first, second = np.meshgrid(nodes, nodes, indexing="ij")
    f = np.stack([first.ravel(), second.ravel()], axis=1) @ lower.T
    mass = np.outer(weights, weights).ravel() / (2 * np.pi)
    exact = np.log(mass @ (norm.cdf(f[:, 0]) * norm.cdf(-f[:, 1])))
    assert found.log_evidence[0] == pytest.approx(exact, abs=2e-3)  # the error of EP itself


def test_problems_that_are_done_wait_for_nobody():
    stack, codes = problem(np.random.default_rng(5), 8, 2, 4)
    repeated, _ = regions(codes, 2)
    asked = []

    def counted(n):
        asked.append(n)
        return repeated(n)

    found = stacked_ep.propagate(stack, counted, 1, tolerance=1e-6)
    assert asked[0] == 4
    assert asked[-1] < 4
    assert (found.disagreement < 1e-6).all()


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_whole_weight_is_the_label_repeated(n_classes):
    stack, codes = problem(np.random.default_rng(n_classes), 6, n_classes, 2)
    weights = np.array([2.0, 1.0, 3.0, 1.0, 5.0, 1.0])
    again = np.repeat(np.arange(6), weights.astype(int))
    exactly = {"tolerance": 1e-9, "max_iterations": 3000}
    repeated, n_functions = regions(codes, n_classes)
    one = stacked_ep.propagate(stack, repeated, n_functions, label_weights=weights, **exactly)
    repeated, _ = regions(codes[again], n_classes)
    many = stacked_ep.propagate(stack[:, again][:, :, again], repeated, n_functions, **exactly)
    np.testing.assert_allclose(one.log_evidence, many.log_evidence, atol=1e-7)
    for i, gram in enumerate(stack):
        mean = gram[:, again] @ many.weights[i]
        np.testing.assert_allclose(gram @ one.weights[i], mean, atol=1e-6)
        spent = gram[:, again] @ many.site_inverse[i] @ gram[again]
        np.testing.assert_allclose(gram @ one.site_inverse[i] @ gram, spent, atol=1e-6)


@pytest.mark.parametrize(("weight", "tolerance"), [(0.25, 0.12), (0.5, 0.06), (1.0, 1e-6)])
def test_the_posterior_of_a_doubted_label_is_near_quadrature(weight, tolerance):
    variance = 2.0
    nodes, masses = np.polynomial.hermite_e.hermegauss(100)
    f = np.sqrt(variance) * nodes
    density = masses * norm.cdf(f) ** weight
    exact = density @ f / density.sum()
    found = stacked_ep.propagate(
        np.array([[[variance]]]),
        regions(np.array([1]), 2)[0],
        1,
        label_weights=np.array([weight]),
        tolerance=1e-9,
    )
    assert variance * found.weights[0, 0, 0] == pytest.approx(exact, rel=tolerance)


@pytest.mark.parametrize("weight", [1.0, 0.5])
def test_what_is_held_out_is_found_without_the_label(weight):
    stack, codes = problem(np.random.default_rng(4), 7, 2, 2)
    weights = np.ones(7)
    weights[2] = weight
    exactly = {"tolerance": 1e-10, "max_iterations": 3000}
    found = stacked_ep.propagate(stack, regions(codes, 2)[0], 1, label_weights=weights, **exactly)
    left = np.delete(np.arange(7), 2)
    less = stacked_ep.propagate(
        stack[:, left][:, :, left], regions(codes[left], 2)[0], 1, **exactly
    )
    for i, gram in enumerate(stack):
        mean = gram[2, left] @ less.weights[i]
        # The sites of the others know of the label that is left out: EP's own error.
        assert found.held_out_mean[i, 2] == pytest.approx(mean, abs=0.1 * np.sqrt(gram[2, 2]))


@pytest.mark.parametrize("outside", [False, True])
def test_problems_that_cannot_matter_are_left_early_and_others_are_not(outside):
    stack, codes = problem(np.random.default_rng(2), 12, 3, 5)
    repeated, n_functions = regions(codes, 3)
    whole = stacked_ep.propagate(stack, repeated, n_functions)
    priors = np.array([0.0, -200.0, 0.0, -200.0, -1.0])
    others = 200.0 if outside else -np.inf
    found = stacked_ep.propagate(stack, repeated, n_functions, log_priors=priors, others=others)
    left = np.full(5, True) if outside else priors < -100.0
    np.testing.assert_array_equal(found.log_evidence[~left], whole.log_evidence[~left])
    assert (found.disagreement[left] < stacked_ep.ROUGHLY).all()
    np.testing.assert_allclose(found.log_evidence, whole.log_evidence, atol=1.0)
    # The amplitudes at the ends: the moments of the last take many updates to agree.
    assert found.disagreement[3] > whole.disagreement[3]
