"""
The compiled core of leeward; use the names in the package instead.
"""
from __future__ import annotations
import collections.abc
import numpy
import numpy.typing
import typing
__all__: list[str] = ['AveragedLevels', 'CFunctionOracle', 'Descent', 'DualBatch', 'Estimator', 'GaussianSmoothing', 'GrowingBatch', 'Level', 'LinearMatrix', 'LinearOracle', 'Minibatch', 'Mlmc', 'NestedEstimator', 'Oracle', 'PenaltySearch', 'PerturbedLinear', 'PerturbedOracle', 'PrimalDual', 'PyLevel', 'PyOracle', 'PyPoints', 'PyVjpOracle', 'Risk', 'RiskSolution', 'ScoreMemo', 'SinkhornBatch', 'SinkhornMlmc', 'SinkhornOracle', 'SnapshotDifference', 'SoftmaxSmoothing', 'Spider', 'Storm', 'TrackedLevels', 'call_seconds', 'cholesky', 'composed', 'deviation_penalty', 'dot', 'draws', 'elementwise_level', 'first_non_finite', 'gaussian_constant', 'linear_level', 'make_bisection', 'make_chi_square', 'make_cressie_read', 'make_cvar', 'make_exponential_spectrum', 'make_extremile', 'make_kl', 'make_kl_cvar', 'make_mean', 'make_smoothed_cvar', 'make_smoothed_total_variation', 'make_step_spectrum', 'make_tilted', 'make_total_variation', 'make_worst', 'parallel_backend', 'prox', 'real_math', 'resolve_threads', 'returns_level', 'simd_level', 'solve_triangular', 'stage_steps', 'sum', 'weighted_gram', 'weighted_sum']
class real_math:
    """
    The core's own real functions, the same bits at each SIMD level.
    """
    @staticmethod
    def exp(x: numpy.typing.NDArray[numpy.float64]) -> numpy.typing.NDArray[numpy.float64]:
        """
        e^x
        """
    @staticmethod
    def expm1(x: numpy.typing.NDArray[numpy.float64]) -> numpy.typing.NDArray[numpy.float64]:
        """
        e^x - 1
        """
    @staticmethod
    def log(x: numpy.typing.NDArray[numpy.float64]) -> numpy.typing.NDArray[numpy.float64]:
        """
        log x
        """
    @staticmethod
    def log1p(x: numpy.typing.NDArray[numpy.float64]) -> numpy.typing.NDArray[numpy.float64]:
        """
        log(1 + x)
        """
    @staticmethod
    def sigmoid(x: numpy.typing.NDArray[numpy.float64]) -> numpy.typing.NDArray[numpy.float64]:
        """
        1 / (1 + e^-x)
        """
    @staticmethod
    def softplus(x: numpy.typing.NDArray[numpy.float64]) -> numpy.typing.NDArray[numpy.float64]:
        """
        log(1 + e^x)
        """
class draws:
    """
    Draws of the stream named by (seed, purpose, step).
    """
    @staticmethod
    def below(seed: typing.SupportsInt | typing.SupportsIndex, purpose: typing.SupportsInt | typing.SupportsIndex, step: typing.SupportsInt | typing.SupportsIndex, n: typing.SupportsInt | typing.SupportsIndex, count: typing.SupportsInt | typing.SupportsIndex, first: typing.SupportsInt | typing.SupportsIndex = 0) -> numpy.typing.NDArray[numpy.int64]:
        """
        Uniform integers in [0, n).
        """
    @staticmethod
    def geometric(seed: typing.SupportsInt | typing.SupportsIndex, purpose: typing.SupportsInt | typing.SupportsIndex, step: typing.SupportsInt | typing.SupportsIndex, mean: typing.SupportsFloat | typing.SupportsIndex, count: typing.SupportsInt | typing.SupportsIndex, first: typing.SupportsInt | typing.SupportsIndex = 0) -> numpy.typing.NDArray[numpy.int64]:
        """
        Geometric from 0 with this mean.
        """
    @staticmethod
    def level(seed: typing.SupportsInt | typing.SupportsIndex, purpose: typing.SupportsInt | typing.SupportsIndex, step: typing.SupportsInt | typing.SupportsIndex, j_max: typing.SupportsInt | typing.SupportsIndex, count: typing.SupportsInt | typing.SupportsIndex, first: typing.SupportsInt | typing.SupportsIndex = 0) -> numpy.typing.NDArray[numpy.int64]:
        """
        J with P(J = j) = 2^-j for j < j_max and P(J = j_max) = 2^-(j_max - 1).
        """
    @staticmethod
    def normal(seed: typing.SupportsInt | typing.SupportsIndex, purpose: typing.SupportsInt | typing.SupportsIndex, step: typing.SupportsInt | typing.SupportsIndex, count: typing.SupportsInt | typing.SupportsIndex, first: typing.SupportsInt | typing.SupportsIndex = 0) -> numpy.typing.NDArray[numpy.float64]:
        """
        Standard normals.
        """
    @staticmethod
    def normal_moments(seed: typing.SupportsInt | typing.SupportsIndex, purpose: typing.SupportsInt | typing.SupportsIndex, step: typing.SupportsInt | typing.SupportsIndex, count: typing.SupportsInt | typing.SupportsIndex) -> typing.Annotated[list[float], "FixedSize(4)"]:
        """
        Means of z, z^2, z^3 and z^4 of the first draws.
        """
    @staticmethod
    def of_samples(seed: typing.SupportsInt | typing.SupportsIndex, index: typing.Annotated[numpy.typing.ArrayLike, numpy.int64], first: typing.SupportsInt | typing.SupportsIndex, normal: bool, out: numpy.typing.NDArray[numpy.float64]) -> None:
        """
        Draws first, ..., first + count - 1 of each sample number, one row a number.
        """
    @staticmethod
    def open_uniform(seed: typing.SupportsInt | typing.SupportsIndex, purpose: typing.SupportsInt | typing.SupportsIndex, step: typing.SupportsInt | typing.SupportsIndex, count: typing.SupportsInt | typing.SupportsIndex, first: typing.SupportsInt | typing.SupportsIndex = 0) -> numpy.typing.NDArray[numpy.float64]:
        """
        Uniforms in (0, 1).
        """
    @staticmethod
    def permutation(seed: typing.SupportsInt | typing.SupportsIndex, purpose: typing.SupportsInt | typing.SupportsIndex, step: typing.SupportsInt | typing.SupportsIndex, n: typing.SupportsInt | typing.SupportsIndex, count: typing.SupportsInt | typing.SupportsIndex, first: typing.SupportsInt | typing.SupportsIndex = 0) -> numpy.typing.NDArray[numpy.int64]:
        """
        Elements first, ..., first + count - 1 of the stream's permutation of [0, n).
        """
    @staticmethod
    def philox(counter: typing.Annotated[collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex], "FixedSize(4)"], key: typing.Annotated[collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex], "FixedSize(2)"]) -> typing.Annotated[list[int], "FixedSize(4)"]:
        """
        One Philox 4x32-10 block.
        """
    @staticmethod
    def uniform(seed: typing.SupportsInt | typing.SupportsIndex, purpose: typing.SupportsInt | typing.SupportsIndex, step: typing.SupportsInt | typing.SupportsIndex, count: typing.SupportsInt | typing.SupportsIndex, first: typing.SupportsInt | typing.SupportsIndex = 0) -> numpy.typing.NDArray[numpy.float64]:
        """
        Uniforms in [0, 1).
        """
    @staticmethod
    def weighted(seed: typing.SupportsInt | typing.SupportsIndex, purpose: typing.SupportsInt | typing.SupportsIndex, step: typing.SupportsInt | typing.SupportsIndex, weights: numpy.typing.NDArray[numpy.float64], count: typing.SupportsInt | typing.SupportsIndex, first: typing.SupportsInt | typing.SupportsIndex = 0) -> numpy.typing.NDArray[numpy.int64]:
        """
        Integers with probabilities in proportion to the weights.
        """
    @staticmethod
    def words(seed: typing.SupportsInt | typing.SupportsIndex, purpose: typing.SupportsInt | typing.SupportsIndex, step: typing.SupportsInt | typing.SupportsIndex, count: typing.SupportsInt | typing.SupportsIndex, first: typing.SupportsInt | typing.SupportsIndex = 0) -> numpy.typing.NDArray[numpy.uint64]:
        """
        Random 64-bit words.
        """
