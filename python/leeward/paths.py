"""``path``: one problem for a grid of radii, penalties or levels, each run started at the last one's answer; and the radius
that statistics suggests."""

from __future__ import annotations

import math
import numbers
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from leeward import _arrays
from leeward.minimize import minimize
from leeward.oracles import Oracle
from leeward.problems import Robust
from leeward.risks import Mean, Risk

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from leeward.result import Result

__all__ = ["Path", "path", "statistical_radius"]


@dataclass(frozen=True)
class Path:
    """A sequence of robust solutions.

    Attributes
    ----------
    parameter : str
        What varies: "radius", "penalty", "alpha" or "t".
    values : tuple of float
        Its values, in the order of the runs.
    risks : tuple of Risk
    results : tuple of Result
        One a value.
    multipliers : ndarray (m,)
        For a radius, the penalty with which the same point is optimal (0 where the radius does not bind); for a penalty, itself.
    divergences : ndarray (m,)
        ``D(q|p)`` of the worst-case weights at the solution: for a penalty, the radius with which the same point is optimal.
        NaN for a risk without a divergence.
    scores : ndarray (k, m)
        Risks of the validation losses at each solution, a row for each of ``score_risks``; (0, m) without validation data.
    score_risks : tuple of Risk

    Examples
    --------
    >>> import numpy as np, leeward as lw
    >>> model = lw.LinearModel(np.eye(4), [0.0, 1.0, 0.0, 3.0], "squared", l2=0.1)
    >>> lw.path(model, lw.CVaR(0.5), [0.9, 0.5]).values
    (0.9, 0.5)
    """

    parameter: str
    values: tuple[float, ...]
    risks: tuple[Risk, ...]
    results: tuple[Result, ...]
    multipliers: NDArray[np.float64]
    divergences: NDArray[np.float64]
    scores: NDArray[np.float64]
    score_risks: tuple[Risk, ...]

    def best(self, score: int = 0) -> Result:
        """The result with the least validation score, by the row of ``scores``."""
        if not len(self.scores):
            raise ValueError("there are no scores: give path a validation oracle")
        return self.results[int(np.argmin(self.scores[score]))]

    def table(self) -> str:
        """One line a value."""
        titles = [self.parameter, "objective", "gap", "multiplier", "divergence", *(repr(r) for r in self.score_risks)]
        widths = [max(12, len(t) + 2) for t in titles]
        lines = ["".join(f"{t:>{w}}" for t, w in zip(titles, widths, strict=True))]
        for k, (value, result) in enumerate(zip(self.values, self.results, strict=True)):
            gap = math.nan if result.gap is None else result.gap
            row = [value, result.fun, gap, self.multipliers[k], self.divergences[k], *self.scores[:, k]]
            lines.append("".join(f"{x:>{w}.6g}" for x, w in zip(row, widths, strict=True)))
        return "\n".join(lines)

    def to_dict(self) -> dict[str, NDArray[np.float64]]:
        """Columns by name."""
        columns = {
            self.parameter: np.array(self.values),
            "objective": np.array([r.fun for r in self.results]),
            "gap": np.array([math.nan if r.gap is None else r.gap for r in self.results]),
            "multiplier": self.multipliers,
            "divergence": self.divergences,
        }
        return columns | {repr(risk): row for risk, row in zip(self.score_risks, self.scores, strict=True)}


