"""Tables made to be like real ones, each from its file to predictions of new rows with nothing edited.

    python -m tests.benchmarks.real_tables [--tables money zip ...] [--rows 400]

One JSON line a table. `dssl init` is not told the target, unless it asks for it or takes another column: `target` is
"found" or "named". `own` is what it took those columns for that are written in their own way, `taken` is that of all,
`said` what it printed; or there is the error that it ended with, `refused`. `error` is that of the run's model on as
many new rows in percent (of a regression: in standard deviations of the target), and `boosting` that of scikit-learn's
histogram gradient boosting on the columns cleaned by hand, with the same labels.

All tables hold the same columns, written in different ways: income, rate, age, plan, region, member; the target is the
class `churn`, or the quantity `spend`.
"""

import argparse
import gzip
import json
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

from dssl.base.errors import DsslError
from dssl.cli.init.first_spec import FirstSpec, first_spec
from dssl.cli.init.first_target import AmbiguousTarget
from dssl.execution.in_process import InProcess
from dssl.pipeline.run import run

CLASS, QUANTITY = "churn", "spend"


@dataclass
class Table:
    """A table as it is written. frame : as text and numbers. target : its column, None where `init` finds none.

    write : how frames become files. error : the words of the error that is due, if one is.
    """

    frame: pd.DataFrame
    target: str | None
    write: Callable[[pd.DataFrame, Path], Path]
    error: str | None = None


def clean(n: int, random_state: int = 0) -> pd.DataFrame:
    """Return rows of the columns that all tables hold, with both targets."""
    rng = np.random.default_rng(random_state)
    frame = pd.DataFrame({
        "income": np.exp(rng.normal(8, 0.6, n)).round(2), "rate": rng.beta(2, 5, n).round(3),
        "age": rng.integers(18, 90, n), "plan": rng.choice(["Basic", "Plus", "Pro"], n, p=[0.5, 0.3, 0.2]),
        "region": rng.choice(["north", "south", "east", "west"], n), "member": rng.random(n) < 0.4})
    score = (np.log(frame.income) - 8) / 0.6 + 6 * (frame.rate - 0.29) + (frame.age - 54) / 30 \
        + frame["plan"].map({"Basic": 1.0, "Plus": 0.0, "Pro": -1.5}) - frame.member
    frame[QUANTITY] = (100 + 20 * score + rng.normal(size=n) * 5).round(2)
    frame[CLASS] = np.where(score + rng.normal(size=n) * 0.5 > score.median(), "leaves", "stays")
    return frame


def csv(name: str = "table.csv", **options: Any) -> Callable[[pd.DataFrame, Path], Path]:
    def write(frame: pd.DataFrame, folder: Path) -> Path:
        frame.to_csv(folder / name, index=False, **options)
        return folder / name
    return write


def parquet(frame: pd.DataFrame, folder: Path) -> Path:
    pq.write_table(pa.Table.from_pandas(frame, preserve_index=False), folder / "table.parquet")
    return folder / "table.parquet"


def fixed_lists(frame: pd.DataFrame, folder: Path) -> Path:
    table = pa.Table.from_pandas(frame.drop(columns="embedding"), preserve_index=False)
    vectors = pa.array(frame["embedding"].tolist(), pa.list_(pa.float32(), 3))
    pq.write_table(table.append_column("embedding", vectors), folder / "table.parquet")
    return folder / "table.parquet"


def parts(frame: pd.DataFrame, folder: Path) -> Path:
    """Write a folder of compressed files."""
    (folder / "parts").mkdir()
    for i, piece in enumerate(np.array_split(np.arange(len(frame)), 3)):
        text = frame.iloc[piece].to_csv(index=False)
        (folder / "parts" / f"part-{i}.csv.gz").write_bytes(gzip.compress(text.encode()))
    return folder / "parts" / "*.csv.gz"


