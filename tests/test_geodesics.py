"""Geodesics on surfaces where they are known, in charts where they are not straight."""

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from analytic.activations import erf
from analytic.expressions.arguments import InputError
from numeric import geodesics, geometry
from numeric.estimate import power_law
from numeric.geodesics import Search
from numeric.geodesics.chart import open_chart
from numeric.geodesics.elements import Curve
from numeric.geodesics.variation import length, minimise_energy
from numeric.models.shallow import ShallowNetwork

ONE = Search(starts=1)
ALPHA = 0.7  # half the opening angle of the cone
SHEAR = torch.tensor([[1.0, 2.0, 3.0], [0.0, 1.0, -1.0]], dtype=torch.float64)


def point(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def flat(x: Tensor) -> Tensor:
    return x @ SHEAR


def polar(x: Tensor) -> Tensor:
    r, t = x.T
    return torch.stack([r * t.cos(), r * t.sin()], 1)


def stereographic(x: Tensor) -> Tensor:
    s = (x * x).sum(1, keepdim=True)
    return torch.cat([2 * x, 1 - s], 1) / (1 + s)


def spherical(x: Tensor) -> Tensor:
    t, p = x.T
    return torch.stack([t.sin() * p.cos(), t.sin() * p.sin(), t.cos()], 1)


def cylinder(x: Tensor) -> Tensor:
    t, z = x.T
    return torch.stack([t.cos(), t.sin(), z], 1)


def cone(x: Tensor) -> Tensor:
    r, t = x.T
    return torch.stack([r * math.sin(ALPHA) * t.cos(), r * math.sin(ALPHA) * t.sin(), r], 1)


def torus(x: Tensor) -> Tensor:
    u, v = x.T
    return torch.stack([(2 + u.cos()) * v.cos(), (2 + u.cos()) * v.sin(), u.sin()], 1)


def pseudosphere(x: Tensor) -> Tensor:
    u, v = x.T
    return torch.stack([v.cos() / u.cosh(), v.sin() / u.cosh(), u - u.tanh()], 1)


def network(width: int = 100, seed: int = 0, d: int = 2) -> ShallowNetwork:
    generator = torch.Generator().manual_seed(seed)
    return ShallowNetwork.gaussian(erf, width, d, 1.5, 0.5, generator=generator)


def straight(f: Callable[[Tensor], Tensor], p: Tensor, q: Tensor) -> float:
    return (f(p[None]) - f(q[None])).norm().item()


def arc(f: Callable[[Tensor], Tensor], p: Tensor, q: Tensor) -> float:
    return 2 * math.asin(straight(f, p, q) / 2)


def on_cylinder(_: object, p: Tensor, q: Tensor) -> float:
    return (p - q).norm().item()


def on_cone(_: object, p: Tensor, q: Tensor) -> float:
    """Unrolled: slant heights, and angles times the sine of the opening angle."""
    (a, s), (b, t) = p.tolist(), q.tolist()
    slant = math.hypot(1, math.sin(ALPHA))
    angle = (s - t) * math.sin(ALPHA) / slant
    return slant * math.sqrt((a - b) ** 2 + 4 * a * b * math.sin(angle / 2) ** 2)


def on_half_plane(_: object, p: Tensor, q: Tensor) -> float:
    """v and cosh u are the coordinates of the hyperbolic half-plane."""
    (a, s), (b, t) = ((math.cosh(u), v) for u, v in (p.tolist(), q.tolist()))
    return 2 * math.asinh(math.hypot(a - b, s - t) / (2 * math.sqrt(a * b)))


KNOWN = {
    "flat": (flat, (-1.0, 0.0), (1.0, 0.3), straight),
    "polar": (polar, (1.0, 0.0), (2.0, 2.0), straight),
    "polar, close to the origin": (polar, (1.0, 0.0), (1.0, 2.9), straight),
    "sphere": (stereographic, (0.1, 0.2), (0.9, -0.7), arc),
    "sphere, far": (stereographic, (0.1, 0.2), (2.9, -2.7), arc),
    "sphere of three dimensions": (stereographic, (0.1, 0.2, -0.4), (0.9, -0.7, 0.5), arc),
    "circle": (stereographic, (0.1,), (1.5,), arc),
    "sphere in angles": (spherical, (1.2, 0.0), (1.9, 1.4), arc),
    "sphere in angles, by the pole": (spherical, (0.4, 0.0), (0.5, 2.4), arc),
    "cylinder": (cylinder, (0.2, 0.0), (2.0, 1.3), on_cylinder),
    "cylinder, more than once around": (cylinder, (0.0, 0.0), (8.0, 1.0), on_cylinder),
    "cone": (cone, (1.0, 0.0), (1.7, 2.5), on_cone),
    "meridian of a torus": (torus, (-0.9, 0.4), (0.8, 0.4), on_cylinder),
    "pseudosphere": (pseudosphere, (0.5, 0.0), (1.0, 1.3), on_half_plane),
    "pseudosphere, near its edge": (pseudosphere, (0.1, 0.0), (0.2, 3.0), on_half_plane),
}


@pytest.mark.parametrize("name", KNOWN)
def test_lengths_are_known_ones(name) -> None:
    """To 14 digits, where sums over a few hundred nodes leave some ulps."""
    f, p, q, exact = KNOWN[name]
    path = geodesics.between(f, point(*p), point(*q), search=ONE)
    assert path.length == pytest.approx(exact(f, point(*p), point(*q)), rel=3e-14)
    assert path.energy == pytest.approx(path.length**2, rel=1e-13)
    assert path.refined
    assert path.residual < 5.5e-7
    assert path.minimum


def test_a_path_is_a_great_circle_at_constant_speed() -> None:
    path = geodesics.between(stereographic, point(0.1, 0.2), point(0.9, -0.7), search=ONE)
    t = torch.linspace(0, 1, 41, dtype=torch.float64)
    on = stereographic(path.at(t))
    a, b = on[0], on[-1]
    L = path.length
    exact = (torch.sin((1 - t) * L)[:, None] * a + torch.sin(t * L)[:, None] * b) / math.sin(L)
    assert (on - exact).abs().max() < 1e-11
    g = geometry.metric(stereographic, path.at(t))
    v = path.velocity(t)
    speed = torch.einsum("ni,nij,nj->n", v, g, v).sqrt()
    assert (speed / L - 1).abs().max() < 1e-10


def test_times_come_in_any_shape() -> None:
    p, q = point(0.1, 0.2), point(0.9, -0.7)
    path = geodesics.between(stereographic, p, q, search=ONE)
    assert path.at(0.5).shape == (2,)
    assert path.at([0.0, 0.5, 1.0]).shape == (3, 2)
    assert path.at(np.zeros((2, 3))).shape == path.velocity(torch.zeros(2, 3)).shape == (2, 3, 2)
    assert (path.at(0) - p).abs().max() < 1e-15
    assert (path.at(1) - q).abs().max() < 1e-15
    step = 1e-5
    slope = (path.at(0.3 + step) - path.at(0.3 - step)) / (2 * step)
    assert (slope - path.velocity(0.3)).abs().max() < 1e-8
    assert torch.equal(path.log, path.velocity(0.0))


@pytest.mark.parametrize("f", [torus, pseudosphere], ids=["torus", "pseudosphere"])
def test_clairaut(f) -> None:
    """On a surface of revolution the radius times the sine of the angle with meridians is constant."""
    path = geodesics.between(f, point(0.3, 0.0), point(1.4, 1.1), search=ONE)
    t = torch.linspace(0, 1, 101, dtype=torch.float64)
    at, v = path.at(t), path.velocity(t)
    radius = f(at)[:, :2].norm(dim=1)
    momentum = radius**2 * v[:, 1] / path.length
    assert (momentum / momentum[0] - 1).abs().max() < 1e-8
    turned = path.at(t).clone()
    turned[:, 1] += 0.01 * torch.sin(math.pi * t)  # no geodesic
    slope = v[:, 1] + 0.01 * math.pi * torch.cos(math.pi * t)
    wrong = f(turned)[:, :2].norm(dim=1) ** 2 * slope
    assert (wrong / wrong[0] - 1).abs().max() > 1e-3


@pytest.mark.parametrize("size", [1e-2, 1e-5, 1e-8, 1e-12])
def test_close_points_keep_their_digits(size) -> None:
    p = point(0.5, 1.3)
    q = p + size * point(1.0, -0.3)
    chord = (q - p).norm().item() / math.sqrt((1 + p @ p) * (1 + q @ q))
    path = geodesics.between(stereographic, p, q, search=ONE)
    assert path.length == pytest.approx(2 * math.asin(chord), rel=1e-14)
    assert path.residual < 5.5e-7


def test_coordinates_of_any_scale_do() -> None:
    scale = point(1.0, 1e-5)
    p, q = point(0.1, 0.2), point(0.9, -0.7)
    own = geodesics.distance(stereographic, p, q, search=ONE)
    scaled = geodesics.distance(
        lambda x: stereographic(x * scale), p / scale, q / scale, search=ONE
    )
    assert scaled == pytest.approx(own, rel=1e-13)


def test_stability_on_the_sphere() -> None:
    """Jacobi fields sin(pi t) across the path: 1 - (L/pi)^2, below 0 beyond the antipode."""
    for angle in (0.5, 2.0, 3.0, 4.0):
        p, q = point(math.pi / 2, 0.0), point(math.pi / 2, angle)
        path = geodesics.between(spherical, p, q, search=ONE)
        assert path.length == pytest.approx(angle, rel=1e-14)
        assert path.stability == pytest.approx(1 - (angle / math.pi) ** 2, abs=1e-11)
        assert path.minimum == (angle < math.pi)
        assert not path.conjugate


@pytest.mark.parametrize("f", [flat, pseudosphere], ids=["flat", "hyperbolic"])
def test_stability_without_positive_curvature(f) -> None:
    """Fields along the path have the eigenvalue 1, and no other field has less."""
    path = geodesics.between(f, point(0.5, 0.0), point(1.0, 1.3), search=ONE)
    assert path.stability == pytest.approx(1, abs=1e-10)


def test_opposite_points_are_conjugate() -> None:
    result = geodesics.several(stereographic, point(0.5, 0.0), point(-2.0, 0.0))
    assert len(result) > 1
    for path in result:
        assert path.length == pytest.approx(math.pi, rel=1e-13)
        assert path.conjugate
        assert not path.minimum


def test_several_geodesics_of_a_torus() -> None:
    """Half around the outer equator, two mirror images are shorter than the equator, which is no minimum."""
    up, down, equator = geodesics.several(torus, point(0.0, 0.0), point(0.0, 3.0))
    assert up.length == pytest.approx(down.length, rel=1e-13)
    assert (up.at(0.5) + down.at(0.5) - point(0.0, 3.0)).abs().max() < 1e-7
    assert up.minimum
    assert down.minimum
    assert equator.length == pytest.approx(9.0, rel=1e-14)
    assert equator.stability < 0
    assert up.length < 9


def test_pieces_converge_at_twice_their_degree() -> None:
    p, q = point(0.1, 0.2), point(0.9, -0.7)
    exact, counts, errors = arc(stereographic, p, q), (4, 6, 8, 12), []
    with open_chart(stereographic, torch.stack([p, q]), None) as (chart, _):
        for count in counts:
            breaks = np.linspace(0, 1, count + 1)
            start = Curve.through(breaks, np.zeros((3 * count + 1, 2)))
            nodes = np.outer(start.times, (q - p).numpy())
            curve = minimise_energy(chart, Curve.through(breaks, nodes))
            errors.append(abs(length(chart, curve) - exact))
    assert power_law(counts, errors).value == pytest.approx(-6, abs=0.2)


def test_next_to_opposite_points_lengths_are_off_by_no_more_than_their_error() -> None:
    """Paths on all sides are nearly as short, and some of those returned are not yet geodesics."""
    p, q = point(0.5, 0.0), point(-2.0 + 1e-7, 0.0)
    exact = arc_between_opposite(p, q)
    for path in geodesics.several(stereographic, p, q, search=Search(starts=2)):
        assert abs(path.length - exact) <= path.error < 1e-4  # 100 times its residual squared


def arc_between_opposite(p: Tensor, q: Tensor) -> float:
    """pi less the angle between -f(p) and f(q), which keeps its digits."""
    far = -p / (p @ p)
    chord = (q - far).norm() / ((1 + q @ q) * (1 + far @ far)).sqrt()
    return math.pi - 2 * math.asin(chord.item())


def test_errors_of_lengths_are_honest_and_small_elsewhere() -> None:
    for f, p, q, exact in KNOWN.values():
        path = geodesics.between(f, point(*p), point(*q), search=ONE)
        length = exact(f, point(*p), point(*q))
        assert abs(path.length - length) <= 3 * path.error  # 3e-14, as above
        assert path.error < 1e-10 * path.length


def test_batches_are_not_read_as_one_point() -> None:
    """A network acts on each row; the distance in the product space is not what is wanted."""
    net = torch.nn.Sequential(
        torch.nn.Linear(2, 6), torch.nn.Tanh(), torch.nn.Linear(6, 6)
    ).double()
    p, q = torch.zeros(3, 2, dtype=torch.float64), torch.ones(3, 2, dtype=torch.float64)
    for call in (geodesics.distance, geodesics.between, geodesics.several, geodesics.relax):
        with pytest.raises(InputError, match=r"p and q of shape \(3, 2\) are batches of 3 points"):
            call(net, p, q)
    with pytest.raises(InputError, match=r"p of shape \(3, 2\) are batches of 3 points"):
        geodesics.shoot(net, p, q - p)
    one = geodesics.distance(net, p[0], q[0], search=ONE)
    whole = geodesics.distance(
        lambda x: net(x.unflatten(1, (3, 2))), p.flatten(), q.flatten(), search=ONE
    )
    assert whole == pytest.approx(math.sqrt(3) * one, rel=1e-10)
    mixed = geodesics.distance(  # rows that are one point
        lambda x: torch.cat([x, x.cumsum(1)], 2).sin(), p[:2], q[:2] / 2, search=ONE
    )
    assert mixed > 0
