r"""The change of metric from full to canonical parameters of a neuron, corrected proposition 4.

A neuron $\frac1\alpha c[ax-b]_+$ is $\frac1m r\langle\tilde x, d(\theta)\rangle_+$ with
$r = \frac m\alpha c\sqrt{a^2+b^2}$, $\theta = \mathrm{atan2}(-b, a)$. Where (a, b, c) follow the gradient
flow of L, $(r, \theta)$ follow $-P\nabla\tilde L$ with $P = JJ^T$. As the flow conserves
$\delta = c^2-a^2-b^2$, P is a function of r alone.
"""

from __future__ import annotations

import sympy as sp
from sympy import Abs, sqrt

from analytic.expressions.arguments import Domain
from analytic.expressions.formula import Formula
from analytic.expressions.symbols import alpha, charge, delta, m
from analytic.relu_dynamics.metric_floats import (
    angular_rate_array,
    c_squared_array,
    radial_rate_array,
)

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
    """P of a neuron in (r, theta), as a function of delta, r, m and alpha."""
    return sp.diag(radial_rate.expr, angular_rate.expr)


def kernel_limit() -> sp.Matrix:
    r"""$\lim_{\delta\to-\infty} P/|\delta|$: the angles are constant, only the readout weights change."""
    return sp.diag((m / alpha) ** 2, 0)


def adaptive_limit() -> sp.Matrix:
    r"""$\lim_{\delta\to\infty} P/\delta$: the Euclidean metric of $(u, v) = |r|d(\theta)$ up to a factor."""
    return (m / alpha) ** 2 * sp.diag(1, 1 / charge**2)
