"""`atoll next`: rows to label, answers read back, and what goes wrong with them."""

from __future__ import annotations

import re
import shlex

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from atoll import GraphGPClassifier, load_model, make_preprocessor, save_model
from atoll.active import ActiveLearner
from atoll.core.tables import read_table
from program import fail, succeed

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.fixture
def folder(tmp_path):
    """Two clouds of 40 rows, four labelled by words; a quick model of them."""
    rng = np.random.default_rng(0)
    truth = np.array(["cat", "dog"] * 20)
    X = rng.standard_normal((40, 2)) + 4.0 * (truth == "dog")[:, None]
    frame = pd.DataFrame({"x": X[:, 0], "z": X[:, 1], "kind": truth})
    frame.to_csv(tmp_path / "truth.csv", index=False)
    frame.loc[4:, "kind"] = None
    frame.to_csv(tmp_path / "table.csv", index=False)
    succeed("fit", tmp_path / "table.csv", "--target", "kind", "--out", tmp_path / "m.atoll",
            "--model", "graph-gp", "--set", "n_draws=40", "--quiet")  # fmt: skip
    return tmp_path


def answered(folder, name):
    """Fill the labels in, as a person would."""
    asked = pd.read_csv(folder / name)
    truth = pd.read_csv(folder / "truth.csv")["kind"]
    asked["kind"] = truth.iloc[asked["row"] - 1].to_numpy()
    asked.to_csv(folder / name, index=False)
    return set(asked["row"])


def test_rounds_of_rows_and_answers_go_on_where_they_were(folder):
    base = ("next", folder / "m.atoll", folder / "table.csv", "-n", 6, "--out", folder / "ask.csv")
    said = succeed(*base, "--target-error", 0.3)
    assert "6 rows to label" in said
    assert re.search(r"By the model's own probabilities [\d.]+% of 36 unlabelled rows are", said)
    assert "No audit has checked that yet" in said
    assert "more audits must confirm it. An audit is a row drawn at random" in said
    first = answered(folder, "ask.csv")
    said = succeed(*base, "--answers", folder / "ask.csv", "--labelled", folder / "done.csv")
    assert "6 answers taken" in said
    assert f"with every label that is known saved in {folder / 'done.csv'}." in said
    assert re.search(r"own probabilities [\d.]+%, corrected by 1 audit, \d of them wrong", said)
    assert not first & answered(folder, "ask.csv")
    done = pd.read_csv(folder / "done.csv")
    truth = pd.read_csv(folder / "truth.csv")
    known = done["kind"].notna()
    assert known.sum() == 10
    assert (done["kind"] == truth["kind"])[known].all()


def test_after_the_last_round_the_commands_of_the_final_predictions_are_named(folder):
    truth = pd.read_csv(folder / "truth.csv")
    truth.to_csv(folder / "table.csv", index=False)
    base = ("next", folder / "m.atoll", folder / "table.csv", "--target-error", 0.3)
    assert "Final predictions: run this again with --labelled labelled.csv" in succeed(*base)
    said = succeed(*base, "--labelled", folder / "done.csv")
    fit, predict = re.findall(r"`atoll ([^`]*)`", said.partition("Final predictions: ")[2])
    assert "--model graph-gp --set n_draws=40 --set labels_chosen=true" in fit
    assert predict == f"predict final.atoll {folder / 'table.csv'} --out predictions.csv"
    succeed(*fit.replace("final.atoll", str(folder / "final.atoll")).split(), "--quiet")
    words = predict.replace("final.atoll", str(folder / "final.atoll"))
    succeed(*words.replace("predictions.csv", str(folder / "p.csv")).split(), "--quiet")
    assert len(pd.read_csv(folder / "p.csv")) == len(truth)


