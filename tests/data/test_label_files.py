"""Labels in a file beside the data."""

from functools import partial

import pytest

from dssl.base.errors import DataError
from dssl.data.label_files import (
    Identifiers,
    count_label_files,
    have_column,
    names_rows,
    read_label_files,
    require_naming_columns,
)


def test_filled_labels_are_read_by_row(tmp_path):
    first, second = tmp_path / "1.csv", tmp_path / "2.csv"
    first.write_text("row,score,label\n7,0.5, up \n\n3,0.25,\n5,0.125,\"down, left\"\n", encoding="utf-8")
    second.write_text("\ufefflabel,row\nup,7\nright,0\n", encoding="utf-8")
    lines = read_label_files([first, second])
    assert [*lines] == [0, 5, 7]
    assert [line.label for line in lines.values()] == ["right", "down, left", "up"]
    assert [line.origin for line in lines.values()] == [f"{second}, line 3", f"{first}, line 5", f"{first}, line 2"]


@pytest.mark.parametrize(("text", "message"), [
    ("row,score\n1,2\n", "has the columns row, score"), ("", r"has the columns \(none\)"),
    ("row,label\n1,\n", "no row has a label"),
    ("row,label\n-1,up\n", "1 of 1 lines have no number of a row: .*line 2: '-1'"),
    ("row,label\n1.0,up\n", "line 2: '1.0'"),
    ("row,label\n1,up\n\n1,down\n", "line 4: row 1 is 'down', and was 'up' in .*line 2"),
    ("row,label\n1\n", "line 2: its number of cells differs"),
    ("row,label\n1,a,b\n", "line 2: its number of cells differs")])
def test_what_is_no_such_file_is_refused(tmp_path, text, message):
    path = tmp_path / "labels.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=message):
        read_label_files([path])


NAMES = ["u3", "u1", "u2", "u2"]  # of the rows of a source


def identifiers():
    return Identifiers("id", lambda asked: {name: [row for row, item in enumerate(NAMES) if item == name]
                                            for name in asked if name in NAMES})


def test_rows_are_named_by_the_identifiers_of_the_source_or_by_number(tmp_path):
    first, second = tmp_path / "1.csv", tmp_path / "2.csv"
    first.write_text("row,label,id\n7,up,u1\n,down,u3\n9,,u9\n", encoding="utf-8")
    second.write_text("row,label\n2,left\n1,up\n", encoding="utf-8")
    lines = read_label_files([first, second], identifiers())
    assert [*lines] == [0, 1, 2]
    assert [line.label for line in lines.values()] == ["down", "up", "left"]
    assert lines[2].origin == f"{second}, line 2"
    first.write_text("id,label\nu1,up\n,\n", encoding="utf-8")
    assert count_label_files([first, second]) == 3


@pytest.mark.parametrize(("text", "message"), [
    ("id,label\nu1,up\nu7,up\n", "1 of 2 identifiers name no row of the source: .*line 3: 'u7'"),
    ("id,label\nu2,up\n", "1 of 1 identifiers name several rows of the source: .*line 2: 'u2'"),
    ("id,label\nu1,up\nu1,down\n", "line 3: row u1 is 'down', and was 'up' in .*line 2"),
    ("name,label\nu1,up\n", "row or id and label are read from it")])
def test_identifiers_that_name_no_row_are_refused(tmp_path, text, message):
    (tmp_path / "labels.csv").write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=message):
        read_label_files([tmp_path / "labels.csv"], identifiers())


def test_a_label_has_one_weight(tmp_path):
    first, second = tmp_path / "1.csv", tmp_path / "2.csv"
    first.write_text("row,label,w\n7,up, 0.5\n3,,9\n", encoding="utf-8")
    second.write_text("w,row,label\n,4,down\n", encoding="utf-8")
    assert have_column([first, second], "w")
    assert {row: line.weight for row, line in read_label_files([first, second], weight="w").items()} == {
        4: "", 7: "0.5"}
    second.write_text("w,row,label\n2,7,up\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"line 2: row 7 weighs '2', and weighed '0.5' in .*line 2"):
        read_label_files([first, second], weight="w")
    second.write_text("row,label\n2,up\n7,up\n", encoding="utf-8")
    assert not have_column([first, second], "w")
    assert not have_column([second], "w")
    for files in ([first, second], [second, first]):
        assert {row: line.weight for row, line in read_label_files(files, weight="w").items()} == {2: None, 7: "0.5"}


def test_all_wrong_lines_are_listed(tmp_path):
    first, second = tmp_path / "1.csv", tmp_path / "2.csv"
    first.write_text("id,label\nu8,up\nu1,up\nu7,up\n", encoding="utf-8")
    second.write_text("id,label\n" + "".join(f"v{i},up\n" for i in range(11)), encoding="utf-8")
    with pytest.raises(DataError) as error:
        read_label_files([first, second], identifiers())
    shown = "; ".join(f"line {i + 2}: 'v{i}'" for i in range(1, 8))
    assert str(error.value).splitlines()[0] == (
        f"13 of 14 identifiers name no row of the source: {first}, line 2: 'u8'; line 4: 'u7'; {second}, line 2: 'v0'; "
        f"{shown}; and 3 more")
    first.write_text("row,label\n" + "".join(f"{i // 2},{i % 2}\n" for i in range(24)), encoding="utf-8")
    with pytest.raises(DataError, match=r"line 3: row 0 is '1', and was '0' in .*line 2; .*line 21.*; and 2 more"):
        read_label_files([first])


def test_a_file_that_names_no_rows_is_refused_by_its_header(tmp_path):
    path = tmp_path / "labels.csv"
    for text, columns in (("id,label\n", ["id", "a"]), ("row,label\n", []), ("row of the source,label\n", ["row"])):
        path.write_text(text, encoding="utf-8")
        require_naming_columns([path], columns)
    for text in ("name,label\n", "id,class\n", "", "id,label,label\n"):
        path.write_text(text, encoding="utf-8")
        with pytest.raises(DataError, match=r"which row has that label: row, its number, or the column"):
            require_naming_columns([path], ["id", "a"])
    assert not names_rows([path], "label")
    path.write_text("id,label\n", encoding="utf-8")
    assert names_rows([path], "id")
    path.write_text("row,id,label\n", encoding="utf-8")
    assert not names_rows([path], "id")


def test_a_spreadsheet_may_write_semicolons_and_no_capitals(tmp_path):
    path = tmp_path / "labels.csv"
    path.write_text("row;label\n7;up\n3;\"down; left\"\n", encoding="utf-8")
    assert {row: line.label for row, line in read_label_files([path]).items()} == {3: "down; left", 7: "up"}
    path.write_text("Row;Label\n7;up\n", encoding="utf-8")
    for read in (read_label_files, partial(require_naming_columns, columns=[])):
        with pytest.raises(DataError, match="write row for Row; write label for Label"):
            read([path])
    path.write_text("Row,label\nu2,up\n", encoding="utf-8")  # a name of identifiers
    named = Identifiers("Row", lambda asked: {"u2": [5]})
    assert {row: line.label for row, line in read_label_files([path], named).items()} == {5: "up"}
