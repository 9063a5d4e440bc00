"""`leeward demo`: ordinary and robust classifiers on two data sets that come with scikit-learn, as a table and a picture.

Digits: ten classes on 8 x 8 pixels with a firm ridge, where the ordinary model gives up on the hardest class. Tumours: benign
against malignant from four measurements, where the ordinary model is confidently wrong about a few patients.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import leeward as lw
from leeward.cli._report import Row, draw, measure, table, timed_fit

__all__ = ["demo"]


@dataclass
class Case:
    """A data set of the demo, split and scaled, with the ridge of its models."""

    name: str
    what: str
    l2: float
    train: tuple[Any, Any]
    test: tuple[Any, Any]


def demo(arguments: Any, classifier: type) -> int:
    """Run the command; `classifier` is the estimator class to use."""
    models = {
        "ERM": lw.Mean(),
        "CVaR 0.3": lw.CVaR(0.3),
        "chi-square 0.5": lw.ChiSquare(radius=0.5),
        "KL 0.3": lw.KL(radius=0.3),
    }
    drawn: dict[str, list[Row]] = {}
    for case in (_digits(), _tumours()):
        rows = []
        for name, risk in models.items():
            model = classifier(risk, l2=case.l2, tol=1e-4, n_jobs=arguments.threads)
            model, seconds, words = timed_fit(model, *case.train)
            rows.append(measure(name, model, seconds, *case.test))
            rows[-1].measures["certified gap"] += "*" if words else ""
        n, d = case.train[0].shape
        print(
            f"{case.name}: {case.what}; {n} training and {len(case.test[1])} held-out rows, {d} columns, l2 = {case.l2:g}\n"
        )
        print(f"{table(rows)}\n")
        drawn[case.name] = rows
    print("Losses and accuracies are those of held-out rows. ERM minimises the mean loss, the others a worst case over")
    print(
        "reweightings of the training rows: they give up some mean loss and get a lighter tail. The gap is certified: no"
    )
    print("model has a training objective lower by more.")
    return _picture(arguments, drawn)


def _picture(arguments: Any, drawn: dict[str, list[Row]]) -> int:
    if arguments.no_figure:
        return 0
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        print('\nno picture: matplotlib is missing (pip install "leeward[plot]")')
        return 0
    draw(drawn, arguments.out)
    print(f"\npicture: {arguments.out}")
    return 0


def _digits() -> Case:
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    return _case("digits", "ten hand-written digits on 8 x 8 pixels", 1e-2, X / 16.0, y)


def _tumours() -> Case:
    from sklearn.datasets import load_breast_cancer

    X, y = load_breast_cancer(return_X_y=True)
    return _case("tumours", "benign or malignant from radius, texture, perimeter and area", 1e-3, X[:, :4], y)


def _case(name: str, what: str, l2: float, X: Any, y: Any) -> Case:
    """Half of the rows for training, the columns centred and scaled by what those rows say."""
    from sklearn.model_selection import train_test_split

    X, X_test, y, y_test = train_test_split(X, y, test_size=0.5, stratify=y, random_state=0)
    centre, scale = X.mean(axis=0), (X.std(axis=0) if name == "tumours" else 1.0)
    return Case(name, what, l2, ((X - centre) / scale, y), ((X_test - centre) / scale, y_test))
