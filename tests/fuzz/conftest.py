"""Fixtures of the fuzzing tests: a cache of their own, and how many examples each property is tried on.

`DSSL_FUZZ=20 python -m pytest tests/fuzz` tries 20 times as many, and other ones at each call.
"""

import os
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("DSSL_CACHE", str(folder))
    monkeypatch.delenv("DSSL_DATA", raising=False)
    monkeypatch.setattr("dssl.data.sources._online", lambda: False)
    assert "DSSL_CACHE" in os.environ
    return folder
