"""`dssl examples`: the pipelines that come with dssl, to list, copy and run."""

from __future__ import annotations

import json
import re
import shutil
from importlib.resources import as_file, files
from importlib.resources.abc import Traversable
from pathlib import Path

import click

from ..base.digest import JsonObject
from ..base.errors import DataError, SpecError, require
from .options import json_option
from .runs import run_command

SUFFIX = ".yaml"
HELP = "-h", "--help"


def _folder() -> Traversable:
    return files("dssl") / "examples"


def _names() -> list[str]:
    return sorted(item.name.removesuffix(SUFFIX) for item in _folder().iterdir() if item.name.endswith(SUFFIX))


def _text(name: str) -> str:
    """Return the text of an example; raise SpecError if there is none of this name."""
    names = _names()
    require(name in names, f"there is no example {name!r}", why="`dssl examples` lists them", error=SpecError,
            fix=f"name one of {', '.join(names)}")
    return (_folder() / f"{name}{SUFFIX}").read_text(encoding="utf-8")


def _source(name: str) -> str:
    from ..base.yaml import parse_yaml

    source: str = parse_yaml(_text(name), name)["data"]["source"]
    return source


def _data_file(source: str) -> Traversable | None:
    """Return the file of data that comes with dssl, None where the source is another."""
    item = _folder() / source
    return item if item.is_file() else None


def _example(name: str) -> JsonObject:
    """Return the name, the first clause of the comment, the source of the data, and whether this machine has these."""
    from ..data.sources import find_source

    comment = " ".join(line.removeprefix("#").strip() for line in _text(name).splitlines() if line.startswith("#"))
    source, is_here = _source(name), True
    try:
        if _data_file(source) is None:
            find_source(source, download=False)
    except DataError:
        is_here = False
    return {"name": name, "what": re.split("[:.] ", comment)[0], "source": source, "is_here": is_here}


@click.group("examples", invoke_without_command=True)
@json_option
@click.pass_context
def examples_command(context: click.Context, as_json: bool) -> None:
    """List the pipelines that come with dssl: `dssl examples`, `copy NAME [FOLDER]`, `run NAME`."""
    if context.invoked_subcommand is not None:
        return
    examples = [_example(name) for name in _names()]
    if as_json:
        click.echo(json.dumps(examples, indent=1))
        return
    for example in sorted(examples, key=lambda example: not example["is_here"]):
        needs = "" if example["is_here"] else f" (needs {example['source']} in the folder DSSL_DATA)"
        click.echo(f"{example['name']:<26}{example['what']}{needs}")


@examples_command.command("copy")
@click.argument("name")
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False), default=Path("."))
def copy_command(name: str, folder: Path) -> None:
    """Copy the pipeline NAME, and the data that come with it, to FOLDER (default: the present one)."""
    data = _data_file(_source(name))
    items = [_folder() / f"{name}{SUFFIX}", *([] if data is None else [data])]
    for item in items:
        require(not (folder / item.name).exists(), f"{folder / item.name} exists already", error=SpecError,
                why="nothing is overwritten", fix="remove it, or name another folder")
    folder.mkdir(parents=True, exist_ok=True)
    for item in items:
        with as_file(item) as path:
            shutil.copyfile(path, folder / item.name)
        click.echo(folder / item.name)


@examples_command.command("run", context_settings={"ignore_unknown_options": True, "help_option_names": []})
@click.argument("name")
@click.argument("options", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def run_example_command(context: click.Context, name: str, options: tuple[str, ...]) -> None:
    """Run the pipeline NAME, with the options of `dssl run`."""
    if name in HELP:
        click.echo(context.get_help())
        return
    data = _data_file(_source(name))
    with as_file(_folder()) as folder:
        overrides = [] if data is None else ["--set", f"data.source={folder / data.name}"]
        arguments = [str(folder / f"{name}{SUFFIX}"), *overrides, *options]
        with run_command.make_context("run", arguments, parent=context, help_option_names=list(HELP)) as made:
            run_command.invoke(made)
