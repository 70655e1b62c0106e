r"""A neuron in full parameters (a, b, c) and in canonical parameters $(r, \theta)$, and conversions.

The angle is $\mathrm{atan2}(-b, a)$, in $(-\pi, \pi]$; $\arctan(-b/a)$ is the same only for a > 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import sympy as sp

from analytic.expressions.arguments import InputError, RealNumber
from analytic.expressions.symbols import alpha as ALPHA
from analytic.expressions.symbols import m as WIDTH
from analytic.relu_dynamics.exact_numbers import exact_or_symbolic, exact_real
from analytic.relu_dynamics.metric import ARGS, c_squared

__all__ = ["CanonicalNeuron", "Neuron", "jacobian", "require_neurons"]


@dataclass(frozen=True)
class CanonicalNeuron:
    r"""$\frac1m r\langle(x, 1), d(\theta)\rangle_+$, plotted at $(u, v) = |r|d(\theta)$."""

    r: sp.Expr
    theta: sp.Expr

    def __post_init__(self) -> None:
        for name in ("r", "theta"):
            object.__setattr__(self, name, exact_real(name, getattr(self, name)))

    @property
    def d(self) -> tuple[sp.Expr, sp.Expr]:
        return sp.cos(self.theta), sp.sin(self.theta)

    @property
    def t(self) -> tuple[sp.Expr, sp.Expr]:
        """The derivative of d by theta."""
        return -sp.sin(self.theta), sp.cos(self.theta)

    @property
    def plane(self) -> tuple[sp.Expr, sp.Expr]:
        """(u, v)."""
        return tuple(sp.Abs(self.r) * part for part in self.d)

    def full(self, delta: RealNumber, m: RealNumber, alpha: RealNumber) -> Neuron:
        """The one neuron with this r and theta whose c^2 - a^2 - b^2 is delta."""
        delta, m, alpha = (
            exact_real("delta", delta),
            exact_or_symbolic(WIDTH, m),
            exact_or_symbolic(ALPHA, alpha),
        )
        if self.r.is_zero and delta.is_positive:
            raise InputError(
                f"r = 0 and delta = {delta} were given, but with delta > 0 that is c = sqrt(delta) or "
                "-sqrt(delta) with a = b = 0: the sign of c is lost, so give (a, b, c) themselves."
            )
        at = dict(zip(ARGS, (delta, self.r, m, alpha), strict=True))
        square = c_squared.expr.subs(at, simultaneous=True)
        norm = sp.sqrt(square - delta)
        cos, sin = self.d
        return Neuron(norm * cos, -norm * sin, sp.sign(self.r) * sp.sqrt(square))


@dataclass(frozen=True)
class Neuron:
    r"""$\frac1\alpha c[ax-b]_+$."""

    a: sp.Expr
    b: sp.Expr
    c: sp.Expr

    def __post_init__(self) -> None:
        for name in ("a", "b", "c"):
            object.__setattr__(self, name, exact_real(name, getattr(self, name)))

    @property
    def delta(self) -> sp.Expr:
        """c^2 - a^2 - b^2, which gradient flow conserves."""
        return sp.expand(self.c**2 - self.a**2 - self.b**2)

    @property
    def knot(self) -> sp.Expr:
        """The input b/a where the ReLU has its kink; -v/u of the canonical form."""
        if self.a.is_zero:
            raise InputError("a = 0 was given, but such a neuron is constant and has no knot.")
        return self.b / self.a

    def canonical(self, m: RealNumber, alpha: RealNumber) -> CanonicalNeuron:
        m, alpha = exact_or_symbolic(WIDTH, m), exact_or_symbolic(ALPHA, alpha)
        if self.a.is_zero and self.b.is_zero:
            raise InputError(
                "a = b = 0 was given, but such a neuron has no angle: it has left the canonical form."
            )
        norm = sp.sqrt(self.a**2 + self.b**2)
        return CanonicalNeuron(m / alpha * self.c * norm, sp.atan2(-self.b, self.a))

    def rescaled(self, k: RealNumber) -> Neuron:
        """The same function with parameters (ka, kb, c/k), k > 0, and so a different delta."""
        k = exact_or_symbolic(sp.Symbol("k", positive=True), k)
        return Neuron(k * self.a, k * self.b, self.c / k)


def jacobian(neuron: Neuron, m: RealNumber, alpha: RealNumber) -> sp.Matrix:
    r"""The derivative $J = \partial(r, \theta)/\partial(a, b, c)$ of canonical parameters; $JJ^T$ is P.

    neuron: a Neuron. m, alpha: above 0, numbers or expressions.
    Returned is a matrix (2, 3). Refused with an InputError is a neuron with a = b = 0, which has no angle.

    >>> jacobian(Neuron(3, -4, 2), m=1, alpha=1)
    Matrix([
    [  6/5,  -8/5, 5],
    [-4/25, -3/25, 0]])
    """
    neuron.canonical(m, alpha)  # refuses neurons without an angle
    full = sp.symbols("a b c", real=True)
    reduced = Neuron(*full).canonical(m, alpha)
    at = dict(zip(full, (neuron.a, neuron.b, neuron.c), strict=True))
    return sp.Matrix([reduced.r, reduced.theta]).jacobian(full).subs(at, simultaneous=True)


def require_neurons(neurons: Sequence[CanonicalNeuron]) -> None:
    """Refuse an empty list."""
    if not neurons:
        raise InputError("m = 0 neurons were given, but at least one is needed.")
