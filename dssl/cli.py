"""The command line: `dssl run`, `plan`, `ingest`, `predict`, `verify`, `inspect`, `report`, `doctor`, `schema`.

One JSON document on standard output with --json, everything else on standard error. Exit codes: 0 done, 1 failed,
2 bad spec or usage, 3 integrity, 4 cluster unreachable, 5 locked by another run, 130 interrupted.
A command imports what it needs when it is called, so that `dssl --help` does not wait for everything.
"""

import json
import sys
import warnings
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from . import __version__
from .errors import DataError, DsslError, SpecError, explain, require

INTERRUPTED = 130
DEFAULT_WORKSPACE = "dssl-work"
console = Console(stderr=True, soft_wrap=True)

set_option = click.option("--set", "overrides", multiple=True, metavar="KEY.KEY=VALUE",
                          help="Set one value of the spec; may be repeated.")
workspace_option = click.option("--workspace", default=DEFAULT_WORKSPACE, show_default=True, envvar="DSSL_WORKSPACE",
                                help="Folder of artifacts and runs; every worker must be able to open it.")
on_option = click.option("--on", "runtime", default=None, metavar="WHERE",
                         help="A cluster description (YAML), a scheduler's address, or in-process. "
                              "Default: one process a core on this machine.")
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document on standard output.")
budget_option = click.option("--memory-budget", default=None, metavar="SIZE",
                             help="Memory one task may take, such as 500MB or 2GiB. Default: 1GiB.")
read_option = click.option("--read", "options", multiple=True, metavar="KEY=VALUE",
                           help="A reader's option, such as target=y, or target=none for points without labels.")
fresh_option = click.option("--fresh", is_flag=True, help="Make every artifact anew.")
from_option = click.option("--from", "from_stage", default=None, metavar="STAGE",
                           help="Make this stage anew, and all that depend on it.")
until_option = click.option("--until", default=None, metavar="STAGE", help="Stop after this stage.")