class RiskSolution:
    """
    The answer of Risk.solve: the value, the worst-case weights and how they were found.
    """
    def __getstate__(self) -> tuple[typing.Any, ...]:
        ...
    def __repr__(self) -> str:
        ...
    def __setstate__(self, arg0: tuple[typing.Any, ...]) -> None:
        ...
    def with_weights(self, weights: typing.Any) -> RiskSolution:
        """
        The same solution with other weights.
        """
    @property
    def effective_sample_size(self) -> typing.Any:
        ...
    @property
    def eta(self) -> typing.Any:
        ...
    @property
    def gap(self) -> typing.Any:
        ...
    @property
    def iterations(self) -> typing.Any:
        ...
    @property
    def multiplier(self) -> typing.Any:
        ...
    @property
    def value(self) -> typing.Any:
        ...
    @property
    def weights(self) -> typing.Any:
        ...
class Risk:
    def solve(self, losses: typing.Any, base: typing.Any, threads: typing.Any, out: typing.Any) -> typing.Any:
        ...
    def value(self, losses: typing.Any, base: typing.Any, threads: typing.Any) -> typing.Any:
        ...
class Oracle:
    def gradient(self, w: typing.Annotated[numpy.typing.ArrayLike, numpy.float64], weights: typing.Annotated[numpy.typing.ArrayLike, numpy.float64], index: typing.Annotated[numpy.typing.ArrayLike, numpy.int64] | None, out: numpy.typing.NDArray[numpy.float64], threads: typing.SupportsInt | typing.SupportsIndex = 0) -> None:
        ...
    def losses(self, w: typing.Annotated[numpy.typing.ArrayLike, numpy.float64], index: typing.Annotated[numpy.typing.ArrayLike, numpy.int64] | None, out: numpy.typing.NDArray[numpy.float64], threads: typing.SupportsInt | typing.SupportsIndex = 0) -> None:
        ...
    @property
    def dim(self) -> int:
        ...
    @property
    def population(self) -> int:
        ...
    @property
    def size(self) -> int:
        ...
class PyOracle(Oracle):
    def __init__(self, losses: typing.Any, gradient: typing.Any, size: typing.SupportsInt | typing.SupportsIndex, dim: typing.SupportsInt | typing.SupportsIndex, sample: typing.Any, population: typing.SupportsInt | typing.SupportsIndex) -> None:
        ...
class PyVjpOracle(Oracle):
    def __init__(self, fun: typing.Any, size: typing.SupportsInt | typing.SupportsIndex, dim: typing.SupportsInt | typing.SupportsIndex, sample: typing.Any, population: typing.SupportsInt | typing.SupportsIndex) -> None:
        ...
class CFunctionOracle(Oracle):
    def __init__(self, losses: tuple[typing.SupportsInt | typing.SupportsIndex, typing.SupportsInt | typing.SupportsIndex], gradient: tuple[typing.SupportsInt | typing.SupportsIndex, typing.SupportsInt | typing.SupportsIndex], size: typing.SupportsInt | typing.SupportsIndex, dim: typing.SupportsInt | typing.SupportsIndex, parallel: bool) -> None:
        ...
