"""Functions of twofold numbers: by series, by a correction that doubles a float's digits, or compiled."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import sympy as sp
from mpmath import mp

from analytic.expressions.expectation import Moment
from analytic.expressions.opaque import Table
from analytic.expressions.printer import ArrayPrinter
from analytic.expressions.quadrature.arrays import like
from analytic.expressions.special.tails import (
    clenshaw,
    corner_series,
    tail_map,
    tail_powers,
    tail_series,
)
from analytic.expressions.twofold.number import Twofold, constant

__all__ = [
    "atan", "compile_twofold", "exp", "expm1", "log", "scaled_tail", "sqrt", "tail_corner",
    "tail_step", "where",
]  # fmt: skip

_HALVINGS = 6  # of the argument of exp, so that its Taylor polynomial needs few terms
_TABLE = 32  # the table has the angles whose tangents are k/32
_LOG_TWO, _PI = constant(mp.ln2), constant(mp.pi)
_INVERSE_FACTORIALS = [constant(f"1/{math.factorial(n)}") for n in range(1, 14)]
_ODD_INVERSES = [constant(f"1/{2 * k + 1}") for k in range(10)]


def _horner(coefficients: list[Twofold], x: Twofold) -> Twofold:
    value = coefficients[-1]
    for c in reversed(coefficients[:-1]):
        value = value * x + c
    return value


def _reduced(x: Twofold) -> tuple[Twofold, Twofold]:
    """e^y - 1 and 2^k for x = y + k log 2; |x| > 1500 counts as 1500, where e^x is 0 or infinite."""
    xp = x.xp
    inside = abs(x.high) < 1500.0
    edge = xp.where(x.high > 0, 1500.0, -1500.0) + 0.0 * xp.where(inside, x.high, 0.0)
    x = Twofold(xp, xp.where(inside, x.high, edge), xp.where(inside, x.low, 0.0))
    k = xp.round(x.high / _LOG_TWO.high)
    y = (x - Twofold(xp, k) * _LOG_TWO) * 0.5**_HALVINGS
    expm1_y = _horner(_INVERSE_FACTORIALS, y) * y
    for _ in range(_HALVINGS):
        expm1_y = expm1_y * (expm1_y + 2)
    return expm1_y, Twofold(xp, xp.exp2(k))


def exp(x: Twofold) -> Twofold:
    expm1_y, power = _reduced(x)
    return (expm1_y + 1) * power


def expm1(x: Twofold) -> Twofold:
    expm1_y, power = _reduced(x)
    return expm1_y * power + (power - 1)


def log(x: Twofold) -> Twofold:
    near = Twofold(x.xp, x.xp.log(x.high))
    return near + (x * exp(-near) - 1)


def sqrt(x: Twofold) -> Twofold:
    return x.sqrt()


def atan(x: Twofold) -> Twofold:
    """For x >= 0: the nearest angle of a table, plus a remainder whose tangent is below 1/64."""
    xp, steep = x.xp, x.high > 1
    small = where(steep, 1 / where(steep, x, 1.0), where(steep, 1.0, x))
    step = xp.round(small.high * _TABLE)
    remainder = (small - step / _TABLE) / (1 + small * (step / _TABLE))
    angle = _horner(_ODD_INVERSES, -(remainder * remainder)) * remainder
    index = xp.where(step == step, step, 0.0)  # NaN is no index; the remainder stays NaN
    index = index.long() if hasattr(index, "long") else index.astype(int)
    angle = angle + Twofold(xp, *(like(xp, x.high, part)[index] for part in _angles()))
    return where(steep, _PI * 0.5 - angle, angle)


@lru_cache
def _angles() -> tuple[list[float], list[float]]:
    """atan(k / 32), high and low."""
    with mp.workdps(40):
        angles = [constant(mp.atan(mp.mpf(k) / _TABLE)) for k in range(_TABLE + 1)]
    return [angle.high for angle in angles], [angle.low for angle in angles]


def scaled_tail(order: int, y: Twofold) -> Twofold:
    """e^(y^2) i^n erfc(y) by its Chebyshev series."""
    u, scale = tail_map(y, int(order))
    return clenshaw(_tail_constants(int(order)), u) * scale


@lru_cache
def _tail_constants(order: int) -> list[Twofold]:
    return [constant(c) for c in tail_series(order, 33)]


def tail_step(n: int, x: Twofold | float, y: Twofold) -> Twofold:
    """By definition, or by a power series where x + y is small; x is 0, or of the size of y."""
    x = x if isinstance(x, Twofold) else Twofold(y.xp, x + 0.0 * y.high)
    far = scaled_tail(n, x) - scaled_tail(n, x + y)
    return _near_zero(lambda *at: -_steps(_powers(n), *at), x, y, far)


def tail_corner(n: int, x: Twofold, y: Twofold) -> Twofold:
    ends = (scaled_tail(n, at) for at in (x, y, x + y))
    far = _powers(n)[0] - next(ends) - next(ends) + next(ends)
    return _near_zero(lambda *at: corner_series(_powers(n), *at), x, y, far)


def _near_zero(series: Callable[..., Twofold], x: Twofold, y: Twofold, far: Twofold) -> Twofold:
    inside = (x + y).high < 0.125
    return where(inside, series(*(where(inside, part, 0.0625) for part in (x, y))), far)


def _steps(terms: list[Twofold], x: Twofold, y: Twofold) -> Twofold:
    """The sum of c_k ((x + y)^k - x^k) over k >= 1."""
    total, step, power = x + y, y, x
    value = terms[1] * step
    for c in terms[2:]:
        step, power = total * step + y * power, power * x
        value = value + c * step
    return value


@lru_cache
def _powers(n: int) -> list[Twofold]:
    return [constant(c) for c in tail_powers(n, 36)]


def where(condition: Any, yes: Any, no: Any) -> Twofold:
    xp = next(part.xp for part in (yes, no) if isinstance(part, Twofold))
    pairs = [(p.high, p.low) if isinstance(p, Twofold) else (float(p), 0.0) for p in (yes, no)]
    return Twofold(xp, *(xp.where(condition, a, b) for a, b in zip(*pairs, strict=True)))


NAMES = {
    f.__name__: f for f in (exp, expm1, log, sqrt, atan, scaled_tail, tail_step, tail_corner, where)
}


def compile_twofold(
    xp: Any, floats: Table, args: Sequence[sp.Symbol], exprs: sp.Tuple
) -> Callable[..., Sequence[Twofold]]:
    """The expressions on twofold arrays; quadratures, which `floats` compiles, have only 16 digits."""
    averages = sorted(exprs.atoms(Moment), key=sp.default_sort_key)
    stand_ins = [sp.Dummy(f"average_{k}") for k in range(len(averages))]
    exprs, constants = _named_constants(exprs.xreplace(dict(zip(averages, stand_ins, strict=True))))
    for node in exprs.atoms(sp.Function):
        if (name := node.func.__name__) not in NAMES and not isinstance(node, sp.Piecewise):
            raise NotImplementedError(
                f"{name} has no form for twofold numbers: average it instead."
            )
    body = sp.lambdify(
        (*args, *stand_ins, *constants), exprs, modules=[NAMES],
        printer=ArrayPrinter({"fully_qualified_modules": False}), cse=ArrayPrinter.share,
    )  # fmt: skip
    averaged = floats(args, sp.Tuple(*averages)) if averages else None

    def call(*values: Any) -> Sequence[Twofold]:
        more = []
        if averaged is not None:
            plain = (v.high if isinstance(v, Twofold) else v for v in values)
            more = [Twofold(xp, value) for value in averaged(*plain)]
        return body(*values, *more, *constants.values())

    return call


def _named_constants(expr: sp.Basic) -> tuple[sp.Basic, dict[sp.Symbol, Twofold]]:
    """The expression with symbols for its numbers, except integers and exponents, and their values."""
    names: dict[sp.Expr, sp.Symbol] = {}

    def named(node: Any) -> Any:
        if isinstance(node, sp.Expr) and node.is_number:
            return node if node.is_Integer else names.setdefault(node, sp.Dummy("constant"))
        if isinstance(node, sp.Pow) and node.exp.is_number:
            power = node.exp if node.exp.is_Rational else sp.N(node.exp, 17)
            return sp.Pow(named(node.base), power, evaluate=False)
        return node.func(*map(named, node.args)) if node.args else node

    return named(expr), {symbol: constant(sp.N(value, 40)) for value, symbol in names.items()}
