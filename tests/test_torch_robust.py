"""`RobustLoss` on tensors of the CPU: values and gradients, types and shapes, masks and weights, inspection and copies."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("torch", reason="torch is not installed")

import torch

import leeward as lw
from leeward.torch import RobustLoss
from reference.torch_risks import RISKS, batch


def leaf(values, dtype=torch.float64):
    return torch.tensor(np.asarray(values), dtype=dtype, requires_grad=True)


@pytest.mark.parametrize("risk", RISKS, ids=repr)
def test_values_weights_and_gradients_are_those_of_the_numpy_face(risk):
    for shape, base in (
        ((50,), None),
        ((4, 50), None),
        ((50,), batch(50, seed=1) ** 2),
        ((4, 50), batch(50, seed=1) ** 2),
    ):
        losses = leaf(batch(*shape))
        layer = RobustLoss(risk, "none")
        value = layer(losses, sample_weight=None if base is None else torch.from_numpy(base))
        expected = risk.solve(batch(*shape), base)
        np.testing.assert_allclose(value.detach().numpy(), expected.value, rtol=0, atol=1e-12)
        np.testing.assert_allclose(layer.weights.numpy(), expected.weights, rtol=0, atol=1e-12)
        np.testing.assert_allclose(layer.eta.numpy(), expected.eta, rtol=0, atol=1e-12)
        value.sum().backward()
        np.testing.assert_allclose(losses.grad.numpy(), expected.weights, rtol=0, atol=1e-12)


def test_a_mini_batch_smaller_than_the_tail_has_its_known_answer():
    for alpha, value, weights in ((0.1, 3.0, [0, 1, 0]), (0.5, 7 / 3, [0, 2 / 3, 1 / 3])):
        losses = leaf([0.2, 3.0, 1.0])
        risk = RobustLoss(lw.CVaR(alpha))(losses)
        risk.backward()
        assert risk.item() == pytest.approx(value, abs=1e-14)
        np.testing.assert_allclose(losses.grad.numpy(), weights, atol=1e-14)


@pytest.mark.parametrize("risk", RISKS, ids=repr)
def test_a_batch_of_one_is_its_loss_with_gradient_one(risk):
    losses = leaf([0.7])
    value = RobustLoss(risk)(losses)
    value.backward()
    assert value.item() == pytest.approx(0.7, abs=1e-15)
    assert losses.grad.item() == pytest.approx(1.0, abs=1e-15)


def test_rows_are_batches_of_their_own():
    losses = leaf(batch(3, 20))
    rows = RobustLoss(lw.CVaR(0.2), "none")(losses)
    assert rows.shape == (3,)
    assert RobustLoss(lw.CVaR(0.2), "mean")(losses).item() == pytest.approx(rows.mean().item())
    assert RobustLoss(lw.CVaR(0.2), "sum")(losses).item() == pytest.approx(rows.sum().item())
    layer = RobustLoss(lw.CVaR(0.2))
    layer(losses).backward()
    np.testing.assert_allclose(losses.grad.numpy(), layer.weights.numpy() / 3)


@pytest.mark.parametrize(
    ("dtype", "digits"), [(torch.float64, 1e-14), (torch.float32, 1e-6), (torch.bfloat16, 8e-3), (torch.float16, 1e-3)]
)
def test_every_float_type_comes_back_as_it_came(dtype, digits):
    losses = leaf([0.0, 12.0], dtype)
    value = RobustLoss(lw.KL(penalty=1.0))(losses)
    value.backward()
    assert value.dtype == losses.grad.dtype == dtype
    assert value.item() == pytest.approx(12 + np.log1p(np.exp(-12)) - np.log(2), rel=digits)
    assert losses.grad.sum().item() == pytest.approx(1.0, rel=digits)


def test_a_default_dtype_of_float64_changes_nothing():
    torch.set_default_dtype(torch.float64)
    try:
        assert RobustLoss(lw.CVaR(0.5))(torch.ones(3, dtype=torch.float32)).dtype == torch.float32
    finally:
        torch.set_default_dtype(torch.float32)


def test_autocast_keeps_the_solve_in_full_precision():
    with torch.autocast("cpu", dtype=torch.bfloat16):
        losses = torch.nn.functional.linear(torch.ones(4, 3), torch.ones(1, 3)).squeeze(1)
        assert losses.dtype == torch.bfloat16
        layer = RobustLoss(lw.KL(penalty=1.0))
        assert layer(losses).dtype == torch.bfloat16
        assert layer.weights.dtype == torch.float32


def test_left_out_samples_count_for_nothing_whatever_they_hold():
    risk, values = lw.ChiSquare(radius=0.7), batch(3, 12)
    mask = np.random.default_rng(2).random((3, 12)) < 0.6
    weight = np.random.default_rng(3).random((3, 12)) + 0.1
    dirty = np.where(mask, values, np.nan)
    losses = leaf(dirty)
    layer = RobustLoss(risk, "none")
    value = layer(losses, mask=torch.from_numpy(mask), sample_weight=torch.from_numpy(weight))
    value.sum().backward()
    for i in range(3):
        s = risk.solve(values[i, mask[i]], weight[i, mask[i]])
        assert value[i].item() == pytest.approx(s.value, abs=1e-12)
        np.testing.assert_allclose(losses.grad[i].numpy()[mask[i]], s.weights, atol=1e-12)
    assert (losses.grad.numpy()[~mask] == 0).all()


def test_ignored_targets_are_left_out():
    logits = torch.randn(6, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0), requires_grad=True)
    target = torch.tensor([0, 1, -100, 3, -100, 2])
    losses = torch.nn.functional.cross_entropy(logits, target, reduction="none", ignore_index=-100)
    value = RobustLoss(lw.Mean(), ignore_index=-100)(losses, target)
    assert value.item() == pytest.approx(torch.nn.functional.cross_entropy(logits, target, ignore_index=-100).item())
    with pytest.raises(ValueError, match="needs the target"):
        RobustLoss(lw.Mean(), ignore_index=-100)(losses)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("risk", RISKS, ids=repr)
def test_a_loss_that_is_not_finite_answers_nan_in_its_row_alone(risk, bad):
    values = batch(2, 8)
    values[1, 3] = bad
    losses = leaf(values)
    value = RobustLoss(risk, "none")(losses)
    value.sum().backward()
    assert value[0].item() == pytest.approx(float(risk(values[0])), abs=1e-12)
    assert np.isnan(value[1].item())
    assert np.isnan(losses.grad[1].numpy()).all()
    assert np.isfinite(losses.grad[0].numpy()).all()
    assert np.isnan(RobustLoss(risk)(torch.from_numpy(values[1])).item())


def test_wrong_losses_are_refused_in_words():
    layer = RobustLoss(lw.CVaR(0.5))
    for losses, error, words in (
        (torch.empty(0), ValueError, "empty batch"),
        (torch.empty(0, 3), ValueError, "empty batch"),
        (torch.ones(5, 1), ValueError, "squeeze"),
        (torch.ones(2, 2, 2), ValueError, "shape"),
        (torch.ones(3, dtype=torch.int64), TypeError, "int64"),
        ([1.0, 2.0], TypeError, "torch.Tensor"),
    ):
        with pytest.raises(error, match=words):
            layer(losses)
    with pytest.warns(UserWarning, match="was the mean taken already"):
        assert layer(torch.tensor(2.0)).item() == 2.0


def test_wrong_weights_and_masks_are_refused_in_words():
    layer, losses = RobustLoss(lw.CVaR(0.5)), torch.ones(3)
    for options, words in (
        ({"sample_weight": torch.ones(4)}, "sample_weight"),
        ({"sample_weight": torch.ones(3, requires_grad=True)}, "constants"),
        ({"sample_weight": -torch.ones(3)}, "negative|sample_weight"),
        ({"mask": torch.ones(3)}, "bool"),
        ({"mask": torch.zeros(3, dtype=torch.bool)}, "positive"),
    ):
        with pytest.raises(ValueError, match=words):
            layer(losses, **options)


def test_wrong_settings_are_refused_in_words():
    with pytest.raises(TypeError, match="risk must be"):
        RobustLoss("cvar")
    with pytest.raises(ValueError, match="reduction must be"):
        RobustLoss(lw.Mean(), "avg")
    with pytest.raises(ValueError, match="engine must be"):
        RobustLoss(lw.Mean(), engine="cuda")
    with pytest.raises(ValueError, match="no solution of fixed length"):
        RobustLoss(lw.Spectral.extremile(2.0, penalty=0.5), engine="torch")


def test_the_input_is_not_changed_and_a_graph_can_be_used_twice():
    losses = leaf(batch(9))
    before = losses.detach().clone()
    value = RobustLoss(lw.KL(radius=0.3))(losses)
    value.backward(retain_graph=True)
    first = losses.grad.clone()
    value.backward()
    assert torch.equal(losses.grad, 2 * first)
    assert torch.equal(losses.detach(), before)


def test_no_graph_is_kept_where_none_is_wanted():
    layer = RobustLoss(lw.CVaR(0.5))
    with torch.no_grad():
        assert not layer(leaf(batch(5))).requires_grad
    with torch.inference_mode():
        assert layer(torch.tensor([1.0, 2.0])).item() == 2.0
    assert not layer(torch.tensor([1.0, 2.0])).requires_grad


def test_strided_and_transposed_losses_are_read_as_they_are():
    table = torch.from_numpy(batch(6, 10))
    risk = lw.ChiSquare(radius=0.5)
    assert RobustLoss(risk)(table[:, 3]).item() == pytest.approx(float(risk(batch(6, 10)[:, 3])))
    np.testing.assert_allclose(RobustLoss(risk, "none")(table.t()).numpy(), risk(batch(6, 10).T), atol=1e-13)


def test_what_is_looked_at_can_be_changed_without_changing_the_gradient():
    losses, layer = leaf(batch(5)), RobustLoss(lw.CVaR(0.5))
    value = layer(losses)
    layer.weights.zero_()
    value.backward()
    assert losses.grad.sum().item() == pytest.approx(1.0)


def test_large_batches_use_the_threads_of_pytorch(monkeypatch):
    asked = []

    def two():
        asked.append(2)
        return 2

    monkeypatch.setattr(torch, "get_num_threads", two)
    values = np.random.default_rng(0).random(70_000)
    assert RobustLoss(lw.CVaR(0.1))(torch.from_numpy(values)).item() == float(lw.CVaR(0.1)(values, threads=1))
    assert asked


def test_nothing_is_known_before_the_first_batch_and_copies_start_afresh():
    layer = RobustLoss(lw.CVaR(0.5))
    assert layer.weights is layer.eta is layer.last is None
    layer(torch.tensor([1.0, 3.0]))
    assert layer.last["weights"].tolist() == [0.0, 1.0]
    for twin in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert twin.last is None
        assert twin(torch.tensor([1.0, 3.0])).item() == 3.0
    assert layer.state_dict() == {}
    assert "CVaR(alpha=0.5)" in repr(layer)


def test_a_network_learns_the_worst_groups_better_than_with_the_mean():
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(400, 2, generator=generator)
    y = torch.where(torch.arange(400) < 40, -x[:, 0] + 2 * x[:, 1], x[:, 0])
    worst = {}
    for name, risk in (("mean", lw.Mean()), ("cvar", lw.CVaR(0.1))):
        w = torch.zeros(2, requires_grad=True)
        optimiser = torch.optim.SGD([w], lr=0.02)
        layer = RobustLoss(risk)
        for _ in range(300):
            optimiser.zero_grad()
            layer((x @ w - y) ** 2).backward()
            optimiser.step()
        worst[name] = lw.CVaR(0.1)(((x @ w - y) ** 2).detach().numpy())
    assert worst["cvar"] < 0.9 * worst["mean"]


def test_importing_the_package_does_not_import_torch():
    code = "import sys, leeward, leeward.risks; print('torch' in sys.modules)"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
        == "False"
    )


def test_importing_the_layers_costs_little_more_than_importing_torch():
    code = "import sys, leeward.torch; print([m for m in ('torch._dynamo', 'torch._inductor', 'sklearn') if m in sys.modules])"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"
    )
