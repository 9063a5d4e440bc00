"""What compositions, their levels and their algorithms say to wrong, extreme and interrupted use."""

from __future__ import annotations

import gc
import pickle
import re
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import leeward as lw
from leeward.testing import check_level
from reference import compositions as twin

R = np.random.default_rng(4).normal([0.05, 0.02, 0.03, 0.1], [1.0, 0.2, 0.5, 2.0], size=(300, 4))
A = np.random.default_rng(1).normal(size=(20, 3))


def mean_square(u: Any, index: Any) -> Any:
    return np.array([np.mean((A[index] @ u) ** 2)])


def mean_square_jacobian(u: Any, index: Any) -> Any:
    return 2 * ((A[index] @ u) @ A[index])[None, :] / len(index)


def level(**changes: Any) -> lw.FunctionLevel:
    settings = {"value": mean_square, "jacobian": mean_square_jacobian, "inputs": 3, "outputs": 1, "size": 20}
    return lw.FunctionLevel(**(settings | changes))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: level(inputs=0), "inputs must be at least 1, got 0"),
        (lambda: level(outputs=-1), "outputs must be at least 1, got -1"),
        (lambda: level(size=0), "size must be at least 1, got 0"),
        (lambda: level(jacobian=None), "a level needs jacobian or vjp"),
        (lambda: level(value=3), "value must be callable, got int"),
        (lambda: level(population=10), "population must be at least 20, got 10"),
        (lambda: level(size=None, population=10), "population needs size"),
        (lambda: level(keep=slice(3, 9)), r"keep must hold at least one input, got slice\(3, 9, None\) of 3"),
        (lambda: level(keep=2), "keep must be a slice of the inputs, got 2"),
        (lambda: level(floor=-1.0), "floor must be finite and at least 0, got -1.0"),
        (lambda: lw.LinearLevel([1.0, 2.0]), r"A must have shape \(m, d\), got shape \(2,\)"),
        (lambda: lw.ElementwiseLevel("cosine"), "map must be one of identity, log, sqrt, power, exp, got 'cosine'"),
        (lambda: lw.FiniteSumLevel((A, A[:3]), mean_square, mean_square_jacobian, inputs=3, outputs=1), "same number of rows"),
        (lambda: lw.Composition([]), "a composition needs at least one level"),
        (lambda: lw.Composition([level(), level()]), "level 2 takes 3 numbers, but level 1 gives 1"),
        (lambda: lw.Composition([level(keep=slice(0, 2))]), "the last level must give one number, got 3"),
        (lambda: lw.Composition([level(), "log"]), "levels must be levels such as FunctionLevel"),
        (lambda: lw.Composition([level()], l2=-1.0), "l2 must be finite and at least 0, got -1.0"),
        (lambda: lw.MeanDeviation(R, lam=-0.1), "lam must be finite and at least 0, got -0.1"),
        (lambda: lw.MeanDeviation(R[0]), r"returns must have shape \(n, d\)"),
        (lambda: lw.MeanDeviation(np.array([[np.nan, 1.0]])), "returns must hold finite numbers"),
        (lambda: lw.SMVR(batch=0), "batch must be at least 1, got 0"),
        (lambda: lw.SMVR(beta=1.5), r"beta must be in \(0, 1\], got 1.5"),
        (lambda: lw.SMVR(c=1.0), "c needs a given step"),
        (lambda: lw.SMVR(radius=0.0), "radius must be positive, got 0.0"),
        (lambda: lw.SMVR(norm="nuclear"), "norm must be 'spectral' or 'fro', got 'nuclear'"),
        (lambda: lw.SMVR(stages=3), r"stages must be Stages\(...\), 'doubling' or None, got 3"),
        (lambda: lw.SMVR(stages="doubling", decay="cbrt"), "stages set the steps"),
        (lambda: lw.SMVR(output="best"), "output must be 'last', 'random' or 'average', got 'best'"),
        (lambda: lw.SMVR.pl(mu=-1.0, smoothness=1.0), "mu must be positive and finite"),
        (lambda: lw.SMVR.pl(mu=0.5, smoothness=1.0, step=0.1), "pl sets beta, step and stages from mu and smoothness, got step"),
        (lambda: lw.Stages(first=0), "first must be at least 1"),
        (lambda: lw.NLASG(tau=2.0), r"tau must be in \(0, 1\], got 2.0"),
        (lambda: lw.NestedSPIDER(period=0), "period must be at least 1, got 0"),
        (lambda: lw.NestedSPIDER(length=0.1), "length needs a given step"),
        (lambda: lw.SCSC(decay="cbrt"), "decay must be 'auto', 'constant' or 'sqrt', got 'cbrt'"),
    ],
)  # fmt: skip
def test_wrong_settings_are_refused_in_words(make: Any, message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        make()


@pytest.mark.parametrize(
    ("problem", "algorithm", "message"),
    [
        (lambda: lw.Composition([level()]), lw.LBFGS(), r"a composition of levels needs an algorithm such as SMVR\(\)"),
        (lambda: lw.LinearModel(A, A[:, 0], "squared"), lw.SMVR(), "SMVR is for compositions of levels"),
        (lambda: lw.MeanDeviation(R), lw.NASA(), "NASA is for at most 2 levels, got 3"),
        (lambda: lw.MeanDeviation(R), lw.SMVR(radius=[1.0]), "radius must hold one number for each of 3 levels, got 1"),
        (lambda: lw.Composition([level(jacobian=None, vjp=mean_square)]), lw.SMVR(), "SMVR needs Jacobians.*use PMVR"),
        (lambda: lw.Composition([level(jacobian=None, vjp=mean_square)]), lw.NLASG(), "NLASG needs Jacobians or a jvp"),
    ],
)
def test_an_algorithm_that_cannot_do_a_problem_says_so(problem: Any, algorithm: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        lw.minimize(problem(), algorithm=algorithm)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"value": lambda u, index: np.zeros(2)}, r"value\(u, index\) must return an array of shape \(1,\).*for sample.*got shape \(2,\)"),
        ({"jacobian": lambda u, index: np.zeros((2, 3))}, r"jacobian\(u, index\).*shape \(1, 3\).*for sample.*got shape \(2, 3\)"),
        ({"value": lambda u, index: np.array([np.nan])}, r"value\(u, index\) must return finite numbers, got nan in entry 0 for sample"),
        ({"value": lambda u, index: "one"}, r"value\(u, index\) must return an array of shape \(1,\)"),
        ({"jacobian": None, "vjp": lambda u, v, index: np.zeros(1)}, r"vjp\(u, weights, index\).*shape \(3,\).*for sample.*shape \(1,\)"),
    ],
)  # fmt: skip
def test_a_wrong_answer_of_a_function_is_named_with_its_samples(changes: Any, message: str) -> None:
    problem = lw.Composition([level(**changes)])
    with pytest.raises(lw.OracleError, match=message):
        lw.minimize(problem, w0=np.ones(3), algorithm=lw.PMVR(batch=2, step=0.1), max_passes=5)


