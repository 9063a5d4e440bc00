"""Intervals of Student's t, for all experiments."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import stats


def half_width(values: Any) -> Any:
    """Half the width of the 95 % interval of the mean over the first axis; NaN for one value."""
    values = np.asarray(values, dtype=float)
    n = len(values)
    if n < 2:
        return np.full(values.shape[1:], np.nan)[()]
    return stats.t.ppf(0.975, n - 1) * values.std(axis=0, ddof=1) / np.sqrt(n)


def interval(values: Any) -> tuple[float, float, float]:
    """The mean and the ends of its 95 % interval, which one value does not have."""
    mean, half = float(np.mean(values)), float(half_width(values))
    return mean, mean - half, mean + half
