"""Checks for oracles and levels of your own: the mistakes that make every fit built on them fail, found in seconds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from leeward.oracles import Level, Oracle

__all__ = ["LevelReport", "OracleReport", "check_level", "check_oracle"]


@dataclass(frozen=True)
class OracleReport:
    """What `check_oracle` measured, all of it within tolerance.

    Attributes
    ----------
    gradient_error : float
        Largest difference between the gradient and central differences of the losses, relative to the scale of both.
    pairing_error : float
        Largest difference between a weighted gradient and the sum of single-sample gradients, relative to its scale.
    batch_error : float
        Largest difference between losses of a batch and of the whole, relative to their scale.
    samples, directions : int
        Samples in the batch and directions of the differences.
    """

    gradient_error: float
    pairing_error: float
    batch_error: float
    samples: int
    directions: int


def check_oracle(
    oracle: Oracle, w: ArrayLike | None = None, index: ArrayLike | None = None, seed: int = 0, tol: float = 1e-5
) -> OracleReport:
    """Check an oracle at one point: finite differences, weights, batches, determinism, untouched arguments.

    Parameters
    ----------
    oracle : Oracle
    w : array (dim,), optional
        The point; standard normal numbers by default. Choose a point without kinks of the losses.
    index : int array (m,), optional
        The batch, at least one sample; up to 16 samples drawn at random by default.
    seed : int, default 0
        Of the random point, batch, weights and directions.
    tol : float, default 1e-5
        Largest relative error of finite differences; sums that must agree to rounding are held to 1e-8.

    Returns
    -------
    OracleReport

    Raises
    ------
    AssertionError
        With a sentence saying what is wrong and for which samples.

    Examples
    --------
    >>> import numpy as np, leeward as lw
    >>> from leeward.testing import check_oracle
    >>> a = np.arange(5.0)
    >>> oracle = lw.FunctionOracle(
    ...     losses=lambda w, index: (w[0] - a[index]) ** 2,
    ...     gradient=lambda w, weights, index: np.array([np.sum(weights * (w[0] - a[index]))]),  # the factor 2 is missing
    ...     size=5, dim=1)
    >>> check_oracle(oracle)
    Traceback (most recent call last):
        ...
    AssertionError: the gradient is not the derivative of the losses: ...
    """
    rng = np.random.default_rng(seed)
    point = rng.standard_normal(oracle.dim) if w is None else np.array(w, dtype=float)
    chosen = _batch(oracle, index, rng)
    probe = _Probe(oracle, point, chosen)
    losses = probe.losses()
    weights = rng.standard_normal(chosen.size)
    gradient = probe.gradient(weights)

    _same(losses, probe.losses(), "losses", "the same w and index")
    _same(gradient, probe.gradient(weights), "gradient", "the same w, weights and index")
    batch_error = _check_batches(probe, losses)
    pairing_error = _check_weights(probe, weights, gradient)
    gradient_error, directions = _check_differences(probe, weights, gradient, rng, tol)
    return OracleReport(gradient_error, pairing_error, batch_error, int(chosen.size), directions)


ROUNDING = 1e-8


class _Probe:
    """Calls an oracle and sees that the arguments of the call are left alone."""

    def __init__(self, oracle: Oracle, w: NDArray[Any], index: NDArray[Any]) -> None:
        self.oracle, self.w, self.index = oracle, w, index

    def losses(self, w: NDArray[Any] | None = None, index: NDArray[Any] | None = None) -> NDArray[np.float64]:
        at, rows = self.w if w is None else w, self.index if index is None else index
        return _untouched(lambda *a: self.oracle.losses(*a), "losses", at, rows)

    def gradient(
        self, weights: NDArray[Any], w: NDArray[Any] | None = None, index: NDArray[Any] | None = None
    ) -> NDArray[np.float64]:
        at, rows = self.w if w is None else w, self.index if index is None else index
        return _untouched(lambda *a: self.oracle.gradient(*a), "gradient", at, weights, rows)


def _untouched(call: Callable[..., Any], name: str, *arguments: NDArray[Any]) -> NDArray[np.float64]:
    before = [a.copy() for a in arguments]
    result: NDArray[np.float64] = call(*arguments)
    for a, b in zip(arguments, before, strict=True):
        if not np.array_equal(a, b):
            raise AssertionError(f"{name} changed one of its arguments in place")
    return result


def _batch(oracle: Oracle, index: ArrayLike | None, rng: np.random.Generator) -> NDArray[np.int64]:
    if index is None:
        return rng.permutation(oracle.size)[: min(16, oracle.size)]
    chosen = np.array(index, dtype=np.int64)
    if chosen.ndim != 1 or chosen.size == 0:
        raise ValueError(f"index must be one-dimensional and not empty, got shape {chosen.shape}")
    return chosen


def _samples(index: NDArray[Any]) -> str:
    shown = ", ".join(str(i) for i in index[:8])
    return f"samples {shown}" + (", ..." if index.size > 8 else "")


def _same(first: NDArray[Any], second: NDArray[Any], name: str, arguments: str) -> None:
    if not np.array_equal(first, second):
        worst = float(np.abs(first - second).max())
        raise AssertionError(
            f"{name} gave two answers for {arguments}, {worst:.3g} apart; draw any noise from the sample numbers"
        )


def _relative(difference: NDArray[Any], *scales: NDArray[Any]) -> float:
    """Largest difference over the largest magnitude among the scales (1e-300 where all are 0)."""
    scale = max(1e-300, *(float(np.abs(s).max(initial=0.0)) for s in scales))
    return float(np.abs(difference).max(initial=0.0)) / scale


def _check_batches(probe: _Probe, losses: NDArray[Any]) -> float:
    """A sample's loss is the same alone, in a reversed and repeated batch, and among all samples."""
    twice = np.concatenate([probe.index[::-1], probe.index])
    expected = np.concatenate([losses[::-1], losses])
    repeated = probe.losses(index=twice)
    alone = np.concatenate([probe.losses(index=probe.index[k : k + 1]) for k in range(probe.index.size)])
    error = max(_relative(repeated - expected, losses), _relative(alone - losses, losses))
    if probe.oracle.size <= 100_000:
        full = probe.oracle.losses(probe.w)
        error = max(error, _relative(full[probe.index] - losses, losses))
    if error > ROUNDING:
        raise AssertionError(
            f"the loss of a sample depends on the batch it is asked in: relative difference {error:.3g} "
            f"for {_samples(probe.index)}; losses[k] must be the loss of sample index[k]"
        )
    return error