def test_an_exception_of_a_function_comes_back_unchanged() -> None:
    calls = [0]

    def value(u: Any, index: Any) -> Any:
        calls[0] += 1
        if calls[0] > 30:
            raise RuntimeError("enough")
        return mean_square(u, index)

    with pytest.raises(RuntimeError, match=r"^enough$") as caught:
        lw.minimize(lw.Composition([level(value=value)]), w0=np.ones(3), algorithm=lw.SMVR(2, step=0.01), max_passes=50)
    assert caught.value.result.status is lw.Status.INTERRUPTED  # type: ignore[attr-defined]


def test_functions_get_read_only_arrays() -> None:
    def value(u: Any, index: Any) -> Any:
        u[0] = 1.0
        return mean_square(u, index)

    with pytest.raises(ValueError, match="read-only"):
        level(value=value).value(np.zeros(3))


@pytest.mark.parametrize(
    "algorithm", [lw.SMVR(3, step=0.05), lw.PMVR(3), lw.NLASG(3, tau=0.1), lw.NestedSPIDER(3, period=7)]
)
def test_a_run_cut_by_a_checkpoint_has_the_bits_of_one_run(algorithm: Any, tmp_path: Path) -> None:
    problem, file = lw.MeanDeviation(R), lw.Checkpoint(tmp_path / "run", every=0.0)
    whole = lw.minimize(problem, algorithm=algorithm, max_passes=40, tol=0)
    lw.minimize(problem, algorithm=algorithm, max_passes=40, tol=0, checkpoint=file, callback=lambda s: s.passes > 15)
    rest = lw.minimize(problem, algorithm=algorithm, max_passes=40, tol=0, checkpoint=file)
    assert rest.x.tobytes() == whole.x.tobytes()
    assert (rest.counts, rest.nit, rest.samples) == (whole.counts, whole.nit, whole.samples)


