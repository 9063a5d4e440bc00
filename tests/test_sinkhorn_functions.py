"""Sinkhorn problems made of the user's functions: losses at points, references and costs."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import leeward as lw
from leeward.testing import check_oracle

RNG = np.random.default_rng(31)
N, D, M = 12, 3, 5
X = RNG.normal(size=(N, D))
Y = np.sign(X @ [1.0, -1.0, 0.5] + RNG.normal(size=N))
WEIGHT = np.linspace(0.5, 2.0, N)
W = 0.5 * RNG.normal(size=D + 1)
SETTINGS: dict[str, Any] = {"lam": 1.3, "entropy": 0.7, "draws": M}


def logistic(w: Any, points: Any, index: Any) -> Any:
    return np.logaddexp(0.0, -Y[index] * (points @ w[:-1] + w[-1]))


def slope(w: Any, weights: Any, points: Any, index: Any) -> Any:
    z = Y[index] * (points @ w[:-1] + w[-1])
    s = -weights * Y[index] / (1.0 + np.exp(z))
    return np.append(s @ points, s.sum())


def own(**settings: Any) -> lw.PointOracle:
    usual: dict[str, Any] = {"l2": 0.1, "penalised": D, "convex": True, "sample_weight": WEIGHT}
    return lw.PointOracle(logistic, slope, X, D + 1, **(usual | settings))


def linear() -> lw.LinearModel:
    return lw.LinearModel(X, Y, l2=0.1, sample_weight=WEIGHT)


def moved(rows: Any, draws: lw.Draws) -> Any:
    return rows + 0.3 * draws.normal(D)


def far(rows: Any, points: Any) -> Any:
    return np.abs(points - rows).sum(axis=1)


def test_by_itself_it_is_the_oracle_of_the_rows() -> None:
    oracle, other = own(), linear()
    check_oracle(oracle)
    np.testing.assert_allclose(oracle.losses(W), other.losses(W), rtol=1e-13)
    index = np.array([3, 3, 0])
    np.testing.assert_allclose(oracle.gradient(W, [1.0, 2.0, -1.0], index), other.gradient(W, [1.0, 2.0, -1.0], index))
    assert lw.minimize(lw.Robust(oracle, lw.ChiSquare(radius=0.5)), tol=1e-9).fun == pytest.approx(
        lw.minimize(lw.Robust(other, lw.ChiSquare(radius=0.5)), tol=1e-9).fun, rel=1e-8
    )
    assert oracle.n_features == D
    np.testing.assert_array_equal(oracle.rows([2]), X[2:3])


@pytest.mark.parametrize("divergence", ["kl", "chi2", lw.divergences.CressieRead(3.0)], ids=str)
@pytest.mark.parametrize(
    "arguments", [{}, {"reference": "laplace", "cost": "l1"}, {"noise": np.eye(D), "bounds": (-1, 1)}], ids=str
)
def test_own_losses_have_the_answers_of_the_linear_model_they_are(divergence: Any, arguments: Any) -> None:
    one = lw.Sinkhorn(own(), divergence, common=True, **SETTINGS, **arguments)
    other = lw.Sinkhorn(linear(), divergence, common=True, **SETTINGS, **arguments)
    a, b = one.evaluate(W), other.evaluate(W)
    assert a.value == pytest.approx(b.value, rel=1e-13)
    np.testing.assert_allclose(a.losses, b.losses, rtol=1e-12)
    np.testing.assert_allclose(a.gradient, b.gradient, rtol=1e-11, atol=1e-14)
    np.testing.assert_allclose(one.worst_case(W), other.worst_case(W), rtol=1e-11, atol=1e-14)
    np.testing.assert_array_equal(one.points()[0], other.points()[0])
    np.testing.assert_array_equal(one.costs(), other.costs())
    assert one.recentre == other.recentre
    for nested in (lw.NestedSGD(4), lw.NestedSGD(4, inner="sgd")):
        x, y = (nested._estimator().start(problem, 3).direction(W, 2)[0] for problem in (one, other))
        np.testing.assert_allclose(x, y, rtol=1e-11, atol=1e-14)
    best = lw.minimize(other, tol=1e-9).fun
    assert lw.minimize(one, tol=1e-6).fun == pytest.approx(best, rel=1e-6)
    assert lw.minimize(one, algorithm=lw.SVRG(), max_passes=40).fun == pytest.approx(best, rel=3e-2)


@pytest.mark.parametrize("model", [own, linear])
@pytest.mark.parametrize("cost", ["sqeuclidean", "euclidean", "l1", "linf"])
def test_functions_for_the_reference_and_the_cost_say_what_the_built_in_ones_do(model: Any, cost: str) -> None:
    built_in = lw.Sinkhorn(linear(), "chi2", cost=cost, cost_scale=0.7, common=True, **SETTINGS)
    x, costs = built_in.points()[0], built_in.costs()

    def looked_up(rows: Any, draws: lw.Draws) -> Any:
        np.testing.assert_array_equal(rows, X[draws.index // M])
        return x[draws.index]

    def asked(rows: Any, points: Any) -> Any:
        norms = {"euclidean": 2, "l1": 1, "linf": np.inf}
        move = points - rows
        return np.sum(move**2, axis=1) if cost == "sqeuclidean" else np.linalg.norm(move, norms[cost], axis=1)

    wanted = built_in.evaluate(W)
    for arguments in ({"reference": looked_up, "cost": cost}, {"cost": asked}, {"reference": looked_up, "cost": asked}):
        problem = lw.Sinkhorn(model(), "chi2", cost_scale=0.7, common=True, **SETTINGS, **arguments)
        assert not problem.exact
        assert not problem.recentre
        np.testing.assert_allclose(problem.costs(), costs, rtol=1e-13)
        made = problem.evaluate(W)
        np.testing.assert_allclose(made.losses, wanted.losses, rtol=1e-12)
        np.testing.assert_allclose(made.gradient, wanted.gradient, rtol=1e-11, atol=1e-14)


def test_points_are_values_of_their_numbers_and_stay_in_bounds() -> None:
    problem = lw.Sinkhorn(linear(), "chi2", reference=moved, bounds=(-0.5, 0.5), **SETTINGS)
    x, y = problem.points()
    some = np.array([7, 3, 59, 7])
    np.testing.assert_array_equal(problem.points(some)[0], x[some])
    assert np.abs(x).max() == 0.5
    np.testing.assert_array_equal(y, np.repeat(Y, M))
    fresh = problem.points(some + N * M)[0]
    assert not np.array_equal(fresh, x[some])
    other = lw.Sinkhorn(linear(), "chi2", reference=moved, seed=1, **SETTINGS).points()[0]
    assert not np.array_equal(other, x)


def test_labels_are_moved_at_a_price_beside_functions() -> None:
    base = lw.LinearModel(X, Y, "squared")
    problem = lw.Sinkhorn(base, "chi2", reference=moved, cost=far, label_noise=0.4, label_cost=2.0, **SETTINGS)
    x, y = problem.points()
    np.testing.assert_allclose(
        problem.costs(), far(np.repeat(X, M, axis=0), x) + 2.0 * (y - np.repeat(Y, M)) ** 2, rtol=1e-12
    )
    assert 0.2 < np.std(y - np.repeat(Y, M)) < 0.6


@pytest.mark.parametrize("make", [own, linear])
def test_runs_repeat_resume_and_reach_the_optimum(make: Any, tmp_path: Any) -> None:
    problem = lw.Sinkhorn(make(), "chi2", reference=moved, cost=far, common=True, **SETTINGS)
    best = lw.minimize(problem)
    assert best.success
    assert type(best.algorithm).__name__ == "LBFGS"
    fresh = lw.Sinkhorn(make(), "chi2", reference=moved, cost=far, **SETTINGS)
    algorithm = lw.NestedSGD(4)
    whole = lw.minimize(fresh, algorithm=algorithm, max_passes=12)
    assert whole.fun < fresh.value(np.zeros(D + 1))
    for stop in (5, 10**9):
        cut = lw.minimize(
            fresh,
            algorithm=algorithm,
            max_passes=12,
            checkpoint=tmp_path / "run",
            callback=lambda state, stop=stop: state.step >= stop,  # type: ignore[misc]
        )
    np.testing.assert_array_equal(cut.x, whole.x)
    again = lw.minimize(pickle.loads(pickle.dumps(fresh)), algorithm=algorithm, max_passes=12)
    np.testing.assert_array_equal(again.x, whole.x)


def test_a_ball_takes_functions_too() -> None:
    ball = lw.SinkhornBall(own(), "chi2", radius=1.5, cost=far, draws=M)
    other = lw.SinkhornBall(linear(), "chi2", radius=1.5, cost="l1", draws=M)
    assert ball.value(W) == pytest.approx(other.value(W), rel=1e-9)
    np.testing.assert_allclose(ball.evaluate(W).gradient, other.evaluate(W).gradient, rtol=1e-6)


def test_a_convex_problem_with_all_coordinates_penalised_is_certified() -> None:
    problem = lw.Sinkhorn(own(penalised=D + 1), "kl", common=True, **SETTINGS)
    result = lw.minimize(problem, tol=1e-8)
    assert result.gap is not None
    assert result.gap <= 1e-8 * result.fun
    assert lw.minimize(lw.Sinkhorn(own(), "kl", common=True, **SETTINGS)).gap is None


class MineError(Exception):
    pass


def raises(*_: Any) -> Any:
    raise MineError("mine")


@pytest.mark.parametrize("where", ["losses", "gradient", "reference", "cost"])
def test_exceptions_come_back_unchanged(where: str) -> None:
    functions = {"losses": logistic, "gradient": slope, "reference": moved, "cost": far} | {where: raises}
    oracle = lw.PointOracle(functions["losses"], functions["gradient"], X, D + 1)
    problem = lw.Sinkhorn(oracle, "chi2", reference=functions["reference"], cost=functions["cost"], **SETTINGS)
    with pytest.raises(MineError, match="mine"):
        problem.evaluate(W)
    with pytest.raises(MineError, match="mine"):
        lw.minimize(problem, algorithm=lw.NestedSGD(4), max_passes=2)


@pytest.mark.parametrize(
    ("where", "answer", "words"),
    [
        ("losses", lambda w, x, i: np.zeros(3), r"losses\(w, points, index\) must return an array of shape \(60,\), .* got shape \(3,\)"),
        ("losses", lambda w, x, i: "many", r"losses\(w, points, index\) must return .* got an array of dtype <U4"),
        ("losses", lambda w, x, i: np.where(i == 4, np.nan, 0.0), r"got nan for a point of sample 4 \(position 20\)"),
        ("gradient", lambda w, q, x, i: np.zeros(2), r"gradient\(w, weights, points, index\) must return an array of shape \(4,\)"),
        ("gradient", lambda w, q, x, i: np.full(4, np.nan), r"got nan \(position 0\)"),
        ("reference", lambda x, draws: x[:, :2], r"reference\(rows, draws\) must return an array of shape \(60, 3\).* got shape \(60, 2\)"),
        ("reference", lambda x, draws: x * np.nan, r"got nan for a point of sample 0 \(position \(0, 0\)\)"),
        ("cost", lambda x, y: 1.0, r"cost\(rows, points\) must return an array of shape \(60,\), one cost for each point; got shape \(\)"),
        ("cost", lambda x, y: np.full(len(x), -1.0), r"cost\(rows, points\) must not be negative, got -1.0 for a point of sample 0"),
        ("cost", lambda x, y: np.ma.ones(len(x)), r"got a masked array"),
        ("cost", lambda x, y: [object()] * len(x), r"got an object of type list"),
        ("cost", lambda x, y: [[1.0], [1.0, 2.0]], r"got an object of type list"),
    ],
)  # fmt: skip
def test_wrong_answers_are_named_with_their_samples(where: str, answer: Any, words: str) -> None:
    functions: dict[str, Any] = {"losses": logistic, "gradient": slope, "reference": moved, "cost": far} | {
        where: answer
    }
    oracle = lw.PointOracle(functions["losses"], functions["gradient"], X, D + 1)
    problem = lw.Sinkhorn(oracle, "chi2", reference=functions["reference"], cost=functions["cost"], **SETTINGS)
    with pytest.raises(lw.OracleError, match=words):
        problem.evaluate(W)


def test_infinite_losses_are_a_step_that_is_too_large() -> None:
    def losses(w: Any, points: Any, index: Any) -> Any:
        return np.full(len(index), np.inf if w[0] > 1.0 else 1.0)

    problem = lw.Sinkhorn(lw.PointOracle(losses, slope, X, D + 1), "chi2", **SETTINGS)
    with pytest.raises(lw.InfiniteError, match="got inf for a point of sample 0"):
        problem.evaluate([2.0, 0.0, 0.0, 0.0])
    assert problem.evaluate_if_finite(np.array([2.0, 0.0, 0.0, 0.0])) is None


def test_arguments_are_checked() -> None:
    for arguments, kind, words in [
        ((None, slope, X, 4), TypeError, "losses must be callable, got NoneType"),
        ((logistic, None, X, 4), TypeError, "gradient must be callable, got NoneType"),
        ((logistic, slope, X[0], 4), ValueError, r"X must have shape \(n, d\), one sample a row, got shape \(3,\)"),
        ((logistic, slope, X * np.nan, 4), ValueError, "X must hold finite numbers"),
        ((logistic, slope, X, 0), ValueError, "dim must be at least 1, got 0"),
    ]:
        with pytest.raises(kind, match=words):
            lw.PointOracle(*arguments)  # type: ignore[arg-type]
    with pytest.raises(
        ValueError, match=r"noise is for named references; scale the points in your function instead, got noise=0\.1"
    ):
        lw.Sinkhorn(own(), reference=moved, noise=0.1)
    with pytest.raises(ValueError, match="label_noise needs a loss of real labels such as 'squared'"):
        lw.Sinkhorn(own(), label_noise=0.1)
    with pytest.raises(ValueError, match="exact=True needs one linear score"):
        lw.Sinkhorn(own(), exact=True)
    with pytest.raises(ValueError, match="exact=True needs one linear score"):
        lw.Sinkhorn(linear(), cost=far, exact=True)
    with pytest.raises(TypeError, match="oracle must be a LinearModel or a PointOracle, got FunctionOracle"):
        lw.Sinkhorn(lw.FunctionOracle(lambda w, i: i, lambda w, q, i: w, 3, 1))  # type: ignore[arg-type]


def test_arguments_of_the_functions_are_read_only() -> None:
    def writes(rows: Any, draws: lw.Draws) -> Any:
        rows += 1.0
        return rows

    def overwrites(rows: Any, points: Any) -> Any:
        points *= 0.0
        return points[:, 0]

    for arguments in ({"reference": writes}, {"cost": overwrites}):
        with pytest.raises(ValueError, match="read-only"):
            lw.Sinkhorn(linear(), "chi2", **SETTINGS, **arguments).evaluate(W)  # type: ignore[arg-type]


def test_many_points_are_made_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    from leeward.problems import _drawn

    whole = lw.Sinkhorn(own(), "chi2", reference=moved, cost=far, **SETTINGS).evaluate(W)
    sizes: list[int] = []
    for number, rare in ((D * 7, 10**9), (D * 7, 1)):
        monkeypatch.setattr(_drawn, "_NUMBERS", number)
        monkeypatch.setattr(_drawn, "_RARE", rare)

        def counted(rows: Any, draws: lw.Draws) -> Any:
            sizes.append(len(rows))
            return moved(rows, draws)

        made = lw.Sinkhorn(own(), "chi2", reference=counted, cost=far, **SETTINGS).evaluate(W)
        np.testing.assert_allclose(made.losses, whole.losses, rtol=1e-14)
        np.testing.assert_allclose(made.gradient, whole.gradient, rtol=1e-13)
    assert max(sizes) == 7


@pytest.mark.parametrize("name", ["convex", "smooth"])
def test_what_a_user_states_of_the_losses_is_true_or_false(name: str) -> None:
    with pytest.raises(TypeError, match=f"{name} must be True or False, got 'no'"):
        lw.PointOracle(lambda w, p, i: p[:, 0], lambda w, q, p, i: w, np.ones((2, 1)), 1, **{name: "no"})  # type: ignore[arg-type]
