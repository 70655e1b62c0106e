r"""Normalised Hermite polynomials, whose kernel at unit variances is $k_{xy}^n$."""

from __future__ import annotations

import sympy as sp
from sympy import S, factorial, sqrt

from analytic.activations.activation import Activation, activation, parameter
from analytic.expressions.arguments import InputError, Number
from analytic.expressions.symbols import V, kxx, kxy, kyy, z

__all__ = ["hermite"]


def hermite(n: Number) -> Activation:
    r"""$He_n(z)/\sqrt{n!}$ (probabilists'), n >= 0; the derivative is sqrt(n) times that of degree n - 1.

    Another degree is refused with an InputError.

    >>> from analytic.activations import hermite
    >>> round(hermite(3).kernel(1.0, 0.5, 1.0), 12)
    0.125
    """
    n = parameter("n", n, "a whole number at least 0")
    if not (n.is_Integer and n >= 0):
        raise InputError(f"hermite needs a whole degree n >= 0, but n = {n} was given.")
    return activation(
        "hermite",
        sp.hermite_prob_poly(n, z) / sqrt(factorial(n)),
        kernel=_pair(n),
        slope=n * _pair(n - 1),
        F=_one(n),
        G=n * _one(n - 1),
        G2=n * (n - 1) * _one(n - 2),
    )


def _pair(n: sp.Integer) -> sp.Expr:
    r"""$\sum_k \frac{n!}{(k!)^2 4^k (n-2k)!} [(k_{xx}-1)(k_{yy}-1)]^k k_{xy}^{n-2k}$.

    It rests on $He_n(\sigma t) = \sum_k \frac{n!}{k!(n-2k)!} \big(\frac{\sigma^2-1}{2}\big)^k
    \sigma^{n-2k} He_{n-2k}(t)$ for standard normal t. By Cauchy and Schwarz the absolute values of the
    terms add up to at most $\sqrt{F(k_{xx})F(k_{yy})}$, so floats lose no digits as long as the powers
    are not expanded.
    """
    excess = (kxx - 1) * (kyy - 1)
    return sp.Add(
        *(
            factorial(n) / (factorial(k) ** 2 * 4**k * factorial(n - 2 * k))
            * excess**k * kxy ** (n - 2 * k)
            for k in range(n // 2 + 1)
        )
    )  # fmt: skip


def _one(n: sp.Integer) -> sp.Expr:
    """E[phi^2]: the kernel at coincident points, where no term is negative."""
    return _pair(n).subs({kxx: V, kyy: V, kxy: V}) if n >= 0 else S.Zero
