"""Arguments of every kind, sound and not, for tests that call the package at random."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse

import leeward as lw

LOSSES = [
    lw.losses.Squared(),
    lw.losses.Huber(0.5),
    lw.losses.Absolute(),
    lw.losses.Quantile(0.3),
    lw.losses.Logistic(),
    lw.losses.Softmax(),
    lw.losses.Hinge(),
    lw.losses.SquaredHinge(),
    lw.losses.Poisson(),
]
DTYPES = ["f4", "f2", ">f8", ">f4", "i8", ">i4", "u1", "?", "g", "c16", "O", "U5", "S3", "M8[s]", "V8"]
NUMBERS = [
    0,
    1,
    -1,
    2.5,
    1e-320,
    1e-12,
    1e12,
    1e150,
    1e300,
    -1e300,
    np.nan,
    np.inf,
    -np.inf,
    True,
    2**31,
    2**63,
    10**30,
]
THINGS = [None, "two", b"x", (), [], {}, object(), [[1.0], [1.0, 2.0]], np.array(3.0), range(4), 1j, np.float32(0.5)]
THREADS: list[Any] = [0, -1, 10**6, 2.0, "two", True, np.nan]


class Arguments:
    """A source of random arguments: `rng` decides, so that a seed names them all."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.draws = np.random.default_rng(seed)

    def maybe(self, chance: float) -> bool:
        return self.rng.random() < chance

    def number(self, *sound: Any) -> Any:
        """One of the sound values most of the time, else any number or thing."""
        if sound and self.maybe(0.93):
            return self.rng.choice(sound)
        return self.rng.choice(NUMBERS if self.maybe(0.8) else THINGS)

    def array(self, *shape: int) -> Any:
        """Real numbers of the shape, mostly; or of another shape, layout, type, or with odd entries."""
        rng = self.rng
        if self.maybe(0.02):
            return rng.choice(THINGS)
        if self.maybe(0.04):
            shape = tuple(rng.choice([0, 1, 2, 5]) for _ in range(rng.choice([0, 1, 1, 2, 2, 3])))
        scale = 1.0 if self.maybe(0.8) else rng.choice([1e-310, 1e-30, 1e30, 1e140, 1e300])
        x = np.asarray(scale * self.draws.standard_normal(shape))
        if x.size:
            self._spoil(x)
        return self._laid_out(x)

    def _spoil(self, x: np.ndarray) -> None:
        rng = self.rng
        if self.maybe(0.2):
            x[...] = np.round(x)
        if self.maybe(0.1):
            x[...] = x.flat[0]
        if self.maybe(0.08):
            x.flat[rng.randrange(x.size)] = rng.choice([np.nan, np.inf, -np.inf, 1e308, -1e308, 0.0, -0.0, 5e-324])

    def _laid_out(self, x: np.ndarray) -> Any:
        rng = self.rng
        way = rng.randrange(16)
        if way == 0:
            with np.errstate(all="ignore"):
                return x.astype(rng.choice(DTYPES) if self.maybe(0.5) else "f4")
        if way == 1:
            x.flags.writeable = False
        elif way == 2 and x.ndim:
            big = np.full((2 * x.shape[0], *x.shape[1:]), np.nan)
            big[::2] = x
            return big[::2]
        elif way == 3 and x.ndim:
            return x[::-1]
        elif way == 4:
            return np.asfortranarray(x)
        elif way == 5:
            return x.tolist()
        elif way == 6 and x.ndim:
            bytes_ = np.zeros(x.nbytes + 1, np.uint8)
            view = bytes_[1:].view(x.dtype).reshape(x.shape)  # not aligned
            view[...] = x
            return view
        elif way == 7 and x.ndim and x.shape[0]:
            return np.broadcast_to(x[:1], x.shape)
        elif way == 8 and self.maybe(0.3):
            return np.ma.masked_array(x, mask=self.draws.random(x.shape) < rng.choice([0.0, 0.2]))
        return x

    def matrix(self, n: int, d: int) -> Any:
        """Rows: dense most of the time, else sparse, now and then with broken pointers or indices."""
        x = self.array(n, d)
        if not self.maybe(0.4) or not (isinstance(x, np.ndarray) and x.ndim == 2 and x.dtype.kind in "fiu" and x.size):
            return x
        if x.dtype.kind == "f" and (x.dtype.itemsize not in (4, 8) or not x.dtype.isnative):
            return x
        x = np.array(x)
        x[self.draws.random(x.shape) < 0.6] = 0
        s = self.rng.choice([sparse.csr_array, sparse.csr_matrix, sparse.csc_array, sparse.coo_array])(x)
        if s.format == "csr" and self.maybe(0.5):
            wide = self.rng.choice([np.int32, np.int64])
            s.indices, s.indptr = s.indices.astype(wide), s.indptr.astype(self.rng.choice([np.int32, np.int64]))
            if self.maybe(0.3) and s.nnz:
                part = self.rng.choice([s.indices, s.indptr])
                part[self.rng.randrange(len(part))] = self.rng.choice([-1, d, 2**31 - 1, -(2**31), n])
        return s

    def labels(self, loss: Any, n: int) -> Any:
        """Labels that suit the loss, most of the time."""
        if self.maybe(0.15):
            return self.array(n)
        name = loss.name if isinstance(loss, lw.losses.Loss) else "squared"
        if name in ("logistic", "hinge", "squared_hinge"):
            y = self.draws.integers(0, 2, n)
            return y if self.maybe(0.5) else 2 * y - 1
        if name == "softmax":
            return np.minimum(np.arange(n) % 3, self.rng.choice([1, 2, 2]))
        return np.abs(self.draws.standard_normal(n)) if name == "poisson" else self.draws.standard_normal(n)

    def index(self, n: int) -> Any:
        rng = self.rng
        if self.maybe(0.5):
            return None
        if self.maybe(0.25):
            return self.number() if self.maybe(0.3) else self.array(3)
        m = rng.choice([0, 1, 3, n, 2 * n])
        index = self.draws.integers(-1 if self.maybe(0.1) else 0, n + self.maybe(0.1), m)
        return self._laid_out(index.astype(rng.choice(["i8", "i4", "u1"])))

    def output(self, *shape: int) -> Any:
        """Where to write: usually a fresh place that is right."""
        if self.maybe(0.6):
            return None
        return np.full(shape, np.nan) if self.maybe(0.6) else self.array(*shape)

    def threads(self) -> Any:
        return self.rng.choice([None, 1, 2, 3] if self.maybe(0.97) else THREADS)

    def risk(self) -> Any:
        """A risk with some parameters; raises when they make no sense."""
        makers: list[Callable[[], Any]] = [
            lw.Mean,
            lw.Worst,
            lambda: lw.CVaR(self.number(0.1, 0.5, 1.0)),
            lambda: lw.KL(penalty=self.number(0.1, 1.0)),
            lambda: lw.KL(radius=self.number(0.0, 0.1, 2.0)),
            lambda: lw.ChiSquare(penalty=self.number(0.1, 1.0)),
            lambda: lw.ChiSquare(radius=self.number(0.0, 0.1, 2.0)),
            lambda: lw.ChiSquare(penalty=self.number(0.1, 1.0), radius=self.number(0.1, 1.0)),
            lambda: lw.KLCVaR(self.number(0.1, 0.9), self.number(0.1, 1.0)),
            lambda: lw.SmoothedCVaR(self.number(0.1, 0.9), self.number(0.1, 1.0)),
            lambda: lw.CressieRead(self.number(1.5, 3.0), penalty=self.number(0.1, 1.0)),
            lambda: lw.CressieRead(self.number(1.5, 3.0), radius=self.number(0.1, 1.0)),
            lambda: lw.TotalVariation(self.number(0.0, 0.3, 2.0)),
            lambda: lw.Tilted(self.number(1.0, -2.0, 0.0)),
            lambda: lw.Spectral(self.array(self.rng.choice([1, 4]))),
            lambda: lw.Spectral(np.arange(1.0, 5.0)),
            lambda: lw.Spectral.superquantile(self.number(0.3)),
            lambda: lw.Spectral.extremile(self.number(2.0)),
            lambda: lw.Spectral.exponential(self.number(2.0)),
        ]
        return self.rng.choice(makers)()

    def domain(self, d: int) -> Any:
        if self.maybe(0.5):
            return None
        makers: list[Callable[[], Any]] = [
            lambda: lw.Box(self.number(-1.0, 0.0), self.number(1.0, 0.5)),
            lambda: lw.Box(self.array(d), 1e301),
            lambda: lw.Simplex(self.number(1.0, 2.0)),
            lambda: lw.L1Ball(self.number(1.0, 1e-3)),
            lambda: lw.L2Ball(self.number(1.0, 1e3)),
            lambda: lw.L1(self.number(0.1)),
            lambda: lw.ElasticNet(self.number(0.1), self.number(0.1)),
        ]
        return self.rng.choice(makers)()

    def update(self) -> Any:
        makers: list[Callable[[], Any]] = [
            lambda: None,
            lw.Plain,
            lambda: lw.Momentum(self.number(0.0, 0.9)),
            lambda: lw.NesterovMomentum(self.number(0.5)),
            lambda: lw.Normalized(self.number(0.0, 0.9)),
            lambda: lw.AdaGrad(delta=self.number(1e-8, 1.0), mean=self.rng.choice([True, False])),
            lambda: lw.Adam(self.number(0.0, 0.9), self.number(0.0, 0.999), self.number(1e-8)),
            lambda: lw.AMSGrad(memory=self.number(0.9)),
            lambda: lw.AdaBound(lower=self.number(0.1), upper=self.number(10.0, 0.1)),
        ]
        return self.rng.choice(makers)()

    def algorithm(self) -> Any:
        draws = self.rng.choice([{}, {"replace": False}, {"replace": False, "reshuffle": True}])
        estimator = lw.Minibatch(self.number(1, 4, 64), **draws)
        step = self.number(None, 0.1, 1e-3, 1e30)
        makers: list[Callable[[], Any]] = [
            lambda: None,
            lambda: lw.LBFGS(memory=self.number(1, 10), precondition=self.rng.choice([True, False])),
            lambda: lw.LBFGS(smoothing=self.number(None, 0.1), max_iterations=self.number(1, 5)),
            lambda: lw.SGD(estimator, step=step, momentum=self.number(0.0, 0.9)),
            lambda: lw.SGD(estimator, step=step, average=self.number(True, False)),
            lambda: lw.Nesterov(estimator, step=step, form=self.number("acsa", "momentum")),
            lambda: lw.SGD(estimator, step=step, update=self.update()),
            lambda: lw.SCSG(
                self.number(None, 1, 64, "growing"), self.number(None, 1, 0.25), step=step, update=self.update()
            ),
            lambda: lw.SVRG(
                self.number(None, 3), inner_steps=self.number(None, 5), loopless=self.rng.choice([True, False])
            ),
            lambda: lw.SARAH(self.number(None, 7), self.number(2, 0.5), step=step, update=self.update()),
            lambda: lw.STORM(
                self.number(1, 32), self.number(0.1, 1.0), step=step, output=self.number("last", "random")
            ),
        ]
        return self.rng.choice(makers)()
