"""One word for one thing: names that gave way to the field's words come back neither in code nor in pages."""

import re
from pathlib import Path

import pytest

import dssl

PACKAGE = Path(dssl.__file__).parent
REPOSITORY = PACKAGE.parent

IDENTIFIERS = {  # names of variables, attributes, parameters, functions and classes, and keys; what to write instead
    "told": "message, evidence or from_file", "untold": "no evidence, uninformative",
    "structure": "spectral_concentration", "carriers": "landmarks", "kept_rows": "result cache",
    "judged": "held out, or examined", "Judge": "candidate evaluator", "joint": "vectorized",
    "Facts": "PlanInputs", "facts": "attributes", "Words": "ReportText", "remedy": "hint", "remedies": "hint",
    "Measure": "metric or scorer", "measure_of": "metric_of", "unfold": "densify",
    "abstain": "reject", "abstains": "rejects", "abstained": "rejected",
    "reached": "reachable", "unreached": "unreachable", "far": "outlier", "beyond": "out of range"}
ENDINGS = ("py", "html", "md", "yaml", "rst")  # of the files that are read
TEXT = ("n_carriers", "n_subsample", "abstain", "unreached", "untold", "beyond_range", "far_rows", "least_workers",
        "carriers", "sample learner")  # that begin no word, in pages and pipeline files too
ALLOWED = {"dssl/pipeline/mistakes.py": {"n_carriers", "n_subsample"}}  # older keys, answered with those of today


TEXTS = re.compile(r'"""(?:.|\n)*?"""|"[^"\n]*"|#[^\n]*')  # docstrings, strings and comments


def code_of(source: str) -> str:
    """Return a module without comments and texts of several words."""
    return TEXTS.sub(lambda text: "" if " " in text[0] or text[0].startswith("#") else text[0], source)


def words(text: str) -> set[str]:
    """Return the words of a text, of letters, digits and underscores."""
    return set(re.findall(r"\w+", text))


def old_terms_in(path: Path) -> dict[str, str]:
    """Return the terms that a file should not have, with what to write instead where one word does."""
    source = path.read_text(encoding="utf-8")
    place = path.relative_to(REPOSITORY).as_posix()
    found = {term: "" for term in TEXT if term in source and re.search(rf"(?<![a-z_]){term}", source)}
    if path.suffix == ".py" and words(source) & IDENTIFIERS.keys():
        found |= {name: IDENTIFIERS[name] for name in words(code_of(source)) & IDENTIFIERS.keys()}
    return {term: instead for term, instead in found.items() if term not in ALLOWED.get(place, ())}


def test_what_is_looked_for_is_found(tmp_path, monkeypatch):
    monkeypatch.setitem(globals(), "REPOSITORY", tmp_path)
    (tmp_path / "a.py").write_text('"""Points beyond it are told apart."""\nfound = {"structure": facts.far}\n')
    (tmp_path / "b.md").write_text("dssl predict --abstain\n")
    assert set(old_terms_in(tmp_path / "a.py")) == {"structure", "facts", "far"}
    assert set(old_terms_in(tmp_path / "b.md")) == {"abstain"}


@pytest.mark.parametrize("folder", ["dssl", "docs", "pipelines", "cluster"])
def test_terms_that_gave_way_do_not_come_back(folder):
    paths = (path for ending in ENDINGS for path in (REPOSITORY / folder).rglob(f"*.{ending}"))
    found = {path.name: terms for path in paths if (terms := old_terms_in(path))}
    assert not found
