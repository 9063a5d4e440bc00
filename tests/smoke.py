"""What an installed wheel must do with NumPy and SciPy alone. Run as a script, away from the source tree."""

from __future__ import annotations

import sys
from importlib import resources

import leeward

package = resources.files("leeward")
for name in ("py.typed", "_core.pyi"):
    assert package.joinpath(name).is_file(), f"{name} is missing from the wheel"
for heavy in ("torch", "sklearn", "matplotlib", "pandas"):
    assert heavy not in sys.modules, f"import leeward loaded {heavy}"
print("leeward", leeward.__version__, "works")