def test_the_last_fit_has_every_option_of_the_first(folder):
    """So that new labels are all that differs."""
    every = pd.read_csv(folder / "truth.csv").assign(**{"a note": "x", "name": range(40)})
    few = every.assign(kind=every["kind"].where(every.index < 20, "?"))
    few.to_csv(folder / "table.csv", index=False)
    given = (
        "--id name --drop 'a note' --no-encode --no-impute --no-standardise --unlabelled '?' "
        "--class-share cat=0.5 --set n_draws=40 --set scale=false --set labels_chosen=false "
        "--set classes=cat,dog --n-jobs 1 --seed 3"
    )
    data, model, done = folder / "table.csv", folder / "own.atoll", folder / "done.csv"
    succeed("fit", data, "--target", "kind", "--out", model, "--quiet", *shlex.split(given))
    every.to_csv(data, index=False)
    said = succeed("next", model, data, "--target-error", 0.9, "--labelled", done)
    fit, _ = re.findall(r"`atoll ([^`]*)`", said.partition("Final predictions: ")[2])
    words = shlex.split(fit)
    assert words[:4] == ["fit", str(done), "--target", "kind"]
    assert words[-4:] == ["--set", "labels_chosen=true", "--out", "final.atoll"]
    wanted = shlex.split(given.replace(" --set labels_chosen=false", ""))
    assert sorted(words[4:-4]) == sorted(wanted)
    last = folder / "final.atoll"
    succeed(*[str(last) if word == "final.atoll" else word for word in words], "--quiet")
    first, final = load_model(model), load_model(last)
    assert final.preprocessing.columns == first.preprocessing.columns
    parameters = first.estimator.get_params(deep=False) | {"labels_chosen": True}
    assert final.estimator.get_params(deep=False) == parameters


def test_of_a_model_that_cannot_be_told_of_picked_labels_the_last_fit_does_not_tell_it(folder):
    model, data = folder / "p.atoll", folder / "truth.csv"
    succeed("fit", data, "--target", "kind", "--out", model, "--quiet", "--model", "laplacian-rls")
    said = succeed("next", model, data, "--target-error", 0.9)
    assert "--target kind --model laplacian-rls --out final.atoll`" in said
    save_model(load_model(model)._replace(options=None), model)  # as older files are
    said = succeed("next", model, data, "--target-error", 0.9)
    assert "Add the options of your first fit, which this model file does not hold." in said


def test_rows_are_shown_with_reasons_and_the_table_itself_may_bring_labels(folder):
    base = ("next", folder / "m.atoll", folder / "table.csv", "-n", 5)
    said = succeed(*base)
    assert re.search(r"row +predicted +probability +why", said)
    assert "lowers the expected Brier score" in said
    assert "random row, to check the model" in said
    assert succeed(*base) == said
    frame = pd.read_csv(folder / "table.csv")
    frame.loc[10:14, "kind"] = pd.read_csv(folder / "truth.csv")["kind"][10:15]
    frame.to_csv(folder / "table.csv", index=False)
    assert "of 31 unlabelled rows" in succeed(*base)


def test_an_answer_is_withdrawn_by_a_question_mark_and_not_by_a_blank(folder):
    base = ("next", folder / "m.atoll", folder / "table.csv", "-n", 6)
    done = ("--labelled", folder / "done.csv")
    succeed(*base, "--out", folder / "ask.csv")
    asked = pd.read_csv(folder / "ask.csv")["row"].tolist()
    answered(folder, "ask.csv")
    succeed(*base, "--answers", folder / "ask.csv")
    frame = pd.read_csv(folder / "ask.csv")
    frame.loc[1, "kind"], frame.loc[2, "kind"] = None, "?"
    frame.loc[len(frame), "row"] = 1  # labelled in the table of rows, and blank here
    other = next(row for row in range(5, 41) if row not in asked)
    frame.loc[len(frame), "row"] = other  # not answered before
    frame.to_csv(folder / "ask.csv", index=False)
    said = succeed(*base, "--answers", folder / "ask.csv", *done)
    assert "4 answers taken" in said
    assert f"Withdrawn, since that is the answer now: row {asked[2]}." in said
    assert f"Blank here, and answered before: row {asked[1]}. Write ? to withdraw." in said
    known = pd.read_csv(folder / "done.csv")["kind"].notna()
    assert (np.flatnonzero(known) + 1).tolist() == sorted({*asked, 1, 2, 3, 4} - {asked[2]})
    assert "Withdrawn" not in succeed(*base, "--answers", folder / "ask.csv")


