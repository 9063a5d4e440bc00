"""`MAML`: an initial point that is good after K steps of gradient descent on each task, as a composition of levels that answer products."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch.func import functional_call, vmap

import leeward as lw

__all__ = ["MAML"]


class _Network:
    """A model as a function of flat parameters, one row a task, and its losses there."""

    def __init__(self, model: Any, loss: Callable[..., Any]) -> None:
        self.model, self.loss = model, loss
        self.names, self.shapes, self.ends = [], [], [0]
        for name, p in model.named_parameters():
            if p.requires_grad:
                self.names.append(name)
                self.shapes.append(p.shape)
                self.ends.append(self.ends[-1] + p.numel())
        trained = [p for p in model.parameters() if p.requires_grad]
        if not trained:
            raise ValueError("model has no parameters that train")
        kinds = {(p.dtype, p.device) for p in trained}
        if len(kinds) > 1 or not trained[0].dtype.is_floating_point:
            raise ValueError(f"the parameters of the model must be of one floating type on one device, got {kinds}")
        self.dtype, self.device = trained[0].dtype, trained[0].device
        self.start = self.numbers(torch.cat([p.detach().reshape(-1) for p in trained]))

    @property
    def dim(self) -> int:
        return int(self.ends[-1])

    def tensor(self, numbers: Any) -> Any:
        """An array in the model's type; copied where it is read-only, since the core refills such arrays from call to call."""
        own = numbers if numbers.flags.writeable else np.array(numbers)
        return torch.from_numpy(own).to(self.device, self.dtype)

    def numbers(self, values: Any) -> Any:
        """An array (k,) of doubles, without a copy where the model has doubles on the CPU."""
        return values.detach().reshape(-1).to("cpu", torch.float64).numpy()

    def data(self, name: str, pair: Any) -> tuple[Any, Any]:
        """Inputs and targets (tasks, samples, ...), in the model's type where they are not integers."""
        if not (isinstance(pair, tuple | list) and len(pair) == 2 and all(isinstance(t, torch.Tensor) for t in pair)):
            kinds = [type(t).__name__ for t in pair] if isinstance(pair, tuple | list) else type(pair).__name__
            raise TypeError(f"{name} must be a pair of tensors (inputs, targets), got {kinds}")
        if any(t.dim() < 2 or 0 in t.shape[:2] for t in pair) or pair[0].shape[:2] != pair[1].shape[:2]:
            shapes = " and ".join(str(tuple(t.shape)) for t in pair)
            raise ValueError(f"{name} must have inputs and targets of shape (tasks, samples, ...), got {shapes}")
        inputs, targets = (t.to(self.device, self.dtype if t.is_floating_point() else t.dtype) for t in pair)
        return inputs, targets

    def outputs(self, rows: Any, inputs: Any) -> Any:
        """What the model answers to the inputs (tasks, samples, ...) of each task at its parameters, rows (tasks, d)."""

        def one(row: Any, x: Any) -> Any:
            return functional_call(self.model, self._views(row), (x,))

        return vmap(one)(rows, inputs)

    def losses(self, rows: Any, inputs: Any, targets: Any) -> Any:
        """The (tasks,) mean losses."""

        def one(row: Any, x: Any, y: Any) -> Any:
            value = self.loss(functional_call(self.model, self._views(row), (x,)), y)
            if not isinstance(value, torch.Tensor) or value.dim() != 0:
                shown = tuple(value.shape) if isinstance(value, torch.Tensor) else type(value).__name__
                raise ValueError(f"loss must return one number, the mean over the samples, got {shown}")
            return value

        return vmap(one)(rows, inputs, targets)

    @torch.no_grad()
    def check_mean(self, inputs: Any, targets: Any) -> None:
        """ValueError where a sample taken twice has another loss than once: a sum, or a loss of pairs."""
        row, first = self.tensor(self.start).expand(1, -1), [t[:1, :1] for t in (inputs, targets)]
        once, twice = (float(self.losses(row, *(t.repeat_interleave(k, 1) for t in first))) for k in (1, 2))
        if math.isfinite(once) and abs(twice - once) > 0.05 * abs(once):
            raise ValueError(
                f"loss must return the mean over the samples: one sample gives {once:.6g}, and the same one twice {twice:.6g}"
            )

    def _views(self, row: Any) -> dict[str, Any]:
        places = zip(self.names, self.shapes, self.ends[:-1], self.ends[1:], strict=True)
        return {name: row[a:b].view(shape) for name, shape, a, b in places}


