"""Where there is a metric and no Ricci scalar: kinks, too few features, degenerate points."""

from collections.abc import Callable
from copy import deepcopy

import pytest
import sympy as sp
import torch
from torch import Tensor, nn

from analytic.activations import elu, relu
from analytic.activations.activation import activation
from analytic.expressions.arguments import InputError
from analytic.expressions.symbols import z
from numeric import geometry, progress
from numeric.models.shallow import ShallowNetwork
from test_progress import terminal_for

DOUBLE = {"dtype": torch.float64}
Map = Callable[[Tensor], Tensor]


def points(n: int, d: int) -> Tensor:
    return 0.4 + torch.rand(n, d, generator=torch.Generator().manual_seed(0), **DOUBLE)


def network(d: int, *widths: int) -> nn.Sequential:
    torch.manual_seed(0)
    layers = [(nn.Linear(a, b), nn.Tanh()) for a, b in zip((d, *widths), widths, strict=False)]
    return nn.Sequential(*(part for pair in layers for part in pair)).double()


def saddle(x: Tensor) -> Tensor:
    return torch.cat([x, x.prod(1, keepdim=True)], 1)


KINKED_MODULES = {
    "ReLU": nn.ReLU(), "LeakyReLU": nn.LeakyReLU(), "PReLU": nn.PReLU(), "Hardtanh": nn.Hardtanh(),
    "ReLU6": nn.ReLU6(), "Hardswish": nn.Hardswish(), "SELU": nn.SELU(), "ELU": nn.ELU(0.5),
}  # fmt: skip


@pytest.mark.parametrize("name", KINKED_MODULES)
def test_networks_with_kinks_have_a_metric_and_no_ricci_scalar(name: str) -> None:
    torch.manual_seed(0)
    shallow = nn.Sequential(nn.Linear(2, 9), KINKED_MODULES[name]).double()
    deep = nn.Sequential(*shallow, nn.Linear(9, 9), nn.Tanh()).double()
    x = points(3, 2)
    for net in (shallow, deep):
        assert geometry.metric(net, x).isfinite().all()
        for quantity in (geometry.ricci_scalar, geometry.ricci_estimate):
            with pytest.raises(InputError, match=rf"kinks, by .*{name}.*smooth activation"):
                quantity(net, x)
    smooth = geometry.ricci_scalar(
        nn.Sequential(nn.Linear(2, 9), nn.Tanh(), KINKED_MODULES[name]).double(), x, "1"
    )
    assert smooth.value.isfinite().all()  # kinks after the layer do not matter


def test_kinks_are_found_in_functions_too() -> None:
    x, net = points(3, 2), network(2, 9)
    for kinked in (torch.relu, nn.functional.leaky_relu, lambda z: z.relu()):
        with pytest.raises(
            InputError, match=r"kinks, by .*relu"
        ):  # although a smooth function follows
            geometry.ricci_scalar(lambda y, kinked=kinked: torch.tanh(kinked(net[0](y))), x)
    # The line through the first point and the farthest from it does not cross this kink.
    corner = torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.5, 0.9]], **DOUBLE)
    with pytest.raises(InputError, match="jump where second derivatives are 0"):
        geometry.ricci_scalar(
            lambda y: net[0](torch.where(y > 0.6, 2 * y, y + 0.6) * E2 + y), corner
        )
    random = ShallowNetwork.gaussian(
        relu, 9, 2, 1.0, 1.0, generator=torch.Generator().manual_seed(0)
    )
    with pytest.raises(InputError, match="kinks, by relu"):
        geometry.ricci_scalar(random, x)


def doubled_where_positive(z: Tensor) -> Tensor:
    z[z > 0] *= 2
    return z


