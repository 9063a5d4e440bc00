"""How long `RobustLoss` takes, forward and backward, beside a custom autograd function that does nothing, the plain mean, and a
bisection written in PyTorch.

``python bench/bench_torch.py`` prints two tables of medians and ratios from one run and exits with status 1 if a ratio is missed:
at 512 losses every risk within 1.5 times the function that does nothing; at 512 and at 1e6 losses KL-CVaR and both forms of
chi-square at least 5 times faster than the bisection. ``--rounds`` and ``--large`` shorten it. One thread, float64, uniform weights;
every answer is compared with the NumPy face before it is timed, and the sides take turns.
"""

# ruff: noqa: E402  the path is set before the imports that need it

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent / "tests")]

import numpy as np
import opponents as opp
import torch
from threadpoolctl import threadpool_limits

import leeward as lw
from leeward.torch import RobustLoss
from reference.torch_risks import RISKS

SMALL, WITHIN, FASTER = 512, 1.5, 5.0


class _Nothing(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, losses: Any) -> Any:
        ctx.shape = losses.shape
        return losses.new_empty(())

    @staticmethod
    def backward(ctx: Any, by_value: Any) -> Any:
        return by_value.expand(ctx.shape)


class Nothing(torch.nn.Module):
    """A layer whose forward and backward passes only make tensors of the right shapes."""

    def forward(self, losses: Any) -> Any:
        """Return a number that was never written."""
        return _Nothing.apply(losses)


class Mean(torch.nn.Module):
    """The ordinary objective."""

    def forward(self, losses: Any) -> Any:
        """Return the mean."""
        return losses.mean()


def step(layer: Callable[[Any], Any], losses: Any) -> Callable[[], None]:
    """A forward and a backward pass, as a training step makes them."""

    def run() -> None:
        losses.grad = None
        layer(losses).backward()

    return run


def check(risk: lw.Risk, layer: Callable[[Any], Any], losses: Any, digits: float) -> None:
    """Value and gradient are those of the NumPy face."""
    expected = risk.solve(losses.detach().numpy())
    losses.grad = None
    value = layer(losses)
    value.backward()
    np.testing.assert_allclose(value.item(), expected.value, rtol=digits)
    np.testing.assert_allclose(losses.grad.numpy(), expected.weights, rtol=0, atol=digits)


def turns(calls: dict[str, Callable[[], None]], rounds: int, repeats: int) -> dict[str, list[float]]:
    """Seconds of each call in each round; the calls take turns, so that a busy moment meets them all."""
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        call()
    for _ in range(rounds):
        for name, call in calls.items():
            start = time.perf_counter()
            for _ in range(repeats):
                call()
            seconds[name].append((time.perf_counter() - start) / repeats)
    return seconds


def overheads(rounds: int) -> bool:
    """Print the table at 512 losses; true if every risk is within its ratio."""
    values = np.random.default_rng(0).exponential(size=SMALL)
    losses = torch.from_numpy(values).requires_grad_()
    calls = {"nothing": step(Nothing(), losses), "mean": step(Mean(), losses)}
    for risk in RISKS:
        layer = RobustLoss(risk)
        check(risk, layer, losses, 1e-12)
        calls[repr(risk)] = step(layer, losses)
    seconds = turns(calls, rounds, 40)
    print(
        f"{SMALL} losses, forward and backward: microseconds, and the ratio to a function that does nothing (at most {WITHIN})"
    )
    good = True
    for name, times in seconds.items():
        ratio = statistics.median(a / b for a, b in zip(times, seconds["nothing"], strict=True))
        missed = name not in ("nothing", "mean") and ratio > WITHIN
        good &= not missed
        print(f"{name:50} {1e6 * statistics.median(times):8.1f} {ratio:6.2f}{'  missed' if missed else ''}")
    return good


def bisections(size: int, rounds: int) -> bool:
    """Print the table against bisections; true if all are as much slower as they should be."""
    losses = torch.from_numpy(np.random.default_rng(1).exponential(size=size)).requires_grad_()
    print(f"\n{size} losses, forward and backward: microseconds, the bisection's, and their ratio (at least {FASTER})")
    good = True
    for risk, form, parameters in (
        (lw.KLCVaR(0.1, 0.1), opp.torch_kl_cvar, (0.1, 0.1)),
        (lw.ChiSquare(penalty=0.5), opp.torch_chi_square_penalty, (0.5,)),
        (lw.ChiSquare(radius=1.0), opp.torch_chi_square_radius, (1.0,)),
    ):
        layer = RobustLoss(risk)
        check(risk, layer, losses, 1e-11)
        other = opp.with_backward(form, *parameters)
        assert abs(other(losses)[0].item() - float(risk(losses.detach().numpy()))) < 1e-8
        repeats = 20 if size < 10_000 else 1
        seconds = turns({"ours": step(layer, losses), "theirs": lambda other=other: other(losses)}, rounds, repeats)
        ours, theirs = (statistics.median(seconds[side]) for side in ("ours", "theirs"))
        ratio = statistics.median(b / a for a, b in zip(seconds["ours"], seconds["theirs"], strict=True))
        good &= ratio >= FASTER
        print(
            f"{risk!r:50} {1e6 * ours:10.1f} {1e6 * theirs:12.1f} {ratio:7.1f}{'' if ratio >= FASTER else '  missed'}"
        )
    return good


def main() -> int:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--rounds", type=int, default=25, help="rounds of each measurement")
    parser.add_argument("--large", type=int, default=1_000_000, help="losses of the last table")
    options = parser.parse_args()
    torch.set_num_threads(1)
    with threadpool_limits(1):
        good = [
            overheads(options.rounds),
            bisections(SMALL, options.rounds),
            bisections(options.large, max(3, options.rounds // 5)),
        ]
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
