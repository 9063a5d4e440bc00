"""The meta-learning experiment of Jiang et al. (2022), section 5.3: five steps of MAML on Omniglot, five classes, one and five shots.

    python bench/papers/omniglot_maml.py --out omniglot.png     both settings, 3 seeds, about ten minutes on two cores
    python bench/papers/omniglot_maml.py --quick                one shot, one seed, fewer tasks and steps: under a minute

M tasks of five characters are drawn from 1200 of Omniglot's characters, images of 14 x 14, and a network of 3237 parameters is trained as a
composition of six levels through products (`leeward.torch.MAML`): ten of each character's drawers are for the steps, ten for the
loss. A sample is one drawer, an image of each of the five characters; k shots are batches of k samples. Plain MAML draws k samples of
each task for all of its steps and k for the loss, and differentiates the loop. All methods draw equally many images. Steps and betas
are chosen alike: one run for each of a grid, and the accuracy on tasks of other characters decides. Then come 3 seeds (networks and
draws), and the accuracy after five steps on k images a class of tasks of characters never seen, with 95 % intervals.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import multiprocessing
import os
import sys
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from intervals import half_width

import leeward as lw
from leeward.torch import MAML

DATA = Path(os.environ.get("LEEWARD_DATA") or Path(__file__).resolve().parents[3] / "shared" / "data")
FILE = DATA / "omniglot" / "omniglot28.npz"
STEPS, RATE, WAYS, HIDDEN = 5, 0.4, 5, 16
RECORDS = 8  # of a run
functional = torch.nn.functional
ADAM, PLAIN, BETAS = (0.001, 0.003, 0.01), (0.03, 0.1, 0.3), (0.1, 0.5)
# Name -> step sizes, betas.
GRID: dict[str, tuple[tuple[float, ...], tuple[float, ...]]] = {
    "PMVR-Adam": (ADAM, BETAS),
    "PMVR": (PLAIN, BETAS),
    "SCSC-Adam": (ADAM, BETAS),
    "SCSC": (PLAIN, BETAS),
    "NLASG": ((0.3, 1.0, 3.0), (0.0,)),  # of which it goes a share 1/sqrt(steps)
    "A-TSCGD": (PLAIN, (0.0,)),
    "MAML-Adam": (ADAM, (0.0,)),
    "MAML-SGD": (PLAIN, (0.0,)),
}


@dataclass(frozen=True)
class Job:
    """One run: what a worker needs to know."""

    method: str
    shots: int
    step: float
    beta: float
    seed: int
    tasks: int
    images: float
    testing: bool  # on test tasks, else on the validation tasks


@functools.cache
def characters() -> Any:
    """(1623, 20, 196) images, centred, and the characters for training, validation and tests.

    The scale keeps the steps' rate times the losses' curvature below 1: above, products of drawn Jacobians I - a H are mostly noise.
    """
    pixels = torch.from_numpy(np.load(FILE)["X"].astype(np.float32) / 15.0)
    images = functional.avg_pool2d(pixels, 2).flatten(2)
    order = np.random.default_rng(0).permutation(len(images))
    return (images - images.mean()) / (4.0 * images.std()), (order[:1200], order[1200:1300], order[1300:])


def tasks_of(images: Any, chosen: Any, count: int, seed: int) -> Any:
    """Tasks (count, 20, 5, 196) and their classes (count, 20, 5): five characters each, drawers in an order of their own."""
    rng = np.random.default_rng(seed)
    which = np.stack([rng.choice(chosen, WAYS, replace=False) for _ in range(count)])
    drawers = np.stack([rng.permutation(20) for _ in range(count)])
    x = images[torch.from_numpy(which)[:, None, :], torch.from_numpy(drawers)[:, :, None]]
    return x, torch.arange(WAYS).expand(count, 20, WAYS)


def cross_entropy(out: Any, y: Any) -> Any:
    """The mean loss of samples of five images."""
    return functional.cross_entropy(out.flatten(0, 1), y.flatten())


def problem_of(x: Any, y: Any, seed: int) -> MAML:
    """The composition over these tasks, from a network of this seed."""
    torch.manual_seed(seed)
    net = torch.nn.Sequential(torch.nn.Linear(x.shape[-1], HIDDEN), torch.nn.ReLU(), torch.nn.Linear(HIDDEN, WAYS))
    return MAML(net, cross_entropy, (x[:, :10], y[:, :10]), (x[:, 10:], y[:, 10:]), steps=STEPS, lr=RATE)


def accuracy(problem: MAML, w: Any, x: Any, y: Any, shots: int) -> float:
    """Share of right answers on ten drawers, after the steps on the first ``shots`` of each task."""
    out = problem.predict(w, x[:, :shots], y[:, :shots], x[:, 10:])
    return float((out.argmax(-1) == y[:, 10:]).float().mean())


def algorithm(job: Job, steps: int) -> Any:
    """The method on the composition; PMVR's first batch is all samples."""
    batch, step, update = job.shots, job.step, lw.Adam() if job.method.endswith("-Adam") else None
    if job.method.startswith("PMVR"):
        return lw.PMVR(batch=batch, first_batch=10, step=step, beta=job.beta, update=update)
    if job.method.startswith("SCSC"):
        return lw.SCSC(batch=batch, step=step, beta=job.beta, update=update)
    if job.method == "NLASG":
        return lw.NLASG(batch=batch, step=step, tau=steps**-0.5)
    return lw.ATSCGD(batch=batch, step=step)


