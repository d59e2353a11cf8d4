from __future__ import annotations

import copy
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.model_selection import cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import estimator_checks_generator

from atoll import (
    AtollClassifier,
    GraphGPClassifier,
    RowChunks,
    SemiSupervisedKFold,
    TablePreprocessor,
    explain_row,
    make_preprocessor,
    save_model,
)
from atoll.core.preprocessing import prepare
from program import succeed

pytestmark = pytest.mark.usefixtures("hurried")  # the classifiers are not on trial


def penguins(rng, n=60):
    """Two kinds, told by a number and a category, with blank cells in both."""
    kind = np.arange(n) % 2
    table = pd.DataFrame({"mass": rng.normal(size=n) + 6 * kind})
    table["island"] = np.where(rng.random(n) < 0.9, np.where(kind, "Dream", "Biscoe"), "Torgersen")
    table.loc[rng.choice(n, 5, replace=False), "mass"] = np.nan
    table.loc[rng.choice(n, 2, replace=False), "island"] = None
    # A row of nothing but blanks cannot be read.
    table.loc[table.isna().all(axis=1), "mass"] = 3.0
    return table, kind


def test_the_step_is_what_the_command_line_does_to_a_table():
    table, _ = penguins(np.random.default_rng(0))
    step = TablePreprocessor()
    prepared = prepare(table)
    np.testing.assert_array_equal(step.fit_transform(table), prepared.X)
    assert tuple(step.get_feature_names_out()) == prepared.preprocessing.features
    assert step.n_features_in_ == 2
    np.testing.assert_array_equal(clone(step).fit(table).transform(table[::-1]), prepared.X[::-1])


def test_a_pipeline_of_mixed_columns_is_fitted_and_cross_validated():
    table, kind = penguins(np.random.default_rng(1))
    y = kind.astype(object)
    y[10:] = None
    model = make_pipeline(make_preprocessor(), AtollClassifier(random_state=0))
    assert np.mean(model.fit(table, y).predict(table) == kind) > 0.9
    quick = make_pipeline(make_preprocessor(), GraphGPClassifier(n_draws=20, random_state=0))
    labelled = np.flatnonzero([label is not None for label in y])
    folds = list(SemiSupervisedKFold(2, random_state=0).split(table, y))
    assert sorted(np.concatenate([test for _, test in folds])) == labelled.tolist()
    found = [
        quick.fit(table.iloc[train], y[train]).predict(table.iloc[test]) for train, test in folds
    ]
    assert np.mean(np.concatenate(found) == kind[np.concatenate([t for _, t in folds])]) > 0.7
    complete = cross_val_predict(quick, table, kind, cv=3)
    assert np.mean(complete == kind) > 0.8


def test_arrays_and_frames_of_other_libraries_are_read():
    table, _ = penguins(np.random.default_rng(2))
    step = TablePreprocessor().fit(table.to_numpy(dtype=object))
    assert step.n_features_in_ == 2
    assert step.get_feature_names_out()[0] == "x0"
    np.testing.assert_array_equal(
        step.transform(table.to_numpy(dtype=object)), TablePreprocessor().fit_transform(table)
    )

    class Frame:
        """A frame of another library."""

        def to_pandas(self):
            return table

    np.testing.assert_array_equal(
        TablePreprocessor().fit_transform(Frame()), TablePreprocessor().fit_transform(table)
    )


def test_unknown_values_are_warned_of_once_a_column_and_taken_as_blank():
    table, _ = penguins(np.random.default_rng(3))
    step = TablePreprocessor().fit(table)
    new = table.iloc[[0, 1]].assign(mass=1.0, island=["Atlantis", None])
    said = r"^island: the model has not seen Atlantis \(1 row\); taken as blank\.$"
    with pytest.warns(UserWarning, match=said) as told:
        X = step.transform(new)
    assert told[0].filename == __file__  # and not a file of scikit-learn's
    np.testing.assert_array_equal(X[0], X[1])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        step.transform(table)


