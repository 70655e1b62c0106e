r"""The metric of a neuron on arrays of floats: $c^2$, $a^2+b^2$ and their sum, stable in float64.

With $e = \delta/2$, $k = (\alpha/m)|r| = |c|\sqrt{a^2+b^2}$ and $h = \sqrt{e^2+k^2}$ these are
$h+e$, $h-e$ and $2h$. Whichever of $h+e$ and $h-e$ would cancel is computed as $k^2$ over the other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import sympy as sp

from analytic.expressions.opaque import Opaque, Table


class _OfNeuron(Opaque):
    """A function of (delta, r, m, alpha) whose order of operations matters."""

    straight_line = True

    @property
    def inputs(self) -> tuple[sp.Expr, ...]:
        return self.args

    def on_arrays(self, xp: Any, table: Table) -> Callable[..., Any]:
        def call(*values: Any) -> Any:
            # `Formula.at` leaves plain numbers among the arrays: convert them to the same dtype.
            like = next((v for v in values if hasattr(v, "dtype")), None)
            kind = {"dtype": xp.float64 if like is None else like.dtype}
            if hasattr(like, "new_tensor"):
                kind["device"] = like.device
            arrays = (v if hasattr(v, "dtype") else xp.asarray(v, **kind) for v in values)
            return self.value(xp, *arrays)

        return call

    @staticmethod
    def value(xp: Any, delta: Any, r: Any, m: Any, alpha: Any) -> Any:
        raise NotImplementedError


class c_squared_array(_OfNeuron):
    """c^2."""

    @staticmethod
    def value(xp: Any, delta: Any, r: Any, m: Any, alpha: Any) -> Any:
        e, k = delta / 2, abs(r) * (alpha / m)
        h, small = _hypot(xp, e, k), e < 0
        return xp.where(small, k * (k / xp.where(small, h - e, 1.0)), h + e)


class radial_rate_array(_OfNeuron):
    """(m/alpha)^2 (a^2 + b^2 + c^2), with one factor m/alpha inside the square root against overflow."""

    @staticmethod
    def value(xp: Any, delta: Any, r: Any, m: Any, alpha: Any) -> Any:
        scale = m / alpha
        return 2 * scale * _hypot(xp, scale * (delta / 2), r)


class angular_rate_array(_OfNeuron):
    """1 / (a^2 + b^2)."""

    @staticmethod
    def value(xp: Any, delta: Any, r: Any, m: Any, alpha: Any) -> Any:
        e, k = delta / 2, abs(r) * (alpha / m)
        h, small = _hypot(xp, e, k), e > 0
        return xp.where(small, (h + e) / xp.where(small, k, 1.0), 1.0) / xp.where(small, k, h - e)


def _hypot(xp: Any, p: Any, q: Any) -> Any:
    """sqrt(p^2 + q^2), with a gradient of 0 at the origin instead of NaN."""
    at_origin = (p == 0) & (q == 0)
    return xp.where(at_origin, 0.0, xp.hypot(xp.where(at_origin, 1.0, p), q))
