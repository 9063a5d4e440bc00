"""Figure 1 of Lei, Ju, Chen and Jordan (2017): SGD against SCSG on MNIST, a fully connected network of three layers of 512.

    python bench/papers/scsg.py --out scsg.png            the whole experiment, hours; --quick: a cut of it, minutes on two cores
    python bench/papers/scsg.py --batches 512 --store runs  one batch size; what is done is kept in a folder and not done again

The network is a `leeward.from_vjp` oracle over PyTorch (one forward pass serves losses and weighted gradient), its parameters
one vector w. Each method gets its best constant step from `leeward.tune` in the same way: one short run for each of a few
powers of ten, then half and double of the best two. It then runs from five random starts; where one of these diverges, the
step is halved for all of them. The cost is component gradients evaluated. SCSG walks its batch in slices, whose gradients at
the snapshot are kept, so that a stage evaluates 2 B of them: what the paper counts. The verdict is on the training loss at
equal component gradients, in the mean and in the median over the starts, since one late spike can make the whole mean; the
differences from the same start stand beside it.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from intervals import interval

import leeward as lw

SEEDS = (1, 10, 100, 1000, 1337)
STEPS = (0.01, 0.1, 1.0)  # of the first round of the search; the second one reaches half and double of them
RECORDS = 5  # of a run; each costs a pass that is not counted
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


FULL = Setting(50_000, 512, 20.0, 2.0, SEEDS, (512, 1024))
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

    def layers(self, w: Any) -> list[Any]:
        """Weights and biases in float32, each a tensor of its own."""
        sizes = [int(np.prod(shape)) for shape in self.shapes]
        parts = self.torch.split(self.torch.from_numpy(w.astype(np.float32)), sizes)
        return [part.view(shape) for part, shape in zip(parts, self.shapes, strict=True)]

    def forward(self, layers: list[Any], X: Any) -> Any:
        linear = self.torch.nn.functional.linear
        for k in range(0, len(layers) - 2, 2):
            X = self.torch.relu(linear(X, layers[k], layers[k + 1]))
        return linear(X, layers[-2], layers[-1])

    def vjp(self, w: Any, index: Any) -> tuple[Any, Any]:
        torch = self.torch
        layers = [layer.requires_grad_() for layer in self.layers(w)]
        rows = torch.from_numpy(np.array(index))
        losses = torch.nn.functional.cross_entropy(self.forward(layers, self.X[rows]), self.y[rows], reduction="none")

        def pullback(weights: Any) -> Any:
            parts = torch.autograd.grad(losses, layers, torch.from_numpy(weights.astype(np.float32)))
            return np.concatenate([part.numpy().ravel() for part in parts], dtype=np.float64)

        return losses.detach().nan_to_num(nan=np.inf).numpy().astype(np.float64), pullback  # NaN: scores beyond float32

    def oracle(self) -> lw.FunctionOracle:
        return lw.from_vjp(self.vjp, size=len(self.y), dim=self.dim)

    def validate(self, w: Any, X: Any, y: Any) -> tuple[float, float]:
        """Mean loss and accuracy on other images."""
        torch = self.torch
        with torch.no_grad():
            scores = self.forward(self.layers(w), torch.from_numpy(X))
            loss = torch.nn.functional.cross_entropy(scores, torch.from_numpy(y))
        return float(loss), float((scores.argmax(1).numpy() == y).mean())


def methods(setting: Setting) -> dict[str, tuple[lw.Algorithm, float]]:
    """The methods of the paper's section 4 by name, each with the steps that it makes in the budget, about.

    SCSG as the paper ran it: a stage walks its batch in slices of b. Growing batches are B_j = min(ceil(j^1.5), n) with
    b_j = ceil(B_j / 32).
    """
    budget = setting.rows * setting.passes
    found: dict[str, tuple[lw.Algorithm, float]] = {}
    for B in setting.batches:
        found[f"SGD, B = {B}"] = (lw.SGD(lw.Minibatch(B, replace=False), average=False), budget / B)
    stages = (budget / 0.8) ** 0.4  # of 2 B_j gradients
    found["SCSG, B growing"] = (lw.SCSG("growing", 1.0 / 32.0, inner="slices"), 32 * stages)
    for B in setting.batches:
        found[f"SCSG, B = {B}, b = 32"] = (lw.SCSG(B, 32, inner="slices"), budget / 64)
    return found


@dataclass
class Curve:
    """What a method reached, one row a seed."""

    step: float
    losses: Any  # on a common grid of component gradients, 0 to all of the budget
    validation: Any  # loss and accuracy at the end


def tuned(name: str, setting: Setting, train: Network, store: Path | None) -> float:
    """The best step of a method, found once where results are kept."""
    file = None if store is None else store / f"{slug(name)}.json"
    if file is not None and file.exists():
        known = json.loads(file.read_text())
        print(f"\n{name}\n{known['table']}", flush=True)
        return float(known["step"])
    algorithm, _ = methods(setting)[name]
    problem = lw.Robust(train.oracle())
    found = lw.tune(problem, algorithm, steps=STEPS, passes=setting.tuning, seeds=1, w0=train.start(0), trace=None)
    print(f"\n{name}\n{found.table()}", flush=True)
    if file is not None:
        file.write_text(json.dumps({"step": found.step, "table": found.table()}))
    return found.step


def slug(name: str) -> str:
    return "".join(c if c.isalnum() else "-" for c in name.lower()).replace("--", "-")


def run(name: str, setting: Setting, train: Network, validation: tuple[Any, Any], store: Path | None) -> Curve:
    """Tunes the step of a method, then runs it from each start, with half the step as long as one of them diverges."""
    step = tuned(name, setting, train, store)
    while True:
        curve = runs(name, step, setting, train, validation, store)
        if curve is not None:
            return curve
        step /= 2.0
        print(f"  again with step {step:g}", flush=True)


def runs(
    name: str, step: float, setting: Setting, train: Network, validation: tuple[Any, Any], store: Path | None
) -> Curve | None:
    """A run from each start; None where one diverges."""
    algorithm, steps = methods(setting)[name]
    problem, grid = lw.Robust(train.oracle()), np.linspace(0.0, setting.passes, 81)
    losses, ends = [], []
    for seed in setting.seeds:
        result = lw.minimize(
            problem,
            train.start(seed),
            replace(algorithm, step=step),  # type: ignore[type-var]
            max_passes=setting.passes,
            tol=0.0,
            seed=seed,
            trace=max(1, int(steps) // RECORDS),
            checkpoint=None if store is None else store / f"{slug(name)}-{step:g}-{seed}.ckpt",
        )
        if result.status != lw.Status.BUDGET:
            print(f"  seed {seed}: {result.status.name} after {result.passes:.1f} passes", flush=True)
            return None
        losses.append(np.interp(grid, result.trace.gradients / problem.size, result.trace.objective))
        ends.append(train.validate(result.x, *validation))
        print(
            f"  seed {seed}: training loss {losses[-1][-1]:.3e}, validation {ends[-1][0]:.4f}, {ends[-1][1]:.2%}",
            flush=True,
        )
    return Curve(step, np.array(losses), np.array(ends))


def table(curves: dict[str, Curve], passes: float) -> str:
    """The result as text: means over the seeds, and the least and the largest."""
    lines = [
        f"mean [least, largest] over seeds after {passes:g} n component gradients",
        f"{'method':<24}{'step':>9}  {'training loss':<34}{'validation loss':>16}{'accuracy':>10}",
    ]
    for name, c in curves.items():
        end, (loss, accuracy) = c.losses[:, -1], c.validation.mean(axis=0)
        spread = f"{end.mean():.3e} [{end.min():.2e}, {end.max():.2e}]"
        lines.append(f"{name:<24}{c.step:>9.3g}  {spread:<34}{loss:>16.4f}{accuracy:>10.2%}")
    return "\n".join(lines)


def verdict(curves: dict[str, Curve]) -> bool:
    """Says whether SCSG with growing batches ends lower than the best SGD: in the mean over the starts, and in their median."""
    ends = {name: curve.losses[:, -1] for name, curve in curves.items()}
    growing, lower = ends["SCSG, B growing"], []
    sgd = [name for name in ends if name.startswith("SGD")]
    for measure in (np.mean, np.median):
        name = min(sgd, key=lambda k: float(measure(ends[k])))
        mine, best = float(measure(growing)), float(measure(ends[name]))
        lower.append(mine < best)
        print(
            f"{measure.__name__}: {'lower' if mine < best else 'NOT lower'} at equal component gradients, SCSG growing {mine:.3e}, "
            f"{name} {best:.3e}"
        )
    for name in sgd:
        mean, low, high = interval(ends[name] - growing)
        ratio = np.exp(interval(np.log(ends[name] / growing)))
        print(
            f"{name} minus SCSG growing, start by start: {mean:.2e}, 95 % [{low:.2e}, {high:.2e}]; as a ratio {ratio[0]:.2f} "
            f"[{ratio[1]:.2f}, {ratio[2]:.2f}]; SCSG lower from {int(np.sum(growing < ends[name]))} of {len(growing)}"
        )
    return all(lower)


def draw(curves: dict[str, Curve], passes: float, out: Path) -> None:
    """Training loss against component gradients; bands from least to largest seed."""
    from matplotlib import pyplot

    from leeward.plot import COLOURS

    figure, ax = pyplot.subplots(figsize=(6.4, 4.4), layout="constrained")
    for colour, (name, curve) in zip(COLOURS, curves.items(), strict=False):
        grid = np.linspace(0.0, passes, curve.losses.shape[1])
        style = "--" if name.startswith("SGD") else "-"
        ax.plot(grid, curve.losses.mean(axis=0), style, color=colour, label=f"{name}, step {curve.step:.3g}")
        ax.fill_between(grid, curve.losses.min(axis=0), curve.losses.max(axis=0), color=colour, alpha=0.15, linewidth=0)
    ax.set_yscale("log")
    ax.set_xlabel("component gradients / n")
    ax.set_ylabel("training loss")
    ax.legend(frameon=False)
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
    parser.add_argument(
        "--store", type=Path, help="a folder for steps and runs: taken from there where they are, put there else"
    )
    parser.add_argument("--no-fixed", action="store_true", help="without SCSG with fixed batches")
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
    if options.store is not None:
        options.store.mkdir(parents=True, exist_ok=True)
    names = [name for name in methods(setting) if not (options.no_fixed and name.startswith("SCSG, B ="))]
    curves = {name: run(name, setting, train, (X_val, y_val), options.store) for name in names}
    print("\n" + table(curves, setting.passes))
    if options.out is not None:
        draw(curves, setting.passes, options.out)
        print(f"wrote {options.out}")
    return 0 if verdict(curves) else 1


if __name__ == "__main__":
    sys.exit(main())
