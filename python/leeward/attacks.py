r"""Perturbations of the features that raise the loss of a fitted linear model: how much a model's accuracy owes to luck.

Each attack answers a copy of X in which every row has moved within ``|x' - x| <= epsilon``, along the gradient of its own loss::

    fgsm   x' = x + epsilon sign(g)                                                    one step
    pgd    x' <- project(x' + step sign(g))       or  project(x' + step g/|g|_2)       l-infinity or l2
    mim    v <- momentum v + g/|g|_1,  x' <- project(x' + step sign(v))

with ``g = grad_x loss(w.x' + b; y)``. For two classes and for real targets g keeps its direction while the slope of the loss keeps
its sign, so that one step is already the worst case; with more classes the walk counts.

Sources: Goodfellow, Shlens and Szegedy, 2015 (FGSM); Madry, Makelov, Schmidt, Tsipras and Vladu, 2018 (PGD); Dong, Liao, Pang, Su, Zhu, Hu
and Li, 2018 (MIM).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from leeward import _arrays
from leeward.losses import Softmax, Squared
from leeward.oracles import LinearModel

__all__ = ["fgsm", "mim", "pgd"]

Array = NDArray[Any]
_SHARE = 0.25  # of epsilon that a step moves by default


def fgsm(
    model: Any, X: ArrayLike, y: ArrayLike, epsilon: float, *, loss: Any = None, bounds: tuple[Any, Any] | None = None
) -> Array:
    """The fast gradient sign method: one step of length epsilon in every feature.

    Parameters
    ----------
    model : fitted estimator, or pair (LinearModel, w)
        Whose loss is to rise: a linear model of ``leeward.sklearn`` or scikit-learn with ``coef_`` and ``intercept_``, or a
        :class:`leeward.LinearModel` and its variables.
    X : array (n, d)
        Rows to be moved; dense.
    y : array (n,)
        Their labels, as the model takes them.
    epsilon : float
        Largest change of a feature.
    loss : str or loss, optional
        The loss to raise: that of the model by default, for other estimators "logistic" for two classes, "softmax" for more,
        "squared" without classes.
    bounds : (lower, upper), optional
        Numbers or arrays (d,) between which features stay, such as (0, 1) for images.

    Returns
    -------
    moved : array (n, d)
        In the dtype of X where that is floating, else float64.

    Raises
    ------
    TypeError
        If model has no coefficients, or X is sparse.
    ValueError
        If shapes do not fit, epsilon is negative or not finite, or rows of X lie outside bounds.

    Examples
    --------
    >>> import numpy as np, leeward as lw
    >>> from leeward import attacks
    >>> X, y = np.array([[1.0, 2.0], [-1.0, 0.5]]), np.array([1, 0])
    >>> attacks.fgsm((lw.LinearModel(X, y), np.array([1.0, -2.0, 0.0])), X, y, 0.5)
    array([[ 0.5,  2.5],
           [-0.5,  0. ]])
    """
    target = _Target(model, X, y, epsilon, loss, bounds)
    return target.within(target.X + epsilon * np.sign(target.gradient(target.X)))


def pgd(
    model: Any,
    X: ArrayLike,
    y: ArrayLike,
    epsilon: float,
    *,
    norm: str = "linf",
    steps: int = 20,
    step: float | None = None,
    random_start: bool = False,
    seed: int = 0,
    loss: Any = None,
    bounds: tuple[Any, Any] | None = None,
) -> Array:
    """Projected gradient ascent in the ball of radius epsilon around each row.

    Parameters
    ----------
    model, X, y, epsilon, loss, bounds : as for :func:`fgsm`
        With norm "l2" epsilon is the largest Euclidean length of a row's change.
    norm : "linf" or "l2", default "linf"
        Norm of the ball.
    steps : int, default 20
        Number of steps.
    step : float, optional
        Length of a step, ``epsilon/4`` by default.
    random_start : bool, default False
        Start from a random point of the ball instead of the row itself.
    seed : int, default 0
        Of that start.

    Returns
    -------
    moved : array (n, d)

    Raises
    ------
    TypeError, ValueError
        As for :func:`fgsm`.

    Examples
    --------
    >>> import numpy as np, leeward as lw
    >>> from leeward import attacks
    >>> X, y = np.array([[1.0, 2.0], [-1.0, 0.5]]), np.array([1, 0])
    >>> moved = attacks.pgd((lw.LinearModel(X, y), np.array([3.0, -4.0, 0.0])), X, y, 0.5, norm="l2")
    >>> moved - X
    array([[-0.3,  0.4],
           [ 0.3, -0.4]])
    """
    if norm not in ("linf", "l2"):
        raise ValueError(f"norm must be 'linf' or 'l2', got {norm!r}")
    if not isinstance(random_start, bool):
        raise TypeError(f"random_start must be True or False, got {random_start!r}")
    target, length = _Target(model, X, y, epsilon, loss, bounds), _length(steps, step, epsilon)
    moved = target.X
    if random_start:
        rng = np.random.default_rng(seed)
        if norm == "linf":
            start = rng.uniform(-epsilon, epsilon, size=moved.shape)
        else:
            start = _unit(rng.normal(size=moved.shape))
            start *= epsilon * rng.uniform(size=(len(moved), 1)) ** (1.0 / moved.shape[1])
        moved = target.within(moved + start)
    for _ in range(steps):
        g = target.gradient(moved)
        if norm == "linf":
            moved = target.within(moved + length * np.sign(g))
        else:
            moved = target.within(target.X + _shortened(moved + length * _unit(g) - target.X, epsilon))
    return moved


def mim(
    model: Any,
    X: ArrayLike,
    y: ArrayLike,
    epsilon: float,
    *,
    steps: int = 20,
    step: float | None = None,
    momentum: float = 1.0,
    loss: Any = None,
    bounds: tuple[Any, Any] | None = None,
) -> Array:
    """The momentum iterative method: signs of the accumulated, normalised gradients.

    Parameters
    ----------
    model, X, y, epsilon, loss, bounds : as for :func:`fgsm`
    steps : int, default 20
        Number of steps.
    step : float, optional
        Length of a step, ``epsilon/4`` by default.
    momentum : float, default 1.0
        Weight of the gradients so far.

    Returns
    -------
    moved : array (n, d)

    Raises
    ------
    TypeError, ValueError
        As for :func:`fgsm`.

    Examples
    --------
    >>> import numpy as np, leeward as lw
    >>> from leeward import attacks
    >>> X, y = np.array([[1.0, 2.0], [-1.0, 0.5]]), np.array([1, 0])
    >>> attacks.mim((lw.LinearModel(X, y), np.array([1.0, -2.0, 0.0])), X, y, 0.5) - X
    array([[-0.5,  0.5],
           [ 0.5, -0.5]])
    """
    if not (isinstance(momentum, int | float) and math.isfinite(momentum) and momentum >= 0):
        raise ValueError(f"momentum must be finite and at least 0, got {momentum!r}")
    target, length = _Target(model, X, y, epsilon, loss, bounds), _length(steps, step, epsilon)
    moved, sum_of = target.X, np.zeros_like(target.X)
    for _ in range(steps):
        g = target.gradient(moved)
        size = np.abs(g).sum(axis=1, keepdims=True)
        sum_of = momentum * sum_of + np.divide(g, size, out=np.zeros_like(g), where=size > 0)
        moved = target.within(np.clip(moved + length * np.sign(sum_of), target.X - epsilon, target.X + epsilon))
    return moved


class _Target:
    """The loss of a model as a function of the rows."""

    def __init__(self, model: Any, X: ArrayLike, y: ArrayLike, epsilon: float, loss: Any, bounds: Any) -> None:
        if hasattr(X, "toarray"):
            raise TypeError("X must be dense: an attack moves every feature; give X.toarray()")
        given = np.array(X)
        kind = given.dtype if given.dtype in (np.float32, np.float64) else np.dtype(np.float64)
        self.X = given.astype(kind, order="C", copy=False)
        if self.X.ndim != 2:
            raise ValueError(f"X must have shape (n, d), got {self.X.shape}")
        if not (isinstance(epsilon, int | float | np.number) and math.isfinite(epsilon) and epsilon >= 0):
            raise ValueError(f"epsilon must be finite and at least 0, got {epsilon!r}")
        self.epsilon = float(epsilon)
        self.coef, self.offset, self.loss, self.y = _read(model, np.array(y), loss)
        if self.coef.shape[1] != self.X.shape[1]:
            raise ValueError(f"the model has {self.coef.shape[1]} features, X has {self.X.shape[1]}")
        self.low: Any = -np.inf
        self.high: Any = np.inf
        if bounds is not None:
            self.low, self.high = (_arrays.doubles(b, "bounds") for b in bounds)
            if not np.all((self.low <= self.X) & (self.high >= self.X)):
                raise ValueError("rows of X lie outside bounds")

    def gradient(self, X: Array) -> Array:
        """The gradient of each row's loss in the row, (n, d)."""
        model = LinearModel(X, self.y, self.loss)
        slopes = model.slopes(np.concatenate([self.coef.ravel(), self.offset]))
        rows = slopes[:, None] * self.coef if slopes.ndim == 1 else slopes @ self.coef
        return np.array(rows, X.dtype)

    def within(self, X: Array) -> Array:
        """X inside the l-infinity ball and the bounds. (The l2 ball lies in the former.)"""
        near = np.clip(X, self.X - self.epsilon, self.X + self.epsilon)
        return np.array(np.clip(near, self.low, self.high), self.X.dtype)


