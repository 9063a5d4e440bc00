"""leeward: distributionally robust and nested stochastic optimisation."""

from __future__ import annotations

from leeward import _core, attacks, divergences, losses
from leeward._checkpoint import Checkpoint
from leeward._context import State
from leeward.algorithms import (
    ASCPG,
    ATSCGD,
    LBFGS,
    MLMC,
    NASA,
    NLASG,
    PMVR,
    RTMLMC,
    SARAH,
    SCGD,
    SCSC,
    SCSG,
    SGD,
    SMVR,
    STORM,
    SVRG,
    AdaBound,
    AdaGrad,
    Adam,
    AMSGrad,
    Doubling,
    DualSGM,
    GrowingBatch,
    Minibatch,
    Momentum,
    NestedSGD,
    NestedSPIDER,
    Nesterov,
    NesterovMomentum,
    Normalized,
    Plain,
    PrimalDual,
    ProximalNewton,
    Stages,
)
from leeward.algorithms.base import Algorithm
from leeward.domains import L1, Box, Domain, ElasticNet, L1Ball, L2Ball, Simplex
from leeward.errors import ConvergenceWarning, InfiniteError, LeewardError, OracleError
from leeward.minimize import minimize
from leeward.oracles import (
    CFunctionOracle,
    Draws,
    ElementwiseLevel,
    FiniteSumLevel,
    FunctionLevel,
    FunctionOracle,
    Level,
    LinearLevel,
    LinearModel,
    Oracle,
    PartitionedModel,
    Parts,
    PointOracle,
    SamplerOracle,
    dual_oracle,
    from_vjp,
)
from leeward.paths import Path, path, statistical_radius
from leeward.problems import (
    Composition,
    CompositionEvaluation,
    Evaluation,
    HierarchicalTilt,
    MeanCVaR,
    MeanDeviation,
    MeanUpperSemideviation,
    Robust,
    Sinkhorn,
    SinkhornBall,
    SinkhornEvaluation,
)
from leeward.profiling import Profile, profile
from leeward.result import Result, Status
from leeward.risks import (
    KL,
    ChiSquare,
    CressieRead,
    CVaR,
    KLCVaR,
    Mean,
    Risk,
    RiskSolution,
    SmoothedCVaR,
    Spectral,
    Tilted,
    TotalVariation,
    Worst,
)
from leeward.trace import Trace
from leeward.tuning import Trial, Tuning, tune

__version__: str = _core.__version__


def build_info() -> dict[str, str | int]:
    """How the installed core was built and runs here.

    Returns
    -------
    info : dict
        "version"; "simd", the level the kernels run at ("baseline", "avx2" or "avx512"); "back end" of parallel loops
        ("openmp" or "std::thread"); "threads", the number used when none is asked for.

    Examples
    --------
    >>> import leeward as lw
    >>> lw.build_info()["threads"] >= 1
    True
    """
    return {
        "version": __version__,
        "simd": _core.simd_level(),
        "back end": _core.parallel_backend(),
        "threads": _core.resolve_threads(0),
    }


__all__ = [
    "ASCPG",
    "ATSCGD",
    "KL",
    "L1",
    "LBFGS",
    "MLMC",
    "NASA",
    "NLASG",
    "PMVR",
    "RTMLMC",
    "SARAH",
    "SCGD",
    "SCSC",
    "SCSG",
    "SGD",
    "SMVR",
    "STORM",
    "SVRG",
    "AMSGrad",
    "AdaBound",
    "AdaGrad",
    "Adam",
    "Algorithm",
    "Box",
    "CFunctionOracle",
    "CVaR",
    "Checkpoint",
    "ChiSquare",
    "Composition",
    "CompositionEvaluation",
    "ConvergenceWarning",
    "CressieRead",
    "Domain",
    "Doubling",
    "Draws",
    "DualSGM",
    "ElasticNet",
    "ElementwiseLevel",
    "Evaluation",
    "FiniteSumLevel",
    "FunctionLevel",
    "FunctionOracle",
    "GrowingBatch",
    "HierarchicalTilt",
    "InfiniteError",
    "KLCVaR",
    "L1Ball",
    "L2Ball",
    "LeewardError",
    "Level",
    "LinearLevel",
    "LinearModel",
    "Mean",
    "MeanCVaR",
    "MeanDeviation",
    "MeanUpperSemideviation",
    "Minibatch",
    "Momentum",
    "NestedSGD",
    "NestedSPIDER",
    "Nesterov",
    "NesterovMomentum",
    "Normalized",
    "Oracle",
    "OracleError",
    "PartitionedModel",
    "Parts",
    "Path",
    "Plain",
    "PointOracle",
    "PrimalDual",
    "Profile",
    "ProximalNewton",
    "Result",
    "Risk",
    "RiskSolution",
    "Robust",
    "SamplerOracle",
    "Simplex",
    "Sinkhorn",
    "SinkhornBall",
    "SinkhornEvaluation",
    "SmoothedCVaR",
    "Spectral",
    "Stages",
    "State",
    "Status",
    "Tilted",
    "TotalVariation",
    "Trace",
    "Trial",
    "Tuning",
    "Worst",
    "__version__",
    "attacks",
    "build_info",
    "divergences",
    "dual_oracle",
    "from_vjp",
    "losses",
    "minimize",
    "path",
    "profile",
    "statistical_radius",
    "tune",
]
