"""Convolutional kernels against formulas without their code: weight by weight, and on whole tensors."""

import math
from itertools import product

import pytest
import torch
from torch import Tensor, nn

from analytic.activations import erf, relu
from density import sweep
from numeric.infinite import (
    CIRCULAR,
    SAME,
    VALID,
    AveragePool,
    Convolution,
    Dense,
    Flatten,
    GlobalPool,
    GroupConvolution,
    GroupPool,
    Lift,
    Network,
    Window,
)
from numeric.infinite.composition.covariance import Covariance
from numeric.infinite.composition.finite import Draw
from numeric.infinite.composition.signal import Scales, Signal
from numeric.infinite.groups import Action, cyclic, dihedral, p4, p4m, symmetric, torus
from numeric.infinite.parametrisation import NTK, Standard
from numeric.models.memory import Meter

EPS = torch.finfo(torch.float64).eps


def signals(n: int, *shape: int, seed: int = 0) -> Tensor:
    return torch.randn(
        n, *shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64
    )


def by_each_weight(module: nn.Module, x: Tensor, y: Tensor, pairs: bool) -> Tensor:
    """Sums over the weights of one output channel of products of derivatives, at pairs of positions."""

    def derivatives(at: Tensor) -> Tensor:  # (weights, n, positions)
        columns = []
        for name, parameter in module.named_parameters():
            one = torch.zeros_like(parameter[0])
            for k in range(max(1, one.numel())):
                direction = torch.zeros_like(parameter)
                direction[0].view(-1)[k] = 1.0
                values = {name: direction}
                zero = {n: torch.zeros_like(p) for n, p in module.named_parameters() if n != name}
                out = torch.func.functional_call(module, {**zero, **values}, (at,))
                columns.append(out[:, 0].reshape(len(at), -1))
        return torch.stack(columns)

    u, v = derivatives(x), derivatives(y)
    return torch.einsum("wnp,wmq->npmq" if pairs else "wnp,wmp->pnm", u, v)


LINEAR = {
    **{
        f"{size} taps, stride {stride}, {type(padding).__name__}, {axes} axes": (
            Convolution(size, stride, padding), (2, *(6,) * axes)
        )
        for size, stride, padding, axes in product((1, 2, 3, 4), (1, 2), (SAME, VALID, CIRCULAR), (1, 2))
        if (size, axes) != (4, 2)
    },
    "wide": (Convolution(7), (2, 5)),
    "lift": (Lift(Action(symmetric(3)), [0, 2]), (2, 6)),
    "lift on a grid": (Lift(torus(3, cyclic(4)), [0, 1, 3]), (2, 3, 3)),
    "group": (GroupConvolution([0, 1, 4]), (2, 6)),
    "dense": (Dense(), (5,)),
}  # fmt: skip


@pytest.mark.parametrize(
    ("pairs", "parametrisation"),
    [
        (True, NTK()),
        (False, Standard(2)),
        *(pytest.param(*case, marks=sweep) for case in ((False, NTK()), (True, Standard(2)))),
    ],
    ids=["pairs, ntk", "equal positions, standard", "equal positions, ntk", "pairs, standard"],
)
@pytest.mark.parametrize("name", LINEAR)
def test_a_linear_layer_is_the_sum_over_its_weights(
    name: str, pairs: bool, parametrisation: object
) -> None:
    """Of one layer the tangent kernel is exact at any width; its covariance is that times the variance."""
    layer, shape = LINEAR[name]
    x, y = signals(3, *shape), signals(2, *shape, seed=1)
    over = Action(symmetric(3)) if isinstance(layer, GroupConvolution) else None
    signal = Signal(shape[1:], shape[0], over=over)
    scales = Scales(1.3, 0.7, parametrisation)
    draw = Draw(2, scales, torch.Generator().manual_seed(0), torch.float64)
    module = layer.finite(signal, shape[0], 1, draw)
    exact = by_each_weight(module, x, y, pairs)
    state = Covariance.of(x, y, pairs, tangent=True)
    state = Covariance(state.k, None, signal, pairs)
    after = layer.advance(state, None, None, scales)
    theta = after.theta.reshape(exact.shape)
    torch.testing.assert_close(theta, exact, rtol=1e-13, atol=1e-13 * exact.abs().max().item())
    if isinstance(parametrisation, NTK):
        torch.testing.assert_close(after.k, after.theta, rtol=0, atol=0)


