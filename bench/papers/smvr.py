"""The portfolio experiment of Jiang et al. (2022): SMVR and the methods before it on daily returns of industries.

    python bench/papers/smvr.py --out smvr.png       four files, 20 runs of each method, minutes on two cores
    python bench/papers/smvr.py --quick              one file, 5 runs, less work

Mean-deviation portfolios (lam = 0.2) over the simplex as a composition of three levels. Each method gets the best of the paper's steps
and batches in the same way: one run each to the whole budget, and the least objective at its end counts. It then runs with 20 other
seeds. Budgets are equal in samples drawn, and the table counts values and Jacobians beside them, since methods spend different numbers of
these on a sample. The optimum is the exact one, with its certificate. SMVR is compared with each method on the same seeds: mean
difference of the logarithm of the gap, with a 95 % interval, and the samples until 1 % of the first gap is left.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from intervals import half_width

import leeward as lw
from leeward.sklearn import MeanDeviationPortfolio

FILES = ("industry10", "industry12", "industry17", "industry30")
DATA = Path(os.environ.get("LEEWARD_DATA") or Path(__file__).resolve().parents[3] / "shared" / "data") / "ff_industry"
LAM = 0.2
DAYS = 25_105
STEPS = (0.001, 0.005, 0.01, 0.05, 0.1)
BATCHES = (1, 32, 128)
RECORDS = 50  # of a run
LEFT = 0.01  # share of the first gap that counts as reached
METHODS: dict[str, Any] = {
    "SMVR": lw.SMVR(decay="cbrt"),
    "PMVR": lw.PMVR(decay="cbrt"),
    "SCSC": lw.SCSC(decay="sqrt"),
    "NestedSPIDER": lw.NestedSPIDER(),
    "NLASG": lw.NLASG(),
    "A-TSCGD": lw.ATSCGD(),
    "SCGD": lw.SCGD(),
}


@dataclass(frozen=True)
class Curves:
    """Runs of a method with its best batch and step: gaps and gradient-mapping norms (runs, grid) against samples."""

    batch: int
    step: float
    gaps: Any
    norms: Any
    counts: dict[str, float]  # values and Jacobians a run
    seconds: float


def returns(name: str) -> Any:
    """Daily returns in percent, the paper's days where there are so many."""
    file = DATA / f"{name}.npz"
    if not file.exists():
        sys.exit(f"skipped: no {file}; set LEEWARD_DATA to the folder of the data sets")
    return np.load(file)["r"][:DAYS] / 100.0


def drawn(name: str, batch: int) -> float:
    """Samples of a step: of two levels, the third has none; A-TSCGD draws twice, and NestedSPIDER has its big batches beside."""
    if name == "A-TSCGD":
        return 4.0 * batch
    return 2.0 * (batch + (lw.NestedSPIDER().big / lw.NestedSPIDER().period if name == "NestedSPIDER" else 0.0))


def run(problem: Any, name: str, batch: int, step: float, samples: float, seed: int) -> Any:
    """A run to a number of samples drawn; None where it diverges."""
    algorithm = replace(METHODS[name], batch=batch, step=step)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = lw.minimize(
            problem,
            algorithm=algorithm,
            max_passes=10.0 * samples / problem.size,  # more than any method spends on so many samples
            tol=0.0,
            seed=seed,
            callback=lambda state: state.trace.samples[-1] >= samples,
            trace=max(1, int(samples / drawn(name, batch) / RECORDS)),
            threads=1,
        )
    return None if result.status in (lw.Status.DIVERGED, lw.Status.NON_FINITE) else result


def at(result: Any, grid: Any, what: str) -> Any:
    """A quantity of the trace at numbers of samples: the last record before."""
    trace = result.trace
    place = np.searchsorted(np.array(trace.samples, dtype=float), grid, side="right") - 1
    return np.array(getattr(trace, what))[np.maximum(place, 0)]


def tuned(problem: Any, name: str, samples: float) -> tuple[int, float]:
    """The batch and step of the least objective at the end of one run each."""
    best, found = np.inf, (BATCHES[-1], STEPS[0])
    for batch in BATCHES:
        for step in STEPS:
            result = run(problem, name, batch, step, samples, seed=1000)
            end = np.inf if result is None else float(at(result, np.array([samples]), "objective")[0])
            if end < best:
                best, found = end, (batch, step)
    return found


def curves(problem: Any, name: str, optimum: float, samples: float, runs: int) -> Curves:
    """Tunes a method, then runs it with other seeds."""
    batch, step = tuned(problem, name, samples)
    grid = np.linspace(0.0, samples, RECORDS + 1)
    gaps, norms, counts, begun = [], [], [], time.perf_counter()
    for seed in range(runs):
        result = run(problem, name, batch, step, samples, seed)
        if result is None:
            gaps.append(np.full(grid.shape, np.nan))
            norms.append(gaps[-1])
            continue
        gaps.append(np.maximum(at(result, grid, "objective") - optimum, 0.0))
        norms.append(at(result, grid, "gradient_norm"))
        share = samples / result.samples
        counts.append([share * result.counts[kind] for kind in ("values", "jacobians")])
    values, jacobians = np.mean(counts, axis=0) if counts else (np.nan, np.nan)
    seconds = (time.perf_counter() - begun) / runs
    return Curves(batch, step, np.array(gaps), np.array(norms), {"values": values, "jacobians": jacobians}, seconds)


