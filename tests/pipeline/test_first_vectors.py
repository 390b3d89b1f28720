"""`dssl init` of tables of embeddings, and of tables that are written as people write them."""

import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from click.testing import CliRunner

from dssl.base.errors import DataError
from dssl.cli.init.first_spec import first_spec
from dssl.cli.init.first_target import AmbiguousTarget, coordinates, likely_target
from dssl.cli.main import main
from dssl.data.findings import ColumnRecord
from dssl.data.ingest import ingest
from dssl.execution.in_process import InProcess
from dssl.pipeline.load import load_spec
from dssl.storage.blocks import MemoryParts

from ..benchmarks.real_tables import NAMES, made

N = 90


def init(*arguments):
    done = CliRunner().invoke(main, ["init", *map(str, arguments)], catch_exceptions=False)
    assert done.exit_code == 0, done.stderr
    return done.stdout


def blobs(width=24):
    y = np.arange(N) % 2
    return (np.random.default_rng(0).normal(size=(N, width)) + 4 * y[:, None]).astype(np.float32), y


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("type_", [pa.list_(pa.float32()), pa.list_(pa.float32(), 24)])
def test_an_element_of_a_list_is_no_target(here, type_):
    X, _ = blobs()
    ids = [f"d{k:03}" for k in range(N)]
    for part in (slice(0, 50), slice(50, N)):
        vectors = pa.array([row.tolist() for row in X[part]], type_)
        pq.write_table(pa.table({"doc_id": ids[part], "embedding": vectors}), f"p{part.start}.parquet")
    said = init("p*.parquet", "--out", "p.yaml")
    assert "task: clustering: no target: rows are grouped; no column but the coordinates of a vector (embed" in said
    assert "a CSV file of the columns doc_id,label, name it by labels.file" in said
    spec = yaml.safe_load((here / "p.yaml").read_text())
    assert spec["data"]["read"] == {"target": "none"}
    assert spec["model"]["kind"] == "clustering"


def test_a_numbered_family_has_no_target_unless_it_is_named(here):
    X, y = blobs()
    frame = pd.DataFrame(X, columns=[f"e{k}" for k in range(24)])
    frame.to_csv("e.csv", index=False)
    assert "coordinates of a vector (e0 to e23)" in init("e.csv")
    load_spec("e.yaml")
    assert "target: e23; as asked for" in init("e.csv", "--target", "e23", "--out", "asked.yaml")
    frame.assign(kind=np.array(["oak", "elm"])[y]).to_csv("last.csv", index=False)
    assert json.loads(init("last.csv", "--json"))["target"] == "kind"
    frame.assign(e24=y).to_csv("v.csv", index=False)  # a family whose last column has a few whole numbers
    assert json.loads(init("v.csv", "--json"))["target"] == "e24"


@pytest.mark.slow
def test_the_labels_that_it_asks_for_are_learned_from(here):
    X, y = blobs()
    pq.write_table(pa.table({"doc_id": [f"d{k:03}" for k in range(N)], "embedding": list(X)}), "p.parquet")
    init("p.parquet")
    pd.DataFrame({"doc_id": [f"d{k:03}" for k in range(10)], "label": y[:10]}).to_csv("labels.csv", index=False)
    spec = yaml.safe_load((here / "p.yaml").read_text())
    del spec["model"], spec["data"]["task"]
    spec["data"]["test"] = {"none": True}
    spec["labels"] = {"given": True, "file": ["labels.csv"]}
    (here / "p.yaml").write_text(yaml.safe_dump(spec))
    done = CliRunner().invoke(main, ["run", "p.yaml", "--on", "in-process", "--json"], catch_exceptions=False)
    assert done.exit_code == 0, done.stderr
    predictions = pd.read_csv(next(here.glob("dssl-work/runs/*/predictions_all.csv")))
    assert (predictions["label"] == y).all()


def column(name, high=1.0, kind="number", missing=0, finding=None):
    return ColumnRecord(name, kind, -high, high, missing, None, True, finding, finding)


