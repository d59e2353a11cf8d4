from __future__ import annotations

import gzip
import os
import wave

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from atoll.app import make_features, read_rows
from atoll.app.export import check_export_path, default_export_path, labelled_table, write_labels
from atoll.app.features import (
    picture_features,
    plane_of,
    read_embedding,
    sound_features,
    text_features,
)
from atoll.app.items import guess_view
from atoll.app.store import Event, LabelLog
from atoll.core.tables import read_table


def save_picture(path, value=120):
    Image.fromarray(np.full((9, 7), value, dtype=np.uint8)).save(path)


def save_sound(path, pitch=440.0):
    t = np.arange(2000) / 8000
    sound = (12000 * np.sin(2 * np.pi * pitch * t)).astype("<i2")
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(8000)
        file.writeframes(sound.tobytes())


@pytest.fixture
def pictures(tmp_path):
    """A folder with four pictures, one of them in a folder inside, and one that is none."""
    folder = tmp_path / "birds"
    (folder / "more").mkdir(parents=True)
    for k, name in enumerate(["a.png", "b.jpg", "more/c.png"]):
        save_picture(folder / name, 60 * k)
    (folder / "bad.png").write_bytes(b"\x89PNG\r\n\x1a\n and then nothing")
    (folder / "notes.txt").write_text("no picture")
    (folder / ".hidden.png").write_bytes(b"")
    return folder


def test_a_folder_of_pictures_is_a_table_of_files(pictures):
    rows = read_rows(pictures, "bird")
    assert rows.frame["file"].tolist() == ["a.png", "b.jpg", "bad.png", "more/c.png"]
    assert rows.view.kind == "image"
    assert rows.media(3)[1] == "image/png"


def test_a_picture_that_does_not_decode_is_named_and_the_others_serve(pictures):
    features = make_features(read_rows(pictures, "bird"))
    assert features.rows.tolist() == [0, 1, 3]
    assert features.X.shape == (3, 256)
    assert list(features.lost) == [2]
    assert "'bad.png' does not decode as a picture" in features.lost[2]


def test_a_link_out_of_the_folder_is_not_followed(pictures, tmp_path):
    save_picture(tmp_path / "secret.png")
    (pictures / "link.png").symlink_to(tmp_path / "secret.png")
    (pictures / "inside.png").symlink_to(pictures / "a.png")
    outside = tmp_path / "elsewhere"
    outside.mkdir()
    save_picture(outside / "far.png")
    (pictures / "folder").symlink_to(outside)
    rows = read_rows(pictures, "bird")
    names = rows.frame["file"].tolist()
    assert "folder/far.png" not in names
    assert rows.media(names.index("link.png")) is None
    assert "no image file inside" in rows.unseen[names.index("link.png")]
    assert rows.media(names.index("inside.png"))[0] == (pictures / "a.png").resolve()


@pytest.mark.parametrize(
    "path",
    [
        "../secret.png",
        "/etc/passwd",
        "a.png/../../secret.png",
        "a\0.png",
        "x" * 5000,
        "loop.png",
        "",
    ],
)
def test_a_cell_that_leads_out_of_the_folder_shows_nothing(pictures, tmp_path, path):
    save_picture(tmp_path / "secret.png")
    if path == "loop.png":
        (pictures / "loop.png").symlink_to(pictures / "loop.png")
    pd.DataFrame({"photo": ["a.png", path]}).to_parquet(pictures / "table.parquet")
    rows = read_rows(pictures / "table.parquet", "bird", view="image", column="photo")
    assert rows.media(0) is not None
    assert rows.media(1) is None
    assert rows.media(-1) is None
    assert rows.media(2) is None
    assert list(rows.unseen) == [1]


def test_scripts_are_no_pictures(pictures):
    (pictures / "drawing.svg").write_text("<svg onload='alert(1)'/>")
    (pictures / "page.png").symlink_to(pictures / "notes.txt")
    pd.DataFrame({"photo": ["a.png", "drawing.svg", "page.png"]}).to_csv(pictures / "t.csv")
    rows = read_rows(pictures / "t.csv", "bird", view="image", column="photo")
    assert [rows.media(r) is None for r in range(3)] == [False, True, True]


