r"""Metrics $g = a(s)\,I + b(s)\,x x^T$ with $s = |x|^2$: closed forms in any dimension d."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import sympy as sp

from analytic.expressions.symbols import d, s

__all__ = ["RadialMetric", "origin_curvature"]


@dataclass(frozen=True)
class RadialMetric:
    """The two coefficients as expressions in s; a is the eigenvalue across x."""

    a: sp.Expr
    b: sp.Expr

    @property
    def along(self) -> sp.Expr:
        """The eigenvalue along x, a + s b."""
        return self.a + s * self.b

    def at(self, x: Sequence[sp.Expr]) -> sp.Matrix:
        """The matrix at a point given by its coordinates."""
        column = sp.Matrix(list(x))
        values = {s: (column.T * column)[0]}
        return self.a.subs(values) * sp.eye(len(column)) + self.b.subs(values) * column * column.T

    def determinant(self) -> sp.Expr:
        """det g in d dimensions."""
        return self.a ** (d - 1) * self.along

    def inverse(self) -> RadialMetric:
        """The inverse matrix, which is radial again (Sherman-Morrison)."""
        return RadialMetric(1 / self.a, -self.b / (self.a * self.along))

    def scalar_curvature(self) -> sp.Expr:
        r"""The Ricci scalar; with $E = a + sb$ and primes for d/ds,

        $$R = (d-1)\Big[(d-2)\frac{ab-2aa'-sa'^2}{a^2E} - \frac{4(2a'+sa'')}{aE}
              + \frac{2(a+sa')(a'E+aE')}{a^2E^2}\Big],$$

        the warped product $dl^2 + \rho^2\,d\Omega^2$ with $\rho^2 = as$, $dl = \sqrt E\,dr$.
        """
        a, b, E = self.a, self.b, self.along
        a1, a2, E1 = sp.diff(a, s), sp.diff(a, s, 2), sp.diff(E, s)
        tangential = (d - 2) * (a * b - 2 * a * a1 - s * a1**2) / (a**2 * E)
        radial = 2 * (a + s * a1) * (a1 * E + a * E1) / (a**2 * E**2) - 4 * (2 * a1 + s * a2) / (
            a * E
        )
        return (d - 1) * (tangential + radial)


def origin_curvature(a: sp.Expr, c: sp.Expr, a1: sp.Expr) -> sp.Expr:
    r"""$R(0) = -2d(d-1)\,(c/a^2 + a_1^2/8a^3)$.

    For $a(r) = a + a_1 r + \dots$ and the eigenvalue $a(r) + r a'(r) - 2cr^2 + \dots$ along x. If
    $a_1$ is not 0, the metric has no second derivatives at the origin, but R still has a limit.
    """
    return -2 * d * (d - 1) * (c / a**2 + a1**2 / (8 * a**3))
