"""SVRG, SCSG, SARAH and STORM against their NumPy twins on the same draws, and what must hold of their counts and draws."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import optimize, sparse

import leeward as lw
from reference import finite_sums as twin
from reference import updates

Vector = NDArray[np.float64]
Index = NDArray[np.int64]
N, D, STEP, SEED = 40, 5, 0.05, 11
LOSSES = [
    "squared",
    lw.losses.Huber(0.7),
    "absolute",
    lw.losses.Quantile(0.3),
    "logistic",
    "softmax",
    "hinge",
    "squared_hinge",
    "poisson",
]


def make_data(loss: Any) -> tuple[Vector, Any]:
    rng = np.random.default_rng(3)
    X = rng.normal(size=(N, D)) * (rng.random((N, D)) < 0.6)
    score = X @ rng.normal(size=D) + 0.3 * rng.normal(size=N)
    name = loss if isinstance(loss, str) else ""
    if name == "softmax":
        return X, np.digitize(score, [-0.5, 0.5]).astype(float)
    if name == "poisson":
        return 0.3 * X, np.round(np.exp(0.5 * score))
    return X, np.sign(score + 1e-9) if name in ("logistic", "hinge", "squared_hinge") else score


def make_model(loss: Any = "logistic", layout: str = "dense", **settings: Any) -> lw.LinearModel:
    X, y = make_data(loss)
    data = sparse.csr_array(X) if layout == "csr" else X
    return lw.LinearModel(data, y.astype(int) if loss == "softmax" else y, loss=loss, l2=0.1, **settings)


def sum_of(model: lw.LinearModel) -> twin.FiniteSum:
    """The twin's view of a model: its own NumPy gradients from dense rows and the slopes of single samples."""
    rows, C = model.rows(np.arange(N)), model.n_outputs
    Z = np.column_stack([rows, np.ones(N)])

    def gradient(w: Vector, index: Index, weights: Vector) -> Vector:
        slopes = model.slopes(w, index).reshape(len(index), C)
        full = (weights[:, None] * slopes).T @ Z[index]  # (C, d + 1)
        return np.concatenate([full[:, :D].ravel(), full[:, D]])

    return twin.FiniteSum(gradient, N, model.sample_weight, model.l2, model.penalised)


SCHEMES: dict[str, tuple[Any, twin.Rule]] = {
    "scsg": (lw.SCSG(16, 4, step=STEP), twin.Rule(16, 4)),
    "scsg b=1": (lw.SCSG(8, 1, step=STEP), twin.Rule(8, 1)),
    "scsg theory": (lw.SCSG(16, 2, step=STEP, exponent=2 / 3), twin.Rule(16, 2, exponent=2 / 3)),
    "scsg growing": (lw.SCSG("growing", 0.25, step=STEP), twin.Rule("growing", 0.25)),
    "scsg doubling": (lw.SCSG("doubling", 8, step=STEP), twin.Rule("doubling", 8, first=256)),
    "scsg mean": (lw.SCSG(16, 5, inner="mean", step=STEP), twin.Rule(16, 5, "mean")),
    "scsg slices": (lw.SCSG(16, 5, inner="slices", step=STEP), twin.Rule(16, 5, "slices")),
    "svrg": (lw.SVRG(4, step=STEP), twin.Rule(N, 4, "mean")),
    "svrg length": (lw.SVRG(4, inner_steps=7, step=STEP), twin.Rule(N, 4, 7)),
    "svrg geometric": (lw.SVRG(4, inner_steps="geometric", step=STEP), twin.Rule(N, 4, "geometric")),
    "svrg loopless": (lw.SVRG(4, loopless=True, step=STEP), twin.Rule(N, 4, "loopless", chance=0.1)),
}