def test_a_word_written_otherwise_is_named_with_its_rows_and_the_word_that_may_be_meant():
    table, _ = penguins(np.random.default_rng(3))
    step = TablePreprocessor().fit(table)
    word = str(table["island"].dropna().iloc[0])
    new = table.assign(island=table["island"].replace(word, f"{word.lower()} "))
    n = int((table["island"] == word).sum())
    said = rf"'{word.lower()} ' \({n} rows\); taken as blank\. Did you mean '{word}'\?$"
    with pytest.warns(UserWarning, match=said):
        step.transform(new)


def test_bad_input_is_named():
    with pytest.raises(ValueError, match="encode must be True or False"):
        TablePreprocessor(encode=3).fit([[1.0]])
    with pytest.raises(ValueError, match="X must have rows and columns, got 1"):
        TablePreprocessor().fit([1.0])
    table, _ = penguins(np.random.default_rng(4))
    step = TablePreprocessor().fit(table)
    with pytest.raises(ValueError, match=r"lacks column 'island', which the model"):
        step.transform(table[["mass"]])
    with pytest.raises(ValueError, match=r"X is sparse.*Leave this step out"):
        step.fit(sparse.csr_array(np.eye(2)))
    with pytest.raises(ValueError, match="texts must be a sequence of columns, got 'note'"):
        TablePreprocessor(texts="note").fit(table)


@pytest.mark.parametrize(
    ("step", "check"),
    [
        pytest.param(step, check, id=check.func.__name__)
        for step, check in estimator_checks_generator(TablePreprocessor())
    ],
)
def test_scikit_learn_estimator_checks(step, check):
    check(step)


def test_texts_are_a_sparse_step_of_a_pipeline():
    words = [["sea", "boat", "storm", "rope"], ["bread", "salt", "flour", "oven"]]
    rng = np.random.default_rng(5)
    kind = np.arange(40) % 2
    table = pd.DataFrame(
        {
            "note": [
                " ".join(["before", "that", *rng.choice(words[k], 9)]) + f" {i}"
                for i, k in enumerate(kind)
            ]
        }
    )
    y = kind.astype(object)
    y[8:] = None
    model = make_pipeline(make_preprocessor(), AtollClassifier(metric="cosine", random_state=0))
    assert np.mean(model.fit(table, y).predict(table) == kind) > 0.95
    step = model[0]
    assert step.transform(table).shape[1] == len(step.get_feature_names_out())


def beside_the_point(rng, n=120):
    """Two clouds of two measurements, and ten categories that tell nothing of them."""
    kind = np.arange(n) % 2
    table = pd.DataFrame(rng.normal(size=(n, 2)) + 4.0 * kind[:, None], columns=["mass", "size"])
    for j in range(10):
        table[f"c{j}"] = rng.choice([2007, 2008] if j % 2 else ["p", "q", "r"], n)
    y = kind.astype(object)
    y[48:] = None
    return table, y


def test_categories_count_half_where_labels_are_more_probable_so():
    table, y = beside_the_point(np.random.default_rng(0))
    step = TablePreprocessor().fit(table, y)
    whole, half = (TablePreprocessor(category_weight=w).fit(table) for w in (1, 0.5))
    assert step.category_weight_ == 0.5
    np.testing.assert_array_equal(step.transform(table), half.transform(table))
    few = [name not in ("mass", "size") for name in step.get_feature_names_out()]
    np.testing.assert_allclose(
        half.transform(table), whole.transform(table) * np.where(few, 0.5, 1), atol=1e-12
    )
    assert TablePreprocessor().fit(table).category_weight_ == 1.0  # without labels
    assert TablePreprocessor().fit(table, np.arange(120.0)).category_weight_ == 1.0  # no classes


def test_categories_that_are_the_classes_keep_their_weight():
    table, y = beside_the_point(np.random.default_rng(1))
    told = np.where(table["c0"] == "p", "a", "b").astype(object)
    told[[label is None for label in y]] = None
    assert TablePreprocessor().fit(table, told).category_weight_ == 1.0


SENTENCES = [
    "the boat left the harbour before the storm",
    "flour, water and salt make the bread",
    "a storm kept every boat in the harbour",
    "knead the bread with flour and water",
    "the harbour lay behind the storm",
    "salt the water and add the flour",
]


