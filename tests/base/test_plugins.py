"""Plugins are loaded once, and one that fails is named."""

import sys

import pytest

from dssl.base.errors import PluginError
from dssl.base.plugins import load_plugins


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Return a function that puts a package with an entry point on the path, as pip does."""
    monkeypatch.syspath_prepend(tmp_path)
    made = []

    def install(name: str, code: str) -> None:
        made.append(name)
        (tmp_path / f"{name}.py").write_text(code)
        info = tmp_path / f"{name}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[dssl.plugins]\nown = {name}\n")

    yield install
    for name in made:
        sys.modules.pop(name, None)


def test_each_plugin_is_loaded_once(install, tmp_path):
    log = tmp_path / "log"
    install("plugin_that_counts", f"open({str(log)!r}, 'a').write('loaded ')")
    load_plugins()
    sys.modules.pop("plugin_that_counts")  # importing it again would run it again
    load_plugins()
    assert log.read_text() == "loaded "


def test_one_that_fails_is_named(install):
    install("plugin_that_fails", "raise ValueError('no such thing')")
    for _ in range(2):  # every time that it is needed
        with pytest.raises(PluginError, match=r"'own' of the package plugin_that_fails .* ValueError: no such thing"):
            load_plugins()


def test_without_plugins_nothing_happens():
    load_plugins()
