"""Modules of other packages that register kinds, kernels and models: the entry points of the group `dssl.plugins`.

    [project.entry-points."dssl.plugins"]
    mine = "my_package.for_dssl"

Who does not know a name loads them, and looks again.
"""

from functools import cache
from importlib.metadata import EntryPoint, entry_points

from .errors import PluginError, explain

GROUP = "dssl.plugins"


def load_plugins() -> None:
    """Import the module of every entry point of the group, once a process.

    Raises
    ------
    PluginError : a module cannot be imported; the message names its entry point and its package.
    """
    for point in entry_points(group=GROUP):
        _load(point)


@cache
def _load(point: EntryPoint) -> None:
    try:
        point.load()
    except Exception as error:
        package = point.dist.name if point.dist else "?"
        raise PluginError(explain(
            f"the plugin {point.name!r} of the package {package} cannot be loaded: {type(error).__name__}: {error}",
            why=f"a name may be one that it registers, in {point.value}",
            fix=f"mend the package, or remove it: pip uninstall {package}")) from error
