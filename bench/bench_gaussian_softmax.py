"""What the exact Sinkhorn objective of softmax costs and how far its rules are from far larger ones (docs/maths/gaussian_smoothing.md).

``python bench/bench_gaussian_softmax.py`` prints the mean error of Psi over 30 samples for 3, 5 and 10 classes, and then processor time of
one objective and gradient of 10 classes, 60000 x 250 (``--rows``), beside the plain mean and 8 draws a sample, medians of all sides taken
in turn. It exits with status 1 if an error is above its limit.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time

import numpy as np

import leeward as lw
from leeward.problems._gaussian_rules import lattice, product, spherical
from leeward.problems._gaussian_softmax import SoftmaxSmoothing, _Nodes

KINDS = {
    "KL": lw.divergences.KL(),
    "chi-square": lw.divergences.ChiSquare(),
    "smoothed CVaR": lw.divergences.SmoothedCVaR(0.2),
}
SPREADS, NOISE, ENTROPY = (0.05, 0.15, 0.5, 1.5), 0.1, 0.1
LIMITS = {3: 1e-5, 5: 1e-2, 10: 1e-2}  # at the far end of the table


def larger(C: int, reach: float) -> tuple[np.ndarray, np.ndarray]:
    if C == 3:
        u = lattice(2, 0.2, 8.3 + reach)
        weight = np.exp(-0.5 * np.sum(u * u, axis=1))
        return u, weight / weight.sum()
    return product(4, 13) if C == 5 else spherical(9, 32, 8)


def errors(C: int, kind: str, T: float) -> list[float]:
    n, d, rng = 30, C + 49, np.random.default_rng(0)
    X, scores, y = rng.normal(size=(n, d)), 3 * rng.normal(size=(n, C)), rng.integers(0, C, size=n)
    y[: n // 2] = scores[: n // 2].argmax(axis=1)
    y[-C:] = range(C)
    smoothing = SoftmaxSmoothing(lw.LinearModel(X, y, "softmax"), KINDS[kind], T / ENTROPY, ENTROPY, NOISE)
    found, none = [], np.empty(0)
    for spread in SPREADS:
        W = rng.normal(size=(C, d))
        W *= spread / NOISE / np.linalg.norm(W)
        factor = smoothing._factor(np.append(W.ravel(), np.zeros(C)))
        L = smoothing._scale * factor.L
        between = L[:, None, :] - L[None, :, :]
        tilt = float(np.max(np.linalg.norm(between, axis=2))) / T
        far = kind == "KL" and C > 3 and tilt > 1
        fine = _Nodes(*larger(C, tilt if kind == "KL" else 0.0), *(smoothing._shifts(between) if far else (none, none)))
        ours, truth = (
            smoothing._solve(factor, nodes, scores, y.astype(float), np.full(n, 1 / n), None).value
            for nodes in (smoothing._nodes(factor), fine)
        )
        found.append(float(np.mean(np.abs(ours - truth))))
    return found


def times(rows: int, rounds: int) -> None:
    rng = np.random.default_rng(0)
    X, coef = rng.normal(size=(rows, 250)), rng.normal(size=(250, 10)) / 8
    model = lw.LinearModel(X, np.argmax(X @ coef + rng.gumbel(size=(rows, 10)), axis=1), "softmax", threads=1)
    w = np.append(0.5 * coef.T.ravel(), np.zeros(10))
    sides = {
        "plain mean": lw.Robust(model),
        "8 draws, chi-square": lw.Sinkhorn(model, "chi2", exact=False, draws=8, common=True),
    }
    for name, kind in KINDS.items():
        sides[f"exact, {name}"] = SoftmaxSmoothing(model, kind, 1.0, 1.0, 0.1)
    sides["exact, KL, far tilt"] = SoftmaxSmoothing(model, KINDS["KL"], 1.0, 0.1, 0.2)
    taken: dict[str, list[float]] = {name: [] for name in sides}
    for k in range(rounds):
        for name, side in sides.items():
            start = time.thread_time()
            side.evaluate(w * (1.0 + 1e-3 * k), threads=1)
            taken[name].append(time.thread_time() - start)
    base = statistics.median(taken["plain mean"])
    for name, seconds in taken.items():
        print(f"{name:22} {statistics.median(seconds):8.3f} s  {statistics.median(seconds) / base:6.1f} of plain")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=60_000)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    missed = False
    for C, limit in LIMITS.items():
        for kind in KINDS:
            row = [error for T in (1.0, 0.1) for error in errors(C, kind, T)]
            missed = missed or not max(row) <= limit
            print(f"{C:2} classes, {kind:13} " + " ".join(f"{error:8.0e}" for error in row))
    times(given.rows, given.rounds)
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
