"""Curvature of a symbolic metric in any dimension.

Sign convention: the unit d-sphere has scalar curvature +d(d-1). Symbolic results go through
Christoffel symbols of the first kind, which keeps them short; `curvature_of_jet` follows the
textbook definition on plain numbers, and is the oracle for closed forms.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Any, TypeAlias

import mpmath as mp
import numpy as np
import sympy as sp

from analytic.expressions.arguments import InputError, Number, listed

__all__ = [
    "Curvature", "christoffel", "curvature_at", "curvature_of_jet", "hessian_curvature", "inverse",
    "ricci", "riemann", "riemann_lowered", "scalar_curvature",
]  # fmt: skip

Coordinates = tuple[sp.Symbol, ...]
Entries: TypeAlias = (
    np.ndarray | Sequence["Entries"] | Number
)  # nested lists, or an array, of numbers

_gradient = np.frompyfunc(sp.diff, 2, 1).outer  # [...], (d,) -> [..., d]


def inverse(g: sp.MatrixBase) -> sp.ImmutableMatrix:
    r"""The inverse $g^{ij} = \operatorname{adj}(g)_{ij} / \det g$ of a metric, factored, as [i, j].

    g is a symmetric matrix of SymPy, (d, d). One that is not symmetric, or whose determinant vanishes
    everywhere, is refused with an InputError.

    >>> import sympy
    >>> from analytic import riemann
    >>> theta = sympy.Symbol("theta", positive=True)
    >>> riemann.inverse(sympy.diag(1, sympy.sin(theta) ** 2))[1, 1]
    sin(theta)**(-2)
    """
    _require_symmetric(g)
    determinant = sp.factor(g.det(method="berkowitz"))
    if _vanishes(determinant):
        raise InputError("The metric is singular: its determinant vanishes identically.")
    return sp.ImmutableMatrix(g.adjugate().applyfunc(sp.factor) / determinant)


def christoffel(g: sp.MatrixBase, x: Coordinates) -> sp.Array:
    r"""The Christoffel symbols, as [k, i, j],

    $$\Gamma^k_{ij} = g^{kl} (\partial_i g_{lj} + \partial_j g_{li} - \partial_l g_{ij}) / 2.$$

    g is a symmetric matrix of SymPy, (d, d), and x are its d coordinates, distinct symbols.
    Anything else is refused with an InputError.

    >>> import sympy
    >>> from analytic import riemann
    >>> r, phi = sympy.symbols("r phi", positive=True)
    >>> riemann.christoffel(sympy.diag(1, r**2), (r, phi))[0, 1, 1]
    -r
    """
    _require_metric(g, x)
    return sp.Array(np.einsum("kl,lij->kij", inverse(g), _first_kind(_gradient(g, x))).tolist())


def riemann(g: sp.MatrixBase, x: Coordinates) -> sp.Array:
    r"""The Riemann tensor with one index up, as [k, l, i, j],

    $$R^k{}_{lij} = \partial_i \Gamma^k_{jl} - \partial_j \Gamma^k_{il}
    + \Gamma^k_{im} \Gamma^m_{jl} - \Gamma^k_{jm} \Gamma^m_{il}.$$

    g and x are those of `christoffel`, and what is refused is the same.

    >>> import sympy
    >>> from analytic import riemann
    >>> theta, phi = sympy.symbols("theta phi", positive=True)
    >>> riemann.riemann(sympy.diag(1, sympy.sin(theta) ** 2), (theta, phi))[1, 0, 1, 0]
    1
    """
    _require_metric(g, x)
    return sp.Array(np.einsum("km,mlij->klij", inverse(g), riemann_lowered(g, x)).tolist())


def riemann_lowered(g: sp.MatrixBase, x: Coordinates) -> sp.Array:
    r"""The Riemann tensor with all indices down, as [k, l, i, j],

    $$R_{klij} = \partial_i \Gamma_{kjl} - \partial_j \Gamma_{kil}
    + \Gamma^p_{il} \Gamma_{pjk} - \Gamma^p_{jl} \Gamma_{pik}.$$

    g and x are those of `christoffel`, and what is refused is the same.

    >>> import sympy
    >>> from analytic import riemann
    >>> r, phi = sympy.symbols("r phi", positive=True)
    >>> riemann.riemann_lowered(sympy.diag(1, r**2), (r, phi))[0, 1, 0, 1]
    0
    """
    gamma, first = christoffel(g, x), _first_kind(_gradient(g, x))
    half = np.einsum("kjli->klij", _gradient(first, x)) + np.einsum("pil,pjk->klij", gamma, first)
    return sp.Array((half - half.swapaxes(2, 3)).tolist())


def ricci(g: sp.MatrixBase, x: Coordinates) -> sp.Array:
    r"""The Ricci tensor $R_{ij} = R^k{}_{ikj}$, as [i, j].

    g and x are those of `christoffel`, and what is refused is the same.

    >>> import sympy
    >>> from analytic import riemann
    >>> x, y = sympy.symbols("x y", positive=True)
    >>> riemann.ricci(sympy.diag(1, 1) / y**2, (x, y))[0, 0]  # the hyperbolic plane
    -1/y**2
    """
    _require_metric(g, x)
    return sp.Array(np.einsum("kl,kilj->ij", inverse(g), riemann_lowered(g, x)).tolist())


def scalar_curvature(g: sp.MatrixBase, x: Coordinates) -> sp.Expr:
    r"""The scalar curvature $R = g^{ij} R_{ij}$, factored; the unit d-sphere has d(d-1).

    It is summed as $2 \sum_{k<l,\, i<j} (g^{ki} g^{lj} - g^{kj} g^{li}) R_{klij}$. g and x are those of
    `christoffel`, and what is refused is the same.

    >>> import sympy
    >>> from analytic import riemann
    >>> theta, phi = sympy.symbols("theta phi", positive=True)
    >>> riemann.scalar_curvature(sympy.diag(1, sympy.sin(theta) ** 2), (theta, phi))
    2
    """
    _require_metric(g, x)
    up = inverse(g)
    half = np.einsum("ki,lj->klij", up, up)
    terms = (half - half.swapaxes(2, 3)) * np.array(riemann_lowered(g, x))
    low, high = np.triu_indices(len(x), k=1)
    return sp.factor(2 * terms[low, high][:, low, high].sum())


@dataclass(frozen=True, eq=False)
class Curvature:
    """Geometry at one point, in object arrays that hold only Fractions or only mpf numbers."""

    metric: np.ndarray  # g_ij
    inverse: np.ndarray  # g^ij
    christoffel: np.ndarray  # Gamma^k_ij as [k, i, j]
    riemann: np.ndarray  # R_klij as [k, l, i, j]
    ricci: np.ndarray  # R_ij
    scalar: Fraction | mp.mpf


def curvature_at(g: sp.MatrixBase, x: Coordinates, point: Mapping[sp.Symbol, Number]) -> Curvature:
    """All of the curvature at one point, by the textbook definition.

    g and x are those of `christoffel`; `point` has a number for every symbol of g. Returned is a
    `Curvature`, exact if the metric and its first two derivatives are rational there, else in the working
    precision of mpmath. A symbol without a number, and a singular metric, is refused with an InputError.

    >>> import sympy
    >>> from analytic import riemann
    >>> x, y = sympy.symbols("x y", positive=True)
    >>> riemann.curvature_at(sympy.diag(1, 1) / y**2, (x, y), {x: 0, y: 3}).scalar
    Fraction(-2, 1)
    """
    _require_metric(g, x)
    if not isinstance(point, Mapping):
        raise InputError(f"point = {point!r} was given, but it must map each symbol to a number.")
    values = {symbol: sp.sympify(*_numbers(value)) for symbol, value in point.items()}
    entries = np.frompyfunc(lambda entry: entry.as_poly(*x) or entry, 1, 1)(g)  # fast derivatives
    jet = entries, _gradient(entries, x), _gradient(_gradient(entries, x), x)
    at_point = np.frompyfunc(cache(lambda entry: entry.as_expr().xreplace(values)), 1, 1)
    return curvature_of_jet(*map(at_point, jet))


def curvature_of_jet(g0: Entries, dg: Entries, ddg: Entries) -> Curvature:
    r"""All of the curvature at one point, from the metric there and its first two derivatives.

    g0[i][j] is $g_{ij}$, dg[i][j][k] is $\partial_k g_{ij}$ and ddg[i][j][k][l] is
    $\partial_l \partial_k g_{ij}$: arrays or lists of shapes (d, d), (d, d, d) and (d, d, d, d). The
    definition is that of `riemann`, with $\partial_m g^{-1} = -g^{-1} (\partial_m g) g^{-1}$. Returned is a
    `Curvature`, exact if all entries are rational. Other shapes, NaN and a singular metric are refused
    with an InputError.

    >>> import numpy as np
    >>> from analytic import riemann
    >>> flat = np.eye(2, dtype=int), np.zeros((2, 2, 2), dtype=int), np.zeros((2, 2, 2, 2), dtype=int)
    >>> riemann.curvature_of_jet(*flat).scalar
    Fraction(0, 1)
    """
    g0, dg, ddg = _numbers(g0, dg, ddg)
    axes = tuple(map(np.ndim, (g0, dg, ddg)))
    if axes != (2, 3, 4):
        raise InputError(
            f"Arrays of {axes} axes were given, but the metric and its derivatives have 2, 3 and 4."
        )
    (up,) = _numbers(_numeric_inverse(g0))
    dup = -np.einsum("ka,abm,bl->klm", up, dg, up)
    first, dfirst = _first_kind(dg), _first_kind(ddg)
    gamma = np.einsum("kl,lij->kij", up, first)
    dgamma = np.einsum("klm,lij->kijm", dup, first) + np.einsum("kl,lijm->kijm", up, dfirst)
    half = np.einsum("kjli->klij", dgamma) + np.einsum("kim,mjl->klij", gamma, gamma)
    mixed = half - half.swapaxes(2, 3)
    lowered, traced = np.einsum("km,mlij->klij", g0, mixed), np.einsum("kikj->ij", mixed)
    return Curvature(g0, up, gamma, lowered, traced, np.einsum("ij,ij->", up, traced))


def hessian_curvature(g0: Entries, dg: Entries, factor: Number = Fraction(-1, 4)) -> np.ndarray:
    r"""The Riemann tensor of a metric that is a Hessian, as [m, n, a, b], from g and dg at a point,

    $$R_{mnab} = -\tfrac14 g^{rl}
    (\partial_r g_{ma} \partial_l g_{nb} - \partial_r g_{mb} \partial_l g_{na}).$$

    g0 and dg are those of `curvature_of_jet`, and `factor` is the $-\tfrac14$, which one may vary to see
    it refuted. A dg that is not totally symmetric is refused with an InputError.

    >>> from analytic import riemann
    >>> dg = [[[1, 0], [0, 0]], [[0, 0], [0, 0]]]
    >>> riemann.hessian_curvature([[1, 0], [0, 1]], dg)[0, 1, 0, 1]
    Fraction(0, 1)
    """
    g0, dg, factor = _numbers(g0, dg, factor)
    if abs(dg - dg.swapaxes(0, 2)).max() > abs(dg).max() / 10**6:  # rounding stays far below
        raise InputError("The metric is not a Hessian: its derivative is not totally symmetric.")
    half = np.einsum("rl,mar,nbl->mnab", *_numbers(_numeric_inverse(g0)), dg, dg)
    return factor * (half - half.swapaxes(2, 3))


def _numeric_inverse(g0: np.ndarray) -> sp.Matrix:
    try:
        return sp.Matrix(g0).inv()
    except ValueError:
        raise InputError("The metric is not invertible at this point: choose another.") from None


def _first_kind(dg: np.ndarray) -> np.ndarray:
    """Gamma_kij as [k, i, j] from dg[i, j, k]; further derivative indices stay last."""
    return (np.einsum("kji...->kij...", dg) + dg - np.einsum("ijk...->kij...", dg)) / 2


def _numbers(*arrays: Any) -> list[Any]:
    """The arrays with every entry a Fraction if all are rational, else every entry an mpf."""
    objects = [np.array(array, dtype=object) for array in arrays]
    if any(isinstance(entry, list | tuple) for entries in objects for entry in entries.flat):
        raise InputError("Lists of different lengths were given where an array is needed.")
    if len({length for entries in objects for length in entries.shape}) > 1:
        raise InputError("A jet needs as many entries along every axis as there are coordinates.")
    rational = (isinstance(v, int | Fraction | sp.Rational) for a in objects for v in a.flat)
    return list(map(np.frompyfunc(Fraction if all(rational) else _mpf, 1, 1), objects))


def _mpf(value: Any) -> mp.mpf:
    number = isinstance(value, int | float | Fraction | mp.mpf | np.number | sp.Expr)
    real = sp.N(value, mp.mp.dps) if number and not isinstance(value, bool) else sp.nan
    if not (real.is_number and real.is_real):
        raise InputError(f"{value} is not a real number: value every symbol of g inside the chart.")
    return mp.mpf(real)


def _require_metric(g: Any, x: Any) -> None:
    """Refuse what is no symmetric matrix in as many coordinates, which are distinct symbols."""
    symbols = listed("x", x)
    if not all(isinstance(one, sp.Symbol) for one in symbols) or len({*symbols}) < len(symbols):
        raise InputError(f"x = {x!r} was given, but coordinates must be distinct symbols of SymPy.")
    _require_symmetric(g)
    if g.rows != len(symbols):
        raise InputError(f"A metric in {len(symbols)} coordinates cannot be {g.rows} x {g.cols}.")


def _require_symmetric(g: Any) -> None:
    if not isinstance(g, sp.MatrixBase):
        raise InputError(f"g = {g!r} was given, but a metric must be a matrix of SymPy.")
    if g.rows != g.cols:
        raise InputError(f"The metric is {g.rows} x {g.cols}, but it must be square.")
    if not all(_vanishes(entry) for entry in g - g.T):
        raise InputError("The metric is not symmetric: g[i, j] and g[j, i] differ.")


def _vanishes(expr: sp.Expr) -> bool:
    """Whether an analytic expression is zero identically, judged at one generic point."""
    symbols = sorted(expr.free_symbols, key=str)
    value = sp.N(expr.subs({s: sp.Rational(1, sp.prime(n + 9)) for n, s in enumerate(symbols)}))
    return bool(value.is_finite) and bool(abs(value) < 1e-100)