E2 = torch.tensor([0.0, 1.0], **DOUBLE)
INTO, OUT = network(2, 6)[0], network(6, 6)
KINKED_MAPS = {
    "abs": torch.abs,
    "abs ": abs,
    "clamp": lambda z: z.clamp(-0.3, 0.3),
    "clip": lambda z: torch.clip_(z, min=0.1),
    "maximum": lambda z: torch.maximum(z, -z / 2),
    "where": lambda z: torch.where(z > 0, z, z / 8),
    "gt": lambda z: z * (z > 0),
    "sort": lambda z: z.sort(1).values,
    "max": lambda z: torch.cat([z[:, 1:], z.max(1, keepdim=True).values], 1),
    "max_pool1d": lambda z: nn.functional.max_pool1d(z[:, None], 3, 1, 1)[:, 0],
    "elu": lambda z: nn.functional.elu(z, 0.5),
    "relu": torch.relu_,
    "linalg_vector_norm": lambda z: torch.linalg.vector_norm(z, 1, 1, True).sin() + z,
    "sqrt": lambda z: (z * z).sqrt(),
    "rsqrt": lambda z: z * z * (z * z).rsqrt(),
    "pow": lambda z: (z * z) ** 0.5,
    "hypot": lambda z: torch.hypot(z, torch.zeros_like(z)),
    "acos": lambda z: torch.acos(z.cos()),
    "cummax": lambda z: z.cummax(1).values,
    "cummin": lambda z: (-z).cummin(1).values,
    "msort": lambda z: torch.msort(z.T).T,
    "argsort": lambda z: z.gather(1, z.argsort(1)),
    "quantile": lambda z: z + z.quantile(0.3, 1, keepdim=True),
    "median": lambda z: z + z.median(1, keepdim=True).values,
    "nanmedian": lambda z: z + z.nanmedian(1, keepdim=True).values,
    "kthvalue": lambda z: z + z.kthvalue(2, 1, keepdim=True).values,
    "topk": lambda z: torch.cat([z[:, 1:], z.topk(2, 1).values], 1)[:, :6],
    "amax": lambda z: z + z.amax(1, keepdim=True),
    "gt ": doubled_where_positive,
}
STEPPED = {
    "copysign": lambda z: torch.copysign(torch.ones_like(z), z),
    "remainder": lambda z: z % 0.3,
    "fmod": lambda z: z.fmod(0.3),
    "floor_divide": lambda z: z // 0.3,
    "div": lambda z: torch.div(z, 0.3, rounding_mode="trunc"),
    "frac": torch.frac,
    "floor": torch.floor,
    "round": torch.round,
    "sign": torch.sign,
    "heaviside": lambda z: torch.heaviside(z, torch.zeros((), **DOUBLE)),
    "atan2": lambda z: torch.atan2(z, -torch.ones_like(z)),
    "bucketize": lambda z: torch.bucketize(z.detach(), torch.zeros(1, **DOUBLE)).to(z),
    "long": lambda z: z.long().to(z),
    "logical_not": lambda z: torch.logical_not(z.sign() + 1).to(z),
}


@pytest.mark.parametrize("name", KINKED_MAPS)
def test_kinks_inside_a_smooth_map_are_found(name: str) -> None:
    """Second derivatives are not 0, so they do not reveal the kinks."""
    x = 4 * points(3, 2) - 3.6
    for at in (x, x[:1], x[:1].repeat(2, 1)):
        with pytest.raises(InputError, match=f"kinks, by .*{name.strip()}"):
            geometry.ricci_scalar(lambda y: OUT(KINKED_MAPS[name](INTO(y))), at)


@pytest.mark.parametrize("name", STEPPED)
def test_steps_are_found_though_slopes_on_both_sides_are_equal(name: str) -> None:
    x = 4 * points(3, 2) - 3.6
    for at in (x, x[:1]):
        with pytest.raises(InputError, match=f"kinks, by .*{name}|aten::{name}"):
            geometry.ricci_scalar(lambda y: saddle(y) + STEPPED[name](INTO(y))[:, :3], at)


