r"""The rates of the residuals: proposition 1 for the empirical measure of m canonical neurons.

In the time of (11), where $\dot w_i = -m\nabla_{w_i}\tilde L$, $\dot\rho_j = -\tilde x_j^T\sum_k
\Sigma_k g_k$ over the arcs k that are active at the sample j; with the flow (7) it is m times slower.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import sympy as sp

from analytic.expressions.arguments import InputError, RealNumber
from analytic.relu_dynamics.exact_numbers import exact_real
from analytic.relu_dynamics.neuron import CanonicalNeuron
from analytic.relu_dynamics.regions import Samples
from analytic.relu_dynamics.velocity_field import VelocityField

__all__ = ["arc_moments", "residual_rates", "residuals"]


def residuals(
    samples: Samples, y: Iterable[RealNumber], neurons: Sequence[CanonicalNeuron]
) -> list[sp.Expr]:
    """f(x_j) - y_j, in the order of the samples."""
    _require_neurons(neurons)
    targets = [exact_real("y", value) for value in y]
    if len(targets) != len(samples.x):
        raise InputError(f"{len(samples.x)} samples and {len(targets)} targets were given.")
    differences = []
    for x, target in zip(samples.x, targets, strict=True):
        outputs = (one.r * sp.Max(0, _preactivation(x, one)) for one in neurons)
        differences.append(sum(outputs) / len(neurons) - target)
    return differences


def arc_moments(samples: Samples, neurons: Sequence[CanonicalNeuron]) -> list[sp.Matrix]:
    r"""The second moment $\Sigma_k = \int_{\mathbb{R}\times A_k} (r^2tt^T + dd^T)\,d\mu$ of each arc."""
    _require_neurons(neurons)
    sums = {arc: sp.zeros(2) for arc in samples.arcs}
    for one in neurons:
        t, d = sp.Matrix(one.t), sp.Matrix(one.d)
        sums[samples.arc(one.d)] += (one.r**2 * t * t.T + d * d.T) / len(neurons)
    return list(sums.values())


def residual_rates(field: VelocityField, neurons: Sequence[CanonicalNeuron]) -> list[sp.Expr]:
    """The time derivative of every residual, by proposition 1."""
    samples = field.samples
    sums = [sp.zeros(2, 1) for _ in samples.x]
    for arc, moment in zip(samples.arcs, arc_moments(samples, neurons), strict=True):
        g = sp.Matrix(field.residual_sum(arc.pattern))
        for j in arc.pattern:
            sums[j] += moment * g
    return [-_lifted(x).dot(total) for x, total in zip(samples.x, sums, strict=True)]


def _require_neurons(neurons: Sequence[CanonicalNeuron]) -> None:
    if not neurons:
        raise InputError("m = 0 neurons were given, but at least one is needed.")


def _lifted(x: Any) -> sp.Matrix:
    return sp.Matrix([x, 1])


def _preactivation(x: Any, neuron: CanonicalNeuron) -> sp.Expr:
    return _lifted(x).dot(sp.Matrix(neuron.d))
