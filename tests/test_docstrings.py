"""Docstrings of public names are numpydoc and whole, and their examples run."""

import doctest
import inspect
from collections.abc import Iterator
from typing import Any

import pytest
from numpydoc import validate as numpydoc_validate

import dssl

# What numpydoc asks of every docstring, by its codes.
FORM = {
    "GL03",  # no double blank lines
    "GL06", "GL07",  # known sections, in order
    "GL08",  # a docstring
    "SS01", "SS03", "SS06",  # a summary, one sentence on one line
    "PR01", "PR02", "PR03",  # all parameters and no others, in the order of the signature
    "PR04", "PR07", "PR10",  # each with a type and a description
    "RT03", "YD01",  # what is returned is described
}
OF_SEARCHES = {"group", "section"}  # of an estimator, for the rest of dssl
EXAMPLES = {"EX01"}  # classes and functions have examples; methods are shown in those of their class


def methods_of(name: str) -> Iterator[tuple[str, Any]]:
    """Yield the public methods and properties that dssl defines of a class, inherited ones too, by their path."""
    cls = getattr(dssl, name)
    for method in (dir(cls) if inspect.isclass(cls) else ()):
        owner = next((base for base in cls.__mro__ if method in vars(base)), None)
        if owner is None or not owner.__module__.startswith("dssl.") or (owner is not cls and method in OF_SEARCHES):
            continue
        value = vars(owner)[method]
        described = getattr(value, "func", getattr(value, "__func__", value))  # of cached properties, class methods
        if not method.startswith("_") and (inspect.isfunction(described) or isinstance(value, property)):
            yield f"dssl.{name}.{method}", value


def mistakes(path: str, codes: set[str]) -> list[str]:
    """Return what numpydoc finds wrong with a docstring."""
    errors = numpydoc_validate.validate(path)["errors"]
    return [f"{path}: {code} {message}" for code, message in errors if code in codes]


@pytest.mark.parametrize("name", dssl.__all__)
def test_the_docstring_of_a_public_name_is_whole(name):
    """Each parameter has a paragraph of its own."""
    found = mistakes(f"dssl.{name}", FORM | EXAMPLES)
    for path, value in methods_of(name):
        is_attribute = not inspect.isroutine(value) and not isinstance(value, (classmethod, staticmethod))
        found += mistakes(path, {"GL08", "SS01", "SS03", "SS06"} if is_attribute else FORM)
    found += [f"{path}: {param.name} on one line" for path in (f"dssl.{name}", *dict(methods_of(name)))
              for section in ("Parameters", "Attributes")
              for param in numpydoc_validate.get_doc_object(numpydoc_validate.Validator._load_obj(path))[section]
              if "," in param.name]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("name", dssl.__all__)
def test_the_examples_run(name, tmp_path, monkeypatch):
    """Examples write files to the current folder."""
    monkeypatch.chdir(tmp_path)
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    runner, finder = doctest.DocTestRunner(optionflags=flags), doctest.DocTestFinder(recurse=False)
    output: list[str] = []
    for path, value in ((f"dssl.{name}", getattr(dssl, name)), *methods_of(name)):
        for example in finder.find(value, path, module=False, globs={}):
            runner.run(example, out=output.append)
    assert runner.tries > 0, f"{name} has no example"
    assert runner.failures == 0, "".join(output)
