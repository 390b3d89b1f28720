"""The pipeline file: what is wrong with it is told with the path of the key, before any work."""

from dataclasses import dataclass, fields
from pathlib import Path

import pytest
import yaml

from dssl.base.errors import SpecError
from dssl.base.yaml import parse_yaml, yaml_of, yaml_text
from dssl.data.ingest_params import IngestParams
from dssl.graph.regularizer import RegularizerParams
from dssl.graph.weights.rules import KERNEL_WIDTH, WeightParams
from dssl.knn.search import NeighborParams
from dssl.pipeline.dataset import DATASET
from dssl.pipeline.kinds import KINDS
from dssl.pipeline.load import DEFAULT, SPECS, load_spec, schema
from dssl.pipeline.plan.plan import plan
from dssl.pipeline.run import run
from dssl.pipeline.spec import KernelPipeline
from dssl.pipeline.split import SPLIT
from dssl.pipeline.stage import STAGED, Kind
from dssl.solvers.solver_params import SolverParams

PIPELINES = sorted((Path(__file__).parents[2] / "pipelines").glob("*.yaml"))
LEAST = {"name": "least", "data": {"source": "digits"}, "labels": {"per_class": 2}, "model": {"kind": "svm"}}


def with_value(path, value):
    """Return the least spec with one value set."""
    spec = {section: dict(fields) if isinstance(fields, dict) else fields for section, fields in LEAST.items()}
    place, keys = spec, path.split(".")
    for key in keys[:-1]:
        place = place.setdefault(key, {})
    place[keys[-1]] = value
    return spec


def message_of(spec, overrides=()):
    with pytest.raises(SpecError) as error:
        load_spec(spec, overrides)
    text = str(error.value)
    assert "why:" in text
    assert "fix:" in text
    assert error.value.exit_code == 2
    return text


@pytest.mark.parametrize("path", PIPELINES, ids=lambda path: path.stem)
def test_the_pipelines_of_the_repository_are_valid(path):
    spec = load_spec(path)
    assert spec.name == path.stem
    assert load_spec(spec.to_dict()) == spec


def test_defaults_are_those_of_the_parameters():
    spec = load_spec(LEAST)
    assert spec.graph.search == NeighborParams()
    assert spec.graph.weighting == WeightParams(width=KERNEL_WIDTH)
    assert spec.graph.regularizer() == RegularizerParams()
    assert spec.solver.params() == SolverParams()
    assert spec.data.read == IngestParams()


@pytest.mark.parametrize("kind", list(KINDS))
def test_the_specs_of_the_kinds_have_no_section_that_no_stage_reads(kind):
    """So that they are checked without the kind itself."""
    own = KINDS[kind]
    assert SPECS[kind].spec is own.spec
    assert SPECS[kind].tasks == own.tasks
    staged = {name for name in STAGED if name in {field.name for field in fields(own.spec)}} - set(own.names)
    assert staged <= ({"labels"} if own.tasks == ("clustering",) else set())


# Keys


@pytest.mark.parametrize(("path", "message"), [
    ("grpah", "did you mean graph?"), ("target", "did you mean data.read.target?"),
    ("data.target", "did you mean data.read.target?"), ("data.read.targt", "did you mean data.read.target?"),
    ("graph.n_neighbours", "did you mean graph.n_neighbors?"), ("n_neighbours", "did you mean graph.n_neighbors?"),
    ("labels.perclass", "did you mean labels.per_class?"), ("model.c", "did you mean model.C?"),
    ("data.test.cuont", "did you mean data.test.count?"), ("tol", "did you mean solver.tol?"),
    ("gamma_A", "it is model.gamma_A, where model.kind is laprls or lapsvm"),
    ("data.zzz", "here may be task, source, read, keep"),
    ("count", "did you mean labels.count or data.test.count?"), ("graph.neighbors", "did you mean graph.n_neighbors?"),
])
@pytest.mark.parametrize("by", ["file", "override"])
def test_an_unknown_key_is_told_where_it_belongs(tmp_path, path, message, by):
    file = tmp_path / "spec.yaml"
    file.write_text(yaml.safe_dump(with_value(path, 3) if by == "file" else LEAST, sort_keys=False))
    text = message_of(file, () if by == "file" else (f"{path}=3",))
    line = next(line for line in text.splitlines() if message in line)
    if by == "override":
        assert line.startswith(f"  --set {path}=3: {path}: there is no such key")
    else:
        number = 1 + next(i for i, one in enumerate(file.read_text().splitlines())
                          if f"{path.split('.')[-1]}: 3" in one)
        assert line.startswith(f"  line {number}: {path}: there is no such key")