F = nn.functional
DIVIDED = {  # by a root that is 0 where z_1 is 1: signs of z_1 - 1
    "rms_norm": lambda z: F.rms_norm(z[:, :1] - 1, (1,), eps=0.0),
    "rms_norm ": lambda z: nn.RMSNorm(1, **DOUBLE)(
        z[:, :1] - 1
    ),  # eps is the rounding of the dtype
    "layer_norm": lambda z: F.layer_norm(z[:, :1] * E2 - E2, (2,), eps=0.0),
    "layer_norm ": lambda z: torch.layer_norm(z[:, :1] * E2 - E2, (2,), None, None, 0.0),
    "native_layer_norm": lambda z: torch.native_layer_norm(
        z[:, :1] * E2 - E2, (2,), None, None, 0.0
    )[0],
    "group_norm": lambda z: F.group_norm(z[:, :1] * E2 - E2, 1, None, None, 0.0),
    "instance_norm": lambda z: F.instance_norm((z[:, :1] * E2 - E2)[:, None], eps=0.0)[:, 0],
}


@pytest.mark.parametrize("name", DIVIDED)
def test_norms_that_divide_by_zero_are_steps(name: str) -> None:
    at = torch.tensor([[0.4, 0.3], [1.3, 0.9]], **DOUBLE)
    with pytest.raises(InputError, match=f"kinks, by {name.strip()}"):
        geometry.ricci_scalar(lambda y: torch.cat([saddle(y), DIVIDED[name](y)], 1), at)


def test_norms_of_many_columns_need_no_epsilon() -> None:
    x, (into, tanh) = points(3, 2), network(2, 9)
    bare, tiny = (nn.LayerNorm(9, eps=eps, **DOUBLE) for eps in (0.0, 1e-12))
    with_zero, with_some = (
        geometry.ricci_scalar(nn.Sequential(into, tanh, norm), x).value for norm in (bare, tiny)
    )
    torch.testing.assert_close(with_zero, with_some, rtol=1e-7, atol=0)


CREASED = {  # at z_1 = 0
    "norm": lambda z: z[:, :1].norm(dim=1, keepdim=True),
    "linalg_vector_norm": lambda z: torch.linalg.vector_norm(z[:, :1], dim=1, keepdim=True),
    "pairwise_distance": lambda z: F.pairwise_distance(
        z[:, :1], 0 * z[:, :1], eps=0.0, keepdim=True
    ),
    "cosine_similarity": lambda z: F.cosine_similarity(z[:, :1], 1 + 0 * z[:, :1])[:, None],
    "normalize": lambda z: F.normalize(z[:, :1], dim=1),
    "abs": lambda z: z[:, :1].abs(),
    "sqrt": lambda z: (z[:, :1] ** 2).sqrt(),
    "sign": lambda z: z[:, :1].sign(),
}


@pytest.mark.parametrize("name", CREASED)
def test_points_on_a_crease_are_refused_where_no_line_through_the_data_meets_it(name: str) -> None:
    """cosine_similarity gave -5.84 or 0 there, and norms gave 0."""

    def bent(z: Tensor) -> Tensor:
        return torch.cat([z, CREASED[name](z) * z, z**2], 1)

    beside = torch.tensor([[10.0, 3.0], [10.0, 100.0]], **DOUBLE)
    assert geometry.ricci_scalar(bent, beside).value.isfinite().all()
    edge = torch.tensor([[0.0, 3.0]], **DOUBLE)
    for x in (torch.cat([beside, edge]), torch.cat([edge, edge + 2 * E2])):
        with pytest.raises(InputError, match=f"kinks, by .*{name}"):
            geometry.ricci_scalar(bent, x)


SMOOTH = {
    "softplus": (
        lambda z: z.clamp(min=0) + torch.log1p(torch.exp(-z.abs())), nn.functional.softplus,
    ),
    "softmax": (
        lambda z: (e := (z - z.amax(1, keepdim=True)).exp()) / e.sum(1, keepdim=True), lambda z: z.softmax(1),
    ),
    "a guard": (lambda z: z / z.norm(dim=1, keepdim=True).clamp(min=1e-6), nn.functional.normalize),
    "elu": (lambda z: torch.where(z > 0, z, torch.expm1(z.clamp(max=0))), nn.functional.elu),
    "a root": (lambda z: (1 + z * z).sqrt(), lambda z: torch.cosh(torch.asinh(z))),
    "a sum": (lambda z: z.logcumsumexp(1), lambda z: z.exp().cumsum(1).log()),
    "a pole": (lambda z: (z * z - 9).pow(-1.0), lambda z: ((z - 3) * (z + 3)).reciprocal()),
}  # fmt: skip