class Commands(click.Group):
    """Turns dssl's errors into one message and their exit code."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except DsslError as error:
            click.echo(f"error: {error}", err=True)
            ctx.exit(error.exit_code)
        except OSError as error:
            where = f" ({error.filename})" if error.filename else ""
            click.echo("error: " + explain(f"{error.strerror or error}{where}",
                                           why="a file could not be read or written",
                                           fix="free space or mend permissions, then run again: finished parts are "
                                               "kept"), err=True)
            ctx.exit(1)
        except KeyboardInterrupt:
            click.echo("interrupted: finished parts are kept, run again to go on", err=True)
            ctx.exit(INTERRUPTED)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="dssl")
def main() -> None:
    """Distributed semi-supervised learning: few labels, many points, one YAML file."""
    click.get_current_context().with_resource(warnings.catch_warnings())
    shown = warnings.showwarning

    def tell(message: Warning | str, category: type[Warning], filename: str, lineno: int, file: Any = None,
             line: str | None = None) -> None:
        if category is UserWarning:  # dssl's own, of which the line of code says nothing
            console.print(f"warning: {message}", markup=False)
        else:
            shown(message, category, filename, lineno, file, line)

    warnings.showwarning = tell


@main.command("run")
@click.argument("spec", type=click.Path(path_type=Path))
@set_option
@workspace_option
@on_option
@budget_option
@fresh_option
@from_option
@until_option
@json_option
@click.option("--quiet", is_flag=True, help="Tell nothing of the progress.")
def run_command(spec: Path, overrides: tuple[str, ...], workspace: str, runtime: str | None,
                memory_budget: str | None, fresh: bool, from_stage: str | None, until: str | None, as_json: bool,
                quiet: bool) -> None:
    """Run the pipeline SPEC; what an earlier run made is used again."""
    from .pipeline.plan import make_plan
    from .pipeline.run import run
    from .progress import Reporter
    from .runtime.description import parse_size
    from .runtime.start import open_runtime

    budget = None if memory_budget is None else parse_size(memory_budget)
    # A bad spec is told before a cluster is started.
    made = make_plan(spec, set=overrides, workspace=workspace, memory_budget=budget, fresh=fresh,
                     from_stage=from_stage, until=until)
    if all(stage.status == "cached" for stage in made.selected):
        runtime = "in-process"  # nothing will be computed, so nothing is started
    with open_runtime(runtime, budget) as (execution, where), Reporter(where, console, quiet=quiet) as reporter:
        result = run(made, execution=execution, events=reporter.tell)
    if as_json:
        click.echo(json.dumps(result, indent=1))
    elif result["status"] == "stopped":
        click.echo(f"{result['name']}: stopped after {result['until']}")
    else:
        _print_result(result)


@main.command("plan")
@click.argument("spec", type=click.Path(path_type=Path))
@set_option
@workspace_option
@budget_option
@fresh_option
@from_option
@until_option
@json_option
def plan_command(spec: Path, overrides: tuple[str, ...], workspace: str, memory_budget: str | None, fresh: bool,
                 from_stage: str | None, until: str | None, as_json: bool) -> None:
    """Show what a run of SPEC would do: which stages are cached, partial, or to run, why, and what they take.

    Bytes are those of arrays before compression, peak memory that of the largest task. "<" marks a figure that follows
    from something an earlier stage has yet to find, taken from above.
    """
    from .pipeline.plan import make_plan
    from .runtime.description import parse_size

    budget = None if memory_budget is None else parse_size(memory_budget)
    made = make_plan(spec, set=overrides, workspace=workspace, memory_budget=budget, fresh=fresh,
                     from_stage=from_stage, until=until)
    stages = [stage.to_dict() for stage in made.selected]
    if as_json:
        click.echo(json.dumps({"stages": stages, "memory_budget": made.budget}, indent=1))
        return
    table = Table("stage", "status", "why", box=None)
    for title in ("tasks", "read", "written", "peak memory"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("address", no_wrap=True)
    for stage in stages:
        below = "< " if stage["estimated"] else ""
        sizes = ["" if stage["status"] == "cached" else "?" if size is None else f"{below * bool(size)}{_size(size)}"
                 for size in (stage["read_bytes"], stage["written_bytes"], stage["peak_bytes"])]
        table.add_row(stage["name"], stage["status"], stage["why"], str(stage["tasks"] or ""), *sizes,
                      stage["address"][:12])
    out = Console(width=None if sys.stdout.isatty() else 140)
    out.print(table)
    estimated = sorted({name for stage in stages for name in stage["estimated"]})
    if estimated:
        out.print(f"<: taken from above until a stage has found it: {', '.join(estimated)}")


@main.command("ingest")
@click.argument("source", nargs=-1, required=True)
@click.argument("folder", type=click.Path(path_type=Path))
@read_option
@click.option("--append", "adds", is_flag=True, help="Add the rows of SOURCE to the data set in FOLDER. The same "
                                                     "source may be added again; its rows are then there twice.")
@json_option
def ingest_command(source: tuple[str, ...], folder: Path, options: tuple[str, ...], adds: bool, as_json: bool) -> None:
    """Read SOURCE (names, paths, URLs, or patterns such as 'part-*.csv') into FOLDER as checksummed Zarr.

    Several files are read as one, in the order given; those that match a pattern in natural order: part-2 before
    part-10.
    """
    from .data.append import append
    from .data.ingest import ingest
    from .execution.in_process import InProcess
    from .pipeline.spec import ingest_params
    from .storage.store import StoredParts

    chosen = _read_options(options)
    if adds:
        ingest_params(chosen, "--read")
        _print_dataset(append(source, folder, **chosen), folder, as_json)
        return
    require(not folder.exists() or not any(folder.iterdir()), f"{folder} is not empty", error=DataError,
            why="a data set is written once", fix="name another folder, or add the rows to it with --append")
    params = ingest_params(chosen, "--read")
    _print_dataset(ingest(source, StoredParts(folder), InProcess(), params).save(folder), folder, as_json)


def _print_dataset(dataset: Any, folder: Path, as_json: bool) -> None:
    facts = {"folder": str(folder), "n": len(dataset), "d": dataset.X.shape[1], "labeled": dataset.y is not None,
             "attributes": dataset.attributes}
    if dataset.attributes.get("imputed"):
        click.echo(f"{dataset.attributes['imputed']} missing cells were filled", err=True)
    click.echo(json.dumps(facts, indent=1) if as_json else f"{facts['n']} points x {facts['d']} features in {folder}")


@main.command("predict")
@click.argument("model", type=click.Path(path_type=Path))
@click.argument("source")
@click.argument("out", type=click.Path(path_type=Path))
@read_option
@click.option("--of", "name", default="model", show_default=True, help="Which of the run's models: model, base, ...")
@click.option("--abstain", is_flag=True, help="Give no label to points that are near no point of the model: an empty "
                                              "cell in csv, -1 in npy, NaN among values.")
@json_option
def predict_command(model: Path, source: str, out: Path, options: tuple[str, ...], name: str, abstain: bool,
                    as_json: bool) -> None:
    """Predict the points of SOURCE with the MODEL of a run (its "model" or result.json); write OUT (csv, npy or zarr).

    SOURCE is a name, a path, a URL, the folder of a data set, or a pattern such as 'new-*.csv'.
    """
    from .execution.in_process import InProcess
    from .pipeline.prediction import open_model
    from .pipeline.spec import ingest_params

    require(out.suffix in (".csv", ".npy", ".zarr"), f"{out} ends in {out.suffix or 'nothing'}",
            why="predictions are written as text or as an array", fix="name a .csv, .npy or .zarr path")
    require(out.parent.is_dir(), f"there is no folder {out.parent}", why="the predictions are written into it",
            fix="make it, or name another file")
    require(not out.exists() or not Path(source).exists() or not out.samefile(source), f"{out} is the source itself",
            why="the predictions would take the place of the points", fix="name another file for the predictions")
    fitted = open_model(model, name)
    classes, is_value = fitted.model.classes, fitted.model.coding == "values"
    has_room = is_value or (classes.dtype.kind in "iu" and -1 not in classes)
    require(not abstain or out.suffix == ".csv" or has_room, error=SpecError,
            what=f"--abstain with {out} and classes such as {classes[:3].tolist()}",
            why="an array has room for no label only as -1 among other integers", fix="write a .csv file")
    chosen = _read_options(options)
    ingest_params(chosen, "--read")
    dataset = fitted.dataset_of(source, InProcess(), **chosen)
    imputed, unseen = dataset.attributes.get("imputed", 0), dataset.attributes.get("unseen", {})
    for column, found in unseen.items():
        texts = ", ".join("(missing)" if text is None else repr(text) for text in found["texts"])
        click.echo(f"{found['rows']} rows have a text in column {column!r} that the training data did not have, such "
                   f"as {texts}; it counts as none of the known ones", err=True)
    if imputed:
        click.echo(f"{imputed} missing cells were filled as in the training data", err=True)
    facts = {"out": str(out), **fitted.write(dataset.X, out, InProcess(), abstain=abstain), "imputed": imputed,
             "unseen": unseen}
    if facts["unsupported"]:
        left = "they have no label" if abstain else "--abstain gives them no label"
        console.print(f"warning: {facts['unsupported']} of {facts['n']} points are near no point of the model, so the "
                      f"intercept alone would decide their label; {left}")
    summary = facts["values" if is_value else "counts"]
    told = ", ".join(f"{k} {v:.6g}" if isinstance(v, float) else f"{k} {v}" for k, v in summary.items())
    click.echo(json.dumps(facts) if as_json else f"{facts['n']} predictions in {out}: {told}")


@main.command("verify")
@workspace_option
@json_option
def verify_command(workspace: str, as_json: bool) -> None:
    """Read every stored byte of the workspace, and stop at the first that is missing or damaged (exit code 3).

    Of artifacts that an interrupted run left unfinished, the finished parts are read.
    """
    from .pipeline.artifacts import Workspace

    place = Workspace.at(workspace)
    checked, parts = place.verify(), place.verify_unfinished()
    require(checked + parts > 0, f"{workspace} holds no artifacts", error=DataError,
            why="nothing was read, so nothing is known to be sound", fix="check --workspace, or run a pipeline first")
    unfinished = f", and so are {parts} finished parts of unfinished ones" if parts else ""
    click.echo(json.dumps({"artifacts": checked, "unfinished_parts": parts}) if as_json else
               f"{checked} artifacts are as they were written{unfinished}")


@main.command("inspect")
@click.argument("name", metavar="PATH|ADDRESS|STAGE|RUN")
@workspace_option
@json_option
def inspect_command(name: str, workspace: str, as_json: bool) -> None:
    """Show what an artifact or a run is: parameters, inputs, arrays, attributes, bytes on disk."""
    from .pipeline.artifacts import Workspace
    from .pipeline.inspection import inspect

    found = inspect(name, Workspace.at(workspace))
    if as_json:
        click.echo(json.dumps(found, indent=1))
        return
    out, arrays = Console(), found.pop("arrays", [])
    for key, value in found.items():
        text = _size(value) if key == "bytes_on_disk" else value if isinstance(value, str) else json.dumps(value)
        out.print(f"{key:>14}  {text if len(text) < 2000 else text[:2000] + ' ... (--json shows all)'}", markup=False,
                  highlight=False, soft_wrap=True)
    if arrays:
        table = Table("array", "shape", "dtype", "chunks", "bytes", "on disk", box=None)
        for array in arrays:
            table.add_row(array["name"], " x ".join(map(str, array["shape"])), array["dtype"],
                          " x ".join(map(str, array["chunks"])), _size(array["bytes"]), _size(array["bytes_on_disk"]))
        out.print(table)


@main.command("doctor")
@workspace_option
@on_option
@json_option
@click.pass_context
def doctor_command(ctx: click.Context, workspace: str, runtime: str | None, as_json: bool) -> None:
    """Check this machine, the workspace, and with --on a cluster; exit code 1 if there is a problem."""
    from .doctor import examine, worst

    colors = {"ok": "green", "warning": "yellow", "problem": "red"}
    checks = []
    for check in examine(workspace, runtime):
        checks.append(check)
        if not as_json:
            click.echo(f"{click.style(f'{check.level:>8}', fg=colors[check.level])}  {check.name}: {check.found}"
                       + (f"\n          fix: {check.fix}" if check.fix else ""))
    if as_json:
        click.echo(json.dumps({"status": worst(checks), "checks": [check.to_dict() for check in checks]}, indent=1))
    if worst(checks) == "problem":
        ctx.exit(1)


@main.command("report")
@click.argument("run_id", required=False)
@workspace_option
def report_command(run_id: str | None, workspace: str) -> None:
    """Print the path of a run's report (the newest by default)."""
    from .pipeline.artifacts import Workspace

    reports = sorted(Workspace.at(workspace).root.glob(f"runs/{run_id or '*'}/report.html"),
                     key=lambda path: path.stat().st_mtime_ns)
    require(bool(reports), f"no report of run {run_id or '(any)'} in {workspace}", error=DataError,
            why="a report is written at the end of a run", fix="run a pipeline first, or check --workspace")
    click.echo(str(reports[-1]))


