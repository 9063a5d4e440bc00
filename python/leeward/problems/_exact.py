"""The exact Gaussian objective in the place of sampled inner problems: when it applies, and its answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from leeward.problems._gaussian import GaussianSmoothing
from leeward.problems._gaussian_binary import BinarySmoothing
from leeward.problems._gaussian_softmax import SoftmaxSmoothing
from leeward.problems._inner import penalty_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from leeward.problems._sinkhorn import Sinkhorn
    from leeward.problems._transport import Cost, Reference

    Vector = NDArray[np.float64]
    Smoothing = GaussianSmoothing | BinarySmoothing | SoftmaxSmoothing

__all__ = ["Exact", "exact_for"]


class Exact:
    """Answers of a :class:`leeward.oracles._perturbed.PerturbedModel`, without draws."""

    def __init__(self, smoothing: Smoothing) -> None:
        self.smoothing = smoothing

    def evaluate(self, w: Vector, threads: int | None) -> tuple[Vector, Vector]:
        """``Psi_i`` (n,) and ``sum_i p_i grad Psi_i`` (dim,)."""
        _, gradient, values = self.smoothing.evaluate(w, threads=threads)
        return values, gradient

    def losses(self, w: Vector, threads: int | None) -> Vector:
        return self.evaluate(w, threads)[0]

    def gradient(self, w: Vector, weights: Vector, threads: int | None) -> Vector:
        return self.smoothing.weighted(w, weights, threads=threads)

    def bound(self, w: Vector, threads: int | None) -> float:
        """A lower bound of the problem's optimum."""
        return self.smoothing.bound(w, threads=threads)

    def error(self, w: Vector, threads: int | None) -> float | None:
        """An estimate of the error of the values where they are those of a rule of nodes; None where they are exact to rounding."""
        return self.smoothing.error(w, threads=threads)


def _kind(model: Any, divergence: Any) -> type[Smoothing] | None:
    kinds: tuple[type[Smoothing], ...] = (GaussianSmoothing, BinarySmoothing, SoftmaxSmoothing)
    return next((kind for kind in kinds if kind.supported(model, divergence)), None)


def exact_for(problem: Sinkhorn, asked: Any, reference: Reference, cost: Cost) -> Exact | None:
    """The exact objective, None where it is not wanted or (for "auto") does not apply."""
    if not (asked == "auto" or isinstance(asked, bool)):
        raise ValueError(f"exact must be 'auto', True or False, got {asked!r}")
    divergence = problem.inner.divergence
    kind = _kind(problem.linear, divergence)
    fits = (
        kind is not None
        and reference.kind == 0
        and reference.scale.size == 1
        and reference.bounds is None
        and reference.label_noise == 0
        and cost.kind == 0
    )
    if asked is True and not fits:
        raise ValueError(
            "exact=True needs one linear score a sample with a squared, Huber, absolute, quantile, logistic or hinge loss, or softmax of "
            "up to 25 classes, KL, chi-square or smoothed CVaR, one Gaussian noise for features, the cost 'sqeuclidean', no bounds and no "
            "label noise"
        )
    if asked is True and problem.common:
        raise ValueError("exact=True takes no draws, and common=True asks for them: choose one")
    if asked is False or not fits or problem.common:
        return None
    assert divergence is not None
    assert problem.linear is not None
    assert kind is not None
    share = penalty_of(problem.inner) / (problem.lam * problem.entropy)  # 2 for (t - 1)^2
    k = cost.scale
    noise = float(reference.scale[0])
    try:
        made = kind(problem.linear, divergence, problem.lam * k, share * problem.entropy / k, noise)
    except ValueError:  # a noise far too large for the entropy
        if asked is True:
            raise
        return None
    if asked == "auto" and isinstance(made, SoftmaxSmoothing) and not made.fine:
        return None  # five classes or more: the rule is coarser, and taken where it is asked for
    return Exact(made)
