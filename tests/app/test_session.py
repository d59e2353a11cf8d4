from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from app.conftest import NearestLearner, up_to_date, wait_for
from atoll.active import ActiveLearner
from atoll.app import StaleError
from atoll.app import features as features_module
from atoll.app import session as session_module
from atoll.app.export import export_labels
from atoll.estimators.category_weight import CategoryWeight

pytestmark = pytest.mark.usefixtures("hurried")  # the classifiers are not on trial


def front(session, tab="a"):
    return session.state(tab)["queue"][0]


def answer(session, label, tab="a"):
    ask = front(session, tab)
    session.answer("label", ask["row"], ask["seen"], label=label, is_audit=ask["audit"])
    return ask["row"]


def settle(session):
    wait_for(lambda: up_to_date(session))


def labels_of(session):
    return {r: e.label for r, e in session.log.answers.given.items() if e.kind == "label"}


def test_the_next_rows_are_there_while_a_fit_is_under_way(table, open_session):
    learner = NearestLearner()
    session = open_session(table, learner=learner)
    learner.gate.clear()
    seen = [answer(session, "cat") for _ in range(6)]
    assert len(set(seen)) == 6
    assert not up_to_date(session)
    assert len(session.state("a")["queue"]) >= 8
    learner.gate.set()
    settle(session)
    assert learner.n_labels_ == 8


def test_someone_who_is_faster_than_the_model_never_waits(table, open_session):
    learner = NearestLearner()
    session = open_session(table, learner=learner)
    learner.gate.clear()
    rows = [answer(session, "cat") for _ in range(28)]
    assert len(set(rows)) == 28
    n_audits = sum(event.is_audit for event in session.log.answers.given.values())
    assert 5 <= n_audits <= 6
    assert not session.state("a")["done"]
    learner.gate.set()
    settle(session)
    assert session.state("a")["done"]
    assert learner.n_labels_ == 30


def test_a_row_that_another_tab_has_answered_is_not_overwritten(table, open_session):
    session = open_session(table)
    ask = front(session, "a")
    session.answer("label", ask["row"], ask["seen"], label="cat")
    with pytest.raises(StaleError, match="labelled 'cat' in another tab"):
        session.answer("label", ask["row"], ask["seen"], label="dog")
    assert labels_of(session)[ask["row"]] == "cat"
    assert ask["row"] in session.state("a", have=[ask["row"]])["gone"]


def test_two_tabs_are_given_different_rows(table, open_session):
    session = open_session(table)
    first = {ask["row"] for ask in session.state("a")["queue"]}
    second = {ask["row"] for ask in session.state("b")["queue"]}
    assert first
    assert second
    assert first.isdisjoint(second)


def test_undo_takes_back_what_the_page_last_saw_and_nothing_else(table, open_session):
    session = open_session(table)
    row = answer(session, "cat", "a")
    number = session.state("a")["last"]
    other = answer(session, "dog", "b")
    with pytest.raises(StaleError, match="another tab has answered since"):
        session.undo(number)
    assert set(labels_of(session)) == {row, other}
    assert session.undo(session.state("a")["last"]) == other
    assert set(labels_of(session)) == {row}


def test_undo_and_redo_reach_the_learner(table, open_session):
    learner = NearestLearner()
    session = open_session(table, learner=learner)
    row = answer(session, "cat")
    skip = front(session)
    session.answer("skip", skip["row"], skip["seen"])
    settle(session)
    assert learner.history.skipped == (skip["row"],)
    for _ in range(2):
        session.undo(session.log.answers.last)
    settle(session)
    assert learner.history.labels == learner.history.start
    assert front(session)["row"] == row
    session.redo(session.log.answers.next_redo)
    settle(session)
    assert learner.history.labels[row] == "cat"
    with pytest.raises(StaleError, match="another tab"):
        session.redo(999)
    session.redo(session.log.answers.next_redo)
    settle(session)
    assert learner.history.skipped == (skip["row"],)
    with pytest.raises(StaleError, match="nothing to redo"):
        session.redo(1)


def test_a_skipped_row_comes_back_last_and_an_unsure_one_never(table, open_session):
    session = open_session(table)
    skipped, unsure = front(session), None
    session.answer("skip", skipped["row"], skipped["seen"])
    settle(session)
    unsure = front(session)
    session.answer("unsure", unsure["row"], unsure["seen"])
    settle(session)
    asked = []
    while True:
        state = session.state("a")
        if state["done"]:
            break
        if state["queue"]:
            asked.append(state["queue"][0]["row"])
            answer(session, "cat")
        settle(session)
    assert asked[-1] == skipped["row"]
    assert unsure["row"] not in asked
    assert len(asked) == len(set(asked)) == 27
    assert session.state("a")["counts"]["unsure"] == 1


