"""Worst-group log loss and accuracy of robust training against ordinary and re-weighted training, as in section 7 of Levy et al. (2020).

    python bench/papers/worst_groups.py --out groups.png        10 resamples of each data set; --quick: 3 resamples

* digits: features of a network for handwritten digits, with 1 % of typed digits, the rare source. Groups: source x digit.
* a9a: income of people from binary features. Groups: sex x race; and, like those of the digits, with the label: sex x race x income.

Each resample draws disjoint training, validation and test rows. Every method has a grid of settings and a grid of l2, the same for all
methods, and takes from both what has the least worst-group log loss on the validation rows; the test rows are looked at once.

On a9a by sex and race methods differ by a hundredth of the worst group's loss, which has a thousand rows in all: too few to part. There a
resample is a cross-fit: three parts of all rows, each predicted by a fit to the other two, whose setting is chosen by five folds of these.
Every row is then tested in every resample, so that the interval over resamples is about partitions of these rows; an interval over
the rows of the worst group, which speaks of other people like them, stands beside it.

Ordinary training (ERM) is the mean loss, re-weighted training weighs all groups alike. CVaR and chi-square know nothing of groups, except
in the rows "over groups", where the risk is of the groups' mean losses. The table has means over resamples and, for the differences to
ERM in the same resample, intervals of 95 % (Student's t).
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from intervals import interval

import leeward as lw

DATA = Path(os.environ.get("LEEWARD_DATA") or Path(__file__).resolve().parents[3] / "shared" / "data")
TOL = 3e-3  # certified, relative to the objective
LIMIT = 300.0  # passes of a fit


@dataclass(frozen=True)
class Data:
    """Rows, labels and groups, and how many rows of each kind (the rare ones apart) a split takes."""

    name: str
    X: Any
    y: Any
    group: Any
    names: list[str]
    kind: Any  # 0, 1, ...: rows of a kind are split in the numbers below
    train: tuple[int, ...]
    validation: tuple[int, ...]
    test: tuple[int, ...]
    loss: str
    l2: tuple[float, ...]
    alphas: tuple[float, ...] = (0.7, 0.3, 0.1, 0.05)  # of CVaR
    radii: tuple[float, ...] = (0.01, 0.1, 1.0, 3.0)  # of chi-square
    parts: int = 0  # of a cross-fit of all rows, which has no numbers of training, validation and test rows
    folds: int = 0  # of the training rows, in the place of validation rows


def stored(path: str) -> Any:
    file = DATA / path
    if not file.is_file():
        sys.exit(f"skipped: no {file}; set LEEWARD_DATA to the folder of the data sets")
    return np.load(file)


def digits() -> Data:
    parts = [stored(f"digits_features/digits_{part}.npz") for part in ("train", "test")]
    X = np.concatenate([p["X"] * p["scale"] for p in parts]).astype(np.float32)
    y = np.concatenate([p["y"] for p in parts]).astype(np.int64)
    typed = np.concatenate([p["typed"] for p in parts]).astype(np.int64)
    names = [f"{source} {digit}" for source in ("hand", "typed") for digit in range(10)]
    sizes = {"train": (9900, 100), "validation": (5000, 500), "test": (30_000, 9000)}
    return Data("digits", X, y, 10 * typed + y, names, typed, **sizes, loss="softmax", l2=(0.003, 0.01, 0.03, 0.1, 0.3))


def adult(income: bool) -> Data:
    """Groups of sex and race, or of sex, race (white or not, for some would have a handful of rows) and income."""
    a = stored("a9a/a9a.npz")
    bits = np.unpackbits(np.concatenate([a["X_train"], a["X_test"]]), axis=1)[:, :123]
    y = np.concatenate([a["y_train"], a["y_test"]]) > 0
    known = (bits[:, 66:71].sum(axis=1) == 1) & (bits[:, 71:73].sum(axis=1) == 1)
    bits, y = bits[known], y[known]
    race, man = bits[:, 66:71].argmax(axis=1), bits[:, 72].astype(np.int64)
    races = ("White", "Asian", "American Indian", "Other", "Black")
    group, names = 2 * race + man, [f"{r} {sex}" for r in races for sex in ("women", "men")]
    if income:
        group = 4 * (race > 0) + 2 * man + y
        names = [f"{r} {sex}, {i}" for r in ("white", "other") for sex in ("women", "men") for i in ("<= 50k", "> 50k")]
    data = Data(
        "a9a, sex x race x income",
        bits.astype(np.float32),
        y,
        group,
        names,
        np.zeros(len(y), dtype=np.int64),
        train=(20_000,),
        validation=(8000,),
        test=(20_000,),
        loss="logistic",
        l2=(1e-5, 1e-4, 1e-3, 1e-2),
    )
    if income:
        return data
    return replace(
        data,
        name="a9a, sex x race",
        parts=3,
        folds=5,
        l2=(1e-4, 3e-4, 1e-3, 3e-3, 1e-2),
        alphas=(0.9, 0.7, 0.6, 0.5),
        radii=(0.003, 0.01, 0.03, 0.1),  # mild: the labels are noisy
    )


SETS: dict[str, Callable[[], Data]] = {
    "digits": digits,
    "a9a": lambda: adult(False),
    "a9a-income": lambda: adult(True),
}


@dataclass(frozen=True)
class Method:
    """A name and its grid of settings: risks, whether they are of groups' means, and whether groups are weighed alike."""

    name: str
    risks: tuple[lw.Risk, ...]
    grouped: bool = False
    balanced: bool = False


