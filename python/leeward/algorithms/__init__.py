"""Algorithms: an estimator of the gradient, an update of the iterate and a schedule of steps (docs/extending/update.md)."""

from __future__ import annotations

from leeward.algorithms.averaged import ASCPG, ATSCGD, NASA, NLASG, SCGD
from leeward.algorithms.base import Algorithm
from leeward.algorithms.doubling import Doubling
from leeward.algorithms.dual_sgm import DualSGM
from leeward.algorithms.estimators import MLMC, RTMLMC, Estimator, GrowingBatch, Minibatch
from leeward.algorithms.lbfgs import LBFGS
from leeward.algorithms.nested_sgd import NestedSGD
from leeward.algorithms.nesterov import Nesterov
from leeward.algorithms.primal_dual import PrimalDual
from leeward.algorithms.proximal_newton import ProximalNewton
from leeward.algorithms.sarah import SARAH
from leeward.algorithms.scsc import SCSC, NestedSPIDER
from leeward.algorithms.scsg import SCSG
from leeward.algorithms.sgd import SGD
from leeward.algorithms.smvr import PMVR, SMVR, Stages
from leeward.algorithms.storm import STORM
from leeward.algorithms.svrg import SVRG
from leeward.algorithms.updates import (
    AdaBound,
    AdaGrad,
    Adam,
    AMSGrad,
    Momentum,
    NesterovMomentum,
    Normalized,
    Plain,
    Update,
)

__all__ = [
    "ASCPG",
    "ATSCGD",
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
    "Doubling",
    "DualSGM",
    "Estimator",
    "GrowingBatch",
    "Minibatch",
    "Momentum",
    "NestedSGD",
    "NestedSPIDER",
    "Nesterov",
    "NesterovMomentum",
    "Normalized",
    "Plain",
    "PrimalDual",
    "ProximalNewton",
    "Stages",
    "Update",
]