def test_a_loop_is_of_one_column_of_labels_and_of_the_model_as_it_is_fitted_now(folder):
    frame = pd.read_csv(folder / "table.csv")
    frame["kind"], frame["sex"] = frame["kind"], ["m", "f", *[None] * 38]
    frame.to_csv(folder / "both.csv", index=False)
    fit = ("fit", folder / "both.csv", "--out", folder / "m.atoll", "--quiet", "--model")
    succeed(*fit, "graph-gp", "--target", "kind", "--drop", "sex")
    ask = ("next", folder / "m.atoll", folder / "both.csv", "-n", 2)
    succeed(*ask)
    succeed(*fit, "informative-vector", "--target", "kind", "--drop", "sex")
    succeed(*ask)
    loop = ActiveLearner.load(folder / "m.next.atoll")
    assert type(loop.estimator).__name__ == "InformativeVectorClassifier"
    assert loop.n_labels_ == 4
    succeed(*fit, "graph-gp", "--target", "sex", "--drop", "kind")
    said = fail(*ask)
    assert "m.next.atoll' holds labels of the column 'kind', not of 'sex'; name another" in said


def test_labels_are_written_in_the_form_of_the_table_so_that_the_last_fit_reads_them(folder):
    frame = pd.read_csv(folder / "table.csv").round(3)
    frame.to_csv(folder / "table.csv", sep=";", decimal=",", index=False)
    base = ("next", folder / "m.atoll", folder / "table.csv", "-n", 2, "--labelled")
    succeed(*base, folder / "done.csv")
    assert (folder / "done.csv").read_text() == (folder / "table.csv").read_text()
    succeed(*base, folder / "done.parquet")
    assert pd.read_parquet(folder / "done.parquet")["x"].tolist() == frame["x"].tolist()


@pytest.mark.parametrize(
    ("names", "dtype"),
    [
        ((1, 2), "Int64"),
        (("cat", "dog"), "category"),
        ((False, True), "boolean"),
        ((pd.Timestamp("2020-01-30"), pd.Timestamp("2020-01-31")), "datetime64[us]"),
    ],
)
def test_labels_of_a_parquet_file_stay_of_its_type(folder, names, dtype):
    frame = pd.read_csv(folder / "table.csv")
    kinds = frame["kind"].map(dict(zip(["cat", "dog"], names))).astype(object)
    frame["kind"] = kinds.where(kinds.notna(), None).astype(dtype)
    frame["site"] = pd.Categorical(["a", "b"] * 20)
    data, model, done = (folder / name for name in ("t.parquet", "own.atoll", "done.parquet"))
    frame.to_parquet(data)
    quick = ("--model", "graph-gp", "--set", "n_draws=40", "--quiet")
    succeed("fit", data, "--target", "kind", "--drop", "site", "--out", model, *quick)
    first = load_model(model).estimator.classes_.tolist()[0]
    pd.DataFrame({"row": [20], "kind": [first]}).to_csv(folder / "answers.csv", index=False)
    succeed("next", model, data, "--answers", folder / "answers.csv", "--labelled", done)
    found = pd.read_parquet(done)
    assert found.dtypes.astype(str).to_dict() == pd.read_parquet(data).dtypes.astype(str).to_dict()
    assert found["kind"].notna().sum() == 5
    assert found["kind"][19] == names[0]
    succeed("predict", model, data, "--keep", "--out", folder / "p.parquet")
    assert pd.read_parquet(folder / "p.parquet")["site"].tolist() == ["a", "b"] * 20


@pytest.mark.parametrize("ending", ["csv", "tsv", "csv.gz"])
def test_answers_beside_decimal_commas_are_read_again(folder, ending):
    """Numbers of one file with a comma and with a point were text to whoever read it."""
    frame = pd.read_csv(folder / "truth.csv").round(3)
    frame.to_csv(folder / "table.csv", sep=";", decimal=",", index=False)
    out = folder / f"p.{ending}"
    succeed("predict", folder / "m.atoll", folder / "table.csv", "--out", out, "--keep")
    found = read_table(out)
    assert found["x"].tolist() == frame["x"].tolist()
    assert np.allclose(found["p_cat"] + found["p_dog"], 1.0)
    quick = ("--model", "graph-gp", "--set", "n_draws=40", "--quiet")
    succeed("fit", out, "--target", "kind", "--out", folder / "again.atoll", *quick)
    assert load_model(folder / "again.atoll").preprocessing.numeric[:2] == ["x", "z"]
    base = ("next", folder / "m.atoll", folder / "table.csv", "-n", 3, "--strategy", "random")
    few = frame.assign(kind=frame["kind"].where(frame.index < 4))
    few.to_csv(folder / "table.csv", sep=";", decimal=",", index=False)
    succeed(*base, "--out", folder / f"ask.{ending}")
    asked = read_table(folder / f"ask.{ending}")
    assert asked["x"].tolist() == frame["x"].iloc[asked["row"] - 1].tolist()
    assert asked["probability"].between(0.0, 1.0).all()