def reached(gaps: Any, samples: float) -> Any:
    """Samples (runs,) until the gap is below 1 % of the first one for the first time; infinite where it never is."""
    below = gaps <= LEFT * gaps[:, :1]
    grid = np.linspace(0.0, samples, gaps.shape[1])
    return np.where(below.any(axis=1), grid[np.argmax(below, axis=1)], np.inf)


def paired(mine: Any, other: Any) -> tuple[float, float]:
    """Mean and half-width of the 95 % interval of the paired difference of logarithms (base 10)."""
    difference = np.log10(np.maximum(other, 1e-300)) - np.log10(np.maximum(mine, 1e-300))
    difference = difference[np.isfinite(difference)]
    if len(difference) < 2:
        return float("nan"), float("nan")
    return float(difference.mean()), float(half_width(difference))


def table(found: dict[str, Curves], samples: float) -> str:
    """The result as text; the last column is how many tenfold SMVR's gap at the end is below, in the mean over paired runs."""
    lines = [
        f"{'method':<14}{'batch':>6}{'step':>7}{'gap at the end':>16}{'gradient map':>14}{'to 1 %':>10}{'values':>10}{'Jacobians':>11}"
        f"{'s a run':>9}   SMVR's gap lower by (log10)"
    ]
    smvr = found["SMVR"]
    for name, c in found.items():
        arrival = reached(c.gaps, samples)
        when = f"{np.median(arrival):.2g}" if np.isfinite(np.median(arrival)) else "never"
        mean, half = paired(smvr.gaps[:, -1], c.gaps[:, -1])
        against = "" if name == "SMVR" else f"{mean:+.2f} +- {half:.2f}"
        lines.append(
            f"{name:<14}{c.batch:>6}{c.step:>7g}{np.nanmean(c.gaps[:, -1]):>16.3e}{np.nanmean(c.norms[:, -1]):>14.3e}{when:>10}"
            f"{c.counts['values']:>10.3g}{c.counts['jacobians']:>11.3g}{c.seconds:>9.2f}   {against}"
        )
    return "\n".join(lines)


def verdict(name: str, found: dict[str, Curves], samples: float) -> None:
    """Says where SMVR is not first."""
    smvr = found["SMVR"]
    mine = reached(smvr.gaps, samples)
    for other, c in found.items():
        if other == "SMVR":
            continue
        mean, half = paired(smvr.gaps[:, -1], c.gaps[:, -1])
        end = "lower" if mean - half > 0 else "HIGHER" if mean + half < 0 else "NOT certainly different"
        theirs = reached(c.gaps, samples)
        sooner = int(np.sum(mine < theirs))
        later = int(np.sum(mine > theirs))
        print(f"  {name}: SMVR ends {end} than {other}; to 1 % in fewer samples in {sooner} runs, in more in {later}")


def draw(results: dict[str, dict[str, Curves]], ends: dict[str, float], out: Path) -> None:
    """Gaps above, gradient-mapping norms below, a column a file; bands from the first to the third quartile."""
    from matplotlib import pyplot

    from leeward.plot import COLOURS

    figure, axes = pyplot.subplots(
        2, len(results), figsize=(4.2 * len(results), 6.4), layout="constrained", squeeze=False
    )
    for column, (file, found) in enumerate(results.items()):
        grid = np.linspace(0.0, ends[file], RECORDS + 1)
        for colour, (name, c) in zip([*COLOURS, "black"], found.items(), strict=False):
            for ax, values in zip(axes[:, column], (c.gaps, c.norms), strict=True):
                low, middle, high = np.nanquantile(values, [0.25, 0.5, 0.75], axis=0)
                ax.plot(grid, middle, color=colour, label=f"{name}, {c.batch}, {c.step:g}")
                ax.fill_between(grid, low, high, color=colour, alpha=0.15, linewidth=0)
                ax.set_yscale("log")
        axes[0, column].set_title(file)
        axes[0, column].legend(frameon=False, fontsize=7, title="method, batch, step", title_fontsize=7)
        axes[1, column].set_xlabel("samples drawn")
    axes[0, 0].set_ylabel("objective over the optimum")
    axes[1, 0].set_ylabel("norm of the gradient mapping")
    figure.savefig(out, dpi=150)
    pyplot.close(figure)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--quick", action="store_true", help="one file, 5 runs, a seventh of the samples")
    parser.add_argument("--files", nargs="+", choices=FILES, help="some of the files")
    parser.add_argument("--runs", type=int, help="runs of each method, 20 by default")
    parser.add_argument("--passes", type=float, help="samples of a run over those of all levels, 20 by default")
    parser.add_argument("--out", type=Path, help="where to write the figure, a PNG")
    options = parser.parse_args()
    files = options.files or (FILES[:1] if options.quick else FILES)
    runs = options.runs or (5 if options.quick else 20)
    passes = options.passes or (3.0 if options.quick else 20.0)
    results, ends = {}, {}
    for file in files:
        R = returns(file)
        exact = MeanDeviationPortfolio(LAM).fit(R)
        problem = lw.MeanDeviation(R, LAM)
        samples = passes * problem.size
        first = problem.value(problem.start()) - exact.objective_
        print(
            f"\n{file}: {R.shape[0]} days, {R.shape[1]} industries; optimum {exact.objective_:.10f} (within {exact.gap_:.1g}), first gap "
            f"{first:.4f}; {samples:.3g} samples a run",
            flush=True,
        )
        found = {name: curves(problem, name, exact.objective_, samples, runs) for name in METHODS}
        print(table(found, samples), flush=True)
        verdict(file, found, samples)
        results[file], ends[file] = found, samples
    if options.out is not None:
        draw(results, ends, options.out)
        print(f"wrote {options.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
