"""Gaussian expectations on float arrays, numpy or torch, each with an error estimate."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

from mpmath import mp, mpf

from analytic.quadrature.rules import segment

Function = Callable[[Any], Any]
REACH = 13.0  # the density of a standard normal is below 1e-37 beyond


@dataclass(frozen=True)
class Estimated:
    """A quadrature, and its difference to the same rule with half the nodes."""

    value: Any
    error: Any


def moment_array(
    xp: Any, f: Function, V: Any, power: int = 0, kinks: Sequence[float] = ()
) -> Estimated:
    r"""$E[t^k f(\sqrt V t)]$ for an array of V."""
    scale = xp.sqrt(V)[..., None]
    rule = _between_kinks if any(kinks) else _on_half_lines
    fine, coarse = (rule(xp, f, scale, power, kinks, step) for step in (1, 2))
    return Estimated(fine, abs(fine - coarse))


def _on_half_lines(
    xp: Any, f: Function, scale: Any, power: int, kinks: Sequence[float], step: int
) -> Any:
    t, weight = (_like(xp, scale, part[::step]) for part in _logarithmic())
    even = f(scale * t) + (-1) ** power * f(-scale * t)
    return step * (weight * t**power * even).sum(-1)


def _between_kinks(
    xp: Any, f: Function, scale: Any, power: int, kinks: Sequence[float], step: int
) -> Any:
    near, _, weight = (_like(xp, scale, part[::step]) for part in _unit())
    ends = [0.0 * scale - REACH, 0.0 * scale + REACH]
    cuts = [ends[0], *(xp.clip(b / scale, -REACH, REACH) for b in sorted({0.0, *kinks})), ends[1]]
    total = 0.0
    for left, right in pairwise(cuts):
        t = left + (right - left) * near
        density = xp.exp(-t * t / 2) * (1 / math.sqrt(2 * math.pi))
        total = total + ((right - left) * weight * t**power * f(scale * t) * density).sum(-1)
    return step * total


def pair_array(xp: Any, f: Function, g: Function, kxx: Any, kxy: Any, kyy: Any) -> Estimated:
    r"""$E[f(u) g(v)]$ for arrays of covariances; a kink may lie at zero."""
    from analytic.special import gram_det

    su, sv = xp.sqrt(kxx)[..., None], xp.sqrt(kyy)[..., None]
    angle = xp.atan2(xp.sqrt(gram_det.array(xp, kxx, kyy, kxy)), kxy)[..., None]

    def rule(step: int) -> Any:
        rho, law = (_like(xp, su, part[::step]) for part in _logarithmic(radial=True))
        total = 0.0 * angle[..., 0]
        for sign in (1, -1):
            for width, turn in ((math.pi - angle, 1), (angle, -1)):
                for near, far, p in zip(*(part[::step] for part in _unit()), strict=True):
                    cu = sign * su * xp.sin(width * near)
                    cv = turn * sign * sv * xp.sin(width * far)
                    ring = (law * f(cu * rho) * g(cv * rho)).sum(-1)
                    total = total + p * width[..., 0] * ring
        return step * step * total / (2 * math.pi)

    fine = rule(1)
    return Estimated(fine, abs(fine - rule(2)))


@lru_cache
def _logarithmic(radial: bool = False) -> tuple[list[float], list[float]]:
    """Nodes t = e^x from 1e-26 to 13 with the normal density, or the radius's, in the weights."""
    h = mpf(1) / (8 if radial else 16)
    count = 60 * (8 if radial else 16)
    nodes = [mp.exp(k * h) for k in range(-count, int(mp.log(13 if radial else 38) / h) + 1)]
    law = [t * mp.exp(-t * t / 2) if radial else mp.npdf(t) for t in nodes]
    return list(map(float, nodes)), [float(h * t * p) for t, p in zip(nodes, law, strict=True)]


@lru_cache
def _unit() -> tuple[list[float], list[float], list[float]]:
    """Distances to both ends and weights of the tanh-sinh rule on (0, 1)."""
    rows = [(float(near), float(far), float(weight)) for (near, far), weight in segment(24)]
    near, far, weight = zip(*rows, strict=True)
    return list(near), list(far), list(weight)


def _like(xp: Any, example: Any, values: Sequence[float]) -> Any:
    """A constant array with the dtype, and in torch the device, of an example."""
    if hasattr(example, "new_tensor"):
        return example.new_tensor(values)
    return xp.asarray(values, dtype=example.dtype)