def test_columns_of_one_name_are_told_and_refused_where_they_hold_the_labels(folder):
    base, labels = (folder / "m.atoll", folder / "table.csv"), folder / "answers.csv"
    labels.write_text("row,kind,kind\n9,dog,cat\n")
    said = fail("next", *base, "--answers", labels)
    assert f"2 columns of {str(labels)!r} are called 'kind'; give each a name of its own" in said
    text = (folder / "table.csv").read_text()
    (folder / "table.csv").write_text(text.replace("x,z,kind", "x,x,z,kind").replace("\n", "\n1,"))
    for command in (("next", *base), ("score", *base)):
        said = succeed(*command)
        assert "2 columns are called x in the header, and x, x.1 here: give each" in said
    (folder / "table.csv").write_text(
        text.replace("x,z,kind", "kind,x,z,kind").replace("\n", "\n1,")
    )
    label = ("label", folder / "table.csv", "--target", "kind")
    for command in (("next", *base), ("score", *base), label):
        assert "columns of" in (said := fail(*command))
        assert "are called 'kind', and which of them holds the labels cannot be told" in said


def test_answers_and_the_table_may_not_contradict_each_other(folder):
    base = ("next", folder / "m.atoll", folder / "table.csv", "-n", 2)
    (folder / "answers.csv").write_text("row,kind\n1,dog\n9,dog\n")
    said = fail(*base, "--answers", folder / "answers.csv")
    assert "answers row 1 with 'dog', and the table has the label 'cat'; correct the wrong" in said
    (folder / "answers.csv").write_text("row,kind\n1,cat\n9,dog\n")
    succeed(*base, "--answers", folder / "answers.csv")
    frame = pd.read_csv(folder / "table.csv")
    frame.loc[[8, 9], "kind"] = ["cat", "dog"]
    frame.to_csv(folder / "table.csv", index=False)
    assert "Labels of the table in the place of earlier ones: row 9." in succeed(*base)


def test_a_label_goes_when_its_cell_is_blanked_and_an_answer_stays(folder):
    base = ("next", folder / "m.atoll", folder / "table.csv", "-n", 1)
    (folder / "answers.csv").write_text("row,kind\n9,cat\n")
    succeed(*base, "--answers", folder / "answers.csv")
    few = pd.read_csv(folder / "table.csv")
    more = few.copy()
    more.loc[[8, 9], "kind"] = ["cat", "dog"]  # the first as it was answered
    more.to_csv(folder / "table.csv", index=False)
    assert "of 34 unlabelled rows" in succeed(*base)
    few.loc[0, "kind"] = None
    few.to_csv(folder / "table.csv", index=False)
    said = succeed(*base)
    assert "Taken back, since the table is blank there now: rows 1, 10." in said
    assert "Blank in the table now, and answered before: row 9. Answer ? to withdraw." in said
    assert "of 36 unlabelled rows" in said
    assert "blank" not in succeed(*base)
    few.drop(columns="kind").to_csv(folder / "table.csv", index=False)  # says nothing of labels
    assert "of 36 unlabelled rows" in succeed(*base)


