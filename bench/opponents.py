"""What the risks are timed against: PyTorch with a bisection on the dual variable, and plain NumPy by sorting.

The PyTorch forms follow the usual recipe for batch robust losses: find the weights under `no_grad` by halving an
interval for eta until |sum q - 1| <= 1e-10, then let autograd differentiate q . l (less the penalty, whose weights are
constants), so that the backward pass returns q. They work on vectors and, row by row, on matrices.
The NumPy forms take a vector with uniform base weights and use a sort (or a partition) and cumulative sums where the
answer is a closed form on a prefix, and Newton steps or halving where it is not.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray

RESIDUAL = 1e-10
Vector = NDArray[np.float64]
Solution = tuple[float, Vector]
Tensor = torch.Tensor


# ---- PyTorch -------------------------------------------------------------------------------------------------------


def _halve(low: Tensor, high: Tensor, mass: Callable[[Tensor], Tensor]) -> Tensor:
    """Where the non-increasing mass of each row is 1, to the residual."""
    for _ in range(200):
        middle = 0.5 * (low + high)
        excess = mass(middle) - 1.0
        if excess.abs().max() <= RESIDUAL:
            return middle
        above = excess > 0
        low, high = torch.where(above, middle, low), torch.where(above, high, middle)
    return middle


def torch_cvar(l: Tensor, alpha: float) -> Tensor:
    """Sort, fill the tail, put the boundary loss in for its fraction."""
    with torch.no_grad():
        n = l.shape[-1]
        tail = alpha * n
        order = torch.argsort(l, dim=-1, descending=True)
        share = (tail - torch.arange(n, dtype=l.dtype)).clamp(0, 1) / tail
        q = torch.empty_like(l).scatter_(-1, order, share.expand_as(l))
    return (q * l).sum(-1)


def torch_kl_cvar(l: Tensor, alpha: float, lam: float) -> Tensor:
    """r = min(exp((l - eta)/lam), 1/alpha)."""
    with torch.no_grad():
        n = l.shape[-1]

        def weights(eta: Tensor) -> Tensor:
            return ((l - eta) / lam).exp().clamp(max=1 / alpha) / n

        low, high = l.amin(-1, keepdim=True), l.amax(-1, keepdim=True)
        q = weights(_halve(low, high, lambda eta: weights(eta).sum(-1, keepdim=True)))
        paid = lam * (torch.xlogy(q, n * q).sum(-1) - q.sum(-1) + 1)
    return (q * l).sum(-1) - paid


def torch_smoothed_cvar(l: Tensor, alpha: float, lam: float) -> Tensor:
    """r = sigmoid((l - eta)/lam + log(alpha/(1 - alpha)))/alpha."""
    with torch.no_grad():
        n = l.shape[-1]
        offset = math.log(alpha / (1 - alpha))

        def weights(eta: Tensor) -> Tensor:
            return torch.sigmoid((l - eta) / lam + offset) / (alpha * n)

        low, high = l.amin(-1, keepdim=True), l.amax(-1, keepdim=True)
        q = weights(_halve(low, high, lambda eta: weights(eta).sum(-1, keepdim=True)))
        rest = (1 / n - alpha * q).clamp(min=0)
        paid = lam * (torch.xlogy(q, n * q) + torch.xlogy(rest, n * rest / (1 - alpha)) / alpha).sum(-1)
    return (q * l).sum(-1) - paid


def torch_chi_square_penalty(l: Tensor, lam: float) -> Tensor:
    """r = (l - eta)_+/lam."""
    with torch.no_grad():
        n = l.shape[-1]

        def weights(eta: Tensor) -> Tensor:
            return torch.relu(l - eta) / (lam * n)

        low, high = l.amin(-1, keepdim=True) - lam, l.amax(-1, keepdim=True)
        q = weights(_halve(low, high, lambda eta: weights(eta).sum(-1, keepdim=True)))
        paid = lam * 0.5 * (n * q * q).sum(-1) - 0.5 * lam
    return (q * l).sum(-1) - paid


def torch_chi_square_radius(l: Tensor, rho: float) -> Tensor:
    """r = (l - eta)_+ over its mean, eta where E(l-eta)_+^2 = (1 + 2 rho)(E(l-eta)_+)^2."""
    with torch.no_grad():
        ball = 1 + 2 * rho
        low, high = l.amin(-1, keepdim=True), l.amax(-1, keepdim=True)
        low = high - (high - low) * (1 + 1 / (math.sqrt(ball) - 1))

        def inside(eta: Tensor) -> Tensor:
            y = torch.relu(l - eta)
            mean = y.mean(-1, keepdim=True)
            return ball * mean * mean / (y * y).mean(-1, keepdim=True)

        y = torch.relu(l - _halve(low, high, inside))
        q = y / y.sum(-1, keepdim=True)
    return (q * l).sum(-1)


def torch_kl_penalty(l: Tensor, lam: float) -> Tensor:
    """The library's own log-sum-exp: no bisection is needed."""
    return lam * (torch.logsumexp(l / lam, -1) - math.log(l.shape[-1]))


