"""Activations from a user's expression: checked, cut at their kinks, with closed forms where known."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import sympy as sp
from mpmath import mp, mpf

from analytic.activations.activation import Activation, activation, derivative, require_real
from analytic.activations.gaussian_average import closed_form
from analytic.expressions import quadrature
from analytic.expressions.arguments import InputError, RealNumber, listed
from analytic.expressions.backends import compile_mpmath
from analytic.expressions.expectation import Moment
from analytic.expressions.symbols import V, z

__all__ = ["activation_of"]

_PROBES = ("-2.5", "-0.75", "0", "0.5", "3")  # where phi must be a finite real number


def activation_of(expr: sp.Expr, kinks: Sequence[RealNumber] | None) -> Activation:
    """See `Activation.of`."""
    phi = _require_univariate(expr)
    _require_real(phi)
    if phi.is_polynomial(z):
        from analytic.activations import polynomial

        return polynomial(list(reversed(sp.Poly(phi, z).all_coeffs())))
    phi = phi.replace(sp.Heaviside, lambda x, *_: sp.Piecewise((1, x > 0), (0, True)))
    phi = sp.piecewise_fold(phi.rewrite((sp.Abs, sp.Max, sp.Min, sp.sign), sp.Piecewise))
    cuts = _kinks(phi) if kinks is None else _require_kinks(kinks)
    _require_moments(phi, cuts)
    parts = {"F": phi**2, "G": derivative(phi) ** 2, "G2": derivative(phi, 2) ** 2}
    forms = {name: _if_confirmed(closed_form(f, cuts), f, cuts) for name, f in parts.items()}
    # Floats use the quadrature all the same, because a closed form may cancel at large variance.
    F, G, G2 = (
        None if form is None else (form, Moment(parts[name], V, 0, cuts))
        for name, form in forms.items()
    )
    return activation(str(phi), phi, kinks=cuts, F=F, G=G, G2=G2)


def _require_kinks(kinks: Any) -> tuple[sp.Expr, ...]:
    """The places of kinks as real numbers in increasing order."""
    return tuple(sorted(require_real("a kink", place) for place in listed("kinks", kinks)))


def _require_univariate(expr: Any) -> sp.Expr:
    """The expression with z for its one variable."""
    if not isinstance(expr, sp.Expr):
        raise InputError(
            f"An activation must be a SymPy expression such as tanh(z), but {expr!r} "
            f"({type(expr).__name__}) was given: write it with sympy's functions."
        )
    if len(expr.free_symbols) != 1:
        names = ", ".join(sorted(map(str, expr.free_symbols))) or "none"
        raise InputError(
            f"An activation must depend on exactly one variable, but {expr} has {names}: "
            "substitute numbers for its parameters."
        )
    return expr.subs(expr.free_symbols.pop(), z)


def _require_real(phi: sp.Expr) -> None:
    """Refuse a phi that is complex or infinite at one of a few points."""
    for probe in _PROBES:
        value = phi.subs(z, sp.Rational(probe)).evalf()
        if not (value.is_real and value.is_finite):
            raise InputError(
                f"An activation must be real and finite on the line, but phi({probe}) = {value}."
            )


def _require_moments(phi: sp.Expr, cuts: Sequence[sp.Expr]) -> None:
    """Refuse a phi that jumps, has poles, or outgrows a Gaussian: E[phi^2] or E[phi'^2] is infinite."""
    f = compile_mpmath((z,), phi)
    with mp.workdps(15):
        for b in cuts:
            at, step = mp.mpmathify(b), mpf(10) ** -10
            if abs(f(at + step) - f(at - step)) > 1e-6:
                raise InputError(
                    f"phi = {phi} jumps at {b}, so E[phi'^2] is infinite: make it continuous."
                )
        for side in (1, -1):
            near, far = (mp.log(1 + abs(f(mpf(side * t)))) for t in (40, 80))
            if far > 3 * near > 30:
                raise InputError(
                    f"E[phi(z)^2] does not exist for phi = {phi}: it outgrows a Gaussian."
                )
        for order, body in enumerate((f, compile_mpmath((z,), derivative(phi)))):
            try:
                quadrature.moment(
                    partial(_square, body), mpf(1), kinks=[mp.mpmathify(b) for b in cuts]
                )
            except (ArithmeticError, ValueError):
                primes = "'" * order
                raise InputError(
                    f"E[phi{primes}(z)^2] was not found for phi = {phi}: it may be infinite, have poles, "
                    "or oscillate too fast."
                ) from None


def _square(body: Callable[[Any], Any], x: Any) -> Any:
    return body(x) ** 2


def _kinks(phi: sp.Expr) -> tuple[sp.Expr, ...]:
    """The finite ends of the branches of every Piecewise."""
    ends: set[sp.Expr] = set()
    for piecewise in phi.atoms(sp.Piecewise):
        for _, condition in piecewise.args:
            if condition not in (sp.true, sp.false):
                ends |= set(condition.as_set().boundary)
    return tuple(sorted(end for end in ends if end.is_finite))


def _if_confirmed(form: sp.Expr | None, f: sp.Expr, cuts: Sequence[sp.Expr]) -> sp.Expr | None:
    """A closed form of E[f(z)], or None if quadrature gives another value."""
    if form is None:
        return None
    function = compile_mpmath((z,), f)
    with mp.workdps(20):
        for probe in (sp.Rational(1, 3), sp.Integer(2)):
            value = form.subs(V, probe).evalf(20)
            other = quadrature.moment(
                function, mpf(probe.p) / probe.q, kinks=[mp.mpmathify(b) for b in cuts]
            )
            if not (value.is_real and abs(value - other) <= mpf(10) ** -15 * (1 + abs(other))):
                return None
    return form
