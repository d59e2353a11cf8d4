from __future__ import annotations

import io

import numpy as np
import pandas as pd
import pytest

from atoll.core.table_forms import Form, form_of
from atoll.core.table_refusals import column_hint
from atoll.core.tables import (
    TableWriter,
    column_as_written,
    read_cells,
    read_table,
    table_chunks,
    write_table,
)


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".csv.gz", ".tsv.gz", ".parquet", ".CSV"])
def test_a_written_table_is_read_back_to_the_last_digit(tmp_path, suffix):
    numbers = np.random.default_rng(0).normal(size=200) * 10.0 ** np.arange(-100, 100)
    table = pd.DataFrame({"x": numbers, "name": [f"n{i}" for i in range(200)]})
    write_table(table, tmp_path / f"table{suffix}")
    back = read_table(tmp_path / f"table{suffix}")
    np.testing.assert_allclose(back["x"], numbers, rtol=1e-15)
    assert back["name"].tolist() == table["name"].tolist()
    assert [p.name for p in tmp_path.iterdir()] == [f"table{suffix}"]


def test_a_table_that_cannot_be_written_leaves_the_old_one_in_place(tmp_path):
    path = tmp_path / "table.parquet"
    write_table(pd.DataFrame({"x": [1]}), path)
    unwritable = pd.DataFrame({"x": [object()]})
    with pytest.raises(Exception, match="object"):
        write_table(unwritable, path)
    assert read_table(path)["x"].tolist() == [1]
    assert [p.name for p in tmp_path.iterdir()] == ["table.parquet"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("missing.csv", None, "there is no file"),
        ("table.xlsx", b"", r"does not end in \.csv, \.tsv or \.parquet"),
        ("table", b"x\n1\n", r"does not end in \.csv, \.tsv or \.parquet"),
        ("table.parquet.gz", b"", r"does not end in \.csv, \.tsv or \.parquet"),
        ("plain.csv.gz", b"x\n1\n", "save the table as CSV again"),
        ("empty.csv", b"", "is empty"),
        ("header.csv", b"x,y\n", "has no rows"),
        ("ragged.csv", b"x,y\n1,2\n1,2,3,4\n", "has 4 cells in line 3, and 2 columns: mend"),
        ("long.csv", b"x,y\n1,2,3\n4,5,6\n", "more cells than its header"),
        ("bytes.csv", b"x,y\n\xff\xfe\xfa,1\n", "is not written in UTF-8"),
        ("broken.parquet", b"PAR1 is not enough", "copy it again from its source"),
        ("empty.parquet", b"", "copy it again from its source"),
    ],
)
def test_a_file_that_is_no_table_is_named(tmp_path, name, content, message):
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ValueError, match=message) as refusal:
        read_table(path)
    assert name in str(refusal.value)


def test_a_folder_is_not_a_table(tmp_path):
    (tmp_path / "table.csv").mkdir()
    with pytest.raises(ValueError, match="is a folder"):
        read_table(tmp_path / "table.csv")


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("x,y\n1.5,2\n", Form(",", ".")),
        ("x;y\n1,5;2\n", Form(";", ",")),
        ("x;y\n1.5;2,0\n", Form(";", ".")),  # both marks: a comma may divide thousands
        ("x;y\nred, dark;2\n", Form(";", ".")),
        ("x;y\n2.031,8;2\n", Form(";", ",", ".")),
        ("x;y\n2.031,8;11.11.2007\n", Form(";", ",")),  # a date would be read as a number
        ('x,y\n"2,031.8",2\n', Form(",", ".", ",")),
        ("x\ty\n1.5\t2\n", Form("\t", ".")),
        ("x\ty\n1,5\t2\n", Form("\t", ",")),
        ("x|y\n1|2\n", Form("|", ".")),
        ('"a, b; c",y\n1,2\n', Form(",", ".")),
        ("x\n1\n", Form(",", ".")),
        ("", Form(",", ".")),
        ("sep=;\nx;y\n1,5;2\n", Form(";", ",", None, 1)),
        ('"SEP=|"\nx;y|z\n1;2|3\n', Form("|", ".", None, 1)),
    ],
)
def test_the_form_of_a_text_is_found(text, form, tmp_path):
    assert form_of(text) == form


def test_a_file_from_a_spreadsheet_with_decimal_commas_is_read_as_numbers(tmp_path):
    path = tmp_path / "export.csv"
    path.write_bytes("\ufefflänge;art\r\n1,5;a\r\n2;\r\n".encode())
    table = read_table(path)
    assert table["länge"].tolist() == [1.5, 2.0]
    assert table["art"].isna().tolist() == [False, True]


@pytest.mark.parametrize("mark", [";", "\t"])
def test_commas_between_thousands_are_not_taken_for_decimal_ones(mark):
    people = ["12,345", "999", "-4,100", "2,345,678", ""]
    table = "\n".join(["people age", *(f"{cell} 7" for cell in people)]).replace(" ", mark)
    assert read_table(table.encode())["people"].tolist()[:4] == people[:4]
    assert form_of(table).decimal == "."
    decimals = table.replace("-4,100", "-4,1")
    assert form_of(decimals).decimal == ","
    assert form_of(table.replace("999", "1999")).decimal == ","  # beside which 12,345 has decimals


