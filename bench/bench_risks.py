"""How long a risk takes, value and weights, beside PyTorch (bisection and backward pass) and plain NumPy (sorting).

``python bench/bench_risks.py`` prints one table of medians and ratios from one run, with the ratio that each row should
reach, and exits with status 1 if one is missed; ``--sizes 100 100000`` and ``--rounds`` shorten it.
``python -m pytest bench/bench_risks.py`` times the same calls with pytest-benchmark.
Every answer is compared with the twins of tests/reference before it is timed. One thread each, float64, uniform weights.
"""

# ruff: noqa: E402  the path is set before the imports that need it

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent / "tests")]

import numpy as np
import opponents as opp
import pytest
import torch
from threadpoolctl import threadpool_limits

import leeward as lw
from reference import risk_catalogue as cat

ROWS, ROW_LENGTH = 100_000, 32


class Case(NamedTuple):
    """One risk with its opponents; ``targets`` maps a measurement to the ratio it should reach (or stay within)."""

    spec: cat.Spec
    numpy: Callable[[opp.Vector], opp.Solution]
    torch: Callable[[Any], Any] | None
    targets: dict[str, float]


def _torch_targets(small: float, passes: float) -> dict[str, float]:
    return {"torch 100": small, "torch 100000": 10, "rows": 10, "passes": passes, "threads": 1.7}


def cases() -> dict[str, Case]:
    """The risks, their opponents, and what is expected of them."""
    back = opp.with_backward
    return {
        "Mean": Case(cat.mean(), opp.numpy_mean, None, {}),
        "Worst": Case(cat.worst(), opp.numpy_worst, None, {}),
        "CVaR": Case(
            cat.cvar(0.1),
            lambda l: opp.numpy_cvar(l, 0.1),
            back(opp.torch_cvar, 0.1),  # a sort, also by rows: no bisection to be faster than
            {"torch 100": 20, "torch 100000": 10, "passes": 12, "threads": 1.7},
        ),
        "ChiSquare penalty": Case(
            cat.chi_square_penalty(0.5),
            lambda l: opp.numpy_chi_square_penalty(l, 0.5),
            back(opp.torch_chi_square_penalty, 0.5),
            _torch_targets(50, 12),
        ),
        "ChiSquare radius": Case(
            cat.chi_square_radius(1.0),
            lambda l: opp.numpy_chi_square_radius(l, 1.0),
            back(opp.torch_chi_square_radius, 1.0),
            _torch_targets(50, 12),
        ),
        "ChiSquare both": Case(
            cat.chi_square_both(0.5, 0.3), lambda l: opp.numpy_chi_square_both(l, 0.5, 0.3), None, {}
        ),
        "KL penalty": Case(
            cat.kl_penalty(0.5),
            lambda l: opp.numpy_kl_penalty(l, 0.5),
            back(opp.torch_kl_penalty, 0.5),  # a library call: no bisection, so no ratio is asked for
            {"passes": 15, "threads": 1.7},
        ),
        "KL radius": Case(
            cat.kl_radius(0.5),
            lambda l: opp.numpy_kl_radius(l, 0.5),
            back(opp.torch_kl_radius, 0.5),
            {"torch 100000": 10, "rows": 10, "passes": 35, "threads": 1.7},
        ),
        "KLCVaR": Case(
            cat.kl_cvar(0.1, 0.1),
            lambda l: opp.numpy_kl_cvar(l, 0.1, 0.1),
            back(opp.torch_kl_cvar, 0.1, 0.1),
            _torch_targets(50, 35),
        ),
        "SmoothedCVaR": Case(
            cat.smoothed_cvar(0.1, 0.1),
            lambda l: opp.numpy_smoothed_cvar(l, 0.1, 0.1),
            back(opp.torch_smoothed_cvar, 0.1, 0.1),
            {"torch 100000": 10, "rows": 10, "passes": 35, "threads": 1.7},
        ),
        "CressieRead penalty": Case(
            cat.cressie_read_penalty(3.0, 0.5), lambda l: opp.numpy_cressie_read_penalty(l, 3.0, 0.5), None, {}
        ),
        "CressieRead radius": Case(
            cat.cressie_read_radius(1.5, 0.5), lambda l: opp.numpy_cressie_read_radius(l, 1.5, 0.5), None, {}
        ),
        "TotalVariation": Case(cat.total_variation(0.1), lambda l: opp.numpy_total_variation(l, 0.1), None, {}),
        "Tilted": Case(cat.tilted(-2.0), lambda l: _minus(opp.numpy_kl_penalty(-l, 0.5)), None, {}),
        "Extremile": Case(
            cat.extremile(5.0),
            lambda l: opp.numpy_spectral(l, np.diff((np.arange(l.size + 1) / l.size) ** 5)),
            None,
            {},
        ),
    }


