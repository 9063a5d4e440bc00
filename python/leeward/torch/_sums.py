"""Sums and maxima over the samples of a batch: of one process, or of all processes of a group."""

from __future__ import annotations

from typing import Any

import torch

__all__ = ["GroupSums", "Sums"]


class Sums:
    """Sums over dimension 1 of tensors ``(rows, samples, ...)``; a batch without samples gives the neutral element."""

    points = 15  # thresholds looked at in one pass: four bits of a root

    def __init__(self, size: int) -> None:
        if size > 1 << 16:
            self.points = 3  # two bits a pass, and a fifth of the memory

    def add(self, *terms: Any) -> list[Any]:
        """Return the sum of each term over the samples."""
        return [term.sum(dim=1) for term in terms]

    def top(self, *terms: Any) -> list[Any]:
        """Return the largest entry of each term."""
        return [self._top(term) for term in terms]

    @staticmethod
    def _top(term: Any) -> Any:
        if term.shape[1] == 0:
            return term.new_full((term.shape[0], *term.shape[2:]), -torch.inf)
        return term.amax(dim=1)


class GroupSums(Sums):
    """The same over all processes of a group: one all-reduce of a few numbers a call."""

    def __init__(self, group: Any) -> None:
        import torch.distributed as dist

        self._dist = dist
        self._group = group

    def add(self, *terms: Any) -> list[Any]:
        """Return the sum of each term over all samples of all processes."""
        return self._reduce(super().add(*terms), self._dist.ReduceOp.SUM)

    def top(self, *terms: Any) -> list[Any]:
        """Return the largest entry of each term over all processes."""
        return self._reduce(super().top(*terms), self._dist.ReduceOp.MAX)

    def _reduce(self, parts: list[Any], operation: Any) -> list[Any]:
        flat = torch.cat([part.reshape(-1) for part in parts])
        self._dist.all_reduce(flat, operation, group=self._group)
        sizes = [part.numel() for part in parts]
        return [piece.view(part.shape) for piece, part in zip(flat.split(sizes), parts, strict=True)]