def test_what_is_wrong_in_any_way_is_told_at_once_with_its_line(tmp_path):
    """Unknown keys, types, ranges, readers' options, and values that a section's parameters refuse."""
    path = tmp_path / "spec.yaml"
    path.write_text("name: a\ndata:\n  source: digits\n  points: many\n  read: {targt: y, when_text: two_hot}\n"
                    "labels: {count: 0, per_class: 1}\ngrpah: {}\nkernel: {bandwidth: mean}\nsolver:\n"
                    "  tol: 2\n  block_columns: 0\nmodel: {kind: svm, colour: red}\n")
    lines = message_of(path, ("model.C=-1",)).splitlines()
    for begin in ("line 4: data.points: ", "line 5: data.read.targt: ", "line 5: data.read.when_text: ",
                  "line 6: labels.count=0", "line 7: grpah: ", "line 8: kernel.bandwidth='mean'",
                  "line 10: solver.tol=2.0", "line 11: solver.block_columns=0", "line 12: model.colour: ",
                  "--set model.C=-1: model.C=-1"):
        assert sum(line.startswith(f"  {begin}") for line in lines) == 1, (begin, lines)


def test_keys_of_an_unknown_kind_of_model_are_no_mistakes(tmp_path):
    path = tmp_path / "spec.yaml"
    path.write_text("name: a\ndata: {source: digits}\nlabels: {per_class: 2}\nkernel: {bandwidth: 2.0}\n"
                    "model: {kind: svmm, eta: 3, ratee: 1}\n")
    lines = [line for line in message_of(path).splitlines() if line.startswith("  line")]
    assert [line.split(": ")[1] for line in lines] == ["model.kind", "model.ratee"]
    assert lines[0].endswith("(given: 'svmm'); did you mean svm?")


@pytest.mark.parametrize(("text", "expected"), [
    ("data:\nsource: digits\nread: {target: y}\n",
     "line 2: data: the section is empty, and source (line 3), read (line 4) below it begin in its column: indent"),
    ("data:\n  source: digits\n  test:\n  fraction: 0.5\n",
     "line 4: data.test: the section is empty, and fraction (line 5) below it begins in its column: indent"),
    ("data: {source: digits}\nlabels:\n  count:5\n", "line 3: labels: 'count:5' has no space after the colon: write "
     "count: 5"),
    ("data: {source: digits}\nlabels: {count:5}\n", "line 3: labels: 'count:5' has no space after the colon"),
    ("data:\n  source:digits\n  points: 50\n", "line 3 has no space after its colon"),
    ("data:\n\tsource: digits\n", "line 3 is indented by a tab"),
    ("data:\n  source: digits\n   points: 50\n", "line 4 is indented by 3 spaces, line 3 above it by 2"),
    ("data:\n    source: digits\n  points: 50\n", "line 4 is indented by 2 spaces, the sections above by 0 or 4"),
    ("data: {source: digits\nlabels: {count: 5}\n", "line 2 opens a {, and in line 3"),
    ("data: {source: 'digits}\n", "line 2 opens a quote that nothing closes"),
    ("data: {source: digits}\nlabels: count: 5\n", "line 3 has a second colon, in 'labels: count: 5'"),
    ("data: {source: @home}\n", "put text with such a character into quotes"),
])
def test_mistakes_of_yaml_are_told_with_their_line_and_what_to_do(tmp_path, text, expected):
    path = tmp_path / "spec.yaml"
    path.write_text("name: a\n" + text)
    message = message_of(path)
    assert expected in message, message
    assert "there is no such key" not in message


