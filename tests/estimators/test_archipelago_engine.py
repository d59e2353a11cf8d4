"""ArchipelagoClassifier by its engine: what it finds, from where, and that it can go on."""

from __future__ import annotations

import subprocess
import sys
import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from atoll.core.chunks import RowChunks
from atoll.core.densities import Gaussian
from atoll.datasets import hide_labels, make_pinwheel
from atoll.estimators import ArchipelagoClassifier, load_model, save_model
from atoll.estimators.archipelago_engine import choose_inference, with_classes
from atoll.estimators.belief import LEAST_BELIEF
from atoll.estimators.progress import Progress
from atoll.estimators.shell import Fit
from atoll.estimators.timing import expected_seconds
from atoll.models.archipelago.engine.posterior import EnginePosterior
from atoll.models.posterior import DensityPosterior, FunctionPosterior

# One shape of batches, so that one program is compiled for all.
ENGINE = {
    "inference": "vi", "base_density": "gaussian", "n_inducing": 32, "n_folds": 0, "random_state": 0
}  # fmt: skip
SHORT = ENGINE | {"n_steps": 40}
X, TRUTH = make_pinwheel(1400, n_classes=3, random_state=0)
NEW, NEW_TRUTH = make_pinwheel(3000, n_classes=3, random_state=1)
Y = hide_labels(TRUTH, per_class=2, random_state=0)


@pytest.fixture(scope="module")
def fitted():
    return ArchipelagoClassifier(**ENGINE).fit(X, Y)


@pytest.fixture(scope="module")
def short():
    return ArchipelagoClassifier(**SHORT).fit(X, Y)


def test_islands_are_found_from_two_labels_each(fitted):
    assert fitted.score(NEW, NEW_TRUTH) > 0.98
    assert np.mean(fitted.transduction_ == TRUTH) > 0.98
    p = fitted.predict_proba(NEW)
    np.testing.assert_allclose(p.sum(axis=1), 1.0, atol=1e-12)
    assert -np.log(p[np.arange(len(p)), NEW_TRUTH]).mean() < 0.06
    assert fitted.inference_ == "vi"
    assert fitted.diagnostics_["converged"]
    assert fitted.diagnostics_["n_refused"] == 0


def test_the_bound_rises_once_the_rows_have_their_weight(fitted):
    trace = fitted.diagnostics_["trace"]["bound"][0]
    assert trace[-5:].mean() > trace[8:12].mean()
    assert np.isfinite(fitted.objectives_).all()


def test_rows_of_a_fit_on_a_gpu_get_their_classes_there(short):
    on_gpu = Fit(short.posterior_, {"device": "gpu"})
    found = with_classes(on_gpu, NEW[:40], "cpu").transduction
    np.testing.assert_allclose(found, short.predict_proba(NEW[:40]), atol=2e-3)
    on_cpu = on_gpu._replace(diagnostics={"device": "cpu"})
    assert with_classes(on_cpu, NEW[:40], "cpu") is on_cpu


def test_the_posterior_answers_the_protocol(fitted):
    posterior = fitted.posterior_
    assert isinstance(posterior, EnginePosterior)
    assert isinstance(posterior, FunctionPosterior)
    assert isinstance(posterior, DensityPosterior)
    draws = fitted.sample_proba(NEW[:5], 2000, random_state=0)
    error = draws.std(axis=0) / np.sqrt(len(draws))
    assert (np.abs(draws.mean(axis=0) - fitted.predict_proba(NEW[:5])) < 5 * error + 5e-3).all()
    mean, variance = fitted.predict_latent(NEW[:5])
    assert mean.shape == variance.shape == (5, 3)
    assert (variance > 0).all()


def test_fantasies_lie_where_their_class_is_predicted(fitted):
    rows, labels = fitted.sample(300, random_state=1)
    assert np.mean(fitted.predict(rows) == labels) > 0.95
    only, same = fitted.sample(300, label=2, random_state=1)
    assert set(same.tolist()) == {2}
    assert np.mean(fitted.predict(only) == 2) > 0.95


