"""The table of inputs and outcomes: what a user gives dssl, and what comes of it.

    python -m tests.outcomes        writes docs/outcomes.md anew

A case makes its files in a folder of its own, runs a command or fits an estimator, and says which exit code and which
words it expects. `test_outcomes.py` runs every case and compares the page with what the cases say.
"""

import json
import re
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import yaml
from click.testing import CliRunner

from dssl.base.errors import DsslError
from dssl.cli.main import main

PAGE = Path(__file__).parents[2] / "docs" / "outcomes.md"
LONGEST = 230  # characters of a message in the table
HEAD = """# Questions

## The 25 most likely mistakes

| what happens | what to do |
|---|---|
| Unlabeled rows have a class of their own, such as "unknown" or 0. | Leave the cells empty, or name the marker: `data.unlabeled: unknown` in a spec, `unlabeled="unknown"` in Python. |
| Labels are -1 and +1, and -1 counts as "no label". | Name a marker that does not occur, for example `unlabeled=0`, or use 0 and 1. |
| In a regression, -1 is fitted as a value. | Mark unknown targets with NaN, or pass `unlabeled=-1`. |
| The wrong column is predicted. | `dssl init mine.csv --target COLUMN`, or `data.read.target`. |
| Cells are missing, or a column holds text. | `data.read.when_missing: impute` fills them, `when_text: one_hot` makes a column of each text. |
| A column gives the answer away, such as the diagnosis beside the result. | Leave it out: `data.read.drop: [COLUMN]`. New rows would not have it. |
| An .npy file, or a table of embeddings alone, has no labels, so `dssl init` proposes clustering. | Save one label for each row, -1 for none, and run `dssl init embeddings.npy --read labels=labels.npy`. Of a table: a CSV file `id,label` in `labels.file`. |
| The evidence says "too few labels to tell". | Label more rows: `dssl suggest` names those that help most. Two labels of a class are the least. |
| The unlabeled points do not help. | Use the supervised baseline, or `base_estimator: boosting`. The classes may overlap in every neighborhood. |
| Some rows have no prediction. | No path of edges joins them to a label: label one of each group, or raise `graph.n_neighbors`. |
| A stage does not fit the memory budget. | `--memory-budget 4GiB` if the machine has it; `dssl plan` shows what each stage takes. |
| Another run is using the workspace. | Wait with `--wait`, or name another folder with `--workspace`. |
| As many labels of each class were picked, but the classes are not equally frequent. | Say how frequent they are: `model.class_prior: {fraud: 0.02, other: 0.98}`, or how many: `class_sizes`. |
| Labels were picked as they came, and a rare class is never predicted. | `model.class_weight: balanced` counts classes alike; a class without any label cannot be predicted at all. |
| A column of codes, such as postal codes, is read as a quantity. | `data.read.categories: [zip]` makes a column of each code. |
| One column in large units decides all distances. | Leave `scale` at `auto`; `none` takes the units of the file. |
| An error was measured on rows whose labels the fit saw. | `data.test: {fraction: 0.2}` in a pipeline, or `evidence_` in Python, which holds labels out. |
| The error of a few dozen labels is taken for exact. | Read its interval: 3 errors of 40 are anything from 3 to 20 %. |
| A DataFrame with other columns is predicted. | Give the columns of the fit: they are matched by name, and a missing one is an error. |
| New rows come from another instrument, year or place. | The report says how many are out of the range of the training rows; label some of the new ones. |
| An embedding is of another model than that of the fit. | Embed both with one model: equal lengths are not equal spaces. |
| `predict` is asked for the rows of the fit. | `transduction_` has their labels already, and from the graph itself. |
| Workers do not see the file or the workspace. | Name a shared folder or `s3://...`; `dssl doctor --on CLUSTER --source FILE` tells which worker fails. |
| Workers have other versions of packages. | `dssl doctor --on CLUSTER` lists them; results are promised for equal versions only. |
| A run is started again after a crash, from scratch. | The same command goes on where it stopped, as long as workspace, file and spec are the same; `--fresh` is what begins anew. |

## Inputs and outcomes

What dssl does with an input: the message or the behavior, and the exit code of the command. `python -m
tests.outcomes` writes this page from the cases that the tests run. The commands ran in-process on small files; …
stands for a folder, and the end of a long message is cut.

"""  # noqa: E501 (rows of a table are one line each)


@dataclass(frozen=True)
class Outcome:
    """What came of a case: the exit code of a command (None for Python), and what was said."""

    code: int | None
    text: str


@dataclass(frozen=True)
class Case:
    """An input, in words; the function that makes and runs it in a folder; what is expected of the outcome."""

    group: str
    given: str
    run: Callable[[Path], Outcome]
    code: int | None
    words: str  # a part of the outcome's text


