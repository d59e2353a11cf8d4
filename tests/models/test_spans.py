from __future__ import annotations

import numpy as np
from scipy import sparse

from atoll.models.average import spans, views


def test_directions_of_sparse_rows_are_those_of_dense_ones():
    rng = np.random.default_rng(0)
    X = np.where(rng.random((40, 90)) < 0.3, rng.exponential(size=(40, 90)), 0.0)
    X[:20, :10] += 2.0
    dense, found = views.principal(X), spans.principal(sparse.csr_array(X))
    np.testing.assert_allclose(found.variances, dense.variances, rtol=1e-9)
    new = np.where(rng.random((5, 90)) < 0.3, 1.0, 0.0)
    for make in (views.line, views.whitened):
        n = min(found.n_signal, dense.n_signal) if make is views.whitened else 39
        whole = make(dense._replace(n_signal=n), 0.5).features(new)
        thin = make(found._replace(n_signal=n), 0.5).features(sparse.csr_array(new))
        np.testing.assert_allclose(np.abs(thin), np.abs(whole), atol=1e-7)
        np.testing.assert_allclose(thin @ thin.T, whole @ whole.T, atol=1e-7)


def test_permuted_columns_keep_their_numbers_and_lose_their_order():
    rng = np.random.default_rng(1)
    X = np.where(rng.random((60, 30)) < np.linspace(0.01, 0.9, 30), rng.random((60, 30)), 0.0)
    mixed = spans.permuted_columns(rng, sparse.csr_array(X)).toarray()
    np.testing.assert_array_equal(np.sort(mixed, axis=0), np.sort(X, axis=0))
    assert np.mean(np.all(mixed == X, axis=1)) < 0.5


def test_rows_without_structure_have_little_signal_and_two_groups_have_some():
    rng = np.random.default_rng(2)
    noise = sparse.random_array((200, 500), density=0.05, rng=rng, format="csr")
    # Each direction of noise exceeds those of two permutations one time in three.
    assert spans.principal(noise).n_signal < 10
    two = noise.toarray()
    two[:100, :20] += 1.0
    found = spans.principal(sparse.csr_array(two))
    place = found.linear(np.ones(1), 1.0).project(sparse.csr_array(two))[:, 0]
    assert abs(place[:100].mean() - place[100:].mean()) > 10 * place[:100].std()


def test_many_rows_are_stood_for_by_a_part(monkeypatch):
    monkeypatch.setattr(spans, "MOST_ROWS", 50)
    X = sparse.random_array((120, 80), density=0.2, rng=np.random.default_rng(3), format="csr")
    assert spans.principal(X).rows.shape == (50, 80)
