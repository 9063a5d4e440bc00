"""Generalised Sinkhorn DRO: robustness to points near the data (docs/maths/sinkhorn.md),

P(w) = E_i Psi_i(w) + (l2/2) |w_pen|^2,   Psi_i(w) = min_eta E_xi[lam eps f*((l(w; xi) - lam c(zeta_i, xi) - eta)/(lam eps))] + eta.
"""

from __future__ import annotations

import dataclasses
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from leeward import _arrays, _core
from leeward._once import once
from leeward.errors import InfiniteError
from leeward.losses import Absolute, Huber, Quantile, Squared
from leeward.oracles import LinearModel, PointOracle
from leeward.oracles._perturbed import PerturbedModel
from leeward.problems._drawn import DrawnPoints
from leeward.problems._exact import exact_for
from leeward.problems._inner import inner_risk
from leeward.problems._remarks import remarks
from leeward.problems._sinkhorn_estimators import SinkhornEstimators
from leeward.problems._sinkhorn_evaluation import SinkhornEvaluation
from leeward.problems._transport import checked_cost, checked_reference, positive
from leeward.risks import KL

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike, NDArray

    Vector = NDArray[np.float64]
    _Answers = tuple[Vector, Vector, Vector | None, Vector | None]

__all__ = ["Sinkhorn"]

_REAL_LABELS = (Squared, Huber, Absolute, Quantile)


