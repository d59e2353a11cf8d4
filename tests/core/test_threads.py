"""One thread of linear algebra while small pieces are worked on, and the old number after."""

from __future__ import annotations

from threading import Event, Thread

import numpy as np
import pytest
from threadpoolctl import ThreadpoolController, threadpool_limits

from atoll import AtollClassifier, GraphGPClassifier
from atoll.core.threads import one_thread


def numbers():
    """Threads of the libraries of linear algebra."""
    found = ThreadpoolController().select(user_api="blas").info()
    return {library["num_threads"] for library in found}


def set_numbers(number):
    """Set the threads of the process, from a thread that is gone then: no other is in charge."""
    setter = Thread(target=threadpool_limits, kwargs={"limits": number, "user_api": "blas"})
    setter.start()
    setter.join()


@pytest.fixture(autouse=True)
def _two_threads():
    before = max(numbers())
    set_numbers(2)
    if numbers() != {2}:
        pytest.skip("the library of linear algebra has one thread")
    yield
    set_numbers(before)


def test_there_is_one_thread_within_and_the_old_number_after():
    with one_thread(), one_thread():
        assert numbers() == {1}
    assert numbers() == {2}
    with pytest.raises(ZeroDivisionError), one_thread():
        1 / 0  # noqa: B018
    assert numbers() == {2}


def test_threads_of_python_that_overlap_give_the_old_number_back():
    is_in, may_leave, seen = Event(), Event(), []

    def first():
        with one_thread():
            is_in.set()
            may_leave.wait(10)

    def second():
        is_in.wait(10)
        with one_thread():
            may_leave.set()
            earlier.join()
            seen.append(numbers())

    earlier, later = Thread(target=first), Thread(target=second)
    earlier.start()
    later.start()
    later.join()
    assert seen == [{1}]
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
