r"""From one change of mode to the next, exactly.

All neurons of one sign in one mode move alike, up to the factor $|c_i|/\alpha$. So among them only the
one nearest to a boundary, in those units, can be the first to reach it: the search for the next change is
over some ten functions per sample, however many neurons there are. Those that slide on one ray leave
it together. What a neuron does on a ray depends on the residuals alone, which are continuous, so that
simultaneous changes do not matter to each other.

A boundary counts as reached when a neuron is beyond it by more than rounding, and an exit when a speed has
changed its sign by more than rounding. So every change takes time, a neuron that only touches a ray
stays in its sector, and none comes back to a ray that it has just left.
Once all forces are below rounding, no neuron changes its mode any more.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from numeric.relu_dynamics.sliding.modes import LinearModes
from numeric.relu_dynamics.sliding.roots import Sums, earliest
from numeric.relu_dynamics.sliding.state import (
    SLACK,
    SlidingNetwork,
    SlidingState,
    onward,
    rounding,
)
from numeric.relu_dynamics.sliding.tables import DEAD, ORIGIN, Array, Whole
from numeric.relu_dynamics.trajectory import EventKind

__all__ = ["Boundaries", "Change", "SlidingRays", "step"]


@dataclass(frozen=True, eq=False)
class Change:
    """Neurons that change their mode together; without a kind they return to their own mode."""

    who: Whole
    ray: int
    kind: EventKind | None


@dataclass(frozen=True, eq=False)
class Boundaries:
    """The nearest neuron to each boundary: of one sign, in one mode, at one of its two sides."""

    mode: Whole  # (n,)
    side: Whole  # (n,)
    sign: Array  # (n,)
    distance: Array  # (n,): in units of |c|/alpha

    @classmethod
    def of(cls, net: SlidingNetwork, state: SlidingState) -> Boundaries:
        nearest = np.full((len(net.tables.motion), 2, 2), np.inf)
        negative = (net.push < 0).astype(int)
        for side in range(2):
            np.minimum.at(nearest[:, side], (state.mode, negative), state.reach[:, side])
        mode, side, negative = np.nonzero(nearest < np.inf)
        sign, drift = np.where(negative, -1.0, 1.0), state.drift[mode]
        gone = sign * (net.tables.boundary[mode, side] * drift).sum(1)
        return cls(mode, side, sign, nearest[mode, side, negative] - gone + rounding(drift))

    def approach(self, net: SlidingNetwork, modes: LinearModes) -> Array:
        """How fast each distance grows, by modes of the residuals: (n, s)."""
        factor = self.sign * net.tables.crosses[self.mode, self.side]
        boundary = factor[:, None] * net.tables.boundary[self.mode, self.side]
        return -np.einsum("nd,ndk->nk", boundary, modes.fields[self.mode])

    def reached(
        self, net: SlidingNetwork, state: SlidingState, force: Array, which: int
    ) -> tuple[SlidingState, Change]:
        mode, side, sign = (part[which].item() for part in (self.mode, self.side, self.sign))
        boundary, ray = net.tables.boundary[mode, side], int(net.tables.beyond[mode, side])
        who = _members(net, state, mode, sign)
        w = state.weights(net, who)
        height = w @ boundary
        there = height <= rounding(w) + rounding(state.offset[who])
        there[state.reach[who, side].argmin()] = True
        who, w, height = who[there], w[there], height[there, None]
        if ray == ORIGIN:
            ray = mode - net.tables.rays
            return state.placed(net, who, np.zeros_like(w), DEAD), Change(who, ray, EventKind.DYING)
        new = onward(net.tables, force, ray, sign)
        if new == mode or new >= net.tables.rays:
            w = w - height * boundary
        kind = (
            None
            if new == mode
            else EventKind.SLIDING
            if new >= net.tables.rays
            else EventKind.CROSSING
        )
        return state.placed(net, who, w, new), Change(
            who, ray, EventKind.DYING if new == DEAD else kind
        )


@dataclass(frozen=True, eq=False)
class SlidingRays:
    """Rays on which neurons slide, with the sign of their c."""

    ray: Whole  # (n,)
    sign: Array  # (n,)

    @classmethod
    def of(cls, net: SlidingNetwork, boundaries: Boundaries) -> SlidingRays:
        held = boundaries.mode >= net.tables.rays  # each with one boundary, the origin
        return cls(boundaries.mode[held] - net.tables.rays, boundaries.sign[held])

    def hold(self, net: SlidingNetwork, modes: LinearModes) -> Array:
        """Speeds towards the ray on its inactive and its active side, by modes of the residuals: (2n, s)."""
        sides = np.stack([net.tables.inactive[self.ray], net.tables.active[self.ray]], 1)
        inward = self.sign[:, None, None] * np.array([[-1.0], [1.0]]) * net.tables.normal[self.ray]
        press = np.einsum("ned,nedk->nek", inward, modes.fields[sides])
        return (press + SLACK * np.abs(press)).reshape(-1, len(modes.rates))

    def left(
        self, net: SlidingNetwork, state: SlidingState, which: int
    ) -> tuple[SlidingState, Change]:
        ray, sign = int(self.ray[which // 2]), self.sign[which // 2]
        who = _members(net, state, net.tables.rays + ray, sign)
        side = net.tables.active if which % 2 else net.tables.inactive
        new = state.placed(net, who, state.weights(net, who), int(side[ray]))
        return new, Change(who, ray, EventKind.LEAVING)


def step(
    net: SlidingNetwork, state: SlidingState, end: float, guess: float
) -> tuple[SlidingState, Change | None]:
    """To the next change, or to the end; `guess` is about how far that is, and decides the effort only."""
    modes = state.modes(net)
    boundaries = Boundaries.of(net, state)
    sliding = SlidingRays.of(net, boundaries)
    sums = Sums.of(
        modes.rates, boundaries.distance, boundaries.approach(net, modes), sliding.hold(net, modes)
    )
    horizon = min(end - state.time, modes.time_to_rounding(net.scale))
    if (root := earliest(sums, horizon, guess)) is None:
        return replace(state.after(modes, end - state.time), time=end), None
    time, which = root
    state, n = state.after(modes, time), len(boundaries.mode)
    if which < n:
        return boundaries.reached(net, state, modes.force(time), which)
    return sliding.left(net, state, which - n)


def _members(net: SlidingNetwork, state: SlidingState, mode: int, sign: float) -> Whole:
    return np.flatnonzero((state.mode == mode) & (np.sign(net.push) == sign))
