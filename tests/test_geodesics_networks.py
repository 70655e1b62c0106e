"""Geodesics of networks: lengths two ways, distances, precision, and models left as they were."""

import math

import pytest
import torch
from scipy.integrate import quad
from torch import Tensor, nn

from numeric import geodesics, geometry
from numeric.estimate import power_law
from numeric.geodesics import NotConverged, Search
from test_geodesics import ONE, network, point, straight


def test_length_on_a_network_by_quadrature_and_by_chords() -> None:
    """The metric of `geometry` along the path, and chords in feature space that approach it as h^2."""
    net = network()
    path = geodesics.between(net, point(-1.0, -1.0), point(1.5, 1.0))

    def speed(t: float) -> float:
        v = path.velocity(t)
        return math.sqrt(v @ geometry.metric(net, path.at([t]))[0] @ v)

    assert path.length == pytest.approx(quad(speed, 0, 1, epsrel=1e-10)[0], rel=1e-10)
    counts, errors = (8, 16, 32, 64), []
    for count in counts:
        on = net(path.at(torch.linspace(0, 1, count + 1, dtype=torch.float64)))
        errors.append(path.length - (on[1:] - on[:-1]).norm(dim=1).sum().item())
    slope = power_law(counts, errors)
    assert slope.value == pytest.approx(-2, abs=0.05)


def test_a_network_in_closed_form_and_by_torch() -> None:
    net = network()
    p, q = point(-1.0, -1.0), point(1.5, 1.0)
    closed, general = (geodesics.between(f, p, q, search=ONE) for f in (net, lambda x: net(x)))
    assert closed.length == pytest.approx(general.length, rel=1e-13)
    assert (closed.at(0.37) - general.at(0.37)).abs().max() < 1e-10
    assert closed.stability == pytest.approx(general.stability, abs=1e-10)


def test_no_path_nearby_is_shorter() -> None:
    """Second differences of the energy along random fields are not below what stability allows."""
    net = network()
    path = geodesics.between(net, point(-1.0, -1.0), point(1.5, 1.0))
    t = torch.linspace(0, 1, 2001, dtype=torch.float64)
    base = path.at(t)
    generator = torch.Generator().manual_seed(0)

    def chords(x: Tensor) -> float:
        on = net(x)
        return (on[1:] - on[:-1]).norm(dim=1).sum().item()

    for _ in range(10):
        shape = torch.randn(3, 2, generator=generator, dtype=torch.float64)
        field = torch.sin(math.pi * torch.outer(t, torch.arange(1.0, 4.0).double())) @ shape
        assert chords(base + 0.02 * field) > chords(base)


def test_distances_are_a_metric() -> None:
    net = network()
    x = 1.5 * torch.randn(5, 2, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    D = geodesics.distances(net, x, progress=False)
    assert torch.equal(D, D.T)
    assert not D.diagonal().any()
    assert (D[:, :, None] + D[None] - D[:, None] >= -1e-9).all()  # D_ij + D_jk >= D_ik
    on = net(x)
    assert (torch.cdist(on, on) - 1e-12 <= D).all()
    back = geodesics.distance(net, x[0], x[1])
    assert back == pytest.approx(D[0, 1].item(), rel=1e-12)
    assert geodesics.distance(net, x[1], x[0]) == pytest.approx(back, rel=1e-12)


def test_single_precision_points_and_any_shape_of_point() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(4, 30), nn.GELU(), nn.Linear(30, 20), nn.Tanh())
    p, q = torch.zeros(2, 2), torch.ones(2, 2)
    single = geodesics.between(model, p, q, search=ONE)
    assert single.at([0.0, 1.0]).shape == (2, 2, 2)
    assert single.at(0.5).dtype == single.log.dtype == torch.float32
    double = geodesics.between(model.double(), p.double(), q.double(), search=ONE)
    assert single.length == pytest.approx(double.length, rel=1e-6)
    assert (single.at(0.5) - double.at(0.5)).abs().max() < 1e-4
    inner = geodesics.between(model, p.double(), q.double(), layer="1", search=ONE)
    assert inner.length == pytest.approx(straight(model[:2], p.double(), q.double()), rel=1e-13)


def test_models_are_left_as_they_were() -> None:
    model = nn.Sequential(nn.Linear(2, 20), nn.Dropout(0.5), nn.Tanh(), nn.Linear(20, 9)).double()
    path = geodesics.between(model, point(0.0, 0.0), point(1.0, 1.0), search=ONE)
    assert model.training
    assert model[1].training
    assert not path.at(0.5).requires_grad
    assert all(p.grad is None for p in model.parameters())


def test_activations_whose_second_derivative_jumps() -> None:
    """ELU: halving pieces gains little, as the residual shows; an explicit tolerance is respected."""
    torch.manual_seed(2)
    model = nn.Sequential(nn.Linear(2, 30), nn.ELU()).double()
    p, q = point(-1.0, 0.5), point(1.2, -0.7)
    path = geodesics.between(model, p, q, search=ONE)
    assert path.refined
    assert 1e-6 < path.residual < 0.05
    assert geodesics.relax(model, p, q, search=ONE).length == pytest.approx(path.length, rel=1e-5)
    with pytest.raises(NotConverged, match="turns by"):
        geodesics.between(model, p, q, search=Search(1, tolerance=1e-8))
