"""`data.test.column` and `data.test.groups`: test rows that a column marks, and groups of rows that stay together."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dssl.base.errors import DataError, DsslError, SpecError
from dssl.execution.in_process import InProcess
from dssl.pipeline import marked_tests, rows_in_use, split
from dssl.pipeline.load import load_spec
from dssl.pipeline.plan.plan import plan
from dssl.pipeline.run import run

from .split_arrays import split_arrays

N, PATIENTS = 600, 40


@pytest.fixture
def visits():
    """Visits of patients, 5 to 30 each, who differ more than their visits; a third of the rows has no label."""
    rng = np.random.default_rng(0)
    patient = np.sort(np.concatenate([np.arange(PATIENTS), rng.integers(0, PATIENTS, N - PATIENTS)]))
    sick = rng.random(PATIENTS) < 0.4
    points = rng.normal(size=(PATIENTS, 5))[patient] * 3 + rng.normal(size=(N, 5)) * 0.3
    table = pd.DataFrame(points, columns=list("abcde"))
    table["a"] += sick[patient]
    table.insert(0, "patient", [f"P-{number:03d}" for number in patient])
    table["state"] = np.where(rng.random(N) < 1 / 3, None, np.where(sick[patient], "sick", "well"))
    return table


def spec_of(path, test, **data):
    return {"name": "visits", "data": {"source": str(path), "read": {"target": "state"}, "test": test, **data},
            "labels": {"given": True}, "model": {"kind": "laprls"}}


def split_of(tmp_path, table, test, *, name="visits.csv", until="split", **data):
    path = tmp_path / name
    table.to_parquet(path) if path.suffix == ".parquet" else table.to_csv(path, index=False)
    spec = spec_of(path, test, **data)
    run(spec, workspace=tmp_path / "work", execution=InProcess(1), until=until)
    artifact = plan(spec, workspace=tmp_path / "work").artifact("split")
    return split_arrays(artifact.parts), artifact.attributes


@pytest.mark.parametrize("name", ["visits.csv", "visits.parquet"])
def test_groups_are_tested_as_a_whole(tmp_path, visits, name, monkeypatch):
    for module in (split, rows_in_use, marked_tests):
        monkeypatch.setattr(module, "DRAW_ROWS", 90)
    rows, attributes = split_of(tmp_path, visits, {"fraction": 0.2, "groups": "patient"}, name=name)
    patient, is_known = visits["patient"].to_numpy(), visits["state"].notna().to_numpy()
    tested = set(patient[rows["test"]])
    assert tested
    assert not tested & set(patient[rows["train"]])
    assert set(rows["test"]) == set(np.flatnonzero(np.isin(patient, list(tested)) & is_known))
    assert set(rows["train"]) == set(np.flatnonzero(~np.isin(patient, list(tested))))  # those without a label too
    assert attributes["groups"] == {"column": "patient", "n": PATIENTS, "n_tested": len(tested),
                                    "n_labeled": is_known.sum(), "fraction": 0.2}
    assert abs(len(rows["test"]) / is_known.sum() - 0.2) < 0.03
    assert set(visits["state"][rows["train"]].dropna()) == {"sick", "well"}


def test_the_column_is_no_feature_and_other_seeds_draw_other_groups(tmp_path, visits):
    first, _ = split_of(tmp_path, visits, {"fraction": 0.2, "groups": "patient"})
    again, _ = split_of(tmp_path, visits.sample(frac=1, random_state=0), {"fraction": 0.2, "groups": "patient"},
                        name="shuffled.csv")
    other, _ = split_of(tmp_path, visits, {"fraction": 0.2, "groups": "patient"}, random_state=1)
    patient = visits["patient"].to_numpy()
    shuffled = visits.sample(frac=1, random_state=0)["patient"].to_numpy()
    assert set(patient[first["test"]]) == set(shuffled[again["test"]]) != set(patient[other["test"]])
    attributes = plan(spec_of(tmp_path / "visits.csv", {"fraction": 0.2, "groups": "patient"}),
                      workspace=tmp_path / "work").artifact("dataset").attributes["dataset"]
    assert attributes["feature_names"] == list("abcde")


def test_numbers_name_the_same_group_with_and_without_a_fraction(tmp_path, visits):
    visits["patient"] = visits["patient"].str[2:].astype(int)
    whole, _ = split_of(tmp_path, visits, {"fraction": 0.2, "groups": "patient"})
    visits["patient"] = visits["patient"].astype(float)
    fractions, _ = split_of(tmp_path, visits, {"fraction": 0.2, "groups": "patient"}, name="fractions.csv")
    assert (whole["test"] == fractions["test"]).all()


@pytest.mark.slow
def test_errors_of_drawn_rows_are_too_low_for_new_groups(tmp_path, visits):
    (tmp_path / "visits.csv").write_text(visits.to_csv(index=False))
    errors = {}
    for name, test in (("rows", {"fraction": 0.2}), ("groups", {"fraction": 0.2, "groups": "patient"})):
        read = {"target": "state", **({"drop": ["patient"]} if name == "rows" else {})}
        result = run({**spec_of(tmp_path / "visits.csv", test, read=read), "model": {"kind": "automatic"}},
                     workspace=tmp_path / name, execution=InProcess(1))
        errors[name] = result.metrics["error"]
    assert errors["rows"] < 0.05 < 0.2 < errors["groups"]
    report = (result.folder / "report.html").read_text(encoding="utf-8")
    assert "say what to expect of new groups" in report
    assert "of them are tested" in report


@pytest.mark.parametrize("marks", [("train", "test"), ("Training", " TEST "), (0, 1), (False, True), (0.0, 1.0)])
@pytest.mark.parametrize("name", ["visits.csv", "visits.parquet"])
def test_a_column_marks_the_test_rows(tmp_path, visits, marks, name):
    is_test = np.arange(N) % 3 == 0
    visits["patient"] = np.array(marks, object if isinstance(marks[0], str) else None)[is_test.astype(int)]
    rows, attributes = split_of(tmp_path, visits, {"column": "patient"}, name=name)
    assert set(rows["test"]) == set(np.flatnonzero(is_test & visits["state"].notna()))
    assert set(rows["train"]) == set(np.flatnonzero(~is_test))
    assert attributes["n_rest"] == (is_test & visits["state"].isna()).sum()


@pytest.mark.parametrize("test", [{"fraction": 0.25, "groups": "patient"}, {"column": "part"}])
def test_new_rows_of_a_group_stay_where_it_is(tmp_path, visits, test):
    folder = tmp_path / "in"
    folder.mkdir()
    visits["part"] = np.where(np.arange(N) % 4 == 0, "test", "train")
    patient = visits["patient"].to_numpy()
    new = (np.arange(N) % 40 == 0) | (patient >= "P-036")
    spec = spec_of(folder, test, grows=True, random_state=2)
    spec["data"] |= {"source": str(folder / "*.csv"),
                     "read": {"target": "state", "drop": ["part" if "groups" in test else "patient"]}}
    for name, some, until in (("old", ~new, None), ("other", new, "labels")):
        visits[some].to_csv(folder / f"{name}.csv", index=False)
        run(spec, workspace=tmp_path / "work", execution=InProcess(1), until=until)
        artifact = plan(spec, workspace=tmp_path / "work").artifact("split")
        if until is None:
            before = split_arrays(artifact.parts)
    rows = split_arrays(artifact.parts)
    assert artifact.attributes["base"]["test"] == len(before["test"])
    both = pd.concat([visits[~new], visits[new]])
    n_old = int((~new).sum())
    for name in ("train", "test"):
        assert (rows[name][rows[name] < n_old] == before[name]).all()
    known = np.flatnonzero(both["state"].notna())
    if "column" in test:
        assert set(rows["test"]) == set(np.flatnonzero(both["part"] == "test")) & set(known)
        return
    names = both["patient"].to_numpy()
    tested = set(names[before["test"]])
    assert tested
    of_old = np.flatnonzero(names < "P-036")
    assert set(rows["test"]) & set(of_old) == set(of_old[np.isin(names[of_old], list(tested))]) & set(known)
    assert not set(names[rows["test"]]) & set(names[rows["train"]])
    assert any(name >= "P-036" for name in names[rows["test"]])


def test_rows_that_are_not_in_use_or_unlabeled_need_no_group(tmp_path, visits):
    visits.loc[visits["state"].isna(), "patient"] = ""
    visits.loc[5:9, ["patient", "state"]] = "", "unsure"
    rows, _ = split_of(tmp_path, visits, {"fraction": 0.2, "groups": "patient"}, keep=["sick", "well"])
    assert len(rows["test"])
    assert not set(range(5, 10)) & {*rows["test"], *rows["train"]}


@pytest.mark.parametrize("name", ["ND", "unknown", "-"])
def test_a_group_may_be_called_like_a_gap_of_numbers(tmp_path, visits, name):
    visits["patient"] = visits["patient"].replace("P-001", name)
    _, attributes = split_of(tmp_path, visits, {"fraction": 0.2, "groups": "patient"})
    assert attributes["groups"]["n"] == PATIENTS


def test_na_is_a_group_where_a_format_has_nulls(tmp_path, visits):
    visits["patient"] = visits["patient"].replace("P-001", "NA")
    _, attributes = split_of(tmp_path, visits, {"fraction": 0.2, "groups": "patient"}, name="visits.parquet")
    assert attributes["groups"]["n"] == PATIENTS
    with pytest.raises(DataError, match=r"is 'NA', and at least \d+ more rows"):
        split_of(tmp_path, visits, {"fraction": 0.2, "groups": "patient"})


def test_quantities_and_tags_have_groups_too(tmp_path, visits):
    visits["size"] = np.where(visits["state"].isna(), np.nan, visits["a"] + visits["b"])
    visits["marks"] = np.where(visits["state"].isna(), None, np.where(visits["a"] > 0, "red;big", "red"))
    patient = visits["patient"].to_numpy()
    for number, data in enumerate((
            {"task": "regression", "read": {"target": "size", "drop": ["state", "marks"]}},
            {"tags": {"column": "marks", "separator": ";"}, "read": {"drop": ["state", "size"]}})):
        rows, attributes = split_of(tmp_path, visits, {"fraction": 0.2, "groups": "patient"}, name=f"{number}.csv",
                                    **data)
        assert attributes["groups"]["n"] == PATIENTS
        assert attributes["n_test"] > 50
        assert attributes["n_rest"] > 10  # without a label
        assert not set(patient[rows["test"]]) & set(patient[rows["train"]])


def test_several_files_are_one_table(tmp_path, visits):
    (tmp_path / "parts").mkdir()
    visits[:250].to_csv(tmp_path / "parts" / "a.csv", index=False)
    visits[250:].to_csv(tmp_path / "parts" / "b.csv", index=False)
    one, _ = split_of(tmp_path, visits, {"fraction": 0.2, "groups": "patient"})
    several, _ = split_of(tmp_path, visits, {"fraction": 0.2, "groups": "patient"}, name="visits.parquet",
                          source=str(tmp_path / "parts" / "*.csv"))
    assert (one["test"] == several["test"]).all()


@settings(max_examples=60, deadline=None)
@given(sizes=st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8)), min_size=1, max_size=30).filter(np.any),
       fraction=st.sampled_from([0.05, 0.2, 0.5]))
def test_every_class_keeps_a_training_row_whatever_the_groups(sizes, fraction):
    pairs = pd.DataFrame([(np.uint64(group), stratum, n) for group, of_group in enumerate(sizes)
                          for stratum, n in enumerate(of_group) if n], columns=["group", "stratum", "n"])
    pairs["group"] = pairs["group"].astype(np.uint64)
    of_group, n_of_class = pairs.groupby("group")["n"].sum(), pairs.groupby("stratum")["n"].transform("sum")
    alone = pairs["group"][pairs["n"] == n_of_class]
    fit = [group for group, n in of_group.items() if n / 2 <= fraction * pairs["n"].sum() and group not in set(alone)]
    if not fit:
        with pytest.raises(DataError, match="can be tested"):
            marked_tests.drawn_groups(pairs, "patient", fraction)
        return
    tested = marked_tests.drawn_groups(pairs, "patient", fraction)
    left = pairs[~pairs["group"].isin(tested)]
    assert set(left["stratum"]) == set(pairs["stratum"])
    assert 0 < of_group[tested].sum() <= fraction * pairs["n"].sum() + of_group.max() / 2


@pytest.mark.parametrize(("change", "test", "message"), [
    ({"patient": ""}, {"fraction": 0.2, "groups": "patient"}, r"row 0 .*line 2.* of the column 'patient' is empty"),
    ({"patient": "one"}, {"fraction": 0.2, "groups": "patient"}, "none of the 1 groups of 'patient' can be tested"),
    ({"patient": "maybe"}, {"column": "patient"}, r"row 0 .*line 2.* of the column 'patient' is 'maybe'"),
    ({"patient": "train"}, {"column": "patient"}, "no row says test in the column 'patient'"),
    ({"patient": "test"}, {"column": "patient"}, "no row says train in the column 'patient'"),
    ({}, {"column": "patinet"}, "did you mean patient"),
    ({}, {"fraction": 0.2, "groups": "nobody"}, "no such column"),
])
def test_what_cannot_be_is_refused(tmp_path, visits, change, test, message):
    with pytest.raises(DataError, match=message):
        split_of(tmp_path, visits.assign(**change), test)


@pytest.mark.parametrize(("test", "message"), [
    ({"groups": "patient"}, "groups='patient', without fraction"),
    ({"groups": "patient", "count": 3}, "without fraction"),
    ({"column": "patient", "fraction": 0.2}, "exactly one of count, fraction, column"),
    ({"column": "state"}, "data.read.target names that column too"),
])
def test_contradictions_are_refused(tmp_path, test, message):
    with pytest.raises(SpecError, match=message):
        load_spec(spec_of(tmp_path / "visits.csv", test))


@pytest.mark.parametrize(("read", "test", "message"), [
    ({"keep_ids": ["patient"]}, {"fraction": 0.2, "groups": "patient"}, "data.read.keep_ids names that column too"),
    ({"categories": ["patient"]}, {"column": "patient"}, "data.read.categories names that column too"),
    ({"split": "part"}, {"fraction": 0.2}, r"data.read.split='part', and data.test does not use it"),
])
def test_columns_that_are_read_in_two_ways_are_refused(tmp_path, read, test, message):
    with pytest.raises(SpecError, match=message):
        load_spec(spec_of(tmp_path / "visits.npz", test, read=read))


def test_a_source_without_columns_by_name_is_refused(tmp_path, visits):
    np.savez(tmp_path / "visits.npz", X=np.ones((9, 2)), y=np.arange(9) % 2)
    with pytest.raises(DsslError, match=r"name it in data\.read\.split"):
        plan({**spec_of(tmp_path / "visits.npz", {"column": "patient"}, read={})}, workspace=tmp_path / "work")


@pytest.mark.parametrize("test", [{"fraction": 0.2, "groups": "patient"}, {"column": "part"}])
def test_a_plan_bounds_what_a_run_finds(tmp_path, visits, test):
    visits["part"] = np.where(np.arange(N) % 4 == 0, "test", "train")
    read = {"target": "state", "drop": ["part" if "groups" in test else "patient"]}
    visits.to_csv(tmp_path / "visits.csv", index=False)
    inputs = plan(spec_of(tmp_path / "visits.csv", test, read=read), workspace=tmp_path / "work").inputs
    _, attributes = split_of(tmp_path, visits, test, read=read)
    for name, bounded in (("n_test", inputs.test_points), ("n_train", inputs.training_points)):
        assert bounded.lower <= attributes[name] <= bounded.upper
    if "groups" in test:
        assert inputs.test_points.upper <= 0.41 * N


def test_groups_of_one_row_take_no_more_memory_than_predicted(tmp_path):
    n = 60_000
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"patient": rng.permutation(n), "a": rng.normal(size=n), "state": rng.integers(0, 3, n)})
    table.to_parquet(tmp_path / "visits.parquet")
    spec = spec_of(tmp_path / "visits.parquet", {"fraction": 0.2, "groups": "patient"})
    for attempt in range(3):  # what other tests have begun in this process may take some for a moment
        result = run(spec, workspace=tmp_path / f"work{attempt}", execution=InProcess(1), until="split")
        stage = next(stage for stage in result.stages if stage.name == "split")
        if stage.measured_peak_bytes <= stage.predicted_peak_bytes:
            break
    assert marked_tests.OF_GROUP * n < stage.measured_peak_bytes * 3
    assert stage.measured_peak_bytes <= stage.predicted_peak_bytes
    assert plan(spec, workspace=tmp_path / f"work{attempt}").artifact("split").attributes["n_test"] == n // 5


def test_an_official_split_without_training_rows_is_refused(tmp_path):
    np.savez(tmp_path / "all.npz", X=np.arange(40.0).reshape(20, 2), y=np.arange(20) % 2, split=np.ones(20, np.uint8))
    with pytest.raises(DataError, match="all rows are test rows"):
        run(spec_of(tmp_path / "all.npz", {"official": True}, read={}), workspace=tmp_path / "work",
            execution=InProcess(1), until="split")