class LinearMatrix:
    @staticmethod
    def csr(data: numpy.ndarray, indices: numpy.ndarray, indptr: typing.Annotated[numpy.typing.ArrayLike, numpy.int64], cols: typing.SupportsInt | typing.SupportsIndex) -> LinearMatrix:
        ...
    @staticmethod
    def dense(x: numpy.ndarray, mapped: bool = False) -> LinearMatrix:
        ...
    def column_squares(self, p: typing.Annotated[numpy.typing.ArrayLike, numpy.float64] | None, threads: typing.SupportsInt | typing.SupportsIndex = 0) -> tuple[typing.Any, ...]:
        ...
    def first_bad(self, limit: typing.SupportsFloat | typing.SupportsIndex, threads: typing.SupportsInt | typing.SupportsIndex = 0) -> typing.Any:
        ...
    def row_squares(self, metric: typing.Annotated[numpy.typing.ArrayLike, numpy.float64] | None, threads: typing.SupportsInt | typing.SupportsIndex = 0) -> numpy.typing.NDArray[numpy.float64]:
        ...
    def rows(self, index: typing.Annotated[numpy.typing.ArrayLike, numpy.int64], out: numpy.typing.NDArray[numpy.float64]) -> None:
        ...
    def scores(self, w: typing.Annotated[numpy.typing.ArrayLike, numpy.float64], outputs: typing.SupportsInt | typing.SupportsIndex, intercept: bool, out: numpy.typing.NDArray[numpy.float64], threads: typing.SupportsInt | typing.SupportsIndex = 0) -> None:
        ...
    @property
    def shape(self) -> tuple[int, int]:
        ...
class ScoreMemo:
    def __init__(self) -> None:
        ...
class LinearOracle(Oracle):
    def __init__(self, matrix: LinearMatrix, labels: typing.Annotated[numpy.typing.ArrayLike, numpy.float64], loss: str, parameter: typing.SupportsFloat | typing.SupportsIndex, smoothing: typing.SupportsFloat | typing.SupportsIndex, outputs: typing.SupportsInt | typing.SupportsIndex, intercept: bool, memo: ScoreMemo) -> None:
        ...
    def adjoint(self, v: typing.Annotated[numpy.typing.ArrayLike, numpy.float64], out: numpy.typing.NDArray[numpy.float64], threads: typing.SupportsInt | typing.SupportsIndex = 0) -> None:
        ...
    def conjugate(self, s: typing.Annotated[numpy.typing.ArrayLike, numpy.float64], out: numpy.typing.NDArray[numpy.float64], threads: typing.SupportsInt | typing.SupportsIndex = 0) -> None:
        ...
    def curvatures(self, w: typing.Annotated[numpy.typing.ArrayLike, numpy.float64], index: typing.Annotated[numpy.typing.ArrayLike, numpy.int64] | None, out: numpy.typing.NDArray[numpy.float64], threads: typing.SupportsInt | typing.SupportsIndex = 0) -> None:
        ...
    def slopes(self, w: typing.Annotated[numpy.typing.ArrayLike, numpy.float64], index: typing.Annotated[numpy.typing.ArrayLike, numpy.int64] | None, out: numpy.typing.NDArray[numpy.float64], threads: typing.SupportsInt | typing.SupportsIndex = 0) -> None:
        ...
    def smoothness(self, out: numpy.typing.NDArray[numpy.float64], threads: typing.SupportsInt | typing.SupportsIndex = 0) -> None:
        ...
    @property
    def outputs(self) -> int:
        ...
    @property
    def score_smoothness(self) -> float:
        ...
class Estimator:
    def direction(self, w: typing.Annotated[numpy.typing.ArrayLike, numpy.float64], step: typing.SupportsInt | typing.SupportsIndex, threads: typing.SupportsInt | typing.SupportsIndex = 0) -> tuple[typing.Any, ...]:
        ...
class Minibatch(Estimator):
    def __init__(self, oracle: Oracle, risk: Risk, base: typing.Annotated[numpy.typing.ArrayLike, numpy.float64] | None, group: typing.Annotated[numpy.typing.ArrayLike, numpy.int64] | None, n: typing.SupportsInt | typing.SupportsIndex, replace: bool, seed: typing.SupportsInt | typing.SupportsIndex, fresh: typing.SupportsInt | typing.SupportsIndex = 0, reshuffle: bool = False) -> None:
        ...
    def draw(self, step: typing.SupportsInt | typing.SupportsIndex) -> typing.Any:
        ...
    @property
    def size(self) -> int:
        ...
class Mlmc(Estimator):
    def __init__(self, oracle: Oracle, risk: Risk, base: typing.Annotated[numpy.typing.ArrayLike, numpy.float64] | None, n0: typing.SupportsInt | typing.SupportsIndex, levels: typing.SupportsInt | typing.SupportsIndex, seed: typing.SupportsInt | typing.SupportsIndex) -> None:
        ...
    def draw(self, step: typing.SupportsInt | typing.SupportsIndex) -> numpy.typing.NDArray[numpy.int64]:
        ...
    def level(self, step: typing.SupportsInt | typing.SupportsIndex) -> int:
        ...
    def paid(self, w: typing.Annotated[numpy.typing.ArrayLike, numpy.float64], step: typing.SupportsInt | typing.SupportsIndex, threads: typing.SupportsInt | typing.SupportsIndex = 0) -> float:
        ...
class DualBatch(Estimator):
    def __init__(self, oracle: Oracle, base: typing.Annotated[numpy.typing.ArrayLike, numpy.float64] | None, form: tuple[typing.SupportsInt | typing.SupportsIndex, typing.SupportsFloat | typing.SupportsIndex, typing.SupportsFloat | typing.SupportsIndex], n: typing.SupportsInt | typing.SupportsIndex, eta: tuple[typing.SupportsFloat | typing.SupportsIndex, typing.SupportsFloat | typing.SupportsIndex, typing.SupportsFloat | typing.SupportsIndex, typing.SupportsFloat | typing.SupportsIndex], lam: tuple[typing.SupportsFloat | typing.SupportsIndex, typing.SupportsFloat | typing.SupportsIndex, typing.SupportsFloat | typing.SupportsIndex, typing.SupportsFloat | typing.SupportsIndex], period: typing.SupportsFloat | typing.SupportsIndex | None, seed: typing.SupportsInt | typing.SupportsIndex) -> None:
        ...
    @property
    def eta(self) -> float:
        ...
    @property
    def lam(self) -> float:
        ...