def test_labels_never_go_to_rows_that_moved(folder):
    frame = pd.read_csv(folder / "table.csv").assign(name=[f"n{i}" for i in range(40)])
    frame.loc[21, ["x", "z"]] = frame.loc[20, ["x", "z"]]  # alike to the model
    base = ("next", folder / "m.atoll", folder / "table.csv", "-n", 2)
    swapped = list(range(40))
    swapped[20:22] = [21, 20]
    blank = pd.DataFrame({"name": ["none"]})
    forms = {
        "in another order, by the column 'x'": frame.sort_values("x"),
        "in another order, by the column 'name'": frame.iloc[swapped],
        "goes with 40 rows, and the table has 41": pd.concat([frame.iloc[[9]], frame]),
        "goes with 40 rows, and the table has 39": frame.drop(index=7),
        "blank rows have been put in or taken out": pd.concat([blank, frame]),
    }
    cells = frame.loc[[7, 20, 30]].assign(kind="cat", row=[8, 21, 31], z=0.5)  # z: written anew
    cells.to_csv(folder / "answers.csv", index=False)
    answers = ("--answers", folder / "answers.csv")
    frame.to_csv(folder / "table.csv", index=False)
    succeed(*base)
    for wrong, moved in forms.items():
        moved.to_csv(folder / "table.csv", index=False)
        assert wrong in fail(*base)
        said = fail(*base, *answers, "--state", folder / "none.atoll")
        assert re.search(r"answers row \d+ with (x|name) \S+, and that row of the table has", said)
    frame.assign(note="new", z=frame["z"] * (1 + 1e-15)).to_csv(folder / "table.csv", index=False)
    assert "3 answers taken" in succeed(*base, *answers)


def test_a_bad_target_of_the_error_is_not_kept_in_the_loop(folder):
    base = ("next", folder / "m.atoll", folder / "table.csv")
    succeed(*base)
    assert "--target-error 2: give a number above 0 and below 1" in fail(*base, "--target-error", 2)
    succeed(*base)
    assert "--strategy margn: did you mean 'margin'?" in fail(*base, "--strategy", "margn")


def test_bad_answers_and_options_are_one_line_each(folder):
    base = ("next", folder / "m.atoll", folder / "table.csv")
    (folder / "bad.csv").write_text("row,kind\n41,cat\n")
    assert "row 41; the table has rows 1 to 40" in fail(*base, "--answers", folder / "bad.csv")
    (folder / "bad.csv").write_text("number,kind\n1,cat\n")
    assert "no column 'row'" in fail(*base, "--answers", folder / "bad.csv")
    assert "--strategy best: give one of brier" in fail(*base, "--strategy", "best")
    assert "--target-error 3: give a number" in fail(*base, "--target-error", 3)
    succeed(*base, "--quiet")
    assert "picks rows by brier" in fail(*base, "--strategy", "margin")
    other = pd.read_csv(folder / "table.csv").head(20)
    other.to_csv(folder / "other.csv", index=False)
    said = fail("next", folder / "m.atoll", folder / "other.csv")
    assert "goes with 40 rows, and the table has 20" in said
    pd.read_csv(folder / "table.csv").assign(x=1.0).to_csv(folder / "other.csv", index=False)
    assert "other rows than this table's" in fail("next", folder / "m.atoll", folder / "other.csv")


def test_a_model_saved_from_python_asks_for_the_same_rows(folder):
    frame = pd.read_csv(folder / "table.csv")
    y = frame["kind"].astype(object).where(frame["kind"].notna(), None)
    model = make_pipeline(make_preprocessor(), GraphGPClassifier(n_draws=40, random_state=0))
    save_model(model.fit(frame[["x", "z"]], y), folder / "python.atoll")
    by_fit = succeed("next", folder / "m.atoll", folder / "table.csv", "-n", 5)
    words = ("next", folder / "python.atoll", folder / "table.csv", "-n", 5)
    assert succeed(*words, "--target", "kind") == by_fit
    (folder / "python.next.atoll").unlink()
    assert "no column 'label' of labels; name it with --target" in fail(*words)
    assert "no column 'label' of labels" in fail(*words, "--out", folder / "asked.csv")
    assert not (folder / "python.next.atoll").exists()


