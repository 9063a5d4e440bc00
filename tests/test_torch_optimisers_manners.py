"""The manners of PyTorch's optimisers in `leeward.torch.SCSG`, `STORM`, `PMVR` and `SMVR`: groups, states, precision, refusals."""

from __future__ import annotations

import contextlib
import copy
import io
import itertools

import numpy as np
import pytest

pytest.importorskip("torch", reason="torch is not installed")

import torch

from leeward.torch import PMVR, SCSG, SMVR, STORM
from test_torch_optimisers import BATCHES, START, X_, Y_, D, closure_on, gradient, parameter


def network():
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Linear(D, 4), torch.nn.Tanh(), torch.nn.Dropout(0.3), torch.nn.Linear(4, 1)
    ).double()


def network_step(optimiser, net, batch):
    """One step of any of the optimisers on a small problem."""
    target = Y_[batch]
    if isinstance(optimiser, PMVR | SMVR):
        moments = lambda: torch.stack([(e := net(X_[batch])[:, 0] - target).mean(), (e**2).mean()])  # noqa: E731
        return optimiser.step([moments, lambda u: u[1] - u[0] ** 2 / 2 + 0.01 * net[0].weight.square().sum()])

    def closure():
        optimiser.zero_grad()
        loss = ((net(X_[batch])[:, 0] - target) ** 2).mean()
        loss.backward()
        return loss

    return optimiser.step(closure)


MADE = {
    "scsg": lambda params, **more: SCSG(params, lr=0.05, batches=2, seed=1, **more),
    "storm": lambda params, **more: STORM(params, lr=0.05, c=100.0, **more),
    "pmvr": lambda params, **more: PMVR(params, lr=0.05, beta=0.3, **more),
    "smvr": lambda params, **more: SMVR(params, lr=0.05, beta=0.3, **more),
}
ALL = pytest.mark.parametrize("name", MADE)


def closure_on_product(w, v):
    def closure():
        loss = ((X_ @ (w * v) - Y_) ** 2).mean()
        loss.backward()
        return loss

    return closure


@ALL
def test_a_run_that_was_saved_and_loaded_has_the_same_bits(name):
    def made():
        net = network()
        optimiser = MADE[name](net.parameters(), momentum=0.5, weight_decay=0.01)
        return net, optimiser, torch.optim.lr_scheduler.StepLR(optimiser, 5, 0.5)

    def train(net, optimiser, scheduler, batches):
        for batch in batches:
            network_step(optimiser, net, batch)
            scheduler.step()

    for half in (1, 11):
        one, two, three = made(), made(), made()
        train(*one, BATCHES[:24])
        torch.manual_seed(0)
        network()
        train(*two, BATCHES[:half])
        file = io.BytesIO()
        torch.save([part.state_dict() for part in two] + [torch.get_rng_state()], file)
        file.seek(0)
        *states, numbers = torch.load(file)
        for part, state in zip(three, states, strict=True):
            part.load_state_dict(state)
        torch.set_rng_state(numbers)
        train(*three, BATCHES[half:24])
        for a, b in zip(one[0].parameters(), three[0].parameters(), strict=True):
            assert torch.equal(a, b)


def test_a_stage_is_finished_with_the_batches_it_was_begun_with():
    w = parameter()
    one = SCSG([w], lr=0.05, batches=5, inner="mean")
    closure = closure_on_product(w, torch.ones(D, dtype=torch.float64))
    for _ in range(4):
        one.step(closure)
    two = SCSG([w], lr=0.05, batches=2, inner="mean")
    two.load_state_dict(one.state_dict())
    collecting = []
    for _ in range(10):
        collecting.append(two.collecting)
        two.step(closure)
    assert collecting == [True] + [False] * 5 + [True] * 2 + [False] * 2


@ALL
def test_both_points_see_the_same_dropout_and_the_random_numbers_go_on_once(name):
    net, seen, states = network(), [], []
    net[2].register_forward_hook(lambda module, given, out: seen.append(out.detach() == 0))
    optimiser = MADE[name](net.parameters())
    for batch in BATCHES[:12]:
        seen.clear()
        network_step(optimiser, net, batch)
        assert all(torch.equal(seen[0], mask) for mask in seen)
        states.append(seen[0])
    assert any(not torch.equal(a, b) for a, b in itertools.pairwise(states))


