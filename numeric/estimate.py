"""Means with standard errors, their agreement with exact values, and fitted power laws."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from numeric.inputs import InputError


@dataclass(frozen=True)
class Estimate:
    """The mean of independent draws, their standard deviation, and the standard error of the mean."""

    mean: Tensor
    spread: Tensor  # standard deviation of one draw
    count: int

    @classmethod
    def of(cls, draws: Tensor) -> Estimate:
        """The estimate from draws along the first axis."""
        if draws.ndim < 1 or len(draws) < 2:
            raise InputError(
                f"An estimate needs at least 2 draws, but {tuple(draws.shape)} were given."
            )
        if not torch.isfinite(draws).all():
            raise InputError("An estimate needs finite draws, but some are NaN or infinite.")
        return cls(draws.mean(0), draws.std(0), len(draws))

    @property
    def stderr(self) -> Tensor:
        return self.spread / math.sqrt(self.count)

    def sigmas_from(self, exact: Tensor) -> Tensor:
        """How many standard errors the mean lies from a value; 0/0 is 0, and infinite without spread."""
        off = (self.mean - exact).abs()
        return torch.where(off == 0, torch.zeros_like(off), off / self.stderr)


@dataclass(frozen=True)
class Slope:
    """The exponent of a fitted power law and its standard error."""

    value: float
    stderr: float


def power_law(x: Sequence[float], y: Sequence[float]) -> Slope:
    """The slope of log y against log x by least squares."""
    if len(x) != len(y) or len(x) < 3:
        raise InputError(
            f"A slope needs at least 3 pairs, but {len(x)} x and {len(y)} y were given."
        )
    if min(*x, *y) <= 0:
        raise InputError("A power law needs positive numbers on both axes.")
    u, v = (torch.tensor(values, dtype=torch.float64).log() for values in (x, y))
    u = u - u.mean()
    slope = (u @ v) / (u @ u)
    rest = v - v.mean() - slope * u
    stderr = torch.sqrt((rest @ rest) / (len(x) - 2) / (u @ u))
    return Slope(slope.item(), stderr.item())
