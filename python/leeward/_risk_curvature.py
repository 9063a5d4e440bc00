"""Curvature of the inner problem: how worst-case weights answer to losses and to the strength of a smoothing.

With c the curvature of the risk (``Risk.curvature``) the weights move by ``dq_i = c_i (dl_i - mean of dl under c)``, the mean taken over
each pool of samples that share a given weight; a radius that binds takes one more direction away.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from leeward._smoothing import has_kink_at_ties
from leeward.risks import KL, ChiSquare, CressieRead, Spectral, TotalVariation

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from leeward.oracles import LinearModel
    from leeward.problems import Evaluation, Robust
    from leeward.risks import Risk

    Vector = NDArray[np.float64]

__all__ = ["chord_curvature", "group_curvature", "pools_of", "radius_binds", "risk_curvature", "strength_pull"]

# Difference of the pools' constants, in units of the penalty, from which pools are apart.
_SAME_POOL = 1e-6


def strength_pull(problem: Robust, model: LinearModel, w: Vector, evaluation: Evaluation, threads: int) -> Vector:
    """``b = sum_i c_i (l_i - mean_c l) s_i x~_i = -lam dg/dlam`` (d,), lam the penalty of the smoothed risk.

    Zero where a radius binds: the penalty then takes over from the radius's multiplier, and the weights stay.
    """
    if radius_binds(problem.risk, evaluation):
        return np.zeros(model.dim)
    if problem.groups is None:
        c, losses = risk_curvature(problem, evaluation), evaluation.losses
        share = np.ones(problem.size)
    else:
        held = evaluation.solution.weights
        number = np.maximum(problem.groups, 0)
        counts = (problem.groups >= 0) & (held[number] > 0)
        share = np.divide(evaluation.weights, held[number], out=np.zeros(problem.size), where=counts)
        means = np.bincount(number, weights=share * evaluation.losses, minlength=len(held)).astype(np.float64)
        c, losses = group_curvature(problem, evaluation)[number], means[number]
    weight = share * c * (losses - _pool_means(share * c, losses, pools_of(problem, evaluation)))
    s = model.slopes(w, threads=threads)
    return model.adjoint(weight * s if s.ndim == 1 else weight[:, None] * s, threads=threads)


def chord_curvature(problem: Robust, start: Evaluation, end: Evaluation) -> Vector | None:
    """``(q_i' - q_i) / (l_i' - l_i)`` of two points where it is positive, else 0 (n,); None with groups.

    A sample without weight has no curvature, though a long step can wake it: the chord of a step that went wrong says so.
    """
    if problem.groups is not None:
        return None
    rise = end.losses - start.losses
    moved = end.weights - start.weights
    return np.divide(moved, rise, out=np.zeros(problem.size), where=moved * rise > 0)


def pools_of(problem: Robust, evaluation: Evaluation) -> NDArray[np.int64] | None:
    """Number of the pool of each sample: sets of samples that share a given weight; None where all share one.

    With an entropic penalty lam over the weights of a spectrum or of a total variation, ``l_i - lam log(q_i/p_i)`` is
    constant on each pool.
    """
    risk = problem.risk
    if problem.groups is not None or not (isinstance(risk, Spectral | TotalVariation) and risk.penalty is not None):
        return None
    q = evaluation.weights
    p = np.full(problem.size, 1.0 / problem.size) if problem.base is None else problem.base
    key = np.full(problem.size, math.inf)
    held = (q > 0) & (p > 0)
    key[held] = evaluation.losses[held] - risk.penalty * np.log(q[held] / p[held])
    order = np.argsort(key, kind="stable")
    ordered = key[order]
    new = np.zeros(problem.size, dtype=np.int64)
    new[1:] = ordered[1:] > ordered[:-1] + _SAME_POOL * risk.penalty
    pools = np.empty(problem.size, dtype=np.int64)
    pools[order] = np.cumsum(new)
    return pools


def _pool_means(weight: Vector, values: Vector, pools: NDArray[np.int64] | None) -> Vector:
    """The weighted mean of values over the pool of each sample; 0 where it has no weight."""
    at = np.zeros(len(values), dtype=np.int64) if pools is None else pools
    mass = np.bincount(at, weights=weight)
    total = np.bincount(at, weights=weight * values)
    return np.divide(total, mass, out=np.zeros(len(mass)), where=mass > 0)[at]


def radius_binds(risk: Risk, evaluation: Evaluation) -> bool:
    """Whether the weights are held by a radius (of the f-divergences: total variation binds otherwise)."""
    if not (isinstance(risk, ChiSquare | KL | CressieRead) and risk.radius is not None):
        return False
    return risk.penalty is None or float(evaluation.solution.multiplier) > 0.0


def risk_curvature(problem: Robust, evaluation: Evaluation) -> Vector:
    """c of the risk at the losses; zeros where it is not finite, for groups, and at the kink of a radius form."""
    losses = evaluation.losses
    tied = has_kink_at_ties(problem.risk) and float(np.ptp(losses)) <= 1e-6 * float(np.abs(losses).max())
    if problem.groups is not None or tied:
        return np.zeros(problem.size)
    c = np.asarray(problem.risk.curvature(evaluation.losses, sample_weight=problem.base))
    c[~np.isfinite(c)] = 0.0
    pools = pools_of(problem, evaluation)
    if pools is not None:
        c[np.bincount(pools)[pools] == 1] = 0.0  # a sample alone cannot move
    return c


def group_curvature(problem: Robust, evaluation: Evaluation) -> Vector:
    """c of the risk at the groups' mean losses."""
    assert problem.groups is not None
    held = evaluation.solution.weights
    kept = problem.groups >= 0
    number, q = problem.groups[kept], evaluation.weights[kept]
    inside = np.divide(q, held[number], out=np.zeros(len(q)), where=held[number] > 0)
    means = np.bincount(number, weights=inside * evaluation.losses[kept], minlength=len(held))
    empty = held <= 0  # groups without weight: their mean is below every other, and does not matter
    if empty.any():
        means[empty] = means[~empty].min(initial=0.0)
    c = np.asarray(problem.risk.curvature(means))
    return np.where(np.isfinite(c) & ~empty, c, 0.0)
