"""What a plan follows from: the files that a spec names, their numbers and those of the spec, this machine's speed.

A number that a stage has yet to find is bounded: from above for what a plan shows, from below for what it refuses. One
that nothing bounds from above is guessed.

Seconds of stages are the estimates of their costs, times what earlier runs took beside these. A stage that no run has
made takes its estimate times the slowness of this machine, relative to the one on which the rates of `cost` were
measured. Only estimates of seconds follow from it: what is chosen, and what is stored, follows from the costs alone,
which are equal everywhere.
"""

import math
import socket
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from ...base.digest import digest, is_whole
from ...base.errors import DataError, IntegrityError, SpecError, explain, require
from ...data.label_files import count_label_files, label_texts
from ...data.readers.base import Scan
from ...data.readers.formats import format_of
from ...data.source_files import FileRecord, Source, digested, fingerprint
from ...data.source_reader import makes_sparse
from ...data.sources import cache_folder, find_source
from ...execution.threads import one_thread
from ...methods.data_sections import TestSplit
from ...methods.plan_inputs import DISTINCT, Bounded, Growing, PlanInputs
from ...methods.sections import GraphSection, GraphSections
from ...methods.step import File
from ...storage.artifacts import Workspace
from ...storage.csr import csr_row_bytes
from ...storage.files import read_json, write_json
from ...storage.frames import pack, unpack
from ..graphs import given_file
from ..soft_labels import OPINION
from ..spec import Spec

NOWHERE = Path()  # of a source of which there is only the shape
# Where neither the spec nor the file names them.
GUESSED_CLASSES = Bounded(2, 20, "number of classes (up to 20 assumed)")
GUESSED_TAGS = 20  # where the spec does not list their columns
NAMES = {"train": "training points", "test": "test points"}
Attributes = Mapping[str, Mapping[str, Any]]


def find_files(spec: Spec, known: Sequence[FileRecord] = ()) -> dict[str, File]:
    """Return the files from outside that a spec names, with the digest of their bytes and format.

    known : files of the source that were read before, which are not read again where their store says that they have
    not changed.

    Raises DataError: there is no such file. SpecError: predictions go into a copy of the source, which is several
    files.
    """
    params, given = spec.data.read, spec.given_graph
    source = find_source(spec.data.source, labels=params.labels, format=params.format, known=known)
    require(spec.predictions.format != "h5ad" or not source.more, error=SpecError,
            what=f"predictions.format is h5ad, and data.source={spec.data.source!r} matches {len(source.files)} files",
            why="the labels are written into a copy of one file", fix="set predictions.format to csv or parquet")
    files = {"source": source_file(digested(source), spec)}
    if spec.labels is not None and (labels := spec.labels.source) is not None:
        files["labels"] = File(labels, fingerprint(labels))
    opinion = spec.model.opinion
    if opinion is not None and opinion.file is not None:
        soft = find_source(opinion.file)
        files[OPINION] = File(soft, fingerprint(soft))
    if given is not None:
        file = given_file(given.kind, given.path)
        files[given.kind] = File(file, fingerprint(file))
    return files


def source_file(source: Source, spec: Spec) -> File:
    """Return a source whose files know their digests, with the digest of all their bytes and their format."""
    return File(source, digest({"bytes": fingerprint(source),
                                "format": format_of(source.path, spec.data.read.format)}))


def shaped_source(spec: Spec, points: int | None, columns: int | None) -> tuple[Spec, dict[str, File], Scan]:
    """Return the spec, files and scan of a dense source of so many points and columns, which need not exist.

    All of its rows are used, test rows that the source says are a fifth of them, and labels from a file are left out.

    Raises SpecError: one of the two is missing, or is no number of points or columns.
    """
    if not is_whole(points) or not is_whole(columns) or points < 2 or columns < 1:
        raise SpecError(explain(f"points={points!r}, columns={columns!r}", why="what a run takes follows from both, of "
                                "two points or more", fix="give both, such as --points 1e8 --columns 64"))
    labels, test = spec.labels, spec.data.test
    data = replace(spec.data, keep=None, rows="all", test=TestSplit(fraction=test.fraction or 0.2)
                   if test.by_row else test)
    dtype = np.dtype(data.read.dtype)
    scan = Scan(n_rows=points, n_columns=columns, dtype=dtype.name, target=None if data.task == "clustering" else "y",
                row_bytes=columns * dtype.itemsize, label_names=tuple(map(str, spec.data.keep or ())) or None)
    spec = replace(spec, data=data)
    if labels is not None and labels.file is not None:
        spec = replace(spec, labels=replace(labels, file=None))
    shape = f"{points:,} points, {columns:,} columns"
    return spec, {"source": File(Source(shape, NOWHERE), digest({"points": points, "columns": columns}))}, scan