FAMILY = [column(f"e{k}", 1 + 0.1 * (k % 7)) for k in range(24)]


@pytest.mark.parametrize(("columns", "target"), [
    (FAMILY, "none"),
    ([*FAMILY[:3], column("e3", 30.0), *FAMILY[4:]], "none"),  # one coordinate of a large range, as embeddings have
    ([column("id", finding="identifier"), *FAMILY, column("at", finding="time stamp")], "none"),
    ([column(f"{k}", 127.0, "integer") for k in range(24)], "none"),
    ([*FAMILY, column("e24", 1000.0)], "e24"),
    ([*FAMILY, column("e24", 1.0, "integer")], "e24"),
    ([*FAMILY[:-1], column("e23", missing=400)], "e23"),
    (FAMILY[:19], "e18"),
    ([column("kind", 1.0, "integer"), *FAMILY], "kind"),
    ([column("e99", 1.0, "integer"), *FAMILY], "e99"),
    ([column(f"v{k}", 8.0, "integer") for k in range(24)], "v23"),
    ([column(f"v{k}", 10.0**(k % 5)) for k in range(24)], "v23"),
    ([*FAMILY, column("price", 9.0)], "price")])
def test_coordinates_are_told_from_targets(columns, target):
    assert likely_target(columns, 1000, "t.csv")[0] == target


def test_a_quantity_beside_a_vector_is_asked_for():
    with pytest.raises(AmbiguousTarget, match="--target price, or --target none"):
        likely_target([column("price", 9.0), *FAMILY], 1000, "t.csv")


def test_elements_that_are_not_read_are_no_vector():
    assert coordinates([column("a"), column("b")], ["e[0]", "e[1]"]) == {}
    assert coordinates([column("a"), column("e[0]"), column("e[1]", missing=3)], ["e[0]", "e[1]"]) == {
        "e[0]": "e", "e[1]": "e"}


# What `dssl init` takes the columns of tables for that are written as people write them


PLAIN = {"income": "number", "rate": "number", "age": "integer", "plan": "category", "region": "category",
         "member": "integer"}
LISTS = {"plan": "category", "region": "category", "member": "integer", "embedding[0]": "number",
         "embedding[1]": "number", "embedding[2]": "number"}
TAKEN = {"accounting": PLAIN | {"balance": "number"}, "identifiers": PLAIN | {"id": "identifier", "code": "identifier"},
         "free text": PLAIN | {"comment": "free text"}, "dates": PLAIN | {"since": "time stamp"},
         "time stamps": PLAIN | {"created": "time stamp"}, "lists": LISTS, "fixed lists": LISTS,
         "zip": {**{name: kind for name, kind in PLAIN.items() if name != "region"}, "zip": "category"}}


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.extended_cases("UTF-16", "accounting", "dates", "fixed lists", "identifiers",
    "labels missing", "mark and index", "mixed case", "money", "money after", "parts", "percent",
    "quantity", "text in Parquet", "time stamps", "yes and no")
def test_columns_are_taken_for_what_they_are(name, tmp_path):
    """And a run reads them as the spec says that `init` wrote, without an error."""
    table, _, _ = made(name, 120)
    path = table.write(table.frame, tmp_path)
    if table.error:
        with pytest.raises(DataError, match=table.error):
            first_spec([str(path)], {}, InProcess(1), target=table.target)
        return
    spec = first_spec([str(path)], {}, InProcess(1), target=table.target)
    expected = TAKEN.get(name, PLAIN)
    assert {record["name"]: record["finding"] or record["kind"] for record in spec.records} == expected
    (tmp_path / "spec.yaml").write_text(spec.text)
    params = load_spec(tmp_path / "spec.yaml").data.read
    data = ingest(path, MemoryParts(), InProcess(1), params)
    used = {name.partition("=")[0] for name in data.feature_names}
    assert used == {column for column, kind in expected.items() if kind in ("number", "integer", "category")}
