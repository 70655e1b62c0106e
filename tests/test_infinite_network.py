"""Composed networks: kernels obey laws, finite twins converge, layers that do not meet are refused."""

import math
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor, nn

from analytic.activations import erf, gelu, monomial, relu, sign, tanh
from density import sweep
from numeric import infinite
from numeric.estimate import Estimate
from numeric.infinite import (
    CIRCULAR,
    NTK,
    VALID,
    AveragePool,
    Convolution,
    Dense,
    Dropout,
    Flatten,
    FullyConnected,
    GlobalPool,
    GroupConvolution,
    GroupPool,
    LayerNorm,
    Lift,
    Network,
    Residual,
    S2Convolution,
    SelfAttention,
    SO3Convolution,
    Standard,
    Window,
)
from numeric.infinite.composition.covariance import Covariance
from numeric.infinite.composition.finite import Draw, Function
from numeric.infinite.composition.gram import Recursion, SignalChunk
from numeric.infinite.composition.layer import NeededCovariances
from numeric.infinite.composition.network import NNGPKernel, TangentKernel
from numeric.infinite.composition.signal import Scales, Signal
from numeric.infinite.groups import Action, p4, p4m, symmetric
from numeric.inputs import InputError
from numeric.kernels import assert_kernel

EPS = torch.finfo(torch.float64).eps
S3, WINDOW = Action(symmetric(3)), Window(3)


