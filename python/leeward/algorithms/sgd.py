"""Projected stochastic gradient descent with averaging."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from leeward.algorithms._stochastic import Settings, check_step, check_update, descend
from leeward.algorithms.base import Stochastic
from leeward.algorithms.estimators import Estimator, Minibatch
from leeward.algorithms.updates import Momentum, Update

if TYPE_CHECKING:
    from leeward._context import RunContext
    from leeward.domains import Domain
    from leeward.problems import Robust

__all__ = ["SGD"]


@dataclass(frozen=True)
class SGD(Stochastic):
    r"""Projected stochastic (sub)gradient descent.

    With ``g_t`` the estimator's direction at ``w_t`` plus the exact ``l2 w_t``::

        v <- momentum v + g_t,    w <- prox(w - step_t v, step_t/(1 - momentum))

    and the answer is an average of the iterates.

    Parameters
    ----------
    estimator : Estimator, default ``Minibatch(64)``
        The source of directions.
    step : float, optional
        Step size. By default it comes from the data: ``(1 - momentum) / L``, with L the smoothness of the batch
        objective at the start, in variables scaled to unit second moments for a linear model; and it is cut to a quarter,
        going back to the last good point, whenever the objective at a recorded point is a tenth above its start.
    momentum : float in [0, 1), default 0
        Heavy-ball momentum.
    average : "polynomial", "uniform", True or False, default True
        ``"polynomial"`` (= True) gives step t (from 1) the weight ``(3+1)/(t+3)``; ``"uniform"`` gives ``1/t``; False
        returns the last iterate.
    decay : "auto", "constant" or "sqrt", default "auto"
        ``"sqrt"``: ``step_t = step / sqrt(1 + t/m)``, m the number of steps a pass. ``"auto"`` is constant for a
        given step and ``"sqrt"`` for the default one.
    update : Update, optional
        How the iterate moves along ``g_t``: ``Plain()``, ``Momentum()``, ``NesterovMomentum()``, ``AdaGrad()``, ``Adam()``,
        ``AMSGrad()``, ``AdaBound()``, ``Normalized()``. Default: the formula above.

    Notes
    -----
    ``max_passes`` defaults to 200 with tolerance 1e-3; when ``max_passes`` is given and ``tol`` is not, the budget is
    spent in full.

    References
    ----------
    Levy, Carmon, Duchi and Sidford, Large-scale methods for distributionally robust optimization, 2020, iteration (12) and
    appendix F (averaging).

    Examples
    --------
    >>> import numpy as np, leeward as lw
    >>> X, y = np.array([[0.0], [1.0], [2.0], [3.0]]), np.array([0.0, 1.0, 2.0, 3.0])
    >>> problem = lw.Robust(lw.LinearModel(X, y, loss="squared", l2=0.01), lw.CVaR(0.5))
    >>> lw.minimize(problem, algorithm=lw.SGD(lw.Minibatch(4)), max_passes=50).status.name
    'BUDGET'
    """

    estimator: Estimator = field(default_factory=Minibatch)
    step: float | None = None
    momentum: float = 0.0
    average: bool | str = True
    decay: str = "auto"
    update: Update | None = None

    def __post_init__(self) -> None:
        check_step(self.estimator, self.step, self.momentum, self.average)
        check_update(self.update)
        if self.update is not None and self.momentum:
            raise ValueError(f"give momentum or update, not both: got {self.momentum!r} and {self.update!r}")
        if self.decay not in ("auto", "constant", "sqrt"):
            raise ValueError(f"decay must be 'auto', 'constant' or 'sqrt', got {self.decay!r}")

    def check(self, problem: Robust, domain: Domain | None) -> None:
        self.estimator.cost(problem)

    def run(self, context: RunContext) -> None:
        update = Momentum(self.momentum) if self.update is None else self.update
        decay = "sqrt" if self.decay == "auto" and self.step is None else self.decay
        descend(
            context,
            Settings(update, self.estimator, self.step, self.average, decay == "sqrt"),
        )
