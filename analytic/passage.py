"""A layer as the moments that germs of kernels pass through: in textbook form, and for floats."""

from __future__ import annotations

import sympy as sp

from analytic.activation import Activation
from analytic.elasticity import algebraic, elasticities, factored
from analytic.expectation import Moment
from analytic.formula import Formula
from analytic.germ import Passage
from analytic.special import expm1
from analytic.symbols import V


def passage(act: Activation) -> Passage:
    """Of the kernel E[phi phi]."""
    return _floating(act.F, act.require("G"), None, act.elasticity)


def derived_passage(act: Activation) -> Passage:
    """Of the kernel E[phi' phi']."""
    return _floating(act.require("G"), act.require("G2"), act.elasticity, None)


def textbook(act: Activation) -> Passage:
    """The same by its definition, which any working precision can bear."""
    return _defined(act.F.expr, act.require("G").expr)


def derived_textbook(act: Activation) -> Passage:
    return _defined(act.require("G").expr, act.require("G2").expr)


def _defined(f: sp.Expr, g: sp.Expr) -> Passage:
    first, slope, ratio = V * sp.diff(f, V) / f, V * sp.diff(g, V) / g, sp.diff(f, V) / g
    second, bend, turn = (V * sp.diff(e, V) for e in (first, slope, ratio))
    lag = 1 + slope - first
    return Passage(f, first, second, g, slope, bend, 1 + 2 * slope, ratio, ratio - 1, turn, lag)


def _floating(f: Formula, g: Formula, known_f: sp.Expr | None, known_g: sp.Expr | None) -> Passage:
    of_f, of_g = elasticities(f, known_f), elasticities(g, known_g)
    ratio, defect, turn = _ratio(f, g)
    lag = 1 + of_g.first - of_f.first
    return Passage(
        f.floating,
        of_f.first,
        of_f.second,
        g.floating,
        of_g.first,
        of_g.second,
        of_g.stretch,
        ratio,
        defect,
        turn,
        factored(lag) if algebraic(lag) else lag,
    )


def _ratio(f: Formula, g: Formula) -> tuple[sp.Expr, sp.Expr, sp.Expr]:
    r"""$f'/g$, what it lacks of 1, and its rate; f' - g is $E[\phi\phi'']$, often simpler than both."""
    of_f, of_g = elasticities(f), elasticities(g)
    if f.floating.has(Moment) or g.floating.has(Moment):
        ratio = f.floating * of_f.slope / g.floating
        rate = ratio * (of_f.second / of_f.first + of_f.first - 1 - of_g.first)
        return ratio, ratio - 1, rate
    rest = sp.expand(sp.expand(sp.diff(f.expr, V)) - sp.expand(g.expr))
    defect = rest / g.expr
    if algebraic(defect):
        defect = factored(sp.gammasimp(sp.powsimp(defect)))
        return factored(1 + defect), defect, factored(V * sp.diff(defect, V))
    if algebraic(rest):
        defect = factored(rest) / g.floating
        return 1 + defect, defect, factored(V * sp.diff(rest, V)) / g.floating - defect * of_g.first
    rest = sp.expand(rest.replace(sp.exp, lambda x: 1 + expm1(x)))
    defect = sp.powsimp(rest / g.floating)
    ratio = sp.powsimp(sp.diff(f.expr, V) / g.floating)
    return ratio, defect, V * sp.diff(defect, V)
