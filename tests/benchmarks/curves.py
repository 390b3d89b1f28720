"""Learning curves of the paper's Figures 2 and 3: the deformed, the base and (small sets) the full kernel, and that
of a graph of the landmarks alone.

    DSSL_DATA=... python -m tests.benchmarks.curves letter_d_vs_o mnist_3_vs_8 --workspace FOLDER > curves.jsonl
    python -m tests.benchmarks.curves --table curves.jsonl --plot tests/benchmarks/curves.svg

Each draw of each label count is a run of the pipeline of that name, with its own labels, landmarks and folds; on the
small sets with its own points and test points too. Power, eta and bandwidth are chosen by cross-validation, by each
kernel for itself. The full kernel measures functions at all points. One JSON line a run.
"""

import argparse
import json
import sys
from collections import defaultdict
from pathlib import Path

import numpy as np

from dssl.execution.in_process import InProcess
from dssl.pipeline.run import run

PIPELINES = Path(__file__).parents[2] / "pipelines"
SMALL = {"letter_d_vs_o": 1250, "letter_o_vs_q": 1250, "mnist_2_vs_3": 2000}  # points, all of which "full" measures at
COUNTS = {"mnist_3_vs_8": (10, 20, 50, 100), "mnist_4_vs_9": (10, 20, 50, 100), "mnist_odd_even": (20, 50, 100, 200),
          **dict.fromkeys(SMALL, (10, 20, 40, 80))}  # labels: fewer than half of the landmarks
KERNELS = ("deformed", "full", "base", "landmark graph")
COLORS = {"deformed": "#1b6ca8", "full": "#111111", "base": "#c44e52", "landmark graph": "#8a8a8a"}


def measure(name: str, count: int, draw: int, workspace: str, execution: InProcess, size: int | None = None) -> dict:
    """Return the test errors of one draw; with `size` points measured at instead of the pipeline's, without "full"."""
    chosen = [f"labels.count={count}", f"labels.random_state={draw}", f"model.random_state={draw}",
              f"selection.random_state={draw}"]
    if name in SMALL:
        chosen.append(f"data.random_state={draw}")
    if size:
        chosen.append(f"model.n_landmarks={size}")
    spec = PIPELINES / f"{name}.yaml"
    result = run(spec, set=chosen, workspace=workspace, execution=execution)
    errors = {"deformed": result.metrics["error"], "base": result.baselines["base"]["error"],
              "landmark graph": result.baselines["landmark_graph"]["error"],
              "shuffled": result.baselines["shuffled"]["error"]}
    parameters = {"deformed": result.selection["model"], "base": result.selection["base"],
                  "landmark graph": result.selection["landmark_graph"]}
    if name in SMALL and not size:
        whole = [*chosen, f"model.n_landmarks={SMALL[name]}", "baselines=[base, shuffled]"]
        full = run(spec, set=whole, workspace=workspace, execution=execution)
        errors["full"], parameters["full"] = full.metrics["error"], full.selection["model"]
    title = f"{name}, s = {size}" if size else name
    return {"set": title, "labels": count, "draw": draw, "errors": errors, "chosen": parameters,
            "seconds": sum(stage.seconds for stage in result.stages if stage.status == "done")}


def read(paths: list[str]) -> dict[str, dict[int, dict[str, np.ndarray]]]:
    """Return the errors (draws,) by set, label count and kernel; of a draw measured twice, the last."""
    lines = {(line["set"], line["labels"], line["draw"]): line["errors"]
             for path in paths for text in Path(path).read_text().splitlines() if (line := json.loads(text))}
    gathered: dict = defaultdict(lambda: defaultdict(lambda: defaultdict(list)))
    for (name, count, _), errors in sorted(lines.items()):
        for kernel, error in errors.items():
            gathered[name][count][kernel].append(error)
    return {name: {count: {kernel: np.array(values) for kernel, values in errors.items()}
                   for count, errors in counts.items()} for name, counts in gathered.items()}


def standard_error(values: np.ndarray) -> float:
    """Return the standard error of a mean."""
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else float("nan")


def table(curves: dict) -> str:
    """Return the curves as a Markdown table: mean test error in percent, and the paired differences."""
    rows = ["| set | labels | draws | deformed | full | base | landmark graph | full - deformed | base - deformed | "
            "landmark graph - deformed |", "|---|---|---|---|---|---|---|---|---|---|"]
    for name, counts in curves.items():
        for count, errors in counts.items():
            cells = [f"{100 * errors[kernel].mean():.1f}" if kernel in errors else "" for kernel in KERNELS]
            differences = []
            for kernel in KERNELS[1:]:
                if kernel not in errors:
                    differences.append("")
                    continue
                gap = 100 * (errors[kernel] - errors["deformed"])
                differences.append(f"{gap.mean():+.1f} ± {standard_error(gap):.1f}")
            draws = str(len(errors["deformed"]))
            rows.append("| " + " | ".join([name, str(count), draws, *cells, *differences]) + " |")
    return "\n".join(rows)


def plot(curves: dict, path: str) -> None:
    """Draw one panel a set: mean test error against the number of labels, bars of one standard error."""
    import matplotlib
    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "curves"
    from matplotlib import pyplot

    figure, panels = pyplot.subplots(2, -(-len(curves) // 2), figsize=(11, 6.4), squeeze=False)
    for panel, (name, counts) in zip(panels.flat, curves.items(), strict=False):
        for kernel in KERNELS:
            drawn = [(count, errors[kernel]) for count, errors in counts.items() if kernel in errors]
            if drawn:
                panel.errorbar([count for count, _ in drawn], [100 * values.mean() for _, values in drawn],
                               yerr=[100 * standard_error(values) for _, values in drawn], label=kernel,
                               color=COLORS[kernel], linestyle="--" if kernel == "full" else "-", marker="o",
                               markersize=3.5, linewidth=1.4, capsize=2)
        panel.set_title(name, fontsize=10)
        panel.set_xscale("log")
        ticks = list(counts)
        panel.set_xticks(ticks, [str(tick) for tick in ticks])
        panel.minorticks_off()
        panel.set_xlabel("labels")
        panel.set_ylabel("test error, %")
        panel.set_ylim(bottom=0)
        panel.grid(alpha=0.25)
    panels.flat[0].legend(frameon=False)
    for panel in panels.flat[len(curves):]:
        panel.set_visible(False)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sets", nargs="*", default=[])
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--first", type=int, default=0, help="number of the first draw")
    parser.add_argument("--counts", type=int, nargs="*")
    parser.add_argument("--size", type=int, help="points at which functions are measured, instead of the pipeline's")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--workspace", default="dssl-work")
    parser.add_argument("--table", nargs="*", help="print the table of these files of JSON lines")
    parser.add_argument("--plot", help="draw it to this file")
    arguments = parser.parse_args()
    if arguments.table:
        curves = read(arguments.table)
        sys.stdout.write(table(curves) + "\n")
        if arguments.plot:
            plot(curves, arguments.plot)
        return
    for name in arguments.sets:
        for draw in range(arguments.first, arguments.first + arguments.draws):
            for count in arguments.counts or COUNTS[name]:
                execution = InProcess(arguments.threads)
                line = measure(name, count, draw, arguments.workspace, execution, arguments.size)
                sys.stdout.write(json.dumps(line) + "\n")
                sys.stdout.flush()


if __name__ == "__main__":
    main()
