r"""A test of the paper's Hypothesis 1: networks learn to magnify areas near decision boundaries.

Decision rule, fixed in advance. For each shape, networks of many seeds are trained on draws of the
task. Of each, the contrast between the log volume near the task's boundary and far from it is taken at
the last hidden layer, after training, and compared pair by pair with three controls:

1. the same network before training, since a curve may have contrast by chance;
2. a twin of the same start and data, trained as long on shuffled labels, since any training may
   magnify, for example where the data are;
3. the same network against a decoy, which is the boundary mirrored or turned, since a volume
   element may have contrast against any curve of that form.

The hypothesis stands at a shape if all three mean differences have confidence intervals above 0; over all
shapes, each control's intervals hold together with probability `level`. Where no boundary of the task is
known, each network's own takes its place; that is weaker, for it was not fixed beforehand.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor, nn

from numeric.experiments.decision_boundaries.contrast import Zones, level_each
from numeric.experiments.decision_boundaries.curves import Disc
from numeric.experiments.decision_boundaries.evidence import Evidence
from numeric.experiments.decision_boundaries.plane_geometry import log_volume
from numeric.experiments.decision_boundaries.tasks import Recipe, Task
from numeric.experiments.decision_boundaries.twins import Twins
from numeric.inputs import InputError, require_writable, resolve, whole
from numeric.models.perceptron import Shape, hidden
from numeric.progress import progress_bar
from numeric.runs import Run
from numeric.runs.store import checkpoint, fingerprint


@dataclass(frozen=True, eq=False)
class Hypothesis:
    """The experiment. With a folder `store`, finished parts are stored there and reused by the next run."""

    task: Task
    shapes: tuple[int | Shape, ...]
    networks: int = 12
    seed: int = 0
    recipe: Recipe | None = None  # if not the task's own
    activation: nn.Module | None = None  # if not the logistic function
    zones: Zones = field(default_factory=Zones)
    level: float = 0.95
    circles: int = 24  # of points at which to measure
    store: str | Path | None = None
    device: str = "auto"
    dtype: torch.dtype = torch.float64

    def __post_init__(self) -> None:
        if not isinstance(self.task, Task):
            raise InputError(f"task must be a Task such as xor(), not {self.task!r}.")
        shapes = [hidden(shape) for shape in self.shapes]
        if not shapes or len(set(shapes)) < len(shapes):
            raise InputError(f"shapes must be one at least, and differ, not {self.shapes}.")
        whole("networks", self.networks, 2)
        whole("circles", self.circles)
        whole("seed", self.seed, 0)
        level_each(self.level, len(shapes))

    def run(self, progress: bool = True) -> dict[Shape, Evidence]:
        """Evidence for each shape."""
        shapes = [hidden(shape) for shape in self.shapes]
        for shape in shapes:  # all files can be written, before the first network is trained
            for what in ("run", "volumes"):
                self._path(shape, what)
        bar = progress_bar(shapes, of="shapes", show=progress)
        return {shape: self.evidence(shape, self.train(shape, progress), progress) for shape in bar}

    def train(self, shape: int | Shape, progress: bool = True) -> Run:
        """Networks on true labels, then their twins on shuffled ones, side by side."""
        path = self._path(hidden(shape), "run")
        return self._twins(shape).train(self.device, path, progress)

    def evidence(self, shape: int | Shape, run: Run, progress: bool = True) -> Evidence:
        """Volume elements of the networks of a run from `train`."""
        shape, twins = hidden(shape), self._twins(shape)
        disc = Disc(self.task.reach, self.circles, self.dtype, resolve(self.device))
        return Evidence(
            shape, run.steps, disc, self.zones, level_each(self.level, len(self.shapes)),
            self._volumes(shape, run, disc.x, progress), twins.away(run, disc.x),
            twins.accuracy(run), run.statement,
        )  # fmt: skip

    def _twins(self, shape: int | Shape) -> Twins:
        seeds = range(self.networks * self.seed, self.networks * (self.seed + 1))
        recipe = self.recipe or self.task.recipe
        return Twins(self.task, hidden(shape), seeds, recipe, self.activation, self.dtype)

    def _volumes(self, shape: Shape, run: Run, x: Tensor, progress: bool) -> Tensor:
        """Log volumes stored by an earlier run, or else measured and stored."""
        parts = (x, *(value for state in run.snapshots.values() for value in state.values()))
        file = checkpoint(self._path(shape, "volumes"), fingerprint(run.statement, parts))
        if (stored := file.read(x.device)) is not None:
            return stored["log_volume"]
        volumes = _measured(run, x, progress)
        file.write({"log_volume": volumes})
        return volumes

    def _path(self, shape: Shape, what: str) -> Path | None:
        name = "-".join(map(str, (self.task.name, *shape, what)))
        return None if self.store is None else require_writable(Path(self.store) / f"{name}.pt")


def _measured(run: Run, x: Tensor, progress: bool) -> Tensor:
    """(labels, pairs, steps, layers, m)."""
    count = run.data[0].shape[1]
    stages = []
    with progress_bar(of="volumes", show=progress, total=count * len(run.steps)) as bar:
        for step in run.steps:
            together, volumes = run.model_at(step), []
            for k in range(count):
                volumes.append(log_volume(together.network(k), x))
                bar.update()
            stages.append(torch.stack(volumes))
    return torch.stack(stages, 1).unflatten(0, (2, -1))
