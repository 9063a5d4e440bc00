"""`MeanDeviationPortfolio`: weights of assets by mean and deviation, from a table of returns."""

from __future__ import annotations

import math
import numbers
import warnings
from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

import leeward as lw
from leeward.sklearn._errors import ConvergenceWarning, convergence_warnings
from leeward.sklearn._inputs import level, refuse_masked, seed_of, threads_of
from leeward.sklearn._portfolio_optimum import Feasible, optimum

__all__ = ["MeanDeviationPortfolio"]

Array = NDArray[np.float64]
_TOL = 1e-6  # relative certified gap without which an exact fit warns
_ROUNDING = 1e-14  # of the portfolio's largest return without signs: what sums leave
_FRACTIONS = 0.2  # returns whose median is below are taken for fractions, not percent


class MeanDeviationPortfolio(BaseEstimator):  # type: ignore[misc]
    r"""Portfolio of least ``-mean + lam * deviation``.

    The fit minimises, over weights x with ``sum x = budget`` and ``min_weights <= x <= max_weights``::

        F(x) = -mean_t(r_t . x) + lam * sqrt(mean_t((r_t . x - mean_s(r_s . x))^2))

    for simple returns r_t of d assets in T periods. The deviation is about the mean, with T in the denominator. F scales with the
    returns: fractions and percent give the same weights, and F in the units given. F is convex, and the fit comes with a
    certificate (`gap_`).

    Parameters
    ----------
    lam : float, default=0.2
        Weight of the deviation, at least 0; 0 buys the greatest means.
    budget : float, default=1.0
        Sum of the weights.
    min_weights, max_weights : float, array-like of shape (d,), mapping or Series, default=0.0 and 1.0
        Finite bounds of the weights; mappings and Series name columns of X, and assets that a mapping leaves out have the
        default. ``min_weights=-0.3`` allows short positions.
    solver : "exact", "smvr" or leeward algorithm, default="exact"
        "exact": a barrier method on the mean and the covariance, deterministic, for up to some thousand assets. "smvr" and
        algorithms for compositions such as ``leeward.SMVR(batch=32)`` walk through the periods by small batches; they need the bounds
        0 and at least the budget.
    tol : float or None, default=None
        For solvers on batches: relative certified gap at which they stop (None: 1e-3, or `max_passes` are spent).
    max_passes : float or None, default=None
        For solvers on batches: budget of passes over the periods.
    random_state : int, RandomState, Generator or None, default=None
        Seed of solvers on batches. None is the fixed seed 0.
    n_jobs : int or None, default=None
        Threads of solvers on batches.

    Attributes
    ----------
    weights_ : Series or ndarray of shape (d,)
        Weights, labelled by the columns where X is a DataFrame. They keep their bounds exactly, and the budget to 1e-12.
    objective_ : float
        F at the weights, the same as ``leeward.MeanDeviation(X, lam).value(weights_)``.
    mean_, risk_ : float
        Mean and deviation of the portfolio's returns.
    gap_ : float
        Certified bound on ``objective_`` minus the optimum.
    n_iter_ : int
        Newton steps, or steps of the algorithm.
    n_features_in_ : int
        Number of assets.
    feature_names_in_ : ndarray of shape (d,)
        Their names where all are strings.

    Notes
    -----
    * NaN and infinite returns are refused, with the first period and asset: drop periods (``X.dropna()``) or assets, since filled
      returns change means and deviations.
    * A column that is constant is an asset without risk; where its return beats the others by enough, it gets all the weight, and the
      deviation is 0.
    * Columns that are alike, with bounds that are alike, share their weight evenly. One asset gets the budget.
    * Bounds that cannot be kept are refused with the sums that they allow.
    * Returns at or below -1 beside small ones, and tables of which every entry exceeds 1 (prices?), bring a warning.

    References
    ----------
    Jiang, Li, Gao, Wang, Yang and Zhang, Multi-level stochastic variance reduction, 2022, section 5.1.

    Examples
    --------
    >>> import numpy as np
    >>> from leeward.sklearn import MeanDeviationPortfolio
    >>> R = np.random.default_rng(0).normal([0.05, 0.02, 0.03], [1.0, 0.2, 0.5], size=(2000, 3))
    >>> model = MeanDeviationPortfolio(lam=0.2).fit(R)
    >>> bool(abs(model.weights_.sum() - 1) < 1e-12), bool(model.gap_ <= 1e-9 * abs(model.objective_))
    (True, True)
    >>> bool(np.isclose(model.predict(R).std(), model.risk_))
    True
    """

    def __init__(
        self,
        lam: float = 0.2,
        *,
        budget: float = 1.0,
        min_weights: Any = 0.0,
        max_weights: Any = 1.0,
        solver: Any = "exact",
        tol: float | None = None,
        max_passes: float | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.lam = lam
        self.budget = budget
        self.min_weights = min_weights
        self.max_weights = max_weights
        self.solver = solver
        self.tol = tol
        self.max_passes = max_passes
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any = None) -> Self:
        """Find the weights.

        Parameters
        ----------
        X : DataFrame or array-like of shape (T, d)
            Simple returns, a row a period.
        y : None
            Not used.

        Returns
        -------
        self : MeanDeviationPortfolio
            The fitted portfolio.
        """
        columns = getattr(X, "columns", None)
        given = self._returns(X, reset=True)
        returns, unit = _scaled(given)
        lam = level("lam", self.lam)
        feasible = self._feasible(returns.shape[1], columns)
        _warn_of_units(given)
        if isinstance(self.solver, str) and self.solver == "exact":
            mean = returns.mean(axis=0)
            centred = returns - mean
            found = optimum(mean, centred.T @ centred / len(returns), lam, feasible)
            x, self.n_iter_ = _shared(found.x, returns, feasible), found.steps
            value = _value(returns, x, lam)
            gap = max(value - found.bound, 2.0**-52 * abs(value))
            if not gap <= _TOL * abs(value) + _ROUNDING * float((np.abs(returns) @ np.abs(x)).max()):
                warnings.warn(
                    f"MeanDeviationPortfolio: the objective {_at(value, unit):.9g} is only certified to be within {_at(gap, unit):.3g} of "
                    "the optimum; the "
                    "scales of the assets may be too far apart",
                    ConvergenceWarning,
                    stacklevel=2,
                )
        else:
            x, gap, self.n_iter_ = self._walked(given, lam, feasible)
            gap = _at(gap, -unit)
        series = returns @ x
        self.mean_, self.risk_ = _at(float(series.mean()), unit), _at(float(series.std()), unit)
        self.objective_, self.gap_ = _at(_value(returns, x, lam), unit), _at(float(gap), unit)
        self.weights_ = _labelled(x, columns)
        return self

    def predict(self, X: Any) -> Any:
        """The portfolio's returns.

        Parameters
        ----------
        X : DataFrame or array-like of shape (T, d)
            Returns of the assets, in the columns of `fit`.

        Returns
        -------
        returns : Series or ndarray of shape (T,)
            ``X @ weights_``, with the index of a DataFrame.
        """
        check_is_fitted(self)
        series = self._returns(X) @ np.array(self.weights_)
        return _labelled(series, X.index if hasattr(X, "columns") else None)

    def score(self, X: Any, y: Any = None) -> float:
        """Minus F on other returns: greater is better.

        Parameters
        ----------
        X : DataFrame or array-like of shape (T, d)
            Returns of the assets, in the columns of `fit`.
        y : None
            Not used.

        Returns
        -------
        score : float
            ``mean - lam * deviation`` of the portfolio's returns.
        """
        check_is_fitted(self)
        returns, unit = _scaled(self._returns(X))
        return -_at(_value(returns, np.array(self.weights_), level("lam", self.lam)), unit)

    def _returns(self, X: Any, *, reset: bool = False) -> Array:
        refuse_masked(X, "X")
        try:
            made: Array = validate_data(self, X, reset=reset, dtype=np.float64)
        except ValueError as error:
            if "contains NaN" in str(error) or "contains infinity" in str(error):
                raise ValueError(f"{error}\n{_missing(X)}") from None
            raise
        return made

    def _feasible(self, d: int, columns: Any) -> Feasible:
        budget = _finite("budget", self.budget)
        lower = _bounds("min_weights", self.min_weights, 0.0, d, columns)
        upper = _bounds("max_weights", self.max_weights, 1.0, d, columns)
        if (lower > upper).any():
            j = int(np.argmax(lower > upper))
            raise ValueError(
                f"min_weights must not exceed max_weights, got {lower[j]} > {upper[j]} for {_name(j, columns)}"
            )
        least, most = math.fsum(lower), math.fsum(upper)
        slack = 1e-12 * max(1.0, abs(budget))
        if not least - slack <= budget <= most + slack:
            raise ValueError(
                f"the bounds cannot be kept: weights between min_weights and max_weights sum to between {least:.12g} and {most:.12g}, and "
                f"the budget is {budget:.12g}"
            )
        return Feasible(lower, upper, budget)

    def _walked(self, returns: Array, lam: float, feasible: Feasible) -> tuple[Array, float, int]:
        """The weights by an algorithm on batches of periods."""
        if isinstance(self.solver, str) and self.solver == "smvr":
            algorithm: Any = lw.SMVR()
        elif isinstance(self.solver, lw.Algorithm):
            algorithm = self.solver
        else:
            raise ValueError(
                f"solver must be 'exact', 'smvr' or an algorithm such as leeward.SMVR(), got {self.solver!r}"
            )
        if feasible.lower.any() or (feasible.upper < feasible.budget).any() or feasible.budget <= 0:
            raise ValueError(
                f"solver={self.solver!r} needs a positive budget, min_weights=0 and max_weights of at least the budget; use 'exact'"
            )
        with convergence_warnings() as early:
            result = lw.minimize(
                lw.MeanDeviation(returns, lam),
                algorithm=algorithm,
                domain=lw.Simplex(feasible.budget),
                max_passes=self.max_passes,
                tol=self.tol,
                seed=seed_of(self.random_state),
                threads=threads_of(self.n_jobs),
            )
        if early:
            warnings.warn(f"MeanDeviationPortfolio: {early[0]}", ConvergenceWarning, stacklevel=3)
        gap = math.inf if result.gap is None else result.gap
        return feasible.exact(np.array(result.x)), gap, int(result.nit)


