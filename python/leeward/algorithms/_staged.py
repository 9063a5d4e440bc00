"""What the finite-sum methods share: estimators with stages, their settings, and the checks of a problem."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from leeward._arrays import count
from leeward.algorithms._finite_sum_steps import Wish, check_step_rule, prepare, require_constants
from leeward.algorithms._stochastic import Settings, check_update, descend
from leeward.algorithms.base import Algorithm
from leeward.algorithms.estimators import Estimator
from leeward.algorithms.updates import Plain, Update
from leeward.risks import Mean

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from leeward._context import RunContext
    from leeward.domains import Domain
    from leeward.problems import Robust

__all__ = ["FiniteSum", "Rule", "SnapshotMethod", "Staged", "check_count", "check_output", "check_size"]

_BATCH_RULES = {"fixed": 0, "growing": 1, "doubling": 2}
_LENGTH_RULES = {"geometric": 0, "mean": 1, "slices": 2, "fixed": 3, "loopless": 4}


@dataclass(frozen=True)
class Rule:
    """Sizes and lengths of stages (csrc/include/leeward/estimator/stages.hpp)."""

    batch: int
    inner: int | float
    batch_rule: str = "fixed"
    length_rule: str = "geometric"
    length: int = 1
    chance: float = 1.0
    exponent: float = 0.0

    def native(self) -> tuple[Any, ...]:
        """The fields of StageSettings in order."""
        inner, fraction = (1, self.inner) if isinstance(self.inner, float) else (int(self.inner), 0.0)
        rules = _BATCH_RULES[self.batch_rule], _LENGTH_RULES[self.length_rule]
        return rules[0], self.batch, inner, fraction, rules[1], self.length, self.chance, self.exponent


@dataclass(frozen=True)
class Staged(Estimator):
    """A native estimator of the mean loss whose steps differ in cost: ``kind`` is ``"SnapshotDifference"`` or ``"Spider"``."""

    kind: str
    rule: Rule
    chances: NDArray[np.float64] | None = None

    def start(self, problem: Robust, seed: int) -> Any:
        return problem.staged(self.kind, self.rule.native(), seed, self.chances)

    def cost(self, problem: Robust) -> float:
        """Of a step in a stage of the usual length: a batch over its steps, and a mini-batch at two points, of slices at one."""
        return (2.0 if self.rule.length_rule == "slices" else 3.0) * self.inner(problem)

    def inner(self, problem: Robust) -> int:
        """The size of a mini-batch, or a typical one where it grows."""
        if isinstance(self.rule.inner, float):
            return max(1, math.ceil(self.rule.inner * min(problem.size, max(self.rule.batch, 1024))))
        return int(self.rule.inner)

    @property
    def staged(self) -> bool:
        return True

    def prober(self, problem: Robust, seed: int) -> Any:
        return problem.minibatch(min(self.inner(problem), problem.size), True, seed)


class FiniteSum(Algorithm):
    """Base of the methods for the mean of many losses: ``_estimator`` says which."""

    step: float | str | None
    update: Update | None
    output: str

    def check(self, problem: Robust, domain: Domain | None) -> None:
        name = type(self).__name__
        if problem.groups is not None:
            raise ValueError(
                f"{name} minimises a mean of losses, not a risk of groups; use SGD(Minibatch(n)) or Nesterov"
            )
        if not isinstance(problem.risk, Mean):
            raise ValueError(
                f"{name} minimises a mean of losses, Robust(oracle, Mean()), got {problem.risk!r}; "
                "use SGD(Minibatch(n)), Nesterov(Minibatch(n)) or LBFGS() for other risks"
            )

    def default_budget(self, problem: Robust) -> float | None:
        return 500.0

    def default_tol(self, problem: Robust, max_passes: float | None) -> float:
        return 1e-4 if max_passes is None else 0.0

    def run(self, context: RunContext) -> None:
        update = Plain() if self.update is None else self.update
        decaying = self.step is None and (update.adaptive or not context.problem.smooth)
        estimator = self._estimator(context.problem)
        assert not isinstance(self.step, str)
        descend(context, Settings(update, estimator, self.step, False, decaying, self.output))

    def _estimator(self, problem: Robust) -> Estimator:
        raise NotImplementedError

    def _check_shared(self) -> None:
        check_update(self.update)
        check_output(self.output)
        step = self.step
        if step is not None and not (isinstance(step, float | int) and math.isfinite(step) and step > 0):
            raise ValueError(f"step must be positive and finite, or None, got {step!r}")


class SnapshotMethod(FiniteSum):
    """Base of SCSG and SVRG: what they share beyond stages is the choice of steps and of the chances of draws."""

    sampling: str

    def check(self, problem: Robust, domain: Domain | None) -> None:
        super().check(problem, domain)
        if self.step == "theory" or self.sampling != "uniform":
            require_constants(problem)

    def run(self, context: RunContext) -> None:
        problem = context.problem
        update = Plain() if self.update is None else self.update
        estimator = self._estimator(problem)
        given = None if self.step is None or isinstance(self.step, str) else float(self.step)
        wish = Wish(
            self.step, self.sampling, update.name == Plain.name, estimator.inner(problem), self._theory(problem)
        )
        ready = prepare(problem, context.domain, context.threads, wish)
        estimator = replace(estimator, chances=ready.chances)
        decaying = self.step is None and (update.adaptive or not problem.smooth)
        rule = self.step if isinstance(self.step, str) else None
        descend(context, Settings(update, estimator, given, False, decaying, self.output, ready, rule))

    def _estimator(self, problem: Robust) -> Staged:
        raise NotImplementedError

    def _theory(self, problem: Robust) -> float:
        """The papers' step in units of 1/L."""
        raise NotImplementedError

    def _check_shared(self) -> None:
        check_update(self.update)
        check_output(self.output)
        check_step_rule(self.step, self.sampling)
        if self.step in ("theory", "bb") and not isinstance(self.update, Plain | None):
            raise ValueError(f"step={self.step!r} is a rule for plain steps, got update={self.update!r}")


def check_output(output: Any) -> None:
    """Checks the setting ``output``."""
    if output not in ("last", "random", "average"):
        raise ValueError(f"output must be 'last', 'random' or 'average', got {output!r}")


def check_count(name: str, value: Any) -> None:
    """Checks a number of samples or steps."""
    if count(value, name, 1) >= 2**62:
        raise ValueError(f"{name} must be below 2**62, got {value}")


def check_size(name: str, value: Any) -> None:
    """Checks the size of a mini-batch: None, a number of samples, or a fraction of the batch."""
    if value is None:
        return
    if isinstance(value, float):
        if not 0.0 < value <= 1.0:
            raise ValueError(f"{name} as a fraction of the batch must be in (0, 1], got {value}")
        return
    check_count(name, value)
