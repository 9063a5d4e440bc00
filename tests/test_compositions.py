"""Compositions against their NumPy twins: all iterates on the same draws, work, projections, updates, domains."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import leeward as lw
from reference import compositions as twin
from reference import updates as moves

Vector = NDArray[np.float64]
TOL = 1e-12
STEPS = 40
SIZES = {1: [4, 1], 2: [4, 3, 1], 3: [4, 3, 2, 1], 4: [4, 3, 3, 2, 1], 5: [4, 3, 3, 2, 2, 1], 6: [4, 3, 3, 2, 2, 2, 1]}


def function_level(level: twin.Level, inputs: int, outputs: int, products: bool = False) -> lw.FunctionLevel:
    """The twin's level, asked through Python functions."""
    settings: dict[str, Any] = {"inputs": inputs, "outputs": outputs, "size": level.size}
    if products:
        settings["vjp"] = lambda u, weights, index: level.jacobian(u, index).T @ weights
        settings["jvp"] = lambda u, direction, index: level.jacobian(u, index) @ direction
        return lw.FunctionLevel(level.value, **settings)
    return lw.FunctionLevel(level.value, level.jacobian, **settings)


def composition(levels: list[twin.Level], sizes: list[int], products: bool = False, l2: float = 0.0) -> lw.Composition:
    pairs = zip(levels, sizes[:-1], sizes[1:], strict=True)
    return lw.Composition([function_level(level, d, m, products) for level, d, m in pairs], l2=l2)


def iterates(
    problem: lw.Composition, algorithm: lw.Algorithm, steps: int = STEPS, **settings: Any
) -> tuple[list[Vector], lw.Result]:
    """The start and the iterate after each step."""
    points: list[Vector] = []

    def note(state: lw.State) -> bool:
        points.append(state.w.copy())
        return state.step >= steps

    result = lw.minimize(problem, algorithm=algorithm, trace="step", max_passes=1e9, callback=note, **settings)
    return points, result


def assert_same(found: list[Vector], expected: list[Vector]) -> None:
    assert len(found) == len(expected)
    for t, (a, b) in enumerate(zip(found, expected, strict=True)):
        assert np.abs(a - b).max() <= TOL, f"step {t}"


BATCH, SEED, STEP = 3, 11, 0.3
START = np.array([0.3, -0.2, 0.5, 0.1])


def settings(betas: list[Any], size: Any = None, first: int = BATCH) -> twin.Settings:
    return twin.Settings(BATCH, first, SEED, twin.power(1.0) if size is None else size, betas)


