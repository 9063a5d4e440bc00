"""Pictures: what the lines are, which inputs are refused, and what happens without matplotlib."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from matplotlib import pyplot

import leeward as lw
from leeward.plot import plot_losses, plot_result


@pytest.fixture(autouse=True)
def _figures_off_screen() -> Any:
    pyplot.switch_backend("Agg")
    yield
    pyplot.close("all")


def run(l2: float = 0.1) -> Any:
    X = np.random.default_rng(0).normal(size=(60, 3))
    return lw.minimize(lw.Robust(lw.LinearModel(X, X[:, 0] + X[:, 1] ** 2 > 0, "logistic", l2=l2), lw.KL(radius=0.2)))


def test_a_run_is_drawn_above_the_bound_it_certified() -> None:
    result = run()
    ax = plot_result(result, label="KL")
    assert ax.get_yscale() == "log"
    assert ax.get_ylabel() == "objective above the certified bound"
    (line,) = ax.get_lines()
    assert line.get_label() == "KL"
    known = np.isfinite(result.trace.gap)
    bound = np.max((result.trace.objective - result.trace.gap)[known])
    np.testing.assert_allclose(line.get_ydata(), result.trace.objective - bound, rtol=1e-12)
    np.testing.assert_array_equal(line.get_xdata(), result.trace.passes)


def test_a_run_without_certificate_is_drawn_as_its_objective() -> None:
    ax = plot_result(run(l2=0.0), x="seconds")
    assert ax.get_ylabel() == "objective above its best value"
    assert ax.get_xlabel() == "seconds"


def test_a_result_draws_itself_on_given_axes() -> None:
    _, ax = pyplot.subplots()
    assert run().plot(ax=ax) is ax


def test_the_worst_fraction_curve_is_the_cvar() -> None:
    losses = np.random.default_rng(1).exponential(size=40)
    (line,) = plot_losses(losses).get_lines()
    for fraction, height in zip(line.get_xdata(), line.get_ydata(), strict=True):
        assert height == pytest.approx(lw.CVaR(fraction)(losses), rel=1e-9)


def test_several_models_get_a_legend_and_their_colours() -> None:
    ax = plot_losses({"one": [0.0, 1.0], "two": [2.0, 3.0]}, kind="survival", colors={"two": "red"})
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["one", "two"]
    assert ax.get_lines()[1].get_color() == "red"


def test_a_histogram_counts_every_sample() -> None:
    ax = plot_losses({"a": np.arange(10.0), "b": np.zeros(3)}, kind="histogram")
    assert len(ax.patches) == 2


@pytest.mark.parametrize(
    ("losses", "words"),
    [([], "at least one entry"), ([[1.0]], "1D"), ([1.0, np.nan], "nan at position 1"), ({}, "at least one array")],
)
def test_useless_losses_are_named(losses: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        plot_losses(losses)


def test_unknown_options_are_named() -> None:
    with pytest.raises(ValueError, match=r"kind must be one of .*got 'pie'"):
        plot_losses([1.0], kind="pie")
    with pytest.raises(ValueError, match=r"x must be .*got 'days'"):
        plot_result(run(), x="days")


def test_without_matplotlib_the_error_says_what_to_install() -> None:
    code = """
import sys
sys.modules["matplotlib"] = None
from leeward.plot import plot_losses
try:
    plot_losses([1.0, 2.0])
except ImportError as error:
    print(error)
"""
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert 'pip install "leeward[plot]"' in out
