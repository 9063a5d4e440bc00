"""What all linear estimators share: checked features, the run of a solver, and the scores of a fitted model.

The vector that the solver works on is  w = [coef, intercept]  (several outputs: coef by rows, then the intercepts).
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

import leeward as lw
from leeward.sklearn._errors import ConvergenceWarning, convergence_warnings
from leeward.sklearn._inputs import in_file, refuse_masked, seed_of, switch, threads_of

__all__ = ["Array", "LinearFit", "linear_scores"]

Array = NDArray[np.float64]
_ROWS = 8192  # float32 rows that `linear_scores` widens at a time


class LinearFit(BaseEstimator):  # type: ignore[misc]
    """Base of the linear estimators; subclasses say which problem is solved and what the targets are."""

    _supported: tuple[str, ...] = ()
    _in_place = True  # whether fits read X where it lies

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "coef_")

    # -- input ------------------------------------------------------------------------------------------------------
    def _check_features(self, X: Any, *, reset: bool = False, **y: Any) -> Any:
        """Validated X (or X, y); float32 and float64 stay as they are, sparse becomes CSR."""
        refuse_masked(X, "X")
        refuse_masked(y.get("y"), "y")
        try:
            finite = not (self._in_place and in_file(X))  # there the model looks, block by block
            return validate_data(
                self, X, reset=reset, accept_sparse="csr", dtype=(np.float64, np.float32), ensure_all_finite=finite, **y
            )
        except ValueError as error:
            names = getattr(X, "columns", None)
            if "same order" in str(error) and names is not None and hasattr(self, "feature_names_in_"):
                fitted = ", ".join(map(str, self.feature_names_in_))
                raise ValueError(f"{error}Expected the columns {fitted}; got {', '.join(map(str, names))}.") from None
            raise

    def _model(self, X: Any, target: Any, sample_weight: Array | None, *, l2: float) -> lw.LinearModel:
        return lw.LinearModel(
            X,
            target,
            self._loss(),
            l2=l2,
            intercept=switch("fit_intercept", self.fit_intercept),
            sample_weight=sample_weight,
            threads=threads_of(self.n_jobs),
        )

    def _loss(self) -> Any:
        raise NotImplementedError

    def _target(self, y: Any) -> Any:
        """What the oracle is given for the labels or values y of a fitted estimator."""
        raise NotImplementedError

    # -- fit --------------------------------------------------------------------------------------------------------
    def _minimised(
        self,
        problem: lw.Robust,
        start: Array | None,
        solver: lw.Algorithm | None,
        tolerances: tuple[float, float | None],
        X: Any,
        domain: Any,
        enough: Callable[[lw.State], bool] | None = None,
    ) -> Array:
        """The solution, with the attributes that do not depend on the kind of target.

        `tolerances` are the relative gap without which the fit warns, and the one to try for. Within the former a run may also end
        where `enough` says that the latter asks for more than there is.
        """
        if start is not None and start.shape != (problem.dim,):
            start = None
        promised, aim = tolerances
        # An overflow inside a run is reported below, as an error about X and not as a warning about arithmetic.
        with np.errstate(over="ignore", invalid="ignore"), convergence_warnings() as early:
            result = lw.minimize(
                problem,
                start,
                solver,
                domain=domain,
                max_passes=self.max_passes,
                tol=aim,
                seed=seed_of(self.random_state),
                callback=enough,
                threads=threads_of(self.n_jobs),
                verbose=bool(self.verbose),
            )
        w = np.array(result.x, dtype=np.float64)
        if not np.all(np.isfinite(w)) or not np.isfinite(result.fun):
            top = float(max(X.max(), -X.min()))
            raise ValueError(
                f"the fit ended with coefficients that are not finite; the entries of X reach {top:.3g}: "
                "scale the columns, for example with sklearn.preprocessing.StandardScaler"
            )
        kept = result.gap is not None and result.gap <= promised * self._size(problem, w, float(result.fun))
        if kept and result.status == lw.Status.STOPPED_BY_CALLBACK:
            message = f"converged to what the certificate resolves: {result.fun:.9g} is within {result.gap:.3g} of the optimum"
            result = dataclasses.replace(result, status=lw.Status.CONVERGED, message=message)
        if (
            not (early or kept)
            and result.status == lw.Status.BUDGET
            and np.array_equal(w, np.zeros_like(w) if start is None else start)
        ):
            early.append(f"no point of the run was better than its start: raise max_passes. {result.message}")
        if early and not kept:
            warnings.warn(f"{type(self).__name__}: {early[0]}", ConvergenceWarning, stacklevel=4)
        # The weights of the training samples stay out of the stored model: worst_case_weights(X, y) gives them again.
        self.result_ = dataclasses.replace(result, weights=np.empty(0))
        self.objective_ = float(result.fun)
        self.gap_ = None if result.gap is None else float(result.gap)
        self.n_iter_ = int(result.nit)
        self.n_samples_seen_ = int(X.shape[0])
        return w

    def _size(self, problem: Any, w: Array, value: float) -> float:
        """What a gap is compared with."""
        return abs(value)

    def _start(self) -> Array | None:
        """The fitted coefficients as a vector w when `warm_start` asks for them."""
        if not (switch("warm_start", self.warm_start) and hasattr(self, "coef_")):
            return None
        return self._vector()

    def _vector(self) -> Array:
        coef = np.ravel(self.coef_)
        return np.concatenate([coef, np.ravel(self.intercept_)]) if self.fit_intercept else coef

    def sample_losses(self, X: Any, y: Any) -> Array:
        """The loss of each sample.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n, d)
            Samples.
        y : array-like of shape (n,)
            Labels or target values.

        Returns
        -------
        losses : ndarray of shape (n,)
            Losses of the fitted model, to be given to any risk: ``leeward.CVaR(0.1)(model.sample_losses(X, y))``.
        """
        check_is_fitted(self)
        X = self._check_features(X)
        return np.array(self._model(X, self._target(y), None, l2=0.0).losses(self._vector()))

    def _scores(self, X: Any) -> Array:
        check_is_fitted(self)
        return linear_scores(self._check_features(X), np.atleast_2d(self.coef_), np.atleast_1d(self.intercept_))


def linear_scores(X: Any, coef: Array, intercept: Array) -> Array:
    """X coef^T + intercept of shape (n, k) in double precision; float32 rows are widened a block at a time."""
    if in_file(X):  # checked and read by the core, which gives the pages of the file back behind it
        k = len(coef)
        labels, loss = (np.zeros(1), "squared") if k == 1 else (np.arange(k), "softmax")
        model = lw.LinearModel(np.zeros((len(labels), X.shape[1])), labels, loss)
        return model.scores(np.concatenate([coef.ravel(), intercept]), X).reshape(-1, k)
    if sp.issparse(X) or X.dtype == np.float64:
        return np.asarray(X @ coef.T + intercept)
    scores = np.empty((X.shape[0], coef.shape[0]))
    for first in range(0, X.shape[0], _ROWS):
        scores[first : first + _ROWS] = X[first : first + _ROWS].astype(np.float64) @ coef.T
    scores += intercept
    return scores
