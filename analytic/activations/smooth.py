"""Tanh, sigmoid, softplus and SiLU: no closed moments are known, so all of them are quadratures.

They are written so that floats keep their digits in both tails. Both branches of a Piecewise are
evaluated, so the exponent of a branch that is not taken is capped at 1, and neither the exponential
nor its gradient overflows.
"""

from __future__ import annotations

import sympy as sp
from sympy import exp

from analytic.activations.activation import activation
from analytic.expressions.symbols import z

__all__ = ["sigmoid", "silu", "softplus", "tanh"]

_left = exp(sp.Piecewise((z, z < 1), (1, True)))  # e^z for z < 0
_right = exp(sp.Piecewise((-z, z > -1), (1, True)))  # e^-z for z > 0
_tail, _middle = _left / (1 + _left), (1 + sp.tanh(z / 2)) / 2


tanh = activation("tanh", sp.tanh(z))


sigmoid = activation("sigmoid", sp.Piecewise((_tail, z < -1), (_middle, True)))


def _log1p(e: sp.Expr) -> sp.Expr:
    """log(1 + e) without rounding 1 + e, at any precision."""
    return 2 * sp.atanh(e / (2 + e))


softplus = activation("softplus", sp.Piecewise((_log1p(_left), z < 0), (z + _log1p(_right), True)))


silu = activation("silu", sp.Piecewise((z * _tail, z < -1), (z * _middle, True)))
