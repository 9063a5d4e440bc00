"""Whole runs of the finite-sum methods: defaults without tuning, the same bits for any threads and cuts, and how they end."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import sparse

import leeward as lw

Vector = NDArray[np.float64]
METHODS = [lw.SCSG(), lw.SCSG(inner_batch=8), lw.SVRG(), lw.SVRG(4, loopless=True), lw.SARAH(), lw.STORM()]


def make_model(n: int = 2000, *, loss: str = "logistic", csr: bool = False, **settings: Any) -> lw.LinearModel:
    """Columns of very different units, as they come."""
    rng = np.random.default_rng(1)
    Z = rng.normal(size=(n, 8))
    score = Z @ np.linspace(-1, 1, 8) + rng.normal(size=n)
    X = Z * 10.0 ** np.linspace(-3, 3, 8)
    y = np.sign(score) if loss in ("logistic", "squared_hinge") else score
    return lw.LinearModel(sparse.csr_array(X) if csr else X, y, loss=loss, l2=1e-3, **settings)


def best(model: lw.Oracle, domain: lw.Domain | None = None) -> float:
    return lw.minimize(model, tol=1e-10, domain=domain, max_passes=5000).fun


@pytest.mark.parametrize("loss", ["logistic", "squared", "squared_hinge"])
@pytest.mark.parametrize("algorithm", METHODS, ids=repr)
def test_defaults_reach_the_optimum_of_unscaled_data(algorithm: lw.Algorithm, loss: str) -> None:
    model = make_model(loss=loss)
    result = lw.minimize(model, algorithm=algorithm, max_passes=60)
    close = 5e-2 if isinstance(algorithm, lw.STORM) else 1e-6
    assert result.fun - best(model) <= close * result.fun
    if not isinstance(algorithm, lw.STORM):
        assert lw.minimize(model, algorithm=algorithm).success


@pytest.mark.parametrize(
    "update",
    [lw.Momentum(), lw.NesterovMomentum(), lw.AdaGrad(), lw.Adam(), lw.AMSGrad(), lw.AdaBound(upper=100.0)],
    ids=repr,
)
@pytest.mark.parametrize("method", [lw.SVRG, lw.SGD])
def test_every_update_comes_close_with_its_default_step(update: Any, method: Any) -> None:
    model = make_model()
    result = lw.minimize(model, algorithm=method(update=update), max_passes=60)
    assert result.fun - best(model) <= 2e-2 * result.fun


@pytest.mark.parametrize("loss", ["hinge", "absolute"])
@pytest.mark.parametrize("algorithm", [lw.SVRG(8), lw.SCSG(inner_batch=4)], ids=repr)
def test_default_steps_fall_where_the_losses_have_kinks(algorithm: lw.Algorithm, loss: str) -> None:
    rng = np.random.default_rng(4)
    X = rng.normal(size=(1000, 5))
    score = X @ [1.0, -1.0, 0.5, 0.0, 2.0] + rng.normal(size=1000)
    model = lw.LinearModel(X, np.sign(score) if loss == "hinge" else score, loss, l2=1e-2)
    result = lw.minimize(model, algorithm=algorithm, max_passes=100)
    assert result.fun <= 1.01 * lw.minimize(model, tol=1e-4).fun


@pytest.mark.parametrize("domain", [lw.Box(-0.5, 0.5), lw.L1(1e-3), lw.L2Ball(1.0), lw.Simplex()], ids=repr)
@pytest.mark.parametrize("update", [None, lw.AMSGrad(momentum=0.0)], ids=repr)
def test_domains_are_minimised_over(domain: lw.Domain, update: Any) -> None:
    X = np.random.default_rng(2).normal(size=(600, 5))
    y = np.sign(X @ [1.0, -1.0, 2.0, 0.0, 0.5] + np.random.default_rng(3).normal(size=600))
    model = lw.LinearModel(X, y, l2=1e-2)
    result = lw.minimize(model, algorithm=lw.SVRG(8, update=update), domain=domain, max_passes=100)
    assert result.fun - best(model, domain) <= 1e-4 * result.fun


@pytest.mark.parametrize("domain", [lw.L1(0.2), lw.ElasticNet(0.2, 0.1), lw.Box(-0.3, 0.3), lw.L1Ball(0.8)], ids=repr)
@pytest.mark.parametrize(
    "algorithm",
    [
        lw.SGD(lw.Minibatch(300, replace=False), step=0.05, momentum=0.9, average=False),
        lw.Nesterov(lw.Minibatch(300, replace=False), step=0.05, form="momentum", average=False),
        *(lw.SVRG(8, update=u) for u in (lw.Momentum(), lw.NesterovMomentum(), lw.AMSGrad(), lw.AdaGrad())),
    ],
    ids=repr,
)
def test_the_fixed_points_of_every_update_are_the_minimisers(algorithm: lw.Algorithm, domain: lw.Domain) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 5)) * [1.0, 2.0, 0.5, 1.0, 3.0]
    model = lw.LinearModel(X, X @ [1.0, 0.5, 0.0, 0.0, -1.0] + rng.normal(size=300), "squared", l2=1e-3)
    result = lw.minimize(model, algorithm=algorithm, domain=domain, max_passes=400)
    assert result.fun - best(model, domain) <= 1e-7 * result.fun


@pytest.mark.parametrize(
    "algorithm",
    [
        lw.SCSG(4000, 900),
        lw.SCSG(inner_batch=900),
        lw.SVRG(900, update=lw.Adam()),
        lw.SARAH(inner_batch=900),
        lw.STORM(3000),
    ],
    ids=repr,
)
@pytest.mark.parametrize("csr", [False, True])
def test_a_whole_run_has_the_same_bits_for_any_number_of_threads(algorithm: lw.Algorithm, csr: bool) -> None:
    model = make_model(20_000, csr=csr)
    results = [lw.minimize(model, algorithm=algorithm, max_passes=8, threads=k) for k in (1, 2, 3)]
    for other in results[1:]:
        assert other.x.tobytes() == results[0].x.tobytes()
        assert other.trace.objective.tobytes() == results[0].trace.objective.tobytes()
        assert other.trace.gradients.tobytes() == results[0].trace.gradients.tobytes()


@pytest.mark.parametrize("output", ["last", "random", "average"])
@pytest.mark.parametrize("name", ["SCSG", "SVRG", "SARAH", "STORM"])
def test_a_longer_budget_goes_on_from_the_end_with_the_same_bits(name: str, output: str, tmp_path: Path) -> None:
    algorithm = getattr(lw, name)(step=0.05, output=output)
    X = np.random.default_rng(2).normal(size=(300, 3))
    model = lw.LinearModel(X, np.sign(X[:, 0] + 0.5), l2=1e-2)
    lw.minimize(model, algorithm=algorithm, max_passes=5, checkpoint=tmp_path / "c")
    longer = lw.minimize(model, algorithm=algorithm, max_passes=11, checkpoint=tmp_path / "c")
    at_once = lw.minimize(model, algorithm=algorithm, max_passes=11)
    assert longer.x.tobytes() == at_once.x.tobytes()
    assert (longer.njev, longer.samples, longer.nit) == (at_once.njev, at_once.samples, at_once.nit)


@pytest.mark.parametrize("algorithm", METHODS, ids=repr)
def test_the_bits_do_not_depend_on_how_often_the_run_is_looked_at(algorithm: Any) -> None:
    from dataclasses import replace

    X = np.random.default_rng(2).normal(size=(300, 3))
    model = lw.LinearModel(X, np.sign(X[:, 0] + 0.5), l2=1e-2)
    fixed = replace(algorithm, step=0.05)
    results = [lw.minimize(model, algorithm=fixed, max_passes=9, trace=trace) for trace in ("pass", "step", 7, None)]
    assert len({r.x.tobytes() for r in results}) == 1
    assert len({(r.nit, r.njev, r.samples) for r in results}) == 1


@pytest.mark.parametrize(
    "algorithm", [lw.SCSG(step=50.0), lw.SVRG(step=50.0), lw.SARAH(step=50.0), lw.STORM(step=50.0)]
)
def test_a_step_that_is_too_large_is_said_and_the_best_point_kept(algorithm: lw.Algorithm) -> None:
    X = np.random.default_rng(2).normal(size=(300, 3))
    model = lw.LinearModel(X, X[:, 0] + 1.0, "squared", l2=1e-2)
    start = np.array([0.9, 0.1, 0.0, 0.9])
    with pytest.warns(lw.ConvergenceWarning, match="step is too large"):
        result = lw.minimize(model, start, algorithm, max_passes=50)
    assert result.status in (lw.Status.DIVERGED, lw.Status.NON_FINITE)
    assert result.fun <= lw.Robust(model).value(start)
    assert np.isfinite(result.x).all()


@pytest.mark.parametrize("start", [3.0, 0.0, 30.0])
def test_defaults_serve_a_users_oracle_whose_curvature_changes_a_thousandfold(start: float) -> None:
    target = np.random.default_rng(0).normal(size=(200, 2)) + 3.0

    def losses(w: Vector, index: NDArray[np.int64]) -> Vector:
        return np.asarray(np.sum(np.abs(w - target[index]) ** 4, axis=1) / 4)

    def gradient(w: Vector, weights: Vector, index: NDArray[np.int64]) -> Vector:
        return np.asarray(weights @ (w - target[index]) ** 3)

    oracle = lw.FunctionOracle(losses, gradient, 200, 2, convex=True)
    result = lw.minimize(oracle, np.full(2, start), lw.SVRG(8), max_passes=100)
    assert result.fun <= lw.minimize(oracle, algorithm=lw.LBFGS(), tol=1e-7).fun * (1 + 1e-5)


@pytest.mark.skipif(os.name != "posix", reason="sends a POSIX signal to itself")
@pytest.mark.parametrize("update", [None, lw.Adam()], ids=repr)
def test_ctrl_c_is_seen_within_a_stage_and_keeps_what_was_reached(update: Any) -> None:
    # The promise is 50 ms; the best of three leaves out what other programs on the machine take.
    assert min(seconds_to_stop(lw.SVRG(1, step=1e-4, update=update)) for _ in range(3)) < 0.1


def seconds_to_stop(algorithm: lw.Algorithm) -> float:
    model, sent = make_model(50_000), [0.0]

    def send() -> None:
        time.sleep(0.3)
        sent[0] = time.perf_counter()
        os.kill(os.getpid(), signal.SIGINT)

    sender = threading.Thread(target=send)
    sender.start()
    try:
        with pytest.raises(KeyboardInterrupt) as caught:
            lw.minimize(model, algorithm=algorithm, max_passes=1e9, trace=None)
        seen = time.perf_counter()
    finally:
        sender.join()
    result = caught.value.result  # type: ignore[attr-defined]
    assert result.status is lw.Status.INTERRUPTED
    assert result.njev > 0
    return seen - sent[0]


@pytest.mark.parametrize("algorithm", METHODS, ids=repr)
def test_other_risks_and_groups_are_refused_by_name(algorithm: lw.Algorithm) -> None:
    model = make_model(100)
    with pytest.raises(ValueError, match=r"minimises a mean of losses.*use SGD\(Minibatch\(n\)\)"):
        lw.minimize(lw.Robust(model, lw.CVaR(0.5)), algorithm=algorithm)
    with pytest.raises(ValueError, match="not a risk of groups"):
        lw.minimize(lw.Robust(model, groups=np.arange(100) % 3), algorithm=algorithm)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: lw.SCSG("fast"), "batch must be a number of samples, 'growing', 'doubling' or None, got 'fast'"),
        (lambda: lw.SCSG(0), "batch must be at least 1, got 0"),
        (lambda: lw.SCSG(8, 0), "inner_batch must be at least 1, got 0"),
        (lambda: lw.SCSG(8, 1.5), r"inner_batch as a fraction of the batch must be in \(0, 1\], got 1.5"),
        (lambda: lw.SCSG(inner="long"), "inner must be 'geometric', 'mean' or 'slices', got 'long'"),
        (lambda: lw.SCSG(step=-1.0), "step must be positive and finite, .* or None, got -1.0"),
        (lambda: lw.SCSG(exponent=2.0), r"exponent must be in \[0, 1\], got 2.0"),
        (lambda: lw.SVRG(output="best"), "output must be 'last', 'random' or 'average', got 'best'"),
        (lambda: lw.SVRG(inner_steps="geometric", loopless=True), "loopless=True tosses a coin"),
        (lambda: lw.STORM(beta=0.0), r"beta must be in \(0, 1\], got 0.0"),
        (lambda: lw.Momentum(1.0), r"momentum must be in \[0, 1\), got 1.0"),
        (lambda: lw.AdaBound(lower=2.0, upper=1.0), "lower must be at most upper, got 2.0 and 1.0"),
        (lambda: lw.SGD(momentum=0.5, update=lw.Adam()), "give momentum or update, not both"),
    ],
)
def test_settings_that_make_no_sense_are_refused(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("make", [lambda: lw.SVRG(update="adam"), lambda: lw.SGD(update=lw.Adam)])
def test_an_update_must_be_one(make: Any) -> None:
    with pytest.raises(TypeError, match="update must be an update such as Plain"):
        make()


def test_a_batch_larger_than_the_data_is_all_of_it_and_one_sample_is_enough() -> None:
    model = lw.LinearModel(np.ones((1, 1)), [2.0], "squared", l2=0.1)
    for algorithm in (lw.SCSG(100, 50), lw.SVRG(), lw.SARAH(64), lw.STORM()):
        result = lw.minimize(model, algorithm=algorithm, max_passes=400)
        assert result.fun - best(model) < 1e-2