def methods(K: int) -> dict[str, tuple[lw.Algorithm, Any, Any]]:
    """name -> (algorithm, twin from levels, update)."""
    plain = moves.Plain()
    p, below = (3 + K) / (7 + K), 7.0 + K
    accelerated = [twin.power(2.0, (3 + K - i) / below) for i in range(1, K + 1)]
    cbrt = settings([twin.power(0.4, 2 / 3, 7.0)], twin.power(1.0, 1 / 3, 7.0), 8)
    falling = settings([twin.power(3.0 * STEP**2, 2 / 3, 5.0)], twin.power(1.0, 1 / 3, 5.0))
    found: dict[str, tuple[lw.Algorithm, Any, Any]] = {
        "SMVR": (lw.SMVR(BATCH, beta=0.4, step=STEP, period=7.0, first_batch=8), lambda ls: twin.SMVR(ls, cbrt), plain),
        "SMVR, c": (lw.SMVR(BATCH, c=3.0, step=STEP, period=5.0), lambda ls: twin.SMVR(ls, falling), plain),
        "PMVR": (lw.PMVR(BATCH, beta=0.4, step=STEP, period=7.0, first_batch=8), lambda ls: twin.PMVR(ls, cbrt), plain),
        "PMVR, average": (
            lw.PMVR(BATCH, beta=0.4, step=STEP, period=7.0, first_batch=8, direction="average"),
            lambda ls: twin.PMVRAverage(ls, cbrt),
            plain,
        ),
        "SCSC": (lw.SCSC(BATCH, beta=0.25, step=STEP), lambda ls: twin.SCSC(ls, settings([twin.power(0.25)])), plain),
        "NestedSPIDER": (
            lw.NestedSPIDER(BATCH, big=8, period=6, step=STEP, length=0.02),
            lambda ls: twin.NestedSPIDER(ls, settings([], first=8), 6, 0.02 / STEP),
            plain,
        ),
        "SCGD": (
            lw.SCGD(BATCH, step=STEP),
            lambda ls: twin.SCGD(ls, settings([twin.power(1.0, 0.5)], twin.power(1.0, 0.75))),
            plain,
        ),
        "ATSCGD": (
            lw.ATSCGD(BATCH, step=STEP),
            lambda ls: twin.ATSCGD(ls, settings(accelerated, twin.power(1.0, p))),
            plain,
        ),
        "NLASG": (
            lw.NLASG(BATCH, tau=0.2, step=STEP),
            lambda ls: twin.NLASG(ls, settings([twin.power(0.2)])),
            twin.Relaxed(0.2),
        ),
    }
    if K <= 2:
        found["NASA"] = (
            lw.NASA(BATCH, tau=0.2, step=STEP),
            lambda ls: twin.NASA(ls, settings([twin.power(0.2)])),
            twin.Relaxed(0.2),
        )
        found["ASCPG"] = (lw.ASCPG(BATCH, step=STEP), found["ATSCGD"][1], plain)
    return found


CASES = [(K, name) for K in SIZES for name in methods(K)]


@pytest.mark.parametrize(("K", "name"), CASES)
def test_all_iterates_and_counts_are_those_of_the_twin(K: int, name: str) -> None:
    algorithm, make, update = methods(K)[name]
    levels = twin.smooth_levels(SIZES[K], 20, seed=K)
    found, result = iterates(composition(levels, SIZES[K]), algorithm, w0=START, seed=SEED)
    reference = make(levels)
    assert_same(found, twin.run(reference, update, START, STEP, STEPS))
    assert result.counts == vars(reference.counts)


@pytest.mark.parametrize("K", SIZES)
@pytest.mark.parametrize("name", ["PMVR", "PMVR, average", "SCSC", "SCGD", "ATSCGD", "NLASG"])
def test_products_alone_give_the_iterates_of_jacobians(K: int, name: str) -> None:
    algorithm = methods(K)[name][0]
    levels = twin.smooth_levels(SIZES[K], 20, seed=K)
    by_jacobians, first = iterates(composition(levels, SIZES[K]), algorithm, w0=START, seed=SEED)
    by_products, second = iterates(composition(levels, SIZES[K], products=True), algorithm, w0=START, seed=SEED)
    assert_same(by_products, by_jacobians)
    pushes = (STEPS - 1) * BATCH * K if name == "NLASG" else 0  # one more product a level and step
    assert second.counts["products"] == first.counts["jacobians"] + pushes
    assert second.counts["values"] == first.counts["values"]
    assert second.counts["jacobians"] == first.counts["products"] == 0


# Values, Jacobians and samples of one sample of one level in a step after the first.
WORK = {
    "SMVR": (2, 2, 1),
    "PMVR": (2, 2, 1),
    "PMVR, average": (2, 1, 1),
    "SCSC": (2, 1, 1),
    "SCGD": (1, 1, 1),
    "NLASG": (1, 1, 1),
    "NASA": (1, 1, 1),
}


@pytest.mark.parametrize(("K", "name"), [(K, name) for K in SIZES for name in WORK if name != "NASA" or K <= 2])
def test_a_step_costs_what_the_method_says(K: int, name: str) -> None:
    algorithm = methods(K)[name][0]
    problem = composition(twin.smooth_levels(SIZES[K], 20, seed=K), SIZES[K])
    counts = [iterates(problem, algorithm, n, w0=START, seed=SEED)[1].counts for n in (5, 6)]
    values, jacobians, samples = WORK[name]
    expected = {"values": values, "jacobians": jacobians, "samples": samples, "products": 0, "guards": 0}
    assert {k: counts[1][k] - counts[0][k] for k in counts[0]} == {k: v * BATCH * K for k, v in expected.items()}