def test_rejection_is_likely_in_the_sea(fitted):
    assert fitted.predict_rejection(NEW).mean() < fitted.predict_rejection([[0.0, 0.0]])[0]


def test_tail_ranks_are_even_at_home_and_zero_far_away(fitted):
    ranks = fitted.tail_rank(NEW)
    # 1400 rows stand for their kind, 3000 are ranked: Kolmogorov's gap, and what learning adds.
    gap = np.abs(np.sort(ranks) - (np.arange(3000) + 0.5) / 3000).max()
    assert gap < 0.1
    assert np.mean(ranks < 0.01) < 0.03
    corners = NEW.mean(axis=0) + 3 * NEW.std(axis=0) * np.array(
        [[1, 1], [1, -1], [-1, 1], [-1, -1]]
    )
    assert (fitted.tail_rank(corners) < 0.01).all()
    np.testing.assert_array_equal(fitted.novelty(corners), 1.0 - fitted.tail_rank(corners))


def test_a_seed_gives_the_same_fit_and_chunks_give_that_of_arrays(short):
    chunks = RowChunks.from_arrays(X, Y, chunk_rows=500)
    from_chunks = ArchipelagoClassifier(**SHORT).fit(chunks)
    np.testing.assert_array_equal(from_chunks.predict_proba(NEW), short.predict_proba(NEW))
    assert not hasattr(from_chunks, "transduction_")


def test_a_fit_that_was_stopped_goes_on_to_the_same_numbers_and_tells_how(
    short, tmp_path, monkeypatch, at_a_terminal
):
    settings = SHORT | {"checkpoint": str(tmp_path / "run")}

    def stop(self, n, **numbers):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Progress, "tell", stop)
        with pytest.raises(KeyboardInterrupt):
            ArchipelagoClassifier(**settings).fit(X, Y)
    assert (tmp_path / "run" / "start-0.npz").exists()
    resumed = ArchipelagoClassifier(**settings, verbose=True).fit(X, Y)
    shown = at_a_terminal.readouterr().err
    assert "bound=" in shown
    assert "Z=" in shown
    assert "log_variance=" in shown
    np.testing.assert_array_equal(resumed.predict_proba(NEW), short.predict_proba(NEW))
    with pytest.raises(ValueError, match="belongs to another run"):
        ArchipelagoClassifier(**settings | {"n_inducing": 31}).fit(X, Y)


@pytest.mark.slow
def test_starts_are_weighted_by_their_bounds():
    model = ArchipelagoClassifier(**SHORT | {"n_starts": 2}).fit(X, Y)
    bounds, weights = model.diagnostics_["bounds"], model.diagnostics_["start_weights"]
    assert len(bounds) == 2
    assert weights.sum() == pytest.approx(1.0)
    assert weights[0] / max(weights[1], 1e-300) == pytest.approx(
        np.exp(np.clip(bounds[0] - bounds[1], -690, 690)), rel=1e-6
    )


WITHOUT_JAX = """
import sys
sys.modules["jax"] = None
import numpy as np
from atoll import load_model
model = load_model(sys.argv[1])
X = np.load(sys.argv[2])
np.save(sys.argv[3], np.c_[model.predict_proba(X), model.score_samples(X), model.novelty(X)])
"""


def test_a_saved_model_predicts_without_jax(short, tmp_path):
    model, rows, answer = (tmp_path / name for name in ("m.atoll", "x.npy", "p.npy"))
    save_model(short, model)
    np.save(rows, NEW[:50])
    run = subprocess.run([sys.executable, "-c", WITHOUT_JAX, model, rows, answer], check=False)
    assert run.returncode == 0
    found = np.load(answer)
    np.testing.assert_array_equal(found[:, :3], short.predict_proba(NEW[:50]))
    loaded = load_model(model)
    np.testing.assert_array_equal(found[:, 4], loaded.novelty(NEW[:50]))


