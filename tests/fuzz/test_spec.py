"""Any pipeline file, override or cluster description is understood whole or refused with a message."""

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from dssl.base.errors import SpecError
from dssl.base.yaml import parse_yaml
from dssl.data.sources import find_source
from dssl.pipeline.kinds import KINDS
from dssl.pipeline.load import load_spec
from dssl.pipeline.mistakes import has_key
from dssl.runtime.start import load_runtime

from . import specs
from .claims import described_or_refused, text_of, understood_or_refused
from .profile import thorough

DIGITS = specs.REPOSITORY / "pipelines" / "digits_svm.yaml"


@pytest.fixture(autouse=True)
def bundled():
    """Put the data of a plan into the cache, so that planning has nothing to write."""
    for name in ("digits", "iris"):
        find_source(name)


@pytest.fixture
def place(tmp_path):
    """Return a function that writes a file of the given bytes or values and returns its path; one folder for all."""

    def write(content):
        path = tmp_path / "given.yaml"
        if not isinstance(content, bytes):
            content = yaml.dump(content, allow_unicode=True).encode("utf-8", "surrogatepass")
        path.write_bytes(content)
        return path

    return write


def tried(strategy, examples, check):
    """Check every example of a strategy; return whether each was refused."""
    refused = []

    @thorough(examples)
    @given(strategy)
    def run(example):
        refused.append(isinstance(check(example), str))

    run()
    return refused


def test_changed_bytes_of_a_pipeline(place, tmp_path):
    refused = tried(specs.damaged_texts(specs.PIPELINES), 30,
                    lambda raw: understood_or_refused(place(raw), tmp_path))
    assert any(refused)
    assert not all(refused)


@pytest.mark.slow
def test_changed_values_and_keys_of_a_pipeline(tmp_path):
    refused = tried(specs.changed_fields(specs.PIPELINES), 100, lambda fields: understood_or_refused(
        fields if isinstance(fields, dict) else {"a": fields}, tmp_path))
    assert any(refused)
    assert not all(refused)


def test_changed_values_and_keys_written_as_yaml(place, tmp_path):
    def check(fields):
        try:
            path = place(fields)
        except (ValueError, RecursionError):  # what PyYAML cannot write cannot be in a file
            return "not YAML"
        return understood_or_refused(path, tmp_path)

    assert any(tried(specs.changed_fields(specs.PIPELINES), 30, check))


def test_overrides_of_any_text(tmp_path):
    valid = DIGITS.read_text()
    fields = yaml.safe_load(valid)
    refused = tried(specs.overrides, 40, lambda texts: understood_or_refused(fields, tmp_path, tuple(texts)))
    assert any(refused)
    assert not all(refused)


def test_changed_cluster_descriptions(place):
    refused = tried(specs.damaged_texts(specs.CLUSTERS), 30, lambda raw: described_or_refused(place(raw)))
    assert any(refused)
    assert not all(refused)


def test_changed_values_of_cluster_descriptions(place):
    def check(fields):
        try:
            path = place(fields)
        except (ValueError, RecursionError):
            return "not YAML"
        return described_or_refused(path)

    assert any(tried(specs.changed_fields(specs.CLUSTERS), 30, check))


def test_where_to_run_as_any_text():
    given_texts = st.text(max_size=20) | st.sampled_from(["", "~", "a\0b", "x" * 5000, "tcp://[", "://", "tls://", "."])
    assert any(tried(given_texts, 40, described_or_refused))


# ---- what fuzzing found


def message_of(source, overrides=()):
    with pytest.raises(SpecError) as error:
        load_spec(source, overrides)
    return text_of(error.value)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("bomb", [specs.BOMB, specs.LIST_BOMB], ids=["mappings", "lists"])
def test_aliases_that_stand_for_billions_of_values_are_refused_at_once(place, bomb):
    path = place(bomb.encode())
    assert "100,000 values" in message_of(path)
    with pytest.raises(SpecError, match="100,000 values"):
        load_runtime(path)


@pytest.mark.parametrize("text", ["data: {keep: &a [*a]}", "data: {read: {drop: &a [*a]}}"])
def test_values_that_hold_themselves_are_refused(place, text):
    assert "32 sections deep" in message_of(place(text.encode()))


