r"""The kernel $K_\alpha$ of the flows between any two points, on the training set and off it.

A test point moves by $\dot f(x) = -K_\alpha(x, X)g$. With $J = \partial f/\partial\theta$ at a point,
$K_\alpha(x, x') = \alpha J(D^TD)^+J'^T + (1-\alpha)JJ'^T$; since $(D^TD)^+ = D^T(\Theta^+)^2D$ with
$\Theta = DD^T$, tangent kernels are all that it needs.
"""

from __future__ import annotations

import sympy as sp

from analytic.expressions.arguments import InputError, RealNumber
from analytic.output_flow.fields import preconditioner
from analytic.output_flow.inverses import pseudoinverse
from analytic.output_flow.matrices import exact_matrix, exact_shape, exact_share

__all__ = ["kernel", "kernel_from_tangents"]


def kernel(
    J: sp.MatrixBase, other: sp.MatrixBase, D: sp.MatrixBase, alpha: RealNumber
) -> sp.Matrix:
    r"""$K_\alpha(x, x') = J A_\alpha J'^T$.

    J, other: Jacobians by the parameters at x and at x', (Q, K), exact. D: that of all training outputs,
    (QN, K), exact. alpha: in [0, 1], or a symbol. Returned is (Q, Q). Floats, different numbers of columns
    and an alpha outside [0, 1] are refused with an InputError.

    >>> import sympy as sp
    >>> D = sp.Matrix([[1, 2], [0, 1]])
    >>> kernel(D[0, :], D[1, :], D, 1), kernel(D[0, :], D[1, :], D, 0)
    (Matrix([[0]]), Matrix([[2]]))
    """
    A = preconditioner(D, alpha)
    J, other = exact_matrix("J", J), exact_matrix("other", other)
    if not J.cols == other.cols == A.cols:
        raise InputError(
            f"Jacobians of {J.cols}, {other.cols} and {A.cols} columns were given: each needs one for "
            "every parameter."
        )
    return J * A * other.T


def kernel_from_tangents(
    across: sp.MatrixBase,
    within: sp.MatrixBase,
    onto: sp.MatrixBase,
    between: sp.MatrixBase,
    alpha: RealNumber,
) -> sp.Matrix:
    r"""$K_\alpha(x, x') = \alpha\,\Theta(x, X)(\Theta(X, X)^+)^2\,\Theta(X, x') + (1-\alpha)\,\Theta(x, x')$.

    across: the tangent kernel between x and the training set, (Q, QN). within: on the training set,
    (QN, QN). onto: between the training set and x', (QN, Q). between: of x and x', (Q, Q). All are exact.
    alpha: in [0, 1], or a symbol. Returned is (Q, Q). Floats and an alpha outside [0, 1] are refused with
    an InputError, and so are shapes that do not fit.

    >>> import sympy as sp
    >>> D, J = sp.Matrix([[1, 2], [0, 1]]), sp.Matrix([[3, 1]])
    >>> kernel_from_tangents(J * D.T, D * D.T, D * J.T, J * J.T, 1) == kernel(J, J, D, 1)
    True
    """
    alpha, within = exact_share("alpha", alpha), exact_matrix("within", within)
    across, onto = exact_matrix("across", across), exact_matrix("onto", onto)
    if not across.cols == within.rows == within.cols == onto.rows:
        raise InputError(
            f"Tangent kernels of shapes {across.shape}, {within.shape} and {onto.shape} were given: all need "
            "the same training set in the middle."
        )
    between, plus = exact_shape("between", between, (across.rows, onto.cols)), pseudoinverse(within)
    return alpha * across * plus * plus * onto + (1 - alpha) * between
