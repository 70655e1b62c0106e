r"""Linear Bayesian networks fitted to one example, whose posterior is known at every width.

With $\phi(z) = z$, $S = g$ is a Wishart matrix over n. The example sees only its entry along
$x_a$, of density $s^{\nu-1}e^{-ns/2-t/(2s)}$ with $\nu = (n-m)/2$ and $t = |y|^2/|x_a|^2$, while the
Schur complement across $x_a$ keeps its prior law, with $n-1$ degrees of freedom. Hence moments
along $x_a$ are ratios of Bessel functions, and volumes are those times ratios of gamma functions.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import sympy as sp
from mpmath import mp, mpf

from analytic.expressions.arguments import InputError, Number, exact, whole

__all__ = [
    "coefficient", "posterior_moment", "posterior_spread", "posterior_volume", "wishart_volume",
]  # fmt: skip

RATIO, POWER = sp.Symbol("t", nonnegative=True), sp.Symbol("power", real=True)


def wishart_volume(n: int, d: int) -> mpf:
    """E sqrt(det g) over the prior of a network of width n in d dimensions.

    n (it - 1) tends to -d^2/4. What is no whole number at least 1 is refused with an InputError.

    >>> from analytic.perturbation.linear import wishart_volume
    >>> round(float(1000 * (wishart_volume(1000, 2) - 1)), 6)
    -1.0
    """
    whole("n", n, 1)
    whole("d", d, 1)
    with _working_precision():
        return _root_determinant(n, d) * mpf(n) ** (-mpf(d) / 2)


def posterior_moment(n: int, t: Number, power: Number = 1, outputs: int = 1) -> mpf:
    """<s^power> of the entry s of g along the example, which is 1 at infinite width.

    n: the width.
    t: |y|^2/|x_a|^2 of the example, at least 0.
    power: any real number.
    outputs: how many the network has.

    Returned is an mpf. What is no number, and t = 0 for a width at which no posterior exists, is refused
    with an InputError.

    >>> from analytic.perturbation.linear import posterior_moment
    >>> round(float(posterior_moment(100, t=1)), 3), round(float(posterior_moment(100, t=2)), 3)
    (1.0, 1.01)
    """
    whole("n", n, 1)
    whole("outputs", outputs, 1)
    with _working_precision():
        t, power, order = _ratio(t), _mpf(POWER, power), mpf(n - outputs) / 2
        if t:
            return (t / n) ** (power / 2) * _bessel_ratio(order, power, mp.sqrt(n * t))
        if order <= 0 or order + power <= 0:
            raise InputError(
                f"A label of 0 needs n above the {outputs} outputs for a posterior to exist, "
                f"not n = {n} and the power {power}."
            )
        return (mpf(2) / n) ** power * mp.gammaprod([order + power], [order])


def posterior_volume(n: int, d: int, t: Number, outputs: int = 1) -> mpf:
    """<sqrt(det g)> in d dimensions; the other arguments are those of `posterior_moment`.

    n (it - 1) tends to (m/2)(t/m - 1) - d^2/4 for m outputs.

    >>> from analytic.perturbation.linear import posterior_volume
    >>> round(float(10**6 * (posterior_volume(10**6, 2, t=5) - 1)), 3)
    1.0
    """
    whole("d", d, 1)
    along = posterior_moment(n, t, mpf(1) / 2, outputs)
    with _working_precision():
        across = _root_determinant(n - 1, d - 1) * mpf(n) ** (-mpf(d - 1) / 2)
        return along * across


def posterior_spread(n: int, t: Number) -> mpf:
    """The variance of f(x) over the squared length of x across x_a; n and t as in `posterior_moment`.

    >>> from analytic.perturbation.linear import posterior_spread
    >>> round(float(posterior_spread(100, t=2)), 3)
    1.01
    """
    inverse = posterior_moment(n, t, -1)
    with _working_precision():
        return mpf(n - 1) / n + _ratio(t) * inverse / n


def coefficient(
    value: Callable[[int], mpf], start: int = 256, terms: int = 8, digits: int = 30
) -> mpf:
    """The limit of n(value(n) - 1), with `terms` - 1 powers of 1/n removed by doubling the width.

    value: a function of the width n that tends to 1.
    start: the smallest width.
    terms: how many widths are tried.
    digits: the working precision.

    What is no function, and no whole number at least 1, is refused with an InputError.

    >>> from analytic.perturbation.linear import coefficient, wishart_volume
    >>> round(float(coefficient(lambda n: wishart_volume(n, 4))), 9)
    -4.0
    """
    if not callable(value):
        raise InputError(f"value = {value!r} was given, but it must be a function of the width n.")
    whole("digits", digits, 1)
    whole("start", start, 1)
    whole("terms", terms, 1)
    with mp.workdps(digits + 10):
        row = [n * (value(n) - 1) for n in (start * 2**k for k in range(terms))]
        for k in range(1, terms):
            row = [(2**k * b - a) / (2**k - 1) for a, b in pairwise(row)]
        return row[0]


def _working_precision() -> Any:
    """Ten digits more than thirty, or than the current precision if that is higher."""
    return mp.workdps(max(30, mp.dps) + 10)


def _root_determinant(n: int, d: int) -> Any:
    """E sqrt(det(W^T W)) for n standard normal rows of length d: a telescoped product of gammas."""
    if n < d:
        return mpf(0)
    return mp.sqrt(2) ** d * mp.gammaprod([mpf(n + 1) / 2], [mpf(n - d + 1) / 2])


def _bessel_ratio(order: Any, step: Any, at: Any) -> Any:
    r"""$K_{\nu+p}(x)/K_\nu(x)$, the mean of $e^{pu}$ under $e^{\nu u - x\cosh u}$, by the trapezoidal rule.

    Its error is $e^{-2\pi^2\sigma^2/h^2}$ for a peak of width $\sigma$ and $e^{-\pi^2/h}$ for a flat top;
    library Bessel functions of order 10^6 take minutes, or give up.
    """
    peak, log_top = mp.asinh(order / at), mp.ln(10) * (mp.dps + 5)
    width = 1 / mp.sqrt(mp.hypot(order, at))
    h = min(width * mp.pi * mp.sqrt(2 / log_top), mp.pi**2 / log_top) / mpf("1.3")
    above = below = mpf(0)
    for way in (1, -1):
        k, mass = (0 if way > 0 else 1), mp.inf
        while mass > mp.eps**2 * below:
            u = way * k * h  # from the peak, where the exponent is written without cancellation
            mass = mp.exp(order * (u - mp.sinh(u)) - 2 * mp.hypot(order, at) * mp.sinh(u / 2) ** 2)
            above, below, k = above + mass * mp.exp(step * u), below + mass, k + 1
    return mp.exp(step * peak) * above / below


def _ratio(t: Any) -> Any:
    """|y|^2/|x_a|^2 at the working precision."""
    return _mpf(RATIO, t)


def _mpf(symbol: sp.Symbol, value: Any) -> Any:
    number = exact(symbol, value)
    return mpf(number.numerator) / number.denominator
