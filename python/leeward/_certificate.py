r"""Certificates: a bound on ``P(w) - P*`` from weak duality (docs/maths/certificate.md).

For weights q feasible for the risk, slopes ``s_i`` with finite conjugate losses and ``sum_i q_i s_i = 0`` for every intercept,

    P*  >=  sum_i -q_i l_i^*(s_i) - penalty(q) - r^*(-v),    v = sum_i q_i s_i x_i,

with r the l2 term, the domain and the prox term together: ``r^*(-v) = |v|^2/(2 l2)`` when there is only the l2 term.
The gap is summed from terms that are each >= 0 (Fenchel's inequality), so nothing cancels near the optimum. Sums over samples are
NumPy's pairwise ones: a threaded BLAS would make their bits depend on its threads.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from leeward._sums import dot
from leeward.oracles import LinearModel
from leeward.problems import Composition

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from leeward.domains import Domain
    from leeward.problems import Evaluation, Robust

    Vector = NDArray[np.float64]

__all__ = ["Certificate", "certify", "natural_gap"]


@dataclass(frozen=True)
class Certificate:
    """What is proved about a point: ``P(w) - P* <= gap`` and ``lower_bound <= P*``; both None where nothing is."""

    gap: float | None
    lower_bound: float | None


_NOTHING = Certificate(None, None)


def natural_gap(problem: Robust, w: Vector, gradient: Vector, domain: Domain | None = None) -> float | None:
    """Gap of the dual point that the gradient itself stands for, in O(d).

    Parameters
    ----------
    w : (d,)
    gradient : (d,)
        Of P at w, the l2 term included, prox terms not.

    Returns
    -------
    float or None
        ``|grad|^2/(2 l2)`` without a domain; None when losses are not convex, some coordinate is neither penalised nor
        bounded (an intercept), or the bound is infinite.
    """
    if not problem.convex or problem.penalised < problem.dim:
        return None
    gap = _regulariser_gap(problem, w, gradient - problem.l2 * w, domain)
    return gap if math.isfinite(gap) else None


def certifiable(problem: Robust) -> bool:
    """Whether a problem without a domain has a certificate at points that are good enough."""
    if not (problem.convex and problem.l2 > 0):
        return False
    return problem.penalised == problem.dim or isinstance(problem.oracle, LinearModel) or problem.repairs


def certify(
    problem: Robust,
    w: Vector,
    evaluation: Evaluation | None = None,
    domain: Domain | None = None,
    q: Vector | None = None,
    slopes: Vector | None = None,
    threads: int | None = None,
) -> Certificate:
    """Bounds the distance of P(w) from the optimum.

    Parameters
    ----------
    problem : Robust
        The problem the bound is for.
    w : (d,)
        A point, inside the domain when there is one.
    evaluation : Evaluation, optional
        ``problem.evaluate(w)`` when it is known.
    domain : Domain, optional
        Feasible set or prox term of the problem.
    q : (n,), optional
        Weights of the samples, feasible for ``problem.risk``; the worst-case weights at w by default. For a non-smooth risk
        the weights of a smoothed one give a far better bound.
    slopes : (n,) or (n, C), optional
        Slopes of the losses in the scores, by default those at w; for non-smooth losses those of smoothed losses.
    threads : int, optional

    Returns
    -------
    Certificate
        With ``gap = None`` when the losses are not convex, or when there is neither an l2 term nor a bounded domain.
    """
    if not problem.convex:
        return _NOTHING
    if evaluation is None:
        evaluation = problem.evaluate(w, threads=threads)
    value = evaluation.value + (0.0 if domain is None else domain.value(w[: problem.penalised]))
    if not math.isfinite(value):
        return _NOTHING
    oracle = problem.oracle
    natural = q is None and slopes is None and problem.penalised == problem.dim
    if natural or not isinstance(oracle, LinearModel):
        gap = natural_gap(problem, w, evaluation.gradient, domain)
        if gap is None and isinstance(problem, Composition):
            gap = _solved_gap(problem, w, value, domain, threads)
        elif gap is None and domain is None and problem.l2 > 0:
            gap = problem.repaired_gap(w, evaluation, threads)
    else:
        gap = _linear_gap(problem, oracle, w, evaluation, domain, q, slopes, threads)
    if gap is None or not math.isfinite(gap):
        return _NOTHING
    return Certificate(gap, value - gap)


def _solved_gap(
    problem: Composition, w: Vector, value: float, domain: Domain | None, threads: int | None
) -> float | None:
    """The gap where coordinates beyond the penalised ones can be solved for: F is then convex in the others, with their gradient."""
    best = problem.solved(w, threads)
    if best is None:
        return None
    e, k = problem.evaluate(best, threads=threads), problem.penalised
    x = best[:k]
    bound = _regulariser_gap(problem, x, e.gradient[:k] - problem.l2 * x, domain)
    at = e.value + (0.0 if domain is None else domain.value(x))
    return max(value - at, 0.0) + bound


def _linear_gap(
    problem: Robust,
    model: LinearModel,
    w: Vector,
    evaluation: Evaluation,
    domain: Domain | None,
    q: Vector | None,
    slopes: Vector | None,
    threads: int | None,
) -> float:
    """The gap with given dual weights and slopes; intercept equations are repaired first."""
    if problem.l2 == 0 and domain is None:
        return math.inf
    weights = evaluation.weights if q is None else q
    s = model.slopes(w) if slopes is None else slopes
    if model.intercept:
        s = balanced(weights, s, model.targets().astype(np.int64) if s.ndim == 2 else None)
    risk = 0.0 if q is None else _risk_gap(problem, evaluation, q)
    k = problem.penalised
    v = model.adjoint(_times(weights, s), threads=threads)[:k]
    shrink = _dual_scaling(domain, problem.l2, v)
    if shrink < 1.0:
        s, v = shrink * s, shrink * v
    fenchel = _fenchel_gap(model, w, weights, s, evaluation.losses)
    return risk + fenchel + _regulariser_gap(problem, w[:k], v, domain)


def _risk_gap(problem: Robust, evaluation: Evaluation, q: Vector) -> float:
    """``R(l) - (sum q_i l_i - penalty(q))``, at least 0."""
    number = problem.groups
    if number is None:
        penalty = problem.risk.penalty_term(q, sample_weight=problem.base)
    else:
        inside = number >= 0
        penalty = problem.risk.penalty_term(np.bincount(number[inside], weights=q[inside]))
    coef = evaluation.value - float(evaluation.solution.value)  # the l2 term, not wanted here
    return max(evaluation.value - coef - float(np.sum(q * evaluation.losses)) + penalty, 0.0)


def _fenchel_gap(model: LinearModel, w: Vector, q: Vector, s: Vector, losses: Vector) -> float:
    """``sum_i q_i (l_i + l_i^*(s_i) - z_i s_i)`` over samples with weight; each bracket is >= 0."""
    paired = model.scores(w)
    paired = np.multiply(paired, s, out=paired) if s.ndim == 1 else np.einsum("ij,ij->i", paired, s)
    bracket = model.conjugate(s)  # in place from here on: samples may be many
    with np.errstate(invalid="ignore"):
        bracket += losses
        bracket -= paired
        np.copyto(bracket, 0.0, where=~(q > 0))
        np.maximum(bracket, 0.0, out=bracket)
        bracket *= q
    return float(np.sum(bracket))


@np.errstate(over="ignore", invalid="ignore")
def _regulariser_gap(problem: Robust | Composition, w: Vector, v: Vector, domain: Domain | None) -> float:
    """``r(w) + r^*(-v) + v.w`` over the penalised coordinates, r the l2 term, domain and prox term together."""
    if domain is None:
        if problem.l2 > 0:
            residual = problem.l2 * w + v
            return dot(residual, residual) / (2.0 * problem.l2)
        return 0.0 if not v.any() else math.inf
    r = 0.5 * problem.l2 * dot(w, w) + domain.value(w)
    return max(r + float(domain.conjugate(-v, problem.l2)) + dot(v, w), 0.0)


@np.errstate(over="ignore", invalid="ignore")
def _dual_scaling(domain: Domain | None, l2: float, v: Vector) -> float:
    """Factor c <= 1 that makes ``r^*(-c v)`` finite where a prox term alone bounds v (an l1 term without l2)."""
    if domain is None or math.isfinite(domain.conjugate(-v, l2)):
        return 1.0
    low, high = 0.0, 1.0
    if not math.isfinite(domain.conjugate(-0.0 * v, l2)):
        return 1.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if math.isfinite(domain.conjugate(-middle * v, l2)) else (low, middle)
    return low


def balanced(q: Vector, s: Vector, labels: NDArray[np.int64] | None = None) -> Vector:
    """Slopes near s with ``sum_i q_i s_i = 0`` (for each class), inside the domain of the conjugate losses.

    One output: the side of positive or of negative slopes that weighs more is scaled down; a slope nearer to 0 stays in the
    domain of the conjugate of any loss that is bounded below. Softmax: see :func:`_balanced_classes`.
    """
    if s.ndim == 2:
        assert labels is not None
        return _balanced_classes(q, s, labels)
    mass = q * s
    up, down = float(mass[mass > 0].sum()), float(-mass[mass < 0].sum())
    del mass
    if up == down:
        return s
    heavier = s > 0 if up > down else s < 0
    out = s.copy()
    out[heavier] *= min(up, down) / max(up, down)
    return out


def _balanced_classes(q: Vector, s: Vector, labels: NDArray[np.int64]) -> Vector:
    """Class probabilities ``pi'`` in the simplex with ``sum_i q_i pi'_ik = m_k``, the weight of class k.

    ``pi'_ik = c_k pi_ik`` with ``c_k = min(1, m_k / sum_i q_i pi_ik)``; what a sample loses goes to the classes in deficit, in
    proportion to their deficits.
    """
    n, classes = s.shape
    pi = s.copy()
    pi[np.arange(n), labels] += 1.0
    mass = np.bincount(labels, weights=q, minlength=classes)
    mean = np.sum(q[:, None] * pi, axis=0)
    c = np.minimum(1.0, np.divide(mass, mean, out=np.ones(classes), where=mean > 0))
    deficit = np.maximum(mass - c * mean, 0.0)
    kept: Vector = pi * c
    if deficit.sum() > 0:
        lost = np.maximum(1.0 - kept.sum(axis=1), 0.0)
        kept += lost[:, None] * (deficit / deficit.sum())
    kept[np.arange(n), labels] -= 1.0
    return kept


def _times(q: Vector, s: Vector) -> Vector:
    return q * s if s.ndim == 1 else q[:, None] * s
