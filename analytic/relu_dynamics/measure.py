r"""How residuals move: proposition 1 for the empirical measure of m canonical neurons.

In the time of (11), where $\dot w_i = -m\nabla_{w_i}\tilde L$, $\dot\rho_j = -\tilde x_j^T\sum_k
\Sigma_k g_k$ over the arcs k that see the sample j; by (7) itself everything is m times slower.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import sympy as sp

from analytic.expressions.arguments import InputError
from analytic.relu_dynamics.exact_numbers import real
from analytic.relu_dynamics.field import Field
from analytic.relu_dynamics.neuron import Canonical
from analytic.relu_dynamics.regions import Samples


def residuals(samples: Samples, y: Iterable[Any], neurons: Sequence[Canonical]) -> list[sp.Expr]:
    """f(x_j) - y_j, in the order of the samples."""
    _some(neurons)
    targets = [real("y", value) for value in y]
    if len(targets) != len(samples.x):
        raise InputError(f"{len(samples.x)} samples and {len(targets)} targets were given.")
    found = []
    for x, target in zip(samples.x, targets, strict=True):
        outputs = (one.r * sp.Max(0, _seen(x, one)) for one in neurons)
        found.append(sum(outputs) / len(neurons) - target)
    return found


def moments(samples: Samples, neurons: Sequence[Canonical]) -> list[sp.Matrix]:
    r"""$\Sigma_k = \int_{\mathbb{R}\times A_k} (r^2tt^T + dd^T)\,d\mu$ of each arc, not centred."""
    _some(neurons)
    found = {arc: sp.zeros(2) for arc in samples.arcs}
    for one in neurons:
        t, d = sp.Matrix(one.t), sp.Matrix(one.d)
        found[samples.arc(one.d)] += (one.r**2 * t * t.T + d * d.T) / len(neurons)
    return list(found.values())


def rates(field: Field, neurons: Sequence[Canonical]) -> list[sp.Expr]:
    """The derivatives of all residuals by time, by proposition 1."""
    samples = field.samples
    sums = [sp.zeros(2, 1) for _ in samples.x]
    for arc, moment in zip(samples.arcs, moments(samples, neurons), strict=True):
        pull = sp.Matrix(field.pull(arc.pattern))
        for j in arc.pattern:
            sums[j] += moment * pull
    return [-_lifted(x).dot(total) for x, total in zip(samples.x, sums, strict=True)]


def _some(neurons: Sequence[Canonical]) -> None:
    if not neurons:
        raise InputError("m = 0 neurons were given, but at least one is needed.")


def _lifted(x: Any) -> sp.Matrix:
    return sp.Matrix([x, 1])


def _seen(x: Any, neuron: Canonical) -> sp.Expr:
    return _lifted(x).dot(sp.Matrix(neuron.d))
