"""Sinkhorn DRO beside its neighbours: inner problems on drawn points, and fits judged by the exact objective.

    python bench/bench_sinkhorn.py rows       inner problems of 1e5 samples with 8, 32 and 128 points, beside a vectorised PyTorch bisection
    python bench/bench_sinkhorn.py fits       fits of 1000 x 20 and 10000 x 50, beside `dro` and `skwdro`

Each prints medians and ratios of one run, with the ratio that a row should reach, and exits with status 1 if one is missed. Same threads on
all sides.

rows: value, weights and eta of a row at once. PyTorch halves an interval for eta, on all rows together, until every |mean r - 1| <= 1e-10.
Answers are compared before they are timed. The library's logsumexp, which needs no bisection, is printed for KL.

fits: both neighbours minimise an expectation over Gaussian points that has an exact value here, without draws, so that is what both sides'
answers are judged by. Time is that of a fit from the arrays, and counts only if its objective is no worse.

* dro, SinkhornLinearDRO (hinge loss; its logistic loss is not the logistic one): E lam eps log E exp(l(xi)/(lam eps)), xi ~ N(zeta, eps I).
  That is KL with a reference of variance 2 eps, entropy 4 eps and price lam/4, less a constant. Its default of 1000 epochs takes minutes at
  the larger size; --epochs sets fewer there, which is in its favour as to time.
* skwdro, LogisticRegression(rho): min over lam of lam rho^2 + E eps log E exp((l(xi) - lam |xi - zeta|^2)/eps), with
  xi ~ N(zeta, (rho/2)^2 I) and eps = rho/400. Here that is a search over lam with a fit at each. Its fits are stopped after --limit
  seconds.

--whole lets both run to their own ends: 1000 epochs of dro at both sizes, and skwdro's stopping rule (at most 10000 iterations) alone.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
import time
import types
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar
from threadpoolctl import threadpool_limits

import leeward as lw

PENALTY = 0.5
ROWS_TARGET, FITS_TARGET = 10.0, 50.0


def median_seconds(call: Callable[[], Any], rounds: int, clock: Callable[[], float] = time.perf_counter) -> float:
    taken = []
    for _ in range(rounds):
        began = clock()
        call()
        taken.append(clock() - began)
    return statistics.median(taken)


# ---- inner problems --------------------------------------------------------------------------------------------------


def inner_risks(torch: Any) -> dict[str, tuple[lw.Risk, Any, Any]]:
    """Risks of penalty 0.5, with (f*)' and f* in PyTorch."""
    alpha = 0.1
    offset = math.log(alpha / (1 - alpha))

    def power(k: float) -> tuple[Any, Any]:
        base = lambda s: ((k - 1) * s + 1).clamp(min=0)  # noqa: E731
        return lambda s: base(s) ** (1 / (k - 1)), lambda s: (base(s) ** (k / (k - 1)) - 1) / k

    return {
        "KL": (lw.KL(penalty=PENALTY), torch.exp, torch.expm1),
        "ChiSquare": (
            lw.ChiSquare(penalty=PENALTY),
            lambda s: (s + 1).clamp(min=0),
            lambda s: ((s + 1).clamp(min=0) ** 2 - 1) / 2,
        ),
        "SmoothedCVaR(0.1)": (
            lw.SmoothedCVaR(alpha, PENALTY),
            lambda s: torch.sigmoid(s + offset) / alpha,
            lambda s: (torch.nn.functional.softplus(s + offset) + math.log(1 - alpha)) / alpha,
        ),
        "CressieRead(3)": (lw.CressieRead(3.0, penalty=PENALTY), *power(3.0)),
        "CressieRead(1.5)": (lw.CressieRead(1.5, penalty=PENALTY), *power(1.5)),
        "CressieRead(2.5)": (lw.CressieRead(2.5, penalty=PENALTY), *power(2.5)),
    }


def bisection(torch: Any, l: Any, ratio: Any, conjugate: Any) -> tuple[Any, Any, Any]:
    """Values, weights and eta of all rows."""
    with torch.no_grad():
        low, high = l.amin(-1, keepdim=True) - PENALTY, l.amax(-1, keepdim=True) + PENALTY
        for _ in range(200):
            eta = 0.5 * (low + high)
            excess = ratio((l - eta) / PENALTY).mean(-1, keepdim=True) - 1.0
            if excess.abs().max() <= 1e-10:
                break
            above = excess > 0
            low, high = torch.where(above, eta, low), torch.where(above, high, eta)
        s = (l - eta) / PENALTY
        return PENALTY * conjugate(s).mean(-1) + eta[:, 0], ratio(s) / l.shape[-1], eta[:, 0]


