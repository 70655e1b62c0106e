r"""The geometry that a network gives to the plane: volume element, Ricci scalar and decision boundary.

Features are those of the paper, $\Phi_j = n^{-1/2}\phi(\cdot)$ of all n units of a hidden layer, (G.3).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from numeric import geometry
from numeric.experiments.decision_boundaries.curves import Lattice
from numeric.inputs import InputError, require_instance
from numeric.models.activation_derivatives import Slopes, slopes_of
from numeric.models.perceptron import hidden_layers
from numeric.progress import progress_bar
from numeric.runs import Run

__all__ = ["GeometryMap", "geometry_map", "geometry_maps", "log_volume", "margin"]

DEAD = 1e8  # -log of a slope at which the rounding of the log reaches 1e-8
THIN = 1e-7  # height over length of a parallelogram below which its area loses more than 1e-9


def margin(model: nn.Module) -> Callable[[Tensor], Tensor]:
    """The lead of label 1 over label 0, (m, 2) -> (m,), which is 0 on the decision boundary.

    >>> lead = margin(nn.Linear(2, 2))
    >>> lead(torch.zeros(5, 2)).shape
    torch.Size([5])
    """

    def lead(x: Tensor) -> Tensor:
        with torch.no_grad():
            outputs = model(x)
        return outputs[:, 1] - outputs[:, 0]

    return lead


def log_volume(model: nn.Module, x: Tensor) -> Tensor:
    r"""$\log\sqrt{\det g}$ at every hidden layer of a perceptron: (m, 2) -> (layers, m).

    The area spanned by the two tangents, by the chain rule through all layers at once, to 1e-8: many
    times faster than `geometry.log_volume`, which is used only where the parallelogram is too thin.
    """
    areas, features, tangents = [], x, torch.eye(2, dtype=x.dtype, device=x.device)
    with torch.no_grad():
        for name, (linear, phi) in hidden_layers(model).items():
            z, root = linear(features), math.sqrt(linear.out_features)
            scale, slope, _ = _slopes(phi)(z)
            tangents = (tangents @ linear.weight.T) * (slope * scale.exp() / root)[:, None]
            features = phi(z) / root
            area, thin = _log_area(tangents)
            if thin.any():
                _require_live_units(scale[thin], name)
                area[thin] = _general(model, x[thin], name) - 2 * math.log(root)
            areas.append(area)
    return torch.stack(areas)


def _require_live_units(scale: Tensor, layer: str) -> None:
    """Refuse points at which fewer than two units have a slope above exp(-DEAD); log slopes are (m, n)."""
    second = scale.topk(min(2, scale.shape[1]), 1).values[:, -1]
    if (second < -DEAD).any():
        raise InputError(
            f"Slopes in {layer} are down to exp({second.min():.2g}): training diverged, or points are too "
            "far out. Lower the learning rate, or scale points or weights down."
        )


def _slopes(phi: nn.Module) -> Slopes:
    if (known := slopes_of(phi)) is None:
        raise InputError(
            f"The slope of {phi} is not known in closed form: take one of torch's smooth activations, "
            "such as Sigmoid, Tanh, GELU, SiLU or Softplus."
        )
    return known


def _log_area(tangents: Tensor) -> tuple[Tensor, Tensor]:
    """Log area of the parallelogram of two vectors, and whether it is thin: (m, 2, n) -> (m,), (m,)."""
    lengths, order = tangents.norm(dim=2).sort(1, descending=True)
    long, short = tangents.gather(1, order[:, :, None].expand_as(tangents)).unbind(1)
    along = long / lengths[:, :1]
    height = (short - along * (along * short).sum(1, keepdim=True)).norm(dim=1)
    thin = ~(height > THIN * lengths[:, 0])  # also where it is NaN
    return lengths[:, 0].log() + height.log(), thin


def _general(model: nn.Module, x: Tensor, layer: str) -> Tensor:
    volume = geometry.log_volume(model, x, layer=layer, progress=False)
    if (volume.rank < 2).any():
        raise InputError(
            f"The metric is degenerate at {int((volume.rank < 2).sum())} points: the layer is saturated "
            "there, or has one unit. Widen it, or train for less long."
        )
    return volume.value


@dataclass(frozen=True, eq=False)
class GeometryMap:
    """Geometry on a lattice of a square, rows from below, at every hidden layer."""

    lattice: Lattice
    log_volume: Tensor  # (layers, points, points)
    ricci: Tensor  # the same
    condition: Tensor  # the same, of the Jacobian
    margin: Tensor  # (points, points)
    boundary: Tensor  # (k, 2), where the margin is 0


def geometry_map(model: nn.Module, lattice: Lattice) -> GeometryMap:
    """The geometry of one perceptron of two inputs at the points of a lattice.

    >>> from numeric.models.perceptron import perceptron
    >>> geometry_map(perceptron(8), Lattice(1.0, 3)).ricci.shape
    torch.Size([1, 3, 3])
    """
    require_instance("lattice", lattice, Lattice, "Lattice(1.5)")
    require_instance("model", model, nn.Module, "perceptron(10)")
    x, lead, layers = lattice.x, margin(model), hidden_layers(model)
    curved = [geometry.ricci_scalar(model, x, layer=name) for name in layers]
    widths = x.new_tensor([linear.out_features for linear, _ in layers.values()])
    ricci = widths[:, None] * torch.stack([one.value for one in curved])  # g has a factor 1/n
    return GeometryMap(
        lattice=lattice,
        log_volume=lattice.square(log_volume(model, x)),
        ricci=lattice.square(ricci),
        condition=lattice.square(torch.stack([one.condition for one in curved])),
        margin=lattice.square(lead(x)),
        boundary=lattice.curve(lead),
    )


def geometry_maps(run: Run, lattice: Lattice, progress: bool = True) -> dict[int, GeometryMap]:
    """The geometry at every snapshot of a run, as `geometry_map` gives it for one network.

    run: what numeric.runs.train returns for a perceptron of two inputs. lattice: a Lattice.
    Returned are GeometryMaps by the step of the snapshot. Refused is what `geometry_map` refuses, layers
    that are saturated among it.

    >>> from functools import partial
    >>> from numeric.models.perceptron import perceptron
    >>> from numeric.runs import train
    >>> x = torch.tensor([[0.0, 1.0], [1.0, 0.0]], dtype=torch.float64)
    >>> data, sgd = (x, torch.tensor([0, 1])), partial(torch.optim.SGD, lr=0.1)
    >>> loss, kind = nn.CrossEntropyLoss(), {"device": "cpu", "progress": False}
    >>> run = train(perceptron(3), loss, data, sgd, steps=2, **kind)
    >>> list(geometry_maps(run, Lattice(1.0, 3), progress=False))
    [0, 2]
    """
    require_instance("run", run, Run, "what numeric.runs.train returns")
    steps = progress_bar(run.steps, of="maps", show=progress)
    return {step: geometry_map(run.model_at(step), lattice) for step in steps}
