"""A linear model whose rows lie in parts: each part answers for its own rows where it is, and the answers are put together."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from leeward import _arrays
from leeward._threads import thread_request
from leeward.errors import OracleError
from leeward.oracles._base import strength
from leeward.oracles._linear import LinearModel

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from leeward.losses import Loss

    Vector = NDArray[np.float64]

__all__ = ["PartitionedModel", "Parts"]


class Parts(ABC):
    """Linear models somewhere, each with some of the rows: one method sends a question to all of them.

    Examples
    --------
    Models of this process, asked one after the other:

    >>> import numpy as np, leeward as lw
    >>> class Here(lw.Parts):
    ...     def __init__(self, models):
    ...         self.models = models
    ...     def map(self, function, shared=(), cut=()):
    ...         return [function(m, *shared, *(c[k] for c in cut)) for k, m in enumerate(self.models)]
    >>> halves = [lw.LinearModel(np.array([[x]]), [y], "squared") for x, y in [(0.0, 1.0), (2.0, 3.0)]]
    >>> lw.PartitionedModel(Here(halves)).losses([1.0, 0.0])
    array([0.5, 0.5])
    """

    @abstractmethod
    def map(
        self, function: Callable[..., Any], shared: Sequence[Any] = (), cut: Sequence[Sequence[Any]] = ()
    ) -> list[Any]:
        """Ask every part.

        Parameters
        ----------
        function : callable
            A function of this package, which can be pickled; it has no side effects, so a part that is lost may be asked again.
        shared : sequence
            Arguments that are the same for all parts.
        cut : sequence of sequences
            Arguments of which part k is given entry k.

        Returns
        -------
        list
            ``function(model_k, *shared, *(c[k] for c in cut))``, in the order of the parts.
        """


class _Here(Parts):
    def __init__(self, models: list[LinearModel]) -> None:
        self.models = models

    def map(
        self, function: Callable[..., Any], shared: Sequence[Any] = (), cut: Sequence[Sequence[Any]] = ()
    ) -> list[Any]:
        return [function(model, *shared, *(c[k] for c in cut)) for k, model in enumerate(self.models)]


class PartitionedModel(LinearModel):
    r"""A linear model whose rows lie in parts, one below the other: blocks of a table, several files, workers of a cluster.

    Each part computes the losses, slopes and weighted gradients of its own rows; the n losses and weights, and the d entries of
    gradients, are what moves. The model takes the place of one ``LinearModel`` of all rows, with the same answers up to the
    rounding of sums.

    Parameters
    ----------
    parts : sequence of LinearModel, or Parts
        Models with the same features, loss and intercept. None of them is empty.
    l2 : float, default 0.0
        Strength of the regulariser; that of the parts is not used.
    sample_weight : array (n,), optional
        Base weights of all samples; by default those of the parts, 1 where a part has none.
    threads : int, optional
        Threads for what is done here; parts use their own setting.

    Raises
    ------
    TypeError, ValueError
        If parts are not linear models, or disagree.
    OracleError
        Later, if ``Parts.map`` leaves out an answer.

    Notes
    -----
    For algorithms of whole passes, ``LBFGS`` and ``ProximalNewton``; those that draw single rows need a ``LinearModel``. Rows
    leave their part only in samples of at most 2^24 numbers, for the start and the model of the curvature.

    Examples
    --------
    >>> import numpy as np, leeward as lw
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 2)); y = X @ [1.0, -1.0] + rng.normal(size=300)
    >>> parts = [lw.LinearModel(X[rows], y[rows], "squared") for rows in (slice(0, 90), slice(90, 300))]
    >>> split = lw.minimize(lw.Robust(lw.PartitionedModel(parts, l2=0.1), lw.CVaR(0.3)))
    >>> whole = lw.minimize(lw.Robust(lw.LinearModel(X, y, "squared", l2=0.1), lw.CVaR(0.3)))
    >>> bool(np.abs(split.x - whole.x).max() < 1e-8)
    True
    """

    def __init__(
        self,
        parts: Sequence[LinearModel] | Parts,
        *,
        l2: float = 0.0,
        sample_weight: ArrayLike | None = None,
        threads: int | None = None,
    ) -> None:
        if not isinstance(parts, Parts):
            models = list(parts)
            if not models or not all(isinstance(model, LinearModel) for model in models):
                raise TypeError("parts must be LinearModel objects, at least one, or a leeward.Parts")
            parts = _Here(models)
        self._parts, self._threads, self.l2 = parts, thread_request(threads), strength(l2)
        facts = parts.map(_facts)
        if not facts:
            raise ValueError("parts must hold at least one model, got none")
        for k, fact in enumerate(facts):
            if fact[1:5] != facts[0][1:5]:
                names = ("features", "outputs", "loss", "intercept")
                what = next(i for i in range(4) if fact[1 + i] != facts[0][1 + i])
                raise ValueError(f"part {k} has {names[what]} {fact[1 + what]!r}, part 0 has {facts[0][1 + what]!r}")
        self.n_features, self.n_outputs, self.loss, self.intercept = facts[0][1:5]
        self.penalised = self.n_outputs * self.n_features
        self._ends = np.cumsum([fact[0] for fact in facts])
        self.convex, self.smooth = self.loss.convex, self.loss.smooth
        if sample_weight is None and any(fact[5] is not None for fact in facts):
            sample_weight = np.concatenate([np.ones(fact[0]) if fact[5] is None else fact[5] for fact in facts])
        self.sample_weight = _arrays.weights(sample_weight, self.size)

    @property
    def size(self) -> int:
        return int(self._ends[-1])

    @property
    def dim(self) -> int:
        return self.n_outputs * (self.n_features + int(self.intercept))

    @property
    def population(self) -> int:
        """n."""
        return self.size

    def _with(self, loss: Loss) -> PartitionedModel:
        twin = object.__new__(PartitionedModel)
        twin.__dict__.update(self.__dict__)
        twin.loss = loss
        twin.convex, twin.smooth = loss.convex, loss.smooth
        return twin

    def losses(
        self,
        w: ArrayLike,
        index: ArrayLike | None = None,
        *,
        out: Vector | None = None,
        threads: int | None = None,
    ) -> Vector:
        at = _arrays.point(w, self.dim)
        count = self._count(index)
        result = _arrays.output(out, (count,), at)
        return self._rowwise("losses", at, index, result)

    def gradient(
        self,
        w: ArrayLike,
        weights: ArrayLike,
        index: ArrayLike | None = None,
        *,
        out: Vector | None = None,
        threads: int | None = None,
    ) -> Vector:
        places = self._places(index)
        count = self.size if places is None else len(places[0])
        scale, at = _arrays.point(weights, count, "weights"), _arrays.point(w, self.dim)
        result = _arrays.output(out, (self.dim,), at, scale)
        if places is None:
            answers = self._ask("gradient", (at,), (self._cut(scale),))
        else:
            order, local = places
            sizes = np.cumsum([len(rows) for rows in local])[:-1]
            answers = self._ask("gradient", (at,), (np.split(scale[order], sizes), local))
        result[:] = 0.0
        for answer in answers:  # in the order of the parts
            result += answer
        return result

    def scores(self, w: ArrayLike, X: Any = None, *, threads: int | None = None) -> Vector:
        at = _arrays.point(w, self.dim)
        if X is not None:
            raise ValueError("X must be None: a model in parts has the scores of its own rows")
        return self._rowwise("scores", at, None, np.empty(self._shape(self.size)))

    def slopes(self, w: ArrayLike, index: ArrayLike | None = None, *, threads: int | None = None) -> Vector:
        return self._by_output("slopes", w, index)

    def curvatures(self, w: ArrayLike, index: ArrayLike | None = None, *, threads: int | None = None) -> Vector:
        return self._by_output("curvatures", w, index)

    def adjoint(self, v: ArrayLike, *, threads: int | None = None) -> Vector:
        table = _arrays.table(v, self._shape(self.size), "v")
        return self._total(self._ask("adjoint", (), (self._cut(table),)))

    def conjugate(self, s: ArrayLike, *, threads: int | None = None) -> Vector:
        table = _arrays.table(s, self._shape(self.size), "s")
        return self._joined(self._ask("conjugate", (), (self._cut(table),)), np.empty(self.size))

    def smoothness(self, *, threads: int | None = None) -> Vector:
        return self._joined(self._ask("smoothness"), np.empty(self.size))

    def rows(self, index: ArrayLike | None = None) -> Vector:
        count = self._count(index)
        return self._rowwise("rows", None, index, np.empty((count, self.n_features)))

    def targets(self, index: ArrayLike | None = None) -> NDArray[Any]:
        count = self._count(index)
        return self._rowwise("targets", None, index, np.empty(count))

    def gathered(self) -> LinearModel:
        """Return one model of all rows, as dense doubles of this process: for data that are small."""
        return LinearModel(
            self.rows(),
            self.targets(),
            self.loss,
            l2=self.l2,
            intercept=self.intercept,
            sample_weight=self.sample_weight,
            threads=self._threads or None,
        )

    def _column_squares(self, weights: Vector, threads: int | None = None) -> Vector:
        return self._total(self._ask("_column_squares", (), (self._cut(weights),)))

    # -- questions --------------------------------------------------------------------------------------------------
    def _ask(self, name: str, shared: tuple[Any, ...] = (), cut: tuple[Sequence[Any], ...] = ()) -> list[Any]:
        answers = list(self._parts.map(ask, (self.loss, name, *shared), cut))
        if len(answers) != len(self._ends):
            raise OracleError(
                f"map must return an answer of each of the {len(self._ends)} parts, got {len(answers)} for {name}"
            )
        return answers

    def _by_output(self, name: str, w: ArrayLike, index: ArrayLike | None) -> Vector:
        at = _arrays.point(w, self.dim)
        count = self._count(index)
        return self._rowwise(name, at, index, np.empty(self._shape(count)))

    def _rowwise(self, name: str, at: Any, index: ArrayLike | None, out: Vector) -> Vector:
        """Answers that have one entry a row, in the order of index."""
        places = self._places(index)
        shared = () if at is None else (at,)
        if places is None:
            return self._joined(self._ask(name, shared), out)
        order, local = places
        out[order] = np.concatenate(self._ask(name, shared, (local,)))
        return out

    def _places(self, index: ArrayLike | None) -> tuple[NDArray[np.int64], list[NDArray[np.int64]]] | None:
        """The order in which the entries of index go part by part, and the row numbers within each part; None for all rows."""
        rows = _arrays.index_array(index)
        if rows is None:
            return None
        outside = (rows < 0) | (rows >= self.size)
        if outside.any():
            raise IndexError(f"index must be in [0, {self.size}), got {rows[np.argmax(outside)]}")
        owner = np.searchsorted(self._ends, rows, side="right")
        order = np.argsort(owner, kind="stable")
        edges = np.searchsorted(owner[order], np.arange(1, len(self._ends)))
        starts = np.concatenate([[0], self._ends[:-1]])
        return order, [part - start for part, start in zip(np.split(rows[order], edges), starts, strict=True)]

    def _count(self, index: ArrayLike | None) -> int:
        rows = _arrays.index_array(index)
        return self.size if rows is None else len(rows)

    def _cut(self, values: Vector) -> list[Vector]:
        return np.split(values, self._ends[:-1])

    def _joined(self, answers: list[Vector], out: Vector) -> Vector:
        first = 0
        for k, answer in enumerate(answers):
            rows = int(self._ends[k]) - first
            if len(answer) != rows:
                raise OracleError(
                    f"map must return the answers in the order of the parts: {rows} rows of part {k}, got {len(answer)}"
                )
            out[first : self._ends[k]] = answer
            first = int(self._ends[k])
        return out

    def _total(self, answers: list[Vector]) -> Vector:
        total: Vector = answers[0].copy()
        for answer in answers[1:]:
            total += answer
        return total

    # -- what needs all rows in one place -----------------------------------------------------------------------------
    def _elsewhere(self) -> NoReturn:
        raise TypeError("this needs all rows in one place: a model in parts is for LBFGS() and ProximalNewton()")

    @property
    def _core(self) -> Any:
        self._elsewhere()

    @_core.setter
    def _core(self, value: Any) -> None:
        self._elsewhere()

    _matrix = _X = _y = _core

    def __sizeof__(self) -> int:
        return object.__sizeof__(self)

    def __repr__(self) -> str:
        return (
            f"PartitionedModel(<{len(self._ends)} parts, {self.size} x {self.n_features}>, loss={self.loss!r}, l2={self.l2!r}, "
            f"intercept={self.intercept!r})"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (self._parts, self.loss, self.l2, self.sample_weight, self._threads)


def _rebuild(parts: Parts, loss: Loss, l2: float, sample_weight: Vector | None, threads: int) -> PartitionedModel:
    return PartitionedModel(parts, l2=l2, sample_weight=sample_weight, threads=threads or None)._with(loss)


def ask(model: LinearModel, loss: Loss, name: str, *arguments: Any) -> Any:
    """One answer of a part, with the loss that is in force."""
    return getattr(model._with(loss), name)(*arguments)


def _facts(model: LinearModel) -> tuple[Any, ...]:
    return model.size, model.n_features, model.n_outputs, model.loss, model.intercept, model.sample_weight
