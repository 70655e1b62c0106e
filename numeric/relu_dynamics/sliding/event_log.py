"""A log of the changes of mode in a run: residuals at each, and the neurons that changed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from numeric.relu_dynamics.sliding.state import SlidingNetwork, SlidingState
from numeric.relu_dynamics.sliding.step import Change
from numeric.relu_dynamics.sliding.tables import Array, Whole
from numeric.relu_dynamics.trajectory import EVENT_KINDS

__all__ = ["NONE", "EventLog", "LogEntry"]

NONE = -1


@dataclass(frozen=True, eq=False)
class LogEntry:
    """One change of mode, or the start, which lists all neurons, or the end."""

    time: float
    residuals: Array  # (s,)
    drift: Array  # (4s, 2)
    who: Whole  # (n,)
    mode: Whole  # (n,): their new mode
    offset: Array  # (n, 2)
    ray: int
    kind: int  # in EVENT_KINDS

    @classmethod
    def of(cls, state: SlidingState, who: Whole, change: Change | None) -> LogEntry:
        ray = NONE if change is None else change.ray
        kind = NONE if change is None or change.kind is None else EVENT_KINDS.index(change.kind)
        here = (state.time, state.residuals, state.drift)
        return cls(*here, who, state.mode[who], state.offset[who], ray, kind)


@dataclass(frozen=True, eq=False)
class EventLog:
    """k entries as arrays, which list n neurons in total."""

    times: Array  # (k,)
    residuals: Array  # (k, s)
    drifts: Array  # (k, 4s, 2)
    rays: Whole  # (k,)
    kinds: Whole  # (k,)
    counts: Whole  # (k,): neurons listed in each entry
    who: Whole  # (n,)
    mode: Whole  # (n,)
    offset: Array  # (n, 2)

    @classmethod
    def of(cls, nodes: list[LogEntry]) -> EventLog:
        times, residuals, drifts, rays, kinds = (
            np.array([getattr(node, name) for node in nodes])
            for name in ("time", "residuals", "drift", "ray", "kind")
        )
        counts = np.array([len(node.who) for node in nodes])
        who, mode, offset = (
            np.concatenate([getattr(node, name) for node in nodes])
            for name in ("who", "mode", "offset")
        )
        return cls(times, residuals, drifts, rays, kinds, counts, who, mode, offset)

    def nodes(self) -> list[LogEntry]:
        ends = np.cumsum(self.counts)[:-1]
        entries = (np.split(part, ends) for part in (self.who, self.mode, self.offset))
        rays, kinds = self.rays.tolist(), self.kinds.tolist()
        rows = zip(self.times.tolist(), self.residuals, self.drifts, *entries, rays, kinds)
        return [LogEntry(*row) for row in rows]

    def state(self, net: SlidingNetwork, node: int) -> SlidingState:
        """The state right after the entry of this number."""
        n = int(self.counts[: node + 1].sum())
        last = np.empty(self.counts[0], int)
        last[self.who[:n]] = np.arange(n)  # if a neuron is listed several times, the last one holds
        here = (self.times[node].item(), self.residuals[node], self.drifts[node])
        return SlidingState.of(net, *here, self.mode[last], self.offset[last])

    def at(self, net: SlidingNetwork, time: float) -> SlidingState:
        node = int(np.searchsorted(self.times, time, side="right")) - 1
        state = self.state(net, node)
        return state if time == state.time else state.after(state.modes(net), time - state.time)
