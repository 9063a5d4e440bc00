"""The inner risk of a Sinkhorn problem: of penalty ``lam eps``, with the problem's divergence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from leeward import divergences
from leeward.risks import KL, ChiSquare, CressieRead, KLCVaR, SmoothedCVaR

if TYPE_CHECKING:
    from leeward.risks import Risk

__all__ = ["dual_form", "inner_risk", "penalty_of"]

_NAMES = ("kl", "chi2", "pearson")


def inner_risk(divergence: Any, penalty: float) -> Risk:
    """The risk of penalty ``lam eps`` with this divergence."""
    if isinstance(divergence, str):
        if divergence not in _NAMES:
            names = ", ".join(repr(name) for name in _NAMES)
            raise ValueError(
                f"divergence must be one of {names} or a divergence such as CressieRead(3), got {divergence!r}"
            )
        if divergence == "pearson":
            return ChiSquare(penalty=2.0 * penalty)
        return KL(penalty=penalty) if divergence == "kl" else ChiSquare(penalty=penalty)
    match divergence:
        case divergences.KL():
            return KL(penalty=penalty)
        case divergences.ChiSquare():
            return ChiSquare(penalty=penalty)
        case divergences.SmoothedCVaR():
            return SmoothedCVaR(divergence.alpha, penalty)
        case divergences.KLCVaR():
            return KLCVaR(divergence.alpha, penalty)
        case divergences.CressieRead():
            return CressieRead(divergence.k, penalty=penalty)
    raise TypeError(
        f"divergence must be 'kl', 'chi2', 'pearson' or KL(), ChiSquare(), SmoothedCVaR(alpha), KLCVaR(alpha) or CressieRead(k) of "
        f"leeward.divergences, got {divergence!r}"
    )


def dual_form(risk: Risk) -> tuple[int, float]:
    """The kind and the parameter of csrc/include/leeward/risk/dual_form.hpp."""
    match risk:
        case KL():
            return 1, 0.0
        case ChiSquare():
            return 2, 0.0
        case KLCVaR() | SmoothedCVaR():
            return 3 if isinstance(risk, KLCVaR) else 4, float(risk.alpha)
        case CressieRead():
            return 5, float(risk.k)
    raise TypeError(f"no dual form of {risk!r}")


def penalty_of(risk: Risk) -> float:
    """The penalty, in the risk's own convention."""
    penalty: float = risk.penalty
    return penalty
