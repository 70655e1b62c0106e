r"""How residuals turn a neuron: the velocity field, its jumps at rays, and what each ray does.

With residuals $\rho_j = f(x_j) - y_j$ held fixed, a neuron of a pattern C feels $g = \sum_{j\in C}\rho_j
(x_j, 1)$: it moves by $-\partial_r V = -\langle g, d(\theta)\rangle$ and $-\partial_\theta V = -r\langle g,
t(\theta)\rangle$. At the ray of a sample only the second jumps. Corrected lemma 2: with S the sum of
$\rho_i(1 + x_ix_k)$ over the samples beyond $x_k$, i > k on its right ray and i < k on its left one, the
two sides push against each other where $S(S + \rho_k(1+x_k^2)) < 0$: an attractor if $r\rho_k > 0$, a
repulsor if $r\rho_k < 0$.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Any

import sympy as sp

from analytic.expressions.arguments import InputError
from analytic.expressions.symbols import x as X
from analytic.relu_dynamics.exact_numbers import rational, real
from analytic.relu_dynamics.neuron import Canonical
from analytic.relu_dynamics.regions import Ray, Samples


class Kind(Enum):
    """What a ray does to neurons of one sign on both its sides."""

    ATTRACTOR = "both sides come in, and what has come in slides along the ray"
    REPULSOR = "both sides leave"
    CROSSING = "one side comes in and leaves on the other"
    ABSORBING = "one side comes in, the other is still: the last ray before the dead arc"
    RELEASING = "one side leaves, the other is still: the same ray for the other sign"
    STILL = "neither side turns"


@dataclass(frozen=True)
class Field:
    """Samples and their residuals, in the order of the samples."""

    samples: Samples
    residuals: tuple[sp.Expr, ...]

    @staticmethod
    def of(x: Iterable[Any], residuals: Iterable[Any]) -> Field:
        """Pairs in any order of x."""
        places, rho = [rational(X, one) for one in x], [real("rho", one) for one in residuals]
        if len(places) != len(rho):
            raise InputError(
                f"{len(places)} samples and {len(rho)} residuals were given: give as many."
            )
        order = sorted(range(len(places)), key=places.__getitem__)
        return Field(Samples.of(places), tuple(rho[j] for j in order))

    def pull(self, pattern: Iterable[int]) -> tuple[sp.Expr, sp.Expr]:
        """g of an activation pattern."""
        seen = [(self.samples.x[k], self.residuals[k]) for k in pattern]
        return sp.Add(*(x * rho for x, rho in seen)), sp.Add(*(rho for _, rho in seen))

    def velocity(self, neuron: Canonical) -> tuple[sp.Expr, sp.Expr]:
        r"""$(\dot r, \dot\theta) = -\nabla V$ of (12), off the rays."""
        g = sp.Matrix(self.pull(self.samples.pattern(neuron.d)))
        return -g.dot(sp.Matrix(neuron.d)), -neuron.r * g.dot(sp.Matrix(neuron.t))

    def sides(self, ray: Ray) -> tuple[sp.Expr, sp.Expr]:
        r"""$\sqrt{1+x_k^2}\,\langle g, t(\theta)\rangle$ just before and just after the ray.

        These are S and $S + \rho_k(1+x_k^2)$ on a right ray, and their opposites, the other way
        round, on a left one.
        """
        k, x = ray.index, self.samples.x
        beyond = range(k + 1, len(x)) if ray.right else range(k)
        S = sp.Add(*(self.residuals[i] * (1 + x[i] * ray.x) for i in beyond))
        more = S + self.residuals[k] * (1 + ray.x**2)
        return (S, more) if ray.right else (-more, -S)

    def jump(self, ray: Ray, r: Any) -> sp.Expr:
        r"""Of the angular velocity as theta passes the ray: $-r\rho_k\sqrt{1+x_k^2}$, on every ray."""
        return -real("r", r) * self.residuals[ray.index] * sp.sqrt(1 + ray.x**2)

    def kind(self, ray: Ray, sign: int) -> Kind:
        """What the ray does to neurons whose r has this sign."""
        if sign not in (1, -1):
            raise InputError(f"sign = {sign!r} was given, but it must be 1 or -1, the sign of r.")
        before, after = (-sign * side for side in self.sides(ray))  # angular velocities
        if before and after:
            if before * after > 0:
                return Kind.CROSSING
            return Kind.ATTRACTOR if sign * self.residuals[ray.index] > 0 else Kind.REPULSOR
        if not before and not after:
            return Kind.STILL
        return Kind.ABSORBING if before > 0 or after < 0 else Kind.RELEASING
