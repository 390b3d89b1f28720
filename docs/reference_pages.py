"""Pages of the reference that are made from the code: keys of a pipeline file, of a cluster file, and commands."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
from pydantic import TypeAdapter

from dssl.cli.main import main
from dssl.pipeline.load import schema
from dssl.runtime.start import Described

Schema = dict[str, Any]
INTRODUCTION = """# Keys of a pipeline file

`dssl run FILE` reads these keys, and no others; a wrong one is reported with its line and the names that are near. An
editor that knows JSON Schema checks them while you type: `dssl schema > dssl.schema.json`. A file has at least `name`,
`data` and `labels`; `model.kind` says which of the sections below there are, and without it is `automatic`.

"""


COMMANDS = """# Commands

Each command ends with 0 when it is done. With `--json` it prints one JSON document, also when it fails.

| exit code | means |
|---|---|
| 0 | done |
| 1 | failed: the data cannot be used, or not as the spec says |
| 2 | the spec or the command line is wrong for any data |
| 3 | stored bytes are damaged |
| 4 | the cluster cannot be reached |
| 5 | another run has the workspace |
| 75 | interrupted by an engine that must start it again |
| 130, 143 | interrupted, terminated |
"""


def write(folder: Path) -> None:
    """Write the pages into a folder, as far as they differ from what is there."""
    pages = {"pipeline-file": _pipeline_file(), "cluster-file": _cluster_file(), "commands": _commands()}
    for name, text in pages.items():
        path = folder / f"{name}.md"
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def _pipeline_file() -> str:
    document = schema()
    sections = document["$defs"]
    names = (item["$ref"].rsplit("/", 1)[1] for item in document["anyOf"])
    kinds = {_kind(sections, name): name for name in names}
    shown = dict.fromkeys(each for name in kinds.values() for each in _sections_of(sections, sections[name]))
    lines = [INTRODUCTION, "## Kinds\n\n| `model.kind` | what it is | sections |\n|---|---|---|\n"]
    for kind, name in kinds.items():
        properties = sections[name]["properties"]
        links = ", ".join(f"[`{key}`](#{_anchor(target)})" if (target := _target(value)) else f"`{key}`"
                          for key, value in properties.items())
        what = _cell(sections[_target(properties["model"]) or ""]["description"])
        lines.append(f"| `{kind}` | {what} | {links} |\n")
    for name in shown:
        lines.append(f"\n({_anchor(name)})=\n## {_words(name)}\n\n{sections[name].get('description', '')}\n\n"
                     f"{_table(sections[name])}")
    return "".join(lines)


def _kind(sections: Schema, name: str) -> str:
    model = sections[_target(sections[name]["properties"]["model"]) or ""]
    return str(model["properties"]["kind"]["const"])


def _sections_of(sections: Schema, section: Schema) -> Iterator[str]:
    """Yield the names of the sections that keys of a section are, and theirs, once or more."""
    for name in re.findall(r'"#/\$defs/(\w+)"', json.dumps(section.get("properties", {}))):
        yield name
        yield from _sections_of(sections, sections[name])


def _cluster_file() -> str:
    document = TypeAdapter(Described).json_schema()
    text = ["# Keys of a cluster file\n\n`--on FILE` names a YAML file that says where tasks run. Its `kind` says "
            "which keys there are.\n"]
    for kind, reference in document["discriminator"]["mapping"].items():
        section = document["$defs"][reference.rsplit("/", 1)[1]]
        text.append(f"\n## {kind}\n\n{section.get('description', '')}\n\n{_table(section)}")
    parts = [name for name in document["$defs"]
             if f"#/$defs/{name}" not in document["discriminator"]["mapping"].values()]
    for name in parts:
        section = document["$defs"][name]
        text.append(f"\n({_anchor(name)})=\n## {_words(name)}\n\n{section.get('description', '')}\n\n{_table(section)}")
    return "".join(text)


def _table(section: Schema) -> str:
    if "properties" not in section:
        return ""
    required = section.get("required", ())
    lines = ["| key | value | default | what it is |\n|---|---|---|---|\n"]
    for key, value in section["properties"].items():
        default = "required" if key in required else _default(value)
        what = _cell(value.get("description", ""))
        lines.append(f"| `{key}` | {_cell(_type(value))} | {_cell(default)} | {what} |\n")
    return "".join(lines)


def _default(value: Schema) -> str:
    default = value.get("default")
    if isinstance(default, dict) or ("default" not in value):
        return "its own" if _target(value) else ""
    return f"`{json.dumps(default)}`"


def _type(value: Schema) -> str:
    if "$ref" in value:
        target = str(value["$ref"]).rsplit("/", 1)[1]
        return f"[{_words(target).lower()}](#{_anchor(target)})"
    if "anyOf" in value or "oneOf" in value:
        return " or ".join(dict.fromkeys(map(_type, value.get("anyOf") or value["oneOf"])))
    if "const" in value:
        return f"`{json.dumps(value['const'])}`"
    if "enum" in value:
        return ", ".join(f"`{json.dumps(item)}`" for item in value["enum"])
    names = {"integer": "whole number", "number": "number", "string": "text", "boolean": "`true` or `false`",
             "null": "`null`", "array": "list", "object": "mapping"}
    return names.get(value.get("type", ""), "any value")


def _target(value: Schema) -> str | None:
    """Return the name of the section that a key is, None where it is none."""
    references = [each["$ref"] for each in (value, *value.get("anyOf", ())) if "$ref" in each]
    return str(references[0]).rsplit("/", 1)[1] if len(references) == 1 else None


def _anchor(name: str) -> str:
    return f"keys-{_words(name).lower().replace(' ', '-')}"


def _words(name: str) -> str:
    """Return the words of a class name."""
    words = re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", " ", name)
    return re.sub("Lap (RLS|SVM)", r"Lap\1", words)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _commands() -> str:
    context = click.Context(main, info_name="dssl")
    text = [COMMANDS]
    for path, command, made in _all_commands(main, context):
        usage = made.get_usage().removeprefix("Usage: ")
        text.append(f"\n## {path}\n\n```text\n{usage}\n```\n\n{_cell(command.help or '')}\n")
        records = [param.get_help_record(made) for param in command.get_params(made)]
        options = [record for record in records if record and record[1]]  # an argument is in the usage
        if options:
            text.append("\n| option | what it does |\n|---|---|\n")
            text += [f"| `{_cell(names)}` | {_cell(what)} |\n" for names, what in options]
    return "".join(text)


def _all_commands(group: click.Group, context: click.Context) -> Iterator[tuple[str, click.Command, click.Context]]:
    """Yield path, command and context of all commands that a user calls, in alphabetical order."""
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if command is None or command.hidden:
            continue
        made = click.Context(command, info_name=name, parent=context)
        yield made.command_path, command, made
        if isinstance(command, click.Group):
            yield from _all_commands(command, made)
