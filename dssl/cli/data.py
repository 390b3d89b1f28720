"""`dssl ingest` and `predict`, which read a source."""

import json
import uuid
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..base.digest import JsonObject
from ..base.errors import DataError, ParameterError, SpecError, explain, require
from .options import (
    PathType,
    console,
    json_option,
    memory_option,
    on_or_threads_option,
    overwrite_option,
    quiet_option,
    read_option,
    safe_csv_option,
    working,
    workspace_option,
)

if TYPE_CHECKING:
    from ..data.dataset import Dataset
    from ..data.source_files import Source


@click.command("ingest")
@click.argument("source", nargs=-1, required=True)
@click.argument("folder", type=PathType())
@read_option
@click.option("--append", "appends", is_flag=True, help="Add the rows of SOURCE to the data set in FOLDER. Files whose "
                                                     "bytes were read before are skipped.")
@click.option("--again", is_flag=True, help="With --append: also add files that were read before, so that FOLDER holds "
                                            "their rows twice.")
@on_or_threads_option
@memory_option
@quiet_option
@json_option
def ingest_command(source: tuple[str, ...], folder: Path, options: JsonObject, appends: bool, again: bool,
                   runtime: str, memory_budget: int | None, quiet: bool, as_json: bool) -> None:
    """Read SOURCE (names, paths, URLs, or patterns such as 'part-*.csv') into FOLDER as checksummed Zarr.

    Several files are read as one data set, in the given order. Files that match a pattern are read in natural order:
    part-2 before part-10.

    With --on, workers read and write blocks of rows, so they must be able to open SOURCE and FOLDER. This process first
    counts the lines of text files and unpacks compressed files.
    """
    from ..data.append import append
    from ..data.dataset import open_stored
    from ..data.ingest import ingest
    from ..data.ingest_leftovers import one_writer
    from ..data.source_files import matching_paths
    from ..pipeline.validation import ingest_params
    from ..storage.store import MANIFEST, StoredParts

    require(appends or not again, "--again without --append", error=SpecError,
            why="it adds files to a data set that has their rows", fix="give --append too")
    if appends:
        before = len(open_stored(folder)) if (folder / MANIFEST).is_file() else None
        with working("ingest", runtime, memory_budget, quiet) as execution:
            added = append(source, folder.resolve(), execution, again=again, **options)
        if len(added) == before:
            console.print(f"nothing new: {folder} has all rows of the source; --again adds them once more",
                          highlight=False, soft_wrap=True)
        _print_dataset(added, folder, as_json)
        return
    params = ingest_params(options, "--read")
    _require_vacant(folder)
    for text in source:
        matching_paths(text)  # raises if nothing matches, before a folder is created
    with one_writer(folder) as lock, working("ingest", runtime, memory_budget, quiet) as execution:
        _require_vacant(folder)  # again, since another process may have written it meanwhile
        dataset = ingest(source, StoredParts(folder.resolve()), execution, params)
        lock.check()
        saved = dataset.save(folder.resolve())
    _print_dataset(saved, folder, as_json)


def _require_vacant(folder: Path) -> None:
    from ..data.ingest_leftovers import is_vacant

    require(is_vacant(folder), f"{folder} is not empty", error=DataError, why="a data set is written once",
            fix="name another folder, or add the rows to it with --append")


def _print_dataset(dataset: "Dataset", folder: Path, as_json: bool) -> None:
    from ..data.findings import dataset_notes

    summary = {"folder": str(folder), "n": len(dataset), "d": dataset.X.shape[1], "labeled": dataset.y is not None,
               "attributes": dataset.attributes}
    for text in dataset_notes(dataset.attributes):
        click.echo(text, err=True)
    if dataset.attributes.get("imputed"):
        click.echo(f"{dataset.attributes['imputed']} missing cells were filled", err=True)
    click.echo(json.dumps(summary, indent=1) if as_json else
               f"{len(dataset)} points x {dataset.X.shape[1]} features in {folder}")


