"""The kernel of monomials, (C.30) to (C.43): Hermite polynomials, Mehler sums, 2F1."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import sympy as sp
from mpmath import mp, mpf

from analytic.activations import monomial
from analytic.checks.claims import Claim, Point, sample
from analytic.checks.oracles import two_point_average
from analytic.expressions.formula import Formula
from analytic.expressions.symbols import q
from analytic.ledger.verification import Verification, holds, real_symbols

__all__ = ["ROUTES"]

rho = sp.Symbol("rho", real=True)
ell = sp.Symbol("ell", integer=True, nonnegative=True)
_half = sp.S.Half


def _moment(coefficients: list[Any]) -> Any:
    """E[p(t)] of a polynomial in a standard normal t, from (n-1)!! alone."""
    return sum(c * sp.factorial2(n - 1) for n, c in enumerate(coefficients) if n % 2 == 0)


def _hermite(k: int) -> list[int]:
    """Coefficients of He_k by its recursion He_{k+1} = t He_k - k He_{k-1}."""
    last, this = [0], [1]
    for n in range(k):
        step = [0, *this]
        for m, c in enumerate(last):
            step[m] -= n * c
        last, this = this, step
    return this


def _times(p: list[Any], q: list[Any]) -> list[Any]:
    out = [0] * (len(p) + len(q) - 1)
    for i, a in enumerate(p):
        for j, b in enumerate(q):
            out[i + j] += a * b
    return out


def _mixed_moment(degree: int) -> Callable[..., Any]:
    """E[u^q v^q] at correlation rho, by two-point quadrature of the powers."""
    average = two_point_average(monomial(degree))
    norm = mp.fac2(2 * degree - 1)
    return lambda rho: norm * average(mpf(1), rho, mpf(1))


def _mehler(degree: int) -> Claim:
    """(C.34), with the averages of He_k t^q from Gaussian moments."""
    power = [0] * degree + [1]
    terms = [
        rho**k / sp.factorial(k) * _moment(_times(_hermite(k), power)) ** 2
        for k in range(degree + 3)
    ]
    formula = Formula(f"Mehler sum, q={degree}", (rho,), sp.Add(*terms))
    return Claim(formula, "two-point quadrature", _mixed_moment(degree), _correlations())


def _correlations() -> tuple[Point, ...]:
    return ({"rho": "0.35"}, {"rho": "-0.8"})


def _inversion(degree: int) -> Claim:
    t = real_symbols("t")[0]
    terms = [
        sum(c * t**n for n, c in enumerate(_hermite(degree - 2 * m)))
        / (2**m * sp.factorial(m) * sp.factorial(degree - 2 * m))
        for m in range(degree // 2 + 1)
    ]
    formula = Formula(
        f"Hermite sum, q={degree}", (t,), sp.factorial(degree) * sp.Add(*terms, evaluate=False)
    )
    return Claim(formula, "the power itself", lambda t: t**degree, sample(formula, 3))


def _orthogonality() -> Claim:
    k, n = (sp.Symbol(name, integer=True, nonnegative=True) for name in ("k", "n"))
    formula = Formula(
        "E[He_k He_n]", (k, n), sp.Piecewise((sp.gamma(n + 1), sp.Eq(k, n)), (0, True))
    )

    def oracle(k: Any, n: Any) -> Any:
        return mpf(int(_moment(_times(_hermite(int(k)), _hermite(int(n))))))

    pairs = ((0, 0), (3, 3), (5, 5), (2, 4), (1, 2))
    return Claim(formula, "Gaussian moments", oracle, tuple({"k": k, "n": n} for k, n in pairs))


def _overlap() -> Claim:
    """(C.37): E[He_k t^q] is q!/(2^m m!) where k = q - 2m, and zero where there is no such m."""
    k = sp.Symbol("k", integer=True, nonnegative=True)
    m = (q - k) / 2
    inside = sp.Eq(sp.cos(sp.pi * (q - k)), 1) & (k <= q)
    value = sp.gamma(q + 1) / (2**m * sp.gamma(m + 1))
    formula = Formula("E[He_k t^q]", (k, q), sp.Piecewise((value, inside), (0, True)))

    def oracle(k: Any, q: Any) -> Any:
        return mpf(int(_moment(_times(_hermite(int(k)), [0] * int(q) + [1]))))

    pairs = ((1, 5), (4, 6), (5, 5), (2, 5), (0, 4), (6, 4))
    return Claim(formula, "Gaussian moments", oracle, tuple({"k": a, "q": b} for a, b in pairs))


def _sum_and_series(odd: int) -> tuple[Claim, Claim, Claim]:
    """(C.38) to (C.40) for q = 2 ell and (C.41) to (C.43) for q = 2 ell + 1."""
    size = 3
    degree = 2 * size + odd
    terms = [
        rho ** (2 * j + odd) / sp.factorial(2 * j + odd)
        * (sp.factorial(degree) / (2 ** (size - j) * sp.factorial(size - j))) ** 2
        for j in range(size + 1)
    ]  # fmt: skip
    sifted = [
        rho ** (2 * j + odd) / sp.factorial(2 * j + odd)
        * (sp.factorial(degree) * sum(
            sp.KroneckerDelta(j, size - m) / (2**m * sp.factorial(m)) for m in range(size + 1)
        )) ** 2
        for j in range(size + 3)
    ]  # fmt: skip
    deltas = Formula(f"sum with deltas, q={degree}", (rho,), sp.Add(*sifted))
    explicit = Formula(f"finite sum, q={degree}", (rho,), sp.Add(*terms))
    double_factorial = 2 ** (ell + odd) * sp.gamma(ell + odd + _half) / sp.sqrt(sp.pi)
    series = sp.hyper((-ell, -ell), (_half + odd,), rho**2)
    closed = Formula(f"2F1, q=2l+{odd}", (ell, rho), double_factorial**2 * rho**odd * series)

    def oracle(ell: Any, rho: Any) -> Any:
        return _mixed_moment(2 * int(ell) + odd)(rho)

    points = tuple({"ell": n, **point} for n in (1, 2, 3) for point in _correlations()[:1])
    route = "two-point quadrature"
    return (
        Claim(deltas, route, _mixed_moment(degree), _correlations()),
        Claim(explicit, route, _mixed_moment(degree), _correlations()),
        Claim(closed, route, oracle, points),
    )


def _scaled_kernel() -> Claim:
    """(C.31): the kernel is a function of the correlation, scaled by both variances."""
    vx, vy = (sp.Symbol(name, positive=True) for name in ("vx", "vy"))
    general = monomial().kernel
    value = general.expr.args[-1][0]  # the branch where no variance vanishes
    kxx, kxy, kyy = general.args[:3]
    unit = value.subs({kxx: 1, kyy: 1, kxy: rho})
    formula = Formula("scaled monomial kernel", (q, vx, vy, rho), (vx * vy) ** (q / 2) * unit)

    def oracle(q: Any, vx: Any, vy: Any, rho: Any) -> Any:
        return two_point_average(monomial(int(q)))(vx, rho * mp.sqrt(vx * vy), vy)

    points = tuple({"q": n, "vx": "1.5", "vy": "0.4", "rho": "-0.3"} for n in (2, 3))
    return Claim(formula, "two-point quadrature", oracle, points)


ROUTES: dict[str, Verification] = {
    "curvature/C.30-C.31": holds(_scaled_kernel()),
    "curvature/C.34": holds(_mehler(5), _mehler(6)),
    "curvature/C.35": holds(_inversion(5), _inversion(6)),
    "curvature/C.36": holds(_orthogonality()),
    "curvature/C.37": holds(_overlap()),
    "curvature/C.38-C.40": holds(*_sum_and_series(0)),
    "curvature/C.41-C.43": holds(*_sum_and_series(1)),
}
