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

from analytic.domain import InputError
from numeric import geometry
from numeric.boundary.curves import Lattice
from numeric.boundary.networks import hidden_layers
from numeric.geometry.slopes import Slopes, slopes_of
from numeric.training import Run


def margin(model: nn.Module) -> Callable[[Tensor], Tensor]:
    """The lead of label 1 over label 0, (m, 2) -> (m,), which is 0 on the decision boundary."""

    def lead(x: Tensor) -> Tensor:
        with torch.no_grad():
            outputs = model(x)
        return outputs[:, 1] - outputs[:, 0]

    return lead


def log_volume(model: nn.Module, x: Tensor) -> Tensor:
    r"""$\log\sqrt{\det g}$ at every hidden layer of a perceptron: (m, 2) -> (layers, m).

    The area that both tangents span, by the chain rule through all layers at once. It is what
    `geometry.log_volume` gives for any map and any number of inputs, many times faster, and loses
    1e-16 times the condition number.
    """
    found, features, tangents = [], x, torch.eye(2, dtype=x.dtype, device=x.device)
    with torch.no_grad():
        for linear, phi in hidden_layers(model).values():
            z, root = linear(features), math.sqrt(linear.out_features)
            scale, slope, _ = _slopes(phi)(z)
            tangents = (tangents @ linear.weight.T) * (slope * scale.exp() / root)[:, None]
            features = phi(z) / root
            found.append(_log_area(tangents))
    return torch.stack(found)


def _slopes(phi: nn.Module) -> Slopes:
    if (known := slopes_of(phi)) is None:
        raise InputError(
            f"The slope of {phi} is not known in closed form: take one of torch's smooth activations."
        )
    return known


def _log_area(tangents: Tensor) -> Tensor:
    """Of the parallelogram that two vectors span: (m, 2, n) -> (m,)."""
    lengths = tangents.norm(dim=2)
    order = lengths.argsort(1, descending=True)[:, :, None].expand_as(tangents)
    long, short = tangents.gather(1, order).unbind(1)
    along = long / lengths.amax(1, keepdim=True)
    short = short - along * (along * short).sum(1, keepdim=True)
    area = lengths.amax(1).log() + short.norm(dim=1).log()
    if not area.isfinite().all():
        raise InputError(
            f"Tangents vanish or are parallel at {int((~area.isfinite()).sum())} of {len(area)} points: "
            "the layer is saturated there, or has one unit. Widen it, or train for less long."
        )
    return area


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
    x, lead, layers = lattice.x, margin(model), hidden_layers(model)
    curved = [geometry.ricci_scalar(model, x, layer=name) for name in layers]
    widths = x.new_tensor([linear.out_features for linear, _ in layers.values()])
    maps = (
        log_volume(model, x),
        widths[:, None] * torch.stack([one.value for one in curved]),  # g has a factor 1/n
        torch.stack([one.condition for one in curved]),
        lead(x),
    )
    return Field(lattice, *map(lattice.square, maps), lattice.curve(lead))


def fields(run: Run, lattice: Lattice, progress: bool = True) -> dict[int, Field]:
    """At every snapshot of a run."""
    steps = tqdm(run.steps, desc="fields", disable=not progress, leave=False)
    return {step: field(run.model_at(step), lattice) for step in steps}
