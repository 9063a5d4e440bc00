"""What all risks share: solving, equality by parameters, and the checks of parameters."""

from __future__ import annotations

import math
import numbers
from typing import Any, ClassVar, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from leeward import _arrays, _core
from leeward.divergences import Divergence

__all__ = ["Risk", "RiskSolution", "number_in", "optional_number"]

RiskSolution = _core.RiskSolution
CoreRisk = _core.Risk


def number_in(name: str, value: Any, low: float, high: float, interval: str) -> float:
    """``value`` as a float inside an interval given in words, such as "(0, 1]"; its brackets say which ends belong to it."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name} must be a real number in {interval}, got {value!r}")
    number = float(value)
    above = number > low or (number == low and interval.startswith("["))
    below = number < high or (number == high and interval.endswith("]"))
    if not (above and below):
        raise ValueError(f"{name} must be in {interval}, got {number:.12g}")
    return number


def tail(alpha: float) -> float:
    """``alpha`` as the core takes it: a smaller tail than 1e-300 is the maximum too, and 1/alpha must not overflow."""
    return max(alpha, 1e-300)


def optional_number(name: str, value: Any, interval: str) -> float | None:
    """None, or a finite number in "(0, inf)" or "[0, inf)"."""
    return None if value is None else number_in(name, value, 0.0, math.inf, interval)


class Risk:
    """Base of all risks: a map from losses l_1..l_n to a value and to worst-case weights q_1..q_n.

    A risk is immutable; two risks with the same parameters are equal. The value is
    ``R(l) = max_q sum_i q_i l_i - lam D(q|p)`` over a set of distributions q around the base weights p (uniform, or
    ``sample_weight`` divided by its sum), so the derivative of R with respect to l_i is q_i. Losses with base weight 0 play
    no part, but must be finite.
    """

    __slots__ = ("_core", "_values")
    _fields: ClassVar[tuple[str, ...]] = ()

    _core: CoreRisk
    _values: tuple[Any, ...]

    smooth: ClassVar[bool] = False
    coherent: ClassVar[bool] = False

    def _set(self, core: CoreRisk, *values: Any) -> None:
        object.__setattr__(self, "_core", core)
        object.__setattr__(self, "_values", values)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{type(self).__name__} is immutable; make a new one instead of setting {name!r}")

    def __getattr__(self, name: str) -> Any:
        if name in type(self)._fields:
            return self._values[type(self)._fields.index(name)]
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __repr__(self) -> str:
        given = zip(type(self)._fields, self._values, strict=True)
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in given if v is not None)})"

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other) or not isinstance(other, Risk):
            return NotImplemented
        return self._values == other._values

    def __hash__(self) -> int:
        return hash((type(self).__name__, self._values))

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    def __reduce__(self) -> Any:
        given = {k: v for k, v in zip(type(self)._fields, self._values, strict=True) if v is not None}
        return _rebuild, (type(self), given)

    def __call__(
        self, losses: ArrayLike, sample_weight: ArrayLike | None = None, threads: int | None = None
    ) -> float | NDArray[np.float64]:
        """Return the risk of the losses: a float for losses of shape (n,), an array (m,) for (m, n), one risk a row.

        Parameters
        ----------
        losses : array of shape (n,) or (m, n)
            Finite numbers. float32 and float64 arrays are read as they are; sums are in double precision always.
        sample_weight : array of shape (n,), optional
            Base weights, not negative, any positive scale; uniform when left out. Shared by all rows.
        threads : int, optional
            Threads for large inputs; by default LEEWARD_NUM_THREADS, OMP_NUM_THREADS or all usable CPUs. The result has
            the same bits for any number.

        Raises
        ------
        ValueError
            If an entry is NaN or infinite (its position is named), shapes disagree, or no sample has positive weight.
        """
        value: Any = self._core.value(losses, sample_weight, threads)
        if value is None:
            array, _ = _arrays.losses(losses)
            value = self._core.value(array, _arrays.base(sample_weight, array.shape[-1]), threads)
        return cast("float | NDArray[np.float64]", value)

    def solve(
        self,
        losses: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        threads: int | None = None,
        out: NDArray[Any] | None = None,
    ) -> RiskSolution:
        """Return the value together with the worst-case weights.

        Parameters
        ----------
        losses, sample_weight, threads
            As for calling the risk.
        out : array of the losses' shape and dtype, optional
            Where to write the weights; it is returned as ``weights``. Saves the time of fresh memory for large n.

        Returns
        -------
        RiskSolution
            ``value`` R(l) by its dual formula; ``weights`` q, in the losses' dtype, not negative, with sum 1; ``eta`` the
            dual variable of the constraint sum q = 1, in units of the losses; ``multiplier`` the price of the radius, or the
            penalty in force; ``gap`` the dual value minus ``sum q l - lam D(q|p)`` for the weights found, 0 up to rounding;
            ``iterations`` passes of the inner solve; ``effective_sample_size`` 1 / sum q^2. Arrays with one entry a row for
            losses of shape (m, n).

        Raises
        ------
        ValueError
            As for calling the risk; also if ``out`` has another shape or dtype.
        """
        solution: RiskSolution | None = self._core.solve(losses, sample_weight, threads, out)
        if solution is not None:
            return solution
        array, narrow = _arrays.losses(losses)
        base = _arrays.base(sample_weight, array.shape[-1])
        if narrow is not None:
            return _with_dtype(self._core.solve(array, base, threads, None), narrow, out, np.asarray(losses))
        target = None if out is None else _arrays.output_like(out, array)
        return cast("RiskSolution", self._core.solve(array, base, threads, target))

    @property
    def divergence(self) -> Divergence | None:
        """The divergence f behind the risk with its conjugate, or None where there is none."""
        return None

    def smoothed(self, strength: float) -> Risk:
        """Return a smooth risk over the same set of weights that never exceeds this one; smooth risks return themselves.

        Parameters
        ----------
        strength : float in (0, inf)
            The penalty of the smoothing, in units of the losses; the smaller, the closer to this risk.
        """
        number_in("strength", strength, 0.0, math.inf, "(0, inf)")
        if self.smooth:
            return self
        raise ValueError(f"{type(self).__name__} has no smoothing over the same set of weights")

    def penalty_term(self, weights: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Return lam D_f(q|p) for weights q of shape (n,); 0 for risks that only constrain the weights.

        ``sum q l - penalty_term(q)`` is at most R(l) for every q that the risk allows.
        """
        penalty, divergence = getattr(self, "penalty", None), self.divergence
        if penalty is None or divergence is None:
            return 0.0
        q = _arrays.numbers(weights, "weights")
        base = _arrays.base(sample_weight, q.size)
        p = np.full(q.size, 1.0 / q.size) if base is None else base / base.sum()
        held = p > 0
        if np.any(q[~held] > 0):
            return math.inf
        ratio = q[held] / p[held]
        # weights on the cap are on it up to rounding
        ratio = np.where(ratio <= divergence.upper * (1 + 1e-12), np.minimum(ratio, divergence.upper), ratio)
        return float(penalty * np.sum(p[held] * divergence.f(ratio)))

    def curvature(self, losses: ArrayLike, sample_weight: ArrayLike | None = None) -> NDArray[np.float64]:
        """Return c of shape (n,), c_i >= 0, with d q_i / d l_i at most about c_i; zeros for risks that are not smooth.

        It is p_i (f*)''((l_i - eta) / lam) / lam, the diagonal of the second derivative without the reaction of eta.
        """
        array, _ = _arrays.losses(losses)
        if array.ndim != 1:
            raise ValueError(f"losses must have shape (n,), got {array.shape}")
        if not self.smooth:
            return np.zeros(array.size)
        solution = self.solve(array, sample_weight)
        base = _arrays.base(sample_weight, array.size)
        p = np.broadcast_to(1.0 / array.size, array.size) if base is None else base / base.sum()
        lam = solution.multiplier + self._extra_penalty()
        if not 0 < lam < math.inf:
            return np.zeros(array.size)
        return np.asarray(self._slope(solution.weights.astype(np.float64, copy=False), p) / lam)

    def _extra_penalty(self) -> float:
        """The penalty that acts beside the reported multiplier (both at once)."""
        return 0.0

    def _slope(self, q: NDArray[np.float64], p: NDArray[np.float64]) -> NDArray[np.float64]:
        """p_i (f*)''(s_i), from the weights."""
        raise NotImplementedError


def _rebuild(cls: type[Risk], given: dict[str, Any]) -> Risk:
    return cls(**given)


def _with_dtype(solution: RiskSolution, dtype: Any, out: Any, losses: NDArray[Any]) -> RiskSolution:
    """The same solution with its weights in another dtype."""
    weights = solution.weights.astype(dtype)
    if out is not None:
        _arrays.output_like(out, losses)[...] = weights
        weights = out
    return solution.with_weights(weights)
