"""The composition ``F(w) = f_K o ... o f_1 (w) + (l2/2) |w|^2`` of levels that are means over samples (docs/maths/smvr.md)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from leeward import _arrays, _core
from leeward._sums import dot
from leeward._threads import thread_request
from leeward.domains import Domain
from leeward.errors import InfiniteError
from leeward.oracles import FunctionLevel, Level
from leeward.problems._descent import native_descent

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Vector = NDArray[np.float64]

__all__ = ["Composition", "CompositionEvaluation"]


@dataclass(frozen=True)
class CompositionEvaluation:
    """A composition at one point, on all samples.

    Attributes
    ----------
    value : float
        ``F(w)``, the l2 term included.
    gradient : ndarray (d,)
        ``J_1^T ... J_K^T + l2 w``.
    levels : tuple of ndarray
        ``u_1 = f_1(w), ..., u_K``.
    guarded : int
        Numbers that were put at the floor of a level that needs them positive.
    eta : float
        The quantile that stands in w, in units of the losses, for problems that have one (:class:`MeanCVaR`), else NaN.
    """

    value: float
    gradient: Vector
    levels: tuple[Vector, ...]
    guarded: int = 0
    eta: float = math.nan

    @property
    def losses(self) -> Vector:
        """The value, as the one loss there is."""
        return np.array([self.value])

    @property
    def weights(self) -> Vector:
        """Empty: a composition has no worst-case weights."""
        return np.zeros(0)


class Composition:
    r"""The problem ``min_w f_K(... f_2(f_1(w)) ...) + (l2/2) |w|^2``.

    Parameters
    ----------
    levels : sequence of Level
        From the inside out: each takes as many numbers as the one before gives, the last one gives one.
    l2 : float, default 0
        Strength of the l2 term, taken exactly by all algorithms.
    convex : bool, default False
        State that F is convex: then runs over a bounded domain, or with an l2 term, certify how far they are from the optimum.
    domain : Domain, optional
        The domain that ``minimize`` uses when it is given none.

    Attributes
    ----------
    size : int
        Samples of all levels together (1 for a level without samples): a pass is so many evaluations of one sample of one level.

    Examples
    --------
    >>> import numpy as np, leeward as lw
    >>> a = np.array([1.0, 2.0, 6.0])
    >>> inner = lw.FunctionLevel(lambda u, index: u - a[index].mean(), lambda u, index: np.eye(1), inputs=1, outputs=1, size=3)
    >>> outer = lw.ElementwiseLevel("power", exponent=2.0)
    >>> problem = lw.Composition([inner, outer])
    >>> e = problem.evaluate([1.0])
    >>> e.value, e.gradient
    (4.0, array([-4.]))
    """

    # What a robust problem has and a composition has not.
    oracle: Any = None
    risk: Any = None
    groups: Any = None
    base: Any = None
    linear: Any = None
    spread = 0.0
    repairs = False
    smooth = True

    def __init__(
        self, levels: Sequence[Level], *, l2: float = 0.0, convex: bool = False, domain: Domain | None = None
    ) -> None:
        if isinstance(levels, Level) or not isinstance(levels, Iterable):
            raise TypeError(f"levels must be a sequence of levels such as [FunctionLevel(...)], got {levels!r}")
        if not isinstance(convex, bool | np.bool_):
            raise TypeError(f"convex must be True or False, got {convex!r}")
        chain = tuple(levels)
        for level in chain:
            if not isinstance(level, Level):
                raise TypeError(f"levels must be levels such as FunctionLevel(...), got {level!r}")
        if not chain:
            raise ValueError("a composition needs at least one level")
        if len(chain) > 128:
            raise ValueError(f"a composition has at most 128 levels, got {len(chain)}")
        for i, (before, after) in enumerate(pairwise(chain), start=1):
            if before.outputs != after.inputs:
                raise ValueError(
                    f"level {i + 1} takes {after.inputs} numbers, but level {i} gives {before.outputs} (kept inputs included)"
                )
        if chain[-1].outputs != 1:
            raise ValueError(f"the last level must give one number, got {chain[-1].outputs}")
        strength = _arrays.number(l2, "l2")
        if not (np.isfinite(strength) and strength >= 0):
            raise ValueError(f"l2 must be finite and at least 0, got {l2}")
        if domain is not None and not isinstance(domain, Domain):
            raise TypeError(f"domain must be a domain or prox term such as Box(0, 1), got {domain!r}")
        self.levels, self.l2, self.convex, self.domain = chain, strength, bool(convex), domain
        self._cores = tuple(level._core for level in chain)

    @property
    def depth(self) -> int:
        """Number of levels K."""
        return len(self.levels)

    @property
    def dim(self) -> int:
        """Length d of w."""
        return self.levels[0].inputs

    @property
    def penalised(self) -> int:
        """Leading coordinates under the l2 term and the domain: all d, unless a problem says otherwise."""
        return self.dim

    @property
    def size(self) -> int:
        return sum(level.size for level in self.levels)

    @property
    def jacobians(self) -> bool:
        """Whether every level answers Jacobians."""
        return all(level.jacobians for level in self.levels)

    @property
    def native(self) -> bool:
        """Whether no level calls Python functions."""
        return not any(isinstance(level, FunctionLevel) for level in self.levels)

    @property
    def endless(self) -> bool:
        """Whether a level is an expectation, of which its samples are only some draws."""
        return any(level.population > level.size for level in self.levels)

    def start(self) -> Vector:
        """Where runs start by default: the origin."""
        return np.zeros(self.dim)

    def value(self, w: ArrayLike, *, threads: int | None = None) -> float:
        """F(w) on all samples."""
        return self.evaluate(w, threads=threads).value

    def evaluate(self, w: ArrayLike, *, threads: int | None = None) -> CompositionEvaluation:
        """F, its gradient and the levels' values at w, on all samples."""
        point = self.point(w)
        numbers, gradient, guarded = _core.composed(self._cores, point, thread_request(threads))
        ends = np.cumsum([self.dim, *(level.outputs for level in self.levels)])
        levels = tuple(numbers[a:b].copy() for a, b in pairwise(ends))
        value = float(numbers[-1])
        if self.l2:
            with np.errstate(over="ignore"):
                coef = point[: self.penalised]
                gradient[: self.penalised] += self.l2 * coef
                value += 0.5 * self.l2 * dot(coef, coef)
        return CompositionEvaluation(value, gradient, levels, int(guarded))

    def evaluate_if_finite(self, w: Vector, *, threads: int | None = None) -> CompositionEvaluation | None:
        """:meth:`evaluate`, or None where w or F is NaN or infinite, or a user's function has left its range."""
        if not np.isfinite(w).all():
            return None
        try:
            evaluation = self.evaluate(w, threads=threads)
        except InfiniteError:
            return None
        return evaluation if np.isfinite(evaluation.value) else None

    def unfitted(self, threads: int | None = None) -> float:
        """``|F|`` at the default starting point."""
        return abs(self.value(self.start(), threads=threads))

    def point(self, w: ArrayLike) -> Vector:
        """w as a float64 (d,) array; ValueError unless its length is d and it is finite."""
        array = _arrays.point(w, self.dim)
        if not np.isfinite(array).all():
            j = int(np.argmin(np.isfinite(array)))
            raise ValueError(f"w must be finite, got {array[j]} at position {j}")
        return array

    def solved(self, w: Vector, threads: int | None = None) -> Vector | None:
        """w with its coordinates beyond ``penalised`` at their best, exactly; None where nobody can say.

        For convex F certificates are then those of the leading coordinates, at that point.
        """
        return None

    def smoothed(self, strength: float) -> Composition:
        """ValueError: compositions are taken as they are."""
        raise ValueError("a composition has no smoothing")

    def minibatch(self, n: int, replace: bool, seed: int, *, reshuffle: bool = False) -> Any:
        """The native estimator of values and gradients of one draw of n samples a level (biased)."""
        if reshuffle:
            raise ValueError(
                "Minibatch(reshuffle=True) is not supported by a composition: its levels draw independently"
            )
        return _core.AveragedLevels(self._cores, (n, n), (1.0, 0.0, 1.0), [(1.0, 0.0, 1.0)], 0.1, seed, 4)

    def tracked(
        self, seed: int, laws: tuple[Any, ...], stages: tuple[float, float], guard: float, rule: tuple[Any, ...]
    ) -> Any:
        """A native estimator of csrc/include/leeward/estimator/tracked_levels.hpp; for authors of algorithms."""
        settings: Any = (*laws, stages, guard, seed, *rule)
        return _core.TrackedLevels(self._cores, *settings)

    def averaged(self, seed: int, laws: tuple[Any, ...], guard: float, rule: int) -> Any:
        """A native estimator of csrc/include/leeward/estimator/averaged_levels.hpp; for authors of algorithms."""
        settings: Any = (*laws, guard, seed, rule)
        return _core.AveragedLevels(self._cores, *settings)

    def descent(self, estimator: Any, update: tuple[str, list[float]], start: Vector, **settings: Any) -> Any:
        """A native descent on this problem, as :meth:`Robust.descent` makes it."""
        return native_descent(self, estimator, update, start, **settings)

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuilt, (self.levels, self.l2, self.convex, self.domain)

    def __repr__(self) -> str:
        l2 = f", l2={self.l2}" if self.l2 else ""
        convex = ", convex=True" if self.convex else ""
        return f"Composition([{', '.join(repr(level) for level in self.levels)}]{l2}{convex})"


def _rebuilt(levels: tuple[Level, ...], l2: float, convex: bool, domain: Domain | None) -> Composition:
    return Composition(levels, l2=l2, convex=convex, domain=domain)
