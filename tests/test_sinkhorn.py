"""Sinkhorn problems: points and costs beside their NumPy twin, inner problems beside mpmath, gradients, bits and words."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest
from scipy import sparse, stats

import leeward as lw
from leeward.divergences import KL, ChiSquare, CressieRead, KLCVaR, SmoothedCVaR
from reference import linear as linear_twin
from reference import risks_mpmath as exact
from reference import sinkhorn as twin

RNG = np.random.default_rng(11)
N, D, M = 9, 5, 6
X = RNG.normal(size=(N, D))
SIGNS = np.sign(RNG.normal(size=N))
REAL = RNG.normal(size=N)
W = RNG.normal(size=D + 1)
SPREAD = RNG.normal(size=(D, D))
COVARIANCE = SPREAD @ SPREAD.T / D + 0.1 * np.eye(D)
MOVES = RNG.normal(size=(4, D))
COSTS = ["sqeuclidean", "euclidean", "l1", "linf"]
DIVERGENCES: list[tuple[Any, Any, float]] = [  # as given, its conjugate in mpmath, the factor of the penalty
    ("kl", exact.kl(), 1.0),
    (KL(), exact.kl(), 1.0),
    ("chi2", exact.chi_square(), 1.0),
    (ChiSquare(), exact.chi_square(), 1.0),
    ("pearson", exact.chi_square(), 2.0),
    (SmoothedCVaR(0.2), exact.smoothed_cvar(0.2), 1.0),
    (KLCVaR(0.3), exact.kl_cvar(0.3), 1.0),
    (CressieRead(1.5), exact.cressie_read(1.5), 1.0),
    (CressieRead(3.0), exact.cressie_read(3.0), 1.0),
]
REFERENCES: list[tuple[dict[str, Any], dict[str, Any]]] = [  # arguments of the problem, and of the twin
    ({"noise": 0.4}, {"scale": 0.4}),
    ({"noise": np.linspace(0.1, 0.5, D)}, {"scale": np.linspace(0.1, 0.5, D)}),
    ({"noise": COVARIANCE}, {"factor": np.linalg.cholesky(COVARIANCE)}),
    ({"reference": "laplace", "noise": 0.3}, {"kind": "laplace", "scale": 0.3}),
    ({"reference": "ball", "noise": 0.7}, {"kind": "ball", "scale": 0.7}),
    ({"reference": MOVES}, {"kind": "empirical", "rows": MOVES}),
    ({"noise": 0.8, "bounds": (-0.5, 1.0)}, {"scale": 0.8, "bounds": (-0.5, 1.0)}),
    ({"noise": 0.4, "label_noise": 0.3}, {"scale": 0.4, "label_noise": 0.3}),
]
sampled = functools.partial(lw.Sinkhorn, exact=False)


def model(data: Any = X, loss: str = "squared", **settings: Any) -> lw.LinearModel:
    y = {"logistic": SIGNS, "softmax": np.arange(N) % 3}.get(loss, REAL)
    return lw.LinearModel(data, y, loss, **settings)


def plain(problem: lw.Sinkhorn) -> np.ndarray:
    """The rows of the model as they are stored."""
    return problem.model.rows()


@pytest.mark.parametrize(("arguments", "of_twin"), REFERENCES, ids=lambda a: "-".join(a))
@pytest.mark.parametrize("data", [X, X.astype(np.float32), sparse.csr_array(X)], ids=["float64", "float32", "csr"])
def test_points_equal_their_twin(arguments: dict[str, Any], of_twin: dict[str, Any], data: Any) -> None:
    problem = sampled(model(data), "chi2", draws=M, seed=3, **arguments)
    x, labels, _ = twin.points(plain(problem), REAL, M, 3, **of_twin)
    made, made_labels = problem.points()
    np.testing.assert_allclose(made, x, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(made_labels, labels, rtol=1e-13, atol=1e-14)
    picked = np.array([3, 3, 7 * M + 2, 0, 1, 2, 10**9 * M + 5])
    far, _, _ = twin.points(plain(problem), REAL, M, 3, [10**9], **of_twin)
    np.testing.assert_allclose(problem.points(picked)[0], np.vstack([x[picked[:-1]], far[5]]), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("cost", COSTS)
@pytest.mark.parametrize("cols", [1, 5, 40])
def test_costs_equal_their_twin(cost: str, cols: int) -> None:
    data, y = RNG.normal(size=(4, cols)), RNG.normal(size=4)
    problem = sampled(
        lw.LinearModel(data, y, "squared"), "chi2", draws=3, cost=cost, cost_scale=1.7, label_noise=0.2, label_cost=0.6
    )
    x, labels, origin = twin.points(data, y, 3, 0, scale=0.2, label_noise=0.2)
    wanted = twin.costs(x, origin, cost, 1.7, labels, np.repeat(y, 3), 0.6)
    np.testing.assert_allclose(problem.costs(), wanted, rtol=1e-11)


def test_names_of_one_cost_mean_the_same() -> None:
    for first, second in (("l1", "cityblock"), ("linf", "chebyshev")):
        np.testing.assert_array_equal(*(sampled(model(), cost=c).costs() for c in (first, second)))


@pytest.mark.parametrize(("divergence", "conjugate", "factor"), DIVERGENCES, ids=lambda a: str(a)[:24])
@pytest.mark.parametrize("cost", COSTS)
@pytest.mark.parametrize("case", ["plain", "ties", "equal", "huge"])
def test_inner_problems_and_gradient_equal_mpmath(
    divergence: Any, conjugate: Any, factor: float, cost: str, case: str
) -> None:
    """To 1e-10 of the scale of the losses; eta solves mean (f*)' = 1."""
    lam, eps = 1.3, 0.4
    w = 1e5 * W if case == "huge" else np.zeros(D + 1) if case == "equal" else W
    reference: dict[str, Any] = {"noise": 0.4}
    if case == "ties":  # few displacements, so that points repeat
        reference = {"reference": MOVES[:2]}
    if case == "equal":
        reference = {"reference": np.ones((1, D))}
    problem = sampled(model(), divergence, lam=lam, entropy=eps, draws=M, cost=cost, recentre=False, **reference)
    x, y = problem.points()
    losses = 0.5 * (x @ w[:D] + w[D] - y) ** 2 - lam * problem.costs()
    rows = losses.reshape(N, M)
    answers = [exact.penalty(row, None, conjugate, factor * lam * eps) for row in rows]
    values, q = (np.array([np.asarray(a[k], dtype=float) for a in answers]) for k in (0, 1))
    scale = np.ptp(rows) + np.abs(values).max()
    made = problem.evaluate(w)
    np.testing.assert_allclose(made.losses, values, rtol=0, atol=1e-10 * scale)
    np.testing.assert_allclose(problem.worst_case(w), q, rtol=0, atol=1e-9)
    slopes = (q / N).ravel() * (x @ w[:D] + w[D] - y)
    gradient = np.append(slopes @ x, slopes.sum())
    np.testing.assert_allclose(made.gradient, gradient, rtol=0, atol=1e-9 * np.abs(slopes).sum() * np.abs(x).max())
    f = problem.inner.divergence
    assert f is not None
    if case != "huge":
        ratio = f.conjugate_grad((rows - made.inner_eta[:, None]) / (factor * lam * eps)).mean(axis=1)
        np.testing.assert_allclose(ratio, 1.0, rtol=0, atol=1e-9)
    np.testing.assert_allclose(made.effective_draws, 1 / (q**2).sum(1), rtol=1e-6)


