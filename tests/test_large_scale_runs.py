"""The methods of Levy, Carmon, Duchi and Sidford (2020) end within 1e-3 of known optima, in the samples that their bounds allow.

Three convex problems (Huber, logistic and softmax losses, on float64, CSR and float32 rows), each with a risk that the method is for.
The optimum is that of L-BFGS with a certified gap of 1e-8. A run ends when its own certificate says that it is within 1e-3, and it must
end so before it has drawn the samples of the bound with all constants 1 (`Bounds`), and within 400 passes: the bounds are for the worst
problem there is and allow far more.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest
from scipy import sparse

import leeward as lw

SIZE, ACCURACY, AFFORDABLE = 5_000, 1e-3, 400.0


@dataclass(frozen=True)
class Bounds:
    """What the bounds are made of: ``gr`` is G R, the Lipschitz constant of the losses times the distance from w0 to the optimum;
    ``b`` the range of the losses; ``eps`` the accuracy; ``ratio`` bounds the second moment of the density ratio: 1/alpha for CVaR,
    1 + B/lam for the chi-square penalty, 1 + 2 rho for the ball of radius rho; ``radius`` is the rho of a ball that holds the weights."""

    gr: float
    b: float
    eps: float
    ratio: float
    radius: float

    def minibatch(self) -> float:
        """Theorem 1 without its further terms, which only add: ``(GR)^2 ratio/eps^2``."""
        return self.gr**2 * self.ratio / self.eps**2

    def mlmc(self) -> float:
        """Theorem 2: ``(GR)^2 ratio/eps^2 log^2 n`` with ``n = B^2 ratio/eps^2``."""
        return self.minibatch() * math.log(self.b**2 * self.ratio / self.eps**2) ** 2

    def dual(self) -> float:
        """Appendix A.3: ``ratio^2 ((GR)^2 + (range of eta)^2)/eps^2``, eta in [0, B]."""
        return self.ratio**2 * (self.gr**2 + self.b**2) / self.eps**2

    def primal_dual(self) -> float:
        """Namkoong and Duchi in table 1: ``(1 + rho N)/eps^2`` in units of ``(GR)^2 + B^2``."""
        return (1.0 + self.radius * SIZE) * (self.gr**2 + self.b**2) / self.eps**2

    def doubling(self) -> float:
        """Theorem 4: ``rho B ((GR)^2 + B^2)/eps^3`` times the squared logarithm of ``n = B^2 rho/eps^2``."""
        n = max(self.b**2 * self.radius / self.eps**2, math.e)
        return self.radius * self.b * (self.gr**2 + self.b**2) / self.eps**3 * math.log(n) ** 2


CVAR, PENALTY, RADIUS = lw.CVaR(0.5), lw.ChiSquare(penalty=1.0), lw.ChiSquare(radius=0.1)
METHODS: dict[str, tuple[lw.Algorithm, Callable[[Bounds], float], tuple[lw.Risk, lw.Risk, lw.Risk]]] = {
    "SGD on mini-batches": (lw.SGD(lw.Minibatch(1000)), Bounds.minibatch, (CVAR, RADIUS, PENALTY)),
    "Nesterov on mini-batches": (lw.Nesterov(lw.Minibatch(1000)), Bounds.minibatch, (CVAR, RADIUS, PENALTY)),
    "SGD on multi-level estimates": (lw.SGD(lw.MLMC(64, 4096)), Bounds.mlmc, (CVAR, PENALTY, PENALTY)),
    "DualSGM": (lw.DualSGM(128), Bounds.dual, (CVAR, RADIUS, PENALTY)),
    "PrimalDual": (lw.PrimalDual(64), Bounds.primal_dual, (CVAR, RADIUS, CVAR)),
    "Doubling": (lw.Doubling(64), Bounds.doubling, (RADIUS, RADIUS, RADIUS)),
}


@cache
def models() -> tuple[lw.LinearModel, lw.LinearModel, lw.LinearModel]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(SIZE, 5))
    scores = X @ np.array([1.0, -1.0, 0.5, 0.0, 2.0])
    classes = np.argmax(2.0 * X[:, :3] + rng.gumbel(size=(SIZE, 3)), axis=1)
    few = sparse.csr_array(X * (rng.random(X.shape) < 0.7))
    return (
        lw.LinearModel(X, scores + rng.normal(size=SIZE), lw.losses.Huber(1.0), l2=0.1),
        lw.LinearModel(few, scores + rng.logistic(size=SIZE) > 0, "logistic", l2=0.1),
        lw.LinearModel(X.astype(np.float32), classes, "softmax", l2=0.1),
    )


@cache
def solved(which: int, risk: lw.Risk) -> tuple[lw.Robust, lw.Result]:
    problem = lw.Robust(models()[which], risk)
    return problem, lw.minimize(problem, algorithm=lw.LBFGS(), tol=1e-8)


def bounds(problem: lw.Robust, best: lw.Result) -> Bounds:
    """G is the largest slope of the loss, 1 (softmax: sqrt 2), times the longest row, with the intercept's 1."""
    model, risk = problem.oracle, problem.risk
    assert isinstance(model, lw.LinearModel)
    longest = math.sqrt(float(np.square(np.asarray(model.rows())).sum(axis=1).max()) + 1.0)
    slope = math.sqrt(2.0) if model.n_outputs > 1 else 1.0
    b = max(float(model.losses(w).max()) for w in (np.zeros(model.dim), best.x))
    if isinstance(risk, lw.CVaR):
        ratio, radius = 1.0 / risk.alpha, 0.5 * (1.0 / risk.alpha - 1.0)
    else:
        assert isinstance(risk, lw.ChiSquare)
        radius = b / risk.penalty if risk.radius is None else risk.radius
        ratio = 1.0 + (radius if risk.radius is None else 2.0 * radius)
    return Bounds(slope * longest * float(np.linalg.norm(best.x)), b, ACCURACY * best.fun, ratio, radius)


@pytest.mark.parametrize("which", [0, 1, 2], ids=["Huber", "logistic, CSR", "softmax, float32"])
@pytest.mark.parametrize("name", METHODS)
def test_a_run_is_certified_within_a_thousandth_before_its_bound(name: str, which: int) -> None:
    algorithm, bound, risks = METHODS[name]
    problem, best = solved(which, risks[which])
    assert best.gap is not None
    assert best.gap <= 1e-8 * best.fun
    allowed = bound(bounds(problem, best)) / SIZE
    result = lw.minimize(problem, algorithm=algorithm, max_passes=min(allowed, AFFORDABLE), tol=ACCURACY)
    assert result.status is lw.Status.CONVERGED
    assert result.passes <= min(allowed, 1.01 * AFFORDABLE)
    assert result.gap is not None
    assert result.gap <= ACCURACY * result.fun
    assert best.fun - best.gap <= result.fun <= (1.0 + ACCURACY) * best.fun