def test_files_may_lie_in_another_folder(pictures, tmp_path):
    pd.DataFrame({"photo": ["a.png"]}).to_csv(tmp_path / "t.csv", index=False)
    rows = read_rows(tmp_path / "t.csv", "bird", view="image", column="photo", folder=pictures)
    assert rows.media(0)[0] == (pictures / "a.png").resolve()
    with pytest.raises(ValueError, match=r"none of the 1 rows can be shown.*--media"):
        read_rows(tmp_path / "t.csv", "bird", view="image", column="photo")


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ({"x": [1.0, 2.0], "t": ["word " * 20] * 2}, ("text", "t")),
        ({"x": [1.0, 2.0], "t": ["red", "blue"]}, ("table", None)),
        ({"p": ["a/b.JPG", "c.png"], "t": ["word " * 20] * 2}, ("image", "p")),
        ({"s": ["x.wav", "y.mp3"]}, ("audio", "s")),
        ({"s": [None, None], "x": [1, 2]}, ("table", None)),
    ],
)
def test_the_view_is_told_from_the_cells(columns, expected):
    assert guess_view(pd.DataFrame(columns), "kind") == expected


def write(tmp_path, **columns):
    path = tmp_path / "data.csv"
    pd.DataFrame(columns).to_csv(path, index=False)
    return path


def test_a_target_column_without_a_blank_cell_is_refused(tmp_path):
    path = write(tmp_path, x=[1, 2], kind=["a", "b"])
    with pytest.raises(ValueError, match="'kind' has no blank cell"):
        read_rows(path, "kind")


@pytest.mark.parametrize(
    ("cells", "unlabelled", "labels"),
    [
        ("cat dog ? ?", "?", ["cat", "dog", None, None]),
        ("cat ? todo ?", ["?", "todo"], ["cat", None, None, None]),
        ("0 1 9 9", "9", ["0", "1", None, None]),
        ("cat NA NA", None, ["cat", "NA", "NA"]),
    ],
)
def test_what_stands_in_unlabelled_cells_may_be_said(tmp_path, cells, unlabelled, labels):
    path = tmp_path / "data.csv"
    path.write_text("x,kind\n" + "".join(f"1,{cell}\n" for cell in [*cells.split(), ""]))
    rows = read_rows(path, "kind", unlabelled=unlabelled)
    assert rows.given.labels.tolist() == [*labels, None]
    assert rows.given.kind == ("whole" if cells[0] == "0" else "text")


def test_a_label_that_sounds_like_none_is_a_class_where_classes_name_it(tmp_path):
    path = write(tmp_path, x=[1, 2, 3, 4], kind=["a", "?", "b", None])
    with pytest.warns(UserWarning, match="'\\?', which is read as a class"):
        read_rows(path, "kind", unlabelled="WRONG")
    rows = read_rows(path, "kind", unlabelled="WRONG", classes=["a", "b", "?"])
    assert rows.given.labels.tolist() == ["a", "?", "b", None]
    assert rows.given.classes == ("a", "b", "?")


def test_hundreds_of_classes_are_taken_and_thousands_are_not(tmp_path):
    path = write(tmp_path, x=range(301), kind=[*(f"c{i}" for i in range(300)), None])
    assert len(read_rows(path, "kind").given.classes) == 300
    path = write(tmp_path, x=range(2001), kind=[*(f"c{i}" for i in range(2000)), None])
    with pytest.raises(ValueError, match="2000 different values, more than 1000"):
        read_rows(path, "kind")


def test_a_table_without_rows_is_refused(tmp_path):
    path = write(tmp_path, x=[], kind=[])
    with pytest.raises(ValueError, match="has no rows"):
        read_rows(path, "kind")


def test_a_folder_without_pictures_is_refused(tmp_path):
    with pytest.raises(ValueError, match="has no pictures"):
        read_rows(tmp_path, "kind")


