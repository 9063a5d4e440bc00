"""The native inner loop of SVRG and SCSG on linear models makes the iterates of the general loop, and repeats them bit by bit."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

import leeward as lw
from leeward import _core

DOMAINS = {
    "free": None,
    "box": lw.Box(-0.3, 0.4),
    "l1": lw.L1(0.01),
    "elastic net": lw.ElasticNet(0.005, 0.1),
}
RULES = {  # batch rule, B, b, fraction, length rule, N, chance, exponent
    "svrg": (0, 200, 1, 0.0, 1, 1, 1.0, 0.0),
    "scsg": (0, 40, 1, 0.0, 0, 1, 1.0, 0.0),
    "scsg growing": (1, 40, 3, 0.0, 0, 1, 1.0, 2.0 / 3.0),
    "slices": (0, 64, 10, 0.0, 2, 1, 1.0, 0.0),
    "long": (0, 200, 20, 0.0, 3, 30_000, 1.0, 0.0),
    "loopless": (0, 200, 4, 0.0, 4, 1, 0.02, 0.0),
}


def made(kind, loss="logistic", weighted=False):
    rng = np.random.default_rng(0)
    n, d = 200, 23
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < (1.0 if kind == "dense" else 0.15))
    y = (
        rng.integers(0, 3, n)
        if loss == "softmax"
        else np.sign(X @ rng.normal(size=d) + 0.5 * rng.normal(size=n) + 1e-9)
    )
    weight = rng.integers(0, 4, n).astype(float) if weighted else None
    model = lw.LinearModel(X if kind == "dense" else sparse.csr_array(X), y, loss, l2=0.02, sample_weight=weight)
    return lw.Robust(model)


def descent(problem, rule, fused, domain=None, metric=None, chances=None, seed=3, step=0.05):
    estimator = problem.staged("SnapshotDifference", RULES[rule], seed, chances)
    none = np.zeros(1)
    settings = (0, none, none) if domain is None else (domain.kind, *domain.parameters(problem.penalised))
    return _core.Descent(
        estimator, ("heavy_ball", [0.0]), np.zeros(problem.dim), settings, (step, 0, 1.0), 0, (0, 0), problem.l2,
        problem.penalised, metric, fused,
    )  # fmt: skip


def both(problem, rule, steps=400, **settings):
    runs = [descent(problem, rule, fused, **settings) for fused in (True, False)]
    for run in runs:
        assert run.advance(steps, 1e9, 1)
    fused, general = runs
    assert fused.steps == general.steps == steps
    assert fused.work == general.work
    np.testing.assert_allclose(fused.answer, general.answer, rtol=0, atol=1e-12)


@pytest.mark.parametrize("domain", DOMAINS)
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("kind", ["dense", "csr"])
def test_the_iterates_are_those_of_the_general_loop(kind, rule, domain):
    both(made(kind), rule, domain=DOMAINS[domain])


@pytest.mark.parametrize("kind", ["dense", "csr"])
@pytest.mark.parametrize("loss", ["softmax", "squared", "huber", "squared_hinge"])
def test_other_losses(kind, loss):
    both(made(kind, loss), "svrg", step=0.01)
    both(made(kind, loss), "scsg", step=0.01)
    both(made(kind, loss), "slices", step=0.01)


@pytest.mark.parametrize("kind", ["dense", "csr"])
def test_weights_chances_and_metric_are_those_of_the_general_loop(kind):
    problem = made(kind, weighted=True)
    rng = np.random.default_rng(1)
    metric = rng.uniform(0.5, 2.0, problem.dim)
    chances = rng.uniform(0.5, 2.0, problem.size)
    for rule in ("svrg", "scsg", "slices"):
        both(problem, rule)
        both(problem, rule, metric=metric, domain=lw.L1(0.01))
    for rule in ("svrg", "scsg growing"):
        both(problem, rule, chances=chances)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("kind", ["dense", "csr"])
def test_a_run_restored_from_its_state_or_stopped_by_the_clock_has_the_same_bits(kind, rule):
    problem, domain = made(kind), lw.L1(0.01)
    whole = descent(problem, rule, True, domain)
    whole.advance(2500, 1e9, 1)
    parts = descent(problem, rule, True, domain)
    while parts.steps < 2500:
        parts.advance(2500 - parts.steps, 0.0, 1)
        state = parts.state()
        parts = descent(problem, rule, True, domain)
        parts.restore(**state)
    assert np.array_equal(parts.answer, whole.answer)


def test_a_long_lazy_stage_stops_at_the_same_steps_whenever_it_is_cut():
    """30000 steps a stage: coordinates are made up about every 60000 entries of rows, and not where the clock cuts."""
    problem, runs = made("csr"), []
    for seconds in (1e9, 0.0):
        run = descent(problem, "long", True, lw.L1(0.01))
        while run.steps < 40_000:
            run.advance(40_000 - run.steps, seconds, 1)
        runs.append(run.answer)
    assert np.array_equal(runs[0], runs[1])


@pytest.mark.parametrize(("rule", "fused"), [("svrg", True), ("slices", True), ("slices", False)])
def test_going_back_to_an_earlier_state_forgets_what_was_kept_since(rule, fused):
    """After the way back a stage has the same number but another reference point."""
    problem = made("dense")
    run = descent(problem, rule, fused)
    run.advance(300, 1e9, 1)
    state = run.state()
    run.advance(400, 1e9, 1)
    answers = []
    for again in (run, descent(problem, rule, fused)):
        again.restore(**(state | {"schedule": np.array([0.02, 1.0])}))
        again.advance(400, 1e9, 1)
        answers.append(again.answer)
    assert np.array_equal(answers[0], answers[1])


def test_a_step_that_leaves_the_doubles_ends_the_run_at_a_finite_point():
    problem = made("dense", "squared")
    run = descent(problem, "svrg", True, step=1e6)
    assert not run.advance(10_000, 1e9, 1)
    assert np.isfinite(run.iterate).all()


@pytest.mark.parametrize("algorithm", [lw.SVRG(), lw.SCSG(), lw.SCSG(inner="slices", inner_batch=8)])
@pytest.mark.parametrize("kind", ["dense", "csr"])
def test_threads_do_not_change_a_bit(kind, algorithm):
    problem = made(kind)
    results = [lw.minimize(problem, algorithm=algorithm, max_passes=30, threads=threads).x for threads in (1, 2, 3)]
    assert np.array_equal(results[0], results[1])
    assert np.array_equal(results[0], results[2])
