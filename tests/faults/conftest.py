"""Machines for every test, and what an undisturbed run gives."""

import pytest

from .machines import Machines


@pytest.fixture
def machines(tmp_path):
    made = Machines(tmp_path)
    yield made
    made.end()


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory):
    """What the artifacts hold after a run to which nothing happens, by memory budget."""
    found = {}

    def of(budget):
        if budget not in found:
            made = Machines(tmp_path_factory.mktemp("undisturbed"))
            made.resume(budget)
            found[budget] = made.contents()
        return found[budget]

    return of