def signals(n: int, *shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(n, *shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


NETWORKS = {  # layers, and the shape of one signal
    "dense": ([Dense(), relu, Dense(sigma_w=0.7), erf, Dense()], (3,)),
    "convolution": ([Convolution(3), relu, Convolution(2, 1, CIRCULAR), relu, Flatten(), Dense()], (2, 4)),
    "strides": ([Convolution(3, 2), erf, Flatten(), Dense()], (2, 5, 4)),
    "pools": ([Convolution(3), relu, AveragePool(), Convolution(2), relu, GlobalPool(), Dense()], (2, 4)),
    "pool of an activation": ([Convolution(3), relu, GlobalPool()], (2, 4)),
    "residual": ([Convolution(3), Residual([], [relu, Convolution(3)]), relu, Flatten(), Dense()], (2, 4)),
    "branches": (
        [Convolution(1), Residual([relu, Convolution(3)], [erf, Convolution(1)]), Flatten(), Dense()], (2, 3)
    ),
    "norm": ([Convolution(3), LayerNorm(), relu, Flatten(), Dense()], (2, 4)),
    "dropout": ([Dense(), relu, Dropout(0.3), Dense(), relu, Dense()], (3,)),
    "attention": ([SelfAttention(1.5), relu, Flatten(), Dense()], (2, 4)),
    "group": ([Lift(S3, [0, 1]), relu, GroupConvolution([0, 2, 3]), relu, GroupPool(), Dense()], (2, 6)),
    "p4": ([Lift(p4, WINDOW), relu, GroupConvolution(WINDOW), relu, GroupPool(), Dense()], (1, 3, 3)),
    "p4m, flat": (
        [Lift(p4m, WINDOW), relu, GroupConvolution(Window(3, VALID)), relu, Flatten(), Dense()], (1, 3, 3)
    ),
    "sphere": (
        [S2Convolution(3), monomial(2), SO3Convolution(), monomial(2), GroupPool(), Dense()], (2, 4)
    ),
    "sphere, flat": ([S2Convolution(4), relu, SO3Convolution(2), erf, Flatten(), Dense()], (2, 4)),
}  # fmt: skip
MORE = {
    "quadrature": ([Convolution(2), tanh, GlobalPool(), Dense(), tanh, Dense()], (1, 2)),
    "p4 and pools": (
        [
            Lift(p4, WINDOW), gelu, AveragePool(), GroupConvolution(WINDOW), relu, GroupPool(), Dense(), relu,
            Dense(),
        ],
        (1, 4, 4),
    ),
    "attention and pool": (
        [Convolution(1), relu, SelfAttention(), relu, Dropout(0.2), SelfAttention(), GlobalPool(), Dense()],
        (2, 4),
    ),
    "pools in branches": (
        [Convolution(3), Residual([AveragePool()], [relu, AveragePool(), Convolution(1)]), Flatten()],
        (2, 4),
    ),
    "sphere, residual": (
        [
            S2Convolution(4), Residual([], [relu, SO3Convolution(2), LayerNorm()]), gelu, GroupPool(),
            Dense(), relu, Dense(),
        ],
        (2, 9),
    ),
    "dropout and pool": (
        [Convolution(3), relu, Dropout(0.4), Convolution(3), relu, GlobalPool(), Dense()], (2, 4)
    ),
}  # fmt: skip


SLOW = {"quadrature"}  # series for every variance, again for each call


@pytest.mark.parametrize(
    "name", [pytest.param(k, marks=sweep) if k in SLOW else k for k in (*NETWORKS, *MORE)]
)
def test_kernels_obey_the_laws_of_kernels(name: str) -> None:
    layers, shape = (NETWORKS | MORE)[name]
    x, y = signals(4, *shape), signals(3, *shape, seed=1)
    y = torch.cat([y, x[:1], 0 * x[:1]])  # a point of both, and one at the origin
    net = Network(layers, 1.3, 0.2)
    for kernel in (net.nngp, net.ntk):
        assert_kernel(kernel, x, y)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["float64", "float32"])
@pytest.mark.parametrize("act", [relu, erf, gelu], ids=lambda act: act.name)
def test_dense_layers_are_the_fully_connected_network(act: object, dtype: torch.dtype) -> None:
    """To 16 ulps of sqrt(k(x, x) k(y, y))."""
    x, y = signals(6, 5, dtype=dtype), signals(4, 5, seed=1, dtype=dtype)
    for parametrisation in (NTK(), Standard(33)):
        ours = Network([Dense(), act, Dense(), act, Dense()], 1.5, 0.1, parametrisation)
        fast = FullyConnected(act, 2, 1.5, 0.1, parametrisation)
        bound = 16 * torch.finfo(dtype).eps
        for kernel in ("nngp", "ntk"):
            one, other = getattr(ours, kernel), getattr(fast, kernel)
            at_x, at_y = other.diagonal(x), other.diagonal(y)
            assert ((one(x, y) - other(x, y)).abs() <= bound * (at_x[:, None] * at_y).sqrt()).all()
            assert ((one(x) - other(x)).abs() <= bound * (at_x[:, None] * at_x).sqrt()).all()
            assert ((one.diagonal(x) - at_x).abs() <= bound * at_x).all()


def test_quadrature_on_pairs_of_positions_is_that_of_points() -> None:
    """Two windows of two positions, pooled, are a mean over four pairs; to the accuracy of the quadrature."""
    x, y = signals(2, 1, 3), signals(1, 1, 3, seed=1)
    y = torch.cat([x[:1], y])
    pooled = Network([Convolution(2, padding=VALID), tanh, GlobalPool()], 1.5, 0.1)
    flat = FullyConnected(tanh, 1, (1.5, 1.0), (0.1, 0.0))
    windows = [[part[:, 0, k : k + 2] for k in (0, 1)] for part in (x, y)]
    mean = sum(flat.nngp(u, v) for u in windows[0] for v in windows[1]) / 4
    torch.testing.assert_close(pooled.nngp(x, y), mean, rtol=1e-12, atol=0)


def draws(
    name: str, width: int, count: int, parametrisation: object = NTK()
) -> tuple[Tensor, Tensor]:
    """NNGP and tangent kernels of so many finite networks, (count, n, n), from two passes each."""
    layers, shape = NETWORKS[name]
    x, net = signals(2, *shape), Network(layers, 1.3, 0.2, parametrisation)
    products, tangents = [], []
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)  # masks of dropout
        for seed in range(count):
            module = net.finite(width, seed, shape=shape, outputs=32)
            one, other = module(x), module(x)
            products.append((one @ other.T / one.shape[1]).detach())
            rows = [_gradients(module, out) for out in (one, other)]
            tangents.append(rows[0] @ rows[1].T)
    return torch.stack(products), torch.stack(tangents)


def _gradients(module: nn.Module, outputs: Tensor) -> Tensor:
    """Of the first output at each signal: (n, parameters)."""
    parameters = list(module.parameters())
    rows = []
    for out in outputs[:, 0]:
        parts = torch.autograd.grad(out, parameters, retain_graph=True, allow_unused=True)
        rows.append(
            torch.cat(
                [
                    torch.zeros_like(p).flatten() if g is None else g.flatten()
                    for g, p in zip(parts, parameters, strict=True)
                ]
            )
        )
    return torch.stack(rows)


def exact(name: str, parametrisation: object = NTK()) -> tuple[Tensor, Tensor]:
    """The kernels of two signals; where there are masks, a signal meets itself with another one."""
    layers, shape = NETWORKS[name]
    x, net = signals(2, *shape), Network(layers, 1.3, 0.2, parametrisation)
    return net.nngp(x, x), net.ntk(x, x)


