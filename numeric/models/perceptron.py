r"""Fully connected networks, one alone or many of one shape trained in parallel.

A layer of n units has the features $\Phi_j = n^{-1/2}\phi(w_j\cdot x + b_j)$ of the paper, which are the
inputs of the next layer. Weights and biases are standard normal at the start, which the paper leaves open.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Iterable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from numeric.inputs import InputError, generator_for, require_float_dtype, whole

__all__ = [
    "ParallelLinear", "ParallelNetworks", "Scale", "Shape", "cross_entropies", "hidden", "hidden_layers",
    "perceptron",
]  # fmt: skip

Shape = tuple[int, ...]  # widths of the hidden layers


class Scale(nn.Module):
    """Divide features by the square root of their number, so that the metric is a mean over units."""

    def forward(self, x: Tensor) -> Tensor:
        return x / math.sqrt(x.shape[-1])


def perceptron(
    shape: int | Iterable[int],
    seed: int = 0,
    activation: nn.Module | None = None,
    outputs: int = 2,
    dtype: torch.dtype = torch.float64,
) -> nn.Sequential:
    """A network [2, *shape, outputs] on the plane; its hidden layers are phi1, phi2 and so on.

    `shape` is one width or one for each hidden layer, the activation a torch module, by default a Sigmoid,
    and the seed fixes weights and biases, which are standard normal. Returned is a Sequential of linear1,
    phi1, scale1, ..., readout. Refused are sizes that are no whole numbers above 0 and activations that are
    no modules.

    >>> net = perceptron((20, 10), outputs=3)
    >>> net(torch.zeros(4, 2, dtype=torch.float64)).shape
    torch.Size([4, 3])
    """
    widths = hidden(shape)
    require_float_dtype(dtype)
    if activation is not None and not isinstance(activation, nn.Module):
        raise InputError(
            f"activation = {activation!r} was given, but a torch module is needed, such as nn.Tanh()."
        )
    generator = generator_for("weights", whole("seed", seed, 0), widths)

    def linear(d: int, n: int) -> nn.Linear:
        layer = _without_values(d, n, dtype)
        for values in (layer.weight, layer.bias):
            nn.init.normal_(values, generator=generator)
        return layer

    parts: OrderedDict[str, nn.Module] = OrderedDict()
    for k, (d, n) in enumerate(zip((2, *widths), widths, strict=False), 1):
        parts[f"linear{k}"] = linear(d, n)
        parts[f"phi{k}"] = nn.Sigmoid() if activation is None else activation
        parts[f"scale{k}"] = Scale()
    parts["readout"] = linear(widths[-1], whole("outputs", outputs))
    return nn.Sequential(parts)


def hidden(shape: int | Iterable[int]) -> Shape:
    """Widths of the hidden layers, from one width or one for each layer."""
    widths = tuple(shape) if isinstance(shape, Iterable) else (shape,)
    if not widths:
        raise InputError("A network needs one hidden layer at least: give its width.")
    return tuple(whole("width", n) for n in widths)


def hidden_layers(model: nn.Module) -> dict[str, tuple[nn.Linear, nn.Module]]:
    """A perceptron's linear maps and activations, from the first to the last, by the latter's names."""
    parts = list(model.named_children())
    layers_by_name = {
        name: (linear, phi)
        for (_, linear), (name, phi), (_, after) in zip(parts, parts[1:], parts[2:], strict=False)
        if isinstance(linear, nn.Linear) and isinstance(after, Scale)
    }
    if not layers_by_name:
        raise InputError(f"{type(model).__name__} has no hidden layers: make it with `perceptron`.")
    return layers_by_name


def _without_values(d: int, n: int, dtype: torch.dtype) -> nn.Linear:
    """A linear layer whose weights are yet to be written: torch's random numbers do not move on."""
    return nn.Linear(d, n, device="meta", dtype=dtype).to_empty(device="cpu")


class ParallelLinear(nn.Module):
    """One linear layer for each of s networks in parallel, each with its own inputs."""

    def __init__(self, layers: Sequence[nn.Linear]) -> None:
        super().__init__()
        self.weight = nn.Parameter(
            torch.stack([one.weight.detach() for one in layers])
        )  # (s, n, d)
        self.bias = nn.Parameter(torch.stack([one.bias.detach() for one in layers]))  # (s, n)

    def forward(self, x: Tensor) -> Tensor:
        """(s, m, d) -> (s, m, n)."""
        return torch.baddbmm(self.bias[:, None], x, self.weight.mT)

    def alone(self, k: int) -> nn.Linear:
        _, n, d = self.weight.shape
        layer = _without_values(d, n, self.weight.dtype)
        layer.load_state_dict({"weight": self.weight[k], "bias": self.bias[k]})
        return layer.to(self.weight.device)


class ParallelNetworks(nn.Module):
    """Networks of one shape in parallel, in batched products: (m, s, d) -> (m, s, outputs).

    The networks do not interact. With a sum of their losses and an optimiser that acts on each parameter
    separately, as SGD and Adam do, each is trained as if it were alone. Networks of different shapes are
    refused.

    >>> both = ParallelNetworks([perceptron(5, seed) for seed in range(2)])
    >>> both(torch.zeros(4, 2, 2, dtype=torch.float64)).shape
    torch.Size([4, 2, 2])
    """

    def __init__(self, networks: Sequence[nn.Sequential]) -> None:
        super().__init__()
        if isinstance(networks, str) or not isinstance(networks, Sequence):
            raise InputError(
                f"networks = {networks!r} was given, but a list of networks is needed."
            )
        for network in networks:
            if not isinstance(network, nn.Sequential):
                raise InputError(f"{network!r} was given, but networks are made with `perceptron`.")
        if len({str(network) for network in networks}) != 1:
            raise InputError("Networks in parallel must be of one shape, and one at least.")
        columns = zip(*(network.named_children() for network in networks), strict=True)
        self.layers = nn.Sequential(
            OrderedDict(
                (column[0][0], self._joined([part for _, part in column])) for column in columns
            )
        )

    @staticmethod
    def _joined(parts: Sequence[nn.Module]) -> nn.Module:
        linear = [part for part in parts if isinstance(part, nn.Linear)]
        return ParallelLinear(linear) if linear else parts[0]

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x.transpose(0, 1)).transpose(0, 1)

    def network(self, k: int) -> nn.Sequential:
        """Network k, alone."""
        parts = (
            (name, part.alone(k) if isinstance(part, ParallelLinear) else part)
            for name, part in self.layers.named_children()
        )
        return nn.Sequential(OrderedDict(parts))


def cross_entropies(outputs: Tensor, labels: Tensor) -> Tensor:
    """The sum over networks in parallel of their mean cross entropies: (m, s, c), (m, s) -> ().

    outputs: logits of c classes at m points, for s networks. labels: classes, for each network its own.
    Returned is one number, the loss with which `train` trains ParallelNetworks each as if it were alone.

    >>> round(cross_entropies(torch.zeros(4, 3, 2), torch.zeros(4, 3, dtype=torch.long)).item(), 6)  # 3 ln 2
    2.079442
    """
    return outputs.shape[1] * F.cross_entropy(outputs.flatten(0, 1), labels.flatten())
