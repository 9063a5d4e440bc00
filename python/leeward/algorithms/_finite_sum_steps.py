"""Step sizes of the finite-sum methods that need no tuning, and the chances of importance sampling.

Per-sample constants: in the metric ``diag(1/m)`` the gradient of ``l_i + (l2/2)|w|^2`` has the Lipschitz constant
``L_i = sup l'' sum_j m_j x_ij^2 + l2 max_j m_j`` (an intercept counts as a feature of ones). With

    m_j = 1 / (sqrt(mean_i x_ij^2 max_i x_ij^2) + l2),

features of any unit move alike, and a feature that few samples have does not blow up their L_i, as the mean square alone would.

Importance sampling draws sample i with chance proportional to ``p_i (0.9 L_i + 0.1 mean L)`` and weighs it by ``p_i/chance_i``
(Xiao and Zhang 2014): the mean of the L_i then stands where else their maximum must, at most 1/0.9 of it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from leeward.algorithms._steps import largest_eigenvalue
from leeward.oracles import LinearModel

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from leeward.domains import Domain
    from leeward.problems import Robust

    Vector = NDArray[np.float64]

__all__ = [
    "SAMPLING",
    "STEPS",
    "Constants",
    "Prepared",
    "Wish",
    "check_step_rule",
    "constants",
    "prepare",
    "require_constants",
    "row_scaling",
]

STEPS = ("theory", "bb", "linesearch")
SAMPLING = ("uniform", "importance")
_MARGIN = 1.2  # over the eigenvalue that power iteration finds
_KEPT = 0.9  # share of the chances that follows the constants


@dataclass(frozen=True)
class Constants:
    """``per_sample`` L_i (n,); ``largest`` and ``mean`` of those with positive weight."""

    per_sample: Vector
    largest: float
    mean: float

    def drawn(self, sampling: str) -> float:
        """What bounds a drawn sample's constant over its chance: the largest L_i, or about their mean."""
        return self.largest if sampling == "uniform" else self.mean / _KEPT


def row_scaling(problem: Robust, domain: Domain | None, threads: int) -> Vector | None:
    """The metric m of the moves (dim,); 1 for intercepts. None for oracles that are no linear model, and for domains whose
    projection mixes the coordinates."""
    model = problem.oracle
    mixes = domain is not None and not domain.separable
    if mixes or not isinstance(model, LinearModel):
        return None
    sums, tops = model._matrix.column_squares(problem.base, threads)
    scale = np.sqrt(sums) * np.sqrt(tops) + model.l2
    largest = float(scale.max(initial=0.0))
    if largest == 0:
        return None
    metric = np.ones(model.dim)
    metric[: model.penalised] = np.tile(1.0 / np.maximum(scale, 1e-16 * largest), model.n_outputs)
    return metric


def constants(problem: Robust, metric: Vector | None, threads: int) -> Constants | None:
    """The per-sample constants in a metric; None where there are none (other oracles, losses without them)."""
    model = problem.oracle
    if not isinstance(model, LinearModel):
        return None
    curvature = float(model._core.score_smoothness)
    if not math.isfinite(curvature):
        return None
    m = None if metric is None else metric[: model.n_features]
    squares = model._matrix.row_squares(m, threads)
    if model.intercept:
        squares += 1.0
    per_sample = curvature * squares
    if model.l2:
        per_sample += model.l2 * (1.0 if metric is None else float(metric[: model.penalised].max(initial=0.0)))
    base = problem.base
    if base is None:
        largest, mean = float(per_sample.max()), float(per_sample.mean())
    else:
        largest, mean = float(per_sample[base > 0].max()), float(np.sum(base * per_sample))
    if not (largest > 0.0 and math.isfinite(largest)):
        return None
    return Constants(per_sample, largest, mean)


@dataclass(frozen=True)
class Prepared:
    """What is known before a run: the metric of its moves, the first step, and the chances of its draws; None where the general
    rules of ``_steps`` choose (metric and step) or draws are uniform. ``bounded``: the step follows from bounds that hold everywhere."""

    metric: Vector | None = None
    step: float | None = None
    chances: Vector | None = None
    bounded: bool = True


@dataclass(frozen=True)
class Wish:
    """What an algorithm asks for: its settings, the size b of its mini-batches, and its theory's step in units of 1/L."""

    step: float | str | None
    sampling: str
    plain: bool
    inner: int
    theory: float


def prepare(problem: Robust, domain: Domain | None, threads: int, wish: Wish) -> Prepared:
    """The step of a plain update, ``1/(L_f + L_drawn/b)`` or that of the theory, and the chances, where there are constants."""
    chosen = wish.plain and wish.step in (None, "theory", "bb")
    if not chosen and wish.sampling == "uniform":
        return Prepared()
    given = isinstance(wish.step, float | int)
    metric = None if given else row_scaling(problem, domain, threads)
    found = constants(problem, metric, threads)
    if found is None:
        return Prepared()
    drawn = None if wish.sampling == "uniform" else _chances(problem, found)
    if not chosen:
        return Prepared(chances=drawn)
    bound = found.drawn(wish.sampling)
    if wish.step == "theory":
        return Prepared(metric, wish.theory / bound, drawn)
    whole = found.mean
    if found.mean > bound / wish.inner:  # else an estimate of L_f would gain a factor of 2 at most
        whole = min(whole, _smoothness(problem, metric, threads))
    return Prepared(metric, 1.0 / (whole + bound / wish.inner), drawn, whole == found.mean)


def _smoothness(problem: Robust, metric: Vector | None, threads: int) -> float:
    """L_f, of the mean loss with the l2 term, by power iteration and a margin."""
    model = problem.oracle
    assert isinstance(model, LinearModel)
    p = np.full(problem.size, 1.0 / problem.size) if problem.base is None else problem.base
    h = float(model._core.score_smoothness) * p
    signs = h * (np.arange(problem.size) * 7919 % 101 / 50.0 - 1.0)  # any vector that no symmetry singles out
    start = model.adjoint(
        signs if model.n_outputs == 1 else signs[:, None] * np.arange(1.0, model.n_outputs + 1.0), threads=threads
    )
    root = np.ones(model.dim) if metric is None else np.sqrt(metric)
    l2 = model.l2 * (1.0 if metric is None else float(metric[: model.penalised].max(initial=0.0)))
    return _MARGIN * largest_eigenvalue(model, metric, h, root * start + 1e-9 * root, threads) + l2


def require_constants(problem: Robust) -> None:
    """Raises ValueError where samples have no Lipschitz constants."""
    model = problem.oracle
    if not isinstance(model, LinearModel) or not math.isfinite(model._core.score_smoothness):
        raise ValueError(
            "step='theory' and sampling='importance' need Lipschitz constants of the samples' gradients, which a LinearModel "
            f"with a smooth loss has, got {model!r}"
        )


def _chances(problem: Robust, found: Constants) -> Vector:
    """Chances of the samples for importance sampling, up to a factor; 0 where the weight is."""
    weight = _KEPT * found.per_sample + (1.0 - _KEPT) * found.mean
    return weight if problem.base is None else problem.base * weight


def check_step_rule(step: Any, sampling: Any) -> None:
    """Checks the settings ``step`` and ``sampling``."""
    number = isinstance(step, float | int) and not isinstance(step, bool) and math.isfinite(step) and step > 0
    if not (step is None or number or (isinstance(step, str) and step in STEPS)):
        raise ValueError(f"step must be positive and finite, {', '.join(map(repr, STEPS))} or None, got {step!r}")
    if sampling not in SAMPLING:
        raise ValueError(f"sampling must be 'uniform' or 'importance', got {sampling!r}")