LARGEST = {"p4": 32, "p4m, flat": 16, "sphere": 32, "sphere, flat": 32}  # widths, 64 for the others


@pytest.mark.parametrize("name", NETWORKS)
def test_finite_twins_have_these_kernels(name: str) -> None:
    """Within 4 standard errors, which at this width are more than the bias; half as much again is refused."""
    for found, limit in zip(draws(name, LARGEST.get(name, 64), 24), exact(name), strict=True):
        estimate = Estimate.of(found)
        assert estimate.sigmas_from(limit).max() < 4
        assert estimate.sigmas_from(1.5 * limit).max() > 4


@pytest.mark.parametrize("parametrisation", [NTK(), Standard(64)], ids=repr)
def test_finite_fully_connected_networks_have_these_kernels(parametrisation: object) -> None:
    """Scales and activations differ from layer to layer, so that none can be taken for another."""
    net = FullyConnected([relu, erf], None, (1.3, 0.7, 1.6), (0.2, 0.0, 0.4), parametrisation)
    x, twins = signals(2, 3), [net.finite(64, seed, d=3, outputs=32) for seed in range(24)]
    outputs = [twin(x) for twin in twins]
    products = torch.stack([(out @ out.T / 32).detach() for out in outputs])
    rows = [_gradients(twin, out) for twin, out in zip(twins, outputs, strict=True)]
    tangents = torch.stack([row @ row.T for row in rows])
    for drawn, limit in ((products, net.nngp(x)), (tangents, net.ntk(x))):
        estimate = Estimate.of(drawn)
        # The bias at width 64 is 2 percent; the leading order of Standard leaves out as much.
        off = (estimate.mean - limit).abs()
        assert (off < 4 * estimate.stderr + limit.abs() / 32).all()
        assert estimate.sigmas_from(1.5 * limit).max() > 4


@sweep
@pytest.mark.parametrize("name", NETWORKS)
def test_the_bias_of_finite_twins_falls_as_one_over_the_width(name: str) -> None:
    """Then twice the mean at twice the width less that at the width has none of it."""
    narrow, wide = draws(name, 8, 400), draws(name, 16, 400)
    for one, other, limit in zip(narrow, wide, exact(name), strict=True):
        assert Estimate.of(2 * other - one).sigmas_from(limit).max() < 4
    largest = zip(draws(name, 2 * LARGEST.get(name, 64), 40), exact(name), strict=True)
    assert all(Estimate.of(found).sigmas_from(limit).max() < 4 for found, limit in largest)


@pytest.mark.parametrize("name", ["convolution", "group", "sphere, flat"])
def test_standard_parametrisation_draws_the_same_function_and_other_gradients(name: str) -> None:
    layers, shape = NETWORKS[name]
    x = signals(3, *shape)
    one, other = (Network(layers, 1.3, 0.2, p).finite(8, shape=shape) for p in (NTK(), Standard(8)))
    torch.testing.assert_close(one(x), other(x), rtol=1e-12, atol=1e-13)
    wide, limit = draws(name, 64, 24, Standard(64))[1], exact(name, Standard(64))[1]
    # What is returned is the leading order in the width
    assert (
        (wide.mean(0) / limit - 1).abs() < 4 * wide.std(0) / limit / math.sqrt(24) + 2 / 64
    ).all()


def test_masks_are_averaged_over_but_raise_variances() -> None:
    """Without an activation after it, dropout changes nothing; ReLU of more variance is larger."""
    x = signals(3, 4)
    plain, masked = (Network([Dense(), relu, *drop, Dense()]) for drop in ([], [Dropout(0.5)]))
    torch.testing.assert_close(plain.ntk(x), masked.ntk(x), rtol=8 * EPS, atol=0)
    plain, masked = (
        Network([Dense(), relu, *drop, Dense(), relu, Dense()]) for drop in ([], [Dropout(0.5)])
    )
    assert (masked.nngp.diagonal(x) > plain.nngp.diagonal(x)).all()


@dataclass(frozen=True)
class Doubled:
    """A layer of one's own: a factor of 2."""

    @property
    def needs(self) -> NeededCovariances:
        return NeededCovariances()

    def after(self, signal: Signal) -> Signal:
        return signal

    def advance(self, state: Covariance, rows: None, columns: None, scales: Scales) -> Covariance:
        return state.map(lambda k: 4 * k, state.signal)

    def finite(self, signal: Signal, inputs: int, outputs: int, draw: Draw) -> nn.Module:
        return Function(lambda h: 2 * h)


