"""Print the oldest versions that pyproject.toml allows of what the package and its tests need, as requirements."""

import tomllib
from pathlib import Path

project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
needed = [*project["dependencies"], *project["optional-dependencies"]["test"]]
print("\n".join(item.replace(">=", "==") for item in needed))
