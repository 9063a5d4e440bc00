"""`TiltedRegressor`: linear regression by tilts on two levels."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import RegressorMixin
from sklearn.utils.validation import column_or_1d

from leeward.sklearn._inputs import switch, weights_of
from leeward.sklearn._linear import Array
from leeward.sklearn._names import loss_of
from leeward.sklearn._tilts import TiltedLinear

__all__ = ["TiltedRegressor"]


class TiltedRegressor(RegressorMixin, TiltedLinear):  # type: ignore[misc]
    """Linear regression for groups that fare unequally with gross errors in them, by tilts on two levels.

    The fit minimises, over ``w = (coef, intercept)``::

        P(w) = (1/t) log sum_g p_g exp(t R_g) + (l2 / 2) |coef|^2,    R_g = (1/tau) log mean_{i in g} exp(tau l_i)

    with p_g the share of group g and l_i the losses of targets in units of their standard deviation, so that t and tau mean the same
    for any y. A negative tau plays down samples of large loss in each group; a positive t plays up the groups that fare worst. Without
    groups all rows are one, and t plays no part. P is not convex for a negative tau: the fit starts at that of the mean loss
    and ends at a stationary point near it.

    Parameters
    ----------
    t : float, default=1.0
        Tilt of the groups; 0 is their mean.
    tau : float, default=-1.0
        Tilt of the samples in a group; 0 is their mean.
    loss : str or loss object, default="squared"
        "squared" ((z - y)^2 / 2) or "huber".
    l2 : float, default=1e-4
        Strength of the ridge term, on the coefficients for targets in these units.
    fit_intercept : bool, default=True
        Whether to fit an intercept, which is not penalised.
    scale : "standard" or None, default="standard"
        Units of y: its weighted standard deviation (`target_scale_`), or as it is.
    solver : str or leeward algorithm, default="auto"
        "auto" is L-BFGS on all samples; algorithms on mini-batches draw groups.
    tol : float or None, default=None
        ``|grad P| max(1, |w|) <= tol max(1, |P|)`` ends a fit (a relative certified gap where there is one). None is 1e-6, and
        fits on small data (at most 2^18 entries) go on towards 1e-8.
    max_passes : float or None, default=None
        Budget in passes over the data; None is `leeward.minimize`'s default.
    warm_start : bool, default=False
        Start from the coefficients of the last fit when their shape fits.
    random_state : int, RandomState, Generator or None, default=None
        Seed of the sampling algorithms. None is the fixed seed 0.
    n_jobs : int or None, default=None
        Threads; -1 is all. The fit has the same bits for any number.
    verbose : bool, default=False
        Whether to show progress.

    Attributes
    ----------
    coef_ : ndarray of shape (d,)
        Coefficients, in units of y.
    intercept_ : float
        Intercept, 0 without `fit_intercept`.
    target_scale_ : float
        What y was divided by.
    objective_ : float
        P at the fitted coefficients, for targets over `target_scale_`.
    gap_ : float or None
        Certified bound on ``objective_`` minus the optimum: for tilts that are not negative, without an intercept and with ``l2 > 0``.
    result_ : leeward.Result
        The whole answer of the solver with its trace.
    n_iter_ : int
        Iterations.
    n_samples_seen_ : int
        Rows of the last fit.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (d,)
        Names of the features when X had them.

    See Also
    --------
    TiltedClassifier : The same for class labels.
    leeward.HierarchicalTilt : The problem.

    Examples
    --------
    >>> import numpy as np
    >>> from leeward.sklearn import TiltedRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 2)); y = X @ [1.0, -2.0] + 0.1 * rng.normal(size=200)
    >>> y[:20] += 10.0
    >>> model = TiltedRegressor(tau=-10.0).fit(X, y)
    >>> bool(np.abs(model.coef_ - [1.0, -2.0]).max() < 0.05), bool(abs(model.intercept_) < 0.05)
    (True, True)
    """

    _supported = ("squared", "huber")
    target_scale_: float

    def __init__(
        self,
        t: float = 1.0,
        tau: float = -1.0,
        loss: Any = "squared",
        *,
        l2: float = 1e-4,
        fit_intercept: bool = True,
        scale: Any = "standard",
        solver: Any = "auto",
        tol: float | None = None,
        max_passes: float | None = None,
        warm_start: bool = False,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: bool = False,
    ) -> None:
        super().__init__(
            t,
            tau,
            loss,
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
        self.scale = scale

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Self:
        """Fit the regression.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, d)
            Samples.
        y : array-like of shape (n,)
            Target values.
        sample_weight : array-like of shape (n,), default=None
            Weights of the samples; only ratios matter, and a weight of 0 is the same as leaving the sample out.
        groups : array-like of shape (n,), default=None
            Group labels of any kind; one group by default.

        Returns
        -------
        self : TiltedRegressor
            The fitted estimator.
        """
        X, y = self._check_features(X, reset=True, y=y, y_numeric=True)
        weight = weights_of(sample_weight, X.shape[0])
        target = self._target(y)
        start = None
        scale = self._scale_of(target, weight)
        if switch("warm_start", self.warm_start) and hasattr(self, "coef_"):
            start = self._vector() * (self.target_scale_ / scale)
        self.target_scale_ = scale
        w = self._solve(X, target, weight, groups, start)
        self.coef_ = self.target_scale_ * w[: self.n_features_in_]
        self.intercept_ = self.target_scale_ * float(w[-1]) if self.fit_intercept else 0.0
        return self

    def _scale_of(self, y: Array, weight: Array | None) -> float:
        if self.scale is None:
            return 1.0
        if not (isinstance(self.scale, str) and self.scale == "standard"):
            raise ValueError(f"scale must be 'standard' or None, got {self.scale!r}")
        mean = float(np.average(y, weights=weight))
        spread = float(np.sqrt(np.average(np.square(y - mean), weights=weight)))
        return spread if spread > 0 and np.isfinite(spread) else 1.0

    def _target(self, y: Any) -> Array:
        return np.asarray(column_or_1d(y, dtype=np.float64, warn=True))

    def _model(self, X: Any, target: Any, sample_weight: Array | None, *, l2: float) -> Any:
        return super()._model(X, target / self.target_scale_, sample_weight, l2=l2)

    def _usual_groups(self, target: Any) -> NDArray[np.int64]:
        return np.zeros(len(target), dtype=np.int64)

    def _vector(self) -> Array:
        return super()._vector() / self.target_scale_

    def _loss(self) -> Any:
        return loss_of(self.loss, self._supported, type(self).__name__)

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
