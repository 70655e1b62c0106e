"""Tangent kernels and factored gradients are those of dense Jacobians, for every kind of layer and use."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call, jacrev

from numeric import tangents
from numeric.kernels import assert_kernel
from numeric.models import Meter
from numeric.models.memory import keep_memory
from numeric.tangents import uses
from numeric.tangents.factored import concatenated

ROUNDING = 1e-13  # relative to the largest entry: sums of at most some thousand float64 products
D = torch.float64


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=D)


class Attention(nn.Module):
    """A transformer block: tokens, positions, layer norms, a readout that is the embedding."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.places = nn.Embedding(7, 4, padding_idx=2), nn.Parameter(normal(5, 4))
        self.before, self.behind = nn.LayerNorm(4), nn.LayerNorm(4)
        self.mix, self.out, self.read = nn.Linear(4, 12), nn.Linear(4, 4), nn.Linear(4, 7)
        self.read.weight = self.table.weight

    def forward(self, x: Tensor) -> Tensor:
        h = self.table(x.long()) + self.places
        q, k, v = self.mix(self.before(h)).chunk(3, -1)
        h = h + self.out(torch.softmax(q @ k.mT, -1) @ v)
        return self.read(self.behind(h).mean(1))


class Tokens(nn.Module):
    """A table whose rows may be the last layer's too: gradients of two kinds."""

    def __init__(self, tied: bool) -> None:
        super().__init__()
        self.table, self.read, self.last = (
            nn.Embedding(300, 24),
            nn.Linear(24, 300),
            nn.Linear(300, 4),
        )
        if tied:
            self.read.weight = self.table.weight

    def forward(self, x: Tensor) -> Tensor:
        h = torch.tanh(self.table(x.long())).mean(1)
        return self.last(torch.tanh(self.read(h)))


class Images(nn.Module):
    """Residual blocks: batch and group norm, groups, strides, dilation, padding, pooling, in-place ReLU."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.batch = nn.Conv2d(3, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4)
        self.wide, self.group = (
            nn.Conv2d(4, 4, 3, padding="same", dilation=2, groups=2),
            nn.GroupNorm(2, 4),
        )
        self.skip = nn.Conv2d(4, 6, (2, 3), stride=(2, 1), padding=(0, 1))
        self.read, self.relu = nn.Linear(6, 3), nn.ReLU(inplace=True)
        self.batch.running_mean.copy_(normal(4))
        self.batch.running_var.copy_(normal(4).exp())

    def forward(self, x: Tensor) -> Tensor:
        h = self.relu(self.batch(self.first(x)))
        h = h + F.gelu(self.group(self.wide(h)))
        return self.read(F.max_pool2d(self.relu(self.skip(h)), 2).mean((2, 3)))


class Series(nn.Module):
    """Convolutions on a line whose weights have more columns than there are positions, and one in space."""

    def __init__(self) -> None:
        super().__init__()
        self.line = nn.Conv1d(2, 3, 3, stride=2, padding=1, padding_mode="circular")
        self.again, self.space = nn.Conv1d(3, 3, 3, padding=1), nn.Conv3d(1, 2, (1, 2, 2))
        self.norm, self.read = nn.GroupNorm(1, 3), nn.Linear(12, 2)

    def forward(self, x: Tensor) -> Tensor:
        h = self.norm(torch.tanh(self.again(torch.tanh(self.again(torch.tanh(self.line(x)))))))
        cube = h.unsqueeze(1).unsqueeze(1)  # (n, 1, 1, 3, 4)
        return self.read(torch.tanh(self.space(cube)).flatten(1))


class Shared(nn.Module):
    """A layer called twice and its weight used by hand; a bias of two layers."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.other, self.read = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 3)
        self.bias = self.other.bias = nn.Parameter(normal(4))

    def forward(self, x: Tensor) -> Tensor:
        h = torch.tanh(self.layer(torch.tanh(self.layer(x))))
        return self.read(torch.tanh(self.other(F.linear(h, self.layer.weight, self.bias))))


