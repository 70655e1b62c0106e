"""Quadrature along a segment of weights: its certificate, and kinks wherever they are."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call, jacrev, vmap

from density import sweep
from numeric.inputs import InputError
from numeric.models import Model, evaluation_mode
from numeric.path_kernel import GaussLegendre, LeftRiemann
from numeric.path_kernel.bracketed_roots import bracketed_roots
from numeric.path_kernel.kinks import SwitchRecorder
from numeric.path_kernel.segments import Segment
from refusals import require_refusals

EPS = torch.finfo(torch.float64).eps
F64 = {"dtype": torch.float64}
ACTIVATIONS = {
    "tanh": nn.Tanh, "gelu": nn.GELU, "relu": nn.ReLU, "leaky": nn.LeakyReLU, "hardtanh": nn.Hardtanh,
    "relu6": nn.ReLU6, "elu": nn.ELU, "selu": nn.SELU, "prelu": nn.PReLU, "hardswish": nn.Hardswish,
    "hardsigmoid": nn.Hardsigmoid, "softshrink": nn.Softshrink, "softsign": nn.Softsign,
}  # fmt: skip


class Clamped(nn.Module):
    """Kinks by functions and methods rather than modules."""

    def forward(self, x: Tensor) -> Tensor:
        high, low = x.clamp(-0.7, 0.9), torch.abs(x[:, :3])
        return torch.cat(
            [high, low, torch.maximum(x[:, :2], x[:, 2:4]), x.amax(1, keepdim=True)], 1
        )


class Unruled(nn.Module):
    """A square parameter is transposed before its use, so that rows cannot have a t of their own."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(4, 6), nn.Parameter(torch.ones(6, 6).cumsum(1) / 9)

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.first(x)) @ self.last.T


def perceptron(act: type[nn.Module], depth: int, width: int = 12) -> nn.Module:
    layers: list[nn.Module] = [nn.Linear(4, width), act()]
    for _ in range(depth - 1):
        layers += [nn.Linear(width, width), act()]
    return nn.Sequential(*layers, nn.Linear(width, 3), nn.LogSoftmax(1))


def networks() -> dict[str, tuple[nn.Module, tuple[int, ...]]]:
    images = (1, 9, 9)
    return {
        "clamped": (
            nn.Sequential(nn.Linear(4, 6), Clamped(), nn.Linear(12, 5), Clamped(), nn.Linear(11, 2)),
            (4,),
        ),
        "convolutions": (
            nn.Sequential(
                nn.Conv2d(1, 3, 3, padding=1), nn.ReLU(), nn.MaxPool2d(3, 2, 1), nn.Conv2d(3, 4, 2, groups=1),
                nn.ReLU(), nn.MaxPool2d(3, 2, ceil_mode=True), nn.Flatten(), nn.Linear(16, 3),
            ),
            images,
        ),
        "norms": (
            nn.Sequential(
                nn.Linear(4, 8), nn.LayerNorm(8), nn.ReLU(), nn.Linear(8, 8), nn.BatchNorm1d(8),
                nn.LeakyReLU(), nn.Linear(8, 6), nn.GroupNorm(2, 6), nn.Linear(6, 2),
            ),
            (4,),
        ),
        "unruled": (Unruled(), (4,)),
    }  # fmt: skip


@contextmanager
def segment(
    net: nn.Module, shape: tuple[int, ...], size: float = 0.3, points: int = 6
) -> Iterator[Segment]:
    """A step of random direction from seeded weights, at seeded points."""
    generator = torch.Generator().manual_seed(3)
    net, start = net.double(), {}
    for name, p in net.named_parameters():
        noise = torch.randn(p.shape, generator=generator, **F64)
        start[name] = noise / math.sqrt(p[0].numel() or 1) if p.ndim > 1 else p.detach() + noise / 5
    stop = {
        name: p
        + size * torch.randn(p.shape, generator=generator, **F64) / math.sqrt(p[0].numel() or 1)
        for name, p in start.items()
    }
    x = torch.randn(points, *shape, generator=generator, **F64)
    model = Model.of(net)
    with evaluation_mode(model), torch.no_grad():
        yield Segment.of(model, start, stop, x)


def integrated(on: Segment, nodes: object) -> Tensor:
    """psi at each point, dense, by torch.func at each node: (n, k, P)."""

    def gradient(point: Tensor, t: Tensor) -> Tensor:
        at = {name: w + t * on.step[name] for name, w in on.start.items()}

        def outputs(values: dict[str, Tensor]) -> Tensor:
            return functional_call(on.model.module, values, (point[None],)).flatten()

        return torch.cat([value.flatten(1) for value in jacrev(outputs)(at).values()], 1)

    rows = vmap(gradient)(on.x[nodes.index], nodes.t)
    total = rows.new_zeros(len(on.x), *rows.shape[1:])
    return total.index_add_(0, nodes.index, nodes.weight[:, None, None] * rows)


