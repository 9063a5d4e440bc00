"""What is minimised. One file a problem."""

from __future__ import annotations

from leeward.problems._composition import Composition, CompositionEvaluation
from leeward.problems._mean_deviation import MeanDeviation
from leeward.problems._robust import Evaluation, Robust
from leeward.problems._sinkhorn import Sinkhorn, SinkhornEvaluation
from leeward.problems._sinkhorn_ball import SinkhornBall

__all__ = [
    "Composition",
    "CompositionEvaluation",
    "Evaluation",
    "MeanDeviation",
    "Robust",
    "Sinkhorn",
    "SinkhornBall",
    "SinkhornEvaluation",
]
