"""`PartitionedModel`: the answers and the fits of one model of all rows, whatever the parts."""

from __future__ import annotations

import pickle
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import leeward as lw

RNG = np.random.default_rng(0)
N, D = 700, 4
X = RNG.normal(size=(N, D)) * [1.0, 2.0, 5.0, 0.1]
Z = X @ RNG.normal(size=D) + RNG.normal(size=N)
TARGETS: dict[str, Any] = {"squared": Z, "absolute": Z, "logistic": Z > 0, "hinge": Z > 0}
TARGETS["softmax"] = np.clip(np.round(Z), -1, 1).astype(int) + 1
CUTS = [(0, N), (0, 1, N), (0, 100, 350, 351, N)]


def loss_of(name: str) -> Any:
    return lw.losses.Softmax(3) if name == "softmax" else name


def whole(name: str, **settings: Any) -> lw.LinearModel:
    return lw.LinearModel(X, TARGETS[name], loss_of(name), **settings)


def parts(name: str, edges: tuple[int, ...] = CUTS[2], **settings: Any) -> list[lw.LinearModel]:
    """Parts of all kinds: doubles, CSR, rows with gaps between them."""
    ways = [lambda a: a, sp.csr_matrix, lambda a: np.repeat(a, 2, axis=0)[::2]]
    rows = [slice(a, b) for a, b in pairwise(edges)]
    return [lw.LinearModel(ways[k % 3](X[s]), TARGETS[name][s], loss_of(name), **settings) for k, s in enumerate(rows)]


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize("edges", CUTS, ids=len)
def test_every_answer_is_that_of_one_model(name: str, edges: tuple[int, ...]) -> None:
    one, many = whole(name, l2=0.1), lw.PartitionedModel(parts(name, edges), l2=0.1)
    rng = np.random.default_rng(1)
    w, q, index = rng.normal(size=one.dim), rng.uniform(size=N), rng.integers(0, N, 50)
    assert (many.size, many.dim, many.penalised, many.l2) == (one.size, one.dim, one.penalised, one.l2)
    shape = one.slopes(w).shape
    v, s = rng.normal(size=shape), 0.5 * one.slopes(w)
    for a, b in [
        (many.losses(w), one.losses(w)),
        (many.losses(w, index), one.losses(w, index)),
        (many.gradient(w, q), one.gradient(w, q)),
        (many.gradient(w, q[:50], index), one.gradient(w, q[:50], index)),
        (many.scores(w), one.scores(w)),
        (many.slopes(w), one.slopes(w)),
        (many.slopes(w, index), one.slopes(w, index)),
        (many.curvatures(w), one.curvatures(w)),
        (many.adjoint(v), one.adjoint(v)),
        (many.conjugate(s), one.conjugate(s)),
        (many.smoothness(), one.smoothness()),
        (many.rows(index), one.rows(index)),
        (many.targets(index), one.targets(index)),
        (many.targets(), one.targets()),
        (many.smoothed(0.3).losses(w), one.smoothed(0.3).losses(w)),
    ]:
        assert a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("name", "risk", "grouped"),
    [
        ("squared", lw.Mean(), False),
        ("logistic", lw.ChiSquare(radius=0.3), False),
        ("hinge", lw.CVaR(0.2), False),
        ("squared", lw.Spectral.extremile(2.0), False),
        ("absolute", lw.KL(penalty=1.0), True),
        ("logistic", lw.Worst(), True),
    ],
)
def test_a_fit_takes_the_path_of_one_model(name: str, risk: lw.Risk, grouped: bool) -> None:
    rng = np.random.default_rng(2)
    weight, groups = rng.uniform(size=N), rng.integers(0, 5, N) if grouped else None
    settings: dict[str, Any] = {"sample_weight": weight, "l2": 1e-2}
    one = lw.minimize(lw.Robust(whole(name, **settings), risk, groups=groups))
    many = lw.minimize(lw.Robust(lw.PartitionedModel(parts(name), **settings), risk, groups=groups))
    np.testing.assert_allclose(many.x, one.x, rtol=0, atol=1e-8)
    assert many.gap == pytest.approx(one.gap, rel=1e-4, abs=1e-12)
    assert (many.status, many.nfev) == (one.status, one.nfev)


def test_weights_of_the_parts_are_those_of_the_whole() -> None:
    weight = np.linspace(0.5, 2.0, N)
    pieces = [
        lw.LinearModel(X[:300], Z[:300], "squared"),
        lw.LinearModel(X[300:], Z[300:], "squared", sample_weight=weight[300:]),
    ]
    many = lw.PartitionedModel(pieces)
    np.testing.assert_array_equal(many.sample_weight, np.concatenate([np.ones(300), weight[300:]]))


