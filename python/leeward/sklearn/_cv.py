"""Robust estimators that choose a parameter of their risk by cross-validation along warm-started paths.

Every candidate is judged by the same yardstick on held-out data, by default by the risk that the user named, whatever the
parameter it was trained with: a risk of its own would always speak for the mildest candidate.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from scipy.stats import rankdata
from sklearn.metrics import check_scoring
from sklearn.model_selection import check_cv
from sklearn.utils.validation import column_or_1d

from leeward.sklearn._base import RobustLinear
from leeward.sklearn._classifier import RobustClassifier
from leeward.sklearn._errors import ConvergenceWarning, convergence_warnings
from leeward.sklearn._inputs import weights_of
from leeward.sklearn._labels import plain_labels
from leeward.sklearn._names import risk_of, risk_parameters
from leeward.sklearn._path import parameter_name, robust_path
from leeward.sklearn._regressor import RobustRegressor

__all__ = ["RobustClassifierCV", "RobustRegressorCV"]

# Values tried when none are given, from the mildest to the most robust. Penalties are in units of the loss.
_GRIDS: dict[str, tuple[float, ...]] = {
    "alpha": (0.9, 0.5, 0.2, 0.1, 0.05),
    "radius": (0.01, 0.03, 0.1, 0.3, 1.0),
    "penalty": (10.0, 3.0, 1.0, 0.3, 0.1),
    "l2": (1e-1, 1e-2, 1e-3, 1e-4, 1e-5),
}
_SEARCH = ("param", "values", "cv", "scoring", "refit")


class _Search(RobustLinear):
    """The cross-validation shared by the two classes; `_plain` is the class whose fits are compared."""

    _plain: type[RobustLinear]
    _streams = False

    def _search(self, X: Any, y: Any, sample_weight: Any, groups: Any, classifier: bool) -> Self:
        for name in [
            name for name in vars(self) if name.endswith("_") and name not in ("n_features_in_", "feature_names_in_")
        ]:
            delattr(self, name)
        weight = weights_of(sample_weight, X.shape[0])
        groups = None if groups is None else np.asarray(groups)
        settings = {k: v for k, v in self.get_params(deep=False).items() if k not in _SEARCH}
        base = self._plain(**settings)
        name, values = self._candidates(base)
        scorer = None if self.scoring is None else check_scoring(base, self.scoring)
        splits = list(check_cv(self.cv, y, classifier=classifier).split(X, y, groups))
        scores = np.empty((len(values), len(splits)))
        with convergence_warnings() as early:
            for k, (train, test) in enumerate(splits):
                path = robust_path(base, X[train], y[train], name, values, **_rows(train, weight, groups))
                held_out = _rows(test, weight, groups)
                for j, model in enumerate(path):
                    scores[j, k] = self._judge(scorer, model, X[test], y[test], held_out)
            self._report(name, values, scores)
            if self.refit:
                upto = values[: self.best_index_ + 1]
                self.best_estimator_ = robust_path(base, X, y, name, upto, sample_weight=weight, groups=groups)[-1]
        if early:
            warnings.warn(
                f"{type(self).__name__}: {len(early)} of the fits ended before tol={self.tol}; one said: {early[0]}",
                ConvergenceWarning,
                stacklevel=3,
            )
        if self.refit:
            fitted = {k: v for k, v in vars(self.best_estimator_).items() if k.endswith("_")}
            for name in fitted.keys() - {"n_features_in_", "feature_names_in_"}:
                setattr(self, name, fitted[name])
        return self

    def _candidates(self, base: RobustLinear) -> tuple[str, tuple[Any, ...]]:
        param = self.param
        if param is None:
            known = risk_parameters(risk_of(self.risk))
            param = next((p for p in ("alpha", "radius", "penalty") if known.get(p) is not None), "l2")
        values = self.values
        if values is None:
            short = param.removeprefix("risk__")
            if short not in _GRIDS:
                raise ValueError(f"values must be given for param={param!r}; only {sorted(_GRIDS)} have a usual range")
            values = _GRIDS[short]
        values = tuple(values)
        if not values:
            raise ValueError("values must hold at least one value, got none")
        return parameter_name(base, param), values

    def _judge(self, scorer: Any, model: Any, X: Any, y: Any, rows: dict[str, Any]) -> float:
        if scorer is None:
            return float(model.robust_score(X, y, risk=self.risk, **rows))
        extra = {} if rows["sample_weight"] is None else {"sample_weight": rows["sample_weight"]}
        return float(scorer(model, X, y, **extra))

    def _report(self, name: str, values: tuple[Any, ...], scores: Any) -> None:
        mean = scores.mean(axis=1)
        results: dict[str, Any] = {"params": [{name: value} for value in values]}
        results |= {f"split{k}_test_score": scores[:, k].copy() for k in range(scores.shape[1])}
        results["mean_test_score"] = mean
        results["std_test_score"] = scores.std(axis=1)
        results["rank_test_score"] = rankdata(-mean, method="min").astype(np.int32)
        self.cv_results_ = results
        self.best_index_ = int(np.argmax(mean))
        self.best_params_ = results["params"][self.best_index_]
        self.best_score_ = float(mean[self.best_index_])


def _rows(index: Any, weight: Any, groups: Any) -> dict[str, Any]:
    return {
        "sample_weight": None if weight is None else weight[index],
        "groups": None if groups is None else groups[index],
    }


class RobustClassifierCV(_Search, RobustClassifier):
    """`RobustClassifier` with one parameter, usually of its risk, chosen by cross-validation.

    For each fold the values are fitted in order, each started at the last one's coefficients, and judged on the held-out
    samples by one yardstick: by default the risk named by `risk`, whatever value was used for training. So
    ``RobustClassifierCV(risk=CVaR(0.1), values=[0.9, 0.5, 0.2, 0.1])`` asks which training level serves the worst tenth of
    new data best; training at a milder level often does.

    Parameters
    ----------
    risk, loss, l2, fit_intercept, class_weight, domain, solver, tol, max_passes, warm_start, random_state, n_jobs, verbose
        As in `RobustClassifier`.
    param : str or None, default=None
        The parameter to choose: one of the risk ("alpha", "radius", "penalty") or of the estimator ("l2"). None is the
        risk's own: the first of alpha, radius and penalty that it has, or l2.
    values : sequence or None, default=None
        Values to try, fitted in this order, each started at the last one's solution. None is a short range from mild to
        robust: alpha 0.9 to 0.05, radius 0.01 to 1, penalty 10 to 0.1 (units of the loss), l2 0.1 to 1e-5.
    cv : int, splitter or iterable, default=5
        Folds as in scikit-learn: stratified for classes; `groups` reach a splitter that uses them.
    scoring : str, callable or None, default=None
        None is `robust_score` with the `risk` of this estimator, the same for every value; else as in scikit-learn.
    refit : bool, default=True
        Whether to fit on all data with the best value. Without it there is only `cv_results_`.

    Attributes
    ----------
    cv_results_ : dict of arrays
        "params", "split<k>_test_score", "mean_test_score", "std_test_score", "rank_test_score".
    best_index_, best_params_, best_score_
        The chosen row of `cv_results_`, its parameter and its mean score.
    best_estimator_ : estimator
        The estimator fitted on all data (with `refit`); its attributes are also those of this object.
    coef_, intercept_, classes_, objective_, gap_, risk_, result_, n_iter_, n_features_in_, feature_names_in_
        As in `RobustClassifier`, for the best value.

    Examples
    --------
    >>> import leeward as lw
    >>> from leeward.sklearn import RobustClassifierCV
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = RobustClassifierCV(lw.CVaR(0.2), l2=1e-2, values=[1.0, 0.5, 0.2], cv=3).fit(X, y)
    >>> sorted(model.best_params_)
    ['risk__alpha']
    """

    _plain = RobustClassifier

    def __init__(
        self,
        risk: Any = "chi_square",
        loss: Any = "logistic",
        *,
        param: str | None = None,
        values: Sequence[Any] | None = None,
        cv: Any = 5,
        scoring: Any = None,
        refit: bool = True,
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
            class_weight=class_weight,
            domain=domain,
            solver=solver,
            tol=tol,
            max_passes=max_passes,
            warm_start=warm_start,
            random_state=random_state,
            n_jobs=n_jobs,
            verbose=verbose,
        )
        self.param = param
        self.values = values
        self.cv = cv
        self.scoring = scoring
        self.refit = refit

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Self:
        """Choose the parameter and, with `refit`, fit on all data.

        Parameters
        ----------
        X, y, sample_weight, groups
            As for `RobustClassifier.fit`. Scores of held-out samples use their weights and groups.

        Returns
        -------
        self : RobustClassifierCV
            The fitted estimator.
        """
        X, y = self._check_features(X, reset=True, y=plain_labels(y))
        return self._search(X, self._checked_labels(y), sample_weight, groups, classifier=True)


class RobustRegressorCV(_Search, RobustRegressor):
    """`RobustRegressor` with one parameter, usually of its risk, chosen by cross-validation.

    For each fold the values are fitted in order, each started at the last one's coefficients, and judged on the held-out
    samples by one yardstick: by default the risk named by `risk`, whatever value was used for training.

    Parameters
    ----------
    risk, loss, l2, fit_intercept, domain, solver, tol, max_passes, warm_start, random_state, n_jobs, verbose
        As in `RobustRegressor`.
    param : str or None, default=None
        The parameter to choose: one of the risk ("alpha", "radius", "penalty") or of the estimator ("l2"). None is the
        risk's own: the first of alpha, radius and penalty that it has, or l2.
    values : sequence or None, default=None
        Values to try, fitted in this order, each started at the last one's solution. None is a short range from mild to
        robust: alpha 0.9 to 0.05, radius 0.01 to 1, penalty 10 to 0.1 (units of the loss), l2 0.1 to 1e-5.
    cv : int, splitter or iterable, default=5
        Folds as in scikit-learn: stratified for classes; `groups` reach a splitter that uses them.
    scoring : str, callable or None, default=None
        None is `robust_score` with the `risk` of this estimator, the same for every value; else as in scikit-learn.
    refit : bool, default=True
        Whether to fit on all data with the best value. Without it there is only `cv_results_`.

    Attributes
    ----------
    cv_results_ : dict of arrays
        "params", "split<k>_test_score", "mean_test_score", "std_test_score", "rank_test_score".
    best_index_, best_params_, best_score_
        The chosen row of `cv_results_`, its parameter and its mean score.
    best_estimator_ : estimator
        The estimator fitted on all data (with `refit`); its attributes are also those of this object.
    coef_, intercept_, objective_, gap_, risk_, result_, n_iter_, n_features_in_, feature_names_in_
        As in `RobustRegressor`, for the best value.

    Examples
    --------
    >>> import leeward as lw
    >>> from leeward.sklearn import RobustRegressorCV
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = RobustRegressorCV(lw.CVaR(0.1), values=[0.5, 0.2, 0.1]).fit(X, y / 100)
    >>> model.cv_results_["mean_test_score"].shape
    (3,)
    """

    _plain = RobustRegressor

    def __init__(
        self,
        risk: Any = "chi_square",
        loss: Any = "squared",
        *,
        param: str | None = None,
        values: Sequence[Any] | None = None,
        cv: Any = 5,
        scoring: Any = None,
        refit: bool = True,
        l2: float = 1e-4,
        fit_intercept: bool = True,
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
        self.param = param
        self.values = values
        self.cv = cv
        self.scoring = scoring
        self.refit = refit

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Self:
        """Choose the parameter and, with `refit`, fit on all data.

        Parameters
        ----------
        X, y, sample_weight, groups
            As for `RobustRegressor.fit`. Scores of held-out samples use their weights and groups.

        Returns
        -------
        self : RobustRegressorCV
            The fitted estimator.
        """
        X, y = self._check_features(X, reset=True, y=y, y_numeric=True)
        return self._search(X, column_or_1d(y, dtype=np.float64), sample_weight, groups, classifier=False)