@main.command("schema")
def schema_command() -> None:
    """Print the JSON Schema of a spec, for editors."""
    from .pipeline.load import schema

    click.echo(json.dumps(schema(), indent=1))


def _read_options(options: tuple[str, ...]) -> dict[str, Any]:
    """Return the values of `--read KEY=VALUE` options."""
    from .plain_yaml import parse_yaml

    fields: dict[str, Any] = {}
    for option in options:
        name, equals, value = option.partition("=")
        require(bool(equals), f"--read {option!r} has no value", why="an option is KEY=VALUE", error=SpecError,
                fix=f"write --read {name}=...")
        fields[name] = parse_yaml(value, f"--read {option}")
    return fields


def _size(nbytes: float) -> str:
    """Return bytes as people read them."""
    for unit in ("B", "kB", "MB", "GB"):
        if nbytes < 1000:
            return f"{nbytes:.0f} {unit}" if unit == "B" or nbytes >= 99.5 else f"{nbytes:.1f} {unit}"
        nbytes /= 1000
    return f"{nbytes:.1f} TB"


def _print_result(result: dict[str, Any]) -> None:
    from .report.measure import gain_over, measure_of

    out, metrics = Console(), result.get("metrics")
    if metrics:
        by = measure_of(metrics)
        table = Table("", by.name, "gain over it", by.test, title=f"{result['name']}: {metrics['n_test']} test points")
        for name, scores in {"model": metrics, **result["baselines"]}.items():
            table.add_row(name, by.with_deviation(scores), *gain_over(name, result))
        out.print(table)
        out.print(f"unlabeled data: {result['gain']['unlabeled_data']}")
    if result.get("unreached", {}).get("count"):
        out.print(f"{result['unreached']['count']} points are in no component with a label: "
                  f"{result['unreached']['file']}", soft_wrap=True)
    out.print(f"report: {result['report']}", soft_wrap=True)


if __name__ == "__main__":
    sys.exit(main())