def torch_kl_radius(l: Tensor, rho: float) -> Tensor:
    """q = softmax(l/lam), lam halved on a log scale to KL(q|p) = rho; KL <= range^2/(8 lam^2) gives the upper end."""
    with torch.no_grad():
        n = l.shape[-1]
        spread = l.amax(-1, keepdim=True) - l.amin(-1, keepdim=True)

        def inside(log_lam: Tensor) -> Tensor:
            q = torch.softmax(l / log_lam.exp(), -1)
            return torch.xlogy(q, n * q).sum(-1, keepdim=True) / rho

        high = (spread / math.sqrt(8 * rho)).log() + 1e-3
        q = torch.softmax(l / _halve(high - 20, high, inside).exp(), -1)
    return (q * l).sum(-1)


def with_backward(form: Callable[..., Tensor], *parameters: float) -> Callable[[Tensor], tuple[Tensor, Tensor]]:
    """The call that is timed: value and weights, by a forward and a backward pass."""

    def run(losses: Tensor) -> tuple[Tensor, Tensor]:
        l = losses.detach().requires_grad_()
        value = form(l, *parameters)
        value.sum().backward()
        assert l.grad is not None
        return value.detach(), l.grad

    return run


# ---- NumPy ---------------------------------------------------------------------------------------------------------


def numpy_mean(l: Vector) -> Solution:
    """Uniform weights."""
    return float(l.mean()), np.full(l.size, 1 / l.size)


def numpy_worst(l: Vector) -> Solution:
    """The maximum, shared over ties."""
    top = l.max()
    q = (l == top).astype(np.float64)
    return float(top), q / q.sum()


def numpy_cvar(l: Vector, alpha: float) -> Solution:
    """A partition at the tail."""
    n = l.size
    tail = alpha * n
    whole = min(int(tail), n)
    q = np.zeros(n)
    if whole == n:
        q[:] = 1 / n
    else:
        order = np.argpartition(l, n - whole - 1)
        q[order[n - whole :]] = 1 / tail
        q[order[n - whole - 1]] = 1 - whole / tail
    return float(q @ l), q


def numpy_chi_square_penalty(l: Vector, lam: float) -> Solution:
    """eta = (sum of the k largest - n lam)/k for the one k that is consistent."""
    n = l.size
    down = np.sort(l)[::-1]
    count = np.arange(1, n + 1)
    sums = np.cumsum(down)
    k = np.count_nonzero(sums - count * down < n * lam)
    eta = (sums[k - 1] - n * lam) / k
    r = np.maximum(l - eta, 0) / lam
    return float((r @ l) / n - lam * np.mean((r - 1) ** 2) / 2), r / n


def numpy_chi_square_radius(l: Vector, rho: float) -> Solution:
    """u = mean - deviation of the k largest, for the one k that is consistent."""
    n = l.size
    top = l.max()
    down = np.sort(l)[::-1] - top
    count = np.arange(1, n + 1)
    first, second = np.cumsum(down), np.cumsum(down * down)
    above, squares = first - count * down, second - 2 * down * first + count * down * down
    k = np.count_nonzero(n * squares >= (1 + 2 * rho) * above * above)
    mean, share = first[k - 1] / k, k / n
    slack = (1 + 2 * rho) * share - 1
    if slack <= 0:
        return numpy_worst(l)
    deviation = math.sqrt(max(second[k - 1] / k - mean * mean, 0) / slack)
    q = np.maximum(l - top - mean + deviation, 0)
    q /= q.sum()
    return float(q @ l), q


def numpy_chi_square_both(l: Vector, lam: float, rho: float) -> Solution:
    """The penalty where its weights lie in the ball, else the ball with the penalty paid."""
    value, q = numpy_chi_square_penalty(l, lam)
    if np.mean((l.size * q - 1) ** 2) / 2 <= rho:
        return value, q
    value, q = numpy_chi_square_radius(l, rho)
    return value - lam * float(np.mean((l.size * q - 1) ** 2)) / 2, q


def numpy_kl_penalty(l: Vector, lam: float) -> Solution:
    """A shifted log-sum-exp."""
    top = l.max()
    e = np.exp((l - top) / lam)
    total = e.sum()
    return float(top + lam * math.log(total / l.size)), e / total


def numpy_kl_radius(l: Vector, rho: float) -> Solution:
    """Newton on 1/lam, kept inside a shrinking bracket."""
    n, top = l.size, l.max()
    x = l - top
    if rho >= -math.log(np.count_nonzero(x == 0) / n):
        return numpy_worst(l)
    low, high = 0.0, math.inf
    t = math.sqrt(2 * rho) / l.std() if rho else 0.0
    for _ in range(100):
        e = np.exp(t * x)
        total = e.sum()
        mean = (e @ x) / total
        excess = t * mean - math.log(total / n) - rho
        if abs(excess) <= 1e-13 * (1 + rho):
            break
        low, high = (low, t) if excess > 0 else (t, high)
        slope = t * ((e @ (x * x)) / total - mean * mean)
        t = t - excess / slope
        if not low < t < high:
            t = 2 * low if high == math.inf else (low + high) / 2
    return float(top + mean), e / total


