r"""Neurons under residuals that stand still: each makes a Lorentz boost, from ray to ray.

With $w = (a, -b)$ and $g = \frac1\alpha\sum\rho_j\tilde x_j$ over the active samples a neuron obeys
$w' = -cg$, $c' = -\langle g, w\rangle$, which keeps $\delta = c^2 - |w|^2$. Both the motion and the time to
the next ray are closed forms. There a neuron crosses or, where both sides push it back, slides along the
ray, which is a boost too; where no sample is active, and at w = 0, it stops.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from numeric.relu_dynamics.rays import ORIGIN, Field, Rays
from numeric.relu_dynamics.trajectory import Kind

KINDS = (Kind.CROSSING, Kind.SLIDING, Kind.LEAVING, Kind.DYING)
TINY = 1e-30


@dataclass(frozen=True, eq=False)
class State:
    """Of each neuron, (m,): w = (a, d) with d = -b, its readout, and its mode."""

    a: Tensor
    d: Tensor
    c: Tensor
    mode: Tensor

    def of(self, who: Tensor) -> State:
        return State(self.a[who], self.d[who], self.c[who], self.mode[who])

    def put(self, who: Tensor, some: State) -> State:
        pairs = ((self.a, some.a), (self.d, some.d), (self.c, some.c), (self.mode, some.mode))
        return State(*(whole.index_copy(0, who, part) for whole, part in pairs))


@dataclass(frozen=True, eq=False)
class Hits:
    """Changes of mode, (h,): when, who, on which ray, and what, as an index of KINDS."""

    time: Tensor
    neuron: Tensor
    ray: Tensor
    kind: Tensor


def start(rays: Rays, a: Tensor, b: Tensor, c: Tensor) -> State:
    return State(a, -b, c, rays.samples.patterns(a, b) % rays.count)


def outputs(rays: Rays, state: State) -> Tensor:
    """f at the samples, from right to left."""
    patterns = rays.pattern[state.mode]
    return rays.samples.outputs(state.a, -state.d, state.c, patterns) / rays.alpha


def advance(
    rays: Rays, delta: Tensor, state: State, residuals: Tensor, span: float
) -> tuple[State, list[Hits]]:
    """After a span of time in which the residuals stay as they are."""
    field = rays.field(residuals)
    moving, hits = _released(rays, field, state)
    left, who, state = torch.full_like(state.a, span), None, None
    for _ in range(8 * rays.count):  # a force that stands still drives nobody round more than once
        time, fence = _next(rays, field, moving)
        moved = boosted(field, moving, torch.minimum(time, left))
        state = moved if who is None else state.put(who, moved)
        at = (time <= left).nonzero()[:, 0]
        if not len(at):
            return _on_shell(delta, state), hits
        moving, ray, kind = _at_fence(rays, field, moved.of(at), fence[at])
        who, left = at if who is None else who[at], (left - time)[at]
        hits.append(Hits(span - left, who, ray, kind))
    raise ArithmeticError(f"neuron {int(who[0])} met more rays in one step than there are.")


def _released(rays: Rays, field: Field, state: State) -> tuple[State, list[Hits]]:
    """Whoever slides where the residuals no longer hold him goes on."""
    ray = state.mode - rays.count
    onward = field.onward[state.c.sign().to(torch.int64) + 1, ray.clamp(min=0)]
    free = ((ray >= 0) & (onward != state.mode)).nonzero()[:, 0]
    if not len(free):
        return state, []
    kind = torch.full_like(free, KINDS.index(Kind.LEAVING))
    hits = Hits(torch.zeros_like(state.a[free]), free, ray[free], kind)
    return replace(state, mode=state.mode.index_copy(0, free, onward[free])), [hits]


def boosted(field: Field, state: State, time: Tensor | float) -> State:
    """Every neuron in the mode that it is in, for a time that each may have for itself."""
    g, size = field.force[:, state.mode], field.size[state.mode]
    dot = g[0] * state.a + g[1] * state.d
    rise, bend = time * _sinhc(size * time), (time * _sinhc(size * time / 2)) ** 2 / 2
    way = state.c * rise - dot * bend  # the integral of c
    c = state.c + size**2 * state.c * bend - dot * rise
    return State(state.a - g[0] * way, state.d - g[1] * way, c, state.mode)


def _next(rays: Rays, field: Field, state: State) -> tuple[Tensor, Tensor]:
    """When each neuron meets a fence, and which; infinite where it does not.

    The way to a fence is the integral of c. With e = exp(|g| t) - 1 and J = |g| way it is the least
    positive root of (c - p) e^2 + 2 (c - J) e - 2 J = 0, where p = <w, g> / |g|.
    """
    g, size = field.force[:, state.mode], field.size[state.mode]
    fences, toward = rays.fences[:, :, state.mode], field.toward[:, state.mode]
    height = (fences[:, 0] * state.a + fences[:, 1] * state.d).clamp(
        min=0
    )  # rounding is no crossing
    c, p = state.c, (g[0] * state.a + g[1] * state.d) / size.clamp(min=TINY)
    J = height * size / toward
    q = (c - J) + torch.copysign((c**2 + J**2 - 2 * J * p).sqrt(), c - J)
    roots = torch.stack([q / (p - c), 2 * J / q])
    roots = torch.where(roots > 0, roots, torch.inf).amin(0)
    roots = torch.where((height == 0) & (c * toward > 0), 0.0, roots)
    times = torch.log1p(roots) / size
    time, fence = torch.where(size > 0, times, torch.inf).min(0)
    return time, fence


def _at_fence(
    rays: Rays, field: Field, state: State, fence: Tensor
) -> tuple[State, Tensor, Tensor]:
    """Neurons at the fences that they have reached, each in its new mode; its ray and what it did."""
    ray = rays.beyond[fence, state.mode]
    inner = ray == ORIGIN
    if (
        rays.count == 2
    ):  # the sector of one sample is a half plane, and both of its fences are one line
        along = rays.direction[:, ray.clamp(min=0)]
        ray = torch.where(~inner & (along[0] * state.a + along[1] * state.d < 0), 1 - ray, ray)
    ray = torch.where(inner, state.mode - rays.count, ray)
    along = rays.direction[:, ray]
    length = along[0] * state.a + along[1] * state.d
    dead = inner | (length <= 0)
    mode = field.onward[state.c.sign().to(torch.int64) + 1, ray]
    mode = torch.where(dead, 0, mode)
    length = torch.where(dead, 0.0, length)
    kind = torch.where(mode == 0, 3, torch.where(mode >= rays.count, 1, 0))
    return State(along[0] * length, along[1] * length, state.c, mode), ray, kind


def _on_shell(delta: Tensor, state: State) -> State:
    """Without the rounding of delta: c is found from w where delta >= 0, and else |w| from c."""
    square = state.a**2 + state.d**2
    above = delta >= 0
    c = torch.copysign((delta.clamp(min=0) + square).sqrt(), state.c)
    k = ((state.c**2 - delta).clamp(min=0) / square.clamp(min=TINY)).sqrt()
    return State(
        torch.where(above, state.a, k * state.a),
        torch.where(above, state.d, k * state.d),
        torch.where(above, c, state.c),
        state.mode,
    )


def _sinhc(z: Tensor) -> Tensor:
    z = z.clamp(min=TINY)
    return z.sinh() / z
