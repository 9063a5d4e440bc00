"""`RobustRegressor` on Dask collections."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

import leeward as lw
from leeward import sklearn
from leeward.dask._linear import InPartitions
from leeward.dask._table import Table
from leeward.sklearn._errors import convergence_warnings
from leeward.sklearn._inputs import level, threads_of
from leeward.sklearn._linear import Array
from leeward.sklearn._regressor import loss_scale

__all__ = ["RobustRegressor"]


class RobustRegressor(InPartitions, sklearn.RobustRegressor):
    """Robust linear regression on Dask arrays, dataframes and delayed partitions.

    The problem, the parameters and the attributes are those of ``leeward.sklearn.RobustRegressor``, and so is the answer, up to the
    rounding of sums, however the rows are cut. Each partition stays on the worker that loaded it and is asked for losses, slopes
    and weighted gradients; the risk is solved over all losses in the process that calls ``fit``, which holds some vectors of n numbers
    and samples of rows of at most 2^24 numbers, never X. A partition whose worker is lost is loaded again and the fit goes on.

    Parameters
    ----------
    risk : leeward risk or str, default="chi_square"
        What replaces the average.
    loss : str or loss object, default="squared"
        The loss.
    l2 : float, default=1e-4
        Strength of the ridge term.
    fit_intercept : bool, default=True
        Whether to fit an intercept, which is not penalised.
    domain : leeward domain, prox term or None, default=None
        Where the coefficients may lie, or a term of the objective.
    tol : float or None, default=None
        Certified relative gap at which the fit stops.
    max_passes : float or None, default=None
        Budget in passes over the data.
    warm_start : bool, default=False
        Start from the coefficients of the last fit when their shape fits.
    random_state : int, RandomState, Generator or None, default=None
        Seed of the samples of rows.
    n_jobs : int or None, default=None
        Threads for one partition. None is one on a cluster, where partitions run side by side, and all CPUs without.
    verbose : bool, default=False
        Whether to show progress.

    Attributes
    ----------
    coef_, intercept_, objective_, gap_, risk_, result_, n_iter_, n_samples_seen_, n_features_in_, feature_names_in_
        As in ``leeward.sklearn.RobustRegressor``.

    Notes
    -----
    The cluster is that of the current ``distributed.Client``; without one Dask's local scheduler loads the partitions.

    Examples
    --------
    >>> import dask.array as da, numpy as np
    >>> from leeward.dask import RobustRegressor
    >>> X = da.from_array(np.arange(8.0).reshape(8, 1), chunks=(3, 1))
    >>> model = RobustRegressor(risk="cvar", l2=1e-6, tol=1e-9).fit(X, 2 * X[:, 0] + 1)
    >>> model.predict(X).compute().round(2)
    array([ 1.,  3.,  5.,  7.,  9., 11., 13., 15.])
    """

    _plain_class = sklearn.RobustRegressor

    def __init__(
        self,
        risk: Any = "chi_square",
        loss: Any = "squared",
        *,
        l2: float = 1e-4,
        fit_intercept: bool = True,
        domain: Any = None,
        tol: float | None = None,
        max_passes: float | None = None,
        warm_start: bool = False,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: bool = False,
    ) -> None:
        self.risk = risk
        self.loss = loss
        self.l2 = l2
        self.fit_intercept = fit_intercept
        self.domain = domain
        self.tol = tol
        self.max_passes = max_passes
        self.warm_start = warm_start
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Self:
        """Fit the regression.

        Parameters
        ----------
        X : Dask array or dataframe, list of delayed blocks, or array-like of shape (n, d)
            Samples; blocks are arrays, CSR matrices or dataframes. Blocks may be empty. Plain arrays are cut.
        y : of the same kind, or any array-like, of shape (n,)
            Target values. Dask collections may be cut otherwise than X where sizes are known; a list has the blocks of X.
        sample_weight : as y, default=None
            Base weights; only ratios matter.
        groups : as y, default=None
            Group labels: the risk is then taken over the groups' mean losses.

        Returns
        -------
        self : RobustRegressor
            The fitted estimator.
        """
        table = self._features(X)
        target, weight = self._targets(table, y), table.weights(sample_weight)
        start = self._start()
        if start is None and (scale := loss_scale(self._loss())) is not None:
            start = self._near(table, target, weight, scale)
        handed, target = [target], []  # nothing here keeps it on the workers while the models are in use
        return self._take(self._solve(table, handed.pop(), weight, table.groups(groups), start))

    def _targets(self, table: Table, y: Any) -> list[Any]:
        return table.ask(_numbers, table.column(y, "y"))

    def _near(self, table: Table, target: list[Any], weight: Array | None, scale: float) -> Array | None:
        """A fit with the Huber loss: a loss that is not convex needs a start near its solution."""
        models = table.models(target, lw.losses.Huber(scale), bool(self.fit_intercept), threads_of(self.n_jobs))
        model = lw.PartitionedModel(models, l2=level("l2", self.l2), sample_weight=weight)
        with convergence_warnings():
            x = lw.minimize(model, max_passes=30, tol=1e-3, threads=threads_of(self.n_jobs)).x
        return x if np.isfinite(x).all() else None


def _numbers(y: Any) -> Any:
    try:
        return y.astype(np.float64, copy=False)
    except (TypeError, ValueError) as error:
        raise ValueError(f"y must hold numbers: {error}") from error