def test_labels_of_a_pipeline_saved_from_python_are_doubted(folder):
    frame = pd.read_csv(folder / "table.csv")
    y = frame["kind"].astype(object).where(frame["kind"].notna(), None)
    model = make_pipeline(make_preprocessor(), GraphGPClassifier(n_draws=40, random_state=0))
    save_model(model.fit(frame[["x", "z"]], y), folder / "python.atoll")
    succeed("suspects", folder / "python.atoll", "--out", folder / "python.csv")
    found = pd.read_csv(folder / "python.csv")
    assert found.columns.tolist() == ["row", "label", "p_wrong", "instead"]
    assert (found["label"].to_numpy() == y[found["row"] - 1]).all()
    save_model(make_pipeline(make_preprocessor(), LogisticRegression()), folder / "other.atoll")
    assert "LogisticRegression does not doubt its labels" in fail(
        "suspects", folder / "other.atoll"
    )


def test_rows_are_asked_for_before_there_is_a_model(folder):
    frame = pd.read_csv(folder / "table.csv").assign(kind=None)
    frame.to_csv(folder / "blank.csv", index=False)
    said = succeed(
        "next", folder / "m.atoll", folder / "blank.csv", "-n", 5, "--state", folder / "s"
    )
    assert "There is no model yet" in said
    assert "nan" not in said


def test_the_fit_of_a_round_shows_its_progress_unless_it_is_to_be_quiet(folder, monkeypatch):
    shown, fit = [], GraphGPClassifier.fit

    def noted(self, *arguments, **more):
        shown.append(self.verbose)
        return fit(self, *arguments, **more)

    monkeypatch.setattr(GraphGPClassifier, "fit", noted)
    base = ("next", folder / "m.atoll", folder / "table.csv", "-n", 2)
    succeed(*base)
    succeed(*base)  # from the file of the loop
    succeed(*base, "--quiet")
    assert shown == [True, True, False]


def test_a_first_round_has_the_probabilities_of_the_fit(folder):
    base = ("next", folder / "m.atoll", folder / "table.csv", "-n", 36, "--out", folder / "ask.csv")
    succeed(*base)
    model = load_model(folder / "m.atoll")
    asked = pd.read_csv(folder / "ask.csv")
    p = model.estimator.predict_proba(model.X)[asked["row"] - 1]
    np.testing.assert_allclose(asked["probability"], p.max(axis=1), atol=5.1e-4)
    again = ActiveLearner.load(folder / "m.next.atoll")  # and so they stay in the file of the loop
    np.testing.assert_allclose(again.proba_[4:], model.estimator.predict_proba(model.X)[4:])


def test_rows_with_more_than_half_of_their_cells_blank_are_left_to_the_end(folder):
    table = pd.read_csv(folder / "table.csv").assign(u=1.0, v=2.0)
    table.loc[[20, 30], ["x", "u", "v"]] = np.nan
    table.to_csv(folder / "table.csv", index=False)
    succeed("fit", folder / "table.csv", "--target", "kind", "--out", folder / "m.atoll",
            "--model", "graph-gp", "--set", "n_draws=40", "--quiet")  # fmt: skip
    base = ("next", folder / "m.atoll", folder / "table.csv", "--out", folder / "ask.csv")
    said = succeed(*base, "-n", 34)
    assert "Rows 21 and 31 are left to the end: more than half of their cells are blank." in said
    assert not {21, 31} & set(pd.read_csv(folder / "ask.csv")["row"])
    said = succeed(*base, "-n", 36, "--state", folder / "other.next")
    assert "left to the end" not in said
    assert pd.read_csv(folder / "ask.csv")["row"].tolist()[-2:] == [21, 31]


def test_rows_that_are_mostly_blank_are_remarked_on(folder):
    table = pd.read_csv(folder / "table.csv")
    base = ("next", folder / "m.atoll", folder / "table.csv", "-n", 36, "--out", folder / "ask.csv")
    assert "blank or more" not in succeed(*base, "--state", folder / "first.next")
    table.loc[[20, 30], "x"] = np.nan
    table.to_csv(folder / "table.csv", index=False)
    said = succeed(*base, "--state", folder / "second.next")
    assert re.search(r"Rows (21 and 31|31 and 21) have half of their cells blank or more", said)
    asked = pd.read_csv(folder / "ask.csv").set_index("row")["why"]
    is_marked = asked.str.endswith("; 1 of 2 cells blank")
    assert set(asked.index[is_marked]) == {21, 31}


