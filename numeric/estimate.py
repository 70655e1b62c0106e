"""Means with standard errors, their agreement with exact values, and fitted power laws."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from numeric.inputs import ArrayLike, InputError, as_numbers

__all__ = ["Estimate", "Slope", "power_law"]


@dataclass(frozen=True)
class Estimate:
    """The mean of independent draws, their standard deviation, and the standard error of the mean."""

    mean: Tensor
    spread: Tensor  # standard deviation of one draw
    count: int

    @classmethod
    def of(cls, draws: ArrayLike) -> Estimate:
        """The estimate from draws along the first axis, (n, ...); fewer than two, or NaN, are refused.

        >>> Estimate.of([1.0, 2.0, 3.0]).mean.item()
        2.0
        """
        draws = as_numbers("draws", draws, "(n, ...)")
        draws = draws if draws.is_floating_point() else draws.double()
        if draws.ndim < 1 or len(draws) < 2:
            raise InputError(
                f"An estimate needs at least 2 draws, but {tuple(draws.shape)} were given."
            )
        if not torch.isfinite(draws).all():
            raise InputError("An estimate needs finite draws, but some are NaN or infinite.")
        return cls(draws.mean(0), draws.std(0), len(draws))

    @property
    def stderr(self) -> Tensor:
        """The standard error of the mean."""
        return self.spread / math.sqrt(self.count)

    def sigmas_from(self, exact: float | ArrayLike) -> Tensor:
        """How many standard errors the mean lies from a value; 0/0 is 0, and infinite without spread."""
        if not isinstance(exact, Tensor):
            exact = as_numbers("exact", exact, f"{tuple(self.mean.shape)}").to(self.mean)
        off = (self.mean - exact).abs()
        return torch.where(off == 0, torch.zeros_like(off), off / self.stderr)


@dataclass(frozen=True)
class Slope:
    """The exponent of a fitted power law and its standard error."""

    value: float
    stderr: float


def power_law(x: ArrayLike, y: ArrayLike) -> Slope:
    """The slope of log y against log x by least squares, from three pairs of positive numbers at least.

    >>> round(power_law([1, 10, 100], [1, 0.1, 0.01]).value, 12)
    -1.0
    """
    x, y = (as_numbers(name, values, "(n,)").double() for name, values in (("x", x), ("y", y)))
    if x.ndim != 1 or y.ndim != 1:
        shapes = f"{tuple(x.shape)} and {tuple(y.shape)}"
        raise InputError(f"A slope needs numbers of shape (n,), but {shapes} were given.")
    if len(x) != len(y) or len(x) < 3:
        raise InputError(
            f"A slope needs at least 3 pairs, but {len(x)} x and {len(y)} y were given."
        )
    if not (torch.cat([x, y]) > 0).all():
        raise InputError("A power law needs positive numbers on both axes.")
    u, v = x.log(), y.log()
    u = u - u.mean()
    slope = (u @ v) / (u @ u)
    rest = v - v.mean() - slope * u
    stderr = torch.sqrt((rest @ rest) / (len(x) - 2) / (u @ u))
    return Slope(slope.item(), stderr.item())
