"""How long chains draw: as many draws as were asked for, or on until they have mixed."""

from __future__ import annotations

import inspect
from typing import NamedTuple

import numpy as np
import pytest
from sklearn.base import BaseEstimator

from atoll.core import progress
from atoll.estimators import MODELS, ArchipelagoDensity, SSGPClassifier, sampling, ssgp
from atoll.estimators.sampling import Patience, drawing_on, patience_of, sample_until_mixed
from atoll.estimators.timing import sweeps_of
from atoll.inference.chains import Sampler, run_chains
from walking import over, problem, short

pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore:.*in the order of the alphabet:UserWarning"),
]
# The mixture and the graph have no chains whose draws are kept.
BY_CHAINS = {name: m for name, m in MODELS.items() if "n_samples" in m().get_params()}
BY_CHAINS |= {"density": ArchipelagoDensity}
SHORTEST = {"n_warmup": 4, "base_density": "gaussian", "n_chains": 2}


class Drawn(BaseEstimator):
    """What the chains of a model ask of it, and nothing else."""

    def __init__(self, n_samples="auto", n_chains=2, n_warmup=3, random_state=0, checkpoint=None):
        self.n_samples, self.n_chains, self.n_warmup = n_samples, n_chains, n_warmup
        self.random_state, self.checkpoint = random_state, checkpoint
        self.thin, self.n_jobs = 1, None

    patience = Patience((20, 40, 80, 160, 320, 640), hope=2.0)

    def _until_shown(self):
        return None


class Place(NamedTuple):
    """Where a chain is, and where it is held."""

    x: float
    home: float


def chain(apart=0.0, swept=None):
    """Independent standard normals, about a place of each chain's own where `apart` is not 0."""

    def sweep(rng, state, adapt):
        if swept is not None:
            swept.append(1)
        return state._replace(x=state.home + rng.standard_normal())

    return Sampler(
        init=lambda rng: Place(0.0, apart * rng.uniform(1.0, 2.0) * rng.choice([-1.0, 1.0])),
        sweep=sweep,
        record=lambda rng, state: {"log_likelihood": state.x, "jitter": 0.0},
    )


def drawn(estimator, sampler=None, X=None):
    X = np.zeros((2, 1)) if X is None else X

    def traces_of(draws):
        return {"log_likelihood": draws["log_likelihood"]}

    return sample_until_mixed(estimator, sampler or chain(), (X, None), traces_of)


# Independent draws: of 40 no more than 64 are counted as effective, of 1280 always more than 100,
# and then R-hat is above 1.05 with a probability below 1e-20.
@pytest.mark.parametrize("seed", range(3))
def test_chains_that_have_not_mixed_draw_on_and_end_mixed(seed):
    at_first = drawn(Drawn(20, random_state=seed))[1]
    result, found = drawn(Drawn(random_state=seed))
    assert not at_first["mixed"]
    assert found["mixed"]
    assert found["n_draws"] in Drawn.patience.counts[1:]
    straight = drawn(Drawn(found["n_draws"], random_state=seed))[0]
    np.testing.assert_array_equal(result.draws["log_likelihood"], straight.draws["log_likelihood"])


def test_no_sweep_is_made_twice():
    swept = []
    _, found = drawn(Drawn(), chain(swept=swept))
    assert found["n_draws"] > 20
    assert len(swept) == 2 * (3 + found["n_draws"])


def test_a_number_of_draws_that_was_asked_for_is_kept():
    result, found = drawn(Drawn(20))
    assert result.draws["log_likelihood"].shape == (2, 20)
    assert not found["mixed"]
    assert "(20 now)" in found["verdict"]


def test_chains_that_are_trapped_stop_and_are_told_how_long_to_be(monkeypatch):
    monkeypatch.setattr(Drawn, "patience", Patience((250, 500), hope=2.0))
    # Four chains at distances of 100 to 200 from zero: no two of them overlap in full.
    _, found = drawn(Drawn(n_chains=4), chain(apart=100.0))
    assert found["n_draws"] == 250
    assert 'Try n_warmup=100 (3 now), then n_samples=1000 ("auto" now).' in found["verdict"]


def test_a_checkpoint_of_ones_own_goes_on_as_well(tmp_path):
    swept = []
    drawn(Drawn(20, checkpoint=tmp_path), chain(swept=swept))
    result, found = drawn(Drawn(checkpoint=tmp_path), chain(swept=swept))
    assert len(swept) == 2 * (3 + found["n_draws"])
    straight = drawn(Drawn())[0]
    np.testing.assert_array_equal(result.draws["log_likelihood"], straight.draws["log_likelihood"])


def test_chains_end_where_memory_would_not_hold_more_draws(monkeypatch):
    of_a_draw = 2 * 2 * 8  # two chains, two numbers
    monkeypatch.setattr(sampling, "physical_memory", lambda: sampling.FORMS * of_a_draw * 40 + 1)
    monkeypatch.setattr(Patience, "goes_on", lambda patience, found: True)
    assert drawn(Drawn())[1]["n_draws"] == 40


def test_chains_end_where_nothing_was_kept_to_go_on_from(monkeypatch):
    """Each part began anew on a full disk."""

    def kept_nowhere(sampler, **options):
        return run_chains(sampler, **{**options, "checkpoint": None})

    monkeypatch.setattr(sampling, "run_chains", kept_nowhere)
    assert drawn(Drawn())[1]["n_draws"] == 20


