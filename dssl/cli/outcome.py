"""What a command that failed says as JSON."""

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from ..base.errors import described
from ..pipeline.progress import Event


class Outcome:
    """Prints the JSON document of a command that failed, if it was asked for.

    as_json : whether it was. The document says `status` ("failed" or "interrupted"), `exit_code` and `error` (type,
    what, why, fix); and of a run that had begun what its status.json says: run, name, stage, tasks, and the stages that
    ended.
    """

    def __init__(self, as_json: bool):
        self.as_json, self._folder = as_json, Path()

    def tell(self, event: Event) -> None:
        """Take note of an event of a run."""
        if event["event"] == "run":
            from ..storage.files import path_at

            self._folder = path_at(event["folder"])

    def failed(self, error: BaseException, exit_code: int, message: str | None = None) -> None:
        """Print the document; message : of `explain`, where the error says something else."""
        if not self.as_json:
            return
        status = "interrupted" if isinstance(error, KeyboardInterrupt) else "failed"
        document: dict[str, Any] = {"status": status, "exit_code": exit_code, "error": described(error, message)}
        with suppress(OSError, ValueError):
            known = json.loads((self._folder / "status.json").read_text(encoding="utf-8"))
            names = ("run", "name", "stage", "done", "of", "started", "updated", "stages")
            document |= {name: known[name] for name in names} | {"folder": str(self._folder)}
        click.echo(json.dumps(document, indent=1))