def test_a_class_name_of_ten_thousand_characters_is_refused(tmp_path):
    path = write(tmp_path, x=[1, 2], kind=["y" * 10_000, None])
    with pytest.raises(ValueError, match="10000 characters"):
        read_rows(path, "kind")
    path = write(tmp_path, x=[1, 2], kind=["a", None])
    with pytest.raises(ValueError, match="10000 characters"):
        read_rows(path, "kind", classes=["z" * 10_000])


def test_a_column_of_measurements_is_no_column_of_classes(tmp_path):
    path = write(tmp_path, x=[1, 2], kind=[0.5, None])
    with pytest.raises(ValueError, match="continuous numbers"):
        read_rows(path, "kind")
    path = write(tmp_path, x=range(301), kind=[*range(300), None])
    with pytest.raises(ValueError, match="300 different values"):
        read_rows(path, "kind")


def test_a_misspelt_target_is_told_and_a_new_one_begins_empty(tmp_path):
    path = write(tmp_path, x=[1, 2], species=["a", None])
    with pytest.raises(ValueError, match="did you mean 'species'"):
        read_rows(path, "specis")
    rows = read_rows(path, "colour", classes=["red", "blue"])
    assert rows.given.labels.tolist() == [None, None]
    assert rows.given.classes == ("red", "blue")


@pytest.mark.parametrize(
    ("cells", "kind", "classes"),
    [
        ([3, 1, None], "whole", ("1", "3")),
        ([True, None, False], "boolean", ("False", "True")),
        ([" b ", "a", None], "text", ("a", "b")),
        ([-1, 5, 7], "whole", ("5", "7")),
    ],
)
def test_labels_become_words_and_are_exported_in_their_own_type(tmp_path, cells, kind, classes):
    path = tmp_path / "data.parquet"
    frame = pd.DataFrame({"x": [0.1, 0.2, 0.3], "kind": pd.Series(cells).convert_dtypes()})
    frame.to_parquet(path)
    rows = read_rows(path, "kind")
    assert (rows.given.kind, rows.given.classes) == (kind, classes)
    blank = rows.given.labels.tolist().index(None)
    with LabelLog(tmp_path / "log", rows.subject()) as log:
        log.append(Event("label", blank, classes[-1]))
        table = labelled_table(rows, log.answers, path)
    expected = {"whole": int, "boolean": lambda v: v == "True", "text": str}[kind](classes[-1])
    assert table["kind"].iloc[blank] == expected
    assert table["kind"].notna().all()
    assert type(table["kind"].iloc[blank].item() if kind != "text" else "") in (int, bool, str)


@pytest.mark.filterwarnings("ignore:y holds -1:UserWarning")
def test_an_export_keeps_every_cell_of_a_csv_as_it_is_written(tmp_path):
    path = tmp_path / "data.csv"
    given = "id,x,kind,note\n007,1.10,{},NA\n008,1e3, 1.0 ,\n009,2,2.0,\n010,2,-1,\n"
    path.write_text(given.format(""))
    rows = read_rows(path, "kind")
    assert rows.given.labels.tolist() == [None, "1", "2", None]
    with LabelLog(tmp_path / "log", rows.subject()) as log:
        log.append(Event("label", 0, "2"))
        assert write_labels(rows, log.answers, tmp_path / "out.csv") == 3
        write_labels(rows, log.answers, tmp_path / "out.parquet")
    assert (tmp_path / "out.csv").read_text() == given.format("2")
    assert path.read_text() == given.format("")
    typed = read_table(tmp_path / "out.parquet")
    assert typed["x"].tolist() == [1.1, 1000.0, 2.0, 2.0]
    assert typed["kind"].tolist() == [2, 1, 2, -1]


