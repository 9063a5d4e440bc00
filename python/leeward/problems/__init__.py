"""What is minimised. One file a problem."""

from __future__ import annotations

from leeward.problems._robust import Evaluation, Robust

__all__ = ["Evaluation", "Robust"]