def test_columns_that_are_called_as_those_of_the_question_are_asked_of_too(folder):
    table = pd.read_csv(folder / "table.csv").rename(columns={"x": "row", "z": "why"})
    table.to_csv(folder / "table.csv", index=False)
    fit = ("--out", folder / "own.atoll", "--model", "graph-gp", "--set", "n_draws=40", "--quiet")
    succeed("fit", folder / "table.csv", "--target", "kind", *fit)
    ask = ("next", folder / "own.atoll", folder / "table.csv", "-n", 3, "--out", folder / "a.csv")
    succeed(*ask)
    asked = pd.read_csv(folder / "a.csv")
    assert asked["row (of the table)"].tolist() == table["row"].iloc[asked["row"] - 1].tolist()
    assert asked["why (of the table)"].tolist() == table["why"].iloc[asked["row"] - 1].tolist()
    answered(folder, "a.csv")
    assert "3 answers taken" in succeed(*ask, "--answers", folder / "a.csv")
    table = table.rename(columns={"row": "x", "why": "z", "kind": "predicted"})
    table.to_csv(folder / "table.csv", index=False)
    succeed("fit", folder / "table.csv", "--target", "predicted", *fit)
    said = fail(*ask, "--state", folder / "new.atoll")
    assert "the column of labels is called 'predicted', as one that stands beside" in said


def answers_of(folder, *labels):
    pd.DataFrame({"row": 5 + np.arange(len(labels)), "kind": labels}).to_csv(
        folder / "answers.csv", index=False
    )
    return ("next", folder / "m.atoll", folder / "table.csv", "--answers", folder / "answers.csv")


def test_an_answer_that_is_no_class_is_refused_and_nothing_is_learnt(folder):
    said = fail(*answers_of(folder, "cat", "dgo"))
    assert "has the answer 'dgo', and the classes are cat, dog; did you mean 'dog'?" in said
    assert "--new-class dgo" in said
    said = fail(*answers_of(folder, "cat", "wolverine"))
    assert "and the classes are cat, dog; correct it, leave it blank, or add --new-class" in said
    assert not (folder / "m.next.atoll").exists()
    done = folder / "done.csv"
    succeed(*answers_of(folder, "cat", "fox"), "--new-class", "fox", "--labelled", done)
    assert pd.read_csv(done)["kind"].value_counts()["fox"] == 1


def test_a_word_for_a_class_that_is_not_known_is_no_answer(folder):
    said = succeed(*answers_of(folder, "cat", "?", "unknown"), "--labelled", folder / "done.csv")
    assert "1 answer taken" in said
    assert "2 more say that the class is not known ('?', 'unknown')" in said
    assert set(pd.read_csv(folder / "done.csv")["kind"].dropna()) == {"cat", "dog"}


def test_where_every_row_has_a_label_nothing_is_asked(folder):
    said = succeed("next", folder / "m.atoll", folder / "truth.csv")
    assert "Every row has a label." in said
    assert "predicted" not in said
    assert "--answers" not in said


def with_marks(folder, names, mark, *more):
    """Fit the table with other names for its classes, and a mark in the place of blank cells."""
    table = pd.read_csv(folder / "table.csv")
    table["kind"] = [names.get(kind, mark) for kind in table["kind"]]
    table.to_csv(folder / "marked.csv", index=False)
    model = folder / "marked.atoll"
    succeed("fit", folder / "marked.csv", "--target", "kind", "--out", model, "--quiet",
            "--model", "graph-gp", "--set", "n_draws=40", *more)  # fmt: skip
    return model, folder / "marked.csv"