def test_all_keys_that_are_given_twice_are_told(tmp_path):
    path = tmp_path / "spec.yaml"
    path.write_text("name: a\ndata: {source: x, source: y}\nlabels: {count: 3}\nname: b\n")
    assert ("the key 'source' is given twice, in line 2 and line 2; the key 'name' is given twice, in line 1 and line 4"
            in message_of(path))


@pytest.mark.parametrize(("section", "value"), [
    ("labels", {"count": 3}), ("graph", {"n_neighbors": 4}), ("selection", {"cv": 3}), ("baselines", ["base"]),
])
def test_a_section_that_no_stage_of_the_kind_reads_is_refused(monkeypatch, section, value):
    @dataclass(frozen=True, kw_only=True)
    class Bare(KernelPipeline):
        pass

    bare = Kind("bare", Bare, ("classification", "clustering"), (DATASET, SPLIT))
    monkeypatch.setitem(SPECS, "bare", bare)
    spec = {"name": "bare", "data": {"source": "digits"}, "model": {"kind": "bare"}}
    assert load_spec(spec).model.kind == "bare"
    text = message_of(spec | {section: value})
    assert f"{section}: " in text
    assert "model.kind is bare" in text


@pytest.mark.parametrize("path", ["name", "data", "labels", "data.source"])
def test_a_missing_key_is_named_with_its_path(path):
    spec = with_value("graph.power", 2)
    place, keys = spec, path.split(".")
    for key in keys[:-1]:
        place = place[key]
    del place[keys[-1]]
    assert f"  {path} is missing" in message_of(spec)


def test_a_wrong_value_of_a_required_key_is_not_called_missing():
    spec = {"name": "c", "data": {"source": "t.csv", "task": "clustering"},
            "model": {"kind": "clustering", "n_clusters": "auto"}}
    message = message_of(spec)
    assert "model.n_clusters: Input should be a valid integer or 'eigengap' or 'gap' (given: 'auto')" in message
    assert "missing" not in message


def test_one_value_in_place_of_a_list_is_told_as_such():
    spec = with_value("selection", {"grid": {"power": 2}})
    assert "selection.grid.power: expected a list, such as [a, b] (given: 2)" in message_of(spec)


def test_what_two_sections_find_is_told_once_where_it_is():
    text = message_of(with_value("kernel.name", "gaussian"))
    assert text.count("there is no kernel named 'gaussian'") == 1
    assert "kernel.name: there is no" in text


# Values