@click.command("neighbors")
@click.argument("source", nargs=-1, required=True)
@click.argument("out", type=PathType())
@click.option("--n-neighbors", default=10, show_default=True, type=click.IntRange(min=1),
              help="Neighbors of each row, itself not counted.")
@click.option("--metric", default="euclidean", show_default=True, help="The distance; see graph.metric of a spec.")
@click.option("--method", default="auto", show_default=True,
              type=click.Choice(["auto", "exact", "descent", "partitioned"]), help="How neighbors are found.")
@click.option("--metric-params", default="{}", metavar="JSON",
              help="The parameters of the metric, such as '{\"p\": 3}'.")
@click.option("--recall", default=0.95, show_default=True, type=click.FloatRange(0, 1, min_open=True, max_open=True),
              help="The share of true neighbors that an approximate search has to find, certified on a sample.")
@read_option
@on_or_threads_option
@memory_option
@quiet_option
@json_option
def neighbors_command(source: tuple[str, ...], out: Path, n_neighbors: int, metric: str, method: str,
                      metric_params: str, recall: float, options: JsonObject, runtime: str,
                      memory_budget: int | None, quiet: bool, as_json: bool) -> None:
    """Find the nearest neighbors of all rows of SOURCE, and write them to OUT, a folder of Zarr arrays.

    OUT has the arrays `indices` and `distances`, a row for each row of the source, ascending by distance. An .h5ad file
    OUT is a copy of SOURCE, or SOURCE itself, with `distances` and the weights `connectivities` in `obsp`, which scanpy
    finds there. The features are not scaled. With --on, workers search, in tasks that fit the memory budget.
    """
    from ..base.yaml import parse_yaml
    from ..data.anndata import write_graphs
    from ..data.dataset import open_stored
    from ..data.ingest import ingest
    from ..data.readers.formats import format_of, is_table
    from ..graph.graph import Graph
    from ..knn.search import neighbors
    from ..pipeline.validation import ingest_params
    from ..storage.hdf5 import Original
    from ..storage.store import MANIFEST

    require(out.suffix in ("", ".zarr", ".h5ad"), f"{out} ends in {out.suffix}", error=SpecError,
            why="neighbor lists are a folder of Zarr arrays, or are written into a copy of an .h5ad file",
            fix="name a folder without an ending or with .zarr, or an .h5ad file")
    cells = _cells_of(out, source, overwrite=False) if out.suffix == ".h5ad" else None
    require(cells is not None or not out.exists(), f"{out} exists", error=SpecError, why="nothing is overwritten",
            fix="name another folder or file")
    first = Path(source[0])
    is_stored = any((Path(text) / MANIFEST).is_file() for text in source)
    require(not is_stored or (len(source) == 1 and not options), error=SpecError,
            what=f"{', '.join(source)} with {len(options)} options of --read",
            why="a stored data set is searched as it is, by itself", fix="name one stored data set, or the files")
    parameters = parse_yaml(metric_params, "--metric-params") or None
    of_table = {"target": "none"} if not is_stored and is_table(format_of(first, options.get("format"))) else {}
    params = ingest_params({**of_table, **options}, "--read")
    original = Original.of(cells.path) if cells else None
    with working("neighbors", runtime, memory_budget, quiet) as execution:
        dataset = open_stored(first) if is_stored else ingest(cells or source, execution.scratch(), execution, params)
        lists = neighbors(dataset.X, n_neighbors, metric=metric, metric_params=parameters, method=method,
                          recall=recall, execution=execution)
        if original is None:
            lists.to_zarr(out)
        else:
            matrix = (params.matrix or "X").removeprefix("obsm/")
            write_graphs(original, out, {"distances": lists.to_scipy(), "connectivities": Graph.of(lists).weights()},
                         {"n_neighbors": lists.k, "metric": metric, "method": "dssl", "use_rep": matrix})
    summary = {"folder": str(out), "points": len(lists), "n_neighbors": lists.k, "method": lists.attributes["method"],
               "recall": lists.attributes["recall"]["recall"]}
    click.echo(json.dumps(summary) if as_json else
               f"{lists.k} neighbors of {len(lists):,} points in {out}, recall {summary['recall']:.3f}")