def rectified(k: Tensor, theta: Tensor) -> tuple[Tensor, Tensor]:
    """The arc-cosine kernel as a textbook prints it, on (n, p, n, p)."""
    n, p = k.shape[:2]
    own = k.reshape(n * p, n * p).diagonal().reshape(n, p)
    scale = torch.sqrt(own[:, :, None, None] * own)
    angle = torch.acos((k / scale).clamp(-1, 1))
    kernel = scale / (2 * math.pi) * (angle.sin() + (math.pi - angle) * angle.cos())
    return kernel, (math.pi - angle) / (2 * math.pi) * theta


def turned(a: int, b: int, r: int) -> tuple[int, int]:
    for _ in range(r):
        a, b = -b, a
    return a, b


def sources(side: int, padding: object) -> Tensor:
    """For each (r, t) and tap (s, y) the number of (r + s, t + R_r y), or -1 beyond the border."""
    steps = (-1, 0, 1)
    table = []
    for r, i, j in product(range(4), range(side), range(side)):
        for s, a, b in product(range(4), steps, steps):
            u, v = turned(a, b, r)
            u, v = i + u, j + v
            if padding == CIRCULAR:
                u, v = u % side, v % side
            inside = 0 <= u < side and 0 <= v < side
            table.append(((r + s) % 4 * side + u) * side + v if inside else -1)
    return torch.tensor(table).reshape(4 * side**2, 36)


def whole_tensor(x: Tensor, padding: object, w: float, b: float) -> tuple[Tensor, Tensor]:
    """NNGP and NTK of lift, ReLU, group convolution, ReLU, pool, on all pairs of rotations and pixels."""
    n, c, side, _ = x.shape
    table = sources(side, padding)

    def padded(k: Tensor) -> Tensor:  # the number -1 is a zero behind the last
        return torch.nn.functional.pad(k, (0, 1))

    lifted = padded(x.flatten(2))[:, :, torch.where(table < 0, -1, table % side**2)[:, :9]]
    flat = lifted.movedim(1, -1).reshape(n * 4 * side**2, -1)  # (n (r, t), y c)
    k = w**2 / (9 * c) * (flat @ flat.T).reshape(n, 4 * side**2, n, 4 * side**2) + b**2
    k, theta = rectified(k, k)
    k, theta = (
        sum(padded(padded(part).movedim(1, 3)).movedim(3, 1)[:, at][..., at] for at in table.T) / 36
        for part in (k, theta)
    )
    k = w**2 * k + b**2
    k, theta = rectified(k, k + w**2 * theta)
    return k.mean((1, 3)), theta.mean((1, 3))


@pytest.mark.parametrize("padding", [SAME, CIRCULAR], ids=["SAME", "CIRCULAR"])
def test_four_convolutional_kernels_stand_for_the_whole_tensor(padding: object) -> None:
    """The p4 kernel is a mean of kernels of a CNN at f and the rotated f', not 16 times as much."""
    x, window = signals(3, 2, 4, 4), Window(3, padding)
    net = Network([Lift(p4, window), relu, GroupConvolution(window), relu, GroupPool()], 1.4, 0.3)
    nngp, ntk = whole_tensor(x, padding, 1.4, 0.3)
    # Off the diagonal to rounding; on it, acos loses half the digits at points that coincide.
    off = ~torch.eye(3, dtype=torch.bool)
    for ours, exact in ((net.nngp, nngp), (net.ntk, ntk)):
        assert ((ours(x) / exact - 1)[off].abs() < 64 * EPS).all()
        assert ((ours(x) / exact - 1).abs() < 1e-8).all()
    layers = [
        Convolution(3, padding=padding),
        relu,
        Convolution(3, padding=padding),
        relu,
        GlobalPool(),
    ]
    plain = Network(layers, 1.4, 0.3).ntk
    mean = sum(plain(x, p4.act(g, x)) for g in range(4)) / 4
    torch.testing.assert_close(net.ntk(x), mean, rtol=64 * EPS, atol=0)


