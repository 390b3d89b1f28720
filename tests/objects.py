"""A real S3 server for tests: moto's, on loopback, spoken to over HTTP; and a store that must be refused, by rclone."""

import hashlib
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread

SECRET = "canary-secret-9f27c1"  # in no file that a run writes, and in nothing that it says
KEY = "canary-key-51d0a8"


def free_port() -> int:
    """Return a port of loopback that nobody listens to."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def environment(port: int) -> dict[str, str]:
    """Return the variables by which processes reach the server."""
    return {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}", "AWS_ALLOW_HTTP": "true", "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET}


@contextmanager
def started(command: list[str], port: int) -> Iterator[None]:
    """Run a server until the end of the block; it answers when the block begins."""
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            for _ in range(600):
                with socket.socket() as trial:
                    if trial.connect_ex(("127.0.0.1", port)) == 0:
                        break
                assert process.poll() is None, f"{command[0]} has ended"
                time.sleep(0.1)
            yield
        finally:
            process.terminate()


# A condition of a request and the change that follows from it are one step of S3; in the threads of moto's server they
# are two, between which another request comes now and then.
SERVER = """
from threading import Lock
from moto.moto_server.werkzeug_app import DomainDispatcherApplication
from moto.server import main
handle, lock = DomainDispatcherApplication.__call__, Lock()
def in_one_step(self, environ, start_response):
    if {"HTTP_IF_MATCH", "HTTP_IF_NONE_MATCH"} & set(environ):
        with lock:
            return handle(self, environ, start_response)
    return handle(self, environ, start_response)
DomainDispatcherApplication.__call__ = in_one_step
main()
"""


@contextmanager
def moto(bucket: str = "bucket") -> Iterator[Mapping[str, str]]:
    """Run moto's S3 server with a bucket; yield the environment of its clients."""
    port = free_port()
    command = [sys.executable, "-c", SERVER, "-H", "127.0.0.1", "-p", str(port)]
    with started(command, port):
        make_bucket(port, bucket)
        yield environment(port)


def make_bucket(port: int, bucket: str) -> None:
    """Make a bucket by the plain request, which moto does not ask to be signed."""
    request = urllib.request.Request(f"http://127.0.0.1:{port}/{bucket}", method="PUT", data=b"")
    request.add_header("Host", f"127.0.0.1:{port}")
    request.add_header("Authorization", f"AWS4-HMAC-SHA256 Credential={KEY}/20260101/us-east-1/s3/aws4_request, "
                                        "SignedHeaders=host, Signature=0")
    with urllib.request.urlopen(request, timeout=30):
        pass


class Moods(ThreadingHTTPServer):
    """A small S3 server of one bucket with conditional requests, which answers some of them as it is told to.

    answers : status codes of the next requests that write under a condition, before any is judged by its condition;
    refusals : of those that write without. open : what requests that write wait for. asked : how many have come.
    slow : seconds that it takes to write objects, by the end of their names. stored : the objects in the order in which
    they were written.
    """

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), MoodsHandler)
        self.objects: dict[str, bytes] = {}
        self.answers: list[int] = []
        self.refusals: list[int] = []
        self.open, self.asked = Event(), 0
        self.slow: dict[str, float] = {}
        self.stored: list[str] = []
        self.open.set()

    def __enter__(self) -> "Moods":
        Thread(target=self.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.shutdown()
        self.server_close()


class MoodsHandler(BaseHTTPRequestHandler):
    """Answers one request."""

    protocol_version = "HTTP/1.1"
    server: Moods

    def log_message(self, *args: object) -> None:
        """Keep the log out of the test's output."""

    def answer(self, status: int, body: bytes = b"", tag: str | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Last-Modified", "Thu, 01 Jan 2026 00:00:00 GMT")
        if tag:
            self.send_header("ETag", tag)
        self.end_headers()
        self.wfile.write(body)

    def tag(self) -> str | None:
        stored = self.server.objects.get(self.path)
        return None if stored is None else f'"{hashlib.md5(stored).hexdigest()}"'

    def do_GET(self) -> None:
        stored = self.server.objects.get(self.path)
        self.answer(404) if stored is None else self.answer(200, stored, self.tag())

    def do_POST(self) -> None:
        """Delete the objects of a list."""
        asked = self.rfile.read(int(self.headers["Content-Length"])).decode()
        keys = re.findall("<Key>(.*?)</Key>", asked)
        for key in keys:
            self.server.objects.pop(f"{self.path.partition('?')[0]}/{key}", None)
        deleted = "".join(f"<Deleted><Key>{key}</Key></Deleted>" for key in keys)
        self.answer(200, f"<DeleteResult>{deleted}</DeleteResult>".encode())

    def do_DELETE(self) -> None:
        """Delete one object, as older clients do."""
        self.server.objects.pop(self.path, None)
        self.answer(204)

    def do_PUT(self) -> None:
        value = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.asked += 1
        self.server.open.wait(30)
        match, is_new = self.headers.get("If-Match"), self.headers.get("If-None-Match") == "*"
        time.sleep(max((seconds for end, seconds in self.server.slow.items() if self.path.endswith(end)), default=0))
        pending = self.server.answers if match or is_new else self.server.refusals
        if pending:
            self.answer(pending.pop(0))
        elif (match and match != self.tag()) or (is_new and self.path in self.server.objects):
            self.answer(412)
        else:
            self.server.objects[self.path] = value
            self.server.stored.append(self.path.removeprefix("/bucket/"))
            self.answer(200, tag=self.tag())


@contextmanager
def rclone(folder: Path, bucket: str = "bucket") -> Iterator[Mapping[str, str]]:
    """Run rclone's S3 server, which ignores conditions; yield the environment of its clients."""
    (folder / bucket).mkdir(parents=True)
    port = free_port()
    with started([str(rclone_program()), "serve", "s3", str(folder), "--addr", f"127.0.0.1:{port}", "--auth-key",
                  f"{KEY},{SECRET}"], port):
        yield environment(port)


def rclone_program() -> str | None:
    """Return the program, None where there is none that serves S3."""
    beside = Path(sys.executable).with_name("rclone")
    program = str(beside) if beside.is_file() else shutil.which("rclone")
    if program is None:
        return None
    known = subprocess.run([program, "serve", "s3", "--help"], capture_output=True, text=True, env=dict(os.environ),
                           check=False)
    return program if "--auth-key" in known.stdout + known.stderr else None
