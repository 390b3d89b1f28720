"""The descriptions in `cluster/`: each has every key of its kind, with a comment."""

import re

import pytest

from dssl.runtime.start import load_runtime

from ..faults.machines import REPOSITORY

FILES = sorted(path for path in (REPOSITORY / "cluster").glob("*.yaml") if "\nkind: " in path.read_text())


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_key_of_a_place_is_in_its_file(path):
    known = set(type(load_runtime(path)).model_fields) - ({"interface"} if path.stem == "local" else set())
    shown = set(re.findall(r"^(?:# )?(\w+):(?: |$)", path.read_text(), re.MULTILINE))
    assert known <= shown, known - shown
