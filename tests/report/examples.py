"""Results of imagined runs, as `dssl.pipeline.run` hands them to the report."""

from typing import Any

import numpy as np
from markupsafe import Markup

from dssl.base.wilson import interval_of_share
from dssl.report.page import page
from dssl.report.record import Baseline, ReportText, RunRecord
from dssl.report.sections.answer import answer_section, in_order
from dssl.report.sections.data import data_section
from dssl.report.sections.graph import graph_section
from dssl.report.sections.quality import quality_section
from dssl.report.sections.ran import files_section, spec_section, stages_section
from dssl.report.sections.sample import sample_section
from dssl.report.sections.scores import curve_section, scores_section
from dssl.report.sections.selection import selection_section
from dssl.report.sections.solver import solver_section

REPORT_TEXT = ReportText(model="The learner in a changed kernel.", changed="kernel that merely changed",
                   cause="changed kernel", graph="model.eta", norm="model.C", folds="Nothing else is held out.",
                   penalties=("C", "eta"))
BASELINES = (Baseline("base", "The same without the graph."), Baseline("shuffled", "The control."),
             Baseline("landmark_graph", "The model with a graph of the landmarks alone."))


def example_page(result: dict[str, Any], facts: dict[str, Any]) -> Markup:
    """Return the page of all sections of a kind of model that solves columns."""
    run = example_record(result, facts)
    rest = (files_section, data_section, graph_section, solver_section, stages_section, spec_section)
    others = [answer_section(run, REPORT_TEXT, BASELINES), curve_section(run), scores_section(run), sample_section(run),
              selection_section(run, REPORT_TEXT), *(section(run) for section in rest)]
    return page(result.get("name", "example"), result.get("run", "of today"),
                in_order(run, REPORT_TEXT, quality_section(run), others))


def example_record(result: dict[str, Any], facts: dict[str, Any]) -> RunRecord:
    """Return the record of a run: its stages by name among `facts`, beside spec, libraries and document."""
    stages = {name: attributes for name, attributes in facts.items() if name not in ("spec", "libraries", "document")}
    return RunRecord(stages, result, facts.get("spec", {}), facts.get("libraries", {}),
                     path=facts.get("document", {}).get("path"))


def example_scores(confusion: np.ndarray) -> dict[str, Any]:
    """Return the scores of a confusion matrix; the F1 is left at the accuracy, which no test reads."""
    n_test = int(confusion.sum())
    error = 1 - float(np.trace(confusion)) / n_test
    return {"error": error, "accuracy": 1 - error, "standard_error": float(np.sqrt(error * (1 - error) / n_test)),
            "interval": interval_of_share(error, n_test),
            "balanced_accuracy": float(np.mean(np.diag(confusion) / confusion.sum(axis=1))), "f1_macro": 1 - error,
            "n_test": n_test, "confusion": confusion.tolist()}


def example_confusion(n_classes: int, wrong: int, per_class: int = 50) -> np.ndarray:
    """Return a matrix in which `wrong` points of each class are taken for the next class."""
    return (per_class - wrong) * np.eye(n_classes, dtype=int) + wrong * np.roll(np.eye(n_classes, dtype=int), 1, axis=1)


def example_pair(gain: float, p: float) -> dict[str, Any]:
    """Return a paired comparison whose interval holds 0 where its p-value says so."""
    half = 0.25 * abs(gain) if p < 0.05 else 2 * abs(gain) + 0.02
    return {"gain": gain, "p_value": p, "interval": [gain - half, gain + half]}


def example_labels(n: int) -> dict[str, Any]:
    """Return what so many labels say when they are held out."""
    errors = {"model": {"error": 0.08, "interval": [0.02, 0.2]}, "base": {"error": 0.2, "interval": [0.1, 0.4]}}
    curve = [{"labels": max(2, round(n * share)), "model": 0.08 / share**0.4, "base": 0.2 / share**0.3,
              "model_interval": [0.05 / share**0.4, 0.12 / share**0.4],
              "base_interval": [0.15 / share**0.3, 0.26 / share**0.3]}
             for share in (0.25, 0.5, 0.95)]
    return {"n": n, "folds": 5, "scores": errors, "unlabeled_data": "no clear difference", "curve": curve,
            "over_base": {"n": n, **example_pair(0.12, 0.07), "smallest": 6 / n, "detectable": 0.35, "power": 0.2}}


