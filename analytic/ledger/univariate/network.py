"""Networks of a few neurons in numbers, and derivatives along their gradient flow, for the oracles."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mpmath import mp

from analytic.ledger.verification import shifted

__all__ = ["Map", "Vector", "canonical", "downhill", "full", "gradient", "loss", "rate"]

Vector = Sequence[Any]
Data = Sequence[tuple[Any, Any]]  # (x, y)
Model = Callable[[Vector, Any], Any]  # parameters and input to output
Map = Callable[[Vector], Any]


def full(alpha: Any) -> Model:
    """(1), of parameters (a, b, c, a, b, c, ...)."""

    def output(z: Vector, x: Any) -> Any:
        units = zip(z[::3], z[1::3], z[2::3], strict=True)
        return sum(c * max(a * x - b, 0) for a, b, c in units) / alpha

    return output


def canonical(w: Vector, x: Any) -> Any:
    """(4), of parameters (r, theta, r, theta, ...)."""
    units = zip(w[::2], w[1::2], strict=True)
    return 2 * sum(r * max(x * mp.cos(t) + mp.sin(t), 0) for r, t in units) / len(w)


def loss(model: Model, data: Data) -> Map:
    return lambda z: sum((model(z, x) - y) ** 2 for x, y in data) / 2


def gradient(f: Map, z: Vector) -> list[Any]:
    return [mp.diff(lambda t, k=k: f([*z[:k], t, *z[k + 1 :]]), z[k]) for k in range(len(z))]


def rate(of: Map, z: Vector, velocity: Vector) -> Any:
    """The derivative of a function of the parameters that move with this velocity."""
    return mp.diff(lambda t: of(shifted(z, velocity, t)), 0)


def downhill(f: Map, z: Vector, speed: Any = 1) -> list[Any]:
    """The velocity of gradient flow, `speed` times as fast."""
    return [-speed * part for part in gradient(f, z)]
