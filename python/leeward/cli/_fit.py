"""`leeward fit`: a table in; a robust model, a report beside the ordinary model, and a figure out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import leeward as lw
from leeward.cli._readers import Table, read_table
from leeward.cli._report import Row, draw, measure, table, timed_fit

__all__ = ["fit"]

_MOST_CLASSES = 20  # whole numbers with no more values than this are taken for classes
_RISK_OPTIONS = ("alpha", "radius", "penalty", "k", "t", "draws", "rate")


def fit(arguments: Any, classifier: type, regressor: type) -> int:
    """Run the command; `classifier` and `regressor` are the estimator classes to use."""
    _check_outputs(arguments)
    data = read_table(arguments)
    task, why = _task(arguments.task, data.y)
    if task == "regression":
        data.y = _numbers(data.y, arguments.target)
    print(_summary(arguments, data, task, why))
    train, test = _split(arguments, data, task)
    make = classifier if task == "classification" else regressor
    names = {"mean": "ordinary (mean)", arguments.risk: f"robust ({_risk_text(arguments)})"}
    rows: list[Row] = []
    notes: list[str] = []
    model = None
    for risk in names:
        model = _pipeline(arguments, data, _estimator(arguments, make, risk, task))
        row, words = _fit_one(names[risk], model, data, train, test)
        rows.append(row)
        notes += words
    place = f"{len(test)} held-out rows" if arguments.test else "the training rows"
    print(f"\n{table(rows)}\n\nmeasured on {place}; the certified gap is that of the training objective")
    for note in notes:
        print(f"note: {note}")
    if arguments.figure:
        draw({f"{Path(arguments.data).name}: losses on {place}": rows}, arguments.figure)
        print(f"figure: {arguments.figure}")
    if arguments.out:
        import joblib

        joblib.dump(model, arguments.out)
        print(f"model: {arguments.out} ({_load_hint(data, arguments.out)})")
    return 0


def _load_hint(data: Table, out: str) -> str:
    kind = "frame" if hasattr(data.X, "columns") else "rows"
    return f'joblib.load("{out}").predict({kind})'


def _check_outputs(arguments: Any) -> None:
    """Refuse before the work what could not be written after it."""
    if not 0.0 <= arguments.test < 1.0:
        raise ValueError(f"--test must be in [0, 1), got {arguments.test}")
    for option in ("out", "figure"):
        path = getattr(arguments, option)
        if path is not None and not Path(path).parent.is_dir():
            raise FileNotFoundError(f"--{option}: there is no folder {str(Path(path).parent)!r}")
    if arguments.figure:
        try:
            import matplotlib  # noqa: F401
        except ImportError as error:
            raise ImportError('--figure needs matplotlib: pip install "leeward[plot]"') from error


def _task(task: str, y: Any) -> tuple[str, str]:
    if task != "auto":
        return task, "as asked"
    distinct = len(np.unique(y))
    if y.dtype.kind not in "iuf":
        return "classification", f"{distinct} labels"
    if distinct <= _MOST_CLASSES and np.all(y == np.round(y)):
        return "classification", f"{distinct} whole numbers; --task regression otherwise"
    return "regression", "numbers; --task classification otherwise"


def _numbers(y: Any, name: str | None) -> Any:
    try:
        return y.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"regression needs numbers in column {name!r}: {error}") from error


def _summary(arguments: Any, data: Table, task: str, why: str) -> str:
    n, d = data.X.shape
    kinds = (
        f" ({len(data.numeric)} of numbers, {len(data.categorical)} of categories)"
        if data.numeric or data.categorical
        else ""
    )
    lines = [f"{Path(arguments.data).name}: {n} rows, {d} columns{kinds}; {task} ({why})"]
    if data.groups is not None:
        lines.append(f"groups: {len(np.unique(data.groups))} in {arguments.group!r}")
    if data.missing:
        lines.append(f"filled: {sum(data.missing.values())} missing values in {len(data.missing)} columns")
    return "\n".join(lines)


def _split(arguments: Any, data: Table, task: str) -> tuple[Any, Any]:
    """Row numbers for training and for the report; classes keep their shares where every class has two rows."""
    rows = np.arange(data.X.shape[0])
    if arguments.test == 0.0:
        return rows, rows
    from sklearn.model_selection import train_test_split

    stratify = None
    if task == "classification":
        _, counts = np.unique(data.y, return_counts=True)
        held_out = int(np.ceil(arguments.test * len(rows)))
        stratify = data.y if counts.min() >= 2 and min(held_out, len(rows) - held_out) >= len(counts) else None
    train, test = train_test_split(rows, test_size=arguments.test, random_state=arguments.seed, stratify=stratify)
    return train, test


def _pipeline(arguments: Any, data: Table, estimator: Any) -> Any:
    """Preprocessing and model as one object that takes rows as they stand in the file."""
    from sklearn.compose import ColumnTransformer
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import Pipeline, make_pipeline
    from sklearn.preprocessing import MaxAbsScaler, OneHotEncoder, StandardScaler

    if not (data.numeric or data.categorical):  # a sparse matrix keeps its zeros
        steps = [] if arguments.no_scale else [("prepare", MaxAbsScaler())]
        return Pipeline([*steps, ("model", estimator)])
    numbers = [] if arguments.no_scale else [StandardScaler()]
    categories = [OneHotEncoder(handle_unknown="ignore")]
    if arguments.impute:
        numbers.insert(0, SimpleImputer(strategy="median"))
        categories.insert(0, SimpleImputer(strategy="most_frequent", missing_values=None))
    parts = [
        ("numbers", make_pipeline(*numbers) if numbers else "passthrough", data.numeric),
        ("categories", make_pipeline(*categories), data.categorical),
    ]
    prepare = ColumnTransformer([part for part in parts if part[2]])
    return Pipeline([("prepare", prepare), ("model", estimator)])


def _estimator(arguments: Any, make: type, risk: str, task: str) -> Any:
    options: dict[str, Any] = {
        "risk": risk,
        "l2": arguments.l2,
        "fit_intercept": not arguments.no_intercept,
        "tol": arguments.tol,
        "max_passes": arguments.max_passes,
        "random_state": arguments.seed,
        "n_jobs": arguments.threads,
    }
    if arguments.loss is not None or arguments.delta is not None or arguments.tau is not None:
        options["loss"] = _loss(arguments)
    if arguments.class_weight is not None:
        if task == "regression":
            raise ValueError("--class-weight is for classification; use --weight COLUMN")
        options["class_weight"] = arguments.class_weight
    estimator = make(**options)
    if risk == arguments.risk:
        given = {
            f"risk__{name}": getattr(arguments, name) for name in _RISK_OPTIONS if getattr(arguments, name) is not None
        }
        estimator.set_params(**given)
    return estimator


def _loss(arguments: Any) -> Any:
    if arguments.delta is not None:
        if arguments.loss not in (None, "huber"):
            raise ValueError(f"--delta belongs to --loss huber, got --loss {arguments.loss}")
        return lw.losses.Huber(arguments.delta)
    if arguments.tau is not None:
        if arguments.loss not in (None, "quantile"):
            raise ValueError(f"--tau belongs to --loss quantile, got --loss {arguments.loss}")
        return lw.losses.Quantile(arguments.tau)
    return arguments.loss


def _risk_text(arguments: Any) -> str:
    given = [f"{name} {getattr(arguments, name):g}" for name in _RISK_OPTIONS if getattr(arguments, name) is not None]
    return ", ".join([arguments.risk, *given])


def _fit_one(name: str, model: Any, data: Table, train: Any, test: Any) -> tuple[Row, list[str]]:
    def rows(array: Any, index: Any) -> Any:
        return array.iloc[index] if hasattr(array, "iloc") else array[index]

    extra: dict[str, Any] = {}
    if data.groups is not None:
        extra["model__groups"] = data.groups[train]
    if data.weight is not None:
        extra["model__sample_weight"] = data.weight[train]
    model, seconds, words = timed_fit(model, rows(data.X, train), data.y[train], **extra)
    held_out = rows(data.X, test)
    for _, step in model.steps[:-1]:
        held_out = step.transform(held_out)
    groups = None if data.groups is None else data.groups[test]
    words += _constant_note(name, model.steps[-1][1])
    return measure(name, model.steps[-1][1], seconds, held_out, data.y[test], groups), words


def _constant_note(name: str, estimator: Any) -> list[str]:
    """What to say of a model whose coefficients are next to nothing: a risk more severe than the table can bear."""
    size = float(np.max(np.abs(estimator.coef_), initial=0.0))
    if size > 1e-3:  # of features scaled to about one
        return []
    return [
        f"the {name} model is all but constant (largest coefficient {size:.0e}): in the worst case this risk looks at, the "
        "features do not help. Choose a milder risk: a larger alpha, a smaller radius or a larger penalty."
    ]
