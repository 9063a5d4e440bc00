r"""Tilts on two levels: of the samples in a group, and of the groups (docs/maths/smvr.md).

    P(w) = (1/t) log sum_g p_g exp(t R_g(w)) + (l2/2) |w_pen|^2,     R_g(w) = (1/tau) log sum_{i in g} (p_i / p_g) exp(tau l_i(w)).

All exponents are taken of differences from the group's largest, or from its mean where they are small, so nothing overflows and a
tau near 0 loses no digits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from leeward import _arrays
from leeward.oracles import ElementwiseLevel, FunctionLevel, LinearModel, from_vjp
from leeward.problems._composition import Composition
from leeward.problems._robust import Robust, _check_oracle, _Groups, _normalised
from leeward.risks import Tilted

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike, NDArray

    from leeward.oracles import Oracle

    Vector = NDArray[np.float64]
    Index = NDArray[np.int64]

__all__ = ["HierarchicalTilt"]

_NEAR = 0.5  # exponents up to which a group's tilt is taken about its mean
_FLOOR = 1e-300  # of the means of exponentials that a composition tracks


class HierarchicalTilt(Robust):
    r"""The problem ``min_w (1/t) log sum_g p_g exp(t R_g) + (l2/2) |w_pen|^2`` with ``R_g = (1/tau) log mean_g exp(tau l_i)``.

    A negative tau plays down the large losses of each group (wrong labels, outliers), a positive t plays up the groups where the
    loss is large: fair to groups and robust to noise in them. ``tau = 0`` is the mean of each group, ``t = 0`` the mean over groups, and
    ``t = tau`` is ``Robust(oracle, Tilted(t))``.

    Parameters
    ----------
    oracle : Oracle
        The losses; its ``sample_weight`` (normalised) are the p_i, and p_g is their sum over a group.
    groups : (n,) integers
        A label for each sample, as for :class:`Robust`.
    t, tau : float
        Tilts of the groups and of the samples in them, in units of 1/loss.

    Attributes
    ----------
    size : int
        Number of groups: the *losses* of this problem are the ``R_g``, and its weights those of the groups.

    Raises
    ------
    TypeError, ValueError
        As :class:`Robust`, or when t or tau is not finite.

    Notes
    -----
    Value and gradient are exact on all samples: ``sum_g Q_g sum_{i in g} q_i grad l_i`` with ``Q_g ~ p_g exp(t R_g)`` and ``q_i ~ p_i
    exp(tau l_i)`` in each group. P is convex for convex losses and tilts that are not negative; a run is then certified if all
    coordinates are under an l2 term. With a negative tau P is bounded along rays of a linear model: without an l2 term the infimum
    may lie at infinity, and where a start matters take that of the mean, ``lw.minimize(oracle).x``. ``minimize`` takes
    :class:`LBFGS`; stochastic algorithms on this problem draw whole groups. :meth:`composition` is for those that draw samples.

    References
    ----------
    Li, Beirami, Sanjabi and Smith, Tilted empirical risk minimization, 2021; Jiang, Li, Gao, Wang, Yang and Zhang, Multi-level
    stochastic variance reduction, 2022, section 5.2.

    Examples
    --------
    >>> import numpy as np, leeward as lw
    >>> X, y = np.array([[0.0], [1.0], [2.0], [3.0]]), np.array([0.0, 1.0, 2.0, 9.0])
    >>> model = lw.LinearModel(X, y, loss="squared", l2=0.1)
    >>> problem = lw.HierarchicalTilt(model, [0, 0, 1, 1], t=10.0, tau=-2.0)
    >>> problem.evaluate([1.0, 0.0]).losses  # each about log(2)/2: half of a group has loss 0, and the other 0 or 18
    array([0.        , 0.34657359])
    >>> lw.minimize(problem).success
    True
    """

    def __init__(self, oracle: Oracle, groups: ArrayLike, t: float, tau: float) -> None:
        _check_oracle(oracle)
        if oracle.population > oracle.size:
            raise ValueError("groups need an oracle with a label for each sample, got one of samples without end")
        inner = _arrays.number(tau, "tau")
        if not np.isfinite(inner):
            raise ValueError(f"tau must be finite, got {tau}")
        risk = Tilted(t)
        base = _normalised(oracle.sample_weight)
        self._samples, self._labels = oracle, _Groups(groups, oracle.size, base)
        self.t, self.tau = risk.t, inner
        self._within = _Within(oracle, self._labels, inner)
        inside = self._labels.number >= 0
        p = np.full(oracle.size, 1.0 / oracle.size) if base is None else base
        self._mass: Vector = np.bincount(self._labels.number[inside], weights=p[inside]).astype(np.float64, copy=False)
        tilted = from_vjp(
            self._within.tilted,
            self._labels.count,
            oracle.dim,
            l2=oracle.l2,
            penalised=oracle.penalised,
            convex=oracle.convex and inner >= 0,
            smooth=oracle.smooth,
            sample_weight=self._mass,
        )
        super().__init__(tilted, risk)

    @property
    def samples(self) -> Oracle:
        """The oracle of the samples' losses."""
        return self._samples

    @property
    def owners(self) -> NDArray[np.int64]:
        """Group number 0..G-1 of each sample (labels in sorted order), -1 where the group has no weight."""
        return self._labels.number

    @property
    def linear(self) -> LinearModel | None:
        return self._samples if isinstance(self._samples, LinearModel) else None

    def sample_weights(self, w: ArrayLike) -> Vector:
        """The share (n,) of each sample in the gradient at w, ``Q_g q_i``; they sum to 1."""
        point = self.point(w)
        values, q, rows = self._within.at(point, None)
        groups = self.risk.solve(values, sample_weight=self.base).weights
        weights = np.zeros(self._samples.size)
        weights[rows] = groups[self._labels.number[rows]] * q
        return weights

    def composition(self, at: ArrayLike | None = None) -> Composition:
        """The same objective as a composition of three levels, for algorithms that draw samples.

        ``f_1(w) = (mean_g exp(tau (l_i - c_g)))_g``, ``f_2 = log(.)/tau``, ``f_3(y) = (1/t) log sum_g p_g exp(t (y_g + c_g))``, with
        ``c_g`` the ``R_g`` at a point, so that the numbers of the first level are near 1 there; f_3 has no samples and is taken in the
        logarithm. Estimates of f_1 are kept positive.

        Parameters
        ----------
        at : (d,) array, optional
            That point; 0 by default.

        Raises
        ------
        ValueError
            When the l2 term leaves out some coordinates, such as an intercept.

        Examples
        --------
        >>> import numpy as np, leeward as lw
        >>> X, y = np.array([[0.0], [1.0], [2.0], [3.0]]), np.array([0.0, 1.0, 2.0, 9.0])
        >>> problem = lw.HierarchicalTilt(lw.LinearModel(X, y, loss="squared"), [0, 0, 1, 1], t=10.0, tau=-2.0)
        >>> w = [0.5, 0.5]
        >>> bool(np.isclose(problem.composition().value(w), problem.value(w)))
        True
        """
        if self.l2 and self.penalised < self.dim:
            raise ValueError("a composition has its l2 term on all coordinates: take intercept=False or l2=0")
        point = np.zeros(self.dim) if at is None else self.point(at)
        shift = self._within.at(point, None)[0]
        count = self._labels.count
        draws, outer = _Draws(self._within, shift), _Outer(self._mass, shift, self.t)
        first = FunctionLevel(
            draws.value, draws.jacobian, vjp=draws.vjp, inputs=self.dim, outputs=count, size=self._samples.size
        )
        last = FunctionLevel(outer.value, outer.jacobian, inputs=count, outputs=1)
        if self.tau == 0:
            return Composition([first, last], l2=self.l2, convex=self.convex)
        middle = ElementwiseLevel("log", count, scale=1.0 / self.tau, floor=_FLOOR)
        return Composition([first, middle, last], l2=self.l2, convex=self.convex)

    def __repr__(self) -> str:
        return f"HierarchicalTilt({self._samples!r}, {self._labels.count} groups, t={self.t}, tau={self.tau})"