def test_domains_and_wide_models_are_fitted_in_parts() -> None:
    one, many = whole("squared", l2=0.1), lw.PartitionedModel(parts("squared"), l2=0.1)
    a = lw.minimize(lw.Robust(one, lw.CVaR(0.3)), domain=lw.L1Ball(0.5))
    b = lw.minimize(lw.Robust(many, lw.CVaR(0.3)), domain=lw.L1Ball(0.5))
    np.testing.assert_allclose(b.x, a.x, rtol=0, atol=1e-9)
    rng = np.random.default_rng(3)
    wide = sp.random_array((200, 1600), density=0.02, rng=rng, format="csr")
    y = rng.normal(size=200)
    halves = [lw.LinearModel(wide[s], y[s], "squared") for s in (slice(0, 90), slice(90, 200))]
    a = lw.minimize(lw.Robust(lw.LinearModel(wide, y, "squared", l2=0.1), lw.KL(penalty=1.0)))
    b = lw.minimize(lw.Robust(lw.PartitionedModel(halves, l2=0.1), lw.KL(penalty=1.0)))
    np.testing.assert_allclose(b.x, a.x, rtol=0, atol=1e-9)


def test_a_pickled_model_answers_the_same() -> None:
    many = lw.PartitionedModel(parts("hinge"), l2=0.1, sample_weight=np.arange(1.0, N + 1)).smoothed(0.2)
    again = pickle.loads(pickle.dumps(many))
    w = np.linspace(-1.0, 1.0, many.dim)
    np.testing.assert_array_equal(again.losses(w), many.losses(w))
    assert repr(again) == repr(many)
    np.testing.assert_array_equal(again.sample_weight, many.sample_weight)


def test_parts_that_disagree_are_refused() -> None:
    with pytest.raises(ValueError, match="part 1 has loss"):
        lw.PartitionedModel([whole("squared"), whole("absolute")])
    with pytest.raises(ValueError, match="part 1 has features 3"):
        lw.PartitionedModel([whole("squared"), lw.LinearModel(X[:, :3], Z, "squared")])
    with pytest.raises(ValueError, match="part 1 has intercept False"):
        lw.PartitionedModel([whole("squared"), whole("squared", intercept=False)])
    with pytest.raises(TypeError, match="parts must be LinearModel objects"):
        lw.PartitionedModel([])
    with pytest.raises(TypeError, match="parts must be LinearModel objects"):
        lw.PartitionedModel([X])  # type: ignore[list-item]
    with pytest.raises(IndexError, match=r"index must be in \[0, 700\), got 700"):
        lw.PartitionedModel(parts("squared")).losses(np.zeros(5), [3, 700])


class _Kept(lw.Parts):
    """Parts of which some answers are lost, or come in another order."""

    def __init__(self, models: list[lw.LinearModel], kept: list[int]) -> None:
        self.models, self.kept, self.first = models, kept, True

    def map(self, function: Any, shared: Any = (), cut: Any = ()) -> list[Any]:
        answers = [function(model, *shared, *(c[k] for c in cut)) for k, model in enumerate(self.models)]
        kept, self.first = answers if self.first else [answers[k] for k in self.kept], False
        return kept


@pytest.mark.parametrize("question", ["losses", "slopes", "gradient", "smoothness", "rows"])
def test_answers_that_are_lost_or_in_another_order_are_noticed(question: str) -> None:
    arguments = {"losses": (np.zeros(5),), "slopes": (np.zeros(5),), "gradient": (np.zeros(5), np.ones(N))}.get(
        question, ()
    )
    few = lw.PartitionedModel(_Kept(parts("squared"), [0, 1, 3]))
    with pytest.raises(lw.errors.OracleError, match=f"an answer of each of the 4 parts, got 3 for {question}"):
        getattr(few, question)(*arguments)
    if question != "gradient":  # a sum has no order
        turned = lw.PartitionedModel(_Kept(parts("squared"), [0, 2, 1, 3]))
        with pytest.raises(lw.errors.OracleError, match="in the order of the parts: 250 rows of part 1, got 1"):
            getattr(turned, question)(*arguments)


@pytest.mark.parametrize("algorithm", [lw.SGD(), lw.SVRG(), lw.Nesterov()], ids=lambda a: type(a).__name__)
def test_algorithms_that_draw_rows_are_refused(algorithm: lw.Algorithm) -> None:
    with pytest.raises(TypeError, match="all rows in one place"):
        lw.minimize(lw.PartitionedModel(parts("squared"), l2=0.1), algorithm=algorithm)
