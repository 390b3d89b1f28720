"""Cluster kernels by their transfer function, bandwidth and loss, from a few labels a class on.

    python -m tests.benchmarks.transfer --draws 6

One JSON line a rate and form with the mean accuracy on the unlabeled points over all sets, the highest first; the SVC
of the labels alone beside them. All points are landmarks, so that one eigenproblem a bandwidth serves all.
"""

import argparse
import json
import warnings
from collections import defaultdict
from statistics import fmean
from typing import Any

import numpy as np
from sklearn.svm import SVC

from dssl import TransferParams
from dssl.execution.in_process import InProcess
from dssl.kernels.base import kernel_from
from dssl.kernels.cluster_params import ClusterParams, basis_of
from dssl.learners.linear.features import FeatureLearner
from dssl.storage.csr import as_rows

from .draws import add_draw_option, draw_labels, target_of
from .low_labels import TOYS, read

BANDWIDTHS = ("0.125*median", "0.25*median", "0.5*median", "median")
FORMS = [TransferParams(transfer=name, exponent=exponent) for name, exponent in (
    ("poly_step", 5), ("step", 5), ("linear", 5), ("polynomial", 3), ("polynomial", 5), ("polynomial", 10),
    ("exponential", 3), ("exponential", 5), ("exponential", 10))]
OF_ALL_LOSSES = (FORMS[0], FORMS[7])


def main() -> None:
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", default=TOYS)
    parser.add_argument("--labels", type=int, nargs="+", default=[2, 5, 20], help="a class")
    parser.add_argument("--points", type=int, default=600)
    parser.add_argument("--draws", type=int, default=6)
    add_draw_option(parser)
    given = parser.parse_args()
    found: dict[Any, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for name in given.sets:
        X, y = read(name, given.points)
        rows, execution = as_rows(X), InProcess(1)
        bases = {bandwidth: basis_of(rows, kernel_from("rbf", bandwidth, rows=rows), ClusterParams(), np.arange(0),
                                     execution) for bandwidth in BANDWIDTHS}
        for rate in given.labels:
            for number in range(given.draws):
                labels = draw_labels(y, rate, [rate, number], given.draw)
                target, free = target_of(labels), labels < 0
                for bandwidth, basis in bases.items():
                    for form in FORMS:
                        F = basis.samples(form, len(target.labeled))(X)
                        for loss in ("squared", "hinge", "squared_hinge") if form in OF_ALL_LOSSES else ("squared",):
                            b, intercept, coding = FeatureLearner(loss=loss).fit(F[target.labeled], target)
                            right = coding.labels(F @ b + intercept) == y
                            own = rate, form.transfer, form.exponent, loss, bandwidth
                            found[own][name].append(100 * float(right[free].mean()))
                alone = SVC(C=10).fit(X[target.labeled], labels[target.labeled]).predict(X)
                found[rate, "svc", None, None, None][name].append(100 * float((alone == y)[free].mean()))
    means = {own: fmean(map(fmean, of.values())) for own, of in found.items()}
    for rate in given.labels:
        for own in sorted((own for own in means if own[0] == rate), key=means.__getitem__, reverse=True):
            _, transfer, exponent, loss, bandwidth = own
            print(json.dumps({"labels": rate, "draw": given.draw, "transfer": transfer, "exponent": exponent,
                              "loss": loss, "bandwidth": bandwidth, "accuracy": round(means[own], 2)}), flush=True)


if __name__ == "__main__":
    main()
