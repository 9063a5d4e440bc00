"""The solver of PyTorch operations, which tensors of other devices take, on tensors of the CPU against the core."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch", reason="torch is not installed")

import torch

import leeward as lw
from leeward.torch import RobustLoss
from reference.torch_risks import BY_SUMS, batch

LOSSES = {
    "plain": batch(3, 40),
    "skewed and large": 1e6 * np.random.default_rng(1).exponential(size=(3, 200)) ** 3,
    "small about one": 1 + 1e-6 * batch(3, 30, seed=2),
    "tied": np.random.default_rng(3).integers(0, 4, size=(4, 30)).astype(float),
    "constant": np.full((2, 7), 2.5),
    "single": batch(1, 1),
}


@pytest.mark.parametrize("kind", LOSSES)
@pytest.mark.parametrize("risk", BY_SUMS, ids=repr)
def test_values_and_weights_are_those_of_the_core(risk, kind):
    losses = LOSSES[kind]
    base = np.random.default_rng(4).integers(0, 3, size=losses.shape[1]) + (np.arange(losses.shape[1]) == 0.0)
    for p in (None, base):
        layer = RobustLoss(risk, "none", engine="torch")
        value = layer(torch.from_numpy(losses), sample_weight=None if p is None else torch.from_numpy(p))
        expected = risk.solve(losses, p)
        scale = np.ptp(losses) + np.abs(losses).max()
        # a penalty 1e-9 of the spread holds apart low losses that differ by less than the maximum is rounded by
        digits = 2e-9 if isinstance(risk, lw.TotalVariation) and risk.penalty else 1e-10
        np.testing.assert_allclose(value.numpy(), expected.value, rtol=0, atol=digits * scale)
        np.testing.assert_allclose(layer.weights.numpy(), expected.weights, rtol=0, atol=1e-8)


@pytest.mark.parametrize("risk", BY_SUMS, ids=repr)
def test_the_dual_is_that_of_the_core(risk):
    layer = RobustLoss(risk, "none", engine="torch")
    layer(torch.from_numpy(batch(3, 41)))
    expected = risk.solve(batch(3, 41))
    np.testing.assert_allclose(layer.eta.numpy(), expected.eta, rtol=0, atol=1e-9)
    np.testing.assert_allclose(layer.last["multiplier"].numpy(), expected.multiplier, rtol=0, atol=1e-9)


@pytest.mark.parametrize("risk", [risk for risk in BY_SUMS if risk.smooth], ids=repr)
def test_gradgradcheck(risk):
    losses = torch.from_numpy(batch(2, 8)).requires_grad_()
    assert torch.autograd.gradgradcheck(RobustLoss(risk, "none", engine="torch"), (losses,))


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_loss_that_is_not_finite_answers_nan_in_its_row_alone(bad):
    values = batch(2, 8)
    values[1, 3] = bad
    for risk in BY_SUMS:
        layer = RobustLoss(risk, "none", engine="torch")
        value = layer(torch.from_numpy(values))
        assert value[0].item() == pytest.approx(float(risk(values[0])), abs=1e-10)
        assert value[1].isnan()
        assert layer.weights[1].isnan().all()


def test_many_losses_take_fewer_thresholds_at_once_and_give_the_same():
    losses = np.random.default_rng(0).normal(size=70_000).astype(np.float32)
    for risk in (lw.CVaR(0.01), lw.ChiSquare(radius=1.0), lw.KLCVaR(0.01, 0.1)):
        layer = RobustLoss(risk, engine="torch")
        assert layer(torch.from_numpy(losses)).item() == pytest.approx(float(risk(losses)), rel=1e-6)
        assert layer.weights.dtype == torch.float32


def test_nothing_is_read_back_by_the_host():
    """A fake tensor has no values, so any read would raise."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    from leeward.torch._families import family_of
    from leeward.torch._solve import solve
    from leeward.torch._sums import Sums

    with FakeTensorMode():
        for risk in BY_SUMS:
            answer = solve(torch.empty(2, 9), torch.empty(2, 9), family_of(risk), Sums(9))
            assert answer.value.shape == (2,)
