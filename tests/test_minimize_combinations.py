"""Every documented combination runs and lowers the objective as its formula says: no option is accepted and ignored."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import sparse

import leeward as lw
from leeward import losses
from leeward.algorithms import Algorithm
from test_minimize import quietly

LOSSES = [
    losses.Squared(),
    losses.Huber(1.0),
    losses.Absolute(),
    losses.Quantile(0.3),
    losses.Logistic(),
    losses.Softmax(),
    losses.Hinge(),
    losses.SquaredHinge(),
    losses.Poisson(),
]
RISKS = [
    lw.Mean(),
    lw.Worst(),
    lw.CVaR(0.2),
    lw.KL(penalty=0.5),
    lw.KL(radius=0.3),
    lw.ChiSquare(penalty=0.5),
    lw.ChiSquare(radius=0.5),
    lw.ChiSquare(penalty=0.5, radius=0.5),
    lw.KLCVaR(0.2, 0.3),
    lw.SmoothedCVaR(0.2, 0.3),
    lw.CressieRead(3.0, radius=0.5),
    lw.TotalVariation(0.2),
    lw.Tilted(-1.0),
    lw.Spectral.superquantile(0.2),
]
ALGORITHMS = [
    lw.SGD(lw.Minibatch(10)),
    lw.SGD(lw.Minibatch(10), momentum=0.5),
    lw.Nesterov(lw.Minibatch(20, replace=False)),
]


FINITE_SUMS = [
    lw.SVRG(2),
    lw.SCSG(10, 2, output="average"),
    lw.SARAH(inner_batch=4, update=lw.Momentum(0.5)),
    lw.STORM(4),
    lw.SVRG(4, update=lw.AMSGrad()),
    lw.SGD(lw.Minibatch(8), update=lw.Adam()),
]


def labels(loss: losses.Loss, scores: NDArray[np.float64]) -> NDArray[np.float64]:
    if isinstance(loss, losses.Softmax):
        return np.digitize(scores, [-0.5, 0.5]).astype(float)
    if isinstance(loss, losses.Poisson):
        return np.floor(np.exp(1.0 + 0.5 * scores))
    if isinstance(loss, losses.Logistic | losses.Hinge | losses.SquaredHinge):
        return np.where(scores > 0, 1.0, -1.0)
    return scores


@pytest.mark.parametrize("algorithm", ALGORITHMS, ids=repr)
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("risk", RISKS, ids=repr)
def test_every_loss_goes_with_every_risk_and_algorithm(loss: losses.Loss, risk: lw.Risk, algorithm: Algorithm) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3))
    y = labels(loss, X @ [1.0, -2.0, 0.5])
    model = lw.LinearModel(sparse.csr_array(X), y, loss, l2=0.01)
    problem = lw.Robust(model, risk)
    result = quietly(problem, algorithm=algorithm, max_passes=100)
    start = problem.value(np.zeros(model.dim))
    # A small batch sees little of the worst loss, and all of Poisson's losses tie at the start: there the answer need only
    # be no worse than the noise of the steps.
    hard = isinstance(risk, lw.Worst) or isinstance(loss, losses.Poisson)
    assert result.status in (lw.Status.BUDGET, lw.Status.CONVERGED, *([lw.Status.STALLED] if hard else []))
    assert result.fun < start + (0.1 if hard else -0.01) * abs(start)
    assert result.fun == problem.value(result.x)


@pytest.mark.parametrize("algorithm", FINITE_SUMS, ids=repr)
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_every_loss_goes_with_every_method_for_finite_sums(loss: losses.Loss, algorithm: Algorithm) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3))
    model = lw.LinearModel(sparse.csr_array(X), labels(loss, X @ [1.0, -2.0, 0.5]), loss, l2=0.01)
    result = quietly(lw.Robust(model), algorithm=algorithm, max_passes=100)
    start = lw.Robust(model).value(np.zeros(model.dim))
    assert result.status in (lw.Status.BUDGET, lw.Status.CONVERGED)
    assert result.fun < 0.99 * start


DOMAINS = [None, lw.Box(-0.5, 0.5), lw.Simplex(), lw.L1Ball(1.0), lw.L2Ball(0.5), lw.L1(0.05), lw.ElasticNet(0.02, 0.1)]


@pytest.mark.parametrize(
    ("risk", "algorithm"),
    [(r, a) for r in (lw.Mean(), lw.CVaR(0.2)) for a in ALGORITHMS] + [(lw.Mean(), a) for a in FINITE_SUMS],
    ids=repr,
)
@pytest.mark.parametrize("domain", DOMAINS, ids=repr)
def test_every_domain_goes_with_every_algorithm(domain: lw.Domain | None, risk: lw.Risk, algorithm: Algorithm) -> None:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(40, 4))
    model = lw.LinearModel(X, X @ [1.0, -2.0, 0.5, 0.0] + 1.0, "squared", l2=0.01)
    result = quietly(lw.Robust(model, risk), algorithm=algorithm, domain=domain, max_passes=60)
    first, last = result.trace.objective[[0, -1]]
    assert last < first
    if domain is not None and domain.feasible_set:
        np.testing.assert_allclose(domain.project(result.x[:4]), result.x[:4], atol=1e-12)
    assert abs(result.x[4]) > 1e-3  # the intercept is free
