"""Recursions of single layers: (6), (12) and (13)."""

from __future__ import annotations

from functools import cache
from typing import Any

import sympy as sp

from analytic.activations import monomial, polynomial
from analytic.checks.claims import Claim
from analytic.equivariant import GroupNetwork, dense, natural
from analytic.expressions.formula import Formula
from analytic.ledger.equivariant.averages import (
    LIFTING,
    PERMUTATIONS,
    SUPPORT,
    at_elements,
    means,
    pair_average,
    phi,
    pooled,
    slope,
)
from analytic.ledger.verification import Verification, holds, real_symbols

__all__ = ["ROUTES"]

F, H = real_symbols("f1 f2 f3"), real_symbols("h1 h2 h3")
SCALES = real_symbols("sigma_w sigma_b")
ARGS = (*F, *H, *SCALES)
POINT = {
    "f1": "1.3", "f2": "-0.7", "f3": "0.4", "h1": "0.9", "h2": "-1.1", "h3": "0.6",
    "sigma_w": "1.2", "sigma_b": "0.3",
}  # fmt: skip
ROUTE = "networks of one channel, averaged over all weights"

_net = GroupNetwork(
    natural(3),
    [polynomial([0, 1, 2])],
    *SCALES,
    lifting_support=LIFTING,
    support=[PERMUTATIONS.index(h) for h in SUPPORT],
)
_after = _net.layers(F, H)[-1]


def _claims(name: str, expressions: tuple[sp.Expr, sp.Expr], read: Any) -> list[Claim]:
    """NNGP and NTK of the package against averages over weights."""

    @cache
    def both(*point: tuple[str, Any]) -> tuple[Any, Any]:
        return means(dict(point), read)

    def oracle(which: int, values: dict[str, Any]) -> Any:
        return both(*values.items())[which]

    return [
        Claim(
            Formula(f"{kernel} after {name}", ARGS, expr),
            ROUTE,
            lambda which=which, **values: oracle(which, values),
            (POINT,),
        )
        for which, (kernel, expr) in enumerate(zip(("NNGP", "NTK"), expressions, strict=True))
    ]


def _nonlinearity() -> Verification:
    """(6) where an even activation comes second: of both points the NTK before it and the NNGP after it are
    the same, and the NTK after it is opposite, so that no B of these two exists."""
    args = real_symbols("kxx kxy kyy")
    before = dense(*args).through(polynomial([0, 1, 2])).convolved((0,), sp.S.One, sp.S.Zero)
    even = before.through(monomial(2))

    def oracle(kxx: Any, kxy: Any, kyy: Any) -> Any:
        """Both layers averaged over Gaussian preactivations, the second phi being u^2/sqrt 3."""
        values = pair_average(
            lambda u, v: [phi(u) ** 2, phi(u) * phi(v), phi(v) ** 2, slope(u) * slope(v)],
            (kxx, kxy, kyy),
        )
        tangent = values[1] + values[3] * kxy
        return pair_average(lambda u, v: [4 * u * v / 3], values[:3])[0] * tangent

    points = tuple({"kxx": "7/72", "kxy": k, "kyy": "1/16"} for k in ("-1/16", "-1/48"))
    formula = Formula("NTK after an even nonlinearity", args, even.ntk[0][0])
    # All that the NNGP after the layer tells of K is its size.
    size = sp.sqrt((3 * even.nngp[0][0] - before.first[0] * before.second[0]) / 2)
    printed = Formula(
        "NTK by the NNGP after the layer", args, sp.Rational(4, 3) * size * before.ntk[0][0]
    )
    claim = Claim(formula, "averages over preactivations, layer by layer", oracle, points)
    return Verification((claim, *_convolution, *_pooling), printed)


_convolution = _claims("convolution", (_after.nngp[1][4], _after.ntk[1][4]), at_elements)
_pooling = _claims("pooling", _after.pooled(), pooled)
_nngp, _ntk = _after.pooled()
ROUTES: dict[str, Verification] = {
    "equivariant-ntk/6": _nonlinearity(),
    "equivariant-ntk/12": holds(*_convolution),
    "equivariant-ntk/13": Verification(
        tuple(_pooling), Formula("the double integral over one volume", ARGS, 6 * _nngp)
    ),
}
