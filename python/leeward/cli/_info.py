"""`leeward info`: what is installed and how it runs on this machine."""

from __future__ import annotations

import os
import platform
from importlib import metadata

import leeward as lw

__all__ = ["info"]

_OPTIONAL = ("scikit-learn", "matplotlib", "pandas", "pyarrow", "tqdm", "torch")


def info() -> int:
    """Print the versions, the build, the SIMD level and the threads."""
    lines = {"leeward": f"{lw.__version__} ({os.path.dirname(lw.__file__)})"}
    lines |= {name.replace("_", " "): str(value) for name, value in lw.build_info().items() if name != "version"}
    lines["python"] = f"{platform.python_version()} on {platform.platform()}"
    lines |= {name: _version(name) or "not installed" for name in ("numpy", "scipy")}
    lines["optional"] = ", ".join(f"{name} {_version(name) or 'not installed'}" for name in _OPTIONAL)
    width = max(map(len, lines))
    for name, value in lines.items():
        print(f"{name.ljust(width)}  {value}")
    return 0


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
