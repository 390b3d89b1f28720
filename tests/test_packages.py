"""The packages: what they say of themselves agrees, and a wheel by itself begins with an example."""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

REPOSITORY = Path(__file__).parents[1]
OF_CONDA = {"dask-core": "dask", "matplotlib-base": "matplotlib", "ruamel.yaml": "ruamel-yaml"}


@pytest.fixture(scope="module")
def project():
    return tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_the_conda_recipe_has_the_version_and_the_dependencies_of_the_wheel(project):
    recipe = yaml.safe_load((REPOSITORY / "conda" / "recipe.yaml").read_text(encoding="utf-8"))
    assert recipe["context"]["version"] == project["version"]
    entries = [text.split(" ") for text in recipe["requirements"]["run"] if not text.startswith("python ")]
    assert {OF_CONDA.get(name, name): bound for name, bound in entries} == {
        required.name: str(required.specifier) for required in map(Requirement, project["dependencies"])}
    assert f">={recipe['context']['python_min']}" == project["requires-python"]


def test_a_release_writes_the_checksum_of_its_sdist_into_the_recipe(tmp_path):
    workflow = yaml.safe_load((REPOSITORY / ".github/workflows/release.yml").read_text(encoding="utf-8"))
    (command,) = (step["run"] for step in workflow["jobs"]["build"]["steps"] if "sha256sum" in step.get("run", ""))
    (tmp_path / "dist").mkdir()
    (tmp_path / "dist" / "dssl-0.1.0.tar.gz").write_bytes(b"packed")
    (tmp_path / "dist" / "dssl-0.1.0-py3-none-any.whl").write_bytes(b"wheel")
    (tmp_path / "conda").mkdir()
    shutil.copy(REPOSITORY / "conda" / "recipe.yaml", tmp_path / "conda")
    subprocess.run(["bash", "-ec", command], cwd=tmp_path, check=True)
    recipe = yaml.safe_load((tmp_path / "conda" / "recipe.yaml").read_text(encoding="utf-8"))
    assert recipe["source"]["sha256"] == hashlib.sha256(b"packed").hexdigest()


def test_the_citation_has_the_version_of_the_wheel(project):
    citation = yaml.safe_load((REPOSITORY / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == project["version"]
    assert citation["license"] == project["license"]


@pytest.mark.parametrize("path", sorted(REPOSITORY.glob(".github/**/*.yml")), ids=lambda path: path.stem)
def test_forms_and_workflows_are_yaml_with_what_the_forge_asks_for(path):
    document = yaml.safe_load(path.read_text(encoding="utf-8"))
    if path.parent.name == "workflows":
        assert all(job["steps"] and job["runs-on"] for job in document["jobs"].values())
    else:
        assert document["name"]
        assert document["description"]
        assert all(item["attributes"]["label"] for item in document["body"])


def test_the_commands_for_contributors_name_what_is_there():
    text = (REPOSITORY / "CONTRIBUTING.md").read_text(encoding="utf-8")
    for path in re.findall(r"\btests/[\w./]+|\bdocs/[\w./]+", text):
        assert (REPOSITORY / path.rstrip(".")).exists(), path


@pytest.mark.slow
def test_a_wheel_by_itself_begins_an_example_in_an_empty_folder(tmp_path):
    subprocess.run([sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", tmp_path, REPOSITORY], check=True)
    (wheel,) = tmp_path.glob("dssl-*-py3-none-any.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        archive.extractall(tmp_path / "site")
    assert {name.split("/")[0] for name in names if not name.split("/")[0].endswith(".dist-info")} == {"dssl"}
    assert {"dssl/py.typed", "dssl/examples/quickstart.yaml", "dssl/examples/wine.csv"} <= set(names)
    (tmp_path / "empty").mkdir()
    # The later stages would compile the package once more.
    done = subprocess.run(
        [sys.executable, "-P", "-m", "dssl", "examples", "run", "wine", "--on", "in-process", "--until", "points",
         "--json"], cwd=tmp_path / "empty", env={**os.environ, "PYTHONPATH": str(tmp_path / "site")},
        stdout=subprocess.PIPE, check=True)
    assert json.loads(done.stdout)["status"] == "stopped"
    assert (tmp_path / "empty" / "dssl-work").is_dir()
