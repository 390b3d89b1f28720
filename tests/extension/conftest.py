"""A table of two moons, and the commands of a pipeline on it, run in this process, which knows what tests register."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from ruamel.yaml import YAML

from dssl.base.plugins import Registry
from dssl.cli.main import main

from ..figures import undrawn
from ..moons import moons_spec

Pipeline = Callable[[dict[str, Any]], "Commands"]
HERE = ("--on", "in-process")


class Commands:
    """The commands on one pipeline file: `plan`, `run`, `page` and `predicted`."""

    def __init__(self, spec: dict[str, Any], folder: Path) -> None:
        self.spec, self.folder, self.file = spec, folder, folder / "spec.yaml"
        YAML().dump(spec, self.file)
        self.common = (str(self.file), "--workspace", str(folder / "work"), "--json")

    def __call__(self, *arguments: str) -> str:
        """Return what a command prints; it must succeed."""
        done = CliRunner().invoke(main, list(arguments))
        assert done.exit_code == 0, (done.stderr, done.exception)
        return done.stdout

    def plan(self) -> dict[str, dict[str, Any]]:
        """Return the stages of the plan by name."""
        return {stage["name"]: stage for stage in json.loads(self("plan", *self.common))["stages"]}

    def run(self) -> dict[str, Any]:
        """Return the result of the run."""
        self.result: dict[str, Any] = json.loads(self("run", *self.common, *HERE))
        return self.result

    def page(self) -> str:
        """Return the report of the run."""
        return Path(self.result["report"]).read_text(encoding="utf-8")

    def predicted(self) -> list[str]:
        """Return the classes that the model of the run predicts for the rows of the source."""
        out = self.folder / "predicted.csv"
        self("predict", str(Path(self.result["report"]).parent), str(self.spec["data"]["source"]), str(out),
             *HERE)
        head, *lines = out.read_text(encoding="utf-8").splitlines()
        return [line.split(",")[head.split(",").index("label")] for line in lines]


@pytest.fixture(scope="package", autouse=True)
def _figures() -> Iterator[None]:
    with undrawn():
        yield


@pytest.fixture
def moons(tmp_path) -> dict[str, Any]:
    """A spec, without a model, of 160 points."""
    return moons_spec(tmp_path, 160)


@pytest.fixture
def pipeline(tmp_path) -> Pipeline:
    """Return the commands on a spec, which is written as YAML."""
    return lambda spec: Commands(spec, tmp_path)


@pytest.fixture
def registered(monkeypatch) -> Callable[[Registry[Any], type], None]:
    """Register a class for one test."""
    def register(registry: Registry[Any], cls: type) -> None:
        monkeypatch.setattr(registry, "_classes", dict(registry._classes))
        registry.register(cls)
    return register
