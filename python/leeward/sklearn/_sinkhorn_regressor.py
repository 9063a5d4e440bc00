"""`SinkhornRegressor`: linear regression by squared, Huber, absolute or quantile loss, robust to points that are not in the data."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import RegressorMixin
from sklearn.utils.validation import column_or_1d

from leeward.sklearn._inputs import weights_of
from leeward.sklearn._linear import Array
from leeward.sklearn._names import loss_of
from leeward.sklearn._sinkhorn import SinkhornLinear
from leeward.sklearn._units import Units

__all__ = ["SinkhornRegressor"]


class SinkhornRegressor(RegressorMixin, SinkhornLinear):  # type: ignore[misc]
    """Linear regression that holds up when features are disturbed: the worst case over distributions near the data.

    The fit minimises, over ``w = (coef, intercept)``::

        P(w) = E_i Psi_i(w) + (l2 / 2) |coef|^2
        Psi_i(w) = max over densities r of points x around x_i:  E[ r (loss(x . coef + intercept, y_i) - lam c(x_i, x)) - lam eps f(r) ]

    where points lie around each row by a reference law, an adversary moves weight among them at a cost, and f, a divergence, keeps it
    from gathering on one point. Labels stay. See `leeward.Sinkhorn` and docs/maths/sinkhorn.md.

    Under KL with the squared loss Psi is finite only for coefficients that are small beside ``lam``; the fit keeps to these, and the
    worst case of the answer is then no more than a part of the loss larger.

    Parameters
    ----------
    divergence : "kl", "chi2", "pearson" or a divergence of ``leeward.divergences``, default="kl"
        What keeps the adversary near the reference, as in `leeward.Sinkhorn`.
    loss : str or loss object, default="squared"
        "squared" ((z - y)^2 / 2), "huber", "absolute", "quantile", or an object of `leeward.losses` with its parameters, in units of
        `target_scale_`.
    lam : float, default=None
        Price of a unit of the cost, in units of the loss; None is 1. Less is more robust.
    radius : float, default=None
        A budget for cost and divergence in the place of their price (`leeward.SinkhornBall`); the price that it has is `lam_`.
    entropy : float, default=0.1
        Weight eps of the divergence, in units of the cost.
    noise : float, (d,) or (d, d), default=None
        Size of the reference, in units of `scale_`: standard deviation of the Gaussian (None is 0.2), one a feature, or its
        covariance; scale of the Laplace law, radius of the ball.
    cost : str, default="sqeuclidean"
        Of moving a point, in units of `scale_`: "sqeuclidean", "euclidean", "l1" or "linf".
    reference : "gaussian", "laplace", "ball" or array (k, d), default="gaussian"
        The law of the moves; rows of an array are moves in units of `scale_`.
    bounds : (lower, upper), default=None
        Numbers or arrays (d,), **in units of the features themselves**: points are clipped to this box.
    draws : int, default=None
        Points around each row, where the objective is not exact. Few make the adversary weaker than it is. None is as many as have 2^22
        coordinates in all, but from 16 to 256, and 16 where points are drawn anew at each step.
    exact : "auto", True or False, default="auto"
        Whether the objective is that of the kernel itself, without draws. "auto": where `leeward.Sinkhorn` can, which is one score a
        sample under one Gaussian noise with KL, chi-square or smoothed CVaR.
    scale : "standard", None or array (d,), default="standard"
        The units of noise, cost and ridge term. "standard" is the standard deviation of each column and of y; a constant column has the
        size of its value. None takes the features as they are. The model is then that of ``X / scale_``, while `coef_` speaks
        of X: no scaler is needed before it, and another unit of a column gives the same predictions.
    l2 : float, default=1e-4
        Strength of the ridge term. With ``l2 > 0`` every fit by L-BFGS has a certificate (`gap_`).
    fit_intercept : bool, default=True
        Whether to fit an intercept, which is not penalised.
    label_noise : float, default=0.0
        Standard deviation of Gaussian noise on the targets, in units of `target_scale_`; with it the objective is on draws.
    label_cost : float, default=1.0
        Factor of the squared move of a target in the cost.
    solver : str or leeward algorithm, default="auto"
        "auto" is L-BFGS. "nested", "sgd" and "nesterov" draw points anew at
        each step. "svrg", "scsg", "sarah" and "storm" work on draws that are made once, as L-BFGS does where the objective is not exact.
    tol : float or None, default=None
        Certified relative gap at which the fit stops. None is 1e-4 for losses with a kink on draws and 1e-6 otherwise; the latter fits
        with little to read (at most 2^18 entries of X, times the draws where they are used) go on towards 1e-13 and warn only when they
        miss 1e-6.
    max_passes : float or None, default=None
        Budget in passes over the data; None is `leeward.minimize`'s default.
    warm_start : bool, default=False
        Start from the coefficients of the last fit when their shape fits.
    random_state : int, RandomState, Generator or None, default=None
        Seed of the draws and of sampling algorithms. None is the fixed seed 0. Draws made once follow from the content of a row: the
        order of rows does not matter, and a row given twice is a row of weight two.
    n_jobs : int or None, default=None
        Threads. None takes the CPUs that the process may use and respects OMP_NUM_THREADS; -1 is all of them. The fit has
        the same bits for any number.
    verbose : bool, default=False
        Whether to show progress.

    Attributes
    ----------
    coef_ : ndarray of shape (d,)
        Coefficients.
    intercept_ : float
        Intercept, 0 without `fit_intercept`.
    objective_ : float
        P at the fitted coefficients, in the model's units. Psi has a constant for the divergence, so that it can be negative.
    gap_ : float or None
        Certified bound on ``objective_`` minus the optimum; on draws, of the problem of these draws.
    exact_ : bool
        Whether the objective was exact.
    draws_ : int or None
        Points around each row, where it was not.
    effective_draws_ : float or None
        Where it was not: ``1 / sum q^2`` of the weights of a row's draws, the mean over rows. Near 1 the weights have collapsed on
        one point a row, and a warning says so.
    lam_ : float
        The price of the cost in force.
    scale_ : ndarray of shape (d,)
        The units of the features.
    target_scale_ : float
        The unit of the targets, 1 for classes.
    result_ : leeward.Result
        The whole answer of the solver with its trace, without the training samples' weights.
    n_iter_ : int
        Iterations.
    n_samples_seen_ : int
        Rows of the fit.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (d,)
        Names of the features when X had them.

    Warns
    -----
    UserWarning
        Where draws are used: when ``draws`` is 1, and when the weights have collapsed.

    Notes
    -----
    X is copied once in the model's units, unless ``scale`` is None; sparse X stays sparse in a fit, and points of the worst case are dense.

    References
    ----------
    Wang, Gao and Xie, Sinkhorn distributionally robust optimization, 2021; Yang, Zhou and Lu, Nested stochastic algorithm for generalized
    Sinkhorn distance-regularized DRO, 2025.

    See Also
    --------
    SinkhornClassifier : The same for class labels.
    RobustRegressor : Robust to other weights of the samples there are.

    Examples
    --------
    >>> from leeward.sklearn import SinkhornRegressor
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = SinkhornRegressor().fit(X, y)
    >>> model.exact_, bool(model.gap_ <= 1e-6), bool(model.score(X, y) > 0.45)
    (True, True, True)
    """

    _supported = ("squared", "huber", "absolute", "quantile")

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
        label_noise: float = 0.0,
        label_cost: float = 1.0,
        solver: Any = "auto",
        tol: float | None = None,
        max_passes: float | None = None,
        warm_start: bool = False,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: bool = False,
    ) -> None:
        super().__init__(
            divergence,
            loss,
            lam=lam,
            radius=radius,
            entropy=entropy,
            noise=noise,
            cost=cost,
            reference=reference,
            bounds=bounds,
            draws=draws,
            exact=exact,
            scale=scale,
            l2=l2,
            fit_intercept=fit_intercept,
            solver=solver,
            tol=tol,
            max_passes=max_passes,
            warm_start=warm_start,
            random_state=random_state,
            n_jobs=n_jobs,
            verbose=verbose,
        )
        self.label_noise = label_noise
        self.label_cost = label_cost

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the regression.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, d)
            Samples.
        y : array-like of shape (n,)
            Target values.
        sample_weight : array-like of shape (n,), default=None
            Weights of the samples; only ratios matter, and a weight of 0 is the same as leaving the sample out.

        Returns
        -------
        self : SinkhornRegressor
            The fitted estimator.
        """
        X, y = self._check_features(X, reset=True, y=y, y_numeric=True)
        weight = weights_of(sample_weight, X.shape[0])
        return self._take(self._solve(X, self._target(y), weight))

    def _take(self, w: Array) -> Self:
        coef, intercept = self._units.outside(w, 1, bool(self.fit_intercept))
        self.coef_, self.intercept_ = coef[0], float(intercept[0])
        return self

    def _label_settings(self) -> dict[str, float]:
        return {"label_noise": self.label_noise, "label_cost": self.label_cost}

    def _target(self, y: Any) -> Array:
        return np.asarray(column_or_1d(y, dtype=np.float64, warn=True))

    def _loss(self) -> Any:
        return loss_of(self.loss, self._supported, type(self).__name__)

    def _real(self, target: Any) -> Array | None:
        return np.asarray(target)

    def _in_units(self, target: Any, units: Units) -> Any:
        return units.target(target)

    def _some_targets(self) -> Array:
        return np.zeros(1)

    def _numbers(self, target: Any) -> Array:
        return np.asarray(target)

    def _labels(self, target: Any) -> NDArray[Any]:
        return np.asarray(self._units.target_back(target))

    def predict(self, X: Any) -> Array:
        """Predicted values, the scores ``X @ coef_ + intercept_``.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, d)
            Samples.

        Returns
        -------
        values : ndarray of shape (n,)
            Predictions in units of y.
        """
        return np.asarray(self._scores(X)[:, 0])
