"""Claims about every relu.* formula, by a neuron found by bisection and derivatives of r and theta there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from mpmath import mp, mpf

from analytic.checks.claims import Claim, Point, sample
from analytic.relu_dynamics.metric import angular_rate, c_squared, radial_rate

__all__ = ["CLAIMS"]

ANGLE = mpf(2.5)  # arbitrary, with a < 0, where arctan(-b/a) would be a different angle

# |delta| and r of different sizes, both signs of each, delta = 0, and r = 0.
POINTS: tuple[Point, ...] = (
    {"delta": "-700", "r": "0.3", "m": 5, "alpha": "2.5"},
    {"delta": "900", "r": "-0.2", "m": 3, "alpha": "1.5"},
    {"delta": 0, "r": "-1.7", "m": 7, "alpha": "0.4"},
    {"delta": "-2.5", "r": 0, "m": 4, "alpha": "1.3"},
    *sample(radial_rate, 3),
)


def _squares(delta: Any, r: Any, m: Any, alpha: Any) -> tuple[Any, Any]:
    """c^2 and a^2 + b^2: the larger, L, by bisection of L (L - |delta|) = (alpha r/m)^2."""
    product, gap = (alpha * r / m) ** 2, abs(delta)
    low, high = gap, gap + mp.sqrt(product)
    while high - low > mp.eps * low:
        middle = (low + high) / 2
        low, high = (middle, high) if middle * (middle - gap) < product else (low, middle)
    small = product / high
    return (high, small) if delta > 0 else (small, high)


def _squared_gradient(f: Callable[..., Any], delta: Any, r: Any, m: Any, alpha: Any) -> Any:
    """|grad f|^2 for a function f of (a, b, c)."""
    with mp.workdps(2 * mp.dps):
        square, rest = _squares(delta, r, m, alpha)
        c, norm = mp.sign(r) * mp.sqrt(square), mp.sqrt(rest)
        z = norm * mp.cos(ANGLE), -norm * mp.sin(ANGLE), c
        orders = ((1, 0, 0), (0, 1, 0), (0, 0, 1))
        return mp.fsum(mp.diff(f, z, order) ** 2 for order in orders)


def _readout(**values: Any) -> Any:
    with mp.workdps(2 * mp.dps):
        return _squares(**values)[0]


def _radial(m: Any, alpha: Any, **values: Any) -> Any:
    def r(a: Any, b: Any, c: Any) -> Any:
        return m / alpha * c * mp.hypot(a, b)

    return _squared_gradient(r, m=m, alpha=alpha, **values)


def _angular(**values: Any) -> Any:
    return _squared_gradient(lambda a, b, c: mp.atan2(-b, a), **values)


def _claims() -> Iterator[Claim]:
    yield Claim(c_squared, "bisection", _readout, POINTS)
    yield Claim(radial_rate, "derivatives of r by (a, b, c)", _radial, POINTS)
    yield Claim(angular_rate, "derivatives of theta by (a, b, c)", _angular, POINTS)


CLAIMS = {"relu": _claims}
