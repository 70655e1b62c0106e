r"""The pseudoinverse of an exact matrix of any shape and rank, and the projector onto its range.

By a factorisation A = BC into factors of full rank, $A^+ = C^T(CC^T)^{-1}(B^TB)^{-1}B^T$ and
$AA^+ = B(B^TB)^{-1}B^T$: no square root enters, so that rational matrices stay rational.
"""

from __future__ import annotations

import sympy as sp

from analytic.output_flow.matrices import exact_matrix

__all__ = ["pseudoinverse", "range_projector"]


def pseudoinverse(A: sp.MatrixBase) -> sp.Matrix:
    r"""$A^+$, the matrix with $AA^+A = A$, $A^+AA^+ = A^+$ and symmetric $AA^+$ and $A^+A$.

    A: an exact matrix, (m, n). Returned is an exact matrix, (n, m); floats are refused with an InputError.

    >>> import sympy as sp
    >>> pseudoinverse(sp.Matrix([[1, 2], [2, 4]]))
    Matrix([
    [1/25, 2/25],
    [2/25, 4/25]])
    """
    A = exact_matrix("A", A)
    if A.is_zero_matrix:
        return sp.zeros(A.cols, A.rows)
    B, C = A.rank_decomposition()
    return C.T * (C * C.T).inv() * (B.T * B).inv() * B.T


def range_projector(A: sp.MatrixBase) -> sp.Matrix:
    r"""$P = AA^+$, the orthogonal projector onto the range of A, which is that of $AA^T$.

    A: an exact matrix, (m, n). Returned is an exact matrix, (m, m); floats are refused with an InputError.

    >>> import sympy as sp
    >>> range_projector(sp.Matrix([[1, 0], [1, 0]]))
    Matrix([
    [1/2, 1/2],
    [1/2, 1/2]])
    """
    A = exact_matrix("A", A)
    return A * pseudoinverse(A)