def _scaled(returns: Array) -> tuple[Array, int]:
    """Returns over a power of two, so that the largest is about 1 and squares stay in range, and its exponent; the same digits."""
    _, exponent = math.frexp(float(np.abs(returns).max()))
    return np.ldexp(returns, -exponent), exponent


def _at(value: float, exponent: int) -> float:
    """A value of scaled returns in the units given; infinite where it has no number."""
    with np.errstate(over="ignore"):
        return float(np.ldexp(value, exponent))


def _value(returns: Array, x: Array, lam: float) -> float:
    series = returns @ x
    return float(lam * series.std() - series.mean())


def _shared(x: Array, returns: Array, feasible: Feasible) -> Array:
    """The mean weight for each of several columns that are alike, which changes nothing in the portfolio."""
    same: dict[bytes, list[int]] = {}
    for j, column in enumerate(returns.T):
        bounds = np.array([feasible.lower[j], feasible.upper[j]])
        same.setdefault(column.tobytes() + bounds.tobytes(), []).append(j)
    if len(same) == len(x):
        return x
    out = x.copy()
    for alike in same.values():
        out[alike] = x[alike].mean()
    return feasible.exact(out)


def _finite(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name} must be a number, got {value!r}")
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"{name} must be finite, got {value}")
    return number


