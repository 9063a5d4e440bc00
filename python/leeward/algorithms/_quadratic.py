r"""The step of a proximal Newton method: the minimum of a quadratic model of the smooth part plus the domain,

    m(u) = g.(u - w) + (1/2) (u - w)^T H (u - w) + h(u),

by FISTA (Beck and Teboulle 2009), started anew whenever its momentum points uphill (O'Donoghue and Candes 2015). Separable domains
are worked on in the metric diag(H), so that the scales of the coordinates do not matter; the others in the Euclidean one. No data
are read here: a turn costs the square of the length of w.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from leeward._sums import dot, norm

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from leeward._precondition import Hessian
    from leeward.domains import Domain

    Vector = NDArray[np.float64]

__all__ = ["Model"]

_TURNS = 3000
_POWER_STEPS = 30
_ROOM = 1.1  # over the eigenvalue that power iteration finds, which comes from below


@dataclass(frozen=True)
class Model:
    """H, the metric of the steps, and the step: the inverse of the largest eigenvalue of H in that metric, or less."""

    hessian: Hessian
    domain: Domain
    size: int  # coordinates on which the domain acts; the others are free
    metric: Vector
    step: Vector

    @classmethod
    def of(cls, hessian: Hessian, domain: Domain, size: int) -> Model:
        """The model of one Hessian."""
        diagonal = np.diag(hessian.matrix)
        metric = diagonal.copy() if domain.separable else np.ones(len(diagonal))
        return cls(hessian, domain, size, metric, 1.0 / (_largest(hessian, metric) * metric))

    def minimise(self, w: Vector, gradient: Vector, accuracy: float) -> Vector:
        """The minimiser of m, as exactly as that a turn moves less than ``accuracy`` times the first one.

        Parameters
        ----------
        w, gradient : (p,)
            A point of the domain and the gradient of the smooth part there.
        accuracy : float

        Returns
        -------
        ndarray (p,)
        """
        root = np.sqrt(self.metric)
        u = v = w
        t, first = 1.0, 0.0
        for k in range(_TURNS):
            after = v - self.step * (gradient + self.hessian.times(v - w))
            after[: self.size] = self._prox(after[: self.size])
            length = norm(root * (after - v))
            first = length if k == 0 else first
            if length <= accuracy * first:
                return after
            if dot(self.metric * (v - after), after - u) > 0.0:
                u = v = after
                t = 1.0
                continue
            longer = 0.5 * (1.0 + float(np.sqrt(1.0 + 4.0 * t * t)))
            v = after + ((t - 1.0) / longer) * (after - u)
            u, t = after, longer
        return u

    def _prox(self, v: Vector) -> Vector:
        step: Any = self.step[: self.size] if self.domain.separable else float(self.step[0])
        return self.domain.prox(v, step)


def _largest(hessian: Hessian, metric: Vector) -> float:
    """Largest eigenvalue of ``D^-1/2 H D^-1/2``, by power iteration, at most Gershgorin's bound."""
    root = 1.0 / np.sqrt(metric)
    bound = float((np.abs(hessian.matrix) * root * root[:, None]).sum(axis=1).max())
    v = 1.0 + 0.1 * np.cos(np.arange(len(metric)))
    top = 0.0
    for _ in range(_POWER_STEPS):
        v = root * hessian.times(root * (v / norm(v)))
        top = norm(v)
        if not top > 0.0:
            return bound
    return min(bound, _ROOM * top)
