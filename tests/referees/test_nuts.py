"""Class probabilities and hyper-parameters are NUTS's, within Monte Carlo error.

Both sides' standard errors come from their effective sample sizes, and the bound from the number
of comparisons: all of them stay below it but for one run of all in a million.
"""

from __future__ import annotations

import numpy as np
import pytest

from referees import compare

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("case", compare.CASES, ids=compare.case_id)
def test_probabilities_and_parameters_are_those_of_nuts(case):
    pytest.importorskip(
        "numpyro", reason="NumPyro is not installed: make proof-referees installs it"
    )
    name, n, seed = case
    found = compare.run_case(name, n, seed)
    assert found.ess.min() > compare.LEAST_ESS, dict(zip(found.names, found.ess.T.tolist()))
    worst = int(np.argmax(np.abs(found.scores)))
    assert np.abs(found.scores[worst]) < found.bound, (
        f"{found.names[worst]}: ours {found.ours[worst]:.4f}, theirs {found.theirs[worst]:.4f}, "
        f"standard error {found.error[worst]:.4f}"
    )
