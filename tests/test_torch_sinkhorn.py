"""`SinkhornLoss`: points and costs, the inner solution against the risks, a remembered eta, and saved runs."""

from __future__ import annotations

import io
import pickle

import numpy as np
import pytest

pytest.importorskip("torch", reason="torch is not installed")

import torch

import leeward as lw
from leeward.torch import SinkhornLoss
from reference.torch_risks import batch

X = torch.from_numpy(batch(12, 3))
Y = torch.from_numpy(batch(12, seed=1))
DIVERGENCES = [
    "kl",
    "chi2",
    "pearson",
    lw.divergences.SmoothedCVaR(0.2),
    lw.divergences.KLCVaR(0.5),
    lw.divergences.CressieRead(3.0),
]


def squared(w):
    return lambda points, targets: 0.5 * (points @ w - targets) ** 2


def weight():
    return torch.tensor([1.0, -0.5, 0.2], dtype=torch.float64, requires_grad=True)


@pytest.mark.parametrize("divergence", DIVERGENCES, ids=repr)
def test_value_and_gradient_are_those_of_the_inner_risk_on_the_drawn_points(divergence):
    layer, w = SinkhornLoss(divergence, lam=2.0, entropy=0.5, noise=0.3, draws=6, seed=3), weight()
    value = layer(squared(w), X, Y)
    value.backward()
    twin = SinkhornLoss(divergence, lam=2.0, entropy=0.5, noise=0.3, draws=6, seed=3)
    points, cost = twin.perturb(X)
    xi = points.numpy().reshape(12, 6, 3)
    np.testing.assert_allclose(cost.numpy(), ((xi - X.numpy()[:, None]) ** 2).sum(-1), atol=1e-14)
    residual = xi @ w.detach().numpy() - Y.numpy()[:, None]
    inner = lw.Sinkhorn(
        lw.LinearModel(np.eye(2), [0.0, 1.0], "squared"), divergence, lam=2.0, entropy=0.5, exact=False
    ).inner
    solution = inner.solve(0.5 * residual**2 - 2.0 * cost.numpy())
    assert value.item() == pytest.approx(solution.value.mean(), abs=1e-13)
    np.testing.assert_allclose(w.grad.numpy(), np.einsum("ij,ijk->k", solution.weights * residual, xi) / 12, atol=1e-13)
    np.testing.assert_allclose(layer.weights.numpy(), solution.weights, atol=1e-13)
    np.testing.assert_allclose(layer.effective_draws.numpy(), solution.effective_sample_size, rtol=1e-12)


@pytest.mark.parametrize(("cost", "order"), [("euclidean", 2), ("l1", 1), ("linf", np.inf)])
def test_costs_are_norms_of_the_displacement_over_all_dimensions(cost, order):
    pictures = torch.zeros(2, 1, 4, 4)
    points, paid = SinkhornLoss(cost=cost, draws=3, bounds=(0.0, 1.0)).perturb(pictures)
    assert points.shape == (6, 1, 4, 4)
    assert points.min() == 0.0
    np.testing.assert_allclose(
        paid.numpy().ravel(), np.linalg.norm(points.numpy().reshape(6, 16), order, axis=1), rtol=1e-6
    )


def test_the_noise_has_its_size_and_is_new_at_each_call_and_a_value_of_the_seed():
    layer, twin, other = (SinkhornLoss(noise=0.3, draws=500, seed=seed) for seed in (1, 1, 2))
    first, _ = layer.perturb(torch.zeros(4, 5))
    assert first.std().item() == pytest.approx(0.3, rel=0.05)
    assert torch.equal(first, twin.perturb(torch.zeros(4, 5))[0])
    assert not torch.equal(first, layer.perturb(torch.zeros(4, 5))[0])
    assert not torch.equal(first, other.perturb(torch.zeros(4, 5))[0])


def test_many_draws_find_the_exact_value_of_a_gaussian_kernel():
    model = lw.LinearModel(X.numpy(), Y.numpy(), "squared", intercept=False)
    exact = lw.Sinkhorn(model, "chi2", lam=5.0, entropy=0.5, noise=0.2, exact=True)
    w = weight()
    layer = SinkhornLoss("chi2", lam=5.0, entropy=0.5, noise=0.2, draws=20_000)
    # 240 000 points whose costs deviate by .5 leave an error of .001
    assert layer(squared(w), X, Y).item() == pytest.approx(exact.value(w.detach().numpy()), abs=4e-3)


