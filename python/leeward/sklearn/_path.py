"""A sequence of robust fits over one parameter, each started at the solution before it."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

__all__ = ["RobustPath", "parameter_name", "robust_path"]


@dataclass(frozen=True)
class RobustPath:
    """Fitted estimators along a path; `path[k]` is the one for `values[k]`.

    Attributes
    ----------
    param : str
        The parameter, as set_params takes it.
    values : tuple of length k
        Its values, in the order of the fits.
    estimators : tuple of length k
        The fitted estimators.
    """

    param: str
    values: tuple[Any, ...]
    estimators: tuple[Any, ...]

    def __len__(self) -> int:
        return len(self.estimators)

    def __getitem__(self, index: int) -> Any:
        return self.estimators[index]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.estimators)

    @property
    def coefs(self) -> NDArray[np.float64]:
        """Coefficients of all fits, shape (k, *coef_.shape)."""
        return np.stack([model.coef_ for model in self.estimators])

    @property
    def intercepts(self) -> NDArray[np.float64]:
        """Intercepts of all fits, shape (k, *shape of intercept_)."""
        return np.stack([np.asarray(model.intercept_) for model in self.estimators])

    @property
    def objectives(self) -> NDArray[np.float64]:
        """The objectives P at the fits, shape (k,)."""
        return np.array([model.objective_ for model in self.estimators])

    @property
    def gaps(self) -> NDArray[np.float64]:
        """The certified gaps, shape (k,); NaN where there is no certificate."""
        return np.array([np.nan if model.gap_ is None else model.gap_ for model in self.estimators])


def parameter_name(estimator: Any, param: str) -> str:
    """'risk__alpha' for 'alpha' when the risk has it and the estimator has not."""
    known = estimator.get_params(deep=True)
    for name in (param, f"risk__{param}"):
        if name in known:
            return name
    raise ValueError(
        f"param must be a parameter of the estimator or of its risk, one of {sorted(known)}, got {param!r}"
    )


def robust_path(
    estimator: Any,
    X: Any,
    y: Any,
    param: str,
    values: Sequence[Any],
    *,
    sample_weight: Any = None,
    groups: Any = None,
) -> RobustPath:
    """Fit an estimator for each value of a parameter, each fit started at the last one's coefficients.

    Parameters
    ----------
    estimator : RobustClassifier or RobustRegressor
        The estimator; it is not changed.
    X, y, sample_weight, groups
        As for its ``fit``.
    param : str
        A parameter of the estimator ("l2") or of its risk ("alpha", "radius", "penalty"; the same as "risk__alpha").
    values : sequence of length k
        Values, fitted in this order: neighbours should be close, from the mildest to the most robust for instance.

    Returns
    -------
    path : RobustPath
        The fitted estimators with their coefficients, objectives and gaps.

    Raises
    ------
    ValueError
        If there is no such parameter, no value, or a fit fails.

    Examples
    --------
    >>> import leeward as lw
    >>> from leeward.sklearn import RobustClassifier, robust_path
    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> path = robust_path(RobustClassifier(lw.CVaR(0.5), l2=0.1), X[:, :4] / 100, y, "alpha", [0.8, 0.4, 0.2])
    >>> bool((path.objectives[1:] >= path.objectives[:-1] - path.gaps[:-1]).all())
    True
    """
    name = parameter_name(estimator, param)
    values = tuple(values)
    if not values:
        raise ValueError("values must hold at least one value, got none")
    model = clone(estimator).set_params(warm_start=True)
    fitted = []
    for value in values:
        model.set_params(**{name: value}).fit(X, y, sample_weight=sample_weight, groups=groups)
        step = copy.copy(model)  # fit binds new arrays, so a shallow copy keeps this one's
        fitted.append(step.set_params(warm_start=estimator.warm_start))
    return RobustPath(name, values, tuple(fitted))