@pytest.mark.parametrize("name", ["data.csv", "data.tsv", "data.csv.gz"])
def test_tables_of_any_form_are_read_and_exported(tmp_path, name):
    path = tmp_path / name
    text = "x;kind\n1,5;a\n2,50;\n"
    if name == "data.csv.gz":
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text)
    rows = read_rows(path, "kind")
    with LabelLog(tmp_path / "log", rows.subject()) as log:
        log.append(Event("label", 1, "b"))
        out = check_export_path(default_export_path(path), rows)
        write_labels(rows, log.answers, out)
    opened = gzip.open if name.endswith(".gz") else open
    with opened(out, "rt") as file:
        separator = "\t" if name == "data.tsv" else ";"
        assert file.read() == f"{text}b\n".replace(";\nb", ";b").replace(";", separator)
    assert out.name.startswith("data.labelled.")
    assert read_table(out).to_dict("list") == {"x": [1.5, 2.5], "kind": ["a", "b"]}


def test_standard_input_has_nothing_beside_it(tmp_path):
    with pytest.raises(ValueError, match="not standard input"):
        read_rows("-", "kind")


def test_the_data_itself_is_never_written(tmp_path):
    path = write(tmp_path, x=[1, 2], kind=["a", None])
    rows = read_rows(path, "kind")
    with pytest.raises(ValueError, match="is the data itself"):
        check_export_path(path, rows)
    (tmp_path / "link.csv").symlink_to(path)
    with pytest.raises(ValueError, match="is the data itself"):
        check_export_path(tmp_path / "link.csv", rows)
    assert check_export_path(default_export_path(path), rows).name == "data.labelled.csv"


# --- features ------------------------------------------------------------------------------------


def test_texts_of_one_subject_are_nearer_to_each_other():
    texts = [
        "goal match team win",
        "team match goal",
        "oven butter flour",
        "butter flour bake oven",
    ]
    X = text_features(texts)
    assert np.allclose((X**2).sum(axis=1), 1)
    near = X @ X.T
    assert near[0, 1] > near[0, 2]
    assert near[2, 3] > near[1, 3]


def test_texts_without_blanks_have_features_too():
    assert text_features(["東京都庁", "東京駅前", "大阪城公園"]).shape[0] == 3
    with pytest.raises(ValueError, match="no words to learn from"):
        text_features(["", " ", ""])


def test_a_blank_text_is_left_out(tmp_path):
    path = write(tmp_path, t=["some words here", None, "other words there"])
    rows = read_rows(path, "kind", view="text", column="t")
    assert make_features(rows).rows.tolist() == [0, 2]


def test_pictures_that_unpack_to_a_bomb_are_refused(tmp_path, monkeypatch):
    save_picture(tmp_path / "a.png")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 10)
    with pytest.raises(ValueError, match="does not decode"):
        picture_features(tmp_path / "a.png")


def test_low_and_high_sounds_differ_more_than_two_low_ones(tmp_path):
    found = []
    for pitch in (300, 310, 2500):
        save_sound(tmp_path / "s.wav", pitch)
        found.append(sound_features(tmp_path / "s.wav"))
    low, also_low, high = found
    assert np.abs(low - also_low).sum() < np.abs(low - high).sum()
    (tmp_path / "bad.wav").write_bytes(b"RIFF nothing")
    with pytest.raises(ValueError, match="does not decode"):
        sound_features(tmp_path / "bad.wav")


def test_sounds_are_shown_and_learnt_from_by_their_columns_if_there_are_any(tmp_path):
    for k in range(3):
        save_sound(tmp_path / f"{k}.wav", 300 + 400 * k)
    names = [f"{k}.wav" for k in range(3)]
    alone = read_rows(write(tmp_path, clip=names), "kind")
    assert make_features(alone).X.shape == (3, 64)
    beside = read_rows(write(tmp_path, clip=names, x=[1.0, 2.0, 4.0]), "kind")
    assert make_features(beside).X.shape == (3, 1)


def test_an_embedding_takes_the_place_of_features(table, tmp_path):
    rows = read_rows(table, "kind")
    X = np.random.default_rng().normal(size=(30, 5))
    np.save(tmp_path / "e.npy", X)
    assert (make_features(rows, file=tmp_path / "e.npy").X == X).all()
    pd.DataFrame(X).rename(columns=str).to_parquet(tmp_path / "e.parquet")
    assert (make_features(rows, file=tmp_path / "e.parquet").X == X).all()


