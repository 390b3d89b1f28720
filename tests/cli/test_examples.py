"""`dssl examples`: what comes with the package is listed, copied and run."""

import json
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from dssl.cli.main import main
from dssl.pipeline.load import load_spec

PIPELINES = Path(__file__).parents[2] / "pipelines"


def dssl(*arguments):
    return CliRunner().invoke(main, ["examples", *map(str, arguments)])


def test_all_pipelines_are_listed_with_what_they_need(monkeypatch, tmp_path):
    monkeypatch.setenv("DSSL_DATA", str(tmp_path))
    listed = {row["name"]: row for row in json.loads(dssl("--json").stdout)}
    assert set(listed) == {path.stem for path in PIPELINES.glob("*.yaml")}
    assert {name for name, row in listed.items() if row["is_here"]} == {
        "quickstart", "digits_svm", "two_moons_clustering", "two_moons_multiscale", "wine", "million"}
    text = dssl().stdout
    assert "needs mnist in the folder DSSL_DATA" in text
    assert all(len(line) < 200 for line in text.splitlines())


def test_a_copy_has_its_data_beside_it_and_overwrites_nothing(tmp_path, monkeypatch):
    result = dssl("copy", "wine", tmp_path / "new")
    assert result.exit_code == 0
    assert result.stdout.split() == [str(tmp_path / "new" / name) for name in ("wine.yaml", "wine.csv")]
    monkeypatch.chdir(tmp_path / "new")
    assert load_spec("wine.yaml").name == "wine"
    again = dssl("copy", "wine", tmp_path / "new")
    assert again.exit_code == 2
    assert "nothing is overwritten" in again.stderr
    (tmp_path / "new" / "wine.yaml").unlink()
    assert dssl("copy", "wine", tmp_path / "new").exit_code == 2  # the data are there
    assert not (tmp_path / "new" / "wine.yaml").exists()


@pytest.mark.parametrize("command", ["copy", "run"])
def test_a_name_that_is_none_is_an_error(command):
    result = dssl(command, "win")
    assert result.exit_code == 2
    assert "there is no example 'win'" in result.stderr
    assert "quickstart" in result.stderr


def test_an_example_runs_from_any_folder_with_the_options_of_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = dssl("run", "wine", "--on", "in-process", "--workspace", tmp_path / "w", "--until", "points", "--quiet")
    assert result.exit_code == 0, result.output
    assert "wine: stopped after points" in result.stdout
    assert dssl("run", "quickstart", "--no-such-option").exit_code == 2


@pytest.mark.parametrize(("arguments", "usage"), [
    (["run", "--help"], "run [OPTIONS] NAME [OPTIONS]..."), (["run", "wine", "--help"], "run [OPTIONS] SPEC")])
def test_help_is_given_of_examples_and_of_a_run(arguments, usage):
    result = dssl(*arguments)
    assert result.exit_code == 0
    assert result.stdout.startswith("Usage: ")
    assert result.stdout.splitlines()[0].endswith(usage)


def test_each_example_begins_with_what_it_is():
    for path in PIPELINES.glob("*.yaml"):
        text = path.read_text(encoding="utf-8")
        assert text.startswith("# "), path.name
        assert yaml.safe_load(text)["name"] == path.stem or path.name == "cluster_kernels_uci.yaml", path.name
