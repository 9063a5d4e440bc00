r"""The Sinkhorn objective of linear scores under Gaussian noise, without sampling (docs/maths/gaussian_smoothing.md).

With ``xi = a + noise z``, z ~ N(0, I_d), and the cost ``|xi - a|^2``, a score ``w.xi + b`` and its cost depend on z only through
``s ~ N(0, 1)`` and an independent ``v ~ chi2(d - 1)``:

    Psi(u, tau) = min_eta  T E f*((l(u + tau s) - eta)/T - beta (s^2 + v)) + eta,
    u = w.a + b,    tau = noise |w|,    T = lam entropy,    beta = noise^2/entropy.

The core computes Psi and its two derivatives for all samples (csrc/include/leeward/risk/gaussian_profile.hpp); rows of X are read
twice, for the scores and for the gradient.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from leeward import _arrays, _core, divergences
from leeward._sums import dot, norm
from leeward.losses import Absolute, Hinge, Huber, Logistic, Quantile, Squared, SquaredHinge
from leeward.oracles import LinearModel

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Vector = NDArray[np.float64]

__all__ = ["GaussianSmoothing", "core_name", "positive_settings"]

_LOSSES = (Absolute, Hinge, Huber, Logistic, Quantile, Squared, SquaredHinge)
_PRECISION = (
    1e-11  # of values, beside their size and the steepest slope's share (the table's own bound is a tenth of it)
)


class GaussianSmoothing:
    r"""``sum_i p_i Psi(u_i, tau; y_i)`` of a linear model, its gradient, and a lower bound of the regularised minimum.

    Parameters
    ----------
    model : LinearModel
        Losses of one score: squared, Huber, absolute, quantile, logistic, hinge or squared hinge, smoothed or not.
        The noise is on the columns of X; an intercept has none.
    divergence : Divergence
        ``KL()``, ``ChiSquare()`` or ``SmoothedCVaR(alpha)`` of ``leeward.divergences``. For ``f = (t - 1)^2``, twice
        ``ChiSquare()``, double the entropy.
    lam, entropy, noise : float
        Weight of the cost, weight of the divergence in units of the cost, and standard deviation of the noise. A cost
        ``c |xi - a|^2`` is ``lam c`` and ``entropy/c``.

    Attributes
    ----------
    constant : float
        Psi of the loss 0; losses are not negative, so Psi is never below it.
    radius : float
        Under KL with a loss that grows like ``z^2/2``, Psi is +inf from ``|coef|^2 = 2 lam (1 + entropy/(2 noise^2))`` on; the
        radius is that |coef|, else infinity.

    Raises
    ------
    ValueError
        If model and divergence are not supported, or a parameter is not positive and finite.
    """

    def __init__(
        self, model: LinearModel, divergence: divergences.Divergence, lam: float, entropy: float, noise: float
    ) -> None:
        if not self.supported(model, divergence):
            raise ValueError(f"no exact Gaussian objective for {model!r} with {divergence!r}")
        self.model, self.divergence = model, divergence
        self.lam, self.entropy, self.noise = positive_settings(lam, entropy, noise)
        kind, alpha = core_name(divergence)
        self._kl = kind == "kl"
        self._core = _core.GaussianSmoothing(
            model._core, kind, alpha, self.lam, self.entropy, self.noise, model._thread_count(None)
        )
        self.constant: float = self._core.constant
        quadratic = isinstance(model.loss, Squared | SquaredHinge)
        room = 2.0 * self.lam * (1.0 + 0.5 * self.entropy / self.noise**2)
        self.radius = math.sqrt(room) if quadratic and self._kl else math.inf
        p = model.sample_weight
        self._p = np.full(model.size, 1.0 / model.size) if p is None else p / p.sum()

    @staticmethod
    def supported(model: Any, divergence: Any) -> bool:
        """Whether the class covers this model and divergence."""
        if not (isinstance(model, LinearModel) and isinstance(model.loss, _LOSSES) and model.n_outputs == 1):
            return False
        return GaussianSmoothing.divergent(divergence)

    @staticmethod
    def divergent(divergence: Any) -> bool:
        """Whether the divergence is one of those covered."""
        if isinstance(divergence, divergences.SmoothedCVaR):
            return divergence.alpha < 1
        return isinstance(divergence, divergences.KL | divergences.ChiSquare)

    def evaluate(self, w: ArrayLike, *, threads: int | None = None) -> tuple[float, Vector, Vector]:
        """The objective at w, without the l2 term.

        Returns
        -------
        value : float
            ``sum_i p_i Psi_i``; +inf, with a gradient of NaN, from ``radius`` on.
        gradient : ndarray (dim,)
            ``sum_i p_i (dPsi_i/du (a_i, 1) + dPsi_i/dtau noise (coef/|coef|, 0))``.
        values : ndarray (n,)
            ``Psi_i``.
        """
        w = _arrays.point(w, self.model.dim)
        tau, direction = self._spread(w)
        value, slope, spread = self._solve(self.model.scores(w, threads=threads), tau, threads)
        slope *= self._p
        gradient = self._gradient(slope, dot(self._p, spread), direction, threads)
        mean = dot(self._p, value) + self.constant
        value += self.constant
        return mean, gradient, value

    def weighted(
        self, w: ArrayLike, weights: ArrayLike, index: ArrayLike | None = None, *, threads: int | None = None
    ) -> Vector:
        """``sum_k weights_k grad Psi_index[k](w)``, (dim,), over all samples in order without an index."""
        w = _arrays.point(w, self.model.dim)
        rows = _arrays.index_array(index)
        given = _arrays.numbers(weights, "weights", self.model.size if rows is None else rows.shape[0])
        total = given
        if rows is not None:
            total = np.zeros(self.model.size)
            np.add.at(total, rows, given)
        tau, direction = self._spread(w)
        _, slope, spread = self._solve(self.model.scores(w, threads=threads), tau, threads)
        return self._gradient(total * slope, dot(total, spread), direction, threads)

    def bound(self, w: ArrayLike, *, threads: int | None = None) -> float:
        """A lower bound of ``min_w sum_i p_i Psi_i(w) + (l2/2) |coef|^2`` by weak duality, from the worst case at w.

        With the slopes and worst-case densities r at two intercepts whose means of the slope have opposite signs, mixed so that
        the mean is 0, ``v = sum_i p_i E[r l' xi_i]``::

            min  >=  sum_i p_i E[r l - r l' (w.xi_i + b)] - penalties - |v|^2/(2 l2).

        A margin of 1e-11 of the terms (and 1e-12 ``lam entropy`` where eta has no closed form) is taken off for quadrature.
        Without an l2 term, or without two such intercepts, the bound is ``constant``.
        """
        model = self.model
        w = _arrays.point(w, model.dim)
        tau, direction = self._spread(w)
        if not (model.l2 > 0 and tau < self.noise * self.radius):
            return self.constant
        scores = model.scores(w, threads=threads)
        points = [self._dual(scores, 0.0, tau, threads)]
        if model.intercept:
            points = self._bracket(points[0], scores, tau, threads)
            if len(points) == 1 and points[0].balance != 0.0:
                return self.constant
        share = 1.0 if len(points) == 1 else points[1].balance / (points[1].balance - points[0].balance)
        parts = list(zip((share, 1.0 - share), points, strict=False))
        slope = np.sum([k * d.slope for k, d in parts], axis=0)
        v = self._gradient(slope, sum(k * d.spread for k, d in parts), direction, threads)[: model.penalised]
        value = sum(k * d.value for k, d in parts) - dot(v, v) / (2.0 * model.l2)
        margin = max(d.margin for d in points) + (0.0 if self._kl else 1e-12 * self.lam * self.entropy)
        return max(value - margin + self.constant, self.constant) if math.isfinite(value) else self.constant

    def error(self, w: ArrayLike, *, threads: int | None = None) -> None:
        """None: the bound allows for quadrature."""
        return

    def _spread(self, w: Vector) -> tuple[float, Vector]:
        """Tau and ``noise coef/|coef|``, 0 for no coefficients."""
        coef = w[: self.model.penalised]
        largest = float(np.max(np.abs(coef), initial=0.0))
        if not largest > 0:
            return 0.0, np.zeros_like(coef)
        scaled = coef / largest  # so that no square over- or underflows
        size = norm(scaled)
        return self.noise * largest * size, scaled * (self.noise / size)

    def _solve(self, scores: Vector, tau: float, threads: int | None) -> tuple[Vector, Vector, Vector]:
        n = self.model.size
        value, slope, spread = np.empty(n), np.empty(n), np.empty(n)
        self._core.evaluate(self.model._core, scores, tau, value, slope, spread, self.model._thread_count(threads))
        return value, slope, spread

    def _gradient(self, slope: Vector, spread: float, direction: Vector, threads: int | None) -> Vector:
        """``sum_i slope_i (a_i, 1) + spread (direction, 0)``, for slopes with their weights."""
        if not (np.isfinite(slope).all() and math.isfinite(spread)):
            return np.full(self.model.dim, np.nan)
        gradient = self.model.adjoint(slope, threads=threads)
        gradient[: self.model.penalised] += spread * direction
        return gradient

    def _dual(self, scores: Vector, shift: float, tau: float, threads: int | None) -> _DualPoint:
        return _DualPoint(self._p, scores + shift, tau, self._solve(scores + shift, tau, threads))

    def _bracket(self, first: _DualPoint, scores: Vector, tau: float, threads: int | None) -> list[_DualPoint]:
        """Dual points at two near intercepts between which the mean slope changes sign, or one where it is 0."""
        if first.balance == 0.0:
            return [first]
        sign = -1.0 if first.balance > 0 else 1.0
        step, near, at = 4.0 * abs(first.balance) + 1e-13, first, 0.0
        for _ in range(40):
            far_at = at + sign * step
            far = self._dual(scores, far_at, tau, threads)
            if far.balance == 0.0:
                return [far]
            if (far.balance > 0) != (first.balance > 0):
                break
            near, at, step = far, far_at, 4.0 * step
        else:
            return [first]
        for _ in range(3):  # one end moves to the chord's root; the other is kept
            middle_at = at + (far_at - at) * (near.balance / (near.balance - far.balance))
            if not min(at, far_at) < middle_at < max(at, far_at):
                break
            middle = self._dual(scores, middle_at, tau, threads)
            if middle.balance == 0.0:
                return [middle]
            if (middle.balance > 0) == (near.balance > 0):
                near, at = middle, middle_at
            else:
                far, far_at = middle, middle_at
            if abs(middle.balance) < 1e-3 * abs(first.balance):
                break
        return [near, far]

    def __repr__(self) -> str:
        return f"GaussianSmoothing({self.model!r}, {self.divergence!r}, {self.lam!r}, {self.entropy!r}, {self.noise!r})"


class _DualPoint:
    """Worst case and slopes at some scores: their weighted slopes, and the terms of the bound without the constant."""

    def __init__(self, p: Vector, scores: Vector, tau: float, solved: tuple[Vector, Vector, Vector]) -> None:
        value, slope, spread = solved
        self.spread = dot(p, spread)
        self.slope = p * slope
        self.balance = float(np.sum(self.slope))
        self.value = dot(p, value) - dot(self.slope, scores) - tau * self.spread
        size = dot(p, np.abs(value)) + dot(np.abs(self.slope), np.abs(scores)) + tau * abs(self.spread)
        self.margin = _PRECISION * (size + float(np.max(np.abs(slope))) * min(tau, 1.0))


def core_name(divergence: divergences.Divergence) -> tuple[str, float]:
    """The core's name of a divergence, and its alpha, 0 where it has none."""
    if isinstance(divergence, divergences.SmoothedCVaR):
        return "smoothed_cvar", divergence.alpha
    return "kl" if isinstance(divergence, divergences.KL) else "chi_square", 0.0


def positive_settings(lam: float, entropy: float, noise: float) -> tuple[float, float, float]:
    """The three as positive and finite numbers."""
    found = []
    for value, name in ((lam, "lam"), (entropy, "entropy"), (noise, "noise")):
        number = _arrays.number(value, name)
        if not (number > 0 and math.isfinite(number)):
            raise ValueError(f"{name} must be positive and finite, got {value}")
        found.append(number)
    return found[0], found[1], found[2]