@pytest.mark.parametrize(
    ("array", "says"),
    [
        (np.zeros((29, 2)), "29 lines and the data have 30 rows"),
        (np.full((30, 2), np.nan), "missing or infinite value in line 1; --features needs finite"),
        (np.zeros(30), "one line per row"),
        (np.full((30, 1), "x"), "needs numbers"),
        (np.full((30, 1), None), "write it again with numpy.save"),
    ],
)
def test_an_embedding_that_does_not_fit_is_refused(tmp_path, array, says):
    np.save(tmp_path / "e.npy", array)
    with pytest.raises(ValueError, match=says):
        read_embedding(tmp_path / "e.npy", 30)


def test_a_table_is_learnt_from_by_its_numbers_and_categories(table):
    rows = read_rows(table, "kind")
    features = make_features(rows)
    assert features.X.shape == (30, 4)
    assert features.how == "2 columns of numbers and 1 of categories"
    alone = make_features(rows, encode=False)
    assert alone.X.shape == (30, 2)
    assert "not learnt from: note" in alone.how
    with pytest.raises(ValueError, match="no such column"):
        make_features(rows, drop=["size"])
    with pytest.raises(ValueError, match="no column of numbers or categories"):
        make_features(rows, drop=["height", "weight", "note"])


def test_columns_that_name_or_date_each_row_are_shown_but_not_learnt_from(tmp_path):
    path = write(
        tmp_path,
        x=[1.0, None, 3.0, 4.0, 5.0, 6.0],
        name=["Ann", "Bo", "Cy", "Di", "Ed", "Flo"],
        colour=["red", "blue", None, "red", "blue", "red"],
        nothing=[None] * 6,
        kind=["a", "b", None, None, None, None],
    )
    features = make_features(read_rows(path, "kind"))
    assert "not learnt from: name, nothing" in features.how
    assert np.isfinite(features.X).all()


def test_a_column_that_numbers_the_rows_is_not_learnt_from_as_in_a_fit(tmp_path):
    columns = {"id": range(1, 41), "x": np.arange(40.0) % 7, "kind": ["a", *[None] * 39]}
    features = make_features(read_rows(write(tmp_path, **columns), "kind"))
    assert features.X.shape == (40, 1)
    assert "1 columns of numbers and 0 of categories" in features.how
    assert "shown but not learnt from: id" in features.how


@pytest.mark.parametrize("shape", [(2, 3), (5, 1), (40, 2), (60, 8), (120, 30), (9, 4)])
def test_every_row_has_a_place_in_the_unit_square(shape):
    places = plane_of(np.random.default_rng().normal(size=shape), most=50)
    assert places.shape == (shape[0], 2)
    assert ((places >= 0) & (places <= 1)).all()


def test_cells_are_plain_values_for_the_page(tmp_path):
    columns = {"x": [1.23456789, None], "big": [12345678.5, None], "t": ["a" * 2000, None]}
    path = write(tmp_path, **columns, kind=["a", None])
    rows = read_rows(path, "kind", view="table")
    cells = dict(rows.item(0)["cells"])
    assert (cells["x"], cells["big"]) == ("1.23457", "12345678.5")
    assert len(cells["t"]) < 600
    assert dict(rows.item(1)["cells"]) == {"x": None, "big": None, "t": None}
    assert os.fspath(rows.path) == os.fspath(path)


def test_a_class_that_files_write_for_a_blank_cell_is_told_of_and_kept_if_it_is_named(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("x,kind\n1,None\n2,cat\n3,\n4,None\n")
    with pytest.warns(UserWarning, match="2 cells of 'kind' say 'None' .* name it in --classes"):
        assert read_rows(path, "kind").given.classes == ("cat",)
    assert set(read_rows(path, "kind", classes=["None"]).given.classes) == {"None", "cat"}