def test_columns_are_found_by_name_and_others_are_ignored():
    table = pd.DataFrame({"mass": [3.0, 4.0, 5.0], "site": ["a", "b", "a"], "tag": ["p", "q", "r"]})
    step = make_preprocessor(drop=["tag"]).fit(table)
    expected = step.transform(table)
    assert step.get_feature_names_out().tolist() == ["mass", "site=a", "site=b"]
    turned = table[["site", "mass"]].assign(extra=1)
    np.testing.assert_array_equal(step.transform(turned), expected)
    with pytest.raises(ValueError, match="lacks column 'mass', which the model was fitted on"):
        step.transform(turned.drop(columns="mass"))
    with pytest.raises(ValueError, match="the column to drop 'tog' is not in the table; did you"):
        make_preprocessor(drop=["tog"]).fit(table)


def test_short_sentences_are_texts_and_cells_that_all_differ_are_remarked_on():
    step = make_preprocessor().fit(pd.DataFrame({"t": SENTENCES}))
    assert sparse.issparse(step.transform(pd.DataFrame({"t": ["bread and salt"]})))
    names = pd.DataFrame(
        {"who": [f"Smith {chr(65 + i)}." for i in range(12)], "x": range(0, 24, 2)}
    )
    with pytest.warns(UserWarning, match=r"12 of its 12 cells are diff.*texts=\['who'\].*drop"):
        make_preprocessor().fit(names)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make_preprocessor(drop=["who"]).fit(names)


def test_the_step_says_what_each_column_became():
    table = pd.DataFrame(
        {"mass": [3.0, None, 5.0, 4.0, 1.0, 2.0], "site": list("ababab"), "note": SENTENCES}
    )
    step = make_preprocessor()
    assert repr(step) == "TablePreprocessor()"
    assert repr(step.fit(table)).splitlines() == [
        "TablePreprocessor()",
        "  mass: a number, standardised; 1 blank cell takes the median, 3; and whether it is blank",
        "  site: 2 categories: a, b",
        "  note: texts, by 20 words",
    ]


def test_the_step_says_what_categories_count_and_which_numbers_count_like_them():
    table = pd.DataFrame(
        {"mass": np.arange(40.0), "year": [2020, 2021] * 20, "site": ["a", "b"] * 20}
    )
    table.loc[:0, "site"] = None
    step = make_preprocessor(category_weight=0.5).fit(table)
    assert repr(step).splitlines()[1:] == [
        "  mass: a number, standardised",
        "  year: a number of few values, standardised; counts half beside measurements",
        "  site: 2 categories: a, b; counts half beside measurements; 1 blank cell takes none of "
        "them",
    ]
    assert "counts" not in repr(make_preprocessor().fit(table))


def test_errors_of_a_step_are_mended_in_python():
    many = pd.DataFrame({"bill length": [f"mm{i}" for i in range(101)]})
    with pytest.raises(ValueError, match=r"make_preprocessor\(drop=\['bill length'\]\)") as caught:
        make_preprocessor().fit(many)
    assert "--" not in str(caught.value)
    with pytest.raises(ValueError, match=r"--drop 'bill length', or if .*--id 'bill length'"):
        prepare(many)
    with pytest.raises(ValueError, match=r"table\[\['t'\]\] in the place of table\['t'\]"):
        make_preprocessor().fit(pd.Series(SENTENCES, name="t"))
    with pytest.raises(ValueError, match=r'pandas.DataFrame\({"text": X}\)'):
        make_preprocessor().fit(SENTENCES)
    with pytest.raises(ValueError, match=r"path 'n.csv'; read the table.*RowChunks.from_csv"):
        make_preprocessor().fit("n.csv")