class Sinkhorn(SinkhornEstimators):
    r"""The problem of generalised Sinkhorn DRO over a linear model, on points drawn around the samples.

    With ``zeta_i`` the samples, points ``xi`` from a reference kernel around them at a transport cost c, and a divergence f::

        P(w) = E_i Psi_i(w) + (l2/2)|w_pen|^2
        Psi_i(w) = min_eta  E_xi[ lam eps f*((l(w; xi) - lam c(zeta_i, xi) - eta)/(lam eps)) ] + eta

    so ``Psi_i`` is the risk with penalty ``lam eps`` of the shifted losses ``l - lam c``, and ``grad Psi_i = E r grad l`` with r
    its density. It is solved exactly on m drawn points.

    Parameters
    ----------
    oracle : LinearModel or PointOracle
        The model; its rows and labels are the samples, its ``sample_weight`` their weights.
    divergence : "kl", "chi2", "pearson" or a divergence of ``leeward.divergences``, default "kl"
        f. ``"chi2"`` is ``(t - 1)^2/2``; ``"pearson"`` is ``(t - 1)^2``, whose dual ``(s + 2)_+^2/4 - 1`` stands in the paper
        (it printed it beside the other one). Also ``SmoothedCVaR(alpha)``, ``CressieRead(k)`` and ``KLCVaR(alpha)``.
    lam : float, default 1.0
        Price of a unit of transport cost, in units of the loss.
    entropy : float, default 0.1
        eps, the weight of the divergence, in units of the cost.
    noise : float, (d,) or (d, d), optional
        Size of the reference: standard deviation of the Gaussian (0.2 by default), or one a feature, or its covariance;
        scale of the Laplace law, radius of the ball.
    cost : str or callable, default "sqeuclidean"
        ``|xi - zeta|^2`` ("sqeuclidean"), or its 2-norm ("euclidean"), 1-norm ("l1", "cityblock") or largest coordinate ("linf",
        "chebyshev"). Or ``cost(rows, points) -> array (k,)``, not negative, of samples and their points, both (k, d).
    cost_scale : float, default 1.0
        Factor of the cost.
    draws : int, default 8
        m, points a sample. With one point every weight is 1 and the problem is plain noise augmentation.
    reference : "gaussian", "laplace", "ball", array (k, d) or callable, default "gaussian"
        The law of ``xi - zeta``; rows of an array are displacements, drawn with equal chance. Or ``reference(rows, draws) -> points``
        (k, d), from their samples (k, d) and random numbers ``draws.normal(j)``, ``draws.uniform(j)`` (k, j) (:class:`leeward.Draws`).
    bounds : (lower, upper), optional
        Numbers or arrays (d,): points are clipped to this box.
    label_noise : float, default 0.0
        Standard deviation of Gaussian noise on the labels, for losses of real labels.
    label_cost : float, default 1.0
        Factor of ``(y' - y)^2`` in the cost, with label noise.
    common : bool, default False
        Whether all algorithms use one set of draws, which makes P a deterministic sample average. Otherwise stochastic algorithms
        draw points anew at each step, while values, gradients and full-batch algorithms use the common draws.
    exact : "auto", True or False, default "auto"
        Whether values, gradients and certificates are those of the kernel itself, without draws (docs/maths/gaussian_smoothing.md): one
        linear score, or softmax, under one Gaussian noise, "sqeuclidean" cost, KL, chi-square or smoothed CVaR, no bounds and no label
        noise. "auto": where that applies and the draws are not common, for softmax of up to four classes or on up to three features; for
        more the rule of nodes is coarser, and taken where asked for. Stochastic algorithms draw in any case.
    recentre : bool, optional
        Draw from the Gaussian tilted by ``exp(-c/eps)`` instead: of variance ``sigma^2 eps/(eps + 2 sigma^2)``, with the constant
        ``-(d/2) lam eps log(1 + 2 sigma^2/eps)``. The same Psi with far less noise; for KL with Gaussian reference,
        "sqeuclidean" cost and no bounds, where it is the default.
    seed : int, default 0
        Of the points. Point j of sample i is a value of (seed, i, j).

    Attributes
    ----------
    inner : Risk
        The inner risk, of penalty ``lam eps``.
    exact : bool
        Whether values are those of the kernel itself.
    draws, lam, entropy, common, recentre, seed
        As given.

    Raises
    ------
    OracleError
        When a function of yours returns something of another shape or kind, or no finite numbers. Its exceptions come unchanged.

    Warns
    -----
    UserWarning
        When ``draws`` is 1.

    Notes
    -----
    ``losses`` of the problem are the ``Psi_i``; one evaluation of a sample costs m losses. ``Psi`` on m points is at most ``Psi`` of the
    kernel, on average. ``LBFGS`` minimises the exact P, or that of the common draws; ``SVRG``, ``SCSG``, ``SARAH`` and ``STORM``
    that of the common draws.

    References
    ----------
    Wang, Gao and Xie, Sinkhorn distributionally robust optimization, 2021; Yang, Zhou and Lu, Nested stochastic algorithm for generalized
    Sinkhorn distance-regularized DRO, 2025, equations (3) and (4). The argument of f* has lam before c, as in (3).

    Examples
    --------
    >>> import numpy as np, leeward as lw
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 3)); y = np.sign(X @ [1.0, -2.0, 0.5] + rng.normal(size=200))
    >>> problem = lw.Sinkhorn(lw.LinearModel(X, y, l2=0.01), "chi2", noise=0.3, common=True)
    >>> result = lw.minimize(problem)
    >>> result.success, bool(result.gap <= 1e-6 * result.fun)
    (True, True)
    """

    def __init__(
        self,
        oracle: LinearModel | PointOracle,
        divergence: Any = "kl",
        *,
        lam: float = 1.0,
        entropy: float = 0.1,
        noise: ArrayLike | None = None,
        cost: str | Callable[..., Any] = "sqeuclidean",
        cost_scale: float = 1.0,
        draws: int = 8,
        reference: Any = "gaussian",
        bounds: Any = None,
        label_noise: float = 0.0,
        label_cost: float = 1.0,
        common: bool = False,
        exact: bool | str = "auto",
        recentre: bool | None = None,
        seed: int = 0,
    ) -> None:
        settings = {k: v for k, v in locals().items() if k not in ("self", "__class__", "oracle", "divergence")}
        if not isinstance(oracle, LinearModel | PointOracle):
            raise TypeError(f"oracle must be a LinearModel or a PointOracle, got {type(oracle).__name__}")
        self.model = oracle
        self.lam, self.entropy = positive(lam, "lam"), positive(entropy, "entropy")
        self.inner = inner_risk(divergence, self.lam * self.entropy)
        d = oracle.n_features
        self._cost = checked_cost(cost, cost_scale, label_cost)
        self._reference = checked_reference(reference, noise, bounds, label_noise, d)
        if self._cost.label_scale != 1.0 and not self._reference.label_noise:
            raise ValueError(
                f"label_cost is the price of moved labels: give label_noise > 0 with it, got {label_cost!r} alone"
            )
        self._loss = oracle.loss if isinstance(oracle, LinearModel) else oracle
        if self._reference.label_noise and not isinstance(self._loss, _REAL_LABELS):
            raise ValueError(f"label_noise needs a loss of real labels such as 'squared', got {self._loss!r}")
        self._given = (divergence, cost, noise)
        self.draws = _arrays.count(draws, "draws", 1)
        self.seed = _arrays.count(seed, "seed")
        if self.seed >= 2**64:
            raise ValueError(f"seed must be in [0, 2**64), got {seed}")
        if not isinstance(common, bool):
            raise TypeError(f"common must be True or False, got {common!r}")
        self.common = common
        self.recentre = self._recentred(recentre)
        if self.draws == 1:
            warnings.warn(
                "with one draw a sample every weight is 1, whatever the divergence: plain noise augmentation, not robustness; "
                "take draws=8 or more",
                UserWarning,
                stacklevel=2,
            )
        self._settings = settings  # for copies
        self._exact = exact_for(self, exact, self._reference, self._cost)
        self._perturbed = PerturbedModel(oracle, *self._made(self.seed, self.draws))
        self._perturbed.answers = self._exact
        if self.exact:
            self._perturbed.smooth = True  # the noise has smoothed the loss
        super().__init__(self._perturbed)

    def _recentred(self, asked: bool | None) -> bool:
        fits = (
            isinstance(self.inner, KL)
            and self._reference.gaussian
            and self._cost.kind == 0
            and self._reference.bounds is None
        )
        if asked is None:
            return fits
        if not isinstance(asked, bool):
            raise TypeError(f"recentre must be True, False or None, got {asked!r}")
        if asked and not fits:
            raise ValueError(
                "recentre=True needs the divergence KL, a Gaussian reference, the cost 'sqeuclidean' and no bounds"
            )
        return asked

    def _made(self, seed: int, draws: int, inner: Any = None) -> tuple[Any, Any]:
        """The core's oracle of the Psi_i, and that of the points; ``inner`` solves the inner problems, exactly by default."""
        reference, lam, constant = self._reference, self.lam, 0.0
        if self.recentre:
            reference, constant = reference.tilted(self._cost, lam, self.entropy, self.model.n_features)
            lam = 0.0  # the tilt has taken the cost in
        points: Any
        if isinstance(self.model, LinearModel) and reference.function is None and self._cost.function is None:
            points = core = _core.PerturbedLinear(
                self.model._core, reference.native(), self._cost.native(), draws, seed
            )
        else:
            points = DrawnPoints(self.model, reference, self._cost, draws, seed)
            core = points.core
        return _core.SinkhornOracle(core, self.inner._core if inner is None else inner, lam, constant), points

    @property
    def linear(self) -> LinearModel | None:
        """The model, None for a :class:`PointOracle`."""
        return self.model if isinstance(self.model, LinearModel) else None

    @property
    def spread(self) -> float:
        """Mean variance of a feature about its sample."""
        reference, d = self._reference, self.model.n_features
        if self.recentre:
            reference, _ = reference.tilted(self._cost, self.lam, self.entropy, d)
        return reference.variance(d)

    def points(self, index: ArrayLike | None = None) -> tuple[Vector, Vector]:
        """Points (k, d) and labels (k,) by number, all common draws by default: number ``i m + j`` is draw j of sample i."""
        made: tuple[Vector, Vector] = self._perturbed._points.points(_arrays.index_array(index))
        return made

    def costs(self, index: ArrayLike | None = None) -> Vector:
        """Transport costs (k,) of points by number, all common draws by default."""
        costs: Vector = self._perturbed._points.costs(_arrays.index_array(index))
        return costs

    def worst_case(self, w: ArrayLike, index: ArrayLike | None = None) -> Vector:
        """Worst-case weights (k, m) of the common draws of samples, all by default; each row sums to 1."""
        weights: Vector = self._perturbed._core.weights(self.point(w), _arrays.index_array(index))
        return weights

    def evaluate(self, w: ArrayLike, *, threads: int | None = None) -> SinkhornEvaluation:
        """The objective, its gradient, the ``Psi_i`` and how the draws' weights are spread, on the common draws."""
        at = self.point(w)
        return dataclasses.replace(self._evaluated(at, threads), quadrature_error=self.quadrature_error(at, threads))

    def quadrature_error(self, w: Vector, threads: int | None = None) -> float | None:
        """An estimate of the error of the exact objective of softmax at w (dim,), by a finer rule on a few samples; None for others."""
        return None if self._exact is None else self._exact.error(w, threads)

    def evaluate_if_finite(self, w: Vector, *, threads: int | None = None) -> SinkhornEvaluation | None:
        """:meth:`evaluate`, or None where w or a loss is NaN or infinite."""
        if not np.isfinite(w).all():
            return None
        try:
            made = self._answers(w, threads)
            return self._put_together(w, made, threads) if np.isfinite(made[0]).all() else None
        except InfiniteError:  # of the user's functions
            return None

    def _answers(self, w: Vector, threads: int | None) -> _Answers:
        """Psi, the mean gradient, and (of sampled inner problems) eta and effective draws."""
        if self._exact is not None:
            return *self._exact.evaluate(w, threads), None, None
        return self._perturbed.evaluate(w, self._base, threads)

    def _evaluated(self, w: Vector, threads: int | None) -> SinkhornEvaluation:
        return self._put_together(w, self._answers(w, threads), threads)

    def _put_together(self, w: Vector, made: _Answers, threads: int | None) -> SinkhornEvaluation:
        values, gradient, eta, effective = made
        solution = self._risk.solve(values, sample_weight=self._base, threads=threads)
        if self.l2:
            with np.errstate(over="ignore"):
                gradient[: self.penalised] += self.l2 * w[: self.penalised]
        value = float(solution.value) + self._l2_term(w)
        return SinkhornEvaluation(value, gradient, values, solution.weights, solution, eta, effective)

    def remarks(self, w: Vector, *, threads: int | None = None) -> list[str]:
        """What a user should know about the sampled problem at w, a sentence each."""
        made = self.evaluate(w, threads=threads)
        return remarks(self, w, made, self._reference, self._cost)

    @once
    def _words(self) -> str:
        divergence, cost, noise = self._given
        size = noise if noise is None or np.ndim(noise) == 0 else f"<{np.shape(noise)}>"
        return (
            f"{divergence!r}, lam={self.lam!r}, entropy={self.entropy!r}, cost={cost!r}, cost_scale={self._cost.scale!r}, "
            f"reference={self._reference.name!r}, noise={size}, "
            f"draws={self.draws}, common={self.common}, recentre={self.recentre}, seed={self.seed}"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.model, self._given[0], self._settings)

    def __repr__(self) -> str:
        return f"Sinkhorn({self.model!r}, {self._words})"


def _rebuild(
    cls: type[Sinkhorn], model: LinearModel | PointOracle, divergence: Any, settings: dict[str, Any]
) -> Sinkhorn:
    return cls(model, divergence, **settings)
