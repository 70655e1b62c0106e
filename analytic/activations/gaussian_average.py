r"""Gaussian averages in closed form: of piecewise sums of $z^n e^{az^2 + bz}$, sines and cosines.

For z ~ N(0, V) completing the square leaves $V' = V/(1 - 2aV)$, and powers of z are derivatives by b:

$$E[z^n e^{az^2 + \beta z}\cos wz]
  = \frac{\partial_\beta^n\, e^{(\beta^2 - w^2)V'/2}\cos(\beta w V')}{\sqrt{1 - 2aV}},$$

and between two kinks, without sines and cosines, a difference of error functions in place of the cosine.
Any other function has no closed form here: a table gives the same answer on every machine, while a
search by SymPy's `integrate` would need a time limit.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

import sympy as sp

from analytic.expressions.symbols import V, z

__all__ = ["NotInTable", "closed_form"]

Term = tuple[sp.Expr, sp.Expr, sp.Expr]  # the exponents n, a and b of z^n exp(a z^2 + b z)
_V = sp.Dummy("V", positive=True)
_beta = sp.Dummy("beta", real=True)
WAVES = (sp.sin, sp.cos, sp.sinh, sp.cosh)


class NotInTable(Exception):
    """A function that has no closed form here."""


def closed_form(f: sp.Expr, kinks: Sequence[sp.Expr]) -> sp.Expr | None:
    """E[f(z)] as an expression in V, or None; `kinks` are the finite ends of the branches of f."""
    try:
        parts = [
            _average(n, a, b, coefficient, lo, hi)
            for lo, hi, terms in _pieces(f, kinks)
            for (n, a, b), coefficient in terms.items()
        ]
    except NotInTable:
        return None
    return sp.Add(*parts).subs(_V, V)


def _pieces(
    f: sp.Expr, kinks: Sequence[sp.Expr]
) -> Iterator[tuple[sp.Expr, sp.Expr, dict[Term, sp.Expr]]]:
    """Intervals with the terms of f in each; neighbours with the same terms are merged."""
    ends = [-sp.oo, *kinks, sp.oo]
    pieces = [(lo, hi, _terms(_branch(f, lo, hi))) for lo, hi in pairwise(ends)]
    start = pieces[0][0]
    for (_, end, terms), (*_, terms_after) in pairwise(pieces):
        if terms_after != terms:
            yield start, end, terms
            start = end
    _, end, terms = pieces[-1]
    yield start, end, terms


def _branch(f: sp.Expr, lo: sp.Expr, hi: sp.Expr) -> sp.Expr:
    """f on an interval without kinks inside: each Piecewise is the branch at one inner point."""
    inside = {(False, False): 0, (False, True): hi - 1, (True, False): lo + 1}
    probe = inside.get((lo.is_finite, hi.is_finite), (lo + hi) / 2)

    def branch_at_probe(*branches: sp.Tuple) -> sp.Expr:
        for value, condition in branches:
            if condition.subs(z, probe) == True:  # noqa: E712
                return value
        raise NotInTable

    return f.replace(sp.Piecewise, branch_at_probe)


def _terms(f: sp.Expr) -> dict[Term, sp.Expr]:
    """The coefficient of every z^n exp(a z^2 + b z); sines and cosines have an imaginary b."""
    terms: dict[Term, sp.Expr] = defaultdict(lambda: sp.S.Zero)
    for term in sp.Add.make_args(sp.expand(sp.expand(f).rewrite(WAVES, sp.exp))):
        if term == 0:
            continue
        coefficient, rest = term.as_independent(z, as_Add=False)
        power, exponent = sp.S.Zero, sp.S.Zero
        for factor in sp.Mul.make_args(rest):
            base, index = factor.as_base_exp()
            if base == z and index.is_number:
                power += index
            elif isinstance(factor, sp.exp) and factor.args[0].is_polynomial(z):
                exponent += factor.args[0]
            elif factor != 1:
                raise NotInTable
        if (exponent := sp.Poly(exponent, z)).degree() > 2:
            raise NotInTable
        a, b, c = (exponent.coeff_monomial(z**k) for k in (2, 1, 0))
        terms[power, a, b] += coefficient * sp.exp(c)
    return {key: value for key, value in terms.items() if value != 0}


def _average(
    n: sp.Expr, a: sp.Expr, b: sp.Expr, coefficient: sp.Expr, lo: sp.Expr, hi: sp.Expr
) -> sp.Expr:
    """The average of one term over one interval.

    Terms with sines and cosines come in complex conjugate pairs, so their real parts are enough.
    """
    if not (a.is_real and a <= 0):
        raise NotInTable
    narrow = _V / (1 - 2 * a * _V)
    front = coefficient / sp.sqrt(1 - 2 * a * _V)
    if not (n.is_Integer and n >= 0):
        if (lo, hi, b) != (0, sp.oo, 0) or not n > -1:
            raise NotInTable
        return front * (2 * narrow) ** (n / 2) * sp.gamma((n + 1) / 2) / (2 * sp.sqrt(sp.pi))
    beta, w = b.as_real_imag()
    if (lo, hi) == (-sp.oo, sp.oo):
        real, imaginary = coefficient.as_real_imag()
        angle = _beta * w * narrow
        wave = real * sp.cos(angle) - imaginary * sp.sin(angle)
        front, weight = front / coefficient, sp.exp((_beta**2 - w**2) * narrow / 2) * wave
    else:
        if w != 0 or not coefficient.is_real:
            raise NotInTable
        below = _below(narrow)
        weight = sp.exp(_beta**2 * narrow / 2) * (below(hi) - below(lo))
    return front * sp.diff(weight, _beta, int(n)).subs(_beta, beta)


def _below(variance: sp.Expr) -> Callable[[sp.Expr], sp.Expr]:
    """The probability that a Gaussian of mean beta V' and variance V' lies below a number."""

    def at(end: sp.Expr) -> sp.Expr:
        if not end.is_finite:
            return (1 + sp.sign(end)) / 2
        return (1 + sp.erf((end - _beta * variance) / sp.sqrt(2 * variance))) / 2

    return at
