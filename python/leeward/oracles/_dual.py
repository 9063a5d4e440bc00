"""The dual form of a robust risk as a plain mean of losses in one more variable."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from leeward.oracles._base import Oracle
from leeward.oracles._function import FunctionOracle
from leeward.risks import CVaR, Risk

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Vector = NDArray[np.float64]

__all__ = ["dual_oracle"]


def dual_oracle(oracle: Oracle, risk: Risk) -> FunctionOracle:
    r"""An oracle in ``(w, eta)`` whose mean loss is the dual form of a risk.

    The loss of sample i is ``lam f*((l_i(w) - eta)/lam) + eta``, for CVaR ``max(l_i(w) - eta, 0)/alpha + eta``. The least mean over
    eta, the last of the d + 1 variables, is the risk of the losses, so that any method for means of losses minimises the risk: SCSG,
    SVRG, or ``SGD(update=Normalized())``, the normalised SGD with momentum that is a usual baseline.

    Parameters
    ----------
    oracle : Oracle
        The losses; its l2 term and sample weights are kept. eta is outside the l2 term.
    risk : Risk
        ``KL``, ``ChiSquare``, ``CressieRead`` with a penalty and no radius, ``KLCVaR``, ``SmoothedCVaR`` or ``CVaR``.

    Returns
    -------
    oracle : FunctionOracle
        Of dimension d + 1. One call of it is one of the given oracle.

    Raises
    ------
    TypeError, ValueError
        If the oracle or the risk is of another kind.

    Notes
    -----
    :class:`DualSGM` has steps of its own for eta, in an interval. Here eta is a variable like the others, without bounds; the weights
    of KL are exponential in it.

    References
    ----------
    Jin, Zhang, Wang and Wang, Non-convex distributionally robust optimization, NeurIPS 2021, equation (3).

    Examples
    --------
    >>> import numpy as np, leeward as lw
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 3)); y = X @ [1.0, -2.0, 0.5] + rng.normal(size=200)
    >>> model, risk = lw.LinearModel(X, y, "squared", l2=0.01), lw.ChiSquare(penalty=1.0)
    >>> result = lw.minimize(lw.dual_oracle(model, risk), max_passes=300)
    >>> best = lw.minimize(lw.Robust(model, risk))
    >>> bool(np.allclose(result.x, np.append(best.x, best.eta), atol=1e-2))
    True
    """
    if not isinstance(oracle, Oracle):
        raise TypeError(f"oracle must be a leeward oracle such as LinearModel(X, y), got {type(oracle).__name__}")
    if not isinstance(risk, Risk):
        raise TypeError(f"risk must be a leeward risk such as CVaR(0.1), got {risk!r}")
    if oracle.population > oracle.size:
        raise ValueError("dual_oracle needs an oracle of finitely many samples")
    f, penalty = risk.divergence, getattr(risk, "penalty", None)
    lam = 1.0 if isinstance(risk, CVaR) else penalty
    if f is None or lam is None or getattr(risk, "radius", None) is not None:
        raise ValueError(f"dual_oracle needs CVaR or a risk with a penalty and no radius, got {risk!r}")
    dual = _Dual(oracle, f, float(lam))
    return FunctionOracle(
        dual.losses,
        dual.gradient,
        oracle.size,
        oracle.dim + 1,
        l2=oracle.l2,
        penalised=oracle.penalised,
        convex=oracle.convex,
        smooth=oracle.smooth and risk.smooth,
        sample_weight=oracle.sample_weight,
    )


class _Dual:
    """The two functions."""

    def __init__(self, oracle: Oracle, f: Any, lam: float) -> None:
        self.oracle, self.f, self.lam = oracle, f, lam

    def shifted(self, v: Vector, index: NDArray[np.int64]) -> Vector:
        return np.asarray((self.oracle.losses(v[:-1], index) - v[-1]) / self.lam)

    def losses(self, v: Vector, index: NDArray[np.int64]) -> Vector:
        return np.asarray(self.lam * self.f.conjugate(self.shifted(v, index)) + v[-1])

    def gradient(self, v: Vector, weights: Vector, index: NDArray[np.int64]) -> Vector:
        ratio = weights * self.f.conjugate_grad(self.shifted(v, index))
        return np.append(self.oracle.gradient(v[:-1], ratio, index), weights.sum() - ratio.sum())
