"""``minimize``: checks the request, chooses an algorithm when none is given, runs it and reports."""

from __future__ import annotations

import dataclasses
import math
import numbers
import os
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from leeward import _core
from leeward._checkpoint import Checkpoint
from leeward._context import RunContext, StopRun
from leeward._progress import Progress
from leeward._threads import thread_request
from leeward.algorithms import LBFGS, PMVR, SGD, SMVR, Algorithm, Minibatch, NestedSGD, Nesterov, ProximalNewton
from leeward.domains import Domain
from leeward.errors import ConvergenceWarning
from leeward.oracles import Oracle
from leeward.problems import Composition, Robust, Sinkhorn
from leeward.result import Status

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike, NDArray

    from leeward._context import State
    from leeward.result import Result

__all__ = ["minimize"]

# Up to this many samples a user's own oracle is run on the full batch.
_FULL_BATCH_SAMPLES = 20_000


def minimize(
    problem: Robust | Composition | Oracle,
    w0: ArrayLike | None = None,
    algorithm: Algorithm | None = None,
    *,
    domain: Domain | None = None,
    max_passes: float | None = None,
    tol: float | None = None,
    seed: int = 0,
    callback: Callable[[State], object] | None = None,
    trace: str | int | None = "pass",
    checkpoint: str | os.PathLike[str] | Checkpoint | None = None,
    threads: int | None = None,
    verbose: bool = False,
) -> Result:
    r"""Minimises ``P(w) = R(l(w)) + (l2/2)|w_pen|^2``, over a domain or with a prox term when one is given.

    Parameters
    ----------
    problem : Robust, Composition or Oracle
        What to minimise; an oracle alone means ``Robust(oracle, Mean())``.
    w0 : (d,) array, optional
        Starting point, zeros by default (``1/d`` for portfolios such as ``MeanDeviation``); moved into the domain.
    algorithm : Algorithm, optional
        ``LBFGS()``, ``ProximalNewton()``, ``SGD(...)``, ``Nesterov(...)``, and for means of losses ``SVRG()``, ``SCSG(...)``,
        ``SARAH()``, ``STORM()``; for a composition ``SMVR(...)`` and the others of its kind. By default one is chosen;
        ``result.message`` says which and why.
    domain : Domain, optional
        By default that of a composition which has one (the simplex for portfolios such as ``MeanDeviation``), else none.
        ``Box``, ``Simplex``, ``L1Ball``, ``L2Ball`` (sets), ``L1``, ``ElasticNet`` (terms of the objective); they act on
        the penalised coordinates, so the intercept of a linear model stays free.
    max_passes : float, optional
        Budget: component losses or gradients evaluated by the algorithm, whichever are more, over n. The default is the
        algorithm's.
    tol : float, optional
        Relative certified gap: the run has converged when ``gap <= tol |P(w)|``. Where no certificate exists, the rule is
        ``|grad P(w)| max(1, |w|) <= tol max(1, |P(w)|)``, with the gradient mapping ``w - prox(w - grad P(w))`` in place
        of the gradient when there is a domain. In a long run whose P has all but vanished (an optimum of 0), a gap of one
        rounding unit of ``|P(0)|`` is enough. 0 means no tolerance. Default: 1e-6 for smooth and 1e-4 for non-smooth
        problems on the full batch; for stochastic algorithms 1e-3 (``SVRG``, ``SCSG``, ``SARAH``: 1e-4), and none when
        ``max_passes`` is given.
    seed : int, default 0
        Of all draws; the same seed gives the same bits, for any number of threads.
    callback : callable, optional
        Called as ``callback(state)`` at every recorded point, with ``state.step, .passes, .w, .objective, .gap,
        .gradient_norm, .trace``; the run ends when it returns True.
    trace : "pass", "step", int or None, default "pass"
        When points are recorded: about once a pass, at each step, every so many steps, or only at the start and the end.
        Stochastic algorithms with their default step judge it at recorded points (it is chosen anew after 1, 2, 4, ...
        passes and cut when the objective rises), so with default steps ``trace`` can change the run; with a given
        ``step`` it does not, up to rounding where sparse rows are stepped lazily.
    checkpoint : path or Checkpoint, optional
        File in which the run is saved, at most every 2 seconds or as :class:`Checkpoint` says. When it exists, the run
        goes on from it and ends with the same bits as a run that was never stopped. A file of another problem, algorithm,
        seed, domain, trace or starting point is refused. ``max_passes`` and ``tol`` may differ.
    threads : int, optional
        Threads for large batches; the default is all CPUs this process may use (or ``LEEWARD_NUM_THREADS``).
    verbose : bool, default False
        Shows progress on stderr, as a bar when tqdm is installed.

    Returns
    -------
    Result

    Raises
    ------
    ValueError, TypeError
        For arguments that make no sense, before anything runs.
    OracleError
        When user code returns something wrong. This and every exception of your own functions reaches you unchanged; once a point has
        been recorded it has what was reached in its attribute ``result``.
    KeyboardInterrupt
        On Ctrl-C, within 50 ms; what was reached is in its attribute ``result`` (status ``INTERRUPTED``) and in the checkpoint.

    Warns
    -----
    ConvergenceWarning
        Once, when a tolerance was in force and not reached, or the run went wrong.

    Examples
    --------
    >>> import numpy as np, leeward as lw
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 3)); y = X @ [1.0, -2.0, 0.5] + rng.normal(size=200)
    >>> result = lw.minimize(lw.Robust(lw.LinearModel(X, y, loss="squared", l2=0.01), lw.ChiSquare(penalty=1.0)))
    >>> result.success, bool(result.gap <= 1e-6 * result.fun)
    (True, True)
    """
    asked = _as_problem(problem)
    if domain is None and isinstance(asked, Composition):
        domain = asked.domain
    domain = _checked_domain(domain, asked)
    start = _start(w0, asked, domain)
    max_passes = _number("max_passes", max_passes, positive=True)
    tol = _number("tol", tol, positive=False)
    seed = _seed(seed)
    _check_trace(trace)
    if callback is not None and not callable(callback):
        raise TypeError(f"callback must be callable, got {callback!r}")
    target = Checkpoint(checkpoint) if isinstance(checkpoint, str | os.PathLike) else checkpoint
    if target is not None and not isinstance(target, Checkpoint):
        raise TypeError(f"checkpoint must be a path or a Checkpoint, got {checkpoint!r}")
    count = workers(threads)
    preface = ""
    if algorithm is None:
        algorithm, preface = _choose(asked, domain)
    elif not isinstance(algorithm, Algorithm):
        raise TypeError(f"algorithm must be an algorithm such as SGD(), Nesterov() or LBFGS(), got {algorithm!r}")
    if isinstance(asked, Composition) and not algorithm.compositions:
        raise ValueError(f"a composition of levels needs an algorithm such as SMVR(), got {algorithm!r}")
    algorithm.check(asked, domain)

    budget = algorithm.default_budget(asked) if max_passes is None else max_passes
    progress = Progress(verbose, budget)
    context = RunContext(
        asked,
        start,
        algorithm,
        domain=domain,
        max_passes=budget,
        tol=algorithm.default_tol(asked, max_passes) if tol is None else tol,
        seed=seed,
        threads=count,
        trace_every=trace,
        callback=callback,
        checkpoint=target,
        progress=progress,
    )
    try:
        algorithm.run(context)
    except StopRun as stop:
        context.stopped(stop)
    except KeyboardInterrupt as interrupt:
        context.stopped(StopRun(Status.INTERRUPTED, "interrupted"))
        interrupt.result = context.result(preface)  # type: ignore[attr-defined]
        raise
    except Exception as error:
        _keep(context, preface, error)
        progress.close()
        raise
    except BaseException:
        progress.close()
        raise
    result = context.result(preface)
    _warn(result, context.tol)
    if isinstance(asked, Sinkhorn) and np.isfinite(result.x).all():
        result = _allowing_for_quadrature(result, asked, count)
        for remark in asked.remarks(result.x, threads=count):
            warnings.warn(remark, UserWarning, stacklevel=2)
    return result


