"""minimize: what it checks, why it stops, what it reports, and known optima."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

import leeward as lw
from leeward.algorithms import Algorithm

Vector = NDArray[np.float64]


def regression(n: int = 80, d: int = 4, *, l2: float = 0.1, **settings: object) -> lw.LinearModel:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d))
    y = X @ np.arange(1.0, d + 1) + 0.5 + rng.normal(size=n)
    return lw.LinearModel(X, y, "squared", l2=l2, **settings)  # type: ignore[arg-type]


def quadratic(n: int = 50, d: int = 3, *, fail_at: int | None = None) -> lw.FunctionOracle:
    """l_i(w) = |w - a_i|^2 / 2, whose mean is least at the mean of a; returns NaN from the call fail_at on."""
    a = np.random.default_rng(1).normal(size=(n, d))
    calls = [0]

    def losses(w: Vector, index: NDArray[np.int64]) -> Vector:
        calls[0] += 1
        if fail_at is not None and calls[0] >= fail_at:
            return np.full(len(index), np.nan)
        return 0.5 * np.sum((w - a[index]) ** 2, axis=1)

    def gradient(w: Vector, weights: Vector, index: NDArray[np.int64]) -> Vector:
        return weights @ (w - a[index])

    return lw.FunctionOracle(losses, gradient, n, d, convex=True)


def quietly(*args: object, **settings: object) -> lw.Result:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", lw.ConvergenceWarning)
        return lw.minimize(*args, **settings)  # type: ignore[arg-type]


# What is refused.


@pytest.mark.parametrize(
    ("settings", "error", "words"),
    [
        ({"w0": np.zeros(3)}, ValueError, r"w0: w must have shape \(5,\)"),
        ({"w0": [0, 0, np.nan, 0, 0]}, ValueError, "w0: w must be finite, got nan at position 2"),
        ({"algorithm": "sgd"}, TypeError, "algorithm must be an algorithm such as SGD"),
        ({"domain": (0, 1)}, TypeError, "domain must be a domain or prox term such as Box"),
        ({"max_passes": 0}, ValueError, "max_passes must be positive, got 0"),
        ({"max_passes": "ten"}, TypeError, "max_passes must be a number or None, got 'ten'"),
        ({"tol": -1e-3}, ValueError, "tol must be at least 0, got -0.001"),
        ({"tol": np.nan}, ValueError, "tol must be at least 0, got nan"),
        ({"seed": 1.5}, TypeError, "seed must be an integer, got 1.5"),
        ({"seed": -1}, ValueError, r"seed must be in \[0, 2\*\*64\), got -1"),
        ({"callback": 3}, TypeError, "callback must be callable, got 3"),
        ({"trace": "epoch"}, ValueError, "trace must be 'pass', 'step', a number of steps or None, got 'epoch'"),
        ({"trace": 0}, ValueError, "trace must be at least 1 step, got 0"),
        ({"checkpoint": 7}, TypeError, "checkpoint must be a path or a Checkpoint, got 7"),
        ({"threads": 0}, ValueError, "threads must be an integer of at least 1, got 0"),
        ({"threads": "two"}, TypeError, "threads must be an integer of at least 1 or None, got 'two'"),
    ],
)
def test_wrong_arguments_are_refused_before_anything_runs(
    settings: dict[str, object], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        lw.minimize(regression(), **settings)  # type: ignore[arg-type]


def test_something_else_than_a_problem_is_refused() -> None:
    with pytest.raises(TypeError, match="problem must be a Robust problem, a Composition or an oracle, got ndarray"):
        lw.minimize(np.zeros(3))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: lw.SGD(step=0.0), "step must be positive and finite, or None, got 0.0"),
        (lambda: lw.SGD(momentum=1.0), r"momentum must be in \[0, 1\), got 1.0"),
        (
            lambda: lw.SGD(average="geometric"),
            "average must be True, False, 'uniform' or 'polynomial', got 'geometric'",
        ),
        (lambda: lw.SGD(decay="linear"), "decay must be 'auto', 'constant' or 'sqrt', got 'linear'"),
        (lambda: lw.Nesterov(form="heavy"), "form must be 'acsa' or 'momentum', got 'heavy'"),
        (lambda: lw.Minibatch(0), "n must be at least 1, got 0"),
        (lambda: lw.Checkpoint("x", every=-1.0), "every must be finite and at least 0 seconds, got -1.0"),
    ],
)
def test_wrong_settings_are_refused(make: Callable[[], object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        make()


@pytest.mark.parametrize("make", [lambda: lw.SGD(64), lambda: lw.Minibatch(2.5), lambda: lw.Minibatch(4, replace=1)])  # type: ignore[arg-type]
def test_settings_of_another_kind_are_refused(make: Callable[[], object]) -> None:
    with pytest.raises(TypeError):
        make()


@pytest.mark.parametrize(
    ("groups", "error", "words"),
    [
        (np.zeros(3, dtype=int), ValueError, r"groups must have shape \(80,\), one label a sample, got \(3,\)"),
        (np.zeros(80), TypeError, "groups must be integers, got dtype float64"),
    ],
)
def test_wrong_groups_are_refused(groups: Vector, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        lw.Robust(regression(), groups=groups)


# The problem.


def test_an_oracle_alone_means_its_mean_loss() -> None:
    model = regression()
    assert lw.minimize(model).fun == lw.minimize(lw.Robust(model, lw.Mean())).fun


def test_evaluate_is_the_gradient_of_value() -> None:
    problem = lw.Robust(regression(sample_weight=1.0 + np.arange(80) % 4), lw.ChiSquare(penalty=2.0))
    w = np.linspace(-1, 1, 5)
    e = problem.evaluate(w)
    assert e.value == problem.value(w)
    assert e.weights.sum() == pytest.approx(1.0, abs=1e-12)
    for j in range(5):
        step = 1e-5 * np.eye(5)[j]
        slope = (problem.value(w + step) - problem.value(w - step)) / 2e-5
        assert e.gradient[j] == pytest.approx(slope, rel=1e-6, abs=1e-7)


def test_groups_weigh_equally_whatever_their_sizes() -> None:
    weight = 1.0 + np.arange(80) % 3
    groups = np.where(np.arange(80) < 5, 9, np.where(np.arange(80) < 30, -4, 2))
    model = regression(l2=0.0, sample_weight=weight)
    problem = lw.Robust(model, lw.Mean(), groups=groups)
    w = np.linspace(-1, 1, 5)
    losses = model.losses(w)
    means = [np.average(losses[groups == g], weights=weight[groups == g]) for g in (-4, 2, 9)]
    e = problem.evaluate(w)
    assert e.value == pytest.approx(np.mean(means), rel=1e-12)
    assert [e.weights[groups == g].sum() for g in (-4, 2, 9)] == pytest.approx([1 / 3] * 3, rel=1e-12)
    assert lw.Robust(model, lw.Worst(), groups=groups).value(w) == pytest.approx(max(means), rel=1e-12)


def test_a_group_without_weight_is_left_out() -> None:
    weight = np.ones(80)
    weight[:5] = 0.0
    groups = np.where(np.arange(80) < 5, 0, 1 + np.arange(80) % 2)
    problem = lw.Robust(regression(sample_weight=weight), lw.Mean(), groups=groups)
    e = problem.evaluate(np.zeros(5))
    assert len(e.solution.weights) == 2
    assert np.all(e.weights[:5] == 0.0)


# Why a run stops.


def test_convergence_is_by_the_relative_certified_gap() -> None:
    problem = lw.Robust(regression(), lw.ChiSquare(penalty=1.0))
    result = lw.minimize(problem, algorithm=lw.Nesterov(lw.Minibatch(80, replace=False)), tol=1e-5)
    assert result.status is lw.Status.CONVERGED
    assert result.success
    assert result.gap is not None
    assert result.gap <= 1e-5 * result.fun
    assert "converged: the relative certified gap is within tol=1e-05" in result.message.lower()


def test_without_a_certificate_convergence_is_by_the_scaled_gradient() -> None:
    result = lw.minimize(quadratic(), algorithm=lw.Nesterov(lw.Minibatch(50, replace=False)), tol=1e-6)
    assert result.status is lw.Status.CONVERGED
    assert result.gap is None
    assert np.linalg.norm(result.jac) * max(1, np.linalg.norm(result.x)) <= 1e-6 * max(1, result.fun)
    assert "no certificate exists" in result.message


def test_a_budget_ends_the_run_with_one_warning_when_a_tolerance_was_missed() -> None:
    with pytest.warns(lw.ConvergenceWarning, match="budget of 3 passes") as caught:
        result = lw.minimize(regression(), algorithm=lw.SGD(lw.Minibatch(8)), max_passes=3, tol=1e-9)
    assert len(caught) == 1
    assert result.status is lw.Status.BUDGET
    assert not result.success
    assert 3.0 <= result.passes < 3.0 + 1.0


def test_a_budget_without_a_tolerance_gives_no_warning() -> None:
    assert lw.minimize(regression(), algorithm=lw.SGD(), max_passes=3).status is lw.Status.BUDGET


def test_a_callback_can_stop_the_run() -> None:
    seen: list[float] = []

    def callback(state: lw.State) -> bool:
        seen.append(state.objective)
        assert not state.w.flags.writeable
        return state.step >= 20

    result = lw.minimize(regression(), algorithm=lw.SGD(lw.Minibatch(8)), callback=callback)
    assert result.status is lw.Status.STOPPED_BY_CALLBACK
    assert result.nit == 20
    assert result.fun == seen[-1]
    assert "the callback asked to stop" in result.message.lower()


def test_an_exception_of_the_callback_comes_back_unchanged() -> None:
    def callback(state: lw.State) -> None:
        raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        lw.minimize(regression(), algorithm=lw.SGD(), callback=callback)


@pytest.mark.parametrize(
    "algorithm", [lw.SGD(lw.Minibatch(8), step=1e6), lw.Nesterov(lw.Minibatch(8), step=1e6)], ids=repr
)
def test_a_step_that_is_too_large_is_reported_and_the_last_good_point_kept(algorithm: Algorithm) -> None:
    problem = lw.Robust(regression())
    with pytest.warns(lw.ConvergenceWarning):
        result = lw.minimize(problem, algorithm=algorithm, max_passes=300)
    assert result.status in (lw.Status.DIVERGED, lw.Status.NON_FINITE)
    assert np.isfinite(result.fun)
    assert result.fun <= problem.value(np.zeros(5))
    assert "too large" in result.message


def test_an_oracle_that_returns_nan_is_an_oracle_error_that_names_the_samples() -> None:
    with pytest.raises(lw.OracleError, match="got nan for sample"):
        lw.minimize(quadratic(fail_at=5), algorithm=lw.SGD(lw.Minibatch(5), step=0.1), max_passes=10)


# What is reported.


def test_the_result_is_consistent_with_the_problem() -> None:
    problem = lw.Robust(regression(), lw.CVaR(0.3))
    result = lw.minimize(problem, algorithm=lw.SGD(lw.Minibatch(8)), max_passes=5)
    e = problem.evaluate(result.x)
    assert result.fun == e.value
    assert np.array_equal(result.jac, e.gradient)
    assert np.array_equal(result.weights, e.weights)
    assert result.eta == e.solution.eta
    assert result.trace.objective[-1] == result.fun
    assert result.nfev == result.trace.losses[-1]
    assert result.message[0].isupper()
    assert result.message.endswith(".")
    assert result.message.count(".") >= 1
    assert len(repr(result)) < 1000


def test_the_prox_term_is_part_of_the_objective() -> None:
    problem = lw.Robust(regression())
    result = lw.minimize(problem, algorithm=lw.SGD(lw.Minibatch(8)), domain=lw.L1(0.5), max_passes=5)
    assert result.fun == pytest.approx(problem.value(result.x) + 0.5 * np.abs(result.x[:4]).sum(), rel=1e-14)


@pytest.mark.parametrize(
    ("trace", "steps"), [("step", range(31)), (10, [0, 10, 20, 30]), (None, [0, 30]), ("pass", [0, 10, 20, 30])]
)
def test_the_trace_holds_the_points_asked_for(trace: str | int | None, steps: list[int]) -> None:
    result = lw.minimize(regression(), algorithm=lw.SGD(lw.Minibatch(8), step=0.01), max_passes=3, trace=trace)
    t = result.trace
    assert list(t.steps) == list(steps)
    assert np.allclose(t.passes, np.array(steps) * 8 / 80)
    assert np.array_equal(t.losses, np.array(steps) * 8)
    assert np.array_equal(t.gradients, np.array(steps) * 8)
    assert np.all(np.diff(t.seconds) >= 0)
    assert len(t) == len(t.to_dict()["objective"]) == len(steps)


def test_what_is_recorded_does_not_change_the_run() -> None:
    answers = [
        lw.minimize(regression(), algorithm=lw.SGD(lw.Minibatch(8), step=0.01), max_passes=3, trace=trace).x
        for trace in ("step", 7, None, "pass")
    ]
    assert len({x.tobytes() for x in answers}) == 1


def test_recorded_points_match_the_objective() -> None:
    problem, points = lw.Robust(regression(), lw.CVaR(0.5)), []
    result = lw.minimize(
        problem,
        algorithm=lw.SGD(lw.Minibatch(8), step=0.01),
        max_passes=2,
        callback=lambda s: points.append(s.w),
    )
    values = [problem.value(w) for w in points]
    np.testing.assert_array_equal(values, result.trace.objective[: len(values)])


def test_a_seed_repeats_the_run_and_another_seed_does_not() -> None:
    def fit(seed: int) -> bytes:
        return lw.minimize(regression(), algorithm=lw.SGD(lw.Minibatch(8)), max_passes=2, seed=seed).x.tobytes()

    assert fit(5) == fit(5)
    assert fit(5) != fit(6)
    before = np.random.get_state()[1].copy()  # type: ignore[index, union-attr]  # noqa: NPY002
    fit(7)
    assert np.array_equal(before, np.random.get_state()[1])  # type: ignore[index]  # noqa: NPY002


def test_results_traces_and_algorithms_pickle() -> None:
    result = lw.minimize(regression(), algorithm=lw.SGD(lw.Minibatch(8)), max_passes=2)
    twin = pickle.loads(pickle.dumps(result))
    assert np.array_equal(twin.x, result.x)
    assert np.array_equal(twin.trace.objective, result.trace.objective)
    assert (twin.status, twin.message, twin.algorithm) == (result.status, result.message, result.algorithm)
    assert twin.status is lw.Status.BUDGET


def test_the_problem_pickles() -> None:
    problem = lw.Robust(regression(), lw.CVaR(0.3), groups=np.arange(80) % 3)
    twin = pickle.loads(pickle.dumps(problem))
    w = np.linspace(-1, 1, 5)
    assert twin.value(w) == problem.value(w)


def test_verbose_writes_to_stderr_only(capsys: pytest.CaptureFixture[str]) -> None:
    lw.minimize(regression(), algorithm=lw.SGD(lw.Minibatch(8)), max_passes=2, verbose=True)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "budget of 2 passes" in shown.err
    lw.minimize(regression(), algorithm=lw.SGD(lw.Minibatch(8)), max_passes=2)
    assert capsys.readouterr().err == ""


def test_verbose_works_without_tqdm(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "tqdm", None)
    lw.minimize(regression(), algorithm=lw.SGD(lw.Minibatch(8)), max_passes=2, verbose=True)
    assert "leeward: step 0 passes 0.00 objective" in capsys.readouterr().err


def test_verbose_ends_its_display_when_the_oracle_fails(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(lw.OracleError):
        lw.minimize(quadratic(fail_at=5), algorithm=lw.SGD(lw.Minibatch(5), step=0.1), max_passes=10, verbose=True)
    assert capsys.readouterr().out == ""
