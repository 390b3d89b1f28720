"""Print the oldest versions that pyproject.toml allows of what the package and its tests need, as requirements."""

import tomllib
from pathlib import Path

project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
extras = project["optional-dependencies"]
needed = [*project["dependencies"], *extras["test"], *extras.get("parquet", [])]
print("\n".join(item.replace(">=", "==") for item in needed if not item.startswith("dssl[")))
