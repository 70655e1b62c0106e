r"""How fast a moment such as $G(V) = E[\phi'^2]$ grows: its logarithmic derivative $\epsilon = VG'/G$."""

from __future__ import annotations

from dataclasses import dataclass

import sympy as sp

from analytic.expressions.expectation import Moment
from analytic.expressions.formula import Formula
from analytic.expressions.special import log1p
from analytic.expressions.symbols import V, s, zeta

__all__ = [
    "LogDerivatives", "algebraic", "factored", "log_derivatives", "log_of_product", "quick",
    "sqrt_coefficient",
]  # fmt: skip


@dataclass(frozen=True)
class LogDerivatives:
    r"""$\epsilon = VG'/G = d\log G/d\log V$, its rate $V\epsilon'$, and two expressions in $\epsilon$.

    Each is written so that floats lose no digits to cancellation.
    """

    eps: sp.Expr
    rate: sp.Expr
    one_plus_2_eps: sp.Expr
    eps_over_V: sp.Expr  # G'/G


def log_derivatives(moment: Formula, known: sp.Expr | None = None) -> LogDerivatives:
    """Of a moment as a function of V; `known` is eps, where a better form of it exists."""
    G, textbook = (_generic(form) for form in (moment.floating, moment.expr))
    if G.has(Moment):
        return _of_moment(G)
    if known is not None:
        return LogDerivatives(known, V * sp.diff(known, V), 1 + 2 * known, known / V)
    slope = sp.diff(textbook, V)
    if algebraic(textbook):
        eps = factored(V * slope / textbook)
        rate, one_plus_2_eps = factored(V * sp.diff(eps, V)), factored(1 + 2 * eps)
        return LogDerivatives(eps, rate, one_plus_2_eps, factored(eps / V))
    if algebraic(slope := factored(slope)):  # G' is simpler than G, as for GELU
        VG1 = factored(V * slope)
        eps, rate = VG1 / G, factored(V * sp.diff(VG1, V)) / G - (VG1 / G) ** 2
        return LogDerivatives(eps, rate, 1 + 2 * eps, slope / G)
    ratio = sp.diff(G, V) / G
    return LogDerivatives(V * ratio, V * sp.diff(V * ratio, V), 1 + 2 * V * ratio, ratio)


def sqrt_coefficient(moment: Formula) -> sp.Expr:
    r"""The coefficient of $\sqrt V$ in a moment at V = 0: not 0 for ELU's G, as phi' has a kink at 0."""
    slope = sp.diff(moment.expr, V)
    if slope.has(Moment) or slope.free_symbols - {V} or slope.subs(V, 0).is_finite:
        return sp.S.Zero
    return sp.limit(2 * sp.sqrt(V) * slope, V, 0)


def _generic(expr: sp.Expr) -> sp.Expr:
    """The last branch of a Piecewise: a monomial's G2 = 0 at degree 1 is a case before it."""
    return expr.args[-1][0] if isinstance(expr, sp.Piecewise) else expr


def _of_moment(G: sp.Expr) -> LogDerivatives:
    r"""From quadratures whose integrands have one sign, so that nothing cancels.

    For standard normal t, integration by parts gives $G + 2VG' = E[t^2 f(\sqrt V t)]$, and then
    $1 + 2\epsilon$ is that over G.
    """
    closed = G.subs(dict.fromkeys(G.atoms(Moment), 0))  # the terms that are no quadratures
    second = G.replace(Moment, lambda f, V, power, kinks: Moment(f, V, 2, kinks))
    second += 2 * V * sp.diff(closed, V)
    eps = _rate(G) / G
    one_plus_2_eps = second / G
    rate = one_plus_2_eps / 2 * (_rate(second) / second - eps)
    return LogDerivatives(eps, rate, one_plus_2_eps, eps / V)


def _rate(expr: sp.Expr) -> sp.Expr:
    """V d/dV of a sum of powers of V and moments."""
    averages = expr.atoms(Moment)
    closed = expr.subs(dict.fromkeys(averages, 0))
    return V * sp.diff(closed, V) + sp.Add(
        *(expr.coeff(part) * part.log_derivative() for part in averages)
    )


def algebraic(expr: sp.Expr) -> bool:
    """Whether an expression has no function but roots, powers and gamma functions of parameters."""
    return not expr.atoms(sp.Function) - expr.atoms(sp.gamma, sp.loggamma) and not expr.has(
        sp.exp, Moment
    )


def log_of_product(expr: sp.Expr) -> sp.Expr:
    """log of a positive product, factor by factor; of c + x with a number c > 0, by log1p(x / c)."""
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
    """Whether `sp.factor` is quick on expressions in a moment: powers, and exponentials with parameters.

    It is slow on exponentials with numbers, because it takes exp(169 V/50) for a 169th power.
    """
    numeric = moment.expr.has(sp.exp) and moment.expr.free_symbols == {V}
    return not (numeric or moment.expr.has(Moment, sp.asin, sp.erfc, sp.erf))