@pytest.mark.parametrize("K", SIZES)
def test_atscgd_draws_twice_and_leaves_out_the_last_value(K: int) -> None:
    problem = composition(twin.smooth_levels(SIZES[K], 20, seed=K), SIZES[K])
    counts = [iterates(problem, methods(K)["ATSCGD"][0], n, w0=START, seed=SEED)[1].counts for n in (5, 6)]
    step = {k: counts[1][k] - counts[0][k] for k in counts[0]}
    assert (step["values"], step["jacobians"], step["samples"]) == (BATCH * (K - 1), BATCH * K, BATCH * (2 * K - 1))


@pytest.mark.parametrize("K", SIZES)
@pytest.mark.parametrize("samples", [1, 7])
def test_smvr_without_noise_is_gradient_descent(K: int, samples: int) -> None:
    levels = twin.smooth_levels(SIZES[K], samples, seed=K)
    problem = composition(levels, SIZES[K])
    found, _ = iterates(problem, lw.SMVR(batch=7, step=STEP), w0=START)
    w, expected = START.copy(), [START]
    for _ in range(STEPS):
        w = w - STEP * problem.evaluate(w).gradient
        expected.append(w.copy())
    assert_same(found, expected)


@pytest.mark.parametrize(("norm", "project"), [("spectral", twin.spectral), ("fro", twin.frobenius)])
def test_projections_are_the_nearest_points_of_their_balls(norm: str, project: Any) -> None:
    sizes, radii = [4, 3, 3, 1], [0.4, 0.5, 0.3]
    levels = twin.smooth_levels(sizes, 20, seed=5)
    found, _ = iterates(
        composition(levels, sizes), lw.SMVR(BATCH, step=STEP, radius=radii, norm=norm), w0=START, seed=SEED
    )
    reference = twin.SMVR(levels, settings([twin.power(0.1)]), lambda i, V: project(V, radii[i]))
    assert_same(found, twin.run(reference, moves.Plain(), START, STEP, STEPS))


def test_a_projection_onto_a_bound_leaves_exact_jacobians_alone() -> None:
    sizes = [4, 3, 3, 1]
    levels = twin.smooth_levels(sizes, 1, seed=5)
    problem = composition(levels, sizes)
    bounds = [
        1.01
        * max(
            np.linalg.norm(level.jacobian(u, np.zeros(1, int)), 2)
            for u in np.random.default_rng(0).normal(size=(500, d))
        )
        for level, d in zip(levels, sizes[:-1], strict=True)
    ]
    free, _ = iterates(problem, lw.SMVR(1, step=STEP), w0=START)
    bound, _ = iterates(problem, lw.SMVR(1, step=STEP, radius=bounds), w0=START)
    assert all(np.array_equal(a, b) for a, b in zip(free, bound, strict=True))


UPDATES = {
    "adagrad": (lw.AdaGrad(mean=True), lambda prox: moves.AdaGrad(mean=True, prox=prox)),
    "adam": (lw.Adam(momentum=0.0), lambda prox: moves.Adam(momentum=0.0, prox=prox)),
    "amsgrad": (lw.AMSGrad(momentum=0.0), lambda prox: moves.AMSGrad(momentum=0.0, prox=prox)),
    "adabound": (lw.AdaBound(momentum=0.0), lambda prox: moves.AdaBound(0.1, 10.0, momentum=0.0, prox=prox)),
}


