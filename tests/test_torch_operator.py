"""The operator behind `RobustLoss`: first and second derivatives of every risk, its registration, compilation and transforms."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch", reason="torch is not installed")

import torch

import leeward as lw
from leeward.torch import MLMCLoss, RobustLoss
from reference.torch_risks import BY_SUMS, RISKS, SMOOTH, batch

BASE = torch.from_numpy(batch(8, seed=5) ** 2 + 0.1)


def leaf(*shape, seed=0):
    return torch.from_numpy(batch(*shape, seed=seed)).requires_grad_()


@pytest.mark.parametrize("shape", [(8,), (3, 8)], ids=str)
@pytest.mark.parametrize("risk", RISKS, ids=repr)
def test_gradcheck(risk, shape):
    layer = RobustLoss(risk, "none")
    assert torch.autograd.gradcheck(lambda l: layer(l, sample_weight=BASE), (leaf(*shape),))


@pytest.mark.parametrize("base", [None, BASE], ids=["uniform", "weighted"])
@pytest.mark.parametrize("shape", [(8,), (3, 8)], ids=str)
@pytest.mark.parametrize("risk", SMOOTH, ids=repr)
def test_gradgradcheck(risk, shape, base):
    layer = RobustLoss(risk, "none")
    assert torch.autograd.gradgradcheck(lambda l: layer(l, sample_weight=base), (leaf(*shape),))


@pytest.mark.parametrize("risk", [risk for risk in RISKS if not risk.smooth], ids=repr)
def test_the_second_derivative_of_a_piecewise_linear_risk_is_zero(risk):
    losses = leaf(8)
    (first,) = torch.autograd.grad(RobustLoss(risk)(losses), losses, create_graph=True)
    (second,) = torch.autograd.grad(first @ torch.arange(8.0, dtype=torch.float64), losses)
    assert (second == 0).all()


@pytest.mark.parametrize("risk", [lw.KL(radius=5.0), lw.ChiSquare(radius=50.0), lw.ChiSquare(penalty=1e-3)], ids=repr)
def test_weights_that_sit_on_the_maximum_do_not_bend(risk):
    losses = leaf(8)
    (first,) = torch.autograd.grad(RobustLoss(risk)(losses), losses, create_graph=True)
    assert first.max() == 1.0
    (second,) = torch.autograd.grad(first[0] + 2 * first.max(), losses)
    assert second.abs().max() <= 1e-12


@pytest.mark.parametrize("risk", RISKS, ids=repr)
def test_opcheck(risk):
    name = repr(risk)
    RobustLoss(risk)
    losses = leaf(3, 8)
    torch.library.opcheck(torch.ops.leeward.risk, (losses, BASE, name, "auto"))
    if not risk.smooth:
        return
    _, weights, dual = torch.ops.leeward.risk(losses.detach(), BASE, name, "auto")
    torch.library.opcheck(
        torch.ops.leeward.risk_curve, (losses.detach(), BASE, weights, dual, leaf(3, 8, seed=2), name)
    )


def test_opcheck_of_one_batch_without_weights():
    RobustLoss(lw.CVaR(0.3))
    torch.library.opcheck(torch.ops.leeward.risk, (leaf(8), None, repr(lw.CVaR(0.3)), "auto"))


@pytest.mark.parametrize("risk", BY_SUMS[::5], ids=repr)
def test_opcheck_of_the_solver_of_pytorch_operations(risk):
    RobustLoss(risk)
    torch.library.opcheck(torch.ops.leeward.risk, (leaf(3, 8), BASE, repr(risk), "torch"))


@pytest.mark.parametrize(
    "risk", [lw.CVaR(0.3), lw.ChiSquare(radius=0.6), lw.Spectral([0.0, 1.0], penalty=0.5)], ids=repr
)
def test_vmap_grad_and_jacrev_agree_with_rows_and_with_autograd(risk):
    layer = RobustLoss(risk)
    rows = torch.from_numpy(batch(4, 8))
    expected = risk.solve(batch(4, 8))
    np.testing.assert_allclose(torch.func.vmap(layer)(rows).numpy(), expected.value, atol=1e-13)
    np.testing.assert_allclose(torch.func.vmap(torch.func.grad(layer))(rows).numpy(), expected.weights, atol=1e-13)
    np.testing.assert_allclose(torch.func.vmap(layer, in_dims=1)(rows.t()).numpy(), expected.value, atol=1e-13)
    weighted = torch.func.vmap(lambda l, p: layer(l, sample_weight=p), in_dims=(0, None))(rows, BASE)
    np.testing.assert_allclose(weighted.numpy(), risk(batch(4, 8), BASE.numpy()), atol=1e-13)
    hessian = torch.func.jacrev(torch.func.grad(layer))(rows[0])
    np.testing.assert_allclose(hessian.numpy(), torch.autograd.functional.hessian(layer, rows[0]).numpy(), atol=1e-12)
    per_row = torch.func.vmap(torch.func.jacrev(torch.func.grad(layer)))(rows)
    np.testing.assert_allclose(per_row[0].numpy(), hessian.numpy(), atol=1e-12)


def test_nothing_of_a_transform_is_kept():
    layer, multilevel = RobustLoss(lw.CVaR(0.3)), MLMCLoss(lw.CVaR(0.3), 4, 8)
    layer(torch.ones(3))
    torch.func.vmap(layer)(torch.ones(2, 3))
    torch.func.grad(multilevel)(torch.ones(8))
    assert layer.weights is multilevel.weights is None


@pytest.mark.parametrize("risk", SMOOTH, ids=repr)
def test_second_derivatives_at_ties_are_finite(risk):
    for values in (np.ones(6), np.array([1.0, 1.0, 2.0, 2.0, 3.0, 3.0]), np.array([1e8, -1e8, 0.0])):
        for engine in ("auto", "torch"):
            if engine == "torch" and risk not in BY_SUMS:
                continue
            losses = torch.from_numpy(values).requires_grad_()
            layer = RobustLoss(risk, engine=engine)
            hessian = torch.autograd.functional.hessian(layer, losses)
            assert hessian.isfinite().all()
            np.testing.assert_allclose(hessian.numpy(), hessian.numpy().T, atol=1e-9)
            np.testing.assert_allclose(hessian.sum(dim=0).numpy(), 0, atol=1e-9)


def test_gradients_in_batches_agree_with_one_at_a_time():
    losses, layer = leaf(8), RobustLoss(lw.KL(penalty=0.4))
    (first,) = torch.autograd.grad(layer(losses), losses, create_graph=True)
    (together,) = torch.autograd.grad(first, losses, torch.eye(8, dtype=torch.float64), is_grads_batched=True)
    np.testing.assert_allclose(
        together.numpy(), torch.autograd.functional.hessian(layer, losses.detach()).numpy(), atol=1e-14
    )


def test_a_third_derivative_is_refused():
    losses, layer = leaf(8), RobustLoss(lw.KL(penalty=0.4))
    (first,) = torch.autograd.grad(layer(losses), losses, create_graph=True)
    (second,) = torch.autograd.grad(first[0], losses, create_graph=True)
    with pytest.raises(NotImplementedError, match="third derivative"):
        torch.autograd.grad(second[0], losses)


@pytest.mark.parametrize("weight", [None, torch.ones(8, dtype=torch.float64)], ids=["plain", "weights"])
@pytest.mark.parametrize("create_graph", [False, True])
def test_no_part_of_a_third_derivative_comes_back_without_the_rest(weight, create_graph):
    losses, layer = leaf(8), RobustLoss(lw.KL(penalty=0.4))
    (first,) = torch.autograd.grad(layer(losses, sample_weight=weight), losses, create_graph=True)
    (second,) = torch.autograd.grad((first**2).sum(), losses, create_graph=True)  # the vector depends on the losses too
    with pytest.raises(NotImplementedError, match="third derivative"):
        torch.autograd.grad(second[0], losses, create_graph=create_graph, retain_graph=True)
    with pytest.raises(NotImplementedError, match="third derivative"):
        second[0].backward()


def test_the_second_derivative_is_linear_in_a_vector_that_is_learned():
    losses, layer = leaf(8), RobustLoss(lw.KL(penalty=0.4))
    vector = torch.arange(8.0, dtype=torch.float64).requires_grad_()
    (first,) = torch.autograd.grad(layer(losses), losses, create_graph=True)
    (second,) = torch.autograd.grad(first, losses, vector, create_graph=True)
    (by_vector,) = torch.autograd.grad(second[0], vector)
    expected = torch.autograd.functional.hessian(layer, losses.detach())[0]
    np.testing.assert_allclose(by_vector.numpy(), expected.numpy(), atol=1e-14)


@pytest.mark.parametrize(
    "options", [{}, {"mask": torch.arange(8) % 3 > 0}, {"sample_weight": BASE}], ids=["plain", "mask", "weights"]
)
def test_a_compiled_step_is_one_graph_with_the_same_answers(options):
    layer = RobustLoss(lw.ChiSquare(radius=0.6))

    def step(w):
        return layer(torch.sin(w * torch.arange(8.0, dtype=torch.float64)) ** 2, **options)

    torch._dynamo.reset()
    compiled = torch.compile(step, backend="aot_eager", fullgraph=True)
    for value in (0.3, 0.8):
        w, v = (torch.tensor(value, dtype=torch.float64, requires_grad=True) for _ in range(2))
        step(w).backward()
        compiled(v).backward()
        assert v.grad.item() == pytest.approx(w.grad.item(), abs=1e-13)
    assert layer.weights.sum().item() == pytest.approx(1.0)


def test_an_exported_program_finds_its_risk_by_name():
    from leeward.torch import _families

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.loss = RobustLoss(lw.Spectral.extremile(2.0))

        def forward(self, x):
            return self.loss(x)

    program = torch.export.export(Net(), (torch.ones(5),)).module()
    _families._named.clear()
    assert program(torch.tensor([0.0, 0.0, 0.0, 0.0, 1.0])).item() == pytest.approx(0.36)
    with pytest.raises(ValueError, match="not the name of a risk"):
        torch.ops.leeward.risk(torch.ones(2), None, "errors.OracleError('x')", "auto")