class PenaltySearch(Estimator):
    def __init__(self, oracle: Oracle, base: typing.Annotated[numpy.typing.ArrayLike, numpy.float64] | None, levels: tuple[typing.SupportsInt | typing.SupportsIndex, typing.SupportsInt | typing.SupportsIndex], radius: typing.SupportsFloat | typing.SupportsIndex, lam: tuple[typing.SupportsFloat | typing.SupportsIndex, typing.SupportsFloat | typing.SupportsIndex, typing.SupportsFloat | typing.SupportsIndex, typing.SupportsFloat | typing.SupportsIndex], period: typing.SupportsFloat | typing.SupportsIndex | None, seed: typing.SupportsInt | typing.SupportsIndex) -> None:
        ...
    @property
    def lam(self) -> float:
        ...
class PrimalDual(Estimator):
    def __init__(self, oracle: Oracle, base: typing.Annotated[numpy.typing.ArrayLike, numpy.float64] | None, form: tuple[typing.SupportsInt | typing.SupportsIndex, typing.SupportsFloat | typing.SupportsIndex], n: typing.SupportsInt | typing.SupportsIndex, dual_step: typing.SupportsFloat | typing.SupportsIndex, seed: typing.SupportsInt | typing.SupportsIndex) -> None:
        ...
    def adversary(self, size: typing.SupportsInt | typing.SupportsIndex) -> tuple[typing.Any, ...]:
        ...
    def draws(self, step: typing.SupportsInt | typing.SupportsIndex, count: typing.SupportsInt | typing.SupportsIndex, seed: typing.SupportsInt | typing.SupportsIndex) -> numpy.typing.NDArray[numpy.int64]:
        ...
class GrowingBatch(Estimator):
    def __init__(self, oracle: Oracle, risk: Risk, base: typing.Annotated[numpy.typing.ArrayLike, numpy.float64] | None, n0: typing.SupportsInt | typing.SupportsIndex, growth: typing.SupportsFloat | typing.SupportsIndex, seed: typing.SupportsInt | typing.SupportsIndex) -> None:
        ...
    def size(self, step: typing.SupportsInt | typing.SupportsIndex) -> int:
        ...
class SnapshotDifference(Estimator):
    def __init__(self, oracle: Oracle, base: typing.Annotated[numpy.typing.ArrayLike, numpy.float64] | None, chances: typing.Annotated[numpy.typing.ArrayLike, numpy.float64] | None, stages: tuple[typing.SupportsInt | typing.SupportsIndex, typing.SupportsInt | typing.SupportsIndex, typing.SupportsInt | typing.SupportsIndex, typing.SupportsFloat | typing.SupportsIndex, typing.SupportsInt | typing.SupportsIndex, typing.SupportsInt | typing.SupportsIndex, typing.SupportsFloat | typing.SupportsIndex, typing.SupportsFloat | typing.SupportsIndex], seed: typing.SupportsInt | typing.SupportsIndex) -> None:
        ...
    def batch(self, j: typing.SupportsInt | typing.SupportsIndex) -> numpy.typing.NDArray[numpy.int64]:
        """
        The samples of the batch of stage j.
        """
    def lengths(self, first: typing.SupportsInt | typing.SupportsIndex, count: typing.SupportsInt | typing.SupportsIndex) -> numpy.typing.NDArray[numpy.int64]:
        """
        N of stages first, first + 1, ...
        """
    def mini_batch(self, j: typing.SupportsInt | typing.SupportsIndex, k: typing.SupportsInt | typing.SupportsIndex, step: typing.SupportsInt | typing.SupportsIndex) -> numpy.typing.NDArray[numpy.int64]:
        """
        The samples of inner step k of stage j, which is the given step of the run.
        """
    def set_barzilai_borwein(self, first: typing.SupportsFloat | typing.SupportsIndex, range: typing.SupportsFloat | typing.SupportsIndex, l2: typing.SupportsFloat | typing.SupportsIndex, penalised: typing.SupportsInt | typing.SupportsIndex, metric: typing.Annotated[numpy.typing.ArrayLike, numpy.float64] | None) -> None:
        ...
    def stage(self, j: typing.SupportsInt | typing.SupportsIndex) -> tuple[int, int, int]:
        """
        B, b and N of stage j = 1, 2, ...
        """
class Spider(Estimator):
    def __init__(self, oracle: Oracle, base: typing.Annotated[numpy.typing.ArrayLike, numpy.float64] | None, chances: typing.Annotated[numpy.typing.ArrayLike, numpy.float64] | None, stages: tuple[typing.SupportsInt | typing.SupportsIndex, typing.SupportsInt | typing.SupportsIndex, typing.SupportsInt | typing.SupportsIndex, typing.SupportsFloat | typing.SupportsIndex, typing.SupportsInt | typing.SupportsIndex, typing.SupportsInt | typing.SupportsIndex, typing.SupportsFloat | typing.SupportsIndex, typing.SupportsFloat | typing.SupportsIndex], seed: typing.SupportsInt | typing.SupportsIndex) -> None:
        ...
    def batch(self, j: typing.SupportsInt | typing.SupportsIndex) -> numpy.typing.NDArray[numpy.int64]:
        """
        The samples of the batch of stage j.
        """
    def lengths(self, first: typing.SupportsInt | typing.SupportsIndex, count: typing.SupportsInt | typing.SupportsIndex) -> numpy.typing.NDArray[numpy.int64]:
        """
        N of stages first, first + 1, ...
        """
    def mini_batch(self, j: typing.SupportsInt | typing.SupportsIndex, k: typing.SupportsInt | typing.SupportsIndex, step: typing.SupportsInt | typing.SupportsIndex) -> numpy.typing.NDArray[numpy.int64]:
        """
        The samples of inner step k of stage j, which is the given step of the run.
        """
    def stage(self, j: typing.SupportsInt | typing.SupportsIndex) -> tuple[int, int, int]:
        """
        B, b and N of stage j = 1, 2, ...
        """
