r"""Rotations of the sphere: kernels of SO(3)-convolutional networks on zonal signals.

With filters on the whole sphere and the whole group the theorem on augmentation holds for SO(3) too, and the
kernels are means of a perceptron's over rotations. For $f = \sum_l f_l\sqrt{2l+1}\,P_l(z)$ its first layer
has $K(\beta) = \sigma_w^2\sum_l f_lf'_l P_l(\cos\beta) + \sigma_b^2$, where $\beta$ is the angle by which a
rotation moves the pole, of density $\frac12\sin\beta$.
"""

from __future__ import annotations

from collections.abc import Sequence

import sympy as sp
from mpmath import mp

from analytic.activations.activation import Activation, require_activation
from analytic.equivariant.actions import exact_number
from analytic.equivariant.network import dense
from analytic.expressions.arguments import InputError, RealNumber, listed
from analytic.expressions.backends import compile_mpmath

__all__ = ["zonal_kernels"]


def zonal_kernels(
    activations: Sequence[Activation],
    f: Sequence[RealNumber],
    other: Sequence[RealNumber],
    sigma_w: RealNumber = 1,
    sigma_b: RealNumber = 0,
) -> tuple[mp.mpf, mp.mpf]:
    r"""NNGP and NTK after lifting from the sphere, a nonlinearity and an SO(3) convolution for each
    activation, and pooling, at the working precision of mpmath.

    activations: at least one Activation. f, other: coefficients f_0, f_1, ... of two zonal signals, as many
    of each. sigma_w, sigma_b: standard deviations of weights and biases. All are exact numbers; others are
    refused with an InputError.

    >>> from analytic.activations import relu
    >>> [mp.nstr(value, 10) for value in zonal_kernels([relu], [0, 1], [0, 1])]  # sqrt(3) z: 3/16 and 1/4
    ['0.1875', '0.25']
    """
    acts = [require_activation(a) for a in listed("activations", activations, "a list")]
    one = [_constant("f", value) for value in listed("f", f)]
    two = [_constant("other", value) for value in listed("other", other)]
    if not acts or not one or len(one) != len(two):
        raise InputError(
            f"{len(acts)} activations and signals of {len(one)} and {len(two)} coefficients were given: give "
            "at least one activation, and as many coefficients of each signal."
        )
    weight, bias = _constant("sigma_w", sigma_w) ** 2, _constant("sigma_b", sigma_b) ** 2
    c = sp.Symbol("c", real=True)

    def first(a: Sequence[sp.Expr], b: Sequence[sp.Expr], at: sp.Expr) -> sp.Expr:
        degrees = enumerate(zip(a, b, strict=True))
        return weight * sp.Add(*(x * y * sp.legendre(k, at) for k, (x, y) in degrees)) + bias

    pair = dense(first(one, one, sp.S.One), first(one, two, c), first(two, two, sp.S.One))
    for act in acts:
        pair = pair.through(act).convolved((0,), weight, bias)
    means = []
    for expr in pair.pooled():
        value = compile_mpmath((c,), expr)
        # Rounding may carry the angle of two preactivations beyond 0, where their kernel is complex.
        integrand = lambda t, value=value: mp.sin(t) / 2 * mp.re(value(mp.cos(t)))  # noqa: E731
        means.append(mp.quad(integrand, [0, mp.pi / 2, mp.pi]))
    return means[0], means[1]


def _constant(name: str, value: RealNumber) -> sp.Expr:
    number = exact_number(name, value)
    if not number.is_number:
        raise InputError(f"{name} = {value} was given, but {name} must be a number here.")
    return number