@pytest.mark.parametrize(("path", "value", "message"), [
    *((path, value, f"  {path}") for path, value in [
        ("name", "My Run"), ("name", ""), ("name", "../up"), ("name", 3),
        ("data.points", 1), ("data.points", "many"), ("data.scale", "log"), ("data.random_state", -1),
        ("data.keep", "4"),
        ("data.test.count", 0), ("data.test.fraction", 1.0), ("data.test.fraction", 0),
        ("labels.per_class", 0), ("labels.per_class", 2.5), ("labels.random_state", None),
        ("graph.n_neighbors", "ten"), ("graph.method", "annoy"), ("graph.metric", "l1"), ("graph.weights", "gauss"),
        ("graph.symmetrize", "both"), ("graph.laplacian", "random"), ("graph.ridge", None),
        ("model.n_landmarks", 0), ("solver.method", "cg"), ("solver.form", "exact"), ("solver.block_columns", 1.5),
        ("kernel.name", "rfb"), ("kernel.parameters", 3), ("kernel.parameters.degree", "three"),
        ("model.kind", "forest"), ("model.C", "big"), ("model.eta", -1), ("model.eta", "ten"), ("baselines", ["base"]),
        ("baselines", "base"), ("graph", None), ("graph", [1]), ("data", "digits")]),
    ("graph.n_neighbors", 0, "graph.n_neighbors=0"), ("graph.ridge", 0.0, "graph.ridge=0.0"),
    ("graph.ridge", -1.0, "graph.ridge=-1"), ("graph.power", 0, "graph.power=0"),
    ("graph.bandwidth", 1.0, "graph.bandwidth=1.0"), ("graph.random_state", -1, "graph.random_state=-1"),
    ("model.C", 0.0, "model.C=0.0"), ("model.C", float("nan"), "model.C=nan"),
    ("model.eta", float("inf"), "model.eta"), ("model.eta", float("nan"), "model.eta"),
    ("solver.tol", 2.0, "solver.tol=2.0"), ("solver.max_iter", 0, "solver.max_iter=0"),
    ("solver.block_columns", 0, "solver.block_columns=0"),
    ("data.read.dtype", "float16", "data.read.dtype: Input should be"),
    ("kernel.bandwidth", "mean", "kernel.bandwidth='mean'"), ("kernel.bandwidth", 0.0, "kernel.bandwidth=0.0"),
    ("kernel.parameters.degree", 2, "kernel: kernel 'rbf' has no parameter degree"),
    ("kernel.bandwidth", "-2*median", "kernel.bandwidth='-2*median'"),
])
def test_a_wrong_value_is_named_with_its_path_before_the_run(path, value, message):
    text = message_of(with_value(path, value))
    assert message in text, text
    assert "Value error" not in text
    assert text.count("why:") == text.count("fix:") == 1


@pytest.mark.parametrize(("path", "value"), [
    ("model.C", True), ("graph.n_neighbors", True), ("data.points", True), ("data.random_state", False),
    ("labels.random_state", False), ("kernel.parameters", {"degree": True}), ("selection.grid", {"C": [1.0, True]}),
    ("data.keep", [True, False]), ("data.read", {"block_rows": True}), ("kernel.bandwidth", True),
])
def test_a_boolean_is_no_number(path, value):
    text = message_of(with_value(path, value))
    assert path in text
    assert "no boolean" in text


def test_booleans_where_they_belong():
    assert load_spec(with_value("labels", {"given": True})).labels.given
    assert load_spec(with_value("data.read", {"header": True})).data.read.header


@pytest.mark.parametrize(("kernel", "parameters"), [
    ("rbf", {}), ("laplacian", {}), ("linear", {}), ("cosine", {}), ("polynomial", {"degree": 2, "offset": 0.5}),
])
def test_every_kernel_can_be_asked_for(kernel, parameters):
    spec = load_spec(with_value("kernel", {"name": kernel, "parameters": parameters}))
    assert spec.kernel.kernel().name == kernel
    assert {key: getattr(spec.kernel.kernel(), key) for key in parameters} == parameters


@pytest.mark.parametrize(("section", "fields"), [
    ("labels", {}), ("labels", {"count": 5, "per_class": 1}), ("labels", {"given": True, "fraction": 0.1}),
    ("data", {"source": "digits", "test": {}}), ("data", {"source": "digits", "test": {"count": 3, "official": True}}),
])
def test_exactly_one_of_several_is_asked_for(section, fields):
    text = message_of(LEAST | {section: fields})
    assert "set exactly one of" in text
    assert f"  {section}" in text


def test_a_value_out_of_range_is_told_alone():
    text = message_of(LEAST | {"data": {"source": "digits", "test": {"fraction": 1.2}}})
    assert "data.test.fraction=1.2" in text
    assert "set exactly one of" not in text
    assert message_of(LEAST | {"labels": {"fraction": -1.0}}).count("\n  labels") == 1


def test_labels_that_are_missing_are_told_with_what_to_write():
    text = message_of({name: value for name, value in LEAST.items() if name != "labels"})
    assert "  labels is missing (which labels are learned from; write labels: {given: true} for all of them)" in text


# Files


