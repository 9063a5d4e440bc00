"""Nesterov's accelerated stochastic gradient method: the AC-SA iteration, and the momentum form used in experiments."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from leeward.algorithms._stochastic import Settings, check_step, descend
from leeward.algorithms.base import Stochastic
from leeward.algorithms.estimators import Estimator, Minibatch
from leeward.algorithms.updates import NesterovMomentum, Update

if TYPE_CHECKING:
    from leeward._context import RunContext
    from leeward.domains import Domain
    from leeward.problems import Robust

__all__ = ["Nesterov"]


@dataclass(frozen=True)
class Nesterov(Stochastic):
    r"""Accelerated stochastic gradient descent.

    ``form="acsa"``, with ``theta_t = 2/(t+2)``, t = 0, 1, ... and x = y = z = w0 at the start::

        x = (1 - theta_t) y + theta_t z
        z <- prox(z - (step_t/theta_t) g(x), step_t/theta_t)
        y <- (1 - theta_t) y + theta_t z        (the answer)

    ``form="momentum"``::

        v <- momentum v + g(w),    w <- prox(w - step_t (g(w) + momentum v), step_t/(1 - momentum))

    Parameters
    ----------
    estimator : Estimator, default ``Minibatch(64)``
        The source of directions.
    step : float, optional
        Step size, constant when given. By default it comes from the data as for :class:`SGD`. In the form "acsa" it then
        also falls as ``(1 + t/t0)^(-3/2)`` with ``t0 = 2.5 m^(1/3)/r``, m the steps a pass and r <= 1 the relative variance
        of the directions, so that ``step_t/theta_t`` falls as ``1/sqrt(t)`` in the end (it is constant when directions do
        not differ from draw to draw), and after 1, 2, 4, ... passes the iteration starts anew from y.
    form : "acsa" or "momentum", default "acsa"
        Which iteration.
    momentum : float in [0, 1), default 0.9
        For the form "momentum" only.
    average : "polynomial", "uniform", True or False, default True
        For the form "momentum" only, as for :class:`SGD`.

    Notes
    -----
    ``max_passes`` defaults to 200 with tolerance 1e-3; when ``max_passes`` is given and ``tol`` is not, the budget is
    spent in full.

    References
    ----------
    Levy, Carmon, Duchi and Sidford, Large-scale methods for distributionally robust optimization, 2020, iteration (13).

    Examples
    --------
    >>> import numpy as np, leeward as lw
    >>> X, y = np.array([[0.0], [1.0], [2.0], [3.0]]), np.array([0.0, 1.0, 2.0, 3.0])
    >>> problem = lw.Robust(lw.LinearModel(X, y, loss="squared", l2=0.01), lw.ChiSquare(penalty=1.0))
    >>> lw.minimize(problem, algorithm=lw.Nesterov(lw.Minibatch(4, replace=False)), tol=1e-6).success
    True
    """

    estimator: Estimator = field(default_factory=Minibatch)
    step: float | None = None
    form: str = "acsa"
    momentum: float = 0.9
    average: bool | str = True

    def __post_init__(self) -> None:
        check_step(self.estimator, self.step, self.momentum, self.average)
        if self.form not in ("acsa", "momentum"):
            raise ValueError(f"form must be 'acsa' or 'momentum', got {self.form!r}")

    def check(self, problem: Robust, domain: Domain | None) -> None:
        self.estimator.cost(problem)

    def run(self, context: RunContext) -> None:
        decaying = self.step is None
        if self.form == "acsa":
            settings = Settings(_ACSA(), self.estimator, self.step, False, decaying)
        else:
            settings = Settings(NesterovMomentum(self.momentum), self.estimator, self.step, self.average, decaying)
        descend(context, settings)


class _ACSA(Update):
    name = "acsa"