@pytest.mark.parametrize(
    ("names", "mark", "more"),
    [
        ({"cat": 0, "dog": 1}, -1, ()),
        ({"cat": 0, "dog": 1}, -9, ("--unlabelled", "-9")),
        ({"cat": "cat", "dog": "dog"}, "?", ("--unlabelled", "?")),
        ({"cat": "cat", "dog": "dog"}, "later", ("--unlabelled", "?", "--unlabelled", "later")),
    ],
)
def test_what_meant_unlabelled_in_the_fit_does_so_ever_after(folder, names, mark, more):
    model, data = with_marks(folder, names, mark, *more)
    said = succeed("next", model, data, "-n", 2, "--labelled", folder / "done.csv")
    assert "of 36 unlabelled rows" in said
    assert pd.read_csv(folder / "done.csv")["kind"].astype(str).value_counts()[str(mark)] == 36
    fit = shlex.split(re.findall(r"`atoll (fit [^`]*)`", said)[0])
    succeed(*fit[:-1], folder / "final.atoll", "--quiet")
    assert len(load_model(folder / "final.atoll").estimator.classes_) == 2
    said = succeed("score", model, data)
    assert "36 rows without a label are left out." in said
    assert "does not know" not in said
    frame = pd.DataFrame({"row": [9, 10], "kind": [mark, names["cat"]]})
    frame.to_csv(folder / "answers.csv", index=False)
    said = succeed("next", model, data, "--answers", folder / "answers.csv")
    assert "1 answer taken" in said


def test_files_of_before_that_was_kept_are_opened(folder):
    bundle = load_model(folder / "m.atoll")
    assert bundle.unlabelled == []
    save_model(bundle._replace(unlabelled=None), folder / "m.atoll")
    assert "of 36 unlabelled rows" in succeed("next", folder / "m.atoll", folder / "table.csv")


@pytest.mark.parametrize("classes", [(0, 1), (False, True)])
def test_a_word_among_answers_leaves_the_others_of_the_classes_type(folder, classes):
    model, data = with_marks(folder, dict(zip(["cat", "dog"], classes)), None)
    assert load_model(model).estimator.classes_.tolist() == list(classes)
    frame = pd.DataFrame({"row": [9, 10, 11], "kind": [str(classes[0]), str(classes[1]), "?"]})
    frame.to_csv(folder / "answers.csv", index=False)
    base = ("next", model, data, "--answers", folder / "answers.csv")
    said = succeed(*base)
    assert "2 answers taken" in said
    frame.assign(kind=[str(classes[0]), "7", "?"]).to_csv(folder / "answers.csv", index=False)
    assert "--new-class 7" in fail(*base)
    if classes[0] is not False:
        done = folder / "done.csv"
        assert "2 answers taken" in succeed(*base, "--new-class", 7, "--labelled", done)
        assert sorted(pd.read_csv(done)["kind"].dropna().unique()) == [0, 1, 7]


def test_a_word_in_the_table_where_classes_are_numbers_is_refused_with_the_fix(folder):
    model, data = with_marks(folder, {"cat": 0, "dog": 1}, None)
    table = pd.read_csv(data, dtype=str)
    table.loc[20, "kind"] = "?"
    table.to_csv(data, index=False)
    said = fail("next", model, data)
    assert "has the word '?', and the classes are 0, 1: leave such cells blank, or fit" in said
    said = succeed("score", model, data)
    assert "1 other row is of a class that the model does not know (?)" in said
    assert "of 4 rows" in said


@pytest.mark.parametrize("part", [0.5, 0.0])
def test_a_damaged_file_of_the_loop_is_told_with_its_own_remedy(folder, part):
    base, state = ("next", folder / "m.atoll", folder / "table.csv"), folder / "m.next.atoll"
    succeed(*base)
    whole = state.read_bytes()
    state.write_bytes(whole[: max(20, int(len(whole) * part))])
    said = fail(*base)
    assert "m.next.atoll' is damaged: " in said
    assert "Put back a copy of it, delete it to begin anew without its answers, or name" in said
    assert "fit and save the model again" not in said
    state.write_bytes(whole)
    succeed(*base)


def test_a_seed_that_comes_too_late_is_said(folder):
    base = ("next", folder / "m.atoll", folder / "table.csv")
    assert "has no effect" not in succeed(*base, "--seed", 3)
    assert "has no effect" not in succeed(*base)
    assert "has no effect" not in succeed(*base, "--seed", 3)
    said = succeed(*base, "--seed", 0)
    assert "--seed 0 has no effect: the loop in" in said
    assert "goes on with the seed that it began with, 3." in said


def test_one_answer_that_is_none_is_spoken_of_as_one(folder):
    said = succeed(*answers_of(folder, "cat", "?"))
    assert "1 more says that the class is not known ('?'): no answer.\n" in said
