r"""Smoothing of non-smooth problems by strength: how large the error is, and which strength comes next.

The weights and slopes of a smoothed problem are a dual point of the true one. Its gap is ``E + O``: E >= 0 from the smoothing, O the
optimisation error ``|g|^2/(2 l2)`` of the smoothed problem. A run makes O small, then cuts the strength until E is small too; E goes with
the square of the strength once the losses near the kinks are many.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from leeward._sums import dot
from leeward.problems import Robust, Sinkhorn
from leeward.risks import KL, ChiSquare, CressieRead, CVaR, SmoothedCVaR, Spectral

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from leeward.problems import Evaluation
    from leeward.risks import Risk

    Vector = NDArray[np.float64]

__all__ = ["first_strength", "has_kink_at_ties", "next_strength", "smoothed_problem", "true_evaluation"]

_FIRST = 0.1  # first strength in units of the spread of the losses
_SHARE = 0.3  # part of the allowed gap that the smoothing error may take


@np.errstate(over="ignore")
def first_strength(evaluation: Evaluation) -> float:
    """A tenth of the weighted standard deviation of the losses (of their size when they are all equal)."""
    size = float(np.max(np.abs(evaluation.losses))) or 1.0
    losses = evaluation.losses / size  # so that squares stay in range
    spread = float(losses.std())
    if not spread > 1e-9 * (1.0 + abs(float(losses.mean()))):
        spread = abs(float(losses.mean()))
    return max(_FIRST * spread * size, 1e-300)


def next_strength(strength: float, error: float, allowed: float, largest_cut: float) -> float:
    """The strength at which the error is about ``_SHARE allowed``, the error going with the square of the strength."""
    if error <= 0.0:
        return strength
    cut = math.sqrt(max(_SHARE * allowed, 0.0) / error)
    return strength * min(max(cut, largest_cut), 0.5)


def smoothed_problem(problem: Robust, strength: float) -> Robust:
    """The problem with smooth losses and a smooth risk over the same set of weights.

    The tail risks take the two-sided entropy, whose weights are smooth at both ends of the band; a radius form, which has a kink where all
    losses are equal, takes a penalty beside its radius.
    """
    if isinstance(problem, Sinkhorn):
        return problem.smoothed(strength)
    risk = problem.risk
    if isinstance(risk, CVaR):
        risk = SmoothedCVaR(risk.alpha, penalty=strength)
    elif isinstance(risk, Spectral) and risk.kind == "superquantile":
        risk = SmoothedCVaR(risk.parameter, penalty=strength)
    elif has_kink_at_ties(risk):
        risk = _with_penalty(risk, strength)
    else:
        risk = risk.smoothed(strength)
    linear: Any = problem.oracle
    oracle = linear if linear.smooth else linear.smoothed(strength)
    return Robust(oracle, risk, groups=problem.groups)


def has_kink_at_ties(risk: Risk) -> bool:
    """Whether the risk is a radius form: smooth except where all losses are equal."""
    return isinstance(risk, ChiSquare | KL | CressieRead) and risk.penalty is None


def _with_penalty(risk: Risk, strength: float) -> Risk:
    if isinstance(risk, CressieRead):
        return CressieRead(risk.k, penalty=strength, radius=risk.radius)
    assert isinstance(risk, ChiSquare | KL)
    return type(risk)(penalty=strength, radius=risk.radius)


def true_evaluation(
    problem: Robust, current: Robust, w: Vector, smoothed: Evaluation, threads: int
) -> tuple[Evaluation, float]:
    """The true problem at w (its gradient is the smoothed one's), and the smoothing error E of its certificate.

    ``E = R(l) - (sum q_i l~_i - penalty(q)) - (mu/2) sum q_i s_i^2`` with q, s, l~ the smoothed problem's weights, slopes and losses.
    """
    if current is problem:
        return smoothed, 0.0
    kinked = not problem.oracle.smooth
    losses = problem.oracle.losses(w, threads=threads) if kinked else smoothed.losses
    solution, weights = problem.weigh(losses, threads=threads)
    k = problem.penalised
    coef = 0.5 * problem.l2 * dot(w[:k], w[:k])
    true = replace(smoothed, value=float(solution.value) + coef, losses=losses, weights=weights, solution=solution)
    if current.risk == problem.risk:
        error = float(solution.value) - float(smoothed.solution.value)
    else:  # the true risk only constrains the weights
        error = float(solution.value) - float(np.sum(smoothed.weights * smoothed.losses))
    if kinked:
        error -= current.slope_energy(w, smoothed, threads)
    return true, max(error, 0.0)
