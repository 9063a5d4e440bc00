"""Robust linear models on Dask collections: each worker keeps its rows and runs the core on them.

`RobustClassifier` and `RobustRegressor` are those of `leeward.sklearn` for arrays, dataframes and delayed partitions that need not
fit into one machine: losses, weights and sums of gradients are exchanged, X stays where it is.
Needs Dask and scikit-learn: ``pip install "leeward[dask]"``.
"""

from __future__ import annotations

try:
    import dask as _dask  # noqa: F401
except ImportError as error:  # pragma: no cover - Dask is there when the tests run
    raise ImportError('leeward.dask needs Dask: pip install "leeward[dask]"') from error

from leeward.dask._classifier import RobustClassifier
from leeward.dask._regressor import RobustRegressor

__all__ = ["RobustClassifier", "RobustRegressor"]
