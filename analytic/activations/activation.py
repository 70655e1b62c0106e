"""What geometry needs to know of a nonlinearity: its Gaussian moments, and how they were found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from numbers import Number as AnyNumber

import sympy as sp
from mpmath import mp

from analytic.expressions.angular_average import AngularAverage
from analytic.expressions.arguments import (
    Domain,
    InputError,
    Number,
    OutsideDomain,
    RealNumber,
    whole,
)
from analytic.expressions.expectation import Moment, PairMoment
from analytic.expressions.formula import Formula
from analytic.expressions.symbols import V, kxx, kxy, kyy, z

__all__ = [
    "GRAM", "PARTS", "PSD", "Activation", "activation", "affine", "derivative", "parameter",
    "require_activation", "require_positive", "require_real", "symbols_of",
]  # fmt: skip

GRAM = (kxx, kxy, kyy)
AVERAGES = (Moment, PairMoment, AngularAverage)  # integrals left to quadrature
PARTS = ("kernel", "slope", "F", "G", "G2")
PSD = Domain((sp.Le(kxy**2, kxx * kyy),))
Form = RealNumber | tuple[sp.Expr, sp.Expr | None]  # an expression, or a pair (textbook, stable)


@dataclass(frozen=True)
class Activation:
    r"""phi and its Gaussian expectations.

    F, G, G2 are $E[\phi^2], E[\phi'^2], E[\phi''^2]$ for z ~ N(0, V), with phi'' taken between
    kinks; kernel and slope are $E[\phi(u)\phi(v)], E[\phi'(u)\phi'(v)]$. A part that diverges is
    None, and `absent` says why. `log_derivative`, if not None, is $V G'/G$ written for floats.

    Those with closed forms are in `analytic.activations`; users make their own with `Activation.of`.

    >>> from analytic.activations import erf, relu
    >>> erf.F(V=[0.0, 1.0]).round(6)
    array([0.      , 0.333333])
    >>> relu.parts.keys() ^ erf.parts.keys()  # E[phi''^2] of a ReLU diverges
    {'G2'}
    """

    name: str
    phi: Formula
    kernel: Formula
    slope: Formula | None
    F: Formula
    G: Formula | None
    G2: Formula | None
    kinks: tuple[sp.Expr, ...] = ()
    log_derivative: sp.Expr | None = None
    absent: tuple[tuple[str, str], ...] = ()

    @property
    def parameters(self) -> tuple[sp.Symbol, ...]:
        return self.phi.args[1:]

    @property
    def parts(self) -> dict[str, Formula]:
        """The expectations that exist."""
        return {p: getattr(self, p) for p in PARTS if getattr(self, p) is not None}

    def require(self, part: str) -> Formula:
        """An expectation by name: kernel, slope, F, G or G2.

        One that diverges is refused with an InputError that says why, and so is another name.

        >>> from analytic.activations import relu
        >>> relu.require("G").expr
        1/2
        """
        if not isinstance(part, str) or part not in PARTS:
            raise InputError(f"{part!r} is no expectation: give one of {', '.join(PARTS)}.")
        if part not in self.parts:
            reason = dict(self.absent)[part]
            raise InputError(
                f"{self.name} has no finite {part}, for {reason}: take a smoother one."
            )
        return self.parts[part]

    @property
    def closed_forms(self) -> tuple[str, ...]:
        """The names of the expectations that have a closed form; the others are quadratures.

        >>> from analytic.activations import elu
        >>> elu.closed_forms
        ('F', 'G', 'G2')
        """
        return tuple(p for p, f in self.parts.items() if not f.expr.has(*AVERAGES))

    def __str__(self) -> str:
        closed = ", ".join(self.closed_forms) or "none"
        quadrature = ", ".join(p for p in self.parts if p not in self.closed_forms) or "none"
        return f"phi(z) = {self.phi.expr}; closed forms: {closed}; quadrature: {quadrature}"

    def _repr_latex_(self) -> str:
        return rf"$\displaystyle \phi(z) = {sp.latex(self.phi.expr)}$"

    def derivative(self, order: int = 1) -> sp.Expr:
        """The derivative of phi of an order between its kinks, an expression in z.

        An order that is no whole number at least 0 is refused with an InputError.

        >>> from analytic.activations import sine
        >>> sine(2).derivative(2)
        -4*sin(2*z)
        """
        return derivative(self.phi.expr, whole("order", order, 0))

    def fixed(self, **values: Number) -> Activation:
        """The same with parameters set to numbers, which are read exactly.

        An unknown name, and a number that the parameter does not take, is refused with an InputError.

        >>> from analytic.activations import monomial
        >>> monomial().fixed(q=3).F.expr
        V**3
        """
        names = [parameter.name for parameter in self.parameters]
        for name in values:
            if name not in names:
                known = f": its parameters are {', '.join(names)}" if names else " to fix"
                raise InputError(f"{self.name} has no argument {name}{known}.")
        phi, parts, absent = self.phi.at(**values), {}, dict(self.absent)
        for part, formula in self.parts.items():
            try:
                parts[part] = formula.at(**values)
            except OutsideDomain as refusal:  # the expectation diverges at these values
                parts[part], absent[part] = None, str(refusal)
        by_symbol = {p: sp.sympify(values[p.name]) for p in self.parameters if p.name in values}
        eps = None if self.log_derivative is None else self.log_derivative.subs(by_symbol)
        absences = tuple(absent.items())
        return replace(self, name=phi.name, phi=phi, log_derivative=eps, absent=absences, **parts)

    def scaled(self, factor: RealNumber) -> Activation:
        r"""$\phi(c z)$: an erf, a sine or a Gaussian of any width, with all its closed forms.

        What is no real number other than 0 is refused with an InputError.

        >>> import sympy
        >>> from analytic.activations import erf
        >>> erf.scaled(sympy.sqrt(2)).phi.expr
        erf(z)
        """
        c = parameter("factor", factor, "a real number other than 0")
        if not (c.is_real and c.is_finite and c.is_nonzero):
            raise InputError(f"factor = {c} was given, but it must be a real number other than 0.")
        variances = {k: c**2 * k for k in (V, *GRAM)}
        fronts = {"kernel": sp.S.One, "slope": c**2, "F": sp.S.One, "G": c**2, "G2": c**4}

        def rescaled(formula: Formula, values: dict[sp.Symbol, sp.Expr], front: sp.Expr) -> Formula:
            stable = None if formula.stable is None else front * formula.stable.subs(values)
            expr = front * formula.expr.subs(values)
            return replace(formula, name=f"{formula.name}({c} z)", expr=expr, stable=stable)

        eps = None if self.log_derivative is None else self.log_derivative.subs(variances)
        return replace(
            self,
            name=f"{self.name}({c} z)",
            phi=rescaled(self.phi, {z: c * z}, sp.S.One),
            kinks=tuple(b / c for b in self.kinks),
            log_derivative=eps,
            **{part: rescaled(f, variances, fronts[part]) for part, f in self.parts.items()},
        )

    @staticmethod
    def of(expr: sp.Expr, kinks: Sequence[RealNumber] | None = None) -> Activation:
        """The activation of a user's own expression in one variable, such as tanh(z).

        expr: a SymPy expression, real and finite on the line, continuous, with E[phi^2] and E[phi'^2].
        kinks: where phi' jumps; None looks for them.

        F, G and G2 have closed forms where phi, phi' or phi'' is made of powers, exponentials of
        quadratics, sines and cosines (if there are kinks, no sines and cosines); the others are
        quadratures, and `closed_forms` says which. In floats the expression is computed as it
        stands, so write it such that it does not overflow, as 1/(1 + exp(-z)).

        Returned is an Activation, of which every formula of geometry follows. Another expression is refused
        with an InputError that says what it lacks.

        >>> import sympy
        >>> from analytic import Activation, nngp
        >>> z = sympy.Symbol("z")
        >>> wavelet = Activation.of(z * sympy.exp(-(z**2)))
        >>> wavelet.closed_forms
        ('F', 'G', 'G2')
        >>> nngp.ricci(wavelet)(d=2, sigma=1.0, zeta=0.5, r=[0.5, 1.0]).shape
        (2,)
        """
        from analytic.activations.user_defined import activation_of

        return activation_of(expr, kinks)


def derivative(phi: sp.Expr, order: int = 1) -> sp.Expr:
    """d^n phi / dz^n between kinks: branch by branch for a Piecewise, with q z^q/z written q z^(q-1)."""
    if isinstance(phi, sp.Piecewise):
        return sp.Piecewise(*((derivative(value, order), where) for value, where in phi.args))
    for _ in range(order):
        phi = sp.powsimp(sp.diff(phi, z))
    return phi


def require_positive(name: str, value: object) -> sp.Expr:
    """A parameter as an expression: an open symbol, or a finite number above 0."""
    expr = parameter(name, value, "a number above 0")
    if expr.is_number and not expr.is_positive:
        raise InputError(f"{name} = {value} was given, but {name} must be a number above 0.")
    return expr


def require_real(name: str, value: object) -> sp.Expr:
    """A finite real number as an exact expression; a float is the fraction that it stores."""
    number = parameter(name, value, "a finite real number")
    if not number.is_number:
        raise InputError(f"{name} = {value} was given, but {name} must be a finite real number.")
    return sp.Rational(number) if number.is_Float else number


def parameter(name: str, value: object, need: str) -> sp.Expr:
    """A finite real number, or an expression with open symbols; a text must be a number, such as "1/3"."""
    refusal = InputError(f"{name} = {value!r} was given, but {name} must be {need}.")
    if hasattr(value, "item") and not getattr(value, "ndim", 0):  # scalars of numpy and torch
        value = value.item()
    if isinstance(value, bool) or not isinstance(value, AnyNumber | str | sp.Expr | mp.mpf):
        raise refusal
    try:
        expr = sp.sympify(value, rational=isinstance(value, str))
    except (sp.SympifyError, TypeError):
        raise refusal from None
    if not isinstance(expr, sp.Expr) or (isinstance(value, str) and not expr.is_number):
        raise refusal
    if expr.is_number and not (expr.is_real and expr.is_finite):
        raise refusal
    return expr


def require_activation(act: object) -> Activation:
    """Refuse what is no Activation, such as the name of one."""
    if not isinstance(act, Activation):
        raise InputError(
            f"act = {act!r} was given, but act must be an Activation: give one of "
            "analytic.activations, such as erf, or make one with Activation.of."
        )
    return act


def symbols_of(value: RealNumber) -> tuple[sp.Symbol, ...]:
    """The free symbols of a parameter, which become arguments of the formulas."""
    return tuple(sorted(sp.sympify(value).free_symbols, key=str))


def activation(
    name: str,
    phi: RealNumber,
    *,
    parameters: tuple[sp.Symbol, ...] = (),
    kinks: tuple[RealNumber, ...] = (),
    log_derivative: sp.Expr | None = None,
    phi_stable: sp.Expr | None = None,
    domains: Mapping[str, tuple[sp.Basic, ...]] | None = None,
    absent: Mapping[str, str] | None = None,
    kernel: Form | None = None,
    slope: Form | None = None,
    F: Form | None = None,
    G: Form | None = None,
    G2: Form | None = None,
) -> Activation:
    """An Activation from its closed forms: the expectations whose form is None become quadratures.

    Each of kernel, slope, F, G, G2 may be an expression or a pair (textbook, stable);
    `domains` holds conditions on the parameters of each, `absent` why some of them diverge.
    """
    phi, domains, absent = sp.sympify(phi), domains or {}, absent or {}
    if stray := phi.free_symbols - {z, *parameters}:
        raise InputError(f"The activation {phi} depends on {stray}: name them in `parameters`.")
    kinks = tuple(map(sp.sympify, kinks))
    first = cache(partial(derivative, phi))  # computed only if a quadrature needs it
    closed_forms = {"kernel": kernel, "slope": slope, "F": F, "G": G, "G2": G2}
    quadratures = {
        "kernel": lambda: PairMoment(phi, phi, *GRAM, kinks),
        "slope": lambda: PairMoment(first(), first(), *GRAM, kinks),
        "F": lambda: Moment(phi**2, V, 0, kinks),
        "G": lambda: Moment(first() ** 2, V, 0, kinks),
        "G2": lambda: Moment(derivative(phi, 2) ** 2, V, 0, kinks),
    }

    def formula(part: str) -> Formula:
        form = quadratures[part]() if closed_forms[part] is None else closed_forms[part]
        textbook, stable = form if isinstance(form, tuple) else (form, None)
        two_point = part in ("kernel", "slope")
        args = (*GRAM, *parameters) if two_point else (V, *parameters)
        domain = Domain((*(PSD.conditions if two_point else ()), *domains.get(part, ())))
        return Formula(f"{name}.{part}", args, sp.sympify(textbook), domain, stable=stable)

    return Activation(
        name=name,
        phi=Formula(name, (z, *parameters), phi, stable=phi_stable),
        kernel=formula("kernel"),
        slope=None if "slope" in absent else formula("slope"),
        F=formula("F"),
        G=None if "G" in absent else formula("G"),
        G2=None if "G2" in absent else formula("G2"),
        kinks=kinks,
        log_derivative=log_derivative,
        absent=tuple(absent.items()),
    )


def affine(act: Activation, scale: RealNumber = 1, shift: RealNumber = 0) -> Activation:
    r"""$a\phi(z) + b$, as in `affine(erf.scaled(c), a, b)`, with the closed forms of phi.

    With a shift, F and the kernel contain the mean $E[\phi]$, which is 0 for an odd phi and else a
    one-point quadrature. Where a phi + b nearly vanishes, as cos(z) - 1 at small variance, the
    sum loses digits in floats. A scale of 0, and what is no number, is refused with an InputError.

    >>> from analytic.activations import affine, erf
    >>> affine(erf, scale=2, shift=1).phi.expr
    2*erf(sqrt(2)*z/2) + 1
    """
    act = require_activation(act)
    a, b = require_real("scale", scale), require_real("shift", shift)
    if a == 0:
        raise InputError("scale = 0 was given, but then phi is constant: take another number.")
    phi = act.phi.expr
    odd = b == 0 or sp.expand(phi + phi.subs(z, -z)) == 0

    def mean(variance: sp.Symbol) -> sp.Expr:
        return sp.S.Zero if odd else Moment(act.phi.floating, variance, 0, act.kinks)

    def mapped(formula: Formula, more: sp.Expr = sp.S.Zero, front: sp.Expr = a**2) -> Formula:
        stable = None if formula.stable is None else _mapped(formula.stable, front, more)
        return replace(
            formula, name=f"affine({formula.name}, {a}, {b})", expr=_mapped(formula.expr, front, more),
            stable=stable,
        )  # fmt: skip

    return replace(
        act,
        name=f"affine({act.name}, {a}, {b})",
        phi=mapped(act.phi, b, a),
        kernel=mapped(act.kernel, a * b * (mean(kxx) + mean(kyy)) + b**2),
        slope=None if act.slope is None else mapped(act.slope),
        F=mapped(act.F, 2 * a * b * mean(V) + b**2),
        G=None if act.G is None else mapped(act.G),
        G2=None if act.G2 is None else mapped(act.G2),
    )


def _mapped(expr: sp.Expr, front: sp.Expr, more: sp.Expr) -> sp.Expr:
    """front expr + more; branch by branch, so that a Piecewise remains the outermost node."""
    if isinstance(expr, sp.Piecewise):
        return sp.Piecewise(*((_mapped(value, front, more), where) for value, where in expr.args))
    return front * expr + more