def _allowing_for_quadrature(result: Result, problem: Sinkhorn, threads: int) -> Result:
    """The result with the estimated error of a rule of nodes, in the value and in its bound, added to the gap."""
    error = None if result.gap is None else problem.quadrature_error(result.x, threads)
    if error is None or result.gap is None:
        return result
    words = f" The gap and twice the estimated error of quadrature, {error:.2g}, make {result.gap + 2 * error:.3g}."
    return dataclasses.replace(result, gap=result.gap + 2 * error, message=result.message + words)


def workers(threads: int | None) -> int:
    """The number of threads that a request means here."""
    return int(_core.resolve_threads(thread_request(threads)))


def _choose(problem: Any, domain: Domain | None) -> tuple[Algorithm, str]:
    """An algorithm, and the reason as a clause."""
    if isinstance(problem, Composition):
        largest = max(level.size for level in problem.levels)
        if problem.jacobians and problem.size <= _FULL_BATCH_SAMPLES and not problem.endless:
            return SMVR(largest, decay="constant"), "SMVR on all samples was chosen because the composition has few"
        if problem.jacobians:
            return SMVR(), "SMVR was chosen because the problem is a composition"
        return PMVR(), "PMVR was chosen because a level of the composition answers products only"
    linear = problem.linear is not None
    small = linear or problem.size <= _FULL_BATCH_SAMPLES
    lbfgs = LBFGS()
    if isinstance(problem, Sinkhorn) and not problem.common:
        if not problem.exact:
            return NestedSGD(), "NestedSGD was chosen because points are drawn anew at each step"
        if domain is not None or not problem.smooth:
            return NestedSGD(), "NestedSGD was chosen because LBFGS takes neither a domain nor a loss with a kink here"
    if problem.oracle.population > problem.size:
        return SGD(), "SGD was chosen because the samples are drawn without end"
    try:
        lbfgs.check(problem, domain)
    except ValueError as error:
        why = str(error).split(";")[0]
        if domain is not None and _can(newton := ProximalNewton(), problem, domain):
            return newton, f"ProximalNewton was chosen because the full batch of a linear model is cheap and {why}"
        if small and problem.smooth:
            chosen: Algorithm = Nesterov(Minibatch(problem.size, replace=False))
            return chosen, f"Nesterov on the full batch was chosen because the problem is smooth and {why}"
        return SGD(), f"SGD was chosen because {why}"
    if small:
        if isinstance(problem, Sinkhorn) and problem.exact:
            return lbfgs, "LBFGS was chosen because the expectation over the Gaussian reference is known"
        what = "a linear model" if linear else f"an oracle of {problem.size} samples"
        return lbfgs, f"LBFGS was chosen because the full batch of {what} is cheap"
    return SGD(), f"SGD was chosen because a full batch of {problem.size} samples of a user's oracle is dear"


