from __future__ import annotations

import math
import os
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

from atoll.diagnostics import convergence
from atoll.diagnostics.convergence import (
    RunLength,
    ess_bulk,
    ess_tail,
    mcse_mean,
    rank_r_hat,
    summarise,
    to_arviz,
    verdict,
)

DIAGNOSTICS = [rank_r_hat, ess_bulk, ess_tail, mcse_mean]


def autoregressive(rng, correlation, shape):
    """Stationary AR(1) chains with unit variance."""
    n_chains, n_draws = shape
    noise = rng.normal(size=shape) * np.sqrt(1 - correlation**2)
    chains = np.empty(shape)
    chains[:, 0] = rng.normal(size=n_chains)
    for t in range(1, n_draws):
        chains[:, t] = correlation * chains[:, t - 1] + noise[:, t]
    return chains


def brute_force_r_hat(chains):
    """Rank-normalised split R-hat, bulk and folded, from its definition."""
    half = chains.shape[1] // 2
    split = np.concatenate([chains[:, :half], chains[:, half:]])

    def plain(values):
        ranks = stats.rankdata(values).reshape(values.shape)
        z = stats.norm.ppf((ranks - 3 / 8) / (values.size + 1 / 4))
        within = z.var(axis=1, ddof=1).mean()
        between = z.mean(axis=1).var(ddof=1)
        return np.sqrt((half - 1) / half + between / within)

    return max(plain(split), plain(np.abs(split - np.median(split))))


def test_r_hat_is_that_of_its_definition():
    chains = autoregressive(np.random.default_rng(0), 0.9, (3, 60))
    assert rank_r_hat(chains) == pytest.approx(brute_force_r_hat(chains), rel=1e-12)


# R-hat, bulk and tail effective sample size, and standard error of the mean, by ArviZ 0.23.4.
# arviz-stats differs from it in one place: for n draws in all, where 0.05 (n - 1) is a whole
# number, the 95% quantile is one of the draws, and ArviZ 0.23 misses it by a rounding error.
ARVIZ_VALUES = {
    "together": (1.0081825166725014, 76.6072871776172, 138.26778524821006, 0.12288463377871507),
    "apart": (1.1146586745806666, 54.58500456284565, 98.544194486006, 0.15931165604888006),
    "drifting": (1.6082029624702767, 8.653404494780114, 82.59204689911478, 0.5874020748102929),
    "tied": (1.0065710987027559, 77.44913225641551, 159.98198222069132, 0.2513668549697651),
    "skewed": (1.0081825166725014, 76.6072871776172, 138.26778524821006, 1.0645567638104076),
}


@pytest.mark.parametrize("name", ARVIZ_VALUES)
def test_every_diagnostic_has_the_value_that_arviz_gave_it(name):
    t = np.arange(240.0).reshape(4, 60)
    smooth = np.sin(0.37 * t) + np.cos(0.11 * t**2)
    chains = {
        "together": smooth,
        "apart": smooth + 0.5 * np.arange(4.0)[:, None],
        "drifting": smooth + 0.02 * t,
        "tied": np.round(2 * smooth),
        "skewed": np.exp(2 * smooth),
    }[name]
    found = [diagnostic(chains) for diagnostic in DIAGNOSTICS]
    assert found == pytest.approx(ARVIZ_VALUES[name], rel=1e-10)


@pytest.mark.parametrize(
    "disagreement",
    [
        lambda chains: chains + 2 * np.arange(4)[:, None],
        lambda chains: chains * 5.0 ** np.arange(4)[:, None],
        lambda chains: chains + np.linspace(0, 4, chains.shape[1]),
    ],
    ids=["location", "scale", "drift"],
)
def test_r_hat_sees_chains_that_differ(disagreement):
    chains = np.random.default_rng(1).normal(size=(4, 400))
    assert rank_r_hat(chains) < 1.05
    assert rank_r_hat(disagreement(chains)) > 1.2


def test_r_hat_of_a_single_chain_sees_drift():
    chain = np.random.default_rng(2).normal(size=(1, 800))
    assert rank_r_hat(chain) < 1.05
    assert rank_r_hat(chain + np.linspace(0, 4, 800)) > 1.2


@pytest.mark.parametrize("diagnostic", [ess_bulk, ess_tail])
def test_effective_sample_size_of_independent_draws_is_their_number(diagnostic):
    chains = np.random.default_rng(3).normal(size=(4, 5000))
    assert diagnostic(chains) == pytest.approx(20_000, rel=0.25)


def test_effective_sample_size_of_an_autoregression_is_known():
    chains = autoregressive(np.random.default_rng(4), 0.8, (4, 20_000))
    assert ess_bulk(chains) == pytest.approx(chains.size * (1 - 0.8) / (1 + 0.8), rel=0.25)