@pytest.mark.parametrize("name", SMOOTH)
def test_smooth_maps_may_be_written_with_comparisons(name: str) -> None:
    pieces, whole = SMOOTH[name]
    x = 4 * points(3, 2) - 3.6
    result, expected = (
        geometry.ricci_scalar(lambda y, phi=phi: OUT(phi(3 * INTO(y))), x).value
        for phi in (pieces, whole)
    )
    torch.testing.assert_close(result, expected, rtol=1e-10, atol=1e-12)
    single = deepcopy(INTO).float(), deepcopy(OUT).float()
    geometry.ricci_scalar(lambda y: single[1](pieces(single[0](y))), x.float())


def test_kinks_away_from_zero_are_found() -> None:
    kinked = activation(
        "bent", sp.Piecewise((z**2 / 4 + z - 1, z > 1), (z**2 / 4, True)), kinks=(1,)
    )
    random = ShallowNetwork.gaussian(
        kinked, 9, 2, 1.0, 1.0, generator=torch.Generator().manual_seed(0)
    )
    assert geometry.metric(random, points(3, 2)).isfinite().all()
    with pytest.raises(InputError, match="kinks"):
        geometry.ricci_scalar(random, points(3, 2))
    soft = ShallowNetwork(elu, random.weights, random.biases)  # its slope has a kink, and no jump
    assert geometry.ricci_scalar(soft, points(3, 2)).value.isfinite().all()


def test_linear_maps_are_flat() -> None:
    assert torch.equal(
        geometry.ricci_scalar(network(3, 5)[0], points(4, 3)).value, torch.zeros(4, **DOUBLE)
    )


@pytest.mark.parametrize("features", [network(3, 2), lambda x: x[:, :2] ** 2])
def test_more_inputs_than_features_have_a_metric_and_no_ricci_scalar(features: Map) -> None:
    x = points(4, 3)
    assert torch.linalg.matrix_rank(geometry.metric(features, x)).max() == 2
    with pytest.raises(InputError, match="3 inputs and 2 features"):
        geometry.ricci_scalar(features, x)


def umbrella(x: Tensor) -> Tensor:
    """Whitney's umbrella: smooth, but singular at the origin."""
    u, v = x.unbind(1)
    return torch.stack([u, v**2, u * v], 1)


def test_degenerate_points_are_refused() -> None:
    x = points(4, 2)
    x[2] = 0
    with pytest.raises(InputError, match=r"rank 1 of 2 at point 2 .* 1 of 4 points"):
        geometry.ricci_scalar(umbrella, x)
    collinear = network(2, 9, 8)
    collinear[0].weight.data[:, 1] = 1.7 * collinear[0].weight.data[:, 0]
    single = deepcopy(collinear).float()
    for net, at in ((collinear[:2], x), (collinear, x), (single, x.float())):
        with pytest.raises(InputError, match="rank 1 of 2"):
            geometry.ricci_scalar(net, at)


def test_second_derivatives_that_do_not_fit_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from numeric.geometry import ricci

    monkeypatch.setattr(ricci, "MAX_SECOND_DERIVATIVES", 8)
    for features in (saddle, network(2, 9)):
        with pytest.raises(InputError, match="ricci_estimate"):
            geometry.ricci_scalar(features, points(2, 2))


def test_a_bar_shows_only_what_takes_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = terminal_for(monkeypatch)
    monkeypatch.setattr(progress, "DELAY", 600.0)
    geometry.ricci_scalar(saddle, points(4, 2))
    assert shown.getvalue() == ""
    monkeypatch.setattr(progress, "DELAY", 0.0)
    geometry.ricci_scalar(saddle, points(4, 2), progress=False)
    assert shown.getvalue() == ""
    geometry.ricci_scalar(saddle, points(4, 2))
    assert "points" in shown.getvalue()
