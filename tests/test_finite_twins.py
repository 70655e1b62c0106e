"""Finite networks of one layer of activations: 5 percent more or less than their kernels is refused.

Such networks have kernels with those of the limit as means, at any width, or up to 1/width where they norm
or attend: thousands of channels take the place of as many draws, and standard errors are below 1 percent.
The covariance of outputs is read off from the derivatives by the last weights, in which they are linear.
"""

import pytest
import torch
from torch import Tensor, nn

from analytic.activations import erf, relu
from numeric.estimate import Estimate
from numeric.infinite import (
    CIRCULAR,
    AveragePool,
    Convolution,
    Dense,
    Dropout,
    Flatten,
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
    Window,
)
from numeric.infinite.composition.finite import Weights
from numeric.infinite.groups import Action, p4, symmetric

S3, WINDOW = Action(symmetric(3)), Window(3)

NETWORKS = {  # layers, shape of a signal, width
    "dense": ([Dense(), relu, Dense()], (3,), 4096),
    "convolution": ([Convolution(3), relu, Flatten(), Dense()], (2, 4), 4096),
    "circular": ([Convolution(2, 1, CIRCULAR), erf, Flatten(), Dense()], (2, 4), 4096),
    "window pool": ([Convolution(3), relu, AveragePool(), Flatten(), Dense()], (2, 4), 4096),
    "pool": ([Convolution(3), relu, GlobalPool(), Dense()], (2, 4), 4096),
    "norm": ([Convolution(3), LayerNorm(), relu, Flatten(), Dense()], (2, 4), 4096),
    "attention": ([SelfAttention(1.5), relu, Flatten(), Dense()], (2, 4), 4096),
    "group": ([Lift(S3, [0, 1]), relu, GroupConvolution([0, 2, 3]), GroupPool()], (2, 6), 4096),
    "p4": ([Lift(p4, WINDOW), relu, GroupConvolution(WINDOW), GroupPool()], (1, 3, 3), 512),
    "sphere": ([S2Convolution(3), erf, SO3Convolution(), GroupPool()], (2, 4), 1024),
    "dropout": ([Dense(), Dropout(0.3), Dense(), relu, Dense()], (3,), 128),
    "residual": ([Residual([Dense()], [Dense(sigma_w=0.9)]), relu, Dense()], (3,), 4096),
}  # fmt: skip


def signals(n: int, *shape: int) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(n, *shape, generator=generator, dtype=torch.float64)


def derivatives(module: nn.Sequential, x: Tensor) -> tuple[Tensor, Tensor]:
    """Of the output at each signal, by the last weights and by the others: (n, parameters)."""
    last = [list(part.parameters()) for part in module if isinstance(part, Weights)][-1]
    others = [p for p in module.parameters() if all(p is not q for q in last)]
    rows: tuple[list[Tensor], list[Tensor]] = [], []
    for out in module(x)[:, 0]:
        parts = torch.autograd.grad(out, [*last, *others], retain_graph=True)
        for row, cut in zip(rows, (parts[: len(last)], parts[len(last) :]), strict=True):
            row.append(torch.cat([g.flatten() for g in cut]))
    return torch.stack(rows[0]), torch.stack(rows[1])


def kernels(one: tuple[Tensor, Tensor], other: tuple[Tensor, Tensor]) -> Tensor:
    """NNGP and tangent kernel of two passes, (2, n, n)."""
    last, others = (a @ b.T for a, b in zip(one, other, strict=True))
    return torch.stack([last, last + others]).double()


def limits(layers: list, x: Tensor) -> Tensor:
    net = Network(layers, 1.3, 0.2)
    return torch.stack([net.nngp(x, x), net.ntk(x, x)])


def draws(layers: list, x: Tensor, width: int, count: int) -> Tensor:
    """NNGP and tangent kernels of so many finite networks, (count, 2, n, n).

    Two passes have masks of their own. What masks change has less noise than the kernel: the same weights
    without masks are subtracted, and their limit is added.
    """
    plain = [layer for layer in layers if not isinstance(layer, Dropout)]
    net, unmasked, found = Network(layers, 1.3, 0.2), limits(plain, x), []
    for seed in range(count):
        module = net.finite(width, seed, shape=x.shape[1:], dtype=torch.float32)
        one = derivatives(module, x.float())
        if len(plain) == len(layers):
            found.append(kernels(one, one))
            continue
        masked = kernels(one, derivatives(module, x.float()))
        module.eval()
        bare = derivatives(module, x.float())
        found.append(masked - kernels(bare, bare) + unmasked)
    return torch.stack(found)


@pytest.mark.parametrize("name", NETWORKS)
def test_five_percent_more_or_less_is_refused(name: str) -> None:
    layers, shape, width = NETWORKS[name]
    x = signals(2, *shape)
    exact = limits(layers, x)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)  # masks
        found = Estimate.of(draws(layers, x, width, 600 if name == "dropout" else 32))
    assert (found.stderr < 0.01 * exact).all()
    assert found.sigmas_from(exact).max() < 4
    for factor in (0.95, 1.05):
        assert (found.sigmas_from(factor * exact).amax((1, 2)) > 4).all()  # of both kernels
