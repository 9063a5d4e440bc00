"""l2-regularised logistic regression to relative suboptimality 1e-3, 1e-6 and 1e-9, against cyanure and scikit-learn.

`python bench/bench_finite_sum.py` prints one table with the thresholds beside and ends with an error where one is missed;
`--only dense64 digits step` runs parts of it, `--repeats` and `--cap` (seconds a fit) trade time for precision.
Each solver is run anew with growing limits (iterations, passes or tolerance); the time to a level is that of its fastest
run that ends there, checks of the data included, on one thread. The least time over the repeats counts. All objectives are
evaluated here in float64, and the optimum is that of the data as given, float32 data included.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.optimize  # noqa: F401 (its BLAS must be there when threads are limited)
import sklearn.linear_model  # noqa: F401
from inner_step import step_table
from scipy import sparse
from threadpoolctl import threadpool_limits

import leeward as lw

LEVELS = (1e-3, 1e-6, 1e-9)
ALLOWED = (0.6, 0.6, 1.0)  # of the opponents' best time to each level
CHOSEN_ALLOWED = 1.3  # algorithm=None over leeward's own best
PASSES = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 14, 17, 20, 24, 28, 34, 40, 48, 56, 80, 112, 160)
ITERATIONS = (7, 10, 14, 20, 28, 40, 56, 80, 112, 160, 224, 320)
NEWTON = (2, 3, 4, 5, 7, 10)
EPOCHS = (2, 3, 5, 10, 15, 20, 25, 40, 55, 80, 110, 160)
FEW_EPOCHS = (10, 25, 55, 110)  # where an epoch is long and many are needed


def dense(dtype: type) -> tuple[Any, np.ndarray]:
    """200000 x 100, rows of length 1, labels drawn from a logistic model."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200_000, 100))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    w = rng.standard_normal(100)
    return X.astype(dtype), drawn_labels(rng, X @ (40 * w / np.linalg.norm(w)))


def csr() -> tuple[Any, np.ndarray]:
    """200000 x 50000 of density 1e-3: positive entries, some columns far more frequent than others, rows of length 1."""
    rng = np.random.default_rng(0)
    n, d, k = 200_000, 50_000, 50
    columns = np.sort((d * rng.random((n, k)) ** 2).astype(np.int32), axis=1).ravel()
    X = sparse.csr_matrix((rng.random(n * k), columns, np.arange(0, n * k + 1, k, dtype=np.int32)), shape=(n, d))
    X.sum_duplicates()
    lengths = np.sqrt(np.add.reduceat(X.data**2, X.indptr[:-1]))
    X.data /= np.repeat(lengths, np.diff(X.indptr))
    return X, drawn_labels(rng, X @ (3.0 * rng.standard_normal(d)))


def digits() -> tuple[Any, np.ndarray]:
    """scikit-learn's digits, odd against even, rows of length 1."""
    from sklearn.datasets import load_digits

    X, digit = load_digits(return_X_y=True)
    return np.ascontiguousarray(X / np.linalg.norm(X, axis=1, keepdims=True)), np.where(digit % 2 == 1, 1.0, -1.0)


def drawn_labels(rng: np.random.Generator, scores: np.ndarray) -> np.ndarray:
    return np.where(rng.random(len(scores)) < 1 / (1 + np.exp(-scores)), 1.0, -1.0)


@dataclass(frozen=True)
class Solver:
    """A way to fit: ``fit(limit) -> w`` for each of the limits."""

    name: str
    limits: Sequence[float]
    fit: Callable[[Any], np.ndarray]
    ours: bool = False


@dataclass(frozen=True)
class Instance:
    """Data, the strengths of l2 in units of 1/n, and which opponents are worth running there."""

    data: Callable[[], tuple[Any, np.ndarray]]
    opponents: dict[float, tuple[str, ...]]
    ours: tuple[str, ...] = ("None", "LBFGS", "SVRG", "SCSG")


