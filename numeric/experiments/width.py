"""Does the geometry of random finite networks concentrate on the closed form as width grows?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from analytic.activations.activation import Activation
from analytic.expressions.formula import Formula
from analytic.geometry import nngp
from numeric.estimate import Estimate, Slope, power_law
from numeric.inputs import (
    InputError,
    positive,
    require_float_dtype,
    require_instance,
    require_seed,
    resolve,
    values_on_a_line,
    whole,
    whole_numbers,
)
from numeric.models.shallow import ShallowNetwork
from numeric.progress import progress_bar

__all__ = ["Convergence", "Sweep", "WidthSweep"]

BLOCK = 2**23  # preactivations held at once


@dataclass(frozen=True)
class Convergence:
    """One quantity at every width and radius, with its infinite-width value."""

    radii: Tensor  # (m,)
    exact: Tensor  # (m,)
    at: dict[int, Estimate]  # width -> estimate over realisations, each (m,)

    @property
    def widest(self) -> Estimate:
        """The estimate at the largest width."""
        return self.at[max(self.at)]

    def sigmas(self, factor: float = 1.0) -> Tensor:
        """Standard errors between the widest networks and `factor` times the closed form."""
        return self.widest.sigmas_from(factor * self.exact)

    def spread_slope(self) -> Slope:
        """How the spread over realisations, averaged over radii, falls with width."""
        spreads = [self.at[width].spread.mean().item() for width in self.at]
        return power_law(list(self.at), spreads)


@dataclass(frozen=True)
class Sweep:
    """The results of a width sweep."""

    magnification: Convergence
    ricci: Convergence


@dataclass(frozen=True)
class WidthSweep:
    """Random Gaussian networks of growing width, along a ray (curvature paper, Figure 1).

    activation: without open parameters. widths: whole numbers. realisations: networks of each width, 2 at
    least. d: inputs. sigma, zeta: standard deviations of weights and biases. radii: distances of the
    points from the origin, (m,). `run` returns a Sweep of the volume element and the Ricci scalar:
    estimates at every width and radius beside the exact values of infinite width.

    >>> from analytic.activations import erf
    >>> sweep = WidthSweep(erf, widths=(10, 20), realisations=3, radii=(0.5, 1.0), device="cpu").run(False)
    >>> sweep.ricci.exact.shape, list(sweep.ricci.at)
    (torch.Size([2]), [10, 20])
    """

    activation: Activation
    widths: tuple[int, ...] = (100, 1_000, 10_000)
    realisations: int = 25
    d: int = 2
    sigma: float = 1.0
    zeta: float = 1.0
    radii: tuple[float, ...] = field(default=tuple(torch.linspace(0, 5, 51).tolist()))
    seed: int = 0
    device: str | torch.device = "auto"
    dtype: torch.dtype = torch.float64

    def __post_init__(self) -> None:
        require_instance("activation", self.activation, Activation, "erf")
        whole_numbers("widths", self.widths)
        whole("realisations", self.realisations, 2)
        whole("d", self.d)
        positive("sigma", self.sigma)
        positive("zeta", self.zeta, zero=True)
        require_seed(self.seed)
        require_float_dtype(self.dtype)
        if (values_on_a_line("radii", self.radii, torch.empty(0, dtype=torch.float64)) < 0).any():
            raise InputError(f"radii must be numbers at least 0, not {self.radii}.")

    def run(self, progress: bool = True) -> Sweep:
        """Draw all networks and measure them."""
        generator = torch.Generator(resolve(self.device)).manual_seed(self.seed)
        radii = torch.tensor(self.radii, dtype=self.dtype, device=generator.device)
        direction = torch.arange(1, self.d + 1, dtype=self.dtype, device=generator.device)
        x = radii[:, None] * direction / direction.norm()
        volume: dict[int, Estimate] = {}
        scalar: dict[int, Estimate] = {}
        for width in progress_bar(self.widths, of="widths", show=progress):
            draws = [self._draw(width, stack, x, generator) for stack in self._stacks(width)]
            volumes, scalars = (torch.cat(parts) for parts in zip(*draws, strict=True))
            volume[width], scalar[width] = Estimate.of(volumes), Estimate.of(scalars)
        return Sweep(
            Convergence(radii, self._exact(nngp.magnification, radii), volume),
            Convergence(radii, self._exact(nngp.ricci, radii), scalar),
        )

    def _stacks(self, width: int) -> list[int]:
        """Realisations in groups that fit in memory."""
        size = max(1, min(self.realisations, BLOCK // (width * len(self.radii))))
        full, rest = divmod(self.realisations, size)
        return [size] * full + [rest] * (rest > 0)

    def _draw(
        self, width: int, stack: int, x: Tensor, generator: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        network = ShallowNetwork.gaussian(
            self.activation,
            width,
            self.d,
            self.sigma,
            self.zeta,
            generator=generator,
            stack=stack,
            dtype=self.dtype,
        )
        return network.magnification(x), network.ricci_scalar(x)

    def _exact(self, formula: Callable[[Activation], Formula], radii: Tensor) -> Tensor:
        return formula(self.activation).torch(self.d, self.sigma, self.zeta, radii)
