r"""How far outputs leave the straight line where the Jacobian lacks rank.

In the time t the constrained flow is $\partial_tx = -P_t(x-y)/(1-t)$ with $P_t$ the projector onto the
range of D. Its propagator, $\partial_tV_{t,t'} = -P_tV_{t,t'}/(1-t)$ with $V_{t',t'} = 1$, contracts: it
does not lengthen any vector. Then $x-y = V_{t,0}(x_0-y)$, and the deviation from the straight line is
$(V_{t,0} - (1-t)1)(x_0-y) = \int_0^tV_{t,t'}P^\perp_{t'}(x_0-y)\,dt'$. The propagator U of (2.60), corrected
to $\partial_tU = P^\perp_tU/(1-t)$, is $V(1-t')/(1-t)$ and grows without bound as t goes to 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import sympy as sp

from analytic.expressions.arguments import InputError, Number, RealNumber, listed
from analytic.output_flow.matrices import exact_column, exact_matrix, exact_share, exact_time

__all__ = ["ProjectorPath", "propagator"]


def propagator(P: sp.MatrixBase, t: RealNumber, start: RealNumber = 0) -> sp.Matrix:
    r"""$V_{t,t'} = 1 - P + \frac{1-t}{1-t'}P$ from t' = `start` to t, while the projector P is constant.

    P: a symmetric projector, (n, n), exact. t, start: in [0, 1], start below 1, or symbols. Returned is
    (n, n). What is not a symmetric projector, and times outside [0, 1], are refused with an InputError.

    >>> import sympy as sp
    >>> propagator(sp.diag(1, 0), "1/2")
    Matrix([
    [1/2, 0],
    [  0, 1]])
    """
    P, t, start = _projector(P), exact_share("t", t), exact_share("start", start)
    if start == 1:
        raise InputError("start = 1 was given, but the flow has ended there: give start < 1.")
    return sp.eye(P.rows) - P + (1 - t) / (1 - start) * P


def _projector(P: sp.MatrixBase) -> sp.Matrix:
    P = exact_matrix("P", P)
    if P.rows != P.cols or P.T != P or (P * P - P).applyfunc(sp.simplify) != sp.zeros(*P.shape):
        raise InputError("P must be a symmetric projector, P = P^T = P^2: see `range_projector`.")
    return P


@dataclass(frozen=True)
class ProjectorPath:
    """Projectors that are constant between the times at which they change.

    times: when each projector begins, increasing, the first 0, all below 1.
    projectors: symmetric projectors, (n, n), exact, one for each time.

    Others are refused with an InputError. Full rank that is lost in one direction at t = 1/2:

    >>> import sympy as sp
    >>> path = ProjectorPath((0, "1/2"), (sp.eye(2), sp.diag(1, 0)))
    >>> path.deviation(sp.Matrix([4, 4]), sp.zeros(2, 1), "3/4").T
    Matrix([[0, 1]])
    """

    times: Sequence[Number]
    projectors: Sequence[sp.MatrixBase]

    def __post_init__(self) -> None:
        times = tuple(exact_time("times", time) for time in listed("times", self.times))
        projectors = tuple(_projector(P) for P in listed("projectors", self.projectors))
        if not times or len(times) != len(projectors) or times[0] != 0 or times[-1] == 1:
            raise InputError(
                f"{len(times)} times from {times[:1]} and {len(projectors)} projectors were given: give as "
                "many, with times that start at 0 and stay below 1."
            )
        if list(times) != sorted(set(times)) or len({P.shape for P in projectors}) > 1:
            raise InputError("Times must increase, and projectors must have one shape.")
        object.__setattr__(self, "times", times)
        object.__setattr__(self, "projectors", projectors)

    def propagator(self, t: Number, start: Number = 0) -> sp.Matrix:
        r"""$V_{t,t'}$ from t' = `start` to t, both in [0, 1] with start <= t; others are refused."""
        t, start = exact_time("t", t), exact_time("start", start)
        if start > t:
            raise InputError(f"start = {start} was given, but it must not come after t = {t}.")
        result = sp.eye(self.projectors[0].rows)
        ends = (*self.times[1:], sp.S.One)
        for begin, end, P in zip(self.times, ends, self.projectors, strict=True):
            first, last = max(begin, start), min(end, t)
            if first < last:
                result = propagator(P, last, first) * result
        return result

    def outputs(self, x0: sp.MatrixBase, y: sp.MatrixBase, t: Number) -> sp.Matrix:
        """The outputs at the time t, of those at the start, (n, 1), and labels, (n, 1), both exact."""
        x0 = exact_column("x0", x0, self.projectors[0].rows)
        y = exact_column("y", y, x0.rows)
        return y + self.propagator(t) * (x0 - y)

    def deviation(self, x0: sp.MatrixBase, y: sp.MatrixBase, t: Number) -> sp.Matrix:
        r"""$(V_{t,0} - (1-t)1)(x_0-y)$: the outputs at the time t less the straight line."""
        t = exact_time("t", t)
        x0 = exact_column("x0", x0, self.projectors[0].rows)
        return (self.propagator(t) - (1 - t) * sp.eye(x0.rows)) * (
            x0 - exact_column("y", y, x0.rows)
        )
