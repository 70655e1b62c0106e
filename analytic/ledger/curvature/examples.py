"""The worked examples, (C.24) to (C.51): erf and monomial networks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import sympy as sp
from mpmath import mp, mpf

from analytic.activations import erf, monomial
from analytic.catalogue import catalogue
from analytic.claims import Claim, Point, sample
from analytic.formula import Formula
from analytic.ledger.settlement import Settled, holds, reals, threefold
from analytic.routes import averages, determinant, nngp_jet, pair_average, ray
from analytic.symbols import d, q, r, sigma, zeta

MONOMIAL = monomial()
rho = sp.Symbol("rho", real=True)
ell = sp.Symbol("ell", integer=True, nonnegative=True)
_variance = sigma**2 * r**2 + zeta**2
_half = sp.S.Half


def _in_d(formula: Formula, act: Any, what: Callable[[Any], Any], bias: bool = True) -> Claim:
    """A catalogue formula against the metric by quadrature, in dimensions 2, 3 and 4."""

    def other(d: Any, sigma: Any, r: Any, zeta: Any = mpf(0), **parameters: Any) -> Any:
        return what(nngp_jet(act, ray(r, int(d)), sigma, zeta, *parameters.values()))

    points = tuple(sample(formula, 1, seed=k, d=k, **_degree(act, k))[0] for k in (2, 3, 4))
    return Claim(formula, "metric by quadrature", other, points)


def _degree(act: Any, k: int) -> dict[str, int]:
    return {"q": k} if act is MONOMIAL else {}


def _volume(jet: Any) -> Any:
    return mp.sqrt(determinant(jet.g))


def _scalar(jet: Any) -> Any:
    return jet.curvature().scalar


def _erf_kernel() -> Claim:
    x, y = reals("x1 x2"), reals("y1 y2")

    def inner(a: Any, b: Any) -> Any:
        return sigma**2 * sum(p * q for p, q in zip(a, b, strict=True)) + zeta**2

    expr = 2 / sp.pi * sp.asin(inner(x, y) / sp.sqrt((1 + inner(x, x)) * (1 + inner(y, y))))
    formula = Formula("erf NNGP kernel", (sigma, zeta, *x, *y), expr)
    average = pair_average(erf)

    def other(sigma: Any, zeta: Any, x1: Any, x2: Any, y1: Any, y2: Any) -> Any:
        xx, xy, yy = x1 * x1 + x2 * x2, x1 * y1 + x2 * y2, y1 * y1 + y2 * y2
        return average(*(sigma**2 * k + zeta**2 for k in (xx, xy, yy)))

    points = ({"sigma": "0.6", "zeta": "0.4", "x1": 1, "x2": "-0.5", "y1": "0.3", "y2": 2},)
    return Claim(formula, "two-point quadrature", other, points)


def _one_point(name: str, expr: sp.Expr, act: Any, wrap: Callable[..., Any], order: int) -> Claim:
    """A function of (sigma, zeta, r) against one average of phi or a derivative, squared."""
    formula = Formula(name, (sigma, zeta, r, *act.parameters), expr)
    average = averages(act, order)

    def other(sigma: Any, zeta: Any, r: Any, **parameters: Any) -> Any:
        return wrap(average(sigma**2 * r**2 + zeta**2, 0, *parameters.values()), sigma)

    return Claim(formula, "quadrature", other, sample(formula, 3))


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
    average = pair_average(monomial(degree))
    norm = mp.fac2(2 * degree - 1)
    return lambda rho: norm * average(mpf(1), rho, mpf(1))


def _mehler(degree: int) -> Claim:
    """(C.34), with the averages of He_k t^q from Gaussian moments."""
    power = [0] * degree + [1]
    terms = [
        rho**k / sp.factorial(k) * _moment(_times(_hermite(k), power)) ** 2 for k in range(degree + 3)
    ]
    formula = Formula(f"Mehler sum, q={degree}", (rho,), sp.Add(*terms))
    return Claim(formula, "two-point quadrature", _mixed_moment(degree), _correlations())


def _correlations() -> tuple[Point, ...]:
    return ({"rho": "0.35"}, {"rho": "-0.8"})


def _inversion(degree: int) -> Claim:
    t = reals("t")[0]
    terms = [
        sum(c * t**n for n, c in enumerate(_hermite(degree - 2 * m)))
        / (2**m * sp.factorial(m) * sp.factorial(degree - 2 * m))
        for m in range(degree // 2 + 1)
    ]
    formula = Formula(f"Hermite sum, q={degree}", (t,), sp.factorial(degree) * sp.Add(*terms, evaluate=False))
    return Claim(formula, "the power itself", lambda t: t**degree, sample(formula, 3))


def _orthogonality() -> Claim:
    k, n = (sp.Symbol(name, integer=True, nonnegative=True) for name in ("k", "n"))
    formula = Formula("E[He_k He_n]", (k, n), sp.Piecewise((sp.gamma(n + 1), sp.Eq(k, n)), (0, True)))

    def other(k: Any, n: Any) -> Any:
        return mpf(int(_moment(_times(_hermite(int(k)), _hermite(int(n))))))

    pairs = ((0, 0), (3, 3), (5, 5), (2, 4), (1, 2))
    return Claim(formula, "Gaussian moments", other, tuple({"k": k, "n": n} for k, n in pairs))


def _overlap() -> Claim:
    """(C.37): E[He_k t^q] is q!/(2^m m!) where k = q - 2m, and zero where there is no such m."""
    k = sp.Symbol("k", integer=True, nonnegative=True)
    m = (q - k) / 2
    inside = sp.Eq(sp.cos(sp.pi * (q - k)), 1) & (k <= q)
    value = sp.gamma(q + 1) / (2**m * sp.gamma(m + 1))
    formula = Formula("E[He_k t^q]", (k, q), sp.Piecewise((value, inside), (0, True)))

    def other(k: Any, q: Any) -> Any:
        return mpf(int(_moment(_times(_hermite(int(k)), [0] * int(q) + [1]))))

    pairs = ((1, 5), (4, 6), (5, 5), (2, 5), (0, 4), (6, 4))
    return Claim(formula, "Gaussian moments", other, tuple({"k": a, "q": b} for a, b in pairs))


def _sum_and_series(odd: int) -> tuple[Claim, Claim]:
    """(C.39), (C.40) for q = 2 ell and (C.42), (C.43) for q = 2 ell + 1."""
    size = 3
    degree = 2 * size + odd
    terms = [
        rho ** (2 * j + odd) / sp.factorial(2 * j + odd)
        * (sp.factorial(degree) / (2 ** (size - j) * sp.factorial(size - j))) ** 2
        for j in range(size + 1)
    ]  # fmt: skip
    explicit = Formula(f"finite sum, q={degree}", (rho,), sp.Add(*terms))
    double_factorial = 2 ** (ell + odd) * sp.gamma(ell + odd + _half) / sp.sqrt(sp.pi)
    series = sp.hyper((-ell, -ell), (_half + odd,), rho**2)
    closed = Formula(f"2F1, q=2l+{odd}", (ell, rho), double_factorial**2 * rho**odd * series)

    def other(ell: Any, rho: Any) -> Any:
        return _mixed_moment(2 * int(ell) + odd)(rho)

    points = tuple({"ell": n, **point} for n in (1, 2, 3) for point in _correlations()[:1])
    route = "two-point quadrature"
    return (
        Claim(explicit, route, _mixed_moment(degree), _correlations()),
        Claim(closed, route, other, points),
    )


def _scaled_kernel() -> Claim:
    """(C.31): the kernel is a function of the correlation, scaled by both variances."""
    vx, vy = (sp.Symbol(name, positive=True) for name in ("vx", "vy"))
    value = MONOMIAL.kernel.expr.args[-1][0]  # the general branch
    kxx, kxy, kyy = MONOMIAL.kernel.args[:3]
    unit = value.subs({kxx: 1, kyy: 1, kxy: rho})
    formula = Formula("scaled monomial kernel", (q, vx, vy, rho), (vx * vy) ** (q / 2) * unit)

    def other(q: Any, vx: Any, vy: Any, rho: Any) -> Any:
        return pair_average(monomial(int(q)))(vx, rho * mp.sqrt(vx * vy), vy)

    points = tuple({"q": n, "vx": "1.5", "vy": "0.4", "rho": "-0.3"} for n in (2, 3))
    return Claim(formula, "two-point quadrature", other, points)


# The non-monotonic curvature of monomials with bias, in t = sigma^2 |x|^2.
t = sp.Symbol("t", positive=True)
_ricci = catalogue["nngp.monomial.ricci"]
_in_t = Formula("monomial Ricci in t", (d, t, zeta, q), _ricci.expr.subs({sigma: 1}).subs(r, sp.sqrt(t)))


def _derivative() -> Claim:
    """(C.49), with the positive constant that the paper leaves out."""
    cubic = (
        (d - 2) * q * (2 * q - 1) ** 2 * t**3
        + (2 * q - 1) * ((2 * q - 1) * d + 6) * zeta**2 * t**2
        - (8 + q * (d - 14)) * zeta**4 * t
        - (d + 2) * zeta**6
    )
    front = (d - 1) * (q - 1) ** 2 * (2 * q - 1)
    below = q**2 * (t + zeta**2) ** (q + 1) * ((2 * q - 1) * t + zeta**2) ** 3
    formula = Formula("dR/dt of monomials", (d, t, zeta, q), front / below * cubic)

    def other(d: Any, t: Any, zeta: Any, q: Any) -> Any:
        return mp.diff(lambda at: _in_t.mpmath(d, at, zeta, q), t)

    points = tuple(sample(formula, 1, seed=k, d=k, q=n)[0] for k, n in ((2, 2), (3, 3), (7, 5)))
    return Claim(formula, "numerical derivative", other, points)


def _turning_point(q: Any, zeta: Any) -> Any:
    """Where R of a monomial in d = 2 turns, found by bisection of its numerical derivative."""
    two = mpf(2)

    def slope(at: Any) -> Any:
        return mp.diff(lambda s: _in_t.mpmath(two, s, zeta, q), at)

    return mp.findroot(slope, (zeta**2 / 100, zeta**2), solver="anderson", verify=False)


def _threshold() -> Claim:
    formula = Formula(
        "threshold C",
        (q, zeta),
        (sp.sqrt(17 * q**2 - 8 * q) - 3 * q + 2) / (2 * (2 * q**2 + q - 1)) * zeta**2,
    )
    points = ({"q": 2, "zeta": 1}, {"q": 3, "zeta": "0.5"}, {"q": 7, "zeta": "1.5"})
    return Claim(formula, "root of the numerical derivative", _turning_point, points, digits=25,
                 reason="the derivative at a root is known to fewer digits")  # fmt: skip


def _quadratic() -> Claim:
    """(C.50), solved for the square of its root: zeta^4 - (3q-2) zeta^2 C over the leading factor."""
    C = sp.Symbol("C", positive=True)
    formula = Formula("C^2", (q, zeta, C), (zeta**4 - (3 * q - 2) * zeta**2 * C) / (2 * q**2 + q - 1))

    def point(degree: int, bias: str) -> Point:
        with mp.workdps(60):
            return {"q": degree, "zeta": bias, "C": _turning_point(mpf(degree), mpf(bias))}

    points = (point(2, "1"), point(4, "0.5"))
    return Claim(formula, "square of the turning point", lambda q, zeta, C: C**2, points, digits=25,
                 reason="the derivative at a root is known to fewer digits")  # fmt: skip


def _without_bias(name: str, expr: sp.Expr, what: Callable[[Any], Any]) -> Claim:
    return _in_d(Formula(name, (d, sigma, r, q), expr), MONOMIAL, what)


ROUTES: dict[str, Settled] = {
    "curvature/C.24": holds(_erf_kernel()),
    "curvature/C.25": holds(
        _one_point("erf G", 2 / (sp.pi * sp.sqrt(1 + 2 * _variance)), erf, lambda m, s: m, 1)
    ),
    "curvature/C.26": holds(
        _one_point(
            "erf Omega",
            -sp.log(1 + 2 * _variance) / 2 + sp.log(2 * sigma**2 / sp.pi),
            erf,
            lambda m, s: mp.log(s**2 * m),
            1,
        )
    ),
    "curvature/C.27": holds(
        _in_d(
            Formula(
                "erf magnification",
                (d, sigma, zeta, r),
                (2 * sigma**2 / (sp.pi * sp.sqrt(1 + 2 * _variance))) ** (d / 2)
                * sp.sqrt((2 * zeta**2 + 1) / (1 + 2 * _variance)),
            ),
            erf,
            _volume,
        )
    ),
    "curvature/C.28": threefold(_in_d(catalogue["nngp.erf.ricci"], erf, _scalar)),
    "curvature/C.29": holds(_one_point("monomial k(x, x)", _variance**q, MONOMIAL, lambda m, s: m, 0)),
    "curvature/C.30-C.31": holds(_scaled_kernel()),
    "curvature/C.34": holds(_mehler(5), _mehler(6)),
    "curvature/C.35": holds(_inversion(5), _inversion(6)),
    "curvature/C.36": holds(_orthogonality()),
    "curvature/C.37": holds(_overlap()),
    "curvature/C.38-C.40": holds(*_sum_and_series(0)),
    "curvature/C.41-C.43": holds(*_sum_and_series(1)),
    "curvature/C.44": holds(
        _one_point(
            "monomial G", q**2 / (2 * q - 1) * _variance ** (q - 1), MONOMIAL, lambda m, s: m, 1
        )
    ),
    "curvature/C.45": holds(
        _in_d(
            Formula(
                "monomial magnification",
                (d, sigma, zeta, r, q),
                sp.sqrt(1 + 2 * (q - 1) * sigma**2 * r**2 / _variance)
                * (q**2 * sigma**2 / (2 * q - 1) * _variance ** (q - 1)) ** (d / 2),
            ),
            MONOMIAL,
            _volume,
        )
    ),
    "curvature/C.46": threefold(_in_d(_ricci, MONOMIAL, _scalar)),
    "curvature/C.47": holds(
        _without_bias(
            "monomial magnification, zeta=0",
            q**d * (2 * q - 1) ** ((1 - d) / 2) * sigma ** (q * d) * r ** ((q - 1) * d),
            _volume,
        )
    ),
    "curvature/C.48": threefold(
        replace(
            _without_bias(
                "monomial Ricci, zeta=0",
                -(d - 1) * (d - 2) * (q - 1) ** 2 / (q**2 * sigma ** (2 * q) * r ** (2 * q)),
                _scalar,
            ),
            points=({"d": 3, "sigma": "0.7", "r": "1.3", "q": 2}, {"d": 4, "sigma": 1, "r": "0.5", "q": 3}),
        )
    ),
    "curvature/C.49": holds(_derivative()),
    "curvature/C.50": holds(_quadratic()),
    "curvature/C.51": holds(_threshold()),
}  # fmt: skip
