"""The native descent loops against their NumPy twins, and what must hold of draws, data layouts and threads."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import sparse

import leeward as lw
from reference import descent as twin

Vector = NDArray[np.float64]
N, D, BATCH, STEPS = 60, 5, 8, 40
RISKS = [
    lw.Mean(),
    lw.CVaR(0.3),
    lw.KL(penalty=0.5),
    lw.KL(radius=0.2),
    lw.ChiSquare(penalty=0.5),
    lw.ChiSquare(radius=0.5),
    lw.KLCVaR(0.3, 0.2),
    lw.SmoothedCVaR(0.3, 0.2),
    lw.CressieRead(1.5, penalty=0.5),
    lw.TotalVariation(0.3),
    lw.Tilted(1.5),
    lw.Worst(),
]


def make_data(seed: int = 0) -> tuple[Vector, Vector]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, D)) * (rng.random((N, D)) < 0.6)
    return X, np.sign(X @ rng.normal(size=D) + 0.3 * rng.normal(size=N) + 1e-9)


def make_problem(risk: lw.Risk, *, l2: float = 0.1, **settings: object) -> lw.Robust:
    X, y = make_data()
    return lw.Robust(lw.LinearModel(X, y, l2=l2, **settings), risk)  # type: ignore[arg-type]


def batch_gradient(problem: lw.Robust, estimator: lw.Minibatch, seed: int) -> Callable[[Vector, int], Vector]:
    """The estimator's direction plus the l2 term, from the same draws, by NumPy."""
    native = estimator.start(problem, seed)
    X, y = make_data()
    Z = np.column_stack([X, np.ones(N)])

    def gradient(w: Vector, t: int) -> Vector:
        index = np.arange(N) if (drawn := native.draw(t)) is None else drawn
        margin = y[index] * (Z[index] @ w)
        losses = np.logaddexp(0.0, -margin)
        base = None if estimator.replace or problem.base is None else problem.base[index]
        q = problem.risk.solve(losses, sample_weight=base).weights
        slopes = -y[index] / (1.0 + np.exp(margin))
        penalty = np.append(problem.l2 * w[:D], 0.0)
        return (q * slopes) @ Z[index] + penalty

    return gradient


def run(problem: lw.Robust, algorithm: lw.Algorithm, **settings: object) -> lw.Result:
    return lw.minimize(problem, algorithm=algorithm, max_passes=STEPS * BATCH / N, **settings)  # type: ignore[arg-type]