def plan_inputs(spec: Spec, budget: int, scan: Scan | None, attributes: Attributes,
                growing: Growing | None = None) -> PlanInputs:
    """Return what the costs of the stages of a spec follow from.

    scan : of the source; None where the data set is stored. attributes : of finished stages by name.
    growing : where rows are added, what is known of the others.
    """
    n_rows = int(attributes["dataset"]["n"]) if scan is None else scan.n_rows
    columns, entries = _columns(spec, scan, attributes), _sparse_entries(spec, scan, attributes)
    classes = _classes(spec, scan, attributes)
    training = _training_points(spec, n_rows, attributes, growing)
    test = _test_points(spec, n_rows, attributes, growing)
    vertices = nnz = width = Bounded.known(0)
    if entries is not None:
        dtype = np.dtype(spec.read.dtype)
        assumed = -(-csr_row_bytes(entries, n_rows, dtype) // dtype.itemsize)
        width = Bounded(assumed, assumed, "work on sparse rows")
    if isinstance(spec, GraphSections):
        vertices = _vertices(spec.graph, training, attributes)
        nnz = _entries(spec.graph, vertices, attributes)
    return PlanInputs(budget, spec.read, n_rows, columns, entries, width, training, test, classes,
                      _labeled_points(spec, training, classes, attributes), vertices, nnz,
                      spec.data.task == "regression", scan, attributes, growing,
                      None if spec.model.opinion is None else spec.model.opinion.params.kind,
                      _tags(spec, attributes), spec.data.tags is not None and spec.data.tags.columns is None)


def known_after(inputs: PlanInputs, spec: Spec, stage: str, attributes: Mapping[str, Any]) -> PlanInputs:
    """Return the inputs once another stage is finished."""
    return plan_inputs(spec, inputs.budget, inputs.scan, {**inputs.attributes, stage: attributes}, inputs.growing)


def _columns(spec: Spec, scan: Scan | None, attributes: Attributes) -> Bounded:
    if "dataset" in attributes or scan is None:
        return Bounded.known(attributes["dataset"]["d"])
    read, what = spec.read, []
    candidates = {*scan.keys, *(scan.text if read.has_text else ())}
    keys = 0 if read.keep_ids is True else min(len(candidates), scan.n_columns - 1)
    if read.has_text:
        what.append("made of text")
    if keys:
        what.append("left out as identifiers")
    return Bounded(scan.n_columns - keys, scan.n_columns, f"columns {' or '.join(what)}" if what else "")


def _sparse_entries(spec: Spec, scan: Scan | None, attributes: Attributes) -> int | None:
    if "dataset" in attributes or scan is None:
        described = attributes["dataset"]["X"]
        return None if described is None else int(described["nnz"])
    if not makes_sparse(spec.read, scan):
        return None
    return scan.n_rows * scan.n_columns if scan.nnz is None else scan.nnz


def _classes(spec: Spec, scan: Scan | None, attributes: Attributes) -> Bounded:
    opinion = spec.model.opinion
    if spec.data.tags is not None:
        return Bounded.known(2)
    if known := attributes.get("labels", {}).get("classes"):
        return Bounded.known(len(known))
    if opinion is not None and spec.task == "classification":
        count = opinion.params.count
        return GUESSED_CLASSES if count is None else Bounded.known(count)
    known = attributes.get("split", {}).get("classes")
    in_files = not known and ("split" in attributes or (scan is not None and scan.target is None))
    if in_files and spec.labels is not None and spec.labels.file is not None and spec.task == "classification":
        # Spellings of a class may differ.
        return Bounded.between(2, max(2, len(label_texts(spec.labels.paths))), "number of classes")
    if "split" in attributes:
        return Bounded.known(len(known or ()))
    named = spec.data.classes or spec.data.keep or (scan.label_names if scan else None)
    return Bounded.known(len(named)) if named else GUESSED_CLASSES


def _tags(spec: Spec, attributes: Attributes) -> Bounded:
    if spec.data.tags is None:
        return Bounded.known(1)
    if "labels" in attributes:
        return Bounded.known(len(attributes["labels"]["of_tags"]))
    known = attributes["split"]["tags"] if "split" in attributes else spec.data.tags.columns
    return Bounded(1, GUESSED_TAGS, "number of tags", is_guess=True) if known is None else \
        Bounded.between(1, len(known), "number of tags")


def _test_points(spec: Spec, n_rows: int, attributes: Attributes, growing: Growing | None) -> Bounded:
    test = spec.data.test
    if test.none:
        return Bounded.known(0)
    if (known := _points_of_split("test", n_rows, attributes, growing, grows=test.count is None)) is not None:
        return known
    by_row = 2 * (test.fraction or 1) if test.by_row else test.fraction or 1  # the last group that tests may be large
    upper = test.count or math.ceil(by_row * n_rows)
    return Bounded.between(min(test.count or 1, n_rows), min(upper, n_rows), NAMES["test"])


def _training_points(spec: Spec, n_rows: int, attributes: Attributes, growing: Growing | None) -> Bounded:
    data = spec.data
    if (known := _points_of_split("train", n_rows, attributes, growing)) is not None:
        return known
    if data.points is not None:
        return Bounded.known(data.points)
    upper = n_rows - (0 if data.test.none else data.test.count or 1)
    # Rows of other classes, and unlabeled ones among the rows that the source tests, may be left out; joined classes
    # leave no row out.
    whole = data.keep is None and data.rows == "all" and not data.test.by_row
    tests = data.test.count or math.ceil((data.test.fraction or 0) * n_rows)
    return Bounded.between(max(n_rows - tests if whole else 2, 2), max(upper, 2), NAMES["train"])


def _points_of_split(name: str, n_rows: int, attributes: Attributes, growing: Growing | None, *,
                     grows: bool = True) -> Bounded | None:
    """Return the "train" or "test" points where there is a split, or rows are added to that of the last run."""
    if "split" in attributes:
        return Bounded.known(attributes["split"][f"n_{name}"])
    if growing is None:
        return None
    known, added = int(growing.attributes["split"][f"n_{name}"]), n_rows - int(growing.attributes["dataset"]["n"])
    return Bounded.between(known, known + added * grows, NAMES[name])


def _labeled_points(spec: Spec, training: Bounded, classes: Bounded, attributes: Attributes) -> Bounded:
    labels = spec.labels
    if labels is None:
        return Bounded.known(0)
    if "labels" in attributes:
        return Bounded.known(attributes["labels"]["n_labeled"])
    if labels.count:
        lower = upper = labels.count
    elif labels.per_class:
        lower, upper = (min(labels.per_class * classes.at(bound), training.at(bound)) for bound in ("lower", "upper"))
    else:
        lower, upper = 0 if spec.model.opinion is not None else 2, math.ceil((labels.fraction or 1.0) * training.upper)
    if labels.file is not None:  # of points that may have one of those labels
        in_files = count_label_files(labels.paths)
        upper = min(upper + in_files, training.upper)
    if labels.weight is not None:  # labels of weight 0 are not shown
        lower = min(2, lower)
    return Bounded.between(lower, upper, "labeled points")


def _vertices(graph: GraphSection, training: Bounded, attributes: Attributes) -> Bounded:
    """Return the distinct points.

    Until they are counted all points count as distinct, from below too: hardly any source has so many duplicates that
    it would matter, and what would not fit otherwise is to be known before hours are spent on it.
    """
    if "vertices" in attributes:
        return Bounded.known(attributes["vertices"]["vertices"])
    assumed = graph.duplicates == "collapse" and graph.given is None
    return Bounded(training.lower, training.upper, DISTINCT) if assumed else training


def _entries(graph: GraphSection, vertices: Bounded, attributes: Attributes) -> Bounded:
    """Return the entries of W: at most both directions of every list entry; given ones may be fewer."""
    if "graph" in attributes:
        return Bounded.known(attributes["graph"]["nnz"])
    both = graph.symmetrize != "minimum"
    lower = 0 if graph.given is not None or not both else vertices.lower * graph.n_neighbors
    return Bounded(lower, (1 + both) * vertices.upper * graph.n_neighbors, "entries of W")


def require_rows(spec: Spec, n_rows: int) -> None:
    """Raise DataError where the spec asks for more points than the source has rows."""
    points, test = spec.data.points, spec.data.test.count
    labeled = spec.labels.count if spec.labels else None
    asked = {"data.points": points, "data.test.count": test, "labels.count": labeled}
    n = points or labeled or 1
    tests = 0 if spec.data.test.none else test or 1
    require(n + tests <= n_rows and (labeled or 1) <= n, error=DataError,
            what=f"{', '.join(f'{key}={value}' for key, value in asked.items() if value)}, and the source has "
                 f"{n_rows:,} rows", why="each is a training or a test point once, and labeled once",
            fix=f"ask for {n_rows:,} training and test points or fewer, and label no more than the first")


# ---- the speed of this machine


SPEED_FILE = "speed.json"
PROBE_SECONDS = 0.1  # running time of each probe
VALID_SECONDS = 30 * 86400  # a stored measurement is used for so long
PROBE_SIZE = 256
# Seconds of the probes on one idle core of the reference machine of `execution.cost`.
REFERENCE = {"product": 7.5e-4, "kernel": 6.8e-5, "storage": 5.8e-4}
LEARNED_RUNS = 20  # the newest that are learned from
PRIOR_SECONDS = 2.0  # for which the machine's speed counts as much as what a stage took


def _probes() -> dict[str, Callable[[], object]]:
    """Return the operations that dominate stages: a matrix product, kernel values, and storing and reading a block."""
    X = np.random.default_rng(0).normal(size=(PROBE_SIZE, PROBE_SIZE))
    block = X.astype(np.float32)
    out = np.empty_like(X)

    def kernel() -> None:
        np.multiply(X, X, out=out)
        np.negative(out, out=out)
        np.exp(out, out=out)

    # The outputs are allocated beforehand: fresh memory from the system can take eight times as long as the work.
    return {"product": lambda: np.matmul(X, X, out=out), "kernel": kernel,
            "storage": lambda: unpack(*pack(block), block.nbytes)}


def measure_slowness(seconds: float = PROBE_SECONDS) -> float:
    """Return the time of this machine relative to the reference machine: the geometric mean over the probes.

    Each probe repeats for `seconds`; only its fastest run counts, which other processes have disturbed least.
    """
    ratios = []
    with one_thread():
        for name, probe in _probes().items():
            fastest = np.inf
            end = time.perf_counter() + seconds
            while time.perf_counter() < end:
                begin = time.perf_counter()
                probe()
                fastest = min(fastest, time.perf_counter() - begin)
            ratios.append(fastest / REFERENCE[name])
    return float(np.exp(np.mean(np.log(ratios))))


@lru_cache(maxsize=8)
def slowness(folder: Path) -> float:
    """Return `measure_slowness`, measured once per host and stored in a folder if it is writable."""
    path = folder / SPEED_FILE
    host = socket.gethostname()
    with suppress(OSError, IntegrityError, KeyError, TypeError):
        known = read_json(path)
        is_current = known["host"] == host and known["reference"] == REFERENCE
        if is_current and 0 <= time.time() - known["measured"] < VALID_SECONDS:
            return float(known["slowness"])
    factor = measure_slowness()
    with suppress(OSError):
        record = {"host": host, "measured": time.time(), "reference": REFERENCE, "slowness": factor}
        write_json(path, record, durable=False)
    return factor


@dataclass(frozen=True)
class Rates:
    """How many times its estimate a stage takes: as a rule, and by the name of those that earlier runs have made."""

    rule: float = 1.0
    stages: dict[str, float] = field(default_factory=dict)

    def of(self, stage: str) -> float:
        return self.stages.get(stage, self.rule)


def rates_of(workspace: Workspace) -> Rates:
    """Return the rates of this machine, and of the stages that the newest runs of a workspace made."""
    rule = slowness(cache_folder())
    took, estimated = defaultdict[str, float](float), defaultdict[str, float](float)
    for path in sorted(workspace.root.glob("runs/*/result.json"))[-LEARNED_RUNS:]:
        for name, seconds, estimate in _measured(path):
            took[name] += seconds
            estimated[name] += estimate
    return Rates(rule, {name: (took[name] + rule * PRIOR_SECONDS) / (estimated[name] + PRIOR_SECONDS) for name in took})


def _measured(path: Path) -> list[tuple[str, float, float]]:
    """Return name, seconds and estimated seconds of the stages that a run has made; nothing of a damaged record."""
    with suppress(OSError, IntegrityError, KeyError, TypeError):
        return [(stage["name"], stage["seconds"], stage["estimated_seconds"]) for stage in read_json(path)["stages"]
                if stage.get("estimated_seconds")]
    return []
