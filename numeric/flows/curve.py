"""Parameters of a model along an integration, at any time of it, and the outputs that they give."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from numeric.flows.trajectory import Trajectory
from numeric.inputs import ArrayLike, as_numbers, between
from numeric.models import Model

__all__ = ["Curve"]


@dataclass(frozen=True, eq=False)
class Curve:
    """States of a trajectory, whose first numbers are the parameters of a model."""

    model: Model
    x: Tensor = field(repr=False)  # (N, ...), training points
    shapes: Mapping[str, torch.Size] = field(repr=False)  # of the parameters, by name
    trajectory: Trajectory = field(repr=False)

    @property
    def times(self) -> Tensor:
        """Times of the start and the end of each step, (steps + 1,), on the host."""
        return torch.as_tensor(self.trajectory.times, device="cpu")

    @property
    def end(self) -> float:
        """The last time."""
        return float(self.trajectory.times[-1])

    def state(self, t: float) -> Tensor:
        """(n,), parameters and what is integrated beside them, on the device of the points."""
        state = self.trajectory.at(between("t", t, 0.0, self.end))
        return torch.from_numpy(state).to(self.x.device, self.x.dtype)

    def parameters(self, t: float) -> dict[str, Tensor]:
        """The parameters at a time, by name."""
        sizes = [shape.numel() for shape in self.shapes.values()]
        parts = self.state(t)[: sum(sizes)].split(sizes)
        return {name: part.view(shape) for (name, shape), part in zip(self.shapes.items(), parts)}

    def outputs(self, t: float, x: ArrayLike | None = None) -> Tensor:
        """The outputs at a time, (N, Q), or (n, Q) at other points x (n, ...)."""
        points = self.x if x is None else as_numbers("x", x)
        with self.model.on(points):
            return self.model.functional_call(self.parameters(t), points.clone()).flatten(1)