@ALL
def test_frozen_and_unused_parameters_stay_and_a_missing_gradient_is_zero(name):
    net = network()
    idle = torch.nn.Parameter(torch.ones(2, dtype=torch.float64))
    net[0].bias.requires_grad_(False)
    before = net[0].bias.clone()
    optimiser = MADE[name]([*net.parameters(), idle], weight_decay=0.1)
    for batch in BATCHES[:8]:
        network_step(optimiser, net, batch)
    assert torch.equal(net[0].bias, before)
    assert torch.equal(idle, torch.ones(2, dtype=torch.float64))
    net[3].bias.requires_grad_(False)  # in the middle of a run
    kept, weight = net[3].bias.clone(), net[3].weight.clone()
    for batch in BATCHES[8:12]:
        network_step(optimiser, net, batch)
    assert torch.equal(net[3].bias, kept)
    assert not torch.equal(net[3].weight, weight)


def test_a_stage_takes_parameters_that_froze_where_they_stand():
    w, v = parameter(), torch.ones(D, dtype=torch.float64, requires_grad=True)
    optimiser = SCSG([w, v], lr=0.05, batches=2, inner="mean")
    closure = closure_on_product(w, v)
    for _ in range(4):
        optimiser.step(closure)  # a stage that moves both
    w.requires_grad_(False)
    for _ in range(8):  # the same batch each time: directions are gradients here
        inner, (g,) = not optimiser.collecting, torch.autograd.grad(((X_ @ (w * v) - Y_) ** 2).mean(), v)
        optimiser.step(closure)
        if inner:
            np.testing.assert_allclose(v.grad, g, rtol=1e-12)


def test_parameters_that_train_again_in_a_snapshot_wait_for_the_next_stage():
    w, v = parameter(), torch.ones(D, dtype=torch.float64, requires_grad=True)
    optimiser = SCSG([w, v], lr=0.05, batches=3, inner="mean")
    closure = closure_on_product(w, v)
    for frozen in (False, True, False):
        w.requires_grad_(not frozen)
        optimiser.step(closure)
    place = w.detach().clone()
    for _ in range(3):
        optimiser.step(closure)
    assert torch.equal(w, place)
    for _ in range(6):
        optimiser.step(closure)
    assert not torch.equal(w, place)


def test_a_parameter_that_one_batch_leaves_out_moves_by_what_is_kept_of_it():
    w, v = parameter(), parameter()
    optimiser = STORM([w, v], lr=0.1, beta=0.25)
    optimiser.step(closure_on(w + v, BATCHES[0]))
    g, place = gradient(2 * START, BATCHES[0]), v.detach().clone()

    def without():  # the gradient in v is None at both points
        loss = ((X_[BATCHES[1]] @ w - Y_[BATCHES[1]]) ** 2).mean()
        loss.backward()
        return loss

    optimiser.step(without)
    np.testing.assert_allclose(v.detach(), place.numpy() - 0.1 * 0.75 * g, atol=1e-14)


@ALL
def test_groups_have_their_own_steps_and_options(name):
    net = network()
    first, second = list(net[0].parameters()), list(net[3].parameters())
    optimiser = MADE[name]([{"params": first, "lr": 0.0}, {"params": second, "weight_decay": 0.5}])
    start = [p.clone() for p in net.parameters()]
    for batch in BATCHES[:6]:
        network_step(optimiser, net, batch)
    moved = [not torch.equal(a, b) for a, b in zip(start, net.parameters(), strict=True)]
    assert moved == [False, False, True, True]
    optimiser.add_param_group({"params": [torch.nn.Parameter(torch.zeros(1, dtype=torch.float64))], "lr": 0.3})
    network_step(optimiser, net, BATCHES[6])
    with pytest.raises(ValueError, match=r"lr must be in \[0, inf\), got -1.0"):
        optimiser.add_param_group({"params": [torch.nn.Parameter(torch.zeros(1))], "lr": -1.0})
    assert len(optimiser.param_groups) == 3


