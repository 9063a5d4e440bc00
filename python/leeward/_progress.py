"""What ``verbose=True`` shows: a tqdm bar over the passes when tqdm is installed, else plain lines on stderr."""

from __future__ import annotations

import sys
import time
from typing import Any

__all__ = ["Progress"]


class Progress:
    """Shows the recorded points of a run, at most a few times a second."""

    def __init__(self, shown: bool, max_passes: float | None) -> None:
        self._shown = shown
        self._bar: Any = None
        self._last = -1.0
        if shown:
            self._bar = _bar(max_passes)

    def show(self, step: int, passes: float, objective: float, gap: float | None, *, force: bool = False) -> None:
        """One recorded point."""
        if not self._shown or (not force and time.monotonic() - self._last < 0.2):
            return
        self._last = time.monotonic()
        known = "" if gap is None else f" gap {gap:.3g}"
        if self._bar is not None:
            self._bar.n = round(passes, 2)
            self._bar.set_postfix_str(f"objective {objective:.8g}{known}")
        else:
            sys.stderr.write(f"leeward: step {step} passes {passes:.2f} objective {objective:.8g}{known}\n")

    def close(self, message: str | None = None) -> None:
        """Ends the display, with the message of the run if it came to one."""
        if self._bar is not None:
            self._bar.close()
        if self._shown and message is not None:
            sys.stderr.write(f"leeward: {message}\n")


def _bar(max_passes: float | None) -> Any:
    try:
        from tqdm import tqdm
    except ImportError:
        return None
    return tqdm(total=max_passes, unit="pass", bar_format="{l_bar}{bar}| {n}/{total} [{elapsed}{postfix}]")