def test_a_layer_of_ones_own_is_a_layer() -> None:
    x = signals(3, 4)
    ours = Network([Dense(), Doubled(), relu, Dense()], 1.0, 0.0)
    known = Network([Dense(sigma_w=2.0), relu, Dense()], 1.0, 0.0)
    torch.testing.assert_close(ours.nngp(x), known.nngp(x), rtol=8 * EPS, atol=0)


@pytest.mark.parametrize("act", [relu, erf, gelu], ids=lambda act: act.name)
def test_covariances_that_nothing_reads_are_left_out_of_tangent_kernels(act: object) -> None:
    """Before pools alone, in pairs and in variances; with a layer of one's own between they are kept."""
    x = signals(3, 2, 4)
    layers = [Convolution(3), act, AveragePool(), Convolution(3), act]
    left_out = Network([*layers, GlobalPool()]).ntk
    kept = Network([*layers, Doubled(), GlobalPool()]).ntk
    torch.testing.assert_close(4 * left_out(x), kept(x), rtol=8 * EPS, atol=0)


def test_one_half_of_a_gram_matrix_is_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the smallest tiles each pair of different signals is counted once, and none with itself."""
    counted = []
    tile = Recursion.tile

    def counting(self: Recursion, rows: SignalChunk, columns: SignalChunk) -> Tensor:
        counted.append(len(rows.x) * len(columns.x))
        return tile(self, rows, columns)

    monkeypatch.setattr(Recursion, "tile", counting)
    x, layers = signals(20, 2, 6, 6), [Convolution(3), relu, GlobalPool(), Dense()]
    Network(layers, memory=2 * 7 * 8 * 36**2).ntk(x)  # for one pair on each of two threads
    assert sum(counted) == 190
    counted.clear()
    Network(layers).ntk(x)  # larger tiles take in some pairs of the other half
    assert 190 <= sum(counted) < 1.25 * 190


IMAGES, LINE = signals(2, 3, 6, 6), signals(2, 3, 6)


def on(*layers: object, x: Tensor = IMAGES, **more: object) -> Tensor:
    return Network(list(layers), **more).nngp(x)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: on(Lift(p4, WINDOW), GroupPool(), x=signals(2, 3, 6, 5)), "Layer 0, Lift: .*square"),
        (lambda: on(Lift(S3), GroupPool()), "Layer 0, Lift: .*6 positions"),
        (lambda: on(Convolution(7, padding=VALID), Flatten()), "Layer 0, Convolution: .*VALID"),
        (lambda: on(Convolution(3), relu, Convolution(9, padding=CIRCULAR), Flatten()), "Layer 2, Conv"),
        (lambda: on(Dense(), x=IMAGES), "Layer 0, Dense: .*Flatten"),
        (lambda: on(Convolution(3), relu, Flatten(), Convolution(3)), "Layer 3, Convolution"),
        (lambda: on(Convolution(3), AveragePool(4), Flatten()), "Layer 1, AveragePool: .*divides"),
        (lambda: on(Flatten(), GlobalPool()), "Layer 1, GlobalPool"),
        (lambda: on(Convolution(3), GroupPool()), "Layer 1, GroupPool: .*Lift"),
        (lambda: on(GroupConvolution(WINDOW), GroupPool()), "Layer 0, GroupConvolution: .*Lift"),
        (lambda: on(Lift(p4, WINDOW), Lift(p4, WINDOW), GroupPool()), "Layer 1, Lift: .*already"),
        (lambda: on(Lift(p4, WINDOW), Convolution(3), GroupPool()), "Layer 1, Convolution: .*lifted"),
        (lambda: on(Lift(p4, WINDOW), GroupConvolution(), GroupPool()), "Layer 1, Group.*Window"),
        (lambda: on(Lift(p4, WINDOW), SelfAttention(), GroupPool()), "Layer 1, SelfAttention"),
        (lambda: on(relu, Flatten(), Dense()), "Layer 0, relu: .*Gaussian"),
        (lambda: on(Convolution(3), relu, GlobalPool(), relu, Dense()), "Layer 3, relu: .*Gaussian"),
        (lambda: on(Convolution(3), relu, LayerNorm(), Flatten()), "Layer 2, LayerNorm: .*Gaussian"),
        (lambda: on(Convolution(3), Residual([relu], [erf]), Flatten()), "Layer 1, Residual: .*correlated"),
        (lambda: on(Residual([], [Convolution(3)]), Flatten()), "Layer 0, Residual: .*shapes"),
        (lambda: on(Convolution(3), Residual([], [Dense()]), Flatten()), "Layer 1, Residual: Layer 0, Dense"),
        (lambda: on(Convolution(3)), r"positions \(6, 6\): end with"),
        (lambda: on(torch.relu, Dense()), "Layer 0 is .*two-point kernel"),
        (lambda: on(Dense, relu), "Layer 0 is"),
        (lambda: Network([]), "layers must be"),
        (lambda: Network("Dense"), "layers must be"),
        (lambda: Network([Dense()], sigma_w=0.0), "sigma_w"),
        (lambda: Network([Dense()], sigma_b=-1.0), "sigma_b"),
        (lambda: Network([Dense(sigma_w="1")]), "sigma_w"),
        (lambda: Network([Dense()], parametrisation="ntk"), "parametrisation"),
        (lambda: Network([Dense()], memory=0), "memory"),
        (lambda: on(Convolution(3), relu, GlobalPool(), memory=10**4), "one pair of signals needs"),
        (lambda: on(Flatten(), Dense(), x=IMAGES * math.nan), "NaN"),
        (lambda: on(Flatten(), Dense(), relu, Dense(), x=1e160 * IMAGES), "too large"),
        (lambda: on(Flatten(), Dense(), x=IMAGES.half()), "float16"),
        (lambda: Network([Flatten(), Dense()]).nngp(IMAGES, IMAGES.float()), "convert one of them"),
        (lambda: Network([Flatten(), Dense()]).nngp(IMAGES, IMAGES.float().numpy()), "y is an array"),
        (lambda: Network([Flatten(), Dense()]).nngp(IMAGES.numpy(), IMAGES.float()), "x is an array"),
        (lambda: Network([Flatten(), Dense()]).nngp(IMAGES, LINE), "must be the same"),
        (lambda: Network([Flatten(), Dense()]).ntk("images"), "must be an array"),
        (lambda: Network([Flatten(), Dense(), sign, Dense()]).ntk(IMAGES), "slope"),
        (lambda: Network([Flatten(), Dense()]).ntk.metric([[1.0]]), "FullyConnected"),
        (lambda: NNGPKernel("net"), "Network"),
        (lambda: TangentKernel(FullyConnected(relu)), "Network"),
        (lambda: Network([Dense()]).finite(0, shape=(3,)), "width"),
        (lambda: Network([Dense()]).finite(8, -1, shape=(3,)), "seed"),
        (lambda: Network([Dense()]).finite(8, shape=(3, 4)), "Layer 0, Dense"),
        (lambda: Network([Dense()]).finite(8, shape=(3,), outputs=0), "outputs"),
        (lambda: Network([Dense()]).finite(8, shape=None), "shape must be"),
        (lambda: Network([Dense()]).finite(8, shape=3), "shape must be"),
        (lambda: Network([Dense()]).signals("33"), "shape must be"),
        (lambda: FullyConnected(relu).finite(8, d=0), "d = 0"),
        (lambda: FullyConnected(relu).finite(8, d=(3,)), "d = "),
        (lambda: FullyConnected(relu).finite("wide", d=3), "width"),
        (lambda: Convolution(0), "size"),
        (lambda: Convolution(3, 0), "stride"),
        (lambda: Convolution(3, padding="SAME"), "padding"),
        (lambda: Window(2), "odd"),
        (lambda: Lift(p4), "Window"),
        (lambda: Lift("p4"), "Action"),
        (lambda: Lift(S3, [0, 0]), "each once"),
        (lambda: Lift(S3, [7]), "each once"),
        (lambda: AveragePool(0), "size"),
        (lambda: LayerNorm(-1.0), "epsilon"),
        (lambda: Dropout(1.0), "rate"),
        (lambda: SelfAttention(0.0), "sigma_q"),
        (lambda: Residual(), "branch"),
        (lambda: Residual(Dense()), "branch"),
    ],
)  # fmt: skip
def test_layers_that_do_not_meet_are_refused_by_position(make: object, words: str) -> None:
    with pytest.raises(InputError, match=words):
        make()


def test_predictions_are_made_from_any_network() -> None:
    x, y = signals(5, 2, 6), signals(5, 1, seed=1)
    net = Network([Convolution(3), relu, GlobalPool(), Dense()])
    predicted = infinite.gradient_flow(net, x, y, x[:2])
    torch.testing.assert_close(predicted.mean, y[:2], rtol=0, atol=1e-6)
