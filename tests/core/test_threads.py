"""One thread of linear algebra while small pieces are worked on, and the old number after."""

from __future__ import annotations

import numpy as np
import pytest
from threadpoolctl import ThreadpoolController, threadpool_limits

from atoll import AtollClassifier, GraphGPClassifier
from atoll.core.threads import one_thread


def numbers():
    """Threads of the libraries of linear algebra."""
    found = ThreadpoolController().select(user_api="blas").info()
    return {library["num_threads"] for library in found}


@pytest.fixture(autouse=True)
def _two_threads():
    with threadpool_limits(limits=2, user_api="blas"):
        if numbers() != {2}:
            pytest.skip("the library of linear algebra has one thread")
        yield


def test_there_is_one_thread_within_and_the_old_number_after():
    with one_thread(), one_thread():
        assert numbers() == {1}
    assert numbers() == {2}
    with pytest.raises(ZeroDivisionError), one_thread():
        1 / 0  # noqa: B018
    assert numbers() == {2}


@pytest.mark.parametrize("kind", [AtollClassifier, GraphGPClassifier])
def test_the_graph_classifiers_fit_and_predict_in_one_thread(kind, monkeypatch):
    seen = []
    X = np.random.default_rng(0).standard_normal((30, 2))
    y = np.full(30, -1)
    y[:4] = [0, 1, 0, 1]
    fit = kind._fit

    def watched(self, X, labels):
        seen.append(numbers())
        return fit(self, X, labels)

    monkeypatch.setattr(kind, "_fit", watched)
    model = kind(unlabelled=-1, random_state=0).fit(X, y)
    posterior = model.posterior_

    class Watched:
        def log_proba(self, rows):
            seen.append(numbers())
            return posterior.log_proba(rows)

        def draws(self, rows, n, rng):
            seen.append(numbers())
            return posterior.draws(rows, n, rng)

    model.posterior_ = Watched()
    model.predict_proba(X)
    model.predict(X)
    model.sample_proba(X, 3)
    assert seen == [{1}] * 4
    assert numbers() == {2}
