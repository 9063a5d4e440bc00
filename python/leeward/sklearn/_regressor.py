"""`RobustRegressor`: linear regression by a robust risk of squared, Huber, absolute, quantile, Poisson or bounded losses."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import column_or_1d

import leeward as lw
from leeward.sklearn._base import RobustLinear, learns_in_batches
from leeward.sklearn._errors import convergence_warnings
from leeward.sklearn._inputs import level, threads_of, weights_of
from leeward.sklearn._linear import Array
from leeward.sklearn._names import loss_name, loss_of

__all__ = ["RobustRegressor", "loss_scale"]


def loss_scale(loss: Any) -> float | None:
    """The scale of a loss that is not convex, None for the others."""
    made = lw.losses.get_loss(loss)
    return None if made.convex else made.parameter


class RobustRegressor(RegressorMixin, RobustLinear):  # type: ignore[misc]
    """Linear regression that minimises a robust risk of its losses.

    The fit minimises, over ``w = (coef, intercept)``::

        P(w) = R( loss(x_1 . coef + intercept, y_1), ..., loss(x_n . coef + intercept, y_n) ) + (l2 / 2) |coef|^2

    where the risk R, the mean under the worst-case weights q of an uncertainty set around the base weights p, takes the
    place of the average. p is uniform or proportional to ``sample_weight``: only ratios matter, and the intercept is not
    penalised. "Robust" is against shifts of the population: hard samples count more. For data with gross errors, which
    should count less, take a risk that plays losses down (``leeward.Tilted(t)`` with ``t < 0``), the Huber loss or one that is bounded.

    ============================================  =========================================================
    scikit-learn (n samples, no sample weights)   here, with ``risk="mean"``
    ============================================  =========================================================
    ``Ridge(alpha=a)``                            ``loss="squared"`` ((z - y)^2 / 2), ``l2 = a / n``
    ``SGDRegressor(alpha=a)``                     ``l2 = a``
    ``PoissonRegressor(alpha=a)``                 ``loss="poisson", l2 = a``
    ``QuantileRegressor(quantile=t, alpha=0)``    ``loss=leeward.losses.Quantile(t), l2 = 0`` (there the penalty is l1)
    ============================================  =========================================================

    Parameters
    ----------
    risk : leeward risk or str, default="chi_square"
        What replaces the average: ``leeward.CVaR(0.1)``, or a name with mild parameters: "mean", "worst", "cvar" and
        "superquantile" (alpha 0.5), "chi_square", "kl" and "cressie_read" (radius 0.1), "total_variation" (radius 0.2),
        "kl_cvar" and "smoothed_cvar" (alpha 0.5, penalty 0.1), "tilted" (t 1), "extremile" (draws 2), "exponential"
        (rate 2). ``set_params(risk__alpha=0.3)`` and searches over ``risk__alpha`` change them.
    loss : str or loss object, default="squared"
        "squared" ((z - y)^2 / 2), "huber", "absolute", "quantile", "poisson" (prediction exp(z)), or an object of
        `leeward.losses` with its parameters. "cauchy", "geman_mcclure" and "tukey" bound what a gross error costs; they are
        not convex, so there is no certificate, and the fit starts from one with the Huber loss of the same scale.
    l2 : float, default=1e-4
        Strength of the ridge term. With ``l2 > 0`` every fit has a certificate (`gap_`); 0 is allowed and has none.
    fit_intercept : bool, default=True
        Whether to fit an intercept, which is not penalised.
    domain : leeward domain, prox term or None, default=None
        Where the coefficients may lie (``leeward.Box(0.0)`` for non-negative ones) or a term h(coef) added to P
        (``leeward.L1(0.01)``). The intercept stays free.
    solver : str or leeward algorithm, default="auto"
        "auto" lets `leeward.minimize` choose; "lbfgs", "sgd" and "nesterov" name algorithms with default settings, "scsg", "svrg",
        "sarah" and "storm" those for ``risk="mean"``; an object such as ``leeward.SGD(leeward.Minibatch(500))`` has its own.
    tol : float or None, default=None
        Certified relative gap at which the fit stops (see `leeward.minimize` for fits without a certificate). None is
        1e-6 for smooth risks and losses, and 1e-4 for others; smooth fits on small data (at most 2^18 entries) go on
        towards 1e-13, and warn only when they miss 1e-6.
    max_passes : float or None, default=None
        Budget in passes over the data; None is `leeward.minimize`'s default.
    warm_start : bool, default=False
        Start from the coefficients of the last fit when their shape fits.
    random_state : int, RandomState, Generator or None, default=None
        Seed of the sampling algorithms. None is the fixed seed 0; the global NumPy state is never used.
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
        P at the fitted coefficients.
    gap_ : float or None
        Certified bound on ``objective_`` minus the optimum, None where there is no certificate.
    risk_ : leeward risk
        The risk object used.
    result_ : leeward.Result
        The whole answer of the solver with its trace, without the training samples' weights.
    n_iter_ : int
        Iterations.
    n_samples_seen_ : int
        Rows of the last fit and of the calls of `partial_fit` since; after these there is no `objective_`, `gap_`, `result_` and
        `n_iter_`, which speak of a fit on all data.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (d,)
        Names of the features when X had them.

    See Also
    --------
    RobustClassifier : The same for class labels.
    RobustRegressorCV : With a choice of the risk's parameter by cross-validation.

    Examples
    --------
    >>> import leeward as lw
    >>> from leeward.sklearn import RobustRegressor
    >>> model = RobustRegressor(risk=lw.CVaR(0.5), l2=0.0, tol=1e-9).fit([[0.0], [0.0], [0.0], [0.0]], [0, 0, 0, 10])
    >>> round(float(model.intercept_), 4), round(model.objective_, 4)
    (5.0, 12.5)
    """

    _supported = ("squared", "huber", "absolute", "quantile", "poisson", "cauchy", "geman_mcclure", "tukey")

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Self:
        """Fit the regression.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, d)
            Samples; float32 and float64, C-ordered or CSR, are used without a copy.
        y : array-like of shape (n,)
            Target values.
        sample_weight : array-like of shape (n,), default=None
            Base weights; only ratios matter, and a weight of 0 is the same as leaving the sample out.
        groups : array-like of shape (n,), default=None
            Group labels. The risk is then taken over the weighted mean losses of the groups, each group counting the same.

        Returns
        -------
        self : RobustRegressor
            The fitted estimator.
        """
        X, y = self._check_features(X, reset=True, y=y, y_numeric=True)
        weight = weights_of(sample_weight, X.shape[0])
        target, start = self._target(y), self._start()
        if start is None and (scale := loss_scale(self._loss())) is not None:
            start = self._convex_start(X, target, weight, scale)
        return self._take(self._solve(X, target, weight, groups, start))

    @available_if(learns_in_batches)  # type: ignore[untyped-decorator]
    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from one batch of samples; further calls go on from there, and so does the first call after `fit`.

        A call makes one step of the stochastic proximal point method with averaging on the robust risk **of the batch**, which
        lies below the risk of all data the more the smaller batches are; some hundred samples are enough for mild risks. No step
        size needs choosing. Settings for `fit` such as `solver`, `tol` and `max_passes` are not used.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (m, d)
            The samples of the batch.
        y : array-like of shape (m,)
            Target values.
        sample_weight : array-like of shape (m,), default=None
            Base weights; only ratios within the batch matter.

        Returns
        -------
        self : RobustRegressor
            The estimator.
        """
        X, y = self._check_features(X, reset=not hasattr(self, "coef_"), y=y, y_numeric=True)
        return self._take(self._learn(X, self._target(y), weights_of(sample_weight, X.shape[0])))

    def _take(self, w: Array) -> Self:
        self.coef_ = w[: self.n_features_in_].copy()
        self.intercept_ = float(w[-1]) if self.fit_intercept else 0.0
        return self

    def _convex_start(self, X: Any, target: Array, weight: Array | None, scale: float) -> Array | None:
        """A fit with the Huber loss: a loss that is not convex needs a start near its solution."""
        huber, free = lw.losses.Huber(scale), bool(self.fit_intercept)
        model = lw.LinearModel(X, target, huber, l2=level("l2", self.l2), intercept=free, sample_weight=weight)
        with convergence_warnings():
            x = lw.minimize(model, max_passes=30, tol=1e-3, threads=threads_of(self.n_jobs)).x
        return x if np.isfinite(x).all() else None

    def _target(self, y: Any) -> Array:
        return np.asarray(column_or_1d(y, dtype=np.float64, warn=True))

    def _loss(self) -> Any:
        return loss_of(self.loss, self._supported, type(self).__name__)

    def predict(self, X: Any) -> Array:
        """Predicted values: the scores ``X @ coef_ + intercept_``, and their exponentials for the Poisson loss.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, d)
            Samples.

        Returns
        -------
        values : ndarray of shape (n,)
            Predictions in units of y.
        """
        scores = self._scores(X)[:, 0]
        return np.exp(scores) if loss_name(self.loss) == "poisson" else scores
