"""Fixtures for data: a cache of its own, so that no test reads or writes the user's."""

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("DSSL_CACHE", str(folder))
    return folder