def methods(data: Data) -> tuple[Method, ...]:
    return (
        Method("ERM", (lw.Mean(),)),
        Method("re-weighted ERM", (lw.Mean(),), balanced=True),
        Method("CVaR", tuple(lw.CVaR(a) for a in data.alphas)),
        Method("chi-square radius", tuple(lw.ChiSquare(radius=r) for r in data.radii)),
        Method("chi-square over groups", tuple(lw.ChiSquare(radius=r) for r in (0.1, 1.0)), grouped=True),
    )


def split(data: Data, seed: int) -> tuple[Any, Any, Any]:
    """Disjoint training, validation and test rows."""
    rng, parts = np.random.default_rng(seed), ([], [], [])
    for kind in range(len(data.train)):
        rows, start = rng.permutation(np.flatnonzero(data.kind == kind)), 0
        for part, counts in zip(parts, (data.train, data.validation, data.test), strict=True):
            part.append(rows[start : start + counts[kind]])
            start += counts[kind]
    return tuple(np.concatenate(part) for part in parts)  # type: ignore[return-value]


@dataclass(frozen=True)
class Scores:
    """Of one model on some rows: by group, then of all rows."""

    losses: Any
    accuracies: Any
    loss: float
    accuracy: float

    @property
    def worst(self) -> float:
        return float(self.losses.max())


def predicted(data: Data, rows: Any, w: Any) -> tuple[Any, Any]:
    """Log loss of each of these rows, and whether its label is the predicted one."""
    model = lw.LinearModel(data.X[rows], data.y[rows], data.loss, threads=1)
    z = model.scores(w)
    return model.losses(w), (z.argmax(axis=1) == data.y[rows]) if z.ndim == 2 else ((z > 0) == data.y[rows])


def scores(data: Data, rows: Any, losses: Any, right: Any) -> Scores:
    group, size = data.group[rows], len(data.names)
    by_group = [np.bincount(group, v, size) / np.bincount(group, minlength=size) for v in (losses, right)]
    return Scores(by_group[0], by_group[1], float(losses.mean()), float(right.mean()))


