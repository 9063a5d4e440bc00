"""What a run has cost, counted in evaluations of components."""

from __future__ import annotations

__all__ = ["Work"]


class Work:
    """Counts of one run on n samples."""

    def __init__(self, size: int) -> None:
        self._size = size
        self.losses = self.gradients = self._paired = 0

    def count_losses(self, count: int) -> None:
        """Adds component losses evaluated by the algorithm."""
        self.losses += count

    def count_gradients(self, count: int) -> None:
        """Adds component gradients evaluated by the algorithm."""
        self.gradients += count

    def count_paired(self, count: int) -> None:
        """Says how many of the counted gradients were taken at a second point of a sample that was drawn for a first."""
        self._paired += count

    @property
    def evaluations(self) -> int:
        """Component gradients so far, or losses where more of these were evaluated."""
        return max(self.losses, self.gradients)

    @property
    def samples(self) -> int:
        """The same with a sample that was evaluated at two points counted once."""
        return self.evaluations - self._paired

    @property
    def passes(self) -> float:
        """Component evaluations so far over n."""
        return self.evaluations / self._size
