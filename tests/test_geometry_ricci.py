"""The Ricci scalar of known spaces, and under changes of coordinates."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from numeric import geometry
from numeric.experiments.autodiff_curvature import flipped, ricci_by_nesting, textbook

DOUBLE = {"dtype": torch.float64}
Map = Callable[[Tensor], Tensor]


def points(n: int, d: int, low: float = 0.4, high: float = 1.3, seed: int = 0) -> Tensor:
    rng = torch.Generator().manual_seed(seed)
    return low + (high - low) * torch.rand(n, d, generator=rng, **DOUBLE)


def polar(x: Tensor) -> Tensor:
    """r and d - 1 angles -> d Cartesian coordinates."""
    rest, angles = x[:, 0], x[:, 1:].unbind(1)
    out = []
    for angle in angles[:-1]:
        out.append(rest * angle.cos())
        rest = rest * angle.sin()
    return torch.stack([*out, rest * angles[-1].cos(), rest * angles[-1].sin()], 1)


def sphere(x: Tensor) -> Tensor:
    return polar(torch.cat([torch.ones_like(x[:, :1]), x], 1))


def cylindrical(x: Tensor) -> Tensor:
    return torch.cat([polar(x[:, :2]), x[:, 2:]], 1)


def skewed(x: Tensor) -> Tensor:
    """A plane in coordinates that are neither orthogonal nor of constant length."""
    u, v = x.unbind(1)
    return torch.stack([u + 0.4 * v**2, v + 0.3 * torch.sin(2 * u) * v], 1)


def revolved(radius: Map, height: Map) -> Map:
    def surface(x: Tensor) -> Tensor:
        u, v = x.unbind(1)
        return torch.stack([radius(u) * v.cos(), radius(u) * v.sin(), height(u)], 1)

    return surface


torus = revolved(lambda u: 2 + 0.7 * u.cos(), lambda u: 0.7 * u.sin())
catenoid = revolved(torch.cosh, lambda u: u)
pseudosphere = revolved(lambda u: 1 / u.cosh(), lambda u: u - u.tanh())


def saddle(x: Tensor) -> Tensor:
    return torch.cat([x, x.prod(1, keepdim=True)], 1)


def clifford(x: Tensor) -> Tensor:
    return torch.cat([x.cos(), x.sin()], 1)


def hyperbolic(x: Tensor) -> Tensor:
    """A horoball piece of the hyperbolic plane, ds^2 = dt^2 + e^{-2t} dv^2, that fits into R^3."""
    t, v = x.unbind(1)
    e = torch.exp(-t)
    height = torch.atanh((1 - e**2).sqrt()) - (1 - e**2).sqrt()
    return torch.stack([e * v.cos(), e * v.sin(), height], 1)


def two_spheres(x: Tensor) -> Tensor:
    return torch.cat([sphere(x[:, :2]), 3 * sphere(x[:, 2:])], 1)


def constant(value: float) -> Map:
    return lambda x: torch.full_like(x[:, 0], value)


FLAT = {
    "plane in polar coordinates": (polar, 2),
    "space in spherical coordinates": (polar, 3),
    "four dimensions in polar coordinates": (polar, 4),
    "space in cylindrical coordinates": (cylindrical, 3),
    "plane in skewed coordinates": (skewed, 2),
    "cylinder": (lambda x: torch.cat([clifford(x[:, :1]), x[:, 1:]], 1), 2),
    "flat torus": (clifford, 2),
}

CURVED = {
    "torus": (torus, 2, lambda x: 2 * x[:, 0].cos() / (0.7 * (2 + 0.7 * x[:, 0].cos()))),
    "catenoid": (catenoid, 2, lambda x: -2 / x[:, 0].cosh() ** 4),
    "pseudosphere": (pseudosphere, 2, constant(-2)),
    "hyperbolic plane": (hyperbolic, 2, constant(-2)),
    "saddle": (saddle, 2, lambda x: -2 / (1 + x.square().sum(1)) ** 2),
    "sphere times sphere": (two_spheres, 4, constant(20 / 9)),
    "sphere times line": (lambda x: torch.cat([sphere(x[:, :2]), x[:, 2:]], 1), 3, constant(2)),
}  # fmt: skip


@pytest.mark.parametrize("d", [2, 3, 4, 6])
def test_the_unit_sphere_has_positive_curvature(d: int) -> None:
    """The convention of the suite: R = +d (d - 1)."""
    result = geometry.ricci_scalar(sphere, points(5, d, 0.6, 2.4))
    torch.testing.assert_close(
        result.value, torch.full((5,), d * (d - 1.0), **DOUBLE), rtol=1e-12, atol=0
    )
    assert (result.rank == d).all()


@pytest.mark.parametrize("name", CURVED)
def test_surfaces_have_twice_their_gaussian_curvature(name: str) -> None:
    surface, d, exact = CURVED[name]
    x = points(6, d)
    torch.testing.assert_close(
        geometry.ricci_scalar(surface, x).value, exact(x), rtol=1e-12, atol=1e-12
    )


@pytest.mark.parametrize("name", FLAT)
def test_flat_space_is_flat_in_any_coordinates(name: str) -> None:
    space, d = FLAT[name]
    x = points(6, d)
    assert geometry.ricci_scalar(space, x).value.abs().max() < 1e-12
    assert ricci_by_nesting(space, x, contraction=textbook).abs().max() < 1e-10


def test_a_flipped_sign_finds_flat_space_curved() -> None:
    """The public code for the paper flips the sign of the products of Christoffel symbols."""
    x = points(6, 3)
    wrong = ricci_by_nesting(polar, x, contraction=flipped)
    torch.testing.assert_close(wrong, 4 / x[:, 0] ** 2, rtol=1e-10, atol=0)
    skew = ricci_by_nesting(skewed, points(6, 2), contraction=flipped)
    assert skew.abs().max() > 0.5
    # Some spaces do not show the error: the sphere and the plane in polar coordinates come out right.
    plane = ricci_by_nesting(polar, points(6, 2), contraction=flipped)
    assert plane.abs().max() < 1e-10


def network(d: int, *widths: int, seed: int = 0) -> nn.Sequential:
    torch.manual_seed(seed)
    sizes = (d, *widths)
    layers = [(nn.Linear(a, b), nn.Tanh()) for a, b in zip(sizes, widths, strict=False)]
    return nn.Sequential(*(part for pair in layers for part in pair)).double()


@pytest.mark.parametrize("d", [2, 3])
def test_curvature_does_not_depend_on_coordinates_or_on_where_features_lie(d: int) -> None:
    net = network(d, 9, 8)
    x = points(5, d, -1, 1)

    def change(y: Tensor) -> Tensor:
        return y + 0.2 * torch.sin(2 * y.flip(1)) + 0.1 * y**2

    turn, _ = torch.linalg.qr(
        torch.randn(8, 8, generator=torch.Generator().manual_seed(1), **DOUBLE)
    )
    here = geometry.ricci_scalar(net, change(x)).value
    moved = geometry.ricci_scalar(lambda y: 5 + net(change(y)) @ turn, x).value
    torch.testing.assert_close(moved, here, rtol=1e-11, atol=1e-12)
    grown = geometry.ricci_scalar(lambda y: 3 * net(y), change(x)).value
    torch.testing.assert_close(9 * grown, here, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize(("layer", "widths"), [("1", (12,)), ("3", (9, 8)), ("5", (9, 8, 7))])
def test_deep_networks_have_the_textbooks_curvature(layer: str, widths: tuple[int, ...]) -> None:
    net, x = network(2, *widths), points(4, 2, -1.5, 1.5)
    ours = geometry.ricci_scalar(net, x, layer=layer).value
    torch.testing.assert_close(ours, ricci_by_nesting(net, x, layer=layer), rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize(("stretch", "tolerance"), [(1e4, 1e-10), (1e10, 1e-4)])
def test_a_general_map_loses_the_condition_number_only_once(
    stretch: float, tolerance: float
) -> None:
    """The same surface in coordinates of any condition number; no digit of x is lost in either."""
    for seed in range(3):
        net, rng = network(2, 9, 8, seed=seed), torch.Generator().manual_seed(seed)
        turn, _ = torch.linalg.qr(torch.randn(2, 2, generator=rng, **DOUBLE))
        squeeze = turn @ torch.diag(torch.tensor([1.0, 1 / stretch], **DOUBLE)) @ turn.T
        at = torch.randn(2, generator=rng, **DOUBLE)
        x = torch.zeros(1, 2, **DOUBLE)
        result = geometry.ricci_scalar(lambda y, at=at, s=squeeze, net=net: net(at + y @ s), x)
        exact = geometry.ricci_scalar(net, at[None])
        assert result.condition.item() > stretch / 3
        assert abs(result.value / exact.value - 1).item() < tolerance
