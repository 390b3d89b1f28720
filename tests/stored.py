"""Where the files of an artifact lie."""

from pathlib import Path

from dssl.storage.artifacts import parts_in
from dssl.storage.files import files_in, path_at
from dssl.storage.frames import PACK, members_of
from dssl.storage.store import StoredParts


def flip(path: Path, place: float = 0.5) -> None:
    """Change one bit of a file."""
    data = bytearray(path.read_bytes())
    data[int(len(data) * place)] ^= 1
    path.write_bytes(bytes(data))


def stored_in(parts: StoredParts, name: str = "") -> Path:
    """Return a path in a folder of parts, such as `parts/000000/data`, in the attempt that wrote the part."""
    steps = list(Path(name).parts)
    if "parts" in steps[:-2]:
        at = steps.index("parts")
        within = parts.folder.joinpath(*steps[:at])
        steps[:at + 2] = [*steps[:at + 2], StoredParts(within).attempt_folder(int(steps[at + 1])).name]
    return parts.folder.joinpath(*steps)


def stored(artifact: Path, name: str = "") -> Path:
    """Return a path among the parts of the artifact in a folder."""
    return stored_in(parts_in(artifact), name)


def contents(workspace: str | Path) -> dict[str, bytes]:
    """Return the bytes of every stored chunk by its path without layouts, attempts and packs, in a folder or a store.

    JSON holds times, and is out; so are drafts, which begin with a dot and stay where a process was killed.
    """
    root, found = path_at(workspace) / "artifacts", {}
    for path, _ in files_in(root):
        if path.suffix != ".json" and not path.name.startswith("."):
            stage, address, _, *steps = path.relative_to(root).parts
            if "parts" in steps:
                del steps[steps.index("parts") + 2]
            files = members_of(path, path.read_bytes()) if path.name == PACK else {"": path.read_bytes()}
            place = "/".join((stage, address, *(steps[:-1] if path.name == PACK else steps)))
            found |= {f"{place}/{name}".rstrip("/"): stored for name, stored in files.items()
                      if not name.endswith(".json")}
    return found
