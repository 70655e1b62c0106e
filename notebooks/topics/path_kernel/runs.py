"""Recorded runs: three Gaussians and digits, the networks of the paper, and training with every step kept."""

from __future__ import annotations

from functools import partial

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn

from numeric.inputs import generator_for
from numeric.path_kernel import ExactPathKernel, GaussLegendre, Record, record
from numeric.path_kernel.quadrature import Quadrature

Data = tuple[Tensor, Tensor]
CENTRES = (
    (1.0, 4.0),
    (4.0, 1.0),
    (5.0, 5.0),
)  # of the three Gaussians, in their first two coordinates
CLASSES = len(CENTRES)


def gaussians(count: int, d: int, seed: int) -> Data:
    """So many points around each of three centres in d dimensions, with variance 1, and their classes."""
    y = torch.arange(CLASSES).repeat(count)
    centres = torch.zeros(CLASSES, d, dtype=torch.float64)
    centres[:, :2] = torch.tensor(CENTRES)
    generator = generator_for("three gaussians", d, seed)
    noise = torch.randn(len(y), d, generator=generator, dtype=torch.float64)
    return centres[y] + noise, y


def digits(count: int, others: int, seed: int) -> tuple[Data, Data]:
    """Images (n, 1, 8, 8) of digits from 0 to 1 with their classes, to train on and others."""
    bunch = load_digits()
    images, labels = torch.tensor(bunch.images / 16)[:, None], torch.tensor(bunch.target)
    order = torch.randperm(len(labels), generator=generator_for("digits", seed))
    first, second = order[:count], order[count : count + others]
    return (images[first], labels[first]), (images[second], labels[second])


def perceptron(
    d: int, width: int, classes: int, activation: nn.Module, seed: int, gain: float = 1.0
) -> nn.Module:
    """A hidden layer, and outputs that are logarithms of probabilities."""
    layers = (nn.Linear(d, width), activation, nn.Linear(width, classes), nn.LogSoftmax(1))
    return drawn(nn.Sequential(*layers), seed, gain)


def convolutional(channels: int, seed: int) -> nn.Module:
    """Two convolutions with ReLU for images of 8 by 8, and ten outputs."""
    layers = (
        nn.Conv2d(1, channels, 3), nn.ReLU(), nn.Conv2d(channels, channels, 3, stride=2), nn.ReLU(),
        nn.Flatten(), nn.Linear(4 * channels, 10), nn.LogSoftmax(1),
    )  # fmt: skip
    return drawn(nn.Sequential(*layers), seed)


def drawn(net: nn.Module, seed: int, gain: float = 1.0) -> nn.Module:
    """The network in float64 with weights of variance 2 gain^2 / fan-in and no biases."""
    generator = generator_for("weights", seed)
    for p in net.double().parameters():
        fan = p[0].numel() if p.ndim > 1 else 1
        noise = torch.randn(p.shape, generator=generator, dtype=torch.float64)
        p.data = noise * gain * (2 / fan) ** 0.5 if p.ndim > 1 else torch.zeros_like(p)
    return net


def trained(net: nn.Module, data: Data, rate: float, steps: int) -> Record:
    """Full-batch gradient descent on the mean of -log p, every step on record."""
    sgd = partial(torch.optim.SGD, lr=rate)
    quiet = {"device": "cpu", "progress": False}
    return record(net, nn.functional.nll_loss, sgd, data, steps=steps, **quiet)


def exact(run: Record, rule: Quadrature | None = None) -> ExactPathKernel:
    return ExactPathKernel(run, rule or GaussLegendre(), progress=False)
