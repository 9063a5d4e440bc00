"""Points of a fitted worst case have its law: against densities by quadrature, exact gradients, and the kernel's other draws.

Kolmogorov distances are below their 0.1 % quantile ``1.95/sqrt(n)``, means within 4.5 standard errors (7e-6 each, both sides).
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

pytest.importorskip("sklearn")

import scipy.sparse as sp

import leeward as lw
from leeward.sklearn import SinkhornClassifier, SinkhornRegressor

RNG = np.random.default_rng(29)
N, D = 200, 3
X = RNG.normal(size=(N, D))
SCORE = X @ [1.5, -1.0, 0.5]
TWO = (SCORE + RNG.normal(size=N) > 0).astype(int)
REAL = SCORE + 0.5 * RNG.normal(size=N)
SIZE = 20_000
MODELS = {
    "logistic": lambda: SinkhornClassifier(scale=None),
    "logistic, cold": lambda: SinkhornClassifier(scale=None, lam=0.02, entropy=0.5, noise=0.5),
    "hinge": lambda: SinkhornClassifier(scale=None, loss="hinge"),
    "squared hinge": lambda: SinkhornClassifier(scale=None, loss="squared_hinge"),
    "squared classes": lambda: SinkhornClassifier(scale=None, loss="squared", noise=0.5),
    "squared": lambda: SinkhornRegressor(scale=None, lam=3.0),
    "huber": lambda: SinkhornRegressor(scale=None, loss="huber"),
    "huber, cold": lambda: SinkhornRegressor(scale=None, loss=lw.losses.Huber(0.5), lam=0.1, entropy=0.3, noise=0.5),
    "absolute": lambda: SinkhornRegressor(scale=None, loss="absolute", noise=0.4),
    "quantile": lambda: SinkhornRegressor(scale=None, loss=lw.losses.Quantile(0.8), noise=0.4),
    "covariance": lambda: SinkhornClassifier(scale=None, noise=[[0.3, 0.1, 0.0], [0.1, 0.2, 0.05], [0.0, 0.05, 0.1]]),
    "one a feature": lambda: SinkhornClassifier(scale=None, noise=[0.5, 0.1, 0.2]),
}
EXACT = [name for name in MODELS if name not in ("covariance", "one a feature")]


def fitted(name: str) -> tuple[Any, Any]:
    model = MODELS[name]()
    y = TWO if isinstance(model, SinkhornClassifier) else REAL
    return model.fit(X, y), y


def tilted_covariance(model: Any) -> Any:
    noise = np.asarray(0.2 if model.noise is None else model.noise)
    covariance = noise if noise.ndim == 2 else np.diag(np.broadcast_to(noise**2, (D,)))
    return np.linalg.inv(np.linalg.inv(covariance) + 2.0 / model.entropy * np.eye(D))


def plain_model(model: Any, points: Any, y: Any) -> lw.LinearModel:
    if isinstance(model, SinkhornClassifier) and model.loss == "squared":
        y = 2.0 * y - 1.0
    return lw.LinearModel(points, y, model.loss)


def distance(values: Any, grid: Any, log_density: Any) -> float:
    """Kolmogorov's between values and the law of this density on a grid."""
    density = np.exp(log_density - log_density.max())
    cumulative = np.concatenate([[0.0], np.cumsum(0.5 * (density[1:] + density[:-1]))])
    expected = np.interp(np.sort(values), grid, cumulative / cumulative[-1])
    steps = np.arange(len(values) + 1) / len(values)
    return float(max((steps[1:] - expected).max(), (expected - steps[:-1]).max()))


@pytest.mark.parametrize("name", list(MODELS))
@pytest.mark.parametrize("row", [0, 5])
def test_scores_have_the_density_of_the_worst_case(name: str, row: int) -> None:
    model, y = fitted(name)
    made = model.worst_case_samples(X[row : row + 1], y[row : row + 1], SIZE, random_state=row)
    assert made.effective_draws is None
    coef = np.ravel(model.coef_)
    scores = made.X @ coef + model.intercept_
    centre, spread = X[row] @ coef + model.intercept_, np.sqrt(coef @ tilted_covariance(model) @ coef)
    reach = model.lam_ * model.entropy
    grid = np.linspace(scores.min() - 2.0 * spread, scores.max() + 2.0 * spread, 20_001).ravel()
    loss = plain_model(model, grid[:, None], np.full(len(grid), y[row]))
    if (
        isinstance(model, SinkhornClassifier) and model.loss != "squared"
    ):  # labels of one kind alone: give them as signs
        loss = lw.LinearModel(grid[:, None], np.full(len(grid), 2.0 * y[row] - 1.0), model.loss)
    log_density = loss.losses(np.array([1.0, 0.0])) / reach - 0.5 * ((grid - centre) / spread) ** 2
    assert distance(np.ravel(scores), grid, log_density) < 1.95 / np.sqrt(SIZE)