def _read(model: Any, y: Array, loss: Any) -> tuple[Array, Array, Any, Array]:
    """Coefficients (C, d) or (1, d), intercepts, the loss, and labels as that takes them."""
    if isinstance(model, tuple):
        if not (len(model) == 2 and isinstance(model[0], LinearModel)):
            raise TypeError("model must be a fitted linear estimator or a pair (LinearModel, w)")
        linear = model[0]
        w = _arrays.point(model[1], linear.dim)
        outputs, d = linear.n_outputs, linear.n_features
        offset = w[outputs * d :] if linear.intercept else np.zeros(outputs)
        return w[: outputs * d].reshape(outputs, d), offset, linear.loss if loss is None else loss, y
    if not hasattr(model, "coef_"):
        raise TypeError(
            f"model must be a fitted linear estimator or a pair (LinearModel, w), got {type(model).__name__}"
        )
    coef = np.atleast_2d(_arrays.doubles(model.coef_, "coef_"))
    offset = np.broadcast_to(np.atleast_1d(_arrays.doubles(model.intercept_, "intercept_")), len(coef)).copy()
    classes = getattr(model, "classes_", None)
    if classes is not None:
        code = np.searchsorted(classes, y)
        known = code < len(classes)
        known[known] = np.asarray(classes)[code[known]] == y[known]
        if not known.all():
            raise ValueError(f"y holds {y[~known][0]}, which is no class of the model")
        y = code
    usual = "squared" if classes is None else "logistic" if len(coef) == 1 else "softmax"
    own = getattr(model, "loss", None)
    chosen = own if type(model).__module__.startswith("leeward.") and own not in (None, "auto") else usual
    chosen = chosen if loss is None else loss
    if isinstance(chosen, str) and chosen in ("logistic", "softmax") and len(coef) > 1:
        chosen = Softmax(len(coef))
    if classes is not None and (chosen == "squared" or isinstance(chosen, Squared)):
        y = 2 * y - 1
    return coef, offset, chosen, y


def _length(steps: int, step: float | None, epsilon: float) -> float:
    if isinstance(steps, bool) or not isinstance(steps, int) or steps < 1:
        raise ValueError(f"steps must be a whole number of at least 1, got {steps!r}")
    if step is None:
        return _SHARE * epsilon
    if not (math.isfinite(step) and step > 0):
        raise ValueError(f"step must be positive and finite, got {step!r}")
    return float(step)


def _unit(g: Array) -> Array:
    """Rows of length 1, and of length 0 where they were."""
    size = np.linalg.norm(g, axis=1, keepdims=True)
    unit: Array = np.divide(g, size, out=np.zeros_like(g), where=size > 0)
    return unit


def _shortened(move: Array, epsilon: float) -> Array:
    """Rows of at most length epsilon."""
    size = np.linalg.norm(move, axis=1, keepdims=True)
    share: Array = np.minimum(1.0, np.divide(epsilon, size, out=np.ones_like(size), where=size > 0))
    return move * share
