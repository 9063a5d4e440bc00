"""Figure 1 of Lei, Ju, Chen and Jordan (2017): SGD against SCSG on MNIST, a fully connected network of three layers of 512.

    python bench/papers/scsg.py --out scsg.png            the whole experiment; --quick: a cut of it, minutes on two cores

The network is a `leeward.from_vjp` oracle over PyTorch (one forward pass serves losses and weighted gradient), its parameters
one vector w. Each method gets its best constant step from `leeward.tune` in the same way, then runs from five random starts.
Costs are component gradients really evaluated: B + 2 b N a stage of SCSG (the paper counts B + b N, shown beside it). The
verdict is on the training loss at equal component gradients.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

import leeward as lw

SEEDS = (1, 10, 100, 1000, 1337)
COUNTED = 2.0 / 3.0  # a stage of SCSG makes 3 B gradients, which the paper counts as 2 B
DATA = Path(os.environ.get("LEEWARD_DATA") or Path(__file__).resolve().parents[3] / "shared" / "data")


@dataclass(frozen=True)
class Setting:
    """The size of an experiment."""

    rows: int
    width: int
    passes: float  # of a run, in component gradients over n
    tuning: float  # passes of a run of the search
    seeds: tuple[int, ...]
    batches: tuple[int, ...]


FULL = Setting(50_000, 512, 20.0, 5.0, SEEDS, (512, 1024))
QUICK = Setting(5_000, 64, 20.0, 5.0, SEEDS[:3], (512,))


def mnist(rows: int) -> tuple[Any, Any, Any, Any]:
    """Training and validation images in [0, 1] as float32 rows, and their labels: 50000 and 10000 of the training file."""
    folder = DATA / "mnist"
    if not folder.is_dir():
        sys.exit(f"skipped: no MNIST in {folder}; set LEEWARD_DATA to the folder of the data sets")
    parts = [np.load(folder / f"mnist_train_{part}.npz") for part in "ab"]
    X = np.concatenate([part["X"] for part in parts]).reshape(60_000, 784).astype(np.float32) / 255.0
    y = np.concatenate([part["y"] for part in parts]).astype(np.int64)
    return X[:rows], y[:rows], X[50_000:], y[50_000:]


class Network:
    """784 - width - width - width - 10 with ReLU between, and the cross-entropy of each sample, as functions of one vector w."""

    def __init__(self, X: Any, y: Any, width: int) -> None:
        import torch

        self.torch = torch
        self.X, self.y = torch.from_numpy(X), torch.from_numpy(y)
        sizes = [784, width, width, width, 10]
        self.shapes = [shape for a, b in pairwise(sizes) for shape in ((b, a), (b,))]
        self.dim = sum(int(np.prod(shape)) for shape in self.shapes)

    def start(self, seed: int) -> Any:
        """Xavier's uniform weights as in the paper, within sqrt(6 / (inputs + outputs)); biases 0."""
        rng = np.random.default_rng(seed)
        ends = [np.sqrt(6.0 / sum(s)) if len(s) == 2 else 0.0 for s in self.shapes]
        parts = [rng.uniform(-end, end, size=s) for s, end in zip(self.shapes, ends, strict=True)]
        return np.concatenate([part.ravel() for part in parts])

    def forward(self, w: Any, X: Any) -> Any:
        first, out = 0, X
        for k, shape in enumerate(self.shapes):
            part = w[first : first + int(np.prod(shape))].view(shape)
            first += part.numel()
            if len(shape) == 2:
                out = out @ part.T
            else:
                out = out + part
                out = self.torch.relu(out) if k < len(self.shapes) - 1 else out
        return out

    def vjp(self, w: Any, index: Any) -> tuple[Any, Any]:
        torch = self.torch
        at = torch.from_numpy(w.astype(np.float32)).requires_grad_()
        rows = torch.from_numpy(np.array(index))
        losses = torch.nn.functional.cross_entropy(self.forward(at, self.X[rows]), self.y[rows], reduction="none")

        def pullback(weights: Any) -> Any:
            (gradient,) = torch.autograd.grad(losses, at, torch.from_numpy(weights.astype(np.float32)))
            return gradient.numpy().astype(np.float64)

        return losses.detach().numpy().astype(np.float64), pullback

    def oracle(self) -> lw.FunctionOracle:
        return lw.from_vjp(self.vjp, size=len(self.y), dim=self.dim)

    def validate(self, w: Any, X: Any, y: Any) -> tuple[float, float]:
        """Mean loss and accuracy on other images."""
        torch = self.torch
        with torch.no_grad():
            scores = self.forward(torch.from_numpy(w.astype(np.float32)), torch.from_numpy(X))
            loss = torch.nn.functional.cross_entropy(scores, torch.from_numpy(y))
        return float(loss), float((scores.argmax(1).numpy() == y).mean())


