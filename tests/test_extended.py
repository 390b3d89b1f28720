"""The marks of slow and of extended cases name cases that exist."""

import pytest

from tests.conftest import NOT_TESTS


def test_every_marked_case_is_a_test(pytestconfig):
    """A case that was renamed would run in every change again; a process of pytest-xdist cannot say so by an error."""
    if NOT_TESTS not in pytestconfig.stash:
        pytest.skip("only the whole suite knows all tests")
    assert pytestconfig.stash[NOT_TESTS] == set()
