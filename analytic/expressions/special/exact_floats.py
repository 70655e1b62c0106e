"""Sums and products of floats without rounding error, as pairs of floats."""

from __future__ import annotations

from typing import Any

__all__ = ["halves", "product_error", "two_product", "two_sum"]


def halves(x: Any) -> tuple[Any, Any]:
    """x = high + low with halves short enough that their products are exact (Veltkamp)."""
    single = hasattr(x, "dtype") and x.dtype.itemsize == 4
    scaled = x * (4097.0 if single else 134217729.0)  # 2^12 + 1 and 2^27 + 1
    high = scaled - (scaled - x)
    return high, x - high


def two_product(x: Any, y: Any) -> tuple[Any, Any]:
    """x y as an unevaluated sum of two floats (Dekker)."""
    product = x * y
    return product, product_error(product, halves(x), halves(y))


def product_error(product: Any, x: tuple[Any, Any], y: tuple[Any, Any]) -> Any:
    """What a rounded product lacks, from the halves of its factors."""
    (a, b), (c, d) = x, y
    return ((a * c - product) + a * d + b * c) + b * d


def two_sum(x: Any, y: Any) -> tuple[Any, Any]:
    """x + y as an unevaluated sum of two floats (Knuth)."""
    total = x + y
    back = total - x
    return total, (x - (total - back)) + (y - back)
