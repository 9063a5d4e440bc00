"""What a step of the robust methods costs: beside a loop of PyTorch, beside its own losses and gradient, and as the data grow.

`python bench/bench_estimators.py` prints, as medians, on one thread,

* steps of `Nesterov` on a softmax model of 60000 x 784 float32, ten classes, chi-square radius 1, batches of 50, 500, 5000 and all
  samples, over the steps of the loop that a user of PyTorch writes (a linear layer, cross-entropies, weights by bisection, backward,
  a momentum step); answers are compared first;
* an estimate of `MLMC` over the losses and gradient of its own batch;
* a step of `PrimalDual` on 10^6 samples over one on 10^4,

with the thresholds beside, and ends with an error where one is missed.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from opponents import torch_chi_square_radius
from threadpoolctl import threadpool_limits

import leeward as lw

N, D, CLASSES, RADIUS = 60_000, 784, 10, 1.0
BATCHES = {50: 1 / 10, 500: 1 / 5, 5000: 1 / 2, N: 1 / 2}  # batch: allowed share of PyTorch's time
MLMC_ALLOWED, PRIMAL_DUAL_ALLOWED = 1.2, 2.0


def median(call: Callable[[int], Any], repeats: int) -> float:
    """Median seconds of call(k), after one call to warm up."""
    call(0)
    times = []
    for k in range(1, repeats + 1):
        start = time.perf_counter()
        call(k)
        times.append(time.perf_counter() - start)
    return statistics.median(times)


class TorchLoop:
    """The loop of a user of PyTorch, one step a call."""

    def __init__(self, X: np.ndarray, y: np.ndarray) -> None:
        self.X, self.y = torch.from_numpy(X), torch.from_numpy(y)
        self.layer = torch.nn.Linear(D, CLASSES)
        torch.nn.init.zeros_(self.layer.weight)
        torch.nn.init.zeros_(self.layer.bias)
        self.optimiser = torch.optim.SGD(self.layer.parameters(), lr=1e-3, momentum=0.9, nesterov=True)

    def robust_loss(self, index: torch.Tensor | None) -> torch.Tensor:
        X, y = (self.X, self.y) if index is None else (self.X[index], self.y[index])
        losses = torch.nn.functional.cross_entropy(self.layer(X), y, reduction="none")
        return torch_chi_square_radius(losses.double(), RADIUS)

    def step(self, index: torch.Tensor | None) -> None:
        self.optimiser.zero_grad()
        self.robust_loss(index).backward()
        self.optimiser.step()


def check(model: lw.LinearModel, loop: TorchLoop) -> None:
    """Assert that value and gradient agree at a point, to the precision of float32."""
    rng = np.random.default_rng(1)
    w = 0.05 * rng.standard_normal(model.dim)
    with torch.no_grad():
        loop.layer.weight.copy_(torch.from_numpy(w[: D * CLASSES].reshape(CLASSES, D)))
        loop.layer.bias.copy_(torch.from_numpy(w[D * CLASSES :]))
    index = rng.integers(0, N, 500)
    loop.optimiser.zero_grad()
    value = loop.robust_loss(torch.from_numpy(index))
    value.backward()
    losses = model.losses(w, index)
    solution = lw.ChiSquare(radius=RADIUS).solve(losses)
    np.testing.assert_allclose(float(value.detach()), solution.value, rtol=1e-4)
    gradient = model.gradient(w, solution.weights, index)
    theirs = torch.cat([p.grad.flatten() for p in loop.layer.parameters() if p.grad is not None]).numpy()
    np.testing.assert_allclose(theirs, gradient, atol=2e-3 * np.abs(gradient).max())


def steps(model: lw.LinearModel, loop: TorchLoop) -> int:
    """Steps against PyTorch, in turns."""
    problem = lw.Robust(model, lw.ChiSquare(radius=RADIUS))
    rng = np.random.default_rng(2)
    missed = 0
    for batch, allowed in BATCHES.items():
        whole = batch == N
        estimator = lw.Minibatch(batch, replace=not whole).start(problem, 0)
        ours = problem.descent(
            estimator,
            lw.NesterovMomentum(0.9).native(),
            np.zeros(model.dim),
            domain=None,
            schedule=(1e-3, 0, 1.0),
            averaging=0,
            output=(0, 0),
            metric=None,
        )
        indices = [None if whole else torch.from_numpy(rng.integers(0, N, batch)) for _ in range(64)]
        repeats = 5 if whole else max(15, 20_000 // batch)
        pairs = []
        for _ in range(3):
            mine = median(lambda k: ours.advance(1, 1e9, 1), repeats)  # noqa: B023 - called at once
            theirs = median(lambda k: loop.step(indices[k % 64]), max(3, repeats // 3))  # noqa: B023
            pairs.append((mine, theirs))
        mine, theirs = (statistics.median(column) for column in zip(*pairs, strict=True))
        late = mine / theirs > allowed
        missed += late
        name = "all samples" if whole else f"batch {batch}"
        print(
            f"step of Nesterov, {name:<14}{1e6 * mine:>12.0f} us {1e6 * theirs:>12.0f} us (PyTorch)"
            f"{mine / theirs:>8.3f}{allowed:>8.2f}{'   missed' if late else ''}",
            flush=True,
        )
    return missed


def mlmc(model: lw.LinearModel) -> int:
    """An estimate against the losses and the gradient of its batch."""
    problem = lw.Robust(model, lw.CVaR(0.1))
    estimator = lw.MLMC(32, 2048).start(problem, 0)
    w = np.zeros(model.dim)
    whole, parts = [], []
    for k in range(400):
        index = estimator.draw(k)
        weights = np.full(len(index), 1.0 / len(index))
        start = time.perf_counter()
        estimator.direction(w, k, 1)
        middle = time.perf_counter()
        model.losses(w, index, threads=1)
        model.gradient(w, weights, index, threads=1)
        whole.append(middle - start)
        parts.append(time.perf_counter() - middle)
    ratio = sum(whole) / sum(parts)
    late = ratio > MLMC_ALLOWED
    print(
        f"MLMC estimate over losses and gradient of its batch{ratio:>32.3f}{MLMC_ALLOWED:>8.2f}{'   missed' if late else ''}"
    )
    return int(late)


def primal_dual() -> int:
    """A step on many samples against one on few; 20 columns, batches of 16."""
    rng, taken = np.random.default_rng(0), []
    for n in (10_000, 1_000_000):
        X = rng.standard_normal((n, 20), dtype=np.float32)
        problem = lw.Robust(lw.LinearModel(X, X[:, 0] > 0, "logistic"), lw.CVaR(0.1))
        estimator = problem.primal_dual((1, 0.1), 16, 1e-6, 0)
        w = 0.1 * rng.standard_normal(21)
        for k in range(2000):
            estimator.direction(w, k, 1)
        taken.append(median(lambda k: estimator.direction(w, 2000 + k, 1), 2000))  # noqa: B023
    ratio = taken[1] / taken[0]
    late = ratio > PRIMAL_DUAL_ALLOWED
    print(
        f"step of PrimalDual, 10^6 over 10^4 samples{1e6 * taken[1]:>12.1f} us {1e6 * taken[0]:>10.1f} us"
        f"{ratio:>14.3f}{PRIMAL_DUAL_ALLOWED:>8.2f}{'   missed' if late else ''}"
    )
    return int(late)


def main() -> int:
    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    X = rng.random((N, D), dtype=np.float32)
    y = rng.integers(0, CLASSES, N)
    model, loop = lw.LinearModel(X, y, "softmax", threads=1), TorchLoop(X, y)
    with threadpool_limits(limits=1):
        check(model, loop)
        missed = steps(model, loop) + mlmc(model) + primal_dual()
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