# Which inference takes what -----------------------------------------------------------------------


def choice(n, y=Y, **parameters):
    model = ArchipelagoClassifier(**parameters)
    _, labels = model._read_training(X, y)
    return choose_inference(model, n, labels)


def test_partial_fit_goes_on_with_more_rows_and_so_does_a_saved_model(tmp_path):
    """Half of the rows, then the rest: not much is lost against all of them at once."""
    half = len(X) // 2
    order = np.argsort(Y < 0, kind="stable")  # labelled rows first
    first, rest = order[:half], order[half:]
    model = ArchipelagoClassifier(**SHORT).partial_fit(X[first], Y[first])
    assert not hasattr(model, "transduction_")
    save_model(model, tmp_path / "half.atoll")
    model.partial_fit(X[rest], Y[rest])
    assert model.online_.counts.sum() == len(X)
    assert "1400 rows have come in 2 calls" in model.diagnostics_["verdict"]
    assert np.mean(model.predict(X) == TRUTH) > 0.95
    again = load_model(tmp_path / "half.atoll").partial_fit(X[rest], Y[rest])
    np.testing.assert_allclose(again.predict_proba(X[:50]), model.predict_proba(X[:50]), atol=1e-6)
    model.fit(X, Y)
    assert not hasattr(model, "online_")


def test_partial_fit_says_what_it_does_not_take():
    with pytest.raises(ValueError, match=r"partial_fit is of the engine and inference='mcmc'"):
        ArchipelagoClassifier(inference="mcmc").partial_fit(X, Y)
    with pytest.raises(ValueError, match=r"partial_fit does not take a class without a label"):
        ArchipelagoClassifier().partial_fit(X, Y, classes=[0, 1, 2, 3])


def test_auto_is_exact_for_few_rows_and_says_where_it_is_not():
    assert choice(100) == ("mcmc", "")
    found = choice(101)
    assert found.method == "vi"
    assert "approximate" in found.remark
    assert choice(101, inference="mcmc") == ("mcmc", "")
    assert choice(50, inference="vi") == ("vi", "")


def test_auto_is_exact_where_the_engine_cannot_be(monkeypatch):
    found = choice(2000, own_kernels=True)
    assert found.method == "mcmc"
    assert "own_kernels=True" in found.remark
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    found = choice(2000)
    assert found.method == "mcmc"
    assert 'pip install "atoll[scale]"' in found.remark


@pytest.mark.parametrize(
    ("parameters", "named"),
    [
        ({"own_kernels": True}, "own_kernels=True"),
        ({"dependent": True}, "dependent=True"),
        ({"moves": "paper"}, "moves='paper'"),
        ({"base_density": "sampled-gaussian"}, "a base density that is sampled"),
        ({"extra_classes": 1}, "a class without a label"),
    ],
)
def test_what_the_engine_does_not_take_is_refused_by_name(parameters, named):
    with pytest.raises(ValueError, match=r"inference='vi' does not take") as error:
        ArchipelagoClassifier(**ENGINE | parameters).fit(X, Y)
    assert named in str(error.value)


def test_a_device_that_is_not_there_is_named():
    with pytest.raises(ValueError, match=r"device='gpu': JAX has none here"):
        ArchipelagoClassifier(**SHORT | {"device": "gpu"}).fit(X, Y)


def test_too_many_rows_for_chains_are_refused_before_any_work():
    many = np.repeat(X, 4, axis=0)
    with pytest.raises(ValueError, match=r"takes at most 5000 rows and X has 5600"):
        ArchipelagoClassifier(inference="vi+hmc").fit(many, np.tile(Y, 4))