def table(name: str, frame: pd.DataFrame, rng: np.random.Generator) -> Table:
    """Return the rows of a frame as the table of that name."""
    n, target, write = len(frame), CLASS, csv()
    frame = frame.drop(columns=QUANTITY)
    european = {"income": frame.income.map("{:,.2f}".format).str.translate(str.maketrans(",.", ".,")),
                "rate": frame.rate.map("{:.3f}".format).str.replace(".", ",")}
    rare = rng.random(n) < 0.02
    if name == "money":
        frame["income"] = frame.income.map("${:,.2f}".format)
    elif name == "money after":
        frame["income"] = frame.income.map("{:,.2f} EUR".format)
    elif name == "accounting":
        frame["balance"] = [f"({value:,.2f})" if rng.random() < 0.5 else f"{value:,.2f}" for value in frame.income]
    elif name == "percent":
        frame["rate"] = (100 * frame.rate).map("{:.1f}%".format)
    elif name == "units":
        frame["age"], frame["rate"] = frame.age.map("{} years".format), frame.rate.map("{:.3f}ha".format)
    elif name == "bounds":
        frame["rate"] = frame.rate.map("{:.3f}".format).mask(frame.rate < 0.1, "<0.1")
    elif name == "european":
        frame, write = frame.assign(**european), csv(sep=";")
    elif name == "gaps":
        for column, word in (("income", "n.a."), ("rate", "-"), ("age", "unknown")):
            frame[column] = frame[column].astype(object).mask(rng.random(n) < 0.03, word)
    elif name == "odd cells":
        frame["income"] = frame.income.astype(object).mask(rare, "see note")
    elif name == "identifiers":
        frame = frame.assign(id=np.arange(n) + 1000, code=[f"C-{i:05d}" for i in rng.permutation(n)])
    elif name == "zip":
        frame["zip"] = frame.region.map({"north": "00501", "south": "30301", "east": "02101", "west": "90210"})
        frame = frame.drop(columns="region")
    elif name == "free text":
        words = ["good", "bad", "slow", "late", "fine", "again", "never", "price"]
        frame["comment"] = [" ".join(rng.choice(words, 6)) for _ in range(n)]
    elif name == "mixed case":
        frame["plan"] = [rng.choice([plan, plan.lower(), f"{plan} "], p=[0.6, 0.2, 0.2]) for plan in frame["plan"]]
    elif name == "yes and no":
        frame["member"] = frame.member.map({True: "yes", False: "No"})
    elif name == "dates":
        days = pd.Timestamp("2015-01-01") + pd.to_timedelta(rng.integers(0, 3000, n), "D")
        frame["since"] = days.strftime("%d.%m.%Y")
    elif name == "time stamps":
        frame["created"] = 1_700_000_000 + np.sort(rng.integers(0, 10**7, n))
    elif name == "two headers":
        frame, write = frame.assign(more=frame.age), csv(header=[*frame.columns, "age"])
        return Table(frame, target, write, "several columns named 'age'")
    elif name == "labels missing":
        frame[CLASS] = frame[CLASS].mask(rng.random(n) < 0.85, "")
    elif name == "UTF-16":
        frame["region"], write = frame.region.str.replace("north", "nörd"), csv(encoding="utf-16", sep="\t")
    elif name == "mark and index":
        frame, write = pd.concat([pd.Series(np.arange(n), name=""), frame], axis=1), csv(encoding="utf-8-sig", sep=";")
    elif name in ("lists", "fixed lists"):
        vectors = np.column_stack([np.log(frame.income), frame.rate, frame.age / 10])
        frame = frame.drop(columns=["income", "rate", "age"]).assign(embedding=list(vectors))
        write = parquet if name == "lists" else fixed_lists
    elif name == "text in Parquet":
        frame["income"], write = frame.income.map("{:,.2f}".format), parquet
    elif name == "parts":
        write = parts
    return Table(frame, target, write)


NAMES = ["money", "money after", "accounting", "percent", "units", "bounds", "european", "gaps", "odd cells",
         "identifiers", "zip", "free text", "mixed case", "yes and no", "dates", "time stamps", "two headers",
         "labels missing", "UTF-16", "mark and index", "lists", "fixed lists", "text in Parquet", "parts", "quantity"]


