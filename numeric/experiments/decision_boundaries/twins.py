"""Networks trained on a task, each with a twin: same initialisation and inputs, but shuffled labels."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import torch
from torch import Tensor, nn

from numeric.experiments.decision_boundaries.curves import Lattice, distance
from numeric.experiments.decision_boundaries.evidence import DECOYS, Curve
from numeric.experiments.decision_boundaries.plane_geometry import margin
from numeric.experiments.decision_boundaries.tasks import Recipe, Task, shuffled
from numeric.models.perceptron import Shape, Together, cross_entropies, perceptron
from numeric.runs import Run, train

STAGES = (0.0, 0.01, 0.03, 0.1, 0.2, 0.35, 0.6, 1.0)  # shares of training at which to look
WIDER, FINE = (
    1.25,
    161,
)  # where curves are sought: beyond the disc, for the sake of points at its rim


@dataclass(frozen=True, eq=False)
class Twins:
    """Networks of one shape, trained together: first on true labels, then their twins on shuffled ones."""

    task: Task
    shape: Shape
    seeds: range
    recipe: Recipe
    activation: nn.Module | None
    dtype: torch.dtype

    @cached_property
    def data(self) -> tuple[Tensor, Tensor]:
        """The data of every pair, once for each twin: (n, 2 pairs, 2), (n, 2 pairs)."""
        draws = [self.task.data(seed, self.dtype) for seed in self.seeds]
        x, y = (torch.stack(part, 1) for part in zip(*draws, strict=True))
        other = torch.stack([shuffled(y[:, k], seed) for k, seed in enumerate(self.seeds)], 1)
        return torch.cat([x, x], 1), torch.cat([y, other], 1)

    def train(self, device: str, store: str | Path | None, progress: bool) -> Run:
        start = [
            perceptron(self.shape, seed, self.activation, dtype=self.dtype) for seed in self.seeds
        ]
        steps = self.recipe.steps(len(self.data[0]))
        return train(
            Together([*start, *start]), cross_entropies, self.data, self.recipe.optimizer,
            steps=steps, batch_size=self.recipe.batch_size, seed=self.seeds[0],
            at={round(s * steps) for s in STAGES}, store=store,
            key=f"activation {self.activation}", device=device, progress=progress,
        )  # fmt: skip

    def accuracy(self, run: Run) -> Tensor:
        """(labels, pairs): training accuracy of each network after training."""
        x, y = run.data
        with torch.no_grad():
            right = run.model(x).argmax(-1) == y
        return right.to(x.dtype).mean(0).unflatten(0, (2, -1))

    def away(self, run: Run, x: Tensor) -> dict[Curve, Tensor]:
        """Distances of points (m, 2) from every known curve: (pairs, m)."""
        lattice = Lattice(WIDER * self.task.reach, FINE, x.dtype, x.device)
        after, pairs = run.model, range(len(self.seeds))
        curves = {Curve.OWN: [lattice.curve(margin(after.network(k))) for k in pairs]}
        if self.task.side is not None:
            curves[Curve.TASK] = [lattice.curve(self.task.side)] * len(pairs)
        turn = x.new_tensor(self.task.decoy).T
        curves |= {
            decoy: [one @ turn for one in curves[curve]]
            for curve, decoy in DECOYS.items()
            if curve in curves
        }
        return {
            name: torch.stack([distance(x, one) for one in those]) for name, those in curves.items()
        }
