"""A small network, its data and short training runs, which tests of the loop share."""

from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from numeric.runs import Run, train

SGD = partial(torch.optim.SGD, lr=0.05, momentum=0.9, weight_decay=1e-3)


def data(n: int = 23) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(5)
    x = torch.randn(n, 3, generator=generator, dtype=torch.float64)
    return x, (x.prod(1) > 0).long()


def model(dropout: float = 0.0) -> nn.Module:
    generator = torch.Generator().manual_seed(6)
    net = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Dropout(dropout), nn.Linear(8, 2)).double()
    for p in net.parameters():
        p.data.normal_(generator=generator)
    return net


def trained(steps: int = 40, net: nn.Module | None = None, **more: object) -> Run:
    kind = {"optimizer": SGD, "device": "cpu", "progress": False} | more
    return train(net or model(), F.cross_entropy, data(), steps=steps, **kind)


def same(one: Run, other: Run) -> bool:
    states = zip(one.snapshots.values(), other.snapshots.values(), strict=True)
    return torch.equal(one.losses, other.losses) and all(
        torch.equal(a[name], b[name]) for a, b in states for name in a
    )
