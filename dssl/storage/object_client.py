"""The door to obstore: stores by bucket, the status of objects, and errors translated into those of files.

Credentials, region and endpoint come from the environment or the machine's role, as in each store's own tools.
"""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..base.errors import ParameterError, explain
from ..base.urls import hosts_alone

if TYPE_CHECKING:
    from obstore import ObjectMeta

RETRIES, RETRY_FOR = 8, timedelta(seconds=60)  # for requests that fail with 429 or 5xx, or get no answer

Version = dict[str, str]  # identifies the content of an object in conditional writes


@dataclass(frozen=True)
class ObjectStat:
    """The status of an object: its size, when it was written, and a number that changes with its content."""

    st_size: int
    st_mtime_ns: int
    st_ino: int

    @property
    def st_mtime(self) -> float:
        return self.st_mtime_ns / 1e9


def obstore() -> Any:
    """Return the library; raise ParameterError if it is not installed."""
    try:
        import obstore
    except ImportError as error:
        raise ParameterError(explain("object stores need the package obstore", why="it is an optional dependency",
                                     fix="pip install obstore")) from error
    return obstore


@lru_cache(maxsize=64)
def store_of(scheme: str, bucket: str) -> Any:
    """Return the bucket or container as a store."""
    obstore()
    from obstore.store import from_url

    return from_url(f"{scheme}://{bucket}", retry_config={"max_retries": RETRIES, "retry_timeout": RETRY_FOR})


def version_of(meta: "ObjectMeta") -> Version:
    """Return the version of an object: the ETag on S3 and Azure, the generation on Google."""
    return {name: value for name in ("e_tag", "version") if (value := meta[name]) is not None}


def stat_of(meta: "ObjectMeta") -> ObjectStat:
    """Return the status of an object from its metadata."""
    return ObjectStat(meta["size"], int(meta["last_modified"].timestamp() * 1e9), hash(meta["e_tag"]))


@contextmanager
def as_file_errors(path: Path) -> Iterator[None]:
    """Translate errors of obstore into errors of files, with one line of its text and URLs cut after the host."""
    from obstore import exceptions as refused

    try:
        yield
    except FileNotFoundError as error:
        bucket = "NoSuchBucket" in str(error)
        what = f"there is no bucket {path.parts[1]}" if bucket else os.strerror(errno.ENOENT)
        raise FileNotFoundError(errno.ENOENT, what, str(path)) from None
    except (refused.AlreadyExistsError, refused.PreconditionError):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path)) from None
    except (refused.PermissionDeniedError, refused.UnauthenticatedError):
        raise PermissionError(errno.EACCES, "the object store refuses access with the credentials of this process",
                              str(path)) from None
    except (refused.BaseError, PermissionError) as error:
        first = hosts_alone(str(error).partition("\n")[0])
        raise OSError(errno.ECOMM, f"the object store reports an error: {first}", str(path)) from None