@pytest.mark.filterwarnings("ignore:.* labels held out in turn the graph")
@pytest.mark.parametrize("with_texts", [False, True])
def test_a_table_in_chunks_is_predicted_as_it_is_in_memory(tmp_path, with_texts):
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {"mass": rng.normal(size=30), "site": rng.choice(["a", "b"], 30), "extra": range(30)}
    )
    table["code"] = ["A1" if i == 3 else None if i % 5 == 1 else "2.50" for i in range(30)]
    if with_texts:
        table["note"] = [f"{SENTENCES[i % 6]} {i}" for i in range(30)]
    table.to_csv(tmp_path / "t.csv", index=False)
    y = np.where(np.arange(30) < 8, np.arange(30) % 2, -1)
    step = make_preprocessor(category_weight=1)
    model = make_pipeline(step, GraphGPClassifier(random_state=0))
    model.fit(table.drop(columns="extra"), y)
    chunks = RowChunks.from_csv(tmp_path / "t.csv", chunk_rows=7)
    expected = model.predict_proba(table)
    np.testing.assert_allclose(model.predict_proba(chunks), expected, rtol=1e-9)
    with pytest.raises(ValueError, match=r"X is in chunks.*Fit on a part of them"):
        make_preprocessor().fit(chunks)


@pytest.mark.parametrize("with_texts", [False, True])
def test_rows_that_cannot_be_read_in_chunks_have_blank_answers_and_the_commands_reasons(
    tmp_path, with_texts
):
    rng = np.random.default_rng(0)
    kind = np.array(["light", "heavy"])[np.arange(60) % 2]
    table = pd.DataFrame({"mass": rng.normal(size=60) + 5 * (kind == "heavy")})
    table["site"] = rng.choice(["reef", "shore"], 60)
    if with_texts:
        table["note"] = [f"{SENTENCES[i % 6]} {i}" for i in range(60)]
    model = make_pipeline(make_preprocessor(), GraphGPClassifier(random_state=0))
    model.fit(table, np.where(np.arange(60) < 20, kind, None))
    lines = table.to_csv(index=False).splitlines()
    n_cells = table.shape[1]
    bad = {3: "tall", 31: "inf", 33: None, 47: "long", 59: "longer"}
    for row, what in bad.items():
        cells = lines[row + 1].split(",")
        cells = {"long": [*cells, "7"], "longer": [*cells, "7", "8"], None: [""] * n_cells}.get(
            what, [what, *cells[1:]]
        )
        lines[row + 1] = ",".join(cells)
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n")
    chunks = RowChunks.from_csv(tmp_path / "t.csv", chunk_rows=20)
    with pytest.warns(UserWarning, match=r"5 of 60 rows cannot be read.*row 3: mass is 'tall'"):
        p = model.predict_proba(chunks)
    assert list(chunks.reasons) == list(bad)
    is_bad = np.isin(np.arange(60), list(bad))
    assert np.isnan(p[is_bad]).all()
    np.testing.assert_allclose(p[~is_bad], model.predict_proba(table)[~is_bad], rtol=1e-9)
    with pytest.warns(UserWarning, match="5 of 60 rows"):
        found = model.predict(chunks)
    assert [label is None for label in found] == is_bad.tolist()
    assert found[~is_bad].tolist() == model.predict(table)[~is_bad].tolist()
    save_model(model, tmp_path / "m.atoll")
    succeed("predict", tmp_path / "m.atoll", tmp_path / "t.csv", "--out", tmp_path / "p.csv")
    written = pd.read_csv(tmp_path / "p.csv")["reason"]
    assert written.notna().tolist() == is_bad.tolist()
    assert written.dropna().to_dict() == chunks.reasons


def test_a_table_in_chunks_that_can_be_read_again_has_no_reasons_left(tmp_path):
    table = pd.DataFrame({"mass": np.arange(12.0) % 5})
    y = np.where(np.arange(12) < 6, table["mass"] > 2, None)
    model = make_pipeline(make_preprocessor(), GraphGPClassifier(random_state=0)).fit(table, y)
    table.astype(object).replace(3.0, "three").to_csv(tmp_path / "t.csv", index=False)
    chunks = RowChunks.from_csv(tmp_path / "t.csv", chunk_rows=5)
    with pytest.warns(UserWarning, match="2 of 12 rows"):
        model.predict(chunks)
    assert chunks.reasons == dict.fromkeys([3, 8], "mass is 'three', not a number")
    table.to_csv(tmp_path / "t.csv", index=False)
    model.predict(chunks)
    assert chunks.reasons == {}
    pd.DataFrame({"mass": ["a", "b"]}).to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(ValueError, match="no row can be read; row 0: mass is 'a', not a number"):
        model.predict(chunks)