def test_a_new_class_is_added_with_its_first_label(table, open_session):
    session = open_session(table)
    answer(session, " <b>fox</b> ")
    assert session.classes == ["cat", "dog", "<b>fox</b>"]
    session.add_class("owl")
    session.add_class("owl")
    state = session.state("a")
    assert state["classes"] == ["cat", "dog", "<b>fox</b>", "owl"]
    assert state["counts"]["by_class"] == {"cat": 1, "dog": 1, "<b>fox</b>": 1, "owl": 0}
    settle(session)


@pytest.mark.parametrize("name", ["z" * 10_000, "", None, 7])
def test_a_name_that_is_no_class_leaves_everything_as_it_was(table, open_session, name):
    session = open_session(table)
    before = session.log.path.read_bytes()
    ask = front(session)
    with pytest.raises(ValueError):
        session.answer("label", ask["row"], ask["seen"], label=name)
    with pytest.raises(ValueError):
        session.add_class(name)
    assert session.log.path.read_bytes() == before


def test_classes_of_a_column_of_numbers_are_numbers(tmp_path, open_session):
    path = tmp_path / "data.csv"
    pd.DataFrame({"x": [0.0, 1.0, 2.0], "kind": [1, 2, None]}).to_csv(path, index=False)
    session = open_session(path)
    with pytest.raises(ValueError, match="whole numbers, and 'fox' is none"):
        answer(session, "fox")
    answer(session, "3")
    n = export_labels(session, tmp_path / "out.csv")
    assert n == 3
    assert pd.read_csv(tmp_path / "out.csv")["kind"].tolist() == [1, 2, 3]


def test_a_label_in_the_data_is_not_answered_over(table, open_session):
    session = open_session(table)
    with pytest.raises(ValueError, match="row 1 has the label 'cat' in the data"):
        session.answer("label", 0, 0, label="dog")
    assert not labels_of(session)


@pytest.mark.parametrize("row", [-1, 30, 10**12])
def test_a_row_that_is_not_there_cannot_be_answered(table, open_session, row):
    session = open_session(table)
    with pytest.raises(ValueError, match="no row"):
        session.answer("label", row, 0, label="cat")


def test_a_fit_that_fails_is_told_and_answers_are_kept(table, open_session):
    learner = NearestLearner()
    session = open_session(table, learner=learner)
    learner.fault = ValueError("no neighbours\nat all")
    row = answer(session, "cat")
    settle(session)
    state = session.state("a")
    assert state["problem"] == "The model could not be fitted: no neighbours at all"
    assert state["queue"]
    assert row in labels_of(session)
    learner.fault = None
    answer(session, "cat")
    settle(session)
    assert session.state("a")["problem"] is None


def test_a_session_goes_on_where_it_stopped_audits_included(table, open_session):
    first = NearestLearner()
    session = open_session(table, learner=first)
    for number in range(12):
        row = front(session)["row"]
        answer(session, "cat" if row < 15 else "dog")
        if number == 6:
            session.undo(session.log.answers.last)
        settle(session)
    ask = front(session)
    session.answer("unsure", ask["row"], ask["seen"])
    settle(session)
    numbers = session.snapshot.numbers
    assert numbers["n_audits"] > 0
    session.close()
    second = NearestLearner()
    again = open_session(table, learner=second)
    assert again.snapshot.numbers == numbers
    assert second.history.labels == first.history.labels
    assert second.history.skipped == first.history.skipped
    assert front(again)["row"] == front(session)["row"]
    assert again.classes == session.classes


def test_classes_named_at_the_start_need_not_be_named_again(tmp_path, open_session):
    path = tmp_path / "pets.csv"
    pd.DataFrame({"height": np.arange(9.0), "weight": 1.0}).to_csv(path, index=False)
    session = open_session(path, learner=NearestLearner(), classes=["cat", "dog"])
    answer(session, "dog")
    session.close()
    again = open_session(path, learner=NearestLearner())
    assert again.state("a")["counts"]["by_class"] == {"dog": 1}
    assert again.colours()["classes"] == ["dog"]


def test_rows_are_left_where_the_model_fails_before_it_has_asked_for_them_all(
    table, open_session, monkeypatch
):
    monkeypatch.setattr(session_module, "RESERVE", 0)
    learner = NearestLearner()
    session = open_session(table, learner=learner)
    learner.fault = ValueError("no neighbours at all")
    for _ in range(24):
        answer(session, "cat")
    settle(session)
    state = session.state("a")
    assert state["problem"]
    assert not state["queue"]
    assert not state["done"]


def test_an_audit_is_answered_without_a_hint(table, open_session):
    session = open_session(table)
    queue = session.state("a")["queue"]
    assert any(ask["audit"] for ask in queue)
    for ask in queue:
        assert ("guess" in ask) != ask["audit"]


