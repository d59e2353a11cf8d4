"""What a comparison says in the shell, which fits single models; and by which metric."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from atoll.comparison import compare_models
from atoll.comparison.blending import BLEND
from atoll.comparison.recommending import Recommendation, in_shell, main_model
from atoll.comparison.result import Alone
from atoll.datasets import hide_labels, make_crescents


@pytest.fixture(scope="module")
def data():
    X, truth = make_crescents(n_samples=80, random_state=0)
    return X, hide_labels(truth, per_class=8, marker=None, random_state=0)


@pytest.fixture(scope="module")
def found(data):
    return compare_models(*data, models=["shares"], n_splits=2, progress=False)


FIT = "atoll fit t.csv --target y --out MODEL"


def in_shell_of(found, model, *, is_ahead=False, before="", unlike=None):
    alone = Alone(model, is_ahead, before, "a blend of atoll (93%) and ssgp (7%)", " And more.")
    return in_shell(replace(found, best=BLEND, alone=alone, unlike=unlike), FIT)


def test_the_shell_is_told_the_main_model_and_its_command_before_the_blend(found):
    said = in_shell_of(found, "atoll")
    assert said.startswith(
        f"Use atoll, the default: `{FIT}` fits it. In Python you may fit a blend"
    )
    assert said.endswith(" And more.")
    doubtful = in_shell_of(found, "atoll", before="These labels cannot tell. Until then, ")
    assert doubtful.startswith("These labels cannot tell. Until then, use atoll, the default: `")


def test_the_shell_hears_what_python_advises_where_that_did_worse(found):
    said = in_shell_of(found, "atoll", is_ahead=True)
    assert said.startswith(
        f"Use atoll, the default: `{FIT}` fits it. In Python, `compare_models(X, y)` advises a "
        "blend of atoll (93%) and ssgp (7%). On these labels it did worse than atoll,"
    )
    assert said.endswith(" And more.")


def test_another_model_is_fitted_as_it_was_compared(found):
    assert f"`{FIT} --model ssgp` fits it." in in_shell_of(found, "ssgp")
    assert f"`{FIT} --model ssgp --no-standardise`" in in_shell_of(found, "ssgp", unlike=False)
    assert f"`{FIT} --model probit-gp --set inference=vb`" in in_shell_of(found, "probit-gp")


def test_a_single_model_comes_with_its_command_and_a_peer_without(found):
    kept = replace(found, best="atoll", alone=None, recommendation="Use atoll.")
    assert in_shell(kept, FIT) == f"Use atoll. `{FIT}` fits atoll."
    assert in_shell(replace(kept, best="logistic"), FIT) == "Use atoll."


@pytest.mark.parametrize(
    ("lead", "spread", "is_ahead"),
    [
        (-0.05, 0.01, False),
        (0.05, 0.01, True),
        (3e-5, 1e-3, False),
        (3e-5, 1e-9, False),
        (5e-3, 0.1, False),
    ],
)
def test_a_blend_comes_with_its_main_model_and_whether_that_did_better_beyond_doubt(
    lead, spread, is_ahead
):
    advice = Recommendation(BLEND, True, 0.93)
    shares, near = {"atoll": 0.9, "ssgp": 0.1}, {"atoll": 0.9, "ssgp": 0.1, BLEND: 0.93}
    noise = np.random.default_rng(0).standard_normal(40)
    losses = {"atoll": np.full(40, 0.3), "ssgp": np.full(40, 0.5)}
    losses[BLEND] = losses["atoll"] + lead + spread * (noise - noise.mean())
    alone = main_model(advice, near, shares, losses, 5, "")
    assert (alone.model, alone.is_ahead, alone.before) == ("atoll", is_ahead, "")
    assert "is about 93%" in alone.blend
    unsure = main_model(advice._replace(can_tell=False), near, shares, losses, 5, "")
    assert unsure.before.startswith("These labels cannot tell which model is best: ")


def test_rows_are_compared_by_the_metric_that_is_asked_for(data):
    X, y = data
    found = compare_models(X, y, models=["graph-gp"], n_splits=2, metric="cosine", progress=False)
    for model in found.candidate.model.get_params(deep=False).get(
        "models", [found.candidate.model]
    ):
        assert model.get_params()["metric"] == "cosine"
    assert found.unlike is None
    with pytest.raises(ValueError, match="metric must be"):
        compare_models(X, y, metric="taxi")