@pytest.mark.parametrize("divergence", DIVERGENCES, ids=repr)
def test_a_remembered_eta_gives_the_dual_value_and_comes_near_the_exact_one(divergence):
    options = {"lam": 2.0, "entropy": 0.5, "noise": 0.3, "draws": 6}
    layer, exact, w, v = (
        SinkhornLoss(divergence, inner="sgd", size=20, **options),
        SinkhornLoss(divergence, **options),
        weight(),
        weight(),
    )
    for _ in range(3):
        index = torch.arange(4, 16)
        value, best = layer(squared(w), X, Y, index=index), exact(squared(v), X, Y)
        assert best.item() - 1e-12 <= value.item() <= best.item() + 0.05
    value.backward()
    best.backward()
    np.testing.assert_allclose(w.grad.numpy(), v.grad.numpy(), atol=0.05)
    assert layer.eta[:4].isnan().all()
    assert layer.eta[4:16].isfinite().all()


def test_the_first_visit_of_a_sample_is_exact():
    options = {"draws": 4, "noise": 0.3}
    value = SinkhornLoss(inner="sgd", size=12, **options)(squared(weight()), X, Y, index=torch.arange(12))
    assert value.item() == pytest.approx(SinkhornLoss(**options)(squared(weight()), X, Y).item(), abs=1e-12)


def test_a_run_that_was_saved_and_loaded_has_the_same_bits():
    def made():
        w = weight()
        return w, SinkhornLoss("chi2", inner="sgd", size=12, draws=4), torch.optim.SGD([w], lr=0.1)

    def train(w, layer, optimiser, steps):
        for t in range(*steps):
            rows = torch.arange(t % 3, 12, 3)
            optimiser.zero_grad()
            layer(squared(w), X[rows], Y[rows], index=rows).backward()
            optimiser.step()

    one, first, second = made(), made(), made()
    train(*one, (0, 10))
    train(*first, (0, 5))
    file = io.BytesIO()
    torch.save((first[0], first[1].state_dict()), file)
    file.seek(0)
    w, state = torch.load(file)
    second[1].load_state_dict(state)
    with torch.no_grad():
        second[0].copy_(w)
    train(*second, (5, 10))
    assert torch.equal(one[0], second[0])
    assert torch.equal(one[1].eta, second[1].eta)
    with pytest.raises(RuntimeError, match="size mismatch"):
        SinkhornLoss(inner="sgd", size=13).load_state_dict(state)


def test_a_network_trains_in_float32_and_half_and_copies():
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    layer, labels = SinkhornLoss(draws=3), torch.arange(12) % 2
    optimiser = torch.optim.Adam(net.parameters(), lr=0.05)

    def losses(points, targets):
        return torch.nn.functional.cross_entropy(net(points), targets, reduction="none")

    values = []
    for _ in range(30):
        optimiser.zero_grad()
        values.append(layer(losses, X.float(), labels))
        values[-1].backward()
        optimiser.step()
    assert values[-1] < values[0]
    assert values[0].dtype == torch.float32
    assert layer(lambda points, _: points.sum(1).bfloat16(), X.float(), labels).dtype == torch.bfloat16
    assert pickle.loads(pickle.dumps(layer)).weights is None


def test_what_cannot_be_is_refused_in_words():
    for options, words in (
        ({"divergence": "tv"}, "divergence must be"),
        ({"lam": 0.0}, "lam must be positive"),
        ({"noise": -1.0}, "noise must be positive"),
        ({"cost": "cosine"}, "cost must be"),
        ({"draws": 0}, "draws must be"),
        ({"inner": "newton"}, "inner must be"),
        ({"inner": "sgd"}, "size"),
        ({"size": 5}, "size"),
        ({"inner_step": 0.1}, "inner_step"),
        ({"bounds": (1.0, 0.0)}, "bounds"),
    ):
        with pytest.raises(ValueError, match=words):
            SinkhornLoss(**options)
    with pytest.warns(UserWarning, match="noise augmentation"):
        SinkhornLoss(draws=1)
    layer = SinkhornLoss()
    with pytest.raises(TypeError, match="floating"):
        layer(squared(weight()), X.long(), Y)
    with pytest.raises(ValueError, match="at least one sample"):
        layer(squared(weight()), X[:0], Y[:0])
    with pytest.raises(ValueError, match="one loss a point"):
        layer(lambda points, targets: points.mean(), X, Y)
    with pytest.raises(ValueError, match="index"):
        layer(squared(weight()), X, Y, index=torch.arange(12))