class Storm(Estimator):
    def __init__(self, oracle: Oracle, base: typing.Annotated[numpy.typing.ArrayLike, numpy.float64] | None, chances: typing.Annotated[numpy.typing.ArrayLike, numpy.float64] | None, batch: typing.SupportsInt | typing.SupportsIndex, first: typing.SupportsInt | typing.SupportsIndex, beta: typing.SupportsFloat | typing.SupportsIndex, period: typing.SupportsFloat | typing.SupportsIndex, seed: typing.SupportsInt | typing.SupportsIndex) -> None:
        ...
class Level:
    def at(self, u: typing.Annotated[numpy.typing.ArrayLike, numpy.float64], index: typing.Annotated[numpy.typing.ArrayLike, numpy.int64] | None, jacobian: bool, threads: typing.SupportsInt | typing.SupportsIndex = 0) -> tuple[typing.Any, ...]:
        ...
    def pull(self, u: typing.Annotated[numpy.typing.ArrayLike, numpy.float64], weights: typing.Annotated[numpy.typing.ArrayLike, numpy.float64], index: typing.Annotated[numpy.typing.ArrayLike, numpy.int64] | None, threads: typing.SupportsInt | typing.SupportsIndex = 0) -> numpy.typing.NDArray[numpy.float64]:
        ...
    def push(self, u: typing.Annotated[numpy.typing.ArrayLike, numpy.float64], direction: typing.Annotated[numpy.typing.ArrayLike, numpy.float64], index: typing.Annotated[numpy.typing.ArrayLike, numpy.int64] | None, threads: typing.SupportsInt | typing.SupportsIndex = 0) -> numpy.typing.NDArray[numpy.float64]:
        ...
    @property
    def computed(self) -> int:
        ...
    @property
    def inputs(self) -> int:
        ...
    @property
    def jacobians(self) -> bool:
        ...
    @property
    def outputs(self) -> int:
        ...
    @property
    def population(self) -> int:
        ...
    @property
    def pushes(self) -> bool:
        ...
    @property
    def size(self) -> int:
        ...
class PyLevel(Level):
    def __init__(self, value: typing.Any, jacobian: typing.Any, pull: typing.Any, push: typing.Any, joint: typing.Any, sizes: tuple[typing.SupportsInt | typing.SupportsIndex, typing.SupportsInt | typing.SupportsIndex, typing.SupportsInt | typing.SupportsIndex, typing.SupportsInt | typing.SupportsIndex, typing.SupportsInt | typing.SupportsIndex, typing.SupportsInt | typing.SupportsIndex], positive: tuple[typing.SupportsInt | typing.SupportsIndex, typing.SupportsInt | typing.SupportsIndex, typing.SupportsFloat | typing.SupportsIndex], indexed: bool) -> None:
        ...
class NestedEstimator(Estimator):
    @property
    def counts(self) -> tuple[int, int, int, int, int]:
        ...
    @property
    def size(self) -> int:
        ...
class TrackedLevels(NestedEstimator):
    def __init__(self, levels: collections.abc.Sequence[Level], batches: tuple[typing.SupportsInt | typing.SupportsIndex, typing.SupportsInt | typing.SupportsIndex], size: tuple[typing.SupportsFloat | typing.SupportsIndex, typing.SupportsFloat | typing.SupportsIndex, typing.SupportsFloat | typing.SupportsIndex], beta: collections.abc.Sequence[tuple[typing.SupportsFloat | typing.SupportsIndex, typing.SupportsFloat | typing.SupportsIndex, typing.SupportsFloat | typing.SupportsIndex]], stages: tuple[typing.SupportsFloat | typing.SupportsIndex, typing.SupportsFloat | typing.SupportsIndex], guard: typing.SupportsFloat | typing.SupportsIndex, seed: typing.SupportsInt | typing.SupportsIndex, rule: typing.SupportsInt | typing.SupportsIndex, norm: typing.SupportsInt | typing.SupportsIndex, radius: collections.abc.Sequence[typing.SupportsFloat | typing.SupportsIndex], period: typing.SupportsInt | typing.SupportsIndex, reach: typing.SupportsFloat | typing.SupportsIndex) -> None:
        ...
class AveragedLevels(NestedEstimator):
    def __init__(self, levels: collections.abc.Sequence[Level], batches: tuple[typing.SupportsInt | typing.SupportsIndex, typing.SupportsInt | typing.SupportsIndex], size: tuple[typing.SupportsFloat | typing.SupportsIndex, typing.SupportsFloat | typing.SupportsIndex, typing.SupportsFloat | typing.SupportsIndex], beta: collections.abc.Sequence[tuple[typing.SupportsFloat | typing.SupportsIndex, typing.SupportsFloat | typing.SupportsIndex, typing.SupportsFloat | typing.SupportsIndex]], guard: typing.SupportsFloat | typing.SupportsIndex, seed: typing.SupportsInt | typing.SupportsIndex, rule: typing.SupportsInt | typing.SupportsIndex) -> None:
        ...