def made(name: str, n: int) -> tuple[Table, Table, pd.DataFrame]:
    """Return the table of a name, as many new rows of it, and the clean rows of both."""
    rows = clean(2 * n)
    if name == "quantity":
        rows = rows.drop(columns=CLASS)
        frame = rows.assign(income=rows.income.map("${:,.2f}".format))
        return Table(frame[:n], QUANTITY, csv()), Table(frame[n:], QUANTITY, csv()), rows
    old, new = (table(name, piece.reset_index(drop=True), np.random.default_rng(i))
                for i, piece in enumerate((rows[:n], rows[n:])))
    return old, new, rows.drop(columns=QUANTITY)


def boosted(rows: pd.DataFrame, labels: pd.Series, n: int) -> float:
    """Return the error of gradient boosting on clean columns, of the rows from n on."""
    target = QUANTITY if QUANTITY in rows else CLASS
    X = pd.get_dummies(rows.drop(columns=target)).astype(float)
    known = np.flatnonzero(labels != "")
    if target == QUANTITY:
        model = HistGradientBoostingRegressor(random_state=0).fit(X.iloc[known], rows[target].iloc[known])
        return error_of(rows[target][n:].to_numpy(), model.predict(X[n:]))
    model = HistGradientBoostingClassifier(random_state=0).fit(X.iloc[known], rows[target].iloc[known])
    return error_of(rows[target][n:].to_numpy(), model.predict(X[n:]))


def error_of(y: np.ndarray, predicted: np.ndarray) -> float:
    """Return the wrong ones in percent, or the root mean square error in standard deviations."""
    if y.dtype.kind == "f":
        return round(float(np.sqrt(np.mean((y - predicted) ** 2)) / y.std()), 3)
    return round(100 * float(np.mean(y.astype(str) != predicted.astype(str))), 1)


def without_target(path: Path, target: str | None) -> tuple[FirstSpec, str]:
    """Return the spec that `init` writes, and whether it has found the target, or it had to be named."""
    try:
        spec = first_spec([str(path)], {}, InProcess(1))
        if spec.target == target:
            return spec, "found"
    except AmbiguousTarget:
        pass
    return first_spec([str(path)], {}, InProcess(1), target=target), "named"


def is_own(column: str, frame: pd.DataFrame, rows: pd.DataFrame) -> bool:
    """Return whether a table writes a column in its own way."""
    if column not in rows or column not in frame:
        return True
    return frame[column].astype(str).tolist() != rows[column][:len(frame)].astype(str).tolist()


def tried(name: str, n: int, folder: Path) -> dict[str, Any]:
    """Return what became of a table."""
    old, new, rows = made(name, n)
    path = old.write(old.frame, folder)
    (folder / "new").mkdir()
    line: dict[str, Any] = {"table": name, "boosting": boosted(rows, old.frame[old.target], n)}
    try:
        spec, line["target"] = without_target(path, old.target)
        taken = {record["name"]: record["finding"] or record["kind"] for record in spec.records}
        own = {column: kind for column, kind in taken.items() if is_own(column.split("[")[0], old.frame, rows)}
        line |= {"own": own, "taken": taken, "said": spec.messages}
        (folder / "spec.yaml").write_text(spec.text)
        result = run(folder / "spec.yaml", workspace=folder / "work", execution=InProcess(1))
        source = new.write(new.frame.drop(columns=old.target), folder / "new")
        line["error"] = error_of(rows[old.target][n:].to_numpy(), np.asarray(result.predict(str(source))))
    except DsslError as error:
        line["refused"] = str(error)
    line["as expected"] = (old.error in line.get("refused", "")) if old.error else "error" in line
    return line


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", nargs="+", default=NAMES, choices=NAMES)
    parser.add_argument("--rows", type=int, default=400)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    for name in arguments.tables:
        with tempfile.TemporaryDirectory() as folder:
            print(json.dumps(tried(name, arguments.rows, Path(folder)), ensure_ascii=False), flush=True)


if __name__ == "__main__":
    main()
