"""Strategies of pipeline files and cluster descriptions: valid ones with changed bytes, or changed values and keys."""

import copy
import datetime
from pathlib import Path
from typing import Any

import yaml
from hypothesis import strategies as st

from .files import SPECIAL, edited, fractions

REPOSITORY = Path(__file__).parents[2]
PIPELINES = sorted((REPOSITORY / "pipelines").glob("*.yaml"))
CLUSTERS = sorted((REPOSITORY / "cluster").glob("*.yaml"))
BOMB = "a0: &a0 {x: 1}\n" + "".join(
    f"a{i}: &a{i} {{{', '.join(f'k{j}: *a{i - 1}' for j in range(10))}}}\n" for i in range(1, 12))
LIST_BOMB = BOMB.replace("{x: 1}", "[1]").replace("{", "[").replace("}", "]").replace("k0: ", "")

MARKS = tuple(text.encode() for text in (
    "&a ", "*a", "&a [*a]", "&a {b: *a}", "!!python/object/apply:os.system [id]", "!!python/name:os.system",
    "!!binary x",
    "!!binary aGk=", "!!set {a}", "!!omap [a: 1]", "!!timestamp x", "!!int x", "!!float x", "!!bool x", "!!null x",
    "!!str",
    "!local 1", "<<: *a", "<<: {a: 1}", "? [a]: b", "? {a: 1}\n: b", "---\n", "...\n", "%YAML 9.9\n", "%TAG ! x\n",
    "\t",
    "\u2028", "\ufeff", "|\n", ">\n", "'", '"', "[", "{", "]", "}", ":", "- ", "#", "@", "`", "%", "0x" + "f" * 6000,
    "9" * 5000, "1e400", ".inf", "-.inf", ".nan", "2001-99-99", "2001-01-01", "1:2:3", "0b2", "0o9", "~", "yes",
    "[" * 300, "{a: " * 300, "- " * 300, '"\\ud800"', '"\\x00"', '"\\q"', "\x85", "=", "!!value", "!", "!<", "&", "*"))
byte_edits = st.one_of(
    st.tuples(st.sampled_from(["insert", "replace"]), fractions, st.sampled_from(MARKS + SPECIAL)),
    st.tuples(st.just("flip"), fractions, st.integers(1, 255)),
    st.tuples(st.just("delete"), fractions, st.integers(1, 40)),
    st.tuples(st.just("repeat"), fractions, st.integers(1, 80)),
    st.tuples(st.just("truncate"), fractions, st.none()))


@st.composite
def damaged_texts(draw: st.DrawFn, paths: list[Path]) -> bytes:
    """Return the bytes of one of the files with up to three changes."""
    raw = draw(st.sampled_from(paths)).read_bytes()
    for edit in draw(st.lists(byte_edits, min_size=1, max_size=3)):
        raw = edited(raw, *edit)
    return raw


huge = st.just("f" * 6000).map(lambda digits: int(digits, 16))  # has more digits than Python writes as text
plausible = st.one_of(st.integers(0, 30), st.sampled_from([0.5, 1.0, 1e-3, 1e6, True, "median", "0.5*median",
                                                           "digits"]))
scalars = st.one_of(
    plausible, plausible, st.none(), st.booleans(), huge, st.integers(-3, 30), st.floats(), st.text(max_size=6),
    st.sampled_from([10**30, -10**400, 0.5, 1e-300, -0.0, "", "median", "2*median", "nan*median", "1e999*median",
                     "0*median", "median*", "*median", "-1*median", "²", "x" * 5000, "a\0b", "\ud800", "../up", "/",
                     ".",
                     "rbf", "polynomial", "linear", "ridge", "none", "unnormalized", "heat", "descent", "digits",
                     "iris", "regression",
                     "nowhere", "~nobody/x.csv", "~", "file://x", "file:///nowhere.csv", "://", "http://[",
                     "gopher://x/y",
                     "t.parquet", "tcp://[", "tcp://127.0.0.1:99999", "banana", "4GiB", "-1GB", "auto", "1e999GB",
                     datetime.date(2001, 1, 1), datetime.datetime(2001, 1, 1), b"x", (), frozenset([1]), 1j]))
values = st.recursive(scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
    st.one_of(st.text(max_size=4), st.integers(0, 3), st.none(), st.booleans(), st.floats()), inner, max_size=3),
    max_leaves=6)
