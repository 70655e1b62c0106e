r"""Activations with closed-form Gaussian moments: the only closed forms typed by hand in the suite.

Convention: `erf` is erf(z/sqrt 2), `monomial(q)` is z^q/sqrt((2q-1)!!), `relu_power(q)` is
max(0, z)^q, `gelu` is exact, z Phi(z). A pair (textbook, stable) gives both faces.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sympy as sp
from sympy import Abs, Rational, S, asin, atan2, cos, cosh, exp, factorial, gamma, log, pi, sin, sinh, sqrt

from analytic.activation import Activation, activation
from analytic.domain import InputError
from analytic.expectation import Moment
from analytic.special import bernoulli, expm1, gram_det, monomial_pair, rectified_pair
from analytic.symbols import V, a, exponent, kxx, kxy, kyy, q, w, z

_GRAM = (kxx, kxy, kyy)
_D = (1 + kxx) * (1 + kyy) - kxy**2
_stable_D = 1 + kxx + kyy + gram_det(kxx, kyy, kxy)  # kxx kyy - kxy^2 >= 0 without cancellation
_half = S.Half


def _symbols(value: Any) -> tuple[sp.Symbol, ...]:
    return tuple(sorted(sp.sympify(value).free_symbols, key=str))


erf = activation(
    "erf",
    sp.erf(z / sqrt(2)),
    kernel=(2 / pi * asin(kxy / sqrt((1 + kxx) * (1 + kyy))), 2 / pi * atan2(kxy, sqrt(_stable_D))),
    slope=(2 / (pi * sqrt(_D)), 2 / (pi * sqrt(_stable_D))),
    F=(2 / pi * asin(V / (1 + V)), 2 / pi * atan2(V, sqrt(1 + 2 * V))),
    G=2 / (pi * sqrt(1 + 2 * V)),
    G2=2 * V / (pi * (1 + 2 * V) ** Rational(3, 2)),
)

gaussian = activation(
    "gaussian",
    exp(-(z**2) / 2),
    kernel=(1 / sqrt(_D), 1 / sqrt(_stable_D)),
    slope=(kxy / _D ** Rational(3, 2), kxy / _stable_D ** Rational(3, 2)),
    F=1 / sqrt(1 + 2 * V),
    G=V / (1 + 2 * V) ** Rational(3, 2),
    G2=(1 + 2 * V + 3 * V**2) / (1 + 2 * V) ** Rational(5, 2),
)


def _gelu() -> Activation:
    a, b, c = kxx, kyy, kxy
    rest = (a * b - c**2 + c**2 / (1 + a) + c**2 / (1 + b)) / sqrt(_D)
    near = (gram_det(a, b, c) + c**2 / (1 + a) + c**2 / (1 + b)) / sqrt(_stable_D)
    angle = atan2(sqrt(_stable_D), -c)
    m = sqrt(1 + a) * sqrt(1 + b)
    # Far out and nearly opposite, the two terms cancel; this is their sum in the small angle.
    far = (
        m * (sin(angle) - angle * cos(angle))
        + 1 / sqrt(_stable_D)
        - sin(angle) * (sqrt((1 + b) / (1 + a)) + sqrt((1 + a) / (1 + b)))
    )
    opposite = sp.And(c < 0, m > 4)
    kernel = c / 4 + c / (2 * pi) * asin(c / sqrt((1 + a) * (1 + b))) + rest / (2 * pi)
    slope = (
        Rational(1, 4)
        + asin(c / sqrt((1 + a) * (1 + b))) / (2 * pi)
        + c / (2 * pi * sqrt(_D)) * (1 / (1 + a) + 1 / (1 + b) + 1 / _D)
    )
    stable_slope = angle + c / sqrt(_stable_D) * (1 / (1 + a) + 1 / (1 + b) + 1 / _stable_D)
    bend = V / ((1 + V) * sqrt(1 + 2 * V))
    root = (1 + 2 * V) ** Rational(3, 2)
    angle_G = Rational(1, 4) + atan2(V, sqrt(1 + 2 * V)) / (2 * pi)
    return activation(
        "gelu",
        z * (1 + sp.erf(z / sqrt(2))) / 2,
        kernel=(kernel, sp.Piecewise((far, opposite), (c * angle + near, True)) / (2 * pi)),
        slope=(slope, stable_slope / (2 * pi)),
        F=(
            V / 4 + V / (2 * pi) * asin(V / (1 + V)) + V * bend / pi,
            V * (angle_G + bend / pi),
        ),
        G=(
            Rational(1, 4) + (asin(V / (1 + V)) + 2 * bend + V / root) / (2 * pi),
            angle_G + (2 * bend + V / root) / (2 * pi),
        ),
        G2=(4 + 12 * V + 11 * V**2) / (2 * pi * (1 + 2 * V) ** Rational(5, 2)),
    )


gelu = _gelu()


def _elu() -> Activation:
    def below(x: sp.Expr) -> sp.Expr:
        return sp.erfc(x / sqrt(2)) / 2

    def left(value: sp.Expr) -> Moment:
        return Moment(sp.Piecewise((0, z > 0), (value, True)), V, 0, (0,))

    tail = exp(2 * V) * below(2 * sqrt(V))
    return activation(
        "elu",
        sp.Piecewise((z, z > 0), (expm1(z), True)),
        kinks=(0,),
        F=(
            V / 2 + _half + tail - 2 * exp(V / 2) * below(sqrt(V)),
            V / 2 + left(expm1(z) ** 2),
        ),
        G=(_half + tail, 1 + left(expm1(2 * z))),
        G2=(tail, left(exp(2 * z))),
    )


elu = _elu()


def sine(w: Any = w) -> Activation:
    """sin(w z)."""
    w = sp.sympify(w)
    mean, size, decay = w**2 * (kxx + kyy) / 2, Abs(kxy), exp(-2 * w**2 * V)
    return activation(
        "sine",
        sin(w * z),
        parameters=_symbols(w),
        kernel=(
            exp(-mean) * sinh(w**2 * kxy),
            -sp.sign(kxy) * exp(w**2 * size - mean) * expm1(-2 * w**2 * size) / 2,
        ),
        slope=(
            w**2 * exp(-mean) * cosh(w**2 * kxy),
            w**2 * (exp(w**2 * kxy - mean) + exp(-(w**2) * kxy - mean)) / 2,
        ),
        F=((1 - decay) / 2, -expm1(-2 * w**2 * V) / 2),
        G=(w**2 * (1 + decay) / 2, w**2 * (1 + expm1(-2 * w**2 * V) / 2)),
        G2=(w**4 * (1 - decay) / 2, -(w**4) * expm1(-2 * w**2 * V) / 2),
    )


def cosine(w: Any = w) -> Activation:
    """cos(w z): the even partner of the sine, so their kernels and slopes change places."""
    odd, decay = sine(w), exp(-2 * w**2 * V)
    return activation(
        "cosine",
        cos(w * z),
        parameters=_symbols(w),
        kernel=(odd.slope.expr / w**2, odd.slope.stable / w**2),
        slope=(odd.kernel.expr * w**2, odd.kernel.stable * w**2),
        F=(1 + decay) / 2,
        G=(w**2 * (1 - decay) / 2, -(w**2) * expm1(-2 * w**2 * V) / 2),
        G2=w**4 * (1 + decay) / 2,
        elasticity=bernoulli(0, 2 * w**2 * V),
    )


def exponential(w: Any = w) -> Activation:
    """exp(w z)."""
    w = sp.sympify(w)
    kernel = exp(w**2 * (kxx + 2 * kxy + kyy) / 2)
    F = exp(2 * w**2 * V)
    return activation(
        "exponential",
        exp(w * z),
        parameters=_symbols(w),
        kernel=kernel,
        slope=w**2 * kernel,
        F=F,
        G=w**2 * F,
        G2=w**4 * F,
    )


def snake(a: Any = a) -> Activation:
    """z + sin(a z)^2 / a."""
    a = sp.sympify(a)
    c, size = 2 * a**2, Abs(kxy)
    waves = 1 - exp(-c * kxx) - exp(-c * kyy) + exp(-c * (kxx + kyy)) * cosh(2 * c * kxy)
    both = expm1(-c * kxx) * expm1(-c * kyy)
    cross = exp(c * (2 * size - kxx - kyy)) * expm1(-2 * c * size) ** 2 / 2
    rippled = (Rational(3, 2) - 2 * exp(-c * V) + exp(-4 * c * V) / 2) / (4 * a**2)
    wave = sine(2 * a)
    return activation(
        "snake",
        z + sin(a * z) ** 2 / a,
        parameters=_symbols(a),
        kernel=(kxy + waves / (4 * a**2), kxy + (both + cross) / (4 * a**2)),
        slope=(1 + wave.kernel.expr, 1 + wave.kernel.stable),
        F=(V + rippled, V + (expm1(-c * V) ** 2 + expm1(-2 * c * V) ** 2 / 2) / (4 * a**2)),
        G=(Rational(3, 2) - exp(-4 * c * V) / 2, 1 - expm1(-4 * c * V) / 2),
        G2=c * (1 + exp(-4 * c * V)),
    )


def monomial(q: Any = q) -> Activation:
    """z^q / sqrt((2q-1)!!) for whole q >= 1."""
    q = _degree(q)
    norm = 2**q * gamma(q + _half) / sqrt(pi)  # (2q-1)!!
    stable_root = exp((q * log(2) + sp.loggamma(q + _half) - log(pi) / 2) / 2)
    front = q**2 / (2 * q - 1)
    bend = front * (q - 1) ** 2 / (2 * q - 3)
    return activation(
        "monomial",
        z**q / sqrt(norm),
        parameters=_symbols(q),
        kernel=(_monomial_textbook(q), monomial_pair(q, *_GRAM)),
        slope=(front * _monomial_textbook(q - 1), front * monomial_pair(q - 1, *_GRAM)),
        F=V**q,
        G=front * V ** (q - 1),
        G2=sp.Piecewise((0, sp.Eq(q, 1)), (bend * V ** (q - 2), True)),
        **({} if q.is_number else {"phi_stable": z**q / stable_root}),
    )


def _monomial_textbook(n: sp.Expr) -> sp.Expr:
    """E[u^n v^n] / (2n-1)!!: the even or the odd Mehler sum, (C.40) and (C.43)."""
    if n.is_number:
        return monomial_pair(n, *_GRAM)
    rho, sign = kxy / sqrt(kxx * kyy), (-1) ** n
    even = gamma((n + 1) / 2) ** 2 * sp.hyper((-n / 2, -n / 2), (_half,), rho**2)
    odd = 2 * rho * gamma(n / 2 + 1) ** 2 * sp.hyper(
        ((1 - n) / 2, (1 - n) / 2), (Rational(3, 2),), rho**2
    )
    body = ((1 + sign) * even + (1 - sign) * odd) / (2 * sqrt(pi) * gamma(n + _half))
    return sp.Piecewise(
        (1, sp.Eq(n, 0)), (0, sp.Eq(kxx * kyy, 0)), ((kxx * kyy) ** (n / 2) * body, True)
    )


def relu_power(q: Any = exponent) -> Activation:
    """max(0, z)^q for any q > 1/2; q = 1 is the ReLU, whose metric is flat."""
    q = sp.sympify(q)
    if q.is_number and not q > _half:
        raise InputError(f"relu_power needs q above 1/2, but q = {q} was given: E[phi'^2] diverges.")

    def moment(front: sp.Expr, n: sp.Expr) -> tuple[sp.Expr, sp.Expr | None]:
        r"""front E[max(0,z)^{2n}] = front (2n-1)!!/2 V^n."""
        textbook = front * 2 ** (n - 1) * gamma(n + _half) / sqrt(pi) * V**n
        stable = front * exp((n - 1) * log(2) + sp.loggamma(n + _half)) / sqrt(pi) * V**n
        return textbook, None if q.is_number else stable

    def pair(front: sp.Expr, n: sp.Expr) -> tuple[sp.Expr, sp.Expr]:
        textbook = sp.Piecewise((0, sp.Eq(kxx * kyy, 0)), (rectified_pair.exact(n, *_GRAM), True))
        return front * textbook, front * rectified_pair(n, *_GRAM)

    return activation(
        "relu_power",
        sp.Piecewise((z**q, z > 0), (0, True)),
        parameters=_symbols(q),
        kinks=(0,),
        kernel=pair(S.One, q),
        slope=pair(q**2, q - 1),
        F=moment(S.One, q),
        G=moment(q**2, q - 1),
        G2=moment(q**2 * (q - 1) ** 2, q - 2),
    )


relu = relu_power(1)


def polynomial(coefficients: Sequence[Any]) -> Activation:
    """c_0 + c_1 z + c_2 z^2 + ... with the given coefficients."""
    c = [sp.sympify(value) for value in coefficients]
    if not c or not all(value.is_number and value.is_real for value in c):
        raise InputError(f"polynomial needs a list of real coefficients, but {coefficients!r} was given.")

    def mixed(j: int, k: int) -> sp.Expr:
        """E[u^j v^k], by how many of the factors are paired across (Isserlis)."""
        terms = []
        for m in range(min(j, k) % 2 if (j + k) % 2 == 0 else 1, min(j, k) + 1, 2):
            if (j - m) % 2 == 0 and (k - m) % 2 == 0:
                l, n = (j - m) // 2, (k - m) // 2
                ways = factorial(j) * factorial(k) / (factorial(m) * factorial(l) * factorial(n) * 2 ** (l + n))
                terms.append(ways * kxy**m * kxx**l * kyy**n)
        return sp.Add(*terms)

    def two(poly: sp.Poly) -> sp.Expr:
        items = [(m[0], value) for m, value in poly.terms()]
        return sp.expand(sum(x * y * mixed(j, k) for j, x in items for k, y in items))

    def one(poly: sp.Poly) -> sp.Expr:
        return two(poly).subs({kxx: V, kxy: V, kyy: V})

    phi = sp.Poly(list(reversed(c)), z)
    return activation(
        "polynomial",
        phi.as_expr(),
        kernel=two(phi),
        slope=two(phi.diff(z)),
        F=one(phi),
        G=one(phi.diff(z)),
        G2=one(phi.diff(z).diff(z)),
    )


def _degree(q: Any) -> sp.Expr:
    q = sp.sympify(q)
    if not q.is_integer or q.is_number and q < 1:
        raise InputError(f"monomial needs a whole degree q >= 1, but q = {q} was given.")
    return q


ACTIVATIONS: dict[str, Activation] = {
    one.name: one
    for one in (
        erf, monomial(), relu_power(), sine(), cosine(), exponential(), gaussian, gelu, elu, snake(),
    )
}  # fmt: skip
