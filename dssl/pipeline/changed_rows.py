"""How many rows of files that changed or vanished are gone, and how many are new: by a hash of values and label."""

from collections.abc import Iterable

import numpy as np
import pandas as pd

from ..data.dataset import Dataset
from ..graph.equal_rows import hash_rows
from ..storage.artifacts import Artifact, Workspace
from ..storage.manifests import PUBLISHED
from .dataset import stored_dataset
from .growth import Growth

HASHED_ROWS = 1 << 16  # of a block


def changed_rows(growth: Growth, workspace: Workspace, artifact: Artifact) -> str:
    """Return what became of the rows of files that changed or vanished, in words; nothing where that is not known.

    artifact : with all rows, in the order of the files that were found.
    """
    last, changes = growth.last, growth.changes
    if last is None or changes is None:
        return ""
    old = {*(record for record, _ in changes.changed), *changes.vanished}
    address = last.graphs[0][1]["dataset"]
    if not old or not artifact.exists or not (workspace.folder_of("dataset", address) / PUBLISHED).is_file():
        return ""
    before, now = stored_dataset(workspace.artifact_in("dataset", address)), stored_dataset(artifact)
    if before.X.shape[1:] != now.X.shape[1:] or before.feature_names != now.feature_names:
        return "their columns are not those that they had"
    hashes_before = _hashes(before, [number for number, record in enumerate(last.files) if record in old])
    hashes_now = _hashes(now, changes.new)
    same = _common(hashes_before, hashes_now)
    n_before = len(hashes_before)
    return (f"of the {n_before:,} rows that these files had, {n_before - same:,} are gone; {len(hashes_now) - same:,} "
            "rows of changed and new files are new")


def _common(one: np.ndarray, other: np.ndarray) -> int:
    """Return how many hashes two arrays have in common, each as often as in the one that has it less often."""
    (values, counts), (others, theirs) = (np.unique(each, return_counts=True) for each in (one, other))
    _, i, j = np.intersect1d(values, others, assume_unique=True, return_indices=True)
    return int(np.minimum(counts[i], theirs[j]).sum())


def _hashes(dataset: Dataset, files: Iterable[int]) -> np.ndarray:
    """Return a hash of each row of some files, by their numbers."""
    starts = np.cumsum([0, *(file["rows"] for file in dataset.attributes["files"])])
    names, label_hashes = dataset.attributes.get("label_names"), [np.empty(0, np.uint64)]
    of_names = None if names is None else pd.util.hash_array(np.array([*names, ""], object))
    for file in files:
        for start in range(starts[file], starts[file + 1], HASHED_ROWS):
            stop = min(start + HASHED_ROWS, starts[file + 1])
            hashes = hash_rows(dataset.X.read(start, stop))
            if dataset.y is not None:
                y = dataset.y.read(start, stop)
                hashes = hashes ^ (pd.util.hash_array(y.astype(np.float64)) if of_names is None else of_names[y])
            label_hashes.append(hashes)
    return np.concatenate(label_hashes)