class Squared(nn.Module):
    """A weight that has a second use without a rule, and a parameter that has none with."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.read, self.scale = (
            nn.Linear(4, 4),
            nn.Linear(4, 3),
            nn.Parameter(normal(3)),
        )

    def forward(self, x: Tensor) -> Tensor:
        h = self.read(torch.tanh(self.layer(x)))
        return h * self.scale + self.read.weight.square().sum()


class Positions(nn.Module):
    """Sequences with the batch in the second axis, then folded into rows: examples first, positions first."""

    def __init__(self) -> None:
        super().__init__()
        self.second, self.folded, self.mixed = (nn.Linear(4, 4) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        n, p = x.shape[:2]
        h = torch.tanh(self.second(x.transpose(0, 1)))  # (p, n, 4)
        h = torch.tanh(self.folded(h.transpose(0, 1).reshape(n * p, 4))).view(n, p, 4)
        h = self.mixed(h.transpose(0, 1).reshape(p * n, 4)).view(p, n, 4)
        return torch.tanh(h).sum(0)


class Opaque(nn.Module):
    """Modules that torch runs as one operation."""

    def __init__(self, kind: type[nn.Module]) -> None:
        super().__init__()
        attention = kind is nn.MultiheadAttention
        self.part = kind(4, 2 if attention else 4, batch_first=True)
        self.read, self.attention = nn.Linear(4, 2), attention

    def forward(self, x: Tensor) -> Tensor:
        h = self.part(x, x, x)[0] if self.attention else self.part(x)[0]
        return self.read(h.mean(1))


class Cube(torch.autograd.Function):
    """z^3 with a derivative of one's own, which torch.func cannot batch."""

    @staticmethod
    def forward(ctx: object, z: Tensor) -> Tensor:
        ctx.save_for_backward(z)
        return z**3

    @staticmethod
    def backward(ctx: object, back: Tensor) -> Tensor:
        return 3 * ctx.saved_tensors[0] ** 2 * back


class Cubed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer, self.read, self.scale = (
            nn.Linear(4, 5),
            nn.Linear(5, 2),
            nn.Parameter(normal(5)),
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.read(Cube.apply(self.layer(x)) * self.scale)


class Changing(nn.Module):
    """What it does with the same calls of its layers depends on a setting, or on the points."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.read, self.setting = nn.Linear(4, 4), nn.Linear(4, 2), ""

    def forward(self, x: Tensor) -> Tensor:
        n, p = x.shape[:2]
        if self.setting == "positions first":
            rows = self.layer(x.transpose(0, 1).reshape(p * n, 4))
            h = torch.tanh(rows).view(p, n, 4).transpose(0, 1)
        else:
            h = torch.tanh(self.layer(x.reshape(n * p, 4))).view(n, p, 4)
        out = self.read(h.sum(1))
        if self.setting == "by hand":
            out = out + self.layer.weight.square().sum()
        large = x[:, 0, :1] > 10
        return out + large * self.layer.bias.square().sum() if large.any() else out


class Product(nn.Module):
    """No use of its parameter has a rule."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.randn(4, 3))

    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(x @ self.table)


class Partial(nn.Module):
    """Frozen parameters, and one that outputs do not depend on."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.middle, self.read = nn.Linear(4, 5), nn.Linear(5, 5), nn.Linear(5, 2)
        self.idle = nn.Linear(5, 5)
        self.layer.weight.requires_grad_(False)
        self.middle.bias.requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        return self.read(torch.tanh(self.middle(torch.tanh(self.layer(x)))))


@dataclass(frozen=True)
class Case:
    make: Callable[[], nn.Module]
    point: tuple[int, ...]
    fallbacks: tuple[str, ...] = ()
    tokens: int = 0

    def model(self) -> nn.Module:
        torch.manual_seed(0)
        return self.make().to(D)

    def points(self, n: int, seed: int) -> Tensor:
        if not self.tokens:
            return normal(n, *self.point, seed=seed)
        generator = torch.Generator().manual_seed(seed)
        return torch.randint(self.tokens, (n, *self.point), generator=generator).to(D)


def perceptron() -> nn.Module:
    return nn.Sequential(
        nn.Linear(4, 9), nn.ReLU(inplace=True), nn.Linear(9, 8, bias=False), nn.Tanh(), nn.Linear(8, 3)
    )  # fmt: skip


INSIDE = ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")
CASES = {
    "perceptron": Case(perceptron, (4,)),
    "attention block": Case(Attention, (5,), ("places",), tokens=7),
    "images": Case(Images, (3, 8, 8)),
    "series": Case(Series, (2, 8)),
    "shared weights": Case(Shared, (4,)),
    "uses without a rule": Case(Squared, (4,), ("scale", "read.weight")),
    "positions": Case(Positions, (3, 4), ("mixed.weight", "mixed.bias")),
    "own derivative": Case(Cubed, (4,), ("scale",)),
    "no rule at all": Case(Product, (4,), ("table",)),
    "frozen and idle": Case(Partial, (4,)),
    "MultiheadAttention": Case(
        lambda: Opaque(nn.MultiheadAttention), (3, 4),
        ("part.in_proj_weight", "part.in_proj_bias", "part.out_proj.weight", "part.out_proj.bias"),
    ),
    "GRU": Case(lambda: Opaque(nn.GRU), (3, 4), tuple(f"part.{name}" for name in INSIDE)),
}  # fmt: skip


def jacobians(
    model: nn.Module, x: Tensor, values: dict[str, Tensor] | None = None
) -> dict[str, Tensor]:
    """(n, k, *shape) by name, one point at a time, in evaluation mode."""
    own = dict(model.named_parameters())
    chosen = {k: v.detach() for k, v in own.items() if v.requires_grad} | (values or {})
    model.eval()

    def output(values: dict[str, Tensor], point: Tensor) -> Tensor:
        return functional_call(model, {**own, **values}, (point[None],)).flatten()

    if isinstance(model, Cubed):  # torch.func refuses its derivative
        return _by_autograd(model, x, chosen)
    each = [jacrev(output)(chosen, point) for point in x]
    return {name: torch.stack([one[name] for one in each]) for name in chosen}


def _by_autograd(model: nn.Module, x: Tensor, chosen: dict[str, Tensor]) -> dict[str, Tensor]:
    parameters = list(model.parameters())
    rows = [
        [torch.autograd.grad(out, parameters, retain_graph=True) for out in model(point[None])[0]]
        for point in x
    ]
    return {
        name: torch.stack([torch.stack([one[k] for one in row]) for row in rows])
        for k, name in enumerate(chosen)
    }


def contracted(one: dict[str, Tensor], other: dict[str, Tensor]) -> Tensor:
    """(n, c, m, c')."""
    return sum(
        torch.einsum("ncs,mds->ncmd", one[name].flatten(2), other[name].flatten(2)) for name in one
    )


def assert_close(one: Tensor, other: Tensor) -> None:
    assert one.shape == other.shape
    assert (one - other).abs().max() <= ROUNDING * other.abs().max()


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest) -> Case:
    return CASES[request.param]


def test_kernels_are_those_of_dense_jacobians(case: Case) -> None:
    """Of a point set with itself and with another, whole and traced, also where memory is short."""
    model, x, y = case.model(), case.points(3, 0), case.points(2, 1)
    at_x, at_y = jacobians(model, x), jacobians(model, y)
    with tangents.differentiation(model, x) as run:
        least = max(2 * run.peak, 4 * run.gradient_bytes)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tangents.WithoutRule)
        for other, dense, memory in (
            (None, at_x, 2**30),
            (y, at_y, 2**30),
            (None, at_x, 2 * least),
        ):
            whole = contracted(at_x, dense).transpose(1, 2)
            assert_close(tangents.ntk(model, x, other, memory=memory), whole)
            traced = tangents.ntk(model, x, other, trace=True, memory=memory)
            assert_close(traced, whole.diagonal(dim1=2, dim2=3).mean(-1))


