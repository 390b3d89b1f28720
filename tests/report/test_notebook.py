"""How objects show themselves in a notebook."""

import html
import re

import numpy as np
import pandas as pd

from dssl import Dataset, GraphKernelRidge, KNNGraph


def test_a_graph_and_a_data_set_show_what_they_are():
    X = np.random.default_rng(0).normal(size=(40, 3))
    shown = KNNGraph(n_neighbors=4, metric="manhattan").build(X)._repr_html_()
    assert all(f">{text}<" in shown for text in ("40", "4", "manhattan", "exact", "self_tuned"))
    table = pd.DataFrame(X, columns=["a", "<b>", "c"])
    shown = Dataset.from_arrays(table, ["x", "y"] * 20)._repr_html_()
    assert "a, &lt;b&gt;, c" in shown
    assert "x, y" in shown
    assert "sparse" not in shown


def test_a_report_is_a_page_in_a_frame():
    X = np.random.default_rng(0).normal(size=(60, 2)) + 6 * (np.arange(60) % 2)[:, None]
    report = GraphKernelRidge().fit(X, np.where(np.arange(60) < 8, np.arange(60) % 2, -1)).report()
    (inside,) = re.findall('srcdoc="([^"]*)"', report._repr_html_())
    assert html.unescape(inside) == report
    assert report.startswith("<!")
    assert repr(report) == f'<report, {len(report):,} characters of HTML: report("report.html") writes it>'
