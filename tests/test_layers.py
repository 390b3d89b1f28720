"""The direction rule: which folder may import which, no circles of files, one door to each third-party library.

Each folder imports from those above it alone:

    base
    storage
    execution
    data        runtime (beside it, of execution alone)
    knn
    solvers
    graph
    kernels
    learners
    selection
    methods     report (beside it, of base alone)
    estimators
    pipeline
    cli

The mathematics (knn to selection) reads data as rows and scalings, never files. There are no exceptions: what seems to
need one is on the wrong floor.
"""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

import dssl

PACKAGE = Path(dssl.__file__).parent
LONGEST_FILE = 400  # lines

FLOORS = ("base", "storage", "execution", "data", "knn", "solvers", "graph", "kernels", "learners", "selection",
          "report", "methods", "estimators", "pipeline", "runtime", "cli")
ALONE = {"report": {"base"}, "runtime": {"base", "storage", "execution"}}  # what these import, and nothing else
USED_BY = {"report": {"methods", "estimators", "pipeline", "cli"}, "runtime": {"cli"}}  # and nobody else
MATHEMATICS = ("knn", "solvers", "graph", "kernels", "learners", "selection")
BELOW = {floor: ALONE.get(floor, {other for other in FLOORS[:place] if floor in USED_BY.get(other, {floor})})
         for place, floor in enumerate(FLOORS)}

DOORS = {
    "zarr": {"storage.array_files", "storage.foreign_zarr"},
    "numcodecs": {"storage.frames", "storage.foreign_zarr"},
    "h5py": {"storage.hdf5"},
    "google_crc32c": {"storage.frames"},
    "obstore": {"storage.object_client"},
    "pyarrow": {"data.readers", "data.frames"},
    "narwhals": {"data.frames"},
    "pyamg": {"solvers.amg"},
    "onnx": {"estimators.onnx_model"},
    "pynndescent": {"knn.pair_metrics"},
    "pydantic": {"pipeline.validation", "runtime"},
    "matplotlib": {"report"},
    "ruamel": {"base.yaml"},
    "jinja2": {"report.page"},
    "joblib": {"execution.threads"},
    "markupsafe": {"report"},
    "dask_jobqueue": {"runtime.jobqueue"},
    "dask_gateway": {"runtime.gateway"},
    "aiohttp": {"runtime.gateway"},
    "dask_kubernetes": {"runtime.dask_operator"},
    "kr8s": {"runtime.dask_operator"},
    "httpx": {"runtime.dask_operator"},
    "cryptography": {"runtime.certificates", "runtime.address"},
    "cronsim": {"runtime.schedules"},
    "rich": {"cli"},
    "distributed": {"execution", "runtime"},
    "dask": {"execution", "runtime", "data.inputs", "data.frames"},
}


@cache
def modules():
    """Return the path of every module by its name inside the package; a folder's own file has the folder's name."""
    named = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        named[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return named


@cache
def statements_of(text):
    return [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Import | ast.ImportFrom)]


def imports(name, path):
    """Return (line, absolute module name) of every import of a module, wherever in the file it stands."""
    package = ["dssl", *name.split(".")] if name else ["dssl"]
    if path.name != "__init__.py":
        package = package[:-1]
    found = []
    for node in statements_of(path.read_text(encoding="utf-8")):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            start = package[:len(package) - node.level + 1] if node.level else []
            origin = ".".join([*start, *([node.module] if node.module else [])])
            # `from .folder import module` names a module, `from .module import function` does not.
            found += [(node.lineno, whole if is_module(whole := f"{origin}.{alias.name}") else origin)
                      for alias in node.names]
    return found


def is_module(dotted):
    return dotted.startswith("dssl.") and dotted.removeprefix("dssl.") in modules()


def group(name):
    """Return the layer of a module: its folder at the top."""
    return "cli" if name == "__main__" else name.split(".")[0]


def wrong_arrows(name, path):
    """Return one message for each import of a module that points back."""
    messages = []
    for line, target in imports(name, path):
        other = target.removeprefix("dssl.")
        if not target.startswith("dssl.") or name == "":
            continue  # another library; dssl/__init__.py names everything that is public
        mine, theirs = group(name), group(other)
        allowed = mine == theirs or theirs in BELOW[mine]
        if mine in MATHEMATICS and theirs == "data":
            allowed = other.startswith("data.scaling.")
        if not allowed:
            messages.append(
                f"dssl.{name}, line {line}, imports dssl.{other}: an arrow from {mine} back to {theirs}. "
                f"{mine} may import from {', '.join(sorted(BELOW[mine])) or 'nothing'}. Pass what it needs in as an "
                "argument, or move the shared piece down to a layer below both.")
    return messages


