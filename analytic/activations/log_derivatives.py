r"""How fast a moment such as $G(V) = E[\phi'^2]$ grows: $\epsilon_1 = VG'/G$ and $V\epsilon_1'$."""

from __future__ import annotations

from dataclasses import dataclass

import sympy as sp

from analytic.expressions.expectation import Moment
from analytic.expressions.formula import Formula
from analytic.expressions.special import log1p
from analytic.expressions.symbols import V, s, zeta


@dataclass(frozen=True)
class Elasticities:
    """e1 = V G'/G, e2 = V e1', stretch = 1 + 2 e1 and slope = e1/V, each free of cancellation."""

    first: sp.Expr
    second: sp.Expr
    stretch: sp.Expr
    slope: sp.Expr


def elasticities(moment: Formula, known: sp.Expr | None = None) -> Elasticities:
    """Of a moment as a function of V; `known` is its first elasticity, where a better form exists."""
    G, textbook = (_generic(face) for face in (moment.floating, moment.expr))
    if G.has(Moment):
        return _of_moment(G)
    if known is not None:
        e1 = known
        return Elasticities(e1, V * sp.diff(e1, V), 1 + 2 * e1, e1 / V)
    slope = sp.diff(textbook, V)
    if algebraic(textbook):
        e1 = factored(V * slope / textbook)
        e2, stretch = factored(V * sp.diff(e1, V)), factored(1 + 2 * e1)
        return Elasticities(e1, e2, stretch, factored(e1 / V))
    if algebraic(slope := factored(slope)):  # G' is simpler than G, as for GELU
        once = factored(V * slope)
        e1, e2 = once / G, factored(V * sp.diff(once, V)) / G - (once / G) ** 2
        return Elasticities(e1, e2, 1 + 2 * e1, slope / G)
    slope = sp.diff(G, V) / G
    return Elasticities(V * slope, V * sp.diff(V * slope, V), 1 + 2 * V * slope, slope)


def rise(moment: Formula) -> sp.Expr:
    r"""The coefficient of $\sqrt V$ in a moment at V = 0: not 0 where a slope bends at 0, as ELU's."""
    slope = sp.diff(moment.expr, V)
    if slope.has(Moment) or slope.free_symbols - {V} or slope.subs(V, 0).is_finite:
        return sp.S.Zero
    return sp.limit(2 * sp.sqrt(V) * slope, V, 0)


def _generic(expr: sp.Expr) -> sp.Expr:
    """Without the exceptions of a Piecewise: the monomial of degree 1 has G2 = 0 by a case of its own."""
    return expr.args[-1][0] if isinstance(expr, sp.Piecewise) else expr


def _of_moment(G: sp.Expr) -> Elasticities:
    """From quadratures of one sign: moving the scale of f puts z f' or t^2 f under the average."""
    plain = G.subs(dict.fromkeys(G.atoms(Moment), 0))
    second = G.replace(Moment, lambda f, V, power, kinks: Moment(f, V, 2, kinks))
    second += 2 * V * sp.diff(plain, V)  # what is no average moves its scale by itself
    e1 = _log_derivative(G) / G
    stretch = second / G
    e2 = stretch / 2 * (_log_derivative(second) / second - e1)
    return Elasticities(e1, e2, stretch, e1 / V)


def _log_derivative(expr: sp.Expr) -> sp.Expr:
    """V d/dV of a sum of powers of V and moments."""
    averages = expr.atoms(Moment)
    plain = expr.subs(dict.fromkeys(averages, 0))
    return V * sp.diff(plain, V) + sp.Add(
        *(expr.coeff(part) * part.log_derivative() for part in averages)
    )


def algebraic(expr: sp.Expr) -> bool:
    return not expr.atoms(sp.Function) - expr.atoms(sp.gamma, sp.loggamma) and not expr.has(
        sp.exp, Moment
    )


def log_of_product(expr: sp.Expr) -> sp.Expr:
    """log of a positive product, factor by factor; a sum is led by its constant, for log1p."""
    number, rest = expr.as_coeff_Mul()
    if number < 0:  # two negative factors, such as -expm1(-x)
        return sp.log(-number) + sp.log(-rest)
    if expr.is_Mul:
        return sp.Add(*map(log_of_product, expr.args))
    if isinstance(expr, sp.exp):
        return expr.args[0]
    if expr.is_Pow:
        return expr.exp * log_of_product(expr.base)
    constant, rest = expr.as_coeff_Add()
    return (
        sp.log(constant) + log1p(rest / constant) if expr.is_Add and constant > 0 else sp.log(expr)
    )


def factored(expr: sp.Expr) -> sp.Expr:
    """The factored form, each factor ordered by powers of zeta."""
    generic = {symbol: sp.Dummy(symbol.name, positive=True) for symbol in (s, zeta, V)}
    factors = sp.factor(expr.subs(generic)).as_powers_dict()
    bias = generic[zeta]
    tidy = sp.Mul(*(sp.collect(sp.expand(b), bias, sp.factor) ** e for b, e in factors.items()))
    return tidy.subs({dummy: symbol for symbol, dummy in generic.items()})


def quick(moment: Formula) -> bool:
    """Whether `factor` is quick on expressions in a moment: powers, and exponentials of symbols.

    It takes exp(169 V/50) for the 169th power of a generator.
    """
    numeric = moment.expr.has(sp.exp) and moment.expr.free_symbols == {V}
    return not (numeric or moment.expr.has(Moment, sp.asin, sp.erfc, sp.erf))
