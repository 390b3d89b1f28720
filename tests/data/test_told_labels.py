"""Labels in a file beside the data."""

import numpy as np
import pytest

from dssl.data.told_labels import read_told_labels
from dssl.errors import DataError


def test_filled_labels_are_read_by_row(tmp_path):
    first, second = tmp_path / "1.csv", tmp_path / "2.csv"
    first.write_text("row,score,label\n7,0.5, up \n\n3,0.25,\n5,0.125,\"down, left\"\n", encoding="utf-8")
    second.write_text("\ufefflabel,row\nup,7\nright,0\n", encoding="utf-8")
    rows, labels, places = read_told_labels([first, second])
    assert rows.tolist() == [0, 5, 7]
    assert rows.dtype == np.int64
    assert labels == ["right", "down, left", "up"]
    assert places == [f"{second}, line 3", f"{first}, line 5", f"{first}, line 2"]


@pytest.mark.parametrize(("text", "message"), [
    ("row,score\n1,2\n", "has the columns row, score"), ("", r"has the columns \(none\)"),
    ("row,label\n1,\n", "no row has a label"), ("row,label\n-1,up\n", "line 2: row '-1'"),
    ("row,label\n1.0,up\n", "line 2: row '1.0'"),
    ("row,label\n1,up\n\n1,down\n", "line 4: row 1 is 'down', and was 'up' in .*line 2"),
    ("row,label\n1\n", "line 2: not as many cells"), ("row,label\n1,a,b\n", "line 2: not as many cells")])
def test_what_is_no_such_file_is_refused(tmp_path, text, message):
    path = tmp_path / "labels.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=message):
        read_told_labels([path])