def wrong_doors(name, path):
    """Return one message for each import of a library by a module that is not its door."""
    messages = []
    for line, target in imports(name, path):
        library = target.split(".")[0]
        doors = DOORS.get(library)
        if doors and not any(name == door or name.startswith(f"{door}.") for door in doors):
            messages.append(
                f"dssl.{name}, line {line}, imports {library}, whose door is "
                f"{' and '.join(f'dssl.{door}' for door in sorted(doors))}. Give that module a function for what is "
                "needed here, in words of ours, and call it.")
    return messages


def circles(arrows):
    """Return the groups of names that can all reach each other along the arrows, {name: names}, of two or more."""
    def reach(start):
        found, pending = set(), [start]
        while pending:
            for other in arrows.get(pending.pop(), ()):
                if other not in found:
                    found.add(other)
                    pending.append(other)
        return found

    reached = {name: reach(name) for name in arrows}
    return sorted({tuple(sorted({name, *(other for other in reached[name] if name in reached.get(other, ()))}))
                   for name in arrows if name in reached[name]})


def test_there_are_no_circles_of_files():
    """An import inside a function counts: it hides a circle, it does not open one."""
    arrows = {name: {target.removeprefix("dssl.") for _, target in imports(name, path)
                     if target.startswith("dssl.")} for name, path in modules().items() if name}
    assert not circles(arrows), "files that import each other: move what they share into one of its own"


def test_circles_are_found():
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": {"e"}, "e": set()}) == [("a", "b", "c")]


def test_every_module_has_a_layer():
    unknown = {name for name in modules() if name and group(name) not in BELOW}
    assert not unknown, f"{sorted(unknown)}: give the new folder its place in FLOORS"


@pytest.mark.parametrize("rule", [wrong_arrows, wrong_doors])
def test_imports_follow_the_rule(rule):
    messages = [message for name, path in modules().items() for message in rule(name, path)]
    assert not messages, "\n".join(messages)


def test_files_are_short_enough_to_read():
    for name, path in modules().items():
        length = len(path.read_text(encoding="utf-8").splitlines())
        assert length <= LONGEST_FILE, f"dssl.{name} has {length} lines: look for the seam near {LONGEST_FILE}"


def test_files_that_texts_name_exist():
    root = PACKAGE.parent
    texts = [*PACKAGE.rglob("*.py"), *root.glob("docs/*.md"), root / "README.md"]
    files = [str(path.relative_to(root)) for folder in (PACKAGE, root / "tests") for path in folder.rglob("*.py")]
    missing = [(str(path.relative_to(root)), name) for path in texts
               for name in re.findall(r"`([\w/]+\.py)`", path.read_text(encoding="utf-8"))
               if not any(file == name or file.endswith(f"/{name}") for file in files)]
    assert not missing


def test_the_rule_finds_an_arrow_that_points_back(tmp_path):
    """The checks above are only worth what they find."""
    file = tmp_path / "neighbors.py"
    for text, found in [
        ("from ..pipeline.run import run\n", "from graph back to pipeline"),
        ("from ..estimators.base import PointReader\n", "from graph back to estimators"),
        ("from ..data.readers.csv import CsvReader\n", "from graph back to data"),
        ("def later():\n    from ..kernels import base\n", "from graph back to kernels"),
        ("import dssl.estimators.deformed\n", "from graph back to estimators"),
        ("from .. import learners\n", "from graph back to learners"),
        ("from ..storage.blocks import Rows\nfrom .heap import offer\nimport numpy\n", None),
    ]:
        file.write_text(text)
        messages = wrong_arrows("graph.neighbors", file)
        assert (len(messages) == 1 and found in messages[0]) if found else not messages, (text, messages)
    file.write_text("import numpy\nfrom zarr.codecs import ZstdCodec\n")
    found = wrong_doors("graph.neighbors", file)[0]
    assert "zarr, whose door is dssl.storage.array_files and dssl.storage.foreign_zarr" in found
