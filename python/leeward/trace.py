"""The history of a run: one row for each recorded point."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Trace"]

COLUMNS = ("steps", "passes", "seconds", "objective", "gap", "gradient_norm", "losses", "gradients", "samples")
_INTEGER = ("steps", "losses", "gradients", "samples")


class Trace:
    """Columns of equal length, one entry for each recorded point.

    Attributes
    ----------
    steps : (k,) int64
        Steps (stochastic algorithms) or iterations (full batch) made so far.
    passes : (k,) float64
        Component evaluations by the algorithm, divided by n: gradients, or losses where more of these were made.
    seconds : (k,) float64
        Wall time of the algorithm itself; recording, callbacks and checkpoints are left out.
    objective : (k,) float64
        ``P(w)`` on all samples, prox terms included.
    gap : (k,) float64
        Certified bound on ``P(w) - P*``; NaN where no certificate exists.
    gradient_norm : (k,) float64
        Norm of the gradient, or of the gradient mapping ``w - prox(w - grad P(w))`` when there is a domain.
    losses, gradients : (k,) int64
        Component losses and component gradients evaluated by the algorithm. The full evaluations that a stochastic
        algorithm makes only to fill this trace are not counted.
    samples : (k,) int64
        The same evaluations as papers on variance reduction count them: a sample drawn by an inner step counts once,
        though its gradient is taken at two points. An inner loop of N steps of b after a batch of B makes ``B + 2 b N``
        gradients and ``B + b N`` samples.
    """

    __slots__ = ("_rows",)

    def __init__(self, rows: list[tuple[float, ...]] | None = None) -> None:
        self._rows: list[tuple[float, ...]] = [] if rows is None else rows

    def append(self, **row: float) -> None:
        """Adds one point; every column must be given."""
        self._rows.append(tuple(float(row[name]) for name in COLUMNS))

    def to_array(self) -> NDArray[np.float64]:
        """All columns as a (k, 9) float64 array in the order of the attributes above."""
        return np.array(self._rows, dtype=np.float64).reshape(len(self._rows), len(COLUMNS))

    @classmethod
    def from_array(cls, table: NDArray[np.float64]) -> Trace:
        """The inverse of :meth:`to_array`."""
        return cls([tuple(float(v) for v in row) for row in table])

    def to_dict(self) -> dict[str, NDArray[Any]]:
        """The columns by name, ready for ``pandas.DataFrame``."""
        return {name: getattr(self, name) for name in COLUMNS}

    def _column(self, name: str) -> NDArray[Any]:
        values = self.to_array()[:, COLUMNS.index(name)]
        return values.astype(np.int64) if name in _INTEGER else values

    @property
    def steps(self) -> NDArray[np.int64]:
        return self._column("steps")

    @property
    def passes(self) -> NDArray[np.float64]:
        return self._column("passes")

    @property
    def seconds(self) -> NDArray[np.float64]:
        return self._column("seconds")

    @property
    def objective(self) -> NDArray[np.float64]:
        return self._column("objective")

    @property
    def gap(self) -> NDArray[np.float64]:
        return self._column("gap")

    @property
    def gradient_norm(self) -> NDArray[np.float64]:
        return self._column("gradient_norm")

    @property
    def losses(self) -> NDArray[np.int64]:
        return self._column("losses")

    @property
    def gradients(self) -> NDArray[np.int64]:
        return self._column("gradients")

    @property
    def samples(self) -> NDArray[np.int64]:
        return self._column("samples")

    def __len__(self) -> int:
        return len(self._rows)

    def __repr__(self) -> str:
        if not self._rows:
            return "Trace(empty)"
        first, last = self._rows[0][COLUMNS.index("objective")], self._rows[-1][COLUMNS.index("objective")]
        passes = self._rows[-1][COLUMNS.index("passes")]
        return f"Trace({len(self)} points, {passes:.4g} passes, objective {first:.6g} -> {last:.6g})"