@pytest.mark.parametrize("name", ["scsg", "storm", "pmvr"])
def test_a_gradient_scaler_changes_nothing_and_skips_what_is_not_finite(name):
    def run(scaled):
        net = network().float()
        optimiser = MADE[name](net.parameters())
        scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10, growth_interval=3, enabled=scaled)
        for t, batch in enumerate(BATCHES[:14]):
            inputs = X_[batch].float()
            if scaled and t in (2, 7):  # a batch that overflows is as if it had not been
                step(optimiser, net, inputs * float("inf"), Y_[batch].float(), scaler)
            step(optimiser, net, inputs, Y_[batch].float(), scaler)
        return torch.cat([p.detach().reshape(-1) for p in net.parameters()]), scaler

    def step(optimiser, net, inputs, target, scaler):
        net.eval()  # no dropout: the runs draw differently

        def closure():
            loss = ((net(inputs)[:, 0] - target) ** 2).mean()
            scaler.scale(loss).backward()
            return loss

        levels = [lambda: (net(inputs)[:, 0] - target).square().mean(), lambda u: torch.log1p(u)]
        before = [p.detach().clone() for p in net.parameters()]
        optimiser.step(levels if name == "pmvr" else closure, scaler=scaler)
        if not inputs.isfinite().all():
            assert all(torch.equal(a, b) for a, b in zip(before, net.parameters(), strict=True))
        scaler.update()

    (plain, _), (scaled, scaler) = run(False), run(True)
    torch.testing.assert_close(scaled, plain, rtol=1e-5, atol=1e-6)
    assert scaler.get_scale() != 2.0**10


