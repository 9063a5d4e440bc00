"""Default step sizes from the data, at the starting point.

In the metric ``diag(1/m)`` (m = 1 unless the oracle is a linear model, see ``_metric``), the step is ``1/L`` with L the smaller
step of two estimates:

* *curvature* (linear models with smooth losses): ``L = lam_max(sum_i h_i x_i x_i^T) + B max_i L_i / b + l2``, L_i the
  per-sample smoothness constants and ``h_i = B c p_i + k_i s_i^2``: the losses' curvature c under weights up to B times
  the base weights, plus the risk's own curvature k_i (s_i the slopes of the losses); lam_max by power iteration; b the
  batch size. Samples of weight 0 have no say;
* *descent*: the largest of the steps ``t 2^-k`` at which a drawn batch's objective falls by half of ``step |g|^2``; the
  median over a few batches, from ``1/L`` of the first estimate down where there is one.

The losses and gradients of the drawn batches are counted; the passes over the data for moments and power iteration are not
evaluations of losses and cost time only.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from leeward._moments import column_moments, row_norms
from leeward.oracles import LinearModel

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from leeward._context import RunContext

    Vector = NDArray[np.float64]

__all__ = ["choose_step"]

_PROBES = 8  # batches drawn at the start
_HALVINGS = 60
_POWER_STEPS = 12


def choose_step(
    context: RunContext, estimator: Any, momentum: float, per_pass: int, update: str
) -> tuple[float, float, Vector | None]:
    """Step size, period of its decay in steps (infinite: no decay), and metric for a run from ``context.w0``."""
    metric = _metric(context)
    count = min(_PROBES, max(2, context.problem.size // (8 * estimator.size)))
    probes = [estimator.direction(context.w0, k, context.threads) for k in range(count)]
    context.count_losses(sum(p[2] for p in probes))
    context.count_gradients(sum(p[2] for p in probes))
    curvature = _curvature(context, estimator.size, metric)
    step = _descent_step(context, estimator, probes, metric, curvature)
    noisy = _noisy(context, probes, metric)
    if update == "acsa":
        # step_t / theta_t then falls as step sqrt(m/t) in the end, like the step of SGD.
        period = 2.5 * per_pass ** (1.0 / 3.0) if noisy else math.inf
        step *= 0.5
    else:
        period = float(per_pass) if noisy or not context.problem.smooth else math.inf
        step *= 1.0 - momentum
    return step, period, metric


def _metric(context: RunContext) -> Vector | None:
    """Scaling of the variables of a linear model, so that features of any unit work.

    ``1/(mean x_j^2 + l2)`` for coefficients, 1 for intercepts. None for other oracles, and for domains whose projection
    mixes the coordinates.
    """
    problem, model = context.problem, context.problem.oracle
    mixes = context.domain is not None and not context.domain.separable
    if mixes or not isinstance(model, LinearModel):
        return None
    scale = column_moments(model, problem.base) + model.l2
    largest = float(scale.max())
    if largest == 0:
        return None
    metric = np.ones(model.dim)
    metric[: model.penalised] = np.tile(1.0 / np.maximum(scale, 1e-16 * largest), model.n_outputs)
    return metric


def _square(v: Vector, metric: Vector | None) -> float:
    """|v|^2 in the metric of moves: the fall of a linear function over a unit step."""
    return float(v @ v) if metric is None else float(v @ (metric * v))


def _descent_step(
    context: RunContext,
    estimator: Any,
    probes: list[tuple[Vector, float, int, bool]],
    metric: Vector | None,
    curvature: float | None,
) -> float:
    """The median over the probes of the largest step at which the batch's objective falls by half of ``step |g|^2``."""
    problem, w0 = context.problem, context.w0
    steps = []
    for k, (direction, value, _, finite) in enumerate(probes):
        g = _with_l2(context, direction)
        square = _square(g, metric)
        if not (finite and math.isfinite(square) and square > 0):
            continue
        start = value + _l2_value(context, w0)
        step = 4.0 * max(abs(start), float(np.abs(context.initial.losses).max()), 1e-12) / square
        if curvature is not None:
            step = 1.0 / curvature
        for _ in range(_HALVINGS):
            w = w0 - step * (g if metric is None else metric * g)
            _, reached, cost, fine = estimator.direction(w, k, context.threads)
            context.count_losses(cost)
            context.count_gradients(cost if fine else 0)
            if fine and reached + _l2_value(context, w) <= start - 0.5 * step * square:
                break
            step *= 0.5
        steps.append(step)
    if not steps:  # a stationary start: any step will do, and the way back stands by
        return 1.0 / curvature if curvature is not None else 1.0 / max(problem.l2, 1.0)
    return float(np.median(steps))


def _curvature(context: RunContext, batch: int, metric: Vector | None) -> float | None:
    """Smoothness of the batch objective in the metric, or None where the losses have no finite constants."""
    problem, model = context.problem, context.problem.oracle
    if not isinstance(model, LinearModel):
        return None
    threads = context.threads
    used = np.ones(problem.size, dtype=bool) if problem.base is None else problem.base > 0
    norms = row_norms(model, None, used)
    i = int(np.argmax(norms))
    bound = float(model.smoothness(threads=threads)[i]) / float(norms[i]) if norms[i] > 0 else math.inf
    if not math.isfinite(bound):
        return None
    evaluation = context.initial
    p = np.full(problem.size, 1.0 / problem.size) if problem.base is None else problem.base
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(p > 0, evaluation.weights / p, 0.0)
    growth = max(1.0, float(getattr(problem.risk, "weight_bound", ratio.max())))
    h = bound * np.minimum(growth, problem.size) * p
    slopes = model.slopes(context.w0, threads=threads)
    square = slopes**2 if slopes.ndim == 1 else np.sum(slopes**2, axis=1)
    if problem.groups is None:
        own = problem.risk.curvature(evaluation.losses, sample_weight=problem.base) * square
        if np.isfinite(own).all():
            h = h + own
    root = np.ones(model.dim) if metric is None else np.sqrt(metric)
    v = root * context.initial.gradient + 1e-3 * root
    top = 0.0
    for _ in range(_POWER_STEPS):
        size = float(np.sqrt(v @ v))
        if not (size > 0 and math.isfinite(size)):
            break
        scores = model.scores(root * (v / size), threads=threads)
        v = root * model.adjoint(h * scores if scores.ndim == 1 else h[:, None] * scores, threads=threads)
        top = float(np.sqrt(v @ v))
    largest = float(row_norms(model, None if metric is None else metric[: model.n_features], used).max()) * bound
    l2 = model.l2 if metric is None else float(np.max(model.l2 * metric[: model.penalised], initial=0.0))
    return min(1.2 * top + growth * largest / batch, max(largest, 1.2 * top)) + l2


def _noisy(context: RunContext, probes: list[tuple[Vector, float, int, bool]], metric: Vector | None) -> bool:
    """Whether directions at w0 differ from draw to draw."""
    fine = [p[0] for p in probes if p[3]]
    return any(_square(v - fine[0], metric) > 1e-20 * _square(fine[0], metric) for v in fine[1:])


def _with_l2(context: RunContext, direction: Vector) -> Vector:
    k, l2 = context.problem.penalised, context.problem.l2
    g = direction.copy()
    g[:k] += l2 * context.w0[:k]
    return g


def _l2_value(context: RunContext, w: Vector) -> float:
    coef = w[: context.problem.penalised]
    return 0.5 * context.problem.l2 * float(coef @ coef)
