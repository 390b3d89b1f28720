"""One self-contained HTML page a run: no script, nothing fetched, so it opens offline and prints.

The page is a function of its arguments: equal ones give an equal file.
"""

from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

import yaml

from . import laprls
from .findings import (
    MEANINGS,
    SHARE,
    Finding,
    Level,
    graph_findings,
    guess_error,
    measure_of,
    setting_findings,
    verdict,
)
from .markup import (
    ABSENT,
    Html,
    at,
    counted,
    duration,
    finite,
    joined,
    listed,
    number,
    p_value,
    percent,
    plain_label,
    size,
    table,
    tag,
)
from .plots import MOST_CLASSES, confusion_plot, error_plot, seconds_plot, values_plot

MOST_STAGES = 200  # rows of the table of stages
WORDS: dict[Level, str] = {"good": "fine", "note": "note", "warning": "look here"}
SCALINGS = {
    "standardize": "each column to mean 0 and standard deviation 1", "unit_range": "each column to [0, 1]",
    "max_abs": "each column by its largest absolute value", "unit_norm": "each row to length 1",
    "global_range": "one factor for all columns", "none": "left as they are",
}
METHODS = {
    "direct": "a sparse factorization, made once", "jacobi": "conjugate gradients with Jacobi preconditioning",
    "deflated": "conjugate gradients with the lowest eigenvectors solved exactly",
    "amg": "conjugate gradients preconditioned by algebraic multigrid",
}
CSS = """
:root { color-scheme: light }
body { margin: 0 auto; max-width: 58rem; padding: 1.5rem 1.25rem 4rem; background: #fff; color: #1f2933;
  font: .94rem/1.5 system-ui, -apple-system, "Segoe UI", "DejaVu Sans", Arial, sans-serif }
h1 { font-size: 1.7rem; margin: 0 } h2 { font-size: 1.2rem; margin: 2.6rem 0 .6rem; padding-top: .6rem;
  border-top: 1px solid #dde2e7 } h3 { font-size: 1rem; margin: 1.4rem 0 .4rem }
p { margin: .5rem 0; max-width: 46rem } .sub, .small, figcaption { color: #5b6773; font-size: .87rem }
nav { font-size: .87rem; margin: .6rem 0 } nav a { color: #1c64b0; margin-right: .9rem; white-space: nowrap }
.wide { overflow-x: auto } table { border-collapse: collapse; margin: .6rem 0; font-size: .9rem }
th, td { text-align: left; vertical-align: top; padding: .32rem 1rem .32rem 0; border-bottom: 1px solid #e6eaee;
  overflow-wrap: break-word } th { font-weight: 600; color: #5b6773; border-color: #c3cad2; vertical-align: bottom }
td.number { white-space: nowrap } .number { text-align: right; font-variant-numeric: tabular-nums }
.box { border-left: 5px solid; border-radius: 3px; padding: .7rem 1rem; margin: 1rem 0 }
.box p { max-width: none } .box p:first-child { margin-top: 0 } .box p:last-child { margin-bottom: 0 }
.answer { font-size: 1.15rem; font-weight: 600; line-height: 1.4 }
.box.good { background: #eef8f1; border-color: #2c8a4b } .box.note { background: #f3f5f8; border-color: #7b8794 }
.box.warning { background: #fff5e8; border-color: #d2790f }
.state { border-radius: 9px; padding: .08rem .55rem; font-size: .8rem; white-space: nowrap }
.state.good { background: #dff1e4; color: #1d6b37 } .state.note { background: #e7ebef; color: #465461 }
.state.warning { background: #ffe2b8; color: #874600; font-weight: 600 }
figure { margin: 1rem 0 } figure svg { max-width: 100%; height: auto; display: block }
pre { background: #f6f8fa; padding: .8rem 1rem; overflow-x: auto; font-size: .83rem; white-space: pre-wrap;
  overflow-wrap: anywhere } code { font-size: .85em; overflow-wrap: anywhere }
@media print { html { font-size: 11.5px } body { max-width: none; padding: 0 } nav { display: none }
  h2, h3 { break-after: avoid } figure, .box, tr { break-inside: avoid }
  .box, .state, pre { print-color-adjust: exact; -webkit-print-color-adjust: exact } }
"""


