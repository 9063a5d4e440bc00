"""`RobustClassifier` on Dask collections: labels are found over all partitions."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from leeward import sklearn
from leeward.dask._linear import InPartitions
from leeward.dask._table import Table
from leeward.sklearn._labels import class_factors, is_logistic
from leeward.sklearn._linear import Array
from leeward.sklearn._names import loss_name

__all__ = ["RobustClassifier"]


class RobustClassifier(InPartitions, sklearn.RobustClassifier):
    """Robust linear classifier on Dask arrays, dataframes and delayed partitions.

    The problem, the parameters and the attributes are those of ``leeward.sklearn.RobustClassifier``, and so is the answer, up to the
    rounding of sums, however the rows are cut. Each partition stays on the worker that loaded it and is asked for losses, slopes
    and weighted gradients; the risk is solved over all losses in the process that calls ``fit``, which holds some vectors of n numbers
    and samples of rows of at most 2^24 numbers, never X. A partition whose worker is lost is loaded again and the fit goes on.

    Parameters
    ----------
    risk : leeward risk or str, default="chi_square"
        What replaces the average.
    loss : str or loss object, default="logistic"
        The loss.
    l2 : float, default=1e-4
        Strength of the ridge term.
    fit_intercept : bool, default=True
        Whether to fit an intercept, which is not penalised.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes. "balanced" gives each class the same total base weight.
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
    classes_ : ndarray of shape (C,)
        Sorted labels of the samples of positive weight in any partition.
    coef_, intercept_, objective_, gap_, risk_, result_, n_iter_, n_samples_seen_, n_features_in_, feature_names_in_
        As in ``leeward.sklearn.RobustClassifier``.

    Notes
    -----
    The cluster is that of the current ``distributed.Client``; without one Dask's local scheduler loads the partitions.

    Examples
    --------
    >>> import dask.array as da, numpy as np, leeward as lw
    >>> from leeward.dask import RobustClassifier
    >>> X = da.random.default_rng(0).normal(size=(300, 2), chunks=(100, 2))
    >>> model = RobustClassifier(lw.CVaR(0.5)).fit(X, X[:, 0] > 0)
    >>> model.score(X, X[:, 0] > 0) > 0.95
    True
    """

    _plain_class = sklearn.RobustClassifier

    def __init__(
        self,
        risk: Any = "chi_square",
        loss: Any = "logistic",
        *,
        l2: float = 1e-4,
        fit_intercept: bool = True,
        class_weight: Any = None,
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
        self.class_weight = class_weight
        self.domain = domain
        self.tol = tol
        self.max_passes = max_passes
        self.warm_start = warm_start
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Self:
        """Fit the classifier.

        Parameters
        ----------
        X : Dask array or dataframe, list of delayed blocks, or array-like of shape (n, d)
            Samples; blocks are arrays, CSR matrices or dataframes. Blocks may be empty. Plain arrays are cut.
        y : of the same kind, or any array-like, of shape (n,)
            Class labels. Dask collections may be cut otherwise than X where sizes are known; a list has the blocks of X.
        sample_weight : as y, default=None
            Base weights; only ratios matter, and a weight of 0 is the same as leaving the sample out.
        groups : as y, default=None
            Group labels: the risk is then taken over the groups' mean losses.

        Returns
        -------
        self : RobustClassifier
            The fitted estimator.
        """
        table = self._features(X)
        labels, weight = table.column(y, "y"), table.weights(sample_weight)
        weight, classes = self._weighed(table, labels, weight)
        same = hasattr(self, "classes_") and np.array_equal(self.classes_, classes)
        start = self._start() if same else None
        self.classes_ = classes
        numbers, target = table.groups(groups), self._encoded(table, labels, known=False)
        handed, labels, target = [target], [], []  # nothing here keeps them on the workers while the models are in use
        return self._take(self._solve(table, handed.pop(), weight, numbers, start))

    def _weighed(self, table: Table, labels: list[Any], weight: Array | None) -> tuple[Array | None, NDArray[Any]]:
        """Base weights with the class weights in them, and the classes that have some weight."""
        parts = [None] * len(labels) if weight is None else table.cut(weight)
        found = table.fetch(table.ask(_masses, labels, parts))
        table.one_kind([names for names, _ in found], "y")
        classes, place = np.unique(np.concatenate([names for names, _ in found]), return_inverse=True)
        mass = np.bincount(place, np.concatenate([part for _, part in found])).astype(np.float64)
        if self.class_weight is not None:
            factor = class_factors(self.class_weight, classes, mass)
            weight = np.concatenate(table.fetch(table.ask(_weights, labels, parts, [(classes, factor)] * len(labels))))
            mass = mass * factor
        classes = classes[mass > 0]
        self._check_classes(classes, weight is not None)
        return weight, classes

    def _encoded(self, table: Table, labels: list[Any], known: bool) -> list[Any]:
        signs = loss_name(self.loss) == "squared"
        return table.shared(_encode, labels, more=(self.classes_, signs, known))

    def _targets(self, table: Table, y: Any) -> list[Any]:
        return self._encoded(table, table.column(y, "y"), known=True)

    def _predicted_dtype(self) -> Any:
        check_is_fitted(self)
        return self.classes_.dtype

    def decision_function(self, X: Any) -> Any:
        """Scores of the samples.

        Parameters
        ----------
        X : Dask array or dataframe, list of delayed blocks, or array-like of shape (n, d)
            Samples.

        Returns
        -------
        scores : of the kind of X, of shape (n,) or (n, C)
            For two classes the score of ``classes_[1]``. Lazy for Dask collections.
        """
        return self._answer("decision_function", X, width=self._width(2))

    @available_if(is_logistic)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Any:
        """Class probabilities.

        Parameters
        ----------
        X : Dask array or dataframe, list of delayed blocks, or array-like of shape (n, d)
            Samples.

        Returns
        -------
        probabilities : of the kind of X, of shape (n, C)
            Rows sum to 1. Lazy for Dask collections.
        """
        return self._answer("predict_proba", X, width=self._width(0))

    @available_if(is_logistic)  # type: ignore[untyped-decorator]
    def predict_log_proba(self, X: Any) -> Any:
        """Logarithms of the class probabilities.

        Parameters
        ----------
        X : Dask array or dataframe, list of delayed blocks, or array-like of shape (n, d)
            Samples.

        Returns
        -------
        log_probabilities : of the kind of X, of shape (n, C)
            Logarithms of `predict_proba`. Lazy for Dask collections.
        """
        return self._answer("predict_log_proba", X, width=self._width(0))

    def _width(self, single: int) -> int | None:
        """Columns of an answer that has one a class; None where so many classes have a single one."""
        classes = len(getattr(self, "classes_", ()))
        return None if classes == single else classes


def _masses(labels: Any, weight: Any) -> tuple[Any, Any]:
    check_classification_targets(labels)
    classes, codes = np.unique(labels, return_inverse=True)
    return classes, np.bincount(codes, weight).astype(np.float64)


def _weights(labels: Any, weight: Any, factors: tuple[Any, Any]) -> Any:
    classes, factor = factors
    own = factor[np.searchsorted(classes, labels)]
    return own if weight is None else weight * own


def _encode(labels: Any, classes: Any, signs: bool, known: bool) -> Any:
    codes = np.searchsorted(classes, labels)
    codes = np.minimum(codes, len(classes) - 1)  # other labels have weight 0 in a fit, where any code will do
    if known and not (classes[codes] == labels).all():
        first = int(np.argmax(classes[codes] != labels))
        raise ValueError(f"y must hold labels among classes_ {classes.tolist()}, got {labels[first]!r}")
    return 2.0 * codes - 1.0 if signs else codes
