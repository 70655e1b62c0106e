r"""Vector fields from gradient flow of parameters (alpha = 0) to Euclidean flow of outputs (alpha = 1).

Outputs x of all training points, (QN, 1), have the Jacobian D by the K parameters, and a cost C of the
outputs has the gradient $g = \nabla_xC$. With $G = DD^T$ and the projector P onto its range,
$\dot\theta = -A_\alpha D^Tg$ with $A_\alpha = \alpha(D^TD)^+ + (1-\alpha)1$ moves the outputs by
$\dot x = -(\alpha 1 + (1-\alpha)G)Pg$. Both vanish at the same points for every alpha.
"""

from __future__ import annotations

import sympy as sp

from analytic.expressions.arguments import RealNumber
from analytic.output_flow.inverses import pseudoinverse, range_projector
from analytic.output_flow.matrices import exact_column, exact_matrix, exact_share

__all__ = [
    "kernel_on_training_set", "metric", "output_field", "parameter_field", "preconditioner",
]  # fmt: skip


def preconditioner(D: sp.MatrixBase, alpha: RealNumber) -> sp.Matrix:
    r"""$A_\alpha = \alpha(D^TD)^+ + (1-\alpha)1$.

    D: the Jacobian, (QN, K), exact. alpha: in [0, 1], or a symbol. Returned is (K, K). Floats in D and an
    alpha outside [0, 1] are refused with an InputError.

    >>> import sympy as sp
    >>> preconditioner(sp.Matrix([[2, 0]]), "1/2")
    Matrix([
    [5/8,   0],
    [  0, 1/2]])
    """
    D, alpha = exact_matrix("D", D), exact_share("alpha", alpha)
    plus = pseudoinverse(D)
    return alpha * plus * plus.T + (1 - alpha) * sp.eye(D.cols)


def parameter_field(D: sp.MatrixBase, g: sp.MatrixBase, alpha: RealNumber) -> sp.Matrix:
    r"""$\dot\theta = -(\alpha D^+ + (1-\alpha)D^T)g$, which is $-A_\alpha\nabla_\theta C$.

    D: the Jacobian, (QN, K), exact. g: the gradient of the cost by the outputs, (QN, 1), exact.
    alpha: in [0, 1], or a symbol. Returned is (K, 1). Floats, other shapes and an alpha outside [0, 1] are
    refused with an InputError.

    >>> import sympy as sp
    >>> parameter_field(sp.Matrix([[2, 0]]), sp.Matrix([1]), 1).T
    Matrix([[-1/2, 0]])
    """
    D, alpha = exact_matrix("D", D), exact_share("alpha", alpha)
    g = exact_column("g", g, D.rows)
    return -(alpha * pseudoinverse(D) + (1 - alpha) * D.T) * g


def kernel_on_training_set(D: sp.MatrixBase, alpha: RealNumber) -> sp.Matrix:
    r"""$\alpha P + (1-\alpha)G = (\alpha 1 + (1-\alpha)G)P$, by which the gradient g moves the outputs.

    The tangent kernel at alpha = 0; at alpha = 1 the projector onto the range of D, which is the identity
    where D has full row rank.

    D: the Jacobian, (QN, K), exact. alpha: in [0, 1], or a symbol. Returned is (QN, QN). Floats in D and an
    alpha outside [0, 1] are refused with an InputError.

    >>> import sympy as sp
    >>> kernel_on_training_set(sp.Matrix([[2, 0], [0, 0]]), "1/2")
    Matrix([
    [5/2, 0],
    [  0, 0]])
    """
    D, alpha = exact_matrix("D", D), exact_share("alpha", alpha)
    return alpha * range_projector(D) + (1 - alpha) * D * D.T


def output_field(D: sp.MatrixBase, g: sp.MatrixBase, alpha: RealNumber) -> sp.Matrix:
    r"""$\dot x = -(\alpha 1 + (1-\alpha)G)Pg$, the velocity of the outputs.

    D: the Jacobian, (QN, K), exact. g: the gradient of the cost by the outputs, (QN, 1), exact.
    alpha: in [0, 1], or a symbol. Returned is (QN, 1). Floats, other shapes and an alpha outside [0, 1] are
    refused with an InputError.

    >>> import sympy as sp
    >>> output_field(sp.Matrix([[2, 0], [0, 0]]), sp.Matrix([1, 1]), 1).T
    Matrix([[-1, 0]])
    """
    kernel = kernel_on_training_set(D, alpha)
    return -kernel * exact_column("g", g, kernel.rows)


def metric(D: sp.MatrixBase, alpha: RealNumber) -> sp.Matrix:
    r"""$h_\alpha$, the metric on the range of D for which the velocity of the outputs is the gradient of -C.

    The inverse of $\alpha 1 + (1-\alpha)G$ restricted to the range, and 0 on its complement.

    D: the Jacobian, (QN, K), exact. alpha: in [0, 1], or a symbol. Returned is (QN, QN). Floats in D and an
    alpha outside [0, 1] are refused with an InputError.

    >>> import sympy as sp
    >>> metric(sp.Matrix([[2, 0], [0, 0]]), 0)
    Matrix([
    [1/4, 0],
    [  0, 0]])
    """
    return pseudoinverse(kernel_on_training_set(D, alpha))
