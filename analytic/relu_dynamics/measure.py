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
from analytic.relu_dynamics.neuron import CanonicalNeuron, require_neurons
from analytic.relu_dynamics.regions import Samples
from analytic.relu_dynamics.velocity_field import VelocityField

__all__ = ["arc_moments", "residual_rates", "residuals"]


def residuals(
    samples: Samples, y: Iterable[RealNumber], neurons: Sequence[CanonicalNeuron]
) -> list[sp.Expr]:
    r"""Residuals $\rho_j = f(x_j) - y_j$ of $f(x) = \frac1m\sum_i r_i\langle(x, 1), d(\theta_i)\rangle_+$.

    samples: s of them. y: s targets, in the order of the samples. neurons: m of them.
    Returned are s expressions. Refused with an InputError are another number of targets, and m = 0.

    >>> residuals(Samples.of([0, 1]), [0, 1], [CanonicalNeuron(sp.sqrt(2), sp.pi / 4)])  # f(x) = x + 1
    [1, 1]
    """
    require_neurons(neurons)
    targets = [exact_real("y", value) for value in y]
    if len(targets) != len(samples.x):
        raise InputError(f"{len(samples.x)} samples and {len(targets)} targets were given.")
    differences = []
    for x, target in zip(samples.x, targets, strict=True):
        outputs = (one.r * sp.Max(0, _preactivation(x, one)) for one in neurons)
        differences.append(sum(outputs) / len(neurons) - target)
    return differences


def arc_moments(samples: Samples, neurons: Sequence[CanonicalNeuron]) -> list[sp.Matrix]:
    r"""The second moment $\Sigma_k = \int_{\mathbb{R}\times A_k} (r^2tt^T + dd^T)\,d\mu$ of each arc.

    samples: s of them. neurons: m of them, at least one, none of them on a ray.
    Returned are 2 s matrices (2, 2), in the order of `samples.arcs`. Refused with an InputError are m = 0,
    and neurons on a ray.

    >>> arc_moments(Samples.of([0]), [CanonicalNeuron(2, sp.pi / 2)])  # the arc active at 0, the dead one
    [Matrix([
    [4, 0],
    [0, 1]]), Matrix([
    [0, 0],
    [0, 0]])]
    """
    require_neurons(neurons)
    sums = {arc: sp.zeros(2) for arc in samples.arcs}
    for one in neurons:
        t, d = sp.Matrix(one.t), sp.Matrix(one.d)
        sums[samples.arc(one.d)] += (one.r**2 * t * t.T + d * d.T) / len(neurons)
    return list(sums.values())


def residual_rates(field: VelocityField, neurons: Sequence[CanonicalNeuron]) -> list[sp.Expr]:
    r"""The time derivative of every residual, by proposition 1.

    $\dot\rho_j = -(x_j, 1)\sum_k\Sigma_k g_k$ over the arcs k that are active at the sample j.

    field: the samples and their residuals. neurons: m of them, none of them on a ray.
    Returned are s expressions, in the order of the samples. Refused is what `arc_moments` refuses.

    >>> field = VelocityField.of([0, 1], [1, 1])
    >>> residual_rates(field, [CanonicalNeuron(sp.sqrt(2), sp.pi / 4)])
    [-5/2, -3]
    """
    samples = field.samples
    sums = [sp.zeros(2, 1) for _ in samples.x]
    for arc, moment in zip(samples.arcs, arc_moments(samples, neurons), strict=True):
        g = sp.Matrix(field.residual_sum(arc.pattern))
        for j in arc.pattern:
            sums[j] += moment * g
    return [-_lifted(x).dot(total) for x, total in zip(samples.x, sums, strict=True)]


def _lifted(x: Any) -> sp.Matrix:
    return sp.Matrix([x, 1])


def _preactivation(x: Any, neuron: CanonicalNeuron) -> sp.Expr:
    return _lifted(x).dot(sp.Matrix(neuron.d))