def _minus(solution: opp.Solution) -> opp.Solution:
    return -solution[0], solution[1]


def losses_of(*shape: int) -> opp.Vector:
    """Logistic-like losses: non-negative, skewed."""
    return np.log1p(np.exp(np.random.default_rng(0).normal(-1, 2, size=shape)))


def check(case: Case, losses: opp.Vector) -> None:
    """All contenders give the twin's value (or, where the twin would take minutes, a feasible primal equal to it)."""
    s = case.spec.risk.solve(losses, threads=1)
    exact = (
        float(case.spec.twin(losses).value) if losses.size <= 100_000 else float(case.spec.primal(losses, s.weights))
    )
    assert abs(s.value - exact) <= 1e-11 * (1 + abs(exact)), (case.spec, s.value, exact)
    assert abs(case.numpy(losses)[0] - exact) <= 1e-8 * (1 + abs(exact)), (case.spec, "numpy")
    if case.torch is not None and losses.size <= 100_000:
        assert abs(float(case.torch(torch.from_numpy(losses))[0]) - exact) <= 1e-7 * (1 + abs(exact)), (
            case.spec,
            "torch",
        )


typical: Callable[[list[float]], float] = statistics.median  # of the rounds; ``--best`` takes the minimum instead


def seconds_of(calls: Sequence[Callable[[], Any]], rounds: int, least: float = 2e-3) -> list[float]:
    """Seconds of each call, measured in turn so that a disturbance meets them all; short calls are repeated."""
    repeats = []
    for call in calls:
        call()
        start = time.perf_counter()
        call()
        repeats.append(max(1, int(least / max(time.perf_counter() - start, 1e-7))))
    seconds: list[list[float]] = [[] for _ in calls]
    for _ in range(rounds):
        for i, call in enumerate(calls):
            start = time.perf_counter()
            for _ in range(repeats[i]):
                call()
            seconds[i].append((time.perf_counter() - start) / repeats[i])
    return [typical(s) for s in seconds]


class Table:
    """Rows as they are measured, and what was missed."""

    def __init__(self) -> None:
        self.missed: list[str] = []
        self._line("risk", "size", "leeward ms", "opponent", "its ms", "ratio", "asked")

    def _line(self, *cells: str) -> None:
        print("{:<20} {:>10} {:>11} {:<16} {:>10} {:>8}  {}".format(*cells), flush=True)

    def row(self, name: str, size: str, ours: float, what: str, other: float, asked: float | None, most: bool) -> None:
        """``most``: the ratio is ours/other and at most ``asked``; else other/ours and at least ``asked``."""
        ratio = ours / other if most else other / ours
        word = "" if asked is None else f"{'<=' if most else '>='} {asked:g}"
        if asked is not None and (ratio > asked if most else ratio < asked):
            word += "  MISSED"
            self.missed.append(f"{name}, {size}, {what}: {ratio:.2f}, asked {word}")
        self._line(name, size, f"{1e3 * ours:.4f}", what, f"{1e3 * other:.4f}", f"{ratio:.2f}", word)


def vectors(table: Table, size: int, rounds: int) -> None:
    """Against NumPy, and against PyTorch where there is a form of it."""
    losses = losses_of(size)
    tensor = torch.from_numpy(losses)
    for name, case in cases().items():
        check(case, losses)
        calls: list[Callable[[], Any]] = [
            lambda risk=case.spec.risk: risk.solve(losses, threads=1),
            lambda form=case.numpy: form(losses),
        ]
        if case.torch is not None:
            calls.append(lambda form=case.torch: form(tensor))
        ours, *others = seconds_of(calls, rounds)
        table.row(name, str(size), ours, "NumPy", others[0], 1.0 if size == 100 else None, most=False)
        if len(others) > 1:
            table.row(name, str(size), ours, "torch", others[1], case.targets.get(f"torch {size}"), most=False)


