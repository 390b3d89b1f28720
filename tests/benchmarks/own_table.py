"""From a table with an id, missing cells, a category, text labels and empty labels to predictions with probabilities.

    python -m tests.benchmarks.own_table [--folder FOLDER]

Two moons of 1,200 rows, 60 of them labeled, whose truth is known, and 300 new rows with other ids, a category that is
new and five lengths far out of range. A JSON line for each command, with its seconds, and one of the errors of the
predictions in percent: of all new rows, of those that `--reject` lets have a label, and of those of them without a
missing cell.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.datasets import make_moons

DSSL = [sys.executable, "-c", "from dssl.cli.main import main; main()"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, help="where the files stay")
    folder = parser.parse_args().folder
    with tempfile.TemporaryDirectory() as temporary:
        run_in(folder or Path(temporary))


def run_in(folder: Path) -> None:
    """Write the tables into a folder, and go from one to the other with the commands of the README."""
    truth = write_tables(folder)
    command(folder, "init", "points.csv")
    document = json.loads(command(folder, "run", "points.yaml", "--json"))
    model = str(Path(document["report"]).with_name("result.json"))
    for name, options in (("all.csv", []), ("sure.csv", ["--probabilities", "--reject"])):
        command(folder, "predict", model, "new.csv", name, *options)
    everything, sure = (pd.read_csv(folder / name) for name in ("all.csv", "sure.csv"))
    whole = pd.read_csv(folder / "new.csv")[["length_mm", "weight_kg"]].notna().all(axis=1)
    labeled = sure["label"].notna()
    print(json.dumps({
        "test_error": round(100 * document["metrics"]["error"], 1), "columns": list(sure.columns),
        "without_a_label": int((~labeled).sum()), **{f"error_of_{name}": round(100 * float(
            (found["label"] != truth)[rows].mean()), 1) for name, found, rows in (
                ("all", everything, slice(None)), ("labeled", sure, labeled), ("whole", sure, labeled & whole))}}))


def write_tables(folder: Path) -> pd.Series:
    """Write points.csv and new.csv, and return the true labels of the new rows."""
    rng = np.random.default_rng(0)
    X, y = make_moons(1500, noise=0.08, random_state=0)
    table = pd.DataFrame({
        "id": np.r_[1000:2200, 5000:5300], "length_mm": np.round(100 * X[:, 0] + 300, 1),
        "weight_kg": np.round(2 * X[:, 1] + 5, 3), "noise": rng.normal(size=1500).round(3),
        "site": rng.choice(["north", "south", "east"], 1500)})
    truth = pd.Series(np.where(y == 1, "sick", "healthy"))
    for column in ("length_mm", "weight_kg", "noise"):
        table.loc[rng.random(1500) < 0.02, column] = np.nan
    table.loc[1200:1202, "site"] = "west"
    table.loc[1203:1207, "length_mm"] = [-800, 3000, 10_000, 5000, -500]
    status = truth.where(rng.permutation(1500) < 75, "")
    table[:1200].assign(status=status[:1200]).to_csv(folder / "points.csv", index=False)
    table[1200:].to_csv(folder / "new.csv", index=False)
    return truth[1200:].reset_index(drop=True)


def command(folder: Path, *arguments: str) -> str:
    """Run a command of dssl in a folder, tell how long it took, and return what it printed."""
    begin = time.perf_counter()
    done = subprocess.run([*DSSL, *arguments], cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    command_text = " ".join(["dssl", *(part if "/" not in part else f"…/{Path(part).name}" for part in arguments)])
    seconds = round(time.perf_counter() - begin, 1)
    print(json.dumps({"command": command_text, "seconds": seconds}, ensure_ascii=False), flush=True)
    return done.stdout


if __name__ == "__main__":
    main()
