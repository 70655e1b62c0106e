r"""Neurons under constant residuals: each moves by a Lorentz boost, from ray to ray.

With $w = (a, -b)$ and $g = \frac1\alpha\sum\rho_j\tilde x_j$ over the active samples a neuron obeys
$w' = -cg$, $c' = -\langle g, w\rangle$, which keeps $\delta = c^2 - |w|^2$. Both the motion and the time to
the next ray are closed forms. There a neuron crosses or, where both sides push it back, slides along the
ray, which is a boost too; where no sample is active, and at w = 0, it stops.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from numeric.relu_dynamics.rays import ORIGIN, ForceField, Rays
from numeric.relu_dynamics.trajectory import EVENT_KINDS

__all__ = ["Force", "Hits", "NeuronState", "advance", "boosted", "outputs", "start"]

CROSSING, SLIDING, LEAVING, DYING = range(len(EVENT_KINDS))
TINY = 1e-30


@dataclass(frozen=True, eq=False)
class NeuronState:
    """For each neuron, (m,): w = (a, d) with d = -b, its readout c, and its mode (see `rays`)."""

    a: Tensor
    d: Tensor
    c: Tensor
    mode: Tensor

    def of(self, index: Tensor) -> NeuronState:
        return NeuronState(self.a[index], self.d[index], self.c[index], self.mode[index])

    def put(self, index: Tensor, state: NeuronState) -> NeuronState:
        pairs = ((self.a, state.a), (self.d, state.d), (self.c, state.c), (self.mode, state.mode))
        return NeuronState(*(whole.index_copy(0, index, part) for whole, part in pairs))


@dataclass(frozen=True, eq=False)
class Force:
    """The force on each neuron: g (2, m), |g| and <g, w> (m,)."""

    g: Tensor
    size: Tensor
    dot: Tensor


@dataclass(frozen=True, eq=False)
class Hits:
    """Changes of mode, (h,): the time, the neuron, the ray, and the kind as an index of EVENT_KINDS."""

    time: Tensor
    neuron: Tensor
    ray: Tensor
    kind: Tensor


def start(rays: Rays, a: Tensor, b: Tensor, c: Tensor) -> NeuronState:
    return NeuronState(a, -b, c, rays.samples.patterns(a, b) % rays.count)


def outputs(rays: Rays, state: NeuronState) -> Tensor:
    """f at the samples, from right to left."""
    patterns = rays.pattern[state.mode]
    return rays.samples.outputs(state.a, -state.d, state.c, patterns) / rays.alpha


def advance(
    rays: Rays, delta: Tensor, state: NeuronState, residuals: Tensor, span: Tensor | float
) -> tuple[NeuronState, list[Hits]]:
    """The state after a span of time, one for all or one for each neuron, at constant residuals."""
    field = rays.field(residuals)
    moving, hits = _released(rays, field, state)
    whole = span * torch.ones_like(state.a)
    left, index = whole, torch.arange(len(whole), device=whole.device)
    # A constant force drives no neuron around the origin more than once.
    for k in range(8 * rays.count):
        force = _force_on(field.force, moving)
        time, boundary = _next(rays, field, moving, force)
        moved = _moved(moving, force, torch.minimum(time, left))
        state = state.put(index, moved) if k else moved
        at = (time <= left).nonzero()[:, 0]
        if not len(at):
            return _restore_delta(delta, state), hits
        moving, ray, kind = _at_boundary(rays, field, moved.of(at), boundary[at])
        index, left = index[at], (left - time)[at]
        hits.append(Hits(whole[index] - left, index, ray, kind))
    raise ArithmeticError(f"neuron {int(index[0])} met more rays in one step than there are.")


def boosted(force: Tensor, state: NeuronState, time: float) -> NeuronState:
    """Move every neuron for a time under the forces (2, 4s) without a change of mode."""
    return _moved(state, _force_on(force, state), time)


def _force_on(force: Tensor, state: NeuronState) -> Force:
    g = force[:, state.mode]
    return Force(g, torch.hypot(*g), g[0] * state.a + g[1] * state.d)


def _moved(state: NeuronState, force: Force, time: Tensor | float) -> NeuronState:
    rapidity = force.size * time
    sinh_term, cosh_term = time * _sinhc(rapidity), (time * _sinhc(rapidity / 2)) ** 2 / 2
    integral_c = state.c * sinh_term - force.dot * cosh_term
    c = state.c + force.size**2 * state.c * cosh_term - force.dot * sinh_term
    return NeuronState(
        state.a - force.g[0] * integral_c, state.d - force.g[1] * integral_c, c, state.mode
    )


def _released(rays: Rays, field: ForceField, state: NeuronState) -> tuple[NeuronState, list[Hits]]:
    """Release sliding neurons that the residuals no longer hold on their rays."""
    held = (state.mode >= rays.count).nonzero()[:, 0]
    ray = state.mode[held] - rays.count
    onward = rays.onward(field, ray, state.c[held])
    free = (onward < rays.count).nonzero()[:, 0]
    if not len(free):
        return state, []
    index, kind = held[free], torch.full_like(free, LEAVING)
    hits = Hits(torch.zeros_like(state.a[index]), index, ray[free], kind)
    return replace(state, mode=state.mode.index_copy(0, index, onward[free])), [hits]


def _next(rays: Rays, field: ForceField, state: NeuronState, force: Force) -> tuple[Tensor, Tensor]:
    """When each neuron meets a boundary, and which; infinite where it does not.

    The integral of c up to the boundary is J / |g|. With p = <w, g> / |g|, e = exp(|g| t) - 1 is the least
    positive root of (c - p) e^2 + 2 (c - J) e - 2 J = 0. A ray releases a neuron whose c changes its
    sign, at (1 + e)^2 = (p + c) / (p - c): the second boundary of a sliding neuron.
    """
    boundaries, toward = rays.boundaries[:, :, state.mode], field.toward[:, state.mode]
    height = boundaries[:, 0] * state.a + boundaries[:, 1] * state.d
    height = height.clamp(min=0)  # a neuron that rounding put beyond the boundary is on it
    c, J = state.c, height * force.size / toward
    p = force.dot / force.size.clamp(min=TINY)
    q = (c - J) + torch.copysign((c**2 + J * (J - 2 * p)).sqrt(), c - J)
    roots = torch.stack([q / (p - c), 2 * J / q])
    roots = torch.where(roots > 0, roots, torch.inf).amin(0)
    roots = torch.where((height == 0) & (c * toward > 0), 0.0, roots)
    sign_change = ((p + c) / (p - c)).sqrt() - 1
    roots[1] = torch.where((state.mode >= rays.count) & (sign_change > 0), sign_change, roots[1])
    time, boundary = roots.min(0)
    return torch.where(force.size > 0, torch.log1p(time) / force.size, torch.inf), boundary


def _at_boundary(
    rays: Rays, field: ForceField, state: NeuronState, boundary: Tensor
) -> tuple[NeuronState, Tensor, Tensor]:
    """Neurons at the boundaries that they have reached, in their new modes; their rays, and the kinds."""
    ray = rays.beyond[boundary, state.mode]
    inner = ray == ORIGIN
    c_is_zero = (
        state.mode >= rays.count
    ) & ~inner  # c = 0 there, so the sign of its derivative decides
    c = torch.where(c_is_zero, -_force_on(field.force, state).dot, state.c)
    ray = torch.where(inner, state.mode - rays.count, ray)
    length = rays.along(ray, state.a, state.d)
    if rays.count == 2:  # one sample: both boundaries of a half plane are one line, but two rays
        ray, length = torch.where(~inner & (length < 0), 1 - ray, ray), length.abs()
    dead = inner | (length <= 0)
    mode = torch.where(dead, 0, rays.onward(field, ray, c))
    kind = torch.where(mode == 0, DYING, torch.where(mode >= rays.count, SLIDING, CROSSING))
    a, d = rays.direction[:, ray] * torch.where(dead, 0.0, length)
    moved = NeuronState(a, d, torch.where(c_is_zero, 0.0, state.c), mode)
    return moved, ray, torch.where(c_is_zero, LEAVING, kind)


def _restore_delta(delta: Tensor, state: NeuronState) -> NeuronState:
    """Restore delta exactly: c is recomputed from w where delta >= 0, and else |w| from c."""
    square = state.a**2 + state.d**2
    above = delta >= 0
    c = torch.copysign((delta.clamp(min=0) + square).sqrt(), state.c)
    k = ((state.c**2 - delta).clamp(min=0) / square.clamp(min=TINY)).sqrt()
    return NeuronState(
        torch.where(above, state.a, k * state.a),
        torch.where(above, state.d, k * state.d),
        torch.where(above, c, state.c),
        state.mode,
    )


def _sinhc(z: Tensor) -> Tensor:
    z = z.clamp(min=TINY)
    return z.sinh() / z
