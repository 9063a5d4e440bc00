"""
The compiled core of leeward; use the names in the package instead.
"""
from __future__ import annotations
import typing
__all__: list[str] = ['parallel_backend', 'resolve_threads']
def parallel_backend() -> str:
    ...
def resolve_threads(requested: typing.SupportsInt | typing.SupportsIndex) -> int:
    ...
__version__: str
