"""Means against the textbook iteration on the sphere in space, and in spaces where they are known."""

import math

import pytest
import torch
from torch import Tensor, nn

from analytic.expressions.arguments import InputError
from numeric import geodesics
from numeric.geodesics import Search
from test_geodesics import flat, network, point, polar, spherical, stereographic

TWO = Search(starts=2)


def draws(seed: int, n: int = 4, size: float = 0.5) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return size * torch.randn(n, 2, generator=generator, dtype=torch.float64)


def karcher(on: Tensor, weights: Tensor) -> tuple[Tensor, float]:
    """The mean of points (n, 3) of the unit sphere, by steps along the mean logarithm."""
    m = torch.nn.functional.normalize(weights @ on, dim=0)
    for _ in range(200):
        cosines = on @ m
        angles = torch.atan2((on - cosines[:, None] * m).norm(dim=1), cosines)
        logs = (angles / angles.sin())[:, None] * (on - cosines[:, None] * m)
        step = weights @ logs
        size = step.norm()
        m = torch.nn.functional.normalize(m * size.cos() + step * torch.sinc(size / math.pi), dim=0)
    return m, (weights @ angles**2).item()


@pytest.mark.parametrize("weights", [None, [1.0, 2.0, 0.0, 3.0]], ids=["equal", "weighted"])
def test_mean_on_the_sphere(weights) -> None:
    x = draws(0)
    result = geodesics.mean(stereographic, x, weights, search=TWO, progress=False)
    share = torch.ones(4, dtype=torch.float64) if weights is None else point(*weights)
    exact, variance = karcher(stereographic(x), share / share.sum())
    assert (stereographic(result.point[None])[0] - exact).norm() < 1e-9
    assert result.variance == pytest.approx(variance, rel=1e-13)
    assert result.gradient < 1e-9
    assert result.iterations <= 5
    lengths = torch.tensor([g.length for g in result.geodesics], dtype=torch.float64)
    assert (share / share.sum() @ lengths**2).item() == pytest.approx(variance, rel=1e-13)


def test_coordinates_do_not_matter() -> None:
    """The same points of the sphere in angles, whose mean of coordinates is elsewhere."""
    x = draws(0) + point(0.8, 0.0)
    on = stereographic(x)
    angles = torch.stack([on[:, 2].acos(), torch.atan2(on[:, 1], on[:, 0])], 1)
    one = geodesics.mean(stereographic, x, search=TWO, progress=False)
    two = geodesics.mean(spherical, angles, search=TWO, progress=False)
    apart = stereographic(one.point[None]) - spherical(two.point[None])
    assert apart.norm() < 1e-9
    assert one.variance == pytest.approx(two.variance, rel=1e-12)


def test_flat_means_are_those_of_the_features() -> None:
    x = draws(1)
    weights = [1.0, 2.0, 3.0, 4.0]
    result = geodesics.mean(flat, x, weights, search=TWO, progress=False)
    assert (result.point - point(*weights) @ x / 10).abs().max() < 1e-13
    polar_mean = geodesics.mean(polar, x + point(2.0, 0.0), search=TWO, progress=False)
    assert (polar(polar_mean.point[None])[0] - polar(x + point(2.0, 0.0)).mean(0)).norm() < 1e-9


def test_two_points_have_the_middle_of_their_geodesic() -> None:
    net = network()
    x = torch.stack([point(-1.0, -0.5), point(1.0, 0.8)])
    path = geodesics.between(net, *x, search=TWO)
    result = geodesics.mean(net, x, search=TWO, progress=False)
    assert (result.point - path.at(0.5)).abs().max() < 1e-7
    assert result.variance == pytest.approx(path.length**2 / 4, rel=1e-12)
    third = geodesics.mean(net, x, [2.0, 1.0], search=TWO, progress=False)
    assert (third.point - path.at(1 / 3)).abs().max() < 1e-7


def test_no_point_nearby_has_less_variance() -> None:
    net, x = network(), draws(2, 3, 1.0)
    result = geodesics.mean(net, x, search=TWO, progress=False)
    for step in (point(0.05, 0.0), point(-0.03, 0.05), point(-0.03, -0.05)):
        lengths = [geodesics.distance(net, result.point + step, p, search=TWO) for p in x]
        assert sum(s * s for s in lengths) / 3 > result.variance


def test_one_point_and_equal_points_are_their_mean() -> None:
    p = point(0.3, -0.4)
    for x in (p[None], p.expand(3, 2)):
        result = geodesics.mean(stereographic, x, progress=False)
        assert (result.point - p).abs().max() < 1e-16
        assert result.variance == result.gradient == 0
        assert result.iterations == 0


def test_points_in_the_shape_of_a_model() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(4, 30), nn.Tanh()).double()
    x = torch.randn(3, 2, 2, dtype=torch.float64)
    result = geodesics.mean(model, x, search=TWO, progress=False)
    assert result.point.shape == (2, 2)
    assert result.geodesics[0].at(1.0).shape == (2, 2)
    assert (result.geodesics[0].at(1.0) - x[0]).abs().max() < 1e-14
    logs = torch.stack([g.log for g in result.geodesics])
    assert logs.mean(0).abs().max() < 1e-8


def test_bad_input() -> None:
    x = draws(0)
    for weights in ([1.0, 2.0], [1.0, -1.0, 1.0, 1.0], [1.0, math.nan, 1.0, 1.0], [[1.0] * 4]):
        with pytest.raises(InputError, match="weights"):
            geodesics.mean(stereographic, x, weights, progress=False)
    with pytest.raises(InputError, match="above"):
        geodesics.mean(stereographic, x, [0.0] * 4, progress=False)
    with pytest.raises(InputError, match="at least one point"):
        geodesics.mean(stereographic, x[:0], progress=False)
    with pytest.raises(InputError, match="NaN"):
        geodesics.mean(stereographic, x * math.nan, progress=False)
    torch.manual_seed(0)
    kinked = nn.Sequential(nn.Linear(2, 20), nn.ReLU()).double()
    with pytest.raises(InputError, match="kinks"):
        geodesics.mean(kinked, x[:2], search=Search(1), progress=False)