CASES: list[Case] = []


def case(group: str, given: str, code: int | None, words: str) -> Callable:
    """Register a function of a folder as a case; it returns an Outcome."""
    def register(run: Callable[[Path], Outcome]) -> Callable[[Path], Outcome]:
        CASES.append(Case(group, given, run, code, words))
        return run
    return register


def command(folder: Path, *arguments: str, ok: Callable[[dict], str] | None = None) -> Outcome:
    """Run `dssl ARGUMENTS`; the text is the error, or what `ok` says of the JSON on standard output."""
    result = CliRunner(env={"DSSL_CACHE": str(folder / "cache"), "DSSL_DATA": None}).invoke(main, list(arguments))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    if result.exit_code == 0:
        return Outcome(0, ok(json.loads(result.stdout)) if ok else clean(result.stdout, folder))
    assert "Traceback" not in result.stderr, result.stderr
    errors = result.stderr[result.stderr.index("rror:"):].partition(":")[2]
    return Outcome(result.exit_code, clean(errors, folder))


def pipeline(folder: Path, source: object, *options: str, ok: Callable[[dict], str] | None = None,
             **sections: object) -> Outcome:
    """Run the pipeline of a source with small settings, and `sections` of the spec on top."""
    spec: dict = {"name": "case", "data": {"source": str(source) if isinstance(source, Path) else source,
                                           "test": {"fraction": 0.25}},
                  "labels": {"per_class": 4}, "graph": {"n_neighbors": 5},
                  "model": {"kind": "svm", "n_landmarks": 40}}
    for section, values in sections.items():
        spec[section] = {**spec.get(section, {}), **values} if isinstance(values, dict) else values  # type: ignore
        if section == "labels":
            spec[section] = values
    path = folder / "case.yaml"
    path.write_text(yaml.safe_dump(spec))
    return command(folder, "run", str(path), "--workspace", str(folder / "work"), "--on", "in-process", "--json",
                   *options, ok=ok or ran)


def ran(result: dict) -> str:
    """Return a sentence on a run."""
    return f"runs; {result['metrics']['n_test']} test points"


def ingested(facts: dict) -> str:
    """Return a sentence on an ingest."""
    return f"read; {facts['n']} points, {facts['d']} features"


def fitted(folder: Path, action: Callable[[], str]) -> Outcome:
    """Return what a Python action says, or its error or warning."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            text = action()
        except DsslError as error:
            return Outcome(None, clean(f"{type(error).__name__}: {error}", folder))
        except (ValueError, TypeError, AttributeError) as error:  # scikit-learn's: its advice changes with versions
            return Outcome(None, clean(f"{type(error).__name__}: {str(error).partition('. ')[0]}", folder))
    warned = [f"{warning.category.__name__}: {warning.message}" for warning in caught]
    return Outcome(None, clean("; ".join([text, *warned[:1]]), folder))


def clean(text: str, folder: Path) -> str:
    """Return a message on one line, without the folders of this machine and the digests of these files."""
    text = text.replace(str(folder), "…")
    text = re.sub(r"(?<![\w:/])/[\w./-]*/(?=[\w.-]+)", "…/", text)
    text = re.sub(r"\b(?=[0-9]*[a-f])[0-9a-f]{12,}\b", "…", text)
    text = re.sub(r"\d{13,}", "…", text)  # digits that rounding may change
    text = re.sub(r" Stored: b'.*'\. Computed: b'.*'\.", "", text)
    text = re.sub(r"[….]*(…[\w./…-]*/)+", "…/", text)
    return " ".join(text.split()).replace(" why: ", "; why: ").replace(" fix: ", "; fix: ")


def rows() -> list[tuple[Case, Outcome]]:
    """Run all cases, each in a folder of its own."""
    found = []
    for item in CASES:
        with tempfile.TemporaryDirectory() as folder:
            found.append((item, item.run(Path(folder))))
    return found


def page(found: list[tuple[Case, Outcome]]) -> str:
    """Return the page of outcomes, a table a group."""
    lines = [HEAD.rstrip()]
    group = None
    for item, outcome in found:
        if item.group != group:
            group = item.group
            lines += ["", f"## {group}", "", "| input | outcome | exit code |", "|---|---|---|"]
        text = outcome.text if len(outcome.text) <= LONGEST else outcome.text[:LONGEST].rsplit(" ", 1)[0] + " …"
        text = text.replace("|", "\\|").replace("<", "&lt;")
        code = "Python" if outcome.code is None else str(outcome.code)
        lines.append(f"| {item.given} | {text} | {code} |")
    return "\n".join(lines) + "\n"

