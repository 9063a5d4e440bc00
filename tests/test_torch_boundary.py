"""What the PyTorch layers refuse, with what was expected and what came."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import leeward as lw  # noqa: E402
from leeward.torch import DualLoss, RobustLoss, SinkhornLoss  # noqa: E402

LOSSES = torch.arange(10.0)


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"sample_weight": [1.0] * 10}, TypeError, "sample_weight must be a torch.Tensor, got list"),
        ({"sample_weight": np.ones(10)}, TypeError, "sample_weight must be a torch.Tensor, got ndarray"),
        ({"sample_weight": torch.ones(10, dtype=torch.complex64)}, TypeError, "sample_weight must hold real numbers"),
        ({"mask": [True] * 10}, TypeError, "mask must be a torch.Tensor, got list"),
        ({"mask": np.ones(10, dtype=bool)}, TypeError, "mask must be a torch.Tensor, got ndarray"),
        ({"target": torch.zeros(10)}, ValueError, "target is read for ignore_index only"),
    ],
)
def test_what_comes_with_the_losses_is_checked(arguments, error, words):
    with pytest.raises(error, match=words):
        RobustLoss(lw.CVaR(0.3))(LOSSES, **arguments)


def test_scores_and_classes_in_the_place_of_losses_are_refused():
    with pytest.raises(ValueError, match="give the losses alone, one a sample"):
        RobustLoss(lw.CVaR(0.3))(torch.zeros(10, 3), torch.zeros(10, dtype=torch.int64))


def test_a_target_that_is_no_tensor_and_sparse_losses_are_refused():
    with pytest.raises(TypeError, match=r"target must be a torch.Tensor, got list"):
        RobustLoss(lw.CVaR(0.3), ignore_index=1)(LOSSES, [1] * 10)
    with pytest.raises(TypeError, match="to_dense"):
        RobustLoss(lw.CVaR(0.3))(LOSSES.to_sparse())


@pytest.mark.parametrize(
    "options", [{"ignore_index": "a"}, {"ignore_index": True}, {"averaged": "no"}, {"process_group": 5}]
)
def test_options_of_a_wrong_kind_are_refused(options):
    with pytest.raises(TypeError, match=next(iter(options))):
        RobustLoss(lw.CVaR(0.3), **options)


@pytest.mark.parametrize("weight", [-1.0, 0.0, float("nan"), float("inf")])
def test_the_dual_layer_checks_base_weights_at_each_call(weight):
    layer = DualLoss(lw.CVaR(0.3))
    layer(LOSSES)
    with pytest.raises(ValueError, match="sample"):
        layer(LOSSES, sample_weight=torch.full((10,), weight))


def test_the_dual_layer_starts_from_one_batch_of_losses():
    layer = DualLoss(lw.CVaR(0.3))
    with pytest.raises(ValueError, match=r"losses must have shape \(n,\), got \(2, 5\)"):
        layer.reset(LOSSES.reshape(2, 5))
    with pytest.raises(TypeError, match=r"sample_weight must be a torch.Tensor"):
        layer.reset(LOSSES, [1.0] * 10)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"inner_steps": 3}, ValueError),
        ({"inner_step": 0.1}, ValueError),
        ({"bounds": 0}, ValueError),
        ({"bounds": (0, 1, 2)}, ValueError),
        ({"bounds": "ab"}, ValueError),
        ({"lam": "a"}, TypeError),
        ({"draws": 2.5}, TypeError),
        ({"inner": "sgd", "size": 2.5}, TypeError),
    ],
)
def test_the_sinkhorn_layer_refuses_options_that_it_would_not_use(options, error):
    with pytest.raises(error, match=next(iter(options)) if "size" not in options else "size"):
        SinkhornLoss(**options)


def test_the_sinkhorn_layer_takes_numbers_of_numpy():
    layer = SinkhornLoss(lam=np.float32(2.0), draws=np.int64(3))
    assert (layer.lam, layer.draws) == (2.0, 3)


def test_the_sinkhorn_layer_checks_what_it_is_called_with():
    layer, x = SinkhornLoss(draws=2), torch.zeros(4, 2)
    with pytest.raises(TypeError, match=r"x must be a torch.Tensor, got ndarray"):
        layer(lambda p: p.sum(1), x.numpy())
    with pytest.raises(TypeError, match="losses must be a function"):
        layer(x, x)
    with pytest.raises(TypeError, match=r"floating type, got torch.int64"):
        layer(lambda p: torch.ones(len(p), dtype=torch.int64), x)
    steps = SinkhornLoss(draws=2, inner="sgd", size=4)
    for index in ([0, 1, 2, 3], torch.ones(4, dtype=torch.bool), torch.arange(3), torch.rand(4)):
        with pytest.raises(TypeError, match=r"index must be an int64 tensor of shape \(4,\)"):
            steps(lambda p: p.sum(1), x, index=index)


def test_losses_that_are_negated_lazily_are_read():
    lazy = torch.complex(torch.zeros(6), torch.arange(6.0)).to(torch.complex128).conj().imag
    assert lazy.is_neg()
    layer, plain = RobustLoss(lw.KL(penalty=0.5)), lazy.resolve_neg()
    for weight in (None, torch.ones(6)):
        assert layer(lazy, sample_weight=weight) == layer(plain, sample_weight=weight)
    lazy[2] = torch.nan
    assert layer(lazy).isnan()
