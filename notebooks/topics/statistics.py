"""Named arrays that several topics show: means over networks, convergence in width, power laws, charts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from numeric.estimate import Estimate, power_law

if TYPE_CHECKING:
    from numeric.experiments.width import Convergence

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Mean:
    """The mean of draws, the standard deviation of one of them, and the standard error of the mean."""

    mean: Array
    spread: Array
    stderr: Array

    @classmethod
    def of(cls, estimate: Estimate) -> Mean:
        parts = (estimate.mean, estimate.spread, estimate.stderr)
        return cls(*(part.cpu().numpy() for part in parts))


@dataclass(frozen=True, eq=False)
class WidthCurves:
    """A quantity of random networks along a ray, by width, and its value at infinite width."""

    radii: Array
    exact: Array
    by_width: Mapping[int, Mean]

    @classmethod
    def of(cls, quantity: Convergence) -> WidthCurves:
        means = {width: Mean.of(estimate) for width, estimate in quantity.at.items()}
        return cls(quantity.radii.cpu().numpy(), quantity.exact.cpu().numpy(), means)


@dataclass(frozen=True, eq=False)
class PowerLaw:
    """Pairs that may lie on a power law, and the exponent that least squares fit to them."""

    x: Array
    y: Array
    slope: float

    @classmethod
    def fit(cls, x: Sequence[float], y: Sequence[float]) -> PowerLaw:
        return cls(np.asarray(x, float), np.asarray(y, float), power_law(x, y).value)


@dataclass(frozen=True)
class LinePlot:
    """Curves with marks: x, y and perhaps standard errors, by label."""

    title: str
    xlabel: str
    lines: Mapping[str, Sequence[Any]]
    log: bool = False
