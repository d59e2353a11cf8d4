from __future__ import annotations

import numpy as np

from atoll.estimators.atoll_verdict import Facts, troubles
from atoll.estimators.explanation import Assumption, Explanation

FACTS = Facts(100, 100, 100, 20, 0.0, False, False, 0.2, n_draws=256)
FOUND = Explanation(
    (Assumption("clusters", 0.9, np.log(387)), Assumption("neighbours", 0.1, np.log(122_345))),
    20,
    clarity=16.3,
    agreement=0.71,
)
WEIGHTS = {"clusters": 0.9, "neighbours": 0.1}


def test_few_draws_are_warned_of_with_the_number_that_mends_it():
    chains = {"n_draws": 64, "effective_draws": 12.8}
    (said,), _ = troubles(FACTS, FOUND, chains, WEIGHTS)
    assert "worth 13 independent ones" in said
    assert "Fix: n_draws=1024, or label more rows" in said
    enough = {"n_draws": 256, "effective_draws": 51.2}  # what the fix gives
    assert troubles(FACTS, FOUND, enough, WEIGHTS) == ([], [])


def test_an_explanation_says_what_its_percentages_and_odds_are_in_plain_numbers():
    said = str(FOUND)
    assert "A percentage is what the assumption counts in the probabilities. It rests on" in said
    assert "(labels 387 times likelier than by chance)" in said
    assert "(labels 122,000 times likelier than by chance)" in said
    assert "expect 1 wrong row where a guess has 16" in said
    one = FOUND._replace(assumptions=(FOUND.assumptions[1], Assumption("line", 0.01, -1.0)))
    assert "a line through the columns: that makes them 333,000 times likelier" in str(one)
    assert "(labels 2.72 times less likely than by chance)" in str(one)
    none = FOUND._replace(assumptions=(FOUND.assumptions[1], Assumption("nothing", 0.01, 0.0)))
    assert "nothing in the rows (labels as likely as by chance)" in str(none)
    assert "e+" not in said
