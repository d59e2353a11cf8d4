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