def test_a_table_is_read_from_standard_input(monkeypatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"x\ty\n1\t2\n")))
    assert read_table("-").to_dict("list") == {"x": [1], "y": [2]}


@pytest.mark.parametrize("encoding", ["ascii", "cp1252"])
def test_a_table_on_standard_output_is_what_a_file_would_be(encoding, monkeypatch, tmp_path):
    frame = pd.DataFrame({"naïve": ["日本", "😀"]})
    piped = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    monkeypatch.setattr("sys.stdout", piped)
    for path in ("-", tmp_path / "table.csv"):
        with TableWriter(path) as table:
            table.write(frame)
            table.write(frame)
    assert piped.buffer.getvalue() == (tmp_path / "table.csv").read_bytes()


def test_chunks_keep_text_and_refuse_a_table_without_rows(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("code,x\n007,1\n")
    (frame,) = table_chunks(path, 10, as_text=["code", "absent"])
    assert frame["code"].tolist() == ["007"]
    assert frame["x"].tolist() == [1]
    path.write_text("code,x\n")
    with pytest.raises(ValueError, match="has no rows"):
        list(table_chunks(path, 10))


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_table_written_piece_by_piece_has_all_of_them(tmp_path, suffix):
    path = tmp_path / f"table{suffix}"
    with TableWriter(path) as writer:
        for first in (0, 2):
            writer.write(pd.DataFrame({"x": [first, first + 1]}))
    assert read_table(path)["x"].tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("begins", "said"),
    [
        (b"PAR1\x15\x04", "is a Parquet file; it needs a name that ends in .parquet"),
        (b"\x1f\x8b\x08\x08", "is compressed by gzip; it needs a name that ends in .csv.gz"),
        (b"PK\x03\x04\x14\x00", "is a spreadsheet or a zip archive; save the table as CSV"),
        (b"\xfd7zXZ\x00", "is compressed by xz; unpack it"),
    ],
)
def test_a_file_that_is_no_text_is_called_what_it_is(tmp_path, begins, said):
    path = tmp_path / "table.csv"
    path.write_bytes(begins + b"\xff" * 20 + b"\n" * 3)
    with pytest.raises(ValueError, match=rf"table\.csv' {said}"):
        read_table(path)
    with pytest.raises(ValueError, match=rf"table\.csv' {said}"):
        next(table_chunks(path, 100))


def test_remarks_above_the_header_are_told_from_a_long_row(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("# made by device 7\n# on a Monday\nx,y\n1,2\n")
    with pytest.raises(ValueError, match="1 column, by its first line: delete lines above the"):
        read_table(path)


def test_a_spreadsheet_is_to_be_saved_as_csv(tmp_path):
    with pytest.raises(ValueError, match="in these formats; save the spreadsheet as CSV"):
        read_table(tmp_path / "table.xlsx")


def test_a_first_line_that_names_the_separator_is_no_header(tmp_path):
    path = tmp_path / "excel.csv"
    path.write_text("\ufeffsep=;\nid;x\n007;1,5\n008;2,5\n009;3,5;9\n", encoding="utf-8")
    with pytest.raises(ValueError, match="3 cells in line 5"):
        read_table(path)
    (long,) = table_chunks(path, 100, n_more=1)
    assert long["x"].tolist() == [1.5, 2.5, 3.5]
    path.write_text("sep=;\nid;x\n007;1,5\n008;2,5\n")
    assert read_table(path)["x"].tolist() == [1.5, 2.5]
    assert column_as_written(path, 0).tolist() == ["007", "008"]
    assert read_cells(path)["id"].tolist() == ["007", "008"]


def test_a_comment_above_the_header_is_named(tmp_path):
    path = tmp_path / "comment.csv"
    path.write_text("# exported 2024\nx,y\n1,2\n")
    with pytest.raises(ValueError, match=r"begins with '# exported 2024'.*delete the lines above"):
        read_table(path)
    path.write_text("# exported 2024\nx;y\n1;2\n")  # which can be read, as one column
    assert "seems not to be the header: delete" in column_hint("x", read_table(path))


def test_a_table_of_one_column_whose_header_has_spaces_is_answered_with_the_separator():
    hint = column_hint("kind", pd.DataFrame({"a b  kind": ["1 2  x"]}))
    assert hint.endswith("If spaces separate the cells, put commas or tabs in their place.")
    assert "did you mean" in column_hint("kin", pd.DataFrame({"a b": [1], "kind": [1]}))


def test_a_quotation_mark_that_is_never_closed_is_found(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text('x,kind\n1,a\n2,"b\n3,a\n')
    with pytest.raises(ValueError, match="never closed, in row 2 under the header"):
        read_table(path)
