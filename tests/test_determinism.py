"""The same seed gives the same bits: for any n_jobs, with or without a bar, in any process."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import warnings
from pathlib import Path

import joblib
import numpy as np
import pytest

import atoll
from test_battery import CASES, predictions

ROOT = Path(__file__).parents[1]
# One of each kind of inference; the others are slow tests.
QUICK = ("probit-mcmc-2", "softmax-2", "ssgp-mcmc-3", "graph-cone-2")


def fitted(name, **parameters):
    """A case of the battery, with parameters of its own where the estimator has them."""
    class_name, given, data = CASES[name]
    X, y = data()
    model = getattr(atoll, class_name)(**given)
    known = model.get_params()
    asked = {"random_state": 7} | parameters
    model.set_params(**{key: value for key, value in asked.items() if key in known})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return predictions(model.fit(X) if class_name.endswith("Density") else model.fit(X, y), X)


def digest(found):
    """One word for all bits of some predictions."""
    whole = hashlib.sha256()
    for what in sorted(found):
        whole.update(what.encode())
        whole.update(np.ascontiguousarray(found[what]).tobytes())
    return whole.hexdigest()


def marked(names, quick):
    return [pytest.param(name, marks=() if name in quick else pytest.mark.slow) for name in names]


@pytest.mark.parametrize("name", marked(CASES, QUICK))
def test_two_jobs_and_a_bar_change_no_bit(name, capsys):
    alone = digest(fitted(name))
    with joblib.parallel_config(backend="threading"):  # processes are a slow test
        assert digest(fitted(name, n_jobs=2, verbose=True)) == alone


def test_another_seed_gives_other_bits():
    """The test of the tests."""
    assert digest(fitted("graph-cone-2")) != digest(fitted("graph-cone-2", random_state=8))


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_processes_change_no_bit(name):
    alone = digest(fitted(name))
    with joblib.parallel_config(backend="loky"):
        assert digest(fitted(name, n_jobs=2)) == alone
        assert digest(fitted(name, n_jobs=-1)) == alone


@pytest.mark.slow
def test_another_process_with_other_hashes_gives_the_same_bits():
    """Sets and dictionaries of words have another order under another PYTHONHASHSEED."""
    code = (
        "import test_determinism as t\n"
        "for name in t.CASES: print(name, t.digest(t.fitted(name)), flush=True)"
    )
    environment = os.environ | {"PYTHONHASHSEED": "12345"}
    paths = [str(ROOT / "src"), str(ROOT / "tests"), os.environ.get("PYTHONPATH", "")]
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        capture_output=True, text=True, env=environment, check=True,
    )  # fmt: skip
    elsewhere = dict(line.split() for line in done.stdout.splitlines())
    assert elsewhere == {name: digest(fitted(name)) for name in CASES}