def methods(setting: Setting) -> dict[str, tuple[lw.Algorithm, float]]:
    """The methods of the paper's section 4 by name, each with the steps that it makes in the budget, about.

    SCSG as the paper ran it: a stage walks its batch in slices of b. Their gradients at the snapshot are among those of the batch, so
    that 2 B of the 3 B evaluations would do if they were kept: the count of the paper. Growing batches are
    B_j = min(ceil(j^1.5), n) with b_j = ceil(B_j / 32).
    """
    budget = setting.rows * setting.passes
    found: dict[str, tuple[lw.Algorithm, float]] = {}
    for B in setting.batches:
        found[f"SGD, B = {B}"] = (lw.SGD(lw.Minibatch(B, replace=False), average=False), budget / B)
    for B in setting.batches:
        found[f"SCSG, B = {B}, b = 32"] = (lw.SCSG(B, 32, inner="slices"), budget / 96)
    stages = (budget / 1.2) ** 0.4  # 3 B_j gradients a stage
    found["SCSG, B growing"] = (lw.SCSG("growing", 1.0 / 32.0, inner="slices"), 32 * stages)
    return found


@dataclass
class Curve:
    """What a method reached, one row a seed: objective at common grids of gradients and of samples, both over n."""

    step: float
    by_gradients: Any
    by_samples: Any
    final: Any  # objective, validation loss, validation accuracy at equal gradients
    seconds: float


