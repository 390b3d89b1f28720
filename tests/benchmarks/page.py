"""The pages of measured results, docs/results, and their index, RESULTS.md, made from a JSON file a section.

`python -m tests.benchmarks.page` writes them. `python -m tests.benchmarks.page record NAME COMMAND ...` runs a command
that writes JSON lines, puts these into the table of results/NAME.json with the date and the commit, and writes the
pages. A new section goes to the first page until its file names another.
"""

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "results"
INDEX = Path(__file__).parent / "RESULTS.md"
DOCS = Path(__file__).parents[2] / "docs" / "results"
PAGES = {
    "start": "First runs, plans and memory",
    "few-labels": "Accuracy with few labels",
    "class-frequencies": "Unequal class frequencies",
    "kernels": "Kernel methods",
    "selection": "Choice of parameters, clusters, and points to label",
    "neighbors": "Neighbors and graphs",
    "solvers": "Solvers and eigenpairs",
    "data": "Features, errors and drift",
    "machines": "Many points, clusters and faults",
}
HEAD = """\
# Measured results

Machine: 2 cores (x86-64 with AVX-512), 24 GiB, Python 3.11, no GPU. Other processes used the same cores during some
of the runs, so seconds vary between runs by up to a factor of two; a ratio is always of solvers that took turns in one
run. Data are the npz files that `DSSL_DATA` names. Each section has its commands, which write JSON lines. Date and
commit are those at which a section was written last; "choice" stands beside the commit where a section records how a
default was chosen, which is not measured again. These pages are made from the files in `tests/benchmarks/results/` by
`python -m tests.benchmarks.page`.
"""


def sections() -> dict[str, dict[str, Any]]:
    """Return the sections by name, in the order of their files.

    A section has a title, its level (2, or 3 within the section before), its page, a value, what was found in a few
    words, the date and the commit, and parts: a text, a command, or a table with columns and rows. One that records how
    a default was chosen has `choice`, true.
    """
    return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(FOLDER.glob("*.json"))}


def pages(found: dict[str, dict[str, Any]]) -> dict[Path, str]:
    """Return the text of each file: the pages of the sections, and the index of all that have a command."""
    made, index = {}, [HEAD]
    for name, title in PAGES.items():
        chosen = [section for section in found.values() if section["page"] == name]
        made[DOCS / f"{name}.md"] = page(title, chosen)
        rows = [(f"[{section['title']}](../../docs/results/{name}.md#{anchor(section['title'])})", section["value"],
                 section["date"], section["commit"] + ", choice" * section.get("choice", False))
                for section in chosen if commands(section)]
        index += [f"## {title}\n", _table(("result", "value", "date", "commit"), rows)]
    return made | {INDEX: "\n".join(index)}


def page(title: str, chosen: Sequence[dict[str, Any]]) -> str:
    """Return a page of sections."""
    blocks = [f"# {title}\n"]
    for section in chosen:
        blocks.append(f"{'#' * section['level']} {section['title']}\n")
        blocks += [_block(part) for part in section["parts"]]
    return "\n".join(blocks)


def commands(section: dict[str, Any]) -> list[str]:
    """Return the commands of a section, each on one line."""
    return [" ".join(line.replace("\\\n", " ").split()) for part in section["parts"] if "command" in part
            for line in part["command"].replace("\\\n", " ").splitlines()]


def anchor(title: str) -> str:
    """Return what a link to a heading ends in, as GitHub makes it."""
    return "".join(c for c in title.lower().replace(" ", "-") if c.isalnum() or c in "-_")


def text_of(section: dict[str, Any]) -> str:
    """Return a section as JSON with a line a row of its tables."""
    head = {key: value for key, value in section.items() if key != "parts"}
    lines = [f" {json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}," for key, value in head.items()]
    parts = ",\n".join(_part_text(part) for part in section["parts"])
    return "{\n" + "\n".join(lines) + f'\n "parts": [\n{parts}\n ]\n}}\n'


def record(name: str, command: Sequence[str], folder: Path = FOLDER) -> None:
    """Run a command, and put the JSON lines that it writes into the table of a section, which it makes where needed."""
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    columns = list(dict.fromkeys(key for row in rows for key in row))
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], check=True, stdout=subprocess.PIPE, text=True)
    path = folder / f"{name}.json"
    section = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {
        "title": name, "level": 2, "page": next(iter(PAGES)), "value": "", "parts": []}
    texts = [part for part in section["parts"] if "text" in part]
    section |= {"date": datetime.now(UTC).date().isoformat(), "commit": commit.stdout.strip(), "parts": [
        {"command": " ".join(command)}, *texts,
        {"columns": columns, "rows": [[str(row.get(key, "")) for key in columns] for row in rows]}]}
    path.write_text(text_of(section), encoding="utf-8")


def _part_text(part: dict[str, Any]) -> str:
    if "columns" not in part:
        return f"  {json.dumps(part, ensure_ascii=False)}"
    rows = ",\n".join(f"   {json.dumps(row, ensure_ascii=False)}" for row in part["rows"])
    return f'  {{"columns": {json.dumps(part["columns"], ensure_ascii=False)}, "rows": [\n{rows}]}}'


def _block(part: dict[str, Any]) -> str:
    if "columns" in part:
        return _table([name or "case" for name in part["columns"]], part["rows"])
    if "command" in part:
        return "".join(f"    {line}\n" for line in part["command"].splitlines())
    return f"{part['text']}\n"


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return "\n".join(_lines(columns, rows)) + "\n"


def _lines(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    for row in (columns, ["---"] * len(columns), *rows):
        yield "|".join(("", *("---" if cell == "---" else f" {cell} " if cell else " " for cell in row), ""))


if __name__ == "__main__":
    if sys.argv[1:2] == ["record"]:
        record(sys.argv[2], sys.argv[3:])
    for path, text in pages(sections()).items():
        path.write_text(text, encoding="utf-8")
