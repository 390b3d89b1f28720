"""A reader of a file format that dssl does not have: one class, and one line that registers it."""

import json
from typing import ClassVar

import numpy as np
from numpy.testing import assert_array_equal

import dssl
from dssl.data.readers.base import Block, Reader, Scan
from dssl.data.readers.formats import FORMATS


class JsonReader(Reader):
    """JSON of columns: a name for each feature, and `y`."""

    format: ClassVar[str] = "json"
    endings: ClassVar[tuple[str, ...]] = (".json",)
    options: ClassVar[tuple[str, ...]] = ("target",)

    def __init__(self, path, name, scratch, *, target=None):
        self.path, self.name, self.target = path, name, target

    def _look(self):
        self._columns = json.loads(self.path.read_text(encoding="utf-8"))
        names = tuple(name for name in self._columns if name != "y")
        has_target = "y" in self._columns and self.target != "none"
        return Scan(n_rows=len(self._columns[names[0]]), n_columns=len(names), dtype="float64",
                    row_bytes=20 * len(names), target="y" if has_target else None, feature_names=names)

    def column_names(self):
        return [*self.scan().feature_names]

    def read(self, start, stop, *, text_target=False):
        scan = self.scan()
        X = np.array([self._columns[name][start:stop] for name in scan.feature_names]).T
        y = np.array(self._columns["y"][start:stop], object) if scan.target else None
        return Block(X, y)


def test_a_reader_is_one_class(registered, pipeline, moons, tmp_path):
    registered(FORMATS, JsonReader)
    rows = np.genfromtxt(moons["data"]["source"], delimiter=",", dtype=None, encoding="utf-8", names=True)
    source = tmp_path / "moons.json"
    source.write_text(json.dumps({"a": rows["a"].tolist(), "b": rows["b"].tolist(), "y": rows["kind"].tolist()}))

    data = dssl.open_dataset(source)
    assert data.feature_names == ["a", "b"]
    assert_array_equal(data.y.read_all(), (rows["kind"] == "up").astype(int))

    # pipeline: the file, plan, selection, run, report and predictions
    commands = pipeline({**moons, "data": {"source": str(source), "test": {"count": 60}, "scale": "none"},
                         "model": {"kind": "graph", "learner": "poisson"}, "graph": {"n_neighbors": 6},
                         "selection": {"cv": 2, "grid": {"graph": {"n_neighbors": [5, 6]}}}})
    assert commands.plan()["dataset"]["tasks"] >= 1
    assert commands.run()["status"] == "done"
    assert "moons.json" in commands.page()
    assert {*commands.predicted()} == {"up", "down"}
