"""`RobustClassifier`: two classes by a margin loss, more by the softmax; labels of any kind."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import _check_partial_fit_first_call

from leeward.sklearn._base import RobustLinear, learns_in_batches
from leeward.sklearn._inputs import weights_of
from leeward.sklearn._labels import LinearClassifier, plain_labels

__all__ = ["RobustClassifier"]


class RobustClassifier(LinearClassifier, RobustLinear):
    """Linear classifier that minimises a robust risk of its losses.

    The fit minimises, over ``w = (coef, intercept)``::

        P(w) = R( loss(x_1 . coef + intercept, y_1), ..., loss(x_n . coef + intercept, y_n) ) + (l2 / 2) |coef|^2

    where the risk R, the mean under the worst-case weights q of an uncertainty set around the base weights p, takes the
    place of the average. p is uniform, or proportional to ``sample_weight * class_weight``: only ratios of weights matter,
    and the intercept is not penalised. With ``risk="mean"`` this is plain (ridge) logistic regression or a linear SVM.

    ============================================  =================================================
    scikit-learn (n samples, no sample weights)   here, with ``risk="mean"``
    ============================================  =================================================
    ``LogisticRegression(C=C)``                   ``l2 = 1 / (C * n)``
    ``LinearSVC(C=C, loss="hinge")``              ``loss="hinge", l2 = 1 / (C * n)`` (1)
    ``LinearSVC(C=C)``, a squared hinge           ``loss="squared_hinge", l2 = 1 / (2 * C * n)`` (1)
    ``RidgeClassifier(alpha=a)``                  ``loss="squared", l2 = a / n``
    ``SGDClassifier(alpha=a)``                    ``l2 = a``
    ============================================  =================================================

    (1) LinearSVC penalises its intercept, this class does not, and its squared hinge is ours without the half.

    Parameters
    ----------
    risk : leeward risk or str, default="chi_square"
        What replaces the average: ``leeward.CVaR(0.1)``, or a name with mild parameters: "mean", "worst", "cvar" and
        "superquantile" (alpha 0.5), "chi_square", "kl" and "cressie_read" (radius 0.1), "total_variation" (radius 0.2),
        "kl_cvar" and "smoothed_cvar" (alpha 0.5, penalty 0.1), "tilted" (t 1), "extremile" (draws 2), "exponential"
        (rate 2). ``set_params(risk__alpha=0.3)`` and searches over ``risk__alpha`` change them.
        A severe risk on noisy labels has a constant model as its optimum: then every sample is equally bad.
    loss : str or loss object, default="logistic"
        "logistic" (softmax cross-entropy for more than two classes), or for two classes "hinge", "squared_hinge"
        (``max(0, 1 - m)^2 / 2``), "squared" (``(z - y)^2 / 2`` on targets -1 and 1) or "sigmoid" (``1 / (1 + exp(m))``, which
        bounds what a wrong label costs; not convex, so without certificate). For more classes with these wrap the estimator in
        ``sklearn.multiclass.OneVsRestClassifier``: each class then has its own worst case.
    l2 : float, default=1e-4
        Strength of the ridge term, as ``alpha`` in SGDClassifier. With ``l2 > 0`` every fit has a certificate (`gap_`);
        0 is allowed and has none.
    fit_intercept : bool, default=True
        Whether to fit an intercept, which is not penalised.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes. "balanced" gives each class the same total base weight.
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
    coef_ : ndarray of shape (1, d) or (C, d)
        Coefficients; one row for two classes.
    intercept_ : ndarray of shape (1,) or (C,)
        Intercepts, zeros without `fit_intercept`; for more than two classes they sum to 0.
    classes_ : ndarray of shape (C,)
        Sorted labels of the training samples of positive weight.
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
    RobustRegressor : The same for real targets.
    RobustClassifierCV : With a choice of the risk's parameter by cross-validation.

    Examples
    --------
    >>> import leeward as lw
    >>> from leeward.sklearn import RobustClassifier
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = RobustClassifier(risk=lw.CVaR(0.2), l2=1e-2).fit(X, y)
    >>> bool(model.score(X, y) > 0.9)
    True
    """

    _supported = ("logistic", "softmax", "hinge", "squared_hinge", "squared", "sigmoid")

    def __init__(
        self,
        risk: Any = "chi_square",
        loss: Any = "logistic",
        *,
        l2: float = 1e-4,
        fit_intercept: bool = True,
        class_weight: Any = None,
        domain: Any = None,
        solver: Any = "auto",
        tol: float | None = None,
        max_passes: float | None = None,
        warm_start: bool = False,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: bool = False,
    ) -> None:
        super().__init__(
            risk,
            loss,
            l2=l2,
            fit_intercept=fit_intercept,
            domain=domain,
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
            Samples; float32 and float64, C-ordered or CSR, are used without a copy.
        y : array-like of shape (n,)
            Class labels: numbers, strings, booleans, categories.
        sample_weight : array-like of shape (n,), default=None
            Base weights; only ratios matter, and a weight of 0 is the same as leaving the sample out.
        groups : array-like of shape (n,), default=None
            Group labels. The risk is then taken over the weighted mean losses of the groups, each group counting the same.

        Returns
        -------
        self : RobustClassifier
            The fitted estimator.
        """
        X, y = self._check_features(X, reset=True, y=plain_labels(y))
        y = self._checked_labels(y)
        weight = weights_of(sample_weight, X.shape[0])
        weight, classes = self._weigh_classes(y, weight)
        same = hasattr(self, "classes_") and np.array_equal(self.classes_, classes)
        start = self._start() if same else None
        self.classes_ = classes
        return self._take(self._solve(X, self._codes(y), weight, groups, start))

    @available_if(learns_in_batches)  # type: ignore[untyped-decorator]
    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Learn from one batch of samples; further calls go on from there, and so does the first call after `fit`.

        A call makes one step of the stochastic proximal point method with averaging on the robust risk **of the batch**, which
        lies below the risk of all data the more the smaller batches are; some hundred samples are enough for mild risks. No step
        size needs choosing. Settings for `fit` such as `solver`, `tol` and `max_passes` are not used.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (m, d)
            The samples of the batch.
        y : array-like of shape (m,)
            Class labels; a batch need not have them all.
        classes : array-like of shape (C,), default=None
            All labels that will occur: needed in the first call, unless there was a `fit`.
        sample_weight : array-like of shape (m,), default=None
            Base weights; only ratios within the batch matter.

        Returns
        -------
        self : RobustClassifier
            The estimator.
        """
        _check_partial_fit_first_call(self, None if classes is None else np.asarray(plain_labels(classes)))
        if len(self.classes_) < 2:
            known = self.classes_.tolist()
            del self.classes_
            raise ValueError(f"classes must hold at least two labels, got {known}")
        X, y = self._check_features(X, reset=not hasattr(self, "coef_"), y=plain_labels(y))
        y = self._checked_labels(y)
        codes, weight = self._target(y), weights_of(sample_weight, X.shape[0])
        if isinstance(self.class_weight, str):
            raise ValueError(
                f"class_weight={self.class_weight!r} needs all labels at once: give partial_fit a dict of label to weight"
            )
        if self.class_weight is not None:
            factor = compute_class_weight(self.class_weight, classes=self.classes_, y=y)
            weight = (1.0 if weight is None else weight) * factor[codes]
        return self._take(self._learn(X, codes, weight))
