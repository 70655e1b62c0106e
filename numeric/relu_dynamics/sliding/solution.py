"""The exact flow of a and b of a network on a line, at any time."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from numeric.inputs import between
from numeric.relu_dynamics.sliding.event_log import NONE, EventLog
from numeric.relu_dynamics.sliding.state import SlidingNetwork, SlidingState
from numeric.relu_dynamics.trajectory import EVENT_KINDS, Event, in_order

__all__ = ["Solution"]


@dataclass(frozen=True, eq=False)
class Solution:
    """Exact up to rounding, in float64 on the CPU, with samples in the order in which they were given."""

    net: SlidingNetwork
    log: EventLog
    order: Tensor  # (s,): of the samples from right to left

    @property
    def times(self) -> Tensor:
        """(k,): the start, every change, and the end."""
        return torch.from_numpy(self.log.times)

    @cached_property
    def path(self) -> Tensor:
        """(k, s): residuals at those times."""
        return self._as_given(torch.from_numpy(self.log.residuals))

    @cached_property
    def events(self) -> tuple[Event, ...]:
        """All events after the start, sorted by `in_order`; neurons that leave together have one each."""
        samples = self.order[torch.from_numpy(self.log.rays) % len(self.order)].tolist()
        rows = zip(self.log.nodes(), samples, strict=True)
        return in_order(
            Event(node.time, i, sample, EVENT_KINDS[node.kind])
            for node, sample in rows
            if node.kind != NONE
            for i in node.who.tolist()
        )

    def at(self, time: float) -> tuple[Tensor, Tensor]:
        """a and b, (m,) each."""
        a, d = torch.from_numpy(self._state(time).weights(self.net)).unbind(1)
        return a.clone(), -d

    def residuals(self, time: float) -> Tensor:
        """(s,): f(x_j) - y_j."""
        return self._as_given(torch.from_numpy(self._state(time).residuals))

    def loss(self, time: float) -> float:
        """Half the sum of squared residuals."""
        return float((self._state(time).residuals ** 2).sum() / 2)

    def sliding(self, time: float) -> Tensor:
        """(m,): the sample at which each neuron's knot is held, or -1."""
        ray = torch.from_numpy(self._state(time).mode) - self.net.tables.rays
        return torch.where(ray < 0, NONE, self.order[ray % len(self.order)])

    def _state(self, time: float) -> SlidingState:
        return self.log.at(self.net, between("time", time, 0, self.log.times[-1].item()))

    def _as_given(self, residuals: Tensor) -> Tensor:
        in_given_order = torch.empty_like(residuals)
        in_given_order[..., self.order] = residuals
        return in_given_order
