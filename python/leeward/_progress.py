"""What ``verbose=True`` shows (a tqdm bar over the passes when tqdm is installed, else plain lines on stderr), and a run's clock."""

from __future__ import annotations

import sys
import time
from typing import Any

__all__ = ["Clock", "Paused", "Progress"]


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


class Clock:
    """Seconds of the algorithm itself: stands still while paused; pauses nest."""

    def __init__(self, seconds: float = 0.0) -> None:
        self._seconds, self._since, self._depth = seconds, time.perf_counter(), 0

    @property
    def seconds(self) -> float:
        """Seconds so far."""
        return self._seconds + (0.0 if self._depth else time.perf_counter() - self._since)

    def pause(self) -> Paused:
        """A context manager that stops the clock."""
        return Paused(self)

    def stop(self) -> None:
        """Begins a pause."""
        if self._depth == 0:
            self._seconds += time.perf_counter() - self._since
        self._depth += 1

    def go(self) -> None:
        """Ends a pause."""
        self._depth -= 1
        if self._depth == 0:
            self._since = time.perf_counter()


class Paused:
    """Stops a clock while it is open."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def __enter__(self) -> None:
        self._clock.stop()

    def __exit__(self, *error: object) -> None:
        self._clock.go()
