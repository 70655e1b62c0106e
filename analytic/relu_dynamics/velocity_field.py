r"""The velocity field of a neuron for fixed residuals, its jumps at rays, and the kinds of rays.

With residuals $\rho_j = f(x_j) - y_j$ held fixed, a neuron that is active at the samples C has
$g = \sum_{j\in C}\rho_j (x_j, 1)$ and the velocity $-\partial_r V = -\langle g, d(\theta)\rangle$,
$-\partial_\theta V = -r\langle g, t(\theta)\rangle$. At the ray of a sample only the angular velocity jumps.
Corrected lemma 2: let S be the sum of $\rho_i(1 + x_ix_k)$ over the samples beyond $x_k$, i > k on its
right ray and i < k on its left one. The angular velocities on the two sides have opposite signs where
$S(S + \rho_k(1+x_k^2)) < 0$: the ray is an attractor if $r\rho_k > 0$, a repulsor if $r\rho_k < 0$.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

import sympy as sp

from analytic.expressions.arguments import InputError, Number, RealNumber, listed
from analytic.expressions.symbols import x as X
from analytic.relu_dynamics.exact_numbers import exact_rational, exact_real
from analytic.relu_dynamics.neuron import CanonicalNeuron
from analytic.relu_dynamics.regions import Ray, Samples

__all__ = ["RayKind", "VelocityField"]


class RayKind(Enum):
    """How neurons with one sign of r move near a ray."""

    ATTRACTOR = "neurons on both sides move to the ray, and then slide along it"
    REPULSOR = "neurons on both sides move away"
    CROSSING = "neurons pass through the ray in one direction"
    ABSORBING = (
        "neurons on one side move to the ray, on the other they do not turn, as in the dead arc"
    )
    RELEASING = "neurons on one side move away, on the other they do not turn, as in the dead arc"
    STILL = "neurons on neither side turn"


@dataclass(frozen=True)
class VelocityField:
    """Samples in increasing order, and their residuals in the same order."""

    samples: Samples
    residuals: tuple[sp.Expr, ...]

    @staticmethod
    def of(x: Iterable[Number], residuals: Iterable[RealNumber]) -> VelocityField:
        """From inputs in any order, with one residual for each."""
        places, rho = (
            [exact_rational(X, one) for one in listed("x", x)],
            [exact_real("rho", one) for one in listed("residuals", residuals)],
        )
        if len(places) != len(rho):
            raise InputError(
                f"{len(places)} samples and {len(rho)} residuals were given: give as many."
            )
        order = sorted(range(len(places)), key=places.__getitem__)
        return VelocityField(Samples.of(places), tuple(rho[j] for j in order))

    def residual_sum(self, pattern: Iterable[int]) -> tuple[sp.Expr, sp.Expr]:
        """g, the sum of rho_j (x_j, 1) over the samples of an activation pattern."""
        active = [(self.samples.x[k], self.residuals[k]) for k in pattern]
        return sp.Add(*(x * rho for x, rho in active)), sp.Add(*(rho for _, rho in active))

    def velocity(self, neuron: CanonicalNeuron) -> tuple[sp.Expr, sp.Expr]:
        r"""$(\dot r, \dot\theta) = -\nabla V$ of (12), for a neuron that is not on a ray."""
        g = sp.Matrix(self.residual_sum(self.samples.pattern(neuron.d)))
        return -g.dot(sp.Matrix(neuron.d)), -neuron.r * g.dot(sp.Matrix(neuron.t))

    def sides(self, ray: Ray) -> tuple[sp.Expr, sp.Expr]:
        r"""$\sqrt{1+x_k^2}\,\langle g, t(\theta)\rangle$ just before and just after the ray.

        On a right ray these are S and $S + \rho_k(1+x_k^2)$, on a left ray $-S - \rho_k(1+x_k^2)$ and -S.
        """
        k, x = ray.index, self.samples.x
        beyond = range(k + 1, len(x)) if ray.right else range(k)
        S = sp.Add(*(self.residuals[i] * (1 + x[i] * ray.x) for i in beyond))
        more = S + self.residuals[k] * (1 + ray.x**2)
        return (S, more) if ray.right else (-more, -S)

    def jump(self, ray: Ray, r: RealNumber) -> sp.Expr:
        r"""The jump of the angular velocity as theta increases past the ray: $-r\rho_k\sqrt{1+x_k^2}$."""
        return -exact_real("r", r) * self.residuals[ray.index] * sp.sqrt(1 + ray.x**2)

    def kind(self, ray: Ray, sign: int) -> RayKind:
        """The kind of the ray for neurons whose r has this sign."""
        if sign not in (1, -1):
            raise InputError(f"sign = {sign!r} was given, but it must be 1 or -1, the sign of r.")
        before, after = (-sign * side for side in self.sides(ray))  # angular velocities
        if before and after:
            if before * after > 0:
                return RayKind.CROSSING
            return RayKind.ATTRACTOR if sign * self.residuals[ray.index] > 0 else RayKind.REPULSOR
        if not before and not after:
            return RayKind.STILL
        return RayKind.ABSORBING if before > 0 or after < 0 else RayKind.RELEASING
