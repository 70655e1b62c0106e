r"""The change of metric from full to canonical parameters of a neuron, corrected proposition 4.

A neuron $\frac1\alpha c[ax-b]_+$ is $\frac1m r\langle\tilde x, d(\theta)\rangle_+$ with
$r = \frac m\alpha c\sqrt{a^2+b^2}$, $\theta = \mathrm{atan2}(-b, a)$. Where (a, b, c) follow the gradient
flow of L, $(r, \theta)$ follow $-P\nabla\tilde L$ with $P = JJ^T$. As the flow conserves
$\delta = c^2-a^2-b^2$, P is a function of r alone.

In floats, with $e = \delta/2$, $k = (\alpha/m)|r| = |c|\sqrt{a^2+b^2}$ and $h = \sqrt{e^2+k^2}$, the numbers
$c^2$, $a^2+b^2$ and their sum are $h+e$, $h-e$ and $2h$. Whichever of $h+e$ and $h-e$ would cancel is
computed as $k^2$ over the other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import sympy as sp
from sympy import Abs, sqrt

from analytic.expressions.arguments import Domain
from analytic.expressions.formula import Formula
from analytic.expressions.opaque import Opaque, Table, to_arrays
from analytic.expressions.symbols import alpha, charge, delta, m

__all__ = [
    "ARGS", "adaptive_limit", "angular_rate", "angular_rate_array", "c_squared", "c_squared_array",
    "change_of_metric", "kernel_limit", "radial_rate", "radial_rate_array",
]  # fmt: skip


class _OfNeuron(Opaque):
    """A function of (delta, r, m, alpha) whose order of operations matters."""

    straight_line = True

    @property
    def inputs(self) -> tuple[sp.Expr, ...]:
        return self.args

    def on_arrays(self, xp: Any, table: Table) -> Callable[..., Any]:
        return lambda *values: self.value(xp, *to_arrays(xp, values))

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


SOURCE = "Williams et al., proposition 4 and lemma 7, corrected"
ARGS = (delta, charge, m, alpha)
_size = sqrt(delta**2 + 4 * (alpha * charge / m) ** 2)  # a^2 + b^2 + c^2

c_squared = Formula(
    "relu.c_squared", ARGS, (delta + _size) / 2, citation=SOURCE, stable=c_squared_array(*ARGS)
)
radial_rate = Formula(
    "relu.radial_rate",
    ARGS,
    (m / alpha) ** 2 * _size,
    citation=SOURCE,
    stable=radial_rate_array(*ARGS),
)
angular_rate = Formula(
    "relu.angular_rate",
    ARGS,
    2 / (_size - delta),
    Domain(
        (Abs(charge) + Abs(delta) - delta > 0,),
        "r = 0 with delta >= 0 leaves a = b = 0, where a neuron has no angle",
    ),
    SOURCE,
    stable=angular_rate_array(*ARGS),
)


def change_of_metric() -> sp.Matrix:
    r"""P of a neuron in (r, theta), as a function of delta, r, m and alpha.

    $P = \mathrm{diag}\big((m/\alpha)^2(a^2+b^2+c^2),\ 1/(a^2+b^2)\big)$, the entries of `radial_rate` and
    `angular_rate`. Returned is a matrix (2, 2); it has no arguments, and refuses nothing.

    >>> change_of_metric().subs({delta: 0, charge: 2, m: 1, alpha: 1})
    Matrix([
    [4,   0],
    [0, 1/2]])
    """
    return sp.diag(radial_rate.expr, angular_rate.expr)


def kernel_limit() -> sp.Matrix:
    r"""$\lim_{\delta\to-\infty} P/|\delta|$: the angles are constant, only the readout weights change.

    Returned is a matrix (2, 2) in m and alpha; it has no arguments, and refuses nothing.

    >>> kernel_limit()
    Matrix([
    [m**2/alpha**2, 0],
    [            0, 0]])
    """
    return sp.diag((m / alpha) ** 2, 0)


def adaptive_limit() -> sp.Matrix:
    r"""$\lim_{\delta\to\infty} P/\delta$: the Euclidean metric of $(u, v) = |r|d(\theta)$ up to a factor.

    Returned is a matrix (2, 2) in r, m and alpha; it has no arguments, and refuses nothing.

    >>> adaptive_limit()
    Matrix([
    [m**2/alpha**2,                    0],
    [            0, m**2/(alpha**2*r**2)]])
    """
    return (m / alpha) ** 2 * sp.diag(1, 1 / charge**2)
