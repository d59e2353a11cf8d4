"""What ArchipelagoClassifier and ArchipelagoDensity offer beyond the other classifiers."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import Hyperparameter, Kernel

from atoll.datasets import hide_labels, make_pinwheel
from atoll.estimators import ArchipelagoClassifier, ArchipelagoDensity, sampling
from atoll.models.archipelago import process, sweep

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

SHORT = {"n_chains": 2, "n_warmup": 30, "n_samples": 30, "thin": 1, "random_state": 0}
SHORTEST = SHORT | {
    "n_warmup": 4,
    "n_samples": 3,
    "base_density": "gaussian",
}  # where any fit will do
X, TRUTH = make_pinwheel(40, n_classes=3, random_state=0)
Y = hide_labels(TRUTH, per_class=2, random_state=0)


@pytest.fixture(scope="module")
def fitted():
    return ArchipelagoClassifier(**SHORT).fit(X, Y)


def test_labels_of_islands_are_found_from_two_labels_each(fitted):
    assert np.mean(fitted.transduction_ == TRUTH) > 0.9


@pytest.mark.parametrize("model", [ArchipelagoClassifier, ArchipelagoDensity])
def test_a_sea_deeper_than_the_model_holds_is_remarked_on_and_ends_no_fit(monkeypatch, model):
    """It was an error, after minutes."""
    monkeypatch.setattr(process, "most_proposals", lambda n: n + 2)
    monkeypatch.setattr(sweep, "MOST_REFUSED", 1)
    labels = [Y[:20]] if model is ArchipelagoClassifier else []
    deep = model(**SHORTEST).fit(X[:20], *labels)
    assert deep.draws_["n_rejections"].max() <= 2
    assert "nearly as many rejections as the model allows (2)" in deep.diagnostics_["verdict"]
    assert np.all(np.isfinite(deep.score_samples(X)))


def test_rejection_is_likely_between_islands_and_not_on_them(fitted):
    on_islands, far = fitted.predict_rejection(X), fitted.predict_rejection([[0.0, 0.0]])
    assert np.all((on_islands >= 0) & (on_islands <= 1))
    assert on_islands.mean() < far[0]


def test_density_is_higher_at_rows_than_far_away(fitted):
    scores = fitted.score_samples(np.vstack([X, [[8.0, 8.0]]]))
    assert scores[:-1].min() > scores[-1]


def test_fantasies_of_a_class_lie_where_that_class_is_predicted(fitted):
    rows, labels = fitted.sample(60, label=1, random_state=1)
    assert rows.shape == (60, 2)
    assert set(labels.tolist()) == {1}
    assert np.mean(fitted.predict(rows) == 1) > 0.6


def test_fantasies_of_all_classes_have_all_labels(fitted):
    rows, labels = fitted.sample(80, random_state=1)
    assert rows.shape == (80, 2)
    assert set(labels.tolist()) == {0, 1, 2}


def test_fantasies_have_the_classes_asked_for_row_by_row(fitted):
    wanted = [2, 0, 0, 1, 2]
    rows, labels = fitted.sample(5, label=wanted, random_state=1)
    assert rows.shape == (5, 2)
    assert labels.tolist() == wanted


def test_an_unknown_label_is_named(fitted):
    with pytest.raises(ValueError, match=r"label=7 is none of the classes \[0, 1, 2\]"):
        fitted.sample(3, label=7)


def test_extra_classes_are_named_and_have_probabilities():
    known = np.where(TRUTH == 2, -1, Y)
    model = ArchipelagoClassifier(extra_classes=1, unlabelled=-1, **SHORTEST).fit(X, known)
    assert model.classes_.tolist() == [0, 1, 2]
    assert model.predict_proba(X).shape == (40, 3)
    words = np.array(["a", "b", None], dtype=object)[known]  # -1 is the last
    model = ArchipelagoClassifier(extra_classes=1, **SHORTEST).fit(X, words)
    assert model.classes_.tolist() == ["a", "b", "extra 1"]


def test_classes_may_be_named_without_a_labelled_row():
    model = ArchipelagoClassifier(classes=[2, 1, 0, 9], **SHORTEST).fit(X, Y)
    assert model.classes_.tolist() == [2, 1, 0, 9]


@pytest.mark.parametrize("extra", [-1, 0.5, True])
def test_extra_classes_that_are_no_count_are_refused(extra):
    with pytest.raises(ValueError, match="extra_classes must be "):
        ArchipelagoClassifier(extra_classes=extra).fit(X, Y)


def test_own_kernels_and_dependent_functions_fit():
    model = ArchipelagoClassifier(own_kernels=True, dependent=True, **SHORTEST).fit(X, Y)
    assert len(model.kernel_) == 3
    assert {f"log_length_scale_of_class_{k}" for k in range(3)} <= model.draws_.keys()
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.0, atol=1e-12)


@pytest.mark.parametrize("moves", ["paper", "paper-whitened"])
def test_the_papers_moves_fit(moves):
    model = ArchipelagoClassifier(moves=moves, **SHORTEST).fit(X, Y)
    assert model.predict_proba(X).shape == (40, 3)


@pytest.mark.parametrize(
    "base",
    [
        *("gaussian", "sampled-gaussian", "student-t"),
        pytest.param("mixture", marks=pytest.mark.slow),
    ],
)
def test_every_named_base_density_fits(base):
    model = ArchipelagoClassifier(**SHORTEST | {"base_density": base}).fit(X, Y)
    assert np.isfinite(model.score_samples(X)).all()
    assert model.base_density_reason_ == "as asked for"


class UniformSquare:
    """Proposes rows in the unit square only."""

    def sample(self, rng, n):
        return rng.random((n, 2))

    def log_density(self, X):
        inside = np.all((X >= 0) & (X <= 1), axis=1)
        return np.where(inside, 0.0, -np.inf)


def test_a_base_density_that_misses_a_row_is_refused_by_its_number():
    first = int(np.flatnonzero(~np.all((X >= 0) & (X <= 1), axis=1))[0])
    with pytest.raises(ValueError, match=f"log-density -inf at row {first}"):
        ArchipelagoClassifier(base_density=UniformSquare(), **SHORT).fit(X, Y)


@pytest.mark.parametrize("base", ["uniform", 3])
def test_what_is_no_base_density_is_refused(base):
    with pytest.raises(ValueError, match="base_density must be "):
        ArchipelagoClassifier(base_density=base, **SHORT).fit(X, Y)


def test_one_class_is_refused():
    with pytest.raises(ValueError, match="one class"):
        ArchipelagoClassifier(unlabelled=-1, **SHORT).fit(X, np.where(Y == 0, 0, -1))


def test_more_classes_than_rows_are_refused():
    with pytest.raises(ValueError, match="43 classes are more than the 40 rows"):
        ArchipelagoClassifier(extra_classes=40, **SHORT).fit(X, Y)


def test_unknown_moves_are_refused():
    with pytest.raises(ValueError, match=r"moves must be .*, got 'gibbs'"):
        ArchipelagoClassifier(moves="gibbs", **SHORT).fit(X, Y)


def test_chain_weights_sum_to_one_and_weight_the_draws(fitted):
    np.testing.assert_allclose(fitted.chain_weights_.sum(), 1.0)
    weights = np.exp(fitted.posterior_.log_weights)
    by_chain = [weights[fitted.posterior_.chains == c].sum() for c in range(2)]
    np.testing.assert_allclose(by_chain, fitted.chain_weights_, atol=1e-12)


def test_a_run_cut_in_two_gives_the_draws_of_one_that_was_not(tmp_path):
    settings = {**SHORTEST, "n_chains": 1, "checkpoint": str(tmp_path / "chains")}
    ArchipelagoClassifier(**{**settings, "n_samples": 3}).fit(X, Y)
    resumed = ArchipelagoClassifier(**settings).fit(X, Y)
    straight = ArchipelagoClassifier(**{**settings, "checkpoint": None}).fit(X, Y)
    np.testing.assert_array_equal(resumed.draws_["n_rejections"], straight.draws_["n_rejections"])
    np.testing.assert_array_equal(resumed.predict_proba(X), straight.predict_proba(X))


def test_rows_are_looked_at_where_all_else_has_mixed(monkeypatch):
    """And chains whose rows have not mixed draw on."""
    monkeypatch.setattr(ArchipelagoClassifier, "patience", sampling.Patience((4, 6, 8, 10)))
    seen = []

    def goes_on(patience, found):
        if "row_probabilities" in found["r_hat"]:
            seen.append(found["n_draws"])
            return found["n_draws"] < 8
        return found["n_draws"] < 6

    monkeypatch.setattr(sampling.Patience, "goes_on", goes_on)
    model = ArchipelagoClassifier(**{**SHORTEST, "n_samples": "auto"}).fit(X, Y)
    assert seen == [6, 8]
    assert model.diagnostics_["n_draws"] == 8
    assert "row_probabilities" in model.diagnostics_["r_hat"]


# Rows that are not vectors ------------------------------------------------------------------------


class SharedLetters(Kernel):
    """Share of letters that two words have in common, as a positive definite kernel."""

    requires_vector_input = False

    def __init__(self, scale=1.0, scale_bounds=(1e-3, 1e3)):
        self.scale, self.scale_bounds = scale, scale_bounds

    @property
    def hyperparameter_scale(self):
        return Hyperparameter("scale", "numeric", self.scale_bounds)

    def __call__(self, X, Y=None, eval_gradient=False):
        a, b = self._counts(X), self._counts(X if Y is None else Y)
        return self.scale * (a @ b.T)

    def diag(self, X):
        return np.full(len(X), self.scale)

    def is_stationary(self):
        return False

    def _counts(self, words):
        counts = np.array([[word.count(letter) for letter in "abcd"] for word in words], float)
        counts += 0.1
        return counts / np.linalg.norm(counts, axis=1, keepdims=True)


class RandomWords:
    """Words of four letters, each letter as likely as any other."""

    def sample(self, rng, n):
        words = np.empty(n, dtype=object)
        words[:] = ["".join(rng.choice(list("abcd"), size=4)) for _ in range(n)]
        return words

    def log_density(self, X):
        return np.full(len(X), -4 * np.log(4.0))


@pytest.mark.slow
def test_words_are_classified_by_a_kernel_and_a_base_density_on_words():
    words = ["aaab", "abaa", "baaa", "aaaa", "cddd", "ddcd", "dddd", "dcdd", "aabb", "ccdd"]
    y = ["first", None, None, "first", "second", None, None, "second", None, None]
    model = ArchipelagoClassifier(
        kernel=SharedLetters(4.0), base_density=RandomWords(), **SHORT | {"n_samples": 10}
    ).fit(words, y)
    assert model.predict(["aaba", "dddc"]).tolist() == ["first", "second"]
    assert model.sample(5, random_state=0)[0].shape == (5,)
    assert model.predict_rejection(["aaaa"]).shape == (1,)


def test_words_need_a_base_density_on_words_and_no_checkpoint(tmp_path):
    words, y = ["aaab", "abaa", "cddd"], [0, 1, 0]
    with pytest.raises(ValueError, match="for rows of numbers; give an object"):
        ArchipelagoClassifier(kernel=SharedLetters(), **SHORT).fit(words, y)
    with pytest.raises(ValueError, match="checkpoint= needs rows of numbers"):
        ArchipelagoClassifier(
            kernel=SharedLetters(), base_density=RandomWords(), checkpoint=str(tmp_path), **SHORT
        ).fit(words, y)


# The density --------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_density_is_high_on_heaps_and_low_between_them():
    rng = np.random.default_rng(0)
    rows = np.concatenate([rng.normal(-2, 0.5, 20), rng.normal(2, 0.5, 20)])[:, None]
    model = ArchipelagoDensity(**SHORT | {"n_samples": 60}).fit(rows)
    middle, heap = np.exp(model.score_samples([[0.0], [2.0]]))
    assert heap > 2 * middle
    assert model.predict_rejection([[0.0]])[0] > model.predict_rejection([[2.0]])[0]
    assert model.sample(20, random_state=0).shape == (20, 1)


def test_a_density_takes_no_labels():
    with pytest.raises(ValueError, match="takes no labels"):
        ArchipelagoDensity().fit(X, Y)