def test_an_audit_that_is_corrected_keeps_what_was_predicted_before_it_was_learnt(
    table, open_session
):
    session = open_session(table)
    while not front(session)["audit"]:
        answer(session, "cat")
        settle(session)
    row = answer(session, "dog")  # a slip
    first = session.log.answers.given[row]
    assert (first.is_audit, first.predicted) == (True, "cat")
    settle(session)  # the model has learnt the slip
    session.undo(session.log.answers.last)
    again = session.shown_again(row, "a")
    assert again["audit"]
    session.answer("label", row, again["seen"], label="cat", is_audit=True)
    second = session.log.answers.given[row]
    assert second[3:6] == first[3:6]
    settle(session)
    assert session.snapshot.numbers["n_wrong"] == 0


def test_a_row_that_was_not_given_as_an_audit_cannot_be_one(table, open_session):
    session = open_session(table)
    ask = next(ask for ask in session.state("a")["queue"] if not ask["audit"])
    session.answer("label", ask["row"], ask["seen"], label="cat", is_audit=True)
    assert not session.log.answers.given[ask["row"]].is_audit


def test_the_picture_has_a_place_and_a_colour_for_every_row(table, open_session):
    session = open_session(table)
    wait_for(lambda: session.picture())
    answer(session, "owl")
    picture, colours = session.picture(), session.colours()
    assert picture["rows"] == list(range(30))
    assert len(picture["x"]) == len(colours["codes"]) == len(colours["sureness"]) == 30
    assert set(colours["labelled"]) == {0, 1, 29}
    assert colours["classes"] == ["cat", "dog", "owl"]
    assert (colours["codes"][1], colours["sureness"][1]) == (2, 100)
    settle(session)
    assert np.isin(session.colours()["codes"], [0, 1, 2]).all()


def test_an_export_with_predictions_says_what_the_model_holds(table, open_session, tmp_path):
    session = open_session(table)
    answer(session, "cat")
    settle(session)
    before = table.read_bytes()
    assert export_labels(session, tmp_path / "out.parquet", with_predictions=True) == 3
    frame = pd.read_parquet(tmp_path / "out.parquet")
    assert frame["kind"].notna().sum() == 3
    assert frame["kind_predicted"].isin(["cat", "dog"]).all()
    assert (frame["kind_probability"] > 0.5).all()
    assert table.read_bytes() == before


def test_the_learner_of_the_library_fits_the_session(table, open_session):
    learner = ActiveLearner(
        classes=["cat", "dog"], target_error=0.1, unlabelled=None, random_state=0, n_draws=32
    )
    session = open_session(table, learner=learner)
    for _ in range(11):
        row = front(session)["row"]
        answer(session, "cat" if row < 15 else "dog")
        settle(session)
    assert session.state("a")["problem"] is None
    numbers = session.snapshot.numbers
    assert numbers["n_audits"] >= 1
    assert numbers["n_unlabelled"] == 17
    assert 0 <= numbers["error"] <= numbers["upper"] <= 1
    session.undo(session.log.answers.last)
    settle(session)
    assert learner.n_labels_ == 12
    session.close()
    fresh = ActiveLearner(
        classes=["cat", "dog"], target_error=0.1, unlabelled=None, random_state=0, n_draws=32
    )
    again = open_session(table, learner=fresh)
    assert again.snapshot.numbers["n_audits"] == session.snapshot.numbers["n_audits"]
    assert fresh.n_labels_ == 12


def test_a_session_begins_without_any_label(tmp_path, open_session):
    path = tmp_path / "data.csv"
    rng = np.random.default_rng(0)
    pd.DataFrame({"x": rng.normal(size=20), "z": rng.normal(size=20)}).to_csv(path, index=False)
    learner = ActiveLearner(unlabelled=None, random_state=0, n_draws=32)
    session = open_session(path, target="kind", learner=learner)
    state = session.state("a")
    assert state["classes"] == []
    assert state["queue"]
    assert all("guess" not in ask for ask in state["queue"])
    assert state["numbers"]["error"] is None
    answer(session, "left")
    settle(session)
    answer(session, "right")
    settle(session)
    assert session.state("a")["problem"] is None
    assert set(session.snapshot.classes) == {"left", "right"}


def test_what_categories_count_is_asked_at_every_doubling_of_the_labels(
    table, open_session, monkeypatch
):
    asked = []

    def weigh(X, are_categories, labels):
        asked.append(labels.n_labelled)
        return CategoryWeight(0.5 if labels.n_labelled >= 4 else 1.0, 1.0)

    monkeypatch.setattr(features_module, "weigh_features", weigh)
    session = open_session(table)  # with two labels
    plain = session.features.X
    for label in ("cat", "dog", "cat", "dog"):
        answer(session, label)
        settle(session)
    assert asked == [2, 4]
    weights = np.where(session.features.categories, 0.5, 1.0)
    np.testing.assert_allclose(session._learner.X, plain * weights)
    for _ in range(3):
        session.undo(session.log.answers.last)
        settle(session)
    np.testing.assert_allclose(session._learner.X, plain)
