"""Nodes and weights of exponential and double-exponential rules, computed once for each precision."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from mpmath import mp, mpf

__all__ = ["half_line", "radius", "segment"]

Rule = list[tuple[Any, Any]]  # (node, weight)


@lru_cache
def half_line(dps: int, spread: int = 0) -> Rule:
    """Nodes t = e^x of the integral over (0, inf), down to 10^-(dps + spread).

    A logarithmic scale resolves a feature at any t above that; the Gaussian factor that every
    integrand carries is analytic for |arg t| < pi/4, which sets the step.
    """
    with mp.workdps(dps + 10):
        h = mp.pi**2 / (3 * (dps + 4) * mp.log(10))
        low = -(dps + spread + 3) * mp.log(10)
        high = mp.log(mp.sqrt(2 * (dps + 4) * mp.log(10)) + 4)
        nodes = [mp.exp(low + k * h) for k in range(int((high - low) / h) + 1)]
        return [(t, h * t) for t in nodes]


@lru_cache
def segment(dps: int) -> Rule:
    """Tanh-sinh nodes on (0, 1), each by its distances to both ends, which stay exact when tiny."""
    with mp.workdps(dps + 10):
        reach = mp.asinh(2 * (dps + 3) * mp.log(10) / mp.pi)
        steps = 2 * dps + 16
        rule = []
        for k in range(-steps, steps + 1):
            x = k * reach / steps
            e = mp.exp(mp.pi * mp.sinh(x))
            weight = reach / steps * mp.pi * mp.cosh(x) * e / (1 + e) ** 2
            rule.append(((e / (1 + e), 1 / (1 + e)), weight))
        return rule


@lru_cache
def radius(dps: int) -> Rule:
    """Nodes for the radius of a standard normal pair, of density rho exp(-rho^2/2) on (0, inf)."""
    with mp.workdps(dps + 10):
        h, x, rule = mpf(3) / (3 * dps + 10), mpf(-7), []
        while x < 5:
            rho = mp.exp(x - mp.exp(-x))
            weight = h * (1 + mp.exp(-x)) * rho**2 * mp.exp(-(rho**2) / 2)
            if weight > mpf(10) ** (-2 * dps):
                rule.append((rho, weight))
            x += h
        return rule