def test_standard_error_of_the_mean_of_an_autoregression_is_known():
    chains = autoregressive(np.random.default_rng(5), 0.8, (4, 20_000))
    assert mcse_mean(chains) == pytest.approx(
        np.sqrt((1 + 0.8) / (1 - 0.8) / chains.size), rel=0.15
    )


@pytest.mark.parametrize("diagnostic", DIAGNOSTICS)
def test_each_entry_is_judged_by_itself(diagnostic):
    draws = np.random.default_rng(6).normal(size=(4, 50, 2, 3))
    values = diagnostic(draws)
    assert values.shape == (2, 3)
    assert values[1, 2] == diagnostic(draws[:, :, 1, 2])
    assert isinstance(diagnostic(draws[:, :, 0, 0]), float)


@pytest.mark.parametrize("diagnostic", DIAGNOSTICS)
@pytest.mark.parametrize(
    "draws",
    [
        np.random.default_rng(7).normal(size=(4, 3)),
        np.zeros((4, 0)),
        np.zeros((0, 9)),
        np.where(np.arange(40).reshape(4, 10) == 7, np.nan, np.arange(40.0).reshape(4, 10)),
        np.where(np.arange(40).reshape(4, 10) == 7, -np.inf, np.arange(40.0).reshape(4, 10)),
        np.ones((1, 50)),
    ],
    ids=["three draws", "no draws", "no chains", "a NaN", "an infinity", "one stuck chain"],
)
def test_what_cannot_be_judged_is_nan_in_silence(diagnostic, draws, capfd):
    assert math.isnan(diagnostic(draws))
    assert capfd.readouterr() == ("", "")


def test_a_single_chain_needs_eight_draws():
    chain = np.random.default_rng(8).normal(size=(1, 8))
    assert math.isfinite(rank_r_hat(chain))
    assert math.isnan(rank_r_hat(chain[:, :7]))


def test_chains_that_hold_one_value_agree():
    draws = np.full((4, 50), 3.7)
    assert rank_r_hat(draws) == 1.0
    assert ess_bulk(draws) == ess_tail(draws) == 200
    assert mcse_mean(draws) == 0.0


def test_chains_stuck_at_values_of_their_own_have_infinite_r_hat():
    draws = np.repeat(np.arange(4.0)[:, None], 50, axis=1)
    assert rank_r_hat(draws) == math.inf
    assert ess_bulk(draws) < 10


def test_draws_of_two_values_are_judged_in_silence():
    draws = np.random.default_rng(9).integers(0, 2, size=(4, 500))
    assert rank_r_hat(draws) < 1.05
    assert ess_bulk(draws) > 500


@pytest.mark.parametrize("diagnostic", DIAGNOSTICS)
def test_draws_without_a_chain_axis_are_refused(diagnostic):
    with pytest.raises(ValueError, match=r"shape \(9,\).*draws\[None\]"):
        diagnostic(np.arange(9.0))


def test_a_summary_keeps_the_worst_entry():
    draws = np.random.default_rng(10).normal(size=(4, 100, 3))
    draws[:, :, 1] += 3 * np.arange(4)[:, None]
    summary = summarise({"f": draws, "none": np.zeros((4, 100, 0))})
    assert set(summary["r_hat"]) == set(summary["ess_bulk"]) == set(summary["ess_tail"]) == {"f"}
    assert summary["r_hat"]["f"] == rank_r_hat(draws[:, :, 1])
    assert summary["ess_bulk"]["f"] == ess_bulk(draws[:, :, 1])
    assert summary["ess_tail"]["f"] == ess_tail(draws).min()


def test_a_summary_does_not_hide_a_nan():
    draws = np.random.default_rng(11).normal(size=(4, 100, 2))
    draws[0, 0, 0] = np.nan
    assert math.isnan(summarise({"f": draws})["r_hat"]["f"])


def test_the_verdict_on_chains_that_mixed():
    mixed, sentence = verdict(summarise({"a": np.random.default_rng(12).normal(size=(4, 500))}))
    assert mixed
    assert sentence.startswith("The chains have mixed")


@pytest.mark.parametrize(
    ("r_hat", "bulk", "tail", "words"),
    [
        (1.31, 500.0, 500.0, ["not mixed", "bad", "1.31", "n_warmup"]),
        (math.inf, 4.0, 4.0, ["not mixed", "bad", "inf", "n_warmup"]),
        (math.nan, math.nan, math.nan, ["cannot be judged", "bad", "n_samples", "n_chains"]),
        (1.01, 43.0, 500.0, ["too few", "bulk", "bad", "43", "n_samples"]),
        (1.01, 500.0, 43.0, ["too few", "tail", "bad", "43", "n_chains"]),
        (1.0503, 500.0, 500.0, ["not mixed", "is 1.0503 (at most 1.05"]),
        (1.01, 99.7, 500.0, ["too few", "is 99.7 (at least 100"]),
    ],
)
def test_the_verdict_names_the_worst_quantity_and_the_fix(r_hat, bulk, tail, words):
    summary = {
        "r_hat": {"good": 1.0, "bad": r_hat},
        "ess_bulk": {"good": 900.0, "bad": bulk},
        "ess_tail": {"good": 900.0, "bad": tail},
    }
    mixed, sentence = verdict(summary)
    assert not mixed
    assert all(word in sentence for word in words)
    assert "good" not in sentence


