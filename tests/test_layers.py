"""The direction rule: which folder may import which, and which module is the door to a third-party library.

    cli -> pipeline -> selection -> models -> {kernels, graph} -> solvers -> base

`data` and `report` hang off the pipeline, `runtime` off the command line.
"""

import ast
from pathlib import Path

import pytest

import dssl

PACKAGE = Path(dssl.__file__).parent
LONGEST_FILE = 400  # lines

# Base, in its own order: each imports only from those before it.
BASE = ("errors", "params", "blocks", "csr", "data.store", "data.labels", "measure", "execution", "inputs")
BELOW = {
    "solvers": {"base"},
    "graph": {"base", "solvers"},
    "kernels": {"base", "solvers"},
    "models": {"base", "solvers", "graph", "kernels"},
    "selection": {"base", "solvers", "graph", "kernels", "models"},
    "data": {"base"},
    "report": {"base"},
    "pipeline": {"base", "solvers", "graph", "kernels", "models", "selection", "data", "report"},
    "runtime": {"base"},
    "progress": set(),
    "doctor": {"base", "data", "runtime"},
    "cli": {"base", "data", "report", "pipeline", "runtime", "progress", "doctor"},
}
ALSO = {("runtime", "pipeline.plain_yaml")}  # a cluster description is YAML as a spec is

DOORS = {
    "zarr": {"data.store", "data.foreign_zarr"},
    "pyarrow": {"data.readers.parquet"},
    "pynndescent": {"graph.descent"},
    "pyamg": {"solvers.amg"},
    "pydantic": {"pipeline.spec", "pipeline.model_spec", "runtime"},
    "matplotlib": {"report"},
    "distributed": {"execution", "runtime"},
    "dask": {"execution", "runtime", "inputs"},
}


def modules():
    """Return the path of every module by its name inside the package; a folder's own file has the folder's name."""
    named = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        named[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return named


def imports(name, path):
    """Return (line, absolute module name) of every import of a module, wherever in the file it stands."""
    package = ["dssl", *name.split(".")] if name else ["dssl"]
    if path.name != "__init__.py":
        package = package[:-1]
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
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
    place = PACKAGE.joinpath(*dotted.split(".")[1:])
    return dotted.startswith("dssl.") and (place.is_dir() or place.with_suffix(".py").is_file())


def group(name):
    """Return the layer of a module: "base", or its folder or file at the top."""
    return "base" if name in BASE else name.split(".")[0]


def wrong_arrows(name, path):
    """Return one message for each import of a module that points back."""
    messages = []
    for line, target in imports(name, path):
        other = target.removeprefix("dssl.")
        if not target.startswith("dssl.") or name == "":
            continue  # another library; dssl/__init__.py names everything that is public
        mine, theirs = group(name), group(other)
        if mine == theirs == "base":
            allowed = BASE.index(other) <= BASE.index(name)
        else:
            allowed = mine == theirs or theirs in BELOW.get(mine, set()) or (name, other) in ALSO
        if not allowed:
            messages.append(
                f"dssl.{name}, line {line}, imports dssl.{other}: an arrow from {mine} back to {theirs}. "
                f"{mine} may import from {', '.join(sorted(BELOW.get(mine, set(BASE))))}. Pass what it needs in as an "
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


def test_every_module_has_a_layer():
    unknown = {name for name in modules() if name and group(name) != "base" and group(name) not in BELOW}
    assert not unknown, f"{sorted(unknown)}: give the new folder or file its place in BELOW, or in BASE"


@pytest.mark.parametrize("name", [name for name in modules() if name])
def test_no_arrow_points_back(name):
    messages = wrong_arrows(name, modules()[name])
    assert not messages, "\n".join(messages)


@pytest.mark.parametrize("name", list(modules()))
def test_one_library_has_one_door(name):
    messages = wrong_doors(name, modules()[name])
    assert not messages, "\n".join(messages)


@pytest.mark.parametrize("name", list(modules()))
def test_files_are_short_enough_to_read(name):
    length = len(modules()[name].read_text(encoding="utf-8").splitlines())
    assert length <= LONGEST_FILE, f"dssl.{name} has {length} lines: look for the seam near {LONGEST_FILE}"


def test_the_rule_finds_an_arrow_that_points_back(tmp_path):
    """The checks above are only worth what they find."""
    file = tmp_path / "neighbors.py"
    for text, found in [
        ("from ..pipeline.run import run\n", "from graph back to pipeline"),
        ("from ..data.dataset import Dataset\n", "from graph back to data"),
        ("def later():\n    from ..kernels import base\n", "from graph back to kernels"),
        ("import dssl.models.svm\n", "from graph back to models"),
        ("from .. import models\n", "from graph back to models"),
        ("from ..data.labels import encode_labels\nfrom .heap import push\nimport numpy\n", None),
    ]:
        file.write_text(text)
        messages = wrong_arrows("graph.neighbors", file)
        assert (len(messages) == 1 and found in messages[0]) if found else not messages, (text, messages)
    file.write_text("import numpy\nfrom zarr.codecs import ZstdCodec\n")
    assert "zarr, whose door is dssl.data.foreign_zarr and dssl.data.store" in wrong_doors("graph.neighbors", file)[0]
