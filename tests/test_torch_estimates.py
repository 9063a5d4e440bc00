"""`DualLoss` and `MLMCLoss`: unbiased stand-ins for the risk of all losses on small batches."""

from __future__ import annotations

import copy
import io
import math

import numpy as np
import pytest

pytest.importorskip("torch", reason="torch is not installed")

import torch

import leeward as lw
from leeward.torch import DualLoss, MLMCLoss, MLMCSampler
from reference.torch_risks import RISKS, batch


def has_dual(risk):
    return (
        isinstance(risk, lw.CVaR | lw.KL | lw.ChiSquare | lw.CressieRead | lw.KLCVaR | lw.SmoothedCVaR)
        or (isinstance(risk, lw.Tilted) and risk.t > 0)
        or (isinstance(risk, lw.Spectral) and risk.kind == "superquantile")
    )


DUALS = [risk for risk in RISKS if has_dual(risk)]


@pytest.mark.parametrize("base", [None, batch(41, seed=1) ** 2], ids=["uniform", "weighted"])
@pytest.mark.parametrize("risk", DUALS, ids=repr)
def test_the_dual_form_at_its_solution_is_the_risk_and_stationary(risk, base):
    losses = torch.from_numpy(batch(41)).requires_grad_()
    layer = DualLoss(risk, dtype=torch.float64)
    value = layer(losses, sample_weight=None if base is None else torch.from_numpy(base))
    value.backward()
    expected = risk.solve(batch(41), base)
    assert value.item() == pytest.approx(expected.value, abs=1e-12)
    np.testing.assert_array_equal(layer.weights.numpy(), losses.grad.numpy())
    if risk.smooth:  # CVaR has a step of its weights at eta
        np.testing.assert_allclose(losses.grad.numpy(), expected.weights, atol=1e-11)
        assert layer.eta.grad.item() == pytest.approx(0.0, abs=1e-10)
        if layer.log_multiplier is not None and expected.multiplier > 0:
            assert layer.log_multiplier.grad.item() == pytest.approx(0.0, abs=1e-10)


def test_any_other_eta_gives_an_upper_bound():
    losses = torch.from_numpy(batch(41))
    for risk in DUALS:
        layer = DualLoss(risk, dtype=torch.float64)
        layer.reset(losses)
        for shift in (-0.3, 0.2):
            with torch.no_grad():
                layer.eta += shift
            assert layer(losses).item() >= float(risk(batch(41))) - 1e-12


def test_the_average_over_micro_batches_and_shards_is_the_whole():
    losses = torch.arange(1.0, 9.0, dtype=torch.float64)
    layer = DualLoss(lw.CVaR(0.25), dtype=torch.float64)
    layer.reset(losses)
    halves = (layer(losses[:4]) + layer(losses[4:])) / 2
    assert halves.item() == pytest.approx(7.5)
    assert layer(losses).item() == pytest.approx(7.5)


def test_stochastic_steps_in_eta_find_the_risk_of_all_losses():
    values = torch.from_numpy(np.random.default_rng(0).exponential(size=4000))
    risk = lw.ChiSquare(radius=0.5)
    layer = DualLoss(risk, dtype=torch.float64)
    optimiser = torch.optim.SGD(layer.parameters(), lr=0.1)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda t: 1 / math.sqrt(1 + t))
    for rows in np.random.default_rng(1).integers(4000, size=(1500, 16)):
        optimiser.zero_grad()
        layer(values[rows]).backward()
        optimiser.step()
        schedule.step()
    assert layer(values).item() == pytest.approx(float(risk(values.numpy())), rel=0.01)


def train(layer, network, optimiser, steps):
    for rows in steps:
        optimiser.zero_grad()
        layer((network(torch.from_numpy(batch(64, 3))[rows]).squeeze(1) - 1) ** 2).backward()
        optimiser.step()


def made():
    torch.manual_seed(0)
    network, layer = torch.nn.Linear(3, 1).double(), DualLoss(lw.KL(radius=0.3))
    return layer, network, torch.optim.Adam([*network.parameters(), *layer.parameters()], lr=0.05)


def test_a_run_that_was_saved_and_loaded_has_the_same_bits():
    steps = np.random.default_rng(0).integers(64, size=(10, 8))
    one = made()
    train(*one, steps)
    first = made()
    train(*first, steps[:5])
    file = io.BytesIO()
    torch.save([part.state_dict() for part in first], file)
    file.seek(0)
    second = made()
    for part, state in zip(second, torch.load(file), strict=True):
        part.load_state_dict(state)
    train(*second, steps[5:])
    for a, b in ((one[0], second[0]), (one[1], second[1])):
        for name, value in a.state_dict().items():
            assert torch.equal(value, b.state_dict()[name]), name
    with pytest.raises(RuntimeError, match="log_multiplier"):
        DualLoss(lw.CVaR(0.1)).load_state_dict(first[0].state_dict())