def write_report(path: Path, result: dict[str, Any], facts: dict[str, Any]) -> Path:
    """Write the page of a run and return its path.

    result : what `run` returns. facts : the attributes of every stage by its name, and where there are, `spec` (the
    checked pipeline file) and `libraries` (versions by name). Whatever is missing is left out of the page.
    """
    path.write_text(page(result, facts), encoding="utf-8")
    return path


def page(result: dict[str, Any], facts: dict[str, Any]) -> Html:
    """Return the page as one HTML text."""
    name = result.get("name", "run")
    sections = (
        ("answer", "Did the unlabeled data help?", _answer(result, facts)),
        ("scores", "Scores", _scores(result, facts)), ("data", "Data", _data(facts)),
        ("graph", "Graph health", _graph(facts)),
        ("solver", "Solver evidence", _solver(facts)), ("stages", "What ran", _stages(result)),
        ("spec", "Spec and versions", _spec(facts)),
    )
    style = Html(CSS)  # a literal of this file
    head = joined((Html('<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'),
                   tag("title", f"{name}: report"), tag("style", style)))
    body = tag("body", tag("h1", name), tag("p", f"Run {result.get('run', ABSENT)}", class_="sub"),
               tag("nav", *(tag("a", title, href=f"#{key}") for key, title, _ in sections)),
               *(tag("section", tag("h2", title), content, id=key) for key, title, content in sections))
    return Html(f'<!doctype html>\n<html lang="en"><head>{head}</head>\n{body}</html>\n')


