"""From the wheel alone to predictions where only NumPy is installed: each command with its seconds.

    python -m tests.benchmarks.wheel

The wheel is built from this repository, and all commands run in an empty folder. Three environments are made: one that
builds, one with the wheel, one with NumPy. The last program compares its labels with those of `dssl predict`. A JSON
line for each command: its seconds, and those of the processor in it and its children.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.datasets import make_moons

REPOSITORY = Path(__file__).parents[2]
NUMPY_ALONE = """\
import csv, sys
import numpy as np
sys.path.insert(0, "moons.dssl.zip")
import dssl_model
X = np.loadtxt("new.csv", delimiter=",", skiprows=1)
labels = dssl_model.load("moons.dssl.zip").predict(X)
predicted = [row["label"] for row in csv.DictReader(open("labels.csv"))]
assert len(predicted) == len(X) and list(labels) == predicted and "dssl" not in sys.modules
"""


def write_tables(folder: Path) -> None:
    """Write 1,200 rows, ten of which have a label, and 300 new rows."""
    X, y = make_moons(1500, noise=0.08, random_state=0)
    table = pd.DataFrame(X, columns=["length", "width"])
    labeled = np.isin(np.arange(1200), np.concatenate([np.flatnonzero(y[:1200] == code)[:5] for code in (0, 1)]))
    kinds = np.where(labeled, np.array(["a", "b"])[y[:1200]], "")
    table[:1200].assign(kind=kinds).to_csv(folder / "points.csv", index=False)
    table[1200:].to_csv(folder / "new.csv", index=False)


def timed(step: str, folder: Path, *command: str | Path) -> str:
    """Run a command in a folder, print its seconds, and return what it wrote to standard output."""
    begin, before = time.perf_counter(), _processor()
    done = subprocess.run([str(part) for part in command], cwd=folder, capture_output=True, text=True, check=False,
                          env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"})
    if done.returncode:
        raise SystemExit(f"{step}: {done.stdout}{done.stderr}")
    print(json.dumps({"step": step, "s": round(time.perf_counter() - begin, 1),
                      "processor s": round(_processor() - before, 1), "load": round(os.getloadavg()[0], 1)}),
          flush=True)
    return done.stdout


def _processor() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def in_folder(folder: Path) -> None:
    environments, work = folder / "environments", folder / "work"
    work.mkdir()
    tools, user, numpy_alone = (environments / name / "bin" for name in ("tools", "user", "numpy"))
    timed("pip: an environment with build", folder, sys.executable, "-m", "venv", tools.parent)
    timed("pip: install build", folder, tools / "pip", "install", "-q", "build")
    timed("build the wheel", folder, tools / "python", "-m", "build", "--wheel", "--outdir", folder, REPOSITORY)
    (wheel,) = folder.glob("dssl-*.whl")
    timed("pip: an environment for dssl", folder, sys.executable, "-m", "venv", user.parent)
    timed("pip: install the wheel", work, user / "pip", "install", "-q", wheel)
    timed("dssl examples copy quickstart", work, user / "dssl", "examples", "copy", "quickstart")
    timed("dssl run quickstart.yaml (the first run)", work, user / "dssl", "run", "quickstart.yaml")
    write_tables(work)
    timed("dssl init points.csv", work, user / "dssl", "init", "points.csv")
    document = json.loads(timed("dssl run points.yaml", work, user / "dssl", "run", "points.yaml", "--json"))
    model = Path(document["report"]).with_name("result.json")
    timed("dssl predict", work, user / "dssl", "predict", model, "new.csv", "labels.csv")
    timed("dssl export", work, user / "dssl", "export", model, "moons.dssl.zip")
    timed("pip: an environment with NumPy", folder, sys.executable, "-m", "venv", numpy_alone.parent)
    timed("pip: install numpy", folder, numpy_alone / "pip", "install", "-q", "numpy")
    timed("load and predict, NumPy alone", work, numpy_alone / "python", "-c", NUMPY_ALONE)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        in_folder(Path(temporary))
