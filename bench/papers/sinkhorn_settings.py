"""The presets and the runs of sinkhorn_dro.py and sinkhorn_regression.py."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import leeward as lw

MAIN = ("Sinkhorn", "f-DRO", "ERM")
LOOKS = 10  # points of a run at which test losses are taken


@dataclass(frozen=True)
class Preset:
    """The settings of an experiment."""

    name: str
    noise: float
    draws: int
    step: float  # of w
    inner_step: float
    inner_steps: int
    inner_start: float
    batch: int
    f_step: float
    f_start: float
    erm_step: float
    lam: float = 0.8
    entropy: float = 1.0
    cost: str = "sqeuclidean"
    cost_scale: float = 1.0
    divergence: Any = "pearson"
    passes: float = 100.0


LOGISTIC = {
    "paper": Preset("paper", 0.2, 1, 8e-2, 1e-1, 8, 1.0, 256, 8e-2, 1.5, 3e-2),
    "scripts": Preset("scripts", 0.2, 2, 8e-2, 1e-1, 5, 1.0, 256, 8e-2, 1.5, 3e-2),
}
REGRESSION = {
    "paper": Preset("paper", math.sqrt(2.5e-4), 2, 1e-2, 1e-1, 8, 5.0, 128, 5e-3, 1.0, 3e-3),
    "scripts": Preset("scripts", 0.2, 8, 5e-2, 8e-2, 5, 5.0, 128, 5e-3, 1.0, 3e-3),
}


@dataclass(frozen=True)
class Fit:
    """The last iterate of a run, and the iterates on the way."""

    w: Any
    path: list[tuple[float, Any]] = field(repr=False)
    took: float = 0.0
    whole: bool = True  # whether it ran to the end of its budget


def f_risk(preset: Preset) -> lw.Risk:
    """Of penalty lam, in the conventions of `lw.Sinkhorn`."""
    match preset.divergence:
        case "pearson":
            return lw.ChiSquare(penalty=2.0 * preset.lam)
        case "kl":
            return lw.KL(penalty=preset.lam)
    return lw.SmoothedCVaR(preset.divergence.alpha, preset.lam)


def fit(model: lw.LinearModel, method: str, preset: Preset, w0: Any, seed: int) -> Fit:
    """A run of one method from w0."""
    start, minibatch = w0, lw.Minibatch(preset.batch)
    problem: Any = model
    algorithm: lw.Algorithm
    if method.startswith("ERM"):
        step = preset.step if method == "ERM, longer step" else preset.erm_step
        algorithm = lw.SGD(minibatch, step=step, average=False)
    elif method.startswith("f-DRO"):
        problem, start = lw.dual_oracle(model, f_risk(preset)), np.append(w0, preset.f_start)
        update = lw.Plain() if method == "f-DRO, plain SGD" else lw.Normalized(momentum=0.9)
        algorithm = lw.SGD(minibatch, step=preset.f_step, average=False, update=update)
    else:
        draws = max(4, preset.draws) if method == "exact inner" else 1 if method == "noise alone" else preset.draws
        problem = lw.Sinkhorn(
            model,
            preset.divergence,
            lam=preset.lam,
            entropy=preset.entropy,
            noise=preset.noise,
            cost=preset.cost,
            cost_scale=preset.cost_scale,
            draws=draws,
            exact=False,
            recentre=False,
            seed=seed,
        )
        inner: dict[str, Any] = {"inner": "exact"}
        if method == "Sinkhorn":
            inner = {"inner": "sgd", "inner_steps": preset.inner_steps}
            inner |= {"inner_step": preset.inner_step, "inner_start": preset.inner_start}
        algorithm = lw.NestedSGD(preset.batch, step=preset.step, output="last", decay="constant", **inner)
    path: list[tuple[float, Any]] = []
    began = time.perf_counter()
    result = lw.minimize(
        problem,
        start,
        algorithm,
        max_passes=preset.passes,
        tol=0.0,
        seed=seed,
        callback=lambda state: path.append((state.passes, state.w[: model.dim].copy())),
        trace=max(1, math.ceil(preset.passes * model.size / preset.batch / LOOKS)),
        threads=1,
    )
    return Fit(result.x[: model.dim], path, time.perf_counter() - began, result.status is lw.Status.BUDGET)