def _check_weights(probe: _Probe, weights: NDArray[Any], gradient: NDArray[Any]) -> float:
    """The gradient is the weighted sum of the single-sample gradients, and linear in the weights."""
    one = np.ones(1)
    singles = np.array([probe.gradient(one, index=probe.index[k : k + 1]) for k in range(probe.index.size)])
    terms = weights[:, None] * singles
    error = _relative(terms.sum(axis=0) - gradient, terms, gradient)
    if error > ROUNDING:
        raise AssertionError(
            f"the gradient is not sum_k weights[k] grad l_(index[k]): relative difference {error:.3g} from the sum over "
            f"{_samples(probe.index)}; weights must be neither normalised nor averaged"
        )
    return error


def _check_differences(
    probe: _Probe, weights: NDArray[Any], gradient: NDArray[Any], rng: np.random.Generator, tol: float
) -> tuple[float, int]:
    """Central differences of the weighted losses along random directions, and along axes when there are few."""
    dim = probe.oracle.dim
    directions = np.eye(dim) if dim <= 20 else rng.standard_normal((10, dim)) / np.sqrt(dim)
    scale = max(1.0, float(np.abs(probe.w).max()))
    step = np.cbrt(np.finfo(float).eps) * scale
    worst = 0.0
    for v in directions:
        plus, minus = probe.losses(w=probe.w + step * v), probe.losses(w=probe.w - step * v)
        slopes = weights * (plus - minus) / (2 * step)
        noise = float(np.abs(weights * plus).max()) * np.finfo(float).eps / step
        difference = abs(float(slopes.sum()) - float(gradient @ v))
        size = max(float(np.abs(slopes).max()), float(np.abs(gradient).max()), 1e-300)
        error = max(0.0, difference - 8 * noise) / size
        if error > tol:
            raise AssertionError(
                f"the gradient is not the derivative of the losses: relative difference {error:.3g} (tol {tol:g}) from "
                f"central differences for {_samples(probe.index)}; slope {float(slopes.sum()):.6g} from the losses, "
                f"{float(gradient @ v):.6g} from the gradient"
            )
        worst = max(worst, error)
    return worst, len(directions)


