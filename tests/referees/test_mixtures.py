"""Limits in which the Dirichlet process mixture is one of scikit-learn's or SciPy's."""

from __future__ import annotations

import numpy as np
from scipy import stats
from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis
from sklearn.mixture import BayesianGaussianMixture, GaussianMixture

from atoll.models.dp_mixture import Mixture, Search, ascend, best_start, default_prior, posterior

TO_THE_END = {"max_iter": 2000, "tol": 1e-14}


def three_clusters(n, seed=0):
    rng = np.random.default_rng(seed)
    which = rng.choice(3, size=n, p=[0.5, 0.3, 0.2])
    centres = np.array([[0.0, 0.0], [6.0, 1.0], [-1.0, 7.0]])
    factors = np.array(
        [[[1.0, 0.0], [0.6, 0.8]], [[0.7, 0.0], [0.0, 1.3]], [[1.2, 0.0], [-0.5, 1]]]
    )
    return centres[which] + np.einsum("nij,nj->ni", factors[which], rng.standard_normal((n, 2)))


def fit(X, codes, n_classes, n_components, inference, prior, concentration=1.0, gamma=1.0):
    """Our mixture, on rows as they are: no shift, no scale."""
    shift, scale = np.zeros(2), np.ones(2)
    model = Mixture(
        n_classes, n_components, "full", 1, prior, concentration, np.full(n_classes, gamma),
        inference,
    )  # fmt: skip
    start = best_start(model, X, codes, np.random.default_rng(0), Search(4, 200, 1e-6))
    found = ascend(model, lambda f: f(X, codes), start.state, shift, scale, **TO_THE_END)
    return found.state, posterior(model, found.state, shift, scale)


def test_one_component_by_variational_bayes_is_scikit_learns():
    """One class, one component: the same normal–inverse-Wishart posterior, to rounding."""
    X = three_clusters(60)
    R = np.array([[2.0, 0.3], [0.3, 1.0]])
    prior = default_prior(2, mean=0.4, mean_precision=0.7, degrees=5.0, covariance_scale=R)
    state, _ = fit(X, np.full(len(X), -1), 1, 1, "vb", prior)
    theirs = BayesianGaussianMixture(
        n_components=1, weight_concentration_prior_type="dirichlet_process",
        mean_prior=np.full(2, 0.4),
        mean_precision_prior=0.7, degrees_of_freedom_prior=5.0, covariance_prior=R, reg_covar=0.0,
    ).fit(X)  # fmt: skip
    ours = state.components
    np.testing.assert_allclose(ours.means, theirs.means_, rtol=1e-10)
    np.testing.assert_allclose(ours.mean_precisions, theirs.mean_precision_, rtol=1e-12)
    np.testing.assert_allclose(ours.degrees, theirs.degrees_of_freedom_, rtol=1e-12)
    scale = ours.scales @ ours.scales.transpose(0, 2, 1)
    np.testing.assert_allclose(scale / ours.degrees[:, None, None], theirs.covariances_, rtol=1e-9)


def test_labelled_rows_of_one_component_a_class_predict_by_students_t():
    """P(c | x) ∝ (n_c + γ) t(x): the exact predictive density of every class, from SciPy."""
    X = three_clusters(40, seed=1)
    codes = (X[:, 0] + X[:, 1] > 3.0).astype(int)
    prior = default_prior(2, mean_precision=0.5, degrees=4.0, covariance_scale=1.5)
    _, found = fit(X, codes, 2, 1, "vb", prior, gamma=1.3)
    new_rows = three_clusters(30, seed=2)
    joint = []
    for c in range(2):
        own = X[codes == c]
        n, mean = len(own), own.mean(axis=0)
        precision, degrees = 0.5 + n, 4.0 + n
        centred = own - mean
        scale = 1.5 * np.eye(2) + centred.T @ centred + 0.5 * n / precision * np.outer(mean, mean)
        df = degrees - 1  # degrees − d + 1
        shape = scale * (precision + 1) / (precision * df)
        density = stats.multivariate_t(n * mean / precision, shape, df)
        joint.append(np.log(n + 1.3) + density.logpdf(new_rows))
    joint = np.stack(joint, axis=1)
    exact = joint - np.logaddexp.reduce(joint, axis=1, keepdims=True)
    np.testing.assert_allclose(found.log_proba(new_rows), exact, atol=1e-9)


def weak_prior():
    """Next to nothing is said before the rows: an error of order 1/n is left."""
    return default_prior(2, mean_precision=1e-8, degrees=2.0, covariance_scale=1e-8)


def test_labelled_rows_at_the_maximum_are_quadratic_discriminants():
    """One component a class: covariances over n + n_0 + d + 2 rows instead of n."""
    X = three_clusters(3000, seed=3)
    codes = (X[:, 0] > 3).astype(int) + 2 * (X[:, 1] > 4)
    codes = np.minimum(codes, 2)
    _, found = fit(X, codes, 3, 1, "map", weak_prior())
    theirs = QuadraticDiscriminantAnalysis().fit(X, codes)
    lower = found.spread
    for c in range(3):
        n = np.sum(codes == c)
        covariance = np.cov(X[codes == c].T, bias=True)  # theirs over n or n − 1, by version
        ours = lower[c] @ lower[c].T
        np.testing.assert_allclose(ours * (n + 2 + 2 + 2), covariance * n, rtol=1e-6)
    np.testing.assert_allclose(found.means, theirs.means_, atol=1e-8)
    np.testing.assert_allclose(np.exp(found.log_class_weights), theirs.priors_, atol=1e-6)


def test_rows_without_labels_at_the_maximum_are_scikit_learns_mixture():
    """α = 1 makes every stick uniform: EM's maximum, but for the covariances' n + n_0 + d + 2."""
    n = 2000
    X = three_clusters(n, seed=4)
    _, found = fit(X, np.full(n, -1), 1, 3, "map", weak_prior())
    theirs = GaussianMixture(
        n_components=3, reg_covar=0.0, tol=1e-12, max_iter=2000, n_init=3, random_state=0
    )
    theirs.fit(X)
    order, of_theirs = np.argsort(found.means[:, 0]), np.argsort(theirs.means_[:, 0])
    rows = n * np.exp(found.log_weights[0][order])
    np.testing.assert_allclose(found.means[order], theirs.means_[of_theirs], atol=5e-3)
    np.testing.assert_allclose(rows, n * theirs.weights_[of_theirs], rtol=5e-3)
    lower = found.spread[order]
    ours = lower @ lower.transpose(0, 2, 1) * ((rows + 6.0) / rows)[:, None, None]
    np.testing.assert_allclose(ours, theirs.covariances_[of_theirs], rtol=0.02, atol=0.01)
    assert abs(found.log_density(X).mean() - theirs.score(X)) < 10.0 / n