CASES = [
    *(pytest.param(name, 1, id=f"{name}-1", marks=[] if name in ("tanh", "prelu") else sweep)
      for name in ACTIVATIONS),
    *(pytest.param(name, 3, id=f"{name}-3", marks=[] if name in ("gelu", "relu", "hardtanh") else sweep)
      for name in ACTIVATIONS),
    *(pytest.param(name, 0, id=name) for name in networks()),
]  # fmt: skip


def case(name: str, depth: int) -> tuple[nn.Module, tuple[int, ...]]:
    torch.manual_seed(0)
    return (perceptron(ACTIVATIONS[name], depth), (4,)) if depth else networks()[name]


@pytest.mark.parametrize(("name", "depth"), CASES)
def test_the_integral_of_slopes_is_the_difference_of_outputs(name: str, depth: int) -> None:
    """Where the left sum of one node is off by a tenth, and that of a hundred by a ten thousandth."""
    with segment(*case(name, depth)) as on:
        nodes = GaussLegendre().nodes(on)
        change = on.outputs_at_end - on.outputs_at_start
        # Each part may be off by 64 roundings, and few points have more than 30 parts.
        assert nodes.defect.abs().max() <= 30 * 64 * EPS * max(1, change.abs().max())
        assert LeftRiemann(1).nodes(on).defect.abs().max() > 0.02 * change.abs().max()
        assert LeftRiemann(100).nodes(on).defect.abs().max() > 1e6 * nodes.defect.abs().max()


@pytest.mark.parametrize(("name", "depth"), [("relu", 1), ("relu", 3), ("convolutions", 0)])
def test_the_gradients_themselves_are_integrated_and_not_their_sum_along_the_step_alone(
    name: str, depth: int
) -> None:
    """A tolerance that is far smaller splits other parts, and finds the same integrals in all directions."""
    with segment(*case(name, depth), points=3) as on:
        usual = integrated(on, GaussLegendre().nodes(on))
        fine = integrated(on, _Halved().nodes(on))
        assert (
            usual - fine
        ).abs().max() <= 1e-11 * fine.abs().max()  # a crossing is known to 1e-14 or so


class _Halved:
    """The same points with both halves of each step integrated on their own."""

    def nodes(self, on: Segment) -> object:
        middle = on.at(0.5)
        halves = [
            GaussLegendre().nodes(Segment(on.model, start, stop, on.x, on.by_rows))
            for start, stop in ((on.start, middle), (middle, on.stop))
        ]
        fields = {
            "index": torch.cat([half.index for half in halves]),
            "t": torch.cat([(half.t + k) / 2 for k, half in enumerate(halves)]),
            "weight": torch.cat([half.weight / 2 for half in halves]),
        }
        return type("Nodes", (), fields)


def test_rows_have_a_t_of_their_own_where_all_parameters_have_rules() -> None:
    for name, (net, shape) in networks().items():
        with segment(net, shape) as on:
            assert on.by_rows == (name != "unruled")
            t = torch.linspace(0, 1, 6, **F64)
            index = torch.tensor([5, 4, 3, 3, 1, 0])
            expected = torch.cat(
                [
                    on.model.functional_call(on.at(v), on.x[i : i + 1])
                    for i, v in zip(index, t.tolist(), strict=True)
                ]
            )
            size = expected.abs().max()
            assert (on.outputs(index, t) - expected).abs().max() <= 256 * EPS * size, name
            ahead, back = (on.outputs(index[1:-1], t[1:-1] + h) for h in (1e-6, -1e-6))
            _, slopes = on.slopes(index[1:-1], t[1:-1])
            close = (slopes - (ahead - back) / 2e-6).abs().max() <= 1e-7 * slopes.abs().max()
            assert close, name  # differences of step 1e-6 keep nine digits