@pytest.mark.parametrize(("text", "expected"), [
    ("name: [a\n", "is not YAML"), ("name: 'a\n", "is not YAML"), ("- 1\n- 2\n", "holds a list, expected a mapping"),
    ("", "is empty"), ("# nothing yet\n", "is empty"), ("just text\n", "holds one value, expected a mapping"),
    ("name: a\n\tdata: b\n", "is not YAML"), ("? [1, 2]\n: a\n", "is not a word or a number"),
    ("name: a\n---\nname: b\n", "line 2 begins another document"),
    ("name: !!python/object/apply:os.system ['true']\n", "is not YAML"), ("a" * (1 << 20) + "b", "characters"),
])
def test_a_file_that_is_not_a_spec(tmp_path, text, expected):
    path = tmp_path / "spec.yaml"
    path.write_text(text)
    message = message_of(path)
    assert expected in message
    assert str(path) in message


def test_a_file_that_is_not_there_or_not_text(tmp_path):
    (tmp_path / "quick.yaml").write_text("name: quick\n")
    message = message_of(tmp_path / "quik.yaml")
    assert "there is no file" in message
    assert "quick.yaml" in message  # the near ones are named
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00\x01")
    assert "is not text" in message_of(tmp_path / "binary.yaml")
    assert message_of(tmp_path).startswith(f"{tmp_path} is a folder")


