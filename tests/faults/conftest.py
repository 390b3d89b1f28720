"""Machines for every test, and what an undisturbed run gives."""

import pytest

from dssl.pipeline.kinds import KINDS

from .machines import BUDGET, OTHER_BUDGET, Machines


@pytest.fixture
def machines(tmp_path):
    made = Machines(tmp_path)
    yield made
    made.end()


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory):
    """What the artifacts hold after a run to which nothing happens, the stages from one on with another budget."""
    found = {}

    def of(switches_at=None):
        if switches_at not in found:
            made = Machines(tmp_path_factory.mktemp("undisturbed"))
            if switches_at:
                names = KINDS["svm"].names
                made.resume(until=names[names.index(switches_at) - 1])
            made.resume(OTHER_BUDGET if switches_at else BUDGET)
            found[switches_at] = made.contents()
        return found[switches_at]

    return of