DENSE = {
    1.0: ("cyanure acc-svrg", "cyanure svrg", "sklearn lbfgs", "sklearn newton-cholesky"),
    0.01: ("cyanure qning-svrg", "cyanure svrg", "sklearn lbfgs", "sklearn newton-cholesky"),
}
INSTANCES = {
    "digits": Instance(
        digits,
        {
            1.0: ("cyanure svrg", "cyanure miso", "sklearn lbfgs", "sklearn newton-cholesky"),
            0.01: ("cyanure acc-svrg", "cyanure catalyst-miso", "cyanure qning-miso", "sklearn newton-cholesky"),
        },
    ),
    "dense64": Instance(lambda: dense(np.float64), DENSE),
    "dense32": Instance(lambda: dense(np.float32), DENSE),
    "csr": Instance(
        csr,
        {1.0: ("cyanure miso", "cyanure svrg", "sklearn lbfgs"), 0.01: ("cyanure catalyst-miso",)},
    ),
}


def cyanure_solver(name: str, X: Any, y: np.ndarray, l2: float) -> Solver:
    from cyanure.estimators import Classifier

    def fit(limit: int) -> np.ndarray:
        model = Classifier(
            loss="logistic", penalty="l2", lambda_1=l2, solver=name, fit_intercept=False, tol=1e-14, n_threads=1,
            max_iter=limit, duality_gap_interval=min(5, limit), verbose=False, multi_class="ovr",
        )  # fmt: skip
        model.fit(X, y)
        return np.asarray(model.coef_, dtype=np.float64).ravel()

    return Solver(f"cyanure {name}", FEW_EPOCHS if X.shape[1] > 10_000 else EPOCHS, fit)


def sklearn_solver(name: str, X: Any, y: np.ndarray, l2: float) -> Solver:
    from sklearn.linear_model import LogisticRegression

    def fit(limit: int) -> np.ndarray:
        model = LogisticRegression(C=1 / (l2 * len(y)), fit_intercept=False, solver=name, tol=1e-14, max_iter=limit)
        return np.asarray(model.fit(X, y).coef_, dtype=np.float64).ravel()

    return Solver(f"sklearn {name}", NEWTON if name == "newton-cholesky" else ITERATIONS, fit)


def own_solver(name: str, X: Any, y: np.ndarray, l2: float) -> Solver:
    algorithm: Any = None if name == "None" else getattr(lw, name)()

    def fit(limit: float) -> np.ndarray:
        model = lw.LinearModel(X, y, l2=l2, intercept=False, threads=1)
        return np.asarray(lw.minimize(model, algorithm=algorithm, trace=None, threads=1, max_passes=limit, tol=0.0).x)

    return Solver(name, PASSES, fit, ours=True)


@dataclass
class Race:
    """Times of one instance and strength: solver -> seconds to each level, infinite where it is not reached."""

    optimum: float
    objective: Callable[[np.ndarray], float]
    best: dict[str, list[float]] = field(default_factory=dict)
    lowest: dict[str, float] = field(default_factory=dict)
    useful: dict[str, list[float]] = field(default_factory=dict)

    def run(self, solver: Solver, cap: float) -> None:
        """One run a limit, from the smallest, until the last level or the cap; later rounds repeat the runs that counted."""
        times = self.best.setdefault(solver.name, [math.inf] * len(LEVELS))
        lowest = self.lowest.get(solver.name, math.inf)
        known = self.useful.get(solver.name)
        used = set()
        for limit in solver.limits if known is None else known:
            start = time.perf_counter()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                w = solver.fit(limit)
            seconds = time.perf_counter() - start
            excess = self.objective(w) / self.optimum - 1.0
            for k, level in enumerate(LEVELS):
                if excess <= level and (seconds < times[k]):
                    times[k] = seconds
                    used.add(limit)
            lowest = min(lowest, excess)
            if known is None and (excess <= LEVELS[-1] or seconds > cap):
                break
        self.lowest[solver.name] = lowest
        if known is None:
            self.useful[solver.name] = sorted(used, key=solver.limits.index)


