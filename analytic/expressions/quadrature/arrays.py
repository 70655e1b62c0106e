"""Gaussian expectations on float arrays, numpy or torch, each with an error estimate."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

from mpmath import mp, mpf

from analytic.expressions.quadrature.rules import segment

__all__ = ["Estimated", "like", "moment_array", "pair_array", "unit"]

Function = Callable[[Any], Any]
REACH = 13.0  # the density of a standard normal is below 1e-37 beyond


@dataclass(frozen=True)
class Estimated:
    """A quadrature, its difference to the same rule with half the nodes, and the size to compare it with.

    The size is the sum of absolute terms in a one-point average, and (E[f^2] + E[g^2])/2 in a two-point.
    """

    value: Any
    error: Any
    size: Any

    def require_converged(self) -> Any:
        """The value, unless half the nodes give fewer than four digits: all give about twice as many."""
        on_host = getattr(getattr(self.error, "device", None), "type", "cpu") == "cpu"
        if on_host and (self.error > 1e-4 * self.size).any():
            raise ArithmeticError(
                "A Gaussian average did not converge in floats: the function is too steep or oscillates too "
                "fast for its variance; lower the variance, or evaluate it with mpmath."
            )
        return self.value


def moment_array(
    xp: Any, f: Function, V: Any, power: int = 0, kinks: Sequence[float] = ()
) -> Estimated:
    r"""$E[t^k f(\sqrt V t)]$ for an array of V."""
    scale = xp.sqrt(V)[..., None]
    terms = (
        _between_kinks(xp, f, scale, power, kinks)
        if any(kinks)
        else _on_half_lines(xp, f, scale, power)
    )
    fine = sum(part.sum(-1) for part in terms)
    coarse = sum(2 * part[..., ::2].sum(-1) for part in terms)
    return Estimated(fine, abs(fine - coarse), sum(abs(part).sum(-1) for part in terms))


def _on_half_lines(xp: Any, f: Function, scale: Any, power: int) -> list[Any]:
    """Weighted values along the last axis, the sum of both half-lines."""
    t, weight = (like(xp, scale, part) for part in _logarithmic())
    return [weight * t**power * (f(scale * t) + (-1) ** power * f(-scale * t))]


def _between_kinks(
    xp: Any, f: Function, scale: Any, power: int, kinks: Sequence[float]
) -> list[Any]:
    """Weighted values along the last axis, one array for each piece of the line."""
    near, _, weight = (like(xp, scale, part) for part in unit())
    ends = [0.0 * scale - REACH, 0.0 * scale + REACH]
    cuts = [ends[0], *(xp.clip(b / scale, -REACH, REACH) for b in sorted({0.0, *kinks})), ends[1]]
    pieces = []
    for left, right in pairwise(cuts):
        t = left + (right - left) * near
        density = xp.exp(-t * t / 2) / math.sqrt(2 * math.pi)
        pieces.append((right - left) * weight * t**power * f(scale * t) * density)
    return pieces


def pair_array(xp: Any, f: Function, g: Function, kxx: Any, kxy: Any, kyy: Any) -> Estimated:
    r"""$E[f(u) g(v)]$ for arrays of covariances; a kink may lie at zero."""
    from analytic.expressions.special import gram_det

    su, sv = xp.sqrt(kxx)[..., None], xp.sqrt(kyy)[..., None]
    angle = xp.atan2(xp.sqrt(gram_det.array(xp, kxx, kyy, kxy)), kxy)[..., None]

    def rule(step: int) -> tuple[Any, Any]:
        rho, law = (like(xp, su, part[::step]) for part in _logarithmic(radial=True))
        total, size = 0.0 * angle[..., 0], 0.0 * angle[..., 0]
        for sign in (1, -1):
            for width, relative_sign in ((math.pi - angle, 1), (angle, -1)):
                for near, far, p in zip(*(part[::step] for part in unit()), strict=True):
                    cu = sign * su * xp.sin(width * near)
                    cv = relative_sign * sign * sv * xp.sin(width * far)
                    fu, gv = f(cu * rho), g(cv * rho)
                    arc = p * width[..., 0]
                    total = total + arc * (law * fu * gv).sum(-1)
                    size = size + arc * (law * (fu**2 + gv**2)).sum(-1) / 2
        front = step * step / (2 * math.pi)
        return front * total, front * size

    (fine, size), (coarse, _) = rule(1), rule(2)
    return Estimated(fine, abs(fine - coarse), size)


@lru_cache
def _logarithmic(radial: bool = False) -> tuple[list[float], list[float]]:
    """Nodes t = e^x from 1e-26 to 38 and weights for the normal density, or to 13 for that of a radius."""
    h = mpf(1) / (8 if radial else 16)
    count = 60 * (8 if radial else 16)
    nodes = [mp.exp(k * h) for k in range(-count, int(mp.log(13 if radial else 38) / h) + 1)]
    law = [t * mp.exp(-t * t / 2) if radial else mp.npdf(t) for t in nodes]
    return list(map(float, nodes)), [float(h * t * p) for t, p in zip(nodes, law, strict=True)]


@lru_cache
def unit(digits: int = 24) -> tuple[list[float], list[float], list[float]]:
    """Distances to both ends and weights of the tanh-sinh rule on (0, 1)."""
    rows = [(float(near), float(far), float(weight)) for (near, far), weight in segment(digits)]
    near, far, weight = zip(*rows, strict=True)
    return list(near), list(far), list(weight)


def like(xp: Any, example: Any, values: Sequence[float]) -> Any:
    """A constant array with the dtype, and in torch the device, of an example."""
    if hasattr(example, "new_tensor"):
        return example.new_tensor(values)
    return xp.asarray(values, dtype=example.dtype)
