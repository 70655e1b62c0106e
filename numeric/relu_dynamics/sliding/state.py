r"""The state of all neurons, and the mode in which a neuron continues from a ray.

With $q_0$ and $q_1$ the speeds at which the field crosses a ray to its active side, as seen from the
inactive and from the active side, a neuron on it slides where $q_0 > 0 > q_1$ (Filippov), goes on in
the active sector where $q_0 > 0$ and $q_1 \ge 0$, and in the inactive one where $q_0 \le 0$. That is
the derivative 0 of the ReLU at 0, wherever there is a choice: a neuron that starts on a ray from
which both sides lead away takes the inactive one; one that is on the edge of the dead sector is dead;
and one that slides into the origin, where it sees nothing, stays there. (Small steps of gradient
descent may leap over the origin or not, by chance, if another way leads down from it.)
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from numeric.relu_dynamics.sliding.modes import LinearModes
from numeric.relu_dynamics.sliding.tables import Array, Tables, Whole

__all__ = ["SLACK", "SlidingNetwork", "SlidingState", "onward", "rounding"]

ALL = slice(None)
SLACK = 8 * np.finfo(float).eps


@dataclass(frozen=True, eq=False)
class SlidingNetwork:
    """The constants of a run: tables of the samples, readouts and scale."""

    tables: Tables
    push: Array  # (m,): c/alpha
    scale: float  # of residuals and targets at the start


@dataclass(frozen=True, eq=False)
class SlidingState:
    """All neurons at some time, right after any change at that time."""

    time: float
    residuals: Array  # (s,)
    drift: Array  # (4s, 2): the integral of motion @ residuals, while there were neurons in a mode
    mode: Whole  # (m,)
    offset: Array  # (m, 2): w + (c/alpha) drift of its mode, which is constant
    reach: Array  # (m, 2): how much drift across a boundary brings the neuron beyond it

    @classmethod
    def start(cls, net: SlidingNetwork, w: Array, y: Array) -> SlidingState:
        """w = (a, -b), (m, 2)."""
        residuals = net.push @ np.maximum(net.tables.heights(w), 0) - y
        mode, ray = net.tables.locate(w)
        for i in np.flatnonzero(ray >= 0):
            mode[i] = onward(net.tables, net.tables.motion @ residuals, ray[i], net.push[i])
        return cls.of(net, 0.0, residuals, np.zeros((len(net.tables.motion), 2)), mode, w)

    @classmethod
    def of(
        cls,
        net: SlidingNetwork,
        time: float,
        residuals: Array,
        drift: Array,
        mode: Whole,
        offset: Array,
    ) -> SlidingState:
        return cls(time, residuals, drift, mode, offset, _reach(net, net.push, mode, offset))

    def modes(self, net: SlidingNetwork) -> LinearModes:
        weights = np.bincount(self.mode, net.push**2, len(net.tables.motion))
        # By numpy's stubs `bincount` counts in whole numbers even with weights, which are floats here.
        return LinearModes.of(net.tables, weights, self.residuals)  # pyrefly: ignore[bad-argument-type]

    def weights(self, net: SlidingNetwork, who: Whole | slice = ALL) -> Array:
        """w = (a, -b), (m, 2), or of some."""
        return self.offset[who] - net.push[who, None] * self.drift[self.mode[who]]

    def after(self, modes: LinearModes, time: float) -> SlidingState:
        """The state a time later, if no neuron changes its mode."""
        return replace(
            self,
            time=self.time + time,
            residuals=modes.residuals(time),
            drift=self.drift + modes.drift(time),
        )

    def placed(self, net: SlidingNetwork, who: Whole, w: Array, mode: int) -> SlidingState:
        """The state with some neurons moved to w, (k, 2), and to another mode."""
        modes, offset, reach = self.mode.copy(), self.offset.copy(), self.reach.copy()
        modes[who] = mode
        offset[who] = w + net.push[who, None] * self.drift[mode]
        reach[who] = _reach(net, net.push[who], modes[who], offset[who])
        return replace(self, mode=modes, offset=offset, reach=reach)


def _reach(net: SlidingNetwork, push: Array, mode: Whole, offset: Array) -> Array:
    """The drift needed to pass each boundary by more than rounding; infinite without boundary or motion."""
    boundary, push = net.tables.boundary[mode], np.abs(push)[:, None]
    height = np.einsum("med,md->me", boundary, offset) + rounding(offset)[:, None]
    free = boundary.any(2) & (push > 0)
    with np.errstate(over="ignore"):
        return np.divide(height, push, out=np.full_like(height, np.inf), where=free)


def rounding(parts: Array) -> Array:
    """A bound of the rounding error of w: (..., 2) -> (...,)."""
    return SLACK * np.abs(parts).sum(-1)


def onward(tables: Tables, force: Array, ray: int, push: float) -> int:
    """The mode in which a neuron goes on from a ray, by the forces (4s, 2) and the sign of c."""
    inactive, active = int(tables.inactive[ray]), int(tables.active[ray])
    before, after = -push * (tables.normal[ray] * force[[inactive, active]]).sum(1)
    if before <= 0:
        return inactive
    return active if after >= 0 else tables.rays + int(ray)