def rows(options: argparse.Namespace) -> bool:
    import torch

    torch.set_num_threads(options.threads)
    clock = "processor" if options.cpu else "wall clock"
    print(f"{options.rows} rows, {options.threads} thread(s), medians of {options.rounds}, {clock} time")
    print(f"{'risk':<20}{'points':>7}{'leeward ms':>12}{'bisection ms':>14}{'ratio':>8}{'asked':>7}")
    missed = [one_size(m, options, torch) for m in options.points]
    return any(missed)


def one_size(m: int, options: argparse.Namespace, torch: Any) -> bool:
    """All risks on rows of m losses."""
    rng, missed = np.random.default_rng(m), False
    clock = time.process_time if options.cpu else time.perf_counter
    l = np.logaddexp(0.0, 1.5 * rng.normal(size=(options.rows, m))) - 0.5 * rng.chisquare(3, size=(options.rows, m))
    there = torch.from_numpy(l)
    for name, (risk, ratio, conjugate) in inner_risks(torch).items():
        sides = {
            "leeward": partial(risk.solve, l, threads=options.threads),
            "bisection": partial(bisection, torch, there, ratio, conjugate),
        }
        mine, (value, weights, eta) = sides["leeward"](), (x.numpy() for x in sides["bisection"]())
        np.testing.assert_allclose(mine.value, value, rtol=1e-10, atol=1e-10)
        np.testing.assert_allclose(mine.weights, weights, rtol=1e-8, atol=1e-9)
        np.testing.assert_allclose(mine.eta, eta, rtol=1e-8, atol=1e-8)
        taken: dict[str, list[float]] = {side: [] for side in sides}
        for _ in range(options.rounds):  # in turn
            for side, call in sides.items():
                taken[side].append(median_seconds(call, 1, clock))
        a, b = (1e3 * statistics.median(t) for t in taken.values())
        missed = missed or b < ROWS_TARGET * a
        print(f"{name:<20}{m:>7}{a:>12.1f}{b:>14.1f}{b / a:>8.1f}{ROWS_TARGET:>7g}", flush=True)
        if name == "KL":
            whole = median_seconds(partial(library_kl, torch, there), options.rounds, clock)
            print(f"{'  (logsumexp, softmax)':<27}{'':>12}{1e3 * whole:>14.1f}")
    return missed


def library_kl(torch: Any, l: Any) -> tuple[Any, Any]:
    return torch.logsumexp(l / PENALTY, -1), torch.softmax(l / PENALTY, -1)


# ---- fits ------------------------------------------------------------------------------------------------------------


def table(n: int, d: int) -> tuple[Any, Any]:
    """Gaussian features, labels -1 and 1 of a logistic model."""
    rng = np.random.default_rng(n + d)
    X = rng.normal(size=(n, d))
    return X, np.where(X @ rng.normal(size=d) / math.sqrt(d) * 3 + rng.logistic(size=n) > 0, 1.0, -1.0)


class _Stub(types.ModuleType):
    """Stands for torchvision, which `dro` imports for its networks alone."""

    __path__ = ()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        child = _Stub(f"{self.__name__}.{name}")
        sys.modules[child.__name__] = child
        return child


def dro_class() -> Any:
    try:
        import torchvision  # noqa: F401
    except Exception:  # a build that does not fit PyTorch's raises RuntimeError
        for name in [n for n in sys.modules if n.split(".")[0] == "torchvision"]:
            del sys.modules[name]
        for name in ("torchvision", "torchvision.models", "torchvision.transforms"):
            sys.modules[name] = _Stub(name)
    from dro.linear_model.sinkhorn_dro import SinkhornLinearDRO

    return SinkhornLinearDRO


def report(name: str, theirs: tuple[float, float], mine: tuple[float, float]) -> bool:
    (seconds, value), (own, reached) = theirs, mine
    worse = not reached <= value
    missed = worse or seconds < FITS_TARGET * own
    print(
        f"{name:<44}{seconds:>10.2f} s{value:>14.8f}{own:>11.4f} s{reached:>14.8f}{seconds / own:>9.0f}{FITS_TARGET:>7g}"
        + ("  worse" if worse else ""),
        flush=True,
    )
    return missed


def against_dro(n: int, d: int, epochs: int, threads: int, rounds: int) -> bool:
    import torch

    X, y = table(n, d)
    price, eps = 100.0, 0.01

    def problem() -> lw.Sinkhorn:
        model = lw.LinearModel(X, y, "hinge", threads=threads)
        return lw.Sinkhorn(model, "kl", lam=price / 4, entropy=4 * eps, noise=math.sqrt(2 * eps), exact=True)

    judge, constant = problem(), 0.5 * d * price * eps * math.log(2.0)
    missed = False
    for kind in ("SG", "RTMLMC"):
        torch.manual_seed(0)
        np.random.seed(0)  # noqa: NPY002  what it draws from
        made = dro_class()(d, "svm", reg_param=eps, lambda_param=price, max_iter=epochs)
        began = time.perf_counter()
        made.fit(X, y, optimization_type=kind)
        seconds = time.perf_counter() - began
        w = np.append(made.model.linear.weight.detach().numpy().ravel(), made.model.linear.bias.detach().numpy())
        value = judge.value(w.astype(np.float64)) + constant
        own = median_seconds(lambda: lw.minimize(problem(), threads=threads), rounds)
        reached = judge.value(lw.minimize(problem(), threads=threads).x) + constant
        missed |= report(f"dro {kind}, {epochs} epochs, {n} x {d}", (seconds, value), (own, reached))
    return missed