def _models(result: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {"model": result.get("metrics") or {}, **(result.get("baselines") or {})}


def _answer(result: dict[str, Any], facts: dict[str, Any]) -> Html:
    found, by = verdict(result), measure_of(result)
    box = tag("div", tag("p", found.sentence, class_="answer"), *(tag("p", text) for text in found.meaning),
              class_=f"box {found.level}")
    scores = [(name, finite(scores.get(by.key)), finite(scores.get("standard_error")) or 0.0)
              for name, scores in _models(result).items()]
    known = [(name, error, deviation) for name, error, deviation in scores if error is not None]
    unit = None if by is SHARE else by.name
    drawing = error_plot(known, guess_error(result.get("metrics") or {}), guess_name=f"always {by.guess}", unit=unit)
    figure = _figure(drawing, f"{by.name.capitalize()} and one standard error to either side. The models are compared "
                     "on the same test points, so the paired test above tells more than whether the bars overlap.")
    own = {"model": laprls.MODEL, "shuffled": laprls.SHUFFLED} if laprls.is_laprls(facts) else {}
    told = MEANINGS | own
    meanings = table((), [(tag("b", name), told.get(name, "Another baseline.")) for name in _models(result)])
    return joined((box, _warnings([*setting_findings(facts), *laprls.penalty_findings(facts)]), figure, meanings))


def _gain(result: dict[str, Any], name: str) -> tuple[str, str]:
    """Return the model's gain over a baseline with its sign, and the p-value; nothing for the model itself."""
    gain = at(result, "gain", f"over_{name}") or {}
    change = finite(gain.get("gain"))
    sign = "" if not change else "+" if change > 0 else "−"
    return (f"{sign}{measure_of(result).difference(change)}", p_value(gain.get("p_value"))) if gain else ("", "")


def _value_scores(result: dict[str, Any], facts: dict[str, Any]) -> Html:
    """Return the scores of a regression, and what the model predicts over what is true."""
    rows = [(tag("b", name), f"{number(scores.get('rmse'))} ± {number(scores.get('standard_error'))}",
             number(scores.get("mae")), number(scores.get("r2")),
             number(at(facts, "models", "models", name, "training_rmse")), *_gain(result, name))
            for name, scores in _models(result).items()]
    head = ("", "test rmse ± standard error", "mean absolute error", "R²", "rmse on the labels",
            "model's gain over it", "paired t-test")
    true, predicted = (at(facts, "scores", "shown", name) or [] for name in ("true", "predicted"))
    some = at(result, "metrics", "n_test")
    shown = "all test points" if some == len(true) else f"{number(len(true))} of {counted(some, 'test point')}"
    figure = _figure(values_plot(true, predicted), f"The model's predictions over the true values of {shown}; on the "
                     "dotted line they are equal.") if true else tag("p", "No predictions were recorded.")
    return joined((table(head, rows, range(1, 7)), _chosen(facts), tag("h3", "What is predicted"), figure))


def _scores(result: dict[str, Any], facts: dict[str, Any]) -> Html:
    if measure_of(result) is not SHARE:
        return _value_scores(result, facts)
    has_rmse = finite(at(result, "metrics", "rmse")) is not None
    rows = []
    for name, scores in _models(result).items():
        rows.append((tag("b", name), f"{percent(scores.get('error'))} ± {percent(scores.get('standard_error'))}",
                     percent(scores.get("balanced_accuracy")), percent(scores.get("macro_f1")),
                     *([number(scores.get("rmse"))] if has_rmse else []),
                     percent(at(facts, "models", "models", name, "training_error")), *_gain(result, name)))
    head = ("", "test error ± standard error", "balanced accuracy", "macro F1",
            *(["rmse from the codes ±1"] if has_rmse else []), "error on the labels",
            "model's gain over it", "McNemar's test")
    confusion = at(result, "metrics", "confusion") or []
    classes = at(facts, "split", "classes") or []
    labels = [str(classes[i]) if i < len(classes) else str(i) for i in range(len(confusion))]
    wrong = sum(sum(row) for row in confusion) - sum(row[i] for i, row in enumerate(confusion))
    if not confusion:
        figure = tag("p", "No confusion matrix was recorded.")
    elif len(confusion) > MOST_CLASSES and not wrong:
        figure = tag("p", "No test point was misclassified.")
    else:
        absent = sum(not sum(row) for row in confusion)
        caption = ("The model's most confused pairs: true class → predicted class." if len(confusion) > MOST_CLASSES
                   else "The model's confusion matrix: right in blue, wrong in orange.")
        figure = _figure(confusion_plot(confusion, labels), caption + f" {number(wrong)} of "
                         f"{counted(at(result, 'metrics', 'n_test'), 'test point')} are wrong."
                         + (f" {counted(absent, 'class', 'classes')} had no test point." if absent else ""))
    listing = table(head, rows, range(1, len(head)))
    return joined((listing, _chosen(facts), tag("h3", "Which classes are confused"), figure))


def _chosen(facts: dict[str, Any]) -> Html:
    """Return the parameters that cross-validation chose for each model; nothing where they were given."""
    if laprls.is_laprls(facts):
        return laprls.choices(facts)
    folds, choices = at(facts, "selection", "folds"), at(facts, "selection", "choices") or {}
    if not folds:
        return Html("")
    tried = at(facts, "selection", "grid") or {}
    is_value = at(facts, "split", "task") == "regression"
    shown, measure, second = (number, "rmse", "mean absolute error") if is_value else (percent, "error", "hinge loss")
    rows = [(tag("b", name), number(row.get("power")), number(row.get("eta")), str(row.get("bandwidth") or "median"),
             number(row.get("C")), shown(row.get("error")), number(len(tried[name])) if name in tried else "")
            for name, row in choices.items()]
    note = tag("p", f"Chosen on the labels by {counted(folds, 'fold')}: the lowest {measure}, of equals the lowest "
               f"{second}. Points of a fold are held out of the subsample too. The shuffled control takes the model's.",
               class_="small")
    head = ("", "power", "eta", "bandwidth", "C", f"{measure} in cross-validation", "tried")
    return joined((tag("h3", "Chosen parameters"), table(head, rows, (1, 2, 4, 5, 6)), note))


def _data(facts: dict[str, Any]) -> Html:
    split, scaling = facts.get("split") or {}, at(facts, "points", "scaling") or {}
    classes, per_class = split.get("classes") or [], at(facts, "labels", "per_class") or []
    n_labeled, n_train = at(facts, "labels", "n_labeled"), split.get("n_train")
    share = f" ({percent(n_labeled / n_train, 2)} of the training points)" if n_labeled is not None and n_train else ""
    kind, constant = scaling.get("kind"), scaling.get("constant_columns")
    names, source = scaling.get("constant_column_names") or [], at(facts, "spec", "data", "source")
    rows: list[tuple[Any, Any]] = [
        ("source", ", ".join(source) if isinstance(source, list) else source),
        ("SHA-256", tag("code", at(facts, "dataset", "dataset", "fingerprint"))),
        ("points in the data set", number(at(facts, "dataset", "n"))),
        ("features d", number(at(facts, "dataset", "d"))),
        ("training points n, in the graph", number(n_train)), ("labeled", number(n_labeled) + share),
        ("test points", number(split.get("n_test"))),
        ("classes", f"{number(len(classes))}: {listed(classes, MOST_CLASSES)}" if classes else None),
        ("target", _target(split.get("target"))),
        ("labels per class", _labels_per_class(classes, per_class)),
        ("scaling", f"{kind}: {SCALINGS.get(kind, '')}, fitted on the training points" if kind else None),
        ("constant columns", None if constant is None else number(constant)
         + (f" ({listed(names, 10)}): they tell nothing" if names else "")),
    ]
    return table((), [row for row in rows if row[1] is not None])


def _target(described: dict[str, Any] | None) -> str | None:
    if not described:
        return None
    return (f"from {number(described.get('min'))} to {number(described.get('max'))}, mean "
            f"{number(described.get('mean'))}, standard deviation {number(described.get('deviation'))}")


def _labels_per_class(classes: Sequence[Any], per_class: Sequence[int]) -> str | None:
    if not per_class:
        return None
    if min(per_class) == max(per_class):
        return f"{number(per_class[0])} each"
    if len(per_class) <= MOST_CLASSES and len(classes) == len(per_class):
        return ", ".join(f"{plain_label(name, 40)}: {number(count)}"
                         for name, count in zip(classes, per_class, strict=True))
    return f"from {number(min(per_class))} to {number(max(per_class))}, median {number(median(per_class))}"


def _graph(facts: dict[str, Any]) -> Html:
    graph, lists = facts.get("graph") or {}, facts.get("neighbors") or {}
    width = f", bandwidth {number(graph.get('bandwidth'))}" if graph.get("bandwidth") is not None else ""
    searched = f"{lists.get('metric', ABSENT)} distance, {lists.get('method', ABSENT)} search"
    listed = (f"{number(lists.get('n_neighbors'))} neighbors a point, "
              f"{'given' if lists.get('method') == 'given' else searched}")
    weighed = (f"{graph.get('kind', ABSENT)} weights{width}, symmetrized by the {graph.get('symmetrize', ABSENT)}")
    made = ("The graph was not described." if not (graph or lists) else
            "The weights were given." if graph.get("kind") == "given" else f"{listed}; {weighed}.")
    findings = graph_findings(facts)
    rows = [(tag("b", item.subject), item.figures, _state(item.level), item.meaning) for item in findings]
    listing = table(("", "found", "", "what it means"), rows) if rows else ""
    alarms = [item for item in findings if item.level == "warning"]
    summary = tag("p", "Nothing in the graph asks for attention.") if findings and not alarms else _warnings(
        alarms, explained=False)  # the table says the rest
    return joined((tag("p", made), summary, listing))


def _solver(facts: dict[str, Any]) -> Html:
    if laprls.is_laprls(facts):
        return laprls.evidence(facts)
    system, columns = facts.get("system") or {}, facts.get("columns") or {}
    evidence = columns.get("solver") or system.get("solver") or {}
    method = evidence.get("method")
    if method is None:
        return tag("p", "No solve was recorded.")
    tolerance, worst = finite(at(system, "params", "tolerance")), finite(columns.get("max_residual"))
    within = "" if worst is None or tolerance is None else (
        ": every column meets it" if worst <= tolerance else ": the tolerance was not met")
    extra = [f"{number(evidence['n_vectors'])} eigenvectors" if "n_vectors" in evidence else "",
             f"levels of {_levels(evidence)} unknowns" if "level_sizes" in evidence else ""]
    rows: list[tuple[Any, Any]] = [
        ("system", f"{system.get('laplacian', '')} Laplacian + {number(system.get('ridge'))} I, power "
                   f"{number(system.get('power'))}, {counted(system.get('n'), 'unknown')}"),
        ("method", f"{method}: {', '.join([METHODS.get(method, method), *filter(None, extra)])}"),
        ("why", _why(facts, method, evidence.get("considered"))),
        ("columns solved", number(columns.get("columns"))),
        ("iterations, worst column", number(columns.get("max_iterations"))),
        ("worst relative residual", f"{number(worst)}, tolerance {number(tolerance)}{within}"),
    ]
    considered = [(item.get("method"), number(item.get("n_vectors")), _levels(item),
                   number(item.get("probe_iterations")), item.get("work"))
                  for item in evidence.get("considered") or []]
    tried = joined((tag("h3", "Methods considered"), table(
        ("method", "eigenvectors in the probe", "level sizes", "iterations of the probe", "work, entries touched"),
        considered, (1, 3, 4)))) if considered else ""
    alarm = [Finding("worst residual", f"{number(worst)} > {number(tolerance)}", "warning",
                     "Columns that are wrong make a kernel that is wrong. Raise solver.max_iterations or graph.ridge.")
             ] if worst is not None and tolerance is not None and worst > tolerance else []
    return joined((_warnings(alarm), table((), rows), tried))


def _levels(evidence: dict[str, Any]) -> str:
    return " > ".join(number(rows) for rows in evidence.get("level_sizes") or []) or ABSENT


def _why(facts: dict[str, Any], method: str, considered: Any) -> str:
    asked = at(facts, "spec", "solver", "method")
    if considered and len(considered) == 1:
        return "the probe columns took so few iterations that no other method was tried"
    if considered:
        return (f"the least work for these columns, counted on probe columns, of "
                f"{counted(len(considered), 'method')} considered")
    if asked == method:
        return "the spec asks for it"
    return "the matrix is small enough to factor" if method == "direct" else ABSENT


def _stages(result: dict[str, Any]) -> Html:
    stages = result.get("stages") or []
    total = sum(finite(stage.get("seconds")) or 0.0 for stage in stages)
    cached = sum(stage.get("status") == "cached" for stage in stages)
    summary = (f"{counted(len(stages), 'stage')} in {duration(total)}, {number(cached) if cached else 'none'} of them "
               f"cached; peak memory of a process {size(result.get('peak_rss_bytes'))}.")
    rows = [(stage.get("name"), stage.get("status"), duration(stage.get("seconds")),
             size(stage.get("predicted_peak_bytes")), size(stage.get("measured_peak_bytes")),
             _ratio(stage.get("ratio")), tag("code", str(stage.get("address", ABSENT))[:24]))
            for stage in stages[:MOST_STAGES]]
    more = tag("p", f"{number(len(stages) - MOST_STAGES)} more stages are in result.json.") \
        if len(stages) > MOST_STAGES else ""
    figure = _figure(seconds_plot(stages), "Seconds a stage.") if stages else ""
    note = tag("p", "Peak memory is that of a stage's largest step: a task, or a step of the process that ran the "
               "pipeline; how far the process grew. Threads of one process cannot be told apart: where several tasks "
               "ran side by side in one, the measure is theirs together, and there is no ratio.", class_="small")
    model = tag("p", "Model: ", tag("code", result["model"])) if result.get("model") else ""
    return joined((tag("p", summary), figure,
                   table(("stage", "status", "time", "peak memory predicted", "measured", "ratio", "address"), rows,
                         (2, 3, 4, 5)), more, note, model))


def _ratio(value: Any) -> str:
    """Return the measured over the predicted memory."""
    ratio = finite(value)
    return ABSENT if ratio is None else f"{ratio:.2f}"


def _spec(facts: dict[str, Any]) -> Html:
    spec, libraries = facts.get("spec"), facts.get("libraries") or {}
    text = yaml.safe_dump(spec, sort_keys=False, allow_unicode=True, width=100) if spec else None
    shown = tag("pre", text) if text else tag("p", "The spec is in spec.json beside this page.")
    versions = table(("library", "version"), sorted(libraries.items())) if libraries else tag(
        "p", "The versions of the libraries are in the manifest.json of each artifact.")
    return joined((shown, tag("h3", "Libraries"), versions))


def _figure(drawing: Html, caption: str) -> Html:
    return tag("figure", drawing, tag("figcaption", caption))


def _state(level: Level) -> Html:
    return tag("span", WORDS[level], class_=f"state {level}")


def _warnings(found: Sequence[Finding], explained: bool = True) -> Html:
    """Return a box of the findings that ask for attention; nothing where there are none."""
    if not found:
        return Html("")
    return tag("div", *(tag("p", tag("b", f"{item.subject}: "), item.figures,
                            f". {item.meaning}" if explained else "") for item in found), class_="box warning")
