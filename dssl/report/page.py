"""One self-contained HTML page a run."""

import html
import json
from pathlib import Path
from typing import Any


def write_report(path: Path, result: dict[str, Any], facts: dict[str, Any]) -> Path:
    """Write the page of a run and return its path."""
    rows = "".join(f"<tr><td>{html.escape(str(key))}</td><td><pre>{html.escape(json.dumps(value, indent=1))}</pre></td>"
                   "</tr>" for key, value in {**result, "facts": facts}.items())
    path.write_text(f"<!doctype html><meta charset=utf-8><title>{html.escape(result['name'])}</title>"
                    f"<table>{rows}</table>", encoding="utf-8")
    return path
