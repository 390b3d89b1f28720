"""The JSON document of a command that failed."""

import json
from contextlib import suppress
from pathlib import Path

import click

from ..base.digest import JsonObject
from ..base.errors import described
from ..pipeline.progress import Event


class Outcome:
    """Prints the JSON document of a command that failed, with `--json`.

    as_json : whether that option was given. The document has `status` ("failed" or "interrupted"), `exit_code` and
    `error` (type, what, why, fix). If a run had begun, it also has the values of its status.json: run, name, stage,
    tasks, and the stages that ended.
    """

    def __init__(self, as_json: bool):
        self.as_json, self._folder = as_json, Path()

    def on_event(self, event: Event) -> None:
        """Keep the folder of a run from its first event."""
        if event["event"] == "run":
            from ..storage.files import path_at

            self._folder = path_at(event["folder"])

    def failed(self, error: BaseException, exit_code: int, message: str | None = None) -> None:
        """Print the document; message : of `explain`, by default the error's own."""
        if not self.as_json:
            return
        status = "interrupted" if isinstance(error, KeyboardInterrupt) else "failed"
        document: JsonObject = {"status": status, "exit_code": exit_code, "error": described(error, message)}
        with suppress(OSError, ValueError):
            known = json.loads((self._folder / "status.json").read_text(encoding="utf-8"))
            names = ("run", "name", "stage", "done", "of", "started", "updated", "stages")
            document |= {name: known[name] for name in names} | {"folder": str(self._folder)}
        click.echo(json.dumps(document, indent=1))
