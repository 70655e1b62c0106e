r"""While g is constant, a neuron moves by a Lorentz boost, and $\delta$ is its Minkowski norm.

With w = (a, -b), $\dot w = -cg/\alpha$ and $\dot c = -\langle w, g\rangle/\alpha$. The component p of w
along g and c undergo a boost of rapidity $|g|t/\alpha$; the component of w orthogonal to g is constant.
So the neuron moves on the hyperbola $c^2 - p^2 = \delta + w_\perp^2$. When it slides along the ray of a
sample that attracts it, the same holds with g projected to the ray.
"""

from __future__ import annotations

from typing import Any

import sympy as sp

from analytic.expressions.arguments import RealNumber
from analytic.expressions.symbols import alpha as ALPHA
from analytic.relu_dynamics.exact_numbers import exact_or_symbolic, exact_real
from analytic.relu_dynamics.neuron import Neuron
from analytic.relu_dynamics.regions import Ray

__all__ = ["descent_step", "lorentz_boost", "project_to_ray"]

ResidualSum = tuple[
    Any, Any
]  # g, the sum of rho_j (x_j, 1) over the samples where the neuron is active


def lorentz_boost(neuron: Neuron, g: ResidualSum, alpha: RealNumber, t: RealNumber) -> Neuron:
    r"""The neuron after gradient flow for the time t with constant g, exactly.

    With p, the component of w = (a, -b) along g, and $s = |g|t/\alpha$: $p \to p\cosh s - c\sinh s$ and
    $c \to c\cosh s - p\sinh s$; delta stays.

    neuron: a Neuron. g: two numbers, the sum of rho_j (x_j, 1) over the samples where it is active.
    alpha: above 0. t: of any sign.
    Returned is a Neuron. Refused with an InputError are numbers that are not real, and alpha not above 0.

    >>> later = lorentz_boost(Neuron(0, 0, 1), g=(1, 0), alpha=1, t=2)
    >>> later
    Neuron(a=-sinh(2), b=0, c=cosh(2))
    >>> sp.simplify(later.delta)
    1
    """
    (g1, g2), alpha, t = (
        (exact_real("g", part) for part in g),
        exact_or_symbolic(ALPHA, alpha),
        exact_real("t", t),
    )
    size = sp.sqrt(g1**2 + g2**2)
    if size.is_zero:
        return neuron
    p = (neuron.a * g1 - neuron.b * g2) / size
    ch, sh = sp.cosh(size * t / alpha), sp.sinh(size * t / alpha)
    change = (p * (ch - 1) - neuron.c * sh) / size
    return Neuron(neuron.a + change * g1, neuron.b - change * g2, neuron.c * ch - p * sh)


def descent_step(neuron: Neuron, g: ResidualSum, alpha: RealNumber, eta: RealNumber) -> Neuron:
    r"""One step of gradient descent, which multiplies $c^2 - p^2$ by $1 - (\eta|g|/\alpha)^2$.

    With w = (a, -b): $w \to w - \eta cg/\alpha$ and $c \to c - \eta\langle w, g\rangle/\alpha$.

    neuron, g, alpha: as in `lorentz_boost`. eta: the learning rate.
    Returned is a Neuron. Refused is what `lorentz_boost` refuses.

    >>> after = descent_step(Neuron(0, 0, 1), g=(1, 0), alpha=1, eta="1/10")
    >>> after, after.delta
    (Neuron(a=-1/10, b=0, c=1), 99/100)
    """
    (g1, g2), step = (
        (exact_real("g", part) for part in g),
        exact_real("eta", eta) / exact_or_symbolic(ALPHA, alpha),
    )
    a, b, c = neuron.a, neuron.b, neuron.c
    return Neuron(a - step * c * g1, b + step * c * g2, c - step * (a * g1 - b * g2))


def project_to_ray(ray: Ray, g: ResidualSum) -> ResidualSum:
    r"""The component of g along a ray; it is the same for the activation patterns on both sides.

    $\langle g, d\rangle d$, with d the unit vector of the ray.

    ray: one of `Samples.rays`. g: two numbers, as in `lorentz_boost`.
    Returned are the two components. Refused with an InputError are numbers that are not real.

    >>> from analytic.relu_dynamics.regions import Samples
    >>> project_to_ray(Samples.of([0, 1]).rays[0], g=(1, 0))  # neurons with a > 0 and their knot at 1
    (1/2, -1/2)
    """
    u, v = ray.direction
    share = (u * exact_real("g", g[0]) + v * exact_real("g", g[1])) / (1 + ray.x**2)
    return share * u, share * v