@pytest.mark.parametrize("name", ["logistic", "covariance", "one a feature"])
def test_moves_that_do_not_change_the_score_are_those_of_the_tilted_noise(name: str) -> None:
    model, y = fitted(name)
    made = model.worst_case_samples(X, y, SIZE, random_state=1)
    covariance, coef = tilted_covariance(model), np.ravel(model.coef_)
    moves = made.X - X[made.index]
    along = covariance @ coef / (coef @ covariance @ coef)
    rest = moves - np.outer(moves @ coef, along)  # independent of the score under the noise
    expected = covariance - np.outer(along, along) * (coef @ covariance @ coef)
    products = rest[:, :, None] * rest[:, None, :]
    error = products.std(axis=0) / np.sqrt(SIZE)
    assert (np.abs(products.mean(axis=0) - expected) < 4.5 * error + 1e-15).all()
    mixed = rest * (moves @ coef)[:, None]
    assert (np.abs(mixed.mean(axis=0)) < 4.5 * mixed.std(axis=0) / np.sqrt(SIZE) + 1e-15).all()


@pytest.mark.parametrize("name", EXACT)
def test_the_mean_gradient_at_the_points_is_that_of_the_objective(name: str) -> None:
    model, y = fitted(name)
    w = np.append(model.coef_, model.intercept_)
    plain = plain_model(model, X, y)
    problem = lw.Sinkhorn(
        plain, lam=model.lam_, entropy=model.entropy, noise=0.2 if model.noise is None else model.noise, exact=True
    )
    expected = problem.evaluate(w).gradient
    made = model.worst_case_samples(X, y, 4 * SIZE, random_state=2)
    slopes = plain_model(model, made.X, made.y).slopes(w)
    terms = slopes[:, None] * np.column_stack([made.X, np.ones(len(slopes))])
    error = terms.std(axis=0) / np.sqrt(len(slopes))
    assert (np.abs(terms.mean(axis=0) - expected) < 4.5 * error).all()


def test_resampled_points_have_the_gradient_of_the_objective() -> None:
    model = SinkhornClassifier("chi2", scale=None, noise=0.4, lam=0.3).fit(X, TWO)
    w = np.append(model.coef_, model.intercept_)
    problem = lw.Sinkhorn(lw.LinearModel(X, TWO), "chi2", lam=0.3, noise=0.4, exact=True)
    rows = np.tile(X, (40, 1)), np.tile(TWO, 40)  # each repetition has draws of its own
    made = model.worst_case_samples(*rows, SIZE, random_state=3)
    slopes = lw.LinearModel(made.X, made.y).slopes(w)
    terms = slopes[:, None] * np.column_stack([made.X, np.ones(SIZE)])
    error = terms.std(axis=0) / np.sqrt(SIZE)
    assert (
        np.abs(terms.mean(axis=0) - problem.evaluate(w).gradient) < 4.5 * error + 2e-3
    ).all()  # 512 draws: bias 1/512
    assert made.effective_draws is not None
    assert 20.0 < made.effective_draws.min() < made.effective_draws.max() <= 512.0


def test_resampled_and_exact_draws_of_one_law_agree() -> None:
    exact, y = fitted("logistic")
    drawn = SinkhornClassifier(scale=None, exact=False, draws=4).fit(X, y)
    drawn.coef_, drawn.intercept_ = exact.coef_, exact.intercept_
    rows = np.tile(X[:1], (4000, 1)), np.tile(y[:1], 4000)
    one, two = (
        np.sort(m.worst_case_samples(*rows, 4000, random_state=4).X @ np.ravel(exact.coef_)) for m in (exact, drawn)
    )
    both = np.sort(np.concatenate([one, two]))
    far = np.abs(np.searchsorted(one, both, "right") - np.searchsorted(two, both, "right")).max() / 4000
    assert far < 1.95 * np.sqrt(2 / 4000)


def test_three_classes_are_drawn_by_weight() -> None:
    three = np.digitize(SCORE, [-1.0, 1.0])
    model = SinkhornClassifier(noise=0.5, lam=0.3, scale=None).fit(X, three)
    made = model.worst_case_samples(X, three, SIZE, random_state=5)
    assert made.effective_draws is not None
    assert (made.y == three[made.index]).all()
    still = model.sample_losses(X, three)[made.index]
    assert (model.sample_losses(made.X, made.y) - still).mean() > 0.05
    moves = made.X - X[made.index]
    tilted = 0.25 * 0.1 / (0.1 + 0.5)
    assert (moves.var(axis=0) > 0.9 * tilted).all()


