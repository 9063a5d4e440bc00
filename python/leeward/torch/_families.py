"""A risk as plain numbers: what the solver of PyTorch operations and the second derivative need to know of it."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import Any

import leeward as lw

__all__ = ["Family", "family_of", "remember", "risk_named"]


@dataclass(frozen=True)
class Family:
    """The form of a risk.

    ``kind``: mean, worst, cvar (0 <= r <= 1/alpha), kl and power (penalty ``lam``, radius ``rho`` or both; chi-square is
    the power 2), capped (KL-CVaR), logistic (smoothed CVaR), move (total variation), entropic_move (the same with a penalty),
    spectral, entropic_spectral. ``sign`` is -1 for the tilt that plays down large losses: minus the risk of minus the losses.
    """

    kind: str
    alpha: float = 1.0
    lam: float | None = None
    rho: float | None = None
    order: float = 2.0
    sign: float = 1.0
    spectrum: tuple[str, Any] = ("", None)


def family_of(risk: lw.Risk) -> Family:
    """Return the family of a risk of this package."""
    found = _families.get(risk)
    if found is None:
        found = _families[risk] = _describe(risk)
    return found


def _describe(risk: Any) -> Family:
    if isinstance(risk, lw.Worst):
        return Family("worst")
    if isinstance(risk, lw.CVaR):
        return Family("cvar", alpha=risk.alpha) if risk.alpha < 1 else Family("mean")
    if isinstance(risk, lw.KL):
        return Family("kl", lam=risk.penalty, rho=risk.radius) if risk.radius != 0 else Family("mean")
    if isinstance(risk, lw.ChiSquare):
        return Family("power", lam=risk.penalty, rho=risk.radius) if risk.radius != 0 else Family("mean")
    if isinstance(risk, lw.CressieRead):
        power = Family("power", lam=risk.penalty, rho=risk.radius, order=risk.k)
        return power if risk.radius != 0 else Family("mean")
    if isinstance(risk, lw.Tilted) and risk.t != 0:
        return Family("kl", lam=1 / abs(risk.t), sign=1.0 if risk.t > 0 else -1.0)
    if isinstance(risk, lw.KLCVaR):
        return Family("capped", alpha=risk.alpha, lam=risk.penalty) if risk.alpha < 1 else Family("mean")
    if isinstance(risk, lw.SmoothedCVaR):
        return Family("logistic", alpha=risk.alpha, lam=risk.penalty) if risk.alpha < 1 else Family("mean")
    if isinstance(risk, lw.TotalVariation):
        kind = "move" if risk.penalty is None else "entropic_move"
        return Family(kind, rho=risk.radius, lam=risk.penalty) if risk.radius > 0 else Family("mean")
    if isinstance(risk, lw.Spectral):
        if risk.kind == "superquantile":
            return _describe(
                lw.CVaR(risk.parameter) if risk.penalty is None else lw.KLCVaR(risk.parameter, risk.penalty)
            )
        kind = "spectral" if risk.penalty is None else "entropic_spectral"
        return Family(kind, lam=risk.penalty, spectrum=(risk.kind, risk.parameter))
    if isinstance(risk, lw.Mean | lw.Tilted):
        return Family("mean")
    raise TypeError(f"risk must be a risk of leeward, got {risk!r}")


_families: dict[lw.Risk, Family] = {}
_named: dict[str, lw.Risk] = {}


def remember(risk: lw.Risk) -> str:
    """Return the name under which operators find the risk: its ``repr``."""
    name = repr(risk)
    _named.setdefault(name, risk)
    return name


def risk_named(name: str) -> lw.Risk:
    """Return the risk of a name; names that come with a saved program are read as calls of this package's classes."""
    risk = _named.get(name)
    if risk is None:
        risk = _named[name] = _read(name)
    return risk


def _read(name: str) -> lw.Risk:
    call = ast.parse(name, mode="eval").body
    if isinstance(call, ast.Call):
        path = ast.unparse(call.func).split(".")
        make: Any = lw
        for part in path:
            make = getattr(make, part) if part.isidentifier() and not part.startswith("_") else None
        values = [ast.literal_eval(value) for value in call.args]
        named = {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in call.keywords}
        if callable(make) and isinstance(getattr(lw, path[0], None), type):
            risk = make(*values, **named)
            if isinstance(risk, lw.Risk):
                return risk
    raise ValueError(f"not the name of a risk: {name!r}")
