from __future__ import annotations

import re

import numpy as np
import pytest

from atoll import AtollClassifier
from atoll.datasets import hide_labels, make_crescents
from atoll.estimators.atoll_parts import explanation_of
from atoll.estimators.atoll_verdict import Facts, diagnose, difference_of_seeds, troubles
from atoll.estimators.explanation import Assumption, Explanation, weights_in_words
from atoll.estimators.informed import Shares
from atoll.models.average import average
from atoll.models.average.average import Weighed
from atoll.models.average.corroboration import NOTHING_SEEN
from atoll.models.graph_posterior import ConePosterior

FACTS = Facts(100, 100, 100, 0.0, False, False, 0.2, n_draws=256)
FOUND = Explanation(
    (Assumption("clusters", 0.9, np.log(387)), Assumption("neighbours", 0.1, np.log(122_345))),
    20,
    clarity=16.3,
    agreement=0.71,
)
FOUND_WITH_NOTHING = FOUND._replace(
    assumptions=(*FOUND.assumptions, Assumption("nothing", 0.0, 0.0))
)
WEIGHTS = {"clusters": 0.9, "neighbours": 0.1}


def test_few_draws_are_warned_of_with_the_number_that_mends_it():
    chains = {"n_draws": 64, "effective_draws": 12.8}
    (said,), _ = troubles(FACTS, FOUND, chains, WEIGHTS)
    assert "worth 13 independent ones" in said
    assert "Fix: n_draws=1024, or label more rows" in said
    enough = {"n_draws": 256, "effective_draws": 51.2}  # what the fix gives
    assert troubles(FACTS, FOUND, enough, WEIGHTS) == ([], [])


@pytest.mark.parametrize("effective", [13.0, 40.0, 49.0, 50.5, 200.0])
def test_words_and_warnings_take_the_same_number_of_draws_for_enough(effective):
    """So that a verdict does not praise the draws that a warning calls few."""
    S = 256
    first = (1 + np.sqrt((S - 1) * (S / effective - 1))) / S
    weights = np.array([first, *[(1 - first) / (S - 1)] * (S - 1)])
    chains = ConePosterior(np.zeros((S, 2, 1)), weights, 100, 0.0).diagnostics()
    assert np.isclose(chains["effective_draws"], effective)
    facts = FACTS._replace(least_share=effective / S)
    warned, _ = troubles(facts, FOUND, chains, WEIGHTS)
    assert bool(warned) is ("probabilities are rough" in chains["verdict"])
    assert bool(warned) is chains["few_draws"]  # what the report and the command line ask
    assert bool(warned) == (0.5 / np.sqrt(effective) > 0.071)  # the error of one of a half


SETTLED = {"n_draws": 64, "effective_draws": 20.0, "mixed": True, "few_draws": True,
           "verdict": "of the chains"}  # fmt: skip


def test_draws_are_few_where_another_seed_would_move_probabilities():
    """Where the classes are clear, or hardly rest on draws, few draws are enough."""
    clear = FACTS._replace(spread=0.1)
    weak = FOUND_WITH_NOTHING._replace(
        assumptions=(
            Assumption("clusters", 0.2, 3.0),
            Assumption("neighbours", 0.8, 5.0),
            Assumption("nothing", 0.0, 0.0),
        )
    )
    for facts, explanation, few in (
        (FACTS, FOUND_WITH_NOTHING, True),
        (clear, FOUND_WITH_NOTHING, False),
        (FACTS, weak, False),
    ):
        found, _ = diagnose(facts, explanation, SETTLED, "")
        assert found["few_draws"] is few
        assert ("Fix: a larger n_draws" in found["verdict"]) is few
        number = f"Another seed would move probabilities by {found['difference_of_seeds']:.2f}"
        assert number in found["verdict"]
    settled, _ = diagnose(FACTS._replace(spread=0.01), FOUND_WITH_NOTHING, SETTLED, "")
    assert settled["difference_of_seeds"] < 0.01
    assert "Sampling settled." in settled["verdict"].split("\n")  # and no more


def test_the_difference_of_seeds_is_what_seeds_differ_by():
    rng = np.random.default_rng(0)
    p = rng.uniform(0.5, 1.0, 400)
    effective, weight = 30, 0.9
    means = rng.binomial(effective, p, (2000, 2, 400)) / effective
    seen = weight * np.abs(means[:, 0] - means[:, 1]).mean()
    facts = FACTS._replace(spread=float(np.sqrt(p * (1 - p)).mean()))
    chains = {"effective_draws": effective}
    told = difference_of_seeds(facts, chains, {"clusters": weight})
    assert abs(told - seen) < 0.05 * seen