@ALL
def test_autocast_around_a_step_is_that_in_the_closure_and_states_have_the_parameters_type(name):
    def run(around):
        net = network().float()
        optimiser = MADE[name](net.parameters())
        for batch in BATCHES[:8]:
            inputs, target = X_[batch].float(), Y_[batch].float()

            def losses(inputs=inputs, target=target):
                with contextlib.nullcontext() if around else torch.autocast("cpu", dtype=torch.bfloat16):
                    return (net(inputs)[:, 0].float() - target).square().mean()

            def closure(losses=losses):
                loss = losses()
                loss.backward()
                return loss

            levels = isinstance(optimiser, PMVR | SMVR)
            with torch.autocast("cpu", dtype=torch.bfloat16) if around else contextlib.nullcontext():
                optimiser.step([losses, lambda u: u**2] if levels else closure)
        return net, optimiser

    (net, optimiser), (other, _) = run(True), run(False)
    for p, q in zip(net.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(p, q)
    states = [v for p in net.parameters() for v in optimiser.state[p].values()]
    assert states
    assert all(v.dtype == torch.float32 and v.isfinite().all() for v in states)
    assert all(value.dtype == torch.float32 for value in optimiser.state["run"].get("values", []))


@ALL
def test_clipping_bounds_the_move(name):
    net = network()
    optimiser = MADE[name](net.parameters(), max_norm=1e-3)
    for batch in BATCHES[:6]:
        before = torch.nn.utils.parameters_to_vector(net.parameters()).clone()
        network_step(optimiser, net, batch)
        moved = torch.linalg.norm(torch.nn.utils.parameters_to_vector(net.parameters()) - before)
        assert moved <= 0.05 * 1e-3 * (1 + 1e-9)


@ALL
def test_copies_of_an_optimiser_go_on_alike(name):
    net = network().eval()
    optimiser = MADE[name](net.parameters(), momentum=0.5)
    for batch in BATCHES[:4]:
        network_step(optimiser, net, batch)
    other, twin = copy.deepcopy((optimiser, net))
    for batch in BATCHES[4:9]:
        network_step(optimiser, net, batch)
        network_step(other, twin, batch)
    assert all(torch.equal(a, b) for a, b in zip(net.parameters(), twin.parameters(), strict=True))


def test_an_error_in_the_closure_leaves_the_parameters_where_they_were():
    w = parameter()
    optimiser = STORM([w], lr=0.1)
    optimiser.step(closure_on(w, BATCHES[0]))
    place = w.detach().clone()
    with pytest.raises(ZeroDivisionError):
        optimiser.step(lambda: 1 / 0)
    assert torch.equal(w, place)


@pytest.mark.parametrize("made", [SCSG, STORM, PMVR], ids=lambda c: c.__name__)
def test_sparse_gradients_are_refused(made):
    table = torch.nn.Embedding(5, 2, sparse=True)

    def value():
        return table(torch.tensor([1, 2])).square().sum()

    def closure():
        value().backward()

    with pytest.raises(RuntimeError, match=r"takes no sparse gradients.*use sparse=False"):
        made(table.parameters()).step([value] if made is PMVR else closure)


@pytest.mark.parametrize(
    ("made", "options", "error", "words"),
    [
        (SCSG, {"batches": 0}, ValueError, "batches must be at least 1, got 0"),
        (SCSG, {"batches": 2.5}, TypeError, "batches must be an integer, got 2.5"),
        (SCSG, {"inner": "slices"}, ValueError, "inner must be 'geometric' or 'mean', got 'slices'"),
        (SCSG, {"exponent": 2.0}, ValueError, r"exponent must be in \[0, 1\], got 2.0"),
        (STORM, {"beta": 0.0}, ValueError, r"beta must be in \(0, 1\], got 0.0"),
        (STORM, {"c": -1.0}, ValueError, r"c must be in \(0, inf\), got -1.0"),
        (PMVR, {"lr": float("nan")}, ValueError, "lr must be in"),
        (SMVR, {"max_norm": "1"}, TypeError, "max_norm must be a number or None, got '1'"),
    ],
)
def test_options_are_checked(made, options, error, words):
    with pytest.raises(error, match=words):
        made([parameter()], **options)


def test_what_a_step_needs_is_said():
    w = parameter()
    for made in (SCSG, STORM):
        with pytest.raises(TypeError, match="needs a closure"):
            made([w]).step(None)
    optimiser = PMVR([w])
    for levels, error, words in (
        (None, TypeError, "needs the levels"),
        ([], TypeError, "needs the levels"),
        ([lambda: 1.0], TypeError, "level 1 must return a torch.Tensor, got float"),
        ([lambda: torch.ones(1)], ValueError, "level 1 must return what a gradient to the parameters"),
        (
            [lambda: w.sum(), lambda u: u.detach()],
            ValueError,
            "level 2 must return what a gradient to the value of level 1",
        ),
        ([lambda: w], ValueError, "the last level must return one number"),
    ):
        with pytest.raises(error, match=words):
            optimiser.step(levels)
    optimiser.step([lambda: w.sum()])
    with pytest.raises(ValueError, match="levels must be 1, as in the steps before, got 2"):
        optimiser.step([lambda: w.sum(), lambda u: u])


@pytest.mark.parametrize("made", [PMVR, SMVR], ids=lambda c: c.__name__)
def test_levels_that_change_shape_are_named(made):
    w = parameter()
    optimiser = made([w])
    optimiser.step([lambda: X_[:5] @ w, lambda u: u.mean()])
    place = w.detach().clone()
    with pytest.raises(ValueError, match=r"level 1 must return shape \(5,\) in each step, got \(6,\)"):
        optimiser.step([lambda: X_[:6] @ w, lambda u: u.mean()])
    assert torch.equal(w, place)


def test_jacobians_of_one_level_without_gradients_around_and_of_mixed_precision():
    idle, w, same = parameter(), parameter(), parameter()
    levels = [lambda: ((X_ @ w - Y_) ** 2).mean()]
    optimiser, other = SMVR([idle, w], lr=0.05), PMVR([same], lr=0.05)
    with torch.no_grad():
        for _ in range(3):
            optimiser.step(levels)
            other.step([lambda: ((X_ @ same - Y_) ** 2).mean()])
    np.testing.assert_allclose(w.detach(), same.detach(), atol=1e-14)
    single, double = (torch.ones(D, dtype=torch.float32, requires_grad=True) for _ in range(2))
    for p, mixed in ((single, True), (double, False)):
        optimiser = SMVR([p], lr=0.05)
        for _ in range(3):
            optimiser.step(
                [lambda p=p: X_.float() @ p, lambda u, m=mixed: u.double() if m else u, lambda u: (u**2).mean()]
            )
    np.testing.assert_allclose(single.detach(), double.detach(), rtol=1e-5)
    with pytest.raises(TypeError, match=r"level 1 must return real numbers.*, got torch.complex128"):
        SMVR([w]).step([lambda: w * 1j, lambda u: u.abs().sum()])
