"""What an undisturbed run gives."""

import pytest

from ..faults.machines import Machines


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory):
    """What the artifacts hold after a whole run to which nothing happens."""
    machines = Machines(tmp_path_factory.mktemp("undisturbed"))
    machines.resume(until=None)
    return machines.contents()