def test_a_fit_on_chunks_of_features_refuses_rows_that_cannot_be_read(tmp_path):
    table = pd.DataFrame({"mass": np.arange(30.0) % 5})
    step = make_preprocessor().fit(table)
    kind = np.where(np.arange(30) < 12, np.where(table["mass"] > 2, "b", "a"), None)
    table.astype(object).assign(kind=kind).replace({"mass": {3.0: "three"}}).to_csv(
        tmp_path / "t.csv", index=False
    )
    chunks = step.transform(RowChunks.from_csv(tmp_path / "t.csv", "kind", chunk_rows=11))
    with pytest.raises(ValueError, match="row 3 cannot be read: mass is 'three', not a number"):
        GraphGPClassifier(random_state=0).fit(chunks)


def test_the_default_leaves_weights_beside_standardised_columns_as_they_are():
    kind = np.arange(60) % 2
    measured = np.random.default_rng(2).normal(size=(60, 2)) + 4.0 * kind[:, None]
    measured = (measured - measured.mean(axis=0)) / measured.std(axis=0)
    y = kind.astype(object)
    y[20:] = None
    indicators = 0.05 * (np.arange(60)[:, None] % [2, 3, 4, 5] > 0)  # of little weight, of no unit
    for others, is_scaled in ((indicators, False), (0.05 * measured[:, [0, 1, 0, 1]] ** 2, True)):
        model = AtollClassifier(n_draws=20, random_state=0)
        assert model.fit(np.column_stack([measured, others]), y).scaled_ == is_scaled


def test_a_row_of_a_pipeline_is_explained_with_the_cells_that_were_filled_in():
    rng = np.random.default_rng(0)
    truth = np.array(["cat", "dog"] * 15)
    table = pd.DataFrame(rng.normal(size=(30, 2)), columns=["x", "z"])
    table["x"] += 4 * (truth == "dog")
    table["site"] = ["reef", "lagoon"] * 15
    table.loc[10, ["x", "z"]] = np.nan
    table.index = [f"r{i}" for i in range(30)]
    y = np.where(np.arange(30) < 6, truth, None)
    model = make_pipeline(make_preprocessor(category_weight=1.0), GraphGPClassifier(random_state=0))
    model.fit(table, y)
    found = explain_row(model, table, 10)
    assert (found.filled, found.n_columns) == (("x", "z"), 3)
    assert "Blank in this row, and filled in: x, z. These are 2 of 3 columns" in str(found)
    plain = model[-1].explain_row(7)
    named = explain_row(model, table, "r7")
    assert {column.name for column in named.columns} == {"x", "z", "site"}
    assert str(named._replace(names=(), columns=())) == str(plain._replace(columns=()))
    with pytest.raises(ValueError, match="row must be from 0 to 29, got 30"):
        explain_row(model, table, 30)
    with pytest.raises(ValueError, match="A classifier alone has the method"):
        explain_row(model[-1], table, 3)
    loaded = copy.deepcopy(model)
    with pytest.raises(ValueError, match=r"explain_row\(model, table, row, y=labels\)"):
        explain_row(loaded, table, 10)
    assert str(explain_row(loaded, table, 10, y=y)) == str(found)


def test_labels_of_most_rows_that_mean_none_are_refused_and_taken_where_the_classifier_is_told():
    table = pd.DataFrame({"x": [0.0, 0.1, 0.2, 5.0, 5.1, 5.2], "site": list("aabbaa")})
    y = ["a", "?", "?", "b", "?", "?"]
    with pytest.raises(ValueError, match=r"4 of 6 rows have the label '\?'.*unlabelled='\?'"):
        make_pipeline(make_preprocessor(), GraphGPClassifier(random_state=0)).fit(table, y)
    told = GraphGPClassifier(unlabelled="?", random_state=0)
    assert make_pipeline(make_preprocessor(), told).fit(table, y).classes_.tolist() == ["a", "b"]


