"""Section 7 of Levy, Carmon, Duchi and Sidford (2020): robust objectives by mini-batches, multi-level estimates and the full batch.

    python bench/papers/large_scale_dro.py --data digits --out digits.png        hours on two cores, as --data imagenet
    python bench/papers/large_scale_dro.py --quick                               a cut of the digits

A linear softmax model on features of a network: 60600 digits, 600 of them typed (l2 = 1e-2), or 40000 images of 200 classes
(l2 = 1e-3). Objectives: CVaR, chi-square radius and chi-square penalty. Methods, as in the paper: Nesterov's momentum 0.9 on batches of
10, 50, 500, 5000 and all samples, plain steps on multi-level estimates, polynomial-decay averages of the iterates. Batches go through a
random order of the data, anew each pass, as in the authors' training loop: independent batches need two to three times as many passes
for the last per cents of the digits. The optimum comes from L-BFGS with a certified gap.

The work of a method is the passes over the data (samples evaluated over n) that it takes to an objective within 2 % of the optimum. Each
gets the constant step that makes this least, found in the same way (decades from 1 down to 1e-5 while they get better, then half and double
of the best two, then the last iterate in place of the average), the full batch too. Runs of the search end within 2 %, when they have
worked more than the best before them, when after a quarter of that work they are three times as far from the target as the best was then,
or when they no longer come nearer; the chosen step then runs with several seeds.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import leeward as lw

SEEDS = (1, 10, 100, 1000, 1337)
WITHIN = 1.02
DATA = Path(os.environ.get("LEEWARD_DATA") or Path(__file__).resolve().parents[3] / "shared" / "data")


@dataclass(frozen=True)
class Setting:
    """An experiment: data, objectives, and how long runs may be."""

    name: str
    l2: float
    risks: dict[str, lw.Risk]
    paper: tuple[int, int]  # work of the full batch over that of batches of 50 to 5000 that the paper reports
    passes: float  # of the runs that are drawn
    limit: float  # of a run of the search on batches
    level_limit: float  # on multi-level estimates
    full_limit: float  # and on all samples
    looks: int  # at the objective, in a pass of batches
    full_every: int  # steps on all samples between looks
    precondition: bool  # L-BFGS for the optimum: with 200 classes the change of variables costs more than it saves
    batches: tuple[int, ...] = (10, 50, 500, 5000)
    seeds: tuple[int, ...] = SEEDS


DIGITS = Setting(
    "digits",
    1e-2,
    {
        "CVaR 0.02": lw.CVaR(0.02),
        "chi-square radius 1": lw.ChiSquare(radius=1.0),
        "chi-square penalty 0.05": lw.ChiSquare(penalty=0.05),
    },
    (9, 16),
    passes=60.0,
    limit=300.0,
    level_limit=100.0,
    full_limit=10_000.0,
    looks=2,
    full_every=5,
    precondition=True,
)
IMAGENET = Setting(
    "imagenet",
    1e-3,
    {
        "CVaR 0.1": lw.CVaR(0.1),
        "chi-square radius 1": lw.ChiSquare(radius=1.0),
        "chi-square penalty 0.4": lw.ChiSquare(penalty=0.4),
    },
    (27, 36),
    passes=15.0,
    limit=30.0,
    level_limit=30.0,
    full_limit=1000.0,
    looks=5,
    full_every=1,
    precondition=False,
)


def features(name: str) -> tuple[Any, Any]:
    """Training features as float32 rows, and labels."""
    file = (
        DATA / {"digits": "digits_features/digits_train.npz", "imagenet": "imagenet200_features/imagenet200.npz"}[name]
    )
    if not file.is_file():
        sys.exit(f"skipped: no {file}; set LEEWARD_DATA to the folder of the data sets")
    stored = np.load(file)
    X, y = (stored["X"], stored["y"]) if name == "digits" else (stored["X_train"], stored["y_train"])
    return (X * stored["scale"]).astype(np.float32), y.astype(np.int64)


@dataclass(frozen=True)
class Goal:
    """A problem, its optimum (an upper bound of it, at most ``gap`` too high) and the objective to reach."""

    problem: lw.Robust
    optimum: float
    gap: float

    @property
    def target(self) -> float:
        return WITHIN * self.optimum


@dataclass(frozen=True)
class Run:
    """What a run did: its trace, and the passes and seconds to the target, infinite where it never came."""

    passes: float
    seconds: float
    trace: lw.Trace


def distance(goal: Goal, trace: lw.Trace, passes: float) -> float:
    """Objective above the target after so many passes."""
    return float(np.interp(passes, trace.passes, trace.objective)) - goal.target


def run(
    goal: Goal, algorithm: lw.Algorithm, seed: int, limit: float, every: int, stop: bool, best: Run | None = None
) -> Run:
    """One run on one thread. With ``stop`` it ends at the target, when in the second half of its passes its distance to the target has
    not fallen by a tenth, or when it is far behind ``best``; in any case once its objective is twice that of the start."""
    start = goal.problem.value(np.zeros(goal.problem.dim))
    quarter = math.inf if best is None else 0.25 * best.passes
    behind = 0.0 if best is None or math.isinf(quarter) else 3.0 * distance(goal, best.trace, quarter)

    def over(state: lw.State) -> bool:
        if not state.objective <= 2.0 * start:
            return True
        above = np.array(state.trace.objective) - goal.target
        half = len(above) // 2
        stuck = half >= 10 and above[half:].min() > 0.9 * above[:half].min()
        late = state.trace.passes[-1] >= quarter and above[-1] > behind
        return stop and bool(state.objective <= goal.target or stuck or late)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a step that is too large ends its run with a warning
        result = lw.minimize(
            goal.problem,
            algorithm=algorithm,
            max_passes=limit,
            tol=0.0,
            seed=seed,
            callback=over,
            trace=every,
            threads=1,
        )
    trace = result.trace
    there = np.flatnonzero(np.array(trace.objective) <= goal.target)
    if not len(there):
        return Run(math.inf, math.inf, trace)
    first = int(there[0])
    return Run(float(trace.passes[first]), float(trace.seconds[first]), trace)


@dataclass(frozen=True)
class Method:
    """An algorithm without its step, the steps between looks at its objective, and the limit of its runs."""

    name: str
    algorithm: lw.Nesterov | lw.SGD
    every: int
    limit: float


def methods(setting: Setting, size: int, risk: lw.Risk) -> list[Method]:
    """Those of the paper; multi-level estimates of a radius have no bounded variance and are left out, as there."""
    found = []
    for n in setting.batches:
        batch = lw.Minibatch(n, replace=False, reshuffle=True)
        algorithm = lw.Nesterov(batch, step=1.0, form="momentum")
        found.append(Method(f"batch {n}", algorithm, max(1, size // (setting.looks * n)), setting.limit))
    if getattr(risk, "radius", None) is None:
        for n0 in (5, 25):
            levels = lw.MLMC(n0, 50_000)
            plain = lw.SGD(levels, step=1.0)
            every = max(1, size // (setting.looks * n0 * (1 + levels.levels)))
            found.append(Method(f"MLMC {n0} to {n0 << levels.levels}", plain, every, setting.level_limit))
    whole = lw.Nesterov(lw.Minibatch(size, replace=False), step=1.0, form="momentum")
    return [*found, Method("full batch", whole, setting.full_every, setting.full_limit)]


@dataclass
class Outcome:
    """The tuned algorithm and its runs."""

    algorithm: lw.Nesterov | lw.SGD
    runs: list[Run]
    searched: int
    took: float

    @property
    def work(self) -> float:
        """Mean passes to the target over the seeds."""
        return float(np.mean([r.passes for r in self.runs]))

    @property
    def seconds(self) -> float:
        return float(np.mean([r.seconds for r in self.runs]))


def tuned(goal: Goal, method: Method, seed: int) -> tuple[lw.Nesterov | lw.SGD, int]:
    """The algorithm with the step of least work (of those that never reach the target: least final objective), and the runs made."""
    tried: dict[tuple[float, bool], tuple[float, float]] = {}
    first: Run | None = None  # of the runs so far to the target

    def attempt(step: float, average: bool = True) -> tuple[float, float]:
        nonlocal first
        if (step, average) not in tried:
            limit = method.limit if first is None else first.passes
            one = run(
                goal, replace(method.algorithm, step=step, average=average), seed, limit, method.every, True, first
            )
            if one.passes < (math.inf if first is None else first.passes):
                first = one
            final = float(one.trace.objective[-1])
            tried[step, average] = (one.passes, final if math.isfinite(final) else math.inf)
        return tried[step, average]

    best, worse = (math.inf, math.inf), 0
    for k in range(6):
        now = attempt(10.0**-k)
        worse = worse + 1 if now > best and best[0] < math.inf else 0
        best = min(best, now)
        if worse == 2:
            break
    for step, _ in sorted(tried, key=lambda key: tried[key])[:2]:
        attempt(0.5 * step)
        attempt(2.0 * step)
    step, _ = min(tried, key=lambda key: tried[key])
    attempt(step, False)
    step, average = min(tried, key=lambda key: tried[key])
    return replace(method.algorithm, step=step, average=average), len(tried)


def outcome(goal: Goal, method: Method, setting: Setting) -> Outcome:
    """Tunes a method and runs it with each seed; the full batch, which has no draws, once and to the target only."""
    began = time.perf_counter()
    algorithm, searched = tuned(goal, method, setting.seeds[0])
    full = method.name == "full batch"
    limit = method.limit if full else setting.passes
    runs = []
    for seed in setting.seeds[: 1 if full else None]:
        one = run(goal, algorithm, seed, limit, method.every, full)
        if not full and math.isinf(one.passes):
            one = run(goal, algorithm, seed, method.limit, method.every, True)  # slower than what is drawn
        runs.append(one)
    return Outcome(algorithm, runs, searched, time.perf_counter() - began)


def optimum(problem: lw.Robust, precondition: bool = True) -> Goal:
    best = lw.minimize(problem, algorithm=lw.LBFGS(precondition=precondition), tol=1e-3, threads=1)
    if best.gap is None or best.gap > 2e-3 * best.fun:
        raise RuntimeError(f"no certified optimum: {best.message}")
    return Goal(problem, best.fun, best.gap)


def table(name: str, goal: Goal, found: dict[str, Outcome]) -> str:
    lines = [
        f"\n{name}: optimum {goal.optimum:.6g}, certified to {goal.gap / goal.optimum:.1e} of it; at w = 0 "
        f"{goal.problem.value(np.zeros(goal.problem.dim)):.4g}",
        f"{'method':<20}{'step':>9}{'answer':>9}{'passes to 2 %':>16}{'[least, largest]':>20}{'seconds':>9}"
        f"{'lowest objective / optimum - 1':>33}",
    ]
    for method, o in found.items():
        passes = [r.passes for r in o.runs]
        lowest = np.mean([np.nanmin(r.trace.objective) for r in o.runs]) / goal.optimum - 1.0
        lines.append(
            f"{method:<20}{o.algorithm.step:>9.3g}{'average' if o.algorithm.average else 'last':>9}{o.work:>16.4g}"
            f"{f'[{min(passes):.4g}, {max(passes):.4g}]':>20}{o.seconds:>9.2f}{lowest:>33.2%}"
        )
    return "\n".join(lines)


def ratio(name: str, found: dict[str, Outcome], paper: tuple[int, int]) -> str:
    """The work of the full batch over that of the best batch, and over each of the others that got there."""
    small = {k: o for k, o in found.items() if k.startswith("batch") and o.work < math.inf}
    full = found["full batch"]
    if not small or math.isinf(full.work):
        which = "no batch" if not small else "the full batch never"
        return f"{name:<26}{'-':>10} {which} came within 2 % in its limit"
    best = min(small, key=lambda k: small[k].work)
    value = full.work / small[best].work
    each = ", ".join(f"{k.split()[1]}: {full.work / o.work:.1f}" for k, o in small.items())
    return (
        f"{name:<26}{value:>10.1f} by {best:<12}{f'{paper[0]} to {paper[1]}':>12}   {each};"
        f" in seconds {full.seconds / small[best].seconds:.1f}"
    )


def draw(results: dict[str, tuple[Goal, dict[str, Outcome]]], out: Path, title: str) -> None:
    """Training objective over the optimum against passes, one panel an objective; bands from least to largest seed."""
    from matplotlib import pyplot

    from leeward.plot import COLOURS

    figure, axes = pyplot.subplots(
        1, len(results), figsize=(5.2 * len(results), 4.2), sharey=True, layout="constrained", squeeze=False
    )
    for ax, (name, (goal, found)) in zip(axes[0], results.items(), strict=True):
        for colour, (method, o) in zip(COLOURS, found.items(), strict=False):
            end = min(float(r.trace.passes[-1]) for r in o.runs)
            grid = np.geomspace(0.2, end, 120)
            curves = np.array(
                [np.interp(grid, r.trace.passes, r.trace.objective) / goal.optimum - 1.0 for r in o.runs]
            ).clip(1e-5)
            ax.plot(grid, curves.mean(axis=0), color=colour, label=f"{method}, step {o.algorithm.step:.3g}")
            ax.fill_between(grid, curves.min(axis=0), curves.max(axis=0), color=colour, alpha=0.15, linewidth=0)
        ax.axhline(WITHIN - 1.0, color="black", linewidth=0.8, linestyle=":")
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.set_title(f"{title}, {name}")
        ax.set_xlabel("passes over the data")
        ax.legend(frameon=False, fontsize="small")
    axes[0, 0].set_ylabel("training objective / optimum - 1")
    figure.savefig(out, dpi=150)
    pyplot.close(figure)


def quick(setting: Setting) -> Setting:
    """The smooth objectives only: a certified optimum of CVaR alone takes half a minute."""
    risks = {name: risk for name, risk in setting.risks.items() if risk.smooth}
    return replace(setting, risks=risks, batches=(50, 500), seeds=SEEDS[:2])


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--data", choices=("digits", "imagenet"), default="digits")
    parser.add_argument(
        "--objective", action="append", help="only this one, by its name in the tables; may be repeated"
    )
    parser.add_argument("--quick", action="store_true", help="two objectives, two batches, two seeds")
    parser.add_argument("--seeds", type=int, choices=range(1, 6), help="fewer than five seeds")
    parser.add_argument("--out", type=Path, help="where to write the figure, a PNG")
    parser.add_argument("--threads", type=int, default=2, help="methods that run at a time, each on one thread")
    options = parser.parse_args()
    setting = DIGITS if options.data == "digits" else IMAGENET
    setting = quick(setting) if options.quick else setting
    if options.objective is not None:
        if unknown := [name for name in options.objective if name not in setting.risks]:
            parser.error(f"--objective must be among {', '.join(setting.risks)}, got {unknown[0]}")
        setting = replace(setting, risks={name: setting.risks[name] for name in options.objective})
    setting = setting if options.seeds is None else replace(setting, seeds=SEEDS[: options.seeds])
    X, y = features(setting.name)
    model = lw.LinearModel(X, y, "softmax", l2=setting.l2, threads=1)
    print(f"{setting.name}: {len(y)} samples of {X.shape[1]} features, {model.n_outputs} classes, l2 {setting.l2:g}")
    began, results, ratios = time.perf_counter(), {}, []
    with ThreadPoolExecutor(max(1, options.threads)) as pool:
        goals = {
            name: pool.submit(optimum, lw.Robust(model, risk), setting.precondition)
            for name, risk in setting.risks.items()
        }
        for name, risk in setting.risks.items():
            goal = goals[name].result()
            jobs = methods(setting, len(y), risk)
            # The longest first: the full batch.
            waiting = {m.name: pool.submit(outcome, goal, m, setting) for m in reversed(jobs)}
            found = {m.name: waiting[m.name].result() for m in jobs}
            results[name] = (goal, found)
            ratios.append(ratio(name, found, setting.paper))
            print(table(name, goal, found), flush=True)
    print("\nwork of the full batch over that of the best batch, to within 2 % of the optimum")
    print(f"{'objective':<26}{'measured':>10}{'':<16}{'the paper':>12}   over each batch")
    print("\n".join(ratios))
    print(f"{time.perf_counter() - began:.0f} seconds")
    if options.out is not None:
        draw(results, options.out, setting.name)
        print(f"wrote {options.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