class Descent:
    def __init__(self, estimator: Estimator, update: tuple[str, collections.abc.Sequence[typing.SupportsFloat | typing.SupportsIndex]], start: typing.Annotated[numpy.typing.ArrayLike, numpy.float64], domain: tuple[typing.SupportsInt | typing.SupportsIndex, typing.Annotated[numpy.typing.ArrayLike, numpy.float64], typing.Annotated[numpy.typing.ArrayLike, numpy.float64]], schedule: tuple[typing.SupportsFloat | typing.SupportsIndex, typing.SupportsInt | typing.SupportsIndex, typing.SupportsFloat | typing.SupportsIndex], averaging: typing.SupportsInt | typing.SupportsIndex, output: tuple[typing.SupportsInt | typing.SupportsIndex, typing.SupportsInt | typing.SupportsIndex], l2: typing.SupportsFloat | typing.SupportsIndex, penalised: typing.SupportsInt | typing.SupportsIndex, metric: typing.Annotated[numpy.typing.ArrayLike, numpy.float64] | None, fused: bool = True) -> None:
        ...
    def advance(self, steps: typing.SupportsInt | typing.SupportsIndex, seconds: typing.SupportsFloat | typing.SupportsIndex, threads: typing.SupportsInt | typing.SupportsIndex = 0, evaluations: typing.SupportsInt | typing.SupportsIndex = 9223372036854775807) -> bool:
        ...
    def restore(self, steps: typing.Annotated[numpy.typing.ArrayLike, numpy.int64], vectors: typing.Annotated[numpy.typing.ArrayLike, numpy.float64], mean: typing.Annotated[numpy.typing.ArrayLike, numpy.float64], memory: typing.Annotated[numpy.typing.ArrayLike, numpy.float64], output: typing.Annotated[numpy.typing.ArrayLike, numpy.float64], schedule: typing.Annotated[numpy.typing.ArrayLike, numpy.float64]) -> None:
        ...
    def state(self) -> dict[str, typing.Any]:
        ...
    @property
    def answer(self) -> numpy.typing.NDArray[numpy.float64]:
        ...
    @property
    def iterate(self) -> numpy.typing.NDArray[numpy.float64]:
        ...
    @property
    def steps(self) -> int:
        ...
    @property
    def work(self) -> tuple[int, int, int]:
        ...
class PerturbedOracle(Oracle):
    def costs(self, index: typing.Annotated[numpy.typing.ArrayLike, numpy.int64] | None, threads: typing.SupportsInt | typing.SupportsIndex = 0) -> numpy.typing.NDArray[numpy.float64]:
        ...
    @property
    def draws(self) -> int:
        ...
class PerturbedLinear(PerturbedOracle):
    def __init__(self, model: LinearOracle, reference: tuple[typing.SupportsInt | typing.SupportsIndex, typing.Annotated[numpy.typing.ArrayLike, numpy.float64], typing.Annotated[numpy.typing.ArrayLike, numpy.float64] | None, typing.Annotated[numpy.typing.ArrayLike, numpy.float64] | None, typing.Annotated[numpy.typing.ArrayLike, numpy.float64] | None, typing.SupportsFloat | typing.SupportsIndex], cost: tuple[typing.SupportsInt | typing.SupportsIndex, typing.SupportsFloat | typing.SupportsIndex, typing.SupportsFloat | typing.SupportsIndex], draws: typing.SupportsInt | typing.SupportsIndex, seed: typing.SupportsInt | typing.SupportsIndex) -> None:
        ...
    def points(self, index: typing.Annotated[numpy.typing.ArrayLike, numpy.int64] | None, threads: typing.SupportsInt | typing.SupportsIndex = 0) -> tuple[typing.Any, ...]:
        """
        (points, labels) by number.
        """
class PyPoints(PerturbedOracle):
    def __init__(self, losses: typing.Any, gradient: typing.Any, costs: typing.Any, samples: typing.SupportsInt | typing.SupportsIndex, dim: typing.SupportsInt | typing.SupportsIndex, draws: typing.SupportsInt | typing.SupportsIndex) -> None:
        ...
class SinkhornOracle(Oracle):
    def __init__(self, points: PerturbedOracle, inner: Risk, lam: typing.SupportsFloat | typing.SupportsIndex, constant: typing.SupportsFloat | typing.SupportsIndex) -> None:
        ...
    def evaluate(self, w: typing.Annotated[numpy.typing.ArrayLike, numpy.float64], p: typing.Annotated[numpy.typing.ArrayLike, numpy.float64] | None, threads: typing.SupportsInt | typing.SupportsIndex = 0) -> tuple[typing.Any, ...]:
        ...
    def shifted(self, w: typing.Annotated[numpy.typing.ArrayLike, numpy.float64], index: typing.Annotated[numpy.typing.ArrayLike, numpy.int64] | None, threads: typing.SupportsInt | typing.SupportsIndex = 0) -> numpy.typing.NDArray[numpy.float64]:
        ...
    def weights(self, w: typing.Annotated[numpy.typing.ArrayLike, numpy.float64], index: typing.Annotated[numpy.typing.ArrayLike, numpy.int64] | None, threads: typing.SupportsInt | typing.SupportsIndex = 0) -> numpy.typing.NDArray[numpy.float64]:
        ...
class SinkhornBatch(Estimator):
    def __init__(self, oracle: SinkhornOracle, base: typing.Annotated[numpy.typing.ArrayLike, numpy.float64] | None, form: tuple[typing.SupportsInt | typing.SupportsIndex, typing.SupportsFloat | typing.SupportsIndex], n: typing.SupportsInt | typing.SupportsIndex, inner: tuple[typing.SupportsFloat | typing.SupportsIndex, typing.SupportsInt | typing.SupportsIndex, typing.SupportsFloat | typing.SupportsIndex, typing.SupportsFloat | typing.SupportsIndex], fresh: bool, seed: typing.SupportsInt | typing.SupportsIndex) -> None:
        ...
    @property
    def eta(self) -> numpy.typing.NDArray[numpy.float64]:
        """
        Each sample's eta; for those never drawn the first eta.
        """
    @property
    def size(self) -> int:
        ...
class SinkhornMlmc(Estimator):
    def __init__(self, oracle: SinkhornOracle, base: typing.Annotated[numpy.typing.ArrayLike, numpy.float64] | None, n: typing.SupportsInt | typing.SupportsIndex, draws: tuple[typing.SupportsInt | typing.SupportsIndex, typing.SupportsInt | typing.SupportsIndex], unit: typing.SupportsInt | typing.SupportsIndex, seed: typing.SupportsInt | typing.SupportsIndex) -> None:
        ...
    def draw(self, step: typing.SupportsInt | typing.SupportsIndex) -> tuple[numpy.typing.NDArray[numpy.int64], numpy.typing.NDArray[numpy.int32]]:
        """
        The sets of points and the levels of a step's samples.
        """
