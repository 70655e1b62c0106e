r"""Why chi increases with the overlap: a proof for every degree and dimension.

Let $L = (2q-1)(d+2q)$. In the Bernstein basis of degree q in $t = \rho^2$ the coefficients of chi are
$$\beta_j = \frac{(2q+2j-3)!!}{(2q-1)!!\,(2j-1)!!}\,[L - 4j(q-1)],\qquad 0\le j\le q,$$
and $d\chi/dt$ has, in the basis of degree q-1, the coefficients $q(\beta_{j+1}-\beta_j)$. Since
$(2q+2j-1)!! = (2q+2j-1)(2q+2j-3)!!$ and $(2j+1)!! = (2j+1)(2j-1)!!$,
$$\beta_{j+1}-\beta_j = \frac{(2q+2j-3)!!}{(2q-1)!!\,(2j+1)!!}
\{(2q+2j-1)[L-4(j+1)(q-1)] - (2j+1)[L-4j(q-1)]\},$$
and the brace is $2(q-1)\,[L + 2 - 4q(j+1)]$. The bracket is least at j = q-1, where it is
$L + 2 - 4q^2 = (2q-1)d - 2(q-1)$. That is positive for $d\ge 1$. So for q > 1 all coefficients of
$d\chi/dt$ are positive and chi increases strictly on [0, 1]; for q = 1 they vanish. At t = 1 the
derivative is its last coefficient, so the bound d > (2q-2)/(2q-1) is sharp for real d.

The ends are $\beta_0 = d+2q$ and $\beta_q = (4q-3)!!/[(2q-1)!!]^2\,[(2q-1)d+2q]$. As the
coefficients increase from $\beta_0$, those of chi - d are at least 2q: chi > d everywhere.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

from analytic.perturbation.polynomials import (
    AffineInDimension,
    bernstein,
    odd_factorial,
    require_degree,
)

__all__ = ["least_dimension", "proven_slopes", "slopes"]


def slopes(q: int) -> tuple[AffineInDimension, ...]:
    """The q Bernstein coefficients of d(chi)/dt, by differences of those of chi.

    A degree q that is no whole number at least 1 is refused with an InputError.

    >>> from analytic.perturbation.monotone import slopes
    >>> [str(line.at(2)) for line in slopes(2)]
    ['16', '16/3']
    """
    return tuple(
        (after - before) * Fraction(require_degree(q)) for before, after in pairwise(bernstein(q))
    )


def proven_slopes(q: int) -> tuple[AffineInDimension, ...]:
    """The same coefficients by the formula at the end of the proof."""
    q = require_degree(q)
    lines, below = [], odd_factorial(2 * q - 1)
    for j in range(q):
        front = Fraction(odd_factorial(2 * (q + j) - 3), below * odd_factorial(2 * j + 1))
        bracket = AffineInDimension(
            Fraction(2 * q - 1), Fraction(2 * q * (2 * q - 1) + 2 - 4 * q * (j + 1))
        )
        lines.append(bracket * (front * 2 * q * (q - 1)))
    return tuple(lines)


def least_dimension(q: int) -> Fraction:
    """chi increases on the whole of [0, 1] for real d exactly above this number.

    A degree q that is no whole number at least 1 is refused with an InputError.

    >>> from analytic.perturbation.monotone import least_dimension
    >>> least_dimension(3)
    Fraction(4, 5)
    """
    return Fraction(2 * (require_degree(q) - 1), 2 * require_degree(q) - 1)