@pytest.mark.parametrize("output", ["last", "random", "average"])
def test_bits_do_not_depend_on_threads_or_on_where_points_are_recorded(output: str) -> None:
    problem, algorithm = lw.MeanDeviation(R.astype(np.float32)), lw.SMVR(7, step=0.05, output=output)
    runs = [
        lw.minimize(problem, algorithm=algorithm, max_passes=30, threads=threads, trace=trace)
        for threads, trace in ((1, None), (2, "pass"), (3, 1))
    ]
    assert len({run.x.tobytes() for run in runs}) == 1


def test_outputs_are_a_drawn_iterate_and_the_mean_of_that_draw() -> None:
    problem, points = lw.MeanDeviation(R), []
    lw.minimize(
        problem, algorithm=lw.SMVR(7, step=0.05), max_passes=5, trace=1, callback=lambda s: points.append(s.w.copy())
    )
    points.append(lw.minimize(problem, algorithm=lw.SMVR(7, step=0.05), max_passes=5).x)
    random = lw.minimize(problem, algorithm=lw.SMVR(7, step=0.05, output="random"), max_passes=5)
    average = lw.minimize(problem, algorithm=lw.SMVR(7, step=0.05, output="average"), max_passes=5)
    assert any(np.array_equal(random.x, w) for w in points[1:])
    assert np.abs(average.x - np.mean(points[1:], axis=0)).max() < 1e-12


def test_a_guard_keeps_a_variance_positive_and_the_run_says_so() -> None:
    levels = twin.mean_deviation_levels(R, 0.2)
    result = lw.minimize(lw.MeanDeviation(R), algorithm=lw.SMVR(1, beta=0.9, step=0.5), max_passes=20, seed=3)
    reference = twin.SMVR(levels, twin.Settings(1, 1, 3, betas=[twin.power(0.9)]))
    from reference import updates as moves

    simplex = lw.Simplex()
    points = twin.run(reference, moves.Plain(lambda v, s: simplex.project(v)), np.full(4, 0.25), 0.5, result.nit)
    assert result.counts["guards"] == reference.counts.guards > 0
    assert np.abs(result.x - points[-1]).max() < 1e-9
    assert f"{result.counts['guards']} estimates were kept positive by their guard" in result.message


def test_a_portfolio_without_variance_is_finite() -> None:
    flat = np.tile([0.1, 0.3], (50, 1))
    result = lw.minimize(lw.MeanDeviation(flat), algorithm=lw.SMVR(4, step=1e-3), max_passes=50)
    assert np.isfinite(result.x).all()
    assert result.fun == pytest.approx(-(result.x @ [0.1, 0.3]), abs=1e-7)
    origin = lw.MeanDeviation(R).evaluate(np.zeros(4))
    assert np.isfinite([origin.value, *origin.gradient]).all()
    assert origin.guarded == 1


def test_exponentials_that_overflow_end_the_run_with_a_reason() -> None:
    tilt = lw.FunctionLevel(
        lambda u, index: np.exp(10.0 * (A[index] @ u)).mean(keepdims=True),
        lambda u, index: 10.0 * (np.exp(10.0 * (A[index] @ u)) @ A[index])[None, :] / len(index),
        inputs=3,
        outputs=1,
        size=20,
        keep=None,
    )
    problem = lw.Composition([tilt, lw.ElementwiseLevel("log", scale=0.1)])
    with np.errstate(over="ignore", invalid="ignore"), pytest.warns(lw.ConvergenceWarning):
        result = lw.minimize(problem, w0=np.ones(3), algorithm=lw.SMVR(2, step=1e4), max_passes=50)
    assert result.status in (lw.Status.NON_FINITE, lw.Status.DIVERGED)
    assert "the step is too large" in result.message or "exploded" in result.message
    assert np.isfinite(result.x).all()


