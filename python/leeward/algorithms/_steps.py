"""Default step sizes from the data, at a point of the run.

In the metric ``diag(1/m)`` (m = 1 unless the oracle is a linear model, see ``scaling``), the step is ``1/L`` with L the smaller
step of two estimates:

* *curvature* (linear models with smooth losses): ``L = lam_max(sum_i h_i x_i x_i^T) + B max_i L_i / b + l2``, L_i the
  per-sample smoothness constants and ``h_i = B c p_i + k_i s_i^2``: the losses' curvature c under weights up to B times
  the base weights, plus the risk's own curvature k_i (s_i the slopes of the losses); lam_max by power iteration; b the
  batch size. Samples of weight 0 have no say;
* *descent*: the largest of the steps ``t 2^-k`` at which a drawn batch's objective falls by half of ``step |g|^2``; the
  median over a few batches, from ``1/L`` of the first estimate down where there is one. Where P has a kink (a non-smooth
  problem, or a risk whose own curvature dwarfs that of the losses, as at the origin where all losses tie) no step need
  give such a fall; there the objective must not rise by more than a twentieth, and the decay of the steps does the rest.

The losses and gradients of the drawn batches are counted; the passes over the data for moments and power iteration are not
evaluations of losses and cost time only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from leeward._moments import column_moments, row_norms
from leeward._sums import dot, norm
from leeward.errors import InfiniteError
from leeward.oracles import LinearModel

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from leeward.algorithms.updates import Update
    from leeward.domains import Domain
    from leeward.problems import Evaluation, Robust

    Vector = NDArray[np.float64]

__all__ = ["Choice", "Place", "choose_step", "largest_eigenvalue", "scaling"]

_PROBES = 8  # batches drawn at the start
_HALVINGS = 14
# A risk's curvature above this many times that of the losses is a kink: the first moves leave it.
_KINK = 64.0
_POWER_STEPS = 12


@dataclass(frozen=True)
class Place:
    """Where a step is chosen: the problem, the point, what is known there, and draws made there."""

    problem: Robust
    w: Vector
    evaluation: Evaluation
    estimator: Any
    threads: int
    metric: Vector | None
    first_draw: int

    def probe(self, w: Vector, k: int) -> tuple[Vector, float, int, bool]:
        """Direction and batch value (both with the l2 term) of draw k at w, cost, and whether the losses were finite."""
        try:
            direction, value, cost, finite = self.estimator.direction(w, self.first_draw + k, self.threads)
        except InfiniteError:  # of functions of one's own
            return np.zeros(w.size), math.inf, int(self.estimator.size), False
        coef, l2 = w[: self.problem.penalised], self.problem.l2
        direction[: self.problem.penalised] += l2 * coef
        return direction, value + 0.5 * l2 * dot(coef, coef), cost, finite


@dataclass(frozen=True)
class Choice:
    """A step size, the number of steps after which it decays, the relative noise of directions, and the cost of choosing."""

    step: float
    period: float  # infinite: no decay
    noise: float
    cost: int


def choose_step(place: Place, update: Update, per_pass: int, search: bool = False) -> Choice:
    """The default step of an update at a place; ``search`` leaves the curvature to the line search on batches."""
    problem = place.problem
    count = min(_PROBES, max(2, problem.size // (8 * place.estimator.size)))
    probes = [place.probe(place.w, k) for k in range(count)]
    curvature, kinked = (None, False) if update.adaptive or search else _curvature(place)
    step, cost = _descent_step(place, probes, update, curvature, kinked or not problem.smooth)
    cost += sum(p[2] for p in probes)
    noise = _noise(probes, place.metric)
    if search:  # a batch of one bounds its own curvature only: half for that of the mean
        step *= place.estimator.size / (1.0 + place.estimator.size)
    if update.name == "acsa":
        # step_t / theta_t then falls as step sqrt(m/t) in the end, like the step of SGD; later where noise is small.
        period = 2.5 * per_pass ** (1.0 / 3.0) * max(1.0, 1.0 / noise) if noise > 0 else math.inf
        return Choice(0.5 * step, period, noise, cost)
    period = float(per_pass) if noise > 0 or not problem.smooth else math.inf
    return Choice(update.damping * step, period, noise, cost)


def scaling(problem: Robust, domain: Domain | None) -> Vector | None:
    """The metric of the moves, so that features of any unit work.

    ``1/(mean x_j^2 + l2)`` for the coefficients of a linear model, 1 for its intercepts. None for other oracles, and for
    domains whose projection mixes the coordinates.
    """
    model = problem.linear
    mixes = domain is not None and not domain.separable
    if mixes or model is None:
        return None
    weight = model.sample_weight  # of the rows: those of the problem may be of groups
    scale = column_moments(model, None if weight is None else weight / weight.sum()) + (model.l2 + problem.spread)
    largest = float(scale.max())
    if largest == 0:
        return None
    metric = np.ones(model.dim)
    metric[: model.penalised] = np.tile(1.0 / np.maximum(scale, 1e-16 * largest), model.n_outputs)
    return metric


@np.errstate(over="ignore")
def _square(v: Vector, metric: Vector | None) -> float:
    """|v|^2 in the metric of moves: the fall of a linear function over a unit step."""
    return dot(v, v) if metric is None else dot(v, metric * v)


def _descent_step(
    place: Place,
    probes: list[tuple[Vector, float, int, bool]],
    update: Update,
    curvature: float | None,
    kinked: bool,
) -> tuple[float, int]:
    """The median over the probes of the largest step at which the batch's objective falls as it should, and the cost."""
    metric, steps, spent = place.metric, [], 0
    for k, (g, start, _, finite) in enumerate(probes):
        move = update.first_move(g, metric)
        square = dot(g, move) if update.adaptive else _square(g, metric)
        if not (finite and math.isfinite(square) and square > 0):
            continue
        scale = max(abs(start), 1e-12)
        step = 4.0 * max(scale, float(np.abs(place.evaluation.losses).max())) / square
        if curvature is not None:
            step = 1.0 / curvature
        for _ in range(_HALVINGS):
            _, reached, cost, fine = place.probe(place.w - step * move, k)
            spent += cost
            if fine and reached <= start + (0.05 * scale if kinked else -0.5 * step * square):
                break
            step *= 0.5
        steps.append(step)
    if not steps:  # a stationary point: any step will do, and the way back stands by
        return 1.0 / curvature if curvature is not None else 1.0 / max(place.problem.l2, 1.0), spent
    return float(np.median(steps)), spent


