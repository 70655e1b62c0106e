"""Covariant derivatives, curvature forms and residuals against Christoffel symbols and plain calculus."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.func import jacrev, vmap

from analytic.expressions.arguments import InputError
from numeric import geodesics, geometry
from numeric.geodesics.chart import CovariantDerivative, open_chart
from numeric.geodesics.elements import Curve, lobatto
from numeric.geodesics.maps import AutodiffMap, HiddenLayerMap
from numeric.geodesics.refinement import GeodesicResidual
from numeric.geodesics.variation import Variation, energy
from test_geodesics import flat, network, pseudosphere, stereographic


def deep() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(2, 20), nn.GELU(), nn.Linear(20, 12), nn.Tanh()).double()


def draws(n: int = 5, d: int = 2, seed: int = 0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    x, v = torch.randn(2, n, d, generator=generator, dtype=torch.float64)
    return x, v


def around(f, x: Tensor, v: Tensor) -> tuple[CovariantDerivative, Tensor]:
    with open_chart(f, x, None) as (chart, flat_x):
        y = (flat_x - chart.origin).numpy()
        derivative = chart.covariant_derivative(y, v.numpy())
        form = derivative.curvature_form(chart.features, chart.places(y), v)
    return derivative, form


@pytest.mark.parametrize("name", ["deep", "shallow", "pseudosphere"])
def test_acceleration_is_that_of_the_christoffel_symbols(name) -> None:
    f = {"deep": deep(), "shallow": network(), "pseudosphere": pseudosphere}[name]
    x, v = draws()
    x = x.abs() + 0.5  # off the edge of the pseudosphere

    def metric(at: Tensor) -> Tensor:
        J = jacrev(lambda y: f(y[None])[0])(at)
        return J.T @ J

    def acceleration(at: Tensor, u: Tensor) -> Tensor:
        slope = jacrev(metric)(at)  # [i, j, k], by x_k
        lowered = (
            torch.einsum("ijk,j,k->i", slope, u, u) - torch.einsum("jki,j,k->i", slope, u, u) / 2
        )
        return -torch.linalg.solve(metric(at), lowered)

    exact = vmap(acceleration)(x, v)
    result = around(f, x, v)[0].acceleration(v)
    assert (result - exact).abs().max() < 1e-11 * exact.abs().max()


@pytest.mark.parametrize("f", [deep(), network()], ids=["deep", "shallow"])
def test_curvature_forms_are_gaussian_curvature_times_area(f) -> None:
    """In two dimensions <R(V, v)v, V> = K (|V|^2 |v|^2 - <V, v>^2), with K half the Ricci scalar."""
    x, v = draws()
    _, form = around(f, x, v)
    g, K = geometry.metric(f, x), geometry.ricci_scalar(f, x).value / 2
    lowered = torch.einsum("nij,nj->ni", g, v)
    size = (lowered * v).sum(1)
    area = g * size[:, None, None] - lowered[:, :, None] * lowered[:, None]
    exact = K[:, None, None] * area
    assert (form - exact).abs().max() < 1e-10 * exact.abs().max()


def test_curvature_forms_of_the_sphere_in_three_dimensions() -> None:
    x, v = draws(d=3)
    _, form = around(stereographic, x, v)
    g = geometry.metric(stereographic, x)
    lowered = torch.einsum("nij,nj->ni", g, v)
    size = (lowered * v).sum(1)[:, None, None]
    assert (form - (g * size - lowered[:, :, None] * lowered[:, None])).abs().max() < 1e-12


def test_closed_form_and_torch_give_the_same_derivatives() -> None:
    net = network(30)
    x, v = draws()
    with open_chart(net, x, None) as (chart, at):
        closed = chart.features
        general = AutodiffMap(closed.features)
        assert isinstance(closed, HiddenLayerMap)
        c = torch.randn(len(x), 30, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
        pairs = [
            (closed.jvp(at, v), general.jvp(at, v)),
            *zip(
                closed.jacobian_and_hessian(at, v), general.jacobian_and_hessian(at, v), strict=True
            ),
            (closed.contract_hessian(at, c), general.contract_hessian(at, c)),
            (closed.vjp(at)[0], general.vjp(at)[0]),
            (closed.vjp(at)[1](c), general.vjp(at)[1](c)),
        ]
    for one, two in pairs:
        assert one.shape == two.shape
        assert not two.requires_grad
        assert (one - two).abs().max() < 1e-13


def test_variations_are_derivatives_of_the_energy() -> None:
    """The first by differences; the second too, about a geodesic, which a straight line of a flat map is."""
    rng = np.random.default_rng(0)
    breaks = np.linspace(0, 1, 3)
    for f, at_rest in ((stereographic, False), (flat, True)):
        x = torch.tensor([[0.1, 0.2], [0.9, -0.7]], dtype=torch.float64)
        with open_chart(f, x, None) as (chart, points):
            end = (points[1] - points[0]).numpy()
            start = Curve.through(breaks, np.zeros((13, 2)))
            nodes = np.outer(start.times, end)
            here = Variation.at(chart, Curve.through(breaks, nodes))

            def along(step: float, field: np.ndarray) -> float:
                return energy(chart, Curve.through(breaks, nodes + step * field))  # noqa: B023

            field = rng.normal(size=nodes.shape)
            field[[0, -1]] = 0
            h = 1e-5
            first = (along(h, field) - along(-h, field)) / (2 * h)
            assert 2 * here.first @ field.ravel() == pytest.approx(first, rel=1e-6, abs=1e-8)
            assert here.energy == pytest.approx(along(0.0, field), rel=1e-14)
            if at_rest:
                second = along(1.0, field) - 2 * along(0.0, field) + along(-1.0, field)
                own = field.ravel() @ (here.stiffness - here.curvature) @ field.ravel()
                assert 2 * own == pytest.approx(second, rel=1e-12)
                assert np.abs(here.first[here.inner]).max() < 1e-12


def test_residual_of_a_bent_path_is_its_turning() -> None:
    """A parabola of height h/4 over the unit interval of a flat plane accelerates by 2h."""
    jacobian_and_hessian = 1e-3

    def plane(x: Tensor) -> Tensor:
        return x * 1.0

    x = torch.tensor([[0.0, 0.0], [1.0, 0.0]], dtype=torch.float64)
    with open_chart(plane, x, None) as (chart, _):
        start = Curve.through(np.array([0.0, 0.3, 1.0]), np.zeros((9, 2)))
        t = start.times
        curve = Curve.through(start.breaks, np.stack([t, jacobian_and_hessian * t * (1 - t)], 1))
        seen = GeodesicResidual.of(chart, curve)
    assert seen.residual == pytest.approx(2 * jacobian_and_hessian, rel=1e-6)
    assert seen.noise.sum() < 1e-10
    assert (seen.condition == 1).all()


def test_lobatto_rules() -> None:
    for m in (1, 2, 5, 12):
        rule = lobatto(m)
        for power in range(2 * m):
            exact = 0 if power % 2 else 2 / (power + 1)
            assert rule.weights @ rule.nodes**power == pytest.approx(exact, abs=1e-14)
        assert abs(rule.weights @ rule.nodes ** (2 * m) - 2 / (2 * m + 1)) > 1e-9
        slopes = rule.slopes @ rule.nodes**m
        assert np.abs(slopes - m * rule.nodes ** (m - 1)).max() < 1e-12
    assert lobatto(3).nodes[1] == pytest.approx(-1 / math.sqrt(5), rel=1e-15)


def test_curves_are_polynomials_that_halving_keeps() -> None:
    start = Curve.through(np.array([0.0, 0.2, 1.0]), np.zeros((9, 1)))
    curve = Curve.through(start.breaks, start.times[:, None] ** 4)
    t = np.linspace(0, 1, 17)
    for order, exact in enumerate((t**4, 4 * t**3, 12 * t**2)):
        assert np.abs(curve.at(t, order)[:, 0] - exact).max() < 1e-12
    halved = curve.split(np.array([False, True]))
    assert halved.breaks.tolist() == [0.0, 0.2, 0.6, 1.0]
    assert np.abs(halved.at(t) - curve.at(t)).max() < 1e-14
    assert np.abs(curve.velocities - curve.inside(curve.rule.nodes, 1)).max() < 1e-12


class Square(torch.autograd.Function):
    """With a custom first derivative that is right, but has no derivative itself."""

    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x**2

    @staticmethod
    def backward(ctx, slope: Tensor) -> Tensor:
        return 2 * ctx.saved_tensors[0].detach() * slope


def test_wrong_derivatives_are_noticed() -> None:
    p, q = torch.ones(2, 2, dtype=torch.float64)
    with pytest.raises(InputError, match="second derivative of the map is not that"):
        geodesics.between(Square.apply, p, q + 1)
    with pytest.raises(InputError, match="derivative of the map is not that"):
        geodesics.between(lambda x: torch.cat([x, x.detach() * x], 1), p, q + 1)