def fit(data: Data, rows: Any, method: Method, risk: lw.Risk, l2: float, start: Any) -> Any:
    group, weight = data.group[rows], None
    if method.balanced:
        weight = 1.0 / np.bincount(group, minlength=len(data.names))[group]
    model = lw.LinearModel(data.X[rows], data.y[rows], data.loss, l2=l2, sample_weight=weight, threads=1)
    problem = lw.Robust(model, risk, groups=group if method.grouped else None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", lw.errors.ConvergenceWarning)
        return lw.minimize(problem, start, lw.LBFGS(), tol=TOL, max_passes=LIMIT, trace=None, threads=1)


@dataclass(frozen=True)
class Outcome:
    """Of a method in a resample: what its fits have chosen, their largest certified relative gap, the test scores and row by row losses."""

    picks: list[str]
    gap: float
    test: Scores
    losses: Any  # by row of the data; NaN where it was not tested


def chosen(data: Data, method: Method, splits: list[tuple[Any, Any]]) -> tuple[lw.Risk, float, Any]:
    """The setting and l2 with the least worst-group loss on held-out rows, those of all splits together, and the fit to the first split."""
    rows = np.concatenate([held for _, held in splits])
    best: tuple[float, lw.Risk, float, Any] | None = None
    for risk in method.risks:
        fits: list[Any] = [None] * len(splits)
        for l2 in sorted(data.l2, reverse=True):
            fits = [
                fit(data, train, method, risk, l2, None if before is None else before.x)
                for (train, _), before in zip(splits, fits, strict=True)
            ]
            parts = [predicted(data, held, now.x) for (_, held), now in zip(splits, fits, strict=True)]
            worst = scores(data, rows, *(np.concatenate(v) for v in zip(*parts, strict=True))).worst
            if best is None or worst < best[0]:
                best = (worst, risk, l2, fits[0])
    assert best is not None
    return best[1:]


def folds(rows: Any, count: int, seed: int) -> list[tuple[Any, Any]]:
    """Pairs of the other rows and a fold, one for each of ``count`` folds."""
    parts = np.array_split(np.random.default_rng([seed, count]).permutation(rows), count)
    return [(np.concatenate(parts[:k] + parts[k + 1 :]), parts[k]) for k in range(count)]


def resample(data: Data, seed: int) -> dict[str, Outcome]:
    if data.parts:
        tasks = [
            (train, folds(train, data.folds, seed), test)
            for train, test in folds(np.arange(len(data.y)), data.parts, seed)
        ]
    else:
        train, validation, test = split(data, seed)
        tasks = [(train, [(train, validation)], test)]
    found = {}
    for method in methods(data):
        losses, right = np.full(len(data.y), np.nan), np.zeros(len(data.y), dtype=bool)
        picks, gaps = [], []
        for train, splits, test in tasks:
            risk, l2, result = chosen(data, method, splits)
            if data.parts:
                result = fit(data, train, method, risk, l2, result.x)
            picks.append(f"{risk!r} l2={l2:g}")
            gaps.append(np.nan if result.gap is None else result.gap / result.fun)
            losses[test], right[test] = predicted(data, test, result.x)
        rows = np.flatnonzero(np.isfinite(losses))
        found[method.name] = Outcome(picks, float(np.max(gaps)), scores(data, rows, losses[rows], right[rows]), losses)
    return found


MEASURES: dict[str, Callable[[Scores], float]] = {
    "worst-group log loss": lambda s: s.worst,
    "worst-group accuracy": lambda s: float(s.accuracies.min()),
    "log loss": lambda s: s.loss,
    "accuracy": lambda s: s.accuracy,
}


def table(data: Data, runs: list[dict[str, Outcome]]) -> str:
    sizes = f"{sum(data.train)} training, {sum(data.validation)} validation, {sum(data.test)} test rows"
    if data.parts:
        sizes = f"{len(data.y)} rows, cross-fits of {data.parts} parts, settings by {data.folds} folds"
    lines = [f"\n{data.name}: {sizes}, {len(data.names)} groups, {len(runs)} resamples"]
    for name, of in MEASURES.items():
        # Above zero is better than ERM.
        sign = 1.0 if name.endswith("loss") else -1.0
        base = np.array([of(run["ERM"].test) for run in runs])
        lines.append(f"{name:<26}{'mean':>9}{'better than ERM by':>22}{'95 % interval':>24}")
        for method in methods(data):
            values = np.array([of(run[method.name].test) for run in runs])
            row = f"  {method.name:<24}{values.mean():>9.4f}"
            if method.name != "ERM":
                mean, low, high = interval(sign * (base - values))
                verdict = "" if name != "worst-group log loss" else "  above zero" if low > 0 else "  NOT above zero"
                row += f"{mean:>22.4f}{f'[{low:.4f}, {high:.4f}]':>24}{verdict}"
            lines.append(row)
    lines.append(
        "chosen on held-out rows (times chosen), and the largest certified gap of a chosen fit over its objective"
    )
    for method in methods(data):
        picks = [pick for run in runs for pick in run[method.name].picks]
        counts = {pick: picks.count(pick) for pick in dict.fromkeys(picks)}
        gap = np.max([run[method.name].gap for run in runs])
        lines.append(f"  {method.name:<24}{gap:>9.1e}  " + ", ".join(f"{k} ({n})" for k, n in counts.items()))
    worst = [data.names[int(run["ERM"].test.losses.argmax())] for run in runs]
    lines.append("worst group of ERM: " + ", ".join(f"{g} ({worst.count(g)})" for g in dict.fromkeys(worst)))
    if data.parts:
        lines.append(
            f"better than ERM over the rows of {max(worst, key=worst.count)}, each with its mean over resamples"
        )
        rows = data.group == data.names.index(max(worst, key=worst.count))
        base = np.mean([run["ERM"].losses[rows] for run in runs], axis=0)
        for method in methods(data)[1:]:
            mean, low, high = interval(base - np.mean([run[method.name].losses[rows] for run in runs], axis=0))
            lines.append(f"  {method.name:<24}{mean:>9.4f}{f'[{low:.4f}, {high:.4f}]':>24}")
    return "\n".join(lines)


def beaten(runs: list[dict[str, Outcome]]) -> list[str]:
    """Robust methods without knowledge of groups whose worst-group log loss is below that of ERM beyond doubt."""
    base = np.array([run["ERM"].test.worst for run in runs])
    names = ("CVaR", "chi-square radius")
    return [n for n in names if interval(base - [run[n].test.worst for run in runs])[1] > 0]


def draw(results: list[tuple[Data, list[dict[str, Outcome]]]], out: Path) -> None:
    """Log loss of each group, means over resamples, and the least to largest resample as a bar."""
    from matplotlib import pyplot

    from leeward.plot import COLOURS

    figure, axes = pyplot.subplots(
        1, len(results), figsize=(7.0 * len(results), 4.2), layout="constrained", squeeze=False
    )
    for ax, (data, runs) in zip(axes[0], results, strict=True):
        order = np.argsort(np.mean([run["ERM"].test.losses for run in runs], axis=0))
        for k, (colour, method) in enumerate(zip(COLOURS, methods(data), strict=False)):
            values = np.array([run[method.name].test.losses[order] for run in runs])
            at, mean = np.arange(len(order)) + 0.12 * (k - 2), values.mean(axis=0)
            ax.errorbar(
                at,
                mean,
                yerr=[mean - values.min(axis=0), values.max(axis=0) - mean],
                color=colour,
                marker="o",
                markersize=3,
                linestyle="none",
                label=method.name,
            )
        ax.set_xticks(np.arange(len(order)), [data.names[g] for g in order], rotation=60, ha="right")
        ax.set_title(data.name)
        ax.set_ylabel("test log loss")
        ax.legend(frameon=False, fontsize="small")
    figure.savefig(out, dpi=150)
    pyplot.close(figure)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--data", choices=tuple(SETS), nargs="+", default=list(SETS))
    parser.add_argument("--quick", action="store_true", help="3 resamples")
    parser.add_argument("--seeds", type=int, help="number of resamples, 10 by default")
    parser.add_argument("--first", type=int, default=0, help="seed of the first resample")
    parser.add_argument("--out", type=Path, help="where to write the figure, a PNG")
    parser.add_argument("--threads", type=int, default=2, help="resamples at a time")
    options = parser.parse_args()
    count = options.seeds or (3 if options.quick else 10)
    if count < 2:
        parser.error("an interval needs at least two resamples")
    results, ok = [], True
    for name in options.data:
        began, data = time.perf_counter(), SETS[name]()
        with ThreadPoolExecutor(max(1, options.threads)) as pool:
            runs = list(
                pool.map(lambda seed, data=data: resample(data, seed), range(options.first, options.first + count))
            )
        results.append((data, runs))
        print(table(data, runs))
        better = beaten(runs)
        ok = ok and bool(better)
        print(f"better than ERM on worst-group log loss, without groups: {', '.join(better) or 'NONE'}")
        print(f"{time.perf_counter() - began:.0f} seconds", flush=True)
    if options.out is not None:
        draw(results, options.out)
        print(f"wrote {options.out}")
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
