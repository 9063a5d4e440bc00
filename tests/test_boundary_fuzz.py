"""Calls at random: whatever is passed, the answer is a value or an error in words, and the process lives.

Run under AddressSanitizer too, where a read or write outside an array ends the process.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import leeward as lw
from reference.arguments import LOSSES, Arguments

CALLS = 10_000
# Words of NumPy, pybind11 or the interpreter that name no argument of the call.
UNKIND = re.compile(
    r"ufunc|truth value|object cannot be interpreted|item assignment|incompatible (function|constructor) arg"
    r"|not supported between|^setting an array|^could not convert|vector::|std::|bad_alloc|^float\(\)|^int\(\)"
)
EXPECTED = (ValueError, TypeError, IndexError, OverflowError, MemoryError, lw.LeewardError)


def length(index: Any) -> int:
    """A length for what goes with an index, whatever the index is."""
    return len(index) if isinstance(index, np.ndarray) and index.ndim == 1 else 3


def call_risk(a: Arguments) -> None:
    risk = a.risk()
    shape = a.rng.choice([(1,), (2,), (17,), (1000,), (3, 5), (64, 33)])
    losses, base = a.array(*shape), None if a.maybe(0.6) else np.abs(a.draws.standard_normal(shape[-1]))
    if a.maybe(0.2):
        base = a.array(shape[-1])
    if a.maybe(0.4):
        risk(losses, base, threads=a.threads())
    else:
        out = None if a.maybe(0.7) else a.array(*shape)
        s = risk.solve(losses, base, threads=a.threads(), out=out)
        assert np.isfinite(s.value).all()
        assert np.isfinite(s.weights).all()


def model(a: Arguments) -> lw.LinearModel:
    n, d = a.rng.choice([1, 2, 9, 40, 300]), a.rng.choice([1, 3, 17])
    loss = a.rng.choice(LOSSES) if a.maybe(0.97) else a.number("logistic", "squared")
    weight = None if a.maybe(0.7) else np.abs(a.draws.standard_normal(n)) if a.maybe(0.6) else a.array(n)
    return lw.LinearModel(
        a.matrix(n, d),
        a.labels(loss, n),
        loss,
        l2=a.number(0.0, 0.1, 1e-3),
        intercept=a.rng.choice([True, False]),
        sample_weight=weight,
        threads=a.threads() if a.maybe(0.3) else None,
    )


def call_model(a: Arguments) -> None:
    m = model(a)
    if a.maybe(0.2):
        m = m.smoothed(a.number(0.1))
    w, index = a.array(m.dim), a.index(m.size)
    count = m.size if index is None else length(index)
    scores = (count,) if m.n_outputs == 1 else (count, m.n_outputs)
    calls: list[Callable[[], Any]] = [
        lambda: m.losses(w, index, out=a.output(count), threads=a.threads()),
        lambda: m.gradient(w, a.array(count), index, out=a.output(m.dim), threads=a.threads()),
        lambda: m.scores(w, None if a.maybe(0.4) else a.matrix(5, m.n_features)),
        lambda: m.slopes(w, index, threads=a.threads()),
        lambda: m.curvatures(w, index),
        lambda: m.adjoint(a.array(*scores)),
        lambda: m.conjugate(a.array(*scores)),
        lambda: m.smoothness(threads=a.threads()),
        lambda: m.rows(a.index(m.size)),
        lambda: lw.Robust(m, a.risk(), groups=None if a.maybe(0.5) else a.index(m.size)).evaluate(w),
    ]
    a.rng.choice(calls)()


def user_oracle(a: Arguments) -> lw.FunctionOracle:
    n, d = a.rng.choice([1, 6, 40]), a.rng.choice([1, 3])
    odd = a.maybe(0.3)

    def losses(w: Any, index: Any) -> Any:
        return a.array(len(index)) if odd else 0.5 * np.clip(w[0] - index, -1e9, 1e9) ** 2

    def gradient(w: Any, weights: Any, index: Any) -> Any:
        slope = np.clip(w[0] - index, -1e9, 1e9) * np.clip(weights, -1e9, 1e9)
        return a.array(len(w)) if odd else np.append(np.sum(slope), np.zeros(len(w) - 1))

    size, dim = a.number(n), a.number(d)
    if isinstance(size, int) and size > 10**5:
        size = n  # a size is believed, and the memory for its losses is taken
    if isinstance(dim, int) and dim > 10**5:
        dim = d
    return lw.FunctionOracle(losses, gradient, size, dim, l2=a.number(0.0, 0.1), convex=a.rng.choice([True, False]))


def call_user_oracle(a: Arguments) -> None:
    o = user_oracle(a)
    w, index = a.array(o.dim), a.index(o.size)
    if a.maybe(0.5):
        o.losses(w, index, out=a.output(o.size), threads=a.threads())
    else:
        o.gradient(w, a.array(o.size if index is None else length(index)), index, out=a.output(o.dim))


def call_minimize(a: Arguments) -> None:
    oracle = model(a) if a.maybe(0.8) else user_oracle(a)
    groups = None if a.maybe(0.8) else np.arange(oracle.size) % 3
    problem = oracle if a.maybe(0.1) else lw.Robust(oracle, a.risk(), groups=groups)
    result = lw.minimize(
        problem,
        None if a.maybe(0.6) else a.array(oracle.dim),
        a.algorithm(),
        domain=a.domain(oracle.penalised),
        max_passes=a.rng.choice(
            [1, 2.5, 0.3, 5, 1e-9, np.float32(0.5)] if a.maybe(0.95) else [0, -1, np.nan, "two", True]
        ),
        tol=a.number(None, 1e-3, 0.0),
        seed=a.number(0, 7),
        trace=a.number("pass", "step", 3, None),
        callback=None if a.maybe(0.7) else lambda state: a.maybe(0.2),
        threads=a.threads(),
    )
    assert isinstance(result.status, lw.Status)
    assert np.isfinite(result.x).all()
    assert np.isfinite(result.fun) or result.status is lw.Status.NON_FINITE


def call_draws(a: Arguments) -> None:
    m = model(a)
    n = a.rng.choice([0, 1, 5, 100])
    problem = lw.Robust(m, a.risk(), groups=None if a.maybe(0.5) else np.arange(m.size) % 2)
    estimator = problem.minibatch(n, a.rng.choice([True, False]), a.rng.choice([0, 2**64 - 1]))
    drawn = estimator.draw(a.rng.choice([0, 5, 2**40]))
    assert drawn is None or (drawn.min() >= 0 and drawn.max() < m.size)
    estimator.direction(a.draws.standard_normal(m.dim), a.rng.choice([0, 3]))


KINDS = [(call_risk, 4), (call_model, 6), (call_user_oracle, 2), (call_minimize, 2), (call_draws, 1)]


@pytest.mark.parametrize("block", range(10))
def test_any_arguments_give_an_answer_or_an_error_in_words(block: int, capfd: pytest.CaptureFixture[str]) -> None:
    answered, refused = 0, []
    kinds, shares = zip(*KINDS, strict=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", lw.ConvergenceWarning)
        for k in range(block * CALLS // 10, (block + 1) * CALLS // 10):
            a = Arguments(k)
            kind = a.rng.choices(kinds, shares)[0]
            try:
                kind(a)
                answered += 1
            except EXPECTED as error:
                refused.append((k, kind.__name__, repr(error), str(error)))
            except BaseException as error:
                error.add_note(f"call {k} ({kind.__name__})")
                raise
    poor = [(k, name, text) for k, name, text, words in refused if len(words.split()) < 4 or UNKIND.search(words)]
    assert poor == []
    assert answered > CALLS / 40
    assert len(refused) > CALLS / 40
    captured = capfd.readouterr()
    assert (captured.out, captured.err) == ("", "")