def path(
    problem: Robust | Oracle,
    risk: Risk,
    grid: Sequence[float],
    *,
    parameter: str | None = None,
    validation: Oracle | None = None,
    score_risks: Sequence[Risk] | None = None,
    **settings: Any,
) -> Path:
    """Minimises a problem for each value of a parameter of its risk.

    Parameters
    ----------
    problem : Robust or Oracle
        Data, groups and l2; its own risk is not used.
    risk : Risk
        Whose parameter varies, such as ``lw.ChiSquare(radius=1.0)``.
    grid : sequence of float
        Values in the order of the runs, best from mild to severe: each run starts at the last one's answer.
    parameter : {"radius", "penalty", "alpha", "t"}, optional
        By default the first of "radius", "alpha", "penalty", "t" that the risk has.
    validation : Oracle, optional
        Held-out data: risks of its losses are the scores.
    score_risks : sequence of Risk, optional
        By default the mean and ``risk`` itself.
    **settings
        Passed to :func:`leeward.minimize` (algorithm, domain, tol, ...).

    Returns
    -------
    Path

    Raises
    ------
    ValueError, TypeError
        For an empty grid, a parameter that the risk does not have, or a value that it refuses.

    Examples
    --------
    >>> import numpy as np, leeward as lw
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 3)); y = X @ [1.0, -2.0, 0.5] + rng.normal(size=300)
    >>> train, held = (lw.LinearModel(X[k::2], y[k::2], "squared", l2=0.01) for k in (0, 1))
    >>> found = lw.path(train, lw.ChiSquare(radius=1.0), [0.01, 0.1, 1.0], validation=held)
    >>> found.parameter, bool(np.all(np.diff([r.fun for r in found.results]) > 0))
    ('radius', True)
    """
    base = Robust(problem) if isinstance(problem, Oracle) else problem
    if not isinstance(base, Robust):
        raise TypeError(f"problem must be a Robust problem or an oracle, got {type(problem).__name__}")
    if not isinstance(risk, Risk):
        raise TypeError(f"risk must be a risk such as ChiSquare(radius=1.0), got {risk!r}")
    if validation is not None and (not isinstance(validation, Oracle) or validation.dim != base.dim):
        raise ValueError(f"validation must be an oracle of dimension {base.dim}, got {validation!r}")
    if score_risks is not None and validation is None:
        raise ValueError("score_risks needs a validation oracle, whose losses they are taken of")
    values = tuple(_arrays.number(v, "grid") for v in grid)
    if not values:
        raise ValueError("grid must hold at least one value, got none")
    name = _parameter(risk, parameter)
    risks = tuple(_with(risk, name, v) for v in values)
    others = tuple([Mean(), risk] if score_risks is None else score_risks) if validation is not None else ()
    results, multipliers, divergences = [], [], []
    scores = np.empty((len(others), len(values)))
    w = settings.pop("w0", None)
    for k, one in enumerate(risks):
        current = Robust(base.oracle, one, groups=base.groups)
        result = minimize(current, w, **settings)
        w = result.x
        solution = current.evaluate(w, threads=settings.get("threads")).solution
        multipliers.append(float(solution.multiplier))
        divergences.append(_divergence(current, one, result.weights))
        results.append(result)
        if validation is not None:
            losses = validation.losses(w)
            scores[:, k] = [float(other(losses, sample_weight=validation.sample_weight)) for other in others]
    return Path(name, values, risks, tuple(results), np.array(multipliers), np.array(divergences), scores, others)


def statistical_radius(n: int, confidence: float = 0.95) -> float:
    r"""The chi-square radius at which the worst case is an upper confidence bound of the mean loss.

    ``rho = z^2 / (2 n)`` with z the standard normal quantile of ``confidence``: for independent samples of a loss with finite variance,
    ``max {sum q_i l_i : D(q|p) <= rho} >= E l`` with probability ``confidence`` as n grows, for one fixed model. (The worst case is
    then ``mean + z sd/sqrt(n)`` up to O(1/n).)

    Parameters
    ----------
    n : int
        Number of samples.
    confidence : float, default 0.95
        In (0.5, 1).

    Returns
    -------
    float
        For ``ChiSquare(radius=)``, or ``KL(radius=)``, whose divergence agrees to second order.

    References
    ----------
    Duchi, Glynn and Namkoong, Statistics of robust optimization: a generalized empirical likelihood approach, 2021, theorem 1.

    Examples
    --------
    >>> import leeward as lw
    >>> round(lw.statistical_radius(1000), 6)
    0.001353
    """
    size = _arrays.count(n, "n", 1)
    if not isinstance(confidence, numbers.Real) or not 0.5 < confidence < 1:
        raise ValueError(f"confidence must be in (0.5, 1), got {confidence!r}")
    from scipy.special import ndtri

    return float(ndtri(confidence)) ** 2 / (2.0 * size)


def _parameter(risk: Risk, parameter: str | None) -> str:
    fields = type(risk)._fields
    known = [name for name in ("radius", "alpha", "penalty", "t") if name in fields and getattr(risk, name) is not None]
    if parameter is None:
        if not known:
            raise ValueError(f"{risk!r} has no parameter to vary")
        return known[0]
    if parameter not in known:
        raise ValueError(f"parameter must be one of {known} for {risk!r}, got {parameter!r}")
    return parameter


def _with(risk: Risk, name: str, value: float) -> Risk:
    given = {field: getattr(risk, field) for field in type(risk)._fields}
    return type(risk)(**{field: old for field, old in given.items() if old is not None} | {name: value})


def _divergence(problem: Robust, risk: Risk, weights: NDArray[np.float64]) -> float:
    """``D(q|p)`` of sample weights; NaN with groups and for risks without a divergence."""
    if problem.groups is not None:
        return math.nan
    f = risk.divergence
    if f is None:
        return math.nan
    p = np.full(problem.size, 1.0 / problem.size) if problem.base is None else problem.base
    positive = p > 0
    return float(np.sum(p[positive] * f.f(weights[positive] / p[positive])))
