"""`leeward bench`: the gradient estimators of every risk, compared on a made problem, and which one to take."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

import leeward as lw

__all__ = ["bench"]

_ESTIMATORS = (
    lw.Minibatch(16),
    lw.Minibatch(64),
    lw.Minibatch(256),
    lw.Minibatch(1024),
    lw.MLMC(8, 4096),
    lw.MLMC(32, 4096),
)
_RISKS = {
    "mean": lw.Mean(),
    "cvar": lw.CVaR(0.1),
    "kl_cvar": lw.KLCVaR(0.1, penalty=0.1),
    "smoothed_cvar": lw.SmoothedCVaR(0.1, penalty=0.1),
    "chi_square_penalty": lw.ChiSquare(penalty=0.5),
    "chi_square_radius": lw.ChiSquare(radius=1.0),
    "kl_penalty": lw.KL(penalty=0.5),
    "kl_radius": lw.KL(radius=0.5),
    "cressie_read": lw.CressieRead(1.5, penalty=0.5),
    "total_variation": lw.TotalVariation(0.1),
    "worst": lw.Worst(),
}


def bench(arguments: Any) -> int:
    """Run the command."""
    chosen = _RISKS if arguments.risk is None else {arguments.risk: _RISKS[arguments.risk]}
    model, start = _problem(arguments.size)
    print(
        f"logistic regression, {model.size} samples, {model.n_features} columns, two per cent of labels wrong, one thread"
    )
    print("bias and variance of estimates of the gradient, half way from w = 0 to the least mean loss\n")
    for risk in chosen.values():
        problem = lw.Robust(model, risk)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # radius forms in many levels: the table shows it
            found = lw.profile(problem, start, _ESTIMATORS, arguments.repeats)
        print(f"{risk!r}\n{found.table()}")
        print(f"to take, averaging over the time of 1, 10 and 100 exact gradients: {_advice(found)}\n")
    print(
        "Least bias^2 + variance x time / budget, the budget being what a run can spend while the point moves little."
    )
    return 0


def _advice(found: lw.Profile) -> str:
    best = [found.best(k * found.full_seconds) for k in (1, 10, 100)]
    return ", ".join(_short(e) for e in best)


def _short(estimator: lw.algorithms.Estimator) -> str:
    return f"Minibatch({estimator.n})" if isinstance(estimator, lw.Minibatch) else repr(estimator)


def _problem(size: int) -> tuple[lw.LinearModel, Any]:
    """Made data, and a point on the way to the optimum of the mean."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(size, 20))
    y = np.where(X @ rng.normal(size=20) + rng.normal(size=size) > 0, 1.0, -1.0)
    y[rng.random(size) < 0.02] *= -1.0
    model = lw.LinearModel(X, y, "logistic", l2=1e-3)
    return model, 0.5 * lw.minimize(model).x