@pytest.mark.parametrize("name", UPDATES)
@pytest.mark.parametrize("domain", [None, lw.Box(-0.2, 0.6)])
def test_adaptive_moves_are_those_of_the_twin(name: str, domain: lw.Domain | None) -> None:
    update, make = UPDATES[name]
    sizes = SIZES[3]
    levels = twin.smooth_levels(sizes, 20, seed=3)
    prox = moves.free if domain is None else lambda v, steps: np.clip(v, -0.2, 0.6)
    algorithm = lw.SMVR(BATCH, beta=0.4, step=0.02, update=update)
    found, _ = iterates(composition(levels, sizes), algorithm, w0=START, seed=SEED, domain=domain)
    reference = twin.SMVR(levels, settings([twin.power(0.4)]))
    assert_same(found, twin.run(reference, make(prox), START, 0.02, STEPS))


@pytest.mark.parametrize("stages", [lw.Stages(), lw.Stages(3, 5.0)])
def test_stages_halve_beta_and_go_on_from_the_last_stage(stages: lw.Stages) -> None:
    lengths = [int(np.ceil(max(stages.first * 2.0**s, stages.second * 2.0 ** (s / 2)))) for s in range(10)]
    stage = np.repeat(np.arange(10), lengths)
    sizes = SIZES[3]
    levels = twin.smooth_levels(sizes, 20, seed=3)
    rule = settings([lambda t: 0.8 * 2.0 ** -float(stage[t + 1])], lambda t: 2.0 ** (-0.5 * float(stage[t])))
    algorithm = lw.SMVR(BATCH, beta=0.8, step=STEP, stages="doubling" if stages == lw.Stages() else stages)
    found, _ = iterates(composition(levels, sizes), algorithm, w0=START, seed=SEED)
    assert_same(found, twin.run(twin.SMVR(levels, rule), moves.Plain(), START, STEP, STEPS))


def simplex(v: Vector, steps: Vector) -> Vector:
    return lw.Simplex().project(v)


RETURNS = np.random.default_rng(4).normal([0.05, 0.02, 0.03, 0.1], [1.0, 0.2, 0.5, 2.0], size=(300, 4))


@pytest.mark.parametrize("batch", [1, 5, 32, 300])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_native_mean_deviation_is_its_twin_with_identity_blocks(batch: int, dtype: Any) -> None:
    R = RETURNS.astype(dtype)
    levels = twin.mean_deviation_levels(R.astype(float), 0.2)
    algorithm = lw.SMVR(batch, beta=0.3, step=0.05, first_batch=32)
    found, result = iterates(lw.MeanDeviation(R), algorithm, 200, seed=SEED)
    reference = twin.SMVR(levels, twin.Settings(batch, 32, SEED, betas=[twin.power(0.3)]))
    expected = twin.run(reference, moves.Plain(simplex), np.full(4, 0.25), 0.05, 200)
    assert_same(found, expected)
    assert result.counts == vars(reference.counts)


@pytest.mark.parametrize("name", ["PMVR", "SCSC", "NestedSPIDER", "SCGD", "ATSCGD", "NLASG"])
def test_inputs_that_pass_through_are_followed_by_every_method(name: str) -> None:
    algorithm, make, _ = methods(3)[name]
    levels = twin.mean_deviation_levels(RETURNS, 0.2)
    moving = twin.Relaxed(0.2, simplex) if name == "NLASG" else moves.Plain(simplex)
    found, result = iterates(lw.MeanDeviation(RETURNS), algorithm, 60, seed=SEED)
    reference = make(levels)
    assert_same(found, twin.run(reference, moving, np.full(4, 0.25), STEP, 60))
    assert result.counts == vars(reference.counts)


def test_the_l2_term_is_exact() -> None:
    sizes = SIZES[2]
    levels = twin.smooth_levels(sizes, 20, seed=2)
    found, _ = iterates(composition(levels, sizes, l2=0.7), lw.SMVR(BATCH, beta=0.4, step=STEP), w0=START, seed=SEED)
    reference = twin.SMVR(levels, settings([twin.power(0.4)]))
    assert_same(found, twin.run(reference, moves.Plain(), START, STEP, STEPS, l2=0.7))
