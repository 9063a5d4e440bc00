r"""The Sinkhorn objective of softmax under Gaussian noise, without sampling (docs/maths/gaussian_smoothing.md).

Softmax does not see a shift of all scores, so with B (C, C - 1) an orthonormal basis of the others and S the root of ``B^T W W^T B``
scores and cost are

    z = W a + b + noise B S u,    cost = noise^2 (|u|^2 + v),    u ~ N(0, I_{C-1}),    v ~ chi2(d - C + 1),

and with d < C features ``z = W a + b + noise W u``, u ~ N(0, I_d), with no v. The mean over u is a rule of nodes; v is in closed form. The
core answers for all samples (csrc/include/leeward/risk/softmax_smoothing.hpp).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from leeward import _arrays, _core, divergences
from leeward._sums import dot
from leeward.losses import Softmax
from leeward.problems._gaussian import GaussianSmoothing, core_name, positive_settings
from leeward.problems._gaussian_rules import MOST_NODES, lattice, product, reach_of, spacing, spherical

if TYPE_CHECKING:
    from typing import Any

    from numpy.typing import ArrayLike, NDArray

    from leeward.oracles import LinearModel

    Array = NDArray[np.float64]

__all__ = ["SoftmaxSmoothing"]

_LATTICE = 3  # dimensions up to which the rule is a lattice
_WIDEST = {True: (0.5, 0.7, 0.9), False: (0.25, 0.5, 0.85)}  # spacing for KL and others, by dimension
_FARTHEST = 30.0  # a node's distance from 0: from 38 on the Gaussian's density has left the range
_NEVER = -1e12  # an intercept at which a class has no chance
_STEEPEST = 1e8  # differences of scores by the noise, over lam * entropy: beyond, they lose the digits of Psi, which counts as inf
_JUDGED = 32  # samples on which the rule is compared with a finer one
_LANES = 16


@dataclass(frozen=True)
class _Nodes:
    """A rule at some w: points u (K, q), weights (K,), and for KL with a far tilt the shifts of each label and class."""

    u: Array
    weight: Array
    shift: Array
    head: Array


class _Factor:
    """``z = W a + b + noise L u``: L (C, q), with the way from derivatives in L to those in W."""

    def __init__(self, W: Array) -> None:
        self.W, (C, d) = W, W.shape
        self.direct = d < C
        if self.direct:
            self.L = W
            return
        self.basis = _contrasts(C)
        reduced = self.basis.T @ W
        size = float(np.max(np.abs(reduced))) or 1.0  # so that squares stay in range
        reduced = reduced / size
        values, self.vectors = np.linalg.eigh(reduced @ reduced.T)
        self.roots = size * np.sqrt(np.maximum(values, 0.0))
        self.L = self.basis @ ((self.vectors * self.roots) @ self.vectors.T)

    def pulled(self, slope: Array) -> Array:
        """dPsi/dW (C, d) from dPsi/dL: for the root by ``dS S + S dS = dA``, solved in the eigenbasis of S."""
        if self.direct:
            return slope
        turned = self.vectors.T @ (self.basis.T @ slope) @ self.vectors
        sums = self.roots[:, None] + self.roots
        inner = (
            self.vectors
            @ np.divide(turned + turned.T, 2.0 * sums, out=np.zeros_like(sums), where=sums > 0)
            @ self.vectors.T
        )
        return np.asarray(2.0 * self.basis @ (inner @ (self.basis.T @ self.W)))


class SoftmaxSmoothing:
    r"""``sum_i p_i Psi_i`` of a softmax model, its gradient, a lower bound of the regularised minimum, and the error of the rule.

    Parameters
    ----------
    model : LinearModel
        With the softmax loss of three classes or more.
    divergence : Divergence
        ``KL()``, ``ChiSquare()`` or ``SmoothedCVaR(alpha)``.
    lam, entropy, noise : float
        As for :class:`GaussianSmoothing`.

    Attributes
    ----------
    constant : float
        Psi of the loss 0.
    fine : bool
        Whether the rule is a lattice: up to three dimensions.

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
        self.T, self.beta = self.lam * self.entropy, (self.noise / math.sqrt(self.entropy)) ** 2
        self._kl = kind == "kl"
        self._classes, d = model.n_outputs, model.n_features
        self._q = min(d, self._classes - 1)
        threads = model._thread_count(None)
        self._core = _core.SoftmaxSmoothing(kind, alpha, self.T, self.beta, d - self._q, threads)
        self._scale = self.noise / math.sqrt(1.0 + 2.0 * self.beta) if self._kl else self.noise  # of L u in the scores
        if self._kl:
            self.constant = -0.5 * d * self.T * math.log1p(2.0 * self.beta)
        else:  # that of any loss
            self.constant = self.T * _core.gaussian_constant(kind, alpha, self.beta, d, threads)
        self.fine = self._q <= _LATTICE
        p = model.sample_weight
        self._p = np.full(model.size, 1.0 / model.size) if p is None else p / p.sum()
        self._y = model.targets().astype(np.float64)
        if not self.fine:
            q = self._q
            self._rules = (product(q, 6), product(q, 7)) if q == 4 else (spherical(q), spherical(q, 4, 6))

    @staticmethod
    def supported(model: Any, divergence: Any) -> bool:
        """Whether the class covers this model and divergence."""
        if not isinstance(getattr(model, "loss", None), Softmax) or not 3 <= model.n_outputs <= 25:
            return False
        return GaussianSmoothing.divergent(divergence)

    def evaluate(self, w: ArrayLike, *, threads: int | None = None) -> tuple[float, Array, Array]:
        """``sum_i p_i Psi_i``, its gradient (dim,) and ``Psi_i`` (n,) at w, without the l2 term."""
        made = self._made(_arrays.point(w, self.model.dim), self._p, threads)
        return (
            dot(self._p, made.value) + self.constant,
            self._gradient(made, self._p, threads),
            made.value + self.constant,
        )

    def weighted(
        self, w: ArrayLike, weights: ArrayLike, index: ArrayLike | None = None, *, threads: int | None = None
    ) -> Array:
        """``sum_k weights_k grad Psi_index[k](w)``, (dim,), over all samples in order without an index."""
        rows = _arrays.index_array(index)
        total = _arrays.numbers(weights, "weights", self.model.size if rows is None else rows.shape[0])
        if rows is not None:
            given, total = total, np.zeros(self.model.size)
            np.add.at(total, rows, given)
        made = self._made(_arrays.point(w, self.model.dim), total, threads)
        return self._gradient(made, total, threads)

    def bound(self, w: ArrayLike, *, threads: int | None = None) -> float:
        """A lower bound of ``min_w sum_i p_i Psi_i(w) + (l2/2) |coef|^2`` by weak duality, to the error of the rule.

        From the worst case and its slopes at w, or at intercepts next to it whose slopes balance better; with an intercept mixed with
        the dual point of slopes ``pi - e_y``, pi the same everywhere, so that the mean slope is 0. Without an l2 term the bound is
        ``constant``.
        """
        model, (C, d) = self.model, (self._classes, self.model.n_features)
        w = _arrays.point(w, model.dim)
        if not model.l2 > 0:
            return self.constant
        mass = np.bincount(self._y.astype(np.int64), weights=self._p, minlength=C)
        if model.intercept and not mass.all():  # softmax is never below that without the classes that no sample has
            w = w.copy()
            w[-C:][mass == 0.0] = _NEVER
        w, made = self._balanced(w, threads) if model.intercept else (w, self._made(w, self._p, threads))
        slope = self._p[:, None] * made.slope
        scores = model.scores(w, threads=threads)
        value = (
            dot(self._p, made.value)
            - float(np.sum(slope * scores))
            - float(np.sum(made.spread * w[: C * d].reshape(C, d)))
        )
        share = 1.0
        if model.intercept:
            mean = np.sum(slope, axis=0)
            over = mean > 0  # of classes that samples have
            other = float(np.max(mean[over] / mass[over])) if over.any() else 0.0
            other /= 1.0 + other
            share = 1.0 - other
            if other > 0:
                pi = np.maximum(mass - mean * (share / other), 0.0)
                pi /= pi.sum()
                flat = np.tile(pi, (model.size, 1))
                flat[np.arange(model.size), self._y.astype(np.int64)] -= 1.0
                slope = share * slope + other * (self._p[:, None] * flat)
                kept = pi[pi > 0]
                value = share * value - other * float(np.sum(kept * np.log(kept)))
        v = model.adjoint(slope, threads=threads)[: model.penalised] + share * made.spread.ravel()
        bound = value - dot(v, v) / (2.0 * model.l2)
        return max(bound + self.constant, self.constant) if math.isfinite(bound) else self.constant

    def error(self, w: ArrayLike, *, threads: int | None = None) -> float:
        """An estimate of the rule's error of ``sum_i p_i Psi_i`` at w: the weighted mean of ``|Psi_i - Psi_i'|``, Psi' by a finer rule,
        on up to 32 samples spread over the data."""
        w = _arrays.point(w, self.model.dim)
        some = np.unique(np.linspace(0, self.model.size - 1, min(_JUDGED, self.model.size)).astype(np.int64))
        scores, y = self.model.scores(w, threads=threads)[some], self._y[some]
        weight = self._p[some] if self._p[some].sum() > 0 else np.ones(len(some))
        factor = self._factor(w)
        if not self._tilt(factor) <= _STEEPEST:
            return math.inf
        first, second = (
            self._solve(factor, self._nodes(factor, finer), scores, y, weight, threads).value for finer in (False, True)
        )
        return float(np.sum(weight * np.abs(first - second)) / np.sum(weight))

    def _balanced(self, w: Array, threads: int | None) -> tuple[Array, _Solved]:
        """Intercepts with a smaller mean slope than those of w, by up to three steps, and the answers there."""
        C, rows = self._classes, np.arange(self.model.size)
        made = self._made(w, self._p, threads)
        length = 1.0
        for _ in range(3):
            mean = np.sum(self._p[:, None] * made.slope, axis=0)
            if not np.max(np.abs(mean)) > 1e-14:
                break
            pi = made.slope.copy()
            pi[rows, self._y.astype(np.int64)] += 1.0
            pull = (self._p[:, None] * pi).T @ pi
            step = np.linalg.lstsq(np.diag(np.sum(self._p[:, None] * pi, axis=0)) - pull, mean, rcond=1e-10)[0]
            trial = w.copy()
            trial[-C:] -= length * step
            other = self._made(trial, self._p, threads)
            after = np.sum(self._p[:, None] * other.slope, axis=0)
            gone = float(mean @ (mean - after)) / float(mean @ mean)  # 1 where the step had the right length
            length = min(max(length / gone, 0.05), 1.0) if gone > 0 else 0.25 * length
            if np.max(np.abs(after)) < np.max(np.abs(mean)):
                w, made = trial, other
        return w, made

    # -- parts --------------------------------------------------------------------------------------------------------
    def _factor(self, w: Array) -> _Factor:
        C, d = self._classes, self.model.n_features
        return _Factor(w[: C * d].reshape(C, d))

    def _tilt(self, factor: _Factor) -> float:
        """How fast the differences of scores move in u, over T: under KL, by how much the loss moves the Gaussian."""
        with np.errstate(over="ignore", invalid="ignore"):
            between = factor.L[:, None, :] - factor.L[None, :, :]
            return float(self._scale * np.sqrt(np.max(np.sum(between * between, axis=2))) / self.T)

    def _nodes(self, factor: _Factor, finer: bool = False) -> _Nodes:
        """The rule at w: its spacing by how fast the scores move, its reach by how far the loss tilts the Gaussian (KL)."""
        L, q, none = self._scale * factor.L, self._q, np.empty(0)
        between = L[:, None, :] - L[None, :, :]
        tilt = self._tilt(factor)
        steepest = tilt * self.T
        if not self.fine:
            u, weight = self._rules[int(finer)]
            return _Nodes(u, weight, *(self._shifts(between) if self._kl and tilt > 1.0 else (none, none)))
        widest, reach = _WIDEST[self._kl][q - 1], reach_of(q)
        if self._kl:
            h = spacing(q, widest, 1.0 / max(steepest, 1e-3))
            far = reach + tilt
            shifted = far > _FARTHEST or not (far / reach) ** q * _count(q, h) <= 2 * MOST_NODES
            if shifted:
                h = spacing(q, widest, min(1.0, 1.0 / tilt))
        else:
            width = max(1.0, self.beta * math.sqrt(2.0 * (self.model.n_features - q)))
            h, far, shifted = spacing(q, widest, 2.0 * width / max(tilt, 1e-3)), reach, False
        if finer:
            h /= math.sqrt(2.0)
        u = lattice(q, h, reach if shifted else far)
        exponent = -0.5 * np.sum(u * u, axis=1)
        if self._kl and not shifted:  # nodes that no loss lifts above the rest are left out
            z = u @ L.T
            kept = (np.max(z, axis=1) - np.min(z, axis=1)) / self.T + exponent > -0.5 * reach * reach
            u, exponent = u[kept], exponent[kept]
        weight = np.exp(exponent)
        return _Nodes(u, weight / weight.sum(), *(self._shifts(between) if shifted else (none, none)))

    def _shifts(self, between: Array) -> tuple[Array, Array]:
        """``shift[y][c] = G (e_c - e_y)/T`` and ``head[y][c] = |L^T (e_c - e_y)|^2/(2 T^2)``, G = L L^T, both from ``L_c - L_y``."""
        steps = np.swapaxes(between, 0, 1)  # [y][c] = L_c - L_y
        shift = np.einsum("ycq,ybq->ycb", steps, steps) / self.T  # of scores relative to the label's
        return np.ascontiguousarray(shift), np.sum(steps * steps, axis=2) / (2.0 * self.T**2)

    def _solve(self, factor: _Factor, nodes: _Nodes, scores: Array, y: Array, p: Array, threads: int | None) -> _Solved:
        C, n, K = self._classes, len(y), len(nodes.weight)
        padded = -(-K // _LANES) * _LANES
        move, weight, cost = np.zeros((C, padded)), np.zeros(padded), np.zeros(padded)
        move[:, :K] = self._scale * (factor.L @ nodes.u.T)
        weight[:K] = nodes.weight
        cost[:K] = self.beta * np.sum(nodes.u * nodes.u, axis=1)
        value, slope, turn = np.empty(n), np.empty((n, C)), np.empty((C, padded))
        mass, pull = np.empty(nodes.head.shape), np.empty(nodes.shift.shape)
        count = self.model._thread_count(threads)
        rule = (move, weight, cost, nodes.shift, nodes.head)
        self._core.evaluate(*rule, scores, y, p, value, slope, turn, mass, pull, count)
        slope_L = self._scale * (turn[:, :K] @ nodes.u)
        if nodes.shift.size:  # N = dPsi/dG: shifts and heads are linear in G
            N = np.zeros((C, C))
            for label in range(C):
                steps = np.eye(C) - np.eye(C)[label]
                N += (pull[label].T + 0.5 * (steps.T * mass[label])) @ steps / self.T
            slope_L += self._scale**2 * (N + N.T) @ factor.L
        return _Solved(value, slope, factor.pulled(slope_L))

    def _made(self, w: Array, p: Array, threads: int | None) -> _Solved:
        factor = self._factor(w)
        if not self._tilt(factor) <= _STEEPEST:
            n, (C, d) = self.model.size, factor.W.shape
            return _Solved(np.full(n, math.inf), np.full((n, C), math.nan), np.full((C, d), math.nan))
        return self._solve(factor, self._nodes(factor), self.model.scores(w, threads=threads), self._y, p, threads)

    def _gradient(self, made: _Solved, p: Array, threads: int | None) -> Array:
        if not (np.isfinite(made.slope).all() and np.isfinite(made.spread).all()):
            return np.full(self.model.dim, np.nan)
        gradient = self.model.adjoint(p[:, None] * made.slope, threads=threads)
        gradient[: self.model.penalised] += made.spread.ravel()
        return gradient

    def __repr__(self) -> str:
        return f"SoftmaxSmoothing({self.model!r}, {self.divergence!r}, {self.lam!r}, {self.entropy!r}, {self.noise!r})"


@dataclass(frozen=True)
class _Solved:
    """Psi less its constant (n,), its slopes in the scores (n, C), and the part of the gradient (C, d) that moves the nodes."""

    value: Array
    slope: Array
    spread: Array


def _contrasts(C: int) -> Array:
    """An orthonormal basis (C, C - 1) of the vectors with sum 0 (Helmert's)."""
    basis = np.zeros((C, C - 1))
    for j in range(1, C):
        basis[:j, j - 1], basis[j, j - 1] = 1.0, -float(j)
        basis[:, j - 1] /= math.sqrt(j * (j + 1.0))
    return basis


def _count(q: int, h: float) -> float:
    return float(math.pi ** (q / 2) / math.gamma(q / 2 + 1) * (reach_of(q) / h) ** q)
