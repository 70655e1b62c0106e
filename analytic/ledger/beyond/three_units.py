"""Three erf units in the plane: where their curvature changes sign."""

from __future__ import annotations

from typing import Any

import sympy as sp
from mpmath import mp

from analytic.checks.claims import Claim, sample
from analytic.checks.oracles import determinant, network_jet
from analytic.expressions.formula import Formula
from analytic.ledger.verification import Verification, holds, real_symbols

__all__ = ["ROUTES"]


def _conic() -> Claim:
    """(det g)^2 R in weights and preactivations."""
    weights = [real_symbols(f"w{j}1 w{j}2") for j in (1, 2, 3)]
    z1, z2, z3 = places = real_symbols("z1 z2 z3")

    def M(j: int, k: int) -> sp.Expr:
        return weights[j][0] * weights[k][1] - weights[j][1] * weights[k][0]

    minors = M(0, 1), M(1, 2), M(2, 0)
    conic = minors[1] * z2 * z3 + minors[2] * z3 * z1 + minors[0] * z1 * z2
    size = sp.exp(-(z1**2) - z2**2 - z3**2) * (2 / sp.pi) ** 3
    expr = sp.Rational(2, 27) * size * sp.prod(minors) * conic
    flat = tuple(symbol for row in weights for symbol in row)
    formula = Formula("(det g)^2 R of three erf units", (*flat, *places), expr)

    def textbook(**values: Any) -> Any:
        def slopes(z: Any) -> tuple[Any, Any, Any]:
            first = mp.sqrt(2 / mp.pi) * mp.exp(-z * z / 2)
            return first, -z * first, (z * z - 1) * first

        units = [slopes(values[f"z{j}"]) for j in (1, 2, 3)]
        rows = [[values[f"w{j}{m}"] for m in (1, 2)] for j in (1, 2, 3)]
        jet = network_jet(units, rows)
        return determinant(jet.g) ** 2 * jet.scalar()

    return Claim(formula, "textbook curvature", textbook, sample(formula, 3))


ROUTES: dict[str, Verification] = {"beyond/three-erf-units": holds(_conic())}
