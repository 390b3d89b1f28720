"""A proxy between the clients of an S3 server and the server: counts their requests by stage, and slows them down.

    python -m tests.object_proxy PORT PORT_OF_THE_SERVER

Requests below `/__proxy__/` are for the proxy itself; see `Proxy`.
"""

import asyncio
import json
import sys
import time
import urllib.request
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from tests.objects import environment, free_port, started

OWN = "/__proxy__/"
EMPTY_LIST = (b'<?xml version="1.0"?><ListBucketResult><IsTruncated>false</IsTruncated><KeyCount>0</KeyCount>'
              b"</ListBucketResult>")


class Counting:
    """What was asked for, by stage: requests by kind, bytes each way, and seconds for which the server was asked."""

    def __init__(self) -> None:
        self.stage, self.delay, self.lists = "", 0.0, True
        self.found: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._under_way, self._since = 0, 0.0

    def note(self, method: str, target: str, conditional: bool, sent: int, received: int) -> None:
        """Add one request."""
        query = target.partition("?")[2]
        kind = {"GET": "list" if "list-type" in query else "get", "HEAD": "head", "POST": "delete", "DELETE": "delete",
                "PUT": "create or swap" if conditional else "put"}[method]
        counts = self.found[self.stage]
        counts[kind] += 1
        counts["requests"] += 1
        counts["bytes written"] += sent
        counts["bytes read"] += received

    @contextmanager
    def asking(self) -> Iterator[None]:
        """Count the seconds for which the server works on one request or on several."""
        if not self._under_way:
            self._since = time.perf_counter()
        self._under_way += 1
        try:
            yield
        finally:
            self._under_way -= 1
            if not self._under_way:
                self.found[self.stage]["server milliseconds"] += round(1000 * (time.perf_counter() - self._since))

    def control(self, target: str) -> bytes:
        """Do what a request to the proxy itself asks for: stage/NAME, delay/SECONDS, lists/on, lists/off, or counts."""
        what, _, value = target.removeprefix(OWN).partition("/")
        if what == "stage":
            self.stage = value
        elif what == "delay":
            self.delay = float(value)
        elif what == "lists":
            self.lists = value == "on"
        else:
            found, self.found = self.found, defaultdict(Counter)
            return json.dumps(found).encode()
        return b"{}"


async def message(reader: asyncio.StreamReader, of: str | None = None) -> tuple[bytes, dict[str, str], bytes]:
    """Return the head of a message of HTTP, its headers by lower-case names, and its body.

    of : the method of the request that this is the answer to.
    """
    head = await reader.readuntil(b"\r\n\r\n")
    lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:] if line)}
    body = b""
    if of == "HEAD" or (of is not None and lines[0].split(" ")[1] in ("204", "304")):
        return head, headers, body
    if headers.get("transfer-encoding", "") == "chunked":
        while True:
            size = await reader.readline()
            body += size
            body += await reader.readexactly(int(size, 16) + 2)
            if int(size, 16) == 0:
                return head, headers, body
    return head, headers, await reader.readexactly(int(headers.get("content-length", "0")))


def answer(body: bytes) -> bytes:
    """Return an answer of HTTP."""
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body


async def serve(port: int, upstream: int) -> None:
    """Pass on what comes to a port."""
    counting = Counting()

    async def client(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server = None
        try:
            while True:
                head, headers, body = await message(reader)
                method, target, _ = head.split(b"\r\n")[0].decode("latin-1").split(" ")
                if target.startswith(OWN):
                    writer.write(answer(counting.control(target)))
                    continue
                conditional = "if-match" in headers or "if-none-match" in headers
                await asyncio.sleep(counting.delay)
                if "list-type" in target and not counting.lists:
                    counting.note(method, target, conditional, 0, len(EMPTY_LIST))
                    writer.write(answer(EMPTY_LIST))
                    continue
                with counting.asking():
                    server = server or await asyncio.open_connection("127.0.0.1", upstream, limit=1 << 20)
                    server[1].write(head + body)
                    found = await message(server[0], method)
                counting.note(method, target, conditional, len(body), len(found[2]))
                writer.write(found[0] + found[2])
                await writer.drain()
                if found[1].get("connection", "").lower() == "close":
                    server[1].close()
                    server = None
        except (asyncio.IncompleteReadError, ConnectionError):  # the client has gone
            pass
        finally:
            writer.close()
            if server:
                server[1].close()

    async with await asyncio.start_server(client, "127.0.0.1", port, limit=1 << 20) as listening:
        await listening.serve_forever()


class Proxy:
    """A proxy that runs; `environment` is that of its clients."""

    def __init__(self, port: int):
        self.port, self.environment = port, environment(port)

    def ask(self, what: str) -> Any:
        """Have the proxy do something, see `Counting.control`."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{OWN}{what}", timeout=30) as answered:
            return json.load(answered)

    def counts(self) -> dict[str, dict[str, int]]:
        """Return what was asked for since the last time, by stage."""
        found: dict[str, dict[str, int]] = self.ask("counts")
        return found


@contextmanager
def proxy(server: Mapping[str, str]) -> Iterator[Proxy]:
    """Run a proxy of a server, which the environment of its clients names, until the end of the block."""
    port, upstream = free_port(), server["AWS_ENDPOINT_URL"].rpartition(":")[2]
    with started([sys.executable, "-m", "tests.object_proxy", str(port), upstream], port):
        yield Proxy(port)


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1]), int(sys.argv[2])))