def test_gradients_are_dense_jacobians_in_factors(case: Case) -> None:
    """Dense, summed, along directions, with signals, and between two values of the parameters."""
    model, x, y = case.model(), case.points(3, 0), case.points(2, 1)
    dense = jacobians(model, x)
    k = next(iter(dense.values())).shape[1]
    signals = normal(3, 2, k, seed=2)
    pulled = {name: torch.einsum("nck,nk...->nc...", signals, one) for name, one in dense.items()}
    found = tangents.gradients(model, x, signals)
    assert found.fallbacks == tuple(name for name in dense if name in case.fallbacks)
    assert set(case.fallbacks) == set(found.fallbacks)
    assert list(found.dense()) == list(dense)
    directions = {name: normal(5, *one.shape[2:], seed=3) for name, one in dense.items()}
    along = sum(torch.einsum("nc...,r...->ncr", pulled[name], directions[name]) for name in dense)
    assert_close(found.along(directions), along)
    for name, one in pulled.items():
        if one.abs().max() > 0:
            assert_close(found.dense()[name], one)
            assert_close(found.sum()[name], one.sum(0))
        else:
            assert not found.dense()[name].any()
    assert_close(
        found.squares(), contracted(pulled, pulled).diagonal(dim1=0, dim2=2).diagonal().sum(1)
    )
    if isinstance(model, Cubed):
        return
    moved = {
        name: value.detach() * 0.9 for name, value in model.named_parameters() if name in dense
    }
    there = tangents.gradients(model, y, parameters=moved)
    assert_close(found.inner(there), contracted(pulled, jacobians(model, y, moved)))


def test_modules_choose_parameters() -> None:
    model, x = CASES["perceptron"].model(), normal(4, 4)
    dense = {k: v for k, v in jacobians(model, x).items() if k.startswith(("0.", "4."))}
    found = tangents.ntk(model, x, modules=("0", "4"))
    assert_close(found, contracted(dense, dense).transpose(1, 2))


