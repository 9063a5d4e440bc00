"""`leeward.torch.SCSG`, `STORM`, `PMVR` and `SMVR` follow their NumPy twins and the native methods."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

pytest.importorskip("torch", reason="torch is not installed")

import torch

import leeward as lw
from leeward import _core
from leeward.torch import PMVR, SCSG, SMVR, STORM
from reference import compositions as twins
from reference import torch_optimisers as reference

N, D = 40, 3
DATA = np.random.default_rng(0)
X, Y = DATA.normal(size=(N, D)), DATA.normal(size=N)
X_, Y_ = torch.from_numpy(X), torch.from_numpy(Y)
START = np.array([0.5, -1.0, 2.0])
BATCHES = list(np.random.default_rng(1).integers(N, size=(80, 4)))


def gradient(w, batch):
    return (X[batch] @ w - Y[batch]) @ X[batch] / len(batch)


def parameter():
    return torch.tensor(START, requires_grad=True)


def closure_on(w, batch, factor=1.0):
    def closure():
        loss = factor * ((X_[batch] @ w - Y_[batch]) ** 2).mean() / 2
        loss.backward()
        return loss

    return closure


def path_of(optimiser, w, batches=BATCHES, factor=1.0, between=lambda: None):
    path = []
    for batch in batches:
        optimiser.step(closure_on(w, batch, factor))
        path.append(w.detach().numpy().copy())
        between()
    return np.array(path)


SETTINGS = [{}, {"momentum": 0.8}, {"weight_decay": 0.3, "max_norm": 0.7}, {"maximize": True}]


def mover(settings):
    return reference.Move(settings.get("momentum", 0.0), settings.get("weight_decay", 0.0), settings.get("max_norm"))


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_scsg_follows_its_twin(settings):
    w = parameter()
    found = path_of(
        SCSG([w], lr=0.05, batches=3, seed=4, **settings), w, factor=-1.0 if "maximize" in settings else 1.0
    )
    expected = reference.scsg(gradient, START, BATCHES, 0.05, 3, 4, mover(settings))
    assert len({len(list(run)) for _, run in itertools.groupby(found[:, 0])}) > 1  # steps and snapshots
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_storm_follows_its_twin_with_a_scheduler(settings):
    w = parameter()
    optimiser = STORM([w], lr=0.1, c=40.0, **settings)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimiser, 0.97)
    found = path_of(optimiser, w, factor=-1.0 if "maximize" in settings else 1.0, between=scheduler.step)
    lrs = 0.1 * 0.97 ** np.arange(len(BATCHES))
    expected = reference.storm(
        gradient, START, BATCHES, lrs, lambda t: min(1.0, 40.0 * lrs[t - 1] ** 2), mover(settings)
    )
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


def squares():
    return lw.FunctionOracle(
        lambda w, index: (X[index] @ w - Y[index]) ** 2 / 2,
        lambda w, weights, index: (weights * (X[index] @ w - Y[index])) @ X[index],
        size=N, dim=D,
    )  # fmt: skip


def test_scsg_is_the_native_method_on_its_draws():
    B, b, stages = 12, 4, 5
    batches = []
    for j in range(1, stages + 1):
        order = np.asarray(_core.draws.permutation(0, 1, j, N, B))
        batches += [*order.reshape(-1, b)]
        batches += [np.asarray(_core.draws.permutation(0, 7, 3 * (j - 1) + k, N, b)) for k in range(B // b)]
    w = parameter()
    found = path_of(SCSG([w], lr=0.05, batches=3, inner="mean"), w, batches)[-1]
    method = lw.SCSG(batch=B, inner_batch=b, inner="mean", step=0.05, exponent=0.0)
    passes = stages * (B + 2 * B) / N
    native = lw.minimize(squares(), START, method, max_passes=passes, tol=0.0)
    assert native.njev == stages * 3 * B
    np.testing.assert_allclose(found, native.x, rtol=0, atol=1e-12)


def test_storm_is_the_native_method_on_its_draws():
    steps, b = 12, 4
    batches = [np.asarray(_core.draws.permutation(0, 1, 1, N, b))]
    batches += [np.asarray(_core.draws.permutation(0, 7, t, N, b)) for t in range(1, steps)]
    w = parameter()
    found = path_of(STORM([w], lr=0.05, beta=0.2), w, batches)[-1]
    method = lw.STORM(batch=b, first_batch=b, beta=0.2, step=0.05)
    native = lw.minimize(squares(), START, method, max_passes=(2 * steps - 1) * b / N, tol=0.0)
    assert native.njev == (2 * steps - 1) * b
    np.testing.assert_allclose(found, native.x, rtol=0, atol=1e-12)


class Drawn(torch.autograd.Function):
    """A level of the twins on one draw."""

    @staticmethod
    def forward(ctx, u, level, index):
        ctx.jacobian = level.jacobian(u.numpy(), index)
        return torch.from_numpy(level.value(u.numpy(), index))

    @staticmethod
    def backward(ctx, by):
        return by @ torch.from_numpy(ctx.jacobian), None, None


@pytest.mark.parametrize(("method", "twin"), [(PMVR, twins.PMVR), (SMVR, twins.SMVR)], ids=["pmvr", "smvr"])
@pytest.mark.parametrize("sizes", [[3, 1], [3, 2, 1], [3, 4, 2, 3, 1]], ids=str)
def test_nested_methods_follow_their_twins(method, twin, sizes):
    levels = twins.smooth_levels(sizes, samples=7)
    settings = {"batch": 2, "first": 2, "seed": 3}
    expected = twins.run(
        twin(levels, twins.Settings(**settings, betas=[lambda t: 0.3])), lambda w, v, lr, t: w - lr * v, START, 0.2, 30
    )
    draws = twins.Nested(levels, twins.Settings(**settings))
    w, path = parameter(), [START]
    optimiser = method([w], lr=0.2, beta=0.3)
    for t in range(30):
        draws.t = t
        batches = [draws.draw(i, 2) for i in range(len(levels))]
        chain = [lambda u=w, level=levels[0], batch=batches[0]: Drawn.apply(u, level, batch)]
        chain += [
            lambda u, level=level, batch=batch: Drawn.apply(u, level, batch)
            for level, batch in zip(levels[1:], batches[1:], strict=True)
        ]
        optimiser.step(chain)
        path.append(w.detach().numpy().copy())
    np.testing.assert_allclose(path, expected, rtol=0, atol=1e-12)


def test_growing_snapshots_and_the_exponent_of_the_theory():
    w = parameter()
    optimiser = SCSG([w], lr=0.1, batches=4, growing=True, inner="mean", exponent=1.0)
    path = np.vstack([START, path_of(optimiser, w)])
    moving = [bool((a != b).any()) for a, b in itertools.pairwise(path)]
    assert moving[:14] == [False, True] + [False] * 3 + [True] * 3 + [False] * 4 + [True] * 2  # m = 1, 3, 4
    g = sum(gradient(path[2], S) for S in BATCHES[2:5]) / 3
    np.testing.assert_allclose(path[6], path[5] - 0.1 / 3 * g, atol=1e-14)