class _Within:
    """The tilted means of groups; picklable."""

    def __init__(self, oracle: Oracle, groups: _Groups, tau: float) -> None:
        self.oracle, self.tau, self.count = oracle, tau, groups.count
        kept = np.flatnonzero(groups.number >= 0)
        self.order = kept[np.argsort(groups.number[kept], kind="stable")]
        self.number, self.share = groups.number, groups._share
        self.ends = np.cumsum(np.bincount(groups.number[kept], minlength=groups.count))

    def tilted(self, w: Vector, index: Index) -> tuple[Vector, Callable[[Vector], Vector]]:
        """R_g of the groups in index, and the pullback of their gradients."""
        every = index.size == self.count and np.array_equal(index, np.arange(self.count))
        chosen, place = (None, index) if every else np.unique(index, return_inverse=True)
        point = w.copy()
        values, q, rows = self.at(point, chosen)

        def pullback(weights: Vector) -> Vector:
            groups = np.bincount(place, weights=weights, minlength=len(values))
            owner = self.number[rows] if chosen is None else np.searchsorted(chosen, self.number[rows])
            by = groups[owner] * q
            if chosen is not None:
                return self.oracle.gradient(point, by, rows)
            full = np.zeros(self.oracle.size)
            full[rows] = by
            return self.oracle.gradient(point, full)

        return values[place], pullback

    def at(self, w: Vector, chosen: Index | None) -> tuple[Vector, Vector, Index]:
        """R_g of some groups (all by default), and the weights in their groups of the sample numbers that come third."""
        if chosen is None:
            rows, ends = self.order, self.ends
            losses = self.oracle.losses(w)[rows]
        else:
            lengths = np.diff(self.ends, prepend=0)[chosen]
            ends = np.cumsum(lengths)
            rows = self.order[np.arange(ends[-1]) + np.repeat(self.ends[chosen] - ends, lengths)]
            losses = self.oracle.losses(w, rows)
        values, q = tilted_means(losses, self.share[rows], ends, self.tau)
        return values, q, rows


