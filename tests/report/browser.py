"""A page in a real browser: Chromium without a window, driven through its own protocol over a local socket."""

import base64
import json
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import pytest
from tornado.ioloop import IOLoop
from tornado.websocket import WebSocketClientConnection, websocket_connect

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
OPTIONS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars",
           "--disable-background-networking", "--disable-component-update", "--disable-sync",
           "--remote-debugging-port=0")
TIMEOUT = 60.0  # seconds, of an answer


class Page:
    """One tab, of which a test asks what it shows."""

    def __init__(self, loop: IOLoop, socket: WebSocketClientConnection):
        self.loop, self.socket, self.count, self.session = loop, socket, 0, ""

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Return the result of a method of the protocol."""
        self.count += 1
        request = {"id": self.count, "method": method, "params": params}
        own = self.count

        async def answer() -> dict[str, Any]:
            await self.socket.write_message(json.dumps(request | ({"sessionId": self.session} if self.session else {})))
            while True:
                text = await self.socket.read_message()
                assert text is not None, "the browser closed the connection"
                found = json.loads(text)
                if found.get("id") == own:
                    assert "error" not in found, found
                    return found["result"]

        return self.loop.run_sync(answer, timeout=TIMEOUT)

    def attached(self) -> Self:
        """Open a tab, and speak to it from then on."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        return self

    def show(self, path: Path, width: int, *, dark: bool = False, height: int = 900) -> Self:
        """Open a file on a screen so wide (pixels), of a reader who likes light or dark pages."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1,
                  mobile=width < 600)
        self.call("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        self.call("Page.navigate", url=path.resolve().as_uri())
        for _ in range(200):
            if self.ask("document.readyState") == "complete" and self.ask("location.href") != "about:blank":
                return self
        raise AssertionError(f"{path} was not loaded")

    def ask(self, expression: str) -> Any:
        """Return the value of an expression of the page's language."""
        found = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def photograph(self, out: Path, *, whole: bool = False) -> None:
        """Write a PNG picture of what the screen shows, or of the whole page."""
        data = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)["data"]
        out.write_bytes(base64.b64decode(data))


@contextmanager
def a_page() -> Iterator[Page]:
    """Yield a tab of a browser; skip the test where there is none."""
    browser = next(filter(None, map(shutil.which, NAMES)), None)
    if browser is None:
        pytest.skip("no Chromium on this machine: install Debian's package chromium to look at the report")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile, subprocess.Popen(
            [browser, *OPTIONS, f"--user-data-dir={profile}"], stderr=subprocess.PIPE, text=True) as process:
        loop = IOLoop(make_current=False)
        try:
            assert process.stderr is not None
            address = next((found[1] for line in process.stderr
                            if (found := re.search(r"DevTools listening on (ws://\S+)", line))), None)
            assert address is not None, "the browser did not start"
            socket = loop.run_sync(lambda: websocket_connect(address, max_message_size=1 << 28), timeout=TIMEOUT)
            yield Page(loop, socket).attached()
        finally:
            process.kill()
            loop.close(all_fds=True)
