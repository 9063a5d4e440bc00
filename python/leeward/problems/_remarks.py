"""What a user should be told about a sampled Sinkhorn problem where a run has ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from leeward.losses import Squared, SquaredHinge
from leeward.risks import KL

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from leeward.problems._sinkhorn import Sinkhorn
    from leeward.problems._sinkhorn_evaluation import SinkhornEvaluation
    from leeward.problems._transport import Cost, Reference

    Vector = NDArray[np.float64]

__all__ = ["remarks"]

_COARSE = 1e-3  # an error of quadrature above this share of the objective is reported
_FEW = 1.5  # a mean effective number of draws below this is reported


def remarks(problem: Sinkhorn, w: Vector, made: SinkhornEvaluation, reference: Reference, cost: Cost) -> list[str]:
    """A sentence each: weights that have collapsed on one draw, a coarse rule, and an expectation that is infinite at w."""
    found = []
    effective, error = made.effective_draws, made.quadrature_error
    if error is not None and not error <= _COARSE * abs(made.value):
        found.append(
            f"the rule of nodes has an error of about {error:.2g} at an objective of {made.value:.3g}: take a larger lam or entropy, "
            "more l2, or exact=False with many draws"
        )
    mean = float("inf") if effective is None else float(effective.mean())
    if problem.draws > 1 and mean < _FEW:
        found.append(
            f"the worst-case weights have collapsed: {mean:.2g} effective of {problem.draws} draws a sample; take more draws, a "
            "larger entropy or a smaller noise"
        )
    if not _finite(problem, w, reference, cost):
        found.append(
            "the expectation over the reference is infinite at the answer (KL with a quadratic loss), which no finite number of "
            "draws shows: take a larger lam or entropy, a smaller noise, or more l2"
        )
    return found


def _finite(problem: Sinkhorn, w: Vector, reference: Reference, cost: Cost) -> bool:
    """Whether KL's ``E exp((l - lam c)/(lam eps))`` exists for a quadratic loss: ``w^T S w < lam eps``, S the tilted covariance."""
    quadratic = isinstance(getattr(problem.model, "loss", None), Squared | SquaredHinge) and isinstance(
        problem.inner, KL
    )
    if not (quadratic and reference.gaussian and cost.kind == 0 and reference.bounds is None):
        return True
    d = problem.model.n_features
    tilted = reference.tilted(cost, problem.lam, problem.entropy, d)[0]
    moved = tilted.scale.T @ w[:d] if tilted.scale.ndim == 2 else tilted.scale * w[:d]
    return bool(np.sum(moved**2) + tilted.label_noise**2 < problem.lam * problem.entropy)
