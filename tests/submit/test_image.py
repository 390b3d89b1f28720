"""The image: what its Dockerfile names is pinned, and the lock is one of this project."""

import re
import tomllib

import yaml
from packaging.requirements import Requirement
from packaging.version import Version

from ..faults.machines import REPOSITORY

DOCKERFILE = (REPOSITORY / "Dockerfile").read_text()
LOCK = (REPOSITORY / "requirements.lock").read_text()
PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]


def locked():
    """Return version and number of hashes by package."""
    entries = re.split(r"\n(?=[a-z0-9])", LOCK)
    return {entry.split("==")[0]: (Version(re.match(r"[\w-]+==(\S+)", entry)[1]), entry.count("--hash=sha256:"))
            for entry in entries if "==" in entry}


def test_base_images_are_named_by_digest():
    images = re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE)
    assert len(images) == 3
    assert all(re.search(r"@sha256:[0-9a-f]{64}$", image) for image in images)


def test_the_image_is_not_root():
    assert re.findall(r"^USER (\d+):(\d+)$", DOCKERFILE, re.MULTILINE) == [("1000", "1000")]
    described = yaml.safe_load((REPOSITORY / "cluster" / "kubernetes.yaml").read_text())
    assert described.get("user", 1000) == 1000


def test_packages_are_installed_by_hash_alone():
    assert "--require-hashes --only-binary :all: -r requirements.lock" in DOCKERFILE
    assert DOCKERFILE.count(" install ") == 2
    assert "--no-deps --no-build-isolation" in DOCKERFILE
    assert all(hashes > 0 for _, hashes in locked().values())


def test_the_lock_has_what_the_project_asks_for():
    versions, extras = locked(), PROJECT["optional-dependencies"]
    own = [name for name in extras["image"] if not name.startswith("dssl")]
    wanted = [*PROJECT["dependencies"], *extras["cloud"], *extras["dask-operator"], *own]
    for requirement in map(Requirement, wanted):
        version, _ = versions[requirement.name]
        assert requirement.specifier.contains(version), f"{requirement} is not met by {version}: make the lock anew"
