"""Kernels of finite networks of many architectures: draws by width, their means, spreads and biases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from analytic.activations import erf, gelu, relu
from notebooks.topics.statistics import Array, Mean, PowerLaw
from numeric.estimate import Estimate
from numeric.experiments.ensembles import Ensemble
from numeric.infinite import (
    SAME,
    AveragePool,
    Convolution,
    Dense,
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
from numeric.infinite.groups import Action, p4, symmetric
from numeric.inputs import generator_for

S3, WINDOW = Action(symmetric(3)), Window(3, SAME)
Shape = tuple[int, ...]
ARCHITECTURES: Mapping[str, tuple[Sequence[object], Shape]] = {
    "dense": ([Dense(), relu, Dense(), relu, Dense()], (4,)),
    "convolutions": ([Convolution(3), relu, Convolution(3), relu, GlobalPool(), Dense()], (2, 6)),
    "pools": ([Convolution(3), gelu, AveragePool(), Convolution(3), gelu, Flatten(), Dense()], (2, 6)),
    "residual": (
        [Convolution(3), Residual([], [relu, Convolution(3)]), relu, Flatten(), Dense()], (2, 6),
    ),
    "layer norm": ([Convolution(3), LayerNorm(), relu, Convolution(3), erf, Flatten(), Dense()], (2, 6)),
    "attention": ([Convolution(1), relu, SelfAttention(1.5), relu, GlobalPool(), Dense()], (2, 6)),
    "S3": ([Lift(S3), relu, GroupConvolution(), relu, GroupPool(), Dense()], (2, 6)),
    "sphere": ([S2Convolution(3), erf, SO3Convolution(), GroupPool(), Dense()], (2, 4)),
}  # fmt: skip
ROTATIONS = [Lift(p4, WINDOW), relu, GroupConvolution(WINDOW), relu, GroupPool(), Dense()]
KERNELS = ("ntk", "nngp")
WIDTHS = (4, 8, 16, 32)
POINTS = 3
OUTPUTS = 4  # for each channel: over their products the NNGP kernel of a draw is the mean


def network(layers: Sequence[object]) -> Network:
    return Network(layers, 1.4, 0.2, progress=False)


def inputs(shape: Shape, seed: int = 0, n: int = POINTS) -> Tensor:
    """Signals (n, channels, ...) of independent normal numbers."""
    return torch.randn(n, *shape, generator=generator_for("signals", seed), dtype=torch.float64)


@dataclass(frozen=True, eq=False)
class Entries:
    """The entries of a Gram matrix on and above its diagonal: exact, and means of draws by width."""

    exact: Array  # (entries,)
    by_width: Mapping[int, Mean]
    count: int  # draws

    def off(self, width: int) -> float:
        """The relative mean square distance of one draw from the limit."""
        mean = self.by_width[width]
        return float(np.mean(((mean.mean - self.exact) ** 2 + mean.spread**2) / self.exact**2))

    def bias(self, width: int) -> tuple[Array, Array]:
        """Mean over limit less 1, for each entry, and its standard error."""
        mean = self.by_width[width]
        return mean.mean / self.exact - 1, mean.stderr / np.abs(self.exact)

    def sigmas(self, width: int) -> float:
        """How many standard errors the mean is off, at most."""
        mean = self.by_width[width]
        return float((np.abs(mean.mean - self.exact) / mean.stderr).max())

    @property
    def extrapolated(self) -> tuple[Array, Array]:
        """At infinite width by a line in 1/width, weighted by standard errors: value and its error.

        The narrowest networks are left out: 1/width^2 matters there.
        """
        wide = sorted(self.by_width)[1:]
        x = np.array([1 / width for width in wide])
        means = np.stack([self.by_width[width].mean for width in wide])
        weights = np.stack([self.by_width[width].stderr for width in wide]) ** -2.0
        s, sx, sxx = (np.sum(weights * (x**k)[:, None], 0) for k in range(3))
        sy, sxy = (np.sum(weights * means * (x**k)[:, None], 0) for k in range(2))
        determinant = s * sxx - sx**2
        return (sxx * sy - sx * sxy) / determinant, np.sqrt(sxx / determinant)

    @property
    def law(self) -> PowerLaw:
        """How fast single draws come near the limit: mean squares by width."""
        return PowerLaw.fit(list(self.by_width), [self.off(width) for width in self.by_width])


def entries(
    net: Network, x: Tensor, kernel: str, widths: Sequence[int], draws: int, seed: int = 0
) -> Entries:
    """Both sides for a network on signals x (n, channels, ...), with so many draws a width."""
    upper = torch.triu_indices(len(x), len(x))
    by_width = {}
    for width in widths:
        start = seed + width * 1_000_000  # no network is drawn twice
        outputs = OUTPUTS * width if kernel == "nngp" else 1
        kind = {"shape": tuple(x.shape[1:]), "outputs": outputs, "seed": start}
        ensemble = Ensemble.draw(net, width, draws, **kind)
        grams = getattr(ensemble, kernel)(x)
        by_width[width] = Mean.of(Estimate.of(grams[:, upper[0], upper[1]]))
    exact = getattr(net, kernel)(x)[upper[0], upper[1]]
    return Entries(exact.numpy(), by_width, draws)


@lru_cache(maxsize=64)
def of_architecture(architecture: str, kernel: str, width: int, draws: int, seed: int) -> Entries:
    """One width of one of the architectures."""
    layers, shape = ARCHITECTURES[architecture]
    return entries(network(layers), inputs(shape), kernel, (width,), draws, seed)


@dataclass(frozen=True, eq=False)
class FiniteKernels:
    """Of one architecture: entries at one width, and one entry at all widths up to it."""

    now: Entries
    width: int
    widths: Array
    entry: Mean  # (widths,), that of the first two signals
    limit: float


def finite_kernels(architecture: str, kernel: str, width: int, draws: int) -> FiniteKernels:
    """Networks of so many channels; their kernel is `ntk` or `nngp`."""
    widths = sorted({*(one for one in WIDTHS if one < width), width})
    entries_at = {one: of_architecture(architecture, kernel, one, draws, 0) for one in widths}
    means = [entries_at[one].by_width[one] for one in widths]
    parts = (
        np.array([getattr(mean, name)[1] for mean in means])
        for name in ("mean", "spread", "stderr")
    )
    now = entries_at[width]
    return FiniteKernels(now, width, np.array(widths, float), Mean(*parts), float(now.exact[1]))
