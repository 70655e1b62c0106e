r"""The erf network of three units on the unit circle with one bias b: its volume and its curvature.

The weights are (1, 0), (-1/2, $\sqrt3/2$), (-1/2, $-\sqrt3/2$), as in (B.65) of the curvature paper.
In the preactivations $z_j$, whose squares add up to $\tfrac32(|x|^2 + 2b^2)$,

$$\det g = \frac{e^{-\sum z_j^2}}{3\pi^2}\sum_j e^{z_j^2}, \qquad
R = 3\pi\,(z_1z_2 + z_2z_3 + z_3z_1)\,\frac{e^{\sum z_j^2}}{\big(\sum_j e^{z_j^2}\big)^2}.$$

In floats the largest square is taken out of the sum, and each exponent is an unevaluated sum of two
floats: an exponent may be a difference of squares of 1e4, and its absolute error is the relative
error of the result.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import permutations
from typing import Any

import sympy as sp
from mpmath import mp

from analytic.expressions.formula import Formula
from analytic.expressions.opaque import Opaque, Table, to_arrays
from analytic.expressions.special.exact_floats import two_product, two_sum
from analytic.expressions.symbols import b, x1, x2
from analytic.finite.bumps import bumps, determinant
from analytic.geometry.nngp import PAPER

__all__ = ["WEIGHTS", "erf3_magnification", "erf3_ricci", "magnification", "ricci"]

ARGS = (x1, x2, b)
WEIGHTS = (
    (sp.S.One, sp.S.Zero),
    (-sp.S.Half, sp.sqrt(3) / 2),
    (-sp.S.Half, -sp.sqrt(3) / 2),
)
Pair = tuple[Any, Any]  # an unevaluated sum of two floats


def _textbook() -> tuple[sp.Expr, sp.Expr]:
    """det g from its bumps (B.55), and R from the sum over triples of units (4) divided by 3."""
    z = [w[0] * x1 + w[1] * x2 + b for w in WEIGHTS]
    squares = sp.factor(sp.expand(sum(v**2 for v in z)))
    pairs = bumps(WEIGHTS, (b, b, b))  # each bump belongs to a pair of the three units
    terms = [determinant([bump], (x1, x2)) / bump.weight for bump in pairs]
    third = [sp.expand(term.exp + squares) for term in terms]  # z^2 of the unit not in the pair
    S = sum(sp.exp(v**2) for v in z if sp.expand(v**2) in third)
    (weight,) = {bump.weight for bump in pairs}
    total = sum(
        _minor(j, k) ** 2 * _minor(i, j) * _minor(i, k) * z[j] * z[k]
        for i, j, k in permutations(range(3))
    )
    front = -((2 / sp.pi) ** 3) / (27 * weight**2)  # phi'' = -z phi', and phi'^2 = 2 exp(-z^2) / pi
    curvature = front * sp.factor(sp.expand(total)) * sp.exp(squares) / S**2
    return weight * sp.exp(-squares) * S, curvature


def _minor(j: int, k: int) -> sp.Expr:
    return WEIGHTS[j][0] * WEIGHTS[k][1] - WEIGHTS[j][1] * WEIGHTS[k][0]


DETERMINANT, CURVATURE = _textbook()


class _ArrayFormula(Opaque):
    """A quantity of the network on arrays; its arguments are x1, x2 and b."""

    straight_line = True
    textbook: sp.Expr

    @property
    def inputs(self) -> tuple[sp.Expr, ...]:
        return self.args

    def on_mpmath(self, table: Table) -> Callable[..., Any]:
        body = table(ARGS, sp.Tuple(self.textbook))
        return lambda *values: body(*values)[0]

    def on_arrays(self, xp: Any, table: Table) -> Callable[..., Any]:
        return lambda *values: self.read(_Squares.of(xp, *to_arrays(xp, values)))

    @staticmethod
    def read(at: _Squares) -> Any:
        raise NotImplementedError


class erf3_magnification(_ArrayFormula):
    """sqrt(det g)."""

    textbook = sp.sqrt(DETERMINANT)

    @staticmethod
    def read(at: _Squares) -> Any:
        low, middle, _ = at.ordered
        height = at.exp(_scaled(_sum(low, middle), -0.5))
        return height * at.xp.sqrt(at.total) / (math.pi * math.sqrt(3))


class erf3_ricci(_ArrayFormula):
    """The Ricci scalar."""

    textbook = CURVATURE

    @staticmethod
    def read(at: _Squares) -> Any:
        low, middle, high = at.ordered
        # Multiply by the square root of the exponential twice: the exponential itself may overflow.
        root = at.exp(_scaled(_sum(low, _sum(middle, _scaled(high, -1))), 0.5)) / at.unit
        return 9 * math.pi / 4 * (root * at.inside * root / at.total**2)


@dataclass(frozen=True)
class _Squares:
    """Squares of the three preactivations in increasing order, times unit^2."""

    xp: Any
    ordered: tuple[Pair, Pair, Pair]
    inside: Any  # (4 b^2 - |x|^2) unit^2
    unit: Any  # a power of two, below 1 only where squares would overflow

    @classmethod
    def of(cls, xp: Any, x1: Any, x2: Any, b: Any) -> _Squares:
        bits = math.frexp(float(xp.finfo(x1.dtype).max))[1]
        far = abs(x1) + abs(x2) + abs(b) > 2.0 ** (bits // 3)
        unit = xp.where(far, 2.0 ** -(bits // 2 + 24), xp.ones_like(b))
        x1, x2, b = x1 * unit, x2 * unit, b * unit
        four = _scaled(two_product(b, b), 4)
        minus = [-part for x in (x1, x2) for part in two_product(x, x)]
        first, second, third = (_square(xp, z) for z in _preactivations(xp, x1, x2, b))
        first, second = _sorted(xp, first, second)
        second, third = _sorted(xp, second, third)
        first, second = _sorted(xp, first, second)
        inside = _compensated_sum([*four, *minus])
        return cls(xp, (first, second, third), inside, unit)

    def exp(self, x: Pair) -> Any:
        """e^(x / unit^2), with the exponent clipped so that the result neither overflows nor is NaN."""
        xp, most = self.xp, math.log(float(self.xp.finfo(x[0].dtype).max)) - 1
        high, low = (part / self.unit / self.unit for part in x)
        within = (high < most) & (high > -2 * most)
        edge = xp.where(high > 0, most, -2 * most)
        return xp.exp(xp.where(within, high, edge)) * (1 + xp.where(within, low, 0.0))

    @property
    def total(self) -> Any:
        """The sum of exp(z_j^2) divided by the largest of them, between 1 and 3."""
        low, middle, high = self.ordered
        return (
            1 + self.exp(_sum(middle, _scaled(high, -1))) + self.exp(_sum(low, _scaled(high, -1)))
        )


def _preactivations(xp: Any, x1: Any, x2: Any, b: Any) -> tuple[Pair, Pair, Pair]:
    root = float(xp.asarray(math.sqrt(3) / 2, dtype=x2.dtype))
    with mp.workdps(40):
        low = float(mp.sqrt(3) / 2 - root)
    side, rest = two_product(xp.ones_like(x2) * root, x2)
    up, middle = (side, rest + low * x2), two_sum(b, -x1 / 2)
    return two_sum(x1, b), _sum(middle, up), _sum(middle, _scaled(up, -1))


def _sum(x: Pair, y: Pair) -> Pair:
    high, low = two_sum(x[0], y[0])
    return two_sum(high, low + (x[1] + y[1]))


def _compensated_sum(terms: list[Any]) -> Any:
    """The sum of floats that may cancel, with three passes of error-free transformation."""
    for _ in range(3):
        for k in range(1, len(terms)):
            terms[k], terms[k - 1] = two_sum(terms[k], terms[k - 1])
    return sum(terms)


def _scaled(x: Pair, factor: float) -> Pair:
    """Times plus or minus a power of two."""
    return x[0] * factor, x[1] * factor


def _square(xp: Any, x: Pair) -> Pair:
    high, low = two_product(x[0], x[0])
    return high, low + 2 * x[0] * x[1]


def _sorted(xp: Any, x: Pair, y: Pair) -> tuple[Pair, Pair]:
    swap = x[0] > y[0]
    pairs = list(zip(x, y, strict=True))
    return tuple(xp.where(swap, v, u) for u, v in pairs), tuple(
        xp.where(swap, u, v) for u, v in pairs
    )


def _formula(face: type[_ArrayFormula], what: str, citation: str) -> Formula:
    return Formula(
        f"erf3.{what}", ARGS, face.textbook, citation=f"{PAPER}, {citation}", stable=face(*ARGS)
    )


magnification = _formula(erf3_magnification, "magnification", "(B.68)")
ricci = _formula(erf3_ricci, "ricci", "(B.70)")