def test_yaml_cannot_grow_without_end(tmp_path):
    """Ten aliases of ten aliases of ... is a small file and a large value."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 9)]
    path = tmp_path / "bomb.yaml"
    path.write_text("\n".join(lines))
    assert "more than 100,000 values" in message_of(path)


def test_the_same_value_in_json_and_yaml():
    assert parse_yaml("a: {b: [1, 2.5, true, null, text]}", "here") == {"a": {"b": [1, 2.5, True, None, "text"]}}


# Overrides


@pytest.mark.parametrize(("override", "path", "value"), [
    ("model.eta=100", "model.eta", 100.0), ("model.kind=ridge", "model.kind", "ridge"),
    ("data.keep=[4, 9]", "data.keep", [4, 9]), ("kernel.bandwidth=0.5*median", "kernel.bandwidth", "0.5*median"),
    ("data.test={fraction: 0.5}", "data.test.fraction", 0.5), ("graph.bandwidth=null", "graph.bandwidth", None),
    ("data.source=a=b.csv", "data.source", "a=b.csv"), ("data.read.target=y", "data.read.target", "y"),
])
def test_an_override_sets_one_value(override, path, value):
    found = load_spec(LEAST, (override,))
    for key in path.split("."):
        found = getattr(found, key)
    assert found == value
    assert load_spec(LEAST) == load_spec(LEAST, ())
    assert load_spec(LEAST).model.kind == "svm"  # the mapping that was given is left alone


def test_a_spec_that_names_no_model_has_the_automatic_one():
    bare = {key: value for key, value in LEAST.items() if key != "model"}
    assert load_spec(bare) == load_spec({**bare, "model": {"kind": "automatic"}})
    assert load_spec({**bare, "model": {"random_state": 3}}).model.kind == "automatic"


def test_the_last_override_wins():
    assert load_spec(LEAST, ("model.eta=1", "model.eta=2")).model.eta == 2


@pytest.mark.parametrize(("override", "message"), [
    ("model.eta", "not of the form"), ("=3", "not of the form"), ("model..eta=3", "not of the form"),
    ("name.first=3", "'name' is a value there, 'least', not a section"),
    ("name.first.then=3", "to '{first: {then: 3}}'"), ("model.eta=[1", "is not YAML"),
    ("model.etta=3", ": model.etta: "), ("model.eta=ten", ": model.eta='ten'"),
    ("model.loss=log", ": model.loss: "), ("model={eta: 1, eta: 2}", "given twice"),
])
def test_a_wrong_override_is_named(override, message):
    assert message in message_of(LEAST, (override,))


def test_a_mistake_of_a_section_that_is_overridden_names_the_override_and_no_line(tmp_path):
    path = tmp_path / "spec.yaml"
    path.write_text("name: a\ndata: {source: digits, task: regression}\nlabels: {count: 9}\nmodel: {kind: ridge}\n")
    assert "  --set model={kind: svm}: model.kind is svm" in message_of(path, ("model={kind: svm}",))


# Before any work


@pytest.mark.parametrize("call", [plan, run])
def test_a_bad_spec_or_source_leaves_no_trace(tmp_path, call, spec):
    for change in ({"labels": {"count": 0}}, {"data": {"source": str(tmp_path / "none.npz")}}):
        with pytest.raises(ValueError):
            call(spec | change, workspace=tmp_path / "work")
    assert not (tmp_path / "work").exists()


def test_the_schema_describes_every_section():
    found = schema()
    assert [part["$ref"].rsplit("/")[-1] for part in found["anyOf"]] == [
        kind.spec.__name__ for kind in KINDS.values()]
    for kind in KINDS.values():
        own = found["$defs"][kind.spec.__name__]
        labels = set() if kind.tasks == ("clustering",) else {"labels"}
        assert set(own["required"]) == {"name", "data"} | labels | ({"model"} if kind.name != DEFAULT else set())
        assert set(own["properties"]) == {field.name for field in fields(kind.spec)}
        assert own["additionalProperties"] is False
    for name, section in found["$defs"].items():
        bare = [key for key, described in section["properties"].items() if not described.get("description")]
        assert not bare or name.endswith("Grid"), f"{name} does not describe {bare}"
    assert yaml.safe_load(PIPELINES[0].read_text())["name"]


@pytest.mark.parametrize(("text", "value"), [
    ("1e-3", 1e-3), ("2E5", 2e5), ("-1.5e3", -1500.0), (".5e+1", 5.0), ("1.e2", 100.0), ("1.0e-3", 1e-3),
    ("'1e-3'", "1e-3"), ("1e-3*auto", "1e-3*auto"), ("e5", "e5"), ("1e5x", "1e5x"), ("[1e-3, auto]", [1e-3, "auto"])])
def test_numbers_with_an_exponent_are_numbers(text, value):
    assert parse_yaml(text, "a test") == value


@pytest.mark.parametrize("value", ["1e3", "off", "2024-01-01", "a: b", "c\n", "\u2028", "",
                                   {"1E3": [".5e3", "x\x85y"]}, 1e-7])
def test_a_value_is_written_on_one_line_and_read_as_it_was(value):
    line = yaml_of(value)
    assert len(line.splitlines()) == 1
    assert parse_yaml(f"data: {line}\n", "spec") == {"data": value}


@pytest.mark.parametrize("text", ["no", "Off", "on", "y", "1:30", "12:30:00"])
def test_text_is_text_in_yaml_of_either_version(text):
    """A spec is YAML 1.2, in which the country NO is no truth value; what is written is read as 1.1 by Kubernetes."""
    assert parse_yaml(f"[{text}]", "spec") == [text]
    assert yaml.safe_load(yaml_text({"a": [text]})) == {"a": [text]}


@pytest.mark.parametrize("given", [["a", "b"], [0, 1]])
def test_several_targets_are_told_what_to_do(given):
    text = message_of(with_value("data.read.target", given))
    assert "data.read.target: it names one column of labels; for several labels a point" in text
    assert "data.tags: {columns: [a, b]}" in text


def test_the_rest_of_a_spec_whose_kind_is_misspelt_is_read_as_that_of_the_kind_which_is_meant(tmp_path):
    text = str(message_of({"name": "bad", "data": {"source": "digits"}, "labels": {"given": True},
                           "model": {"kind": "svmm", "C": -1, "eta": "foo"}, "selection": {"cv": 1},
                           "baselines": ["base", "bases"]}))
    for part in ("model.kind: Input should be", "did you mean svm?", "model.eta='foo'", "model.C=-1.0",
                 "selection: 1 folds", "baselines.1: Input should be"):
        assert part in text
    assert text.count("model.kind") == 1
    far = str(message_of({"name": "bad", "data": {"source": "digits"}, "labels": {"given": True},
                          "model": {"kind": "zebra", "C": -1}}))
    assert "did you mean" not in far
