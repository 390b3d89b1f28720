"""The pages of measured results are those that the JSON files make, and their commands are there."""

import json
import re
import sys
from pathlib import Path

from tests.benchmarks.page import DOCS, FOLDER, INDEX, anchor, commands, page, pages, record, sections, text_of

REPOSITORY = Path(__file__).parents[1]


def test_the_pages_are_made_from_the_files():
    made = pages(sections())
    assert {*DOCS.glob("*.md"), INDEX} == set(made)
    for path, text in made.items():
        assert path.read_text(encoding="utf-8") == text, "run python -m tests.benchmarks.page"


def test_every_section_stands_on_one_page_and_the_index_leads_to_it():
    made = pages(sections())
    for section in sections().values():
        assert f"{'#' * section['level']} {section['title']}\n" in made[DOCS / f"{section['page']}.md"]
    for name, fragment in re.findall(r"\]\(\.\./\.\./docs/results/([\w-]+)\.md#([^)]+)\)", made[INDEX]):
        headings = re.findall("^#+ (.*)$", made[DOCS / f"{name}.md"], re.MULTILINE)
        assert fragment in {anchor(heading) for heading in headings}


def test_a_section_names_what_was_found_and_commands_that_are_there():
    for name, section in sections().items():
        assert (FOLDER / f"{name}.json").read_text(encoding="utf-8") == text_of(section)
        assert not commands(section) or all(section[key] for key in ("value", "date", "commit")), name
        for command in commands(section):
            named = [f"{module.replace('.', '/')}.py" for module in re.findall(r"-m (tests\.benchmarks\.\w+)", command)]
            named += re.findall(r"(?:pipelines|cluster|tests)/[\w/]+\.(?:yaml|py)", command)
            assert all((REPOSITORY / path).exists() for path in named), command
        for part in section["parts"]:
            assert all(len(row) == len(part["columns"]) for row in part.get("rows", ())), name


def test_a_command_fills_the_table_of_a_section_and_leaves_its_words(tmp_path):
    (tmp_path / "it.json").write_text(text_of({"title": "It", "level": 3, "page": "start", "value": "two", "date": "",
                                               "commit": "", "parts": [{"text": "Words."}]}), encoding="utf-8")
    record("it", [sys.executable, "-c", "print('{\"n\": 1}'); print('log'); print('{\"n\": 2, \"s\": 0.5}')"], tmp_path)
    section = json.loads((tmp_path / "it.json").read_text(encoding="utf-8"))
    assert section["date"]
    assert section["commit"]
    _, words, table = section["parts"]
    assert words == {"text": "Words."}
    assert table == {"columns": ["n", "s"], "rows": [["1", ""], ["2", "0.5"]]}
    assert "| n | s |\n|---|---|\n| 1 | |\n| 2 | 0.5 |\n" in page("A page", [section])


def test_the_table_beside_the_gallery_has_measured_figures():
    section = next(each for each in sections().values() if "python -m tests.benchmarks.gallery" in commands(each))
    (measured,) = (part["rows"] for part in section["parts"] if "rows" in part)
    text = (REPOSITORY / "docs" / "gallery" / "README.rst").read_text(encoding="utf-8")
    shown = re.findall(r"\* - (\d\d .*)\n +- (.*)\n +- (.*)\n +- (\S+) \((.*)\)", text)
    assert len(shown) >= 14
    for question, figure, ours, other, name in shown:
        assert any(row[:3] == [question, figure, ours] and row[5:7] == [name, other] for row in measured), question