def example_sample(classes: list[str], n_labeled: int) -> dict[str, Any]:
    """Return what the stage `sample` finds of points around a circle, each class a piece of it."""
    angle = np.linspace(0, 2 * np.pi, 120)
    places = np.round(500 + 480 * np.stack([np.cos(angle), np.sin(angle)], axis=1)).astype(int)
    listed = [{"row": 7 * i, "predicted": classes[0], "score": 0.5 + i / 100, "second": classes[-1],
               "second_score": 0.5 - i / 100} for i in range(10)]
    following = [{"row": 9 * i, "identifier": f"u{i}", "file": "t.csv", "line": 9 * i + 2, "score": 0.5, "cells": {
        "who": f"u{i}", "size": "<1>"}, "predicted": classes[0], "probability": 0.6} for i in range(10)]
    return {"n": 2000, "n_examined": 1900, "calibrated": True, "least_certain": listed, "next": following, "picture": {
        "points": places.tolist(), "codes": (np.arange(120) * len(classes) // 120).tolist(), "classes": classes,
        "edges": [[i, i + 1] for i in range(119)], "labeled": list(range(min(n_labeled, 120))), "whole": False,
        "plane": False, "lines": 119}}


def example_run(n_classes: int = 3, *, classes: list[Any] | None = None, wrong: int = 4, wrong_base: int = 11,
                p: float = 3.21e-5, landmark_graph: bool = False,
                unreachable: int = 0) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return (result, facts) of a run whose model gets `wrong` points of each class wrong, its base `wrong_base`."""
    classes = classes or [f"class {i}" for i in range(n_classes)]
    metrics = example_scores(example_confusion(n_classes, wrong))
    baselines = {"base": example_scores(example_confusion(n_classes, wrong_base)),
                 "shuffled": example_scores(example_confusion(n_classes, 23)),
                 "majority": example_scores(np.tile([50] + (n_classes - 1) * [0], (n_classes, 1))) | {
                     "predicts": classes[0]}}
    if landmark_graph:
        baselines["landmark_graph"] = example_scores(example_confusion(n_classes, 9))
    gain: dict[str, Any] = {f"over_{name}": example_pair(scores["error"] - metrics["error"],
                                                         1e-9 if name == "majority" else p)
                            for name, scores in baselines.items()}
    better = metrics["error"] < baselines["base"]["error"]
    gain["by_labels"] = example_labels(5 * n_classes)
    gain["unlabeled_data"] = "no clear difference" if p >= 0.05 else "helped" if better else "hurt"
    names = ["dataset", "split", "points", "neighbors", "graph", "labels", "health", "models", "scores"]
    stages = [{"name": name, "status": "cached" if name == "dataset" else "done", "seconds": 0.25 * (i + 1),
               "address": f"{i:x}" * 64, "peak_rss_bytes": 0 if name == "split" else 345_000_000,
               "predicted_peak_bytes": 300_000_000, "measured_peak_bytes": None if name == "split" else 330_000_000,
               "ratio": None if name == "split" else 1.1}
              for i, name in enumerate(names)]
    result = {"run": "20250101T000000-abcdef", "name": "example", "status": "done", "metrics": metrics,
              "baselines": baselines, "gain": gain, "stages": stages, "peak_rss_bytes": 512_000_000,
              "unreachable": {"count": unreachable, "ids": list(range(20))[:unreachable]}, "model": "/somewhere/models"}
    considered = [{"method": "cholesky", "factor_entries": 21_000, "fill": 1.583, "probe_iterations": 12.0,
                   "work": "4.75e+10"},
                  {"method": "deflated", "n_vectors": 16, "probe_iterations": 203.4, "work": "9.1e+10"}]
    facts = {
        "dataset": {"n": 2500, "d": 17, "dataset": {"fingerprint": "ab" * 32}},
        "split": {"classes": classes, "n_train": 2000, "n_test": metrics["n_test"]},
        "points": {"d": 17, "scaling": {"kind": "standardize", "constant_columns": 1,
                                        "constant_column_names": ["<b>dull</b>"], "zero_rows": 0}},
        "labels": {"n_labeled": 5 * n_classes, "per_class": [5] * n_classes},
        "neighbors": {"n_neighbors": 10, "metric": "euclidean", "method": "descent"},
        "graph": {"kind": "heat", "bandwidth": 1.25, "symmetrize": "maximum", "raised": 0, "floor": 1e-11},
        "health": {
            "n": 2000, "edges": 13456, "labeled": 5 * n_classes,
            "recall": {"certified": "sample", "recall": 0.9824, "lower": 0.9764, "worst_row": 0.2, "rows": 500,
                       "trials": 5000},
            "components": {"count": 1 + (unreachable > 0), "largest": [2000 - unreachable],
                           "largest_share": 1 - unreachable / 2000},
            "isolated": {"count": 0, "ids": []}, "degree": {"min": 10.0, "median": 13.0, "mean": 13.456, "max": 71.0},
            "hubs": {"rule": "more than 10 times the median degree", "count": 0, "largest": []},
            "duplicates": {"points": 0, "share": 0.0},
            "unreachable": {"count": unreachable, "ids": list(range(100, 200))[:unreachable],
                          "components": int(unreachable > 0)},
            "homophily": {"edges": 44, "share": 0.93, "by_chance": 1 / n_classes}},
        "landmarks": {"n_landmarks": 500, "n_labeled": 5 * n_classes},
        "system": {"laplacian": "normalized", "ridge": 0.01, "power": 2, "n": 2000,
                   "params": {"method": "cholesky", "tol": 1e-6}, "solver": {"method": "cholesky"}},
        "columns": {"columns": 500, "max_iterations": 33, "max_residual": 5.98e-7,
                    "solver": {"method": "cholesky", "factor_entries": 21_000, "fill": 1.583,
                               "considered": considered}},
        "document": {"path": "/somewhere/result.json"},
        "models": {"models": {name: {"training_error": 0.0} for name in ("model", *baselines)}},
        "selection": {"folds": 0, "choices": {"model": {"C": 10.0, "eta": 10.0, "power": 2, "bandwidth": None}}},
        "sample": example_sample([str(name) for name in classes], 5 * n_classes),
        "spec": {"name": "example", "data": {"source": "some.csv"}, "solver": {"method": "auto"},
                 "model": {"kind": "svm", "eta": 10.0}},
        "libraries": {"numpy": "2.1.0", "zarr": "3.0.8"},
    }
    return result, facts
