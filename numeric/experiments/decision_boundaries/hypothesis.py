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

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import torch
from torch import Tensor, nn

from numeric.experiments.decision_boundaries.contrast import Zones, level_each
from numeric.experiments.decision_boundaries.curves import Disc, Lattice, distance
from numeric.experiments.decision_boundaries.evidence import DECOYS, Curve, Evidence
from numeric.experiments.decision_boundaries.plane_geometry import log_volume, margin
from numeric.experiments.decision_boundaries.tasks import Recipe, Task, shuffled
from numeric.inputs import (
    InputError,
    as_path,
    require_float_dtype,
    require_instance,
    require_writable,
    resolve,
    whole,
)
from numeric.models.perceptron import ParallelNetworks, Shape, cross_entropies, hidden, perceptron
from numeric.progress import progress_bar
from numeric.runs import Run, train
from numeric.runs.store import checkpoint, fingerprint

__all__ = ["Hypothesis", "Twins"]

STAGES = (0.0, 0.01, 0.03, 0.1, 0.2, 0.35, 0.6, 1.0)  # shares of training at which to look
WIDER, FINE = (
    1.25,
    161,
)  # where curves are sought: beyond the disc, for the sake of points at its rim


@dataclass(frozen=True, eq=False)
class Hypothesis:
    """The experiment: networks of several shapes trained on a task, each beside its twin.

    task: such as xor(). shapes: widths of hidden layers, such as (10, (8, 8)). networks: pairs of twins
    of each shape, 2 at least. store: a folder where finished parts are stored, and reused by the next
    run. `run` returns the Evidence for each shape.

    >>> from numeric.experiments.decision_boundaries import xor
    >>> short = Recipe(rate=0.5, momentum=0.9, decay=0.0, epochs=5)
    >>> small = Hypothesis(xor(), (3,), networks=2, recipe=short, circles=4, device="cpu")
    >>> evidence = small.run(progress=False)[(3,)]
    >>> evidence.log_volume.shape  # labels, networks, steps, layers, points
    torch.Size([2, 2, 5, 1, 64])
    """

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
    device: str | torch.device = "auto"
    dtype: torch.dtype = torch.float64

    def __post_init__(self) -> None:
        require_instance("task", self.task, Task, "xor()")
        require_instance("zones", self.zones, Zones, "Zones(near=0.1, far=0.25)")
        if self.recipe is not None:
            require_instance("recipe", self.recipe, Recipe, "xor().recipe")
        if self.activation is not None:
            require_instance("activation", self.activation, nn.Module, "torch.nn.Tanh()")
        if isinstance(self.shapes, str) or not isinstance(self.shapes, Iterable):
            raise InputError(
                f"shapes = {self.shapes!r} was given: give a tuple such as (10, (8, 8))."
            )
        if self.store is not None:
            as_path(self.store)
        require_float_dtype(self.dtype)
        resolve(self.device)
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
        return None if self.store is None else require_writable(as_path(self.store) / f"{name}.pt")


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

    def train(self, device: str | torch.device, store: str | Path | None, progress: bool) -> Run:
        start = [
            perceptron(self.shape, seed, self.activation, dtype=self.dtype) for seed in self.seeds
        ]
        steps = self.recipe.steps(len(self.data[0]))
        return train(
            ParallelNetworks([*start, *start]), cross_entropies, self.data, self.recipe.optimizer,
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
        after, pairs = _parallel(run.model), range(len(self.seeds))
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


def _parallel(model: nn.Module) -> ParallelNetworks:
    """Refuse a model of another kind than those that `train` trains here."""
    return require_instance(
        "the model of the run", model, ParallelNetworks, "ParallelNetworks([...])"
    )


def _measured(run: Run, x: Tensor, progress: bool) -> Tensor:
    """(labels, pairs, steps, layers, m)."""
    count = run.data[0].shape[1]
    stages = []
    with progress_bar(of="volumes", show=progress, total=count * len(run.steps)) as bar:
        for step in run.steps:
            together, volumes = _parallel(run.model_at(step)), []
            for k in range(count):
                volumes.append(log_volume(together.network(k), x))
                bar.update()
            stages.append(torch.stack(volumes))
    return torch.stack(stages, 1).unflatten(0, (2, -1))