def long_vector(table: Table, size: int, rounds: int) -> None:
    """In units of reading the array once, the weights written into one array; then two threads against one."""
    losses = losses_of(size)
    tensor, out = torch.from_numpy(losses), np.empty(size)
    for name, case in cases().items():
        if "passes" not in case.targets:
            continue
        check(case, losses)
        solve = case.spec.risk.solve
        one, two, *sums = seconds_of(
            [
                lambda solve=solve: solve(losses, threads=1, out=out),
                lambda solve=solve: solve(losses, threads=2, out=out),
                losses.sum,
                tensor.sum,
            ],
            rounds,
        )
        table.row(name, str(size), one, "one sum", min(sums), case.targets["passes"], most=True)
        table.row(name, str(size), two, "1 thread", one, case.targets["threads"], most=False)


def rows(table: Table, rounds: int) -> None:
    """Many short vectors at once."""
    losses = losses_of(ROWS, ROW_LENGTH)
    tensor = torch.from_numpy(losses)
    for name, case in cases().items():
        if case.torch is None:
            continue
        s = case.spec.risk.solve(losses, threads=1)
        value, weights = case.torch(tensor)
        assert np.abs(value.numpy() - s.value).max() <= 1e-7 * (1 + s.value.max()), name
        assert np.abs(weights.numpy() - s.weights).max() <= 1e-6, name
        ours, other = seconds_of(
            [lambda risk=case.spec.risk: risk.solve(losses, threads=1), lambda form=case.torch: form(tensor)], rounds
        )
        table.row(name, f"{ROWS}x{ROW_LENGTH}", ours, "torch", other, case.targets.get("rows"), most=False)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; 1 if a ratio was missed."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--sizes", type=int, nargs="*", default=[100, 100_000], help="lengths of single vectors")
    parser.add_argument("--long", type=int, default=10_000_000, help="length of the long vector; 0 leaves it out")
    parser.add_argument("--rows", action=argparse.BooleanOptionalAction, default=True, help="the matrix of short rows")
    parser.add_argument("--rounds", type=int, default=7, help="measurements of each call")
    parser.add_argument("--best", action="store_true", help="compare minima, on a machine that others use too")
    given = parser.parse_args(arguments)
    global typical
    typical = min if given.best else statistics.median
    torch.set_num_threads(1)
    table = Table()
    with threadpool_limits(1):
        for size in given.sizes:
            vectors(table, size, given.rounds)
        if given.rows:
            rows(table, min(given.rounds, 5))
        if given.long:
            long_vector(table, given.long, given.rounds)
    print(f"\n{len(table.missed)} missed")
    for line in table.missed:
        print(" ", line)
    return 1 if table.missed else 0


@pytest.mark.parametrize("name", cases())
@pytest.mark.parametrize("size", [100, 100_000, 10_000_000])
@pytest.mark.parametrize("who", ["leeward", "NumPy", "torch"])
def test_value_and_weights_of_a_vector(benchmark: Any, who: str, size: int, name: str) -> None:
    case = cases()[name]
    if who == "torch" and case.torch is None:
        pytest.skip("no PyTorch form")
    if who != "leeward" and size > 100_000:
        pytest.skip("opponents stop at 100,000")
    losses = losses_of(size)
    check(case, losses)
    benchmark.group = f"{name}, n = {size}"
    if who == "leeward":
        benchmark(case.spec.risk.solve, losses, threads=1)
    elif who == "NumPy":
        benchmark(case.numpy, losses)
    else:
        benchmark(case.torch, torch.from_numpy(losses))


@pytest.mark.parametrize("name", cases())
@pytest.mark.parametrize("who", ["leeward", "torch"])
def test_value_and_weights_of_many_rows(benchmark: Any, who: str, name: str) -> None:
    case = cases()[name]
    if who == "torch" and case.torch is None:
        pytest.skip("no PyTorch form")
    losses = losses_of(ROWS, ROW_LENGTH)
    benchmark.group = f"{name}, {ROWS} rows of {ROW_LENGTH}"
    if who == "leeward":
        s = benchmark(case.spec.risk.solve, losses, threads=1)
        some = [case.spec.twin(row).value for row in losses[:50]]
        assert np.abs(s.value[:50] - np.array(some, dtype=np.float64)).max() <= 1e-11
    else:
        benchmark(case.torch, torch.from_numpy(losses))


if __name__ == "__main__":
    assert lw.__version__
    sys.exit(main())
