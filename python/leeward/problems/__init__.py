"""What is minimised. One file a problem."""

from __future__ import annotations

from leeward.problems._composition import Composition, CompositionEvaluation
from leeward.problems._hierarchical_tilt import HierarchicalTilt
from leeward.problems._mean_cvar import MeanCVaR
from leeward.problems._mean_deviation import MeanDeviation
from leeward.problems._mean_semideviation import MeanUpperSemideviation
from leeward.problems._robust import Evaluation, Robust
from leeward.problems._sinkhorn import Sinkhorn
from leeward.problems._sinkhorn_ball import SinkhornBall
from leeward.problems._sinkhorn_evaluation import SinkhornEvaluation

__all__ = [
    "Composition",
    "CompositionEvaluation",
    "Evaluation",
    "HierarchicalTilt",
    "MeanCVaR",
    "MeanDeviation",
    "MeanUpperSemideviation",
    "Robust",
    "Sinkhorn",
    "SinkhornBall",
    "SinkhornEvaluation",
]
