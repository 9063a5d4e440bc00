"""Robust linear models with the interface of scikit-learn.

`RobustClassifier` and `RobustRegressor` minimise  R(losses(w)) + (l2/2) |coef|^2  for any risk R and any convex loss;
`robust_path` fits a sequence of them, each started at the one before; the CV classes choose from such a path.
`SinkhornClassifier` and `SinkhornRegressor` are robust to points around the samples, by `leeward.Sinkhorn`.
`TiltedClassifier` and `TiltedRegressor` tilt samples in groups and the groups, by `leeward.HierarchicalTilt`.
`MeanDeviationPortfolio` weighs assets by the mean and the deviation of their returns.
Needs scikit-learn 1.6 or later: ``pip install "leeward[sklearn]"``.
"""

from __future__ import annotations

try:
    import sklearn as _sklearn  # noqa: F401
except ImportError as error:  # pragma: no cover - scikit-learn is there when the tests run
    raise ImportError('leeward.sklearn needs scikit-learn 1.6 or later: pip install "leeward[sklearn]"') from error

from leeward.sklearn._classifier import RobustClassifier
from leeward.sklearn._cv import RobustClassifierCV, RobustRegressorCV
from leeward.sklearn._errors import ConvergenceWarning
from leeward.sklearn._path import RobustPath, robust_path
from leeward.sklearn._portfolio import MeanDeviationPortfolio
from leeward.sklearn._regressor import RobustRegressor
from leeward.sklearn._sinkhorn_classifier import SinkhornClassifier
from leeward.sklearn._sinkhorn_regressor import SinkhornRegressor
from leeward.sklearn._tilted_classifier import TiltedClassifier
from leeward.sklearn._tilted_regressor import TiltedRegressor
from leeward.sklearn._worst_case import WorstCaseSamples

__all__ = [
    "ConvergenceWarning",
    "MeanDeviationPortfolio",
    "RobustClassifier",
    "RobustClassifierCV",
    "RobustPath",
    "RobustRegressor",
    "RobustRegressorCV",
    "SinkhornClassifier",
    "SinkhornRegressor",
    "TiltedClassifier",
    "TiltedRegressor",
    "WorstCaseSamples",
    "robust_path",
]
