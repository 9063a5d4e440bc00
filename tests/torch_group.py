"""A process of the tests of `RobustLoss(process_group=)`: `python torch_group.py RANK WORLD FILE`; rank 0 prints what failed."""

from __future__ import annotations

import itertools
import os
import sys
import time
from datetime import timedelta
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist

import leeward as lw
from leeward.torch import RobustLoss
from reference.torch_risks import BY_SUMS, batch

TIMEOUT = 60  # seconds


def parts(n: int, world: int, rng: np.random.Generator) -> list[slice]:
    """Return a random split of n samples, some parts empty."""
    cuts = np.sort(rng.integers(0, n + 1, size=world - 1))
    cuts = [0, *cuts.tolist(), n]
    return [slice(a, b) for a, b in itertools.pairwise(cuts)]


def equals_one_process(rank: int, world: int) -> None:
    rng = np.random.default_rng(0)
    for risk in BY_SUMS if world == 2 else BY_SUMS[2::9]:
        if isinstance(risk, lw.Spectral) and risk.kind != "superquantile":
            continue
        for shape, weighted in (((2, 37), True), ((2,), False)):
            losses, base = batch(*shape, seed=int(rng.integers(100))), rng.random(shape)
            mine = parts(shape[-1], world, rng)[rank]
            part = torch.from_numpy(losses[..., mine]).requires_grad_()
            layer = RobustLoss(risk, "none", process_group=True, averaged=False)
            value = layer(part, sample_weight=torch.from_numpy(base[..., mine]) if weighted else None)
            value.sum().backward()
            whole = RobustLoss(risk, "none")
            expected = whole(torch.from_numpy(losses), sample_weight=torch.from_numpy(base) if weighted else None)
            np.testing.assert_allclose(value.detach().numpy(), expected.numpy(), rtol=0, atol=1e-9, err_msg=repr(risk))
            np.testing.assert_allclose(
                part.grad.numpy(), whole.weights.numpy()[..., mine], rtol=0, atol=1e-8, err_msg=repr(risk)
            )
            np.testing.assert_allclose(layer.weights.numpy(), part.grad.numpy(), atol=1e-15)


def under_ddp(net: Any, world: int) -> Any:
    return torch.nn.parallel.DistributedDataParallel(net)


def under_fsdp(net: Any, world: int) -> Any:
    fsdp = pytest.importorskip("torch.distributed.fsdp")
    return fsdp.fully_shard(net, mesh=dist.device_mesh.init_device_mesh("cpu", (world,)))


def trained(rows: slice, wrap: Any = None, world: int = 1) -> torch.Tensor:
    """The parameters after five steps on these rows, in a group where the network is wrapped."""
    x, y = torch.from_numpy(batch(40, 3)), torch.from_numpy(batch(40, seed=1))
    torch.manual_seed(0)
    net = torch.nn.Linear(3, 1).double()
    model = net if wrap is None else wrap(net, world)
    layer = RobustLoss(lw.ChiSquare(radius=1.0), process_group=None if wrap is None else True)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(5):
        optimiser.zero_grad()
        layer((model(x[rows]).squeeze(1) - y[rows]) ** 2).backward()
        optimiser.step()
    whole = [p.full_tensor() if hasattr(p, "full_tensor") else p for p in net.parameters()]
    return torch.nn.utils.parameters_to_vector(whole).detach()


def trains_as_one_process_under_ddp(rank: int, world: int) -> None:
    rows = (slice(0, 31), slice(31, 40))[rank]
    torch.testing.assert_close(trained(rows, under_ddp, world), trained(slice(0, 40)))


def trains_as_one_process_under_fsdp(rank: int, world: int) -> None:
    rows = (slice(0, 31), slice(31, 40))[rank]
    torch.testing.assert_close(trained(rows, under_fsdp, world), trained(slice(0, 40)))


def answers_what_is_wrong(rank: int, world: int) -> None:
    layer = RobustLoss(lw.CVaR(0.3), process_group=True)
    assert layer(torch.tensor([1.0, np.nan] if rank == 0 else [2.0])).isnan()
    with pytest.raises(ValueError, match="every process"):
        layer(torch.empty(0))
    with pytest.raises(ValueError, match="in order"):
        RobustLoss(lw.Spectral.extremile(2.0), process_group=True)
    losses = torch.ones(3, requires_grad=True)
    (first,) = torch.autograd.grad(layer(losses), losses, create_graph=True)
    with pytest.raises(RuntimeError, match="no second derivative"):
        first.sum().backward()


def a_killed_process_is_noticed(rank: int, world: int) -> None:
    layer = RobustLoss(lw.CVaR(0.3), process_group=True)
    if rank == world - 1:
        time.sleep(0.5)  # the others are done with the check before
        os._exit(0)
    with pytest.raises(RuntimeError):
        layer(torch.ones(3))


TRAINED = (trains_as_one_process_under_ddp, trains_as_one_process_under_fsdp)
CHECKS = (equals_one_process, *TRAINED, answers_what_is_wrong, a_killed_process_is_noticed)

if __name__ == "__main__":
    rank, world, store = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method=f"file://{store}", rank=rank, world_size=world, timeout=timedelta(seconds=TIMEOUT)
    )
    for check in CHECKS:
        if world > 2 and check in TRAINED:  # most of its time is importing
            continue
        check(rank, world)
        print(f"{check.__name__} passed", flush=True)
    os._exit(0)  # the group cannot be closed in order: one of its processes is gone
