"""Every estimator passes scikit-learn's own checks, with no expected failure."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("sklearn")

from sklearn.utils.estimator_checks import parametrize_with_checks

from leeward.sklearn import (
    MeanDeviationPortfolio,
    RobustClassifier,
    RobustClassifierCV,
    RobustRegressor,
    RobustRegressorCV,
    SinkhornClassifier,
    SinkhornRegressor,
    TiltedClassifier,
    TiltedRegressor,
)

ESTIMATORS = [
    RobustClassifier(),
    RobustRegressor(),
    RobustClassifierCV(values=[0.03, 0.1], cv=3),
    RobustRegressorCV(values=[0.03, 0.1], cv=3),
    SinkhornClassifier(),
    SinkhornClassifier(exact=False),
    SinkhornRegressor(),
    SinkhornRegressor("chi2", cost="l1", noise=0.4),
    MeanDeviationPortfolio(),
    TiltedClassifier(l2=1e-2),
    TiltedRegressor(),
]


# Folds of a few rows with random labels, where the constant model is optimal, may end short of the tolerance.
@pytest.mark.filterwarnings("ignore::leeward.sklearn.ConvergenceWarning")
@parametrize_with_checks(ESTIMATORS)
@pytest.mark.filterwarnings("ignore:every entry of X exceeds 1:UserWarning")  # some checks have such tables
@pytest.mark.filterwarnings("ignore:Estimator's parameters changed after set_params raised:UserWarning")
def test_estimator_keeps_scikit_learns_contract(estimator: Any, check: Any) -> None:
    check(estimator)
