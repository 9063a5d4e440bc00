"""What the exact Gaussian Sinkhorn objective costs beside the plain mean: one objective and gradient, logistic, 60000 x 784.

``python bench/bench_gaussian_smoothing.py`` prints medians of all sides, taken in turn in one run, with the ratio that each should
stay below, and exits with status 1 if one is missed. Before that it checks every divergence against Monte Carlo with 10^7 draws
(``--draws``) at d = 1, 2, 5, 50 and 500, within four standard errors.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from pathlib import Path

import numpy as np

import leeward as lw
from leeward.problems._gaussian import GaussianSmoothing

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
from test_gaussian_montecarlo import DIVERGENCES
from test_gaussian_montecarlo import test_monte_carlo_is_within_four_standard_errors as compare

LIMITS = {"kl": 1.5, "chi_square": 4.0, "smoothed_cvar": 4.0}


def data(n: int, d: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Gaussian features in float32, labels from a logistic model, and a point near its coefficients."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d), dtype=np.float32)
    coef = 2.0 * rng.normal(size=d) / np.sqrt(d)
    return X, (X @ coef + rng.logistic(size=n) > 0).astype(float), np.append(0.7 * coef, 0.1)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=10_000_000, help="of each Monte Carlo check; 0 for none")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rows", type=int, default=60_000)
    given = parser.parse_args()
    if given.draws:
        for name in DIVERGENCES:
            for dim in (1, 2, 5, 50, 500):
                compare(name, dim, given.draws)
        print(f"Monte Carlo with {given.draws} draws: all within four standard errors")
    X, y, w = data(given.rows, 784)
    model = lw.LinearModel(X, y, l2=1e-4)
    plain = lw.Robust(model)
    exact = {name: GaussianSmoothing(model, kind, 1.0, 0.1, 0.02) for name, (kind, _) in DIVERGENCES.items()}
    seconds: dict[str, list[float]] = {"plain": [], **{name: [] for name in exact}}
    for k in range(given.rounds):
        at = w * (1.0 + 0.01 * k)  # no side may keep scores
        for name in seconds:
            problem = plain if name == "plain" else exact[name]
            start = time.perf_counter()
            problem.evaluate(at, threads=given.threads)
            seconds[name].append(time.perf_counter() - start)
    base = statistics.median(seconds["plain"])
    missed = False
    for name, taken in seconds.items():
        median = statistics.median(taken)
        limit = LIMITS.get(name)
        missed = missed or (limit is not None and median > limit * base)
        print(
            f"{name:14} {1e3 * median:8.1f} ms  {median / base:5.2f} of plain"
            + (f"  (at most {limit})" if limit else "")
        )
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