def run(name: str, setting: Setting, train: Network, X: Any, y: Any) -> Curve:
    """Tunes the step of a method, then runs it from each start."""
    algorithm, steps = methods(setting)[name]
    problem, began = lw.Robust(train.oracle()), time.perf_counter()
    found = lw.tune(problem, algorithm, passes=setting.tuning, seeds=1, w0=train.start(0), trace=None)
    print(f"\n{name}\n{found.table()}", flush=True)
    by_gradients, by_samples, final = [], [], []
    for seed in setting.seeds:
        result = lw.minimize(
            problem,
            train.start(seed),
            found.best,
            max_passes=setting.passes,
            tol=0.0,
            seed=seed,
            trace=max(1, int(steps) // 20),
        )
        trace, grid = result.trace, np.linspace(0.0, setting.passes, 81)
        by_gradients.append(np.interp(grid, trace.gradients / problem.size, trace.objective))
        by_samples.append(np.interp(grid * COUNTED, trace.samples / problem.size, trace.objective))
        final.append((result.fun, *train.validate(result.x, X, y)))
        print(
            f"  seed {seed}: training loss {final[-1][0]:.3g}, validation {final[-1][1]:.4f}, {final[-1][2]:.2%}",
            flush=True,
        )
    return Curve(found.step, np.array(by_gradients), np.array(by_samples), np.array(final), time.perf_counter() - began)


def table(curves: dict[str, Curve], passes: float) -> str:
    """The result as text: means over the seeds, and the least and the largest."""
    lines = [
        f"mean [least, largest] over seeds, after {passes:g} n component gradients, and after {passes * COUNTED:.3g} n in the count",
        "of the paper (a sample that is evaluated at two points counts once); validation after the former",
        f"{'method':<24}{'step':>9}  {'training loss':<34}{'in the count of the paper':<34}{'validation loss':>16}{'accuracy':>10}",
    ]
    for name, c in curves.items():
        ends = (c.by_gradients[:, -1], c.by_samples[:, -1])
        spread = [f"{v.mean():.3e} [{v.min():.2e}, {v.max():.2e}]" for v in ends]
        lines.append(
            f"{name:<24}{c.step:>9.3g}  {spread[0]:<34}{spread[1]:<34}{c.final[:, 1].mean():>16.4f}{c.final[:, 2].mean():>10.2%}"
        )
    return "\n".join(lines)


def verdict(count: str, ends: dict[str, Any]) -> bool:
    """Says whether SCSG with growing batches ends lower than the best SGD."""
    growing = ends["SCSG, B growing"]
    best = min((values for name, values in ends.items() if name.startswith("SGD")), key=np.mean)
    lower = bool(growing.mean() < best.mean())
    print(
        f"{'lower' if lower else 'NOT lower'} at equal {count}: SCSG growing {growing.mean():.3e}, best SGD {best.mean():.3e}; "
        f"{int(np.sum(growing < best))} of {len(best)} seeds"
    )
    return lower


def draw(curves: dict[str, Curve], passes: float, out: Path) -> None:
    """Training loss against component gradients, and against the paper's count; bands from least to largest seed."""
    from matplotlib import pyplot

    from leeward.plot import COLOURS

    figure, axes = pyplot.subplots(1, 2, figsize=(11, 4.2), sharey=True, layout="constrained")
    for ax, field, label in zip(
        axes,
        ("by_gradients", "by_samples"),
        ("component gradients / n", "samples / n, the count of the paper"),
        strict=True,
    ):
        for colour, (name, curve) in zip(COLOURS, curves.items(), strict=False):
            values = getattr(curve, field)
            grid = np.linspace(0.0, passes * (1.0 if field == "by_gradients" else COUNTED), values.shape[1])
            style = "--" if name.startswith("SGD") else "-"
            ax.plot(grid, values.mean(axis=0), style, color=colour, label=f"{name}, step {curve.step:.3g}")
            ax.fill_between(grid, values.min(axis=0), values.max(axis=0), color=colour, alpha=0.15, linewidth=0)
        ax.set_yscale("log")
        ax.set_xlabel(label)
    axes[0].set_ylabel("training loss")
    axes[0].legend(frameon=False)
    figure.savefig(out, dpi=150)
    pyplot.close(figure)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--quick", action="store_true", help="fewer rows and neurons, one batch size")
    parser.add_argument("--seeds", type=int, choices=range(1, 6), help="fewer than five starts")
    parser.add_argument(
        "--batches", type=int, nargs="+", help="batch sizes of SGD and of SCSG, 512 and 1024 by default"
    )
    parser.add_argument("--out", type=Path, help="where to write the figure, a PNG")
    parser.add_argument("--threads", type=int, default=1, help="threads of PyTorch")
    options = parser.parse_args()
    setting = QUICK if options.quick else FULL
    setting = replace(
        setting,
        seeds=setting.seeds if options.seeds is None else SEEDS[: options.seeds],
        batches=tuple(options.batches or setting.batches),
    )
    X, y, X_val, y_val = mnist(setting.rows)
    try:
        import torch
    except ImportError:
        sys.exit('skipped: needs PyTorch, pip install ".[bench]"')
    torch.set_num_threads(options.threads)
    train = Network(X, y, setting.width)
    print(
        f"{setting.rows} images, network 784-{'-'.join([str(setting.width)] * 3)}-10, {train.dim} parameters",
        flush=True,
    )
    curves = {name: run(name, setting, train, X_val, y_val) for name in methods(setting)}
    print("\n" + table(curves, setting.passes))
    print(f"{sum(c.seconds for c in curves.values()):.0f} seconds")
    if options.out is not None:
        draw(curves, setting.passes, options.out)
        print(f"wrote {options.out}")
    verdicts = {
        "component gradients": {name: c.final[:, 0] for name, c in curves.items()},
        "samples, the count of the paper": {name: c.by_samples[:, -1] for name, c in curves.items()},
    }
    lower = [verdict(count, ends) for count, ends in verdicts.items()]
    return 0 if lower[0] else 1


if __name__ == "__main__":
    sys.exit(main())
