"""What stops a newcomer in the shell: columns, labels, widths, names."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from atoll import load_model
from atoll.cli.terminal import wrapped
from atoll.core.tables import read_table
from program import fail, run, succeed

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.fixture
def table():
    """Two clouds of 40 rows; five labels of each class."""
    rng = np.random.default_rng(0)
    truth = np.array(["cat", "dog"] * 20)
    frame = pd.DataFrame({"x": rng.standard_normal(40) + 4.0 * (truth == "dog")})
    frame["z"] = rng.standard_normal(40)
    frame["kind"] = np.where(np.arange(40) < 10, truth, None)
    return frame


def arguments(frame, folder, *more):
    frame.to_csv(folder / "table.csv", index=False)
    quick = ["--model", "graph-gp", "--set", "n_draws=40"]
    return ["fit", folder / "table.csv", "--target", "kind", "--out", folder / "m.atoll", *quick,
            *more]  # fmt: skip


def test_every_column_that_is_refused_is_named_in_a_command_that_can_be_copied(table, tmp_path):
    table["Date Egg"] = np.where(np.arange(40) % 2, "2007-11-11", "2007-12-03")
    table["empty"] = None
    said = fail(*arguments(table, tmp_path))
    assert "'Date Egg' holds dates; 'empty' is blank in every row" in said
    assert "--drop 'Date Egg' --drop empty" in said


@pytest.mark.parametrize("day", ["2007-11-11", "11.11.2007 10:30", "11/30/07", "11 Nov 2007"])
def test_few_different_dates_are_dates_too(table, tmp_path, day):
    table["day"] = [day, day.replace("11", "12")] * 20
    assert "column 'day' holds dates" in fail(*arguments(table, tmp_path))


def test_versions_are_no_dates(table, tmp_path):
    table["version"] = ["1.2.3", "3.11.14"] * 20
    assert "indicators: version" in succeed(*arguments(table, tmp_path))


def test_a_row_number_is_remarked_on(table, tmp_path):
    table["Sample Number"] = range(1, 41)
    said = succeed(*arguments(table, tmp_path))
    assert "Sample Number looks like a row number" in said
    assert "--id 'Sample Number'" in said
    table["Sample Number"] = table["Sample Number"].sample(frac=1, random_state=0).to_numpy()
    assert "row number" not in succeed(*arguments(table, tmp_path))


def test_a_row_number_that_starts_anew_is_remarked_on(table, tmp_path):
    rows = pd.concat([table] * 3, ignore_index=True)
    rows["Sample Number"] = [*range(1, 61), *range(1, 41), *range(1, 21)]
    said = succeed(*arguments(rows, tmp_path))
    assert "Sample Number looks like a row number, and is learnt from" in said


def test_a_placeholder_in_most_rows_stops_the_fit_unless_it_is_said_to_be_a_class(table, tmp_path):
    table["kind"] = table["kind"].fillna("?")
    message = fail(*arguments(table, tmp_path))
    assert "30 of 40 rows have the label '?'" in message
    assert "--unlabelled '?'" in message
    compared = fail("compare", tmp_path / "table.csv", "--target", "kind")
    assert "--unlabelled '?'" in compared
    assert "10 labelled" in succeed(*arguments(table, tmp_path, "--unlabelled", "?"))
    assert "? (30)" in succeed(*arguments(table, tmp_path, "--unlabelled", "none"))


def test_a_placeholder_in_a_few_rows_is_remarked_on_once(table, tmp_path):
    table.loc[20:22, "kind"] = "?"
    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        said = run(*arguments(table, tmp_path)).stderr
    assert said.count("--unlabelled '?'") == 1
    assert "3 of 13 labelled rows have the label '?'" in said
    succeed(*arguments(table, tmp_path, "--unlabelled", "none"))  # a warning would fail here


def test_the_limits_of_the_shares_say_what_they_assume_where_labels_look_picked(table, tmp_path):
    said = succeed(*arguments(table, tmp_path))
    assert "hold if the labelled rows are a random sample" in said
    sentences = said.replace(".\n", ". ").split(". ")
    assert max(len(one.split()) for one in sentences if "sample" in one) < 20
    (chosen,) = re.findall(r"--set (labels_chosen=\w+)", said)
    assert "random sample" not in succeed(*arguments(table, tmp_path, "--set", chosen))
    table.loc[10, "kind"] = "cat"
    assert "random sample" not in succeed(*arguments(table, tmp_path))


def test_a_model_of_nearly_that_name_is_suggested(table, tmp_path):
    message = fail(*arguments(table, tmp_path), "--model", "graphgp")
    assert "did you mean 'graph-gp'?" in message


def test_suspects_end_with_how_many_labels_are_expected_to_be_wrong(table, tmp_path):
    succeed(*arguments(table, tmp_path), "--quiet")
    said = succeed("suspects", tmp_path / "m.atoll", "-n", 10, "--out", tmp_path / "all.csv")
    assert pd.read_csv(tmp_path / "all.csv")["p_wrong"].sum() < 0.05
    assert "None of 10 labels is expected to be wrong." in said


@pytest.mark.parametrize("width", [60, 45])
def test_sentences_fit_the_terminal(table, tmp_path, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    said = [succeed(*arguments(table, tmp_path))]
    model = [tmp_path / "m.atoll", tmp_path / "table.csv"]
    said += [succeed("explain", *model, "--row", 20), succeed("next", *model, "-n", 4)]
    lines = [line for text in said for line in text.splitlines() if str(tmp_path) not in line]
    assert max(map(len, lines)) <= width


def test_wrapping_loses_no_word(monkeypatch):
    text = "one two-three four  five\nsix " + "seven" * 20
    monkeypatch.setenv("COLUMNS", "10")
    assert wrapped(text).split() == text.split()
    monkeypatch.delenv("COLUMNS")
    assert wrapped(text) == text


def test_wrapped_points_stay_apart(monkeypatch):
    """The lines of a point begin where its words do."""
    monkeypatch.setenv("COLUMNS", "40")
    text = "A first line.\n- " + "word " * 20
    first, point, *others = wrapped(text).splitlines()
    assert first == "A first line."
    assert point.startswith("- word")
    assert others
    assert all(line.startswith("  word") for line in others)


def test_reasons_to_label_differ_and_kept_cells_stay(table, tmp_path):
    table.insert(0, "tag", [f"{i:03d}" for i in range(40)])
    succeed(*arguments(table, tmp_path, "--id", "tag"), "--quiet")
    model = ["next", tmp_path / "m.atoll", tmp_path / "table.csv", "-n", 6]
    out = ["--out", tmp_path / "ask.csv", "--labelled", tmp_path / "all.csv"]
    said = succeed(*model, *out)
    assert "Each row lowers the expected Brier score" in said
    asked = pd.read_csv(tmp_path / "ask.csv", dtype=str)
    picked = asked[~asked["why"].str.startswith("random row")]
    assert picked["why"].nunique() > 1
    assert all(re.search(r"\(\d+%\)", why) for why in picked["why"])
    assert asked["tag"].tolist() == [f"{int(row) - 1:03d}" for row in asked["row"]]
    labelled = pd.read_csv(tmp_path / "all.csv", dtype=str, keep_default_na=False)
    own = pd.read_csv(tmp_path / "table.csv", dtype=str, keep_default_na=False)
    pd.testing.assert_frame_equal(labelled, own)
    streamed = run(*model, "--out", "-", "--state", tmp_path / "other.atoll")
    assert streamed.stdout.startswith("row,kind,predicted,probability,why,tag,x,z\n")
    assert "rows to label written to standard output" in streamed.stderr


@pytest.mark.parametrize("command", ["fit", "predict", "label", "next"])
def test_help_can_be_read_at_eighty_columns(monkeypatch, command):
    monkeypatch.setenv("COLUMNS", "80")
    lines = run(command, "--help").output.splitlines()
    assert max(map(len, lines)) <= 80
    names = [line for line in lines if re.match(r"\W*--?[a-z]", line)]
    assert len(lines) < 2.5 * len(names) + 15  # an option takes two lines or three, not six


def test_every_command_is_described_in_a_whole_line(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    commands = run("--help").output.partition("Commands:")[2].strip().splitlines()
    assert not [line for line in commands if line.endswith("...")]


def test_a_report_fits_a_phone_and_says_why_other_rows_may_be_asked(table, tmp_path):
    succeed(*arguments(table, tmp_path), "--quiet")
    succeed("report", tmp_path / "m.atoll", "--no-cross-validation", "--quiet")
    page = (tmp_path / "m.html").read_text(encoding="utf-8")
    assert ".pair > * { min-width: 0; }" in page  # wide tables scroll in their column
    assert '<th scope="col" class="n">Predicted</th><th scope="col" class="n">Expected</th>' in page
    assert "<code>atoll next</code> may" in page
    assert "filled in" not in page  # no cell is blank
    assert "Blank cells" not in page


def test_blank_cells_are_blank_in_the_report(table, tmp_path, monkeypatch):
    monkeypatch.setattr("atoll.reports.report.png_address", lambda figure: "")
    table["site"] = ["reef", "lagoon"] * 20
    table = table[["x", "z", "site"]].assign(kind=["cat", "dog"] * 20)
    table.loc[[10, 11], "kind"] = None
    table["depth"] = np.arange(40.0)
    table.loc[10, ["x", "z"]] = None  # in so few rows that it is no feature
    table.loc[11, "site"] = None
    succeed(*arguments(table, tmp_path), "--quiet")
    for more in ([], ["--data", tmp_path / "table.csv"]):
        succeed("report", tmp_path / "m.atoll", "--no-cross-validation", "--quiet", *more)
        page = (tmp_path / "m.html").read_text(encoding="utf-8")
        section = page[page.index('id="uncertain"') :]
        rows = {
            cells[0]: cells[4:]
            for cells in (
                [re.sub("<[^>]*>", "", cell) for cell in re.findall("<t[hd].*?</t[hd]>", row)]
                for row in section.partition("<tbody>")[2].partition("</tbody>")[0].split("</tr>")
            )
            if cells
        }
        assert rows["11"] == ["–", "–", "reef", "10"]
        assert rows["12"] == [f"{table.loc[11, 'x']:.4g}", f"{table.loc[11, 'z']:.4g}", "–", "11"]
        assert "it was filled in for the model" in section
        assert re.search(r"Row 11\s+has half of its\s+cells blank or more", section)
        assert "3 cells in 3 columns, filled in for the model" in page


def test_blank_cells_of_an_explained_row_are_named(table, tmp_path):
    table["site"] = ["reef", "lagoon"] * 20
    table.loc[20, ["x", "site"]] = None
    table.loc[21, "z"] = None
    succeed(*arguments(table, tmp_path), "--quiet")
    model = [tmp_path / "m.atoll", tmp_path / "table.csv"]
    said = succeed("explain", *model, "--row", 21)
    assert "Blank in this row, and filled in: x, site. These are 2 of 3 columns" in said
    assert "less sure than its probability says" in said
    assert "filled in: z.\n" in succeed("explain", *model, "--row", 22)
    assert "filled in" not in succeed("explain", *model, "--row", 23)
    said = succeed("predict", *model, "--out", tmp_path / "p.csv")
    assert "1 of 40 rows has half of its cells blank or more" in said
    assert "The column blank_cells counts the blank cells of every row" in said
    counted = pd.read_csv(tmp_path / "p.csv")["blank_cells"]
    assert counted.to_dict() == {i: {20: 2, 21: 1}.get(i, 0) for i in range(40)}
    table.loc[20] = table.loc[0]
    table.to_csv(tmp_path / "table.csv", index=False)
    succeed("predict", *model, "--out", tmp_path / "p.csv")
    assert "blank_cells" not in pd.read_csv(tmp_path / "p.csv")


def test_a_column_of_nearly_the_name_that_is_missing_is_suggested(table, tmp_path):
    succeed(*arguments(table.rename(columns={"x": "bill_length"}), tmp_path), "--quiet")
    table.rename(columns={"x": "bill_lenght"}).to_csv(tmp_path / "new.csv", index=False)
    said = fail("predict", tmp_path / "m.atoll", tmp_path / "new.csv", "--out", tmp_path / "p.csv")
    assert "lacks column 'bill_length'" in said
    assert "'bill_lenght' for 'bill_length'" in said


def test_a_column_without_a_name_is_remarked_on(table, tmp_path):
    table.insert(0, "", np.random.default_rng(1).standard_normal(40))
    said = succeed(*arguments(table, tmp_path))
    assert "Unnamed: 0 has no name in the header" in said
    assert "--drop 'Unnamed: 0'" in said


def test_a_file_without_a_header_is_told_so(table, tmp_path):
    succeed(*arguments(table, tmp_path), "--quiet")
    table.drop(columns="kind").to_csv(tmp_path / "bare.csv", index=False, header=False)
    model = tmp_path / "m.atoll"
    said = fail("predict", model, tmp_path / "bare.csv", "--out", tmp_path / "p.csv")
    assert "The first line seems to be a row, not a header" in said
    said = fail("fit", tmp_path / "bare.csv", "--target", "kind", "--out", tmp_path / "n.atoll")
    assert "The first line seems to be a row, not a header" in said


def test_rows_of_nothing_but_blanks_are_left_out_and_named(table, tmp_path):
    blank = [12, 15, 17]
    table.loc[blank, ["x", "z"]] = None
    table["tag"] = [f"t{i}" for i in range(40)]
    said = succeed(*arguments(table, tmp_path, "--id", "tag"))
    assert "Rows 13, 16 and 18 are left out: every cell that the model would read is blank" in said
    assert "37 rows, 10 labelled" in said
    bundle = load_model(tmp_path / "m.atoll")
    assert bundle.ids.tolist() == table["tag"].drop(blank).tolist()
    assert [bundle.row_number(i) for i in (0, 12, 36)] == [1, 14, 40]
    data, model = tmp_path / "table.csv", tmp_path / "m.atoll"
    asked, whole = tmp_path / "ask.csv", tmp_path / "all.csv"
    said = succeed("next", model, data, "-n", "27", "--out", asked, "--labelled", whole)
    assert "Rows 13, 16 and 18 are left out" in said
    rows = pd.read_csv(asked)
    assert not {13, 16, 18} & set(rows["row"])
    assert (rows["tag"] == [f"t{row - 1}" for row in rows["row"]]).all()
    assert pd.read_csv(whole)["tag"].tolist() == table["tag"].tolist()
    assert "rows 1 to 40, but for blank ones" in fail_with_answer(tmp_path, model, data)


def test_rows_keep_their_numbers_and_ids_after_blank_ones(table, tmp_path):
    table.loc[[2, 15], ["x", "z"]] = None  # one labelled, one not
    table["tag"] = [f"t{i:02}" for i in range(40)]
    succeed(*arguments(table, tmp_path, "--id", "tag"), "--quiet")
    data, model = tmp_path / "table.csv", tmp_path / "m.atoll"
    by_number = succeed("explain", model, data, "--row", 30)
    assert (
        succeed("explain", model, data, "--row", "t29").partition(":")[2]
        == (by_number.partition(":")[2])
    )
    said = fail("explain", model, data, "--row", "t99")
    assert "has rows 1 to 40, and the names of its column 'tag'" in said
    told = [by_number, succeed("suspects", model, "-n", 40)]
    succeed("report", model, "--out", tmp_path / "r.html", "--no-cross-validation")
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    told.append(re.sub(r"<[^>]*>", " ", page[page.index('id="uncertain"') :]))
    succeed("predict", model, data, "--out", tmp_path / "p.csv")
    assert pd.read_csv(tmp_path / "p.csv")["tag"].tolist() == table["tag"].tolist()
    for said in told:
        found = re.findall(r"^ *(\d+)\s+t(\d\d)\b", said, re.MULTILINE)
        assert len(found) >= 5
        assert all(int(row) == int(tag) + 1 for row, tag in found)
        assert not {row for row, _ in found} & {"3", "16"}


def test_a_row_with_more_cells_than_the_header_has_a_reason_and_no_answer(table, tmp_path):
    table["tag"] = [f"t{i:02}" for i in range(40)]
    succeed(*arguments(table, tmp_path, "--id", "tag"), "--quiet")
    data, out = tmp_path / "table.csv", tmp_path / "p.csv"
    lines = data.read_text().splitlines()
    lines[8] += ",,"  # separators at the end of a line are no cells
    lines[12] += ",extra"
    lines[30] += ",extra,cells,here"
    data.write_text("\n".join(lines))
    for options in ((), ("--keep",)):
        said = succeed("predict", tmp_path / "m.atoll", data, "--out", out, *options)
        assert "2 of 40 rows cannot be read; the column reason says why." in said
        answers = pd.read_csv(out)
        assert answers["tag"].tolist() == table["tag"].tolist()
        assert answers["reason"].dropna().to_dict() == {
            11: "it has 5 cells, and the header 4",
            29: "it has 7 cells, and the header 4",
        }
        assert answers["class"].isna().tolist() == answers["reason"].notna().tolist()
    said = fail("fit", data, "--target", "kind", "--out", tmp_path / "n.atoll")
    assert "has 6 cells in line 9, and 4 columns: mend that line" in said


def test_what_was_read_is_told_before_categories_are_weighed(table, tmp_path, monkeypatch):
    def stopped(*given):
        raise KeyboardInterrupt

    monkeypatch.setattr("atoll.estimators.category_weight.weigh_categories", stopped)
    table["site"] = ["north", "south"] * 20
    table.to_csv(tmp_path / "table.csv", index=False)
    out = tmp_path / "m.atoll"
    result = run("fit", tmp_path / "table.csv", "--target", "kind", "--out", out)
    assert "40 rows, 10 labelled." in result.output


def test_very_many_rows_are_fitted_without_predicting_each(table, tmp_path, monkeypatch):
    monkeypatch.setattr("atoll.estimators.timing.MANY_ROWS", 30)
    succeed(*arguments(table, tmp_path))
    model = load_model(tmp_path / "m.atoll")
    assert not hasattr(model.estimator, "transduction_")
    p = model.predict_proba(table)
    assert (model.classes_[p.argmax(axis=1)] == np.array(["cat", "dog"] * 20)).mean() > 0.9
    data = tmp_path / "table.csv"
    assert "row 20" in succeed("explain", tmp_path / "m.atoll", data, "--row", "20").lower()
    assert "10 labels, each held" in succeed("suspects", tmp_path / "m.atoll")


def test_a_kernel_for_which_the_shell_has_no_word_is_said_to_be_for_python(table, tmp_path):
    said = fail(*arguments(table, tmp_path)[:6], "--model", "probit-gp", "--set", "kernel=Matern")
    assert (
        "--set kernel=Matern: give isotropic, ard or a scikit-learn kernel (in Python only). "
        "isotropic has one length-scale for all columns, ard one for each." in said
    )
    assert 'see the guide "A kernel of your own" (docs/guide/own-kernel.md).' in said
    page = Path(__file__).parents[2] / "docs/guide/own-kernel.md"
    assert page.read_text(encoding="utf-8").startswith("# A kernel of your own")
    said = fail(*arguments(table, tmp_path)[:6], "--set", "kernel=Matern")  # of the default model
    assert "atoll has no parameter kernel; models that have it: archipelago" in said


def test_numbers_with_a_few_words_among_them_are_told_from_categories(tmp_path):
    rng = np.random.default_rng(0)
    grams = [f"{x:,.1f}".translate(str.maketrans(",.", ".,")) for x in rng.uniform(900, 9000, 150)]
    lines = [f"{g};{'Esche' if i < 5 else 'Eiche' if i < 10 else ''}" for i, g in enumerate(grams)]
    data = tmp_path / "table.csv"
    data.write_text("\n".join(["Gewicht;Art", *lines]), encoding="utf-8")
    frame = read_table(data)
    assert frame["Gewicht"].between(900, 9000).all()  # 2.031,8 is two thousand
    lines[20], lines[30] = "-;", "k.A.;"
    data.write_text("\n".join(["Gewicht;Art", *lines]), encoding="utf-8")
    said = fail("fit", data, "--target", "Art", "--out", tmp_path / "m.atoll")
    assert "column 'Gewicht' holds numbers, but for '-', 'k.A.'; blank these cells" in said
    tagged = frame.assign(Probe=[f"P{i:03}" for i in range(150)], leer=None)
    tagged.to_csv(data, index=False)
    said = fail("fit", data, "--target", "Art", "--out", tmp_path / "m.atoll")
    assert "Where 'Probe' names the rows, `atoll fit --id Probe`." in said


def test_the_column_of_labels_is_told_from_columns_that_are_not_known(table, tmp_path):
    succeed(*arguments(table, tmp_path), "--quiet")
    table["note"] = "new"
    table.to_csv(tmp_path / "table.csv", index=False)
    data, model = tmp_path / "table.csv", tmp_path / "m.atoll"
    said = succeed("predict", model, data, "--out", tmp_path / "p.csv")
    assert "Ignored columns that the model was not fitted on: note." in said
    assert "'kind', the column of labels, is not used" in said


def test_categories_that_count_half_are_told_in_the_report(table, tmp_path):
    rng = np.random.default_rng(1)
    table["site"] = rng.choice(list("abcde"), 40)
    table["kind"] = np.where(np.arange(40) < 24, np.array(["cat", "dog"] * 20), None)
    quick = ("--set", "n_draws=40", "--set", "max_graph_rows=100")
    table.to_csv(tmp_path / "table.csv", index=False)
    said = succeed("fit", tmp_path / "table.csv", "--target", "kind", "--out",
                   tmp_path / "m.atoll", *quick)  # fmt: skip
    succeed("report", tmp_path / "m.atoll", "--out", tmp_path / "r.html", "--no-cross-validation")
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "of few values, count half as much as those in measurements" in said
    assert "count 0.5 beside measurements" in page


def fail_with_answer(folder, model, data):
    pd.DataFrame({"row": [13], "kind": ["cat"]}).to_csv(folder / "answers.csv", index=False)
    return fail("next", model, data, "--answers", folder / "answers.csv")


def test_a_file_of_fit_predicts_tables_in_python(table, tmp_path):
    table["site"] = ["north", "south"] * 20
    succeed(*arguments(table, tmp_path))
    model = load_model(tmp_path / "m.atoll")
    p = model.predict_proba(table.drop(columns="kind"))
    np.testing.assert_allclose(p, model.estimator.predict_proba(model.X))
    assert (model.predict(table) == model.classes_[p.argmax(axis=1)]).all()
    assert model.score(table.iloc[:10], table["kind"][:10]) == 1.0
    assert sorted(model.suspect_labels().rows) == list(range(10))
    assert repr(model).startswith("GraphGPClassifier(")
    assert "predicts 'kind' of tables with the columns x, z, site" in repr(model)
    assert len(repr(model)) < 3000
    assert "The model file of a fit of table.csv" in model._repr_html_()
    with pytest.raises(AttributeError, match=r"no 'fit' here.*GraphGPClassifier, is `\.estimator`"):
        model.fit(table, table["kind"])


def test_ids_are_shown_where_rows_are_listed_and_suspects_say_how_many_to_look_at(table, tmp_path):
    table["tag"] = [f"t{i:02}" for i in range(40)]
    table.loc[2, "kind"] = "dog"  # one slip
    succeed(*arguments(table, tmp_path, "--id", "tag"))
    said = succeed("suspects", tmp_path / "m.atoll")
    assert "10 labels, each held against all others" in said
    assert re.search(r"^3 +t02 +dog +0\.\d\d +cat$", said, re.MULTILINE)
    assert re.search(r"1 label is more likely wrong than right\. Look at the first", said)
    said = succeed("next", tmp_path / "m.atoll", tmp_path / "table.csv", "-n", "3")
    assert re.search(r"^row +tag +predicted", said, re.MULTILINE)
    assert "--answers FILE reads it back" in said


def test_help_lists_the_commands_as_they_are_needed():
    said = succeed("--help")
    names = ["demo", "fit", "predict", "explain", "report", "next", "label", "compare", "reproduce"]
    places = [re.search(rf"^ +{name} ", said, re.MULTILINE).start() for name in names]
    assert places == sorted(places)


def test_a_copy_of_the_labels_is_in_the_verdict_of_the_shell(table, tmp_path):
    table["copy"] = np.where(np.arange(40) < 10, table["kind"], "cat")
    said = " ".join(succeed(*arguments(table, tmp_path)).split())
    assert "can be trusted" not in said
    assert "Trust this fit with care" in said
    assert "Beware: copy is the same as the labels in all 10 labelled rows" in said


def test_guides_call_the_file_of_a_comparison_by_one_name():
    folder = Path(__file__).parents[2]
    guides = [folder / "README.md", *folder.glob("docs/*.md")]
    assert len(guides) > 10
    assert not [guide.name for guide in guides if "--html" in guide.read_text(encoding="utf-8")]


def test_rows_in_other_units_are_remarked_on_once_before_they_are_predicted(table, tmp_path):
    succeed(*arguments(table, tmp_path))
    table.assign(x=100.0 * table["x"]).to_csv(tmp_path / "new.csv", index=False)
    predict = ["predict", tmp_path / "m.atoll", tmp_path / "new.csv", "--out", tmp_path / "p.csv"]
    said = succeed(*predict, "--reject-below", 0.6)
    assert said.count("Far outside what the fit saw: x in ") == 1
    assert "a random sample of rows like these" in said


def test_a_default_model_of_the_command_line_warns_in_the_units_of_the_table(table, tmp_path):
    table.to_csv(tmp_path / "t.csv", index=False)
    succeed("fit", tmp_path / "t.csv", "--target", "kind", "--out", tmp_path / "m.atoll")
    with pytest.warns(UserWarning, match="Far outside what the fit saw: x in ") as told:
        load_model(tmp_path / "m.atoll").predict(table.assign(x=100.0 * table["x"]))
    assert len(told) == 1


def test_a_code_of_the_labels_is_in_the_verdict_of_the_shell(table, tmp_path):
    truth = np.array(["cat", "dog"] * 20)
    table["kind"], table["code"] = np.where(np.arange(40) < 24, truth, None), [7, 3] * 20
    said = " ".join(succeed(*arguments(table, tmp_path)).split())
    assert "Beware: each value of code goes with one class in all 24 labelled rows" in said
    assert "--drop code" in said


def test_markers_of_blanks_are_in_the_verdict_of_the_shell(table, tmp_path):
    table["z"] = table["z"].where(np.arange(40) % 10 > 0, -9999.0)
    said = " ".join(succeed(*arguments(table, tmp_path)).split())
    assert "Beware: 4 cells of z are -9999, far from all others, and are learnt from" in said


def test_a_target_called_class_is_kept_beside_the_predictions(table, tmp_path):
    table = table.rename(columns={"kind": "class"}).assign(reason="none", predicted_class="?")
    path, model, out = (tmp_path / name for name in ("t.csv", "m.atoll", "p.csv"))
    table.to_csv(path, index=False)
    left_out = ["--drop", "reason", "--drop", "predicted_class"]
    succeed("fit", path, "--target", "class", "--out", model, *left_out, "--quiet")
    table.loc[[3, 4], ["x", "z"]] = None
    table.to_csv(path, index=False)
    said = succeed("predict", model, path, "--out", out, "--keep")
    assert "predicted_predicted_class beside the data's own class" in said
    assert "the column predicted_reason says why" in said
    found = read_table(out)
    assert found.columns.is_unique
    assert found["class"].dropna().tolist() == table["class"].dropna().tolist()
    assert found["predicted_predicted_class"].notna().sum() == 38
    assert "accuracy" in succeed("score", model, out)


def test_a_column_whose_squares_overflow_is_named(table, tmp_path):
    table.loc[3, "z"] = 1e300
    table.to_csv(tmp_path / "t.csv", index=False)
    said = fail("fit", tmp_path / "t.csv", "--target", "kind", "--out", tmp_path / "m.atoll")
    assert "in 1 column: 'z'." in said


def test_two_columns_of_one_name_are_remarked_on_or_refused(table, tmp_path):
    arguments(table, tmp_path)
    text = (tmp_path / "table.csv").read_text()
    (tmp_path / "table.csv").write_text(text.replace("x,z,kind", "x,x,kind", 1))
    fit = ["fit", tmp_path / "table.csv", "--target", "kind", "--out", tmp_path / "m.atoll"]
    assert "2 columns are called x in the header, and x, x.1 here" in succeed(*fit)
    (tmp_path / "table.csv").write_text(text.replace("x,z,kind", "x,kind,kind", 1))
    assert "which of them holds the labels cannot be told" in fail(*fit)