@np.errstate(under="ignore", over="ignore", invalid="ignore", divide="ignore")
def tilted_means(losses: Vector, share: Vector, ends: Index, tau: float) -> tuple[Vector, Vector]:
    """``(1/tau) log sum share exp(tau l)`` of each run of samples, which ends before an entry of ends, and its weights."""
    starts = np.concatenate([[0], ends[:-1]])
    lengths = ends - starts
    mean = np.add.reduceat(share * losses, starts)
    if tau == 0.0:
        return mean, share.copy()
    above = tau * (losses - np.repeat(mean, lengths))
    near = np.maximum.reduceat(np.abs(above), starts) <= _NEAR
    top = np.where(near, 0.0, np.maximum.reduceat(np.where(share > 0, tau * losses, -np.inf), starts))
    exponent = np.where(np.repeat(near, lengths), above, tau * losses - np.repeat(top, lengths))
    q = np.where(share > 0, share * np.exp(exponent), 0.0)
    total = np.add.reduceat(q, starts)
    small = np.add.reduceat(np.where(np.repeat(near, lengths), share * np.expm1(exponent), 0.0), starts)
    values = np.where(near, mean + np.log1p(small) / tau, (top + np.log(total)) / tau)
    return values, q / np.repeat(total, lengths)


class _Draws:
    """``f_1`` of a composition and its Jacobian on mini-batches."""

    def __init__(self, within: _Within, shift: Vector) -> None:
        self.within, self.shift = within, shift

    def value(self, w: Vector, index: Index) -> Vector:
        owner, z, _ = self._terms(w, index)
        return np.bincount(owner, weights=z, minlength=self.within.count) / index.size

    def jacobian(self, w: Vector, index: Index) -> Vector:
        owner, _, slope = self._terms(w, index)
        out = np.zeros((self.within.count, w.size))
        for g in np.unique(owner):
            at = owner == g
            out[g] = self.within.oracle.gradient(w, slope[at] / index.size, index[at])
        return out

    def vjp(self, w: Vector, weights: Vector, index: Index) -> Vector:
        owner, _, slope = self._terms(w, index)
        return self.within.oracle.gradient(w, slope * weights[owner] / index.size, index)

    def _terms(self, w: Vector, index: Index) -> tuple[Index, Vector, Vector]:
        """Groups of the drawn samples, their terms of f_1, and the derivatives by their losses; samples without weight have none."""
        within = self.within
        owner = np.maximum(within.number[index], 0)
        scale = within.oracle.size * within.share[index]
        losses = within.oracle.losses(w, index)
        if within.tau == 0.0:
            return owner, scale * (losses - self.shift[owner]), scale
        with np.errstate(over="ignore", under="ignore"):
            z = np.where(scale > 0, scale * np.exp(within.tau * (losses - self.shift[owner])), 0.0)
        return owner, z, within.tau * z


class _Outer:
    """``f_3``: the tilt of the groups, in the logarithm."""

    def __init__(self, mass: Vector, shift: Vector, t: float) -> None:
        self.mass, self.shift, self.t = mass, shift, t
        self.ends = np.array([len(mass)])

    def value(self, y: Vector) -> Vector:
        return tilted_means(y + self.shift, self.mass / self.mass.sum(), self.ends, self.t)[0]

    def jacobian(self, y: Vector) -> Vector:
        return tilted_means(y + self.shift, self.mass / self.mass.sum(), self.ends, self.t)[1][None, :]
