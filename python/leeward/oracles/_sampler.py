"""Expectations ``E f(w; xi)`` as oracles: samples without end, each a value of its number."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from leeward import _arrays, _core
from leeward.oracles._base import UserOracle

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Draws", "SamplerOracle"]

_ENDLESS = 2**62


class Draws:
    """Random numbers for a batch of samples: sample number i always gets the same ones, in whatever batch it stands.

    Each call hands out further numbers, so a sampler that makes the same calls makes the same samples. They come from the
    counter-based generator of the package, keyed by (seed, sample number).

    Parameters
    ----------
    index : int array (m,)
        Sample numbers.
    seed : int, default 0

    Attributes
    ----------
    index : ndarray (m,)
        The sample numbers, read-only in a sampler.
    seed : int

    Examples
    --------
    >>> import leeward as lw
    >>> z = lw.Draws([7, 3, 7]).normal(2)
    >>> z.shape, bool((z[0] == z[2]).all()), bool((z[1] == lw.Draws([3]).normal(2)[0]).all())
    ((3, 2), True, True)
    """

    def __init__(self, index: Any, seed: int = 0) -> None:
        rows = _arrays.index_array(index)
        if rows is None:
            raise TypeError("index must hold sample numbers, got None")
        self.index: NDArray[np.int64] = rows
        self.seed = _arrays.count(seed, "seed")
        self._used = 0

    def normal(self, shape: int | tuple[int, ...] = ()) -> NDArray[np.float64]:
        """Independent standard normal numbers, an array (m, *shape)."""
        return self._take(shape, True)

    def uniform(self, shape: int | tuple[int, ...] = ()) -> NDArray[np.float64]:
        """Independent uniform numbers in (0, 1), an array (m, *shape)."""
        return self._take(shape, False)

    def _take(self, shape: int | tuple[int, ...], normal: bool) -> NDArray[np.float64]:
        inner = (shape,) if isinstance(shape, int) else tuple(shape)
        count = math.prod(inner)
        out = np.empty((self.index.size, count))
        _core.draws.of_samples(self.seed, self.index, self._used, normal, out)
        self._used += count + count % 2  # normals come in pairs
        return out.reshape(self.index.size, *inner)


class SamplerOracle(UserOracle):
    """The expectation ``E f(w; xi)`` over random samples that a function of yours makes.

    Mini-batches draw sample numbers in [0, population), and ``sample`` turns numbers into samples. Since a sample is a value of
    its number, algorithms evaluate the same sample at two points, and runs repeat, resume and replay. Where the objective
    itself is wanted (trace, stopping rule, result, full-batch algorithms), it is the mean over the first ``evaluation``
    samples, with an error of the order ``1 / sqrt(evaluation)``; ``size`` is this number, and a pass is as many samples.

    Parameters
    ----------
    sample : callable
        ``sample(draws) -> xi``, an object of your choice for the samples ``draws.index`` (m,): make it from
        ``draws.normal(k)`` and ``draws.uniform(k)``, arrays (m, k) that depend on the numbers alone, or look the numbers up
        in data of your own. It is called once a batch, also when the batch is used at two points.
    losses : callable
        ``losses(w, xi) -> array (m,)``.
    gradient : callable
        ``gradient(w, weights, xi) -> array (dim,)``: ``sum_k weights[k] * grad f(w; xi_k)``.
    dim : int
        Length of w.
    evaluation : int, default 10000
        Samples that stand for the expectation; they are kept in memory.
    population : int, default 2**62
        How many samples there are, at least ``evaluation``.
    seed : int, default 0
        Of the samples. The seed of ``minimize`` chooses their numbers.
    l2, penalised, convex, smooth
        As for ``FunctionOracle``.

    Raises
    ------
    OracleError
        When a function returns something of another shape or kind, or numbers that are not finite. Exceptions of your
        functions reach you unchanged.

    Notes
    -----
    A certificate (``result.gap``) is about the mean over the evaluation samples. Stochastic algorithms draw their batches
    afresh: ``SCSG(batch="growing")`` without end, while ``SVRG`` and ``SARAH`` take ``evaluation`` new samples where a finite sum
    would give them all. ``LBFGS``, ``PrimalDual`` and ``GrowingBatch`` know the evaluation samples only, and solve for their mean.

    Examples
    --------
    The median of a standard normal number, as the minimiser of ``E |w - xi|``:

    >>> import numpy as np, leeward as lw
    >>> oracle = lw.SamplerOracle(
    ...     sample=lambda draws: draws.normal(),
    ...     losses=lambda w, xi: np.abs(w[0] - xi),
    ...     gradient=lambda w, weights, xi: np.array([weights @ np.sign(w[0] - xi)]),
    ...     dim=1, convex=True, smooth=False)
    >>> result = lw.minimize(oracle, [2.0], lw.SGD(lw.Minibatch(64), step=0.5), max_passes=20)
    >>> bool(abs(result.x[0]) < 0.05)
    True
    """

    def __init__(
        self,
        sample: Callable[..., Any],
        losses: Callable[..., Any],
        gradient: Callable[..., Any],
        dim: int,
        *,
        evaluation: int = 10_000,
        population: int = _ENDLESS,
        seed: int = 0,
        l2: float = 0.0,
        penalised: int | None = None,
        convex: bool = False,
        smooth: bool = True,
    ) -> None:
        for function, name in ((sample, "sample"), (losses, "losses"), (gradient, "gradient")):
            if not callable(function):
                raise TypeError(f"{name} must be callable, got {type(function).__name__}")
        self._settle(evaluation, dim, l2, penalised, convex, smooth, None)
        size = _arrays.count(evaluation, "evaluation", 1)
        many = _arrays.count(population, "population", size)
        if many > _ENDLESS:
            raise ValueError(f"population must be at most 2**62, got {many}")
        self.seed = _arrays.count(seed, "seed")
        if self.seed >= 2**64:
            raise ValueError(f"seed must be in [0, 2**64), got {seed}")
        self._functions = (sample, losses, gradient)
        self._core = _core.PyOracle(losses, gradient, size, _arrays.count(dim, "dim", 1), self._made(sample), many)

    def _made(self, sample: Callable[..., Any]) -> Callable[[Any], Any]:
        seed = self.seed

        def made(index: NDArray[np.int64]) -> Any:
            return sample(Draws(index, seed))

        return made

    def __reduce__(self) -> tuple[Any, ...]:
        settings = self._settings() | {"evaluation": self.size, "population": self.population, "seed": self.seed}
        del settings["sample_weight"]
        return _rebuild, (self._functions, self.dim, settings)


def _rebuild(functions: Any, dim: int, settings: dict[str, Any]) -> SamplerOracle:
    sample, losses, gradient = functions
    return SamplerOracle(sample, losses, gradient, dim, **settings)
