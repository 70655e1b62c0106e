r"""Random networks of growing width, and how their kernels approach those of infinite width.

Over networks of width n an entry of the empirical kernels spreads as $n^{-1/2}$, and its mean is
off by $c/n + O(n^{-2})$. This bias is exactly zero, at every width,
with one hidden layer, in both kernels and both parametrisations, for its units are independent;
at any depth for an affine activation, whose kernel is linear in the covariances of its layer;
and at any depth on the diagonal for a two-slope activation such as the ReLU: a change of sign of
all that enters a unit exchanges its slopes, so that $\phi'^2$ has one mean at every covariance.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import sympy as sp
import torch
from torch import Tensor

from numeric.estimate import Estimate, Slope, power_law
from numeric.experiments.deep_width.bias import Bias
from numeric.infinite.finite_width import FiniteNetwork
from numeric.infinite.network import FullyConnected
from numeric.infinite.parametrisation import Standard
from numeric.inputs import (
    ArrayLike,
    InputError,
    as_path,
    generator_for,
    points,
    require_float_dtype,
    require_instance,
    require_writable,
    resolve,
    whole,
    whole_numbers,
)
from numeric.progress import progress_bar
from numeric.runs.store import checkpoint, fingerprint

__all__ = ["Approach", "Approaches", "KernelSweep"]

Advance = Callable[[int], object]  # of a progress bar
BLOCK = 2**20  # numbers in the largest tensors held


@dataclass(frozen=True, eq=False)
class Approach:
    """One kernel at every width, with its infinite-width values, in float64 on the CPU."""

    exact: dict[int, Tensor]  # width -> (m, m)
    at: dict[int, Estimate]  # width -> estimate over networks, (m, m)

    def sigmas(self, factor: float = 1.0) -> Tensor:
        """Standard errors between the widest networks and `factor` times the infinite kernel.

        With more draws than units these include the bias; `bias(i, j).expansion()` separates it.
        """
        widest = max(self.at)
        return self.at[widest].sigmas_from(factor * self.exact[widest])

    def bias(self, i: int, j: int, factor: float = 1.0) -> Bias:
        """The bias of one entry, relative to `factor` times the infinite kernel."""
        off = [(e.mean - factor * self.exact[n])[i, j].item() for n, e in self.at.items()]
        errors = [e.stderr[i, j].item() for e in self.at.values()]
        return Bias(tuple(self.at), tuple(off), tuple(errors))

    def spread_slope(self) -> Slope:
        """How the spread over networks, averaged over entries, falls with width."""
        return power_law(list(self.at), [e.spread.mean().item() for e in self.at.values()])


@dataclass(frozen=True, eq=False)
class Approaches:
    """The results of a sweep, for both kernels."""

    nngp: Approach
    ntk: Approach


@dataclass(frozen=True, eq=False)
class KernelSweep:
    """The kernels of random networks of growing width, at a few points.

    The tangent kernel of the standard parametrisation grows with the width, so it is divided by it.

    network: of infinite width. x: points (m, d), an array, list or tensor. widths: whole numbers that
    differ. draws: networks of each width, 2 at least. store: a folder in which each finished width is
    stored, and reused by the next run. `run` returns the Approaches of both kernels to those of infinite
    width. Refused are kernels that overflow the dtype, and files of other runs.

    >>> from analytic.activations import relu
    >>> net = FullyConnected(relu, 1, 1.4, 0.1)
    >>> approaches = KernelSweep(net, [[1.0, 0.0], [0.0, 1.0]], (4, 8), draws=10, device="cpu").run(False)
    >>> approaches.ntk.at[8].mean.shape
    torch.Size([2, 2])
    """

    network: FullyConnected
    x: ArrayLike  # (m, d), a tensor in float64 from the start on
    widths: tuple[int, ...] = (16, 32, 64, 128, 256, 512)
    draws: int = 10_000
    seed: int = 0
    device: str | torch.device = "auto"
    dtype: torch.dtype = torch.float64
    store: str | Path | None = None

    def __post_init__(self) -> None:
        require_instance(
            "network", self.network, FullyConnected, "FullyConnected(relu, 2, 1.4, 0.1)"
        )
        whole_numbers("widths", self.widths)
        whole("draws", self.draws, 2)
        whole("seed", self.seed, 0)
        require_float_dtype(self.dtype)
        resolve(self.device)
        if self.store is not None:
            as_path(self.store)
        object.__setattr__(self, "x", points(self.x))

    def run(self, progress: bool = True) -> Approaches:
        """Draw all networks and measure their kernels."""
        if self.store is not None:
            require_writable(as_path(self.store) / "width")
        x = points(self.x).to(resolve(self.device), self.dtype)
        exact: dict[int, Tensor] = {}
        at: dict[int, Estimate] = {}
        total = self.draws * len(self.widths)
        with progress_bar(of="networks", show=progress, total=total) as bar:
            for width in self.widths:
                bar.set_postfix(width=width)
                exact[width] = self._exact(width, x.to("cpu", torch.float64))
                at[width] = self._estimate(width, x, exact[width], bar.update)
        kernels = (
            Approach(
                {n: both[k] for n, both in exact.items()},
                {n: Estimate(e.mean[k], e.spread[k], e.count) for n, e in at.items()},
            )
            for k in (0, 1)
        )
        return Approaches(*kernels)

    def _scale(self, width: int) -> int:
        return width if isinstance(self.network.parametrisation, Standard) else 1

    def _exact(self, width: int, x: Tensor) -> Tensor:
        """NNGP and NTK of infinite width: (2, m, m)."""
        net = self.network
        if isinstance(net.parametrisation, Standard):
            net = replace(net, parametrisation=Standard(width))
        return torch.stack([net.nngp(x), net.ntk(x) / self._scale(width)])

    def _estimate(self, width: int, x: Tensor, exact: Tensor, advance: Advance) -> Estimate:
        """The estimate stored by an earlier run, or else measured and stored."""
        if self.store is None:
            return self._measure(width, x, exact, advance)
        run = self._fingerprint(width, x)
        file = checkpoint(as_path(self.store) / f"width-{width}-{run[:16]}.pt", run)
        if (stored := file.read()) is not None:
            advance(self.draws)
            return Estimate(**stored)
        estimate = self._measure(width, x, exact, advance)
        file.write(vars(estimate))
        return estimate

    def _measure(self, width: int, x: Tensor, exact: Tensor, advance: Advance) -> Estimate:
        """NNGP and NTK over networks, (2, m, m), from sums over stacks."""
        generator = generator_for("networks", self.seed, width, device=x.device)
        kind = {"generator": generator, "dtype": self.dtype}
        total, squares = torch.zeros_like(exact), torch.zeros_like(exact)
        for stack in self._stacks(width):
            with torch.no_grad():
                net = FiniteNetwork(self.network, width, x.shape[1], stack=stack, **kind)
                kernels = torch.stack([net.nngp(x), net.ntk(x) / self._scale(width)], 1)
            off = (
                kernels.to("cpu", torch.float64) - exact
            )  # differences first, so that the variance does not cancel
            total += off.sum(0)
            squares += (off**2).sum(0)
            advance(stack)
        if not torch.isfinite(squares).all():
            raise InputError(
                f"Kernels of networks of width {width} overflow {self.dtype}: take smaller x or "
                "sigma_w, or a tamer activation."
            )
        mean = total / self.draws
        variance = (squares - self.draws * mean**2).clamp(min=0) / (self.draws - 1)
        return Estimate(exact + mean, variance.sqrt(), self.draws)

    def _stacks(self, width: int) -> list[int]:
        """Draws in groups that fit in memory."""
        largest = max(width, *points(self.x).shape) ** 2
        size = max(1, min(self.draws, BLOCK // largest))
        full, rest = divmod(self.draws, size)
        return [size] * full + [rest] * (rest > 0)

    def _fingerprint(self, width: int, x: Tensor) -> str:
        """A hash of everything that the draws and their kernels depend on."""
        net = self.network
        phis = [sp.srepr(act.phi.floating) for act in net.activations]
        return fingerprint(
            phis, net.sigma_w, net.sigma_b, type(net.parametrisation).__name__, self._stacks(width),
            x, self.seed,
        )  # fmt: skip
