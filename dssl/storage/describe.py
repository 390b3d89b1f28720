"""What arrays there are in a folder, for whoever looks."""

from collections import Counter
from pathlib import Path
from typing import Any

from .array_files import DESCRIPTION, open_array
from .files import files_in
from .packs import PACK, members_of


def _name_in(folder: Path, path: Path) -> str:
    """Return the path of an array in the folder of its parts, without the attempt that wrote it."""
    steps = [step for step in path.relative_to(folder).parts if step != PACK]
    if "parts" in steps[:-1]:
        del steps[steps.index("parts") + 2]
    return "/".join(steps)


def describe_arrays(folder: Path) -> list[dict[str, Any]]:
    """Return path, shape, dtype, chunks, bytes, and bytes on disk of every array in a folder; reads no values."""
    sizes = Counter[Path]()
    for path, size in files_in(folder):
        packed = members_of(path, path.read_bytes()) if path.name == PACK else None
        sizes.update({path: size} if packed is None
                     else {path / name: len(content) for name, content in packed.items()})
    arrays = sorted(path.parent for path in sizes if path.name == DESCRIPTION)
    bytes_of = Counter[Path]()
    for path, size in sizes.items():
        for above in path.parents:
            bytes_of[above] += size
    return [{"name": _name_in(folder, path), "shape": list(array.shape), "dtype": str(array.dtype),
             "chunks": list(array.chunks), "bytes": int(array.nbytes), "bytes_on_disk": bytes_of[path]}
            for path, array in ((path, open_array(path)) for path in arrays)]
