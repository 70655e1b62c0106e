r"""A neuron whose g stands still moves by a Lorentz boost, and $\delta$ is its Minkowski norm.

With w = (a, -b), $\dot w = -cg/\alpha$ and $\dot c = -\langle w, g\rangle/\alpha$: the component p of w
along g and c turn into each other by the rapidity $|g|t/\alpha$, and what is across g stays, so that
the neuron runs on a hyperbola $c^2 - p^2 = \delta + w_\perp^2$. On the ray of a sample that attracts
it, the same holds with g projected to the ray.
"""

from __future__ import annotations

from typing import Any

import sympy as sp

from analytic.expressions.symbols import alpha as ALPHA
from analytic.relu_dynamics.exact_numbers import admitted, real
from analytic.relu_dynamics.neuron import Neuron
from analytic.relu_dynamics.regions import Ray

Pull = tuple[Any, Any]  # g, the sum of rho_j (x_j, 1) over the samples that the neuron sees


def boosted(neuron: Neuron, g: Pull, alpha: Any, t: Any) -> Neuron:
    """The neuron after the time t, exactly."""
    (g1, g2), alpha, t = (real("g", part) for part in g), admitted(ALPHA, alpha), real("t", t)
    size = sp.sqrt(g1**2 + g2**2)
    if size.is_zero:
        return neuron
    along = (neuron.a * g1 - neuron.b * g2) / size
    ch, sh = sp.cosh(size * t / alpha), sp.sinh(size * t / alpha)
    push = (along * (ch - 1) - neuron.c * sh) / size
    return Neuron(neuron.a + push * g1, neuron.b - push * g2, neuron.c * ch - along * sh)


def descended(neuron: Neuron, g: Pull, alpha: Any, eta: Any) -> Neuron:
    r"""One step of gradient descent, which multiplies $c^2 - p^2$ by $1 - (\eta|g|/\alpha)^2$."""
    (g1, g2), step = (real("g", part) for part in g), real("eta", eta) / admitted(ALPHA, alpha)
    a, b, c = neuron.a, neuron.b, neuron.c
    return Neuron(a - step * c * g1, b + step * c * g2, c - step * (a * g1 - b * g2))


def along(ray: Ray, g: Pull) -> Pull:
    """g projected to a ray: the same for the patterns on both its sides."""
    u, v = ray.direction
    share = (u * real("g", g[0]) + v * real("g", g[1])) / (1 + ray.x**2)
    return share * u, share * v
