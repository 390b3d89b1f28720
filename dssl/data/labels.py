"""Random choices of labeled points, training points and test points.

Every choice draws a random order of the points and takes the first of them. So it depends on the seed and on which
points share a class, but not on the names of the classes, and a larger choice contains a smaller one.

Points come in blocks of `DRAW_ROWS`, each with its own random stream, and only one block is held at a time. The orders
of the blocks are merged into one order of all points, over which those of each block are evenly spread (`dealt`).
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ..base.errors import DataError, require
from ..storage.blocks import block_rng

CHOOSE, SPLIT, SAMPLE = 1, 2, 3  # separate random streams, so that labeled and test points are independent
DRAW_ROWS = 1 << 20  # points per block; the result of a draw depends on it

CodeBlocks = Callable[[], Iterable[np.ndarray]]  # each call iterates over the codes of all blocks; -1 for no label


def dealt(count: int, sizes: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Return how many of `count` items come from each group, in proportion to the group sizes (g,), as an array (g,).

    The items are the first `count` in the order of (position within the group + start) / size, with starts (g,)
    uniform in [0, 1): all items are equally likely, and a larger count takes no fewer from any group. `count` is at
    most the sum of the sizes.
    """
    share = count / max(int(sizes.sum()), 1)
    counts = np.clip(np.ceil(share * sizes - starts).astype(np.int64), 0, sizes)
    with np.errstate(divide="ignore", invalid="ignore"):
        while counts.sum() < count:
            counts[np.argmin(np.where(counts < sizes, (counts + starts) / sizes, np.inf))] += 1
        while counts.sum() > count:
            counts[np.argmax(np.where(counts > 0, (counts - 1 + starts) / sizes, -np.inf))] -= 1
    return counts


def _order(random_state: int, stream: int, block: int, n: int) -> np.ndarray:
    """Return the random order of the n points of a block."""
    return block_rng(random_state, stream, *([block] if block else [])).permutation(n)


def _start(random_state: int, stream: int, block: int, n_classes: int = 0) -> np.ndarray:
    """Return the random offsets of a block for `dealt`: of all its points, and of each class, (1 + c,)."""
    return block_rng(random_state, stream, block, 1).random(1 + n_classes)


def _starts(random_state: int, stream: int, n_blocks: int, n_classes: int = 0) -> np.ndarray:
    """Return the offsets of all blocks, (n_blocks, 1 + c)."""
    return np.array([_start(random_state, stream, block, n_classes) for block in range(n_blocks)])


@dataclass(frozen=True)
class _Census:
    """The numbers of points by code and block.

    codes (c,) : the codes that occur, in the order of their first points. sizes (b, c) : the number of points of each.
    lengths (b,) : the number of points of each block, with and without a code.
    """

    codes: np.ndarray
    sizes: np.ndarray
    lengths: np.ndarray

    @classmethod
    def of(cls, blocks: CodeBlocks, random_state: int, stream: int) -> "_Census":
        """Count the points; raise DataError if no point has a code."""
        first: dict[int, tuple[float, int]] = {}
        counts: list[dict[int, int]] = []
        lengths: list[int] = []
        for block, codes in enumerate(blocks()):
            require(codes.ndim == 1 and codes.dtype.kind in "iu", f"codes have shape {codes.shape} and type "
                    f"{codes.dtype}", why="codes are integers, one a point", fix="make them with encode_labels",
                    error=DataError)
            order = codes[_order(random_state, stream, block, len(codes))]
            order = order[order >= 0]
            present, begin, sizes = np.unique(order, return_index=True, return_counts=True)
            start = _start(random_state, stream, block)[0]
            lengths.append(len(codes))
            counts.append(dict(zip(present.tolist(), sizes.tolist(), strict=True)))
            for code, position in zip(present.tolist(), begin.tolist(), strict=True):
                key = ((position + start) / len(order), block)
                first[code] = min(first.get(code, key), key)
        require(bool(first), "no point has a label", why="there is nothing to choose from", error=DataError,
                fix="check the target column and the marker of unlabeled points")
        ordered = sorted(first, key=lambda code: first[code])
        sizes = np.array([[block.get(code, 0) for code in ordered] for block in counts], np.int64)
        return cls(np.array(ordered), sizes, np.array(lengths))

    def shares(self, counts: np.ndarray, random_state: int, stream: int) -> np.ndarray:
        """Return how many of the `counts` (c,) of each class come from each block, (b, c)."""
        starts = _starts(random_state, stream, len(self.sizes), len(self.codes))[:, 1:]
        return np.array([dealt(int(count), sizes, of_class) for count, sizes, of_class
                         in zip(counts, self.sizes.T, starts.T, strict=True)]).T

    @property
    def n(self) -> int:
        return int(self.sizes.sum())