class GaussianSmoothing:
    def __init__(self, oracle: LinearOracle, divergence: str, alpha: typing.SupportsFloat | typing.SupportsIndex, lam: typing.SupportsFloat | typing.SupportsIndex, entropy: typing.SupportsFloat | typing.SupportsIndex, noise: typing.SupportsFloat | typing.SupportsIndex, threads: typing.SupportsInt | typing.SupportsIndex = 0) -> None:
        ...
    def evaluate(self, oracle: LinearOracle, scores: typing.Annotated[numpy.typing.ArrayLike, numpy.float64], tau: typing.SupportsFloat | typing.SupportsIndex, value: numpy.typing.NDArray[numpy.float64], slope: numpy.typing.NDArray[numpy.float64], spread: numpy.typing.NDArray[numpy.float64], threads: typing.SupportsInt | typing.SupportsIndex = 0) -> None:
        ...
    @property
    def constant(self) -> float:
        ...
class SoftmaxSmoothing:
    def __init__(self, divergence: str, alpha: typing.SupportsFloat | typing.SupportsIndex, T: typing.SupportsFloat | typing.SupportsIndex, beta: typing.SupportsFloat | typing.SupportsIndex, freedom: typing.SupportsInt | typing.SupportsIndex, threads: typing.SupportsInt | typing.SupportsIndex = 0) -> None:
        ...
    def evaluate(self, move: typing.Annotated[numpy.typing.ArrayLike, numpy.float64], weight: typing.Annotated[numpy.typing.ArrayLike, numpy.float64], cost: typing.Annotated[numpy.typing.ArrayLike, numpy.float64], shift: typing.Annotated[numpy.typing.ArrayLike, numpy.float64], head: typing.Annotated[numpy.typing.ArrayLike, numpy.float64], scores: typing.Annotated[numpy.typing.ArrayLike, numpy.float64], labels: typing.Annotated[numpy.typing.ArrayLike, numpy.float64], p: typing.Annotated[numpy.typing.ArrayLike, numpy.float64], value: numpy.typing.NDArray[numpy.float64], slope: numpy.typing.NDArray[numpy.float64], turn: numpy.typing.NDArray[numpy.float64], mass: numpy.typing.NDArray[numpy.float64], pull: numpy.typing.NDArray[numpy.float64], threads: typing.SupportsInt | typing.SupportsIndex = 0) -> None:
        ...
def call_seconds(oracle: Oracle, w: typing.Annotated[numpy.typing.ArrayLike, numpy.float64], weights: typing.Annotated[numpy.typing.ArrayLike, numpy.float64], index: typing.Annotated[numpy.typing.ArrayLike, numpy.int64] | None, calls: typing.SupportsInt | typing.SupportsIndex) -> tuple[typing.Any, ...]:
    ...
def cholesky(a: numpy.typing.NDArray[numpy.float64]) -> int:
    """
    Overwrites the lower triangle of a by its factor; returns len(a), or the first row without a positive pivot
    """
def composed(levels: collections.abc.Sequence[Level], w: typing.Annotated[numpy.typing.ArrayLike, numpy.float64], threads: typing.SupportsInt | typing.SupportsIndex = 0) -> tuple[typing.Any, ...]:
    ...
def deviation_penalty(lam: typing.SupportsFloat | typing.SupportsIndex, floor: typing.SupportsFloat | typing.SupportsIndex) -> Level:
    ...
@typing.overload
def dot(x: numpy.typing.NDArray[numpy.float64], y: numpy.typing.NDArray[numpy.float64], threads: typing.SupportsInt | typing.SupportsIndex = 0) -> float:
    """
    sum x y in double by fixed lanes and a fixed tree over blocks.
    """
@typing.overload
def dot(x: numpy.typing.NDArray[numpy.float32], y: numpy.typing.NDArray[numpy.float64], threads: typing.SupportsInt | typing.SupportsIndex = 0) -> float:
    """
    sum x y in double by fixed lanes and a fixed tree over blocks.
    """
def elementwise_level(count: typing.SupportsInt | typing.SupportsIndex, map: typing.SupportsInt | typing.SupportsIndex, exponent: typing.SupportsFloat | typing.SupportsIndex, scale: typing.SupportsFloat | typing.SupportsIndex, shift: typing.SupportsFloat | typing.SupportsIndex, floor: typing.SupportsFloat | typing.SupportsIndex) -> Level:
    ...
@typing.overload
def first_non_finite(x: numpy.typing.NDArray[numpy.float64], threads: typing.SupportsInt | typing.SupportsIndex = 0) -> int:
    """
    Position of the first infinite or NaN element, or -1.
    """
@typing.overload
def first_non_finite(x: numpy.typing.NDArray[numpy.float32], threads: typing.SupportsInt | typing.SupportsIndex = 0) -> int:
    """
    Position of the first infinite or NaN element, or -1.
    """
def gaussian_constant(divergence: str, alpha: typing.SupportsFloat | typing.SupportsIndex, beta: typing.SupportsFloat | typing.SupportsIndex, dim: typing.SupportsInt | typing.SupportsIndex, threads: typing.SupportsInt | typing.SupportsIndex = 0) -> float:
    ...
def linear_level(a: typing.Annotated[numpy.typing.ArrayLike, numpy.float64], b: typing.Annotated[numpy.typing.ArrayLike, numpy.float64]) -> Level:
    ...
def make_bisection(form: tuple[typing.SupportsInt | typing.SupportsIndex, typing.SupportsFloat | typing.SupportsIndex], lam: typing.SupportsFloat | typing.SupportsIndex, tol: typing.SupportsFloat | typing.SupportsIndex) -> Risk:
    ...