KEYS = ("name", "data", "source", "read", "keep", "classes", "unlabeled", "points", "test", "fraction", "scale",
        "random_state", "labels", "count", "per_class", "given", "graph", "n_neighbors", "method", "metric", "weights",
        "bandwidth", "symmetrize", "laplacian", "ridge", "power", "n_landmarks", "landmarks", "n_landmarks", "solver",
        "tol", "max_iter", "block_columns", "form", "kernel", "parameters", "degree", "model", "kind", "C",
        "eta", "selection", "cv", "grid", "search", "n_candidates", "factor", "held_out", "baselines", "target",
        "drop", "missing", "encoding", "format", "dtype", "workers", "threads_per_worker", "memory_limit", "address",
        "tls", "timeout", "threads", "task")
SETTABLE = [f"{section}.{key}" for section, key in (
    ("data", "keep"), ("data", "classes"), ("data", "unlabeled"), ("data", "points"), ("data", "test"),
    ("data", "scale"), ("data", "random_state"), ("data", "source"), ("data", "read"), ("labels", "count"),
    ("labels", "random_state"), ("graph", "method"), ("graph", "n_neighbors"), ("graph", "weights"),
    ("graph", "bandwidth"), ("graph", "ridge"), ("graph", "power"), ("graph", "random_state"), ("model", "n_landmarks"),
    ("solver", "tol"), ("solver", "max_iter"), ("solver", "block_columns"), ("kernel", "name"),
    ("kernel", "bandwidth"), ("kernel", "parameters"), ("model", "C"), ("model", "eta"), ("model", "kind"),
    ("selection", "grid"), ("selection.grid", "power"), ("selection.grid", "eta"), ("selection.grid", "bandwidth"),
    ("selection.grid", "C"), ("selection", "search"), ("selection", "n_candidates"), ("selection", "factor"),
    ("selection", "cv"), ("data", "task"))]
keys = st.one_of(st.sampled_from(KEYS), st.text(max_size=5), st.sampled_from([0, 1.5, None, True, "a.b", "<<", "\0"]))


def places(fields: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the path of every value of nested mappings and lists."""
    pairs = fields.items() if isinstance(fields, dict) else enumerate(fields) if isinstance(fields, list) else ()
    return [path for key, value in pairs for path in [(*at, key), *places(value, (*at, key))]]


@st.composite
def changed_fields(draw: st.DrawFn, paths: list[Path]) -> Any:
    """Return the mapping of one of the files with values replaced, and keys removed, renamed and added."""
    fields = copy.deepcopy(yaml.safe_load(draw(st.sampled_from(paths)).read_text(encoding="utf-8")))
    for _ in range(draw(st.integers(1, 3))):
        found = places(fields)
        if not found:
            return draw(values)
        *above, last = draw(st.sampled_from(found))
        place = fields
        for key in above:
            place = place[key]
        action = draw(st.sampled_from(["set", "set", "remove", "rename", "add", "deepen"]))
        if action == "set":
            place[last] = draw(values)
        elif action == "deepen":
            for _ in range(draw(st.sampled_from([1, 40, 2000]))):
                place[last] = {"a": place[last]}
            return fields
        elif isinstance(place, list):
            place.insert(last, draw(values))
        elif action == "add":
            place[draw(keys)] = draw(values)
        else:
            value = place.pop(last)
            if action == "rename":
                place[draw(keys)] = value
    return fields


overrides = st.lists(st.one_of(
    st.builds("{}={}".format, st.sampled_from(SETTABLE),
              st.sampled_from(["1", "2", "0", "-1", "1e-3", "0.5", "[1, 2]", "[0.5*median, 3]", "{a: 1}", "true",
                               "null"])),
    st.builds("{}={}".format, st.sampled_from(SETTABLE),
              st.sampled_from([mark.decode("utf-8", "replace") for mark in MARKS]) | st.text(max_size=6)),
    st.text(max_size=12), st.builds("{}={}".format, st.sampled_from(KEYS), st.text(max_size=8)),
    st.sampled_from(["=", "a", "a.=1", ".a=1", "name.x=1", "a.b.c.d.e=1", "name=" + "[" * 5000,
                     "a" + ".a" * 5000 + "=1"])),
    min_size=1, max_size=3)
