"""Stochastic gradients on the dual form of a risk, jointly in w and the dual variables."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from leeward._arrays import count, number
from leeward.algorithms._stochastic import Settings, check_step, descend
from leeward.algorithms.base import Stochastic
from leeward.algorithms.estimators import Estimator, Minibatch
from leeward.algorithms.updates import Plain
from leeward.risks import KL, ChiSquare, CressieRead, CVaR, KLCVaR, SmoothedCVaR

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from leeward._context import RunContext
    from leeward.domains import Domain
    from leeward.problems import Evaluation, Robust
    from leeward.risks import Risk

    Vector = NDArray[np.float64]
    Four = tuple[float, float, float, float]

__all__ = ["DualSGM"]

_KINDS = {CVaR: 0, KL: 1, ChiSquare: 2, KLCVaR: 3, SmoothedCVaR: 4, CressieRead: 5}
_NEAR = 0.1  # distance, in units of the spread of the losses, over which the slope of a dual gradient is taken
_LEAST_LAM = 1e-3  # the lower end of lam over its start, by default


@dataclass(frozen=True)
class DualSGM(Stochastic):
    r"""Stochastic gradient descent on ``G(w, eta, lam) = lam E f*((l(w) - eta)/lam) + eta``, plus ``lam rho`` for a radius rho.

    The minimum over the dual variables is the risk, and a batch of any size gives unbiased gradients: with
    ``r_k = (f*)'((l_k - eta)/lam)``, all three moved at once from the same batch::

        w   <- prox(w - step (mean r_k grad l_k + l2 w))
        eta <- clip(eta - eta_step (1 - mean r_k))
        lam <- clip(lam - lam_step (rho - mean f(r_k)))        (radius forms only)

    Parameters
    ----------
    n : int, default 64
        Samples in a batch, drawn with replacement from the base weights.
    step, eta_step, lam_step : float, optional
        Step sizes. By default that of w is chosen as for :class:`SGD`, and those of the dual variables are the inverse slopes of
        their gradients at the start.
    eta_interval, lam_interval : (float, float), optional
        Where the dual variables stay. By default eta stays between the least loss there can be (0 for losses that are never negative,
        else no bound) and ``P(w0) + lam``; and lam between a thousandth of its start and (spread of the losses)/rho. At w0 they
        start from the exact solution.
    average : "polynomial", "uniform", True or False, default True
        As for :class:`SGD`.
    decay : "auto", "constant" or "sqrt", default "auto"
        As for :class:`SGD`, for all three steps.

    Notes
    -----
    For ``CVaR``, ``KL``, ``ChiSquare``, ``CressieRead`` (penalty or radius), ``KLCVaR`` and ``SmoothedCVaR``, without groups. The weights
    of KL are exponential: far from the dual solution they can be enormous. ``result.eta`` is the exact one at ``result.x``.

    References
    ----------
    Levy, Carmon, Duchi and Sidford, Large-scale methods for distributionally robust optimization, 2020, section 5.

    Examples
    --------
    >>> import numpy as np, leeward as lw
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 3)); y = X @ [1.0, -2.0, 0.5] + rng.normal(size=200)
    >>> problem = lw.Robust(lw.LinearModel(X, y, loss="squared", l2=0.01), lw.CVaR(0.3))
    >>> result = lw.minimize(problem, algorithm=lw.DualSGM(16), max_passes=100)
    >>> bool(result.fun < 1.05 * lw.minimize(problem).fun)
    True
    """

    n: int = 64
    step: float | None = None
    eta_step: float | None = None
    lam_step: float | None = None
    eta_interval: tuple[float, float] | None = None
    lam_interval: tuple[float, float] | None = None
    average: bool | str = True
    decay: str = "auto"

    def __post_init__(self) -> None:
        count(self.n, "n", 1)
        check_step(Minibatch(1), self.step, 0.0, self.average)
        for name in ("eta_step", "lam_step"):
            value = getattr(self, name)
            if value is not None and not (math.isfinite(number(value, name)) and value >= 0):
                raise ValueError(f"{name} must be finite and at least 0, or None, got {value!r}")
        for name, least in (("eta_interval", -math.inf), ("lam_interval", 0.0)):
            value = getattr(self, name)
            if value is None:
                continue
            if not (isinstance(value, tuple) and len(value) == 2):
                raise TypeError(f"{name} must be a pair of numbers, got {value!r}")
            low, high = (number(v, name) for v in value)
            if not (least <= low <= high) or (name == "lam_interval" and low == 0):
                what = "0 < low <= high" if name == "lam_interval" else "low <= high"
                raise ValueError(f"{name} must hold {what}, got {value!r}")
        if self.decay not in ("auto", "constant", "sqrt"):
            raise ValueError(f"decay must be 'auto', 'constant' or 'sqrt', got {self.decay!r}")

    def check(self, problem: Robust, domain: Domain | None) -> None:
        risk = problem.risk
        if type(risk) not in _KINDS:
            names = ", ".join(kind.__name__ for kind in _KINDS)
            raise ValueError(f"DualSGM needs a risk with a dual of expectations ({names}), got {risk!r}; use SGD")
        if _radius(risk) is not None and getattr(risk, "penalty", None) is not None:
            raise ValueError(f"DualSGM takes a radius or a penalty, not both: got {risk!r}; use SGD")
        if problem.groups is not None:
            raise ValueError("DualSGM is not supported with groups; use SGD")

    def run(self, context: RunContext) -> None:
        decaying = self.decay == "sqrt" or (self.decay == "auto" and self.step is None)
        estimator = _Dual.at_start(self, context.problem, context.initial, decaying)
        descend(context, Settings(Plain(), estimator, self.step, self.average, decaying))


@dataclass(frozen=True)
class _Dual(Estimator):
    """The estimator of one run: settings of the native one."""

    form: tuple[int, float, float]
    n: int
    eta: Four
    lam: Four
    decaying: bool

    @classmethod
    def at_start(cls, settings: DualSGM, problem: Robust, initial: Evaluation, decaying: bool) -> _Dual:
        """Starts, intervals and steps from the exact solution at w0, where they are not given."""
        risk, losses = problem.risk, initial.losses
        radius, f = _radius(risk), risk.divergence
        assert f is not None
        size = max(float(np.abs(losses).max()), 1e-300)
        spread = float(np.ptp(losses))
        spread = spread if spread > 1e-9 * size else size
        lam = 1.0 if type(risk) is CVaR else float(risk.penalty or 0.0) or float(initial.solution.multiplier)
        if radius is not None and not lam > 0:
            lam = spread / max(2.0 * radius, 1e-12) ** 0.5
        eta = float(initial.solution.eta)
        low = 0.0 if losses.min() >= 0 else -math.inf
        e_low, e_high = settings.eta_interval or (low, float(initial.solution.value) + lam)
        e_low, e_high = min(e_low, e_high), max(e_low, e_high)
        l_low, l_high = (lam, lam) if radius is None else settings.lam_interval or _lam_range(lam, spread, radius)
        p = np.full(len(losses), 1.0 / len(losses)) if problem.base is None else problem.base

        def dual_slopes(eta: float, lam: float) -> tuple[float, float]:
            s = (losses - eta) / lam
            r = f.conjugate_grad(s)
            with np.errstate(invalid="ignore", over="ignore"):
                paid = np.where(r > 0, s * r, 0.0) - f.conjugate(s)
            return float(np.sum(p * r)), float(np.sum(p * paid))

        h = _NEAR * spread
        steep = (dual_slopes(eta - h, lam)[0] - dual_slopes(eta + h, lam)[0]) / (2 * h)
        eta_step = settings.eta_step if settings.eta_step is not None else _inverse(steep, spread)
        lam_step = 0.0
        if radius is not None:
            steep = (dual_slopes(eta, lam / 1.1)[1] - dual_slopes(eta, lam * 1.1)[1]) / (lam * 1.1 - lam / 1.1)
            lam_step = settings.lam_step if settings.lam_step is not None else _inverse(steep, lam)
        return cls(
            (_KINDS[type(risk)], _parameter(risk), 0.0 if radius is None else radius),
            int(settings.n),
            (min(max(eta, e_low), e_high), e_low, e_high, eta_step),
            (min(max(lam, l_low), l_high), l_low, l_high, lam_step),
            decaying,
        )

    def start(self, problem: Robust, seed: int) -> Any:
        period = max(1.0, math.ceil(problem.size / self.n)) if self.decaying else None
        return problem.dual_batch(self.form, self.n, self.eta, self.lam, period, seed)

    def cost(self, problem: Robust) -> float:
        return float(self.n)

    @property
    def staged(self) -> bool:
        return True

    def prober(self, problem: Robust, seed: int) -> Any:
        return problem.minibatch(self.n, True, seed)

    def cut(self, memory: Vector, factor: float) -> None:
        memory[2] = factor


def _radius(risk: Risk) -> float | None:
    radius = getattr(risk, "radius", None)
    return None if radius is None else float(radius)


def _parameter(risk: Risk) -> float:
    if isinstance(risk, CVaR | KLCVaR | SmoothedCVaR):
        return float(risk.alpha)
    return float(risk.k) if isinstance(risk, CressieRead) else 0.0


def _lam_range(lam: float, spread: float, radius: float) -> tuple[float, float]:
    return _LEAST_LAM * lam, max(lam, spread / max(radius, 1e-12))


def _inverse(slope: float, otherwise: float) -> float:
    """A step of 1/slope; a tenth of ``otherwise`` where there is no slope."""
    if math.isfinite(slope) and slope * otherwise > 1e-3:
        return 1.0 / slope
    return 0.1 * otherwise
