"""What the two coverage-guided searches share: a corpus made by the strategies, and the call of libFuzzer.

They need the extra `fuzz` (atheris), which has no wheel for every Python; they are run by hand and are not tests.
"""

import argparse
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import atheris
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st


def examples(strategy: st.SearchStrategy[Any], count: int) -> list[Any]:
    """Return examples of a strategy, the same ones at each call."""
    found: list[Any] = []

    @settings(max_examples=count, derandomize=True, database=None, deadline=None, phases=[Phase.generate],
              suppress_health_check=list(HealthCheck))
    @given(strategy)
    def collect(example: Any) -> None:
        found.append(example)

    collect()
    return found


def search(seeds: list[bytes], check: Callable[[bytes], None]) -> None:
    """Change the seeds for so many seconds as --seconds says, towards lines of code that were not reached yet.

    An exception ends the search: its input is written to --found. The process ends here either way.
    """
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--found", default="found-", help="prefix of the file with the input that failed")
    parser.add_argument("--seed", type=int, default=1)
    given_options = parser.parse_args()
    corpus = Path(tempfile.mkdtemp(prefix="dssl-corpus-"))
    for i, raw in enumerate(seeds):
        (corpus / f"{i:04d}").write_bytes(raw)
    atheris.Setup([sys.argv[0], str(corpus), f"-max_total_time={given_options.seconds}", "-max_len=4096", "-timeout=60",
                   f"-seed={given_options.seed}", f"-artifact_prefix={given_options.found}", "-print_final_stats=1",
                   "-rss_limit_mb=4096"], check)
    atheris.Fuzz()