def model_at(model: Path, workspace: str) -> Path:
    """Return where a model is: at its path; or, of a name at which there is nothing, in the run of this name."""
    from ..pipeline.submission import find_run
    from ..storage.artifacts import Workspace

    if len(model.parts) != 1 or model.exists():
        return model
    opened = Workspace.at(workspace)
    named = any(run.name.startswith(model.name) for run in opened.runs)
    return find_run(opened, model.name) / "result.json" if named else model


@click.command("export")
@click.argument("model", type=PathType())
@click.argument("out", type=PathType())
@click.option("--of", "name", default="model", show_default=True, help="The model of the run: model, base, ...")
@overwrite_option
@workspace_option
def export_command(model: Path, out: Path, name: str, overwrite: bool, workspace: str) -> None:
    """Write the MODEL of a run to OUT, one file (.dssl.zip) that Python and NumPy can predict with, without dssl.

    If OUT ends in .onnx, a kernel model becomes an ONNX graph, for any runtime of ONNX; this needs the package onnx.

    MODEL is the folder of the model, or a run: its name in the workspace, or its result.json. In Python:
    `sys.path.insert(0, OUT)`, `import dssl_model`, `dssl_model.load(OUT).predict(X)`, where X has the columns of the
    training points, before scaling: an array, a table of pandas, or a list of dicts. Text and missing cells become what
    they became in training.

    An exported model at OUT is replaced; any other file is replaced only with --overwrite.
    """
    from ..pipeline.predict.model import open_model

    click.echo(open_model(model_at(model, workspace), name).export(out, overwrite=overwrite))


@click.command("predict")
@click.argument("model", type=PathType())
@click.argument("source", nargs=-1, required=True)
@click.argument("out", type=PathType())
@read_option
@click.option("--of", "name", default="model", show_default=True,
              help="The model of the run that predicts: model, base, ...")
@click.option("--reject", is_flag=True,
              help="Give no label to outliers and to points near no point of the model: an empty cell and "
                   "`rejected` in tables, -1 in arrays, NaN among values.")
@click.option("--probabilities", is_flag=True, help="Write the probability of each class: as columns of a table; in "
                                                    ".npy and .zarr as an array (n, n_classes) instead of the labels; "
                                                    "in .h5ad as the array dssl_probabilities in obsm.")
@click.option("--new-only", is_flag=True,
              help="Predict only files, or rows at the end of files, that this model has not predicted yet, and append "
                   "them to OUT (.csv or .parquet). OUT.files.json next to it records what OUT contains.")
