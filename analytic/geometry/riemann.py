"""Curvature of a symbolic metric in any dimension.

Sign convention: the unit d-sphere has scalar curvature +d(d-1). Symbolic results go through
Christoffel symbols of the first kind, which keeps them short; `curvature_of_jet` follows the
textbook definition on plain numbers, and is the oracle for closed forms.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Any

import mpmath as mp
import numpy as np
import sympy as sp

Coordinates = tuple[sp.Symbol, ...]

_gradient = np.frompyfunc(sp.diff, 2, 1).outer  # [...], (d,) -> [..., d]


def inverse(g: sp.MatrixBase) -> sp.ImmutableMatrix:
    r"""$g^{ij} = \operatorname{adj}(g)_{ij} / \det g$, both factored, as [i, j]."""
    _require_metric(g, g.rows)
    determinant = sp.factor(g.det(method="berkowitz"))
    if _vanishes(determinant):
        raise ValueError("The metric is singular: its determinant vanishes identically.")
    return sp.ImmutableMatrix(g.adjugate().applyfunc(sp.factor) / determinant)


def christoffel(g: sp.MatrixBase, x: Coordinates) -> sp.Array:
    r"""$\Gamma^k_{ij} = g^{kl} (\partial_i g_{lj} + \partial_j g_{li} - \partial_l g_{ij}) / 2$,
    as [k, i, j]."""
    _require_metric(g, len(x))
    return sp.Array(np.einsum("kl,lij->kij", inverse(g), _first_kind(_gradient(g, x))).tolist())


def riemann(g: sp.MatrixBase, x: Coordinates) -> sp.Array:
    r"""$R^k{}_{lij} = \partial_i \Gamma^k_{jl} - \partial_j \Gamma^k_{il}
    + \Gamma^k_{im} \Gamma^m_{jl} - \Gamma^k_{jm} \Gamma^m_{il}$, as [k, l, i, j]."""
    return sp.Array(np.einsum("km,mlij->klij", inverse(g), riemann_lowered(g, x)).tolist())


def riemann_lowered(g: sp.MatrixBase, x: Coordinates) -> sp.Array:
    r"""$R_{klij} = \partial_i \Gamma_{kjl} - \partial_j \Gamma_{kil}
    + \Gamma^p_{il} \Gamma_{pjk} - \Gamma^p_{jl} \Gamma_{pik}$, as [k, l, i, j]."""
    gamma, first = christoffel(g, x), _first_kind(_gradient(g, x))
    half = np.einsum("kjli->klij", _gradient(first, x)) + np.einsum("pil,pjk->klij", gamma, first)
    return sp.Array((half - half.swapaxes(2, 3)).tolist())


def ricci(g: sp.MatrixBase, x: Coordinates) -> sp.Array:
    r"""$R_{ij} = R^k{}_{ikj}$, as [i, j]."""
    return sp.Array(np.einsum("kl,kilj->ij", inverse(g), riemann_lowered(g, x)).tolist())


def scalar_curvature(g: sp.MatrixBase, x: Coordinates) -> sp.Expr:
    r"""$R = g^{ij} R_{ij}
    = 2 \sum_{k<l,\, i<j} (g^{ki} g^{lj} - g^{kj} g^{li}) R_{klij}$, factored."""
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


def curvature_at(g: sp.MatrixBase, x: Coordinates, point: Mapping[sp.Symbol, Any]) -> Curvature:
    """Curvature where `point` values every symbol of g: exact if the 2-jet of g is rational there,
    else in the working precision of mpmath."""
    _require_metric(g, len(x))
    values = {symbol: sp.sympify(*_numbers(value)) for symbol, value in point.items()}
    entries = np.frompyfunc(lambda entry: entry.as_poly(*x) or entry, 1, 1)(g)  # fast derivatives
    jet = entries, _gradient(entries, x), _gradient(_gradient(entries, x), x)
    at_point = np.frompyfunc(cache(lambda entry: entry.as_expr().xreplace(values)), 1, 1)
    return curvature_of_jet(*map(at_point, jet))


def curvature_of_jet(g0: Any, dg: Any, ddg: Any) -> Curvature:
    r"""Curvature by the definition in `riemann`, with $\partial_m g^{-1} = -g^{-1} (\partial_m g)
    g^{-1}$, from numbers g0[i][j], dg[i][j][k] = $\partial_k g_{ij}$ and ddg[i][j][k][l] =
    $\partial_l \partial_k g_{ij}$."""
    g0, dg, ddg = _numbers(g0, dg, ddg)
    (up,) = _numbers(sp.Matrix(g0).inv())
    dup = -np.einsum("ka,abm,bl->klm", up, dg, up)
    first, dfirst = _first_kind(dg), _first_kind(ddg)
    gamma = np.einsum("kl,lij->kij", up, first)
    dgamma = np.einsum("klm,lij->kijm", dup, first) + np.einsum("kl,lijm->kijm", up, dfirst)
    half = np.einsum("kjli->klij", dgamma) + np.einsum("kim,mjl->klij", gamma, gamma)
    mixed = half - half.swapaxes(2, 3)
    lowered, traced = np.einsum("km,mlij->klij", g0, mixed), np.einsum("kikj->ij", mixed)
    return Curvature(g0, up, gamma, lowered, traced, np.einsum("ij,ij->", up, traced))


def hessian_curvature(g0: Any, dg: Any, factor: Any = Fraction(-1, 4)) -> np.ndarray:
    r"""$R_{mnab} = -\tfrac14 g^{rl} (\partial_r g_{ma} \partial_l g_{nb} - \partial_r g_{mb}
    \partial_l g_{na})$ as [m, n, a, b], for totally symmetric dg; other factors are refutable."""
    g0, dg, factor = _numbers(g0, dg, factor)
    if abs(dg - dg.swapaxes(0, 2)).max() > abs(dg).max() / 10**6:  # rounding stays far below
        raise ValueError("The metric is not a Hessian: its derivative is not totally symmetric.")
    half = np.einsum("rl,mar,nbl->mnab", *_numbers(sp.Matrix(g0).inv()), dg, dg)
    return factor * (half - half.swapaxes(2, 3))


def _first_kind(dg: np.ndarray) -> np.ndarray:
    """Gamma_kij as [k, i, j] from dg[i, j, k]; further derivative indices stay last."""
    return (np.einsum("kji...->kij...", dg) + dg - np.einsum("ijk...->kij...", dg)) / 2


def _numbers(*arrays: Any) -> list[Any]:
    """The arrays with every entry a Fraction if all are rational, else every entry an mpf."""
    objects = [np.array(array, dtype=object) for array in arrays]
    if len({length for entries in objects for length in entries.shape}) > 1:
        raise ValueError("A jet needs as many entries along every axis as there are coordinates.")
    rational = (isinstance(v, int | Fraction | sp.Rational) for a in objects for v in a.flat)
    return list(map(np.frompyfunc(Fraction if all(rational) else _mpf, 1, 1), objects))


def _mpf(value: Any) -> mp.mpf:
    real = sp.N(value, mp.mp.dps)
    if not (real.is_number and real.is_real):
        raise ValueError(f"{real} is not a real number: value every symbol of g inside the chart.")
    return mp.mpf(real)


def _require_metric(g: sp.MatrixBase, dimension: int) -> None:
    if g.shape != (dimension, dimension):
        raise ValueError(f"A metric in {dimension} coordinates cannot be {g.rows} x {g.cols}.")
    if not all(_vanishes(entry) for entry in g - g.T):
        raise ValueError("The metric is not symmetric: g[i, j] and g[j, i] differ.")


def _vanishes(expr: sp.Expr) -> bool:
    """Whether an analytic expression is zero identically, judged at one generic point."""
    symbols = sorted(expr.free_symbols, key=str)
    value = sp.N(expr.subs({s: sp.Rational(1, sp.prime(n + 9)) for n, s in enumerate(symbols)}))
    return bool(value.is_finite) and bool(abs(value) < 1e-100)