def _ranks(codes: np.ndarray) -> np.ndarray:
    """Return for each of the codes (n,) how many equal codes come before it."""
    order = np.argsort(codes, kind="stable")
    starts = np.flatnonzero(np.diff(codes[order], prepend=-1))
    ranks = np.empty(len(codes), np.int64)
    ranks[order] = np.arange(len(codes)) - np.repeat(starts, np.diff(starts, append=len(codes)))
    return ranks


def _first_of_codes(codes: np.ndarray, order: np.ndarray, count_of: dict[int, int]) -> np.ndarray:
    """Return the first points of each code in an order of points; `count_of` has their number by code."""
    counts = np.zeros(int(codes.max(initial=0)) + 1, np.int64)
    for code, count in count_of.items():
        if count:
            counts[code] = count
    return order[_ranks(codes[order]) < counts[codes[order]]]


def choose_labels(blocks: CodeBlocks, *, count: int | None = None, per_class: int | None = None,
                  fraction: float | None = None, random_state: int, n_classes: int | None = None,
                  classes: Sequence[object] | None = None) -> np.ndarray:
    """Return the ascending numbers of the points whose labels are shown to the method.

    blocks : codes, -1 for an unknown label.
    count : the number of random points, with at least one of each class. per_class : the number of points per class.
    fraction : `count` as a share of the points with a known label. Exactly one of the three is given.
    n_classes : the number of classes, if the codes may lack one. classes : their names, which errors say.
    """
    _exactly_one(count=count, per_class=per_class, fraction=fraction)
    census = _Census.of(blocks, random_state, CHOOSE)
    expected = n_classes if n_classes is not None else int(census.codes.max()) + 1
    lacking = sorted(set(range(expected)) - set(census.codes.tolist()))
    named_class = [f"class {code}" if classes is None else f"class {classes[code]!r}" for code in range(expected)]
    require(not lacking, f"no points of {', '.join(named_class[code] for code in lacking[:12])}", error=DataError,
            why="every class needs a labeled point", fix="leave the class out, or draw from points that have it")
    n_present = len(census.codes)
    total = census.n
    if per_class is not None:
        require(per_class >= 1, f"per_class={per_class}", why="a class without labels cannot be learned", fix="use 1")
        sizes = dict(zip(census.codes.tolist(), census.sizes.sum(axis=0).tolist(), strict=True))
        short = {code: size for code, size in sizes.items() if size < per_class}
        shown = ", ".join(f"{named_class[code]} has {size}" for code, size in sorted(short.items())[:12])
        require(not short, f"{per_class} labeled points a class asked for; {shown}", error=DataError,
                why="a point is labeled once",
                fix=f"ask for {min(short.values(), default=0)} or fewer, or leave the class out (data.keep)")
        shares = census.shares(np.full(n_present, per_class), random_state, CHOOSE)
        return np.sort(np.concatenate([start + points for start, _, points in _by_class(
            blocks, census.codes, shares, random_state, CHOOSE)]))
    if fraction is not None:
        require(0 < fraction <= 1, f"fraction={fraction}", why="it is a share of the points", fix="use 0 to 1")
        count = max(1, round(fraction * total))
    assert count is not None
    named = f"points of {n_present} classes" if n_classes != 1 else "points that have one"
    require(n_present <= count <= total, error=DataError,
            what=f"{count} labeled points asked for, from {total} {named}",
            why=f"{'every class needs one, and ' if n_classes != 1 else ''}no more can be shown than are known",
            fix=f"choose from {n_present} to {total}")
    return _covering(blocks, census, count, random_state)


def _covering(blocks: CodeBlocks, census: _Census, count: int, random_state: int) -> np.ndarray:
    """Return the first `count` points of a random order, in which the first point of each class comes first."""
    points_of: list[np.ndarray] = []
    keys: list[np.ndarray] = []
    codes_of: list[np.ndarray] = []
    begin = 0
    starts = _starts(random_state, CHOOSE, len(census.sizes))[:, 0]
    for block, (codes, size) in enumerate(zip(blocks(), dealt(count, census.sizes.sum(axis=1), starts), strict=True)):
        order = _order(random_state, CHOOSE, block, len(codes))
        order = order[codes[order] >= 0]
        leading = np.arange(len(order)) < size
        selected = np.flatnonzero(leading | (_ranks(codes[order]) == 0))
        points_of.append(begin + order[selected])
        keys.append((selected + starts[block]) / max(len(order), 1))
        codes_of.append(codes[order[selected]])
        begin += len(codes)
    block_of = np.repeat(np.arange(len(points_of)), [len(block_points) for block_points in points_of])
    order = np.lexsort((block_of, np.concatenate(keys)))
    points = np.concatenate(points_of)[order]
    codes = np.concatenate(codes_of)[order]
    is_first = _ranks(codes) == 0
    return np.sort(np.concatenate([points[is_first], points[~is_first][:count - int(is_first.sum())]]))


