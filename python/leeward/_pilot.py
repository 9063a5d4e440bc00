"""A start from few rows: the same robust problem on growing subsamples of a linear model, each begun where the last ended.

m rows determine the optimum up to an excess of about ``d/(2 m)`` of the loss, so each level is solved a little beyond that,
and a level has eight times the rows of the one below. The rows depend on the sizes and the seed alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from leeward.oracles import LinearModel
from leeward.problems import Robust

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["level_rows", "subproblem"]

_RATIO = 8  # rows of a level over rows of the level below
_ROWS_A_COORDINATE = 8  # least rows of a level, in units of the coordinates of one output
_LEAST = 2000  # no level has fewer rows
_ENTRIES = 1 << 24  # a level is a copy of at most about so many entries of X
_PURPOSE = 0x50696C6F74  # keeps these draws apart from others of the same seed


def level_rows(problem: Robust, model: LinearModel, seed: int) -> list[NDArray[np.int64]]:
    """Row numbers of the levels below the full data, growing; empty when the full data are few.

    Rows of weight 0 are left out; with groups each group gives the same number of rows as far as it has them.
    """
    least = max(_ROWS_A_COORDINATE * (model.n_features + 1), _LEAST)
    n = problem.size
    top = min(max(n // _RATIO, least), max(_ENTRIES // model.n_features, least))
    if 3 * top > n:
        return []
    order = np.random.Generator(np.random.Philox(key=[seed % 2**64, _PURPOSE])).permutation(n)
    if problem.base is not None:
        order = order[problem.base[order] > 0]
    if problem.groups is not None:
        order = _even(order, problem.groups)
    levels = []
    m = min(top, len(order))
    while m >= least:
        levels.append(np.sort(order[:m]))
        m //= _RATIO
    return levels[::-1]


def _even(order: NDArray[np.int64], groups: NDArray[np.int64]) -> NDArray[np.int64]:
    """The order in which groups take turns."""
    labels = groups[order]
    turn = np.empty(len(order), dtype=np.int64)
    by_group = np.argsort(labels, kind="stable")
    starts = np.flatnonzero(np.r_[True, np.diff(labels[by_group]) > 0])
    lengths = np.diff(np.r_[starts, len(order)])
    turn[by_group] = np.arange(len(order)) - np.repeat(starts, lengths)
    return order[np.argsort(turn, kind="stable")]


def subproblem(problem: Robust, model: LinearModel, rows: NDArray[np.int64]) -> Robust:
    """The problem on some rows, copied to dense doubles."""
    weight = None if model.sample_weight is None else model.sample_weight[rows]
    part = LinearModel(
        model.rows(rows),
        model.targets(rows),
        model.loss,
        l2=model.l2,
        intercept=model.intercept,
        sample_weight=weight,
    )
    return Robust(part, problem.risk, groups=None if problem.groups is None else problem.groups[rows])