@pytest.mark.slow
def test_a_given_base_density_and_constant_columns_are_taken():
    rows = np.c_[X, np.full(len(X), 7.0)]
    base = Gaussian(rows.mean(axis=0), np.diag([1.2, 1.2, 1e-3]))
    model = ArchipelagoClassifier(**SHORT | {"base_density": base}).fit(rows, Y)
    assert np.mean(model.transduction_ == TRUTH) > 0.9


@pytest.mark.slow
def test_chains_from_the_engine_are_near_exact_chains():
    """Class probabilities of new rows; two exact runs of this length differ by about .01.

    Under one kernel: by itself the engine takes one with detail, another model.
    """
    rows, truth = make_pinwheel(240, n_classes=2, random_state=5)
    y = hide_labels(truth[:40], per_class=3, random_state=0)
    chains = {"n_chains": 2, "n_warmup": 150, "n_samples": 150, "random_state": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # short chains say that they are short
        exact, engine = (
            ArchipelagoClassifier(inference=how, kernel="isotropic", **chains).fit(rows[:40], y)
            for how in ("mcmc", "vi+hmc")
        )
    assert engine.inference_ == "vi+hmc"
    assert set(engine.draws_) >= {"log_likelihood", "log_variance", "log_length_scale"}
    p, q = (model.predict_proba(rows[40:]) for model in (exact, engine))
    assert np.abs(p - q).mean() < 0.06
    assert engine.label_distributions_.shape == (40, 2)


def test_the_time_foretold_of_very_many_rows_is_that_of_the_engine():
    many, truth = make_pinwheel(20_000, n_classes=3, random_state=0)
    y = hide_labels(truth, per_class=1, marker=None, random_state=0)
    assert expected_seconds(ArchipelagoClassifier(random_state=0), many, y) < 600


# Labels held out ----------------------------------------------------------------------------------


def test_classes_that_are_no_islands_are_not_believed_and_the_verdict_says_so():
    """Every arm has labels of several classes: probabilities are near the classes' shares."""
    labels, rng = np.full(len(X), -1), np.random.default_rng(7)
    for arm, count in enumerate((3, 3, 2)):
        labels[rng.permutation(np.flatnonzero(arm == TRUTH))[:count]] = np.arange(3)[:count]
    with pytest.warns(ConvergenceWarning, match="use AtollClassifier"):
        model = ArchipelagoClassifier(**SHORT | {"n_folds": 2}).fit(X, labels)
    found = model.diagnostics_["held_out"]
    assert found["belief"] < LEAST_BELIEF
    assert found["n_labels"] == 8
    assert "labels held out in turn" in model.diagnostics_["verdict"]
    assert "use AtollClassifier" in model.diagnostics_["verdict"]
    p, own = model.predict_proba(NEW), model.posterior_._replace(doubt=0.0)
    np.testing.assert_allclose(
        p,
        found["belief"] * np.exp(own.log_proba(NEW))
        + (1 - found["belief"]) * np.array(found["shares"]),
    )
    draws = model.posterior_.draws(NEW[:5], 400, rng)
    np.testing.assert_allclose(draws.sum(axis=2), 1.0)
    assert (draws >= model.posterior_.doubt - 1e-12).all()
    shares = -np.log(1 / 3)
    assert log_loss(p, rng.integers(3, size=len(p))) < shares + 0.2
    assert log_loss(np.exp(own.log_proba(NEW)), rng.integers(3, size=len(p))) > shares + 0.5


def test_islands_are_believed_where_classes_are_islands(short):
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        model = ArchipelagoClassifier(**SHORT | {"n_folds": 2}).fit(X, Y)
    found = model.diagnostics_["held_out"]
    assert found["belief"] > 0.9
    assert found["error"] == 0.0
    assert "held_out" not in short.diagnostics_
    own = model.posterior_._replace(doubt=0.0)
    np.testing.assert_allclose(own.log_proba(NEW), short.posterior_.log_proba(NEW))


def log_loss(p, y):
    return -np.log(np.maximum(p[np.arange(len(y)), y], 1e-12)).mean()