def test_rows_that_are_not_numbers_have_one_run(monkeypatch):
    """No checkpoint holds them: each part began anew."""
    monkeypatch.setattr(sampling, "OF_OBJECTS", 30)
    swept = []
    _, found = drawn(Drawn(), chain(swept=swept), X=np.array(["a", "b"], dtype=object))
    assert found["n_draws"] == 30
    assert len(swept) == 2 * (3 + 30)


@pytest.mark.parametrize(
    ("mixed", "r_hat", "ess", "n_draws", "goes_on"),
    [
        (False, 1.04, 40.0, 250, True),
        (False, 1.14, 40.0, 250, True),
        (False, 1.16, 40.0, 250, False),
        (False, 1.04, 30.0, 250, False),
        (False, 1.16, 10.0, 249, True),
        (True, 1.04, 140.0, 249, False),
        (True, 1.04, 140.0, 250, False),
        (False, 1.04, 140.0, 249, False),  # a chain by itself, which is never said to have mixed
        (False, np.nan, 140.0, 250, False),
        (False, np.inf, 140.0, 250, False),
    ],
)
@pytest.mark.parametrize("hope", [1.0, 2.0])
def test_whether_the_most_draws_could_be_enough(mixed, r_hat, ess, n_draws, goes_on, hope):
    sizes = {"ess_bulk": {"a": ess, "b": 500.0}, "ess_tail": {"a": 400.0, "b": 500.0}}
    found = {"mixed": mixed, "r_hat": {"a": 1.01, "b": r_hat}, "n_draws": n_draws, **sizes}
    assert Patience((250, int(750 / hope)), hope).goes_on(found) == goes_on


def test_numbers_of_draws_grow_by_one_factor_to_the_most():
    counts = np.array(drawing_on(600, longer=4).counts)
    assert (counts[0], counts[-1]) == (600, 2400)
    growth = counts[1:] / counts[:-1]
    assert np.all(np.abs(growth - 4 ** (1 / 7)) < 0.05)


# Every model --------------------------------------------------------------------------------------


@over(BY_CHAINS)
def test_models_draw_on_by_default_and_say_how_far(model):
    fresh = model()
    assert (fresh.n_samples, fresh.verbose) == ("auto", "auto")
    counts = patience_of(fresh).counts
    said = " ".join(inspect.getdoc(model).split())
    assert f'"auto" is {counts[0]}, and then up to {counts[-1]} while the chains' in said
    assert patience_of(model(n_samples=7)).counts == (7,)
    if "n_chains" in fresh.get_params():
        thin = counts[-1] * fresh.thin
        assert sweeps_of(fresh, most=True) == 4 * (fresh.n_warmup + thin)


def fitted(model, **options):
    X, y = problem()
    if model is ArchipelagoDensity:
        return model(**SHORTEST, random_state=0, **options).fit(X)
    if model is SSGPClassifier:
        options["inference"] = "mcmc"
    return short(model, **options).fit(X, y)


@over(BY_CHAINS)
def test_a_model_that_draws_on_has_the_draws_of_one_long_run(model, monkeypatch):
    """As far as the most, where that could be enough; and no further where it could not."""
    monkeypatch.setattr(model, "patience", Patience((4, 6, 8)), raising=False)
    monkeypatch.setattr(Patience, "goes_on", lambda patience, found: True)
    longest, straight = fitted(model, n_samples="auto"), fitted(model, n_samples=8)
    assert longest.diagnostics_["n_draws"] == 8
    for name, values in straight.draws_.items():
        np.testing.assert_array_equal(longest.draws_[name], values)
    X, _ = problem()
    predict = "score_samples" if model is ArchipelagoDensity else "predict_proba"
    np.testing.assert_array_equal(getattr(longest, predict)(X), getattr(straight, predict)(X))
    monkeypatch.setattr(Patience, "goes_on", lambda patience, found: False)
    assert fitted(model, n_samples="auto").diagnostics_["n_draws"] == 4


@over(BY_CHAINS)
def test_a_fit_that_takes_long_shows_how_far_it_is_and_a_quick_one_does_not(
    monkeypatch, capsys, model
):
    fitted(model, n_samples=4)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(progress, "QUICK_UNWATCHED", 0.0)
    fitted(model, n_samples=4)
    assert f"{model.__name__}: fitted in" in capsys.readouterr().err


def test_of_several_fits_on_a_graph_the_heaviest_alone_draws_on(monkeypatch):
    """The others, of which there may be a hundred, make the first draws."""
    monkeypatch.setattr(SSGPClassifier, "patience", Patience((4, 6, 8)))
    monkeypatch.setattr(Patience, "goes_on", lambda patience, found: True)
    asked, draw_on = [], sampling.draw_on

    def noted(patience, *given):
        asked.append(patience.counts)
        return draw_on(patience, *given)

    monkeypatch.setattr(ssgp, "draw_on", noted)
    model = fitted(SSGPClassifier, n_samples="auto", selection="average")
    assert asked[0] == (4, 6, 8)
    assert len(asked) > 1
    assert set(asked[1:]) == {(4,)}
    assert model.diagnostics_["n_draws"] == 8
