"""Prints a hash of the bits of whole fits, a line each, for one, two and three threads.

Two builds of the core that print the same compute the same; `tests/cpp/compare_simd.sh` compares builds for different SIMD levels
that way. Ends with status 1 when numbers of threads disagree.
"""

from __future__ import annotations

import hashlib
import sys
import warnings
from collections.abc import Iterator

import numpy as np
from scipy import sparse

import leeward as lw


def fingerprint(result: lw.Result) -> str:
    """Of the point, the objective, the gap and the trace (but for its seconds)."""
    bits = hashlib.sha256(result.x.tobytes())
    bits.update(np.float64([result.fun, np.nan if result.gap is None else result.gap, result.passes]).tobytes())
    for name, values in sorted(result.trace.to_dict().items()):
        if name != "seconds":
            bits.update(np.ascontiguousarray(values, dtype=np.float64).tobytes())
    return bits.hexdigest()[:16]


def models(n: int, d: int) -> Iterator[tuple[str, lw.LinearModel]]:
    """Linear models of each kind of storage, large enough for several blocks and tasks."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(n, d)) * np.linspace(0.3, 3.0, d)
    z = X @ rng.normal(size=d) / np.sqrt(d)
    sign = np.where(z + rng.normal(size=n) > 0, 1.0, -1.0)
    classes = np.digitize(z + rng.normal(size=n), [-0.7, 0.7])
    thin = sparse.csr_array(np.where(X > 1.0, X, 0.0))
    X32 = X.astype(np.float32)
    yield "logistic float64", lw.LinearModel(X, sign, l2=1e-3)
    yield "logistic float32", lw.LinearModel(X32, sign, l2=1e-3)
    yield "logistic csr", lw.LinearModel(thin, sign, l2=1e-3)
    yield "squared float64", lw.LinearModel(X, z + rng.normal(size=n), loss="squared", l2=1e-3)
    yield "softmax float32", lw.LinearModel(X32, classes, loss="softmax", l2=1e-3)
    yield "hinge csr", lw.LinearModel(thin, sign, loss="hinge", l2=1e-3)


RISKS = (lw.Mean(), lw.CVaR(0.1), lw.ChiSquare(penalty=1.0), lw.ChiSquare(radius=0.5), lw.KL(radius=0.5))
STOCHASTIC = (lw.SGD(lw.Minibatch(3000)), lw.Nesterov(lw.Minibatch(3000)))
FINITE_SUMS = (
    lw.SVRG(900),
    lw.SCSG(inner_batch=4),
    lw.SVRG(600, update=lw.Normalized()),
    lw.SCSG(9000, 700, inner="slices", step=0.02),
    lw.SCSG(9000, 700, inner="slices", step=0.02, update=lw.Momentum(0.5)),
    lw.SVRG(600, update=lw.AMSGrad(), output="random"),
    lw.SARAH(inner_batch=900),
    lw.STORM(900, output="average"),
)
# Every risk on one model and every model under one risk; the rest of the square adds nothing but time.
CHOSEN = "logistic float64"


def fits() -> Iterator[tuple[str, lw.Robust | lw.Composition, lw.Algorithm, float]]:
    """(name, problem, algorithm, passes)."""
    for name, model in models(30_000, 12):
        for algorithm in FINITE_SUMS if name != "hinge csr" else ():
            kind = f"{type(algorithm).__name__}, {algorithm.update!r}"
            yield f"{name}, {kind}", lw.Robust(model), algorithm, 4.0
        for risk in RISKS if name == CHOSEN else RISKS[1:3]:
            yield f"{name}, {risk!r}, LBFGS", lw.Robust(model, risk), lw.LBFGS(), 12.0
            for algorithm in STOCHASTIC if name in (CHOSEN, "softmax float32") else STOCHASTIC[:1]:
                yield f"{name}, {risk!r}, {type(algorithm).__name__}", lw.Robust(model, risk), algorithm, 2.0
    for name, model in models(3_000, 12):
        if name in ("logistic float64", "logistic csr", "softmax float32"):
            for divergence, cost in (("kl", "sqeuclidean"), ("chi2", "l1")):
                problem = lw.Sinkhorn(model, divergence, cost=cost, exact=False)
                common = lw.Sinkhorn(model, divergence, cost=cost, exact=False, common=True)
                for inner in ("exact", "sgd"):
                    yield f"{name}, Sinkhorn {divergence}, {inner}", problem, lw.NestedSGD(300, inner=inner), 2.0
                yield f"{name}, Sinkhorn {divergence}, LBFGS", common, lw.LBFGS(), 6.0
    returns = np.random.default_rng(0).normal(0.05, 1.0, size=(5_000, 21))
    for R in (returns, returns.astype(np.float32), returns[:, :5]):
        for algorithm in (
            lw.SMVR(7),
            lw.SMVR(1, step=0.05, radius=1.0, update=lw.Adam()),
            lw.NLASG(16, tau=0.1),
            lw.PMVR(5_000),
        ):
            yield (
                f"mean-deviation {R.shape[1]} {R.dtype}, {type(algorithm).__name__}",
                lw.MeanDeviation(R),
                algorithm,
                6.0,
            )
        for problem in (lw.MeanCVaR(R), lw.MeanUpperSemideviation(R), lw.MeanUpperSemideviation(R, order=1)):
            kind = f"{type(problem).__name__} {getattr(problem, 'order', '')} {R.shape[1]} {R.dtype}"
            yield f"{kind}, SMVR", problem, lw.SMVR(7), 6.0
            yield f"{kind}, SMVR on all", problem, lw.SMVR(5_000), 6.0
    for divergence in ("kl", "chi2"):
        exact = lw.Sinkhorn(next(models(3_000, 12))[1], divergence)
        yield f"logistic float64, Sinkhorn {divergence}, kernel itself", exact, lw.LBFGS(), 6.0


def main() -> int:
    warnings.simplefilter("ignore", lw.errors.ConvergenceWarning)
    same = True
    for name, problem, algorithm, passes in fits():
        w0 = np.full(problem.dim, 0.05)  # not the origin, where a radius form has a kink
        marks = [
            fingerprint(lw.minimize(problem, w0, algorithm, max_passes=passes, tol=1e-9, threads=threads))
            for threads in (1, 2, 3)
        ]
        same = same and len(set(marks)) == 1
        print(f"{name:60} {' '.join(marks)}")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
