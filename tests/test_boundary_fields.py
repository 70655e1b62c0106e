"""Volume and curvature over the plane are those of the paper's features, by other code."""

import math

import pytest
import torch
from torch import nn

from analytic.activations import sigmoid
from analytic.expressions.arguments import InputError
from numeric import geometry
from numeric.experiments.decision_boundaries import (
    Disc,
    Lattice,
    geometry_map,
    geometry_maps,
    perceptron,
    xor,
)
from numeric.experiments.decision_boundaries.plane_geometry import THIN, log_volume
from numeric.models.shallow import ShallowNetwork
from numeric.runs import train

DISC = Disc(1.5, 7)


def test_fields_are_those_of_the_paper_s_features() -> None:
    """n^(-1/2) phi: the volume against autograd; R against moments of units, and of the map itself."""
    net, lattice = perceptron((5, 4), seed=3), Lattice(1.5, 4)
    fields = geometry_map(net, lattice)
    assert fields.log_volume.shape == fields.ricci.shape == fields.condition.shape == (2, 4, 4)
    for k, features in enumerate((net[:3], net[:6])):
        J = torch.stack([torch.autograd.functional.jacobian(features, p) for p in lattice.x])
        exact = torch.linalg.det(J.mT @ J).log() / 2
        torch.testing.assert_close(fields.log_volume[k].flatten(), exact, rtol=0, atol=1e-9)
        R = geometry.ricci_scalar(features, lattice.x).value
        torch.testing.assert_close(fields.ricci[k].flatten(), R, rtol=1e-7, atol=1e-7)
    first = ShallowNetwork(sigmoid, net.linear1.weight.detach(), net.linear1.bias.detach())
    torch.testing.assert_close(
        fields.ricci[0].flatten(), first.ricci_scalar(lattice.x), rtol=1e-7, atol=1e-7
    )
    lead = net(lattice.x)[:, 1] - net(lattice.x)[:, 0]
    torch.testing.assert_close(fields.margin.flatten(), lead.detach())


@pytest.mark.parametrize("shape", [(2,), (9,), (5, 4, 3)])
@pytest.mark.parametrize("activation", [None, nn.Tanh(), nn.GELU(), nn.Softplus()])
def test_areas_are_volumes_of_the_general_code(shape: tuple, activation: nn.Module | None) -> None:
    """Which works by QR with scales in logs, and by autograd in deep layers; ill conditioned ones too."""
    net = perceptron(shape, 1, activation)
    net.linear1.weight.data *= torch.linspace(2, 60, shape[0])[:, None]  # some are far saturated
    log_areas = log_volume(net, DISC.x)
    for k, area in enumerate(log_areas, 1):
        exact = geometry.log_volume(net, DISC.x, layer=f"phi{k}", progress=False)
        off = (area + math.log(shape[k - 1]) - exact.value).abs()
        rounding = exact.condition.clamp(max=1 / THIN)  # beyond, both are the same code
        assert (off < 1e-14 * (10 + exact.value.abs() + 10 * rounding)).all()
    if shape == (2,) and isinstance(activation, nn.Tanh):
        assert exact.condition.max() > 1e5 / THIN


def test_networks_that_diverged_are_told() -> None:
    net = perceptron(5)
    net.linear1.weight.data *= 1e20
    with pytest.raises(
        InputError, match=r"Slopes in phi1 are down to exp\(-.*e\+\d+\): training diverged"
    ):
        log_volume(net, DISC.x)
    net.linear1.weight.data[2:] *= 1e-20  # three of the units are as they were
    assert log_volume(net, DISC.x).isfinite().all()


def test_areas_that_vanish_are_told() -> None:
    with pytest.raises(InputError, match="degenerate at 184 points"):
        log_volume(perceptron(1), DISC.x)
    parallel = perceptron(3)
    parallel.linear1.weight.data[1:] = parallel.linear1.weight.data[:1] * torch.tensor([[0.3], [7]])
    with pytest.raises(InputError, match="degenerate at 184 points"):
        log_volume(parallel, DISC.x)
    odd = perceptron(3, activation=nn.Threshold(0.1, 0.0))
    with pytest.raises(InputError, match="not known in closed form"):
        log_volume(odd, DISC.x)


def test_two_units_are_flat_and_fields_follow_a_run() -> None:
    net, lattice = perceptron(2, seed=1), Lattice(1.0, 6)
    recipe = xor().recipe.with_larger_steps(10)
    run = train(net, nn.CrossEntropyLoss(), xor().data(0), recipe.optimizer, steps=30, at=(10,),
                device="cpu", progress=False)  # fmt: skip
    seen = geometry_maps(run, lattice, progress=False)
    assert list(seen) == [0, 10, 30]
    torch.testing.assert_close(seen[0].log_volume, log_volume(net, lattice.x).unflatten(1, (6, 6)))
    assert not torch.equal(seen[10].log_volume, seen[30].log_volume)
    for one in seen.values():
        assert one.ricci.abs().max() < 1e-9 * one.condition.max() ** 2
        assert one.boundary.shape[1] == 2
