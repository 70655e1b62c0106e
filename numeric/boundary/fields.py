r"""The geometry that a network gives to the plane: volume element, Ricci scalar and decision boundary.

Features are those of the paper, $\Phi_j = n^{-1/2}\phi(\cdot)$ of all n units of a hidden layer, (G.3).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from tqdm import tqdm

from numeric import geometry
from numeric.boundary.curves import Lattice
from numeric.boundary.networks import hidden_layers
from numeric.training import Run


def margin(model: nn.Module) -> Callable[[Tensor], Tensor]:
    """The lead of label 1 over label 0, (m, 2) -> (m,), which is 0 on the decision boundary."""

    def lead(x: Tensor) -> Tensor:
        with torch.no_grad():
            outputs = model(x)
        return outputs[:, 1] - outputs[:, 0]

    return lead


def log_volume(model: nn.Module, x: Tensor) -> Tensor:
    r"""$\log\sqrt{\det g}$ at every hidden layer: (m, 2) -> (layers, m)."""
    return torch.stack(
        [
            geometry.log_volume(model, x, layer=name, progress=False).value
            - math.log(n)  # two factors n^(-1/2)
            for name, n in hidden_layers(model).items()
        ]
    )


@dataclass(frozen=True, eq=False)
class Field:
    """Maps of a square, rows from below, at every hidden layer."""

    lattice: Lattice
    log_volume: Tensor  # (layers, points, points)
    ricci: Tensor  # the same
    condition: Tensor  # the same, of the Jacobian
    margin: Tensor  # (points, points)
    boundary: Tensor  # (k, 2), where the margin is 0


def field(model: nn.Module, lattice: Lattice) -> Field:
    """Of one network."""
    x, lead = lattice.x, margin(model)
    layers = hidden_layers(model)
    curved = [geometry.ricci_scalar(model, x, layer=name) for name in layers]
    maps = (
        log_volume(model, x),
        torch.stack([n * one.value for n, one in zip(layers.values(), curved, strict=True)]),
        torch.stack([one.condition for one in curved]),
        lead(x),
    )
    return Field(lattice, *map(lattice.square, maps), lattice.curve(lead))


def fields(run: Run, lattice: Lattice, progress: bool = True) -> dict[int, Field]:
    """At every snapshot of a run."""
    steps = tqdm(run.steps, desc="fields", disable=not progress, leave=False)
    return {step: field(run.model_at(step), lattice) for step in steps}
