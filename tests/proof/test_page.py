"""The proofs' own parts, and what the documentation says of them."""

from __future__ import annotations

import csv
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from proof import page, run, simulators
from proof.calibration import CASES
from proof.ranks import rank, uniformity
from referees import compare

DOCS = Path(__file__).parents[2] / "docs" / "proof"
CHANCE = 1e-4  # of a false alarm for a whole table of exact posteriors


def read(name):
    with open(DOCS / name, newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


# What is shown ------------------------------------------------------------------------------------


def test_the_table_of_calibration_is_that_of_the_ranks():
    journal = page.read_ranks(DOCS / "ranks.csv")
    rows = page.calibration_rows(journal, run.cases())
    assert [{k: str(v) for k, v in row.items()} for row in rows] == read("calibration.csv")


@pytest.mark.parametrize(
    ("name", "table"), [("geweke", page.joint_rows), ("referees", page.referee_rows)]
)
def test_the_other_tables_are_those_of_their_runs(name, table):
    rows = table(page.read_lines(DOCS / f"{name}.jsonl"))
    assert [{k: str(v) for k, v in row.items()} for row in rows] == read(f"{name}.csv")


def test_exact_posteriors_are_calibrated():
    """Every p-value is adjusted for its quantities; here also for the number of posteriors."""
    rows = [row for row in read("calibration.csv") if row["exact"] == "yes"]
    smallest = min(rows, key=lambda row: float(row["smallest p"]))
    assert len(rows) * float(smallest["smallest p"]) > CHANCE, smallest


def test_every_move_keeps_the_joint_distribution():
    rows = read("geweke.csv")
    smallest = min(rows, key=lambda row: float(row["smallest p, adjusted"]))
    assert len(rows) * float(smallest["smallest p, adjusted"]) > CHANCE, smallest


def test_differences_from_nuts_are_within_their_bounds():
    for row in read("referees.csv"):
        assert float(row["largest score"]) < float(row["bound"]), row


# Ranks --------------------------------------------------------------------------------------------


def test_a_rank_counts_the_draws_below_and_breaks_ties_at_random():
    rng = np.random.default_rng(0)
    assert rank(rng, 2.5, [1.0, 2.0, 3.0]) == 2
    assert {rank(rng, 1.0, [1.0, 1.0, 3.0]) for _ in range(60)} == {0, 1, 2}
    assert rank(rng, np.nan, [1.0]) == rank(rng, 1.0, [np.inf]) == -1


def test_uniform_ranks_pass_and_ranks_of_a_narrow_posterior_do_not():
    rng = np.random.default_rng(1)
    p, place, width = uniformity(rng.integers(0, 16, 1000), 15)
    assert p > 1e-6
    assert max(abs(place), abs(width)) < 5
    draws = 0.8 * rng.standard_normal((1000, 15))
    narrow = (draws < rng.standard_normal((1000, 1))).sum(axis=1)
    p, place, width = uniformity(narrow, 15)
    assert p < 1e-4
    assert width > 4
    assert uniformity(np.array([-1, 3]), 15)[0] == 0.0


def test_ranks_are_read_as_they_were_written(tmp_path):
    journal = [
        {"case": "a", "number": i, "n": 3 + i, "ranks": {"x": i, "a, b": 15 - i}} for i in (0, 2, 3)
    ]
    page.write_ranks(journal, tmp_path / "ranks.csv")
    assert page.read_ranks(tmp_path / "ranks.csv") == journal
    assert page.read_ranks(tmp_path / "none.csv") == []


# Runs ---------------------------------------------------------------------------------------------


def lines_of(number):
    return [{"case": "toy", "number": number}]


def test_a_run_appends_to_its_journal_and_half_a_line_is_left_out(tmp_path):
    file = tmp_path / "toy.jsonl"
    file.write_text('{"case": "toy", "number": 0}\n{"case": "to', encoding="utf-8")
    tasks = [(lines_of, (1,)), (lines_of, (2,))]
    left, failed = run.work(file, tasks, 1, 60, ThreadPoolExecutor)
    assert (left, failed) == (0, 0)
    assert {line["number"] for line in run.read_journal(file)} == {0, 1, 2}


def test_nothing_is_begun_after_the_time_is_over(tmp_path):
    left, _ = run.work(tmp_path / "toy.jsonl", [(lines_of, (1,))], 1, 0, ThreadPoolExecutor)
    assert left == 1


def test_what_is_done_is_not_done_again():
    whole = run.sbc_tasks(["probit-2", "null-free-2"], 20, [])
    assert sum(len(numbers) for _, (_, numbers) in whole) == 40
    done = [{"case": "probit-2", "number": i} for i in range(7)]
    rest = run.sbc_tasks(["probit-2"], 20, done)
    assert sorted(i for _, (_, numbers) in rest for i in numbers) == list(range(7, 20))


def test_a_simulation_has_the_same_ranks_wherever_it_is_run():
    first, second = (run.simulate("ssgp-regression", [3])[0] for _ in "ab")
    assert first["ranks"] == second["ranks"]
    assert first["ranks"] != run.simulate("ssgp-regression", [4])[0]["ranks"]


@pytest.mark.slow
@pytest.mark.parametrize("name", run.cases())
def test_every_case_ranks_every_quantity(name):
    (line,) = run.simulate(name, [0])
    assert len(line["ranks"]) >= 3
    assert all(0 <= r <= line["draws"] for r in line["ranks"].values())


# Simulators ---------------------------------------------------------------------------------------


def test_class_probabilities_by_hand_are_those_of_draws():
    rng = np.random.default_rng(2)
    f, n = np.array([0.3, -0.5, 1.1]), 200_000
    z = f + rng.standard_normal((n, 3))
    shares = [np.mean(simulators.largest_by(z, 0.4) == k) for k in range(3)]
    exact = np.exp(simulators.log_margin_classes(f, 0.4))
    assert np.abs(shares - exact).max() < 6 * 0.5 / np.sqrt(n)
    ranks = simulators.rank_among(z[:, 0], np.array([-0.2, 0.9]), 0.3)
    exact = np.exp(simulators.log_interval_classes(f[:1], np.array([-0.2, 0.9]), 0.3))[0]
    assert np.abs([np.mean(ranks == k) for k in range(3)] - exact).max() < 6 * 0.5 / np.sqrt(n)


def test_functions_drawn_row_by_row_have_the_kernels_covariance():
    rng, theta = np.random.default_rng(3), np.array([[0.7, -0.2]])
    X = rng.standard_normal((3, 2))
    draws = []
    for _ in range(700):
        growing = simulators._Growing(theta, 1, 3)
        draws.append([growing.add(rng, x)[0] for x in X])
    white = np.linalg.solve(simulators.factor(X, theta[0]), np.array(draws).T).ravel()
    assert stats.kstest(white, "norm").pvalue > 1e-6
    assert len(CASES) > 10


def toy_sides(n, seed):
    """Chains of one number, far apart on the two sides, in place of two samplers."""

    def side(shift):
        def sample(how_long, part):
            rng = np.random.default_rng([seed, part])
            x = shift + rng.standard_normal((2, n))
            return {"x": x}, np.full((2, n, 1, 2), 0.5)

        return sample

    return compare.Sides(side(0.0), side(1.0))


def test_chains_in_parts_are_joined_once_all_of_them_are_there(tmp_path, monkeypatch):
    monkeypatch.setattr(compare, "MODELS", {"toy": toy_sides})
    monkeypatch.setattr(compare, "CASES", [("toy", 40, 5)])
    monkeypatch.setattr(compare, "LONG", {("toy", 40): compare.long((2, 40), (2, 40), parts=3)})
    alone = lambda draws: (draws.mean(), draws.std() / np.sqrt(draws.size), draws.size)  # noqa: E731
    monkeypatch.setattr(compare, "mean_and_error", alone)
    tasks = run.referee_tasks(None, [], tmp_path)
    assert len(tasks) == 6
    for function, arguments in tasks[:-1]:
        assert function(*arguments) == []
    ((join, arguments),) = run.join_tasks(None, [], tmp_path)
    assert join(*arguments) == []
    ((last, its_arguments),) = run.referee_tasks(None, [], tmp_path)
    last(*its_arguments)
    (line,) = join(*arguments)
    assert line["ess"][0][0] == 3 * 2 * 40
    assert line["theirs"][0] - line["ours"][0] == pytest.approx(1.0)
    assert run.referee_tasks(None, [line], tmp_path) == run.join_tasks(None, [line], tmp_path) == []


def test_every_move_of_archipelagos_own_tests_is_tested_at_larger_n():
    from proof.joint_tests import ISLAND_MOVES, islands

    assert set(ISLAND_MOVES) == set(islands().GEWEKE)