def race(
    name: str, strength: float, repeats: int, cap: float, data: tuple[Any, np.ndarray]
) -> tuple[Race, list[Solver]]:
    instance, (X, y) = INSTANCES[name], data
    l2 = strength / len(y)
    judge = lw.Robust(lw.LinearModel(X, y, l2=l2, intercept=False))
    optimum = lw.minimize(judge, algorithm=lw.LBFGS(), tol=1e-12, trace=None, max_passes=400).fun
    solvers = [own_solver(own, X, y, l2) for own in instance.ours]
    for opponent in instance.opponents[strength]:
        package, solver = opponent.split(" ")
        solvers.append((cyanure_solver if package == "cyanure" else sklearn_solver)(solver, X, y, l2))
    result = Race(optimum, lambda w: judge.value(w))
    for solver in solvers:  # imports, pages and caches warm up
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            solver.fit(solver.limits[0])
    order = np.random.default_rng(0)
    for _ in range(repeats):
        for k in order.permutation(len(solvers)):  # no solver always runs after the same other
            solver = solvers[k]
            result.run(solver, cap)
    return result, solvers


def shown(seconds: float) -> str:
    return "-" if math.isinf(seconds) else f"{seconds * 1e3:.3g} ms" if seconds < 0.1 else f"{seconds:.3f} s"


def ratio_of(a: float, b: float) -> float:
    """a / b; 0 where only b is infinite, infinite where a is."""
    return math.inf if math.isinf(a) else 0.0 if math.isinf(b) else a / b


def report(title: str, result: Race, solvers: list[Solver]) -> list[str]:
    """Prints the table of one race; the thresholds that are missed."""
    print(f"\n{title}   optimum {result.optimum:.9g}")
    print(f"  {'solver':<26}" + "".join(f"{f'to {level:.0e}':>12}" for level in LEVELS) + f"{'lowest':>11}")
    for solver in sorted(solvers, key=lambda s: (not s.ours, s.name)):
        times = "".join(f"{shown(t):>12}" for t in result.best[solver.name])
        print(
            f"  {('leeward ' if solver.ours else '') + solver.name:<26}{times}{max(result.lowest[solver.name], 0.0):>11.1e}"
        )
    missed = []
    ours = [min(result.best[s.name][k] for s in solvers if s.ours) for k in range(len(LEVELS))]
    theirs = [min(result.best[s.name][k] for s in solvers if not s.ours) for k in range(len(LEVELS))]
    chosen = result.best["None"]
    for what, top, bottom, allowed in (
        ("leeward / best opponent", ours, theirs, ALLOWED),
        ("None / leeward's best", chosen, ours, (CHOSEN_ALLOWED,) * len(LEVELS)),
    ):
        ratios = [ratio_of(a, b) for a, b in zip(top, bottom, strict=True)]
        print(f"  {what:<26}" + "".join(f"{f'{r:.2f} (<={a})':>12}" for r, a in zip(ratios, allowed, strict=True)))
        for level, ratio, limit in zip(LEVELS, ratios, allowed, strict=True):
            if not ratio <= limit:
                missed.append(f"{title}: {what} to {level:.0e} is {ratio:.2f}, allowed {limit}")
    return missed


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=[*INSTANCES, "step"], default=[*INSTANCES, "step"])
    parser.add_argument(
        "--repeats", type=int, default=2, help="rounds; digits, a matter of milliseconds, get ten times as many"
    )
    parser.add_argument(
        "--cap", type=float, default=6.0, help="no larger limit is tried after a fit of so many seconds"
    )
    chosen = parser.parse_args(arguments)
    missed: list[str] = []
    with threadpool_limits(1):
        if "step" in chosen.only:
            missed += step_table()
        for name in chosen.only:
            if name == "step":
                continue
            data = INSTANCES[name].data()
            for strength in INSTANCES[name].opponents:
                repeats = chosen.repeats * (10 if name == "digits" else 1)
                result, solvers = race(name, strength, repeats, chosen.cap, data)
                missed += report(f"{name}, l2 = {strength:g}/n", result, solvers)
                sys.stdout.flush()
    print()
    for line in missed:
        print(f"missed: {line}")
    print("all thresholds hold" if not missed else f"{len(missed)} thresholds missed")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
