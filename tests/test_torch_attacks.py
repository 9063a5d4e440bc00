"""Attacks on modules: those on linear models again, inside the ball and the bounds, leaving the module as it was."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="torch is not installed")

import torch

import leeward as lw
from leeward.torch import attacks

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 6))
Y = RNG.integers(0, 3, 40)
MODEL = lw.LinearModel(X, Y, "softmax")
W = RNG.normal(size=MODEL.dim)


def linear() -> torch.nn.Module:
    net = torch.nn.Linear(6, 3, dtype=torch.float64)
    with torch.no_grad():
        net.weight.copy_(torch.from_numpy(W[:18].reshape(3, 6)))
        net.bias.copy_(torch.from_numpy(W[18:]))
    return net


def network() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Conv2d(1, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU(), torch.nn.Dropout(0.5), torch.nn.Flatten(),
        torch.nn.Linear(4 * 36, 5),
    )  # fmt: skip


IMAGES = torch.rand(12, 1, 8, 8, generator=torch.Generator().manual_seed(1))
LABELS = torch.arange(12) % 5
ALL = [
    ("fgsm", {}),
    ("pgd", {"steps": 7, "step": 0.03}),
    ("pgd", {"norm": "l2", "steps": 9}),
    ("pgd", {"norm": "l2", "bounds": (-1.0, 1.0), "steps": 3}),
    ("mim", {"steps": 8, "momentum": 0.7}),
]


@pytest.mark.parametrize(("name", "settings"), ALL, ids=str)
def test_linear_modules_are_moved_as_linear_models(name: str, settings: dict[str, Any]) -> None:
    x = np.clip(X, -1, 1) if "bounds" in settings else X
    expected = getattr(lw.attacks, name)((MODEL, W), x, Y, 0.2, **settings)
    moved = getattr(attacks, name)(linear(), torch.from_numpy(x), torch.from_numpy(Y), 0.2, **settings)
    np.testing.assert_allclose(moved.numpy(), expected, atol=1e-12)


@pytest.mark.parametrize(
    ("name", "settings"), [("fgsm", {}), ("pgd", {}), ("pgd", {"norm": "l2", "random_start": True}), ("mim", {})]
)
def test_a_network_is_attacked_in_evaluation_mode_and_left_as_it_was(name: str, settings: dict[str, Any]) -> None:
    net = network().train()
    net[1].eval()  # frozen, as users do
    modes = [part.training for part in net.modules()]
    state = {key: value.clone() for key, value in net.state_dict().items()}
    net[0].weight.grad = torch.ones_like(net[0].weight)
    with torch.inference_mode():
        moved = getattr(attacks, name)(net, IMAGES + 0, LABELS + 0, 0.1, bounds=(0.0, 1.0), **settings)
    assert [part.training for part in net.modules()] == modes
    assert all(torch.equal(value, state[key]) for key, value in net.state_dict().items())
    assert torch.equal(net[0].weight.grad, torch.ones_like(net[0].weight))
    assert not moved.requires_grad
    assert moved.min() >= 0.0
    assert moved.max() <= 1.0
    size = (moved - IMAGES).flatten(1)
    assert (size.norm(dim=1) if settings.get("norm") == "l2" else size.abs().amax(dim=1)).max() <= 0.1 + 1e-6

    def losses(x: Any) -> Any:
        return torch.nn.functional.cross_entropy(net.eval()(x), LABELS, reduction="none")

    assert losses(moved).mean() > losses(IMAGES).mean()
    again = getattr(attacks, name)(net.train(), IMAGES, LABELS, 0.1, bounds=(0.0, 1.0), **settings)
    assert torch.equal(again, moved)  # no dropout in between


def test_more_steps_raise_the_loss_more_and_seeds_matter() -> None:
    net = network().eval()

    def loss(x: Any) -> float:
        return torch.nn.functional.cross_entropy(net(x), LABELS).item()

    one, many = (attacks.pgd(net, IMAGES, LABELS, 0.1, steps=k, step=0.1 / min(k, 4)) for k in (1, 20))
    assert loss(many) > loss(one) > loss(IMAGES)
    starts = [attacks.pgd(net, IMAGES, LABELS, 0.1, steps=1, step=1e-3, random_start=True, seed=s) for s in (0, 0, 1)]
    assert torch.equal(starts[0], starts[1])
    assert not torch.equal(starts[0], starts[2])
    inside = (starts[2] - IMAGES).flatten(1)
    assert inside.abs().max() <= 0.1 + 1e-6
    assert inside.std() == pytest.approx(0.1 / 3**0.5, rel=0.1)  # uniform


def test_losses_and_callables_of_your_own() -> None:
    w = torch.tensor([1.0, -2.0])
    x, y = torch.zeros(3, 2), torch.tensor([1.0, -1.0, 2.0])
    moved = attacks.fgsm(lambda t: t @ w, x, y, 0.5, loss=lambda z, y: (z - y) ** 2)
    assert torch.equal(moved, torch.sign(-y)[:, None] * torch.tensor([0.5, -0.5]))
    assert torch.equal(attacks.mim(lambda t: t @ w, x, y, 0.0, loss=lambda z, y: (z - y) ** 2), x)
    assert attacks.fgsm(network(), IMAGES[:0], LABELS[:0], 0.1).shape == (0, 1, 8, 8)


def test_bounds_are_numbers_or_tensors_of_any_type() -> None:
    plain = attacks.pgd(network(), IMAGES, LABELS, 0.3, bounds=(0.0, 1.0))
    ends = torch.zeros(8, 8, dtype=torch.float64), torch.ones(8, 8, dtype=torch.float64)
    for bounds in (ends, (0, ends[1]), (ends[0], 1.0)):
        assert torch.equal(attacks.pgd(network(), IMAGES, LABELS, 0.3, bounds=bounds), plain)


@pytest.mark.parametrize("slope", [1e-30, 1.0, 1e30])
def test_steps_have_their_length_where_gradients_cannot_be_squared(slope: float) -> None:
    x = torch.zeros(2, 2)
    for move, one in (
        (
            attacks.pgd(lambda t: t @ torch.tensor([3.0, 4.0]) * slope, x, None, 0.5, norm="l2", loss=lambda z, y: z),
            False,
        ),
        (attacks.pgd(lambda t: t * slope, x[:, 0], None, 0.5, norm="l2", loss=lambda z, y: z), True),
        (attacks.mim(lambda t: t * slope, x[:, 0], None, 0.5, loss=lambda z, y: z), True),
    ):
        torch.testing.assert_close(move, torch.full((2,), 0.5) if one else torch.tensor([[0.3, 0.4]] * 2))


@pytest.mark.parametrize(
    ("change", "kind", "words"),
    [
        ({"epsilon": -1.0}, ValueError, "epsilon must be finite and at least 0, got -1"),
        ({"x": IMAGES.numpy()}, TypeError, "x must be a tensor of a floating type, got ndarray"),
        ({"x": LABELS}, TypeError, "x must be a tensor of a floating type, got torch.int64"),
        ({"x": torch.tensor(1.0)}, ValueError, "x must have a dimension of samples"),
        ({"bounds": (0.5, 1.0)}, ValueError, "inputs lie outside bounds"),
        ({"bounds": (0.0, None)}, TypeError, r"bounds must be a pair \(lower, upper\) .*, got \(0.0, None\)"),
        ({"loss": torch.nn.CrossEntropyLoss()}, ValueError, r"one loss a sample, shape \(12,\), got \(\)"),
        ({"steps": 0}, ValueError, "steps must be a whole number of at least 1, got 0"),
        ({"step": -0.1}, ValueError, "step must be positive and finite, got -0.1"),
        ({"norm": "l1"}, ValueError, "norm must be 'linf' or 'l2', got 'l1'"),
        ({"random_start": 1}, TypeError, "random_start must be True or False, got 1"),
    ],
    ids=lambda v: str(v)[:40],
)
def test_what_makes_no_sense_is_refused(change: dict[str, Any], kind: type[Exception], words: str) -> None:
    given: dict[str, Any] = {"model": network(), "x": IMAGES, "y": LABELS, "epsilon": 0.1, **change}
    with pytest.raises(kind, match=words):
        attacks.pgd(**given)
    with pytest.raises(ValueError, match="momentum must be finite and at least 0, got -1"):
        attacks.mim(network(), IMAGES, LABELS, 0.1, momentum=-1)