def numpy_kl_cvar(l: Vector, alpha: float, lam: float) -> Solution:
    """eta in closed form for the one number k of clipped losses that is consistent."""
    n = l.size
    order = np.argsort(-l)
    x = l[order]
    e = np.exp((x - x[0]) / lam)
    below = np.cumsum(e[::-1])[::-1]  # mass of exp over k, k+1, ...
    share = n - np.arange(n) / alpha  # what k clipped losses leave for the others
    k = np.count_nonzero((share > 0) & (e * share > below / alpha))
    q = np.empty(n)
    r = np.minimum(np.exp((x - x[k]) / lam) * share[k] / (below[k] / e[k]), 1 / alpha) if k < n else np.ones(n)
    q[order] = r / n
    paid = lam * float(np.mean(np.where(r > 0, r * np.log(np.maximum(r, 1e-300)), 0) - r + 1))
    return float(q @ l) - paid, q


def _root(l: Vector, low: float, high: float, mass: Callable[[float], tuple[float, float]]) -> float:
    """Newton kept inside [low, high] for mass(eta) = 1, mass falling."""
    eta = (low + high) / 2
    for _ in range(200):
        value, slope = mass(eta)
        excess = value - 1
        if abs(excess) <= 1e-13:
            break
        low, high = (eta, high) if excess > 0 else (low, eta)
        eta = eta - excess / slope if slope else low
        if not low < eta < high:
            eta = (low + high) / 2
            if eta in (low, high):
                break
    return eta


def numpy_smoothed_cvar(l: Vector, alpha: float, lam: float) -> Solution:
    """Newton on eta for the logistic weights."""

    def ratio(eta: float) -> Vector:
        return 1 / (alpha + (1 - alpha) * np.exp(np.minimum(-(l - eta) / lam, 700)))

    def mass(eta: float) -> tuple[float, float]:
        r = ratio(eta)
        return float(r.mean()), float(-(r * (1 - alpha * r)).mean() / lam)

    r = ratio(_root(l, float(l.min()), float(l.max()), mass))
    rest = np.maximum(1 - alpha * r, 1e-300)
    f = r * np.log(np.maximum(r, 1e-300)) + rest / alpha * np.log(rest / (1 - alpha))
    return float(np.mean(r * l) - lam * f.mean()), r / l.size


def numpy_cressie_read_penalty(l: Vector, k: float, lam: float) -> Solution:
    """Newton on eta for ((k-1)(l - eta)/lam + 1)_+^(1/(k-1))."""

    def ratio(eta: float) -> Vector:
        return np.maximum((k - 1) * (l - eta) / lam + 1, 0) ** (1 / (k - 1))

    def mass(eta: float) -> tuple[float, float]:
        base = np.maximum((k - 1) * (l - eta) / lam + 1, 1e-300)
        r = base ** (1 / (k - 1))
        return float(r.mean()), float(-(r / base)[base > 1e-300].sum() / (lam * l.size))

    r = ratio(_root(l, float(l.min()), float(l.max()), mass))
    return float(np.mean(r * l) - lam * np.mean(r**k - k * r + k - 1) / (k * (k - 1))), r / l.size


def numpy_cressie_read_radius(l: Vector, k: float, rho: float) -> Solution:
    """Halving on u, the zero of E r^k = 1 + k (k-1) rho, r = (l - u)_+^(1/(k-1)) over its mean."""
    top = l.max()
    spread = top - l.min()
    low, high = -60.0, 60.0
    for _ in range(80):
        middle = (low + high) / 2
        r = np.maximum(l - (top - spread * math.exp(middle)), 0) ** (1 / (k - 1))
        r /= r.mean()
        low, high = (middle, high) if np.mean(r**k) > 1 + k * (k - 1) * rho else (low, middle)
    return float(np.mean(r * l)), r / l.size


def numpy_total_variation(l: Vector, rho: float) -> Solution:
    """The smallest losses of mass rho give their weight to the largest."""
    n = l.size
    order = np.argsort(l)
    taken = np.clip(rho - np.arange(n) / n, 0, 1 / n)
    taken[-1] = 0
    q = np.empty(n)
    q[order] = 1 / n - taken
    q[order[-1]] += taken.sum()
    return float(q @ l), q


def numpy_spectral(l: Vector, spectrum: Vector) -> Solution:
    """Sorted losses against the spectrum."""
    order = np.argsort(l)
    q = np.empty(l.size)
    q[order] = spectrum
    return float(q @ l), q
