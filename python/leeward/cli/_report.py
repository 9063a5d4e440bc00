"""What `demo` and `fit` print and draw: one row for each model, measured on the same samples with the same losses."""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import leeward as lw

__all__ = ["Row", "draw", "measure", "table", "timed_fit"]

TAIL = 0.1  # the tail mass of the CVaR column


@dataclass
class Row:
    """A model's line in the table, with what the figure needs."""

    name: str
    losses: Any
    measures: dict[str, str]
    result: Any


def timed_fit(model: Any, X: Any, y: Any, **rows: Any) -> tuple[Any, float, list[str]]:
    """The fitted model, the seconds of the fit, and the words of its warnings."""
    start = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, y, **rows)
    return model, time.perf_counter() - start, sorted({str(warning.message) for warning in caught})


def measure(name: str, model: Any, seconds: float, X: Any, y: Any, groups: Any = None) -> Row:
    """Losses, CVaR and accuracy of a fitted estimator on samples; its certified gap is that of the training problem."""
    losses = model.sample_losses(X, y)
    predicted = model.predict(X)
    measures = {"mean loss": f"{losses.mean():.4f}", f"CVaR {TAIL:g}": f"{lw.CVaR(TAIL)(losses):.4f}"}
    if hasattr(model, "classes_"):
        right = predicted == y
        measures["accuracy"] = f"{right.mean():.3f}"
        measures["worst class"] = f"{min(right[y == c].mean() for c in np.unique(y)):.3f}"
        if groups is not None:
            measures["worst group"] = f"{min(right[groups == g].mean() for g in np.unique(groups)):.3f}"
    else:
        spread = float(np.sum((y - y.mean()) ** 2))
        r2 = 1.0 - float(np.sum((y - predicted) ** 2)) / spread if spread > 0 else float("nan")
        measures["R2"] = f"{r2:.3f}"
        measures["mean |error|"] = f"{np.abs(y - predicted).mean():.4g}"
        if groups is not None:
            measures["worst group"] = f"{max(losses[groups == g].mean() for g in np.unique(groups)):.4f}"
    measures["certified gap"] = "none" if model.gap_ is None else f"{model.gap_:.1e}"
    measures["seconds"] = f"{seconds:.2f}"
    return Row(name, losses, measures, model.result_)


def table(rows: list[Row]) -> str:
    """The rows as aligned columns."""
    heads = ["model", *rows[0].measures]
    lines = [[row.name, *row.measures.values()] for row in rows]
    widths = [max(len(line[j]) for line in [heads, *lines]) for j in range(len(heads))]

    def aligned(cells: list[str]) -> str:
        first, *rest = cells
        return "  ".join([first.ljust(widths[0]), *(c.rjust(w) for c, w in zip(rest, widths[1:], strict=True))])

    return "\n".join([aligned(heads), "-" * (sum(widths) + 2 * (len(widths) - 1)), *map(aligned, lines)])


def draw(reports: dict[str, list[Row]], path: str) -> None:
    """The figure of one or more reports, a row of panels each: loss distribution, worst fractions, certified gaps."""
    try:
        import matplotlib as mpl
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError('the figure needs matplotlib: pip install "leeward[plot]"') from error

    target = Path(path)
    if not target.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {str(target.parent)!r} to write {target.name!r} in")
    settings: Any = {"font.size": 9.5, "axes.titlesize": 10.5, "axes.titlelocation": "left", "legend.fontsize": 9}
    with mpl.rc_context(settings):
        figure = Figure(figsize=(12.0, 0.3 + 3.6 * len(reports)), dpi=150, layout="constrained")
        FigureCanvasAgg(figure)
        parts = figure.subfigures(len(reports), 1, hspace=0.05, squeeze=False)[:, 0]
        for part, (title, rows) in zip(parts, reports.items(), strict=True):
            part.suptitle(title, x=0.01, ha="left", fontsize=12, fontweight="bold")
            _panels(part.subplots(1, 3), rows)
        try:
            figure.savefig(target)
        except ValueError as error:
            raise ValueError(f"cannot write the figure {path!r}: {error}") from error


def _panels(axes: Any, rows: list[Row]) -> None:
    from leeward.plot import COLOURS, plot_losses, plot_result

    colours = {row.name: COLOURS[i % len(COLOURS)] for i, row in enumerate(rows)}
    losses = {row.name: row.losses for row in rows}
    plot_losses(losses, axes[0], kind="survival", colors=colours)
    axes[0].set_title("How large the losses get")
    plot_losses(losses, axes[1], kind="cvar", colors=colours)
    axes[1].set_title("How the worst-off fare")
    for row in rows:
        if len(row.result.trace):
            plot_result(row.result, axes[2], label=row.name, color=colours[row.name])
    axes[2].set_title("How far from the optimum, certified")
    for ax in axes[1:]:
        if ax.get_legend() is not None:
            ax.get_legend().remove()
