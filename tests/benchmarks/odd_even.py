"""MNIST odd against even, several draws of the labels: the deformed kernel against the base kernel.

    DSSL_DATA=... python -m tests.benchmarks.odd_even --draws 10 --workspace /tmp/odd_even

Writes one JSON line a draw and one with the means. The graph is made once; each draw of labels and landmarks has its
own solves. The test points are the pipeline's 500 unless --test says otherwise.
"""

import argparse
import json
from pathlib import Path

import numpy as np

from dssl.pipeline.run import run
from dssl.runtime.start import open_runtime

SPEC = Path(__file__).parents[2] / "pipelines" / "mnist_odd_even.yaml"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--labels", type=int, default=100)
    parser.add_argument("--test", type=int, default=500)
    parser.add_argument("--workspace", default="dssl-work")
    parser.add_argument("--on", default=str(SPEC.parents[1] / "cluster" / "local.yaml"))
    parser.add_argument("--set", action="append", default=[])
    arguments = parser.parse_args()
    errors = []
    with open_runtime(arguments.on) as (execution, where):
        for draw in range(arguments.draws):
            overrides = ("selection=null", "baselines=[base, shuffled]", f"labels.count={arguments.labels}",
                         f"labels.random_state={draw}", f"model.random_state={draw}",
                         f"data.test.count={arguments.test}", *arguments.set)
            result = run(SPEC, set=overrides, workspace=arguments.workspace, execution=execution)
            errors.append([result.metrics["error"], *(result.baselines[name]["error"] for name in
                                                         ("base", "shuffled"))])
            seconds = {stage.name: stage.seconds for stage in result.stages if stage.status == "done"}
            print(json.dumps({"draw": draw, "model": errors[-1][0], "base": errors[-1][1], "shuffled": errors[-1][2],
                              "seconds": seconds}), flush=True)
    table = np.array(errors)
    gain = table[:, 1] - table[:, 0]
    print(json.dumps({
        "data": "mnist, 64,000 points", "labels": arguments.labels, "test": arguments.test, "draws": len(table),
        "where": where, "set": arguments.set, "mean_error": dict(zip(("model", "base", "shuffled"),
                                                                    table.mean(axis=0).round(4).tolist(), strict=True)),
        "gain": round(float(gain.mean()), 4), "gain_standard_error": round(float(gain.std(ddof=1) / len(gain)**0.5), 4),
        "smallest_gain": round(float(gain.min()), 4)}))


if __name__ == "__main__":
    main()
