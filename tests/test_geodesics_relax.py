"""Relaxed paths, maps with kinks, and input that has no geodesic."""

import math

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from torch import Tensor, nn

from analytic.expressions.arguments import InputError
from numeric import geodesics
from numeric.estimate import power_law
from numeric.geodesics import NotConverged, Search
from test_geodesics import ONE, arc, network, point, polar, spherical, stereographic


def fold(x: Tensor) -> Tensor:
    """Two flat sheets that meet at a right angle along x = 0; the left one is stretched."""
    return torch.stack([torch.relu(x[:, 0]), 3 * torch.relu(-x[:, 0]), x[:, 1]], 1)


def vertex(x: Tensor) -> Tensor:
    """Four flat sheets that meet in a point, around which the angles do not add up to 2 pi."""
    return torch.cat(
        [x, 2 * torch.relu(x[:, :1]), 2 * torch.relu(x[:, 1:]), 3 * torch.relu(x.sum(1, True))], 1
    )


def test_refraction() -> None:
    """Unfolded, the sheets are a plane, in which the shortest path is straight."""
    path = geodesics.between(fold, point(-1.0, -1.0), point(1.5, 1.0))
    exact = math.hypot(3 + 1.5, 2)
    assert not path.refined
    assert path.stability is None
    assert path.minimum is None
    assert path.conjugate is None
    assert path.length == pytest.approx(exact, rel=3e-4)
    assert path.residual < 1e-3
    crossing = path.at(3 / 4.5)  # three times as long to the left
    assert crossing[0].abs() < 0.03
    assert crossing[1].item() == pytest.approx(-1 + 2 * 3 / 4.5, abs=0.05)


def test_kinks_cost_less_than_a_segment() -> None:
    """The length is that of a path, so it is never too short."""
    exact = math.hypot(4.5, 2)
    for n in (16, 32, 64):
        path = geodesics.relax(fold, point(-1.0, -1.0), point(1.5, 1.0), segments=n, search=ONE)
        assert -1e-7 * exact < path.length - exact < exact / (20 * n)


def test_a_path_past_a_vertex_of_sheets() -> None:
    """Beside the best chords with their nodes on the kinks, on either side of the vertex, by scipy."""
    p, q = point(-1.0, 0.4), point(0.8, -0.9)

    def chords(*nodes: tuple[float, float]) -> float:
        on = vertex(torch.stack([p, *(point(*node) for node in nodes), q]))
        return on.diff(dim=0).norm(dim=1).sum().item()

    def below(s: np.ndarray) -> float:
        a, b = np.abs(s)
        return chords((-a, 0.0), (0.0, -b))

    def above(s: np.ndarray) -> float:
        a, b, c, d = np.abs(s)
        return chords((-a, a), (0.0, b), (c, 0.0), (d, -d))

    options = {"xatol": 1e-8, "fatol": 1e-10, "maxiter": 4000}
    ways = [(below, (0.4, 0.4)), (above, (0.2, 0.2, 0.2, 0.2))]
    exact = min(minimize(f, s, method="Nelder-Mead", options=options).fun for f, s in ways)
    path = geodesics.between(vertex, p, q, search=Search(2))
    assert exact * (1 - 1e-7) < path.length < exact * (1 + 5e-4)
    assert path.length < chords() * 1.5  # chords() cuts through the sheets


def test_smooth_maps_converge_as_the_square_of_a_segment() -> None:
    p, q = point(0.1, 0.2), point(0.9, -0.7)
    counts, exact = (8, 16, 32, 64), arc(stereographic, p, q)
    errors = [
        geodesics.relax(stereographic, p, q, segments=n, search=ONE).length - exact for n in counts
    ]
    assert min(errors) > 0
    assert power_law(counts, errors).value == pytest.approx(-2, abs=0.1)