@pytest.mark.parametrize("kind", [list, lambda y: pd.DataFrame({"kind": y})])
def test_a_pipeline_remarks_on_labels_once(kind):
    table = pd.DataFrame({"x": np.arange(40.0), "site": list("ab") * 20})
    y = kind(["a", "b", "b", "?"] + [None] * 36)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        make_pipeline(make_preprocessor(), GraphGPClassifier(random_state=0)).fit(table, y)
    about_y = [str(one.message) for one in said]
    assert sum("unlabelled='?'" in one for one in about_y) == 1
    assert sum("column-vector" in one for one in about_y) == isinstance(y, pd.DataFrame)


def test_a_column_of_one_value_is_said_to_tell_nothing():
    table = pd.DataFrame({"study": ["PAL"] * 20, "unit": 1.0, "x": np.arange(20.0)})
    table["known"] = ["yes", None] * 10
    lines = str(make_preprocessor().fit(table)).splitlines()
    assert "  study: constant, tells nothing: PAL" in lines
    assert "  unit: constant, tells nothing" in lines
    assert any(line.startswith("  known: 1 category: yes; 10 blank") for line in lines)


def plots(**more):
    """Twenty rows whose column `plot` counts them from 1000 on."""
    x = np.random.default_rng(0).standard_normal(20)
    return pd.DataFrame({"plot": np.arange(1000, 1020), "x": x, **more})


@pytest.mark.filterwarnings("ignore:.* labels held out in turn the graph")
def test_a_column_that_numbers_the_rows_is_remarked_on_once_with_the_fix():
    y = ["a", "b"] * 4 + [None] * 12
    model = make_pipeline(make_preprocessor(), GraphGPClassifier(random_state=0))
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        model.fit(plots(), y)
    found = [str(one.message) for one in said if "row number" in str(one.message)]
    assert len(found) == 1
    assert "'plot'" in found[0]
    assert "make_preprocessor(drop=['plot'])" in found[0]
    with pytest.warns(UserWarning, match=r"'plot' looks .*X\.drop\(columns=\['plot'\]\)"):
        GraphGPClassifier(random_state=0).fit(plots(), y)


@pytest.mark.parametrize(
    "name",
    ["id", "patient_id", "PassengerId", "row index", "Unnamed: 0", "rownames", "row", "level_0"],
)
def test_an_id_or_a_saved_index_in_any_order_is_remarked_on(name):
    ids = np.random.default_rng(0).permutation(10_000)[:20]
    with pytest.warns(UserWarning, match=f"column '{name}' looks like a row number"):
        make_preprocessor().fit(plots().drop(columns="plot").assign(**{name: ids}))


