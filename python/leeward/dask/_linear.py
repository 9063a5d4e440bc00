"""What both estimators share: fits on tables in partitions, and methods that are lazy on Dask collections."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

import leeward as lw
from leeward.dask._blocks import is_lazy
from leeward.dask._lazy import lazily, mean_score
from leeward.dask._table import Table
from leeward.sklearn._base import RobustLinear
from leeward.sklearn._inputs import switch, threads_of
from leeward.sklearn._linear import Array
from leeward.sklearn._names import risk_of

__all__ = ["InPartitions"]


class InPartitions(RobustLinear):
    """Mixed in before an estimator of leeward.sklearn, whose fit is done on partitions instead."""

    solver = "auto"
    _streams = False
    _whole = "fits whole collections"
    _plain_class: Any

    # -- fit --------------------------------------------------------------------------------------------------------
    def _model(self, X: Any, target: Any, sample_weight: Array | None, *, l2: float) -> lw.LinearModel:
        if not isinstance(X, Table):
            return super()._model(X, target, sample_weight, l2=l2)
        threads = threads_of(self.n_jobs)
        models = X.models(target, self._loss(), switch("fit_intercept", self.fit_intercept), threads)
        return lw.PartitionedModel(models, l2=l2, sample_weight=sample_weight, threads=threads)

    def _features(self, X: Any) -> Table:
        """X as a table, with the attributes that say what its columns are."""
        table = Table(X)
        self.n_features_in_ = table.shape[1]
        if table.columns is not None:
            self.feature_names_in_ = np.array(table.columns, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        return table

    def _targets(self, table: Table, y: Any) -> list[Any]:
        """Handles of what the oracles are given for y."""
        raise NotImplementedError

    # -- the fitted model -------------------------------------------------------------------------------------------
    def _plain(self) -> Any:
        """The same fitted model as an estimator of leeward.sklearn, small enough to travel."""
        check_is_fitted(self)
        plain = self._plain_class()
        plain.__dict__.update({name: value for name, value in self.__dict__.items() if name != "result_"})
        return plain

    def _answer(self, name: str, X: Any, dtype: Any = np.float64, width: int | None = None) -> Any:
        plain = self._plain()
        return lazily(plain, name, X, dtype, width) if is_lazy(X) else getattr(plain, name)(X)

    def predict(self, X: Any) -> Any:
        """Predictions: those of the estimator of `leeward.sklearn`.

        Parameters
        ----------
        X : Dask array or dataframe, list of delayed blocks, or array-like of shape (n, d)
            Samples.

        Returns
        -------
        predictions : Dask array, list of delayed arrays, or ndarray, of shape (n,)
            Lazy for a Dask array or dataframe and for a list of blocks.
        """
        return self._answer("predict", X, self._predicted_dtype())

    def _predicted_dtype(self) -> Any:
        return np.dtype(np.float64)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy of a classifier, R^2 of a regressor.

        Parameters
        ----------
        X : Dask array or dataframe, list of delayed blocks, or array-like of shape (n, d)
            Samples.
        y : of the same kind, of shape (n,)
            Labels or target values.
        sample_weight : of the same kind, of shape (n,), default=None
            Weights.

        Returns
        -------
        score : float
            Of Dask collections too, so that scikit-learn's searches over parameters and cross-validation work on Dask arrays.
        """
        plain = self._plain()
        if not is_lazy(X):
            return float(plain.score(X, y, sample_weight))
        return mean_score(plain, X, y, sample_weight, of_squares=not hasattr(self, "classes_"))

    def _evaluated(self, X: Any, y: Any, sample_weight: Any, groups: Any, risk: Any) -> tuple[lw.Robust, Any]:
        if not is_lazy(X):
            return super()._evaluated(X, y, sample_weight, groups, risk)
        check_is_fitted(self)
        table = Table(X)
        if table.shape[1] != self.n_features_in_:
            raise ValueError(f"X has {table.shape[1]} features, the model was fitted on {self.n_features_in_}")
        model = self._model(table, self._targets(table, y), table.weights(sample_weight), l2=0.0)
        used = self.risk_ if risk is None else risk_of(risk)
        problem = lw.Robust(model, used, groups=table.groups(groups))
        return problem, problem.evaluate(self._vector())

    def sample_losses(self, X: Any, y: Any) -> Array:
        """The loss of each sample, as an array of this process.

        Parameters
        ----------
        X : Dask array or dataframe, list of delayed blocks, or array-like of shape (n, d)
            Samples.
        y : of the same kind, of shape (n,)
            Labels or target values.

        Returns
        -------
        losses : ndarray of shape (n,)
            Losses of the fitted model.
        """
        if not is_lazy(X):
            return super().sample_losses(X, y)
        return np.array(self._evaluated(X, y, None, None, "mean")[1].losses)
