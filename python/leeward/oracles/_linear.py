"""Linear models over dense, CSR and memory-mapped data that are read where they lie."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from leeward import _arrays, _core
from leeward._mapped import is_mapped
from leeward._threads import thread_request
from leeward.losses import Loss, Softmax, get_loss
from leeward.oracles._base import Oracle, strength

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Vector = NDArray[np.float64]

__all__ = ["LinearModel"]


class LinearModel(Oracle):
    r"""Losses of a linear score, ``l_i(w) = loss(x_i . coef + b; y_i)``, one score a class for softmax.

    The vector w is ``[coef (d), intercept]``; for softmax ``[coef (C, d) row by row, intercepts (C)]``. The regulariser
    ``(l2/2) |coef|^2`` leaves intercepts free; it is added by the problem and not part of losses and gradients here.

    Parameters
    ----------
    X : array (n, d) or scipy sparse matrix
        Read in place: float32 or float64, dense with contiguous columns (any row stride, read-only, memory-mapped) or CSR
        (int32 or int64 indices, in any order; entries that name the same place add up). Other layouts, dtypes and sparse
        formats are converted once. X must not change while the model is in use.
    y : array (n,)
        Labels: -1/+1 or 0/1 for logistic, hinge, squared_hinge and sigmoid; 0, ..., C - 1 for softmax; not negative for poisson;
        real numbers otherwise.
    loss : str or Loss, default "logistic"
        "squared" is ``(z - y)^2 / 2`` (with the half), "squared_hinge" ``max(0, 1 - y z)^2 / 2``; all are in
        ``leeward.losses``.
    l2 : float, default 0.0
        Strength of the regulariser.
    intercept : bool, default True
        Whether scores have a free constant.
    sample_weight : array (n,), optional
        Base weights of the samples, not negative, not all zero, any scale.
    threads : int, optional
        Default number of threads of the calls; results do not depend on it.

    Attributes
    ----------
    loss : Loss
        The loss object.
    n_features, n_outputs : int
        d, and the number of scores a sample (1, or C for softmax).
    intercept : bool
    penalised : int
        ``n_outputs * n_features``.

    Raises
    ------
    ValueError
        If X, y or sample_weight hold NaN, infinity or numbers beyond 1e150 (the message says where), if shapes disagree,
        if labels do not fit the loss, or if a CSR matrix has an index outside its columns.
    TypeError
        If X or y do not hold real numbers.

    Notes
    -----
    All arithmetic is in double, whatever X holds. A gradient over all samples at the w of the last call over all samples
    reuses its scores. Results have the same bits for any number of threads.

    Examples
    --------
    >>> import numpy as np, leeward as lw
    >>> X = np.array([[0.0, 1.0], [2.0, 0.0], [1.0, 1.0]])
    >>> model = lw.LinearModel(X, [1, 0, 1], "logistic", l2=0.1)
    >>> w = np.array([-1.0, 1.0, 0.5])
    >>> model.losses(w).round(4)
    array([0.2014, 0.2014, 0.4741])
    >>> model.gradient(w, np.full(3, 1 / 3)).round(4)
    array([-0.0042, -0.1867, -0.1258])
    """

    def __init__(
        self,
        X: Any,
        y: ArrayLike,
        loss: str | Loss = "logistic",
        *,
        l2: float = 0.0,
        intercept: bool = True,
        sample_weight: ArrayLike | None = None,
        threads: int | None = None,
    ) -> None:
        self._threads = thread_request(threads)
        self.l2 = strength(l2)
        self.intercept = bool(intercept)
        self._X = _arrays.matrix(X)
        self._matrix = core_matrix(self._X, "X", self._threads)
        n, d = self._matrix.shape
        self.loss = get_loss(loss)
        self._y, self.n_outputs = self.loss.labels(y, n)
        if isinstance(self.loss, Softmax):
            self.loss = Softmax(self.n_outputs)
        self.sample_weight = _arrays.weights(sample_weight, n)
        self.n_features = int(d)
        self.penalised = self.n_outputs * self.n_features
        self._memo = _core.ScoreMemo()
        self._bind()

    def _bind(self) -> None:
        """Make the core's oracle for the loss."""
        self.convex, self.smooth = self.loss.convex, self.loss.smooth
        self._core = _core.LinearOracle(
            self._matrix,
            self._y,
            self.loss.name,
            self.loss.parameter,
            self.loss.smoothing,
            self.n_outputs,
            self.intercept,
            self._memo,
        )

    def smoothed(self, mu: float) -> LinearModel:
        """Return the model with the Moreau envelope of its loss, over the same data; a smooth loss returns the model.

        ``l_mu <= l <= l_mu + mu * loss.smoothing_gap`` for every sample and w.
        """
        return self._with(self.loss.smoothed(mu))

    def _with(self, loss: Loss) -> LinearModel:
        """The model with another loss for the same labels, over the same data."""
        if loss == self.loss:
            return self
        twin = object.__new__(LinearModel)  # a copy by pickle would read all data again
        twin.__dict__.update(self.__dict__)
        twin.loss = loss
        twin._bind()
        return twin

    def scores(self, w: ArrayLike, X: Any = None, *, threads: int | None = None) -> Vector:
        """Scores ``x_i . coef + b`` of the model's rows, or of the rows of another X.

        Returns
        -------
        ndarray (n,), or (n, C) for softmax
        """
        count = self._thread_count(threads)
        matrix = self._matrix if X is None else core_matrix(_arrays.matrix(X), "X", count)
        if matrix.shape[1] != self.n_features:
            raise ValueError(f"X must have {self.n_features} columns, got {matrix.shape[1]}")
        out = np.empty(self._shape(matrix.shape[0]))
        matrix.scores(_arrays.point(w, self.dim), self.n_outputs, self.intercept, out, count)
        return out

    def slopes(self, w: ArrayLike, index: ArrayLike | None = None, *, threads: int | None = None) -> Vector:
        """Derivatives of the losses in their scores at w (at a kink, 0 if it is a subgradient).

        Returns
        -------
        ndarray (m,), or (m, C) for softmax
        """
        return self._per_output(self._core.slopes, w, index, threads)

    def curvatures(self, w: ArrayLike, index: ArrayLike | None = None, *, threads: int | None = None) -> Vector:
        """Second derivatives of the losses in their scores (softmax: the diagonal).

        Where Huber's loss or a smoothed loss is linear in the residual, ``slope / residual`` stands in: the curvature of
        the parabola that touches the loss there and lies above it as far as residual 0. A loss with a kink has curvature 0.

        Returns
        -------
        ndarray (m,), or (m, C) for softmax
        """
        return self._per_output(self._core.curvatures, w, index, threads)

    def adjoint(self, v: ArrayLike, *, threads: int | None = None) -> Vector:
        """``sum_i v_i x_i`` for each output, and ``sum_i v_i`` for its intercept, in the layout of w.

        Parameters
        ----------
        v : array (n,), or (n, C) for softmax

        Returns
        -------
        ndarray (dim,)
        """
        out = np.empty(self.dim)
        self._core.adjoint(_arrays.table(v, self._shape(self.size), "v"), out, self._thread_count(threads))
        return out

    def conjugate(self, s: ArrayLike, *, threads: int | None = None) -> Vector:
        """Conjugates ``l_i^*(s_i) = sup_z s_i z - l(z; y_i)``, infinite outside their domain.

        A point within 1e-12 of the domain (relative to its bounds) counts as its border, since slopes carry rounding.

        Parameters
        ----------
        s : array (n,), or (n, C) for softmax

        Returns
        -------
        ndarray (n,)
        """
        out = np.empty(self.size)
        self._core.conjugate(_arrays.table(s, self._shape(self.size), "s"), out, self._thread_count(threads))
        return out

    def smoothness(self, *, threads: int | None = None) -> Vector:
        """Lipschitz constants of the per-sample gradients, ``sup l'' (|x_i|^2 + 1)`` (the 1 for an intercept).

        ``sup l''`` is 1 for squared, Huber and squared hinge, 1/4 for logistic, 1/2 for softmax, 1/mu for smoothed
        losses, and infinite for losses with a kink and for Poisson.

        Returns
        -------
        ndarray (n,)
        """
        out = np.empty(self.size)
        self._core.smoothness(out, self._thread_count(threads))
        return out

    def rows(self, index: ArrayLike | None = None) -> Vector:
        """Return some rows of X, all by default, as a dense float64 array (m, d)."""
        chosen = _arrays.index_array(np.arange(self.size) if index is None else index)
        assert chosen is not None
        out = np.empty((chosen.shape[0], self.n_features))
        self._matrix.rows(chosen, out)
        return out

    def targets(self, index: ArrayLike | None = None) -> NDArray[Any]:
        """Return the labels of some rows, all by default, as the loss reads them, (m,): classes of softmax as numbers."""
        rows = _arrays.index_array(index)
        return self._y.copy() if rows is None else self._y[rows]

    def _column_squares(self, weights: Vector, threads: int | None = None) -> Vector:
        """``sum_i weights_i x_ij^2`` of each feature, (d,)."""
        squares: Vector = self._matrix.column_squares(weights, self._thread_count(threads))[0]
        return squares

    def __sizeof__(self) -> int:
        X = self._X
        parts = (X.data, X.indices, X.indptr) if isinstance(X, _arrays.Csr) else (X,)
        return object.__sizeof__(self) + self._y.nbytes + sum(part.nbytes for part in parts)

    def _shape(self, count: int) -> tuple[int, ...]:
        return (count,) if self.n_outputs == 1 else (count, self.n_outputs)

    def _per_output(self, call: Any, w: ArrayLike, index: ArrayLike | None, threads: int | None) -> Vector:
        rows = _arrays.index_array(index)
        out = np.empty(self._shape(self.size if rows is None else rows.shape[0]))
        call(_arrays.point(w, self.dim), rows, out, self._thread_count(threads))
        return out

    def __repr__(self) -> str:
        kind = "CSR" if isinstance(self._X, _arrays.Csr) else "dense"
        return (
            f"LinearModel(<{kind} {self.size} x {self.n_features}>, loss={self.loss!r}, l2={self.l2!r}, "
            f"intercept={self.intercept!r})"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        X = self._X.to_scipy() if isinstance(self._X, _arrays.Csr) else self._X
        settings = {
            "l2": self.l2,
            "intercept": self.intercept,
            "sample_weight": self.sample_weight,
            "threads": self._threads or None,
        }
        return _rebuild, (X, self._y, self.loss, settings)


def _rebuild(X: Any, y: Vector, loss: Loss, settings: dict[str, Any]) -> LinearModel:
    return LinearModel(X, y, loss, **settings)


def core_matrix(X: NDArray[Any] | _arrays.Csr, name: str, threads: int) -> Any:
    """Return the core's view of a matrix whose entries are finite and at most 1e150 in magnitude."""
    if isinstance(X, _arrays.Csr):
        matrix = _core.LinearMatrix.csr(X.data, X.indices, X.indptr, X.shape[1])
    else:
        matrix = _core.LinearMatrix.dense(X, is_mapped(X))
    place = matrix.first_bad(_arrays.LIMIT, threads)
    if place is not None:
        i, j = place
        row = np.empty((1, matrix.shape[1]))
        matrix.rows(np.array([i]), row)
        value = row[0, j]
        if np.isfinite(value):
            raise ValueError(
                f"{name}[{i}, {j}] is {value:g}; numbers beyond {_arrays.LIMIT:g} overflow when squared: "
                f"rescale column {j} of {name}"
            )
        raise ValueError(f"{name} must hold finite numbers, got {value} in row {i}, column {j}")
    return matrix