def test_measurements_years_and_ids_of_several_rows_are_not_remarked_on():
    years = plots().rename(columns={"plot": "year"})
    steps = plots().assign(plot=lambda t: 2 * t["plot"])
    mass = plots().assign(plot=lambda t: t["plot"][::-1].to_numpy())
    visits = plots().drop(columns="plot").assign(patient_id=np.arange(20) // 2)
    for table in (years, steps, mass, visits, plots()[["plot"]]):
        make_preprocessor().fit(table)  # a warning would fail here
    make_preprocessor(drop=["plot"]).fit(plots())


def numbered(cells):
    cells = np.asarray(cells)
    x = np.random.default_rng(0).standard_normal(len(cells))
    return pd.DataFrame({"plot": cells, "x": x})


@pytest.mark.parametrize(
    "serial",
    [
        [*range(1, 153), *range(1, 125), *range(1, 69)],  # the penguins of three islands
        [*range(1, 31), *range(1, 31)],
        np.delete(np.arange(100), [7, 30, 31, 80]),  # some rows left out since
    ],
)
def test_numbers_of_rows_that_start_anew_or_have_gaps_are_remarked_on(serial):
    with pytest.warns(UserWarning, match="column 'plot' looks like a row number"):
        make_preprocessor().fit(numbered(serial))


@pytest.mark.parametrize(
    "measured",
    [
        [0, 1] * 50,
        np.sort(np.random.default_rng(0).integers(0, 80, 100)),
        np.sort(np.random.default_rng(0).permutation(130)[:100]),
        [*range(12)] * 20,
        [*range(24)] * 20,  # hours
        [*range(5, 24), *([*range(24)] * 20), *range(7)],  # from one morning to another
        np.tile(np.arange(50), 50),  # places in a picture
        np.delete(np.tile(np.arange(1, 46), 4), [10, 77, 150]),  # varieties, with plots left out
        np.delete(np.tile(np.arange(1, 46), 3), [10, 70]),
        np.repeat(np.arange(50), 50),
    ],
)
def test_numbers_in_order_that_measure_something_are_not_remarked_on(measured):
    make_preprocessor().fit(numbered(measured))  # a warning would fail here


def test_python_counts_the_rows_it_refuses_from_zero():
    frame = pd.DataFrame({"x": [1.0, None, 3.0, None], "hue": ["red", None, "blue", None]})
    with pytest.raises(ValueError, match=r"rows 1, 3: .*first row is row 0.*dropna\(how='all'\)"):
        make_preprocessor().fit(frame)
    with pytest.raises(ValueError, match=r"row 1 of 'x'.*first row is row 0"):
        make_preprocessor(impute=False).fit(frame[["x"]].iloc[:3])


def test_a_bad_cell_of_new_rows_is_named_by_row_and_value():
    step = make_preprocessor().fit(pd.DataFrame({"mass": [1.0, 2.0, 3.0]}))
    with pytest.raises(ValueError, match=r"mass of row 2 is 'n\.a\.\?'.*first row is row 0"):
        step.transform(pd.DataFrame({"mass": [1.0, 2.0, "n.a.?"]}))


@pytest.mark.parametrize("blank", [None, pd.NA, np.nan, pd.NaT])
def test_a_single_row_whose_number_is_blank_is_filled_in_however_the_blank_is_written(blank):
    table = pd.DataFrame({"mass": [3.0, 4.0, 9.0], "wet": [True, False, True]})
    step = make_preprocessor().fit(table)
    filled = step.transform(table.assign(mass=np.nan)[:1])
    np.testing.assert_array_equal(
        step.transform(pd.DataFrame([{"mass": blank, "wet": True}])), filled
    )
    with pytest.raises(ValueError, match="missing values in the features: row 0 of 'mass'"):
        TablePreprocessor(impute=False).fit(table).transform(
            pd.DataFrame([{"mass": blank, "wet": True}])
        )


@pytest.mark.parametrize("dtype", ["boolean", "object", "category"])
def test_truth_values_and_numbers_are_read_in_the_other_forms_that_tables_have_for_them(dtype):
    table = pd.DataFrame({"code": [1, 2, 1, 3], "wet": [True, False, True, True]})
    step = make_preprocessor(standardise=False).fit(table)
    new = pd.DataFrame({"wet": pd.Series([None, True, False, True], dtype=dtype)})
    new["code"] = table["code"].astype("category")
    found = step.transform(new)
    np.testing.assert_array_equal(found, [[1, 1], [2, 1], [1, 0], [3, 1]])  # the median is true


def test_words_for_truth_values_are_read_where_the_fit_had_truth_values():
    table = pd.DataFrame({"mass": np.arange(40.0), "wet": [True, False, None, True] * 10})
    step = make_preprocessor().fit(table)
    words = table.assign(wet=["TRUE", "false", None, "True"] * 10)
    np.testing.assert_array_equal(step.transform(words), step.transform(table))


def test_a_column_that_is_the_label_is_warned_of_by_name():
    rng = np.random.default_rng(0)
    truth = np.array(["ant", "bee"] * 20, dtype=object)
    y = np.where(np.arange(40) < 12, truth, None)
    code = (truth == "bee").astype(int)
    table = pd.DataFrame({"x": rng.random(40), "kind": truth, "code": code})
    table["site"] = list("ab" * 20)
    with pytest.warns(
        UserWarning, match="column 'kind' is the same as y in all 12 labelled"
    ) as told:
        make_preprocessor().fit(table, y)
    assert "make_preprocessor(drop=['kind'])" in str(told[0].message)
    model = make_pipeline(make_preprocessor(), GraphGPClassifier(n_draws=20, random_state=0))
    marked = np.where(np.arange(40) < 12, code, -1)
    with pytest.warns(UserWarning, match="column 'code' is the same as y in all 12") as told:
        model.fit(table, marked)
    assert told[0].filename == __file__  # not a line of scikit-learn's
    few = np.where(np.arange(40) < 4, code, -1)  # numbers of four rows may agree by chance
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make_preprocessor().fit(table, few)
        make_preprocessor(drop=["kind"]).fit(table, y)
        make_preprocessor().fit(table.assign(kind=truth[::-1]), y)


def test_a_row_in_the_place_of_a_table_and_a_list_of_texts_are_told_the_fix():
    table = pd.DataFrame({"x": [0.0, 1.0, 5.0, 6.0], "kind": ["a", "a", "b", "b"]})
    step = make_preprocessor().fit(table)
    with pytest.raises(ValueError, match=r"table\.iloc\[\[2\]\] in the place of table\.iloc\[2\]"):
        step.transform(table.iloc[2])
    with pytest.raises(ValueError, match=r"table\[\['kind'\]\]"):
        step.transform(table["kind"])
    with pytest.raises(ValueError, match=r"list of texts.*make_pipeline\(TfidfVectorizer\(\)"):
        AtollClassifier().fit(["a moon", "a star", "fur", "a tail"], ["sky", "sky", "cat", "cat"])


def test_files_that_are_written_otherwise_are_answered_with_the_option_that_reads_them(tmp_path):
    frame = pd.DataFrame({"mass": [3.5, 4.25, 3.75, 5.5] * 5, "site": ["a", "b"] * 10})
    step = make_preprocessor().fit(frame)
    path = tmp_path / "t.csv"
    frame.to_csv(path, index=False, sep=";", decimal=",")
    chunks = RowChunks.from_csv(path, chunk_rows=3)
    with pytest.raises(ValueError, match=r"lacks columns 'mass', 'site'.*with sep=';'"):
        step.transform(chunks).total(lambda number, X, y: len(X))
    with pytest.raises(ValueError, match=r"target='site' is not a column .*with sep=';'"):
        next(RowChunks.from_csv(path, "site").make())
    chunks = RowChunks.from_csv(path, sep=";", chunk_rows=3)
    with pytest.raises(ValueError, match=r"'mass' has decimal commas, such as '3,5'.*decimal=','"):
        next(step.transform(chunks).make())
    with pytest.raises(ValueError, match=r"'mass' has decimal commas"):
        step.transform(pd.read_csv(path, sep=";"))
    chunks = RowChunks.from_csv(path, sep=";", decimal=",", chunk_rows=3)
    assert step.transform(chunks).total(lambda number, X, y: len(X)) == 20


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"PAR1\xff\xfe", r"it is a Parquet file: read it with RowChunks.from_parquet"),
        (b"PK\x03\x04\xff\xfe", r"it is a zip file, as those of Excel are"),
        (b"caf\xe9,x\n1,2\n", r"encoding='latin-1'"),
        ("x,y\n1,2\n".encode("utf-16"), r"encoding='utf-16'"),
        (b"", r"is empty; it needs a header"),
    ],
)
def test_a_file_that_is_no_csv_is_named_with_what_to_do(tmp_path, content, said):
    path = tmp_path / "rows.csv"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=rf"rows\.csv' .*{said}"):
        next(RowChunks.from_csv(path).make())


def test_a_column_that_is_a_code_of_the_labels_is_warned_of_by_name():
    rng = np.random.default_rng(0)
    y = np.array(["ant", "bee"] * 20, dtype=object)
    table = pd.DataFrame({"x": rng.random(40), "code": [4, 2] * 20})
    with pytest.warns(UserWarning, match="each value of column 'code' goes with one class"):
        make_preprocessor().fit(table, y)