@pytest.mark.parametrize("model", [SinkhornClassifier(), SinkhornClassifier("chi2"), SinkhornClassifier(radius=0.3)])
def test_rows_are_drawn_by_their_weights_and_keep_their_labels(model: Any) -> None:
    names = np.where(TWO == 1, "up", "down")
    model.fit(X, names)
    weight = np.zeros(N)
    weight[[3, 7]] = 1.0, 3.0
    made = model.worst_case_samples(X, names, 2000, sample_weight=weight, random_state=6)
    assert set(made.index) == {3, 7}
    assert abs((made.index == 7).mean() - 0.75) < 4.5 * np.sqrt(0.75 * 0.25 / 2000)
    assert (made.y == names[made.index]).all()
    assert len(model.worst_case_samples(X, names).y) == N


def test_points_of_a_ball_keep_to_its_budget() -> None:
    rows, y = np.tile(X, (10, 1)), np.tile(TWO, 10)
    for radius in (0.25, 50.0):  # the second is more than the draws can use: the price is all but 0
        model = SinkhornClassifier("chi2", radius=radius, scale=None, noise=0.4, draws=8, l2=1e-2)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(rows, y)
        made = model.worst_case_samples(rows, y, SIZE)
        cost = np.sum((made.X - rows[made.index]) ** 2, axis=1)
        assert made.effective_draws is not None
        assert made.effective_draws.max() <= 8.0 + 1e-9
        assert cost.max() < 0.16 * 30.0  # among draws, whatever the price
        assert cost.mean() < radius


def test_units_go_back_and_sparse_rows_come_out_dense() -> None:
    rows = np.where(np.abs(X) > 0.5, X, 0.0) * [100.0, 1.0, 1e-3]
    for model in (SinkhornClassifier(), SinkhornClassifier("chi2")):
        model.fit(rows, TWO)
        dense = model.worst_case_samples(rows, TWO, 500, random_state=7)
        sparse = model.worst_case_samples(sp.csr_array(rows), TWO, 500, random_state=7)
        np.testing.assert_allclose(sparse.X / rows.std(axis=0), dense.X / rows.std(axis=0), atol=1e-9)
        moves = (dense.X - rows[dense.index]) / rows.std(axis=0)
        assert (moves.std(axis=0) > 0.1).all()
        assert (moves.std(axis=0) < 0.25).all()


def test_bounds_and_label_noise_are_those_of_the_data() -> None:
    rows, low, high = 100.0 * X, -120.0, 80.0
    model = SinkhornClassifier(bounds=(low, high), noise=0.5).fit(rows, TWO)
    assert not model.exact_
    made = model.worst_case_samples(rows, TWO, 1000)
    assert made.X.min() == pytest.approx(low)
    assert made.X.max() == pytest.approx(high)
    noisy = SinkhornRegressor(label_noise=0.1).fit(X, 50.0 * REAL)
    drawn = noisy.worst_case_samples(X, 50.0 * REAL, 2000)
    moved = (drawn.y - 50.0 * REAL[drawn.index]) / noisy.target_scale_
    assert 0.05 < moved.std() < 0.2


def test_an_infinite_worst_case_is_refused() -> None:
    model = SinkhornRegressor(scale=None, lam=3.0).fit(X, REAL)
    model.coef_ = 100.0 * model.coef_
    with pytest.raises(ValueError, match="the worst case of a quadratic loss under KL is infinite"):
        model.worst_case_samples(X, REAL, 5)


@pytest.mark.parametrize(
    ("settings", "words"), [({"size": 0}, "size must be a whole number"), ({"pool": 1.5}, "pool must be")]
)
def test_wrong_arguments_are_named(settings: dict[str, Any], words: str) -> None:
    model = SinkhornClassifier().fit(X, TWO)
    with pytest.raises(ValueError, match=words):
        model.worst_case_samples(X, TWO, **settings)
    with pytest.raises(ValueError, match="y must hold labels among classes_"):
        model.worst_case_samples(X, TWO + 1)


def test_a_seed_gives_the_same_points() -> None:
    for model in (SinkhornClassifier(), SinkhornClassifier("chi2")):
        model.fit(X, TWO)
        one, two, other = (model.worst_case_samples(X, TWO, 50, random_state=s) for s in (1, 1, 2))
        assert one.X.tobytes() == two.X.tobytes()
        assert one.X.tobytes() != other.X.tobytes()
