"""What the Sinkhorn estimators share: the problem in the model's units, its fit, its worst case on any data."""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

import leeward as lw
from leeward.sklearn._distinct import distinct
from leeward.sklearn._inputs import level, seed_of, switch, threads_of, weights_of
from leeward.sklearn._linear import Array, LinearFit
from leeward.sklearn._names import solver_of
from leeward.sklearn._tilted import gaussian_points, has_pieces
from leeward.sklearn._units import Units, units_of
from leeward.sklearn._worst_case import WorstCaseSamples, resampled

__all__ = ["SinkhornLinear"]

_DRAWING = (lw.NestedSGD, lw.SGD, lw.Nesterov)  # solvers that draw points anew at each step
_SMOOTH_TOL, _KINKED_TOL = 1e-6, 1e-4  # relative certified gaps owed by default
_POLISH, _SMALL = (
    1e-7,
    1 << 18,
)  # with at most so many coordinates to read the default aims at this fraction of the gap owed
_NODES = 4096  # about what the exact objective of softmax takes for a row
_NOISE, _LAM = 0.2, 1.0
_FEW, _MANY, _NUMBERS = 16, 256, 1 << 22  # draws a row by default: as many as make so many coordinates, within limits


class SinkhornLinear(LinearFit):
    """Base of the Sinkhorn estimators; subclasses say which losses they take and what the targets are."""

    _in_place = False

    def __init__(
        self,
        divergence: Any = "kl",
        loss: Any = "squared",
        *,
        lam: float | None = None,
        radius: float | None = None,
        entropy: float = 0.1,
        noise: Any = None,
        cost: str = "sqeuclidean",
        reference: Any = "gaussian",
        bounds: Any = None,
        draws: int | None = None,
        exact: Any = "auto",
        scale: Any = "standard",
        l2: float = 1e-4,
        fit_intercept: bool = True,
        solver: Any = "auto",
        tol: float | None = None,
        max_passes: float | None = None,
        warm_start: bool = False,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: bool = False,
    ) -> None:
        self.divergence = divergence
        self.loss = loss
        self.lam = lam
        self.radius = radius
        self.entropy = entropy
        self.noise = noise
        self.cost = cost
        self.reference = reference
        self.bounds = bounds
        self.draws = draws
        self.exact = exact
        self.scale = scale
        self.l2 = l2
        self.fit_intercept = fit_intercept
        self.solver = solver
        self.tol = tol
        self.max_passes = max_passes
        self.warm_start = warm_start
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    # -- the problem ------------------------------------------------------------------------------------------------
    def _label_settings(self) -> dict[str, float]:
        """Noise on targets and its price, where there is any."""
        return {}

    def _in_units(self, target: Any, units: Units) -> Any:
        """Codes of classes as they are; real targets in the model's units."""
        return target

    def _real(self, target: Any) -> Array | None:
        """The targets where they are real numbers."""
        return None

    def _some_targets(self) -> Any:
        """Targets of a smallest problem of this loss."""
        raise NotImplementedError

    def _numbers(self, target: Any) -> Array:
        """What a loss of one score takes: -1 and 1, or targets in the model's units."""
        raise NotImplementedError

    def _labels(self, target: Any) -> NDArray[Any]:
        """Labels or values for targets, in the model's units where they are real."""
        raise NotImplementedError

    def _posed(
        self, model: lw.LinearModel, units: Units, *, seed: int, draws: int, exact: Any, common: bool, lam: Any = None
    ) -> Any:
        """The Sinkhorn problem of a model in the model's units; `lam` replaces the settings `lam` and `radius`."""
        bounds = self.bounds
        if bounds is not None and isinstance(bounds, tuple | list) and len(bounds) == 2:
            bounds = tuple((_side(side) - units.centre) / units.scale for side in bounds)
        settings = {
            "entropy": self.entropy,
            "noise": self.noise,
            "cost": self.cost,
            "draws": draws,
            "reference": self.reference,
            "bounds": bounds,
            "seed": seed,
            **self._label_settings(),
        }
        if self.radius is None or lam is not None:
            lam = lam if lam is not None else _LAM if self.lam is None else self.lam
            return lw.Sinkhorn(model, self.divergence, lam=lam, exact=exact, common=common, **settings)
        if self.lam is not None:
            raise ValueError(f"give lam or radius, not both: got lam={self.lam!r} and radius={self.radius!r}")
        if exact is True:
            raise ValueError("exact=True needs lam: the price of a radius is found on draws")
        return lw.SinkhornBall(model, self.divergence, radius=self.radius, **settings)

    def _settles_without_draws(self, d: int, solver: lw.Algorithm | None) -> bool:
        """Whether the exact objective applies, asked of a problem of few rows."""
        if self.radius is not None and self.exact is not True:
            return False
        if not (solver is None or isinstance(solver, (lw.LBFGS, *_DRAWING))) and self.exact is not True:
            return False
        some = self._some_targets()
        model = self._model(np.zeros((len(some), d)), some, None, l2=0.0)
        units = Units(np.ones(d), np.zeros(d))
        draws: Any = _FEW if self.draws is None else self.draws
        if draws == 1 and not isinstance(solver, _DRAWING):
            draws = 2  # of no consequence here: no warning
        return bool(self._posed(model, units, seed=0, draws=draws, exact=self.exact, common=False).exact)

    def _problem(self, X: Any, target: Any, weight: Array | None, units: Units, l2: float, exact: bool) -> Any:
        """The problem of rows and targets in their own units: exact, or on draws that follow from the rows' content."""
        solver = solver_of(self.solver)
        model = self._model(units.rows(X), self._in_units(target, units), weight, l2=l2)
        draws = self._draws if not exact or isinstance(solver, _DRAWING) else 2
        common = not exact and not isinstance(solver, _DRAWING)
        return self._posed(model, units, seed=self._seed, draws=draws, exact=exact, common=common)

    # -- fit --------------------------------------------------------------------------------------------------------
    def _solve(self, X: Any, target: Any, weight: Array | None) -> Array:
        """Minimise the objective and set the attributes that do not depend on the kind of target; w in the model's units."""
        n, d = X.shape
        solver, l2 = solver_of(self.solver), level("l2", self.l2)
        self._seed = seed_of(self.random_state)
        exact = self._settles_without_draws(d, solver)
        if not exact:
            X, target, weight = distinct(X, target, weight)
        self._draws = self._number_of_draws(X.shape[0] * d, solver)
        units = units_of(self.scale, X, self._real(target), weight, switch("fit_intercept", self.fit_intercept))
        problem = self._problem(X, target, weight, units, l2, exact)
        start = self._start()
        start = None if start is None else units.inside(*self._matrix(), bool(self.fit_intercept))
        coordinates = n * d if exact else X.shape[0] * d * int(self._draws)
        if exact and problem.linear.n_outputs > 2:
            coordinates = n * max(d, _NODES)
        promised, aim = self._tolerances(problem, solver, coordinates)

        def enough(state: lw.State) -> bool:
            """The gradient's part of the gap is as small as was aimed at; what is left is the allowance for quadrature."""
            if state.gap is None or not state.gap <= promised * abs(state.objective):
                return False
            return state.gradient_norm**2 <= 2.0 * l2 * (aim or 0.0) * abs(state.objective)

        w = self._minimised(
            problem, start, solver, (promised, aim), X, None, enough if exact and aim != promised else None
        )
        self.n_samples_seen_ = n
        self.exact_ = exact
        self.draws_ = None if exact else int(self._draws)
        self.effective_draws_ = None if exact else self._effective(problem, w)
        self.lam_ = float(problem.lam) if self.radius is None else float(problem.price(w))
        self.scale_, self.target_scale_ = units.scale, units.target_scale
        self._units = units
        return w

    def _number_of_draws(self, entries: int, solver: lw.Algorithm | None) -> Any:
        """Points a row: few where they are drawn anew at each step, many where the data are small."""
        if self.draws is not None:
            return self.draws
        return _FEW if isinstance(solver, _DRAWING) else min(max(_NUMBERS // max(entries, 1), _FEW), _MANY)

    def _effective(self, problem: Any, w: Array) -> float:
        made = problem.evaluate(w, threads=threads_of(self.n_jobs))
        return float(np.average(made.effective_draws, weights=made.weights))

    def _size(self, problem: Any, w: Array, value: float) -> float:
        """What a gap is compared with: Psi has a constant that can take the objective to 0, so the plain losses count too."""
        return max(abs(value), float(np.mean(problem.linear.losses(w))))

    def _tolerances(self, problem: Any, solver: lw.Algorithm | None, entries: int) -> tuple[float, float | None]:
        """The relative gap that a fit owes, without which it warns, and the one it tries to reach (see `RobustLinear`)."""
        promised = _SMOOTH_TOL if problem.smooth else _KINKED_TOL
        if self.tol is not None:
            return (level("tol", self.tol),) * 2
        if solver is None and not problem.smooth:
            return promised, None
        if not (solver is None or isinstance(solver, lw.LBFGS)):
            return (solver.default_tol(problem, self.max_passes),) * 2
        return promised, promised * (_POLISH if entries <= _SMALL and problem.l2 > 0 else 1.0)

    def _matrix(self) -> tuple[Array, Array]:
        return np.atleast_2d(self.coef_), np.atleast_1d(np.array(self.intercept_, dtype=np.float64))

    # -- the fitted model on any data ---------------------------------------------------------------------------------
    def _inside(self, X: Any) -> tuple[Units, Array]:
        """The model's units for these rows, and the fitted coefficients in them."""
        units = self._units.on(X)
        return units, units.inside(*self._matrix(), bool(self.fit_intercept))

    def sample_losses(self, X: Any, y: Any) -> Array:
        """The loss of each sample where it lies, for targets in the model's units (over `target_scale_`).

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n, d)
            Samples.
        y : array-like of shape (n,)
            Labels or target values.

        Returns
        -------
        losses : ndarray of shape (n,)
            Losses of the fitted model.
        """
        check_is_fitted(self)
        X, target = self._check_features(X), self._target(y)
        units, w = self._inside(X)
        return np.array(self._model(units.rows(X), self._in_units(target, units), None, l2=0.0).losses(w))

    def robust_score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Minus the worst-case loss around the samples, ``-E Psi``: greater is better.

        On the training data, without `class_weight`, ``-robust_score(X, y)`` and the ridge term are `objective_`.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, d)
            Samples.
        y : array-like of shape (n,)
            Labels or target values.
        sample_weight : array-like of shape (n,), default=None
            Weights of the samples; only their ratios matter.

        Returns
        -------
        score : float
            In units of the loss; with `radius`, of the ball of that radius around these samples.
        """
        check_is_fitted(self)
        X, target = self._check_features(X), self._target(y)
        weight = weights_of(sample_weight, X.shape[0])
        if not self.exact_:
            X, target, weight = distinct(X, target, weight)
        units, w = self._inside(X)
        problem = self._problem(X, target, weight, units, 0.0, self.exact_)
        return -float(problem.evaluate(w, threads=threads_of(self.n_jobs)).value)

    def worst_case_samples(
        self,
        X: Any,
        y: Any,
        size: int | None = None,
        *,
        sample_weight: Any = None,
        random_state: Any = None,
        pool: int | None = None,
    ) -> WorstCaseSamples:
        """Draw points from the worst-case distribution around samples: what the model was made robust to.

        A row is drawn by its weight, and a point around it from ``r nu``, with nu the reference kernel and r the worst-case density at
        the fitted coefficients. With a price `lam`, KL, Gaussian noise, squared distance and a loss of one score the draws have that law
        exactly, unless ``exact=False``. Elsewhere `pool` points are drawn around each row, and one is chosen by its worst-case weight.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, d)
            Samples, the training data or others.
        y : array-like of shape (n,)
            Their labels or target values.
        size : int, default=None
            Number of points; None is n.
        sample_weight : array-like of shape (n,), default=None
            Weights of the samples; only their ratios matter.
        random_state : int, RandomState, Generator or None, default=None
            Seed of the draws. None is the fixed seed 0.
        pool : int, default=None
            Points drawn around a row, where the law is not exact; None is 512, and `draws_` for a `radius`, whose price `lam_` is that of
            so many points.

        Returns
        -------
        samples : WorstCaseSamples
            Points ``X``, their ``y``, the ``index`` of the row that each was moved from, and ``effective_draws``.
        """
        check_is_fitted(self)
        X, target = self._check_features(X), self._target(y)
        n, d = X.shape
        usual = 512 if self.radius is None else self.draws_
        count, many = _whole(n if size is None else size, "size"), _whole(usual if pool is None else pool, "pool")
        weight = weights_of(sample_weight, n)
        rng = np.random.default_rng(seed_of(random_state))
        index = rng.choice(n, size=count, p=None if weight is None else weight / weight.sum())
        units, w = self._inside(X)
        inner = self._in_units(target, units)
        loss = lw.losses.get_loss(self._loss())
        covariance = self._tilted_noise(d) if has_pieces(loss) else None
        if covariance is not None:
            rows = units.dense(X[index])
            scores = rows @ w[:d] + (w[d] if self.fit_intercept else 0.0)
            if not np.isfinite(scores).all():
                i = int(index[np.argmin(np.isfinite(scores))])
                raise ValueError(f"row {i} of X has no finite score: it is too far from the samples of the fit")
            reach = self.lam_ * float(self.entropy)
            points = gaussian_points(rows, scores, self._numbers(inner[index]), w[:d], loss, covariance, reach, rng)
            return WorstCaseSamples(units.rows_back(points), self._labels(inner[index]), index, None)

        def problem_of(rows: NDArray[np.int64]) -> Any:
            model = self._model(units.rows(X[rows]), inner[rows], None, l2=0.0)
            seed = int(rng.integers(2**63))
            return self._posed(model, units, seed=seed, draws=many, exact=False, common=True, lam=self.lam_)

        points, moved, effective = resampled(problem_of, w, index, many, rng)
        noisy = bool(self._label_settings().get("label_noise"))
        return WorstCaseSamples(
            units.rows_back(points), self._labels(moved if noisy else inner[index]), index, effective
        )

    def _tilted_noise(self, d: int) -> Array | None:
        """Variances (d,) or covariance (d, d) of the noise tilted by the cost, where that is all that KL does to it but for the loss."""
        kl = self.divergence == "kl" or isinstance(self.divergence, lw.divergences.KL)
        plain = self.cost == "sqeuclidean" and isinstance(self.reference, str) and self.reference == "gaussian"
        if not (kl and plain and self.exact is not False and self.bounds is None and self.radius is None):
            return None
        if self._label_settings().get("label_noise"):
            return None
        noise = np.array(_NOISE if self.noise is None else self.noise, dtype=np.float64)
        eps = float(self.entropy)
        if noise.ndim < 2:
            variance = np.broadcast_to(noise * noise, (d,))
            return np.asarray(variance * eps / (eps + 2.0 * variance))
        values, vectors = np.linalg.eigh(noise)
        return np.asarray((vectors * (values * eps / (eps + 2.0 * values))) @ vectors.T)


def _side(side: Any) -> Array:
    try:
        return np.array(side, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"bounds must hold numbers or one number a feature on each side, got {side!r}") from None


def _whole(value: Any, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < 1:
        raise ValueError(f"{name} must be a whole number of at least 1, got {value!r}")
    return int(value)
