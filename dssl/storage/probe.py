"""Whether a store keeps what is promised of conditional requests: some ignore the conditions, and say nothing of it."""

import os
from functools import lru_cache

from ..base.errors import ClusterError, explain
from .objects import ObjectPath


@lru_cache(maxsize=64)
def require_exclusive(root: ObjectPath) -> None:
    """Try with four requests whether a store lets one of two writers win, once a process.

    Raises ClusterError: it lets both win, so that nothing could keep two runs from writing the same parts; or it
    cannot be written.
    """
    probe = root / f"probe-{os.urandom(8).hex()}"
    try:
        created = not probe.is_refused("create", b"first")
        twice = not probe.is_refused("create", b"second")
        stale = {"e_tag": '"0123456789abcdef0123456789abcdef"'} | ({"version": "1"} if root.parts[0] == "gs:" else {})
        replaced = not probe.is_refused(stale, b"third")
        probe.unlink(missing_ok=True)
    except OSError as error:
        raise ClusterError(explain(
            f"the store of {root} cannot be used: {error.strerror or error}", why="a workspace is written there",
            fix="check the bucket, the endpoint and the credentials in the environment, such as AWS_ENDPOINT_URL and "
                "AWS_ACCESS_KEY_ID")) from None
    if twice or replaced or not created:
        what = "creates an object that is there" if twice else "replaces an object that has changed" if replaced else \
            "refuses to create an object"
        raise ClusterError(explain(
            f"the store of {root} {what}, though it is asked not to",
            why="it ignores conditional requests, so two runs could own the workspace at once and mix their parts",
            fix="use a store that honors If-None-Match and If-Match, such as AWS S3, MinIO, Ceph or R2, or a folder"))