def test_an_explanation_says_what_its_percentages_and_odds_are_in_plain_numbers():
    said = str(FOUND)
    assert (
        "A percentage is the weight of an assumption in the probabilities, now and before" in said
    )
    assert "(labels 387 times likelier than by chance)" in said
    assert "(labels 122,000 times likelier than by chance)" in said
    assert "expect 1 wrong row for every 16 that a guess of the same rows would have" in said
    one = FOUND._replace(assumptions=(FOUND.assumptions[1], Assumption("line", 0.01, -1.0)))
    assert (
        'rather than "a line through the columns": that makes them 333,000 times likelier'
        in str(one)
    )
    assert "(labels 2.72 times less likely than by chance)" in str(one)
    far = FOUND._replace(
        assumptions=(Assumption("clusters", 0.99, 30.0), Assumption("line", 0.01, -30.0))
    )
    assert str(far).count("more than a million times") == 3  # not a number that is but a limit
    assert "1,000,000" not in str(far)
    none = FOUND._replace(assumptions=(FOUND.assumptions[1], Assumption("nothing", 0.01, 0.0)))
    assert "nothing in the rows (labels as likely as by chance)" in str(none)
    assert "e+" not in said


def test_weights_are_those_before_the_labels_times_how_likely_the_labels_are():
    """Bayes' rule, as a reader may check it on what is printed."""
    before = {"clusters": 0.2, "line": 0.5, "nothing": 0.3}
    log_odds = {"clusters": 16.0, "line": 15.0, "nothing": 0.0}
    joint = {name: before[name] * np.exp(log_odds[name]) for name in before}
    parts = tuple(
        Assumption(name, w / sum(joint.values()), log_odds[name]) for name, w in joint.items()
    )
    found = FOUND._replace(assumptions=parts)
    assert np.allclose([found.before[name] for name in before], list(before.values()))
    first, second = str(found).splitlines()[2:4]
    assert first.split()[:2] == ["52.1%", "20.0%"]
    assert second.split()[:2] == ["47.9%", "50.0%"]
    assert "more than a million times likelier than by chance" in first
    assert "(labels 2.72 times less likely than by the first)" in second
    gone = found._replace(assumptions=(*parts, Assumption("smooth", 0.0, 1.0)))
    assert gone.before["smooth"] == 0.0


def test_an_assumption_that_labels_leave_no_weight_still_has_the_one_before_them():
    """Beyond 745 nats the weight now is no number above zero, and nothing follows from it."""
    line = Weighed("line", np.log(3.0), -10.0, np.empty(0))
    nothing = Weighed("nothing", 0.0, -2000.0, np.empty(0))
    weights = average.weights([line, nothing])
    assert weights[1] == 0.0
    found = explanation_of([line, nothing], weights, 900, True, NOTHING_SEEN)
    assert found.before == pytest.approx({"line": 0.75, "nothing": 0.25})


def test_names_of_assumptions_are_quoted_in_sentences():
    close = (Assumption("line", 0.5, 4.0), Assumption("signal", 0.4, 3.9))
    said = str(FOUND._replace(assumptions=close)).splitlines()[0]
    assert said == (
        'The labels seem to follow "a line through the columns", but 20 labels cannot tell it from '
        '"near rows, once the noise of the columns is left out".'
    )


@pytest.mark.parametrize(
    ("first", "second", "said"),
    [
        ((0.8, 6.0), (0.1, 4.0), 'follow "a line through the columns", rather than'),
        ((0.38, 6.0), (0.37, 4.0), 'may follow "a line through the columns" or "near rows,'),
        ((0.38, 6.0), (0.37, 4.0), "these count 38% and 37%"),
        ((0.98, 4.0), (0.01, 3.9), 'are taken to follow "a line through the columns", which'),
        ((0.98, 4.0), (0.01, 3.9), "counts 98%: the rows speak for it, but 20 labels alone"),
    ],
)
def test_the_headline_is_as_firm_as_the_weights_below_it(first, second, said):
    parts = (Assumption("line", *first), Assumption("signal", *second))
    assert said in FOUND._replace(assumptions=parts).headline()


def test_a_verdict_that_labels_follow_nothing_says_not_that_they_seem_to_follow_something():
    parts = (Assumption("line", 0.6, 2.0), Assumption("clusters", 0.3, 1.8))
    weak = FOUND._replace(assumptions=(*parts, Assumption("nothing", 0.1, 0.0)))
    found, (warned,) = diagnose(FACTS, weak, {"verdict": "Well."}, "Shares.")
    assert found["troubled"]
    assert warned.startswith("the labels follow no assumption")
    assert found["tells_little"]
    assert found["verdict"].startswith("Beware: the labels follow no assumption clearly more than")
    assert "seem to follow" not in found["verdict"]
    strong = weak._replace(assumptions=(parts[0]._replace(log_odds=6.0), *weak.assumptions[1:]))
    found, warned = diagnose(FACTS, strong, {"verdict": "Well."}, "Shares.")
    assert not found["troubled"]
    assert warned == ()
    assert found["verdict"].startswith('The labels follow "a line through the columns"')