def _by_class(blocks: CodeBlocks, names: np.ndarray, shares: np.ndarray, random_state: int,
                   stream: int) -> Iterator[tuple[int, int, np.ndarray]]:
    """Yield (number of the first point, number of points, drawn points) of each block.

    shares (b, c) : how many points of each of the codes `names` (c,) are drawn from each block.
    """
    begin = 0
    for block, codes in enumerate(blocks()):
        order = _order(random_state, stream, block, len(codes))
        order = order[codes[order] >= 0]
        count_of = dict(zip(names.tolist(), shares[block].tolist(), strict=True))
        yield begin, len(codes), _first_of_codes(codes, order, count_of)
        begin += len(codes)


@dataclass(frozen=True)
class DrawnTest:
    """The test points; iteration yields for each block which of its points are tested, (n,) bool.

    lengths (b,) : the number of points per block. shares (b, c) : the test points per block of each code `names` (c,).
    """

    blocks: CodeBlocks
    lengths: np.ndarray
    names: np.ndarray
    shares: np.ndarray
    random_state: int

    def __iter__(self) -> Iterator[np.ndarray]:
        for _, n, drawn in _by_class(self.blocks, self.names, self.shares, self.random_state, SPLIT):
            is_test = np.zeros(n, bool)
            is_test[drawn] = True
            yield is_test


def split_test(blocks: CodeBlocks, *, count: int | None = None, fraction: float | None = None,
               random_state: int) -> DrawnTest:
    """Draw the test points; the others are training points. The number per block is known before any is drawn.

    blocks : codes; points with code -1 are never tested, since there is no label to compare with.
    count : the number of test points. fraction : a share of the points that can be tested. Exactly one is given.
    The test set has the class shares of the data to within one point, and every class keeps a training point.
    """
    _exactly_one(count=count, fraction=fraction)
    census = _Census.of(blocks, random_state, SPLIT)
    if fraction is not None:
        require(0 < fraction < 1, f"fraction={fraction}", why="it is the share of test points", fix="use 0 to 1")
        count = max(1, round(fraction * census.n))
    assert count is not None
    sizes = census.sizes.sum(axis=0)
    maximum = int(np.maximum(sizes - 1, 0).sum())
    require(1 <= count <= maximum, f"{count} test points asked for, at most {maximum} of {census.n} can be",
            error=DataError, why="every class keeps a training point, and unlabeled points cannot be tested",
            fix=f"ask for 1 to {maximum}" if maximum else "label more points")
    return DrawnTest(blocks, census.lengths, census.codes,
                     census.shares(np.array(_shares(sizes, count)), random_state, SPLIT), random_state)


def official_test(blocks: Iterable[np.ndarray]) -> Iterator[np.ndarray]:
    """Yield for each block of an official split (0 training, 1 test) which points are tested, (n,) bool."""
    for official in blocks:
        require(bool(np.isin(official, (0, 1)).all()), error=DataError,
                what=f"the official split has values {np.unique(official)[:5].tolist()}",
                why="each point is 0, training, or 1, test", fix="check the split of the data set")
        yield official == 1


def _shares(sizes: np.ndarray, count: int) -> list[int]:
    """Return the number of points from each group, `count` in total, in proportion to the sizes, never all of one."""
    exact = count * sizes / sizes.sum()
    shares = np.minimum(np.floor(exact).astype(int), np.maximum(sizes - 1, 0))
    while shares.sum() < count:
        lacking = np.where(shares < sizes - 1, exact - shares, -np.inf)
        shares[int(np.argmax(lacking))] += 1
    return shares.tolist()


def sample_points(sizes: np.ndarray, count: int, random_state: int) -> Iterator[np.ndarray]:
    """Draw `count` of all points; yield for each block their ascending positions within the block.

    sizes : the number of points per block.
    """
    total = int(sizes.sum())
    require(1 <= count <= total, f"{count} points asked for, from {total}", why="points are drawn once each",
            fix=f"ask for 1 to {total}", error=DataError)
    shares = dealt(count, sizes, _starts(random_state, SAMPLE, len(sizes))[:, 0])
    for block, (size, share) in enumerate(zip(sizes.tolist(), shares.tolist(), strict=True)):
        yield np.sort(_order(random_state, SAMPLE, block, size)[:share])


def _exactly_one(**options: float | None) -> None:
    named = [name for name, value in options.items() if value is not None]
    require(len(named) == 1, f"given: {', '.join(named) or 'none'}", fix="set one of them and leave the others out",
            why=f"exactly one of {', '.join(options)} says how many points")