def _can(algorithm: Algorithm, problem: Robust, domain: Domain | None) -> bool:
    try:
        algorithm.check(problem, domain)
    except ValueError:
        return False
    return True


def _as_problem(problem: Any) -> Any:
    if isinstance(problem, Composition):
        return problem
    if isinstance(problem, Oracle):
        return Robust(problem)
    if not isinstance(problem, Robust):
        raise TypeError(f"problem must be a Robust problem, a Composition or an oracle, got {type(problem).__name__}")
    return problem


def _checked_domain(domain: Any, problem: Robust) -> Domain | None:
    if domain is None:
        return None
    if not isinstance(domain, Domain):
        raise TypeError(f"domain must be a domain or prox term such as Box(0, 1) or L1(0.1), got {domain!r}")
    domain.check(problem.penalised)
    return domain


def _start(w0: ArrayLike | None, problem: Any, domain: Domain | None) -> NDArray[np.float64]:
    if w0 is None:
        start = problem.start() if isinstance(problem, Composition) else np.zeros(problem.dim)
    else:
        try:
            start = problem.point(w0).copy()
        except ValueError as error:
            raise ValueError(f"w0: {error}") from error
    if domain is not None and domain.feasible_set:
        k = problem.penalised
        start[:k] = domain.project(start[:k])
    return start


def _number(name: str, value: Any, *, positive: bool) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name} must be a number or None, got {value!r}")
    number = float(value)
    if math.isnan(number) or number < 0 or (positive and number == 0):
        raise ValueError(f"{name} must be {'positive' if positive else 'at least 0'}, got {value}")
    return number


def _seed(seed: Any) -> int:
    if isinstance(seed, bool) or not isinstance(seed, numbers.Integral):
        raise TypeError(f"seed must be an integer, got {seed!r}")
    if not 0 <= int(seed) < 2**64:
        raise ValueError(f"seed must be in [0, 2**64), got {seed}")
    return int(seed)


def _check_trace(trace: Any) -> None:
    if trace is None or (isinstance(trace, str) and trace in ("pass", "step")):
        return
    if isinstance(trace, str | bool) or not isinstance(trace, numbers.Integral):
        raise ValueError(f"trace must be 'pass', 'step', a number of steps or None, got {trace!r}")
    if int(trace) < 1:
        raise ValueError(f"trace must be at least 1 step, got {trace}")


def _keep(context: RunContext, preface: str, error: Exception) -> None:
    """Attaches what the run had found to an exception that ends it; the exception stays what it is."""
    if not len(context.trace):
        return
    try:
        context.stopped(StopRun(Status.INTERRUPTED, f"interrupted by {type(error).__name__}"))
        error.result = context.result(preface)  # type: ignore[attr-defined]
    except Exception:  # the user's functions again, or an exception that takes no attributes
        return


def _warn(result: Result, tol: float) -> None:
    wrong = result.status in (Status.NON_FINITE, Status.DIVERGED, Status.STALLED)
    if wrong or (tol > 0 and result.status is Status.BUDGET):
        hint = (
            ""
            if result.status is not Status.BUDGET
            else f" Tolerance {tol:g} was not reached: raise max_passes, or scale the features."
        )
        warnings.warn(result.message + hint, ConvergenceWarning, stacklevel=3)