class _Until:
    """Its own stopping rule, and a limit of time."""

    def __init__(self, rule: Any, limit: float) -> None:
        self.rule, self.end = rule, time.perf_counter() + limit
        self.cut = False
        self.iterations = 0

    def __call__(self, loss: Any, iteration: int) -> bool:
        self.iterations += 1
        self.cut = time.perf_counter() > self.end
        return self.cut or self.rule(loss, iteration)


class BallOfSkwdro:
    """``min over lam of lam rho^2 + E eps log E exp((l - lam c)/eps)``: a fit for each lam, from the one before."""

    def __init__(self, X: Any, y: Any, rho: float, threads: int) -> None:
        self.model = lw.LinearModel(X, y, threads=threads)
        self.rho, self.eps, self.sigma = rho, rho / 400, rho / 2
        self.threads = threads
        self.w = np.zeros(self.model.dim)

    def problem(self, lam: float) -> lw.Sinkhorn:
        return lw.Sinkhorn(self.model, "kl", lam=lam, entropy=self.eps / lam, noise=self.sigma, exact=True)

    def value(self, w: Any) -> float:
        """The objective at w, exactly: over lam by a bounded search."""
        found = minimize_scalar(
            lambda t: math.exp(t) * self.rho**2 + self.problem(math.exp(t)).value(w),
            bounds=(-4.0, 8.0),
            method="bounded",
            options={"xatol": 1e-6},
        )
        return float(found.fun)

    def fit(self) -> Any:
        def at(t: float) -> float:
            result = lw.minimize(self.problem(math.exp(t)), self.w, tol=1e-7, threads=self.threads)
            self.w = result.x
            return math.exp(t) * self.rho**2 + result.fun

        minimize_scalar(at, bounds=(-4.0, 8.0), method="bounded", options={"xatol": 1e-2})
        return self.w


def against_skwdro(n: int, d: int, limit: float, threads: int, rounds: int) -> bool:
    import torch
    from skwdro.linear_models import LogisticRegression
    from skwdro.solvers.optim_cond import OptCondTorch

    X, y = table(n, d)
    rho = 0.1
    torch.manual_seed(0)
    rule = _Until(OptCondTorch(2, 1e-4, 0.0), limit)
    began = time.perf_counter()
    made = LogisticRegression(rho=rho, opt_cond=rule).fit(X, y)
    seconds = time.perf_counter() - began
    judge = BallOfSkwdro(X, y, rho, threads)
    value = judge.value(np.append(made.coef_, made.intercept_).astype(np.float64))
    own = median_seconds(lambda: BallOfSkwdro(X, y, rho, threads).fit(), rounds)
    reached = judge.value(BallOfSkwdro(X, y, rho, threads).fit())
    words = f"skwdro, {rule.iterations} steps{f' in {limit:g} s' if rule.cut else ''}, {n} x {d}"
    return report(words, (seconds, value), (own, reached))


def fits(options: argparse.Namespace) -> bool:
    import torch

    torch.set_num_threads(options.threads)
    warnings.simplefilter("ignore")
    print(f"{options.threads} thread(s)")
    print(f"{'':<44}{'theirs':>12}{'objective':>14}{'leeward':>13}{'objective':>14}{'ratio':>9}{'asked':>7}")
    missed = False
    for (n, d), epochs in zip(((1000, 20), (10_000, 50)), options.epochs, strict=True):
        missed |= against_dro(n, d, epochs, options.threads, options.rounds)
        missed |= against_skwdro(n, d, options.limit, options.threads, options.rounds)
    return missed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("rows", "fits"))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--cpu", action="store_true", help="processor time of rows, for a machine with other work")
    parser.add_argument("--points", type=int, nargs="+", default=[8, 32, 128])
    parser.add_argument("--epochs", type=int, nargs=2, default=[1000, 100], help="of dro at the two sizes")
    parser.add_argument("--limit", type=float, default=60.0, help="seconds of a skwdro fit")
    parser.add_argument("--whole", action="store_true", help="the neighbours' own lengths at both sizes")
    options = parser.parse_args()
    if options.whole:
        options.epochs, options.limit = [1000, 1000], math.inf
    with threadpool_limits(options.threads):
        return int({"rows": rows, "fits": fits}[options.what](options))


if __name__ == "__main__":
    sys.exit(main())
