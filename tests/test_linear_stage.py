"""The native inner loop of a stage on a linear model: as the NumPy twin, on dense and on lazily updated CSR rows."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

import leeward as lw
from leeward import _core
from reference.linear_stage import stage

LOSSES = {
    "squared": lw.losses.Squared(),
    "huber": lw.losses.Huber(0.7),
    "absolute": lw.losses.Absolute(),
    "quantile": lw.losses.Quantile(0.3),
    "logistic": lw.losses.Logistic(),
    "hinge": lw.losses.Hinge(),
    "squared_hinge": lw.losses.SquaredHinge(),
    "poisson": lw.losses.Poisson(),
    "softmax": lw.losses.Softmax(3),
}
DOMAINS = {
    "free": None,
    "box": lw.Box(-0.05, 0.04),
    "one-sided box": lw.Box(0.0, np.inf),
    "l1": lw.L1(0.02),
    "elastic net": lw.ElasticNet(0.015, 0.3),
}
FREE = (0, np.zeros(1), np.zeros(1))


def made(kind="dense", loss="logistic", d=37, n=150, dtype=np.float64, l2=0.1, intercept=True, seed=0):
    """Model, dense X as stored, y."""
    rng = np.random.default_rng(seed)
    X = (rng.normal(size=(n, d)) * (rng.random((n, d)) < (1.0 if kind == "dense" else 0.06))).astype(dtype)
    if loss == "softmax":
        y = rng.integers(0, 3, n).astype(float)
    elif loss == "poisson":
        y = rng.poisson(1.0, n).astype(float)
    elif loss in ("logistic", "hinge", "squared_hinge"):
        y = rng.choice([-1.0, 1.0], n)
    else:
        y = rng.normal(size=n)
    data = X if kind == "dense" else sparse.csr_array(X)
    return lw.LinearModel(data, y, LOSSES[loss], l2=l2, intercept=intercept), X, y


def run(
    model, w, index, batch, step, *, gradient, snapshot=None, slopes=None, factors=None, metric=None, domain=None, cut=0
):
    settings = FREE
    if domain is not None:
        settings = (domain.kind, *domain.parameters(model.penalised))
    return _core.stage_steps(
        model._core, w, index, batch, step, model.l2, gradient, snapshot, slopes, factors, metric, settings, cut
    )


def prox_of(domain):
    if domain is None:
        return None
    if isinstance(domain, lw.Box):
        return lambda v, steps: domain.project(v)
    l1, l2 = (domain.strength, 0.0) if isinstance(domain, lw.L1) else (domain.l1, domain.l2)
    return lambda v, steps: np.sign(v) * np.maximum(np.abs(v) - steps * l1, 0.0) / (1.0 + steps * l2)


def place(model, rng, scale=0.1):
    """w inside the box, the snapshot and a gradient that moves every coordinate."""
    w, snapshot = (np.clip(scale * rng.normal(size=model.dim), 0.0, 0.04) for _ in range(2))
    return w, snapshot, 0.05 * rng.normal(size=model.dim)


@pytest.mark.parametrize("domain", DOMAINS)
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("kind", ["dense", "csr"])
def test_a_stage_is_that_of_the_twin(kind, loss, domain):
    model, X, y = made(kind, loss)
    rng = np.random.default_rng(1)
    w, snapshot, g = place(model, rng)
    for batch in (1, 3):
        index = rng.integers(0, model.size, 240)
        step, d = 0.01 if loss in ("squared", "poisson") else 0.08, DOMAINS[domain]
        wanted = stage(model, X, y, w, index, batch, step, gradient=g, snapshot=snapshot, prox=prox_of(d))
        slopes = model.slopes(snapshot)
        cached = run(model, w, index, batch, step, gradient=g, snapshot=snapshot, slopes=slopes, domain=d)
        fresh = run(model, w, index, batch, step, gradient=g, snapshot=snapshot, domain=d)
        np.testing.assert_allclose(cached, wanted, rtol=0, atol=1e-12)
        np.testing.assert_allclose(fresh, wanted, rtol=0, atol=1e-12)


@pytest.mark.parametrize("domain", DOMAINS)
@pytest.mark.parametrize("intercept", [False, True])
def test_lazy_steps_on_csr_rows_are_the_eager_ones_on_dense_rows(domain, intercept):
    """Long gaps: 3000 steps over rows that touch a coordinate about every hundredth step, or never."""
    rng = np.random.default_rng(2)
    n, d = 300, 1000
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.01)
    X[:, 900:] = 0.0
    y = rng.choice([-1.0, 1.0], n)
    index = rng.integers(0, n, 3000)
    for l2, step in ((0.0, 0.3), (1e-9, 0.3), (0.02, 0.3), (0.9, 1.0)):
        lazy = lw.LinearModel(sparse.csr_array(X), y, l2=l2, intercept=intercept)
        eager = lw.LinearModel(X, y, l2=l2, intercept=intercept)
        w, snapshot, g = place(lazy, rng)
        g *= rng.choice([0.02, 1.0], g.size)  # some below the threshold of l1, some above
        at = {"gradient": g, "snapshot": snapshot, "domain": DOMAINS[domain]}
        a = run(lazy, w, index, 1, step, **at)
        b = run(eager, w, index, 1, step, **at)
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)


def test_more_steps_than_the_tables_hold_are_made_up_in_time():
    rng = np.random.default_rng(3)
    X = sparse.csr_array(rng.normal(size=(5, 4)) * np.array([1.0, 1.0, 0.0, 0.0]))
    model = lw.LinearModel(X, [-1.0, 1.0, 1.0, -1.0, 1.0], l2=2.0**-20, intercept=False)
    index = rng.integers(0, 5, 600_000)
    g = np.array([0.0, 1e-3, 1e-3, -2e-3])
    w = run(model, np.zeros(4), index, 1, 2.0**-10, gradient=g, snapshot=np.zeros(4))
    sums = -np.expm1(len(index) * np.log1p(-(2.0**-30))) * 2.0**30
    np.testing.assert_allclose(w[2:], -(2.0**-10) * g[2:] * sums, rtol=1e-12)


def test_a_step_beyond_the_stable_range_is_followed_exactly():
    """1 - step l2 < 0: signs alternate and no closed form holds for box and shrinkage."""
    for domain in DOMAINS.values():
        model, X, y = made("csr", l2=2.0)
        rng = np.random.default_rng(4)
        w, snapshot, g = place(model, rng)
        index = rng.integers(0, model.size, 50)
        wanted = stage(model, X, y, w, index, 1, 0.7, gradient=g, snapshot=snapshot, prox=prox_of(domain))
        found = run(model, w, index, 1, 0.7, gradient=g, snapshot=snapshot, domain=domain)
        np.testing.assert_allclose(found, wanted, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("d", [1, 3, 8, 15, 16, 17, 24, 31, 32, 100])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_of_any_length_and_width(d, dtype):
    for domain in ("free", "l1"):
        model, X, y = made("dense", d=d, dtype=dtype)
        rng = np.random.default_rng(5)
        w, snapshot, g = place(model, rng)
        metric = rng.uniform(0.5, 2.0, model.dim)
        for batch in (1, 2):
            index = rng.integers(0, model.size, 100)
            for m in (None, metric):
                at = {"gradient": g, "snapshot": snapshot, "metric": m}
                wanted = stage(model, X, y, w, index, batch, 0.1, prox=prox_of(DOMAINS[domain]), **at)
                found = run(model, w, index, batch, 0.1, domain=DOMAINS[domain], **at)
                np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-12)


@pytest.mark.parametrize("domain", DOMAINS)
@pytest.mark.parametrize("l2", [0.0, 0.1, 9.0])
def test_lazy_steps_with_a_step_for_each_coordinate(domain, l2):
    model, X, y = made("csr", d=60, l2=l2)
    rng = np.random.default_rng(10)
    w, snapshot, g = place(model, rng)
    metric = rng.uniform(0.2, 3.0, model.dim)
    index = rng.integers(0, model.size, 240 if l2 < 9 else 40)
    for batch in (1, 4):
        at = {"gradient": g, "snapshot": snapshot, "metric": metric}
        wanted = stage(model, X, y, w, index, batch, 0.1, prox=prox_of(DOMAINS[domain]), **at)
        found = run(model, w, index, batch, 0.1, domain=DOMAINS[domain], **at)
        np.testing.assert_allclose(found, wanted, rtol=1e-10 if l2 == 9 else 0, atol=1e-12)


@pytest.mark.parametrize("domain", DOMAINS)
def test_columns_named_twice_in_a_row_add_up(domain):
    rng = np.random.default_rng(6)
    indices = rng.integers(0, 6, 40 * 5).astype(np.int32)
    X = sparse.csr_array((rng.normal(size=200), indices, np.arange(0, 201, 5)), shape=(40, 6))
    dense, y = X.toarray(), rng.choice([-1.0, 1.0], 40)
    model = lw.LinearModel(X, y, l2=0.1)
    w, snapshot, g = place(model, rng)
    index = rng.integers(0, 40, 120)
    for batch in (1, 2):
        wanted = stage(
            model, dense, y, w, index, batch, 0.1, gradient=g, snapshot=snapshot, prox=prox_of(DOMAINS[domain])
        )
        found = run(model, w, index, batch, 0.1, gradient=g, snapshot=snapshot, domain=DOMAINS[domain])
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-12)


def test_factors_of_importance_sampling_scale_each_row():
    for kind in ("dense", "csr"):
        model, X, y = made(kind)
        rng = np.random.default_rng(7)
        w, snapshot, g = place(model, rng)
        index, factors = rng.integers(0, model.size, 90), rng.uniform(0.1, 2.0, 90)
        wanted = stage(model, X, y, w, index, 3, 0.1, gradient=g, snapshot=snapshot, factors=factors)
        found = run(model, w, index, 3, 0.1, gradient=g, snapshot=snapshot, factors=factors)
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-12)


def test_without_a_snapshot_steps_are_plain_stochastic_gradients():
    for kind in ("dense", "csr"):
        model, X, y = made(kind)
        rng = np.random.default_rng(8)
        index = rng.integers(0, model.size, 60)
        wanted = stage(model, X, y, np.zeros(model.dim), index, 1, 0.1, gradient=np.zeros(model.dim), snapshot=None)
        found = run(model, np.zeros(model.dim), index, 1, 0.1, gradient=None)
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-12)


def test_a_dense_stage_cut_anywhere_has_the_same_bits_and_a_lazy_one_the_same_numbers():
    for kind in ("dense", "csr"):
        model, _, _ = made(kind)
        rng = np.random.default_rng(9)
        w, snapshot, g = place(model, rng)
        index = rng.integers(0, model.size, 700)
        at = {"gradient": g, "snapshot": snapshot, "domain": lw.L1(0.02)}
        whole = run(model, w, index, 1, 0.1, **at)
        for cut in (1, 7, 256, 300):
            parts = run(model, w, index, 1, 0.1, cut=cut, **at)
            if kind == "dense":
                assert np.array_equal(parts, whole)
            else:
                np.testing.assert_allclose(parts, whole, rtol=0, atol=1e-13)


def test_domains_that_mix_coordinates_have_no_native_stage():
    model, _, _ = made("csr")
    with pytest.raises(ValueError, match="no native stage"):
        run(model, np.zeros(model.dim), np.zeros(1, np.int64), 1, 0.1, gradient=None, domain=lw.Simplex(1.0))
