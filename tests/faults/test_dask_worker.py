"""A worker of a Dask cluster is killed while it works for us; the answer is the same."""

from __future__ import annotations

import os
import signal
import threading
import time

import joblib
import numpy as np
import pytest

from atoll.estimators import DPMixtureClassifier, ProbitGPClassifier

pytestmark = [
    pytest.mark.slow,
    # Dask's own, of the worker that is gone.
    pytest.mark.filterwarnings("ignore"),
]

X = np.random.default_rng(0).normal(size=(4000, 3)) + 3.0 * (np.arange(4000)[:, None] % 2)
Y = np.where(np.arange(4000) < 200, np.arange(4000) % 2, -1)


@pytest.fixture
def cluster():
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


def while_a_worker_dies(client, work, after):
    """Do the work; one worker is killed some seconds after it began. Return what it returns."""
    pids = list(client.run(os.getpid).values())
    killed = []

    def kill():
        time.sleep(after)
        os.kill(pids[0], signal.SIGKILL)
        killed.append(pids[0])

    thread = threading.Thread(target=kill)
    thread.start()
    found = work()
    thread.join()
    assert killed
    return found


def slowly(block):
    time.sleep(0.2)
    return block


def test_em_goes_on(cluster):
    import dask.array as da

    rows = da.from_array(X, chunks=(500, 3)).map_blocks(slowly, dtype=float)
    labels = da.from_array(Y, chunks=500)

    def fit():
        return DPMixtureClassifier(
            n_components=3, n_starts=1, n_folds=0, max_iter=5, random_state=0
        ).fit(rows, labels)

    undisturbed = fit().predict_proba(X[:50])
    disturbed = while_a_worker_dies(cluster, fit, 1.0).predict_proba(X[:50])
    np.testing.assert_allclose(disturbed, undisturbed, rtol=0, atol=1e-9)


def test_chains_go_on(cluster, tmp_path):
    model = ProbitGPClassifier(n_chains=3, n_warmup=60, n_samples=200, random_state=0, n_jobs=3)
    undisturbed = model.fit(X[:60], Y[:60]).predict_proba(X[:50])

    def fit():
        with joblib.parallel_config("dask"):
            return model.fit(X[:60], Y[:60])

    disturbed = while_a_worker_dies(cluster, fit, 1.0).predict_proba(X[:50])
    np.testing.assert_array_equal(disturbed, undisturbed)


def test_prediction_block_by_block_goes_on(cluster):
    import dask.array as da

    model = DPMixtureClassifier(n_components=3, n_starts=1, n_folds=0, random_state=0).fit(X, Y)
    rows = da.from_array(X, chunks=(400, 3)).map_blocks(slowly, dtype=float)

    def predict():
        return rows.map_blocks(model.predict_proba, chunks=(400, 2), dtype=float).compute()

    found = while_a_worker_dies(cluster, predict, 0.5)
    np.testing.assert_allclose(found, model.predict_proba(X), rtol=0, atol=1e-12)
