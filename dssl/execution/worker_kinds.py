"""Checks that workers match their driver: the same version of dssl, enough memory, and equal rounding."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from threadpoolctl import threadpool_info

from .. import __version__
from ..base.errors import ClusterError, explain
from .cost import MIN_ROOM, PAUSE_SHARE, WORKER_BYTES


def this_kind() -> dict[str, str]:
    """Return the version of dssl and the processor of this process."""
    return {"dssl": __version__, "processor": this_processor()}


@cache
def this_processor() -> str:
    """Return the processor of this process as LLVM and the BLAS libraries name it."""
    # Takes a tenth of a second, so it runs only in processes with tasks. SciPy brings its own BLAS: it is imported here
    # so that the name does not depend on what was imported before.
    import scipy.linalg  # noqa: F401
    from llvmlite import binding

    blas = sorted({pool["architecture"] for pool in threadpool_info() if pool.get("architecture")})
    return " ".join([binding.get_host_cpu_name(), *blas])


def require_version(kind: object, version: str, address: str) -> None:
    """Raise ClusterError if a worker runs another version of dssl than its driver.

    kind : the result of `this_kind` on the worker, or the exception that it raised. address : the worker's address.
    """
    worker_version = kind["dssl"] if isinstance(kind, Mapping) else None
    if worker_version != version:
        has = f"dssl {worker_version}" if worker_version else f"no usable dssl ({kind})"
        raise ClusterError(explain(
            f"the worker {address} has {has}, but the process that runs the pipeline has dssl {version}",
            why="two versions may compute different results",
            fix=f"install dssl {version} on every machine of the cluster, and restart the workers"))


def processors(kinds: Mapping[str, Any]) -> list[str]:
    """Return the distinct processors of workers."""
    return sorted({kind["processor"] for kind in kinds.values()})


def unlike_notes(processors: Sequence[str]) -> list[str]:
    """Return a note if tasks run on several kinds of processors."""
    if len(processors) < 2:
        return []
    return [f"tasks run on {len(processors)} kinds of processors ({', '.join(processors)}), which round differently: "
            "results of another run can differ in the last digits"]


def require_memory(limit: int, address: str) -> None:
    """Raise ClusterError if a worker's memory limit (bytes, 0 for none) leaves less than `MIN_ROOM` for tasks."""
    if 0 < limit * PAUSE_SHARE < WORKER_BYTES + MIN_ROOM:
        minimum = int(2 * WORKER_BYTES / PAUSE_SHARE)
        raise ClusterError(explain(
            f"the worker {address} has a memory limit of {limit / 1e6:.0f} MB",
            why=f"its process takes {WORKER_BYTES / 1e6:.0f} MB before any task, Dask gives no task to a worker that "
                f"is {PAUSE_SHARE:.0%} full, and any worker may receive any task",
            fix=f"start it with at least {minimum / 1e6:.0f} MB, or stop it"))