@safe_csv_option
@overwrite_option
@workspace_option
@on_or_threads_option
@memory_option
@quiet_option
@json_option
def predict_command(model: Path, source: tuple[str, ...], out: Path, options: JsonObject, name: str, reject: bool,
                    probabilities: bool, new_only: bool, safe_csv: bool, overwrite: bool, workspace: str, runtime: str,
                    memory_budget: int | None, quiet: bool, as_json: bool) -> None:
    """Predict the points of SOURCE with the MODEL of a run, and write the predictions to OUT.

    MODEL is the folder of the model, or a run: its name in the workspace, or its result.json.

    OUT is a table (.csv, .parquet or .npz) or an array of labels (.npy or .zarr), whose row i is row i of the source;
    or an .h5ad file: a copy of SOURCE, or SOURCE itself, with dssl_label and dssl_probability in `obs`. A table has the
    identifier that was excluded from the training data, or else `row`, the number of the row in the source, counted
    from 0; the `label` or `value`; the `probability` of the label, or its `score`, the lead over the next class, if the
    model has no probabilities; and with --reject the column `rejected`.

    A table of predictions at OUT is replaced; any other file is replaced only with --overwrite, and a folder never. A
    table of identifiers and values alone counts as any other file, because it could be one of your own.

    SOURCE is a name, a path, a URL, the folder of a data set, a pattern such as 'new-*.csv', or several of these, whose
    rows follow each other. It is read and predicted in blocks, which are stored next to OUT until the end. With --on,
    workers do this, and they must be able to open MODEL, SOURCE and OUT.
    """
    from ..base.digest import plain
    from ..pipeline.predict.model import WRITTEN, open_model
    from ..pipeline.predict.new_only import CONTINUED, Pending, holds_predictions
    from ..storage.files import has_folder, path_at, require_replaceable, require_writable
    from ..storage.hdf5 import Original
    from ..storage.store import StoredParts

    require(out.suffix in WRITTEN, f"{out} ends in {out.suffix}" if out.suffix else f"{out} has no ending",
            why="predictions are written as a table or as an array",
            fix=f"name a path that ends in {', '.join(WRITTEN)}")
    require(not new_only or out.suffix in CONTINUED, f"--new-only with {out}", error=SpecError,
            why="rows are added to tables", fix=f"name a path that ends in {' or '.join(CONTINUED)}")
    require(not (new_only and overwrite), "--new-only with --overwrite", error=SpecError,
            why="rows are added to the table that is there", fix="leave one of them out")
    cells = _cells_of(out, source, overwrite=overwrite) if out.suffix == ".h5ad" else None
    require(cells is not None or not out.exists() or not any(path_at(text).exists() and out.samefile(text)
                                                             for text in source),
            f"{out} is the source itself", why="the predictions would overwrite the points",
            fix="name another file for the predictions")
    if out.suffix != ".zarr":  # that folder has to be new, which its writer checks
        known = cells is not None or new_only
        require_replaceable(out, "predictions", holds_predictions, overwrite=overwrite or known)
    else:
        require(not out.exists(), f"{out} exists", error=DataError, why="a folder is never replaced",
                fix="remove it, or name another path")
        require(has_folder(out), f"there is no folder {out.parent}", why="predictions are written into it",
                fix="create it, or name another path")
        require_writable(out, "predictions")
    original = Original.of(cells.path) if cells else None
    fitted = open_model(model_at(model, workspace), name)
    coding = fitted.model.coding
    if probabilities:
        fitted.calibration()  # raises if there is none, before a point is read
    require(not reject or fitted.has_room(out, probabilities=probabilities), error=SpecError,
            what=f"--reject with {out} and classes such as {coding.classes[:3].tolist()}",
            why="-1 means no label only in an array of other integers", fix="write a .csv or .parquet file")
    target = out.resolve()  # absolute, since workers may have another working folder
    pending = None
    if new_only:
        made_by = {"model": fitted.address, "of": name, "reject": reject, "probabilities": probabilities,
                   "safe_csv": safe_csv, "read": plain(options)}
        pending = Pending.of(target, made_by, source, options.get("format"))
        for text in pending.notes():
            console.print(text, highlight=False, soft_wrap=True)
        if not pending.files:
            _print_nothing_new(out, pending.before.n_rows, as_json)
            return
    token = uuid.uuid4().hex
    points, scratch = (StoredParts(target.with_name(f".{out.name}.{token}.{part}")) for part in ("points", "scratch"))
    try:
        scratch.folder.mkdir(exist_ok=True)
        with working("predict", runtime, memory_budget, quiet) as execution:
            execution.scratch_folder = str(scratch.folder)
            dataset = fitted.dataset_of(pending.source if pending else cells or source, execution, points, **options)
            imputed, unseen = _print_filled(dataset.attributes)
            if pending is not None:
                dataset = pending.unpredicted(dataset)
                if not len(dataset):
                    _print_nothing_new(out, pending.before.n_rows, as_json)
                    return
            compared, names = fitted.compared(dataset.X, execution), fitted.dataset.get("feature_names")
            for text in [*compared.notes(names), *(compared.drift.in_words(names) if compared.drift else ())]:
                console.print(f"warning: {text}", highlight=False, soft_wrap=True)
            with pending.continued() if pending is not None else nullcontext() as continued:
                written = fitted.write(dataset.X, target, execution, reject=reject, probabilities=probabilities,
                                       outliers=compared.is_outlier, names=fitted.names_of(dataset), safe_csv=safe_csv,
                                       continued=continued, cells=original)
    finally:
        points.remove()
        scratch.remove()
    summary = {"out": str(out), **written, "imputed": imputed, "unseen": unseen, "outliers": compared.n_outliers,
               "out_of_range": compared.described(names),
               "drift": compared.drift and compared.drift.to_dict(names)}
    if pending is not None:
        summary["n_before"] = pending.before.n_rows
    if compared.n_outliers:
        without_label = "they have no label" if reject else "--reject gives them no label"
        console.print(f"warning: {compared.n_outliers} of {summary['n']} points are outliers: a column is out of the "
                      f"range of the training points by more than the width of that range; {without_label}",
                      highlight=False, soft_wrap=True)
    if summary["unsupported"]:
        why = "have no neighbor that a label or a cluster reaches, so they get none"
        if not fitted.model.rejects:
            without_label = "they have no label" if reject else "--reject gives them no label"
            why = f"are near no point of the model, so the intercept alone would determine their label; {without_label}"
        console.print(f"warning: {summary['unsupported']} of {summary['n']} points {why}")
    figures = summary["counts"] if "counts" in summary else summary["values"]
    text = ", ".join(f"{key} {value:.6g}" if isinstance(value, float) else f"{key} {value}"
                     for key, value in figures.items())
    text += f"; without a label {summary['rejected']}" if summary["rejected"] else ""
    new = "new " if new_only else ""
    click.echo(json.dumps(summary) if as_json else f"{summary['n']} {new}predictions in {out}: {text}")