@pytest.mark.parametrize("risk", RISKS, ids=repr)
@pytest.mark.parametrize(("momentum", "nesterov"), [(0.0, False), (0.9, False), (0.9, True)])
@pytest.mark.parametrize("average", ["polynomial", "uniform", False])
def test_sgd_follows_its_numpy_twin(risk: lw.Risk, momentum: float, nesterov: bool, average: str | bool) -> None:
    problem, estimator = make_problem(risk), lw.Minibatch(BATCH)
    algorithm = (
        lw.Nesterov(estimator, step=0.05, form="momentum", momentum=momentum, average=average)
        if nesterov
        else lw.SGD(estimator, step=0.05, momentum=momentum, average=average)
    )
    result = run(problem, algorithm, seed=3)
    iterates = twin.sgd(
        np.zeros(D + 1), batch_gradient(problem, estimator, 3), result.nit, lambda t: 0.05, momentum, nesterov
    )
    wanted = iterates[-1] if average is False else twin.average(iterates, str(average))
    assert result.nit == STEPS
    np.testing.assert_allclose(result.x, wanted, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("risk", RISKS, ids=repr)
def test_acsa_follows_its_numpy_twin(risk: lw.Risk) -> None:
    problem, estimator = make_problem(risk), lw.Minibatch(BATCH)
    result = run(problem, lw.Nesterov(estimator, step=0.02), seed=4)
    iterates = twin.acsa(np.zeros(D + 1), batch_gradient(problem, estimator, 4), result.nit, lambda t: 0.02)
    np.testing.assert_allclose(result.x, iterates[-1], rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(
    "domain",
    [lw.Box(-0.1, 0.2), lw.Simplex(), lw.L1Ball(0.3), lw.L2Ball(0.2), lw.L1(0.05), lw.ElasticNet(0.02, 0.3)],
    ids=repr,
)
@pytest.mark.parametrize("form", ["sgd", "acsa"])
def test_domains_act_on_the_coefficients_as_in_the_twin(domain: lw.Domain, form: str) -> None:
    problem, estimator = make_problem(lw.CVaR(0.5)), lw.Minibatch(BATCH)
    start = np.zeros(D + 1)
    if domain.feasible_set:
        start[:D] = domain.project(start[:D])

    def prox(v: Vector, step: float) -> Vector:
        return np.append(domain.prox(v[:D], step), v[D])

    gradient = batch_gradient(problem, estimator, 0)
    if form == "sgd":
        result = run(problem, lw.SGD(estimator, step=0.1, average=False), domain=domain)
        wanted = twin.sgd(start, gradient, STEPS, lambda t: 0.1, prox=prox)[-1]
    else:
        result = run(problem, lw.Nesterov(estimator, step=0.02), domain=domain)
        wanted = twin.acsa(start, gradient, STEPS, lambda t: 0.02, prox=prox)[-1]
    np.testing.assert_allclose(result.x, wanted, rtol=1e-10, atol=1e-12)
    assert result.x[D] != 0.0  # the intercept is free


def test_the_sqrt_decay_follows_its_formula() -> None:
    problem, estimator = make_problem(lw.Mean()), lw.Minibatch(BATCH)
    result = run(problem, lw.SGD(estimator, step=0.2, decay="sqrt", average=False))
    period = -(-N // BATCH)
    iterates = twin.sgd(
        np.zeros(D + 1), batch_gradient(problem, estimator, 0), STEPS, lambda t: 0.2 / np.sqrt(1 + t / period)
    )
    np.testing.assert_allclose(result.x, iterates[-1], rtol=1e-10, atol=1e-12)


def test_weights_draw_rows_as_often_as_they_say() -> None:
    X, y = make_data()
    weight = np.where(np.arange(N) < 10, 3.0, 1.0)
    weight[-1] = 0.0
    problem = lw.Robust(lw.LinearModel(X, y, sample_weight=weight))
    native = lw.Minibatch(1000).start(problem, 0)
    drawn = np.concatenate([native.draw(t) for t in range(200)])
    counts = np.bincount(drawn, minlength=N)
    expected = weight / weight.sum() * len(drawn)
    assert counts[-1] == 0
    chi2 = np.sum((counts[:-1] - expected[:-1]) ** 2 / expected[:-1])
    assert chi2 < 110.0  # 58 degrees of freedom: chance 4e-5


def test_draws_depend_on_seed_and_step_and_repeat() -> None:
    problem = make_problem(lw.Mean())
    first, second = (lw.Minibatch(BATCH).start(problem, 1) for _ in range(2))
    assert np.array_equal(first.draw(7), second.draw(7))
    assert not np.array_equal(first.draw(7), second.draw(8))
    assert not np.array_equal(first.draw(7), lw.Minibatch(BATCH).start(problem, 2).draw(7))


def test_batches_without_replacement_hold_each_row_once_and_skip_zero_weights() -> None:
    X, y = make_data()
    weight = np.ones(N)
    weight[[3, 20]] = 0.0
    problem = lw.Robust(lw.LinearModel(X, y, sample_weight=weight))
    native = lw.Minibatch(50, replace=False).start(problem, 0)
    seen = np.zeros(N, dtype=int)
    for t in range(200):
        index = native.draw(t)
        assert len(np.unique(index)) == 50
        seen[index] += 1
    assert seen[3] == 0
    assert seen[20] == 0
    used = np.delete(seen, [3, 20])
    assert np.all(np.abs(used - 200 * 50 / 58) < 5.5 * np.sqrt(200 * (50 / 58) * (8 / 58)))


@pytest.mark.parametrize("n", [7, 20, 29, 57])
def test_reshuffled_batches_go_through_a_new_order_of_all_rows_in_each_sweep(n: int) -> None:
    """58 rows of positive weight: batches of 29 fill a sweep, the others end one and begin the next."""
    X, y = make_data()
    weight = 1.0 + np.arange(N) % 3
    weight[[3, 20]] = 0.0
    problem = lw.Robust(lw.LinearModel(X, y, sample_weight=weight), lw.CVaR(0.5))
    native = lw.Minibatch(n, replace=False, reshuffle=True).start(problem, 5)
    drawn = np.concatenate([native.draw(t) for t in range(58)]).reshape(n, 58)
    wanted = np.delete(np.arange(N), [3, 20])
    assert all(np.array_equal(np.sort(sweep), wanted) for sweep in drawn)
    assert len(np.unique(drawn, axis=0)) == n
    w, batch = np.linspace(-0.3, 0.3, D + 1), native.draw(30)
    q = problem.risk.solve(problem.oracle.losses(w, batch), sample_weight=weight[batch]).weights
    np.testing.assert_allclose(native.direction(w, 30)[0], problem.oracle.gradient(w, q, batch), rtol=1e-12, atol=1e-15)


def test_a_sweep_of_reshuffled_batches_has_the_mean_gradient() -> None:
    """At one w the errors of the batches of a sweep cancel, which independent batches do not."""
    problem = make_problem(lw.Mean())
    w = np.linspace(-0.3, 0.3, D + 1)
    exact = lw.Minibatch(N, replace=False).start(problem, 0).direction(w, 0)[0]
    for reshuffle, agree in ((True, True), (False, False)):
        native = lw.Minibatch(N // 6, replace=False, reshuffle=reshuffle).start(problem, 0)
        mean = np.mean([native.direction(w, t)[0] for t in range(6)], axis=0)
        assert np.allclose(mean, exact, rtol=1e-12, atol=1e-14) is agree


def test_reshuffling_says_what_it_cannot_do() -> None:
    with pytest.raises(ValueError, match="give replace=False as well"):
        lw.Minibatch(4, reshuffle=True)
    with pytest.raises(TypeError, match="reshuffle must be True or False, got 1"):
        lw.Minibatch(4, replace=False, reshuffle=1)  # type: ignore[arg-type]
    assert repr(lw.Minibatch(4, replace=False, reshuffle=True)) == "Minibatch(n=4, replace=False, reshuffle=True)"
    deviation = lw.MeanDeviation(np.random.default_rng(0).normal(size=(30, 3)), lam=0.2)
    with pytest.raises(ValueError, match="not supported by a composition"):
        deviation.minibatch(4, False, 0, reshuffle=True)


@pytest.mark.parametrize("risk", RISKS, ids=repr)
@pytest.mark.parametrize("weighted", [False, True])
def test_a_batch_of_all_rows_is_the_exact_gradient(risk: lw.Risk, weighted: bool) -> None:
    X, y = make_data()
    weight = np.arange(N, dtype=float) if weighted else None
    problem = lw.Robust(lw.LinearModel(X, y, sample_weight=weight), risk)
    w = np.linspace(-0.3, 0.3, D + 1)
    direction, value, cost, finite = lw.Minibatch(10 * N, replace=False).start(problem, 0).direction(w, 5)
    wanted = problem.evaluate(w)
    np.testing.assert_allclose(direction, wanted.gradient, rtol=1e-12, atol=1e-14)
    assert value == pytest.approx(wanted.value, rel=1e-12)
    assert (cost, finite) == (N - weighted, True)


def test_the_mean_of_directions_is_the_gradient_of_the_mean_risk() -> None:
    X, y = make_data()
    weight = 1.0 + np.arange(N) % 3
    problem = lw.Robust(lw.LinearModel(X, y, sample_weight=weight))
    w = np.linspace(-0.3, 0.3, D + 1)
    native = lw.Minibatch(BATCH).start(problem, 0)
    directions = np.array([native.direction(w, t)[0] for t in range(4000)])
    error = directions.mean(axis=0) - problem.evaluate(w).gradient
    assert np.all(np.abs(error) < 5.0 * directions.std(axis=0) / np.sqrt(4000))  # chance below 4e-6


def test_groups_are_drawn_equally_and_their_risk_is_that_of_group_means() -> None:
    X, y = make_data()
    groups = np.where(np.arange(N) < 3, 7, np.where(np.arange(N) < 20, -2, 4))
    problem = lw.Robust(lw.LinearModel(X, y), lw.CVaR(0.5), groups=groups)
    native = lw.Minibatch(12).start(problem, 0)
    w = np.linspace(-0.3, 0.3, D + 1)
    index = native.draw(0)
    assert [int(np.sum(groups[index] == g)) for g in (-2, 4, 7)] == [4, 4, 4]
    losses = problem.oracle.losses(w, index)
    shares = problem.risk.solve(losses.reshape(3, 4).mean(axis=1)).weights
    wanted = problem.oracle.gradient(w, np.repeat(shares, 4) / 4, index)
    np.testing.assert_allclose(native.direction(w, 0)[0], wanted, rtol=1e-12, atol=1e-15)


def test_fewer_draws_than_groups_take_one_sample_of_some_groups() -> None:
    X, y = make_data()
    groups = np.arange(N) // 2
    problem = lw.Robust(lw.LinearModel(X, y), groups=groups)
    native = lw.Minibatch(10).start(problem, 0)
    for t in range(20):
        assert len(np.unique(groups[native.draw(t)])) == 10


def test_groups_refuse_draws_without_replacement() -> None:
    X, y = make_data()
    problem = lw.Robust(lw.LinearModel(X, y), groups=np.arange(N) // 2)
    with pytest.raises(ValueError, match=r"replace=False\) is not supported with groups"):
        lw.minimize(problem, algorithm=lw.SGD(lw.Minibatch(4, replace=False)))


@pytest.mark.parametrize("risk", RISKS, ids=repr)
def test_dense_csr_and_single_precision_follow_one_path(risk: lw.Risk) -> None:
    X, y = make_data()
    X = X.astype(np.float32).astype(np.float64)  # exact in both precisions
    answers = []
    for data in (X, sparse.csr_array(X), X.astype(np.float32), sparse.csr_array(X.astype(np.float32))):
        problem = lw.Robust(lw.LinearModel(data, y, l2=0.1), risk)
        answers.append(run(problem, lw.SGD(lw.Minibatch(BATCH), step=0.05)).x)
    for x in answers[1:]:
        np.testing.assert_allclose(x, answers[0], rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize(
    "algorithm", [lw.SGD(lw.Minibatch(5000)), lw.Nesterov(lw.Minibatch(20000, replace=False))], ids=repr
)
def test_a_whole_fit_has_the_same_bits_for_any_number_of_threads(algorithm: lw.Algorithm) -> None:
    rng = np.random.default_rng(5)
    X = rng.normal(size=(20000, 12))
    y = np.sign(X[:, 0] + rng.normal(size=20000))
    problem = lw.Robust(lw.LinearModel(X, y, l2=1e-3), lw.ChiSquare(radius=1.0))
    results = [lw.minimize(problem, algorithm=algorithm, max_passes=6, threads=k) for k in (1, 2, 3)]
    for other in results[1:]:
        assert other.x.tobytes() == results[0].x.tobytes()
        assert other.trace.objective.tobytes() == results[0].trace.objective.tobytes()
        assert other.trace.gap.tobytes() == results[0].trace.gap.tobytes()


def test_a_users_oracle_follows_the_path_of_the_built_in_one() -> None:
    X, y = make_data()
    Z = np.column_stack([X, np.ones(N)])

    def losses(w: Vector, index: NDArray[np.int64]) -> Vector:
        return np.logaddexp(0.0, -y[index] * (Z[index] @ w))

    def gradient(w: Vector, weights: Vector, index: NDArray[np.int64]) -> Vector:
        return (-weights * y[index] / (1.0 + np.exp(y[index] * (Z[index] @ w)))) @ Z[index]

    own = lw.FunctionOracle(losses, gradient, N, D + 1, l2=0.1, penalised=D, convex=True)
    for algorithm in (
        lw.SGD(lw.Minibatch(BATCH), step=0.05, momentum=0.5),
        lw.Nesterov(lw.Minibatch(BATCH), step=0.05),
    ):
        mine = run(lw.Robust(own, lw.CVaR(0.3)), algorithm)
        theirs = run(make_problem(lw.CVaR(0.3)), algorithm)
        np.testing.assert_allclose(mine.x, theirs.x, rtol=1e-10, atol=1e-12)
