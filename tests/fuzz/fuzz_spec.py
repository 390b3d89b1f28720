"""Search for a text that is neither a spec nor refused: python -m tests.fuzz.fuzz_spec --seconds 60"""

import os
import tempfile
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["yaml", "dssl.pipeline.spec", "dssl.base.yaml", "dssl.runtime",
                                         "dssl.kernels.base"]):
    from dssl.data import sources

    from .claims import described_or_refused, understood_or_refused
    from .specs import CLUSTERS, MARKS, PIPELINES

FOLDER = tempfile.TemporaryDirectory(prefix="dssl-fuzz-")


def check(raw: bytes) -> None:
    """Load the text as a pipeline and plan it, or as a cluster description, as its first byte says."""
    path = Path(FOLDER.name) / "given.yaml"
    path.write_bytes(raw[1:])
    if raw[:1] == b"c":
        described_or_refused(path)
    else:
        understood_or_refused(path, Path(FOLDER.name))


if __name__ == "__main__":
    from .guided import search

    os.environ["DSSL_CACHE"] = tempfile.mkdtemp(prefix="dssl-cache-")
    os.environ.pop("DSSL_DATA", None)
    sources._online = lambda: False  # a name of one changed letter is not asked for on the network
    sources.SCHEMES = ("memory",)
    for name in ("digits", "iris", "wine", "breast_cancer", "diabetes"):
        sources.find_source(name)
    search([b"s" + path.read_bytes() for path in PIPELINES] + [b"c" + path.read_bytes() for path in CLUSTERS]
           + [b"sname: x\ndata: {source: digits}\nlabels: {count: 9}\nmodel: {kind: svm, eta: " + mark + b"}\n"
              for mark in MARKS]
           + [b"sname: x\ndata: {source: digits}\nlabels: {count: 9}\n"], check)