def test_a_level_that_knows_itself_is_collected() -> None:
    class Mean:
        def __call__(self, u: Any, index: Any) -> Any:
            return mean_square(u, index)

    function = Mean()
    function.level = level(value=function)  # type: ignore[attr-defined]
    gone = weakref.ref(function)
    del function
    gc.collect()
    assert gone() is None


def test_problems_and_levels_are_picklable() -> None:
    problems = [
        lw.MeanDeviation(R, 0.3, l2=0.1),
        lw.Composition([level(keep=slice(0, 2)), lw.LinearLevel([[1.0, 2.0, 3.0]], [0.5]), lw.ElementwiseLevel("exp", scale=0.1)]),
        lw.Composition([lw.FiniteSumLevel(A, rows_square, rows_slope, inputs=3, outputs=1)]),
        lw.Composition([lw.FunctionLevel.from_vjp(joint_square, inputs=3, outputs=1, size=20)]),
    ]  # fmt: skip
    for problem in problems:
        w = np.full(problem.dim, 0.2)
        again = pickle.loads(pickle.dumps(problem))
        assert again.evaluate(w).value == problem.evaluate(w).value
        assert repr(again) == repr(problem)


def joint_square(u: Any, index: Any) -> Any:
    return mean_square(u, index), lambda v: mean_square_jacobian(u, index).T @ v


def rows_square(u: Any, a: Any) -> Any:
    return (a @ u)[:, None] ** 2


def rows_slope(u: Any, a: Any) -> Any:
    return (2 * (a @ u)[:, None] * a)[:, None, :]


def test_a_finite_sum_level_takes_the_mean_and_names_samples() -> None:
    rows = lw.FiniteSumLevel(A, rows_square, rows_slope, inputs=3, outputs=1)
    assert rows.value(np.ones(3)) == pytest.approx(level().value(np.ones(3)), rel=1e-14)
    check_level(rows)
    wrong = lw.FiniteSumLevel(A, lambda u, a: (a @ u) ** 2, rows_slope, inputs=3, outputs=1)
    with pytest.raises(lw.OracleError, match=r"value must return an array of shape \(2, 1\).*for samples 4, 9"):
        wrong.value(np.ones(3), index=[4, 9])


def test_a_function_with_its_pullback_is_called_once_a_point_and_draw() -> None:
    calls, pulls = [0], [0]

    def fun(u: Any, index: Any) -> Any:
        calls[0] += 1
        J = mean_square_jacobian(u, index)

        def pullback(weights: Any) -> Any:
            pulls[0] += 1
            return J.T @ weights

        return mean_square(u, index), pullback

    joint = lw.FunctionLevel.from_vjp(fun, inputs=3, outputs=1, size=20)
    apart = level(jacobian=None, vjp=lambda u, v, index: mean_square_jacobian(u, index).T @ v)
    check_level(joint)
    for algorithm in (lw.PMVR(2, step=0.05, beta=0.3), lw.SCSC(2, step=0.05), lw.ATSCGD(2, step=0.05)):
        log = lw.ElementwiseLevel("log")
        runs = [
            lw.minimize(lw.Composition([each, log]), w0=np.ones(3), algorithm=algorithm, max_passes=20, trace=None)
            for each in (joint, apart)
        ]
        assert runs[0].x.tobytes() == runs[1].x.tobytes()
    calls[0] = pulls[0] = 0
    one = lw.minimize(
        lw.Composition([joint]), w0=np.ones(3), algorithm=lw.PMVR(2, step=0.05), max_passes=20, trace=None
    )
    recorded = 3  # the objective at the start, at the end, and in the answer
    assert one.counts["products"] == one.counts["values"]
    assert calls[0] <= one.counts["values"] // 2 + recorded
    assert pulls[0] <= one.counts["products"] // 2 + recorded
    with pytest.raises(lw.OracleError, match=r"fun\(u, index\) must return \(value, pullback\).*got ndarray"):
        lw.FunctionLevel.from_vjp(mean_square, inputs=3, outputs=1, size=20).value(np.ones(3))


