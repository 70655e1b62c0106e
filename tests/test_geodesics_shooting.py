"""The exponential map against great circles, semicircles and its own inverse."""

import math

import pytest
import torch
from torch import Tensor, nn

from analytic.activations import relu
from analytic.expressions.arguments import InputError
from numeric import geodesics, geometry
from numeric.estimate import power_law
from numeric.geodesics import NotConverged, Search
from numeric.models.shallow import ShallowNetwork
from test_geodesics import network, point, polar, pseudosphere, stereographic, torus


def great_circle(p: Tensor, v: Tensor, t: Tensor) -> Tensor:
    """In space, from the start and its velocity there."""
    start, velocity = torch.autograd.functional.jvp(stereographic, p[None], v[None])
    speed = velocity.norm()
    angle = (t * speed)[:, None]
    return start * angle.cos() + velocity / speed * angle.sin()


def test_great_circles() -> None:
    p, v = point(0.3, -0.2), point(0.5, 0.9)
    ray = geodesics.shoot(stereographic, p, v, 1.5)
    t = torch.linspace(0, 1.5, 31, dtype=torch.float64)
    assert (stereographic(ray.at(t)) - great_circle(p, v, t)).abs().max() < 1e-10
    speed = 2 * v.norm() / (1 + p @ p)
    assert ray.length.item() == pytest.approx(1.5 * speed.item(), rel=1e-14)
    assert ray.drift < 1e-10


def test_semicircles_of_the_half_plane() -> None:
    """With y = cosh u a geodesic has (v - c)^2 + y^2 constant."""
    p, w = point(1.0, 0.2), point(0.6, 0.9)
    ray = geodesics.shoot(pseudosphere, p, w)
    u, v = ray.at(torch.linspace(0, 1, 50, dtype=torch.float64)).T
    y, rate = math.cosh(1.0), math.sinh(1.0) * 0.6
    centre = 0.2 + y * rate / 0.9
    radius = (v - centre) ** 2 + u.cosh() ** 2
    assert (radius / radius[0] - 1).abs().max() < 1e-10


@pytest.mark.parametrize("name", ["sphere", "torus", "network"])
def test_the_exponential_undoes_the_logarithm(name) -> None:
    f = {"sphere": stereographic, "torus": torus, "network": network()}[name]
    p, q = point(0.3, 0.1), point(1.4, 1.1)
    path = geodesics.between(f, p, q)
    ray = geodesics.shoot(f, p, path.log)
    assert (ray.end - q).abs().max() < 1e-8
    t = torch.linspace(0, 1, 11, dtype=torch.float64)
    assert (ray.at(t) - path.at(t)).abs().max() < 1e-8
    assert (ray.velocity(t) - path.velocity(t)).abs().max() < 1e-6
    assert ray.length.item() == pytest.approx(path.length, rel=1e-9)


def test_many_velocities_at_once() -> None:
    net = network()
    p = point(0.2, -0.4)
    angles = torch.linspace(0, 2 * math.pi, 7, dtype=torch.float64)
    v = torch.stack([angles.cos(), angles.sin()], 1).reshape(1, 7, 2)
    fan = geodesics.shoot(net, p, v, 0.8)
    assert fan.end.shape == (1, 7, 2)
    assert fan.at([0.1, 0.2, 0.3]).shape == (3, 1, 7, 2)
    assert fan.length.shape == (1, 7)
    one = geodesics.shoot(net, p, v[0, 3], 0.8)
    assert (fan.end[0, 3] - one.end).abs().max() < 1e-9
    assert one.end.shape == (2,)
    assert one.length.shape == ()
    g = geometry.metric(net, p[None])[0]
    speed = torch.einsum("kni,ij,knj->kn", v, g, v).sqrt()
    assert (fan.length - 0.8 * speed).abs().max() < 1e-12


def test_speed_and_end_follow_the_tolerance() -> None:
    p, v = point(0.3, -0.2), point(0.5, 0.9)
    exact = great_circle(p, v, torch.ones(1, dtype=torch.float64))[0]
    tolerances, errors = (1e-4, 1e-6, 1e-8, 1e-10), []
    for tolerance in tolerances:
        ray = geodesics.shoot(stereographic, p, v, tolerance=tolerance)
        errors.append((stereographic(ray.end[None])[0] - exact).norm().item())
        assert ray.drift < 20 * tolerance
    assert power_law(tolerances, errors).value == pytest.approx(1, abs=0.25)


def test_no_velocity_goes_nowhere() -> None:
    p = point(0.3, 0.1)
    ray = geodesics.shoot(stereographic, p, torch.zeros(2, dtype=torch.float64))
    assert torch.equal(ray.end, p)
    assert ray.length == 0
    assert ray.drift == 0


