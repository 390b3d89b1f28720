"""Any bytes under any name are read in full or refused with a message, and a refusal leaves nothing behind."""

import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import given

from .claims import read_or_refused
from .files import damaged, damaged_inside, packed, random_files, text_files, with_options
from .profile import thorough


def outcome(file):
    """Read one file in a folder of its own."""
    folder = Path(tempfile.mkdtemp(prefix="dssl-fuzz-"))
    try:
        return read_or_refused(file, folder)
    finally:
        shutil.rmtree(folder)


@thorough(40)
@given(packed())
def test_valid_files_are_read(file):
    found = outcome(file)
    if isinstance(found, str):  # a missing cell or a number that is not finite in X
        assert "not finite" in found or "label" in found, found


@pytest.mark.parametrize("files", [damaged(), damaged_inside(), random_files, text_files, with_options()],
                         ids=["damaged", "damaged inside", "random bytes", "text", "options"])
def test_any_file_is_read_or_refused_with_a_message(files):
    refused = []

    @thorough(120)
    @given(files)
    def check(file):
        refused.append(isinstance(outcome(file), str))

    check()
    assert any(refused)
