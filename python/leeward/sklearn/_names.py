"""Names for risks, losses and solvers, and risks rebuilt with one parameter changed.

A risk is immutable, so ``set_params(risk__alpha=0.2)`` makes a new risk of the same class: `with_parameters` does it from
the constructor's own parameter names.
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Mapping
from typing import Any

import leeward as lw

__all__ = ["loss_name", "loss_of", "risk_names", "risk_of", "risk_parameters", "solver_of", "with_parameters"]

# The parameters of a risk that is given by its name alone: mild ones. Where labels are noisy a severe risk of a
# classification loss has the constant model as its optimum (every sample equally bad); these keep away from that.
_RISKS: dict[str, tuple[str, dict[str, Any]]] = {
    "mean": ("Mean", {}),
    "worst": ("Worst", {}),
    "cvar": ("CVaR", {"alpha": 0.5}),
    "chi_square": ("ChiSquare", {"radius": 0.1}),
    "kl": ("KL", {"radius": 0.1}),
    "kl_cvar": ("KLCVaR", {"alpha": 0.5, "penalty": 0.1}),
    "smoothed_cvar": ("SmoothedCVaR", {"alpha": 0.5, "penalty": 0.1}),
    "cressie_read": ("CressieRead", {"k": 1.5, "radius": 0.1}),
    "total_variation": ("TotalVariation", {"radius": 0.2}),
    "tilted": ("Tilted", {"t": 1.0}),
    "superquantile": ("Spectral.superquantile", {"alpha": 0.5}),
    "extremile": ("Spectral.extremile", {"draws": 2.0}),
    "exponential": ("Spectral.exponential", {"rate": 2.0}),
}
# The parameter of each kind of lw.Spectral.
_SPECTRA = {"weights": "weights", "superquantile": "alpha", "extremile": "draws", "exponential": "rate"}
_LOSSES = {
    "squared": "Squared",
    "huber": "Huber",
    "absolute": "Absolute",
    "quantile": "Quantile",
    "logistic": "Logistic",
    "softmax": "Softmax",
    "hinge": "Hinge",
    "squared_hinge": "SquaredHinge",
    "poisson": "Poisson",
    "sigmoid": "Sigmoid",
    "cauchy": "Cauchy",
    "geman_mcclure": "GemanMcClure",
    "tukey": "Tukey",
}
_SOLVERS = {
    "lbfgs": "LBFGS",
    "sgd": "SGD",
    "nesterov": "Nesterov",
    "scsg": "SCSG",
    "svrg": "SVRG",
    "sarah": "SARAH",
    "storm": "STORM",
    "nested": "NestedSGD",
}


def risk_names() -> list[str]:
    """The names that `risk_of` understands."""
    return sorted(_RISKS)


def risk_of(risk: Any, changes: Mapping[str, Any] | None = None) -> lw.Risk:
    """The risk object for a risk or a name, with `changes` in place of the name's usual parameters."""
    if isinstance(risk, lw.Risk):
        return with_parameters(risk, changes) if changes else risk
    if isinstance(risk, str):
        if risk not in _RISKS:
            raise ValueError(f"risk must be a leeward risk or one of {risk_names()}, got {risk!r}")
        name, usual = _RISKS[risk]
        return _made(name, _merged(usual, changes or {}))
    raise TypeError(f"risk must be a leeward risk such as leeward.CVaR(0.1) or a name, got {risk!r}")


def _made(name: str, parameters: Mapping[str, Any]) -> lw.Risk:
    make = operator.attrgetter(name)(lw)
    known = inspect.signature(make).parameters
    for parameter in parameters:
        if parameter not in known:
            raise ValueError(f"{name} has no parameter {parameter!r}; it has {sorted(known)}")
    made: lw.Risk = make(**parameters)
    return made


def _merged(usual: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    # A penalty given by the user replaces the usual radius and the other way round; naming both keeps both.
    strength = {"radius", "penalty"}
    kept = {k: v for k, v in usual.items() if not (k in strength and strength & set(changes) and "alpha" not in usual)}
    return {**kept, **changes}


def risk_parameters(risk: Any) -> dict[str, Any]:
    """The constructor's parameters of a risk (or of a name's risk) and their values; {} for anything else."""
    if not isinstance(risk, lw.Risk):
        if not (isinstance(risk, str) and risk in _RISKS):
            return {}
        risk = risk_of(risk)
    if isinstance(risk, lw.Spectral):
        return {_SPECTRA[risk.kind]: risk.parameter}
    names = inspect.signature(type(risk)).parameters
    return {name: getattr(risk, name) for name in names if hasattr(risk, name)}


def with_parameters(risk: Any, changes: Mapping[str, Any]) -> lw.Risk:
    """A risk of the same class with some of its parameters changed."""
    if isinstance(risk, str):
        return risk_of(risk, changes)
    name = type(risk).__name__
    if isinstance(risk, lw.Spectral) and risk.kind != "weights":
        name = f"Spectral.{risk.kind}"
    return _made(name, {**risk_parameters(risk), **changes})


def loss_name(loss: Any) -> str:
    """'squared_hinge' for the name itself and for leeward.losses.SquaredHinge()."""
    if isinstance(loss, str):
        return loss
    name = type(loss).__name__
    for key, value in _LOSSES.items():
        if name == value:
            return key
    raise TypeError(f"loss must be a name or an object of leeward.losses, got {loss!r}")


def loss_of(loss: Any, supported: tuple[str, ...], estimator: str) -> Any:
    """`loss` if the estimator can use it, else a ValueError that names both."""
    name = loss_name(loss)
    if name not in supported:
        raise ValueError(f"loss={name!r} is not supported by {estimator}; it takes {', '.join(map(repr, supported))}")
    return loss


def solver_of(solver: Any) -> lw.Algorithm | None:
    """The algorithm with default settings for a name, an algorithm itself, and None (`leeward.minimize` chooses) for "auto"."""
    if isinstance(solver, lw.Algorithm):
        return solver
    if isinstance(solver, str) and solver in _SOLVERS:
        algorithm: lw.Algorithm = getattr(lw, _SOLVERS[solver])()
        return algorithm
    if isinstance(solver, str) and solver == "auto":
        return None
    names = ", ".join(map(repr, ["auto", *_SOLVERS]))
    raise ValueError(f"solver must be one of {names} or an object such as leeward.SGD(), got {solver!r}")