@pytest.mark.parametrize("loss", ["squared", "logistic", "softmax", "huber"])
@pytest.mark.parametrize("divergence", ["kl", "chi2", SmoothedCVaR(0.3)], ids=str)
@pytest.mark.parametrize("weighted", [False, True])
def test_the_gradient_is_that_of_the_value(loss: str, divergence: Any, weighted: bool) -> None:
    weight = np.arange(N, dtype=float) if weighted else None
    problem = sampled(model(loss=loss, l2=0.1, sample_weight=weight), divergence, noise=0.5)
    w = RNG.normal(size=problem.dim)
    made = problem.evaluate(w)
    assert problem.value(w) == pytest.approx(made.value, rel=1e-13)
    h = 1e-5
    difference = [(problem.value(w + h * e) - problem.value(w - h * e)) / (2 * h) for e in np.eye(problem.dim)]
    np.testing.assert_allclose(made.gradient, difference, rtol=1e-6, atol=1e-8)
    p = np.full(N, 1 / N) if weight is None else weight / weight.sum()
    coef = w[: problem.penalised]
    assert made.value == pytest.approx(p @ made.losses + 0.05 * coef @ coef, rel=1e-12)
    np.testing.assert_allclose(
        problem.oracle.gradient(w, p),
        made.gradient - 0.1 * np.append(coef, np.zeros(problem.dim - len(coef))),
        atol=1e-13,
    )


