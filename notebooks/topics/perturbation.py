"""What one learned example does to volumes: printed and corrected formulas, their checks, and maps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from analytic.perturbation import chi, fluctuation, magnification
from notebooks.topics.statistics import Array

OVERLAPS = np.linspace(0, 1, 201)
TARGETS = np.linspace(0, 3, 121)  # y / |x_a|^q


def change(d: int, q: int, rho: Any, y: Any) -> Any:
    """What stands before 1/n in the posterior mean of sqrt(det g); y is in units of |x_a|^q."""
    return magnification.numpy(d=d, q=q, rho=rho, ratio=np.square(y), n=1) - 1


def as_printed(d: int, q: int, rho: Any, y: Any) -> Any:
    """The same by (E.38)."""
    return (np.square(y) - 1) * (chi.numpy(d=d, q=q, rho=rho) - d) / 4


def threshold(d: int, q: int, rho: Any) -> Any:
    """The target, in units of |x_a|^q, from which areas grow."""
    excess = chi.numpy(d=d, q=q, rho=rho) - d
    return np.sqrt(1 - 4 * fluctuation.numpy(d=d, q=q) / excess)


@dataclass(frozen=True, eq=False)
class ChiCurves:
    """Figure E.1: chi against the overlap, by dimension and degree, and by its definition at a few."""

    overlaps: Array
    closed_form: Mapping[tuple[int, int], Array]
    check_overlaps: Array
    checks: Mapping[tuple[int, int], Array]


def chi_curves(
    check: Callable[[int, int, float], float],
    dimensions: Sequence[int] = (2, 100),
    degrees: Sequence[int] = range(1, 11),
) -> ChiCurves:
    places = np.linspace(0, 1, 5)
    keys = [(d, q) for d in dimensions for q in degrees]
    return ChiCurves(
        OVERLAPS,
        {(d, q): chi.numpy(d=d, q=q, rho=OVERLAPS) for d, q in keys},
        places,
        {(d, q): np.array([check(d, q, rho) for rho in places]) for d, q in keys},
    )


@dataclass(frozen=True, eq=False)
class TargetCurves:
    """The coefficient of 1/n against the target, by both formulas, for one d, q and rho."""

    d: int
    q: int
    rho: float
    targets: Array
    corrected: Array
    printed: Array


def by_target(d: int, q: int, rho: float) -> TargetCurves:
    at = (d, q, rho, TARGETS)
    return TargetCurves(d, q, rho, TARGETS, change(*at), as_printed(*at))


@dataclass(frozen=True, eq=False)
class Sampled:
    """Means of samples with their standard errors, against anything."""

    at: Array
    mean: Array
    stderr: Array


@dataclass(frozen=True)
class LineFit:
    """A straight line through points with error bars, and the standard error of its value at 0."""

    value: float
    stderr: float
    slope: float

    @classmethod
    def through(cls, x: Any, y: Any, stderr: Any) -> LineFit:
        (slope, value), cov = np.polyfit(x, y, 1, w=1 / np.asarray(stderr), cov="unscaled")
        return cls(float(value), float(cov[1, 1] ** 0.5), float(slope))


@dataclass(frozen=True, eq=False)
class AreaMap:
    """The coefficient of 1/n in the plane around an example, for one target; along it and across it."""

    target: float
    change: Array  # (n, n), rows upwards
    along: float  # at overlap 1
    across: float  # at overlap 0


@dataclass(frozen=True, eq=False)
class AreaMaps:
    """Maps for several targets, against infinite width and against untrained networks."""

    side: Array  # (n,): both coordinates
    example: tuple[float, float]
    q: int
    against_infinite_width: Sequence[AreaMap]
    against_untrained: Sequence[AreaMap]


def area_maps(targets: Sequence[float], q: int, example: tuple[float, float]) -> AreaMaps:
    side = np.linspace(-2, 2, 200)  # even: the origin has no direction
    grid = np.stack(np.meshgrid(side, side))
    rho = np.tensordot(example, grid, 1) / (np.linalg.norm(example) * np.linalg.norm(grid, axis=0))

    def one(read: Callable[..., Any], y: float) -> AreaMap:
        ends = (float(read(2, q, overlap, y)) for overlap in (1.0, 0.0))
        return AreaMap(y, read(2, q, rho.clip(-1, 1), y), *ends)

    rows = ([one(read, y) for y in targets] for read in (change, as_printed))
    return AreaMaps(side, example, q, *rows)


@dataclass(frozen=True, eq=False)
class MeanVolume:
    """Mean volume over its limit by one formula: by overlap, by target, and where the sliders are."""

    by_overlap: Array
    by_target: Array
    here: float


@dataclass(frozen=True, eq=False)
class LearnedExample:
    """Volumes after one example was learned, by both formulas, and the numbers that they are made of."""

    q: int
    rho: float
    y: float
    n: int
    overlaps: Array
    targets: Array
    corrected: MeanVolume
    printed: MeanVolume
    threshold: float
    excess: float  # chi - d
    fluctuation: float  # kappa

    @property
    def too_narrow(self) -> bool:
        """Whether the first order in 1/n is not small."""
        return abs(self.corrected.here - 1) > 0.2


def learned_example(q: int, d: int, rho: float, y: float, n: int) -> LearnedExample:
    rho = rho if d > 1 else 1.0  # on a line all points are parallel
    overlaps = OVERLAPS if d > 1 else OVERLAPS[-1:]
    volumes = (
        MeanVolume(
            1 + read(d, q, overlaps, y) / n,
            1 + read(d, q, rho, TARGETS) / n,
            float(1 + read(d, q, rho, y) / n),
        )
        for read in (change, as_printed)
    )
    numbers = (
        float(threshold(d, q, rho)),
        float(chi.numpy(d=d, q=q, rho=rho) - d),
        float(fluctuation.numpy(d=d, q=q)),
    )
    return LearnedExample(q, rho, y, n, overlaps, TARGETS, *volumes, *numbers)
