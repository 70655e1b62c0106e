r"""Where all neurons are, and how each goes on from a ray.

With $q_0$ and $q_1$ the speeds at which the field crosses a ray to its active side, as seen from the
silent and from the active side, a neuron on it slides where $q_0 > 0 > q_1$ (Filippov), goes on in
the active sector where $q_0 > 0$ and $q_1 \ge 0$, and in the silent one where $q_0 \le 0$. That is
the derivative 0 of the ReLU at 0, wherever there is a choice: a neuron that starts on a ray from
which both sides lead away takes the silent one; one that is on the edge of the dead sector is dead;
and one that slides into the origin, where it sees nothing, stays there.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from numeric.relu_dynamics.sliding.modes import Modes
from numeric.relu_dynamics.sliding.tables import Array, Tables, Whole


@dataclass(frozen=True, eq=False)
class Net:
    """What does not change."""

    tables: Tables
    push: Array  # (m,): c/alpha
    floor: float  # residuals below it are rounding


@dataclass(frozen=True, eq=False)
class State:
    """At some time, right after whatever changed then."""

    time: float
    residuals: Array  # (s,)
    drift: (
        Array  # (4s, 2): the integral of motion @ residuals over times when neurons were in a mode
    )
    mode: Whole  # (m,)
    offset: Array  # (m, 2): w + (c/alpha) drift of its mode, which is constant

    @classmethod
    def start(cls, net: Net, w: Array, y: Array) -> State:
        """w = (a, -b), (m, 2)."""
        residuals = net.push @ np.maximum(net.tables.heights(w), 0) - y
        mode, ray = net.tables.locate(w)
        for i in np.flatnonzero(ray >= 0):
            mode[i] = onward(net.tables, net.tables.motion @ residuals, ray[i], net.push[i])
        return cls(0.0, residuals, np.zeros((len(net.tables.motion), 2)), mode, w)

    def modes(self, net: Net) -> Modes:
        weights = np.bincount(self.mode, net.push**2, len(net.tables.motion))
        return Modes.of(net.tables, weights, self.residuals)

    def weights(self, net: Net) -> Array:
        """w = (a, -b), (m, 2)."""
        return self.offset - net.push[:, None] * self.drift[self.mode]

    def after(self, modes: Modes, time: float) -> State:
        """While nobody changes his mode."""
        return replace(
            self,
            time=self.time + time,
            residuals=modes.residuals(time),
            drift=self.drift + modes.drift(time),
        )

    def placed(self, net: Net, who: Whole, w: Array, mode: int) -> State:
        """With these neurons at w, (k, 2), in another mode."""
        modes, offset = self.mode.copy(), self.offset.copy()
        modes[who] = mode
        offset[who] = w + net.push[who, None] * self.drift[mode]
        return replace(self, mode=modes, offset=offset)


def onward(tables: Tables, force: Array, ray: int, push: float) -> int:
    """The mode in which a neuron goes on from a ray, by the forces (4s, 2) and the sign of c."""
    silent, active = int(tables.silent[ray]), int(tables.active[ray])
    before, after = -push * (tables.normal[ray] * force[[silent, active]]).sum(1)
    if before <= 0:
        return silent
    return active if after >= 0 else tables.rays + int(ray)
