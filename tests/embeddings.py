"""Made-up embeddings whose neighbors are hard to find: groups of many scales and sizes, hubs, and duplicates."""

import numpy as np

BLOCK_ROWS = 1 << 14  # rows at a time
GROUPS, SMALLEST_SCALE = 200, 0.05  # groups of points, and the scale of the tightest beside the widest
HUB_SHARE, DUPLICATE_SHARE = 0.01, 0.03


def hard_embeddings(n, columns, dimension, random_state=0):
    """Return rows (n, columns) float32 whose differences have about `dimension` effective dimensions.

    The groups have sizes as 1 / rank, scales from 0.05 to 1, and centers half as far apart as the widest group is
    wide; each stretches the common directions, whose variances decay beyond `dimension`, in its own way. One row in a
    hundred lies near the center of its group, so that many rows have it among their neighbors; 3 % repeat another row,
    half of them with a little noise.
    """
    rng = np.random.default_rng([random_state, n, columns, dimension])
    directions, _ = np.linalg.qr(rng.standard_normal((columns, columns)).astype(np.float32))
    deviations = 1 / (1 + (np.arange(columns) / dimension) ** 2)
    deviations = (deviations / np.linalg.norm(deviations)).astype(np.float32)
    sizes = 1 / np.arange(1, GROUPS + 1)
    scales = np.exp(rng.uniform(np.log(SMALLEST_SCALE), 0, GROUPS)).astype(np.float32)
    stretches = np.exp(0.5 * rng.standard_normal((GROUPS, columns))).astype(np.float32)
    centers = 0.5 * deviations * rng.standard_normal((GROUPS, columns)).astype(np.float32)
    X = np.empty((n, columns), np.float32)
    for start in range(0, n, BLOCK_ROWS):
        stop = min(n, start + BLOCK_ROWS)
        group = rng.choice(GROUPS, stop - start, p=sizes / sizes.sum())
        block = rng.standard_normal((stop - start, columns), np.float32)
        block *= np.where(rng.random(stop - start) < HUB_SHARE, 0.2, 1).astype(np.float32)[:, None]
        block *= scales[group, None] * stretches[group] * deviations
        np.matmul(block + centers[group], directions.T, out=X[start:stop])
    repeated = rng.choice(n, 2 * int(DUPLICATE_SHARE * n), replace=False).reshape(2, -1)
    noise = rng.standard_normal((repeated.shape[1], columns), np.float32)
    noise[::2] = 0
    X[repeated[0]] = X[repeated[1]] + 1e-3 * noise / np.sqrt(np.float32(columns))
    return X


def hard_pixels(n, columns=784, dimension=100, random_state=0):
    """Return rows of `hard_embeddings` as gray values: whole numbers from 0 to 255, most of them 0, float32."""
    X = hard_embeddings(n, columns, dimension, random_state)
    return np.rint(np.clip(120 * np.sqrt(columns) * X, 0, 255)).astype(np.float32)
