"""Search for a file that a reader neither reads nor refuses: python -m tests.fuzz.fuzz_readers --seconds 60"""

import tempfile
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["dssl.data.readers", "dssl.data.ingest", "dssl.data.columns",
                                         "dssl.data.survey", "zipfile", "numpy.lib._format_impl"],
                                exclude=["dssl.data.readers.lines"]):  # compiled: its bytecode must stay as it is
    from .claims import read_or_refused
    from .files import COMPRESS, ENDINGS, File, damaged_inside, single_files, text_files

NAMES = [f"t{ending}{packed}" for packed in ("", *COMPRESS) for ending in ENDINGS]
OPTIONS = ({}, {"target": "none"}, {"header": True}, {"header": False}, {"delimiter": "whitespace"}, {"decimal": ","},
           {"encoding": "latin-1"}, {"drop": (0,)}, {"missing": "x"}, {"dtype": "float64"}, {"target": 0},
           {"n_columns": 5}, {"zero_based": True})


def random_state(file: File) -> bytes:
    """Return the bytes that stand for a file: its name, its options, what it holds."""
    name = file.name if file.name in NAMES else "t.idx"
    return bytes([NAMES.index(name), 0]) + file.raw


def check(raw: bytes) -> None:
    """Read the file that the bytes stand for."""
    if len(raw) < 3:
        return
    file = File(NAMES[raw[0] % len(NAMES)], raw[2:], OPTIONS[raw[1] % len(OPTIONS)])
    with tempfile.TemporaryDirectory(prefix="dssl-fuzz-") as folder:
        read_or_refused(file, Path(folder), stored=False)


if __name__ == "__main__":
    from .guided import examples, search

    search([random_state(file) for strategy in (single_files, text_files, damaged_inside())
            for file in examples(strategy, 80)],
           check)
