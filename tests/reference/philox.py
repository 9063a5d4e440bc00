"""NumPy twin of the counter-based generator and of the words of a stream (Salmon and others, SC 2011)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]
MASK = np.uint64(0xFFFFFFFF)
HALF = np.uint64(32)


def philox(counter: Words, key: tuple[int, int]) -> Words:
    """Return Philox 4x32-10 of counters ``(..., 4)`` of 32-bit words."""
    x0, x1, x2, x3 = (counter[..., k] for k in range(4))
    k0, k1 = key
    for _ in range(10):
        a = np.uint64(0xD2511F53) * x0
        b = np.uint64(0xCD9E8D57) * x2
        x0, x1, x2, x3 = (b >> HALF) ^ x1 ^ np.uint64(k0), b & MASK, (a >> HALF) ^ x3 ^ np.uint64(k1), a & MASK
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return np.stack([x0, x1, x2, x3], axis=-1)


def blocks(seed: int, purpose: int, step: int, index: Words, attempt: int = 0) -> Words:
    """Return the blocks of a stream: 40 bits of index, 8 of attempt, 16 of purpose and 64 of step are the counter."""
    counter = np.empty((len(index), 4), dtype=np.uint64)
    counter[:, 0] = index & MASK
    counter[:, 1] = (index >> HALF) | np.uint64(attempt << 8 | purpose << 16)
    counter[:, 2] = step & 0xFFFFFFFF
    counter[:, 3] = step >> 32
    return philox(counter, (seed & 0xFFFFFFFF, seed >> 32))


def words(seed: int, purpose: int, step: int, count: int, first: int = 0, attempt: int = 0) -> Words:
    """Return words first, ..., first + count - 1; word i is half i mod 2 of block i // 2."""
    i = np.arange(first, first + count, dtype=np.uint64)
    b = blocks(seed, purpose, step, i >> np.uint64(1), attempt)
    low, high = b[:, 0] | b[:, 1] << HALF, b[:, 2] | b[:, 3] << HALF
    return np.where(i % np.uint64(2) == 0, low, high)
