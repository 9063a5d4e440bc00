"""What the algorithms for compositions share: their native estimators as settings of the one driver, checks, and counts."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from leeward._arrays import count, number
from leeward.algorithms._staged import check_output
from leeward.algorithms._stochastic import Settings, check_update, descend
from leeward.algorithms.base import Algorithm
from leeward.algorithms.estimators import Estimator
from leeward.algorithms.updates import Plain, Update

if TYPE_CHECKING:
    from collections.abc import Callable

    from leeward._context import RunContext
    from leeward.domains import Domain

__all__ = ["Law", "Nested", "NestedDirection", "check_batches", "check_fraction", "check_step_size"]

_KINDS = ("values", "jacobians", "products", "samples", "guards")
_GUARD = 0.1  # a number that must be positive keeps at least this share of what it was a step before

Law = tuple[float, float, float]  # first, exponent, period: first (1 + t/period)^-exponent


@dataclass(frozen=True)
class NestedDirection(Estimator):
    """The native estimator of a composition's gradient: ``make(problem, seed)``; ``made`` keeps it for its counts."""

    make: Callable[[Any, int], Any]
    batch: int
    evaluations: float  # of one sample a level and step, values or Jacobians, whichever are more
    descends: bool = False  # on all samples: whether the direction is the gradient and the move is along it
    made: list[Any] = field(default_factory=list, compare=False)

    def start(self, problem: Any, seed: int) -> Any:
        self.made[:] = [self.make(problem, seed)]
        return self.made[0]

    def cost(self, problem: Any) -> float:
        return self.evaluations * samples_a_step(problem, self.batch)

    @property
    def staged(self) -> bool:
        return True

    def prober(self, problem: Any, seed: int) -> Any:
        return problem.minibatch(max(self.batch, 32), True, seed)

    def exact(self, problem: Any) -> bool:
        """Whether the run is gradient descent: a right step then never makes the objective rise."""
        whole = all(level.population == level.size <= self.batch for level in problem.levels)
        return self.descends and whole

    def counts(self) -> dict[str, int]:
        """Work so far, kind by kind."""
        return dict(zip(_KINDS, self.made[0].counts, strict=True)) if self.made else {}


def samples_a_step(problem: Any, batch: int) -> float:
    """Samples of all levels in a step."""
    drawn = (batch if level.population > level.size else min(batch, level.size) for level in problem.levels)
    return float(sum(drawn))


class Nested(Algorithm):
    """Base of the algorithms for compositions."""

    compositions: ClassVar[bool] = True
    #: Whether levels that answer products only will do.
    products: ClassVar[bool] = True
    #: The largest number of levels; None for any.
    deepest: ClassVar[int | None] = None
    #: Evaluations of one sample of one level a step, values or Jacobians, whichever are more.
    evaluations: ClassVar[float] = 2.0
    step: float | None

    def check(self, problem: Any, domain: Domain | None) -> None:
        name = type(self).__name__
        if not hasattr(problem, "levels"):
            raise ValueError(f"{name} is for compositions of levels, Composition([...]), got {problem!r}")
        if not self.products and not problem.jacobians:
            raise ValueError(f"{name} needs Jacobians, but a level answers products with its Jacobian only; use PMVR")
        if self.deepest is not None and problem.depth > self.deepest:
            raise ValueError(f"{name} is for at most {self.deepest} levels, got {problem.depth}")

    def default_budget(self, problem: Any) -> float | None:
        return 1000.0

    def default_tol(self, problem: Any, max_passes: float | None) -> float:
        return 1e-3 if max_passes is None else 0.0

    def run(self, context: RunContext) -> None:
        update = self._update(context)
        descends = self._exact() and isinstance(update, Plain) and self._output() == "last"
        estimator = NestedDirection(self._make(context), self._batch(), self.evaluations, descends)
        try:
            descend(context, Settings(update, estimator, self.step, False, False, self._output()))
        finally:
            context.counts = counts = estimator.counts()
            if counts.get("guards", 0):
                context.remark = f"{counts['guards']} estimates were kept positive by their guard"

    def _make(self, context: RunContext) -> Callable[[Any, int], Any]:
        raise NotImplementedError

    def _exact(self) -> bool:
        """Whether the direction is the gradient on all samples."""
        return False

    def _batch(self) -> int:
        return int(getattr(self, "batch"))  # noqa: B009 (a field of every algorithm)

    def _update(self, context: RunContext) -> Update:
        update = getattr(self, "update", None)
        return Plain() if update is None else update

    def _output(self) -> str:
        return str(getattr(self, "output", "last"))

    def _pass(self, problem: Any) -> float:
        """Steps a pass, at least one: where sequences that start at ``auto`` begin to fall."""
        return float(max(1, math.ceil(problem.size / (self.evaluations * samples_a_step(problem, self._batch())))))

    def _check_shared(self) -> None:
        check_batches(getattr(self, "batch", 1), getattr(self, "first_batch", None))
        check_step_size(self.step)
        check_update(getattr(self, "update", None))
        check_output(self._output())


def check_batches(batch: Any, first: Any) -> None:
    """Checks the settings ``batch`` and ``first_batch``."""
    for name, value in (("batch", batch), ("first_batch", first)):
        if value is not None and count(value, name, 1) >= 2**31:
            raise ValueError(f"{name} must be below 2**31, got {value}")


def check_step_size(step: Any, name: str = "step") -> None:
    """Checks a positive setting that may be left out."""
    if step is None:
        return
    value = number(step, name)
    if not (math.isfinite(value) and value > 0):
        raise ValueError(f"{name} must be positive and finite, or None, got {step!r}")


def check_fraction(name: str, value: Any) -> None:
    """Checks a setting in (0, 1]."""
    if not 0 < number(value, name) <= 1:
        raise ValueError(f"{name} must be in (0, 1], got {value!r}")
