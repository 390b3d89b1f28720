"""Whether workers run what their driver runs: the same version of dssl, on processors that round alike."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from threadpoolctl import threadpool_info

from .. import __version__
from ..base.errors import ClusterError, explain
from .cost import MIN_ROOM, PAUSE_SHARE, WORKER_BYTES


def this_kind() -> dict[str, str]:
    """Return what a process computes with: the version of dssl, and the processor."""
    return {"dssl": __version__, "processor": this_processor()}


@cache
def this_processor() -> str:
    """Return the processor of this process as LLVM and the BLAS call it."""
    # A tenth of a second, which a process that runs no task does without. SciPy has a BLAS of its own: it is counted
    # whether it was loaded before or not.
    import scipy.linalg  # noqa: F401
    from llvmlite import binding

    blas = sorted({pool["architecture"] for pool in threadpool_info() if pool.get("architecture")})
    return " ".join([binding.get_host_cpu_name(), *blas])


def require_version(kind: Any, version: str, place: str) -> None:
    """Raise ClusterError if a worker runs another version of dssl than its driver.

    kind : what `this_kind` returned there, or the exception with which it failed. place : the worker's address.
    """
    theirs = kind["dssl"] if isinstance(kind, Mapping) else None
    if theirs != version:
        has = f"dssl {theirs}" if theirs else f"no dssl of today ({kind})"
        raise ClusterError(explain(
            f"the worker {place} has {has}, the process that runs the pipeline dssl {version}",
            why="two versions may compute different results",
            fix=f"install dssl {version} on every machine of the cluster, and start the workers again"))


def processors(kinds: Mapping[str, Any]) -> list[str]:
    """Return the kinds of processors of workers, each once."""
    return sorted({kind["processor"] for kind in kinds.values()})


def unlike_notes(processors: Sequence[str]) -> list[str]:
    """Return what is to be said of tasks that several kinds of processors run."""
    if len(processors) < 2:
        return []
    return [f"tasks run on {len(processors)} kinds of processors ({', '.join(processors)}), which round differently: "
            "results can differ in their last digits from those of another run"]


def require_memory(limit: int, place: str) -> None:
    """Raise ClusterError if a worker's memory limit (bytes, 0 for none) leaves less than `MIN_ROOM` for tasks."""
    if 0 < limit * PAUSE_SHARE < WORKER_BYTES + MIN_ROOM:
        least = int(2 * WORKER_BYTES / PAUSE_SHARE)
        raise ClusterError(explain(
            f"the worker {place} has a memory limit of {limit / 1e6:.0f} MB",
            why=f"its process takes {WORKER_BYTES / 1e6:.0f} MB before any task, Dask hands no tasks to a worker that "
                f"is {PAUSE_SHARE:.0%} full, and every task may come to any worker",
            fix=f"start it with at least {least / 1e6:.0f} MB, or stop it"))
