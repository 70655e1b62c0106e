r"""How fast $G(V) = E[\phi'^2]$ changes: $\epsilon_1 = VG'/G$, $\epsilon_2 = V\epsilon_1'$, for floats."""

from __future__ import annotations

from dataclasses import dataclass

import sympy as sp

from analytic.activation import Activation
from analytic.expectation import Moment
from analytic.special import log1p
from analytic.symbols import V, s, zeta


@dataclass(frozen=True)
class Elasticities:
    """e1 = V G'/G, e2 = V e1', stretch = 1 + 2 e1 and slope = e1/V, each free of cancellation."""

    first: sp.Expr
    second: sp.Expr
    stretch: sp.Expr
    slope: sp.Expr


def elasticities(act: Activation) -> Elasticities:
    G, textbook = act.G.floating, act.G.expr
    if G.has(Moment):
        return _of_moment(G)
    if act.elasticity is not None:
        e1 = act.elasticity
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


def _of_moment(G: sp.Expr) -> Elasticities:
    """From quadratures of one sign: moving the scale of f puts z f' or t^2 f under the average."""
    second = G.replace(Moment, lambda f, V, power, kinks: Moment(f, V, 2, kinks))
    e1 = _log_derivative(G) / G
    stretch = second / G
    e2 = stretch / 2 * (_log_derivative(second) / second - e1)
    return Elasticities(e1, e2, stretch, e1 / V)


def _log_derivative(expr: sp.Expr) -> sp.Expr:
    """V d/dV of a constant plus moments."""
    return sp.Add(*(part.log_derivative() for part in expr.atoms(Moment)))


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


def quick(act: Activation) -> bool:
    """Whether `factor` is quick on expressions in G: powers and exponentials only."""
    return not act.G.expr.has(Moment, sp.asin, sp.erfc, sp.erf)
