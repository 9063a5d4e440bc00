"""NumPy and plain Python twins of the draws, from words."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from .philox import Words, blocks, words

ROUNDS = 12


def uniform(w: Words) -> NDArray[np.float64]:
    """Return the upper 52 bits as a fraction."""
    return (w >> np.uint64(12)).astype(np.float64) * 2.0**-52


def normal(w: Words) -> NDArray[np.float64]:
    """Return Box and Muller's pairs of words (radius, angle); the length of w is even."""
    radius = np.sqrt(-2.0 * np.log(uniform(w[::2]) + 2.0**-53))
    angle = 2.0 * np.pi * uniform(w[1::2])
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1).ravel()


def below(seed: int, purpose: int, step: int, n: int, count: int) -> list[int]:
    """Return Lemire's bounded integers, in exact integer arithmetic."""
    out = []
    for i, first in enumerate(words(seed, purpose, step, count)):
        product, attempt = int(first) * n, 0
        while product % 2**64 < 2**64 % n:
            attempt += 1
            product = int(words(seed, purpose, step, 1, i, attempt)[0]) * n
        out.append(product >> 64)
    return out


def geometric(w: Words, mean: float) -> NDArray[np.int64]:
    """Return floor(log u / log gamma), gamma = mean / (1 + mean)."""
    return np.floor(np.log(uniform(w) + 2.0**-53) / math.log(mean / (1.0 + mean))).astype(np.int64)


def level(w: Words, j_max: int) -> list[int]:
    """Return one more than the number of leading zeros, at most j_max."""
    return [min(65 - int(word).bit_length(), j_max) for word in w]


def permutation(seed: int, purpose: int, step: int, n: int) -> list[int]:
    """Return the keyed permutation of range(n): a table up to 16, else a Feistel network walked until it lands below n."""
    if n <= 16:
        word, following = (int(w) for w in words(seed, purpose, step, 2))
        order = list(range(n))
        for i in range(n - 1):
            if i == 8:
                word = following
            choice, word = divmod(word * (n - i), 2**64)
            order[i], order[i + choice] = order[i + choice], order[i]
        return order
    keys = [int(k) for k in blocks(seed, purpose, step, np.arange(3, dtype=np.uint64)).ravel()]
    bits = (n - 1).bit_length()
    low_bits, high_bits = bits // 2, bits - bits // 2

    def mix(x: int, key: int) -> int:
        x ^= key
        x = (x ^ x >> 16) * 0x7FEB352D % 2**32
        x = (x ^ x >> 15) * 0x846CA68B % 2**32
        return x ^ x >> 16

    def image(k: int) -> int:
        while True:
            low, high = k % 2**low_bits, k >> low_bits
            for r in range(0, ROUNDS, 2):
                high ^= mix(low, keys[r]) % 2**high_bits
                low ^= mix(high, keys[r + 1]) % 2**low_bits
            k = high << low_bits | low
            if k < n:
                return k

    return [image(k) for k in range(n)]


def alias_table(weights: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return probabilities to keep a column and the other entry of each (Vose)."""
    n = len(weights)
    keep = weights / math.fsum(weights) * n
    other = np.arange(n)
    small = [i for i in range(n) if keep[i] < 1]
    large = [i for i in range(n) if keep[i] >= 1]
    while small and large:
        s, big = small.pop(), large[-1]
        other[s] = big
        keep[big] = keep[big] + keep[s] - 1
        if keep[big] < 1:
            small.append(large.pop())
    return keep, other