def test_networks_of_relus_get_shortest_paths() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 60), nn.ReLU(), nn.Linear(60, 40), nn.Tanh()).double()
    p, q = point(-1.0, -1.0), point(1.5, 1.0)
    path = geodesics.between(model, p, q, search=Search(2))
    t = torch.linspace(0, 1, 4001, dtype=torch.float64)[:, None]

    def chords(x: Tensor) -> float:
        on = model(x)
        return (on[1:] - on[:-1]).norm(dim=1).sum().item()

    assert not path.refined
    assert chords(path.at(t[:, 0])) == pytest.approx(path.length, rel=1e-4)  # they cut corners
    assert path.length < chords(p + t * (q - p))
    assert path.length > (model(q[None]) - model(p[None])).norm().item()
    speeds = (model(path.at(t[1:, 0])) - model(path.at(t[:-1, 0]))).norm(dim=1)
    steps = speeds.reshape(20, -1).sum(1) * 20 / path.length
    assert (steps - 1).abs().max() < 0.05


def test_many_inputs_are_relaxed() -> None:
    """Beside the refined geodesic of as many inputs as allow one."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(45, 80), nn.Tanh(), nn.Linear(80, 80)).double()
    p, q = -torch.ones(45, dtype=torch.float64), torch.ones(45, dtype=torch.float64)
    path = geodesics.between(model, p, q, search=ONE)
    assert not path.refined
    assert path.residual < 1e-4
    small = network(50, d=4)
    ends = -torch.ones(4, dtype=torch.float64), torch.ones(4, dtype=torch.float64)
    refined = geodesics.between(small, *ends, search=ONE)
    relaxed = geodesics.relax(small, *ends, search=ONE)
    assert relaxed.length == pytest.approx(refined.length, rel=1e-4)
    assert relaxed.length > refined.length


def test_equal_points_have_no_distance() -> None:
    p = point(0.3, 0.4)
    for path in (geodesics.between(stereographic, p, p), geodesics.relax(stereographic, p, p)):
        assert path.length == path.energy == path.residual == 0
        assert torch.equal(path.at([0.0, 0.4]), p.expand(2, 2))
        assert not path.log.any()
    D = geodesics.distances(stereographic, p.expand(3, 2), progress=False)
    assert not D.any()
    assert geodesics.distances(stereographic, p[None], progress=False).tolist() == [[0.0]]


def flattened(x: Tensor) -> Tensor:
    return torch.stack([x.sum(1), 2 * x.sum(1)], 1)


def cubic(x: Tensor) -> Tensor:
    return torch.stack([x[:, 0] ** 3, x[:, 1]], 1)


@pytest.mark.parametrize("way", [geodesics.between, geodesics.relax], ids=["between", "relax"])
def test_singular_ends(way) -> None:
    with pytest.raises(InputError, match=r"singular at the point \(1, 2\)"):
        way(flattened, point(1.0, 2.0), point(2.0, 2.0))
    with pytest.raises(InputError, match=r"singular at the point \(0, 0.5\)"):
        way(polar, point(1.0, 0.0), point(0.0, 0.5))
    with pytest.raises(InputError, match="3 coordinates and 2 features"):
        way(lambda x: x[:, :2].sin(), torch.zeros(3), torch.ones(3))


def test_singular_points_on_the_way() -> None:
    with pytest.raises(NotConverged, match=r"singular there or close by"):
        geodesics.between(cubic, point(-1.0, 0.0), point(1.0, 0.3), search=ONE)
    with pytest.raises(NotConverged, match=r"turns by"):
        geodesics.between(polar, point(1.0, 0.0), point(1.0, math.pi), search=ONE)
    dead = nn.Sequential(nn.Linear(2, 8), nn.ReLU()).double()
    with torch.no_grad():
        dead[0].weight.copy_(torch.ones(8, 1) * point(1.0, 0.0) + 0.1 * torch.eye(8, 2))
        dead[0].bias.fill_(-0.5)
    with pytest.raises(InputError, match="singular at the point"):
        geodesics.between(dead, point(-1.0, 0.0), point(2.0, 0.0))


def test_a_shorter_path_through_the_pole_is_not_passed_over() -> None:
    """4 radians along the equator; over the pole, where the chart ends, it is pi."""
    p, q = point(math.pi / 2, 0.0), point(math.pi / 2, 4.0)
    with pytest.raises(NotConverged, match="singular"):
        geodesics.between(spherical, p, q, search=Search(starts=2))


def test_a_tolerance_out_of_reach_is_refused() -> None:
    """At a kink the path is only relaxed; a smooth step as steep as a kink cannot be refined."""

    def seen(x: Tensor) -> Tensor:
        return torch.cat([x, 2 * x[:, :1].clamp(min=0) * x[:, 1:].exp(), x.sin()], 1)

    def hidden(x: Tensor) -> Tensor:
        step = torch.sigmoid(1e9 * x[:, :1])
        return torch.cat([x, 2 * x[:, :1] * step * x[:, 1:].exp(), x.sin()], 1)

    p, q = point(-1.0, -0.3), point(1.0, 0.5)
    path = geodesics.between(seen, p, q, search=ONE)
    assert not path.refined
    with pytest.raises(NotConverged, match=r"turns by .* use relax"):
        geodesics.between(hidden, p, q, search=ONE)
    other = geodesics.relax(hidden, p, q, segments=32, search=ONE)
    assert other.residual < 1e-2
    assert other.length == pytest.approx(path.length, rel=other.residual)


def test_a_map_that_breaks_on_the_way() -> None:
    def broken(x: Tensor) -> Tensor:
        return torch.cat([x, (x[:, :1].abs() - 0.5).sqrt()], 1)

    with pytest.raises(InputError, match="NaN or inf"):
        geodesics.between(broken, point(-1.0, 0.0), point(1.0, 0.1))


def test_steps_that_leave_the_domain_do_not_matter() -> None:
    """dx^2 + (1/y^2 + 1/4y) dy^2 on the half plane y > 0, which steps of the relaxation leave."""

    def half(x: Tensor) -> Tensor:
        return torch.stack([x[:, 0], x[:, 1].log(), x[:, 1].sqrt()], 1)

    def height(y: float) -> float:
        root = math.sqrt(1 + y / 4)
        return 2 * root + math.log((root - 1) / (root + 1))

    result = geodesics.between(half, point(0.0, 0.05), point(1.0, 100.0), search=ONE)
    assert result.length == pytest.approx(math.hypot(1, height(100) - height(0.05)), rel=1e-12)


@pytest.mark.parametrize(
    ("p", "q", "match"),
    [
        (point(0.0, 0.0), point(1.0), "one shape"),
        (point(0.0, 0.0), torch.ones(2), "float32"),
        (point(0.0, math.nan), point(1.0, 0.0), "NaN"),
        (point(0.0, 0.0), point(1.0, math.inf), "infinite"),
        (torch.tensor(0.0), torch.tensor(1.0), "at least one coordinate"),
        ("(0, 0)", (1.0, 0.0), "p must be an array of numbers"),
        (torch.tensor([0, 0]), torch.tensor([1, 0]), "double"),
    ],
)
def test_bad_points(p, q, match) -> None:
    with pytest.raises(InputError, match=match):
        geodesics.between(stereographic, p, q)


def test_bad_options() -> None:
    p, q = point(0.0, 0.0), point(1.0, 0.0)
    with pytest.raises(InputError, match="starts"):
        Search(starts=0)
    with pytest.raises(InputError, match="seed"):
        Search(seed=-1)
    with pytest.raises(InputError, match="tolerance"):
        Search(tolerance=0.0)
    with pytest.raises(InputError, match="segments"):
        geodesics.relax(stereographic, p, q, segments=2)
    with pytest.raises(InputError, match="no layer"):
        geodesics.between(nn.Sequential(nn.Linear(2, 3)).double(), p, q, layer="7")
    with pytest.raises(InputError, match="not that of its values"):
        geodesics.between(lambda x: torch.cat([x, x.detach() ** 2], 1), p + 1, q)
    with pytest.raises(InputError, match="at least one point"):
        geodesics.distances(stereographic, torch.zeros(0, 2), progress=False)
