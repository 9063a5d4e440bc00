"""A user's script that must pass `mypy --strict` against the installed package. It also runs."""

from __future__ import annotations

import numpy as np

import leeward as lw
from leeward.typing import FloatVector, IndexVector


def losses(w: FloatVector, index: IndexVector) -> FloatVector:
    residual: FloatVector = w[0] - centres[index]
    return 0.5 * residual * residual


def gradient(w: FloatVector, weights: FloatVector, index: IndexVector) -> FloatVector:
    return np.array([weights @ (w[0] - centres[index])])


centres: FloatVector = np.linspace(0.0, 1.0, 50)
risk: lw.Risk = lw.CVaR(alpha=0.5)
value: float = float(risk(centres))
weights: FloatVector = np.asarray(risk.solve(centres).weights, dtype=np.float64)

model = lw.LinearModel(centres[:, None], centres > 0.4, loss="logistic", l2=0.1)
result: lw.Result = lw.minimize(lw.Robust(model, lw.ChiSquare(radius=1.0)), tol=1e-6)
gap: float | None = result.gap
w: FloatVector = result.x

mine = lw.FunctionOracle(losses=losses, gradient=gradient, size=50, dim=1, convex=True)
stochastic: lw.Result = lw.minimize(mine, algorithm=lw.SGD(lw.Minibatch(10)), max_passes=2.0, seed=1)
print(lw.__version__, value, weights.sum(), gap, w.shape, stochastic.status.name)
