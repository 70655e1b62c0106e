"""Functions that SymPy lacks: each has a symbolic head, a definition, and one body for arrays.

A head stands in expressions, differentiates and prints; `exact(...)` defines it by textbook
functions; `array(xp, ...)` evaluates it in floating point on numpy or torch (`xp`), without the
cancellation, overflow or 0/0 for which the head exists. Arguments named in `host` are plain
numbers, never arrays.
"""

import sympy as sp

from analytic.expressions.special.guards import (
    bernoulli,
    bounded_exp,
    expm1,
    gram_det,
    log1p,
    log_variance,
    off_origin,
    share,
    sine_excess,
    volume,
)  # fmt: skip
from analytic.expressions.special.pairs import monomial_pair, rectified_pair
from analytic.expressions.special.tails import scaled_tail, tail_bend, tail_corner, tail_step

HEADS: tuple[type[sp.Function], ...] = (
    share, expm1, log1p, sine_excess, gram_det, log_variance, volume, bernoulli, off_origin,
    monomial_pair, rectified_pair, scaled_tail, tail_step, tail_corner, tail_bend,
)  # fmt: skip

__all__ = [
    "HEADS", "bernoulli", "bounded_exp", "expm1", "gram_det", "log1p", "log_variance", "monomial_pair",
    "off_origin", "rectified_pair", "scaled_tail", "share", "sine_excess", "tail_bend", "tail_corner",
    "tail_step", "volume",
]  # fmt: skip