def test_chains_that_did_not_settle_are_no_fault_where_clusters_hardly_count():
    chains = {"verdict": "Sampling had not settled: probabilities may be too bold.", "mixed": False}
    parts = (Assumption("line", 0.99, 9.0), Assumption("clusters", 0.01, 4.0))
    none = Assumption("nothing", 0.0, 0.0)
    found, _ = diagnose(FACTS, FOUND._replace(assumptions=(*parts, none)), chains, "Shares.")
    assert found["mixed"]
    assert "too bold" not in found["verdict"]
    assert "had not settled, but they count only 1.0% here" in found["verdict"]
    heavy = (parts[0]._replace(weight=0.5), parts[1]._replace(weight=0.5), none)
    found, _ = diagnose(FACTS, FOUND._replace(assumptions=heavy), chains, "Shares.")
    assert not found["mixed"]
    assert "too bold" in found["verdict"]


def test_verbose_tells_the_steps_the_weights_and_the_time(at_a_terminal):
    X, truth = make_crescents(80, random_state=0)
    y = hide_labels(truth, per_class=3, random_state=0)
    model = AtollClassifier(n_draws=40, random_state=0, verbose=True).fit(X, y)
    lines = at_a_terminal.readouterr().err.splitlines()
    name = max(model.weights_, key=model.weights_.get)
    (told,) = [line for line in lines if "weights:" in line]
    first = weights_in_words(model.explain().assumptions, model.weights_.values()).split("%")[0]
    assert told.startswith(f"AtollClassifier: weights: {first}%")
    assert f"{model.weights_[name]:.1%}" in told
    assert re.fullmatch(r"AtollClassifier: fitted in \d+\.\d s", lines[-1])
    model.set_params(verbose=False).fit(X, y)
    assert at_a_terminal.readouterr().err == ""


def test_both_columns_of_percentages_sum_to_a_hundred():
    parts = (Assumption("line", 0.992, 9.0), Assumption("clusters", 0.004, 4.0))
    for rest in ((), (Assumption("nothing", 0.0, 0.0),)):
        last = (Assumption("smooth", 0.004, 1.0), *rest)
        header, rows = FOUND._replace(assumptions=(*parts, *last)).table()
        for column in (header.index("now"), header.index("before")):
            assert np.isclose(sum(float(row[column].rstrip("%")) for row in rows), 100.0, atol=0.3)
        assert rows[-1][2] == f"{2 + len(rest)} others"


def test_progress_and_verdict_name_assumptions_alike():
    said = weights_in_words(FOUND.assumptions, [0.9, 0.1])
    assert said == "clusters of near rows without exceptions 90.0%, near rows with exceptions 10.0%"


def test_every_trouble_is_a_line_with_its_fix_before_all_that_is_well():
    """Each is a warning of its own as well, after the name of the model and a colon."""
    copies = FACTS._replace(n_distinct=20, left_unlike=True)
    found, warned = diagnose(copies, FOUND_WITH_NOTHING, {"verdict": "Well."}, "Shares.")
    assert len(warned) == 2
    first, second, *others = found["verdict"].split("\n")
    assert first.startswith("Beware: the columns have unlike scales")
    assert second.startswith("Beware: 80 of 100 rows are copies of others")
    assert all(" Fix: " in line for line in (first, second))
    assert others[1:] == [
        "Well.",
        "Shares.",
        "The graph has 20 of 100 rows (copies of a row count as one).",
    ]
    whole, _ = diagnose(FACTS, FOUND_WITH_NOTHING, {"verdict": "Well."}, "Shares.")
    assert whole["verdict"].endswith("The graph has all 100 rows.")


def test_shares_of_classes_that_are_numbers_do_not_run_into_them():
    half = np.array([0.5, 0.5])
    shares = Shares(half, half - 0.1, half + 0.1)
    assert "class 0: 50.0% (40.0% to 60.0%), class 1: 50.0%" in shares.said(np.array([0, 1]))
    assert "no 50.0% (40.0% to 60.0%), yes 50.0%" in shares.said(np.array(["no", "yes"]))
    assert "stage 1: 50.0% (40.0% to 60.0%), 2: 50.0%" in shares.said(np.array(["stage 1", "2"]))
    assert r"'' 50.0% (40.0% to 60.0%), 'a\nb 2' 50" in shares.said(np.array(["", "a\nb 2"]))
    known = Shares(half, half, half)
    assert "known: class 0: 50.0%, class 1: 50.0%." in known.said(np.array([0, 1]))