@pytest.mark.parametrize("wrong", ["weight", "bias"])
def test_a_wrong_rule_is_noticed(wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each rule is tried against autograd in each call: what differs falls back, and is named."""
    right = uses.LAYERS[F.linear]

    def swapped(arguments: dict, inputs: Tensor, signals: Tensor) -> object:
        return right.weight(arguments, inputs.flip(-1), signals)

    changes = {
        "weight": swapped,
        "bias": lambda arguments, signals: 2 * right.bias(arguments, signals),
    }
    monkeypatch.setitem(uses.LAYERS, F.linear, replace(right, **{wrong: changes[wrong]}))
    model, x = CASES["shared weights"].model(), normal(4, 4)
    found, dense = tangents.gradients(model, x), jacobians(model, x)
    assert {"weight": "layer.weight", "bias": "bias"}[wrong] in found.fallbacks
    assert_close(found.inner(found), contracted(dense, dense))


def test_rules_of_an_opened_model_are_not_those_of_another_pass() -> None:
    """The same module and calls, with other operations between them, and uses at some points only."""
    torch.manual_seed(0)
    model, x = Changing().to(D), normal(3, 3, 4)
    seen = []
    for setting in ("", "positions first", "by hand", ""):
        model.setting = setting
        found, dense = tangents.gradients(model, x), jacobians(model, x)
        assert_close(found.inner(found), contracted(dense, dense))
        seen.append(found.fallbacks)
    both = ("layer.weight", "layer.bias")
    assert seen == [(), both, ("layer.weight",), ()]
    x[2, 0, 0] = 20
    with pytest.warns(tangents.WithoutRule, match=r"^layer.bias: no rule"):
        whole = tangents.ntk(model, x)
    dense = jacobians(model, x)
    assert_close(whole, contracted(dense, dense).transpose(1, 2))
    with tangents.differentiation(model, x) as run:  # some points need it, and others do not
        chunks = [run.gradients(run.points[k : k + 1]) for k in range(3)]
    joined = concatenated(chunks)
    assert joined.fallbacks == ("layer.bias",)
    assert_close(joined.inner(joined), contracted(dense, dense))


@pytest.mark.parametrize("trace", [False, True])
@pytest.mark.parametrize("tied", [False, True])
def test_the_memory_that_is_given_is_enough(tied: bool, trace: bool) -> None:
    """Beside the result, with blocks of points and with one; the kernel stays the same."""
    case = Case(lambda: Tokens(tied), (30,), tokens=300)
    model, x = case.model(), case.points(20, 0)
    keep_memory()  # which takes a block that it never touches
    whole = tangents.ntk(model, x, trace=trace)
    for megabytes in (4, 12):
        for y in (None, x.clone()):
            with Meter() as meter:
                found = tangents.ntk(model, x, y, trace, memory=megabytes * 2**20)
            assert meter.peak - found.nbytes <= megabytes * 2**20
            assert_close(found, whole)


def test_what_is_formed_for_each_example_is_said() -> None:
    with pytest.warns(tangents.WithoutRule, match=r"^scale, read.weight: no rule"):
        tangents.ntk(CASES["uses without a rule"].model(), normal(2, 4))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_trace_is_a_kernel(dtype: torch.dtype) -> None:
    model = perceptron().to(dtype)
    kernel = tangents.EmpiricalNTK(model)
    assert_kernel(kernel, normal(5, 4).to(dtype), normal(4, 4, seed=1).to(dtype))


def test_images_are_points_of_the_kernel() -> None:
    model, x = CASES["images"].model(), CASES["images"].points(3, 0)
    kernel = tangents.EmpiricalNTK(model)
    assert_close(kernel.diagonal(x), kernel(x).diagonal())


@pytest.mark.parametrize("name", ["perceptron", "series"])
def test_many_points_are_tiled(name: str) -> None:
    """More points than a tile has rows, on either side, so that tiles split signals and points."""
    model, x, y = CASES[name].model(), CASES[name].points(300, 0), CASES[name].points(23, 1)
    one, two = (
        torch.cat([g.flatten(2) for g in tangents.gradients(model, some).dense().values()], 2)
        for some in (x, y)
    )
    assert_close(tangents.ntk(model, x, y), torch.einsum("nap,mbp->nmab", one, two))
    assert_close(tangents.ntk(model, x), torch.einsum("nap,mbp->nmab", one, one))


def test_a_run_is_opened_once_for_many_parameters() -> None:
    model, x = CASES["perceptron"].model(), normal(4, 4)
    with tangents.differentiation(model, x) as run:
        for scale in (0.5, 2.0):
            values = {name: scale * value.detach() for name, value in model.named_parameters()}
            found = run.at(values).gradients(run.points)
            dense = jacobians(model, x, values)
            assert_close(found.inner(found), contracted(dense, dense))


def test_the_model_is_left_as_it_was() -> None:
    model = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.Dropout(0.5), nn.Linear(3, 2)).to(
        D
    )
    before = {name: value.clone() for name, value in model.state_dict().items()}
    tangents.ntk(model, normal(3, 4))
    assert model.training
    assert all(parameter.grad is None for parameter in model.parameters())
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
