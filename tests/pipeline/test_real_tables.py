"""What `dssl init` takes the columns of tables for that are written as people write them."""

import pytest

from dssl.base.errors import DataError
from dssl.cli.init.first_spec import first_spec
from dssl.data.ingest import ingest
from dssl.execution.in_process import InProcess
from dssl.pipeline.load import load_spec
from dssl.storage.blocks import MemoryParts

from ..benchmarks.real_tables import NAMES, made

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
