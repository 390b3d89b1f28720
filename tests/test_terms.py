"""One word for one thing: names that gave way to the field's words come back neither in code nor in pages."""

import re
from pathlib import Path

import pytest

import dssl

PACKAGE = Path(dssl.__file__).parent
REPOSITORY = PACKAGE.parent

IDENTIFIERS = {  # names of variables, attributes, parameters, functions and classes, and keys; what to write instead
    "found": "what it is: selected, predicted, neighbors, ...", "own": "whose it is: of_model, learner, ...",
    "told": "message, evidence or from_file", "untold": "no evidence, uninformative",
    "structure": "spectral_concentration", "carriers": "landmarks", "kept_rows": "result cache",
    "judged": "held_out, or examined", "Judge": "candidate evaluator", "joint": "vectorized",
    "Facts": "PlanInputs", "facts": "attributes", "Words": "ReportText", "remedy": "hint", "remedies": "hint",
    "Measure": "metric or scorer", "measure_of": "metric_of", "unfold": "densify",
    "abstain": "reject", "abstains": "rejects", "abstained": "rejected",
    "reached": "reachable", "unreached": "unreachable", "far": "outlier", "beyond": "out of range",
    "most": "upper_bound, or max_ and what is bounded", "least": "lower_bound, or min_ and what is bounded",
    "left_out": "held_out", "n_held": "n_held_out", "of_held": "of_held_out", "own_held": "learner_held_out",
    "held_values": "held_out_values", "HeldLabels": "HeldOutLabels"}
PARTS = {"subsample": "landmarks", "subsamples": "landmarks"}  # of names, between underscores or in CamelCase
HELD_OUT = ("dssl/learners/", "dssl/selection/")  # where nothing is held but labels that are held out
ENDINGS = ("py", "html", "md", "yaml", "rst")  # of the files that are read
TEXT = ("n_carriers", "n_subsample", "abstain", "unreached", "untold", "beyond_range", "far_rows", "least_workers",
        "carriers", "sample learner", "subsample")  # that begin no word, in pages and pipeline files too
ALLOWED = {  # older keys, which are answered with those of today, samples of rows and of signs, an option of kubectl
    "dssl/runtime/kubernetes.py": {"found"},
    "dssl/pipeline/mistakes.py": {"n_carriers", "n_subsample", "most"}, "dssl/kernels/multiscale.py": {"subsample"},
    "dssl/knn/projection.py": {"subsample"}, "dssl/knn/search.py": {"subsample"}}


TEXTS = re.compile(r'"""(?:.|\n)*?"""|"[^"\n]*"|#[^\n]*')  # docstrings, strings and comments


def code_of(source: str) -> str:
    """Return a module without comments and texts of several words."""
    return TEXTS.sub(lambda text: "" if " " in text[0] or text[0].startswith("#") else text[0], source)


def words(text: str) -> set[str]:
    """Return the words of a text, of letters, digits and underscores."""
    return set(re.findall(r"\w+", text))


def parts_of(name: str) -> set[str]:
    """Return the words that a name is made of, in lower case."""
    return set(re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower().split("_"))


def old_terms_in(path: Path) -> dict[str, str]:
    """Return the terms that a file should not have, with what to write instead where one word does."""
    source = path.read_text(encoding="utf-8")
    place = path.relative_to(REPOSITORY).as_posix()
    found = {term: "" for term in TEXT if term in source and re.search(rf"(?<![a-z_]){term}", source)}
    if path.suffix == ".py":
        names = words(code_of(source))
        found |= {name: IDENTIFIERS[name] for name in names & IDENTIFIERS.keys()}
        found |= {name: PARTS[part] for name in names for part in parts_of(name) & PARTS.keys()}
        if place.startswith(HELD_OUT) and "held" in names:
            found["held"] = "held_out"
    return {term: instead for term, instead in found.items() if term not in ALLOWED.get(place, ())}


def test_what_is_looked_for_is_found(tmp_path, monkeypatch):
    monkeypatch.setitem(globals(), "REPOSITORY", tmp_path)
    (tmp_path / "a.py").write_text('"""Points beyond it are told apart."""\nfound = {"structure": facts.far}\n')
    (tmp_path / "b.md").write_text("dssl predict --abstain\n")
    (tmp_path / "c.py").write_text("class SubsampleGraph:\n    rows = draw_subsample(most)\n    kept = held\n")
    (tmp_path / "dssl" / "selection").mkdir(parents=True)
    (tmp_path / "dssl" / "selection" / "d.py").write_text("held = folds[0]\n")
    assert set(old_terms_in(tmp_path / "a.py")) == {"found", "structure", "facts", "far"}
    assert set(old_terms_in(tmp_path / "b.md")) == {"abstain"}
    assert set(old_terms_in(tmp_path / "c.py")) == {"SubsampleGraph", "draw_subsample", "most"}
    assert set(old_terms_in(tmp_path / "dssl" / "selection" / "d.py")) == {"held"}


@pytest.mark.parametrize("folder", ["dssl", "docs", "pipelines", "cluster"])
def test_terms_that_gave_way_do_not_come_back(folder):
    ignored = (REPOSITORY / ".gitignore").read_text(encoding="utf-8").split()  # pages that a build has made
    made = tuple(str(REPOSITORY / line) for line in ignored if line.startswith("docs/"))
    paths = (path for ending in ENDINGS for path in (REPOSITORY / folder).rglob(f"*.{ending}")
             if not str(path).startswith(made))
    found = {path.name: terms for path in paths if (terms := old_terms_in(path))}
    assert not found
