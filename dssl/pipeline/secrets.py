"""What is written down for an engine holds no secret of the environment in which it is written."""

import json
import os
import re
import shlex
from collections.abc import Mapping

from ..base.errors import SpecError, require

NAMES = re.compile("KEY|TOKEN|SECRET|PASSWORD", re.IGNORECASE)  # of variables whose values look like secrets
SHORTEST = 6  # characters; a shorter value, such as "us" of KEYMAP, occurs by chance


def secrets_of(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables whose values look like secrets; the path of a file, such as that of a key, is none."""
    return {name: value for name, value in environment.items()
            if NAMES.search(name) and len(value) >= SHORTEST and not os.path.exists(value)}


def require_no_secret(what: str, text: str, environment: Mapping[str, str] = os.environ) -> None:
    """Raise SpecError if a text to be written down contains the value of a variable that looks like a secret.

    The error names the variable, never its value.
    """
    for name, value in sorted(secrets_of(environment).items()):
        # As text, for a shell, in JSON, and quoted in YAML.
        forms = {value, shlex.quote(value), json.dumps(value)[1:-1], value.replace("'", "''")}
        require(not any(form in text for form in forms), error=SpecError,
                what=f"{what} contains the value of the environment variable {name}",
                why="whoever can read the workspace, or can ask the engine for the job, would learn it",
                fix=f"remove the value from the spec and the cluster description, and let the job read {name} where it "
                    "runs: from its environment, from a file that only you can read, or from a Secret of Kubernetes; "
                    f"if {name} is no secret, unset it for this command")