def test_check_level_accepts_right_levels() -> None:
    kept = level(keep=slice(1, 3))
    products = level(jacobian=None, vjp=lambda u, v, index: mean_square_jacobian(u, index).T @ v)
    for right in (
        level(),
        kept,
        products,
        lw.ElementwiseLevel("exp", 3),
        lw.LinearLevel(A[:2]),
        *lw.MeanDeviation(R).levels[:2],
    ):
        report = check_level(right)
        assert max(report.jacobian_error, report.product_error, report.batch_error) < 1e-5
    assert check_level(lw.MeanDeviation(R).levels[2], u=[2.0, 1.0]).samples == 1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"jacobian": lambda u, index: 1.001 * mean_square_jacobian(u, index)}, "jacobian is not the derivative of value"),
        ({"vjp": lambda u, v, index: 2 * mean_square_jacobian(u, index).T @ v}, "vjp is not the derivative of value"),
        ({"jvp": lambda u, v, index: 2 * mean_square_jacobian(u, index) @ v, "jacobian": None,
          "vjp": lambda u, v, index: mean_square_jacobian(u, index).T @ v}, "jvp is not the derivative of value"),
        ({"value": lambda u, index: mean_square(u, index) * len(index)}, "is not the mean of its samples' values"),
        ({"value": lambda u, index, seen=[0.0]: (seen.append(1.0), mean_square(u, index) + len(seen))[1]}, "value gave two answers"),
    ],
)  # fmt: skip
def test_check_level_finds(changes: Any, message: str) -> None:
    with pytest.raises(AssertionError, match=re.escape(message)):
        check_level(level(**changes))


def test_default_algorithms_reach_the_tolerance() -> None:
    result = lw.minimize(lw.MeanDeviation(R), tol=1e-3)
    assert result.success
    assert result.gap is not None
    assert result.gap <= 1e-3 * abs(result.fun)
    assert result.message.startswith("SMVR on all samples was chosen because the composition has few")
    many = np.random.default_rng(0).normal(0.1, 1.0, size=(20_000, 2))
    result = lw.minimize(lw.MeanDeviation(many), tol=2e-2)
    assert result.success
    assert result.message.startswith("SMVR was chosen because the problem is a composition")
    products = lw.Composition([level(jacobian=None, vjp=lambda u, v, index: mean_square_jacobian(u, index).T @ v)])
    assert lw.minimize(products, w0=np.ones(3), tol=1e-3).message.startswith("PMVR was chosen")


@pytest.mark.parametrize("domain", [lw.Box(0.0, 0.4), lw.L2Ball(0.5)])
def test_the_default_simplex_gives_way_to_a_domain(domain: lw.Domain) -> None:
    problem = lw.MeanDeviation(R, lam=0.01)
    result = lw.minimize(problem, domain=domain, algorithm=lw.SMVR(32, step=0.05), max_passes=100)
    assert np.abs(domain.project(result.x) - result.x).max() < 1e-12
    assert abs(result.x.sum() - 1.0) > 1e-3
    assert result.fun < problem.value(problem.start())


@pytest.mark.parametrize("problem", [lw.MeanDeviation(R), lw.Composition([level()])])
def test_a_step_is_tuned_on_compositions_too(problem: lw.Composition) -> None:
    w0 = np.full(problem.dim, 0.25)
    found = lw.tune(problem, lw.SMVR(8), steps=(1e-6, 1e-2, 0.1), passes=5, seeds=2, w0=w0, threads=2)
    assert found.step >= 1e-2
    assert found.objectives.max() < problem.value(w0)


def test_levels_draw_beyond_their_samples() -> None:
    seen: set[int] = set()

    def value(u: Any, index: Any) -> Any:
        seen.update(int(i) for i in index)
        return mean_square(u, index % 20)

    free = level(value=value, jacobian=lambda u, index: mean_square_jacobian(u, index % 20), population=2**40)
    lw.minimize(lw.Composition([free]), w0=np.ones(3), algorithm=lw.SMVR(2, step=0.01), max_passes=5)
    assert max(seen) > 2**30