def _cells_of(out: Path, source: tuple[str, ...], *, overwrite: bool) -> "Source":
    """Return the file of which an .h5ad file is a copy, downloaded if need be.

    Raises ParameterError: the source is no such file. SpecError: `out` is another file, which is not to be replaced.
    """
    from ..data.sources import find_source
    from ..storage.files import path_at
    from ..storage.objects import ObjectPath

    files = find_source(source[0]) if len(source) == 1 and source[0].endswith(".h5ad") else None
    if files is None or files.more:
        raise ParameterError(explain(
            f"{out} for {', '.join(source)}", why="an .h5ad file is a copy of the source with what is computed of its "
            "cells", fix="name a single .h5ad file as the source, or an output with another ending"))
    cells = path_at(files.name) if isinstance(out, ObjectPath) else files.path
    require(overwrite or not out.exists() or out.samefile(cells), f"{out} exists", error=SpecError,
            why="it is another file than the source, and its content would be lost",
            fix="name another file, or the source itself")
    return files


def _print_nothing_new(out: Path, n: int, as_json: bool) -> None:
    message = f"nothing new: {out} already has the predictions of all {n} rows"
    click.echo(json.dumps({"out": str(out), "n": 0, "n_before": n}) if as_json else message)


def _print_filled(attributes: JsonObject) -> tuple[int, JsonObject]:
    """Print and return the number of missing cells that were filled, and the texts that match no level."""
    from ..data.columns import unseen_note

    imputed, unseen = attributes.get("imputed", 0), attributes.get("unseen", {})
    for column, filled in unseen.items():
        click.echo(unseen_note(column, filled["rows"], filled["texts"]), err=True)
    if imputed:
        click.echo(f"{imputed} missing cells were filled as in the training data", err=True)
    return imputed, unseen
