"""`once`: an attribute that is computed when it is first asked for.

`functools.cached_property` of Python 3.11 holds one lock for all objects of a class while it computes: two runs in two threads
would wait for each other, and a child forked meanwhile would wait for ever.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

__all__ = ["once"]

T = TypeVar("T")


class once(Generic[T]):
    """Decorator of a method without arguments; its value is kept in the object's ``__dict__``."""

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self.compute, self.__doc__ = compute, compute.__doc__

    def __get__(self, instance: Any, owner: type) -> T:
        value = self.compute(instance)
        instance.__dict__[self.compute.__name__] = value
        return value