def _curvature(place: Place) -> tuple[float | None, bool]:
    """Smoothness of the batch objective in the metric (None where the losses have no finite constants), and whether the risk
    has a kink here, whose curvature is then left out."""
    problem, model, metric = place.problem, place.problem.oracle, place.metric
    if not isinstance(model, LinearModel):
        return None, False
    threads = place.threads
    used = np.ones(problem.size, dtype=bool) if problem.base is None else problem.base > 0
    norms = row_norms(model, None, used)
    i = int(np.argmax(norms))
    bound = float(model.smoothness(threads=threads)[i]) / float(norms[i]) if norms[i] > 0 else math.inf
    if not math.isfinite(bound):
        return None, False
    of_losses, of_risk, growth = _sample_curvatures(place, bound)
    top, kinked = _largest_eigenvalue(place, of_losses), of_risk is None
    if of_risk is not None:
        both = _largest_eigenvalue(place, of_losses + of_risk)
        kinked = both > _KINK * top
        top = top if kinked else both
    largest = bound * float(row_norms(model, None if metric is None else metric[: model.n_features], used).max())
    l2 = model.l2 if metric is None else float(np.max(model.l2 * metric[: model.penalised], initial=0.0))
    return min(1.2 * top + growth * largest / place.estimator.size, max(largest, 1.2 * top)) + l2, kinked


def _largest_eigenvalue(place: Place, h: Vector) -> float:
    root = np.ones(place.problem.dim) if place.metric is None else np.sqrt(place.metric)
    model = place.problem.oracle
    assert isinstance(model, LinearModel)
    return largest_eigenvalue(model, place.metric, h, root * place.evaluation.gradient + 1e-3 * root, place.threads)


def largest_eigenvalue(model: LinearModel, metric: Vector | None, h: Vector, start: Vector, threads: int) -> float:
    """That of ``sum_i h_i x_i x_i^T`` in the metric, by power iteration from ``start`` (a lower bound, good to a tenth or so)."""
    root = np.ones(model.dim) if metric is None else np.sqrt(metric)
    v, top = start, 0.0
    for _ in range(_POWER_STEPS):
        size = norm(v)
        if not (size > 0 and math.isfinite(size)):
            break
        scores = model.scores(root * (v / size), threads=threads)
        v = root * model.adjoint(h * scores if scores.ndim == 1 else h[:, None] * scores, threads=threads)
        top = norm(v)
    return top


def _sample_curvatures(place: Place, bound: float) -> tuple[Vector, Vector | None, float]:
    """``B c p_i``, ``k_i s_i^2`` (None where it is not finite), and B, the largest ratio of worst-case to base weight here."""
    problem, model, evaluation = place.problem, place.problem.oracle, place.evaluation
    assert isinstance(model, LinearModel)
    p = np.full(problem.size, 1.0 / problem.size) if problem.base is None else problem.base
    ratio = evaluation.weights[p > 0] / p[p > 0]
    growth = max(1.0, float(ratio.max()))
    h = bound * growth * p
    if problem.groups is not None or not problem.risk.smooth:
        return h, None, growth
    slopes = model.slopes(place.w, threads=place.threads)
    square = np.square(slopes, out=slopes) if slopes.ndim == 1 else np.sum(slopes**2, axis=1)
    own = problem.risk.curvature(evaluation.losses, sample_weight=problem.base)
    own *= square
    return h, own if np.isfinite(own).all() else None, growth


def _noise(probes: list[tuple[Vector, float, int, bool]], metric: Vector | None) -> float:
    """Variance of the directions over the square of their mean; 0 when they do not differ from draw to draw."""
    fine = [p[0] for p in probes if p[3]]
    if len(fine) < 2:
        return 0.0
    mean = np.mean(fine, axis=0)
    variance = sum(_square(v - mean, metric) for v in fine) / (len(fine) - 1)
    signal = _square(mean, metric)
    return variance / signal if variance > 1e-20 * signal else 0.0