def test_a_model_that_overwrites_its_input_is_no_exception() -> None:
    class Centred(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(4, 2)

        def forward(self, x: Tensor) -> Tensor:
            return torch.tanh(self.layer(x.sub_(0.5)))

    with segment(Centred(), (4,)) as on:
        before = on.x.clone()
        assert GaussLegendre().nodes(on).defect.abs().max() <= 64 * EPS
        assert torch.equal(on.x, before)


def test_every_crossing_of_one_hidden_layer_is_an_end_of_a_part() -> None:
    """In closed form: z_h(t) is linear, and its root is z_h(0) / (z_h(0) - z_h(1))."""
    with segment(perceptron(nn.ReLU, 1), (4,)) as on:
        first, last = (on.x @ w["0.weight"].T + w["0.bias"] for w in (on.start, on.stop))
        roots = (first / (first - last))[(first > 0) != (last > 0)]
        ends = GaussLegendre().nodes(on).ends
        assert len(roots) > 6
        gaps = (roots[:, None] - ends).abs().amin(1)
        assert gaps.max() <= 64 * EPS * (first.abs().max() / (last - first).abs().min())


def test_a_unit_that_dips_below_its_kink_between_two_nodes_is_found() -> None:
    """relu((t - 1/2)^2 - c): the second layer's unit is positive at all first nodes, and 0 in the middle."""

    class Dip(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = nn.Linear(1, 1, bias=False)

        def forward(self, x: Tensor) -> Tensor:
            z = self.w(x)
            return torch.relu(z * z - 1e-4)

    net = Dip().double()
    x = torch.ones(1, 1, **F64)
    start, stop = ({"w.weight": torch.full((1, 1), v, **F64)} for v in (-0.5, 0.5))
    with torch.no_grad():
        nodes = GaussLegendre().nodes(Segment.of(Model.of(net), start, stop, x))
    assert (nodes.ends[:, None] - torch.tensor([0.49, 0.51], **F64)).abs().amin(0).max() <= 4 * EPS
    assert nodes.defect.abs().max() <= 64 * EPS


def test_roots_are_found_to_the_last_digit() -> None:
    shifts = torch.linspace(0.05, 0.95, 9, **F64)
    functions = (
        lambda rows, t: shifts[rows] - t,
        lambda rows, t: shifts[rows] ** 3 - t**3,
        lambda rows, t: torch.where(t < shifts[rows], 1.0, 1e-8) * (shifts[rows] - t),
        lambda rows, t: torch.tanh(40 * (shifts[rows] - t)),
    )
    every = torch.arange(9)
    for f in functions:
        a, b = torch.zeros(9, **F64), torch.ones(9, **F64)
        ends = f(every, a), f(every, b)
        roots = bracketed_roots(f, a, b, *ends)
        size = torch.maximum(*(end.abs() for end in ends))
        close = (roots - shifts).abs() <= 2.0**-46
        assert (close | (f(every, roots).abs() <= 4 * EPS * size)).all()


@pytest.mark.parametrize(
    ("size", "stride", "padding", "ceil"), [(2, 2, 0, False), (3, 2, 1, False), (3, 2, 0, True)]
)
def test_windows_of_a_pool_hold_what_it_takes(
    size: int, stride: int, padding: int, ceil: bool
) -> None:
    x = torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(0), **F64)
    pool = nn.MaxPool2d(size, stride, padding, ceil_mode=ceil)
    with SwitchRecorder() as recorder:
        expected = pool(x)
    (windows,) = recorder.switches
    found = windows.amax(-1)[..., : expected.shape[2], : expected.shape[3]]
    assert torch.equal(found, expected)


class _Pole(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return 1 / self.layer(x)


def test_maps_without_an_integrable_slope_are_refused() -> None:
    class Jump(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(4, 3)

        def forward(self, x: Tensor) -> Tensor:
            z = self.layer(x)
            return torch.where(z > 0.1, z + 1, z)

    shrunk = nn.Sequential(nn.Linear(4, 3), nn.Hardshrink(0.1), nn.Linear(3, 2))
    dropped = nn.Sequential(nn.Linear(4, 3), nn.Threshold(0.1, -0.2))
    # Jumps that no kink betrays, that are kinks, and a value that is not finite.
    for net in (Jump(), shrunk, dropped, _Pole()):
        with segment(net, (4,), size=3.0) as on, pytest.raises(InputError, match="jump"):
            GaussLegendre().nodes(on)
    # Where the points do not cross the jump, the same map is none that jumps.
    with segment(Jump(), (4,), size=1e-3) as on:
        assert GaussLegendre().nodes(on).defect.abs().max() <= 64 * EPS
    require_refusals(
        [
            ("tolerance", lambda: GaussLegendre(tolerance=0.0)),
            ("most", lambda: GaussLegendre(most=0)),
            ("count", lambda: LeftRiemann(0)),
            ("count", lambda: LeftRiemann(2.5)),
        ]
    )
    with (
        segment(perceptron(nn.Tanh, 2), (4,), size=1e4) as on,
        pytest.raises(InputError, match="parts"),
    ):
        GaussLegendre(most=1).nodes(on)
