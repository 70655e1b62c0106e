r"""The metric of a neuron in floats: $c^2$, $a^2+b^2$ and their sum without cancellation or overflow.

With $e = \delta/2$, $k = (\alpha/m)|r| = |c|\sqrt{a^2+b^2}$ and $h = \sqrt{e^2+k^2}$ these are
$h+e$, $h-e$ and $2h$; the one in which a minus sign would cost digits is $k^2$ over the other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import sympy as sp

from analytic.expressions.opaque import Opaque, Table


class _OfNeuron(Opaque):
    """A function of (delta, r, m, alpha) whose order of operations matters."""

    @property
    def inputs(self) -> tuple[sp.Expr, ...]:
        return self.args

    def on_arrays(self, xp: Any, table: Table) -> Callable[..., Any]:
        def call(*values: Any) -> Any:
            like = next((v for v in values if hasattr(v, "dtype")), None)  # `.at` leaves numbers
            kind = {"dtype": xp.float64 if like is None else like.dtype}
            if hasattr(like, "new_tensor"):
                kind["device"] = like.device
            arrays = (v if hasattr(v, "dtype") else xp.asarray(v, **kind) for v in values)
            return self.value(xp, *arrays)

        return call

    @staticmethod
    def value(xp: Any, delta: Any, r: Any, m: Any, alpha: Any) -> Any:
        raise NotImplementedError


class readout(_OfNeuron):
    """c^2."""

    @staticmethod
    def value(xp: Any, delta: Any, r: Any, m: Any, alpha: Any) -> Any:
        e, k = delta / 2, abs(r) * (alpha / m)
        h, small = _hypot(xp, e, k), e < 0
        return xp.where(small, k * (k / xp.where(small, h - e, 1.0)), h + e)


class spread(_OfNeuron):
    """(m/alpha)^2 (a^2 + b^2 + c^2), where one factor m/alpha stands inside the root."""

    @staticmethod
    def value(xp: Any, delta: Any, r: Any, m: Any, alpha: Any) -> Any:
        scale = m / alpha
        return 2 * scale * _hypot(xp, scale * (delta / 2), r)


class turning(_OfNeuron):
    """1 / (a^2 + b^2)."""

    @staticmethod
    def value(xp: Any, delta: Any, r: Any, m: Any, alpha: Any) -> Any:
        e, k = delta / 2, abs(r) * (alpha / m)
        h, small = _hypot(xp, e, k), e > 0
        return xp.where(small, (h + e) / xp.where(small, k, 1.0), 1.0) / xp.where(small, k, h - e)


def _hypot(xp: Any, p: Any, q: Any) -> Any:
    """The root of p^2 + q^2, whose slope at the origin is taken as 0."""
    nothing = (p == 0) & (q == 0)
    return xp.where(nothing, 0.0, xp.hypot(xp.where(nothing, 1.0, p), q))
