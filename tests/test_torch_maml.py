"""`leeward.torch.MAML`: K steps of gradient descent on each task as levels that answer products."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

pytest.importorskip("torch", reason="torch is not installed")

import torch

import leeward as lw
from leeward.testing import check_level
from leeward.torch import MAML
from reference import compositions as twins

TASKS, N, Q = 3, 6, 4
square = torch.nn.functional.mse_loss


class Network(torch.nn.Module):
    """Two inputs, one output, 8 parameters that train and one that does not."""

    def __init__(self):
        super().__init__()
        self.inner, self.outer = torch.nn.Linear(2, 2), torch.nn.Linear(2, 1, bias=False)
        self.shift = torch.nn.Parameter(torch.tensor(0.3), requires_grad=False)

    def forward(self, x):
        return self.outer(torch.tanh(self.inner(x) + self.shift))


def made(dtype=torch.float64):
    torch.manual_seed(0)
    net = Network().to(dtype)
    support = (torch.randn(TASKS, N, 2, dtype=dtype), torch.randn(TASKS, N, 1, dtype=dtype))
    query = (torch.randn(TASKS, Q, 2, dtype=dtype), torch.randn(TASKS, Q, 1, dtype=dtype))
    return net, support, query


def direct(net, support, query, steps, lr):
    """Value and gradient of meta-learning by differentiation through the loop, task by task."""
    start = {name: p for name, p in net.named_parameters() if p.requires_grad}
    total = torch.zeros((), dtype=torch.float64)
    for m in range(TASKS):
        weights = start
        for _ in range(steps):
            loss = square(torch.func.functional_call(net, weights, (support[0][m],)), support[1][m])
            slopes = torch.autograd.grad(loss, list(weights.values()), create_graph=True)
            weights = {name: p - lr * g for (name, p), g in zip(weights.items(), slopes, strict=True)}
        total = total + square(torch.func.functional_call(net, weights, (query[0][m],)), query[1][m]) / TASKS
    gradient = torch.autograd.grad(total, list(start.values()))
    return total.item(), torch.cat([g.reshape(-1) for g in gradient]).numpy()


@pytest.mark.parametrize("sample", ["data", "tasks"])
@pytest.mark.parametrize("steps", [1, 2, 3])
def test_value_and_gradient_are_those_of_differentiation_through_the_loop(steps, sample):
    net, support, query = made()
    problem = MAML(net, square, support, query, steps=steps, lr=0.4, sample=sample)
    assert problem.depth == (steps + 1 if sample == "data" else 1)
    value, gradient = direct(net, support, query, steps, 0.4)
    found = problem.evaluate(problem.start())
    assert found.value == pytest.approx(value, abs=1e-10)
    np.testing.assert_allclose(found.gradient, gradient, rtol=0, atol=1e-10)
    w, h = problem.start(), 1e-5
    slopes = [(problem.value(w + h * e) - problem.value(w - h * e)) / (2 * h) for e in np.eye(problem.dim)]
    np.testing.assert_allclose(found.gradient, slopes, rtol=0, atol=1e-8)


@pytest.mark.parametrize("sample", ["data", "tasks"])
def test_levels_pass_the_check_of_levels(sample):
    net, support, query = made()
    problem = MAML(net, square, support, query, steps=2, lr=0.4, sample=sample)
    rng = np.random.default_rng(0)
    for level in problem.levels:
        assert level.pushes
        assert not level.jacobians
        check_level(level, 0.5 * rng.standard_normal(level.inputs), rng.integers(level.size, size=5))


def test_the_query_is_the_support_by_default():
    net, support, _ = made()
    one, other = MAML(net, square, support, lr=0.4), MAML(net, square, support, support, lr=0.4)
    assert one.value(one.start()) == other.value(one.start())


def test_all_samples_and_the_last_product_method_make_gradient_descent():
    net, support, query = made()
    problem = MAML(net, square, support, query, steps=2, lr=0.4, l2=0.1)
    w = problem.start()
    for _ in range(6):
        w = w - 0.2 * problem.evaluate(w).gradient
    for method in (lw.PMVR(batch=N, step=0.2), lw.SCSC(batch=N, step=0.2)):
        result = lw.minimize(problem, algorithm=method, max_passes=6 * 2, tol=0.0, trace=1)
        steps = len(result.trace.objective) - 1
        reached = problem.start()
        for _ in range(steps):
            reached = reached - 0.2 * problem.evaluate(reached).gradient
        assert steps >= 6
        np.testing.assert_allclose(result.trace.objective[-1], problem.value(reached), rtol=0, atol=1e-12)


def test_pmvr_on_draws_follows_its_twin():
    net, support, query = made()
    problem = MAML(net, square, support, query, steps=2, lr=0.4)

    def twin(level):
        eye = np.eye(level.outputs)
        return twins.Level(level.value, lambda u, index: np.array([level.vjp(u, e, index) for e in eye]), level.size)

    settings = twins.Settings(batch=2, first=2, seed=3, betas=[lambda t: 0.3])
    expected = twins.run(
        twins.PMVR([twin(level) for level in problem.levels], settings),
        lambda w, v, lr, t: w - lr * v,
        problem.start(),
        0.2,
        8,
    )
    seen = []
    lw.minimize(
        problem, algorithm=lw.PMVR(batch=2, beta=0.3, step=0.2), seed=3, max_passes=8, trace=1, tol=0.0,
        callback=lambda state: seen.append(state.w.copy()),
    )  # fmt: skip
    assert len(seen) >= 8
    for w, reference in zip(seen[:8], expected[: len(seen)], strict=False):
        np.testing.assert_allclose(w, reference, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("method", "sample"),
    [
        (lw.PMVR(batch=2, step=0.2), "data"),
        (lw.SCSC(batch=2, step=0.2), "data"),
        (lw.NLASG(batch=2), "data"),
        (lw.ATSCGD(batch=2, step=0.2), "data"),
        (lw.PMVR(batch=2, step=0.2), "tasks"),
        (lw.NLASG(batch=2), "tasks"),
    ],
    ids=lambda m: m if isinstance(m, str) else type(m).__name__,
)
def test_methods_that_need_products_only_solve_it(method, sample):
    net, support, _ = made()
    problem = MAML(net, square, support, steps=2, lr=0.4, sample=sample)
    result = lw.minimize(problem, algorithm=method, max_passes=25)
    assert result.fun < 0.95 * problem.value(problem.start())
    assert result.counts["jacobians"] == 0
    assert result.counts["products"] > 0


def test_a_method_that_needs_jacobians_is_refused():
    net, support, _ = made()
    with pytest.raises(ValueError, match="SMVR needs Jacobians"):
        lw.minimize(MAML(net, square, support), algorithm=lw.SMVR())


def test_products_share_the_evaluation_of_the_value():
    net, support, query = made()
    calls = []
    net.inner.register_forward_hook(lambda *given: calls.append(1))
    problem = MAML(net, square, support, query, steps=2, lr=0.4)
    calls.clear()
    counts = lw.minimize(problem, algorithm=lw.PMVR(batch=2, step=0.1), max_passes=10, trace=10**9, tol=0.0).counts
    assert counts["products"] == counts["values"]
    assert 1 <= len(calls) / (counts["values"] / 2) < 1.5  # and records, on all samples


def test_predictions_are_those_of_the_model_after_its_steps():
    net, support, query = made()
    problem = MAML(net, square, support, query, steps=3, lr=0.4)
    w = problem.start() + 0.1
    found = problem.predict(w, *support, query[0])
    assert found.shape == (TASKS, Q, 1)
    assert not found.requires_grad
    assert square(found, query[1]).item() == pytest.approx(problem.value(w), abs=1e-12)
    start = net.inner.weight.clone()
    torch.nn.utils.vector_to_parameters(torch.from_numpy(w), [p for p in net.parameters() if p.requires_grad])
    assert torch.equal(net.inner.weight, start + 0.1)
    with pytest.raises(ValueError, match="queries must have the 3 tasks of inputs, got 2"):
        problem.predict(w, *support, query[0][:2])


def test_a_model_in_single_precision_and_a_copy_answer_alike():
    net, support, query = made(torch.float32)
    problem = MAML(net, square, support, query, steps=2, lr=0.4)
    exact = MAML(net.double(), square, *((x.double(), y.double()) for x, y in (support, query)), steps=2, lr=0.4)
    w = problem.start()
    np.testing.assert_allclose(problem.evaluate(w).gradient, exact.evaluate(w).gradient, rtol=0, atol=1e-5)
    copy = pickle.loads(pickle.dumps(exact))
    assert copy.value(w) == exact.value(w)
    assert repr(copy) == f"MAML(Network, dim={exact.dim}, steps=2, lr=0.4, levels=3)"


def test_losses_without_curvature_have_the_identity_for_a_jacobian():
    problem = MAML(
        torch.nn.Linear(2, 1).double(), lambda out, y: (out * y).mean(), made()[1], steps=2, lr=0.4, sample="data"
    )
    point, by = np.ones(3), np.arange(9.0)
    np.testing.assert_array_equal(problem.levels[0].vjp(point, by), by.reshape(3, 3).sum(axis=0))


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"model": square}, TypeError, "model must be a torch.nn.Module, got function"),
        ({"loss": 1.0}, TypeError, "loss must be callable, got float"),
        ({"loss": lambda out, y: (out - y) ** 2}, ValueError, r"loss must return one number, .*, got \(1, 1\)"),
        (
            {"loss": lambda out, y: ((out - y) ** 2).sum()},
            ValueError,
            "loss must return the mean over the samples: one sample",
        ),
        (
            {"support": (np.ones((3, 2, 2)), np.ones((3, 2, 1)))},
            TypeError,
            r"must be a pair of tensors .*, got \['ndarray', 'ndarray'\]",
        ),
        ({"support": torch.ones(3)}, TypeError, r"support must be a pair of tensors \(inputs, targets\), got Tensor"),
        (
            {"support": (torch.ones(3), torch.ones(3))},
            ValueError,
            r"of shape \(tasks, samples, ...\), got \(3,\) and \(3,\)",
        ),
        (
            {"query": (torch.ones(2, 1, 2), torch.ones(2, 1, 1))},
            ValueError,
            "query must have the 3 tasks of support, got 2",
        ),
        ({"steps": 0}, ValueError, r"steps must be in \[1, 127\], got 0"),
        ({"steps": 1.5}, TypeError, "steps must be an integer, got 1.5"),
        ({"lr": -1.0}, ValueError, "lr must be positive and finite, got -1.0"),
        ({"sample": "all"}, ValueError, "sample must be 'data' or 'tasks', got 'all'"),
        ({"model": torch.nn.Tanh()}, ValueError, "model has no parameters that train"),
    ],
)
def test_arguments_are_checked(change, error, words):
    net, support, query = made()
    given = {"model": net, "loss": square, "support": support, "query": query, **change}
    with pytest.raises(error, match=words):
        MAML(**given)