class _Kept:
    """The last two evaluations of a level with their graphs: products at a point and draw share the value's."""

    def __init__(self) -> None:
        self._last: tuple[Any, ...] = ()

    def find(self, u: Any, index: Any, make: Callable[[Any, Any], Any]) -> Any:
        """make(u, index), or what it was."""
        for point, chosen, found in self._last:
            if np.array_equal(chosen, index) and np.array_equal(point, u):
                return found
        point, chosen = np.array(u), np.array(index)
        found = make(point, chosen)
        self._last = ((point, chosen, found), *self._last[:1])
        return found

    def __reduce__(self) -> tuple[Any, ...]:
        return _Kept, ()


class _Level:
    """Value, vjp and jvp of a level over tasks; index are numbers of samples within every task."""

    def __init__(self, network: _Network, pair: tuple[Any, Any], first: bool) -> None:
        self.network, self.pair, self.first, self.kept = network, pair, first, _Kept()

    def rows(self, numbers: Any) -> Any:
        """Numbers of the level's input as (tasks, d): the same point for all tasks in the first level."""
        values, tasks = self.network.tensor(numbers), len(self.pair[0])
        return values.expand(tasks, -1) if self.first else values.view(tasks, -1)

    def losses(self, u: Any, index: Any) -> tuple[Any, Any]:
        """The tasks' losses on the samples, and where they are taken."""
        rows = self.rows(u).requires_grad_()
        inputs, targets = self.pair
        if index.size != inputs.shape[1] or not np.array_equal(index, np.arange(index.size)):
            chosen = torch.from_numpy(index).to(self.network.device)
            inputs, targets = inputs[:, chosen], targets[:, chosen]
        return self.network.losses(rows, inputs, targets), rows

    def gathered(self, by: Any) -> Any:
        """(tasks, d) as numbers of the level's input."""
        return self.network.numbers(by.sum(dim=0) if self.first else by)


class _Inner(_Level):
    """A step on each task: w_m -> w_m - lr grad F_m(w_m); its Jacobian I - lr H_m is symmetric."""

    def __init__(self, network: _Network, pair: tuple[Any, Any], first: bool, lr: float) -> None:
        super().__init__(network, pair, first)
        self.lr = lr

    def _make(self, u: Any, index: Any) -> tuple[Any, Any]:
        with torch.enable_grad():
            losses, rows = self.losses(u, index)
            return rows, torch.autograd.grad(losses.sum(), rows, create_graph=True)[0]

    def _turned(self, u: Any, by: Any, index: Any) -> Any:
        """by - lr H by."""
        rows, gradient = self.kept.find(u, index, self._make)
        if not gradient.requires_grad:  # losses that are linear in the parameters
            return by
        (curved,) = torch.autograd.grad(gradient, rows, by, retain_graph=True, allow_unused=True)
        return by if curved is None else by - self.lr * curved

    def value(self, u: Any, index: Any) -> Any:
        rows, gradient = self.kept.find(u, index, self._make)
        return self.network.numbers(rows.detach() - self.lr * gradient.detach())

    def vjp(self, u: Any, weights: Any, index: Any) -> Any:
        by = self.network.tensor(weights).view(len(self.pair[0]), -1)
        return self.gathered(self._turned(u, by, index))

    def jvp(self, u: Any, direction: Any, index: Any) -> Any:
        return self.network.numbers(self._turned(u, self.rows(direction), index))


class _Outer(_Level):
    """The mean loss over the tasks, each at its own parameters."""

    def _make(self, u: Any, index: Any) -> tuple[Any, Any]:
        with torch.enable_grad():
            losses, rows = self.losses(u, index)
            return rows, losses.mean()

    def _gradient(self, u: Any, index: Any) -> Any:
        rows, mean = self.kept.find(u, index, self._make)
        return torch.autograd.grad(mean, rows, retain_graph=True)[0]

    def value(self, u: Any, index: Any) -> Any:
        return self.network.numbers(self.kept.find(u, index, self._make)[1])

    def vjp(self, u: Any, weights: Any, index: Any) -> Any:
        return weights[0] * self.gathered(self._gradient(u, index))

    def jvp(self, u: Any, direction: Any, index: Any) -> Any:
        return np.array([self.gathered(self._gradient(u, index)) @ direction])


