"""Pictures of a run and of loss distributions; matplotlib is imported when one is drawn.

`plot_result` shows how fast a run closed its certified gap, `plot_tuning` what a search over steps has tried, `plot_losses` how
the losses of several models are spread: as the mean loss of the worst fraction of the samples, the fraction of samples above a
loss, or a histogram.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["COLOURS", "plot_losses", "plot_profile", "plot_result", "plot_tuning"]

#: Colours that stay apart for colour-blind readers (Okabe and Ito).
COLOURS = ("#4d4d4d", "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
_KINDS = ("cvar", "survival", "histogram")


def plot_result(result: Any, ax: Any = None, *, x: str = "passes", label: str | None = None, color: Any = None) -> Any:
    """Draw how far a run was above the best lower bound that it certified (above its best value without a certificate).

    Parameters
    ----------
    result : leeward.Result
        What `leeward.minimize` returned.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.
    x : {"passes", "seconds", "steps"}
        The horizontal axis.
    label : str, optional
        Name of the line in a legend.
    color : matplotlib colour, optional
        Colour of the line.

    Returns
    -------
    ax : matplotlib Axes
        The axes, with a logarithmic vertical scale.

    Raises
    ------
    ImportError
        Without matplotlib.
    ValueError
        For an unknown `x`, or a trace without a point.

    Examples
    --------
    >>> import numpy as np, leeward as lw
    >>> X = np.random.default_rng(0).normal(size=(50, 3))
    >>> result = lw.minimize(lw.Robust(lw.LinearModel(X, X[:, 0] > 0, "logistic", l2=0.1), lw.CVaR(0.2)))
    >>> ax = result.plot()  # doctest: +SKIP
    """
    if x not in ("passes", "seconds", "steps"):
        raise ValueError(f"x must be 'passes', 'seconds' or 'steps', got {x!r}")
    if len(result.trace) == 0:
        raise ValueError("the trace is empty: run minimize with trace='pass'")
    along = np.array(getattr(result.trace, x), dtype=np.float64)
    objective = np.array(result.trace.objective, dtype=np.float64)
    # Each certified gap gives a lower bound P(w_t) - gap_t of the optimum; the best one holds for every point of the run.
    bounds = objective - np.array(result.trace.gap, dtype=np.float64)
    bounds = bounds[np.isfinite(bounds)]
    height, name = objective - np.max(bounds, initial=-np.inf), "objective above the certified bound"
    if not bounds.size:
        height, name = objective - np.nanmin(objective), "objective above its best value"
    ax = _axes(ax)
    shown = np.isfinite(height) & (height > 0)
    ax.plot(along[shown], height[shown], label=label, color=color, linewidth=1.8, marker="o", markersize=3)
    ax.set_yscale("log")
    ax.set_xlabel({"passes": "passes over the data", "seconds": "seconds", "steps": "steps"}[x])
    ax.set_ylabel(name)
    _tidy(ax)
    return ax


def plot_losses(
    losses: ArrayLike | Mapping[str, ArrayLike],
    ax: Any = None,
    *,
    kind: str = "cvar",
    colors: Mapping[str, Any] | None = None,
) -> Any:
    """Draw how losses are spread, one line for each model.

    Parameters
    ----------
    losses : (n,) array or dict of name to (n,) array
        Losses of one model or of several.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.
    kind : {"cvar", "survival", "histogram"}
        "cvar": mean loss of the worst fraction of samples, CVaR(fraction); "survival": fraction of samples with a larger
        loss; "histogram": counts.
    colors : dict of name to colour, optional
        Colours of the lines.

    Returns
    -------
    ax : matplotlib Axes
        The axes.

    Raises
    ------
    ImportError
        Without matplotlib.
    ValueError
        For an unknown `kind`, or losses that are empty, not 1D or not finite.

    Examples
    --------
    >>> from leeward.plot import plot_losses
    >>> ax = plot_losses({"before": [0.0, 1.0, 4.0], "after": [1.0, 1.5, 2.0]})  # doctest: +SKIP
    """
    if kind not in _KINDS:
        raise ValueError(f"kind must be one of {_KINDS}, got {kind!r}")
    named = losses if isinstance(losses, Mapping) else {"": losses}
    arrays = {str(name): _checked(str(name), values) for name, values in named.items()}
    if not arrays:
        raise ValueError("losses must hold at least one array, got none")
    ax = _axes(ax)
    colours = {name: COLOURS[i % len(COLOURS)] for i, name in enumerate(arrays)} | dict(colors or {})
    if kind == "histogram":
        top = max(float(values.max()) for values in arrays.values())
        low = min(float(values.min()) for values in arrays.values())
        edges = np.linspace(low, top if top > low else low + 1.0, 41)
        for name, values in arrays.items():
            ax.hist(values, bins=edges, histtype="step", linewidth=1.8, label=name or None, color=colours[name])
        ax.set_xlabel("loss")
        ax.set_ylabel("samples")
    for name, values in arrays.items() if kind != "histogram" else ():
        worst = np.sort(values)[::-1]
        fraction = np.arange(1, len(worst) + 1) / len(worst)
        if kind == "cvar":
            ax.plot(
                fraction,
                np.cumsum(worst) / np.arange(1, len(worst) + 1),
                label=name or None,
                color=colours[name],
                linewidth=1.8,
            )
        else:
            ax.plot(worst, fraction, drawstyle="steps-pre", label=name or None, color=colours[name], linewidth=1.8)
    if kind == "cvar":
        ax.set_xscale("log")
        ax.set_xlabel("worst fraction of the samples")
        ax.set_ylabel("their mean loss")
    elif kind == "survival":
        ax.set_yscale("log")
        ax.set_xlabel("loss")
        ax.set_ylabel("fraction of samples with a larger loss")
    if any(arrays):
        ax.legend(frameon=False)
    _tidy(ax)
    return ax


def plot_profile(profile: Any, ax: Any = None) -> Any:
    """Draw the bias of each estimator against its variance times the time of an estimate, with the intervals of both.

    Parameters
    ----------
    profile : leeward.Profile
        What `leeward.profile` returned.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    ax : matplotlib Axes
        The axes, with logarithmic scales.

    Raises
    ------
    ImportError
        Without matplotlib.

    Examples
    --------
    >>> import numpy as np, leeward as lw
    >>> X = np.random.default_rng(0).normal(size=(50, 3))
    >>> problem = lw.Robust(lw.LinearModel(X, X[:, 0] > 0, "logistic"), lw.CVaR(0.5))
    >>> ax = lw.profile(problem, np.ones(4), [lw.Minibatch(4), lw.MLMC(2, 16)]).plot()  # doctest: +SKIP
    """
    ax = _axes(ax)
    scale = profile.gradient_norm or 1.0
    for k, row in enumerate(profile.rows):
        low, high = row.bias_interval
        bias = max(row.bias, 0.5 * high) / scale  # where nothing is left of it, half the upper end
        share = row.work / row.variance if row.variance > 0 else 0.0
        wide = [[max(row.work - share * row.variance_interval[0], 0.0)], [share * row.variance_interval[1] - row.work]]
        tall = [[max(bias - low / scale, 0.0)], [max(high / scale - bias, 0.0)]]
        colour = COLOURS[k % len(COLOURS)]
        ax.errorbar([row.work], [bias], xerr=wide, yerr=tall, color=colour, marker="o", capsize=3, label=row.name)
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xlabel("variance x seconds an estimate")
    ax.set_ylabel("bias / |gradient|")
    ax.legend(fontsize="small")
    return ax


def plot_tuning(tuning: Any, ax: Any = None) -> Any:
    """Draw the final objective of each run of a search against its step; runs that diverged are crosses at the top.

    Parameters
    ----------
    tuning : leeward.Tuning
        What `leeward.tune` returned.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    ax : matplotlib Axes
        The axes, with a logarithmic horizontal scale.

    Raises
    ------
    ImportError
        Without matplotlib.

    Examples
    --------
    >>> import numpy as np, leeward as lw
    >>> X = np.random.default_rng(0).normal(size=(50, 3))
    >>> found = lw.tune(lw.LinearModel(X, X[:, 0], "squared"), lw.SGD(lw.Minibatch(4)), passes=2, seeds=2)
    >>> ax = found.plot()  # doctest: +SKIP
    """
    ax = _axes(ax)
    table = tuning.to_dict()
    step, height = table["step"], table["objective"]
    ended = np.isfinite(height)
    first = ended & (table["stage"] != "repeat")
    order = np.argsort(step[first])
    ax.plot(
        step[first][order], height[first][order], color=COLOURS[0], linewidth=1.2, marker="o", label="one run a step"
    )
    again = ended & (table["stage"] == "repeat")
    ax.plot(
        step[again], height[again], color=COLOURS[2], linestyle="none", marker="o", label="the best step, all seeds"
    )
    if not ended.all():
        top = np.full(int(np.sum(~ended)), float(height[ended].max()))
        ax.plot(step[~ended], top, color=COLOURS[4], linestyle="none", marker="x", label="diverged")
    ax.set_xscale("log")
    ax.set_xlabel("step")
    ax.set_ylabel("objective at the end of the budget")
    ax.legend(frameon=False)
    _tidy(ax)
    return ax


def _checked(name: str, values: ArrayLike) -> NDArray[np.float64]:
    array = np.array(values, dtype=np.float64)
    where = f"losses[{name!r}]" if name else "losses"
    if array.ndim != 1 or array.size == 0:
        raise ValueError(f"{where} must be a 1D array with at least one entry, got shape {array.shape}")
    if not np.isfinite(array).all():
        raise ValueError(
            f"{where} must be finite, got {array[~np.isfinite(array)][0]} at position {int(np.argmin(np.isfinite(array)))}"
        )
    return array


def _axes(ax: Any) -> Any:
    if ax is not None:
        return ax
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise ImportError('drawing needs matplotlib: pip install "leeward[plot]"') from error
    _, ax = pyplot.subplots(figsize=(6.0, 4.0), layout="constrained")
    return ax


def _tidy(ax: Any) -> None:
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    ax.grid(True, which="major", color="#e6e6e6", linewidth=0.8)
    ax.set_axisbelow(True)
