"""The table of predictions beside a report."""

import numpy as np

from dssl.pipeline.predictions import FILE, _write
from dssl.storage.blocks import ArrayRows


def rows(*values):
    return ArrayRows(np.array(values))


def test_columns_are_named_as_dssl_predict_names_them_and_empty_where_nothing_is_known(tmp_path):
    def text(*arguments, **options):
        assert _write(tmp_path, rows(7, 2), *arguments, **options) == tmp_path / FILE
        return (tmp_path / FILE).read_text().splitlines()

    assert text(rows(0.5, np.nan), None, rows(np.nan, 2.5)) == ["row,value,true", "7,0.5,", "2,,2.5"]
    assert text(ArrayRows(np.array([[1.0, 3.0], [2.0, 4.0]])), None, rows(1.0, 2.0), column=1)[1:] == ["7,3.0,1.0",
                                                                                                      "2,4.0,2.0"]
    assert text(rows(1, -1), ["a", "b"], rows(0, 1)) == ["row,label,true", "7,b,a", "2,,b"]
    assert text(rows(4, 1), None) == ["row,label", "7,4", "2,1"]