def test_a_mask_a_nan_and_half_precision():
    layer = DualLoss(lw.CVaR(0.5))
    assert layer(torch.tensor([math.nan, 1.0])).isnan()
    assert layer(torch.tensor([math.nan, 1.0, 3.0]), mask=torch.tensor([False, True, True])).item() == pytest.approx(
        3.0
    )
    half = torch.tensor([1.0, 1.01171875, 3.0], dtype=torch.bfloat16)
    assert layer(half).dtype == torch.bfloat16
    assert layer(half).item() == layer(half.float()).bfloat16().item()
    assert copy.deepcopy(layer).weights is None


@pytest.mark.parametrize("risk", [risk for risk in RISKS if not has_dual(risk)], ids=repr)
def test_risks_without_a_dual_of_this_form_are_refused(risk):
    with pytest.raises(ValueError, match="no mean in a dual variable"):
        DualLoss(risk)


def test_a_multi_level_estimate_is_the_known_combination():
    losses = torch.tensor([1.0, 3.0, 2.0, 8.0], dtype=torch.float64, requires_grad=True)
    risk, layer = lw.CVaR(0.5), MLMCLoss(lw.CVaR(0.5), n0=1, n_max=8)
    value = layer(losses)
    value.backward()
    assert value.item() == pytest.approx(1 + 4 * (float(risk([1, 3, 2, 8])) - (3 + 8) / 2))
    np.testing.assert_allclose(losses.grad.numpy(), [1.0, 4 * (0.5 - 0.5), 0.0, 4 * (0.5 - 0.5)])
    np.testing.assert_array_equal(layer.weights.numpy(), losses.grad.numpy())
    assert layer(losses[:2].bfloat16()).dtype == torch.bfloat16
    with pytest.raises(ValueError, match="must have 2, 4, 8 samples"):
        layer(torch.ones(3))


def test_multi_level_estimates_have_the_mean_of_the_largest_batch():
    values = torch.from_numpy(np.random.default_rng(0).exponential(size=50))
    risk = lw.KLCVaR(0.2, 0.3)
    layer, sampler = MLMCLoss(risk, 2, 16), MLMCSampler(50, 2, 16, steps=4_000, seed=1)
    estimates = np.array([layer(values[rows]).item() for rows in sampler])
    draws = np.random.default_rng(2).integers(50, size=(4_000, 16))
    whole = risk(values.numpy()[draws])
    error = math.hypot(estimates.std() / math.sqrt(estimates.size), whole.std() / math.sqrt(whole.size))
    assert abs(estimates.mean() - whole.mean()) < 4 * error
    small = risk(values.numpy()[draws[:, :2]]).mean()
    assert whole.mean() - small > 8 * error  # so the bias of small batches would have been seen


def test_levels_are_drawn_with_their_chances_and_a_pass_goes_on_where_it_was_left():
    sampler = MLMCSampler(7, 3, 30, steps=4000)
    sizes = np.array([len(rows) for rows in sampler])
    assert set(sizes) == {6, 12, 24}
    for size, chance in ((6, 0.5), (12, 0.25), (24, 0.25)):
        assert abs((sizes == size).mean() - chance) < 4 * math.sqrt(chance * (1 - chance) / 4000)
    assert len(sampler) == 4000
    twin = MLMCSampler(7, 3, 30, steps=4000)
    twin.load_state_dict({"step": 3990})
    assert list(twin) == [sampler.batch(t) for t in range(3990, 4000)]
    loader = torch.utils.data.DataLoader(torch.arange(7), batch_sampler=MLMCSampler(7, 3, 30, steps=3))
    assert [len(rows) for rows in loader] == sizes[:3].tolist()


def test_risks_without_a_bounded_variance_warn_and_wrong_numbers_are_refused():
    for risk in (lw.ChiSquare(radius=1.0), lw.Worst()):
        with pytest.warns(UserWarning, match="no bounded variance"):
            MLMCLoss(risk)
    with pytest.raises(ValueError, match="n_max"):
        MLMCLoss(lw.CVaR(0.5), 8, 9)
    with pytest.raises(ValueError, match="steps must be at least 1"):
        MLMCSampler(10, steps=0)
    with pytest.raises(TypeError, match="size must be an integer"):
        MLMCSampler(1.5, steps=1)


@pytest.mark.parametrize("layer", [MLMCLoss(lw.CVaR(0.3), 4, 8), DualLoss(lw.KL(radius=0.3))], ids=["mlmc", "dual"])
def test_a_compiled_step_has_the_same_answers(layer):
    points = torch.arange(8.0)
    layer(points)  # a dual layer starts from its first batch
    torch._dynamo.reset()
    compiled = torch.compile(lambda w: layer(torch.sin(w * points) ** 2), backend="aot_eager", fullgraph=True)
    w, v = (torch.tensor(0.8, requires_grad=True) for _ in range(2))
    layer(torch.sin(w * points) ** 2).backward()
    weights = layer.weights
    compiled(v).backward()
    assert v.grad.item() == pytest.approx(w.grad.item(), rel=1e-6)
    torch.testing.assert_close(layer.weights, weights)
