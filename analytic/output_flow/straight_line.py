r"""Reparametrised time, in which outputs that follow the Euclidean flow move on a straight line.

For the cost $\frac c2|x-y|^2$ the flow $\dot x = -\nabla_xC$ is $x(s) = y + e^{-cs}(x_0-y)$, and in the time
$t = 1-e^{-cs}$ it is $x = (1-t)x_0 + ty$. The cost $\frac1{2N}|x-y|^2$ has c = 1/N, and $\frac1N|x-y|^2$
has c = 2/N.
"""

from __future__ import annotations

import sympy as sp

from analytic.expressions.arguments import Domain, RealNumber
from analytic.expressions.formula import Formula
from analytic.expressions.special import expm1, log1p
from analytic.output_flow.matrices import exact_column, exact_matrix, exact_share

__all__ = ["elapsed", "remaining", "straight_line", "time"]

_s = sp.Symbol("s", nonnegative=True)
_t = sp.Symbol("t", nonnegative=True)
_c = sp.Symbol("c", positive=True)

# The time t of s; the share 1 - t of the way that is left at s; the time s of t.
time = Formula("output_flow.time", (_s, _c), 1 - sp.exp(-_c * _s), stable=-expm1(-_c * _s))
remaining = Formula("output_flow.remaining", (_s, _c), sp.exp(-_c * _s))
elapsed = Formula(
    "output_flow.elapsed",
    (_t, _c),
    -sp.log(1 - _t) / _c,
    Domain((_t < 1,), "t < 1"),
    stable=-log1p(-_t) / _c,
)


def straight_line(x0: sp.MatrixBase, y: sp.MatrixBase, t: RealNumber) -> sp.Matrix:
    r"""$(1-t)x_0 + ty$, the outputs at the time t if D keeps full row rank.

    x0, y: outputs at the start and labels, (QN, 1), exact. t: in [0, 1], or a symbol. Returned is (QN, 1).
    Floats in x0 and y, different shapes and a t outside [0, 1] are refused with an InputError.

    >>> import sympy as sp
    >>> straight_line(sp.Matrix([1, 3]), sp.Matrix([5, -1]), "1/4").T
    Matrix([[2, 2]])
    """
    x0, t = exact_matrix("x0", x0), exact_share("t", t)
    return (1 - t) * x0 + t * exact_column("y", y, x0.rows)
