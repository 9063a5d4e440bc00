"""The native estimators of a Sinkhorn problem: fresh points at each step unless the draws are common."""

from __future__ import annotations

import math
from typing import Any

from leeward import _core
from leeward.problems._inner import dual_form, penalty_of
from leeward.problems._sinkhorn_dual import SinkhornDual
from leeward.risks import Risk, SmoothedCVaR

__all__ = ["SinkhornEstimators"]

_TOL = 1e-12  # of bisection, in units of the spread of the losses plus lam eps


class SinkhornEstimators(SinkhornDual):
    """What :class:`leeward.Sinkhorn` answers to algorithms."""

    common: bool
    inner: Risk

    @property
    def exact(self) -> bool:
        """Whether values are those of the kernel itself, without draws."""
        return self._exact is not None

    def minibatch(self, n: int, replace: bool, seed: int, *, reshuffle: bool = False) -> Any:
        """The native mini-batch estimator; with fresh draws unless the draws are common."""
        return self.nested(n, replace, seed, self.draws, reshuffle=reshuffle)

    def nested(
        self, n: int, replace: bool, seed: int, draws: int, *, bisection: bool = False, reshuffle: bool = False
    ) -> Any:
        """The same with another number of draws, or with inner solutions by bisection."""
        inner = _core.make_bisection(dual_form(self.inner), penalty_of(self.inner), _TOL) if bisection else None
        core, shift = self._drawn(seed, draws, inner)
        return _core.Minibatch(core, self._risk._core, self._base, None, n, replace, seed, shift, reshuffle)

    def inexact(self, n: int, seed: int, draws: int, steps: int, step: float | None, start: float | None) -> Any:
        """The native estimator with inner gradient steps (csrc/include/leeward/estimator/sinkhorn_batch.hpp)."""
        core, shift = self._drawn(seed, draws, None)
        form, reach = dual_form(self.inner), penalty_of(self.inner)
        if step is None:
            steepest = 0.25 / self.inner.alpha if isinstance(self.inner, SmoothedCVaR) else 1.0
            step = reach / max(1.0, steepest)
        inner = (reach, steps, step, math.nan if start is None else start)
        return _core.SinkhornBatch(core, self._base, form, n, inner, shift > 0, seed)

    def _drawn(self, seed: int, draws: int, inner: Any) -> tuple[Any, int]:
        """The core's oracle for the draws of a run, and how far numbers of fresh draws are apart; 0 for common draws."""
        if not self.common:
            return self._made(_mixed(self.seed, seed), draws, inner)[0], self.size
        if draws != self.draws:
            raise ValueError(f"the problem has {self.draws} common draws a sample, got draws={draws}")
        return self._made(self.seed, draws, inner)[0], 0

    def draws_mlmc(self, n: int, m0: int, levels: int, seed: int) -> Any:
        """The native estimator by levels of draws (see :class:`leeward.RTMLMC`)."""
        if self.common:
            raise ValueError("RTMLMC draws points anew at each step, and common=True asks for one set of draws")
        core = self._made(_mixed(self.seed, seed), m0 << levels)[0]
        return _core.SinkhornMlmc(core, self._base, n, (m0, levels), self.draws, seed)

    def staged(self, *settings: Any, **others: Any) -> Any:
        self._sampled("A finite-sum algorithm")
        return super().staged(*settings, **others)

    def storm(self, *settings: Any) -> Any:
        self._sampled("STORM")
        return super().storm(*settings)

    def mlmc(self, n0: int, levels: int, seed: int) -> Any:
        self._sampled("MLMC")
        return super().mlmc(n0, levels, seed)

    def _sampled(self, what: str) -> None:
        if self.exact:
            raise ValueError(
                f"{what} needs common draws: Sinkhorn(..., common=True); LBFGS and NestedSGD take an exact problem"
            )

    def growing_batch(self, n0: int, growth: float, seed: int) -> Any:
        """A growing batch becomes all samples on one set of draws in the end: for common draws."""
        if not self.common:
            raise ValueError("GrowingBatch needs common draws; use Minibatch, or Sinkhorn(..., common=True)")
        return super().growing_batch(n0, growth, seed)


def _mixed(first: int, second: int) -> int:
    """A key of the fresh draws: another for each pair of seeds of a problem and a run, and none that is a small number."""
    return (first + 0x9E3779B97F4A7C15 * (second + 1)) % 2**64
