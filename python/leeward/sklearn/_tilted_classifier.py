"""`TiltedClassifier`: linear classification by tilts on two levels."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from leeward.sklearn._inputs import weights_of
from leeward.sklearn._labels import LinearClassifier, plain_labels
from leeward.sklearn._tilts import TiltedLinear

__all__ = ["TiltedClassifier"]


class TiltedClassifier(LinearClassifier, TiltedLinear):
    """Linear classifier for groups of unequal sizes with wrong labels in them, by tilts on two levels.

    The fit minimises, over ``w = (coef, intercept)``::

        P(w) = (1/t) log sum_g p_g exp(t R_g) + (l2 / 2) |coef|^2,    R_g = (1/tau) log mean_{i in g} exp(tau l_i)

    with p_g the share of group g and l_i the losses. A negative tau plays down samples of large loss in each group; a positive t
    plays up the groups that fare worst. Groups are the classes unless others are given. P is not convex for a negative tau: the
    fit starts at that of the mean loss and ends at a stationary point near it.

    Parameters
    ----------
    t : float, default=10.0
        Tilt of the groups, in units of 1/loss; 0 is their mean.
    tau : float, default=-2.0
        Tilt of the samples in a group; 0 is their mean.
    loss : str or loss object, default="logistic"
        "logistic" (softmax cross-entropy for more than two classes), or for two classes "squared_hinge", "squared" or "sigmoid".
    l2 : float, default=1e-4
        Strength of the ridge term.
    fit_intercept : bool, default=True
        Whether to fit an intercept, which is not penalised.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes.
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
    coef_ : ndarray of shape (1, d) or (C, d)
        Coefficients; one row for two classes.
    intercept_ : ndarray of shape (1,) or (C,)
        Intercepts, zeros without `fit_intercept`; for more than two classes they sum to 0.
    classes_ : ndarray of shape (C,)
        Sorted labels of the training samples of positive weight.
    objective_ : float
        P at the fitted coefficients.
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
    TiltedRegressor : The same for real targets.
    leeward.HierarchicalTilt : The problem.

    Examples
    --------
    >>> import numpy as np
    >>> from leeward.sklearn import TiltedClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(400, 2)); y = X[:, 0] > 1.0
    >>> wrong = rng.random(400) < 0.1
    >>> model = TiltedClassifier().fit(X, y ^ wrong)
    >>> bool(model.score(X[y], y[y]) > 0.95), bool(model.sample_weights(X, y ^ wrong)[wrong].sum() < 0.05)
    (True, True)
    """

    _supported = ("logistic", "softmax", "squared_hinge", "squared", "sigmoid")

    def __init__(
        self,
        t: float = 10.0,
        tau: float = -2.0,
        loss: Any = "logistic",
        *,
        l2: float = 1e-4,
        fit_intercept: bool = True,
        class_weight: Any = None,
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
        self.class_weight = class_weight

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Self:
        """Fit the classifier.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, d)
            Samples.
        y : array-like of shape (n,)
            Class labels, some of which may be wrong.
        sample_weight : array-like of shape (n,), default=None
            Weights of the samples; only ratios matter, and a weight of 0 is the same as leaving the sample out.
        groups : array-like of shape (n,), default=None
            Group labels of any kind; the classes by default.

        Returns
        -------
        self : TiltedClassifier
            The fitted estimator.
        """
        X, y = self._check_features(X, reset=True, y=plain_labels(y))
        y = self._checked_labels(y)
        weight, classes = self._weigh_classes(y, weights_of(sample_weight, X.shape[0]))
        same = hasattr(self, "classes_") and np.array_equal(self.classes_, classes)
        start = self._start() if same else None
        self.classes_ = classes
        return self._take(self._solve(X, self._codes(y), weight, groups, start))

    def _usual_groups(self, target: Any) -> NDArray[np.int64]:
        codes: NDArray[np.int64] = target
        return codes
