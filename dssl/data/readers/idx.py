"""Reader of IDX files, the format of MNIST: a short header and a big-endian array; images become rows of pixels."""

import math
import re
from pathlib import Path
from typing import ClassVar

import numpy as np

from ...base.errors import DataError, require
from .base import cut_short, no_rows
from .npy import NpyReader

IDX_NAME = re.compile(r"idx\d(-\w+)?$")  # train-images-idx3-ubyte
DTYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}


def map_idx(path: Path, name: str) -> np.ndarray:
    """Return the array of an IDX file, memory-mapped.

    Raise DataError if the magic number is not one of IDX, or the file is shorter or longer than its header says.
    """
    with open(path, "rb") as file:
        magic = file.read(4)
        require(len(magic) == 4 and magic[:2] == b"\0\0" and magic[2] in DTYPES and magic[3] > 0, error=DataError,
                what=f"{name} begins with bytes {magic.hex(' ') or '(none)'}, expected 00 00, a type "
                     f"({', '.join(f'{code:02x}' for code in DTYPES)}) and a number of dimensions",
                why="it is not an IDX file", fix="name its true format with `format:`, or download it again")
        header = file.read(4 * magic[3])
        if len(header) < 4 * magic[3]:
            raise cut_short(name, 4 + 4 * magic[3], 4 + len(header))
    shape = tuple(int(size) for size in np.frombuffer(header, ">u4"))
    dtype, begin, nbytes = np.dtype(DTYPES[magic[2]]), 4 + len(header), path.stat().st_size
    expected = begin + math.prod(shape) * dtype.itemsize
    if nbytes < expected:
        raise cut_short(name, expected, nbytes)
    require(nbytes == expected, f"{name} has {nbytes - expected:,} bytes more than its header says", error=DataError,
            why="the header does not match the values", fix="download the file again")
    if math.prod(shape) == 0:
        raise no_rows(name)
    return np.memmap(path, dtype, mode="r", offset=begin, shape=shape)


def labels_name(images: str) -> str | None:
    """Return the conventional file name of the labels of an images file: train-labels-idx1-ubyte, and so on."""
    name = re.sub(r"idx\d", "idx1", images.replace("images", "labels"))
    return name if "images" in images else None


def labels_beside(path: Path) -> Path | None:
    """Return the file of labels that lies beside a file of images, compressed or not."""
    name = labels_name(path.name) or ""
    plain = name.removesuffix(".gz")
    beside = (path.parent / candidate for candidate in (name, plain, plain + ".gz"))
    return next((candidate for candidate in beside if candidate.is_file()), None)


class IdxReader(NpyReader):
    """X from a file of images (or any array), y from `labels`, a file of one value a row."""

    format: ClassVar[str] = "idx"
    endings: ClassVar[tuple[str, ...]] = (".idx",)

    @classmethod
    def is_named(cls, name: str) -> bool:
        return bool(IDX_NAME.search(name)) or super().is_named(name)

    def _map(self, path: Path, name: str) -> np.ndarray:
        return map_idx(path, name)