def test_a_few_aliases_are_read(place):
    text = DIGITS.read_text().replace("random_state: 0", "random_state: &drawn 3")
    text = text.replace("n_landmarks: 500", "n_landmarks: 500\n  random_state: *drawn")
    spec = load_spec(place(text.encode()))
    assert (spec.labels.random_state, spec.model.random_state) == (3, 3)


@pytest.mark.parametrize("depth", [40, 3000])
def test_sections_within_sections_without_end_are_refused(depth):
    nested = {"source": "digits"}
    for _ in range(depth):
        nested = {"a": nested}
    assert "32 sections deep" in message_of({"name": "deep", "data": nested})
    assert "32 sections deep" in message_of(DIGITS, ["data" + ".a" * depth + "=1"])


@pytest.mark.timeout(30)
@pytest.mark.parametrize("text", ["[" * 5000, "{a: " * 5000, "[" * 500_000])
def test_many_open_brackets_are_refused_before_they_are_read(text):
    with pytest.raises(SpecError, match="more than 200 brackets are open"):
        parse_yaml(text, "it")


def test_many_brackets_that_are_closed_are_read():
    assert len(parse_yaml("[" + "[]," * 500 + "]", "it")) == 500


@pytest.mark.parametrize("number", ["0x" + "f" * 6000, "9" * 25, "-9223372036854775809"])
def test_integers_beyond_64_bits_are_refused(place, number):
    text = DIGITS.read_text().replace("random_state: 0", f"random_state: {number}")
    assert " bits" in message_of(place(text.encode()))
    assert " bits" in message_of(DIGITS, [f"data.random_state={number}"])
    fields = yaml.safe_load(DIGITS.read_text())
    fields["data"]["source"] = int(number, 0)  # in a message it would have to be written out
    assert " bits" in message_of(fields)


@pytest.mark.parametrize("text", ["\\ud800", "a\\0b"])
def test_text_that_no_file_can_hold_is_refused(place, text):
    message = message_of(place(f'name: x\ndata: {{classes: {{"{text}": [1]}}}}'.encode()))
    assert "holds the text" in message or "invalid Unicode character escape code, line 2" in message


@pytest.mark.slow
def test_a_list_of_many_names_is_read_in_no_time(place):
    names = "\n".join(f"  - c{number}" for number in range(20_000))
    assert "there is no such key" in message_of(place(f"name: x\ndata: {{source: a.csv}}\ndropp:\n{names}".encode()))


def test_tags_never_make_python_objects(place, tmp_path):
    made = tmp_path / "made"
    for tag in (f"!!python/object/apply:os.mkdir [{made}]", "!!python/name:os.system", "!!python/tuple [1]"):
        assert "could not determine a constructor" in message_of(place(f"name: {tag}".encode()))
    assert not made.exists()


@pytest.mark.parametrize("tagged", ["!!bool x", '!!int ""', '!!float ""', "!!timestamp x", "!!timestamp 2001-99-99",
                                    "!!binary x", "!!int x", "!!omap 1", "!!set [a]"])
def test_values_that_are_not_of_their_tag_are_refused(place, tagged):
    assert "is not YAML" in message_of(place(f"name: {tagged}".encode()))


@pytest.mark.parametrize("name", ["x" * 5000, "a/" + "x" * 300])
def test_names_that_the_system_refuses_are_no_files(name):
    assert "there is no file" in message_of(name)
    with pytest.raises(SpecError, match="there is no file"):
        load_runtime(name)


@pytest.mark.parametrize(("text", "told_so"), [
    ("kind: local\nmemory_limit: banana\n", "'banana' is not a size"),
    ("kind: local\nmemory_limit: 1e999GB\n", "'1e999GB' is not a size"),
    ("kind: address\naddress: 'tcp://['\n", "'tcp://[' is not an address"),
    ("kind: address\naddress: tcp://127.0.0.1:99999\n", "is not an address"),
    ("kind: address\naddress: tcp://127.0.0.1:8786\ntimeout: .inf\n", "timeout"),
])
def test_descriptions_that_would_stop_a_cluster_at_its_start(place, text, told_so):
    with pytest.raises(SpecError) as error:
        load_runtime(place(text.encode()))
    assert told_so in text_of(error.value)


def test_a_kind_of_model_knows_each_key_that_is_set():
    for path in specs.SETTABLE:
        assert any(has_key(kind.spec, tuple(path.split("."))) for kind in KINDS.values()), path