class _Unrolled(_Outer):
    """All steps and the mean loss as one level whose samples are the tasks."""

    def __init__(self, network: _Network, support: Any, query: Any, steps: int, lr: float) -> None:
        super().__init__(network, query, True)
        self.support, self.steps, self.lr = support, steps, lr

    def losses(self, u: Any, index: Any) -> tuple[Any, Any]:
        chosen = torch.from_numpy(index).to(self.network.device)
        start = self.network.tensor(u).expand(index.size, -1).requires_grad_()
        rows = start
        for _ in range(self.steps):
            losses = self.network.losses(rows, *(t[chosen] for t in self.support))
            rows = rows - self.lr * torch.autograd.grad(losses.sum(), rows, create_graph=True)[0]
        return self.network.losses(rows, *(t[chosen] for t in self.pair)), start


class MAML(lw.Composition):
    """K-step meta-learning over M tasks: ``min_w (1/M) sum_m F_m(w_m)``, w_m the end of K steps ``w_m <- w_m - a grad F_m(w_m)`` from w.

    As K + 1 levels: level k = 1..K makes step k of all tasks, each from its own point, and the last one is the mean loss at the ends. A
    sample of a level is one data point of every task, and levels draw their own. Levels answer products with their Jacobians, by second
    derivatives of the model; no Jacobian is formed.

    Parameters
    ----------
    model : torch.nn.Module
        Parameters that require no gradient are constants. It must be deterministic (no dropout while it trains), leave its
        buffers alone (no running statistics) and work under ``torch.func.vmap`` (recurrent layers such as ``GRU`` do not).
    loss : callable
        ``loss(output, targets)`` for the samples of one task: their **mean** loss, in operations of PyTorch.
    support : (inputs, targets)
        Data for the steps, tensors of shape (M, n, ...): n samples of each task.
    query : (inputs, targets), optional
        Data for the loss at the ends, (M, q, ...). Default: the support, as in the paper.
    steps : int
        K.
    lr : float
        a, the size of these steps.
    sample : "data" or "tasks"
        ``"tasks"``: one level whose samples are the tasks, each with its K steps on all of its support: classical meta-learning, for
        many tasks of few data.
    l2 : float
        Strength of ``(l2/2) |w|^2``.

    Attributes
    ----------
    dim : int
        Length d of w: the parameters in the order of ``model.parameters()``, as `torch.nn.utils.vector_to_parameters` takes them.

    Raises
    ------
    TypeError, ValueError
        If data are no tensors of these shapes, or the loss is no single number.

    Notes
    -----
    `minimize` starts at the model's parameters. ``PMVR``, ``SCSC``, ``NLASG``, ``ATSCGD`` and ``SCGD`` (one step) solve it; ``SMVR``
    needs Jacobians. Levels pass M d numbers on, and estimates have K M d in all. Computation is in the type of the model;
    ``model.double()`` makes derivatives exact to rounding. With batches of all n samples the levels are exact. Parameters are views
    of one vector; the model's own are not changed.

    References
    ----------
    Finn, Abbeel and Levine, Model-agnostic meta-learning, ICML 2017. As a composition: Jiang, Li, Gao, Wang, Yang and Zhang,
    Optimal algorithms for stochastic multi-level compositional optimization, ICML 2022, section 5.3.

    Examples
    --------
    >>> import torch, leeward as lw
    >>> from leeward.torch import MAML
    >>> _ = torch.manual_seed(0)
    >>> x = torch.rand(8, 10, 1, dtype=torch.float64)  # 8 tasks: lines through 0 of different slopes
    >>> y = x * torch.linspace(-1, 3, 8, dtype=torch.float64)[:, None, None]
    >>> model = torch.nn.Linear(1, 1).double()
    >>> problem = MAML(model, torch.nn.functional.mse_loss, (x, y), steps=2, lr=0.5)
    >>> result = lw.minimize(problem, algorithm=lw.PMVR(batch=2, step=0.2), max_passes=100)
    >>> bool(result.fun < 0.6 * problem.value(problem.start())), problem.depth
    (True, 3)
    >>> problem.predict(result.x, x, y, x).shape  # after two steps on each task
    torch.Size([8, 10, 1])
    """

    def __init__(
        self,
        model: Any,
        loss: Callable[..., Any],
        support: tuple[Any, Any],
        query: tuple[Any, Any] | None = None,
        *,
        steps: int = 1,
        lr: float = 0.1,
        sample: str = "data",
        l2: float = 0.0,
    ) -> None:
        if not isinstance(model, torch.nn.Module):
            raise TypeError(f"model must be a torch.nn.Module, got {type(model).__name__}")
        if not callable(loss):
            raise TypeError(f"loss must be callable, got {type(loss).__name__}")
        if isinstance(steps, bool) or not hasattr(steps, "__index__"):
            raise TypeError(f"steps must be an integer, got {steps!r}")
        if not 1 <= steps <= 127:
            raise ValueError(f"steps must be in [1, 127], got {steps}")
        if isinstance(lr, bool) or not isinstance(lr, int | float):
            raise TypeError(f"lr must be a number, got {lr!r}")
        if not (math.isfinite(lr) and lr > 0):
            raise ValueError(f"lr must be positive and finite, got {lr!r}")
        if sample not in ("data", "tasks"):
            raise ValueError(f"sample must be 'data' or 'tasks', got {sample!r}")
        network = _Network(model, loss)
        inner = network.data("support", support)
        outer = inner if query is None else network.data("query", query)
        tasks, d = len(inner[0]), network.dim
        if len(outer[0]) != tasks:
            raise ValueError(f"query must have the {tasks} tasks of support, got {len(outer[0])}")
        network.check_mean(*outer)
        self._arguments = (model, loss, support, query)
        self._options = {"steps": int(steps), "lr": float(lr), "sample": sample, "l2": l2}
        self._network, self.steps, self.lr = network, int(steps), float(lr)
        if sample == "tasks":
            levels = [_level(_Unrolled(network, inner, outer, self.steps, self.lr), d, 1, tasks)]
        else:
            levels = [
                _level(
                    _Inner(network, inner, k == 0, self.lr), d if k == 0 else tasks * d, tasks * d, inner[0].shape[1]
                )
                for k in range(self.steps)
            ]
            levels.append(_level(_Outer(network, outer, False), tasks * d, 1, outer[0].shape[1]))
        super().__init__(levels, l2=l2)

    def start(self) -> Any:
        """The model's parameters as they were."""
        return self._network.start.copy()

    def predict(self, w: Any, inputs: Any, targets: Any, queries: Any) -> Any:
        """The model's outputs for queries (tasks, samples, ...), after its steps from w on the inputs and targets of these tasks."""
        pair, network = self._network.data("inputs and targets", (inputs, targets)), self._network
        asked = network.data("queries", (queries, queries))[0]
        if len(asked) != len(pair[0]):
            raise ValueError(f"queries must have the {len(pair[0])} tasks of inputs, got {len(asked)}")
        rows = network.tensor(self.point(w)).expand(len(pair[0]), -1)
        for _ in range(self.steps):
            with torch.enable_grad():
                at = rows.detach().requires_grad_()
                (gradient,) = torch.autograd.grad(network.losses(at, *pair).sum(), at)
            rows = at.detach() - self.lr * gradient
        with torch.no_grad():
            return network.outputs(rows, asked)

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuilt, (self._arguments, self._options)

    def __repr__(self) -> str:
        return f"MAML({type(self._network.model).__name__}, dim={self.dim}, steps={self.steps}, lr={self.lr}, levels={self.depth})"


def _level(answers: Any, inputs: int, outputs: int, size: int) -> lw.FunctionLevel:
    return lw.FunctionLevel(answers.value, vjp=answers.vjp, jvp=answers.jvp, inputs=inputs, outputs=outputs, size=size)


def _rebuilt(arguments: tuple[Any, ...], options: dict[str, Any]) -> MAML:
    return MAML(*arguments, **options)
