r"""Random-feature and tangent kernels of univariate ReLU networks, for laws of (a, b) with closed forms.

Let $l\le h$ be the smaller and the larger of x and y. For a law that is symmetric under
(a, b) -> (-a, -b), $2K = \int_{u\le l}(l-u)(h-u)\,\nu_3\,du + \int_{u\ge h}(u-l)(u-h)\,\nu_3\,du$.
Both terms are positive, so that nothing cancels in floats.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import sympy as sp
from sympy import Abs, Max, Min, atan, atan2, pi

from analytic.expressions.arguments import InputError
from analytic.expressions.formula import Formula
from analytic.expressions.special import rectified_pair
from analytic.expressions.symbols import A, B, ec2, sa, sb, u, x, y
from analytic.splines.knot_intervals import KnotInterval, oo, total_density

__all__ = [
    "INITIALISATIONS", "Initialisation", "gaussian", "high", "low", "onesided", "signs",
    "symmetric", "uniform",
]  # fmt: skip

SOURCE = "Williams et al., (23), (27) and theorem 5"
low, high = Min(x, y), Max(x, y)


@dataclass(frozen=True)
class Initialisation:
    """A law of (a, b), described by averages over its hidden units [ax - b]_+.

    Those with closed forms are `INITIALISATIONS`: signs, uniform, gaussian and onesided. Users make
    their own with `Initialisation.of`. The formulas are `rf`, `both`, `ntk`, `slope`, `drift`, `metric`,
    `density` and `knots`.

    `kernel` is E[[ax-b]_+ [ay-b]_+], and `active` the probability that a unit is active at x and y.
    `count` and `weight` are the densities nu_1 and nu_3 of knots u; `knot_intervals` make up `weight`,
    where it has that form. `slopes` and `biases` are E[a^2] and E[b^2]. `kernel_drift` and
    `kernel_metric` are the derivatives of the kernel by y, and by x and y, at y = x. `kernel_slope` is
    the derivative of the kernel by x, if known in closed form. `stable` and `stable_active` are forms of
    `kernel` and `active` that are accurate in floats, where these differ.

    >>> from analytic.splines import INITIALISATIONS
    >>> law = INITIALISATIONS["onesided"]
    >>> law.rf.numpy(0.5, [0.25, 1.0]).round(6)
    array([0.013021, 0.104167])
    """

    name: str
    parameters: tuple[sp.Symbol, ...]
    kernel: sp.Expr
    active: sp.Expr
    count: sp.Expr
    weight: sp.Expr
    slopes: sp.Expr
    biases: sp.Expr
    kernel_drift: sp.Expr
    kernel_metric: sp.Expr
    knot_intervals: tuple[KnotInterval, ...] = field(default=(), repr=False)
    kernel_slope: sp.Expr | None = field(default=None, repr=False)
    stable: sp.Expr | None = field(default=None, repr=False)
    stable_active: sp.Expr | None = field(default=None, repr=False)

    @staticmethod
    def of(density: sp.Expr | str, name: str = "own") -> Initialisation:
        """A user's own law of (a, b), whose kernels are quadratures over knots.

        density: an expression in the symbols a and b, or a text of one, with the same value at (-a, -b)
            and the integral 1.
        name: of the law, in the names of its formulas.

        Returned is an `Initialisation`. A density that is negative, not symmetric, not normalised, or
        without second moments is refused with an InputError.

        >>> from analytic.splines import Initialisation
        >>> law = Initialisation.of("exp(-(a**2 + b**2)/2)/(2*pi)")
        >>> round(law.rf.numpy(0.0, 0.0), 6)  # half of E[b^2]
        0.5
        """
        from analytic.splines import user_law

        return user_law.initialisation_of(density, name)

    @cached_property
    def rf(self) -> Formula:
        """The random-feature kernel E[[ax-b]_+ [ay-b]_+]."""
        return self._formula("rf", (x, y), self.kernel, self.stable)

    @cached_property
    def both(self) -> Formula:
        """The probability that a unit is active at x and at y."""
        return self._formula("both", (x, y), self.active, self.stable_active)

    @cached_property
    def ntk(self) -> Formula:
        """The tangent kernel: `rf`, and the gradients by a and b times E[c^2] = ec2 of the readout."""
        faces = [
            kernel + ec2 * (1 + x * y) * active
            for kernel, active in (
                (self.kernel, self.active),
                (self.rf.floating, self.both.floating),
            )
        ]
        return self._formula("ntk", (x, y), *faces, more=(ec2,))

    @cached_property
    def slope(self) -> Formula:
        """The derivative of the random-feature kernel by x."""
        if self.kernel_slope is None:
            raise InputError(f"{self.name} has no closed slope: differentiate its kernel in torch.")
        return self._formula("slope", (x, y), self.kernel_slope)

    @cached_property
    def drift(self) -> Formula:
        """E[a [ax-b]_+], the derivative of the random-feature kernel by y at y = x."""
        return self._formula("drift", (x,), self.kernel_drift)

    @cached_property
    def metric(self) -> Formula:
        """E[a^2 1(ax > b)], the derivative of the random-feature kernel by x and y at y = x."""
        return self._formula("metric", (x,), self.kernel_metric)

    @cached_property
    def density(self) -> Formula:
        """nu_3(u), the density of knots weighted by a^2."""
        return self._formula("density", (u,), self.weight)

    @cached_property
    def knots(self) -> Formula:
        """nu_1(u), the probability density of knots."""
        return self._formula("knots", (u,), self.count)

    def _formula(
        self,
        what: str,
        points: tuple[sp.Symbol, ...],
        expr: sp.Expr,
        stable: sp.Expr | None = None,
        more: tuple[sp.Symbol, ...] = (),
    ) -> Formula:
        args = (*points, *self.parameters, *more)
        return Formula(f"spline.{self.name}.{what}", args, expr, citation=SOURCE, stable=stable)


def symmetric(
    name: str,
    parameters: tuple[sp.Symbol, ...],
    weight: Sequence[KnotInterval],
    count: Sequence[KnotInterval],
    slopes: sp.Expr,
    biases: sp.Expr,
) -> Initialisation:
    """A law that is symmetric under (a, b) -> (-a, -b) and b -> -b, from its intervals of knots."""

    def one_sided_kernel(l: sp.Expr, h: sp.Expr) -> sp.Expr:
        return sp.Add(*(one.kernel_integral(l, h) for one in weight)) / 2

    def slope_integral(l: sp.Expr, place: sp.Expr) -> sp.Expr:
        return sp.Add(*(one.slope_integral(l, place) for one in weight)) / 2

    def one_sided_count(l: sp.Expr) -> sp.Expr:
        return sp.Add(*(one.count(l) for one in count)) / 2

    return Initialisation(
        name,
        parameters,
        kernel=one_sided_kernel(low, high) + one_sided_kernel(-high, -low),
        active=one_sided_count(low) + one_sided_count(-high),
        count=total_density(count),
        weight=total_density(weight),
        slopes=slopes,
        biases=biases,
        kernel_drift=slopes * x / 2,  # one of (a, b) and (-a, -b) is active, and E[ab] = 0
        kernel_metric=slopes / 2,
        knot_intervals=tuple(weight),
        kernel_slope=slope_integral(low, y) - slope_integral(-high, -y),
    )


def signs() -> Initialisation:
    """a = +1 or -1 and b uniform on [-B, B]."""
    core = KnotInterval(-B, B, 1 / (2 * B))
    return symmetric("signs", (B,), [core], [core], sp.S.One, B**2 / 3)


def uniform() -> Initialisation:
    """a uniform on [-A, A] and b on [-B, B], as PyTorch has it for A = B = 1."""
    edge, tops = B / A, {4: A**3 / (8 * B), 2: A / (4 * B)}

    def knot_intervals(power: int) -> list[KnotInterval]:
        top, tail = tops[power], tops[power] * edge**power
        return [
            KnotInterval(-edge, edge, top),
            KnotInterval(edge, oo, tail, power),
            KnotInterval(-oo, -edge, tail, power),
        ]

    def density(power: int) -> sp.Expr:
        """As one expression without cases, so that automatic differentiation works at u = 0."""
        return tops[power] * (edge / Max(edge, Abs(u))) ** power

    law = symmetric("uniform", (A, B), knot_intervals(4), knot_intervals(2), A**2 / 3, B**2 / 3)
    return replace(law, weight=density(4), count=density(2))


def gaussian() -> Initialisation:
    """a and b normal with standard deviations sa and sb: the arc-cosine kernel of (sa x, sb)."""
    gram = [sa**2 * p * q + sb**2 for p, q in ((x, x), (x, y), (y, y))]
    inner, area = gram[1], sa * sb * Abs(x - y)
    angle = pi - Abs(atan(sa * x / sb) - atan(sa * y / sb))
    turn = atan2(area, -inner)  # the same angle
    width = sb**2 + sa**2 * u**2
    return Initialisation(
        "gaussian",
        (sa, sb),
        kernel=(angle * inner + area) / (2 * pi),
        active=angle / (2 * pi),
        count=sa * sb / (pi * width),
        weight=2 * sa**3 * sb**3 / (pi * width**2),
        slopes=sa**2,
        biases=sb**2,
        kernel_drift=sa**2 * x / 2,
        kernel_metric=sa**2 / 2,
        kernel_slope=sa**2 * (y * turn + sa * sb * x * Abs(x - y) / gram[0]) / (2 * pi),
        stable=rectified_pair(1, *gram, area**2),
        stable_active=turn / (2 * pi),
    )


def onesided() -> Initialisation:
    """a = 1 and b uniform on [0, 1]: no unit looks to the left."""
    core = KnotInterval(sp.S.Zero, sp.S.One, sp.S.One)
    return Initialisation(
        "onesided",
        (),
        kernel=core.kernel_integral(low, high),
        active=core.count(low),
        count=total_density([core]),
        weight=total_density([core]),
        slopes=sp.S.One,
        biases=sp.Rational(1, 3),
        kernel_drift=core.slope_integral(x, x),
        kernel_metric=core.count(x),
        knot_intervals=(core,),
        kernel_slope=core.slope_integral(low, y),
    )


INITIALISATIONS = {one.name: one for one in (signs(), uniform(), gaussian(), onesided())}
