"""What an evaluation of a Sinkhorn problem answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from leeward.problems._robust import Evaluation

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vector = NDArray[np.float64]

__all__ = ["SinkhornEvaluation"]


@dataclass(frozen=True)
class SinkhornEvaluation(Evaluation):
    """An :class:`Evaluation` of a Sinkhorn problem; ``losses`` are the ``Psi_i``.

    Attributes
    ----------
    inner_eta : ndarray (n,) or None
        Minimisers eta of the inner problems; None where they are not sampled.
    effective_draws : ndarray (n,) or None
        ``1 / sum_j q_ij^2``: from how many of its m points a sample's worst case is made. Near 1, the weights have
        collapsed on one point and the sampled problem says little.
    quadrature_error : float or None
        Estimated error of the objective where it is the exact one of softmax, by a rule of nodes; None elsewhere.

    Examples
    --------
    >>> import numpy as np, leeward as lw
    >>> made = lw.Sinkhorn(lw.LinearModel(np.eye(3), [0, 1, 1]), "chi2", draws=4, exact=False).evaluate(np.ones(4))
    >>> bool((made.effective_draws <= 4 + 1e-9).all()), made.inner_eta.shape
    (True, (3,))
    """

    inner_eta: Vector | None
    effective_draws: Vector | None
    quadrature_error: float | None = None
