"""Exceptions of dssl. Each says what is wrong, why it matters, and what to do next.

Every exception holds one string, so that it travels between processes by pickle, and carries the
exit code with which the command line ends.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any


def explain(what: str, *, why: str, fix: str) -> str:
    """Return one message of three sentences: what is wrong, why it matters, what to do."""
    return f"{what}\n  why: {why}\n  fix: {fix}"


def sentences(message: str) -> tuple[str, str, str]:
    """Split a message of `explain` into what, why and fix; of any other message, why and fix are empty."""
    what, _, reasons = message.partition("\n  why: ")
    why, _, fix = reasons.partition("\n  fix: ")
    return what, why, fix


def described(error: BaseException, message: str | None = None) -> dict[str, str]:
    """Return an error as JSON: its type and the three parts of its message, or of `message` if given."""
    what, why, fix = sentences(str(error) if message is None else message)
    return {"type": type(error).__name__, "what": what, "why": why, "fix": fix}


def said(item: Mapping[str, Any]) -> str:
    """Return the message of one of pydantic's errors; the three parts of an error of dssl become one sentence."""
    error = item.get("ctx", {}).get("error")
    if not isinstance(error, ValueError):
        return str(item["msg"])
    what, why, fix = sentences(str(error))
    return f"{what} ({why}; {fix})" if why else what


class DsslError(Exception):
    """Base of all errors that dssl raises on purpose."""

    exit_code = 1


class ParameterError(DsslError, ValueError):
    """A parameter has a value that no computation can use."""

    exit_code = 2


class SpecError(DsslError, ValueError):
    """A pipeline file or a command line asks for something that dssl cannot do."""

    exit_code = 2


class DataError(DsslError, ValueError):
    """The data cannot be used as they are: a wrong shape, type or label, or values that are not finite."""


class PluginError(DsslError):
    """A package that extends dssl cannot be loaded."""


class BudgetError(DsslError):
    """A computation does not fit its memory budget."""


class NotConverged(DsslError):
    """An iterative method stopped before it reached its tolerance."""


class TaskFailed(DsslError):
    """A task killed its worker several times in a row."""


class IntegrityError(DsslError):
    """Stored bytes are missing or differ from what was written."""

    exit_code = 3


class ClusterError(DsslError):
    """The cluster cannot be reached, or the connection to it was lost."""

    exit_code = 4


class LockedError(DsslError):
    """Another run has locked the workspace."""

    exit_code = 5


class Terminated(KeyboardInterrupt):
    """The process received SIGTERM from a scheduler, a container or a person."""


class Preempted(Terminated):
    """The process received SIGUSR1: its batch job is nearly out of time and will be started again."""


INTERRUPTED, TERMINATED = 130, 143  # exit codes: 128 and the number of the signal
COME_BACK = 75  # EX_TEMPFAIL: the batch system interrupted the run, and the next start continues it


def exit_code_of(error: BaseException) -> int:
    """Return the exit code of a command that ends with an error."""
    for kind, code in ((Preempted, COME_BACK), (Terminated, TERMINATED), (KeyboardInterrupt, INTERRUPTED)):
        if isinstance(error, kind):
            return code
    return error.exit_code if isinstance(error, DsslError) else 1


def raised(path: str, make: Callable[[], object]) -> Iterator[tuple[str, DsslError]]:
    """Yield the error that making something raises, if any, with the path of a section of a pipeline file."""
    try:
        make()
    except DsslError as error:
        yield path, error


def require(condition: bool, what: str, *, why: str, fix: str, error: type[DsslError] = ParameterError) -> None:
    """Raise `error` with an explanation unless the condition holds."""
    if not condition:
        raise error(explain(what, why=why, fix=fix))


def column_label(names: Sequence[str] | None, j: int) -> str:
    """Return the name of a column in messages."""
    return f"column {names[j]!r}" if names else f"column {j} (counted from 0)"