def _bounds(name: str, given: Any, default: float, d: int, columns: Any) -> Array:
    """(d,) bounds from a number, a sequence, or names of columns."""
    if hasattr(given, "to_dict") and hasattr(given, "index"):
        given = given.to_dict()
    if isinstance(given, Mapping):
        if columns is None:
            raise ValueError(f"{name} names assets, but X has no columns with names")
        known = list(columns)
        unknown = [asset for asset in given if asset not in known]
        if unknown:
            raise ValueError(f"{name} names {unknown[0]!r}, which is not a column of X")
        given = [given.get(asset, default) for asset in known]
    try:
        made = np.array(given, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"{name} must be a number, {d} numbers or numbers by the names of columns, got {given!r}"
        ) from error
    if made.ndim == 0:
        made = np.full(d, float(made))
    if made.shape != (d,):
        raise ValueError(f"{name} must be a number or have one entry for each of {d} assets, got shape {made.shape}")
    if not np.isfinite(made).all():
        j = int(np.argmin(np.isfinite(made)))
        raise ValueError(f"{name} must be finite, got {made[j]} for {_name(j, columns)}")
    return made


def _name(j: int, columns: Any) -> str:
    return f"asset {j}" if columns is None else repr(columns[j])


def _missing(X: Any) -> str:
    """Where returns are missing first, and how often."""
    bad = ~np.isfinite(np.array(X, dtype=np.float64))
    t, j = (int(i) for i in np.argwhere(bad)[0])
    row = X.index[t] if hasattr(X, "index") else t
    return (
        f"Returns must be finite: {int(bad.any(axis=1).sum())} of {len(bad)} periods have missing ones, the first is period {row} of "
        f"{_name(j, getattr(X, 'columns', None))}. Drop these periods (X.dropna()) or the assets."
    )


def _labelled(values: Array, index: Any) -> Any:
    """A Series where there are labels; arrays have none."""
    if index is None:
        return values
    import pandas as pd

    return pd.Series(values, index=index)


def _warn_of_units(returns: Array) -> None:
    if returns.min() > 1.0:
        warnings.warn(
            "every entry of X exceeds 1: these look like prices; give simple returns, for example X.pct_change().dropna()",
            UserWarning,
            stacklevel=3,
        )
    elif returns.min() <= -1.0 and float(np.median(np.abs(returns))) < _FRACTIONS:
        warnings.warn(
            f"X has returns at or below -1 (the least is {returns.min():.3g}) beside small ones: a long position loses everything there",
            UserWarning,
            stacklevel=3,
        )