def make_chi_square(penalty: typing.SupportsFloat | typing.SupportsIndex, radius: typing.SupportsFloat | typing.SupportsIndex) -> Risk:
    ...
def make_cressie_read(order: typing.SupportsFloat | typing.SupportsIndex, penalty: typing.SupportsFloat | typing.SupportsIndex, radius: typing.SupportsFloat | typing.SupportsIndex) -> Risk:
    ...
def make_cvar(alpha: typing.SupportsFloat | typing.SupportsIndex) -> Risk:
    ...
def make_exponential_spectrum(rate: typing.SupportsFloat | typing.SupportsIndex, penalty: typing.SupportsFloat | typing.SupportsIndex) -> Risk:
    ...
def make_extremile(draws: typing.SupportsFloat | typing.SupportsIndex, penalty: typing.SupportsFloat | typing.SupportsIndex) -> Risk:
    ...
def make_kl(penalty: typing.SupportsFloat | typing.SupportsIndex, radius: typing.SupportsFloat | typing.SupportsIndex) -> Risk:
    ...
def make_kl_cvar(alpha: typing.SupportsFloat | typing.SupportsIndex, penalty: typing.SupportsFloat | typing.SupportsIndex) -> Risk:
    ...
def make_mean() -> Risk:
    ...
def make_smoothed_cvar(alpha: typing.SupportsFloat | typing.SupportsIndex, penalty: typing.SupportsFloat | typing.SupportsIndex) -> Risk:
    ...
def make_smoothed_total_variation(radius: typing.SupportsFloat | typing.SupportsIndex, penalty: typing.SupportsFloat | typing.SupportsIndex) -> Risk:
    ...
def make_step_spectrum(weights: typing.Annotated[numpy.typing.ArrayLike, numpy.float64], penalty: typing.SupportsFloat | typing.SupportsIndex) -> Risk:
    ...
def make_tilted(t: typing.SupportsFloat | typing.SupportsIndex) -> Risk:
    ...
def make_total_variation(radius: typing.SupportsFloat | typing.SupportsIndex) -> Risk:
    ...
def make_worst() -> Risk:
    ...
def parallel_backend() -> str:
    """
    What parallel blocks run on.
    """
def prox(kind: typing.SupportsInt | typing.SupportsIndex, first: typing.Annotated[numpy.typing.ArrayLike, numpy.float64], second: typing.Annotated[numpy.typing.ArrayLike, numpy.float64], v: typing.Annotated[numpy.typing.ArrayLike, numpy.float64], step: typing.SupportsFloat | typing.SupportsIndex, metric: typing.Annotated[numpy.typing.ArrayLike, numpy.float64] | None = None) -> numpy.typing.NDArray[numpy.float64]:
    ...
def resolve_threads(requested: typing.SupportsInt | typing.SupportsIndex) -> int:
    """
    Threads a call may use; a request of 0 is the default.
    """
def returns_level(kind: str, returns: numpy.ndarray, smoothing: typing.SupportsFloat | typing.SupportsIndex = 1.0, unit: typing.SupportsFloat | typing.SupportsIndex = 1.0) -> Level:
    ...
def simd_level() -> str:
    """
    The level the kernels run at: 'baseline', 'avx2' or 'avx512'.
    """
def solve_triangular(factor: numpy.typing.NDArray[numpy.float64], x: numpy.typing.NDArray[numpy.float64], transposed: bool = False) -> numpy.typing.NDArray[numpy.float64]:
    """
    L^-1 x, or L^-T x when transposed
    """
def stage_steps(oracle: LinearOracle, w: typing.Annotated[numpy.typing.ArrayLike, numpy.float64], index: typing.Annotated[numpy.typing.ArrayLike, numpy.int64], batch: typing.SupportsInt | typing.SupportsIndex, step: typing.SupportsFloat | typing.SupportsIndex, l2: typing.SupportsFloat | typing.SupportsIndex, gradient: typing.Annotated[numpy.typing.ArrayLike, numpy.float64] | None, snapshot: typing.Annotated[numpy.typing.ArrayLike, numpy.float64] | None, slopes: typing.Annotated[numpy.typing.ArrayLike, numpy.float64] | None, factors: typing.Annotated[numpy.typing.ArrayLike, numpy.float64] | None, metric: typing.Annotated[numpy.typing.ArrayLike, numpy.float64] | None, domain: tuple[typing.SupportsInt | typing.SupportsIndex, typing.Annotated[numpy.typing.ArrayLike, numpy.float64], typing.Annotated[numpy.typing.ArrayLike, numpy.float64]], cut: typing.SupportsInt | typing.SupportsIndex = 0) -> numpy.typing.NDArray[numpy.float64]:
    ...
@typing.overload
def sum(x: numpy.typing.NDArray[numpy.float64], threads: typing.SupportsInt | typing.SupportsIndex = 0) -> float:
    """
    Sum in double by fixed lanes and a fixed tree over blocks.
    """
@typing.overload
def sum(x: numpy.typing.NDArray[numpy.float32], threads: typing.SupportsInt | typing.SupportsIndex = 0) -> float:
    """
    Sum in double by fixed lanes and a fixed tree over blocks.
    """
def weighted_gram(rows: numpy.typing.NDArray[numpy.float64], weights: numpy.typing.NDArray[numpy.float64], ones: bool, threads: typing.SupportsInt | typing.SupportsIndex = 1) -> numpy.typing.NDArray[numpy.float64]:
    """
    sum_k weights[k] x~_k x~_k^T with x~ = (x, 1) when ones, else x
    """
def weighted_sum(rows: numpy.typing.NDArray[numpy.float64], weights: numpy.typing.NDArray[numpy.float64], ones: bool) -> numpy.typing.NDArray[numpy.float64]:
    """
    sum_k weights[k] x~_k with x~ = (x, 1) when ones, else x
    """
__version__: str