@pytest.mark.parametrize("loss", ["squared", "logistic", "softmax"])
def test_bits_do_not_depend_on_threads(loss: str) -> None:
    data, y = RNG.normal(size=(3000, 40)), RNG.integers(0, 3 if loss == "softmax" else 2, size=3000)
    problem = sampled(lw.LinearModel(data, y, loss), "chi2", draws=23)  # 69000 points: rows are solved in parallel
    w = RNG.normal(size=problem.dim)
    first = problem.evaluate(w, threads=1)
    for threads in (2, 3):
        other = problem.evaluate(w, threads=threads)
        for name in ("value", "gradient", "losses", "inner_eta"):
            np.testing.assert_array_equal(getattr(first, name), getattr(other, name))


def test_many_points_are_done_in_parts_with_the_answers_of_few() -> None:
    """300000 points are more than one part holds."""
    data, y = RNG.normal(size=(3000, 2)), SIGNS[RNG.integers(0, N, size=3000)]
    many = sampled(lw.LinearModel(data, y), "chi2", draws=100)
    w = np.array([0.4, -0.2, 0.1])
    few = sampled(lw.LinearModel(data[:10], y[:10]), "chi2", draws=100)
    np.testing.assert_array_equal(many.evaluate(w).losses[:10], few.evaluate(w).losses)
    p = np.full(3000, 1 / 3000)
    np.testing.assert_allclose(many.oracle.gradient(w, p), many.evaluate(w).gradient, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("loss", ["squared", "softmax"])
@pytest.mark.parametrize("inner", ["exact", "bisection"])
@pytest.mark.parametrize("common", [True, False])
def test_a_drawn_direction_equals_its_twin(loss: str, inner: str, common: bool) -> None:
    problem = sampled(model(loss=loss), "chi2", draws=M, seed=5, common=common)
    algorithm = lw.NestedSGD(4, inner=inner)
    native = algorithm._estimator().start(problem, 8)
    w, outs = RNG.normal(size=problem.dim), problem.model.n_outputs
    y = problem.model._y
    for step in (0, 1, 17):
        sets = native.draw(step)
        key = problem.seed if common else (problem.seed + 0x9E3779B97F4A7C15 * 9) % 2**64
        assert (sets // N == (0 if common else step)).all()
        x, labels, origin = twin.points(X, y, M, key, sets, scale=0.2)
        z = linear_twin.scores(w, x, outs, True)
        l = linear_twin.value_slope(problem.model.loss, z, labels)[0] - twin.costs(x, origin)
        s = problem.inner.solve(l.reshape(4, M))
        wanted = linear_twin.gradient(w, s.weights.ravel() / 4, x, labels, problem.model.loss, outs, True)
        got, value, cost, finite = native.direction(w, step)
        np.testing.assert_allclose(got, wanted, rtol=1e-9, atol=1e-11)
        assert (value, cost, finite) == (pytest.approx(s.value.mean(), rel=1e-11), 4, True)


def test_other_seeds_draw_other_points_and_common_draws_stay() -> None:
    for common in (False, True):
        problem = sampled(model(), "chi2", common=common)
        first, second = (problem.minibatch(N, False, seed).direction(W, 0)[0] for seed in (1, 2))
        assert np.array_equal(first, second) is common
        np.testing.assert_array_equal(problem.minibatch(N, False, 1).direction(W, 0)[0], first)


@pytest.mark.parametrize("start", [None, 1.5])
def test_inner_gradient_steps_equal_their_twin(start: float | None) -> None:
    """The eta of smallest residual of all so far is taken, and kept for the sample's next visit."""
    problem = sampled(model(), "chi2", draws=M, lam=1.1, entropy=0.6, common=True)
    reach, a, f = 1.1 * 0.6, 0.3, ChiSquare()
    native = lw.NestedSGD(4, inner="sgd", inner_steps=5, inner_step=a, inner_start=start)._estimator().start(problem, 8)
    drawn = lw.NestedSGD(4)._estimator().start(problem, 8)
    x, y = problem.points()
    eta: dict[int, float] = {}
    for step in range(12):
        rows = (0.5 * (x @ W[:D] + W[D] - y) ** 2 - 1.1 * problem.costs()).reshape(N, M)
        r = np.zeros((4, M))
        for k, i in enumerate(drawn.draw(step)):
            path = [eta.get(int(i), rows[i].mean() if start is None else start)]
            for _ in range(5):
                after = path[-1] - a * (1 - f.conjugate_grad((rows[i] - path[-1]) / reach).mean())
                path.append(after if after <= max(path[-1], rows[i].max() + reach) else rows[i].max())  # no overflow
            residuals = [abs(1 - f.conjugate_grad((rows[i] - e) / reach).mean()) for e in path]
            eta[int(i)] = path[5 - int(np.argmin(residuals[::-1]))]  # the last of equal ones
            r[k] = f.conjugate_grad((rows[i] - eta[int(i)]) / reach) / (4 * M)
        index = (drawn.draw(step)[:, None] * M + np.arange(M)).ravel()
        slopes = r.ravel() * (x[index] @ W[:D] + W[D] - y[index])
        np.testing.assert_allclose(
            native.direction(W, step)[0], np.append(slopes @ x[index], slopes.sum()), rtol=1e-11, atol=1e-12
        )
    kept = native.eta
    assert all(kept[i] == pytest.approx(e, rel=1e-12) for i, e in eta.items())
    np.testing.assert_array_equal(np.delete(kept, list(eta)), np.nan if start is None else start)


@pytest.mark.parametrize("divergence", [d for d, _, _ in DIVERGENCES], ids=str)
def test_bisection_finds_the_exact_solution(divergence: Any) -> None:
    problem = sampled(model(), divergence, common=True, recentre=False)
    one, other = (
        lw.NestedSGD(N, inner=inner)._estimator().start(problem, 1).direction(W, 0) for inner in ("exact", "bisection")
    )
    np.testing.assert_allclose(one[0], other[0], rtol=1e-8, atol=1e-9)
    assert one[1] == pytest.approx(other[1], rel=1e-10)


@pytest.mark.parametrize("noise", [0.5, np.linspace(0.2, 0.6, D), 0.3 * COVARIANCE], ids=["scalar", "diagonal", "full"])
def test_recentred_draws_have_the_same_expectation_with_less_noise(noise: Any) -> None:
    """KL with a squared loss has a closed form, a Gaussian integral: both kinds of draws are within 5 standard errors of it."""
    lam, eps, tau, kappa = 2.0, 0.5, 0.2, 0.7
    base = lw.LinearModel(X[:1], REAL[:1], "squared")
    w = 0.3 * W
    sigma = np.asarray(noise) if np.ndim(noise) == 2 else np.diag(np.broadcast_to(np.asarray(noise) ** 2, D))
    joint = np.block([[sigma, np.zeros((D, 1))], [np.zeros((1, D)), tau**2 * np.eye(1)]])
    price = np.diag(np.append(np.full(D, 1.4), kappa))  # cost = v' price v
    b = np.append(w[:D], -1.0)
    c = X[0] @ w[:D] + w[D] - REAL[0]
    reach = lam * eps
    precision = np.linalg.inv(joint) + 2 * price / eps - np.outer(b, b) / reach
    assert np.linalg.eigvalsh(precision).min() > 0
    linear = c * b / reach
    log_mean = -0.5 * np.linalg.slogdet(precision @ joint)[1] + 0.5 * linear @ np.linalg.solve(precision, linear)
    wanted = reach * (log_mean + 0.5 * c * c / reach)
    errors = {}
    for recentre in (False, True):
        problem = sampled(
            base,
            "kl",
            lam=lam,
            entropy=eps,
            noise=noise,
            cost_scale=1.4,
            label_noise=tau,
            label_cost=kappa,
            draws=200_000,
            recentre=recentre,
        )
        x, y = problem.points()
        l = 0.5 * (x @ w[:D] + w[D] - y) ** 2 - (0.0 if recentre else lam) * problem.costs()
        terms = np.exp((l - l.max()) / reach)
        errors[recentre] = reach * terms.std() / terms.mean() / np.sqrt(len(terms))
        assert problem.evaluate(w).losses[0] == pytest.approx(wanted, abs=5 * errors[recentre])
    assert errors[True] < 0.7 * errors[False]


def test_recentring_is_the_default_where_it_applies() -> None:
    assert sampled(model(), "kl").recentre
    for arguments in ({"cost": "l1"}, {"reference": "laplace"}, {"bounds": (-1, 1)}):
        assert not sampled(model(), "kl", **arguments).recentre  # type: ignore[arg-type]
    assert not sampled(model(), "chi2").recentre


def test_draws_have_the_laws_they_are_named_for() -> None:
    """Kolmogorov and Smirnov's test at a chance of 1e-3 for a true law, on fixed seeds."""
    base = lw.LinearModel(np.zeros((1, 3)), [0.0], "squared")
    laws = [
        ({"noise": 0.5, "label_noise": 0.3}, lambda x: (x[:, 1] / 0.5, stats.norm.cdf)),
        ({"reference": "laplace", "noise": 0.5}, lambda x: (x[:, 2] / 0.5, stats.laplace.cdf)),
        ({"reference": "ball", "noise": 0.5}, lambda x: ((np.linalg.norm(x, axis=1) / 0.5) ** 3, stats.uniform.cdf)),
    ]
    for arguments, law in laws:
        problem = sampled(base, "chi2", draws=20_000, **arguments)  # type: ignore[arg-type]
        x, y = problem.points()
        values, cdf = law(x)  # type: ignore[no-untyped-call]
        assert stats.kstest(values, cdf).pvalue > 1e-3
        assert np.abs(np.corrcoef(x.T) - np.eye(3)).max() < 0.03
        if "label_noise" in arguments:
            assert stats.kstest(y / 0.3, stats.norm.cdf).pvalue > 1e-3
            assert np.abs(np.corrcoef(np.column_stack([x, y]).T) - np.eye(4)).max() < 0.03
    problem = sampled(base, "chi2", reference=MOVES[:, :3], draws=20_000)
    counts = [(problem.points()[0] == row).all(axis=1).sum() for row in MOVES[:, :3]]
    assert sum(counts) == 20_000
    assert stats.chisquare(counts).pvalue > 1e-3


def test_points_stay_within_bounds() -> None:
    problem = sampled(model(np.clip(X, 0, 1)), "chi2", noise=1.0, bounds=(0, np.ones(D)))
    x, _ = problem.points()
    assert x.min() == 0
    assert x.max() == 1
    assert ((x > 0) & (x < 1)).any()


def test_pearson_is_chi_square_of_twice_the_penalty() -> None:
    """reg f*((a - eta)/reg) of (t - 1)^2 at reg is that of (t - 1)^2/2 at 2 reg: same value, same weights."""
    one, other = sampled(model(), "pearson", entropy=0.2), sampled(model(), "chi2", entropy=0.4)
    np.testing.assert_allclose(one.evaluate(W).losses, other.evaluate(W).losses, rtol=1e-14)
