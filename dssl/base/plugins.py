"""Classes by name, and the modules of other packages that register more: the entry points of the group `dssl.plugins`.

    [project.entry-points."dssl.plugins"]
    mine = "my_package.for_dssl"

Such a module registers kinds, kernels, weight rules, solvers, metrics, readers and models. A registry loads these
modules when it does not know a name, and then looks the name up again.
"""

import sys
from collections.abc import Callable, Iterator
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Generic, TypeGuard, TypeVar

from .digest import JsonObject
from .errors import ParameterError, PluginError, explain, require

GROUP = "dssl.plugins"


def load_plugins() -> None:
    """Import the module of every entry point of the group, once a process.

    Raises
    ------
    PluginError : a module cannot be imported; the message names its entry point and its package.
    """
    for point in _entry_points(tuple(sys.path)):
        _load(point)


@cache
def _entry_points(path: tuple[str, ...]) -> tuple[EntryPoint, ...]:
    """Return the entry points of the group; cached, since a search of 200 packages takes 16 ms."""
    return tuple(entry_points(group=GROUP))


@cache
def _load(point: EntryPoint) -> None:
    try:
        point.load()
    except Exception as error:
        package = point.dist.name if point.dist else "?"
        raise PluginError(explain(
            f"the plugin {point.name!r} of the package {package} cannot be loaded: {type(error).__name__}: {error}",
            why=f"an unknown name may be one that {point.value} registers",
            fix=f"repair the package, or remove it: pip uninstall {package}")) from error


T = TypeVar("T")


class Registry(Generic[T]):
    """The classes that serve one purpose by their `name`, including those of plugins.

    As the metadata of a field, `Annotated[str, REGISTRY]`, it lists the names in the JSON Schema of a spec. Code that
    uses the field looks its class up with `named`, which raises if there is none.

    Parameters
    ----------
    purpose : str
        What each class is, such as "kernel".
    also : tuple of str
        Names that a field may have besides those of the classes, such as "auto".
    attribute : str
        The attribute of a class that is its name.
    """

    def __init__(self, purpose: str, *classes: type[T], also: tuple[str, ...] = (),
                 attribute: str = "name") -> None:
        self.purpose, self.also, self.attribute = purpose, also, attribute
        self._classes: dict[str, type[T]] = {}
        for cls in classes:
            self.register(cls)

    def register(self, cls: type[T]) -> type[T]:
        """Register a class under its `name` in this process, and return it; usable as a class decorator.

        Workers know only the classes that dssl and the modules of plugins register.

        Raises
        ------
        ParameterError : another class has the name.
        """
        name = getattr(cls, self.attribute)
        require(self._classes.get(name, cls) is cls and name not in self.also,
                f"another {self.purpose} is already named {name!r}",
                why=f"specs and stored models refer to a {self.purpose} by its name", fix="choose another name")
        self._classes[name] = cls
        return cls

    def named(self, name: object, key: str = "", hint: str = "") -> type[T]:
        """Return the class with this name; plugins are loaded if no registered class has it.

        Parameters
        ----------
        name : object
            As the caller received it.
        key : str
            The parameter that names it, for the message.
        hint : str
            What else the reader of the message can do.

        Raises
        ------
        ParameterError : there is none.
        """
        if not self._knows(name):
            load_plugins()
        if not self._knows(name):
            raise ParameterError(explain(
                f"{key}={name!r}: there is no {self.purpose} of that name" if key else
                f"there is no {self.purpose} named {name!r}",
                why=f"the names are {', '.join((*self.also, *self))}", fix=hint or "use one of these names"))
        return self._classes[name]

    def _knows(self, name: object) -> TypeGuard[str]:
        return isinstance(name, str) and name in self._classes

    def classes(self) -> Iterator[type[T]]:
        """Yield all classes, including those of plugins."""
        load_plugins()
        yield from self._classes.values()

    def __iter__(self) -> Iterator[str]:
        return iter(self._classes)

    def __get_pydantic_json_schema__(self, schema: object, handler: Callable[[object], JsonObject]) -> JsonObject:
        return {**handler(schema), "enum": [*self.also, *self]}