def through_levels(job: Job, problem: MAML) -> list[Any]:
    """The points at the records of a run on the composition."""
    draws = job.tasks * WAYS * (STEPS + 1) * job.shots * (2 if job.method == "A-TSCGD" else 1)  # images of a step
    first = (
        draws * (10 / job.shots - 1) if job.method.startswith("PMVR") else 0.0
    )  # images of the first step beyond those
    steps = max(RECORDS, round((job.images - first) / draws))
    found = [problem.start()]

    def record(state: Any) -> bool:
        if len(state.trace) > 1:  # the first record is the start
            found.append(state.w.copy())
        return len(found) > RECORDS

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a step that is too large
        lw.minimize(
            problem,
            algorithm=algorithm(job, steps),
            max_passes=1e9,
            tol=0.0,
            seed=job.seed,
            trace=max(1, steps // RECORDS),
            threads=1,
            callback=record,
        )
    return found


def plain(job: Job, problem: MAML, x: Any, y: Any) -> list[Any]:
    """The points at the records of plain MAML: by differentiation through five steps on one draw of each task."""
    rng = np.random.default_rng(job.seed)
    w = torch.from_numpy(problem.start()).float().requires_grad_()
    made = torch.optim.Adam if job.method == "MAML-Adam" else torch.optim.SGD
    optimiser = made([w], lr=job.step)
    steps = max(RECORDS, round(job.images / (job.tasks * WAYS * 2 * job.shots)))
    found = [problem.start()]
    shapes = [(HIDDEN, x.shape[-1]), (HIDDEN,), (WAYS, HIDDEN), (WAYS,)]
    sizes = [int(np.prod(shape)) for shape in shapes]
    many = torch.arange(job.tasks)[:, None]

    def loss_of(rows: Any, chosen: Any) -> Any:
        A, a, B, b = (p.unflatten(1, shape) for p, shape in zip(rows.split(sizes, dim=1), shapes, strict=True))
        hidden = torch.relu(x[many, chosen].flatten(1, 2) @ A.mT + a[:, None])
        scores = (hidden @ B.mT + b[:, None]).flatten(0, 1)
        return functional.cross_entropy(scores, y[many, chosen].flatten(), reduction="sum") / (WAYS * chosen.shape[1])

    for t in range(1, steps + 1):
        halves = [torch.from_numpy(rng.permuted(np.tile(range(10), (job.tasks, 1)), axis=1)) for _ in range(2)]
        support, query = halves[0][:, : job.shots], 10 + halves[1][:, : job.shots]
        rows = w.expand(job.tasks, -1)
        for _ in range(STEPS):
            rows = rows - RATE * torch.autograd.grad(loss_of(rows, support), rows, create_graph=True)[0]
        optimiser.zero_grad()
        (loss_of(rows, query) / job.tasks).backward()
        optimiser.step()
        if t * RECORDS // steps > (t - 1) * RECORDS // steps:
            found.append(w.detach().double().numpy())
    return found


def run(job: Job) -> list[float]:
    """Accuracies at the start and at the records, those of guesses where a run has diverged; the last one alone without ``testing``."""
    torch.set_num_threads(1)
    images, (train, validation, test) = characters()
    x, y = tasks_of(images, train, job.tasks, seed=1)
    other = tasks_of(images, test, 200, seed=2) if job.testing else tasks_of(images, validation, 100, seed=3)
    problem = problem_of(x, y, job.seed)

    points = plain(job, problem, x, y) if job.method.startswith("MAML") else through_levels(job, problem)
    points += [np.full(problem.dim, np.nan)] * (RECORDS + 1 - len(points))
    return [
        accuracy(problem, w, *other, job.shots) if np.isfinite(w).all() else 1.0 / WAYS
        for w in (points if job.testing else points[-1:])
    ]


def setting(pool: Any, shots: int, tasks: int, steps: int, seeds: int) -> dict[str, tuple[float, float, Any]]:
    """The best step and beta of each method, and its curves (seeds, records)."""
    images = float(tasks * WAYS * (STEPS + 1) * shots * steps)
    tries = [
        Job(name, shots, step, beta, 1000, tasks, images / 2, False)
        for name, (sizes, betas) in GRID.items()
        for step, beta in itertools.product(sizes, betas)
    ]
    best: dict[str, tuple[float, Job]] = {}
    for job, curve in zip(tries, pool.map(run, tries, chunksize=1), strict=True):
        if job.method not in best or curve[-1] > best[job.method][0]:
            best[job.method] = curve[-1], job
    jobs = [
        Job(name, shots, job.step, job.beta, seed, tasks, images, True)
        for name, (_, job) in best.items()
        for seed in range(seeds)
    ]
    curves = pool.map(run, jobs, chunksize=1)
    return {
        name: (job.step, job.beta, np.array([c for j, c in zip(jobs, curves, strict=True) if j.method == name]))
        for name, (_, job) in best.items()
    }


def table(found: dict[str, tuple[float, float, Any]]) -> str:
    """Accuracies at the start, half-way and at the end; paired over seeds, how far PMVR-Adam is above."""
    lines = [
        f"{'method':<12}{'step':>7}{'beta':>6}{'start':>8}{'half':>8}{'end':>8}{'+-':>7}   PMVR-Adam above (points)"
    ]
    mine = found["PMVR-Adam"][2]
    for name, (step, beta, curves) in found.items():
        first, half, end = (100 * curves[:, k].mean() for k in (0, RECORDS // 2, -1))
        above = 100 * (mine[:, -1] - curves[:, -1])
        against = "" if name == "PMVR-Adam" else f"{above.mean():+.1f} +- {half_width(above):.1f}"
        shown = f"{beta:g}" if beta else ""
        lines.append(
            f"{name:<12}{step:>7g}{shown:>6}{first:>8.1f}{half:>8.1f}{end:>8.1f}{100 * half_width(curves[:, -1]):>7.1f}   {against}"
        )
    return "\n".join(lines).replace("+- nan", "").replace("nan", "   ")  # one seed has no interval


def draw(results: dict[int, Any], totals: dict[int, float], out: Path) -> None:
    """Accuracy against images drawn, a panel for each number of shots; bands from the least to the most of the seeds."""
    from matplotlib import pyplot

    from leeward.plot import COLOURS

    figure, axes = pyplot.subplots(
        1, len(results), figsize=(5.2 * len(results), 4.0), layout="constrained", squeeze=False
    )
    for ax, (shots, found) in zip(axes[0], results.items(), strict=True):
        grid = np.linspace(0.0, totals[shots], RECORDS + 1)
        for colour, (name, (step, _, curves)) in zip(itertools.cycle([*COLOURS, "black"]), found.items(), strict=False):
            style = "--" if name.startswith("MAML") else "-"
            ax.plot(grid, curves.mean(axis=0), style, color=colour, label=f"{name}, {step:g}")
            ax.fill_between(grid, curves.min(axis=0), curves.max(axis=0), color=colour, alpha=0.12, linewidth=0)
        ax.set_title(f"{WAYS} classes, {shots} shot{'s' if shots > 1 else ''}")
        ax.set_xlabel("images drawn")
        ax.legend(frameon=False, fontsize=7, title="method, step", title_fontsize=7)
    axes[0, 0].set_ylabel("accuracy on new characters")
    figure.savefig(out, dpi=150)
    pyplot.close(figure)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--quick", action="store_true", help="one shot, one seed, 10 tasks, 16 steps")
    parser.add_argument("--seeds", type=int, help="runs of each method, 3 by default")
    parser.add_argument("--tasks", type=int, help="M, 40 by default")
    parser.add_argument("--steps", type=int, help="steps of PMVR; all methods draw as many images. 200 by default")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--out", type=Path, help="where to write the figure, a PNG")
    options = parser.parse_args()
    if not FILE.exists():
        sys.exit(f"skipped: no {FILE}; set LEEWARD_DATA to the folder of the data sets")
    seeds = options.seeds or (1 if options.quick else 3)
    tasks = options.tasks or (10 if options.quick else 40)
    steps = options.steps or (16 if options.quick else 200)
    results, totals = {}, {}
    with multiprocessing.get_context("spawn").Pool(options.jobs) as pool:
        for shots in (1,) if options.quick else (1, 5):
            begun = time.perf_counter()
            totals[shots] = float(tasks * WAYS * (STEPS + 1) * shots * steps)
            results[shots] = setting(pool, shots, tasks, steps, seeds)
            print(
                f"\n{WAYS} classes, {shots} shot{'s' if shots > 1 else ''}: {tasks} tasks, {totals[shots]:.3g} images a run, "
                f"seeds: {seeds}; accuracy in percent on 200 tasks of new characters ({time.perf_counter() - begun:.0f} s)"
            )
            print(table(results[shots]), flush=True)
    if options.out is not None:
        draw(results, totals, options.out)
        print(f"wrote {options.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
