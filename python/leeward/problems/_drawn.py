"""Points around samples, their losses and their costs, where one of these is a function of the user's: the Python half of
csrc/bindings/py_points.hpp. Points are made when they are needed, some at a time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from leeward import _arrays, _core
from leeward._returned import returned
from leeward.errors import OracleError
from leeward.oracles import Draws, LinearModel, PointOracle

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from leeward.problems._transport import Cost, Reference

    Vector = NDArray[np.float64]
    Index = NDArray[np.int64]

__all__ = ["DrawnPoints"]

_NUMBERS = 1 << 22  # coordinates of points held at a time
_RARE = 1 << 18  # and kept from one call to the next


class DrawnPoints:
    """What ``_core.PerturbedLinear`` is for linear models and built-in references and costs, for all others.

    Number ``v = s m + j`` is draw j of set s, and set ``s = i + n t`` is the t-th of sample i, as in
    csrc/include/leeward/oracle/perturbed.hpp.
    """

    def __init__(
        self, model: LinearModel | PointOracle, reference: Reference, cost: Cost, draws: int, seed: int
    ) -> None:
        self._makes = _Makes(model, reference, cost, draws, seed)
        at = self._makes
        self.core = _core.PyPoints(at.losses, at.gradient, at.costs, model.size, model.dim, draws)

    def points(self, index: Index | None, threads: int = 0) -> tuple[Vector, Vector]:
        """Points (k, d) and labels (k,) by number, those of the common draws by default."""
        numbers = np.arange(self.core.size) if index is None else index
        parts = list(self._makes.parts(numbers))
        if not parts:
            return np.empty((0, self._makes.model.n_features)), np.empty(0)
        return np.concatenate([p.x for p in parts]), np.concatenate([p.labels for p in parts])

    def costs(self, index: Index | None, threads: int = 0) -> Vector:
        """Transport costs (k,)."""
        made: Vector = self.core.costs(index, threads)
        return made

    def losses(self, w: Vector, index: Index | None, out: Vector, threads: int) -> None:
        self.core.losses(w, index, out, threads)

    def gradient(self, w: Vector, weights: Vector, index: Index | None, out: Vector, threads: int) -> None:
        self.core.gradient(w, weights, index, out, threads)


class _Part:
    """Some points: the samples' numbers and rows they are of, themselves, and their labels. Read-only arrays."""

    def __init__(self, index: Index, rows: Vector, x: Vector, labels: Vector) -> None:
        self.index, self.rows, self.x, self.labels = index, rows, x, labels
        for array in (index, rows, x, labels):
            array.flags.writeable = False


class _Makes:
    """The functions that the core calls, each with numbers of points."""

    def __init__(
        self, model: LinearModel | PointOracle, reference: Reference, cost: Cost, draws: int, seed: int
    ) -> None:
        self.model, self.reference, self.cost, self.draws, self.seed = model, reference, cost, draws, seed
        linear = isinstance(model, LinearModel)
        self._labels: Vector = (
            _arrays.doubles(model._y, "y") if isinstance(model, LinearModel) else np.zeros(model.size)
        )
        self._native: Any = None
        if reference.function is None:
            bare = model if linear else LinearModel(model.rows(), np.zeros(model.size), "squared")
            spec = cost.native() if cost.function is None else (0, 1.0, 0.0)
            self._bare = bare  # the core reads its rows
            self._native = _core.PerturbedLinear(bare._core, reference.native(), spec, draws, seed)
        self._kept: tuple[Index, list[_Part]] | None = None

    def losses(self, w: Vector, numbers: Index) -> Vector:
        return np.concatenate([self._losses(w, part) for part in self._shared(numbers)] or [np.empty(0)])

    def gradient(self, w: Vector, weights: Vector, numbers: Index) -> Vector:
        total, first = np.zeros(self.model.dim), 0
        for part in self._shared(numbers):
            total += self._gradient(w, weights[first : first + len(part.index)], part)
            first += len(part.index)
        return total

    def costs(self, numbers: Index) -> Vector:
        if self._native is not None and self.cost.function is None:
            made: Vector = self._native.costs(numbers)
            return made
        return np.concatenate([self._costs(part) for part in self._shared(numbers)] or [np.empty(0)])

    def parts(self, numbers: Index) -> Any:
        """The points, some at a time."""
        each = max(1, _NUMBERS // self.model.n_features)
        for first in range(0, len(numbers), each):
            yield self._made(np.array(numbers[first : first + each], np.int64))

    def _shared(self, numbers: Index) -> Any:
        """The same, kept for the calls about the same points that follow where they are few."""
        kept = self._kept
        if kept is not None and np.array_equal(kept[0], numbers):
            return kept[1]
        if len(numbers) * self.model.n_features > _RARE:
            return self.parts(numbers)
        made = list(self.parts(numbers))
        self._kept = (numbers.copy(), made)
        return made

    def _made(self, numbers: Index) -> _Part:
        index = numbers // self.draws % self.model.size
        rows = np.array(self.model.rows(index))
        if self._native is not None:
            x, labels = self._native.points(numbers)
            return _Part(index, rows, x, labels)
        rows.flags.writeable = False
        draws = Draws(numbers, self.seed)
        draws.index.flags.writeable = False
        assert self.reference.function is not None
        answer = self.reference.function(rows, draws)
        x = np.array(returned(answer, rows.shape, "reference(rows, draws)", "one point for each row", index))
        if self.reference.bounds is not None:
            np.clip(x, *self.reference.bounds, out=x)
        labels = self._labels[index]
        if self.reference.label_noise:
            labels = labels + self.reference.label_noise * draws.normal()
        return _Part(index, rows, x, labels)

    def _costs(self, part: _Part) -> Vector:
        if self.cost.function is None:
            made = self.cost.between(part.rows, part.x)
        else:
            answer = self.cost.function(part.rows, part.x)
            made = returned(answer, (len(part.index),), "cost(rows, points)", "one cost for each point", part.index)
            if (made < 0).any():
                k = int(np.argmax(made < 0))
                raise OracleError(
                    f"cost(rows, points) must not be negative, got {made[k]} for a point of sample {part.index[k]}"
                )
            made = self.cost.scale * made
        if self.cost.label_scale:
            made = made + self.cost.label_scale * (part.labels - self._labels[part.index]) ** 2
        return made

    def _losses(self, w: Vector, part: _Part) -> Vector:
        if isinstance(self.model, PointOracle):
            return self.model._at.losses(w, part.x, part.index)
        out = np.empty(len(part.index))
        self._linear(part).losses(w, None, out, 1)
        return out

    def _gradient(self, w: Vector, weights: Vector, part: _Part) -> Vector:
        if isinstance(self.model, PointOracle):
            return self.model._at.gradient(w, weights, part.x, part.index)
        out = np.empty(self.model.dim)
        self._linear(part).gradient(w, weights, None, out, 1)
        return out

    def _linear(self, part: _Part) -> Any:
        """The core's oracle of the linear model at these points."""
        model = self.model
        assert isinstance(model, LinearModel)
        loss = model.loss
        matrix = _core.LinearMatrix.dense(part.x)
        settings = (loss.name, loss.parameter, loss.smoothing, model.n_outputs, model.intercept)
        return _core.LinearOracle(matrix, part.labels, *settings, _core.ScoreMemo())