def test_single_precision() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 30), nn.GELU(), nn.Linear(30, 20), nn.Tanh())
    p, v = torch.tensor([0.1, 0.2]), torch.tensor([1.0, 0.5])
    single = geodesics.shoot(model, p, v)
    double = geodesics.shoot(model.double(), p.double(), v.double())
    assert single.end.dtype == torch.float32
    assert (single.end - double.end).abs().max() < 1e-4


@pytest.mark.parametrize(
    "model",
    [
        nn.Sequential(nn.Linear(2, 20), nn.ReLU()).double(),
        ShallowNetwork.gaussian(relu, 20, 2, 1.0, 1.0, generator=torch.Generator().manual_seed(0)),
    ],
    ids=["module", "shallow"],
)
def test_networks_of_relus_are_refused(model) -> None:
    with pytest.raises(InputError, match="kinks"):
        geodesics.shoot(model, point(-1.0, -1.0), point(2.0, 2.0))


def test_kinks_of_a_function_change_the_speed() -> None:
    def fold(x: Tensor) -> Tensor:
        left, right = x[:, 0].clamp(max=0), x[:, 0].clamp(min=0)  # which goes unnoticed
        return torch.stack([right, 3 * left, x[:, 1]], 1)

    inside = geodesics.shoot(fold, point(1.0, 0.0), point(1.0, 1.0))  # one flat piece
    assert (inside.end - point(2.0, 1.0)).abs().max() < 1e-15
    with pytest.raises(NotConverged, match="kinks"):
        geodesics.shoot(fold, point(1.0, 0.0), point(-2.0, 1.0))


def test_singular_points_and_runaways_are_refused(monkeypatch) -> None:
    def cubic(x: Tensor) -> Tensor:
        return torch.stack([x[:, 0] ** 3, x[:, 1]], 1)

    with pytest.raises(InputError, match=r"singular at the point \(0, 0\)"):
        geodesics.shoot(polar, point(0.0, 0.0), point(1.0, 1.0))
    monkeypatch.setattr("numeric.geodesics.shooting.CALLS", 200)
    with pytest.raises(NotConverged, match=r"t = 0\.[23].* of 1 in 200 steps"):  # x = 0 is at 1/3
        geodesics.shoot(cubic, point(-1.0, 0.0), point(1.0, 0.1))
    with pytest.raises(
        NotConverged, match=r"of 2 in 200 steps, at the point"
    ):  # infinity is opposite
        geodesics.shoot(stereographic, point(0.0, 0.0), point(1.0, 0.0), 2.0)


@pytest.mark.parametrize(
    ("p", "v", "time", "tolerance", "match"),
    [
        (point(0.0, 0.0), point(1.0, 0.0, 0.0), 1.0, None, "shape"),
        (point(0.0, 0.0), point(1.0), 1.0, None, "shape"),
        (point(0.0, 0.0), torch.ones(2), 1.0, None, "float32"),
        (point(0.0, 0.0), point(1.0, math.nan), 1.0, None, "finite"),
        (point(0.0, 0.0), "(1, 0)", 1.0, None, "v must be an array of numbers"),
        (point(0.0, math.inf), point(1.0, 0.0), 1.0, None, "infinite"),
        (point(0.0, 0.0), point(1.0, 0.0), 0.0, None, "above 0"),
        (point(0.0, 0.0), point(1.0, 0.0), math.nan, None, "above 0"),
        (point(0.0, 0.0), point(1.0, 0.0), 1.0, -1.0, "between 0 and 1"),
    ],
)
def test_bad_input(p, v, time, tolerance, match) -> None:
    with pytest.raises(InputError, match=match):
        geodesics.shoot(stereographic, p, v, time, tolerance=tolerance)


def test_times_outside_are_refused() -> None:
    ray = geodesics.shoot(stereographic, point(0.0, 0.0), point(0.5, 0.0), 2.0)
    assert ray.at(2.0).shape == (2,)
    with pytest.raises(InputError, match="from t = 0 to t = 2"):
        ray.at([0.5, 2.1])
    path = geodesics.between(stereographic, point(0.0, 0.0), point(1.0, 0.0), search=Search(1))
    for t in (-0.1, 1.1, math.nan):
        with pytest.raises(InputError, match="from t = 0 to t = 1"):
            path.at(t)


def test_there_and_back_again() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 30), nn.GELU(), nn.Linear(30, 20), nn.Softplus()).double()
    p, v = point(0.2, 0.3), point(0.7, -0.4)
    ray = geodesics.shoot(model, p, v)
    back = geodesics.shoot(model, ray.end, -ray.velocity(1.0))
    assert (back.end - p).abs().max() < 1e-9