@pytest.mark.parametrize(
    ("r_hat", "size", "length", "fix"),
    [
        (1.3, 9.0, RunLength(500, 200, 200), "=1000 (500 now), then n_samples=400 (200 now)."),
        (1.3, 9.0, RunLength(0, 20, 20), "n_warmup=100 (0 now), then n_samples=100 (20 now)."),
        (1.3, 9.0, RunLength(150, 750, 250, True), 'then n_samples=1500 ("auto" now).'),
        (1.01, 40.0, RunLength(500, 200, 200), "wanted). Try n_samples=500 (200 now)."),
        (1.01, 99.9, RunLength(500, 200, 200), "wanted). Try n_samples=250 (200 now)."),
        (1.01, 40.0, RunLength(150, 750, 750, True), 'Try n_samples=1900 ("auto" now).'),
    ],
)  # fmt: skip
def test_the_fix_says_from_what_to_what_where_the_length_of_the_chains_is_known(
    r_hat, size, length, fix
):
    summary = {"r_hat": {"a": r_hat}, "ess_bulk": {"a": size}, "ess_tail": {"a": 500.0}}
    mixed, sentence = verdict(summary, length=length)
    assert not mixed
    assert sentence.endswith(fix)


def test_the_verdict_obeys_its_limits():
    summary = {"r_hat": {"a": 1.04}, "ess_bulk": {"a": 150.0}, "ess_tail": {"a": 150.0}}
    assert verdict(summary)[0]
    assert not verdict(summary, r_hat_limit=1.01)[0]
    assert not verdict(summary, ess_limit=400)[0]
    assert not verdict({"r_hat": {}, "ess_bulk": {}, "ess_tail": {}})[0]


def test_arviz_gets_every_group_and_survives_a_file(tmp_path):
    rng = np.random.default_rng(13)
    f = rng.normal(size=(2, 5, 3))
    data = to_arviz(
        {"f": f, "log_likelihood": rng.normal(size=(2, 5)), "count": np.ones((2, 5), dtype=int)},
        sample_stats={"acceptance": rng.uniform(size=(2, 5))},
        observed={"y": np.array([0, 1, 1])},
        attrs={"interrupted": False, "n_chains": 2},
    )
    data.to_netcdf(str(tmp_path / "draws.nc"))
    np.testing.assert_array_equal(data.posterior["f"].values, f)
    assert data.posterior["count"].dtype.kind == "i"
    assert data.sample_stats["acceptance"].dims == ("chain", "draw")
    assert data.observed_data["y"].shape == (3,)
    assert data.posterior.attrs["interrupted"] == 0
    assert data.posterior.attrs["n_chains"] == 2


def test_arviz_takes_more_chains_than_draws_in_silence():
    assert to_arviz({"a": np.zeros((4, 2))}).posterior["a"].shape == (4, 2)


def test_no_draws_are_refused():
    with pytest.raises(ValueError, match="draws is empty"):
        to_arviz({})


def test_arviz_1_gets_one_nested_dictionary(monkeypatch):
    received = {}

    def from_dict(data, *, attrs=None):
        received.update(data=data, attrs=attrs)

    monkeypatch.setattr(
        convergence,
        "_import_arviz",
        lambda: SimpleNamespace(__version__="1.2.0", from_dict=from_dict),
    )
    to_arviz({"a": np.zeros((2, 4))}, observed={"y": [0, 1]}, attrs={"seed": 3})
    assert set(received["data"]) == {"posterior", "observed_data"}
    assert received["attrs"] == {"posterior": {"seed": 3}}


@pytest.mark.slow
def test_the_first_use_of_arviz_on_a_machine_warns_of_nothing(tmp_path):
    # ArviZ 0.23 keeps a stamp in the cache folder and warns when the stamp is not of today.
    program = (
        "import numpy as np; from atoll.diagnostics import rank_r_hat, to_arviz;"
        "rank_r_hat(np.random.default_rng(0).normal(size=(2, 9))); to_arviz({'a': np.ones((2, 9))})"
    )
    environment = {**os.environ, "HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_importing_diagnostics_imports_nothing_heavy():
    program = (
        "import sys, atoll.diagnostics;"
        "heavy = {'arviz', 'arviz_stats', 'matplotlib', 'pandas', 'xarray', 'tqdm'};"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
