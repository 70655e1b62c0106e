"""Sums and products of floats without rounding error, as pairs of floats."""

from __future__ import annotations

import math
from typing import Any


def _split(xp: Any, x: Any) -> tuple[Any, Any]:
    """x = high + low with halves short enough that their products are exact (Veltkamp)."""
    bits = (2 - math.frexp(float(xp.finfo(x.dtype).eps))[1] + 1) // 2
    scaled = x * (2**bits + 1)
    high = scaled - (scaled - x)
    return high, x - high


def two_product(xp: Any, x: Any, y: Any) -> tuple[Any, Any]:
    """x y as an unevaluated sum of two floats (Dekker)."""
    (a, b), (c, d), p = _split(xp, x), _split(xp, y), x * y
    return p, ((a * c - p) + a * d + b * c) + b * d


def two_sum(x: Any, y: Any) -> tuple[Any, Any]:
    """x + y as an unevaluated sum of two floats (Knuth)."""
    total = x + y
    back = total - x
    return total, (x - (total - back)) + (y - back)