@pytest.mark.parametrize("mirrored", [False, True], ids=["p4", "p4m"])
@pytest.mark.parametrize(
    "rotations", [True, pytest.param(False, marks=sweep)], ids=["all rotations", "one"]
)
def test_motions_of_a_torus_are_a_finite_group(mirrored: bool, rotations: bool) -> None:
    """The recursion by tables of C4 |x Z5^2 and D4 |x Z5^2; which rotations a filter sees does not matter."""
    side, motions, points = 5, p4m if mirrored else p4, dihedral(4) if mirrored else cyclic(4)
    corner = torch.arange(side**2).reshape(1, 1, side, side)
    centred = corner.roll((2, 2), (2, 3))
    moves = []
    for g in range(motions.order):  # where each pixel goes, about the pixel (0, 0)
        image = motions.act(g, centred).roll((-2, -2), (2, 3)).flatten()
        moves.append(image.argsort())
    action = torus(side, points, torch.stack(moves))
    near = [(a % side) * side + b % side for a in (-1, 0, 1) for b in (-1, 0, 1)]
    support = [h * side**2 + t for h in range(motions.order if rotations else 1) for t in near]
    x, y, window = signals(2, 2, 5, 5), signals(2, 2, 5, 5, seed=1), Window(3, CIRCULAR)
    tables = [
        Lift(action, near),
        relu,
        GroupConvolution(support),
        relu,
        GroupPool(),
        Dense(),
        erf,
        Dense(),
    ]
    grid = [
        Lift(motions, window),
        relu,
        GroupConvolution(window),
        relu,
        GroupPool(),
        Dense(),
        erf,
        Dense(),
    ]
    for kernel in ("nngp", "ntk"):
        one, other = (getattr(Network(layers, 1.4, 0.3), kernel)(x, y) for layers in (tables, grid))
        torch.testing.assert_close(one, other, rtol=64 * EPS, atol=0)


def test_flatten_needs_no_pairs_of_positions() -> None:
    """Two images of 32 x 32 have 2^20 of them, which would take 2^23 bytes."""
    x = signals(2, 1, 32, 32)
    net = Network([Convolution(3), relu, Convolution(3), relu, Flatten(), Dense()], memory=2**20)
    with Meter() as meter:
        net.ntk(x)
    assert meter.peak < 2**21
    small = x[..., :5, :5]
    layers = [Convolution(3), relu, Convolution(3), relu]
    forced = Network(
        [*layers, AveragePool(1), Flatten(), Dense()]
    )  # a pool of one, which needs them
    plain = Network([*layers, Flatten(), Dense()])
    torch.testing.assert_close(plain.ntk(small), forced.ntk(small), rtol=64 * EPS, atol=0)


def test_pooled_lifts_agree_where_the_images_are_symmetric() -> None:
    """Rotating a symmetric image changes nothing: the p4 kernel is then that of the CNN."""
    x = signals(2, 2, 6, 6)
    x = sum(p4.act(g, x) for g in range(4)) / 4
    window = Window(3, VALID)
    lifted = Network([Lift(p4, window), relu, GroupConvolution(window), relu, GroupPool(), Dense()])
    layers = [Convolution(3, padding=VALID), relu] * 2
    plain = Network([*layers, GlobalPool(), Dense()])
    torch.testing.assert_close(lifted.ntk(x), plain.ntk(x), rtol=1e-12, atol=0)


@pytest.mark.parametrize(
    "budget", [2**19, pytest.param(2**22, marks=sweep)], ids=["small", "larger"]
)
def test_tiles_and_threads_do_not_matter(budget: int, two_threads: None) -> None:
    x = signals(7, 2, 6, 6)
    layers = [
        Convolution(3),
        relu,
        AveragePool(2),
        Convolution(2),
        erf,
        GlobalPool(),
        Dense(),
        relu,
        Dense(),
    ]
    whole, cut = (Network(layers, memory=memory) for memory in (2**30, budget))
    for kernel in ("nngp", "ntk"):
        both = [getattr(net, kernel)(x) for net in (whole, cut)]
        torch.testing.assert_close(*both, rtol=16 * EPS, atol=0)
        torch.set_num_threads(1)
        torch.testing.assert_close(getattr(cut, kernel)(x), both[0], rtol=16 * EPS, atol=0)
        torch.set_num_threads(2)


def test_coincident_patches_are_exact() -> None:
    """Images with equal patches, one signal twice, and its multiple: slopes at an angle of 0 are exact."""
    x = signals(2, 1, 6)
    x[0, 0, :4] = 1.0  # equal windows inside one image
    y = torch.cat([x, 2 * x])
    net = Network([Convolution(3), relu, Convolution(3), relu, GlobalPool(), Dense()], 1.4, 0.0)
    gram, twice = net.ntk(x), net.ntk(x, y)
    # ReLU without biases is homogeneous of degree one in each image
    torch.testing.assert_close(twice[:, :2], gram, rtol=64 * EPS, atol=0)
    torch.testing.assert_close(twice[:, 2:], 2 * gram, rtol=64 * EPS, atol=0)
