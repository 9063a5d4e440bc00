"""``profile``: what gradient estimators are worth at a point - bias, variance, cost and time, with confidence intervals."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from leeward import _arrays
from leeward._sums import dot, norm
from leeward.algorithms import Estimator
from leeward.problems import Robust

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

    Vector = NDArray[np.float64]

__all__ = ["Profile", "ProfileRow", "profile"]

_Z = 1.96  # standard normal quantile of two-sided 95 per cent
_WARM_UP = 3  # estimates before the clock starts


@dataclass(frozen=True)
class ProfileRow:
    """What one estimator is like at a point.

    Intervals are of 95 per cent, from the jackknife. Norms are Euclidean, of the gradient of the risk alone (without l2).

    Attributes
    ----------
    name : str
    bias : float
        ``|E g - grad R|``, estimated without the noise's share.
    bias_interval : (float, float)
    variance : float
        ``E |g - E g|^2``, and its interval ``variance_interval``.
    value_bias : float
        Mean of the estimated risk less the risk, and its interval ``value_interval``.
    mean_cost, largest_cost : float
        Component losses an estimate.
    seconds : float
        Median time of an estimate.
    work : float
        ``variance * mean seconds``: the time by which an average of independent estimates reaches variance 1.

    Examples
    --------
    >>> import numpy as np, leeward as lw
    >>> problem = lw.Robust(lw.LinearModel(np.eye(4), [0, 1, 0, 1]), lw.CVaR(0.5))
    >>> lw.profile(problem, np.ones(5), [lw.Minibatch(2)], repeats=10).rows[0].mean_cost
    2.0
    """

    name: str
    bias: float
    bias_interval: tuple[float, float]
    variance: float
    variance_interval: tuple[float, float]
    value_bias: float
    value_interval: tuple[float, float]
    mean_cost: float
    largest_cost: float
    seconds: float
    work: float


@dataclass(frozen=True)
class Profile:
    """The estimators compared.

    Attributes
    ----------
    rows : tuple of ProfileRow
    estimators : tuple of Estimator
    gradient_norm : float
        Of the risk's gradient at the point.
    full_seconds : float
        Median time of one exact gradient.

    Examples
    --------
    >>> import numpy as np, leeward as lw
    >>> problem = lw.Robust(lw.LinearModel(np.eye(4), [0, 1, 0, 1]), lw.CVaR(0.5))
    >>> found = lw.profile(problem, np.ones(5), [lw.Minibatch(2), lw.Minibatch(4, replace=False)], repeats=10)
    >>> found.best(seconds=1e6)
    Minibatch(n=4, replace=False)
    """

    rows: tuple[ProfileRow, ...]
    estimators: tuple[Estimator, ...]
    gradient_norm: float
    full_seconds: float

    def best(self, seconds: float | None = None) -> Estimator:
        """The estimator whose average over a time has the least mean squared error ``bias^2 + work / seconds``.

        Parameters
        ----------
        seconds : float, optional
            The time; that of ten exact gradients by default.
        """
        budget = 10.0 * self.full_seconds if seconds is None else seconds
        if not budget > 0:
            raise ValueError(f"seconds must be positive, got {seconds}")
        errors = [row.bias**2 + row.work / budget for row in self.rows]
        return self.estimators[int(np.argmin(errors))]

    def table(self) -> str:
        """The rows as text, one line an estimator."""
        titles = ("bias/|g|", "95 %", "variance", "95 %", "losses", "largest", "us", "var x s")
        wide = max(len("estimator"), *(len(row.name) for row in self.rows))
        lines = [f"{'estimator':<{wide}}" + "".join(f"{t:>{19 if t == '95 %' else 11}}" for t in titles)]
        scale = self.gradient_norm if self.gradient_norm > 0 else 1.0
        for row in self.rows:
            low, high = row.bias_interval
            lines.append(
                f"{row.name:<{wide}}{row.bias / scale:>11.3g}{f'{low / scale:.2g} .. {high / scale:.2g}':>19}"
                f"{row.variance:>11.3g}{'{:.2g} .. {:.2g}'.format(*row.variance_interval):>19}"
                f"{row.mean_cost:>11.1f}{row.largest_cost:>11.0f}{1e6 * row.seconds:>11.1f}{row.work:>11.3g}"
            )
        lines.append(f"one exact gradient: {1e6 * self.full_seconds:.0f} us, |g| = {self.gradient_norm:.3g}")
        return "\n".join(lines)

    def to_dict(self) -> dict[str, list[Any]]:
        """Columns by name."""
        return {name: [getattr(row, name) for row in self.rows] for name in ProfileRow.__dataclass_fields__}

    def plot(self, ax: Any = None) -> Any:
        """Bias against ``variance x seconds``, logarithmic; needs matplotlib (see :func:`leeward.plot.plot_profile`)."""
        from leeward.plot import plot_profile

        return plot_profile(self, ax)


def profile(
    problem: Robust,
    w: ArrayLike,
    estimators: Sequence[Estimator],
    repeats: int = 400,
    *,
    seed: int = 0,
    threads: int | None = 1,
) -> Profile:
    r"""Draws many estimates of the gradient at w from each estimator and compares them with the exact one.

    Parameters
    ----------
    problem : Robust
    w : (d,) array
        The point. What is good far from the optimum need not be good near it.
    estimators : sequence of Estimator
        Such as ``[lw.Minibatch(64), lw.MLMC(8, 4096)]``; without a memory of earlier points.
    repeats : int, default 400
        Estimates of each, at least 10.
    seed : int, default 0
    threads : int, default 1

    Returns
    -------
    Profile

    Raises
    ------
    ValueError, TypeError
        For an empty list, something that is not an estimator, or one that needs a history.

    Notes
    -----
    With h_k = g_k - grad R, the square of the bias is the mean of ``h_j . h_k`` over pairs j != k, which is unbiased.

    References
    ----------
    Levy, Carmon, Duchi and Sidford, Large-scale methods for distributionally robust optimization, 2020, sections 3 and 4.

    Examples
    --------
    >>> import numpy as np, leeward as lw
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(500, 3)); y = np.sign(X[:, 0] + rng.normal(size=500))
    >>> problem = lw.Robust(lw.LinearModel(X, y), lw.CVaR(0.1))
    >>> small, large = lw.profile(problem, np.zeros(4) + 0.1, [lw.Minibatch(10), lw.Minibatch(200)]).rows
    >>> small.bias > large.bias and small.variance > large.variance
    True
    """
    if not isinstance(problem, Robust):
        raise TypeError(f"problem must be a Robust problem, got {type(problem).__name__}")
    chosen = tuple(estimators)
    if not chosen:
        raise ValueError("estimators must name at least one, such as [Minibatch(64)]")
    for e in chosen:
        if not isinstance(e, Estimator):
            raise TypeError(f"estimators must be estimators such as Minibatch(64), got {e!r}")
    repeats = _arrays.count(repeats, "repeats", 10)
    at = problem.point(w)
    exact = _Exact.of(problem, at, threads)
    rows = tuple(_row(problem, at, e, exact, repeats, seed, threads) for e in chosen)
    return Profile(rows, chosen, norm(exact.gradient), exact.seconds)


@dataclass(frozen=True)
class _Exact:
    value: float
    gradient: Vector
    seconds: float

    @classmethod
    def of(cls, problem: Robust, w: Vector, threads: int | None) -> _Exact:
        """Risk and gradient at w without the l2 term, and the median time of three evaluations at new points."""
        evaluation = problem.evaluate(w, threads=threads)
        gradient = evaluation.gradient.copy()
        gradient[: problem.penalised] -= problem.l2 * w[: problem.penalised]
        times = []
        for k in range(3):
            other = w + 1e-9 * (k + 1)  # not the point whose scores are known
            start = time.perf_counter()
            problem.evaluate(other, threads=threads)
            times.append(time.perf_counter() - start)
        return cls(float(evaluation.solution.value), gradient, float(np.median(times)))


def _row(
    problem: Robust, w: Vector, estimator: Estimator, exact: _Exact, repeats: int, seed: int, threads: int | None
) -> ProfileRow:
    native = estimator.start(problem, seed)
    h, values = np.empty((repeats, problem.dim)), np.empty(repeats)
    costs, times = np.empty(repeats), np.empty(repeats)
    for step in range(-_WARM_UP, repeats):
        start = time.perf_counter()
        g, value, cost, fine = native.direction(w, max(step, 0), threads or 0)
        spent = time.perf_counter() - start
        if not fine:
            raise ValueError(f"a loss is not finite at w (estimate {max(step, 0)} of {estimator!r})")
        if step >= 0:
            h[step], values[step], costs[step], times[step] = g - exact.gradient, value - exact.value, cost, spent
    bias, bias_interval = _bias(h)
    squares = np.sum((h - h.mean(axis=0)) ** 2, axis=1) * (repeats / (repeats - 1))
    variance = float(squares.mean())
    half = _Z * float(squares.std(ddof=1)) / math.sqrt(repeats)
    value_half = _Z * float(values.std(ddof=1)) / math.sqrt(repeats)
    offset = float(values.mean())
    return ProfileRow(
        name=repr(estimator),
        bias=bias,
        bias_interval=bias_interval,
        variance=variance,
        variance_interval=(max(variance - half, 0.0), variance + half),
        value_bias=offset,
        value_interval=(offset - value_half, offset + value_half),
        mean_cost=float(costs.mean()),
        largest_cost=float(costs.max()),
        seconds=float(np.median(times)),
        work=variance * _mean_time(times, costs),
    )


def _mean_time(times: Vector, costs: Vector) -> float:
    """Mean time of an estimate, from the medians of those of equal cost: what else the machine does has less of a say."""
    total = 0.0
    for cost in np.unique(costs):
        same = times[costs == cost]
        total += len(same) * float(np.median(same))
    return total / len(times)


def _bias(h: Vector) -> tuple[float, tuple[float, float]]:
    """``|E h|`` by pairs, and its interval by leaving out one draw at a time."""
    n = len(h)
    total = h.sum(axis=0)
    squares = np.sum(h * h, axis=1)
    whole = (dot(total, total) - float(squares.sum())) / (n * (n - 1))
    left = total - h
    without = (np.sum(left * left, axis=1) - (squares.sum() - squares)) / ((n - 1) * (n - 2))
    error = math.sqrt(float(np.sum((without - without.mean()) ** 2)) * (n - 1) / n)
    low, high = (math.sqrt(max(whole + side * _Z * error, 0.0)) for side in (-1, 1))
    return math.sqrt(max(whole, 0.0)), (low, high)