@dataclass(frozen=True)
class LevelReport:
    """What `check_level` measured, all of it within tolerance.

    Attributes
    ----------
    jacobian_error : float
        Largest difference between the Jacobian and central differences of the values, relative to the scale of both.
    product_error : float
        Largest difference between products with the Jacobian and the Jacobian or differences, relative to their scale.
    batch_error : float
        Largest difference between a batch's value and the mean of its samples' values, relative to their scale.
    samples : int
        Samples in the batch.
    """

    jacobian_error: float
    product_error: float
    batch_error: float
    samples: int


def check_level(
    level: Level, u: ArrayLike | None = None, index: ArrayLike | None = None, seed: int = 0, tol: float = 1e-5
) -> LevelReport:
    """Check a level at one point: means over batches, the Jacobian and products against differences, determinism.

    Parameters
    ----------
    level : Level
    u : array (inputs,), optional
        The point; standard normal numbers by default. Choose one where the level is defined.
    index : int array (m,), optional
        The batch; up to 16 samples drawn at random by default.
    seed : int, default 0
        Of the random point, batch and directions.
    tol : float, default 1e-5
        Largest relative error of finite differences; sums that must agree to rounding are held to 1e-8.

    Returns
    -------
    LevelReport

    Raises
    ------
    AssertionError
        With a sentence saying what is wrong and for which samples.

    Examples
    --------
    >>> import numpy as np, leeward as lw
    >>> from leeward.testing import check_level
    >>> A = np.arange(6.0).reshape(3, 2)
    >>> level = lw.FunctionLevel(
    ...     value=lambda u, index: np.array([np.sum((A[index] @ u) ** 2)]),  # the mean is forgotten
    ...     jacobian=lambda u, index: 2 * ((A[index] @ u) @ A[index])[None, :], inputs=2, outputs=1, size=3)
    >>> check_level(level)
    Traceback (most recent call last):
        ...
    AssertionError: the value of a batch is not the mean of its samples' values: ...
    """
    rng = np.random.default_rng(seed)
    point = rng.standard_normal(level.inputs) if u is None else np.array(u, dtype=float)
    most = level.population
    chosen = rng.permutation(min(most, 1 << 20))[: min(16, most)] if index is None else np.array(index, dtype=np.int64)
    if chosen.ndim != 1 or chosen.size == 0:
        raise ValueError(f"index must be one-dimensional and not empty, got shape {chosen.shape}")
    value = level.value(point, chosen)
    _same(value, level.value(point, chosen), "value", "the same u and index")
    singles = np.array([level.value(point, chosen[k : k + 1]) for k in range(chosen.size)])
    batch_error = _relative(singles.mean(axis=0) - value, singles)
    if batch_error > ROUNDING:
        raise AssertionError(
            f"the value of a batch is not the mean of its samples' values: relative difference {batch_error:.3g} for "
            f"{_samples(chosen)}"
        )
    scale = max(1.0, float(np.abs(point).max()))
    step = np.cbrt(np.finfo(float).eps) * scale
    probes = np.eye(level.inputs)
    plus = np.array([level.value(point + step * v, chosen) for v in probes])
    minus = np.array([level.value(point - step * v, chosen) for v in probes])
    slopes = ((plus - minus) / (2 * step)).T
    noise = 8 * np.finfo(float).eps * float(np.abs(plus).max()) / step
    jacobian_error = product_error = 0.0
    if level.jacobians:
        J = level.jacobian(point, chosen)
        _same(J, level.jacobian(point, chosen), "jacobian", "the same u and index")
        jacobian_error = _difference("jacobian", J, slopes, noise, chosen, tol)
    else:
        J = slopes
    near = ROUNDING if level.jacobians else tol
    weights, along = rng.standard_normal(level.outputs), rng.standard_normal(level.inputs)
    slack = 0.0 if level.jacobians else noise * float(np.abs(along).sum() + np.abs(weights).sum())
    product_error = _difference("vjp", level.vjp(point, weights, chosen), J.T @ weights, slack, chosen, near)
    if level.pushes:
        product_error = max(
            product_error, _difference("jvp", level.jvp(point, along, chosen), J @ along, slack, chosen, near)
        )
    return LevelReport(jacobian_error, product_error, batch_error, int(chosen.size))


def _difference(
    name: str, given: NDArray[Any], expected: NDArray[Any], noise: float, index: NDArray[Any], tol: float
) -> float:
    size = max(float(np.abs(given).max()), float(np.abs(expected).max()), 1e-300)
    error = max(0.0, float(np.abs(given - expected).max()) - noise) / size
    if error > tol:
        raise AssertionError(
            f"{name} is not the derivative of value: relative difference {error:.3g} (tol {tol:g}) for {_samples(index)}"
        )
    return error
