"""What an installed wheel must do with NumPy and SciPy alone. Run as a script, away from the source tree."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import resources

import numpy as np

import leeward as lw

IMPORT_LIMIT = 0.35  # seconds, NumPy included


def check_contents() -> None:
    package = resources.files("leeward")
    for name in ("py.typed", "_core.pyi"):
        assert package.joinpath(name).is_file(), f"{name} is missing from the wheel"
    for heavy in ("torch", "sklearn", "matplotlib", "pandas", "tqdm"):
        assert heavy not in sys.modules, f"import leeward loaded {heavy}"


def check_import_time() -> None:
    def seconds(code: str) -> float:
        before = os.times()
        subprocess.run([sys.executable, "-c", code], check=True)
        after = os.times()
        return after.children_user + after.children_system - before.children_user - before.children_system

    best = min(seconds("import leeward") - seconds("pass") for _ in range(5))
    print(f"import leeward takes {best:.3f} s of processor time")
    assert best < IMPORT_LIMIT


def check_robust_fit() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 5))
    y = (X[:, 0] + 0.5 * rng.normal(size=2000) > 0).astype(float)
    model = lw.LinearModel(X, y, loss="logistic", l2=1e-2)
    for risk, tol in ((lw.ChiSquare(radius=0.1), 1e-6), (lw.CVaR(0.5), 1e-4)):
        result = lw.minimize(lw.Robust(model, risk), tol=tol)
        assert result.success, result.message
        assert 0 <= result.gap <= tol * abs(result.fun), (result.gap, result.fun)
        print(risk, result.fun, result.gap)


if __name__ == "__main__":
    check_contents()
    check_import_time()
    check_robust_fit()
    print("leeward", lw.__version__, "works")
