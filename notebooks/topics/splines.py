"""What univariate ReLU networks interpolate: terms of the tangent kernel, fits, second derivatives."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy.interpolate import CubicSpline

from analytic.expressions.arguments import InputError
from analytic.splines import INITIALISATIONS, Initialisation
from notebooks.topics.statistics import Array, Mean, PowerLaw
from numeric.estimate import Estimate
from numeric.experiments.random_features import RandomFeatures
from numeric.splines import SplineInterpolant
from numeric.splines.natural import natural

Data = tuple[Array, Array]
Function = Callable[[Any], Array]
LAWS = tuple(INITIALISATIONS)
FIVE = ((-0.8, 0.3), (-0.4, -0.2), (0.0, 0.5), (0.5, 0.1), (0.9, -0.4))
REACH = 1.5
LINE = np.linspace(-REACH, REACH, 301)


@dataclass(frozen=True)
class Setting:
    """A law of hidden units with numbers for its parameters."""

    initialisation: Initialisation
    values: Mapping[str, float]

    @classmethod
    def of(cls, name: str, A: float = 1.0, B: float = 1.0) -> Setting:
        """By name; A and B are the scales of a and b, as far as the law has such."""
        init = INITIALISATIONS[name]
        scales = {"A": A, "B": B, "sa": A, "sb": B}
        return cls(init, {symbol.name: scales[symbol.name] for symbol in init.parameters})

    def terms(self, x: Any, y: Any, ec2: float) -> dict[str, Array]:
        """The three terms of (27), whose sum is the tangent kernel."""
        both = self.initialisation.both.numpy(x=x, y=y, **self.values)
        kernel = self.initialisation.rf.numpy(x=x, y=y, **self.values)
        return {"c": kernel, "a": ec2 * x * y * both, "b": ec2 * both}

    def interpolant(self, x: Any, y: Any, **kind: float) -> SplineInterpolant:
        return SplineInterpolant(self.initialisation, self.values, **kind).fit(x, y)


def has_scale(law: str, scale: str) -> bool:
    """Whether a law has a parameter for A or B, under this name or as a standard deviation."""
    names = {symbol.name for symbol in INITIALISATIONS[law].parameters}
    return bool(names & {scale, "sa"})


def largest_distance(one: Function, other: Function, x: Sequence[float]) -> float:
    """The largest difference of two functions between the data, at 1001 points."""
    grid = np.linspace(min(x), max(x), 1_001)
    return float(np.abs(one(grid) - other(grid)).max())


@dataclass(frozen=True, eq=False)
class KernelSlice:
    """The tangent kernel of one point with many, in closed form and as means over a network's units.

    All are by term of the kernel: "c", "a" and "b", the parameter that its gradients belong to.
    """

    line: Array
    exact: Mapping[str, Array]  # on the line
    points: Array
    network: Mapping[str, Mean]  # at the points
    sigmas: Mapping[str, Array]  # by how many standard errors the network is off


def kernel_slice(
    setting: Setting, x: float, points: Array, ec2: float, network: Mapping[str, Estimate]
) -> KernelSlice:
    line = np.linspace(points.min(), points.max(), 401)
    exact = setting.terms(x, points, ec2)
    sigmas = {k: network[k].sigmas_from(torch.from_numpy(exact[k])).numpy() for k in exact}
    means = {name: Mean.of(estimate) for name, estimate in network.items()}
    return KernelSlice(line, setting.terms(x, line, ec2), points, means, sigmas)


@dataclass(frozen=True, eq=False)
class Fit:
    """Functions through the data, and how far networks are from the natural spline by width."""

    data: Data
    grid: Array
    networks: Mapping[str, Array]
    kernel: Array
    spline: Array
    approaches: Mapping[str, PowerLaw]
    limit: float  # how far the kernel's interpolant is from the spline


def fit(
    data: Data, networks: Mapping[str, Function], kernel: Function, spline: Function,
    approaches: Mapping[str, PowerLaw],
) -> Fit:  # fmt: skip
    grid = np.linspace(data[0].min() - 0.1, data[0].max() + 0.1, 1_201)
    limit = largest_distance(kernel, spline, data[0])
    curves = {label: network(grid) for label, network in networks.items()}
    return Fit(data, grid, curves, kernel(grid), spline(grid), approaches, limit)


def slopes(f: Function, grid: Array) -> Array:
    """Of a function, over each cell of a grid."""
    return np.diff(f(grid)) / np.diff(grid)


def second_differences(f: Function, grid: Array) -> Array:
    """f'' at the inner points of a grid."""
    return np.diff(slopes(f, grid)) / np.diff(grid)[1:]


@dataclass(frozen=True, eq=False)
class SecondDerivative:
    """f'' of an interpolant: by differences, and as density times polygon at a few points."""

    title: str
    grid: Array
    differences: Array
    dots: Array
    polygon: Array
    edges: tuple[float, ...]  # where it may break


def second_derivative(
    title: str, f: Function, polygon: Function, edges: tuple[float, ...], grid: Array
) -> SecondDerivative:
    inner = grid[1:-1]
    dots = inner[:: max(1, len(inner) // 40)]
    return SecondDerivative(title, inner, second_differences(f, grid), dots, polygon(dots), edges)


@dataclass(frozen=True, eq=False)
class NotSplines:
    """Slopes of interpolants, f'' of others, and f'' of the natural spline between the data."""

    data: Data
    middles: Array  # of the cells of a grid
    slopes: Mapping[str, Array]
    others: Sequence[SecondDerivative]
    inside: Array
    spline: Array


def not_splines(
    data: Data, grid: Array, functions: Mapping[str, Function], others: Sequence[SecondDerivative]
) -> NotSplines:
    spline = CubicSpline(*data, bc_type="natural")
    inside = np.linspace(*spline.x[[0, -1]], 201)
    curves = {label: slopes(f, grid) for label, f in functions.items()}
    return NotSplines(data, (grid[1:] + grid[:-1]) / 2, curves, others, inside, spline(inside, 2))


@dataclass(frozen=True, eq=False)
class Interpolants:
    """What m units and infinitely many make of the points, and the natural spline; or why they do not."""

    x: Array
    y: Array
    line: Array
    curves: Mapping[str, Array]  # "network", "kernel" and "spline", on the line
    distances: Mapping[str, Array]  # of each from the spline
    largest: Mapping[str, float]  # of these, between the data
    refusal: str = ""


def interpolants(law: str, A: float, B: float, m: int, ridge: float, points: Any) -> Interpolants:
    x, y = np.array(points, float).T
    try:
        curves = _curves(Setting.of(law, A, B), m, ridge, x, y)
    except InputError as refusal:
        return Interpolants(x, y, LINE, {}, {}, {}, str(refusal))
    between = (x.min() <= LINE) & (x.max() >= LINE)
    distances = {name: np.abs(curve - curves["spline"]) for name, curve in curves.items()}
    largest = {name: float(off[between].max()) for name, off in distances.items()}
    return Interpolants(x, y, LINE, curves, distances, largest)


def _curves(setting: Setting, m: int, ridge: float, x: Array, y: Array) -> dict[str, Array]:
    spline = natural(x, y)(LINE)  # refuses points above points
    kernel = setting.interpolant(x, y, ridge=ridge).predict(LINE)
    hidden = RandomFeatures(setting.initialisation, setting.values, m, device="cpu")
    network = hidden.fit(x, y, ridge).predict(LINE).numpy()
    return {"network": network, "kernel": kernel, "spline": spline}