def check_scheme(
    model: lw.LinearModel, algorithm: lw.Algorithm, rule: twin.Rule, make_update: Callable[[], Any], **run: Any
) -> None:
    """All steps of the twin's stages, to 1e-12, and the counts exactly."""
    f, start = sum_of(model), np.zeros(model.dim)
    path = twin.snapshot(start, f, rule, make_update(), STEP, 5, SEED)
    while path.stages[-1][2] == 0:  # a run ends with a step
        path.count(1, -path.stages.pop()[0])
    seen: list[Vector] = []
    result = lw.minimize(
        model,
        algorithm=algorithm,
        seed=SEED,
        trace="step",
        callback=lambda s: seen.append(s.w),
        max_passes=path.gradients / N,
        **run,
    )
    assert result.nit == len(path.iterates)
    for mine, wanted in zip(seen[1:], path.iterates, strict=False):
        np.testing.assert_allclose(mine, wanted, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(result.x, path.iterates[-1], rtol=1e-12, atol=1e-12)
    assert result.njev == path.gradients
    assert result.samples == path.samples
    assert result.nfev == 0


UPDATES: dict[str, tuple[lw.algorithms.Update, Callable[..., Any]]] = {
    "plain": (lw.Plain(), updates.Plain),
    "momentum": (lw.Momentum(0.8), lambda **k: updates.Momentum(0.8, False, **k)),
    "nesterov": (lw.NesterovMomentum(0.8), lambda **k: updates.Momentum(0.8, True, **k)),
    "normalized": (lw.Normalized(0.8), lambda **k: updates.Normalized(0.8, **k)),
    "adagrad": (lw.AdaGrad(delta=1e-3), lambda **k: updates.AdaGrad(delta=1e-3, **k)),
    "adagrad mean": (lw.AdaGrad(delta=1e-3, mean=True), lambda **k: updates.AdaGrad(True, delta=1e-3, **k)),
    "adam": (lw.Adam(0.5, 0.9, delta=1e-3), lambda **k: updates.Adam(0.5, 0.9, delta=1e-3, **k)),
    "adam without momentum": (lw.Adam(0.0, 0.9, delta=1e-3), lambda **k: updates.Adam(0.0, 0.9, delta=1e-3, **k)),
    "amsgrad": (lw.AMSGrad(0.5, 0.9, delta=1e-3), lambda **k: updates.AMSGrad(0.5, 0.9, delta=1e-3, **k)),
    "adabound": (
        lw.AdaBound(0.5, 0.9, delta=1e-3, lower=2.0, upper=6.0),
        lambda **k: updates.AdaBound(2.0, 6.0, momentum=0.5, memory=0.9, delta=1e-3, **k),
    ),
}
DOMAINS = [lw.Box(-0.1, 0.05), lw.Simplex(), lw.L1Ball(0.2), lw.L2Ball(0.1), lw.L1(0.05), lw.ElasticNet(0.02, 0.3)]


@pytest.mark.parametrize("layout", ["dense", "csr"])
@pytest.mark.parametrize("loss", LOSSES, ids=str)
@pytest.mark.parametrize("name", UPDATES)
@pytest.mark.parametrize("scheme", ["scsg", "scsg b=1", "svrg"])
def test_stages_follow_the_twin_for_every_loss_and_update(loss: Any, layout: str, name: str, scheme: str) -> None:
    update, make_twin = UPDATES[name]
    algorithm, rule = SCHEMES[scheme]
    check_scheme(make_model(loss, layout), replace(algorithm, update=update), rule, make_twin)


@pytest.mark.parametrize("layout", ["dense", "csr"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_stages_follow_the_twin_for_every_rule_and_base_weights(scheme: str, weighted: bool, layout: str) -> None:
    weight = np.arange(N) % 4 if weighted else None
    check_scheme(make_model(layout=layout, sample_weight=weight), *SCHEMES[scheme], updates.Plain)


@pytest.mark.parametrize("domain", DOMAINS, ids=repr)
@pytest.mark.parametrize("name", UPDATES)
def test_domains_act_in_the_metric_of_every_update(domain: lw.Domain, name: str) -> None:
    update, make_twin = UPDATES[name]
    model = make_model()

    def prox(v: Vector, rate: Vector) -> Vector:
        return np.append(metric_prox(domain, v[:D], rate[:D]), v[D:])

    start = np.zeros(D + 1)
    if domain.feasible_set:
        start[:D] = domain.project(start[:D])
    path = twin.snapshot(start, sum_of(model), twin.Rule(16, 4), make_twin(prox=prox), STEP, 3, SEED)
    algorithm = lw.SCSG(16, 4, step=STEP, update=update)
    result = lw.minimize(model, algorithm=algorithm, seed=SEED, max_passes=path.gradients / N, domain=domain)
    np.testing.assert_allclose(result.x, path.iterates[-1], rtol=1e-9, atol=1e-9)
    assert result.x[D] != 0.0  # the intercept is free


@pytest.mark.parametrize("layout", ["dense", "csr"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", ["plain", "adam"])
def test_sarah_and_storm_follow_their_twins(name: str, weighted: bool, layout: str) -> None:
    weight = np.arange(N) % 4 if weighted else None
    model, (update, make_twin) = make_model(layout=layout, sample_weight=weight), UPDATES[name]
    f, start = sum_of(model), np.zeros(D + 1)
    paths = {
        lw.SARAH(inner_batch=4, step=STEP, update=update): twin.spider(
            start, f, twin.Rule(N, 4, "mean"), make_twin(), STEP, 3, SEED
        ),
        lw.SARAH(20, 3, inner_steps=5, step=STEP, update=update): twin.spider(
            start, f, twin.Rule(20, 3, 5), make_twin(), STEP, 6, SEED
        ),
        lw.STORM(5, 0.3, step=STEP, update=update): twin.storm(
            start, f, 5, 17, lambda t: 0.3, make_twin(), STEP, 30, SEED
        ),
        lw.STORM(1, 0.3, step=STEP, update=update): twin.storm(
            start, f, 1, 4, lambda t: 0.3, make_twin(), STEP, 30, SEED
        ),
    }
    for algorithm, path in paths.items():
        result = lw.minimize(model, algorithm=algorithm, seed=SEED, max_passes=path.gradients / N)
        np.testing.assert_allclose(result.x, path.iterates[-1], rtol=1e-12, atol=1e-12)
        assert (result.nit, result.njev, result.samples) == (len(path.iterates), path.gradients, path.samples)


def test_the_decay_of_storm_is_that_of_its_formula() -> None:
    model, n = make_model(), N
    period = -(-n // 8)

    def beta(t: int) -> float:
        return 0.5 / (1.0 + t / period)

    class Decaying(updates.Plain):
        def __call__(self, w: Vector, g: Vector, step: float, t: int) -> Vector:
            return super().__call__(w, g, step / np.sqrt(1.0 + t / period), t)

    path = twin.storm(np.zeros(D + 1), sum_of(model), 4, 8, beta, Decaying(), STEP, 25, SEED)
    algorithm = lw.STORM(4, 0.5, step=STEP, decay="sqrt")
    result = lw.minimize(model, algorithm=algorithm, seed=SEED, max_passes=path.gradients / N)
    np.testing.assert_allclose(result.x, path.iterates[-1], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("scheme", ["scsg", "scsg theory", "scsg growing", "svrg geometric"])
def test_random_and_averaged_outputs_are_those_of_the_twin(scheme: str) -> None:
    model, (algorithm, rule) = make_model(), SCHEMES[scheme]
    start = np.zeros(D + 1)
    path = twin.snapshot(start, sum_of(model), rule, updates.Plain(), STEP, 9, SEED)
    while path.stages[-1][2] == 0:
        path.count(1, -path.stages.pop()[0])
    budget = path.gradients / N
    drawn = lw.minimize(model, algorithm=replace(algorithm, output="random"), seed=SEED, max_passes=budget)
    mean = lw.minimize(model, algorithm=replace(algorithm, output="average"), seed=SEED, max_passes=budget)
    np.testing.assert_allclose(drawn.x, twin.chosen_output(path.ends, start, SEED), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(mean.x, twin.mean_output(path.ends), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("output", ["random", "average"])
def test_outputs_of_recursive_methods_choose_among_all_steps(output: str) -> None:
    model, start = make_model(), np.zeros(D + 1)
    path = twin.storm(start, sum_of(model), 5, 17, lambda t: 0.3, updates.Plain(), STEP, 30, SEED)
    algorithm = lw.STORM(5, 0.3, step=STEP, output=output)
    result = lw.minimize(model, algorithm=algorithm, seed=SEED, max_passes=path.gradients / N)
    wanted = twin.chosen_output(path.ends, start, SEED) if output == "random" else twin.mean_output(path.ends)
    np.testing.assert_allclose(result.x, wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    "algorithm",
    [
        lw.SCSG(16, 4, step=STEP),
        lw.SCSG(16, 5, inner="slices", step=STEP),
        lw.SVRG(4, step=STEP),
        lw.SARAH(20, 4, step=STEP),
        lw.STORM(4, step=STEP),
    ],
    ids=repr,
)
@pytest.mark.parametrize("kind", ["functions", "vjp"])
def test_a_users_oracle_follows_the_path_of_the_built_in_one(algorithm: lw.Algorithm, kind: str) -> None:
    X, y = make_data("logistic")
    Z = np.column_stack([X, np.ones(N)])

    def losses(w: Vector, index: Index) -> Vector:
        return np.logaddexp(0.0, -y[index] * (Z[index] @ w))

    def gradient(w: Vector, weights: Vector, index: Index) -> Vector:
        return (-weights * y[index] / (1.0 + np.exp(y[index] * (Z[index] @ w)))) @ Z[index]

    shape = {"size": N, "dim": D + 1, "l2": 0.1, "penalised": D, "convex": True}
    if kind == "functions":
        own: lw.Oracle = lw.FunctionOracle(losses, gradient, **shape)
    else:
        own = lw.from_vjp(lambda w, i: (losses(w, i), lambda weights: gradient(w, weights, i)), **shape)
    mine = lw.minimize(own, algorithm=algorithm, max_passes=6)
    theirs = lw.minimize(make_model(), algorithm=algorithm, max_passes=6)
    assert mine.njev == theirs.njev
    np.testing.assert_allclose(mine.x, theirs.x, rtol=1e-10, atol=1e-12)


def metric_prox(domain: lw.Domain, v: Vector, rate: Vector) -> Vector:
    """argmin_u h(u) + sum (u - v)^2 / (2 rate) by a root of the multiplier where the coordinates mix."""
    if domain.separable:
        one = [domain.prox(np.full(D, v[j]), float(rate[j]))[j] for j in range(D)]
        return np.array(one)
    shape: Callable[[float], Vector]
    if isinstance(domain, lw.Simplex):
        shape, excess = (lambda t: np.maximum(v - t * rate, 0.0)), (lambda u: u.sum() - domain.total)
    elif isinstance(domain, lw.L1Ball):
        if np.abs(v).sum() <= domain.radius:
            return v
        shape = lambda t: np.sign(v) * np.maximum(np.abs(v) - t * rate, 0.0)  # noqa: E731
        excess = lambda u: np.abs(u).sum() - domain.radius  # noqa: E731
    else:
        assert isinstance(domain, lw.L2Ball)
        radius = domain.radius
        if np.linalg.norm(v) <= radius:
            return v
        shape, excess = (lambda t: v / (1.0 + t * rate)), (lambda u: np.linalg.norm(u) - radius)
    low, high = -1e3, 1e6
    if not isinstance(domain, lw.Simplex):
        low = 0.0
    root = optimize.brentq(lambda t: float(excess(shape(t))), low, high, xtol=1e-14, rtol=1e-14, maxiter=1000)
    return shape(root)
