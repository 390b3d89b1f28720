"""What an undisturbed run gives, and runs that are submitted."""

import pytest

from ..faults.machines import Machines
from .machines import Submitted


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory):
    """What the artifacts hold after a whole run to which nothing happens."""
    machines = Machines(tmp_path_factory.mktemp("undisturbed"))
    machines.resume(until=None)
    return machines.contents()


@pytest.fixture
def submitted(tmp_path):
    """A workspace with runs that `dssl submit` hands over, which end with the test."""
    made = Submitted(tmp_path)
    yield made
    made.end()
