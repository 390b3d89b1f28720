"""Print the oldest versions that pyproject.toml allows of what the package and its tests need, as requirements."""

import re
import tomllib
from pathlib import Path

project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
extras = project["optional-dependencies"]
needed = [*project["dependencies"], "dssl[test]"]
while own := [item for item in needed if item.startswith("dssl[")]:  # extras that name extras
    needed.remove(own[0])
    needed += [item for name in re.findall(r"[\w-]+", own[0])[1:] for item in extras[name]]
print("\n".join(item.replace(">=", "==") for item in needed))
